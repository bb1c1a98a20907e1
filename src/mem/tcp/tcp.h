/* Remote memory over sockets: one connection for each pair of nodes, authenticated and encrypted (mem/tcp/tls.h).
 *
 * Everything that a node writes to another, asks of it or answers it is a frame in one ordered stream. A frame is judged
 * by the *owner* of the memory when it is whole, and then copied: what is written under a ballot lands only while that is
 * what the owner has promised, and the writer hears DONE or DENIED, once for each flow and round. So nothing lands after
 * it was judged, and nobody has to be told of a raise before it is answered.
 *
 * The node's thread is the only one that touches memory; what comes in lands while it polls. A second thread accepts,
 * dials and shakes hands (mem/tcp/door.h), which takes up to a millisecond each. The rest is as mem/far/far.h says. */
#ifndef MEM_TCP_TCP_H
#define MEM_TCP_TCP_H

#include "mem/far/far.h"
#include "mem/tcp/tls.h"

struct tcp_options {
    struct far_options far;
    struct tls *tls; /* who we are, and whom we know; shared */

    /* Whether keys have changed. `again` is asked now and then, from another thread: another struct tls if so, which then
     * is ours; else NULL, with a text if they have and cannot be read. Connections of whom the other one does not know
     * any more end. `close` is called when nobody asks any more, also if opening fails. NULL: they do not change. */
    const struct tcp_keys {
        struct tls *(*again)(void *ctx, struct err *);
        void (*close)(void *ctx);
    } * keys;
    void *keys_ctx;
};

/* Clear text is refused between machines: ERR_REFUSED. */
int tcp_open_node(const struct tcp_options *, struct mem **out, struct err *);

/* What has come to the door since the node was opened. */
struct tcp_counts {
    uint64_t accepted; /* connections */
    uint64_t met;      /* of them, and of those that we made: the other side has proven who it is */
    uint64_t strangers; /* it could not */
    uint64_t late;      /* took too long */
    uint64_t crowded;   /* turned away: too many at once, or from one address */
    uint64_t no_room;   /* no descriptor was left */
    uint64_t malformed; /* sent a frame that no one of us sends */
    uint64_t retired;   /* connections of keys that are not known any more */
};
/* Its fields, in order. */
#define TCP_COUNTS_LIST(X)                                                                         \
    X(accepted)                                                                                    \
    X(met)                                                                                         \
    X(strangers)                                                                                   \
    X(late)                                                                                        \
    X(crowded)                                                                                     \
    X(no_room)                                                                                     \
    X(malformed)                                                                                   \
    X(retired)

struct tcp_counts tcp_counts(struct mem *);

#endif
