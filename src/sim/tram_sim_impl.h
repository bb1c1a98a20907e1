/* The inside of the public simulator. Files: tram_sim.c is include/tram/sim.h; tram_sim_world.c is what the fleet calls,
 * the replicas with the user's machine and its clients; tram_sim_group.c is the same for members of a group, whose machine is in
 * tram_sim_machine.c; tram_sim_spare.c knows who of them may be lost, and whether anything is under way. */
#ifndef SIM_TRAM_SIM_IMPL_H
#define SIM_TRAM_SIM_IMPL_H

#include "api/api.h"
#include "api/group_place.h"
#include "api/machine.h"
#include "sim/cell_compare.h"
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

struct world_member;

/* A cell at a host, under protocol group. */
struct world_cell {
    struct api_machine machine;      /* the user's, for saving and loading */
    struct cell_compare_place place; /* that a state which is being loaded begins with, */
    uint32_t place_bytes;            /* as far as it has come */
    bool born;                       /* the machine was told, and the checker not yet */
};

/* What a host has of a group: all of it. */
struct world_member {
    struct tram_sim *sim;
    struct fleet_member *at;
    struct tram_group *group; /* NULL while it is down */
    void *ctx;                /* of the user's machine */
    struct world_cell *cell;
    uint64_t spent_ns;
    /* What it keeps, if the group keeps anything; beside the fleet's disk, which has what the keepers decide. */
    struct disk_sim *platters;
    struct block *block; /* while it is up */
    uint64_t disk_ns, wakes_ns;
};

struct world_process {
    void *ctx;                   /* of the user's machine; NULL while it is down */
    struct world_place *place;   /* as the members of its node; */
    struct world_member *member; /* or, under protocol group, the one */
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
    struct state_compare *compare; /* of replicas, */
    struct cell_compare *cells;    /* or of members: one is NULL */
    struct mcast_group *alone;     /* of members: each host is a group of its own to the fleet */
    uint64_t still_ns;             /* likewise: when there were last any news */
    uint64_t still_news;
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

/* A host cannot go on. */
void world_fail(struct tram_sim *, struct fleet_node *, int code, const char *text);

/* ---- tram_sim_group.c ---- */

extern const struct fleet_calls world_group_calls;

static inline bool world_is_group(const struct tram_sim *s)
{
    return s->cells != NULL;
}

int world_group_check(struct tram_sim *, struct err *);
/* Before and after the fleet is opened. */
void world_group_options(struct tram_sim *, struct sim_options *);
int world_group_make(struct tram_sim *, struct err *);
void world_group_free(struct tram_sim *);

/* ---- tram_sim_machine.c ---- */

/* Has the user's machine a state, that is saved and loaded? */
bool world_has_state(const struct tram_sim *);
/* The machine of a member, and its layout callback; their ctx is a struct world_member. */
struct tram_group_machine world_group_machine(const struct tram_sim *);
void world_group_layout(void *ctx, const struct tram_view *before, struct tram_layout *next);

/* ---- tram_sim_spare.c ---- */

/* Is all that is delivered on disks? */
bool world_is_durable(const struct cluster *);
/* As in struct fleet_calls. */
bool world_may_crash(const struct fleet_node *, bool keep_memory);
bool world_may_lose_disk(const struct fleet_node *);
bool world_group_idle(struct tram_sim *);
void world_group_stuck(const struct tram_sim *, char *text, size_t bytes);
/* The host that leads the keepers, or NULL. */
const char *world_group_leader(const struct tram_sim *);

/* The replica at a member of the fleet. */
struct world_place *world_place_at(const struct fleet_member *);

#endif
