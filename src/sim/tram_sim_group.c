/* The public simulator under protocol group: what the fleet calls, members with the user's machine, and what they keep on disks. */
#include "api/group_kept.h"
#include "base/hash.h"
#include "sim/tram_sim_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DISK_STREAM = 11, /* of the seed */ WALL_SKEW_MS = 20 };

#define MS UINT64_C(1000000)

static struct world_member *member_at(const struct fleet_node *n)
{
    const struct tram_sim *s = n->fleet->ctx;
    return s->process[n->node].member;
}

static struct cell_compare_who who(const struct world_member *w, uint32_t cell)
{
    return (struct cell_compare_who){w->at->host->node, cell, tram_sim_now(w->sim)};
}

/* ---- the machine: the user's, with a checker beside it ---- */

static bool has_state(const struct tram_sim *s)
{
    return s->opt.group_machine.save || s->opt.group_machine.save_open;
}

static void show_state(struct world_member *w, uint32_t cell)
{
    void *data;
    size_t bytes;
    if (!has_state(w->sim) || w->sim->opt.replies_only)
        return;
    if (api_save_whole(&w->cell[cell].machine, &data, &bytes))
        cell_compare_state(w->sim->cells, who(w, cell), data, bytes);
    free(data);
}

/* Is the state compared after the message? */
static bool is_shown(const struct world_member *w, uint32_t cell)
{
    uint64_t count = cell_compare_count(w->sim->cells, who(w, cell));
    return count > 0 && count % w->sim->opt.compare_every == 0;
}

static void note_delivery(struct world_member *w, uint32_t cell, uint64_t view,
                          const struct tram_item *m, const void *reply, uint32_t reply_bytes)
{
    struct tram_sim *s = w->sim;
    chaos_trace(
        &s->fleet.chaos, "%s delivers %u bytes of %s in cell %u, view %" PRIu64 ", number %" PRIu64,
        w->at->host->name, m->bytes, s->cluster.conf->host[m->sender].name, cell, view, m->number);
    cell_compare_deliver(s->cells, who(w, cell), view, m, reply, reply_bytes);
    s->news++;
}

/* The machine is told before the view is; and where a disk is read, in the middle of one. */
static void note_born(struct world_member *w, uint32_t cell)
{
    if (!w->cell[cell].born)
        return;
    w->cell[cell].born = false;
    cell_compare_born(w->sim->cells, who(w, cell));
    show_state(w, cell);
}

/* One at a time where states are compared after each, so that the very message is found; a batch is of any size anyway. */
static void on_deliver(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                       uint32_t count)
{
    struct world_member *w = ctx;
    const struct tram_group_machine *m = &w->sim->opt.group_machine;
    note_born(w, cell);
    for (uint32_t i = 0; i < count; i++) {
        if (m->deliver)
            m->deliver(w->ctx, cell, view, &item[i], 1);
        note_delivery(w, cell, view, &item[i], NULL, 0);
        if (is_shown(w, cell))
            show_state(w, cell);
    }
}

static uint32_t on_call(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                        void *reply, uint32_t room)
{
    struct world_member *w = ctx;
    const struct tram_group_machine *m = &w->sim->opt.group_machine;
    uint32_t bytes = 0;
    note_born(w, cell);
    if (m->call)
        bytes = m->call(w->ctx, cell, view, item, reply, room);
    else if (m->deliver)
        m->deliver(w->ctx, cell, view, item, 1);
    bool whole = bytes <= room && room > 0; /* who asks for less room, or for none, gets less */
    note_delivery(w, cell, view, item, whole ? reply : NULL, whole ? bytes : 0);
    if (is_shown(w, cell))
        show_state(w, cell);
    return bytes;
}

static int on_query(void *ctx, uint32_t cell, uint32_t from, const void *data, uint32_t bytes,
                    void *reply, uint32_t room)
{
    const struct world_member *w = ctx;
    return w->sim->opt.group_machine.query(w->ctx, cell, from, data, bytes, reply, room);
}

static void on_answered(void *ctx, uint64_t ticket, const struct tram_answer *a)
{
    const struct world_member *w = ctx;
    w->sim->news++;
    if (w->sim->opt.group_machine.answered)
        w->sim->opt.group_machine.answered(w->ctx, ticket, a);
}

static void on_progress(void *ctx, uint32_t cell, uint32_t sender, uint64_t bytes, uint64_t of)
{
    const struct world_member *w = ctx;
    if (w->sim->opt.group_machine.progress)
        w->sim->opt.group_machine.progress(w->ctx, cell, sender, bytes, of);
}

static void note_view(struct world_member *w, bool goes_on)
{
    const struct member *m = api_group_member(w->group);
    for (uint32_t k = 0; k < cluster_cells(w->sim->cluster.conf); k++) {
        cell_compare_view(w->sim->cells, who(w, k), member_view(m), goes_on,
                          member_has_state(m, k));
        note_born(w, k);
    }
}

static void on_view(void *ctx, const struct tram_view *before, const struct tram_view *now)
{
    struct world_member *w = ctx;
    struct tram_sim *s = w->sim;
    const char *name = w->at->host->name;
    s->news++;
    if (now)
        chaos_trace(&s->fleet.chaos, "%s begins view %" PRIu64 " with %u of %u hosts", name,
                    now->number, set_count(now->members), now->hosts);
    else
        chaos_trace(&s->fleet.chaos, "%s is out", name);
    if (now)
        note_view(w, before != NULL);
    else
        cell_compare_out(s->cells, w->at->host->node);
    if (s->opt.group_machine.view)
        s->opt.group_machine.view(w->ctx, before, now);
}

static void on_returned(void *ctx, uint32_t cell, const void *data, uint32_t bytes)
{
    const struct world_member *w = ctx;
    w->sim->news++;
    if (w->sim->opt.group_machine.returned)
        w->sim->opt.group_machine.returned(w->ctx, cell, data, bytes);
}

static void on_born(void *ctx, uint32_t cell)
{
    struct world_member *w = ctx;
    if (w->sim->opt.group_machine.born)
        w->sim->opt.group_machine.born(w->ctx, cell);
    w->cell[cell].born = true;
}

static void on_persisted(void *ctx, uint32_t cell, uint64_t version)
{
    const struct world_member *w = ctx;
    if (w->sim->opt.group_machine.persisted)
        w->sim->opt.group_machine.persisted(w->ctx, cell, version);
}

/* ---- states: before the user's bytes it is said where in the cell's sequence they are ---- */

struct save {
    struct cell_compare_place place;
    uint32_t at; /* of the place */
    void *of;    /* the user's */
};

static void spend(struct world_member *w, uint64_t bytes)
{
    const struct tram_sim_options *o = &w->sim->opt;
    w->spent_ns += o->state_call_ns + o->state_kib_ns * bytes / 1024;
}

static void *on_save_open(void *ctx, uint32_t cell, uint64_t *bytes)
{
    struct world_member *w = ctx;
    struct save *s = calloc(1, sizeof(*s));
    CHECK(s != NULL);
    spend(w, 0);
    s->place = cell_compare_place(w->sim->cells, who(w, cell));
    s->of = api_save_open(&w->cell[cell].machine, bytes);
    if (s->of == NULL) {
        free(s);
        return NULL;
    }
    if (*bytes != TRAM_BYTES_UNKNOWN)
        *bytes += sizeof(s->place);
    return s;
}

static int on_save_next(void *ctx, uint32_t cell, void *save, void *out, uint32_t room)
{
    struct world_member *w = ctx;
    struct save *s = save;
    if (s->at < sizeof(s->place)) {
        uint32_t left = (uint32_t)sizeof(s->place) - s->at, n = left < room ? left : room;
        memcpy(out, (const unsigned char *)&s->place + s->at, n);
        s->at += n;
        return (int)n;
    }
    int got = api_save_next(&w->cell[cell].machine, s->of, out, room);
    spend(w, got > 0 ? (uint64_t)got : 0);
    return got;
}

static void on_save_close(void *ctx, uint32_t cell, void *save)
{
    struct world_member *w = ctx;
    struct save *s = save;
    api_save_close(&w->cell[cell].machine, s->of);
    free(s);
}

static int on_load_open(void *ctx, uint32_t cell, uint64_t bytes)
{
    struct world_member *w = ctx;
    struct world_cell *c = &w->cell[cell];
    c->place_bytes = 0;
    bool known = bytes != TRAM_BYTES_UNKNOWN && bytes >= sizeof(c->place);
    return api_load_open(&c->machine, known ? bytes - sizeof(c->place) : TRAM_BYTES_UNKNOWN);
}

static int on_load_next(void *ctx, uint32_t cell, const void *data, uint32_t bytes)
{
    struct world_member *w = ctx;
    struct world_cell *c = &w->cell[cell];
    uint32_t left = (uint32_t)sizeof(c->place) - c->place_bytes, n = left < bytes ? left : bytes;
    memcpy((unsigned char *)&c->place + c->place_bytes, data, n);
    c->place_bytes += n;
    spend(w, bytes);
    return n == bytes ? 0 : api_load_next(&c->machine, (const unsigned char *)data + n, bytes - n);
}

static int on_load_close(void *ctx, uint32_t cell, bool whole)
{
    struct world_member *w = ctx;
    struct world_cell *c = &w->cell[cell];
    spend(w, 0);
    int rc = api_load_close(&c->machine, whole);
    if (!whole || rc < 0 || c->place_bytes < sizeof(c->place))
        return rc;
    chaos_trace(&w->sim->fleet.chaos, "%s has loaded the state of cell %u: %" PRIu64 " messages",
                w->at->host->name, cell, c->place.count);
    cell_compare_loaded(w->sim->cells, who(w, cell), c->place);
    show_state(w, cell);
    w->sim->news++;
    return rc;
}

static struct tram_group_machine machine_of(const struct tram_sim *s)
{
    struct tram_group_machine m = {.deliver = on_deliver,
                                   .call = on_call,
                                   .query = s->opt.group_machine.query ? on_query : NULL,
                                   .answered = on_answered,
                                   .progress = on_progress,
                                   .view = on_view,
                                   .returned = on_returned,
                                   .born = on_born,
                                   .persisted = on_persisted};
    if (!has_state(s))
        return m;
    m.save_open = on_save_open;
    m.save_next = on_save_next;
    m.save_close = on_save_close;
    m.load_open = on_load_open;
    m.load_next = on_load_next;
    m.load_close = on_load_close;
    return m;
}

static void on_layout(void *ctx, const struct tram_view *before, struct tram_layout *next)
{
    const struct world_member *w = ctx;
    w->sim->opt.layout(w->ctx, before, next);
}

/* ---- disks ---- */

static int platters_make(struct world_member *w, struct err *e)
{
    const struct tram_sim *s = w->sim;
    struct disk_sim_options o = s->fleet.disk_options;
    o.seed = hash_mix(hash_mix(s->opt.seed, DISK_STREAM), w->at->host->node);
    w->platters = disk_sim_open(&o);
    return w->platters ? 0 : err_set(e, ERR_NOMEM, "no memory for a disk");
}

static struct block *disk_begin(struct world_member *w)
{
    w->disk_ns = tram_sim_now(w->sim);
    w->wakes_ns = 0;
    w->block = disk_sim_block(w->platters, &w->disk_ns);
    return w->block;
}

static void disk_event(void *ctx, uint64_t arg)
{
    struct fleet_node *n = ctx;
    (void)arg;
    fleet_wake(n);
}

/* Who sleeps is woken when an order is over. */
static void disk_step(struct world_member *w)
{
    if (w->platters == NULL)
        return;
    w->disk_ns = tram_sim_now(w->sim);
    uint64_t next = disk_sim_next_ns(w->platters);
    if (next == UINT64_MAX || next == w->wakes_ns)
        return;
    w->wakes_ns = next;
    sim_at(w->sim->fleet.sim, next > w->disk_ns ? next : w->disk_ns, disk_event, w->at->host, 0);
}

static void on_power_cut(struct fleet_node *n)
{
    const struct world_member *w = member_at(n);
    if (w->platters)
        disk_sim_power_cut(w->platters);
}

/* ---- what the fleet calls ---- */

static void host_born(struct fleet_node *n)
{
    struct tram_sim *s = n->fleet->ctx;
    s->process[n->node].ctx = s->opt.start ? s->opt.start(s->opt.user, n->name) : NULL;
    s->news++;
}

static void wake(void *ctx)
{
    struct world_member *w = ctx;
    w->sim->news++;
    fleet_wake(w->at->host);
}

static void cells_reset(struct world_member *w)
{
    const struct tram_sim *s = w->sim;
    for (uint32_t k = 0; k < cluster_cells(s->cluster.conf); k++)
        w->cell[k] =
            (struct world_cell){.machine = {.calls = api_group_states(&s->opt.group_machine),
                                            .ctx = w->ctx,
                                            .group = k,
                                            .group_name = ""}};
}

static int member_begin(struct fleet_member *m, uint64_t seed, struct err *e)
{
    struct tram_sim *s = m->host->fleet->ctx;
    struct world_member *w = member_at(m->host);
    w->ctx = s->process[m->host->node].ctx;
    w->at = m;
    cells_reset(w);
    int rc = 0;
    if (s->fleet.durable && w->platters == NULL)
        rc = platters_make(w, e);
    if (rc != 0)
        return rc;
    struct tram_group_options o = {.host = m->host->name,
                                   .machine = machine_of(s),
                                   .ctx = w,
                                   .layout = s->opt.layout ? on_layout : NULL,
                                   .layout_ctx = w};
    const struct api_group_place place = {.mem = m->host->mem,
                                          .budget = &m->host->budget,
                                          .seed = seed,
                                          .wall_ns = hash_mix(s->opt.seed, m->host->node) %
                                                     (WALL_SKEW_MS * MS),
                                          .block = w->platters ? disk_begin(w) : NULL,
                                          .disk = m->host->disk,
                                          .wake = wake,
                                          .ctx = w};
    rc = api_group_open(&s->cluster, &o, &place, &w->group, e);
    if (rc == 0)
        m->unit = api_group_unit(w->group);
    else if (w->platters)
        disk_sim_die(w->platters);
    return rc;
}

/* Its units are closed already. */
static void host_died(struct fleet_node *n)
{
    struct tram_sim *s = n->fleet->ctx;
    struct world_member *w = member_at(n);
    for (uint32_t k = 0; k < cluster_cells(s->cluster.conf); k++)
        api_machine_fini(&w->cell[k].machine);
    if (w->group) {
        cell_compare_out(s->cells, n->node);
        if (w->platters)
            disk_sim_die(w->platters);
        api_group_end(w->group);
    }
    w->group = NULL;
    if (s->opt.end)
        s->opt.end(s->opt.user, n->name, s->process[n->node].ctx);
    s->process[n->node].ctx = NULL;
    s->news++;
}

static void stepped(struct fleet_member *m)
{
    struct world_member *w = member_at(m->host);
    struct tram_sim *s = w->sim;
    struct err e = {""};
    int rc = 0;
    for (uint32_t k = 0; k < cluster_cells(s->cluster.conf) && rc == 0; k++)
        if (w->cell[k].machine.failure)
            rc = err_set(&e, ERR_CORRUPT, "cell %s at host %s: %s",
                         cluster_cell_name(s->cluster.conf, k).s, m->host->name,
                         w->cell[k].machine.failure);
    if (rc == 0)
        rc = api_group_stepped(w->group, &e);
    if (rc < 0) {
        world_fail(s, m->host, rc, e.text);
        return;
    }
    if (s->opt.step)
        s->opt.step(s->opt.user, m->host->name, w->ctx, w->group);
    disk_step(w);
}

static uint64_t spent_ns(struct fleet_member *m)
{
    struct world_member *w = member_at(m->host);
    uint64_t spent = w->spent_ns;
    w->spent_ns = 0;
    return spent;
}

static void violated(struct fleet_node *n, const char *property, const char *text)
{
    struct tram_sim *s = n->fleet->ctx;
    (void)property;
    world_fail(s, n, ERR_CORRUPT, text);
}

/* ---- what may befall them ---- */

static const struct member *member_of(const struct tram_sim *s, uint32_t host)
{
    const struct world_member *w = s->process[host].member;
    return w->group ? api_group_member(w->group) : NULL;
}

static bool is_stopped(const struct tram_sim *s, uint32_t host)
{
    return s->fleet.chaos.paused_until[host] == CHAOS_STOPPED;
}

/* The newest view that anybody who is up knows of; NULL: none. */
static const struct view *newest_view(const struct tram_sim *s)
{
    const struct view *newest = NULL;
    for (uint32_t h = 0; h < s->fleet.hosts; h++) {
        const struct member *m = member_of(s, h);
        const struct view *told = m ? keeper_view(member_keeper(m)) : NULL;
        const struct view *begun = m ? member_view(m) : NULL;
        if (told && told->vid > 0 && (newest == NULL || told->vid > newest->vid))
            newest = told;
        if (begun && (newest == NULL || begun->vid > newest->vid))
            newest = begun;
    }
    return newest;
}

/* It goes on in the view. */
static bool is_well_in(const struct tram_sim *s, const struct view *v, uint32_t host)
{
    const struct member *m = member_of(s, host);
    const struct view *own = m ? member_view(m) : NULL;
    return own && own->vid == v->vid && !member_wedged(m) && !is_stopped(s, host);
}

/* A keeper that could carry the views on. */
static bool keeps_well(const struct tram_sim *s, uint32_t host)
{
    const struct member *m = member_of(s, host);
    struct unit_status u;
    if (m == NULL || keeper_log(member_keeper(m)) == NULL)
        return false;
    log_status(keeper_log(member_keeper(m)), &u);
    return u.role != UNIT_JOINING && !u.behind;
}

static bool keepers_spare(const struct tram_sim *s, uint32_t host)
{
    const struct cluster *f = s->cluster.conf;
    uint32_t well = 0;
    bool keeps = false;
    for (uint32_t i = 0; i < f->keepers; i++) {
        keeps |= f->keeper[i] == host;
        well += f->keeper[i] != host && keeps_well(s, f->keeper[i]);
    }
    return !keeps || well > f->keepers / 2;
}

/* Somebody else goes on who has what the host has of each cell. */
static bool cells_spare(const struct tram_sim *s, const struct view *v, uint32_t host)
{
    for (uint32_t k = 0; k < v->cells; k++) {
        bool others = !in_set(v->cell[k].members, host);
        for (uint32_t h = 0; h < s->fleet.hosts && !others; h++)
            others = h != host && in_set(v->cell[k].members, h) && is_well_in(s, v, h) &&
                     member_has_state(member_of(s, h), k);
        if (!others)
            return false;
    }
    return true;
}

/* Those who go on are more than those who might come in and die at once. */
static bool members_spare(const struct tram_sim *s, const struct view *v, uint32_t host)
{
    uint32_t well = 0, away = 1;
    for (uint32_t h = 0; h < s->fleet.hosts; h++) {
        well += h != host && is_well_in(s, v, h);
        away += h != host && !is_well_in(s, v, h);
    }
    return s->cluster.conf->view_majority ? well > away : well > 0;
}

/* All that anybody delivered is on disks. */
static bool is_durable(const struct cluster *f)
{
    for (uint32_t i = 0; i < f->subgroups; i++)
        if (f->subgroup[i].mode != CLUSTER_MODE_DURABLE)
            return false;
    return f->subgroups > 0;
}

static bool may_crash(const struct fleet_node *n, bool keep_memory)
{
    const struct tram_sim *s = n->fleet->ctx;
    const struct view *v = newest_view(s);
    (void)keep_memory;
    if (is_durable(s->cluster.conf))
        return true;
    return v && keepers_spare(s, n->node) && members_spare(s, v, n->node) &&
           cells_spare(s, v, n->node);
}

static bool may_lose_disk(const struct fleet_node *n)
{
    (void)n;
    return false;
}

const struct fleet_calls world_group_calls = {
    .host_born = host_born,
    .host_died = host_died,
    .open = member_begin,
    .stepped = stepped,
    .spent_ns = spent_ns,
    .may_crash = may_crash,
    .may_lose_disk = may_lose_disk,
    .power_cut = on_power_cut,
    .violated = violated,
};

/* ---- is there anything under way? ---- */

static bool host_is_level(const struct tram_sim *s, const struct view *v, uint32_t host)
{
    const struct member *m = member_of(s, host);
    if (m == NULL || is_stopped(s, host) || member_left(m))
        return !in_set(v->members, host);
    if (!is_well_in(s, v, host))
        return false;
    for (uint32_t k = 0; k < v->cells; k++) {
        if (in_set(v->cell[k].learners, host))
            return false;
        if (in_set(v->cell[k].members, host) &&
            (!member_has_state(m, k) ||
             !cell_compare_has_all(s->cells, (struct cell_compare_who){host, k, 0})))
            return false;
    }
    return true;
}

/* One that waits for a host that is down waits as long as it is down. */
static bool all_down_or_found(const struct tram_sim *s, const struct view *v)
{
    bool all_up = true;
    for (uint32_t h = 0; h < s->fleet.hosts; h++)
        all_up &= member_of(s, h) != NULL;
    for (uint32_t k = 0; k < v->cells; k++)
        if (v->cell[k].state == CELL_VACANT && all_up)
            return false;
    return true;
}

static bool is_level(const struct tram_sim *s)
{
    const struct view *v = newest_view(s);
    bool none = true;
    for (uint32_t h = 0; h < s->fleet.hosts; h++)
        none &= member_of(s, h) == NULL || is_stopped(s, h);
    if (none || v == NULL)
        return none;
    for (uint32_t h = 0; h < s->fleet.hosts; h++)
        if (!host_is_level(s, v, h))
            return false;
    return all_down_or_found(s, v);
}

/* For so long that whoever waits for something would have said so. */
bool world_group_idle(struct tram_sim *s)
{
    const struct cluster *f = s->cluster.conf;
    uint64_t now = tram_sim_now(s), still = (f->suspect_ms + 2 * (uint64_t)f->heartbeat_ms) * MS;
    if (!is_level(s) || s->news + s->fleet.moves != s->still_news) {
        s->still_news = s->news + s->fleet.moves;
        s->still_ns = now;
        return false;
    }
    return now - s->still_ns >= still;
}

void world_group_stuck(const struct tram_sim *s, char *text, size_t bytes)
{
    const char *waits = NULL;
    for (uint32_t h = 0; h < s->fleet.hosts; h++) {
        const struct member *m = member_of(s, h);
        const struct view *v = m ? member_view(m) : NULL;
        size_t at = strlen(text);
        snprintf(text + at, bytes - at, " %s:%s/%" PRIu64, s->fleet.node[h].name,
                 m == NULL          ? "down"
                 : is_stopped(s, h) ? "stopped"
                 : member_left(m)   ? "left"
                 : v == NULL        ? "out"
                 : member_wedged(m) ? "wedged"
                                    : "in",
                 v ? v->vid : 0);
        if (m && waits == NULL)
            waits = tram_group_waits(s->process[h].member->group);
    }
    size_t at = strlen(text);
    if (waits)
        snprintf(text + at, bytes - at, "; %s", waits);
}

const char *world_group_leader(const struct tram_sim *s)
{
    const char *name = NULL;
    uint64_t epoch = 0;
    for (uint32_t h = 0; h < s->fleet.hosts; h++) {
        const struct fleet_member *m = &s->fleet.node[h].member[0];
        if (m->unit.of == NULL)
            continue;
        struct unit_status u = unit_status(&m->unit);
        if (u.role != UNIT_LEADER || u.epoch <= epoch)
            continue;
        name = s->fleet.node[h].name;
        epoch = u.epoch;
    }
    return name;
}

/* ---- opening ---- */

int world_group_check(struct tram_sim *s, struct err *e)
{
    struct tram_sim_options *o = &s->opt;
    const struct tram_group_machine *m = &o->group_machine;
    const struct tram_machine states = api_group_states(m);
    const char *mistake = api_machine_mistake(&states);
    if (o->machine.deliver || o->machine.save || o->machine.save_open)
        return err_set(e, ERR_INVALID,
                       "cluster %s has protocol: group, whose members have options.group_machine, "
                       "and not options.machine",
                       s->cluster.conf->name);
    if (mistake == NULL && (m->save != NULL) != (m->load != NULL))
        mistake = "a machine has both of save and load, or neither";
    if (mistake)
        return err_set(e, ERR_INVALID, "%s", mistake);
    if ((m->deliver || m->call || has_state(s)) && o->start == NULL)
        return err_set(e, ERR_INVALID,
                       "a simulation needs options.start, which makes the state of a host: without "
                       "it the hosts would share one");
    return 0;
}

void world_group_options(struct tram_sim *s, struct sim_options *so)
{
    const struct cluster *f = s->cluster.conf;
    so->shared = f->transport == CLUSTER_SHM;
    s->fleet.calls = &world_group_calls;
    s->fleet.group = s->alone;
    s->fleet.groups = f->hosts;
    s->fleet.durable = cluster_keeps(f);
    s->fleet.disk_options = (struct disk_sim_options){.seed = hash_mix(s->opt.seed, DISK_STREAM),
                                                      .flush_ns_min = s->opt.flush_ns_min,
                                                      .flush_ns_max = s->opt.flush_ns_max};
    s->fleet.log_bytes_max = keeper_log_bytes(f->hosts, cluster_cells(f));
}

int world_group_make(struct tram_sim *s, struct err *e)
{
    const struct cluster *f = s->cluster.conf;
    s->fleet.chaos.durable = is_durable(f);
    for (uint32_t h = 0; h < f->hosts; h++) {
        struct world_member *w = calloc(1, sizeof(*w));
        s->process[h].member = w;
        if (w == NULL)
            return err_set(e, ERR_NOMEM, "no memory for host %s", f->host[h].name);
        w->sim = s;
        w->at = &s->fleet.node[h].member[0];
        w->cell = calloc(cluster_cells(f), sizeof(*w->cell));
        if (w->cell == NULL)
            return err_set(e, ERR_NOMEM, "no memory for the cells of %s", f->host[h].name);
    }
    return 0;
}

void world_group_free(struct tram_sim *s)
{
    for (uint32_t h = 0; s->process && h < s->cluster.conf->hosts; h++) {
        struct world_member *w = s->process[h].member;
        if (w && w->platters)
            disk_sim_close(w->platters);
        if (w)
            free(w->cell);
        free(w);
    }
    cell_compare_close(s->cells);
    free(s->alone);
}

/* ---- what users call ---- */

struct tram_group *tram_sim_group(const struct tram_sim *s, const char *host)
{
    int h = host ? cluster_host(s->cluster.conf, host) : CLUSTER_NONE;
    return h == CLUSTER_NONE || !world_is_group(s) ? NULL : s->process[h].member->group;
}

struct reading {
    int (*fn)(void *ctx, const struct tram_version *);
    void *ctx;
};

static int on_version(void *ctx, const struct version *v, const void *payload)
{
    const struct reading *r = ctx;
    if (v->type != VERSION_MSG)
        return 0;
    return r->fn(r->ctx, &(struct tram_version){.version = v->version,
                                                .time_ns = v->time,
                                                .sender = v->sender,
                                                .bytes = v->bytes,
                                                .data = payload});
}

int tram_sim_versions_read(struct tram_sim *s, const char *host, const char *cell, uint64_t version,
                           uint64_t time_ns, int (*fn)(void *ctx, const struct tram_version *),
                           void *ctx, struct tram_error *error)
{
    struct err e = {""};
    struct reading r = {.fn = fn, .ctx = ctx};
    const struct cluster *f = s->cluster.conf;
    int h = host ? cluster_host(f, host) : CLUSTER_NONE;
    int k = cell && world_is_group(s) ? cluster_cell(f, cell) : CLUSTER_NONE;
    if (h == CLUSTER_NONE || k == CLUSTER_NONE || s->process[h].member->platters == NULL)
        return api_error(error,
                         err_set(&e, ERR_NOTFOUND,
                                 "there is no host '%s' with a disk that has a cell '%s'",
                                 host ? host : "", cell ? cell : ""),
                         &e);
    struct world_member *w = s->process[h].member;
    const struct versions_owner owner = group_kept_owner(&s->cluster, (uint32_t)h);
    bool up = w->group != NULL;
    if (up && disk_sim_next_ns(w->platters) != UINT64_MAX)
        return api_error(
            error, err_set(&e, ERR_AGAIN, "the disk of host %s is at work: run on", host), &e);
    struct block *block = up ? w->block : disk_begin(w);
    int rc = versions_read(block, &owner, versions_of_cell((uint32_t)k), version, time_ns,
                           on_version, &r, &e);
    if (!up)
        disk_sim_die(w->platters);
    return rc < 0 && e.text[0] ? api_error(error, rc, &e) : rc;
}
