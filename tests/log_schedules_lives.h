/* Schedules about what a replica said before it lost its memory, or before its writer led anew: promises and copies
 * that must not count any more. Of the kind of log_schedules.h. */
#ifndef TESTS_LOG_SCHEDULES_LIVES_H
#define TESTS_LOG_SCHEDULES_LIVES_H

const char *promise_of_a_past_life(void);
const char *memory_lost_before_it_is_read(void);
const char *copies_of_a_past_leadership(void);

#endif
