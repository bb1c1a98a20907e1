/* What travels over the sockets between nodes, and the helper thread's view of it. Private to
 * help.c (connections), take.c (what arrives) and their tests.
 *
 * Every message is one seqpacket of exactly sizeof(struct shm_message) bytes, with one descriptor
 * if it is an item. Both sides say HELLO first and take nothing before they have seen the other's.
 * Then each sends its own items, what it holds of all hosts, and READY; later, new items as they
 * come. Anything unexpected closes the connection. */
#ifndef MEM_SHM_WIRE_H
#define MEM_SHM_WIRE_H

#include "mem/shm/impl.h"

#define SHM_WIRE_MAGIC 0x574d5254u /* "TRMW" */

enum { SHM_WIRE_VERSION = 4 };

enum shm_message_type {
    SHM_HELLO = 1, /* node, life, role, cluster, name */
    SHM_REFUSE, /* text; the connection ends. kind SHM_REFUSE_LIFE: index is a later life that is known */
    SHM_ITEM,     /* node (whose memory), kind, one descriptor; a segment: index, parts */
    SHM_ANSWERED, /* all that the sender had when it said hello has been sent */
    SHM_READY,    /* the sender's own memory is open and has been sent */
    SHM_PARTS,    /* node, index, parts: there are more parts in a segment that was sent */
    SHM_ACK,      /* the sender has mapped and counts so many of the receiver's parts */
    SHM_FETCH,    /* node: send what you hold of it */
    SHM_SIZES,    /* mine, theirs: a lane of which the two sides think differently */
    SHM_ENDED, /* life, parts: the sender has let go of what that part of the receiver's has ended */
};

enum { SHM_REFUSE_LIFE = 1 };

struct shm_message {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t node;
    uint32_t life;
    uint32_t role;
    uint32_t kind;
    uint32_t index;
    uint32_t parts; /* of the whole outlet, up to now */
    struct mem_lane_spec mine, theirs;
    char cluster[SHM_NAME_BYTES];
    char name[SHM_NAME_BYTES];
    char text[192];
};

enum {
    SHM_CONNECTIONS_MAX = 2 * SHM_NODES_MAX,
    SHM_QUEUE_MAX = 8192, /* messages for a peer that does not read; then it is dropped */
};

struct outgoing {
    struct outgoing *next;
    struct shm_message message;
    int fd; /* ours to close; -1: none */
};

struct connection {
    struct connection *next, **at; /* in the list of all */
    struct connection *next_busy;  /* in the list of those with something to do */
    bool busy;
    bool writes; /* it is waited for that it can be written to */
    int fd;
    struct peer *target; /* whom we called; NULL: who called us has not said */
    struct peer *peer;   /* after its hello */
    struct peer *from;   /* where nodes may lie: who it is, as the kernel says */
    uint32_t life;       /* the peer's, on this connection */
    uint64_t end_by_ns;  /* closed then: no hello came, or it is to be made anew */
    uint64_t direct;     /* version of the peer's memory that it has given us itself */
    uint64_t ack_sent;
    uint32_t own_sent;                  /* own items sent, */
    uint32_t segments_sent, parts_sent; /* and of the outlet that the peer gets */
    uint32_t ended_sent;                /* agreements looked at */
    bool ready_sent;
    bool doomed; /* to be closed when what is queued has been sent, or at once if nothing is */
    struct outgoing *queue, **queue_tail;
    uint32_t queued;
};

struct helper {
    struct shm *s;
    pthread_t thread;
    int listen_fd;
    int event_fd;
    int epoll_fd;
    _Atomic bool stop;
    struct connection *connections;
    struct connection *busy; /* those with something to send, to say or to end */
    uint32_t count;
    uint32_t ending;        /* connections that are to be closed at some time */
    uint64_t listen_at_ns;  /* when to accept again, after descriptors ran out; 0: always */
    bool ready;             /* grant_ready, as it was when all were last told */
    struct say_heard heard; /* what was said */
    uint64_t now_ns;
    struct waits *waits; /* what it polls; help.c */
    struct item *spare; /* for what is handed to the poller next; there before a message is taken */
    bool ring;          /* there is news for the poller */
};

/* Queues a message (fd is duplicated). */
void connection_send(struct helper *, struct connection *, const struct shm_message *, int fd);
struct shm_message message_of(const struct shm *, enum shm_message_type);
/* It is looked at before the helper waits again. */
void connection_busy(struct helper *, struct connection *);
/* Sends own items that this connection has not had, and says READY once they are complete. */
void send_own(struct helper *, struct connection *);
/* Warns, at most once a while for the same text. */
void helper_warn(struct helper *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Tells, from now on, when the process behind this descriptor of its ends; -1: does not. */
void watch_end(struct helper *, struct peer *, int pidfd);

/* Takes one message of `bytes` bytes; fds are ours to close. */
void take_message(struct helper *, struct connection *, const void *data, size_t bytes,
                  const int *fds, int fds_count);
/* The client's process is gone: its memory is let go. */
void take_gone(struct helper *, struct peer *);
/* Counts and acknowledges what the peer has given us. */
void send_ack(struct helper *, struct connection *);
/* Sends what we hold of a node. */
void send_held(struct helper *, struct connection *, uint32_t node);
/* That life of the peer is over: its connections are told so, and end. From any thread, with the lock held. */
void expel(struct helper *, struct peer *, uint32_t life, const char *why);

#endif
