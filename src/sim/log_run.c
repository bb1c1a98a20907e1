/* A simulated group with its clients, the faults that befall it, and the verdict. */
#include "agree/lanes.h"
#include "agree/source.h"
#include "base/hash.h"
#include "sim/fleet.h"
#include "sim/hang.h"
#include "sim/log_check.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLIENTS_MAX = 4,
    PAYLOAD_MAX = 1024,
    SNAP_PAD_MAX = 24 << 10,
    SNAP_PAD_LARGE = 160 << 10,
    REGION = 7,
    CHECK_LANES_EVERY = 64, /* steps of a replica between two looks at its memory */
    LIVENESS_MS = 20,
    HANG_US = 1000,  /* that a hang may cost, besides what is drawn */
    BUSY_TIMES = 16, /* suspect_ns that who is busy is given */
    PROMPT_US = 50,  /* a message that takes no longer was not held up */
    PAUSE_US_MAX = 100,
};

struct run;

struct member {
    struct counter_machine counter; /* first: the machine's ctx */
    struct run *run;
    uint32_t rank;
    uint64_t steps;
};

struct client {
    uint32_t number;
    struct source *source;
    uint64_t sent; /* messages */
    uint64_t quota;
    uint64_t end;      /* of the stream */
    uint64_t asked_ns; /* while hosts hang: when the message under way was sent; 0: there is none */
    uint64_t next_ns;  /* when the next one is */
    uint64_t waited_ns; /* for messages that took too long */
};

struct run {
    const struct run_options *opt;
    struct log_check check;
    struct fleet fleet;
    struct mcast_group group;
    uint32_t source_nodes[CLIENTS_MAX];
    struct member member[CHECK_REPLICAS_MAX];
    struct client client[CLIENTS_MAX];
    struct log_options log_opt;
    struct run_state state;
    uint64_t snap_pad;
    uint64_t safety_end_ns;
    bool hang;         /* some hosts hang; clients send one message after the other, */
    uint64_t pause_ns; /* with so much time between them */
};

/* ---- the machine ---- */

static void machine_observe(void *ctx, const struct entry *e, bool effective)
{
    struct member *p = ctx;
    (void)effective;
    sim_note(p->run->fleet.sim, hash_mix(e->pos, p->rank));
    check_entry(&p->run->check, p->rank, e);
}

static void machine_apply(void *ctx, const struct entry *e)
{
    struct member *p = ctx;
    check_message(&p->run->check, p->rank, &p->counter.state, e);
    chaos_trace(&p->run->fleet.chaos, "r%u applies %llu: source %u at %llu, %u bytes, ballot %llu",
                p->rank, (unsigned long long)e->pos, e->source, (unsigned long long)e->srcpos,
                e->bytes, (unsigned long long)e->ballot);
}

static void machine_loaded(struct counter_machine *counter, bool good)
{
    struct member *p = (struct member *)counter;
    if (!good)
        check_violated(&p->run->check, "snapshot bytes", 0,
                       "replica %u got other bytes than were saved", p->rank);
    check_loaded(&p->run->check, p->rank, &p->counter.state);
    chaos_trace(&p->run->fleet.chaos, "r%u has loaded a snapshot of %llu messages", p->rank,
                (unsigned long long)p->counter.state.count);
}

static const struct log_machine machine = {
    .apply = machine_apply,
    .observe = machine_observe,
    .state = &counter_machine_ops,
};

/* ---- replicas ---- */

static int member_open(struct fleet_member *m, uint64_t seed, struct err *e)
{
    struct run *r = m->host->fleet->ctx;
    struct member *p = &r->member[m->rank];
    struct log *log;
    struct log_options o = r->log_opt;
    p->counter = (struct counter_machine){.pad = r->snap_pad,
                                          .costs = r->state.costs,
                                          .unsized = r->state.unsized,
                                          .on_load = machine_loaded};
    o.mem = m->host->mem;
    o.rank = m->rank;
    o.ctx = p;
    o.budget = &m->host->budget;
    o.disk = m->host->disk;
    o.disk_group = m->group;
    o.seed = seed;
    int rc = log_open(&o, &log, e);
    if (rc != 0)
        return rc;
    m->unit = log_unit(log);
    return o.disk ? log_restore(log, e) : 0;
}

static int memory_open(struct fleet_node *n, uint16_t group, struct log_memory *m, struct err *e)
{
    const struct run *r = n->fleet->ctx;
    struct log_options o = r->log_opt;
    o.mem = n->mem;
    o.disk = n->disk;
    o.disk_group = group;
    return log_memory_open(m, &o, e);
}

/* Compares what a replica holds below its commit with what is decided. */
static void look_at_lane(struct run *r, const struct fleet_member *m)
{
    uint64_t promised = sim_promised(r->fleet.sim, m->host->node, REGION);
    struct unit_status s;
    s = unit_status(&m->unit);
    if (promised == 0 || promised == MEM_CLOSED || s.behind)
        return;
    struct mem_lane_spec spec =
        lane_spec(REGION, m->host->node, r->group.nodes[promised % r->group.replicas], LANE_LOG, 0);
    const struct mem_lane *lane = sim_lane(r->fleet.sim, &spec);
    if (lane == NULL || lane->ctl == NULL || mem_word(lane, LOG_RUN) != promised)
        return;
    uint64_t start = mem_word(lane, LOG_START);
    uint64_t from = s.applied > start ? s.applied : start;
    /* A life that came back from its disk may be further behind than the ring reaches: it does not read it then. */
    if (r->fleet.durable && mem_word(lane, LOG_GUARD) > from + r->log_opt.log_bytes)
        return;
    check_lane(&r->check, m->rank, lane->ring, r->log_opt.log_bytes, from,
               mem_word(lane, LOG_COMMIT), mem_word(lane, LOG_GUARD));
}

/* What was taken from each source is a function of the log: equal at equal positions. */
static void compare_taken(struct run *r, const struct fleet_member *m)
{
    struct unit_status a, b;
    a = unit_status(&m->unit);
    for (uint32_t q = 0; q < r->group.replicas; q++) {
        const struct fleet_member *o = fleet_member(&r->fleet, q, 0);
        if (o == m || o->unit.of == NULL)
            continue;
        b = unit_status(&o->unit);
        if (a.behind || b.behind || a.applied != b.applied)
            continue;
        for (uint32_t s = 0; s < r->fleet.clients; s++) {
            uint64_t mine = log_source_taken(m->unit.of, s);
            uint64_t other = log_source_taken(o->unit.of, s);
            if (mine != other)
                check_violated(&r->check, "derived state equality", a.applied,
                               "replicas %u and %u took source %u up to %llu and %llu", m->rank, q,
                               s, (unsigned long long)mine, (unsigned long long)other);
        }
    }
}

static uint64_t member_spent(struct fleet_member *m)
{
    struct run *r = m->host->fleet->ctx;
    return counter_machine_spent(&r->member[m->rank].counter);
}

static void member_stepped(struct fleet_member *m)
{
    struct run *r = m->host->fleet->ctx;
    if (++r->member[m->rank].steps % CHECK_LANES_EVERY == 0) {
        look_at_lane(r, m);
        compare_taken(r, m);
    }
}

/* ---- clients ---- */

static struct client *client_at(const struct fleet_node *n)
{
    struct run *r = n->fleet->ctx;
    return &r->client[n->node - n->fleet->hosts];
}

static int client_open(struct fleet_node *n, struct err *e)
{
    struct run *r = n->fleet->ctx;
    struct client *c = client_at(n);
    *c = (struct client){.number = n->node - n->fleet->hosts};
    c->quota = rng_below(&r->fleet.rng, 4) ? rng_range(&r->fleet.rng, 50, 400) : 1;
    struct source_options o = {
        .mem = n->mem,
        .region = REGION,
        .nodes = r->group.nodes,
        .replicas = r->group.replicas,
        .number = c->number,
        .source_bytes = r->log_opt.source_bytes,
        .payload_max = r->log_opt.payload_max,
        .retry_ns = 100 * RUN_US,
    };
    int rc = source_open(&o, &c->source, e);
    c->end = rc == 0 ? source_end(c->source) : 0;
    return rc;
}

static void client_close(struct fleet_node *n)
{
    struct client *c = client_at(n);
    source_close(c->source);
    c->source = NULL;
}

/* Where the next message may come to stand in the log. */
static uint64_t log_tail(const struct run *r)
{
    const struct fleet_member *leader = fleet_leader(&r->fleet, 0);
    struct unit_status s = {0};
    if (leader)
        s = unit_status(&leader->unit);
    return s.written;
}

static void client_send(struct run *r, struct client *c)
{
    struct rng *g = &r->fleet.rng;
    unsigned char payload[PAYLOAD_MAX];
    uint64_t burst = rng_below(g, 4) ? 1 : rng_range(g, 1, 12);
    for (; burst > 0 && c->sent < c->quota; burst--) {
        uint32_t bytes = (uint32_t)rng_below(g, r->log_opt.payload_max + 1);
        if (r->fleet.aim.even)
            bytes = 0;
        check_fill(r->check.seed, c->number, c->end, payload, bytes);
        if (r->fleet.aim.on && !r->fleet.aim.even && rng_below(&r->fleet.aim.rng, 3) == 0)
            check_forge(c->number, log_tail(r), payload, bytes);
        uint64_t end;
        if (source_send(c->source, payload, bytes, &end) != 0)
            break;
        c->sent++;
        c->end = r->check.source_sent[c->number] = end;
    }
    source_flush(c->source);
}

static uint64_t save_ns(const struct run *r)
{
    const struct counter_machine_costs *c = &r->state.costs;
    uint64_t pieces = r->snap_pad / STATE_PIECE_BYTES + 2;
    return c->open_ns + pieces * c->piece_ns + (r->snap_pad / 1024 + 1) * c->kib_ns;
}

/* Two flushes may be between a message and its answer, and what was written before it; and each replica may just save its state, for
 * its disk. */
static uint64_t prompt_ns(const struct run *r)
{
    uint64_t disk = 4 * r->fleet.disk_options.flush_ns_max + r->group.replicas * save_ns(r);
    return PROMPT_US * RUN_US + (r->fleet.durable ? disk : 0);
}

static void client_waits(struct run *r, struct client *c, uint64_t now_ns)
{
    if (c->asked_ns != 0 && source_taken(c->source) == c->end) {
        uint64_t took = now_ns - c->asked_ns;
        c->waited_ns += took > prompt_ns(r) ? took : 0;
        c->asked_ns = 0;
        c->next_ns = now_ns + r->pause_ns;
    }
    if (c->asked_ns != 0 || now_ns < c->next_ns)
        return;
    c->quota = c->sent + 1;
    client_send(r, c);
    c->asked_ns = now_ns;
}

static uint64_t client_step(struct fleet_node *n, uint64_t now_ns)
{
    struct run *r = n->fleet->ctx;
    struct client *c = client_at(n);
    mem_poll(n->mem);
    source_step(c->source, now_ns);
    check_ack(&r->check, c->number, source_taken(c->source));
    if (r->hang)
        client_waits(r, c, now_ns);
    else if (rng_below(&r->fleet.rng, 3) == 0)
        client_send(r, c);
    mem_poll(n->mem);
    return UINT64_MAX;
}

static void violated(struct fleet_node *n, const char *property, const char *text)
{
    struct run *r = n->fleet->ctx;
    check_violated(&r->check, property, 0, "%s", text);
}

static const struct fleet_calls fleet_calls = {
    .open = member_open,
    .memory_open = memory_open,
    .stepped = member_stepped,
    .spent_ns = member_spent,
    .client_open = client_open,
    .client_step = client_step,
    .client_close = client_close,
    .client_crash = fleet_client_crash,
    .violated = violated,
};

/* ---- the whole ---- */

static void draw_options(struct run *r, struct sim_options *so)
{
    struct fleet *f = &r->fleet;
    struct rng *g = &f->rng;
    static const uint32_t sizes[] = {3, 3, 3, 3, 3, 5, 5, 5, 7, 1, 2, 4, 6, 9, 3, 5};
    uint32_t replicas = r->opt->replicas ? r->opt->replicas : sizes[rng_below(g, 16)];
    r->group.replicas = r->opt->votes ? r->opt->replicas : replicas;
    run_draw_votes(r->opt, &r->group);
    f->hosts = r->group.replicas + r->group.memories;
    f->clients = (uint32_t)rng_range(g, 1, CLIENTS_MAX);
    run_draw_memory(r->opt, f, so);
    run_draw_disks(r->opt, f);
    run_draw_state(r->opt, &r->state);
    f->returns = r->state.returns;
    if (f->returns)
        run_calm_memory(f, so);
    if (so->links.on) /* connections would end for it, and nobody could tell why */
        r->state.stall_ns = 0;
    if (r->state.stall_ns) /* longer than it takes to be suspected */
        r->state.costs.open_ns = r->state.stall_ns;
    f->step_ns_max = rng_range(g, 400, 2500);
    r->safety_end_ns = rng_range(g, 400 * RUN_US, 2500 * RUN_US);
    r->snap_pad = rng_below(g, 3) ? rng_below(g, 2000) : rng_below(g, SNAP_PAD_MAX);
    if (r->state.large)
        r->snap_pad *= SNAP_PAD_LARGE / SNAP_PAD_MAX;
    uint32_t log_bytes = 4096u << rng_below(g, 4);
    uint32_t payload_max = log_bytes / 16 < PAYLOAD_MAX ? log_bytes / 16 : PAYLOAD_MAX;
    payload_max = (uint32_t)rng_range(g, 8, payload_max);
    for (uint32_t q = 0; q < r->group.replicas; q++)
        r->group.nodes[q] = q;
    for (uint32_t i = 0; i < r->group.memories; i++)
        r->group.memory[i] = r->group.replicas + i;
    for (uint32_t s = 0; s < f->clients; s++)
        r->source_nodes[s] = f->hosts + s;
    r->log_opt = (struct log_options){
        .region = REGION,
        .nodes = r->group.nodes,
        .replicas = r->group.replicas,
        .memory_nodes = r->group.memory,
        .memories = r->group.memories,
        .all_vote = r->group.all_vote,
        .source_nodes = r->source_nodes,
        .sources = f->clients,
        .source_bytes = 4096,
        .log_bytes = log_bytes,
        .payload_max = payload_max,
        .snap_bytes = 4096,
        .backlog_bytes = r->state.backlog_rings * log_bytes,
        .heartbeat_ns = RUN_HEARTBEAT_NS,
        .duels = so->seed & 1,
        .machine = &machine,
    };
    f->log_bytes_max = log_bytes;
    r->log_opt.batch_bytes = (uint32_t)rng_range(g, 64, log_bytes / 8);
    r->log_opt.window_bytes = (uint32_t)rng_range(g, log_bytes / 8, log_bytes / 2);
    run_draw_times(g, &r->log_opt.suspect_ns, &r->log_opt.stagger_ns, &r->log_opt.detach_ns);
}

static void landing(void *ctx, const struct sim_landing *l)
{
    struct run *r = ctx;
    if (l->counted && lane_kind(&l->lane->spec) == LANE_LOG)
        check_landing(&r->check, l->lane->spec.owner, l->ballot);
}

/* What a client has not begun to send by now it does not send. */
static void calm(void *ctx)
{
    struct run *r = ctx;
    for (uint32_t s = 0; s < r->fleet.clients; s++)
        r->client[s].quota = r->client[s].sent;
}

/* True when everything that was sent by the living is applied by all the living. */
static bool all_delivered(const void *ctx)
{
    const struct run *r = ctx;
    for (uint32_t s = 0; s < r->fleet.clients; s++)
        if (r->client[s].source && source_taken(r->client[s].source) != r->client[s].end)
            return false;
    for (uint32_t q = 0; q < r->group.replicas; q++) {
        const struct fleet_member *m = fleet_member(&r->fleet, q, 0);
        if (m->unit.of &&
            (fleet_unfit(m) || r->member[q].counter.state.count != r->check.history_count))
            return false;
    }
    return true;
}

static uint64_t delivered(const struct fleet_member *m)
{
    const struct run *r = m->host->fleet->ctx;
    return r->member[m->rank].counter.state.count;
}

static void stuck(void *ctx)
{
    struct run *r = ctx;
    char text[RUN_TEXT_BYTES - 40] = "";
    fleet_describe(&r->fleet, delivered, text, sizeof(text));
    check_violated(&r->check, "liveness", 0, "of %llu messages:%s",
                   (unsigned long long)r->check.history_count, text);
}

/* ---- hosts that hang ---- */

static void hang_begins(void *ctx)
{
    struct run *r = ctx;
    r->hang = true;
    r->pause_ns = rng_below(&r->fleet.rng, PAUSE_US_MAX * RUN_US);
}

static void hang_ends(void *ctx)
{
    struct run *r = ctx;
    r->hang = false;
}

static uint64_t waited_ns(const void *ctx)
{
    const struct run *r = ctx;
    uint64_t longest = 0;
    for (uint32_t s = 0; s < r->fleet.clients; s++) {
        const struct client *c = &r->client[s];
        uint64_t now = c->source && c->asked_ns ? sim_now(r->fleet.sim) - c->asked_ns : 0;
        uint64_t waited = c->waited_ns + (now > prompt_ns(r) ? now : 0);
        longest = waited > longest ? waited : longest;
    }
    return longest;
}

static void hang_is_late(void *ctx, uint64_t waited)
{
    struct run *r = ctx;
    char text[RUN_TEXT_BYTES - 60] = "";
    fleet_describe(&r->fleet, delivered, text, sizeof(text));
    check_violated(&r->check, "a hang costs once", 0, "a client waited %llu us:%s",
                   (unsigned long long)(waited / RUN_US), text);
}

static void start_all(struct run *r)
{
    struct fleet *f = &r->fleet;
    struct err e = {""};
    chaos_trace(&f->chaos, "%u replicas, %u memories, %u clients, log of %u bytes",
                r->group.replicas, r->group.memories, f->clients, r->log_opt.log_bytes);
    for (uint32_t q = r->group.replicas; q < f->hosts; q++)
        snprintf(f->node[q].name, sizeof(f->node[q].name), "m%u", q - r->group.replicas);
    for (uint32_t q = 0; q < r->group.replicas; q++) {
        r->member[q] = (struct member){.run = r, .rank = q};
        snprintf(f->node[q].name, sizeof(f->node[q].name), "r%u", q);
        snprintf(f->node[q].member[0].name, sizeof(f->node[q].member[0].name), "r%u", q);
    }
    for (uint32_t i = 0; i < f->hosts + f->clients; i++)
        if (fleet_start(&f->node[i], &e) != 0)
            violated(&f->node[i], "opens", e.text);
}

void run_log(const struct run_options *opt, struct run_result *result)
{
    struct run *r = calloc(1, sizeof(*r));
    struct err e = {""};
    struct sim_options so;
    CHECK(r != NULL);
    *result = (struct run_result){0};
    r->opt = opt;
    r->fleet = (struct fleet){.calls = &fleet_calls,
                              .ctx = r,
                              .group = &r->group,
                              .groups = 1,
                              .unit_ns = RUN_US,
                              .trace = opt->trace};
    rng_init(&r->fleet.rng, opt->seed);
    draw_options(r, &so);
    result->memory = run_memory_of(&so);
    check_init(&r->check, result, opt->seed);
    CHECK(fleet_open(&r->fleet, &so, &e) == 0);
    sim_on_landing(r->fleet.sim, landing, r);
    start_all(r);
    /* A leader is suspected and replaced, connections end, followers are detached: each once, or twice by bad luck. One that has just
     * said that it would be busy, for its disk, is waited for. */
    struct hang_calls hang = {
        .bound_ns = HANG_US * RUN_US + (r->fleet.durable ? BUSY_TIMES * r->log_opt.suspect_ns : 0) +
                    2 * (r->log_opt.suspect_ns + r->log_opt.detach_ns + so.lost_after_ns),
        .begin = hang_begins,
        .end = hang_ends,
        .waited_ns = waited_ns,
        .late = hang_is_late,
    };
    run_fleet(&r->fleet, result,
              &(struct run_calls){.safety_end_ns = r->safety_end_ns,
                                  .liveness_ns = LIVENESS_MS * UINT64_C(1000000),
                                  .calm = calm,
                                  .all_delivered = all_delivered,
                                  .stuck = stuck,
                                  .hang = r->state.stall_ns ? NULL : &hang,
                                  .ctx = r});
    result->messages = r->check.history_count;
    check_fini(&r->check);
    free(r);
}
