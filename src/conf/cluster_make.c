#include "conf/cluster_impl.h"
#include "conf/value.h"

#include <string.h>

static int check_group_plan(const struct cluster_plan *p, struct err *e)
{
    if (p->hosts < 1 || p->hosts > CLUSTER_MEMBERS_MAX)
        return err_set(e, ERR_INVALID, "%u hosts; under protocol group there are 1 to %d", p->hosts,
                       CLUSTER_MEMBERS_MAX);
    if ((p->id != NULL) != (p->mode == CLUSTER_MODE_LOGGED || p->mode == CLUSTER_MODE_DURABLE))
        return err_set(e, ERR_INVALID,
                       "under protocol group an id is for subgroups of mode logged or durable, and"
                       " these need one");
    if (p->shards < 1 || p->shards > p->hosts)
        return err_set(e, ERR_INVALID,
                       "%u shards on %u hosts; each has at least one host of its own", p->shards,
                       p->hosts);
    if (p->subgroups < 1 || (uint64_t)p->subgroups * p->shards > CLUSTER_CELLS_MAX)
        return err_set(e, ERR_INVALID, "%u subgroups of %u shards; there are 1 to %d shards in all",
                       p->subgroups, p->shards, CLUSTER_CELLS_MAX);
    return 0;
}

static int check_groups_plan(const struct cluster_plan *p, struct err *e)
{
    if (p->groups < 1 || p->groups > CLUSTER_GROUPS_MAX)
        return err_set(e, ERR_INVALID, "%u groups; a cluster has 1 to %d", p->groups,
                       CLUSTER_GROUPS_MAX);
    if (p->replicas < 1 || p->replicas > CLUSTER_REPLICAS_MAX)
        return err_set(e, ERR_INVALID, "%u replicas; a group has 1 to %d", p->replicas,
                       CLUSTER_REPLICAS_MAX);
    if (p->hosts < 1 || p->hosts > CLUSTER_HOSTS_MAX)
        return err_set(e, ERR_INVALID, "%u hosts; a cluster has 1 to %d", p->hosts,
                       CLUSTER_HOSTS_MAX);
    if (p->memories > CLUSTER_MEMORIES_MAX || p->memories + p->hosts > CLUSTER_HOSTS_MAX)
        return err_set(e, ERR_INVALID,
                       "%u memories; a group has at most %d, and a cluster %d hosts with them",
                       p->memories, CLUSTER_MEMORIES_MAX, CLUSTER_HOSTS_MAX);
    if (p->replicas > p->hosts)
        return err_set(e, ERR_INVALID,
                       "%u replicas on %u hosts; each replica of a group needs a host of its own",
                       p->replicas, p->hosts);
    return 0;
}

static int check_plan(const struct cluster_plan *p, struct err *e)
{
    int rc = p->protocol == CLUSTER_GROUP ? check_group_plan(p, e) : check_groups_plan(p, e);

    if (rc < 0)
        return rc;
    if (p->port > UINT16_MAX - p->hosts - p->memories)
        return err_set(e, ERR_INVALID, "port %u; with %u hosts it is at most %u", p->port, p->hosts,
                       UINT16_MAX - p->hosts);
    if (p->name != NULL && !name_ok(p->name))
        return err_set(e, ERR_INVALID,
                       "'%.40s' is no name; use letters, digits, - _ and . in it, at most %d, and a"
                       " letter, digit or _ first",
                       p->name, NAME_CHARS_MAX);
    return 0;
}

static int parent_of(const struct cluster_plan *p, uint32_t group)
{
    if (p->parent == NULL)
        return group == 0 ? CLUSTER_NONE : 0;
    return p->parent[group] == UINT16_MAX ? CLUSTER_NONE : p->parent[group];
}

static void make_groups(struct cluster *c, const struct cluster_plan *p)
{
    for (c->groups = 0; c->groups < p->groups; c->groups++) {
        struct cluster_group *g = &c->group[c->groups];
        snprintf(g->name, sizeof g->name, "g%u", c->groups + 1);
        g->parent = parent_of(p, c->groups);
        g->replicas = p->replicas;
        for (uint32_t i = 0; i < p->replicas; i++)
            g->replica[i] = (uint8_t)((c->groups + i) % p->hosts);
        g->memories = p->memories;
        g->all_vote = p->memories > 0 && p->all_vote;
        for (uint32_t i = 0; i < p->memories; i++)
            g->memory[i] = (uint8_t)(p->hosts + i);
    }
}

static void make_subgroups(struct cluster *c, const struct cluster_plan *p)
{
    c->view_majority = c->transport != CLUSTER_SHM || p->mode == CLUSTER_MODE_DURABLE;
    c->start_ms = START_MS_DEFAULT;
    c->block_bytes = BLOCK_BYTES_STANDARD;
    c->keepers = keepers_standard(c->hosts);
    for (uint32_t i = 0; i < c->keepers; i++)
        c->keeper[i] = (uint8_t)i;
    for (c->subgroups = 0; c->subgroups < p->subgroups; c->subgroups++) {
        struct cluster_subgroup *s = &c->subgroup[c->subgroups];
        *s = (struct cluster_subgroup){
            .mode = p->mode,
            .shards = p->shards,
            .members_min = 1,
            .hosts = c->hosts == 64 ? UINT64_MAX : (UINT64_C(1) << c->hosts) - 1,
            .senders = CLUSTER_ALL,
            .ring_bytes = RING_BYTES_DEFAULT,
            .message_max = RING_BYTES_DEFAULT / RING_MESSAGES,
            .large_window = LARGE_WINDOW_STANDARD,
        };
        snprintf(s->name, sizeof s->name, "s%u", c->subgroups + 1);
    }
}

int cluster_make(const struct cluster_plan *p, struct cluster **out, struct err *e)
{
    *out = NULL;
    int rc = check_plan(p, e);
    if (rc < 0)
        return rc;
    struct cluster *c = cluster_blank();
    if (c == NULL)
        return err_set(e, ERR_NOMEM, "no memory for a cluster");
    c->durable = p->id != NULL && p->protocol != CLUSTER_GROUP;
    if (p->id != NULL)
        memcpy(c->id, p->id, sizeof c->id);
    cluster_standard(c);
    snprintf(c->name, sizeof c->name, "%s", p->name ? p->name : "cluster");
    c->transport = p->transport;
    c->protocol = p->protocol;
    for (c->hosts = 0; c->hosts < p->hosts + p->memories; c->hosts++) {
        struct cluster_host *h = &c->host[c->hosts];
        h->memory = c->hosts >= p->hosts;
        snprintf(h->name, sizeof h->name, h->memory ? "m%u" : "h%u",
                 h->memory ? c->hosts - p->hosts + 1 : c->hosts + 1);
        snprintf(h->address, sizeof h->address, "127.0.0.1");
        h->port = (uint16_t)((p->port ? p->port : PORT_DEFAULT) + c->hosts);
    }
    if (p->protocol == CLUSTER_GROUP)
        make_subgroups(c, p);
    else
        make_groups(c, p);
    *out = c;
    return 0;
}
