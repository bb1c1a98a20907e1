#include "mcast/order.h"

#include "base/grow.h"
#include "base/planted.h"
#include "mcast/snap.h"

#include <stdlib.h>

enum {
    NONE = UINT32_MAX,
    BLOCK_BYTES = 128, /* most messages fit as many */
    ITEMS_FIRST = 256,
    GROUP_BITS = 10, /* of a stamp, so that no two groups give the same */
    MARKS_FIRST = 16,
};
_Static_assert(DST_GROUPS_MAX <= 1 << GROUP_BITS, "a stamp names its group");

/* A message that is not delivered here. The head is one cache line, and most payloads stand next to it:
 * there are many, and each is looked up for every stamp. */
struct item {
    struct message_id id;
    uint64_t own;     /* our stamp; 0: the message is still to come */
    uint64_t high;    /* highest stamp heard; the final one when all have been */
    uint64_t from;    /* who has sent stamps: a bit for each of the first 64 groups */
    uint32_t bytes;   /* of payload */
    uint32_t block;   /* where the payload goes on, in a chain of blocks; or NONE */
    uint32_t next;    /* in its bucket, or among the free */
    uint16_t missing; /* stamps, once the message is there */
    uint16_t heard;   /* stamps of others */
    uint16_t seen;    /* times that order_watch found it waiting; not part of the state */
    bool relayed;
    bool away; /* another group collects the stamps; only the final one is missing */
    _Alignas(8) unsigned char payload[BLOCK_BYTES]; /* its first bytes */
};
_Static_assert(offsetof(struct item, payload) == 64, "the head of an item is a cache line");

/* A message with a stamp that says when its turn is. */
struct turn {
    uint64_t stamp;
    uint32_t item;
};

/* Messages of one client that came by relay, and that it may still send itself. */
struct marks {
    struct message_id *id;
    uint32_t count, max;
};

struct order {
    struct order_options opt;
    uint64_t clock; /* of the highest stamp given or heard */

    struct item *item;
    uint64_t *more;      /* as item.from, for groups beyond the first 64: words of bits */
    uint32_t more_words; /* an item */
    uint32_t items;      /* room */
    uint32_t used;       /* not free */
    uint32_t free_item;
    uint32_t *bucket; /* by hash; as many as items */

    /* Those with a stamp of our own, in the order of these: a ring. What is complete, or delivered, stays
     * until it comes first. */
    struct turn *queue;
    uint64_t queue_from, queue_end, queue_max;

    /* Those that are complete, lowest final stamp first. */
    struct turn *heap;
    uint32_t heap_count;

    unsigned char (*block)[BLOCK_BYTES];
    uint32_t *block_next;
    uint32_t blocks, free_block, blocks_free;

    unsigned char *whole; /* a payload of several blocks in one piece */
    uint32_t whole_max;
    struct marks *marks; /* by client */
};

/* ---- room ---- */

static void items_grow(struct order *o)
{
    uint32_t was = o->items, now = was ? 2 * was : ITEMS_FIRST;
    o->item = grow(o->item, sizeof(*o->item), now);
    o->more = grow(o->more, sizeof(*o->more) * (o->more_words + 1), now);
    o->heap = grow(o->heap, sizeof(*o->heap), now);
    o->bucket = grow(o->bucket, sizeof(*o->bucket), now);
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
    o->queue = grow(o->queue, sizeof(*o->queue), now);
    for (uint64_t n = o->queue_from; n < o->queue_end; n++)
        o->queue[n & (now - 1)] = o->queue[n & (was - 1)];
    o->queue_max = now;
}

static void blocks_grow(struct order *o, uint32_t now)
{
    uint32_t was = o->blocks;
    o->block = grow(o->block, BLOCK_BYTES, now);
    o->block_next = grow(o->block_next, sizeof(*o->block_next), now);
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
    return bytes > BLOCK_BYTES ? (bytes - 1) / BLOCK_BYTES : 0;
}

/* ---- finding ---- */

static uint32_t *bucket_of(const struct order *o, const struct message_id *id)
{
    /* Neighbours in a client's stream are neighbours here: they come and go together. */
    uint64_t h =
        id->seq + ((uint64_t)id->client << 16 | id->life) * UINT64_C(0x9e3779b97f4a7c15) / 2;
    return &o->bucket[(h ^ h >> 40) & (o->items - 1)];
}

static bool same_id(const struct message_id *a, const struct message_id *b)
{
    return a->seq == b->seq && a->client == b->client && a->life == b->life;
}

static uint32_t find(const struct order *o, const struct message_id *id)
{
    uint32_t i = *bucket_of(o, id);
    while (i != NONE && !same_id(&o->item[i].id, id))
        i = o->item[i].next;
    return i;
}

/* Twice as many places, and everything in its new bucket. */
static void rehash(struct order *o)
{
    uint32_t old = o->items;
    items_grow(o);
    memset(o->bucket, 0xff, o->items * sizeof(*o->bucket));
    /* None of the old places was free. */
    for (uint32_t i = 0; i < old; i++) {
        uint32_t *link = bucket_of(o, &o->item[i].id);
        o->item[i].next = *link;
        *link = i;
    }
}

static uint32_t add(struct order *o, const struct message_id *id)
{
    if (o->free_item == NONE)
        rehash(o);
    uint32_t i = o->free_item, *link = bucket_of(o, id);
    struct item *m = &o->item[i];
    o->free_item = m->next;
    if (PLANTED(slot_stale)) {
        /* R11: what the last message in this place was told counts for this one. */
        m->own = m->missing = m->relayed = m->away = 0;
    } else {
        memset(m, 0, offsetof(struct item, payload));
    }
    m->id = *id;
    m->block = NONE;
    m->next = *link;
    *link = i;
    o->used++;
    if (o->more_words > 0)
        memset(&o->more[(size_t)i * o->more_words], 0, o->more_words * sizeof(*o->more));
    return i;
}

static void forget(struct order *o, uint32_t i)
{
    struct item *m = &o->item[i];
    uint32_t *link = bucket_of(o, &m->id);
    while (*link != i)
        link = &o->item[*link].next;
    *link = m->next;
    while (m->block != NONE) {
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

static void heap_add(struct order *o, uint32_t i)
{
    struct turn t = {.stamp = o->item[i].high, .item = i};
    uint32_t place = o->heap_count++;
    for (; place > 0 && o->heap[(place - 1) / 2].stamp > t.stamp; place = (place - 1) / 2)
        o->heap[place] = o->heap[(place - 1) / 2];
    o->heap[place] = t;
}

static void heap_drop(struct order *o)
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

static void queue_add(struct order *o, uint32_t i)
{
    if (o->queue_end - o->queue_from == o->queue_max)
        queue_grow(o);
    o->queue[o->queue_end++ & (o->queue_max - 1)] =
        (struct turn){.stamp = o->item[i].own, .item = i};
}

/* Below this no message that waits for stamps can come out: our own stamp for the first of them. */
static uint64_t queue_bound(struct order *o)
{
    if (PLANTED(blind_deliver))
        return UINT64_MAX; /* R1: what is not complete holds up nobody */
    for (; o->queue_from < o->queue_end; o->queue_from++) {
        const struct turn *t = &o->queue[o->queue_from & (o->queue_max - 1)];
        const struct item *m = &o->item[t->item];
        if (m->own == t->stamp && m->missing > 0)
            return t->stamp;
    }
    return UINT64_MAX;
}

/* ---- messages ---- */

static const struct message *header(const void *payload)
{
    return payload;
}

static void keep_payload(struct order *o, struct item *m, const void *payload, uint32_t bytes)
{
    const unsigned char *from = payload;
    uint32_t left = bytes, *link = &m->block, need = blocks_of(bytes);
    if (need > o->blocks_free)
        blocks_grow(o, 2 * o->blocks + need);
    m->bytes = bytes;
    unsigned char *to = m->payload;
    for (;;) {
        uint32_t n = left < BLOCK_BYTES ? left : BLOCK_BYTES;
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
    *link = NONE;
}

static const void *payload_of(struct order *o, const struct item *m)
{
    if (m->bytes <= BLOCK_BYTES)
        return m->payload;
    if (m->bytes > o->whole_max) {
        o->whole_max = m->bytes;
        o->whole = grow(o->whole, BLOCK_BYTES, 1 + (size_t)blocks_of(m->bytes));
    }
    unsigned char *to = o->whole;
    memcpy(to, m->payload, BLOCK_BYTES);
    to += BLOCK_BYTES;
    for (uint32_t b = m->block; b != NONE; b = o->block_next[b], to += BLOCK_BYTES)
        memcpy(to, o->block[b], BLOCK_BYTES);
    return o->whole;
}

uint16_t order_home(const struct message *m)
{
    uint16_t home;
    if (m->count < ORDER_HOME_FROM)
        return ORDER_NO_HOME;
    memcpy(&home, m->rest + (m->seq + m->client) % m->count * sizeof(home), sizeof(home));
    return home;
}

/* The message is here: gives it our stamp. */
static uint64_t stamp_it(struct order *o, uint32_t i, const void *payload, uint32_t bytes)
{
    struct item *m = &o->item[i];
    m->own = ++o->clock << GROUP_BITS | o->opt.group;
    if (m->own > m->high)
        m->high = m->own;
    uint16_t home = order_home(payload);
    uint32_t others = header(payload)->count - 1u;
    m->away = home != ORDER_NO_HOME && home != o->opt.group;
    m->missing = (uint16_t)(m->away ? 1 : others > m->heard ? others - m->heard : 0);
    keep_payload(o, m, payload, bytes);
    if (m->missing == 0)
        heap_add(o, i);
    else
        queue_add(o, i);
    return m->own;
}

/* ---- marks ---- */

static void marks_add(struct order *o, const struct message_id *id)
{
    struct marks *k = &o->marks[id->client];
    if (k->count == k->max) {
        k->max = k->max ? 2 * k->max : MARKS_FIRST;
        k->id = grow(k->id, sizeof(*k->id), k->max);
    }
    k->id[k->count++] = *id;
}

void order_life(struct order *o, uint32_t client, uint16_t life)
{
    struct marks *k = &o->marks[client];
    for (uint32_t n = 0; n < k->count;) {
        if (k->id[n].life < life)
            k->id[n] = k->id[--k->count];
        else
            n++;
    }
}

/* The client's own copy has come. */
static bool marks_take(struct order *o, const struct message_id *id)
{
    struct marks *k = &o->marks[id->client];
    for (uint32_t n = 0; n < k->count; n++)
        if (same_id(&k->id[n], id)) {
            k->id[n] = k->id[--k->count];
            return !PLANTED(relay_twice);
        }
    return false;
}

/* ---- what comes ---- */

uint64_t order_message(struct order *o, const void *payload, uint32_t bytes)
{
    struct message_id id = message_id(payload);
    if (marks_take(o, &id))
        return 0;
    uint32_t i = find(o, &id);
    if (i != NONE && o->item[i].own != 0)
        return 0;
    if (i == NONE)
        i = add(o, &id);
    return stamp_it(o, i, payload, bytes);
}

static void raise_clock(struct order *o, uint64_t stamp)
{
    if (stamp >> GROUP_BITS > o->clock && !PLANTED(clock_own))
        o->clock = stamp >> GROUP_BITS;
}

/* Something that was missing has come. */
static enum order_news one_less(struct order *o, uint32_t i)
{
    if (--o->item[i].missing > 0)
        return ORDER_HEARD;
    heap_add(o, i);
    return ORDER_COMPLETE;
}

/* Notes that the group has sent its stamp; false if it had before. */
static bool note_from(struct order *o, uint32_t i, uint16_t from)
{
    uint64_t *word =
        from < 64 ? &o->item[i].from : &o->more[(size_t)i * o->more_words + from / 64 - 1];
    uint64_t bit = UINT64_C(1) << from % 64;
    if (*word & bit)
        return false;
    *word |= bit;
    return true;
}

static bool is_from(const struct order *o, uint32_t i, uint16_t from)
{
    uint64_t word =
        from < 64 ? o->item[i].from : o->more[(size_t)i * o->more_words + from / 64 - 1];
    return word >> from % 64 & 1;
}

enum order_news order_stamp(struct order *o, uint16_t from, struct message_id id, uint64_t stamp)
{
    if (from >= o->opt.groups || (stamp & ((1u << GROUP_BITS) - 1)) != from ||
        id.client >= o->opt.clients)
        return ORDER_BAD;
    uint32_t i = find(o, &id);
    if (i == NONE)
        i = add(o, &id);
    if (!note_from(o, i, from))
        return ORDER_BAD;
    struct item *m = &o->item[i];
    raise_clock(o, stamp);
    m->heard++;
    /* Nobody sends one too many, unless the client told it other destinations than us. */
    if (m->own != 0 && m->missing == 0)
        return ORDER_HEARD;
    /* R2: that it was said counts, what was said comes too late. */
    if (stamp > m->high && !PLANTED(ack_only))
        m->high = stamp;
    return m->own == 0 || m->away ? ORDER_HEARD : one_less(o, i);
}

enum order_news order_final(struct order *o, struct message_id id, uint64_t stamp)
{
    uint32_t i = id.client < o->opt.clients ? find(o, &id) : NONE;
    if (i == NONE || !o->item[i].away || o->item[i].missing == 0)
        return ORDER_BAD;
    raise_clock(o, stamp);
    if (stamp > o->item[i].high && !PLANTED(ack_only))
        o->item[i].high = stamp;
    return one_less(o, i);
}

uint64_t order_complete(struct order *o, struct message_id id, const void **payload,
                        uint32_t *bytes)
{
    uint32_t i = id.client < o->opt.clients ? find(o, &id) : NONE;
    if (i == NONE || o->item[i].own == 0 || o->item[i].missing > 0)
        return 0;
    *payload = payload_of(o, &o->item[i]);
    *bytes = o->item[i].bytes;
    return o->item[i].high;
}

uint64_t order_relayed(struct order *o, const void *payload, uint32_t bytes, bool over)
{
    struct message_id id = message_id(payload);
    uint32_t i = find(o, &id);
    if (PLANTED(relay_twice) && i == NONE)
        i = add(o, &id);
    if (i == NONE || o->item[i].own != 0)
        return 0;
    if (!over)
        marks_add(o, &id);
    return stamp_it(o, i, payload, bytes);
}

const void *order_first(struct order *o, uint32_t *bytes)
{
    if (o->heap_count == 0 || o->heap[0].stamp >= queue_bound(o))
        return NULL;
    const struct item *m = &o->item[o->heap[0].item];
    *bytes = m->bytes;
    return payload_of(o, m);
}

void order_drop(struct order *o)
{
    forget(o, o->heap[0].item);
    heap_drop(o);
}

/* ---- relaying ---- */

static bool waits(const struct item *m)
{
    return m->own != 0 && m->missing > 0 && !m->relayed;
}

const void *order_waiting(struct order *o, struct message_id id, uint32_t *bytes, uint16_t *missing,
                          uint32_t *count)
{
    uint32_t i = id.client < o->opt.clients ? find(o, &id) : NONE;
    if (i == NONE || !waits(&o->item[i]))
        return NULL;
    const void *payload = payload_of(o, &o->item[i]);
    uint16_t list[DST_GROUPS_MAX];
    struct dst_set dst = dst_read(header(payload)->rest, header(payload)->count, list);
    *count = 0;
    *bytes = o->item[i].bytes;
    if (o->item[i].away) {
        missing[(*count)++] = order_home(payload);
        return payload;
    }
    for (uint32_t d = 0; d < dst.count; d++) {
        uint16_t g = dst.group[d];
        if (g != o->opt.group && !is_from(o, i, g))
            missing[(*count)++] = g;
    }
    return payload;
}

uint64_t order_own(const struct order *o, struct message_id id)
{
    uint32_t i = find(o, &id);
    return i != NONE ? o->item[i].own : 0;
}

void order_set_relayed(struct order *o, struct message_id id)
{
    uint32_t i = find(o, &id);
    if (i != NONE)
        o->item[i].relayed = true;
}

void order_watch(struct order *o, bool (*look)(void *ctx, struct message_id, uint32_t seen),
                 void *ctx)
{
    for (uint64_t n = o->queue_from; n < o->queue_end; n++) {
        const struct turn *t = &o->queue[n & (o->queue_max - 1)];
        struct item *m = &o->item[t->item];
        if (m->own == t->stamp && waits(m))
            m->seen = look(ctx, m->id, m->seen) ? 0 : (uint16_t)(m->seen + (m->seen < UINT16_MAX));
    }
}

uint32_t order_pending(const struct order *o)
{
    return o->used;
}

/* ---- snapshots: | clock | items | marks | each item: fixed words, groups, payload | each mark | ---- */

enum { HEAD_WORDS = 3, ITEM_WORDS = 8 };

uint64_t order_marks(const struct order *o)
{
    uint64_t count = 0;
    for (uint32_t c = 0; c < o->opt.clients; c++)
        count += o->marks[c].count;
    return count;
}

uint64_t order_save_bytes(const struct order *o)
{
    return 8 * HEAD_WORDS + (uint64_t)o->used * (8 * (ITEM_WORDS + o->more_words) + BLOCK_BYTES) +
           (uint64_t)(o->blocks - o->blocks_free) * BLOCK_BYTES +
           order_marks(o) * sizeof(struct message_id);
}

static unsigned char *save_item(struct order *o, uint32_t i, unsigned char *at)
{
    const struct item *m = &o->item[i];
    at = snap_put(at, m->id.seq);
    at = snap_put(at, (uint64_t)m->id.client << 16 | m->id.life);
    at = snap_put(at, m->own);
    at = snap_put(at, m->high);
    at = snap_put(at, (uint64_t)m->missing << 32 | m->heard);
    at = snap_put(at, (uint64_t)m->away << 1 | m->relayed);
    at = snap_put(at, m->bytes);
    at = snap_put(at, m->from);
    memcpy(at, &o->more[(size_t)i * o->more_words], o->more_words * 8);
    at += o->more_words * 8;
    if (m->own == 0)
        return at;
    memcpy(at, payload_of(o, m), m->bytes);
    memset(at + m->bytes, 0, padded(m->bytes) - m->bytes);
    return at + padded(m->bytes);
}

uint64_t order_save(struct order *o, unsigned char *out)
{
    unsigned char *at = snap_put(snap_put(snap_put(out, o->clock), o->used), order_marks(o));
    /* Those that wait for stamps in the order of the queue, then the others. */
    for (uint64_t n = o->queue_from; n < o->queue_end; n++) {
        const struct turn *t = &o->queue[n & (o->queue_max - 1)];
        if (o->item[t->item].own == t->stamp && o->item[t->item].missing > 0)
            at = save_item(o, t->item, at);
    }
    for (uint32_t b = 0; b < o->items; b++)
        for (uint32_t i = o->bucket[b]; i != NONE; i = o->item[i].next)
            if (o->item[i].own == 0 || o->item[i].missing == 0)
                at = save_item(o, i, at);
    for (uint32_t c = 0; c < o->opt.clients; c++) {
        const struct marks *k = &o->marks[c];
        if (k->count > 0)
            memcpy(at, k->id, k->count * sizeof(*k->id));
        at += k->count * sizeof(*k->id);
    }
    return (uint64_t)(at - out);
}

static void clear(struct order *o)
{
    for (uint32_t b = 0; b < o->items; b++)
        while (o->bucket[b] != NONE)
            forget(o, o->bucket[b]);
    o->heap_count = 0;
    o->queue_from = o->queue_end = 0;
    o->clock = 0;
    for (uint32_t c = 0; c < o->opt.clients; c++)
        o->marks[c].count = 0;
}

/* Could this be what was kept of the message? */
static bool is_ours(const struct order *o, const struct message_id *id, const void *payload,
                    uint32_t bytes, uint64_t missing)
{
    struct message_view v;
    if (!message_read(payload, bytes, o->opt.clients, o->opt.groups, &v))
        return false;
    struct message_id its = message_id(v.m);
    return same_id(&its, id) && dst_has(v.dst, o->opt.group) && missing < v.dst.count;
}

/* The item that stands at *at; false if none can. */
static bool load_item(struct order *o, const unsigned char **at, const unsigned char *end)
{
    uint64_t w[ITEM_WORDS];
    uint64_t fixed = 8 * (uint64_t)(ITEM_WORDS + o->more_words);
    if ((uint64_t)(end - *at) < fixed)
        return false;
    for (uint32_t n = 0; n < ITEM_WORDS; n++)
        *at = snap_get(*at, &w[n]);
    struct message_id id = {.seq = w[0], .client = (uint32_t)(w[1] >> 16), .life = (uint16_t)w[1]};
    const unsigned char *more = *at;
    *at += o->more_words * 8;
    uint64_t kept = w[2] ? padded(w[6]) : 0;
    if (id.client >= o->opt.clients || w[6] > UINT32_MAX || (uint64_t)(end - *at) < kept ||
        find(o, &id) != NONE || (w[2] != 0 && !is_ours(o, &id, *at, (uint32_t)w[6], w[4] >> 32)))
        return false;
    uint32_t i = add(o, &id);
    struct item *m = &o->item[i];
    m->own = w[2];
    m->high = w[3];
    m->missing = (uint16_t)(w[4] >> 32);
    m->heard = (uint16_t)w[4];
    m->relayed = w[5] & 1;
    m->away = w[5] >> 1 & 1;
    m->from = w[7];
    memcpy(&o->more[(size_t)i * o->more_words], more, o->more_words * 8);
    if (m->own == 0)
        return true;
    keep_payload(o, m, *at, (uint32_t)w[6]);
    *at += kept;
    if (m->missing == 0)
        heap_add(o, i);
    else
        queue_add(o, i);
    return true;
}

static bool load_mark(struct order *o, const unsigned char **at, const unsigned char *end)
{
    struct message_id id;
    if ((size_t)(end - *at) < sizeof(id))
        return false;
    memcpy(&id, *at, sizeof(id));
    *at += sizeof(id);
    if (id.client >= o->opt.clients)
        return false;
    marks_add(o, &id);
    return true;
}

bool order_load(struct order *o, const unsigned char *in, uint64_t bytes)
{
    const unsigned char *at = in, *end = in + bytes;
    uint64_t count, clock, marks;
    clear(o);
    if (bytes < 8 * HEAD_WORDS)
        return false;
    at = snap_get(snap_get(snap_get(at, &clock), &count), &marks);
    /* R5: what others' stamps have raised it to is not kept. */
    o->clock = PLANTED(clock_volatile) ? 0 : clock;
    for (; count > 0; count--)
        if (!load_item(o, &at, end))
            return false;
    for (; marks > 0; marks--)
        if (!load_mark(o, &at, end))
            return false;
    return at == end;
}

/* ---- opening ---- */

int order_open(const struct order_options *options, struct order **out, struct err *e)
{
    struct order *o = calloc(1, sizeof(*o));
    if (o == NULL)
        return err_set(e, ERR_NOMEM, "no memory for the order of messages");
    o->opt = *options;
    o->more_words = (options->groups - 1) / 64;
    o->free_item = o->free_block = NONE;
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
