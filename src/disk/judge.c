/* What each group has, after all that could be read: whole, or what is missing, and whether that may have been promised. */
#include "base/grow.h"
#include "base/minmax.h"
#include "disk/disk_impl.h"

#include <string.h>

static const char what[] = "records as they are read";

/* What is known of a group while the batches go by. The chain is [lo, hi), as far as nothing that may have been replaced is
 * taken for it. */
struct trial {
    bool known;  /* something was read of it */
    bool unsure; /* something was missing since, and it may be of this group */
    bool broken; /* there is no chain: a record of it is missing */
    uint64_t lo, hi;
    uint64_t gap_from; /* up to where the chain was when it broke last */
};

struct court {
    struct disk *d;
    const struct recovery *r;
    struct trial *trials;
};

/* ---- chains ---- */

static void chain_break(struct trial *t)
{
    if (!t->broken)
        t->gap_from = t->hi;
    t->broken = true;
}

static void chain_begin(struct trial *t, uint64_t from, uint64_t to)
{
    t->broken = false;
    t->lo = from;
    t->hi = to;
}

/* What is beyond `to` stays if the group says that its chain goes on there. */
static void chain_entries(struct trial *t, const struct batch_item *i)
{
    uint64_t hi = max_u64(i->to, min_u64(t->hi, i->says.end));

    if (t->broken || i->from > t->hi) {
        chain_break(t);
        chain_begin(t, i->from, i->to);
    } else if (i->from >= t->lo || i->to >= t->lo) {
        t->lo = min_u64(t->lo, i->from);
        t->hi = hi;
    } else if (i->says.end <= i->to) {
        chain_begin(t, i->from, i->to);
    }
}

/* What is below is dropped: it may be other than what was decided. */
static void chain_reset(struct trial *t, uint64_t pos)
{
    if (t->broken || pos > t->hi) {
        chain_break(t);
        chain_begin(t, pos, pos);
    } else {
        t->lo = max_u64(t->lo, pos);
    }
}

static void chain_take(struct trial *t, const struct batch_item *i)
{
    if (i->kind == DISK_ENTRIES)
        chain_entries(t, i);
    else if (i->kind == DISK_COPY)
        chain_begin(t, i->from, i->to);
    else if (i->kind == DISK_RESET)
        chain_reset(t, i->from);
}

/* ---- items ---- */

/* The first of a group: what was before it is not needed any more, if nothing is missing. */
static void first_sight(struct trial *t, const struct batch_item *i, uint32_t chain_before)
{
    uint64_t at = format_is_chain(i->kind) ? i->from : i->says.end;

    t->known = true;
    t->gap_from = 0;
    chain_begin(t, at, at);
    t->broken = t->unsure && chain_before != 0;
}

static void take_item(struct court *c, const struct scan_batch *b, const struct batch_item *i)
{
    struct group_view *v = &c->d->groups[i->group].view;
    struct trial *t = &c->trials[i->group];
    uint32_t chain_before = i->chain - format_is_chain(i->kind);

    if (!t->known)
        first_sight(t, i, chain_before);
    else if (chain_before != v->chain)
        chain_break(t);
    t->unsure = false;
    view_take(v, i);
    if (format_is_record(i->kind))
        c->d->groups[i->group].closed_in = b->header->number;
    if (scan_record(b, i))
        chain_take(t, i);
    else
        chain_break(t);
}

static void take_batch(struct court *c, const struct scan_batch *b)
{
    for (uint32_t n = 0; n < b->header->items; n++) {
        const struct batch_item *i = &b->items[n];
        if (format_is_record(i->kind) || i->kind == ITEM_STATE)
            take_item(c, b, i);
        else if (i->kind == ITEM_LIVES && i->bytes == lives_bytes(c->d) && scan_record(b, i))
            lives_raise(c->d, b->start + i->at);
    }
}

/* ---- what is missing ---- */

static uint64_t missing_between(const struct recovery *r, uint64_t after, uint64_t before)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < r->span_count; i++) {
        uint64_t first = max_u64(r->spans[i].first, after + 1);
        uint64_t last = min_u64(r->spans[i].last, before - 1);
        n += first <= last ? last - first + 1 : 0;
    }
    return n;
}

/* Behind a single batch the next one names all that were in it (format.h); behind more of them nobody knows. */
static void take_missing(struct court *c, uint64_t after, uint64_t before)
{
    uint64_t missing = missing_between(c->r, after, before);
    bool told = missing == 1 && missing_between(c->r, before - 2, before) == 1;

    if (missing == 0)
        return;
    for (uint32_t g = 0; g < c->d->shape.groups; g++)
        if (!told || !c->trials[g].known)
            c->trials[g].unsure = true;
}

static void take_batches(struct court *c)
{
    uint64_t after = 0;

    for (uint32_t i = 0; i < c->r->batch_count; i++) {
        const struct scan_batch *b = &c->r->batches[i].scan;
        take_missing(c, after, b->header->number);
        take_batch(c, b);
        after = b->header->number;
    }
}

/* ---- snapshots ---- */

static bool is_whole(const struct disk *d, uint32_t group, uint64_t pos)
{
    return snapfile_read(d, group, pos, NULL, NULL, NULL) == 0;
}

/* The newest that is whole: one that got its name when its process died counts, too. */
static uint64_t newest_snap(const struct court *c, uint32_t group)
{
    uint64_t best = 0, below = UINT64_MAX;

    while (best == 0) {
        uint64_t next = 0;
        for (uint32_t i = 0; i < c->r->snap_count; i++)
            if (c->r->snaps[i].group == group && c->r->snaps[i].pos < below)
                next = max_u64(next, c->r->snaps[i].pos);
        if (next == 0)
            return 0;
        if (is_whole(c->d, group, next))
            best = next;
        below = next;
    }
    return best;
}

/* ---- verdicts ---- */

static void found_gap(struct disk_found *f, enum disk_state state, const struct trial *t,
                      uint64_t to)
{
    f->state = state;
    f->gap_to = to;
    f->gap_from = max_u64(f->snap, t->gap_from);
    if (f->gap_from >= to)
        f->gap_from = f->snap < to ? f->snap : 0;
}

static void judge(const struct court *c, uint32_t group)
{
    struct group *g = &c->d->groups[group];
    const struct trial *t = &c->trials[group];
    struct disk_found *f = &g->found;
    const struct disk_says *says = &g->view.says;

    *f = (struct disk_found){.state = DISK_BEYOND, .says = *says};
    if (!t->known || t->unsure || g->view.beyond)
        return;
    f->snap = newest_snap(c, group);
    /* What does not reach the end of the chain is of no use. */
    uint64_t lo = t->broken || t->hi < says->end ? says->end : t->lo;
    if (lo <= f->snap)
        f->state = g->view.records == 0 && f->snap == 0 ? DISK_NEW : DISK_WHOLE;
    else
        found_gap(f, lo <= says->commit ? DISK_BELOW : DISK_BEYOND, t, lo);
}

/* From now on it counts from here; the batch that follows says so. */
static void settle(struct group *g)
{
    bool beyond = g->found.state == DISK_BEYOND;

    if (beyond)
        g->found.snap = 0;
    if (!beyond || !g->view.beyond)
        g->view.reset = false;
    g->say_in = beyond != g->view.beyond || g->view.snap != g->found.snap;
    g->view.beyond = beyond;
    g->snap = g->view.snap = g->found.snap;
    g->records = g->view.records;
    g->chain = g->view.chain;
    g->said = g->view.says;
}

/* ---- for disk_replay ---- */

static bool is_kept(const struct scan_batch *b, const struct batch_item *i)
{
    return format_is_record(i->kind) && scan_record(b, i);
}

static void count_records(const struct court *c, uint32_t *count)
{
    for (uint32_t n = 0; n < c->r->batch_count; n++) {
        const struct scan_batch *b = &c->r->batches[n].scan;
        for (uint32_t i = 0; i < b->header->items; i++)
            if (is_kept(b, &b->items[i]))
                count[b->items[i].group]++;
    }
}

/* Counted first, then put where the counts say: of each group in their order. */
static void list_records(struct court *c)
{
    struct disk *d = c->d;
    uint32_t groups = d->shape.groups, sum = 0;
    uint32_t *from = d->record_from = grow(what, NULL, sizeof *from, groups + 2u);

    memset(from, 0, (groups + 2u) * sizeof *from);
    count_records(c, from + 2);
    for (uint32_t g = 0; g <= groups; g++)
        sum = from[g + 1] += sum;
    d->records = grow(what, NULL, sizeof *d->records, sum + 1u);
    for (uint32_t n = 0; n < c->r->batch_count; n++) {
        const struct scan_batch *b = &c->r->batches[n].scan;
        for (uint32_t i = 0; i < b->header->items; i++)
            if (is_kept(b, &b->items[i]))
                d->records[from[b->items[i].group + 1]++] =
                    (struct found_record){b->start, &b->items[i]};
    }
}

void judge_groups(struct disk *d, const struct recovery *r)
{
    struct court c = {.d = d, .r = r};
    uint32_t groups = d->shape.groups;

    c.trials = grow(what, NULL, sizeof *c.trials, groups + 1u);
    memset(c.trials, 0, (groups + 1u) * sizeof *c.trials);
    take_batches(&c);
    list_records(&c);
    for (uint32_t g = 0; g < groups; g++) {
        judge(&c, g);
        settle(&d->groups[g]);
        if (d->groups[g].found.state == DISK_BEYOND)
            segment_forget(d, g);
    }
    grow_free(c.trials);
}
