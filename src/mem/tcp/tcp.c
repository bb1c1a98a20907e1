/* What a node is beside what all that go over a network are. */
#include "mem/tcp/tcp.h"

#include "base/clock.h"
#include "base/hash.h"
#include "mem/tcp/impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static struct tcp *node_of(struct mem *m)
{
    return tcp_of(far_of(m));
}

/* ---- polling ---- */

/* A link that cannot go on. Of who has not become one of us there is somebody to be told. */
static void give_up(struct tcp_link *l)
{
    struct link *link = &l->link;

    if (!link->dialed && link->state != LINK_UP && !link->ended)
        far_stranger_say(link->node, (const struct sockaddr *)&l->address, link->fault);
    link_close(link, link->ended, link->fault);
}

static void drain_wakes(const struct tcp *t)
{
    uint64_t count;

    if (read(t->wake_fd, &count, sizeof count) < 0) {
        /* Somebody else was faster; it is read by nobody but us. */
    }
}

/* Takes what has come. Returns how much. */
static int receive_all(struct tcp *t)
{
    struct epoll_event *event = t->event;
    int n = t->waited == WAITED_NOT ? epoll_wait(t->epoll_fd, event, EVENTS, 0) : t->waited;

    t->waited = WAITED_NOT;
    for (int i = 0; i < n; i++) {
        struct tcp_link *l = event[i].data.ptr;
        if (!l) {
            drain_wakes(t);
            continue;
        }
        if (l->link.state == LINK_CLOSED)
            continue;
        if (event[i].events & EPOLLOUT)
            tcp_unblock(l);
        if (event[i].events & ~(uint32_t)EPOLLOUT && !tcp_receive(l))
            give_up(l);
    }
    return n > 0 ? n : 0;
}

static int tcp_poll(struct mem *m)
{
    struct tcp *t = node_of(m);
    struct far *o = &t->far;

    /* What is timed here takes milliseconds. */
    if (o->dozing || o->polls++ % POLLS_PER_CLOCK == 0)
        o->now_ns = clock_now_ns();
    int changes = o->news + (o->dirty ? far_post_all(o) : 0);
    o->news = 0;
    if (o->grave) {
        far_links_free(o);
        t->waited = WAITED_NOT; /* it may name one of these */
    }
    changes += receive_all(t);
    tcp_arrivals_take(o);
    if (o->own_marks)
        changes += far_own_marks_judge(o);
    /* Answers to what has just come in leave with what is written because of it (far_flush), or with the next poll: a
     * send takes as long as all else that is done for a message. */
    if (o->now_ns >= o->chores_ns)
        far_peers_look_after(o);
    if (o->held_back)
        changes += far_places_look_after(o);
    return changes;
}

/* ---- waking, sleeping ---- */

/* What comes in wakes by itself. */
static void tcp_bell_later(struct mem *m, uint32_t node)
{
    (void)m;
    (void)node;
}

static void tcp_bell(struct mem *m, uint32_t node)
{
    struct link *l = far_link_to(far_of(m), node);

    if (l && l->dirty && !l->fault)
        tcp_post(l);
}

/* It says that something is there, and poll takes it. */
static void tcp_wait(struct far *o, uint64_t until_ns)
{
    struct tcp *t = tcp_of(o);
    uint64_t left = until_ns > o->now_ns ? until_ns - o->now_ns : 0;
    struct timespec ts = {.tv_sec = (time_t)(left / 1000000000u),
                          .tv_nsec = (long)(left % 1000000000u)};

    int n = epoll_pwait2(t->epoll_fd, t->event, EVENTS, &ts, NULL);
    t->waited = n < 0 ? WAITED_NOT : n;
}

static void tcp_wake(struct mem *m)
{
    far_wake_fd(node_of(m)->wake_fd);
}

static int tcp_loop_open(struct mem *m, int epoll_fd, struct err *e)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, node_of(m)->epoll_fd, &event) < 0)
        return err_sys(e, "wait for the connections of %s", far_of(m)->name);
    return 0;
}

/* ---- the carrier ---- */

/* Frames name a lane by our number for it; who may is looked up with each (frame.c). */
static bool grant(struct link *l, struct lane *lane, bool writes, struct far_at *at)
{
    (void)l;
    (void)writes;
    at->key = lane->id;
    return true;
}

static void raise_word(struct far *o, uint32_t region, uint64_t ballot, const struct answer *a)
{
    if (far_promised_at(o, region) < ballot)
        far_promise_store(o, region, ballot);
    far_answer(o, region, a);
}

static void tcp_closed(struct far *o)
{
    struct tcp *t = tcp_of(o);

    door_close(t->door);
    if (t->keys)
        t->keys->close(t->keys_ctx);
    tls_drop(t->tls);
    if (t->epoll_fd >= 0)
        close(t->epoll_fd);
    if (t->wake_fd >= 0)
        close(t->wake_fd);
}

static const struct far_carrier carrier = {
    .send = tcp_send,
    .dial = tcp_dial,
    .events = tcp_arrivals_take,
    .post = tcp_post,
    .stop = tcp_stop,
    .freed = tcp_freed,
    .room = tcp_room,
    .sent = tcp_sent,
    .grant = grant,
    .promise = far_promise_store,
    .raise = raise_word,
    .flow_open = tcp_flow_open,
    .flow_closed = tcp_flow_closed,
    .put = tcp_put,
    .set = tcp_set,
    .mark = tcp_mark,
    .read = tcp_read,
    .peek = tcp_peek,
    .poll = tcp_poll,
    .bell = tcp_bell,
    .bell_later = tcp_bell_later,
    .wake = tcp_wake,
    .loop_open = tcp_loop_open,
    .wait = tcp_wait,
    .close = tcp_closed,
};

/* ---- opening ---- */

static int open_sockets(struct tcp *t, const struct tcp_options *p, struct err *e)
{
    struct epoll_event event = {.events = EPOLLIN};

    t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->epoll_fd < 0 || t->wake_fd < 0 ||
        epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, t->wake_fd, &event) < 0)
        return err_sys(e, "descriptors of %s", t->far.name);
    const struct door_options o = {
        .tls = p->tls,
        .keys = p->keys,
        .keys_ctx = p->keys_ctx,
        .listen = t->far.host ? &p->far.hosts[p->far.self] : NULL,
        .hosts_count = p->far.hosts_count,
        .wake_fd = t->wake_fd,
    };
    return door_open(&o, &t->door, e);
}

/* Where all hosts are here, as far as their addresses are known; the door looks at each connection too. */
static int check_clear(const struct tcp *t, struct err *e)
{
    for (uint32_t i = 0; tls_clear(t->tls) && i < t->far.hosts_count; i++) {
        const struct peer *p = t->far.peers[i];
        if (p->address_bytes > 0 && !door_on_loopback(&p->address))
            return err_set(
                e, ERR_REFUSED,
                "cluster %s: host %s at %s is not on the loopback, and clear text is for "
                "that alone",
                t->far.cluster, p->name, p->where);
    }
    return 0;
}

int tcp_open_node(const struct tcp_options *p, struct mem **out, struct err *e)
{
    int rc = far_check(&p->far, e);
    struct tcp *t = rc == 0 ? calloc(1, sizeof *t) : NULL;
    if (!t) {
        if (p->keys)
            p->keys->close(p->keys_ctx);
        return rc ? rc : err_set(e, ERR_NOMEM, "cluster %s: no memory", p->far.cluster);
    }
    t->epoll_fd = t->wake_fd = -1;
    t->waited = WAITED_NOT;
    t->tls = tls_share(p->tls);
    t->keys = p->keys;
    t->keys_ctx = p->keys_ctx;
    t->cluster = hash_bytes(0, p->far.cluster, strlen(p->far.cluster));
    rc = far_begin(&t->far, &p->far, &carrier, e);
    if (rc == 0)
        rc = check_clear(t, e);
    /* The address first: who cannot have it must not count a life. */
    if (rc == 0)
        rc = open_sockets(t, p, e);
    if (rc == 0)
        rc = t->far.host    ? far_listening(&t->far, &p->far, e)
             : t->far.looks ? 0
                            : far_join(&t->far, &p->far, e);
    if (rc < 0) {
        far_free(&t->far);
        return rc;
    }
    *out = &t->far.mem;
    return 0;
}

struct tcp_counts tcp_counts(struct mem *m)
{
    const struct tcp *t = node_of(m);
    struct tcp_counts c = door_counts(t->door);

    c.malformed = t->malformed;
    c.retired = t->retired;
    return c;
}
