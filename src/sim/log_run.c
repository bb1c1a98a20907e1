/* A simulated group with its clients, the faults that befall it, and the verdict. */
#include "agree/feed.h"
#include "agree/lanes.h"
#include "agree/log.h"
#include "base/hash.h"
#include "base/planted.h"
#include "base/rng.h"
#include "mem/sim.h"
#include "sim/chaos.h"
#include "sim/log_check.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLIENTS_MAX = 4,
    NODES_MAX = CHECK_REPLICAS_MAX + CLIENTS_MAX,
    PAYLOAD_MAX = 1024,
    SNAP_PAD_MAX = 24 << 10,
    REGION = 7,
    CHECK_LANES_EVERY = 64, /* steps of a replica between two looks at its memory */
};

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

struct run;

struct replica {
    struct run *run;
    uint32_t rank;
    struct mem *mem;
    struct log *log; /* NULL while down */
    struct check_state state;
    struct check_state saved;  /* copy being sent */
    struct check_state loaded; /* what came so far */
    uint64_t load_at;
    uint64_t steps;
    uint64_t life; /* counts starts, so that events of an earlier life are ignored */
    enum log_state shown;
    uint64_t terms, snapshots; /* of earlier lives */
};

struct client {
    struct run *run;
    uint32_t source;
    struct mem *mem;
    struct feed *feed;
    uint64_t sent; /* messages */
    uint64_t quota;
    uint64_t end; /* of the stream */
};

struct run {
    const struct run_options *opt;
    struct run_result *result;
    struct sim *sim;
    struct rng rng; /* the harness's draws */
    struct log_check check;
    struct chaos chaos;
    uint32_t n, clients;
    uint32_t nodes[CHECK_REPLICAS_MAX];
    uint32_t source_nodes[CLIENTS_MAX];
    struct replica replica[CHECK_REPLICAS_MAX];
    struct client client[CLIENTS_MAX];
    struct log_options log_opt;
    uint32_t payload_max;
    uint64_t snap_pad;
    uint64_t step_ns_max;
    uint64_t safety_end_ns, liveness_end_ns;
};

/* ---- the machine ---- */

static void machine_observe(void *ctx, const struct entry *e, bool effective)
{
    struct replica *p = ctx;
    (void)effective;
    sim_note(p->run->sim, hash_mix(e->pos, p->rank));
    check_entry(&p->run->check, p->rank, e);
}

static void machine_apply(void *ctx, const struct entry *e)
{
    struct replica *p = ctx;
    check_message(&p->run->check, p->rank, &p->state, e);
    chaos_trace(&p->run->chaos, "r%u applies %llu: source %u at %llu, %u bytes, ballot %llu",
                p->rank, (unsigned long long)e->pos, e->source, (unsigned long long)e->srcpos,
                e->bytes, (unsigned long long)e->ballot);
}

static uint64_t machine_save_open(void *ctx)
{
    struct replica *p = ctx;
    p->saved = p->state;
    return sizeof(p->saved) + p->run->snap_pad;
}

static void machine_save_read(void *ctx, uint64_t offset, void *out, uint32_t bytes)
{
    struct replica *p = ctx;
    unsigned char *to = out;
    for (uint32_t i = 0; i < bytes; i++, offset++)
        to[i] = offset < sizeof(p->saved) ? ((const unsigned char *)&p->saved)[offset]
                                          : (unsigned char)(offset * 31);
}

static void machine_save_close(void *ctx)
{
    (void)ctx;
}

static void machine_load_open(void *ctx, uint64_t bytes)
{
    struct replica *p = ctx;
    (void)bytes;
    p->load_at = 0;
}

static void machine_load_write(void *ctx, const void *data, uint32_t bytes)
{
    struct replica *p = ctx;
    const unsigned char *from = data;
    uint64_t real = sizeof(p->loaded) + p->run->snap_pad;
    for (uint32_t i = 0; i < bytes; i++, p->load_at++) {
        if (p->load_at < sizeof(p->loaded))
            ((unsigned char *)&p->loaded)[p->load_at] = from[i];
        else if (p->load_at < real && from[i] != (unsigned char)(p->load_at * 31))
            check_violated(&p->run->check, "snapshot bytes", p->load_at,
                           "replica %u got other bytes than were saved", p->rank);
    }
}

static void machine_load_close(void *ctx)
{
    struct replica *p = ctx;
    p->state = p->loaded;
    check_loaded(&p->run->check, p->rank, &p->state);
    chaos_trace(&p->run->chaos, "r%u has loaded a snapshot of %llu messages", p->rank,
                (unsigned long long)p->state.count);
}

static const struct log_machine machine = {
    .apply = machine_apply,
    .observe = machine_observe,
    .save_open = machine_save_open,
    .save_read = machine_save_read,
    .save_close = machine_save_close,
    .load_open = machine_load_open,
    .load_write = machine_load_write,
    .load_close = machine_load_close,
};

/* ---- lives ---- */

static void replica_step_event(void *ctx, uint64_t life);
static void client_step_event(void *ctx, uint64_t arg);

static void schedule_replica(struct replica *p)
{
    struct run *r = p->run;
    uint64_t when = sim_now(r->sim) + rng_range(&r->rng, 100, r->step_ns_max);
    when = chaos_not_before(&r->chaos, r->nodes[p->rank], when);
    sim_at(r->sim, when, replica_step_event, p, p->life);
}

static void replica_start(struct replica *p)
{
    struct run *r = p->run;
    struct err e = {""};
    p->mem = sim_node_start(r->sim, r->nodes[p->rank]);
    p->state = (struct check_state){0};
    struct log_options o = r->log_opt;
    o.mem = p->mem;
    o.rank = p->rank;
    o.ctx = p;
    o.seed = rng_u64(&r->rng);
    if (log_open(&o, &p->log, &e) != 0) {
        check_violated(&r->check, "opens", 0, "replica %u: %s", p->rank, e.text);
        return;
    }
    p->shown = LOG_FOLLOWER;
    chaos_trace(&r->chaos, "r%u starts, life %u", p->rank, p->mem->incarnation);
    schedule_replica(p);
}

static void replica_note_end(struct replica *p)
{
    struct log_stats s;
    log_stats(p->log, &s);
    p->terms += s.terms;
    p->snapshots += s.snapshots_loaded;
}

static void replica_crash(struct replica *p, bool keep_memory)
{
    replica_note_end(p);
    log_close(p->log);
    p->log = NULL;
    p->life++;
    sim_node_crash(p->run->sim, p->run->nodes[p->rank], keep_memory);
}

/* ---- stepping ---- */

static void show_state(struct replica *p)
{
    struct log_stats s;
    log_stats(p->log, &s);
    if (s.state == p->shown)
        return;
    static const char *const names[] = {"joining", "follower", "candidate", "sync", "leader"};
    chaos_trace(&p->run->chaos, "r%u is %s, ballot %llu, applied %llu, commit %llu, tail %llu",
                p->rank, names[s.state], (unsigned long long)s.ballot,
                (unsigned long long)s.applied, (unsigned long long)s.commit,
                (unsigned long long)s.tail);
    sim_note(p->run->sim, hash_mix(s.ballot, s.state));
    p->shown = s.state;
    if (s.state == LOG_SYNC || s.state == LOG_LEADER)
        chaos_ambush(&p->run->chaos, p->rank);
}

/* Compares what a replica holds below its commit with what is decided. */
static void look_at_lane(struct replica *p)
{
    struct run *r = p->run;
    uint64_t promised = sim_promised(r->sim, r->nodes[p->rank], REGION);
    struct log_stats s;
    log_stats(p->log, &s);
    if (promised == 0 || promised == MEM_CLOSED || s.behind)
        return;
    struct mem_lane_spec spec =
        lane_spec(REGION, r->nodes[p->rank], r->nodes[promised % r->n], LANE_LOG, 0);
    const struct mem_lane *lane = sim_lane(r->sim, &spec);
    if (lane == NULL || lane->ctl == NULL || mem_word(lane, LOG_RUN) != promised)
        return;
    uint64_t start = mem_word(lane, LOG_START);
    uint64_t from = s.applied > start ? s.applied : start;
    check_lane(&r->check, p->rank, lane->ring, r->log_opt.log_bytes, from,
               mem_word(lane, LOG_COMMIT), mem_word(lane, LOG_GUARD));
}

/* What was taken from each source is a function of the log: equal at equal positions. */
static void compare_taken(struct run *r, struct replica *p)
{
    struct log_stats a, b;
    log_stats(p->log, &a);
    for (uint32_t q = 0; q < r->n; q++) {
        struct replica *o = &r->replica[q];
        if (o == p || o->log == NULL)
            continue;
        log_stats(o->log, &b);
        if (a.behind || b.behind || a.applied != b.applied)
            continue;
        for (uint32_t s = 0; s < r->clients; s++)
            if (log_source_taken(p->log, s) != log_source_taken(o->log, s))
                check_violated(&r->check, "derived state equality", a.applied,
                               "replicas %u and %u took source %u up to %llu and %llu", p->rank, q,
                               s, (unsigned long long)log_source_taken(p->log, s),
                               (unsigned long long)log_source_taken(o->log, s));
    }
}

static void replica_step_event(void *ctx, uint64_t life)
{
    struct replica *p = ctx;
    struct run *r = p->run;
    if (p->log == NULL || p->life != life)
        return;
    uint64_t now = sim_now(r->sim);
    r->check.now_ns = now;
    if (chaos_not_before(&r->chaos, r->nodes[p->rank], now) > now) {
        schedule_replica(p);
        return;
    }
    /* Now and then only half a round is made before time passes. */
    uint64_t half = r->chaos.calm ? 9 : rng_below(&r->rng, 40);
    if (half != 0)
        log_post(p->log, now);
    if (half != 1) {
        mem_poll(p->mem);
        log_settle(p->log, now);
    }
    show_state(p);
    if (log_broken(p->log))
        check_violated(&r->check, "self-check", 0, "replica %u: %s", p->rank, log_broken(p->log));
    if (++p->steps % CHECK_LANES_EVERY == 0) {
        look_at_lane(p);
        compare_taken(r, p);
    }
    schedule_replica(p);
}

static void schedule_client(struct client *c)
{
    struct run *r = c->run;
    uint64_t when = sim_now(r->sim) + rng_range(&r->rng, 200, 4 * r->step_ns_max);
    when = chaos_not_before(&r->chaos, r->source_nodes[c->source], when);
    sim_at(r->sim, when, client_step_event, c, 0);
}

static void client_send(struct client *c)
{
    struct run *r = c->run;
    unsigned char payload[PAYLOAD_MAX];
    uint64_t burst = rng_below(&r->rng, 4) ? 1 : rng_range(&r->rng, 1, 12);
    for (; burst > 0 && c->sent < c->quota; burst--) {
        uint32_t bytes = (uint32_t)rng_below(&r->rng, r->payload_max + 1);
        check_fill(r->check.seed, c->source, c->end, payload, bytes);
        uint64_t end;
        if (feed_send(c->feed, payload, bytes, &end) != 0)
            break;
        c->sent++;
        c->end = r->check.source_sent[c->source] = end;
    }
    feed_flush(c->feed);
}

static void client_step_event(void *ctx, uint64_t arg)
{
    struct client *c = ctx;
    struct run *r = c->run;
    (void)arg;
    if (c->feed == NULL)
        return;
    uint64_t now = sim_now(r->sim);
    r->check.now_ns = now;
    mem_poll(c->mem);
    feed_step(c->feed, now);
    check_ack(&r->check, c->source, feed_taken(c->feed));
    if (rng_below(&r->rng, 3) == 0)
        client_send(c);
    mem_poll(c->mem);
    schedule_client(c);
}

/* ---- faults ---- */

/* Could not, right now, carry the group's state on. */
static bool unfit(const struct replica *p)
{
    if (p->log == NULL)
        return true;
    struct log_stats s;
    log_stats(p->log, &s);
    return s.behind || s.state == LOG_JOINING;
}

static uint32_t count_unfit(const struct run *r)
{
    uint32_t count = 0;
    for (uint32_t q = 0; q < r->n; q++)
        count += unfit(&r->replica[q]);
    return count;
}

static bool may_crash(void *ctx, uint32_t host)
{
    const struct run *r = ctx;
    return count_unfit(r) - unfit(&r->replica[host]) + 1 <= (r->n - 1) / 2;
}

static void crash(void *ctx, uint32_t host, bool keep_memory)
{
    struct run *r = ctx;
    replica_crash(&r->replica[host], keep_memory);
}

static void start(void *ctx, uint32_t host)
{
    struct run *r = ctx;
    replica_start(&r->replica[host]);
}

static bool is_up(void *ctx, uint32_t host)
{
    const struct run *r = ctx;
    return r->replica[host].log != NULL;
}

static bool leads(void *ctx, uint32_t host)
{
    const struct run *r = ctx;
    struct log_stats s;
    log_stats(r->replica[host].log, &s);
    return s.ballot != 0;
}

static void client_crash(void *ctx, uint32_t client)
{
    struct run *r = ctx;
    struct client *c = &r->client[client];
    if (c->feed == NULL || r->clients == 1)
        return;
    chaos_trace(&r->chaos, "client %u dies", c->source);
    feed_close(c->feed);
    c->feed = NULL;
    sim_node_crash(r->sim, r->source_nodes[c->source], true);
    r->chaos.faults++;
}

static const struct chaos_calls chaos_calls = {
    .may_crash = may_crash,
    .crash = crash,
    .start = start,
    .is_up = is_up,
    .leads = leads,
    .client_crash = client_crash,
};

/* Those who still lack state when the faults stop need the rest to give it to them. */
static bool spare(void *ctx, uint32_t host)
{
    const struct run *r = ctx;
    (void)host;
    return count_unfit(r) <= (r->n - 1) / 2;
}

/* ---- the whole ---- */

static void draw_options(struct run *r, struct sim_options *so)
{
    struct rng *g = &r->rng;
    static const uint32_t sizes[] = {3, 3, 3, 3, 3, 5, 5, 5, 7, 1, 2, 4, 6, 9, 3, 5};
    r->n = r->opt->replicas ? r->opt->replicas : sizes[rng_below(g, 16)];
    r->clients = (uint32_t)rng_range(g, 1, CLIENTS_MAX);
    uint64_t delay = rng_range(g, 200, 3000);
    *so = (struct sim_options){
        .seed = rng_u64(g),
        .nodes_max = r->n + r->clients,
        .delay_ns_min = delay / 4 + 1,
        .delay_ns_max = delay,
        .delay_ns_spike = rng_range(g, 10 * US, 400 * US),
        .spike_per_million = rng_below(g, 2) ? (uint32_t)rng_below(g, 3000) : 0,
        .tear_per_million = (uint32_t)rng_below(g, 300000),
        .lost_after_ns = rng_range(g, 60 * US, 300 * US),
        .owner_answers = rng_below(g, 2),
        .check_at_issue = PLANTED(no_fence),
    };
    r->step_ns_max = rng_range(g, 400, 2500);
    r->safety_end_ns = rng_range(g, 400 * US, 2500 * US);
    r->snap_pad = rng_below(g, 3) ? rng_below(g, 2000) : rng_below(g, SNAP_PAD_MAX);
    uint32_t log_bytes = 4096u << rng_below(g, 4);
    r->payload_max = log_bytes / 16 < PAYLOAD_MAX ? log_bytes / 16 : PAYLOAD_MAX;
    r->payload_max = (uint32_t)rng_range(g, 8, r->payload_max);
    for (uint32_t q = 0; q < r->n; q++)
        r->nodes[q] = q;
    for (uint32_t s = 0; s < r->clients; s++)
        r->source_nodes[s] = r->n + s;
    r->log_opt = (struct log_options){
        .region = REGION,
        .nodes = r->nodes,
        .replicas = r->n,
        .source_nodes = r->source_nodes,
        .sources = r->clients,
        .source_bytes = 4096,
        .log_bytes = log_bytes,
        .payload_max = r->payload_max,
        .batch_bytes = (uint32_t)rng_range(g, 64, log_bytes / 8),
        .window_bytes = (uint32_t)rng_range(g, log_bytes / 8, log_bytes / 2),
        .snap_bytes = 4096,
        .heartbeat_ns = 15 * US,
        .suspect_ns = rng_range(g, 40 * US, 150 * US),
        .stagger_ns = rng_range(g, 5 * US, 40 * US),
        .detach_ns = rng_range(g, 50 * US, 300 * US),
        .machine = &machine,
    };
}

static void landing(void *ctx, const struct sim_landing *l)
{
    struct run *r = ctx;
    if (l->counted && (l->lane->spec.kind & 0xff) == LANE_LOG)
        check_landing(&r->check, l->lane->spec.owner, l->ballot);
}

static void clients_open(struct run *r)
{
    for (uint32_t s = 0; s < r->clients; s++) {
        struct client *c = &r->client[s];
        struct err e = {""};
        *c = (struct client){.run = r, .source = s};
        c->quota = rng_below(&r->rng, 4) ? rng_range(&r->rng, 50, 400) : 1;
        c->mem = sim_node_start(r->sim, r->source_nodes[s]);
        struct feed_options o = {
            .mem = c->mem,
            .region = REGION,
            .nodes = r->nodes,
            .replicas = r->n,
            .source = s,
            .source_bytes = 4096,
            .payload_max = r->payload_max,
            .retry_ns = 100 * US,
        };
        if (feed_open(&o, &c->feed, &e) != 0)
            check_violated(&r->check, "opens", 0, "client %u: %s", s, e.text);
        schedule_client(c);
    }
}

/* The faults stop; all come back but for a few that the group can do without. */
static void make_calm(struct run *r)
{
    chaos_end(&r->chaos, spare);
    /* What a client has not begun to send by now it does not send. */
    for (uint32_t s = 0; s < r->clients; s++)
        r->client[s].quota = r->client[s].sent;
}

/* True when everything that was sent by the living is applied by all the living. */
static bool all_delivered(const struct run *r)
{
    for (uint32_t s = 0; s < r->clients; s++)
        if (r->client[s].feed && feed_taken(r->client[s].feed) != r->client[s].end)
            return false;
    for (uint32_t q = 0; q < r->n; q++) {
        const struct replica *p = &r->replica[q];
        if (p->log == NULL)
            continue;
        struct log_stats s;
        log_stats(p->log, &s);
        if (s.behind || s.state == LOG_JOINING || p->state.count != r->check.history_count)
            return false;
    }
    return true;
}

static void report_stuck(struct run *r)
{
    char text[RUN_TEXT_BYTES - 40] = "";
    for (uint32_t q = 0; q < r->n; q++) {
        struct log_stats s = {0};
        if (r->replica[q].log)
            log_stats(r->replica[q].log, &s);
        size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, " r%u:%s%u/%llu", q,
                 r->replica[q].log == NULL ? "down"
                 : s.behind                ? "behind"
                                           : "state",
                 s.state, (unsigned long long)r->replica[q].state.count);
    }
    check_violated(&r->check, "liveness", 0, "of %llu messages:%s",
                   (unsigned long long)r->check.history_count, text);
}

static void run_phases(struct run *r)
{
    while (r->result->property == NULL && sim_now(r->sim) < r->safety_end_ns && sim_step(r->sim))
        ;
    make_calm(r);
    uint64_t end = sim_now(r->sim) + 20 * MS;
    bool delivered = false;
    for (uint64_t i = 0; r->result->property == NULL && sim_step(r->sim); i++) {
        if (i % 256 == 0 && (delivered = all_delivered(r)))
            break;
        if (sim_now(r->sim) > end)
            break;
    }
    r->check.now_ns = sim_now(r->sim);
    if (r->result->property == NULL && !delivered)
        report_stuck(r);
}

void run_log(const struct run_options *opt, struct run_result *result)
{
    *result = (struct run_result){0};
    struct run *r = calloc(1, sizeof(*r));
    struct err e = {""};
    struct sim_options so;
    CHECK(r != NULL);
    r->opt = opt;
    r->result = result;
    rng_init(&r->rng, opt->seed);
    draw_options(r, &so);
    check_init(&r->check, result, opt->seed);
    r->sim = sim_open(&so, &e);
    if (r->sim == NULL) {
        check_violated(&r->check, "opens", 0, "%s", e.text);
        goto out;
    }
    sim_on_landing(r->sim, landing, r);
    r->chaos = (struct chaos){
        .sim = r->sim,
        .rng = &r->rng,
        .trace = opt->trace,
        .calls = &chaos_calls,
        .ctx = r,
        .hosts = r->n,
        .clients = r->clients,
    };
    chaos_trace(&r->chaos, "%u replicas, %u clients, log of %u bytes", r->n, r->clients,
                r->log_opt.log_bytes);
    for (uint32_t q = 0; q < r->n; q++) {
        r->replica[q] = (struct replica){.run = r, .rank = q};
        replica_start(&r->replica[q]);
    }
    clients_open(r);
    chaos_init(&r->chaos);
    run_phases(r);

    if (result->property == NULL)
        result->time_ns = sim_now(r->sim);
    result->hash = sim_hash(r->sim);
    result->events = sim_events(r->sim);
    result->faults = r->chaos.faults;
    result->messages = r->check.history_count;
    result->replicas = r->n;
    for (uint32_t q = 0; q < r->n; q++) {
        struct replica *p = &r->replica[q];
        if (p->log) {
            replica_note_end(p);
            log_close(p->log);
        }
        result->terms += p->terms;
        result->snapshots += p->snapshots;
    }
    for (uint32_t s = 0; s < r->clients; s++)
        feed_close(r->client[s].feed);
    sim_close(r->sim);
out:
    check_fini(&r->check);
    free(r);
}
