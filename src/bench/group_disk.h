/* The disks of the members of a bench whose cells are logged or durable: directories, their versions, and beside them what the same batches cost without a
 * protocol. */
#ifndef BENCH_GROUP_DISK_H
#define BENCH_GROUP_DISK_H

#include "group/member.h"

/* Of one member. */
struct bench_disk {
    struct block *block; /* NULL: nothing is kept */
    struct versions *versions;
};

/* A directory of its own below `below` (NULL: TMPDIR if that is a disk, else here), and its end with all that is in it. */
int bench_disk_dir(const char *below, char *out, size_t bytes, struct err *);
void bench_disk_remove(const char *dir);

int bench_disk_open(struct bench_disk *, const char *dir, uint32_t member,
                    const struct cell_options *, uint32_t cells, struct err *);
void bench_disk_close(struct bench_disk *);

/* As many writers as there are members write batches of so many bytes and flush them, all at the same time: batches a second. */
int bench_disk_floor(const char *dir, uint32_t members, double batch_bytes, uint64_t ns,
                     double *rate, struct err *);

#endif
