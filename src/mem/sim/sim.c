/* The world: its clock, its queue of events, its memory, and what the harness may ask of it. */
#include "mem/sim/sim.h"

#include "mem/sim/world.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEAP_FIRST = 256,
    EVENTS_FIRST = 256,
    FLOWS_FIRST = 64,
    OPS_FIRST = 32,
    LANES_FIRST = 256,
    BLOCK_BYTES = 64 * 1024,
};

void *sim_grow(void *array, uint32_t *size, size_t each, uint32_t first)
{
    uint32_t want = *size ? *size * 2 : first;
    void *grown = realloc(array, want * each);

    CHECK(grown && want > *size);
    *size = want;
    return grown;
}

void *sim_alloc(struct sim *w, size_t bytes)
{
    struct sim_block *b = w->blocks;

    bytes = (bytes + 15) & ~(size_t)15;
    if (!b || b->size - b->used < bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        b = malloc(sizeof *b + size);
        CHECK(b);
        *b = (struct sim_block){.next = w->blocks, .size = size};
        w->blocks = b;
    }
    void *at = b->bytes + b->used;
    b->used += bytes;
    return memset(at, 0, bytes);
}

static int check_options(const struct sim_options *o, struct err *e)
{
    if (o->nodes_max == 0 || o->nodes_max > SIM_NODES_LIMIT)
        return err_set(e, ERR_INVALID, "open a simulated memory: %u nodes, must be 1 to %d",
                       o->nodes_max, SIM_NODES_LIMIT);
    if (o->delay_ns_min > o->delay_ns_max)
        return err_set(e, ERR_INVALID, "open a simulated memory: delay_ns_min over delay_ns_max");
    if (o->lost_after_ns == 0)
        return err_set(e, ERR_INVALID, "open a simulated memory: lost_after_ns must not be 0");
    if (o->costs.on && (o->spike_per_million || o->tear_per_million))
        return err_set(e, ERR_INVALID, "open a simulated memory: spikes and tears have no costs");
    if (o->costs.on && o->links.on)
        return err_set(e, ERR_INVALID, "open a simulated memory: connections have no costs");
    if (o->shared && (o->links.on || o->owner_answers))
        return err_set(e, ERR_INVALID,
                       "open a simulated memory: what is shared needs neither connections nor its "
                       "owner");
    if (o->buffered && !o->shared)
        return err_set(e, ERR_INVALID,
                       "open a simulated memory: only stores into what is shared are buffered");
    if (o->links.judged && (!o->links.on || o->links.passive || o->links.frame_bytes % 8))
        return err_set(e, ERR_INVALID,
                       "open a simulated memory: judged by owners that run, over connections, in "
                       "frames of whole words");
    return 0;
}

struct sim *sim_open(const struct sim_options *o, struct err *e)
{
    if (check_options(o, e))
        return NULL;
    struct sim *w = calloc(1, sizeof *w);
    if (!w) {
        err_set(e, ERR_NOMEM, "open a simulated memory");
        return NULL;
    }
    w->opt = *o;
    w->opt.owner_answers |= o->links.on;
    if (w->opt.delay_ns_spike < w->opt.delay_ns_max)
        w->opt.delay_ns_spike = w->opt.delay_ns_max;
    rng_init(&w->draws, o->seed);
    rng_init(&w->rng, hash_mix(o->seed, 1));
    w->hash = hash_mix(0, o->seed);
    w->events_free = w->flows_free = w->ops_free = SIM_NONE;
    w->heap = sim_grow(NULL, &w->heap_size, sizeof *w->heap, HEAP_FIRST);
    w->events = sim_grow(NULL, &w->events_size, sizeof *w->events, EVENTS_FIRST);
    w->flows = sim_grow(NULL, &w->flows_size, sizeof *w->flows, FLOWS_FIRST);
    w->ops = sim_grow(NULL, &w->ops_size, sizeof *w->ops, OPS_FIRST);

    uint32_t n = o->nodes_max;
    w->nodes = sim_alloc(w, n * sizeof *w->nodes);
    w->chans = sim_alloc(w, (size_t)n * n * sizeof *w->chans);
    w->links = o->links.on ? sim_alloc(w, (size_t)n * n * sizeof *w->links) : NULL;
    w->dead_seen_ns = sim_alloc(w, (size_t)n * n * sizeof *w->dead_seen_ns);
    w->lies = sim_alloc(w, (size_t)n * n * sizeof *w->lies);
    for (uint32_t i = 0; i < n; i++) {
        struct sim_node *node = &w->nodes[i];
        node->world = w;
        node->mem = (struct mem){.ops = &sim_mem_ops,
                                 .self = i,
                                 .remote = w->opt.owner_answers,
                                 .shared = w->opt.shared};
        node->regions_end = &node->regions;
        node->flows = node->inbox = node->inbox_end = SIM_NONE;
        node->place = i;
        for (uint32_t k = 0; k < n; k++) {
            struct sim_chan *c = sim_chan_at(w, i, k);
            c->from = i;
            c->to = k;
            c->usable_ns = c->lanes_ns = UINT64_MAX;
        }
    }
    return w;
}

static void chan_free(struct sim_chan *c)
{
    free(c->items);
    free(c->words);
}

void sim_close(struct sim *w)
{
    if (!w)
        return;
    sim_lanes_free(w);
    for (size_t i = 0; i < (size_t)w->opt.nodes_max * w->opt.nodes_max; i++) {
        chan_free(&w->chans[i]);
        if (w->chans[i].old)
            chan_free(w->chans[i].old);
    }
    for (uint32_t i = 0; i < w->ops_len; i++)
        free(w->ops[i].buf);
    free(w->ops);
    free(w->flows);
    free(w->events);
    free(w->heap);
    free(w->lanes);
    while (w->blocks) {
        struct sim_block *next = w->blocks->next;
        free(w->blocks);
        w->blocks = next;
    }
    free(w);
}

uint32_t sim_event_new(struct sim *w, enum sim_event_kind kind)
{
    uint32_t i = w->events_free;

    if (i != SIM_NONE) {
        w->events_free = w->events[i].next;
    } else {
        if (w->events_len == w->events_size)
            w->events = sim_grow(w->events, &w->events_size, sizeof *w->events, EVENTS_FIRST);
        CHECK(w->events_len < 1u << SIM_SLOT_BITS);
        i = w->events_len++;
    }
    w->events[i].kind = kind;
    w->events[i].next = SIM_NONE;
    return i;
}

void sim_event_free(struct sim *w, uint32_t i)
{
    w->events[i].next = w->events_free;
    w->events_free = i;
}

static bool entry_before(struct sim_heap_entry a, struct sim_heap_entry b)
{
    return a.when_ns < b.when_ns || (a.when_ns == b.when_ns && a.key < b.key);
}

void sim_push(struct sim *w, uint64_t when_ns, uint32_t event)
{
    if (when_ns < w->now_ns)
        when_ns = w->now_ns;
    if (w->heap_len == w->heap_size)
        w->heap = sim_grow(w->heap, &w->heap_size, sizeof *w->heap, HEAP_FIRST);
    struct sim_heap_entry e = {when_ns, w->sequence++ << SIM_SLOT_BITS | event};
    uint32_t i = w->heap_len++;
    while (i > 0) {
        uint32_t parent = (i - 1) / 4;
        if (!entry_before(e, w->heap[parent]))
            break;
        w->heap[i] = w->heap[parent];
        i = parent;
    }
    w->heap[i] = e;
}

static struct sim_heap_entry heap_pop(struct sim *w)
{
    struct sim_heap_entry *h = w->heap;
    struct sim_heap_entry top = h[0], e = h[--w->heap_len];
    uint32_t len = w->heap_len, i = 0;

    for (;;) {
        uint32_t first = 4 * i + 1;
        if (first >= len)
            break;
        uint32_t last = first + 4 < len ? first + 4 : len;
        uint32_t least = first;
        for (uint32_t k = first + 1; k < last; k++)
            if (entry_before(h[k], h[least]))
                least = k;
        if (!entry_before(h[least], e))
            break;
        h[i] = h[least];
        i = least;
    }
    h[i] = e;
    return top;
}

bool sim_step(struct sim *w)
{
    if (w->heap_len == 0)
        return false;
    struct sim_heap_entry top = heap_pop(w);
    uint32_t event = (uint32_t)(top.key & ((1u << SIM_SLOT_BITS) - 1));
    struct sim_event ev = w->events[event];

    w->now_ns = top.when_ns;
    w->events_run++;
    sim_mix(w, top.when_ns << 4 | ev.kind);
    switch ((enum sim_event_kind)ev.kind) {
    case SIM_EV_USER:
        sim_event_free(w, event);
        ev.u.user.fn(ev.u.user.ctx, ev.u.user.arg);
        break;
    case SIM_EV_CHAN:
        sim_event_free(w, event);
        sim_chan_event(w, ev.u.index);
        break;
    case SIM_EV_CHAN_LOST:
        sim_event_free(w, event);
        sim_chan_lost_event(w, ev.u.index);
        break;
    case SIM_EV_OP:
        sim_event_free(w, event);
        sim_op_event(w, ev.u.index);
        break;
    case SIM_EV_LINK:
        sim_event_free(w, event);
        sim_link_event(w, ev.u.index);
        break;
    case SIM_EV_TOLD:
        sim_event_free(w, event);
        sim_told_event(w, ev.u.told.region, ev.u.told.node);
        break;
    case SIM_EV_REPORT: /* these two go on into an inbox */
        sim_report_event(w, event);
        break;
    case SIM_EV_REPLY:
        sim_op_reply_event(w, event);
        break;
    }
    return true;
}

uint64_t sim_next_ns(const struct sim *w)
{
    return w->heap_len ? w->heap[0].when_ns : UINT64_MAX;
}

void sim_pass(struct sim *w, uint64_t to_ns)
{
    CHECK(to_ns >= w->now_ns && to_ns <= sim_next_ns(w));
    w->now_ns = to_ns;
}

void sim_arrive(struct sim *w, uint32_t node, uint32_t event)
{
    struct sim_node *n = &w->nodes[node];

    w->events[event].next = SIM_NONE;
    if (n->inbox == SIM_NONE)
        n->inbox = event;
    else
        w->events[n->inbox_end].next = event;
    n->inbox_end = event;
    if (w->on_touch)
        w->on_touch(w->on_touch_ctx, node);
}

uint64_t sim_now(const struct sim *w)
{
    return w->now_ns;
}

void sim_at(struct sim *w, uint64_t when_ns, sim_event_fn *fn, void *ctx, uint64_t arg)
{
    uint32_t event = sim_event_new(w, SIM_EV_USER);

    w->events[event].u.user.fn = fn;
    w->events[event].u.user.ctx = ctx;
    w->events[event].u.user.arg = arg;
    sim_push(w, when_ns, event);
}

void sim_on_bell(struct sim *w, void (*fn)(void *ctx, uint32_t node), void *ctx)
{
    w->on_bell = fn;
    w->on_bell_ctx = ctx;
}

void sim_on_read(struct sim *w,
                 void (*fn)(void *ctx, uint32_t reader, const struct mem_lane_spec *, uint64_t at,
                            void *words, uint32_t bytes),
                 void *ctx)
{
    w->on_read = fn;
    w->on_read_ctx = ctx;
}

void sim_on_take(struct sim *w,
                 void (*fn)(void *ctx, const struct mem_lane_spec *, uint64_t pos, uint32_t bytes),
                 void *ctx)
{
    w->on_take = fn;
    w->on_take_ctx = ctx;
}

void sim_on_put(struct sim *w,
                void (*fn)(void *ctx, const struct mem_lane_spec *, uint64_t pos, const void *,
                           uint32_t bytes),
                void *ctx)
{
    w->on_put = fn;
    w->on_put_ctx = ctx;
}

void sim_on_touch(struct sim *w, void (*fn)(void *ctx, uint32_t node), void *ctx)
{
    w->on_touch = fn;
    w->on_touch_ctx = ctx;
}

void sim_on_landing(struct sim *w, void (*fn)(void *ctx, const struct sim_landing *), void *ctx)
{
    w->on_landing = fn;
    w->on_landing_ctx = ctx;
}

void sim_on_call(struct sim *w, void (*fn)(void *ctx, uint32_t node, const struct sim_call *),
                 void *ctx)
{
    w->on_call = fn;
    w->on_call_ctx = ctx;
}

struct rng *sim_rng(struct sim *w)
{
    return &w->rng;
}

void sim_note(struct sim *w, uint64_t word)
{
    sim_mix(w, word);
}

uint64_t sim_hash(const struct sim *w)
{
    return w->hash;
}

uint64_t sim_events(const struct sim *w)
{
    return w->events_run;
}
