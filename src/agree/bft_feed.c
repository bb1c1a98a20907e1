/* What sources send: into batches as leader, compared with the own rings before it is certified, and applied in order. */
#include "agree/bft_impl.h"

#include "agree/source.h"
#include "lane/names.h"
#include "lane/stream.h"

#include <stdlib.h>

/* ---- opening ---- */

static int open_lanes(struct bft *b, uint32_t s, struct err *e)
{
    uint32_t self = b->nodes[b->opt.rank], node = b->opt.source_nodes[s];
    struct mem_lane *lanes[2];
    struct mem_lane_spec specs[2] = {lane_spec(b->opt.region, self, node, LANE_SOURCE, s),
                                     lane_spec(b->opt.region, node, self, LANE_ACK, s)};
    specs[0].ctl_words = SOURCE_WORDS;
    specs[0].ring_bytes = b->opt.source_bytes;
    specs[1].ctl_words = ACK_WORDS;
    int rc = mem_lanes_open(b->opt.mem, specs, 2, lanes, e);
    if (rc != 0)
        return rc;
    b->source[s].in = lanes[0];
    b->source[s].ack = lanes[1];
    mem_flow_open(b->opt.mem, &b->source[s].flow, node, b->opt.region, 0);
    return 0;
}

int bft_feed_open(struct bft *b, struct err *e)
{
    int rc = 0;
    uint64_t entry = sizeof(struct entry) + padded(b->opt.payload_max);
    b->source = bft_memory_open(b, (b->opt.sources + 1) * sizeof(*b->source));
    b->entry = bft_memory_open(b, entry);
    b->other = bft_memory_open(b, entry);
    if (b->source == NULL || b->entry == NULL || b->other == NULL)
        return err_set(e, ERR_NOMEM, "group: no memory for %u sources", b->opt.sources);
    for (uint32_t s = 0; rc == 0 && s < b->opt.sources; s++) {
        b->source[s].taken = b->source[s].cursor = stream_start();
        rc = open_lanes(b, s, e);
    }
    return rc;
}

void bft_feed_close(struct bft *b)
{
    free(b->source);
    free(b->entry);
    free(b->other);
}

/* ---- a source's ring ---- */

/* Of the life that its content is of, as the memory knows it. */
static uint16_t life_of(const struct bft_source *s)
{
    return s->in->life < STREAM_LIVES_MAX ? (uint16_t)s->in->life : STREAM_LIVES_MAX;
}

/* What stands at a position, copied: its payload to `payload`. False: nothing that a source writes. */
static bool frame_at(const struct bft *b, const struct bft_source *s, uint64_t pos, uint16_t life,
                     struct frame *f, void *payload)
{
    if (s->in->ctl == NULL || life_of(s) != life)
        return false;
    uint64_t guard = mem_word(s->in, SOURCE_GUARD);
    if (guard <= pos || guard - pos > b->opt.source_bytes)
        return false;
    mem_take(b->opt.mem, s->in, pos, f, sizeof(*f));
    if (!frame_fits(f, pos, life, b->opt.payload_max, guard))
        return false;
    mem_take(b->opt.mem, s->in, pos + sizeof(*f), payload, f->bytes);
    return true;
}

/* ---- as leader ---- */

static void begin_anew(struct bft *b)
{
    for (uint32_t i = 0; i < b->opt.sources; i++) {
        b->source[i].cursor = b->source[i].taken;
        b->source[i].cursor_life = b->source[i].life;
    }
}

static void note_life(struct bft_source *s)
{
    if (s->in->ctl && life_of(s) > s->cursor_life) {
        s->cursor_life = life_of(s);
        s->cursor = stream_start();
    }
}

static uint32_t fill_from(struct bft *b, uint32_t i, unsigned char *to, uint32_t room)
{
    struct bft_source *s = &b->source[i];
    uint32_t used = 0;
    struct frame f;
    note_life(s);
    while (room - used >= entry_size(b->opt.payload_max)) {
        struct entry *e = (void *)(to + used);
        if (!frame_at(b, s, s->cursor, s->cursor_life, &f, e->payload))
            break;
        *e = (struct entry){
            .bytes = f.bytes, .source = (uint16_t)i, .life = s->cursor_life, .srcpos = s->cursor};
        memset(e->payload + f.bytes, 0, padded(f.bytes) - f.bytes);
        used += (uint32_t)entry_size(f.bytes);
        s->cursor += frame_size(f.bytes);
    }
    return used;
}

uint32_t bft_feed_fill(void *ctx, void *batch, uint32_t room, bool anew)
{
    struct bft *b = ctx;
    uint32_t used = 0;
    if (anew)
        begin_anew(b);
    for (uint32_t i = 0; i < b->opt.sources; i++)
        used += fill_from(b, i, (unsigned char *)batch + used, room - used);
    return used;
}

/* ---- as any member ---- */

/* Its own ring has it in the same bytes; or it was taken before, and is nothing. */
static bool is_valid(struct bft *b, const struct entry *e)
{
    struct frame f;
    if (e->source >= b->opt.sources || e->bytes > b->opt.payload_max)
        return false;
    const struct bft_source *s = &b->source[e->source];
    if (e->life < s->life || (e->life == s->life && e->srcpos < s->taken))
        return true;
    return frame_at(b, s, e->srcpos, e->life, &f, b->other->payload) && f.bytes == e->bytes &&
           memcmp(b->other->payload, e->payload, e->bytes) == 0;
}

int bft_feed_valid(void *ctx, const void *batch, uint32_t bytes)
{
    struct bft *b = ctx;
    for (uint32_t at = 0; at < bytes;) {
        const struct entry *e = (const void *)((const char *)batch + at);
        if (!is_valid(b, e))
            return 0;
        at += (uint32_t)entry_size(e->bytes);
    }
    return 1;
}

bool bft_feed_pending(void *ctx)
{
    struct bft *b = ctx;
    for (uint32_t i = 0; i < b->opt.sources; i++) {
        const struct bft_source *s = &b->source[i];
        if (s->in->ctl == NULL || life_of(s) < s->life || life_of(s) == STREAM_LIVES_MAX)
            continue;
        uint64_t from = life_of(s) > s->life ? stream_start() : s->taken;
        if (mem_word(s->in, SOURCE_GUARD) > from)
            return true;
    }
    return false;
}

/* ---- applying ---- */

static void apply_entry(struct bft *b, const struct entry *e)
{
    const struct log_machine *m = b->opt.machine;
    struct bft_source *s = e->source < b->opt.sources ? &b->source[e->source] : NULL;
    bool effective =
        s && e->bytes <= b->opt.payload_max && stream_next(s->life, s->taken, e->life, e->srcpos);
    if (m->observe)
        m->observe(b->opt.ctx, e, effective);
    if (!effective)
        return;
    s->told_life = s->told_life && s->life == e->life;
    s->life = e->life;
    s->taken = e->srcpos + frame_size(e->bytes);
    b->messages++;
    m->apply(b->opt.ctx, e);
}

/* It goes on where there was no room for what an entry brings about. */
bool bft_feed_apply(void *ctx, uint64_t slot, const void *batch, uint32_t bytes)
{
    struct bft *b = ctx;
    (void)slot;
    while (b->apply_at < bytes) {
        const struct entry *e = (const void *)((const char *)batch + b->apply_at);
        if (e->bytes <= b->opt.payload_max) {
            memcpy(b->entry, e, sizeof(*e) + e->bytes);
            b->entry->pos = b->pos;
            if (b->opt.machine->ready && !b->opt.machine->ready(b->opt.ctx, b->entry))
                return false;
            apply_entry(b, b->entry);
        }
        b->pos += entry_size(e->bytes);
        b->apply_at += (uint32_t)entry_size(e->bytes);
    }
    b->apply_at = 0;
    return true;
}

void bft_feed_loaded(struct bft *b, uint32_t source, uint64_t taken, uint16_t life)
{
    struct bft_source *s = &b->source[source];
    s->told_life = s->told_life && s->life == life;
    s->taken = taken;
    s->life = life;
}

/* ---- acknowledging ---- */

/* TAKEN before LIFE, as agree/source.h has it. */
static int tell_source(struct bft *b, uint32_t i)
{
    struct bft_source *s = &b->source[i];
    if (s->flow.status != MEM_DONE) {
        mem_flow_open(b->opt.mem, &s->flow, b->opt.source_nodes[i], b->opt.region, 0);
        s->told_life = false;
        s->told = UINT64_MAX;
    }
    if (s->flow.status != MEM_DONE || (s->told == s->taken && s->told_life))
        return 0;
    mem_set1(b->opt.mem, &s->flow, s->ack, ACK_TAKEN, s->taken);
    if (!s->told_life)
        mem_set1(b->opt.mem, &s->flow, s->ack, ACK_LIFE, s->life);
    s->told_life = true;
    s->told = s->taken;
    mem_bell_later(b->opt.mem, b->opt.source_nodes[i]);
    return 1;
}

int bft_feed_tell(struct bft *b)
{
    int work = 0;
    for (uint32_t i = 0; i < b->opt.sources; i++)
        work += tell_source(b, i);
    return work;
}
