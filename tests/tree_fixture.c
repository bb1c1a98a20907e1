#include "tree_fixture.h"

#include "agree/lanes.h"
#include "base/planted.h"
#include "sim_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool forest_failed(const struct forest *f)
{
    return f->result.property != NULL;
}

void forest_violated(struct forest *f, const char *property, int line, const char *what)
{
    mcast_check_violated(&f->check, property, 0, "line %d: %s", line, what);
}

uint64_t forest_now(const struct forest *f)
{
    return sim_now(f->sim);
}

uint32_t forest_node(const struct forest *f, uint16_t group, uint32_t rank)
{
    return group * f->opt.replicas + rank;
}

uint32_t forest_client_node(const struct forest *f, uint32_t client)
{
    return f->sizes.client_node + client;
}

/* ---- the machine ---- */

/* Replies have every length there is. */
static uint32_t reply_bytes(uint64_t seq)
{
    return (uint32_t)(seq * 8 % (FOREST_REPLY_MAX + 8));
}

static uint32_t machine_deliver(void *ctx, const struct delivery *d, void *reply, uint32_t max)
{
    struct forest_replica *p = ctx;
    mcast_check_deliver(&p->forest->check, forest_node(p->forest, p->group, p->rank),
                        &p->counter.state, d);
    CHECK(reply_bytes(d->seq) <= max);
    mcast_check_reply_fill(d->seq, reply, reply_bytes(d->seq));
    return reply_bytes(d->seq);
}

static void machine_loaded(struct counter_machine *counter, bool good)
{
    struct forest_replica *p = (struct forest_replica *)counter;
    if (!good)
        forest_violated(p->forest, "snapshot bytes", __LINE__, "not what was saved");
    mcast_check_loaded(&p->forest->check, forest_node(p->forest, p->group, p->rank), p->group,
                       &p->counter.state);
}

static void machine_observe(void *ctx, const struct entry *e, bool effective)
{
    const struct forest_replica *p = ctx;
    (void)effective;
    if (p->forest->opt.raw_clients == 0)
        participation_entry(&p->forest->part, p->group, e);
}

static const struct mcast_machine machine = {
    .deliver = machine_deliver,
    .state = &counter_machine_ops,
};

/* ---- replicas ---- */

void forest_start(struct forest *f, uint16_t group, uint32_t rank)
{
    struct forest_replica *p = &f->replica[group][rank];
    struct err e = {""};
    *p = (struct forest_replica){.counter = {.on_load = machine_loaded},
                                 .forest = f,
                                 .group = group,
                                 .rank = rank,
                                 .held = p->held};
    p->mem = sim_node_start(f->sim, forest_node(f, group, rank));
    struct replica_options o = {
        .mem = p->mem,
        .protocol = f->opt.protocol,
        .overlay = f->overlay,
        .groups = f->group,
        .group = group,
        .rank = rank,
        .sizes = f->sizes,
        .heartbeat_ns = FOREST_HEARTBEAT_NS,
        .suspect_ns = FOREST_SUSPECT_NS,
        .stagger_ns = 10 * US,
        .detach_ns = 100 * US,
        .seed = f->opt.seed + forest_node(f, group, rank),
        .duels = f->opt.duels,
        .machine = &machine,
        .observe = machine_observe,
        .ctx = p,
    };
    if (replica_open(&o, &p->tree, &e) != 0)
        forest_violated(f, "opens", __LINE__, e.text);
    else
        p->unit = replica_unit(p->tree);
}

void forest_crash(struct forest *f, uint16_t group, uint32_t rank, bool keep_memory)
{
    struct forest_replica *p = &f->replica[group][rank];
    if (p->mem == NULL)
        return;
    replica_close(p->tree);
    p->tree = NULL;
    p->mem = NULL;
    sim_node_crash(f->sim, forest_node(f, group, rank), keep_memory);
}

void forest_start_all(struct forest *f)
{
    for (uint16_t g = 0; g < f->opt.groups; g++)
        for (uint32_t q = 0; q < f->opt.replicas; q++)
            if (f->replica[g][q].mem == NULL)
                forest_start(f, g, q);
}

void forest_hold(struct forest *f, uint16_t group, bool held)
{
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        f->replica[group][q].held = held;
}

void forest_stop(struct forest *f, uint16_t group, uint32_t rank, bool stopped)
{
    f->replica[group][rank].held = stopped;
    sim_node_pause(f->sim, forest_node(f, group, rank), stopped);
}

void forest_cut_off(struct forest *f, uint32_t node, bool cut)
{
    for (uint32_t i = 0; i < f->sizes.client_node + f->opt.clients; i++)
        if (i != node) {
            sim_cut(f->sim, node, i, cut);
            sim_cut(f->sim, i, node, cut);
        }
}

void forest_lie(struct forest *f, uint16_t group, uint32_t asker, uint32_t about, bool says_dead)
{
    sim_oracle_lie(f->sim, forest_node(f, group, asker), forest_node(f, group, about),
                   says_dead ? SIM_SAYS_DEAD : SIM_TRUTH);
}

const struct mem_lane *forest_log_lane(const struct forest *f, uint16_t group, uint32_t owner,
                                       uint32_t writer)
{
    struct mem_lane_spec spec =
        lane_spec(group, forest_node(f, group, owner), forest_node(f, group, writer), LANE_LOG, 0);
    return sim_lane(f->sim, &spec);
}

const struct mem_lane *forest_edge_lane(const struct forest *f, uint16_t child, uint32_t owner,
                                        uint32_t writer)
{
    uint16_t parent = overlay_parent(f->overlay, child);
    struct mem_lane_spec spec =
        lane_spec(child, forest_node(f, child, owner), forest_node(f, parent, writer), LANE_SOURCE,
                  f->sizes.clients);
    return sim_lane(f->sim, &spec);
}

struct unit_status forest_stats(const struct forest *f, uint16_t group, uint32_t rank)
{
    struct unit_status s = {0};
    if (f->replica[group][rank].tree)
        replica_status(f->replica[group][rank].tree, &s);
    return s;
}

uint32_t forest_leader(const struct forest *f, uint16_t group)
{
    uint32_t best = f->opt.replicas;
    uint64_t ballot = 0;
    for (uint32_t q = 0; q < f->opt.replicas; q++) {
        struct unit_status s = forest_stats(f, group, q);
        if (f->replica[group][q].tree && s.role == UNIT_LEADER && s.epoch > ballot) {
            best = q;
            ballot = s.epoch;
        }
    }
    return best;
}

/* ---- clients ---- */

static void client_done(void *ctx, uint64_t seq, bool refused)
{
    struct forest_client *c = ctx;
    if (refused)
        forest_violated(c->forest, "accepted", __LINE__, "a good message was refused");
    mcast_check_done(&c->forest->check, forest_sender(c->forest, c->place), seq);
}

static void client_reply(void *ctx, uint64_t seq, uint16_t group, uint32_t status, const void *body,
                         uint32_t bytes)
{
    struct forest_client *c = ctx;
    (void)group;
    (void)status;
    if (bytes != reply_bytes(seq) || !mcast_check_reply_is(seq, body, bytes))
        forest_violated(c->forest, "reply bytes", __LINE__, "not what the machine replied");
    c->empty_replies += bytes == 0;
    c->full_replies += bytes == FOREST_REPLY_MAX;
}

void forest_client_start(struct forest *f, uint32_t client)
{
    struct forest_client *c = &f->client[client];
    struct err e = {""};
    *c = (struct forest_client){.forest = f, .place = client};
    c->mem = sim_node_start(f->sim, forest_client_node(f, client));
    if (f->opt.raw_clients >> client & 1)
        return;
    struct caster_options o = {
        .mem = c->mem,
        .protocol = f->opt.protocol,
        .overlay = f->overlay,
        .groups = f->group,
        .sizes = f->sizes,
        .place = client,
        .retry_ns = 100 * US,
        .reply = client_reply,
        .done = client_done,
        .ctx = c,
    };
    int rc = caster_open(&o, &c->caster, &e);
    for (uint16_t g = 0; rc == 0 && g < f->opt.groups; g++)
        rc = caster_group_open(c->caster, g, &e);
    if (rc != 0)
        forest_violated(f, "opens", __LINE__, e.text);
}

void forest_client_crash(struct forest *f, uint32_t client)
{
    struct forest_client *c = &f->client[client];
    caster_close(c->caster);
    source_close(c->raw);
    c->caster = NULL;
    c->raw = NULL;
    c->mem = NULL;
    sim_node_crash(f->sim, forest_client_node(f, client), true);
}

uint32_t forest_sender(const struct forest *f, uint32_t client)
{
    return mcast_sender(client, f->client[client].mem->life);
}

bool forest_cast(struct forest *f, uint32_t client, uint8_t mask, uint32_t bytes)
{
    unsigned char body[FOREST_BODY_MAX];
    uint32_t sender = forest_sender(f, client);
    mcast_check_fill(f->check.seed, sender, f->check.casts[sender], body, bytes);
    return forest_cast_bytes(f, client, mask, body, bytes);
}

bool forest_cast_bytes(struct forest *f, uint32_t client, uint8_t mask, const void *body,
                       uint32_t bytes)
{
    struct forest_client *c = &f->client[client];
    uint16_t list[TREE_GROUPS_MAX];
    uint32_t count = 0, sender = forest_sender(f, client);
    uint64_t seq = f->check.casts[sender], got;
    for (uint16_t g = 0; g < f->opt.groups; g++)
        if (mask >> g & 1)
            list[count++] = g;
    if (seq >= TREE_CASTS_MAX || forest_failed(f))
        return false;
    if (caster_cast(c->caster, (struct dst_set){list, count}, body, bytes, &got) != 0)
        return false;
    CHECK(got == seq);
    mcast_check_cast(&f->check, sender, seq, mask, body, bytes);
    caster_flush(c->caster);
    return true;
}

/* ---- time ---- */

void forest_pass(struct forest *f, uint64_t ns)
{
    uint64_t end = sim_time_pass(f->sim, ns);
    if (!forest_failed(f))
        f->result.time_ns = end;
}

static void check_rules(struct forest *f, const struct forest_replica *p)
{
    const char *broken = unit_check(&p->unit);
    if (broken)
        forest_violated(f, "rule", __LINE__, broken);
}

void forest_post(struct forest *f, uint16_t group, uint32_t rank)
{
    struct forest_replica *p = &f->replica[group][rank];
    if (p->tree == NULL)
        return;
    unit_post(&p->unit, forest_now(f));
    check_rules(f, p);
}

void forest_settle(struct forest *f, uint16_t group, uint32_t rank)
{
    struct forest_replica *p = &f->replica[group][rank];
    if (p->tree == NULL)
        return;
    mem_poll(p->mem);
    struct mem_lane_spec offer;
    while (mem_offer(p->mem, &offer))
        CHECK(replica_client_open(p->tree, &offer, NULL) == 0);
    unit_settle(&p->unit, forest_now(f));
    if (p->unit.broken)
        forest_violated(f, "self-check", __LINE__, p->unit.broken);
    check_rules(f, p);
}

void forest_tick(struct forest *f)
{
    for (uint16_t g = 0; g < f->opt.groups; g++)
        for (uint32_t q = 0; q < f->opt.replicas; q++)
            if (!f->replica[g][q].held) {
                forest_post(f, g, q);
                forest_settle(f, g, q);
            }
    for (uint32_t i = 0; i < f->opt.clients; i++) {
        struct forest_client *c = &f->client[i];
        if (c->mem == NULL || c->held)
            continue;
        mem_poll(c->mem);
        if (c->caster)
            caster_poll(c->caster, forest_now(f));
    }
    forest_pass(f, FOREST_TICK_NS);
}

void forest_run(struct forest *f, uint64_t ns)
{
    uint64_t end = forest_now(f) + ns;
    while (forest_now(f) < end && !forest_failed(f))
        forest_tick(f);
}

/* ---- looking ---- */

bool forest_led(const struct forest *f)
{
    for (uint16_t g = 0; g < f->opt.groups; g++)
        if (forest_leader(f, g) == f->opt.replicas)
            return false;
    return true;
}

bool forest_even(const struct forest *f)
{
    for (uint16_t g = 0; g < f->opt.groups; g++)
        for (uint32_t q = 0; q < f->opt.replicas; q++) {
            const struct forest_replica *p = &f->replica[g][q];
            struct unit_status s = forest_stats(f, g, q);
            if (p->tree && !p->held &&
                (s.behind || s.role == UNIT_JOINING ||
                 p->counter.state.count != f->check.group[g].count))
                return false;
        }
    return mcast_check_even(&f->check);
}

bool forest_delivered(const struct forest *f)
{
    for (uint32_t i = 0; i < f->opt.clients; i++)
        if (f->client[i].caster && caster_outstanding(f->client[i].caster) > 0)
            return false;
    return forest_even(f);
}

const struct cast *forest_cast_of(const struct forest *f, uint32_t client, uint64_t seq)
{
    return &f->check.cast[forest_sender(f, client)][seq];
}

void forest_come_back(struct forest *f)
{
    forest_start_all(f);
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
}

/* ---- making things happen ---- */

void forest_cut(struct forest *f, uint16_t from, uint16_t to, bool cut)
{
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        for (uint32_t r = 0; r < f->opt.replicas; r++)
            if (from != to || q != r)
                sim_cut(f->sim, forest_node(f, from, q), forest_node(f, to, r), cut);
}

void forest_cut_client(struct forest *f, uint32_t client, uint16_t group, uint32_t ranks, bool cut)
{
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        if (ranks >> q & 1)
            sim_cut(f->sim, forest_client_node(f, client), forest_node(f, group, q), cut);
}

void forest_lead(struct forest *f, uint16_t group, uint32_t rank)
{
    uint32_t leader = forest_leader(f, group);
    /* The others are stopped until the memory of all has voted for it. */
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        f->replica[group][q].held = q != rank;
    if (leader != rank && leader < f->opt.replicas)
        forest_crash(f, group, leader, true);
    FOREST_WAIT(f, forest_stats(f, group, rank).role >= UNIT_SYNC, FOREST_LONG_NS);
    forest_hold(f, group, false);
    FOREST_WAIT(f, forest_leader(f, group) == rank, FOREST_LONG_NS);
}

struct forest_raw forest_raw(uint32_t client, uint16_t life, const uint16_t *list, uint16_t count)
{
    struct forest_raw r = {.m = {.seq = 0, .client = client, .life = life, .count = count}};
    memcpy(r.rest, list, (count < 8 ? count : 8) * sizeof(*list));
    return r;
}

void forest_raw_send(struct forest *f, uint32_t client, uint16_t group, const void *bytes,
                     uint32_t count)
{
    struct forest_client *c = &f->client[client];
    struct err e = {""};
    struct source_options o = {
        .mem = c->mem,
        .region = group,
        .nodes = f->group[group].nodes,
        .replicas = f->opt.replicas,
        .number = client,
        .source_bytes = f->sizes.source_bytes,
        .payload_max = message_bytes(DST_GROUPS_MAX, f->sizes.body_max),
        .life = c->mem->life,
    };
    uint64_t end = 0;
    CHECK(source_open(&o, &c->raw, &e) == 0);
    FOREST_MUST(f, source_send(c->raw, bytes, count, &end) == 0);
    source_flush(c->raw);
    FOREST_WAIT(f, (source_step(c->raw, forest_now(f)), source_taken(c->raw) == end),
                FOREST_LONG_NS);
    forest_run(f, 50 * US);
}

/* ---- opening and closing ---- */

static void landing(void *ctx, const struct sim_landing *l)
{
    struct forest *f = ctx;
    mcast_check_landing(&f->check, l);
}

struct forest *forest_open(const struct forest_options *options)
{
    struct forest *f = calloc(1, sizeof(*f));
    struct err e = {""};
    uint16_t below_first[TREE_GROUPS_MAX] = {OVERLAY_NONE};
    CHECK(f != NULL);
    f->opt = *options;
    f->opt.replicas = f->opt.replicas ? f->opt.replicas : 3;
    f->opt.clients = f->opt.clients ? f->opt.clients : 1;
    const struct forest_options *o = &f->opt;
    CHECK(overlay_open(&f->overlay, o->parent ? o->parent : below_first, o->groups, &e) == 0);
    f->sizes = (struct mcast_sizes){
        .clients = o->clients,
        .client_node = o->groups * o->replicas,
        .body_max = FOREST_BODY_MAX,
        .reply_max = FOREST_REPLY_MAX,
        .source_bytes = 4096,
        .reply_bytes = 4096,
        .edge_bytes = 4096,
        .log_bytes = 16384,
    };
    struct sim_options so = {
        .seed = o->seed,
        .nodes_max = f->sizes.client_node + o->clients,
        .clients_from = f->sizes.client_node,
        .delay_ns_min = o->rough ? FOREST_WAY_NS / 4 : FOREST_WAY_NS,
        .delay_ns_max = o->rough ? 10 * FOREST_WAY_NS : FOREST_WAY_NS,
        .tear_per_million = o->rough ? 200000 : 0,
        .lost_after_ns = FOREST_LOST_NS,
        .owner_answers = o->owner_answers,
        .check_at_issue = PLANTED(no_fence),
    };
    f->sim = sim_open(&so, &e);
    CHECK(f->sim != NULL);
    sim_on_landing(f->sim, landing, f);
    mcast_check_init(&f->check, &f->result, o->seed);
    f->part = (struct participation){
        .check = &f->check, .protocol = o->protocol, .overlay = f->overlay, .clients = o->clients};
    if (o->raw_clients == 0)
        sim_on_put(f->sim, participation_put, &f->part);
    for (uint16_t g = 0; g < o->groups; g++) {
        f->group[g].replicas = o->replicas;
        for (uint32_t q = 0; q < o->replicas; q++)
            f->group[g].nodes[q] = forest_node(f, g, q);
    }
    forest_start_all(f);
    for (uint32_t i = 0; i < o->clients; i++)
        forest_client_start(f, i);
    return f;
}

struct forest *forest_open_led(const struct forest_options *options)
{
    struct forest *f = forest_open(options);
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    return f;
}

const char *forest_close(struct forest *f)
{
    mcast_check_order(&f->check);
    const char *property = f->result.property;
    if (property != NULL)
        printf("# violation of '%s' at %.3f us, seed %llu: %s\n", property,
               (double)f->result.time_ns / 1e3, (unsigned long long)f->opt.seed, f->result.text);
    for (uint16_t g = 0; g < f->opt.groups; g++)
        for (uint32_t q = 0; q < f->opt.replicas; q++)
            replica_close(f->replica[g][q].tree);
    for (uint32_t i = 0; i < f->opt.clients; i++) {
        caster_close(f->client[i].caster);
        source_close(f->client[i].raw);
    }
    sim_close(f->sim);
    overlay_close(f->overlay);
    mcast_check_fini(&f->check);
    free(f);
    return property;
}
