/* A block before another one, that breaks at a chosen moment: the order that fails is counted, also in the middle of opening, and a
 * part of a file cannot be read. */
#ifndef TESTS_DISK_BREAK_H
#define TESTS_DISK_BREAK_H

#include "disk/block_sim.h"

#include <string.h>

struct disk_break {
    struct block block;
    struct block *inner;
    struct disk_sim *sim;
    uint32_t fail_in;     /* the so-manieth order fails; 0: none does */
    const char *bad_name; /* of this file */
    uint64_t bad_at;      /* what is read over this position fails */
};

static inline struct disk_break *break_of(struct block *b)
{
    return (struct disk_break *)(void *)b;
}

static inline void break_begin(struct block *b, enum block_lane lane,
                               const struct block_step *steps, uint32_t count)
{
    struct disk_break *k = break_of(b);

    if (k->fail_in > 0 && --k->fail_in == 0)
        disk_sim_fail(k->sim);
    block_begin(k->inner, lane, steps, count);
}

static inline enum block_status break_poll(struct block *b, enum block_lane lane)
{
    return block_poll(break_of(b)->inner, lane);
}

static inline int break_list(struct block *b,
                             void (*fn)(void *ctx, const char *name, uint64_t bytes), void *ctx,
                             struct err *e)
{
    return block_list(break_of(b)->inner, fn, ctx, e);
}

static inline int break_read(struct block *b, const char *name, uint64_t at, void *into,
                             uint64_t bytes, struct err *e)
{
    const struct disk_break *k = break_of(b);

    if (k->bad_name && strcmp(name, k->bad_name) == 0 && k->bad_at >= at &&
        k->bad_at < at + bytes) {
        memset(into, 0x55, bytes);
        return err_set(e, ERR_CORRUPT, "read %s: bad block", name);
    }
    return block_read(k->inner, name, at, into, bytes, e);
}

static inline const char *break_failure(struct block *b)
{
    return block_failure(break_of(b)->inner);
}

static inline void break_wait(struct block *b, enum block_lane lane)
{
    struct block *inner = break_of(b)->inner;

    inner->ops->wait(inner, lane);
}

static inline void break_close(struct block *b)
{
    block_close(break_of(b)->inner);
}

static inline struct block *break_block(struct disk_break *k, struct disk_sim *sim,
                                        struct block *inner)
{
    static const struct block_ops ops = {.begin = break_begin,
                                         .poll = break_poll,
                                         .list = break_list,
                                         .read = break_read,
                                         .failure = break_failure,
                                         .wait = break_wait,
                                         .close = break_close};

    k->block.ops = &ops;
    k->inner = inner;
    k->sim = sim;
    return &k->block;
}

#endif
