/* Schedules 12 to 19 and 22: between clients and groups, and several groups at once. */
#include "tree_schedules.h"

#include "mcast/message.h"
#include "mcast/protocol.h"
#include "tree_schedules_impl.h"

#include <string.h>

/* ---- 12: a client dies half-way ---- */

static void cut_client(struct forest *f, uint32_t client, uint32_t replicas, bool cut)
{
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        if (replicas >> q & 1)
            sim_cut(f->sim, forest_client_node(f, client), forest_node(f, AT_ROOT, q), cut);
}

/* A client dies when its message has reached some of the lca's replicas, whose leader may die as well; a
 * new process takes its place, and writes of the old one may still land. The message is delivered by
 * all destinations or by none, and the new process is served. Guards the lives of clients. */
const char *tree_client_dies_half_way(uint32_t run, bool *delivered)
{
    uint32_t unreached = run & 7;
    struct forest *f =
        forest_open(&(struct forest_options){.groups = 3, .seed = run, .rough = run >= 16});
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    uint32_t old = forest_sender(f, 0);
    cut_client(f, 0, unreached, true);
    FOREST_SETUP(f, forest_cast(f, 0, A | B, 100));
    forest_pass(f, 5 * US);
    forest_client_crash(f, 0);
    if (run & 8) {
        forest_run(f, run % 5 * FOREST_TICK_NS);
        forest_crash(f, AT_ROOT, forest_leader(f, AT_ROOT) % f->opt.replicas, true);
    }
    forest_run(f, 20 * US);
    cut_client(f, 0, unreached, false);
    forest_client_start(f, 0);
    FOREST_SETUP(f, forest_cast(f, 0, A | B, 40));
    forest_start_all(f);
    FOREST_WAIT(f, forest_led(f) && forest_delivered(f), FOREST_LONG_NS);
    uint8_t got = f->check.cast[old][0].delivered;
    FOREST_MUST(f, got == 0 || got == (A | B));
    *delivered = got != 0;
    return all_delivered(f);
}

/* ---- 13: replies lost at each hop while leaders change ---- */

/* A message to both groups; of the ways that it and its replies take, those in `hops` are cut, so that
 * what is on them is lost: 1 from the client to the root's leader, 2 from there to the child, 4 from the
 * root's leader to the client, 8 from the child's leader to the client. Then the leaders in `dead` die:
 * 1 the root's, 2 the child's. The client writes again what was not taken; the message is delivered
 * exactly once, and its replies come from whoever leads. Guards that a new leader writes again what
 * its predecessor may not have: streams down, and replies. */
const char *tree_reply_lost(uint32_t hops, uint32_t dead)
{
    struct forest *f = grown_of(3, 1);
    const uint32_t client = forest_client_node(f, 0);
    for (uint32_t q = 0; q < 3; q++) {
        if (hops & 1 && q == 0)
            sim_cut(f->sim, client, forest_node(f, AT_ROOT, q), true);
        if (hops & 2)
            cut_down(f, AT_A, 0, true);
        if (hops & 4)
            sim_cut(f->sim, forest_node(f, AT_ROOT, 0), client, true);
        if (hops & 8)
            sim_cut(f->sim, forest_node(f, AT_A, 0), client, true);
    }
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    forest_run(f, 20 * US);
    FOREST_SETUP(f, delivered_in(f, AT_ROOT) == (hops & 1 ? 1 : 2));
    FOREST_SETUP(f, hops == 0 || caster_outstanding(f->client[0].caster) == 1);
    for (uint16_t g = 0; g < 2; g++)
        if (dead >> g & 1) {
            forest_crash(f, g, 0, false);
            forest_cut_off(f, forest_node(f, g, 0), true); /* what was on its ways stays there */
        } else {
            /* Long enough for the ways to break: what was on them is lost. */
            forest_run(f, 2 * FOREST_LOST_NS);
            forest_cut_off(f, forest_node(f, g, 0), false);
        }
    FOREST_WAIT(f, forest_led(f) && forest_delivered(f), FOREST_LONG_NS);
    FOREST_MUST(f, delivered_in(f, AT_ROOT) == 2 && delivered_in(f, AT_A) == 2);
    FOREST_MUST(f, f->check.cast[forest_sender(f, 0)][1].done);
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    return all_delivered(f);
}

/* ---- 14: leaders of parent and child die together ---- */

/* The leaders of parent and child die in the same window, in every order of what they had done by then
 * (decide, hand down, decide below). Nothing is lost and the child's stream has no gap. */
const char *tree_leaders_die_together(uint32_t parent_at, uint32_t child_at)
{
    bool keep = (parent_at + child_at) % 3 != 0;
    struct forest *f = forest_open(&(struct forest_options){
        .groups = 2, .seed = parent_at * 100 + child_at, .rough = child_at % 2});
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, 100));
    FOREST_SETUP(f, forest_cast(f, 0, A, 20));
    for (uint32_t tick = 0; tick < 12; tick++) {
        if (tick == parent_at)
            forest_crash(f, AT_ROOT, forest_leader(f, AT_ROOT) % 3, keep);
        if (tick == child_at)
            forest_crash(f, AT_A, forest_leader(f, AT_A) % 3, true);
        if (tick == 6)
            FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, 60));
        forest_tick(f);
    }
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    FOREST_MUST(f, delivered_in(f, AT_A) == 3);
    return all_delivered(f);
}

/* The same for the nine states that they can be in, one by one. The parent's leader had 0 not decided
 * the message, 1 decided it, 2 handed it down; the child's leader had 0 not decided it, 1 decided and
 * told nobody, 2 told. Their memory dies with them. */
const char *tree_leaders_die_at(uint32_t parent, uint32_t child)
{
    struct forest *f = grown_of(3, 1);
    for (uint32_t q = 1; q < 3; q++) {
        cut_inside(f, AT_ROOT, 0, q, parent == 0);
        cut_inside(f, AT_A, 0, q, child == 0);
        f->replica[AT_A][q].held = child == 1;
    }
    cut_down(f, AT_A, 0, parent < 2);
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    forest_run(f, 20 * US);
    FOREST_SETUP(f, f->replica[AT_ROOT][0].counter.state.count == (parent > 0 ? 2 : 1));
    FOREST_SETUP(f, f->replica[AT_A][0].counter.state.count == (parent > 1 && child > 0 ? 2 : 1));
    FOREST_SETUP(f, f->replica[AT_A][1].counter.state.count == (parent > 1 && child > 1 ? 2 : 1));
    for (uint16_t g = 0; g < 2; g++) {
        forest_crash(f, g, 0, false);
        forest_cut_off(f, forest_node(f, g, 0), true);
        forest_hold(f, g, false);
    }
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    FOREST_MUST(f, delivered_in(f, AT_ROOT) == 3 && delivered_in(f, AT_A) == 3);
    return all_delivered(f);
}

/* ---- 15: a child that cannot take ---- */

/* One replica of a child is dead for the whole run, and another child has no quorum for a while: its
 * siblings go on, then it does, and nothing was lost. Guards that nobody waits for everybody. */
const char *tree_child_without_quorum(void)
{
    struct forest *f = forest_open(&(struct forest_options){.groups = 4, .clients = 2, .seed = 15});
    forest_crash(f, 3, 2, false);
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A | B | C, 30));
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);

    forest_crash(f, AT_B, 0, true);
    forest_crash(f, AT_B, 1, true);
    /* Knowing that they are dead, the third would go on alone with their memory. */
    const uint32_t third = forest_node(f, AT_B, 2);
    for (uint32_t q = 0; q < 2; q++)
        sim_oracle_lie(f->sim, third, forest_node(f, AT_B, q), SIM_SAYS_ALIVE);
    forest_run(f, 200 * US);
    /* Fewer than fill the ring to it. */
    for (uint32_t i = 0; i < 8; i++)
        FOREST_SETUP(f, forest_cast(f, 0, ROOT | B, 30));
    for (uint32_t i = 0; i < 100; i++) {
        FOREST_WAIT(f, forest_cast(f, 1, i % 2 ? A : ROOT | A | C, 50), FOREST_LONG_NS);
        forest_tick(f);
    }
    FOREST_WAIT(f, caster_outstanding(f->client[1].caster) == 0, FOREST_LONG_NS);
    FOREST_MUST(f, delivered_in(f, AT_B) == 1 && delivered_in(f, AT_ROOT) == 1 + 8 + 50);

    forest_start(f, AT_B, 0);
    forest_start(f, AT_B, 1);
    for (uint32_t q = 0; q < 2; q++)
        sim_oracle_lie(f->sim, third, forest_node(f, AT_B, q), SIM_TRUTH);
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    FOREST_MUST(f, delivered_in(f, AT_B) == 9);
    return forest_close(f); /* that one stays dead */
}

/* ---- 16: everything is full ---- */

/* The leaf of a chain takes nothing for a long time, while clients go on casting at all three groups
 * above and including it: rings and logs fill up and everybody waits. When the leaf goes on, all of
 * it is delivered: waiting goes down the tree only, and nothing unread is overwritten. */
const char *tree_full_rings(uint32_t run)
{
    static const uint8_t masks[] = {ROOT | B, A | B, B};
    struct forest *f = forest_open(&(struct forest_options){
        .groups = 3, .parent = chain, .clients = 3, .seed = 160 + run, .rough = run % 2});
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    forest_hold(f, AT_B, true);
    uint32_t cast = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        for (uint32_t c = 0; c < 3; c++)
            cast += forest_cast(f, c, masks[c], 200);
        forest_tick(f);
    }
    /* The root's own deliveries have stopped, and its client is held back. */
    uint32_t before = delivered_in(f, AT_ROOT);
    forest_run(f, 200 * US);
    FOREST_MUST(f, before > 0 && delivered_in(f, AT_ROOT) == before);
    FOREST_MUST(f, !forest_cast(f, 0, ROOT | B, 200));
    FOREST_MUST(f, delivered_in(f, AT_B) == 0);
    if (run >= 2)
        forest_crash(f, AT_A, forest_leader(f, AT_A) % 3, run == 2);
    forest_run(f, 200 * US);
    forest_hold(f, AT_B, false);
    forest_start_all(f);
    FOREST_WAIT(f, forest_delivered(f), 4 * FOREST_LONG_NS);
    FOREST_MUST(f, delivered_in(f, AT_B) == cast);
    return all_delivered(f);
}

/* ---- 17: left behind, and back by snapshot ---- */

/* A follower of the middle group of a chain, or of another, stops for longer than the log is (fate 0), or
 * dies with its memory (1) or without (2) with its last rows still on their way, which arrive in its
 * next life. The others go on without it; it is given a snapshot in the middle of traffic, follows,
 * and is good enough to lead in the end. Guards detaching, lives, and what a snapshot carries. */
const char *tree_left_behind(uint16_t group, uint32_t fate)
{
    struct forest *f = grown(
        &(struct forest_options){.groups = 3, .parent = chain, .clients = 2, .seed = 17 + fate});
    const uint32_t slow = 2;
    if (fate == 0) {
        f->replica[group][slow].held = true;
    } else {
        cut_inside(f, group, slow, 0, true);
        forest_run(f, 15 * US);
        forest_crash(f, group, slow, fate == 1);
    }
    for (uint32_t i = 0; i < 200; i++)
        traffic(f, i % 2, i % 3 ? ROOT | A | B : A | B, 1, 200);
    FOREST_SETUP(f, fate != 0 || forest_stats(f, group, 0).count.shed >= 1);
    f->replica[group][slow].held = false;
    if (fate != 0)
        forest_start(f, group, slow);
    cut_inside(f, group, slow, 0, false);
    for (uint32_t i = 0; i < 300 && forest_stats(f, group, slow).count.snapshots_loaded == 0; i++)
        traffic(f, i % 2, ROOT | A | B, 1, 100);
    FOREST_MUST(f, forest_stats(f, group, slow).count.snapshots_loaded >= 1);
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    forest_crash(f, group, 0, true);
    take_over(f, group, slow);
    forest_hold(f, group, false);
    FOREST_WAIT(f, forest_leader(f, group) == slow, FOREST_LONG_NS);
    traffic(f, 0, ROOT | A | B, 5, 100);
    return all_delivered(f);
}

/* ---- 18: amnesia ---- */

/* A replica of the root promises the second leader, which decides v with it and hands it down, and
 * restarts with nothing; the first leader, which knows of none of that, asks it for permission again:
 * it must not get it, nor deliver or hand down anything in the place of v. */
const char *tree_amnesia(void)
{
    struct forest *f = grown_of(3, 2);
    forest_cut_off(f, forest_node(f, AT_ROOT, 0), true);
    take_over(f, AT_ROOT, 1);
    FOREST_SETUP(f, forest_cast(f, 1, ROOT | A, BODY));
    FOREST_WAIT(f, delivered_in(f, AT_ROOT) == 2 && delivered_in(f, AT_A) == 2, FOREST_LONG_NS);
    forest_cut_off(f, forest_node(f, AT_ROOT, 1), true);
    f->replica[AT_ROOT][1].held = true;
    forest_crash(f, AT_ROOT, 2, false);
    forest_start(f, AT_ROOT, 2);
    f->replica[AT_ROOT][2].held = false;

    forest_cut_off(f, forest_node(f, AT_ROOT, 0), false);
    cut_inside(f, AT_ROOT, 0, 1, true);
    cut_inside(f, AT_ROOT, 1, 0, true);
    client_reaches_only(f, 0, 0);
    f->replica[AT_ROOT][0].held = false;
    FOREST_SETUP(f, forest_stats(f, AT_ROOT, 0).role == UNIT_LEADER);
    uint64_t commit = forest_stats(f, AT_ROOT, 0).committed;
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    forest_run(f, 5 * FOREST_LOST_NS);
    FOREST_SETUP(f, forest_stats(f, AT_ROOT, 0).written > commit);
    FOREST_MUST(f, forest_stats(f, AT_ROOT, 0).committed == commit);
    FOREST_MUST(f, sim_promised(f->sim, forest_node(f, AT_ROOT, 2), AT_ROOT) == MEM_CLOSED);
    FOREST_MUST(f, delivered_in(f, AT_A) == 2);

    heal_all(f);
    FOREST_SETUP(f, forest_cast(f, 1, ROOT | A, BODY));
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    FOREST_MUST(f, sim_promised(f->sim, forest_node(f, AT_ROOT, 2), AT_ROOT) != MEM_CLOSED);
    return all_delivered(f);
}

/* ---- 19: a leader that has only a snapshot ---- */

/* The middle group of a chain, after its log has gone round, has messages that the group below has not
 * taken and answers that the clients have not got. A replica of it that came back with nothing but a
 * snapshot takes over: what was taken from the clients and from above, and where the stream below
 * ends, must be what the old leader had; it completes both. */
const char *tree_leader_from_snapshot(uint32_t victim)
{
    struct forest *f = grown(
        &(struct forest_options){.groups = 3, .parent = chain, .clients = 2, .seed = 190 + victim});
    for (uint32_t i = 0; i < 150; i++)
        traffic(f, i % 2, i % 3 ? ROOT | A | B : A | B, 1, 200);
    const uint32_t helper = victim == 0 ? 1 : 0; /* leads before it */
    if (victim == 0)
        forest_crash(f, AT_A, 0, false);
    FOREST_WAIT(f, forest_leader(f, AT_A) == helper, FOREST_LONG_NS);
    FOREST_SETUP(f, forest_stats(f, AT_A, helper).applied > 2 * (uint64_t)f->sizes.log_bytes);
    forest_run(f, 2 * FOREST_HEARTBEAT_NS); /* clients hear that all was taken */

    /* The ways down, and to the clients, are cut: what is on them would get there without any leader. */
    forest_hold(f, AT_B, true);
    cut_all_down(f, AT_B, true);
    for (uint32_t q = 0; q < 3; q++)
        for (uint32_t c = 0; c < 2; c++)
            sim_cut(f->sim, forest_node(f, AT_A, q), forest_client_node(f, c), true);
    uint32_t before = delivered_in(f, AT_A), below = delivered_in(f, AT_B);
    for (uint32_t i = 0; i < 8; i++)
        FOREST_SETUP(f, forest_cast(f, 0, i % 2 ? ROOT | A | B : A | B, 60));
    FOREST_WAIT(f, delivered_in(f, AT_A) == before + 8, FOREST_LONG_NS);
    forest_crash(f, AT_A, victim, false);
    forest_run(f, 300 * US);
    forest_start(f, AT_A, victim);
    FOREST_WAIT(f,
                forest_stats(f, AT_A, victim).count.snapshots_loaded > 0 &&
                    forest_stats(f, AT_A, victim).role != UNIT_JOINING &&
                    forest_stats(f, AT_A, victim).applied == forest_stats(f, AT_A, helper).applied,
                FOREST_LONG_NS);
    FOREST_SETUP(f, forest_leader(f, AT_A) == helper);
    uint64_t taken[3] = {0}, edge_end = 0;
    if (!forest_failed(f)) {
        for (uint32_t s = 0; s < 3; s++)
            taken[s] = log_source_taken(f->replica[AT_A][helper].tree->log, s);
        edge_end = log_source_taken(f->replica[AT_B][0].tree->log, 2) +
                   8 * frame_size(message_bytes(2, 60));
    }
    forest_crash(f, AT_A, helper, true);
    forest_cut_off(f, forest_node(f, AT_A, helper), true);
    take_over(f, AT_A, victim);
    forest_hold(f, AT_A, false);
    FOREST_WAIT(f, forest_stats(f, AT_A, victim).role == UNIT_LEADER, FOREST_LONG_NS);
    for (uint32_t s = 0; s < 3 && !forest_failed(f); s++)
        FOREST_MUST(f, log_source_taken(f->replica[AT_A][victim].tree->log, s) == taken[s]);

    cut_down(f, AT_B, victim, false);
    for (uint32_t c = 0; c < 2; c++)
        sim_cut(f->sim, forest_node(f, AT_A, victim), forest_client_node(f, c), false);
    FOREST_SETUP(f, delivered_in(f, AT_B) == below);
    forest_hold(f, AT_B, false);
    FOREST_WAIT(f, delivered_in(f, AT_B) == below + 8, FOREST_LONG_NS);
    FOREST_MUST(f, mem_word(forest_edge_lane(f, AT_B, 0, victim), SOURCE_GUARD) == edge_end);
    for (uint32_t c = 0; c < 2; c++)
        FOREST_WAIT(f, caster_outstanding(f->client[c].caster) == 0, FOREST_LONG_NS);
    FOREST_MUST(f, forest_leader(f, AT_A) == victim);
    /* In its ring of client 1 it has nothing of what was taken. */
    for (uint32_t i = 0; i < 4; i++)
        traffic(f, i % 2, i < 2 ? ROOT | A | B : A | B, 2, 100);
    return all_delivered(f);
}

/* ---- 22: messages in a circle ---- */

/* Pairs of groups that form a circle, cast at the same time from several clients, with ways of random
 * lengths and leaders that die: no message precedes itself, checked at the end. Of the lcas of three
 * pairs in a triangle two are always the same group, whatever the tree; three different ones take a
 * circle of four, as in the chain of odd runs: lcas root, A and B. In even runs the tree is flat. */
static const uint8_t circle[] = {ROOT | A, A | B, B | C, C | ROOT};

const char *tree_circle(uint32_t run)
{
    struct forest *f = forest_open(&(struct forest_options){.groups = 4,
                                                            .parent = run % 2 ? chain : NULL,
                                                            .clients = 4,
                                                            .seed = 220 + run,
                                                            .rough = true});
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    for (uint32_t i = 0; i < 300; i++) {
        for (uint32_t c = 0; c < 4; c++)
            forest_cast(f, c, circle[(c + i) % 4], 20);
        if (i % 100 == 50) {
            uint16_t group = (uint16_t)((i / 100 + run) % 4);
            forest_crash(f, group, forest_leader(f, group) % 3, true);
        }
        if (i % 100 == 99)
            forest_start_all(f);
        forest_tick(f);
    }
    forest_start_all(f);
    FOREST_WAIT(f, forest_led(f) && forest_delivered(f), FOREST_LONG_NS);
    FOREST_SETUP(f, delivered_in(f, AT_ROOT) > 100);
    return all_delivered(f);
}

/* The same load, each pair cast as one message to either group, as if there was no lca that orders
 * them. Each group's log is in order, and put together they must not be: else the load above is no
 * bait, and the check of it shows nothing. */
const char *tree_circle_without_a_tree(uint64_t seed)
{
    struct forest *f = forest_open(
        &(struct forest_options){.groups = 4, .clients = 4, .seed = seed, .rough = true});
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    for (uint32_t i = 0; i < 100; i++)
        for (uint32_t c = 0; c < 4; c++) {
            for (uint16_t g = 0; g < 4; g++)
                if (circle[(c + i) % 4] >> g & 1)
                    FOREST_WAIT(f, forest_cast(f, c, (uint8_t)(1u << g), 20), FOREST_LONG_NS);
            forest_tick(f);
        }
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    for (uint32_t g = 0; g < 4; g++)
        for (uint32_t k = 0; k < delivered_in(f, (uint16_t)g); k++)
            f->check.group[g].message[k] &= ~1u; /* messages 2i and 2i+1 are one */
    return forest_close(f);
}

/* ---- what else the papers leave open ---- */

/* The child's leader takes a message from above, cannot write it, is deposed, and another entry is
 * decided in that place; when it leads again it must take the message again. Guards that what was
 * taken from the parent is a function of the log. */
const char *tree_taken_in_vain(void)
{
    struct forest *f = grown_of(3, 2);
    hold_others(f, AT_A, 0);
    cut_inside(f, AT_A, 0, 1, true);
    cut_inside(f, AT_A, 0, 2, true);
    for (uint32_t q = 1; q < 3; q++) /* the others do not get it from above */
        sim_cut(f->sim, forest_node(f, AT_ROOT, 0), forest_node(f, AT_A, q), true);
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    FOREST_WAIT(f, forest_stats(f, AT_A, 0).written > forest_stats(f, AT_A, 0).committed,
                FOREST_LONG_NS);
    forest_cut_off(f, forest_node(f, AT_A, 0), true);
    forest_hold(f, AT_ROOT, true); /* nothing is written again meanwhile */
    take_over(f, AT_A, 1);
    f->replica[AT_A][1].held = false;
    FOREST_SETUP(f, forest_cast(f, 1, A, BODY + 64));
    FOREST_WAIT(f, delivered_in(f, AT_A) == 2, FOREST_LONG_NS);
    forest_run(f, 5 * US);
    forest_cut_off(f, forest_node(f, AT_A, 0), false);
    take_over(f, AT_A, 0);
    forest_hold(f, AT_A, false);
    FOREST_WAIT(f, forest_leader(f, AT_A) == 0, FOREST_LONG_NS);
    forest_hold(f, AT_ROOT, false);
    FOREST_WAIT(f, delivered_in(f, AT_A) == 3, FOREST_LONG_NS);
    FOREST_SETUP(f, forest_leader(f, AT_A) == 0);
    return all_delivered(f);
}
