#include "lane/stream.h"

#include "base/err.h"

#if TRAM_PLANTED
uint64_t stream_origin;
#endif

void stream_put(struct mem *m, struct mem_flow *flow, struct mem_lane *lane,
                const unsigned char *ring, uint64_t from, uint64_t to)
{
    const uint64_t ring_bytes = lane->spec.ring_bytes;
    while (from < to) {
        uint64_t bytes = min_u64(to - from, ring_straight(ring_bytes, from));
        mem_put(m, flow, lane, from, ring + (from & (ring_bytes - 1)), (uint32_t)bytes);
        from += bytes;
    }
}

/* GUARD first: whoever finds its own life in the lane reads a GUARD that is meant for it. */
static void begin(struct mem *m, const struct stream *s, struct stream_out *o)
{
    if (o->begun || s->shape->life == STREAM_NO_WORD)
        return;
    mem_set1(m, &o->flow, o->lane, s->shape->guard, stream_start());
    mem_set1(m, &o->flow, o->lane, s->shape->life, s->life);
    o->begun = true;
}

bool stream_push_rest(struct mem *m, struct stream *s, struct stream_out *o)
{
    const uint64_t tail = s->tail;
    /* What was taken, perhaps from another who holds the stream, need not be written any more; what was overwritten
     * cannot. */
    if (o->sent < s->taken || tail - o->sent > s->shape->ring_bytes)
        o->sent = stream_floor(s);
    CHECK(o->sent <= tail);
    if (o->sent == tail || o->flow.status != MEM_DONE)
        return o->sent == tail;
    stream_settle(s);
    begin(m, s, o);
    if (tail - o->sent <= ring_straight(s->shape->ring_bytes, o->sent)) /* nearly always */
        mem_put(m, &o->flow, o->lane, o->sent, s->ring + (o->sent & (s->shape->ring_bytes - 1)),
                (uint32_t)(tail - o->sent));
    else
        stream_put(m, &o->flow, o->lane, s->ring, o->sent, tail);
    mem_set1(m, &o->flow, o->lane, s->shape->guard, tail);
    o->sent = tail;
    return true;
}

bool stream_reopen(struct mem *m, const struct stream *s, struct stream_out *o)
{
    mem_flow_open(m, &o->flow, o->lane->spec.owner, o->lane->spec.region, 0);
    stream_rewind(s, o);
    return o->flow.status == MEM_DONE;
}

void stream_save(struct stream *s, unsigned char *out)
{
    uint64_t floor = stream_floor(s);
    stream_settle(s);
    ring_read(s->ring, s->shape->ring_bytes, floor, out, s->tail - floor);
}

void stream_load(struct stream *s, uint64_t floor, uint64_t tail, const unsigned char *in)
{
    CHECK(floor <= tail && tail - floor <= s->shape->ring_bytes);
    s->tail = tail;
    s->taken = max_u64(s->taken, floor);
    s->spill = 0;
    ring_write(s->ring, s->shape->ring_bytes, floor, in, tail - floor);
}
