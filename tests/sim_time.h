/* Time that passes in a simulated memory while nobody is stepped: what is under way lands. */
#ifndef TESTS_SIM_TIME_H
#define TESTS_SIM_TIME_H

#include "mem/sim/sim.h"

static inline void sim_time_event(void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
}

/* Returns the time it is then. */
static inline uint64_t sim_time_pass(struct sim *s, uint64_t ns)
{
    uint64_t end = sim_now(s) + ns;
    sim_at(s, end, sim_time_event, NULL, 0);
    while (sim_now(s) < end && sim_step(s))
        ;
    return end;
}

#endif
