/* A simulated group some of whose members lie, with its clients, the faults that befall it, and the verdict. */
#include "sim/bft_run_impl.h"

#include <stdlib.h>
#include <string.h>

static bool may_crash(const struct fleet_node *n, bool keep_memory)
{
    const struct run *r = n->fleet->ctx;
    uint32_t bad = 1;
    (void)keep_memory;
    for (uint32_t p = 0; p < r->group.replicas; p++)
        bad += p != n->node && bft_member_is_bad(r, p);
    return bad <= r->faulty;
}

/* A process has its memory from the kernel: what another had is nothing to it. */
static void host_born(struct fleet_node *n)
{
    if (n->mem->life > 0)
        sim_node_forget(n->fleet->sim, n->node);
}

static bool spare(const struct fleet_node *n)
{
    (void)n;
    return true;
}

static void violated(struct fleet_node *n, const char *property, const char *text)
{
    struct run *r = n->fleet->ctx;
    bft_check_violated(&r->bft_check, property, 0, "%s", text);
}

static const struct fleet_calls fleet_calls = {
    .host_born = host_born,
    .open = bft_member_open,
    .stepped = bft_member_stepped,
    .may_crash = may_crash,
    .spare = spare,
    .client_open = bft_clients_start,
    .client_step = bft_clients_step,
    .client_close = bft_clients_end,
    .client_crash = fleet_client_crash,
    .violated = violated,
};

/* ---- the whole ---- */

/* Who lies, and how. A stream of its own: whoever lies, the rest of a seed is drawn alike. */
static void draw_liars(struct run *r, struct rng *g)
{
    r->strategy = (enum hostile_strategy)rng_below(g, HOSTILE_STRATEGIES);
    if (r->opt->strategy != HOSTILE_STRATEGIES)
        r->strategy = r->opt->strategy;
    uint32_t liars = (uint32_t)rng_range(g, 1, r->faulty);
    if (r->strategy == HOSTILE_none)
        return;
    /* One of them leads the first view, every other time. */
    if (rng_below(g, 2))
        r->lies[0] = ++r->liars;
    while (r->liars < liars) {
        uint32_t p = (uint32_t)rng_below(g, r->group.replicas);
        r->liars += !r->lies[p];
        r->lies[p] = true;
    }
}

/* Of clients any number may lie: that is only their own loss. */
static void draw_lying_clients(struct run *r, struct rng *g)
{
    bool any = rng_below(g, 3) == 0;
    for (uint32_t s = 0; s < r->fleet.clients; s++)
        r->client_lies[s] = any && rng_below(g, 2);
}

/* Half of the runs have fast epochs, with small windows. */
static void draw_fast(struct run *r, struct rng *g)
{
    struct bft_options *o = &r->bft_opt;
    o->fast = rng_below(g, 2);
    o->fast_ahead = (uint32_t)rng_range(g, 1, 8);
    o->fast_backoff_ns = rng_range(g, 50 * RUN_US, 400 * RUN_US);
    if (o->fast && o->batch_bytes < bft_fast_batch_bytes(o))
        o->batch_bytes = (bft_fast_batch_bytes(o) + 7) & ~7U;
}

static void draw_options(struct run *r, struct sim_options *so)
{
    struct fleet *f = &r->fleet;
    struct rng *g = &f->rng;
    uint32_t replicas = r->opt->replicas ? r->opt->replicas : rng_below(g, 3) ? 3 : 5;
    r->group.replicas = f->hosts = replicas;
    r->faulty = (replicas - 1) / 2;
    f->clients = (uint32_t)rng_range(g, 1, CLIENTS_MAX);
    run_draw_memory(r->opt, f, so);
    so->links = (struct sim_links){.on = false};
    so->owner_answers = false;
    so->spike_per_million /= SPIKES_LESS; /* of many more writes, that wait for each other */
    so->lost_after_ns = 20 * RUN_US;      /* that a read of memory which is gone takes to end */
    f->step_ns_max = rng_range(g, 400, 1500);
    r->safety_end_ns = rng_range(g, 1500 * RUN_US, 6000 * RUN_US);
    r->pad = rng_below(g, PAD_MAX);
    r->key_seed = rng_u64(g);
    for (uint32_t q = 0; q < replicas; q++)
        r->group.nodes[q] = q;
    for (uint32_t s = 0; s < f->clients; s++)
        r->source_nodes[s] = f->hosts + s;
    r->bft_opt = (struct bft_options){
        .region = REGION,
        .nodes = r->group.nodes,
        .members = replicas,
        .cluster = CLUSTER,
        .source_nodes = r->source_nodes,
        .sources = f->clients,
        .source_bytes = 4096,
        .window = rng_below(g, 2) ? 16 : 32,
        .talk_bytes = TALK_BYTES,
        .state_bytes_max = STATE_BYTES,
        .batch_bytes = (uint32_t)rng_range(g, 64, 256) * 8,
        .beat_ns = rng_range(g, 10 * RUN_US, 40 * RUN_US),
        .view_ns = rng_below(g, 3) ? rng_range(g, 80 * RUN_US, 400 * RUN_US)
                                   : rng_range(g, 20 * RUN_US, 80 * RUN_US),
    };
    r->bft_opt.payload_max = (uint32_t)rng_range(g, 8, PAYLOAD_MAX);
    struct rng own;
    rng_init(&own, hash_mix(r->opt->seed, LIARS_STREAM));
    draw_liars(r, &own);
    draw_lying_clients(r, &own);
    draw_fast(r, &own);
}

/* All that was sent has to be decided within 2 f + 2 time-outs, which double, and the time that takes without any. */
static void calm(void *ctx)
{
    struct run *r = ctx;
    uint64_t longest = 0;
    for (uint32_t s = 0; s < r->fleet.clients; s++)
        r->client[s].quota = r->client[s].sent;
    for (uint32_t p = 0; p < r->group.replicas; p++) {
        struct bft_stats s;
        if (r->member[p].hostile || r->member[p].parts == 0)
            continue;
        bft_stats(r->member[p].part[0].bft, &s);
        longest = s.timeout_ns > longest ? s.timeout_ns : longest;
    }
    r->calls.liveness_ns =
        (longest << (2 * r->faulty + 2)) + VIEWS_MORE * r->bft_opt.view_ns + 1000 * RUN_US;
    if (r->hostiles)
        hostiles_calm(r->hostiles);
}

static bool all_delivered(const void *ctx)
{
    struct run *r = (struct run *)(uintptr_t)ctx;
    for (uint32_t s = 0; s < r->fleet.clients; s++)
        if (!bft_clients_has_all(&r->client[s]))
            return false;
    for (uint32_t p = 0; p < r->group.replicas; p++) {
        const struct member *m = &r->member[p];
        if (!m->hostile && m->parts > 0 &&
            (bft_member_is_bad(r, p) || m->part[0].counter.state.count != r->check.history_count))
            return false;
    }
    return true;
}

static void stuck(void *ctx)
{
    struct run *r = ctx;
    char text[RUN_TEXT_BYTES - 60] = "";
    for (uint32_t p = 0; p < r->group.replicas; p++) {
        const struct member *m = &r->member[p];
        size_t at = strlen(text);
        struct bft_stats s = {0};
        if (m->parts > 0)
            bft_stats(m->part[0].bft, &s);
        snprintf(text + at, sizeof(text) - at, " r%u%s:%s/%llu in view %llu", p,
                 m->hostile ? " (lies)" : "",
                 m->parts == 0 ? "down"
                 : s.votes     ? "votes"
                               : "joins",
                 (unsigned long long)m->part[0].counter.state.count, (unsigned long long)s.view);
    }
    for (uint32_t c = 0; c < r->fleet.clients; c++)
        bft_clients_describe(&r->client[c], text, sizeof(text));
    bft_check_violated(&r->bft_check, "liveness", 0, "of %llu messages:%s",
                       (unsigned long long)r->check.history_count, text);
}

static void open_liars(struct run *r)
{
    if (r->liars == 0)
        return;
    r->world = (struct hostiles_options){.sim = r->fleet.sim,
                                         .strategy = r->strategy,
                                         .seed = hash_mix(r->opt->seed, 1),
                                         .key_seed = r->key_seed,
                                         .nodes = r->group.nodes,
                                         .lies = r->lies,
                                         .members = r->group.replicas,
                                         .region = REGION,
                                         .cluster = CLUSTER,
                                         .window = r->bft_opt.window,
                                         .clients_from = r->fleet.hosts,
                                         .clients = r->fleet.clients};
    r->hostiles = hostiles_open(&r->world);
    bft_plan_watch(r);
    for (uint32_t p = 0; p < r->group.replicas; p++)
        r->member[p].hostile = hostile_of(r->hostiles, p);
}

static void start_all(struct run *r)
{
    struct fleet *f = &r->fleet;
    struct err e = {""};
    chaos_trace(&f->chaos, "%u members, of which %u lie (%s: %s), %u clients", r->group.replicas,
                r->liars, hostile_name(r->strategy), hostile_text(r->strategy), f->clients);
    for (uint32_t p = 0; p < r->group.replicas; p++) {
        r->member[p].run = r;
        r->member[p].rank = p;
        snprintf(f->node[p].name, sizeof(f->node[p].name), "r%u%s", p, r->lies[p] ? "!" : "");
        snprintf(f->node[p].member[0].name, sizeof(f->node[p].member[0].name), "r%u", p);
    }
    open_liars(r);
    for (uint32_t i = 0; i < f->hosts + f->clients; i++)
        if (fleet_start(&f->node[i], &e) != 0)
            violated(&f->node[i], "opens", e.text);
}

void run_bft(const struct run_options *opt, struct run_result *result)
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
    result->memory = RUN_MEMORY_SHM;
    result->bft.strategy = r->strategy;
    result->bft.liars = r->liars;
    check_init(&r->check, result, opt->seed);
    memcpy(r->check.lies, r->client_lies, sizeof(r->client_lies));
    bft_check_init(&r->bft_check, result, r->lies);
    CHECK(fleet_open(&r->fleet, &so, &e) == 0);
    r->fleet.chaos.at_hand = true;
    start_all(r);
    r->calls = (struct run_calls){.safety_end_ns = r->safety_end_ns,
                                  .calm = calm,
                                  .all_delivered = all_delivered,
                                  .stuck = stuck,
                                  .ctx = r};
    run_fleet(&r->fleet, result, &r->calls);
    if (r->hostiles) {
        result->bft.lies += hostiles_figures(r->hostiles).lies;
        hostiles_close(r->hostiles);
    }
    known_free(&r->known);
    result->messages = r->check.history_count;
    check_fini(&r->check);
    bft_check_fini(&r->bft_check);
    free(r);
}
