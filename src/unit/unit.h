/* A unit: whatever a host steps, as everybody above the protocols sees it. A replica of a log is one, and a replica of a
 * group that multicasts; who polls them, shows them or checks on them knows no more of them than this.
 *
 * A unit belongs to the thread that polls its node's memory. */
#ifndef UNIT_UNIT_H
#define UNIT_UNIT_H

#include "base/err.h"
#include "mem/mem.h"

enum { UNIT_REPLICAS_MAX = 9, UNIT_MEMORIES_MAX = 9 };

enum unit_role {
    UNIT_JOINING,   /* memory lost: promises nothing until the group has taken it back */
    UNIT_FOLLOWER,  /* applies what the leader commits */
    UNIT_CANDIDATE, /* raising promises and reading what others left */
    UNIT_SYNC,      /* has a quorum; rewriting what it found under its own ballot */
    UNIT_LEADER,    /* serves */
};

const char *unit_role_name(enum unit_role);

/* The last client that is not read any more, for having written what no client writes. */
struct unit_muted {
    uint64_t count; /* how often that was done, since the unit was opened */
    uint32_t source;
    uint32_t life;
    const char *why; /* what it had done, for people */
};

/* How long leaders waited until what they had written was decided, counted once a batch: below 1, 4, 16, ... microseconds, the last one
 * all that took longer. As rounds see it: what is decided in the round in which it was written took no time. */
enum { UNIT_WAITS = 11 };

/* Of this life. */
struct unit_counts {
    uint64_t messages; /* applied by the machine */
    uint64_t noops;    /* entries that the machine did not get */
    uint64_t terms;    /* times this replica began to serve as leader */
    uint64_t candidacies;
    uint64_t snapshots_sent;
    uint64_t snapshots_loaded;
    uint64_t saves;   /* times the machine was asked to freeze its state */
    uint64_t batches; /* writes of new entries by this leader, per replica one */
    uint64_t shed;    /* followers given up for being stuck */
    uint64_t waits[UNIT_WAITS];
};

/* What anyone may look at. */
struct unit_status {
    enum unit_role role;
    uint32_t leader;    /* the node that leads, as far as this replica knows; UINT32_MAX: nobody */
    uint64_t epoch;     /* own ballot while leading or trying to, else 0 */
    uint64_t promised;  /* of the own memory */
    uint64_t applied;   /* position up to which the machine has everything */
    uint64_t committed; /* leader: position up to which it is decided */
    uint64_t written;   /* leader: position up to which it is written */
    uint64_t delivered; /* messages in the machine's state, those of snapshots included */

    bool behind; /* waits for a snapshot */
    bool
        stands; /* on disk: a majority of disks does not have what the group had; waits for others */
    uint32_t
        joining; /* ranks that have neither memory nor disk of what they promised, as far as is known here */
    bool lacks; /* what its disk had is damaged or gone, and not yet replaced by what others have */
    uint64_t kept;         /* durable: position up to which its disk has what it accepted, */
    uint64_t unkept;       /* and bytes accepted beyond that */
    uint64_t kept_applied; /* durable: position up to which its disk knows that it has applied, */
    bool late;             /* and does not: a state that it took is on its way there */
    bool unfit;            /* durable: its disk keeps nothing now, so others' have to */
    bool lost; /* broken, since so many replicas lost their memory that the group is gone */
    const char *
        broken; /* NULL, or what it saw that no correct memory or peer can produce. It has stopped for good */

    uint32_t attached; /* leader: members that take its writes, own and memories included */
    /* leader: for how long a replica has not taken its writes, being stuck, out of reach or without a state, by rank;
     * 0: it does */
    uint64_t detached_ns[UNIT_REPLICAS_MAX];
    /* leader: the same of those that are only memory, by their order in the group */
    uint64_t memory_away_ns[UNIT_MEMORIES_MAX];
    /* Members that are not listened to since they have lied, by rank, and what each has done, for people: of groups of which some members
     * may. Shown: both things that it has signed are there, for all to check. */
    uint32_t convicted, shown;
    const char *convicted_why[UNIT_REPLICAS_MAX];
    uint32_t muted_now; /* leader: sources that are, until another process has their place */
    struct unit_muted muted;
    struct unit_counts count;
};

struct unit;

struct unit_ops {
    /* Takes what has come and writes out what follows from it. Returns work done. */
    int (*post)(struct unit *, uint64_t now_ns);

    /* After mem_poll: what was written is settled, applied, answered. Sets leads and broken. Returns work done. */
    int (*settle)(struct unit *, uint64_t now_ns);

    /* When post has to be called again though nothing happens. */
    uint64_t (*next_ns)(const struct unit *);

    void (*status)(const struct unit *, struct unit_status *);

    /* Opens what a client needs that has come, as mem_offer tells; NULL: it has no clients. */
    int (*offer)(struct unit *, const struct mem_lane_spec *, struct err *);

    /* Opens and closes what it needs from now on, or not any more, where a round must take no memory; NULL: that never changes. */
    void (*renew)(struct unit *);

    /* NULL, or which of the rules that hold inside it is broken. For the simulator, tests and debug builds, after every
     * post and settle; NULL: it has none to check. */
    const char *(*check)(const struct unit *);

    void (*close)(struct unit *);
};

struct unit {
    const struct unit_ops *ops;
    void *of;           /* NULL: none */
    const char *broken; /* as in its status, after the last settle */
    uint32_t region;    /* that a client names */
    bool leads;         /* leads, or is about to; after the last settle */
    bool renews;        /* renew is to be called; likewise */
    bool
        dozes; /* the host's: it sleeps unless this round finds something, so whatever is looked at now and then only is looked at now */
};

static inline int unit_post(struct unit *u, uint64_t now_ns)
{
    return u->ops->post(u, now_ns);
}

static inline int unit_settle(struct unit *u, uint64_t now_ns)
{
    int work = u->ops->settle(u, now_ns);
    if (u->renews) {
        u->ops->renew(u);
        work++;
    }
    return work;
}

static inline uint64_t unit_next_ns(const struct unit *u)
{
    return u->ops->next_ns(u);
}

static inline struct unit_status unit_status(const struct unit *u)
{
    struct unit_status s;
    u->ops->status(u, &s);
    return s;
}

static inline const char *unit_check(const struct unit *u)
{
    return u->ops->check ? u->ops->check(u) : NULL;
}

/* Afterwards there is none. */
static inline void unit_close(struct unit *u)
{
    u->ops->close(u);
    u->of = NULL;
}

#endif
