/* The last messages of a cell: what is kept, read on and copied is what was added. */
#include "api/history.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RING = 4096, LONGEST = 1000, STEPS = 4000 };

/* What a message of that sequence is, in view sequence / 100 + 1. */
static uint32_t length_of(uint64_t sequence)
{
    struct rng r;
    rng_init(&r, sequence + 1);
    return rng_below(&r, 8) == 0 ? (uint32_t)rng_below(&r, LONGEST + 1)
                                 : (uint32_t)rng_below(&r, 100);
}

static void fill(unsigned char *out, uint64_t sequence)
{
    for (uint32_t i = 0; i < length_of(sequence); i++)
        out[i] = (unsigned char)(sequence * 7 + i);
}

static void add(struct history *h)
{
    unsigned char data[LONGEST];
    uint64_t s = history_next(h);
    fill(data, s);
    const struct tram_item item = {
        .data = data, .bytes = length_of(s), .sender = (uint32_t)(s % 5), .number = 3 * s};
    history_add(h, s / 100 + 1, &item, 1);
}

/* Reads to the end: each is the next, and what it was. Returns the first. */
static uint64_t read_all(const struct history *h, struct history_place *p)
{
    uint64_t first = UINT64_MAX, view;
    struct tram_item item[HISTORY_BATCH];
    for (uint32_t count; (count = history_read(h, p, 500, &view, item)) > 0;) {
        uint64_t s = p->sequence - count;
        first = first == UINT64_MAX ? s : first;
        for (uint32_t i = 0; i < count; i++, s++) {
            unsigned char data[LONGEST];
            fill(data, s);
            assert_int_equal(view, s / 100 + 1);
            assert_true(item[i].number == 3 * s && item[i].sender == s % 5);
            assert_int_equal(item[i].bytes, length_of(s));
            assert_memory_equal(item[i].data, data, item[i].bytes);
        }
    }
    assert_int_equal(p->sequence, history_next(h));
    return first;
}

static struct history *opened(void)
{
    struct history *h = history_open(RING);
    assert_non_null(h);
    assert_false(history_is_valid(h));
    history_born(h);
    assert_true(history_is_valid(h));
    return h;
}

static void history__keeps_the_last(void **state)
{
    struct history *h = opened();
    struct history_place on = {0};
    (void)state;
    for (int i = 0; i < STEPS; i++) {
        struct history_place from_start = {0};
        uint64_t next = on.sequence, first = history_first(h);
        add(h);
        assert_int_equal(read_all(h, &from_start), history_first(h));
        assert_int_equal(read_all(h, &on), next); /* who follows misses nothing, whatever goes */
        assert_true(history_first(h) >= first);
        assert_true(history_saved_bytes(h) <= RING + 24);
    }
    assert_true(history_next(h) == STEPS && history_first(h) > STEPS - 200);
    assert_true(history_first(h) < STEPS - 2); /* two of the longest fit in any case */
    history_close(h);
}

/* One at a time they are the same, and begin at a version. */
static void history__is_read_one_by_one_from_a_version(void **state)
{
    struct history *h = history_open(4096);
    struct history_place place = {0};
    struct tram_item one;
    uint64_t view = 0;
    (void)state;
    history_born(h);
    for (uint64_t i = 0; i < 6; i++)
        history_add(h, 1 + i / 3,
                    &(struct tram_item){.data = &i, .bytes = 8, .number = 10 * (i % 3)}, 1);
    assert_int_equal(history_from(h, 0, 0), 0);
    assert_int_equal(history_from(h, 1, 11), 2);
    assert_int_equal(history_from(h, 1, 21), 3);
    assert_int_equal(history_from(h, 2, 20), 5);
    assert_int_equal(history_from(h, 3, 0), 6);
    place.sequence = 4;
    assert_true(history_read_one(h, &place, &view, &one));
    assert_true(place.sequence == 5 && view == 2 && one.number == 10);
    assert_true(history_read_one(h, &place, &view, &one) && one.number == 20);
    assert_false(history_read_one(h, &place, &view, &one));
    assert_int_equal(place.sequence, 6);
    history_close(h);
}

static void history__reader_that_is_late_goes_on_with_the_oldest(void **state)
{
    struct history *h = opened();
    struct history_place p = {0};
    (void)state;
    add(h);
    read_all(h, &p);
    while (history_first(h) < 50)
        add(h);
    assert_int_equal(read_all(h, &p), history_first(h));
    history_born(h);
    add(h);
    assert_int_equal(read_all(h, &p), 0);
    history_close(h);
}

/* A copy taken to another one, in pieces of any size, has the same, and goes on the same. */
static void history__copy_is_the_same(void **state)
{
    struct rng r;
    (void)state;
    rng_init(&r, 1);
    struct history *h = opened(), *to = opened();
    for (int round = 0; round < 300; round++) {
        for (uint64_t n = rng_below(&r, 60); n > 0; n--)
            add(h);
        uint64_t bytes = history_saved_bytes(h), at = 0;
        const char behind[] = "the machine's";
        unsigned char *copy = malloc(bytes + sizeof(behind));
        assert_non_null(copy);
        history_save(h, copy);
        memcpy(copy + bytes, behind, sizeof(behind));
        assert_int_equal(history_load_open(to), 0);
        assert_false(history_is_valid(to));
        while (at < bytes) {
            uint32_t n = (uint32_t)rng_below(&r, 300) + 1;
            n = at + n > bytes + sizeof(behind) ? (uint32_t)(bytes + sizeof(behind) - at) : n;
            int64_t took = history_load_next(to, copy + at, n);
            assert_true(took == (at + n > bytes ? (int64_t)(bytes - at) : (int64_t)n));
            at += (uint64_t)took;
        }
        assert_int_equal(history_load_close(to, true), 0);
        assert_true(history_is_valid(to) && history_next(to) == history_next(h));
        struct history_place p = {0};
        uint64_t first = read_all(to, &p);
        assert_true(history_next(h) == 0 ||
                    (first >= history_first(h) && first <= history_first(h) + 40));
        for (int i = 0; i < 3; i++) {
            add(h);
            add(to);
        }
        read_all(to, &p);
        free(copy);
    }
    history_close(h);
    history_close(to);
}

/* Bytes that no member writes are no history, and no harm. */
static void history__refuses_what_is_none(void **state)
{
    struct rng r;
    (void)state;
    rng_init(&r, 7);
    struct history *h = opened(), *to = opened();
    for (int i = 0; i < 100; i++)
        add(h);
    uint64_t bytes = history_saved_bytes(h);
    unsigned char *copy = malloc(bytes);
    assert_non_null(copy);
    uint32_t refused = 0;
    for (int round = 0; round < 2000; round++) {
        history_save(h, copy);
        uint64_t cut = rng_below(&r, 4) == 0 ? rng_below(&r, bytes) : bytes;
        for (uint64_t n = rng_below(&r, 8); n > 0; n--)
            copy[rng_below(&r, bytes)] = (unsigned char)rng_below(&r, 256);
        history_load_open(to);
        int64_t took = history_load_next(to, copy, (uint32_t)cut);
        refused += took < 0 || history_load_close(to, true) < 0;
        if (took < 0)
            assert_int_equal(history_load_close(to, false), 0);
    }
    assert_true(refused > 500);
    free(copy);
    history_close(h);
    history_close(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(history__keeps_the_last),
        cmocka_unit_test(history__is_read_one_by_one_from_a_version),
        cmocka_unit_test(history__reader_that_is_late_goes_on_with_the_oldest),
        cmocka_unit_test(history__copy_is_the_same),
        cmocka_unit_test(history__refuses_what_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
