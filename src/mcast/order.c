/* The rules: which stamp a message gets, and when it is its turn. */
#include "base/planted.h"
#include "mcast/order_impl.h"

/* Below this no message that waits for stamps can come out: our own stamp for the first of them. */
static uint64_t queue_bound(struct order *o)
{
    if (PLANTED(blind_deliver))
        return UINT64_MAX;
    for (; o->queue_from < o->queue_end; o->queue_from++) {
        const struct turn *t = &o->queue[o->queue_from & (o->queue_max - 1)];
        const struct item *m = &o->item[t->item];
        if (m->own == t->stamp && m->missing > 0)
            return t->stamp;
    }
    return UINT64_MAX;
}

uint16_t order_home(const struct message *m)
{
    uint16_t home;
    if (m->count < ORDER_HOME_FROM)
        return ORDER_NO_HOME;
    memcpy(&home, m->rest + (m->seq + m->client) % m->count * sizeof(home), sizeof(home));
    return home;
}

/* False if a rule is broken. A planted bug is for the checkers to find. */
static bool must(struct order *o, bool holds, const char *why)
{
    if (holds || PLANTED_ANY)
        return true;
    if (o->opt.stop)
        o->opt.stop(o->opt.ctx, why);
    return false;
}

/* The message is here: gives it our stamp. */
static uint64_t stamp_it(struct order *o, uint32_t i, const void *payload, uint32_t bytes)
{
    struct item *m = &o->item[i];
    CHECK(order_header(payload)->count > 1);
    uint64_t own = ++o->clock << ORDER_GROUP_BITS | o->opt.group;
    if (!must(o, own > o->given, "the stamps that this group gives do not rise"))
        return 0;
    m->own = o->given = own;
    if (m->own > m->high)
        m->high = m->own;
    uint16_t home = order_home(payload);
    uint32_t others = order_header(payload)->count - 1u;
    m->away = home != ORDER_NO_HOME && home != o->opt.group;
    m->missing = (uint16_t)(m->away ? 1 : others > m->heard ? others - m->heard : 0);
    order_keep_payload(o, m, payload, bytes);
    if (m->missing == 0)
        order_heap_add(o, i);
    else
        order_queue_add(o, i);
    return m->own;
}

/* ---- marks ---- */

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
        if (order_same_id(&k->id[n], id)) {
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
    uint32_t i = order_find(o, &id);
    if (i != ORDER_NONE && o->item[i].own != 0)
        return 0;
    if (i == ORDER_NONE)
        i = order_add(o, &id);
    return stamp_it(o, i, payload, bytes);
}

static void raise_clock(struct order *o, uint64_t stamp)
{
    if (stamp >> ORDER_GROUP_BITS > o->clock && !PLANTED(clock_own))
        o->clock = stamp >> ORDER_GROUP_BITS;
}

/* Something that was missing has come. */
static enum order_news one_less(struct order *o, uint32_t i)
{
    if (--o->item[i].missing > 0)
        return ORDER_HEARD;
    order_heap_add(o, i);
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
    if (from >= o->opt.groups || (stamp & ((1u << ORDER_GROUP_BITS) - 1)) != from ||
        id.client >= o->opt.clients)
        return ORDER_BAD;
    uint32_t i = order_find(o, &id);
    if (i == ORDER_NONE)
        i = order_add(o, &id);
    if (!note_from(o, i, from))
        return ORDER_BAD;
    struct item *m = &o->item[i];
    raise_clock(o, stamp);
    m->heard++;
    /* Nobody sends one too many, unless the client told it other destinations than us. */
    if (m->own != 0 && m->missing == 0)
        return ORDER_HEARD;
    if (stamp > m->high && !PLANTED(ack_only))
        m->high = stamp;
    return m->own == 0 || m->away ? ORDER_HEARD : one_less(o, i);
}

enum order_news order_final(struct order *o, struct message_id id, uint64_t stamp)
{
    uint32_t i = id.client < o->opt.clients ? order_find(o, &id) : ORDER_NONE;
    if (i == ORDER_NONE || !o->item[i].away || o->item[i].missing == 0)
        return ORDER_BAD;
    raise_clock(o, stamp);
    if (stamp > o->item[i].high && !PLANTED(ack_only))
        o->item[i].high = stamp;
    return one_less(o, i);
}

uint64_t order_complete(struct order *o, struct message_id id, const void **payload,
                        uint32_t *bytes)
{
    uint32_t i = id.client < o->opt.clients ? order_find(o, &id) : ORDER_NONE;
    if (i == ORDER_NONE || o->item[i].own == 0 || o->item[i].missing > 0)
        return 0;
    *payload = order_payload(o, &o->item[i]);
    *bytes = o->item[i].bytes;
    return o->item[i].high;
}

uint64_t order_relayed(struct order *o, const void *payload, uint32_t bytes, bool over)
{
    struct message_id id = message_id(payload);
    uint32_t i = order_find(o, &id);
    if (PLANTED(relay_twice) && i == ORDER_NONE)
        i = order_add(o, &id);
    if (i == ORDER_NONE || o->item[i].own != 0)
        return 0;
    if (!over)
        order_marks_add(o, &id);
    return stamp_it(o, i, payload, bytes);
}

const void *order_first(struct order *o, uint32_t *bytes)
{
    if (o->heap_count == 0 || o->heap[0].stamp >= queue_bound(o))
        return NULL;
    if (!must(o, o->heap[0].stamp > o->delivered, "the stamps of what is delivered do not rise"))
        return NULL;
    const struct item *m = &o->item[o->heap[0].item];
    *bytes = m->bytes;
    return order_payload(o, m);
}

void order_drop(struct order *o)
{
    o->delivered = o->heap[0].stamp;
    order_forget(o, o->heap[0].item);
    order_heap_drop(o);
}

/* ---- relaying ---- */

static bool waits(const struct item *m)
{
    return m->own != 0 && m->missing > 0 && !m->relayed;
}

const void *order_waiting(struct order *o, struct message_id id, uint32_t *bytes, uint16_t *missing,
                          uint32_t *count)
{
    uint32_t i = id.client < o->opt.clients ? order_find(o, &id) : ORDER_NONE;
    if (i == ORDER_NONE || !waits(&o->item[i]))
        return NULL;
    const void *payload = order_payload(o, &o->item[i]);
    uint16_t list[DST_GROUPS_MAX];
    struct dst_set dst = dst_read(order_header(payload)->rest, order_header(payload)->count, list);
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
    uint32_t i = order_find(o, &id);
    return i != ORDER_NONE ? o->item[i].own : 0;
}

void order_set_relayed(struct order *o, struct message_id id)
{
    uint32_t i = order_find(o, &id);
    if (i != ORDER_NONE)
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
