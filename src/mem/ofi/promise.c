/* Promised words: ours, of which others are told, and theirs, by which marks are judged. */
#include "mem/ofi/impl.h"

#include <stdlib.h>
#include <string.h>

#define CANNOT_TELL "it takes nothing, and has to be told of another promise"

/* ---- ours ---- */

static struct ofi_promised promised_item(const struct ofi *o, uint32_t region)
{
    return (struct ofi_promised){
        .region = o->far.region[region].number,
        .value = far_promised_at(&o->far, region),
        .key = fi_mr_key(o->promised_mr),
        .address = net_address(&o->net, o->far.promised, &o->far.promised[region])};
}

/* Tells one host the promised word as it is, with nobody waiting for it. */
static bool tell(struct ofi *o, uint32_t region, struct ofi_link *l)
{
    struct ofi_promised item = promised_item(o, region);

    return link_send(&l->link, OFI_PROMISED, &item, 1);
}

void ofi_region_opened(struct far *f, uint32_t region)
{
    struct ofi *o = ofi_of(f);

    /* Lanes may have been asked for before. */
    for (struct link *l = f->links; l; l = l->next)
        if (l->state == LINK_UP && l->peer->host && f->host) {
            ofi_link(l)->subscribed[region / 8] |= (unsigned char)(1u << region % 8);
            if (!tell(o, region, ofi_link(l)))
                link_fault(l, TAKES_NOTHING);
        }
}

/* Hosts that have lanes in a region are told of its promises, from before they may write there. */
bool ofi_subscribe(struct ofi_link *l, uint32_t number)
{
    struct ofi *o = ofi_node(l);
    struct region *r = l->link.peer->host && o->far.host ? far_region_find(&o->far, number) : NULL;

    if (!r)
        return true;
    uint32_t i = far_region_index(&o->far, r);
    if (l->subscribed[i / 8] >> i % 8 & 1)
        return true;
    l->subscribed[i / 8] |= (unsigned char)(1u << i % 8);
    return tell(o, i, l);
}

static void answers_send(struct ofi *o, uint32_t region)
{
    struct notices *n = &o->notices[region];

    if (n->answers == 0)
        return;
    for (uint32_t i = 0; i < n->answers; i++)
        far_answer(&o->far, region, &n->answer[i]);
    n->answers = 0;
    o->raises--;
}

void ofi_notice_done(struct ofi *o, uint32_t region, uint32_t gen)
{
    struct notices *n = &o->notices[region];

    if (n->gen == gen && n->waiting > 0 && --n->waiting == 0)
        answers_send(o, region);
}

/* Sets the word and tells everybody who has lanes here. Marks that are read back see the word
 * itself, so nobody waits for these messages then. */
void ofi_promise(struct far *f, uint32_t region, uint64_t ballot)
{
    struct ofi *o = ofi_of(f);
    struct notices *n = &o->notices[region];

    far_promise_store(f, region, ballot);
    answers_send(o, region); /* those of lower ballots are overtaken */
    n->gen++;
    n->waiting = 0;
    n->since_ns = f->now_ns;
    n->looks = 0;
    struct ofi_promised item = promised_item(o, region);
    for (struct link *l = f->links, *next; l; l = next) {
        next = l->next;
        if (l->state != LINK_UP || !(ofi_link(l)->subscribed[region / 8] >> region % 8 & 1))
            continue;
        if (!ofi_link_notice(ofi_link(l), &item, region, n->gen))
            link_close(l, false, CANNOT_TELL);
        else if (!o->read_back)
            n->waiting++;
    }
}

void ofi_raise(struct far *f, uint32_t region, uint64_t ballot, const struct answer *a)
{
    struct ofi *o = ofi_of(f);
    struct notices *n = &o->notices[region];

    if (far_promised_at(f, region) < ballot)
        ofi_promise(f, region, ballot);
    if (n->waiting == 0 || far_promised_at(f, region) != ballot) {
        far_answer(f, region, a);
    } else if (n->answers < LINK_ANSWERS) {
        o->raises += n->answers == 0;
        n->answer[n->answers++] = *a;
    } else if (a->own) {
        a->own->status = MEM_LOST;
    } /* else the asker's link will end, or it asks again */
}

/* Answers wait only for as long as it takes to hand a message to a socket that has room. We may have
 * been the ones who were away for longer: then what was handed over is reported in the next few polls. */
void ofi_raises_look_after(struct ofi *o)
{
    for (uint32_t i = 0; i < o->far.regions; i++) {
        struct notices *n = &o->notices[i];
        if (n->answers == 0 || ++n->looks < TELL_POLLS || o->far.now_ns - n->since_ns < TELL_NS)
            continue;
        for (struct link *l = o->far.links, *next; l; l = next) {
            next = l->next;
            if (ofi_link_owes(ofi_link(l), i, n->gen))
                link_close(l, false, CANNOT_TELL);
        }
    }
}

/* ---- theirs ---- */

static uint32_t promise_of(const struct ofi_link *l, uint32_t region)
{
    for (uint32_t i = 0; i < l->promises; i++)
        if (l->promise[i].region == region)
            return i;
    return UINT32_MAX;
}

static struct promise *promise_get(struct ofi_link *l, uint32_t region)
{
    uint32_t known = promise_of(l, region);

    if (known != UINT32_MAX)
        return &l->promise[known];
    if (l->promises == l->promises_room) {
        uint32_t room = l->promises_room ? 2 * l->promises_room : 16;
        struct promise *more =
            room > FAR_REGIONS_MAX ? NULL : realloc(l->promise, room * sizeof(*more));
        if (!more)
            return NULL;
        l->promise = more;
        l->promises_room = room;
    }
    l->promise[l->promises] = (struct promise){.region = region};
    return &l->promise[l->promises++];
}

struct denial {
    uint32_t promise;
    uint64_t value;
};

static bool is_denied(const struct mem_flow *f, const void *ctx)
{
    const struct denial *d = ctx;
    const struct flow_impl *impl = (const struct flow_impl *)(const void *)f->impl;

    return f->ballot != 0 && impl->index == d->promise && f->ballot != d->value;
}

bool ofi_promised_take(struct ofi_link *l, const struct ofi_promised *item, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct promise *p = l->link.peer->host ? promise_get(l, item[i].region) : NULL;
        if (!p)
            return false;
        p->value = item[i].value;
        p->key = item[i].key;
        p->address = item[i].address;
        struct denial d = {(uint32_t)(p - l->promise), p->value};
        far_flows_fail(l->link.node, &l->link, is_denied, &d, MEM_DENIED);
    }
    return true;
}

bool ofi_peek(struct link *l, struct mem_op *op, uint32_t region)
{
    const struct ofi_link *k = ofi_link(l);
    uint32_t i = promise_of(k, region);

    return i != UINT32_MAX && ofi_link_read(ofi_link(l), op, k->promise[i].address,
                                            k->promise[i].key, &op->value, 8, false);
}

/* ---- flows ---- */

bool ofi_flow_open(struct link *l, struct mem_flow *f)
{
    flow_impl(f)->index = f->ballot ? promise_of(ofi_link(l), f->region) : UINT32_MAX;
    return f->ballot == 0 || flow_impl(f)->index != UINT32_MAX;
}

/* Is the promise, as last told, what the flow needs? Nothing is written under another. */
static bool promised_to(struct ofi_link *l, struct mem_flow *f)
{
    if (f->ballot == 0 || l->promise[flow_impl(f)->index].value == f->ballot)
        return true;
    far_flow_fail(l->link.node, f, MEM_DENIED);
    return false;
}

bool ofi_put(struct link *link, struct mem_flow *f, struct lane *lane, uint64_t pos,
             const void *data, uint32_t bytes, bool kept)
{
    struct ofi_link *l = ofi_link(link);
    uint64_t address = lane->ring + (pos & (lane->pub.spec.ring_bytes - 1));

    if (!promised_to(l, f))
        return true;
    if (!kept)
        return ofi_link_write(l, address, lane->key, data, bytes);
    const struct chunk *in = ofi_chunk_of(ofi_node(l), data, bytes);
    CHECK(in != NULL);
    return ofi_link_write_kept(l, address, lane->key, in, data, bytes);
}

bool ofi_set(struct link *l, struct mem_flow *f, struct lane *lane, uint32_t word,
             const uint64_t *values, uint32_t count)
{
    return !promised_to(ofi_link(l), f) ||
           ofi_link_write(ofi_link(l), lane->ctl + 8ul * word, lane->key, values, 8 * count);
}

bool ofi_mark(struct link *l, struct mem_flow *f, uint64_t tag)
{
    return !promised_to(ofi_link(l), f) || ofi_link_mark(ofi_link(l), f, flow_impl(f)->gen, tag);
}

/* ---- marks ---- */

/* The flow of a mark, if it is still that flow. */
static struct mem_flow *flow_of(const struct ofi_link *l, const struct mark *k)
{
    return far_flow_known(l->link.node, k->flow, k->gen) ? k->flow : NULL;
}

/* What has to be read back for the marks that are not under way. False: nothing. */
bool ofi_marks_span(struct ofi_link *l, uint64_t *address, uint64_t *key, uint32_t *bytes)
{
    uint64_t from = UINT64_MAX, to = 0;

    for (uint64_t i = l->mark_covered; i < l->mark_head; i++) {
        struct mem_flow *f = flow_of(l, &l->mark[i % LINK_MARKS]);
        if (!f || f->ballot == 0)
            continue;
        const struct promise *p = &l->promise[flow_impl(f)->index];
        from = p->address < from ? p->address : from;
        to = p->address + 8 > to ? p->address + 8 : to;
        *key = p->key;
    }
    if (to == 0)
        return false;
    *address = from;
    *bytes = (uint32_t)(to - from);
    return true;
}

/* Was the flow's ballot promised when all that it wrote before had landed? */
static bool promise_held(struct ofi_link *l, const struct mem_flow *f, const struct promise *p,
                         const struct slot *read_back)
{
    uint64_t word = p->value;

    if (read_back) {
        CHECK(p->address >= read_back->base &&
              p->address + 8 <= read_back->base + read_back->bytes);
        memcpy(&word, read_back->from + (p->address - read_back->base), 8);
    } else {
        CHECK(!ofi_node(l)->read_back);
    }
    return word == f->ballot && p->value == f->ballot;
}

int ofi_marks_judge(struct ofi_link *l, uint64_t end, const struct slot *read_back)
{
    int changes = 0;

    for (; l->mark_tail < end; l->mark_tail++) {
        const struct mark *k = &l->mark[l->mark_tail % LINK_MARKS];
        struct mem_flow *f = flow_of(l, k);
        if (!f)
            continue;
        changes++;
        if (f->ballot && !promise_held(l, f, &l->promise[flow_impl(f)->index], read_back))
            far_flow_fail(l->link.node, f, MEM_DENIED);
        else
            f->done = k->tag;
    }
    return changes;
}
