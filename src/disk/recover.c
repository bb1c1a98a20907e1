/* Which batches count, of all that stands in the segments. */
#include "base/grow.h"
#include "base/minmax.h"
#include "disk/disk_impl.h"

#include <stdio.h>
#include <string.h>

static const char what[] = "the journal as it is read";

/* What the segment is, by its first batch. */
struct role {
    bool is_table;   /* that is valid */
    uint64_t number; /* of the table */
};

struct search {
    struct disk *d;
    struct recovery *r;
    struct role *roles; /* of each segment */
    uint32_t newest;    /* the segment with the newest table; UINT32_MAX: none */
    uint64_t table;     /* its number; 0: none */
    uint64_t *released; /* first batches of segments that were given up since */
    uint32_t released_count;
};

/* ---- what the segments are ---- */

static bool is_there(const struct segment *s)
{
    return s->state != SEGMENT_NONE;
}

static void take_role(struct search *x, uint32_t n, const struct scan_batch *b)
{
    if (b->header->flags & BATCH_TABLE)
        x->roles[n] = (struct role){true, b->header->number};
}

static void pick_newest(struct search *x)
{
    x->newest = UINT32_MAX;
    x->table = 0;
    for (uint32_t n = 0; n < x->d->segment_count; n++)
        if (x->roles[n].is_table && x->roles[n].number > x->table) {
            x->newest = n;
            x->table = x->roles[n].number;
        }
}

/* A table that is the torn tail tells nothing: what it does not name any more was not given up yet. */
static int bar_torn_table(struct search *x, struct err *e)
{
    const struct disk *d = x->d;
    struct scan_batch b, next;
    uint64_t where;

    if (x->newest == UINT32_MAX)
        return 0;
    struct segment *s = &d->segments[x->newest];
    int rc = image_read(x->d, s, e);
    if (rc < 0 || !scan_batch(s->image, d->segment_bytes, d->journal, d->shape.groups, &b) ||
        scan_records(&b) ||
        scan_find(s->image, d->segment_bytes, b.header->bytes, d->journal, d->shape.groups,
                  x->table + 1, UINT64_MAX, &next, &where))
        return rc;
    x->roles[x->newest].is_table = false;
    pick_newest(x);
    return 0;
}

/* The first batch tells whether the segment counts, and it need not be read any further if it does not. Where that is
 * damaged, or very long, all of it is looked at. */
static int role_read(struct search *x, uint32_t n, unsigned char *chunk, struct err *e)
{
    struct disk *d = x->d;
    struct segment *s = &d->segments[n];
    uint64_t bytes = min_u64(IMAGE_PART_BYTES, d->segment_bytes);
    struct scan_batch b;
    int rc = image_read_part(d, s->name, chunk, 0, bytes, e);

    if (rc < 0)
        return rc;
    if (scan_batch(chunk, bytes, d->journal, d->shape.groups, &b)) {
        take_role(x, n, &b);
        return 0;
    }
    rc = image_read(d, s, e);
    if (rc >= 0 && scan_batch(s->image, d->segment_bytes, d->journal, d->shape.groups, &b))
        take_role(x, n, &b);
    return rc;
}

static int roles_read(struct search *x, struct err *e)
{
    unsigned char *chunk = grow_pages(what, IMAGE_PART_BYTES);
    int rc = 0;

    for (uint32_t n = 0; rc >= 0 && n < x->d->segment_count; n++)
        if (is_there(&x->d->segments[n]))
            rc = role_read(x, n, chunk, e);
    grow_free(chunk);
    return rc;
}

/* ---- batches ---- */

static void add_batch(struct recovery *r, const struct found_batch *f)
{
    if (r->batch_count == r->batch_room) {
        r->batch_room = r->batch_room ? r->batch_room * 2 : 64;
        r->batches = grow(what, r->batches, sizeof *r->batches, r->batch_room);
    }
    r->batches[r->batch_count++] = *f;
}

/* All of the segment with numbers in the span, in their order; what stood there before has lower ones. */
static int collect(struct search *x, uint32_t segment, struct span span, struct err *e)
{
    struct disk *d = x->d;
    struct found_batch f = {.segment = segment};
    uint64_t at = 0, least = span.first;
    int rc = image_read(d, &d->segments[segment], e);

    while (rc >= 0 && scan_find(d->segments[segment].image, d->segment_bytes, at, d->journal,
                                d->shape.groups, least, span.last, &f.scan, &f.at)) {
        add_batch(x->r, &f);
        at = f.at + f.scan.header->bytes;
        least = PLANTED(disk_old_counts) ? 1 : f.scan.header->number + 1;
    }
    return rc;
}

static void add_span(struct recovery *r, struct span span)
{
    r->spans = grow(what, r->spans, sizeof *r->spans, r->span_count + 1u);
    r->spans[r->span_count++] = span;
}

static void note_released(struct search *x, const struct scan_batch *b)
{
    for (uint32_t n = 0; n < b->header->items; n++)
        if (b->items[n].kind == ITEM_RELEASE) {
            x->released = grow(what, x->released, sizeof *x->released, x->released_count + 1u);
            x->released[x->released_count++] = b->items[n].from;
        }
}

static bool is_released(const struct search *x, uint64_t first)
{
    for (uint32_t i = 0; i < x->released_count; i++)
        if (x->released[i] == first)
            return true;
    return false;
}

/* The newest table's segment, and one behind it whose own table is damaged. */
static int collect_newest(struct search *x, struct err *e)
{
    struct disk *d = x->d;
    struct span behind = {x->table + 1, UINT64_MAX};
    int rc = 0;

    if (x->newest != UINT32_MAX)
        rc = collect(x, x->newest, (struct span){x->table, UINT64_MAX}, e);
    for (uint32_t n = 0; rc >= 0 && n < d->segment_count; n++)
        if (is_there(&d->segments[n]) && !x->roles[n].is_table)
            rc = collect(x, n, behind, e);
    add_span(x->r, (struct span){x->table ? x->table : 1, UINT64_MAX});
    for (uint32_t i = 0; i < x->r->batch_count; i++)
        note_released(x, &x->r->batches[i].scan);
    return rc;
}

/* An older segment that the table names: by its own table, or, if that is damaged, by any batch. */
static int collect_older(struct search *x, struct span span, struct err *e)
{
    const struct disk *d = x->d;
    int rc = 0;

    add_span(x->r, span);
    for (uint32_t n = 0; rc >= 0 && n < d->segment_count; n++)
        if (is_there(&d->segments[n]) &&
            (!x->roles[n].is_table || x->roles[n].number == span.first))
            rc = collect(x, n, span, e);
    return rc;
}

static int collect_named(struct search *x, struct err *e)
{
    const struct disk *d = x->d;
    struct scan_batch table;
    int rc = 0;

    if (x->newest == UINT32_MAX || !scan_batch(d->segments[x->newest].image, d->segment_bytes,
                                               d->journal, d->shape.groups, &table))
        return 0;
    for (uint32_t i = 0; rc >= 0 && i < table.header->items; i++) {
        const struct batch_item *item = &table.items[i];
        if (item->kind == ITEM_SEGMENT && item->to > item->from && !is_released(x, item->from))
            rc = collect_older(x, (struct span){item->from, item->to - 1}, e);
    }
    return rc;
}

/* ---- their order ---- */

static void swap(struct recovery *r, uint32_t a, uint32_t b)
{
    struct found_batch f = r->batches[a];

    r->batches[a] = r->batches[b];
    r->batches[b] = f;
}

static void sift(struct recovery *r, uint32_t at, uint32_t count)
{
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && recovery_number(r, child + 1) > recovery_number(r, child))
            child++;
        if (recovery_number(r, child) <= recovery_number(r, at))
            return;
        swap(r, at, child);
    }
}

/* A heap: needs no memory, and takes no longer for the numbers of a stranger. */
static void sort_batches(struct recovery *r)
{
    for (uint32_t i = r->batch_count / 2; i-- > 0;)
        sift(r, i, r->batch_count);
    for (uint32_t n = r->batch_count; n > 1; n--) {
        swap(r, 0, n - 1);
        sift(r, 0, n - 1);
    }
}

static int search(struct search *x, struct err *e)
{
    int rc = roles_read(x, e);

    pick_newest(x);
    if (rc >= 0)
        rc = bar_torn_table(x, e);
    if (rc >= 0)
        rc = collect_newest(x, e);
    if (rc >= 0)
        rc = collect_named(x, e);
    return rc;
}

int recover_journal(struct disk *d, struct recovery *r, struct err *e)
{
    struct search x = {.d = d, .r = r, .newest = UINT32_MAX};

    x.roles = grow(what, NULL, sizeof *x.roles, d->segment_count);
    memset(x.roles, 0, d->segment_count * sizeof *x.roles);
    int rc = search(&x, e);
    grow_free(x.roles);
    grow_free(x.released);
    if (rc < 0)
        return rc;
    sort_batches(r);
    tail_take(d, r);
    return 0;
}
