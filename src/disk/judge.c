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
    uint64_t jump;     /* where the chain goes on from a state that it has not led to; 0: nowhere */
};

struct court {
    struct disk *d;
    const struct recovery *r;
    struct trial *trials;
    bool looks_only;
    /* Records whose bytes are as they were written, in the order of batches; and how many each group has. */
    struct found_record *good;
    uint32_t good_count, good_room;
    uint32_t *good_of;
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

/* A state came from others, and the chain goes on from a snapshot of it: what it had below may be other than what was decided. */
static void chain_jump(struct trial *t, uint64_t from)
{
    if (from == t->jump)
        t->lo = max_u64(t->lo, from);
    t->jump = 0;
}

static void chain_take(struct trial *t, const struct batch_item *i)
{
    if (i->kind == DISK_ENTRIES) {
        chain_entries(t, i);
        chain_jump(t, i->from);
    }
    if (i->kind == DISK_COPY)
        chain_begin(t, i->from, i->to);
    else if (i->kind == DISK_RESET)
        chain_reset(t, i->from);
    else if (i->kind == DISK_SNAP)
        t->jump = i->says.applied < i->from ? i->from : 0;
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

/* For disk_replay. */
static void keep_record(struct court *c, const struct scan_batch *b, const struct batch_item *i)
{
    if (c->good_count == c->good_room) {
        c->good_room = c->good_room ? c->good_room * 2 : 256;
        c->good = grow(what, c->good, sizeof *c->good, c->good_room);
    }
    c->good[c->good_count++] = (struct found_record){b->start, i};
    c->good_of[i->group]++;
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
    bool good = scan_record(b, i); /* once: it may be long */
    if (format_is_record(i->kind)) {
        c->d->groups[i->group].closed_in = b->header->number;
        if (good)
            keep_record(c, b, i);
    }
    if (good)
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

/* If the last one that was recorded is damaged, nothing can be done without it but to take another state, and nothing beyond the commit is
 * missing, then whether it is need not be known now: that shows when it is read (disk_snap_read). */
static bool may_be_trusted(const struct court *c, uint32_t group, uint64_t lo)
{
    const struct group_view *v = &c->d->groups[group].view;
    uint64_t older = 0;
    bool is_there = false;

    for (uint32_t i = 0; i < c->r->snap_count; i++) {
        const struct snap_seen *s = &c->r->snaps[i];
        if (s->group != group)
            continue;
        if (s->pos > v->snap)
            return false; /* which nobody recorded */
        is_there |= s->pos == v->snap;
        older = s->pos < v->snap ? max_u64(older, s->pos) : older;
    }
    return is_there && !c->looks_only && lo > older && lo <= v->snap && v->snap <= v->says.commit;
}

/* ---- verdicts ---- */

static void found_gap(struct group *g, enum disk_state state)
{
    struct disk_found *f = &g->found;

    f->state = state;
    f->gap_to = g->chain_from;
    f->gap_from = max_u64(f->snap, g->chain_broke);
    if (f->gap_from >= f->gap_to)
        f->gap_from = f->snap < f->gap_to ? f->snap : 0;
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
    /* What does not reach the end of the chain is of no use. */
    g->chain_from = t->broken || t->hi < says->end ? says->end : t->lo;
    g->chain_broke = t->gap_from;
    g->snap_unread = may_be_trusted(c, group, g->chain_from);
    f->snap = g->snap_unread ? g->view.snap : newest_snap(c, group);
    if (g->chain_from <= f->snap)
        f->state = g->view.records == 0 && f->snap == 0 ? DISK_NEW : DISK_WHOLE;
    else
        found_gap(g, g->chain_from <= says->commit ? DISK_BELOW : DISK_BEYOND);
}

/* As if it had been found so. The file goes first of all that is done beside the journal, so that another snapshot of the position may
 * come; of two such files one stays until the disk is opened again. */
void judge_snap_damaged(struct disk *d, uint32_t group)
{
    struct group *g = &d->groups[group];

    CHECK(g->snap_unread && g->found.state == DISK_WHOLE);
    if (d->remove[0] == '\0')
        snapfile_name(d->remove, group, g->found.snap, "");
    g->snap_unread = false;
    g->found.snap = g->snap = g->view.snap = 0;
    g->say_in = 1;
    found_gap(g, DISK_BELOW);
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

/* By group, of each in their order. */
static void list_records(const struct court *c)
{
    struct disk *d = c->d;
    uint32_t groups = d->shape.groups, sum = 0;
    uint32_t *from = d->record_from = grow(what, NULL, sizeof *from, groups + 2u);

    from[0] = from[1] = 0;
    for (uint32_t g = 0; g < groups; g++)
        from[g + 1] = sum, sum += c->good_of[g];
    d->records = grow(what, NULL, sizeof *d->records, sum + 1u);
    for (uint32_t i = 0; i < c->good_count; i++)
        d->records[from[c->good[i].item->group + 1]++] = c->good[i];
}

void judge_groups(struct disk *d, const struct recovery *r, bool looks_only)
{
    struct court c = {.d = d, .r = r, .looks_only = looks_only};
    uint32_t groups = d->shape.groups;

    c.trials = grow(what, NULL, sizeof *c.trials, groups + 1u);
    memset(c.trials, 0, (groups + 1u) * sizeof *c.trials);
    c.good_of = grow(what, NULL, sizeof *c.good_of, groups + 1u);
    memset(c.good_of, 0, (groups + 1u) * sizeof *c.good_of);
    take_batches(&c);
    list_records(&c);
    for (uint32_t g = 0; g < groups; g++) {
        judge(&c, g);
        settle(&d->groups[g]);
        if (d->groups[g].found.state == DISK_BEYOND)
            segment_forget(d, g);
    }
    grow_free(c.trials);
    grow_free(c.good);
    grow_free(c.good_of);
}
