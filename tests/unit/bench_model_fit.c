#include "bench/model.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 24 };

/* Runs of some of the things, in numbers as different as those of real runs are. */
static void draw_rows(struct rng *rng, struct model_costs *costs, struct model_work *work)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        work[r] = (struct model_work){0};
        for (uint32_t i = 0; i < MODEL_COST_COUNT; i++)
            if (model_cost_is_cpu(i) && rng_below(rng, 2))
                work[r].count[i] = (double)rng_range(rng, 1000, 1000000);
        work[r].count[MODEL_COST_poll_ns] += 1000;
        work[r].cpu_ns = model_work_ns(costs, &work[r]);
    }
}

static void model_fit__finds_the_costs_that_were(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 1);
    for (int run = 0; run < 5; run++) {
        struct model_costs truth = model_costs_stored, found = {.write_ns = 17};
        struct model_work work[ROWS];
        draw_rows(&rng, &truth, work);
        model_fit(&found, work, ROWS);
        for (uint32_t i = 0; i < MODEL_COST_COUNT; i++) {
            double want = *model_cost(&truth, i), got = *model_cost(&found, i);
            if (model_cost_is_cpu(i) && (got < 0.99 * want || got > 1.01 * want))
                fail_msg("%s is %f, was %f", model_cost_name(i), got, want);
        }
        assert_true(found.write_ns == 17);
    }
}

/* Measured times are not exact; no cost comes out below nothing for that. */
static void model_fit__noise_makes_no_cost_negative(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 2);
    for (int run = 0; run < 20; run++) {
        struct model_costs truth = model_costs_stored, found = {0};
        struct model_work work[ROWS];
        draw_rows(&rng, &truth, work);
        for (uint32_t r = 0; r < ROWS; r++)
            work[r].cpu_ns *= 0.8 + (double)rng_below(&rng, 400) / 1000;
        model_fit(&found, work, ROWS);
        for (uint32_t i = 0; i < MODEL_COST_COUNT; i++)
            assert_true(*model_cost(&found, i) >= 0);
        for (uint32_t r = 0; r < ROWS; r++) {
            double ratio = model_work_ns(&found, &work[r]) / work[r].cpu_ns;
            assert_true(ratio > 0.6 && ratio < 1.5);
        }
    }
}

static void model_fit__leaves_what_was_not_done(void **state)
{
    (void)state;
    struct model_costs costs = model_costs_stored;
    struct model_work work = {.count = {[MODEL_COST_poll_ns] = 10}, .cpu_ns = 330};
    model_fit(&costs, &work, 1);
    assert_true(costs.poll_ns == 33);
    assert_true(costs.entry_ns == model_costs_stored.entry_ns);
}

static void model_costs__have_names(void **state)
{
    (void)state;
    struct err e = {""};
    for (uint32_t i = 0; i < MODEL_COST_COUNT; i++)
        assert_int_equal(model_cost_find(model_cost_name(i), &e), (int)i);
    assert_int_equal(model_cost_find("patience", &e), ERR_NOTFOUND);
    assert_non_null(strstr(e.text, "'patience'"));
    assert_non_null(strstr(e.text, "reply_ns"));
    for (uint32_t i = 0; model_preset_at(i); i++)
        assert_ptr_equal(model_preset_named(model_preset_at(i)->name), model_preset_at(i));
    assert_null(model_preset_named("pigeon"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_fit__finds_the_costs_that_were),
        cmocka_unit_test(model_fit__noise_makes_no_cost_negative),
        cmocka_unit_test(model_fit__leaves_what_was_not_done),
        cmocka_unit_test(model_costs__have_names),
    };
    return cmocka_run_group_tests_name("model_fit", tests, NULL, NULL);
}
