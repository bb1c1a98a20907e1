/* The public simulator under protocol group: what the fleet calls, and what members keep on disks. */
#include "api/group_kept.h"
#include "base/hash.h"
#include "sim/tram_sim_impl.h"

#include <stdlib.h>

enum { DISK_STREAM = 11, /* of the seed */ WALL_SKEW_MS = 20 };

#define MS UINT64_C(1000000)

static struct world_member *member_at(const struct fleet_node *n)
{
    const struct tram_sim *s = n->fleet->ctx;
    return s->process[n->node].member;
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
                                   .machine = world_group_machine(s),
                                   .ctx = w,
                                   .layout = s->opt.layout ? world_group_layout : NULL,
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

const struct fleet_calls world_group_calls = {
    .host_born = host_born,
    .host_died = host_died,
    .open = member_begin,
    .stepped = stepped,
    .spent_ns = spent_ns,
    .may_crash = world_may_crash,
    .may_lose_disk = world_may_lose_disk,
    .power_cut = on_power_cut,
    .violated = violated,
};

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
    if ((m->deliver || m->call || world_has_state(s)) && o->start == NULL)
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
    s->fleet.chaos.durable = world_is_durable(f);
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
