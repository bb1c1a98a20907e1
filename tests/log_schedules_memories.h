/* Schedules of groups with members that are only memory. Of the kind of log_schedules.h. */
#ifndef TESTS_LOG_SCHEDULES_MEMORIES_H
#define TESTS_LOG_SCHEDULES_MEMORIES_H

const char *leader_and_a_memory_end(void);
const char *each_of_two_and_one_ends_once(void);
const char *memories_are_out_of_reach(void);
const char *memories_return_in_turn(void);
const char *memories_go_on_with_nothing_to_send(void);

#endif
