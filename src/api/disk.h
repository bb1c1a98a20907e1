/* The disk of a host, in a durable cluster: its directory, and what there is of it to the layers below. */
#ifndef API_DISK_H
#define API_DISK_H

#include "disk/block_file.h"
#include "disk/disk.h"
#include "mem/lives.h"
#include "tram.h"

struct api_disk {
    struct block *block;
    struct disk *disk;
    struct mem_lives lives;
    uint64_t *place_due; /* by place: the batch that has the last life noted */
    uint64_t *host_due;
    uint32_t *
        place_before; /* lives of each place that were known when the host was open; NULL: it is not yet */
};

/* DATA/HOST, of that host. */
int api_disk_path(const struct tram_cluster *, uint32_t host, char *out, size_t bytes,
                  struct err *);

/* Files of another directory beside it, which is made if it is not there. `over` as in block_file.h. */
int api_disk_block(const struct tram_cluster *, const char *dir, void (*over)(void *ctx), void *ctx,
                   struct block **, struct err *);

/* What the directory is compared with when it is opened. */
struct disk_shape api_disk_shape(const struct tram_cluster *, uint32_t host);

/* What stands where a host's directory belongs: 0: its own. ERR_NOTFOUND: nothing, or an empty directory. Else there is something
 * that must not be touched, and the text says what: another's directory, a later version's, a damaged one, other files; or a
 * process has it. */
int api_disk_whose(const struct tram_cluster *, uint32_t host, struct err *);

/* Makes the directory one of this host, in its first life, or, after its disk was lost, in a later one. Touches nothing that is
 * there: ERR_EXISTS: it is this host's already; else as api_disk_whose. */
int api_disk_format(const struct tram_cluster *, uint32_t host, uint32_t life, struct err *);

/* Where the states of groups come from that a cluster is to begin with; each is opened, read to its end, and closed. */
struct api_disk_source {
    int (*open)(void *ctx, uint32_t group, struct err *);
    int (*next)(void *ctx, void *out, uint32_t room); /* as in disk_initial_write */
    void (*close)(void *ctx);
    void *ctx;
};

/* As api_disk_format, in its first life, with these states. Where it fails nothing is left. */
int api_disk_restore(const struct tram_cluster *, uint32_t host, const struct api_disk_source *,
                     struct err *);

/* For who only looks at a directory of a host that does not run. disk_close, then block_close. */
int api_disk_look_open(const struct tram_cluster *, uint32_t host, struct block **, struct disk **,
                       struct err *);

/* Opens it and counts a life. `over` as in block_file.h. ERR_NOTFOUND: it was not made. */
int api_disk_open(const struct tram_cluster *, uint32_t host, void (*over)(void *ctx), void *ctx,
                  struct api_disk *, struct err *);

/* What was delivered again is all that the disk knows of: the host is going to meet others. */
int api_disk_opened(struct api_disk *, uint32_t places, struct err *);
static inline bool api_disk_is_open(const struct api_disk *d)
{
    return d->place_before != NULL;
}

/* A client's place was used in this life, as a log says. */
static inline void api_disk_saw_client(struct api_disk *d, uint32_t place, uint32_t life)
{
    if (life >= disk_place_life(d->disk, place))
        d->lives.note_place(d, place, life + 1);
}

/* What it is doing, but for what that means to groups. */
void api_disk_stats(const struct disk *, struct tram_disk_stats *);

/* Nothing is under way any more: before what is under way goes. And the rest. */
void api_disk_stop(struct api_disk *);
void api_disk_close(struct api_disk *);

/* For tests of the loss of power: hosts that are opened from now on have disks with a shadow (block_file.h). */
void api_disk_use_shadow(bool);

/* Likewise: they have the sizes of these options, and not what the cluster file says. With small ones a journal is soon made, read
 * and half full. NULL: as it was. */
void api_disk_use_sizes(const struct disk_options *);

#endif
