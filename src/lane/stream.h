/* The sending end of an ordered stream of frames, into rings in the memory of those who read it.
 *
 * A stream keeps a copy of its last ring_bytes, so that whatever a reader may lack can be written to it again, byte for
 * byte: on a way that broke, or by another node that holds the same stream. There is a struct stream_out for each
 * reader.
 *
 * The rules of batching stand here, and nowhere else: a push writes all that there is, as one stretch (two where the
 * ring ends) and one guard; it never waits for more. The readers take all that is before the guard, and acknowledge it
 * once, if their protocol acknowledges.
 *
 * How far the stream was taken its user finds out, and says in `taken`: from an acknowledgement, a table, or never, if
 * what is overwritten is older than all that a reader waits for.
 *
 * Reading is stream_guard, and frame_read, frame_fits and frame_payload (lane/frame.h), with the position of the next frame as all that a
 * reader has to remember. Of several writers of the same stream it reads whichever has that position. */
#ifndef LANE_STREAM_H
#define LANE_STREAM_H

#include "base/minmax.h"
#include "lane/frame.h"
#include "mem/mem.h"

#define STREAM_NO_WORD UINT32_MAX

/* What streams have in common that go through the same kind of lane. */
struct stream_shape {
    uint32_t ring_bytes; /* a power of two */
    uint32_t bytes_max;  /* of payload */
    uint32_t guard;      /* control word: what is before this position is there */
    uint32_t life; /* control word: the life that GUARD is about; STREAM_NO_WORD: readers know */
};

struct stream {
    const struct stream_shape *shape;
    /* The last ring_bytes, with room behind for one frame: one that goes over the end is filled in a piece, and what
     * is over is then copied to the beginning. */
    unsigned char *ring;
    uint64_t tail;  /* its end */
    uint64_t taken; /* nobody needs what is before; ahead of tail if others hold the stream too */
    uint32_t spill; /* bytes behind the end of the ring that are not yet at its beginning */
    uint16_t life;
};

/* One reader. */
struct stream_out {
    struct mem_lane *lane;
    struct mem_flow flow;
    uint64_t sent; /* written there up to here */
    bool begun;    /* its lane says which life it is about */
};

/* Up to where there is something to read, for a reader in that life. LIFE is read before GUARD, which goes back to the
 * start before LIFE changes: a guard that another life has left is not taken for one of this life's. */
static inline uint64_t stream_guard(const struct stream_shape *shape, const struct mem_lane *lane,
                                    uint32_t life)
{
    if (shape->life != STREAM_NO_WORD && mem_word(lane, shape->life) != life)
        return stream_start();
    return mem_word(lane, shape->guard);
}

/* Bytes of a stream's ring. */
static inline uint64_t stream_ring_bytes(const struct stream_shape *shape)
{
    return shape->ring_bytes + frame_size(shape->bytes_max);
}

/* Begins anew, in that life. */
static inline void stream_begin(struct stream *s, uint16_t life)
{
    s->tail = s->taken = stream_start();
    s->spill = 0;
    s->life = life;
}

/* From here on it is in the copy, and may be needed. */
static inline uint64_t stream_floor(const struct stream *s)
{
    uint64_t taken = min_u64(s->taken, s->tail);
    return max_u64(taken, s->tail - min_u64(s->tail, s->shape->ring_bytes));
}

/* Is there room for so many bytes, if nothing is overwritten that was not taken? */
static inline bool stream_room(const struct stream *s, uint64_t bytes)
{
    return s->tail + bytes <= min_u64(s->taken, s->tail) + s->shape->ring_bytes;
}

/* What went over the end goes to the beginning. */
static inline void stream_settle(struct stream *s)
{
    if (s->spill == 0)
        return;
    memcpy(s->ring, s->ring + s->shape->ring_bytes, s->spill);
    s->spill = 0;
}

/* Where the payload of the next frame belongs, up to bytes_max of it. */
static inline void *stream_reserve(struct stream *s)
{
    stream_settle(s);
    return s->ring + (s->tail & (s->shape->ring_bytes - 1)) + sizeof(struct frame);
}

/* Adds the frame, of so many bytes of payload, which may also be filled in afterwards, before anything else is done
 * with the stream. */
static inline void stream_commit(struct stream *s, uint32_t bytes)
{
    const uint64_t size = frame_size(bytes),
                   straight = ring_straight(s->shape->ring_bytes, s->tail);
    struct frame *f = (void *)(s->ring + (s->tail & (s->shape->ring_bytes - 1)));
    *f = (struct frame){.pos = s->tail, .bytes = bytes, .life = s->life};
    if (bytes & 7)
        memset(f->payload + bytes, 0, padded(bytes) - bytes);
    s->spill = size > straight ? (uint32_t)(size - straight) : 0;
    s->tail += size;
}

/* The next push begins with what the copy has. */
static inline void stream_rewind(const struct stream *s, struct stream_out *o)
{
    o->sent = stream_floor(s);
    o->begun = false;
}

/* Writes [from, to) of a ring into the lane that has its size. */
void stream_put(struct mem *, struct mem_flow *, struct mem_lane *, const unsigned char *ring,
                uint64_t from, uint64_t to);

/* Writes the reader what it has not got, if the way there is open. True: it has all now. */
bool stream_push_rest(struct mem *, struct stream *, struct stream_out *);
static inline bool stream_push(struct mem *m, struct stream *s, struct stream_out *o)
{
    return o->sent == s->tail || stream_push_rest(m, s, o);
}

/* Opens the way again, for the next push to begin with what the copy has. False: it is not open. */
bool stream_reopen(struct mem *, const struct stream *, struct stream_out *);

/* What a snapshot carries of a stream: the bytes from its floor to its tail, which must be known when they are loaded. */
void stream_save(struct stream *, unsigned char *out);
void stream_load(struct stream *, uint64_t floor, uint64_t tail, const unsigned char *in);

#endif
