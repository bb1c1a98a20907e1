/* The race around a raise, for tests on whatever backend: a writer under one ballot streams entries into a lane
 * while somebody else raises and then reads. Whatever was, or is later, reported done must be in what was
 * read (mem.h, 3 and 4). */
#ifndef TESTS_MEM_RACE_H
#define TESTS_MEM_RACE_H

#include "base/clock.h"
#include "base/rng.h"
#include "mem/mem.h"

struct race {
    struct mem *writer, *candidate;
    struct mem_lane *out, *seen; /* the lane as each of the two has it */
    uint64_t ballot;             /* promised to the writer; the candidate raises the next one */
    struct rng *rng;
    void (*step)(void); /* time goes by, for all nodes of this process */
    uint64_t *ring;     /* room for the lane's ring, of 2 KiB at least */
    uint64_t until_ns;

    uint64_t done; /* entries that the writer was told of */
};

enum { RACE_ENTRIES = 60, RACE_LATE_STEPS = 20 };

/* NULL, or what was seen that may not be. */
static inline const char *race_run(struct race *r)
{
    const struct mem_lane_spec *s = &r->out->spec;
    struct mem_op op = {.status = MEM_DONE};
    struct mem_flow f;
    uint64_t guard = 0, k = 0;
    uint64_t raise_at = 1 + rng_below(r->rng, RACE_ENTRIES), last = raise_at + RACE_ENTRIES;
    enum { NOT_YET, RAISING, READING_GUARD, READING_RING, OVER } stage = NOT_YET;

    mem_flow_open(r->writer, &f, s->owner, s->region, r->ballot);
    mem_set1(r->writer, &f, r->out, 0, 0);
    while ((stage != OVER || (f.status == MEM_DONE && f.done < k)) &&
           clock_now_ns() < r->until_ns) {
        for (uint64_t n = rng_below(r->rng, 4); n > 0 && k < last; n--) {
            k++;
            uint64_t entry[] = {r->ballot << 16 | k, ~k};
            mem_put(r->writer, &f, r->out, 16 * k, entry, sizeof entry);
            mem_set1(r->writer, &f, r->out, 0, k);
            mem_mark(r->writer, &f, k);
        }
        switch (rng_below(r->rng, 4)) { /* not everybody runs all the time */
        case 0:
            mem_poll(r->writer);
            break;
        case 1:
            mem_poll(r->candidate);
            break;
        default:
            r->step();
        }
        if (op.status == MEM_PENDING)
            continue;
        if (op.status != MEM_DONE)
            return "a raise or a read was refused or lost";
        if (stage == NOT_YET && k >= raise_at) {
            mem_raise(r->candidate, &op, s->owner, s->region, r->ballot + 1);
            stage = RAISING;
        } else if (stage == RAISING) {
            mem_read_ctl(r->candidate, &op, r->seen, 0, 1, &guard);
            stage = READING_GUARD;
        } else if (stage == READING_GUARD) {
            mem_read_ring(r->candidate, &op, r->seen, 0, r->ring, s->ring_bytes);
            stage = READING_RING;
        } else if (stage == READING_RING) {
            stage = OVER;
        }
    }
    if (stage != OVER)
        return "it took too long";
    for (int i = 0; i < RACE_LATE_STEPS; i++)
        r->step();
    r->done = f.done;
    if (f.status != MEM_DENIED && f.done != k)
        return "the writer was neither denied nor told that all is done";
    if (guard < f.done)
        return "the guard that was read is behind what was reported done";
    for (uint64_t i = 1; i <= f.done; i++)
        if (r->ring[2 * i] != (r->ballot << 16 | i) || r->ring[2 * i + 1] != ~i)
            return "an entry that was reported done is not in what was read";
    mem_flow_close(r->writer, &f);
    return NULL;
}

#endif
