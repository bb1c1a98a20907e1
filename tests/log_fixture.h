/* For tests of the replicated log: a group and its clients in a simulated memory, stepped by hand.
 *
 * Replicas are the nodes 0 to n-1, memories those behind, client c is node n + memories + c. Nothing moves unless a test makes it: a
 * tick gives every replica and client that is up and not held one round and lets a little time
 * pass; a test may also make one half of one replica's round alone, and let time pass with nobody
 * stepped. By default every way takes the same time and nothing tears, so that a schedule is what
 * its test says.
 *
 * The checkers run all along: one entry per position, every message once, in its client's order and
 * as it was sent, equal states after equal numbers of messages, no write that counts under a lower
 * ballot than one before it, nothing else below a commit than what was decided. The first violation
 * is kept, and nothing is waited for after it: a scenario ends with group_close, which says what
 * was violated or NULL. So the same scenario shows that the log is right and that a planted mistake
 * is found. */
#ifndef TESTS_LOG_FIXTURE_H
#define TESTS_LOG_FIXTURE_H

#include "agree/lanes.h"
#include "agree/log.h"
#include "agree/memory.h"
#include "agree/source.h"
#include "disk/block_sim.h"
#include "mem/sim/sim.h"
#include "sim/log_check.h"

enum {
    GROUP_CLIENTS_MAX = 3,
    GROUP_REGION = 7,
    GROUP_SENT_MAX = 4096, /* messages of one client */
    GROUP_PAYLOAD_MAX = 256,
};

#define US UINT64_C(1000)
#define GROUP_TICK_NS UINT64_C(500)
#define GROUP_WAY_NS UINT64_C(400) /* one way between two nodes */
#define GROUP_LOST_NS (100 * US)   /* what is cut off for this long is lost */
#define GROUP_HEARTBEAT_NS (10 * US)
#define GROUP_SUSPECT_NS (60 * US)
#define GROUP_DETACH_NS (100 * US)
#define GROUP_ELECT_NS (1000 * US) /* within this a healthy majority has a leader that serves */

struct group_options {
    uint32_t replicas;
    uint32_t memories; /* members that are only memory; they alone vote, */
    bool all_vote;     /* or all */
    uint32_t clients;  /* 0: 1 */
    uint64_t seed;
    uint32_t log_bytes;     /* 0: 4096 */
    uint32_t snap_pad;      /* bytes of state beside the real ones */
    uint32_t backlog_rings; /* that a leader may keep of the log meanwhile, in rings; 0: many */
    uint32_t raw_clients;   /* mask: these have a node and no source, the test writes for them */
    uint32_t raw_replicas;  /* mask: likewise */
    bool owner_answers;     /* the memory of a dead or held replica answers nobody */
    bool
        duels; /* a replica that is told that the leader is dead believes it, whatever others say */
    bool rough;           /* ways of different lengths, torn writes */
    uint64_t read_gap_ns; /* reads are torn, into pieces at most so far apart */
    bool links;           /* memory over connections that break (sim_break) */
    bool durable;         /* replicas have disks, and have lost power in their first life */
};

struct group;

struct group_replica {
    struct counter_machine counter; /* first: the machine's ctx */
    struct group *group;
    uint32_t rank;
    struct mem *mem; /* NULL while down */
    struct log *log; /* NULL while down */
    uint64_t noops;  /* entries seen that had no effect, in this life */
    bool held;
    bool stalled; /* it runs, and its machine takes no message */
};

/* What outlives a replica, if the group is durable. */
struct group_disk {
    struct disk_sim *platters;
    struct disk *disk; /* while it is up */
    uint64_t now_ns;
    bool held; /* it is not stepped: nothing is flushed */
};

/* A message as it was sent. */
struct group_message {
    uint64_t pos; /* in its client's stream */
    uint32_t bytes;
    uint64_t hash;
};

struct group_client {
    struct mem *mem;
    struct source *source;
    struct group_message sent[GROUP_SENT_MAX];
    uint32_t sent_count;
    uint32_t done_count; /* how many of them some replica has applied */
};

struct group {
    struct group_options opt;
    struct sim *sim;
    struct run_result result;
    struct log_check check; /* agreement, fencing and lanes; the rest is checked here */
    uint32_t n, clients;
    uint32_t nodes[LOG_REPLICAS_MAX];
    uint32_t client_nodes[GROUP_CLIENTS_MAX];
    struct group_replica replica[LOG_REPLICAS_MAX];
    struct group_disk disk[LOG_REPLICAS_MAX];
    uint32_t memory_nodes[LOG_MEMORIES_MAX];
    struct log_memory memory[LOG_MEMORIES_MAX]; /* mem is NULL while it is down */
    struct group_client client[GROUP_CLIENTS_MAX];
    uint64_t history[GROUP_SENT_MAX]; /* state hash after each message */
    uint32_t history_count;           /* messages that some replica has applied */
};

struct group *group_open(const struct group_options *);

/* Ends the group; returns the property that was violated, or NULL. */
const char *group_close(struct group *);

/* ---- time ---- */

uint64_t group_now(const struct group *);
void group_tick(struct group *);
void group_run(struct group *, uint64_t ns);  /* ticks for so long */
void group_pass(struct group *, uint64_t ns); /* time passes, nobody is stepped */
void group_post(struct group *, uint32_t rank);
void group_settle(struct group *, uint32_t rank); /* mem_poll, log_settle */

/* ---- faults ---- */

void group_crash(struct group *, uint32_t rank, bool keep_memory);
void group_start(struct group *, uint32_t rank);
void group_hold(struct group *, uint32_t rank, bool held); /* not stepped, as if stopped */
void group_memory_crash(struct group *, uint32_t memory, bool keep_memory);
void group_memory_start(struct group *, uint32_t memory);
/* Of a durable group: memory is lost, and what the disk has not flushed. */
void group_power_cut(struct group *, uint32_t rank);
void group_hold_disk(struct group *, uint32_t rank, bool held);
void group_flush_disk(struct group *,
                      uint32_t rank); /* what was appended, and nothing else moves */
/* Its disk has no room for anything new from now on, or has again. */
void group_fill_disk(struct group *, uint32_t rank, bool full);
/* Writes to the disk of a replica that is down, as one of its lives could have done. */
void group_disk_append(struct group *, uint32_t rank, const struct disk_record *);
void group_cut(struct group *, uint32_t from, uint32_t to, bool cut);
void group_cut_off(struct group *, uint32_t node, bool cut); /* all its ways, both directions */
void group_lie(struct group *, uint32_t asker, uint32_t about, bool says_dead);

/* ---- clients ---- */

/* Sends, and flushes: the message is on its way to all replicas. Its words look like positions. */
void group_send(struct group *, uint32_t client, uint32_t bytes);
/* The same with given bytes. */
void group_send_bytes(struct group *, uint32_t client, const void *payload, uint32_t bytes);

/* ---- looking ---- */

struct unit_status group_stats(const struct group *, uint32_t rank);
/* Rank of the leader of the highest ballot that is up and serves; n if there is none. */
uint32_t group_leader(const struct group *);
/* Every replica that is up and not held has applied all that was ever applied, and is no longer
 * behind. */
bool group_even(const struct group *);
/* group_even, and every message that a client sent was applied. */
bool group_delivered(const struct group *);
/* The lane at `owner` that `writer` leads with. */
const struct mem_lane *group_lane(const struct group *, uint32_t owner, uint32_t writer);

/* ---- verdicts ---- */

bool group_failed(const struct group *);
void group_violated(struct group *, const char *property, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Ticks until the condition holds; after ns it is a violation of liveness. */
#define GROUP_WAIT(g, cond, ns)                                                                    \
    do {                                                                                           \
        uint64_t wait_end_ = group_now(g) + (ns);                                                  \
        while (!group_failed(g) && !(cond)) {                                                      \
            if (group_now(g) >= wait_end_)                                                         \
                group_violated(g, "liveness", "line %d: not in time: %s", __LINE__, #cond);        \
            group_tick(g);                                                                         \
        }                                                                                          \
    } while (0)

/* What a scenario takes for granted; if it does not hold the scenario shows nothing. */
#define GROUP_SETUP(g, cond)                                                                       \
    do {                                                                                           \
        if (!group_failed(g) && !(cond))                                                           \
            group_violated(g, "setup", "line %d: not as wanted: %s", __LINE__, #cond);             \
    } while (0)

/* What a scenario is about, beyond the checkers. */
#define GROUP_MUST(g, property, cond)                                                              \
    do {                                                                                           \
        if (!group_failed(g) && !(cond))                                                           \
            group_violated(g, property, "line %d: does not hold: %s", __LINE__, #cond);            \
    } while (0)

#endif
