/* The replicated log with members that are only memory, beside the plain log with as many who vote: in turns, so that what the
 * machine does meanwhile befalls both. */
#ifndef BENCH_LOG_VOTES_H
#define BENCH_LOG_VOTES_H

#include "bench/bench.h"

#include <stdio.h>

enum { VOTES_TURNS = 5 };

/* Medians over the turns, and of the ratios within each. */
struct votes_figures {
    uint32_t voters;
    double p50_ns, plain_p50_ns, p50_ratio; /* of one message at a time */
    double rate, plain_rate, rate_ratio;    /* messages a second, saturated */
};

/* With args.memories; args.seconds is the length of each of the two measurements of a turn. */
int bench_votes(const struct bench_args *, struct votes_figures *, struct err *);

void bench_votes_print(const struct bench_args *, const struct votes_figures *, FILE *);
void bench_votes_json(const struct bench_args *, const struct votes_figures *, FILE *);

#endif
