/* A function that can be stopped in the middle and continued later, on a stack of its own. One thread.
 *
 * The simulator runs the rounds of a host in one, so that a host can be stopped between any two of its writes, as a
 * process can be. A fiber that is stopped may be left for good: nothing of it runs again. */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <setjmp.h>
#include <stdbool.h>

struct fiber {
    void *stack;
    void (*fn)(void *ctx);
    void *ctx;
    bool done; /* the function has returned; the stack waits for the next one */
    jmp_buf inside, outside;
};

/* Runs the function until it returns (true) or stops (false). A stopped one before it is forgotten. */
bool fiber_start(struct fiber *, void (*fn)(void *ctx), void *ctx);

/* Called inside: stops here, until fiber_continue. */
void fiber_stop(struct fiber *);

/* Goes on where it stopped; as fiber_start. */
bool fiber_continue(struct fiber *);

void fiber_free(struct fiber *);

#endif
