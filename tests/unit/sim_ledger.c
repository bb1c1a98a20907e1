#include "sim/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { PAD = 1001 };

/* Saves one ledger and loads the bytes into another in pieces; spoil is a byte that is changed on the way,
 * or negative. */
static bool transfer(struct ledger *to, uint64_t padded_to, long spoil)
{
    struct ledger from = {.state = {.count = 7, .hash = 0x1234567890abcdef}, .pad = PAD};
    unsigned char bytes[2048] = {0};
    uint64_t size = ledger_save_open(&from);
    from.state.count++; /* goes on meanwhile */
    for (uint32_t at = 0; at < size; at += 10)
        ledger_save_read(&from, at, bytes + at, size - at < 10 ? (uint32_t)(size - at) : 10);
    ledger_save_close(&from);
    if (spoil >= 0)
        bytes[spoil] ^= 1;
    size = (size + padded_to - 1) / padded_to * padded_to;
    *to = (struct ledger){.pad = PAD};
    ledger_load_open(to, 0); /* broke off */
    ledger_load_open(to, size);
    for (uint32_t at = 0; at < size; at += 13)
        ledger_load_write(to, bytes + at, size - at < 13 ? (uint32_t)(size - at) : 13);
    return ledger_load_end(to);
}

static void ledger__loads_what_was_saved(void **state)
{
    (void)state;
    struct ledger to;
    for (uint64_t padded_to = 1; padded_to <= 8; padded_to += 7) {
        assert_true(transfer(&to, padded_to, -1));
        assert_int_equal(to.state.count, 7);
        assert_true(to.state.hash == 0x1234567890abcdef);
    }
}

static void ledger__sees_spoilt_snapshots(void **state)
{
    (void)state;
    struct ledger to;
    long first = sizeof(struct ledger_state), last = first + PAD - 1;
    assert_false(transfer(&to, 1, first));
    assert_false(transfer(&to, 8, last));
    assert_true(transfer(&to, 8, last + 1)); /* not a part of it */
    assert_false(transfer(&to, 100, -1));    /* longer than it was */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ledger__loads_what_was_saved),
        cmocka_unit_test(ledger__sees_spoilt_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
