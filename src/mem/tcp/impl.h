/* The inside of the TCP transport. Private to this folder.
 *
 *     put, set, mark, ... ──▸ stage ──poll, bell──▸ TLS ──▸ socket              link.c
 *     socket ──poll──▸ TLS ──▸ in ──whole frames──▸ judged, copied, answered    frame.c
 *
 * The stage is what is written and has not left. It may hold as much as all rings at the other side; a peer that takes
 * nothing for so long has lost what comes next anyway, and the flow is LOST. */
#ifndef MEM_TCP_IMPL_H
#define MEM_TCP_IMPL_H

#include "mem/far/impl.h"
#include "mem/tcp/door.h"
#include "mem/tcp/tcp.h"
#include "mem/tcp/wire.h"

#include <sys/epoll.h>

enum {
    IN_BYTES = 96 << 10,          /* a recv, and the beginning of a frame */
    STAGE_FIRST = 64 << 10,       /* grows from here */
    READ_WORDS = TCP_FRAME_WORDS, /* of one frame */
    READS_WINDOW = 32,            /* parts of reads that are asked for at a time */
    /* Of the stage, for answers and messages: writes that fill the rest must not end the connection. */
    STAGE_RESERVE = READS_WINDOW * (16 + 8 * READ_WORDS) + (64 << 10),
    EVENTS = 64, /* of a poll */
    WAITED_NOT = -1,
};

/* A flow of ours. */
struct out_flow {
    struct mem_flow *flow; /* NULL: the number is free, */
    uint32_t next;         /* and the next free one is this; UINT32_MAX: none */
};

/* A flow of the other side into our memory. */
struct in_flow {
    uint64_t gen;
    uint64_t ballot;
    uint64_t tag; /* marked, and not answered */
    uint32_t region;
    uint32_t index; /* of it; UINT32_MAX: it is not open here */
    bool open;
    bool listed;            /* among those to answer */
    enum mem_status status; /* DONE; or how it has ended, for good */
};

/* A part of a read or peek that is to be asked for, or is. */
struct ask {
    struct mem_op *op;
    void *out;
    uint32_t lane;
    uint32_t at;
    uint32_t words;
    uint8_t kind;
    bool last; /* of its op */
};

struct tcp_link {
    struct link link; /* first */
    int fd;
    bool clear;
    bool blocked; /* the socket takes nothing: it says when */
    bool helloed; /* the other side's hello was here */
    struct tls_end *end;
    struct tls_peer who;
    struct sockaddr_storage address;

    unsigned char *stage; /* [stage_tail, stage_head) is to be sent */
    size_t stage_room, stage_most, stage_head, stage_tail;
    unsigned char *in; /* [0, in_bytes) has come and is not taken */
    size_t in_bytes;

    struct out_flow *out_flow;
    uint32_t out_flows, out_flows_room, out_flow_free;
    struct in_flow *in_flow;
    uint32_t in_flows;
    uint32_t *answer; /* flows to answer */
    uint32_t answers, answers_room;

    struct ask *ask; /* a ring of ask_room: asked for, then to be asked for */
    uint64_t ask_tail, ask_sent, ask_head;
    uint32_t ask_room;
};

struct tcp {
    struct far far; /* first */
    struct door *door;
    struct tls *tls;
    const struct tcp_keys *keys;
    void *keys_ctx;
    uint64_t cluster; /* hash of the name */
    int epoll_fd;
    int wake_fd;
    struct epoll_event event[EVENTS]; /* what the last wait has told of, */
    int waited; /* which the next poll takes without asking again; WAITED_NOT: it asks */
    uint64_t malformed, retired;
};

static inline struct tcp *tcp_of(const struct far *o)
{
    return (struct tcp *)(uintptr_t)o;
}

static inline struct tcp_link *tcp_link(const struct link *l)
{
    return (struct tcp_link *)(uintptr_t)l;
}

static inline struct tcp *tcp_node(const struct tcp_link *l)
{
    return tcp_of(l->link.node);
}

/* Promises are between hosts: clients neither make them nor get them. */
static inline bool tcp_promises(const struct tcp_link *l)
{
    return l->link.peer->host && l->link.node->host;
}

/* link.c: bytes */
struct tcp_link *tcp_link_new(struct tcp *, struct arrival *); /* NULL: no memory */
bool tcp_frame_add(struct tcp_link *, struct tcp_frame, const void *words);
bool tcp_send(struct link *, uint32_t kind, const void *items, uint32_t count);
int tcp_post(struct link *);
void tcp_push(struct tcp_link *);
bool tcp_receive(struct tcp_link *); /* false: it is to be closed, see its fault */
bool tcp_drain(struct tcp_link *);   /* the same of what has come with the handshake */
void tcp_unblock(struct tcp_link *); /* the socket takes something again */
void tcp_stop(struct link *);
void tcp_freed(struct link *);
bool tcp_room(struct link *, uint64_t bytes);
bool tcp_sent(const struct link *);

/* flow.c: ours, to others */
bool tcp_flow_open(struct link *, struct mem_flow *);
void tcp_flow_closed(struct link *, struct mem_flow *);
bool tcp_put(struct link *, struct mem_flow *, struct lane *, uint64_t pos, const void *,
             uint32_t bytes, bool kept);
bool tcp_set(struct link *, struct mem_flow *, struct lane *, uint32_t word, const uint64_t *,
             uint32_t count);
bool tcp_mark(struct link *, struct mem_flow *, uint64_t tag);
bool tcp_read(struct link *, struct mem_op *, const struct lane *, bool ring, uint64_t pos,
              void *out, uint32_t bytes, bool more);
bool tcp_peek(struct link *, struct mem_op *, uint32_t region);
bool tcp_on_answer(struct tcp_link *, const struct tcp_frame *, const uint64_t *words);
bool tcp_on_data(struct tcp_link *, const struct tcp_frame *, const uint64_t *words);

/* frame.c: what comes, judged. Returns why the frame is none that one of us sends; NULL: it was taken. */
const char *tcp_frame_take(struct tcp_link *, const struct tcp_frame *, const uint64_t *words);
bool tcp_answer_all(struct tcp_link *);

/* meet.c: who has come */
void tcp_dial(struct far *, struct peer *);
void tcp_arrivals_take(struct far *);
const char *tcp_on_hello(struct tcp_link *, const struct tcp_hello *, size_t bytes);

#endif
