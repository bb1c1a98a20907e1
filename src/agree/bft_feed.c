/* What sources send: into batches as leader, compared with the own rings before it is certified, and applied in order. */
#include "agree/bft_impl.h"

#include "agree/source.h"
#include "base/planted.h"
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
    return rc == 0 ? bft_signed_open(b, e) : rc;
}

void bft_feed_close(struct bft *b)
{
    bft_signed_close(b);
    free(b->source);
    free(b->entry);
    free(b->other);
}

/* ---- a source's ring ---- */

uint16_t bft_feed_life(const struct bft_source *s)
{
    return s->in->life < STREAM_LIVES_MAX ? (uint16_t)s->in->life : STREAM_LIVES_MAX;
}

bool bft_feed_frame(const struct bft *b, const struct bft_source *s, uint64_t pos, uint16_t life,
                    struct frame *f, void *payload)
{
    if (s->in->ctl == NULL || bft_feed_life(s) != life)
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

/* What the source has signed, stretch by stretch: what it has not may stand here alone, and nobody else would certify it. */
static uint32_t fill_from(struct bft_source *s, unsigned char *to, uint32_t room,
                          uint32_t *stretches)
{
    const struct bft_kept *k;
    uint32_t used = 0;
    while (*stretches < BFT_STRETCHES_BATCH &&
           (k = bft_signed_next(s, s->cursor, s->cursor_life)) != NULL &&
           bft_stretch_room(k->bytes) <= room - used) {
        used += bft_stretch_put(&k->stretch, to + used);
        memcpy(to + used, k->entries, k->bytes);
        used += k->bytes;
        s->cursor = k->stretch.end;
        s->cursor_life = (uint16_t)k->stretch.life;
        ++*stretches;
    }
    return used;
}

/* What is in its ring, signed or not: in a fast epoch all have it, or it costs the epoch. */
static uint32_t fill_ring(struct bft *b, uint32_t i, unsigned char *to, uint32_t room)
{
    struct bft_source *s = &b->source[i];
    uint32_t used = 0;
    struct frame f;
    if (s->in->ctl && bft_feed_life(s) > s->cursor_life && bft_feed_life(s) < STREAM_LIVES_MAX) {
        s->cursor_life = bft_feed_life(s);
        s->cursor = stream_start();
    }
    while (room - used >= entry_size(b->opt.payload_max)) {
        struct entry *e = (void *)(to + used);
        if (s->signed_only || !bft_feed_frame(b, s, s->cursor, s->cursor_life, &f, e->payload))
            break;
        *e = (struct entry){
            .bytes = f.bytes, .source = (uint16_t)i, .life = s->cursor_life, .srcpos = s->cursor};
        memset(e->payload + f.bytes, 0, padded(f.bytes) - f.bytes);
        used += (uint32_t)entry_size(f.bytes);
        s->cursor += frame_size(f.bytes);
    }
    return used;
}

uint32_t bft_feed_fill_fast(struct bft *b, void *batch, uint32_t room)
{
    uint32_t used = 0, stretches = 0;
    for (uint32_t k = 0; k < b->opt.sources; k++) {
        uint32_t i = (b->first_source + k) % b->opt.sources, before = used;
        used += fill_ring(b, i, (unsigned char *)batch + used, room - used);
        if (used == before)
            used +=
                fill_from(&b->source[i], (unsigned char *)batch + used, room - used, &stretches);
    }
    b->first_source += used > 0;
    return used;
}

/* Each batch begins with another source, so that none has to wait for all of what the others send. */
uint32_t bft_feed_fill(void *ctx, void *batch, uint32_t room, bool anew, bool last)
{
    struct bft *b = ctx;
    uint32_t used = 0, stretches = 0;
    b->anew = b->anew || anew;
    if (last && !bft_epoch_is_open(b))
        return 0;
    if (bft_epoch_is_open(b) || bft_epoch_drains(b))
        return bft_epoch_fill(b, batch, room, anew);
    if (b->anew)
        begin_anew(b);
    b->anew = false;
    for (uint32_t i = 0; i < b->opt.sources; i++) {
        struct bft_source *s = &b->source[(b->first_source + i) % b->opt.sources];
        used += fill_from(s, (unsigned char *)batch + used, room - used, &stretches);
    }
    b->first_source += used > 0;
    return used;
}

/* ---- as any member ---- */

/* Its own ring has it in the same bytes; or it was taken before, and is nothing. */
static bool is_here(struct bft *b, const struct entry *e)
{
    struct frame f;
    if (e->source >= b->opt.sources || e->bytes > b->opt.payload_max)
        return false;
    const struct bft_source *s = &b->source[e->source];
    if (e->life < s->life || (e->life == s->life && e->srcpos < s->taken))
        return true;
    return bft_feed_frame(b, s, e->srcpos, e->life, &f, b->other->payload) && f.bytes == e->bytes &&
           memcmp(b->other->payload, e->payload, e->bytes) == 0;
}

static bool all_here(struct bft *b, const unsigned char *at, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes;) {
        const struct entry *e = (const void *)(at + i);
        if (!is_here(b, e))
            return false;
        i += (uint32_t)entry_size(e->bytes);
    }
    return true;
}

/* Bytes of the messages behind a signature, all of which are valid; 0: they are not, or that is not known yet. */
static uint32_t valid_stretch(struct bft *b, const struct bft_stretch *st,
                              const unsigned char *entries, uint32_t bytes)
{
    struct digest d;
    if (st->source >= b->opt.sources || st->life >= STREAM_LIVES_MAX)
        return 0;
    uint32_t own = bft_stretch_fits(st, entries, bytes, &d);
    if (own == 0)
        return 0;
    return all_here(b, entries, own) || bft_signed_valid(b, st, d) > 0 ? own : 0;
}

/* All of it is looked at, also behind what is not known yet: signatures are checked at the same time. */
int bft_feed_valid(void *ctx, const void *batch, uint32_t bytes)
{
    struct bft *b = ctx;
    const unsigned char *from = batch;
    uint32_t stretches = 0;
    if (PLANTED(bft_trusts_leader))
        return 1;
    for (uint32_t at = 0; at < bytes;) {
        const struct entry *e = (const void *)(from + at);
        const struct bft_stretch *st = bft_stretch_of(e);
        at += (uint32_t)entry_size(e->bytes);
        uint32_t behind = 0;
        if (st && ++stretches <= BFT_STRETCHES_BATCH)
            behind = valid_stretch(b, st, from + at, bytes - at);
        if (behind == 0 && !is_here(b, e) && !(at == bytes && bft_epoch_valid(b, e) > 0))
            return 0;
        at += behind;
    }
    return 1;
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
    s->chain = bft_stretch_chain(s->life == e->life ? s->chain : (struct digest){{0}}, e);
    s->life = e->life;
    s->taken = e->srcpos + frame_size(e->bytes);
    b->messages++;
    m->apply(b->opt.ctx, e);
}

/* It goes on where there was no room for what an entry brings about. */
bool bft_feed_apply_batch(struct bft *b, const void *batch, uint32_t bytes)
{
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

bool bft_feed_apply(void *ctx, uint64_t slot, const void *batch, uint32_t bytes)
{
    struct bft *b = ctx;
    (void)slot;
    if (bytes == 0)
        return true;
    bool goes_on = b->apply_at > 0 && !bft_epoch_is_open(b);
    int how = goes_on ? 1 : bft_epoch_apply(b, batch);
    return how > 0 ? bft_feed_apply_batch(b, batch, bytes) : how < 0;
}

/* None in an epoch: how far it is differs; and one behind it, for whoever has not got all of it. */
bool bft_feed_save_now(void *ctx, bool usual)
{
    struct bft *b = ctx;
    bool ended = b->was_open && !bft_epoch_is_open(b);
    b->was_open = bft_epoch_is_open(b);
    return !b->was_open && (usual || ended);
}

void bft_feed_loaded(struct bft *b, uint32_t source, const struct bft_saved_source *saved)
{
    struct bft_source *s = &b->source[source];
    s->told_life = s->told_life && s->life == saved->life;
    s->taken = saved->taken;
    s->life = (uint16_t)saved->life;
    s->chain = saved->chain;
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
    uint64_t asks = !bft_epoch_is_fast(b);
    if (s->flow.status != MEM_DONE || (s->told == s->taken && s->told_life && s->told_asks == asks))
        return 0;
    mem_set1(b->opt.mem, &s->flow, s->ack, ACK_TAKEN, s->taken);
    if (!s->told_life || s->told_asks != asks)
        mem_set1(b->opt.mem, &s->flow, s->ack, ACK_ASKS, asks);
    if (!s->told_life)
        mem_set1(b->opt.mem, &s->flow, s->ack, ACK_LIFE, s->life);
    s->told_asks = asks;
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
