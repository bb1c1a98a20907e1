#include "mcast/overlay.h"

#include <stdlib.h>

/* ---- building ---- */

static int check_parents(const uint16_t *parent, uint32_t n, uint16_t *root, struct err *e)
{
    if (n == 0 || n > OVERLAY_GROUPS_MAX)
        return err_set(e, ERR_INVALID, "a tree of %u groups: 1 to %u are possible", n,
                       OVERLAY_GROUPS_MAX);
    for (uint32_t g = 0; g < n; g++) {
        if (parent[g] == OVERLAY_NONE) {
            if (*root != OVERLAY_NONE)
                return err_set(e, ERR_INVALID,
                               "groups %u and %u both have no parent: a tree has one root", *root,
                               g);
            *root = (uint16_t)g;
        } else if (parent[g] >= n) {
            return err_set(e, ERR_INVALID, "group %u has parent %u: the groups are 0 to %u", g,
                           parent[g], n - 1);
        } else if (parent[g] == g) {
            return err_set(e, ERR_INVALID, "group %u is its own parent: a root has none", g);
        }
    }
    if (*root == OVERLAY_NONE)
        return err_set(e, ERR_INVALID, "every group has a parent: one group must be the root");
    return 0;
}

/* Sorts the groups by parent, by counting, which leaves the children of each in ascending order. */
static void link_children(struct overlay *o, const uint16_t *parent)
{
    uint32_t from = 0;

    for (uint32_t g = 0; g < o->n; g++)
        if (parent[g] != OVERLAY_NONE)
            o->group[parent[g]].child_count++;
    for (uint32_t g = 0; g < o->n; g++) {
        o->group[g].child_from = (uint16_t)from;
        from += o->group[g].child_count;
        o->group[g].child_count = 0;
    }
    for (uint32_t g = 0; g < o->n; g++)
        if (parent[g] != OVERLAY_NONE) {
            struct overlay_group *p = &o->group[parent[g]];
            o->child[p->child_from + p->child_count++] = (uint16_t)g;
        }
}

/* A jump either repeats the parent's last two jumps, if they were of one length, or is one step. */
static void place(struct overlay *o, uint16_t g, uint32_t pre)
{
    struct overlay_group *x = &o->group[g];

    x->first = (uint16_t)pre;
    o->at[pre] = g;
    if (x->parent == OVERLAY_NONE) {
        x->jump = g;
        return;
    }
    const struct overlay_group *p = &o->group[x->parent], *j = &o->group[p->jump];
    x->depth = (uint16_t)(p->depth + 1);
    if (x->depth > o->height)
        o->height = x->depth;
    x->jump = p->depth - j->depth == j->depth - o->group[j->jump].depth ? j->jump : x->parent;
}

/* Numbers the groups in preorder and returns how many the root reaches. The stack is the part of
 * `at` that is not numbered yet, from its end: numbered and waiting groups are never more than n. */
static uint32_t number_groups(struct overlay *o)
{
    uint32_t pre = 0, top = o->n;

    o->at[--top] = o->root;
    while (top < o->n) {
        uint16_t g = o->at[top++];
        place(o, g, pre++);
        const struct overlay_group *x = &o->group[g];
        for (uint32_t i = x->child_count; i-- > 0;)
            o->at[--top] = o->child[x->child_from + i];
    }
    /* Children come after their parent in preorder, so backwards each is complete before it counts. */
    for (uint32_t i = 0; i < pre; i++)
        o->group[o->at[i]].last = o->group[o->at[i]].first;
    for (uint32_t i = pre; i-- > 1;) {
        const struct overlay_group *x = &o->group[o->at[i]];
        struct overlay_group *p = &o->group[x->parent];
        if (x->last > p->last)
            p->last = x->last;
    }
    return pre;
}

/* What the root does not reach leads into a cycle. */
static int describe_cycle(const struct overlay *o, struct err *e)
{
    uint16_t g = 0;

    while (g == o->root || o->group[g].depth > 0)
        g++;
    for (uint32_t i = 0; i < o->n; i++)
        g = o->group[g].parent;
    return err_set(e, ERR_INVALID,
                   "the parents of group %u lead back to it, by group %u: they must lead to the "
                   "root, group %u",
                   g, o->group[g].parent, o->root);
}

int overlay_open(struct overlay **out, const uint16_t *parent, uint32_t n, struct err *e)
{
    uint16_t root = OVERLAY_NONE;
    int rc = check_parents(parent, n, &root, e);
    if (rc < 0)
        return rc;
    struct overlay *o =
        calloc(1, sizeof *o + n * (sizeof(struct overlay_group) + 2 * sizeof(uint16_t)));
    if (o == NULL)
        return err_set(e, ERR_NOMEM, "no memory for a tree of %u groups", n);
    o->n = (uint16_t)n;
    o->root = root;
    o->at = (uint16_t *)(o->group + n);
    o->child = o->at + n;
    for (uint32_t g = 0; g < n; g++)
        o->group[g].parent = parent[g];
    link_children(o, parent);
    if (number_groups(o) < n) {
        rc = describe_cycle(o, e);
        free(o);
        return rc;
    }
    *out = o;
    return 0;
}

void overlay_close(struct overlay *o)
{
    free(o);
}

/* ---- queries ---- */

int overlay_edge(const struct overlay *o, uint16_t g, uint16_t d)
{
    uint32_t count;
    const uint16_t *child = overlay_children(o, g, &count);

    if (g == d || !overlay_above(o, g, d))
        return -1;
    /* The last child that does not start after d: the children's intervals follow one another. */
    uint32_t from = 0, to = count - 1;
    while (from < to) {
        uint32_t middle = (from + to + 1) / 2;
        if (o->group[child[middle]].first <= o->group[d].first)
            from = middle;
        else
            to = middle - 1;
    }
    return (int)from;
}

/* The lowest ancestor of g (or g) that has preorder number `pre`, not below g's own, in its reach.
 * Once an ancestor has it all further ones do, so a jump that ends short of it is always right. */
static uint16_t climb(const struct overlay *o, uint16_t g, uint16_t pre)
{
    while (o->group[g].last < pre) {
        uint16_t far = o->group[g].jump;
        g = o->group[far].last < pre ? far : o->group[g].parent;
    }
    return g;
}

/* The lca of all is the lca of the first and the last in preorder: its reach is an interval. */
uint16_t overlay_lca(const struct overlay *o, struct dst_set s)
{
    uint16_t low = UINT16_MAX, high = 0;

    CHECK(s.count > 0);
    for (uint32_t i = 0; i < s.count; i++) {
        CHECK(s.group[i] < o->n);
        uint16_t pre = o->group[s.group[i]].first;
        low = pre < low ? pre : low;
        high = pre > high ? pre : high;
    }
    return climb(o, o->at[low], high);
}

bool overlay_reaches(const struct overlay *o, uint16_t g, struct dst_set s)
{
    CHECK(g < o->n);
    uint16_t first = o->group[g].first, span = (uint16_t)(o->group[g].last - first);

    for (uint32_t i = 0; i < s.count; i++) {
        CHECK(s.group[i] < o->n);
        if ((uint16_t)(o->group[s.group[i]].first - first) <= span)
            return true;
    }
    return false;
}

void overlay_to_map(const struct overlay *o, struct dst_set s, struct overlay_map *map)
{
    memset(map, 0, sizeof *map);
    for (uint32_t i = 0; i < s.count; i++) {
        CHECK(s.group[i] < o->n);
        uint16_t pre = o->group[s.group[i]].first;
        map->word[pre / 64] |= UINT64_C(1) << pre % 64;
    }
}

void overlay_to_pre(const struct overlay *o, struct dst_set s, uint16_t *pre)
{
    struct overlay_map map;
    uint32_t count = 0;

    overlay_to_map(o, s, &map);
    for (uint32_t w = 0; w < OVERLAY_GROUPS_MAX / 64; w++)
        for (uint64_t left = map.word[w]; left; left &= left - 1)
            pre[count++] = (uint16_t)(w * 64 + (uint32_t)__builtin_ctzll(left));
    CHECK(count == s.count);
}

bool overlay_reaches_pre(const struct overlay *o, uint16_t g, const uint16_t *pre, uint32_t count)
{
    CHECK(g < o->n);
    uint32_t from = 0, to = count;

    while (from < to) {
        uint32_t middle = (from + to) / 2;
        if (pre[middle] < o->group[g].first)
            from = middle + 1;
        else
            to = middle;
    }
    return from < count && pre[from] <= o->group[g].last;
}

bool overlay_reaches_map(const struct overlay *o, uint16_t g, const struct overlay_map *map)
{
    CHECK(g < o->n);
    uint32_t first = o->group[g].first, last = o->group[g].last;
    uint64_t from_first = ~UINT64_C(0) << first % 64;
    uint64_t to_last = ~UINT64_C(0) >> (63 - last % 64);

    if (first / 64 == last / 64)
        return map->word[first / 64] & from_first & to_last;
    uint64_t found = (map->word[first / 64] & from_first) | (map->word[last / 64] & to_last);
    for (uint32_t w = first / 64 + 1; w < last / 64; w++)
        found |= map->word[w];
    return found;
}

uint16_t overlay_lca_map(const struct overlay *o, const struct overlay_map *map)
{
    uint32_t low = 0, high = OVERLAY_GROUPS_MAX / 64 - 1;

    while (map->word[low] == 0)
        CHECK(++low <= high);
    while (map->word[high] == 0)
        high--;
    low = low * 64 + (uint32_t)__builtin_ctzll(map->word[low]);
    high = high * 64 + 63 - (uint32_t)__builtin_clzll(map->word[high]);
    CHECK(high < o->n);
    return climb(o, o->at[low], (uint16_t)high);
}

/* ---- shapes ---- */

void overlay_shape_fill(enum overlay_shape shape, uint32_t n, uint16_t *parent)
{
    CHECK(n > 0 && n <= OVERLAY_GROUPS_MAX);
    parent[0] = OVERLAY_NONE;
    for (uint32_t g = 1; g < n; g++)
        switch (shape) {
#define OVERLAY_CASE_(name, p, text)                                                               \
    case OVERLAY_##name:                                                                           \
        parent[g] = (uint16_t)(p);                                                                 \
        break;
            OVERLAY_SHAPES(OVERLAY_CASE_)
#undef OVERLAY_CASE_
        case OVERLAY_SHAPE_COUNT:
            CHECK(!"a shape");
        }
}

const char *const overlay_shape_names[] = {
#define OVERLAY_NAME_(name, parent, text) #name,
    OVERLAY_SHAPES(OVERLAY_NAME_)
#undef OVERLAY_NAME_
        NULL,
};

const char *overlay_shape_name(enum overlay_shape shape)
{
    CHECK(shape < OVERLAY_SHAPE_COUNT);
    return overlay_shape_names[shape];
}
