/* Hosts on shared memory are killed, stopped and restarted in every order that matters: what was
 * acknowledged must be found again, and memory that is really gone must never pass for kept. */
#include "../shm_fixture.h"

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
        assert_int_equal(kids[i].order->incarnation, 0);
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
    assert_int_equal(kids[1].order->incarnation, 1);
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
        assert_int_equal(kids[1].order->incarnation, life);
        assert_int_equal(kids[1].order->birth, MEM_BIRTH_KEPT);
        assert_true(kid_connect(&kids[1], 0) && kid_connect(&kids[0], 1));
        for (unsigned w = 1; w <= life; w++) {
            assert_int_equal(word_at(0, 0, 1, w), 100 + w);
            assert_int_equal(word_at(1, 0, 1, w), 100 + w);
            assert_int_equal(word_at(2, 0, 1, w), 100 + w);
        }
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
        assert_int_equal(kids[i].order->incarnation, 0);
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
    assert_int_equal(kids[1].order->incarnation, 2);
    assert_int_equal(kids[1].order->birth, MEM_BIRTH_LOST);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest cases[] = {
        CASE(shm__first_life_is_new),
        CASE(shm__memory_of_a_dead_owner_goes_on_working),
        CASE(shm__a_killed_owner_finds_its_memory_kept),
        CASE(shm__a_lane_survives_restarts_of_its_writer),
        CASE(shm__all_killed_is_lost),
        CASE(shm__a_clean_end_of_all_begins_anew),
        CASE(shm__who_leaves_and_returns_finds_its_memory),
        CASE(shm__memory_of_the_dead_reaches_who_comes_later),
        CASE(shm__a_reader_that_was_stopped_sees_the_writers_new_life),
        CASE(shm__memory_that_was_given_up_never_completes_a_write),
        CASE(shm__older_content_does_not_pass_for_kept),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
