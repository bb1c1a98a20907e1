/* Genuine multicast with known mistakes compiled in: each is found by the schedules that are about it, and
 * those of the order also by groups that have nothing else. tests/sim/log_planted does the same with
 * schedules drawn from seeds. */
#include "../order_world.h"
#include "base/planted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

/* Some of a few worlds must show it. */
static void order_finds(enum planted bug, const struct world_options *options)
{
    struct world_options o = *options;
    struct world_seen seen;
    uint32_t found = 0;
    for (o.seed = 1; o.seed <= 5; o.seed++) {
        planted_mask = UINT64_C(1) << bug;
        found += world_run(&o, &seen) != NULL;
        planted_mask = 0;
        const char *violated = world_run(&o, &seen);
        if (violated)
            fail_msg("seed %d finds '%s' where nothing is wrong", (int)o.seed, violated);
    }
    assert_true(found > 0);
}

static void order__finds_its_bugs(void **state)
{
    (void)state;
    const struct world_options plain = {.groups = 3, .clients = 3, .casts = 100};
    const struct world_options homes = {.groups = 6, .clients = 3, .casts = 100};
    const struct world_options saving = {.groups = 3, .clients = 3, .casts = 100, .save_every = 20};
    const struct world_options relaying = {
        .groups = 3, .clients = 3, .casts = 100, .suspicious = true};
    const enum planted bugs[] = {PLANTED_blind_deliver, PLANTED_ack_only, PLANTED_clock_own,
                                 PLANTED_slot_stale};
    for (uint32_t i = 0; i < sizeof(bugs) / sizeof(bugs[0]); i++) {
        order_finds(bugs[i], &plain);
        order_finds(bugs[i], &homes);
    }
    order_finds(PLANTED_clock_volatile, &saving);
    order_finds(PLANTED_relay_twice, &relaying);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order__finds_its_bugs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
