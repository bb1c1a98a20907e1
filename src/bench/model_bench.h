/* `tram bench --transport sim`: the measurements of tram bench in a model of a cluster (bench/model.h).
 *
 * The network's costs are a preset's. The processor's are measured on this machine, in runs of
 * everything in one thread, unless they are given. Whatever is measured is a point as compare.h
 * wants it, so that figures of the model are shown as those of shared memory are. */
#ifndef BENCH_MODEL_BENCH_H
#define BENCH_MODEL_BENCH_H

#include "bench/compare.h"

#include <stdio.h>

/* Where a cost comes from. */
enum cost_origin { COST_OF_PRESET, COST_STORED, COST_MEASURED, COST_GIVEN };

struct bench_model {
    const struct model_preset *preset; /* NULL: each paper's own */
    struct model_costs costs;
    enum cost_origin origin[MODEL_COST_COUNT];
    bool stored; /* processor costs as stored, not measured */
    bool measured;
    enum model_layout measured_for;
    uint32_t parts,
        parts_near; /* of the measured runs; whose CPU time the costs give within a quarter */
    uint64_t seed;
};

/* Takes a list of NAME=VALUE, and `stored`, separated by commas. ERR_INVALID with a text. */
int bench_model_costs(struct bench_model *, const char *list, struct err *);

/* The model with this preset instead: fills in its costs and those of the processor that were not given;
 * measures them, if need be, and says so on `progress` (NULL: nowhere). */
int bench_model_settle(struct bench_model *, const struct model_preset *, FILE *progress,
                       struct err *);

/* As bench_tree_point, in virtual time, with the largest of the loads alone; ctx is the struct
 * bench_model. A client has as many messages under way as bring most. */
int bench_model_point(void *ctx, const struct bench_args *, struct bench_point *, struct err *);

/* As bench_tree, in virtual time. */
int bench_model_figures(const struct bench_model *, const struct bench_args *,
                        struct bench_figures *, struct err *);

/* All costs as a table, and as options that repeat it; or as facts of a comparison. */
void bench_model_print(const struct bench_model *, FILE *);
void bench_model_facts(const struct bench_model *, struct compare *);

/* Table 1 of the TRAM paper: messages that wait while all groups change their leaders, three times. */
int bench_model_table1(const struct bench_model *, const struct bench_args *, FILE *, struct err *);

/* Figure 5 of the RamCast paper: 1, 2, 4 groups and so on, messages to one and to all. */
int bench_model_ramcast(const struct bench_model *, const struct bench_args *, FILE *,
                        struct err *);

/* Measures some cases on shared memory with two threads and in the model with the preset shm, side by
 * side. */
int bench_model_check(const struct bench_model *, FILE *, struct err *);

#endif
