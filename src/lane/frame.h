/* A frame: a message as it stands in a stream, at a position that never wraps.
 *
 *      | position 8 | bytes 4 | life 4 | payload, padded to 8 |
 *
 * The position of a frame in its stream is its number: absolute, a multiple of 8. A position has a whole word, and
 * nothing else stands in it: a stream of 10 GB/s would reach its end after 58 years. */
#ifndef LANE_FRAME_H
#define LANE_FRAME_H

#include "mem/wrap.h"

struct frame {
    uint64_t pos;   /* in its stream; a reader takes it only where it expects it */
    uint32_t bytes; /* of payload */
    uint32_t life;  /* of the client that the stream is from, or to; positions begin anew in each */
    unsigned char payload[];
};
_Static_assert(sizeof(struct frame) == 16, "a frame's header is 16 bytes");

enum { STREAM_LIVES_MAX = UINT16_MAX }; /* of one stream: lives are 0 to one less */

/* Every stream begins here, in every life. It is 0; the test build can move it to where a
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

/* A stream that starts anew (another process in the place of a client) begins again at stream_start, in its next
 * life. Whatever an earlier life left unread is void from the moment that the first message of the new one is
 * decided. Is `pos` of `life` where the next message stands of a stream that was taken up to `taken`, in
 * `taken_life`? */
static inline bool stream_next(uint16_t taken_life, uint64_t taken, uint16_t life, uint64_t pos)
{
    return life == taken_life ? pos == taken : life > taken_life && pos == stream_start();
}

/* Positions are multiples of 8. */
static inline uint64_t padded(uint64_t bytes)
{
    return (bytes + 7) & ~UINT64_C(7);
}

/* Bytes of a stream that a message with this payload takes. */
static inline uint64_t frame_size(uint32_t bytes)
{
    return sizeof(struct frame) + padded(bytes);
}

/* The header of what stands at pos of a ring: a copy, since what is checked must be what is used. */
static inline void frame_read(struct frame *f, const unsigned char *ring, uint64_t ring_bytes,
                              uint64_t pos)
{
    if (ring_straight(ring_bytes, pos) >= sizeof(*f))
        memcpy(f, ring + (pos & (ring_bytes - 1)), sizeof(*f)); /* nearly always: a few loads */
    else
        ring_read(ring, ring_bytes, pos, f, sizeof(*f));
}

/* Is it the frame that is expected there, and all of it before the guard? */
static inline bool frame_fits(const struct frame *f, uint64_t pos, uint32_t life,
                              uint32_t bytes_max, uint64_t guard)
{
    return f->pos == pos && f->life == life && f->bytes <= bytes_max &&
           pos + frame_size(f->bytes) <= guard;
}

/* The payload of the frame at pos: in place or, if it goes over the ring's end, put together in `over`. */
static inline const void *frame_payload(const unsigned char *ring, uint64_t ring_bytes,
                                        uint64_t pos, uint32_t bytes, void *over)
{
    const uint64_t at = pos + sizeof(struct frame);
    if (bytes <= ring_straight(ring_bytes, at))
        return ring + (at & (ring_bytes - 1));
    ring_read(ring, ring_bytes, at, over, bytes);
    return over;
}

#endif
