/* A jump between stacks is what the checked longjmp of fortified builds takes for a mistake. */
#undef _FORTIFY_SOURCE

#include "sim/fiber.h"

#include "base/err.h"

#include <stdlib.h>
#include <ucontext.h>

enum { STACK_BYTES = 256 << 10 };

/* makecontext passes ints only. */
static _Thread_local struct fiber *starting;

static void run(void)
{
    struct fiber *f = starting;
    for (;;) {
        f->fn(f->ctx);
        f->done = true;
        fiber_stop(f);
    }
}

/* swapcontext saves signal masks, by system calls. It is used to get onto a new stack only. */
static bool begin_on_stack(struct fiber *f)
{
    static _Thread_local ucontext_t inside, outside;
    CHECK(getcontext(&inside) == 0);
    inside.uc_stack.ss_sp = f->stack;
    inside.uc_stack.ss_size = STACK_BYTES;
    inside.uc_link = NULL;
    makecontext(&inside, run, 0);
    starting = f;
    if (_setjmp(f->outside) == 0)
        CHECK(swapcontext(&outside, &inside) == 0);
    return f->done;
}

bool fiber_start(struct fiber *f, void (*fn)(void *ctx), void *ctx)
{
    bool waits = f->done;
    if (f->stack == NULL)
        f->stack = malloc(STACK_BYTES);
    CHECK(f->stack != NULL);
    f->fn = fn;
    f->ctx = ctx;
    f->done = false;
    return waits ? fiber_continue(f) : begin_on_stack(f);
}

void fiber_stop(struct fiber *f)
{
    if (_setjmp(f->inside) == 0)
        _longjmp(f->outside, 1);
}

bool fiber_continue(struct fiber *f)
{
    if (_setjmp(f->outside) == 0)
        _longjmp(f->inside, 1);
    return f->done;
}

void fiber_free(struct fiber *f)
{
    free(f->stack);
    *f = (struct fiber){0};
}
