/* A world of members that broadcast to each other, of whom some lie, on simulated memory: one run for a seed. */
#ifndef TESTS_NEB_WORLD_H
#define TESTS_NEB_WORLD_H

#include "sim/hostile.h"

struct neb_shape {
    uint32_t members, memories; /* 0 memories: each member holds its own row */
    uint32_t window;
    bool links; /* memories are reached over connections */
    enum hostile_strategy
        strategy; /* none: who lies runs no code, and writes cells that it makes up */
};

struct neb_figures {
    uint64_t delivered, lapped, convicted, cells; /* the last: that liars wrote */
};

/* NULL, or which property was violated. */
const char *neb_world_run(const struct neb_shape *, uint64_t seed, struct neb_figures *);

/* A reader meets a cell that is half of a later one: it must not take it for none if its owner has gone on, and must not wait if
 * there is no sign of that. */
const char *neb_world_torn(bool gone_on);

/* The sender writes another message over the one that the first reader has delivered, before the second one looks. */
const char *neb_world_rewritten(void);

/* One reader has gone a lap further, and so used the cell again that would show the other one what it delivered. */
const char *neb_world_lapped(void);

#endif
