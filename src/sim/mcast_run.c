/* A simulated tree of groups on a few hosts, with clients, faults and the verdict. */
#include "base/hash.h"
#include "mcast/caster.h"
#include "mcast/replica.h"
#include "sim/fleet.h"
#include "sim/liar.h"
#include "sim/mcast_check.h"
#include "sim/participation.h"

#include <stdlib.h>
#include <string.h>

enum { LIAR_STREAM = 11, LIAR_OF = 8 }; /* one client in so many lies */
enum { BACKLOG_STREAM = 13 };

enum {
    HOSTS_MAX = 9,
    BODY_USUAL = 300,
    BODY_MAX = 6000,
    SNAP_PAD_MAX = 6000,
    SNAP_PAD_LARGER = 8,
    LIVENESS_MS = 30
};

struct run;

/* One replica of one group. */
struct place {
    struct counter_machine counter; /* first: the machine's ctx */
    struct run *run;
    const struct fleet_member *at;
};

struct client {
    struct caster *caster; /* NULL while dead */
    uint32_t place;
    uint32_t sender; /* place and life, as the checker counts them */
    uint32_t quota;
    struct run *run;
    bool lies; /* and does nothing else, until it dies */
    struct liar liar;
};

struct run {
    const struct run_options *opt;
    struct mcast_check check;
    struct participation part;
    struct fleet fleet;
    enum mcast_protocol protocol;
    struct overlay *overlay;
    struct mcast_group group[TREE_GROUPS_MAX];
    struct place place[HOSTS_MAX][TREE_GROUPS_MAX];
    struct client client[TREE_CLIENTS_MAX];
    struct mcast_sizes sizes;
    struct replica_options replica_opt;
    struct run_state state;
    uint64_t snap_pad;
    uint64_t safety_end_ns;
};

/* ---- the machine ---- */

static uint32_t machine_deliver(void *ctx, const struct delivery *d, void *reply, uint32_t max)
{
    struct place *p = ctx;
    struct fleet *f = &p->run->fleet;
    sim_note(f->sim, hash_mix(d->seq, (uint64_t)d->client << 16 | d->group));
    mcast_check_deliver(&p->run->check, p->at->host->node, &p->counter.state, d);
    chaos_trace(&f->chaos, "%s delivers %u:%llu as %llu", p->at->name, d->client,
                (unsigned long long)d->seq, (unsigned long long)d->number);
    uint32_t bytes = (uint32_t)(d->seq % (max + 1));
    mcast_check_reply_fill(d->seq, reply, bytes);
    return bytes;
}

static void machine_loaded(struct counter_machine *counter, bool good)
{
    struct place *p = (struct place *)counter;
    struct run *r = p->run;
    if (!good)
        mcast_check_violated(&r->check, "snapshot bytes", p->counter.load_bytes, "%s", p->at->name);
    mcast_check_loaded(&r->check, p->at->host->node, p->at->group, &p->counter.state);
    chaos_trace(&r->fleet.chaos, "%s has loaded %llu messages", p->at->name,
                (unsigned long long)p->counter.state.count);
}

static void machine_observe(void *ctx, const struct entry *e, bool effective)
{
    struct place *p = ctx;
    (void)effective;
    participation_entry(&p->run->part, p->at->group, e);
}

static const struct mcast_machine machine = {
    .deliver = machine_deliver,
    .state = &counter_machine_ops,
};

static int place_open(struct fleet_member *m, uint64_t seed, struct err *e)
{
    struct run *r = m->host->fleet->ctx;
    struct place *p = &r->place[m->host->node][m->group];
    struct replica *replica;
    struct replica_options o = r->replica_opt;
    *p = (struct place){.counter = {.pad = r->snap_pad,
                                    .costs = r->state.costs,
                                    .unsized = r->state.unsized,
                                    .on_load = machine_loaded},
                        .run = r,
                        .at = m};
    o.mem = m->host->mem;
    o.group = m->group;
    o.rank = m->rank;
    o.ctx = p;
    o.budget = &m->host->budget;
    o.disk = m->host->disk;
    o.seed = seed;
    int rc = replica_open(&o, &replica, e);
    if (rc == 0)
        m->unit = replica_unit(replica);
    return rc;
}

static uint64_t place_spent(struct fleet_member *m)
{
    struct run *r = m->host->fleet->ctx;
    return counter_machine_spent(&r->place[m->host->node][m->group].counter);
}

/* ---- clients ---- */

static int memory_open(struct fleet_node *n, uint16_t group, struct log_memory *m, struct err *e)
{
    const struct run *r = n->fleet->ctx;
    struct replica_options o = r->replica_opt;
    o.mem = n->mem;
    o.group = group;
    o.disk = n->disk;
    return replica_memory_open(&o, m, e);
}

static struct client *client_at(const struct fleet_node *n)
{
    struct run *r = n->fleet->ctx;
    return &r->client[n->node - n->fleet->hosts];
}

static void client_done(void *ctx, uint64_t seq, bool refused)
{
    struct client *c = ctx;
    if (refused)
        mcast_check_violated(&c->run->check, "accepted", seq, "client %u was refused", c->place);
    mcast_check_done(&c->run->check, c->sender, seq);
}

static void client_reply(void *ctx, uint64_t seq, uint16_t group, uint32_t status, const void *body,
                         uint32_t bytes)
{
    struct client *c = ctx;
    (void)status;
    if (bytes != seq % (c->run->sizes.reply_max + 1) || !mcast_check_reply_is(seq, body, bytes))
        mcast_check_violated(&c->run->check, "reply bytes", seq, "client %u, group %u", c->place,
                             group);
}

static void client_cast(struct client *c)
{
    struct run *r = c->run;
    struct rng *g = &r->fleet.rng;
    unsigned char body[BODY_MAX];
    uint64_t burst = rng_below(g, 4) ? 1 : rng_range(g, 1, 8);
    for (; burst > 0 && r->check.casts[c->sender] < c->quota; burst--) {
        uint16_t list[TREE_GROUPS_MAX];
        uint32_t count = 0, bytes = (uint32_t)rng_below(g, r->sizes.body_max + 1);
        uint64_t seq = r->check.casts[c->sender];
        uint64_t bits = rng_u64(g);
        /* Often one group, often a few, sometimes all. */
        uint64_t shape = rng_below(g, 3);
        for (uint32_t i = 0; i < r->fleet.groups; i++)
            if (shape == 2 || (shape == 1 && bits >> i & 1))
                list[count++] = (uint16_t)i;
        if (count == 0)
            list[count++] = (uint16_t)(bits % r->fleet.groups);
        uint8_t mask = 0;
        for (uint32_t i = 0; i < count; i++)
            mask |= (uint8_t)(1u << list[i]);
        mcast_check_fill(r->check.seed, c->sender, seq, body, bytes);
        uint64_t got;
        if (caster_cast(c->caster, (struct dst_set){list, count}, body, bytes, &got) != 0)
            break;
        CHECK(got == seq);
        mcast_check_cast(&r->check, c->sender, seq, mask, body, bytes);
        chaos_trace(&r->fleet.chaos, "client %u casts %llu to %#x", c->place,
                    (unsigned long long)seq, mask);
    }
    caster_flush(c->caster);
}

static uint64_t client_step(struct fleet_node *n, uint64_t now_ns)
{
    struct fleet *f = n->fleet;
    struct client *c = client_at(n);
    mem_poll(n->mem);
    caster_poll(c->caster, now_ns);
    if (c->lies)
        liar_step(&c->liar);
    else if (!f->chaos.calm && rng_below(&f->rng, 3) == 0)
        client_cast(c);
    mem_poll(n->mem);
    return UINT64_MAX;
}

static void client_crash(struct fleet_node *n);

static void liar_end_event(void *ctx, uint64_t life)
{
    struct fleet_node *n = ctx;
    if (!n->fleet->chaos.calm && n->mem != NULL && n->mem->life == life)
        client_crash(n);
}

/* Is this one a liar? Drawn from a stream of its own: the other draws of a seed are the same without them. */
static int liar_draw(struct fleet_node *n, struct client *c, struct err *e)
{
    struct run *r = c->run;
    struct rng own;
    rng_init(&own, hash_mix(hash_mix(r->opt->seed, LIAR_STREAM), c->sender));
    c->lies = rng_below(&own, LIAR_OF) == 0;
    if (!c->lies)
        return 0;
    chaos_trace(&r->fleet.chaos, "%s lies", n->name);
    sim_at(r->fleet.sim, sim_now(r->fleet.sim) + rng_range(&own, 20 * RUN_US, 200 * RUN_US),
           liar_end_event, n, n->mem->life);
    return liar_open(&c->liar, n->mem, r->group, r->fleet.groups, &r->sizes, c->place,
                     rng_u64(&own), e);
}

static int client_open(struct fleet_node *n, struct err *e)
{
    struct run *r = n->fleet->ctx;
    struct rng *g = &r->fleet.rng;
    struct client *c = client_at(n);
    *c = (struct client){.place = n->node - n->fleet->hosts, .run = r};
    c->sender = mcast_sender(c->place, n->mem->life);
    c->quota = rng_below(g, 4) ? (uint32_t)rng_range(g, 20, TREE_CASTS_MAX) : 2;
    struct caster_options o = {
        .mem = n->mem,
        .protocol = r->protocol,
        .overlay = r->overlay,
        .groups = r->group,
        .sizes = r->sizes,
        .place = c->place,
        .retry_ns = 100 * RUN_US,
        .reply = client_reply,
        .done = client_done,
        .ctx = c,
    };
    int rc = caster_open(&o, &c->caster, e);
    for (uint16_t i = 0; rc == 0 && i < r->fleet.groups; i++)
        rc = caster_group_open(c->caster, i, e);
    if (rc == 0)
        rc = liar_draw(n, c, e);
    return rc;
}

static void client_close(struct fleet_node *n)
{
    struct client *c = client_at(n);
    caster_close(c->caster);
    c->caster = NULL;
}

static void violated(struct fleet_node *n, const char *property, const char *text)
{
    struct run *r = n->fleet->ctx;
    mcast_check_violated(&r->check, property, 0, "%s", text);
}

static void start(struct fleet_node *n)
{
    struct err e = {""};
    if (fleet_start(n, &e) != 0)
        violated(n, "opens", e.text);
}

static void client_restart_event(void *ctx, uint64_t arg)
{
    struct fleet_node *n = ctx;
    (void)arg;
    if (!n->fleet->chaos.calm)
        start(n);
}

static void client_crash(struct fleet_node *n)
{
    struct fleet *f = n->fleet;
    uint32_t life = n->mem->life;
    chaos_trace(&f->chaos, "%s dies", n->name);
    fleet_crash(n, rng_below(&f->rng, 2));
    f->chaos.faults++;
    /* Often somebody else takes the place. */
    if (life + 1 < TREE_LIVES_MAX && rng_below(&f->rng, 4) != 0)
        sim_at(f->sim, sim_now(f->sim) + rng_range(&f->rng, 1 * RUN_US, 200 * RUN_US),
               client_restart_event, n, 0);
}

static const struct fleet_calls fleet_calls = {
    .open = place_open,
    .spent_ns = place_spent,
    .memory_open = memory_open,
    .client_open = client_open,
    .client_step = client_step,
    .client_close = client_close,
    .client_crash = client_crash,
    .violated = violated,
};

/* ---- the whole ---- */

static void draw_groups(struct run *r)
{
    struct fleet *f = &r->fleet;
    struct rng *g = &f->rng;
    struct err e = {""};
    uint16_t parent[TREE_GROUPS_MAX];
    static const uint32_t sizes[] = {3, 3, 3, 3, 1, 5, 2, 3};
    f->groups = rng_below(g, 3) ? (uint32_t)rng_range(g, 1, 4) : (uint32_t)rng_range(g, 1, 8);
    uint32_t replicas = r->opt->replicas ? r->opt->replicas : sizes[rng_below(g, 8)];
    struct mcast_group layout = {.replicas = replicas};
    run_draw_votes(r->opt, &layout);
    f->hosts =
        (uint32_t)rng_range(g, replicas, replicas + 2 < HOSTS_MAX ? replicas + 2 : HOSTS_MAX);
    uint64_t shape = rng_below(g, 5);
    for (uint16_t i = 0; i < f->groups; i++)
        parent[i] = i == 0 ? OVERLAY_NONE : (uint16_t)rng_below(g, i);
    if (shape < OVERLAY_SHAPE_COUNT)
        overlay_shape_fill((enum overlay_shape)shape, f->groups, parent);
    CHECK(overlay_open(&r->overlay, parent, f->groups, &e) == 0);
    for (uint16_t i = 0; i < f->groups; i++) {
        uint32_t first = (uint32_t)rng_below(g, f->hosts);
        r->group[i] = layout;
        for (uint32_t q = 0; q < replicas; q++)
            r->group[i].nodes[q] = (first + q) % f->hosts;
        for (uint32_t q = 0; q < layout.memories; q++)
            r->group[i].memory[q] = f->hosts + q;
    }
    f->hosts += layout.memories;
}

/* Between groups of the genuine protocol: in half of the runs little fits the streams, and little waits for them
 * before clients have to. Drawn from a stream of its own. */
static void draw_backlog(struct run *r)
{
    struct rng own;
    rng_init(&own, hash_mix(r->opt->seed, BACKLOG_STREAM));
    if (rng_below(&own, 2) == 0)
        return;
    r->replica_opt.stream_bytes = 4096;
    r->replica_opt.backlog_bytes = rng_range(&own, 1, 1000);
}

static void draw_options(struct run *r, struct sim_options *so)
{
    struct rng *g = &r->fleet.rng;
    draw_groups(r);
    r->fleet.clients = (uint32_t)rng_range(g, 1, TREE_CLIENTS_MAX);
    run_draw_memory(r->opt, &r->fleet, so);
    run_draw_disks(r->opt, &r->fleet);
    run_draw_state(r->opt, &r->state);
    r->fleet.returns = r->state.returns;
    if (r->fleet.returns)
        run_calm_memory(&r->fleet, so);
    r->fleet.step_ns_max = rng_range(g, 400, 2500);
    r->safety_end_ns = rng_range(g, 300 * RUN_US, 1500 * RUN_US);
    r->snap_pad = rng_below(g, 3) ? rng_below(g, 500) : rng_below(g, SNAP_PAD_MAX);
    if (r->state.large)
        r->snap_pad *= SNAP_PAD_LARGER;
    r->sizes = (struct mcast_sizes){
        .clients = r->fleet.clients,
        .client_node = r->fleet.hosts,
        .reply_bytes = 4096,
    };
    r->sizes.body_max = (uint32_t)rng_range(g, 8, BODY_USUAL);
    r->sizes.reply_max = (uint32_t)rng_range(g, 8, 64);
    r->sizes.source_bytes = 4096u << rng_below(g, 2);
    r->sizes.edge_bytes = 4096u << rng_below(g, 2);
    r->sizes.log_bytes = 16384u << rng_below(g, 2);
    if (rng_below(g, 12) ==
        0) { /* messages of which few fit the rings, which go over their ends often */
        r->sizes.body_max = (uint32_t)rng_range(g, BODY_USUAL, BODY_MAX);
        r->sizes.reply_max = (uint32_t)rng_range(g, 64, 1500);
        r->sizes.source_bytes *= 4;
        r->sizes.edge_bytes *= 4;
        r->sizes.log_bytes *= 4;
    }
    r->fleet.log_bytes_max = r->sizes.log_bytes;
    r->sizes.snap_bytes = 4096u << rng_below(g, 5);
    r->sizes.backlog_bytes = r->state.backlog_rings * r->sizes.log_bytes;
    r->sizes.batch_bytes = (uint32_t)rng_range(g, 256, r->sizes.log_bytes / 4);
    r->sizes.window_bytes = (uint32_t)rng_range(g, r->sizes.log_bytes / 4, r->sizes.log_bytes / 2);
    r->replica_opt = (struct replica_options){
        .overlay = r->overlay,
        .groups = r->group,
        .sizes = r->sizes,
        .heartbeat_ns = RUN_HEARTBEAT_NS,
        .duels = so->seed & 1,
        .machine = &machine,
        .observe = machine_observe,
    };
    draw_backlog(r);
    run_draw_times(g, &r->replica_opt.suspect_ns, &r->replica_opt.stagger_ns,
                   &r->replica_opt.detach_ns);
}

static uint64_t delivered(const struct fleet_member *m)
{
    const struct run *r = m->host->fleet->ctx;
    return r->place[m->host->node][m->group].counter.state.count;
}

/* True when everything that the living have cast is delivered everywhere, and told. */
static bool all_delivered(const void *ctx)
{
    const struct run *r = ctx;
    const struct fleet *f = &r->fleet;
    for (uint32_t s = 0; s < f->clients; s++)
        if (r->client[s].caster && caster_outstanding(r->client[s].caster) > 0)
            return false;
    if (!mcast_check_even(&r->check))
        return false;
    for (uint32_t h = 0; h < f->hosts; h++)
        for (uint32_t i = 0; i < f->node[h].members; i++) {
            const struct fleet_member *m = &f->node[h].member[i];
            if (m->unit.of && (fleet_unfit(m) || delivered(m) != r->check.group[m->group].count))
                return false;
        }
    return true;
}

static void stuck(void *ctx)
{
    struct run *r = ctx;
    char text[RUN_TEXT_BYTES] = "";
    fleet_describe(&r->fleet, delivered, text, sizeof(text));
    for (uint32_t s = 0; s < r->fleet.clients; s++)
        if (r->client[s].caster) {
            size_t at = strlen(text);
            snprintf(text + at, sizeof(text) - at, " c%u:%u", s,
                     caster_outstanding(r->client[s].caster));
        }
    mcast_check_violated(&r->check, "liveness", 0, "%s", text);
}

static void start_all(struct run *r)
{
    struct fleet *f = &r->fleet;
    chaos_trace(&f->chaos, "%u groups of %u replicas on %u hosts, %u clients", f->groups,
                r->group[0].replicas, f->hosts, f->clients);
    for (uint16_t g = 0; g < f->groups; g++) {
        uint16_t parent = overlay_parent(r->overlay, g);
        chaos_trace(&f->chaos, "g%u: parent %d, first host %u", g,
                    parent == OVERLAY_NONE ? -1 : parent, r->group[g].nodes[0]);
    }
    for (uint32_t i = 0; i < f->hosts + f->clients; i++)
        start(&f->node[i]);
}

static void landing(void *ctx, const struct sim_landing *l)
{
    struct run *r = ctx;
    mcast_check_landing(&r->check, l);
}

static void run_mcast(const struct run_options *opt, enum mcast_protocol protocol,
                      struct run_result *result)
{
    struct run *r = calloc(1, sizeof(*r));
    struct err e = {""};
    struct sim_options so;
    CHECK(r != NULL);
    *result = (struct run_result){0};
    r->opt = opt;
    r->fleet = (struct fleet){
        .calls = &fleet_calls, .ctx = r, .group = r->group, .unit_ns = RUN_US, .trace = opt->trace};
    rng_init(&r->fleet.rng, opt->seed);
    draw_options(r, &so);
    result->memory = run_memory_of(&so);
    r->protocol = r->replica_opt.protocol = protocol;
    mcast_check_init(&r->check, result, opt->seed);
    CHECK(fleet_open(&r->fleet, &so, &e) == 0);
    r->part = (struct participation){.check = &r->check,
                                     .protocol = protocol,
                                     .overlay = r->overlay,
                                     .clients = r->fleet.clients};
    sim_on_put(r->fleet.sim, participation_put, &r->part);
    sim_on_landing(r->fleet.sim, landing, r);
    start_all(r);
    run_fleet(&r->fleet, result,
              &(struct run_calls){.safety_end_ns = r->safety_end_ns,
                                  .liveness_ns = LIVENESS_MS * UINT64_C(1000000),
                                  .all_delivered = all_delivered,
                                  .stuck = stuck,
                                  .ctx = r});
    mcast_check_order(&r->check);
    for (uint32_t g = 0; g < r->fleet.groups; g++)
        result->messages += r->check.group[g].count;
    overlay_close(r->overlay);
    mcast_check_fini(&r->check);
    free(r);
}

void run_tree(const struct run_options *opt, struct run_result *result)
{
    run_mcast(opt, MCAST_TREE, result);
}

void run_genuine(const struct run_options *opt, struct run_result *result)
{
    run_mcast(opt, MCAST_GENUINE, result);
}
