/* Somebody who speaks TLS and frames by hand, for tests of the TCP transport: as much of a node as the test wants it to
 * be. Handshakes are answered by the other side's own thread; what comes later is when its node is polled. */
#ifndef TESTS_TCP_PEER_H
#define TESTS_TCP_PEER_H

#include "base/clock.h"
#include "mem/tcp/tls.h"
#include "mem/tcp/wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TCP_PEER_BYTES = 1 << 17 };

struct tcp_peer {
    int fd;
    struct tls_end *end;
    bool over; /* the other side has closed, or said what is no TLS */
    size_t in_bytes;
    _Alignas(8) unsigned char in[TCP_PEER_BYTES];
};

static inline void tcp_peer_close(struct tcp_peer *p)
{
    tls_end_free(p->end);
    close(p->fd);
    p->end = NULL;
    p->fd = -1;
}

static inline void tcp_peer_flush(struct tcp_peer *p)
{
    size_t bytes;

    for (const unsigned char *out; out = tls_out(p->end, &bytes), bytes > 0;) {
        ssize_t n = send(p->fd, out, bytes, MSG_NOSIGNAL);
        if (n < 0)
            break;
        tls_out_drop(p->end, (size_t)n);
    }
}

/* What has come, for that long at most. */
static inline void tcp_peer_hear(struct tcp_peer *p, int ms)
{
    struct pollfd ready = {.fd = p->fd, .events = POLLIN};
    size_t room;
    unsigned char *to = tls_in(p->end, &room);

    if (p->over || poll(&ready, 1, ms) <= 0)
        return;
    ssize_t n = recv(p->fd, to, room, MSG_DONTWAIT);
    if (n > 0)
        tls_in_add(p->end, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        p->over = true;
}

/* One step of the handshake with a socket that is connected. */
static inline enum tls_step tcp_peer_step(struct tcp_peer *p)
{
    enum tls_step step = tls_handshake(p->end);

    tcp_peer_flush(p);
    if (step == TLS_AGAIN)
        tcp_peer_hear(p, 100);
    return step;
}

/* Takes over the socket. */
static inline void tcp_peer_begin(struct tcp_peer *p, int fd, struct tls *tls, bool accepts)
{
    memset(p, 0, sizeof *p);
    p->fd = fd;
    p->end = tls_end_new(tls, accepts);
}

static inline bool tcp_peer_shake(struct tcp_peer *p)
{
    enum tls_step step = TLS_AGAIN;

    for (uint64_t until = clock_now_ns() + 10000000000u;
         step == TLS_AGAIN && !p->over && clock_now_ns() < until;)
        step = tcp_peer_step(p);
    return step == TLS_READY;
}

static inline void tcp_peer_send(struct tcp_peer *p, struct tcp_frame f, const void *words)
{
    tls_write(p->end, &f, sizeof f);
    tls_write(p->end, words, 8ul * f.words);
    tcp_peer_flush(p);
}

/* A message of mem/far/wire.h that has items. */
static inline void tcp_peer_say(struct tcp_peer *p, enum far_kind kind, const void *items,
                                uint32_t count)
{
    unsigned char bytes[FAR_MESSAGE_MAX];
    struct far_head head = {.kind = (uint16_t)kind, .count = (uint16_t)count};

    head.bytes = far_message_bytes(kind, count);
    memcpy(bytes, &head, sizeof head);
    if (head.bytes > sizeof head)
        memcpy(bytes + sizeof head, items, head.bytes - sizeof head);
    tcp_peer_send(p, (struct tcp_frame){.kind = TCP_MESSAGE, .words = (uint16_t)(head.bytes / 8)},
                  bytes);
}

/* The next frame that has come, with its words at p->in + 16; NULL: none. It is forgotten by tcp_peer_drop. */
static inline const struct tcp_frame *tcp_peer_frame(struct tcp_peer *p)
{
    const struct tcp_frame *f = (const void *)p->in;

    for (int tries = 0; tries < 2; tries++) {
        if (p->in_bytes >= sizeof *f && p->in_bytes >= tcp_frame_bytes(f))
            return f;
        tcp_peer_hear(p, 0);
        long n = tls_read(p->end, p->in + p->in_bytes, sizeof p->in - p->in_bytes);
        p->over |= n < 0;
        p->in_bytes += n > 0 ? (size_t)n : 0;
    }
    return NULL;
}

static inline void tcp_peer_drop(struct tcp_peer *p)
{
    size_t bytes = tcp_frame_bytes((const void *)p->in);

    p->in_bytes -= bytes;
    memmove(p->in, p->in + bytes, p->in_bytes);
}

#endif
