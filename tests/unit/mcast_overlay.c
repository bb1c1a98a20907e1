#include "base/rng.h"
#include "mcast/overlay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct err err;
static uint16_t parent[OVERLAY_GROUPS_MAX + 1];

static struct overlay *open_or_fail(uint32_t n)
{
    struct overlay *o = NULL;

    if (overlay_open(&o, parent, n, &err) != 0)
        fail_msg("%s", err.text);
    return o;
}

/* ---- the same by brute force: climbing one parent at a time ---- */

static bool brute_above(uint16_t g, uint16_t d)
{
    for (; d != OVERLAY_NONE; d = parent[d])
        if (d == g)
            return true;
    return false;
}

static bool brute_reaches(uint16_t g, struct dst_set s)
{
    for (uint32_t i = 0; i < s.count; i++)
        if (brute_above(g, s.group[i]))
            return true;
    return false;
}

static uint16_t brute_lca(struct dst_set s)
{
    uint16_t g = s.group[0];

    for (;; g = parent[g]) {
        uint32_t below = 0;
        while (below < s.count && brute_above(g, s.group[below]))
            below++;
        if (below == s.count)
            return g;
    }
}

/* ---- drawing ---- */

/* A tree over a random order of the groups; `near` small makes it deep, n makes it flat. */
static void draw_tree(struct rng *r, uint32_t n, uint32_t near)
{
    uint16_t order[OVERLAY_GROUPS_MAX];

    for (uint32_t i = 0; i < n; i++)
        order[i] = (uint16_t)i;
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = (uint32_t)rng_below(r, i + 1);
        uint16_t x = order[i];
        order[i] = order[j];
        order[j] = x;
    }
    parent[order[0]] = OVERLAY_NONE;
    for (uint32_t i = 1; i < n; i++)
        parent[order[i]] = order[i - 1 - rng_below(r, near < i ? near : i)];
}

static struct dst_set draw_set(struct rng *r, uint32_t n, uint16_t *list)
{
    uint32_t count = (uint32_t)rng_range(r, 1, rng_below(r, 8) ? (n < 9 ? n : 9) : n);
    struct dst_set s;

    for (uint32_t i = 0; i < count; i++)
        list[i] = (uint16_t)rng_below(r, n);
    assert_int_equal(dst_normalise(list, count, n, &s, &err), 0);
    return s;
}

static void compare_set(const struct overlay *o, struct dst_set s, struct rng *r)
{
    uint16_t pre[OVERLAY_GROUPS_MAX];
    struct overlay_map map;
    uint16_t lca = brute_lca(s);

    overlay_to_pre(o, s, pre);
    overlay_to_map(o, s, &map);
    assert_int_equal(overlay_lca(o, s), lca);
    assert_int_equal(overlay_lca_map(o, &map), lca);
    for (int i = 0; i < 20; i++) {
        uint16_t g = (uint16_t)rng_below(r, o->n);
        bool want = brute_reaches(g, s);
        assert_int_equal(overlay_reaches(o, g, s), want);
        assert_int_equal(overlay_reaches_pre(o, g, pre, s.count), want);
        assert_int_equal(overlay_reaches_map(o, g, &map), want);
    }
}

static void compare_groups(const struct overlay *o, struct rng *r)
{
    for (uint32_t g = 0; g < o->n; g++) {
        uint32_t depth = 0, count, listed = 0;
        const uint16_t *child = overlay_children(o, (uint16_t)g, &count);

        for (uint16_t x = parent[g]; x != OVERLAY_NONE; x = parent[x])
            depth++;
        assert_int_equal(overlay_depth(o, (uint16_t)g), depth);
        assert_int_equal(overlay_parent(o, (uint16_t)g), parent[g]);
        assert_true(depth <= o->height);
        for (uint32_t x = 0; x < o->n; x++)
            if (parent[x] == g) {
                assert_true(listed < count);
                assert_int_equal(child[listed++], x);
            }
        assert_int_equal(listed, count);
        for (int i = 0; i < 4; i++) {
            uint16_t d = (uint16_t)rng_below(r, o->n);
            int edge = overlay_edge(o, (uint16_t)g, d);
            assert_int_equal(overlay_above(o, (uint16_t)g, d), brute_above((uint16_t)g, d));
            assert_int_equal(edge >= 0, d != g && brute_above((uint16_t)g, d));
            if (edge >= 0)
                assert_true(brute_above(child[edge], d));
        }
    }
}

static void overlay__agrees_with_brute_force_on_random_trees(void **state)
{
    (void)state;
    const uint32_t sizes[] = {1, 2, 3, 5, 8, 63, 64, 65, 128, 200, 1000, 1024};
    struct rng r;

    rng_init(&r, 7);
    for (uint32_t round = 0; round < 120; round++) {
        uint32_t n = sizes[round % 12];
        const uint32_t nears[] = {1, 2, 8, n};
        draw_tree(&r, n, nears[round / 12 % 4]);
        struct overlay *o = open_or_fail(n);
        compare_groups(o, &r);
        for (int i = 0; i < 20; i++) {
            uint16_t list[OVERLAY_GROUPS_MAX];
            compare_set(o, draw_set(&r, n, list), &r);
        }
        overlay_close(o);
    }
}

static void overlay__reaches_are_counted(void **state)
{
    (void)state;
    overlay_shape_fill(OVERLAY_base, 8, parent);
    struct overlay *o = open_or_fail(8);
    const uint32_t want[] = {8, 7, 3, 3, 1, 1, 1, 1};

    for (uint16_t g = 0; g < 8; g++)
        assert_int_equal(overlay_reach_count(o, g), want[g]);
    assert_int_equal(overlay_root(o), 0);
    overlay_close(o);
}

/* The lca of the two ends of a chain of 1,024, and of all its neighbours, by jumps. */
static void overlay__climbs_a_long_chain(void **state)
{
    (void)state;
    overlay_shape_fill(OVERLAY_depth, OVERLAY_GROUPS_MAX, parent);
    struct overlay *o = open_or_fail(OVERLAY_GROUPS_MAX);

    for (uint16_t g = 1; g < OVERLAY_GROUPS_MAX; g++) {
        uint16_t ends[] = {0, g}, near[] = {(uint16_t)(g - 1), g};
        assert_int_equal(overlay_lca(o, (struct dst_set){ends, 2}), 0);
        assert_int_equal(overlay_lca(o, (struct dst_set){near, 2}), g - 1);
    }
    assert_int_equal(o->height, OVERLAY_GROUPS_MAX - 1);
    overlay_close(o);
}

static void assert_refused(uint32_t n, const char *text)
{
    struct overlay *o = NULL;

    assert_int_equal(overlay_open(&o, parent, n, &err), ERR_INVALID);
    assert_null(o);
    if (strstr(err.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, text);
}

static void overlay__what_is_no_tree_is_refused(void **state)
{
    (void)state;
    overlay_shape_fill(OVERLAY_base, 8, parent);
    assert_refused(0, "a tree of 0 groups");
    assert_refused(OVERLAY_GROUPS_MAX + 1, "1 to 1024");
    parent[5] = 8;
    assert_refused(8, "group 5 has parent 8: the groups are 0 to 7");
    parent[5] = 5;
    assert_refused(8, "group 5 is its own parent");
    parent[5] = OVERLAY_NONE;
    assert_refused(8, "groups 0 and 5 both have no parent");
    parent[5] = 2;
    parent[0] = 4;
    assert_refused(8, "every group has a parent");
}

/* 6 leads into the cycle 2 -> 3 -> 4 -> 2 without being in it: the text names one that is. */
static void overlay__a_cycle_is_refused_and_named(void **state)
{
    (void)state;
    const uint16_t cyclic[] = {OVERLAY_NONE, 0, 3, 4, 2, 0, 2, 6};

    memcpy(parent, cyclic, sizeof cyclic);
    assert_refused(8, "lead to the root, group 0");
    const char *named = strstr(err.text, "of group ");
    assert_non_null(named);
    assert_true(named[9] == '2' || named[9] == '3' || named[9] == '4');
    parent[0] = 1;
    parent[1] = OVERLAY_NONE;
    assert_refused(8, "group 1");
}

static void overlay__shapes_are_those_of_the_paper(void **state)
{
    (void)state;
    const uint16_t none = OVERLAY_NONE;
    const uint16_t want[OVERLAY_SHAPE_COUNT][8] = {
        [OVERLAY_base] = {none, 0, 1, 1, 2, 2, 3, 3}, /* -,1,2,2,3,3,4,4 counted from 1 */
        [OVERLAY_breadth] = {none, 0, 0, 0, 0, 0, 0, 0},
        [OVERLAY_depth] = {none, 0, 1, 2, 3, 4, 5, 6},
    };

    for (int shape = 0; shape < OVERLAY_SHAPE_COUNT; shape++) {
        overlay_shape_fill((enum overlay_shape)shape, 8, parent);
        assert_memory_equal(parent, want[shape], sizeof want[shape]);
    }
}

static void overlay__shapes_are_trees_of_any_size(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= OVERLAY_GROUPS_MAX; n++)
        for (int shape = 0; shape < OVERLAY_SHAPE_COUNT; shape++) {
            overlay_shape_fill((enum overlay_shape)shape, n, parent);
            struct overlay *o = open_or_fail(n);
            uint32_t count;
            overlay_children(o, 0, &count);
            if (shape == OVERLAY_breadth)
                assert_int_equal(count, n - 1);
            else
                assert_int_equal(count, n > 1 ? 1 : 0);
            if (shape == OVERLAY_base && n > 2) /* full levels of 1, 1, 2, 4, 8 ... */
                assert_int_equal(o->height, 32 - __builtin_clz(n - 1));
            overlay_close(o);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlay__agrees_with_brute_force_on_random_trees),
        cmocka_unit_test(overlay__reaches_are_counted),
        cmocka_unit_test(overlay__climbs_a_long_chain),
        cmocka_unit_test(overlay__what_is_no_tree_is_refused),
        cmocka_unit_test(overlay__a_cycle_is_refused_and_named),
        cmocka_unit_test(overlay__shapes_are_those_of_the_paper),
        cmocka_unit_test(overlay__shapes_are_trees_of_any_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
