/* The thread of the door, and what passes between it and who polls. */
#include "mem/tcp/door_impl.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    BACKLOG = 512,
    EVENTS_A_TURN = 64,
    NICENESS = 5, /* who polls goes first */
};

#define SLICE_NS UINT64_C(100000) /* of a core, the shortest that there is */

bool door_watch(struct door *d, struct watch *w, int how, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = w};

    return epoll_ctl(d->epoll_fd, how, w->fd, &e) == 0;
}

/* ---- what is handed over ---- */

void arrival_free(struct arrival *a)
{
    if (a->fd >= 0)
        close(a->fd);
    tls_end_free(a->end);
    tls_drop(a->tls);
    free(a);
}

void door_hand_over(struct door *d, struct arrival *a)
{
    /* Nobody is woken for a stranger: it is a line of the log, and there may be a thousand a second. */
    bool wakes = a->kind != DOOR_STRANGER;

    a->next = atomic_load_explicit(&d->arrivals, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&d->arrivals, &a->next, a, memory_order_release,
                                                  memory_order_relaxed))
        ;
    if (wakes) /* and *a may be gone */
        far_wake_fd(d->wake_fd);
}

struct arrival *door_take(struct door *d)
{
    if (!d->taken && atomic_load_explicit(&d->arrivals, memory_order_relaxed)) {
        struct arrival *all = atomic_exchange_explicit(&d->arrivals, NULL, memory_order_acquire);
        while (all) {
            struct arrival *next = all->next;
            all->next = d->taken;
            d->taken = all;
            all = next;
        }
    }
    struct arrival *a = d->taken;
    if (a)
        d->taken = a->next;
    if (a && a->kind == DOOR_STRANGER)
        atomic_fetch_sub_explicit(&d->strangers, 1, memory_order_relaxed);
    return a;
}

struct arrival *door_arrival(enum door_kind kind, const struct pending *p, const char *why)
{
    struct arrival *a = calloc(1, sizeof *a);

    if (!a)
        return NULL;
    a->kind = kind;
    a->fd = -1;
    if (p) {
        a->dialed = p->dialed;
        a->host = p->host;
        a->address = p->address;
    }
    snprintf(a->why, sizeof a->why, "%s", why ? why : "");
    return a;
}

/* ---- the thread ---- */

static void keys_look(struct door *d, uint64_t now)
{
    struct err e = {""};

    if (!d->keys || now < d->keys_ns)
        return;
    d->keys_ns = now + DOOR_KEYS_NS;
    struct tls *again = d->keys->again(d->keys_ctx, &e);
    struct arrival *a = again || e.text[0] ? door_arrival(DOOR_KEYS, NULL, e.text) : NULL;
    if (!a) {
        tls_drop(again);
        return;
    }
    if (again) {
        tls_drop(d->tls);
        d->tls = tls_share(again);
    }
    a->tls = again;
    door_hand_over(d, a);
}

static int wait_ms(const struct door *d)
{
    uint64_t now = clock_now_ns(), until = now + DOOR_KEYS_NS;

    if (d->first && d->first->until_ns < until)
        until = d->first->until_ns;
    if (d->rest_until_ns && d->rest_until_ns < until)
        until = d->rest_until_ns;
    if (!d->keys && !d->first && !d->rest_until_ns)
        return -1;
    return until > now ? (int)((until - now) / 1000000 + 1) : 0;
}

static void take_event(struct door *d, struct watch *w, uint32_t events)
{
    struct pending *p = (struct pending *)w;
    uint64_t drained;

    if (w->kind == WATCH_WAKE) {
        if (read(w->fd, &drained, sizeof drained) > 0)
            door_dial_all(d);
    } else if (w->kind == WATCH_LISTENER) {
        door_accept(d, w);
    } else if (w->fd < 0) {
        /* It is over since. */
    } else if (p->connecting) {
        door_connected(d, p);
    } else if (!p->end) {
        door_greeted(d, p);
    } else if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
        door_heard(d, p);
    } else {
        door_shake(d, p);
    }
}

/* sched_setattr(2), which libc does not have. */
struct sched_attributes {
    uint32_t bytes, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

/* As far as we may: handshakes of strangers must not take the time of who polls. A batch thread that wakes does
 * not take the core from anybody; and a short slice (Linux 6.12) ends soon when somebody else wants the core. */
static void stand_back(void)
{
    const struct sched_attributes a = {
        .bytes = sizeof a, .policy = SCHED_BATCH, .nice = NICENESS, .runtime_ns = SLICE_NS};

    if (syscall(SYS_sched_setattr, 0, &a, 0) < 0)
        setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICENESS);
}

static void *run(void *of)
{
    struct door *d = of;
    struct epoll_event event[EVENTS_A_TURN];

    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL); /* they are for who polls */
    stand_back();
    while (!atomic_load_explicit(&d->ends, memory_order_acquire)) {
        int n = epoll_wait(d->epoll_fd, event, EVENTS_A_TURN, wait_ms(d));
        for (int i = 0; i < n; i++)
            take_event(d, event[i].data.ptr, event[i].events);
        uint64_t now = clock_now_ns();
        door_late_ones(d, now);
        if (d->rest_until_ns && now >= d->rest_until_ns)
            door_listen_again(d, true);
        keys_look(d, now);
        door_free_over(d);
    }
    return NULL;
}

/* ---- opening ---- */

static int not_ours(struct err *e, const char *where)
{
    return err_set(e, ERR_NOTFOUND,
                   "%s: this machine does not have the address; `ip address` shows what it has",
                   where);
}

static int listen_on(struct door *d, const struct addrinfo *a, const char *where, struct err *e)
{
    int on = 1, fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct watch *w = &d->listener[d->listeners];

    if (fd < 0 && errno == EAFNOSUPPORT)
        return not_ours(e, where);
    if (fd < 0)
        return err_sys(e, "%s: a socket", where);
    *w = (struct watch){.kind = WATCH_LISTENER, .fd = fd};
    d->listeners++;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        if (errno == EADDRINUSE)
            return err_set(e, ERR_EXISTS, "%s: another process listens there", where);
        if (errno != EADDRNOTAVAIL)
            return err_sys(e, "%s: listen", where);
        close(fd);
        d->listeners--;
        return not_ours(e, where);
    }
    return door_watch(d, w, EPOLL_CTL_ADD, EPOLLIN) ? 0 : err_sys(e, "%s: wait", where);
}

static int listen_open(struct door *d, const struct far_host *h, struct err *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    char port[8], where[160];

    snprintf(port, sizeof port, "%u", h->port);
    snprintf(where, sizeof where, "host %.40s at %.100s:%s", h->name, h->address, port);
    int rc = getaddrinfo(h->address, port, &hints, &found);
    if (rc != 0)
        return err_set(e, ERR_NOTFOUND, "%s: %s", where, gai_strerror(rc));
    rc = ERR_NOTFOUND;
    /* A name may have an address that is not to be had: localhost has one of IPv6 where that is off. */
    for (const struct addrinfo *a = found;
         (rc == 0 || rc == ERR_NOTFOUND) && a && d->listeners < LISTENERS_MAX; a = a->ai_next)
        rc = listen_on(d, a, where, e);
    freeaddrinfo(found);
    return rc == ERR_NOTFOUND && d->listeners > 0 ? 0 : rc;
}

int door_open(const struct door_options *o, struct door **out, struct err *e)
{
    struct door *d = calloc(1, sizeof *d);
    struct rlimit limit = {.rlim_cur = 1024};

    if (!d)
        return err_set(e, ERR_NOMEM, "no memory for connections");
    d->tls = tls_share(o->tls);
    d->keys = o->keys;
    d->keys_ctx = o->keys_ctx;
    d->wake_fd = o->wake_fd;
    d->reserved = o->hosts_count + DOOR_RESERVED;
    getrlimit(RLIMIT_NOFILE, &limit);
    d->descriptors = limit.rlim_cur;
    d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    d->wake = (struct watch){.kind = WATCH_WAKE, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    int rc = 0;
    if (d->epoll_fd < 0 || d->wake.fd < 0 || !door_watch(d, &d->wake, EPOLL_CTL_ADD, EPOLLIN))
        rc = err_sys(e, "descriptors for connections");
    if (rc == 0 && o->listen)
        rc = listen_open(d, o->listen, e);
    if (rc == 0 && pthread_create(&d->thread, NULL, run, d) != 0)
        rc = err_set(e, ERR_SYSTEM, "no thread for connections");
    d->running = rc == 0;
    if (rc < 0) {
        door_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

void door_close(struct door *d)
{
    if (!d)
        return;
    atomic_store_explicit(&d->ends, true, memory_order_release);
    if (d->running) {
        far_wake_fd(d->wake.fd);
        pthread_join(d->thread, NULL);
    }
    while (d->first)
        door_pending_end(d, d->first);
    door_free_over(d);
    for (struct arrival *a; (a = door_take(d)) != NULL;)
        arrival_free(a);
    struct dial *dial = atomic_load(&d->dials);
    while (dial) {
        struct dial *next = dial->next;
        free(dial);
        dial = next;
    }
    for (int i = 0; i < d->listeners; i++)
        close(d->listener[i].fd);
    if (d->epoll_fd >= 0)
        close(d->epoll_fd);
    if (d->wake.fd >= 0)
        close(d->wake.fd);
    tls_drop(d->tls);
    free(d);
}

struct tcp_counts door_counts(const struct door *d)
{
    uint64_t c[COUNTS];

    for (int i = 0; i < COUNTS; i++)
        c[i] = atomic_load_explicit(&d->counts[i], memory_order_relaxed);
    return (struct tcp_counts){.accepted = c[COUNT_ACCEPTED],
                               .met = c[COUNT_MET],
                               .strangers = c[COUNT_STRANGERS],
                               .late = c[COUNT_LATE],
                               .crowded = c[COUNT_CROWDED],
                               .no_room = c[COUNT_NO_ROOM]};
}
