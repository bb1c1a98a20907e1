/* Who sends which block of a large message to whom, and when: pure functions of the number of members and blocks.
 *
 * A message of k blocks goes from rank 0 to ranks 1 .. n-1. A schedule has steps; in one, a member sends one block at most and takes one
 * at most, and what it sends it took in an earlier step. Every member takes every block once. Steps are an order, not a clock: members need
 * not keep step with each other, each does its own sends in this order as soon as the blocks are there.
 *
 *   sequential   all blocks to rank 1, then all to rank 2, ...                              (n-1) k steps
 *   chain        rank r sends on to r+1 what it took                                        n-2 + k
 *   tree         who has all blocks sends them to one who has none; a binomial tree         ceil(log2 n) k
 *   pipeline     blocks follow each other down binomial trees that share all members        ceil(log2 n) + k-1, and 1 more
 *                (Derecho sec. 3.2, "binomial pipeline")                                    if n is no power of two
 *   racks        a pipeline over one member of each rack, and one in each rack behind it, in turns */
#ifndef GROUP_SCHEDULE_H
#define GROUP_SCHEDULE_H

#include <stdint.h>

enum rdmc_schedule {
    RDMC_AUTO, /* not one of them: chain for three members, pipeline for more */
    RDMC_SEQUENTIAL,
    RDMC_CHAIN,
    RDMC_TREE,
    RDMC_PIPELINE,
    RDMC_RACKS,
};

enum { RDMC_MEMBERS_MAX = 64, RDMC_BLOCKS_MAX = 4096 };

#define RDMC_NONE UINT32_MAX

struct rdmc_plan {
    enum rdmc_schedule schedule;
    uint32_t members, blocks; /* n and k: 1 .. RDMC_MEMBERS_MAX, 1 .. RDMC_BLOCKS_MAX */
    const uint8_t *rack;      /* by rank: any number for its rack; RDMC_RACKS only */
};

/* RDMC_NONE in both of a pair: nothing. */
struct rdmc_move {
    uint32_t to, sends;   /* rank, block */
    uint32_t from, takes; /* rank, block */
};

/* How many steps it has; in later ones nobody does anything. */
uint64_t rdmc_steps(const struct rdmc_plan *);

/* What the rank does in the step. It takes time in proportion to the step for a pipeline of members that are no power of two. */
struct rdmc_move rdmc_next(const struct rdmc_plan *, uint32_t rank, uint64_t step);

#endif
