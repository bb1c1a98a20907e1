/* Snapshots of an order:
 *
 *      | clock | items | marks | each item: fixed words, groups, payload | each mark |
 */
#include "base/planted.h"
#include "lane/frame.h"
#include "mcast/order_impl.h"
#include "unit/snap.h"

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
    return 8 * HEAD_WORDS +
           (uint64_t)o->used * (8 * (ITEM_WORDS + o->more_words) + ORDER_BLOCK_BYTES) +
           (uint64_t)(o->blocks - o->blocks_free) * ORDER_BLOCK_BYTES +
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
    memcpy(at, order_payload(o, m), m->bytes);
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
        for (uint32_t i = o->bucket[b]; i != ORDER_NONE; i = o->item[i].next)
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

/* Could this be what was kept of the message? */
static bool is_ours(const struct order *o, const struct message_id *id, const void *payload,
                    uint32_t bytes, uint64_t missing)
{
    struct message_view v;
    if (!message_read(payload, bytes, o->opt.clients, o->opt.groups, &v))
        return false;
    struct message_id its = message_id(v.m);
    return order_same_id(&its, id) && dst_has(v.dst, o->opt.group) && v.dst.count > 1 &&
           missing < v.dst.count;
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
        order_find(o, &id) != ORDER_NONE ||
        (w[2] != 0 && !is_ours(o, &id, *at, (uint32_t)w[6], w[4] >> 32)))
        return false;
    uint32_t i = order_add(o, &id);
    struct item *m = &o->item[i];
    m->own = w[2];
    o->given = m->own > o->given ? m->own : o->given;
    m->high = w[3];
    m->missing = (uint16_t)(w[4] >> 32);
    m->heard = (uint16_t)w[4];
    m->relayed = w[5] & 1;
    m->away = w[5] >> 1 & 1;
    m->from = w[7];
    memcpy(&o->more[(size_t)i * o->more_words], more, o->more_words * 8);
    if (m->own == 0)
        return true;
    order_keep_payload(o, m, *at, (uint32_t)w[6]);
    *at += kept;
    if (m->missing == 0)
        order_heap_add(o, i);
    else
        order_queue_add(o, i);
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
    order_marks_add(o, &id);
    return true;
}

bool order_load(struct order *o, const unsigned char *in, uint64_t bytes)
{
    const unsigned char *at = in, *end = in + bytes;
    uint64_t count, clock, marks;
    order_clear(o);
    if (bytes < 8 * HEAD_WORDS)
        return false;
    at = snap_get(snap_get(snap_get(at, &clock), &count), &marks);
    o->clock = PLANTED(clock_volatile) ? 0 : clock;
    for (; count > 0; count--)
        if (!load_item(o, &at, end))
            return false;
    for (; marks > 0; marks--)
        if (!load_mark(o, &at, end))
            return false;
    return at == end;
}
