/* What a new leader finds in the memories, and what it makes of it. */
#include "log_schedules.h"

#include "log_schedules_impl.h"

/* ---- 10: every follower holds another prefix ---- */

enum { ON_A_QUORUM = 2 /* of the four messages in flight */ };

/* Four messages in flight: the first has reached all followers but rank 4, the second all but 3 and
 * 4, the others rank 1 alone; the leader never heard of any, and is gone. */
static struct group *different_prefixes(void)
{
    struct group *g = serving_of(PREFIXES_OF, 1);
    client_reaches_only(g, 0, 0);
    for (uint32_t i = 0; i < 4; i++) {
        group_cut(g, 0, 4, true);
        if (i >= 1)
            group_cut(g, 0, 3, true);
        if (i >= 2)
            group_cut(g, 0, 2, true);
        group_send(g, 0, BYTES + 8 * i);
        group_pass(g, 2 * GROUP_WAY_NS);
        group_post(g, 0);
        group_pass(g, 2 * GROUP_WAY_NS);
    }
    GROUP_SETUP(g, guard_at(g, 1, 0) > guard_at(g, 2, 0) && guard_at(g, 2, 0) > guard_at(g, 3, 0));
    GROUP_SETUP(g,
                guard_at(g, 3, 0) > guard_at(g, 4, 0) && guard_at(g, 4, 0) == commit_at(g, 4, 0));
    group_crash(g, 0, false);
    group_cut_off(g, 0, true);
    return g;
}

/* Any three of the four that are left must bring back all that was on a quorum: the first two
 * messages; and what rank 1 alone holds if it takes part. If crash_after is not negative, the new
 * leader dies so many ticks after it began to rewrite, and the same must hold for the rest,
 * together with the one that was left out before. */
const char *prefixes_recovered(uint32_t left_out, int crash_after)
{
    struct group *g = different_prefixes();
    client_reaches_only(g, 0, g->n); /* nothing is sent a second time */
    group_cut_off(g, left_out, true);
    if (crash_after >= 0) {
        uint32_t first = left_out == 1 ? 2 : 1;
        group_lie(g, first, 0, true); /* it knows before the others */
        GROUP_WAIT(g, group_stats(g, first).role >= UNIT_SYNC, GROUP_ELECT_NS);
        for (int i = 0; i < crash_after; i++)
            group_tick(g);
        group_crash(g, first, false);
        group_cut_off(g, first, true);
        for (uint32_t q = 1; q < g->n; q++)
            if (q != first)
                for (uint32_t p = 1; p < g->n; p++)
                    group_cut(g, q, p, p == first);
    }
    GROUP_WAIT(g, group_leader(g) < g->n, 4 * GROUP_ELECT_NS);
    group_run(g, 20 * US);
    uint32_t back = g->history_count - 1;
    GROUP_MUST(g, "no loss", back >= ON_A_QUORUM);
    GROUP_MUST(g, "no loss", left_out == 1 || crash_after >= 0 || back == 4);
    for (uint32_t q = 1; q < g->n; q++)
        for (uint32_t p = 1; p < g->n; p++)
            if (g->replica[p].log && g->replica[q].log)
                group_cut(g, q, p, false);
    for (uint32_t q = 1; q < g->n; q++) {
        group_cut(g, client_node(g, 0), q, g->replica[q].log == NULL);
        group_cut(g, q, client_node(g, 0), g->replica[q].log == NULL);
    }
    GROUP_WAIT(g, group_delivered(g), 4 * GROUP_ELECT_NS);
    return group_close(g);
}

/* x stands at rank 0 alone under ballot 1; a second leader leaves another entry in that place at
 * itself alone; the first comes back, finds x, puts it on a quorum and decides it; then the second
 * comes back and meets x at rank 2: it must rank x above its own entry although x is older. */
const char *old_entry_decided_late(void)
{
    struct group *g = serving_of(3, 1);
    client_reaches_only(g, 0, 0);
    hold_others(g, 0);
    group_cut(g, 0, 1, true);
    group_cut(g, 0, 2, true);
    uint64_t place = group_stats(g, 0).written;
    group_send(g, 0, BYTES);
    post_once(g, 0);
    GROUP_SETUP(g, group_stats(g, 0).written > place && group_stats(g, 0).committed == place);
    client_reaches_only(g, 0, g->n);

    group_cut_off(g, 0, true);
    take_over(g, 1);
    group_cut(g, 1, 2, true);
    group_run(g, 2 * US);
    GROUP_SETUP(g, guard_at(g, 1, 1) > place);
    const struct mem_lane *there = group_lane(g, 2, 1);
    GROUP_SETUP(g, mem_word(there, LOG_RUN) == 0 || guard_at(g, 2, 1) <= place);

    group_cut_off(g, 1, true);
    group_cut(g, 0, 2, false);
    group_cut(g, 2, 0, false);
    take_over(g, 0);
    settle_for(g, 0, 4 * US);
    post_once(g, 0);
    GROUP_SETUP(g, g->replica[0].counter.state.count == 2);
    GROUP_SETUP(g, commit_at(g, 2, 0) <= place && guard_at(g, 2, 0) > place);
    group_cut_off(g, 0, true);
    group_crash(g, 0, false);

    group_cut(g, 1, 2, false);
    group_cut(g, 2, 1, false);
    take_over(g, 1);
    release_all(g);
    group_cut_off(g, client_node(g, 0), false);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* ---- 11: an entry that comes back from the dead ---- */

/* m stands undecided behind two other entries at the first leader alone; the second leader decides
 * m earlier; the first leads again and finds its old m behind the decided one: m must be applied
 * once, and the second copy count for nothing at every replica. */
const char *message_decided_twice(void)
{
    struct group *g = serving_of(3, 2);
    hold_others(g, 0);
    client_reaches_only(g, 1, 0);
    group_cut(g, 0, 1, true);
    group_cut(g, 0, 2, true);
    uint64_t place = group_stats(g, 0).written;
    /* The sizes are those of what the second leader will put there: its start marker, and m. */
    group_send(g, 1, 0);
    post_once(g, 0);
    group_send(g, 1, BYTES);
    post_once(g, 0);
    group_send(g, 0, BYTES);
    post_once(g, 0);
    uint64_t again = place + entry_size(0) + entry_size(BYTES);
    uint64_t srcpos = g->client[0].sent[1].pos;
    GROUP_SETUP(g, group_stats(g, 0).written == again + entry_size(BYTES));

    group_cut_off(g, 0, true);
    take_over(g, 1);
    GROUP_WAIT(g, g->client[0].done_count == 2, GROUP_ELECT_NS);
    group_run(g, 5 * US);
    GROUP_SETUP(g, group_stats(g, 1).applied == again);

    group_cut_off(g, 1, true);
    group_cut(g, 0, 2, false);
    group_cut(g, 2, 0, false);
    take_over(g, 0);
    group_run(g, 5 * US);
    const struct mem_lane *own = group_lane(g, 0, 0);
    const struct entry *e = (const void *)(own->ring + again % g->opt.log_bytes);
    GROUP_SETUP(g, e->pos == again && e->source == 0 && e->srcpos == srcpos);
    GROUP_SETUP(g, group_stats(g, 0).applied > again);
    heal_all(g);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    for (uint32_t q = 0; q < 3; q++)
        GROUP_MUST(g, "no duplicate",
                   g->replica[q].counter.state.count == 5 && g->replica[q].noops >= 2);
    return group_close(g);
}

/* ---- 12: a run that begins beyond the commit that it tells of ---- */

/* m1 stands on a quorum and m2 on two of five; the leader knows that m1 is decided and tells nobody. One
 * of the two comes back without state, gets a snapshot with m1 from the same leader, and the run in its
 * memory, m2 included, is continued from behind m1. m2 is decided, and again nobody is told. Of the next
 * quorum only that one has m2, in a run that begins beyond every commit that anybody tells of:
 * m2 must not be lost. */
const char *run_begins_beyond_commit(void)
{
    struct group *g = serving_of(5, 1);
    hold_others(g, 0);
    client_reaches_only(g, 0, 0);
    group_cut(g, 0, 1, true);
    group_cut(g, 0, 4, true);
    uint64_t place = group_stats(g, 0).written;
    uint64_t after = place + entry_size(BYTES); /* m1 */
    for (int i = 0; i < 2; i++) {
        group_send(g, 0, BYTES);
        group_pass(g, 2 * GROUP_WAY_NS);
        group_post(g, 0);
        group_pass(g, 2 * GROUP_WAY_NS);
        group_cut(g, 0, 3, true);
    }
    client_reaches_only(g, 0, g->n);
    settle_for(g, 0, 4 * GROUP_WAY_NS);
    GROUP_SETUP(g, group_stats(g, 0).applied == after && group_stats(g, 0).written > after);
    GROUP_SETUP(g, guard_at(g, 2, 0) > after && guard_at(g, 3, 0) == after);
    GROUP_SETUP(g, commit_at(g, 2, 0) <= place && commit_at(g, 3, 0) <= place);

    group_cut_off(g, 0, true);
    GROUP_WAIT(g, group_stats(g, 0).role == UNIT_FOLLOWER, 4 * GROUP_ELECT_NS);
    group_pass(g, 2 * GROUP_LOST_NS);
    group_crash(g, 2, true);
    group_start(g, 2);
    for (uint32_t q = 2; q <= 4; q += 2) {
        group_cut(g, 0, q, false);
        group_cut(g, q, 0, false);
    }
    take_over(g, 0);
    group_hold(g, 0, true);
    group_hold(g, 2, false);
    for (int i = 0; i < 100 && group_stats(g, 0).applied <= after; i++) {
        group_tick(g);
        post_once(g, 0);
    }
    GROUP_SETUP(g, group_stats(g, 0).applied > after);
    GROUP_SETUP(g,
                mem_word(group_lane(g, 2, 0), LOG_START) == after && commit_at(g, 2, 0) <= place);
    group_cut_off(g, 0, true);
    group_crash(g, 0, false);

    group_cut_off(g, 4, true);
    release_all(g);
    group_run(g, 2 * GROUP_ELECT_NS);
    for (uint32_t q = 1; q < 4; q++) {
        group_cut(g, 4, q, false);
        group_cut(g, q, 4, false);
    }
    GROUP_WAIT(g, group_even(g), 2 * GROUP_ELECT_NS);
    GROUP_MUST(g, "no loss", g->history_count == 3);
    return group_close(g);
}

/* ---- 12b: a run that is continued half-way ---- */

/* 1 leads and stalls with [x, y, z] on its way to 0 and 2. 2 leads, decides [START, m] on {0, 2} in the place of x and y,
 * and applies that; 0 is not told. The stale batch lands. 1 leads again; in its lane at 2 z is right, so it
 * continues that run, and ends after the first `stores` of its stores. 0 and 2 are left: 0 must apply what 2 did, and
 * not x and y from its own copy of the run that was never told it holds anything decided. */
static const char *half_continued(uint32_t stores, uint64_t seed, bool *landed)
{
    struct group *g = serving(&(struct group_options){.replicas = 3, .clients = 2, .seed = seed});
    take_over(g, 1);
    release_all(g);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    group_run(g, 2 * GROUP_HEARTBEAT_NS);
    hold_others(g, 1);
    client_reaches_only(g, 1, 1);
    client_reaches_only(g, 0, 2);
    group_cut(g, 1, 0, true);
    group_cut(g, 1, 2, true);
    uint64_t place = group_stats(g, 1).written;
    group_send(g, 1, 0);
    post_once(g, 1);
    group_send(g, 1, BYTES);
    post_once(g, 1);
    group_send(g, 1, BYTES);
    post_once(g, 1);
    uint64_t decided = place + entry_size(0) + entry_size(BYTES);
    GROUP_SETUP(g, group_stats(g, 1).written == decided + entry_size(BYTES));
    client_reaches_only(g, 1, g->n);
    group_hold(g, 1, true);

    take_over(g, 2);
    group_send(g, 0, BYTES);
    for (int i = 0; i < 100 && group_stats(g, 2).applied < decided; i++)
        post_once(g, 2);
    GROUP_SETUP(g, group_stats(g, 2).applied == decided && commit_at(g, 0, 2) < decided);
    client_reaches_only(g, 0, g->n);
    group_hold(g, 2, true);
    group_cut(g, 1, 0, false);
    group_cut(g, 1, 2, false);
    group_pass(g, 5 * US);
    *landed = guard_at(g, 0, 1) > decided && guard_at(g, 2, 1) > decided;
    if (!*landed)
        return group_close(g);

    uint64_t old_run = mem_word(group_lane(g, 2, 1), LOG_RUN);
    group_cut(g, 1, 0, true); /* it leads with 2 alone */
    group_cut(g, 0, 1, true);
    group_hold(g, 1, false);
    step_until(g, 1, UNIT_CANDIDATE);
    group_pass(g, GROUP_WAY_NS + 100);
    group_settle(g, 2); /* it sees that it is deposed: its row says what it has applied */
    GROUP_SETUP(g, group_stats(g, 2).role == UNIT_FOLLOWER);
    step_until(g, 1, UNIT_SYNC);
    const struct mem_lane *lane = group_lane(g, 2, 1);
    for (int i = 0; i < 1000 && mem_word(lane, LOG_START) != decided; i++) {
        GROUP_SETUP(g, mem_word(lane, LOG_RUN) == old_run);
        if (i % 10 == 0)
            group_settle(g, 1);
        sim_step(g->sim);
    }
    GROUP_SETUP(g, mem_word(lane, LOG_START) == decided);
    for (uint32_t i = 1; i < stores; i++)
        sim_step(g->sim);
    group_cut_off(g, 1, true);
    group_crash(g, 1, false);

    take_over(g, 0);
    return heals(g, 0, 2);
}

/* What a deposed leader has on its way may land or not: takes a world in which it does. */
const char *half_continued_run(uint32_t stores)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        bool landed = false;
        const char *violated = half_continued(stores, seed, &landed);
        if (landed || violated)
            return violated;
    }
    return "setup";
}

/* 1 leads, and [x, y] is on its way from it. 2 leads and decides START in the place of x, on {0, 2}; then the stale batch
 * lands at 0. 1 leads again with 2, finds START, and continues its own lane with START, y. Before that lands, 0
 * raises at 1, and reads the head of that lane while it lands: what it tells of must not be taken for the run before,
 * in whose place 0 holds x. */
const char *run_continued_while_read(uint64_t seed)
{
    struct group *g = serving(
        &(struct group_options){.replicas = 3, .clients = 2, .seed = seed, .read_gap_ns = 3 * US});
    take_over(g, 1);
    release_all(g);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    group_run(g, 2 * GROUP_HEARTBEAT_NS);
    hold_others(g, 1);
    client_reaches_only(g, 1, 1);
    client_reaches_only(g, 0, g->n);
    group_cut(g, 1, 0, true);
    group_cut(g, 1, 2, true);
    uint64_t place = group_stats(g, 1).written;
    for (int i = 0; i < 2; i++) {
        group_send(g, 1, 0);
        post_once(g, 1);
    }
    client_reaches_only(g, 1, g->n);
    group_hold(g, 1, true);

    take_over(g, 2);
    for (int i = 0; i < 20 && group_stats(g, 2).applied <= place; i++)
        post_once(g, 2);
    group_cut(g, 1, 0, false);
    group_pass(g, 5 * US);
    bool come_about = group_stats(g, 2).applied == place + entry_size(0) &&
                      commit_at(g, 0, 2) <= place && guard_at(g, 0, 1) > place + entry_size(0);
    group_hold(g, 2, true);
    group_cut(g, 0, 2, true);
    group_cut(g, 2, 0, true);
    group_cut(g, 1, 2, false);
    if (come_about) {
        group_cut(g, 1, 0, true); /* it leads with 2, */
        group_hold(g, 1, false);
        step_until(g, 1, UNIT_SYNC);
        for (int i = 0; i < 1000 && guard_at(g, 1, 1) != place; i++)
            sim_step(g->sim);
        group_cut(g, 1, 1, true); /* and its stores to its own lane wait behind that of GUARD */
        GROUP_SETUP(g, mem_word(group_lane(g, 1, 1), LOG_RUN) != group_stats(g, 1).epoch);
        group_hold(g, 1, true);
        group_cut(g, 1, 0, false);
        group_hold(g, 0, false);
        step_until(g, 0, UNIT_CANDIDATE);
        settle_for(g, 0, seed % 50 * 100);
        group_cut(g, 1, 1, false);
        settle_for(g, 0, 20 * US);
    }
    heal_all(g);
    group_cut(g, 1, 1, false);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), 4 * GROUP_ELECT_NS);
    return group_close(g);
}

/* 1 leads with 0, reaches 2 late, and stops while it reads there; [x, y] is on its way from it to 0. 2 leads, decides START
 * in the place of x, on {0, 2}, and applies it. The stale batch lands; 1 goes on, sees in the row of 2 what that has
 * applied, and begins a run there, in the ballot that was deposed. 2 ends. 0 must not take that run, which begins behind
 * START, for the one that decided START, for of that run it holds x. */
const char *run_renewed_by_a_deposed_leader(uint64_t seed)
{
    struct group *g = serving(&(struct group_options){.replicas = 3, .clients = 2, .seed = seed});
    group_cut(g, 1, 2, true);
    group_cut(g, 2, 1, true);
    take_over(g, 1);
    group_hold(g, 0, false);
    GROUP_WAIT(g, group_leader(g) == 1 && group_stats(g, 0).applied == group_stats(g, 1).applied,
               GROUP_ELECT_NS);
    group_run(g, 2 * GROUP_HEARTBEAT_NS);
    group_hold(g, 0, true);
    client_reaches_only(g, 1, 1);
    group_cut(g, 1, 0, true);
    uint64_t place = group_stats(g, 1).written, ballot = group_stats(g, 1).epoch;
    for (int i = 0; i < 2; i++) {
        group_send(g, 1, 0);
        post_once(g, 1);
    }
    client_reaches_only(g, 1, g->n);
    group_cut(g, 1, 2, false);
    group_cut(g, 2, 1, false);
    for (int i = 0; i < 2000 && sim_promised(g->sim, 2, GROUP_REGION) != ballot; i++)
        settle_for(g, 1, 100);
    settle_for(g, 1, 100 * (seed % 40));
    group_hold(g, 1, true);
    group_pass(g, 2 * US); /* what it asked for is there when it goes on */

    group_cut(g, 2, 1, true);
    take_over(g, 2);
    for (int i = 0; i < 20 && group_stats(g, 2).applied <= place; i++)
        post_once(g, 2);
    group_cut(g, 1, 0, false);
    group_pass(g, 5 * US);
    group_cut(g, 2, 0, true);
    group_pass(g, GROUP_HEARTBEAT_NS);
    group_post(g, 2); /* its row, and a commit that does not get to 0 */
    group_pass(g, GROUP_WAY_NS + 100);
    group_cut(g, 2, 1, false); /* the row is there at once, the raise that waits a little later */
    group_pass(g, 200);
    group_hold(g, 2, true);
    settle_for(g, 1, 5 * US);
    group_cut_off(g, 1, true);
    group_hold(g, 1, true);
    group_crash(g, 2, true);
    group_pass(g, 2 * GROUP_LOST_NS);
    group_cut(g, 2, 0, false);
    take_over(g, 0);
    group_start(g, 2);
    return heals(g, 0, 4);
}

/* ---- 13: known to be decided, and forgotten by the replica that knew ---- */

/* m stands on a quorum. Only its leader knows that it is decided, and one other, by snapshot. The leader is
 * gone; the other begins to lead, notes in its own memory that m is decided and need not be kept there,
 * and loses its state. The other three hold m, and that they need not wait for anybody: they must bring
 * it back and go on. */
const char *decided_and_forgotten(void)
{
    struct group *g = serving_of(5, 1);
    hold_others(g, 0);
    client_reaches_only(g, 0, 0);
    group_cut(g, 0, 1, true);
    group_cut(g, 0, 4, true); /* it has no m in its memory */
    group_crash(g, 4, true);
    uint64_t place = group_stats(g, 0).written;
    group_send(g, 0, BYTES);
    post_once(g, 0);
    client_reaches_only(g, 0, g->n);
    GROUP_SETUP(g, group_stats(g, 0).applied > place);
    GROUP_SETUP(g, guard_at(g, 2, 0) > place && commit_at(g, 2, 0) <= place);

    /* Nobody else hears of anything while the one gets its snapshot. */
    for (uint32_t q = 1; q < 4; q++)
        group_cut(g, 0, q, true);
    group_pass(g, 2 * GROUP_LOST_NS);
    group_cut(g, 0, 4, false);
    group_start(g, 4);
    GROUP_WAIT(g, !group_stats(g, 4).behind, GROUP_ELECT_NS);
    group_cut_off(g, 0, true);
    group_crash(g, 0, false);
    for (uint32_t q = 1; q < 4; q++) {
        GROUP_SETUP(g, group_stats(g, q).applied == place && commit_at(g, q, 0) <= place);
        group_hold(g, q, true);
    }
    take_over(g, 4);
    GROUP_SETUP(g, group_stats(g, 4).applied > place && commit_at(g, 4, 4) > place);
    group_crash(g, 4, true);
    group_start(g, 4);
    release_all(g);
    /* Two of the three at a time, together with the one that has forgotten, cannot do it. */
    for (uint32_t left_out = 3; left_out <= 3; left_out -= 2) {
        for (uint32_t q = 1; q <= 4; q++) {
            group_cut(g, left_out, q, q != left_out);
            group_cut(g, q, left_out, q != left_out);
        }
        group_run(g, 2 * GROUP_ELECT_NS);
        for (uint32_t q = 1; q <= 4; q++) {
            group_cut(g, left_out, q, false);
            group_cut(g, q, left_out, false);
        }
    }
    GROUP_WAIT(g, group_even(g), 8 * GROUP_ELECT_NS);
    GROUP_MUST(g, "no loss", g->history_count == 2);
    return group_close(g);
}
