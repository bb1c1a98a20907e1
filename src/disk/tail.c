/* The end of the journal: what was torn is cut, and the segments are as they were left. */
#include "base/minmax.h"
#include "disk/disk_impl.h"

#include <string.h>

/* The last one is there in part, and the one before it is not: that was whole before the last was begun, so it is damaged, and what
 * it had may have been told. The last one stays, as it names the groups whose records are missing. */
static bool shows_damage(const struct recovery *r)
{
    uint64_t last = recovery_number(r, r->batch_count - 1);

    return r->batch_count > 1 && last > r->spans[0].first &&
           recovery_number(r, r->batch_count - 2) != last - 1;
}

/* One batch is under way at a time: only the last may be torn. Where the next one is valid, it is damage. */
static void cut_tail(struct disk *d, struct recovery *r)
{
    const struct batch_header *h;
    const struct found_batch *last;

    if (PLANTED(disk_damage_is_tail))
        for (uint32_t i = 1; i < r->batch_count; i++)
            if (recovery_number(r, i) != recovery_number(r, i - 1) + 1 &&
                recovery_number(r, i) > r->spans[0].first)
                r->batch_count = i;
    last = &r->batches[r->batch_count - 1];
    if (!scan_records(&last->scan) && shows_damage(r))
        return;
    if (!scan_records(&last->scan)) {
        r->torn = last->scan.header->number;
        r->remnant = *last;
        r->batch_count--;
        return;
    }
    uint64_t end = last->at + last->scan.header->bytes;
    h = (const void *)(d->segments[last->segment].image + end);
    if (end < d->segment_bytes && h->magic == BATCH_MAGIC &&
        memcmp(h->journal, d->journal, sizeof h->journal) == 0 &&
        h->number == last->scan.header->number + 1)
        r->torn = h->number;
}

/* ---- segments ---- */

static void take_needs(struct segment *s, const struct scan_batch *b)
{
    for (uint32_t i = 0; i < b->header->items; i++)
        if (format_is_chain(b->items[i].kind))
            segment_need(s, b->items[i].group, max_u64(b->items[i].from, b->items[i].to));
}

/* The span that the batch is in. */
static struct span span_of(const struct recovery *r, uint64_t number)
{
    for (uint32_t i = 0; i < r->span_count; i++)
        if (number >= r->spans[i].first && number <= r->spans[i].last)
            return r->spans[i];
    return (struct span){number, number};
}

/* What is missing in front of a segment's first batch stays in its span: that is still missing when it is opened again. */
static void take_segments(struct disk *d, const struct recovery *r)
{
    for (uint32_t i = 0; i < r->batch_count; i++) {
        const struct found_batch *f = &r->batches[i];
        struct segment *s = &d->segments[f->segment];
        uint64_t number = recovery_number(r, i);
        struct span span = span_of(r, number);
        if (s->state != SEGMENT_FULL) {
            s->state = SEGMENT_FULL;
            s->first =
                span.last != UINT64_MAX || i == 0 ? span.first : recovery_number(r, i - 1) + 1;
            s->first = min_u64(max_u64(s->first, span.first), number);
        }
        s->last = span.last != UINT64_MAX ? span.last : number;
        take_needs(s, &f->scan);
    }
    for (uint32_t n = 0; n < d->segment_count; n++)
        if (d->segments[n].state == SEGMENT_FREE)
            image_drop(&d->segments[n]);
}

static void go_on_behind(struct disk *d, const struct recovery *r)
{
    const struct found_batch *last = &r->batches[r->batch_count - 1];

    d->now_segment = last->segment;
    d->now_at = last->at + last->scan.header->bytes;
    d->segments[last->segment].state = SEGMENT_NOW;
}

void tail_take(struct disk *d, struct recovery *r)
{
    r->remnant.segment = UINT32_MAX;
    if (r->batch_count > 0)
        cut_tail(d, r);
    take_segments(d, r);
    if (r->batch_count > 0)
        go_on_behind(d, r);
}
