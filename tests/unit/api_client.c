/* What a caller is told of replies, time-outs and retries, in virtual time. */
#include "tram/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)

enum { LEFT, RIGHT, GROUPS };

/* Two groups on hosts of their own, so that one can be away while the other answers. */
static const char cluster_text[] = "protocol: %s\n"
                                   "reply_max: 64\n"
                                   "hosts: [{name: a1}, {name: a2}, {name: a3}, {name: b1}]\n"
                                   "groups:\n"
                                   "  - {name: left, replicas: [a1, a2, a3]}\n"
                                   "  - {name: right, parent: left, replicas: [b1]}\n";

struct test {
    struct tram_cluster *cluster;
    struct tram_sim *sim;
    struct tram_client *client;
    struct tram_error error;
};

static uint32_t delivered[GROUPS]; /* by the machines of a1 and b1 */

/* Replies with as many bytes as the body says, all of them that number. */
static uint32_t deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t reply_max)
{
    uint8_t bytes = *(const uint8_t *)d->body;
    if (ctx)
        delivered[d->group]++;
    memset(reply, bytes, bytes < reply_max ? bytes : reply_max);
    return bytes;
}

static void *start(void *user, const char *host)
{
    return host[1] == '1' ? user : NULL;
}

static void open_test(struct test *t, const char *protocol)
{
    char text[sizeof(cluster_text) + 16];
    struct tram_sim_options o = {.seed = 7,
                                 .machine = {.deliver = deliver},
                                 .start = start,
                                 .user = t,
                                 .replies_only = true};
    snprintf(text, sizeof(text), cluster_text, protocol);
    memset(delivered, 0, sizeof(delivered));
    assert_int_equal(tram_cluster_parse(text, NULL, &t->cluster, &t->error), TRAM_OK);
    assert_int_equal(tram_sim_open(t->cluster, &o, &t->sim, &t->error), TRAM_OK);
    assert_int_equal(tram_sim_client_open(t->sim, NULL, &t->client, &t->error), TRAM_OK);
}

static void close_test(struct test *t)
{
    tram_sim_close(t->sim);
    tram_cluster_free(t->cluster);
}

/* A call to left, or to both groups. */
static int call(struct test *t, uint32_t count, uint8_t wanted, void *replies, uint32_t max,
                uint32_t *lengths)
{
    static const uint16_t groups[GROUPS] = {LEFT, RIGHT};
    return tram_call(t->client, groups, count, &wanted, 1, replies, max, lengths, SECOND,
                     &t->error);
}

static void stop_right(struct test *t, bool stop)
{
    assert_int_equal((stop ? tram_sim_stop : tram_sim_continue)(t->sim, "b1", &t->error), TRAM_OK);
}

static void client__a_reply_that_does_not_fit_is_told_with_its_length(void **state)
{
    struct test t = {NULL};
    char reply[GROUPS][8];
    uint32_t lengths[GROUPS];
    (void)state;
    open_test(&t, "tree");
    assert_int_equal(call(&t, 2, 8, reply, 8, lengths), TRAM_OK);
    assert_int_equal(call(&t, 2, 40, reply, 8, lengths), TRAM_TOOBIG);
    assert_int_equal(lengths[LEFT], 40);
    assert_int_equal(lengths[RIGHT], 40);
    assert_memory_equal(reply[RIGHT], "((((((((", 8); /* what fits */
    assert_non_null(strstr(t.error.text, "was delivered"));
    /* Who wants none is told nothing. */
    assert_int_equal(call(&t, 2, 40, NULL, 0, NULL), TRAM_OK);
    assert_int_equal(call(&t, 2, 40, NULL, 0, lengths), TRAM_OK);
    assert_int_equal(lengths[LEFT], 40);
    assert_int_equal(tram_cluster_reply_max(t.cluster), 64);
    close_test(&t);
}

static void expect_stop(const char *protocol)
{
    struct test t = {NULL};
    char reply[64];
    open_test(&t, protocol);
    assert_int_equal(call(&t, 1, 64, reply, 64, NULL), TRAM_OK);
    assert_int_equal(call(&t, 1, 65, reply, 64, NULL), TRAM_BROKEN);
    if (strstr(t.error.text, "has 65 bytes, and reply_max of the cluster file is 64") == NULL)
        fail_msg("%s", t.error.text);
    close_test(&t);
}

static void client__a_machine_that_replies_too_much_stops_its_host(void **state)
{
    (void)state;
    expect_stop("tree");
    expect_stop("genuine");
}

static void client__a_call_that_timed_out_is_waited_for_again(void **state)
{
    struct test t = {NULL};
    char reply[GROUPS][40];
    uint32_t lengths[GROUPS];
    struct tram_replies to = {.room = reply, .max = sizeof(reply[0]), .lengths = lengths};
    (void)state;
    open_test(&t, "genuine");
    assert_int_equal(call(&t, 1, 1, NULL, 0, NULL), TRAM_OK);
    stop_right(&t, true);
    uint16_t both[] = {RIGHT, LEFT};
    uint8_t wanted = 40;
    assert_int_equal(tram_call(t.client, both, 2, &wanted, 1, reply, 40, lengths, SECOND, &t.error),
                     TRAM_TIMEOUT);
    uint64_t ticket = tram_client_last(t.client);
    assert_int_equal(tram_await(t.client, ticket, &to, SECOND, &t.error), TRAM_TIMEOUT);
    stop_right(&t, false);
    memset(reply, 0, sizeof(reply));
    assert_int_equal(tram_await(t.client, ticket, &to, 10 * SECOND, &t.error), TRAM_OK);
    assert_true(lengths[LEFT] == 40 && lengths[RIGHT] == 40);
    assert_true(reply[LEFT][39] == 40 && reply[RIGHT][39] == 40);
    assert_true(delivered[LEFT] == 2 && delivered[RIGHT] == 1);
    /* Its replies were given; that it is done stays known. */
    assert_int_equal(tram_await(t.client, ticket, &to, SECOND, &t.error), TRAM_NOTFOUND);
    assert_int_equal(tram_await(t.client, ticket, NULL, SECOND, &t.error), TRAM_OK);
    close_test(&t);
}

/* One group's reply came before the time was over, and the other's after. */
static void client__replies_before_and_after_a_time_out_come_together(void **state)
{
    struct test t = {NULL};
    char reply[GROUPS][40], little[GROUPS][8];
    uint32_t lengths[GROUPS];
    struct tram_replies to = {.room = reply, .max = sizeof(reply[0]), .lengths = lengths};
    (void)state;
    open_test(&t, "tree");
    assert_int_equal(call(&t, 2, 1, NULL, 0, NULL), TRAM_OK);
    stop_right(&t, true);
    assert_int_equal(call(&t, 2, 40, reply, 40, lengths), TRAM_TIMEOUT);
    assert_true(lengths[LEFT] == 40 && lengths[RIGHT] == 0 && delivered[LEFT] == 2);
    uint64_t whole = tram_client_last(t.client);
    assert_int_equal(call(&t, 2, 40, little, 8, lengths), TRAM_TIMEOUT);
    uint64_t cut = tram_client_last(t.client);
    stop_right(&t, false);
    memset(reply, 0, sizeof(reply));
    assert_int_equal(tram_await(t.client, whole, &to, 10 * SECOND, &t.error), TRAM_OK);
    assert_true(reply[LEFT][39] == 40 && reply[RIGHT][39] == 40);
    /* What did not fit into the first room is gone. */
    assert_int_equal(tram_await(t.client, cut, &to, 10 * SECOND, &t.error), TRAM_TOOBIG);
    assert_true(lengths[LEFT] == 40 && lengths[RIGHT] == 40 && reply[RIGHT][39] == 40);
    assert_true(delivered[LEFT] == 3 && delivered[RIGHT] == 3);
    close_test(&t);
}

static int request(struct test *t, uint64_t number, uint8_t wanted, uint64_t *ticket)
{
    static const uint16_t groups[GROUPS] = {LEFT, RIGHT};
    struct tram_request r = {
        .groups = groups, .count = GROUPS, .body = &wanted, .bytes = 1, .number = number};
    return tram_cast_request(t->client, &r, ticket, &t->error);
}

static void client__a_retry_is_delivered_once(void **state)
{
    struct test t = {NULL};
    uint64_t first, again;
    char reply[GROUPS][8];
    struct tram_replies to = {.room = reply, .max = sizeof(reply[0])};
    (void)state;
    open_test(&t, "tree");
    assert_int_equal(call(&t, 2, 1, NULL, 0, NULL), TRAM_OK);
    stop_right(&t, true);
    assert_int_equal(request(&t, 5, 7, &first), TRAM_OK);
    assert_int_equal(tram_await(t.client, first, &to, SECOND, &t.error), TRAM_TIMEOUT);
    assert_int_equal(request(&t, 5, 7, &again), TRAM_OK); /* under way */
    assert_int_equal(again, first);
    stop_right(&t, false);
    assert_int_equal(tram_await(t.client, again, &to, 10 * SECOND, &t.error), TRAM_OK);
    memset(reply, 0, sizeof(reply));
    assert_int_equal(request(&t, 5, 7, &again), TRAM_OK); /* done */
    assert_int_equal(again, first);
    assert_int_equal(tram_await(t.client, again, &to, SECOND, &t.error), TRAM_OK);
    assert_true(reply[LEFT][6] == 7 && reply[RIGHT][6] == 7);
    assert_int_equal(tram_sim_run_idle(t.sim, 100 * SECOND, &t.error), TRAM_OK);
    assert_true(delivered[LEFT] == 2 && delivered[RIGHT] == 2);
    close_test(&t);
}

static void client__a_number_stands_for_one_message(void **state)
{
    struct test t = {NULL};
    uint64_t ticket, first;
    (void)state;
    open_test(&t, "tree");
    assert_int_equal(request(&t, 5, 7, &first), TRAM_OK);
    assert_int_equal(request(&t, 5, 8, &ticket), TRAM_INVALID);
    assert_non_null(strstr(t.error.text, "request 5 was another message"));
    assert_int_equal(request(&t, 4, 7, &ticket), TRAM_NOTFOUND);
    for (uint64_t n = 6; n < 6 + TRAM_REQUESTS_KEPT; n++) {
        assert_int_equal(request(&t, n, 1, &ticket), TRAM_OK);
        assert_int_equal(tram_await(t.client, ticket, NULL, 10 * SECOND, &t.error), TRAM_OK);
    }
    uint32_t before = delivered[LEFT];
    assert_int_equal(request(&t, 5, 7, &ticket), TRAM_NOTFOUND);
    assert_non_null(strstr(t.error.text, "may have been cast"));
    assert_int_equal(request(&t, 6 + TRAM_REQUESTS_KEPT - 1, 1, &ticket), TRAM_OK);
    assert_int_equal(tram_sim_run_idle(t.sim, 100 * SECOND, &t.error), TRAM_OK);
    assert_int_equal(delivered[LEFT], before);
    close_test(&t);
}

/* Nobody takes anything: what could not even be cast is not a time-out. */
static void client__a_call_that_was_not_cast_says_so(void **state)
{
    struct test t = {NULL};
    uint64_t ticket;
    int rc = TRAM_OK;
    (void)state;
    open_test(&t, "tree");
    assert_int_equal(call(&t, 2, 1, NULL, 0, NULL), TRAM_OK);
    stop_right(&t, true);
    for (uint64_t n = 1; rc == TRAM_OK; n++)
        rc = request(&t, n, 1, &ticket);
    assert_int_equal(rc, TRAM_AGAIN);
    for (rc = TRAM_TIMEOUT; rc == TRAM_TIMEOUT;)
        rc = call(&t, 2, 1, NULL, 0, NULL);
    assert_int_equal(rc, TRAM_AGAIN);
    assert_non_null(strstr(t.error.text, "was not cast"));
    uint32_t under_way = tram_client_outstanding(t.client);
    stop_right(&t, false);
    assert_int_equal(tram_sim_run_idle(t.sim, 100 * SECOND, &t.error), TRAM_OK);
    assert_int_equal(delivered[RIGHT], 1 + under_way);
    close_test(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(client__a_reply_that_does_not_fit_is_told_with_its_length),
        cmocka_unit_test(client__a_machine_that_replies_too_much_stops_its_host),
        cmocka_unit_test(client__a_call_that_timed_out_is_waited_for_again),
        cmocka_unit_test(client__replies_before_and_after_a_time_out_come_together),
        cmocka_unit_test(client__a_retry_is_delivered_once),
        cmocka_unit_test(client__a_number_stands_for_one_message),
        cmocka_unit_test(client__a_call_that_was_not_cast_says_so),
    };
    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
