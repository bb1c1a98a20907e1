/* Groups with views in schedules stepped by hand: all is well, and what only a schedule shows is found. */
#include "../group_schedules.h"

#include "../holds.h"
#include "../planted_fixture.h"

enum { STEPS = 160, EVERY = 8, WORLDS = 20 };

/* The leader dies at each step of a view change: CLOSE, reports, commit, VIEW at some. */
static void group__goes_on_when_its_leader_dies_at_any_step(void **state)
{
    (void)state;
    for (uint32_t ticks = 0; ticks < STEPS; ticks += EVERY) {
        HOLDS(schedule_leader_dies_after(ticks, false));
        HOLDS(schedule_leader_dies_after(ticks + EVERY / 2, true));
    }
}

/* Derecho's protocol breaks here (D1). */
static void group__a_trim_that_one_member_knows_is_everybodys(void **state)
{
    (void)state;
    for (uint64_t step = 0; step < 2 * STEPS; step += 4)
        HOLDS(schedule_trim_at_one(step));
    finds_in_some(PLANTED_group_trim_uncommitted, schedule_trim_at_one, 2 * STEPS,
                  "view agreement|same sequence|uniform|integrity|returned|rule");
}

static void group__one_who_wakes_two_views_later_has_a_prefix(void **state)
{
    (void)state;
    HOLDS(schedule_wakes_two_views_later(false));
    HOLDS(schedule_wakes_two_views_later(true));
}

/* Where memory is shared a message is delivered once it is there: for everybody who might ever read it. */
static void group__nobody_delivers_what_a_member_may_never_find(void **state)
{
    (void)state;
    HOLDS(schedule_sender_never_found());
    FINDS(group_open_early, schedule_sender_never_found(), "uniform|same sequence");
}

static void group__what_is_published_into_a_wedge_is_first_in_the_next_view(void **state)
{
    (void)state;
    HOLDS(schedule_publish_into_wedge());
}

static void group__a_request_for_a_layout_is_not_lost_with_a_leader(void **state)
{
    (void)state;
    HOLDS(schedule_layout_request_lost());
}

static void group__of_two_who_do_not_hear_each_other_one_goes(void **state)
{
    (void)state;
    HOLDS(schedule_mutual_claims());
}

static void group__full_rings_are_freed_by_a_removal(void **state)
{
    (void)state;
    HOLDS(schedule_rings_full_member_stopped(false));
    HOLDS(schedule_rings_full_member_stopped(true));
}

static void group__a_lease_delays_nobody_else(void **state)
{
    (void)state;
    HOLDS(schedule_lease_is_open_long());
    FINDS(group_index_at_reserve, schedule_lease_is_open_long(), "a lease delays nobody else");
}

static void group__what_is_released_is_free(void **state)
{
    (void)state;
    for (uint32_t at_once = 1; at_once <= 4; at_once++)
        for (uint32_t every = 0; every < 6; every++)
            HOLDS(schedule_leases_are_released(at_once, every));
}

static void group__nulls_go_over_the_end_of_rings_and_views(void **state)
{
    (void)state;
    HOLDS(schedule_nulls_over_wrap_and_view());
    FINDS(group_one_null, schedule_nulls_over_wrap_and_view(), "liveness");
}

static void group__heals_from_a_one_way_cut(void **state)
{
    (void)state;
    HOLDS(schedule_one_way_cut());
}

static void group__a_batch_survives_a_link_that_breaks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS; seed++)
        HOLDS(schedule_link_breaks_and_heals(seed));
    finds_in_some(PLANTED_group_lost_goes_on, schedule_link_breaks_and_heals, WORLDS,
                  "same sequence|integrity|sender FIFO|liveness|uniform|returned");
}

static void group__a_restart_before_removal_is_another_member(void **state)
{
    (void)state;
    HOLDS(schedule_restart_before_removal(true));
    HOLDS(schedule_restart_before_removal(false));
    FINDS(group_life_ignored, schedule_restart_before_removal(true), "view agreement|rule");
}

static void group__a_joiner_gets_its_state_though_donors_die(void **state)
{
    (void)state;
    for (uint32_t ticks = 0; ticks < STEPS / 2; ticks += EVERY)
        HOLDS(schedule_donor_dies_after(ticks, 500));
    for (uint32_t ticks = 0; ticks < 6 * STEPS; ticks += 3 * EVERY) /* until it is a member */
        HOLDS(schedule_donor_dies_after(ticks, 5 * 4096));
}

static void group__nobody_waits_for_who_is_sent_a_large_state(void **state)
{
    (void)state;
    HOLDS(schedule_learner_is_not_waited_for(false));
    HOLDS(schedule_learner_is_not_waited_for(true));
}

static void group__a_learner_that_stands_still_is_left_behind(void **state)
{
    (void)state;
    for (uint32_t us = 0; us < 200; us += 20)
        HOLDS(schedule_learner_stands_still(us));
}

static void group__one_may_leave_when_another_crashes(void **state)
{
    (void)state;
    for (uint32_t ticks = 0; ticks < STEPS / 2; ticks += EVERY)
        HOLDS(schedule_leave_and_crash(ticks));
}

static void group__without_most_keepers_there_is_no_view(void **state)
{
    (void)state;
    HOLDS(schedule_keepers_stopped());
}

static void group__a_cell_is_never_empty_by_itself(void **state)
{
    (void)state;
    HOLDS(schedule_cell_without_survivors());
}

static void group__nobody_publishes_where_members_lack(void **state)
{
    (void)state;
    HOLDS(schedule_inadequate_heals());
}

static void group__cells_take_turns(void **state)
{
    (void)state;
    HOLDS(schedule_two_cells_are_fair());
}

static void group__old_bytes_in_a_ring_are_no_messages(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS; seed++)
        HOLDS(schedule_forged_bytes(seed));
    finds_in_some(
        PLANTED_group_record_looks, schedule_forged_bytes, WORLDS,
        "same sequence|integrity|sender FIFO|delivered once|order is rounds|uniform|rule");
}

static const char *relay_is_put_out(uint64_t ticks)
{
    return schedule_relay_is_put_out((uint32_t)ticks, ticks & 1);
}

static void group__a_client_that_is_full_is_fed(void **state)
{
    (void)state;
    HOLDS(schedule_full_client_subscribes(8));   /* as many as may be under way */
    HOLDS(schedule_full_client_subscribes(300)); /* as many bytes */
}

static void group__what_a_client_sends_again_is_delivered_once(void **state)
{
    (void)state;
    for (uint64_t ticks = 0; ticks < WORLDS; ticks++)
        HOLDS(relay_is_put_out(ticks));
    finds_in_some(PLANTED_group_relay_twice, relay_is_put_out, WORLDS, "once per client request");
}

/* Where the planted mistakes show depends on the step. */
static const char *body_in_parts(uint64_t step)
{
    return schedule_relay_dies_in_body((uint32_t)(step % 5), (uint32_t)(step / 5), step & 1);
}

static void group__a_body_is_whole_whoever_dies_while_it_is_passed_on(void **state)
{
    (void)state;
    for (uint32_t ticks = 0; ticks < STEPS / 2; ticks += 3)
        for (uint32_t host = 0; host < 5; host++)
            HOLDS(schedule_relay_dies_in_body(host, ticks, (ticks / 3 + host) % 3 == 0));
    finds_in_some(PLANTED_group_part_held, body_in_parts, STEPS, "same sequence|integrity|uniform");
    finds_in_some(PLANTED_group_old_block, body_in_parts, STEPS,
                  "same sequence|integrity|uniform|self-check|liveness|rule");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group__goes_on_when_its_leader_dies_at_any_step),
        cmocka_unit_test(group__a_trim_that_one_member_knows_is_everybodys),
        cmocka_unit_test(group__one_who_wakes_two_views_later_has_a_prefix),
        cmocka_unit_test(group__nobody_delivers_what_a_member_may_never_find),
        cmocka_unit_test(group__what_is_published_into_a_wedge_is_first_in_the_next_view),
        cmocka_unit_test(group__a_request_for_a_layout_is_not_lost_with_a_leader),
        cmocka_unit_test(group__of_two_who_do_not_hear_each_other_one_goes),
        cmocka_unit_test(group__full_rings_are_freed_by_a_removal),
        cmocka_unit_test(group__a_lease_delays_nobody_else),
        cmocka_unit_test(group__what_is_released_is_free),
        cmocka_unit_test(group__nulls_go_over_the_end_of_rings_and_views),
        cmocka_unit_test(group__heals_from_a_one_way_cut),
        cmocka_unit_test(group__a_batch_survives_a_link_that_breaks),
        cmocka_unit_test(group__a_restart_before_removal_is_another_member),
        cmocka_unit_test(group__a_joiner_gets_its_state_though_donors_die),
        cmocka_unit_test(group__nobody_waits_for_who_is_sent_a_large_state),
        cmocka_unit_test(group__a_learner_that_stands_still_is_left_behind),
        cmocka_unit_test(group__one_may_leave_when_another_crashes),
        cmocka_unit_test(group__without_most_keepers_there_is_no_view),
        cmocka_unit_test(group__a_cell_is_never_empty_by_itself),
        cmocka_unit_test(group__nobody_publishes_where_members_lack),
        cmocka_unit_test(group__cells_take_turns),
        cmocka_unit_test(group__a_client_that_is_full_is_fed),
        cmocka_unit_test(group__what_a_client_sends_again_is_delivered_once),
        cmocka_unit_test(group__a_body_is_whole_whoever_dies_while_it_is_passed_on),
        cmocka_unit_test(group__old_bytes_in_a_ring_are_no_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
