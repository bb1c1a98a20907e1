/* The directory of a backup: MANIFEST, and for each group GROUP.state, as its host wrote it (disk/format.h, backup.GROUP).
 *
 * MANIFEST is text, a line each, and ends with a check of all before it:
 *
 *     tramway backup 1
 *     backup ID                 all files have it, so that files of two backups are never taken for one
 *     cluster NAME ID
 *     protocol tree
 *     group NAME NUMBER DELIVERED BYTES CRC32C
 *     ...
 *     crc32c CRC32C
 *
 * BYTES and CRC32C are of the state; a - stands for them where the file is yet to be copied from another machine. */
#ifndef CLI_BACKUP_DIR_H
#define CLI_BACKUP_DIR_H

#include "base/err.h"
#include "conf/cluster.h"

#define BACKUP_MANIFEST "MANIFEST"

struct backup_group {
    char name[CLUSTER_NAME_BYTES];
    uint32_t number; /* in the cluster that it is of */
    uint64_t delivered;
    bool known; /* the rest is: */
    uint64_t bytes;
    uint32_t crc;
};

struct backup_dir {
    const char *path;
    unsigned char id[CLUSTER_ID_BYTES];
    char cluster[CLUSTER_NAME_BYTES];
    unsigned char cluster_id[CLUSTER_ID_BYTES];
    char protocol[16];
    uint32_t groups;
    struct backup_group group[CLUSTER_GROUPS_MAX];
};

/* Makes the directory, which must not be there. */
int backup_dir_make(const char *path, struct err *);

/* Copies the file of a host into it; what it has must be this backup's, and g gets what is known of it. */
int backup_dir_copy(const struct backup_dir *, struct backup_group *g, const char *from,
                    struct err *);

/* When all files are there. Everything is on the disk afterwards. */
int backup_dir_write(const struct backup_dir *, struct err *);

int backup_dir_read(const char *path, struct backup_dir *, struct err *);

/* Reads the group's file to its end; then all is known of it. ERR_NOTFOUND: it is not there. */
int backup_dir_check(const struct backup_dir *, struct backup_group *, struct err *);

/* The same, for who wants what is in it. */
struct backup_reader {
    const struct backup_dir *dir;
    const struct backup_group *group;
    char path[1024];
    int fd;
    uint32_t number; /* of pieces so far */
    uint64_t bytes;  /* of state so far, */
    uint32_t crc;    /* and of these */
    bool ended;
    uint32_t at; /* what of the piece is taken */
    unsigned char *piece;
    struct err err;
};

int backup_reader_open(struct backup_reader *, const struct backup_dir *,
                       const struct backup_group *, struct err *);
/* At most room bytes; 0: that was all, and it was right; negative: `err` says what is wrong. */
int backup_reader_next(struct backup_reader *, void *out, uint32_t room);
void backup_reader_close(struct backup_reader *);

#endif
