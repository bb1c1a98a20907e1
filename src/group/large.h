/* Large messages: what is longer than message_max of its cell, up to large_max.
 *
 * In the sender's stream stands a LARGE record (struct large_head), which takes the message's place in the order. The bytes, the *body*,
 * are elsewhere: each sender has `window` places for bodies in each of its cells, and one is used again when the record before in it is
 * free, which is when all members have delivered it. So no more bodies are under way than there are places.
 *
 *   shared memory   A body is made in a common lane of its sender, and read there: when the record is there, so is the body.
 *
 *       BODY    (region of the cell)      common; the places of a sender
 *
 *   over a network  A body goes to the other members in blocks, of which each takes every one once and sends some on (group/schedule.h),
 *                   into private memory: the same places, for each sender. A member counts no further in a sender's stream than to the
 *                   first record whose body is not complete; so what is received by all is complete at all.
 *
 *       BLOCK   (region REGION_MEMBER)    enum block_word      to one host: a ring of four blocks, and how many of its own were taken
 *
 * The words of a BLOCK lane are stamps: with each view blocks are counted from 0, and what is of another view is not looked at. Blocks stop at the
 * wedge. What a trim leaves out of a sender that goes on is sent anew in the next view, from its first block on. */
#ifndef GROUP_LARGE_H
#define GROUP_LARGE_H

#include "group/schedule.h"
#include "mem/mem.h"

#include <stdbool.h>

struct batch;
struct cell;
struct err;
struct member;
struct record;
struct source_stream;

enum {
    LARGE_WINDOW_DEFAULT = 4,
    LARGE_WINDOW_MAX = 16,
    BLOCK_BYTES_DEFAULT = 1 << 20,
    BLOCK_HEAD_BYTES = 64,
    BLOCK_SLOTS = 4,  /* blocks that one host has under way to another */
    BLOCKS_LEAST = 8, /* of a message */
    BLOCK_BYTES_MOST = 64 << 20,
};

#define LARGE_BYTES_MOST (UINT64_C(1) << 31) /* of all places of a sender */

/* The payload of a LARGE record. */
struct large_head {
    uint64_t id; /* of the sender's life; modulo the window it says in which place the body is */
    uint64_t bytes;
    uint32_t checksum, pad; /* CRC-32C of the body; 0 where it is read in place */
};

/* Before the bytes of a block. */
struct block_head {
    uint64_t vid, id;
    uint32_t cell, sender, number, bytes;
    uint64_t total; /* bytes of the body */
    uint64_t pad[3];
};

_Static_assert(sizeof(struct block_head) == BLOCK_HEAD_BYTES, "what is before the bytes");

enum body_state {
    BODY_NONE,
    BODY_OPEN,  /* own: reserved */
    BODY_READY, /* own: committed, and not yet sent in this view */
    BODY_COMES, /* of others: some blocks are here */
    BODY_WHOLE,
};

/* A place for a body of one sender. */
struct body {
    enum body_state state;
    bool over;  /* of others: delivered or passed over, so that another may come */
    bool noted; /* own, shared memory: one who is out of the cell may be reading it */
    bool sends; /* blocks of it are still to be sent from here */
    bool told;  /* somebody was told how far it is, and not yet that it is all here */
    uint32_t bytes, size, blocks; /* size: of a block */
    uint32_t here;                /* blocks that are */
    uint32_t checksum;            /* of what came */
    uint64_t id;
    uint64_t pos;         /* of its record in the sender's stream */
    uint64_t step, steps; /* of the schedule: the next, which sends */
    uint32_t to, next;    /* block `next` to that rank; RDMC_NONE: not looked up */
    uint64_t told_ns;     /* when the first block came or went, or it was last said how far it is */
    uint64_t has[RDMC_BLOCKS_MAX / 64];
};

/* Of a cell. */
struct large {
    uint32_t window;
    uint64_t stride;   /* from a place to the next */
    uint64_t ids;      /* given so far */
    uint64_t senders;  /* hosts that may be */
    uint64_t busy;     /* hosts of whose bodies some are under way */
    struct body *body; /* by host, window of each */
    unsigned char *
        *memory; /* by host: its places; NULL: it sends nothing here, or its lane is not there */
    struct mem_lane **lane; /* by host, shared memory: where its places are */
    bool shared;            /* they are in lanes */
};

/* One host, and the blocks that go there and come from there in this view. */
struct block_peer {
    struct mem_lane *in, *out;
    struct mem_flow flow;
    bool torn;       /* it wrote what no member writes */
    bool tell;       /* what was taken of it is still to be told */
    uint64_t taken;  /* of its blocks */
    uint64_t queued; /* of ours; */
    uint64_t put;    /* of these all bytes are on their way, */
    uint64_t freed;  /* and were taken there */
    uint64_t offset; /* bytes on their way of the one that is next */
    uint64_t bytes;  /* put on this flow */
    struct {
        uint64_t turn; /* among all that are queued */
        uint64_t id;
        uint32_t cell, sender, number;
    } queue[BLOCK_SLOTS];
};

struct rdmc {
    uint32_t block_bytes;
    uint64_t turns;
    uint64_t
        window_bytes; /* at most so many bytes are on their way: what is behind them, signs of life too, is not to be late */
    struct block_peer *peer; /* by host */
    uint32_t probe;          /* the host whose mark is timed, plus 1; 0: none */
    uint64_t probe_tag, probe_ns;
};

/* How far a body has come here, for people. */
struct large_progress {
    uint32_t cell, sender;
    uint64_t bytes, of; /* that are here; own: of which this host has sent its part */
};

/* ---- large.c: records and places ---- */

int large_open(struct cell *, struct err *);
void large_close(struct cell *);
/* Room for a body; NULL: not now, or it is too long. */
void *large_reserve(struct cell *, uint32_t bytes);
/* False: the room is none for a body. */
bool large_commit(struct cell *, void *room, uint32_t bytes);
bool large_release(struct cell *, void *room);
/* The body of an own record. */
const void *large_own(const struct cell *, const struct record *, uint32_t *bytes);
/* This host sends no more here: no own body is delivered from now on. */
void large_void(struct cell *);
/* Somebody who is out may be reading what is there now. */
void large_note_readers(struct cell *);
/* A new view begins: own bodies from START on are sent anew, and others' come anew. */
void large_begin(struct cell *);
/* The bodies of the host's life in the view can be read: true. */
bool large_is_there(const struct cell *, uint32_t host);
/* At most `limit`, the sender's count: the first index whose body is not complete here. */
uint64_t large_count(struct cell *, struct source_stream *, uint64_t limit);
/* Adds the message of a LARGE record at that position to the batch. False: there is no such body. */
bool large_item(struct cell *, struct batch *, const struct record *, uint32_t bytes, uint64_t pos,
                uint32_t sender, uint64_t number);
/* It is passed over. */
void large_passed(struct cell *, const struct record *, uint32_t bytes, uint32_t sender);
/* If the data is in a body: the position of its record. */
bool large_place(const struct cell *, uint32_t sender, const void *data, uint64_t *pos);

static inline struct body *body_at(const struct large *l, uint32_t host, uint64_t id)
{
    return &l->body[host * l->window + id % l->window];
}

static inline unsigned char *body_memory(const struct large *l, uint32_t host, uint64_t id)
{
    return l->memory[host] + id % l->window * l->stride;
}

/* ---- rdmc.c: blocks ---- */

int rdmc_open(struct member *, struct err *);
void rdmc_close(struct member *);
int rdmc_post(struct member *, uint64_t now_ns);
int rdmc_settle(struct member *, uint64_t now_ns);
/* A new view begins, in all cells. */
void rdmc_begin(struct member *);
/* How a body of so many bytes is cut. */
void rdmc_cut(const struct member *, struct body *, uint32_t bytes);

#endif
