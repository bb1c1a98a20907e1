/* The log with known mistakes compiled in, under the schedules of log_schedules.h: each schedule
 * finds the mistake it is about. tests/sim/log_planted does the same with schedules drawn from
 * seeds. */
#include "../log_schedules.h"
#include "../log_schedules_disks.h"
#include "../log_schedules_lanes.h"
#include "../log_schedules_lives.h"
#include "../log_schedules_memories.h"
#include "../log_schedules_runs.h"
#include "../planted_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Properties, any of them. Two replicas that differ are seen as one or the other by who looks
 * first. */
#define DIFFERS "agreement|committed equals decided|state equality|derived state equality"

static void log__finds_late_stale(void **state)
{
    (void)state;
    FINDS(late_stale, late_follower_of_the_same_leader(5), DIFFERS);
    FINDS(late_stale, late_follower_of_the_same_leader(7), DIFFERS);
}

static void log__finds_skip_first(void **state)
{
    (void)state;
    FINDS(skip_first, decided_and_untold(3), DIFFERS);
    FINDS(skip_first, decided_and_untold(5), DIFFERS);
}

static void log__finds_failed_cursor(void **state)
{
    (void)state;
    FINDS(failed_cursor, failed_take_over(5), DIFFERS);
}

static void log__finds_own_not_fenced(void **state)
{
    (void)state;
    FINDS(own_not_fenced, old_leader_writes_a_candidate(), DIFFERS);
}

static void log__finds_no_self_ack(void **state)
{
    (void)state;
    FINDS(no_self_ack, bare_majority(3, 0), "liveness");
    FINDS(no_self_ack, bare_majority(9, 300), "liveness");
}

static void log__finds_lost_request(void **state)
{
    (void)state;
    FINDS(lost_request, lost_answer(), "liveness");
}

static void log__finds_one_ballot(void **state)
{
    (void)state;
    finds_in_some(PLANTED_one_ballot, deposed_leader_writes_on, 10, DIFFERS);
}

static void log__finds_cursor_ahead(void **state)
{
    (void)state;
    FINDS(cursor_ahead, message_taken_in_vain(), "liveness");
}

static void log__finds_last_waits(void **state)
{
    (void)state;
    FINDS(last_waits, single_message(3), "liveness");
    FINDS(last_waits, single_message(9), "liveness");
}

static void log__finds_nonzero_present(void **state)
{
    (void)state;
    FINDS(nonzero_present, late_follower(5), DIFFERS);
    FINDS(nonzero_present, forged_entries(), "integrity|agreement");
}

static void log__finds_read_ungranted(void **state)
{
    (void)state;
    finds_in_some(PLANTED_read_ungranted, write_between_read_and_promise, 100, DIFFERS);
}

static void log__finds_no_fence(void **state)
{
    (void)state;
    FINDS(no_fence, write_held_up(), "one writer");
}

static void log__finds_commit_beyond(void **state)
{
    (void)state;
    finds_in_some(PLANTED_commit_beyond, catching_up_in_steps, 10,
                  "commit within match|self-check");
}

static void log__finds_self_unchecked(void **state)
{
    (void)state;
    FINDS(self_unchecked, deposed_leader_counts_itself(), DIFFERS);
}

static void log__finds_no_filter(void **state)
{
    (void)state;
    FINDS(no_filter, message_decided_twice(), "no duplicate");
}

static void log__finds_no_restamp(void **state)
{
    (void)state;
    FINDS(no_restamp, old_entry_decided_late(), DIFFERS);
}

static void log__finds_quorum_f(void **state)
{
    (void)state;
    FINDS(quorum_f, leader_alone(3), DIFFERS);
    FINDS(quorum_f, leader_alone(5), DIFFERS);
}

static void log__finds_overrun(void **state)
{
    (void)state;
    FINDS(overrun, left_behind(3), "committed equals decided");
}

static void log__finds_hung_again(void **state)
{
    (void)state;
    FINDS(hung_again, hung_minority(3, 1, 120000, false), "a hang costs once");
    FINDS(hung_again, hung_minority(5, 2, 120000, false), "a hang costs once");
    FINDS(hung_again, hung_leader(3, 120000), "a hang costs once");
    FINDS(hung_again, stalled_follower(3, 30, 300000), "a hang costs once");
}

static void log__finds_amnesia_votes(void **state)
{
    (void)state;
    FINDS(amnesia_votes, amnesia(), "one writer");
}

static void log__finds_snap_no_sources(void **state)
{
    (void)state;
    FINDS(snap_no_sources, leader_from_snapshot(), "derived state equality");
    FINDS(snap_no_sources, left_behind(3), "derived state equality");
}

static void log__finds_backlog_gap(void **state)
{
    (void)state;
    FINDS(backlog_gap, large_state(3, true), "self-check");
    FINDS(backlog_gap, large_state(3, false), "self-check");
}

static void log__finds_load_late(void **state)
{
    (void)state;
    FINDS(load_late, large_state(3, true), DIFFERS);
}

static void log__finds_run_before_guard(void **state)
{
    (void)state;
    FINDS(run_before_guard, run_continued_over_stale_entries(), DIFFERS);
}

static void log__finds_guard_stays(void **state)
{
    (void)state;
    FINDS(guard_stays, run_continued_over_stale_entries(), DIFFERS);
}

static void log__finds_run_unchecked(void **state)
{
    (void)state;
    finds_in_some(PLANTED_run_unchecked, run_renewed_beyond_a_new_life, 400, DIFFERS);
}

static void log__finds_mid_entry(void **state)
{
    (void)state;
    FINDS(mid_entry, commit_inside_a_stale_entry(), "integrity");
}

static void log__finds_retract_decided(void **state)
{
    (void)state;
    FINDS(retract_decided, decided_copy_rewritten(), DIFFERS);
}

static void log__finds_start_vouches(void **state)
{
    (void)state;
    FINDS(start_vouches, half_continued_run(1), DIFFERS);
    FINDS(start_vouches, half_continued_run(2), DIFFERS);
}

static void log__finds_renewal_vouches(void **state)
{
    (void)state;
    finds_in_some(PLANTED_renewal_vouches, run_renewed_by_a_deposed_leader, 200, DIFFERS);
}

static void log__finds_run_read_once(void **state)
{
    (void)state;
    finds_in_some(PLANTED_run_read_once, run_continued_while_read, 400, DIFFERS);
}

static void log__finds_quorum_of_replicas(void **state)
{
    (void)state;
    FINDS(quorum_of_replicas, memories_are_out_of_reach(), "a quorum of voters decides");
}

static void log__finds_memory_from_applied(void **state)
{
    (void)state;
    FINDS(memory_from_applied, memories_return_in_turn(), "liveness");
}

static void log__finds_past_promises(void **state)
{
    (void)state;
    FINDS(past_promises, promise_of_a_past_life(), DIFFERS);
}

static void log__finds_counts_unlive(void **state)
{
    (void)state;
    FINDS(counts_unlive, copies_of_a_past_leadership(), DIFFERS);
}

static void log__finds_unverified(void **state)
{
    (void)state;
    FINDS(unverified, memory_lost_before_it_is_read(), DIFFERS);
}

static void log__finds_reuse_alone(void **state)
{
    (void)state;
    FINDS(reuse_alone, only_one_has_applied(1), "liveness");
}

static void log__finds_lane_unchecked(void **state)
{
    (void)state;
    finds_in_some(PLANTED_lane_unchecked, lane_rewritten_while_read, 20, DIFFERS);
}

static void log__finds_overrun_unseen(void **state)
{
    (void)state;
    finds_in_some(PLANTED_overrun_unseen, decided_entry_overrun, 20, DIFFERS);
}

static void log__finds_start_unchecked(void **state)
{
    (void)state;
    finds_in_some(PLANTED_start_unchecked, run_begins_beyond_a_state, 20, "self-check");
}

static void log__finds_suffix_dropped(void **state)
{
    (void)state;
    FINDS(suffix_dropped, kept_again_in_part(), DIFFERS);
}

static void log__finds_solid_ignored(void **state)
{
    (void)state;
    finds_in_some(PLANTED_solid_ignored, rest_of_an_older_run, 20, DIFFERS);
}

static void log__finds_run_of_the_rest(void **state)
{
    (void)state;
    FINDS(run_of_the_rest, commit_of_a_later_ballot(), "restored");
}

static void log__finds_copy_unchecked(void **state)
{
    (void)state;
    FINDS(copy_unchecked, raised_while_it_copies(), DIFFERS);
}

/* Only here is so little copied in a round that there is a rest. */
static void log__finds_commit_said_ahead(void **state)
{
    (void)state;
    FINDS(commit_said_ahead, commit_beyond_what_was_copied(), "restored");
    assert_null(commit_beyond_what_was_copied());
}

static void log__finds_disk_words_unchecked(void **state)
{
    (void)state;
    FINDS(disk_words_unchecked, torn_words_of_a_disk(), "liveness|" DIFFERS);
}

static void log__finds_peek_for_flow(void **state)
{
    (void)state;
    FINDS(peek_for_flow, restored_under_its_ballot(), "liveness|" DIFFERS);
}

static void log__finds_kept_over_reset(void **state)
{
    (void)state;
    FINDS(kept_over_reset, state_not_on_disk(), "kept over a gap");
}

static void log__finds_says_what_is_loaded(void **state)
{
    (void)state;
    FINDS(says_what_is_loaded, raised_while_it_loads(false), "restored|" DIFFERS);
}

static void log__finds_below_forgets(void **state)
{
    (void)state;
    FINDS(below_forgets, decided_and_damaged(), DIFFERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log__finds_late_stale),
        cmocka_unit_test(log__finds_skip_first),
        cmocka_unit_test(log__finds_failed_cursor),
        cmocka_unit_test(log__finds_own_not_fenced),
        cmocka_unit_test(log__finds_no_self_ack),
        cmocka_unit_test(log__finds_lost_request),
        cmocka_unit_test(log__finds_one_ballot),
        cmocka_unit_test(log__finds_cursor_ahead),
        cmocka_unit_test(log__finds_last_waits),
        cmocka_unit_test(log__finds_nonzero_present),
        cmocka_unit_test(log__finds_read_ungranted),
        cmocka_unit_test(log__finds_self_unchecked),
        cmocka_unit_test(log__finds_no_fence),
        cmocka_unit_test(log__finds_commit_beyond),
        cmocka_unit_test(log__finds_no_filter),
        cmocka_unit_test(log__finds_no_restamp),
        cmocka_unit_test(log__finds_quorum_f),
        cmocka_unit_test(log__finds_overrun),
        cmocka_unit_test(log__finds_hung_again),
        cmocka_unit_test(log__finds_amnesia_votes),
        cmocka_unit_test(log__finds_snap_no_sources),
        cmocka_unit_test(log__finds_backlog_gap),
        cmocka_unit_test(log__finds_load_late),
        cmocka_unit_test(log__finds_run_before_guard),
        cmocka_unit_test(log__finds_guard_stays),
        cmocka_unit_test(log__finds_run_unchecked),
        cmocka_unit_test(log__finds_mid_entry),
        cmocka_unit_test(log__finds_retract_decided),
        cmocka_unit_test(log__finds_start_vouches),
        cmocka_unit_test(log__finds_renewal_vouches),
        cmocka_unit_test(log__finds_run_read_once),
        cmocka_unit_test(log__finds_reuse_alone),
        cmocka_unit_test(log__finds_lane_unchecked),
        cmocka_unit_test(log__finds_overrun_unseen),
        cmocka_unit_test(log__finds_start_unchecked),
        cmocka_unit_test(log__finds_quorum_of_replicas),
        cmocka_unit_test(log__finds_memory_from_applied),
        cmocka_unit_test(log__finds_past_promises),
        cmocka_unit_test(log__finds_counts_unlive),
        cmocka_unit_test(log__finds_unverified),
        cmocka_unit_test(log__finds_copy_unchecked),
        cmocka_unit_test(log__finds_disk_words_unchecked),
        cmocka_unit_test(log__finds_commit_said_ahead),
        cmocka_unit_test(log__finds_suffix_dropped),
        cmocka_unit_test(log__finds_solid_ignored),
        cmocka_unit_test(log__finds_run_of_the_rest),
        cmocka_unit_test(log__finds_below_forgets),
        cmocka_unit_test(log__finds_peek_for_flow),
        cmocka_unit_test(log__finds_kept_over_reset),
        cmocka_unit_test(log__finds_says_what_is_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
