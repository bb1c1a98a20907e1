/* Members of a group by the public header: three of them in one thread, on shared memory. */
#include "api/api.h"
#include "base/clock.h"
#include "tram/group.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { HOSTS = 3, WITHIN_S = 60 };

static const char file[] = "protocol: group\n"
                           "hosts: [{name: h1}, {name: h2}, {name: h3}]\n"
                           "start_ms: 20\n"
                           "suspect_ms: 20000\n" /* a busy machine is not to put anybody out */
                           "subgroups:\n"
                           "  - {name: all, ring_bytes: 4k}\n"
                           "  - {name: one, senders: [h1]}\n"
                           "  - {name: some, shards: 2}\n";

struct peer {
    struct tram_group *group;
    uint64_t ticket;                       /* of the last that is complete */
    uint32_t answers, lost, without_state; /* since it was asked */
    uint64_t told[HOSTS];                  /* by host */
    uint64_t delivered[4], sum[4], views, out, returned, born;
    uint64_t members; /* of its view */
    uint32_t loads;
};

static struct {
    struct tram_cluster *cluster;
    struct peer peer[HOSTS];
    void (*layout)(void *, const struct tram_view *, struct tram_layout *);
} rig;

/* ---- a machine that sums ---- */

static void on_deliver(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                       uint32_t count)
{
    struct peer *p = ctx;
    assert_true(view > 0);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t word = 0;
        memcpy(&word, item[i].data, item[i].bytes < 8 ? item[i].bytes : 8);
        p->sum[cell] = p->sum[cell] * 3 + word;
        p->delivered[cell]++;
    }
}

static void on_view(void *ctx, const struct tram_view *before, const struct tram_view *now)
{
    struct peer *p = ctx;
    p->views++;
    p->out += now == NULL;
    p->members = now ? now->members : 0;
    if (before && now)
        assert_true(before->number < now->number);
}

static void on_returned(void *ctx, uint32_t cell, const void *data, uint32_t bytes)
{
    (void)cell, (void)data, (void)bytes;
    ((struct peer *)ctx)->returned++;
}

static void on_born(void *ctx, uint32_t cell)
{
    (void)cell;
    ((struct peer *)ctx)->born++;
}

/* A call adds, and is told the sum; a query is told it. */
static uint32_t on_call(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                        void *reply, uint32_t room)
{
    struct peer *p = ctx;
    on_deliver(ctx, cell, view, item, 1);
    if (room >= 8)
        memcpy(reply, &p->sum[cell], 8);
    return 8;
}

static int on_query(void *ctx, uint32_t cell, uint32_t from, const void *data, uint32_t bytes,
                    void *reply, uint32_t room)
{
    struct peer *p = ctx;
    assert_true(from < HOSTS);
    if (bytes == 1 && *(const char *)data == 'n')
        return TRAM_INVALID;
    if (room >= 8)
        memcpy(reply, &p->sum[cell], 8);
    return 8;
}

static void on_answered(void *ctx, uint64_t ticket, const struct tram_answer *a)
{
    struct peer *p = ctx;
    if (a == NULL) {
        p->ticket = ticket;
        return;
    }
    p->answers += a->status == TRAM_OK;
    p->lost += a->status == TRAM_LOST;
    p->without_state += a->status == TRAM_AGAIN;
    p->told[a->host] = a->status == TRAM_OK ? 0 : (uint64_t)a->status;
    if (a->bytes == 8)
        memcpy(&p->told[a->host], a->data, 8);
}

static int on_save(void *ctx, uint32_t cell, void **data, size_t *bytes)
{
    struct peer *p = ctx;
    uint64_t state[2] = {p->delivered[cell], p->sum[cell]};
    *bytes = sizeof(state);
    *data = malloc(sizeof(state));
    assert_non_null(*data);
    memcpy(*data, state, sizeof(state));
    return 0;
}

static int on_load(void *ctx, uint32_t cell, const void *data, size_t bytes)
{
    struct peer *p = ctx;
    uint64_t state[2];
    assert_true(bytes == sizeof(state));
    memcpy(state, data, sizeof(state));
    p->delivered[cell] = state[0];
    p->sum[cell] = state[1];
    p->loads++;
    return 0;
}

/* ---- the rig ---- */

static void come(uint32_t i)
{
    struct tram_error e = {""};
    struct tram_group_options o = {.host = tram_cluster_host_name(rig.cluster, i),
                                   .machine = {.deliver = on_deliver,
                                               .view = on_view,
                                               .returned = on_returned,
                                               .born = on_born,
                                               .call = on_call,
                                               .query = on_query,
                                               .answered = on_answered,
                                               .save = on_save,
                                               .load = on_load},
                                   .ctx = &rig.peer[i],
                                   .layout = rig.layout};
    if (tram_group_open(rig.cluster, &o, &rig.peer[i].group, &e) != TRAM_OK)
        fail_msg("%s", e.text);
}

static void poll_all(void)
{
    struct tram_error e = {""};
    for (uint32_t i = 0; i < HOSTS; i++)
        if (rig.peer[i].group && tram_group_poll(rig.peer[i].group, &e) < 0)
            fail_msg("%s", e.text);
}

/* Polls all until it holds. */
static void until(bool (*holds)(void))
{
    for (uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000); !holds();) {
        poll_all();
        if (clock_now_ns() > end)
            fail_msg("it takes too long");
    }
}

static bool together(void)
{
    uint64_t there = 0;
    for (uint32_t i = 0; i < HOSTS; i++)
        there |= rig.peer[i].group ? UINT64_C(1) << i : 0;
    for (uint32_t i = 0; i < HOSTS; i++)
        if (rig.peer[i].group &&
            (rig.peer[i].members != there || !tram_group_has_state(rig.peer[i].group, 0) ||
             !tram_group_has_state(rig.peer[i].group, 1)))
            return false;
    return true;
}

static int open_rig(void **state)
{
    (void)state;
    struct tram_error e = {""};
    char name[24];
    memset(&rig, 0, sizeof(rig));
    snprintf(name, sizeof(name), "api-group-%d", (int)getpid());
    if (tram_cluster_parse(file, name, &rig.cluster, &e) != TRAM_OK) {
        fprintf(stderr, "%s\n", e.text);
        return -1;
    }
    return 0;
}

static void leave(struct peer *p)
{
    tram_group_leave(p->group);
    for (uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000);
         !tram_group_has_left(p->group) && clock_now_ns() < end;)
        poll_all();
    assert_true(tram_group_has_left(p->group));
    tram_group_close(p->group);
    p->group = NULL;
}

static int close_rig(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < HOSTS; i++)
        if (rig.peer[i].group)
            leave(&rig.peer[i]);
    tram_cluster_free(rig.cluster);
    return 0;
}

static void all_come(void)
{
    for (uint32_t i = 0; i < HOSTS; i++)
        come(i);
    until(together);
}

/* ---- tests ---- */

static bool all_have_ten(void)
{
    for (uint32_t i = 0; i < HOSTS; i++)
        if (rig.peer[i].group && rig.peer[i].delivered[0] < 10)
            return false;
    return true;
}

static void group__who_comes_gets_the_state(void **state)
{
    (void)state;
    struct tram_error e = {""};
    come(0);
    come(1);
    until(together);
    assert_true(rig.peer[0].born >= 2);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(tram_group_send(rig.peer[i % 2].group, 0, &i, sizeof(i), &e), TRAM_OK);
    until(all_have_ten);
    come(2);
    until(together);
    assert_true(rig.peer[2].loads >= 2);
    assert_true(rig.peer[2].delivered[0] == 10 && rig.peer[2].sum[0] == rig.peer[0].sum[0]);
    assert_true(rig.peer[1].sum[0] == rig.peer[0].sum[0]);
    const struct tram_view *v = tram_group_view(rig.peer[2].group);
    assert_true(v && v->members == 7 && v->hosts == 3 && v->cells == 4 && v->adequate);
    assert_string_equal(v->host_name[2], "h3");
    assert_string_equal(v->cell[3].subgroup, "some");
    assert_true(v->cell[3].shard == 1 && v->cell[1].senders == 1 && v->life[0] != 0);
    assert_true((v->cell[2].members & v->cell[3].members) == 0);
}

static void group__sending_says_why_not(void **state)
{
    (void)state;
    struct tram_error e = {""};
    static const char large[4096];
    come(0);
    assert_int_equal(tram_group_send(rig.peer[0].group, 0, "x", 1, &e), TRAM_AGAIN);
    assert_non_null(strstr(e.text, "no view"));
    come(1);
    come(2);
    until(together);
    struct tram_group *h2 = rig.peer[1].group;
    assert_int_equal(tram_group_cell(h2, "some", 1), 3);
    assert_int_equal(tram_group_cell(h2, "some", 2), TRAM_NOTFOUND);
    assert_int_equal(tram_group_cell(h2, "none", 0), TRAM_NOTFOUND);
    assert_int_equal(tram_group_message_max(h2, 0), 512);
    assert_int_equal(tram_group_send(h2, 0, large, 513, &e), TRAM_TOOBIG);
    assert_non_null(strstr(e.text, "message_max"));
    assert_int_equal(tram_group_send(h2, 1, "x", 1, &e), TRAM_REFUSED);
    assert_int_equal(tram_group_send(h2, 9, "x", 1, &e), TRAM_NOTFOUND);
    assert_null(tram_reserve(h2, 1, 8));
    int rc = 0;
    for (int i = 0; i < 100 && rc == 0; i++)
        rc = tram_group_send(h2, 0, large, 512, &e);
    assert_int_equal(rc, TRAM_AGAIN);
    assert_non_null(strstr(e.text, "full"));
}

static bool one_has_two(void)
{
    return rig.peer[2].delivered[0] == 2;
}

static void group__sends_in_place(void **state)
{
    (void)state;
    all_come();
    struct tram_group *h1 = rig.peer[0].group;
    uint64_t *a = tram_reserve(h1, 0, 64), *b = tram_reserve(h1, 0, 64),
             *c = tram_reserve(h1, 0, 64);
    assert_true(a && b && c);
    *a = 5;
    *c = 7;
    tram_commit(h1, 0, c, 8);
    tram_release(h1, 0, b);
    tram_commit(h1, 0, a, 8);
    until(one_has_two);
    assert_true(rig.peer[2].sum[0] == 5 * 3 + 7);
    struct tram_group_counts n;
    tram_group_counts(h1, &n);
    assert_true(n.sent == 2 && n.views >= 1 && n.put_out == 0);
}

/* ---- asking ---- */

static uint64_t awaited;

static bool is_answered(void)
{
    return rig.peer[0].ticket >= awaited;
}

static void ask_again(struct peer *p)
{
    p->answers = p->lost = p->without_state = 0;
    memset(p->told, 0, sizeof(p->told));
}

static void group__a_call_has_a_reply_of_each_member(void **state)
{
    (void)state;
    struct tram_error e = {""};
    uint64_t seven = 7;
    all_come();
    struct peer *p = &rig.peer[0];
    assert_int_equal(tram_group_call(p->group, 0, &seven, 8, 8, &awaited, &e), TRAM_OK);
    until(is_answered);
    assert_true(p->answers == 3 && p->told[0] == 7 && p->told[1] == 7 && p->told[2] == 7);
    ask_again(p);
    assert_int_equal(tram_group_call(p->group, 0, &seven, 8, 4, &awaited, &e), TRAM_OK);
    until(is_answered);
    assert_true(p->answers == 0 && (int)p->told[1] == TRAM_TOOBIG);
    /* One is gone without a word before it can answer. */
    ask_again(p);
    assert_int_equal(tram_group_call(p->group, 0, &seven, 8, 8, &awaited, &e), TRAM_OK);
    leave(&rig.peer[2]);
    until(is_answered);
    assert_true(p->answers + p->lost >= 2 && p->answers >= 2 && p->told[0] == p->told[1]);
    assert_int_equal(tram_group_call(p->group, 9, &seven, 8, 8, NULL, &e), TRAM_NOTFOUND);
    assert_int_equal(tram_group_call(p->group, 0, &seven, 8, 1 << 30, NULL, &e), TRAM_TOOBIG);
    assert_int_equal(tram_group_call(rig.peer[1].group, 1, &seven, 8, 8, NULL, &e), TRAM_REFUSED);
}

static void group__a_query_asks_one_member(void **state)
{
    (void)state;
    struct tram_error e = {""};
    uint64_t five = 5;
    all_come();
    struct peer *p = &rig.peer[0];
    assert_int_equal(tram_group_send(p->group, 0, &five, 8, &e), TRAM_OK);
    while (p->delivered[0] < 1)
        poll_all();
    uint64_t version = tram_group_version(p->group, 0);
    assert_true(version > 0);
    for (uint32_t h = 0; h < HOSTS; h++) { /* each has what this one has, or waits for it */
        ask_again(p);
        assert_int_equal(tram_group_query(p->group, 0, h, version, "?", 1, 8, &awaited, &e),
                         TRAM_OK);
        until(is_answered);
        assert_true(p->answers == 1 && p->told[h] == 5);
    }
    ask_again(p);
    assert_int_equal(tram_group_query(p->group, 0, TRAM_ANY_HOST, 0, "n", 1, 8, &awaited, &e),
                     TRAM_OK);
    until(is_answered);
    assert_int_equal((int)p->told[0], TRAM_INVALID);
    /* It is not in every cell; and there is a limit to what is asked at once. */
    uint32_t other = tram_group_view(p->group)->cell[2].members & 1 ? 3 : 2;
    assert_int_equal(tram_group_query(p->group, other, 0, 0, "?", 1, 8, NULL, &e), TRAM_REFUSED);
    assert_int_equal(tram_group_query(p->group, 0, 77, 0, "?", 1, 8, NULL, &e), TRAM_REFUSED);
    int rc = TRAM_OK;
    uint32_t asked = 0;
    while (rc == TRAM_OK && asked <= 64) {
        rc = tram_group_query(p->group, 0, 1, 0, "?", 1, 8, &awaited, &e);
        asked += rc == TRAM_OK;
    }
    assert_true(rc == TRAM_AGAIN && asked == 64);
    until(is_answered);
}

/* ---- columns ---- */

struct acts {
    uint32_t once, each, edge;
    uint64_t at; /* what they wait for */
};

static bool reached(const struct tram_group *g, void *ctx)
{
    return tram_column_min(g, 0, 3) >= ((struct acts *)ctx)->at;
}

static void act_once(struct tram_group *g, void *ctx)
{
    (void)g;
    ((struct acts *)ctx)->once++;
}

static void act_each(struct tram_group *g, void *ctx)
{
    (void)g;
    ((struct acts *)ctx)->each++;
}

static void act_edge(struct tram_group *g, void *ctx)
{
    (void)g;
    ((struct acts *)ctx)->edge++;
}

static bool all_at_five(void)
{
    return tram_column_min(rig.peer[0].group, 0, 3) == 5;
}

static void group__predicates_act_on_columns(void **state)
{
    (void)state;
    static struct acts acts; /* predicates are tested until the member is closed */
    acts = (struct acts){.at = 5};
    all_come();
    struct tram_group *h1 = rig.peer[0].group;
    int once = tram_when(h1, &(struct tram_predicate){TRAM_ONCE, reached, act_once, &acts}, NULL);
    int each = tram_when(h1, &(struct tram_predicate){TRAM_EACH, reached, act_each, &acts}, NULL);
    int edge = tram_when(h1, &(struct tram_predicate){TRAM_EDGE, reached, act_edge, &acts}, NULL);
    assert_true(once >= 0 && each >= 0 && edge >= 0 && once != each && each != edge);
    tram_column_set(h1, 0, 3, 5);
    tram_column_set(rig.peer[1].group, 0, 3, 9);
    for (int i = 0; i < 50; i++)
        poll_all();
    assert_true(acts.once + acts.each + acts.edge == 0);
    tram_column_set(rig.peer[2].group, 0, 3, 6);
    tram_column_set(rig.peer[2].group, 0, 3, 2); /* they only rise */
    until(all_at_five);
    assert_true(tram_column_get(h1, 0, 3, 2) == 6 && tram_column_get(h1, 0, 3, 1) == 9);
    assert_true(tram_column_get(h1, 0, 3, 99) == 0 && tram_column_get(h1, 0, 99, 0) == 0);
    for (int i = 0; i < 10; i++)
        poll_all();
    assert_true(acts.once == 1 && acts.edge == 1 && acts.each >= 10);
    tram_when_end(h1, each);
    uint32_t was = acts.each;
    acts.at = 100; /* it falls, and turns true again */
    poll_all();
    acts.at = 1;
    poll_all();
    poll_all();
    assert_true(acts.once == 1 && acts.edge == 2 && acts.each == was);
    int rc = 0;
    for (int i = 0; i <= TRAM_WHEN_MAX && rc >= 0; i++)
        rc = tram_when(h1, &(struct tram_predicate){TRAM_EACH, reached, act_each, &acts}, NULL);
    assert_int_equal(rc, TRAM_NOMEM);
}

/* ---- layouts ---- */

/* All in the first shard but the last of them; without the cells that are for everybody it would be put right. */
static void last_alone(void *ctx, const struct tram_view *before, struct tram_layout *next)
{
    (void)ctx, (void)before;
    uint64_t last = next->members & ~(next->members - 1); /* the lowest */
    assert_true(next->cells == 4);
    next->cell[0].members = next->cell[1].members = next->members;
    next->cell[2].members = next->members & ~last;
    next->cell[3].members = last;
}

static bool second_shard_is_h1(void)
{
    const struct tram_view *v = tram_group_view(rig.peer[1].group);
    return together() && v && v->cell[3].members == 1 && v->cell[2].members == 6;
}

static void group__a_layout_callback_decides(void **state)
{
    (void)state;
    rig.layout = last_alone;
    all_come();
    until(second_shard_is_h1);
    assert_true(tram_group_view(rig.peer[1].group)->cell[1].senders == 1);
}

static void group__leaves_and_is_in_no_view(void **state)
{
    (void)state;
    all_come();
    tram_group_leave(rig.peer[1].group);
    for (uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000);
         !tram_group_has_left(rig.peer[1].group) && clock_now_ns() < end;)
        poll_all();
    assert_true(rig.peer[1].out == 1);
    assert_null(tram_group_view(rig.peer[1].group));
    tram_group_close(rig.peer[1].group);
    rig.peer[1].group = NULL;
    until(together);
    assert_true(tram_group_view(rig.peer[0].group)->left == 2 || rig.peer[0].views > 2);
}

/* ---- event loops ---- */

static void group__a_descriptor_tells_when_to_poll(void **state)
{
    (void)state;
    all_come();
    struct tram_error e = {""};
    struct tram_group *h1 = rig.peer[0].group;
    struct pollfd p = {.fd = tram_group_fd(h1, &e), .events = POLLIN};
    assert_true(p.fd >= 0);
    assert_int_equal(tram_group_fd(h1, &e), p.fd);
    while (tram_group_poll(h1, &e) > 0)
        ;
    tram_group_wake(h1);
    assert_int_equal(poll(&p, 1, 10000), 1);
    while (tram_group_poll(h1, &e) > 0)
        ;
    assert_int_equal(tram_group_send(rig.peer[1].group, 0, "12345678", 8, &e), TRAM_OK);
    for (uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000);
         rig.peer[0].delivered[0] == 0 && clock_now_ns() < end;) {
        tram_group_poll(rig.peer[1].group, &e);
        tram_group_poll(rig.peer[2].group, &e);
        if (poll(&p, 1, 0) > 0)
            while (tram_group_poll(h1, &e) > 0)
                ;
    }
    assert_true(rig.peer[0].delivered[0] == 1);
}

/* ---- mistakes ---- */

/* ---- memory ---- */

/* Bytes of the files of that name that this process has open, each once. */
static uint64_t memory_of_lanes(void)
{
    ino_t seen[16];
    uint32_t count = 0;
    uint64_t bytes = 0;
    for (int fd = 0; fd < 256; fd++) {
        char link[32], name[64] = "";
        struct stat st;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        if (readlink(link, name, sizeof(name) - 1) < 0 || strstr(name, "tramway-lanes") == NULL ||
            fstat(fd, &st) != 0)
            continue;
        bool again = false;
        for (uint32_t i = 0; i < count; i++)
            again |= seen[i] == st.st_ino;
        if (again)
            continue;
        assert_true(count < 16);
        seen[count++] = st.st_ino;
        bytes += (uint64_t)st.st_blocks * 512;
    }
    assert_int_equal(count, HOSTS);
    return bytes;
}

/* What the cluster file says that it takes is what the hosts have: but for control words, and rounding to pages. */
static void group__takes_the_memory_that_it_says(void **state)
{
    (void)state;
    all_come();
    uint64_t is = memory_of_lanes(), said = cluster_memory(rig.cluster->conf);
    if (is < said || is > said + said / 8)
        fail_msg("%llu bytes, and the cluster file says %llu", (unsigned long long)is,
                 (unsigned long long)said);
}

static bool always(const struct tram_group *g, void *ctx)
{
    (void)g, (void)ctx;
    return true;
}

static void step_inside(struct tram_group *g, void *ctx)
{
    struct tram_error e = {""};
    assert_int_equal(tram_group_step(g, &e), TRAM_INVALID);
    assert_non_null(strstr(e.text, "callback"));
    *(int *)ctx = tram_group_poll(g, &e);
}

static void group__a_callback_does_not_step(void **state)
{
    (void)state;
    int rc = 0;
    come(0);
    const struct tram_predicate p = {
        .kind = TRAM_ONCE, .test = always, .act = step_inside, .ctx = &rc};
    assert_true(tram_when(rig.peer[0].group, &p, NULL) >= 0);
    poll_all();
    assert_int_equal(rc, TRAM_INVALID);
    poll_all();
    tram_group_close(rig.peer[0].group);
    rig.peer[0].group = NULL;
}

static void group__refuses_what_cannot_be(void **state)
{
    (void)state;
    struct tram_error e = {""};
    struct tram_cluster *tree;
    struct tram_group *g;
    struct tram_client *client;
    struct tram_host *host;
    const struct tram_group_options no_host = {.host = "h9"};
    assert_int_equal(tram_group_open(rig.cluster, &no_host, &g, &e), TRAM_NOTFOUND);
    const struct tram_group_options half = {.host = "h1", .machine = {.load_next = NULL}};
    struct tram_group_options wrong = half;
    wrong.wait = (enum tram_wait)9;
    assert_int_equal(tram_group_open(rig.cluster, &wrong, &g, &e), TRAM_INVALID);
    assert_int_equal(tram_client_open(rig.cluster, NULL, &client, &e), TRAM_INVALID);
    assert_non_null(strstr(e.text, "tram_group_open"));
    const struct tram_host_options as_host = {.name = "h1"};
    assert_int_equal(tram_host_open(rig.cluster, &as_host, &host, &e), TRAM_INVALID);
    assert_int_equal(tram_cluster_parse("hosts: [{name: h1}]\n"
                                        "groups: [{name: g1, replicas: [h1]}]\n",
                                        "tree", &tree, &e),
                     TRAM_OK);
    assert_int_equal(tram_group_open(tree, &half, &g, &e), TRAM_INVALID);
    assert_non_null(strstr(e.text, "protocol: group"));
    tram_cluster_free(tree);
    const struct tram_group_options saves = {.host = "h1", .machine = {.save = on_save}};
    assert_int_equal(tram_group_open(rig.cluster, &saves, &g, &e), TRAM_INVALID);
    assert_non_null(strstr(e.text, "save and load"));
    come(0);
    assert_int_equal(tram_group_open(rig.cluster, &half, &g, &e), TRAM_EXISTS);
    assert_int_equal(tram_group_reset_cell(rig.peer[0].group, 77, &e), TRAM_NOTFOUND);
    tram_group_close(rig.peer[0].group);
    rig.peer[0].group = NULL;
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(group__who_comes_gets_the_state),
        WITH_RIG(group__sending_says_why_not),
        WITH_RIG(group__sends_in_place),
        WITH_RIG(group__a_call_has_a_reply_of_each_member),
        WITH_RIG(group__a_query_asks_one_member),
        WITH_RIG(group__predicates_act_on_columns),
        WITH_RIG(group__a_layout_callback_decides),
        WITH_RIG(group__leaves_and_is_in_no_view),
        WITH_RIG(group__a_descriptor_tells_when_to_poll),
        WITH_RIG(group__takes_the_memory_that_it_says),
        WITH_RIG(group__a_callback_does_not_step),
        WITH_RIG(group__refuses_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
