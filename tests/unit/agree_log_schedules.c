/* The log under the schedules of log_schedules.h: what must hold does. */
#include "../log_fixture.h"
#include "../log_schedules.h"
#include "../log_schedules_disks.h"
#include "../log_schedules_lanes.h"
#include "../log_schedules_lives.h"
#include "../log_schedules_memories.h"
#include "../log_schedules_runs.h"
#include "agree/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../holds.h"

static void log__late_follower_is_resynchronised(void **state)
{
    (void)state;
    HOLDS(late_follower(3));
    HOLDS(late_follower(5));
    HOLDS(late_follower(7));
    HOLDS(late_follower_of_the_same_leader(5));
    HOLDS(late_follower_of_the_same_leader(7));
}

static void log__disks_have_what_was_decided(void **state)
{
    (void)state;
    HOLDS(kept_again_in_part());
    HOLDS(gap_closed_in_part());
    for (uint64_t seed = 1; seed <= 20; seed++)
        HOLDS(rest_of_an_older_run(seed));
    HOLDS(commit_of_a_later_ballot());
    HOLDS(decided_and_damaged());
    HOLDS(all_come_back(false));
    HOLDS(all_come_back(true));
    HOLDS(raised_while_it_copies());
    HOLDS(torn_words_of_a_disk());
    HOLDS(restored_under_its_ballot());
    HOLDS(nothing_before_start_is_kept());
}

static void log__disks_that_take_nothing_cost_their_host(void **state)
{
    (void)state;
    HOLDS(hung_disk(false));
    HOLDS(hung_disk(true));
    HOLDS(full_disk(false));
    HOLDS(full_disk(true));
    HOLDS(full_disks_of_all());
    HOLDS(state_not_on_disk());
    HOLDS(raised_while_it_loads(false));
    HOLDS(raised_while_it_loads(true));
}

static void log__take_over_waits_for_two_flushes(void **state)
{
    (void)state;
    HOLDS(two_flushes_without_a_leader());
}

static void log__rings_those_whose_disks_are_furthest(void **state)
{
    (void)state;
    HOLDS(rings_who_keeps());
}

static void log__new_leader_applies_what_was_decided_untold(void **state)
{
    (void)state;
    for (uint32_t n = 3; n <= LOG_REPLICAS_MAX; n++)
        HOLDS(decided_and_untold(n));
}

static void log__failed_take_over_leaves_no_gap(void **state)
{
    (void)state;
    HOLDS(failed_take_over(5));
}

static void log__candidate_finds_what_was_written_to_it(void **state)
{
    (void)state;
    HOLDS(old_leader_writes_a_candidate());
}

static void log__three_candidates_make_one_writer(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        HOLDS(three_candidates(seed));
}

static void log__bare_majority_elects(void **state)
{
    (void)state;
    for (uint32_t n = 3; n <= LOG_REPLICAS_MAX; n += 2)
        for (uint64_t offset_ns = 0; offset_ns < 2 * GROUP_TICK_NS; offset_ns += 100)
            HOLDS(bare_majority(n, offset_ns));
}

static void log__lost_answer_is_asked_for_again(void **state)
{
    (void)state;
    HOLDS(lost_answer());
}

static void log__duel_ends_with_one_leader(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        HOLDS(duel(seed));
}

static void log__deposed_leader_does_not_borrow_a_ballot(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        HOLDS(deposed_leader_writes_on(seed));
}

static void log__leader_asleep_for_two_laps_does_no_harm(void **state)
{
    (void)state;
    HOLDS(sleeping_leader(3));
    HOLDS(sleeping_leader(5));
}

static void log__forged_entries_are_payload(void **state)
{
    (void)state;
    HOLDS(forged_entries());
}

static void log__different_prefixes_are_recovered(void **state)
{
    (void)state;
    for (uint32_t left_out = 1; left_out < PREFIXES_OF; left_out++)
        for (int crash_after = -1; crash_after < 6; crash_after++)
            HOLDS(prefixes_recovered(left_out, crash_after));
}

static void log__old_entry_decided_late_stays(void **state)
{
    (void)state;
    HOLDS(old_entry_decided_late());
}

static void log__what_is_decided_and_forgotten_comes_back(void **state)
{
    (void)state;
    HOLDS(decided_and_forgotten());
}

static void log__run_is_continued_without_what_is_stale(void **state)
{
    (void)state;
    HOLDS(run_continued_over_stale_entries());
}

static void log__entries_are_read_from_where_one_begins(void **state)
{
    (void)state;
    HOLDS(commit_inside_a_stale_entry());
}

static void log__run_that_is_being_renewed_holds_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++)
        HOLDS(run_renewed_beyond_a_new_life(seed));
}

static void log__half_continued_run_vouches_for_nothing(void **state)
{
    (void)state;
    for (uint32_t stores = 1; stores <= 5; stores++)
        HOLDS(half_continued_run(stores));
}

static void log__run_that_changes_while_it_is_read_vouches_for_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++)
        HOLDS(run_continued_while_read(seed));
}

static void log__run_of_a_deposed_leader_vouches_for_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++)
        HOLDS(run_renewed_by_a_deposed_leader(seed));
}

static void log__where_a_run_begins_is_decided(void **state)
{
    (void)state;
    HOLDS(run_begins_beyond_commit());
}

static void log__message_decided_twice_counts_once(void **state)
{
    (void)state;
    HOLDS(message_decided_twice());
}

static void log__left_behind_comes_back_by_snapshot(void **state)
{
    (void)state;
    HOLDS(left_behind(3));
    HOLDS(left_behind(5));
}

/* How often messages come matters: what was detached a moment ago may not be too far behind yet to be attached again. */
static const uint64_t pauses_ns[] = {0, 10000, 60000, 120000};
enum { PAUSES = sizeof(pauses_ns) / sizeof(pauses_ns[0]) };

static void log__hung_minority_holds_up_the_others_once(void **state)
{
    (void)state;
    for (int i = 0; i < PAUSES; i++)
        for (int answers = 0; answers < 2; answers++) {
            HOLDS(hung_minority(3, 1, pauses_ns[i], answers));
            HOLDS(hung_minority(5, 1, pauses_ns[i], answers));
            HOLDS(hung_minority(5, 2, pauses_ns[i], answers));
            HOLDS(hung_minority(7, 3, pauses_ns[i], answers));
        }
}

static void log__hung_leader_holds_up_its_successor_once(void **state)
{
    (void)state;
    for (int i = 0; i < PAUSES; i++) {
        HOLDS(hung_leader(3, pauses_ns[i]));
        HOLDS(hung_leader(5, pauses_ns[i]));
    }
}

static void log__stalled_follower_holds_up_the_others_seldom(void **state)
{
    (void)state;
    HOLDS(stalled_follower(3, 3000, 0));
    HOLDS(stalled_follower(3, 500, 10000));
    HOLDS(stalled_follower(5, 200, 60000));
    HOLDS(stalled_follower(5, 200, 120000));
    HOLDS(stalled_follower(3, 30, 300000));
}

static void log__large_state_is_taken_while_the_log_goes_on(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        HOLDS(large_state(3, keep));
        HOLDS(large_state(5, keep));
    }
    HOLDS(small_backlog(1));
    HOLDS(small_backlog(2));
}

static void log__interrupted_transfer_goes_on(void **state)
{
    (void)state;
    HOLDS(interrupted_transfer(true));
    HOLDS(interrupted_transfer(false));
}

static void log__whole_state_outlives_its_sender(void **state)
{
    (void)state;
    HOLDS(leader_dies_behind_a_state(true));
    HOLDS(leader_dies_behind_a_state(false));
}

static void log__hang_in_a_snapshot_holds_up_the_others_once(void **state)
{
    (void)state;
    for (int i = 0; i < PAUSES; i++) {
        HOLDS(hung_loading(3, pauses_ns[i]));
        HOLDS(hung_loading(5, pauses_ns[i]));
    }
}

static void log__state_from_before_a_return_is_followed_by_another(void **state)
{
    (void)state;
    HOLDS(torn_row_of_a_new_life());
}

static void log__new_life_comes_back_by_snapshot(void **state)
{
    (void)state;
    HOLDS(new_life(true, false));
    HOLDS(new_life(false, false));
    HOLDS(new_life(true, true));
    HOLDS(new_life(false, true));
}

static void log__amnesia_grants_nothing(void **state)
{
    (void)state;
    HOLDS(amnesia());
}

static void log__leader_from_snapshot_goes_on_where_the_old_one_was(void **state)
{
    (void)state;
    HOLDS(leader_from_snapshot());
}

static void log__single_message_needs_no_next(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= LOG_REPLICAS_MAX; n++)
        HOLDS(single_message(n));
}

static void log__message_taken_in_vain_is_taken_again(void **state)
{
    (void)state;
    HOLDS(message_taken_in_vain());
}

static void log__deposed_leader_does_not_count_itself(void **state)
{
    (void)state;
    HOLDS(deposed_leader_counts_itself());
}

static void log__decided_copy_is_never_taken_back(void **state)
{
    (void)state;
    HOLDS(decided_copy_rewritten());
}

static void log__read_before_the_promise_does_not_count(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++)
        HOLDS(write_between_read_and_promise(seed));
}

static void log__write_held_up_does_not_count(void **state)
{
    (void)state;
    HOLDS(write_held_up());
}

static void log__commit_never_outruns_the_entries(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        HOLDS(catching_up_in_steps(seed));
}

static void log__deaf_leader_resigns_over_a_network(void **state)
{
    (void)state;
    for (uint32_t n = 3; n <= LOG_REPLICAS_MAX; n++)
        HOLDS(deaf_leader_resigns(n));
}

static void log__leader_with_a_quorum_stays(void **state)
{
    (void)state;
    for (uint32_t n = 3; n <= LOG_REPLICAS_MAX; n++)
        for (uint32_t other = 1; other < n; other++) {
            HOLDS(one_link_cut(n, other, true, true));
            HOLDS(one_link_cut(n, other, true, false));
            HOLDS(one_link_cut(n, other, false, true));
        }
}

static void log__deaf_leader_gives_way(void **state)
{
    (void)state;
    for (uint32_t n = 3; n <= LOG_REPLICAS_MAX; n++)
        HOLDS(deaf_leader(n));
}

static void log__leader_alone_decides_nothing(void **state)
{
    (void)state;
    HOLDS(leader_alone(3));
    HOLDS(leader_alone(5));
    HOLDS(leader_alone(7));
}

static void log__goes_on_when_leader_and_a_memory_end(void **state)
{
    (void)state;
    HOLDS(leader_and_a_memory_end());
}

static void log__survives_any_one_of_two_replicas_and_a_memory(void **state)
{
    (void)state;
    HOLDS(each_of_two_and_one_ends_once());
}

static void log__without_memories_that_vote_decides_nothing(void **state)
{
    (void)state;
    HOLDS(memories_are_out_of_reach());
}

static void log__memories_that_have_everything_leave_room(void **state)
{
    (void)state;
    HOLDS(memories_go_on_with_nothing_to_send());
}

static void log__memories_that_return_in_turn_leave_no_hole(void **state)
{
    (void)state;
    HOLDS(memories_return_in_turn());
}

static void log__promise_of_a_past_life_is_void(void **state)
{
    (void)state;
    HOLDS(promise_of_a_past_life());
}

static void log__memory_lost_before_it_is_read_does_not_count(void **state)
{
    (void)state;
    HOLDS(memory_lost_before_it_is_read());
}

static void log__copies_of_a_past_leadership_do_not_count(void **state)
{
    (void)state;
    HOLDS(copies_of_a_past_leadership());
}

static void log__run_that_begins_beyond_a_state_is_not_read(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        HOLDS(run_begins_beyond_a_state(seed));
}

static void log__what_only_one_has_applied_is_kept(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        HOLDS(only_one_has_applied(seed));
}

static void log__lane_that_changes_while_it_is_read_is_not_recovered(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        HOLDS(lane_rewritten_while_read(seed));
}

static void log__overrun_entries_are_not_recovered(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        HOLDS(decided_entry_overrun(seed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log__disks_have_what_was_decided),
        cmocka_unit_test(log__disks_that_take_nothing_cost_their_host),
        cmocka_unit_test(log__take_over_waits_for_two_flushes),
        cmocka_unit_test(log__rings_those_whose_disks_are_furthest),
        cmocka_unit_test(log__late_follower_is_resynchronised),
        cmocka_unit_test(log__new_leader_applies_what_was_decided_untold),
        cmocka_unit_test(log__failed_take_over_leaves_no_gap),
        cmocka_unit_test(log__candidate_finds_what_was_written_to_it),
        cmocka_unit_test(log__three_candidates_make_one_writer),
        cmocka_unit_test(log__bare_majority_elects),
        cmocka_unit_test(log__lost_answer_is_asked_for_again),
        cmocka_unit_test(log__duel_ends_with_one_leader),
        cmocka_unit_test(log__deposed_leader_does_not_borrow_a_ballot),
        cmocka_unit_test(log__leader_asleep_for_two_laps_does_no_harm),
        cmocka_unit_test(log__forged_entries_are_payload),
        cmocka_unit_test(log__different_prefixes_are_recovered),
        cmocka_unit_test(log__old_entry_decided_late_stays),
        cmocka_unit_test(log__message_decided_twice_counts_once),
        cmocka_unit_test(log__where_a_run_begins_is_decided),
        cmocka_unit_test(log__run_is_continued_without_what_is_stale),
        cmocka_unit_test(log__entries_are_read_from_where_one_begins),
        cmocka_unit_test(log__run_that_is_being_renewed_holds_nothing),
        cmocka_unit_test(log__half_continued_run_vouches_for_nothing),
        cmocka_unit_test(log__run_that_changes_while_it_is_read_vouches_for_nothing),
        cmocka_unit_test(log__run_of_a_deposed_leader_vouches_for_nothing),
        cmocka_unit_test(log__what_is_decided_and_forgotten_comes_back),
        cmocka_unit_test(log__left_behind_comes_back_by_snapshot),
        cmocka_unit_test(log__large_state_is_taken_while_the_log_goes_on),
        cmocka_unit_test(log__interrupted_transfer_goes_on),
        cmocka_unit_test(log__whole_state_outlives_its_sender),
        cmocka_unit_test(log__hung_minority_holds_up_the_others_once),
        cmocka_unit_test(log__hung_leader_holds_up_its_successor_once),
        cmocka_unit_test(log__stalled_follower_holds_up_the_others_seldom),
        cmocka_unit_test(log__hang_in_a_snapshot_holds_up_the_others_once),
        cmocka_unit_test(log__new_life_comes_back_by_snapshot),
        cmocka_unit_test(log__state_from_before_a_return_is_followed_by_another),
        cmocka_unit_test(log__amnesia_grants_nothing),
        cmocka_unit_test(log__leader_from_snapshot_goes_on_where_the_old_one_was),
        cmocka_unit_test(log__single_message_needs_no_next),
        cmocka_unit_test(log__message_taken_in_vain_is_taken_again),
        cmocka_unit_test(log__deposed_leader_does_not_count_itself),
        cmocka_unit_test(log__decided_copy_is_never_taken_back),
        cmocka_unit_test(log__read_before_the_promise_does_not_count),
        cmocka_unit_test(log__write_held_up_does_not_count),
        cmocka_unit_test(log__commit_never_outruns_the_entries),
        cmocka_unit_test(log__deaf_leader_gives_way),
        cmocka_unit_test(log__deaf_leader_resigns_over_a_network),
        cmocka_unit_test(log__leader_with_a_quorum_stays),
        cmocka_unit_test(log__leader_alone_decides_nothing),
        cmocka_unit_test(log__run_that_begins_beyond_a_state_is_not_read),
        cmocka_unit_test(log__what_only_one_has_applied_is_kept),
        cmocka_unit_test(log__lane_that_changes_while_it_is_read_is_not_recovered),
        cmocka_unit_test(log__overrun_entries_are_not_recovered),
        cmocka_unit_test(log__goes_on_when_leader_and_a_memory_end),
        cmocka_unit_test(log__survives_any_one_of_two_replicas_and_a_memory),
        cmocka_unit_test(log__without_memories_that_vote_decides_nothing),
        cmocka_unit_test(log__memories_that_have_everything_leave_room),
        cmocka_unit_test(log__memories_that_return_in_turn_leave_no_hole),
        cmocka_unit_test(log__promise_of_a_past_life_is_void),
        cmocka_unit_test(log__memory_lost_before_it_is_read_does_not_count),
        cmocka_unit_test(log__copies_of_a_past_leadership_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
