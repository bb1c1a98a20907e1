#include "genuine_schedules.h"

#include "mcast/protocol.h"
#include "tree_fixture.h"

enum { A, B, C, D, E }; /* groups */

#define TO(group) (1u << (group))

static struct forest *genuine(uint32_t groups, uint32_t clients, uint64_t seed)
{
    return forest_open_led(&(struct forest_options){
        .protocol = MCAST_GENUINE, .groups = groups, .clients = clients, .seed = seed});
}

static uint8_t all_of(uint32_t groups)
{
    return (uint8_t)((1u << groups) - 1);
}

static void delivered(struct forest *f)
{
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
}

/* One message, then silence, its client not even looking: within a few heartbeats every replica of every
 * destination has it (schedule 20). */
const char *genuine_single_message(uint8_t mask)
{
    struct forest *f = genuine(4, 1, mask);
    FOREST_SETUP(f, forest_cast(f, 0, mask, 64));
    f->client[0].held = true;
    FOREST_WAIT(f, forest_cast_of(f, 0, 0)->delivered == mask && forest_even(f),
                6 * FOREST_HEARTBEAT_NS);
    f->client[0].held = false;
    delivered(f);
    return forest_close(f);
}

/* ---- order ---- */

/* {A,B}, {B,C} and {C,A} at the same time from several clients, ways of random lengths and leaders
 * that die: no circle (schedule 22; checked at the end). */
const char *genuine_circle(uint32_t run)
{
    static const uint8_t pairs[] = {TO(A) | TO(B), TO(B) | TO(C), TO(A) | TO(C)};
    struct forest *f = forest_open_led(&(struct forest_options){
        .protocol = MCAST_GENUINE, .groups = 3, .clients = 3, .seed = 220 + run, .rough = true});
    for (uint32_t i = 0; i < 300; i++) {
        for (uint32_t c = 0; c < 3; c++)
            forest_cast(f, c, pairs[(c + i) % 3], 20);
        if (i % 100 == 50) {
            uint16_t group = (uint16_t)((i / 100 + run) % 3);
            forest_crash(f, group, forest_leader(f, group) % 3, true);
        }
        if (i % 100 == 99)
            forest_start_all(f);
        forest_tick(f);
    }
    forest_come_back(f);
    FOREST_MUST(f, f->check.group[A].count > 100);
    return forest_close(f);
}

/* Two clients' messages to A and B: the first comes to A first, the second to B. */
static void cast_in_opposite_orders(struct forest *f)
{
    forest_cut_client(f, 0, B, FOREST_ALL, true);
    forest_cut_client(f, 1, A, FOREST_ALL, true);
    FOREST_SETUP(f, forest_cast(f, 0, TO(A) | TO(B), 30));
    FOREST_SETUP(f, forest_cast(f, 1, TO(A) | TO(B), 30));
    forest_run(f, 10 * US);
}

static void let_the_rest_come(struct forest *f, uint32_t but_of_a)
{
    forest_cut_client(f, 0, B, FOREST_ALL, false);
    forest_cut_client(f, 1, A, FOREST_ALL & ~but_of_a, false);
}

/* What clients write does not reach some followers before much later messages were delivered, and two
 * groups get messages in opposite orders. Everybody delivers them in one order, with the bodies that
 * came through the log. Some were delivered before, whose places are taken again. */
const char *genuine_opposite_orders(uint32_t unreached)
{
    struct forest *f = genuine(2, 2, 231);
    for (uint32_t i = 0; i < 3; i++)
        FOREST_SETUP(f, forest_cast(f, i % 2, TO(A) | TO(B), 200));
    delivered(f);
    unreached &= ~(1u << forest_leader(f, A));
    for (uint32_t c = 0; c < 2; c++)
        forest_cut_client(f, c, A, unreached, true);
    cast_in_opposite_orders(f);
    let_the_rest_come(f, unreached);
    delivered(f);
    FOREST_MUST(f, f->check.group[A].count == 5);
    for (uint32_t c = 0; c < 2; c++)
        forest_cut_client(f, c, A, unreached, false);
    FOREST_SETUP(f, forest_cast(f, 0, TO(A) | TO(B), 10));
    delivered(f);
    return forest_close(f);
}

/* Gives B a clock far ahead of all but C's. */
static void raise_clock_of_b(struct forest *f, uint16_t with)
{
    for (uint32_t i = 0; i < 20; i++)
        FOREST_WAIT(f, forest_cast(f, 0, (uint8_t)(TO(B) | TO(with)), 10), FOREST_LONG_NS);
    delivered(f);
}

/* The stamps of B, which are higher than A's, reach only the leader of A; it delivers and dies. Who
 * leads next has never heard of them but through the log, and delivers the same. */
const char *genuine_stamps_reach_the_leader_only(bool keep_memory)
{
    struct forest *f = genuine(3, 2, 232);
    raise_clock_of_b(f, C);
    uint32_t leader = forest_leader(f, A);
    forest_cut(f, B, A, true);
    for (uint32_t q = 0; q < 3; q++)
        sim_cut(f->sim, forest_node(f, B, q), forest_node(f, A, leader), false);
    cast_in_opposite_orders(f);
    let_the_rest_come(f, 0);
    FOREST_WAIT(f, f->replica[A][leader].counter.state.count == 2, FOREST_LONG_NS);
    forest_crash(f, A, leader, keep_memory);
    FOREST_WAIT(f,
                forest_leader(f, A) < 3 &&
                    f->replica[A][forest_leader(f, A) % 3].counter.state.count == 2,
                FOREST_LONG_NS);
    forest_cut(f, B, A, false);
    forest_come_back(f);
    FOREST_SETUP(f, forest_cast(f, 0, TO(A) | TO(B), 10));
    delivered(f);
    return forest_close(f);
}

/* A delivers m1, which B stamped high. B delivered m3, to B and C, before it; C has not heard of
 * B's stamp for that. Whatever A stamps from then on comes after m1, so m2, to A and C, comes after m3 in C:
 * else m1 is before m2 in A, m2 before m3 in C, m3 before m1 in B. With a snapshot, A is then led by a
 * replica that knows of B's stamps by that alone. */
const char *genuine_high_stamp_of_another(bool from_snapshot)
{
    struct forest *f = genuine(4, 2, 233);
    uint32_t follower = (forest_leader(f, A) + 1) % 3;
    raise_clock_of_b(f, D);
    forest_cut(f, B, C, true);
    FOREST_SETUP(f, forest_cast(f, 0, TO(B) | TO(C), 10)); /* m3 */
    forest_run(f, 10 * US);
    FOREST_SETUP(f, forest_cast(f, 0, TO(A) | TO(B), 10)); /* m1 */
    FOREST_WAIT(f,
                f->replica[A][0].counter.state.count == 1 &&
                    f->replica[A][1].counter.state.count == 1 &&
                    f->replica[A][2].counter.state.count == 1,
                FOREST_LONG_NS);
    if (from_snapshot) {
        forest_crash(f, A, follower, false);
        forest_run(f, 50 * US);
        forest_start(f, A, follower);
        FOREST_WAIT(f,
                    f->replica[A][follower].counter.state.count == 1 &&
                        forest_stats(f, A, follower).role != UNIT_JOINING,
                    FOREST_LONG_NS);
        forest_lead(f, A, follower);
    }
    FOREST_SETUP(f, forest_cast(f, 1, TO(A) | TO(C), 10)); /* m2 */
    forest_run(f, 20 * US);
    FOREST_SETUP(f, f->check.group[C].count == 0);
    forest_cut(f, B, C, false);
    forest_come_back(f);
    return forest_close(f);
}

/* ---- leaders ---- */

/* The leaders of two groups die in the same window, in every order of what
 * they had done by then; nothing is lost and neither stream has a gap (schedule 14). */
const char *genuine_leaders_die_together(uint32_t first_at, uint32_t second_at)
{
    bool keep = (first_at + second_at) % 3 != 0;
    struct forest *f = forest_open_led(&(struct forest_options){.protocol = MCAST_GENUINE,
                                                                .groups = 2,
                                                                .clients = 2,
                                                                .seed = first_at * 100 + second_at,
                                                                .rough = second_at % 2});
    FOREST_SETUP(f, forest_cast(f, 0, TO(A) | TO(B), 100));
    FOREST_SETUP(f, forest_cast(f, 1, TO(A) | TO(B), 10));
    FOREST_SETUP(f, forest_cast(f, 0, TO(B), 20));
    for (uint32_t tick = 0; tick < 12; tick++) {
        if (tick == first_at)
            forest_crash(f, A, forest_leader(f, A) % 3, keep);
        if (tick == second_at)
            forest_crash(f, B, forest_leader(f, B) % 3, true);
        if (tick == 6)
            FOREST_SETUP(f, forest_cast(f, 0, TO(A) | TO(B), 60));
        forest_tick(f);
    }
    delivered(f);
    forest_come_back(f);
    FOREST_MUST(f, f->check.group[B].count == 4);
    return forest_close(f);
}

/* The leader of A writes a message to one replica of five, hears nothing of B, and is gone; the next
 * leads without that one, and another message is delivered; then the one that has the old entry leads.
 * What it finds comes after what was delivered, also in B, which has had it first from its client. */
const char *genuine_minority_stamp(void)
{
    struct forest *f = forest_open_led(&(struct forest_options){
        .protocol = MCAST_GENUINE, .groups = 2, .replicas = 5, .clients = 2, .seed = 236});
    uint32_t p = forest_leader(f, A), r = (p + 1) % 5;
    forest_cut_client(f, 0, A, FOREST_ALL & ~(1u << p), true);
    for (uint32_t q = 0; q < 5; q++)
        if (q != p && q != r)
            sim_cut(f->sim, forest_node(f, A, p), forest_node(f, A, q), true);
    for (uint32_t q = 0; q < 5; q++)
        sim_cut(f->sim, forest_node(f, B, q), forest_node(f, A, p), true);
    FOREST_SETUP(f, forest_cast(f, 0, TO(A) | TO(B), 10));
    forest_run(f, 5 * US);
    FOREST_SETUP(f, forest_leader(f, A) == p);
    forest_crash(f, A, p, false);

    f->replica[A][r].held = true;
    for (uint32_t q = 0; q < 5; q++)
        sim_cut(f->sim, forest_node(f, A, q), forest_node(f, A, r), q != r);
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    FOREST_SETUP(f, forest_cast(f, 1, TO(A) | TO(B), 10));
    FOREST_WAIT(f, f->check.group[A].count == 1, FOREST_LONG_NS);

    forest_cut(f, A, A, false);
    forest_cut(f, B, A, false);
    f->replica[A][r].held = false;
    forest_lead(f, A, r);
    forest_cut_client(f, 0, A, FOREST_ALL, false);
    forest_come_back(f);
    FOREST_MUST(f, f->check.group[B].count == 2);
    return forest_close(f);
}

/* A has stamped messages that other groups wait for, and its leader could not tell them before it
 * died. The next one does. */
const char *genuine_stamps_untold(uint32_t destinations)
{
    struct forest *f = genuine(destinations, 1, 237);
    uint32_t leader = forest_leader(f, A);
    for (uint16_t g = 1; g < destinations; g++)
        for (uint32_t q = 0; q < 3; q++)
            sim_cut(f->sim, forest_node(f, A, leader), forest_node(f, g, q), true);
    for (uint32_t i = 0; i < 5; i++)
        FOREST_SETUP(f, forest_cast(f, 0, all_of(destinations), 50));
    forest_run(f, 30 * US);
    for (uint16_t g = 1; g < destinations; g++)
        FOREST_SETUP(f, f->check.group[g].count == 0);
    forest_crash(f, A, leader, true);
    delivered(f);
    for (uint16_t g = 1; g < destinations; g++)
        for (uint32_t q = 0; q < 3; q++)
            sim_cut(f->sim, forest_node(f, A, leader), forest_node(f, g, q), false);
    forest_come_back(f);
    return forest_close(f);
}

/* A message to A alone has reached only its leader, who cannot write to its followers; client and
 * leader die. It was delivered by nobody, and what comes later is delivered in its place. */
const char *genuine_body_at_the_leader_only(void)
{
    struct forest *f = genuine(2, 2, 2312);
    uint32_t leader = forest_leader(f, A);
    forest_cut_client(f, 0, A, FOREST_ALL & ~(1u << leader), true);
    for (uint32_t q = 0; q < 3; q++)
        sim_cut(f->sim, forest_node(f, A, leader), forest_node(f, A, q), q != leader);
    FOREST_SETUP(f, forest_cast(f, 0, TO(A), 100));
    forest_run(f, 10 * US);
    forest_client_crash(f, 0);
    forest_crash(f, A, leader, false);
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    FOREST_SETUP(f, forest_cast(f, 1, TO(A), 50));
    delivered(f);
    forest_cut(f, A, A, false);
    forest_come_back(f);
    FOREST_MUST(f, f->check.group[A].count == 1);
    return forest_close(f);
}

/* The leader of A has lost its followers to another and does not know; B still tells it its stamps.
 * It gets a message first and delivers nothing; those who follow the other get another message first. */
const char *genuine_deposed_leader_hears_a_stamp(void)
{
    struct forest *f = forest_open_led(&(struct forest_options){
        .protocol = MCAST_GENUINE, .groups = 3, .replicas = 5, .clients = 2, .seed = 2313});
    raise_clock_of_b(f, C);
    uint32_t p = forest_leader(f, A);
    for (uint32_t q = 0; q < 5; q++) {
        sim_cut(f->sim, forest_node(f, A, p), forest_node(f, A, q), q != p);
        sim_cut(f->sim, forest_node(f, A, q), forest_node(f, A, p), q != p);
    }
    forest_cut_client(f, 0, A, FOREST_ALL & ~(1u << p), true);
    FOREST_SETUP(f, forest_cast(f, 0, TO(A) | TO(B), 10));
    forest_run(f, 20 * US);
    FOREST_WAIT(f, forest_leader(f, A) != p && forest_led(f), FOREST_LONG_NS);
    FOREST_SETUP(f, forest_cast(f, 1, TO(A) | TO(B), 10));
    FOREST_WAIT(f, f->replica[A][forest_leader(f, A) % 5].counter.state.count == 1, FOREST_LONG_NS);
    forest_cut(f, A, A, false);
    forest_cut_client(f, 0, A, FOREST_ALL, false);
    delivered(f);
    FOREST_MUST(f, f->check.group[A].count == 2);
    return forest_close(f);
}

/* ---- relays ---- */

static void suspect_client(struct forest *f, uint16_t group, uint32_t client)
{
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        sim_oracle_lie(f->sim, forest_node(f, group, q), f->sizes.client_node + client,
                       SIM_SAYS_DEAD);
}

/* A hears nothing of B for a while and takes the client for dead. What it relays comes to B when B
 * has delivered the message. It is delivered once, and what follows is not held up. */
const char *genuine_relay_after_delivery(void)
{
    struct forest *f = genuine(2, 1, 2310);
    suspect_client(f, A, 0);
    forest_cut(f, B, A, true);
    FOREST_SETUP(f, forest_cast(f, 0, TO(A) | TO(B), 100));
    forest_run(f, 10 * FOREST_HEARTBEAT_NS);
    FOREST_MUST(f, f->check.group[B].count == 1 && f->check.group[A].count == 0);
    forest_cut(f, B, A, false);
    delivered(f);
    FOREST_SETUP(f, forest_cast(f, 0, TO(A) | TO(B), 10));
    delivered(f);
    return forest_close(f);
}

/* A client is slow in writing to B and is taken for dead; its own copy comes at any time before,
 * while and after what was relayed is delivered there. */
const char *genuine_copy_after_relay(uint32_t destinations, uint32_t heal_ticks)
{
    struct forest *f = genuine(destinations, 1, 2310 + heal_ticks);
    for (uint16_t g = 0; g < destinations; g++)
        suspect_client(f, g, 0);
    forest_cut_client(f, 0, B, FOREST_ALL, true);
    FOREST_SETUP(f, forest_cast(f, 0, all_of(destinations), 100));
    forest_run(f, heal_ticks * FOREST_TICK_NS);
    forest_cut_client(f, 0, B, FOREST_ALL, false);
    delivered(f);
    FOREST_SETUP(f, forest_cast(f, 0, all_of(destinations), 10));
    delivered(f);
    return forest_close(f);
}

/* A client has written its message to some of its destinations; the ways to the others are cut. */
static struct forest *reached_some(uint32_t groups, uint32_t reached, uint64_t seed)
{
    struct forest *f = genuine(groups, 2, seed);
    f->client[0].held = true;
    for (uint16_t g = 0; g < groups; g++)
        if (!(reached >> g & 1))
            forest_cut_client(f, 0, g, FOREST_ALL, true);
    FOREST_SETUP(f, forest_cast(f, 0, all_of(groups), 150));
    forest_pass(f, 5 * US);
    return f;
}

static void all_or_none(struct forest *f, uint32_t sender, uint32_t reached, uint64_t ns)
{
    const struct cast *m = &f->check.cast[sender][0];
    uint8_t all = all_of(f->opt.groups);
    FOREST_WAIT(f, !reached || m->delivered == all, ns);
    FOREST_SETUP(f, forest_cast(f, 1, all, 20));
    forest_come_back(f);
    /* What was on its way when the client died may have landed yet. */
    FOREST_MUST(f, m->delivered == all || (!reached && m->delivered == 0));
}

/* A client dies when its message has reached all replicas of some of its destinations. These relay it, and
 * all deliver it; the leader of one of them may die at any moment of that. */
const char *genuine_client_dies_among_groups(uint32_t groups, uint32_t reached, int leader_dies_at)
{
    struct forest *f = reached_some(groups, reached, 100 + reached);
    uint32_t sender = forest_sender(f, 0);
    uint16_t relays = 0;
    while (relays + 1u < groups && !(reached >> relays & 1))
        relays++;
    forest_client_crash(f, 0);
    if (leader_dies_at >= 0) {
        forest_run(f, (uint64_t)leader_dies_at * FOREST_TICK_NS);
        forest_crash(f, relays, forest_leader(f, relays) % 3, leader_dies_at % 2);
    }
    all_or_none(f, sender, reached, FOREST_LONG_NS);
    return forest_close(f);
}

/* The same, and another process takes the place at once: its messages come to the others before what is
 * relayed of the first, and say that the first is dead. */
const char *genuine_client_replaced_among_groups(uint32_t groups, uint32_t reached)
{
    struct forest *f = reached_some(groups, reached, 200 + reached);
    uint32_t sender = forest_sender(f, 0);
    forest_run(f, 2 * FOREST_LOST_NS);
    forest_client_crash(f, 0);
    for (uint16_t g = 0; g < groups; g++)
        forest_cut_client(f, 0, g, FOREST_ALL, false);
    forest_client_start(f, 0);
    for (uint32_t i = 0; i < 3; i++)
        FOREST_SETUP(f, forest_cast(f, 0, all_of(groups), 20));
    /* A few looks of who has it, and a few more of its home. */
    all_or_none(f, sender, reached, 10 * FOREST_HEARTBEAT_NS);
    return forest_close(f);
}

/* What a group keeps, in its snapshots, of messages to several groups. */
static uint64_t kept_bytes(struct forest *f, uint16_t group, uint32_t rank)
{
    return protocol_genuine.bytes(f->replica[group][rank].tree);
}

/* The same, and the next process in the place sends messages to one group only, to each: then nothing is left of what
 * was relayed for the first, anywhere. */
const char *genuine_marks_of_the_dead(uint32_t groups, uint32_t reached)
{
    struct forest *idle = genuine(groups, 2, 500);
    const uint64_t empty = kept_bytes(idle, 0, 0);
    forest_close(idle);
    struct forest *f = reached_some(groups, reached, 500 + reached);
    uint32_t sender = forest_sender(f, 0);
    uint64_t marked = 0;
    forest_run(f, 2 * FOREST_LOST_NS);
    forest_client_crash(f, 0);
    all_or_none(f, sender, reached, FOREST_LONG_NS);
    for (uint16_t g = 0; g < groups; g++)
        marked += kept_bytes(f, g, 0) > empty;
    FOREST_SETUP(f, marked > 0);
    for (uint16_t g = 0; g < groups; g++)
        forest_cut_client(f, 0, g, FOREST_ALL, false);
    forest_client_start(f, 0);
    for (uint16_t g = 0; g < groups; g++)
        FOREST_SETUP(f, forest_cast(f, 0, (uint8_t)TO(g), 20));
    delivered(f);
    for (uint16_t g = 0; g < groups; g++)
        for (uint32_t q = 0; q < 3; q++)
            FOREST_MUST(f, kept_bytes(f, g, q) == empty);
    return forest_close(f);
}

/* The same with a client that seems to live. */
const char *genuine_client_hangs_among_groups(uint32_t groups, uint32_t reached)
{
    struct forest *f = reached_some(groups, reached, 300 + reached);
    uint32_t sender = forest_sender(f, 0);
    FOREST_WAIT(f, f->check.cast[sender][0].delivered == all_of(groups), FOREST_LONG_NS);
    FOREST_SETUP(f, forest_cast(f, 1, all_of(groups), 20));
    FOREST_WAIT(f, caster_outstanding(f->client[1].caster) == 0, FOREST_LONG_NS);
    for (uint16_t g = 0; g < groups; g++)
        forest_cut_client(f, 0, g, FOREST_ALL, false);
    f->client[0].held = false;
    delivered(f);
    return forest_close(f);
}

/* ---- groups that are not there for a while ---- */

/* B has no quorum. Messages that do not go there are delivered. Then some do: groups that have none of
 * these go on, and messages to one group go on everywhere; what shares a group with them waits. When B is
 * back, all of it is delivered. */
const char *genuine_group_without_quorum(void)
{
    struct forest *f = genuine(4, 3, 15);
    FOREST_SETUP(f, forest_cast(f, 0, all_of(4), 30));
    delivered(f);
    forest_cut(f, B, B, true);
    static const uint8_t without_b[] = {TO(A), TO(A) | TO(C), TO(C) | TO(D), TO(A) | TO(C) | TO(D)};
    for (uint32_t i = 0; i < 100; i++) {
        FOREST_WAIT(f, forest_cast(f, 1, without_b[i % 4], 50), FOREST_LONG_NS);
        forest_tick(f);
    }
    FOREST_WAIT(f, caster_outstanding(f->client[1].caster) == 0, FOREST_LONG_NS);

    FOREST_SETUP(f, forest_cast(f, 0, TO(A) | TO(B), 30));
    forest_run(f, 10 * US);
    FOREST_SETUP(f, forest_cast(f, 2, TO(A) | TO(D), 30));
    static const uint8_t untouched[] = {TO(A), TO(C), TO(D)};
    for (uint32_t i = 0; i < 30; i++) {
        FOREST_WAIT(f, forest_cast(f, 1, untouched[i % 3], 50), FOREST_LONG_NS);
        forest_tick(f);
    }
    FOREST_WAIT(f, caster_outstanding(f->client[1].caster) == 0, FOREST_LONG_NS);
    uint32_t before = f->check.group[A].count;
    forest_run(f, 500 * US);
    FOREST_MUST(f, f->check.group[B].count == 1 && f->check.group[A].count == before);
    FOREST_MUST(f, caster_outstanding(f->client[0].caster) == 1);
    FOREST_MUST(f, caster_outstanding(f->client[2].caster) == 1);

    forest_cut(f, B, B, false);
    delivered(f);
    FOREST_MUST(f, f->check.group[B].count == 2 && f->check.group[A].count == before + 2);
    return forest_close(f);
}

/* C takes nothing for a long time, while clients cast to it and are taken for dead by A and B: what these
 * have to tell it does not fit the streams. It waits, also in a snapshot of A with which another comes to
 * lead; the clients are held back. When C goes on, so does everybody, through changes of A's leader, and
 * everything is delivered. */
const char *genuine_group_takes_nothing(uint32_t run)
{
    struct forest *f = forest_open_led(&(struct forest_options){
        .protocol = MCAST_GENUINE, .groups = 3, .clients = 4, .seed = 160 + run, .rough = run % 2});
    static const uint8_t masks[] = {TO(A) | TO(C), TO(A) | TO(B) | TO(C)};
    uint32_t cast = 0;
    forest_hold(f, C, true);
    for (uint32_t c = 0; c < 4; c++) {
        suspect_client(f, A, c);
        suspect_client(f, B, c);
    }
    for (uint32_t i = 0; i < 1000; i++) {
        for (uint32_t c = 0; c < 4; c++)
            cast += forest_cast(f, c, masks[(c + i) % 2], i % 40);
        forest_tick(f);
    }
    for (uint32_t c = 0; c < 4; c++)
        FOREST_MUST(f, !forest_cast(f, c, masks[0], 40));
    FOREST_MUST(f, f->check.group[A].count == 0 && f->check.group[C].count == 0);
    if (run >= 2) {
        uint32_t follower = (forest_leader(f, A) + run) % 3;
        forest_crash(f, A, follower, false);
        forest_run(f, 100 * US);
        forest_start(f, A, follower);
        FOREST_WAIT(f,
                    forest_led(f) && forest_stats(f, A, follower).count.snapshots_loaded > 0 &&
                        forest_stats(f, A, follower).role != UNIT_JOINING,
                    FOREST_LONG_NS);
        forest_lead(f, A, follower);
    }
    forest_run(f, 100 * US);
    forest_hold(f, C, false);
    for (uint32_t i = 0; i < 600; i++) {
        for (uint32_t c = 0; c < 4; c++)
            cast += forest_cast(f, c, masks[(c + i) % 2], i % 40);
        if (i % 300 == 20 + 10 * run)
            forest_crash(f, A, forest_leader(f, A) % 3, true);
        if (i % 300 == 200)
            forest_start_all(f);
        forest_tick(f);
    }
    forest_come_back(f);
    FOREST_MUST(f, f->check.group[C].count == cast);
    return forest_close(f);
}

/* ---- memory and snapshots ---- */

/* Every replica of every group loses its memory in turn, while clients cast. */
const char *genuine_memory_lost_in_turn(uint64_t seed)
{
    struct forest *f = forest_open_led(&(struct forest_options){
        .protocol = MCAST_GENUINE, .groups = 3, .clients = 2, .seed = seed, .rough = true});
    for (uint32_t i = 0; i < 9; i++) {
        uint16_t g = (uint16_t)(i % 3);
        uint32_t q = (i / 3 + (uint32_t)seed) % 3;
        for (uint32_t tick = 0; tick < 300; tick++) {
            if (tick == 50)
                forest_crash(f, g, q, false);
            if (tick == 100)
                forest_start(f, g, q);
            if (tick % 10 == 0)
                for (uint32_t c = 0; c < 2; c++)
                    forest_cast(f, c, (uint8_t)(1 + (tick / 10 + c) % 7), tick % 200);
            forest_tick(f);
        }
        FOREST_WAIT(f, forest_stats(f, g, q).role != UNIT_JOINING && !forest_stats(f, g, q).behind,
                    FOREST_LONG_NS);
    }
    forest_come_back(f);
    FOREST_MUST(f, f->check.group[A].count > 100);
    return forest_close(f);
}

/* A replica of A loses its memory and gets a snapshot while messages wait for B's stamps, B has not been
 * told A's, a message came by relay from C whose client lives, and the client has not read its answers.
 * Then that replica leads: all of it is completed, and the client's own copy is not taken. */
const char *genuine_snapshot_of_what_waits(uint32_t victim)
{
    struct forest *f = genuine(5, 2, 190 + victim);
    const uint8_t wide = all_of(5);
    forest_hold(f, B, true);
    forest_cut(f, A, B, true);
    f->client[0].held = true;
    /* Relayed to A, and delivered there. */
    suspect_client(f, C, 1);
    forest_cut_client(f, 1, A, FOREST_ALL, true);
    FOREST_SETUP(f, forest_cast(f, 1, TO(A) | TO(C), 150));
    FOREST_WAIT(f, f->check.group[A].count == 1 && f->check.group[C].count == 1, FOREST_LONG_NS);
    /* Ten that wait for B, some of them away from home, and some that do not. */
    for (uint32_t i = 0; i < 15; i++)
        FOREST_SETUP(f, forest_cast(f, 0,
                                    i % 3 == 0   ? TO(A)
                                    : i % 3 == 1 ? TO(A) | TO(B)
                                                 : wide,
                                    20 * i));
    FOREST_WAIT(f, f->check.group[A].count == 1 + 5, FOREST_LONG_NS);
    forest_run(f, 20 * US);
    forest_crash(f, A, victim, false);
    forest_run(f, 100 * US);
    forest_start(f, A, victim);
    FOREST_WAIT(f,
                forest_led(f) && f->replica[A][victim].counter.state.count == 6 &&
                    forest_stats(f, A, victim).role != UNIT_JOINING,
                FOREST_LONG_NS);
    FOREST_SETUP(f, forest_stats(f, A, victim).count.snapshots_loaded > 0);
    forest_lead(f, A, victim);
    FOREST_MUST(f, f->check.group[B].count == 0);
    forest_cut(f, A, B, false);
    forest_cut_client(f, 1, A, FOREST_ALL, false);
    forest_hold(f, B, false);
    f->client[0].held = false;
    FOREST_WAIT(f, caster_outstanding(f->client[0].caster) == 0, FOREST_LONG_NS);
    FOREST_MUST(f, forest_leader(f, A) == victim);
    forest_come_back(f);
    FOREST_MUST(f, f->check.group[A].count == 16 && f->check.group[B].count == 10);
    return forest_close(f);
}
