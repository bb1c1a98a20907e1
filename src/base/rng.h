/* Random numbers from a seed: the same seed gives the same stream on every machine.
 *
 * xoshiro256** (Blackman and Vigna), its state filled by splitmix64 so that neighbouring seeds
 * give unrelated streams. Caller's memory, one thread, no failure. Not for secrets. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t s[4]; /* never all zero */
};

/* One step of splitmix64: advances *state and returns the next word. */
static inline uint64_t rng_splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline void rng_init(struct rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        r->s[i] = rng_splitmix64(&seed);
}

static inline uint64_t rng_rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

/* All 64 bits are random. */
static inline uint64_t rng_u64(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rng_rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rng_rotl(s[3], 45);
    return result;
}

/* A number in [0, n), n > 0. Multiplies instead of dividing; the bias is at most n / 2^64. */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
    __extension__ typedef unsigned __int128 wide;

    CHECK(n > 0);
    return (uint64_t)(((wide)rng_u64(r) * n) >> 64);
}

/* A number in [lo, hi], both included. */
static inline uint64_t rng_range(struct rng *r, uint64_t lo, uint64_t hi)
{
    CHECK(lo <= hi);
    if (hi - lo == UINT64_MAX)
        return rng_u64(r);
    return lo + rng_below(r, hi - lo + 1);
}

/* True with a chance of ppm in a million. Draws one number whatever ppm is, so that turning one
 * fault off leaves the rest of a run's draws in place. */
static inline bool rng_chance_ppm(struct rng *r, uint32_t ppm)
{
    return rng_below(r, 1000000) < ppm;
}

#endif
