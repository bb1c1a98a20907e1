/* How messages stand in memory: the entries of a log lane and the frames of a source's ring.
 *
 * A log is one endless string of bytes; the *position* of an entry in it is its index: absolute, a
 * multiple of 8, never wrapping. The size of an entry follows from its length, so the
 * positions follow from the decided entries alone and are the same at every replica and in every
 * lane. A source (a client, another group) is numbered the same way: the position of a message in
 * the source's own stream is its sequence number.
 *
 *      entry   | position 8 | ballot 8 | bytes 4 | source 4 | source position 8 | payload, padded |
 *      frame   | position 8 | bytes 4 | flags 4 | payload, padded |
 */
#ifndef AGREE_ENTRY_H
#define AGREE_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

struct entry {
    uint64_t pos;    /* its index in the log; a reader takes it only where it expects it */
    uint64_t ballot; /* of the leader who wrote this copy */
    uint32_t bytes;  /* of payload */
    uint32_t source; /* who sent it; SOURCE_LOG for the log's own entries */
    uint64_t srcpos; /* position in the source's stream; for SOURCE_LOG an enum entry_kind */
    unsigned char payload[];
};
_Static_assert(sizeof(struct entry) == 32, "an entry's header is 32 bytes");

enum { SOURCE_LOG = 0xffffffff };

/* A source that starts anew (another process in the place of a client) goes on at the next multiple of
 * 2^STREAM_LIFE_SHIFT. Whatever an earlier life left unread is void from the moment that the first
 * message of the new one is decided. */
enum { STREAM_LIFE_SHIFT = 48 };

static inline uint64_t stream_start(uint64_t life)
{
    return life << STREAM_LIFE_SHIFT;
}

static inline uint64_t stream_life(uint64_t pos)
{
    return pos >> STREAM_LIFE_SHIFT;
}

/* Is pos where the next message of a stream stands that was taken up to `taken`? */
static inline bool stream_next(uint64_t taken, uint64_t pos)
{
    return pos == taken ||
           (stream_life(pos) > stream_life(taken) && pos == stream_start(stream_life(pos)));
}

/* Entries of the log itself, in srcpos. */
enum entry_kind {
    ENTRY_START = 1, /* a leader's first entry: what precedes it under this ballot is recovered */
    ENTRY_JOIN = 2,  /* payload: struct entry_join; a replica that lost its memory is back */
    ENTRY_NOTE = 3,  /* of the machine above, proposed by its leader */
};

struct entry_join {
    uint32_t rank;
    uint32_t incarnation;
};

struct frame {
    uint64_t pos;   /* in the source's stream */
    uint32_t bytes; /* of payload */
    uint32_t flags; /* 0 */
    unsigned char payload[];
};
_Static_assert(sizeof(struct frame) == 16, "a frame's header is 16 bytes");

static inline uint64_t entry_padded(uint32_t bytes)
{
    return ((uint64_t)bytes + 7) & ~UINT64_C(7);
}

/* Bytes of log that an entry with this payload takes. */
static inline uint64_t entry_size(uint32_t bytes)
{
    return sizeof(struct entry) + entry_padded(bytes);
}

/* Bytes of its source's stream that the same payload takes. */
static inline uint64_t frame_size(uint32_t bytes)
{
    return sizeof(struct frame) + entry_padded(bytes);
}

#endif
