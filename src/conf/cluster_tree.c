#include "conf/cluster_impl.h"

#include <string.h>

enum { CYCLE_SHOWN = 4 };

/* Some group that is on a cycle; CLUSTER_NONE if there is none. Each walk up ends at a root, at its own
 * steps (a cycle) or at those of an earlier walk, so that each group is passed once or twice. */
static int find_cycle(const struct cluster *c)
{
    uint16_t walk[CLUSTER_GROUPS_MAX] = {0}; /* the walk that passed here, from 1 */

    for (uint32_t i = 0; i < c->groups; i++) {
        int at = (int)i;
        while (at != CLUSTER_NONE && walk[at] == 0) {
            walk[at] = (uint16_t)(i + 1);
            at = c->group[at].parent;
        }
        if (at != CLUSTER_NONE && walk[at] == i + 1)
            return at;
    }
    return CLUSTER_NONE;
}

/* "g2 -> g5 -> g2": each group and its parent. */
static void show_cycle(const struct cluster *c, int from, char *out, size_t bytes)
{
    size_t used = (size_t)snprintf(out, bytes, "%s", c->group[from].name);
    int at = c->group[from].parent;

    for (int n = 1; at != from && n < CYCLE_SHOWN; n++) {
        used += (size_t)snprintf(out + used, bytes - used, " -> %s", c->group[at].name);
        at = c->group[at].parent;
    }
    snprintf(out + used, bytes - used, "%s -> %s", at != from ? " -> ..." : "",
             c->group[from].name);
}

/* The group of the cycle that stands first in the file: there one begins to read. */
static int first_of_cycle(const struct cluster *c, int from)
{
    int first = from;

    for (int at = c->group[from].parent; at != from; at = c->group[at].parent)
        first = at < first ? at : first;
    return first;
}

int cluster_check_tree(const struct cluster *c, const struct doc *d, struct err *e)
{
    int root = CLUSTER_NONE, other = CLUSTER_NONE, cycle = find_cycle(c);

    for (uint32_t i = 0; i < c->groups; i++) {
        if (c->group[i].parent != CLUSTER_NONE)
            continue;
        if (root == CLUSTER_NONE)
            root = (int)i;
        else if (other == CLUSTER_NONE)
            other = (int)i;
    }
    if (cycle != CLUSTER_NONE) {
        char names[(CLUSTER_NAME_BYTES + 4) * (CYCLE_SHOWN + 1) + 8];

        cycle = first_of_cycle(c, cycle);
        show_cycle(c, cycle, names, sizeof names);
        return doc_bad(d, c->group[cycle].parent_line, e, "the parents make a cycle, %s%s; %s",
                       names, root == CLUSTER_NONE ? ", and no group is the root" : "",
                       root == CLUSTER_NONE ? "leave out the parent of one of them"
                                            : "give one of them a parent outside of it");
    }
    /* A genuine cluster needs no tree, and keeps one so that changing the protocol is one line. */
    if (other != CLUSTER_NONE && c->protocol == CLUSTER_TREE)
        return doc_bad(d, c->group[other].line, e,
                       "group '%s' has no parent, but the tree has a root already, '%s' in line"
                       " %u; add a parent like `parent: %s`",
                       c->group[other].name, c->group[root].name, c->group[root].line,
                       c->group[root].name);
    return 0;
}
