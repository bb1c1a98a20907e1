#include "../disk_fixture.h"

static void make(struct disk_fix *f)
{
    fix_init(f, 0);
    fix_format(f, 0);
    fix_open(f);
}

static void lives__rise_with_every_opening(void **state)
{
    (void)state;
    struct disk_fix f;

    make(&f);
    for (uint32_t life = 0; life < 5; life++) {
        assert_int_equal(disk_life(f.d), life);
        fix_die(&f);
        disk_sim_power_cut(f.sim);
        fix_open(&f);
    }
    fix_fini(&f);
}

/* Also one that could not be opened to the end may have been used. */
static void lives__are_never_used_again_after_a_failed_opening(void **state)
{
    (void)state;
    struct disk_fix f;
    uint32_t last;

    make(&f);
    last = disk_life(f.d);
    for (uint32_t i = 0; i < 20; i++) {
        fix_die(&f);
        disk_sim_fail(f.sim);
        assert_int_equal(fix_try_open(&f, NULL), ERR_SYSTEM);
        disk_sim_power_cut(f.sim);
        fix_open(&f);
        assert_true(disk_life(f.d) > last);
        last = disk_life(f.d);
    }
    fix_fini(&f);
}

static void lives__are_durable_when_their_batch_is(void **state)
{
    (void)state;
    struct disk_fix f;

    make(&f);
    fix_rounds(&f, 100);
    assert_true(disk_next_ns(f.d) == UINT64_MAX);
    uint64_t a = disk_host_note(f.d, 1, 7), b = disk_place_note(f.d, 5, 65535);
    assert_true(a > disk_done(f.d) && b > disk_done(f.d));
    assert_int_equal(disk_next_ns(f.d), 0);
    fix_until(&f, b);
    fix_die(&f);
    disk_sim_power_cut(f.sim);
    fix_open(&f);
    assert_int_equal(disk_host_life(f.d, 1), 7);
    assert_int_equal(disk_place_life(f.d, 5), 65535);
    assert_int_equal(disk_host_life(f.d, 0), 0);
    fix_fini(&f);
}

/* While a batch is under way: the slot goes with the next one. */
static void lives__noted_while_a_batch_is_written_wait_for_the_next(void **state)
{
    (void)state;
    struct disk_fix f;

    make(&f);
    fix_rounds(&f, 100);
    uint64_t batch = fix_append(&f, 0, 0, 64);
    disk_round(f.d, f.now);
    uint64_t note = disk_place_note(f.d, 0, 3);
    assert_int_equal(note, batch + 1);
    fix_until(&f, note);
    fix_die(&f);
    disk_sim_power_cut(f.sim);
    fix_open(&f);
    assert_int_equal(disk_place_life(f.d, 0), 3);
    fix_fini(&f);
}

/* Either slot may be damaged, once the batch is confirmed: lives and the own one are there. */
static void lives__survive_the_damage_of_a_slot(void **state)
{
    (void)state;

    for (uint32_t slot = 0; slot < SLOTS; slot++)
        for (uint32_t idle = 0; idle < 2; idle++) {
            struct disk_fix f;
            make(&f);
            fix_die(&f);
            fix_open(&f);
            if (idle) {
                fix_until(&f, disk_host_note(f.d, 2, 9));
                fix_rounds(&f, 200);
            }
            fix_die(&f);
            assert_true(disk_sim_flip(f.sim, HOST_NAME, slot * SLOT_BYTES + 1000));
            fix_open(&f);
            assert_int_equal(disk_life(f.d), 2);
            assert_int_equal(disk_host_life(f.d, 2), idle ? 9 : 0);
            fix_fini(&f);
        }
}

static void lives__without_both_slots_nobody_knows(void **state)
{
    (void)state;
    struct disk_fix f;
    struct err e;

    make(&f);
    fix_die(&f);
    for (uint64_t slot = 0; slot < SLOTS; slot++)
        assert_true(disk_sim_flip(f.sim, HOST_NAME, slot * SLOT_BYTES + 1000));
    assert_int_equal(fix_try_open(&f, &e), ERR_CORRUPT);
    fix_fini(&f);
}

/* A slot is written a dozen times while segments wrap; tables have the lives as well. */
static void lives__are_in_tables(void **state)
{
    (void)state;
    struct disk_fix f;
    static _Alignas(8) unsigned char host[SLOTS * SLOT_BYTES];
    bool later;

    make(&f);
    fix_until(&f, disk_host_note(f.d, 2, 9));
    fix_until(&f, disk_place_note(f.d, 3, 4));
    fix_rounds(&f, 200);
    for (uint32_t i = 0; i < 40; i++)
        fix_until(&f, fix_pledge(&f, 0));
    fix_die(&f);
    /* Slots as they were before: without these lives. */
    assert_int_equal(disk_sim_platter(f.sim, HOST_NAME, 0, host, sizeof host), 0);
    struct slot *s = (void *)host;
    assert_non_null(scan_host(host, &later));
    static _Alignas(BLOCK_BYTES) unsigned char forged[SLOTS * SLOT_BYTES];
    for (uint32_t i = 0; i < SLOTS; i++) {
        memset(s[i].hosts, 0, sizeof s[i].hosts);
        memset(s[i].places, 0, sizeof s[i].places);
        scan_seal_slot(&s[i]);
    }
    memcpy(forged, host, sizeof host);
    f.block = disk_sim_block(f.sim, &f.now);
    struct block_step step = {
        .act = BLOCK_WRITE, .name = HOST_NAME, .data = forged, .bytes = sizeof forged};
    block_begin(f.block, BLOCK_JOURNAL, &step, 1);
    assert_int_equal(block_wait(f.block, BLOCK_JOURNAL), BLOCK_DONE);
    block_close(f.block);
    fix_open(&f);
    assert_int_equal(disk_host_life(f.d, 2), 9);
    assert_int_equal(disk_place_life(f.d, 3), 4);
    fix_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lives__rise_with_every_opening),
        cmocka_unit_test(lives__are_never_used_again_after_a_failed_opening),
        cmocka_unit_test(lives__are_durable_when_their_batch_is),
        cmocka_unit_test(lives__noted_while_a_batch_is_written_wait_for_the_next),
        cmocka_unit_test(lives__survive_the_damage_of_a_slot),
        cmocka_unit_test(lives__without_both_slots_nobody_knows),
        cmocka_unit_test(lives__are_in_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
