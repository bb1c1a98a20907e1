/* What a member keeps on its disk: the logs of its logged and durable cells (group/versions.h), in DATA/HOST.versions. */
#ifndef API_GROUP_KEPT_H
#define API_GROUP_KEPT_H

#include "api/api.h"
#include "api/disk.h"
#include "api/signing.h"
#include "group/member.h"

struct group_kept {
    struct block *block; /* NULL: no cell is kept */
    struct versions *versions;
    struct group_signing signing;
    struct say say;
    char who[80]; /* for its lines */
};

/* DATA/HOST.versions. */
int group_kept_path(const struct tram_cluster *, uint32_t host, char *out, size_t bytes,
                    struct err *);

/* Makes the directory if it is not there. `over` as in block_file.h. Nothing is opened if no cell is kept. */
int group_kept_open(const struct tram_cluster *, uint32_t host, const struct cell_options *,
                    uint32_t cells, void (*over)(void *ctx), void *ctx, struct say,
                    struct group_kept *, struct err *);

/* The same on a disk that stays the caller's: versions alone are opened, and closed by versions_close. */
int group_kept_open_on(struct block *, const struct tram_cluster *, uint32_t host,
                       const struct cell_options *, uint32_t cells, struct say, struct group_kept *,
                       struct err *);

/* The other directory of such a group, DATA/HOST: what the keepers decide, and lives. It is not made here. */
int group_kept_disk(const struct tram_cluster *, uint32_t host, void (*over)(void *ctx), void *ctx,
                    const struct say *, struct api_disk *, struct err *);

/* For who only looks: the files of a host that runs, or does not. */
int group_kept_look(const struct tram_cluster *, uint32_t host, struct block **, struct err *);
struct versions_owner group_kept_owner(const struct tram_cluster *, uint32_t host);

/* Until all that was appended is on the disk, for that long at most. */
void group_kept_flush(struct group_kept *, uint64_t ns);
void group_kept_close(struct group_kept *);

#endif
