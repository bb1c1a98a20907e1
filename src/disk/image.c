/* Segments as they are read, into memory that is kept until disk_forget. */
#include "base/grow.h"
#include "base/minmax.h"
#include "disk/disk_impl.h"

#include <string.h>

static const char what[] = "the journal as it is read";

/* What cannot be read is taken for zeros: so its batch is bad. */
int image_read_part(struct disk *d, const char *name, unsigned char *into, uint64_t at,
                    uint64_t bytes, struct err *e)
{
    int rc = block_read(d->block, name, at, into, bytes, e);

    if (rc != ERR_CORRUPT)
        return rc;
    for (uint64_t i = 0; i < bytes; i += BLOCK_BYTES) {
        rc = block_read(d->block, name, at + i, into + i, BLOCK_BYTES, e);
        if (rc == ERR_CORRUPT)
            memset(into + i, 0, BLOCK_BYTES);
        else if (rc < 0)
            return rc;
    }
    return 0;
}

void image_drop(struct segment *s)
{
    grow_free(s->image);
    s->image = NULL;
}

static uint64_t part_bytes(const struct disk *d, uint64_t at)
{
    return min_u64(IMAGE_PART_BYTES, d->segment_bytes - at);
}

int image_read(struct disk *d, struct segment *s, struct err *e)
{
    uint64_t begun = 0;
    int rc = 0;

    if (s->image)
        return 0;
    s->image = grow_pages(what, d->segment_bytes);
    for (uint64_t at = 0; rc >= 0 && at < d->segment_bytes; at += IMAGE_PART_BYTES) {
        for (; begun < d->segment_bytes && begun < at + READ_AHEAD * (uint64_t)IMAGE_PART_BYTES;
             begun += IMAGE_PART_BYTES)
            block_ahead(d->block, s->name, begun, s->image + begun, part_bytes(d, begun));
        rc = image_read_part(d, s->name, s->image + at, at, part_bytes(d, at), e);
    }
    block_ahead_end(d->block);
    return rc;
}
