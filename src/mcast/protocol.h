/* What a multicast protocol adds to a replica (mcast/replica.h). Private to mcast/.
 *
 * All calls come from the replica's thread, from within the settle of its unit but for those that open and
 * close. Whatever a protocol keeps must follow from the entries applied, in their order, and go into its
 * part of the snapshot. */
#ifndef MCAST_PROTOCOL_H
#define MCAST_PROTOCOL_H

#include "agree/source.h"
#include "mcast/message.h"
#include "mcast/replica.h"
#include "mcast/replies.h"
#include "unit/snap.h"

/* A stream to another group. */
struct edge {
    uint16_t to;
    struct source *source;
    uint64_t flushed; /* end of what was last written out */
};

struct replica {
    struct snap snap; /* first: the log's calls of snap_ops get the replica */
    struct replica_options opt;
    const struct protocol *protocol;
    void *own; /* the protocol's */
    struct log_machine log_calls;
    struct log *log;
    struct edge *edge;
    uint32_t edges;
    bool sent; /* there may be something in a stream that is not written out */
    struct replies *replies;
    uint64_t delivered;
    bool led; /* in the last round */
    int work; /* of the log and the protocol in the last settle */
    uint64_t step_ns;
    uint64_t look_ns; /* when its streams are looked after next */
};

/* The streams of a group. */
struct protocol_streams {
    uint16_t out[DST_GROUPS_MAX]; /* groups that get one, ascending */
    uint32_t outs;
    uint32_t out_source; /* its number there, after the clients */
    uint16_t
        in[DST_GROUPS_MAX]; /* groups that it has one from; number i after the clients is in[i] */
    uint32_t ins;           /* OVERLAY_NONE for a number that nobody has */
    uint32_t ring_bytes;    /* of each */
    uint32_t head_bytes;    /* what their messages have before a client's */
};

struct protocol {
    /* A client's: whom it writes a message to. One group, in *one, that orders it first; or all destinations. */
    struct dst_set (*route)(const struct overlay *, struct dst_set dst, uint16_t *one);

    /* A client's: in how many groups a message waits for others after it was taken there; the client bounds the sum,
     * and the bytes, of what it has under way. NULL: it waits nowhere. */
    uint32_t (*holds)(struct dst_set dst);

    void (*streams)(const struct replica_options *, struct protocol_streams *);
    int (*open)(struct replica *, struct err *);
    void (*close)(struct replica *);

    /* The log's calls, as in struct log_machine, with the replica as ctx; ready may be NULL. */
    bool (*ready)(void *replica, const struct entry *);
    void (*apply)(void *replica, const struct entry *);

    /* settle comes in every round, after applying, and returns whether there may be something to write; step now and
     * then, while leading. Both may be NULL. */
    bool (*settle)(struct replica *);
    void (*step)(struct replica *);

    /* As in struct unit_ops; may be NULL. */
    const char *(*check)(const struct replica *);

    /* Its part of snapshots, as in struct snap_options; may be NULL. */
    uint64_t (*bytes)(struct replica *);
    uint64_t (*save)(struct replica *, unsigned char *out);
    bool (*load)(struct replica *, const unsigned char *in, uint64_t bytes);
};

extern const struct protocol protocol_tree, protocol_genuine;

static inline const struct protocol *protocol_of(enum mcast_protocol which)
{
    return which == MCAST_GENUINE ? &protocol_genuine : &protocol_tree;
}

/* Gives the message to the machine and answers the client; or only tells it that it was refused. */
void replica_deliver(struct replica *, const struct message_view *);

/* Puts a message into the stream to another group; as source_send. */
int replica_send(struct replica *, uint32_t edge, const void *payload, uint32_t bytes);
void replica_refuse(struct replica *, const struct message_view *);

/* True if a client's own entry says who it is: only the process that has a place speaks for it. */
static inline bool replica_from_client(const struct entry *e, const struct message_view *v)
{
    return v->m->client == e->source && v->m->life == e->life;
}

#endif
