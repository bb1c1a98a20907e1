/* Files of one directory, and orders that change them durably.
 *
 * An *order* is a list of steps, done one after the other and then flushed: the files that it writes, and the directory where it
 * changes names. When it is over, all of it survives the loss of power. Until then any part of it may: steps in any order, and of
 * a write any of its sectors of BLOCK_SECTOR_BYTES, each whole. Only a file that is created is there with all its zeros, or is not
 * there. What a step names stays in place until the order is over.
 *
 * What a process that died has left may be in a cache only: it is read and listed, and gone after a power cut. A flush takes it
 * along: a file's with what is written to it, the directory's with any name that changes. An order without steps flushes
 * everything that there is, and is how a process begins that wants to count on what it reads.
 *
 * A *lane* has one order under way. BLOCK_JOURNAL is for what somebody waits for; BLOCK_BULK for what may take its time
 * (new segments, snapshots), and is slowed so that the other stays quick. The lanes know nothing of each other: no two orders
 * that are under way may touch the same file.
 *
 * An order that failed is never tried again: the kernel may have dropped the pages, and a second flush would then succeed.
 * BLOCK_FAILED is for good, for both lanes; whoever sees it ends the process. BLOCK_NO_ROOM comes of BLOCK_CREATE and BLOCK_GROW
 * alone, only where there is no room for the file: nothing of it is left, what it was to replace is as it was, one that was to
 * grow is as long as it was; the steps before it are done, those behind it are not. So what is written goes into files that are
 * there, and a full disk meets only those who want another one, or a longer one. A file that replaces another needs its room
 * besides.
 *
 * Reading waits for the disk, and is for the time before the thread that polls begins; not of a file that an order under way
 * touches. It may be announced, so that there is less to wait for. All of it belongs to one thread. Names have no folder, begin with a letter or a digit, and have at most
 * BLOCK_NAME_BYTES with their end; `shadow` is not one. Positions, sizes and addresses in memory of what is written and read are
 * multiples of BLOCK_BYTES (the page cache is not trusted to tell what is on the disk). */
#ifndef DISK_BLOCK_H
#define DISK_BLOCK_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    BLOCK_BYTES = 4096,
    BLOCK_SECTOR_BYTES = 512,
    BLOCK_NAME_BYTES = 64,
    BLOCK_STEPS_MAX = 16, /* of an order */
    BLOCK_AHEAD_MAX = 8,  /* reads that are begun and not yet asked for */
};

enum block_lane { BLOCK_JOURNAL, BLOCK_BULK, BLOCK_LANES };

enum block_act {
    BLOCK_WRITE,  /* data to [at, at + bytes) of the file, which is there and as long */
    BLOCK_CREATE, /* the file, of so many zeros; one that is there is replaced */
    BLOCK_RENAME, /* it to `to`, which it replaces */
    BLOCK_REMOVE, /* it; nothing if it is not there */
    BLOCK_GROW,   /* the file, which is there, to so many bytes; what is added is zeros */
};

struct block_step {
    enum block_act act;
    const char *name;
    const char *to;   /* BLOCK_RENAME */
    const void *data; /* BLOCK_WRITE */
    uint64_t at;      /* BLOCK_WRITE */
    uint64_t bytes;   /* BLOCK_WRITE, BLOCK_CREATE, BLOCK_GROW */
};

enum block_status {
    BLOCK_FREE,    /* nothing is under way */
    BLOCK_BUSY,    /* an order is */
    BLOCK_DONE,    /* it is over, and durable; said once, then the lane is free */
    BLOCK_NO_ROOM, /* likewise, but a file could not be made */
    BLOCK_FAILED,  /* for good; block_failure says what failed */
};

struct block;

struct block_ops {
    void (*begin)(struct block *, enum block_lane, const struct block_step *, uint32_t steps);
    enum block_status (*poll)(struct block *, enum block_lane);
    /* Calls fn for each file, in any order. */
    int (*list)(struct block *, void (*fn)(void *ctx, const char *name, uint64_t bytes), void *ctx,
                struct err *);
    /* Reads all of the bytes, or fails: ERR_NOTFOUND: no such file; ERR_CORRUPT: the disk says that it cannot be read. */
    int (*read)(struct block *, const char *name, uint64_t at, void *into, uint64_t bytes,
                struct err *);
    /* NULL: nothing is read before it is asked for. */
    void (*ahead)(struct block *, const char *name, uint64_t at, void *into, uint64_t bytes);
    void (*ahead_end)(struct block *);
    const char *(*failure)(struct block *);
    /* Of an order under way: waits until poll may say something else. NULL: it is enough to poll again. */
    void (*wait)(struct block *, enum block_lane);
    /* BLOCK_BULK is waited for, too, and not slowed: from now on, also what is under way. NULL: it never is. */
    void (*hurry)(struct block *, bool);
    /* Waits for what is under way. */
    void (*close)(struct block *);
};

/* A backend's own struct begins with it. */
struct block {
    const struct block_ops *ops;
};

/* Whether a file may be called so. */
bool block_name_fits(const char *name);

/* The lane is free, or has failed: then nothing happens. The steps are copied, what they point to is not. */
void block_begin(struct block *, enum block_lane, const struct block_step *, uint32_t count);

static inline enum block_status block_poll(struct block *b, enum block_lane lane)
{
    return b->ops->poll(b, lane);
}

/* As poll, but waits until the order is over. For the time before the thread that polls begins. */
enum block_status block_wait(struct block *, enum block_lane);

static inline int block_list(struct block *b,
                             void (*fn)(void *ctx, const char *name, uint64_t bytes), void *ctx,
                             struct err *e)
{
    return b->ops->list(b, fn, ctx, e);
}

int block_read(struct block *, const char *name, uint64_t at, void *into, uint64_t bytes,
               struct err *);

/* A block_read with the same arguments is to come: it may begin now. Until then, or block_ahead_end, `into` belongs to the block. Says
 * nothing: what becomes of it that read tells. Of more than BLOCK_AHEAD_MAX the rest is not begun. */
void block_ahead(struct block *, const char *name, uint64_t at, void *into, uint64_t bytes);

/* Reads that were announced do not come: waits until none is under way. */
static inline void block_ahead_end(struct block *b)
{
    if (b->ops->ahead_end)
        b->ops->ahead_end(b);
}

static inline const char *block_failure(struct block *b)
{
    return b->ops->failure(b);
}

static inline void block_hurry(struct block *b, bool hurry)
{
    if (b->ops->hurry)
        b->ops->hurry(b, hurry);
}

static inline void block_close(struct block *b)
{
    if (b)
        b->ops->close(b);
}

#endif
