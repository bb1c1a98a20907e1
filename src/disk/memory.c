/* Memory: all of it is taken when the disk is opened; what was read of the journal goes when it is not needed any more. */
#include "base/grow.h"
#include "base/minmax.h"
#include "base/pages.h"
#include "disk/disk_impl.h"

#include <stdlib.h>
#include <string.h>

/* Whether all of it was there. */
static bool batches_open(struct disk *d, uint64_t buffer_bytes)
{
    bool all = true;

    d->batch_count = (uint32_t)max_u64(buffer_bytes / d->batch_bytes, BATCHES_MIN);
    d->batches = calloc(d->batch_count, sizeof *d->batches);
    for (uint32_t i = 0; d->batches && i < d->batch_count; i++) {
        d->batches[i].memory = pages_alloc(d->batch_bytes);
        d->batches[i].items = calloc(d->items_max, sizeof *d->batches[i].items);
        all &= d->batches[i].memory && d->batches[i].items;
    }
    return d->batches && all;
}

static bool groups_open(struct disk *d)
{
    d->groups = calloc(d->shape.groups + 1u, sizeof *d->groups);
    d->host_lives = calloc(d->shape.hosts + 1u, sizeof *d->host_lives);
    d->place_lives = calloc(d->shape.clients + 1u, sizeof *d->place_lives);
    return d->groups && d->host_lives && d->place_lives;
}

static bool buffers_open(struct disk *d)
{
    bool all = true;

    for (uint32_t i = 0; i < SLOTS; i++)
        all &= (d->slots[i] = aligned_alloc(BLOCK_BYTES, SLOT_BYTES)) != NULL;
    for (uint32_t i = 0; i < HALVES; i++)
        all &= (d->snap.half[i] = aligned_alloc(BLOCK_BYTES, HALF_BYTES)) != NULL;
    return all;
}

static bool segments_open(struct disk *d)
{
    bool all = true;

    d->segments = calloc(d->segment_count, sizeof *d->segments);
    for (uint32_t i = 0; d->segments && i < d->segment_count; i++) {
        segment_name(d->segments[i].name, i);
        d->segments[i].need = calloc(d->shape.groups + 1u, sizeof *d->segments[i].need);
        all &= d->segments[i].need != NULL;
    }
    return d->segments && all;
}

int memory_disk_open(struct disk *d, uint64_t buffer_bytes, struct err *e)
{
    return groups_open(d) && buffers_open(d) && segments_open(d) && batches_open(d, buffer_bytes)
               ? 0
               : err_set(e, ERR_NOMEM, "no memory for the buffers of the disk");
}

void disk_forget(struct disk *d)
{
    for (uint32_t i = 0; d->segments && i < d->segment_count; i++)
        image_drop(&d->segments[i]);
    grow_free(d->records);
    grow_free(d->record_from);
    d->records = NULL;
    d->record_from = NULL;
}

void disk_close(struct disk *d)
{
    if (!d)
        return;
    disk_forget(d);
    for (uint32_t i = 0; d->batches && i < d->batch_count; i++) {
        free(d->batches[i].memory);
        free(d->batches[i].items);
    }
    for (uint32_t i = 0; d->segments && i < d->segment_count; i++)
        free(d->segments[i].need);
    for (uint32_t i = 0; i < SLOTS; i++)
        free(d->slots[i]);
    for (uint32_t i = 0; i < HALVES; i++)
        free(d->snap.half[i]);
    free(d->batches);
    free(d->segments);
    free(d->groups);
    free(d->host_lives);
    free(d->place_lives);
    free(d);
}
