/* The steps of orders, done to the files of a directory: what the thread of a lane does. */
#ifndef DISK_BLOCK_WORK_IMPL_H
#define DISK_BLOCK_WORK_IMPL_H

#include "disk/block.h"
#include "disk/block_shadow_impl.h"

#include <stdatomic.h>
#include <sys/stat.h>

enum { WORK_FILES = 8 };

/* One for all lanes. */
struct work_dir {
    int fd;
    char *path;
    struct shadow *shadow; /* NULL: flushes are real */
    atomic_ulong changes;  /* of names: descriptors that were kept by name do not count any more */
    atomic_bool hurry;     /* nobody is slowed any more */
};

struct work_file {
    char name[BLOCK_NAME_BYTES];
    int fd;
    bool dirty; /* written to since the last flush */
    uint64_t bytes;
};

/* Of one thread. */
struct work {
    struct work_dir *dir;
    const char *temp;     /* the name that a file has while it is made */
    uint64_t bytes_per_s; /* 0: as fast as it goes */
    uint64_t free_ns;     /* when the next may be written */
    struct work_file files[WORK_FILES];
    uint32_t count, oldest;
    uint64_t changes; /* that were seen */
    bool names_dirty;
    struct err err; /* what failed */
};

/* Opens the directory, for this process alone: a descriptor, or ERR_EXISTS. */
int block_lock(const char *path, struct err *);

void work_init(struct work *, struct work_dir *, const char *temp, uint64_t bytes_per_s);
void work_fini(struct work *);

/* BLOCK_DONE, BLOCK_NO_ROOM or BLOCK_FAILED. */
enum block_status work_do(struct work *, const struct block_step *, uint32_t count);
int work_read(struct work *, const char *name, uint64_t at, void *into, uint64_t bytes,
              struct err *);

/* A descriptor of the file, to read from until the next call; -1: there is none. */
int work_fd(struct work *, const char *name);

/* Calls fn for each file until it returns negative, and then returns that. */
int work_each(const struct work_dir *, int (*fn)(void *ctx, const char *name, uint64_t bytes),
              void *ctx, struct err *);

#endif
