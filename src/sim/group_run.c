/* A simulated group with views: hosts that come, go, send and deliver, the faults that befall them, and the verdict. */
#include "base/hash.h"
#include "base/planted.h"
#include "sim/group_impl.h"

#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

enum {
    RING = 4096,
    SNAP_PAD_MAX = 24 << 10,
    LIVENESS_MS = 30,
    QUIET_BEATS = 40,  /* how long nothing may happen when all is delivered, */
    SETTLE_BEATS = 20, /* after so long */
    SETTLE_TRIES = 4,
    LINGER_US_MAX = 300,
    SHARED_STREAM = 21, /* of the seed */
    LAYOUT_STREAM = 22,
    LOAD_STREAM = 23,
    KIND_STREAM = 24,
    LARGE_STREAM = 25,
};

static struct group_node *node_of(void *ctx)
{
    return ctx;
}

/* ---- what members are told ---- */

static void look_states(const struct group_node *n)
{
    struct group_check *c = &n->run->check;
    for (uint32_t k = 0; k < c->cells; k++)
        if ((c->tables || c->host[n->host].cell[k].behind) && member_has_state(n->member, k))
            group_check_has(c, n->host, k);
}

static void on_deliver(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *m,
                       uint32_t count)
{
    struct group_node *n = node_of(ctx);
    struct group_run *r = n->run;
    look_states(n);
    for (uint32_t i = 0; i < count; i++) {
        chaos_trace(&r->fleet.chaos,
                    "h%u delivers %u bytes of h%u, cell %u, view %llu, number %llu", n->host,
                    m[i].bytes, m[i].sender, cell, (ull)vid, (ull)m[i].number);
        group_disk_deliver(n, cell, vid, m[i].number);
        group_check_deliver(&r->check, n->host, cell, vid, &m[i]);
        sim_note(r->fleet.sim, hash_mix(m[i].number, n->host << 8 | cell));
    }
    uint64_t before = group_check_in_place(m, count);
    group_load_delivered(n, cell);
    if (r->linger_in != 0 && !r->fleet.chaos.calm && rng_below(&r->fleet.rng, r->linger_in) == 0)
        fleet_linger(&r->fleet.node[n->host], rng_range(&r->fleet.rng, 1, LINGER_US_MAX * RUN_US));
    if (group_check_in_place(m, count) != before)
        group_check_violated(&r->check, "in place", vid,
                             "what h%u delivers in cell %u changed meanwhile", n->host, cell);
}

static void trace_view(const struct group_node *n, const struct view *now)
{
    char text[200] = "";
    for (uint32_t k = 0; k < now->cells; k++) {
        const struct view_cell *c = &now->cell[k];
        size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, " | %s%llx send %llx state %llx learn %llx",
                 c->state == CELL_VACANT   ? "vacant "
                 : c->state == CELL_UNBORN ? "unborn "
                                           : "",
                 (ull)c->members, (ull)c->senders, (ull)c->stateful, (ull)c->learners);
    }
    const struct keeper *k = member_keeper(n->member);
    chaos_trace(&n->run->fleet.chaos, "h%u begins view %llu: %llx, keepers %llx (%u)%s%s", n->host,
                (ull)now->vid, (ull)now->members, (ull)keeper_set(k, now), now->keepers.generation,
                now->adequate ? "" : " (not adequate)", text);
}

/* The view that follows says that it left in order. */
static bool has_left(const struct group_node *n, const struct view *before)
{
    const struct view *next = keeper_view(member_keeper(n->member));
    return next && before && next->vid == before->vid + 1 && in_set(next->leavers, n->host);
}

static void on_view(void *ctx, const struct view *before, const struct view *now)
{
    struct group_node *n = node_of(ctx);
    struct group_run *r = n->run;
    sim_note(r->fleet.sim, hash_mix(now ? now->vid : 0, n->host));
    for (uint32_t k = 0; k < r->check.cells; k++)
        if (now == NULL || !in_set(now->cell[k].senders, n->host))
            group_load_void(n, k);
    uint32_t out = 0;
    for (uint32_t k = 0; k < r->check.cells; k++)
        out |= now == NULL || !in_set(now->cell[k].members, n->host) ? UINT32_C(1) << k : 0;
    group_disk_out(n,
                   r->check.stateless ? UINT32_MAX : out); /* then each view has its own history */
    if (now) {
        trace_view(n, now);
        group_check_view(&r->check, n->host, before, now);
        return;
    }
    bool left = has_left(n, before);
    chaos_trace(&r->fleet.chaos, "h%u %s", n->host, left ? "has left" : "is put out");
    group_check_out(&r->check, n->host, left);
}

static void on_returned(void *ctx, uint32_t cell, const void *data, uint32_t bytes)
{
    struct group_node *n = node_of(ctx);
    chaos_trace(&n->run->fleet.chaos, "h%u gets %u bytes back, cell %u", n->host, bytes, cell);
    group_load_void(n, cell);
    group_check_returned(&n->run->check, n->host, cell, data, bytes);
}

static void on_born(void *ctx, uint32_t cell)
{
    struct group_node *n = node_of(ctx);
    group_disk_out(n, UINT32_C(1) << cell);
    group_check_born(&n->run->check, n->host, cell);
}

static void *state_ctx(void *ctx, uint32_t cell)
{
    return &node_of(ctx)->cell[cell].counter;
}

static void on_loaded(struct counter_machine *counter, bool good)
{
    struct group_cell *c = (struct group_cell *)counter;
    struct group_node *n = c->node;
    bool behind = member_is_behind(n->member, c->cell);
    chaos_trace(&n->run->fleet.chaos, "h%u has loaded the state of cell %u: %llu deliveries%s",
                n->host, c->cell, (ull)counter->state.count, behind ? ", and is behind" : "");
    group_disk_out(n, UINT32_C(1) << c->cell);
    group_check_loaded(&n->run->check, n->host, c->cell, good, behind);
}

static uint32_t on_call(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *m,
                        void *reply, uint32_t room)
{
    struct group_node *n = node_of(ctx);
    on_deliver(ctx, cell, vid, m, 1);
    if (m->client)
        return group_client_reply(n, cell, reply, room);
    if (m->sender == n->host)
        group_ask_delivered(n, cell, m, vid);
    return group_ask_call(n, cell, m, reply, room);
}

static int on_query(void *ctx, uint32_t cell, uint32_t from, const void *data, uint32_t bytes,
                    void *reply, uint32_t room)
{
    if (from == MEMBER_ANY)
        return (int)group_client_reply(node_of(ctx), cell, reply, room);
    return group_ask_query(node_of(ctx), cell, from, data, bytes, reply, room);
}

static void on_answered(void *ctx, uint64_t ticket, const struct member_answer *a)
{
    group_ask_answered(node_of(ctx), ticket, a);
}

static void on_persisted(void *ctx, uint32_t cell, uint64_t version)
{
    group_disk_persisted(node_of(ctx), cell, version);
}

static const struct member_machine machine = {
    .persisted = on_persisted,
    .deliver = on_deliver,
    .call = on_call,
    .query = on_query,
    .answered = on_answered,
    .view = on_view,
    .returned = on_returned,
    .born = on_born,
    .state = &counter_machine_ops,
    .state_ctx = state_ctx,
};

static const struct member_machine stateless_machine = {
    .persisted = on_persisted,
    .deliver = on_deliver,
    .call = on_call,
    .query = on_query,
    .answered = on_answered,
    .view = on_view,
    .returned = on_returned,
    .born = on_born,
};

/* ---- layouts of a user's own ---- */

static uint64_t some_of(struct rng *g, uint64_t set)
{
    uint64_t some = set & rng_u64(g);
    return some | (rng_below(g, 3) ? set & rng_u64(g) : 0);
}

/* Any members and senders. What is against the rules is put right. */
static void draw_layout(void *ctx, const struct view *before, struct view *next)
{
    struct group_run *r = ctx;
    for (uint32_t k = 0; k < next->cells; k++) {
        struct view_cell *c = &next->cell[k];
        if (c->state == CELL_VACANT)
            continue;
        uint64_t may = next->members & r->cell[k].layout.hosts;
        c->members = rng_below(&r->rng, 3) ? may : some_of(&r->rng, may);
        uint64_t were = may & (before->cell[k].members | before->cell[k].learners);
        if (r->fleet.chaos.calm && were) /* who learns is a member some day */
            c->members = were;
        if (set_count(c->members) < r->cell[k].layout.members_min)
            c->members = may;
        c->senders = rng_below(&r->rng, 2) ? c->members : some_of(&r->rng, c->members);
    }
}

/* ---- hosts ---- */

static int open_member(struct fleet_member *m, uint64_t seed, struct err *e)
{
    struct group_run *r = m->host->fleet->ctx;
    struct group_node *n = &r->node[m->host->node];
    struct member_options o = r->member_opt;
    for (uint32_t k = 0; k < r->check.cells; k++) {
        n->cell[k] = (struct group_cell){.node = n, .cell = k};
        n->cell[k].counter = (struct counter_machine){.pad = r->pad,
                                                      .costs = r->state.costs,
                                                      .unsized = r->state.unsized,
                                                      .on_load = on_loaded};
    }
    o.mem = m->host->mem;
    o.me = m->host->node;
    o.budget = &m->host->budget;
    o.seed = seed;
    o.ctx = n;
    int rc = group_disk_open(n, e);
    if (rc)
        return rc;
    o.versions = n->disk.versions;
    o.disk = m->host->disk;
    rc = member_open(&o, &n->member, e);
    if (rc)
        return rc;
    m->unit = member_unit(n->member);
    member_set_wall(n->member, n->disk.wall_ns);
    return 0;
}

static void host_died(struct fleet_node *f)
{
    struct group_run *r = f->fleet->ctx;
    struct group_node *n = &r->node[f->node];
    struct group_figures *g = &r->check.result->group;
    g->put_out += n->counts.put_out;
    g->trimmed += n->counts.trimmed;
    g->restamped += n->counts.restamped;
    g->states += n->counts.states_sent;
    g->checkpoints += n->counts.checkpoints;
    g->learnt += n->counts.learnt;
    g->nulls += n->counts.nulls;
    g->large += n->counts.large_delivered;
    g->blocks += n->counts.blocks;
    g->deliveries += n->counts.delivered;
    n->counts = (struct member_counts){0};
    group_disk_died(n);
    n->member = NULL;
    n->rooms = 0;
    group_ask_died(n);
    n->returns = false;
    group_check_died(&r->check, f->node);
}

static void stepped(struct fleet_member *m)
{
    struct group_run *r = m->host->fleet->ctx;
    struct group_node *n = &r->node[m->host->node];
    member_counts(n->member, &n->counts);
    group_disk_step(n);
    group_limits_step(n);
    look_states(n);
    const char *broken = member_broken(n->member);
    if (broken && !r->keepers_doomed)
        group_check_violated(&r->check, "self-check", 0, "h%u: %s", n->host, broken);
    if (n->counts.torn)
        group_check_violated(&r->check, "self-check", 0,
                             "h%u finds what no member writes in a stream", n->host);
    if (r->check.result->property == NULL)
        group_load_step(n);
}

static uint64_t spent_ns(struct fleet_member *m)
{
    struct group_run *r = m->host->fleet->ctx;
    uint64_t sum = 0;
    for (uint32_t k = 0; k < r->check.cells; k++)
        sum += counter_machine_spent(&r->node[m->host->node].cell[k].counter);
    return sum;
}

static void violated(struct fleet_node *n, const char *property, const char *text)
{
    struct group_run *r = n->fleet->ctx;
    if (r->keepers_doomed && n->member[0].unit.of && unit_status(&n->member[0].unit).lost)
        return; /* as it has to say */
    group_check_violated(&r->check, property, 0, "%s", text);
}

static const struct fleet_calls fleet_calls = {
    .host_died = host_died,
    .open = open_member,
    .stepped = stepped,
    .spent_ns = spent_ns,
    .may_crash = group_may_crash,
    .spare = group_spare,
    .may_lose_disk = group_disk_may_be_lost,
    .disk_lost = group_disk_lost,
    .violated = violated,
    .client_open = group_client_open,
    .client_step = group_client_step,
    .client_close = group_client_close,
    .client_crash = group_client_crash,
};

/* ---- what is drawn ---- */

static void draw_cell(struct group_run *r, struct cell_options *c)
{
    struct rng *g = &r->fleet.rng;
    uint64_t all = (UINT64_C(1) << r->fleet.hosts) - 1;
    *c = (struct cell_options){.ring_bytes = RING};
    c->message_max = rng_below(g, 3) ? RING / 8 : (uint32_t)rng_range(g, 8, RING / 8);
    c->deliver_bytes = rng_below(g, 2) ? 0 : (uint32_t)rng_range(g, 1, 2 * RING);
    struct cell_layout *l = &c->layout;
    l->hosts = rng_below(g, 3) ? all : all & rng_u64(g);
    l->hosts = l->hosts ? l->hosts : all;
    uint32_t most = set_count(l->hosts);
    l->members_min = rng_below(g, 4) ? 1 : (uint32_t)rng_range(g, 1, most < 3 ? most : 3);
    l->members_max = rng_below(g, 3) ? 0 : (uint32_t)rng_range(g, l->members_min, most);
    l->senders = rng_below(g, 2) ? UINT64_MAX : all & rng_u64(g);
    l->overlap = true;
}

/* Shards of one subgroup share nobody. */
static void draw_shards(struct group_run *r)
{
    struct rng *g = &r->fleet.rng;
    bool shards = r->check.cells > 1 && r->fleet.hosts > r->check.cells && rng_below(g, 4) == 0;
    for (uint32_t k = 0; k < r->check.cells; k++) {
        struct cell_layout *l = &r->cell[k].layout;
        l->subgroup = shards ? 0 : k;
        l->overlap = !shards;
        if (!shards)
            continue;
        l->hosts = (UINT64_C(1) << r->fleet.hosts) - 1;
        l->members_min = 1;
    }
}

/* Cells without a common order, and machines without a state. */
static void draw_kinds(struct group_run *r)
{
    struct rng own, *g = &own;
    rng_init(g, hash_mix(r->opt->seed, KIND_STREAM));
    bool some = rng_below(g, 3) == 0;
    for (uint32_t k = 0; k < r->check.cells; k++) {
        if (!some || rng_below(g, 2))
            continue;
        r->cell[k].mode = CELL_RAW;
        r->check.raw |= UINT32_C(1) << k;
    }
    r->check.stateless = rng_below(g, 6) == 0;
    r->check.result->group.stateless = r->check.stateless;
    r->member_opt.machine = r->check.stateless ? &stateless_machine : &machine;
}

/* Large messages, in some cells of every second run, in as many blocks as will do and over any schedule. */
static void draw_large(struct group_run *r)
{
    struct rng own, *g = &own;
    rng_init(g, hash_mix(r->opt->seed, LARGE_STREAM));
    bool some = rng_below(g, 2);
    r->member_opt.block_bytes = UINT32_C(128) << rng_below(g, 4);
    for (uint32_t q = 0; q < r->fleet.hosts; q++)
        r->member_opt.rack[q] = (uint8_t)rng_below(g, 3);
    for (uint32_t k = 0; k < r->check.cells; k++) {
        struct cell_options *c = &r->cell[k];
        if (!some || rng_below(g, 3) == 0 || c->mode > CELL_RAW)
            continue;
        if (c->message_max < sizeof(struct large_head))
            c->message_max = sizeof(struct large_head);
        c->large_max = (uint32_t)rng_range(g, c->message_max + 1, GROUP_CHECK_BYTES_MAX);
        c->large_window = (uint32_t)rng_range(g, 1, 4);
        c->rdmc = (enum rdmc_schedule)rng_below(g, RDMC_RACKS + 1);
    }
}

static void draw_keepers(struct group_run *r)
{
    static const uint32_t counts[] = {1, 2, 3, 3, 3, 3, 3, 5};
    struct rng *g = &r->fleet.rng;
    uint32_t count = counts[rng_below(g, 8)];
    count = count < r->fleet.hosts ? count : r->fleet.hosts;
    uint32_t first = (uint32_t)rng_below(g, r->fleet.hosts);
    for (uint32_t k = 0; k < count; k++)
        r->keepers[k] = (first + k) % r->fleet.hosts;
    r->member_opt.keepers = r->keepers;
    r->member_opt.keepers_count = r->first.count = count;
    for (uint32_t k = 0; k < count; k++)
        r->first.host[k] = r->keepers[k];
    r->keepers_now = r->first;
}

static void draw_load(struct group_run *r)
{
    struct rng own, *g = &own;
    rng_init(g, hash_mix(r->opt->seed, LOAD_STREAM));
    r->leave_in = rng_below(g, 2) ? 0 : rng_range(g, 300, 4000);
    r->layout_in = rng_below(g, 2) ? 0 : rng_range(g, 200, 4000);
    r->column_in = rng_range(g, 5, 50);
    r->linger_in = rng_below(g, 2) ? 0 : rng_range(g, 3, 60);
    r->nested_in = rng_below(g, 2) ? 0 : rng_range(g, 4, 40);
    r->burst = (uint32_t)rng_range(g, 1, 12);
    r->ask_in = rng_below(g, 2) ? 0 : rng_range(g, 4, 200);
    uint64_t busy = rng_range(g, 2000, 300000);
    for (uint32_t q = 0; q < r->fleet.hosts; q++) {
        struct group_node *n = &r->node[q];
        *n = (struct group_node){.run = r, .host = q, .quota = rng_range(g, 1, 300)};
        n->send_ppm = rng_below(g, 4) ? busy : 0;
        for (uint32_t k = 0; k < r->check.cells; k++)
            r->check.host[q].cell[k].state = &n->cell[k].counter.state;
    }
}

static void draw_member(struct group_run *r)
{
    struct rng *g = &r->fleet.rng;
    struct member_options *o = &r->member_opt;
    o->hosts = r->fleet.hosts;
    o->cell = r->cell;
    o->cells = r->check.cells;
    o->view_majority = r->check.view_majority = rng_below(g, 2);
    o->layout = rng_below(g, 2) ? draw_layout : NULL;
    o->layout_ctx = r;
    o->unbatched = rng_below(g, 8) ? 0 : (uint32_t)rng_below(g, 16);
    o->snap_bytes = o->ask_bytes = RING;
    o->backlog_bytes = 1; /* the least that will do */
    o->heartbeat_ns = RUN_HEARTBEAT_NS;
    o->start_ns = rng_range(g, 20 * RUN_US, 150 * RUN_US);
    run_draw_times(g, &o->suspect_ns, &o->stagger_ns, &o->detach_ns);
}

/* Where memory is shared, readers may see the writer's copy itself. */
static void draw_shared(struct group_run *r, struct sim_options *so)
{
    struct rng own, *g = &own;
    rng_init(g, hash_mix(r->opt->seed, SHARED_STREAM));
    so->shared = !so->links.on && rng_below(g, 2);
    if (so->shared)
        so->owner_answers = false;
    so->buffered = so->shared && rng_below(g, 2);
    so->buffered_ns_max = rng_below(g, 4) ? rng_range(g, 100, 5 * RUN_US) : 20 * RUN_US;
    r->fleet.fence_stop_in = rng_below(g, 2) ? 0 : rng_range(g, 20, 2000);
    r->check.result->group.shared = so->shared;
}

static void draw_options(struct group_run *r, struct sim_options *so)
{
    static const uint32_t sizes[] = {1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 7, 9};
    struct fleet *f = &r->fleet;
    struct rng *g = &f->rng;
    f->hosts = r->opt->replicas ? r->opt->replicas : sizes[rng_below(g, 16)];
    run_draw_memory(r->opt, f, so);
    run_draw_disks(r->opt, f);
    run_draw_state(r->opt, &r->state);
    draw_shared(r, so);
    f->step_ns_max = rng_range(g, 400, 2500);
    r->safety_end_ns = rng_range(g, 400 * RUN_US, 3000 * RUN_US);
    r->pad = rng_below(g, 3) ? rng_below(g, 2000) : rng_below(g, SNAP_PAD_MAX);
    r->group.replicas = f->hosts;
    for (uint32_t q = 0; q < f->hosts; q++)
        r->group.nodes[q] = q;
    r->check.hosts = f->hosts;
    r->check.cells = (uint32_t)rng_range(g, 1, GROUP_CHECK_CELLS_MAX);
    draw_keepers(r);
    for (uint32_t k = 0; k < r->check.cells; k++)
        draw_cell(r, &r->cell[k]);
    draw_shards(r);
    draw_member(r);
    draw_kinds(r);
    draw_large(r);
    draw_load(r);
    group_disk_draw(r);
    group_client_draw(r);
    f->log_bytes_max = keeper_log_bytes(f->hosts, r->check.cells);
}

/* ---- the end ---- */

static void calm(void *ctx)
{
    struct group_run *r = ctx;
    r->ask_in = 0;
    group_disk_calm(r);
    for (uint32_t q = 0; q < r->fleet.hosts; q++) {
        fleet_wake(&r->fleet.node[q]); /* it may have been to sleep for longer */
        group_load_calm(&r->node[q]);
    }
}

static bool is_in(const struct group_run *r, uint32_t host)
{
    return r->node[host].member && !member_left(r->node[host].member);
}

/* The host has all of its cells that there is. */
static bool has_all(const struct group_run *r, uint32_t host, const struct view *v)
{
    const struct group_node *n = &r->node[host];
    for (uint32_t k = 0; k < r->check.cells; k++) {
        if (in_set(v->cell[k].learners, host))
            return false;
        if (!in_set(v->cell[k].members, host))
            continue;
        if (!member_has_state(n->member, k) || !group_check_has_all(&r->check, host, k))
            return false;
    }
    return true;
}

/* Could every cell have as many members as it must? If cells share no hosts that is left to the layout's own tests. */
static bool could_be_adequate(const struct group_run *r, const struct view *v)
{
    for (uint32_t k = 0; k < r->check.cells; k++) {
        const struct cell_layout *l = &r->cell[k].layout;
        if (!l->overlap || set_count(l->hosts & v->members) < l->members_min)
            return false;
    }
    return true;
}

/* All who live are in one view, which nothing ends, and have the same; nothing is outstanding. */
static bool all_delivered(const void *ctx)
{
    const struct group_run *r = ctx;
    const struct view *v = group_newest(r);
    if (v == NULL)
        return false;
    for (uint32_t k = 0; k < v->cells; k++)
        if (v->cell[k].state == CELL_VACANT)
            return false;
    for (uint32_t q = 0; q < r->fleet.hosts; q++) {
        if (!is_in(r, q)) {
            if (in_set(v->members, q))
                return false;
            continue;
        }
        const struct view *own = member_view(r->node[q].member);
        if (own == NULL || own->vid != v->vid || member_wedged(r->node[q].member))
            return false;
        if (!has_all(r, q, own))
            return false;
        if (!v->adequate && could_be_adequate(r, v))
            return false;
        if (v->adequate && !group_load_done(&r->node[q]))
            return false;
    }
    for (uint32_t i = 0; v->adequate && i < r->fleet.clients; i++)
        if (!group_client_done(r, i, v))
            return false;
    return true;
}

static void describe(const struct group_run *r, char *text, size_t bytes)
{
    for (uint32_t q = 0; q < r->fleet.hosts; q++) {
        const struct group_node *n = &r->node[q];
        const struct view *v = n->member ? member_view(n->member) : NULL;
        size_t at = strlen(text);
        snprintf(text + at, bytes - at, " h%u:%s%s %llu/%llu+%llu", q,
                 n->member == NULL        ? "down"
                 : member_left(n->member) ? "left"
                 : v == NULL              ? "out"
                                          : "in",
                 v && member_wedged(n->member) ? ", wedged" : "", (ull)(v ? v->vid : 0),
                 (ull)group_check_outstanding(&r->check, q), (ull)n->quota);
    }
}

static void trace_waits(const struct group_run *r)
{
    for (uint32_t i = 0; i < r->fleet.clients; i++)
        group_client_describe(r, i);
    for (uint32_t q = 0; q < r->fleet.hosts; q++) {
        const struct group_node *n = &r->node[q];
        const char *waits = n->member ? keeper_waits(member_keeper(n->member)) : NULL;
        if (waits)
            chaos_trace(&r->fleet.chaos, "h%u waits: %s", q, waits);
    }
}

static void stuck(void *ctx)
{
    struct group_run *r = ctx;
    char text[RUN_TEXT_BYTES - 40] = "";
    const struct view *v = group_newest(r);
    trace_waits(r);
    if (group_is_hopeless(r)) {
        r->check.result->group.skipped = 1;
        return;
    }
    describe(r, text, sizeof(text));
    group_check_violated(&r->check, "liveness", v ? v->vid : 0, "newest view %llu of %llx:%s",
                         (ull)(v ? v->vid : 0), (ull)(v ? v->members : 0), text);
}

static void run_for(struct group_run *r, uint64_t ns)
{
    uint64_t end = sim_now(r->fleet.sim) + ns;
    while (r->check.result->property == NULL && sim_now(r->fleet.sim) < end &&
           sim_step(r->fleet.sim))
        ;
}

static uint64_t activity(const struct group_run *r)
{
    uint64_t sum = 0;
    for (uint32_t q = 0; q < r->fleet.hosts; q++) {
        const struct member_counts *c = &r->node[q].counts;
        sum += c->views + c->publishes + c->nulls + c->upcalls + c->states_sent + c->restamped;
    }
    return sum;
}

/* Nobody sends any more: after a while there are only signs of life. */
static void settled(void *ctx)
{
    struct group_run *r = ctx;
    for (uint32_t q = 0; q < r->fleet.hosts; q++)
        r->node[q].quota = r->node[q].send_ppm = 0;
    r->column_in = r->ask_in = 0;
    for (uint32_t i = 0; i < r->fleet.clients; i++)
        r->client[i].quota = 0; /* and who subscribes is told that its member lives */
    /* What the memory was made to say of deaths may last, and cost a view when it ends. */
    uint64_t changed = 1;
    for (int i = 0; i < SETTLE_TRIES && changed && r->check.result->property == NULL; i++) {
        run_for(r, SETTLE_BEATS * RUN_HEARTBEAT_NS);
        uint64_t before = activity(r);
        run_for(r, QUIET_BEATS * RUN_HEARTBEAT_NS);
        changed = activity(r) - before;
    }
    if (r->check.result->property == NULL && changed)
        group_check_violated(&r->check, "quiescence", 0,
                             "%llu publishes, upcalls, views and the like though nobody sends",
                             (ull)changed);
}

static void start_all(struct group_run *r)
{
    struct fleet *f = &r->fleet;
    struct err e = {""};
    chaos_trace(&f->chaos, "%u hosts, %u cells, %u keepers from h%u on%s%s", f->hosts,
                r->check.cells, r->member_opt.keepers_count, r->keepers[0],
                r->check.view_majority ? ", majorities" : "",
                r->check.result->group.shared ? ", shared memory" : "");
    for (uint32_t q = 0; q < f->hosts; q++)
        snprintf(f->node[q].member[0].name, sizeof(f->node[q].member[0].name), "h%u", q);
    for (uint32_t q = 0; q < f->hosts + f->clients; q++)
        if (fleet_start(&f->node[q], &e) != 0)
            violated(&f->node[q], "opens", e.text);
}

static uint64_t delivered_sum(const struct group_check *c)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < c->histories; i++)
        sum += c->history[i]->count;
    return sum;
}

void run_group(const struct run_options *opt, struct run_result *result)
{
    struct group_run *r = calloc(1, sizeof(*r));
    struct err e = {""};
    struct sim_options so;
    CHECK(r != NULL);
    *result = (struct run_result){0};
    r->opt = opt;
    r->check.result = result;
    r->check.seed = opt->seed;
    r->fleet = (struct fleet){.calls = &fleet_calls,
                              .ctx = r,
                              .group = &r->group,
                              .groups = 1,
                              .unit_ns = RUN_US,
                              .trace = opt->trace};
    rng_init(&r->fleet.rng, opt->seed);
    rng_init(&r->rng, hash_mix(opt->seed, LAYOUT_STREAM));
    draw_options(r, &so);
    result->memory = run_memory_of(&so);
    CHECK(fleet_open(&r->fleet, &so, &e) == 0);
    r->fleet.chaos.truthful =
        so.shared; /* there a death is seen, and a ring that the dead read is free */
    start_all(r);
    run_fleet(&r->fleet, result,
              &(struct run_calls){.safety_end_ns = r->safety_end_ns,
                                  .liveness_ns = LIVENESS_MS * UINT64_C(1000000),
                                  .calm = calm,
                                  .all_delivered = all_delivered,
                                  .stuck = stuck,
                                  .settled = settled,
                                  .ctx = r});
    group_disk_fini(r);
    result->messages = delivered_sum(&r->check);
    result->group.client_sent = r->check.clients.sent;
    result->group.client_done = r->check.clients.done;
    result->group.client_fed = r->check.clients.fed;
    result->group.client_lost = r->check.clients.lost;
    result->group.client_again = r->check.clients.again;
    group_check_fini(&r->check);
    free(r);
}
