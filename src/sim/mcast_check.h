/* What must hold for atomic multicast, checked as a run goes and once more at its end.
 *
 * For each group the checker holds the one sequence of deliveries, as the first replica to make each
 * delivery made it; all other replicas are compared with it, in every life. At the end, when nothing
 * is outstanding, the order over all groups must be acyclic, which contains that no two groups
 * contradict each other on what both deliver. */
#ifndef SIM_MCAST_CHECK_H
#define SIM_MCAST_CHECK_H

#include "mcast/replica.h"
#include "mem/sim/sim.h"
#include "sim/counter_machine.h"
#include "sim/run.h"

enum {
    TREE_GROUPS_MAX = 8,
    TREE_CLIENTS_MAX = 4, /* places */
    TREE_LIVES_MAX = 4,   /* processes in one place, one after the other */
    MCAST_SENDERS_MAX = TREE_CLIENTS_MAX * TREE_LIVES_MAX,
    TREE_CASTS_MAX = 512, /* of one sender */
    TREE_NODES_MAX = 64,
};

/* Who cast a message: the process that had the place then. */
static inline uint32_t mcast_sender(uint32_t place, uint32_t life)
{
    return place * TREE_LIVES_MAX + life;
}

/* A message as it was cast. */
struct cast {
    uint8_t dst_mask; /* groups */
    uint32_t bytes;
    uint64_t hash;     /* of the body */
    uint8_t delivered; /* groups that have it in their sequence */
    bool done;         /* the client was told so */
};

struct mcast_check {
    struct run_result *result;
    uint64_t seed;
    struct cast cast[MCAST_SENDERS_MAX][TREE_CASTS_MAX];
    uint32_t casts[MCAST_SENDERS_MAX];
    struct {
        uint32_t *message; /* sender << 16 | seq, in order */
        uint64_t *hash;    /* of the state after it */
        uint32_t count, max;
        uint64_t counted[TREE_NODES_MAX]; /* highest ballot whose write was counted there */
    } group[TREE_GROUPS_MAX];
};

void mcast_check_init(struct mcast_check *, struct run_result *, uint64_t seed);
void mcast_check_fini(struct mcast_check *);

/* A body for a client's seq-th message; half of its words look like positions. */
void mcast_check_fill(uint64_t seed, uint32_t sender, uint64_t seq, unsigned char *out,
                      uint32_t bytes);

void mcast_check_cast(struct mcast_check *, uint32_t sender, uint64_t seq, uint8_t dst_mask,
                      const void *body, uint32_t bytes);

/* The reply to a message, of that many bytes; and whether this is it. */
void mcast_check_reply_fill(uint64_t seq, void *out, uint32_t bytes);
bool mcast_check_reply_is(uint64_t seq, const void *body, uint32_t bytes);

/* Has every message that reached one of its groups reached all of them, its client alive or not? */
bool mcast_check_even(const struct mcast_check *);

/* Integrity, agreement, order within the group, state equality. */
void mcast_check_deliver(struct mcast_check *, uint32_t host, struct counter_machine_state *,
                         const struct delivery *);

/* A state that came by snapshot is one of the group's. */
void mcast_check_loaded(struct mcast_check *, uint32_t host, uint16_t group,
                        const struct counter_machine_state *);

/* The client was told that all destinations have replied. */
void mcast_check_done(struct mcast_check *, uint32_t sender, uint64_t seq);

/* Fencing, to be asked for every write that lands: one that counts in the log of a group at a replica
 * never has a lower ballot than one that counted there before. */
void mcast_check_landing(struct mcast_check *, const struct sim_landing *);

/* Acyclic order over all groups. */
void mcast_check_order(struct mcast_check *);

void mcast_check_violated(struct mcast_check *, const char *property, uint64_t pos, const char *fmt,
                          ...) __attribute__((format(printf, 4, 5)));

#endif
