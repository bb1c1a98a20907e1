/* What members keep, by the public header: three of them in one thread, with disks, on shared memory. */
#include "api/api.h"
#include "base/clock.h"
#include "tram/group.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { HOSTS = 3, MESSAGES = 200, WITHIN_S = 60, CELLS = 3 };

static const char file[] = "protocol: group\n"
                           "id: 0123456789abcdef0123456789abcdef\n"
                           "hosts: [{name: h1}, {name: h2}, {name: h3}]\n"
                           "start_ms: 20\n"
                           "suspect_ms: 20000\n"
                           "subgroups:\n"
                           "  - {name: sure, mode: durable}\n"
                           "  - {name: flight, mode: logged}\n"
                           "  - {name: rest}\n";

struct peer {
    struct tram_group *group;
    uint64_t delivered[CELLS], persisted[CELLS], members;
};

static struct {
    char dir[64], yaml[96];
    struct tram_cluster *cluster;
    struct peer peer[HOSTS];
} rig;

static void on_deliver(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                       uint32_t count)
{
    (void)view, (void)item;
    ((struct peer *)ctx)->delivered[cell] += count;
}

static void on_view(void *ctx, const struct tram_view *before, const struct tram_view *now)
{
    (void)before;
    ((struct peer *)ctx)->members = now ? now->members : 0;
}

static void on_persisted(void *ctx, uint32_t cell, uint64_t version)
{
    struct peer *p = ctx;
    assert_true(version > p->persisted[cell]);
    p->persisted[cell] = version;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s, (void)type, (void)at;
    return remove(path);
}

static int open_rig(void **state)
{
    (void)state;
    struct tram_error e = {""};
    memset(&rig, 0, sizeof(rig));
    snprintf(rig.dir, sizeof(rig.dir), "/tmp/tram-versions-XXXXXX");
    if (mkdtemp(rig.dir) == NULL)
        return -1;
    setenv("XDG_RUNTIME_DIR", rig.dir, 1);
    snprintf(rig.yaml, sizeof(rig.yaml), "%s/versions.yaml", rig.dir);
    FILE *f = fopen(rig.yaml, "w");
    if (f == NULL || fputs(file, f) < 0 || fclose(f) != 0)
        return -1;
    if (tram_cluster_load(rig.yaml, &rig.cluster, &e) != TRAM_OK)
        fail_msg("%s", e.text);
    for (uint32_t i = 0; i < HOSTS; i++) {
        const struct tram_group_options o = {
            .host = tram_cluster_host_name(rig.cluster, i),
            .machine = {.deliver = on_deliver, .view = on_view, .persisted = on_persisted},
            .wait = TRAM_WAIT_SPIN,
            .ctx = &rig.peer[i]};
        if (tram_host_format(rig.cluster, o.host, &e) != TRAM_OK ||
            tram_group_open(rig.cluster, &o, &rig.peer[i].group, &e) != TRAM_OK)
            fail_msg("%s", e.text);
    }
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < HOSTS; i++)
        tram_group_close(rig.peer[i].group);
    tram_cluster_free(rig.cluster);
    return nftw(rig.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void poll_until(bool (*holds)(void))
{
    struct tram_error e = {""};
    uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000);
    while (!holds()) {
        assert_true(clock_now_ns() < end);
        for (uint32_t i = 0; i < HOSTS; i++)
            if (rig.peer[i].group && tram_group_poll(rig.peer[i].group, &e) < 0)
                fail_msg("%s", e.text);
    }
}

static bool all_are_in(void)
{
    for (uint32_t i = 0; i < HOSTS; i++)
        if (rig.peer[i].members != 7)
            return false;
    return true;
}

static bool all_have_all(void)
{
    for (uint32_t i = 0; i < HOSTS; i++)
        for (uint32_t c = 0; c < 2; c++)
            if (rig.peer[i].delivered[c] < MESSAGES ||
                tram_group_persisted(rig.peer[0].group, c, i) == 0 ||
                rig.peer[i].persisted[c] < (UINT64_C(1) << 40 | MESSAGES))
                return false;
    return true;
}

static void send_all(void)
{
    poll_until(all_are_in);
    for (uint32_t i = 0; i < MESSAGES; i++)
        for (uint32_t c = 0; c < 2; c++) {
            char text[32];
            struct tram_error e = {""};
            uint32_t bytes = (uint32_t)snprintf(text, sizeof(text), "message %u", i);
            if (tram_group_send(rig.peer[i % HOSTS].group, c, text, bytes, &e) != TRAM_OK)
                fail_msg("%s", e.text);
        }
    poll_until(all_have_all);
}

struct seen {
    uint32_t count;
    uint64_t version, time;
    char first[32];
};

static int see(void *ctx, const struct tram_version *v)
{
    struct seen *s = ctx;
    assert_true(v->version > s->version && v->time_ns > s->time);
    assert_true(v->sender < HOSTS && v->bytes < sizeof(s->first));
    if (s->count++ == 0)
        memcpy(s->first, v->data, v->bytes);
    s->version = v->version;
    s->time = v->time_ns;
    return s->count == MESSAGES / 2 ? 7 : 0;
}

static int see_all(void *ctx, const struct tram_version *v)
{
    struct seen *s = ctx;
    see(ctx, v);
    return s->count > MESSAGES;
}

static struct seen read_back(const char *host, const char *cell, uint64_t version, uint64_t time)
{
    struct seen s = {0};
    struct tram_error e = {""};
    if (tram_versions_read(rig.cluster, host, cell, version, time, see_all, &s, &e) != 0)
        fail_msg("%s", e.text);
    return s;
}

static void versions__are_read_back_by_version_and_time_while_members_run(void **state)
{
    (void)state;
    struct seen half = {0};
    send_all();
    for (uint32_t i = 0; i < HOSTS; i++) {
        const char *host = tram_cluster_host_name(rig.cluster, i);
        struct seen all = read_back(host, "sure", 0, 0);
        assert_int_equal(all.count, MESSAGES);
        assert_int_equal(read_back(host, "flight", 0, 0).count, MESSAGES);
        half = (struct seen){0};
        assert_int_equal(tram_versions_read(rig.cluster, host, "sure", 0, 0, see, &half, NULL), 7);
        assert_int_equal(half.count, MESSAGES / 2);
        assert_int_equal(read_back(host, "sure", half.version, 0).count, MESSAGES / 2 + 1);
        assert_int_equal(read_back(host, "sure", 0, half.time).count, MESSAGES / 2 + 1);
        assert_int_equal(read_back(host, "sure", 0, half.time + 1).count, MESSAGES / 2);
    }
}

static void versions__are_the_same_on_all_members_times_too(void **state)
{
    (void)state;
    send_all();
    struct seen first = read_back("h1", "sure", 0, 0);
    for (uint32_t i = 1; i < HOSTS; i++) {
        struct seen other = read_back(tram_cluster_host_name(rig.cluster, i), "sure", 0, 0);
        assert_true(other.version == first.version && other.time == first.time);
    }
    /* And a member says so: nothing will have an earlier time, or none. */
    for (uint32_t i = 0; i < HOSTS; i++) {
        const struct tram_group *g = rig.peer[i].group;
        assert_true(tram_group_time(g, (uint32_t)tram_group_cell(g, "sure", 0)) == first.time);
        assert_true(tram_group_time(g, (uint32_t)tram_group_cell(g, "rest", 0)) == 0);
    }
}

static void versions__reading_says_what_is_not_there(void **state)
{
    (void)state;
    struct tram_error e = {""};
    struct seen s = {0};
    assert_int_equal(tram_versions_read(rig.cluster, "h9", "sure", 0, 0, see, &s, &e),
                     TRAM_NOTFOUND);
    assert_non_null(strstr(e.text, "no host 'h9'"));
    assert_int_equal(tram_versions_read(rig.cluster, "h1", "sur", 0, 0, see, &s, &e),
                     TRAM_NOTFOUND);
    assert_int_equal(tram_versions_read(rig.cluster, "h1", "rest", 0, 0, see, &s, &e),
                     TRAM_INVALID);
    assert_non_null(strstr(e.text, "mode: memory"));
    assert_int_equal(read_back("h1", "sure", 0, 0).count, 0);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(versions__are_read_back_by_version_and_time_while_members_run),
        WITH_RIG(versions__are_the_same_on_all_members_times_too),
        WITH_RIG(versions__reading_says_what_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
