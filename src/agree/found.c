#include "agree/found.h"

#include "base/grow.h"
#include "base/minmax.h"
#include "base/planted.h"

#include <string.h>

/* The first entry that does not begin before pos, by its number; the count, if all do. */
uint32_t found_find(const struct found_list *c, uint64_t pos)
{
    uint32_t low = 0, high = c->count;
    if (pos >= c->end)
        return c->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (c->entry[mid]->pos < pos)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void found_push(struct found_list *c, const struct entry *e)
{
    if (c->count == c->room) {
        c->room = c->room ? 2 * c->room : 1024;
        c->entry =
            grow("what a disk has of a log", c->entry, sizeof(const struct entry *), c->room);
    }
    c->entry[c->count++] = e;
    c->end = e->pos + entry_size(e->bytes);
}

void found_begin(struct found_list *c, uint64_t at)
{
    c->count = 0;
    c->base = c->end = at;
}

/* Drops what begins at pos or behind. What it cuts through is dropped, too, with all before: such an entry was not decided. */
static void found_cut(struct found_list *c, uint64_t pos)
{
    c->count = found_find(c, pos);
    if (pos >= c->end)
        return;
    const struct entry *last = c->count > 0 ? c->entry[c->count - 1] : NULL;
    if (last != NULL && last->pos + entry_size(last->bytes) > pos) {
        c->count = 0;
        c->base = pos;
    }
    c->end = pos;
}

/* It begins in the list, or where that ends. */
static void found_put(struct found_list *c, const struct entry *e)
{
    uint32_t i = found_find(c, e->pos);
    if (i < c->count && entry_same(c->entry[i], e)) {
        c->entry[i] = e;
        if (PLANTED(suffix_dropped))
            found_cut(c, e->pos + entry_size(e->bytes));
        return;
    }
    found_cut(c, e->pos);
    found_push(c, e);
}

/* What was missing came again, after a state of before it. What stood behind counts as before: a decision may rest on it. */
static void found_join(struct found_chain *c)
{
    struct found_list *ahead = &c->ahead;
    if (ahead->count == 0 || c->of.end < ahead->base)
        return;
    uint32_t count = c->of.end == ahead->base ? ahead->count : 0;
    for (uint32_t i = 0; i < count; i++)
        found_push(&c->of, ahead->entry[i]);
    ahead->count = 0;
}

static void found_add(struct found_chain *c, const struct entry *e)
{
    struct found_list *ahead = &c->ahead;
    c->highest = max_u64(c->highest, e->ballot);
    if (e->pos < c->of.base)
        return; /* in the snapshot */
    if (e->pos <= c->of.end) {
        found_put(&c->of, e);
        found_join(c);
        return;
    }
    if (ahead->count == 0 || e->pos < ahead->base || e->pos > ahead->end)
        found_begin(ahead, e->pos);
    found_put(ahead, e);
}

/* The state was replaced: what is below may be other than what was decided. On what is beyond a decision may rest, unless no entry
 * begins there: then none of what follows was decided. */
static void found_reset(struct found_chain *f, uint64_t to)
{
    struct found_list *c = &f->of;
    if (to <= c->base)
        return;
    f->ahead.count = 0;
    uint32_t i = found_find(c, to);
    if (i < c->count && c->entry[i]->pos == to) {
        c->count -= i;
        memmove(c->entry, c->entry + i, c->count * sizeof(c->entry[0]));
    } else {
        c->count = 0;
        c->end = to;
    }
    c->base = to;
}

void found_take(void *ctx, const struct disk_record *r)
{
    struct found_chain *c = ctx;
    if (r->kind == DISK_RESET && !c->bad)
        found_reset(c, r->from);
    if (PLANTED(snap_drops_beyond) && r->kind == DISK_SNAP && r->from == c->of.base)
        found_cut(&c->of, c->of.base);
    if ((r->kind != DISK_ENTRIES && r->kind != DISK_COPY) || c->bad)
        return;
    if (r->kind == DISK_COPY && r->from >= c->of.base) {
        found_cut(&c->of, r->from);
        c->ahead.count = 0;
    }
    for (uint64_t pos = r->from; pos < r->to && !c->bad;) {
        const struct entry *e = (const struct entry *)(const void *)(r->bytes + (pos - r->from));
        c->bad = r->to - pos < sizeof(*e) || e->pos != pos || e->bytes > c->payload_max ||
                 r->to - pos < entry_size(e->bytes);
        if (!c->bad) {
            found_add(c, e);
            pos += entry_size(e->bytes);
        }
    }
}

void found_free(struct found_chain *c)
{
    grow_free(c->of.entry);
    grow_free(c->ahead.entry);
}
