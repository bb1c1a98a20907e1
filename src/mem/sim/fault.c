/* Lives and deaths, pauses, cuts and lies: what the harness does to the world. */
#include "mem/sim/world.h"

enum fault_mark {
    MARK_START = 1,
    MARK_CRASH,
    MARK_PAUSE,
    MARK_CUT,
    MARK_LIE,
    MARK_CALM,
    MARK_SLOW,
    MARK_ROUGH,
    MARK_PACE,
    MARK_BREAK,
    MARK_FORGET
};

static void mix_fault(struct sim *w, enum fault_mark mark, uint32_t a, uint32_t b, uint32_t what)
{
    sim_mix(w, w->now_ns);
    sim_mix(w, (uint64_t)mark << 56 ^ (uint64_t)a << 32 ^ b << 8 ^ what);
}

struct mem *sim_node_start(struct sim *w, uint32_t node)
{
    CHECK(node < w->opt.nodes_max);
    struct sim_node *n = &w->nodes[node];
    CHECK(!n->alive);

    mix_fault(w, MARK_START, node, 0, n->lives);
    /* What a past life has sent to one who judges goes with its connection. */
    for (uint32_t to = 0; to < w->opt.nodes_max; to++)
        if (!sim_is_stream(w, sim_chan_at(w, node, to)))
            sim_chan_settle(w, sim_chan_at(w, node, to));
    sim_ops_settle(w, node);
    n->mem.life = n->lives++;
    n->alive = n->reachable = true;
    n->paused = false;
    sim_lanes_begin(w, node);
    sim_chan_kick_all(w, node);
    for (uint32_t other = 0; other < w->opt.nodes_max; other++)
        sim_link_plan(w, node, other);
    return &n->mem;
}

/* The issuer's flows and ops are in memory that may be gone when this returns. */
static void forget_caller(struct sim *w, struct sim_node *n)
{
    while (n->flows != SIM_NONE)
        sim_flow_shut(w, n->flows);
    while (n->inbox != SIM_NONE) {
        uint32_t event = n->inbox;
        n->inbox = w->events[event].next;
        if (w->events[event].kind == SIM_EV_REPLY)
            sim_op_free(w, w->events[event].u.index);
        sim_event_free(w, event);
    }
    n->inbox_end = SIM_NONE;
    sim_ops_asker_died(w, n->mem.self);
}

static void lose_memory(struct sim *w, struct sim_node *n)
{
    uint32_t node = n->mem.self;

    n->reachable = false;
    n->memory++;
    for (uint32_t from = 0; from < w->opt.nodes_max; from++) {
        /* Every open flow to it, idle ones too: none may span two memories. */
        for (uint32_t i = w->nodes[from].flows; i != SIM_NONE; i = w->flows[i].next) {
            if (w->flows[i].region->owner != node)
                continue;
            w->flows[i].dropping = true;
            sim_flow_fail(w, i, MEM_LOST, w->now_ns + rng_below(&w->draws, w->opt.lost_after_ns));
        }
        struct sim_chan *c = sim_chan_at(w, from, node);
        sim_chan_drop(w, c, c->head);
    }
    for (struct sim_region *r = n->regions; r; r = r->next)
        sim_region_lose(w, r);
}

void sim_node_crash(struct sim *w, uint32_t node, bool keep_memory)
{
    CHECK(node < w->opt.nodes_max);
    struct sim_node *n = &w->nodes[node];
    CHECK(n->alive);

    mix_fault(w, MARK_CRASH, node, 0, keep_memory);
    n->alive = n->paused = false;
    sim_buffer_end(w, node);
    forget_caller(w, n);
    for (uint32_t i = 0; i < w->opt.nodes_max; i++) {
        if (!sim_is_stream(w, sim_chan_at(w, node, i)))
            sim_chan_stop(w, sim_chan_at(w, node, i));
        sim_link_break(w, node, i);
        w->dead_seen_ns[(size_t)i * w->opt.nodes_max + node] =
            w->now_ns + rng_range(&w->draws, SIM_DEATH_SEEN_NS_MIN, SIM_DEATH_SEEN_NS_MAX);
    }
    for (struct sim_region *r = n->regions; r; r = r->next)
        for (struct sim_lane *l = r->lanes; l; l = l->next) {
            l->opened_ns = UINT64_MAX;
            for (struct sim_handle *h = l->handles; h; h = h->next)
                if (h->node == node)
                    h->lane.ctl = NULL, h->lane.ring = NULL;
        }
    if (!keep_memory || w->opt.links.on)
        lose_memory(w, n);
}

void sim_node_forget(struct sim *w, uint32_t node)
{
    CHECK(node < w->opt.nodes_max);
    struct sim_node *n = &w->nodes[node];
    CHECK(n->alive && n->mem.life > 0);

    mix_fault(w, MARK_FORGET, node, 0, 0);
    lose_memory(w, n);
    n->reachable = true;
}

void sim_node_pause(struct sim *w, uint32_t node, bool paused)
{
    CHECK(node < w->opt.nodes_max);
    mix_fault(w, MARK_PAUSE, node, 0, paused);
    w->nodes[node].paused = paused && w->nodes[node].alive;
    if (!paused)
        w->nodes[node].ran_ns = w->now_ns;
    if (!paused && w->opt.links.on)
        sim_chan_kick_all(w, node);
}

bool sim_node_alive(const struct sim *w, uint32_t node)
{
    CHECK(node < w->opt.nodes_max);
    return w->nodes[node].alive;
}

void sim_cut(struct sim *w, uint32_t from, uint32_t to, bool cut)
{
    CHECK(from < w->opt.nodes_max && to < w->opt.nodes_max);
    struct sim_chan *c = sim_chan_at(w, from, to);

    mix_fault(w, MARK_CUT, from, to, cut);
    c->cut = cut;
    if (!cut)
        sim_chan_kick(w, c);
}

void sim_break(struct sim *w, uint32_t a, uint32_t b)
{
    CHECK(w->opt.links.on && a < w->opt.nodes_max && b < w->opt.nodes_max);
    mix_fault(w, MARK_BREAK, a, b, 0);
    sim_link_break(w, a, b);
}

void sim_oracle_lie(struct sim *w, uint32_t asker, uint32_t node, enum sim_lie lie)
{
    CHECK(asker < w->opt.nodes_max && node < w->opt.nodes_max);
    mix_fault(w, MARK_LIE, asker, node, lie);
    w->lies[(size_t)asker * w->opt.nodes_max + node] = (uint8_t)lie;
}

void sim_slow(struct sim *w, uint32_t from, uint32_t to, uint64_t extra_ns)
{
    CHECK(from < w->opt.nodes_max && to < w->opt.nodes_max);
    mix_fault(w, MARK_SLOW, from, to, 0);
    sim_mix(w, extra_ns);
    sim_chan_at(w, from, to)->extra_ns = extra_ns;
}

void sim_rough(struct sim *w)
{
    mix_fault(w, MARK_ROUGH, 0, 0, 0);
    w->calm = false;
}

void sim_pace(struct sim *w, uint64_t delay_ns_min, uint64_t delay_ns_max)
{
    CHECK(delay_ns_min <= delay_ns_max);
    mix_fault(w, MARK_PACE, 0, 0, 0);
    w->opt.delay_ns_min = delay_ns_min;
    w->opt.delay_ns_max = delay_ns_max;
    if (w->opt.delay_ns_spike < delay_ns_max)
        w->opt.delay_ns_spike = delay_ns_max;
}

void sim_calm(struct sim *w)
{
    mix_fault(w, MARK_CALM, 0, 0, 0);
    w->calm = true;
    for (uint32_t a = 0; a < w->opt.nodes_max; a++) {
        w->nodes[a].paused = false;
        w->nodes[a].ran_ns = w->now_ns;
        if (w->opt.links.on)
            sim_chan_kick_all(w, a);
        for (uint32_t b = 0; b < w->opt.nodes_max; b++) {
            w->lies[(size_t)a * w->opt.nodes_max + b] = SIM_TRUTH;
            sim_chan_at(w, a, b)->extra_ns = 0;
            if (sim_chan_at(w, a, b)->cut) {
                sim_chan_at(w, a, b)->cut = false;
                sim_chan_kick(w, sim_chan_at(w, a, b));
            }
        }
    }
}
