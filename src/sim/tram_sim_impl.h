/* The inside of the public simulator. Files: tram_sim.c is include/tram/sim.h; tram_sim_world.c is what the fleet calls,
 * the replicas with the user's machine and its clients. */
#ifndef SIM_TRAM_SIM_IMPL_H
#define SIM_TRAM_SIM_IMPL_H

#include "api/api.h"
#include "api/machine.h"
#include "sim/fleet.h"
#include "sim/state_compare.h"
#include "tram/sim.h"

#define WORLD_TIME_NS_MAX (UINT64_MAX >> 1)

/* A replica with the user's machine. */
struct world_place {
    struct api_machine machine; /* first: the ctx of the calls below */
    struct tram_sim *sim;
    struct fleet_member *at;
    struct replica *replica;
    uint64_t spent_ns; /* in saving and loading, since it was last asked */
};

struct world_process {
    void *ctx;                 /* of the user's machine; NULL while it is down */
    struct world_place *place; /* as the members of its node */
};

struct world_client {
    struct tram_sim *sim;
    struct fleet_node *at;
    struct tram_client *client;                /* NULL while the place is free */
    const struct tram_client_options *opening; /* while it is being opened */
};

/* A call of tram_sim_at. */
struct world_event {
    struct world_event *next;
    struct tram_sim *sim;
    void (*fn)(struct tram_sim *, void *arg);
    void *arg;
};

struct tram_sim {
    struct tram_cluster cluster; /* the user's, with as many clients as this has */
    struct tram_sim_options opt;
    struct fleet fleet;
    struct world_process *process;
    struct world_client *client;
    struct state_compare *compare;
    struct world_event *at; /* still to come */
    uint64_t news;          /* rises with all that may make it idle */
    bool running;

    struct fleet_node *failed; /* the host that cannot go on; NULL: none, or it is down */
    int failure;               /* to be told; 0: none */
    struct err failure_text;
};

/* What is waited for: met is asked after every event. */
struct world_until {
    bool (*met)(struct tram_sim *, struct world_until *);
    const struct tram_client *client;
    uint64_t ticket; /* or how many were finished */
    uint64_t seen;   /* news at the last look */
    uint64_t events; /* that it was asked after */
};

/* Runs until the condition is met or the time is reached; 1, 0 or an error. */
int world_run_until(struct tram_sim *, struct world_until *, uint64_t end_ns, struct err *);

extern const struct fleet_calls world_fleet_calls;

/* The replica at a member of the fleet. */
struct world_place *world_place_at(const struct fleet_member *);

#endif
