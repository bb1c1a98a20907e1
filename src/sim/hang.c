#include "sim/hang.h"

enum { LASTS = 3 }; /* times the bound */

static uint32_t stopped(const struct fleet *f)
{
    uint32_t count = 0;
    for (uint32_t host = 0; host < f->hosts; host++)
        count += f->chaos.paused_until[host] == CHAOS_STOPPED;
    return count;
}

/* Could the group still do without one more, with those that are stopped already? */
static bool spares_one(const struct fleet *f, uint16_t group)
{
    const struct mcast_group *g = &f->group[group];
    uint32_t missing = 0;
    if (g->memories > 0)
        return fleet_votes_left(f, group) > (int)stopped(f);
    for (uint32_t q = 0; q < g->replicas; q++) {
        const struct fleet_member *m = fleet_member(f, g->nodes[q], group);
        missing += fleet_unfit(m) || unit_status(&m->unit).unfit ||
                   f->chaos.paused_until[g->nodes[q]] == CHAOS_STOPPED;
    }
    return missing < (g->replicas - 1) / 2;
}

static bool has_memories(const struct fleet *f)
{
    for (uint16_t g = 0; g < f->groups; g++)
        if (f->group[g].memories > 0)
            return true;
    return false;
}

static bool may_hang(const struct fleet *f, uint32_t host)
{
    const struct fleet_node *n = &f->node[host];
    for (uint32_t i = 0; i < n->members; i++)
        if (!spares_one(f, n->member[i].group))
            return false;
    for (uint32_t i = 0; i < n->memories; i++)
        if (!spares_one(f, n->memory[i].group))
            return false;
    return n->mem != NULL && (!has_memories(f) || fleet_spares(f, host));
}

/* One host, or as many as there can be. */
static uint32_t stop_some(struct fleet *f)
{
    uint32_t first = (uint32_t)rng_below(&f->rng, f->hosts), count = 0;
    uint32_t most = rng_below(&f->rng, 2) ? 1 : f->hosts;
    for (uint32_t i = 0; i < f->hosts && count < most; i++) {
        uint32_t host = (first + i) % f->hosts;
        if (!may_hang(f, host))
            continue;
        chaos_stop(&f->chaos, host);
        count++;
    }
    return count;
}

static void run_until(struct fleet *f, const struct run_result *r, uint64_t end_ns)
{
    while (r->property == NULL && sim_now(f->sim) < end_ns && sim_step(f->sim))
        ;
}

bool hang_phase(struct fleet *f, const struct run_result *r, const struct hang_calls *c, void *ctx)
{
    if (stop_some(f) == 0)
        return false;
    c->begin(ctx);
    run_until(f, r, sim_now(f->sim) + LASTS * c->bound_ns);
    c->end(ctx);
    uint64_t waited_ns = c->waited_ns(ctx);
    if (waited_ns > c->bound_ns)
        c->late(ctx, waited_ns);
    for (uint32_t host = 0; host < f->hosts; host++)
        if (f->chaos.paused_until[host] == CHAOS_STOPPED) {
            chaos_continue(&f->chaos, host);
            fleet_wake(&f->node[host]);
        }
    return true;
}
