/* What a processor has stored and not yet written out (world: buffered): its node sees it, others do not. It becomes visible in the order
 * of the stores, as on TSO: here all at once, when the node fences, writes or asks anything by way of the memory, dies, or some time after
 * it polled. */
#include "mem/sim/world.h"

#include <string.h>

/* The copy of a common lane, which its writer has just opened. */
void sim_buffer_open(struct sim *w, struct sim_lane *copy)
{
    const struct mem_lane_spec *s = &copy->own.spec;

    if (!w->opt.buffered || copy->seen_ctl)
        return;
    copy->seen_ctl = sim_alloc(w, s->ctl_words * sizeof *copy->seen_ctl);
    copy->seen_ring = s->ring_bytes ? sim_alloc(w, s->ring_bytes) : NULL;
    copy->next_copy = w->nodes[s->writer].copies;
    w->nodes[s->writer].copies = copy;
    sim_buffer_write(w, s->writer);
}

static void write_lane(struct sim_lane *l)
{
    const struct mem_lane_spec *s = &l->own.spec;

    for (uint32_t i = 0; i < s->ctl_words; i++)
        atomic_store_explicit(&l->seen_ctl[i],
                              atomic_load_explicit(&l->own.ctl[i], memory_order_relaxed),
                              memory_order_relaxed);
    if (s->ring_bytes)
        memcpy(l->seen_ring, l->own.ring, s->ring_bytes);
}

void sim_buffer_write(struct sim *w, uint32_t node)
{
    for (struct sim_lane *l = w->nodes[node].copies; l; l = l->next_copy)
        write_lane(l);
}

static void write_event(void *ctx, uint64_t node)
{
    struct sim *w = ctx;

    w->nodes[node].writes = false;
    sim_buffer_write(w, (uint32_t)node);
}

void sim_buffer_later(struct sim *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];

    if (!w->opt.buffered || n->writes)
        return;
    n->writes = true;
    sim_at(w, w->now_ns + rng_below(&w->draws, w->opt.buffered_ns_max + 1), write_event, w, node);
}

void sim_buffer_end(struct sim *w, uint32_t node)
{
    sim_buffer_write(w, node);
    w->nodes[node].copies = NULL;
}
