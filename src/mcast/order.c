#include "mcast/order.h"

#include "base/grow.h"
#include "base/hash.h"
#include "base/planted.h"
#include "mcast/snap.h"

#include <stdlib.h>

enum {
    NONE = UINT32_MAX,
    BLOCK_BYTES = 128, /* most messages fit one */
    ITEMS_FIRST = 256,
    GROUP_BITS = 10, /* of a stamp, so that no two groups give the same */
    MARKS_FIRST = 16,
};
_Static_assert(DST_GROUPS_MAX <= 1 << GROUP_BITS, "a stamp names its group");

/* A message that is not delivered here. */
struct item {
    struct message_id id;
    uint64_t own;     /* our stamp; 0: the message is still to come */
    uint64_t high;    /* highest stamp heard; the final one when all have been */
    uint32_t missing; /* stamps, once the message is there */
    uint32_t heard;   /* stamps of others */
    uint32_t bytes;   /* of payload */
    uint32_t block;   /* first of the payload, which goes on in the blocks' chain */
    uint32_t next;    /* in its bucket, or among the free */
    uint32_t place;   /* in the heap; NONE: not there */
    uint32_t seen;    /* times that order_watch found it waiting; not part of the state */
    bool relayed;
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
    uint64_t *from;      /* who has sent stamps for an item: words of bits */
    uint32_t from_words; /* an item */
    uint32_t items;      /* room */
    uint32_t used;       /* not free */
    uint32_t free_item;
    uint32_t *bucket; /* by hash; as many as items */

    /* Those with a stamp of our own, lowest possible final stamp first. */
    uint32_t *heap;
    uint32_t heap_count;

    unsigned char (*block)[BLOCK_BYTES];
    uint32_t *block_next;
    uint32_t blocks, free_block, blocks_free;
    uint32_t blocks_own; /* of what order_room speaks */

    unsigned char *whole; /* a payload of several blocks in one piece */
    uint32_t whole_max;
    struct marks *marks; /* by client */
};

/* ---- room ---- */

static void items_grow(struct order *o)
{
    uint32_t was = o->items, now = was ? 2 * was : ITEMS_FIRST;
    o->item = grow(o->item, sizeof(*o->item), now);
    o->from = grow(o->from, sizeof(*o->from) * o->from_words, now);
    o->heap = grow(o->heap, sizeof(*o->heap), now);
    o->bucket = grow(o->bucket, sizeof(*o->bucket), now);
    o->items = now;
    /* Numbers that were given out last are given out first: they are in the cache. */
    for (uint32_t i = now; i-- > was;) {
        o->item[i] = (struct item){.next = o->free_item};
        o->free_item = i;
    }
    memset(&o->from[(size_t)was * o->from_words], 0,
           sizeof(*o->from) * o->from_words * (now - was));
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

uint32_t order_need(uint32_t bytes)
{
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
}

uint32_t order_room(const struct order *o)
{
    uint32_t used = o->blocks - o->blocks_free;
    return used < o->blocks_own ? o->blocks_own - used : 0;
}

/* ---- finding ---- */

static uint32_t *bucket_of(const struct order *o, const struct message_id *id)
{
    uint64_t h = hash_mix(id->seq, (uint64_t)id->client << 16 | id->life);
    return &o->bucket[h & (o->items - 1)];
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
    struct item last = *m;
    *m = (struct item){.id = *id, .block = NONE, .place = NONE, .next = *link};
    *link = i;
    o->used++;
    if (PLANTED(slot_stale)) {
        /* R11: what the last message in this place was told counts for this one. */
        m->high = last.high;
        m->heard = last.heard;
        return i;
    }
    memset(&o->from[(size_t)i * o->from_words], 0, o->from_words * sizeof(*o->from));
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
    m->next = o->free_item;
    o->free_item = i;
    o->used--;
}

/* ---- the heap ---- */

static void heap_put(struct order *o, uint32_t place, uint32_t i)
{
    o->heap[place] = i;
    o->item[i].place = place;
}

static void heap_up(struct order *o, uint32_t place)
{
    uint32_t i = o->heap[place];
    while (place > 0 && o->item[o->heap[(place - 1) / 2]].high > o->item[i].high) {
        heap_put(o, place, o->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    heap_put(o, place, i);
}

static void heap_down(struct order *o, uint32_t place)
{
    uint32_t i = o->heap[place];
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child >= o->heap_count)
            break;
        if (child + 1 < o->heap_count &&
            o->item[o->heap[child + 1]].high < o->item[o->heap[child]].high)
            child++;
        if (o->item[o->heap[child]].high >= o->item[i].high)
            break;
        heap_put(o, place, o->heap[child]);
        place = child;
    }
    heap_put(o, place, i);
}

static void heap_add(struct order *o, uint32_t i)
{
    heap_put(o, o->heap_count++, i);
    heap_up(o, o->heap_count - 1);
}

/* ---- messages ---- */

static const struct message *header(const void *payload)
{
    return payload;
}

static void keep_payload(struct order *o, struct item *m, const void *payload, uint32_t bytes)
{
    const unsigned char *from = payload;
    uint32_t need = order_need(bytes), *link = &m->block;
    if (need > o->blocks_free)
        blocks_grow(o, 2 * o->blocks + need);
    m->bytes = bytes;
    for (uint32_t left = bytes; need > 0; need--) {
        uint32_t b = o->free_block, n = left < BLOCK_BYTES ? left : BLOCK_BYTES;
        o->free_block = o->block_next[b];
        o->blocks_free--;
        memcpy(o->block[b], from, n);
        from += n;
        left -= n;
        *link = b;
        link = &o->block_next[b];
    }
    *link = NONE;
}

static const void *payload_of(struct order *o, const struct item *m)
{
    if (m->bytes <= BLOCK_BYTES)
        return o->block[m->block];
    if (m->bytes > o->whole_max) {
        o->whole_max = m->bytes;
        o->whole = grow(o->whole, 1, BLOCK_BYTES * (size_t)order_need(m->bytes));
    }
    unsigned char *to = o->whole;
    for (uint32_t b = m->block; b != NONE; b = o->block_next[b], to += BLOCK_BYTES)
        memcpy(to, o->block[b], BLOCK_BYTES);
    return o->whole;
}

/* The message is here: gives it our stamp. */
static uint64_t stamp_it(struct order *o, uint32_t i, const void *payload, uint32_t bytes)
{
    struct item *m = &o->item[i];
    m->own = ++o->clock << GROUP_BITS | o->opt.group;
    if (m->own > m->high)
        m->high = m->own;
    uint32_t others = header(payload)->count - 1u;
    m->missing = others > m->heard ? others - m->heard : 0;
    keep_payload(o, m, payload, bytes);
    /* R1: one that is not complete holds up nobody. */
    if (!PLANTED(blind_deliver) || m->missing == 0)
        heap_add(o, i);
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

/* The client's own copy has come. Those of earlier lives never will. */
static bool marks_take(struct order *o, const struct message_id *id)
{
    struct marks *k = &o->marks[id->client];
    bool found = false;
    for (uint32_t n = 0; n < k->count;) {
        bool it = same_id(&k->id[n], id);
        found |= it;
        if (it || k->id[n].life < id->life)
            k->id[n] = k->id[--k->count];
        else
            n++;
    }
    return found && !PLANTED(relay_twice);
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

bool order_stamp(struct order *o, uint16_t from, struct message_id id, uint64_t stamp)
{
    if (from >= o->opt.groups || (stamp & ((1u << GROUP_BITS) - 1)) != from ||
        id.client >= o->opt.clients)
        return false;
    uint32_t i = find(o, &id);
    if (i == NONE)
        i = add(o, &id);
    struct item *m = &o->item[i];
    uint64_t *word = &o->from[(size_t)i * o->from_words + from / 64], bit = UINT64_C(1)
                                                                            << from % 64;
    if (*word & bit)
        return PLANTED(slot_stale);
    *word |= bit;
    if (stamp >> GROUP_BITS > o->clock && !PLANTED(clock_own))
        o->clock = stamp >> GROUP_BITS;
    m->heard++;
    /* R2: that it was said counts, what was said comes too late. */
    if (stamp > m->high && !PLANTED(ack_only))
        m->high = stamp;
    if (m->own == 0)
        return true;
    m->missing--;
    if (m->place != NONE)
        heap_down(o, m->place);
    else if (m->missing == 0)
        heap_add(o, i);
    return true;
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
    if (o->heap_count == 0)
        return NULL;
    const struct item *m = &o->item[o->heap[0]];
    if (m->missing > 0)
        return NULL;
    *bytes = m->bytes;
    return payload_of(o, m);
}

void order_drop(struct order *o)
{
    uint32_t i = o->heap[0], last = o->heap[--o->heap_count];
    if (last != i) {
        heap_put(o, 0, last);
        heap_down(o, 0);
    }
    forget(o, i);
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
    const uint64_t *from = &o->from[(size_t)i * o->from_words];
    uint16_t list[DST_GROUPS_MAX];
    struct dst_set dst = dst_read(header(payload)->rest, header(payload)->count, list);
    *count = 0;
    *bytes = o->item[i].bytes;
    for (uint32_t d = 0; d < dst.count; d++) {
        uint16_t g = dst.group[d];
        if (g != o->opt.group && !(from[g / 64] >> g % 64 & 1))
            missing[(*count)++] = g;
    }
    return payload;
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
    for (uint32_t n = 0; n < o->heap_count; n++) {
        struct item *m = &o->item[o->heap[n]];
        if (waits(m))
            m->seen = look(ctx, m->id, m->seen) ? 0 : m->seen + 1;
    }
}

uint32_t order_pending(const struct order *o)
{
    return o->used;
}

/* ---- snapshots: | clock | items | each: fixed words, groups, payload | marks | ---- */

enum { ITEM_WORDS = 7 };

uint64_t order_save_bytes(const struct order *o)
{
    uint64_t bytes = 16 + (uint64_t)o->used * 8 * (ITEM_WORDS + o->from_words) +
                     (uint64_t)(o->blocks - o->blocks_free) * BLOCK_BYTES;
    for (uint32_t c = 0; c < o->opt.clients; c++)
        bytes += o->marks[c].count * sizeof(struct message_id);
    return bytes;
}

static unsigned char *save_item(const struct order *o, uint32_t i, unsigned char *at)
{
    const struct item *m = &o->item[i];
    at = snap_put(at, m->id.seq);
    at = snap_put(at, (uint64_t)m->id.client << 16 | m->id.life);
    at = snap_put(at, m->own);
    at = snap_put(at, m->high);
    at = snap_put(at, (uint64_t)m->missing << 32 | m->heard);
    at = snap_put(at, m->relayed);
    at = snap_put(at, m->bytes);
    memcpy(at, &o->from[(size_t)i * o->from_words], o->from_words * 8);
    at += o->from_words * 8;
    for (uint32_t b = m->block; b != NONE; b = o->block_next[b], at += BLOCK_BYTES)
        memcpy(at, o->block[b], BLOCK_BYTES);
    return at;
}

uint64_t order_save(const struct order *o, unsigned char *out)
{
    unsigned char *at = snap_put(snap_put(out, o->clock), o->used);
    for (uint32_t b = 0; b < o->items; b++)
        for (uint32_t i = o->bucket[b]; i != NONE; i = o->item[i].next)
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
    o->clock = 0;
    for (uint32_t c = 0; c < o->opt.clients; c++)
        o->marks[c].count = 0;
}

/* The item that stands at *at; false if none can. */
static bool load_item(struct order *o, const unsigned char **at, const unsigned char *end)
{
    uint64_t w[ITEM_WORDS];
    uint64_t fixed = 8 * (uint64_t)(ITEM_WORDS + o->from_words);
    if ((uint64_t)(end - *at) < fixed)
        return false;
    for (uint32_t n = 0; n < ITEM_WORDS; n++)
        *at = snap_get(*at, &w[n]);
    struct message_id id = {.seq = w[0], .client = (uint32_t)(w[1] >> 16), .life = (uint16_t)w[1]};
    const unsigned char *from = *at;
    *at += o->from_words * 8;
    uint64_t kept = w[2] ? (uint64_t)order_need((uint32_t)w[6]) * BLOCK_BYTES : 0;
    if (id.client >= o->opt.clients || w[6] > UINT32_MAX || (uint64_t)(end - *at) < kept ||
        find(o, &id) != NONE || (w[2] != 0 && w[6] < sizeof(struct message)))
        return false;
    uint32_t i = add(o, &id);
    struct item *m = &o->item[i];
    m->own = w[2];
    m->high = w[3];
    m->missing = (uint32_t)(w[4] >> 32);
    m->heard = (uint32_t)w[4];
    m->relayed = w[5];
    memcpy(&o->from[(size_t)i * o->from_words], from, o->from_words * 8);
    if (m->own == 0)
        return true;
    keep_payload(o, m, *at, (uint32_t)w[6]);
    *at += kept;
    heap_add(o, i);
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
    uint64_t count, clock;
    clear(o);
    if (bytes < 16)
        return false;
    at = snap_get(snap_get(at, &clock), &count);
    /* R5: what others' stamps have raised it to is not kept. */
    o->clock = PLANTED(clock_volatile) ? 0 : clock;
    for (; count > 0; count--)
        if (!load_item(o, &at, end))
            return false;
    while (at < end)
        if (!load_mark(o, &at, end))
            return false;
    return true;
}

/* ---- opening ---- */

int order_open(const struct order_options *options, struct order **out, struct err *e)
{
    struct order *o = calloc(1, sizeof(*o));
    if (o == NULL)
        return err_set(e, ERR_NOMEM, "no memory for the order of messages");
    o->opt = *options;
    o->from_words = (options->groups + 63) / 64;
    o->free_item = o->free_block = NONE;
    o->marks = calloc(options->clients, sizeof(*o->marks));
    o->blocks_own = (uint32_t)(options->body_bytes / BLOCK_BYTES);
    if (o->marks == NULL) {
        order_close(o);
        return err_set(e, ERR_NOMEM, "no memory for the order of messages");
    }
    items_grow(o);
    memset(o->bucket, 0xff, o->items * sizeof(*o->bucket));
    blocks_grow(o, o->blocks_own + 1);
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
    free(o->from);
    free(o->heap);
    free(o->bucket);
    free(o->block);
    free(o->block_next);
    free(o->whole);
    free(o);
}
