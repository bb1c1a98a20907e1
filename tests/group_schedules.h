/* Schedules of groups with views that chance seldom meets, stepped by hand. Each returns the property that it found violated, or NULL. */
#ifndef TESTS_GROUP_SCHEDULES_H
#define TESTS_GROUP_SCHEDULES_H

#include <stdbool.h>
#include <stdint.h>

const char *schedule_trim_at_one(uint64_t step);
const char *schedule_leader_dies_after(uint32_t ticks, bool shared);
const char *schedule_wakes_two_views_later(bool shared);
const char *schedule_publish_into_wedge(void);
const char *schedule_layout_request_lost(void);
const char *schedule_mutual_claims(void);
const char *schedule_rings_full_member_stopped(bool shared);
const char *schedule_lease_is_open_long(void);
const char *schedule_leases_are_released(uint32_t at_once, uint32_t message_every);
const char *schedule_nulls_over_wrap_and_view(void);
const char *schedule_one_way_cut(void);
const char *schedule_link_breaks_and_heals(uint64_t seed);
const char *schedule_restart_before_removal(bool keep_memory);
const char *schedule_sender_never_found(void);
const char *schedule_donor_dies_after(uint32_t ticks, uint32_t state);
const char *schedule_learner_is_not_waited_for(bool shared);
const char *schedule_learner_stands_still(uint32_t us);
const char *schedule_leave_and_crash(uint32_t ticks);
const char *schedule_keepers_stopped(void);
const char *schedule_cell_without_survivors(void);
const char *schedule_inadequate_heals(void);
const char *schedule_two_cells_are_fair(void);
const char *schedule_full_client_subscribes(uint32_t bytes);
const char *schedule_relay_is_put_out(uint32_t ticks, bool shared);
const char *schedule_relay_dies_in_body(uint32_t host, uint32_t ticks, bool restarts);
const char *schedule_forged_bytes(uint64_t seed);

/* group_schedules_move.c */
const char *schedule_keepers_fail_in_turn(bool shared, bool links);
const char *schedule_leader_dies_in_move(uint32_t ticks, bool links, bool leaves);
const char *schedule_host_knows_first_keepers(bool shared, bool links);
const char *schedule_leader_wakes_after_move(bool shared, bool links);
const char *schedule_only_keeper_leaves(bool links);
const char *schedule_power_cut_after(uint32_t ticks, uint32_t away, bool ends);
const char *schedule_power_cut_in_restart(uint32_t ticks);
const char *schedule_power_cut_in_move(uint32_t ticks);
const char *schedule_disk_is_full(void);

#endif
