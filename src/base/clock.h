/* The clock. Nothing else in the project reads one (tools/check-layers sees to it), and protocols
 * do not call this either: they are given `now`. Any thread. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of CLOCK_MONOTONIC: comparable between processes of one machine until it reboots. */
uint64_t clock_now_ns(void);

/* CPU time that the calling thread has used, in nanoseconds: what others do on the machine hardly shows. */
uint64_t clock_thread_ns(void);

/* Seconds since 1970, by the machine's wall clock: for dates in reports, not for measuring. */
uint64_t clock_utc_s(void);

/* Milliseconds since 1970, as the machine's clock has it, which may be set: for what outlives a process. */
uint64_t clock_wall_ms(void);

#endif
