#include "../bench_points.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-9 * fabs(wanted)))
        fail_msg("got %.10g, wanted %.10g", got, wanted);
}

static const struct compare_cell *cell(const struct compare *c, uint32_t figure, uint32_t series,
                                       uint32_t x)
{
    return &c->cell[c->figure[figure].series[series].cell[x]];
}

/* All points of 8 groups, each measured once. */
static void run_once(struct compare *c)
{
    struct points p = {0};
    points_open(c, 8, 8, false);
    c->turns = 1;
    compare_run(c, points_measure, &p, NULL, NULL);
}

static void bench_compare__has_the_figures_of_the_paper(void **state)
{
    (void)state;
    static const struct {
        uint32_t number, count, xs, first, last;
    } wanted[] = {{5, 4, 8, 1, 8}, {6, 6, 8, 1, 8}, {7, 4, 6, 64, 65536}, {8, 6, 5, 1, 5}};
    struct compare c;
    points_open(&c, 8, 8, false);
    assert_int_equal(c.figures, 4);
    for (uint32_t i = 0; i < 4; i++) {
        const struct compare_figure *f = &c.figure[i];
        assert_int_equal(f->number, wanted[i].number);
        assert_int_equal(f->count, wanted[i].count);
        assert_int_equal(f->xs, wanted[i].xs);
        assert_int_equal(f->x[0], wanted[i].first);
        assert_int_equal(f->x[f->xs - 1], wanted[i].last);
        assert_non_null(f->paper[0]);
    }
    for (uint32_t x = 0; x < 8; x++) {
        const struct bench_args *a = &cell(&c, 0, 2, x)->args;
        assert_true(a->protocol == MCAST_TREE && a->shape == OVERLAY_depth && !a->adjacent);
        assert_true(a->dst == x + 1 && a->groups == 8 && a->replicas == 3 && a->payload == 64);
        assert_true(a->loads == 3 && a->load[0] == 1 && a->load[1] == 2 && a->load[2] == 8);
        a = &cell(&c, 1, 5, x)->args; /* genuine, with the sets of depth */
        assert_true(a->protocol == MCAST_GENUINE && a->dst == x + 1);
        assert_true(x == 0 || x == 7 || (a->adjacent && a->shape == OVERLAY_depth));
    }
    const struct bench_args *large = &cell(&c, 2, 1, 5)->args;
    assert_true(large->payload == 65536 && large->dst == 8 && large->shape == OVERLAY_breadth);
    const struct bench_args *five = &cell(&c, 3, 2, 4)->args;
    assert_true(five->replicas == 5 && five->hosts == 5 && five->groups == 3 && five->dst == 3);
    assert_true(five->loads == 0 && five->shape == OVERLAY_breadth);
    compare_close(&c);
}

/* What two figures show is one cell: one destination, all destinations, 64 bytes. */
static void bench_compare__measures_no_case_twice(void **state)
{
    (void)state;
    struct compare c;
    points_open(&c, 8, 8, false);
    assert_int_equal(c.cells, 32 + 36 + 20 + 30);
    assert_ptr_equal(cell(&c, 1, 4, 0), cell(&c, 0, 3, 0));
    assert_ptr_equal(cell(&c, 1, 0, 7), cell(&c, 0, 0, 7));
    assert_ptr_equal(cell(&c, 2, 3, 0), cell(&c, 0, 3, 7));
    assert_ptr_not_equal(cell(&c, 1, 4, 1), cell(&c, 1, 5, 1));
    compare_close(&c);
}

static void bench_compare__quick_has_about_half_of_the_points(void **state)
{
    (void)state;
    struct compare c;
    points_open(&c, 8, 8, true);
    assert_int_equal(c.cells, 16 + 12 + 12 + 18);
    compare_close(&c);
}

static void bench_compare__fits_any_number_of_groups_and_clients(void **state)
{
    (void)state;
    for (uint32_t groups = 1; groups <= 64; groups++) {
        struct compare c;
        points_open(&c, groups, groups, false);
        const struct compare_figure *f = &c.figure[0];
        assert_true(f->xs <= COMPARE_X_MAX && f->x[0] == 1 && f->x[f->xs - 1] == groups);
        const struct bench_args *a = &cell(&c, 0, 0, 0)->args;
        assert_true(a->loads <= BENCH_LOADS_MAX && a->load[a->loads - 1] == groups);
        for (uint32_t i = 1; i < a->loads; i++)
            assert_true(a->load[i] > a->load[i - 1]);
        compare_close(&c);
    }
}

/* The seconds that were asked for are those of all parts of all turns. */
static void bench_compare__shares_out_the_time(void **state)
{
    (void)state;
    struct compare c;
    double ns = 0;
    points_open(&c, 8, 8, false);
    for (uint32_t i = 0; i < c.cells; i++)
        ns += 5 * (1 + 1.25 * c.cell[i].args.loads) * (double)c.cell[i].args.part_ns;
    assert_true(ns > 9.99e9 && ns < 10.01e9);
    compare_close(&c);
}

/* Two turns of five are off by factors; the medians are not. */
static void bench_compare__takes_the_median_of_turns(void **state)
{
    (void)state;
    struct compare c;
    struct points p = {0};
    points_open(&c, 8, 8, false);
    assert_int_not_equal(c.cells % 5, 0); /* or a cell would meet the same noise in all turns */
    assert_int_equal(compare_run(&c, points_measure, &p, NULL, NULL), 0);
    assert_int_equal(p.calls, 5 * c.cells);
    for (uint32_t i = 0; i < c.cells; i++) {
        const struct compare_cell *k = &c.cell[i];
        assert_int_equal(k->turns, 5);
        near(k->median.latency_ns, points_latency_ns(&k->args));
        near(k->median.latency_p99_ns, 2 * points_latency_ns(&k->args));
        for (uint32_t l = 0; l < k->args.loads; l++)
            near(k->median.rate[l], points_rate(&k->args, l));
    }
    compare_close(&c);
}

static void bench_compare__counts_the_best_number_of_clients(void **state)
{
    (void)state;
    struct compare c;
    run_once(&c);
    assert_int_equal(compare_clients(&c, &c.figure[0], 0, 0), 2);
    assert_int_equal(compare_clients(&c, &c.figure[3], 0, 0), 0);
    assert_true(isnan(compare_value(&c, &c.figure[3], 0, 0, COMPARE_RATE)));
    compare_close(&c);
}

/* Turn by turn: no cell is measured again before all others were. */
static void bench_compare__spreads_the_turns_of_a_point(void **state)
{
    (void)state;
    struct compare c;
    struct points p = {.stop_after = 100};
    points_open(&c, 8, 8, false);
    assert_int_equal(compare_run(&c, points_measure, &p, NULL, &p.stop), c.cells - 100);
    assert_int_equal(p.calls, 100);
    for (uint32_t i = 0; i < c.cells; i++)
        assert_int_equal(c.cell[i].turns, i < 100);
    assert_string_equal(c.fact[c.facts - 1].name, "incomplete");
    compare_close(&c);
}

/* A case that fails is tried once, and all others have their values. */
static void bench_compare__goes_on_without_what_fails(void **state)
{
    (void)state;
    struct compare c;
    struct points p = {.fail_bytes = 16384};
    points_open(&c, 8, 8, false);
    assert_int_equal(compare_run(&c, points_measure, &p, NULL, NULL), 4);
    assert_int_equal(p.calls, 5 * (c.cells - 4) + 4);
    assert_non_null(strstr(cell(&c, 2, 0, 4)->error, "no memory for <16384>"));
    assert_true(isnan(compare_value(&c, &c.figure[2], 0, 4, COMPARE_LATENCY)));
    assert_true(isnan(compare_value(&c, &c.figure[2], 0, 4, COMPARE_NORMAL)));
    assert_int_equal(compare_best(&c, &c.figure[2], 4, COMPARE_RATE), -1);
    assert_false(isnan(compare_value(&c, &c.figure[2], 0, 5, COMPARE_NORMAL)));
    compare_close(&c);
}

static void bench_compare__keeps_the_turns_before_a_failure(void **state)
{
    (void)state;
    struct compare c;
    points_open(&c, 8, 8, false);
    struct points p = {.fail_bytes = 16384, .fail_from = 2 * c.cells};
    assert_int_equal(compare_run(&c, points_measure, &p, NULL, NULL), 0);
    assert_int_equal(cell(&c, 2, 0, 4)->turns, 2);
    assert_false(isnan(compare_value(&c, &c.figure[2], 0, 4, COMPARE_LATENCY)));
    compare_close(&c);
}

/* Genuine to three groups of a tree's sets is not genuine to any three. */
static void bench_compare__normalises_by_the_same_destinations(void **state)
{
    (void)state;
    struct compare c;
    run_once(&c);
    for (uint32_t s = 0; s < 3; s++) {
        const struct compare_figure *f = &c.figure[1];
        near(compare_value(&c, f, s, 2, COMPARE_NORMAL),
             compare_value(&c, f, s, 2, COMPARE_RATE) /
                 compare_value(&c, f, s + 3, 2, COMPARE_RATE));
        near(compare_value(&c, &c.figure[0], s, 2, COMPARE_NORMAL),
             compare_value(&c, &c.figure[0], s, 2, COMPARE_RATE) /
                 compare_value(&c, &c.figure[0], 3, 2, COMPARE_RATE));
    }
    compare_close(&c);
}

static void bench_compare__says_where_the_tree_is_ahead(void **state)
{
    (void)state;
    struct compare c;
    struct points p = {0};
    char text[512];
    points_open(&c, 8, 8, false);
    compare_run(&c, points_measure, &p, NULL, NULL);
    const struct compare_figure *f = &c.figure[0];
    assert_int_equal(compare_best(&c, f, 4, COMPARE_LATENCY), OVERLAY_breadth);
    assert_int_equal(compare_best(&c, f, 4, COMPARE_RATE), OVERLAY_depth);
    compare_finding(&c, f, COMPARE_LATENCY, text, sizeof(text));
    assert_string_equal(text, "the best tree has lower latency than genuine at 2, 3, 4, 5, 6, 7, 8 "
                              "destinations");
    compare_finding(&c, f, COMPARE_RATE, text, sizeof(text));
    assert_string_equal(text,
                        "the best tree has higher throughput than genuine at 2, 3, 4, 5, 6, 7, 8 "
                        "destinations");
    compare_finding(&c, &c.figure[3], COMPARE_LATENCY, text, sizeof(text));
    assert_non_null(strstr(text, "latency with 5 replicas is that with 1 times 1.0"));
    assert_non_null(strstr(text, "(genuine to 3)"));
    compare_close(&c);
}

/* Every value stands in the text; so do facts, notes and what could not be measured. */
static void bench_compare__prints_tables(void **state)
{
    (void)state;
    struct compare c;
    struct points p = {.fail_bytes = 4096};
    char *text = NULL;
    size_t bytes = 0;
    points_open(&c, 8, 8, false);
    compare_facts_here(&c);
    compare_run(&c, points_measure, &p, NULL, NULL);
    FILE *out = open_memstream(&text, &bytes);
    compare_print(&c, out);
    fclose(out);
    for (uint32_t i = 0; i < c.facts; i++)
        assert_non_null(strstr(text, c.fact[i].value));
    for (uint32_t i = 0; i < c.figures; i++) {
        struct compare_table t;
        char row[512];
        for (uint32_t m = 0; m < compare_metrics(&c.figure[i]); m++) {
            compare_table(&c, &c.figure[i], m, &t);
            for (uint32_t r = 0; r < t.rows; r++)
                for (uint32_t k = 0; k < t.columns; k++) {
                    snprintf(row, sizeof(row), " %s |", t.word[r][k]);
                    assert_non_null(strstr(text, row));
                }
        }
        assert_non_null(strstr(text, c.figure[i].paper[0]));
    }
    /* 2113 + 311 + 40 + 9 + 8 + 0.8 ns; 800000 * 1.7 / 1.1 messages a second; 2000000 / 1.1 by genuine */
    assert_non_null(
        strstr(text, "|            1 | 2.48 |    2.46 |  2.50 |    2.16 |   breadth |"));
    assert_non_null(
        strstr(text, "|            1 | 1236 (2) | 945 (2) | 1382 (2) | 1818 (2) |     depth |"));
    assert_non_null(strstr(text, "|            1 | 0.68 |    0.52 |  0.76 |     depth |"));
    assert_non_null(strstr(text, "Not measured:\n\n- figure 7: base, bytes: 4096: no memory for"));
    free(text);
    compare_close(&c);
}

static void bench_compare__tells_how_far_it_is(void **state)
{
    (void)state;
    struct compare c;
    struct points p = {0};
    char *text = NULL;
    size_t bytes = 0;
    points_open(&c, 8, 8, true);
    FILE *out = open_memstream(&text, &bytes);
    compare_run(&c, points_measure, &p, out, NULL);
    fclose(out);
    assert_non_null(strstr(text, "1 of 290: turn 1 of 5, figure 5: base, destinations: 1\n"));
    free(text);
    compare_close(&c);
}

static void bench_compare__numbers_have_three_digits_at_least(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *word;
    } cases[] = {{NAN, "-"},      {1234.4, "1234"}, {100, "100"},       {99.94, "99.9"},
                 {9.994, "9.99"}, {0.12, "0.12"},   {0.01234, "0.0123"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char word[COMPARE_WORD_BYTES];
        compare_number(word, cases[i].value);
        assert_string_equal(word, cases[i].word);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bench_compare__has_the_figures_of_the_paper),
        cmocka_unit_test(bench_compare__measures_no_case_twice),
        cmocka_unit_test(bench_compare__quick_has_about_half_of_the_points),
        cmocka_unit_test(bench_compare__fits_any_number_of_groups_and_clients),
        cmocka_unit_test(bench_compare__shares_out_the_time),
        cmocka_unit_test(bench_compare__takes_the_median_of_turns),
        cmocka_unit_test(bench_compare__counts_the_best_number_of_clients),
        cmocka_unit_test(bench_compare__spreads_the_turns_of_a_point),
        cmocka_unit_test(bench_compare__goes_on_without_what_fails),
        cmocka_unit_test(bench_compare__keeps_the_turns_before_a_failure),
        cmocka_unit_test(bench_compare__normalises_by_the_same_destinations),
        cmocka_unit_test(bench_compare__says_where_the_tree_is_ahead),
        cmocka_unit_test(bench_compare__prints_tables),
        cmocka_unit_test(bench_compare__tells_how_far_it_is),
        cmocka_unit_test(bench_compare__numbers_have_three_digits_at_least),
    };
    return cmocka_run_group_tests_name("bench_compare", tests, NULL, NULL);
}
