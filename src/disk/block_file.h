/* Files of a real directory. Each lane has a thread of its own that writes: O_DIRECT and fdatasync, and the directory where names
 * change. The caller never waits, but to read. */
#ifndef DISK_BLOCK_FILE_H
#define DISK_BLOCK_FILE_H

#include "disk/block.h"

struct block_file_options {
    const char *dir; /* is there */
    /* From another thread, when an order is over; so that who sleeps looks. Also while it is closed. May be NULL. */
    void (*over)(void *ctx);
    void *ctx;
    bool apart; /* the caller never sleeps: the threads that write must not run on its core */
    uint64_t bulk_bytes_per_s; /* how fast BLOCK_BULK may write; 0: 256 MiB */
};

/* Takes the directory for this process alone: ERR_EXISTS if another one has it. What is made in it is for its owner alone. File
 * systems without O_DIRECT are written through the page cache, and flushed as well. */
int block_file_open(const struct block_file_options *, struct block **, struct err *);

/* For who only looks at a directory that another process may have: its files are listed and read, and no order is given. */
int block_look_open(const char *dir, struct block **, struct err *);

/* For tests of the loss of power: as above, but nothing is flushed to the disk, and what an order replaces is kept beside the files,
 * in `DIR/shadow`, until it is over. A process that is killed leaves both, so that the next one reads what it had written, as
 * from a page cache. block_shadow_cut does what the loss of power does: of what was not flushed a subset, drawn from the seed,
 * is undone, whole sectors and names each. ERR_EXISTS: a process has the directory. */
int block_shadow_open(const struct block_file_options *, struct block **, struct err *);
int block_shadow_cut(const char *dir, uint64_t seed, struct err *);

#endif
