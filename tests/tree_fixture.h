/* For tests of multicast: groups and clients in a simulated memory, stepped by hand.
 *
 * Every replica has a node of its own: replica q of group g is node g * replicas + q, the clients come
 * after them. Nothing moves unless a test makes it: a tick gives everyone who is up and not held one
 * round and lets a little time pass. By default every way takes the same time and nothing tears.
 *
 * The checkers of the simulator run all along, and the order over all groups is checked at the end.
 * The first violation is kept, and nothing is waited for after it; forest_close says what it was. */
#ifndef TESTS_TREE_FIXTURE_H
#define TESTS_TREE_FIXTURE_H

#include "agree/source.h"
#include "mcast/caster.h"
#include "mcast/message.h"
#include "mcast/replica.h"
#include "mem/sim/sim.h"
#include "sim/mcast_check.h"
#include "sim/participation.h"

#define US UINT64_C(1000)
#define FOREST_TICK_NS UINT64_C(500)
#define FOREST_WAY_NS UINT64_C(400) /* one way between two nodes */
#define FOREST_LOST_NS (100 * US)   /* what is cut off for this long is lost */
#define FOREST_HEARTBEAT_NS (15 * US)
#define FOREST_SUSPECT_NS (60 * US)
#define FOREST_LONG_NS (5000 * US) /* within this everything comes right again */

enum { FOREST_REPLICAS_MAX = 7, FOREST_BODY_MAX = 300, FOREST_REPLY_MAX = 40 };

struct forest;

struct forest_replica {
    struct counter_machine counter; /* first: the machine's ctx */
    struct forest *forest;
    uint16_t group;
    uint32_t rank;
    struct mem *mem; /* NULL while down */
    struct replica *tree;
    struct unit unit; /* the same */
    bool held;
};

struct forest_client {
    struct forest *forest;
    uint32_t place;
    struct mem *mem; /* NULL while down */
    struct caster *caster;
    struct source *raw; /* of a test that writes by itself; ends with the client */
    uint32_t empty_replies, full_replies;
    bool held;
};

struct forest_options {
    enum mcast_protocol protocol;
    uint32_t groups;        /* at most TREE_GROUPS_MAX */
    const uint16_t *parent; /* NULL: all below the first */
    uint32_t replicas;      /* 0: 3 */
    uint32_t clients;       /* 0: 1 */
    uint32_t raw_clients;   /* mask: these have a node and no caster, the test writes for them */
    uint64_t seed;
    bool owner_answers; /* the memory of a dead or stopped replica answers nobody */
    bool duels; /* a replica that is told that a leader is dead believes it, whatever others say */
    bool rough; /* ways of different lengths, torn writes */
};

struct forest {
    struct forest_options opt;
    struct sim *sim;
    struct run_result result;
    struct mcast_check check;
    struct participation part; /* while no test writes for a client */
    struct overlay *overlay;
    struct mcast_group group[TREE_GROUPS_MAX];
    struct mcast_sizes sizes;
    struct forest_replica replica[TREE_GROUPS_MAX][FOREST_REPLICAS_MAX];
    struct forest_client client[TREE_CLIENTS_MAX];
};

struct forest *forest_open(const struct forest_options *);
struct forest *forest_open_led(const struct forest_options *); /* returns when all groups are led */
/* Ends it; returns the property that was violated and prints what was seen, or NULL. */
const char *forest_close(struct forest *);

uint64_t forest_now(const struct forest *);
void forest_tick(struct forest *);
void forest_run(struct forest *, uint64_t ns);  /* ticks for so long */
void forest_pass(struct forest *, uint64_t ns); /* time passes, nobody is stepped */
/* The two halves of one replica's round. */
void forest_post(struct forest *, uint16_t group, uint32_t rank);
void forest_settle(struct forest *, uint16_t group, uint32_t rank); /* mem_poll, tree_settle */

void forest_crash(struct forest *, uint16_t group, uint32_t rank, bool keep_memory);
void forest_start(struct forest *, uint16_t group, uint32_t rank);
void forest_start_all(struct forest *);                       /* all that are down */
void forest_hold(struct forest *, uint16_t group, bool held); /* all its replicas */
/* One replica, as a process that is stopped: matters where the owner has to answer. */
void forest_stop(struct forest *, uint16_t group, uint32_t rank, bool stopped);
uint32_t forest_node(const struct forest *, uint16_t group, uint32_t rank);
uint32_t forest_client_node(const struct forest *, uint32_t client);
/* All its ways, in both directions. */
void forest_cut_off(struct forest *, uint32_t node, bool cut);
/* What a replica is told about another of its group. */
void forest_lie(struct forest *, uint16_t group, uint32_t asker, uint32_t about, bool says_dead);
/* Makes a replica the leader that has all its group has: the one before dies, and keeps its memory. */
void forest_lead(struct forest *, uint16_t group, uint32_t rank);

/* Cuts, or heals, the ways to all replicas of a group: from all of another, or among themselves, or from a
 * client; or those to replicas of a mask alone. */
enum { FOREST_ALL = (1 << FOREST_REPLICAS_MAX) - 1 };
void forest_cut(struct forest *, uint16_t from, uint16_t to, bool cut);
void forest_cut_client(struct forest *, uint32_t client, uint16_t group, uint32_t ranks, bool cut);

void forest_client_crash(struct forest *, uint32_t client);
void forest_client_start(struct forest *, uint32_t client);
/* The sender's number, as the checker has it, of the client in its present life. */
uint32_t forest_sender(const struct forest *, uint32_t client);
/* Casts to the groups of the mask and flushes; false if that has to wait. */
bool forest_cast(struct forest *, uint32_t client, uint8_t mask, uint32_t bytes);
/* The same with given bytes. */
bool forest_cast_bytes(struct forest *, uint32_t client, uint8_t mask, const void *body,
                       uint32_t bytes);

/* A message that a test writes for a client, right or wrong. Once in a client's life: a stream cannot begin
 * twice. Returns when the group's log has taken it. */
struct forest_raw {
    struct message m;
    unsigned char rest[64];
};
struct forest_raw forest_raw(uint32_t client, uint16_t life, const uint16_t *list, uint16_t count);
void forest_raw_send(struct forest *, uint32_t client, uint16_t group, const void *,
                     uint32_t bytes);

/* Rank of the leader with the highest ballot; the number of replicas if there is none. */
uint32_t forest_leader(const struct forest *, uint16_t group);
/* The lane at `owner` that `writer` leads with, and the ring of the parent's `writer` at a child's
 * `owner`; by rank. */
const struct mem_lane *forest_log_lane(const struct forest *, uint16_t group, uint32_t owner,
                                       uint32_t writer);
const struct mem_lane *forest_edge_lane(const struct forest *, uint16_t child, uint32_t owner,
                                        uint32_t writer);
struct unit_status forest_stats(const struct forest *, uint16_t group, uint32_t rank);
/* Every group has a leader that serves. */
bool forest_led(const struct forest *);
/* Every replica that is up and not held has all that its group has, and every message that reached one
 * of its groups has reached all of them. */
bool forest_even(const struct forest *);
/* forest_even, and every client that is up has all its answers. */
bool forest_delivered(const struct forest *);
/* The message of that number of the client's present life. */
const struct cast *forest_cast_of(const struct forest *, uint32_t client, uint64_t seq);
/* Starts all that are down and waits until everybody has everything. */
void forest_come_back(struct forest *);

bool forest_failed(const struct forest *);
void forest_violated(struct forest *, const char *property, int line, const char *what);

/* Ticks until the condition holds; after ns it is a violation of liveness. */
#define FOREST_WAIT(f, cond, ns)                                                                   \
    do {                                                                                           \
        uint64_t wait_end_ = forest_now(f) + (ns);                                                 \
        while (!forest_failed(f) && !(cond)) {                                                     \
            if (forest_now(f) >= wait_end_)                                                        \
                forest_violated(f, "liveness", __LINE__, "not in time: " #cond);                   \
            forest_tick(f);                                                                        \
        }                                                                                          \
    } while (0)

/* What a scenario takes for granted; if it does not hold the scenario shows nothing. */
#define FOREST_SETUP(f, cond)                                                                      \
    do {                                                                                           \
        if (!forest_failed(f) && !(cond))                                                          \
            forest_violated(f, "setup", __LINE__, "not as wanted: " #cond);                        \
    } while (0)

/* What a scenario is about, beyond the checkers. */
#define FOREST_MUST(f, cond)                                                                       \
    do {                                                                                           \
        if (!forest_failed(f) && !(cond))                                                          \
            forest_violated(f, "scenario", __LINE__, "does not hold: " #cond);                     \
    } while (0)

#endif
