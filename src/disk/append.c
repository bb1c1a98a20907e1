/* Records on their way into the open batch. */
#include "base/crc32c.h"
#include "disk/disk_impl.h"

#include <string.h>

struct batch *append_open_batch(const struct disk *d)
{
    return &d->batches[(d->batch_first + d->batch_used - 1) % d->batch_count];
}

void append_next_batch(struct disk *d, uint64_t number)
{
    CHECK(d->batch_used < d->batch_count);
    d->batch_used++;
    d->reserved = UINT32_MAX;
    struct batch *b = append_open_batch(d);
    b->number = number;
    b->item_count = 0;
    b->end = sizeof(struct batch_header);
}

/* Those that are not yet on their way. */
static uint32_t batches_unsent(const struct disk *d)
{
    return d->batch_used - d->writing;
}

bool append_waits(const struct disk *d)
{
    return batches_unsent(d) > 1 || append_open_batch(d)->item_count > 0 || d->must_write;
}

/* The rest stays for pledges and for what closing the batch adds. */
static bool batch_has_room(const struct disk *d, const struct batch *b, uint64_t bytes)
{
    uint64_t items = b->item_count + 1u;

    return b->end + bytes + items * sizeof(struct batch_item) + d->extra_bytes <= d->batch_bytes &&
           items + d->extra_items <= d->items_max;
}

uint32_t disk_record_max(const struct disk *d)
{
    return d->batch_bytes - d->extra_bytes -
           (uint32_t)(sizeof(struct batch_header) + sizeof(struct batch_item));
}

static bool fits(const struct disk *d, uint32_t bytes)
{
    return batch_has_room(d, append_open_batch(d), format_round8(bytes));
}

static bool has_segment(const struct disk *d, uint32_t bytes, bool copy)
{
    return segment_has_room(d, batches_unsent(d) + !fits(d, bytes), copy, bytes);
}

bool disk_has_room(const struct disk *d, uint32_t bytes, bool copy)
{
    CHECK(fits(d, bytes) || append_open_batch(d)->item_count > 0); /* or it never would */
    return d->failure[0] == '\0' && (fits(d, bytes) || d->batch_used < d->batch_count) &&
           has_segment(d, bytes, copy);
}

static void *reserve(struct disk *d, uint32_t bytes, bool copy)
{
    d->reserved = UINT32_MAX;
    if (!disk_has_room(d, bytes, copy)) {
        if (!has_segment(d, bytes, copy))
            d->refused = bytes > d->refused ? bytes : d->refused;
        segment_refused(d);
        return NULL;
    }
    d->refused = bytes >= d->refused ? 0 : d->refused;
    if (!fits(d, bytes))
        append_next_batch(d, append_open_batch(d)->number + 1);
    struct batch *b = append_open_batch(d);
    d->reserved = bytes;
    return b->memory + b->end;
}

void *disk_reserve(struct disk *d, uint32_t bytes)
{
    return reserve(d, bytes, false);
}

void *disk_reserve_copy(struct disk *d, uint32_t bytes)
{
    return reserve(d, bytes, true);
}

struct batch_item *append_item(struct disk *d, const struct batch_item *i)
{
    struct batch *b = append_open_batch(d);

    CHECK(b->item_count < d->items_max);
    b->items[b->item_count] = *i;
    return &b->items[b->item_count++];
}

static void append_record(struct disk *d, struct batch_item *i)
{
    struct group *g = &d->groups[i->group];
    struct batch *b = append_open_batch(d);

    i->records = ++g->records;
    i->chain = g->chain += format_is_chain(i->kind);
    segment_says(d, g, &i->says);
    g->say_in = 0;
    g->last_batch = b->number;
    g->last_item = b->item_count;
    append_item(d, i);
}

/* Where the group's last record is a pledge of the same batch, this one takes its place: so a batch never has more of
 * them than it keeps room for. */
static bool pledge_again(struct disk *d, const struct disk_record *r)
{
    struct group *g = &d->groups[r->group];
    struct batch *b = append_open_batch(d);
    struct batch_item *last = &b->items[g->last_item];

    if (g->last_batch != b->number || last->kind != DISK_PLEDGE)
        return false;
    last->from = r->from;
    last->to = r->to;
    last->ballot = r->ballot;
    last->says = r->says;
    segment_says(d, g, &r->says);
    g->say_in = 0;
    return true;
}

/* Takes what was reserved. */
static void take_bytes(struct disk *d, const struct disk_record *r, struct batch_item *i)
{
    struct batch *b = append_open_batch(d);
    uint32_t bytes = (uint32_t)(r->to - r->from);

    CHECK(r->to >= r->from && r->to - r->from == d->reserved);
    if (bytes == 0)
        return;
    CHECK(r->bytes == b->memory + b->end);
    i->at = b->end;
    i->bytes = bytes;
    i->crc = crc32c(0, r->bytes, bytes);
    memset(b->memory + b->end + bytes, 0, format_round8(bytes) - bytes);
    b->end += (uint32_t)format_round8(bytes);
}

void disk_append(struct disk *d, const struct disk_record *r)
{
    struct batch_item i = {.group = r->group,
                           .kind = (uint16_t)r->kind,
                           .from = r->from,
                           .to = r->to,
                           .ballot = r->ballot,
                           .says = r->says};

    CHECK(r->group < d->shape.groups && format_is_record(i.kind) && r->kind != DISK_SNAP);
    if (r->kind == DISK_PLEDGE) {
        if (pledge_again(d, r))
            return;
    } else if (r->kind == DISK_RESET) {
        CHECK(d->reserved == 0);
    } else {
        take_bytes(d, r, &i);
    }
    d->reserved = UINT32_MAX;
    append_record(d, &i);
}

void append_snap(struct disk *d, uint32_t group, uint64_t pos)
{
    struct batch_item i = {
        .group = group, .kind = DISK_SNAP, .from = pos, .to = pos, .says = d->groups[group].said};

    d->reserved = UINT32_MAX;
    append_record(d, &i);
}

void disk_say(struct disk *d, uint32_t group, const struct disk_says *says)
{
    CHECK(group < d->shape.groups);
    if (memcmp(&d->groups[group].said, says, sizeof *says) == 0)
        return;
    segment_says(d, &d->groups[group], says);
    d->groups[group].say_in = append_open_batch(d)->number;
}

uint64_t disk_batch(const struct disk *d)
{
    return append_open_batch(d)->number;
}

uint64_t disk_done(const struct disk *d)
{
    return d->done;
}
