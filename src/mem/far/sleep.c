/* Sleeping, for tables of mem.h: when it may be, and for how long. How it is done is the carrier's. */
#include "base/clock.h"
#include "mem/far/impl.h"

#include <unistd.h>

void far_wake_fd(int fd)
{
    const uint64_t one = 1;

    if (write(fd, &one, sizeof one) < 0) {
        /* The counter is full, so it is readable anyway. */
    }
}

void far_doze(struct mem *m)
{
    struct far *o = far_of(m);

    o->dozing = true;
    o->armed = !o->carrier->arm || o->carrier->arm(o);
}

void far_rouse(struct mem *m)
{
    far_of(m)->dozing = false;
}

/* Until when at most: pulses must go out; and of what a carrier did not take, or still has to look after, nothing tells. */
static uint64_t sleep_most(struct far *o)
{
    o->now_ns = clock_now_ns();
    if (o->dirty)
        o->news += far_post_all(o);
    bool soon = o->dirty || (o->carrier->restless && o->carrier->restless(o));
    return o->now_ns + (soon ? MS : o->silent_ns / 8);
}

static bool may_sleep(const struct far *o)
{
    return o->dozing && o->armed && o->own_marks == 0 && o->news == 0;
}

void far_loop_disarm(struct mem *m)
{
    struct far *o = far_of(m);

    o->dozing = false;
    o->chores_ns = 0;
}

bool far_loop_arm(struct mem *m, uint64_t *until_ns)
{
    struct far *o = far_of(m);
    uint64_t most = sleep_most(o);

    *until_ns = *until_ns < most ? *until_ns : most;
    bool ready = may_sleep(o);
    if (!ready)
        far_loop_disarm(m);
    return ready;
}

void far_sleep(struct mem *m, uint64_t until_ns)
{
    if (far_loop_arm(m, &until_ns))
        far_of(m)->carrier->wait(far_of(m), until_ns);
    far_loop_disarm(m);
}
