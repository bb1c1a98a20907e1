/* What a simulated disk consists of: files, each with blocks on the platters and writes in the cache, and their names in both.
 *
 * The platters are blocks that were ever written, and names. The cache holds only what the platters do not have: writes, in
 * their order, and changes of names. An order that goes well passes it by; only death and failure leave something there. */
#ifndef DISK_BLOCK_SIM_IMPL_H
#define DISK_BLOCK_SIM_IMPL_H

#include "base/rng.h"
#include "disk/block.h"

struct sim_cached {
    uint64_t at, bytes;
    unsigned char *data;
};

struct sim_file {
    uint64_t bytes;
    uint64_t kept_bytes;    /* on the platters, where it is shorter while a growth is not flushed */
    unsigned char **blocks; /* on the platters; NULL: zeros */
    struct sim_cached *cache; /* the later over the earlier */
    uint32_t cached;
};

struct sim_entry {
    char name[BLOCK_NAME_BYTES];
    struct sim_file *file;
};

/* A directory: few names, so each is looked for from the start. */
struct sim_names {
    struct sim_entry *entries;
    uint32_t count;
};

struct sim_change {
    enum block_act act;
    char name[BLOCK_NAME_BYTES], to[BLOCK_NAME_BYTES];
    struct sim_file *file;
};

struct sim_dir {
    struct sim_file **files; /* all that are named anywhere below */
    uint32_t file_count;
    struct sim_names platter, cache;
    struct sim_change *changes; /* that lead from the names on the platters to those in the cache */
    uint32_t change_count;
};

/* Of zeros, on the platters too. */
struct sim_file *sim_file_make(uint64_t bytes);
void sim_file_free(struct sim_file *);
void sim_file_grow(struct sim_file *, uint64_t bytes);

/* The platters. */
unsigned char *sim_file_block(struct sim_file *, uint64_t at);
void sim_file_put(struct sim_file *, uint64_t at, const unsigned char *from, uint64_t bytes);
void sim_file_get(const struct sim_file *, uint64_t at, unsigned char *into, uint64_t bytes);
uint64_t sim_file_written(const struct sim_file *); /* how many blocks ever were */

/* The cache, and the platters where it has nothing. */
void sim_file_cache(struct sim_file *, uint64_t at, const unsigned char *from, uint64_t bytes);
void sim_file_read(const struct sim_file *, uint64_t at, unsigned char *into, uint64_t bytes);

void sim_file_flush(struct sim_file *);
/* Of the bytes each sector comes to the platters by chance. */
void sim_file_scatter(struct sim_file *, struct rng *, uint32_t ppm, uint64_t at,
                      const unsigned char *data, uint64_t bytes);
/* So does each of what the cache has; the rest is gone. */
void sim_file_lose(struct sim_file *, struct rng *, uint32_t ppm);

/* By the names in the cache; on the platters. */
struct sim_file *sim_dir_find(const struct sim_dir *, const char *name);
struct sim_file *sim_dir_find_kept(const struct sim_dir *, const char *name);

struct sim_file *sim_dir_make(struct sim_dir *, uint64_t bytes); /* not yet named */
/* Creates, renames or removes, in the cache. */
void sim_dir_change(struct sim_dir *, const struct block_step *, struct sim_file *);
void sim_dir_flush(struct sim_dir *);
void sim_dir_lose(struct sim_dir *, struct rng *, uint32_t ppm);
void sim_dir_wipe(struct sim_dir *);
void sim_dir_fini(struct sim_dir *);

#endif
