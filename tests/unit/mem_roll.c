/* Hosts that start, leave, are killed and cut off from each other in every order that chance draws, with the roll and
 * a coarse model of agreement: a majority of connected members decides, a leader takes back who has lost its memory.
 * Whoever begins anew must never do so while a process holds what an earlier life of it has helped to decide; and
 * after all have left in order everybody begins anew. No member refuses a client of its own cluster, and all refuse it
 * once the cluster has begun anew. */
#include "base/rng.h"
#include "mem/roll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { HOSTS_MAX = 5, RUNS = 4000, STEPS = 120, DECISIONS_MAX = 64 };

struct host {
    struct roll_entry file[ROLL_HOSTS_MAX];
    struct roll roll;
    uint32_t lives;
    uint32_t made;
    bool runs;
    uint64_t data; /* decisions that its memory has */
};

static struct world {
    uint32_t n;
    struct host host[HOSTS_MAX];
    bool linked[HOSTS_MAX][HOSTS_MAX];
    bool cut[HOSTS_MAX][HOSTS_MAX];
    uint64_t helped[HOSTS_MAX]; /* decisions that some life of it took part in */
    uint32_t decisions;
    uint32_t anew; /* how often somebody began anew */
    uint64_t seed;
    uint32_t conflicts; /* members of two clusters have met */
    /* A client that a leader has given its place, when it had decided something: with what came along, and the decisions
     * that are its cluster's. */
    struct {
        uint64_t first[ROLL_HOSTS_MAX];
        uint64_t data;
    } client;
} w;

static struct rng rng;

static bool member(uint32_t i)
{
    return w.host[i].runs && roll_own(&w.host[i].roll) == ROLL_MEMBER;
}

static void tell(uint32_t from, uint32_t to)
{
    struct roll_item items[ROLL_HOSTS_MAX];

    roll_tell(&w.host[from].roll, items);
    for (uint32_t k = 0; k < w.n; k++)
        assert_true(roll_hear(&w.host[to].roll, from, &items[k]));
}

static void unlink_pair(uint32_t a, uint32_t b)
{
    if (!w.linked[a][b])
        return;
    w.linked[a][b] = w.linked[b][a] = false;
    if (w.host[a].runs)
        roll_disconnect(&w.host[a].roll, b);
    if (w.host[b].runs)
        roll_disconnect(&w.host[b].roll, a);
}

static void link_pair(uint32_t a, uint32_t b)
{
    bool mine;

    if (a == b || w.linked[a][b] || w.cut[a][b] || !w.host[a].runs || !w.host[b].runs)
        return;
    tell(a, b);
    tell(b, a);
    bool conflict = roll_conflict(&w.host[a].roll, b, &mine);
    assert_int_equal(conflict, roll_conflict(&w.host[b].roll, a, &mine));
    if (conflict) {
        roll_disconnect(&w.host[a].roll, b);
        roll_disconnect(&w.host[b].roll, a);
        w.conflicts++;
        return;
    }
    w.linked[a][b] = w.linked[b][a] = true;
    roll_connect(&w.host[a].roll, b);
    roll_connect(&w.host[b].roll, a);
}

static void start(uint32_t i)
{
    struct host *h = &w.host[i];

    if (h->runs)
        return;
    h->runs = true;
    h->data = 0;
    roll_open(&h->roll, w.n, i, h->file, roll_age(h->made, h->lives), h->lives > 0);
    h->lives++;
}

static void stop(uint32_t i, bool in_order)
{
    struct host *h = &w.host[i];

    if (!h->runs)
        return;
    if (in_order) {
        roll_leave(&h->roll);
        for (uint32_t k = 0; k < w.n; k++)
            if (w.linked[i][k])
                tell(i, k);
    }
    for (uint32_t k = 0; k < w.n; k++)
        unlink_pair(i, k);
    roll_close(&h->roll);
    h->runs = false;
    h->data = 0;
}

/* The members that a leader reaches, itself included. */
static uint32_t quorum_of(uint32_t leader, uint64_t *data)
{
    uint32_t mask = 0, count = 0;

    *data = 0;
    for (uint32_t i = 0; i < w.n; i++)
        if (member(i) && (i == leader || w.linked[leader][i])) {
            mask |= 1u << i;
            count++;
            *data |= w.host[i].data;
        }
    return member(leader) && count > w.n / 2 ? mask : 0;
}

static void decide(uint32_t leader)
{
    uint64_t data, held = 0;
    uint32_t mask = quorum_of(leader, &data);

    if (mask == 0 || w.decisions == DECISIONS_MAX)
        return;
    for (uint32_t i = 0; i < w.n; i++)
        if (w.host[i].runs)
            held |= w.host[i].data;
    if (held & ~data)
        fail_msg("seed %lu: a majority decides and knows nothing of what a process holds",
                 (unsigned long)w.seed);
    data |= UINT64_C(1) << w.decisions;
    for (uint32_t i = 0; i < w.n; i++)
        if (mask >> i & 1) {
            w.host[i].data = data;
            w.helped[i] |= UINT64_C(1) << w.decisions;
        }
    w.decisions++;
    if (w.client.data == 0 || rng_below(&rng, 4) == 0) {
        memcpy(w.client.first, w.host[leader].roll.first, sizeof w.client.first);
        w.client.data = data;
    }
}

static void client_is_known(void)
{
    for (uint32_t i = 0; i < w.n; i++)
        if (w.host[i].runs && w.host[i].data & w.client.data &&
            roll_outdated(&w.host[i].roll, w.client.first))
            fail_msg("seed %lu: host %u refuses a client of its own cluster", (unsigned long)w.seed,
                     i);
}

static void client_is_refused(void)
{
    for (uint32_t i = 0; w.client.data && i < w.n; i++)
        if (w.client.first[i] != ROLL_NEVER && !roll_outdated(&w.host[i].roll, w.client.first))
            fail_msg("seed %lu: host %u takes a client from before for one of its own",
                     (unsigned long)w.seed, i);
}

/* What a new member does reaches nobody before the news that it is one. */
static void tell_all(uint32_t i)
{
    for (uint32_t k = 0; k < w.n; k++)
        if (w.linked[i][k]) {
            tell(i, k);
            roll_connect(&w.host[k].roll, i);
        }
}

static void take_back(uint32_t leader, uint32_t i)
{
    uint64_t data;

    if (!w.host[i].runs || member(i) || !w.linked[leader][i] || quorum_of(leader, &data) == 0)
        return;
    w.host[i].data = data;
    roll_taken_back(&w.host[i].roll);
    tell_all(i);
}

static void judge(uint32_t i)
{
    struct host *h = &w.host[i];
    uint32_t who;

    if (!h->runs || roll_judge(&h->roll, &who) != ROLL_ANEW)
        return;
    for (uint32_t k = 0; k < w.n; k++)
        if (w.host[k].runs && w.host[k].data & w.helped[i])
            fail_msg("seed %lu: host %u begins anew, and %u holds what it helped to decide",
                     (unsigned long)w.seed, i, k);
    roll_begin_anew(&h->roll);
    tell_all(i);
    w.anew++;
}

static void gossip(uint32_t i)
{
    struct host *h = &w.host[i];

    if (!h->runs || !h->roll.changed)
        return;
    h->roll.changed = false;
    tell_all(i);
}

static void cut_or_heal(uint32_t a, uint32_t b)
{
    w.cut[a][b] = w.cut[b][a] = !w.cut[a][b];
    if (w.cut[a][b])
        unlink_pair(a, b);
}

static void step(bool kills)
{
    uint32_t a = (uint32_t)rng_below(&rng, w.n), b = (uint32_t)rng_below(&rng, w.n);

    switch (rng_below(&rng, 12)) {
    case 0:
        start(a);
        break;
    case 1:
        stop(a, !kills || rng_below(&rng, 3) > 0);
        break;
    case 2:
        cut_or_heal(a, b);
        break;
    case 3:
    case 4:
    case 5:
        link_pair(a, b);
        break;
    case 6:
    case 7:
        decide(a);
        break;
    case 8:
        take_back(a, b);
        break;
    case 9:
        gossip(a);
        break;
    default:
        judge(a);
    }
    client_is_known();
}

static void world_begin(uint64_t seed)
{
    memset(&w, 0, sizeof w);
    rng_init(&rng, seed);
    w.seed = seed;
    w.n = 1 + (uint32_t)rng_below(&rng, HOSTS_MAX);
    for (uint32_t i = 0; i < w.n; i++)
        w.host[i].made = 1000;
}

static void world_end(void)
{
    for (uint32_t i = 0; i < w.n; i++)
        if (w.host[i].runs)
            roll_close(&w.host[i].roll);
}

/* All are started, connected, and have heard everything. `stopped`: all had left in order. */
static void settle_all(bool stopped)
{
    w.conflicts = 0;
    memset(w.cut, 0, sizeof w.cut);
    for (uint32_t i = 0; i < w.n; i++)
        start(i);
    for (uint32_t round = 0; round < 3 * w.n; round++)
        for (uint32_t i = 0; i < w.n; i++) {
            for (uint32_t k = 0; k < w.n; k++)
                link_pair(i, k);
            gossip(i);
            judge(i);
        }
    if (stopped && w.conflicts > 0)
        fail_msg("seed %lu: two clusters after all have left", (unsigned long)w.seed);
}

static void stop_all_in_order(void)
{
    uint32_t from = (uint32_t)rng_below(&rng, w.n), by = 1 + 2 * (uint32_t)rng_below(&rng, 2);

    for (uint32_t k = 0; k < w.n; k++)
        stop(w.n == 3 && by == 3 ? (from + 2 * k) % w.n : (from + k) % w.n, true);
}

static void roll__an_orderly_stop_of_all_begins_anew(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < RUNS; seed++) {
        world_begin(seed);
        for (int i = 0; i < STEPS; i++)
            step(false);
        stop_all_in_order();
        settle_all(true);
        for (uint32_t i = 0; i < w.n; i++)
            if (!member(i))
                fail_msg("seed %lu: host %u of %u does not begin anew", (unsigned long)seed, i,
                         w.n);
        client_is_refused();
        world_end();
    }
}

static void roll__nobody_forgets_what_another_holds(void **state)
{
    uint64_t anew = 0, decisions = 0;

    (void)state;
    for (uint64_t seed = 0; seed < RUNS; seed++) {
        world_begin(seed);
        for (int i = 0; i < STEPS; i++)
            step(true);
        anew += w.anew;
        decisions += w.decisions;
        /* What the message says: stop all, start all. The first start may find that kills have cost too much. */
        settle_all(false);
        stop_all_in_order();
        settle_all(true);
        for (uint32_t i = 0; i < w.n; i++)
            if (!member(i))
                fail_msg("seed %lu: host %u of %u is not up after what was to be done",
                         (unsigned long)seed, i, w.n);
        world_end();
    }
    assert_true(anew > RUNS / 10 && decisions > RUNS); /* else nothing was tried */
}

/* ---- by hand ---- */

static void three(void)
{
    world_begin(1);
    w.n = 3;
    for (uint32_t i = 0; i < 3; i++)
        w.host[i].made = 1000;
    settle_all(false);
    decide(0);
}

static enum roll_verdict verdict(uint32_t i)
{
    uint32_t who;

    return roll_judge(&w.host[i].roll, &who);
}

static void roll__who_leaves_while_others_serve_is_taken_back(void **state)
{
    (void)state;
    three();
    stop(2, true);
    start(2);
    assert_int_equal(verdict(2), ROLL_WAIT); /* nobody is connected yet */
    link_pair(2, 0);
    assert_int_equal(verdict(2), ROLL_JOIN);
    take_back(0, 2);
    assert_true(member(2));
    world_end();
}

/* A host that is back without its memory does not know yet that the client is of the cluster that takes it back. */
static void roll__who_lost_its_memory_refuses_no_client(void **state)
{
    (void)state;
    three();
    decide(0);
    assert_true(w.client.data != 0 && w.client.first[2] != ROLL_NEVER);
    stop(2, false);
    start(2);
    assert_false(roll_outdated(&w.host[2].roll, w.client.first));
    link_pair(2, 0);
    take_back(0, 2);
    assert_false(roll_outdated(&w.host[2].roll, w.client.first));
    world_end();
}

static void roll__the_last_one_killed_is_waited_for_and_then_lost(void **state)
{
    (void)state;
    three();
    stop(0, true);
    stop(1, true);
    stop(2, false);
    start(0);
    start(1);
    link_pair(0, 1);
    assert_int_equal(verdict(0), ROLL_WAIT);
    start(2);
    link_pair(0, 2);
    assert_int_equal(verdict(0), ROLL_LOST);
    assert_int_equal(verdict(2), ROLL_LOST);
    /* It says so and ends; who was slower says so too, before anything begins anew. */
    stop(2, true);
    assert_int_equal(verdict(0), ROLL_LOST);
    stop(0, true);
    stop(1, true);
    start(0);
    start(1);
    start(2);
    link_pair(0, 1);
    link_pair(0, 2);
    assert_int_equal(verdict(0), ROLL_ANEW);
    world_end();
}

/* 0 and 1 were tried out alone and stopped; then all five are started, and the others meet first. */
static void roll__strangers_with_memory_do_not_stand_in_the_way(void **state)
{
    (void)state;
    world_begin(1);
    w.n = 5;
    for (uint32_t i = 0; i < 5; i++)
        w.host[i].made = 1000;
    start(0);
    start(1);
    link_pair(0, 1);
    stop(0, true);
    stop(1, true);
    for (uint32_t i = 2; i < 5; i++)
        start(i);
    link_pair(2, 3);
    link_pair(3, 4);
    decide(3);
    start(0);
    link_pair(0, 3);
    assert_int_equal(verdict(0), ROLL_WAIT); /* for 1, which has not told that it left */
    settle_all(false);
    for (uint32_t i = 0; i < 5; i++)
        assert_true(member(i));
    world_end();
}

/* The file of 2 is removed while the others have all that it helped to decide. */
static void roll__a_removed_file_is_found_out(void **state)
{
    bool mine;

    (void)state;
    three();
    stop(2, true);
    memset(w.host[2].file, 0, sizeof w.host[2].file);
    w.host[2].lives = 0;
    w.host[2].made = 2000;
    start(2);
    assert_true(member(2));
    tell(0, 2);
    tell(2, 0);
    assert_true(roll_conflict(&w.host[2].roll, 0, &mine));
    assert_true(mine && !roll_company(&w.host[2].roll));
    assert_true(roll_conflict(&w.host[0].roll, 2, &mine));
    assert_true(!mine && roll_company(&w.host[0].roll));
    roll_forget_memory(&w.host[2].roll);
    roll_disconnect(&w.host[0].roll, 2);
    stop(2, false);
    start(2);
    link_pair(2, 0);
    assert_int_equal(verdict(2), ROLL_JOIN);
    world_end();
}

/* It is told so before it has heard anything, and must not believe that it is alone. */
static void roll__who_is_remembered_waits_for_who_remembers(void **state)
{
    (void)state;
    three();
    stop(2, true);
    memset(w.host[2].file, 0, sizeof w.host[2].file);
    w.host[2].lives = 0;
    w.host[2].made = 2000;
    start(2);
    roll_suspect(&w.host[2].roll, 0);
    stop(2, true);
    start(2);
    assert_int_equal(verdict(2), ROLL_WAIT);
    link_pair(2, 0);
    assert_int_equal(verdict(2), ROLL_JOIN);
    world_end();
}

/* All files are removed but one: who has it left in order, and the others hold nothing that it knew. */
static void roll__removed_files_of_the_others_are_no_riddle(void **state)
{
    (void)state;
    three();
    stop(0, true);
    stop(1, false);
    stop(2, false);
    for (uint32_t i = 1; i < 3; i++) {
        memset(w.host[i].file, 0, sizeof w.host[i].file);
        w.host[i].lives = 0;
        w.host[i].made = 2000;
    }
    settle_all(false);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(member(i));
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roll__an_orderly_stop_of_all_begins_anew),
        cmocka_unit_test(roll__nobody_forgets_what_another_holds),
        cmocka_unit_test(roll__who_leaves_while_others_serve_is_taken_back),
        cmocka_unit_test(roll__who_lost_its_memory_refuses_no_client),
        cmocka_unit_test(roll__the_last_one_killed_is_waited_for_and_then_lost),
        cmocka_unit_test(roll__strangers_with_memory_do_not_stand_in_the_way),
        cmocka_unit_test(roll__a_removed_file_is_found_out),
        cmocka_unit_test(roll__who_is_remembered_waits_for_who_remembers),
        cmocka_unit_test(roll__removed_files_of_the_others_are_no_riddle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
