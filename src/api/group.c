/* A member of a group: the host's one unit is its part of all cells (group/member.h). */
#include "api/group_impl.h"

#include "base/clock.h"
#include "base/lines.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PAGE_EVERY_NS = 2000000,   /* how often the page is filled while there is work, */
    PAGE_IDLE_NS = 50000000,   /* and while there is none */
    RESET_EVERY_NS = 50000000, /* how often it looks whether somebody wants a cell reset */
    LEAVE_MS = 2000,
};

#define MS UINT64_C(1000000)

_Static_assert((int)TRAM_MEMBERS_MAX == (int)GROUP_HOSTS_MAX, "one limit, in two headers");
_Static_assert((int)TRAM_COLUMNS == (int)MEMBER_COLUMNS, "likewise");
_Static_assert((int)CLUSTER_MEMBERS_MAX == (int)GROUP_HOSTS_MAX, "and in the cluster file");
_Static_assert((int)CLUSTER_CELLS_MAX == (int)GROUP_CELLS_MAX, "likewise");
_Static_assert((int)TRAM_SENDERS_MAX == (int)GROUP_SENDERS_MAX, "likewise");
_Static_assert((int)CLUSTER_KEEPERS_MAX == (int)GROUP_KEEPERS_MAX, "likewise");
_Static_assert((int)CLUSTER_RDMC_AUTO == (int)RDMC_AUTO &&
                   (int)CLUSTER_RDMC_RACKS == (int)RDMC_RACKS,
               "one list, in two headers");

/* ---- what the member calls ---- */

static void on_deliver(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *in,
                       uint32_t count)
{
    struct tram_group *g = ctx;
    struct tram_item item[MEMBER_ITEMS_MAX];
    uint64_t bytes = 0;
    CHECK(count <= MEMBER_ITEMS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        item[i] = (struct tram_item){.data = in[i].data,
                                     .bytes = in[i].bytes,
                                     .sender = in[i].sender,
                                     .number = in[i].number,
                                     .client = in[i].client};
        bytes += in[i].bytes;
    }
    g->cell[cell].delivered += count;
    g->cell[cell].bytes += bytes;
    if (g->trace)
        group_trace_deliver(g, cell, in, count);
    if (g->machine.deliver)
        g->machine.deliver(g->ctx, cell, vid, item, count);
    if (g->topics > 0 || g->cell[cell].history)
        group_topics_deliver(g, cell, vid, item, count);
}

static void on_view(void *ctx, const struct view *before, const struct view *now)
{
    struct tram_group *g = ctx;
    if (g->trace)
        group_trace_view(g, now);
    group_histories_view(g, now);
    group_view_changed(g, before, now);
}

static void on_returned(void *ctx, uint32_t cell, const void *data, uint32_t bytes)
{
    struct tram_group *g = ctx;
    if (g->machine.returned)
        g->machine.returned(g->ctx, cell, data, bytes);
}

static void on_progress(void *ctx, const struct large_progress *p)
{
    struct tram_group *g = ctx;
    if (g->machine.progress)
        g->machine.progress(g->ctx, p->cell, p->sender, p->bytes, p->of);
}

static void on_born(void *ctx, uint32_t cell)
{
    struct tram_group *g = ctx;
    if (g->cell[cell].history)
        group_topics_born(g, cell);
    if (g->machine.born)
        g->machine.born(g->ctx, cell);
}

static void on_persisted(void *ctx, uint32_t cell, uint64_t version)
{
    const struct tram_group *g = ctx;
    if (g->machine.persisted)
        g->machine.persisted(g->ctx, cell, version);
}

static const struct member_machine machine_calls = {.persisted = on_persisted,
                                                    .deliver = on_deliver,
                                                    .view = on_view,
                                                    .returned = on_returned,
                                                    .born = on_born,
                                                    .call = group_on_call,
                                                    .query = group_on_query,
                                                    .answered = group_on_answered,
                                                    .progress = on_progress,
                                                    .past = group_past,
                                                    .past_from = group_past_from,
                                                    .state = &group_state_calls,
                                                    .state_ctx = group_state_ctx};
static const struct member_machine stateless_calls = {.persisted = on_persisted,
                                                      .deliver = on_deliver,
                                                      .view = on_view,
                                                      .returned = on_returned,
                                                      .born = on_born,
                                                      .call = group_on_call,
                                                      .query = group_on_query,
                                                      .answered = group_on_answered,
                                                      .progress = on_progress};

/* The user's layout; what it leaves open is as the cluster file says. */
static void on_layout(void *ctx, const struct view *before, struct view *next)
{
    struct tram_group *g = ctx;
    struct tram_layout l = {.members = next->members, .cells = g->cells, .cell = g->layout_cell};
    group_plain_view(g, before, &g->proposed);
    for (uint32_t i = 0; i < g->cells; i++)
        l.cell[i] = (struct tram_layout_cell){.state = (enum tram_cell_state)next->cell[i].state,
                                              .stateful = next->cell[i].stateful};
    g->layout(g->layout_ctx, before->vid ? &g->proposed.view : NULL, &l);
    for (uint32_t i = 0; i < g->cells; i++) {
        struct view_cell *c = &next->cell[i];
        if (c->state == CELL_VACANT)
            continue;
        c->members = l.cell[i].members;
        c->senders =
            l.cell[i].senders ? l.cell[i].senders : c->members & g->options[i].layout.senders;
    }
}

/* ---- opening ---- */

struct tram_machine api_group_states(const struct tram_group_machine *m)
{
    return (struct tram_machine){
        .save = m->save,
        .load = m->load,
        .save_open = m->save_open,
        .save_next = m->save_next,
        .save_close = m->save_close,
        .load_open = m->load_open,
        .load_next = m->load_next,
        .load_close = m->load_close,
    };
}

/* Has anybody anything to give to who comes? */
static bool has_state(const struct tram_group *g)
{
    return g->machine.save != NULL || g->machine.save_open != NULL;
}

static int make_cells(struct tram_group *g, struct err *e)
{
    static const enum cell_mode modes[] = {[CLUSTER_MODE_MEMORY] = CELL_MEMORY,
                                           [CLUSTER_MODE_RAW] = CELL_RAW,
                                           [CLUSTER_MODE_LOGGED] = CELL_LOGGED,
                                           [CLUSTER_MODE_DURABLE] = CELL_DURABLE};
    const struct cluster *f = g->cluster->conf;
    bool stateless = !has_state(g);
    for (uint32_t i = 0; i < g->cells; i++) {
        uint32_t shard, at = cluster_cell_subgroup(f, i, &shard);
        const struct cluster_subgroup *s = &f->subgroup[at];
        g->options[i] = (struct cell_options){
            .mode = modes[s->mode],
            .ring_bytes = s->ring_bytes,
            .message_max = s->message_max,
            .stateless = stateless && s->history == 0,
            .past = s->history > 0,
            .sign = s->sign,
            .retain = s->retain,
            .large_max = s->large_max,
            .large_window = s->large_window,
            .rdmc = (enum rdmc_schedule)s->rdmc,
            .layout = {.hosts = s->hosts,
                       .members_min = s->members_min,
                       .members_max = s->members_max,
                       .senders = s->senders,
                       .subgroup = at,
                       .overlap = s->overlap},
        };
        g->cell[i].machine =
            (struct api_machine){.calls = api_group_states(&g->machine),
                                 .ctx = g->ctx,
                                 .group = i,
                                 .group_name = s->name,
                                 .heartbeat_ns = g->simulated ? 0 : f->heartbeat_ms * MS,
                                 .say = g->say};
        g->cell[i].of = g;
        if (s->history == 0 || !in_set(s->hosts, g->index))
            continue;
        g->cell[i].history = history_open(s->history);
        g->histories = true;
        if (g->cell[i].history == NULL)
            return err_set(e, ERR_NOMEM, "subgroup %s: no memory for its history", s->name);
    }
    return 0;
}

/* From the disk's threads. */
static void on_disk_over(void *ctx)
{
    struct tram_group *g = ctx;
    api_loop_wake(&g->run);
}

/* Times of versions are of the wall clock, which may be put right while it runs. */
static void tell_wall(struct tram_group *g)
{
    member_set_wall(g->member, clock_wall_ms() * MS - clock_now_ns());
}

/* But for seed, budget and disks. */
static struct member_options member_options(struct tram_group *g)
{
    const struct cluster *f = g->cluster->conf;
    for (uint32_t i = 0; i < f->keepers; i++)
        g->keeper[i] = f->keeper[i];
    struct member_options o = {
        .mem = g->run.mem,
        .hosts = f->hosts,
        .me = g->index,
        .keepers = g->keeper,
        .keepers_count = f->keepers,
        .cell = g->options,
        .cells = g->cells,
        .layout = g->layout ? on_layout : NULL,
        .layout_ctx = g,
        .view_majority = f->view_majority,
        .snap_bytes = f->snap_bytes,
        .block_bytes = f->block_bytes,
        .heartbeat_ns = f->heartbeat_ms * MS,
        .suspect_ns = f->suspect_ms * MS,
        .detach_ns = f->detach_ms * MS,
        .start_ns = f->start_ms ? f->start_ms * MS : 1, /* 0 would be the default */
        .clients = g->cluster->sizes.clients,
        .client_node = g->cluster->sizes.client_node,
        .machine = has_state(g) || g->histories ? &machine_calls : &stateless_calls,
        .ctx = g,
    };
    for (uint32_t h = 0; h < f->hosts; h++)
        o.rack[h] = (uint8_t)f->host[h].rack;
    return o;
}

static int open_member(struct tram_group *g, struct err *e)
{
    struct member_options o = member_options(g);
    int rc = group_kept_open(g->cluster, g->index, g->options, g->cells, on_disk_over, g, g->say,
                             &g->kept, e);
    if (rc != 0)
        return rc;
    o.seed = clock_now_ns() + g->index;
    o.budget = &g->run.host.budget;
    o.versions = g->kept.versions;
    o.disk = g->disk.disk;
    rc = member_open(&o, &g->member, e);
    if (rc != 0)
        return rc;
    tell_wall(g);
    host_add(&g->run.host, member_unit(g->member));
    g->added = true;
    return 0;
}

static enum cluster_wait wait_of(const struct tram_group_options *o, const struct cluster *f)
{
    static const enum cluster_wait waits[] = {[TRAM_WAIT_AUTO] = CLUSTER_WAIT_AUTO,
                                              [TRAM_WAIT_SPIN] = CLUSTER_WAIT_SPIN,
                                              [TRAM_WAIT_SLEEP] = CLUSTER_WAIT_SLEEP};
    return o->wait == TRAM_WAIT_FILE ? f->wait : waits[o->wait];
}

static int open_cells(struct tram_group *g, struct err *e)
{
    const struct cluster *f = g->cluster->conf;
    g->cells = cluster_cells(f);
    g->options = calloc(g->cells, sizeof(*g->options));
    g->cell = calloc(g->cells, sizeof(*g->cell));
    if (g->options == NULL || g->cell == NULL || !group_views_open(g))
        return err_set(e, ERR_NOMEM, "host %s: no memory", f->host[g->index].name);
    for (uint32_t h = 0; h < f->hosts; h++)
        g->host_name[h] = f->host[h].name;
    return make_cells(g, e);
}

static int open_all(struct tram_group *g, const struct tram_group_options *o, struct err *e)
{
    const struct tram_cluster *c = g->cluster;
    struct api_loop_options loop = {.cluster = c,
                                    .index = g->index,
                                    .wait = wait_of(o, c->conf),
                                    .traces = o->trace_dir != NULL,
                                    .say = &g->say};
    int rc = open_cells(g, e);
    if (rc == 0)
        rc = api_loop_check(&loop, e);
    if (rc == 0)
        rc = group_kept_disk(c, g->index, on_disk_over, g, &g->say, &g->disk, e);
    loop.disk = g->disk.disk;
    loop.lives = g->disk.disk ? &g->disk.lives : NULL;
    if (rc == 0)
        rc = api_loop_open(&g->run, &loop, e);
    if (rc != 0)
        return rc;
    g->page = group_page_open(g->run.home.dir, o->host, g->run.mem->life, g->cells, e);
    if (g->page == NULL)
        return ERR_SYSTEM;
    rc = o->trace_dir ? group_trace_open(g, o->trace_dir, e) : 0;
    if (rc == 0)
        rc = open_member(g, e);
    if (rc == 0 && g->disk.disk) {
        disk_forget(g->disk.disk);
        rc = api_disk_opened(&g->disk, c->sizes.clients, e);
    }
    if (rc == 0)
        rc = api_mem_limits(c, g->run.mem, e);
    if (rc == 0)
        api_mem_show(c, g->run.mem, g->page, group_page_bytes(g->cells));
    return rc;
}

static int check_options(const struct tram_cluster *c, const struct tram_group_options *o,
                         struct err *e)
{
    const char *name = o->host ? o->host : "";
    const struct tram_machine state = api_group_states(&o->machine);
    const char *mistake = api_machine_mistake(&state);
    if (c->conf->protocol != CLUSTER_GROUP)
        return err_set(e, ERR_INVALID,
                       "cluster %s has protocol: %s, and a member is of protocol: group; "
                       "tram_host_open makes a host of it",
                       c->conf->name, cluster_protocol_name(c->conf->protocol));
    if (cluster_host(c->conf, name) == CLUSTER_NONE)
        return err_set(e, ERR_NOTFOUND, "there is no host '%s' in cluster %s; %s", name,
                       c->conf->name, cluster_hosts_near(c->conf, name).s);
    if (mistake == NULL && (o->machine.save != NULL) != (o->machine.load != NULL))
        mistake = "a machine has both of save and load, or neither";
    if (mistake)
        return err_set(e, ERR_INVALID, "host %s: %s", name, mistake);
    if ((unsigned)o->wait > TRAM_WAIT_SLEEP)
        return err_set(e, ERR_INVALID, "host %s: wait is %d; it is one of enum tram_wait", name,
                       (int)o->wait);
    return 0;
}

/* Not open yet. */
static int group_new(const struct tram_cluster *c, const struct tram_group_options *o,
                     struct tram_group **out, struct err *e)
{
    int rc = check_options(c, o, e);
    if (rc != 0)
        return rc;
    struct tram_group *g = lines_alloc(sizeof(*g));
    if (g == NULL)
        return err_set(e, ERR_NOMEM, "host %s: no memory", o->host);
    g->cluster = c;
    g->index = (uint32_t)cluster_host(c->conf, o->host);
    g->machine = o->machine;
    g->ctx = o->ctx;
    g->layout = o->layout;
    g->layout_ctx = o->layout_ctx;
    g->leave_ms = o->leave_ms ? o->leave_ms : LEAVE_MS;
    g->log = o->log;
    g->say = api_say(c, &g->log);
    g->reset_cell = CLUSTER_NONE;
    api_loop_init(&g->run);
    *out = g;
    return 0;
}

int tram_group_open(const struct tram_cluster *c, const struct tram_group_options *o,
                    struct tram_group **out, struct tram_error *error)
{
    struct err e = {""};
    struct tram_group *g = NULL;
    int rc = group_new(c, o, &g, &e);
    if (rc != 0)
        return api_error(error, rc, &e);
    rc = open_all(g, o, &e);
    if (rc != 0) {
        tram_group_close(g);
        return api_error(error, rc, &e);
    }
    *out = g;
    return TRAM_OK;
}

/* Until it has left, or the time is over: who is left behind would wait for it. The last one has nobody to wait for it, and over a
 * network no majority of keepers to let it go. */
static void leave(struct tram_group *g)
{
    uint64_t until = clock_now_ns() + g->leave_ms * MS;
    const struct view *v = g->added ? member_view(g->member) : NULL;
    if (v == NULL || v->members == set_of(g->index) || member_broken(g->member))
        return;
    tram_group_leave(g);
    while (!member_left(g->member) && !member_broken(g->member) && clock_now_ns() < until)
        api_loop_step(&g->run);
    if (!member_left(g->member))
        say_event(&g->say, SAY_EVENT_NOT_LEFT,
                  "%s: has not left in %u ms, and ends as if it were killed",
                  g->host_name[g->index], g->leave_ms);
}

static void group_free(struct tram_group *g)
{
    for (uint32_t i = 0; g->cell && i < g->cells; i++) {
        api_machine_fini(&g->cell[i].machine);
        history_close(g->cell[i].history);
    }
    group_topics_close(g);
    group_trace_close(g);
    group_views_close(g);
    free(g->options);
    free(g->cell);
    free(g);
}

void tram_group_close(struct tram_group *g)
{
    if (g == NULL)
        return;
    CHECK(!g->inside);    /* not from within a callback */
    CHECK(!g->simulated); /* tram_group_leave, or tram_sim_kill */
    g->inside = true;
    leave(g);
    group_senders_close(g);
    atomic_store(&g->run.looping, false);
    if (g->run.mem)
        api_mem_show(g->cluster, g->run.mem, NULL, 0);
    group_kept_flush(&g->kept, g->leave_ms * MS);
    api_disk_stop(&g->disk);
    if (g->member)
        member_close(g->member);
    group_kept_close(&g->kept);
    group_page_close(g->page, g->run.home.dir, g->host_name[g->index]);
    api_loop_close(&g->run);
    api_disk_close(&g->disk);
    group_free(g);
}

/* ---- running ---- */

/* Predicates that an act adds are tested in the next round. */
static void test_predicates(struct tram_group *g)
{
    for (uint32_t i = 0, n = g->predicates; i < n; i++) {
        struct group_predicate *p = &g->predicate[i];
        if (!p->on)
            continue;
        bool was = p->was;
        p->was = p->is.test(g, p->is.ctx);
        if (!p->was || (p->is.kind == TRAM_EDGE && was))
            continue;
        if (p->is.kind == TRAM_ONCE)
            p->on = false;
        p->is.act(g, p->is.ctx);
    }
}

/* `tram view --reset` leaves the number of a cell in a file, HOST.reset. */
static void look_for_reset(struct tram_group *g, uint64_t now_ns)
{
    char path[sizeof(g->run.home.dir) + CLUSTER_NAME_BYTES + 8], text[16] = "";
    if (now_ns - g->reset_ns < RESET_EVERY_NS)
        return;
    g->reset_ns = now_ns;
    snprintf(path, sizeof(path), "%s/%s.reset", g->run.home.dir, g->host_name[g->index]);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) {
        ssize_t n = read(fd, text, sizeof(text) - 1);
        close(fd);
        unlink(path);
        long cell = n > 0 ? strtol(text, NULL, 10) : -1;
        if (cell >= 0 && cell < (long)g->cells)
            g->reset_cell = (int)cell;
    }
    if (g->reset_cell == CLUSTER_NONE)
        return;
    const struct cluster_cell_name name =
        cluster_cell_name(g->cluster->conf, (uint32_t)g->reset_cell);
    int rc = tram_group_reset_cell(g, (uint32_t)g->reset_cell, NULL);
    if (rc == TRAM_AGAIN)
        return;
    if (rc == TRAM_OK)
        say_event_about(&g->say, SAY_EVENT_RESET, &(struct say_about){.cell = name.s},
                        "%s: cell %s is reset, as it was asked to: it begins anew, empty",
                        g->host_name[g->index], name.s);
    g->reset_cell = CLUSTER_NONE;
}

/* Its machine, its disks and its rules. */
static int check_member(struct tram_group *g, struct err *e)
{
    const char *me = g->host_name[g->index];
    for (uint32_t i = 0; i < g->cells; i++)
        if (g->cell[i].machine.failure)
            return err_set(e, ERR_CORRUPT, "cell %s at host %s: %s",
                           cluster_cell_name(g->cluster->conf, i).s, me,
                           g->cell[i].machine.failure);
    if (g->disk.disk && disk_failure(g->disk.disk))
        return err_set(e, ERR_SYSTEM, "host %s: %s; the others go on", me,
                       disk_failure(g->disk.disk));
    const char *disk = member_leaves_why(g->member);
    if (disk && !g->left_said)
        say_event(&g->say, SAY_EVENT_DISK_ENDS, "%s: leaves, for its disk: %s", me, disk);
    g->left_said = disk != NULL;
    if (disk && member_left(g->member))
        return err_set(e, ERR_SYSTEM, "host %s has left, for its disk: %s", me, disk);
    if (member_broken(g->member) == NULL)
        return 0;
    const struct unit unit = member_unit(g->member);
    if (unit_status(&unit).lost)
        return err_set(e, ERR_DATA_LOST,
                       "host %s: the memory of a majority of the keepers is lost, and with it the "
                       "views; to begin anew with nothing, stop all hosts of the cluster, and "
                       "start them again",
                       me);
    return err_set(e, ERR_CORRUPT, "host %s: %s", me, member_broken(g->member));
}

static int check_round(struct tram_group *g, int work, struct err *e)
{
    const char *cut_off = api_mem_failure(g->cluster, g->run.mem);
    if (cut_off)
        return err_set(e, ERR_REFUSED, "host %s: %s", g->host_name[g->index], cut_off);
    int rc = check_member(g, e);
    return rc == 0 ? work : rc;
}

static int after_round(struct tram_group *g, int work, struct tram_error *error)
{
    struct err e = {""};
    uint64_t now_ns = g->run.host.round_ns;
    test_predicates(g);
    g->page_old |= work > 0;
    /* One that cannot go on has to say so now: it has no next round. */
    if (now_ns - g->page_ns < (uint64_t)(g->page_old ? PAGE_EVERY_NS : PAGE_IDLE_NS) &&
        member_broken(g->member) == NULL)
        return work;
    g->page_ns = now_ns;
    g->page_old = false;
    group_show(g, now_ns);
    group_watch(g, now_ns);
    tell_wall(g);
    look_for_reset(g, now_ns);
    return api_error(error, check_round(g, work, &e), &e);
}

/* Callbacks come from within a round, and another one must not begin there. */
static int run_round(struct tram_group *g, int (*round)(struct api_loop *),
                     struct tram_error *error)
{
    struct err e = {""};
    if (g->simulated)
        return api_error(error,
                         err_set(&e, ERR_INVALID,
                                 "host %s is simulated: tram_sim_run and the like step it",
                                 g->host_name[g->index]),
                         &e);
    if (g->inside)
        return api_error(error,
                         err_set(&e, ERR_INVALID, "host %s: stepped from within a callback",
                                 g->host_name[g->index]),
                         &e);
    g->inside = true;
    int replayed =
        g->histories ? group_topics_replay(g) : 0; /* who has more to be told does not sleep */
    int rc = after_round(g, (replayed ? api_loop_poll : round)(&g->run) + replayed, error);
    g->inside = false;
    return rc;
}

int tram_group_step(struct tram_group *g, struct tram_error *error)
{
    return run_round(g, api_loop_step, error);
}

int tram_group_poll(struct tram_group *g, struct tram_error *error)
{
    return run_round(g, api_loop_poll, error);
}

int tram_group_fd(struct tram_group *g, struct tram_error *error)
{
    struct err e = {""};
    int rc = g->simulated ? err_set(&e, ERR_INVALID, "host %s is simulated, and has no descriptor",
                                    g->host_name[g->index])
                          : api_loop_fd(&g->run, &e);
    return rc >= 0 ? rc : api_error(error, rc, &e);
}

void tram_group_wake(struct tram_group *g)
{
    if (g->simulated)
        group_touched(g);
    else
        api_loop_wake(&g->run);
}

void tram_group_leave(struct tram_group *g)
{
    g->leaving = true;
    member_leave(g->member);
    group_touched(g);
}

bool tram_group_has_left(const struct tram_group *g)
{
    return member_left(g->member);
}

/* ---- in a simulated world ---- */

static int open_place(struct tram_group *g, const struct api_group_place *p, struct err *e)
{
    int rc = open_cells(g, e);
    if (rc == 0 && p->block)
        rc = group_kept_open_on(p->block, g->cluster, g->index, g->options, g->cells, g->say,
                                &g->kept, e);
    if (rc != 0)
        return rc;
    struct member_options o = member_options(g);
    o.seed = p->seed;
    o.budget = p->budget;
    o.versions = g->kept.versions;
    o.disk = p->disk;
    rc = member_open(&o, &g->member, e);
    if (rc == 0)
        member_set_wall(g->member, p->wall_ns);
    return rc;
}

int api_group_open(const struct tram_cluster *c, const struct tram_group_options *o,
                   const struct api_group_place *p, struct tram_group **out, struct err *e)
{
    struct tram_group *g = NULL;
    int rc = group_new(c, o, &g, e);
    if (rc != 0)
        return rc;
    g->simulated = true;
    g->run.mem = p->mem;
    g->wake = p->wake;
    g->wake_ctx = p->ctx;
    rc = open_place(g, p, e);
    if (rc != 0) {
        api_group_end(g);
        return rc;
    }
    *out = g;
    return 0;
}

struct unit api_group_unit(struct tram_group *g)
{
    return member_unit(g->member);
}

struct member *api_group_member(const struct tram_group *g)
{
    return g->member;
}

struct versions *api_group_versions(const struct tram_group *g)
{
    return g->kept.versions;
}

int api_group_stepped(struct tram_group *g, struct err *e)
{
    test_predicates(g);
    if (g->histories && group_topics_replay(g) > 0)
        group_touched(g);
    return check_member(g, e);
}

/* The member is closed with its unit. */
void api_group_end(struct tram_group *g)
{
    versions_close(g->kept.versions);
    group_free(g);
}

/* ---- sending ---- */

int tram_group_cell(const struct tram_group *g, const char *subgroup, uint32_t shard)
{
    const struct cluster *f = g->cluster->conf;
    for (uint32_t i = 0; i < g->cells; i++) {
        uint32_t at, s = cluster_cell_subgroup(f, i, &at);
        if (at == shard && strcmp(f->subgroup[s].name, subgroup) == 0)
            return (int)i;
    }
    return TRAM_NOTFOUND;
}

int group_not_sent(const struct tram_group *g, uint32_t cell, int rc, uint32_t bytes, struct err *e)
{
    const struct cluster_cell_name name = cluster_cell_name(g->cluster->conf, cell);
    const struct view *v = member_view(g->member);
    if (rc == ERR_TOOBIG)
        return err_set(e, rc, "cell %s: a message of %u bytes; %s is %u", name.s, bytes,
                       g->options[cell].large_max ? "large_max" : "message_max",
                       member_message_max(g->member, cell));
    if (v && !member_wedged(g->member) && !in_set(v->cell[cell].senders, g->index))
        return err_set(e, ERR_REFUSED, "host %s is no %s of cell %s in view %llu",
                       g->host_name[g->index],
                       in_set(v->cell[cell].members, g->index) ? "sender" : "member", name.s,
                       (unsigned long long)v->vid);
    return err_set(e, rc, "cell %s: %s", name.s,
                   v == NULL     ? "this host is in no view"
                   : v->adequate ? "the ring is full, or the view ends"
                                 : "the view is not adequate");
}

/* The same, in two steps, so that what is sent is in the trace before it is. */
static int traced_send(struct tram_group *g, uint32_t cell, const void *data, uint32_t bytes,
                       struct tram_error *error)
{
    struct err e = {""};
    bool fits = bytes <= member_message_max(g->member, cell);
    void *room = fits ? member_reserve(g->member, cell, bytes) : NULL;
    if (room == NULL)
        return api_error(error, group_not_sent(g, cell, fits ? ERR_AGAIN : ERR_TOOBIG, bytes, &e),
                         &e);
    memcpy(room, data, bytes);
    tram_commit(g, cell, room, bytes);
    return TRAM_OK;
}

int tram_group_send(struct tram_group *g, uint32_t cell, const void *data, uint32_t bytes,
                    struct tram_error *error)
{
    struct err e = {""};
    if (cell >= g->cells)
        return api_error(error, err_set(&e, ERR_NOTFOUND, "there is no cell %u", cell), &e);
    if (g->trace)
        return traced_send(g, cell, data, bytes, error);
    group_touched(g);
    int rc = member_send(g->member, cell, data, bytes);
    if (rc == 0)
        return TRAM_OK;
    return api_error(error, group_not_sent(g, cell, rc, bytes, &e), &e);
}

void *tram_reserve(struct tram_group *g, uint32_t cell, uint32_t bytes)
{
    return cell < g->cells ? member_reserve(g->member, cell, bytes) : NULL;
}

void tram_commit(struct tram_group *g, uint32_t cell, void *room, uint32_t bytes)
{
    if (g->trace)
        group_trace_commit(g, cell, room, bytes);
    else
        member_commit(g->member, cell, room, bytes);
    group_touched(g);
}

void tram_release(struct tram_group *g, uint32_t cell, void *room)
{
    member_release(g->member, cell, room);
}

uint64_t tram_group_persisted(const struct tram_group *g, uint32_t cell, uint32_t host)
{
    if (cell >= g->cells || host >= g->cluster->conf->hosts)
        return 0;
    return member_persisted(g->member, cell, host);
}

uint32_t tram_group_message_max(const struct tram_group *g, uint32_t cell)
{
    return cell < g->cells ? member_message_max(g->member, cell) : 0;
}

/* ---- looking ---- */

const struct tram_view *tram_group_view(const struct tram_group *g)
{
    return g->in_view ? &g->seen[g->at].view : NULL;
}

bool tram_group_has_state(const struct tram_group *g, uint32_t cell)
{
    return cell < g->cells && g->in_view && member_has_state(g->member, cell);
}

const char *tram_group_waits(struct tram_group *g)
{
    return group_waits(g);
}

void tram_group_relayout(struct tram_group *g)
{
    member_relayout(g->member);
    group_touched(g);
}

int tram_group_reset_cell(struct tram_group *g, uint32_t cell, struct tram_error *error)
{
    struct err e = {""};
    struct keeper *k = member_keeper(g->member);
    const struct view *v = keeper_view(k);
    if (cell >= g->cells)
        return api_error(error, err_set(&e, ERR_NOTFOUND, "there is no cell %u", cell), &e);
    if (v && v->vid && v->cell[cell].state != CELL_VACANT)
        return api_error(error,
                         err_set(&e, ERR_INVALID, "cell %s is not vacant: its state is there",
                                 cluster_cell_name(g->cluster->conf, cell).s),
                         &e);
    if (!keeper_reset_cell(k, cell))
        return api_error(error,
                         err_set(&e, ERR_AGAIN,
                                 "host %s does not lead the keepers, or is busy with a view",
                                 g->host_name[g->index]),
                         &e);
    group_touched(g);
    return TRAM_OK;
}

void tram_group_counts(const struct tram_group *g, struct tram_group_counts *out)
{
    struct member_counts c;
    member_counts(g->member, &c);
    *out = (struct tram_group_counts){
        .views = c.views,
        .put_out = c.put_out,
        .sent = c.sent,
        .delivered = c.delivered,
        .delivered_bytes = c.delivered_bytes,
        .nulls = c.nulls,
        .trimmed = c.trimmed,
        .restamped = c.restamped,
        .returned = c.returned,
        .publishes = c.publishes,
        .upcalls = c.upcalls,
        .row_pushes = c.row_pushes,
        .states_sent = c.states_sent,
        .states_loaded = c.states_loaded,
    };
}

void api_group_state(struct tram_group *g, uint32_t cell, uint64_t count, uint64_t hash)
{
    g->cell[cell].state_count = count;
    g->cell[cell].state_hash = hash;
}

/* ---- columns ---- */

static bool is_column(const struct tram_group *g, uint32_t cell, uint32_t column)
{
    return cell < g->cells && column < TRAM_COLUMNS;
}

void tram_column_set(struct tram_group *g, uint32_t cell, uint32_t column, uint64_t value)
{
    if (is_column(g, cell, column) && value > member_column(g->member, cell, column, g->index))
        member_column_set(g->member, cell, column, value);
    group_touched(g);
}

uint64_t tram_column_get(const struct tram_group *g, uint32_t cell, uint32_t column, uint32_t host)
{
    if (!is_column(g, cell, column) || host >= g->cluster->conf->hosts)
        return 0;
    return member_column(g->member, cell, column, host);
}

uint64_t tram_column_min(const struct tram_group *g, uint32_t cell, uint32_t column)
{
    return is_column(g, cell, column) ? member_column_min(g->member, cell, column) : 0;
}

int tram_when(struct tram_group *g, const struct tram_predicate *p, struct tram_error *error)
{
    struct err e = {""};
    uint32_t at = 0;
    while (at < g->predicates && g->predicate[at].on)
        at++;
    if (at == TRAM_WHEN_MAX)
        return api_error(
            error, err_set(&e, ERR_NOMEM, "a group has at most %d predicates", TRAM_WHEN_MAX), &e);
    g->predicate[at] = (struct group_predicate){.is = *p, .on = true};
    g->predicates = at == g->predicates ? at + 1 : g->predicates;
    return (int)at;
}

void tram_when_end(struct tram_group *g, int number)
{
    if (number >= 0 && number < TRAM_WHEN_MAX)
        g->predicate[number].on = false;
}
