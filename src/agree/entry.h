/* How messages stand in memory: the entries of a log lane and the frames of a source's ring.
 *
 * A log is one endless string of bytes; the *position* of an entry in it is its index: absolute, a
 * multiple of 8, never wrapping. The size of an entry follows from its length, so the
 * positions follow from the decided entries alone and are the same at every replica and in every
 * lane. A source (a client, another group) is numbered the same way: the position of a message in
 * the source's own stream is its sequence number. A position has a whole word, and nothing else stands in it: a
 * stream of 10 GB/s would reach its end after 58 years.
 *
 *      entry   | position 8 | ballot 8 | bytes 4 | source 2 | life 2 | source position 8 | payload, padded |
 *      frame   | position 8 | bytes 4 | life 4 | payload, padded |
 */
#ifndef AGREE_ENTRY_H
#define AGREE_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

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

enum {
    SOURCE_LOG = UINT16_MAX,
    SOURCE_LIVES_MAX = UINT16_MAX, /* of one source: lives are 0 to one less */
};

/* Every stream begins here, in every life of its source. It is 0; the test build can move it to where a
 * position that is split or cut short would show. */
#if TRAM_PLANTED
extern uint64_t stream_origin;
static inline uint64_t stream_start(void)
{
    return stream_origin;
}
#else
static inline uint64_t stream_start(void)
{
    return 0;
}
#endif

/* A source that starts anew (another process in the place of a client) begins again at stream_start, in its next
 * life. Whatever an earlier life left unread is void from the moment that the first message of the new one is
 * decided. Is `pos` of `life` where the next message stands of a stream that was taken up to `taken`, in
 * `taken_life`? */
static inline bool stream_next(uint16_t taken_life, uint64_t taken, uint16_t life, uint64_t pos)
{
    return life == taken_life ? pos == taken : life > taken_life && pos == stream_start();
}

/* Entries of the log itself, in srcpos. */
enum entry_kind {
    ENTRY_START = 1, /* a leader's first entry: what precedes it under this ballot is recovered */
    ENTRY_JOIN = 2,  /* payload: struct entry_join; a replica that lost its memory is back */
    ENTRY_NOTE = 3,  /* of the machine above, proposed by its leader */
};

struct entry_join {
    uint32_t rank;
    uint32_t life;
};

struct frame {
    uint64_t pos;   /* in the source's stream */
    uint32_t bytes; /* of payload */
    uint32_t
        life; /* of the source, or of the client that a reply is for; positions begin anew in each */
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
