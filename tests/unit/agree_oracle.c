#include "agree/oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { HEARTBEAT = 10, SUSPECT = 60, STAGGER = 4 };

/* One replica's oracle and what it is shown. Beats move with time for all but the silent. */
struct watch {
    struct oracle o;
    struct oracle_view view[ORACLE_RANKS_MAX];
    bool silent[ORACLE_RANKS_MAX];
    uint64_t promised;
    uint64_t now;
};

static void watch_init(struct watch *w, uint32_t n, uint32_t me, uint64_t seed)
{
    *w = (struct watch){.now = 1000};
    oracle_init(&w->o, n, me, SUSPECT, STAGGER, seed);
    for (uint32_t r = 0; r < n; r++)
        w->view[r] = (struct oracle_view){.beat = 1, .fit = true};
    oracle_watch(&w->o, w->view, w->now);
}

/* Lets one unit of time pass; says whether the replica should run now. */
static bool watch_step(struct watch *w)
{
    w->now++;
    for (uint32_t r = 0; r < w->o.n; r++)
        if (!w->silent[r] && w->now % HEARTBEAT == 0)
            w->view[r].beat++;
    oracle_watch(&w->o, w->view, w->now);
    return oracle_says_run(&w->o, w->view, w->promised, w->now);
}

/* How long until it says run; UINT64_MAX if it does not within a long time. */
static uint64_t runs_after(struct watch *w)
{
    uint64_t from = w->now;
    while (w->now < from + 100 * SUSPECT)
        if (watch_step(w))
            return w->now - from;
    return UINT64_MAX;
}

static void leads(struct watch *w, uint32_t rank)
{
    w->promised = w->o.n + rank;
    w->view[rank].ballot = w->promised;
}

/* At the very start nobody leads: rank 0 runs at once, and each further rank gives the ones before it the
 * time in which they would be suspected. */
static void oracle__ranks_run_one_after_the_other(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= ORACLE_RANKS_MAX; n++)
        for (uint32_t me = 0; me < n; me++) {
            struct watch w;
            watch_init(&w, n, me, 1);
            assert_int_equal(runs_after(&w), 1 + me * SUSPECT);
        }
}

/* A leader that beats and says that it leads: nobody runs, however long. */
static void oracle__live_leader_is_left_alone(void **state)
{
    (void)state;
    for (uint32_t me = 0; me < 5; me++) {
        struct watch w;
        watch_init(&w, 5, me, 1);
        leads(&w, 3);
        assert_int_equal(runs_after(&w), me == 3 ? 1 + 3 * STAGGER : UINT64_MAX);
    }
}

/* A leader that is known to be dead: the next in rank runs at once. */
static void oracle__dead_leader_is_replaced_at_once(void **state)
{
    (void)state;
    struct watch w;
    watch_init(&w, 3, 1, 1);
    leads(&w, 0);
    assert_false(watch_step(&w));
    w.view[0].dead = true;
    assert_int_equal(runs_after(&w), 1);
}

/* A leader that hangs: it is replaced when its counter has stood still for suspect_ns, not before.
 * */
static void oracle__silent_leader_is_replaced_when_suspected(void **state)
{
    (void)state;
    struct watch w;
    watch_init(&w, 3, 1, 1);
    leads(&w, 0);
    for (uint32_t i = 0; i < 3 * HEARTBEAT; i++)
        assert_false(watch_step(&w));
    w.silent[0] = true;
    uint64_t after = runs_after(&w);
    assert_in_range(after, SUSPECT - HEARTBEAT, SUSPECT + HEARTBEAT);
    assert_true(oracle_silent(&w.o, 0, w.now));
    assert_false(oracle_silent(&w.o, 2, w.now));
}

/* A leader that said that it would be busy is given more time, and twice as much after each time that this was not
 * enough: a group in which every replica takes that long comes to rest. */
static void oracle__busy_leader_is_given_time(void **state)
{
    (void)state;
    struct watch w;
    watch_init(&w, 3, 1, 1);
    leads(&w, 0);
    for (uint32_t i = 0; i < 3 * HEARTBEAT; i++)
        assert_false(watch_step(&w));
    uint64_t before = 0;
    for (uint32_t i = 0; i < 3; i++) {
        w.view[0].busy = w.silent[0] = true;
        uint64_t after = runs_after(&w);
        assert_true(after > 10 * SUSPECT && after < 100 * SUSPECT);
        assert_true(after > before + before / 2);
        before = after;
        w.view[0].busy = w.silent[0] = false;
        for (uint32_t k = 0; k < 3 * HEARTBEAT; k++)
            watch_step(&w);
    }
    /* That it is dead counts at once all the same. */
    w.view[0].busy = w.silent[0] = w.view[0].dead = true;
    assert_true(runs_after(&w) < SUSPECT);
}

/* A silent leader that is heard of again in time: nobody has run, and it is given the whole time
 * anew. */
static void oracle__renewed_heartbeat_cancels(void **state)
{
    (void)state;
    struct watch w;
    watch_init(&w, 3, 2, 1); /* the second in line, so there is a wait to be cancelled */
    leads(&w, 0);
    w.silent[0] = true;
    while (w.o.vacant_ns == 0)
        assert_false(watch_step(&w));
    w.view[0].beat++;
    assert_false(watch_step(&w));
    assert_int_equal(w.o.vacant_ns, 0);
    assert_in_range(runs_after(&w), SUSPECT, SUSPECT + 2 * STAGGER);
}

/* The owner of the promise lives but does not say that it leads: it may be about to, and is given
 * as long as a silent one. */
static void oracle__promised_but_not_leading_gets_time(void **state)
{
    (void)state;
    struct watch w;
    watch_init(&w, 3, 1, 1);
    leads(&w, 0);
    w.view[0].ballot = 0;
    assert_int_equal(runs_after(&w), 1 + SUSPECT + STAGGER);

    watch_init(&w, 3, 1, 1);
    leads(&w, 0);
    w.view[0].ballot = 0;
    for (uint32_t i = 0; i < SUSPECT / 2; i++)
        assert_false(watch_step(&w));
    leads(&w, 0);
    assert_int_equal(runs_after(&w), UINT64_MAX);
}

/* A replica without state, or that may not promise, never runs, and nobody waits for it. */
static void oracle__unfit_replica_never_runs(void **state)
{
    (void)state;
    struct watch w;
    watch_init(&w, 3, 0, 1);
    w.view[0].fit = false;
    assert_int_equal(runs_after(&w), UINT64_MAX);

    watch_init(&w, 3, 2, 1);
    w.view[0].fit = false;
    w.view[1].dead = true;
    assert_int_equal(runs_after(&w), 1);
}

/* A replica that hears of no quorum does not run; the dead count, because their memory may answer.
 * */
static void oracle__needs_a_reachable_quorum(void **state)
{
    (void)state;
    struct watch w;
    watch_init(&w, 5, 2, 1);
    leads(&w, 0);
    for (uint32_t r = 0; r < 5; r++)
        w.silent[r] = r != 2 && r != 3;
    assert_int_equal(runs_after(&w), UINT64_MAX);
    assert_true(oracle_next_ns(&w.o) == UINT64_MAX); /* nor is there a time to wake for */
    w.view[0].dead = true;
    assert_in_range(runs_after(&w), 1, 1 + STAGGER);
}

static uint64_t wait_after_failures(uint64_t seed, uint32_t failures)
{
    struct watch w;
    watch_init(&w, 3, 0, seed);
    for (uint32_t i = 0; i < failures; i++)
        oracle_failed(&w.o);
    return runs_after(&w);
}

/* ---- over a network ---- */

static void remote_init(struct watch *w, uint32_t n, uint32_t me, uint32_t leader)
{
    watch_init(w, n, me, 1);
    w->o.remote = true;
    leads(w, leader);
    for (uint32_t r = 0; r < n; r++)
        w->view[r].backs = w->promised;
}

/* The link to the leader is cut, and the others hear it: it is left alone, however long, and nobody has to wake
 * for that. When they hear it no more either, it is replaced. */
static void oracle__leader_that_others_hear_is_left_alone(void **state)
{
    (void)state;
    struct watch w;
    remote_init(&w, 5, 1, 0);
    w.silent[0] = true;
    assert_int_equal(runs_after(&w), UINT64_MAX);
    assert_true(oracle_silent(&w.o, 0, w.now));
    assert_true(oracle_next_ns(&w.o) == UINT64_MAX);
    assert_true(oracle_backs(&w.o, w.view, w.promised, w.now) == 0);
    w.view[2].backs = 0;
    assert_int_equal(runs_after(&w), UINT64_MAX); /* three of five still do */
    w.view[3].backs = 0;
    assert_int_equal(runs_after(&w), 1);
}

/* A link that ended is not a death while others hear the leader; nor does the memory of the dead count. */
static void oracle__dead_are_no_quorum_over_a_network(void **state)
{
    (void)state;
    struct watch w;
    remote_init(&w, 3, 1, 0);
    w.view[0].dead = true;
    assert_int_equal(runs_after(&w), UINT64_MAX);
    w.view[2].backs = 0;
    assert_int_equal(runs_after(&w), 1);
    w.view[2].dead = true;
    assert_int_equal(runs_after(&w), UINT64_MAX);
}

/* One who only tries is backed by nobody: it may never succeed, and be heard by all. */
static void oracle__backs_who_serves(void **state)
{
    (void)state;
    struct watch w;
    remote_init(&w, 3, 1, 0);
    watch_step(&w);
    assert_true(oracle_backs(&w.o, w.view, w.promised, w.now) == w.promised);
    w.view[0].backs = 0;
    assert_true(oracle_backs(&w.o, w.view, w.promised, w.now) == 0);
    assert_false(watch_step(&w)); /* but is given its time */
}

/* A leader that hears no quorum says so, and is replaced at once though it is heard. */
static void oracle__leader_that_is_alone_is_replaced(void **state)
{
    (void)state;
    struct watch w;
    remote_init(&w, 3, 1, 0);
    assert_int_equal(runs_after(&w), UINT64_MAX);
    w.view[0].backs = ORACLE_ALONE;
    w.view[0].ballot = 0;
    w.view[2].backs = 0;
    assert_in_range(runs_after(&w), 1, 1 + STAGGER);

    remote_init(&w, 3, 0, 0); /* and how that one knows */
    for (uint32_t i = 0; i < HEARTBEAT; i++)
        watch_step(&w);
    assert_true(oracle_in_touch(&w.o, w.now));
    w.silent[1] = w.silent[2] = true;
    for (uint32_t i = 0; i < SUSPECT + HEARTBEAT; i++)
        watch_step(&w);
    assert_false(oracle_in_touch(&w.o, w.now));
    assert_true(oracle_backs(&w.o, w.view, w.promised, w.now) == ORACLE_ALONE);
}

/* Who was stopped for long has heard nobody; it gives the others their time anew. But who looks seldom, though
 * often enough, still finds who is silent. */
static void oracle__absence_is_forgiven(void **state)
{
    (void)state;
    struct watch w;
    watch_init(&w, 3, 1, 1);
    leads(&w, 0);
    for (uint32_t i = 0; i < HEARTBEAT; i++)
        assert_false(watch_step(&w));
    w.now += 100 * SUSPECT;
    w.silent[0] = true; /* what it has sent meanwhile is not here yet */
    assert_false(watch_step(&w));
    assert_false(oracle_silent(&w.o, 0, w.now));
    assert_in_range(runs_after(&w), SUSPECT - HEARTBEAT, SUSPECT + HEARTBEAT);

    watch_init(&w, 3, 1, 1);
    leads(&w, 0);
    bool ran = false;
    for (uint32_t i = 0; i < 4; i++, w.now += SUSPECT - 2) {
        w.view[2].beat++;
        oracle_watch(&w.o, w.view, w.now);
        ran |= oracle_says_run(&w.o, w.view, w.promised, w.now);
    }
    assert_true(ran);
}

/* Who is kept from looking again and again, each time for less than would be noticed, gives the others the time that it
 * was there; and no more than that. */
static void oracle__short_absences_are_forgiven(void **state)
{
    (void)state;
    struct watch w;
    watch_init(&w, 3, 1, 1);
    leads(&w, 1);
    w.silent[0] = w.silent[2] = true;
    uint64_t there = 0;
    for (; oracle_in_touch(&w.o, w.now) && there < 10 * SUSPECT; there++) {
        w.now += SUSPECT / 2;
        oracle_forgive(&w.o, SUSPECT / 2);
        watch_step(&w);
    }
    assert_in_range(there, SUSPECT, SUSPECT + 2);
}

/* After each failure the wait is drawn from a range twice as long, up to a limit; the draws differ.
 * */
static void oracle__backs_off_after_failures(void **state)
{
    (void)state;
    enum { SEEDS = 200 };
    uint64_t most_before = 1;
    for (uint32_t failures = 1; failures <= 6; failures++) {
        uint64_t most = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            uint64_t wait = wait_after_failures(seed, failures);
            assert_in_range(wait, 1, 1 + ((uint64_t)STAGGER << failures));
            most = wait > most ? wait : most;
        }
        assert_true(most > most_before);
        most_before = most;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        assert_in_range(wait_after_failures(seed, 50), 1, 1 + (STAGGER << 6));
}

/* A leader that was seen ends the back-off: the next vacancy is met without it. */
static void oracle__seen_leader_forgives_failures(void **state)
{
    (void)state;
    struct watch w;
    watch_init(&w, 3, 1, 7);
    for (uint32_t i = 0; i < 6; i++)
        oracle_failed(&w.o);
    leads(&w, 0);
    assert_false(watch_step(&w));
    w.view[0].dead = true;
    assert_int_equal(runs_after(&w), 1);
}

/* Two replicas that have failed at the same time, again and again, with the lower rank dead: soon
 * one runs so much earlier than the other that it would have been elected. */
static void oracle__duels_end(void **state)
{
    (void)state;
    enum { ELECTION = 3 * STAGGER };
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct watch a, b;
        watch_init(&a, 3, 1, seed);
        watch_init(&b, 3, 2, seed + 1000);
        bool over = false;
        for (uint32_t round = 0; round < 12 && !over; round++) {
            oracle_failed(&a.o);
            oracle_failed(&b.o);
            uint64_t first = runs_after(&a), second = runs_after(&b);
            over = first + ELECTION < second || second + ELECTION < first;
        }
        assert_true(over);
    }
}

/* While it holds back it says when it wants to be asked again, and at that time it runs. */
static void oracle__says_when_to_ask_again(void **state)
{
    (void)state;
    struct watch w;
    watch_init(&w, 3, 2, 1);
    leads(&w, 0);
    assert_false(watch_step(&w));
    assert_true(oracle_next_ns(&w.o) == UINT64_MAX);
    w.view[0].dead = true;
    assert_false(watch_step(&w));
    uint64_t next = oracle_next_ns(&w.o);
    assert_in_range(next, w.now + 1, w.now + STAGGER);
    assert_false(oracle_says_run(&w.o, w.view, w.promised, next - 1));
    assert_true(oracle_says_run(&w.o, w.view, w.promised, next));
}

/* With a disk the dead do not answer: it waits for their return, and for no time. */
static void oracle__too_few_with_disks_are_waited_for(void **state)
{
    (void)state;
    struct watch w;
    watch_init(&w, 3, 0, 1);
    w.o.kept = true;
    w.view[1].dead = w.view[2].dead = true;
    assert_int_equal(runs_after(&w), UINT64_MAX);
    assert_true(oracle_next_ns(&w.o) == UINT64_MAX);
    w.view[2].dead = false;
    assert_int_equal(runs_after(&w), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle__ranks_run_one_after_the_other),
        cmocka_unit_test(oracle__live_leader_is_left_alone),
        cmocka_unit_test(oracle__dead_leader_is_replaced_at_once),
        cmocka_unit_test(oracle__silent_leader_is_replaced_when_suspected),
        cmocka_unit_test(oracle__busy_leader_is_given_time),
        cmocka_unit_test(oracle__renewed_heartbeat_cancels),
        cmocka_unit_test(oracle__promised_but_not_leading_gets_time),
        cmocka_unit_test(oracle__unfit_replica_never_runs),
        cmocka_unit_test(oracle__needs_a_reachable_quorum),
        cmocka_unit_test(oracle__leader_that_others_hear_is_left_alone),
        cmocka_unit_test(oracle__dead_are_no_quorum_over_a_network),
        cmocka_unit_test(oracle__backs_who_serves),
        cmocka_unit_test(oracle__leader_that_is_alone_is_replaced),
        cmocka_unit_test(oracle__absence_is_forgiven),
        cmocka_unit_test(oracle__short_absences_are_forgiven),
        cmocka_unit_test(oracle__backs_off_after_failures),
        cmocka_unit_test(oracle__seen_leader_forgives_failures),
        cmocka_unit_test(oracle__duels_end),
        cmocka_unit_test(oracle__says_when_to_ask_again),
        cmocka_unit_test(oracle__too_few_with_disks_are_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
