/* Taking from the sources, as leader: their rings into the log, and back how far they were taken. */
#include "agree/log_impl.h"

enum {
    ACK_PART = 8,
    ANSWER_FOR = 16, /* times suspect_ns, to who writes to us though we do not lead */
};

/* How much of a ring may be free again before its writers are told: with the rest they must be able to
 * send the largest message. */
static uint64_t ack_after_bytes(const struct log_options *o, uint64_t ring_bytes)
{
    uint64_t spare = ring_bytes - frame_size(o->payload_max);
    return !o->ack_lazily ? 0 : min_u64(spare, ring_bytes / ACK_PART);
}

/* A source with writers joins those that are looked at. It is told who leads. */
void log_source_add(struct log *l, uint32_t source, struct log_source s)
{
    if (s.ring_mask == 0)
        s.ring_mask = l->opt.source_bytes - 1;
    s.ack_after = ack_after_bytes(&l->opt, s.ring_mask + UINT64_C(1));
    if (s.life == 0 && s.taken == 0)
        s.taken = stream_start();
    s.cursor = s.taken;
    s.cursor_life = s.life;
    s.due = true;
    s.dirty = l->source[source].dirty;
    l->source[source] = s;
    l->open[l->opens++] = source;
    l->links_of = 0;
    log_source_dirty(l, source);
}

void sources_init(struct log *l)
{
    const struct log_options *o = &l->opt;
    for (uint32_t s = 0; o->source_nodes && s < o->sources; s++) {
        l->writer[s] = (struct source_writer){.node = o->source_nodes[s], .region = o->region};
        log_source_add(l, s, (struct log_source){.writer = &l->writer[s], .writers = 1});
    }
    struct source_writer *writer = &l->writer[o->sources];
    for (uint32_t i = 0; i < o->streams; i++) {
        const struct log_stream *s = &o->stream[i];
        uint32_t ring_bytes = s->ring_bytes ? s->ring_bytes : o->source_bytes;
        if (s->writers > 0)
            log_source_add(l, o->sources + i,
                           (struct log_source){.writer = writer,
                                               .writers = s->writers,
                                               .ring_mask = ring_bytes - 1});
        for (uint32_t w = 0; w < s->writers; w++)
            *writer++ = (struct source_writer){.node = s->nodes[w],
                                               .region = region_number(REGION_EDGE, o->region)};
    }
}

/* Notes that the source has to be told how far it was taken. */
void log_source_dirty(struct log *l, uint32_t source)
{
    if (!l->source[source].dirty) {
        l->source[source].dirty = true;
        l->dirty[l->dirty_count++] = source;
    }
}

/* All that the leaders before us took from the sources is known. */
void sources_serve(struct log *l)
{
    l->serving = true;
    for (uint32_t k = 0; k < l->opens; k++) {
        uint32_t i = l->open[k];
        struct log_source *s = &l->source[i];
        bool keeps = PLANTED(cursor_ahead) || (PLANTED(parent_ahead) && s->writers > 1);
        bool misses = PLANTED(ring_searched) && s->writers == 1 && s->writer->in->ctl &&
                      mem_word(s->writer->in, SOURCE_GUARD) < s->taken;
        if (!misses && (!keeps || s->cursor < s->taken || s->cursor_life < s->life))
            s->cursor = s->taken;
        s->cursor_life = s->life;
        s->fault = SOURCE_SOUND;
        s->due = true;
        log_source_dirty(l, i);
    }
    l->links_of = 0;
}

/* The first message of another process in its place is applied. */
void log_source_reborn(struct log_source *s, uint16_t life)
{
    log_source_load(s, stream_start(), life);
    s->due = true; /* it may be as far as the life before it was told to be */
}

/* From a snapshot. Most sources were never there: not to touch them saves their pages. */
void log_source_load(struct log_source *s, uint64_t taken, uint64_t life)
{
    if (s->taken == taken && s->life == life)
        return;
    s->taken = taken;
    s->life = (uint16_t)life;
    for (uint32_t w = 0; w < s->writers; w++)
        s->writer[w].acked_life = false;
}

static const char *fault_text(enum source_fault fault)
{
    static const char *const texts[] = {
        [SOURCE_SOUND] = "nothing",
        [SOURCE_FRAME] = "it wrote what is no message",
        [SOURCE_OVERFULL] = "it says that more is in its ring than the ring holds",
        [SOURCE_USED_UP] = "its place was used too often",
    };
    return texts[fault];
}

/* A source has written what no source writes. It is not read any more; another process in its place is. */
static void mute(struct log *l, struct log_source *s, uint32_t life, enum source_fault fault)
{
    if (s->fault == fault)
        return;
    s->fault = fault;
    l->muted = (struct unit_muted){.count = l->muted.count + 1,
                                   .source = (uint32_t)(s - l->source),
                                   .life = life,
                                   .why = fault_text(fault)};
    l->links_of = 0;
}

/* The batch that is being filled. */
struct fill {
    uint64_t end;        /* of what is in it */
    uint64_t window_end; /* limits on that: what may be undecided, */
    uint64_t batch_end;  /* what goes out as one write, */
    uint64_t room_end;   /* and what is free; UINT64_MAX: not looked up yet */
};

static bool fits(struct log *l, struct fill *b, uint64_t size)
{
    if (b->room_end == UINT64_MAX) {
        b->room_end = room_end(l);
        if (b->end + size > b->room_end)
            room_missing(l, b->end + size);
        else if (l->stuck)
            room_found(l);
    }
    return b->end + size <= b->room_end && b->end + size <= b->window_end &&
           (b->end == l->tail || b->end + size <= b->batch_end);
}

/* A frame of the lap before passes for the next one. False: there is none. */
static inline bool planted_old_lap(const struct log_source *s, uint64_t written, struct frame *f)
{
    if (s->writers == 1)
        return true;
    if (f->pos + s->ring_mask + 1 == s->cursor && f->pos < written)
        f->pos = s->cursor;
    else if (s->cursor >= written)
        return false;
    return true;
}

/* Takes what one writer of the source has ready. False: the batch is full. */
static bool take_from(struct log *l, uint32_t source, const struct source_writer *writer,
                      struct fill *b)
{
    struct log_source *s = &l->source[source];
    if (writer->in->ctl == NULL)
        return true;
    const uint64_t ring_bytes = s->ring_mask + UINT64_C(1);
    uint64_t guard = mem_word(writer->in, SOURCE_GUARD);
    if (PLANTED(position_split) && guard >> 48 > s->cursor >> 48)
        s->cursor = guard >> 48 << 48;
    if (s->writers == 1 && guard - s->cursor > ring_bytes && s->cursor < guard) {
        mute(l, s, s->cursor_life, SOURCE_OVERFULL);
        return true;
    }
    const uint64_t written = guard;
    if ((PLANTED(edge_unguarded) || PLANTED(edge_old_lap)) && s->writers > 1)
        guard = s->cursor + s->ring_mask;
    while (s->cursor < guard) {
        struct frame f;
        frame_read(&f, writer->in->ring, ring_bytes, s->cursor);
        if (PLANTED(edge_old_lap) && !planted_old_lap(s, written, &f))
            return true;
        if (PLANTED(life_believed) && s->writers == 1 && f.life > s->cursor_life)
            s->cursor_life = (uint16_t)f.life;
        if (!frame_fits(&f, s->cursor, s->cursor_life, l->opt.payload_max, guard)) {
            /* One of several writers may have begun later in the stream; a lone one is broken. */
            if (s->writers == 1)
                mute(l, s, s->cursor_life, SOURCE_FRAME);
            return true;
        }
        uint64_t size = entry_size(f.bytes);
        if (!fits(l, b, size))
            return false;
        ring_read(writer->in->ring, ring_bytes, s->cursor + sizeof(f),
                  lead_fill(l, b->end, source, f.life, s->cursor, f.bytes), f.bytes);
        b->end += size;
        s->cursor += frame_size(f.bytes);
    }
    return true;
}

static void link_add(struct log *l, struct log_source *s, struct source_writer *writer)
{
    l->link[l->links++] = (struct source_link){
        .guard = &writer->in->ctl[SOURCE_GUARD], .source = s, .writer = writer};
}

/* Whoever writes a client's lane now: has another process come to its place? Which life that is the memory has
 * told us, and not the client. False: what stands there is not to be read. */
static bool life_look(struct log *l, struct log_source *s)
{
    const struct mem_lane *in = s->writer->in;
    if (s >= &l->source[l->opt.sources] || in->ctl == NULL)
        return true;
    if (in->life >= STREAM_LIVES_MAX) {
        mute(l, s, in->life, SOURCE_USED_UP);
    } else if (in->life > s->cursor_life && !PLANTED(life_missed)) {
        s->cursor_life = (uint16_t)in->life;
        s->cursor = stream_start();
        s->fault = SOURCE_SOUND;
    }
    l->muted_count += s->fault != SOURCE_SOUND;
    return s->fault == SOURCE_SOUND && (in->life == s->cursor_life || PLANTED(life_missed));
}

/* Lists the writers that are there, of the many that there may be. */
static void links_make(struct log *l)
{
    l->links = l->muted_count = 0;
    for (uint32_t k = 0; k < l->opens; k++) {
        struct log_source *s = &l->source[l->open[k]];
        uint32_t w = life_look(l, s) ? 0 : s->writers;
        while (w < s->writers && s->writer[w].in->ctl == NULL)
            w++;
        s->first = l->links;
        if (w < s->writers)
            link_add(l, s, &s->writer[w]);
    }
    l->links_first = l->links;
    for (l->links_stream = 0; l->links_stream < l->links_first; l->links_stream++)
        if (l->link[l->links_stream].source < &l->source[l->opt.sources])
            break;
    for (uint32_t k = 0; k < l->opens; k++) {
        struct log_source *s = &l->source[l->open[k]];
        for (uint32_t w = 0; s->writers > 1 && w < s->writers; w++)
            if (s->writer[w].in->ctl && &s->writer[w] != l->link[s->first].writer)
                link_add(l, s, &s->writer[w]);
    }
    l->links_of = l->mem->lanes_moved + 1;
    /* Who could not be told anything before may have come. */
    sources_look_after(l);
}

/* Nearly all have nothing, nearly always: this much is all that they cost. */
static bool link_silent(const struct source_link *link)
{
    return atomic_load_explicit(link->guard, memory_order_acquire) <= link->source->cursor &&
           !PLANTED(edge_unguarded) && !PLANTED(edge_old_lap);
}

/* Is it left alone for now? */
static bool link_held(const struct log *l, const struct source_link *link)
{
    return l->sources_held && link->source < &l->source[l->opt.sources];
}

static bool link_take(struct log *l, const struct source_link *link, struct fill *b)
{
    return link_silent(link) || link_held(l, link) ||
           take_from(l, (uint32_t)(link->source - l->source), link->writer, b);
}

static uint32_t other_next(struct log *l)
{
    if (++l->link_other >= l->links || l->link_other < l->links_first)
        l->link_other = l->links_first;
    return l->link_other;
}

/* Of several writers of a source one writes, and that seldom changes: the others are looked at in turn, one
 * a round, and change places with the first if they have something. */
static void others_take(struct log *l, struct fill *b)
{
    struct source_link *link = &l->link[other_next(l)], *first = &l->link[link->source->first];
    uint64_t cursor = link->source->cursor;
    link_take(l, link, b);
    if (link->source->cursor != cursor) {
        struct source_link was = *first;
        *first = *link;
        *link = was;
    }
}

/* Drains what all sources have ready into one batch, never waiting to fill it. */
int sources_take(struct log *l)
{
    struct fill b = {.end = l->tail,
                     .window_end = l->commit + l->opt.window_bytes,
                     .batch_end = l->tail + l->opt.batch_bytes,
                     .room_end = UINT64_MAX};
    bool room = true;
    if (l->links_of != l->mem->lanes_moved + 1)
        links_make(l);
    uint32_t k = l->source_turn < l->links_first ? l->source_turn : 0;
    l->source_turn = k + 1;
    for (uint32_t i = 0; i < l->links_first && room; i++) {
        room = link_take(l, &l->link[k], &b);
        k = k + 1 < l->links_first ? k + 1 : 0;
    }
    if (room && l->links > l->links_first)
        others_take(l, &b);
    if (b.end == l->tail)
        return 0;
    lead_send_batch(l, b.end);
    return 1;
}

/* True if sources_take would find nothing, as far as it looks in one round. */
bool sources_silent(struct log *l)
{
    if (l->links_of != l->mem->lanes_moved + 1)
        return false;
    for (uint32_t i = l->streams_wait ? l->links_stream : 0; i < l->links_first; i++)
        if (!link_silent(&l->link[i]) && !link_held(l, &l->link[i]))
            return false;
    if (l->streams_wait || l->links == l->links_first || link_silent(&l->link[other_next(l)]))
        return true;
    l->link_other--; /* it is the next to be looked at */
    return false;
}

void log_holds_sources(struct log *l, bool holds)
{
    l->sources_held = holds;
}

void log_awaits_streams(struct log *l, bool awaits)
{
    l->streams_wait = !awaits;
}

/* Now and then: what was acknowledged over a connection that broke may not have arrived, and what was not is due. */
void sources_look_after(struct log *l)
{
    for (uint32_t k = 0; k < l->opens; k++) {
        uint32_t i = l->open[k];
        struct log_source *s = &l->source[i];
        s->due |= s->acked != s->taken;
        for (uint32_t w = 0; w < s->writers; w++)
            s->due |= s->writer[w].flow.status != MEM_DONE;
        if (s->due)
            log_source_dirty(l, i);
    }
}

/* Tells one writer. */
static void tell(struct log *l, const struct log_source *s, struct source_writer *writer)
{
    if (writer->flow.status != MEM_DONE) {
        /* It may have come back since: who waits must not wait for a heartbeat. */
        mem_flow_open(l->mem, &writer->flow, writer->node, writer->region, 0);
        writer->acked_life = false;
        if (writer->flow.status != MEM_DONE)
            return;
    }
    uint64_t words[] = {s->taken, l->ballot};
    mem_set(l->mem, &writer->flow, writer->ack, ACK_TAKEN, words, 2);
    if (!writer->acked_life)
        mem_set1(l->mem, &writer->flow, writer->ack, ACK_LIFE, s->life);
    writer->acked_life = true;
    mem_bell_later(l->mem, writer->node);
    writer->acked = s->taken;
}

/* As follower, over a network. Another group's stream goes to the leader alone, unless its writer hears nothing
 * from there: the two may be cut off from each other. What we have applied of it is as good an answer. */
void streams_answer(struct log *l)
{
    for (uint32_t i = l->opt.sources; i < l->sources; i++) {
        struct log_source *s = &l->source[i];
        for (uint32_t w = 0; w < s->writers; w++) {
            struct source_writer *writer = &s->writer[w];
            uint64_t guard = writer->in->ctl ? mem_word(writer->in, SOURCE_GUARD) : 0;
            if (guard != writer->asked) {
                writer->asked = guard;
                writer->asked_ns = l->now_ns;
            }
            bool asks =
                writer->asked_ns && l->now_ns - writer->asked_ns < ANSWER_FOR * l->opt.suspect_ns;
            if (asks && (s->taken > writer->acked || writer->flow.status != MEM_DONE))
                tell(l, s, writer);
        }
    }
}

/* Tells the sources how far they were taken; also wakes them. */
void sources_ack(struct log *l)
{
    if (!l->serving)
        return;
    for (uint32_t i = 0; i < l->dirty_count; i++) {
        struct log_source *s = &l->source[l->dirty[i]];
        /* A source none of whose writers can be reached is looked after with the next heartbeat. */
        s->dirty = false;
        if (s->taken - s->acked < s->ack_after && !s->due)
            continue;
        s->due = false;
        s->acked = s->taken;
        for (uint32_t w = 0; w < s->writers; w++)
            tell(l, s, &s->writer[w]);
    }
    l->dirty_count = 0;
}
