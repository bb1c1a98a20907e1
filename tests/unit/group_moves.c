/* Keepers that move, and groups that lose their power, in schedules stepped by hand. */
#include "../group_schedules.h"

#include "../holds.h"
#include "../planted_fixture.h"

enum { STEPS = 200, EVERY = 5 };

static void group_moves__all_first_keepers_may_fail_in_turn(void **state)
{
    (void)state;
    HOLDS(schedule_keepers_fail_in_turn(false, false));
    HOLDS(schedule_keepers_fail_in_turn(true, false));
    HOLDS(schedule_keepers_fail_in_turn(false, true));
}

static void group_moves__the_leader_may_die_at_any_step(void **state)
{
    (void)state;
    for (uint32_t ticks = 0; ticks < STEPS; ticks += EVERY) {
        HOLDS(schedule_leader_dies_in_move(ticks, ticks & 1, false));
        HOLDS(schedule_leader_dies_in_move(ticks, ticks & 1, true));
    }
}

static void group_moves__who_knows_old_keepers_hears_of_new_ones(void **state)
{
    (void)state;
    HOLDS(schedule_host_knows_first_keepers(false, false));
    HOLDS(schedule_host_knows_first_keepers(true, false));
    HOLDS(schedule_host_knows_first_keepers(false, true));
}

static void group_moves__a_leader_that_wakes_decides_nothing(void **state)
{
    (void)state;
    HOLDS(schedule_leader_wakes_after_move(false, false));
    HOLDS(schedule_leader_wakes_after_move(true, false));
    HOLDS(schedule_leader_wakes_after_move(false, true));
}

static void group_moves__the_only_keeper_may_leave(void **state)
{
    (void)state;
    HOLDS(schedule_only_keeper_leaves(false));
    HOLDS(schedule_only_keeper_leaves(true));
}

static void group_moves__the_power_may_go_at_any_step(void **state)
{
    (void)state;
    for (uint32_t ticks = 0; ticks < STEPS; ticks += 4 * EVERY) {
        HOLDS(schedule_power_cut_after(ticks, ticks % 3, false));
        HOLDS(schedule_power_cut_after(ticks + EVERY, (ticks + 1) % 3, true));
    }
}

static const char *power_cut(uint64_t ticks)
{
    return schedule_power_cut_after((uint32_t)ticks, ticks % 3, ticks & 1);
}

static void group_moves__what_counted_before_it_was_on_disk_is_missed(void **state)
{
    (void)state;
    finds_in_some(PLANTED_group_persisted_early, power_cut, STEPS / 2,
                  "same sequence|integrity|uniform|rule|log|joiner's state|liveness");
}

static void group_moves__a_full_disk_is_left(void **state)
{
    (void)state;
    HOLDS(schedule_disk_is_full());
}

static void group_moves__and_while_they_come_back(void **state)
{
    (void)state;
    for (uint32_t ticks = 0; ticks < 4 * STEPS; ticks += 12 * EVERY)
        HOLDS(schedule_power_cut_in_restart(ticks));
}

static void group_moves__and_while_keepers_move(void **state)
{
    (void)state;
    for (uint32_t ticks = 0; ticks < 4 * STEPS; ticks += 8 * EVERY)
        HOLDS(schedule_power_cut_in_move(ticks));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_moves__all_first_keepers_may_fail_in_turn),
        cmocka_unit_test(group_moves__the_leader_may_die_at_any_step),
        cmocka_unit_test(group_moves__who_knows_old_keepers_hears_of_new_ones),
        cmocka_unit_test(group_moves__a_leader_that_wakes_decides_nothing),
        cmocka_unit_test(group_moves__the_only_keeper_may_leave),
        cmocka_unit_test(group_moves__the_power_may_go_at_any_step),
        cmocka_unit_test(group_moves__and_while_they_come_back),
        cmocka_unit_test(group_moves__what_counted_before_it_was_on_disk_is_missed),
        cmocka_unit_test(group_moves__a_full_disk_is_left),
        cmocka_unit_test(group_moves__and_while_keepers_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
