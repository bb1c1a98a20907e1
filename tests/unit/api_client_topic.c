/* Topics of programs that are no members, by the public header: three members with disks and a client in one thread, on shared memory. */
#include "api/api.h"
#include "base/clock.h"
#include "tram/topic.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { HOSTS = 3, WITHIN_S = 20 };

/* A sample of 8 bytes takes 64 of a history: `prices` keeps 1,024. */
static const char file[] =
    "protocol: group\n"
    "hosts: [{name: h1}, {name: h2}, {name: h3}]\n"
    "start_ms: 20\n"
    "suspect_ms: 20000\n" /* a busy machine is not to put anybody out */
    "clients: 4\n"
    "topics:\n"
    "  - {name: prices, qos: volatile, ring_bytes: 4k, history: 64k}\n"
    "  - {name: long, qos: volatile, ring_bytes: 64k, history: 4m}\n"
    "  - {name: orders}\n"
    "  - {name: other, slots: 2, qos: volatile, ring_bytes: 4k, history: 64k}\n";

static const char with_disks[] = "id: 0123456789abcdef0123456789abcdef\n";
static const char on_disks[] = "  - {name: flight, qos: logged}\n";

enum { KEPT = (64 << 10) / 64 };

static struct {
    char dir[64], yaml[96];
    struct tram_cluster *cluster;
    struct tram_group *group[HOSTS]; /* NULL: it is closed */
    struct tram_group_client *client;
} rig;

/* What a client has of a topic whose samples are numbered. */
struct reader {
    uint64_t count, first, next, lost;
    uint64_t version; /* of the last one */
    bool unknown;     /* some may be lost */
};

static void on_samples(void *ctx, uint64_t view, const struct tram_item *item, uint32_t count)
{
    struct reader *r = ctx;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t word = 0;
        assert_int_equal(item[i].bytes, sizeof(word));
        assert_int_equal((uintptr_t)item[i].data % 8, 0);
        memcpy(&word, item[i].data, sizeof(word));
        r->first = r->count++ == 0 ? word : r->first;
        assert_true(r->count == 1 || word == r->next + r->lost);
        r->lost = 0;
        r->next = word + 1;
        r->version = view << 40 | item[i].number;
    }
}

static void on_lost(void *ctx, uint64_t count)
{
    struct reader *r = ctx;
    r->unknown |= count == TRAM_LOST_SOME;
    r->lost += count;
}

/* ---- the rig ---- */

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s, (void)type, (void)at;
    return remove(path);
}

static void come(uint32_t i)
{
    struct tram_error e = {""};
    const struct tram_group_options o = {.host = tram_cluster_host_name(rig.cluster, i),
                                         .leave_ms = 1};
    if (tram_group_open(rig.cluster, &o, &rig.group[i], &e) != TRAM_OK)
        fail_msg("%s", e.text);
}

static int open_members(bool disks)
{
    struct tram_error e = {""};
    memset(&rig, 0, sizeof(rig));
    snprintf(rig.dir, sizeof(rig.dir), "/tmp/tram-client-topic-XXXXXX");
    if (mkdtemp(rig.dir) == NULL)
        return -1;
    setenv("XDG_RUNTIME_DIR", rig.dir, 1);
    snprintf(rig.yaml, sizeof(rig.yaml), "%s/topics.yaml", rig.dir);
    FILE *f = fopen(rig.yaml, "w");
    if (f == NULL ||
        fprintf(f, "%s%s%s", disks ? with_disks : "", file, disks ? on_disks : "") < 0 ||
        fclose(f) != 0)
        return -1;
    if (tram_cluster_load(rig.yaml, &rig.cluster, &e) != TRAM_OK)
        fail_msg("%s", e.text);
    for (uint32_t i = 0; i < HOSTS; i++) {
        if (disks &&
            tram_host_format(rig.cluster, tram_cluster_host_name(rig.cluster, i), &e) != TRAM_OK)
            fail_msg("%s", e.text);
        come(i);
    }
    const struct tram_group_client_options o = {.retry_ms = 20000};
    if (tram_group_client_open(rig.cluster, &o, &rig.client, &e) != TRAM_OK)
        fail_msg("%s", e.text);
    return 0;
}

static int open_rig(void **state)
{
    (void)state;
    return open_members(false);
}

static int open_rig_with_disks(void **state)
{
    (void)state;
    return open_members(true);
}

static int close_rig(void **state)
{
    (void)state;
    tram_group_client_close(rig.client);
    for (uint32_t i = 0; i < HOSTS; i++)
        tram_group_close(rig.group[i]);
    tram_cluster_free(rig.cluster);
    return nftw(rig.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void poll_members(void)
{
    struct tram_error e = {""};
    for (uint32_t i = 0; i < HOSTS; i++)
        if (rig.group[i] && tram_group_poll(rig.group[i], &e) < 0)
            fail_msg("%s", e.text);
}

static void poll_all(void)
{
    struct tram_error e = {""};
    poll_members();
    if (tram_group_client_poll(rig.client, &e) < 0)
        fail_msg("%s", e.text);
}

#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000);                           \
        while (!(condition)) {                                                                     \
            poll_all();                                                                            \
            assert_true(clock_now_ns() < end);                                                     \
        }                                                                                          \
    } while (0)

static bool together(void)
{
    for (uint32_t i = 0; i < HOSTS; i++) {
        const struct tram_view *v = tram_group_view(rig.group[i]);
        if (v == NULL || v->members != 7)
            return false;
    }
    return true;
}

static struct tram_client_topic *from(const char *name, enum tram_from from, uint64_t at,
                                      struct reader *r)
{
    struct tram_error e = {""};
    struct tram_client_topic *t = NULL;
    const struct tram_client_topic_options o = {.role = TRAM_SUBSCRIBE,
                                                .from = from,
                                                .at = at,
                                                .on_samples = on_samples,
                                                .on_lost = on_lost,
                                                .ctx = r};
    if (tram_client_topic_open(rig.client, name, &o, &t, &e) != TRAM_OK)
        fail_msg("%s", e.text);
    return t;
}

static struct tram_topic *talks(const char *name)
{
    struct tram_error e = {""};
    struct tram_topic *t = NULL;
    const struct tram_topic_options o = {.role = TRAM_PUBLISH};
    if (tram_topic_open(rig.group[0], name, &o, &t, &e) != TRAM_OK)
        fail_msg("%s", e.text);
    return t;
}

/* The client is not polled meanwhile. */
static void publish(struct tram_topic *t, uint64_t first, uint64_t next)
{
    struct tram_error e = {""};
    int rc;
    for (uint64_t word = first; word < next; word++) {
        while ((rc = tram_publish(t, &word, sizeof(word), &e)) == TRAM_AGAIN)
            poll_members();
        if (rc != TRAM_OK)
            fail_msg("%s", e.text);
    }
    for (uint32_t i = 0; i < 64; i++)
        poll_members();
}

/* ---- the tests ---- */

/* Who comes late gets what is kept and then what is new, or from where it wants on. */
static void client_topic__history_comes_first(void **state)
{
    static struct reader all, rest, now;
    (void)state;
    UNTIL(together());
    struct tram_topic *out = talks("prices");
    publish(out, 0, 2 * KEPT);
    struct tram_client_topic *t = from("prices", TRAM_FROM_START, 0, &all);
    UNTIL(all.next == 2 * KEPT);
    assert_true(all.first >= KEPT && all.first <= KEPT + KEPT / 2);
    assert_int_equal(all.count, 2 * KEPT - all.first);
    uint64_t version = all.version;
    publish(out, 2 * KEPT, 2 * KEPT + 10);
    UNTIL(all.next == 2 * KEPT + 10);
    tram_client_topic_close(t);
    t = from("prices", TRAM_FROM_VERSION, version, &rest);
    UNTIL(rest.next == 2 * KEPT + 10);
    assert_int_equal(rest.first, 2 * KEPT - 1);
    tram_client_topic_close(t);
    t = from("prices", TRAM_FROM_NOW, 0, &now);
    UNTIL(tram_client_topic_fed(t));
    publish(out, 2 * KEPT + 10, 2 * KEPT + 20);
    UNTIL(now.next == 2 * KEPT + 20);
    assert_int_equal(now.first, 2 * KEPT + 10);
}

/* Whoever is slow reads on in the history, and loses what is gone from there alone; it is told how much. */
static void client_topic__slow_one_reads_the_history(void **state)
{
    enum { MANY = 20000 };
    static struct reader kept, lost;
    (void)state;
    UNTIL(together());
    struct tram_topic *far = talks("long"), *near = talks("prices");
    struct tram_client_topic *t = from("long", TRAM_FROM_NOW, 0, &kept);
    struct tram_client_topic *u = from("prices", TRAM_FROM_NOW, 0, &lost);
    UNTIL(tram_client_topic_fed(t) && tram_client_topic_fed(u));
    publish(far, 0, MANY);
    publish(near, 0, MANY);
    UNTIL(kept.next == MANY && lost.next == MANY);
    assert_int_equal(kept.count, MANY);
    assert_true(lost.count < MANY && lost.count >= KEPT / 2);
    assert_false(kept.unknown || lost.unknown);
    publish(far, MANY, MANY + 5);
    UNTIL(kept.next == MANY + 5);
}

/* When the member that feeds it leaves, another one goes on behind what it has: nothing is lost meanwhile. */
static void client_topic__goes_on_elsewhere_without_a_loss(void **state)
{
    static struct reader r;
    (void)state;
    UNTIL(together());
    struct tram_topic *out = talks("prices");
    struct tram_client_topic *t = from("prices", TRAM_FROM_NOW, 0, &r);
    UNTIL(tram_client_topic_fed(t));
    publish(out, 0, 1);
    uint64_t next = 1;
    for (uint32_t i = 1; i < HOSTS; i++) { /* one of them may feed it, and h1 publishes */
        tram_group_leave(rig.group[i]);
        for (uint32_t k = 0; !tram_group_has_left(rig.group[i]); k++) {
            publish(out, next, next + 1);
            next++;
            assert_true(k < 1000000 && next < KEPT);
        }
        tram_group_close(rig.group[i]);
        rig.group[i] = NULL;
        UNTIL(r.next == next);
        come(i);
        UNTIL(together());
    }
    assert_true(r.count == next && !r.unknown);
}

/* What is logged the client reads from a disk, and goes on with what it is fed. */
static void client_topic__reads_the_log_first(void **state)
{
    static struct reader all, late, timed;
    (void)state;
    UNTIL(together());
    struct tram_topic *out = talks("flight");
    publish(out, 0, 100);
    struct tram_client_topic *t = from("flight", TRAM_FROM_START, 0, &all);
    UNTIL(all.next == 100);
    uint64_t half = all.version, ns = clock_wall_ms() * UINT64_C(1000000);
    while (clock_wall_ms() * UINT64_C(1000000) <= ns)
        poll_all();
    ns = clock_wall_ms() * UINT64_C(1000000);
    while (clock_wall_ms() * UINT64_C(1000000) <
           ns + 5000000) /* a member's clock is of its last round */
        poll_all();
    publish(out, 100, 20000); /* more than is kept for a client that is not polled */
    UNTIL(all.next == 20000);
    assert_int_equal(all.count, 20000);
    assert_false(all.unknown);
    tram_client_topic_close(t);
    t = from("flight", TRAM_FROM_VERSION, half, &late);
    publish(out, 20000, 20010);
    UNTIL(late.next == 20010);
    assert_int_equal(late.first, 99);
    tram_client_topic_close(t);
    struct tram_error e = {""};
    const struct tram_client_topic_options later = {.role = TRAM_SUBSCRIBE,
                                                    .from = TRAM_FROM_TIME,
                                                    .at = ns + UINT64_C(3600000000000),
                                                    .on_samples = on_samples};
    assert_int_equal(tram_client_topic_open(rig.client, "flight", &later, &t, &e), TRAM_INVALID);
    assert_non_null(strstr(e.text, "has not come"));
    from("flight", TRAM_FROM_TIME, ns, &timed);
    UNTIL(timed.next == 20010);
    assert_int_equal(timed.first, 100);
    publish(out, 20010, 20011);
    UNTIL(timed.next == 20011);
}

/* Topics that the file does not name: those of one slot do not hear each other, and each has its own past. */
static void client_topic__is_made_on_use(void **state)
{
    enum { NAMES = 5 }; /* two slots: some of them share one */
    static struct reader reader[NAMES], again[NAMES];
    struct tram_client_topic *t[NAMES];
    struct tram_error e = {""};
    char name[NAMES][8];
    (void)state;
    UNTIL(together());
    for (uint32_t i = 0; i < NAMES; i++) {
        snprintf(name[i], sizeof(name[i]), "any.%u", i);
        t[i] = from(name[i], TRAM_FROM_NOW, 0, &reader[i]);
    }
    for (uint32_t i = 0; i < NAMES; i++) {
        UNTIL(tram_client_topic_fed(t[i]));
        publish(talks(name[i]), 100 * i, 100 * i + 10 + i);
    }
    for (uint32_t i = 0; i < NAMES; i++)
        UNTIL(reader[i].next == 100 * i + 10 + i);
    for (uint32_t i = 0; i < NAMES; i++) {
        assert_true(reader[i].first == 100 * i && reader[i].count == 10 + i);
        tram_client_topic_close(t[i]);
    }
    for (uint32_t i = 0; i < NAMES; i++)
        from(name[i], i % 2 ? TRAM_FROM_NOW : TRAM_FROM_START, 0, &again[i]);
    for (uint32_t i = 0; i < NAMES; i += 2)
        UNTIL(again[i].next == 100 * i + 10 + i);
    for (uint32_t i = 0; i < NAMES; i++)
        assert_int_equal(again[i].count, i % 2 ? 0 : 10 + i);
    struct tram_client_topic *out;
    const uint64_t word = 500;
    const struct tram_client_topic_options o = {.role = TRAM_PUBLISH};
    assert_int_equal(tram_client_topic_open(rig.client, name[1], &o, &out, &e), TRAM_INVALID);
    tram_client_topic_close(t[1] = NULL);
    assert_int_equal(tram_client_topic_open(rig.client, "new", &o, &out, &e), TRAM_OK);
    assert_int_equal(tram_client_publish(out, &word, sizeof(word), NULL, &e), TRAM_OK);
    static struct reader last;
    const struct tram_topic_options listens = {
        .role = TRAM_SUBSCRIBE, .from = TRAM_FROM_START, .on_samples = on_samples, .ctx = &last};
    struct tram_topic *member;
    assert_int_equal(tram_topic_open(rig.group[2], "new", &listens, &member, &e), TRAM_OK);
    UNTIL(last.next == 501);
    assert_int_equal(last.count, 1);
}

static void refused(const char *name, struct tram_client_topic_options o, int rc, const char *why)
{
    struct tram_error e = {""};
    struct tram_client_topic *t = NULL;
    o.on_samples = on_samples;
    assert_int_equal(tram_client_topic_open(rig.client, name, &o, &t, &e), rc);
    if (strstr(e.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", e.text, why);
}

static void client_topic__says_why_not(void **state)
{
    (void)state;
    struct tram_client_topic_options o = {.role = TRAM_SUBSCRIBE, .from = TRAM_FROM_START};
    refused("orders", o, TRAM_INVALID, "no history");
    refused("other", o, TRAM_INVALID, "does not name");
    refused("no/name", o, TRAM_INVALID, "letters, digits");
    o.from = TRAM_FROM_TIME;
    refused("prices", o, TRAM_INVALID, "no times");
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(client_topic__history_comes_first),
        WITH_RIG(client_topic__slow_one_reads_the_history),
        WITH_RIG(client_topic__goes_on_elsewhere_without_a_loss),
        cmocka_unit_test_setup_teardown(client_topic__reads_the_log_first, open_rig_with_disks,
                                        close_rig),
        WITH_RIG(client_topic__is_made_on_use),
        WITH_RIG(client_topic__says_why_not),
    };
    return cmocka_run_group_tests_name("api_client_topic", tests, NULL, NULL);
}
