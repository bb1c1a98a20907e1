/* The adversarial schedules that concern the log (and what the papers leave open about
 * it), each stepped by hand. What each is about stands at its definition.
 *
 * A scenario returns the property that it found violated, or NULL. "setup" means that the situation
 * did not come about, and is a failure whatever was wanted. agree_log_schedules.c shows that all of
 * them hold, agree_log_planted.c that each finds the mistake it is about. */
#ifndef TESTS_LOG_SCHEDULES_H
#define TESTS_LOG_SCHEDULES_H

#include <stdbool.h>
#include <stdint.h>

enum { PREFIXES_OF = 5 }; /* size of the group of prefixes_recovered */

const char *late_follower(uint32_t n);
const char *late_follower_of_the_same_leader(uint32_t n);
const char *decided_and_untold(uint32_t n);
const char *failed_take_over(uint32_t n);
const char *old_leader_writes_a_candidate(void);
const char *three_candidates(uint64_t seed);
const char *bare_majority(uint32_t n, uint64_t offset_ns);
const char *lost_answer(void);
const char *duel(uint64_t seed);
const char *deposed_leader_writes_on(uint64_t seed);
const char *sleeping_leader(uint32_t n);
const char *forged_entries(void);
const char *prefixes_recovered(uint32_t left_out, int crash_after);
const char *old_entry_decided_late(void);
const char *message_decided_twice(void);
const char *run_begins_beyond_commit(void);
const char *half_continued_run(uint32_t stores);
const char *run_continued_while_read(uint64_t seed);
const char *run_renewed_by_a_deposed_leader(uint64_t seed);
const char *decided_and_forgotten(void);
const char *left_behind(uint32_t n);
const char *hung_minority(uint32_t n, uint32_t hung, uint64_t pause_ns, bool owner_answers);
const char *stalled_follower(uint32_t n, uint32_t messages, uint64_t pause_ns);
const char *hung_loading(uint32_t n, uint64_t pause_ns);
const char *large_state(uint32_t n, bool keep_memory);
const char *interrupted_transfer(bool keep_memory);
const char *leader_dies_behind_a_state(bool keep_memory);
const char *small_backlog(uint32_t rings);
const char *hung_leader(uint32_t n, uint64_t pause_ns);
const char *new_life(bool keep_memory, bool owner_answers);
const char *torn_row_of_a_new_life(void);
const char *amnesia(void);
const char *leader_from_snapshot(void);
const char *single_message(uint32_t n);
const char *message_taken_in_vain(void);
const char *deposed_leader_counts_itself(void);
const char *decided_copy_rewritten(void);
const char *write_between_read_and_promise(uint64_t seed);
const char *write_held_up(void);
const char *catching_up_in_steps(uint64_t seed);
const char *deaf_leader(uint32_t n);
const char *deaf_leader_resigns(uint32_t n);
const char *one_link_cut(uint32_t n, uint32_t other, bool to, bool from);
const char *leader_alone(uint32_t n);

#endif
