#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* The first numbers of splitmix64 from seed 1234567, as its authors publish them. */
static void rng__splitmix64_gives_the_published_numbers(void **state)
{
    (void)state;
    uint64_t s = 1234567;

    assert_true(rng_splitmix64(&s) == 6457827717110365317u);
    assert_true(rng_splitmix64(&s) == 3203168211198807973u);
    assert_true(rng_splitmix64(&s) == 9817491932198370423u);
}

/* From the state {1, 2, 3, 4}, as used by other implementations' tests. */
static void rng__u64_gives_the_published_numbers(void **state)
{
    (void)state;
    struct rng r = {{1, 2, 3, 4}};

    assert_true(rng_u64(&r) == 11520u);
    assert_true(rng_u64(&r) == 0u);
    assert_true(rng_u64(&r) == 1509978240u);
    assert_true(rng_u64(&r) == 1215971899390074240u);
}

static void rng__same_seed_same_stream(void **state)
{
    (void)state;
    struct rng a, b, c;
    int equal = 0;

    rng_init(&a, 7);
    rng_init(&b, 7);
    rng_init(&c, 8);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = rng_u64(&a);
        assert_true(x == rng_u64(&b));
        equal += x == rng_u64(&c);
    }
    assert_int_equal(equal, 0);
}

static void rng__below_stays_below_and_is_even(void **state)
{
    (void)state;
    struct rng r;
    int seen[10] = {0};

    rng_init(&r, 1);
    for (int i = 0; i < 100000; i++) {
        uint64_t x = rng_below(&r, 10);
        assert_true(x < 10);
        seen[x]++;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(seen[i], 9500, 10500); /* five standard deviations are 475 */
    for (int i = 0; i < 100; i++)
        assert_true(rng_below(&r, 1) == 0);
}

static void rng__range_includes_both_ends(void **state)
{
    (void)state;
    struct rng r;
    bool low = false, high = false;

    rng_init(&r, 2);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = rng_range(&r, 5, 8);
        assert_in_range(x, 5, 8);
        low |= x == 5;
        high |= x == 8;
    }
    assert_true(low && high);
    assert_true(rng_range(&r, 9, 9) == 9);
    rng_range(&r, 0, UINT64_MAX); /* must not ask for a number below 0 */
}

static void rng__chance_keeps_its_rate(void **state)
{
    (void)state;
    struct rng r;
    int hits = 0;

    rng_init(&r, 3);
    for (int i = 0; i < 100000; i++) {
        hits += rng_chance_ppm(&r, 250000);
        assert_false(rng_chance_ppm(&r, 0));
        assert_true(rng_chance_ppm(&r, 1000000));
    }
    assert_in_range(hits, 24300, 25700);
}

static void rng__chance_draws_whatever_the_rate(void **state)
{
    (void)state;
    struct rng a, b;

    rng_init(&a, 4);
    rng_init(&b, 4);
    rng_chance_ppm(&a, 0);
    rng_chance_ppm(&b, 500000);
    assert_true(rng_u64(&a) == rng_u64(&b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rng__splitmix64_gives_the_published_numbers),
        cmocka_unit_test(rng__u64_gives_the_published_numbers),
        cmocka_unit_test(rng__same_seed_same_stream),
        cmocka_unit_test(rng__below_stays_below_and_is_even),
        cmocka_unit_test(rng__range_includes_both_ends),
        cmocka_unit_test(rng__chance_keeps_its_rate),
        cmocka_unit_test(rng__chance_draws_whatever_the_rate),
    };
    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
