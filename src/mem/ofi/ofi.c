/* The table of mem.h: regions and promises, flows and marks, ops. */
#include "mem/ofi/ofi.h"

#include "base/clock.h"
#include "base/say.h"
#include "mem/ofi/impl.h"
#include "mem/wrap.h"

#include <stdlib.h>
#include <string.h>

#define CANNOT_TELL "it takes nothing, and has to be told of another promise"

/* ---- regions ---- */

struct region *ofi_region_find(struct ofi *o, uint32_t number)
{
    for (uint32_t i = 0; i < o->regions; i++)
        if (o->region[i].number == number)
            return &o->region[i];
    return NULL;
}

uint32_t ofi_region_index(const struct ofi *o, const struct region *r)
{
    return (uint32_t)(r - o->region);
}

static int ofi_region_open(struct mem *m, uint32_t region, enum mem_birth *birth, struct err *e)
{
    struct ofi *o = ofi_of(m);
    bool lost = o->host && roll_own(&o->roll) != ROLL_MEMBER;

    const struct region *known = ofi_region_find(o, region);
    if (known)
        return err_set(e, ERR_EXISTS, "open region %u of node %s: it %s", region, o->name,
                       known->ended ? "was ended in this life" : "is open");
    if (o->regions == OFI_REGIONS_MAX)
        return err_set(e, ERR_TOOBIG, "open region %u: node %s has %u regions, the maximum", region,
                       o->name, OFI_REGIONS_MAX);
    if (o->regions == o->regions_room) {
        uint32_t room = o->regions_room ? 2 * o->regions_room : 16;
        struct region *more = realloc(o->region, room * sizeof(*more));
        if (!more)
            return err_set(e, ERR_NOMEM, "open region %u of node %s: no memory", region, o->name);
        o->region = more;
        o->regions_room = room;
    }
    o->region[o->regions] = (struct region){.number = region};
    atomic_store_explicit(&o->promised[o->regions], lost ? MEM_CLOSED : 0, memory_order_seq_cst);
    struct region *r = &o->region[o->regions++];
    /* Lanes may have been asked for before. */
    for (struct link *l = o->links; l; l = l->next)
        if (l->state == LINK_UP && l->peer->host && o->host) {
            uint32_t i = ofi_region_index(o, r);
            l->subscribed[i / 8] |= (unsigned char)(1u << i % 8);
            if (!ofi_region_tell(o, r, l))
                link_fault(l, -FI_EAGAIN);
        }
    *birth = lost ? MEM_BIRTH_LOST : MEM_BIRTH_NEW;
    return 0;
}

static uint64_t word_of(const struct ofi *o, const struct region *r)
{
    return atomic_load_explicit(&o->promised[r - o->region], memory_order_seq_cst);
}

static struct ofi_promised promised_item(const struct ofi *o, const struct region *r)
{
    const _Atomic uint64_t *word = &o->promised[r - o->region];

    return (struct ofi_promised){.region = r->number,
                                 .value = word_of(o, r),
                                 .key = fi_mr_key(o->promised_mr),
                                 .address = net_address(&o->net, o->promised, word)};
}

/* Tells one host the promised word as it is, with nobody waiting for it. */
bool ofi_region_tell(struct ofi *o, struct region *r, struct link *l)
{
    struct ofi_promised item = promised_item(o, r);

    return link_send(l, OFI_PROMISED, &item, 1);
}

static void answer_send(struct ofi *o, const struct region *r, const struct answer *a)
{
    uint64_t word = word_of(o, r);
    enum mem_status status = word == a->ballot ? MEM_DONE : MEM_DENIED;

    if (a->own) {
        a->own->value = word;
        a->own->status = status;
        return;
    }
    struct ofi_raise item = {.region = r->number, .status = status, .id = a->id, .ballot = word};
    for (struct link *l = o->links; l; l = l->next)
        if (l->id == a->link_id && l->state == LINK_UP && !link_send(l, OFI_RAISED, &item, 1))
            link_fault(l, -FI_EAGAIN);
}

static void answers_send(struct ofi *o, struct region *r)
{
    if (r->answers == 0)
        return;
    for (uint32_t i = 0; i < r->answers; i++)
        answer_send(o, r, &r->answer[i]);
    r->answers = 0;
    o->raises--;
}

void ofi_notice_done(struct ofi *o, uint32_t region, uint32_t gen)
{
    struct region *r = &o->region[region];

    if (r->gen == gen && r->waiting > 0 && --r->waiting == 0)
        answers_send(o, r);
}

/* Sets the word and tells everybody who has lanes here. Marks that are read back see the word
 * itself, so nobody waits for these messages then. */
static void word_change(struct ofi *o, struct region *r, uint64_t ballot)
{
    uint32_t i = ofi_region_index(o, r);

    atomic_store_explicit(&o->promised[i], ballot, memory_order_seq_cst);
    answers_send(o, r); /* those of lower ballots are overtaken */
    r->gen++;
    r->waiting = 0;
    r->since_ns = o->now_ns;
    r->looks = 0;
    struct ofi_promised item = promised_item(o, r);
    for (struct link *l = o->links, *next; l; l = next) {
        next = l->next;
        if (l->state != LINK_UP || !(l->subscribed[i / 8] >> i % 8 & 1))
            continue;
        if (!link_notice(l, &item, i, r->gen))
            link_close(l, false, CANNOT_TELL);
        else if (!o->read_back)
            r->waiting++;
    }
}

void ofi_region_raise(struct ofi *o, struct region *r, uint64_t ballot, const struct answer *a)
{
    if (word_of(o, r) < ballot)
        word_change(o, r, ballot);
    if (r->waiting == 0 || word_of(o, r) != ballot) {
        answer_send(o, r, a);
    } else if (r->answers < LINK_ANSWERS) {
        o->raises += r->answers == 0;
        r->answer[r->answers++] = *a;
    } else if (a->own) {
        a->own->status = MEM_LOST;
    } /* else the asker's link will end, or it asks again */
}

/* Answers wait only for as long as it takes to hand a message to a socket that has room. We may have
 * been the ones who were away for longer: then what was handed over is reported in the next few polls. */
void ofi_raises_look_after(struct ofi *o)
{
    for (uint32_t i = 0; i < o->regions; i++) {
        struct region *r = &o->region[i];
        if (r->answers == 0 || ++r->looks < TELL_POLLS || o->now_ns - r->since_ns < TELL_NS)
            continue;
        for (struct link *l = o->links, *next; l; l = next) {
            next = l->next;
            if (link_owes(l, i, r->gen))
                link_close(l, false, CANNOT_TELL);
        }
    }
}

static void ofi_region_grant(struct mem *m, uint32_t region, uint64_t ballot)
{
    struct ofi *o = ofi_of(m);
    struct region *r = ofi_region_find(o, region);

    CHECK(r != NULL && !r->ended);
    if (word_of(o, r) != MEM_CLOSED)
        return;
    ofi_roll_taken_back(o);
    word_change(o, r, ballot);
}

static void ofi_region_end(struct mem *m, uint32_t region)
{
    struct ofi *o = ofi_of(m);
    struct region *r = ofi_region_find(o, region);

    CHECK(r != NULL && !r->ended);
    r->ended = true;
    ofi_region_lanes_end(o, region);
    if (word_of(o, r) != MEM_CLOSED)
        word_change(o, r, MEM_CLOSED);
}

static uint64_t ofi_promised(struct mem *m, uint32_t region)
{
    struct ofi *o = ofi_of(m);
    uint32_t at = (region ^ region >> 16) % OFI_REGION_SLOTS;

    /* Every replica asks in every round. */
    if (o->region_slot[at].index == 0 || o->region_slot[at].number != region) {
        struct region *r = ofi_region_find(o, region);
        CHECK(r != NULL);
        o->region_slot[at].number = region;
        o->region_slot[at].index = ofi_region_index(o, r) + 1;
    }
    return atomic_load_explicit(&o->promised[o->region_slot[at].index - 1], memory_order_seq_cst);
}

/* ---- flows ---- */

static uint32_t flow_hash(const struct mem_flow *f)
{
    uint64_t h = (uint64_t)(uintptr_t)f * 0x9e3779b97f4a7c15u;

    return (uint32_t)(h >> 32);
}

/* Where the flow is in the table, or would be. */
static uint32_t flow_slot(const struct ofi *o, const struct mem_flow *f)
{
    uint32_t mask = o->flows_room - 1, i = flow_hash(f) & mask;

    while (o->flow[i] && o->flow[i] != f)
        i = (i + 1) & mask;
    return i;
}

static bool flow_known(const struct ofi *o, const struct mem_flow *f)
{
    return o->flows_room > 0 && o->flow[flow_slot(o, f)] == f;
}

static bool flow_add(struct ofi *o, struct mem_flow *f)
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
static void flow_remove(struct ofi *o, const struct mem_flow *f)
{
    if (!flow_known(o, f))
        return;
    uint32_t mask = o->flows_room - 1, hole = flow_slot(o, f);
    o->flow[hole] = NULL;
    o->flows--;
    for (uint32_t i = (hole + 1) & mask; o->flow[i]; i = (i + 1) & mask) {
        struct mem_flow *moved = o->flow[i];
        o->flow[i] = NULL;
        o->flow[flow_slot(o, moved)] = moved;
    }
    for (uint32_t i = 0; i < o->own_marks; i++)
        if (o->own_mark[i] == f) {
            o->own_mark[i] = o->own_mark[--o->own_marks];
            break;
        }
}

static void flow_fail(struct ofi *o, struct mem_flow *f, enum mem_status status)
{
    flow_remove(o, f);
    f->status = status;
}

void ofi_flows_lose(struct ofi *o, struct link *l)
{
    /* Removing moves others about, so look again until none is left. */
    for (bool found = true; found;) {
        found = false;
        for (uint32_t i = 0; i < o->flows_room; i++) {
            struct mem_flow *f = o->flow[i];
            if (!f || flow_impl(f)->link != l)
                continue;
            flow_fail(o, f, MEM_LOST);
            found = true;
        }
    }
}

void ofi_flows_deny(struct link *l, const struct promise *p)
{
    struct ofi *o = l->node;
    uint32_t index = (uint32_t)(p - l->promise);

    for (bool found = true; found;) {
        found = false;
        for (uint32_t i = 0; i < o->flows_room; i++) {
            struct mem_flow *f = o->flow[i];
            if (!f || flow_impl(f)->link != l || flow_impl(f)->promise != index || f->ballot == 0 ||
                f->ballot == p->value)
                continue;
            flow_fail(o, f, MEM_DENIED);
            found = true;
        }
    }
}

static uint32_t promise_of(const struct link *l, uint32_t region)
{
    for (uint32_t i = 0; i < l->promises; i++)
        if (l->promise[i].region == region)
            return i;
    return UINT32_MAX;
}

static void ofi_flow_open(struct mem *m, struct mem_flow *f, uint32_t owner, uint32_t region,
                          uint64_t ballot)
{
    struct ofi *o = ofi_of(m);
    struct flow_impl *impl = flow_impl(f);

    flow_remove(o, f); /* it may be an open one; its old content says nothing */
    memset(f, 0, sizeof *f);
    f->owner = owner;
    f->region = region;
    f->ballot = ballot;
    f->status = MEM_LOST;
    impl->promise = UINT32_MAX;
    if (owner == m->self) {
        struct region *r = ofi_region_find(o, region);
        if (!r)
            return;
        impl->promise = ofi_region_index(o, r);
    } else {
        struct peer *p = peer_at(o, owner);
        if (!p || !p->link)
            return;
        impl->link = p->link;
        impl->promise = ballot ? promise_of(p->link, region) : UINT32_MAX;
        if (ballot && impl->promise == UINT32_MAX)
            return;
    }
    if (!flow_add(o, f))
        return;
    impl->gen = ++o->flow_gen;
    f->status = MEM_DONE;
}

static void ofi_flow_close(struct mem *m, struct mem_flow *f)
{
    flow_fail(ofi_of(m), f, MEM_LOST);
}

/* Is the promise, as last told, what the flow needs? Nothing is written under another. */
static bool promised_to(struct ofi *o, struct mem_flow *f)
{
    const struct flow_impl *impl = flow_impl(f);

    if (f->ballot == 0 || impl->link == NULL ||
        impl->link->promise[impl->promise].value == f->ballot)
        return true;
    flow_fail(o, f, MEM_DENIED);
    return false;
}

/* A stretch of a ring that does not go over its end. */
static bool write_ring(struct link *link, const struct lane *lane, uint64_t pos,
                       const struct chunk *kept_in, const void *data, uint32_t bytes)
{
    uint64_t address = lane->ring + (pos & (lane->pub.spec.ring_bytes - 1));

    return kept_in ? link_write_kept(link, address, lane->key, kept_in, data, bytes)
                   : link_write(link, address, lane->key, data, bytes);
}

/* `kept_in`: the bytes stay where they are; NULL: they are taken. */
static void put(struct ofi *o, struct mem_flow *f, struct mem_lane *l, uint64_t pos,
                const struct chunk *kept_in, const void *data, uint32_t bytes)
{
    struct lane *lane = (struct lane *)l;
    struct link *link = flow_impl(f)->link;

    CHECK(l->spec.writer == o->mem.self && l->spec.owner == f->owner &&
          l->spec.region == f->region);
    CHECK(lane->state == LANE_OPEN);
    CHECK(bytes <= l->spec.ring_bytes && (bytes & 7) == 0 && (pos & 7) == 0);
    if (f->status != MEM_DONE || !promised_to(o, f))
        return;
    if (!link && l->spec.common)
        return; /* it is there */
    if (!link) {
        ring_write(lane->pub.ring, l->spec.ring_bytes, pos, data, bytes);
        return;
    }
    /* What goes over the end goes on at the beginning. */
    uint64_t straight = ring_straight(l->spec.ring_bytes, pos);
    uint32_t first = bytes < straight ? bytes : (uint32_t)straight;
    bool ok =
        lane->link_id == link->id && write_ring(link, lane, pos, kept_in, data, first) &&
        write_ring(link, lane, 0, kept_in, (const unsigned char *)data + first, bytes - first);
    if (!ok)
        flow_fail(o, f, MEM_LOST);
}

static void ofi_put(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint64_t pos,
                    const void *data, uint32_t bytes)
{
    put(ofi_of(m), f, l, pos, NULL, data, bytes);
}

static void ofi_put_kept(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint64_t pos,
                         const void *data, uint32_t bytes)
{
    const struct chunk *in = ofi_chunk_of(ofi_of(m), data, bytes);

    CHECK(in != NULL && f->ballot == 0);
    put(ofi_of(m), f, l, pos, in, data, bytes);
}

static void ofi_set(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint32_t word,
                    const uint64_t *values, uint32_t count)
{
    struct ofi *o = ofi_of(m);
    struct lane *lane = (struct lane *)l;
    struct link *link = flow_impl(f)->link;

    CHECK(l->spec.writer == m->self && l->spec.owner == f->owner && l->spec.region == f->region);
    CHECK(lane->state == LANE_OPEN && word + (uint64_t)count <= l->spec.ctl_words);
    if (f->status != MEM_DONE || !promised_to(o, f))
        return;
    if (!link)
        for (uint32_t i = 0; i < count && !l->spec.common; i++)
            atomic_store_explicit(&lane->pub.ctl[word + i], values[i], memory_order_release);
    else if (lane->link_id != link->id ||
             !link_write(link, lane->ctl + 8ul * word, lane->key, values, 8 * count))
        flow_fail(o, f, MEM_LOST);
}

/* ---- marks ---- */

static void mark_own(struct ofi *o, struct mem_flow *f)
{
    struct flow_impl *impl = flow_impl(f);

    if (impl->listed)
        return;
    if (o->own_marks == o->own_marks_room) {
        uint32_t room = o->own_marks_room ? 2 * o->own_marks_room : 64;
        struct mem_flow **more = realloc(o->own_mark, room * sizeof(*more));
        if (!more) {
            flow_fail(o, f, MEM_LOST);
            return;
        }
        o->own_mark = more;
        o->own_marks_room = room;
    }
    impl->listed = 1;
    o->own_mark[o->own_marks++] = f;
}

static void ofi_mark(struct mem *m, struct mem_flow *f, uint64_t tag)
{
    struct ofi *o = ofi_of(m);
    struct flow_impl *impl = flow_impl(f);

    f->marked = tag;
    if (f->status != MEM_DONE || !promised_to(o, f))
        return;
    if (!impl->link)
        mark_own(o, f);
    else if (!link_mark(impl->link, f, impl->gen, tag))
        flow_fail(o, f, MEM_LOST);
}

/* Our own memory is written by ourselves and promised by ourselves: this thread knows. */
static int own_marks_judge(struct ofi *o)
{
    int changes = 0;

    while (o->own_marks > 0) {
        struct mem_flow *f = o->own_mark[--o->own_marks];
        struct flow_impl *impl = flow_impl(f);
        impl->listed = 0;
        changes++;
        if (f->ballot && word_of(o, &o->region[impl->promise]) != f->ballot)
            flow_fail(o, f, MEM_DENIED);
        else
            f->done = f->marked;
    }
    return changes;
}

/* The flow of a mark, if it is still that flow. */
static struct mem_flow *flow_of(const struct ofi *o, const struct mark *k)
{
    return flow_known(o, k->flow) && flow_impl(k->flow)->gen == k->gen ? k->flow : NULL;
}

/* What has to be read back for the marks that are not under way. False: nothing. */
bool ofi_marks_span(struct link *l, uint64_t *address, uint64_t *key, uint32_t *bytes)
{
    uint64_t from = UINT64_MAX, to = 0;

    for (uint64_t i = l->mark_covered; i < l->mark_head; i++) {
        struct mem_flow *f = flow_of(l->node, &l->mark[i % LINK_MARKS]);
        if (!f || f->ballot == 0)
            continue;
        const struct promise *p = &l->promise[flow_impl(f)->promise];
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
static bool promise_held(struct link *l, const struct mem_flow *f, const struct promise *p,
                         const struct slot *read_back)
{
    uint64_t word = p->value;

    if (read_back) {
        CHECK(p->address >= read_back->base &&
              p->address + 8 <= read_back->base + read_back->bytes);
        memcpy(&word, read_back->from + (p->address - read_back->base), 8);
    } else {
        CHECK(!l->node->read_back);
    }
    return word == f->ballot && p->value == f->ballot;
}

int ofi_marks_judge(struct link *l, uint64_t end, const struct slot *read_back)
{
    struct ofi *o = l->node;
    int changes = 0;

    for (; l->mark_tail < end; l->mark_tail++) {
        const struct mark *k = &l->mark[l->mark_tail % LINK_MARKS];
        struct mem_flow *f = flow_of(o, k);
        if (!f)
            continue;
        changes++;
        if (f->ballot && !promise_held(l, f, &l->promise[flow_impl(f)->promise], read_back))
            flow_fail(o, f, MEM_DENIED);
        else
            f->done = k->tag;
    }
    return changes;
}

/* ---- ops ---- */

void ofi_op_finish(struct link *l, struct mem_op *op, enum mem_status status)
{
    for (struct mem_op **at = &l->ops; *at; at = &op_impl(*at)->next)
        if (*at == op) {
            *at = op_impl(op)->next;
            break;
        }
    op->status = status;
}

static void op_begin(struct link *l, struct mem_op *op)
{
    struct op_impl *impl = op_impl(op);

    impl->id = ++l->op_id;
    impl->next = l->ops;
    l->ops = op;
    op->status = MEM_PENDING;
}

static struct link *link_to(struct ofi *o, uint32_t node)
{
    struct peer *p = peer_at(o, node);

    return p ? p->link : NULL;
}

static void ofi_raise(struct mem *m, struct mem_op *op, uint32_t owner, uint32_t region,
                      uint64_t ballot)
{
    struct ofi *o = ofi_of(m);
    struct link *l = link_to(o, owner);

    op->value = 0;
    op->status = MEM_LOST;
    if (!o->host)
        return;
    if (owner == m->self) {
        struct region *r = ofi_region_find(o, region);
        if (!r)
            return;
        op->status = MEM_PENDING;
        ofi_region_raise(o, r, ballot, &(struct answer){.ballot = ballot, .own = op});
        return;
    }
    if (!l || !l->peer->host)
        return;
    op_begin(l, op);
    struct ofi_raise item = {.region = region, .id = op_impl(op)->id, .ballot = ballot};
    if (!link_send(l, OFI_RAISE, &item, 1))
        ofi_op_finish(l, op, MEM_LOST);
}

static void ofi_peek(struct mem *m, struct mem_op *op, uint32_t owner, uint32_t region)
{
    struct ofi *o = ofi_of(m);
    struct link *l = link_to(o, owner);

    op->value = 0;
    op->status = MEM_LOST;
    if (owner == m->self) {
        struct region *r = ofi_region_find(o, region);
        if (!r)
            return;
        op->value = word_of(o, r);
        op->status = MEM_DONE;
        return;
    }
    uint32_t i = l ? promise_of(l, region) : UINT32_MAX;
    if (i == UINT32_MAX)
        return;
    op_begin(l, op);
    if (!link_read(l, op, l->promise[i].address, l->promise[i].key, &op->value, 8, false))
        ofi_op_finish(l, op, MEM_LOST);
}

/* Reads from a position of a lane's ring, or from an offset of its control words. */
static void read_lane(struct ofi *o, struct mem_op *op, struct lane *lane, bool ring, uint64_t pos,
                      void *out, uint32_t bytes)
{
    uint32_t ring_bytes = lane->pub.spec.ring_bytes;
    struct link *l = link_to(o, lane->pub.spec.owner);

    CHECK(lane->state == LANE_OPEN);
    op->value = 0;
    op->status = MEM_LOST;
    if (lane->pub.spec.owner == o->mem.self) {
        uint64_t *words = out;
        if (!lane->pub.ctl)
            memset(out, 0, bytes); /* as it is born */
        else if (ring)
            ring_read(lane->pub.ring, ring_bytes, pos, out, bytes);
        else
            for (uint32_t i = 0; i < bytes / 8; i++)
                words[i] = mem_word(&lane->pub, (uint32_t)(pos / 8 + i));
        op->status = MEM_DONE;
        return;
    }
    if (!l || lane->link_id != l->id)
        return;
    uint64_t straight = ring ? ring_straight(ring_bytes, pos) : bytes;
    uint32_t first = bytes < straight ? bytes : (uint32_t)straight;
    uint64_t from = ring ? lane->ring + (pos & (ring_bytes - 1)) : lane->ctl + pos;
    op_begin(l, op);
    if (!link_read(l, op, from, lane->key, out, first, first < bytes) ||
        (first < bytes && !link_read(l, op, lane->ring, lane->key, (unsigned char *)out + first,
                                     bytes - first, false)))
        ofi_op_finish(l, op, MEM_LOST);
}

static void ofi_read_ctl(struct mem *m, struct mem_op *op, struct mem_lane *l, uint32_t word,
                         uint32_t count, uint64_t *out)
{
    CHECK(count > 0 && word + (uint64_t)count <= l->spec.ctl_words);
    read_lane(ofi_of(m), op, (struct lane *)l, false, 8ul * word, out, 8 * count);
}

static void ofi_read_ring(struct mem *m, struct mem_op *op, struct mem_lane *l, uint64_t pos,
                          void *out, uint32_t bytes)
{
    CHECK(bytes > 0 && bytes <= l->spec.ring_bytes && (bytes & 7) == 0 && (pos & 7) == 0);
    read_lane(ofi_of(m), op, (struct lane *)l, true, pos, out, bytes);
}

/* ---- polling, waking, sleeping ---- */

static int post_all(struct ofi *o)
{
    struct link *todo = o->dirty;
    int changes = 0;

    o->dirty = NULL;
    o->dirty_last = &o->dirty;
    while (todo) {
        struct link *l = todo;
        todo = l->dirty_next;
        l->dirty = false;
        if (l->state == LINK_CLOSED)
            continue;
        if (!l->error)
            link_post(l);
        if (l->error) {
            link_close(l, false,
                       l->error == -FI_EAGAIN ? "it takes nothing"
                                              : ofi_library.strerror(-l->error));
            changes++;
            continue;
        }
        if (l->judge) {
            l->judge = false;
            changes += ofi_marks_judge(l, l->mark_head, NULL);
        }
        if (l->piece_tail < l->piece_head || l->mark_covered < l->mark_head)
            link_dirty(l); /* the provider takes no more now */
    }
    return changes;
}

/* News of it comes with the next poll. */
static void ofi_flush(struct mem *m)
{
    struct ofi *o = ofi_of(m);

    if (o->dirty)
        o->news += post_all(o);
}

static int ofi_poll(struct mem *m)
{
    struct ofi *o = ofi_of(m);

    /* What is timed here takes milliseconds. */
    if (o->dozing || o->polls++ % POLLS_PER_CLOCK == 0)
        o->now_ns = clock_now_ns();
    int changes = o->news + (o->dirty ? post_all(o) : 0);
    o->news = 0;
    /* Writes of others land within fi_cq_read, and nothing tells: who has looked at his memory and is
     * about to sleep must not let any land unseen. So he only looks whether something has come. */
    if (!o->dozing || !o->net.data_wakes)
        changes += links_poll(o);
    else if (!o->drained || net_wait(&o->net, 0))
        changes += 1 + links_poll(o);
    if (o->own_marks)
        changes += own_marks_judge(o);
    if (o->now_ns >= o->chores_ns)
        ofi_peers_look_after(o);
    if (o->raises)
        ofi_raises_look_after(o);
    /* Answers to what has just come in. */
    if (o->dirty)
        changes += post_all(o);
    return changes;
}

static bool ofi_dead(struct mem *m, uint32_t node)
{
    struct ofi *o = ofi_of(m);
    struct peer *p = peer_at(o, node);

    return p && node != m->self && (p->left || (p->gone && !p->link));
}

static void ofi_drop(struct mem *m, uint32_t node)
{
    struct link *l = link_to(ofi_of(m), node);

    if (l)
        link_close(l, false, "it was given up here");
}

static void ofi_bell_later(struct mem *m, uint32_t node)
{
    struct ofi *o = ofi_of(m);
    struct link *l = link_to(o, node);

    /* What comes in over tcp wakes by itself, and leaves with the next poll. */
    if (!l || o->net.data_wakes || l->belled)
        return;
    l->belled = link_send(l, OFI_BELL, NULL, 1);
}

static void ofi_bell(struct mem *m, uint32_t node)
{
    struct ofi *o = ofi_of(m);
    struct link *l = link_to(o, node);

    ofi_bell_later(m, node);
    if (l && l->dirty && !l->error)
        link_post(l);
}

static void ofi_doze(struct mem *m)
{
    struct ofi *o = ofi_of(m);

    o->dozing = true;
    o->armed = net_arm(&o->net);
}

static void ofi_rouse(struct mem *m)
{
    ofi_of(m)->dozing = false;
}

/* Until when at most: pulses must go out; and what the provider did not take is not in its descriptor. */
static uint64_t sleep_most(struct ofi *o)
{
    o->now_ns = clock_now_ns();
    if (o->dirty)
        post_all(o);
    return o->now_ns + (o->dirty || o->raises ? MS : o->silent_ns / 8);
}

static bool may_sleep(const struct ofi *o)
{
    return o->dozing && o->armed && o->own_marks == 0 && o->news == 0;
}

static void ofi_sleep(struct mem *m, uint64_t until_ns)
{
    struct ofi *o = ofi_of(m);

    uint64_t most = sleep_most(o);
    if (may_sleep(o))
        net_wait(&o->net, until_ns < most ? until_ns : most);
    o->dozing = false;
    o->chores_ns = 0;
}

static void ofi_wake(struct mem *m)
{
    net_wake(&ofi_of(m)->net);
}

static int ofi_loop_open(struct mem *m, int epoll_fd, struct err *e)
{
    return net_loop_open(&ofi_of(m)->net, epoll_fd, e);
}

static void ofi_loop_disarm(struct mem *m)
{
    struct ofi *o = ofi_of(m);

    o->dozing = false;
    o->chores_ns = 0;
}

static bool ofi_loop_arm(struct mem *m, uint64_t *until_ns)
{
    struct ofi *o = ofi_of(m);

    uint64_t most = sleep_most(o);

    *until_ns = *until_ns < most ? *until_ns : most;
    bool ready = may_sleep(o);
    if (!ready)
        ofi_loop_disarm(m);
    return ready;
}

bool ofi_connected(struct mem *m, uint32_t node)
{
    struct ofi *o = ofi_of(m);
    struct link *l = link_to(o, node);

    return node == m->self || (l && l->ready && l->wants == 0 && l->pendings == 0);
}

const char *ofi_failure(struct mem *m)
{
    struct ofi *o = ofi_of(m);

    return o->failure[0] ? o->failure : NULL;
}

static void ofi_close(struct mem *m)
{
    ofi_leave(ofi_of(m));
    ofi_free(ofi_of(m));
}

const struct mem_ops ofi_ops = {
    .region_open = ofi_region_open,
    .region_grant = ofi_region_grant,
    .promised = ofi_promised,
    .lanes_open = ofi_lanes_open,
    .flow_open = ofi_flow_open,
    .flow_close = ofi_flow_close,
    .put = ofi_put,
    .set = ofi_set,
    .mark = ofi_mark,
    .raise = ofi_raise,
    .peek = ofi_peek,
    .read_ctl = ofi_read_ctl,
    .read_ring = ofi_read_ring,
    .poll = ofi_poll,
    .dead = ofi_dead,
    .offer = ofi_offer,
    .bell = ofi_bell,
    .bell_later = ofi_bell_later,
    .doze = ofi_doze,
    .rouse = ofi_rouse,
    .sleep = ofi_sleep,
    .wake = ofi_wake,
    .loop_open = ofi_loop_open,
    .loop_arm = ofi_loop_arm,
    .loop_disarm = ofi_loop_disarm,
    .close = ofi_close,
    .flush = ofi_flush,
    .lanes_end = ofi_lanes_end,
    .region_end = ofi_region_end,
    .put_kept = ofi_put_kept,
    .drop = ofi_drop,
    .lane_next = ofi_lane_next,
};
