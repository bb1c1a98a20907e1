/* The replies of one group to its clients, at one replica: a stream for every client place.
 *
 * A stream is a function of the group's log: every replica adds the same replies, and only who leads
 * writes them out, into a ring of its own at the client. It begins anew with every life of the client, and the
 * lane says which life it is about, so that a process that takes over a place gets none of its predecessor's
 * replies. What the ring holds is kept here too, and in snapshots: after a change of the leader, or
 * on a way that broke, it is written again byte for byte, and the client goes on where it was.
 *
 * Nothing waits for a client. A client has no more messages under way than the ring holds replies
 * (caster.c), so what is overwritten is older than all that it waits for.
 *
 * Belongs to one replica and its thread; but for the functions named open it never allocates. */
#ifndef MCAST_REPLIES_H
#define MCAST_REPLIES_H

#include "base/err.h"
#include "lane/stream.h"
#include "mcast/message.h"
#include "mem/mem.h"

/* When the stream of another life begins, GUARD goes back to its start, then LIFE is set, then replies follow: who
 * finds its own life reads a GUARD that is meant for it. */
enum {
    REPLY_GUARD, /* replies below this position of the stream are there */
    REPLY_LIFE,  /* of the client that they are for */
    REPLY_WORDS
};

/* What both ends know of a stream of replies. */
static inline struct stream_shape replies_shape(uint32_t ring_bytes, uint32_t reply_max)
{
    return (struct stream_shape){.ring_bytes = ring_bytes,
                                 .bytes_max = reply_size(reply_max),
                                 .guard = REPLY_GUARD,
                                 .life = REPLY_LIFE};
}

struct replies_options {
    struct mem *mem;
    uint32_t region;      /* number of the group */
    uint32_t clients;     /* places */
    uint32_t client_node; /* the node of place 0; the others follow */
    uint32_t reply_max;   /* largest reply, without its header */
    uint32_t ring_bytes;  /* for one client; a power of two */
};

struct replies;

int replies_open(const struct replies_options *, struct replies **, struct err *);
void replies_close(struct replies *);

/* The client has come: opens the lane in which it is written to. What there is for it leaves with the next
 * flush. */
int replies_client_open(struct replies *, uint32_t client, struct err *);

/* Where the next reply to a client in that life is to be written: header and up to reply_max bytes.
 * Then replies_end, before anything else is done here, adds it. A reply to a life that is over goes
 * nowhere. */
struct reply *replies_begin(struct replies *, uint32_t client, uint16_t life);
void replies_end(struct replies *, uint32_t client, struct reply *);

/* True if something was added that is not written out. */
bool replies_waiting(const struct replies *);

/* Writes out what was added and rings for those who get it. Returns how many clients have all. */
int replies_flush(struct replies *);

/* Now and then: what was written on a way that broke is written again. */
void replies_step(struct replies *);

/* The next flush writes all that there is to everybody: for who begins to lead. */
void replies_rewind(struct replies *);

/* What a snapshot has to carry. save writes save_bytes and returns how many; load takes exactly those, or
 * says that they cannot be right. */
uint64_t replies_save_bytes(const struct replies *);
uint64_t replies_save(struct replies *, unsigned char *out);
bool replies_load(struct replies *, const unsigned char *in, uint64_t bytes);

#endif
