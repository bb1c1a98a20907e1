/* One simulated run of a protocol: a seed, drawn faults, checkers, a verdict.
 *
 * A run has a safety phase, in which anything may fail as long as no group loses more than it is
 * built to lose, and a liveness phase, in which the faults stop, a majority is healed, and all that
 * is outstanding must be delivered within a stated time. Every property is checked as it goes. */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct run_options {
    uint64_t seed;
    uint32_t replicas; /* 0: drawn from the seed */
    FILE *trace;       /* readable trace of what happens; NULL: none */
};

enum { RUN_TEXT_BYTES = 256 };

struct run_result {
    const char *property;      /* NULL: nothing was violated */
    char text[RUN_TEXT_BYTES]; /* what was seen, where */
    uint64_t position;         /* of the log, where that applies */
    uint64_t time_ns;          /* virtual, when it was found; else when the run ended */
    uint64_t hash;             /* of the whole event trace */
    uint64_t events;
    uint64_t faults;   /* injected: crashes, pauses, cuts, lies */
    uint64_t terms;    /* times a leader began to serve */
    uint64_t messages; /* decided */
    uint64_t snapshots;
    uint32_t replicas;
};

/* The replicated log alone: one group, a few clients. */
void run_log(const struct run_options *, struct run_result *);

/* A tree of groups on a few hosts, with clients that multicast. */
void run_tree(const struct run_options *, struct run_result *);

/* The same without the tree: destinations order messages among themselves. */
void run_genuine(const struct run_options *, struct run_result *);

#endif
