/* How long things take: drawn, or by what they cost.
 *
 * A place is one processor with one link. What its nodes issue while they are stepped takes its time,
 * one thing after the other, and leaves when that is over; it goes through the sender's end of the
 * link, takes the way, and goes through the receiver's end, in turn with all else that does. */
#include "base/minmax.h"
#include "mem/sim/world.h"

static uint64_t drawn(struct sim *w, uint32_t from, uint32_t to)
{
    const struct sim_options *o = &w->opt;
    bool spike = rng_chance_ppm(&w->draws, o->spike_per_million) && !w->calm;

    /* A node's own writes are quick, but not instant: nothing may lean on that. */
    if (from == to)
        return spike ? rng_below(&w->draws, o->delay_ns_max + 1)
                     : rng_below(&w->draws, o->delay_ns_min / 8 + 2);
    return sim_chan_at(w, from, to)->extra_ns +
           rng_range(&w->draws, o->delay_ns_min, spike ? o->delay_ns_spike : o->delay_ns_max);
}

static struct sim_node *place_of(struct sim *w, uint32_t node)
{
    return &w->nodes[w->nodes[node].place];
}

bool sim_near(const struct sim *w, uint32_t a, uint32_t b)
{
    return w->opt.costs.on && w->nodes[a].place == w->nodes[b].place;
}

void sim_place(struct sim *w, uint32_t node, uint32_t place)
{
    CHECK(node < w->opt.nodes_max && place < w->opt.nodes_max);
    w->nodes[node].place = place;
}

void sim_work(struct sim *w, uint32_t node, uint64_t ns)
{
    struct sim_node *p = place_of(w, node);

    p->busy_ns = max_u64(p->busy_ns, w->now_ns) + ns;
}

uint64_t sim_busy_ns(const struct sim *w, uint32_t node)
{
    return w->nodes[w->nodes[node].place].busy_ns;
}

/* Through the sender's end and along the way. */
static uint64_t linked(struct sim *w, uint32_t from, uint64_t leaves_ns, uint64_t bytes)
{
    struct sim_node *p = place_of(w, from);

    p->out_ps = max_u64(p->out_ps, 1000 * leaves_ns) + bytes * w->opt.costs.byte_ps;
    return (p->out_ps + 999) / 1000 + w->opt.delay_ns_min;
}

uint64_t sim_sent_ns(struct sim *w, uint32_t from, uint32_t to, uint64_t bytes)
{
    const struct sim_costs *c = &w->opt.costs;

    if (!c->on)
        return w->now_ns + drawn(w, from, to);
    if (sim_near(w, from, to)) {
        sim_work(w, from, c->store_ns + bytes * c->copy_ps / 1000);
        return w->now_ns;
    }
    sim_work(w, from, c->post_ns);
    return linked(w, from, sim_busy_ns(w, from), bytes);
}

uint64_t sim_received_ns(struct sim *w, uint32_t node, uint64_t bytes)
{
    struct sim_node *p = place_of(w, node);

    p->in_ps = max_u64(1000 * w->now_ns, p->in_ps + bytes * w->opt.costs.byte_ps);
    return (p->in_ps + 999) / 1000;
}

uint64_t sim_heard_ns(struct sim *w, uint32_t from, uint32_t to)
{
    if (!w->opt.costs.on)
        return w->now_ns + drawn(w, from, to);
    return w->now_ns + (sim_near(w, from, to) ? 0 : w->opt.costs.ack_ns);
}

uint64_t sim_marked_ns(struct sim *w, uint32_t from, uint32_t to)
{
    if (sim_near(w, from, to))
        return w->now_ns;
    if (w->opt.costs.on)
        return w->now_ns + w->opt.delay_ns_min + w->opt.costs.ack_ns;
    /* Two statements: C leaves the order of two draws within one expression open. */
    uint64_t there_ns = drawn(w, from, to);
    return w->now_ns + there_ns + drawn(w, to, from);
}

uint64_t sim_answered_ns(struct sim *w, uint32_t from, uint32_t to, uint64_t bytes)
{
    if (!w->opt.costs.on)
        return w->now_ns + drawn(w, from, to);
    return sim_near(w, from, to) ? w->now_ns : linked(w, from, w->now_ns, bytes);
}
