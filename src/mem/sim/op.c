/* Raises, peeks and reads: there, the effect, and back.
 *
 * Unless the owner judges (stream.c) they are not ordered with the writes of their asker. An op waits where the way is cut or the
 * owner does not answer, looking again a few times, and is given up LOST after lost_after_ns. */
#include "mem/sim/world.h"
#include "mem/wrap.h"

#include <string.h>

enum { OPS_FIRST = 32, BUF_FIRST = 64 };

static uint32_t op_new(struct sim *w)
{
    uint32_t i = w->ops_free;
    uint64_t *buf = NULL;
    uint32_t buf_words = 0;

    if (i != SIM_NONE) {
        w->ops_free = w->ops[i].next;
        buf = w->ops[i].buf;
        buf_words = w->ops[i].buf_words;
    } else {
        if (w->ops_len == w->ops_size)
            w->ops = sim_grow(w->ops, &w->ops_size, sizeof *w->ops, OPS_FIRST);
        i = w->ops_len++;
    }
    w->ops[i] = (struct sim_op){.buf = buf, .buf_words = buf_words, .used = true};
    return i;
}

void sim_op_free(struct sim *w, uint32_t op)
{
    w->ops[op].used = false;
    w->ops[op].user = NULL;
    w->ops[op].next = w->ops_free;
    w->ops_free = op;
}

static void op_push(struct sim *w, uint32_t op, enum sim_event_kind kind, uint64_t when_ns)
{
    uint32_t event = sim_event_new(w, kind);

    w->events[event].u.index = op;
    sim_push(w, when_ns, event);
}

/* It changes the promised word, and may do so though nobody waits for it any more. */
static bool promises(const struct sim_op *op)
{
    return op->kind == SIM_RAISE || op->kind == SIM_GRANT;
}

/* The connection that it was asked over is not there any more. */
static bool op_cut_off(struct sim *w, const struct sim_op *op)
{
    uint32_t owner = op->region->owner;

    return !sim_link_up(w, op->asker, owner) || sim_link_turn(w, op->asker, owner) != op->turn;
}

void sim_op_ask(struct sim *w, const struct sim_ask *a)
{
    uint32_t owner = a->region->owner;
    struct sim_chan *way = sim_chan_at(w, a->asker, owner);

    sim_buffer_write(w, a->asker);
    a->user->value = 0;
    bool promising = a->kind == SIM_RAISE || a->kind == SIM_GRANT;
    if (promising ? !sim_way_open(w, way) : !sim_way_known(w, way, a->region, a->lane)) {
        a->user->status = MEM_LOST;
        return;
    }
    uint32_t i = op_new(w);
    struct sim_op *op = &w->ops[i];

    op->user = a->user;
    op->kind = (uint8_t)a->kind;
    op->asker = a->asker;
    op->region = a->region;
    op->lane = a->lane;
    op->memory = w->nodes[owner].memory;
    op->turn = sim_link_turn(w, a->asker, owner);
    op->ballot = a->ballot;
    op->at = a->at;
    op->out = a->out;
    op->words = a->words;
    op->give_up_ns = w->now_ns + w->opt.lost_after_ns;
    op->status = MEM_PENDING;
    op->pieces = 1;
    while (op->buf_words < op->words)
        op->buf = sim_grow(op->buf, &op->buf_words, sizeof *op->buf, BUF_FIRST);
    bool torn = !sim_is_stream(w, way) && rng_chance_ppm(&w->draws, w->opt.tear_per_million);
    if (torn && op->words > 1) {
        op->pieces = (uint8_t)rng_range(&w->draws, 2, SIM_READ_PIECES_MAX);
        op->tear = rng_u64(&w->draws);
    }
    a->user->status = MEM_PENDING;
    sim_mix(w, (uint64_t)a->kind << 32 ^ a->asker << 16 ^ owner << 8 ^ op->pieces);
    sim_mix(w, a->at << 20 ^ a->words ^ a->ballot);
    if (!sim_is_stream(w, way))
        op_push(w, i, SIM_EV_OP, sim_sent_ns(w, a->asker, owner, 0));
    else if (sim_link_up(w, a->asker, owner))
        sim_stream_ask(w, way, i);
    else
        sim_op_lost(w, i);
}

/* Who is paused does not answer before he runs; but however short that was, what he had by then is answered. */
static bool op_stands(const struct sim *w, const struct sim_node *owner, struct sim_op *op)
{
    bool stopped = owner->paused && (promises(op) || !w->opt.links.passive);

    if (stopped && op->stands_ns == 0)
        op->stands_ns = w->now_ns;
    if (stopped && owner->ran_ns <= op->stands_ns)
        return true;
    op->stands_ns = 0;
    return false;
}

static bool op_passes(struct sim *w, struct sim_op *op)
{
    const struct sim_node *owner = &w->nodes[op->region->owner];

    if (sim_chan_at(w, op->asker, op->region->owner)->cut)
        return false;
    if (w->opt.owner_answers && (!owner->alive || op_stands(w, owner, op)))
        return false;
    return owner->reachable && op->region->born;
}

static void read_piece(struct sim_op *op)
{
    for (uint32_t i = 0; i < op->words; i++) {
        if (op->pieces > 1 && hash_mix(op->tear, i) % op->pieces != op->piece)
            continue;
        if (op->kind == SIM_READ_CTL)
            op->buf[i] = atomic_load_explicit(&op->lane->own.ctl[op->at + i], memory_order_relaxed);
        else
            ring_read(op->lane->own.ring, op->lane->own.spec.ring_bytes, op->at + 8 * (uint64_t)i,
                      &op->buf[i], 8);
    }
    op->piece++;
}

/* Takes effect at the owner. False if there is more to read later. */
static bool op_effect(struct sim *w, struct sim_op *op)
{
    struct sim_region *r = op->region;

    op->status = MEM_DONE;
    switch ((enum sim_op_kind)op->kind) {
    case SIM_RAISE:
        if (r->promised < op->ballot)
            sim_promise(w, r, op->ballot);
        else if (r->promised > op->ballot)
            op->status = MEM_DENIED;
        op->value = r->promised;
        break;
    case SIM_GRANT:
        if (r->promised == MEM_CLOSED && !r->ended && w->nodes[r->owner].mem.life == op->at)
            sim_promise(w, r, op->ballot), op->kind = SIM_RAISE; /* from here on it is as one */
        else
            op->status = MEM_DENIED;
        op->value = r->promised;
        break;
    case SIM_PEEK:
        op->value = r->promised;
        break;
    case SIM_READ_CTL:
    case SIM_READ_RING:
        read_piece(op);
        if (op->piece < op->pieces) {
            op->status = MEM_PENDING;
            return false;
        }
        if (w->on_read && op->kind == SIM_READ_RING)
            w->on_read(w->on_read_ctx, op->asker, &op->lane->own.spec, op->at, op->buf,
                       8 * op->words);
        sim_mix(w, hash_bytes(0, op->buf, 8 * (size_t)op->words));
        break;
    }
    sim_mix(w, op->value ^ (uint64_t)op->status << 62);
    return true;
}

static void op_lost(struct sim *w, uint32_t i, uint64_t when_ns)
{
    w->ops[i].status = MEM_LOST;
    op_push(w, i, SIM_EV_REPLY, when_ns);
}

/* The same raise, for which nobody waits. */
static uint32_t raise_copy(struct sim *w, uint32_t i)
{
    uint32_t z = op_new(w);
    struct sim_op *to = &w->ops[z];
    const struct sim_op *from = &w->ops[i];

    to->kind = from->kind;
    to->at = from->at;
    to->asker = from->asker;
    to->region = from->region;
    to->memory = from->memory;
    to->turn = from->turn;
    to->ballot = from->ballot;
    to->status = MEM_PENDING;
    to->pieces = 1;
    return z;
}

/* The asker hears LOST, but its raise may be on its way for longer. */
static void raise_lingers(struct sim *w, uint32_t i)
{
    uint32_t z = raise_copy(w, i);

    op_push(w, z, SIM_EV_OP, w->now_ns + 1 + rng_below(&w->draws, w->opt.lost_after_ns));
}

static void op_wait(struct sim *w, uint32_t i)
{
    struct sim_op *op = &w->ops[i];

    if (!op->user && ++op->tries > SIM_ZOMBIE_TRIES) {
        sim_op_free(w, i);
    } else if (op->user && w->now_ns >= op->give_up_ns) {
        if (promises(op) && rng_below(&w->draws, 2))
            raise_lingers(w, i);
        sim_link_break(w, w->ops[i].asker, w->ops[i].region->owner);
        op_lost(w, i, w->now_ns);
    } else {
        uint64_t again = w->now_ns + 1 + rng_below(&w->draws, w->opt.lost_after_ns / SIM_TRIES + 1);
        if (op->user && again > op->give_up_ns)
            again = op->give_up_ns;
        op_push(w, i, SIM_EV_OP, again);
    }
}

void sim_op_event(struct sim *w, uint32_t i)
{
    struct sim_op *op = &w->ops[i];
    uint32_t owner = op->region->owner;

    /* What is over with its connection may still have an effect until there is a new one. */
    bool late = op_cut_off(w, op);
    bool over = late && sim_link_up(w, op->asker, owner);
    if (op->void_ || (!op->user && (!promises(op) || over))) {
        sim_op_free(w, i);
    } else if (late && op->user) {
        if (promises(op) && !over && rng_below(&w->draws, 2))
            raise_lingers(w, i);
        uint64_t known_ns = sim_chan_at(w, w->ops[i].asker, owner)->down_ns;
        op_lost(w, i, known_ns == UINT64_MAX ? w->now_ns : known_ns);
    } else if (op->memory != w->nodes[owner].memory) {
        if (op->user)
            op_lost(w, i, w->now_ns + rng_below(&w->draws, w->opt.lost_after_ns));
        else
            sim_op_free(w, i);
    } else if (!op_passes(w, op)) {
        op_wait(w, i);
    } else if (!op_effect(w, op)) {
        uint64_t gap_ns =
            w->opt.read_gap_ns_max && !w->calm ? rng_below(&w->draws, w->opt.read_gap_ns_max) : 0;
        op_push(w, i, SIM_EV_OP, 1 + gap_ns + sim_answered_ns(w, owner, op->asker, 0));
    } else if (promises(op) && op->status == MEM_DONE && op->region->told_ns > w->now_ns &&
               !w->opt.links.untold) {
        op->status = MEM_PENDING; /* those who write here have to be told first */
        op_push(w, i, SIM_EV_OP, op->region->told_ns);
    } else if (op->user) {
        uint64_t back_ns = sim_answered_ns(w, owner, op->asker, 8 * (uint64_t)op->words);
        if (promises(op))
            back_ns += w->opt.costs.raise_ns;
        op_push(w, i, SIM_EV_REPLY, back_ns);
    } else {
        sim_op_free(w, i);
    }
}

void sim_op_reply_event(struct sim *w, uint32_t event)
{
    uint32_t i = w->events[event].u.index;
    struct sim_op *op = &w->ops[i];

    if (!op->user) {
        sim_op_free(w, i);
        sim_event_free(w, event);
        return;
    }
    if (op->status != MEM_LOST && sim_chan_at(w, op->region->owner, op->asker)->cut) {
        if (w->now_ns < op->give_up_ns) {
            sim_push(w, w->now_ns + 1 + rng_below(&w->draws, w->opt.lost_after_ns / SIM_TRIES + 1),
                     event);
            return;
        }
        sim_link_break(w, op->asker, op->region->owner);
        op->status = MEM_LOST;
    }
    /* An answer that was on its way may come while its asker does not know of the break. */
    if (op_cut_off(w, op) && (sim_link_up(w, op->asker, op->region->owner) ||
                              !sim_way_open(w, sim_chan_at(w, op->asker, op->region->owner))))
        op->status = MEM_LOST;
    sim_mix(w, op->value ^ (uint64_t)op->status << 60);
    sim_arrive(w, op->asker, event);
}

/* ---- where the owner judges ---- */

void sim_op_lost(struct sim *w, uint32_t i)
{
    const struct sim_op *op = &w->ops[i];
    uint64_t known_ns = sim_chan_at(w, op->asker, op->region->owner)->down_ns;

    if (op->user)
        op_lost(w, i, known_ns == UINT64_MAX ? w->now_ns : known_ns);
    else
        sim_op_free(w, i);
}

uint32_t sim_op_detach(struct sim *w, uint32_t i)
{
    if (!w->ops[i].user)
        return i;
    uint32_t left = promises(&w->ops[i]) ? raise_copy(w, i) : SIM_NONE;
    sim_op_lost(w, i);
    return left;
}

/* Planted bug: it is answered as if it were in force, and is so later. */
static bool raise_answered_early(struct sim *w, uint32_t i)
{
    struct sim_op *op = &w->ops[i];

    if (w->opt.links.flaw != SIM_RAISE_EARLY || op->kind != SIM_RAISE ||
        op->region->promised >= op->ballot)
        return false;
    op->status = MEM_DONE;
    op->value = op->ballot;
    raise_lingers(w, i);
    return true;
}

bool sim_op_taken(struct sim *w, uint32_t i)
{
    if (!w->ops[i].region->born)
        w->ops[i].status = MEM_LOST; /* there is nothing of that number here */
    else if (!raise_answered_early(w, i))
        op_effect(w, &w->ops[i]);
    if (w->ops[i].user)
        return true;
    sim_op_free(w, i);
    return false;
}

int sim_op_apply(struct sim *w, uint32_t i)
{
    struct sim_op *op = &w->ops[i];

    if (op->user) {
        if (op->status != MEM_LOST)
            op->user->value = op->value;
        if (op->status == MEM_DONE && op->words)
            memcpy(op->out, op->buf, 8 * (size_t)op->words);
        op->user->status = op->status;
    }
    sim_op_free(w, i);
    return 1;
}

void sim_ops_asker_died(struct sim *w, uint32_t node)
{
    for (uint32_t i = 0; i < w->ops_len; i++)
        if (w->ops[i].used && w->ops[i].asker == node)
            w->ops[i].user = NULL;
}

void sim_ops_settle(struct sim *w, uint32_t node)
{
    for (uint32_t i = 0; i < w->ops_len; i++) {
        struct sim_op *op = &w->ops[i];
        if (!op->used || op->asker != node || op->void_ ||
            sim_is_stream(w, sim_chan_at(w, node, op->region->owner)))
            continue;
        if (promises(op) && op->status == MEM_PENDING &&
            op->memory == w->nodes[op->region->owner].memory && op_passes(w, op) &&
            rng_below(&w->draws, 2))
            op_effect(w, op);
        op->void_ = true;
    }
}
