/* What follows when all is read: a flush, a batch behind the tail, and this life in both slots. */
#include "disk/disk_impl.h"

#include <string.h>

/* ---- orders that are waited for ---- */

int disk_order_wait(struct block *b, const struct block_step *steps, uint32_t count, struct err *e)
{
    block_begin(b, BLOCK_JOURNAL, steps, count);
    switch (block_wait(b, BLOCK_JOURNAL)) {
    case BLOCK_DONE:
        return 0;
    case BLOCK_NO_ROOM:
        return err_set(e, ERR_NOMEM, "the disk has no room for %s", steps[0].name);
    default:
        return err_set(e, ERR_SYSTEM, "%s", block_failure(b));
    }
}

static int remove_leftovers(struct opening *p, struct err *e)
{
    struct block_step steps[BLOCK_STEPS_MAX];
    int rc = 0;

    for (uint32_t i = 0; rc >= 0 && i < p->leftover_count;) {
        uint32_t n = 0;
        while (n < BLOCK_STEPS_MAX && i < p->leftover_count)
            steps[n++] = (struct block_step){.act = BLOCK_REMOVE, .name = p->leftovers[i++]};
        rc = disk_order_wait(p->d->block, steps, n, e);
    }
    p->leftover_count = 0;
    return rc;
}

static bool has_place(const struct disk *d)
{
    return segment_count(d, SEGMENT_FREE) > 0 ||
           (d->now_segment != UINT32_MAX && d->now_at + d->batch_bytes <= d->segment_bytes);
}

/* Where a damaged table had given up segments they count again, and there may be none that is free. */
static int find_place(struct disk *d, struct err *e)
{
    if (!has_place(d)) {
        segment_let_go(d, 0);
        segment_over(d, 0);
    }
    return has_place(d) ? 0 : err_set(e, ERR_CORRUPT, "the journal has no segment that is free");
}

/* As many as there must be while it runs; a full disk may have less. */
static int make_segments(struct disk *d, struct err *e)
{
    for (uint32_t i = 0; i < d->segment_count; i++) {
        struct segment *s = &d->segments[i];
        struct block_step step = {.act = BLOCK_CREATE, .name = s->name, .bytes = d->segment_bytes};
        if (s->state != SEGMENT_NONE || segment_count(d, SEGMENT_FREE) > segment_spare(d))
            continue;
        int rc = disk_order_wait(d->block, &step, 1, e);
        if (rc == ERR_NOMEM && has_place(d))
            return 0;
        if (rc < 0)
            return rc;
        s->state = SEGMENT_FREE;
    }
    return find_place(d, e);
}

static int write_batch(struct disk *d, struct err *e)
{
    batch_begin(d);
    if (block_wait(d->block, BLOCK_JOURNAL) != BLOCK_DONE)
        return err_set(e, ERR_SYSTEM, "%s", block_failure(d->block));
    batch_over(d);
    return 0;
}

/* The other one, too: or the damage of one would bring back this life. */
static int write_slot(struct disk *d, struct err *e)
{
    struct block_step step;

    lives_step(d, d->done, &step);
    return disk_order_wait(d->block, &step, 1, e);
}

/* The journal has a batch before the slot says that it has. */
static int begin_journal(struct disk *d, struct err *e)
{
    if (d->slot_flags & SLOT_BEGUN)
        return 0;
    d->slot_flags |= SLOT_BEGUN;
    return write_batch(d, e);
}

/* The next batch has the number of the one that was torn, and may go elsewhere: nothing of that may look like a batch. */
static int erase_remnant(struct opening *p, struct err *e)
{
    struct disk *d = p->d;
    const struct found_batch *f = &p->r.remnant;

    if (!(d->slot_flags & SLOT_BEGUN) || f->segment == UINT32_MAX)
        return 0;
    memset(d->snap.half[0], 0, BLOCK_BYTES);
    const struct block_step step = {.act = BLOCK_WRITE,
                                    .name = d->segments[f->segment].name,
                                    .data = d->snap.half[0],
                                    .at = f->at,
                                    .bytes = BLOCK_BYTES};
    return disk_order_wait(d->block, &step, 1, e);
}

/* First of all a flush of everything: what a killed process wrote may be in a cache only, and may be all that was read. */
int resume_disk(struct opening *p, struct err *e)
{
    struct disk *d = p->d;
    int rc = 0;

    segment_found(d);
    if (!(d->slot_flags & SLOT_BEGUN))
        rc = remove_leftovers(p, e);
    if (rc >= 0 && !PLANTED(disk_told_early))
        rc = disk_order_wait(d->block, NULL, 0, e);
    if (rc >= 0)
        rc = erase_remnant(p, e);
    if (rc >= 0)
        rc = make_segments(d, e);
    if (rc < 0)
        return rc;
    append_next_batch(d, p->tail + 1);
    rc = begin_journal(d, e);
    d->slots_behind = SLOTS;
    if (rc >= 0 && PLANTED(disk_told_early)) {
        d->done = append_open_batch(d)->number - 1;
        batch_begin(d);
        return 0;
    }
    if (rc >= 0)
        rc = write_batch(d, e);
    if (rc >= 0)
        rc = write_slot(d, e);
    return rc < 0 ? rc : remove_leftovers(p, e);
}
