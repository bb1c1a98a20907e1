/* One simulated run of a protocol: a seed, drawn faults, checkers, a verdict.
 *
 * A run has a safety phase, in which anything may fail as long as no group loses more than it is
 * built to lose, and a liveness phase, in which the faults stop, a majority is healed, and all that
 * is outstanding must be delivered within a stated time. Every property is checked as it goes. */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "sim/counter_machine.h"
#include "sim/fleet.h"
#include "sim/hostile.h"

#include <stdarg.h>
#include <stdio.h>

/* What the simulated memory is like. */
enum run_memory {
    RUN_MEMORY_DRAWN, /* from the seed */
    RUN_MEMORY_SHM,   /* always there; outlives its process, or does not */
    RUN_MEMORY_OFI,   /* over connections that break, and gone with its process */
    RUN_MEMORY_TCP,   /* the same, and its owner judges what lands in it */
};

/* Who votes in the groups. */
enum run_votes {
    RUN_VOTES_REPLICAS, /* there are no memories */
    RUN_VOTES_MEMORIES, /* they alone */
    RUN_VOTES_ALL,      /* they and the replicas */
    RUN_VOTES_DRAWN,    /* the one or the other, from the seed */
};

struct run_options {
    uint64_t seed;
    uint32_t replicas; /* 0: drawn from the seed */
    enum run_memory memory;
    enum aim_when aim; /* are faults aimed at the middle of steps? */
    bool durable;      /* hosts have disks */
    enum run_votes votes;
    enum hostile_strategy strategy; /* of who lies, if any may; HOSTILE_STRATEGIES: drawn */
    FILE *trace;                    /* readable trace of what happens; NULL: none */
};

enum { RUN_TEXT_BYTES = 256 };

/* Of a group with views. */
struct group_figures {
    uint64_t views, joins, leaves;
    uint64_t put_out;   /* alive */
    uint64_t stateless; /* runs of machines without a state */
    uint64_t raw;       /* deliveries in cells without a common order */
    uint64_t learnt;    /* states that came to who was no member of its cell yet */
    uint64_t trimmed;   /* messages that a trim cut off, where they had come already */
    uint64_t restamped; /* that went on to the next view */
    uint64_t returned;
    uint64_t vacant; /* times that a cell became so */
    uint64_t states; /* sent */
    uint64_t nulls, deliveries;
    uint64_t large, blocks;   /* deliveries of large messages; blocks of them that were sent */
    uint64_t asked, answered; /* calls and queries, and how many of them were complete */
    uint64_t lost_behind;     /* deliveries of logged cells that no disk had when they went on */
    uint64_t disks;           /* runs in which hosts have disks; */
    uint64_t disk_batches, power_cuts; /* of these hosts, */
    uint64_t checkpoints;  /* states that were written into logs which do not grow for ever */
    uint64_t disks_failed; /* and members that left for theirs */
    uint64_t client_sent,
        client_done; /* messages of clients; and how many of these and of their questions were done */
    uint64_t client_again;            /* requests that were sent again */
    uint64_t client_fed, client_lost; /* samples, and how many were lost */
    uint64_t skipped;                 /* runs of which liveness cannot be asked */
    uint64_t shared;                  /* runs with common lanes that are one memory */
};

/* Of a group some of whose members lie. */
struct bft_figures {
    enum hostile_strategy strategy;
    uint64_t liars, lies;
    uint64_t decisions;  /* slots decided */
    uint64_t views;      /* that began anywhere */
    uint64_t convicted;  /* times that a correct member convicted another one */
    uint64_t jumps;      /* times that one went on behind a STATE that was vouched for */
    uint64_t rejoins;    /* times that one who had lost its memory voted again */
    uint64_t epochs;     /* fast ones, that were opened; */
    uint64_t cut_epochs; /* that ended, */
    uint64_t batches;    /* and batches in these */
};

struct run_result {
    const char *property;      /* NULL: nothing was violated */
    char text[RUN_TEXT_BYTES]; /* what was seen, where */
    uint64_t position;         /* of the log, where that applies */
    uint64_t time_ns;          /* virtual, when it was found; else when the run ended */
    uint64_t hash;             /* of the whole event trace */
    uint64_t events;
    uint64_t faults; /* injected: crashes, pauses, cuts, lies */
    uint64_t power_cuts, disks_lost, sectors_flipped, writes_failed, disks_filled, full_journals;
    uint64_t terms;    /* times a leader began to serve */
    uint64_t messages; /* decided */
    uint64_t snapshots;
    uint32_t replicas, memories;
    enum run_memory memory;
    struct aim_figures aimed;
    struct group_figures group;
    struct bft_figures bft;
};

/* What the runs have in common. */

#define RUN_US UINT64_C(1000)
#define RUN_HEARTBEAT_NS (15 * RUN_US)

/* Notes a violation; the first one stays. The time is noted when the run ends, which is at once. */
void run_violated(struct run_result *, const char *property, uint64_t pos, const char *fmt,
                  va_list);

/* Draws how the memory behaves, and what is aimed at; nodes_max is left to the run. */
void run_draw_memory(const struct run_options *, struct fleet *, struct sim_options *);

/* Draws how many memories a group has, if any, and who votes; of a log alone how many replicas, too. */
void run_draw_votes(const struct run_options *, struct mcast_group *);

/* Draws how the disks behave, if there are any. */
void run_draw_disks(const struct run_options *, struct fleet *);

/* What was drawn, by what the memory is like. */
enum run_memory run_memory_of(const struct sim_options *);

/* What the machines of a run are like, drawn from the seed alone, so that other draws of it are as they are without. */
struct run_state {
    struct counter_machine_costs costs;
    bool unsized;           /* saves without saying how much */
    bool large;             /* states of many rings */
    uint64_t backlog_rings; /* that a leader may keep, in log rings; 0: as many as it wants */
    bool returns;           /* as in struct fleet; the memory is then as it should be */
    uint64_t stall_ns;      /* then: what save_open and load_close of one group take; 0: as ever */
};

void run_draw_state(const struct run_options *, struct run_state *);
void run_calm_memory(struct fleet *, struct sim_options *);

/* Draws the time-outs of replicas, in this order. */
void run_draw_times(struct rng *, uint64_t *suspect_ns, uint64_t *stagger_ns, uint64_t *detach_ns);

struct hang_calls;

/* What a run says of itself. */
struct run_calls {
    uint64_t safety_end_ns;
    uint64_t liveness_ns;    /* within this all must be delivered once the faults have stopped */
    void (*calm)(void *ctx); /* the faults have stopped; may be NULL */
    bool (*all_delivered)(const void *ctx);
    void (*stuck)(void *ctx); /* to note a violation of liveness */
    /* All was delivered within the time; may be NULL, and may step on. */
    void (*settled)(void *ctx);
    const struct hang_calls
        *hang; /* of a phase in which hosts hang (hang.h); NULL: there is none */
    void *ctx;
};

/* Faults, drawn; then calm; then the figures of the result. Ends and frees the fleet, of which all
 * nodes are up. */
void run_fleet(struct fleet *, struct run_result *, const struct run_calls *);

/* The replicated log alone: one group, a few clients. */
void run_log(const struct run_options *, struct run_result *);

/* A tree of groups on a few hosts, with clients that multicast. */
void run_tree(const struct run_options *, struct run_result *);

/* The same without the tree: destinations order messages among themselves. */
void run_genuine(const struct run_options *, struct run_result *);

/* A log of one group, some of whose members lie. */
void run_bft(const struct run_options *, struct run_result *);

/* Hosts that form views, with cells in which they multicast. */
void run_group(const struct run_options *, struct run_result *);

#endif
