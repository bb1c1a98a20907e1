/* What an order stores: items by hash, their payloads in blocks, a queue and a heap of turns, and marks. */
#include "base/grow.h"
#include "mcast/order_impl.h"
#include "mcast/planted.h"

#include <stdlib.h>

enum { ITEMS_FIRST = 256, MARKS_FIRST = 16 };

/* ---- room ---- */

static void items_grow(struct order *o)
{
    uint32_t was = o->items, now = was ? 2 * was : ITEMS_FIRST;
    o->item = grow("messages that wait for stamps", o->item, sizeof(*o->item), now);
    o->more =
        grow("messages that wait for stamps", o->more, sizeof(*o->more) * (o->more_words + 1), now);
    o->heap = grow("messages that wait for stamps", o->heap, sizeof(*o->heap), now);
    o->bucket = grow("messages that wait for stamps", o->bucket, sizeof(*o->bucket), now);
    o->items = now;
    /* Numbers that were given out last are given out first: they are in the cache. */
    for (uint32_t i = now; i-- > was;) {
        memset(&o->item[i], 0, offsetof(struct item, payload));
        o->item[i].next = o->free_item;
        o->free_item = i;
    }
    memset(&o->more[(size_t)was * o->more_words], 0,
           sizeof(*o->more) * o->more_words * (now - was));
}

static void queue_grow(struct order *o)
{
    uint64_t was = o->queue_max, now = was ? 2 * was : ITEMS_FIRST;
    o->queue = grow("the queue of messages that wait for stamps", o->queue, sizeof(*o->queue), now);
    for (uint64_t n = o->queue_from; n < o->queue_end; n++)
        o->queue[n & (now - 1)] = o->queue[n & (was - 1)];
    o->queue_max = now;
}

static void blocks_grow(struct order *o, uint32_t now)
{
    uint32_t was = o->blocks;
    o->block = grow("bodies of messages that wait for stamps", o->block, ORDER_BLOCK_BYTES, now);
    o->block_next =
        grow("bodies of messages that wait for stamps", o->block_next, sizeof(*o->block_next), now);
    for (uint32_t i = now; i-- > was;) {
        o->block_next[i] = o->free_block;
        o->free_block = i;
    }
    o->blocks = now;
    o->blocks_free += now - was;
}

/* Beyond what the item itself has. */
static uint32_t blocks_of(uint32_t bytes)
{
    return bytes > ORDER_BLOCK_BYTES ? (bytes - 1) / ORDER_BLOCK_BYTES : 0;
}

/* ---- items ---- */

/* Twice as many places, and everything in its new bucket. */
static void rehash(struct order *o)
{
    uint32_t old = o->items;
    items_grow(o);
    memset(o->bucket, 0xff, o->items * sizeof(*o->bucket));
    /* None of the old places was free. */
    for (uint32_t i = 0; i < old; i++) {
        uint32_t *link = order_bucket(o, &o->item[i].id);
        o->item[i].next = *link;
        *link = i;
    }
}

uint32_t order_add(struct order *o, const struct message_id *id)
{
    if (o->free_item == ORDER_NONE)
        rehash(o);
    uint32_t i = o->free_item, *link = order_bucket(o, id);
    struct item *m = &o->item[i];
    o->free_item = m->next;
    if (PLANTED(slot_stale))
        planted_slot_stale(m);
    else
        memset(m, 0, offsetof(struct item, payload));
    m->id = *id;
    m->block = ORDER_NONE;
    m->next = *link;
    *link = i;
    o->used++;
    if (o->more_words > 0)
        memset(&o->more[(size_t)i * o->more_words], 0, o->more_words * sizeof(*o->more));
    return i;
}

void order_forget(struct order *o, uint32_t i)
{
    struct item *m = &o->item[i];
    uint32_t *link = order_bucket(o, &m->id);
    while (*link != i)
        link = &o->item[*link].next;
    *link = m->next;
    while (m->block != ORDER_NONE) {
        uint32_t b = m->block;
        m->block = o->block_next[b];
        o->block_next[b] = o->free_block;
        o->free_block = b;
        o->blocks_free++;
    }
    m->own = 0; /* the queue may still name it */
    m->next = o->free_item;
    o->free_item = i;
    o->used--;
}

/* ---- the heap ---- */

void order_heap_add(struct order *o, uint32_t i)
{
    struct turn t = {.stamp = o->item[i].high, .item = i};
    uint32_t place = o->heap_count++;
    for (; place > 0 && o->heap[(place - 1) / 2].stamp > t.stamp; place = (place - 1) / 2)
        o->heap[place] = o->heap[(place - 1) / 2];
    o->heap[place] = t;
}

void order_heap_drop(struct order *o)
{
    struct turn t = o->heap[--o->heap_count];
    uint32_t place = 0;
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child >= o->heap_count)
            break;
        child += child + 1 < o->heap_count && o->heap[child + 1].stamp < o->heap[child].stamp;
        if (o->heap[child].stamp >= t.stamp)
            break;
        o->heap[place] = o->heap[child];
        place = child;
    }
    o->heap[place] = t;
}

/* ---- the queue ---- */

void order_queue_add(struct order *o, uint32_t i)
{
    if (o->queue_end - o->queue_from == o->queue_max)
        queue_grow(o);
    o->queue[o->queue_end++ & (o->queue_max - 1)] =
        (struct turn){.stamp = o->item[i].own, .item = i};
}

/* ---- payloads ---- */

void order_keep_payload(struct order *o, struct item *m, const void *payload, uint32_t bytes)
{
    const unsigned char *from = payload;
    uint32_t left = bytes, *link = &m->block, need = blocks_of(bytes);
    if (need > o->blocks_free)
        blocks_grow(o, 2 * o->blocks + need);
    m->bytes = bytes;
    unsigned char *to = m->payload;
    for (;;) {
        uint32_t n = left < ORDER_BLOCK_BYTES ? left : ORDER_BLOCK_BYTES;
        memcpy(to, from, n);
        from += n;
        left -= n;
        if (left == 0)
            break;
        uint32_t b = o->free_block;
        o->free_block = o->block_next[b];
        o->blocks_free--;
        to = o->block[b];
        *link = b;
        link = &o->block_next[b];
    }
    *link = ORDER_NONE;
}

const void *order_payload(struct order *o, const struct item *m)
{
    if (m->bytes <= ORDER_BLOCK_BYTES)
        return m->payload;
    if (m->bytes > o->whole_max) {
        o->whole_max = m->bytes;
        o->whole = grow("a message in one piece", o->whole, ORDER_BLOCK_BYTES,
                        1 + (size_t)blocks_of(m->bytes));
    }
    unsigned char *to = o->whole;
    memcpy(to, m->payload, ORDER_BLOCK_BYTES);
    to += ORDER_BLOCK_BYTES;
    for (uint32_t b = m->block; b != ORDER_NONE; b = o->block_next[b], to += ORDER_BLOCK_BYTES)
        memcpy(to, o->block[b], ORDER_BLOCK_BYTES);
    return o->whole;
}

/* ---- marks ---- */

void order_marks_add(struct order *o, const struct message_id *id)
{
    struct marks *k = &o->marks[id->client];
    if (k->count == k->max) {
        k->max = k->max ? 2 * k->max : MARKS_FIRST;
        k->id = grow("marks of relayed messages", k->id, sizeof(*k->id), k->max);
    }
    k->id[k->count++] = *id;
}

/* ---- opening ---- */

int order_open(const struct order_options *options, struct order **out, struct err *e)
{
    struct order *o = calloc(1, sizeof(*o));
    if (o == NULL)
        return err_set(e, ERR_NOMEM, "no memory for the order of messages");
    o->opt = *options;
    o->more_words = (options->groups - 1) / 64;
    o->free_item = o->free_block = ORDER_NONE;
    o->marks = calloc(options->clients, sizeof(*o->marks));
    if (o->marks == NULL) {
        order_close(o);
        return err_set(e, ERR_NOMEM, "no memory for the order of messages");
    }
    items_grow(o);
    memset(o->bucket, 0xff, o->items * sizeof(*o->bucket));
    blocks_grow(o, ITEMS_FIRST);
    *out = o;
    return 0;
}

void order_clear(struct order *o)
{
    for (uint32_t b = 0; b < o->items; b++)
        while (o->bucket[b] != ORDER_NONE)
            order_forget(o, o->bucket[b]);
    o->heap_count = 0;
    o->queue_from = o->queue_end = 0;
    o->clock = o->given = o->delivered = 0;
    for (uint32_t c = 0; c < o->opt.clients; c++)
        o->marks[c].count = 0;
}

void order_close(struct order *o)
{
    if (o == NULL)
        return;
    for (uint32_t c = 0; o->marks && c < o->opt.clients; c++)
        free(o->marks[c].id);
    free(o->marks);
    free(o->item);
    free(o->more);
    free(o->heap);
    free(o->queue);
    free(o->bucket);
    free(o->block);
    free(o->block_next);
    free(o->whole);
    free(o);
}
