#include "bench/chain.h"

#include "base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FOLLOWERS = 2, BUFFER_BYTES = 256 << 10 };

#define PATIENCE_NS UINT64_C(10000000000)

/* One end of a connection. */
struct end {
    int fd;
    struct tls_end *tls;
    unsigned char *in;
    size_t in_bytes;
};

struct chain {
    struct end client;              /* client and leader have one each, of the same connection */
    struct end leader[FOLLOWERS];   /* the leader's ends of those to followers, */
    struct end follower[FOLLOWERS]; /* and theirs */
    int epoll_fd;
    uint32_t bytes;
    unsigned char *message;
    uint32_t replied, acked[FOLLOWERS]; /* by the leader, and at it */
};

/* ---- ends ---- */

static bool end_open(struct end *e, int fd, struct tls *tls, bool accepts)
{
    int on = 1;
    e->fd = fd;
    e->tls = tls_end_new(tls, accepts);
    e->in = malloc(BUFFER_BYTES);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return e->tls && e->in;
}

static void end_close(struct end *e)
{
    if (e->fd >= 0)
        close(e->fd);
    tls_end_free(e->tls);
    free(e->in);
}

static bool end_flush(struct end *e)
{
    size_t bytes;
    for (const unsigned char *out; out = tls_out(e->tls, &bytes), bytes > 0;) {
        ssize_t n = send(e->fd, out, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n > 0)
            tls_out_drop(e->tls, (size_t)n);
    }
    return true;
}

static bool end_send(struct end *e, const void *message, uint32_t bytes)
{
    const unsigned char *from = message;
    while (bytes > 0) {
        size_t n = tls_write(e->tls, from, bytes);
        from += n;
        bytes -= (uint32_t)n;
        if (!end_flush(e))
            return false;
    }
    return true;
}

/* Takes what has come. False: the connection has failed. */
static bool end_receive(struct end *e)
{
    size_t room;
    unsigned char *to = tls_in(e->tls, &room);
    ssize_t n = recv(e->fd, to, room, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN;
    if (n == 0)
        return false;
    tls_in_add(e->tls, (size_t)n);
    for (long got;
         (got = tls_read(e->tls, e->in + e->in_bytes, BUFFER_BYTES - e->in_bytes)) != 0;) {
        if (got < 0)
            return false;
        e->in_bytes += (size_t)got;
    }
    return true;
}

/* Takes a whole message away, if there is one. */
static bool end_message(struct end *e, uint32_t bytes)
{
    if (e->in_bytes < bytes)
        return false;
    e->in_bytes -= bytes;
    memmove(e->in, e->in + bytes, e->in_bytes);
    return true;
}

/* A step of the handshake. */
static enum tls_step end_shake(struct end *e)
{
    size_t room;
    unsigned char *to = tls_in(e->tls, &room);
    ssize_t n = recv(e->fd, to, room, MSG_DONTWAIT);
    if (n > 0)
        tls_in_add(e->tls, (size_t)n);
    enum tls_step s = tls_handshake(e->tls);
    return n == 0 || !end_flush(e) ? TLS_FAILED : s;
}

static int shake(struct end *a, struct end *b, struct err *e)
{
    enum tls_step one = TLS_AGAIN, two = b ? TLS_AGAIN : TLS_READY;
    uint64_t until = clock_now_ns() + PATIENCE_NS;
    while ((one == TLS_AGAIN || two == TLS_AGAIN) && clock_now_ns() < until) {
        if (one == TLS_AGAIN)
            one = end_shake(a);
        if (two == TLS_AGAIN)
            two = end_shake(b);
    }
    if (one == TLS_READY && two == TLS_READY)
        return 0;
    return err_set(e, ERR_SYSTEM, "the bare chain does not connect: %s", tls_why(a->tls));
}

/* ---- the client ---- */

static int chain_new(uint32_t bytes, struct chain **out, struct err *e)
{
    struct chain *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    c->client.fd = c->epoll_fd = -1;
    for (int i = 0; i < FOLLOWERS; i++)
        c->leader[i].fd = c->follower[i].fd = -1;
    c->bytes = bytes;
    c->message = calloc(1, bytes);
    *out = c;
    return c->message ? 0 : err_set(e, ERR_NOMEM, "out of memory");
}

/* `self`: a node number as nodes_tls has it. */
static int meet(const struct bench_nodes *g, struct chain *c, int fd, uint32_t self, bool accepts,
                struct err *e)
{
    struct tls *tls;
    int rc = nodes_tls(g, self, &tls, e);
    if (rc != 0)
        return rc;
    if (!end_open(&c->client, fd, tls, accepts))
        rc = err_set(e, ERR_NOMEM, "out of memory");
    tls_drop(tls);
    return rc ? rc : shake(&c->client, NULL, e);
}

int chain_join(const struct bench_nodes *g, int fd, uint32_t bytes, struct chain **out,
               struct err *e)
{
    int rc = chain_new(bytes, out, e);
    return rc ? rc : meet(g, *out, fd, g->hosts, false, e);
}

bool chain_trip(struct chain *c)
{
    if (!end_send(&c->client, c->message, c->bytes))
        return false;
    for (uint64_t polls = 0; !end_message(&c->client, c->bytes); polls++)
        if (!end_receive(&c->client))
            return false;
    return true;
}

/* ---- the hosts ---- */

static int pair(int fd[2], struct err *e)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(a);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = listener >= 0 && fd[0] >= 0 && bind(listener, (struct sockaddr *)&a, bytes) == 0 &&
              listen(listener, 1) == 0 &&
              getsockname(listener, (struct sockaddr *)&a, &bytes) == 0 &&
              connect(fd[0], (struct sockaddr *)&a, bytes) == 0;
    fd[1] = ok ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (listener >= 0)
        close(listener);
    return fd[1] >= 0 ? 0 : err_sys(e, "connect the bare chain");
}

static int follower_open(const struct bench_nodes *g, struct chain *c, int i, struct err *e)
{
    struct tls *own = NULL, *other = NULL;
    int fd[2];
    int rc = pair(fd, e);
    if (rc == 0)
        rc = nodes_tls(g, 0, &own, e);
    if (rc == 0)
        rc = nodes_tls(g, g->hosts > 1 ? 1 : 0, &other, e);
    if (rc == 0 && (!end_open(&c->leader[i], fd[0], own, false) ||
                    !end_open(&c->follower[i], fd[1], other, true)))
        rc = err_set(e, ERR_NOMEM, "out of memory");
    tls_drop(own);
    tls_drop(other);
    return rc ? rc : shake(&c->leader[i], &c->follower[i], e);
}

static bool watch(const struct chain *c, struct end *e)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = e};
    return epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, e->fd, &event) == 0;
}

int chain_serve_open(const struct bench_nodes *g, int fd, uint32_t bytes, struct chain **out,
                     struct err *e)
{
    int rc = chain_new(bytes, out, e);
    if (rc == 0)
        rc = meet(g, *out, fd, 0, true, e);
    for (int i = 0; rc == 0 && i < FOLLOWERS; i++)
        rc = follower_open(g, *out, i, e);
    if (rc != 0)
        return rc;
    struct chain *c = *out;
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    bool ok = c->epoll_fd >= 0 && watch(c, &c->client);
    for (int i = 0; i < FOLLOWERS; i++)
        ok = ok && watch(c, &c->leader[i]) && watch(c, &c->follower[i]);
    return ok ? 0 : err_sys(e, "wait for the bare chain");
}

void chain_close(struct chain *c)
{
    if (c == NULL)
        return;
    end_close(&c->client);
    for (int i = 0; i < FOLLOWERS; i++) {
        end_close(&c->leader[i]);
        end_close(&c->follower[i]);
    }
    if (c->epoll_fd >= 0)
        close(c->epoll_fd);
    free(c->message);
    free(c);
}

/* Of the first follower who has a message the client hears. */
static bool take_acks(struct chain *c, int i)
{
    bool ok = true;
    while (ok && end_message(&c->leader[i], c->bytes))
        if (++c->acked[i] > c->replied) {
            c->replied++;
            ok = end_send(&c->client, c->message, c->bytes);
        }
    return ok;
}

/* What has come to one end goes on at once, and an acknowledgement is looked for where it must be by then: the second
 * follower's turn comes behind the reply. */
static bool serve_end(struct chain *c, struct end *e)
{
    bool ok = end_receive(e);
    while (ok && e == &c->client && end_message(e, c->bytes))
        for (int i = 0; i < FOLLOWERS; i++)
            ok = ok && end_send(&c->leader[i], c->message, c->bytes);
    for (int i = 0; ok && i < FOLLOWERS; i++) {
        if (e != &c->follower[i] && e != &c->leader[i])
            continue;
        while (ok && end_message(&c->follower[i], c->bytes))
            ok = end_send(&c->follower[i], c->message, c->bytes);
        if (ok && e == &c->follower[i])
            ok = end_receive(&c->leader[i]);
        ok = ok && take_acks(c, i);
    }
    return ok;
}

static bool all_acked(const struct chain *c, uint32_t trips)
{
    for (int i = 0; i < FOLLOWERS; i++)
        if (c->acked[i] < trips)
            return false;
    return true;
}

bool chain_serve(struct chain *c, uint32_t trips)
{
    struct epoll_event event[8];
    c->replied = 0;
    memset(c->acked, 0, sizeof(c->acked));
    while (!all_acked(c, trips)) {
        int n = epoll_wait(c->epoll_fd, event, 8, 0);
        for (int i = 0; i < n; i++)
            if (!serve_end(c, event[i].data.ptr))
                return false;
    }
    return true;
}
