/* Connections that begin: those that come, and those that we make. */
#include "mem/tcp/door_impl.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACCEPTS_A_TURN = 32 };

#define REST_NS UINT64_C(100000000) /* when there is no descriptor */

/* ---- accepting ---- */

void door_listen_again(struct door *d, bool on)
{
    for (int i = 0; i < d->listeners; i++)
        door_watch(d, &d->listener[i], on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, EPOLLIN);
    d->rest_until_ns = on ? 0 : clock_now_ns() + REST_NS;
}

/* Makes room for one from that place: its own oldest goes if it has its part, else the oldest of all. */
static void make_way(struct door *d, const struct sockaddr_storage *from)
{
    struct pending *oldest = NULL, *own = NULL;
    uint32_t owns = 0;

    for (struct pending *p = d->first; p; p = p->next) {
        if (p->dialed)
            continue;
        oldest = oldest ? oldest : p;
        if (!door_same_place(&p->address, from))
            continue;
        own = own ? own : p;
        owns++;
    }
    struct pending *goes = owns >= DOOR_PENDING_ADDRESS  ? own
                           : d->accepted >= DOOR_PENDING ? (own ? own : oldest)
                                                         : NULL;
    if (!goes)
        return;
    door_count(d, COUNT_CROWDED);
    door_pending_fail(d, goes, false, "too many connections were begun at once");
}

void door_accept(struct door *d, const struct watch *w)
{
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        struct sockaddr_storage from = {0};
        socklen_t bytes = sizeof from;
        int fd = accept4(w->fd, (struct sockaddr *)&from, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                door_count(d, COUNT_NO_ROOM);
                door_listen_again(d, false);
            }
            return;
        }
        door_count(d, COUNT_ACCEPTED);
        make_way(d, &from);
        struct pending *p = door_pending_new(d, fd, false);
        if (!p) {
            close(fd);
            continue;
        }
        p->address = from;
        if (!door_watch(d, &p->watch, EPOLL_CTL_ADD, EPOLLIN))
            door_pending_fail(d, p, false, strerror(errno));
    }
}

/* ---- dialing ---- */

bool door_dial(struct door *d, uint32_t host, const struct sockaddr_storage *address,
               socklen_t bytes)
{
    struct dial *dial = calloc(1, sizeof *dial);

    if (!dial)
        return false;
    dial->host = host;
    dial->address = *address;
    dial->bytes = bytes;
    dial->next = atomic_load_explicit(&d->dials, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&d->dials, &dial->next, dial,
                                                  memory_order_release, memory_order_relaxed))
        ;
    far_wake_fd(d->wake.fd);
    return true;
}

static void not_dialed(struct door *d, const struct dial *dial, const char *why)
{
    const struct pending p = {.dialed = true, .host = dial->host, .address = dial->address};
    struct arrival *a = door_arrival(DOOR_NOT, &p, why);

    if (a)
        door_hand_over(d, a);
}

static void dial_one(struct door *d, const struct dial *dial)
{
    int fd = socket(dial->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pending *p = fd < 0 ? NULL : door_pending_new(d, fd, true);

    if (!p) {
        not_dialed(d, dial, fd < 0 ? strerror(errno) : "no memory");
        if (fd >= 0)
            close(fd);
        return;
    }
    p->host = dial->host;
    p->address = dial->address;
    p->connecting = true;
    if (connect(fd, (const struct sockaddr *)&dial->address, dial->bytes) < 0 &&
        errno != EINPROGRESS)
        door_pending_fail(d, p, false, strerror(errno));
    else if (!door_watch(d, &p->watch, EPOLL_CTL_ADD, EPOLLOUT))
        door_pending_fail(d, p, false, strerror(errno));
}

void door_dial_all(struct door *d)
{
    struct dial *all = atomic_exchange_explicit(&d->dials, NULL, memory_order_acquire);

    while (all) {
        struct dial *next = all->next;
        dial_one(d, all);
        free(all);
        all = next;
    }
}
