/* The adversarial schedules for a tree of groups, numbered 1 to 22, each stepped by hand in the
 * simulated memory. What each is about, and what it guards, stands at its definition.
 *
 * A scenario returns the property that it found violated, or NULL. "setup" means that the situation
 * did not come about, and is a failure whatever was wanted. mcast_tree_schedules.c shows that all of
 * them hold, mcast_tree_planted.c that each finds the mistakes it is about. Those that concern the
 * log of one group alone stand in log_schedules.h too; here the group has a child to which all of it
 * goes on. Number 21 needs threads as well: tests/proc/shm_race.c. */
#ifndef TESTS_TREE_SCHEDULES_H
#define TESTS_TREE_SCHEDULES_H

#include <stdbool.h>
#include <stdint.h>

enum { TREE_PREFIXES_OF = 5 }; /* size of the groups of tree_prefixes */

const char *tree_late_follower(uint32_t n, bool same_leader);                 /*  1 */
const char *tree_decided_and_untold(uint32_t n);                              /*  2 */
const char *tree_failed_take_over(uint32_t messages);                         /*  3 */
const char *tree_old_leader_writes_a_candidate(void);                         /*  4 */
const char *tree_three_candidates(uint64_t seed);                             /*  4 */
const char *tree_bare_majority(uint32_t n, uint64_t offset_ns);               /*  5 */
const char *tree_lost_answer(void);                                           /*  5 */
const char *tree_duel(uint64_t seed);                                         /*  6 */
const char *tree_sleeping_leader(uint32_t n);                                 /*  7 */
const char *tree_torn_stream(uint64_t seed);                                  /*  8 */
const char *tree_forged_frames(void);                                         /*  9 */
const char *tree_prefixes(uint32_t left_out, int crash_after);                /* 10 */
const char *tree_message_decided_twice(void);                                 /* 11 */
const char *tree_client_dies_half_way(uint32_t run, bool *delivered);         /* 12 */
const char *tree_reply_lost(uint32_t hops, uint32_t dead);                    /* 13 */
const char *tree_leaders_die_together(uint32_t parent_at, uint32_t child_at); /* 14 */
const char *tree_leaders_die_at(uint32_t parent, uint32_t child);             /* 14 */
const char *tree_child_without_quorum(void);                                  /* 15 */
const char *tree_full_rings(uint32_t run);                                    /* 16 */
const char *tree_left_behind(uint16_t group, uint32_t fate);                  /* 17 */
const char *tree_amnesia(void);                                               /* 18 */
const char *tree_leader_from_snapshot(uint32_t victim);                       /* 19 */
const char *tree_single_message(uint8_t mask, bool deep);                     /* 20 */
const char *tree_deposed_leader_counts_itself(void);                          /* 21 */
const char *tree_circle(uint32_t run);                                        /* 22 */
const char *tree_circle_without_a_tree(uint64_t seed);                        /* 22: it is a bait */
const char *tree_taken_in_vain(void);

#endif
