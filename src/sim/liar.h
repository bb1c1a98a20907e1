/* A client that lies: it writes lives, positions and lengths into its own lanes that are none of its own, and then
 * dies. Nobody may be harmed, and the next process in its place is served. */
#ifndef SIM_LIAR_H
#define SIM_LIAR_H

#include "base/rng.h"
#include "mcast/mcast.h"

enum { LIAR_WAYS_MAX = 128 };

/* Its way into one ring. */
struct liar_way {
    struct mem_lane *lane;
    struct mem_flow flow;
    uint32_t node, region;
};

struct liar {
    struct mem *mem;
    struct rng rng;
    struct liar_way way[LIAR_WAYS_MAX];
    uint32_t ways;
};

/* The lanes of a client in that place, of which it lies in some. */
int liar_open(struct liar *, struct mem *, const struct mcast_group *, uint32_t groups,
              const struct mcast_sizes *, uint32_t place, uint64_t seed, struct err *);

/* One more lie somewhere. */
void liar_step(struct liar *);

#endif
