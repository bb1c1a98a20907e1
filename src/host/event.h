/* One descriptor for an event loop: readable when its node is to be polled, for whatever reason (a bell, a
 * death, something from the network, the time for a heartbeat, a call from another thread).
 *
 * It is an epoll instance with a timer, an eventfd for other threads and whatever the memory adds. Level-triggered, and at
 * times readable for nothing. Belongs to the thread that polls, but for event_wake. */
#ifndef HOST_EVENT_H
#define HOST_EVENT_H

#include "mem/mem.h"

struct event {
    struct mem *mem;
    int fd; /* the caller's to wait on; -1: not open */
    int timer_fd, wake_fd;
    bool armed;
    uint64_t until_ns;  /* when the timer goes off, while armed */
    uint64_t timer_ns;  /* what it was last set to */
    _Atomic bool woken; /* the eventfd was written */
};

#define EVENT_CLOSED                                                                               \
    {                                                                                              \
        .fd = -1, .timer_fd = -1, .wake_fd = -1                                                    \
    }

int event_open(struct event *, struct mem *, struct err *);
void event_close(struct event *);

/* Before polling. */
void event_begin(struct event *);

/* After mem_doze, and polling once more that found nothing: from now on the descriptor tells, at the latest at
 * until_ns. False: there is something to do, and the node is awake. */
bool event_arm(struct event *, uint64_t until_ns);

/* Makes it readable; any thread. */
void event_wake(struct event *);

#endif
