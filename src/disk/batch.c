/* A batch's way to the disk: it is closed, written, and takes effect. */
#include "base/crc32c.h"
#include "base/minmax.h"
#include "disk/disk_impl.h"

#include <string.h>

static struct batch *oldest(const struct disk *d)
{
    return &d->batches[d->batch_first];
}

static void add_item(struct disk *d, struct batch *b, const struct batch_item *i)
{
    CHECK(b->item_count < d->items_max);
    b->items[b->item_count++] = *i;
}

/* What its records say is what the groups have from now on. True: there are some. */
static bool take_records(struct disk *d, const struct batch *b)
{
    for (uint32_t i = 0; i < b->item_count; i++) {
        struct group *g = &d->groups[b->items[i].group];
        view_take(&g->view, &b->items[i]);
        g->closed_in = b->number;
    }
    return b->item_count > 0;
}

/* Whoever has something to say; and who was in the batch before and is not in this one, so that this one tells whom it
 * concerns if that one is damaged. */
static bool is_stated(const struct group *g, uint64_t number)
{
    return (g->say_in != 0 && g->say_in <= number) || g->closed_in == number - 1;
}

static uint32_t count_stated(const struct disk *d, uint64_t number)
{
    uint32_t n = 0;

    for (uint32_t g = 0; g < d->shape.groups; g++)
        n += is_stated(&d->groups[g], number);
    return n;
}

static void add_states(struct disk *d, struct batch *b, bool all)
{
    for (uint32_t n = 0; n < d->shape.groups; n++) {
        struct group *g = &d->groups[n];
        if (!all && !is_stated(g, b->number))
            continue;
        if (g->say_in != 0 && g->say_in <= b->number) {
            g->view.says = g->said;
            g->say_in = 0;
        }
        struct batch_item i = view_state(&g->view, n);
        add_item(d, b, &i);
    }
}

static void add_lives(struct disk *d, struct batch *b)
{
    uint32_t bytes = lives_bytes(d);
    struct batch_item i = {.kind = ITEM_LIVES, .at = b->end, .bytes = bytes};

    if (bytes == 0)
        return;
    memset(b->memory + b->end, 0, format_round8(bytes));
    lives_put(d, b->memory + b->end);
    i.crc = crc32c(0, b->memory + b->end, bytes);
    b->end += (uint32_t)format_round8(bytes);
    add_item(d, b, &i);
}

/* In a table those that go are just not named. */
static void add_segments(struct disk *d, struct batch *b, bool table)
{
    for (uint32_t n = 0; n < d->segment_count; n++) {
        const struct segment *s = &d->segments[n];
        struct batch_item i = {.from = s->first, .to = s->last + 1};
        bool going = s->state == SEGMENT_GOING && s->gone_in == b->number;
        if (table ? s->state != SEGMENT_FULL : !going)
            continue;
        i.kind = table ? ITEM_SEGMENT : ITEM_RELEASE;
        add_item(d, b, &i);
    }
}

/* At most so long, unless it becomes a table. */
static uint64_t closed_bytes(const struct disk *d, const struct batch *b)
{
    uint64_t items = b->item_count + count_stated(d, b->number) + d->segment_count;

    return format_blocks(b->end + items * sizeof(struct batch_item));
}

/* True: the batch begins another segment. */
static bool place(struct disk *d, const struct batch *b)
{
    bool fits = d->now_segment != UINT32_MAX && d->now_at + closed_bytes(d, b) <= d->segment_bytes;

    if (fits && !d->close_now)
        return false;
    d->close_now = false;
    if (d->now_segment != UINT32_MAX)
        d->segments[d->now_segment].state = SEGMENT_FULL;
    d->now_segment = segment_take(d);
    d->now_at = 0;
    d->segments[d->now_segment].state = SEGMENT_NOW;
    d->segments[d->now_segment].first = b->number;
    return true;
}

static void add_needs(struct disk *d, const struct batch *b)
{
    struct segment *s = &d->segments[d->now_segment];

    s->last = b->number;
    for (uint32_t i = 0; i < b->item_count; i++)
        if (format_is_chain(b->items[i].kind))
            segment_need(s, b->items[i].group, max_u64(b->items[i].from, b->items[i].to));
}

static uint32_t seal(struct disk *d, struct batch *b, bool table)
{
    struct batch_header *h = (struct batch_header *)(void *)b->memory;
    uint32_t directory_bytes = b->item_count * (uint32_t)sizeof(struct batch_item);
    uint32_t bytes = (uint32_t)format_blocks(b->end + directory_bytes);

    CHECK(bytes <= d->batch_bytes);
    *h = (struct batch_header){
        .magic = BATCH_MAGIC,
        .version = FORMAT_VERSION,
        .flags = table ? BATCH_TABLE : 0,
        .number = b->number,
        .bytes = bytes,
        .directory = b->end,
        .items = b->item_count,
    };
    memcpy(h->journal, d->journal, sizeof h->journal);
    memcpy(b->memory + b->end, b->items, directory_bytes);
    memset(b->memory + b->end + directory_bytes, 0, bytes - b->end - directory_bytes);
    scan_seal_batch(b->memory);
    return bytes;
}

static void write_out(struct disk *d, const struct batch *b, uint32_t bytes)
{
    struct block_step steps[2];
    uint32_t count = 0;

    if (d->slots_behind > 0)
        lives_step(d, b->number, &steps[count++]);
    steps[count++] = (struct block_step){
        .act = BLOCK_WRITE,
        .name = d->segments[d->now_segment].name,
        .data = b->memory,
        .at = d->now_at,
        .bytes = bytes,
    };
    d->now_at += bytes;
    d->writing = true;
    d->began_ns = d->now_ns;
    d->batches_written++;
    d->bytes_written += bytes;
    block_begin(d->block, BLOCK_JOURNAL, steps, count);
}

void batch_begin(struct disk *d)
{
    struct batch *b = oldest(d);

    CHECK(!d->writing);
    if (d->batch_used == 1) {
        append_next_batch(d, b->number + 1);
        d->must_write = false;
    }
    d->confirmed = !take_records(d, b) && d->slots_behind < SLOTS;
    bool table = place(d, b);
    segment_let_go(d, b->number);
    add_needs(d, b);
    add_states(d, b, table && !PLANTED(disk_no_table));
    add_segments(d, b, table);
    if (table)
        add_lives(d, b);
    write_out(d, b, seal(d, b, table));
    if (PLANTED(disk_done_early))
        d->done = b->number;
}

/* The memory of a batch that is over is that of the next one which is opened: of all that there are as few are in use as there
 * are batches, and these are in the processor's caches. */
static void lend_memory(struct disk *d, struct batch *over)
{
    struct batch *next = &d->batches[(d->batch_first + d->batch_used) % d->batch_count];
    struct batch was = *over;

    over->memory = next->memory;
    over->items = next->items;
    next->memory = was.memory;
    next->items = was.items;
}

void batch_over(struct disk *d)
{
    struct batch *b = oldest(d);

    for (uint32_t i = 0; i < b->item_count; i++) {
        const struct batch_item *item = &b->items[i];
        if (item->kind == DISK_SNAP)
            bulk_recorded(d, item->group, item->from);
        else if (item->kind == DISK_COPY)
            segment_copied(d, item->group);
    }
    segment_over(d, b->number);
    d->done = b->number;
    d->writing = false;
    d->idle_ns = d->now_ns;
    d->batch_first = (d->batch_first + 1) % d->batch_count;
    d->batch_used--;
    lend_memory(d, b);
}
