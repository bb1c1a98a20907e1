/* The genuine protocol under the schedules of genuine_schedules.h: what must hold does. */
#include "../genuine_schedules.h"
#include "../mcast_schedules.h"
#include "../tree_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../holds.h"

/* ---- as for every protocol ---- */

static void genuine__a_single_message_reaches_all_replicas(void **state)
{
    (void)state;
    for (uint8_t mask = 1; mask < 16; mask++)
        HOLDS(genuine_single_message(mask));
}

static void genuine__bodies_and_replies_of_all_sizes(void **state)
{
    (void)state;
    HOLDS(all_sizes(MCAST_GENUINE));
}

static void genuine__as_much_is_under_way_as_replies_fit(void **state)
{
    (void)state;
    HOLDS(as_many_as_replies_fit(MCAST_GENUINE));
}

static void genuine__a_second_life_voids_what_the_first_left(void **state)
{
    (void)state;
    HOLDS(second_life(MCAST_GENUINE));
}

static void genuine__pairs_in_a_circle_are_ordered(void **state)
{
    (void)state;
    for (uint32_t run = 0; run < 10; run++)
        HOLDS(genuine_circle(run));
}

static void genuine__two_leaders_die_together(void **state)
{
    (void)state;
    for (uint32_t first = 0; first < 12; first++)
        for (uint32_t second = 0; second < 12; second++)
            HOLDS(genuine_leaders_die_together(first, second));
}

static void genuine__bad_messages_are_delivered_nowhere(void **state)
{
    (void)state;
    HOLDS(bad_list(MCAST_GENUINE, 1, 2, (const uint16_t[]){0, 2})); /* not to us */
    HOLDS(bad_list(MCAST_GENUINE, 2, 1, (const uint16_t[]){0}));
    HOLDS(bad_list(MCAST_GENUINE, 0, 2, (const uint16_t[]){0, 4})); /* there is no such group */
    HOLDS(bad_list(MCAST_GENUINE, 0, 1, (const uint16_t[]){UINT16_MAX}));
    HOLDS(bad_list(MCAST_GENUINE, 0, 2, (const uint16_t[]){2, 0}));    /* not in order */
    HOLDS(bad_list(MCAST_GENUINE, 0, 3, (const uint16_t[]){0, 1, 1})); /* twice */
    HOLDS(bad_list(MCAST_GENUINE, 0, 0, (const uint16_t[]){0}));       /* none */
    HOLDS(bad_list(MCAST_GENUINE, 0, 1025, (const uint16_t[8]){0}));   /* more than there can be */
    HOLDS(bad_list(MCAST_GENUINE, 0, UINT16_MAX, (const uint16_t[8]){0}));
    HOLDS(bad_list(MCAST_GENUINE, 0, 1000, (const uint16_t[8]){0, 1})); /* than it has bytes for */
    struct forest_raw r = forest_raw(1, 0, (const uint16_t[]){0, 1}, 2);
    for (uint32_t bytes = 0; bytes < 24; bytes += 5)
        HOLDS(bad_message(MCAST_GENUINE, 0, &r, bytes));
    r.m.life = 3; /* a life of its own that is yet to come */
    HOLDS(bad_message(MCAST_GENUINE, 0, &r, sizeof(r)));
}

static void genuine__another_clients_name_is_not_taken(void **state)
{
    (void)state;
    HOLDS(false_name(MCAST_GENUINE, 0, 0));
    HOLDS(false_name(MCAST_GENUINE, 15, 0));
    HOLDS(false_name(MCAST_GENUINE, 0, 3));
    HOLDS(false_name_meanwhile(MCAST_GENUINE));
}

/* ---- its own ---- */

static void genuine__R1_late_bodies_change_no_order(void **state)
{
    (void)state;
    for (uint32_t unreached = 0; unreached < 8; unreached++)
        HOLDS(genuine_opposite_orders(unreached));
}

static void genuine__R2_stamps_come_through_the_log(void **state)
{
    (void)state;
    HOLDS(genuine_stamps_reach_the_leader_only(true));
    HOLDS(genuine_stamps_reach_the_leader_only(false));
}

static void genuine__R3_a_high_stamp_of_another_raises_the_clock(void **state)
{
    (void)state;
    HOLDS(genuine_high_stamp_of_another(false));
}

static void genuine__R5_a_snapshot_keeps_the_clock(void **state)
{
    (void)state;
    HOLDS(genuine_high_stamp_of_another(true));
}

static void genuine__R6_a_minority_stamp_comes_after_what_was_delivered(void **state)
{
    (void)state;
    HOLDS(genuine_minority_stamp());
}

static void genuine__R7_a_new_leader_tells_what_was_not_told(void **state)
{
    (void)state;
    for (uint32_t groups = 2; groups <= 5; groups++)
        HOLDS(genuine_stamps_untold(groups));
}

static void genuine__R10_a_client_taken_for_dead_is_delivered_once(void **state)
{
    (void)state;
    HOLDS(genuine_relay_after_delivery());
    for (uint32_t ticks = 0; ticks < 160; ticks += 4)
        for (uint32_t groups = 2; groups <= 5; groups++)
            HOLDS(genuine_copy_after_relay(groups, ticks));
}

static void genuine__R12_a_body_at_the_leader_only_is_not_delivered(void **state)
{
    (void)state;
    HOLDS(genuine_body_at_the_leader_only());
}

static void genuine__R13_a_deposed_leader_delivers_nothing(void **state)
{
    (void)state;
    HOLDS(genuine_deposed_leader_hears_a_stamp());
}

static void genuine__a_dead_clients_message_is_relayed(void **state)
{
    (void)state;
    for (uint32_t groups = 2; groups <= 5; groups++)
        for (uint32_t reached = 0; reached < 1u << groups; reached++)
            HOLDS(genuine_client_dies_among_groups(groups, reached, -1));
}

static void genuine__it_is_though_the_relaying_leader_dies(void **state)
{
    (void)state;
    /* Until it is relayed, and delivered. */
    for (int tick = 0; tick < 160; tick += 3)
        for (uint32_t groups = 2; groups <= 5; groups++)
            HOLDS(genuine_client_dies_among_groups(
                groups, (uint32_t)tick % ((1u << groups) - 1) + 1, tick));
}

static void genuine__it_is_though_the_place_is_taken_at_once(void **state)
{
    (void)state;
    for (uint32_t groups = 2; groups <= 5; groups++)
        for (uint32_t reached = 0; reached < 1u << groups; reached++)
            HOLDS(genuine_client_replaced_among_groups(groups, reached));
}

static void genuine__nothing_is_left_of_the_dead(void **state)
{
    (void)state;
    for (uint32_t groups = 2; groups <= 3; groups++)
        for (uint32_t reached = 1; reached < (1u << groups) - 1; reached++)
            HOLDS(genuine_marks_of_the_dead(groups, reached));
}

static void genuine__a_client_that_hangs_holds_up_nobody_for_ever(void **state)
{
    (void)state;
    for (uint32_t reached = 1; reached < 8; reached++)
        HOLDS(genuine_client_hangs_among_groups(3, reached));
    HOLDS(genuine_client_hangs_among_groups(5, 2));
    HOLDS(genuine_client_hangs_among_groups(5, 1));
}

static void genuine__a_group_without_quorum_holds_up_its_own_only(void **state)
{
    (void)state;
    HOLDS(genuine_group_without_quorum());
}

static void genuine__a_group_that_takes_nothing_is_waited_for(void **state)
{
    (void)state;
    for (uint32_t run = 0; run < 4; run++)
        HOLDS(genuine_group_takes_nothing(run));
}

static void genuine__lost_memory_comes_back_in_turn(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++)
        HOLDS(genuine_memory_lost_in_turn(seed));
}

static void genuine__snapshots_carry_what_waits(void **state)
{
    (void)state;
    for (uint32_t victim = 0; victim < 3; victim++)
        HOLDS(genuine_snapshot_of_what_waits(victim));
}

static void genuine__leaders_that_are_cut_off_go_through_followers(void **state)
{
    (void)state;
    HOLDS(leaders_cut_off(MCAST_GENUINE, true, true));
    HOLDS(leaders_cut_off(MCAST_GENUINE, true, false));
    HOLDS(leaders_cut_off(MCAST_GENUINE, false, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(genuine__a_single_message_reaches_all_replicas),
        cmocka_unit_test(genuine__bodies_and_replies_of_all_sizes),
        cmocka_unit_test(genuine__as_much_is_under_way_as_replies_fit),
        cmocka_unit_test(genuine__a_second_life_voids_what_the_first_left),
        cmocka_unit_test(genuine__leaders_that_are_cut_off_go_through_followers),
        cmocka_unit_test(genuine__pairs_in_a_circle_are_ordered),
        cmocka_unit_test(genuine__two_leaders_die_together),
        cmocka_unit_test(genuine__bad_messages_are_delivered_nowhere),
        cmocka_unit_test(genuine__another_clients_name_is_not_taken),
        cmocka_unit_test(genuine__R1_late_bodies_change_no_order),
        cmocka_unit_test(genuine__R2_stamps_come_through_the_log),
        cmocka_unit_test(genuine__R3_a_high_stamp_of_another_raises_the_clock),
        cmocka_unit_test(genuine__R5_a_snapshot_keeps_the_clock),
        cmocka_unit_test(genuine__R6_a_minority_stamp_comes_after_what_was_delivered),
        cmocka_unit_test(genuine__R7_a_new_leader_tells_what_was_not_told),
        cmocka_unit_test(genuine__R10_a_client_taken_for_dead_is_delivered_once),
        cmocka_unit_test(genuine__R12_a_body_at_the_leader_only_is_not_delivered),
        cmocka_unit_test(genuine__R13_a_deposed_leader_delivers_nothing),
        cmocka_unit_test(genuine__a_dead_clients_message_is_relayed),
        cmocka_unit_test(genuine__it_is_though_the_relaying_leader_dies),
        cmocka_unit_test(genuine__it_is_though_the_place_is_taken_at_once),
        cmocka_unit_test(genuine__nothing_is_left_of_the_dead),
        cmocka_unit_test(genuine__a_client_that_hangs_holds_up_nobody_for_ever),
        cmocka_unit_test(genuine__a_group_without_quorum_holds_up_its_own_only),
        cmocka_unit_test(genuine__a_group_that_takes_nothing_is_waited_for),
        cmocka_unit_test(genuine__lost_memory_comes_back_in_turn),
        cmocka_unit_test(genuine__snapshots_carry_what_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
