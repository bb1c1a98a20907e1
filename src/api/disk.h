/* The disk of a host, in a durable cluster: its directory, and what there is of it to the layers below. */
#ifndef API_DISK_H
#define API_DISK_H

#include "disk/block_file.h"
#include "disk/disk.h"
#include "mem/lives.h"

struct tram_cluster;

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

/* What the directory is compared with when it is opened. */
struct disk_shape api_disk_shape(const struct tram_cluster *, uint32_t host);

/* Makes the directory one of this host, in its first life, or, after its disk was lost, in a later one. ERR_EXISTS: there is one. */
int api_disk_format(const struct tram_cluster *, uint32_t host, uint32_t life, struct err *);

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

/* Nothing is under way any more: before what is under way goes. And the rest. */
void api_disk_stop(struct api_disk *);
void api_disk_close(struct api_disk *);

/* For tests of the loss of power: hosts that are opened from now on have disks with a shadow (block_file.h). */
void api_disk_use_shadow(bool);

/* Likewise: they have the sizes of these options, and not what the cluster file says. With small ones a journal is soon made, read
 * and half full. NULL: as it was. */
void api_disk_use_sizes(const struct disk_options *);

#endif
