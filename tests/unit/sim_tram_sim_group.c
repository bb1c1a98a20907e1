/* The public simulator under protocol group, through its header alone. */
#include "tram/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

enum { HOSTS = 3, CELLS = 2 };

static const char *const host_names[HOSTS] = {"h1", "h2", "h3"};

/* Nothing is opened there. */
static const char tcp_hosts[] = "{name: h1, address: 127.0.0.1:7101, key: "
                                "ed25519:r2biq7z7mN1w2+arDLMCTVpcy8tlF/QIaHLf6vurfbA=}, "
                                "{name: h2, address: 127.0.0.1:7102, key: "
                                "ed25519:vsu/VXuO9kNxRM4KnjxWpzUdDcB4PgNzuB/BSSRLfHw=}, "
                                "{name: h3, address: 127.0.0.1:7103, key: "
                                "ed25519:/P9fzJY453rVVxmr1GnbBf+6kHA+tS9F0bpYOMUNY+o=}";

/* ---- the state machine under test: a running sum of each cell, and a mistake if a test plants one ---- */

enum mistake {
    NONE,
    WRONG_REPLY, /* the fifth reply of one host is another one */
    WRONG_STATE, /* from the fifth message on its state is another one */
    WRONG_BIRTH, /* it begins with another state */
    FORGETS,     /* what it loads lacks a part */
    CANNOT_SAVE,
};

struct test {
    const char *subgroups; /* NULL: one, in memory */
    const char *options;   /* further lines of the file */
    bool stateless, tcp;
    enum mistake mistake;
    const char *culprit; /* host that makes it; NULL: all */
    struct tram_cluster *cluster;
    struct tram_sim *sim;
    uint32_t starts, ends, steps, answers, returned, topics;
    uint64_t persisted;
    struct tram_error error;
};

struct sum {
    uint64_t count, sum, hidden;
};

struct state { /* of a host */
    struct test *test;
    bool culprit;
    struct sum sum[CELLS];
};

static void deliver(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                    uint32_t count)
{
    struct state *s = ctx;
    (void)view;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value = 0;
        memcpy(&value, item[i].data, item[i].bytes < 8 ? item[i].bytes : 8);
        s->sum[cell].count++;
        s->sum[cell].sum = s->sum[cell].sum * 31 + value;
        if (s->culprit && s->test->mistake == WRONG_STATE && s->sum[cell].count == 5)
            s->sum[cell].hidden = 1;
    }
}

static uint32_t call(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                     void *reply, uint32_t room)
{
    struct state *s = ctx;
    deliver(ctx, cell, view, item, 1);
    uint64_t value = s->sum[cell].sum;
    if (s->culprit && s->test->mistake == WRONG_REPLY && s->sum[cell].count == 5)
        value++;
    memcpy(reply, &value, room < sizeof(value) ? room : sizeof(value));
    return sizeof(value);
}

static int query(void *ctx, uint32_t cell, uint32_t from, const void *data, uint32_t bytes,
                 void *reply, uint32_t room)
{
    const struct state *s = ctx;
    (void)from;
    (void)data;
    (void)bytes;
    assert_true(room >= sizeof(uint64_t));
    memcpy(reply, &s->sum[cell].count, sizeof(uint64_t));
    return sizeof(uint64_t);
}

static void answered(void *ctx, uint64_t ticket, const struct tram_answer *a)
{
    const struct state *s = ctx;
    (void)ticket;
    s->test->answers += a != NULL && a->status == TRAM_OK;
}

static void returned(void *ctx, uint32_t cell, const void *data, uint32_t bytes)
{
    const struct state *s = ctx;
    (void)cell;
    (void)data;
    (void)bytes;
    s->test->returned++;
}

static void born(void *ctx, uint32_t cell)
{
    struct state *s = ctx;
    s->sum[cell] = (struct sum){0};
    if (s->culprit && s->test->mistake == WRONG_BIRTH)
        s->sum[cell].hidden = 7;
}

static void persisted(void *ctx, uint32_t cell, uint64_t version)
{
    const struct state *s = ctx;
    (void)cell;
    s->test->persisted = version;
}

static int save(void *ctx, uint32_t cell, void **data, size_t *bytes)
{
    const struct state *s = ctx;
    if (s->test->mistake == CANNOT_SAVE && s->sum[cell].count >= 5)
        return -1;
    *data = malloc(*bytes = sizeof(struct sum));
    assert_non_null(*data);
    memcpy(*data, &s->sum[cell], *bytes);
    return 0;
}

static int load(void *ctx, uint32_t cell, const void *data, size_t bytes)
{
    struct state *s = ctx;
    assert_int_equal(bytes, sizeof(struct sum));
    memcpy(&s->sum[cell], data, bytes);
    if (s->test->mistake == FORGETS)
        s->sum[cell].sum = 0;
    return 0;
}

static void *start(void *user, const char *host)
{
    struct test *t = user;
    struct state *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    s->test = t;
    s->culprit = t->culprit == NULL || strcmp(host, t->culprit) == 0;
    t->starts++;
    return s;
}

static void end(void *user, const char *host, void *ctx)
{
    struct test *t = user;
    (void)host;
    t->ends++;
    free(ctx);
}

static void step(void *user, const char *host, void *ctx, struct tram_group *g)
{
    struct test *t = user;
    (void)host;
    (void)g;
    assert_ptr_equal(((struct state *)ctx)->test, t);
    t->steps++;
}

/* ---- helpers ---- */

static struct tram_sim_options options_of(struct test *t, uint64_t seed)
{
    struct tram_sim_options o = {.seed = seed,
                                 .group_machine = {.deliver = deliver,
                                                   .call = call,
                                                   .query = query,
                                                   .answered = answered,
                                                   .returned = returned,
                                                   .born = born,
                                                   .persisted = persisted,
                                                   .save = save,
                                                   .load = load},
                                 .start = start,
                                 .end = end,
                                 .step = step,
                                 .user = t};
    if (t->stateless)
        o.group_machine.save = NULL, o.group_machine.load = NULL;
    return o;
}

static struct tram_cluster *cluster_of(struct test *t)
{
    char text[1000];
    struct tram_cluster *c;
    snprintf(text, sizeof(text),
             "name: test\nprotocol: group\n"
             "hosts: [%s]\n"
             "subgroups: [%s]\n%s",
             t->tcp ? tcp_hosts : "{name: h1}, {name: h2}, {name: h3}",
             t->subgroups ? t->subgroups : "{name: map}", t->options ? t->options : "");
    if (tram_cluster_parse(text, NULL, &c, &t->error) != TRAM_OK)
        fail_msg("%s", t->error.text);
    return c;
}

static void must(struct test *t, int rc)
{
    if (rc < 0)
        fail_msg("%d: %s", rc, t->error.text);
}

static void idle(struct test *t)
{
    must(t, tram_sim_run_idle(t->sim, 20 * SECOND, &t->error));
}

static void open_all(struct test *t, uint64_t seed)
{
    struct tram_sim_options o = options_of(t, seed);
    t->cluster = cluster_of(t);
    must(t, tram_sim_open(t->cluster, &o, &t->sim, &t->error));
    idle(t);
}

static void close_all(struct test *t)
{
    tram_sim_close(t->sim);
    tram_cluster_free(t->cluster);
    assert_int_equal(t->starts, t->ends);
}

static struct tram_group *group(const struct test *t, uint32_t host)
{
    return tram_sim_group(t->sim, host_names[host]);
}

static const struct sum *sum(const struct test *t, uint32_t host, uint32_t cell)
{
    const struct state *s = tram_sim_ctx(t->sim, host_names[host]);
    assert_non_null(s);
    return &s->sum[cell];
}

/* Each host that can sends one, in turn, and a little time passes. */
static void send_some(struct test *t, uint32_t cell, uint32_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct tram_group *g = group(t, (uint32_t)i % HOSTS);
        if (g)
            tram_group_send(g, cell, &i, sizeof(i), NULL);
        must(t, tram_sim_run(t->sim, 3 * MS, &t->error));
    }
}

static void assert_agree(struct test *t)
{
    must(t, tram_sim_check(t->sim, NULL, &t->error));
}

static void assert_equal(const struct test *t, uint32_t cell, uint64_t count)
{
    for (uint32_t h = 0; h < HOSTS; h++) {
        assert_int_equal(sum(t, h, cell)->count, count);
        assert_int_equal(sum(t, h, cell)->sum, sum(t, 0, cell)->sum);
    }
}

/* ---- members ---- */

static void sim_group__members_come_in_and_deliver(void **state)
{
    struct test t = {0};
    (void)state;
    open_all(&t, 1);
    const struct tram_view *v = tram_group_view(group(&t, 0));
    assert_non_null(v);
    assert_int_equal(v->members, 7);
    assert_int_equal(tram_group_cell(group(&t, 0), "map", 0), 0);
    for (uint64_t i = 0; i < 30; i++)
        must(&t, tram_group_send(group(&t, (uint32_t)i % HOSTS), 0, &i, sizeof(i), &t.error));
    idle(&t);
    assert_equal(&t, 0, 30);
    assert_agree(&t);
    assert_true(t.steps > 0);
    assert_non_null(tram_sim_leader(t.sim, NULL));
    close_all(&t);
}

static void sim_group__calls_and_queries_are_answered(void **state)
{
    struct test t = {0};
    uint64_t value = 1;
    (void)state;
    open_all(&t, 2);
    must(&t, tram_group_call(group(&t, 0), 0, &value, sizeof(value), 8, NULL, &t.error));
    must(&t, tram_group_query(group(&t, 1), 0, 2, 0, NULL, 0, 8, NULL, &t.error));
    idle(&t);
    assert_int_equal(t.answers, HOSTS + 1);
    assert_agree(&t);
    close_all(&t);
}

static uint64_t hash_of_run(uint64_t seed)
{
    struct test t = {0};
    open_all(&t, seed);
    tram_sim_chaos(t.sim);
    send_some(&t, 0, 60);
    tram_sim_heal(t.sim);
    idle(&t);
    uint64_t hash = tram_sim_hash(t.sim);
    close_all(&t);
    return hash;
}

static void sim_group__the_same_seed_gives_the_same_run(void **state)
{
    (void)state;
    assert_int_equal(hash_of_run(7), hash_of_run(7));
    assert_int_not_equal(hash_of_run(7), hash_of_run(8));
}

static void sim_group__who_is_killed_comes_back_and_is_given_the_state(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct test t = {0};
        open_all(&t, seed);
        send_some(&t, 0, 20);
        must(&t, tram_sim_kill(t.sim, "h2", seed % 2, &t.error));
        assert_null(group(&t, 1));
        send_some(&t, 0, 9);
        idle(&t);
        assert_int_equal(tram_group_view(group(&t, 0))->members, 5);
        must(&t, tram_sim_start(t.sim, "h2", &t.error));
        idle(&t);
        assert_int_equal(tram_group_view(group(&t, 0))->members, 7);
        assert_true(sum(&t, 0, 0)->count > 20);
        assert_equal(&t, 0, sum(&t, 0, 0)->count);
        assert_agree(&t);
        close_all(&t);
    }
}

static void sim_group__who_hangs_or_is_cut_off_is_put_out_and_let_in_again(void **state)
{
    struct test t = {0};
    (void)state;
    open_all(&t, 3);
    send_some(&t, 0, 5);
    must(&t, tram_sim_stop(t.sim, "h3", &t.error));
    idle(&t); /* without it */
    assert_int_equal(tram_group_view(group(&t, 0))->members, 3);
    must(&t, tram_sim_continue(t.sim, "h3", &t.error));
    idle(&t);
    assert_int_equal(tram_group_view(group(&t, 0))->members, 7);
    struct tram_group_counts c;
    tram_group_counts(group(&t, 2), &c);
    assert_int_equal(c.put_out, 1);
    send_some(&t, 0, 6);
    idle(&t);
    assert_equal(&t, 0, 11);
    assert_agree(&t);
    close_all(&t);
}

static void sim_group__who_leaves_holds_up_nobody(void **state)
{
    struct test t = {0};
    (void)state;
    open_all(&t, 4);
    send_some(&t, 0, 6);
    tram_group_leave(group(&t, 1));
    idle(&t);
    assert_true(tram_group_has_left(group(&t, 1)));
    assert_int_equal(tram_group_view(group(&t, 0))->left, 2);
    must(&t, tram_sim_kill(t.sim, "h2", false, &t.error));
    must(&t, tram_sim_start(t.sim, "h2", &t.error));
    idle(&t);
    assert_equal(&t, 0, 6);
    assert_agree(&t);
    close_all(&t);
}

static void sim_group__chaos_harms_no_state(void **state)
{
    static const char *const options[] = {"", "transport: tcp\n", "view_majority: true\n"};
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct test t = {.options = options[seed % 3],
                         .tcp = seed % 3 == 1,
                         .subgroups = "{name: map}, {name: other, members_max: 2}",
                         .stateless = seed % 4 == 0};
        open_all(&t, seed);
        tram_sim_chaos(t.sim);
        for (uint32_t i = 0; i < 4; i++) {
            send_some(&t, 0, 10);
            send_some(&t, 1, 10);
        }
        tram_sim_heal(t.sim);
        must(&t, tram_sim_run(t.sim, 2 * SECOND, &t.error));
        assert_agree(&t);
        assert_int_equal(tram_group_view(group(&t, 0))->members, 7);
        close_all(&t);
    }
}

/* ---- mistakes of the machine are found ---- */

static void find(struct test *t, const char *property, const char *text)
{
    struct tram_sim_finding f;
    assert_int_equal(tram_sim_check(t->sim, &f, &t->error), TRAM_VIOLATED);
    assert_string_equal(f.property, property);
    if (strstr(f.text, text) == NULL)
        fail_msg("'%s' is not in '%s'", text, f.text);
    assert_string_equal(f.text, t->error.text);
}

static void sim_group__a_state_that_differs_is_found_at_its_message(void **state)
{
    struct test t = {.mistake = WRONG_STATE, .culprit = "h2"};
    struct tram_sim_finding f;
    (void)state;
    open_all(&t, 5);
    send_some(&t, 0, 4);
    assert_agree(&t);
    send_some(&t, 0, 3);
    find(&t, "states", "bytes, and byte 16 is 0");
    assert_non_null(strstr(t.error.text, "h2 has 24"));
    assert_int_equal(tram_sim_check(t.sim, &f, NULL), TRAM_VIOLATED);
    assert_int_equal(f.group, 0);
    assert_int_equal(f.number, 4);
    close_all(&t);
}

static void sim_group__a_reply_that_differs_is_found(void **state)
{
    struct test t = {.mistake = WRONG_REPLY, .culprit = "h3"};
    (void)state;
    open_all(&t, 6);
    send_some(&t, 0, 4);
    uint64_t value = 9;
    must(&t, tram_group_call(group(&t, 0), 0, &value, sizeof(value), 8, NULL, &t.error));
    idle(&t);
    find(&t, "replies", "cell map, message");
    close_all(&t);
}

static void sim_group__a_birth_that_differs_is_found(void **state)
{
    struct test t = {.mistake = WRONG_BIRTH, .culprit = "h3"};
    (void)state;
    open_all(&t, 7);
    find(&t, "states", "before the first message");
    close_all(&t);
}

static void sim_group__a_state_that_forgets_is_found(void **state)
{
    struct test t = {.mistake = FORGETS};
    (void)state;
    open_all(&t, 8);
    send_some(&t, 0, 7);
    must(&t, tram_sim_kill(t.sim, "h1", true, &t.error));
    must(&t, tram_sim_start(t.sim, "h1", &t.error));
    idle(&t);
    find(&t, "states", "h1 has 24 bytes, and byte 8");
    close_all(&t);
}

static void sim_group__a_machine_that_cannot_save_ends_its_host(void **state)
{
    struct test t = {.mistake = CANNOT_SAVE};
    (void)state;
    open_all(&t, 9);
    for (uint32_t i = 0; i < 6; i++) {
        uint64_t value = i;
        tram_group_send(group(&t, 0), 0, &value, sizeof(value), NULL);
    }
    assert_int_equal(tram_sim_run(t.sim, SECOND, &t.error), TRAM_BROKEN);
    assert_non_null(strstr(t.error.text, "save"));
    close_all(&t);
}

/* ---- disks ---- */

#define DURABLE "id: 5f3c1be08a7d4e6f9b20c4d1e8a3f756\ndata_dir: /nowhere\n"

static int count_version(void *ctx, const struct tram_version *v)
{
    uint64_t *last = ctx;
    assert_true(v->version > last[1]);
    assert_int_equal(v->bytes, sizeof(uint64_t));
    last[0]++;
    last[1] = v->version;
    return 0;
}

static void cut_all(struct test *t)
{
    for (uint32_t h = 0; h < HOSTS; h++)
        must(t, tram_sim_power_cut(t->sim, host_names[h], &t->error));
    for (uint32_t h = 0; h < HOSTS; h++)
        must(t, tram_sim_start(t->sim, host_names[h], &t->error));
}

static void sim_group__what_a_durable_cell_delivered_outlives_the_power(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct test t = {.subgroups = "{name: map, mode: durable}", .options = DURABLE};
        open_all(&t, seed);
        send_some(&t, 0, 15);
        idle(&t);
        assert_equal(&t, 0, 15);
        assert_true(t.persisted > 0);
        for (uint64_t i = 0; i < 3; i++) /* these are under way */
            must(&t, tram_group_send(group(&t, 0), 0, &i, sizeof(i), &t.error));
        must(&t, tram_sim_run(t.sim, seed * 60000, &t.error));
        uint64_t least = sum(&t, 0, 0)->count;
        cut_all(&t);
        idle(&t);
        assert_true(sum(&t, 0, 0)->count >= least);
        assert_equal(&t, 0, sum(&t, 0, 0)->count);
        assert_agree(&t);
        uint64_t last[2] = {0, 0};
        must(&t, tram_sim_versions_read(t.sim, "h2", "map", 0, 0, count_version, last, &t.error));
        assert_int_equal(last[0], sum(&t, 1, 0)->count);
        close_all(&t);
    }
}

static void sim_group__a_disk_is_read_of_who_is_down(void **state)
{
    struct test t = {.subgroups = "{name: map, mode: durable}", .options = DURABLE};
    uint64_t last[2] = {0, 0};
    (void)state;
    open_all(&t, 3);
    send_some(&t, 0, 9);
    idle(&t);
    must(&t, tram_sim_power_cut(t.sim, "h3", &t.error));
    must(&t, tram_sim_versions_read(t.sim, "h3", "map", 0, 0, count_version, last, &t.error));
    assert_int_equal(last[0], 9);
    assert_int_equal(tram_sim_versions_read(t.sim, "h3", "no", 0, 0, count_version, last, &t.error),
                     TRAM_NOTFOUND);
    must(&t, tram_sim_start(t.sim, "h3", &t.error));
    idle(&t);
    assert_equal(&t, 0, 9);
    assert_agree(&t);
    close_all(&t);
}

static void sim_group__the_end_of_a_logged_cell_may_be_lost_and_members_agree(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct test t = {.subgroups = "{name: map, mode: logged}", .options = DURABLE};
        open_all(&t, seed);
        send_some(&t, 0, 10);
        for (uint64_t i = 0; i < 3; i++)
            must(&t, tram_group_send(group(&t, 0), 0, &i, sizeof(i), &t.error));
        must(&t, tram_sim_run(t.sim, 20000 * seed, &t.error));
        cut_all(&t);
        idle(&t);
        send_some(&t, 0, 5);
        idle(&t);
        assert_true(sum(&t, 0, 0)->count >= 10);
        assert_equal(&t, 0, sum(&t, 0, 0)->count);
        assert_agree(&t);
        close_all(&t);
    }
}

static void sim_group__chaos_cuts_the_power_of_durable_groups(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct test t = {.subgroups = "{name: map, mode: durable}", .options = DURABLE};
        open_all(&t, seed);
        tram_sim_chaos(t.sim);
        send_some(&t, 0, 100);
        tram_sim_heal(t.sim);
        idle(&t);
        assert_agree(&t);
        assert_equal(&t, 0, sum(&t, 0, 0)->count);
        close_all(&t);
    }
}

/* ---- kinds of cells ---- */

static void sim_group__raw_cells_and_machines_without_a_state(void **state)
{
    struct test t = {.subgroups = "{name: raw, mode: raw}, {name: map}", .stateless = true};
    (void)state;
    open_all(&t, 10);
    send_some(&t, 0, 9);
    send_some(&t, 1, 9);
    must(&t, tram_sim_kill(t.sim, "h3", false, &t.error));
    must(&t, tram_sim_start(t.sim, "h3", &t.error));
    idle(&t);
    send_some(&t, 0, 9);
    send_some(&t, 1, 9);
    idle(&t);
    assert_int_equal(sum(&t, 0, 1)->count, 18);
    assert_int_equal(sum(&t, 2, 1)->count, 9);
    assert_agree(&t);
    close_all(&t);
}

static bool is_due(const struct tram_group *g, void *ctx)
{
    (void)ctx;
    return tram_column_min(g, 0, 3) >= 5;
}

static void note(struct tram_group *g, void *ctx)
{
    struct test *t = ctx;
    (void)g;
    t->topics++;
}

static void sim_group__columns_and_predicates(void **state)
{
    struct test t = {0};
    (void)state;
    open_all(&t, 11);
    const struct tram_predicate p = {.kind = TRAM_ONCE, .test = is_due, .act = note, .ctx = &t};
    assert_true(tram_when(group(&t, 0), &p, &t.error) >= 0);
    for (uint32_t h = 0; h < HOSTS; h++)
        tram_column_set(group(&t, h), 0, 3, 5 + h);
    idle(&t);
    assert_int_equal(t.topics, 1);
    assert_int_equal(tram_column_get(group(&t, 0), 0, 3, 2), 7);
    close_all(&t);
}

static void sim_group__a_cell_that_lost_all_its_members_waits_and_can_be_reset(void **state)
{
    struct test t = {.subgroups = "{name: map, hosts: [h2]}, {name: other}"};
    (void)state;
    open_all(&t, 12);
    send_some(&t, 0, 6);
    must(&t, tram_sim_kill(t.sim, "h2", true, &t.error));
    idle(&t);
    assert_int_equal(tram_group_view(group(&t, 0))->cell[0].state, TRAM_CELL_VACANT);
    must(&t, tram_sim_start(t.sim, "h2", &t.error));
    assert_int_equal(tram_sim_run_idle(t.sim, SECOND, &t.error), TRAM_TIMEOUT);
    if (strstr(t.error.text, "cell map is vacant") == NULL)
        fail_msg("%s", t.error.text);
    struct tram_group *leader = tram_sim_group(t.sim, tram_sim_leader(t.sim, NULL));
    must(&t, tram_group_reset_cell(leader, 0, &t.error));
    idle(&t);
    send_some(&t, 0, 6);
    idle(&t);
    assert_agree(&t);
    assert_int_equal(sum(&t, 1, 0)->count, 2); /* of h2, the only member */
    close_all(&t);
}

/* ---- what is refused ---- */

static void sim_group__says_who_is_stuck(void **state)
{
    struct test t = {0};
    (void)state;
    open_all(&t, 13);
    must(&t, tram_sim_kill(t.sim, "h1", false, &t.error));
    must(&t, tram_sim_kill(t.sim, "h2", false, &t.error));
    assert_int_equal(tram_sim_run_idle(t.sim, SECOND, &t.error), TRAM_TIMEOUT);
    if (strstr(t.error.text, "h1:down/0 h2:down/0 h3:") == NULL)
        fail_msg("%s", t.error.text);
    close_all(&t);
}

static uint32_t plain_deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t max)
{
    (void)ctx;
    (void)d;
    (void)reply;
    (void)max;
    return 0;
}

static void sim_group__what_it_has_not_is_refused(void **state)
{
    struct test t = {0};
    struct tram_client *c;
    struct tram_sender *sender;
    struct tram_sim *sim;
    (void)state;
    open_all(&t, 14);
    assert_int_equal(tram_group_step(group(&t, 0), &t.error), TRAM_INVALID);
    assert_non_null(strstr(t.error.text, "simulated"));
    assert_int_equal(tram_group_fd(group(&t, 0), &t.error), TRAM_INVALID);
    assert_int_equal(tram_sender_open(group(&t, 0), 0, 0, &sender, &t.error), TRAM_INVALID);
    assert_int_equal(tram_sim_client_open(t.sim, NULL, &c, &t.error), TRAM_INVALID);
    assert_int_equal(tram_sim_power_cut(t.sim, "h1", &t.error), TRAM_INVALID);
    assert_non_null(strstr(t.error.text, "logged or durable"));
    assert_null(tram_sim_group(t.sim, "nobody"));
    struct tram_sim_options o = options_of(&t, 1);
    o.machine.deliver = plain_deliver;
    assert_int_equal(tram_sim_open(t.cluster, &o, &sim, &t.error), TRAM_INVALID);
    assert_non_null(strstr(t.error.text, "group_machine"));
    o = options_of(&t, 1);
    o.start = NULL;
    assert_int_equal(tram_sim_open(t.cluster, &o, &sim, &t.error), TRAM_INVALID);
    o = options_of(&t, 1);
    o.group_machine.load = NULL;
    assert_int_equal(tram_sim_open(t.cluster, &o, &sim, &t.error), TRAM_INVALID);
    close_all(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sim_group__members_come_in_and_deliver),
        cmocka_unit_test(sim_group__calls_and_queries_are_answered),
        cmocka_unit_test(sim_group__the_same_seed_gives_the_same_run),
        cmocka_unit_test(sim_group__who_is_killed_comes_back_and_is_given_the_state),
        cmocka_unit_test(sim_group__who_hangs_or_is_cut_off_is_put_out_and_let_in_again),
        cmocka_unit_test(sim_group__who_leaves_holds_up_nobody),
        cmocka_unit_test(sim_group__chaos_harms_no_state),
        cmocka_unit_test(sim_group__a_state_that_differs_is_found_at_its_message),
        cmocka_unit_test(sim_group__a_reply_that_differs_is_found),
        cmocka_unit_test(sim_group__a_birth_that_differs_is_found),
        cmocka_unit_test(sim_group__a_state_that_forgets_is_found),
        cmocka_unit_test(sim_group__a_machine_that_cannot_save_ends_its_host),
        cmocka_unit_test(sim_group__what_a_durable_cell_delivered_outlives_the_power),
        cmocka_unit_test(sim_group__a_disk_is_read_of_who_is_down),
        cmocka_unit_test(sim_group__the_end_of_a_logged_cell_may_be_lost_and_members_agree),
        cmocka_unit_test(sim_group__chaos_cuts_the_power_of_durable_groups),
        cmocka_unit_test(sim_group__raw_cells_and_machines_without_a_state),
        cmocka_unit_test(sim_group__columns_and_predicates),
        cmocka_unit_test(sim_group__a_cell_that_lost_all_its_members_waits_and_can_be_reset),
        cmocka_unit_test(sim_group__says_who_is_stuck),
        cmocka_unit_test(sim_group__what_it_has_not_is_refused),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
