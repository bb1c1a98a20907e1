/* Segments: where batches go, and when they may be overwritten. */
#include "base/minmax.h"
#include "disk/disk_impl.h"

#include <stdio.h>

void segment_name(char *name, uint32_t index)
{
    snprintf(name, BLOCK_NAME_BYTES, SEGMENT_PREFIX "%05u", index + 1);
}

uint32_t segment_count(const struct disk *d, enum segment_state state)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < d->segment_count; i++)
        n += d->segments[i].state == state;
    return n;
}

uint32_t segment_take(const struct disk *d)
{
    uint32_t i = 0;

    while (i < d->segment_count && d->segments[i].state != SEGMENT_FREE)
        i++;
    CHECK(i < d->segment_count); /* SEGMENTS_SPARE are kept for that */
    return i;
}

void segment_need(struct segment *s, uint32_t group, uint64_t to)
{
    if (to <= s->need[group])
        return;
    s->needs += s->need[group] == 0;
    s->need[group] = to;
}

static void forget_need(struct segment *s, uint32_t group)
{
    s->needs -= s->need[group] != 0;
    s->need[group] = 0;
}

/* Nothing that the group had counts any more. */
void segment_forget(struct disk *d, uint32_t group)
{
    for (uint32_t i = 0; i < d->segment_count; i++)
        forget_need(&d->segments[i], group);
}

/* The chain is written again, behind all full segments: these need not keep it. */
void segment_copied(struct disk *d, uint32_t group)
{
    for (uint32_t i = 0; i < d->segment_count; i++)
        if (d->segments[i].state == SEGMENT_FULL)
            forget_need(&d->segments[i], group);
    d->look_for_room = true;
}

/* The group that keeps it; UINT32_MAX: none does. What was beyond the end when a chain was cut keeps nothing: the batch that
 * says so is not later than the one that gives the segment up. */
static uint32_t keeper(const struct disk *d, const struct segment *s)
{
    for (uint32_t g = 0; s->needs > 0 && g < d->shape.groups; g++)
        if (min_u64(s->need[g], d->groups[g].view.says.end) > d->groups[g].snap)
            return g;
    return UINT32_MAX;
}

static struct segment *oldest_full(const struct disk *d)
{
    struct segment *oldest = NULL;

    for (uint32_t i = 0; i < d->segment_count; i++) {
        struct segment *s = &d->segments[i];
        if (s->state == SEGMENT_FULL && (!oldest || s->first < oldest->first))
            oldest = s;
    }
    return oldest;
}

static bool is_bare(const struct segment *s)
{
    return s->state == SEGMENT_FULL && s->needs == 0;
}

bool segment_may_go(const struct disk *d)
{
    const struct segment *s = oldest_full(d);

    if (s && keeper(d, s) == UINT32_MAX)
        return true;
    for (uint32_t i = 0; i < d->segment_count; i++)
        if (is_bare(&d->segments[i]))
            return true;
    return false;
}

static void let_go(struct segment *s, uint64_t number)
{
    s->state = SEGMENT_GOING;
    s->gone_in = number;
}

/* The oldest first: else what a group has replaced since would be read, and what it was replaced by would not. One that has
 * nothing of any chain may go whatever is before it: pledges are in the table of the next one. */
void segment_let_go(struct disk *d, uint64_t number)
{
    struct segment *s;

    while ((s = oldest_full(d)) != NULL && keeper(d, s) == UINT32_MAX)
        let_go(s, number);
    for (uint32_t i = 0; i < d->segment_count; i++)
        if (is_bare(&d->segments[i]))
            let_go(&d->segments[i], number);
}

void segment_over(struct disk *d, uint64_t number)
{
    for (uint32_t i = 0; i < d->segment_count; i++) {
        struct segment *s = &d->segments[i];
        if (s->state != SEGMENT_GOING || s->gone_in > number)
            continue;
        s->state = SEGMENT_FREE;
        for (uint32_t g = 0; s->needs > 0 && g < d->shape.groups; g++)
            forget_need(s, g);
    }
}

static uint64_t unapplied(const struct group *g)
{
    return g->said.end > g->said.applied ? g->said.end - g->said.applied : 0;
}

void segment_found(struct disk *d)
{
    for (uint32_t n = 0; n < d->shape.groups; n++) {
        d->unapplied += unapplied(&d->groups[n]);
        d->unapplied_groups += unapplied(&d->groups[n]) > 0;
    }
}

void segment_says(struct disk *d, struct group *g, const struct disk_says *says)
{
    d->unapplied -= unapplied(g);
    d->unapplied_groups -= unapplied(g) > 0;
    g->said = *says;
    d->unapplied += unapplied(g);
    d->unapplied_groups += unapplied(g) > 0;
}

/* Segments for copies of all chains: each of them is a record, and a batch that does not fit behind another begins a segment. */
static uint64_t copy_segments(const struct disk *d, uint32_t more_bytes)
{
    uint64_t bytes = d->unapplied + (d->unapplied_groups + 1) * (uint64_t)BLOCK_BYTES + more_bytes;
    uint64_t each = d->segment_bytes - d->batch_bytes;

    /* However much it is, one segment is for records. */
    return min_u64((bytes + each - 1) / each, d->segment_count - SEGMENTS_SPARE - 1);
}

uint32_t segment_spare(const struct disk *d)
{
    return SEGMENTS_SPARE + (uint32_t)copy_segments(d, d->batch_bytes);
}

/* The one that is written to has nothing but pledges: when another one is begun it is free again. */
static bool now_is_bare(const struct disk *d)
{
    return d->now_segment != UINT32_MAX && d->segments[d->now_segment].needs == 0;
}

/* So many batches, each as long as one may be, and none goes over the end of a segment. */
bool segment_has_room(const struct disk *d, uint32_t batches, bool copy, uint32_t bytes)
{
    uint64_t each = d->segment_bytes / d->batch_bytes;
    uint64_t here =
        d->now_segment == UINT32_MAX ? 0 : (d->segment_bytes - d->now_at) / d->batch_bytes;
    uint64_t more = batches > here ? (batches - here + each - 1) / each : 0;

    return segment_count(d, SEGMENT_FREE) + (copy && now_is_bare(d)) >=
           more + SEGMENTS_SPARE + (copy ? 0 : copy_segments(d, bytes));
}

void segment_refused(struct disk *d)
{
    if (d->now_segment == UINT32_MAX || d->segments[d->now_segment].needs == 0 || oldest_full(d) ||
        segment_count(d, SEGMENT_GOING) > 0 || segment_count(d, SEGMENT_FREE) <= SEGMENTS_SPARE)
        return;
    d->close_now = d->must_write = true;
}

uint32_t disk_oldest(const struct disk *d)
{
    const struct segment *s = oldest_full(d);

    return s ? keeper(d, s) : UINT32_MAX;
}

static bool still_refuses(const struct disk *d)
{
    return d->refused > 0 &&
           !segment_has_room(d, d->batch_used - d->writing + 1u, false, d->refused);
}

/* Of what records may use: the spare ones do not count, nor those for which there is no room; nor those that are about to be free, or
 * a state would be saved for them again. Whoever is refused finds all in use: what is kept for copies depends on how much he asks for, and
 * nobody would save a state for him. */
uint32_t disk_used(const struct disk *d)
{
    uint32_t there = d->segment_count - (d->cramped ? segment_count(d, SEGMENT_NONE) : 0);
    uint64_t spare = SEGMENTS_SPARE + copy_segments(d, 0);
    uint64_t all = there > spare ? (there - spare) * d->segment_bytes : d->segment_bytes;
    uint64_t full = segment_count(d, SEGMENT_FULL);
    uint64_t used = full * d->segment_bytes + (d->now_segment == UINT32_MAX ? 0 : d->now_at);

    return used >= all || still_refuses(d) ? 1000 : (uint32_t)(used * 1000 / all);
}
