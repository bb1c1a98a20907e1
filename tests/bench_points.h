/* Made-up points for a comparison: a function that measures nothing, and answers from the case alone. */
#ifndef TESTS_BENCH_POINTS_H
#define TESTS_BENCH_POINTS_H

#include "bench/compare.h"

struct points {
    uint32_t calls;
    uint32_t fail_bytes; /* messages of this size cannot be measured; 0: all can */
    uint32_t fail_from;  /* from this call on; 0: always */
    uint32_t stop_after; /* sets `stop` after so many calls; 0: never */
    volatile sig_atomic_t stop;
    struct bench_args first; /* of the first call */
};

/* What a case has before noise: different numbers for different cases, and of several digits. */
double points_latency_ns(const struct bench_args *);
double points_rate(const struct bench_args *, uint32_t load);

/* A compare_measure with a struct points. Two turns of a case in five are far off. */
int points_measure(void *ctx, const struct bench_args *, struct bench_point *, struct err *);

/* Of G groups, 5 turns; C clients at most. */
void points_open(struct compare *, uint32_t groups, uint32_t clients, bool quick);

#endif
