#include "mem/tcp/door.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LISTENERS_MAX = 8,
    BACKLOG = 512,
    ACCEPTS_A_TURN = 32,
    EVENTS_A_TURN = 64,
    STRANGERS_WAITING = 32, /* of whom somebody is to be told */
    NICENESS = 5,           /* who polls goes first */
    HELLO_HEAD = 6,         /* the head of a record, and the kind of message */
    HELLO_BYTES_MAX = 4096, /* of the first record; ours have some hundred */
    USER_TIMEOUT_MS = 20000,
};

#define REST_NS UINT64_C(100000000) /* when there is no descriptor */
#define SLICE_NS UINT64_C(100000)   /* of a core, the shortest that there is */

/* What a descriptor of the thread's epoll is. */
enum watch_kind { WATCH_WAKE, WATCH_LISTENER, WATCH_PENDING };

struct watch {
    enum watch_kind kind;
    int fd;
};

/* A connection that is being made. */
struct pending {
    struct watch watch; /* first; its fd is -1 when it is over */
    struct pending *next, *prev;
    bool dialed, connecting, sends;
    uint32_t host;
    int lowest; /* so many bytes are waited for, until the first record is whole */
    uint64_t until_ns;
    struct sockaddr_storage address;
    struct tls_end *end; /* accepted: NULL until there is something for it */
};

struct dial {
    struct dial *next;
    uint32_t host;
    struct sockaddr_storage address;
    socklen_t bytes;
};

enum count {
    COUNT_ACCEPTED,
    COUNT_MET,
    COUNT_STRANGERS,
    COUNT_LATE,
    COUNT_CROWDED,
    COUNT_NO_ROOM,
    COUNTS
};

struct door {
    struct tls *tls; /* of the thread */
    const struct tcp_keys *keys;
    void *keys_ctx;
    int wake_fd; /* of who takes */
    uint32_t reserved;
    uint64_t descriptors;
    pthread_t thread;
    bool running;
    atomic_bool ends;
    int epoll_fd;
    struct watch wake;
    struct watch listener[LISTENERS_MAX];
    int listeners;
    uint64_t rest_until_ns; /* listeners are out of epoll; 0: they are not */
    uint64_t keys_ns;
    struct pending *first, *last; /* the oldest first */
    struct pending *over;         /* to be freed after the turn */
    uint32_t accepted;            /* pending ones that were accepted */

    /* Between the threads: lists that one side pushes to and the other takes whole. */
    _Atomic(struct dial *) dials;
    _Atomic(struct arrival *) arrivals;
    atomic_int strangers;
    _Atomic uint64_t counts[COUNTS];

    struct arrival *taken; /* of who takes: the oldest first */
};

static void count(struct door *d, enum count what)
{
    atomic_fetch_add_explicit(&d->counts[what], 1, memory_order_relaxed);
}

static void wake(int fd)
{
    const uint64_t one = 1;

    if (write(fd, &one, sizeof one) < 0) {
        /* The counter is full, so it is readable anyway. */
    }
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

static void hand_over(struct door *d, struct arrival *a)
{
    /* Nobody is woken for a stranger: it is a line of the log, and there may be a thousand a second. */
    bool wakes = a->kind != DOOR_STRANGER;

    a->next = atomic_load_explicit(&d->arrivals, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&d->arrivals, &a->next, a, memory_order_release,
                                                  memory_order_relaxed))
        ;
    if (wakes) /* and *a may be gone */
        wake(d->wake_fd);
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

static struct arrival *arrival_of(enum door_kind kind, const struct pending *p, const char *why)
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

/* ---- pending connections ---- */

static void unlist(struct door *d, struct pending *p)
{
    *(p->prev ? &p->prev->next : &d->first) = p->next;
    *(p->next ? &p->next->prev : &d->last) = p->prev;
    d->accepted -= !p->dialed;
    p->next = d->over;
    d->over = p;
}

/* It is over; whatever still refers to it in this turn sees that. */
static void pending_end(struct door *d, struct pending *p)
{
    if (p->watch.fd >= 0) {
        /* Not by closing it alone: a child of this process may have it too, and its events would come to nobody. */
        epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, p->watch.fd, NULL);
        shutdown(p->watch.fd, SHUT_RDWR);
        close(p->watch.fd);
    }
    p->watch.fd = -1;
    tls_end_free(p->end);
    p->end = NULL;
    unlist(d, p);
}

/* `refused`: somebody is there, and one of us does not want the other. */
static void pending_fail(struct door *d, struct pending *p, bool refused, const char *why)
{
    struct arrival *a = NULL;

    if (p->dialed)
        a = arrival_of(DOOR_NOT, p, why);
    else if (atomic_load_explicit(&d->strangers, memory_order_relaxed) < STRANGERS_WAITING)
        a = arrival_of(DOOR_STRANGER, p, why);
    if (a) {
        a->refused = refused;
        a->by_other = p->end && tls_told(p->end);
        if (a->kind == DOOR_STRANGER)
            atomic_fetch_add_explicit(&d->strangers, 1, memory_order_relaxed);
        hand_over(d, a);
    }
    pending_end(d, p);
}

static void free_over(struct door *d)
{
    while (d->over) {
        struct pending *p = d->over;
        d->over = p->next;
        free(p);
    }
}

static bool watch_for(struct door *d, struct watch *w, int how, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = w};

    return epoll_ctl(d->epoll_fd, how, w->fd, &e) == 0;
}

static struct pending *pending_new(struct door *d, int fd, bool dialed)
{
    struct pending *p = calloc(1, sizeof *p);
    int on = 1, timeout = USER_TIMEOUT_MS;

    if (!p)
        return NULL;
    p->watch = (struct watch){.kind = WATCH_PENDING, .fd = fd};
    p->dialed = dialed;
    p->until_ns = clock_now_ns() + DOOR_HANDSHAKE_NS;
    p->end = dialed ? tls_end_new(d->tls, false) : NULL;
    if (dialed && !p->end) {
        free(p);
        return NULL;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
    p->prev = d->last;
    *(p->prev ? &p->prev->next : &d->first) = p;
    d->last = p;
    d->accepted += !dialed;
    return p;
}

/* ---- addresses ---- */

bool door_on_loopback(const struct sockaddr_storage *a)
{
    const struct sockaddr_in *v4 = (const void *)a;
    const struct sockaddr_in6 *v6 = (const void *)a;

    if (a->ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return a->ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
            (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127));
}

/* From one machine, as far as can be told: of IPv6 whoever has one address has 2^64. */
static bool same_place(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

    if (a->ss_family != b->ss_family)
        return false;
    return a->ss_family == AF_INET ? a4->sin_addr.s_addr == b4->sin_addr.s_addr
                                   : memcmp(&a6->sin6_addr, &b6->sin6_addr, 8) == 0;
}

static bool ends_of(int fd, struct sockaddr_storage *here, struct sockaddr_storage *there)
{
    socklen_t bytes = sizeof *here;

    if (getsockname(fd, (struct sockaddr *)here, &bytes) < 0)
        return false;
    bytes = sizeof *there;
    return getpeername(fd, (struct sockaddr *)there, &bytes) == 0;
}

/* A dialer may meet itself, if the port that it was given is the one that it dials. */
static bool is_itself(const struct sockaddr_storage *here, const struct sockaddr_storage *there)
{
    const struct sockaddr_in *h4 = (const void *)here, *t4 = (const void *)there;
    const struct sockaddr_in6 *h6 = (const void *)here, *t6 = (const void *)there;

    if (here->ss_family != there->ss_family)
        return false;
    return here->ss_family == AF_INET
               ? h4->sin_port == t4->sin_port && h4->sin_addr.s_addr == t4->sin_addr.s_addr
               : h6->sin6_port == t6->sin6_port &&
                     memcmp(&h6->sin6_addr, &t6->sin6_addr, sizeof h6->sin6_addr) == 0;
}

/* ---- shaking hands ---- */

/* Sends what the handshake has to say. False: later, or never, as errno says. */
static bool flush(struct pending *p)
{
    size_t bytes;

    for (const unsigned char *out; out = tls_out(p->end, &bytes), bytes > 0;) {
        ssize_t n = send(p->watch.fd, out, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return false;
        tls_out_drop(p->end, (size_t)n);
    }
    return true;
}

/* The other side has proven who it is: is it one to be here? NULL: yes. */
static const char *unwelcome(struct door *d, const struct pending *p, struct tls_peer who)
{
    struct sockaddr_storage here, there;

    if (!tls_knows(d->tls, &who)) /* that has changed since the handshake began */
        return "its key is not in the cluster file any more";
    if (p->dialed && (!who.host || who.index != p->host))
        return "who listens there has the key of another";
    if (tls_end_clear(p->end) && (!ends_of(p->watch.fd, &here, &there) ||
                                  !door_on_loopback(&here) || !door_on_loopback(&there)))
        return "clear text is for the loopback alone";
    if (!p->dialed && !who.host && (uint64_t)p->watch.fd + d->reserved >= d->descriptors) {
        count(d, COUNT_NO_ROOM);
        return "no descriptor is left for clients (ulimit -n)";
    }
    return NULL;
}

static void met(struct door *d, struct pending *p)
{
    struct tls_peer who = tls_end_peer(p->end);
    const char *why = unwelcome(d, p, who);
    struct arrival *a = why ? NULL : arrival_of(DOOR_CAME, p, NULL);

    if (!a) {
        pending_fail(d, p, true, why ? why : "no memory");
        return;
    }
    count(d, COUNT_MET);
    epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, p->watch.fd, NULL);
    a->fd = p->watch.fd;
    a->end = p->end;
    a->who = who;
    p->watch.fd = -1;
    p->end = NULL;
    hand_over(d, a);
    pending_end(d, p);
}

static void shake(struct door *d, struct pending *p)
{
    enum tls_step step = tls_handshake(p->end);
    bool sent = flush(p);

    if (step == TLS_FAILED) {
        count(d, COUNT_STRANGERS);
        pending_fail(d, p, true, tls_why(p->end));
    } else if (!sent && errno != EAGAIN && errno != EWOULDBLOCK) {
        pending_fail(d, p, false, strerror(errno));
    } else if (step == TLS_READY && sent) {
        met(d, p);
    } else if (sent == p->sends) { /* else it is waited for what is to be waited for */
        p->sends = !sent;
        if (!watch_for(d, &p->watch, EPOLL_CTL_MOD, EPOLLIN | (sent ? 0 : (uint32_t)EPOLLOUT)))
            pending_fail(d, p, false, strerror(errno));
    }
}

static void connected(struct door *d, struct pending *p)
{
    struct sockaddr_storage here, there;
    int error = 0;
    socklen_t bytes = sizeof error;

    if (getsockopt(p->watch.fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
        error = errno;
    if (error == 0 && !ends_of(p->watch.fd, &here, &there))
        error = errno;
    if (error == 0 && is_itself(&here, &there))
        error = ECONNREFUSED;
    if (error) {
        pending_fail(d, p, false, strerror(error));
        return;
    }
    p->connecting = false;
    p->sends = true; /* that is what it was waited for */
    shake(d, p);
}

static void heard(struct door *d, struct pending *p)
{
    size_t room;
    unsigned char *to = tls_in(p->end, &room);
    ssize_t n = recv(p->watch.fd, to, room, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        shake(d, p);
        return;
    }
    if (n <= 0) {
        pending_fail(d, p, false, n < 0 ? strerror(errno) : "it ended the connection");
        return;
    }
    tls_in_add(p->end, (size_t)n);
    shake(d, p);
}

/* ---- the first record ---- */

/* Waits until there are so many bytes, or it ends. False: that was waited for already, so it has ended. */
static bool wait_for_bytes(struct pending *p, int bytes)
{
    if (p->lowest == bytes)
        return false;
    p->lowest = bytes;
    return setsockopt(p->watch.fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes) == 0;
}

/* So many bytes are needed to go on, by those that are there; 0: they are no beginning of a ClientHello. */
static int hello_bytes(const unsigned char *head, size_t known)
{
    if (head[0] != 0x16 || (known > 1 && head[1] != 0x03))
        return 0;
    if (known < HELLO_HEAD)
        return HELLO_HEAD;
    int bytes = 5 + (head[3] << 8 | head[4]);
    return head[5] == 1 && bytes > HELLO_HEAD && bytes <= HELLO_BYTES_MAX ? bytes : 0;
}

/* Somebody who was accepted says something. Until the whole ClientHello is there, nothing is spent on it but a
 * descriptor: most strangers do not come that far. */
static void greeted(struct door *d, struct pending *p)
{
    unsigned char head[HELLO_HEAD];
    int there = 0, one = 1;
    ssize_t n = recv(p->watch.fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        pending_fail(d, p, false, n < 0 ? strerror(errno) : "it ended the connection");
        return;
    }
    int bytes = hello_bytes(head, (size_t)n);
    if (bytes == 0) {
        count(d, COUNT_STRANGERS);
        pending_fail(d, p, true, "what came is no beginning of TLS");
        return;
    }
    if (ioctl(p->watch.fd, FIONREAD, &there) < 0 || there < bytes) {
        if (!wait_for_bytes(p, bytes))
            pending_fail(d, p, false, "it ended the connection");
        return;
    }
    p->end = tls_end_new(d->tls, true);
    if (!p->end || setsockopt(p->watch.fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one) < 0)
        pending_fail(d, p, false, "no memory");
    else
        heard(d, p);
}

static void late_ones(struct door *d, uint64_t now)
{
    for (struct pending *p = d->first, *next; p; p = next) {
        next = p->next;
        if (now < p->until_ns)
            continue;
        count(d, COUNT_LATE);
        pending_fail(d, p, false,
                     p->connecting ? "no answer"
                     : p->dialed   ? "it did not shake hands in time"
                                   : "it did not prove who it is in time");
    }
}

/* ---- accepting ---- */

static void listen_again(struct door *d, bool on)
{
    for (int i = 0; i < d->listeners; i++)
        watch_for(d, &d->listener[i], on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, EPOLLIN);
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
        if (!same_place(&p->address, from))
            continue;
        own = own ? own : p;
        owns++;
    }
    struct pending *goes = owns >= DOOR_PENDING_ADDRESS  ? own
                           : d->accepted >= DOOR_PENDING ? (own ? own : oldest)
                                                         : NULL;
    if (!goes)
        return;
    count(d, COUNT_CROWDED);
    pending_fail(d, goes, false, "too many connections were begun at once");
}

static void accept_some(struct door *d, const struct watch *w)
{
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        struct sockaddr_storage from = {0};
        socklen_t bytes = sizeof from;
        int fd = accept4(w->fd, (struct sockaddr *)&from, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                count(d, COUNT_NO_ROOM);
                listen_again(d, false);
            }
            return;
        }
        count(d, COUNT_ACCEPTED);
        make_way(d, &from);
        struct pending *p = pending_new(d, fd, false);
        if (!p) {
            close(fd);
            continue;
        }
        p->address = from;
        if (!watch_for(d, &p->watch, EPOLL_CTL_ADD, EPOLLIN))
            pending_fail(d, p, false, strerror(errno));
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
    wake(d->wake.fd);
    return true;
}

static void not_dialed(struct door *d, const struct dial *dial, const char *why)
{
    const struct pending p = {.dialed = true, .host = dial->host, .address = dial->address};
    struct arrival *a = arrival_of(DOOR_NOT, &p, why);

    if (a)
        hand_over(d, a);
}

static void dial_one(struct door *d, const struct dial *dial)
{
    int fd = socket(dial->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pending *p = fd < 0 ? NULL : pending_new(d, fd, true);

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
        pending_fail(d, p, false, strerror(errno));
    else if (!watch_for(d, &p->watch, EPOLL_CTL_ADD, EPOLLOUT))
        pending_fail(d, p, false, strerror(errno));
}

static void dial_all(struct door *d)
{
    struct dial *all = atomic_exchange_explicit(&d->dials, NULL, memory_order_acquire);

    while (all) {
        struct dial *next = all->next;
        dial_one(d, all);
        free(all);
        all = next;
    }
}

/* ---- the thread ---- */

static void keys_look(struct door *d, uint64_t now)
{
    struct err e = {""};

    if (!d->keys || now < d->keys_ns)
        return;
    d->keys_ns = now + DOOR_KEYS_NS;
    struct tls *again = d->keys->again(d->keys_ctx, &e);
    struct arrival *a = again || e.text[0] ? arrival_of(DOOR_KEYS, NULL, e.text) : NULL;
    if (!a) {
        tls_drop(again);
        return;
    }
    if (again) {
        tls_drop(d->tls);
        d->tls = tls_share(again);
    }
    a->tls = again;
    hand_over(d, a);
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
            dial_all(d);
    } else if (w->kind == WATCH_LISTENER) {
        accept_some(d, w);
    } else if (w->fd < 0) {
        /* It is over since. */
    } else if (p->connecting) {
        connected(d, p);
    } else if (!p->end) {
        greeted(d, p);
    } else if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
        heard(d, p);
    } else {
        shake(d, p);
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
        late_ones(d, now);
        if (d->rest_until_ns && now >= d->rest_until_ns)
            listen_again(d, true);
        keys_look(d, now);
        free_over(d);
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
    return watch_for(d, w, EPOLL_CTL_ADD, EPOLLIN) ? 0 : err_sys(e, "%s: wait", where);
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
    if (d->epoll_fd < 0 || d->wake.fd < 0 || !watch_for(d, &d->wake, EPOLL_CTL_ADD, EPOLLIN))
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
        wake(d->wake.fd);
        pthread_join(d->thread, NULL);
    }
    while (d->first)
        pending_end(d, d->first);
    free_over(d);
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
