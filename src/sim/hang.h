/* The last phase of some runs: nothing else is wrong any more, and as many hosts hang as no group may be held up by.
 *
 * A hang may cost a group what it takes to notice it: once to suspect a leader and replace it, once to detach a
 * follower. It must not cost that again and again while it lasts. What it costs is told by the run, as the time that
 * clients have waited for messages beyond what a message takes. */
#ifndef SIM_HANG_H
#define SIM_HANG_H

#include "sim/run.h"

struct hang_calls {
    uint64_t bound_ns; /* that all waiting together may take */
    /* Clients send from now on, one message after the other; and send no more. */
    void (*begin)(void *ctx);
    void (*end)(void *ctx);
    uint64_t (*waited_ns)(const void *ctx);      /* of the client that waited longest */
    void (*late)(void *ctx, uint64_t waited_ns); /* to note a violation */
};

/* Draws who hangs; false: nobody can be spared. The hosts hang for so long that a cost that comes back is more than
 * the bound, and go on. */
bool hang_phase(struct fleet *, const struct run_result *, const struct hang_calls *, void *ctx);

#endif
