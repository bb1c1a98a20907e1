#include "bench/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { GROUPS = 8, SETS = 2000 };

static uint16_t sets[SETS * GROUPS], again[SETS * GROUPS];

static void draw(enum overlay_shape shape, uint32_t dst, bool adjacent, struct overlay **o,
                 uint16_t *out)
{
    struct bench_args a = {.groups = GROUPS, .dst = dst, .shape = shape, .adjacent = adjacent};
    uint16_t parent[GROUPS];
    struct err e = {""};
    overlay_shape_fill(shape, GROUPS, parent);
    if (overlay_open(o, parent, GROUPS, &e) != 0 || bench_sets(&a, *o, out, SETS, &e) != 0)
        fail_msg("%s", e.text);
}

/* In a tree, groups hang together if all but one of them have their parent among them. */
static bool connected(const struct overlay *o, const uint16_t *set, uint32_t count)
{
    uint32_t tops = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool below = false;
        for (uint32_t k = 0; k < count; k++)
            below |= overlay_parent(o, set[i]) == set[k];
        tops += !below;
    }
    return tops == 1;
}

static uint32_t bits(const uint16_t *set, uint32_t count)
{
    uint32_t map = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(set[i] < GROUPS && (i == 0 || set[i] > set[i - 1]));
        map |= 1u << set[i];
    }
    return map;
}

/* Every set that there can be is drawn, and no other. */
static void all_of(enum overlay_shape shape, uint32_t dst, bool adjacent)
{
    bool drawn[1 << GROUPS] = {false};
    struct overlay *o;
    draw(shape, dst, adjacent, &o, sets);
    for (uint32_t i = 0; i < SETS; i++)
        drawn[bits(sets + i * dst, dst)] = true;
    for (uint32_t map = 1; map < 1 << GROUPS; map++) {
        uint16_t set[GROUPS];
        uint32_t count = 0;
        for (uint16_t g = 0; g < GROUPS; g++)
            if (map >> g & 1)
                set[count++] = g;
        bool wanted = count == dst && (!adjacent || connected(o, set, count));
        if (drawn[map] != wanted)
            fail_msg("%s, %u destinations%s: set %x was %sdrawn", overlay_shape_name(shape), dst,
                     adjacent ? ", adjacent" : "", map, wanted ? "not " : "");
    }
    overlay_close(o);
}

static void bench_sets__random_ones_are_all_sets_of_their_size(void **state)
{
    (void)state;
    for (uint32_t dst = 1; dst <= GROUPS; dst++)
        all_of(OVERLAY_breadth, dst, false);
}

static void bench_sets__adjacent_ones_are_all_that_hang_together(void **state)
{
    (void)state;
    for (int shape = 0; shape < OVERLAY_SHAPE_COUNT; shape++)
        for (uint32_t dst = 1; dst <= GROUPS; dst++)
            all_of((enum overlay_shape)shape, dst, true);
}

static void bench_sets__are_the_same_every_time(void **state)
{
    (void)state;
    struct overlay *o;
    draw(OVERLAY_base, 3, true, &o, sets);
    overlay_close(o);
    draw(OVERLAY_base, 3, true, &o, again);
    overlay_close(o);
    assert_memory_equal(sets, again, SETS * 3 * sizeof(*sets));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bench_sets__random_ones_are_all_sets_of_their_size),
        cmocka_unit_test(bench_sets__adjacent_ones_are_all_that_hang_together),
        cmocka_unit_test(bench_sets__are_the_same_every_time),
    };
    return cmocka_run_group_tests_name("bench_sets", tests, NULL, NULL);
}
