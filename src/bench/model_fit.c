/* What things cost, from times that a real processor took for known numbers of them. */
#include "bench/model.h"

#include "base/grow.h"

#include <stdlib.h>

/* Sweeps over the costs. Where two are hard to tell apart it takes many, and costs nothing. */
enum { SWEEPS = 20000 };

double model_work_ns(struct model_costs *c, const struct model_work *w)
{
    double ns = 0;
    for (uint32_t i = 0; i < MODEL_COST_COUNT; i++)
        if (model_cost_is_cpu(i))
            ns += w->count[i] * *model_cost(c, i);
    return ns;
}

/* Of one cost: how much of each row's time a nanosecond of it is. */
struct column {
    double *x; /* the cost itself */
    double *share;
    double squares;
};

/* The best value of one cost while the others stay: least squares in one unknown. `missing` is which part
 * of each row's time the costs as they are do not explain. */
static void improve(struct column *c, double *missing, uint32_t rows)
{
    double towards = 0;
    for (uint32_t r = 0; r < rows; r++)
        towards += c->share[r] * missing[r];
    double by = towards / c->squares;
    by = *c->x + by > 0 ? by : -*c->x;
    *c->x += by;
    for (uint32_t r = 0; r < rows; r++)
        missing[r] -= by * c->share[r];
}

void model_fit(struct model_costs *costs, const struct model_work *work, uint32_t rows)
{
    struct column column[MODEL_COST_COUNT];
    uint32_t columns = 0;
    double *memory = grow("a fit", NULL, sizeof(*memory), (size_t)rows * (MODEL_COST_COUNT + 1));
    double *missing = memory + (size_t)rows * MODEL_COST_COUNT;
    for (uint32_t i = 0; i < MODEL_COST_COUNT; i++) {
        struct column *c = &column[columns];
        *c = (struct column){.x = model_cost(costs, i), .share = memory + (size_t)columns * rows};
        for (uint32_t r = 0; r < rows; r++) {
            c->share[r] = work[r].count[i] / work[r].cpu_ns;
            c->squares += c->share[r] * c->share[r];
        }
        if (!model_cost_is_cpu(i) || c->squares == 0)
            continue;
        *c->x = 0;
        columns++;
    }
    for (uint32_t r = 0; r < rows; r++)
        missing[r] = 1;
    for (uint32_t sweep = 0; sweep < SWEEPS; sweep++)
        for (uint32_t i = 0; i < columns; i++)
            improve(&column[i], missing, rows);
    free(memory);
}
