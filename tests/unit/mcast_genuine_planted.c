/* Genuine multicast with known mistakes compiled in: each is found by the schedules that are about it, and
 * those of the order also by groups that have nothing else. tests/sim/log_planted does the same with
 * schedules drawn from seeds. */
#include "../genuine_schedules.h"
#include "../order_world.h"
#include "../planted_fixture.h"

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
        planted_bug = bug;
        found += world_run(&o, &seen) != NULL;
        planted_bug = PLANTED_none;
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

static void genuine__finds_blind_deliver(void **state)
{
    (void)state;
    for (uint32_t unreached = 0; unreached < 8; unreached++)
        FINDS(blind_deliver, genuine_opposite_orders(unreached), "acyclic order");
}

static void genuine__finds_ack_only(void **state)
{
    (void)state;
    FINDS(ack_only, genuine_stamps_reach_the_leader_only(true), "acyclic order");
    FINDS(ack_only, genuine_stamps_reach_the_leader_only(false), "acyclic order");
}

static void genuine__finds_clock_own(void **state)
{
    (void)state;
    FINDS(clock_own, genuine_high_stamp_of_another(false), "acyclic order");
}

static void genuine__finds_clock_volatile(void **state)
{
    (void)state;
    FINDS(clock_volatile, genuine_high_stamp_of_another(true), "acyclic order");
}

static void genuine__finds_stamp_early(void **state)
{
    (void)state;
    /* What one leader told and the other did not stand at the same place of a stream: B waits for ever. */
    FINDS(stamp_early, genuine_minority_stamp(), "liveness");
}

static void genuine__finds_stamps_forgotten(void **state)
{
    (void)state;
    for (uint32_t groups = 2; groups <= 5; groups++)
        FINDS(stamps_forgotten, genuine_stamps_untold(groups), "liveness");
}

static void genuine__finds_relay_twice(void **state)
{
    (void)state;
    FINDS(relay_twice, genuine_relay_after_delivery(), "no duplicate");
    FINDS(relay_twice, genuine_copy_after_relay(2, 150), "no duplicate");
    FINDS(relay_twice, genuine_copy_after_relay(5, 150), "no duplicate");
}

static void genuine__finds_slot_stale(void **state)
{
    (void)state;
    FINDS(slot_stale, genuine_opposite_orders(0), "acyclic order");
}

static void genuine__finds_body_unreplicated(void **state)
{
    (void)state;
    FINDS(body_unreplicated, genuine_body_at_the_leader_only(), "agreement");
}

static void genuine__finds_stamp_early_at_a_deposed_leader(void **state)
{
    (void)state;
    FINDS(stamp_early, genuine_deposed_leader_hears_a_stamp(), "agreement");
}

static void genuine__finds_tell_all(void **state)
{
    (void)state;
    FINDS(tell_all, genuine_single_message(3), "participation");
}

/* What a snapshot has to carry of streams was planted for the tree, and is the same here. */
static void genuine__finds_snap_no_edges(void **state)
{
    (void)state;
    FINDS(snap_no_edges, genuine_snapshot_of_what_waits(0), "participation|liveness");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order__finds_its_bugs),
        cmocka_unit_test(genuine__finds_blind_deliver),
        cmocka_unit_test(genuine__finds_ack_only),
        cmocka_unit_test(genuine__finds_clock_own),
        cmocka_unit_test(genuine__finds_clock_volatile),
        cmocka_unit_test(genuine__finds_stamp_early),
        cmocka_unit_test(genuine__finds_stamps_forgotten),
        cmocka_unit_test(genuine__finds_relay_twice),
        cmocka_unit_test(genuine__finds_slot_stale),
        cmocka_unit_test(genuine__finds_body_unreplicated),
        cmocka_unit_test(genuine__finds_stamp_early_at_a_deposed_leader),
        cmocka_unit_test(genuine__finds_tell_all),
        cmocka_unit_test(genuine__finds_snap_no_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
