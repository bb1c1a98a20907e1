#include "base/clock.h"
#include "base/say.h"
#include "mem/shm_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_WAIT_NS_MIN 1000000u
#define CONNECT_WAIT_NS_MAX 50000000u
#define HELLO_WAIT_NS 5000000000u
#define FETCH_AGAIN_NS 20000000u
#define WARN_AGAIN_NS 10000000000u

enum { FDS_PER_MESSAGE_MAX = 8, MESSAGES_PER_TURN_MAX = 64 };

struct shm_message message_of(const struct shm *s, enum shm_message_type type)
{
    struct shm_message m;

    memset(&m, 0, sizeof m);
    m.magic = SHM_WIRE_MAGIC;
    m.version = SHM_WIRE_VERSION;
    m.type = (uint16_t)type;
    m.node = s->mem.self;
    m.incarnation = s->mem.incarnation;
    return m;
}

void helper_warn(struct helper *h, const char *fmt, ...)
{
    char text[ERR_TEXT_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    /* A caller that is refused comes again; saying it once a while is enough. */
    if (strcmp(text, h->last_warning) == 0 && h->now_ns < h->last_warning_ns + WARN_AGAIN_NS)
        return;
    memcpy(h->last_warning, text, sizeof text);
    h->last_warning_ns = h->now_ns;
    say_warn("%s", text);
}

void helper_wake(struct shm *s)
{
    uint64_t one = 1;

    if (s->helper && write(s->helper->event_fd, &one, sizeof one) < 0) {
        /* The counter is full, so the helper is awake anyway. */
    }
}

void connection_send(struct helper *h, struct connection *c, const struct shm_message *m, int fd)
{
    struct outgoing *o = malloc(sizeof *o);

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

static void connection_add(struct helper *h, int fd, struct peer *target)
{
    struct connection *c = h->count < SHM_CONNECTIONS_MAX ? calloc(1, sizeof *c) : NULL;

    if (!c) {
        helper_warn(h, "%s: too many connections, or no memory for one more", h->s->self->name);
        close(fd);
        return;
    }
    c->fd = fd;
    c->target = target;
    c->queue_tail = &c->queue;
    /* Whom we call may be stopped, and has our hello when it goes on. Who calls has no excuse. */
    c->end_by_ns = target ? UINT64_MAX : h->now_ns + HELLO_WAIT_NS;
    h->connections[h->count++] = c;
    struct shm_message m = message_of(h->s, SHM_HELLO);
    m.role = h->s->self->role;
    memcpy(m.cluster, h->s->cluster, sizeof m.cluster);
    memcpy(m.name, h->s->self->name, sizeof m.name);
    connection_send(h, c, &m, -1);
}

/* The peer's present life is known to have ended. */
static void take_end(struct helper *h, struct peer *p)
{
    if (p->pidfd >= 0)
        close(p->pidfd);
    p->pidfd = -1;
    if (atomic_load(&p->lives_over) < p->incarnation)
        atomic_store(&p->lives_over, p->incarnation);
    p->connect_wait_ns = 0; /* it may be back soon */
    p->connect_at_ns = h->now_ns;
    h->ring = true;
}

static void connection_end(struct helper *h, uint32_t at)
{
    struct connection *c = h->connections[at];
    struct peer *p = c->peer;

    while (c->queue)
        drop_first(c);
    close(c->fd);
    if (p && --p->connections == 0) {
        p->connect_wait_ns = 0;
        p->connect_at_ns = h->now_ns;
        /* Killed, left in order, or only cut off? A node that lives holds its lock. */
        if (!node_alive(h->s, p->name))
            take_end(h, p);
    }
    free(c);
    h->connections[at] = h->connections[--h->count];
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
    if (bytes <= 0) {
        close_all(fds, count);
        c->doomed = true; /* the other side has closed */
        return false;
    }
    take_message(h, c, buffer, (size_t)bytes, fds, count);
    close_all(fds, count);
    return !c->doomed;
}

void send_own(struct helper *h, struct connection *c)
{
    struct shm *s = h->s;

    if (!c->peer || c->doomed || s->withheld)
        return;
    for (; c->own_sent < s->own_count; c->own_sent++) {
        const struct own_item *o = &s->own[c->own_sent];
        bool hosts_only = o->kind == ITEM_GRANT;
        if (hosts_only && (c->peer->role != SHM_HOST || s->self->role != SHM_HOST))
            continue;
        struct shm_message m = message_of(s, SHM_ITEM);
        m.kind = o->kind;
        m.index = o->index;
        connection_send(h, c, &m, o->fd);
        s->given = true;
    }
    if (s->grant_ready && !c->ready_sent) {
        struct shm_message m = message_of(s, SHM_READY);
        connection_send(h, c, &m, -1);
        c->ready_sent = true;
    }
}

static void send_complaints(struct helper *h)
{
    struct shm *s = h->s;

    for (uint32_t i = 0; i < s->complaints; i++)
        for (uint32_t k = 0; k < h->count; k++) {
            struct connection *c = h->connections[k];
            if (!c->peer || c->doomed || c->peer->node != s->complaint[i].to)
                continue;
            struct shm_message m = message_of(s, SHM_SIZES);
            m.mine = s->complaint[i].mine;
            m.theirs = s->complaint[i].theirs;
            connection_send(h, c, &m, -1);
            break;
        }
    s->complaints = 0;
}

/* Asks all hosts for the memory of one. */
static void ask_hosts(struct helper *h, uint32_t node)
{
    for (uint32_t k = 0; k < h->count; k++) {
        struct connection *c = h->connections[k];
        if (!c->peer || c->doomed || c->peer->role != SHM_HOST || c->peer->node == node)
            continue;
        struct shm_message m = message_of(h->s, SHM_FETCH);
        m.node = node;
        connection_send(h, c, &m, -1);
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

static bool calling(const struct helper *h, const struct peer *p)
{
    for (uint32_t i = 0; i < h->count; i++)
        if (h->connections[i]->target == p)
            return true;
    return false;
}

static bool has_lived(struct shm *s, struct peer *p)
{
    if (!p->losses_map)
        p->losses_map = losses_map(s, p->name);
    return p->losses_map != NULL;
}

static void call_host(struct helper *h, struct peer *p, uint64_t *wake_ns)
{
    if (p == h->s->self || p->connections || calling(h, p))
        return;
    if (h->now_ns >= p->connect_at_ns) {
        int fd = peer_connect(h->s, p->name);
        if (fd >= 0) {
            connection_add(h, fd, p);
        } else if (h->s->self->role == SHM_HOST && p->grant_fd < 0 &&
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

/* Everything there is to do without waiting; returns when there is more at the latest. */
static uint64_t do_work(struct helper *h)
{
    struct shm *s = h->s;
    uint64_t wake_ns = UINT64_MAX;

    for (uint32_t i = 0; i < s->hosts_count; i++) {
        call_host(h, s->hosts[i], &wake_ns);
        fetch_wanted(h, s->hosts[i], &wake_ns);
    }
    for (uint32_t i = 0; i < h->count; i++)
        send_own(h, h->connections[i]);
    take_acks(h);
    send_complaints(h);
    for (uint32_t i = 0; i < h->count; i++) {
        struct connection *c = h->connections[i];
        flush_queue(c);
        if (h->now_ns >= c->end_by_ns)
            c->doomed = true;
        else if (c->end_by_ns < wake_ns)
            wake_ns = c->end_by_ns;
    }
    for (uint32_t i = h->count; i-- > 0;)
        if (h->connections[i]->doomed) {
            connection_end(h, i);
            wake_ns = h->now_ns; /* there is somebody to call again */
        }
    return wake_ns;
}

struct waits {
    struct pollfd fds[2 + SHM_CONNECTIONS_MAX + SHM_NODES_MAX];
    struct peer *peers[SHM_NODES_MAX]; /* of the pidfds */
    uint32_t pidfds;
};

/* The order in fds: listening socket, event, connections, pidfds. */
static nfds_t fill_waits(struct helper *h, struct waits *w)
{
    nfds_t n = 0;

    w->fds[n++] = (struct pollfd){.fd = h->listen_fd, .events = POLLIN};
    w->fds[n++] = (struct pollfd){.fd = h->event_fd, .events = POLLIN};
    for (uint32_t i = 0; i < h->count; i++)
        w->fds[n++] =
            (struct pollfd){.fd = h->connections[i]->fd,
                            .events = (short)(POLLIN | (h->connections[i]->queue ? POLLOUT : 0))};
    w->pidfds = 0;
    for (uint32_t node = 0; node < SHM_NODES_MAX; node++) {
        struct peer *p = peer_of(h->s, node);
        if (!p || p->pidfd < 0)
            continue;
        w->peers[w->pidfds++] = p;
        w->fds[n++] = (struct pollfd){.fd = p->pidfd, .events = POLLIN};
    }
    return n;
}

static void take_events(struct helper *h, struct waits *w)
{
    uint32_t count = h->count;
    uint64_t drained;

    for (uint32_t i = 0; i < count; i++)
        if (w->fds[2 + i].revents & (POLLIN | POLLHUP | POLLERR))
            for (int k = 0; k < MESSAGES_PER_TURN_MAX && receive_one(h, h->connections[i]); k++)
                ;
    for (uint32_t i = 0; i < w->pidfds; i++)
        if (w->fds[2 + count + i].revents && w->peers[i]->pidfd == w->fds[2 + count + i].fd)
            take_end(h, w->peers[i]);
    if (w->fds[1].revents && read(h->event_fd, &drained, sizeof drained) < 0) {
        /* Nothing to drain. */
    }
    if (w->fds[0].revents)
        for (int fd; (fd = accept4(h->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;)
            connection_add(h, fd, NULL);
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
    struct waits *w = h->waits;

    /* Batch threads do not preempt others when they wake: a poller that spins is not held up by its own
     * helper, nor, when a process is killed, by the dead one's helper coming to its end. */
    struct sched_param batch = {0};
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &batch);
    while (!atomic_load(&h->stop)) {
        pthread_mutex_lock(&s->lock);
        h->now_ns = clock_now_ns();
        uint64_t wake_ns = do_work(h);
        nfds_t n = fill_waits(h, w);
        pthread_mutex_unlock(&s->lock);
        ring_self(h);

        uint64_t wait_ns = wake_ns > h->now_ns ? wake_ns - h->now_ns : 0;
        struct timespec t = {.tv_sec = (time_t)(wait_ns / 1000000000u),
                             .tv_nsec = (long)(wait_ns % 1000000000u)};
        if (ppoll(w->fds, n, wake_ns == UINT64_MAX ? NULL : &t, NULL) < 0)
            continue;
        pthread_mutex_lock(&s->lock);
        h->now_ns = clock_now_ns();
        take_events(h, w);
        pthread_mutex_unlock(&s->lock);
        ring_self(h);
    }
    return NULL;
}

int helper_start(struct shm *s, int listen_fd, struct err *e)
{
    struct helper *h = calloc(1, sizeof *h);
    struct waits *w = calloc(1, sizeof *w);
    sigset_t all, before;

    if (!h || !w) {
        free(h);
        free(w);
        close(listen_fd);
        return err_set(e, ERR_NOMEM, "open node %s: no memory", s->self->name);
    }
    h->s = s;
    h->waits = w;
    h->listen_fd = listen_fd;
    h->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->helper = h;
    if (h->event_fd < 0)
        return err_sys(e, "open node %s: eventfd", s->self->name);
    /* Signals are the caller's business: none of them may land in our thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = pthread_create(&h->thread, NULL, helper_main, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
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
    for (uint32_t i = 0; i < h->count; i++) {
        while (h->connections[i]->queue)
            drop_first(h->connections[i]);
        close(h->connections[i]->fd);
        free(h->connections[i]);
    }
    if (h->event_fd >= 0)
        close(h->event_fd);
    if (h->listen_fd >= 0)
        close(h->listen_fd);
    free(h->spare);
    free(h->waits);
    free(h);
    s->helper = NULL;
}
