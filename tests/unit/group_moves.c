/* Keepers that move, in schedules stepped by hand. */
#include "../group_schedules.h"

#include "../planted_fixture.h"

enum { STEPS = 200, EVERY = 5 };

#define HOLDS(scenario)                                                                            \
    do {                                                                                           \
        const char *violated_ = (scenario);                                                        \
        if (violated_)                                                                             \
            fail_msg("%s: %s", #scenario, violated_);                                              \
    } while (0)

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_moves__all_first_keepers_may_fail_in_turn),
        cmocka_unit_test(group_moves__the_leader_may_die_at_any_step),
        cmocka_unit_test(group_moves__who_knows_old_keepers_hears_of_new_ones),
        cmocka_unit_test(group_moves__a_leader_that_wakes_decides_nothing),
        cmocka_unit_test(group_moves__the_only_keeper_may_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
