/* Who should lead: a guess that only has to be right in the end.
 *
 * The oracle of one replica watches the rows of the others: a counter that stands still for
 * suspect_ns is a hang, and the memory's word that a node is dead counts at once. The leader is
 * the owner of the promise, while it lives and says so; else the lowest rank that lives and is fit.
 * The next in rank waits stagger_ns longer, and everyone waits longer after each failed attempt,
 * by chance, so that duels end. Who said that it is in a call of its machine which may take long is given more time,
 * and twice as much after each time that this was not enough: if every replica takes that long, deposing one
 * for it gains nothing.
 *
 * Over a network (`remote`) some links may be cut and others not: who does not hear the leader asks whether the
 * others do. Each says in its row whom it backs, and nobody tries for a place whose holder a quorum
 * backs, or who hears no quorum. So a leader that can work is left to it, and who is cut off from
 * it alone waits for its link.
 *
 * Where members are only memory, ranks from `n` on are these. Such a one beats with each answer to what is read there, and
 * backs nobody; a quorum is one of those who vote. Two replicas that are cut off from each other see each other's rows in
 * memories that both reach. Nothing here affects safety. */
#ifndef AGREE_ORACLE_H
#define AGREE_ORACLE_H

#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>

enum { ORACLE_RANKS_MAX = 18 };

/* What is known of the place of the leader. */
enum oracle_seat {
    SEAT_TAKEN,     /* the owner of the promise lives and leads */
    SEAT_UNCLAIMED, /* it lives, and does not say that it leads: perhaps it is about to */
    SEAT_VACANT,    /* it is dead or silent, is this replica, or there was none */
};

struct oracle {
    uint32_t n, me, quorum;
    uint32_t all;    /* ranks, those of memories included */
    uint32_t voters; /* the first who votes; all from there on do */
    bool remote;     /* links may be cut one by one, and the memory of the dead does not answer */
    bool
        kept; /* logs are on disk: a new life may lead at once, and the memory of the dead keeps nothing */
    bool unmet; /* over a network: who was never heard of counts as dead until it was met */
    uint64_t began_ns;
    uint64_t suspect_ns, stagger_ns;
    struct rng rng;
    uint64_t beat[ORACLE_RANKS_MAX];    /* as last seen */
    uint64_t beat_ns[ORACLE_RANKS_MAX]; /* when it last changed */
    bool busy[ORACLE_RANKS_MAX];        /* it said then that it would be silent for a while */
    uint32_t outwaited;                 /* leaders that were given up while they were busy */
    uint64_t watched_ns;                /* when we last looked */
    enum oracle_seat seat;
    uint64_t vacant_ns; /* since when the seat is as it is; 0: it is taken */
    uint64_t wait_ns;   /* how long we hold back this time */
    uint32_t failures;  /* candidacies that failed since a leader was seen */
    bool held;          /* others back a leader, so we do not try */
    bool short_of;      /* too few answer, or we are not fit: likewise */
};

/* Instead of a ballot that a replica backs: it hears no quorum, and cannot lead. */
#define ORACLE_ALONE UINT64_MAX

/* What the oracle sees of one replica. */
struct oracle_view {
    uint64_t beat;   /* its counter */
    uint64_t ballot; /* under which it says it leads, or tries to */
    uint64_t backs; /* ballot of a leader that serves and that it hears or is; 0; or ORACLE_ALONE */
    bool dead;      /* known to be */
    bool fit;       /* has state and promises */
    bool busy;      /* said that it would give no sign of life for a while */
};

void oracle_init(struct oracle *, uint32_t n, uint32_t me, uint64_t suspect_ns, uint64_t stagger_ns,
                 uint64_t seed);

/* There are memories, too: ranks n to all - 1; ranks from `voters` on vote. Once, behind oracle_init. */
void oracle_memories(struct oracle *, uint32_t all, uint32_t voters);

/* Notes which counters have moved; called at least once per heartbeat in every state. */
void oracle_watch(struct oracle *, const struct oracle_view *, uint64_t now_ns);

/* This replica was kept from looking for so long since it last did: nobody is silent for that. */
void oracle_forgive(struct oracle *, uint64_t away_ns);

/* True if nothing was heard of the rank for suspect_ns, or ever. */
bool oracle_silent(const struct oracle *, uint32_t rank, uint64_t now_ns);

/* True if a quorum is heard, this replica included if it votes. */
bool oracle_in_touch(const struct oracle *, uint64_t now_ns);

/* Whom this replica backs, while it does not lead. */
uint64_t oracle_backs(const struct oracle *, const struct oracle_view *, uint64_t promised,
                      uint64_t now_ns);

/* True if this replica should try to lead now. promised is the promise of its own memory. */
bool oracle_says_run(struct oracle *, const struct oracle_view *, uint64_t promised,
                     uint64_t now_ns);

/* A candidacy or leadership of ours ended. */
void oracle_failed(struct oracle *);

/* When to ask again though nothing is heard. */
uint64_t oracle_next_ns(const struct oracle *);

#endif
