/* Reports as bytes and back, and damaged ones. */
#include "group/keeper_impl.h"

#include "../guarded.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { HOSTS = 5, CELLS = 3 };

static struct cell_report told[CELLS], back[CELLS];

static struct report draw(struct rng *r)
{
    for (uint32_t c = 0; c < CELLS; c++) {
        told[c].has_state = rng_below(r, 2);
        told[c].large = rng_below(r, 2);
        told[c].learnt = (uint32_t)rng_below(r, HOSTS + 1);
        told[c].senders = (uint32_t)rng_below(r, HOSTS + 1);
        for (uint32_t i = 0; i < told[c].senders; i++)
            told[c].held[i] = rng_u64(r) >> rng_below(r, 64);
    }
    return (struct report){.vid = rng_u64(r), .life = rng_u64(r), .cell = told};
}

static void report__comes_back_from_its_bytes(void **state)
{
    (void)state;
    struct rng r;
    unsigned char bytes[1024];
    rng_init(&r, 3);
    assert_true(report_bytes_max(HOSTS, CELLS) <= sizeof(bytes));
    for (int i = 0; i < 1000; i++) {
        struct report a = draw(&r), b;
        uint32_t n = report_encode(&a, CELLS, bytes);
        assert_true(n <= report_bytes_max(HOSTS, CELLS));
        assert_true(report_decode(bytes, n, HOSTS, CELLS, &b, back));
        assert_true(a.vid == b.vid && a.life == b.life && b.cell == back);
        for (uint32_t c = 0; c < CELLS; c++) {
            assert_int_equal(told[c].has_state, back[c].has_state);
            assert_int_equal(told[c].large, back[c].large);
            assert_int_equal(told[c].learnt, back[c].learnt);
            assert_int_equal(told[c].senders, back[c].senders);
            assert_memory_equal(told[c].held, back[c].held, 8 * (size_t)told[c].senders);
        }
    }
}

static bool accepted(const unsigned char *bytes, uint32_t n)
{
    struct report b = {0};
    const unsigned char *exact = guarded(bytes, n);
    unsigned char again[1024];
    memset(back, 0x55, sizeof(back));
    bool is = report_decode(exact, n, HOSTS, CELLS, &b, back);
    if (is) {
        assert_int_equal(report_encode(&b, CELLS, again), n);
        assert_memory_equal(again, exact, n);
    }
    for (uint32_t c = 0; c < CELLS; c++)
        for (uint32_t i = HOSTS; i < GROUP_HOSTS_MAX; i++)
            assert_int_equal(back[c].held[i], 0x5555555555555555);
    return is;
}

static void report__of_other_sizes_is_none(void **state)
{
    (void)state;
    struct rng r;
    unsigned char bytes[1024] = {0};
    rng_init(&r, 4);
    for (int i = 0; i < 100; i++) {
        struct report a = draw(&r);
        uint32_t n = report_encode(&a, CELLS, bytes);
        assert_true(accepted(bytes, n));
        for (uint32_t shorter = 0; shorter < n; shorter++)
            assert_false(accepted(bytes, shorter));
        memset(bytes + n, 0, 8);
        assert_false(accepted(bytes, n + 8));
    }
    struct report a = draw(&r);
    for (uint32_t c = 0; c < CELLS; c++)
        told[c].senders = 1;
    told[0].senders = HOSTS + 1;
    assert_false(accepted(bytes, report_encode(&a, CELLS, bytes)));
}

static void report__damaged_bytes_are_one_or_none(void **state)
{
    (void)state;
    struct rng r;
    unsigned char bytes[1024] = {0};
    uint32_t refused = 0;
    rng_init(&r, 6);
    for (int i = 0; i < 5000; i++) {
        struct report a = draw(&r);
        uint32_t n = report_encode(&a, CELLS, bytes);
        uint64_t word = rng_u64(&r) >> rng_below(&r, 64);
        memcpy(bytes + 8 * rng_below(&r, n / 8), &word, 8);
        refused += !accepted(bytes, n);
    }
    assert_true(refused > 500);
}

static void report__what_a_disk_has_comes_back(void **state)
{
    (void)state;
    struct rng r;
    unsigned char bytes[1024];
    uint64_t reach[CELLS], there[CELLS + 1] = {0};
    rng_init(&r, 8);
    for (int i = 0; i < 1000; i++) {
        struct report other;
        struct found_report a = {
            .life = rng_u64(&r) | 1, .vid = rng_u64(&r), .made = rng_u64(&r), .reach = reach};
        struct found_report b = {0};
        for (uint32_t c = 0; c < CELLS; c++)
            reach[c] = rng_u64(&r);
        uint32_t n = found_encode(&a, CELLS, bytes);
        assert_true(n <= report_bytes_max(HOSTS, CELLS));
        assert_true(found_decode(bytes, n, CELLS, &b, there));
        assert_true(b.life == a.life && b.vid == a.vid && b.made == a.made);
        assert_memory_equal(reach, there, sizeof(reach));
        assert_true(!report_decode(bytes, n, HOSTS, CELLS, &other, back) || other.vid == 0);
        assert_false(found_decode(bytes, n - 8, CELLS, &b, there));
        bytes[0] = 1; /* a report on view 1 */
        there[0] = 77;
        assert_false(found_decode(bytes, n, CELLS, &b, there));
        assert_int_equal(there[0], 77);
    }
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report__comes_back_from_its_bytes),
        cmocka_unit_test(report__of_other_sizes_is_none),
        cmocka_unit_test(report__damaged_bytes_are_one_or_none),
        cmocka_unit_test(report__what_a_disk_has_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
