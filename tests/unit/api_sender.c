/* Sending from another thread by the public header: members on shared memory, polled by one thread, and producers in others. */
#include "base/clock.h"
#include "tram/group.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { HOSTS = 3, WITHIN_S = 100, MESSAGES = 20000, PRODUCERS = 2, BELLS = 10 };

static const char three[] = "protocol: group\n"
                            "hosts: [{name: h1}, {name: h2}, {name: h3}]\n"
                            "start_ms: 20\n"
                            "suspect_ms: 60000\n" /* a busy machine is not to put anybody out */
                            "subgroups:\n"
                            "  - {name: all, ring_bytes: 4k}\n"
                            "  - {name: few, senders: [h1]}\n";

/* A host that sleeps for so long that only a bell can be what wakes it. */
static const char sleepy[] = "protocol: group\n"
                             "hosts: [{name: h1}]\n"
                             "start_ms: 20\n"
                             "heartbeat_ms: 10000\n"
                             "suspect_ms: 60000\n"
                             "subgroups: [{name: all}]\n";

/* What a member has delivered. A message is its producer and its number. */
struct reader {
    uint64_t next[PRODUCERS + 1]; /* number that is due, by producer */
    uint64_t hash, returned;
    _Atomic uint64_t count;
};

struct message {
    uint64_t producer, number;
};

static struct {
    struct tram_cluster *cluster;
    uint32_t hosts;
    struct tram_group *group[HOSTS];
    struct reader reader[HOSTS];
} rig;

static void on_deliver(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                       uint32_t count)
{
    struct reader *r = ctx;
    (void)cell, (void)view;
    for (uint32_t i = 0; i < count; i++) {
        struct message m;
        memcpy(&m, item[i].data, sizeof(m));
        assert_true(m.producer <= PRODUCERS && m.number == r->next[m.producer]);
        r->next[m.producer]++;
        r->hash = r->hash * 31 + m.producer * 1000003 + m.number;
    }
    atomic_fetch_add(&r->count, count);
}

static void on_returned(void *ctx, uint32_t cell, const void *data, uint32_t bytes)
{
    struct reader *r = ctx;
    (void)cell, (void)data;
    assert_int_equal(bytes, sizeof(struct message));
    r->returned++;
}

static void come(uint32_t i, enum tram_wait wait)
{
    struct tram_error e = {""};
    struct tram_group_options o = {.host = tram_cluster_host_name(rig.cluster, i),
                                   .machine = {.deliver = on_deliver, .returned = on_returned},
                                   .ctx = &rig.reader[i],
                                   .wait = wait};
    if (tram_group_open(rig.cluster, &o, &rig.group[i], &e) != TRAM_OK)
        fail_msg("%s", e.text);
}

static void open_rig(const char *file, enum tram_wait wait)
{
    struct tram_error e = {""};
    char name[32];
    memset(&rig, 0, sizeof(rig));
    snprintf(name, sizeof(name), "api-sender-%d", (int)getpid());
    if (tram_cluster_parse(file, name, &rig.cluster, &e) != TRAM_OK)
        fail_msg("%s", e.text);
    rig.hosts = file == three ? HOSTS : 1;
    for (uint32_t i = 0; i < rig.hosts; i++)
        come(i, wait);
}

static void poll_all(void)
{
    struct tram_error e = {""};
    for (uint32_t i = 0; i < rig.hosts; i++)
        if (rig.group[i] && tram_group_poll(rig.group[i], &e) < 0)
            fail_msg("%s", e.text);
}

static uint64_t deadline(void)
{
    return clock_now_ns() + WITHIN_S * UINT64_C(1000000000);
}

static void until_together(uint64_t members)
{
    for (uint64_t end = deadline();;) {
        bool all = true;
        poll_all();
        for (uint32_t i = 0; i < rig.hosts; i++) {
            const struct tram_view *v = rig.group[i] ? tram_group_view(rig.group[i]) : NULL;
            all &= rig.group[i] == NULL || (v && v->members == members && v->adequate);
        }
        if (all)
            return;
        assert_true(clock_now_ns() < end);
    }
}

static void until_count(uint32_t host, uint64_t count)
{
    for (uint64_t end = deadline(); atomic_load(&rig.reader[host].count) < count;) {
        poll_all();
        assert_true(clock_now_ns() < end);
    }
}

static void leave(uint32_t i)
{
    tram_group_leave(rig.group[i]);
    for (uint64_t end = deadline(); !tram_group_has_left(rig.group[i]);) {
        poll_all();
        assert_true(clock_now_ns() < end);
    }
    tram_group_close(rig.group[i]);
    rig.group[i] = NULL;
}

static void close_rig(void)
{
    for (uint32_t i = 0; i < rig.hosts; i++)
        if (rig.group[i])
            leave(i);
    tram_cluster_free(rig.cluster);
}

static struct tram_sender *sender(uint32_t host)
{
    struct tram_error e = {""};
    struct tram_sender *s = NULL;
    if (tram_sender_open(rig.group[host], 0, 0, &s, &e) != TRAM_OK)
        fail_msg("%s", e.text);
    return s;
}

/* ---- a producer ---- */

struct producer {
    pthread_t thread;
    struct tram_sender *sender;
    uint64_t id, count;
};

static struct message *reserve(struct tram_sender *s, uint32_t bytes)
{
    for (;;) {
        struct message *m = tram_sender_reserve(s, bytes);
        if (m)
            return m;
        sched_yield();
    }
}

/* In pairs of which the second is committed first, with one released between them; and by copy. */
static void *produce(void *ctx)
{
    struct producer *p = ctx;
    struct tram_error e = {""};
    for (uint64_t i = 0; i < p->count; i += 4) {
        struct message *a = reserve(p->sender, 64), *none = reserve(p->sender, 40),
                       *b = reserve(p->sender, sizeof(*b));
        *a = (struct message){p->id, i};
        *b = (struct message){p->id, i + 1};
        tram_sender_commit(p->sender, b, sizeof(*b));
        tram_sender_release(p->sender, none);
        tram_sender_commit(p->sender, a, sizeof(*a));
        for (uint64_t k = i + 2; k < i + 4; k++) {
            const struct message m = {p->id, k};
            while (tram_sender_send(p->sender, &m, sizeof(m), &e) == TRAM_AGAIN)
                sched_yield();
        }
    }
    return NULL;
}

static void start(struct producer *p, uint32_t host, uint64_t id)
{
    *p = (struct producer){.sender = sender(host), .id = id, .count = MESSAGES};
    assert_int_equal(pthread_create(&p->thread, NULL, produce, p), 0);
}

static void finish(struct producer *p)
{
    assert_int_equal(pthread_join(p->thread, NULL), 0);
    assert_int_equal(tram_sender_waiting(p->sender), 0);
    tram_sender_close(p->sender);
}

/* ---- tests ---- */

/* Two handles at two hosts, while the hosts' own thread sends as well: all members deliver all in one order, and that of each handle. */
static void sender__keeps_its_order(void **state)
{
    struct producer p[PRODUCERS];
    struct tram_error e = {""};
    (void)state;
    open_rig(three, TRAM_WAIT_FILE);
    until_together(7);
    for (uint32_t i = 0; i < PRODUCERS; i++)
        start(&p[i], i, i);
    for (uint64_t i = 0; i < 1000;) {
        const struct message m = {PRODUCERS, i};
        int rc = tram_group_send(rig.group[0], 0, &m, sizeof(m), &e);
        assert_true(rc == TRAM_OK || rc == TRAM_AGAIN);
        i += rc == TRAM_OK;
        poll_all();
    }
    for (uint32_t h = 0; h < HOSTS; h++)
        until_count(h, (uint64_t)PRODUCERS * MESSAGES + 1000);
    for (uint32_t i = 0; i < PRODUCERS; i++)
        finish(&p[i]);
    assert_true(rig.reader[0].hash == rig.reader[1].hash);
    assert_true(rig.reader[0].hash == rig.reader[2].hash);
    close_rig();
}

/* Members leave and come while the other thread sends and knows nothing of it. */
static void sender__goes_on_over_views(void **state)
{
    struct producer p;
    (void)state;
    open_rig(three, TRAM_WAIT_FILE);
    until_together(7);
    start(&p, 0, 0);
    until_count(0, MESSAGES / 4);
    leave(2);
    until_together(3);
    until_count(0, MESSAGES / 2);
    rig.reader[2] = (struct reader){.next = {0}};
    leave(1);
    until_together(1);
    until_count(0, MESSAGES);
    finish(&p);
    assert_int_equal(atomic_load(&rig.reader[0].count), MESSAGES);
    close_rig();
}

/* A lease that is open for long holds up nobody but its handle: places in the order are given no earlier than messages are ready. */
static void sender__open_lease_holds_up_nobody(void **state)
{
    struct tram_error e = {""};
    (void)state;
    open_rig(three, TRAM_WAIT_FILE);
    until_together(7);
    struct tram_sender *s = sender(0);
    struct message *slow = reserve(s, 64), *later = reserve(s, 64);
    *later = (struct message){0, 1};
    tram_sender_commit(s, later, sizeof(*later));
    for (uint64_t i = 0; i < 10; i++) {
        const struct message own = {2, i}, other = {1, i};
        while (tram_group_send(rig.group[0], 0, &own, sizeof(own), &e) != TRAM_OK)
            poll_all();
        while (tram_group_send(rig.group[1], 0, &other, sizeof(other), &e) != TRAM_OK)
            poll_all();
    }
    for (uint32_t h = 0; h < HOSTS; h++)
        until_count(h, 20);
    assert_int_equal(rig.reader[1].next[0], 0);
    assert_true(tram_sender_waiting(s) > 0);
    *slow = (struct message){0, 0};
    tram_sender_commit(s, slow, sizeof(*slow));
    for (uint32_t h = 0; h < HOSTS; h++)
        until_count(h, 22);
    assert_int_equal(rig.reader[1].next[0], 2);
    close_rig();
}

static _Atomic bool over;

static void *step(void *ctx)
{
    struct tram_error e = {""};
    while (!atomic_load(&over))
        if (tram_group_step(ctx, &e) < 0)
            return (void *)1;
    return NULL;
}

/* The host sleeps ten seconds at a time once it has had nothing to do for 20 ms, and each message comes after that. */
static void sender__wakes_a_host_that_sleeps(void **state)
{
    const struct timespec nap = {.tv_nsec = 60000000};
    pthread_t thread;
    void *failed;
    (void)state;
    open_rig(sleepy, TRAM_WAIT_SLEEP);
    until_together(1);
    struct tram_sender *s = sender(0);
    atomic_store(&over, false);
    assert_int_equal(pthread_create(&thread, NULL, step, rig.group[0]), 0);
    uint64_t begun = clock_now_ns();
    for (uint64_t i = 0; i < BELLS; i++) {
        struct message *m = reserve(s, sizeof(*m));
        nanosleep(&nap, NULL);
        *m = (struct message){0, i};
        tram_sender_commit(s, m, sizeof(*m));
        while (atomic_load(&rig.reader[0].count) <= i)
            sched_yield();
    }
    assert_true(clock_now_ns() - begun < BELLS * UINT64_C(5000000000));
    atomic_store(&over, true);
    tram_group_wake(rig.group[0]);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    close_rig();
}

/* What nobody has taken comes back, at the close of the handle and of the group. */
static void sender__gives_back_what_was_not_sent(void **state)
{
    (void)state;
    open_rig(three, TRAM_WAIT_FILE);
    struct tram_sender *s = sender(0), *left = sender(0);
    for (uint64_t i = 0; i < 3; i++) {
        const struct message m = {0, i};
        struct tram_error e = {""};
        assert_int_equal(tram_sender_send(s, &m, sizeof(m), &e), TRAM_OK);
        assert_int_equal(tram_sender_send(left, &m, sizeof(m), &e), TRAM_OK);
    }
    tram_sender_close(s);
    assert_int_equal(rig.reader[0].returned, 3);
    tram_group_close(rig.group[0]);
    rig.group[0] = NULL;
    assert_int_equal(rig.reader[0].returned, 6);
    tram_group_close(rig.group[1]);
    tram_group_close(rig.group[2]);
    tram_cluster_free(rig.cluster);
}

static void refused(uint32_t host, uint32_t cell, uint32_t ring_bytes, int rc, const char *why)
{
    struct tram_error e = {""};
    struct tram_sender *s = NULL;
    assert_int_equal(tram_sender_open(rig.group[host], cell, ring_bytes, &s, &e), rc);
    if (strstr(e.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", e.text, why);
    assert_null(s);
}

static void sender__says_why_not(void **state)
{
    static const char large[1024];
    struct tram_error e = {""};
    (void)state;
    open_rig(three, TRAM_WAIT_FILE);
    until_together(7);
    refused(0, 2, 0, TRAM_NOTFOUND, "no cell");
    refused(1, 1, 0, TRAM_REFUSED, "not among its senders");
    refused(0, 0, 2048, TRAM_INVALID, "message_max");
    refused(0, 0, 5000, TRAM_INVALID, "power of two");
    struct tram_sender *s = sender(0);
    assert_null(tram_sender_reserve(s, 513));
    assert_int_equal(tram_sender_send(s, large, 513, &e), TRAM_TOOBIG);
    for (int i = 0; i < 7; i++)
        assert_non_null(tram_sender_reserve(s, 512));
    assert_null(tram_sender_reserve(s, 512));
    assert_int_equal(tram_sender_send(s, large, 512, &e), TRAM_AGAIN);
    for (uint32_t i = 1; i < TRAM_SENDERS_MAX; i++)
        sender(0);
    refused(0, 0, 0, TRAM_NOMEM, "at most");
    tram_sender_close(NULL);
    close_rig();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sender__keeps_its_order),
        cmocka_unit_test(sender__goes_on_over_views),
        cmocka_unit_test(sender__open_lease_holds_up_nobody),
        cmocka_unit_test(sender__wakes_a_host_that_sleeps),
        cmocka_unit_test(sender__gives_back_what_was_not_sent),
        cmocka_unit_test(sender__says_why_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
