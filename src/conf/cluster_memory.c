#include "conf/cluster.h"
#include "conf/value.h"

/* Rings between the groups: from each replica to each replica of the groups that its group hands messages
 * to. In a tree that is from the parent; under the genuine protocol every group hands to every other. */
static uint64_t rings_from_groups(const struct cluster *c, uint32_t group)
{
    const struct cluster_group *to = &c->group[group];
    uint64_t writers = 0;

    if (c->protocol == CLUSTER_TREE)
        writers = to->parent != CLUSTER_NONE ? c->group[to->parent].replicas : 0;
    for (uint32_t g = 0; c->protocol == CLUSTER_GENUINE && g < c->groups; g++)
        writers += g != group ? c->group[g].replicas : 0;
    return writers * to->replicas;
}

/* ---- groups with views ---- */

enum { BLOCK_SLOTS = 4 };
enum { ASK_RINGS = 2, ASK_RING_BYTES = 64 << 10 };
enum { CLIENT_RINGS = 2, CLIENT_RING_BYTES = 128 << 10 }; /* with each member that it has gone to */
enum { SEND_RINGS = 2, VIEW_WORDS = 5, VIEW_LOG_BYTES = 64 << 10, VIEW_LOG_VIEWS = 16 };

/* Who may be in a cell has a ring there, for it may become a sender. On shared memory that is one memory for all readers, and there is
 * a second one, for while somebody who was put out may still read the first; over a network each of the others has a copy. */
static uint64_t rings_of_subgroup(const struct cluster *c, const struct cluster_subgroup *s)
{
    uint64_t members = (uint64_t)__builtin_popcountll(s->hosts);
    uint64_t copies = c->transport == CLUSTER_SHM || members == 1 ? SEND_RINGS : members;

    return s->shards * members * copies * s->ring_bytes;
}

/* Entries of the keepers' log are views: with the hosts, the cells, and a word for each sender of a cell. */
static uint64_t view_log(const struct cluster *c)
{
    const uint64_t n = c->keepers, hosts = c->hosts, cells = cluster_cells(c);
    const uint64_t view = 8 * (VIEW_WORDS + 2 * hosts + cells * (VIEW_WORDS + hosts));
    uint64_t bytes = value_power_from(VIEW_LOG_VIEWS * view);

    bytes = bytes < VIEW_LOG_BYTES ? VIEW_LOG_BYTES : bytes;
    return n * n * bytes + n * (n - 1) * VIEW_LOG_BYTES;
}

/* On shared memory all places are there from the start. Over a network only the rings for blocks are: pages of places come with what is sent. */
static uint64_t large_of_subgroup(const struct cluster *c, const struct cluster_subgroup *s)
{
    uint64_t senders = (uint64_t)__builtin_popcountll(s->hosts & s->senders);
    uint64_t places = value_power_from((uint64_t)s->large_max * s->large_window);

    return c->transport == CLUSTER_SHM && s->large_max ? s->shards * senders * places : 0;
}

static uint64_t block_rings(const struct cluster *c)
{
    bool large = false;

    for (uint32_t i = 0; i < c->subgroups; i++)
        large |= c->subgroup[i].large_max > 0;
    return large && c->transport != CLUSTER_SHM
               ? BLOCK_SLOTS * (uint64_t)c->block_bytes * c->hosts * (c->hosts - 1)
               : 0;
}

static uint64_t memory_of_members(const struct cluster *c)
{
    const uint64_t copies = c->transport == CLUSTER_SHM ? 1 : c->hosts;
    uint64_t bytes = view_log(c) + c->hosts * copies * c->snap_bytes;

    /* Questions and answers, from each to each; over a network both have a copy. */
    bytes +=
        (uint64_t)c->hosts * (c->hosts - 1) * ASK_RINGS * ASK_RING_BYTES * (copies > 1 ? 2 : 1);

    for (uint32_t i = 0; i < c->subgroups; i++)
        bytes += rings_of_subgroup(c, &c->subgroup[i]) + large_of_subgroup(c, &c->subgroup[i]);
    return bytes + block_rings(c);
}

uint64_t cluster_memory(const struct cluster *c)
{
    uint64_t bytes = 0;

    if (c->protocol == CLUSTER_GROUP)
        return memory_of_members(c);
    for (uint32_t g = 0; g < c->groups; g++) {
        const uint64_t n = c->group[g].replicas;
        bytes += (n + c->group[g].memories) * n * c->log_bytes + n * (n - 1) * c->snap_bytes;
        bytes += rings_from_groups(c, g) * c->edge_bytes;
    }
    return bytes;
}

uint64_t cluster_memory_client(const struct cluster *c)
{
    uint64_t replicas = 0;

    if (c->protocol == CLUSTER_GROUP)
        return (uint64_t)c->hosts * CLIENT_RINGS * CLIENT_RING_BYTES;
    for (uint32_t g = 0; g < c->groups; g++)
        replicas += c->group[g].replicas;
    return replicas * ((uint64_t)c->source_bytes + c->reply_bytes);
}
