/* Giving way to others on a crowded machine, for a thread that polls and has nothing to do.
 *
 * Pollers that share cores yield to each other, and have the core back in microseconds. But a core
 * that goes to one who computes comes back with the next tick of the scheduler, up to 4 or 10 ms later.
 * One who always does that is a process that was killed: the kernel takes its memory apart, which
 * takes milliseconds, at the very moment when its successors are waited for. Who sleeps instead is
 * woken on a free core, and before those who compute. */
#ifndef HOST_YIELD_H
#define HOST_YIELD_H

#include "mem/mem.h"

struct yield {
    struct mem *mem;         /* of shm_open_node */
    uint32_t dead;           /* hosts that were dead when we last looked */
    uint64_t sleep_until_ns; /* no yielding before that */
};

/* Lets others have the core for a moment. False: not now, it may take long to get it back. */
bool yield_now(struct yield *, uint64_t now_ns);

#endif
