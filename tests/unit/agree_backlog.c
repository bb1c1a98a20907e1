#include "agree/backlog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LARGEST = 200000 }; /* more than a block */

/* Sizes of every kind, some larger than a block. */
static uint32_t bytes_of(uint64_t number)
{
    return number % 97 == 0 ? LARGEST : (uint32_t)(number * 31 % 3000);
}

static void add(struct backlog *b, struct entry *e, uint64_t number)
{
    *e = (struct entry){.pos = number, .bytes = bytes_of(number)};
    memset(e->payload, (int)(number % 251), e->bytes);
    backlog_add(b, e);
}

static void take(struct backlog *b, uint64_t number)
{
    const struct entry *e = backlog_first(b);
    assert_non_null(e);
    assert_int_equal(e->pos, number);
    assert_int_equal(e->bytes, bytes_of(number));
    if (e->bytes > 0) {
        assert_int_equal(e->payload[0], number % 251);
        assert_int_equal(e->payload[e->bytes - 1], number % 251);
    }
    backlog_pop(b);
}

/* What goes in comes out, in order and whole, however far the one is ahead of the other. */
static void backlog__is_first_in_first_out(void **state)
{
    (void)state;
    struct backlog b = {0};
    struct entry *e = malloc(sizeof(*e) + LARGEST + 8);
    uint64_t in = 0, out = 0;
    assert_non_null(e);
    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < (round * 7 + 1) % 60; i++)
            add(&b, e, in++);
        for (uint32_t i = 0; i < (round * 11 + 3) % 60 && out < in; i++)
            take(&b, out++);
    }
    while (out < in)
        take(&b, out++);
    assert_null(backlog_first(&b));
    assert_int_equal(b.bytes, 0);
    free(e);
    backlog_clear(&b);
}

static void backlog__counts_its_bytes_and_is_cleared(void **state)
{
    (void)state;
    struct backlog b = {0};
    struct entry *e = malloc(sizeof(*e) + LARGEST + 8);
    uint64_t bytes = 0;
    assert_non_null(e);
    for (uint64_t i = 0; i < 200; i++) {
        add(&b, e, i);
        bytes += entry_size(bytes_of(i));
        assert_int_equal(b.bytes, bytes);
    }
    backlog_clear(&b);
    assert_null(backlog_first(&b));
    add(&b, e, 5); /* and may be used again */
    take(&b, 5);
    backlog_clear(&b);
    free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backlog__is_first_in_first_out),
        cmocka_unit_test(backlog__counts_its_bytes_and_is_cleared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
