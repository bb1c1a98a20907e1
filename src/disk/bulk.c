/* What BLOCK_BULK does, one order at a time: removes what is not needed, makes segments, writes snapshots. */
#include "disk/disk_impl.h"

#include <stdio.h>
#include <string.h>

/* The snapshot is durable by its name and by a batch that says so: the one before is not needed. */
void bulk_recorded(struct disk *d, uint32_t group, uint64_t pos)
{
    struct group *g = &d->groups[group];

    if (g->snap != 0 && g->snap != pos)
        snapfile_name(d->remove, group, g->snap, "");
    else if (g->snap == 0 && g->initial_there)
        snapfile_initial_name(d->remove, group);
    g->snap = pos;
    d->look_for_room = true;
    if (d->snap.phase == SNAP_RECORDING)
        d->snap.phase = SNAP_NONE;
}

static void begin_remove(struct disk *d)
{
    struct block_step step = {.act = BLOCK_REMOVE, .name = d->remove};

    d->bulk = BULK_REMOVE;
    block_begin(d->block, BLOCK_BULK, &step, 1);
}

/* One more than what records need at once is there ahead of time. */
static bool wants_segment(const struct disk *d)
{
    return d->no_room_ns == 0 && segment_count(d, SEGMENT_FREE) < segment_spare(d) + 2 &&
           segment_count(d, SEGMENT_NONE) > 0;
}

static void begin_segment(struct disk *d)
{
    uint32_t i = 0;

    while (d->segments[i].state != SEGMENT_NONE)
        i++;
    struct block_step step = {
        .act = BLOCK_CREATE, .name = d->segments[i].name, .bytes = d->segment_bytes};
    d->making = i;
    d->segments[i].state = SEGMENT_MAKING;
    d->bulk = BULK_SEGMENT;
    block_begin(d->block, BLOCK_BULK, &step, 1);
}

static void segment_made(struct disk *d, enum block_status status)
{
    d->segments[d->making].state = status == BLOCK_DONE ? SEGMENT_FREE : SEGMENT_NONE;
    d->cramped = status == BLOCK_NO_ROOM;
    if (d->cramped)
        d->no_room_ns = d->now_ns ? d->now_ns : 1;
}

static void over(struct disk *d, enum block_status status)
{
    if (d->bulk == BULK_SEGMENT)
        segment_made(d, status);
    else if (d->bulk == BULK_REMOVE)
        d->remove[0] = '\0';
    else
        snapfile_over(d, status);
    d->bulk = BULK_NONE;
}

static bool begin(struct disk *d)
{
    if (d->remove[0] != '\0')
        begin_remove(d);
    else if (wants_segment(d))
        begin_segment(d);
    else
        return snapfile_begin(d);
    return true;
}

bool bulk_waits(const struct disk *d)
{
    return d->bulk == BULK_NONE && (d->remove[0] != '\0' || wants_segment(d) || snapfile_waits(d));
}

static void try_again(const struct disk *d, uint64_t *no_room_ns)
{
    if (*no_room_ns != 0 && d->now_ns >= *no_room_ns + d->retry_ns)
        *no_room_ns = 0;
}

/* What comes after this segment of the journal has no other; or who keeps a state cannot go on before it is there. */
static bool is_waited_for(const struct disk *d)
{
    return d->bulk == BULK_SEGMENT ? segment_count(d, SEGMENT_FREE) <= segment_spare(d)
                                   : d->bulk == BULK_PIECES && d->snap.hurry;
}

int bulk_round(struct disk *d)
{
    try_again(d, &d->no_room_ns);
    try_again(d, &d->snap_no_room_ns);
    block_hurry(d->block, is_waited_for(d));
    if (d->bulk != BULK_NONE) {
        enum block_status status = block_poll(d->block, BLOCK_BULK);
        if (status == BLOCK_BUSY)
            return 0;
        if (status == BLOCK_FAILED)
            return disk_broken(d);
        over(d, status);
    }
    return begin(d);
}
