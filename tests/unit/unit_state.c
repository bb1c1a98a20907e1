/* The ready-made state of one block. */
#include "unit/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 21 };

/* A machine with one block, filled from a first byte on. */
struct machine {
    struct state_block block; /* first: the ctx */
    unsigned char data[BYTES];
};

static void machine_init(struct machine *m, unsigned char first)
{
    m->block = (struct state_block){.data = m->data, .bytes = BYTES};
    for (uint32_t i = 0; i < BYTES; i++)
        m->data[i] = (unsigned char)(first + i);
}

/* Saves one and loads the first `until` bytes of it into the other, in pieces of that size. */
static int transfer(struct machine *from, struct machine *to, uint32_t piece, uint32_t until)
{
    const struct state_ops *ops = &state_block_ops;
    unsigned char bytes[BYTES + 1];
    uint64_t size = 0, expected = 0;
    void *save = ops->save_open(from, &expected);
    assert_non_null(save);
    from->data[0]++; /* goes on meanwhile */
    for (int got = 1; got > 0; size += (uint64_t)got)
        got = ops->save_next(from, save, bytes + size, piece);
    ops->save_close(from, save);
    from->data[0]--;
    assert_int_equal(size, BYTES);
    assert_int_equal(expected, BYTES);
    assert_int_equal(ops->load_open(to, size), 0);
    for (uint32_t at = 0; at < until; at += piece) {
        uint32_t n = until - at < piece ? until - at : piece;
        assert_int_equal(ops->load_next(to, bytes + at, n), 0);
    }
    return ops->load_close(to, true);
}

static void state_block__loads_what_was_saved(void **state)
{
    (void)state;
    for (uint32_t piece = 1; piece <= BYTES + 1; piece++) {
        struct machine from, to;
        machine_init(&from, 1);
        machine_init(&to, 101);
        assert_int_equal(transfer(&from, &to, piece, BYTES), 0);
        assert_memory_equal(to.data, from.data, BYTES);
    }
}

/* What does not come whole changes nothing. */
static void state_block__refuses_what_is_not_all_there(void **state)
{
    (void)state;
    const struct state_ops *ops = &state_block_ops;
    struct machine from, to, was;
    unsigned char bytes[BYTES + 1] = {0};
    machine_init(&from, 1);
    machine_init(&to, 101);
    machine_init(&was, 101);
    assert_true(transfer(&from, &to, 4, BYTES - 1) < 0);
    assert_true(ops->load_open(&to, BYTES + 1) < 0);
    assert_int_equal(ops->load_open(&to, BYTES), 0);
    assert_true(ops->load_next(&to, bytes, BYTES + 1) < 0);
    assert_int_equal(ops->load_next(&to, bytes, BYTES), 0);
    assert_int_equal(ops->load_close(&to, false), 0);
    assert_memory_equal(to.data, was.data, BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_block__loads_what_was_saved),
        cmocka_unit_test(state_block__refuses_what_is_not_all_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
