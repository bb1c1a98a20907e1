#include "conf/cluster.h"

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

/* A sender's ring is one memory for all readers on shm, and has a copy at each of them over a network. */
static uint64_t rings_of_subgroup(const struct cluster *c, const struct cluster_subgroup *s)
{
    uint64_t members = (uint64_t)__builtin_popcountll(s->hosts);
    uint64_t senders = (uint64_t)__builtin_popcountll(s->hosts & s->senders);

    return s->shards * senders * s->ring_bytes * (c->transport == CLUSTER_SHM ? 1 : members);
}

uint64_t cluster_memory(const struct cluster *c)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < c->subgroups; i++)
        bytes += rings_of_subgroup(c, &c->subgroup[i]);

    for (uint32_t g = 0; g < c->groups; g++) {
        const uint64_t n = c->group[g].replicas;
        bytes += n * n * c->log_bytes + n * (n - 1) * c->snap_bytes;
        bytes += rings_from_groups(c, g) * c->edge_bytes;
    }
    return bytes;
}

uint64_t cluster_memory_client(const struct cluster *c)
{
    uint64_t replicas = 0;

    for (uint32_t g = 0; g < c->groups; g++)
        replicas += c->group[g].replicas;
    return replicas * ((uint64_t)c->source_bytes + c->reply_bytes);
}
