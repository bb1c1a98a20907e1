/* Connections over which the owner judges (struct sim_links, judged): our own tcp transport.
 *
 * Each way is one ordered stream of frames, the items of its channel: writes, marks and asks, and back, between
 * what the owner itself writes and asks, answers and replies. Three cursors divide it:
 *
 *     head            received       sent            tail
 *       |   in the       |  under way   |   still with   |
 *       | taker's socket |              |   the issuer   |
 *
 * A poll moves the head, and only that lets anything land; it also sends, as a flush does. A break drops what has not
 * been sent and the end of what is under way. What was received may still be taken, until the side that has it
 * comes to know of the break, and at the latest until there is a new connection. */
#include "mem/sim/world.h"

#include <stdlib.h>

enum {
    SENT_AT_ONCE_OF = 4, /* one write in so many is sent at once, with all before it */
    APART_OF = 8,        /* one frame in so many arrives later than the one before it */
    TAKEN_IN_PART_OF = 8 /* of so many polls one leaves frames for the next */
};

static struct sim_chan *back_of(const struct sim *w, const struct sim_chan *c)
{
    return sim_chan_at(w, c->to, c->from);
}

/* ---- sending ---- */

static void look_at(struct sim *w, struct sim_chan *c, uint64_t when_ns)
{
    if (c->event)
        return;
    uint32_t event = sim_event_new(w, SIM_EV_CHAN);
    w->events[event].u.index = (uint32_t)(c - w->chans);
    sim_push(w, when_ns, event);
    c->event = true;
}

void sim_stream_kick(struct sim *w, struct sim_chan *c)
{
    if (!c->cut && c->received < c->sent)
        look_at(w, c, sim_item_at(c, c->received)->ready_ns);
}

/* Sees to it that a stream that stands still is noticed. */
static void watch(struct sim *w, struct sim_chan *c)
{
    if (c->lost_event || c->head >= c->sent)
        return;
    uint32_t event = sim_event_new(w, SIM_EV_CHAN_LOST);
    w->events[event].u.index = (uint32_t)(c - w->chans);
    sim_push(w, sim_item_at(c, c->head)->issued_ns + w->opt.lost_after_ns, event);
    c->lost_event = true;
}

void sim_stream_lost_event(struct sim *w, struct sim_chan *c)
{
    if (c->head >= c->sent || !sim_link_up(w, c->from, c->to))
        return;
    if (sim_item_at(c, c->head)->issued_ns + w->opt.lost_after_ns <= w->now_ns)
        sim_link_break(w, c->from, c->to);
    else
        watch(w, c);
}

static uint64_t late_ns(struct sim *w, const struct sim_item *it)
{
    const struct sim_links *l = &w->opt.links;
    bool answers = it->kind == SIM_ANSWER || it->kind == SIM_REPLY;

    return answers && !w->calm && rng_chance_ppm(&w->draws, l->late_per_million)
               ? rng_below(&w->draws, l->late_ns_max + 1)
               : 0;
}

static void send_all(struct sim *w, struct sim_chan *c)
{
    uint64_t there_ns = 0;

    if (c->sent == c->tail)
        return;
    for (; c->sent < c->tail; c->sent++) {
        struct sim_item *it = sim_item_at(c, c->sent);
        if (there_ns == 0 || rng_below(&w->draws, APART_OF) == 0)
            there_ns = sim_sent_ns(w, c->from, c->to, 0);
        it->issued_ns = w->now_ns;
        it->ready_ns = there_ns + late_ns(w, it);
    }
    watch(w, c);
    sim_stream_kick(w, c);
}

void sim_stream_flush(struct sim *w, uint32_t node)
{
    for (uint32_t to = 0; to < w->opt.nodes_max; to++)
        if (to != node)
            send_all(w, sim_chan_at(w, node, to));
}

/* A frame that belongs to no write. */
static struct sim_item *say(struct sim *w, struct sim_chan *c, enum sim_item_kind kind,
                            uint32_t flow)
{
    struct sim_item it = {
        .issued_ns = w->now_ns, .kind = (uint8_t)kind, .flow = flow, .about = SIM_NONE};

    sim_chan_append(w, c, &it, NULL);
    return sim_item_at(c, c->tail - 1);
}

void sim_stream_issue(struct sim *w, struct sim_chan *c, const struct sim_write *wr)
{
    uint32_t most =
        wr->kind == SIM_PUT && w->opt.links.frame_bytes ? w->opt.links.frame_bytes / 8 : UINT32_MAX;

    if (wr->kind == SIM_BELL)
        say(w, c, SIM_BELL, SIM_NONE);
    for (uint32_t done = 0, words; done < wr->words; done += words) {
        const unsigned char *data = (const unsigned char *)wr->data + 8 * (size_t)done;
        words = wr->words - done < most ? wr->words - done : most;
        struct sim_item it = {
            .issued_ns = w->now_ns,
            .at = wr->at + (wr->kind == SIM_PUT ? 8 * (uint64_t)done : done),
            .kept = wr->kept ? data : NULL,
            .lane = wr->lane,
            .flow = wr->flow,
            .words = words,
            .kind = (uint8_t)wr->kind,
            .pieces = 1,
        };
        if (wr->kind == SIM_PUT)
            it.at &= wr->lane->own.spec.ring_bytes - 1;
        sim_chan_append(w, c, &it, data);
        if (rng_below(&w->draws, SENT_AT_ONCE_OF) == 0)
            send_all(w, c);
    }
}

void sim_stream_mark(struct sim *w, struct sim_chan *c, uint32_t flow, uint64_t tag)
{
    say(w, c, SIM_MARK, flow)->tag = tag;
}

void sim_stream_ask(struct sim *w, struct sim_chan *c, uint32_t op)
{
    say(w, c, SIM_ASK, SIM_NONE)->about = op;
}

/* The open flow of the node that has the number; SIM_NONE: there is none. */
static uint32_t flow_numbered(const struct sim *w, uint32_t issuer, uint32_t number)
{
    uint32_t i = w->nodes[issuer].flows;

    while (i != SIM_NONE && w->flows[i].number != number)
        i = w->flows[i].next;
    return i;
}

void sim_stream_number(struct sim *w, uint32_t flow)
{
    struct sim_flow *f = &w->flows[flow];
    uint32_t number = 0;

    f->number = SIM_NONE; /* not its own in the way */
    while (flow_numbered(w, f->issuer, number) != SIM_NONE)
        number++;
    f->number = number;
}

/* ---- taking ---- */

void sim_stream_event(struct sim *w, struct sim_chan *c)
{
    while (!c->cut && c->received < c->sent && sim_item_at(c, c->received)->ready_ns <= w->now_ns) {
        bool bell = sim_item_at(c, c->received)->kind == SIM_BELL;
        c->received++;
        if (bell && w->on_bell && w->nodes[c->to].alive)
            w->on_bell(w->on_bell_ctx, c->to);
    }
    if (c->head < c->received && w->on_touch)
        w->on_touch(w->on_touch_ctx, c->to);
    sim_stream_kick(w, c);
}

static bool permitted(const struct sim *w, const struct sim_flow *f)
{
    enum sim_flaw flaw = w->opt.links.flaw;

    if (f->ballot == 0 || flaw == SIM_UNJUDGED)
        return true;
    return f->region->promised == f->ballot && !f->denied;
}

/* The answer to the flow that has not been sent yet, or NULL. */
static struct sim_item *answer_staged(const struct sim *w, const struct sim_chan *back,
                                      uint32_t flow)
{
    const struct sim_flow *f = &w->flows[flow];

    if (f->answer < back->sent || f->answer >= back->tail)
        return NULL;
    struct sim_item *it = sim_item_at(back, f->answer);
    bool same = it->kind == SIM_ANSWER && it->about == flow && it->generation == f->generation;
    return same ? it : NULL;
}

/* What the owner says to the flow in this poll; what it said before in the same one may be lost in that. */
static void answer(struct sim *w, const struct sim_chan *c, uint32_t flow, enum mem_status status,
                   uint64_t tag)
{
    struct sim_chan *back = back_of(w, c);

    if (!sim_link_up(w, c->from, c->to))
        return;
    struct sim_flow *f = &w->flows[flow];
    struct sim_item *it = answer_staged(w, back, flow);
    bool another = it && status != MEM_DONE && it->status == MEM_DONE && rng_below(&w->draws, 2);
    if (!it || another) {
        f->answer = back->tail;
        it = say(w, back, SIM_ANSWER, SIM_NONE);
    }
    it->about = flow;
    it->generation = f->generation;
    it->number = f->number;
    it->status = status;
    it->tag = tag;
}

static void deny(struct sim *w, const struct sim_chan *c, uint32_t flow)
{
    w->flows[flow].denied = w->opt.links.flaw != SIM_DENIED_REVIVES;
    answer(w, c, flow, MEM_DENIED, 0);
}

static void take_write(struct sim *w, const struct sim_chan *c, const struct sim_item *it)
{
    if (permitted(w, &w->flows[it->flow])) {
        sim_item_store(c, it);
        sim_item_landed(w, it, true);
    } else if (w->opt.links.flaw != SIM_DENIED_REVIVES) {
        deny(w, c, it->flow);
    } /* else only a mark tells, by what is promised then */
}

/* All before it has landed, or the flow was denied. A promise that has changed since then may be found out only now. */
static void take_mark(struct sim *w, const struct sim_chan *c, const struct sim_item *it)
{
    const struct sim_flow *f = &w->flows[it->flow];

    if (it->answered)
        return;
    bool lacks = f->denied || w->opt.links.flaw == SIM_DENIED_REVIVES;
    if (!permitted(w, f) && (lacks || rng_below(&w->draws, 2)))
        deny(w, c, it->flow);
    else
        answer(w, c, it->flow, MEM_DONE, it->tag);
}

/* The flow of the node that an answer is to; NULL: it is closed. */
static struct sim_flow *flow_meant(struct sim *w, const struct sim_chan *c,
                                   const struct sim_item *it)
{
    struct sim_flow *f = &w->flows[it->about];

    if (w->opt.links.flaw != SIM_ANSWER_MISTAKEN)
        return f->generation == it->generation && f->user ? f : NULL;
    uint32_t i = flow_numbered(w, c->to, it->number);
    return i == SIM_NONE ? NULL : &w->flows[i];
}

static int take_answer(struct sim *w, const struct sim_chan *c, const struct sim_item *it)
{
    struct sim_flow *f = flow_meant(w, c, it);

    if (!f || f->user->status != MEM_DONE)
        return 0;
    sim_mix(w, it->tag << 8 ^ c->to << 2 ^ it->status);
    if (it->status != MEM_DONE) {
        f->failed = f->user->status = it->status;
        return 1;
    }
    if (it->tag <= f->user->done)
        return 0;
    f->user->done = it->tag;
    return 1;
}

/* It stands when it is answered. An op without an asker is of a connection that has broken. */
static void take_ask(struct sim *w, const struct sim_chan *c, uint32_t op)
{
    if (op != SIM_NONE && sim_op_taken(w, op))
        say(w, back_of(w, c), SIM_REPLY, SIM_NONE)->about = op;
}

static int take_head(struct sim *w, struct sim_chan *c)
{
    const struct sim_item *it = sim_item_at(c, c->head);
    int changes = 1;

    switch ((enum sim_item_kind)it->kind) {
    case SIM_PUT:
    case SIM_SET:
        take_write(w, c, it);
        break;
    case SIM_MARK:
        take_mark(w, c, it);
        break;
    case SIM_ASK:
        take_ask(w, c, it->about);
        break;
    case SIM_ANSWER:
        changes = take_answer(w, c, it);
        break;
    case SIM_REPLY:
        changes = it->about == SIM_NONE ? 0 : sim_op_apply(w, it->about);
        break;
    case SIM_BELL: /* it rang when it came */
        changes = 0;
        break;
    }
    sim_chan_pop(w, c);
    return changes;
}

/* Planted bug: what was received counts as done. */
static void answer_received(struct sim *w, struct sim_chan *c)
{
    for (uint64_t i = c->head; i < c->received; i++) {
        struct sim_item *it = sim_item_at(c, i);
        if (it->kind != SIM_MARK || it->answered || w->flows[it->flow].denied)
            continue;
        answer(w, c, it->flow, MEM_DONE, it->tag);
        it->answered = true;
    }
}

static void old_free(struct sim_chan *c)
{
    free(c->old->items);
    free(c->old->words);
    c->old = NULL;
}

/* Planted bug: the last connection is not over with this one. */
static int take_old(struct sim *w, struct sim_chan *c)
{
    int changes = 0;

    while (c->old->head < c->old->tail)
        changes += take_head(w, c->old);
    old_free(c);
    return changes;
}

/* Planted bug: what is left of a connection stays, but for what somebody waits for. */
static void leave_old(struct sim *w, struct sim_chan *c)
{
    for (uint64_t i = c->head; i < c->tail; i++) {
        struct sim_item *it = sim_item_at(c, i);
        sim_stream_dropped(w, it);
        if (it->kind == SIM_ASK || it->kind == SIM_REPLY)
            it->about = SIM_NONE;
    }
}

static int take(struct sim *w, struct sim_chan *c)
{
    bool over = !sim_link_up(w, c->from, c->to) && w->now_ns >= back_of(w, c)->down_ns;
    enum sim_flaw flaw = w->opt.links.flaw;
    uint64_t end = c->received;
    int changes = 0;

    if (over && (flaw == SIM_OLD_LANDS || rng_below(&w->draws, 2)))
        end = c->head; /* else the end comes behind all that was received */
    else if (!over && rng_below(&w->draws, TAKEN_IN_PART_OF) == 0)
        end = c->head + rng_below(&w->draws, end - c->head + 1);
    if (flaw == SIM_DONE_EARLY)
        answer_received(w, c);
    while (c->head < end)
        changes += take_head(w, c);
    if (over && flaw == SIM_OLD_LANDS)
        leave_old(w, c);
    else if (over)
        sim_chan_drop(w, c, c->head);
    if (c->head < c->received) { /* who waits for events is not to forget it */
        look_at(w, c, w->now_ns + w->opt.delay_ns_min);
        if (w->on_touch)
            w->on_touch(w->on_touch_ctx, c->to);
    }
    if (c->old && c->head > 0)
        changes += take_old(w, c);
    return changes;
}

int sim_stream_poll(struct sim *w, uint32_t node)
{
    uint32_t nodes = w->opt.nodes_max, first = (uint32_t)rng_below(&w->draws, nodes);
    int changes = 0;

    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t from = (first + i) % nodes;
        if (from != node && sim_chan_at(w, from, node)->head < sim_chan_at(w, from, node)->tail)
            changes += take(w, sim_chan_at(w, from, node));
    }
    sim_stream_flush(w, node);
    return changes;
}

/* ---- connections ---- */

void sim_stream_broken(struct sim *w, struct sim_chan *c)
{
    for (uint64_t i = c->head; i < c->tail; i++) {
        struct sim_item *it = sim_item_at(c, i);
        if (it->kind == SIM_ASK && it->about != SIM_NONE)
            it->about = sim_op_detach(w, it->about);
    }
    sim_chan_drop(w, c, c->sent);
    if (rng_below(&w->draws, 2))
        sim_chan_drop(w, c, c->received + rng_below(&w->draws, c->sent - c->received + 1));
}

void sim_stream_dropped(struct sim *w, const struct sim_item *it)
{
    if ((it->kind == SIM_ASK || it->kind == SIM_REPLY) && it->about != SIM_NONE)
        sim_op_lost(w, it->about);
}

/* Planted bug: puts what has not landed aside, for behind the next connection's first frames. */
static void keep_old(struct sim *w, struct sim_chan *c)
{
    leave_old(w, c);
    c->old = sim_alloc(w, sizeof *c->old);
    *c->old = *c;
    c->old->old = NULL;
    c->items = NULL;
    c->words = NULL;
    c->items_size = c->words_size = 0;
    c->head = c->received = c->sent = c->tail = 0;
    c->words_head = c->words_tail = 0;
}

void sim_stream_connected(struct sim *w, struct sim_chan *c)
{
    if (c->old) {
        sim_chan_drop(w, c->old, c->old->head);
        old_free(c);
    }
    if (sim_is_stream(w, c) && w->opt.links.flaw == SIM_OLD_LANDS && c->head < c->tail)
        keep_old(w, c);
}
