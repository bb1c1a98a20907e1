#include "sim/liar.h"

#include "agree/source.h"

#include <string.h>

enum { PAYLOAD_BYTES = 8 }; /* too short for a message: if it is taken, nothing comes of it */

int liar_open(struct liar *l, struct mem *m, const struct mcast_group *group, uint32_t groups,
              const struct mcast_sizes *z, uint32_t place, uint64_t seed, struct err *e)
{
    *l = (struct liar){.mem = m};
    rng_init(&l->rng, seed);
    for (uint32_t g = 0; g < groups; g++)
        for (uint32_t q = 0; q < group[g].replicas && l->ways < LIAR_WAYS_MAX; q++) {
            struct liar_way *w = &l->way[l->ways++];
            struct mem_lane_spec s = lane_spec(g, group[g].nodes[q], m->self, LANE_SOURCE, place);
            s.ctl_words = SOURCE_WORDS;
            s.ring_bytes = z->source_bytes;
            int rc = mem_lanes_open(m, &s, 1, &w->lane, e);
            if (rc != 0)
                return rc;
            w->node = group[g].nodes[q];
            w->region = g;
            mem_flow_open(m, &w->flow, w->node, w->region, 0);
        }
    return 0;
}

/* A life that is not its own: the next, the last of all, or any. */
static uint32_t false_life(struct liar *l)
{
    switch (rng_below(&l->rng, 3)) {
    case 0:
        return l->mem->life + 1;
    case 1:
        return STREAM_LIVES_MAX - 1;
    default:
        return (uint32_t)rng_u64(&l->rng);
    }
}

static uint64_t false_position(struct liar *l)
{
    switch (rng_below(&l->rng, 3)) {
    case 0: /* as if a life were in its upper bits */
        return ((uint64_t)(l->mem->life + 1 + rng_below(&l->rng, 3)) << 48) +
               8 * rng_below(&l->rng, 4);
    case 1:
        return stream_start() + 8 * rng_below(&l->rng, 1000);
    default:
        return rng_u64(&l->rng);
    }
}

void liar_step(struct liar *l)
{
    struct liar_way *w = &l->way[rng_below(&l->rng, l->ways)];
    if (w->flow.status != MEM_DONE) {
        mem_flow_open(l->mem, &w->flow, w->node, w->region, 0);
        return;
    }
    struct {
        struct frame head;
        unsigned char payload[PAYLOAD_BYTES];
    } f = {.head = {.pos = stream_start(), .bytes = PAYLOAD_BYTES, .life = l->mem->life}};
    uint64_t guard = stream_start() + frame_size(PAYLOAD_BYTES);
    switch (rng_below(&l->rng, 4)) {
    case 0: /* a frame of another life, in its place */
        f.head.life = false_life(l);
        break;
    case 1: /* a frame of another life in another place, which it says is there */
        f.head.life = false_life(l);
        f.head.pos = false_position(l) & ~UINT64_C(7);
        guard = f.head.pos + frame_size(PAYLOAD_BYTES);
        break;
    case 2: /* more than there is */
        guard = false_position(l);
        break;
    default: /* a length that cannot be */
        f.head.bytes = (uint32_t)rng_u64(&l->rng);
        guard += rng_below(&l->rng, 100);
        break;
    }
    mem_put(l->mem, &w->flow, w->lane, f.head.pos & ~UINT64_C(7), &f, sizeof(f));
    mem_set1(l->mem, &w->flow, w->lane, SOURCE_GUARD, guard);
}
