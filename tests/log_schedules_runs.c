#include "log_schedules_runs.h"

#include "log_schedules_impl.h"

#include <string.h>

static uint64_t run_at(const struct group *g, uint32_t owner, uint32_t writer)
{
    return mem_word(group_lane(g, owner, writer), LOG_RUN);
}

/* A group that 1 leads, as everybody has been told. */
static struct group *serving_under_1(const struct group_options *o)
{
    struct group *g = serving(o);
    take_over(g, 1);
    release_all(g);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    group_run(g, 2 * GROUP_HEARTBEAT_NS);
    return g;
}

/* 1 writes `count` messages of client 1, which have no payload, and reaches nobody but itself. */
static void write_in_vain(struct group *g, int count)
{
    hold_others(g, 1);
    client_reaches_only(g, 1, 1);
    group_cut(g, 1, 0, true);
    group_cut(g, 1, 2, true);
    for (int i = 0; i < count; i++) {
        group_send(g, 1, 0);
        post_once(g, 1);
    }
    client_reaches_only(g, 1, g->n);
    group_hold(g, 1, true);
}

/* 2 takes over and decides START, at `place`, on {0, 2}. 0 is not told that it is decided. */
static void decide_start(struct group *g, uint64_t place)
{
    take_over(g, 2);
    for (int i = 0; i < 20 && group_stats(g, 2).applied <= place; i++)
        post_once(g, 2);
    group_hold(g, 2, true);
}

/* ---- a run that is continued: GUARD goes back first ---- */

/* 1 leads, and [x, y] is on its way from it to 0. 2 leads and decides START in the place of x, on {0, 2}; 0 is not told.
 * The stale batch lands at 0. 1 leads again, with 0: it finds START and continues its run at 0, which agrees up to
 * there only, and dies when RUN has landed. 0 takes over with 2, which knows that START is decided, by a run that is
 * older than the one of 1: it must not take x from that. */
static const char *continued_over_stale(uint64_t seed, bool *landed)
{
    struct group *g =
        serving_under_1(&(struct group_options){.replicas = 3, .clients = 2, .seed = seed});
    client_reaches_only(g, 0, g->n);
    uint64_t place = group_stats(g, 1).written;
    write_in_vain(g, 2);
    decide_start(g, place);
    group_cut(g, 1, 0, false);
    group_pass(g, 5 * US);
    *landed = group_stats(g, 2).applied == place + entry_size(0) && commit_at(g, 0, 2) <= place &&
              guard_at(g, 0, 1) > place + entry_size(0);
    if (!*landed)
        return group_close(g);

    cut_both_ways(g, 1, 2, true);
    group_hold(g, 1, false);
    step_until(g, 1, UNIT_SYNC);
    uint64_t ballot = group_stats(g, 1).epoch;
    for (int i = 0; i < 1000 && run_at(g, 0, 1) != ballot; i++) {
        if (i % 10 == 0)
            group_settle(g, 1);
        sim_step(g->sim);
    }
    GROUP_SETUP(g, run_at(g, 0, 1) == ballot);
    GROUP_SETUP(g, mem_word(group_lane(g, 0, 1), LOG_START) <= place);
    group_cut_off(g, 1, true);
    group_crash(g, 1, false);

    take_over(g, 0);
    return heals(g, 0, 2);
}

/* What a deposed leader has on its way may land or not: takes a world in which it does. */
const char *run_continued_over_stale_entries(void)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        bool landed = false;
        const char *violated = continued_over_stale(seed, &landed);
        if (landed || violated)
            return violated;
    }
    return "setup";
}

/* ---- where entries begin ---- */

/* The next message of client 0, which it never sent, as the payload of client 1's next message, at `place`. */
static void send_forged(struct group *g, uint64_t place)
{
    struct entry forged = {.pos = place + sizeof(struct entry),
                           .ballot = UINT64_C(1) << 40,
                           .life = log_source_life(g->replica[0].log, 0),
                           .srcpos = log_source_taken(g->replica[0].log, 0)};
    group_send_bytes(g, 1, &forged, sizeof(forged));
}

/* 0 leads and writes a message to its own memory only, whose payload looks like an entry at the position behind START,
 * which 1 decides in its place, with 2. 1 ends, and 2 takes over with 0: what it reads there from that position on,
 * in the middle of the message, is none. */
const char *commit_inside_a_stale_entry(void)
{
    struct group *g = serving_of(3, 2);
    hold_others(g, 0);
    client_reaches_only(g, 1, 0);
    client_reaches_only(g, 0, g->n);
    group_cut(g, 0, 1, true);
    group_cut(g, 0, 2, true);
    uint64_t place = group_stats(g, 0).written;
    send_forged(g, place);
    post_once(g, 0);
    GROUP_SETUP(g, guard_at(g, 0, 0) == place + 2 * sizeof(struct entry));
    client_reaches_only(g, 1, g->n);
    group_cut_off(g, 0, true);
    group_hold(g, 0, true);

    take_over(g, 1);
    group_hold(g, 2, false);
    uint64_t decided = place + entry_size(0);
    GROUP_WAIT(g, group_stats(g, 2).applied == decided, GROUP_ELECT_NS);
    GROUP_SETUP(g, group_stats(g, 1).written == decided && commit_at(g, 2, 1) == decided);
    GROUP_SETUP(g, guard_at(g, 0, 0) > decided && commit_at(g, 0, 0) == place);
    group_cut_off(g, 1, true);
    group_crash(g, 1, true);

    group_pass(g, 2 * GROUP_LOST_NS);
    cut_both_ways(g, 0, 2, false);
    take_over(g, 2);
    heal_all(g);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* ---- a run that is renewed: nothing counts until RUN says so ---- */

static uint64_t applied_as_told(const struct group *g, uint32_t asker, uint32_t about)
{
    struct mem_lane_spec spec = lane_spec(GROUP_REGION, asker, about, LANE_ROW, 0);
    return mem_word(sim_lane(g->sim, &spec), ROW_APPLIED);
}

/* 0 starts again and takes a state from 2, until that is whole. */
static void restart_from_snapshot(struct group *g)
{
    group_crash(g, 0, true);
    group_start(g, 0);
    group_hold(g, 0, true);
    for (int i = 0; i < 10000 && group_stats(g, 0).behind; i++) {
        group_post(g, 0);
        group_post(g, 2);
        group_pass(g, 100);
        group_settle(g, 2);
        group_settle(g, 0);
    }
    GROUP_SETUP(g, !group_stats(g, 0).behind);
}

/* 0 looks at the lane of 1 after every store, until the run there is the one that 1 leads with. */
static void look_while_renewed(struct group *g)
{
    uint64_t ballot = group_stats(g, 1).epoch;
    for (int i = 0; i < 2000 && run_at(g, 0, 1) != ballot && !group_failed(g); i++) {
        if (i % 10 == 0)
            group_settle(g, 1);
        sim_step(g->sim);
        group_settle(g, 0);
    }
    GROUP_SETUP(g, run_at(g, 0, 1) == ballot);
}

/* 1 leads, and [x, y] is on its way from it to 0. 2 leads, with a machine that takes nothing, and decides [START, m] in
 * that place, which 0 applies; the stale batch lands at 0. 0 begins another life with the state of 2, which is from
 * before m. 1 takes over, has heard nothing of that life, and renews its run at 0 behind m. 0 looks at that lane
 * while the words of the new run land, one by one: it must not take y, which stands there from the run before. */
const char *run_renewed_beyond_a_new_life(uint64_t seed)
{
    struct group *g = serving_under_1(
        &(struct group_options){.replicas = 3, .clients = 2, .seed = seed, .read_gap_ns = 1});
    client_reaches_only(g, 0, g->n);
    uint64_t place = group_stats(g, 1).written;
    uint64_t decided = place + 2 * entry_size(0);
    write_in_vain(g, 2);
    cut_both_ways(g, 1, 2, true);
    decide_start(g, place);
    group_cut(g, 1, 0, false);
    group_pass(g, 5 * US);
    bool landed =
        group_stats(g, 2).applied == place + entry_size(0) && guard_at(g, 0, 1) == decided;
    if (landed) {
        g->replica[2].stalled = true;
        client_reaches_only(g, 0, 2);
        group_send(g, 0, 0);
        group_hold(g, 0, false);
        group_hold(g, 2, false);
        GROUP_WAIT(g, applied_as_told(g, 1, 0) == decided, GROUP_ELECT_NS);
        GROUP_SETUP(g, group_stats(g, 2).applied == place + entry_size(0));
        client_reaches_only(g, 0, g->n);

        group_cut(g, 0, 1, true);
        group_hold(g, 2, true);
        restart_from_snapshot(g);
        GROUP_SETUP(g, group_stats(g, 0).applied == place + entry_size(0));
        group_pass(g, 2 * GROUP_LOST_NS); /* its rows to 1 are lost, in some worlds */
        group_cut(g, 0, 1, false);
        group_hold(g, 1, false);
        step_until(g, 1, UNIT_SYNC);
        look_while_renewed(g);
    }
    g->replica[2].stalled = false;
    return heals(g, 0, 4);
}
