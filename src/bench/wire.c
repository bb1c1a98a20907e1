#include "bench/wire.h"

#include "base/clock.h"
#include "bench/chain.h"
#include "mem/ofi/raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TRIPS = 400,   /* of a turn: hosts are not polled meanwhile, and must not be missed */
    WRITES = 4000, /* likewise, in a row */
    BYTES_MAX = 1 << 16,
    CONNECT_MS = 10000,
};

/* What the other side is told to do. */
enum { GO_TRIPS = 1, GO_CHAIN };

static uint32_t message_bytes(const struct bench_args *a)
{
    return a->payload < 8 ? 8 : a->payload > BYTES_MAX ? BYTES_MAX : (a->payload + 7) & ~7u;
}

/* ---- verbs ---- */

static int raw_open(const struct bench_nodes *g, const struct bench_args *a, bool listens,
                    struct ofi_raw **out, struct err *e)
{
    struct ofi_raw_options o = {
        .provider = bench_transport_names[g->transport],
        .address = a->address,
        .port = g->wire_port,
        .listens = listens,
        .bytes = a->payload < 8 ? 8 : (a->payload + 7) & ~7u,
    };
    return ofi_raw_open(&o, out, e);
}

/* ---- tcp ---- */

static struct addrinfo *address_of(const struct bench_nodes *g, const struct bench_args *a)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char port[8];
    snprintf(port, sizeof(port), "%u", g->wire_port);
    return getaddrinfo(a->address, port, &hints, &found) == 0 ? found : NULL;
}

static int listen_at(const struct bench_nodes *g, const struct bench_args *a, struct err *e)
{
    struct addrinfo *at = address_of(g, a);
    int on = 1;
    if (at == NULL)
        return err_set(e, ERR_INVALID, "address %.100s is not known", a->address);
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    bool ok = fd >= 0 && bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, 2) == 0;
    freeaddrinfo(at);
    if (ok)
        return fd;
    int rc = err_sys(e, "listen at %.100s:%u", a->address, g->wire_port);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int accept_one(int listener, struct err *e)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};
    int on = 1;
    int fd = poll(&p, 1, CONNECT_MS) == 1 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (fd < 0)
        return err_set(e, ERR_TIMEOUT, "the other side of the wire does not come");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static int connect_to(const struct bench_nodes *g, const struct bench_args *a, struct err *e)
{
    struct addrinfo *at = address_of(g, a);
    int on = 1, fd = at ? socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    bool ok = fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0;
    if (at)
        freeaddrinfo(at);
    if (!ok) {
        int rc = err_sys(e, "connect to %.100s:%u", a->address, g->wire_port);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

/* As fast as it goes: without sleeping. */
static bool take_all(int fd, uint64_t bytes)
{
    static unsigned char sink[BYTES_MAX];
    while (bytes > 0) {
        ssize_t n = recv(fd, sink, bytes < sizeof(sink) ? bytes : sizeof(sink), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        bytes -= n > 0 ? (uint64_t)n : 0;
    }
    return true;
}

static bool send_one(int fd, uint32_t bytes)
{
    static const unsigned char source[BYTES_MAX];
    uint32_t left = bytes;
    while (left > 0) {
        ssize_t n = send(fd, source, left, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return false;
        left -= n > 0 ? (uint32_t)n : 0;
    }
    return true;
}

/* ---- the measuring side ---- */

int wire_open(struct bench_wire *w, const struct bench_nodes *g, const struct bench_args *a,
              int core, struct err *e)
{
    char payload[16], hosts[16];
    snprintf(payload, sizeof(payload), "%u", a->payload);
    snprintf(hosts, sizeof(hosts), "%u", a->hosts);
    const char *const argv[] = {"tram",
                                "bench",
                                "--serve-wire",
                                "--transport",
                                bench_transport_names[g->transport],
                                "--address",
                                a->address,
                                "--serve-dir",
                                g->dir,
                                "--hosts",
                                hosts,
                                "--payload",
                                payload,
                                a->clear ? "--clear" : NULL,
                                NULL};
    bool tcp = g->transport == BENCH_TCP;
    *w = (struct bench_wire){.fd = -1, .bytes = message_bytes(a)};
    int listener = tcp ? listen_at(g, a, e) : 0;
    if (listener < 0)
        return listener;
    int rc = child_start(&w->child, argv, core, e);
    if (!tcp)
        return rc == 0 ? raw_open(g, a, true, &w->raw, e) : rc;
    if (rc == 0)
        rc = w->fd = accept_one(listener, e);
    int chain = rc < 0 ? rc : accept_one(listener, e);
    close(listener);
    return chain < 0 ? chain : chain_join(g, chain, w->bytes, &w->chain, e);
}

void wire_close(struct bench_wire *w)
{
    child_stop(&w->child);
    ofi_raw_close(w->raw);
    chain_close(w->chain);
    if (w->fd > 0)
        close(w->fd);
    *w = (struct bench_wire){.fd = -1};
}

static bool trip(struct bench_wire *w)
{
    if (w->raw == NULL)
        return send_one(w->fd, w->bytes) && take_all(w->fd, w->bytes);
    return ofi_raw_write(w->raw, ++w->value) && ofi_raw_await(w->raw, w->value);
}

static bool write_many(struct bench_wire *w)
{
    for (int i = 0; i < WRITES; i++)
        if (w->raw ? !ofi_raw_write(w->raw, ++w->value) : !send_one(w->fd, w->bytes))
            return false;
    return w->raw ? ofi_raw_await(w->raw, w->value) : take_all(w->fd, w->bytes);
}

static bool go(const struct bench_wire *w, char what)
{
    return write(w->child.stop, &what, 1) == 1;
}

bool wire_measure(struct bench_wire *w, struct hist *trips)
{
    if (!go(w, GO_TRIPS) || !trip(w)) /* the first one wakes the other side */
        return false;
    for (int i = 0; i < TRIPS; i++) {
        uint64_t start = clock_now_ns();
        if (!trip(w))
            return false;
        hist_add(trips, clock_now_ns() - start);
    }
    uint64_t start = clock_now_ns();
    if (!write_many(w))
        return false;
    w->writes += WRITES;
    w->writes_ns += clock_now_ns() - start;
    return true;
}

bool wire_measure_chain(struct bench_wire *w, struct hist *trips)
{
    if (w->chain == NULL || !go(w, GO_CHAIN) || !chain_trip(w->chain))
        return false;
    for (int i = 0; i < TRIPS; i++) {
        uint64_t start = clock_now_ns();
        if (!chain_trip(w->chain))
            return false;
        hist_add(trips, clock_now_ns() - start);
    }
    return true;
}

/* ---- the other side ---- */

static bool serve_raw(struct ofi_raw *raw, uint64_t *value)
{
    bool ok = true;
    for (int i = 0; ok && i <= TRIPS; i++)
        ok = ofi_raw_await(raw, ++*value) && ofi_raw_write(raw, *value);
    *value += WRITES;
    return ok && ofi_raw_await(raw, *value) && ofi_raw_write(raw, *value) && ofi_raw_settle(raw);
}

static bool serve_bytes(int fd, uint32_t bytes)
{
    bool ok = true;
    for (int i = 0; ok && i <= TRIPS; i++)
        ok = take_all(fd, bytes) && send_one(fd, bytes);
    return ok && take_all(fd, (uint64_t)WRITES * bytes) && send_one(fd, bytes);
}

int wire_serve(const struct bench_args *a, struct err *e)
{
    struct bench_nodes g;
    struct bench_wire w = {.fd = -1, .bytes = message_bytes(a)};
    char what;

    int rc = nodes_open(&g, a, e);
    if (rc == 0 && g.transport == BENCH_TCP) {
        rc = w.fd = connect_to(&g, a, e);
        int chain = rc < 0 ? rc : connect_to(&g, a, e);
        rc = chain < 0 ? chain : chain_serve_open(&g, chain, w.bytes, &w.chain, e);
    } else if (rc == 0) {
        rc = raw_open(&g, a, false, &w.raw, e);
    }
    while (rc == 0 && read(STDIN_FILENO, &what, 1) == 1) {
        bool ok = w.raw              ? serve_raw(w.raw, &w.value)
                  : what == GO_CHAIN ? chain_serve(w.chain, TRIPS + 1)
                                     : serve_bytes(w.fd, w.bytes);
        if (!ok)
            rc = err_set(e, ERR_TIMEOUT, "the other side of the wire is gone");
    }
    wire_close(&w);
    return rc;
}
