/* For tests of groups with views: hosts in a simulated memory, stepped by hand.
 *
 * Nothing moves unless a test makes it: a tick gives every host that is up and not held one round and lets a little time pass. Every way
 * takes the same time and nothing tears, so that a schedule is what its test says. The checkers of sim/group_check.h run all along. The
 * first violation is kept, and nothing is waited for after it: a scenario ends with views_close, which says what was violated or NULL. So
 * the same scenario shows that the group is right and that a planted mistake is found. */
#ifndef TESTS_GROUP_FIXTURE_H
#define TESTS_GROUP_FIXTURE_H

#include "disk/block_sim.h"
#include "group/member.h"
#include "mem/sim/sim.h"
#include "sim/group_check.h"

#define US UINT64_C(1000)

enum { VIEWS_RING = 4096 };

struct views_options {
    uint32_t hosts, keepers, cells; /* keepers: the first of the hosts; cells 0: 1 */
    bool shared;                    /* common lanes are one memory */
    bool links;                     /* connections, which break */
    bool majority;
    bool
        durable; /* cells are, and hosts have disks, which lose what is not flushed when the power is cut; with majority */
    uint32_t
        backlog; /* bytes, for what is delivered while a state is sent; 0: the least that will do */
    uint32_t pad;          /* bytes of a state, beside the real ones; 0: 500 */
    uint32_t block_bytes;  /* cells have large messages, in blocks of so many; 0: they have none */
    uint32_t clients;      /* places for clients */
    uint32_t client_hosts; /* at which they send; 0: all */
    uint64_t seed;         /* how the memory behaves where it may choose; 0: 1 */
    struct cell_layout layout[GROUP_CHECK_CELLS_MAX]; /* hosts 0: all, with all as senders */
};

struct views;

struct views_host {
    struct counter_machine counter[GROUP_CHECK_CELLS_MAX]; /* first: on_load finds the host by it */
    struct views *of;
    uint32_t number;
    struct mem *mem;
    struct member *member;
    struct unit unit; /* of is NULL while it is down */
    bool held;        /* it is not stepped */

    /* The disk of what the keepers decide, and that of the versions; NULL: it has none, or they are not open. */
    struct disk_sim *platters[2];
    uint64_t disk_ns;
    struct disk *disk;
    struct versions *versions;
};

/* A client, which sends to cell 0 alone. */
struct views_client {
    struct views *of;
    struct mem *mem;
    struct group_client *client; /* NULL: it is not open */
    uint64_t first;              /* of its messages, in the checker */
    uint64_t done, fed;
};

struct views {
    struct views_options opt;
    struct sim *sim;
    struct run_result result;
    struct group_check check;
    uint32_t keeper[GROUP_KEEPERS_MAX];
    struct cell_options cell[GROUP_CHECK_CELLS_MAX];
    struct views_host host[GROUP_CHECK_HOSTS_MAX];
    struct client_cell client_cell;
    struct views_client client[GROUP_CLIENTS_MAX];
};

/* All hosts are up, and in view 1. */
struct views *views_open(const struct views_options *);
const char *views_close(struct views *);

void views_tick(struct views *);
void views_run(struct views *, uint64_t us);

/* One round of one host, and a half of one. */
void views_step(struct views *, uint32_t host);

void views_kill(struct views *, uint32_t host, bool keep_memory);
void views_start(struct views *, uint32_t host);
/* Of all of them at once. */
void views_power_cut(struct views *, uint64_t hosts);
/* It stands still, as if stopped; it goes on. */
void views_hold(struct views *, uint32_t host);
void views_release(struct views *, uint32_t host);
/* Both ways between two hosts. */
void views_cut(struct views *, uint32_t a, uint32_t b, bool cut);

/* False: not now. */
bool views_send(struct views *, uint32_t host, uint32_t cell, uint32_t bytes);

/* A client opens, is stepped, and sends; its first host is the one of its number. */
void views_client_open(struct views *, uint32_t client);
void views_client_step(struct views *, uint32_t client);
void views_client_send(struct views *, uint32_t client, uint32_t bytes);
/* Until it has room for no more. */
void views_client_fill(struct views *, uint32_t client, uint32_t bytes);

/* Messages of the cell that the host has delivered, those in its state included. */
uint64_t views_delivered(const struct views *, uint32_t host, uint32_t cell);
/* The view that the host is in; 0: none. */
uint64_t views_vid(const struct views *, uint32_t host);
/* The hosts are in one view of them and nobody else, with all states, and nothing is outstanding. */
bool views_settled(const struct views *, uint64_t hosts);

/* Ticks until then; a violation of liveness if that takes so long. */
void views_until_settled(struct views *, uint64_t hosts, uint64_t us);
void views_violated(struct views *, const char *property, const char *text);

#endif
