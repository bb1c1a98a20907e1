/* A member that lies by a plan: it runs no code of the log, but broadcasts, certifies and vouches for what serves its ends. It replays
 * itself as those who hear it do, so what it says is mostly what they take, and aims at those who have missed a part of it. */
#ifndef SIM_SCHEME_H
#define SIM_SCHEME_H

#include "agree/bft_wire.h"
#include "sim/hostile.h"
#include "sim/known.h"

struct scheme;

struct scheme_calls {
    /* Broadcasts. ERR_AGAIN: not now. */
    int (*say)(void *ctx, const void *body, uint32_t bytes, struct digest);
    /* Sends a frame to a member. */
    void (*talk)(void *ctx, uint32_t rank, const struct bft_frame *, const void *data,
                 uint32_t bytes);
    /* A batch of messages that were sent and are not decided; draws which. Returns its bytes, 0: there are none. */
    uint32_t (*batch)(void *ctx, struct rng *, void *out, uint32_t bytes_max);
    /* The same messages in two orders, as batches of the same length. 0: there are none. */
    uint32_t (*orders)(void *ctx, void *one, void *other);
    /* When that member has taken a frame with these bytes they become others, where it took them. */
    void (*swap)(void *ctx, uint32_t rank, const void *from, const void *to, uint32_t bytes);
    /* Holds a member up for so long. */
    void (*delay)(void *ctx, uint32_t rank, uint64_t ns);
};

struct scheme_options {
    struct bft_scope scope;
    struct known *known;
    uint64_t key_seed; /* as for sim_sign */
    enum hostile_strategy strategy;
    uint32_t rank, life;
    uint32_t window; /* of the broadcast */
    uint64_t seed;
    const struct scheme_calls *calls;
    void *ctx;
};

struct scheme *scheme_open(const struct scheme_options *);
void scheme_close(struct scheme *);

/* What it does in a round. */
void scheme_step(struct scheme *, uint64_t now_ns);

#endif
