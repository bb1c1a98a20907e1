/* A round of the disk, and how it is. */
#include "base/minmax.h"
#include "disk/disk_impl.h"

#include <stdio.h>
#include <string.h>

bool disk_broken(struct disk *d)
{
    if (d->failure[0] == '\0')
        snprintf(d->failure, sizeof d->failure, "disk: %s", block_failure(d->block));
    return true;
}

static void take_time(struct disk *d)
{
    uint64_t took = d->now_ns - min_u64(d->began_ns, d->now_ns);

    hist_add(&d->flush, took);
    if (took > SLOW_NS)
        d->slow_ns = d->now_ns;
}

static int poll_batch(struct disk *d)
{
    if (!d->writing)
        return 0;
    switch (block_poll(d->block, BLOCK_JOURNAL)) {
    case BLOCK_BUSY:
        return 0;
    case BLOCK_FAILED:
        if (PLANTED(disk_retried)) /* a second flush, of pages that are gone, would succeed */
            batch_over(d);
        return disk_broken(d);
    default:
        take_time(d);
        batch_over(d);
        return 1;
    }
}

/* Something without a successor looks like a torn tail if it is damaged. */
static bool wants_confirm(const struct disk *d)
{
    return !d->confirmed || d->slots_behind > 0;
}

static bool is_due(const struct disk *d)
{
    return append_waits(d) || (wants_confirm(d) && d->now_ns >= d->idle_ns + CONFIRM_NS);
}

int disk_round(struct disk *d, uint64_t now_ns)
{
    int work = 0;

    if (d->failure[0] != '\0')
        return 0;
    d->now_ns = now_ns;
    work += poll_batch(d);
    if (d->failure[0] == '\0')
        work += bulk_round(d);
    if (d->failure[0] != '\0')
        return work;
    if (d->look_for_room) {
        d->look_for_room = false;
        d->must_write |= segment_may_go(d);
    }
    if (!d->writing && is_due(d)) {
        batch_begin(d);
        work++;
    }
    return work;
}

uint64_t disk_next_ns(const struct disk *d)
{
    uint64_t next = UINT64_MAX;

    if (d->no_room_ns != 0)
        next = d->no_room_ns + d->retry_ns;
    if (d->snap_no_room_ns != 0)
        next = min_u64(next, d->snap_no_room_ns + d->retry_ns);

    if (d->failure[0] != '\0')
        return UINT64_MAX;
    if (bulk_waits(d) || (!d->writing && append_waits(d)))
        return 0;
    return !d->writing && wants_confirm(d) ? min_u64(next, d->idle_ns + CONFIRM_NS) : next;
}

bool disk_is_writing(const struct disk *d)
{
    return d->writing;
}

const char *disk_failure(const struct disk *d)
{
    return d->failure[0] != '\0' ? d->failure : NULL;
}

const char *disk_note(const struct disk *d)
{
    return d->note[0] != '\0' ? d->note : NULL;
}

uint64_t disk_torn(const struct disk *d)
{
    return d->torn;
}

static bool is_slow(const struct disk *d)
{
    return (d->writing && d->now_ns > d->began_ns + SLOW_NS) ||
           (d->slow_ns != 0 && d->now_ns < d->slow_ns + SLOW_FOR_NS);
}

bool disk_is_full(const struct disk *d)
{
    return !segment_has_room(d, d->batch_used - d->writing, false, 0);
}

static enum disk_health health(const struct disk *d)
{
    if (disk_is_full(d))
        return DISK_FULL;
    if (d->cramped || (d->snap_told_ns != 0 && d->now_ns < d->snap_told_ns + NO_ROOM_FOR_NS))
        return DISK_NO_ROOM;
    return is_slow(d) ? DISK_SLOW : DISK_OK;
}

static uint64_t waiting(const struct disk *d)
{
    uint64_t sum = 0;

    for (uint32_t i = d->writing; i < d->batch_used; i++) {
        const struct batch *b = &d->batches[(d->batch_first + i) % d->batch_count];
        sum += b->end - sizeof(struct batch_header) + b->item_count * sizeof(struct batch_item);
    }
    return sum;
}

void disk_status(const struct disk *d, struct disk_status *s)
{
    uint64_t full = segment_count(d, SEGMENT_FULL) + segment_count(d, SEGMENT_GOING);

    *s = (struct disk_status){
        .health = health(d),
        .batches = d->batches_written,
        .bytes = d->bytes_written,
        .journal_bytes = full * d->segment_bytes + (d->now_segment == UINT32_MAX ? 0 : d->now_at),
        .journal_bytes_max = d->segment_count * d->segment_bytes,
        .flush_p50_ns = hist_quantile(&d->flush, 0.5),
        .flush_p99_ns = hist_quantile(&d->flush, 0.99),
        .waiting_bytes = waiting(d),
    };
}
