#include "log_schedules_lives.h"

#include "log_schedules_impl.h"

/* The replica writes and hears, everybody else stands still. */
static void step_alone(struct group *g, uint32_t rank, uint64_t ns)
{
    for (uint64_t end = group_now(g) + ns; group_now(g) < end && !group_failed(g);) {
        group_post(g, rank);
        group_pass(g, 100);
        group_settle(g, rank);
    }
}

/* Told that all others are dead, until it is a candidate. Its requests are on their way. */
static void step_to_candidacy(struct group *g, uint32_t rank)
{
    for (uint32_t q = 0; q < g->n; q++)
        group_lie(g, rank, q, q != rank);
    for (int i = 0; i < 10000 && group_stats(g, rank).role != UNIT_CANDIDATE; i++) {
        group_pass(g, 100);
        group_settle(g, rank);
        group_post(g, rank);
    }
    for (uint32_t q = 0; q < g->n; q++)
        group_lie(g, rank, q, false);
    GROUP_SETUP(g, group_stats(g, rank).role == UNIT_CANDIDATE);
}

static uint64_t promise_at(const struct group *g, uint32_t rank)
{
    return sim_promised(g->sim, rank, GROUP_REGION);
}

static void everything_is_delivered(struct group *g)
{
    heal_all(g);
    group_send(g, 1, BYTES);
    GROUP_WAIT(g, group_delivered(g), 6 * GROUP_ELECT_NS);
}

/* ---- a promise of a past life ---- */

/* A candidacy that fails is given twice the time when it is tried again. */
static void fail_candidacies(struct group *g, uint32_t rank, uint64_t count)
{
    for (uint32_t q = 0; q < g->n; q++)
        group_lie(g, rank, q, q != rank);
    GROUP_WAIT(g, group_stats(g, rank).count.candidacies == count, 10 * GROUP_ELECT_NS);
    GROUP_WAIT(g, group_stats(g, rank).role == UNIT_FOLLOWER, 10 * GROUP_ELECT_NS);
    for (uint32_t q = 0; q < g->n; q++)
        group_lie(g, rank, q, false);
}

/* 4 tries for the place of 0. It has the promise of 3, and has read it, and nobody else hears it. 3 loses its memory, is taken
 * back, knows nothing of that promise, and makes the majority that decides v with 0 and 1. Then 2, which has no v, answers 4:
 * the quorum 2, 3, 4 rests on a promise that nobody keeps. */
const char *promise_of_a_past_life(void)
{
    enum { FAILURES = 5 }; /* after which a candidacy lasts long enough */
    struct group *g = serving_of(5, 2);
    for (uint32_t q = 0; q < 4; q++)
        group_cut(g, 4, q, true); /* it hears them, they do not hear it */
    fail_candidacies(g, 4, FAILURES);
    GROUP_SETUP(g, group_leader(g) == 0);

    hold_all_but(g, 4);
    step_to_candidacy(g, 4);
    group_cut(g, 4, 3, false);
    step_alone(g, 4, 25 * US);
    uint64_t ballot = group_stats(g, 4).epoch;
    GROUP_SETUP(g, group_stats(g, 4).role == UNIT_CANDIDATE && promise_at(g, 3) == ballot);

    group_crash(g, 3, false);
    cut_both_ways(g, 3, 4, true);
    group_start(g, 3);
    for (uint32_t q = 0; q < g->n; q++)
        group_hold(g, q, q == 4);
    GROUP_WAIT(g, group_stats(g, 0).attached == 4 && group_even(g), GROUP_ELECT_NS);
    GROUP_SETUP(g, group_leader(g) == 0 && promise_at(g, 3) == group_stats(g, 0).epoch);

    uint32_t target = g->history_count + 1;
    group_cut(g, 0, 2, true);
    group_send(g, 1, BYTES);
    GROUP_WAIT(g, g->history_count == target, GROUP_ELECT_NS);
    GROUP_SETUP(g, g->replica[2].counter.state.count < target);

    hold_all_but(g, 4);
    group_cut(g, 4, 2, false);
    cut_both_ways(g, 3, 4, false);
    GROUP_SETUP(g, group_stats(g, 4).role == UNIT_CANDIDATE && group_stats(g, 4).epoch == ballot);
    step_alone(g, 4, 30 * US);
    GROUP_SETUP(g, promise_at(g, 2) == ballot);              /* it has its quorum, */
    GROUP_SETUP(g, group_stats(g, 4).role == UNIT_FOLLOWER); /* and sees what that is worth */
    everything_is_delivered(g);
    return group_close(g);
}

/* ---- memory that was lost between a promise and the reading ---- */

/* 0 decides v with 1 and 3, and nobody has been told. 4 has the promise of 3; before it reads there, 3 loses its memory, and
 * what 4 finds is blank. With 2, which has no v, that would be a quorum that has no v. */
const char *memory_lost_before_it_is_read(void)
{
    struct group *g = serving_of(5, 2);
    uint32_t count = g->history_count;
    group_cut(g, 0, 2, true);
    group_cut(g, 0, 4, true);
    for (uint32_t q = 1; q < g->n; q++)
        group_cut(g, g->n, q, true);
    hold_all_but(g, 0);
    group_send(g, 0, BYTES);
    group_pass(g, 2 * GROUP_WAY_NS);
    group_post(g, 0);
    for (uint64_t end = group_now(g) + 4 * GROUP_WAY_NS; group_now(g) < end;) {
        group_pass(g, 100);
        group_settle(g, 0);
    }
    GROUP_SETUP(g, g->history_count == count + 1 && g->replica[0].counter.state.count == count + 1);
    group_cut_off(g, 0, true);

    hold_all_but(g, 4);
    cut_both_ways(g, 4, 1, true);
    step_to_candidacy(g, 4);
    uint64_t ballot = group_stats(g, 4).epoch;
    group_pass(g, 2 * GROUP_WAY_NS + 100);
    GROUP_SETUP(g, promise_at(g, 3) == ballot && promise_at(g, 1) != ballot);
    group_crash(g, 3, false);
    group_start(g, 3);
    group_hold(g, 3, true);
    GROUP_SETUP(g, promise_at(g, 3) == MEM_CLOSED);
    step_alone(g, 4, 20 * US);
    GROUP_SETUP(g, promise_at(g, 2) == ballot && group_stats(g, 4).epoch == ballot);

    /* 1 has v, and is read if it is needed for a quorum, and written over if it is not. */
    cut_both_ways(g, 4, 1, false);
    step_alone(g, 4, 40 * US);
    GROUP_SETUP(g, group_stats(g, 4).role == UNIT_LEADER && group_stats(g, 4).epoch == ballot);
    everything_is_delivered(g);
    return group_close(g);
}

/* ---- copies of a past leadership ---- */

/* 0 has written long entries to 1 and to nobody else, and is deposed by 2, which decides something short in that place. When
 * 0 leads again it has 2, and 1 is out of reach: that 1 had a copy up to there in the leadership before says nothing about
 * what stands there now. So 0 decides nothing, and 1, 3 and 4 may go on without it. */
const char *copies_of_a_past_leadership(void)
{
    struct group *g = serving_of(5, 2);
    for (uint32_t q = 2; q < 5; q++)
        group_cut(g, 0, q, true);
    for (uint32_t q = 1; q < g->n; q++)
        group_cut(g, g->n, q, true);
    hold_all_but(g, 0);
    for (int i = 0; i < 3; i++)
        group_send(g, 0, GROUP_PAYLOAD_MAX);
    step_alone(g, 0, 10 * US);
    uint64_t tail = group_stats(g, 0).written;
    GROUP_SETUP(g, mem_word(group_lane(g, 1, 0), LOG_GUARD) == tail &&
                       group_stats(g, 0).committed < tail);
    group_cut_off(g, 0, true);
    group_cut_off(g, 1, true);

    hold_all_but(g, 2);
    step_to_candidacy(g, 2);
    step_alone(g, 2, 20 * US);
    GROUP_SETUP(g, group_stats(g, 2).role == UNIT_LEADER && group_stats(g, 2).applied < tail);

    /* 0 has the promises of 2 and 3, and the way to 3 is cut as soon as it was read. */
    hold_all_but(g, 0);
    cut_both_ways(g, 0, 2, false);
    cut_both_ways(g, 0, 3, false);
    for (int i = 0; i < 100 && group_stats(g, 0).role != UNIT_FOLLOWER; i++)
        step_alone(g, 0, 100);
    step_to_candidacy(g, 0);
    for (int i = 0; i < 100 && group_stats(g, 0).role == UNIT_CANDIDATE; i++) {
        group_pass(g, 100);
        group_settle(g, 0);
    }
    GROUP_SETUP(g, group_stats(g, 0).role == UNIT_SYNC && group_stats(g, 0).written < tail);
    cut_both_ways(g, 0, 3, true);
    step_alone(g, 0, 10 * US);
    group_cut_off(g, 0, true);

    /* The others go on without 0 and 2, and what only 0 was sent. */
    group_cut_off(g, 1, false);
    group_cut_off(g, 2, true);
    cut_both_ways(g, 0, 1, true);
    group_cut(g, g->n, 1, true);
    for (uint32_t q = 0; q < g->n; q++)
        group_hold(g, q, q == 0 || q == 2);
    GROUP_WAIT(g, group_leader(g) == 1 || group_leader(g) > 2, 6 * GROUP_ELECT_NS);
    group_send(g, 1, BYTES);
    GROUP_WAIT(g, g->client[1].done_count == 1, GROUP_ELECT_NS);
    everything_is_delivered(g);
    return group_close(g);
}
