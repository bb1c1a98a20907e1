/* Hosts on shared memory are killed, stopped and restarted in every order that matters: what was
 * acknowledged must be found again, and memory that is really gone must never pass for kept. */
#include "../shm_fixture.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void start_all(void)
{
    for (unsigned i = 0; i < HOSTS; i++)
        kid_start(&kids[i], i);
    for (unsigned i = 0; i < HOSTS; i++)
        for (unsigned k = 0; k < HOSTS; k++)
            assert_true(i == k || kid_connect(&kids[i], k));
}

static void restart(unsigned i)
{
    kid_start(&kids[i], i);
}

static uint64_t word_at(unsigned reader, unsigned owner, unsigned writer, unsigned word)
{
    uint64_t value = 0;

    assert_int_equal(kid_read(&kids[reader], owner, writer, word, &value), MEM_DONE);
    return value;
}

static void shm__first_life_is_new(void **state)
{
    (void)state;
    start_all();
    for (unsigned i = 0; i < HOSTS; i++) {
        assert_int_equal(kids[i].order->birth, MEM_BIRTH_NEW);
        assert_int_equal(kids[i].order->life, 0);
        assert_int_equal(kids[i].order->promised, 0);
    }
}

static void shm__memory_of_a_dead_owner_goes_on_working(void **state)
{
    (void)state;
    start_all();
    assert_int_equal(kid_raise(&kids[0], 1, 5), MEM_DONE);
    assert_int_equal(kid_set(&kids[0], 1, 3, 33, 5), MEM_DONE);
    kid_kill(&kids[1]);

    assert_int_equal(kid_set(&kids[0], 1, 4, 44, 5), MEM_DONE);
    assert_int_equal(word_at(2, 1, 0, 3), 33);
    assert_int_equal(word_at(2, 1, 0, 4), 44);
    assert_int_equal(kid_raise(&kids[2], 1, 6), MEM_DONE);
    assert_int_equal(kid_set(&kids[0], 1, 4, 45, 5), MEM_DENIED);
    assert_int_equal(kid_raise(&kids[0], 1, 5), MEM_DENIED);
    assert_int_equal(kids[0].order->result, 6);
}

static void shm__a_killed_owner_finds_its_memory_kept(void **state)
{
    (void)state;
    start_all();
    assert_int_equal(kid_raise(&kids[0], 1, 5), MEM_DONE);
    assert_int_equal(kid_set(&kids[0], 1, 3, 33, 5), MEM_DONE);
    kid_kill(&kids[1]);
    assert_int_equal(kid_raise(&kids[2], 1, 9), MEM_DONE);
    assert_int_equal(kid_set(&kids[2], 1, 2, 22, 9), MEM_DONE);

    restart(1);
    assert_int_equal(kids[1].order->birth, MEM_BIRTH_KEPT);
    assert_int_equal(kids[1].order->life, 1);
    assert_int_equal(kids[1].order->promised, 9);
    assert_true(kid_connect(&kids[1], 0) && kid_connect(&kids[1], 2));
    assert_int_equal(word_at(1, 1, 0, 3), 33);
    assert_int_equal(word_at(1, 1, 2, 2), 22);
    /* The flow that was open before the crash goes on. */
    assert_int_equal(kid_set(&kids[2], 1, 2, 23, 9), MEM_DONE);
    assert_int_equal(word_at(1, 1, 2, 2), 23);
}

static void shm__a_lane_survives_restarts_of_its_writer(void **state)
{
    (void)state;
    start_all();
    assert_int_equal(kid_raise(&kids[1], 0, 5), MEM_DONE);
    for (unsigned life = 1; life <= 3; life++) {
        assert_int_equal(kid_set(&kids[1], 0, life, 100 + life, 5), MEM_DONE);
        kid_kill(&kids[1]);
        assert_int_equal(word_at(0, 0, 1, life), 100 + life);
        restart(1);
        assert_int_equal(kids[1].order->life, life);
        assert_int_equal(kids[1].order->birth, MEM_BIRTH_KEPT);
        assert_true(kid_connect(&kids[1], 0) && kid_connect(&kids[0], 1));
        for (unsigned w = 1; w <= life; w++) {
            assert_int_equal(word_at(0, 0, 1, w), 100 + w);
            assert_int_equal(word_at(1, 0, 1, w), 100 + w);
            assert_int_equal(word_at(2, 0, 1, w), 100 + w);
        }
    }
}

static void shm__one_live_peer_is_enough(void **state)
{
    (void)state;
    kid_start(&kids[0], 0);
    kid_start(&kids[1], 1);
    assert_true(kid_connect(&kids[0], 1) && kid_connect(&kids[1], 0));
    for (unsigned life = 1; life <= 20; life++) {
        assert_int_equal(kid_raise(&kids[0], 1, life), MEM_DONE);
        assert_int_equal(kid_set(&kids[1], 1, 1, life, life), MEM_DONE);
        kid_kill(&kids[1]);
        restart(1);
        assert_int_equal(kids[1].order->birth, MEM_BIRTH_KEPT);
        assert_int_equal(kids[1].order->promised, life);
        assert_int_equal(word_at(1, 1, 1, 1), life);
        assert_true(kid_connect(&kids[1], 0));
    }
}

static void shm__all_killed_is_lost(void **state)
{
    uint64_t value;

    (void)state;
    start_all();
    assert_int_equal(kid_raise(&kids[0], 1, 5), MEM_DONE);
    for (unsigned i = 0; i < HOSTS; i++)
        kid_kill(&kids[i]);
    for (unsigned i = 0; i < HOSTS; i++) {
        restart(i);
        assert_int_equal(kids[i].order->birth, MEM_BIRTH_LOST);
        assert_true(kids[i].order->promised == MEM_CLOSED);
    }
    assert_true(kid_connect(&kids[0], 1));
    assert_int_equal(kid_raise(&kids[0], 1, 7), MEM_DENIED);
    assert_true(kids[0].order->result == MEM_CLOSED);
    assert_int_equal(kid_read(&kids[0], 1, 0, 3, &value), MEM_DONE);
    assert_int_equal(value, 0);

    /* Lost stays lost in the next life, which finds the closed word kept. */
    kid_kill(&kids[1]);
    restart(1);
    assert_int_equal(kids[1].order->birth, MEM_BIRTH_LOST);
}

static void shm__a_clean_end_of_all_begins_anew(void **state)
{
    char path[256];

    (void)state;
    start_all();
    kid_kill(&kids[2]); /* a dead one does not count as somebody who is left */
    for (unsigned i = 0; i < 2; i++)
        kid_close(&kids[i]);
    fixture_path(path, sizeof path, "");
    assert_int_not_equal(access(path, F_OK), 0);
    for (unsigned i = 0; i < HOSTS; i++) {
        restart(i);
        assert_int_equal(kids[i].order->birth, MEM_BIRTH_NEW);
        assert_int_equal(kids[i].order->life, 0);
    }
}

static void shm__who_leaves_and_returns_finds_its_memory(void **state)
{
    (void)state;
    start_all();
    assert_int_equal(kid_raise(&kids[0], 1, 5), MEM_DONE);
    kid_close(&kids[1]);
    assert_int_equal(kid_raise(&kids[0], 1, 6), MEM_DONE);
    restart(1);
    assert_int_equal(kids[1].order->birth, MEM_BIRTH_KEPT);
    assert_int_equal(kids[1].order->promised, 6);
}

static void shm__memory_of_the_dead_reaches_who_comes_later(void **state)
{
    (void)state;
    kid_start(&kids[0], 0);
    kid_start(&kids[1], 1);
    assert_true(kid_connect(&kids[0], 1) && kid_connect(&kids[1], 0));
    assert_int_equal(kid_raise(&kids[0], 1, 5), MEM_DONE);
    assert_int_equal(kid_set(&kids[0], 1, 3, 33, 5), MEM_DONE);
    assert_int_equal(kid_set(&kids[1], 1, 3, 11, 5), MEM_DONE);
    kid_kill(&kids[1]);

    kid_start(&kids[2], 2);
    assert_true(kid_connect(&kids[2], 0));
    assert_int_equal(kid_raise(&kids[2], 1, 6), MEM_DONE);
    assert_int_equal(word_at(2, 1, 0, 3), 33);
    assert_int_equal(word_at(2, 1, 1, 3), 11);

    /* And it is then enough that the late one lives. */
    kid_kill(&kids[0]);
    restart(1);
    assert_int_equal(kids[1].order->birth, MEM_BIRTH_KEPT);
    assert_int_equal(kids[1].order->promised, 6);
    assert_int_equal(word_at(1, 1, 0, 3), 33);
}

/* A reader was stopped while the writer restarted and wrote into new memory that counted: once the
 * reader goes on and has raised, it must see that memory and not the one it knew. */
static void shm__a_reader_that_was_stopped_sees_the_writers_new_life(void **state)
{
    (void)state;
    start_all();
    for (unsigned round = 1; round <= 10; round++) {
        uint64_t ballot = 10 * round, value = 0;

        assert_int_equal(kid_raise(&kids[1], 0, ballot), MEM_DONE);
        assert_int_equal(kid_set(&kids[1], 0, 1, ballot + 1, ballot), MEM_DONE);
        kid_stop(&kids[2]);
        kid_kill(&kids[1]);
        restart(1);
        assert_int_equal(kids[1].order->birth, MEM_BIRTH_KEPT);
        assert_true(kid_connect(&kids[1], 0));
        assert_int_equal(kid_set(&kids[1], 0, 1, ballot + 2, ballot), MEM_DONE);

        /* The order is there before it runs again, so it races with its own helper. */
        kid_give(&kids[2], (struct kid_order){.verb = KID_RAISE, .owner = 0, .value = ballot + 1});
        kid_continue(&kids[2]);
        assert_int_equal(kid_wait(&kids[2]), MEM_DONE);
        assert_int_equal(kid_read(&kids[2], 0, 1, 1, &value), MEM_DONE);
        assert_int_equal(value, ballot + 2);
        assert_int_equal(kid_set(&kids[1], 0, 1, ballot + 3, ballot), MEM_DENIED);
    }
}

/* The only holder of a dead host's memory is stopped; the host restarts and has to count it as
 * lost. When the holder goes on, nothing may complete on the memory that was given up. */
static void shm__memory_that_was_given_up_never_completes_a_write(void **state)
{
    (void)state;
    kid_start(&kids[0], 0);
    kid_start(&kids[1], 1);
    assert_true(kid_connect(&kids[0], 1) && kid_connect(&kids[1], 0));
    assert_int_equal(kid_raise(&kids[0], 1, 5), MEM_DONE);
    assert_int_equal(kid_set(&kids[0], 1, 3, 33, 5), MEM_DONE);
    kid_stop(&kids[0]);
    kid_kill(&kids[1]);
    restart(1);
    assert_int_equal(kids[1].order->birth, MEM_BIRTH_LOST);
    assert_true(kids[1].order->open_ns >= 400000000u);

    kid_give(&kids[0], (struct kid_order){
                           .verb = KID_WRITE, .owner = 1, .word = 3, .value = 34, .result = 5});
    kid_continue(&kids[0]);
    assert_int_equal(kid_wait(&kids[0]), MEM_LOST);
    assert_int_equal(kid_raise(&kids[0], 1, 8) == MEM_DONE, false);
}

/* The writer died with memory that one host has and another has not; that other alone answers when
 * the writer restarts. Old content must not pass for all there was. */
static void shm__older_content_does_not_pass_for_kept(void **state)
{
    (void)state;
    start_all();
    assert_int_equal(kid_raise(&kids[1], 1, 5), MEM_DONE);
    assert_int_equal(kid_set(&kids[1], 1, 1, 11, 5), MEM_DONE);
    kid_stop(&kids[2]);
    kid_kill(&kids[1]);
    restart(1); /* life 1, known to host 0 only */
    assert_int_equal(kids[1].order->birth, MEM_BIRTH_KEPT);
    assert_int_equal(kid_set(&kids[1], 1, 1, 12, 5), MEM_DONE);
    kid_kill(&kids[1]);
    kid_kill(&kids[0]);
    /* Host 2 may or may not have fetched life 1 by now; it cannot, host 0 and 1 are dead. */
    kid_continue(&kids[2]);
    restart(1);
    assert_int_equal(kids[1].order->life, 2);
    assert_int_equal(kids[1].order->birth, MEM_BIRTH_LOST);
}

/* The same, and what misses is the writer's own: it must not read older content where newer was
 * acknowledged, either. */
static void shm__older_content_of_its_own_does_not_pass_for_all(void **state)
{
    uint64_t value = 0;

    (void)state;
    start_all();
    assert_int_equal(kid_raise(&kids[2], 1, 5), MEM_DONE);
    assert_int_equal(kid_set(&kids[2], 1, 1, 11, 5), MEM_DONE);
    kid_stop(&kids[0]);
    kid_kill(&kids[2]);
    restart(2); /* life 1, known to host 1 only */
    assert_int_equal(kids[2].order->birth, MEM_BIRTH_KEPT);
    assert_true(kid_connect(&kids[2], 1));
    assert_int_equal(kid_raise(&kids[2], 1, 6), MEM_DONE);
    assert_int_equal(kid_set(&kids[2], 1, 1, 12, 6), MEM_DONE);
    kid_stop(&kids[1]);
    kid_kill(&kids[2]);
    kid_continue(&kids[0]);
    restart(2);
    assert_int_equal(kids[2].order->birth, MEM_BIRTH_LOST);
    kid_continue(&kids[1]);
    for (uint64_t ballot = 7; ballot < 12; ballot++) {
        if (kid_raise(&kids[2], 1, ballot) == MEM_DONE &&
            kid_read(&kids[2], 1, 2, 1, &value) == MEM_DONE)
            assert_int_equal(value, 12);
        nap(20000000);
    }
}

/* And once more: the life that came back without it is carried on whole, but that does not bring back what
 * it had never had. The host that counts on that must go on refusing. */
static void shm__a_later_life_does_not_pass_for_whole_either(void **state)
{
    uint64_t value = 0;

    (void)state;
    start_all();
    assert_int_equal(kid_raise(&kids[2], 0, 5), MEM_DONE);
    assert_int_equal(kid_set(&kids[2], 0, 1, 11, 5), MEM_DONE);
    kid_stop(&kids[1]);
    kid_kill(&kids[2]);
    restart(2); /* life 1, known to host 0 only */
    assert_true(kid_connect(&kids[2], 0));
    assert_int_equal(kid_raise(&kids[2], 0, 6), MEM_DONE);
    assert_int_equal(kid_set(&kids[2], 0, 1, 12, 6), MEM_DONE);
    kid_stop(&kids[0]);
    kid_kill(&kids[2]);
    kid_continue(&kids[1]);
    restart(2); /* life 2, from what host 1 has, which is life 0 */
    assert_int_equal(kids[2].order->birth, MEM_BIRTH_LOST);
    assert_true(kid_connect(&kids[2], 1));
    kid_continue(&kids[0]);
    for (unsigned life = 3; life <= 5; life++) {
        kid_kill(&kids[2]);
        restart(2); /* from what host 1 has, which is the life before */
        assert_int_equal(kids[2].order->life, life);
        assert_true(kid_connect(&kids[2], 1));
        assert_int_equal(kid_raise(&kids[0], 0, 10 * life), MEM_DONE);
        assert_int_equal(word_at(0, 0, 2, 1), 12);
        for (unsigned i = 1; i < HOSTS; i++)
            if (kid_raise(&kids[i], 0, 10 * life + i) == MEM_DONE &&
                kid_read(&kids[i], 0, 2, 1, &value) == MEM_DONE)
                assert_int_equal(value, 12);
    }
}

/* Everything at random, one order after the other: raises, reads, writes, kills, stops, restarts.
 * At most one host is dead and at most one is stopped. What was acknowledged at an owner is read
 * there by whoever raises, as long as the owner's memory has not been declared lost. A run that failed names
 * its SHM_SEED, with which the same faults come in the same order; SHM_SECONDS makes it longer. */
struct chaos {
    struct rng rng;
    uint64_t ballot;
    uint64_t done[HOSTS][HOSTS]; /* [owner][writer]: last value acknowledged */
    uint64_t seed;
    int dead, stopped; /* host, or -1 */
    unsigned raises, writes, kills, kept, lost;
};

static void chaos_take_over(struct chaos *c)
{
    unsigned x = (unsigned)rng_below(&c->rng, HOSTS), q = (unsigned)rng_below(&c->rng, HOSTS);

    if ((int)x == c->dead || (int)x == c->stopped)
        return;
    if (kid_raise(&kids[x], q, ++c->ballot) != MEM_DONE)
        return;
    c->raises++;
    for (unsigned w = 0; w < HOSTS; w++) {
        uint64_t value = 0;
        enum mem_status status = kid_read(&kids[x], q, w, 0, &value);
        if (status == MEM_DONE && value < c->done[q][w])
            fail_msg("host %u reads %lu at %u from %u, where %lu was acknowledged; SHM_SEED=%lu", x,
                     value, q, w, c->done[q][w], c->seed);
    }
    uint64_t value = c->ballot;
    if (kid_set(&kids[x], q, 0, value, c->ballot) == MEM_DONE) {
        c->done[q][x] = value;
        c->writes++;
    }
}

static void chaos_restart(struct chaos *c)
{
    unsigned y = (unsigned)c->dead;

    restart(y);
    c->dead = -1;
    if (kids[y].order->birth == MEM_BIRTH_KEPT) {
        c->kept++;
        return;
    }
    c->lost++;
    memset(c->done[y], 0, sizeof c->done[y]);
    /* Whoever is let in again counts again; else the hosts that are left to try would grow few. */
    kid_do(&kids[y], (struct kid_order){.verb = KID_GRANT, .value = c->ballot});
}

static void chaos_step(struct chaos *c)
{
    uint64_t what = rng_below(&c->rng, 100);
    unsigned y = (unsigned)rng_below(&c->rng, HOSTS);

    if (what < 80) {
        chaos_take_over(c);
    } else if (what < 88) {
        if (c->dead >= 0) {
            chaos_restart(c);
        } else if ((int)y != c->stopped) {
            kid_kill(&kids[y]);
            c->dead = (int)y;
            c->kills++;
        }
    } else if (what < 94) {
        if (c->stopped >= 0) {
            kid_continue(&kids[c->stopped]);
            c->stopped = -1;
        } else if ((int)y != c->dead) {
            kid_stop(&kids[y]);
            c->stopped = (int)y;
        }
    } else {
        nap(rng_below(&c->rng, 3000000));
    }
}

static void shm__random_faults_lose_nothing_that_counted(void **state)
{
    const char *seed = getenv("SHM_SEED"), *seconds = getenv("SHM_SECONDS");
    struct chaos c = {
        .dead = -1, .stopped = -1, .seed = seed ? strtoull(seed, NULL, 10) : clock_now_ns()};
    uint64_t until = clock_now_ns() + (seconds ? strtoull(seconds, NULL, 10) : 3) * 1000000000u;
    unsigned steps = 0;

    (void)state;
    rng_init(&c.rng, c.seed);
    start_all();
    for (; (seconds || steps < 2500) && clock_now_ns() < until; steps++)
        chaos_step(&c);
    print_message("# %u steps, %u raises, %u writes, %u kills, %u births kept, %u lost\n", steps,
                  c.raises, c.writes, c.kills, c.kept, c.lost);
    assert_true(c.raises > steps / 10 && c.writes > 0 && c.kept > 0);
}

enum { CLIENT_WORD = 5 };

/* A client that writes a number into its lane, where it finds what it returns, and dies without
 * leaving. */
static int client_life(void *arg)
{
    struct shm_options o = fixture_options(0);
    struct mem_lane_spec spec = fixture_spec(0, CLIENT);
    struct mem_lane *lane;
    struct mem_flow f;
    struct mem *m;
    struct mem_op op;
    struct err e;
    uint64_t found = 0;

    (void)arg;
    o.self = (struct shm_node){.name = "c0", .node = CLIENT, .role = SHM_CLIENT};
    if (shm_open_node(&o, &m, &e) < 0 || mem_lanes_open(m, &spec, 1, &lane, &e) < 0)
        return 100;
    mem_read_ctl(m, &op, lane, CLIENT_WORD, 1, &found);
    if (op.status != MEM_DONE)
        return 101;
    uint64_t until = clock_now_ns() + 5000000000u;
    for (f.status = MEM_LOST; f.status != MEM_DONE && clock_now_ns() < until; nap(100000)) {
        mem_poll(m);
        mem_flow_open(m, &f, 0, REGION, 0);
    }
    mem_set1(m, &f, lane, CLIENT_WORD, m->life + 1);
    mem_mark(m, &f, 1);
    while (f.status == MEM_DONE && f.done != 1 && clock_now_ns() < until)
        mem_poll(m);
    return f.done == 1 ? (int)found : 102;
}

/* Nothing is kept for clients: there may be thousands, and a new process in a client's place begins a new
 * stream anyway. It need not wait for anybody's answer, either. */
static void shm__a_clients_lane_is_blank_in_every_life(void **state)
{
    (void)state;
    kid_start(&kids[0], 0);
    for (int life = 0; life < 4; life++) {
        int status;
        waitpid(spawn(client_life, NULL), &status, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest cases[] = {
        CASE(shm__first_life_is_new),
        CASE(shm__memory_of_a_dead_owner_goes_on_working),
        CASE(shm__a_killed_owner_finds_its_memory_kept),
        CASE(shm__a_lane_survives_restarts_of_its_writer),
        CASE(shm__one_live_peer_is_enough),
        CASE(shm__a_clients_lane_is_blank_in_every_life),
        CASE(shm__all_killed_is_lost),
        CASE(shm__a_clean_end_of_all_begins_anew),
        CASE(shm__who_leaves_and_returns_finds_its_memory),
        CASE(shm__memory_of_the_dead_reaches_who_comes_later),
        CASE(shm__a_reader_that_was_stopped_sees_the_writers_new_life),
        CASE(shm__memory_that_was_given_up_never_completes_a_write),
        CASE(shm__older_content_does_not_pass_for_kept),
        CASE(shm__older_content_of_its_own_does_not_pass_for_all),
        CASE(shm__a_later_life_does_not_pass_for_whole_either),
        CASE(shm__random_faults_lose_nothing_that_counted),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
