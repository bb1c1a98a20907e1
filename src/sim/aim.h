/* Faults aimed at the middle of a step: between two writes that belong together.
 *
 * A step of a protocol that makes several writes is safe only if it may end after any of them. Faults drawn over time
 * rarely fall in there. So this watches what hosts write, knows by which write each such step begins, and some time
 * after the k-th memory operation from there on, k drawn, strikes: the host is killed there and then, or stopped and later
 * continued at that very point, or cut off; the others are told that it is dead, and elect another. Where a candidacy is the
 * target, somebody else may lose its memory and come back while the candidate is stopped. Where hosts have disks, the power may
 * go there and then, of all or of some, and all but one are back at once; and a candidate may be cut off from who leads, while
 * a third hears both.
 *
 * All draws are from a stream of their own: a seed without this is what it was. */
#ifndef SIM_AIM_H
#define SIM_AIM_H

#include "base/rng.h"
#include "mem/sim/sim.h"

enum aim_step {
    AIM_RECOVER,  /* raise, read, verify: becoming leader */
    AIM_CONTINUE, /* START, GUARD, RUN of a run that is continued, and what is written behind it */
    AIM_RENEW,    /* RUN 0, the other words, RUN of one that is begun anew */
    AIM_WRITE,    /* entries, then guard and commit */
    AIM_COMMIT,   /* a commit that goes alone */
    AIM_OFFER,    /* the words of a snapshot's offer */
    AIM_SEND,     /* bytes of a snapshot, then its guard */
    AIM_TAKE,     /* the row of the replica that takes one */
    AIM_JOIN,     /* a replica that lost its memory promises again */
    AIM_PUBLISH,  /* of a member: messages, then END, then GUARD */
    AIM_BEGIN,    /* START, END and GUARD of a sender in a new view */
    AIM_REPORT,   /* the words of a report on a view, and its guard */
    AIM_TELL,     /* a keeper tells of a view */
    AIM_STATE,    /* a piece of a cell's state */
    AIM_STEPS,
};

enum { AIM_CALLS_MAX = 8 }; /* k is at most this; up to AIM_RECOVER_MAX in a candidacy */

struct aim_figures {
    uint64_t strikes[AIM_STEPS]; /* by what was aimed at, */
    uint64_t at[AIM_CALLS_MAX];  /* and by k - 1; the last one: that or more */
};

enum aim_verdict { AIM_NONE, AIM_STOP, AIM_KILL, AIM_POWER };

/* What it does with hosts; ctx is the fleet. */
struct chaos;

struct aim {
    bool on;
    bool
        even; /* messages are of one size, that of a start marker: entries of one leader begin where those of
                * another do, and what is stale looks right for longer */
    struct rng rng;
    struct chaos *chaos; /* the owner's to set, before anything is stepped */
    bool
        relay; /* now and then one is made to take over while the others stand still: leaders follow each other
                 * quickly, and what is decided is seldom told */
    uint64_t read_gap_ns_max; /* what is read word by word takes so long, at most */
    uint64_t ready_ns;        /* nothing is aimed at before */

    bool armed;
    enum aim_step step;
    uint32_t host;
    uint64_t life; /* of the host, as chaos counts: another one is another target */
    uint32_t k, left;

    /* What becomes of the host that is stepped; it stops at once. */
    enum aim_verdict verdict;
    bool keep_memory;
    uint64_t stop_ns; /* for so long; AIM_POWER: that it is down */
    uint64_t duel_ns; /* no candidate is cut off from a leader before */

    struct aim_figures figures;
};

/* Draws whether a run has any, unless that is given, and what else helps. */
enum aim_when { AIM_DRAWN, AIM_ALWAYS, AIM_NEVER };
void aim_draw(struct aim *, uint64_t seed, enum aim_when);

/* The run begins. */
void aim_begin(struct aim *);

/* A host has made a memory operation. True: there is a verdict for it. */
bool aim_called(struct aim *, uint32_t node, const struct sim_call *);

const char *aim_step_name(enum aim_step);

#endif
