#include "base/rng.h"
#include "bench/bench.h"

/* The first k of all groups in random order. */
static void draw_any(struct rng *rng, uint32_t n, uint32_t k, uint16_t *set)
{
    uint16_t order[OVERLAY_GROUPS_MAX];
    for (uint32_t g = 0; g < n; g++)
        order[g] = (uint16_t)g;
    for (uint32_t i = 0; i < k; i++) {
        uint32_t other = i + (uint32_t)rng_below(rng, n - i);
        set[i] = order[other];
        order[other] = order[i];
    }
}

static bool has(const uint16_t *set, uint32_t count, uint16_t g)
{
    for (uint32_t i = 0; i < count; i++)
        if (set[i] == g)
            return true;
    return false;
}

static bool borders(const struct overlay *o, const uint16_t *set, uint32_t count, uint16_t g)
{
    for (uint32_t i = 0; i < count; i++)
        if (overlay_parent(o, g) == set[i] || overlay_parent(o, set[i]) == g)
            return true;
    return false;
}

static void draw_adjacent(struct rng *rng, const struct overlay *o, uint32_t k, uint16_t *set)
{
    set[0] = (uint16_t)rng_below(rng, o->n);
    for (uint32_t count = 1; count < k; count++) {
        uint16_t border[OVERLAY_GROUPS_MAX];
        uint32_t found = 0;
        for (uint16_t g = 0; g < o->n; g++)
            if (!has(set, count, g) && borders(o, set, count, g))
                border[found++] = g;
        CHECK(found > 0); /* a tree is connected */
        set[count] = border[rng_below(rng, found)];
    }
}

int bench_sets(const struct bench_args *a, const struct overlay *o, uint16_t *sets, uint32_t count,
               struct err *e)
{
    struct rng rng;
    rng_init(&rng, 1);
    for (uint32_t i = 0; i < count; i++) {
        uint16_t *set = sets + (size_t)i * a->dst;
        if (a->adjacent)
            draw_adjacent(&rng, o, a->dst, set);
        else
            draw_any(&rng, a->groups, a->dst, set);
        struct dst_set sorted;
        int rc = dst_normalise(set, a->dst, a->groups, &sorted, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}
