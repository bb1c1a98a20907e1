/* What the measurements of `tram bench` share: options, figures, and the rig of two pinned threads.
 *
 * One thread serves (polls all hosts), the other is the clients and measures. The rig also times the
 * round trip of a cache line between the two, in turns with what is measured: a virtual machine may
 * move a core away from the other at any time, and that changes both by a factor of three. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "base/err.h"
#include "base/hist.h"
#include "bench/model.h"
#include "mcast/mcast.h"
#include "mcast/overlay.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum {
    BENCH_STARTS_WITHIN_S = 10,
    BENCH_TURNS = 20,
    BENCH_CLIENTS_MAX = 64,
    BENCH_HOSTS_MAX = 16,
    BENCH_LOADS_MAX = 4,
};

/* Who polls what, of multicast. */
enum bench_layout {
    BENCH_THREADS, /* one thread all hosts, another all clients */
    BENCH_PROCS,   /* hosts are processes of their own */
    BENCH_SINGLE,  /* one thread everything, in turn; its CPU time is what is measured */
};

enum bench_transport { BENCH_SHM, BENCH_SIM, BENCH_TCP, BENCH_VERBS };

extern const char *const bench_transport_names[]; /* up to NULL */

struct bench_args {
    enum bench_transport transport;
    const char *address; /* of this machine, for tcp and verbs */
    bool mcast;          /* or the log of one group */
    enum mcast_protocol protocol;
    enum bench_layout layout;
    bool json;
    uint32_t replicas, payload, seconds;
    uint32_t memories;  /* of the log: members that are only memory; they alone vote, */
    bool all_vote;      /* or all */
    uint32_t log_bytes; /* 0: as the protocol has it */
    uint32_t groups, dst, clients, hosts;
    enum overlay_shape shape;
    bool adjacent; /* destinations are neighbours in the tree, else any */
    /* Of a point (struct bench_point): */
    uint32_t load[BENCH_LOADS_MAX]; /* numbers of clients to saturate with, ascending */
    uint32_t loads;                 /* how many; 0: latency alone */
    uint64_t part_ns;               /* length of each measurement */
    const char *serve;              /* we are a host of the bench with this cluster name; or NULL */
    uint32_t serve_host;
    const char *serve_dir; /* over a network: where its key and ports are */
    bool serve_wire;       /* we are the other side of its wire */
    bool clear;            /* tcp: not encrypted */
};

struct bench_figures {
    struct hist line, latency;
    struct hist chain;               /* tcp: bare, of the same layout and security */
    double chain_ratio[BENCH_TURNS]; /* of latency to it, sorted */
    struct hist turn[2];
    double ratio[BENCH_TURNS]; /* of their medians, sorted */
    uint64_t messages;         /* of the saturated part */
    double seconds;
    double batch;           /* messages in one, when saturated; 0: not known */
    double wire_per_second; /* writes of the provider, or sends, alone; 0: there is no network */
};

/* One short look at a case: a point of the comparison (compare.h). What was not measured is 0. */
struct bench_point {
    double line_ns; /* round trip of a cache line, median */
    double latency_ns, latency_p99_ns;
    double rate[BENCH_LOADS_MAX]; /* messages a second, saturated by args.load[i] clients */
    double entries;               /* of logs that a message takes then, in all groups */
};

/* Stands in for a state machine: what it does is cheap and not optimised away. Its state_ops are state_block_ops. */
struct bench_machine {
    struct state_block block; /* first: their ctx */
    struct bench_counts {
        uint64_t messages, sum;
    } counts;
};

void bench_machine_init(struct bench_machine *);

struct bench_wire;

enum bench_phase {
    BENCH_LINE, /* answers on the cache line; with a wire, leaves its core to the other side of it */
    BENCH_SERVE, /* polls the hosts; or leaves its core to their processes */
    BENCH_STOP,
};

struct bench_rig {
    _Alignas(128) _Atomic uint64_t ping;
    _Alignas(128) _Atomic uint64_t pong;
    _Alignas(128) atomic_int phase;
    atomic_int entered;      /* the phase that the serving thread is in */
    int core[2];             /* the client's, the server's */
    struct bench_wire *wire; /* of a network: its round trip is taken instead of a cache line's */
    cpu_set_t cores;         /* that the caller had before it was pinned */
    pthread_t thread;
    void (*round)(void *ctx,
                  uint64_t now_ns); /* one round of all hosts; NULL: they are processes */
    void *ctx;
};

/* Chooses the cores. */
int rig_cores(struct bench_rig *, struct err *);

/* Pins the caller to the first core and starts the other thread, in BENCH_SERVE. */
int rig_start(struct bench_rig *, struct err *);

/* Ends the other thread; the caller may run on all its cores again. */
void rig_stop(struct bench_rig *);

/* For a while the caller, and threads that it starts, may run on all its cores; then it is back on its own. */
void rig_unpin(struct bench_rig *);
void rig_pin(struct bench_rig *);

/* Returns when the other thread is there; outside BENCH_SERVE the hosts are the caller's. */
void rig_enter(struct bench_rig *, enum bench_phase);

/* Measures the round trip of a cache line or the wire, and returns to BENCH_SERVE. ERR_TIMEOUT: of the
 * wire, nothing comes back. */
int rig_measure_line(struct bench_rig *, struct hist *);

/* Line and latency in turns: `latency` is to fill the histogram for that long. */
int rig_measure_turns(struct bench_rig *, struct bench_figures *, uint64_t turn_ns,
                      int (*latency)(void *ctx, struct hist *, uint64_t turn_ns), void *ctx);

/* The measurements. 0, or an error with its text. */
int bench_log(const struct bench_args *, struct bench_figures *, struct err *);
int bench_tree(const struct bench_args *, struct bench_figures *, struct err *);
int bench_tree_point(const struct bench_args *, struct bench_point *, struct err *);

/* With BENCH_SINGLE: what is done in each part of a run, and the CPU time that it takes. */
enum bench_part {
    BENCH_IDLE,      /* hosts poll and find nothing, */
    BENCH_IDLE_TIME, /* and look at the clock each time */
    BENCH_LOOK,      /* a client waits and finds nothing */
    BENCH_ONE,       /* hosts and a client, one message at a time */
    BENCH_MANY,      /* hosts, saturated, */
    BENCH_SEND,      /* and the clients that do it */
    BENCH_IDLE_MANY, /* as BENCH_IDLE, with all clients connected */
    BENCH_PARTS,
};
int bench_tree_work(const struct bench_args *, struct model_work part[BENCH_PARTS], struct err *);

/* A host process of bench_tree with processes: serves until its standard input is closed. */
int bench_tree_serve(const struct bench_args *, struct err *);

/* Fills in `count` destination sets of args.dst groups each, one after the other and each ascending,
 * always the same for the same options: any groups, or with `adjacent` a random group and then,
 * again and again, a random neighbour of those drawn so far. */
int bench_sets(const struct bench_args *, const struct overlay *, uint16_t *sets, uint32_t count,
               struct err *);

#endif
