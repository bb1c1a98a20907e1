/* What holds in an order after every entry that was applied: for the simulator, for tests and for debug builds. The rules
 * that cost nearly nothing are checked in every build (order.c). */
#include "mcast/order_impl.h"

/* What the items say, to compare with heap, queue and blocks. */
struct counts {
    uint32_t items, complete, waiting, blocks;
    uint64_t complete_sum; /* of their numbers */
    uint64_t bound;        /* lowest own stamp of those that wait */
};

static uint64_t clock_of(uint64_t stamp)
{
    return stamp >> ORDER_GROUP_BITS;
}

static uint32_t bits(uint64_t word)
{
    uint32_t count = 0;
    for (; word != 0; word &= word - 1)
        count++;
    return count;
}

static uint32_t heard_from(const struct order *o, uint32_t i)
{
    uint32_t heard = bits(o->item[i].from);
    for (uint32_t w = 0; w < o->more_words; w++)
        heard += bits(o->more[(size_t)i * o->more_words + w]);
    return heard;
}

static uint32_t blocks_in_chain(const struct order *o, const struct item *m)
{
    uint32_t count = 0;
    for (uint32_t b = m->block; b != ORDER_NONE && count <= o->blocks; b = o->block_next[b])
        count++;
    return count;
}

/* Of a message that is here. Its first bytes are all that is read of it. */
static const char *check_stamped(const struct order *o, const struct item *m)
{
    uint32_t count = order_header(m->payload)->count;
    if ((m->own & ((1u << ORDER_GROUP_BITS) - 1)) != o->opt.group)
        return "an own stamp names this group";
    if (clock_of(m->own) > o->clock || m->own > m->high)
        return "an own stamp is at most the clock, and at most the highest heard";
    if (count < 2)
        return "a message to one group is never ordered among groups";
    uint32_t missing = m->heard < count - 1 ? count - 1 - m->heard : 0;
    if (m->away ? m->missing > 1 : m->missing != missing)
        return "a message lacks the stamps that were not heard";
    return NULL;
}

static const char *check_item(const struct order *o, uint32_t i, struct counts *c)
{
    const struct item *m = &o->item[i];
    c->items++;
    c->blocks += blocks_in_chain(o, m);
    if (clock_of(m->high) > o->clock)
        return "no stamp that was heard is above the clock";
    if (heard_from(o, i) != m->heard)
        return "as many stamps were heard as groups have sent one";
    if (m->own == 0)
        return NULL;
    if (m->missing == 0) {
        c->complete++;
        c->complete_sum += i;
    } else {
        c->waiting++;
        c->bound = m->own < c->bound ? m->own : c->bound;
    }
    return check_stamped(o, m);
}

static const char *check_items(const struct order *o, struct counts *c)
{
    for (uint32_t b = 0; b < o->items; b++)
        for (uint32_t i = o->bucket[b]; i != ORDER_NONE; i = o->item[i].next) {
            if (order_bucket(o, &o->item[i].id) != &o->bucket[b])
                return "an item is in the bucket of its name";
            const char *broken = check_item(o, i, c);
            if (broken)
                return broken;
        }
    if (c->items != o->used)
        return "every item that is used is in a bucket";
    if (c->blocks != o->blocks - o->blocks_free)
        return "every block that is used belongs to an item";
    return NULL;
}

static const char *check_heap(const struct order *o, const struct counts *c)
{
    uint64_t sum = 0;
    for (uint32_t n = 0; n < o->heap_count; n++) {
        const struct turn *t = &o->heap[n];
        const struct item *m = &o->item[t->item];
        if (n > 0 && o->heap[(n - 1) / 2].stamp >= t->stamp)
            return "the heap has lower stamps above higher ones";
        if (m->own == 0 || m->missing > 0 || m->high != t->stamp)
            return "what is in the heap is complete, under its final stamp";
        if (t->stamp <= o->delivered)
            return "what is still to be delivered comes after what was";
        sum += t->item;
    }
    if (o->heap_count != c->complete || sum != c->complete_sum)
        return "what is complete is in the heap";
    /* Whoever applies an entry delivers all that it makes ready. */
    if (o->heap_count > 0 && o->heap[0].stamp < c->bound)
        return "what is ready is delivered";
    return NULL;
}

static const char *check_queue(const struct order *o, const struct counts *c)
{
    uint64_t last = 0;
    uint32_t waiting = 0;
    for (uint64_t n = o->queue_from; n < o->queue_end; n++) {
        const struct turn *t = &o->queue[n & (o->queue_max - 1)];
        if (t->stamp <= last)
            return "own stamps rise along the queue";
        last = t->stamp;
        waiting += o->item[t->item].own == t->stamp && o->item[t->item].missing > 0;
    }
    if (waiting != c->waiting)
        return "what waits for stamps is in the queue";
    if (c->bound <= o->delivered)
        return "nothing is delivered beyond what waits for stamps";
    return NULL;
}

static const char *check_marks(const struct order *o)
{
    for (uint32_t client = 0; client < o->opt.clients; client++)
        for (uint32_t n = 0; n < o->marks[client].count; n++)
            if (o->marks[client].id[n].client != client)
                return "a mark is its client's";
    return NULL;
}

const char *order_check(const struct order *o)
{
    struct counts c = {.bound = UINT64_MAX};
    const char *broken = check_items(o, &c);
    if (broken == NULL)
        broken = check_heap(o, &c);
    if (broken == NULL)
        broken = check_queue(o, &c);
    return broken ? broken : check_marks(o);
}
