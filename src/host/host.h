/* A host: the one thread that polls one node's memory and all its replicas.
 *
 * The protocols below never read a clock and never sleep; this is where that happens. A host spins
 * while there is work. After spin_ns without any it sleeps until a bell, the death of another host,
 * or the time at which one of its logs has something to do. Followers take no part in
 * commitment, and nobody rings for them: while their group is active they wake by themselves. */
#ifndef HOST_HOST_H
#define HOST_HOST_H

#include "agree/log.h"
#include "base/say.h"
#include "disk/disk.h"
#include "host/event.h"
#include "host/yield.h"
#include "mcast/dst.h"
#include "mem/mem.h"

enum host_wait {
    HOST_AUTO,  /* spin, then sleep */
    HOST_SPIN,  /* never sleep; lets other threads run now and then */
    HOST_SLEEP, /* sleep as soon as there is nothing to do */
};

struct host_options {
    struct mem *mem;   /* one that can sleep: shm or ofi */
    struct disk *disk; /* of durable clusters; NULL: there is none */
    enum host_wait wait;
    uint64_t spin_ns;   /* HOST_AUTO: how long to spin without work; 0: 50 us */
    uint64_t active_ns; /* how often to look while the group is active; 0: 1 ms */
    struct say say;     /* where log lines go */
};

enum {
    HOST_UNITS_MAX = 1024,
    HOST_FOLLOW_EVERY = 8, /* at most log_bytes / 2 of full batches go by meanwhile */
};

struct host {
    struct host_options opt;
    struct unit unit[HOST_UNITS_MAX];
    uint32_t units;
    uint16_t unit_of[DST_GROUPS_MAX]; /* by group, plus one; 0: not here */
    uint64_t round_ns;                /* time of the last round */
    uint64_t worked_ns;               /* when units had last something to do */
    uint64_t busy_ns;                 /* when that was, or something came for them */
    int came;                         /* news of the memory in the last round; heartbeats too */
    uint64_t here_ns;                 /* when the thread was last seen here: at a round, or awake */
    uint64_t away_ns;                 /* the longest that it was not since; who looks clears it */
    _Atomic bool woken;               /* host_wake was called since the last sleep */
    bool slept; /* in the last step, and it is not known that there is anything but heartbeats */
    uint64_t idle_rounds;
    struct yield yield;
    struct log_budget budget; /* for the options of its logs */
    uint32_t turn;            /* rounds so far */
    uint64_t sleeps;
    uint64_t said_ns; /* when it was last said of a client that it is not served */
};

void host_init(struct host *, const struct host_options *);

/* It is the host's to step; who made it closes it. */
void host_add(struct host *, struct unit);

/* One round of everything; returns work done. */
int host_round(struct host *, uint64_t now_ns);

/* As host_round, but for those who do not lead only in one of HOST_FOLLOW_EVERY calls: nobody waits for
 * a follower, and one that applies more at a time costs the leaders less. */
int host_turn(struct host *, uint64_t now_ns);

/* One round, and whatever waiting is due after it; returns work done. */
int host_step(struct host *);

/* Ends the waiting of host_step, now or the next time; any thread. */
void host_wake(struct host *);

/* One round; if there is nothing to do, the event's descriptor tells when there is. Returns work done. */
int host_poll(struct host *, struct event *);

#endif
