/* Regions and promises, ops, and what is done for links in turn. */
#include "base/clock.h"
#include "base/say.h"
#include "mem/far/impl.h"
#include "mem/wrap.h"

#include <stdlib.h>
#include <string.h>

/* ---- regions ---- */

struct region *far_region_find(struct far *o, uint32_t number)
{
    for (uint32_t i = 0; i < o->regions; i++)
        if (o->region[i].number == number)
            return &o->region[i];
    return NULL;
}

uint32_t far_region_index(const struct far *o, const struct region *r)
{
    return (uint32_t)(r - o->region);
}

int far_region_open(struct mem *m, uint32_t region, enum mem_birth *birth, struct err *e)
{
    struct far *o = far_of(m);
    bool lost = o->host && (o->lives ? m->life > 0 : roll_own(&o->roll) != ROLL_MEMBER);

    const struct region *known = far_region_find(o, region);
    if (known)
        return err_set(e, ERR_EXISTS, "open region %u of node %s: it %s", region, o->name,
                       known->ended ? "was ended in this life" : "is open");
    if (o->regions == FAR_REGIONS_MAX)
        return err_set(e, ERR_TOOBIG, "open region %u: node %s has %u regions, the maximum", region,
                       o->name, FAR_REGIONS_MAX);
    if (o->regions == o->regions_room) {
        uint32_t room = o->regions_room ? 2 * o->regions_room : 16;
        struct region *more = realloc(o->region, room * sizeof(*more));
        if (!more)
            return err_set(e, ERR_NOMEM, "open region %u of node %s: no memory", region, o->name);
        o->region = more;
        o->regions_room = room;
    }
    o->region[o->regions] = (struct region){.number = region};
    far_promise_store(o, o->regions, lost ? MEM_CLOSED : 0);
    o->regions++;
    if (o->carrier->region_opened)
        o->carrier->region_opened(o, o->regions - 1);
    *birth = lost ? MEM_BIRTH_LOST : MEM_BIRTH_NEW;
    return 0;
}

/* The region, which is open, by index. */
static uint32_t open_region(struct far *o, uint32_t number)
{
    struct region *r = far_region_find(o, number);

    CHECK(r != NULL && !r->ended);
    return far_region_index(o, r);
}

void far_region_grant(struct mem *m, uint32_t region, uint64_t ballot)
{
    struct far *o = far_of(m);
    uint32_t i = open_region(o, region);

    if (far_promised_at(o, i) != MEM_CLOSED)
        return;
    far_roll_taken_back(o);
    o->carrier->promise(o, i, ballot);
}

void far_region_end(struct mem *m, uint32_t region)
{
    struct far *o = far_of(m);
    uint32_t i = open_region(o, region);

    o->region[i].ended = true;
    far_region_lanes_end(o, region);
    if (far_promised_at(o, i) != MEM_CLOSED)
        o->carrier->promise(o, i, MEM_CLOSED);
}

uint64_t far_promised(struct mem *m, uint32_t region)
{
    struct far *o = far_of(m);
    uint32_t at = (region ^ region >> 16) % FAR_REGION_SLOTS;

    /* Every replica asks in every round. */
    if (o->region_slot[at].index == 0 || o->region_slot[at].number != region) {
        struct region *r = far_region_find(o, region);
        CHECK(r != NULL);
        o->region_slot[at].number = region;
        o->region_slot[at].index = far_region_index(o, r) + 1;
    }
    return far_promised_at(o, o->region_slot[at].index - 1);
}

static void answer(struct far *o, uint32_t number, uint64_t word, enum mem_status status,
                   const struct answer *a)
{
    if (a->own) {
        a->own->value = word;
        a->own->status = status;
        return;
    }
    struct far_raise item = {.region = number, .status = status, .id = a->id, .ballot = word};
    for (struct link *l = o->links; l; l = l->next)
        if (l->id == a->link_id && l->state == LINK_UP && !link_send(l, FAR_RAISED, &item, 1))
            link_fault(l, TAKES_NOTHING);
}

void far_answer(struct far *o, uint32_t region, const struct answer *a)
{
    uint64_t word = far_promised_at(o, region);

    answer(o, o->region[region].number, word, word == a->ballot ? MEM_DONE : MEM_DENIED, a);
}

void far_grant_taken(struct far *o, uint32_t number, uint32_t life, const struct answer *a)
{
    struct region *r = far_region_find(o, number);

    if (!r) {
        answer(o, number, 0, MEM_LOST, a);
        return;
    }
    uint32_t i = far_region_index(o, r);
    if (r->ended || o->mem.life != life || far_promised_at(o, i) != MEM_CLOSED) {
        answer(o, number, far_promised_at(o, i), MEM_DENIED, a);
        return;
    }
    far_roll_taken_back(o);
    o->carrier->promise(o, i, a->ballot);
    o->carrier->raise(o, i, a->ballot, a); /* it is answered as one */
}

/* ---- ops ---- */

struct mem_op *far_op_find(const struct link *l, uint64_t id)
{
    struct mem_op *op = l->ops;

    while (op && op_impl(op)->id != id)
        op = op_impl(op)->next;
    return op;
}

void far_op_finish(struct link *l, struct mem_op *op, enum mem_status status)
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

struct link *far_link_to(struct far *o, uint32_t node)
{
    struct peer *p = peer_at(o, node);

    return p ? p->link : NULL;
}

void far_raise(struct mem *m, struct mem_op *op, uint32_t owner, uint32_t region, uint64_t ballot)
{
    struct far *o = far_of(m);
    struct link *l = far_link_to(o, owner);

    op->value = 0;
    op->status = MEM_LOST;
    if (!o->host)
        return;
    if (owner == m->self) {
        struct region *r = far_region_find(o, region);
        if (!r)
            return;
        op->status = MEM_PENDING;
        o->carrier->raise(o, far_region_index(o, r), ballot,
                          &(struct answer){.ballot = ballot, .own = op});
        return;
    }
    if (!l || !l->peer->host)
        return;
    op_begin(l, op);
    struct far_raise item = {.region = region, .id = op_impl(op)->id, .ballot = ballot};
    if (!link_send(l, FAR_RAISE, &item, 1))
        far_op_finish(l, op, MEM_LOST);
}

void far_grant(struct mem *m, struct mem_op *op, uint32_t owner, uint32_t region, uint32_t life,
               uint64_t ballot)
{
    struct far *o = far_of(m);
    struct link *l = far_link_to(o, owner);

    op->value = 0;
    op->status = MEM_LOST;
    if (!o->host)
        return;
    if (owner == m->self) {
        op->status = MEM_PENDING;
        far_grant_taken(o, region, life, &(struct answer){.ballot = ballot, .own = op});
        return;
    }
    if (!l || !l->peer->host)
        return;
    op_begin(l, op);
    struct far_raise item = {
        .region = region, .status = life, .id = op_impl(op)->id, .ballot = ballot};
    if (!link_send(l, FAR_GRANT, &item, 1))
        far_op_finish(l, op, MEM_LOST);
}

void far_peek(struct mem *m, struct mem_op *op, uint32_t owner, uint32_t region)
{
    struct far *o = far_of(m);
    struct link *l = far_link_to(o, owner);

    op->value = 0;
    op->status = MEM_LOST;
    if (owner == m->self) {
        struct region *r = far_region_find(o, region);
        if (!r)
            return;
        op->value = far_promised_at(o, far_region_index(o, r));
        op->status = MEM_DONE;
        return;
    }
    if (!l)
        return;
    op_begin(l, op);
    if (!o->carrier->peek(l, op, region))
        far_op_finish(l, op, MEM_LOST);
}

static void read_own(struct lane *lane, bool ring, uint64_t pos, void *out, uint32_t bytes)
{
    uint64_t *words = out;

    if (!lane->pub.ctl)
        memset(out, 0, bytes); /* as it is born */
    else if (ring)
        ring_read(lane->pub.ring, lane->pub.spec.ring_bytes, pos, out, bytes);
    else
        for (uint32_t i = 0; i < bytes / 8; i++)
            words[i] = mem_word(&lane->pub, (uint32_t)(pos / 8 + i));
}

/* Reads from a position of a lane's ring, or from an offset of its control words. */
static void read_lane(struct far *o, struct mem_op *op, struct lane *lane, bool ring, uint64_t pos,
                      void *out, uint32_t bytes)
{
    uint32_t ring_bytes = lane->pub.spec.ring_bytes;
    struct link *l = far_link_to(o, lane->pub.spec.owner);

    CHECK(lane->state == LANE_OPEN);
    op->value = 0;
    op->status = MEM_LOST;
    if (lane->pub.spec.owner == o->mem.self) {
        read_own(lane, ring, pos, out, bytes);
        op->status = MEM_DONE;
        return;
    }
    if (!l || lane->link_id != l->id)
        return;
    uint64_t straight = ring ? ring_straight(ring_bytes, pos) : bytes;
    uint32_t first = bytes < straight ? bytes : (uint32_t)straight;
    op_begin(l, op);
    if (!o->carrier->read(l, op, lane, ring, pos, out, first, first < bytes) ||
        (first < bytes && !o->carrier->read(l, op, lane, true, 0, (unsigned char *)out + first,
                                            bytes - first, false)))
        far_op_finish(l, op, MEM_LOST);
}

void far_read_ctl(struct mem *m, struct mem_op *op, struct mem_lane *l, uint32_t word,
                  uint32_t count, uint64_t *out)
{
    CHECK(count > 0 && word + (uint64_t)count <= l->spec.ctl_words);
    read_lane(far_of(m), op, (struct lane *)l, false, 8ul * word, out, 8 * count);
}

void far_read_ring(struct mem *m, struct mem_op *op, struct mem_lane *l, uint64_t pos, void *out,
                   uint32_t bytes)
{
    CHECK(bytes > 0 && bytes <= l->spec.ring_bytes && (bytes & 7) == 0 && (pos & 7) == 0);
    read_lane(far_of(m), op, (struct lane *)l, true, pos, out, bytes);
}

/* ---- in turn ---- */

int far_post_all(struct far *o)
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
        if (!l->fault)
            changes += o->carrier->post(l);
        if (l->fault) {
            link_close(l, l->ended, l->fault);
            changes++;
        }
    }
    return changes;
}

/* News of it comes with the next poll. */
void far_flush(struct mem *m)
{
    struct far *o = far_of(m);

    if (o->dirty)
        o->news += far_post_all(o);
}

bool far_dead(struct mem *m, uint32_t node)
{
    struct far *o = far_of(m);
    struct peer *p = peer_at(o, node);

    return p && node != m->self && (p->left || (p->gone && !p->link));
}

void far_drop(struct mem *m, uint32_t node)
{
    struct link *l = far_link_to(far_of(m), node);

    if (l)
        link_close(l, false, "it was given up here");
}

bool far_connected(struct mem *m, uint32_t node)
{
    struct link *l = far_link_to(far_of(m), node);

    return node == m->self || (l && l->ready && l->wants == 0 && l->pendings == 0);
}

const char *far_failure(struct mem *m)
{
    struct far *o = far_of(m);

    return o->failure[0] ? o->failure : NULL;
}

int far_limits_check(struct mem *m, struct err *e)
{
    const struct far *o = far_of(m);
    uint64_t limit = UINT64_MAX, needed = o->carrier->locked ? o->carrier->locked(o, &limit) : 0;

    if (o->huge_short > 0)
        return err_set(
            e, ERR_SYSTEM,
            "host %s needs %llu huge pages of 2 MiB, and has got %llu; raise their number "
            "(sysctl vm.nr_hugepages), or leave huge_pages out of the cluster file",
            o->name, (unsigned long long)(o->huge_got + o->huge_short),
            (unsigned long long)o->huge_got);
    if (needed <= limit)
        return 0;
    return err_set(e, ERR_SYSTEM,
                   "host %s locks %llu KiB of memory, and more for each client, and may lock %llu; "
                   "raise the limit (ulimit -l, LimitMEMLOCK=)",
                   o->name, (unsigned long long)(needed / 1024),
                   (unsigned long long)(limit / 1024));
}

void far_close(struct mem *m)
{
    far_leave(far_of(m));
    far_free(far_of(m));
}
