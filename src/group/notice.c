#include "group/notice.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE_BYTES = 8 };

static uint32_t slot_bytes_of(uint32_t bytes_max)
{
    uint32_t bytes = MEM_PAGE_BYTES / 2;
    while (bytes < SIZE_BYTES + bytes_max)
        bytes *= 2;
    return bytes;
}

uint32_t notice_ring_bytes(uint32_t bytes_max)
{
    return 2 * slot_bytes_of(bytes_max);
}

static uint64_t slot_at(const struct mem_lane *l, uint64_t count)
{
    return count % 2 * (l->spec.ring_bytes / 2);
}

/* ---- writing ---- */

int notice_writer_open(struct notice_writer *w, struct mem *mem, struct mem_lane *const *lanes,
                       uint32_t count, uint32_t bytes_max, struct err *e)
{
    *w = (struct notice_writer){.mem = mem,
                                .owners = count,
                                .audience = UINT64_MAX,
                                .bytes_max = bytes_max,
                                .retry_ns = UINT64_MAX};
    w->owner = calloc(count + 1, sizeof(*w->owner));
    w->slot = calloc(1, SIZE_BYTES + bytes_max);
    if (!w->owner || !w->slot)
        return err_set(e, ERR_NOMEM, "notice: no memory for %u bytes", bytes_max);
    for (uint32_t i = 0; i < count; i++) {
        struct notice_owner *o = &w->owner[i];
        o->lane = lanes[i];
        CHECK(o->lane->spec.common && o->lane->spec.ring_bytes == notice_ring_bytes(bytes_max));
        if (!mem->shared)
            mem_flow_open(mem, &o->flow, o->lane->spec.owner, o->lane->spec.region, 0);
    }
    return 0;
}

void notice_writer_close(struct notice_writer *w)
{
    free(w->owner);
    free(w->slot);
    *w = (struct notice_writer){.retry_ns = UINT64_MAX};
}

unsigned char *notice_begin(struct notice_writer *w)
{
    return w->slot + SIZE_BYTES;
}

/* Readers may be copying the slot: they see by COUNT that it is not the one that they meant, provided that the words of the slot come
 * after the COUNT before. */
static void store(const struct mem_lane *l, uint64_t at, const unsigned char *from, uint32_t bytes)
{
    atomic_thread_fence(memory_order_release);
    for (uint32_t i = 0; i < bytes; i += 8) {
        uint64_t word;
        memcpy(&word, from + i, 8);
        __atomic_store_n((uint64_t *)(void *)(l->ring + at + i), word, __ATOMIC_RELAXED);
    }
}

static uint32_t slot_used(const struct notice_writer *w)
{
    uint64_t bytes;
    memcpy(&bytes, w->slot, 8);
    return SIZE_BYTES + (uint32_t)bytes;
}

void notice_end(struct notice_writer *w, uint32_t bytes)
{
    const uint64_t size = bytes;
    CHECK(bytes > 0 && bytes <= w->bytes_max && bytes % 8 == 0);
    memcpy(w->slot, &size, 8);
    w->count++;
    w->fresh = true;
    if (w->owners == 0)
        return;
    /* The copy first: where the memory is shared that is all, and what is sent must be what it has. */
    const struct mem_lane *copy = w->owner[0].lane;
    store(copy, slot_at(copy, w->count), w->slot, slot_used(w));
    mem_store(copy, NOTICE_COUNT, w->count);
}

static void send(const struct notice_writer *w, struct notice_owner *o)
{
    const struct mem_lane *l = o->lane;
    if (!w->mem->shared) {
        if (o->flow.status != MEM_DONE)
            mem_flow_open(w->mem, &o->flow, l->spec.owner, l->spec.region, 0);
        mem_put(w->mem, &o->flow, o->lane, slot_at(l, w->count), w->slot, slot_used(w));
        mem_set1(w->mem, &o->flow, o->lane, NOTICE_COUNT, w->count);
    }
    mem_bell_later(w->mem, l->spec.owner);
    o->told = w->count;
}

/* A notice that went out on a flow that is lost may be missing. */
static bool lacks(const struct notice_writer *w, const struct notice_owner *o)
{
    uint32_t node = o->lane->spec.owner;
    if (node < 64 && !(w->audience >> node & 1))
        return false;
    return o->told != w->count || (!w->mem->shared && o->flow.status != MEM_DONE);
}

int notice_post(struct notice_writer *w, uint64_t now_ns, uint64_t retry_ns)
{
    int work = w->fresh;
    if (w->count == 0 || (!w->fresh && w->mem->shared))
        return 0;
    bool all_told = true;
    for (uint32_t i = 0; i < w->owners; i++) {
        struct notice_owner *o = &w->owner[i];
        if (!lacks(w, o))
            continue;
        if (w->fresh || now_ns >= w->retry_ns || w->retry_ns == UINT64_MAX)
            send(w, o);
        all_told &= !lacks(w, o);
    }
    w->fresh = false;
    if (all_told)
        w->retry_ns = UINT64_MAX;
    else if (w->retry_ns == UINT64_MAX || now_ns >= w->retry_ns)
        w->retry_ns = now_ns + retry_ns;
    return work;
}

/* ---- reading ---- */

void notice_next(struct notice_reader *r)
{
    mem_lane_next(r->mem, r->lane);
}

static void load(const struct mem_lane *l, uint64_t at, unsigned char *to, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i += 8) {
        uint64_t word =
            __atomic_load_n((const uint64_t *)(const void *)(l->ring + at + i), __ATOMIC_RELAXED);
        memcpy(to + i, &word, 8);
    }
    /* The words before COUNT, which is looked at again. */
    atomic_thread_fence(memory_order_acquire);
}

uint32_t notice_read(struct notice_reader *r, unsigned char *to, uint32_t bytes_max)
{
    const struct mem_lane *l = r->lane;
    if (l->ctl == NULL)
        return 0;
    if (l->life != r->life) {
        r->life = l->life;
        r->count = 0;
    }
    uint64_t count = mem_word(l, NOTICE_COUNT), bytes;
    if (count == r->count)
        return 0;
    load(l, slot_at(l, count), (unsigned char *)&bytes, SIZE_BYTES);
    bool fits = bytes > 0 && bytes <= bytes_max && bytes % 8 == 0;
    if (fits)
        load(l, slot_at(l, count) + SIZE_BYTES, to, (uint32_t)bytes);
    if (mem_word(l, NOTICE_COUNT) != count)
        return 0;
    /* What no host writes is not looked at again either. */
    r->count = count;
    return fits ? (uint32_t)bytes : 0;
}
