#include "sim/counter_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { PAD = 1001 };

static bool was_good;

static void loaded(struct counter_machine *to, bool good)
{
    (void)to;
    was_good = good;
}

/* Saves one counter and loads the bytes into another in pieces; spoil is a byte that is changed on the way,
 * or negative. */
static bool transfer(struct counter_machine *to, long more, long spoil)
{
    struct counter_machine from = {.state = {.count = 7, .hash = 0x1234567890abcdef}, .pad = PAD};
    const struct state_ops *ops = &counter_machine_ops;
    unsigned char bytes[2048] = {0};
    uint64_t expected, size = 0;
    void *save = ops->save_open(&from, &expected);
    from.state.count++; /* goes on meanwhile */
    for (int got = 1; got > 0; size += (uint64_t)got)
        got = ops->save_next(&from, save, bytes + size, 10);
    ops->save_close(&from, save);
    assert_int_equal(size, expected);
    if (spoil >= 0)
        bytes[spoil] ^= 1;
    *to = (struct counter_machine){.pad = PAD, .on_load = loaded};
    ops->load_open(to, 0); /* broke off */
    ops->load_open(to, size);
    size += (uint64_t)more;
    for (uint32_t at = 0; at < size; at += 13)
        ops->load_next(to, bytes + at, size - at < 13 ? (uint32_t)(size - at) : 13);
    assert_int_equal(ops->load_close(to, true), 0);
    return was_good;
}

static void counter_machine__loads_what_was_saved(void **state)
{
    (void)state;
    struct counter_machine to;
    assert_true(transfer(&to, 0, -1));
    assert_int_equal(to.state.count, 7);
    assert_true(to.state.hash == 0x1234567890abcdef);
}

static void counter_machine__sees_spoilt_snapshots(void **state)
{
    (void)state;
    struct counter_machine to;
    long first = sizeof(struct counter_machine_state), last = first + PAD - 1;
    assert_false(transfer(&to, 0, first));
    assert_false(transfer(&to, 0, last));
    assert_false(transfer(&to, 8, -1));  /* longer than it was */
    assert_false(transfer(&to, -1, -1)); /* not all of it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counter_machine__loads_what_was_saved),
        cmocka_unit_test(counter_machine__sees_spoilt_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
