/* Somebody between two nodes who passes on what they say, and records, changes, delays or ends it. It has no thread:
 * proxy_poll does what there is to do. */
#ifndef TESTS_TCP_PROXY_H
#define TESTS_TCP_PROXY_H

#include "base/clock.h"
#include "mem/tcp/seal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PROXY_CONNECTIONS = 64, PROXY_BYTES = 1 << 16, PROXY_RECORD = 1 << 20 };

/* Ways: from who has dialed, and to it. */
enum { PROXY_THERE, PROXY_BACK };

/* What is done to the first connection; the others are passed on as they are. */
struct proxy_fault {
    bool flips;
    uint32_t record;   /* the so-manieth record, from 0, */
    int32_t byte;      /* that byte of it; below 0: from its end */
    uint64_t cut_at;   /* after so many bytes it is ended; 0: never */
    uint64_t split_to; /* that many bytes go on one by one */
    uint64_t hold_ns;  /* what has come waits so long */
    int way;           /* of flips and cut_at; the others are for both */
};

struct proxy_way {
    unsigned char data[PROXY_BYTES];
    size_t start, end;
    uint64_t passed, came_ns;
    /* Where in which record we are. */
    uint32_t record;
    size_t at, bytes;
    unsigned char head[5];
};

struct proxy_pair {
    int fd[2]; /* of who has dialed, and to whom it is passed on; -1: over */
    struct proxy_way way[2];
};

struct proxy {
    int fd;
    uint16_t port, to;
    struct proxy_fault fault;
    bool done; /* the fault is */
    unsigned accepted;
    struct proxy_pair *pair[PROXY_CONNECTIONS];
    unsigned char *seen[2]; /* of the first connection */
    size_t seen_bytes[2];
};

static inline struct sockaddr_in proxy_address(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static inline void proxy_open(struct proxy *p, uint16_t port, uint16_t to,
                              const struct proxy_fault *fault)
{
    struct sockaddr_in at = proxy_address(port);
    int on = 1;

    memset(p, 0, sizeof *p);
    p->port = port;
    p->to = to;
    if (fault)
        p->fault = *fault;
    for (int i = 0; i < 2; i++)
        p->seen[i] = malloc(PROXY_RECORD);
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(p->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(p->fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(p->fd, 16) < 0)
        abort();
}

static inline void proxy_end_pair(struct proxy_pair *pair)
{
    for (int i = 0; i < 2; i++) {
        close(pair->fd[i]);
        pair->fd[i] = -1;
    }
}

static inline void proxy_close(struct proxy *p)
{
    close(p->fd);
    for (unsigned i = 0; i < p->accepted; i++) {
        if (p->pair[i]->fd[0] >= 0)
            proxy_end_pair(p->pair[i]);
        free(p->pair[i]);
    }
    free(p->seen[0]);
    free(p->seen[1]);
}

static inline void proxy_accept(struct proxy *p)
{
    struct sockaddr_in to = proxy_address(p->to);
    int on = 1, fd = p->accepted < PROXY_CONNECTIONS
                         ? accept4(p->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)
                         : -1;

    if (fd < 0)
        return;
    struct proxy_pair *pair = calloc(1, sizeof *pair);
    pair->fd[0] = fd;
    pair->fd[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    p->pair[p->accepted++] = pair;
    if (connect(pair->fd[1], (struct sockaddr *)&to, sizeof to) < 0)
        proxy_end_pair(pair);
    for (int i = 0; i < 2; i++)
        setsockopt(pair->fd[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Records are those of TLS while hands are shaken, and then our own. Those begin with a length, a multiple of 8, and the
 * others with a type, which is none. */
static inline bool proxy_record_is_ours(const unsigned char *head)
{
    return head[0] % 8 == 0;
}

static inline size_t proxy_record_bytes(const unsigned char head[5])
{
    return proxy_record_is_ours(head) ? SEAL_MORE + seal_inside(head)
                                      : 5u + 256u * head[3] + head[4];
}

/* Is this the byte of the record that is to be changed? Where the first one of our own would be, it is one that makes the
 * length absurd: who waits for 64 bytes more notices nothing until they have come. */
static inline bool proxy_is_changed(const struct proxy_fault *f, const struct proxy_way *w)
{
    int64_t at = (int64_t)w->at;

    if (f->byte < 0)
        return w->at >= 4 && at - (int64_t)w->bytes == f->byte;
    return at == (f->byte == 0 && proxy_record_is_ours(w->head) ? 2 : f->byte);
}

/* Goes through what has come record by record, and flips one bit of the byte that is to be flipped. */
static inline void proxy_follow(struct proxy *p, struct proxy_way *w, unsigned char *data,
                                size_t bytes, bool flips)
{
    for (size_t i = 0; i < bytes; i++) {
        if (w->at < sizeof w->head)
            w->head[w->at] = data[i];
        if (w->at == 4)
            w->bytes = proxy_record_bytes(w->head);
        if (flips && !p->done && w->record == p->fault.record && proxy_is_changed(&p->fault, w)) {
            data[i] ^= 0x40;
            p->done = true;
        }
        if (++w->at >= 5 && w->at == w->bytes) {
            w->at = w->bytes = 0;
            w->record++;
        }
    }
}

static inline void proxy_hear(struct proxy *p, struct proxy_pair *pair, int way, bool first)
{
    struct proxy_way *w = &pair->way[way];

    if (w->start < w->end)
        return;
    ssize_t n = recv(pair->fd[way], w->data, sizeof w->data, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        proxy_end_pair(pair);
        return;
    }
    w->start = 0;
    w->end = (size_t)n;
    w->came_ns = clock_now_ns();
    if (!first)
        return;
    if (p->seen_bytes[way] + w->end <= PROXY_RECORD) {
        memcpy(p->seen[way] + p->seen_bytes[way], w->data, w->end);
        p->seen_bytes[way] += w->end;
    }
    proxy_follow(p, w, w->data, w->end, p->fault.flips && p->fault.way == way);
}

static inline void proxy_pass(struct proxy *p, struct proxy_pair *pair, int way, bool first)
{
    struct proxy_way *w = &pair->way[way];
    const struct proxy_fault *f = &p->fault;
    size_t n = w->end - w->start;
    bool cuts = first && f->cut_at && f->way == way;

    if (n == 0 || (first && clock_now_ns() - w->came_ns < f->hold_ns))
        return;
    if (first && w->passed < f->split_to)
        n = 1;
    if (cuts && n > f->cut_at - w->passed)
        n = f->cut_at - w->passed;
    ssize_t sent = send(pair->fd[!way], w->data + w->start, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        proxy_end_pair(pair);
        return;
    }
    w->start += sent > 0 ? (size_t)sent : 0;
    w->passed += sent > 0 ? (size_t)sent : 0;
    if (cuts && w->passed >= f->cut_at) {
        p->done = true;
        proxy_end_pair(pair);
    }
}

static inline void proxy_poll(struct proxy *p)
{
    proxy_accept(p);
    for (unsigned i = 0; i < p->accepted; i++)
        for (int way = 0; way < 2; way++) {
            if (p->pair[i]->fd[0] >= 0)
                proxy_hear(p, p->pair[i], way, i == 0);
            if (p->pair[i]->fd[0] >= 0)
                proxy_pass(p, p->pair[i], way, i == 0);
        }
}

#endif
