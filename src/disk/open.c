/* Opening: what is there, and one batch behind it. */
#include "base/grow.h"
#include "base/minmax.h"
#include "disk/disk_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB UINT64_C(1048576)

static const char what[] = "names in the directory";

/* ---- options ---- */

static uint64_t or_else(uint64_t value, uint64_t otherwise)
{
    return value ? value : otherwise;
}

/* Pledges, of each group one, and one more where a snapshot is recorded between; that record; and what closing a batch
 * adds: a state of each group, segments, lives. */
static void set_extra(struct disk *d)
{
    d->extra_items = 2 * d->shape.groups + d->segment_count + 3;
    d->extra_bytes = d->extra_items * (uint32_t)sizeof(struct batch_item) +
                     (uint32_t)format_round8(lives_bytes(d));
    d->items_max = d->extra_items + d->batch_bytes / (uint32_t)sizeof(struct batch_item);
}

static int check_sizes(const struct disk *d, struct err *e)
{
    uint64_t least = sizeof(struct batch_header) + d->extra_bytes + BLOCK_BYTES;

    if (d->segment_bytes % BLOCK_BYTES != 0 || d->batch_bytes % BLOCK_BYTES != 0)
        return err_set(e, ERR_INVALID, "segment_bytes and batch_bytes must be multiples of %d",
                       BLOCK_BYTES);
    if (d->batch_bytes < least || d->batch_bytes > d->segment_bytes / 2)
        return err_set(e, ERR_INVALID,
                       "batch_bytes is %u: at least %llu, and at most half of segment_bytes",
                       d->batch_bytes, (unsigned long long)least);
    if (d->segment_count < SEGMENTS_MIN || d->segment_count > SEGMENTS_MAX)
        return err_set(e, ERR_INVALID, "the journal has %u segments: %d to %d", d->segment_count,
                       SEGMENTS_MIN, SEGMENTS_MAX);
    return 0;
}

/* ---- files ---- */

static void count_segment(void *ctx, const char *name, uint64_t bytes)
{
    struct disk *d = ((struct opening *)ctx)->d;
    uint32_t n;

    (void)bytes;
    if (scan_segment_name(name, &n) && n <= SEGMENTS_MAX)
        d->segment_count = (uint32_t)max_u64(d->segment_count, n);
}

static void add_leftover(struct opening *p, const char *name)
{
    p->leftovers = grow(what, p->leftovers, sizeof *p->leftovers, p->leftover_count + 1u);
    snprintf(p->leftovers[p->leftover_count++], BLOCK_NAME_BYTES, "%s", name);
}

static void add_snap(struct recovery *r, uint32_t group, uint64_t pos)
{
    if (r->snap_count == r->snap_room) {
        r->snap_room = r->snap_room ? r->snap_room * 2 : 16;
        r->snaps = grow(what, r->snaps, sizeof *r->snaps, r->snap_room);
    }
    r->snaps[r->snap_count++] = (struct snap_seen){group, pos};
}

static bool is_tmp(const char *name)
{
    size_t n = strlen(name), end = strlen(TMP_SUFFIX);

    return n > end && strcmp(name + n - end, TMP_SUFFIX) == 0;
}

static void take_name(void *ctx, const char *name, uint64_t bytes)
{
    struct opening *p = ctx;
    struct disk *d = p->d;
    uint32_t n;
    uint64_t pos;

    if (is_tmp(name)) {
        add_leftover(p, name);
    } else if (scan_snap_name(name, &n, &pos) && n < d->shape.groups) {
        add_snap(&p->r, n, pos);
    } else if (scan_initial_name(name, &n) && n < d->shape.groups) {
        d->groups[n].initial_there = true;
    } else if (scan_segment_name(name, &n) && n >= 1 && n <= d->segment_count) {
        if (!(d->slot_flags & SLOT_BEGUN))
            add_leftover(p, name);
        else if (bytes == d->segment_bytes)
            d->segments[n - 1].state = SEGMENT_FREE;
    }
}

/* ---- what was found ---- */

struct disk_gap_text disk_gap_text(const struct disk_found *f)
{
    struct disk_gap_text t = {"everything"};

    if (f->gap_to != 0)
        snprintf(t.s, sizeof t.s, "positions %llu to %llu", (unsigned long long)f->gap_from,
                 (unsigned long long)f->gap_to);
    else if (f->says.end != 0)
        snprintf(t.s, sizeof t.s, "what followed position %llu", (unsigned long long)f->says.end);
    return t;
}

static void tell_damage(struct disk *d)
{
    for (uint32_t g = 0; g < d->shape.groups; g++) {
        const struct disk_found *f = &d->groups[g].found;
        if (f->state != DISK_BELOW && f->state != DISK_BEYOND)
            continue;
        size_t at = strlen(d->note);
        snprintf(d->note + at, sizeof d->note - at, "%sgroup %u lacks %s", at ? "; " : "", g,
                 disk_gap_text(f).s);
    }
}

static void tell(struct disk *d, const struct recovery *r)
{
    d->torn = r->torn;
    if (r->torn)
        snprintf(d->note, sizeof d->note, "batch %llu was torn by a crash and is cut",
                 (unsigned long long)r->torn);
    tell_damage(d);
}

/* A directory of a later life: whatever the groups had, they do not have it any more. */
static void begin_anew(struct disk *d)
{
    for (uint32_t g = 0; g < d->shape.groups; g++)
        if (d->slot_flags & SLOT_LATER) {
            d->groups[g].found.state = DISK_BEYOND;
            d->groups[g].view.beyond = true;
            d->groups[g].say_in = 1;
        }
}

static bool is_current(const struct disk *d, const struct snap_seen *s)
{
    return d->groups[s->group].snap == s->pos;
}

static int find(struct opening *p, struct err *e)
{
    struct disk *d = p->d;
    char name[BLOCK_NAME_BYTES];
    int rc = 0;

    if (d->slot_flags & SLOT_BEGUN) {
        rc = recover_journal(d, &p->r, e);
        if (rc < 0)
            return rc;
        judge_groups(d, &p->r, p->looks_only);
        tell(d, &p->r);
    } else {
        begin_anew(d);
    }
    initial_judge(d);
    for (uint32_t i = 0; i < p->r.snap_count; i++)
        if (!is_current(d, &p->r.snaps[i])) {
            snapfile_name(name, p->r.snaps[i].group, p->r.snaps[i].pos, "");
            add_leftover(p, name);
        }
    for (uint32_t g = 0; g < d->shape.groups; g++)
        if (d->groups[g].initial_there && d->groups[g].snap != 0) {
            snapfile_initial_name(name, g);
            add_leftover(p, name);
        }
    /* Where nothing is left of the journal no number that it had may come again. */
    if (p->r.batch_count > 0)
        p->tail = p->r.batches[p->r.batch_count - 1].scan.header->number;
    else if (d->slot_flags & SLOT_BEGUN)
        p->tail = d->slot_batch + (UINT64_C(1) << 32);
    return 0;
}

static int sizes_take(struct opening *p, const struct slot *slot, struct err *e)
{
    struct disk *d = p->d;
    const struct disk_options *o = p->o;
    bool begun = slot->flags & SLOT_BEGUN;
    int rc;

    d->segment_bytes = begun ? slot->segment_bytes : or_else(o->segment_bytes, 64 * MIB);
    d->batch_bytes = (uint32_t)min_u64(or_else(o->batch_bytes, 4 * MIB), UINT32_MAX);
    d->segment_count =
        (uint32_t)min_u64(or_else(o->bytes, 1024 * MIB) / d->segment_bytes, SEGMENTS_MAX);
    d->retry_ns = or_else(o->retry_ns, RETRY_NS);
    rc = block_list(d->block, count_segment, p, e);
    set_extra(d);
    return rc < 0 || p->looks_only ? rc : check_sizes(d, e);
}

static int prepare_open(struct opening *p, const struct slot *slot, struct err *e)
{
    struct disk *d = p->d;
    int rc = sizes_take(p, slot, e);

    if (rc >= 0)
        rc = memory_disk_open(d, or_else(p->o->buffer_bytes, 64 * MIB), e);
    if (rc < 0)
        return rc;
    lives_take(d, slot);
    d->now_segment = UINT32_MAX;
    d->confirmed = true;
    hist_init(&d->flush);
    return block_list(d->block, take_name, p, e);
}

static int host_disk_open(struct opening *p, struct err *e)
{
    struct disk *d = p->d;
    void *host = aligned_alloc(BLOCK_BYTES, SLOTS * SLOT_BYTES);
    const struct slot *slot;
    int rc = host ? host_read(d->block, host, &slot, e)
                  : err_set(e, ERR_NOMEM, "no memory for the host file");

    if (rc >= 0 && p->looks_only)
        d->shape = slot->shape;
    if (rc >= 0)
        rc = host_shape_compare(&slot->shape, &d->shape, e);
    if (rc >= 0)
        rc = prepare_open(p, slot, e);
    free(host);
    return rc;
}

static int any_open(const struct disk_options *o, bool looks_only, struct disk **out, struct err *e)
{
    struct opening p = {.o = o, .looks_only = looks_only};
    int rc;

    p.d = calloc(1, sizeof *p.d);
    if (!p.d)
        return err_set(e, ERR_NOMEM, "no memory for the disk");
    p.d->block = o->block;
    p.d->shape = o->shape;
    rc = host_disk_open(&p, e);
    if (rc >= 0)
        rc = find(&p, e);
    if (rc >= 0 && !looks_only)
        rc = resume_disk(&p, e);
    grow_free(p.r.batches);
    grow_free(p.r.spans);
    grow_free(p.r.snaps);
    grow_free(p.leftovers);
    if (rc < 0)
        disk_close(p.d);
    else
        *out = p.d;
    return rc;
}

int disk_open(const struct disk_options *o, struct disk **out, struct err *e)
{
    int rc = host_shape_check(&o->shape, e);

    return rc < 0 ? rc : any_open(o, false, out, e);
}

int disk_look_open(struct block *b, struct disk_shape *shape, struct disk **out, struct err *e)
{
    /* A page of records is not needed: only memory that opening expects. */
    struct disk_options o = {.block = b, .batch_bytes = BLOCK_BYTES, .buffer_bytes = BLOCK_BYTES};
    int rc = any_open(&o, true, out, e);

    if (rc >= 0)
        *shape = (*out)->shape;
    return rc;
}

/* ---- what the groups are told of it ---- */

const struct disk_found *disk_found(const struct disk *d, uint32_t group)
{
    CHECK(group < d->shape.groups);
    return &d->groups[group].found;
}

void disk_replay(const struct disk *d, uint32_t group,
                 void (*fn)(void *ctx, const struct disk_record *), void *ctx)
{
    CHECK(group < d->shape.groups);
    if (!d->records)
        return;
    for (uint32_t i = d->record_from[group]; i < d->record_from[group + 1]; i++) {
        const struct found_record *f = &d->records[i];
        struct scan_batch b = {.start = f->batch};
        struct disk_record r = scan_to_record(&b, f->item);
        fn(ctx, &r);
    }
}
