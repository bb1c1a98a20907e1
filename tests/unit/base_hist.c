#include "base/hist.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct hist h, other; /* too large for the stack */

/* Fails unless got is within 1% of want. */
static void assert_close(uint64_t got, uint64_t want)
{
    double error = (double)got - (double)want;

    if (error < 0)
        error = -error;
    if (error > 0.01 * (double)want)
        fail_msg("%lu is not within 1%% of %lu", (unsigned long)got, (unsigned long)want);
}

static void hist__empty_gives_zero(void **state)
{
    (void)state;
    hist_init(&h);
    assert_true(hist_count(&h) == 0 && hist_min(&h) == 0 && hist_max(&h) == 0);
    assert_true(hist_quantile(&h, 0) == 0 && hist_quantile(&h, 0.5) == 0);
    assert_true(hist_mean(&h) == 0);
}

static void hist__small_values_are_exact(void **state)
{
    (void)state;
    hist_init(&h);
    for (uint64_t v = 1; v <= 200; v++)
        hist_add(&h, v);
    for (unsigned percent = 1; percent <= 100; percent++)
        assert_true(hist_quantile(&h, percent / 100.0) == 2 * percent ||
                    hist_quantile(&h, percent / 100.0) == 2 * percent + 1); /* 0.07 * 200 > 14 */
    assert_true(hist_mean(&h) == 100.5);
}

/* One value between two that fix the ends, over all magnitudes and both sides of each power. */
static void hist__every_magnitude_is_within_one_percent(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t power = (uint64_t)1 << bit;
        const uint64_t values[] = {power - 1, power, power + 1, power + power / 3,
                                   power + (power - 1)};
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            hist_init(&h);
            hist_add(&h, 0);
            hist_add(&h, values[i]);
            hist_add(&h, UINT64_MAX);
            assert_close(hist_quantile(&h, 0.5), values[i]);
        }
    }
}

static void hist__ends_are_exact(void **state)
{
    (void)state;
    hist_init(&h);
    hist_add(&h, 1000003);
    hist_add(&h, 777777777777);
    hist_add(&h, UINT64_MAX);
    assert_true(hist_quantile(&h, 0) == 1000003 && hist_min(&h) == 1000003);
    assert_true(hist_quantile(&h, 1) == UINT64_MAX && hist_max(&h) == UINT64_MAX);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Against the same values sorted: a mix of magnitudes, as latencies are. */
static void hist__quantiles_agree_with_sorting(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static uint64_t values[COUNT];
    static const double quantiles[] = {0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999};
    struct rng r;

    rng_init(&r, 5);
    hist_init(&h);
    for (int i = 0; i < COUNT; i++) {
        values[i] = rng_u64(&r) >> rng_range(&r, 10, 60);
        hist_add(&h, values[i]);
    }
    qsort(values, COUNT, sizeof values[0], compare);
    for (size_t i = 0; i < sizeof quantiles / sizeof quantiles[0]; i++) {
        size_t rank = (size_t)(quantiles[i] * COUNT);
        if ((double)rank < quantiles[i] * COUNT)
            rank++;
        assert_close(hist_quantile(&h, quantiles[i]), values[rank - 1]);
    }
}

static void hist__merge_equals_adding(void **state)
{
    (void)state;
    static struct hist all;
    struct rng r;

    rng_init(&r, 6);
    hist_init(&h);
    hist_init(&other);
    hist_init(&all);
    for (int i = 0; i < 1000; i++) {
        uint64_t v = rng_u64(&r) >> 30;
        hist_add(i % 3 ? &h : &other, v);
        hist_add(&all, v);
    }
    hist_add(&other, 1); /* both ends come from the one that is merged in */
    hist_add(&all, 1);
    hist_add(&other, UINT64_MAX);
    hist_add(&all, UINT64_MAX);
    hist_merge(&h, &other);
    assert_memory_equal(&h, &all, sizeof h);
    hist_init(&other);
    hist_merge(&h, &other); /* an empty one must not spoil the minimum */
    assert_memory_equal(&h, &all, sizeof h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hist__empty_gives_zero),
        cmocka_unit_test(hist__small_values_are_exact),
        cmocka_unit_test(hist__every_magnitude_is_within_one_percent),
        cmocka_unit_test(hist__ends_are_exact),
        cmocka_unit_test(hist__quantiles_agree_with_sorting),
        cmocka_unit_test(hist__merge_equals_adding),
    };
    return cmocka_run_group_tests_name("hist", tests, NULL, NULL);
}
