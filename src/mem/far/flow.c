/* Flows and marks. Those to ourselves are done here; those to others are the carrier's. */
#include "mem/far/impl.h"
#include "mem/wrap.h"

#include <stdlib.h>
#include <string.h>

/* ---- which there are ---- */

static uint32_t flow_hash(const struct mem_flow *f)
{
    uint64_t h = (uint64_t)(uintptr_t)f * 0x9e3779b97f4a7c15u;

    return (uint32_t)(h >> 32);
}

/* Where the flow is in the table, or would be. */
static uint32_t flow_slot(const struct far *o, const struct mem_flow *f)
{
    uint32_t mask = o->flows_room - 1, i = flow_hash(f) & mask;

    while (o->flow[i] && o->flow[i] != f)
        i = (i + 1) & mask;
    return i;
}

static bool is_open(const struct far *o, const struct mem_flow *f)
{
    return o->flows_room > 0 && o->flow[flow_slot(o, f)] == f;
}

bool far_flow_known(const struct far *o, const struct mem_flow *f, uint64_t gen)
{
    return is_open(o, f) && ((const struct flow_impl *)(const void *)f->impl)->gen == gen;
}

static bool flow_add(struct far *o, struct mem_flow *f)
{
    if (2 * (o->flows + 1) > o->flows_room) {
        struct mem_flow **old = o->flow;
        uint32_t old_room = o->flows_room, room = old_room ? 2 * old_room : 256;
        struct mem_flow **more = calloc(room, sizeof(*more));
        if (!more)
            return false;
        o->flow = more;
        o->flows_room = room;
        for (uint32_t i = 0; i < old_room; i++)
            if (old[i])
                o->flow[flow_slot(o, old[i])] = old[i];
        free(old);
    }
    o->flow[flow_slot(o, f)] = f;
    o->flows++;
    return true;
}

/* Takes it out, and moves up whatever had to give way to it. */
static void flow_remove(struct far *o, struct mem_flow *f)
{
    if (!is_open(o, f))
        return;
    uint32_t mask = o->flows_room - 1, hole = flow_slot(o, f);
    o->flow[hole] = NULL;
    o->flows--;
    for (uint32_t i = (hole + 1) & mask; o->flow[i]; i = (i + 1) & mask) {
        struct mem_flow *moved = o->flow[i];
        o->flow[i] = NULL;
        o->flow[flow_slot(o, moved)] = moved;
    }
    if (flow_impl(f)->link && o->carrier->flow_closed)
        o->carrier->flow_closed(flow_impl(f)->link, f);
    for (uint32_t i = 0; i < o->own_marks; i++)
        if (o->own_mark[i] == f) {
            o->own_mark[i] = o->own_mark[--o->own_marks];
            break;
        }
}

void far_flow_fail(struct far *o, struct mem_flow *f, enum mem_status status)
{
    flow_remove(o, f);
    f->status = status;
}

void far_flows_fail(struct far *o, struct link *l,
                    bool (*which)(const struct mem_flow *, const void *ctx), const void *ctx,
                    enum mem_status status)
{
    /* Removing moves others about, so look again until none is left. */
    for (bool found = true; found;) {
        found = false;
        for (uint32_t i = 0; i < o->flows_room; i++) {
            struct mem_flow *f = o->flow[i];
            if (!f || flow_impl(f)->link != l || (which && !which(f, ctx)))
                continue;
            far_flow_fail(o, f, status);
            found = true;
        }
    }
}

void far_flow_open(struct mem *m, struct mem_flow *f, uint32_t owner, uint32_t region,
                   uint64_t ballot)
{
    struct far *o = far_of(m);
    struct flow_impl *impl = flow_impl(f);

    flow_remove(o, f); /* it may be an open one; its old content says nothing */
    memset(f, 0, sizeof *f);
    f->owner = owner;
    f->region = region;
    f->ballot = ballot;
    f->status = MEM_LOST;
    impl->gen = ++o->flow_gen;
    if (owner == m->self) {
        struct region *r = far_region_find(o, region);
        if (!r)
            return;
        impl->index = far_region_index(o, r);
    } else {
        struct peer *p = peer_at(o, owner);
        if (!p || !p->link)
            return;
        impl->link = p->link;
        if (!o->carrier->flow_open(p->link, f))
            return;
    }
    if (flow_add(o, f))
        f->status = MEM_DONE;
    else if (impl->link && o->carrier->flow_closed)
        o->carrier->flow_closed(impl->link, f);
}

void far_flow_close(struct mem *m, struct mem_flow *f)
{
    far_flow_fail(far_of(m), f, MEM_LOST);
}

/* ---- writing ---- */

/* What goes over the ring's end goes on at its beginning. */
static bool put_far(struct link *l, struct mem_flow *f, struct lane *lane, uint64_t pos,
                    const void *data, uint32_t bytes, bool kept)
{
    const struct far_carrier *c = l->node->carrier;
    uint64_t straight = ring_straight(lane->pub.spec.ring_bytes, pos);
    uint32_t first = bytes < straight ? bytes : (uint32_t)straight;

    return lane->link_id == l->id && c->put(l, f, lane, pos, data, first, kept) &&
           (first == bytes ||
            c->put(l, f, lane, 0, (const unsigned char *)data + first, bytes - first, kept));
}

static void put(struct far *o, struct mem_flow *f, struct mem_lane *l, uint64_t pos,
                const void *data, uint32_t bytes, bool kept)
{
    struct lane *lane = (struct lane *)l;
    struct link *link = flow_impl(f)->link;

    CHECK(l->spec.writer == o->mem.self && l->spec.owner == f->owner &&
          l->spec.region == f->region);
    CHECK(lane->state == LANE_OPEN);
    CHECK(bytes <= l->spec.ring_bytes && (bytes & 7) == 0 && (pos & 7) == 0);
    if (f->status != MEM_DONE)
        return;
    if (link) {
        if (!put_far(link, f, lane, pos, data, bytes, kept))
            far_flow_fail(o, f, MEM_LOST);
        return;
    }
    if (!l->spec.common) /* else it is there */
        ring_write(lane->pub.ring, l->spec.ring_bytes, pos, data, bytes);
}

void far_put(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint64_t pos, const void *data,
             uint32_t bytes)
{
    put(far_of(m), f, l, pos, data, bytes, false);
}

void far_put_kept(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint64_t pos,
                  const void *data, uint32_t bytes)
{
    CHECK(f->ballot == 0);
    put(far_of(m), f, l, pos, data, bytes, true);
}

void far_set(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint32_t word,
             const uint64_t *values, uint32_t count)
{
    struct far *o = far_of(m);
    struct lane *lane = (struct lane *)l;
    struct link *link = flow_impl(f)->link;

    CHECK(l->spec.writer == m->self && l->spec.owner == f->owner && l->spec.region == f->region);
    CHECK(lane->state == LANE_OPEN && word + (uint64_t)count <= l->spec.ctl_words);
    if (f->status != MEM_DONE)
        return;
    if (!link)
        for (uint32_t i = 0; i < count && !l->spec.common; i++)
            atomic_store_explicit(&lane->pub.ctl[word + i], values[i], memory_order_release);
    else if (lane->link_id != link->id || !o->carrier->set(link, f, lane, word, values, count))
        far_flow_fail(o, f, MEM_LOST);
}

/* ---- marks ---- */

static void mark_own(struct far *o, struct mem_flow *f)
{
    struct flow_impl *impl = flow_impl(f);

    if (impl->listed)
        return;
    if (o->own_marks == o->own_marks_room) {
        uint32_t room = o->own_marks_room ? 2 * o->own_marks_room : 64;
        struct mem_flow **more = realloc(o->own_mark, room * sizeof(*more));
        if (!more) {
            far_flow_fail(o, f, MEM_LOST);
            return;
        }
        o->own_mark = more;
        o->own_marks_room = room;
    }
    impl->listed = 1;
    o->own_mark[o->own_marks++] = f;
}

void far_mark(struct mem *m, struct mem_flow *f, uint64_t tag)
{
    struct far *o = far_of(m);
    struct flow_impl *impl = flow_impl(f);

    f->marked = tag;
    if (f->status != MEM_DONE)
        return;
    if (!impl->link)
        mark_own(o, f);
    else if (!o->carrier->mark(impl->link, f, tag))
        far_flow_fail(o, f, MEM_LOST);
}

/* Our own memory is written by ourselves and promised by ourselves: this thread knows. */
int far_own_marks_judge(struct far *o)
{
    int changes = 0;

    while (o->own_marks > 0) {
        struct mem_flow *f = o->own_mark[--o->own_marks];
        struct flow_impl *impl = flow_impl(f);
        impl->listed = 0;
        changes++;
        if (f->ballot && far_promised_at(o, impl->index) != f->ballot)
            far_flow_fail(o, f, MEM_DENIED);
        else
            f->done = f->marked;
    }
    return changes;
}
