/* What the groups of a fleet are built to lose: voters, and replicas that have the state. */
#include "sim/fleet.h"

#include <stdlib.h>

static uint32_t first_voter(const struct mcast_group *g)
{
    return g->memories > 0 && !g->all_vote ? g->replicas : 0;
}

static uint32_t members_of(const struct mcast_group *g)
{
    return g->replicas + g->memories;
}

static uint32_t node_of(const struct mcast_group *g, uint32_t rank)
{
    return rank < g->replicas ? g->nodes[rank] : g->memory[rank - g->replicas];
}

bool fleet_memory_lost(const struct fleet *f, uint32_t host, uint16_t group)
{
    const struct fleet_node *n = &f->node[host];
    if (f->durable && (n->mem == NULL || !fleet_disk_well(n)))
        return true;
    for (uint32_t i = 0; n->mem && i < n->memories; i++)
        if (n->memory[i].group == group)
            return log_memory_is_closed(&n->memory[i].of);
    return true;
}

/* It is down, or what it had is not there again: nothing may rest on it. */
static bool is_lost(const struct fleet *f, uint16_t group, uint32_t rank)
{
    const struct mcast_group *g = &f->group[group];
    if (rank < g->replicas && f->durable && !fleet_disk_well(&f->node[g->nodes[rank]]))
        return true;
    if (rank < g->replicas)
        return fleet_unfit(fleet_member(f, g->nodes[rank], group));
    return fleet_memory_lost(f, node_of(g, rank), group);
}

static bool is_part(const struct mcast_group *g, uint32_t host, uint32_t *rank)
{
    for (*rank = 0; *rank < members_of(g); ++*rank)
        if (node_of(g, *rank) == host)
            return true;
    return false;
}

int fleet_votes_left(const struct fleet *f, uint16_t group)
{
    const struct mcast_group *g = &f->group[group];
    uint32_t voters = members_of(g) - first_voter(g);
    int left = (int)(voters - 1) / 2;
    for (uint32_t q = first_voter(g); q < members_of(g); q++)
        left -= is_lost(f, group, q);
    return left;
}

uint32_t fleet_voters(const struct fleet *f, uint16_t group)
{
    return members_of(&f->group[group]) - first_voter(&f->group[group]);
}

uint32_t fleet_voters_where(const struct fleet *f, uint16_t group,
                            bool (*is_so)(const struct fleet *, uint32_t host, const void *ctx),
                            const void *ctx)
{
    const struct mcast_group *g = &f->group[group];
    uint32_t count = 0;
    for (uint32_t q = first_voter(g); q < members_of(g); q++)
        count += !is_lost(f, group, q) && is_so(f, node_of(g, q), ctx);
    return count;
}

/* What a replica has: */
struct carrier {
    uint64_t
        applied; /* its state; where disks count the one that it comes back with when the power is gone */
    bool whole; /* which is not still on its way to the disk */
};

static struct carrier carrier_of(const struct fleet *f, const struct fleet_member *m)
{
    struct unit_status s = unit_status(&m->unit);
    if (!f->durable)
        return (struct carrier){s.applied, true};
    return (struct carrier){s.kept_applied, !s.behind && !s.late && fleet_disk_well(m->host)};
}

/* Does this one lead and write to the other, and hold what it lacks? */
static bool is_fed(const struct fleet *f, const struct unit_status *leader, uint32_t rank,
                   uint64_t applied)
{
    if (leader->role != UNIT_LEADER || leader->detached_ns[rank] != 0)
        return false;
    return !f->durable || leader->written < applied + f->log_bytes_max / 2;
}

/* Could this one go on from where the other is, or was when it went down? It has as much state, or the other leads and writes to it:
 * what it lacks is in the log. Where disks count it is what they have, for the power may go at any time; and who is down need not
 * have been carried by anybody but a leader. */
static bool carries(const struct fleet *f, const struct fleet_member *o,
                    const struct fleet_member *m)
{
    if (f->chaos.paused_until[o->host->node] == CHAOS_STOPPED || fleet_unfit(o))
        return false;
    struct carrier c = carrier_of(f, o);
    if (m->unit.of == NULL)
        return c.whole && (!f->durable || fleet_leader(f, m->group) == o);
    struct unit_status own = unit_status(&m->unit);
    return c.whole &&
           (c.applied >= carrier_of(f, m).applied || is_fed(f, &own, o->rank, c.applied));
}

static bool is_carried(const struct fleet *f, const struct fleet_member *m)
{
    const struct mcast_group *g = &f->group[m->group];
    for (uint32_t q = 0; q < g->replicas; q++) {
        const struct fleet_member *o = fleet_member(f, g->nodes[q], m->group);
        if (o != m && carries(f, o, m))
            return true;
    }
    return false;
}

bool fleet_group_spares(const struct fleet *f, uint16_t group, uint32_t host)
{
    const struct mcast_group *g = &f->group[group];
    uint32_t rank;
    if (!is_part(g, host, &rank))
        return true;
    bool votes = rank >= first_voter(g);
    if (votes && fleet_votes_left(f, group) + is_lost(f, group, rank) < 1)
        return false;
    if (g->memories == 0 || rank >= g->replicas)
        return true;
    const struct fleet_member *m = fleet_member(f, host, group);
    /* One that just begins a life has on its disk what it had. */
    bool unfit = m->unit.of && fleet_unfit(m) && (!f->durable || unit_status(&m->unit).behind);
    return unfit || is_carried(f, m);
}

bool fleet_spares(const struct fleet *f, uint32_t host)
{
    for (uint16_t g = 0; g < f->groups; g++)
        if (!fleet_group_spares(f, g, host))
            return false;
    return true;
}

/* ---- memories ---- */

int fleet_memories_init(struct fleet_node *n, struct err *e)
{
    const struct fleet *f = n->fleet;
    n->memory = calloc(f->groups, sizeof(*n->memory));
    if (n->memory == NULL)
        return err_set(e, ERR_NOMEM, "no memory for %s", n->name);
    for (uint16_t g = 0; g < f->groups; g++)
        for (uint32_t i = 0; i < f->group[g].memories; i++)
            if (f->group[g].memory[i] == n->node)
                n->memory[n->memories++].group = g;
    return 0;
}

int fleet_memories_open(struct fleet_node *n, struct err *e)
{
    const struct fleet *f = n->fleet;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < n->memories; i++)
        rc = f->calls->memory_open(n, n->memory[i].group, &n->memory[i].of, e);
    return rc;
}

int fleet_memories_step(struct fleet_node *n, uint64_t now_ns)
{
    int work = 0;
    for (uint32_t i = 0; i < n->memories; i++)
        work += log_memory_step(&n->memory[i].of, now_ns);
    return work;
}

void fleet_memories_close(struct fleet_node *n)
{
    for (uint32_t i = 0; n->mem && i < n->memories; i++)
        if (n->memory[i].of.keep)
            log_memory_close(&n->memory[i].of);
}
