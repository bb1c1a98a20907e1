/* Schedules about what may be read of a lane, and when its bytes may be used again; see log_schedules.h. */
#ifndef TESTS_LOG_SCHEDULES_LANES_H
#define TESTS_LOG_SCHEDULES_LANES_H

#include <stdint.h>

const char *run_begins_beyond_a_state(uint64_t seed);
const char *only_one_has_applied(uint64_t seed);
const char *decided_entry_overrun(uint64_t seed);
const char *lane_rewritten_while_read(uint64_t seed);

#endif
