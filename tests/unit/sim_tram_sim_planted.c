/* The simulator that users have runs the protocols that production runs: with a mistake planted in them,
 * a good state machine is found to disagree, or to stand still. */
#include "base/planted.h"
#include "tram/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

enum { SEEDS_MAX = 60, MESSAGES = 80 };

static const char cluster_text[] = "hosts: [{name: h1}, {name: h2}, {name: h3}]\n"
                                   "groups:\n"
                                   "  - {name: g1, replicas: [h1, h2, h3]}\n"
                                   "  - {name: g2, parent: g1, replicas: [h2, h3, h1]}\n";

static uint32_t deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t reply_max)
{
    uint64_t *sum = (uint64_t *)ctx + d->group;
    (void)reply_max;
    *sum = *sum * 31 + d->seq;
    memcpy(reply, sum, sizeof(*sum));
    return sizeof(*sum);
}

static int save(void *ctx, uint32_t group, void **data, size_t *bytes)
{
    *data = malloc(*bytes = sizeof(uint64_t));
    return memcpy(*data, (uint64_t *)ctx + group, *bytes) ? 0 : -1;
}

static int load(void *ctx, uint32_t group, const void *data, size_t bytes)
{
    return memcpy((uint64_t *)ctx + group, data, bytes) ? 0 : -1;
}

static void *start(void *user, const char *host)
{
    (void)user;
    (void)host;
    return calloc(2, sizeof(uint64_t));
}

static void end(void *user, const char *host, void *ctx)
{
    (void)user;
    (void)host;
    free(ctx);
}

/* The first thing that went wrong, as a code of tram.h. */
static int run(const struct tram_cluster *cluster, uint64_t seed, struct tram_error *e)
{
    struct tram_sim_options o = {.seed = seed,
                                 .machine = {.deliver = deliver, .save = save, .load = load},
                                 .start = start,
                                 .end = end};
    struct tram_sim *sim;
    struct tram_client *c;
    const uint16_t groups[] = {0, 1};
    assert_int_equal(tram_sim_open(cluster, &o, &sim, e), TRAM_OK);
    assert_int_equal(tram_sim_client_open(sim, NULL, &c, e), TRAM_OK);
    tram_sim_chaos(sim);
    int rc = TRAM_OK;
    for (uint32_t i = 0; i < MESSAGES && rc == TRAM_OK; i++)
        rc = tram_call(c, groups, 1 + i % 2, "x", 1, NULL, 0, NULL, 60 * SECOND, e);
    tram_sim_heal(sim);
    if (rc == TRAM_OK)
        rc = tram_sim_run_idle(sim, 10 * SECOND, e);
    /* It knows better what is wrong. */
    if (tram_sim_check(sim, NULL, e) == TRAM_VIOLATED)
        rc = TRAM_VIOLATED;
    tram_sim_close(sim);
    return rc;
}

typedef int run_fn(const struct tram_cluster *, uint64_t seed, struct tram_error *);

static int hunt_in(const char *text, run_fn *run_once, enum planted bug)
{
    struct tram_error e = {""};
    struct tram_cluster *cluster;
    int rc = TRAM_OK;
    uint64_t seed = 0;
    assert_int_equal(tram_cluster_parse(text, NULL, &cluster, &e), TRAM_OK);
    planted_bug = bug;
    while (rc == TRAM_OK && seed < SEEDS_MAX)
        rc = run_once(cluster, ++seed, &e);
    planted_bug = PLANTED_none;
    tram_cluster_free(cluster);
    if (rc != TRAM_OK)
        print_message("# seed %d: %s\n", (int)seed, e.text);
    return rc;
}

static int hunt(enum planted bug)
{
    return hunt_in(cluster_text, run, bug);
}

/* ---- the same with members of a group ---- */

static const char group_text[] = "protocol: group\n"
                                 "hosts: [{name: h1}, {name: h2}, {name: h3}]\n"
                                 "subgroups: [{name: map, ring_bytes: 4 KiB}]\n";

static void group_deliver(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                          uint32_t count)
{
    uint64_t *sum = (uint64_t *)ctx + cell;
    (void)view;
    for (uint32_t i = 0; i < count; i++)
        *sum = *sum * 31 + item[i].number;
}

static void group_born(void *ctx, uint32_t cell)
{
    ((uint64_t *)ctx)[cell] = 0;
}

static int group_run(const struct tram_cluster *cluster, uint64_t seed, struct tram_error *e)
{
    struct tram_sim_options o = {
        .seed = seed,
        .group_machine = {.deliver = group_deliver, .born = group_born, .save = save, .load = load},
        .start = start,
        .end = end};
    struct tram_sim *sim;
    static const unsigned char message[300];
    assert_int_equal(tram_sim_open(cluster, &o, &sim, e), TRAM_OK);
    int rc = tram_sim_run_idle(sim, 10 * SECOND, e);
    tram_sim_chaos(sim);
    for (uint32_t i = 0; i < 4 * MESSAGES && rc == TRAM_OK; i++) {
        const char *host = tram_cluster_host_name(cluster, i % 3);
        struct tram_group *g = tram_sim_group(sim, host);
        for (uint32_t k = 0; g && k <= i % 5; k++)
            tram_group_send(g, 0, message, 8 + 16 * (i % 16), NULL);
        rc = tram_sim_run(sim, SECOND / 500, e);
    }
    tram_sim_heal(sim);
    if (rc == TRAM_OK)
        rc = tram_sim_run_idle(sim, 10 * SECOND, e);
    if (tram_sim_check(sim, NULL, e) == TRAM_VIOLATED)
        rc = TRAM_VIOLATED;
    tram_sim_close(sim);
    return rc;
}

static int group_hunt(enum planted bug)
{
    return hunt_in(group_text, group_run, bug);
}

static void tram_sim_planted__members_no_bug_no_finding(void **state)
{
    (void)state;
    assert_int_equal(group_hunt(PLANTED_none), TRAM_OK);
}

static void tram_sim_planted__no_bug_no_finding(void **state)
{
    (void)state;
    assert_int_equal(hunt(PLANTED_none), TRAM_OK);
}

static void tram_sim_planted__bytes_taken_for_entries_are_found(void **state)
{
    (void)state;
    assert_int_not_equal(hunt(PLANTED_nonzero_present), TRAM_OK);
}

static void tram_sim_planted__a_stale_follower_is_found(void **state)
{
    (void)state;
    assert_int_not_equal(hunt(PLANTED_late_stale), TRAM_OK);
}

static void tram_sim_planted__a_snapshot_without_its_sources_is_found(void **state)
{
    (void)state;
    assert_int_not_equal(hunt(PLANTED_snap_no_sources), TRAM_OK);
}

static void tram_sim_planted__a_trim_of_more_than_all_hold_is_found(void **state)
{
    (void)state;
    assert_int_not_equal(group_hunt(PLANTED_group_trim_max), TRAM_OK);
}

static void tram_sim_planted__stamps_of_an_ended_view_are_found(void **state)
{
    (void)state;
    assert_int_not_equal(group_hunt(PLANTED_group_old_stamps), TRAM_OK);
}

static void tram_sim_planted__a_state_sent_before_the_trim_is_found(void **state)
{
    (void)state;
    assert_int_not_equal(group_hunt(PLANTED_group_copy_before_trim), TRAM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tram_sim_planted__no_bug_no_finding),
        cmocka_unit_test(tram_sim_planted__bytes_taken_for_entries_are_found),
        cmocka_unit_test(tram_sim_planted__a_stale_follower_is_found),
        cmocka_unit_test(tram_sim_planted__a_snapshot_without_its_sources_is_found),
        cmocka_unit_test(tram_sim_planted__members_no_bug_no_finding),
        cmocka_unit_test(tram_sim_planted__a_trim_of_more_than_all_hold_is_found),
        cmocka_unit_test(tram_sim_planted__stamps_of_an_ended_view_are_found),
        cmocka_unit_test(tram_sim_planted__a_state_sent_before_the_trim_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
