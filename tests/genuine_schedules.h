/* The adversarial schedules of genuine multicast, each stepped by hand (tree_fixture.h). Most are
 * about what RamCast leaves open as it was published. What each is about stands at its definition.
 *
 * A scenario returns the property that it found violated, or NULL. mcast_genuine.c shows that all of them
 * hold, mcast_genuine_planted.c that they find the mistakes that they are about. */
#ifndef TESTS_GENUINE_SCHEDULES_H
#define TESTS_GENUINE_SCHEDULES_H

#include <stdbool.h>
#include <stdint.h>

const char *genuine_single_message(uint8_t mask);
const char *genuine_circle(uint32_t run);
const char *genuine_opposite_orders(uint32_t unreached);
const char *genuine_stamps_reach_the_leader_only(bool keep_memory);
const char *genuine_high_stamp_of_another(bool from_snapshot);
const char *genuine_leaders_die_together(uint32_t first_at, uint32_t second_at);
const char *genuine_minority_stamp(void);
const char *genuine_stamps_untold(uint32_t destinations);
const char *genuine_body_at_the_leader_only(void);
const char *genuine_deposed_leader_hears_a_stamp(void);
const char *genuine_relay_after_delivery(void);
const char *genuine_copy_after_relay(uint32_t destinations, uint32_t heal_ticks);
const char *genuine_client_dies_among_groups(uint32_t groups, uint32_t reached, int leader_dies_at);
const char *genuine_client_replaced_among_groups(uint32_t groups, uint32_t reached);
const char *genuine_marks_of_the_dead(uint32_t groups, uint32_t reached);
const char *genuine_client_hangs_among_groups(uint32_t groups, uint32_t reached);
const char *genuine_group_without_quorum(void);
const char *genuine_group_takes_nothing(uint32_t run);
const char *genuine_memory_lost_in_turn(uint64_t seed);
const char *genuine_snapshot_of_what_waits(uint32_t victim);

#endif
