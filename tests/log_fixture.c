#include "log_fixture.h"

#include "base/hash.h"
#include "base/planted.h"
#include "sim_time.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool group_failed(const struct group *g)
{
    return g->result.property != NULL;
}

void group_violated(struct group *g, const char *property, const char *fmt, ...)
{
    char text[RUN_TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    check_violated(&g->check, property, 0, "%s", text);
}

uint64_t group_now(const struct group *g)
{
    return sim_now(g->sim);
}

/* ---- the machine: how many messages, and the hash of all of them ---- */

static uint64_t message_hash(uint32_t source, uint64_t pos, const void *payload, uint32_t bytes)
{
    return hash_bytes(hash_mix(source, pos), payload, bytes);
}

static void machine_observe(void *ctx, const struct entry *e, bool effective)
{
    struct group_replica *p = ctx;
    p->noops += !effective;
    check_entry(&p->group->check, p->rank, e);
}

/* The first replica to apply a message makes history: it must be the next of its client, as sent.
 * */
static void make_history(struct group_replica *p, const struct entry *e)
{
    struct group *g = p->group;
    struct group_client *c = e->source < g->clients ? &g->client[e->source] : NULL;
    if (e->source < g->clients && g->opt.raw_clients >> e->source & 1)
        return; /* what a source that is none of ours wrote is its own business */
    if (c == NULL || c->done_count >= c->sent_count) {
        for (uint32_t i = 0; c != NULL && i < c->done_count; i++)
            if (c->sent[i].pos == e->srcpos)
                group_violated(g, "no duplicate", "replica %u applied a message again", p->rank);
        group_violated(g, "integrity", "replica %u applied a message nobody sent", p->rank);
        return;
    }
    const struct group_message *next = &c->sent[c->done_count];
    if (e->srcpos != next->pos)
        group_violated(g, e->srcpos < next->pos ? "no duplicate" : "no gap",
                       "replica %u applied client %u at %llu, next is %llu", p->rank, e->source,
                       (unsigned long long)e->srcpos, (unsigned long long)next->pos);
    else if (next->hash != message_hash(e->source, e->srcpos, e->payload, e->bytes))
        group_violated(g, "integrity", "replica %u applied other bytes than were sent", p->rank);
    c->done_count++;
}

static bool machine_ready(void *ctx, const struct entry *e)
{
    const struct group_replica *p = ctx;
    (void)e;
    return !p->stalled;
}

static void machine_apply(void *ctx, const struct entry *e)
{
    struct group_replica *p = ctx;
    struct group *g = p->group;
    p->counter.state.hash =
        hash_mix(p->counter.state.hash, message_hash(e->source, e->srcpos, e->payload, e->bytes));
    uint64_t k = p->counter.state.count++;
    if (group_failed(g))
        return;
    if (k < g->history_count) {
        if (g->history[k] != p->counter.state.hash)
            group_violated(g, "state equality", "replica %u differs after message %llu", p->rank,
                           (unsigned long long)k);
        return;
    }
    CHECK(k == g->history_count && k < GROUP_SENT_MAX);
    make_history(p, e);
    g->history[g->history_count++] = p->counter.state.hash;
}

static void machine_loaded(struct counter_machine *counter, bool good)
{
    struct group_replica *p = (struct group_replica *)counter;
    struct group *g = p->group;
    if (!good)
        group_violated(g, "snapshot bytes", "replica %u got other bytes than were saved", p->rank);
    if (p->counter.state.count > g->history_count ||
        (p->counter.state.count > 0 &&
         g->history[p->counter.state.count - 1] != p->counter.state.hash))
        group_violated(g, "state equality", "replica %u loaded a state that never was", p->rank);
}

static const struct log_machine machine = {
    .apply = machine_apply,
    .ready = machine_ready,
    .observe = machine_observe,
    .state = &counter_machine_ops,
};

/* ---- disks ---- */

static struct disk_options disk_options(struct group *g, uint32_t rank)
{
    enum { SEGMENT_BYTES = 64 << 10, SEGMENTS = 8, BATCH_BYTES = 16 << 10 };
    struct disk_options o = {.shape = {.cluster = "fixture", .groups = 1, .hosts = g->n},
                             .segment_bytes = SEGMENT_BYTES,
                             .bytes = SEGMENTS * SEGMENT_BYTES,
                             .batch_bytes = BATCH_BYTES,
                             .buffer_bytes = 4 * BATCH_BYTES,
                             .retry_ns = 50 * US};
    snprintf(o.shape.host, sizeof(o.shape.host), "h%u", rank);
    o.block = disk_sim_block(g->disk[rank].platters, &g->disk[rank].now_ns);
    return o;
}

static void disk_up(struct group *g, uint32_t rank)
{
    struct group_disk *d = &g->disk[rank];
    struct err e = {""};
    d->now_ns = group_now(g);
    bool blank = d->platters == NULL;
    if (blank)
        d->platters = disk_sim_open(&(struct disk_sim_options){
            .seed = g->opt.seed, .flush_ns_min = US, .flush_ns_max = US});
    struct disk_options o = disk_options(g, rank);
    if ((blank && disk_format(o.block, &o.shape, 0, &e) != 0) || disk_open(&o, &d->disk, &e) != 0)
        group_violated(g, "opens", "%s", e.text);
}

static void disk_down(struct group *g, uint32_t rank)
{
    struct group_disk *d = &g->disk[rank];
    if (d->disk == NULL)
        return;
    disk_sim_die(d->platters);
    disk_close(d->disk);
    d->disk = NULL;
}

static void disk_step(struct group_disk *d, uint64_t now_ns)
{
    d->now_ns = now_ns;
    if (d->disk && !d->held)
        disk_round(d->disk, now_ns);
}

void group_hold_disk(struct group *g, uint32_t rank, bool held)
{
    g->disk[rank].held = held;
}

void group_fill_disk(struct group *g, uint32_t rank, bool full)
{
    struct disk_sim *platters = g->disk[rank].platters;
    disk_sim_limit(platters, full ? disk_sim_bytes(platters) : 0);
}

void group_flush_disk(struct group *g, uint32_t rank)
{
    struct group_disk *d = &g->disk[rank];
    uint64_t batch = disk_batch(d->disk);
    for (uint64_t now = group_now(g); disk_done(d->disk) < batch; now += US) {
        d->now_ns = now;
        disk_round(d->disk, now);
    }
}

void group_disk_append(struct group *g, uint32_t rank, const struct disk_record *r)
{
    struct group_disk *d = &g->disk[rank];
    struct disk_record copy = *r;
    CHECK(g->replica[rank].mem == NULL);
    disk_up(g, rank);
    unsigned char *to = disk_reserve(d->disk, (uint32_t)(r->bytes ? r->to - r->from : 0));
    CHECK(to != NULL);
    if (r->bytes)
        memcpy(to, r->bytes, r->to - r->from);
    copy.bytes = r->bytes ? to : NULL;
    uint64_t batch = disk_batch(d->disk);
    disk_append(d->disk, &copy);
    for (uint64_t now = group_now(g); disk_done(d->disk) < batch; now += US)
        disk_step(d, now);
    disk_down(g, rank);
}

/* ---- lives ---- */

void group_memory_start(struct group *g, uint32_t memory)
{
    struct err e = {""};
    struct log_options o = {.mem = sim_node_start(g->sim, g->memory_nodes[memory]),
                            .region = GROUP_REGION,
                            .nodes = g->nodes,
                            .replicas = g->n,
                            .log_bytes = g->opt.log_bytes};
    if (log_memory_open(&g->memory[memory], &o, &e) != 0)
        group_violated(g, "opens", "%s", e.text);
}

void group_memory_crash(struct group *g, uint32_t memory, bool keep_memory)
{
    log_memory_close(&g->memory[memory]);
    g->memory[memory].mem = NULL;
    sim_node_crash(g->sim, g->memory_nodes[memory], keep_memory);
}

void group_start(struct group *g, uint32_t rank)
{
    struct group_replica *p = &g->replica[rank];
    struct err e = {""};
    CHECK(p->mem == NULL);
    *p = (struct group_replica){
        .counter = {.pad = g->opt.snap_pad, .on_load = machine_loaded}, .group = g, .rank = rank};
    p->mem = sim_node_start(g->sim, rank);
    if (g->opt.raw_replicas >> rank & 1)
        return;
    struct log_options o = {
        .mem = p->mem,
        .region = GROUP_REGION,
        .nodes = g->nodes,
        .replicas = g->n,
        .rank = rank,
        .memory_nodes = g->memory_nodes,
        .memories = g->opt.memories,
        .all_vote = g->opt.all_vote,
        .source_nodes = g->client_nodes,
        .sources = g->clients,
        .source_bytes = 4096,
        .log_bytes = g->opt.log_bytes,
        .payload_max = GROUP_PAYLOAD_MAX,
        .snap_bytes = 4096,
        .backlog_bytes = (uint64_t)g->opt.backlog_rings * g->opt.log_bytes,
        .heartbeat_ns = GROUP_HEARTBEAT_NS,
        .suspect_ns = GROUP_SUSPECT_NS,
        .stagger_ns = 10 * US,
        .detach_ns = GROUP_DETACH_NS,
        .seed = g->opt.seed,
        .duels = g->opt.duels,
        .machine = &machine,
        .ctx = p,
    };
    if (g->opt.durable)
        disk_up(g, rank);
    o.disk = g->disk[rank].disk;
    if (log_open(&o, &p->log, &e) != 0 || (o.disk && log_restore(p->log, &e) != 0))
        group_violated(g, "opens", "%s", e.text);
}

void group_crash(struct group *g, uint32_t rank, bool keep_memory)
{
    struct group_replica *p = &g->replica[rank];
    log_close(p->log);
    p->log = NULL;
    p->mem = NULL;
    disk_down(g, rank);
    sim_node_crash(g->sim, rank, keep_memory);
}

void group_power_cut(struct group *g, uint32_t rank)
{
    group_crash(g, rank, false);
    disk_sim_power_cut(g->disk[rank].platters);
}

static void client_open(struct group *g, uint32_t c)
{
    struct err e = {""};
    g->client[c].mem = sim_node_start(g->sim, g->client_nodes[c]);
    if (g->opt.raw_clients >> c & 1)
        return;
    struct source_options o = {
        .mem = g->client[c].mem,
        .region = GROUP_REGION,
        .nodes = g->nodes,
        .replicas = g->n,
        .number = c,
        .source_bytes = 4096,
        .payload_max = GROUP_PAYLOAD_MAX,
        .retry_ns = 100 * US,
    };
    if (source_open(&o, &g->client[c].source, &e) != 0)
        group_violated(g, "opens", "%s", e.text);
}

static void landing(void *ctx, const struct sim_landing *l)
{
    struct group *g = ctx;
    if (l->counted && lane_kind(&l->lane->spec) == LANE_LOG)
        check_landing(&g->check, l->lane->spec.owner, l->ballot);
}

struct group *group_open(const struct group_options *options)
{
    struct group *g = calloc(1, sizeof(*g));
    struct err e = {""};
    CHECK(g != NULL);
    g->opt = *options;
    g->n = g->opt.replicas;
    g->clients = g->opt.clients ? g->opt.clients : 1;
    g->opt.log_bytes = g->opt.log_bytes ? g->opt.log_bytes : 4096;
    CHECK(g->n + g->opt.memories <= CHECK_REPLICAS_MAX);
    CHECK(g->n <= LOG_REPLICAS_MAX && g->clients <= GROUP_CLIENTS_MAX);
    check_init(&g->check, &g->result, g->opt.seed);
    struct sim_options so = {
        .seed = g->opt.seed,
        .nodes_max = g->n + g->opt.memories + g->clients,
        .delay_ns_min = g->opt.rough ? GROUP_WAY_NS / 4 : GROUP_WAY_NS,
        .delay_ns_max = g->opt.rough ? 4 * GROUP_WAY_NS : GROUP_WAY_NS,
        .tear_per_million = g->opt.read_gap_ns ? 500000
                            : g->opt.rough     ? 200000
                                               : 0,
        .read_gap_ns_max = g->opt.read_gap_ns,
        .lost_after_ns = GROUP_LOST_NS,
        .owner_answers = g->opt.owner_answers,
        .check_at_issue = PLANTED(no_fence),
        .links = {.on = g->opt.links, .passive = true},
    };
    g->sim = sim_open(&so, &e);
    CHECK(g->sim != NULL);
    sim_on_landing(g->sim, landing, g);
    for (uint32_t q = 0; q < g->n; q++)
        g->nodes[q] = q;
    for (uint32_t c = 0; c < g->clients; c++)
        g->client_nodes[c] = g->n + g->opt.memories + c;
    for (uint32_t i = 0; i < g->opt.memories; i++) {
        g->memory_nodes[i] = g->n + i;
        group_memory_start(g, i);
    }
    for (uint32_t q = 0; q < g->n; q++) {
        group_start(g, q);
        if (g->opt.durable)
            group_power_cut(g, q);
    }
    for (uint32_t c = 0; c < g->clients; c++)
        client_open(g, c);
    return g;
}

const char *group_close(struct group *g)
{
    const char *property = g->result.property;
    if (property != NULL)
        printf("# %s, at %llu us: %s\n", property, (unsigned long long)(g->result.time_ns / US),
               g->result.text);
    for (uint32_t q = 0; q < g->n; q++) {
        log_close(g->replica[q].log);
        disk_down(g, q);
        if (g->disk[q].platters)
            disk_sim_close(g->disk[q].platters);
    }
    for (uint32_t c = 0; c < g->clients; c++)
        source_close(g->client[c].source);
    sim_close(g->sim);
    check_fini(&g->check);
    free(g);
    return property;
}

/* ---- stepping ---- */

void group_pass(struct group *g, uint64_t ns)
{
    uint64_t end = sim_time_pass(g->sim, ns);
    if (!group_failed(g))
        g->result.time_ns = end;
}

static void self_check(struct group_replica *p)
{
    if (log_broken(p->log))
        group_violated(p->group, "self-check", "replica %u: %s", p->rank, log_broken(p->log));
    if (log_check(p->log))
        group_violated(p->group, "rule", "replica %u: %s", p->rank, log_check(p->log));
}

void group_post(struct group *g, uint32_t rank)
{
    log_post(g->replica[rank].log, group_now(g));
    self_check(&g->replica[rank]);
}

void group_settle(struct group *g, uint32_t rank)
{
    mem_poll(g->replica[rank].mem);
    disk_step(&g->disk[rank], group_now(g));
    log_settle(g->replica[rank].log, group_now(g));
    self_check(&g->replica[rank]);
}

/* What stands in the lane that the replica follows, from what it has applied to the commit. */
static void look_at_lane(struct group *g, uint32_t rank)
{
    struct unit_status s = group_stats(g, rank);
    if (s.promised == 0 || s.promised == MEM_CLOSED || s.behind)
        return;
    const struct mem_lane *lane = group_lane(g, rank, (uint32_t)(s.promised % g->n));
    if (lane == NULL || mem_word(lane, LOG_RUN) != s.promised)
        return;
    uint64_t start = mem_word(lane, LOG_START);
    check_lane(&g->check, rank, lane->ring, g->opt.log_bytes, s.applied > start ? s.applied : start,
               mem_word(lane, LOG_COMMIT), mem_word(lane, LOG_GUARD));
}

/* What was taken from each client is a function of the log: equal at equal positions. */
static void compare_taken(struct group *g)
{
    for (uint32_t a = 0; a < g->n; a++)
        for (uint32_t b = a + 1; b < g->n; b++) {
            if (g->replica[a].log == NULL || g->replica[b].log == NULL)
                continue;
            struct unit_status sa = group_stats(g, a), sb = group_stats(g, b);
            if (sa.behind || sb.behind || sa.applied != sb.applied)
                continue;
            for (uint32_t c = 0; c < g->clients; c++)
                if (log_source_taken(g->replica[a].log, c) !=
                    log_source_taken(g->replica[b].log, c))
                    group_violated(g, "derived state equality", "replicas %u and %u, client %u", a,
                                   b, c);
        }
}

void group_tick(struct group *g)
{
    for (uint32_t i = 0; i < g->opt.memories; i++)
        if (g->memory[i].mem) {
            mem_poll(g->memory[i].mem);
            log_memory_step(&g->memory[i], group_now(g));
        }
    for (uint32_t q = 0; q < g->n; q++)
        if (g->replica[q].log && !g->replica[q].held) {
            group_post(g, q);
            group_settle(g, q);
        }
    for (uint32_t c = 0; c < g->clients; c++)
        if (g->client[c].source) {
            mem_poll(g->client[c].mem);
            source_step(g->client[c].source, group_now(g));
        }
    group_pass(g, GROUP_TICK_NS);
    for (uint32_t q = 0; q < g->n; q++)
        if (g->replica[q].log)
            look_at_lane(g, q);
    compare_taken(g);
}

void group_run(struct group *g, uint64_t ns)
{
    uint64_t end = group_now(g) + ns;
    while (!group_failed(g) && group_now(g) < end)
        group_tick(g);
}

/* ---- faults ---- */

void group_hold(struct group *g, uint32_t rank, bool held)
{
    g->replica[rank].held = held;
    sim_node_pause(g->sim, rank, held);
}

void group_cut(struct group *g, uint32_t from, uint32_t to, bool cut)
{
    sim_cut(g->sim, from, to, cut);
}

void group_cut_off(struct group *g, uint32_t node, bool cut)
{
    for (uint32_t i = 0; i < g->n + g->opt.memories + g->clients; i++)
        if (i != node) {
            sim_cut(g->sim, node, i, cut);
            sim_cut(g->sim, i, node, cut);
        }
}

void group_lie(struct group *g, uint32_t asker, uint32_t about, bool says_dead)
{
    sim_oracle_lie(g->sim, asker, about, says_dead ? SIM_SAYS_DEAD : SIM_TRUTH);
}

/* ---- clients ---- */

void group_send_bytes(struct group *g, uint32_t client, const void *payload, uint32_t bytes)
{
    struct group_client *c = &g->client[client];
    uint64_t end;
    CHECK(c->sent_count < GROUP_SENT_MAX);
    if (group_failed(g))
        return;
    int rc = source_send(c->source, payload, bytes, &end);
    if (rc != 0) {
        group_violated(g, "setup", "client %u: %s", client, err_name(rc));
        return;
    }
    uint64_t pos = end - frame_size(bytes);
    c->sent[c->sent_count++] = (struct group_message){
        .pos = pos, .bytes = bytes, .hash = message_hash(client, pos, payload, bytes)};
    source_flush(c->source);
}

void group_send(struct group *g, uint32_t client, uint32_t bytes)
{
    unsigned char payload[GROUP_PAYLOAD_MAX];
    CHECK(bytes <= sizeof(payload));
    check_fill(g->opt.seed + g->client[client].sent_count, client, g->history_count * 64, payload,
               bytes);
    group_send_bytes(g, client, payload, bytes);
}

/* ---- looking ---- */

struct unit_status group_stats(const struct group *g, uint32_t rank)
{
    struct unit_status s = {0};
    if (g->replica[rank].log)
        log_status(g->replica[rank].log, &s);
    return s;
}

uint32_t group_leader(const struct group *g)
{
    uint32_t leader = g->n;
    uint64_t ballot = 0;
    for (uint32_t q = 0; q < g->n; q++) {
        struct unit_status s = group_stats(g, q);
        if (g->replica[q].log && s.role == UNIT_LEADER && s.epoch > ballot) {
            leader = q;
            ballot = s.epoch;
        }
    }
    return leader;
}

bool group_even(const struct group *g)
{
    for (uint32_t q = 0; q < g->n; q++) {
        const struct group_replica *p = &g->replica[q];
        if (p->log == NULL || p->held)
            continue;
        struct unit_status s = group_stats(g, q);
        if (s.behind || s.role == UNIT_JOINING || p->counter.state.count != g->history_count)
            return false;
    }
    return true;
}

bool group_delivered(const struct group *g)
{
    for (uint32_t c = 0; c < g->clients; c++)
        if (g->client[c].done_count != g->client[c].sent_count)
            return false;
    return group_even(g);
}

const struct mem_lane *group_lane(const struct group *g, uint32_t owner, uint32_t writer)
{
    struct mem_lane_spec spec = lane_spec(GROUP_REGION, owner, writer, LANE_LOG, 0);
    return sim_lane(g->sim, &spec);
}
