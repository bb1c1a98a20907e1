/* A disk under a model that knows what was appended, and what of it must be there after each fall.
 *
 * A run is drawn from its seed: several groups append, pledge, say, take over states and make snapshots, on a journal of tiny
 * segments, so that everything wraps; the process dies, power is cut, flushes are slow or fail, bits flip, the disk is full. After
 * each opening the model compares. */
#ifndef TESTS_DISK_MODEL_H
#define TESTS_DISK_MODEL_H

#include "base/rng.h"

#include <stdint.h>

struct disk_model_options {
    uint64_t seed;
    uint32_t lives;   /* how often it is opened; 0: 6 */
    uint32_t steps;   /* in each; 0: 120 */
    bool no_flips;    /* of bits */
    bool no_failures; /* of flushes */
    bool full;        /* the disk has hardly room */
};

/* What happened in the runs so far, so that a test can tell that it tested something. */
struct disk_model_tally {
    uint64_t opened, records, covered, snapshots, torn, below, beyond, healed, flips, refused,
        wrapped, no_room, failed;
};

/* NULL, or what is violated; the text is valid until the next run. */
const char *disk_model_run(const struct disk_model_options *, struct disk_model_tally *);

#endif
