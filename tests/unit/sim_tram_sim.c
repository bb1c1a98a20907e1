/* The public simulator, through its header alone. */
#include "tram/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

enum { GROUPS = 3, HOSTS = 3, RED = 0, GREEN = 1, BLUE = 2 };

static const char cluster_text[] = "name: test\n"
                                   "protocol: %s\n"
                                   "clients: 4\n"
                                   "hosts: [{name: h1}, {name: h2}, {name: h3}]\n"
                                   "groups:\n"
                                   "  - {name: red, replicas: [h1, h2, h3]}\n"
                                   "  - {name: green, parent: red, replicas: [h2, h3, h1]}\n"
                                   "  - {name: blue, parent: red, replicas: [h3, h1, h2]}\n";

static const char *const host_names[HOSTS] = {"h1", "h2", "h3"};

/* ---- the state machine under test: a running sum, and a mistake if a test plants one ---- */

enum mistake {
    NONE,
    WRONG_REPLY, /* the fifth reply of one host is another one */
    WRONG_STATE, /* from the fifth message on its state is another one, and no reply shows it */
    WRONG_BIRTH, /* it begins with another state */
    FORGETS,     /* what it loads lacks a part */
    CANNOT_SAVE, /* once a test says so */
    CANNOT_LOAD,
};

struct test {
    struct tram_cluster *cluster;
    struct tram_sim *sim;
    struct tram_client *client;
    const char *protocol; /* NULL: tree */
    enum mistake mistake;
    const char *culprit; /* host that makes it; NULL: all */
    uint32_t starts, ends;
    bool broken;                   /* CANNOT_SAVE, CANNOT_LOAD */
    void (*inside)(struct test *); /* called in the first delivery at h1; once */
    struct tram_error error;
};

struct sum {
    uint64_t count, sum, hidden;
};

struct state { /* of a host */
    struct test *test;
    bool culprit;
    bool is_h1;
    struct sum sum[GROUPS];
};

static uint32_t deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t reply_max)
{
    struct state *s = ctx;
    struct test *t = s->test;
    struct sum *m = &s->sum[d->group];
    uint64_t value;
    assert_true(d->bytes == sizeof(value) && reply_max >= sizeof(value));
    memcpy(&value, d->body, sizeof(value));
    m->count++;
    m->sum += value;
    value = m->sum;
    if (s->culprit && t->mistake == WRONG_REPLY && m->count == 5)
        value++;
    if (s->culprit && t->mistake == WRONG_STATE && m->count == 5)
        m->hidden = 1;
    if (s->is_h1 && t->inside) {
        void (*inside)(struct test *) = t->inside;
        t->inside = NULL;
        inside(t);
    }
    memcpy(reply, &value, sizeof(value));
    return sizeof(value);
}

static int save(void *ctx, uint32_t group, void **data, size_t *bytes)
{
    const struct state *s = ctx;
    if (s->test->mistake == CANNOT_SAVE && s->test->broken && s->culprit)
        return -1;
    *data = malloc(*bytes = sizeof(struct sum));
    assert_non_null(*data);
    memcpy(*data, &s->sum[group], *bytes);
    return 0;
}

static int load(void *ctx, uint32_t group, const void *data, size_t bytes)
{
    struct state *s = ctx;
    if (s->test->mistake == CANNOT_LOAD && s->test->broken)
        return -1;
    assert_int_equal(bytes, sizeof(struct sum));
    memcpy(&s->sum[group], data, bytes);
    if (s->test->mistake == FORGETS)
        s->sum[group].sum = 0;
    return 0;
}

static void *start(void *user, const char *host)
{
    struct test *t = user;
    struct state *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    s->test = t;
    s->culprit = t->culprit == NULL || strcmp(host, t->culprit) == 0;
    s->is_h1 = strcmp(host, "h1") == 0;
    if (s->culprit && t->mistake == WRONG_BIRTH)
        s->sum[BLUE].hidden = 7;
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

/* ---- helpers ---- */

static struct tram_sim_options options_of(struct test *t, uint64_t seed)
{
    return (struct tram_sim_options){
        .seed = seed,
        .machine = {.deliver = deliver, .save = save, .load = load},
        .start = start,
        .end = end,
        .user = t,
    };
}

#define MUST(t, call)                                                                              \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != TRAM_OK)                                                                        \
            print_error("%s: %d %s\n", #call, rc_, (t)->error.text);                               \
        assert_int_equal(rc_, TRAM_OK);                                                            \
    } while (0)

static void open_with(struct test *t, const struct tram_sim_options *o)
{
    char text[sizeof(cluster_text) + 16];
    snprintf(text, sizeof(text), cluster_text, t->protocol ? t->protocol : "tree");
    MUST(t, tram_cluster_parse(text, NULL, &t->cluster, &t->error));
    MUST(t, tram_sim_open(t->cluster, o, &t->sim, &t->error));
    MUST(t, tram_sim_client_open(t->sim, NULL, &t->client, &t->error));
}

static void open_test(struct test *t, uint64_t seed)
{
    struct tram_sim_options o = options_of(t, seed);
    open_with(t, &o);
}

static void close_test(struct test *t)
{
    tram_sim_close(t->sim);
    tram_cluster_free(t->cluster);
    assert_int_equal(t->starts, t->ends);
}

/* Adds to the groups' sums and waits; returns the reply of the first group. */
static uint64_t add(struct test *t, uint16_t first, uint32_t count, uint64_t value)
{
    uint16_t groups[GROUPS] = {first, (uint16_t)(first + 1), (uint16_t)(first + 2)};
    uint64_t reply[GROUPS];
    uint32_t lengths[GROUPS];
    MUST(t, tram_call(t->client, groups, count, &value, sizeof(value), reply, sizeof(reply[0]),
                      lengths, 100 * SECOND, &t->error));
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(lengths[i], sizeof(reply[0]));
    return reply[0];
}

static void idle(struct test *t)
{
    MUST(t, tram_sim_run_idle(t->sim, 100 * SECOND, &t->error));
}

/* All hosts have the sum; nothing is wrong. */
static void all_have(struct test *t, uint16_t group, uint64_t sum)
{
    idle(t);
    for (uint32_t h = 0; h < HOSTS; h++) {
        const struct state *s = tram_sim_ctx(t->sim, host_names[h]);
        assert_non_null(s);
        assert_int_equal(s->sum[group].sum, sum);
    }
    MUST(t, tram_sim_check(t->sim, NULL, &t->error));
}

/* ---- running ---- */

static void tram_sim__calls_are_answered(void **state)
{
    (void)state;
    struct test t = {0};
    open_test(&t, 1);
    assert_int_equal(add(&t, RED, 1, 5), 5);
    assert_int_equal(add(&t, RED, 3, 7), 12);
    assert_int_equal(add(&t, GREEN, 2, 1), 8);
    all_have(&t, BLUE, 8);
    assert_true(tram_sim_now(t.sim) < SECOND);
    assert_int_equal(t.starts, HOSTS);
    close_test(&t);
}

/* Faults and all. */
static uint64_t eventful_run(uint64_t seed)
{
    struct test t = {0};
    open_test(&t, seed);
    tram_sim_chaos(t.sim);
    for (uint32_t i = 0; i < 40; i++)
        add(&t, (uint16_t)(i % 3), 1 + i % (3 - i % 3), i);
    tram_sim_heal(t.sim);
    idle(&t);
    MUST(&t, tram_sim_check(t.sim, NULL, &t.error));
    uint64_t hash = tram_sim_hash(t.sim);
    close_test(&t);
    return hash;
}

static void tram_sim__a_seed_is_a_run(void **state)
{
    (void)state;
    uint64_t first = eventful_run(1);
    assert_true(first == eventful_run(1));
    assert_true(first != eventful_run(2));
}

static void *run_in_thread(void *hash)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        ((uint64_t *)hash)[seed - 1] = eventful_run(seed);
    return NULL;
}

static void tram_sim__simulations_do_not_know_of_each_other(void **state)
{
    (void)state;
    uint64_t hash[2][3];
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_in_thread, hash[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_memory_equal(hash[0], hash[1], sizeof(hash[0]));

    /* Two at once in one thread, in turns. */
    struct test a = {0}, b = {0};
    open_test(&a, 7);
    open_test(&b, 7);
    for (uint32_t i = 0; i < 10; i++) {
        add(&a, RED, 3, i);
        if (i % 2)
            tram_sim_step(b.sim, NULL);
    }
    for (uint32_t i = 0; i < 10; i++)
        add(&b, RED, 3, i);
    all_have(&a, GREEN, 45);
    all_have(&b, GREEN, 45);
    close_test(&a);
    close_test(&b);
}

static void tram_sim__steps_are_the_run(void **state)
{
    (void)state;
    struct test a = {0}, b = {0};
    open_test(&a, 3);
    open_test(&b, 3);
    MUST(&a, tram_sim_run(a.sim, 100 * MS, &a.error));
    assert_int_equal(tram_sim_now(a.sim), 100 * MS);
    assert_true(tram_sim_events(a.sim) > 100);
    while (tram_sim_events(b.sim) < tram_sim_events(a.sim))
        assert_int_equal(tram_sim_step(b.sim, &b.error), 1);
    assert_true(tram_sim_now(b.sim) <= 100 * MS);
    assert_true(tram_sim_hash(a.sim) == tram_sim_hash(b.sim));
    /* The next one is the same again. */
    assert_int_equal(tram_sim_step(a.sim, &a.error), 1);
    assert_int_equal(tram_sim_step(b.sim, &b.error), 1);
    assert_true(tram_sim_now(a.sim) == tram_sim_now(b.sim) && tram_sim_now(a.sim) > 100 * MS);
    assert_true(tram_sim_hash(a.sim) == tram_sim_hash(b.sim));
    close_test(&a);
    close_test(&b);
}

struct answers {
    uint32_t replies, dones;
    uint64_t sum;
    uint64_t last_ticket;
};

static void on_reply(void *ctx, uint64_t ticket, uint32_t group, const void *body, uint32_t bytes)
{
    struct answers *a = ctx;
    uint64_t value;
    (void)ticket;
    (void)group;
    assert_int_equal(bytes, sizeof(value));
    memcpy(&value, body, sizeof(value));
    a->sum += value;
    a->replies++;
}

static void on_done(void *ctx, uint64_t ticket)
{
    struct answers *a = ctx;
    a->dones++;
    a->last_ticket = ticket;
}

static void tram_sim__tickets_are_answered_by_callbacks(void **state)
{
    (void)state;
    struct test t = {0};
    struct answers a = {0};
    struct tram_client_options o = {.reply = on_reply, .done = on_done, .ctx = &a};
    struct tram_client *c;
    const uint16_t groups[] = {BLUE, RED, BLUE};
    uint64_t ticket[3], value = 4;
    open_test(&t, 4);
    MUST(&t, tram_sim_client_open(t.sim, &o, &c, &t.error));
    for (int i = 0; i < 3; i++)
        MUST(&t, tram_cast(c, groups, 3, &value, sizeof(value), &ticket[i], &t.error));
    assert_int_equal(tram_client_outstanding(c), 3);
    assert_false(tram_client_done(c, ticket[0]));
    MUST(&t, tram_sim_run_done(t.sim, c, ticket[0], SECOND, &t.error));
    assert_true(tram_client_done(c, ticket[0]));
    MUST(&t, tram_sim_run_done(t.sim, c, ticket[2], SECOND, &t.error));
    assert_int_equal(a.replies, 6);
    assert_int_equal(a.dones, 3);
    assert_int_equal(a.last_ticket, ticket[2]);
    assert_int_equal(a.sum, 2 * (4 + 8 + 12));
    assert_false(tram_client_done(c, ticket[2] + 1));

    /* Once more, when it has nothing to look for and sleeps. */
    idle(&t);
    MUST(&t, tram_sim_run(t.sim, SECOND, &t.error));
    MUST(&t, tram_cast(c, groups, 1, &value, sizeof(value), &ticket[0], &t.error));
    MUST(&t, tram_sim_run_done(t.sim, c, ticket[0], MS, &t.error));

    /* tram_client_wait lets the simulation run, too. */
    MUST(&t, tram_cast(c, groups, 1, &value, sizeof(value), NULL, &t.error));
    assert_int_equal(tram_client_wait(c, SECOND), 1);
    assert_int_equal(tram_client_wait(c, 5 * MS), 0);
    close_test(&t);
}

struct order {
    struct test *test;
    uint64_t at_ns;
};

static void kill_h2(struct tram_sim *sim, void *arg)
{
    struct order *o = arg;
    o->at_ns = tram_sim_now(sim);
    MUST(o->test, tram_sim_kill(sim, "h2", true, &o->test->error));
    /* Not from here. */
    assert_int_equal(tram_sim_step(sim, &o->test->error), TRAM_INVALID);
    assert_int_equal(tram_sim_run(sim, MS, &o->test->error), TRAM_INVALID);
    assert_int_equal(tram_client_wait(o->test->client, MS), TRAM_INVALID);
}

static void tram_sim__at_calls_at_that_time(void **state)
{
    (void)state;
    struct test t = {0};
    struct order o = {.test = &t}, never = {.test = &t};
    open_test(&t, 5);
    MUST(&t, tram_sim_at(t.sim, 3 * MS, kill_h2, &o, &t.error));
    MUST(&t, tram_sim_at(t.sim, SECOND, kill_h2, &never, &t.error));
    MUST(&t, tram_sim_run(t.sim, 2 * MS, &t.error));
    assert_non_null(tram_sim_ctx(t.sim, "h2"));
    MUST(&t, tram_sim_run(t.sim, 2 * MS, &t.error));
    assert_int_equal(o.at_ns, 3 * MS);
    assert_null(tram_sim_ctx(t.sim, "h2"));
    close_test(&t);
}

/* ---- faults ---- */

/* The leaders die one after the other, with and without their memory; each comes back with a state that
 * it has loaded. */
static void tram_sim__killed_leaders_are_replaced(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        struct test t = {0};
        uint64_t sum = 0;
        open_test(&t, 10 + (uint64_t)keep);
        for (uint64_t i = 0; i < 6; i++) {
            idle(&t);
            const char *leader = tram_sim_leader(t.sim, "red");
            assert_non_null(leader);
            MUST(&t, tram_sim_kill(t.sim, leader, keep, &t.error));
            struct tram_replica_stats s;
            assert_int_equal(tram_sim_replica(t.sim, leader, "red", &s), TRAM_NOTFOUND);
            uint64_t before = tram_sim_now(t.sim);
            add(&t, RED, 1, 0);
            /* A death is known before the next heartbeat, which is every 10 ms. */
            if (i == 0)
                assert_true(tram_sim_now(t.sim) - before < 5 * MS);
            sum += i;
            assert_int_equal(add(&t, RED, 3, i), sum);
            assert_string_not_equal(tram_sim_leader(t.sim, "red"), leader);
            MUST(&t, tram_sim_start(t.sim, leader, &t.error));
            sum += 1;
            assert_int_equal(add(&t, RED, 3, 1), sum);
        }
        all_have(&t, RED, sum);
        all_have(&t, BLUE, sum);
        assert_int_equal(t.starts, HOSTS + 6);
        close_test(&t);
    }
}

static void tram_sim__a_stopped_leader_is_replaced_and_goes_on(void **state)
{
    (void)state;
    struct test t = {0};
    open_test(&t, 20);
    add(&t, RED, 3, 1);
    const char *leader = tram_sim_leader(t.sim, "green");
    uint64_t before = tram_sim_now(t.sim);
    MUST(&t, tram_sim_stop(t.sim, leader, &t.error));
    assert_int_equal(add(&t, GREEN, 1, 2), 3);
    /* A hang is found by its heartbeat only: suspect_ms is 60 where the file says nothing. */
    assert_true(tram_sim_now(t.sim) - before > 50 * MS);
    idle(&t); /* of those that run */
    assert_string_not_equal(tram_sim_leader(t.sim, "green"), leader);
    const struct state *stopped = tram_sim_ctx(t.sim, leader);
    assert_int_equal(stopped->sum[GREEN].sum, 1);
    MUST(&t, tram_sim_check(t.sim, NULL, &t.error));
    MUST(&t, tram_sim_continue(t.sim, leader, &t.error));
    all_have(&t, GREEN, 3);
    close_test(&t);
}

/* Nobody else is there to wake it. */
static void tram_sim__one_host_alone_goes_on(void **state)
{
    (void)state;
    struct test t = {0};
    struct tram_sim_options o = options_of(&t, 21);
    const uint16_t one = 0;
    uint64_t value = 3, ticket;
    MUST(&t, tram_cluster_parse("hosts: [{name: h1}]\ngroups: [{name: g1, replicas: [h1]}]\n", NULL,
                                &t.cluster, &t.error));
    MUST(&t, tram_sim_open(t.cluster, &o, &t.sim, &t.error));
    MUST(&t, tram_sim_client_open(t.sim, NULL, &t.client, &t.error));
    idle(&t);
    MUST(&t, tram_sim_stop(t.sim, "h1", &t.error));
    MUST(&t, tram_sim_run(t.sim, SECOND, &t.error));
    MUST(&t, tram_cast(t.client, &one, 1, &value, sizeof(value), &ticket, &t.error));
    /* Not at a time at which the client writes again. */
    assert_int_equal(tram_sim_run_done(t.sim, t.client, ticket, 1007 * MS, &t.error), TRAM_TIMEOUT);
    MUST(&t, tram_sim_continue(t.sim, "h1", &t.error));
    MUST(&t, tram_sim_run_done(t.sim, t.client, ticket, MS / 10, &t.error));
    MUST(&t, tram_sim_check(t.sim, NULL, &t.error));
    close_test(&t);
}

static void tram_sim__cut_ways_heal(void **state)
{
    (void)state;
    struct test t = {0};
    open_test(&t, 30);
    add(&t, RED, 1, 1);
    idle(&t);
    const char *leader = tram_sim_leader(t.sim, "red");
    for (uint32_t h = 0; h < HOSTS; h++)
        if (strcmp(host_names[h], leader) != 0) {
            MUST(&t, tram_sim_cut(t.sim, leader, host_names[h], true, &t.error));
            MUST(&t, tram_sim_cut(t.sim, host_names[h], leader, true, &t.error));
        }
    assert_int_equal(add(&t, RED, 1, 2), 3);
    assert_string_not_equal(tram_sim_leader(t.sim, "red"), leader);
    for (uint32_t h = 0; h < HOSTS; h++)
        if (strcmp(host_names[h], leader) != 0) {
            MUST(&t, tram_sim_cut(t.sim, leader, host_names[h], false, &t.error));
            MUST(&t, tram_sim_cut(t.sim, host_names[h], leader, false, &t.error));
        }
    all_have(&t, RED, 3);

    /* A client that is cut off gets its answer when it no longer is. */
    const uint16_t red = RED;
    uint64_t ticket, value = 1;
    for (uint32_t h = 0; h < HOSTS; h++)
        MUST(&t, tram_sim_cut(t.sim, host_names[h], "client-0", true, &t.error));
    MUST(&t, tram_cast(t.client, &red, 1, &value, sizeof(value), &ticket, &t.error));
    assert_int_equal(tram_sim_run_done(t.sim, t.client, ticket, SECOND, &t.error), TRAM_TIMEOUT);
    assert_non_null(strstr(t.error.text, "client-0"));
    tram_sim_heal(t.sim);
    MUST(&t, tram_sim_run_done(t.sim, t.client, ticket, SECOND, &t.error));
    all_have(&t, RED, 4);
    close_test(&t);
}

static void tram_sim__delays_are_felt(void **state)
{
    (void)state;
    struct test t = {0};
    open_test(&t, 40);
    add(&t, RED, 1, 1);
    uint64_t before = tram_sim_now(t.sim);
    add(&t, RED, 1, 1);
    assert_true(tram_sim_now(t.sim) - before < MS);
    for (uint32_t h = 0; h < HOSTS; h++)
        MUST(&t, tram_sim_delay(t.sim, "client-0", host_names[h], 3 * MS, &t.error));
    before = tram_sim_now(t.sim);
    add(&t, RED, 1, 1);
    assert_true(tram_sim_now(t.sim) - before >= 3 * MS);
    tram_sim_heal(t.sim);
    idle(&t);
    before = tram_sim_now(t.sim);
    add(&t, RED, 1, 1);
    assert_true(tram_sim_now(t.sim) - before < MS);
    close_test(&t);

    struct test slow = {0};
    struct tram_sim_options o = options_of(&slow, 40);
    o.delay_ns_min = o.delay_ns_max = 2 * MS;
    open_with(&slow, &o);
    idle(&slow);
    before = tram_sim_now(slow.sim);
    add(&slow, RED, 1, 1);
    assert_true(tram_sim_now(slow.sim) - before >=
                8 * MS); /* there, to a majority and back, and back */
    close_test(&slow);
}

static void tram_sim__chaos_strikes_and_breaks_nothing(void **state)
{
    (void)state;
    uint32_t restarts = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct test t = {.protocol = seed % 2 ? "tree" : "genuine"};
        uint64_t sum = 0;
        open_test(&t, seed);
        tram_sim_chaos(t.sim);
        for (uint64_t i = 0; i < 60; i++) {
            sum += i;
            assert_int_equal(add(&t, RED, 1 + i % 3, i), sum);
            if (i == 30) /* again and again */
                tram_sim_heal(t.sim);
            if (i >= 30)
                tram_sim_chaos(t.sim);
        }
        MUST(&t, tram_sim_check(t.sim, NULL, &t.error));
        tram_sim_heal(t.sim);
        all_have(&t, RED, sum);
        MUST(&t, tram_sim_run(t.sim, 100 * MS, &t.error)); /* all have tried again */
        uint64_t before = tram_sim_now(t.sim);
        add(&t, RED, 1, 0);
        assert_true(tram_sim_now(t.sim) - before < MS); /* as quick as before */
        restarts += t.starts - HOSTS;
        close_test(&t);
    }
    assert_true(restarts >= 12);
}

/* All three end, and their memory outlives them: the log is there, and the state that it begins with is not. */
static void tram_sim__states_that_ended_with_all_are_told(void **state)
{
    (void)state;
    static const char *const hosts[] = {"h1", "h2", "h3"};
    struct test t = {0};
    open_test(&t, 51);
    add(&t, RED, 3, 1);
    for (int i = 0; i < 3; i++)
        MUST(&t, tram_sim_kill(t.sim, hosts[i], true, &t.error));
    for (int i = 0; i < 3; i++)
        MUST(&t, tram_sim_start(t.sim, hosts[i], &t.error));
    for (int i = 0; i < 3; i++)
        assert_int_equal(tram_sim_run(t.sim, 100 * SECOND, &t.error), TRAM_DATA_LOST);
    close_test(&t);
}

/* Two of three lose their memory: what they had is gone. The survivor waits; those who come back say that
 * it will not mend, each once. */
static void tram_sim__a_lost_majority_is_told(void **state)
{
    (void)state;
    struct test t = {0};
    const uint16_t red = RED;
    uint64_t ticket, value = 1;
    open_test(&t, 50);
    add(&t, RED, 3, 1);
    MUST(&t, tram_sim_kill(t.sim, "h1", false, &t.error));
    MUST(&t, tram_sim_kill(t.sim, "h2", false, &t.error));
    MUST(&t, tram_cast(t.client, &red, 1, &value, sizeof(value), &ticket, &t.error));
    assert_int_equal(tram_sim_run_idle(t.sim, SECOND, &t.error), TRAM_TIMEOUT);
    assert_non_null(strstr(t.error.text, "client-0 waits for 1"));
    assert_non_null(strstr(t.error.text, "h2 red:down"));
    MUST(&t, tram_sim_start(t.sim, "h1", &t.error));
    MUST(&t, tram_sim_start(t.sim, "h2", &t.error));
    assert_int_equal(tram_sim_run(t.sim, 100 * SECOND, &t.error), TRAM_DATA_LOST);
    assert_non_null(strstr(t.error.text, "majority"));
    assert_int_equal(tram_sim_run(t.sim, 100 * SECOND, &t.error), TRAM_DATA_LOST);
    MUST(&t, tram_sim_run(t.sim, SECOND, &t.error));
    assert_null(tram_sim_ctx(t.sim, "h1"));
    assert_null(tram_sim_ctx(t.sim, "h2"));
    MUST(&t, tram_sim_check(t.sim, NULL, &t.error));
    close_test(&t);
}

static void tram_sim__time_passes_without_hosts(void **state)
{
    (void)state;
    struct test t = {0};
    open_test(&t, 60);
    idle(&t);
    for (uint32_t h = 0; h < HOSTS; h++)
        MUST(&t, tram_sim_kill(t.sim, host_names[h], true, &t.error));
    int rc = 1;
    for (uint32_t i = 0; i < 100000 && rc == 1; i++)
        rc = tram_sim_step(t.sim, &t.error);
    assert_int_equal(rc, 0);
    uint64_t before = tram_sim_now(t.sim);
    MUST(&t, tram_sim_run(t.sim, SECOND, &t.error));
    assert_int_equal(tram_sim_now(t.sim), before + SECOND);
    assert_null(tram_sim_leader(t.sim, "red"));
    close_test(&t);
}

/* ---- clients that come and go ---- */

static void tram_sim__places_are_reused(void **state)
{
    (void)state;
    struct test t = {0};
    struct tram_client *c[4];
    const uint16_t all[] = {RED, GREEN, BLUE};
    uint64_t value = 1;
    open_test(&t, 70);
    for (int i = 1; i < 4; i++)
        MUST(&t, tram_sim_client_open(t.sim, NULL, &c[i], &t.error));
    assert_int_equal(tram_sim_client_open(t.sim, NULL, &c[0], &t.error), TRAM_EXISTS);
    assert_non_null(strstr(t.error.text, "all 4"));
    idle(&t);
    /* One leaves while its message is on the way: it is delivered everywhere, or nowhere. */
    for (uint64_t seed = 0; seed < 10; seed++) {
        MUST(&t, tram_cast(c[2], all, 3, &value, sizeof(value), NULL, &t.error));
        MUST(&t, tram_sim_run(t.sim, seed * 2000, &t.error));
        tram_client_close(c[2]);
        MUST(&t, tram_sim_client_open(t.sim, NULL, &c[2], &t.error));
        assert_int_equal(tram_client_place(c[2]), 2);
        assert_int_equal(tram_client_life(c[2]), seed + 1);
        MUST(&t, tram_call(c[2], all, 2, &value, sizeof(value), NULL, 0, NULL, SECOND, &t.error));
    }
    idle(&t);
    MUST(&t, tram_sim_check(t.sim, NULL, &t.error));
    close_test(&t); /* with clients open */
}

/* ---- what a check finds ---- */

static struct tram_sim_finding find(struct test *t, const char *property)
{
    struct tram_sim_finding f;
    memset(&f, 0, sizeof(f));
    assert_int_equal(tram_sim_check(t->sim, &f, &t->error), TRAM_VIOLATED);
    print_message("# %s\n", t->error.text);
    assert_string_equal(f.text, t->error.text);
    assert_string_equal(f.property, property);
    /* It stays found. */
    assert_int_equal(tram_sim_check(t->sim, NULL, NULL), TRAM_VIOLATED);
    return f;
}

static void culprit_is_h2(const struct tram_sim_finding *f)
{
    assert_true((f->host[0] == 1) != (f->host[1] == 1));
    assert_non_null(strstr(f->text, "h2"));
}

static void tram_sim__a_different_reply_is_found(void **state)
{
    (void)state;
    struct test t = {.mistake = WRONG_REPLY, .culprit = "h2"};
    open_test(&t, 80);
    for (uint64_t i = 0; i < 4; i++)
        add(&t, RED, 3, 1);
    add(&t, RED, 1, 1); /* red's fifth */
    idle(&t);
    assert_int_equal(tram_sim_check(t.sim, NULL, &t.error), TRAM_VIOLATED);
    for (uint64_t i = 0; i < 9; i++)
        add(&t, RED, 3, 1);
    idle(&t);
    struct tram_sim_finding f = find(&t, "replies");
    culprit_is_h2(&f);
    assert_int_equal(f.group, RED);
    assert_int_equal(f.number, 4);
    assert_int_equal(f.client, 0);
    assert_int_equal(f.life, 0);
    assert_int_equal(f.seq, 4);
    assert_true(f.time_ns > 0 && f.time_ns < tram_sim_now(t.sim));
    assert_non_null(strstr(f.text, "group red"));
    assert_non_null(strstr(f.text, "c0:4 (number 4)"));
    assert_non_null(strstr(f.text, "byte 0 of 8"));
    close_test(&t);
}

static void tram_sim__a_different_state_is_found_at_its_message(void **state)
{
    (void)state;
    for (uint32_t every = 1; every <= 3; every += 2) {
        struct test t = {.mistake = WRONG_STATE, .culprit = "h2"};
        struct tram_sim_options o = options_of(&t, 81);
        o.compare_every = every;
        open_with(&t, &o);
        for (uint64_t i = 0; i < 12; i++)
            add(&t, BLUE, 1, 1);
        idle(&t);
        struct tram_sim_finding f = find(&t, "states");
        culprit_is_h2(&f);
        assert_int_equal(f.group, BLUE);
        assert_int_equal(f.number, every == 1 ? 4 : 5);
        assert_int_equal(f.seq, f.number);
        assert_true((strstr(f.text, "or some before it") != NULL) == (every > 1));
        close_test(&t);
    }
    struct test t = {.mistake = WRONG_STATE, .culprit = "h2"};
    struct tram_sim_options o = options_of(&t, 81);
    o.replies_only = true;
    open_with(&t, &o);
    for (uint64_t i = 0; i < 12; i++)
        add(&t, BLUE, 1, 1);
    all_have(&t, BLUE, 12);
    close_test(&t);
}

static void tram_sim__a_different_beginning_is_found(void **state)
{
    (void)state;
    struct test t = {.mistake = WRONG_BIRTH, .culprit = "h2"};
    open_test(&t, 82);
    struct tram_sim_finding f = find(&t, "states");
    culprit_is_h2(&f);
    assert_int_equal(f.group, BLUE);
    assert_true(f.number == UINT64_MAX && f.seq == UINT64_MAX);
    assert_non_null(strstr(f.text, "before the first message"));
    close_test(&t);
}

static void tram_sim__a_load_that_forgets_is_found(void **state)
{
    (void)state;
    struct test t = {.mistake = FORGETS};
    open_test(&t, 83);
    for (uint64_t i = 0; i < 7; i++)
        add(&t, GREEN, 1, 1);
    idle(&t);
    MUST(&t, tram_sim_check(t.sim, NULL, &t.error));
    MUST(&t, tram_sim_kill(t.sim, "h3", true, &t.error));
    MUST(&t, tram_sim_start(t.sim, "h3", &t.error));
    idle(&t);
    struct tram_sim_finding f = find(&t, "states");
    assert_int_equal(f.host[1], 2);
    assert_int_equal(f.group, GREEN);
    assert_int_equal(f.number, 6);
    assert_non_null(strstr(f.text, "h3 has loaded"));
    close_test(&t);
}

/* ---- errors ---- */

static void tram_sim__a_failing_machine_ends_its_host(void **state)
{
    (void)state;
    struct test t = {.mistake = CANNOT_SAVE, .culprit = "h1"};
    const uint16_t red = RED;
    uint64_t value = 1;
    open_test(&t, 90);
    add(&t, RED, 1, 1);
    t.broken = true;
    assert_int_equal(
        tram_call(t.client, &red, 1, &value, sizeof(value), NULL, 0, NULL, SECOND, &t.error),
        TRAM_BROKEN);
    assert_non_null(strstr(t.error.text, "host h1"));
    assert_non_null(strstr(t.error.text, "could not save"));
    assert_null(tram_sim_ctx(t.sim, "h1"));
    t.broken = false;
    idle(&t); /* the message has not gone */
    MUST(&t, tram_sim_start(t.sim, "h1", &t.error));
    all_have(&t, RED, 2);

    t.mistake = CANNOT_LOAD;
    t.broken = true;
    MUST(&t, tram_sim_kill(t.sim, "h3", true, &t.error));
    MUST(&t, tram_sim_start(t.sim, "h3", &t.error));
    assert_int_equal(tram_sim_run_idle(t.sim, SECOND, &t.error), TRAM_BROKEN);
    assert_non_null(strstr(t.error.text, "could not load"));
    close_test(&t);
}

static void misbehave(struct test *t)
{
    assert_int_equal(tram_sim_kill(t->sim, "h1", true, &t->error), TRAM_INVALID);
    assert_non_null(strstr(t->error.text, "in the middle of a delivery"));
    assert_int_equal(tram_sim_step(t->sim, &t->error), TRAM_INVALID);
    assert_int_equal(tram_sim_run_idle(t->sim, SECOND, &t->error), TRAM_INVALID);
    MUST(t, tram_sim_kill(t->sim, "h2", true, &t->error)); /* another may be */
}

static void tram_sim__callbacks_may_not_run_it(void **state)
{
    (void)state;
    struct test t = {.inside = misbehave};
    open_test(&t, 91);
    assert_int_equal(add(&t, RED, 1, 3), 3);
    assert_null(t.inside);
    assert_null(tram_sim_ctx(t.sim, "h2"));
    MUST(&t, tram_sim_start(t.sim, "h2", &t.error));
    all_have(&t, RED, 3);
    close_test(&t);
}

#define REFUSED(call, code, text_)                                                                 \
    do {                                                                                           \
        t.error.text[0] = '\0';                                                                    \
        assert_int_equal(call, code);                                                              \
        if (strstr(t.error.text, text_) == NULL)                                                   \
            print_error("'%s' has no '%s'\n", t.error.text, text_);                                \
        assert_non_null(strstr(t.error.text, text_));                                              \
    } while (0)

static void tram_sim__mistakes_are_answered_with_a_text(void **state)
{
    (void)state;
    struct test t = {0};
    struct tram_sim *sim;
    struct tram_client *c;
    struct tram_error *e = &t.error;
    open_test(&t, 92);
    REFUSED(tram_sim_kill(t.sim, "h9", true, e), TRAM_NOTFOUND, "no host 'h9'");
    REFUSED(tram_sim_kill(t.sim, NULL, true, e), TRAM_NOTFOUND, "no host ''");
    REFUSED(tram_sim_start(t.sim, "h1", e), TRAM_INVALID, "h1 is up");
    REFUSED(tram_sim_continue(t.sim, "h1", e), TRAM_INVALID, "not stopped");
    MUST(&t, tram_sim_kill(t.sim, "h1", true, e));
    REFUSED(tram_sim_kill(t.sim, "h1", true, e), TRAM_INVALID, "h1 is down");
    REFUSED(tram_sim_stop(t.sim, "h1", e), TRAM_INVALID, "h1 is down");
    REFUSED(tram_sim_cut(t.sim, "h1", "x", true, e), TRAM_NOTFOUND, "'x'");
    REFUSED(tram_sim_delay(t.sim, "client-4", "h1", 1, e), TRAM_NOTFOUND, "'client-4'");
    REFUSED(tram_sim_client_open(t.sim, &(struct tram_client_options){.trace_dir = "x"}, &c, e),
            TRAM_INVALID, "no traces");
    assert_null(tram_sim_leader(t.sim, "yellow"));
    assert_null(tram_sim_ctx(t.sim, "h9"));
    struct tram_replica_stats s;
    assert_int_equal(tram_sim_replica(t.sim, "h2", "yellow", &s), TRAM_NOTFOUND);

    struct tram_sim_options o = options_of(&t, 1);
    o.start = NULL;
    REFUSED(tram_sim_open(t.cluster, &o, &sim, e), TRAM_INVALID, "options.start");
    o = options_of(&t, 1);
    o.clients = 5;
    REFUSED(tram_sim_open(t.cluster, &o, &sim, e), TRAM_INVALID, "allows 4");
    o = options_of(&t, 1);
    o.delay_ns_min = 2;
    o.delay_ns_max = 1;
    REFUSED(tram_sim_open(t.cluster, &o, &sim, e), TRAM_INVALID, "delay_ns_min");
    struct tram_cluster *cluster;
    REFUSED(tram_cluster_parse("groups: 5\n", "my.yaml", &cluster, e), TRAM_INVALID, "my.yaml:1");
    assert_string_equal(tram_code_text(TRAM_VIOLATED), "a property is violated");
    tram_sim_close(NULL);
    close_test(&t);
}

/* A machine that does nothing at all needs no states. */
static void tram_sim__no_machine_is_a_machine(void **state)
{
    (void)state;
    struct test t = {0};
    struct tram_sim_options o = {.seed = 1};
    const uint16_t groups[] = {RED, BLUE};
    uint32_t lengths[2] = {9, 9};
    char reply[2][8];
    open_with(&t, &o);
    MUST(&t, tram_call(t.client, groups, 2, "x", 1, reply, 8, lengths, SECOND, &t.error));
    assert_true(lengths[0] == 0 && lengths[1] == 0);
    MUST(&t, tram_sim_kill(t.sim, "h1", false, &t.error));
    MUST(&t, tram_sim_start(t.sim, "h1", &t.error));
    idle(&t);
    MUST(&t, tram_sim_check(t.sim, NULL, &t.error));
    close_test(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tram_sim__calls_are_answered),
        cmocka_unit_test(tram_sim__a_seed_is_a_run),
        cmocka_unit_test(tram_sim__simulations_do_not_know_of_each_other),
        cmocka_unit_test(tram_sim__steps_are_the_run),
        cmocka_unit_test(tram_sim__tickets_are_answered_by_callbacks),
        cmocka_unit_test(tram_sim__at_calls_at_that_time),
        cmocka_unit_test(tram_sim__killed_leaders_are_replaced),
        cmocka_unit_test(tram_sim__a_stopped_leader_is_replaced_and_goes_on),
        cmocka_unit_test(tram_sim__one_host_alone_goes_on),
        cmocka_unit_test(tram_sim__cut_ways_heal),
        cmocka_unit_test(tram_sim__delays_are_felt),
        cmocka_unit_test(tram_sim__chaos_strikes_and_breaks_nothing),
        cmocka_unit_test(tram_sim__states_that_ended_with_all_are_told),
        cmocka_unit_test(tram_sim__a_lost_majority_is_told),
        cmocka_unit_test(tram_sim__time_passes_without_hosts),
        cmocka_unit_test(tram_sim__places_are_reused),
        cmocka_unit_test(tram_sim__a_different_reply_is_found),
        cmocka_unit_test(tram_sim__a_different_state_is_found_at_its_message),
        cmocka_unit_test(tram_sim__a_different_beginning_is_found),
        cmocka_unit_test(tram_sim__a_load_that_forgets_is_found),
        cmocka_unit_test(tram_sim__a_failing_machine_ends_its_host),
        cmocka_unit_test(tram_sim__callbacks_may_not_run_it),
        cmocka_unit_test(tram_sim__mistakes_are_answered_with_a_text),
        cmocka_unit_test(tram_sim__no_machine_is_a_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
