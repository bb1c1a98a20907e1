/* A fleet: hosts with their replicas, and clients, on a simulated memory in virtual time, and what
 * befalls them.
 *
 * This is what `tram sim` and the simulator of tram/sim.h run alike. The fleet starts, steps and ends
 * nodes, draws when each is stepped, and is what chaos strikes at. What a replica is made of, what a
 * client does and what is checked is said by whoever opens it, through calls.
 *
 * Hosts are nodes 0 .. hosts-1, clients the nodes after them. One thread. Nodes and members stay where
 * they are until fleet_close; calls from within a step may not end the node that is stepped. */
#ifndef SIM_FLEET_H
#define SIM_FLEET_H

#include "agree/memory.h"
#include "disk/block_sim.h"
#include "disk/disk.h"
#include "host/host.h"
#include "mcast/mcast.h"
#include "mem/sim/sim.h"
#include "sim/aim.h"
#include "sim/chaos.h"
#include "sim/fiber.h"

enum { FLEET_NAME_BYTES = 80 };

struct fleet_node;

/* A replica: what a host has of one group. */
struct fleet_member {
    struct fleet_node *host;
    uint16_t group;
    uint32_t rank;
    char name[FLEET_NAME_BYTES]; /* in traces; "h0 g0" unless the owner writes another one */
    struct unit unit;            /* of is NULL while the host is down */
    enum unit_role shown;
    uint64_t terms, snapshots; /* of earlier lives */
};

/* A host that is only memory of a group. */
struct fleet_memory {
    uint16_t group;
    struct log_memory of;
};

/* A host or a client. */
struct fleet_node {
    struct fleet *fleet;
    uint32_t node;
    char name[FLEET_NAME_BYTES]; /* "h0", "client 0", unless the owner writes another one */
    struct mem *mem;             /* NULL while it is down */
    struct fleet_member *member; /* in order of groups; none if it is a client */
    uint32_t members;
    struct fleet_memory *memory; /* in order of groups */
    uint32_t memories;
    uint64_t due_ns; /* when it is stepped next; UINT64_MAX: not before something happens */
    uint64_t step;   /* number of that step: events of another one are void */
    struct log_budget budget;  /* for its replicas */
    struct disk_sim *platters; /* of a host, if the fleet is durable; and while it is up, */
    struct disk *disk;         /* what it keeps there */
    uint64_t disk_ns;          /* the disk's clock */
    bool disk_blank;           /* there is no directory yet */
    bool journal_full;         /* as of the last round */
    bool disk_hurt; /* while it is down: something was lost of its disk, and is not there again */
    /* With aimed faults its rounds may be stopped in the middle. */
    struct fiber fiber;
    bool stopped; /* it is */
    uint64_t round_ns, next_ns;
    int work;
};

struct fleet_calls {
    /* A host begins a life, before its replicas are opened; and has ended one. May be NULL. */
    void (*host_born)(struct fleet_node *);
    void (*host_died)(struct fleet_node *);

    /* Makes m->unit for the life that its host begins. */
    int (*open)(struct fleet_member *, uint64_t seed, struct err *);

    /* Opens what the group has at a host that is only memory of it. NULL: there are none. */
    int (*memory_open)(struct fleet_node *, uint16_t group, struct log_memory *, struct err *);

    /* After each round of a replica; may be NULL. */
    void (*stepped)(struct fleet_member *);

    /* How long the machine of the replica has worked in this round, beyond what a round takes; the host does nothing
     * else meanwhile. May be NULL. */
    uint64_t (*spent_ns)(struct fleet_member *);

    /* May the host crash now, with or without its memory; may it, being down, stay so for good? NULL: as many as replicated logs
     * are built to lose. */
    bool (*may_crash)(const struct fleet_node *, bool keep_memory);
    bool (*spare)(const struct fleet_node *);
    /* May its disk be lost or damaged now? It was lost. Both may be NULL: as much as replicated logs are built to lose. */
    bool (*may_lose_disk)(const struct fleet_node *);
    void (*disk_lost)(struct fleet_node *);
    /* It has lost power, up or not: so have disks of its that the fleet knows nothing of. May be NULL. */
    void (*power_cut)(struct fleet_node *);

    /* A client begins a life, makes a step, ends. A step returns when there has to be another one
     * though nothing happens; UINT64_MAX: never. */
    int (*client_open)(struct fleet_node *, struct err *);
    uint64_t (*client_step)(struct fleet_node *, uint64_t now_ns);
    void (*client_close)(struct fleet_node *);

    /* Chaos wants the client to die; may be NULL. */
    void (*client_crash)(struct fleet_node *);

    /* A host did not start for chaos, or one of its replicas saw what cannot be. */
    void (*violated)(struct fleet_node *, const char *property, const char *text);
};

struct fleet {
    /* The owner's to set before fleet_open. */
    const struct fleet_calls *calls;
    void *ctx;
    const struct mcast_group *group; /* where the replicas are */
    uint32_t groups, hosts, clients;
    struct rng rng;       /* the draws of the fleet, its chaos and its owner */
    uint64_t step_ns_max; /* between two steps of a host, or from what happens to it to its step */
    uint64_t unit_ns;     /* of chaos */
    FILE *trace;          /* readable; NULL: none */
    /* Nodes sleep until something happens to them or they have something to do, as hosts on shared memory
     * do. Else all are stepped all the time, which finds more and goes through less time. */
    bool sleepy;
    /* Nothing happens but that hosts which do not lead crash and return: a leader that lives must be left to lead. */
    bool returns;

    bool durable; /* hosts have disks */
    struct disk_sim_options disk_options;
    uint32_t log_bytes_max; /* of any of its logs: what a disk must take at once */
    bool cramped;           /* journals are as small as may be, */
    uint32_t segments_more; /* with so many segments more, and disks become full */
    uint64_t full_journals; /* how often one was filled */

    /* With aimed faults: one in so many fences a host stands still there for a while; 0: never. */
    uint64_t fence_stop_in;

    struct sim *sim;
    struct fleet_node *node; /* hosts, then clients */
    struct chaos chaos;
    struct aim aim;
    struct fleet_node *stepping; /* whose step this is; NULL: nobody's */
    uint64_t *leads_ns;          /* by group: since when `leads` does */
    uint64_t moves;              /* rises when a replica's state (of enum unit_role) changes */
    const struct fleet_member *
        *leads; /* by group: who was last seen to begin to lead; NULL: it ended since */
};

/* Opens the memory (nodes_max and clients_from are filled in) and makes the nodes; nobody is up. */
int fleet_open(struct fleet *, const struct sim_options *, struct err *);
/* Ends all lives, adds up terms and snapshots of members, which stay until fleet_free. */
void fleet_close(struct fleet *);
void fleet_free(struct fleet *);

/* Begins a life of a node that is down. After an error it is down again. */
int fleet_start(struct fleet_node *, struct err *);

/* Ends it, as sim_node_crash does. */
void fleet_crash(struct fleet_node *, bool keep_memory);
/* As client_crash of a run whose clients end for good: the last one stays. */
void fleet_client_crash(struct fleet_node *);

/* The host loses power: its process ends, if it is up, with its memory and with what its disk had not flushed. */
void fleet_power_cut(struct fleet_node *);

/* The same, and its disk is exchanged for a blank one. */
void fleet_disk_lose(struct fleet_node *);

/* Flips a bit in so many sectors of the disk of a host that is down, and returns how many it were. The last batch of the journal is
 * spared: without one behind it damage looks like a write that power cut short. */
uint32_t fleet_disk_flip(struct fleet_node *, uint32_t sectors);

/* Everything that a quorum may count on is there: nothing was lost, or the group has given it again. */
bool fleet_disk_well(const struct fleet_node *);

/* Of a durable fleet's host, for fleet.c. */
int fleet_disk_open(struct fleet_node *, struct err *);
void fleet_disk_die(struct fleet_node *);
int fleet_disk_round(struct fleet_node *, uint64_t now_ns);
uint64_t fleet_disk_next_ns(const struct fleet_node *);

/* The faults have stopped: whoever stands in the middle of a round goes on. */
void fleet_calm(struct fleet *);

/* Called from within a round of a host: it stands still there for so long, as if stopped. With aimed faults only; else it goes on at
 * once. */
void fleet_linger(struct fleet_node *, uint64_t ns);

/* Steps the node soon. */
void fleet_wake(struct fleet_node *);

static inline struct fleet_node *fleet_client(const struct fleet *f, uint32_t client)
{
    return &f->node[f->hosts + client];
}

/* The host's replica of the group, or NULL. */
struct fleet_member *fleet_member(const struct fleet *, uint32_t host, uint16_t group);

/* Who leads the group; of two that say so the one with the higher ballot; NULL: nobody. */
struct fleet_member *fleet_leader(const struct fleet *, uint16_t group);

/* Could not, right now, carry the group's state on: down, without state or without a say. */
bool fleet_unfit(const struct fleet_member *);

/* fleet_votes.c */

/* How many more of the group's voters may be lost; negative if too many are. */
int fleet_votes_left(const struct fleet *, uint16_t group);
uint32_t fleet_voters(const struct fleet *, uint16_t group);
/* Voters that are not lost, and whose host is so. */
uint32_t fleet_voters_where(const struct fleet *, uint16_t group,
                            bool (*is_so)(const struct fleet *, uint32_t host, const void *ctx),
                            const void *ctx);
/* Could the group, or all groups, lose this host, or what it has of them? */
bool fleet_group_spares(const struct fleet *, uint16_t group, uint32_t host);
bool fleet_spares(const struct fleet *, uint32_t host);
/* The host, which is only memory of the group, has nothing of it. */
bool fleet_memory_lost(const struct fleet *, uint32_t host, uint16_t group);
int fleet_memories_init(struct fleet_node *, struct err *);
int fleet_memories_open(struct fleet_node *, struct err *);
void fleet_memories_close(struct fleet_node *);
int fleet_memories_step(struct fleet_node *, uint64_t now_ns);

/* For chaos_end: the host, which is down, may stay so. */
bool fleet_spare(void *fleet, uint32_t host);

/* How far each replica is: " h0 g0:leader/17", after what is in the text already. */
void fleet_describe(const struct fleet *, uint64_t (*delivered)(const struct fleet_member *),
                    char *text, size_t bytes);

#endif
