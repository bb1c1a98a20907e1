/* A simulated disk, in virtual time, that outlives the processes that use it.
 *
 * It has platters and a cache. What is written is in the cache; a flush brings it to the platters. A process that dies leaves
 * its orders half done: the steps that were done by then are in the cache, and stay there. A power cut leaves of the cache any
 * subset of sectors and of changes of names, drawn from the seed. Everything that is drawn comes from the seed and the calls
 * so far: the same again gives the same again.
 *
 * What a caller does wrong is found here, and ends the process: two orders under way that touch the same file, a write beyond its
 * end, a rename of nothing. */
#ifndef DISK_BLOCK_SIM_H
#define DISK_BLOCK_SIM_H

#include "base/rng.h"
#include "disk/block.h"

struct disk_sim;

struct disk_sim_options {
    uint64_t seed;
    uint64_t flush_ns_min, flush_ns_max; /* an order takes that long; both 0: 50 us, 200 us */
    uint64_t bytes_max;                  /* files beyond that have no room; 0: no limit */
};

struct disk_sim *disk_sim_open(const struct disk_sim_options *);
void disk_sim_close(struct disk_sim *);

/* The process that has the disk. *now_ns is read whenever it is looked at; one at a time. Closing it without
 * block_close, by disk_sim_die, is the death of the process; what its orders point to must still be there then. An order whose
 * time has come is over, though nobody has polled. */
struct block *disk_sim_block(struct disk_sim *, const uint64_t *now_ns);
void disk_sim_die(struct disk_sim *);

/* When the next order is over; UINT64_MAX: none is under way. */
uint64_t disk_sim_next_ns(const struct disk_sim *);

/* Nobody has it. */
void disk_sim_power_cut(struct disk_sim *);
void disk_sim_wipe(struct disk_sim *); /* another disk, and blank, and well */

/* One bit of the byte there, on the platters; false: nothing is there. What the cache has of it hides it. */
bool disk_sim_flip(struct disk_sim *, const char *name, uint64_t at);
/* One bit, drawn, of all that was ever written to files whose names begin so. */
bool disk_sim_flip_any(struct disk_sim *, const char *prefix);

/* Every order from now on takes that long; 0: as before. */
void disk_sim_slow(struct disk_sim *, uint64_t flush_ns);
/* Files beyond that have no room from now on; 0: no limit. */
void disk_sim_limit(struct disk_sim *, uint64_t bytes_max);
/* The order that ends next fails, and any subset of it is written. The disk is as good as before for the next process. */
void disk_sim_fail(struct disk_sim *);
/* The same of the so-manieth order that ends, which may be one of the next process. */
void disk_sim_fail_later(struct disk_sim *, uint32_t orders);
uint64_t disk_sim_failures(const struct disk_sim *); /* how often one did */

/* For checkers: what would be read and listed after a power cut that left nothing of the cache. */
int disk_sim_platter(struct disk_sim *, const char *name, uint64_t at, void *into, uint64_t bytes);
void disk_sim_platter_list(const struct disk_sim *,
                           void (*fn)(void *ctx, const char *name, uint64_t bytes), void *ctx);
uint64_t disk_sim_bytes(const struct disk_sim *); /* of all files */

#endif
