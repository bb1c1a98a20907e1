#include "base/rng.h"
#include "mcast/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SETS_MAX = 64 };

/* A workload to plan for. */
static struct work {
    uint32_t groups, count;
    uint16_t member[SETS_MAX][32];
    struct plan_set set[SETS_MAX];
} work;

static struct err err;

static void work_begin(uint32_t groups)
{
    work.groups = groups;
    work.count = 0;
}

static void work_add(uint64_t weight, uint32_t count, const uint16_t *member)
{
    uint16_t *list = work.member[work.count];
    struct plan_set *s = &work.set[work.count++];

    memcpy(list, member, count * sizeof(uint16_t));
    s->weight = weight;
    assert_int_equal(dst_normalise(list, count, work.groups, &s->dst, &err), 0);
}

#define WORK_ADD(weight, ...)                                                                      \
    work_add(weight, sizeof((uint16_t[]){__VA_ARGS__}) / sizeof(uint16_t),                         \
             (const uint16_t[]){__VA_ARGS__})

static void work_draw(struct rng *r, uint32_t groups, uint32_t sets)
{
    work_begin(groups);
    for (uint32_t i = 0; i < sets; i++) {
        uint16_t member[8];
        uint32_t count = (uint32_t)rng_range(r, 1, groups < 4 ? groups : 4);
        for (uint32_t j = 0; j < count; j++)
            member[j] = (uint16_t)rng_below(r, groups);
        work_add(rng_range(r, 1, 100), count, member);
    }
}

static struct plan_options options(void)
{
    return (struct plan_options){
        .groups = work.groups, .set = work.set, .set_count = work.count, .seed = 1};
}

static struct plan *run(struct plan_options o)
{
    struct plan *p = NULL;

    if (plan_open(&p, &o, &err) != 0)
        fail_msg("%s", err.text);
    while (plan_step(p, 1000)) {
    }
    return p;
}

static struct plan_report report_of(struct plan *p)
{
    struct plan_report r;

    plan_rate(p, plan_best(p), &r, NULL);
    return r;
}

/* ---- rating by brute force: from the definition, with the queries of the overlay ---- */

static struct plan_report brute_rate(const struct overlay *o, double load_weight,
                                     double hops_weight, uint64_t *load)
{
    struct plan_report r = {0};
    uint64_t deliver[OVERLAY_GROUPS_MAX] = {0}, least = 0, several = 0;

    memset(load, 0, o->n * sizeof load[0]);
    for (uint32_t i = 0; i < work.count; i++) {
        struct plan_set s = work.set[i];
        uint16_t lca = overlay_lca(o, s.dst);
        uint32_t visited = 0, deepest = 0;
        for (uint32_t g = 0; g < o->n; g++) {
            if (dst_has(s.dst, (uint16_t)g)) {
                deliver[g] += s.weight;
                uint32_t below = overlay_depth(o, (uint16_t)g) - (uint32_t)overlay_depth(o, lca);
                deepest = below > deepest ? below : deepest;
            }
            if (overlay_above(o, lca, (uint16_t)g) && overlay_reaches(o, (uint16_t)g, s.dst)) {
                load[g] += s.weight;
                visited++;
            }
        }
        r.work += visited * s.weight;
        r.hops += deepest * s.weight;
        r.genuine += visited == s.dst.count ? s.weight : 0;
        several += s.dst.count > 1 ? s.weight : 0;
    }
    for (uint32_t g = 0; g < o->n; g++) {
        least = deliver[g] > least ? deliver[g] : least;
        if (load[g] > r.max_load) {
            r.max_load = load[g];
            r.busiest = (uint16_t)g;
        }
    }
    r.cost = load_weight * ((double)r.max_load / (double)least) +
             hops_weight * (several ? (double)r.hops / (double)several : 0);
    return r;
}

static void plan__rates_a_tree_by_its_definition(void **state)
{
    (void)state;
    struct rng r;

    rng_init(&r, 3);
    for (int round = 0; round < 300; round++) {
        uint16_t parent[OVERLAY_GROUPS_MAX];
        uint64_t load[OVERLAY_GROUPS_MAX];
        struct plan_load loads[OVERLAY_GROUPS_MAX];
        struct plan_report got;
        struct overlay *o;
        struct plan *p;

        work_draw(&r, (uint32_t)rng_range(&r, 1, 40), 20);
        parent[0] = OVERLAY_NONE;
        for (uint32_t g = 1; g < work.groups; g++)
            parent[g] =
                (uint16_t)(round % 2 ? rng_below(&r, g) : g - 1 - rng_below(&r, 2) * (g > 1));
        assert_int_equal(overlay_open(&o, parent, work.groups, &err), 0);
        struct plan_options opt = options();
        opt.load_weight = 2;
        opt.hops_weight = 3;
        assert_int_equal(plan_open(&p, &opt, &err), 0);

        struct plan_report want = brute_rate(o, 2, 3, load);
        plan_rate(p, parent, &got, loads);
        assert_true(got.cost == want.cost && got.max_load == want.max_load);
        assert_true(got.busiest == want.busiest && got.work == want.work);
        assert_true(got.hops == want.hops && got.genuine == want.genuine);
        uint64_t ordered = 0;
        for (uint32_t g = 0; g < work.groups; g++) {
            assert_true(loads[g].load == load[g] && loads[g].delivers <= load[g]);
            ordered += loads[g].orders;
        }
        assert_true(ordered == plan_weight(p));
        assert_true(plan_load_min(p) <= got.max_load);
        plan_close(p);
        overlay_close(o);
    }
}

/* The best of all arrays of parents that are trees: a way to list them that shares nothing with the
 * code under test. */
static struct plan_report brute_best(double load_weight, double hops_weight, uint32_t *trees)
{
    uint16_t parent[OVERLAY_GROUPS_MAX];
    uint64_t load[OVERLAY_GROUPS_MAX], end = 1;
    struct plan_report best = {0};
    uint32_t n = work.groups;

    *trees = 0;
    for (uint32_t g = 0; g < n; g++)
        end *= n;
    for (uint64_t index = 0; index < end; index++) {
        struct overlay *o;
        uint64_t rest = index;
        for (uint32_t g = 0; g < n; g++, rest /= n)
            parent[g] = rest % n == g ? OVERLAY_NONE : (uint16_t)(rest % n);
        if (overlay_open(&o, parent, n, NULL) != 0)
            continue;
        struct plan_report r = brute_rate(o, load_weight, hops_weight, load);
        if ((*trees)++ == 0 || plan_better(&r, &best))
            best = r;
        overlay_close(o);
    }
    return best;
}

static const double objectives[][2] = {{1, 0}, {0, 1}, {1, 1}};

static void plan__exact_is_the_best_of_all_trees(void **state)
{
    (void)state;
    const uint32_t counts[] = {0, 1, 2, 9, 64, 625};
    struct rng r;

    rng_init(&r, 5);
    for (uint32_t n = 1; n <= 5; n++)
        for (int round = 0; round < 9; round++) {
            uint32_t trees;
            const double *weight = objectives[round % 3];
            work_draw(&r, n, 8);
            struct plan_report want = brute_best(weight[0], weight[1], &trees);
            assert_int_equal(trees, counts[n]);
            struct plan_options o = options();
            o.load_weight = weight[0];
            o.hops_weight = weight[1];
            struct plan *p = run(o);
            struct plan_report got = report_of(p);
            assert_true(plan_exact(p));
            if (plan_rated(p) != trees + OVERLAY_SHAPE_COUNT) /* it met every lower bound */
                assert_true(got.max_load == plan_load_min(p) && plan_rated(p) < trees + 4);
            assert_false(plan_better(&want, &got));
            assert_false(plan_better(&got, &want));
            plan_close(p);
        }
}

/* From 50 seeds, on workloads of 5 and 6 groups, with far fewer trees than there are. */
static void plan__search_finds_the_optimum_from_most_seeds(void **state)
{
    (void)state;
    struct rng r;

    rng_init(&r, 11);
    for (int objective = 0; objective < 3; objective++) {
        int found = 0;
        for (uint64_t seed = 1; seed <= 50; seed++) {
            work_draw(&r, 5 + seed % 2, 10);
            struct plan_options o = options();
            o.load_weight = objectives[objective][0];
            o.hops_weight = objectives[objective][1];
            struct plan *exact = run(o);
            o.search_only = true;
            o.seed = seed;
            o.restarts = 4;
            o.moves = 100;
            struct plan *search = run(o);
            struct plan_report best = report_of(exact), got = report_of(search);
            assert_false(plan_better(&got, &best));
            found += !plan_better(&best, &got);
            plan_close(search);
            plan_close(exact);
        }
        print_message("# objective %d: %d of 50 seeds\n", objective, found);
        assert_true(found >= 45);
    }
}

static void plan__a_hot_pair_becomes_parent_and_child(void **state)
{
    (void)state;
    const uint32_t sizes[] = {2, 4, 7, 12, 30};

    for (int i = 0; i < 5; i++)
        for (int objective = 0; objective < 3; objective++) {
            uint16_t a = 0, b = (uint16_t)(sizes[i] - 1);
            work_begin(sizes[i]);
            WORK_ADD(1000, a, b);
            struct plan_options o = options();
            o.load_weight = objectives[objective][0];
            o.hops_weight = objectives[objective][1];
            struct plan *p = run(o);
            const uint16_t *parent = plan_best(p);
            assert_true(parent[a] == b || parent[b] == a);
            struct plan_report r = report_of(p);
            assert_true(r.genuine == 1000 && r.max_load == 1000 && r.hops == 1000);
            assert_true(plan_exact(p)); /* nothing could be better, so no search was in vain */
            plan_close(p);
        }
}

/* Messages to neighbours on a chain of 10 groups in a mixed-up order: there is a tree in which all
 * are genuine and the busiest group has no more than its own messages. */
static void plan__a_hot_chain_is_found(void **state)
{
    (void)state;
    const uint16_t chain[] = {4, 9, 0, 7, 2, 5, 8, 1, 6, 3};

    work_begin(10);
    for (int i = 0; i < 9; i++)
        WORK_ADD(10, chain[i], chain[i + 1]);
    struct plan *p = run(options());
    struct plan_report r = report_of(p);
    assert_true(r.genuine == 90 && r.max_load == 20 && r.work == 180 && r.hops == 90);
    plan_close(p);
}

/* Every message to three of twelve groups has a hub among them: the hub has to be the root of a star
 * to have one hop each. */
static void plan__latency_asks_for_a_star_at_the_hub(void **state)
{
    (void)state;
    work_begin(12);
    for (uint16_t g = 0; g < 12; g++)
        if (g != 7)
            WORK_ADD(5, 7, g, (uint16_t)(g == 6 ? 8 : (g + 1) % 12 == 7 ? 8 : (g + 1) % 12));
    struct plan_options o = options();
    o.hops_weight = 1;
    struct plan *p = run(o);
    struct plan_report r = report_of(p);
    assert_true(r.hops == plan_weight(p) && r.genuine == plan_weight(p));
    assert_int_equal(plan_best(p)[7], OVERLAY_NONE);
    plan_close(p);
}

/* Single-group messages go nowhere else, so that every tree is as good: the answer is the first of the
 * paper's, not whatever was tried last. */
static void plan__the_papers_tree_stays_unless_another_is_better(void **state)
{
    (void)state;
    const uint32_t sizes[] = {1, 5, 20};

    for (int i = 0; i < 3; i++) {
        uint16_t base[32];
        work_begin(sizes[i]);
        for (uint16_t g = 0; g < sizes[i]; g++)
            WORK_ADD(3, g);
        overlay_shape_fill(OVERLAY_base, sizes[i], base);
        struct plan *p = run(options());
        assert_memory_equal(plan_best(p), base, sizes[i] * sizeof(uint16_t));
        plan_close(p);
    }
}

static void plan__the_same_seed_gives_the_same_tree(void **state)
{
    (void)state;
    struct rng r;

    rng_init(&r, 13);
    work_draw(&r, 25, 40);
    struct plan_options o = options();
    o.seed = 99;
    o.moves = 500;
    struct plan *a = run(o), *b;
    assert_int_equal(plan_open(&b, &o, &err), 0);
    while (plan_step(b, 7)) { /* in other portions */
    }
    assert_memory_equal(plan_best(a), plan_best(b), 25 * sizeof(uint16_t));
    assert_true(plan_rated(a) == plan_rated(b));
    plan_close(a);
    plan_close(b);
}

static void plan__never_worse_than_the_papers_trees(void **state)
{
    (void)state;
    struct rng r;

    rng_init(&r, 17);
    for (int round = 0; round < 12; round++) {
        work_draw(&r, (uint32_t)rng_range(&r, 8, 60), SETS_MAX);
        struct plan_options o = options();
        o.load_weight = objectives[round % 3][0];
        o.hops_weight = objectives[round % 3][1];
        o.moves = 100;
        struct plan *p = run(o);
        struct plan_report best = report_of(p);
        for (int shape = 0; shape < OVERLAY_SHAPE_COUNT; shape++) {
            uint16_t parent[64];
            struct plan_report other;
            overlay_shape_fill((enum overlay_shape)shape, work.groups, parent);
            plan_rate(p, parent, &other, NULL);
            assert_false(plan_better(&other, &best));
        }
        struct overlay *tree;
        assert_int_equal(overlay_open(&tree, plan_best(p), work.groups, &err), 0);
        overlay_close(tree);
        plan_close(p);
    }
}

static void assert_refused(const struct plan_options *o, int code, const char *text)
{
    struct plan *p = NULL;

    assert_int_equal(plan_open(&p, o, &err), code);
    assert_null(p);
    if (strstr(err.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, text);
}

static void plan__bad_options_are_refused(void **state)
{
    (void)state;
    work_begin(4);
    WORK_ADD(1, 0, 3);
    WORK_ADD(1, 2);
    struct plan_options o = options();
    o.groups = 0;
    assert_refused(&o, ERR_INVALID, "a plan for 0 groups");
    o.groups = 1025;
    assert_refused(&o, ERR_INVALID, "1 to 1024");
    o.groups = 3;
    assert_refused(&o, ERR_CORRUPT, "destination 3");
    o = options();
    o.set_count = 0;
    assert_refused(&o, ERR_INVALID, "no destination set");
    o = options();
    o.hops_weight = -1;
    assert_refused(&o, ERR_INVALID, "negative");
    o = options();
    work.set[1].weight = 0;
    assert_refused(&o, ERR_INVALID, "set 1 has weight 0");
    work.set[1].weight = PLAN_WEIGHT_MAX;
    assert_refused(&o, ERR_INVALID, "2^52");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan__rates_a_tree_by_its_definition),
        cmocka_unit_test(plan__exact_is_the_best_of_all_trees),
        cmocka_unit_test(plan__search_finds_the_optimum_from_most_seeds),
        cmocka_unit_test(plan__a_hot_pair_becomes_parent_and_child),
        cmocka_unit_test(plan__a_hot_chain_is_found),
        cmocka_unit_test(plan__latency_asks_for_a_star_at_the_hub),
        cmocka_unit_test(plan__the_papers_tree_stays_unless_another_is_better),
        cmocka_unit_test(plan__the_same_seed_gives_the_same_tree),
        cmocka_unit_test(plan__never_worse_than_the_papers_trees),
        cmocka_unit_test(plan__bad_options_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
