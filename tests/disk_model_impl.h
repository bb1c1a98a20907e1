/* The inside of the model: what was appended, and what is known of it. */
#ifndef TESTS_DISK_MODEL_IMPL_H
#define TESTS_DISK_MODEL_IMPL_H

#include "disk_break.h"
#include "disk_model.h"

#include "base/minmax.h"
#include "disk/block_sim.h"
#include "disk/scan.h"

#include <stdio.h>
#include <string.h>

enum {
    GROUPS = 4,
    HOSTS = 3,
    PLACES = 5,
    SEGMENTS = 6,
    SEGMENT_BYTES = 65536,
    BATCH_BYTES = 16384,
    RECORDS_MAX = 4096,
    RECORD_BYTES_MAX = 3000,
    SNAP_BYTES_MAX = 150000,
};

struct record {
    struct disk_record r;
    uint64_t seed; /* of its bytes */
    uint64_t batch;
    bool lost;  /* a bit was flipped in it */
    bool found; /* by the last opening */
};

struct group {
    struct record records[RECORDS_MAX];
    uint32_t count;
    uint32_t base; /* what is before it does not count: the group began anew */
    struct disk_says says;
    uint64_t pledge_covered;
    uint64_t snap;         /* durable */
    uint64_t snap_flipped; /* position of one that was damaged */
    bool beyond;           /* it was found so, and has not healed */
    uint64_t heal_at;      /* since then it took over a state; 0: not yet */
    uint64_t reset_at;     /* the last that it took over */
    bool must_reset;       /* it lacks something, or was found beyond */
};

struct writing {
    bool active;
    uint32_t group;
    uint64_t pos, bytes, at;
};

struct world {
    const struct disk_model_options *o;
    struct disk_model_tally *tally;
    struct rng rng;
    struct disk_sim *sim;
    uint64_t now;
    struct disk *d;
    struct disk_break broken; /* the order of an opening that fails */
    struct block *block;
    struct group groups[GROUPS];
    struct writing w;
    uint64_t done;      /* highest that was seen */
    uint64_t batch_max; /* highest that anything was appended to */
    uint32_t host_life[HOSTS], place_life[PLACES];
    struct {
        uint32_t covered;
        uint64_t at;
    } host_note[HOSTS], place_note[PLACES];
    bool will_fail; /* the order that ends next */
    bool opened;    /* at least once */
    uint32_t life;
    char violated[200];
};

#define VIOLATE(w, ...)                                                                            \
    do {                                                                                           \
        if ((w)->violated[0] == '\0')                                                              \
            snprintf((w)->violated, sizeof(w)->violated, __VA_ARGS__);                             \
    } while (0)

typedef unsigned long long ull;

/* Bytes that follow from a seed. */
void model_fill(uint64_t seed, uint64_t from, unsigned char *into, uint64_t bytes);
bool model_is_filled(uint64_t seed, uint64_t from, const unsigned char *p, uint64_t bytes);
uint64_t model_snap_seed(uint32_t group, uint64_t pos);
uint64_t model_snap_bytes(uint32_t group, uint64_t pos);

/* Of the disk that nobody has: a bit of a batch that has a successor, of a snapshot, of the host file. */
void model_flip_journal(struct world *);
void model_flip_snap(struct world *);
void model_flip_host(struct world *);

/* It was opened: compares what is told with what must be there. */
void model_check_opened(struct world *);

static inline bool model_chance(struct world *w, uint32_t percent)
{
    return rng_below(&w->rng, 100) < percent;
}

#endif
