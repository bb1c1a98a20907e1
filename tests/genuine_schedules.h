/* The adversarial schedules of genuine multicast, each stepped by hand (tree_fixture.h). R1 to R13 are gaps
 * of RamCast as it was published; number 23 of the schedules is made of them, and the planted bugs of
 * base/planted.h have the same names. What each is about stands at its definition.
 *
 * A scenario returns the property that it found violated, or NULL. mcast_genuine.c shows that all of them
 * hold, mcast_genuine_planted.c that they find the mistakes that they are about. */
#ifndef TESTS_GENUINE_SCHEDULES_H
#define TESTS_GENUINE_SCHEDULES_H

#include <stdbool.h>
#include <stdint.h>

const char *genuine_single_message(uint8_t mask);                                 /* 20 */
const char *genuine_circle(uint32_t run);                                         /* 22 */
const char *genuine_opposite_orders(uint32_t unreached);                          /* 23: R1, R11 */
const char *genuine_stamps_reach_the_leader_only(bool keep_memory);               /* 23: R2 */
const char *genuine_high_stamp_of_another(bool from_snapshot);                    /* R3; 23: R5 */
const char *genuine_leaders_die_together(uint32_t first_at, uint32_t second_at);  /* 14 */
const char *genuine_minority_stamp(void);                                         /* 23: R6 */
const char *genuine_stamps_untold(uint32_t destinations);                         /* R7 */
const char *genuine_body_at_the_leader_only(void);                                /* 23: R12 */
const char *genuine_deposed_leader_hears_a_stamp(void);                           /* R13 */
const char *genuine_relay_after_delivery(void);                                   /* 23: R10 */
const char *genuine_copy_after_relay(uint32_t destinations, uint32_t heal_ticks); /* 23: R10 */
const char *genuine_client_dies_among_groups(uint32_t groups, uint32_t reached,
                                             int leader_dies_at);                    /* 12 */
const char *genuine_client_replaced_among_groups(uint32_t groups, uint32_t reached); /* 12 */
const char *genuine_marks_of_the_dead(uint32_t groups, uint32_t reached);
const char *genuine_client_hangs_among_groups(uint32_t groups, uint32_t reached);
const char *genuine_group_without_quorum(void);        /* 15 */
const char *genuine_group_takes_nothing(uint32_t run); /* 16 */
const char *genuine_memory_lost_in_turn(uint64_t seed);
const char *genuine_snapshot_of_what_waits(uint32_t victim); /* 19 */

#endif
