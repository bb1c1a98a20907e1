/* A histogram of uint64 values (latencies, sizes) in fixed memory.
 *
 * Buckets are log-linear: values below 256 have a bucket each, and above that every power of two
 * is cut into 128 equal buckets, so a bucket is at most 1/128 of its values wide and its middle is
 * within 0.4% of each of them. Count, sum, minimum and maximum are exact (the sum until it passes
 * 2^64). About 58 KB: keep it out of small stacks. Caller's memory; one thread at a time; adding
 * takes a few nanoseconds and never fails. */
#ifndef BASE_HIST_H
#define BASE_HIST_H

#include <stdint.h>

enum {
    HIST_SUB_BITS = 7,
    HIST_SUB = 1 << HIST_SUB_BITS, /* buckets per power of two */
    HIST_BUCKETS = (64 - HIST_SUB_BITS + 1) * HIST_SUB,
};

struct hist {
    uint64_t count;
    uint64_t sum;
    uint64_t min; /* UINT64_MAX while empty */
    uint64_t max;
    uint64_t bucket[HIST_BUCKETS];
};

/* Makes it empty; also the way to start over. */
void hist_init(struct hist *);

void hist_add(struct hist *, uint64_t value);

/* Adds all values of `from` to `into`, as if they had been added there one by one. */
void hist_merge(struct hist *into, const struct hist *from);

/* The value below or at which the fraction q (0 to 1) of all values lies: 0 gives the minimum, 1 the
 * maximum, exactly; in between the middle of a bucket. 0 while empty. */
uint64_t hist_quantile(const struct hist *, double q);

uint64_t hist_count(const struct hist *);
uint64_t hist_min(const struct hist *); /* 0 while empty */
uint64_t hist_max(const struct hist *); /* 0 while empty */
double hist_mean(const struct hist *);  /* 0 while empty */

#endif
