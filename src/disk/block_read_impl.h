/* Reading files of a directory, some of it before it is asked for: several reads are under way at once, so that the disk is busy
 * while what has come is looked at. Of the owner's thread. */
#ifndef DISK_BLOCK_READ_IMPL_H
#define DISK_BLOCK_READ_IMPL_H

#include "disk/block_work_impl.h"

#include <linux/aio_abi.h>

/* A read that was begun and not yet asked for. */
struct read_ahead {
    bool used;
    bool over;      /* and `result` is what became of it */
    int64_t result; /* bytes, or a negative errno */
    char name[BLOCK_NAME_BYTES];
    uint64_t at, bytes;
    void *into;
    struct iocb control;
};

struct reader {
    struct work work; /* its descriptors */
    aio_context_t context;
    bool tried; /* to make the context */
    bool works; /* it is there */
    struct read_ahead ahead[BLOCK_AHEAD_MAX];
};

void reader_init(struct reader *, struct work_dir *);
void reader_fini(struct reader *);

/* As block_read, block_ahead and block_ahead_end. */
int reader_read(struct reader *, const char *name, uint64_t at, void *into, uint64_t bytes,
                struct err *);
void reader_ahead(struct reader *, const char *name, uint64_t at, void *into, uint64_t bytes);
void reader_ahead_end(struct reader *);

#endif
