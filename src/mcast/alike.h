/* Replies of replicas of which some may lie: the stream that more rings hold alike than may lie.
 *
 * Every correct replica writes the same replies at the same positions (mcast/replies.h). A reply counts when faulty + 1 rings have the same
 * bytes at the position that is next: one of these replicas is correct. Each ring's reply is taken once, in a copy.
 *
 * It belongs to the thread that polls the client's memory, and takes no memory after alike_open. */
#ifndef MCAST_ALIKE_H
#define MCAST_ALIKE_H

#include "lane/stream.h"
#include "unit/unit.h"

struct alike {
    struct mem *mem;
    struct mem_lane *lane[UNIT_REPLICAS_MAX]; /* by replica; owned by the client */
    uint32_t replicas, faulty, life;
    struct stream_shape shape;
    uint64_t next;                     /* position */
    uint64_t has[UNIT_REPLICAS_MAX];   /* position + 1 of what was taken of each; 0: nothing */
    uint32_t bytes[UNIT_REPLICAS_MAX]; /* of it */
    unsigned char *copy;               /* of all, bytes_max each */
};

struct alike_options {
    struct mem *mem;
    struct mem_lane *const *lanes;
    uint32_t replicas, faulty;
    uint32_t life; /* of the client */
    struct stream_shape shape;
};

/* False: no memory. */
bool alike_open(struct alike *, const struct alike_options *);
void alike_close(struct alike *);

/* The payload of the next frame of the stream, which stays until the next call; NULL: not enough of them have it. */
const void *alike_next(struct alike *, uint32_t *bytes);

#endif
