/* What a group of a cluster file has of hosts that are only memory: which, and who votes. */
#include "conf/take.h"

#include <string.h>

static const char *const votes_names[] = {"memories", "all", NULL};

static int take_memory(struct reader *r, const struct node *n, struct cluster_group *g)
{
    const char *name = NULL;

    if (g->memories == CLUSTER_MEMORIES_MAX)
        return doc_bad(r->d, n->line, r->e, "group '%s' has too many memories; at most %d", g->name,
                       CLUSTER_MEMORIES_MAX);
    int rc = take_text(r, n, "a memory", "the name of a host", &name);
    if (rc < 0)
        return rc;
    int host = cluster_host(r->c, name);
    if (host == CLUSTER_NONE)
        return doc_bad(r->d, n->line, r->e, "group '%s' has a memory on '%s', which is no host; %s",
                       g->name, doc_shown(name).s, cluster_hosts_near(r->c, name).s);
    for (uint32_t i = 0; i < g->replicas; i++)
        if (g->replica[i] == host)
            return doc_bad(r->d, n->line, r->e,
                           "group '%s' has a replica on host '%s' and names it in its memories, "
                           "which would fail together; a host is one or the other",
                           g->name, name);
    if (!r->c->host[host].memory)
        return doc_bad(r->d, n->line, r->e,
                       "group '%s' has a memory on '%s', which has no role: memory (line %u); add "
                       "that there, or name another host",
                       g->name, name, r->c->host[host].line);
    for (uint32_t i = 0; i < g->memories; i++)
        if (g->memory[i] == host)
            return doc_bad(r->d, n->line, r->e,
                           "group '%s' names memory '%s' twice; name each host once", g->name,
                           name);
    g->memory[g->memories++] = (uint8_t)host;
    return 0;
}

static void warn(struct reader *r, uint32_t line, const struct cluster_group *g)
{
    const uint32_t voters = g->memories + (g->all_vote ? g->replicas : 0);

    if (voters % 2 == 0)
        cluster_warn(r->c, r->d, line,
                     "in group '%s' %u vote, of which %u may fail, as of %u; an odd number is "
                     "cheaper",
                     g->name, voters, (voters - 1) / 2, voters - 1);
    if (r->c->transport == CLUSTER_SHM)
        cluster_warn(r->c, r->d, line,
                     "group '%s' has memories under transport: shm, where the memory of a host "
                     "that ends is kept anyway: nothing is gained by them",
                     g->name);
}

int memories_read(struct reader *r, const struct node *list, const struct node *votes,
                  struct cluster_group *g)
{
    unsigned who = 0;
    int rc = 0;

    if (list == NULL && votes != NULL)
        return doc_bad(r->d, votes->line, r->e,
                       "votes is for groups with memories; add them like `memories: [m1]`, or "
                       "leave it out: the replicas vote");
    if (list == NULL)
        return 0;
    if (list->kind != NODE_LIST || list->count == 0)
        return doc_bad(r->d, list->line, r->e,
                       "memories must be a list of hosts with role: memory like [m1], not %s",
                       list->kind == NODE_LIST ? "an empty one" : doc_what(r->d, list).s);
    uint32_t at = list->first;
    for (uint32_t i = 0; rc == 0 && i < list->count; i++) {
        const struct node *n = doc_node(r->d, at);
        rc = take_memory(r, n, g);
        at = n->next;
    }
    rc = rc < 0 ? rc : take_word(r, votes, "votes", votes_names, &who);
    g->all_vote = who == 1;
    if (rc == 0)
        warn(r, list->line, g);
    return rc;
}
