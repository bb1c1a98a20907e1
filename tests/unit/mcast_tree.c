/* The tree, stepped by hand, and what no correct client sends. The schedules of faults are in
 * mcast_tree_schedules.c. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree__bodies_and_replies_of_all_sizes),
        cmocka_unit_test(tree__a_second_life_voids_what_the_first_left),
        cmocka_unit_test(tree__bad_destinations_are_delivered_nowhere),
        cmocka_unit_test(tree__truncated_messages_are_delivered_nowhere),
        cmocka_unit_test(tree__another_clients_name_is_not_taken),
        cmocka_unit_test(tree__another_clients_message_is_not_refused),
        cmocka_unit_test(tree__another_clients_life_is_not_ended),
        cmocka_unit_test(tree__a_false_life_does_not_spoil_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
