/* A simulated tree of groups on a few hosts, with clients, faults and the verdict. */
#include "base/hash.h"
#include "base/planted.h"
#include "mcast/caster.h"
#include "mcast/replica.h"
#include "sim/chaos.h"
#include "sim/part_check.h"
#include "sim/tree_check.h"

#include <stdlib.h>
#include <string.h>

enum { HOSTS_MAX = 9, BODY_MAX = 300, SNAP_PAD_MAX = 6000 };

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

struct run;

/* One replica of one group. */
struct member {
    struct run *run;
    uint32_t host;
    uint16_t group;
    struct replica *replica;
    struct tree_state state, saved, loaded;
    uint64_t load_at;
    enum log_state shown;
    uint64_t terms, snapshots; /* of earlier lives */
};

struct host {
    struct run *run;
    uint32_t node;
    struct mem *mem;                       /* NULL while down */
    struct member member[TREE_GROUPS_MAX]; /* those with tree != NULL are here */
    bool carries[TREE_GROUPS_MAX];
    uint64_t life;
};

struct client {
    struct run *run;
    uint32_t slot;
    struct mem *mem;
    struct caster *caster; /* NULL while dead */
    uint32_t sender;       /* place and life, as the checker counts them */
    uint64_t lives;        /* counts starts, so that events of an earlier one are ignored */
    uint32_t quota;
};

struct run {
    const struct run_options *opt;
    struct run_result *result;
    struct sim *sim;
    struct rng rng;
    struct tree_check check;
    struct part_check part;
    struct chaos chaos;
    enum mcast_protocol protocol;
    uint32_t groups, hosts, clients;
    struct overlay *overlay;
    struct mcast_group group[TREE_GROUPS_MAX];
    struct host host[HOSTS_MAX];
    struct client client[TREE_CLIENTS_MAX];
    struct mcast_sizes sizes;
    struct replica_options tree_opt;
    uint64_t snap_pad;
    uint64_t step_ns_max;
    uint64_t safety_end_ns;
};

/* ---- the machine ---- */

static uint32_t machine_deliver(void *ctx, const struct delivery *d, void *reply, uint32_t max)
{
    struct member *m = ctx;
    sim_note(m->run->sim, hash_mix(d->seq, (uint64_t)d->client << 16 | d->group));
    tree_check_deliver(&m->run->check, m->host, &m->state, d);
    chaos_trace(&m->run->chaos, "h%u g%u delivers %u:%llu as %llu", m->host, d->group, d->client,
                (unsigned long long)d->seq, (unsigned long long)d->number);
    uint32_t bytes = (uint32_t)(d->seq % (max + 1));
    memset(reply, (int)(d->seq & 0xff), bytes);
    return bytes;
}

static uint64_t machine_save_open(void *ctx)
{
    struct member *m = ctx;
    m->saved = m->state;
    return sizeof(m->saved) + m->run->snap_pad;
}

static void machine_save_read(void *ctx, uint64_t offset, void *out, uint32_t bytes)
{
    struct member *m = ctx;
    unsigned char *to = out;
    for (uint32_t i = 0; i < bytes; i++, offset++)
        to[i] = offset < sizeof(m->saved) ? ((const unsigned char *)&m->saved)[offset]
                                          : (unsigned char)(offset * 37);
}

static void machine_save_close(void *ctx)
{
    (void)ctx;
}

static void machine_load_open(void *ctx, uint64_t bytes)
{
    struct member *m = ctx;
    m->load_at = 0;
    if (bytes != sizeof(m->saved) + m->run->snap_pad)
        tree_check_violated(&m->run->check, "snapshot bytes", bytes, "host %u group %u", m->host,
                            m->group);
}

static void machine_load_write(void *ctx, const void *data, uint32_t bytes)
{
    struct member *m = ctx;
    const unsigned char *from = data;
    for (uint32_t i = 0; i < bytes; i++, m->load_at++) {
        if (m->load_at < sizeof(m->loaded))
            ((unsigned char *)&m->loaded)[m->load_at] = from[i];
        else if (from[i] != (unsigned char)(m->load_at * 37))
            tree_check_violated(&m->run->check, "snapshot bytes", m->load_at, "host %u group %u",
                                m->host, m->group);
    }
}

static void machine_load_close(void *ctx)
{
    struct member *m = ctx;
    m->state = m->loaded;
    tree_check_loaded(&m->run->check, m->host, m->group, &m->state);
    chaos_trace(&m->run->chaos, "h%u g%u has loaded %llu messages", m->host, m->group,
                (unsigned long long)m->state.count);
}

static void machine_observe(void *ctx, const struct entry *e, bool effective)
{
    struct member *m = ctx;
    (void)effective;
    part_check_entry(&m->run->part, m->group, e);
}

static const struct mcast_machine machine = {
    .deliver = machine_deliver,
    .save_open = machine_save_open,
    .save_read = machine_save_read,
    .save_close = machine_save_close,
    .load_open = machine_load_open,
    .load_write = machine_load_write,
    .load_close = machine_load_close,
};

/* ---- hosts ---- */

static void host_step_event(void *ctx, uint64_t life);

static void schedule_host(struct host *h)
{
    struct run *r = h->run;
    uint64_t when = sim_now(r->sim) + rng_range(&r->rng, 100, r->step_ns_max);
    sim_at(r->sim, chaos_not_before(&r->chaos, h->node, when), host_step_event, h, h->life);
}

static uint32_t rank_of(const struct run *r, uint16_t group, uint32_t node)
{
    uint32_t rank = 0;
    while (r->group[group].nodes[rank] != node)
        rank++;
    return rank;
}

static void host_start(struct host *h)
{
    struct run *r = h->run;
    h->mem = sim_node_start(r->sim, h->node);
    for (uint16_t g = 0; g < r->groups; g++) {
        if (!h->carries[g])
            continue;
        struct member *m = &h->member[g];
        struct err e = {""};
        struct replica_options o = r->tree_opt;
        m->state = (struct tree_state){0};
        m->shown = LOG_FOLLOWER;
        o.mem = h->mem;
        o.group = g;
        o.rank = rank_of(r, g, h->node);
        o.ctx = m;
        o.seed = rng_u64(&r->rng);
        if (replica_open(&o, &m->replica, &e) != 0) {
            tree_check_violated(&r->check, "opens", 0, "host %u group %u: %s", h->node, g, e.text);
            return;
        }
    }
    chaos_trace(&r->chaos, "h%u starts, life %u", h->node, h->mem->incarnation);
    schedule_host(h);
}

static void member_note_end(struct member *m)
{
    struct log_stats s;
    log_stats(replica_log(m->replica), &s);
    m->terms += s.terms;
    m->snapshots += s.snapshots_loaded;
}

static void host_stop(struct host *h)
{
    for (uint32_t g = 0; g < h->run->groups; g++)
        if (h->member[g].replica) {
            member_note_end(&h->member[g]);
            replica_close(h->member[g].replica);
            h->member[g].replica = NULL;
        }
    h->mem = NULL;
    h->life++;
}

static void show_state(struct member *m)
{
    struct log_stats s;
    log_stats(replica_log(m->replica), &s);
    if (s.state == m->shown)
        return;
    static const char *const names[] = {"joining", "follower", "candidate", "sync", "leader"};
    chaos_trace(&m->run->chaos, "h%u g%u is %s, ballot %llu, applied %llu, commit %llu", m->host,
                m->group, names[s.state], (unsigned long long)s.ballot,
                (unsigned long long)s.applied, (unsigned long long)s.commit);
    sim_note(m->run->sim, hash_mix(s.ballot, s.state));
    m->shown = s.state;
    if (s.state == LOG_SYNC || s.state == LOG_LEADER)
        chaos_ambush(&m->run->chaos, m->host);
}

static void host_step_event(void *ctx, uint64_t life)
{
    struct host *h = ctx;
    struct run *r = h->run;
    if (h->mem == NULL || h->life != life)
        return;
    uint64_t now = sim_now(r->sim);
    r->check.now_ns = now;
    if (chaos_not_before(&r->chaos, h->node, now) > now) {
        schedule_host(h);
        return;
    }
    /* Now and then only half a round is made before time passes. */
    uint64_t half = r->chaos.calm ? 9 : rng_below(&r->rng, 40);
    for (uint32_t g = 0; half != 0 && g < r->groups; g++)
        if (h->member[g].replica)
            replica_post(h->member[g].replica, now);
    if (half != 1)
        mem_poll(h->mem);
    for (uint32_t g = 0; half != 1 && g < r->groups; g++) {
        struct member *m = &h->member[g];
        if (m->replica == NULL)
            continue;
        replica_settle(m->replica, now);
        show_state(m);
        if (log_broken(replica_log(m->replica)))
            tree_check_violated(&r->check, "self-check", 0, "host %u group %u: %s", h->node, g,
                                log_broken(replica_log(m->replica)));
    }
    schedule_host(h);
}

/* ---- clients ---- */

static void client_step_event(void *ctx, uint64_t life);

static void schedule_client(struct client *c)
{
    struct run *r = c->run;
    uint32_t node = r->hosts + c->slot;
    uint64_t when = sim_now(r->sim) + rng_range(&r->rng, 200, 4 * r->step_ns_max);
    sim_at(r->sim, chaos_not_before(&r->chaos, node, when), client_step_event, c, c->lives);
}

static void client_done(void *ctx, uint64_t seq, bool refused)
{
    struct client *c = ctx;
    if (refused)
        tree_check_violated(&c->run->check, "accepted", seq, "client %u was refused", c->slot);
    tree_check_done(&c->run->check, c->sender, seq);
}

static void client_reply(void *ctx, uint64_t seq, uint16_t group, uint32_t status, const void *body,
                         uint32_t bytes)
{
    struct client *c = ctx;
    const unsigned char *b = body;
    (void)status;
    bool same = bytes == seq % (c->run->sizes.reply_max + 1);
    for (uint32_t i = 0; i < bytes; i++)
        same &= b[i] == (seq & 0xff);
    if (!same)
        tree_check_violated(&c->run->check, "reply bytes", seq, "client %u, group %u", c->slot,
                            group);
}

static void client_cast(struct client *c)
{
    struct run *r = c->run;
    unsigned char body[BODY_MAX];
    uint64_t burst = rng_below(&r->rng, 4) ? 1 : rng_range(&r->rng, 1, 8);
    for (; burst > 0 && r->check.casts[c->sender] < c->quota; burst--) {
        uint16_t list[TREE_GROUPS_MAX];
        uint32_t count = 0, bytes = (uint32_t)rng_below(&r->rng, r->sizes.body_max + 1);
        uint64_t seq = r->check.casts[c->sender];
        uint64_t bits = rng_u64(&r->rng);
        /* Often one group, often a few, sometimes all. */
        uint64_t shape = rng_below(&r->rng, 3);
        for (uint32_t g = 0; g < r->groups; g++)
            if (shape == 2 || (shape == 1 && bits >> g & 1))
                list[count++] = (uint16_t)g;
        if (count == 0)
            list[count++] = (uint16_t)(bits % r->groups);
        uint8_t mask = 0;
        for (uint32_t i = 0; i < count; i++)
            mask |= (uint8_t)(1u << list[i]);
        tree_check_fill(r->check.seed, c->sender, seq, body, bytes);
        uint64_t got;
        if (caster_cast(c->caster, (struct dst_set){list, count}, body, bytes, &got) != 0)
            break;
        CHECK(got == seq);
        tree_check_cast(&r->check, c->sender, seq, mask, body, bytes);
        chaos_trace(&r->chaos, "client %u casts %llu to %#x", c->slot, (unsigned long long)seq,
                    mask);
    }
    caster_flush(c->caster);
}

static void client_step_event(void *ctx, uint64_t life)
{
    struct client *c = ctx;
    struct run *r = c->run;
    if (c->caster == NULL || c->lives != life)
        return;
    uint64_t now = sim_now(r->sim);
    r->check.now_ns = now;
    mem_poll(c->mem);
    caster_poll(c->caster, now);
    if (!r->chaos.calm && rng_below(&r->rng, 3) == 0)
        client_cast(c);
    mem_poll(c->mem);
    schedule_client(c);
}

static void client_start(struct client *c)
{
    struct run *r = c->run;
    struct err e = {""};
    c->mem = sim_node_start(r->sim, r->hosts + c->slot);
    c->sender = tree_sender(c->slot, c->mem->incarnation);
    c->lives++;
    c->quota = rng_below(&r->rng, 4) ? (uint32_t)rng_range(&r->rng, 20, TREE_CASTS_MAX) : 2;
    struct caster_options o = {
        .mem = c->mem,
        .protocol = r->protocol,
        .overlay = r->overlay,
        .groups = r->group,
        .sizes = r->sizes,
        .slot = c->slot,
        .retry_ns = 100 * US,
        .reply = client_reply,
        .done = client_done,
        .ctx = c,
    };
    int rc = caster_open(&o, &c->caster, &e);
    for (uint16_t g = 0; rc == 0 && g < r->groups; g++)
        rc = caster_group_open(c->caster, g, &e);
    if (rc != 0)
        tree_check_violated(&r->check, "opens", 0, "client %u: %s", c->slot, e.text);
    chaos_trace(&r->chaos, "client %u starts, life %u", c->slot, c->mem->incarnation);
    schedule_client(c);
}

static void client_restart_event(void *ctx, uint64_t lives)
{
    struct client *c = ctx;
    if (c->caster == NULL && c->lives == lives && !c->run->chaos.calm)
        client_start(c);
}

/* ---- faults ---- */

static bool unfit(const struct run *r, uint16_t group, uint32_t host)
{
    const struct member *m = &r->host[host].member[group];
    if (m->replica == NULL)
        return true;
    struct log_stats s;
    log_stats(replica_log(m->replica), &s);
    return s.behind || s.state == LOG_JOINING;
}

static uint32_t count_unfit(const struct run *r, uint16_t group)
{
    uint32_t count = 0;
    for (uint32_t q = 0; q < r->group[group].replicas; q++)
        count += unfit(r, group, r->group[group].nodes[q]);
    return count;
}

static bool may_crash(void *ctx, uint32_t host)
{
    const struct run *r = ctx;
    for (uint16_t g = 0; g < r->groups; g++)
        if (r->host[host].carries[g] &&
            count_unfit(r, g) - unfit(r, g, host) + 1 > (r->group[g].replicas - 1) / 2)
            return false;
    return true;
}

static void crash(void *ctx, uint32_t host, bool keep_memory)
{
    struct run *r = ctx;
    host_stop(&r->host[host]);
    sim_node_crash(r->sim, host, keep_memory);
}

static void start(void *ctx, uint32_t host)
{
    struct run *r = ctx;
    host_start(&r->host[host]);
}

static bool is_up(void *ctx, uint32_t host)
{
    const struct run *r = ctx;
    return r->host[host].mem != NULL;
}

static bool leads(void *ctx, uint32_t host)
{
    const struct run *r = ctx;
    for (uint32_t g = 0; g < r->groups; g++) {
        struct log_stats s;
        if (r->host[host].member[g].replica == NULL)
            continue;
        log_stats(replica_log(r->host[host].member[g].replica), &s);
        if (s.ballot != 0)
            return true;
    }
    return false;
}

static void client_crash(void *ctx, uint32_t client)
{
    struct run *r = ctx;
    struct client *c = &r->client[client];
    if (c->caster == NULL)
        return;
    chaos_trace(&r->chaos, "client %u dies", client);
    caster_close(c->caster);
    c->caster = NULL;
    bool keep = rng_below(&r->rng, 2);
    sim_node_crash(r->sim, r->hosts + client, keep);
    r->chaos.faults++;
    /* Often somebody else takes the place. */
    if (c->mem->incarnation + 1 < TREE_LIVES_MAX && rng_below(&r->rng, 4) != 0)
        sim_at(r->sim, sim_now(r->sim) + rng_range(&r->rng, 1 * US, 200 * US), client_restart_event,
               c, c->lives);
}

static const struct chaos_calls chaos_calls = {
    .may_crash = may_crash,
    .crash = crash,
    .start = start,
    .is_up = is_up,
    .leads = leads,
    .client_crash = client_crash,
};

/* A host that is down may stay so if all its groups have enough without it. */
static bool spare(void *ctx, uint32_t host)
{
    const struct run *r = ctx;
    for (uint16_t g = 0; g < r->groups; g++)
        if (r->host[host].carries[g] && count_unfit(r, g) > (r->group[g].replicas - 1) / 2)
            return false;
    return true;
}

/* ---- the whole ---- */

static void draw_groups(struct run *r)
{
    struct rng *g = &r->rng;
    struct err e = {""};
    uint16_t parent[TREE_GROUPS_MAX];
    static const uint32_t sizes[] = {3, 3, 3, 3, 1, 5, 2, 3};
    r->groups = rng_below(g, 3) ? (uint32_t)rng_range(g, 1, 4) : (uint32_t)rng_range(g, 1, 8);
    uint32_t replicas = r->opt->replicas ? r->opt->replicas : sizes[rng_below(g, 8)];
    r->hosts =
        (uint32_t)rng_range(g, replicas, replicas + 2 < HOSTS_MAX ? replicas + 2 : HOSTS_MAX);
    uint64_t shape = rng_below(g, 5);
    for (uint16_t i = 0; i < r->groups; i++)
        parent[i] = i == 0 ? OVERLAY_NONE : (uint16_t)rng_below(g, i);
    if (shape < OVERLAY_SHAPE_COUNT)
        overlay_shape_fill((enum overlay_shape)shape, r->groups, parent);
    CHECK(overlay_open(&r->overlay, parent, r->groups, &e) == 0);
    for (uint16_t i = 0; i < r->groups; i++) {
        uint32_t first = (uint32_t)rng_below(g, r->hosts);
        r->group[i].replicas = replicas;
        for (uint32_t q = 0; q < replicas; q++) {
            r->group[i].nodes[q] = (first + q) % r->hosts;
            r->host[r->group[i].nodes[q]].carries[i] = true;
        }
    }
}

static void draw_options(struct run *r, struct sim_options *so)
{
    struct rng *g = &r->rng;
    draw_groups(r);
    r->clients = (uint32_t)rng_range(g, 1, TREE_CLIENTS_MAX);
    uint64_t delay = rng_range(g, 200, 3000);
    *so = (struct sim_options){
        .seed = rng_u64(g),
        .nodes_max = r->hosts + r->clients,
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
    r->safety_end_ns = rng_range(g, 300 * US, 1500 * US);
    r->snap_pad = rng_below(g, 3) ? rng_below(g, 500) : rng_below(g, SNAP_PAD_MAX);
    r->sizes = (struct mcast_sizes){
        .clients = r->clients,
        .client_node = r->hosts,
        .body_max = (uint32_t)rng_range(g, 8, BODY_MAX),
        .reply_max = (uint32_t)rng_range(g, 8, 64),
        .source_bytes = 4096u << rng_below(g, 2),
        .reply_bytes = 4096,
        .edge_bytes = 4096u << rng_below(g, 2),
        .log_bytes = 16384u << rng_below(g, 2),
    };
    r->tree_opt = (struct replica_options){
        .overlay = r->overlay,
        .groups = r->group,
        .sizes = r->sizes,
        .heartbeat_ns = 15 * US,
        .suspect_ns = rng_range(g, 40 * US, 150 * US),
        .stagger_ns = rng_range(g, 5 * US, 40 * US),
        .detach_ns = rng_range(g, 50 * US, 300 * US),
        .machine = &machine,
        .observe = machine_observe,
    };
}

/* True when everything that the living have cast is delivered everywhere, and told. */
static bool all_delivered(const struct run *r)
{
    for (uint32_t s = 0; s < r->clients; s++)
        if (r->client[s].caster && caster_outstanding(r->client[s].caster) > 0)
            return false;
    /* A message that reached one of its groups must reach all of them, its client alive or not. */
    for (uint32_t s = 0; s < TREE_SENDERS_MAX; s++)
        for (uint32_t i = 0; i < r->check.casts[s]; i++)
            if (r->check.cast[s][i].delivered != 0 &&
                r->check.cast[s][i].delivered != r->check.cast[s][i].dst_mask)
                return false;
    for (uint32_t h = 0; h < r->hosts; h++)
        for (uint16_t g = 0; g < r->groups; g++) {
            const struct member *m = &r->host[h].member[g];
            if (m->replica && (unfit(r, g, h) || m->state.count != r->check.group[g].count))
                return false;
        }
    return true;
}

static void report_stuck(struct run *r)
{
    char text[RUN_TEXT_BYTES] = "";
    for (uint16_t g = 0; g < r->groups; g++)
        for (uint32_t q = 0; q < r->group[g].replicas; q++) {
            const struct member *m = &r->host[r->group[g].nodes[q]].member[g];
            struct log_stats s = {0};
            if (m->replica)
                log_stats(replica_log(m->replica), &s);
            size_t at = strlen(text);
            snprintf(text + at, sizeof(text) - at, " g%uh%u:%s%u/%llu", g, m->host,
                     m->replica == NULL ? "down"
                     : s.behind         ? "behind"
                                        : "s",
                     s.state, (unsigned long long)m->state.count);
        }
    for (uint32_t s = 0; s < r->clients; s++)
        if (r->client[s].caster) {
            size_t at = strlen(text);
            snprintf(text + at, sizeof(text) - at, " c%u:%u", s,
                     caster_outstanding(r->client[s].caster));
        }
    tree_check_violated(&r->check, "liveness", 0, "%s", text);
}

static void run_phases(struct run *r)
{
    while (r->result->property == NULL && sim_now(r->sim) < r->safety_end_ns && sim_step(r->sim))
        ;
    chaos_end(&r->chaos, spare);
    uint64_t end = sim_now(r->sim) + 30 * MS;
    bool delivered = false;
    for (uint64_t i = 0; r->result->property == NULL && sim_step(r->sim); i++) {
        if (i % 512 == 0 && (delivered = all_delivered(r)))
            break;
        if (sim_now(r->sim) > end)
            break;
    }
    r->check.now_ns = sim_now(r->sim);
    if (r->result->property == NULL && !delivered)
        report_stuck(r);
    tree_check_order(&r->check);
}

static void landing(void *ctx, const struct sim_landing *l)
{
    struct run *r = ctx;
    tree_check_landing(&r->check, l);
}

static void close_all(struct run *r)
{
    for (uint32_t h = 0; h < r->hosts; h++) {
        host_stop(&r->host[h]);
        for (uint32_t g = 0; g < r->groups; g++) {
            r->result->terms += r->host[h].member[g].terms;
            r->result->snapshots += r->host[h].member[g].snapshots;
        }
    }
    for (uint32_t s = 0; s < r->clients; s++)
        caster_close(r->client[s].caster);
    for (uint32_t g = 0; g < r->groups; g++)
        r->result->messages += r->check.group[g].count;
}

static void run_mcast(const struct run_options *opt, enum mcast_protocol protocol,
                      struct run_result *result)
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
    r->protocol = r->tree_opt.protocol = protocol;
    tree_check_init(&r->check, result, opt->seed);
    r->sim = sim_open(&so, &e);
    CHECK(r->sim != NULL);
    r->part = (struct part_check){
        .check = &r->check, .protocol = protocol, .overlay = r->overlay, .clients = r->clients};
    sim_on_put(r->sim, part_check_put, &r->part);
    sim_on_landing(r->sim, landing, r);
    r->chaos = (struct chaos){
        .sim = r->sim,
        .rng = &r->rng,
        .trace = opt->trace,
        .calls = &chaos_calls,
        .ctx = r,
        .hosts = r->hosts,
        .clients = r->clients,
    };
    chaos_trace(&r->chaos, "%u groups of %u replicas on %u hosts, %u clients", r->groups,
                r->group[0].replicas, r->hosts, r->clients);
    for (uint16_t g = 0; g < r->groups; g++)
        chaos_trace(&r->chaos, "g%u: parent %d, first host %u", g,
                    overlay_parent(r->overlay, g) == OVERLAY_NONE ? -1
                                                                  : overlay_parent(r->overlay, g),
                    r->group[g].nodes[0]);
    for (uint32_t h = 0; h < r->hosts; h++) {
        r->host[h].run = r;
        r->host[h].node = h;
        for (uint16_t g = 0; g < r->groups; g++)
            r->host[h].member[g] = (struct member){.run = r, .host = h, .group = g};
        host_start(&r->host[h]);
    }
    for (uint32_t s = 0; s < r->clients; s++) {
        r->client[s] = (struct client){.run = r, .slot = s};
        client_start(&r->client[s]);
    }
    chaos_init(&r->chaos);
    run_phases(r);

    if (result->property == NULL)
        result->time_ns = sim_now(r->sim);
    result->hash = sim_hash(r->sim);
    result->events = sim_events(r->sim);
    result->faults = r->chaos.faults;
    result->replicas = r->group[0].replicas;
    close_all(r);
    sim_close(r->sim);
    overlay_close(r->overlay);
    tree_check_fini(&r->check);
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
