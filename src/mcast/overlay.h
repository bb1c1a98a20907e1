/* The overlay tree: which group orders a message, and which groups hand it on (TRAM sec. 4).
 *
 * A message is ordered first at the lca of its destinations, the lowest group above all of them,
 * and handed down from there to every child that has a destination in its reach, the groups
 * below it and itself. The tree is fixed: it is built once from the groups' parents, and never
 * changes; every query after that only reads, so any thread may ask.
 *
 * Groups are numbered in the order of the cluster file and, besides, in preorder, in which the reach
 * of a group is an interval. So "is a destination in its reach" is two comparisons a
 * destination in a plain list, a binary search in a list of preorder numbers, and a look at some bits
 * of a word or two in a map of them. Per group there is one jump pointer to an ancestor, spaced
 * so that a climb takes O(log n) steps whatever the tree's shape (Myers' skew-binary lists). */
#ifndef MCAST_OVERLAY_H
#define MCAST_OVERLAY_H

#include "mcast/dst.h"

enum {
    OVERLAY_GROUPS_MAX = DST_GROUPS_MAX,
    OVERLAY_NONE = UINT16_MAX, /* no group: the parent of the root */
};

struct overlay_group {
    uint16_t parent;      /* OVERLAY_NONE for the root */
    uint16_t jump;        /* an ancestor; the root's is the root */
    uint16_t first, last; /* preorder numbers of its reach; first is its own */
    uint16_t depth;       /* steps from the root */
    uint16_t child_from;  /* its children are child[child_from ...] */
    uint16_t child_count;
};

struct overlay {
    uint16_t n;
    uint16_t root;
    uint16_t height; /* largest depth */
    uint16_t *at;    /* the group of a preorder number */
    uint16_t *child; /* the children of all groups, those of one group together */
    struct overlay_group group[];
};

/* A set as bits, by preorder number. Only good with the overlay that filled it. */
struct overlay_map {
    uint64_t word[OVERLAY_GROUPS_MAX / 64];
};

/* Builds the tree of n groups from their parents, OVERLAY_NONE for the root. ERR_INVALID, with a text
 * that names the groups, if that is not one tree: no group or too many, an unknown parent, no root,
 * two roots, a cycle. */
int overlay_open(struct overlay **, const uint16_t *parent, uint32_t n, struct err *);
void overlay_close(struct overlay *);

/* ---- one group ---- */

static inline uint16_t overlay_root(const struct overlay *o)
{
    return o->root;
}

/* OVERLAY_NONE for the root. */
static inline uint16_t overlay_parent(const struct overlay *o, uint16_t g)
{
    CHECK(g < o->n);
    return o->group[g].parent;
}

/* Steps from the root, which has depth 0. */
static inline uint16_t overlay_depth(const struct overlay *o, uint16_t g)
{
    CHECK(g < o->n);
    return o->group[g].depth;
}

/* The children, in ascending group number. Edges are numbered by their place in it. */
static inline const uint16_t *overlay_children(const struct overlay *o, uint16_t g, uint32_t *count)
{
    CHECK(g < o->n);
    *count = o->group[g].child_count;
    return o->child + o->group[g].child_from;
}

/* How many groups are in its reach, itself included. */
static inline uint32_t overlay_reach_count(const struct overlay *o, uint16_t g)
{
    CHECK(g < o->n);
    return (uint32_t)(o->group[g].last - o->group[g].first) + 1;
}

/* True if d is in the reach of g: g itself, or below it. */
static inline bool overlay_above(const struct overlay *o, uint16_t g, uint16_t d)
{
    CHECK(g < o->n && d < o->n);
    return o->group[d].first >= o->group[g].first && o->group[d].first <= o->group[g].last;
}

/* The place among the children of g of the one that has d in its reach, -1 if d is not below g.
 * O(log children). */
int overlay_edge(const struct overlay *, uint16_t g, uint16_t d);

/* ---- sets ---- */

/* The lowest group that has all destinations in its reach. O(k + log n). */
uint16_t overlay_lca(const struct overlay *, struct dst_set);

/* True if a destination is in the reach of g. O(k); the other two forms cost less where the same
 * set is asked about for many children. */
bool overlay_reaches(const struct overlay *, uint16_t g, struct dst_set);

/* The set in preorder numbers, ascending, into `pre`, which has room for count of them; a list for
 * overlay_reaches_pre. O(k + n / 64). */
void overlay_to_pre(const struct overlay *, struct dst_set, uint16_t *pre);

/* As overlay_reaches, for a list of overlay_to_pre. O(log k). */
bool overlay_reaches_pre(const struct overlay *, uint16_t g, const uint16_t *pre, uint32_t count);

/* The set as bits. O(k + n / 64). */
void overlay_to_map(const struct overlay *, struct dst_set, struct overlay_map *);

/* As overlay_reaches, for the set as bits. O(reach / 64). */
bool overlay_reaches_map(const struct overlay *, uint16_t g, const struct overlay_map *);

/* As overlay_lca, for the set as bits, which must not be empty. O(n / 64 + log n). */
uint16_t overlay_lca_map(const struct overlay *, const struct overlay_map *);

/* ---- the trees of the paper (sec. 8.1, figure 4), for any number of groups ---- */

/* name, the parent of group g > 0 (group 0 is the root), what it is. With the paper's numbers, from 1
 * on, base gives group g the parent (g + 1) / 2, rounded down: for 8 groups -,1,2,2,3,3,4,4, a
 * complete binary tree under a root that has one child. */
#define OVERLAY_SHAPES(X)                                                                          \
    X(base, g / 2, "a root, its one child, and two children each below that")                      \
    X(breadth, 0, "all groups below the first")                                                    \
    X(depth, g - 1, "a chain")

enum overlay_shape {
#define OVERLAY_ENUM_(name, parent, text) OVERLAY_##name,
    OVERLAY_SHAPES(OVERLAY_ENUM_)
#undef OVERLAY_ENUM_
        OVERLAY_SHAPE_COUNT
};

/* Fills parent[0..n). */
void overlay_shape_fill(enum overlay_shape, uint32_t n, uint16_t *parent);
const char *overlay_shape_name(enum overlay_shape);

/* By shape; the last is NULL. */
extern const char *const overlay_shape_names[];

#endif
