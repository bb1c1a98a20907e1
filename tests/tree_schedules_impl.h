/* What schedules for a tree have in common: a forest that serves, and steps by which a schedule gets to where it wants to
 * be. */
#ifndef TESTS_TREE_SCHEDULES_IMPL_H
#define TESTS_TREE_SCHEDULES_IMPL_H

#include "agree/lanes.h"
#include "tree_fixture.h"

enum { BODY = 40 };                     /* of an ordinary message */
enum { ROOT = 1, A = 2, B = 4, C = 8 }; /* masks of the groups 0 to 3 */
enum { AT_ROOT, AT_A, AT_B };           /* the groups themselves */

static const uint16_t chain[] = {OVERLAY_NONE, 0, 1, 2};

/* Groups that rank 0 leads, with one message from client 0 delivered by all of them, as all their rows
 * say. */
static inline struct forest *grown(const struct forest_options *o)
{
    struct forest *f = forest_open(o);
    for (uint16_t g = 0; g < f->opt.groups; g++)
        FOREST_WAIT(f, forest_leader(f, g) == 0, FOREST_LONG_NS);
    FOREST_SETUP(f, forest_cast(f, 0, (uint8_t)((1u << f->opt.groups) - 1), BODY));
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    forest_run(f, 2 * FOREST_HEARTBEAT_NS);
    return f;
}

static inline struct forest *grown_of(uint32_t replicas, uint32_t clients)
{
    return grown(
        &(struct forest_options){.groups = 2, .replicas = replicas, .clients = clients, .seed = 1});
}

/* What a client casts from now on reaches only this replica of the root; n: none. */
static inline void client_reaches_only(struct forest *f, uint32_t client, uint32_t rank)
{
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        sim_cut(f->sim, forest_client_node(f, client), forest_node(f, AT_ROOT, q), q != rank);
}

static inline void cut_inside(struct forest *f, uint16_t group, uint32_t from, uint32_t to,
                              bool cut)
{
    sim_cut(f->sim, forest_node(f, group, from), forest_node(f, group, to), cut);
}

/* The ways from one replica, or all of them, to the group below. */
static inline void cut_down(struct forest *f, uint16_t child, uint32_t rank, bool cut)
{
    uint16_t parent = overlay_parent(f->overlay, child);
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        sim_cut(f->sim, forest_node(f, parent, rank), forest_node(f, child, q), cut);
}

static inline void cut_all_down(struct forest *f, uint16_t child, bool cut)
{
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        cut_down(f, child, q, cut);
}

static inline void hold_others(struct forest *f, uint16_t group, uint32_t rank)
{
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        f->replica[group][q].held = q != rank;
}

static inline void heal_all(struct forest *f)
{
    for (uint32_t i = 0; i < f->sizes.client_node + f->opt.clients; i++)
        forest_cut_off(f, i, false);
    for (uint16_t g = 0; g < f->opt.groups; g++)
        forest_hold(f, g, false);
}

/* The rest of the group stands still while the replica, told that they are dead until it runs, raises,
 * reads, and begins to rewrite. Their memories answer it where they are not cut off. Nothing is on
 * its way to them yet when this returns. */
static inline void take_over(struct forest *f, uint16_t group, uint32_t rank)
{
    uint64_t highest = 0;
    hold_others(f, group, rank);
    for (uint32_t q = 0; q < f->opt.replicas; q++) {
        uint64_t promised = sim_promised(f->sim, forest_node(f, group, q), group);
        if (promised != MEM_CLOSED && promised > highest)
            highest = promised;
    }
    uint64_t end = forest_now(f) + FOREST_LONG_NS;
    for (;;) {
        struct unit_status s = forest_stats(f, group, rank);
        bool runs = s.epoch > highest;
        for (uint32_t q = 0; q < f->opt.replicas; q++)
            forest_lie(f, group, rank, q, q != rank && !runs);
        if (forest_failed(f) || (runs && s.role >= UNIT_SYNC))
            break;
        FOREST_SETUP(f, forest_now(f) < end);
        forest_tick(f);
    }
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        forest_lie(f, group, rank, q, false);
}

/* The replica hears what comes back, and takes nothing of its own accord. */
static inline void settle_for(struct forest *f, uint16_t group, uint32_t rank, uint64_t ns)
{
    for (uint64_t end = forest_now(f) + ns; forest_now(f) < end;) {
        forest_pass(f, 100);
        forest_settle(f, group, rank);
    }
}

/* The replica writes once and hears the answers: an entry that it decides here it applies, and
 * none of its group has been told of it when this returns. */
static inline void post_once(struct forest *f, uint16_t group, uint32_t rank)
{
    forest_pass(f, 2 * FOREST_WAY_NS);
    forest_post(f, group, rank);
    settle_for(f, group, rank, 4 * FOREST_WAY_NS);
}

static inline uint64_t guard_at(const struct forest *f, uint16_t group, uint32_t owner,
                                uint32_t writer)
{
    return mem_word(forest_log_lane(f, group, owner, writer), LOG_GUARD);
}

static inline uint64_t commit_at(const struct forest *f, uint16_t group, uint32_t owner,
                                 uint32_t writer)
{
    return mem_word(forest_log_lane(f, group, owner, writer), LOG_COMMIT);
}

static inline uint32_t delivered_in(const struct forest *f, uint16_t group)
{
    return f->check.group[group].count;
}

/* One message after the other, each answered before the next is cast. */
static inline void traffic(struct forest *f, uint32_t client, uint8_t mask, uint32_t count,
                           uint32_t bytes)
{
    for (uint32_t i = 0; i < count && !forest_failed(f); i++) {
        FOREST_WAIT(f, forest_cast(f, client, mask, bytes), FOREST_LONG_NS);
        FOREST_WAIT(f, caster_outstanding(f->client[client].caster) == 0, FOREST_LONG_NS);
    }
}

static inline const char *all_delivered(struct forest *f)
{
    heal_all(f);
    forest_start_all(f);
    FOREST_WAIT(f, forest_led(f) && forest_delivered(f), FOREST_LONG_NS);
    return forest_close(f);
}

/* One of the root's replicas leads that is neither the first nor the late one. */
static inline bool another_leads(const struct forest *f, uint32_t n, uint32_t late)
{
    for (uint32_t q = 1; q < n; q++)
        if (q != late && forest_stats(f, AT_ROOT, q).role == UNIT_LEADER)
            return true;
    return false;
}

#endif
