#include "mem/places.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { COUNT = 4 };

#define S UINT64_C(1000000000)

static char dir[64], path[96];
static struct life_file file;
static struct places places;

static void host_start(uint64_t now_ns)
{
    struct err e = {""};
    uint32_t lives;
    struct life_options o = {.dir = dir, .host = "h0", .places = COUNT};

    memset(&file, 0, sizeof file);
    if (life_open(&file, &o, &lives, &e) < 0 || places_open(&places, &file, 1000, now_ns, &e) < 0)
        fail_msg("%s", e.text);
}

static void host_end(void)
{
    places_close(&places);
    life_close(&file, false);
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/tram-places-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/h0.life", dir);
    host_start(S);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    host_end();
    unlink(path);
    return rmdir(dir);
}

static void places__a_restarted_host_knows_who_has_them(void **state)
{
    uint32_t given;

    (void)state;
    assert_int_equal(places_any(&places, S), 0);
    assert_int_equal(places_give(&places, 0, 77), 0);
    assert_int_equal(places_any(&places, S), 1);
    host_end();
    host_start(2 * S);
    /* Before its client is back, and for as long as it may live. */
    for (uint32_t i = 1; i < COUNT; i++) {
        uint32_t at = places_any(&places, 3 * S);
        assert_int_not_equal(at, 0);
        places_give(&places, at, 100 + i);
    }
    assert_int_equal(places_any(&places, 3 * S), PLACES_NONE);
    assert_int_equal(places_this(&places, 0, 3 * S), PLACES_NONE);
    assert_true(places_return(&places, 0, 0, 77, &given));
    assert_int_equal(places_any(&places, 300 * S), PLACES_NONE);
    /* One that never comes back does not hold it for ever. */
    host_end();
    host_start(300 * S);
    assert_int_equal(places_any(&places, 301 * S), PLACES_NONE);
    assert_int_not_equal(places_any(&places, 341 * S), PLACES_NONE);
}

static void places__a_client_that_connects_again_keeps_its_place(void **state)
{
    uint32_t given;

    (void)state;
    places_give(&places, 2, 77);
    places_leave(&places, 2, 77, false, 10 * S);
    assert_true(places_return(&places, 2, 0, 77, &given));
    assert_int_equal(places_this(&places, 2, 1000 * S), PLACES_NONE);
    places_leave(&places, 2, 77, true, 1000 * S);
    assert_int_equal(places_this(&places, 2, 1000 * S), 2);
    assert_int_equal(places_any(&places, 1000 * S), 0);
    /* The next has it in another life, and the first is told. */
    assert_int_equal(places_give(&places, 2, 78), 1);
    assert_false(places_return(&places, 2, 0, 77, &given));
    assert_int_equal(given, 1);
    assert_false(places_return(&places, 2, 1, 77, &given));
    places_leave(&places, 2, 77, true, 1001 * S); /* it is not his any more */
    assert_int_equal(places_this(&places, 2, 1001 * S), PLACES_NONE);
}

static void places__those_from_before_a_new_beginning_are_void(void **state)
{
    uint32_t given;

    (void)state;
    places_give(&places, 1, 77);
    host_end();
    host_start(2 * S);
    places_void(&places);
    assert_false(places_return(&places, 1, 0, 77, &given));
    assert_int_equal(places_this(&places, 1, 2 * S), 1);
    assert_true(places_give(&places, 1, 78) > 0);
}

/* The count is gone with the file: a client that has the place brings it back. */
static void places__a_lost_count_is_learnt(void **state)
{
    uint32_t given;

    (void)state;
    host_end();
    unlink(path);
    FILE *f = fopen(path, "w");
    fprintf(f, "lives %10u pid %10d\n", 3u, 1);
    fclose(f);
    host_start(2 * S);
    assert_true(places_return(&places, 3, 41, 77, &given));
    places_leave(&places, 3, 77, true, 3 * S);
    assert_int_equal(places_give(&places, 3, 78), 42);
    /* Or somebody else has seen him. */
    places_seen(&places, 2, 6);
    places_seen(&places, 2, 4);
    assert_int_equal(places_give(&places, 2, 79), 7);
    /* A host without a past has given nothing. */
    host_end();
    unlink(path);
    host_start(4 * S);
    assert_false(places_return(&places, 3, 42, 78, &given));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(places__a_restarted_host_knows_who_has_them),
        CASE(places__a_client_that_connects_again_keeps_its_place),
        CASE(places__those_from_before_a_new_beginning_are_void),
        CASE(places__a_lost_count_is_learnt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
