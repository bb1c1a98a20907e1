/* Clients of a group by the public header: three members and a client in one thread, on shared memory. */
#include "base/clock.h"
#include "tram/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { HOSTS = 3, WITHIN_S = 60, MESSAGES = 200 };

static const char file[] = "protocol: group\n"
                           "hosts: [{name: h1}, {name: h2}, {name: h3}]\n"
                           "start_ms: 20\n"
                           "suspect_ms: 20000\n" /* a busy machine is not to put anybody out */
                           "clients: 4\n"
                           "subgroups:\n"
                           "  - {name: sums}\n"
                           "  - {name: ticks, mode: raw, senders: [h1]}\n";

struct member {
    uint64_t sum, count, last;
    bool out_of_order;
};

static struct {
    struct tram_cluster *cluster;
    struct tram_group *group[HOSTS]; /* NULL: it is closed */
    struct member member[HOSTS];
    struct tram_group_client *client;
    uint64_t done, replied, lost;
} rig;

/* ---- members add what they are sent ---- */

static void deliver(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                    uint32_t count)
{
    struct member *m = ctx;
    (void)view;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t word = 0;
        memcpy(&word, item[i].data, item[i].bytes < 8 ? item[i].bytes : 8);
        assert_int_equal(item[i].client, 1);
        assert_int_equal((uintptr_t)item[i].data % 8, 0);
        if (cell == 0) {
            m->out_of_order |= word <= m->last;
            m->last = word;
        }
        m->sum += word;
        m->count++;
    }
}

static uint32_t call(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                     void *reply, uint32_t room)
{
    struct member *m = ctx;
    deliver(ctx, cell, view, item, 1);
    if (room >= 8)
        memcpy(reply, &m->sum, 8);
    return 8;
}

static int query(void *ctx, uint32_t cell, uint32_t from, const void *data, uint32_t bytes,
                 void *reply, uint32_t room)
{
    struct member *m = ctx;
    (void)cell, (void)data, (void)bytes;
    assert_true(from == TRAM_ANY_HOST && room >= 8);
    memcpy(reply, &m->sum, 8);
    return 8;
}

static int save(void *ctx, uint32_t cell, void **data, size_t *bytes)
{
    (void)cell;
    *data = malloc(sizeof(struct member));
    memcpy(*data, ctx, sizeof(struct member));
    *bytes = sizeof(struct member);
    return 0;
}

static int load(void *ctx, uint32_t cell, const void *data, size_t bytes)
{
    (void)cell;
    memcpy(ctx, data, bytes);
    return 0;
}

static void done(void *ctx, uint64_t ticket, const struct tram_answer *a)
{
    (void)ctx, (void)ticket;
    rig.done++;
    rig.replied += a->bytes == 8;
    rig.lost += a->status == TRAM_LOST;
    assert_true(a->status == TRAM_OK || a->status == TRAM_LOST);
}

/* ---- the rig ---- */

static void open_member(uint32_t i)
{
    struct tram_error e = {""};
    rig.member[i] = (struct member){0};
    struct tram_group_options o = {
        .host = tram_cluster_host_name(rig.cluster, i),
        .machine = {.deliver = deliver, .call = call, .query = query, .save = save, .load = load},
        .ctx = &rig.member[i],
        .leave_ms = 1};
    if (tram_group_open(rig.cluster, &o, &rig.group[i], &e) != TRAM_OK)
        fail_msg("%s", e.text);
}

static int open_rig(void **state)
{
    struct tram_error e = {""};
    (void)state;
    memset(&rig, 0, sizeof(rig));
    char name[32];
    snprintf(name, sizeof(name), "api-group-client-%d", (int)getpid());
    if (tram_cluster_parse(file, name, &rig.cluster, &e) != TRAM_OK)
        fail_msg("%s", e.text);
    for (uint32_t i = 0; i < HOSTS; i++)
        open_member(i);
    const struct tram_group_client_options o = {.done = done, .retry_ms = 20000};
    if (tram_group_client_open(rig.cluster, &o, &rig.client, &e) != TRAM_OK)
        fail_msg("%s", e.text);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    tram_group_client_close(rig.client);
    for (uint32_t i = 0; i < HOSTS; i++)
        tram_group_close(rig.group[i]);
    tram_cluster_free(rig.cluster);
    return 0;
}

static void poll_all(void)
{
    struct tram_error e = {""};
    for (uint32_t i = 0; i < HOSTS; i++)
        if (rig.group[i] && tram_group_poll(rig.group[i], &e) < 0)
            fail_msg("%s", e.text);
    if (tram_group_client_poll(rig.client, &e) < 0)
        fail_msg("%s", e.text);
}

static void until(bool (*is)(void))
{
    uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000);
    while (!is()) {
        poll_all();
        assert_true(clock_now_ns() < end);
    }
}

static bool all_done(void)
{
    return tram_group_client_outstanding(rig.client) == 0;
}

static uint64_t wanted;

static bool all_have(void)
{
    for (uint32_t i = 0; i < HOSTS; i++)
        if (rig.group[i] && rig.member[i].count < wanted)
            return false;
    return true;
}

static bool together(void)
{
    for (uint32_t i = 0; i < HOSTS; i++) {
        const struct tram_view *v = rig.group[i] ? tram_group_view(rig.group[i]) : NULL;
        if (rig.group[i] && (v == NULL || !v->adequate || !tram_group_has_state(rig.group[i], 0)))
            return false;
    }
    return true;
}

static void send_some(uint32_t cell, uint64_t from, uint64_t to)
{
    struct tram_error e = {""};
    for (uint64_t word = from; word < to;) {
        int rc = tram_group_client_send(rig.client, cell, &word, sizeof(word), NULL, &e);
        if (rc == TRAM_OK)
            word++;
        else if (rc != TRAM_AGAIN)
            fail_msg("%s", e.text);
        poll_all();
    }
}

/* ---- */

static void group_client__what_it_sends_all_members_deliver(void **state)
{
    (void)state;
    send_some(0, 1, MESSAGES + 1);
    until(all_done);
    wanted = MESSAGES;
    until(all_have);
    for (uint32_t i = 0; i < HOSTS; i++) {
        assert_int_equal(rig.member[i].sum, MESSAGES * (MESSAGES + 1) / 2);
        assert_false(rig.member[i].out_of_order);
    }
    assert_int_equal(rig.done, MESSAGES);
}

static void group_client__a_raw_cell_takes_it_too(void **state)
{
    (void)state;
    send_some(1, 1, MESSAGES + 1);
    until(all_done);
    wanted = MESSAGES;
    until(all_have);
    assert_int_equal(rig.done, MESSAGES);
}

static void group_client__calls_and_queries_are_answered(void **state)
{
    struct tram_error e = {""};
    uint64_t word = 5, ticket;
    (void)state;
    assert_int_equal(tram_group_client_call(rig.client, 0, &word, sizeof(word), 64, &ticket, &e),
                     TRAM_OK);
    assert_int_equal(
        tram_group_client_query(rig.client, 0, 0, &word, sizeof(word), 64, &ticket, &e), TRAM_OK);
    until(all_done);
    assert_int_equal(rig.done, 2);
    assert_int_equal(rig.replied, 2);
    assert_int_equal(tram_group_client_call(rig.client, 1, "", 0, 64, &ticket, &e), TRAM_INVALID);
    assert_non_null(strstr(e.text, "raw"));
    assert_int_equal(tram_group_client_send(rig.client, 9, "", 0, &ticket, &e), TRAM_NOTFOUND);
}

static void group_client__goes_on_at_another_member_once(void **state)
{
    (void)state;
    until(together);
    send_some(0, 1, MESSAGES / 2);
    for (uint32_t i = 0; i < 2; i++) { /* the first that it goes to is one of these */
        tram_group_close(rig.group[i]);
        rig.group[i] = NULL;
        send_some(0, MESSAGES / 2 + i * 50, MESSAGES / 2 + (i + 1) * 50);
        if (i == 0) {
            open_member(0);
            until(together);
        }
    }
    until(all_done);
    wanted = MESSAGES / 2 + 100 - 1;
    until(all_have);
    for (uint32_t i = 0; i < HOSTS; i++)
        if (rig.group[i]) {
            assert_int_equal(rig.member[i].count, wanted);
            assert_false(rig.member[i].out_of_order);
        }
}

/* As many as may be to the raw cell, whose sender is not there: the other cell takes what it did. */
static void group_client__what_nobody_takes_leaves_room_for_other_cells(void **state)
{
    (void)state;
    struct tram_error e = {""};
    uint64_t word = 1;
    uint32_t stand = 0;
    until(together);
    tram_group_close(rig.group[0]);
    rig.group[0] = NULL;
    until(together);
    while (tram_group_client_send(rig.client, 1, &word, sizeof(word), NULL, &e) == TRAM_OK)
        stand++;
    assert_true(stand >= 500);
    send_some(0, 1, 1000 + 1);
    uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000);
    while (rig.done < 1000) {
        poll_all();
        assert_true(clock_now_ns() < end);
    }
    assert_int_equal(tram_group_client_outstanding(rig.client), stand);
    open_member(0);
    until(all_done);
    assert_int_equal(rig.done, 1000 + stand);
}

static void group_client__says_that_nobody_is_there(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < HOSTS; i++) {
        tram_group_close(rig.group[i]);
        rig.group[i] = NULL;
    }
    struct tram_error e = {""};
    const struct tram_group_client_options o = {.done = done, .retry_ms = 20};
    tram_group_client_close(rig.client);
    assert_int_equal(tram_group_client_open(rig.cluster, &o, &rig.client, &e), TRAM_OK);
    assert_int_equal(tram_group_client_send(rig.client, 0, "x", 1, NULL, &e), TRAM_OK);
    uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000);
    while (tram_group_client_waits(rig.client, 0) == NULL) {
        tram_group_client_wait(rig.client, 1000000, NULL);
        assert_true(clock_now_ns() < end);
    }
    assert_non_null(strstr(tram_group_client_waits(rig.client, 0), "h1 h2 h3 were tried"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(group_client__what_it_sends_all_members_deliver, open_rig,
                                        close_rig),
        cmocka_unit_test_setup_teardown(group_client__a_raw_cell_takes_it_too, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(group_client__calls_and_queries_are_answered, open_rig,
                                        close_rig),
        cmocka_unit_test_setup_teardown(group_client__goes_on_at_another_member_once, open_rig,
                                        close_rig),
        cmocka_unit_test_setup_teardown(group_client__what_nobody_takes_leaves_room_for_other_cells,
                                        open_rig, close_rig),
        cmocka_unit_test_setup_teardown(group_client__says_that_nobody_is_there, open_rig,
                                        close_rig),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
