#include "agree/feed.h"

#include "agree/lanes.h"
#include "agree/log.h"
#include "mem/map.h"

#include <stdlib.h>
#include <string.h>

enum { SOURCE_BYTES_DEFAULT = 64 << 10 };

struct way {
    struct mem_lane *out;
    struct mem_lane *ack;
    struct mem_flow flow;
    uint64_t sent; /* written there up to here */
};

struct feed {
    struct feed_options opt;
    struct mem *mem;
    unsigned char *ring; /* our copy of the stream's last source_bytes */
    uint64_t mask;
    uint64_t tail;  /* end of the stream */
    uint64_t taken; /* as last heard */
    uint32_t leader;
    uint64_t leader_ballot;
    uint64_t moved_ns; /* when taken last moved, or nothing was outstanding */
    uint64_t moved_at;
    uint32_t nodes[LOG_REPLICAS_MAX];
    struct way way[LOG_REPLICAS_MAX];
};

int feed_open(const struct feed_options *options, struct feed **out, struct err *e)
{
    struct feed_options o = *options;
    if (o.replicas == 0 || o.replicas > LOG_REPLICAS_MAX)
        return err_set(e, ERR_INVALID, "feed: %u replicas; a group has 1 to %d", o.replicas,
                       LOG_REPLICAS_MAX);
    o.source_bytes = o.source_bytes ? o.source_bytes : SOURCE_BYTES_DEFAULT;
    o.payload_max = o.payload_max ? o.payload_max : o.source_bytes / 4;
    o.retry_ns = o.retry_ns ? o.retry_ns : 20 * UINT64_C(1000000);
    if (frame_size(o.payload_max) > o.source_bytes)
        return err_set(e, ERR_INVALID, "feed: messages of %u bytes do not fit a ring of %u",
                       o.payload_max, o.source_bytes);
    enum mem_birth birth;
    int rc = mem_region_open(o.mem, o.region, &birth, e);
    if (rc != 0)
        return rc;
    struct feed *f = calloc(1, sizeof(*f));
    if (f == NULL)
        return err_set(e, ERR_NOMEM, "feed: no memory");
    f->opt = o;
    f->mem = o.mem;
    f->mask = o.source_bytes - 1;
    memcpy(f->nodes, o.nodes, o.replicas * sizeof(*o.nodes));
    f->opt.nodes = f->nodes;
    struct mem_lane_spec specs[2 * LOG_REPLICAS_MAX];
    struct mem_lane *lanes[2 * LOG_REPLICAS_MAX];
    for (uint32_t q = 0; q < o.replicas; q++) {
        specs[2 * q] = lane_spec(o.region, f->nodes[q], o.mem->self, LANE_SOURCE, o.source);
        specs[2 * q].ctl_words = SOURCE_WORDS;
        specs[2 * q].ring_bytes = o.source_bytes;
        specs[2 * q + 1] = lane_spec(o.region, o.mem->self, f->nodes[q], LANE_ACK, o.source);
        specs[2 * q + 1].ctl_words = ACK_WORDS;
    }
    f->ring = map_ring_alloc(o.source_bytes);
    rc = f->ring ? mem_lanes_open(o.mem, specs, 2 * o.replicas, lanes, e)
                 : err_sys(e, "feed: a ring of %u bytes", o.source_bytes);
    if (rc != 0) {
        feed_close(f);
        return rc;
    }
    for (uint32_t q = 0; q < o.replicas; q++) {
        f->way[q].out = lanes[2 * q];
        f->way[q].ack = lanes[2 * q + 1];
        mem_flow_open(f->mem, &f->way[q].flow, f->nodes[q], o.region, 0);
    }
    *out = f;
    return 0;
}

void feed_close(struct feed *f)
{
    if (f == NULL)
        return;
    if (f->ring)
        map_ring_free(f->ring, f->opt.source_bytes);
    free(f);
}

int feed_send(struct feed *f, const void *payload, uint32_t bytes, uint64_t *end)
{
    if (bytes > f->opt.payload_max)
        return ERR_TOOBIG;
    uint64_t size = frame_size(bytes);
    if (f->tail + size > f->taken + f->opt.source_bytes &&
        f->tail + size > feed_taken(f) + f->opt.source_bytes)
        return ERR_AGAIN;
    struct frame *frame = (struct frame *)(void *)(f->ring + (f->tail & f->mask));
    *frame = (struct frame){.pos = f->tail, .bytes = bytes};
    if (bytes > 0)
        memcpy(frame->payload, payload, bytes);
    if (bytes & 7)
        memset(frame->payload + bytes, 0, 8 - (bytes & 7));
    f->tail += size;
    *end = f->tail;
    return 0;
}

static void way_write(struct feed *f, struct way *w)
{
    if (w->sent == f->tail || w->flow.status != MEM_DONE)
        return;
    mem_put(f->mem, &w->flow, w->out, w->sent, f->ring + (w->sent & f->mask),
            (uint32_t)(f->tail - w->sent));
    mem_set1(f->mem, &w->flow, w->out, SOURCE_GUARD, f->tail);
    w->sent = f->tail;
}

void feed_flush(struct feed *f)
{
    /* The leader first: everybody waits for it. */
    way_write(f, &f->way[f->leader]);
    mem_bell(f->mem, f->nodes[f->leader]);
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        way_write(f, &f->way[q]);
}

uint64_t feed_taken(struct feed *f)
{
    for (uint32_t q = 0; q < f->opt.replicas; q++) {
        const struct mem_lane *ack = f->way[q].ack;
        if (ack->ctl == NULL)
            continue;
        uint64_t taken = mem_word(ack, ACK_TAKEN);
        if (taken > f->taken && taken <= f->tail)
            f->taken = taken;
        uint64_t ballot = mem_word(ack, ACK_BALLOT);
        if (ballot > f->leader_ballot) {
            f->leader_ballot = ballot;
            f->leader = q;
        }
    }
    return f->taken;
}

void feed_step(struct feed *f, uint64_t now_ns)
{
    uint64_t taken = feed_taken(f);
    for (uint32_t q = 0; q < f->opt.replicas; q++) {
        struct way *w = &f->way[q];
        if (w->flow.status != MEM_DONE) {
            mem_flow_open(f->mem, &w->flow, f->nodes[q], f->opt.region, 0);
            w->sent = taken;
        }
        way_write(f, w);
    }
    if (taken == f->tail || taken != f->moved_at || f->moved_ns == 0) {
        f->moved_at = taken;
        f->moved_ns = now_ns;
        return;
    }
    if (now_ns - f->moved_ns < f->opt.retry_ns)
        return;
    f->moved_ns = now_ns;
    for (uint32_t q = 0; q < f->opt.replicas; q++) {
        f->way[q].sent = taken;
        way_write(f, &f->way[q]);
        mem_bell(f->mem, f->nodes[q]);
    }
}

uint32_t feed_leader(const struct feed *f)
{
    return f->leader;
}
