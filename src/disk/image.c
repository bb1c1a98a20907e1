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
    grow_free(s->image_memory);
    s->image = s->image_memory = NULL;
}

int image_read(struct disk *d, struct segment *s, struct err *e)
{
    int rc = 0;

    if (s->image)
        return 0;
    s->image_memory = grow(what, NULL, 1, d->segment_bytes + BLOCK_BYTES);
    s->image = (unsigned char *)(format_blocks((uintptr_t)s->image_memory));
    for (uint64_t at = 0; rc >= 0 && at < d->segment_bytes; at += IMAGE_PART_BYTES)
        rc = image_read_part(d, s->name, s->image + at, at,
                             min_u64(IMAGE_PART_BYTES, d->segment_bytes - at), e);
    return rc;
}
