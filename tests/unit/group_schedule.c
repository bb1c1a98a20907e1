/* Schedules of large messages, for all numbers of members and blocks that matter: everybody gets every block once, and nobody sends two
 * at once, takes two at once, or sends what it has not got. */
#include "group/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS = 64, BLOCKS = 40 };

static bool has[MEMBERS][BLOCKS];
static struct rdmc_move moves[MEMBERS];

static bool is_none(uint32_t rank, uint32_t block)
{
    return rank == RDMC_NONE && block == RDMC_NONE;
}

/* Both sides of every transfer say the same, and the sender had the block before the step. */
static void check_step(const struct rdmc_plan *p)
{
    for (uint32_t r = 0; r < p->members; r++) {
        const struct rdmc_move *m = &moves[r];
        if (m->to != RDMC_NONE) {
            assert_true(m->to < p->members && m->to != r && m->sends < p->blocks);
            assert_true(has[r][m->sends]);
            assert_int_equal(moves[m->to].from, r);
            assert_int_equal(moves[m->to].takes, m->sends);
        } else {
            assert_true(is_none(m->to, m->sends));
        }
        if (m->from != RDMC_NONE) {
            assert_true(m->from < p->members && m->from != r);
            assert_int_equal(moves[m->from].to, r);
            assert_int_equal(moves[m->from].sends, m->takes);
        } else {
            assert_true(is_none(m->from, m->takes));
        }
    }
}

/* True: somebody took something. */
static bool take_step(const struct rdmc_plan *p)
{
    bool any = false;
    for (uint32_t r = 0; r < p->members; r++) {
        const struct rdmc_move *m = &moves[r];
        if (m->from == RDMC_NONE)
            continue;
        assert_false(has[r][m->takes]);
        has[r][m->takes] = any = true;
    }
    return any;
}

static void check_plan(const struct rdmc_plan *p)
{
    uint64_t steps = rdmc_steps(p), last = 0;
    memset(has, 0, sizeof(has));
    memset(has[0], 1, sizeof(has[0]));
    for (uint64_t step = 0; step < steps + 2; step++) {
        for (uint32_t r = 0; r < p->members; r++)
            moves[r] = rdmc_next(p, r, step);
        check_step(p);
        if (take_step(p))
            last = step + 1;
    }
    assert_true(last <= steps);
    for (uint32_t r = 0; r < p->members; r++)
        for (uint32_t b = 0; b < p->blocks; b++)
            assert_true(has[r][b]);
}

static uint32_t log2_up(uint32_t n)
{
    uint32_t l = 0;
    while (1U << l < n)
        l++;
    return l;
}

static void check_all(enum rdmc_schedule schedule)
{
    for (uint32_t n = 1; n <= MEMBERS; n++)
        for (uint32_t k = 1; k <= BLOCKS; k++)
            check_plan(&(struct rdmc_plan){.schedule = schedule, .members = n, .blocks = k});
}

static void sequential__gives_all_to_all(void **state)
{
    (void)state;
    const struct rdmc_plan p = {.schedule = RDMC_SEQUENTIAL, .members = 8, .blocks = 64};
    assert_int_equal(rdmc_steps(&p), 7 * 64);
    check_all(RDMC_SEQUENTIAL);
}

static void chain__gives_all_to_all(void **state)
{
    (void)state;
    const struct rdmc_plan p = {.schedule = RDMC_CHAIN, .members = 3, .blocks = 64};
    assert_int_equal(rdmc_steps(&p), 65);
    check_all(RDMC_CHAIN);
}

static void tree__gives_all_to_all(void **state)
{
    (void)state;
    const struct rdmc_plan p = {.schedule = RDMC_TREE, .members = 8, .blocks = 64};
    assert_int_equal(rdmc_steps(&p), 3 * 64);
    check_all(RDMC_TREE);
}

/* The bound is the paper's, counted here and not by the code under test. */
static void pipeline__ends_within_log_n_and_k_steps(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= MEMBERS; n++)
        for (uint32_t k = 1; k <= BLOCKS; k++) {
            const struct rdmc_plan p = {.schedule = RDMC_PIPELINE, .members = n, .blocks = k};
            uint32_t more = (n & (n - 1)) != 0;
            assert_int_equal(rdmc_steps(&p), log2_up(n) + k - 1 + more);
        }
    check_all(RDMC_PIPELINE);
}

/* Equal racks, one for each member, one for all, and racks of 1, 2, 3, ... members that are mixed up. */
static void racks__gives_all_to_all(void **state)
{
    (void)state;
    uint8_t rack[MEMBERS];
    for (uint32_t kind = 0; kind < 5; kind++)
        for (uint32_t n = 1; n <= MEMBERS; n++)
            for (uint32_t k = 1; k <= BLOCKS; k += k < 5 ? 1 : 7) {
                for (uint32_t r = 0; r < n; r++)
                    rack[r] = (uint8_t)(kind == 0   ? r / 8
                                        : kind == 1 ? r
                                        : kind == 2 ? 7
                                        : kind == 3 ? r % 5
                                                    : r * r % 11);
                check_plan(&(struct rdmc_plan){
                    .schedule = RDMC_RACKS, .members = n, .blocks = k, .rack = rack});
            }
}

/* Between two racks every block goes once: that is what racks are for. */
static void racks__cross_once_a_block_and_rack(void **state)
{
    (void)state;
    uint8_t rack[16];
    uint32_t crossings = 0;
    for (uint32_t r = 0; r < 16; r++)
        rack[r] = (uint8_t)(r / 4);
    const struct rdmc_plan p = {.schedule = RDMC_RACKS, .members = 16, .blocks = 10, .rack = rack};
    for (uint64_t step = 0; step < rdmc_steps(&p); step++)
        for (uint32_t r = 0; r < 16; r++) {
            struct rdmc_move m = rdmc_next(&p, r, step);
            crossings += m.to != RDMC_NONE && rack[m.to] != rack[r];
        }
    assert_int_equal(crossings, 3 * 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequential__gives_all_to_all),
        cmocka_unit_test(chain__gives_all_to_all),
        cmocka_unit_test(tree__gives_all_to_all),
        cmocka_unit_test(pipeline__ends_within_log_n_and_k_steps),
        cmocka_unit_test(racks__gives_all_to_all),
        cmocka_unit_test(racks__cross_once_a_block_and_rack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
