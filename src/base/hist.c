#include "base/hist.h"

#include "base/err.h"

#include <string.h>

/* With e the position of the highest bit, a value above 255 has the 7 bits below that bit as its
 * place among the 128 buckets of its power of two; lower bits are dropped (shift). Values below
 * 256 come out at their own number with shift 0. */
static unsigned bucket_of(uint64_t value)
{
    if (value < 2 * HIST_SUB)
        return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HIST_SUB_BITS;
    return shift * HIST_SUB + (unsigned)(value >> shift);
}

static uint64_t middle_of(unsigned bucket)
{
    if (bucket < 2 * HIST_SUB)
        return bucket;
    unsigned shift = bucket / HIST_SUB - 1;
    uint64_t low = (uint64_t)(bucket - shift * HIST_SUB) << shift;
    return low + ((uint64_t)1 << shift) / 2;
}

void hist_init(struct hist *h)
{
    memset(h, 0, sizeof *h);
    h->min = UINT64_MAX;
}

void hist_add(struct hist *h, uint64_t value)
{
    h->count++;
    h->sum += value;
    if (value < h->min)
        h->min = value;
    if (value > h->max)
        h->max = value;
    h->bucket[bucket_of(value)]++;
}

void hist_merge(struct hist *into, const struct hist *from)
{
    into->count += from->count;
    into->sum += from->sum;
    if (from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
    for (unsigned i = 0; i < HIST_BUCKETS; i++)
        into->bucket[i] += from->bucket[i];
}

uint64_t hist_quantile(const struct hist *h, double q)
{
    CHECK(q >= 0 && q <= 1);
    if (h->count == 0)
        return 0;
    /* The rank of the wanted value, from 1. The two ends are known exactly. */
    double wanted = q * (double)h->count;
    uint64_t rank = (uint64_t)wanted;
    if ((double)rank < wanted)
        rank++;
    if (rank <= 1)
        return h->min;
    if (rank >= h->count)
        return h->max;

    uint64_t seen = 0;
    unsigned i = 0;
    while (i < HIST_BUCKETS - 1 && (seen += h->bucket[i]) < rank)
        i++;
    uint64_t value = middle_of(i);
    /* The middle of the first or last used bucket may lie outside what was ever added. */
    if (value < h->min)
        return h->min;
    return value > h->max ? h->max : value;
}

uint64_t hist_count(const struct hist *h)
{
    return h->count;
}

uint64_t hist_min(const struct hist *h)
{
    return h->count ? h->min : 0;
}

uint64_t hist_max(const struct hist *h)
{
    return h->max;
}

double hist_mean(const struct hist *h)
{
    return h->count ? (double)h->sum / (double)h->count : 0;
}
