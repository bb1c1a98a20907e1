/* Writes on their way, and the news that comes back.
 *
 * A channel is a queue of writes; only its head has an event. The head waits while the way is cut
 * or the owner has no memory to write to, and everything behind it waits too, which is the
 * order that mem.h promises. Once a write of a failed flow has been dropped all later ones of that
 * flow are: a guard never lands without the data before it in its own flow. */
#include "base/minmax.h"
#include "mem/sim/world.h"
#include "mem/wrap.h"

#include <stdlib.h>
#include <string.h>

enum { ITEMS_FIRST = 32, WORDS_FIRST = 512, FLOWS_FIRST = 64 };

static void make_item_room(struct sim_chan *c)
{
    if (c->tail - c->head < c->items_size)
        return;
    uint32_t old_size = c->items_size;
    struct sim_item *old = c->items;
    c->items = sim_grow(NULL, &c->items_size, sizeof *c->items, ITEMS_FIRST);
    for (uint64_t i = c->head; i < c->tail; i++)
        *sim_item_at(c, i) = old[i & (old_size - 1)];
    free(old);
}

static void make_word_room(struct sim_chan *c, uint32_t words)
{
    if (c->words_tail - c->words_head + words <= c->words_size)
        return;
    uint32_t old_size = c->words_size;
    uint64_t *old = c->words;
    do
        c->words_size = c->words_size ? c->words_size * 2 : WORDS_FIRST;
    while (c->words_tail - c->words_head + words > c->words_size);
    c->words = malloc(c->words_size * sizeof *c->words);
    CHECK(c->words);
    for (uint64_t i = c->words_head; i < c->words_tail; i++)
        c->words[i & (c->words_size - 1)] = old[i & (old_size - 1)];
    free(old);
}

/* How many of its words the channel has. */
static uint32_t words_taken(const struct sim_item *it)
{
    return it->kept ? 0 : it->words;
}

/* Copies the words in, unless they are kept, and hashes them on the way. */
static uint64_t take_words(struct sim_chan *c, const struct sim_item *it, const void *data)
{
    const unsigned char *from = data;
    uint64_t hash = 0;

    make_word_room(c, words_taken(it));
    for (uint32_t i = 0; i < it->words; i++) {
        uint64_t word;
        memcpy(&word, from + 8 * (size_t)i, 8);
        if (!it->kept)
            c->words[(c->words_tail + i) & (c->words_size - 1)] = word;
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    c->words_tail += words_taken(it);
    return hash;
}

static void chan_schedule(struct sim *w, struct sim_chan *c)
{
    if (c->event || c->head == c->tail)
        return;
    uint32_t event = sim_event_new(w, SIM_EV_CHAN);
    w->events[event].u.index = (uint32_t)(c - w->chans);
    sim_push(w, sim_item_at(c, c->head)->ready_ns, event);
    c->event = true;
}

/* Where the owner's process takes what comes: who is paused takes nothing more before he runs; but however short that was, what he had by then he
 * has taken. */
static bool awaits_run(const struct sim *w, const struct sim_node *owner, const struct sim_item *it)
{
    return w->opt.links.on && !w->opt.links.passive && owner->paused &&
           it->ready_ns > owner->ran_ns;
}

static bool item_passes(struct sim *w, struct sim_chan *c, const struct sim_item *it)
{
    const struct sim_node *owner = &w->nodes[c->to];

    if (c->cut)
        return false;
    if (it->kind == SIM_BELL)
        return true;
    if (awaits_run(w, owner, it))
        return false;
    return owner->reachable && (owner->alive || !w->opt.owner_answers) && it->lane->region->born;
}

static void head_land(struct sim *, struct sim_chan *);

void sim_chan_append(struct sim *w, struct sim_chan *c, const struct sim_item *item,
                     const void *data)
{
    make_item_room(c);
    struct sim_item *it = sim_item_at(c, c->tail);
    *it = *item;
    it->data = c->words_tail;
    uint64_t hash = take_words(c, it, data);
    sim_mix(w, hash ^ it->ready_ns);
    sim_mix(w, it->at << 32 ^ (uint64_t)it->words << 20 ^ c->from << 12 ^ c->to << 4 ^ it->kind);
    if (it->flow != SIM_NONE) {
        w->flows[it->flow].last = c->tail;
        w->flows[it->flow].in_flight++;
    }
    c->tail++;
}

void sim_chan_issue(struct sim *w, struct sim_chan *c, const struct sim_write *wr)
{
    struct sim_flow *f = wr->flow == SIM_NONE ? NULL : &w->flows[wr->flow];

    sim_buffer_write(w, c->from);
    if (f ? f->dropping || f->broken : !sim_link_up(w, c->from, c->to))
        return; /* its issuer has not heard yet */
    if (sim_is_stream(w, c)) {
        sim_stream_issue(w, c, wr);
        return;
    }
    struct sim_item it = {
        .issued_ns = w->now_ns,
        .ready_ns =
            sim_sent_ns(w, c->from, c->to, wr->kind == SIM_BELL ? 0 : 8 * (uint64_t)wr->words),
        .at = wr->at,
        .kept = wr->kept ? wr->data : NULL,
        .lane = wr->lane,
        .flow = wr->flow,
        .words = wr->words,
        .kind = (uint8_t)wr->kind,
        .pieces = 1,
        .permitted = f && sim_promise_held(w, f),
    };
    if (rng_chance_ppm(&w->draws, w->opt.tear_per_million) && wr->words > 1) {
        uint64_t most = wr->words < SIM_PIECES_MAX ? wr->words : SIM_PIECES_MAX;
        it.pieces = (uint8_t)rng_range(&w->draws, 2, most);
        it.tear = rng_u64(&w->draws);
    }
    sim_chan_append(w, c, &it, wr->data);
    if (c->tail - c->head == 1 && sim_near(w, c->from, c->to) && item_passes(w, c, &it))
        head_land(w, c);
    else
        chan_schedule(w, c);
}

/* Which piece a word falls into: a prefix or a suffix first, or words or cache lines at random. */
static uint32_t piece_of(uint64_t tear, uint32_t pieces, uint32_t word, uint32_t words)
{
    uint32_t even = (uint32_t)((uint64_t)word * pieces / words);
    /* Uneven cuts come from bending the position by a drawn power. */
    uint32_t bent = (uint32_t)((uint64_t)word * word * pieces / ((uint64_t)words * words));

    switch (tear & 7) {
    case 0:
        return even;
    case 1:
        return bent;
    case 2:
        return pieces - 1 - even;
    case 3:
        return pieces - 1 - bent;
    case 4:
        return (uint32_t)(hash_mix(tear, word / 8) % pieces);
    default:
        return (uint32_t)(hash_mix(tear, word) % pieces);
    }
}

static void store_word(const struct sim_item *it, uint32_t i, uint64_t word)
{
    if (it->kind == SIM_SET)
        atomic_store_explicit(&it->lane->own.ctl[it->at + i], word, memory_order_relaxed);
    else
        memcpy(it->lane->own.ring +
                   ((it->at + 8 * (uint64_t)i) & (it->lane->own.spec.ring_bytes - 1)),
               &word, 8);
}

static uint64_t word_of(const struct sim_chan *c, const struct sim_item *it, uint32_t i)
{
    uint64_t word;

    if (!it->kept)
        return c->words[(it->data + i) & (c->words_size - 1)];
    memcpy(&word, it->kept + 8 * (size_t)i, 8);
    return word;
}

void sim_item_store(const struct sim_chan *c, const struct sim_item *it)
{
    uint64_t mask = c->words_size - 1, first = it->data & mask;

    if (!it->kept && it->pieces == 1 && it->kind == SIM_PUT && first + it->words <= c->words_size &&
        8 * (uint64_t)it->words <= ring_straight(it->lane->own.spec.ring_bytes, it->at)) {
        memcpy(it->lane->own.ring + it->at, c->words + first, 8 * (size_t)it->words);
        return;
    }
    for (uint32_t i = 0; i < it->words; i++)
        if (it->pieces == 1 || piece_of(it->tear, it->pieces, i, it->words) == it->piece)
            store_word(it, i, word_of(c, it, i));
}

static void flow_unref(struct sim *w, uint32_t flow)
{
    struct sim_flow *f = &w->flows[flow];

    if (f->user || f->in_flight)
        return;
    f->generation++;
    f->next = w->flows_free;
    w->flows_free = flow;
}

void sim_chan_pop(struct sim *w, struct sim_chan *c)
{
    struct sim_item *it = sim_item_at(c, c->head);
    uint32_t flow = it->flow;

    c->words_head += words_taken(it);
    c->head++;
    if (flow != SIM_NONE) {
        w->flows[flow].in_flight--;
        flow_unref(w, flow);
    }
}

static void report(struct sim *w, uint32_t flow, enum mem_status status, uint64_t tag,
                   uint64_t when_ns)
{
    struct sim_flow *f = &w->flows[flow];
    uint32_t event = sim_event_new(w, SIM_EV_REPORT);

    if (status == MEM_DONE) {
        if (when_ns < f->reported_ns)
            when_ns = f->reported_ns;
        f->reported_ns = when_ns;
    }
    w->events[event].u.report.flow = flow;
    w->events[event].u.report.generation = f->generation;
    w->events[event].u.report.tag = tag;
    w->events[event].u.report.status = status;
    w->events[event].u.report.give_up = w->now_ns + w->opt.lost_after_ns;
    if (when_ns > w->now_ns || !sim_near(w, f->issuer, f->region->owner))
        sim_push(w, when_ns, event);
    else
        sim_report_event(w, event); /* its next poll is to see it, be it in this very instant */
}

void sim_flow_fail(struct sim *w, uint32_t flow, enum mem_status status, uint64_t when_ns)
{
    if (w->flows[flow].failed != MEM_DONE)
        return;
    w->flows[flow].failed = status;
    sim_mix(w, (uint64_t)flow << 8 | status);
    if (w->flows[flow].user)
        report(w, flow, status, 0, when_ns);
}

/* Judges the head of the channel as one more piece of it lands. False if it lands no further. */
static bool head_judge(struct sim *w, struct sim_chan *c, struct sim_item *it)
{
    struct sim_flow *f = &w->flows[it->flow];

    if (f->dropping)
        return false;
    if (w->opt.check_at_issue ? it->permitted : sim_promise_held(w, f))
        return true;
    it->denied = true;
    if (f->failed != MEM_DONE)
        return true;
    sim_flow_fail(w, it->flow, MEM_DENIED, sim_heard_ns(w, c->to, c->from));
    f = &w->flows[it->flow];
    /* A revoked writer's bytes may still land, or stop in the middle. */
    switch (rng_below(&w->draws, 4)) {
    case 0:
        f->dropping = true;
        return false;
    case 1:
        f->dropping = true;
        if (it->pieces == 1 && it->words > 1) {
            it->pieces = 2;
            it->tear = rng_u64(&w->draws);
        }
        it->stop = it->piece + 1;
        return true;
    default:
        return true;
    }
}

static void head_landed(struct sim *w, struct sim_chan *c, const struct sim_item *it)
{
    struct sim_flow *f = &w->flows[it->flow];
    bool counted = f->failed == MEM_DONE && !it->denied;

    if (counted && it->marked && f->user) {
        uint64_t heard_ns = sim_heard_ns(w, c->to, c->from);
        if (w->opt.links.on && rng_chance_ppm(&w->draws, w->opt.links.late_per_million) && !w->calm)
            heard_ns += rng_below(&w->draws, w->opt.links.late_ns_max + 1);
        report(w, it->flow, MEM_DONE, it->tag, heard_ns);
    }
    sim_item_landed(w, it, counted);
}

void sim_item_landed(struct sim *w, const struct sim_item *it, bool counted)
{
    const struct sim_flow *f = &w->flows[it->flow];

    sim_mix(w, (uint64_t)it->flow << 1 | counted);
    if (w->on_landing && f->ballot) {
        struct sim_landing l = {
            .lane = &it->lane->own,
            .ballot = f->ballot,
            .counted = counted,
            .ring = it->kind == SIM_PUT,
            .at = it->at,
            .bytes = it->words * 8,
        };
        w->on_landing(w->on_landing_ctx, &l);
    }
}

/* Lands the next piece of the head, the last one perhaps. */
static void head_land(struct sim *w, struct sim_chan *c)
{
    struct sim_item *it = sim_item_at(c, c->head);

    if (it->kind == SIM_BELL) {
        sim_chan_pop(w, c);
        if (w->on_bell && w->nodes[c->to].alive)
            w->on_bell(w->on_bell_ctx, c->to);
        return;
    }
    if (!head_judge(w, c, it)) {
        sim_chan_pop(w, c);
        return;
    }
    sim_item_store(c, it);
    it->piece++;
    if (it->piece == it->pieces) {
        head_landed(w, c, it);
        sim_chan_pop(w, c);
    } else if (it->piece == it->stop) {
        sim_chan_pop(w, c);
    } else if (!w->nodes[c->to].paused || w->opt.links.passive || !w->opt.links.on) {
        it->ready_ns = 1 + sim_sent_ns(w, c->from, c->to, 0);
    }
    if (w->on_touch)
        w->on_touch(w->on_touch_ctx, c->to);
}

/* The head has reached its owner, and goes through that end of the link once it is free. */
static void head_receive(struct sim *w, struct sim_chan *c)
{
    struct sim_item *it = sim_item_at(c, c->head);

    if (it->received || it->ready_ns > w->now_ns || it->kind == SIM_BELL)
        return;
    it->received = true;
    if (!sim_near(w, c->from, c->to))
        it->ready_ns = sim_received_ns(w, c->to, 8 * (uint64_t)it->words);
}

/* The head will never land: its flow stopped landing, or it is a bell that nobody waits for. */
static bool head_is_void(struct sim *w, struct sim_chan *c)
{
    const struct sim_item *it = sim_item_at(c, c->head);

    if (it->kind == SIM_BELL)
        return c->cut && it->issued_ns + w->opt.lost_after_ns <= w->now_ns;
    return w->flows[it->flow].dropping;
}

/* The head cannot land now. Sees to it that whoever waits for too long is told. */
static void chan_wait(struct sim *w, struct sim_chan *c)
{
    if (c->lost_event)
        return;
    for (uint64_t i = c->head; i < c->tail; i++) {
        const struct sim_item *it = sim_item_at(c, i);
        bool heard = it->kind == SIM_BELL ? i > c->head : w->flows[it->flow].failed != MEM_DONE;
        if (heard)
            continue;
        uint32_t event = sim_event_new(w, SIM_EV_CHAN_LOST);
        w->events[event].u.index = (uint32_t)(c - w->chans);
        sim_push(w, it->issued_ns + w->opt.lost_after_ns, event);
        c->lost_event = true;
        return;
    }
}

void sim_chan_kick(struct sim *w, struct sim_chan *c)
{
    if (sim_is_stream(w, c)) {
        sim_stream_kick(w, c);
        return;
    }
    if (c->event)
        return;
    while (c->head < c->tail && head_is_void(w, c))
        sim_chan_pop(w, c);
    if (c->head == c->tail)
        return;
    if (item_passes(w, c, sim_item_at(c, c->head)))
        chan_schedule(w, c);
    else
        chan_wait(w, c);
}

void sim_chan_kick_all(struct sim *w, uint32_t to)
{
    for (uint32_t from = 0; from < w->opt.nodes_max; from++)
        sim_chan_kick(w, sim_chan_at(w, from, to));
}

void sim_chan_event(struct sim *w, uint32_t chan)
{
    struct sim_chan *c = &w->chans[chan];

    c->event = false;
    if (sim_is_stream(w, c)) {
        sim_stream_event(w, c);
        return;
    }
    if (c->head < c->tail && w->opt.costs.on)
        head_receive(w, c);
    /* The write this was queued for may be gone since, and a later one stand in its place. */
    if (c->head < c->tail && sim_item_at(c, c->head)->ready_ns <= w->now_ns &&
        !head_is_void(w, c) && item_passes(w, c, sim_item_at(c, c->head)))
        head_land(w, c);
    sim_chan_kick(w, c);
}

/* Fails the flows of all writes that have waited too long; returns the number of the first that
 * has not. */
static uint64_t fail_expired(struct sim *w, struct sim_chan *c, bool drop)
{
    uint64_t i = c->head;

    for (; i < c->tail; i++) {
        struct sim_item *it = sim_item_at(c, i);
        if (it->issued_ns + w->opt.lost_after_ns > w->now_ns)
            break;
        if (it->kind == SIM_BELL)
            continue;
        if (w->flows[it->flow].failed == MEM_DONE)
            sim_flow_fail(w, it->flow, MEM_LOST, w->now_ns + rng_below(&w->draws, 1000));
        w->flows[it->flow].dropping |= drop;
    }
    return i;
}

/* With links: silence breaks the connection, and with it all flows. What is left after that goes, too. */
static void break_expired(struct sim *w, struct sim_chan *c)
{
    if (!sim_link_up(w, c->from, c->to)) {
        sim_chan_drop(w, c, c->head);
        return;
    }
    for (uint64_t i = c->head; i < c->tail; i++) {
        const struct sim_item *it = sim_item_at(c, i);
        if (it->kind != SIM_BELL && w->flows[it->flow].failed == MEM_DONE &&
            it->issued_ns + w->opt.lost_after_ns <= w->now_ns) {
            sim_link_break(w, c->from, c->to);
            return;
        }
    }
}

void sim_chan_lost_event(struct sim *w, uint32_t chan)
{
    struct sim_chan *c = &w->chans[chan];
    const struct sim_node *owner = &w->nodes[c->to];

    c->lost_event = false;
    if (sim_is_stream(w, c)) {
        sim_stream_lost_event(w, c);
        return;
    }
    if (c->event)
        return; /* if the way is still stuck, that event will see */
    if (c->from == c->to && owner->paused)
        return; /* what it wrote into its own memory is there when it goes on */
    if (c->head < c->tail && w->opt.links.on && c->from != c->to) {
        if (!item_passes(w, c, sim_item_at(c, c->head)))
            break_expired(w, c);
    } else if (c->head < c->tail && !item_passes(w, c, sim_item_at(c, c->head))) {
        bool drop = rng_below(&w->draws, 2);
        if (c->cut) {
            fail_expired(w, c, drop); /* what is not dropped waits for a heal */
        } else if (owner->reachable && !owner->alive && !drop) {
            /* The memory of a dead owner that should have answered takes it in, unanswered. */
            uint64_t end = fail_expired(w, c, false);
            while (c->head < end) {
                const struct sim_item *it = sim_item_at(c, c->head);
                if (it->kind != SIM_BELL && !it->lane->region->born)
                    w->flows[it->flow].dropping = true;
                head_land(w, c);
            }
        } else {
            fail_expired(w, c, true); /* nothing is kept for an owner that may never come back */
        }
    }
    sim_chan_kick(w, c);
}

void sim_chan_drop(struct sim *w, struct sim_chan *c, uint64_t from)
{
    while (c->tail > from && c->tail > c->head) {
        struct sim_item *it = sim_item_at(c, --c->tail);
        c->words_tail -= words_taken(it);
        sim_stream_dropped(w, it);
        if (it->flow != SIM_NONE) {
            w->flows[it->flow].in_flight--;
            flow_unref(w, it->flow);
        }
    }
    c->sent = min_u64(c->sent, c->tail);
    c->received = min_u64(c->received, c->tail);
}

uint64_t sim_chan_waits_since(const struct sim_chan *c)
{
    return c->head < c->tail ? c->items[c->head & (c->items_size - 1)].issued_ns : UINT64_MAX;
}

void sim_chan_stop(struct sim *w, struct sim_chan *c)
{
    uint64_t left = c->tail - c->head;

    if (left == 0 || rng_below(&w->draws, 2))
        return; /* all of it is on the wire already */
    uint64_t lands = rng_below(&w->draws, left);
    sim_chan_drop(w, c, c->head + lands);
    if (lands == 0)
        return;
    struct sim_item *it = sim_item_at(c, c->tail - 1);
    if (it->words < 2 || it->piece || rng_below(&w->draws, 2))
        return;
    it->pieces = 2;
    it->tear = rng_u64(&w->draws);
    it->stop = 1;
}

void sim_chan_settle(struct sim *w, struct sim_chan *c)
{
    uint64_t lands = c->tail == c->head ? 0 : rng_below(&w->draws, c->tail - c->head + 1);

    for (uint64_t end = c->head + lands; c->head < end;) {
        if (!item_passes(w, c, sim_item_at(c, c->head)))
            break;
        head_land(w, c);
    }
    sim_chan_drop(w, c, c->head);
}

uint32_t sim_flow_new(struct sim *w, uint32_t issuer, struct sim_region *r, uint64_t ballot)
{
    uint32_t i = w->flows_free;
    uint32_t generation = 0;

    if (i != SIM_NONE) {
        w->flows_free = w->flows[i].next;
        generation = w->flows[i].generation;
    } else {
        if (w->flows_len == w->flows_size)
            w->flows = sim_grow(w->flows, &w->flows_size, sizeof *w->flows, FLOWS_FIRST);
        i = w->flows_len++;
    }
    uint32_t first = w->nodes[issuer].flows;
    w->flows[i] = (struct sim_flow){
        .issuer = issuer,
        .generation = generation,
        .ballot = ballot,
        .region = r,
        .next = first,
        .prev = SIM_NONE,
        .answer = UINT64_MAX,
    };
    if (first != SIM_NONE)
        w->flows[first].prev = i;
    w->nodes[issuer].flows = i;
    return i;
}

void sim_flow_shut(struct sim *w, uint32_t flow)
{
    struct sim_flow *f = &w->flows[flow];

    if (f->prev == SIM_NONE)
        w->nodes[f->issuer].flows = f->next;
    else
        w->flows[f->prev].next = f->next;
    if (f->next != SIM_NONE)
        w->flows[f->next].prev = f->prev;
    f->user = NULL;
    flow_unref(w, flow);
}

void sim_flow_mark(struct sim *w, uint32_t flow, uint64_t tag)
{
    struct sim_flow *f = &w->flows[flow];

    if (f->failed != MEM_DONE)
        return;
    struct sim_chan *c = sim_chan_at(w, f->issuer, f->region->owner);
    if (sim_is_stream(w, c)) {
        sim_stream_mark(w, c, flow, tag);
        return;
    }
    if (f->in_flight) {
        struct sim_item *it = sim_item_at(c, f->last);
        it->marked = true;
        it->tag = tag;
        return;
    }
    report(w, flow, MEM_DONE, tag, sim_marked_ns(w, c->from, c->to));
}

void sim_report_event(struct sim *w, uint32_t event)
{
    struct sim_event *ev = &w->events[event];
    struct sim_flow *f = &w->flows[ev->u.report.flow];

    if (f->generation != ev->u.report.generation || !f->user) {
        sim_event_free(w, event);
        return;
    }
    uint32_t issuer = f->issuer;
    if (ev->u.report.status == MEM_DONE && sim_chan_at(w, f->region->owner, issuer)->cut) {
        if (w->now_ns < ev->u.report.give_up) {
            sim_push(w, w->now_ns + 1 + w->opt.lost_after_ns / SIM_TRIES, event);
            return;
        }
        if (w->opt.links.on) {
            sim_event_free(w, event);
            sim_link_break(w, issuer, f->region->owner);
            return;
        }
        /* Unlike a flow whose writes are stuck, this one goes on landing, and is never done. */
        f->failed = ev->u.report.status = MEM_LOST;
    }
    /* The promised word is read back behind the writes (verbs), perhaps only now. */
    if (ev->u.report.status == MEM_DONE && w->opt.links.on && w->opt.links.passive &&
        f->failed == MEM_DONE && !sim_promise_held(w, f) && rng_below(&w->draws, 2))
        f->failed = ev->u.report.status = MEM_DENIED;
    sim_mix(w, ev->u.report.tag << 8 ^ issuer << 2 ^ ev->u.report.status);
    sim_arrive(w, issuer, event);
}

int sim_report_apply(struct sim *w, const struct sim_event *ev)
{
    struct sim_flow *f = &w->flows[ev->u.report.flow];

    if (f->generation != ev->u.report.generation || !f->user || f->user->status != MEM_DONE)
        return 0;
    if (ev->u.report.status != MEM_DONE) {
        f->user->status = ev->u.report.status;
        return 1;
    }
    if (ev->u.report.tag <= f->user->done)
        return 0;
    f->user->done = ev->u.report.tag;
    return 1;
}
