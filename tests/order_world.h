/* For tests of mcast/order.h: groups that have nothing but an order each. What is a log and streams in
 * a replica is here a queue per pair, taken from by chance: first in, first out between any two, and in
 * any order otherwise.
 *
 * Every group has two orders that are told the same. One stays as it is; the other is saved now and then
 * and goes on from what was saved. They must say the same all along. */
#ifndef TESTS_ORDER_WORLD_H
#define TESTS_ORDER_WORLD_H

#include <stdbool.h>
#include <stdint.h>

struct world_options {
    uint64_t seed;
    uint32_t groups;
    uint32_t clients;
    uint32_t casts;      /* messages of all clients together */
    uint32_t dst_max;    /* destinations of a message, 2 to so many; 0: all groups */
    uint32_t body_max;   /* bytes */
    uint32_t save_every; /* steps, more or less; 0: never */
    bool deaths;         /* clients die half-way, and others come in their places */
    bool suspicious;     /* messages are relayed that need not be */
    bool late;           /* the first group takes nothing until everybody else has nothing to do */
};

/* What came about in a run: a test that is about one of these wants to see some. */
struct world_seen {
    uint64_t delivered;
    uint64_t homes;         /* final stamps told */
    uint64_t relays;        /* told, */
    uint64_t relays_taken;  /* and taken, */
    uint64_t relays_over;   /* these after the client's next life was known, */
    uint64_t relays_late;   /* or not needed */
    uint64_t copies_marked; /* a client's own, after a relay was taken */
    uint64_t lost;          /* messages that nobody got from their client */
    uint64_t saves;
    uint32_t pending_max; /* of one group */
};

/* Returns what was violated, and prints more; or NULL. */
const char *world_run(const struct world_options *, struct world_seen *);

#endif
