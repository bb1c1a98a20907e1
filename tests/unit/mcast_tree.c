/* The tree in schedules made by hand. */
#include "../tree_fixture.h"

#include "mcast/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { ROOT = 1, A = 2, B = 4, C = 8 }; /* masks of the groups 0 to 3 */

static const uint16_t chain[] = {OVERLAY_NONE, 0, 1, 2};

/* The message of that number of the client's present life. */
static const struct cast *cast_of(const struct forest *f, uint32_t client, uint64_t seq)
{
    return &f->check.cast[forest_sender(f, client)][seq];
}

static void everyone_comes_back(struct forest *f)
{
    forest_start_all(f);
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
}

/* One message, then silence, its client not even looking: within a few heartbeats every replica of every
 * destination has it (schedule 20). */
static void tree__a_single_message_reaches_all_replicas(void **state)
{
    (void)state;
    for (uint8_t mask = 1; mask < 16; mask++) {
        struct forest *f = forest_open(
            &(struct forest_options){.groups = 4, .parent = mask % 2 ? chain : NULL, .seed = mask});
        FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
        FOREST_MUST(f, forest_cast(f, 0, mask, 64));
        f->client[0].held = true;
        FOREST_WAIT(f, cast_of(f, 0, 0)->delivered == mask && forest_even(f),
                    6 * FOREST_HEARTBEAT_NS);
        f->client[0].held = false;
        FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
        assert_null(forest_close(f));
    }
}

/* Bodies and replies of no bytes, of the most there may be, and between. */
static void tree__bodies_and_replies_of_all_sizes(void **state)
{
    (void)state;
    struct forest *f = forest_open(&(struct forest_options){.groups = 3, .seed = 2});
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    for (uint32_t bytes = 0; bytes <= FOREST_BODY_MAX; bytes += 5) {
        FOREST_WAIT(f, forest_cast(f, 0, (uint8_t)(1 + bytes / 5 % 7), bytes), FOREST_LONG_NS);
        forest_tick(f);
    }
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    FOREST_MUST(f, f->client[0].empty_replies > 0 && f->client[0].full_replies > 0);
    assert_null(forest_close(f));
}

static void cut_client(struct forest *f, uint32_t client, uint32_t replicas, bool cut)
{
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        if (replicas >> q & 1)
            sim_cut(f->sim, f->sizes.client_node + client, forest_node(f, 0, q), cut);
}

/* A client dies when its message has reached some of the lca's replicas, whose leader may die as well; a
 * new process takes its place, and writes of the old one may still land. The message is delivered by
 * all destinations or by none, and the new process is served (schedule 12). */
static void tree__a_client_dies_half_way(void **state)
{
    (void)state;
    uint32_t delivered = 0, lost = 0;
    for (uint32_t run = 0; run < 32; run++) {
        uint32_t unreached = run & 7;
        struct forest *f =
            forest_open(&(struct forest_options){.groups = 3, .seed = run, .rough = run >= 16});
        FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
        uint32_t old = forest_sender(f, 0);
        cut_client(f, 0, unreached, true);
        FOREST_MUST(f, forest_cast(f, 0, A | B, 100));
        forest_pass(f, 5 * US);
        forest_client_crash(f, 0);
        if (run & 8) {
            forest_run(f, run % 5 * FOREST_TICK_NS);
            forest_crash(f, 0, forest_leader(f, 0) % f->opt.replicas, true);
        }
        forest_run(f, 20 * US);
        cut_client(f, 0, unreached, false);
        forest_client_start(f, 0);
        FOREST_MUST(f, forest_cast(f, 0, A | B, 40));
        everyone_comes_back(f);
        uint8_t got = f->check.cast[old][0].delivered;
        FOREST_MUST(f, got == 0 || got == (A | B));
        delivered += got != 0;
        lost += got == 0;
        assert_null(forest_close(f));
    }
    /* Else the runs have shown only one side of it. */
    assert_true(delivered > 0 && lost > 0);
}

/* What a process left unread in its rings is void once another has taken its place. */
static void tree__a_second_life_voids_what_the_first_left(void **state)
{
    (void)state;
    struct forest *f = forest_open(&(struct forest_options){.groups = 3, .seed = 9});
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    for (uint32_t life = 0; life + 1 < TREE_LIVES_MAX; life++) {
        uint32_t old = forest_sender(f, 0);
        for (uint16_t g = 0; g < 3; g++)
            forest_hold(f, g, true);
        FOREST_MUST(f, forest_cast(f, 0, A | B, 200));
        FOREST_MUST(f, forest_cast(f, 0, A | B, 10));
        forest_pass(f, 5 * US);
        forest_client_crash(f, 0);
        forest_client_start(f, 0);
        FOREST_MUST(f, forest_cast(f, 0, A | B, 50));
        forest_pass(f, 5 * US);
        for (uint16_t g = 0; g < 3; g++)
            forest_hold(f, g, false);
        FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
        FOREST_MUST(f, f->check.cast[old][life > 0].delivered == 0);
        FOREST_MUST(f, cast_of(f, 0, 0)->done);
    }
    assert_null(forest_close(f));
}

/* Leaders of the parent and of the child die in the same window, in every order of what they had done
 * by then; nothing is lost and the child's stream has no gap (schedule 14). */
static void tree__parent_and_child_leaders_die_together(void **state)
{
    (void)state;
    for (uint32_t parent_at = 0; parent_at < 12; parent_at++)
        for (uint32_t child_at = 0; child_at < 12; child_at++) {
            bool keep = (parent_at + child_at) % 3 != 0;
            struct forest *f = forest_open(&(struct forest_options){
                .groups = 2, .seed = parent_at * 100 + child_at, .rough = child_at % 2});
            FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
            FOREST_MUST(f, forest_cast(f, 0, ROOT | A, 100));
            FOREST_MUST(f, forest_cast(f, 0, A, 20));
            for (uint32_t tick = 0; tick < 12; tick++) {
                if (tick == parent_at)
                    forest_crash(f, 0, forest_leader(f, 0) % 3, keep);
                if (tick == child_at)
                    forest_crash(f, 1, forest_leader(f, 1) % 3, true);
                if (tick == 6)
                    FOREST_MUST(f, forest_cast(f, 0, ROOT | A, 60));
                forest_tick(f);
            }
            FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
            everyone_comes_back(f);
            FOREST_MUST(f, f->check.group[1].count == 3);
            assert_null(forest_close(f));
        }
}

/* One replica of a child is dead for the whole run, and a child has no quorum for a while: its siblings
 * go on, then it does, and nothing was lost (schedule 15). */
static void tree__a_child_without_quorum_holds_up_nobody_else(void **state)
{
    (void)state;
    struct forest *f = forest_open(&(struct forest_options){.groups = 4, .clients = 2, .seed = 15});
    forest_crash(f, 3, 2, false);
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    FOREST_MUST(f, forest_cast(f, 0, ROOT | A | B | C, 30));
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);

    forest_crash(f, 2, 0, true);
    forest_crash(f, 2, 1, true);
    forest_run(f, 200 * US);
    /* Fewer than fill the ring to it. */
    for (uint32_t i = 0; i < 8; i++)
        FOREST_MUST(f, forest_cast(f, 0, ROOT | B, 30));
    for (uint32_t i = 0; i < 100; i++) {
        FOREST_WAIT(f, forest_cast(f, 1, i % 2 ? A : ROOT | A | C, 50), FOREST_LONG_NS);
        forest_tick(f);
    }
    FOREST_WAIT(f, caster_outstanding(f->client[1].caster) == 0, FOREST_LONG_NS);
    FOREST_MUST(f, f->check.group[2].count == 1 && f->check.group[0].count == 1 + 8 + 50);

    forest_start(f, 2, 0);
    forest_start(f, 2, 1);
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    FOREST_MUST(f, f->check.group[2].count == 9);
    assert_null(forest_close(f));
}

/* The leaf of a chain takes nothing for a long time, while clients go on casting at all three groups
 * above and including it: rings and logs fill up and everybody waits. When the leaf goes on, all of
 * it is delivered (schedule 16). */
static void tree__a_full_ring_holds_back_and_lets_go(void **state)
{
    (void)state;
    for (uint32_t run = 0; run < 4; run++) {
        struct forest *f = forest_open(&(struct forest_options){
            .groups = 3, .parent = chain, .clients = 3, .seed = 160 + run, .rough = run % 2});
        static const uint8_t masks[] = {ROOT | B, A | B, B};
        FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
        forest_hold(f, 2, true);
        uint32_t cast = 0;
        for (uint32_t i = 0; i < 2000; i++) {
            for (uint32_t c = 0; c < 3; c++)
                cast += forest_cast(f, c, masks[c], 200);
            forest_tick(f);
        }
        /* The root's own deliveries have stopped, and its client is held back. */
        uint32_t before = f->check.group[0].count;
        forest_run(f, 200 * US);
        FOREST_MUST(f, before > 0 && f->check.group[0].count == before);
        FOREST_MUST(f, !forest_cast(f, 0, ROOT | B, 200));
        FOREST_MUST(f, f->check.group[2].count == 0);
        if (run >= 2)
            forest_crash(f, 1, forest_leader(f, 1) % 3, run == 2);
        forest_run(f, 200 * US);
        forest_hold(f, 2, false);
        forest_start_all(f);
        FOREST_WAIT(f, forest_delivered(f), 4 * FOREST_LONG_NS);
        FOREST_MUST(f, f->check.group[2].count == cast);
        assert_null(forest_close(f));
    }
}

/* {A,B}, {B,C} and {C,A} at the same time from several clients, ways of random lengths and leaders
 * that die: no circle (schedule 22; checked at the end). */
static void tree__pairs_in_a_circle_are_ordered(void **state)
{
    (void)state;
    static const uint8_t pairs[] = {ROOT | A, A | B, ROOT | B};
    for (uint32_t run = 0; run < 10; run++) {
        struct forest *f = forest_open(&(struct forest_options){.groups = 3,
                                                                .parent = run % 2 ? chain : NULL,
                                                                .clients = 3,
                                                                .seed = 220 + run,
                                                                .rough = true});
        FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
        for (uint32_t i = 0; i < 300; i++) {
            for (uint32_t c = 0; c < 3; c++)
                forest_cast(f, c, pairs[(c + i) % 3], 20);
            if (i % 100 == 50) {
                uint16_t group = (uint16_t)((i / 100 + run) % 3);
                forest_crash(f, group, forest_leader(f, group) % 3, true);
            }
            if (i % 100 == 99)
                forest_start_all(f);
            forest_tick(f);
        }
        everyone_comes_back(f);
        FOREST_MUST(f, f->check.group[0].count > 100);
        assert_null(forest_close(f));
    }
}

/* ---- what no correct client sends ---- */

struct raw {
    struct message m;
    unsigned char rest[64];
};

static struct raw raw_message(uint32_t client, uint16_t life, const uint16_t *list, uint16_t count)
{
    struct raw r = {.m = {.seq = 0, .client = client, .life = life, .count = count}};
    memcpy(r.rest, list, (count < 8 ? count : 8) * sizeof(*list));
    return r;
}

/* Sends bytes as they are to a group, and waits until its log has taken them. Once in a client's life:
 * a stream cannot begin twice. */
static void raw_send(struct forest *f, uint32_t client, uint16_t group, const void *bytes,
                     uint32_t count)
{
    struct forest_client *c = &f->client[client];
    struct err e = {""};
    struct feed_options o = {
        .mem = c->mem,
        .region = group,
        .nodes = f->group[group].nodes,
        .replicas = f->opt.replicas,
        .source = client,
        .source_bytes = f->sizes.source_bytes,
        .payload_max = message_bytes(DST_GROUPS_MAX, f->sizes.body_max),
        .life = c->mem->incarnation,
    };
    uint64_t end = 0;
    CHECK(feed_open(&o, &c->raw, &e) == 0);
    FOREST_MUST(f, feed_send(c->raw, bytes, count, &end) == 0);
    feed_flush(c->raw);
    FOREST_WAIT(f, (feed_step(c->raw, forest_now(f)), feed_taken(c->raw) == end), FOREST_LONG_NS);
    forest_run(f, 50 * US);
}

/* A good client goes on before and after; whatever the other one sends is delivered nowhere. */
static void bad_message(uint16_t group, const void *bytes, uint32_t count)
{
    struct forest *f = forest_open(&(struct forest_options){
        .groups = 4, .parent = chain, .clients = 2, .raw_clients = 2, .seed = count});
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    for (uint8_t mask = 1; mask < 16; mask++)
        FOREST_WAIT(f, forest_cast(f, 0, mask, 20), FOREST_LONG_NS);
    raw_send(f, 1, group, bytes, count);
    for (uint8_t mask = 1; mask < 16; mask++)
        FOREST_WAIT(f, forest_cast(f, 0, mask, 20), FOREST_LONG_NS);
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    /* Also for replicas that become leaders, and with the state in a snapshot. */
    forest_crash(f, group, forest_leader(f, group) % 3, false);
    FOREST_MUST(f, forest_cast(f, 0, 15, 20));
    everyone_comes_back(f);
    /* The place is good for the next process. */
    f->opt.raw_clients = 0;
    forest_client_crash(f, 1);
    forest_client_start(f, 1);
    FOREST_MUST(f, forest_cast(f, 1, 15, 20));
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    assert_null(forest_close(f));
}

static void bad_list(uint16_t group, uint16_t count, const uint16_t *list)
{
    struct raw r = raw_message(1, 0, list, count);
    bad_message(group, &r, sizeof(r));
}

static void tree__bad_destinations_are_delivered_nowhere(void **state)
{
    (void)state;
    bad_list(1, 2, (const uint16_t[]){0, 2}); /* the lca is above */
    bad_list(0, 2, (const uint16_t[]){2, 3}); /* the lca is below */
    bad_list(2, 1, (const uint16_t[]){0});    /* not below at all */
    bad_list(0, 2, (const uint16_t[]){0, 4}); /* there is no such group */
    bad_list(0, 1, (const uint16_t[]){UINT16_MAX});
    bad_list(0, 2, (const uint16_t[]){2, 0});    /* not in order */
    bad_list(0, 3, (const uint16_t[]){0, 1, 1}); /* twice */
    bad_list(0, 0, (const uint16_t[]){0});       /* none */
    bad_list(0, 1025, (const uint16_t[8]){0});   /* more than there can be */
    bad_list(0, UINT16_MAX, (const uint16_t[8]){0});
    bad_list(0, 1000, (const uint16_t[8]){0, 1}); /* more than the message has bytes for */
}

static void tree__truncated_messages_are_delivered_nowhere(void **state)
{
    (void)state;
    struct raw r = raw_message(1, 0, (const uint16_t[]){0, 1}, 2);
    for (uint32_t bytes = 0; bytes < 24; bytes += 5)
        bad_message(0, &r, bytes);
    bad_message(0, &r, sizeof(struct message));
    bad_message(0, &r, sizeof(struct message) + 7);
}

/* Who claims to be somebody else is not believed: the other one's messages and answers go on. */
static void tree__another_clients_name_is_not_taken(void **state)
{
    (void)state;
    const uint16_t list[] = {0, 1};
    struct raw r = raw_message(0, 0, list, 2);
    bad_message(0, &r, sizeof(r));
    r.m.seq = 15; /* the next that the other will cast */
    bad_message(0, &r, sizeof(r));
    r = raw_message(7, 0, list, 2); /* a place that there is not */
    bad_message(0, &r, sizeof(r));
}

/* The same while the other waits for an answer, which must not be a refusal. */
static void tree__another_clients_message_is_not_refused(void **state)
{
    (void)state;
    struct forest *f = forest_open(
        &(struct forest_options){.groups = 2, .clients = 2, .raw_clients = 2, .seed = 11});
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    forest_hold(f, 1, true);
    FOREST_MUST(f, forest_cast(f, 0, ROOT | A, 20));
    forest_run(f, 20 * US);
    struct raw r = raw_message(0, 0, (const uint16_t[]){0, 1}, 2);
    raw_send(f, 1, 0, &r, sizeof(r));
    /* So that the client reads what the root replies. */
    FOREST_MUST(f, forest_cast(f, 0, ROOT, 20));
    forest_run(f, 20 * US);
    FOREST_MUST(f, caster_outstanding(f->client[0].caster) == 1);
    forest_hold(f, 1, false);
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    assert_null(forest_close(f));
}

/* The same with a life that is yet to come: it would void the answers to the present one. */
static void tree__another_clients_life_is_not_ended(void **state)
{
    (void)state;
    struct raw r = raw_message(0, 3, (const uint16_t[]){0, 1}, 2);
    bad_message(0, &r, sizeof(r));
}

/* The same in one's own place: it would void the answers to the processes that come after. */
static void tree__a_false_life_does_not_spoil_the_place(void **state)
{
    (void)state;
    struct raw r = raw_message(1, 3, (const uint16_t[]){0, 1}, 2);
    r.m.count = 3; /* and a list that is refused: 0, 1, 0 */
    bad_message(0, &r, sizeof(r));
    r = raw_message(1, 3, (const uint16_t[]){1, 2}, 2); /* refused by the root: it is not the lca */
    bad_message(0, &r, sizeof(r));
}

/* ---- snapshots ---- */

/* A replica of the parent loses its memory and gets a snapshot while the child has not taken its stream
 * and the client has not read its answers; then it becomes leader. It completes both. */
static void tree__snapshots_carry_edges_and_replies(void **state)
{
    (void)state;
    for (uint32_t victim = 0; victim < 3; victim++) {
        struct forest *f = forest_open(&(struct forest_options){.groups = 2, .seed = 190 + victim});
        FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
        forest_hold(f, 1, true);
        f->client[0].held = true;
        /* The ways down are cut: what is on them would get there without any leader. */
        for (uint32_t q = 0; q < 3; q++) {
            for (uint32_t r = 0; r < 3; r++)
                sim_cut(f->sim, forest_node(f, 0, q), forest_node(f, 1, r), true);
            sim_cut(f->sim, forest_node(f, 0, q), f->sizes.client_node, true);
        }
        for (uint32_t i = 0; i < 10; i++)
            FOREST_MUST(f, forest_cast(f, 0, i % 2 ? ROOT : ROOT | A, 60));
        FOREST_WAIT(f, f->check.group[0].count == 10, FOREST_LONG_NS);
        forest_crash(f, 0, victim, false);
        forest_run(f, 300 * US);
        forest_start(f, 0, victim);
        FOREST_WAIT(f,
                    forest_led(f) && forest_stats(f, 0, victim).snapshots_loaded > 0 &&
                        f->replica[0][victim].state.count == 10 &&
                        forest_stats(f, 0, victim).state != LOG_JOINING,
                    FOREST_LONG_NS);
        /* The third is stopped until the memories of both have voted for it. */
        uint32_t leader = forest_leader(f, 0);
        for (uint32_t q = 0; q < 3; q++)
            f->replica[0][q].held = q != victim;
        if (leader != victim)
            forest_crash(f, 0, leader, true);
        FOREST_WAIT(f, forest_stats(f, 0, victim).state >= LOG_SYNC, FOREST_LONG_NS);
        forest_hold(f, 0, false);
        FOREST_WAIT(f, forest_leader(f, 0) == victim, FOREST_LONG_NS);
        for (uint32_t q = 0; q < 3; q++) {
            for (uint32_t r = 0; r < 3; r++)
                sim_cut(f->sim, forest_node(f, 0, q), forest_node(f, 1, r), false);
            sim_cut(f->sim, forest_node(f, 0, q), f->sizes.client_node, false);
        }
        FOREST_MUST(f, f->check.group[1].count == 0);
        forest_hold(f, 1, false);
        f->client[0].held = false;
        FOREST_WAIT(f, f->check.group[1].count == 5 && caster_outstanding(f->client[0].caster) == 0,
                    FOREST_LONG_NS);
        FOREST_MUST(f, forest_leader(f, 0) == victim);
        everyone_comes_back(f);
        assert_null(forest_close(f));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree__a_single_message_reaches_all_replicas),
        cmocka_unit_test(tree__bodies_and_replies_of_all_sizes),
        cmocka_unit_test(tree__a_client_dies_half_way),
        cmocka_unit_test(tree__a_second_life_voids_what_the_first_left),
        cmocka_unit_test(tree__parent_and_child_leaders_die_together),
        cmocka_unit_test(tree__a_child_without_quorum_holds_up_nobody_else),
        cmocka_unit_test(tree__a_full_ring_holds_back_and_lets_go),
        cmocka_unit_test(tree__pairs_in_a_circle_are_ordered),
        cmocka_unit_test(tree__bad_destinations_are_delivered_nowhere),
        cmocka_unit_test(tree__truncated_messages_are_delivered_nowhere),
        cmocka_unit_test(tree__another_clients_name_is_not_taken),
        cmocka_unit_test(tree__another_clients_message_is_not_refused),
        cmocka_unit_test(tree__another_clients_life_is_not_ended),
        cmocka_unit_test(tree__a_false_life_does_not_spoil_the_place),
        cmocka_unit_test(tree__snapshots_carry_edges_and_replies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
