/* Who should lead: a guess that only has to be right in the end.
 *
 * The oracle of one replica watches the rows of the others: a counter that stands still for
 * suspect_ns is a hang, and the memory's word that a node is dead counts at once. The leader is
 * the owner of the promise, while it lives and says so; else the lowest rank that lives and is fit.
 * The next in rank waits stagger_ns longer, and everyone waits longer after each failed attempt,
 * by chance, so that duels end. Nothing here affects safety. */
#ifndef AGREE_ORACLE_H
#define AGREE_ORACLE_H

#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>

enum { ORACLE_RANKS_MAX = 9 };

/* What is known of the place of the leader. */
enum oracle_seat {
    SEAT_TAKEN,     /* the owner of the promise lives and leads */
    SEAT_UNCLAIMED, /* it lives, and does not say that it leads: perhaps it is about to */
    SEAT_VACANT,    /* it is dead or silent, is this replica, or there was none */
};

struct oracle {
    uint32_t n, me, quorum;
    uint64_t suspect_ns, stagger_ns;
    struct rng rng;
    uint64_t beat[ORACLE_RANKS_MAX];    /* as last seen */
    uint64_t beat_ns[ORACLE_RANKS_MAX]; /* when it last changed */
    enum oracle_seat seat;
    uint64_t vacant_ns; /* since when the seat is as it is; 0: it is taken */
    uint64_t wait_ns;   /* how long we hold back this time */
    uint32_t failures;  /* candidacies that failed since a leader was seen */
};

/* What the oracle sees of one replica. */
struct oracle_view {
    uint64_t beat;   /* its counter */
    uint64_t ballot; /* under which it says it leads */
    bool dead;       /* known to be */
    bool fit;        /* has state and promises */
};

void oracle_init(struct oracle *, uint32_t n, uint32_t me, uint64_t suspect_ns, uint64_t stagger_ns,
                 uint64_t seed);

/* Notes which counters have moved; called at least once per heartbeat in every state. */
void oracle_watch(struct oracle *, const struct oracle_view *, uint64_t now_ns);

/* True if nothing was heard of the rank for suspect_ns, or ever. */
bool oracle_silent(const struct oracle *, uint32_t rank, uint64_t now_ns);

/* True if this replica should try to lead now. promised is the promise of its own memory. */
bool oracle_says_run(struct oracle *, const struct oracle_view *, uint64_t promised,
                     uint64_t now_ns);

/* A candidacy or leadership of ours ended. */
void oracle_failed(struct oracle *);

/* When to ask again though nothing is heard. */
uint64_t oracle_next_ns(const struct oracle *);

#endif
