/* What schedules for the log have in common: groups that serve, and steps by which a schedule gets to where it wants to
 * be. */
#ifndef TESTS_LOG_SCHEDULES_IMPL_H
#define TESTS_LOG_SCHEDULES_IMPL_H

#include "log_fixture.h"

enum { BYTES = 40 }; /* of an ordinary message */

/* A group whose rank 0 leads, with one message from client 0 applied by all, as all their rows say.
 * */
static inline struct group *serving(const struct group_options *o)
{
    struct group *g = group_open(o);
    GROUP_WAIT(g, group_leader(g) == 0, GROUP_ELECT_NS);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    group_run(g, 2 * GROUP_HEARTBEAT_NS);
    return g;
}

static inline struct group *serving_of(uint32_t replicas, uint32_t clients)
{
    return serving(&(struct group_options){.replicas = replicas, .clients = clients, .seed = 1});
}

static inline uint32_t client_node(const struct group *g, uint32_t client)
{
    return g->n + g->opt.memories + client;
}

/* What a client sends from now on reaches only this replica. */
static inline void client_reaches_only(struct group *g, uint32_t client, uint32_t rank)
{
    for (uint32_t q = 0; q < g->n; q++)
        group_cut(g, client_node(g, client), q, q != rank);
}

static inline void client_reaches_all(struct group *g, uint32_t client)
{
    for (uint32_t q = 0; q < g->n; q++)
        group_cut(g, client_node(g, client), q, false);
}

static inline void hold_others(struct group *g, uint32_t rank)
{
    for (uint32_t q = 0; q < g->n; q++)
        if (q != rank && g->replica[q].log)
            group_hold(g, q, true);
}

/* This one alone is stepped. */
static inline void hold_all_but(struct group *g, uint32_t rank)
{
    hold_others(g, rank);
    if (g->replica[rank].log)
        group_hold(g, rank, false);
}

static inline void cut_both_ways(struct group *g, uint32_t a, uint32_t b, bool cut)
{
    group_cut(g, a, b, cut);
    group_cut(g, b, a, cut);
}

static inline void release_all(struct group *g)
{
    for (uint32_t q = 0; q < g->n; q++)
        if (g->replica[q].log)
            group_hold(g, q, false);
}

static inline void heal_all(struct group *g)
{
    for (uint32_t a = 0; a < g->n + g->opt.memories + g->clients; a++)
        group_cut_off(g, a, false);
    release_all(g);
}

/* Everybody else stands still while the replica, told that they are dead until it runs, raises,
 * reads, and begins to rewrite. Their memories answer it where they are not cut off. Nothing is on
 * its way to them yet when this returns. */
static inline void take_over(struct group *g, uint32_t rank)
{
    uint64_t highest = 0;
    hold_others(g, rank);
    group_hold(g, rank, false);
    for (uint32_t q = 0; q < g->n; q++) {
        uint64_t promised = sim_promised(g->sim, q, GROUP_REGION);
        if (promised != MEM_CLOSED && promised > highest)
            highest = promised;
    }
    uint64_t end = group_now(g) + 3 * GROUP_ELECT_NS;
    for (;;) {
        struct unit_status s = group_stats(g, rank);
        bool runs = s.epoch > highest;
        for (uint32_t q = 0; q < g->n; q++)
            group_lie(g, rank, q, q != rank && !runs);
        if (group_failed(g) || (runs && s.role >= UNIT_SYNC))
            break;
        GROUP_SETUP(g, group_now(g) < end);
        group_tick(g);
    }
    for (uint32_t q = 0; q < g->n; q++)
        group_lie(g, rank, q, false);
}

/* The replica hears what comes back, and writes nothing of its own accord. */
static inline void settle_for(struct group *g, uint32_t rank, uint64_t ns)
{
    for (uint64_t end = group_now(g) + ns; group_now(g) < end;) {
        group_pass(g, 100);
        group_settle(g, rank);
    }
}

/* The replica writes once and hears the answers: an entry that it decides here it applies, and
 * nobody has been told of it when this returns. */
static inline void post_once(struct group *g, uint32_t rank)
{
    group_pass(g, 2 * GROUP_WAY_NS);
    group_post(g, rank);
    settle_for(g, rank, 4 * GROUP_WAY_NS);
}

static inline uint64_t guard_at(const struct group *g, uint32_t owner, uint32_t writer)
{
    return mem_word(group_lane(g, owner, writer), LOG_GUARD);
}

static inline uint64_t commit_at(const struct group *g, uint32_t owner, uint32_t writer)
{
    return mem_word(group_lane(g, owner, writer), LOG_COMMIT);
}

/* One message after the other, each applied by all that are up before the next is sent. */
static inline void traffic(struct group *g, uint32_t client, uint32_t count, uint32_t bytes)
{
    for (uint32_t i = 0; i < count && !group_failed(g); i++) {
        uint32_t target = g->history_count + 1;
        group_send(g, client, bytes);
        GROUP_WAIT(g, g->history_count >= target, GROUP_ELECT_NS);
    }
}

/* Steps the replica alone, told that all others are dead, until it has just come into that state, or a later one. */
static inline void step_until(struct group *g, uint32_t rank, enum unit_role state)
{
    settle_for(g, rank, US); /* it may not know yet that it was deposed */
    for (int i = 0; i < 10000 && group_stats(g, rank).role < state; i++) {
        for (uint32_t q = 0; q < g->n; q++)
            group_lie(g, rank, q, q != rank);
        group_post(g, rank);
        group_pass(g, 100);
        group_settle(g, rank);
    }
    for (uint32_t q = 0; q < g->n; q++)
        group_lie(g, rank, q, false);
    GROUP_SETUP(g, group_stats(g, rank).role >= state);
}

/* The end of a schedule: everybody runs and hears everybody again, and a message of the client is applied by all within the
 * time of so many elections. */
static inline const char *heals(struct group *g, uint32_t client, uint32_t elections)
{
    heal_all(g);
    group_send(g, client, BYTES);
    GROUP_WAIT(g, group_delivered(g), elections * GROUP_ELECT_NS);
    return group_close(g);
}

#endif
