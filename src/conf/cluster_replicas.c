/* The groups of a cluster file, their replicas and their tree; subgroups, which protocol group has in their place, are in cluster_group.c. */
#include "conf/take.h"

enum group_key {
    GROUP_NAME,
    GROUP_PARENT,
    GROUP_REPLICAS,
    GROUP_MEMORIES,
    GROUP_VOTES,
    GROUP_KEYS
};

static const char *const group_keys[] = {"name", "parent", "replicas", "memories", "votes", NULL};

_Static_assert(CLUSTER_HOSTS_MAX <= UINT8_MAX + 1, "replicas are host numbers in bytes");

static int take_replica(struct reader *r, const struct node *n, struct cluster_group *g)
{
    const char *name = NULL;

    if (g->replicas == CLUSTER_REPLICAS_MAX)
        return doc_bad(r->d, n->line, r->e, "group '%s' has too many replicas; at most %d", g->name,
                       CLUSTER_REPLICAS_MAX);
    int rc = take_text(r, n, "a replica", "the name of a host", &name);
    if (rc < 0)
        return rc;
    int host = cluster_host(r->c, name);
    if (host == CLUSTER_NONE)
        return doc_bad(r->d, n->line, r->e,
                       "group '%s' has a replica on '%s', which is no host; %s", g->name,
                       doc_shown(name).s, cluster_hosts_near(r->c, name).s);
    for (uint32_t i = 0; i < g->replicas; i++)
        if (g->replica[i] == host)
            return doc_bad(r->d, n->line, r->e,
                           "group '%s' has two replicas on host '%s', which would fail together;"
                           " name each host once",
                           g->name, name);
    if (r->c->host[host].memory)
        return doc_bad(
            r->d, n->line, r->e,
            "group '%s' has a replica on '%s', which has role: memory (line %u) and runs "
            "none; name it in `memories`, or leave its role out",
            g->name, name, r->c->host[host].line);
    g->replica[g->replicas++] = (uint8_t)host;
    return 0;
}

static int take_replicas(struct reader *r, const struct node *n, struct cluster_group *g,
                         bool has_memories)
{
    if (n == NULL)
        return doc_bad(r->d, g->line, r->e,
                       "group '%s' has no replicas; add them like `replicas: [%s]`", g->name,
                       r->c->host[0].name);
    if (n->kind != NODE_LIST)
        return doc_bad(r->d, n->line, r->e, "replicas must be a list of hosts like [%s], not %s",
                       r->c->host[0].name, doc_what(r->d, n).s);
    if (n->count == 0)
        return doc_bad(r->d, n->line, r->e,
                       "group '%s' has no replicas; name at least one host, better three", g->name);
    uint32_t at = n->first;
    for (uint32_t i = 0; i < n->count; i++) {
        const struct node *replica = doc_node(r->d, at);
        int rc = take_replica(r, replica, g);
        if (rc < 0)
            return rc;
        at = replica->next;
    }
    if (g->replicas % 2 == 0 && !has_memories)
        cluster_warn(r->c, r->d, n->line,
                     "group '%s' has %u replicas, which survive the crash of %u as %u would; an odd"
                     " number is cheaper",
                     g->name, g->replicas, (g->replicas - 1) / 2, g->replicas - 1);
    return 0;
}

static int take_group(struct reader *r, const struct node *n, const struct node **parent)
{
    const struct node *value[GROUP_KEYS] = {NULL};
    struct cluster *c = r->c;
    struct cluster_group *g = &c->group[c->groups];

    if (c->groups == CLUSTER_GROUPS_MAX)
        return doc_bad(r->d, n->line, r->e, "too many groups; a cluster has at most %d",
                       CLUSTER_GROUPS_MAX);
    if (n->kind != NODE_MAP)
        return doc_bad(r->d, n->line, r->e,
                       "a group must be written like {name: g1, replicas: [%s]}, not as %s",
                       c->host[0].name, doc_what(r->d, n).s);
    int rc = take_keys(r, n, "a group", group_keys, value);
    if (rc < 0)
        return rc;
    if (value[GROUP_NAME] == NULL)
        return doc_bad(r->d, n->line, r->e, "a group without a name; add one like `name: g1`");
    rc = take_name(r, value[GROUP_NAME], "group name", g->name);
    if (rc < 0)
        return rc;
    int old = cluster_group(c, g->name);
    if (old != CLUSTER_NONE)
        return doc_bad(r->d, value[GROUP_NAME]->line, r->e,
                       "group '%s' a second time, the first is in line %u; give each group a name"
                       " of its own",
                       g->name, c->group[old].line);
    g->line = n->line;
    g->parent = CLUSTER_NONE;
    *parent = value[GROUP_PARENT];
    rc = take_replicas(r, value[GROUP_REPLICAS], g, value[GROUP_MEMORIES] != NULL);
    rc = rc < 0 ? rc : memories_read(r, value[GROUP_MEMORIES], value[GROUP_VOTES], g);
    if (rc == 0)
        c->groups++;
    return rc;
}

/* After all groups are read: a parent may stand below its children. */
static int take_parent(struct reader *r, const struct node *n, struct cluster_group *g)
{
    const char *name = NULL;

    int rc = take_text(r, n, "parent", "the name of a group (the root leaves the key out)", &name);
    if (rc < 0)
        return rc;
    int parent = cluster_group(r->c, name);
    if (parent == CLUSTER_NONE)
        return doc_bad(r->d, n->line, r->e,
                       "the parent of group '%s' is '%s', which is no group; %s. The root leaves"
                       " the key out",
                       g->name, doc_shown(name).s, cluster_groups_near(r->c, name).s);
    g->parent = parent;
    g->parent_line = n->line;
    return 0;
}

static void warn_of_idle_hosts(struct reader *r)
{
    bool used[CLUSTER_HOSTS_MAX] = {false};

    for (uint32_t g = 0; g < r->c->groups; g++)
        for (uint32_t i = 0; i < r->c->group[g].replicas; i++)
            used[r->c->group[g].replica[i]] = true;
    for (uint32_t g = 0; g < r->c->groups; g++)
        for (uint32_t i = 0; i < r->c->group[g].memories; i++)
            used[r->c->group[g].memory[i]] = true;
    for (uint32_t h = 0; h < r->c->hosts; h++)
        if (!used[h])
            cluster_warn(r->c, r->d, r->c->host[h].line,
                         r->c->host[h].memory
                             ? "host '%s' is memory of no group; name it in the `memories` of one, "
                               "or leave it out"
                             : "host '%s' carries no replica; name it in a group, or leave it out",
                         r->c->host[h].name);
}

int groups_read(struct reader *r, const struct node *list)
{
    const struct node *parent[CLUSTER_GROUPS_MAX + 1] = {NULL}; /* one more is refused */
    uint32_t at = list->first;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < list->count; i++) {
        const struct node *n = doc_node(r->d, at);
        rc = take_group(r, n, &parent[i]);
        at = n->next;
    }
    for (uint32_t i = 0; rc == 0 && i < r->c->groups; i++)
        if (parent[i] != NULL)
            rc = take_parent(r, parent[i], &r->c->group[i]);
    rc = rc < 0 ? rc : cluster_check_tree(r->c, r->d, r->e);
    if (rc == 0)
        warn_of_idle_hosts(r);
    return rc;
}
