/* Schedules about runs: what stands in a lane while its writer goes from one ballot to the next. Like those of
 * log_schedules.h. */
#ifndef TESTS_LOG_SCHEDULES_RUNS_H
#define TESTS_LOG_SCHEDULES_RUNS_H

#include <stdint.h>

const char *run_continued_over_stale_entries(void);
const char *commit_inside_a_stale_entry(void);
const char *run_renewed_beyond_a_new_life(uint64_t seed);

#endif
