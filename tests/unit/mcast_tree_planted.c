/* The tree with known mistakes compiled in, under the schedules of tree_schedules.h: each schedule finds
 * the mistakes it is about. tests/sim/log_planted does the same with schedules drawn from seeds. */
#include "../mcast_schedules.h"
#include "../planted_fixture.h"
#include "../tree_schedules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Two replicas that differ are seen as one or the other by who looks first; one that has been given
 * something else than the others may also never get even with them. */
#define DIFFERS "agreement|self-check|liveness"

static void tree__schedule_01_finds_a_stale_suffix(void **state)
{
    (void)state;
    FINDS(late_stale, tree_late_follower(5, true), DIFFERS);
    FINDS(nonzero_present, tree_late_follower(5, false), DIFFERS);
}

static void tree__schedule_02_finds_a_skipped_entry(void **state)
{
    (void)state;
    FINDS(skip_first, tree_decided_and_untold(3), "agreement");
}

static void tree__schedule_03_finds_what_is_forgotten(void **state)
{
    (void)state;
    FINDS(edge_forgets, tree_failed_take_over(1), "liveness");
    FINDS(edge_forgets, tree_failed_take_over(10), "liveness");
    FINDS(failed_cursor, tree_failed_take_over(1), DIFFERS);
}

static void tree__schedule_04_finds_an_own_memory_that_is_not_fenced(void **state)
{
    (void)state;
    FINDS(own_not_fenced, tree_old_leader_writes_a_candidate(), DIFFERS);
    finds_in_some(PLANTED_skip_first, tree_three_candidates, 8, DIFFERS);
}

static void tree__schedule_05_finds_answers_that_do_not_count(void **state)
{
    (void)state;
    FINDS(no_self_ack, tree_bare_majority(3, 0), "liveness");
    FINDS(no_self_ack, tree_bare_majority(7, 300), "liveness");
    FINDS(lost_request, tree_lost_answer(), "liveness");
}

static void tree__schedule_06_finds_a_quorum_of_f(void **state)
{
    (void)state;
    FINDS(quorum_f, tree_duel(1), DIFFERS);
    finds_in_some(PLANTED_failed_cursor, tree_duel, 3, DIFFERS);
}

static void tree__schedule_07_finds_an_old_lap(void **state)
{
    (void)state;
    FINDS(edge_old_lap, tree_sleeping_leader(3), "no duplicate");
}

static void tree__schedule_08_finds_unguarded_frames(void **state)
{
    (void)state;
    finds_in_some(PLANTED_edge_unguarded, tree_torn_stream, 8, "integrity|liveness");
}

static void tree__schedule_09_finds_unguarded_frames(void **state)
{
    (void)state;
    FINDS(edge_unguarded, tree_forged_frames(), "integrity");
}

static void tree__schedule_10_finds_a_missing_fence(void **state)
{
    (void)state;
    FINDS(no_fence, tree_prefixes(2, -1), "one writer");
}

static void tree__schedule_11_finds_a_missing_filter(void **state)
{
    (void)state;
    FINDS(source_filter, tree_message_decided_twice(), "no duplicate");
}

static const char *client_dies(uint64_t run)
{
    bool delivered;
    return tree_client_dies_half_way((uint32_t)run, &delivered);
}

static void tree__schedule_12_finds_a_life_that_is_missed(void **state)
{
    (void)state;
    finds_in_some(PLANTED_life_missed, client_dies, 31, "liveness");
}

static void tree__schedule_13_finds_forgotten_replies_and_edges(void **state)
{
    (void)state;
    FINDS(replies_forgotten, tree_reply_lost(4, 1), "liveness");
    FINDS(replies_forgotten, tree_reply_lost(8, 2), "liveness");
    FINDS(edge_forgets, tree_reply_lost(2, 1), "liveness");
}

static void tree__finds_replies_that_are_overwritten(void **state)
{
    (void)state;
    FINDS(replies_overrun, as_many_as_replies_fit(MCAST_TREE), "liveness");
}

static void tree__schedule_14_finds_forgotten_edges(void **state)
{
    (void)state;
    for (uint32_t child = 0; child < 3; child++)
        FINDS(edge_forgets, tree_leaders_die_at(1, child), "liveness");
}

static void tree__schedule_15_finds_a_wait_for_all(void **state)
{
    (void)state;
    FINDS(waits_for_all, tree_child_without_quorum(), "liveness");
    FINDS(forward_all, tree_child_without_quorum(), "participation");
}

static void tree__schedule_16_finds_a_credit_too_many(void **state)
{
    (void)state;
    FINDS(credit_over, tree_full_rings(0), "liveness");
}

static void tree__schedule_17_finds_a_snapshot_without_sources(void **state)
{
    (void)state;
    FINDS(snap_no_sources, tree_left_behind(1, 0), "liveness");
    FINDS(snap_no_sources, tree_left_behind(1, 2), "liveness");
}

static void
tree__schedule_18_finds_a_vote_without_memory_and_a_forward_before_the_commit(void **state)
{
    (void)state;
    FINDS(forward_early, tree_amnesia(), "agreement");
    FINDS(amnesia_votes, tree_amnesia(), "one writer");
}

static void tree__schedule_19_finds_what_a_snapshot_lacks(void **state)
{
    (void)state;
    FINDS(snap_no_edges, tree_leader_from_snapshot(2), "liveness");
    FINDS(snap_no_sources, tree_leader_from_snapshot(2), "scenario");
    FINDS(ring_searched, tree_leader_from_snapshot(2), "liveness");
}

static void tree__schedule_20_finds_a_last_message_that_waits(void **state)
{
    (void)state;
    FINDS(last_waits, tree_single_message(1, false), "liveness");
    FINDS(last_waits, tree_single_message(15, true), "liveness");
}

static void tree__schedule_21_finds_a_leader_that_counts_itself(void **state)
{
    (void)state;
    FINDS(self_unchecked, tree_deposed_leader_counts_itself(), DIFFERS);
}

static const char *a_circle(uint64_t run)
{
    return tree_circle((uint32_t)run);
}

static void tree__schedule_22_finds_an_old_lap(void **state)
{
    (void)state;
    finds_in_some(PLANTED_edge_old_lap, a_circle, 10, "no duplicate|integrity|liveness");
}

static void tree__a_message_taken_in_vain_finds_a_parent_ahead(void **state)
{
    (void)state;
    FINDS(parent_ahead, tree_taken_in_vain(), "liveness");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree__schedule_01_finds_a_stale_suffix),
        cmocka_unit_test(tree__schedule_02_finds_a_skipped_entry),
        cmocka_unit_test(tree__schedule_03_finds_what_is_forgotten),
        cmocka_unit_test(tree__schedule_04_finds_an_own_memory_that_is_not_fenced),
        cmocka_unit_test(tree__schedule_05_finds_answers_that_do_not_count),
        cmocka_unit_test(tree__schedule_06_finds_a_quorum_of_f),
        cmocka_unit_test(tree__schedule_07_finds_an_old_lap),
        cmocka_unit_test(tree__schedule_08_finds_unguarded_frames),
        cmocka_unit_test(tree__schedule_09_finds_unguarded_frames),
        cmocka_unit_test(tree__schedule_10_finds_a_missing_fence),
        cmocka_unit_test(tree__schedule_11_finds_a_missing_filter),
        cmocka_unit_test(tree__schedule_12_finds_a_life_that_is_missed),
        cmocka_unit_test(tree__schedule_13_finds_forgotten_replies_and_edges),
        cmocka_unit_test(tree__finds_replies_that_are_overwritten),
        cmocka_unit_test(tree__schedule_14_finds_forgotten_edges),
        cmocka_unit_test(tree__schedule_15_finds_a_wait_for_all),
        cmocka_unit_test(tree__schedule_16_finds_a_credit_too_many),
        cmocka_unit_test(tree__schedule_17_finds_a_snapshot_without_sources),
        cmocka_unit_test(
            tree__schedule_18_finds_a_vote_without_memory_and_a_forward_before_the_commit),
        cmocka_unit_test(tree__schedule_19_finds_what_a_snapshot_lacks),
        cmocka_unit_test(tree__schedule_20_finds_a_last_message_that_waits),
        cmocka_unit_test(tree__schedule_21_finds_a_leader_that_counts_itself),
        cmocka_unit_test(tree__schedule_22_finds_an_old_lap),
        cmocka_unit_test(tree__a_message_taken_in_vain_finds_a_parent_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
