/* How messages stand in a log lane.
 *
 * A log is one endless string of bytes; the *position* of an entry in it is its index: absolute, a
 * multiple of 8, never wrapping. The size of an entry follows from its length, so the
 * positions follow from the decided entries alone and are the same at every replica and in every
 * lane.
 *
 *      | position 8 | ballot 8 | bytes 4 | source 2 | life 2 | source position 8 | payload, padded |
 */
#ifndef AGREE_ENTRY_H
#define AGREE_ENTRY_H

#include "lane/frame.h"

#include <stdbool.h>
#include <string.h>

struct entry {
    uint64_t pos;    /* its index in the log; a reader takes it only where it expects it */
    uint64_t ballot; /* of the leader who wrote this copy */
    uint32_t bytes;  /* of payload */
    uint16_t source; /* who sent it; SOURCE_LOG for the log's own entries */
    uint16_t life;   /* which life of the source; 0 for another group and for the log */
    uint64_t srcpos; /* position in the source's stream; for SOURCE_LOG an enum entry_kind */
    unsigned char payload[];
};
_Static_assert(sizeof(struct entry) == 32, "an entry's header is 32 bytes");

enum { SOURCE_LOG = UINT16_MAX };

/* Entries of the log itself, in srcpos. */
enum entry_kind {
    ENTRY_START = 1, /* a leader's first entry: what precedes it under this ballot is recovered */
    ENTRY_JOIN = 2,  /* payload: struct entry_join; a member that lost its memory is back */
    ENTRY_NOTE = 3,  /* of the machine above, proposed by its leader */
};

struct entry_join {
    uint32_t rank; /* of a memory: behind all replicas */
    uint32_t life;
};

/* Bytes of log that an entry with this payload takes. */
static inline uint64_t entry_size(uint32_t bytes)
{
    return sizeof(struct entry) + padded(bytes);
}

/* The same entry, whoever stamped it. */
static inline bool entry_same(const struct entry *a, const struct entry *b)
{
    return a->pos == b->pos && a->bytes == b->bytes && a->source == b->source &&
           a->life == b->life && a->srcpos == b->srcpos &&
           memcmp(a->payload, b->payload, a->bytes) == 0;
}

#endif
