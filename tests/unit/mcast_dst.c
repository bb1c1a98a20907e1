#include "base/rng.h"
#include "mcast/dst.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct err err;

static void assert_refused(int rc, int code, const char *text)
{
    assert_int_equal(rc, code);
    if (strstr(err.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, text);
}

static void dst__a_list_becomes_ascending_and_unique(void **state)
{
    (void)state;
    uint16_t list[] = {7, 0, 1023, 7, 64, 63, 0};
    const uint16_t want[] = {0, 7, 63, 64, 1023};
    struct dst_set s;

    assert_int_equal(dst_normalise(list, 7, 1024, &s, &err), 0);
    assert_int_equal(s.count, 5);
    assert_ptr_equal(s.group, list);
    assert_memory_equal(s.group, want, sizeof want);
    assert_int_equal(dst_check(s, 1024, &err), 0);
}

static void dst__a_canonical_list_stays(void **state)
{
    (void)state;
    uint16_t one[] = {3}, two[] = {3, 9};
    struct dst_set s;

    assert_int_equal(dst_normalise(one, 1, 4, &s, &err), 0);
    assert_true(s.count == 1 && s.group[0] == 3);
    assert_int_equal(dst_normalise(two, 2, 10, &s, &err), 0);
    assert_true(s.count == 2 && s.group[0] == 3 && s.group[1] == 9);
}

static void dst__bad_lists_are_refused(void **state)
{
    (void)state;
    uint16_t list[DST_GROUPS_MAX + 1] = {1, 4};
    struct dst_set s;

    assert_refused(dst_normalise(list, 0, 8, &s, &err), ERR_INVALID, "at least one group");
    assert_refused(dst_normalise(list, 2, 4, &s, &err), ERR_INVALID, "destination 4");
    assert_refused(dst_normalise(list, DST_GROUPS_MAX + 1, 8, &s, &err), ERR_INVALID,
                   "1025 destinations");
}

static void dst__bad_sets_off_the_wire_are_refused(void **state)
{
    (void)state;
    const uint16_t twice[] = {1, 4, 4}, down[] = {4, 1}, good[] = {1, 4};

    assert_refused(dst_check((struct dst_set){good, 0}, 8, &err), ERR_CORRUPT, "without groups");
    assert_refused(dst_check((struct dst_set){good, 2}, 4, &err), ERR_CORRUPT, "destination 4");
    assert_refused(dst_check((struct dst_set){twice, 3}, 8, &err), ERR_CORRUPT, "ascending");
    assert_refused(dst_check((struct dst_set){down, 2}, 8, &err), ERR_CORRUPT, "ascending");
    assert_refused(dst_check((struct dst_set){good, 9}, 8, &err), ERR_CORRUPT, "of 9 groups");
    assert_int_equal(dst_check((struct dst_set){good, 2}, 5, &err), 0);
}

/* Random lists of every length against a plain table of flags. */
static void dst__membership_is_that_of_the_list(void **state)
{
    (void)state;
    struct rng r;

    rng_init(&r, 1);
    for (int round = 0; round < 500; round++) {
        uint16_t list[DST_GROUPS_MAX];
        bool in[DST_GROUPS_MAX] = {0};
        uint32_t groups = (uint32_t)rng_range(&r, 1, DST_GROUPS_MAX), unique = 0;
        uint32_t count = (uint32_t)rng_range(&r, 1, rng_range(&r, 1, groups));
        struct dst_set s;

        for (uint32_t i = 0; i < count; i++) {
            list[i] = (uint16_t)rng_below(&r, groups);
            unique += !in[list[i]];
            in[list[i]] = true;
        }
        assert_int_equal(dst_normalise(list, count, groups, &s, &err), 0);
        assert_int_equal(s.count, unique);
        assert_int_equal(dst_check(s, groups, &err), 0);
        for (uint32_t g = 0; g < groups; g++)
            assert_int_equal(dst_has(s, (uint16_t)g), in[g]);
    }
}

static void dst__wire_form_is_padded_with_zeros(void **state)
{
    (void)state;
    const uint32_t bytes[] = {0, 8, 8, 8, 8, 16, 16, 16, 16, 24};
    for (uint32_t count = 0; count < 10; count++)
        assert_int_equal(dst_bytes(count), bytes[count]);
    assert_int_equal(dst_bytes(DST_GROUPS_MAX), 2048);

    const uint16_t five[] = {1, 2, 3, 4, 500};
    uint16_t wire[9], back[5], want[9] = {1, 2, 3, 4, 500, 0, 0, 0, 0xffff};
    memset(wire, 0xff, sizeof wire);
    dst_write(wire, (struct dst_set){five, 5});
    assert_memory_equal(wire, want, sizeof wire);
    struct dst_set s = dst_read(wire, 5, back);
    assert_int_equal(s.count, 5);
    assert_memory_equal(s.group, five, sizeof five);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dst__a_list_becomes_ascending_and_unique),
        cmocka_unit_test(dst__a_canonical_list_stays),
        cmocka_unit_test(dst__bad_lists_are_refused),
        cmocka_unit_test(dst__bad_sets_off_the_wire_are_refused),
        cmocka_unit_test(dst__membership_is_that_of_the_list),
        cmocka_unit_test(dst__wire_form_is_padded_with_zeros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
