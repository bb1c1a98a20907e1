/* Topics by the public header: three members in one thread, on shared memory. */
#include "base/clock.h"
#include "tram/topic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { HOSTS = 3, WITHIN_S = 60, SAMPLES = 200 };

static const char file[] = "protocol: group\n"
                           "hosts: [{name: h1}, {name: h2}, {name: h3}]\n"
                           "start_ms: 20\n"
                           "suspect_ms: 20000\n" /* a busy machine is not to put anybody out */
                           "subgroups:\n"
                           "  - {name: orders, ring_bytes: 4k}\n"
                           "  - {name: ticks, mode: raw, ring_bytes: 4k, senders: [h1]}\n"
                           "  - {name: pair, hosts: [h1, h2]}\n"
                           "  - {name: map, shards: 2, overlap: true}\n"
                           "  - {name: prices, ring_bytes: 4k, history: 16k}\n"
                           "  - {name: long, ring_bytes: 64k, history: 4m}\n";

static struct {
    struct tram_cluster *cluster;
    struct tram_group *group[HOSTS];
} rig;

/* The last samples that are kept of `prices`: records of 64 bytes. */
enum { KEPT = 16384 / 64 };

struct reader {
    uint64_t count, hash;
    uint64_t first, next; /* samples that are numbered: none is missing between the two */
    bool numbered;
    struct tram_topic *close_me; /* by the next samples */
};

static void on_samples(void *ctx, uint64_t view, const struct tram_item *item, uint32_t count)
{
    struct reader *r = ctx;
    assert_true(view > 0);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t word = 0;
        assert_int_equal((uintptr_t)item[i].data % 8, 0);
        memcpy(&word, item[i].data, item[i].bytes);
        r->first = r->count + i == 0 ? word : r->first;
        assert_true(!r->numbered || r->count + i == 0 || word == r->next);
        r->next = word + 1;
        r->hash = r->hash * 31 + word;
    }
    r->count += count;
    tram_topic_close(r->close_me);
    r->close_me = NULL;
}

static void come(uint32_t i)
{
    struct tram_error e = {""};
    struct tram_group_options o = {.host = tram_cluster_host_name(rig.cluster, i)};
    if (tram_group_open(rig.cluster, &o, &rig.group[i], &e) != TRAM_OK)
        fail_msg("%s", e.text);
}

static int open_rig(void **state)
{
    struct tram_error e = {""};
    (void)state;
    memset(&rig, 0, sizeof(rig));
    char name[24];
    snprintf(name, sizeof(name), "api-topic-%d", (int)getpid());
    if (tram_cluster_parse(file, name, &rig.cluster, &e) != TRAM_OK)
        fail_msg("%s", e.text);
    for (uint32_t i = 0; i < HOSTS; i++)
        come(i);
    return 0;
}

static void poll_all(void)
{
    struct tram_error e = {""};
    for (uint32_t i = 0; i < HOSTS; i++)
        if (rig.group[i] && tram_group_poll(rig.group[i], &e) < 0)
            fail_msg("%s", e.text);
}

static bool all_left(void)
{
    bool all = true;
    for (uint32_t i = 0; i < HOSTS; i++)
        all &= rig.group[i] == NULL || tram_group_has_left(rig.group[i]);
    return all;
}

static int close_rig(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < HOSTS; i++)
        if (rig.group[i])
            tram_group_leave(rig.group[i]);
    for (uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000); !all_left();) {
        poll_all();
        assert_true(clock_now_ns() < end);
    }
    for (uint32_t i = 0; i < HOSTS; i++)
        tram_group_close(rig.group[i]);
    tram_cluster_free(rig.cluster);
    return 0;
}

static bool together(void)
{
    for (uint32_t i = 0; i < HOSTS; i++) {
        const struct tram_view *v = tram_group_view(rig.group[i]);
        if (v == NULL || v->members != 7 || !v->adequate)
            return false;
    }
    return true;
}

static void until_together(void)
{
    for (uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000); !together();) {
        poll_all();
        assert_true(clock_now_ns() < end);
    }
}

static void until_count(const struct reader *r, uint64_t count)
{
    for (uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000); r->count < count;) {
        poll_all();
        assert_true(clock_now_ns() < end);
    }
}

static struct tram_topic *topic(uint32_t host, const char *name, unsigned role, enum tram_qos qos,
                                struct reader *r)
{
    struct tram_error e = {""};
    struct tram_topic *t = NULL;
    const struct tram_topic_options o = {
        .role = role, .qos = qos, .on_samples = r ? on_samples : NULL, .ctx = r};
    if (tram_topic_open(rig.group[host], name, &o, &t, &e) != TRAM_OK)
        fail_msg("%s", e.text);
    return t;
}

static void publish(struct tram_topic *t, uint64_t word)
{
    struct tram_error e = {""};
    int rc;
    while ((rc = tram_publish(t, &word, sizeof(word), &e)) == TRAM_AGAIN)
        poll_all();
    if (rc != TRAM_OK)
        fail_msg("%s", e.text);
}

/* Two publish at once: all subscribers of an atomic topic have the same samples in the same order, and nothing of others. */
static void topic__subscribers_agree(void **state)
{
    struct reader r[HOSTS] = {{0}}, other = {0};
    (void)state;
    until_together();
    struct tram_topic *a =
        topic(0, "orders", TRAM_PUBLISH | TRAM_SUBSCRIBE, TRAM_QOS_ATOMIC, &r[0]);
    struct tram_topic *b = topic(1, "orders", TRAM_PUBLISH | TRAM_SUBSCRIBE, TRAM_QOS_FILE, &r[1]);
    topic(2, "orders", TRAM_SUBSCRIBE, TRAM_QOS_ATOMIC, &r[2]);
    topic(2, "ticks", TRAM_SUBSCRIBE, TRAM_QOS_UNORDERED, &other);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        publish(a, 2 * i);
        publish(b, 2 * i + 1);
    }
    for (uint32_t i = 0; i < HOSTS; i++)
        until_count(&r[i], UINT64_C(2) * SAMPLES);
    for (uint32_t i = 0; i < HOSTS; i++) {
        assert_int_equal(r[i].count, 2 * SAMPLES);
        assert_true(r[i].hash == r[0].hash);
    }
    assert_int_equal(other.count, 0);
}

/* In place, unordered; one that closes within its callback gets nothing more, and the others go on. */
static void topic__closes_within_its_callback(void **state)
{
    struct reader one = {0}, two = {0};
    (void)state;
    until_together();
    struct tram_topic *out = topic(0, "ticks", TRAM_PUBLISH, TRAM_QOS_UNORDERED, NULL);
    one.close_me = topic(1, "ticks", TRAM_SUBSCRIBE, TRAM_QOS_UNORDERED, &one);
    topic(1, "ticks", TRAM_SUBSCRIBE, TRAM_QOS_UNORDERED, &two);
    publish(out, 1);
    until_count(&two, 1);
    uint64_t *room;
    while ((room = tram_publish_reserve(out, 64)) == NULL)
        poll_all();
    *room = 2;
    tram_publish_commit(out, room, 8);
    while ((room = tram_publish_reserve(out, 64)) == NULL)
        poll_all();
    tram_publish_release(out, room);
    until_count(&two, 2);
    assert_int_equal(one.count, 1);
    assert_true(two.hash == 33);
}

/* ---- history ---- */

static struct tram_topic *from(uint32_t host, const char *name, enum tram_from where,
                               struct reader *r)
{
    struct tram_error e = {""};
    struct tram_topic *t = NULL;
    const struct tram_topic_options o = {.role = TRAM_SUBSCRIBE,
                                         .qos = TRAM_QOS_VOLATILE,
                                         .from = where,
                                         .on_samples = on_samples,
                                         .ctx = r};
    r->numbered = true;
    if (tram_topic_open(rig.group[host], name, &o, &t, &e) != TRAM_OK)
        fail_msg("%s", e.text);
    return t;
}

static void until_next(const struct reader *r, uint64_t next)
{
    for (uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000); r->next < next;) {
        poll_all();
        assert_true(clock_now_ns() < end);
    }
}

static void leave(uint32_t i)
{
    tram_group_leave(rig.group[i]);
    for (uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000);
         !tram_group_has_left(rig.group[i]);) {
        poll_all();
        assert_true(clock_now_ns() < end);
    }
    tram_group_close(rig.group[i]);
    rig.group[i] = NULL;
}

/* Who subscribes late has what is kept, then what comes: each sample once. Who wants none of it gets none. */
static void topic__history_comes_before_what_is_new(void **state)
{
    static struct reader all, late, now, few; /* their topics close with the groups */
    (void)state;
    until_together();
    struct tram_topic *out = topic(0, "prices", TRAM_PUBLISH, TRAM_QOS_VOLATILE, NULL);
    from(1, "prices", TRAM_FROM_START, &all);
    for (uint64_t i = 0; i < 10; i++)
        publish(out, i);
    until_next(&all, 10);
    from(0, "prices", TRAM_FROM_START, &few);
    until_next(&few, 10);
    assert_true(few.first == 0 && few.count == 10);
    for (uint64_t i = 10; i < 1000; i++)
        publish(out, i);
    until_next(&all, 1000);
    struct tram_topic *t = from(1, "prices", TRAM_FROM_START, &late);
    from(1, "prices", TRAM_FROM_NOW, &now);
    for (uint64_t i = 1000; i < 1100; i++)
        publish(out, i);
    until_next(&all, 1100);
    until_next(&late, 1100);
    until_next(&now, 1100);
    assert_true(all.first == 0 && all.count == 1100);
    assert_true(late.first >= 1000 - KEPT && late.first <= 1000 - KEPT / 2);
    assert_true(late.count == 1100 - late.first);
    assert_true(now.first >= 1000 && now.count == 1100 - now.first);
    assert_int_equal(tram_topic_lost(t), 0);
}

/* A long history is told in several rounds, and what is published meanwhile comes behind it. */
static void topic__long_history_comes_in_parts(void **state)
{
    enum { LONG = 60000 };
    static struct reader late;
    (void)state;
    until_together();
    struct tram_topic *out = topic(0, "long", TRAM_PUBLISH, TRAM_QOS_VOLATILE, NULL);
    for (uint64_t i = 0; i < LONG; i++)
        publish(out, i);
    from(1, "long", TRAM_FROM_START, &late);
    for (uint64_t i = LONG; late.next < LONG + 100; i++) {
        publish(out, i);
        poll_all();
    }
    assert_true(late.first == 0 && late.count == late.next);
}

/* A host that comes when the first samples are long gone, and while others are published, has the history as part of the state. */
static void topic__history_is_given_to_who_comes(void **state)
{
    static struct reader all, late, again;
    (void)state;
    until_together();
    leave(2);
    struct tram_topic *out = topic(0, "prices", TRAM_PUBLISH, TRAM_QOS_VOLATILE, NULL);
    from(1, "prices", TRAM_FROM_START, &all);
    for (uint64_t i = 0; i < 1000; i++)
        publish(out, i);
    come(2);
    from(2, "prices", TRAM_FROM_START, &late);
    for (uint64_t i = 1000; late.next < 1500 || i < 1500; i++)
        publish(out, i);
    until_next(&all, late.next);
    assert_true(all.first == 0);
    assert_true(late.first > 1000 - KEPT && late.count == late.next - late.first);
    for (uint32_t i = 0; i < 2;
         i++) { /* who has it from others gives it on, when all who had it first are gone */
        leave(i);
        come(i);
        until_together();
    }
    from(0, "prices", TRAM_FROM_START, &again);
    until_next(&again, late.next);
    assert_true(again.next == late.next && again.count >= KEPT / 2);
}

static void refused(uint32_t host, const char *name, struct tram_topic_options o, int rc,
                    const char *why)
{
    struct tram_error e = {""};
    struct tram_topic *t = NULL;
    assert_int_equal(tram_topic_open(rig.group[host], name, &o, &t, &e), rc);
    if (strstr(e.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", e.text, why);
    assert_null(t);
}

static void topic__says_why_not(void **state)
{
    const struct tram_topic_options listens = {.role = TRAM_SUBSCRIBE, .on_samples = on_samples},
                                    talks = {.role = TRAM_PUBLISH};
    struct tram_error e = {""};
    struct reader r = {0};
    (void)state;
    refused(0, "oders", listens, TRAM_NOTFOUND, "orders");
    refused(0, "map", listens, TRAM_INVALID, "several shards");
    refused(2, "pair", listens, TRAM_REFUSED, "not among its hosts");
    refused(1, "ticks", talks, TRAM_REFUSED, "not among its senders");
    refused(0, "orders",
            (struct tram_topic_options){.role = TRAM_PUBLISH, .qos = TRAM_QOS_VOLATILE},
            TRAM_INVALID, "no history");
    refused(0, "orders",
            (struct tram_topic_options){
                .role = TRAM_SUBSCRIBE, .on_samples = on_samples, .from = TRAM_FROM_START},
            TRAM_INVALID, "no history");
    refused(0, "orders", (struct tram_topic_options){0}, TRAM_INVALID, "role");
    refused(0, "orders", (struct tram_topic_options){.role = TRAM_SUBSCRIBE}, TRAM_INVALID,
            "on_samples");
    refused(0, "ticks", (struct tram_topic_options){.role = TRAM_PUBLISH, .qos = TRAM_QOS_ATOMIC},
            TRAM_INVALID, "unordered");
    struct tram_topic *t = topic(0, "orders", TRAM_SUBSCRIBE, TRAM_QOS_FILE, &r);
    assert_int_equal(tram_publish(t, "x", 1, &e), TRAM_REFUSED);
    assert_null(tram_publish_reserve(t, 1));
    struct tram_topic *most[TRAM_TOPICS_MAX - 1];
    for (uint32_t i = 0; i < TRAM_TOPICS_MAX - 1; i++)
        most[i] = topic(0, "orders", TRAM_PUBLISH, TRAM_QOS_FILE, NULL);
    refused(0, "orders", talks, TRAM_NOMEM, "at most");
    tram_topic_close(most[7]);
    topic(0, "orders", TRAM_PUBLISH, TRAM_QOS_FILE, NULL);
    tram_topic_close(NULL);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(topic__subscribers_agree),
        WITH_RIG(topic__closes_within_its_callback),
        WITH_RIG(topic__history_comes_before_what_is_new),
        WITH_RIG(topic__long_history_comes_in_parts),
        WITH_RIG(topic__history_is_given_to_who_comes),
        WITH_RIG(topic__says_why_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
