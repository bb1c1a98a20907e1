#include "host/event.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static bool add(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

int event_open(struct event *v, struct mem *m, struct err *e)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);

    v->mem = m;
    v->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    v->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    v->armed = false;
    v->timer_ns = 0;
    int rc = 0;
    if (fd < 0 || !add(fd, v->timer_fd) || !add(fd, v->wake_fd))
        rc = err_sys(e, "a descriptor for an event loop");
    if (rc == 0)
        rc = mem_loop_open(m, fd, e);
    v->fd = fd;
    if (rc != 0)
        event_close(v);
    else
        event_wake(v); /* the first poll is due */
    return rc;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void event_close(struct event *v)
{
    close_fd(&v->fd);
    close_fd(&v->timer_fd);
    close_fd(&v->wake_fd);
}

/* A timer that has gone off is readable until it is read or set again. */
static void set_timer(struct event *v, uint64_t until_ns)
{
    struct itimerspec t = {.it_value = {.tv_sec = (time_t)(until_ns / 1000000000u),
                                        .tv_nsec = (long)(until_ns % 1000000000u)}};

    if (until_ns == v->timer_ns)
        return;
    v->timer_ns = until_ns;
    CHECK(timerfd_settime(v->timer_fd, TFD_TIMER_ABSTIME, &t, NULL) == 0);
}

void event_begin(struct event *v)
{
    uint64_t drained;

    if (v->armed) {
        v->armed = false;
        mem_loop_disarm(v->mem);
        if (read(v->timer_fd, &drained, sizeof drained) == sizeof drained)
            v->timer_ns = 0;
    }
    if (atomic_exchange(&v->woken, false) && read(v->wake_fd, &drained, sizeof drained) < 0) {
        /* It will be written at once, and readable for nothing. */
    }
}

bool event_arm(struct event *v, uint64_t until_ns)
{
    if (!mem_loop_arm(v->mem, &until_ns))
        return false;
    v->armed = true;
    v->until_ns = until_ns ? until_ns : 1;
    set_timer(v, v->until_ns);
    return true;
}

void event_wake(struct event *v)
{
    const uint64_t one = 1;

    if (write(v->wake_fd, &one, sizeof one) < 0) {
        /* The counter is full, so it is readable anyway. */
    }
    atomic_store(&v->woken, true);
}
