#include "base/clock.h"
#include "base/say.h"
#include "mem/shm/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_WAIT_NS_MIN 1000000u
#define CONNECT_WAIT_NS_MAX 50000000u
#define HELLO_WAIT_NS 5000000000u
#define FETCH_AGAIN_NS 20000000u
#define LISTEN_AGAIN_NS 100000000u

enum {
    FDS_PER_MESSAGE_MAX = 8,
    MESSAGES_PER_TURN_MAX = 64,
    EVENTS_PER_TURN_MAX = 256,
    ACCEPTED_PER_TURN_MAX = 1024,
    ENDED_QUEUED_MAX = 64, /* messages that wait before no more of what was let go are added */
    HELPER_STACK_BYTES = 1 << 20
};

struct shm_message message_of(const struct shm *s, enum shm_message_type type)
{
    struct shm_message m;

    memset(&m, 0, sizeof m);
    m.magic = SHM_WIRE_MAGIC;
    m.version = SHM_WIRE_VERSION;
    m.type = (uint16_t)type;
    m.node = s->mem.self;
    m.life = s->mem.life;
    return m;
}

void helper_warn(struct helper *h, const char *fmt, ...)
{
    char text[ERR_TEXT_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (h->s->mem.hostile && !trust_speaks(h->s, h->now_ns))
        return;
    /* A caller that is refused comes again. */
    say_once(&h->heard, &h->s->say, SAY_WARN, "%s", text);
}

void helper_wake(struct shm *s)
{
    uint64_t one = 1;

    if (s->helper && write(s->helper->event_fd, &one, sizeof one) < 0) {
        /* The counter is full, so the helper is awake anyway. */
    }
}

void connection_busy(struct helper *h, struct connection *c)
{
    if (c->busy)
        return;
    c->busy = true;
    c->next_busy = h->busy;
    h->busy = c;
}

void connection_send(struct helper *h, struct connection *c, const struct shm_message *m, int fd)
{
    struct outgoing *o = malloc(sizeof *o);

    connection_busy(h, c);
    if (c->queued >= SHM_QUEUE_MAX || !o) {
        if (o)
            helper_warn(h, "%s: %s does not read its messages; connection closed", h->s->self->name,
                        c->peer ? c->peer->name : "a caller");
        else
            helper_warn(h, "%s: no memory for messages; connection closed", h->s->self->name);
        c->doomed = true;
        free(o);
        return;
    }
    o->next = NULL;
    o->message = *m;
    o->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0 && o->fd < 0) {
        helper_warn(h, "%s: no descriptors left to hand on memory; see ulimit -n",
                    h->s->self->name);
        c->doomed = true;
        free(o);
        return;
    }
    *c->queue_tail = o;
    c->queue_tail = &o->next;
    c->queued++;
}

static void drop_first(struct connection *c)
{
    struct outgoing *o = c->queue;

    c->queue = o->next;
    if (!c->queue)
        c->queue_tail = &c->queue;
    c->queued--;
    if (o->fd >= 0)
        close(o->fd);
    free(o);
}

static ssize_t send_one(int fd, const struct outgoing *o)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {.iov_base = (void *)(uintptr_t)&o->message, .iov_len = sizeof o->message};
    struct msghdr m = {.msg_iov = &data, .msg_iovlen = 1};

    if (o->fd >= 0) {
        memset(&control, 0, sizeof control);
        m.msg_control = &control;
        m.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &o->fd, sizeof(int));
    }
    return sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void flush_queue(struct connection *c)
{
    while (c->queue) {
        if (send_one(c->fd, c->queue) < 0) {
            if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
                return;
            while (c->queue)
                drop_first(c);
            c->doomed = true;
            return;
        }
        drop_first(c);
    }
}

/* What the epoll instance tells with an event: a connection, or a peer whose pidfd it is (the lowest bit
 * set), or one of these. */
enum { EVENT_WAKE = 2, EVENT_LISTEN = 4 };

static bool watch(struct helper *h, int op, int fd, uint32_t events, uint64_t what)
{
    struct epoll_event e = {.events = events, .data.u64 = what};

    return epoll_ctl(h->epoll_fd, op, fd, &e) == 0;
}

/* Out of the epoll instance first: a process that was forked may keep it open. */
static void unwatch_and_close(struct helper *h, int fd)
{
    watch(h, EPOLL_CTL_DEL, fd, 0, 0);
    close(fd);
}

void watch_end(struct helper *h, struct peer *p, int pidfd)
{
    if (p->pidfd >= 0)
        unwatch_and_close(h, p->pidfd);
    p->pidfd = pidfd;
    if (pidfd >= 0)
        watch(h, EPOLL_CTL_ADD, pidfd, EPOLLIN, (uint64_t)(uintptr_t)p | 1);
}

static void connection_add(struct helper *h, int fd, struct peer *target)
{
    struct peer *from = h->s->mem.hostile ? trust_caller(h, fd, target) : NULL;

    if (h->s->mem.hostile && !from) {
        close(fd);
        return;
    }
    struct connection *c = h->count < SHM_CONNECTIONS_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c || !watch(h, EPOLL_CTL_ADD, fd, EPOLLIN, (uint64_t)(uintptr_t)c)) {
        helper_warn(h, "%s: too many connections", h->s->self->name);
        free(c);
        close(fd);
        return;
    }
    c->fd = fd;
    c->target = target;
    c->from = from;
    if (from)
        from->trust.links++;
    if (target)
        target->called = true;
    else
        h->ending++;
    c->queue_tail = &c->queue;
    /* Whom we call may be stopped, and has our hello when it goes on. Who calls has no excuse. */
    c->end_by_ns = target ? UINT64_MAX : h->now_ns + HELLO_WAIT_NS;
    c->next = h->connections;
    c->at = &h->connections;
    if (c->next)
        c->next->at = &c->next;
    h->connections = c;
    h->count++;
    struct shm_message m = message_of(h->s, SHM_HELLO);
    m.role = h->s->self->role;
    memcpy(m.cluster, h->s->cluster, sizeof m.cluster);
    memcpy(m.name, h->s->self->name, sizeof m.name);
    connection_send(h, c, &m, -1);
}

/* The peer's present life is known to have ended. */
static void take_end(struct helper *h, struct peer *p)
{
    watch_end(h, p, -1);
    if (atomic_load(&p->lives_over) < p->lives)
        atomic_store(&p->lives_over, p->lives);
    p->connect_wait_ns = 0; /* it may be back soon */
    p->connect_at_ns = h->now_ns;
    h->ring = true;
    if (p->role == SHM_CLIENT && p->connections == 0)
        take_gone(h, p); /* its place may stay empty, and its rings are many */
}

/* Nobody else knows of it any more. */
static void connection_free(struct helper *h, struct connection *c)
{
    while (c->queue)
        drop_first(c);
    unwatch_and_close(h, c->fd);
    if (c->target)
        c->target->called = false;
    if (c->from)
        c->from->trust.links--;
    if (c->end_by_ns != UINT64_MAX)
        h->ending--;
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    h->count--;
    free(c);
}

static void forget_connection(struct peer *p, const struct connection *c)
{
    uint32_t i = 0;

    while (p->connection[i] != c)
        i++;
    p->connection[i] = p->connection[--p->connections];
}

/* A node that lives holds its lock; of one that may lie the kernel tells. */
static bool is_alive(struct helper *h, const struct peer *p)
{
    struct pollfd now = {.fd = p->pidfd, .events = POLLIN};

    return h->s->mem.hostile ? p->pidfd >= 0 && poll(&now, 1, 0) == 0 : node_alive(h->s, p->name);
}

static void connection_end(struct helper *h, struct connection *c)
{
    struct peer *p = c->peer;

    if (p)
        forget_connection(p, c);
    if (p && p->connections == 0) {
        p->connect_wait_ns = 0;
        p->connect_at_ns = h->now_ns;
        /* Killed, left in order, or only cut off? */
        if (!is_alive(h, p))
            take_end(h, p);
    }
    connection_free(h, c);
}

static void close_all(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

/* Reads one message; false if there is none. */
static bool receive_one(struct helper *h, struct connection *c)
{
    char buffer[sizeof(struct shm_message) + 1];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(FDS_PER_MESSAGE_MAX * sizeof(int))];
    } control;
    struct iovec data = {.iov_base = buffer, .iov_len = sizeof buffer};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control.bytes};
    ssize_t bytes = recvmsg(c->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    int fds[FDS_PER_MESSAGE_MAX], count = 0;
    if (bytes >= 0)
        for (struct cmsghdr *k = CMSG_FIRSTHDR(&m); k; k = CMSG_NXTHDR(&m, k))
            if (k->cmsg_level == SOL_SOCKET && k->cmsg_type == SCM_RIGHTS) {
                count = (int)((k->cmsg_len - CMSG_LEN(0)) / sizeof(int));
                memcpy(fds, CMSG_DATA(k), (size_t)count * sizeof(int));
            }
    if (h->s->mem.hostile && (!trust_takes(h, c, fds, count) || !trust_pays(h, c, TRUST_MESSAGE))) {
        c->doomed = true; /* with what it sent left open, which is little */
        return false;
    }
    if (bytes <= 0) {
        close_all(fds, count);
        c->doomed = true; /* the other side has closed */
        return false;
    }
    take_message(h, c, buffer, (size_t)bytes, fds, count);
    close_all(fds, count);
    return !c->doomed;
}

/* Segments that the peer has not had, and what there is new in the last that it has. */
static void send_outlet(struct helper *h, struct connection *c, const struct outlet *o)
{
    const struct segment *list[SHM_SEGMENTS_MAX];
    struct shm_message m = message_of(h->s, SHM_ITEM);

    if (c->parts_sent == o->parts)
        return;
    for (const struct segment *g = o->segments; g; g = g->next)
        list[g->index] = g;
    if (c->segments_sent > 0 &&
        list[c->segments_sent - 1]->first + list[c->segments_sent - 1]->parts > c->parts_sent) {
        m.type = SHM_PARTS;
        m.index = c->segments_sent - 1;
        m.parts = list[m.index]->first + list[m.index]->parts;
        connection_send(h, c, &m, -1);
    }
    m.type = SHM_ITEM;
    m.kind = ITEM_SEGMENT;
    for (; c->segments_sent < o->count; c->segments_sent++) {
        const struct segment *g = list[c->segments_sent];
        m.index = g->index;
        m.parts = g->first + g->parts;
        connection_send(h, c, &m, g->fd);
    }
    c->parts_sent = o->parts;
}

void send_own(struct helper *h, struct connection *c)
{
    struct shm *s = h->s;

    if (!c->peer || c->doomed || s->withheld)
        return;
    for (; c->own_sent < s->own_count; c->own_sent++) {
        const struct own_item *o = &s->own[c->own_sent];
        bool hosts_only = o->kind == ITEM_GRANT;
        if (hosts_only && c->peer->role != SHM_HOST)
            continue;
        struct shm_message m = message_of(s, SHM_ITEM);
        m.kind = o->kind;
        connection_send(h, c, &m, o->fd);
        s->given = true;
    }
    send_outlet(h, c, outlet_of(s, c->peer));
    if (s->grant_ready && !c->ready_sent) {
        struct shm_message m = message_of(s, SHM_READY);
        connection_send(h, c, &m, -1);
        c->ready_sent = true;
    }
}

static void send_complaints(struct helper *h)
{
    struct shm *s = h->s;

    for (uint32_t i = 0; i < s->complaints; i++) {
        const struct peer *to = peer_of(s, s->complaint[i].to);
        if (!to || to->connections == 0)
            continue;
        struct shm_message m = message_of(s, SHM_SIZES);
        m.mine = s->complaint[i].mine;
        m.theirs = s->complaint[i].theirs;
        connection_send(h, to->connection[0], &m, -1);
    }
    s->complaints = 0;
}

/* Asks all hosts for the memory of one. */
static void ask_hosts(struct helper *h, uint32_t node)
{
    for (uint32_t i = 0; i < h->s->hosts_count; i++) {
        const struct peer *p = h->s->hosts[i];
        struct shm_message m = message_of(h->s, SHM_FETCH);
        m.node = node;
        for (uint32_t k = 0; p->node != node && k < p->connections; k++)
            if (!p->connection[k]->doomed)
                connection_send(h, p->connection[k], &m, -1);
    }
}

/* Gets what the poller waits for, or gives up after a while. Lowers *wake_ns to when to go on. */
static void fetch_wanted(struct helper *h, struct peer *w, uint64_t *wake_ns)
{
    uint64_t wanted = atomic_load_explicit(&w->wanted, memory_order_acquire);

    if (wanted <= w->held_version) {
        w->fetch_until_ns = 0;
        return;
    }
    if (!w->fetch_until_ns) {
        w->fetch_until_ns = h->now_ns + h->s->answer_timeout_ns;
        w->fetch_next_ns = h->now_ns;
    }
    if (h->now_ns >= w->fetch_until_ns) {
        w->fetch_until_ns = 0;
        atomic_store(&w->wanted, 0);
        atomic_fetch_add(&w->fetch_failures, 1);
        h->ring = true;
        return;
    }
    if (h->now_ns >= w->fetch_next_ns) {
        ask_hosts(h, w->node);
        w->fetch_next_ns = h->now_ns + FETCH_AGAIN_NS;
    }
    if (w->fetch_next_ns < *wake_ns)
        *wake_ns = w->fetch_next_ns;
}

static bool has_lived(struct shm *s, struct peer *p)
{
    if (p->lock_fd < 0)
        p->lock_fd = losses_open(s, p->name);
    return p->lock_fd >= 0;
}

/* A client that outlives its cluster is no client of the next one. */
static bool client_is_over(struct helper *h)
{
    struct shm *s = h->s;

    if (s->self->role == SHM_HOST || !cluster_is_over(s))
        return false;
    atomic_store(&s->over, true);
    h->ring = true;
    return true;
}

static void call_host(struct helper *h, struct peer *p, uint64_t *wake_ns)
{
    if (p == h->s->self || p->connections || p->called || atomic_load(&h->s->over))
        return;
    if (h->now_ns >= p->connect_at_ns) {
        int fd = client_is_over(h) ? -1 : peer_connect(h->s, p->name);
        if (fd >= 0) {
            connection_add(h, fd, p);
        } else if (h->s->self->role == SHM_HOST && !h->s->mem.hostile && p->grant_fd < 0 &&
                   p->connect_wait_ns == CONNECT_WAIT_NS_MAX && has_lived(h->s, p)) {
            ask_hosts(h, p->node); /* it died before we came, and others may have its memory */
        }
        p->connect_wait_ns = p->connect_wait_ns ? 2 * p->connect_wait_ns : CONNECT_WAIT_NS_MIN;
        if (p->connect_wait_ns > CONNECT_WAIT_NS_MAX)
            p->connect_wait_ns = CONNECT_WAIT_NS_MAX;
        p->connect_at_ns = h->now_ns + p->connect_wait_ns;
    }
    if (p->connect_at_ns < *wake_ns)
        *wake_ns = p->connect_at_ns;
}

/* Finds who has to be told something new. */
static void spread_news(struct helper *h)
{
    struct shm *s = h->s;

    if (s->own_news || s->grant_ready != h->ready)
        for (struct connection *c = h->connections; c; c = c->next)
            connection_busy(h, c);
    s->own_news = false;
    h->ready = s->grant_ready;
    for (; s->news; s->news = s->news->next_news) {
        s->news->out_news = false;
        for (uint32_t i = 0; i < s->news->connections; i++)
            connection_busy(h, s->news->connection[i]);
    }
    send_complaints(h);
}

/* Who called and has not said who it is in time is cut off; others are to be called anew. */
static void look_at_ending(struct helper *h, uint64_t *wake_ns)
{
    for (struct connection *c = h->connections; c && h->ending > 0; c = c->next) {
        if (h->now_ns >= c->end_by_ns) {
            c->doomed = true;
            connection_busy(h, c);
        } else if (c->end_by_ns < *wake_ns) {
            *wake_ns = c->end_by_ns;
        }
    }
}

/* Tells the peer what we have let go of all that it has ended. */
static void send_ended(struct helper *h, struct connection *c)
{
    struct shm_message m = message_of(h->s, SHM_ENDED);

    /* What does not fit now is sent when the queue is empty again: then it can be written to. */
    while (c->peer && !c->doomed && c->queued < ENDED_QUEUED_MAX &&
           c->ended_sent < c->peer->agreements_count) {
        const struct agreement *a = &c->peer->agreements[c->ended_sent++];
        m.life = a->life;
        m.parts = a->part;
        if (a->life != c->life)
            continue;
        connection_send(h, c, &m, -1);
        flush_queue(c);
    }
}

/* Sends what there is to send. True if the connection is over. */
static bool attend(struct helper *h, struct connection *c)
{
    send_own(h, c);
    send_ack(h, c);
    flush_queue(c);
    send_ended(h, c);
    bool writes = c->queue != NULL;
    if (writes != c->writes)
        watch(h, EPOLL_CTL_MOD, c->fd, EPOLLIN | (writes ? EPOLLOUT : 0), (uint64_t)(uintptr_t)c);
    c->writes = writes;
    return c->doomed;
}

/* Everything there is to do without waiting; returns when there is more at the latest. */
static uint64_t do_work(struct helper *h)
{
    struct shm *s = h->s;
    uint64_t wake_ns = UINT64_MAX;

    for (uint32_t i = 0; i < s->hosts_count; i++) {
        call_host(h, s->hosts[i], &wake_ns);
        fetch_wanted(h, s->hosts[i], &wake_ns);
    }
    spread_news(h);
    look_at_ending(h, &wake_ns);
    while (h->busy) {
        struct connection *c = h->busy;
        h->busy = c->next_busy;
        bool over = attend(h, c);
        c->busy = false;
        if (over) {
            connection_end(h, c);
            wake_ns = h->now_ns; /* there is somebody to call again */
        }
    }
    if (h->listen_at_ns && h->now_ns >= h->listen_at_ns) {
        h->listen_at_ns = 0;
        watch(h, EPOLL_CTL_ADD, h->listen_fd, EPOLLIN, EVENT_LISTEN);
    }
    if (h->listen_at_ns && h->listen_at_ns < wake_ns)
        wake_ns = h->listen_at_ns;
    return wake_ns;
}

static void accept_all(struct helper *h)
{
    int fd = -1;

    for (int i = 0; i < ACCEPTED_PER_TURN_MAX; i++) {
        fd = accept4(h->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            break;
        connection_add(h, fd, NULL);
    }
    if (fd >= 0)
        return;
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
        return;
    /* Who waits there would wake us without end. */
    helper_warn(h,
                "%s: cannot take another connection: %s; a host needs two descriptors for each "
                "client, see ulimit -n",
                h->s->self->name, strerror(errno));
    watch(h, EPOLL_CTL_DEL, h->listen_fd, 0, EVENT_LISTEN);
    h->listen_at_ns = h->now_ns + LISTEN_AGAIN_NS;
}

static void take_event(struct helper *h, const struct epoll_event *e)
{
    uint64_t drained;

    if (e->data.u64 == EVENT_WAKE) {
        if (read(h->event_fd, &drained, sizeof drained) < 0) {
            /* Nothing to drain. */
        }
    } else if (e->data.u64 == EVENT_LISTEN) {
        accept_all(h);
    } else if (e->data.u64 & 1) {
        struct peer *p = (struct peer *)(uintptr_t)(e->data.u64 & ~UINT64_C(1));
        struct pollfd now = {.fd = p->pidfd, .events = POLLIN};
        if (poll(&now, 1, 0) == 1) /* it may have begun another life in the same turn */
            take_end(h, p);
    } else {
        struct connection *c = (struct connection *)(uintptr_t)e->data.u64;
        connection_busy(h, c); /* it is freed only when nobody waits for it any more */
        if (e->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            for (int k = 0; k < MESSAGES_PER_TURN_MAX && receive_one(h, c); k++)
                ;
    }
}

/* Tells the poller that there is news. Without the lock: a poller that finds it taken goes on, and is
 * to look again. */
static void ring_self(struct helper *h)
{
    if (h->ring)
        bell_ring(h->s->self->bell);
    h->ring = false;
}

static void *helper_main(void *arg)
{
    struct helper *h = arg;
    struct shm *s = h->s;
    struct epoll_event events[EVENTS_PER_TURN_MAX];

    /* Batch threads do not preempt others when they wake: a poller that spins is not held up by its own
     * helper, nor, when a process is killed, by the dead one's helper coming to its end. */
    struct sched_param batch = {0};
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &batch);
    while (!atomic_load(&h->stop)) {
        pthread_mutex_lock(&s->lock);
        h->now_ns = clock_now_ns();
        uint64_t wake_ns = do_work(h);
        pthread_mutex_unlock(&s->lock);
        ring_self(h);

        uint64_t wait_ns = wake_ns > h->now_ns ? wake_ns - h->now_ns : 0;
        int wait_ms = wake_ns == UINT64_MAX ? -1 : (int)((wait_ns + 999999) / 1000000);
        int n = epoll_wait(h->epoll_fd, events, EVENTS_PER_TURN_MAX, wait_ms);
        pthread_mutex_lock(&s->lock);
        h->now_ns = clock_now_ns();
        for (int i = 0; i < n; i++)
            take_event(h, &events[i]);
        pthread_mutex_unlock(&s->lock);
        ring_self(h);
    }
    return NULL;
}

/* What the helper waits on, and the memory of that. */
static int helper_prepare(struct helper *h, struct err *e)
{
    const char *name = h->s->self->name;

    h->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (h->event_fd < 0 || h->epoll_fd < 0)
        return err_sys(e, "open node %s: descriptors for its helper thread (see ulimit -n)", name);
    if (!watch(h, EPOLL_CTL_ADD, h->event_fd, EPOLLIN, EVENT_WAKE) ||
        (h->listen_fd >= 0 && !watch(h, EPOLL_CTL_ADD, h->listen_fd, EPOLLIN, EVENT_LISTEN)))
        return err_sys(e, "open node %s: epoll", name);
    return 0;
}

int helper_start(struct shm *s, int listen_fd, struct err *e)
{
    struct helper *h = calloc(1, sizeof *h);
    pthread_attr_t attr;
    sigset_t all, before;

    if (!h) {
        if (listen_fd >= 0)
            close(listen_fd);
        return err_set(e, ERR_NOMEM, "open node %s: no memory", s->self->name);
    }
    h->s = s;
    h->listen_fd = listen_fd;
    s->helper = h;
    int rc = helper_prepare(h, e);
    if (rc < 0)
        return rc;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, HELPER_STACK_BYTES);
    /* Signals are the caller's business: none of them may land in our thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = pthread_create(&h->thread, &attr, helper_main, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (errno)
        return err_sys(e, "open node %s: start the helper thread", s->self->name);
    s->helper_runs = true;
    return 0;
}

void helper_stop(struct shm *s)
{
    struct helper *h = s->helper;

    if (!s->helper_runs)
        return;
    atomic_store(&h->stop, true);
    helper_wake(s);
    pthread_join(h->thread, NULL);
    s->helper_runs = false;
}

void helper_free(struct shm *s)
{
    struct helper *h = s->helper;

    if (!h)
        return;
    while (h->connections)
        connection_free(h, h->connections);
    if (h->event_fd >= 0)
        close(h->event_fd);
    if (h->epoll_fd >= 0)
        close(h->epoll_fd);
    if (h->listen_fd >= 0)
        close(h->listen_fd);
    free(h->spare);
    free(h);
    s->helper = NULL;
}
