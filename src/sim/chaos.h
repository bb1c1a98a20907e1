/* The faults of a simulated run: what befalls whom and when, drawn from the run's seed.
 *
 * Hosts are nodes 0 .. hosts-1, clients the nodes after them. The run says what a host is made of,
 * through calls; chaos decides about crashes with and without memory, pauses, cuts, connections that
 * break, leaders whose writes reach nobody, lies of the oracle, and ambushes on those who just take over. */
#ifndef SIM_CHAOS_H
#define SIM_CHAOS_H

#include "base/rng.h"
#include "mem/sim/sim.h"

#include <stdio.h>

struct chaos_calls {
    /* May the host crash now, with or without its memory, and no more is lost than the groups are built to lose? */
    bool (*may_crash)(void *ctx, uint32_t host, bool keep_memory);
    void (*crash)(void *ctx, uint32_t host, bool keep_memory);
    void (*power_cut)(void *ctx, uint32_t host); /* up or not; of a durable fleet */
    /* Could the groups lose the host's disk now, or a part of it? */
    bool (*may_lose_disk)(void *ctx, uint32_t host);
    void (*lose_disk)(void *ctx, uint32_t host);
    /* Bits of so many sectors change, at most; returns of how many. The host is down. */
    uint32_t (*flip_disk)(void *ctx, uint32_t host, uint32_t sectors);
    void (*fail_disk)(void *ctx, uint32_t host, uint32_t orders);   /* the so-manieth write fails */
    void (*slow_disk)(void *ctx, uint32_t host, uint64_t flush_ns); /* 0: it is as ever */
    void (*fill_disk)(void *ctx, uint32_t host, bool full); /* it has no room for anything new */
    void (*start)(void *ctx, uint32_t host);
    bool (*is_up)(void *ctx, uint32_t host);
    /* Does it lead, or try to lead, anything? */
    bool (*leads)(void *ctx, uint32_t host);
    /* A client dies, for good or to come back; may do nothing. */
    void (*client_crash)(void *ctx, uint32_t client);
    /* What the trace calls a host or client. */
    const char *(*name)(void *ctx, uint32_t node);
};

enum { CHAOS_HOSTS_MAX = 128, CHAOS_NODES_MAX = 256 };

struct chaos {
    struct sim *sim;
    struct rng *rng;
    FILE *trace;
    const struct chaos_calls *calls;
    void *ctx;
    uint32_t hosts, clients;
    uint64_t unit_ns;  /* how long things take is drawn in these; about 15 are a heartbeat */
    uint64_t every_ns; /* mean time between faults; 0: none */
    bool duels;        /* mostly lies and isolated leaders */
    bool at_hand;      /* nobody is ever cut off from a memory, and it stays until the next life */
    bool links;        /* connections break, and memory goes with its process */
    bool returns;      /* hosts that lead nothing crash and return, and nothing else happens */
    bool truthful;     /* no lies: nobody is told that one is dead who is not */
    bool durable;      /* hosts have disks, and lose power */
    bool cramped;      /* then: disks have little room */
    uint64_t power_cuts, disks_lost, disks_filled, sectors_flipped;
    bool calm;
    uint64_t begun; /* times; what was planned before the last one is void */
    uint64_t faults;
    uint64_t paused_until[CHAOS_NODES_MAX]; /* CHAOS_STOPPED: until somebody lets it go on */
    uint64_t life[CHAOS_HOSTS_MAX];         /* counts crashes, so that late restarts are ignored */
    bool gone[CHAOS_HOSTS_MAX];             /* stays down for the rest of the run */
};

#define CHAOS_STOPPED UINT64_MAX

/* Draws how much of it there will be; a few runs have none. */
void chaos_draw(struct chaos *);

/* Begins, for the first time or again. */
void chaos_begin(struct chaos *);

/* The host has just come to lead something: perhaps that is the moment to strike. */
void chaos_ambush(struct chaos *, uint32_t host);

/* No more faults; everyone comes back but for some of the hosts that `spare` says can be done
 * without. NULL: all come back. */
void chaos_end(struct chaos *, bool (*spare)(void *ctx, uint32_t host));

/* Faults that somebody else has chosen the moment for. A crash is for so long, if it may be now. */
bool chaos_may_crash(const struct chaos *, uint32_t host, bool keep_memory);
void chaos_crash(struct chaos *, uint32_t host, bool keep_memory, uint64_t down_ns);
void chaos_power_cut(struct chaos *, uint32_t host);                   /* it stays down; */
void chaos_power_out(struct chaos *, uint32_t host, uint64_t down_ns); /* is back after so long */
void chaos_part(struct chaos *, uint32_t a, uint32_t b, uint64_t length_ns); /* cut both ways */
void chaos_isolate(struct chaos *, uint32_t host, uint64_t length_ns);
void chaos_pause(struct chaos *, uint32_t node, uint64_t length_ns);
/* One host, or all others, are told that one is dead. */
void chaos_lie(struct chaos *, uint32_t asker, uint32_t about, uint64_t length_ns);
void chaos_rumour(struct chaos *, uint32_t about, uint64_t length_ns);

/* Stops a node for as long as it is not continued; chaos leaves it alone meanwhile. */
void chaos_stop(struct chaos *, uint32_t node);
void chaos_continue(struct chaos *, uint32_t node);

/* Somebody else is about to crash the host: what was planned for this life of it is void. */
void chaos_forget(struct chaos *, uint32_t host);

/* The node does nothing else for so long, by its own doing. */
void chaos_busy(struct chaos *, uint32_t node, uint64_t ns);

/* When the node may be stepped at the earliest, if it wants to be at `when`. */
uint64_t chaos_not_before(const struct chaos *, uint32_t node, uint64_t when);

/* One line of the readable trace, with the time. */
void chaos_trace(const struct chaos *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
