#include "bench/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A message to group 0, to group 1, ...; or one to all. */
static const uint16_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};

struct fixture {
    struct overlay *overlay;
    struct model_options opt;
    struct model *model;
};

/* Groups in a row below the first; messages to one of them in turn. */
static void fixture_init(struct fixture *f, uint32_t groups, uint32_t replicas)
{
    uint16_t parent[OVERLAY_GROUPS_MAX];
    struct err e = {""};
    *f = (struct fixture){0};
    overlay_shape_fill(OVERLAY_breadth, groups, parent);
    assert_int_equal(overlay_open(&f->overlay, parent, groups, &e), 0);
    f->opt = (struct model_options){
        .overlay = f->overlay,
        .replicas = replicas,
        .hosts = replicas,
        .clients = 4,
        .payload = 64,
        .sets = all,
        .dst = 1,
        .sets_count = groups,
        .seed = 1,
    };
}

static void open_it(struct fixture *f)
{
    struct err e = {""};
    if (model_open(&f->opt, &f->model, &e) != 0)
        fail_msg("%s", e.text);
}

static void close_it(struct fixture *f)
{
    model_close(f->model);
    f->model = NULL;
}

static void fixture_fini(struct fixture *f)
{
    close_it(f);
    overlay_close(f->overlay);
}

static double saturate(struct fixture *f)
{
    struct err e = {""};
    double rate;
    open_it(f);
    if (model_saturate(f->model, f->opt.clients, &rate, &e) != 0)
        fail_msg("%s", e.text);
    close_it(f);
    return rate;
}

static void measure_latency(struct fixture *f, struct hist *h)
{
    struct err e = {""};
    hist_init(h);
    open_it(f);
    if (model_latency(f->model, 200, h, &e) != 0)
        fail_msg("%s", e.text);
    close_it(f);
}

/* Numbers that no two sums of have in common, and posting slow enough that no two writes are seen by
 * one look. */
static const struct model_costs odd_costs = {
    .write_ns = 100003,
    .ack_ns = 50021,
    .post_ns = 2003,
    .store_ns = 211,
    .poll_ns = 502,
    .watch_ns = 100,
    .entry_ns = 701,
    .follow_ns = 607,
    .look_ns = 302,
    .cast_ns = 401,
    .reply_ns = 307,
};

/* What a write takes from the start of posting its data until its guard, the second write, is seen in
 * rounds of that length. */
static uint64_t seen_ns(const struct model_costs *c, double round_ns)
{
    return (uint64_t)(2 * c->post_ns + c->write_ns + round_ns / 2 + round_ns);
}

static void latency_is(struct fixture *f, uint64_t expected)
{
    static struct hist h;
    measure_latency(f, &h);
    assert_int_equal(hist_count(&h), 200);
    assert_int_equal(hist_min(&h), expected);
    /* Heartbeats come in between now and then. */
    assert_true(hist_mean(&h) < 1.01 * (double)expected);
}

static void model__latency_alone_is_the_sum_of_its_parts(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 1, 1);
    f.opt.costs = odd_costs;
    const struct model_costs *c = &odd_costs;
    /* The entry and its guard into the own memory, then the commit; no way in between. */
    double leader = 3 * c->store_ns + c->entry_ns;
    latency_is(&f, (uint64_t)(c->cast_ns + leader + c->reply_ns) + seen_ns(c, c->poll_ns) +
                       seen_ns(c, c->look_ns));
    fixture_fini(&f);
}

static void model__latency_of_three_replicas_is_the_sum_of_its_parts(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 1, 3);
    f.opt.costs = odd_costs;
    const struct model_costs *c = &odd_costs;
    double before = c->cast_ns + 2 * c->store_ns;
    double after = c->store_ns + c->entry_ns + c->reply_ns;
    /* To the leader; to a follower's memory and back, no follower's time in it; to the client. */
    latency_is(&f, (uint64_t)(before + after + c->ack_ns) + seen_ns(c, c->poll_ns) +
                       seen_ns(c, c->poll_ns) + seen_ns(c, c->look_ns));
    fixture_fini(&f);
}

static void model__many_clients_are_looked_at_one_by_one(void **state)
{
    (void)state;
    struct fixture f;
    static struct hist h;
    fixture_init(&f, 1, 1);
    f.opt.costs = odd_costs;
    measure_latency(&f, &h);
    uint64_t without = hist_min(&h);
    f.opt.costs.scan_ns = 10;
    measure_latency(&f, &h);
    /* One client is there; a round and a half. */
    assert_int_equal(hist_min(&h), without + 15);
    fixture_fini(&f);
}

static void model__no_link_carries_more_than_it_can(void **state)
{
    (void)state;
    enum { PAYLOAD = 16384, GB = 1 };
    struct fixture f;
    fixture_init(&f, 1, 1);
    f.opt.payload = PAYLOAD;
    f.opt.costs = (struct model_costs){.write_ns = 1000, .ack_ns = 500, .byte_ps = 1000};
    double alone = saturate(&f) * PAYLOAD / 1e9;
    assert_true(alone < GB);
    assert_true(alone > 0.9 * GB);
    /* A leader sends everything to two followers. */
    f.opt.replicas = 3;
    double three = saturate(&f) * PAYLOAD / 1e9;
    assert_true(three < GB / 2.0);
    assert_true(three > 0.8 * GB / 2.0);
    fixture_fini(&f);
}

static void model__dearer_writes_lower_the_rate(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 2, 3);
    f.opt.costs = model_costs_stored;
    f.opt.costs.write_ns = 1000;
    f.opt.costs.post_ns = 200;
    double cheap = saturate(&f);
    f.opt.costs.post_ns = 400;
    double dear = saturate(&f);
    assert_true(dear < 0.9 * cheap);
    fixture_fini(&f);
}

static void model__hosts_on_one_processor_share_it(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4, 3);
    f.opt.costs = model_costs_stored;
    f.opt.costs.post_ns = f.opt.costs.store_ns;
    double spread = saturate(&f);
    f.opt.layout = MODEL_SHARED;
    double shared = saturate(&f);
    /* Four leaders in parallel, and followers beside them, against all in one row. */
    assert_true(shared < spread / 3);
    fixture_fini(&f);
}

/* Groups that have nothing to do with each other work beside each other. */
static void model__groups_scale(void **state)
{
    (void)state;
    struct fixture f;
    struct fixture one;
    fixture_init(&one, 1, 3);
    fixture_init(&f, 4, 3);
    one.opt.clients = 8;
    f.opt.clients = 4 * one.opt.clients;
    one.opt.costs = f.opt.costs = model_costs_stored;
    one.opt.costs.write_ns = f.opt.costs.write_ns = 1000;
    one.opt.costs.post_ns = f.opt.costs.post_ns = 100;
    double single = saturate(&one), four = saturate(&f);
    assert_true(four > 3 * single);
    assert_true(four < 5 * single);
    fixture_fini(&one);
    fixture_fini(&f);
}

static uint64_t run_everything(enum mcast_protocol protocol, uint64_t seed, struct hist *h,
                               double *rate, struct model_delays *d)
{
    struct fixture f;
    struct err e = {""};
    fixture_init(&f, 4, 3);
    f.opt.protocol = protocol;
    f.opt.dst = 4;
    f.opt.sets_count = 1;
    f.opt.seed = seed;
    f.opt.costs = model_costs_stored;
    f.opt.costs.write_ns = 1310;
    f.opt.costs.post_ns = 100;
    hist_init(h);
    open_it(&f);
    if (model_latency(f.model, 100, h, &e) || model_saturate(f.model, 4, rate, &e) ||
        model_change(f.model, 4, d, &e))
        fail_msg("%s", e.text);
    uint64_t hash = model_hash(f.model);
    fixture_fini(&f);
    return hash;
}

static void model__same_options_same_figures(void **state)
{
    (void)state;
    static struct hist h[2];
    for (enum mcast_protocol p = MCAST_TREE; p <= MCAST_GENUINE; p++) {
        double rate[2];
        struct model_delays d[2];
        uint64_t hash[2];
        for (int i = 0; i < 2; i++)
            hash[i] = run_everything(p, 7, &h[i], &rate[i], &d[i]);
        assert_true(hash[0] == hash[1]);
        assert_memory_equal(&h[0], &h[1], sizeof(h[0]));
        assert_true(rate[0] == rate[1]);
        assert_memory_equal(&d[0], &d[1], sizeof(d[0]));
    }
}

static bool about(double a, double b, double factor)
{
    return a < factor * b && b < factor * a;
}

/* A processor sleeps where polling on would find nothing. If there were something to find, polling on
 * would be faster. */
static void model__sleeping_makes_no_difference(void **state)
{
    (void)state;
    static struct hist h;
    for (enum mcast_protocol p = MCAST_TREE; p <= MCAST_GENUINE; p++) {
        double latency[2], rate[2], over[2];
        for (int restless = 0; restless < 2; restless++) {
            struct fixture f;
            struct err e = {""};
            struct model_delays d;
            fixture_init(&f, 2, 3);
            f.opt.clients = 10;
            f.opt.protocol = p;
            f.opt.dst = 2;
            f.opt.sets_count = 1;
            f.opt.restless = restless;
            f.opt.costs = model_costs_stored;
            f.opt.costs.write_ns = 1310;
            f.opt.costs.post_ns = 100;
            f.opt.costs.raise_ns = 10000;
            hist_init(&h);
            open_it(&f);
            if (model_latency(f.model, 100, &h, &e) ||
                model_rate(f.model, 4, 2, &rate[restless], &e))
                fail_msg("%s", e.text);
            for (int change = 0; change < 4; change++)
                if (model_change(f.model, f.opt.clients, &d, &e) != 0)
                    fail_msg("%s", e.text);
            model_changes(f.model, &d);
            latency[restless] = hist_mean(&h);
            over[restless] = d.most;
            fixture_fini(&f);
        }
        print_message(
            "# %s: latency %.0f and %.0f ns, rate %.0f and %.0f, change %.0f and %.0f ns\n",
            mcast_protocol_name(p), latency[0], latency[1], rate[0], rate[1], over[0], over[1]);
        assert_true(about(latency[0], latency[1], 1.03));
        assert_true(about(over[0], over[1], 1.2));
        /* Which messages go into one batch is a matter of nanoseconds. */
        assert_true(about(rate[0], rate[1], 1.2));
    }
}

static void model__messages_wait_for_new_leaders(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = {""};
    struct model_delays d, all_of_them;
    uint64_t delayed = 0;
    double raise_ns[] = {10000, 1000000}, over[2];
    for (int i = 0; i < 2; i++) {
        fixture_init(&f, 3, 3);
        f.opt.costs = model_costs_stored;
        f.opt.costs.write_ns = 1310;
        f.opt.costs.post_ns = 100;
        f.opt.costs.raise_ns = raise_ns[i];
        open_it(&f);
        delayed = 0;
        /* There and back again. */
        for (int change = 0; change < 2; change++) {
            if (model_change(f.model, f.opt.clients, &d, &e) != 0)
                fail_msg("%s", e.text);
            assert_true(d.count > 0);
            assert_true(d.least > d.usual && d.most >= d.mean && d.mean >= d.least);
            assert_true(d.over_ns > raise_ns[i]);
            delayed += d.count;
        }
        over[i] = d.over_ns;
        model_changes(f.model, &all_of_them);
        assert_int_equal(all_of_them.count, delayed);
        fixture_fini(&f);
    }
    assert_true(over[1] > over[0] + 900000);
}

static void model__refuses_what_makes_no_cluster(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = {""};
    struct model_delays d;
    fixture_init(&f, 1, 1);
    open_it(&f);
    assert_int_equal(model_change(f.model, 1, &d, &e), ERR_INVALID);
    close_it(&f);
    f.opt.replicas = 10;
    assert_int_equal(model_open(&f.opt, &f.model, &e), ERR_INVALID);
    f.opt.replicas = 3;
    f.opt.clients = 0;
    assert_int_equal(model_open(&f.opt, &f.model, &e), ERR_INVALID);
    f.opt.clients = 1;
    f.opt.layout = MODEL_SHARED;
    f.opt.hosts = 2;
    assert_int_equal(model_open(&f.opt, &f.model, &e), ERR_INVALID);
    f.model = NULL;
    fixture_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model__latency_alone_is_the_sum_of_its_parts),
        cmocka_unit_test(model__latency_of_three_replicas_is_the_sum_of_its_parts),
        cmocka_unit_test(model__many_clients_are_looked_at_one_by_one),
        cmocka_unit_test(model__no_link_carries_more_than_it_can),
        cmocka_unit_test(model__dearer_writes_lower_the_rate),
        cmocka_unit_test(model__hosts_on_one_processor_share_it),
        cmocka_unit_test(model__groups_scale),
        cmocka_unit_test(model__same_options_same_figures),
        cmocka_unit_test(model__sleeping_makes_no_difference),
        cmocka_unit_test(model__messages_wait_for_new_leaders),
        cmocka_unit_test(model__refuses_what_makes_no_cluster),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
