#include "group/impl.h"

#include <string.h>

enum { LINE_BYTES = 64, CLAIM_AT_ONCE = 1024, CLAIM_RECORD_MAX = 256 };

/* ---- records of the own ring ---- */

static inline uint64_t ring_bytes(const struct cell *c)
{
    return c->opt.ring_bytes;
}

static inline struct record *record_at(const struct cell *c, uint64_t pos)
{
    const struct own_stream *o = &c->own;
    return (struct record *)(void *)(o->ring[o->at] + (pos & (ring_bytes(c) - 1)));
}

/* Position behind the record. */
static inline uint64_t record_next(const struct record *r, uint64_t pos)
{
    return pos + (r->flags & RECORD_SKIP ? r->bytes : record_size(r->bytes));
}

/* ---- telling ---- */

static void put_stretch(struct cell *c, uint32_t host, uint64_t from, uint64_t to)
{
    const struct own_stream *o = &c->own;
    while (from < to) {
        uint64_t bytes = min_u64(to - from, ring_straight(ring_bytes(c), from));
        mem_put(c->of->mem, &c->flow[host], c->out[host], from,
                o->ring[o->at] + (from & (ring_bytes(c) - 1)), (uint32_t)bytes);
        from += bytes;
    }
}

static void set_word(struct cell *c, uint32_t host, uint32_t word)
{
    mem_set1(c->of->mem, &c->flow[host], c->out[host], word,
             atomic_load_explicit(&c->own.ctl[word], memory_order_relaxed));
}

/* The records, then where they begin if it is new, then END, then GUARD: what a reader finds below a guard is there, whichever of the
 * writes was the last to land. */
static void tell_one(struct cell *c, uint32_t host, uint64_t from, bool start)
{
    put_stretch(c, host, from, c->own.end);
    if (start)
        set_word(c, host, SEND_START + (uint32_t)(c->of->view->vid & 1));
    if (PLANTED(group_guard_first))
        set_word(c, host, SEND_GUARD);
    set_word(c, host, SEND_END);
    set_word(c, host, SEND_GUARD);
}

static void store(struct cell *c, uint32_t word, uint64_t value)
{
    atomic_store_explicit(&c->own.ctl[word], value, memory_order_release);
}

/* Everybody in the cell gets what is new from `from` on. */
static void tell(struct cell *c, uint64_t from, bool start)
{
    struct own_stream *o = &c->own;
    uint64_t vid = c->of->view->vid;
    if (start)
        store(c, SEND_START + (uint32_t)(vid & 1), o->start | o->at);
    store(c, SEND_END, o->end);
    store(c, SEND_GUARD, stamp(vid, o->issued));
    if (c->of->mem->shared)
        return;
    for (uint64_t rest = c->members & ~set_of(c->of->opt.me); rest; rest = set_rest(rest)) {
        uint32_t host = set_first(rest);
        if (!in_set(c->lost, host))
            tell_one(c, host, from, start);
    }
}

void own_resend(struct cell *c)
{
    if (c->of->mem->shared || c->index == c->senders)
        return;
    struct own_stream *o = &c->own;
    for (uint64_t rest = c->members & ~set_of(c->of->opt.me); rest; rest = set_rest(rest)) {
        uint32_t host = set_first(rest);
        struct mem_flow *f = &c->flow[host];
        if (f->status == MEM_DONE && !in_set(c->lost, host))
            continue;
        c->lost |= set_of(host);
        if (f->status != MEM_DONE)
            mem_flow_open(c->of->mem, f, host, c->region, 0);
        if (f->status != MEM_DONE)
            continue;
        tell_one(c, host, PLANTED(group_lost_goes_on) ? o->end : o->tail, true);
        if (f->status == MEM_DONE)
            c->lost &= ~set_of(host);
    }
}

/* ---- publishing ---- */

static void remember(struct own_stream *o)
{
    if (o->batches == PUBLISHED_MAX) /* the last two become one: a little is freed later */
        o->batches--;
    o->batch[(o->batch_first + o->batches++) % PUBLISHED_MAX] =
        (struct published){.end = o->end, .issued = o->issued};
}

/* All that is ready ends here. What is committed next has to be looked at. */
static void set_ready(struct own_stream *o, uint64_t pos)
{
    o->ready = pos;
    o->ready_skip = 0;
    o->next_room = NULL;
}

/* Nothing is ready: the next message gets the next index. */
static void none_ready(struct own_stream *o)
{
    o->next_stamp = stamp(o->vid, o->issued);
}

/* What was committed in order has its stamps already: nothing of it is touched again, for a reader's core may have fetched it ahead. */
static uint32_t take_ready(struct own_stream *o)
{
    uint32_t count = (uint32_t)own_ready(o);
    if (count >
        0) /* not what is skipped behind it: readers have not come by there when they have delivered this */
        o->end = o->ready - o->ready_skip;
    o->issued += count;
    return count;
}

/* Gives the next indices to what is ready, up to the first lease that is open. */
static uint32_t stamp_ready(struct cell *c, uint64_t vid)
{
    struct own_stream *o = &c->own;
    uint32_t count = take_ready(o), most = c->of->opt.unbatched & BATCH_SEND ? 1 : UINT32_MAX;
    uint64_t pos = max_u64(o->end, o->ready), from = pos;
    while (pos < o->head && count < most) {
        struct record *r = record_at(c, pos);
        if (r->flags & RECORD_OPEN)
            break;
        pos = record_next(r, pos);
        if (r->flags & RECORD_SKIP)
            continue;
        r->stamp = stamp(vid, o->issued++);
        if (c->ahead)
            kept_stamp(c, r);
        count++;
        o->end = pos;
    }
    if (pos == from)
        return count;
    set_ready(o, pos);
    none_ready(o);
    return count;
}

/* How many indices the others need of us, so that what they sent can be delivered: message k of a later sender needs k + 1 of ours, one of
 * an earlier sender k. */
static uint64_t indices_needed(const struct cell *c)
{
    uint64_t need = 0;
    for (uint32_t j = 0; j < c->senders; j++) {
        uint64_t count = c->source[j].count;
        if (PLANTED(group_nulls_for_ever))
            count += count > 0;
        if (j != c->index && count > 0)
            need = max_u64(need, c->index < j ? count : count - 1);
    }
    return need;
}

/* Is there a message that could be published? What was released is none. */
static bool has_ready(const struct cell *c)
{
    for (uint64_t pos = c->own.end; pos < c->own.head;) {
        const struct record *r = record_at(c, pos);
        if (!(r->flags & RECORD_SKIP))
            return !(r->flags & RECORD_OPEN);
        pos = record_next(r, pos);
    }
    return false;
}

static uint64_t add_nulls(struct cell *c)
{
    struct own_stream *o = &c->own;
    if (c->of->opt.no_nulls || c->opt.mode == CELL_RAW)
        return 0;
    uint64_t need = indices_needed(c), from = o->issued;
    if (PLANTED(group_index_at_reserve) && o->end < o->head)
        return 0;
    if (need <= from || (c->of->opt.unbatched & BATCH_SEND && has_ready(c)))
        return 0;
    if (PLANTED(group_one_null))
        return planted_one_null(c, need);
    o->issued = need;
    return o->issued - from;
}

int own_publish(struct cell *c)
{
    struct own_stream *o = &c->own;
    if (c->index == c->senders || !c->of->view->adequate)
        return 0;
    uint64_t from = o->end;
    uint32_t count = o->end < o->head ? stamp_ready(c, c->of->view->vid) : 0;
    if (count > 0)
        remember(o);
    uint64_t nulls = add_nulls(c);
    if (count == 0 && nulls == 0)
        return 0;
    if (nulls > 0)
        none_ready(o);
    tell(c, from, false);
    c->of->count.sent += count;
    c->of->count.nulls += nulls;
    c->of->count.publishes++;
    return 1;
}

/* ---- reuse ---- */

/* On shared memory: is the host still where it may read what it read then? It is not if it is dead, in another life or in a later view. */
static bool may_read(const struct cell *c, uint32_t ring, uint32_t host)
{
    const struct member *m = c->of;
    uint64_t begun = table_get(m->top, host, TOP_VIEW), life = table_get(m->top, host, TOP_LIFE);
    return !mem_dead(m->mem, host) && life == c->own.reader_life[ring][host] &&
           begun <= c->own.reader_vid[ring][host];
}

static bool has_readers(struct cell *c, uint32_t ring)
{
    if (PLANTED(group_reuse_under_reader))
        return false;
    uint64_t *readers = &c->own.readers[ring];
    for (uint64_t rest = *readers; rest; rest = set_rest(rest))
        if (!may_read(c, ring, set_first(rest)))
            *readers &= ~set_of(set_first(rest));
    return *readers != 0;
}

/* The hosts may be reading in the ring that is in use, in the view that this host is in until now. */
static void note_readers(struct cell *c, uint64_t hosts, const struct view *v)
{
    struct own_stream *o = &c->own;
    if (!c->of->mem->shared)
        return;
    hosts &= ~set_of(c->of->opt.me);
    for (uint64_t rest = hosts; rest; rest = set_rest(rest)) {
        o->reader_life[o->at][set_first(rest)] = v->life[set_first(rest)];
        o->reader_vid[o->at][set_first(rest)] = v->vid;
    }
    o->readers[o->at] |= hosts;
    if (hosts)
        large_note_readers(c);
}

bool own_has_readers(struct cell *c)
{
    return has_readers(c, 0) || has_readers(c, 1);
}

/* Numbers below this have been delivered by all; false: somebody has not begun the view. */
static bool all_delivered(const struct cell *c, uint64_t *below)
{
    if (PLANTED(group_reuse_majority))
        return planted_majority_delivered(c, below);
    uint64_t least = UINT64_MAX, vid = c->of->view->vid;
    for (uint64_t rest = c->members; rest; rest = set_rest(rest)) {
        uint64_t word = cell_word(c, set_first(rest), CELL_DELIVERED);
        if (stamp_vid(word) != vid)
            return false;
        least = min_u64(least, stamp_count(word));
    }
    *below = least;
    return true;
}

void own_free(struct cell *c)
{
    struct own_stream *o = &c->own;
    uint64_t below;
    if (PLANTED(group_before_start) && is_in_view(c->of) && !o->fresh)
        o->tail = max_u64(o->tail, o->start);
    if (!is_in_view(c->of) || c->index == c->senders ||
        !(c->taken ? raw_all_delivered(c, &below) : all_delivered(c, &below)) ||
        has_readers(c, o->at))
        return;
    if (o->fresh) {
        o->fresh = false;
        o->tail = o->head;
        return;
    }
    o->tail = max_u64(o->tail, o->start);
    while (o->batches > 0) {
        const struct published *b = &o->batch[o->batch_first];
        uint64_t last = c->taken ? b->issued : (b->issued - 1) * c->senders + c->index + 1;
        if (b->issued > 0 && last > below)
            break;
        o->tail = max_u64(o->tail, b->end);
        o->batch_first = (o->batch_first + 1) % PUBLISHED_MAX;
        o->batches--;
    }
}

/* ---- reserving ---- */

static bool has_room(struct cell *c, uint64_t bytes)
{
    struct own_stream *o = &c->own;
    if (!o->fresh && o->head + bytes <= o->tail + ring_bytes(c))
        return true;
    own_free(c);
    return !o->fresh && o->head + bytes <= o->tail + ring_bytes(c);
}

/* On shared memory: the next lines of the ring, which are free, are in the caches of those who read them a lap ago. A processor gets lines
 * back for stores that wait side by side all at once, but few of these can wait, and between two small records there are many others: so
 * one line after the other would be waited for. Here they are stored to at once, and are ours when the records come. (Asking for them
 * with a prefetch did not help.) */
static void claim_lines(struct cell *c)
{
    struct own_stream *o = &c->own;
    const uint64_t lines = ~(uint64_t)(LINE_BYTES - 1);
    uint64_t from = (o->head + LINE_BYTES - 1) & lines;
    uint64_t to = min_u64(from + CLAIM_AT_ONCE, (o->tail + ring_bytes(c)) & lines);
    for (; from < to; from += LINE_BYTES)
        atomic_store_explicit((_Atomic uint64_t *)(void *)record_at(c, from), 0,
                              memory_order_relaxed);
    o->claimed = from;
}

/* How far small records go without anything to look at but their place: no end of the ring, no line to claim, nothing to free. */
static void set_limit(struct cell *c, uint64_t size)
{
    struct own_stream *o = &c->own;
    o->limit = 0;
    if (size > CLAIM_RECORD_MAX)
        return;
    uint64_t pos =
        o->head - size; /* head may fall back to within this record, when it is committed */
    o->limit = min_u64(o->tail + ring_bytes(c), pos + ring_straight(ring_bytes(c), pos));
    o->base = (uintptr_t)record_at(c, pos) - pos;
    if (!c->of->mem->shared)
        return;
    if (o->head > o->claimed)
        claim_lines(c);
    o->limit = min_u64(o->limit, o->claimed);
}

#define OPEN_HEAD ((uint64_t)RECORD_OPEN << 32)

/* It has its stamp when it is ready. */
static inline void *reserve_at(struct cell *c, struct record *r, uint32_t bytes, uint64_t size)
{
    r->head = OPEN_HEAD | bytes;
    c->own.head += size;
    return (unsigned char *)(r + 1) + c->ahead;
}

/* Not inline, for the sake of what own_reserve does mostly; likewise commit_looking. */
__attribute__((noinline)) static void *reserve_looking(struct cell *c, uint32_t bytes)
{
    struct own_stream *o = &c->own;
    if (!is_in_view(c->of) || !c->in || c->index == c->senders)
        return NULL;
    uint64_t size = record_size(bytes), straight = ring_straight(ring_bytes(c), o->head);
    uint64_t skip = size > straight ? straight : 0;
    if (!has_room(c, skip + size))
        return NULL;
    if (skip) {
        *record_at(c, o->head) = (struct record){.bytes = (uint32_t)skip, .flags = RECORD_SKIP};
        if (o->ready == o->head) {
            uint64_t before = o->ready_skip;
            set_ready(o, o->ready + skip);
            o->ready_skip = before + skip;
        }
        o->head += skip;
    }
    void *room = reserve_at(c, record_at(c, o->head), bytes, size);
    set_limit(c, size);
    return room;
}

void *own_reserve(struct cell *c, uint32_t bytes)
{
    const struct own_stream *o = &c->own;
    if (bytes > c->small_max)
        return large_reserve(c, bytes);
    bytes += c->ahead;
    uint64_t size = record_size(bytes);
    if (o->head + size > o->limit)
        return reserve_looking(c, bytes);
    return reserve_at(c, (struct record *)(o->base + o->head), bytes, size);
}

/* The record of a lease. If the stream has moved to another ring since, its bytes go there: they stand at the same place in it. */
static struct record *lease_record(struct cell *c, void *room)
{
    struct own_stream *o = &c->own;
    unsigned char *at = (unsigned char *)room - c->ahead - sizeof(struct record);
    struct record *r = (struct record *)(void *)at;
    if (at >= o->ring[o->at] && at < o->ring[o->at] + ring_bytes(c))
        return r;
    uint64_t offset = (uint64_t)(at - o->ring[1 - o->at]);
    CHECK(offset < ring_bytes(c));
    struct record *moved = (struct record *)(void *)(o->ring[o->at] + offset);
    memcpy(moved, r, record_size(r->bytes));
    return moved;
}

/* Position of a record that is not free. */
static uint64_t record_pos(const struct cell *c, const struct record *r)
{
    const struct own_stream *o = &c->own;
    uint64_t offset = (uint64_t)((const unsigned char *)r - o->ring[o->at]);
    uint64_t back = (o->head - offset) & (ring_bytes(c) - 1);
    return o->head - (back ? back : ring_bytes(c));
}

uint64_t own_position(const struct cell *c, const void *payload)
{
    return record_pos(c, (const struct record *)payload - 1);
}

void *own_room(const struct cell *c, uint64_t pos)
{
    return record_at(c, pos) + 1;
}

/* It has fewer bytes than were reserved: gives the rest back, or fills it. */
static void shrink(struct cell *c, struct record *r, uint64_t pos, uint32_t bytes)
{
    struct own_stream *o = &c->own;
    uint64_t was = record_size(r->bytes), is = record_size(bytes);
    r->bytes = bytes;
    if (was == is)
        return;
    if (o->head == pos + was)
        o->head -= was - is;
    else
        *(struct record *)(void *)((unsigned char *)r + is) =
            (struct record){.bytes = (uint32_t)(was - is), .flags = RECORD_SKIP};
}

/* What follows in order on all that is ready gets the index that it will have. If the view ends before it is published it gets another. */
static void stamp_next(struct cell *c, struct record *r, uint64_t pos)
{
    struct own_stream *o = &c->own;
    if (o->ready != pos || c->ahead || c->of->opt.unbatched & BATCH_SEND)
        return; /* it gets its stamp, and its clock, when it is published */
    r->stamp = o->next_stamp++;
    set_ready(o, record_next(r, pos));
    if (o->ready >= o->moved)
        o->next_room = (const unsigned char *)(r + 1) + (o->ready - pos);
}

__attribute__((noinline)) static void commit_looking(struct cell *c, void *room, uint32_t bytes,
                                                     uint32_t kind)
{
    if (large_commit(c, room, bytes))
        return;
    struct record *r = lease_record(c, room);
    uint64_t pos = record_pos(c, r);
    bytes += c->ahead;
    CHECK(r->flags == RECORD_OPEN && bytes <= r->bytes);
    shrink(c, r, pos, bytes);
    r->flags = kind;
    stamp_next(c, r, pos);
}

void own_commit(struct cell *c, void *room, uint32_t bytes)
{
    struct own_stream *o = &c->own;
    struct record *r = (struct record *)room - 1;
    /* The common case: all before it is ready, and it has the bytes that were reserved. */
    if (room != o->next_room || r->head != (OPEN_HEAD | bytes)) {
        commit_looking(c, room, bytes, 0);
        return;
    }
    uint64_t size = record_size(bytes);
    r->stamp = o->next_stamp++;
    r->head = bytes;
    o->ready += size;
    o->next_room = (const unsigned char *)room + size;
}

void own_commit_kind(struct cell *c, void *room, uint32_t bytes, uint32_t kind)
{
    commit_looking(c, room, bytes, kind);
}

/* What was released behind the last message and the last lease is free at once. It goes to nobody before a message follows, and without that
 * it would stay: a sender that reserves and releases again and again, as one does that wants room in two cells or in none, would have a ring
 * full of nothing. */
static void fall_back(struct cell *c)
{
    struct own_stream *o = &c->own;
    uint64_t pos = own_ready(o) > 0 ? o->ready - o->ready_skip : o->end, last = pos;
    while (pos < o->head) {
        const struct record *r = record_at(c, pos);
        pos = record_next(r, pos);
        if (!(r->flags & RECORD_SKIP))
            last = pos;
    }
    o->limit = last < o->head ? 0 : o->limit;
    o->head = last;
    if (o->ready > last)
        set_ready(o, last);
}

void own_release(struct cell *c, void *room)
{
    if (large_release(c, room))
        return;
    struct record *r = lease_record(c, room);
    CHECK(r->flags == RECORD_OPEN);
    *r = (struct record){.bytes = (uint32_t)record_size(r->bytes), .flags = RECORD_SKIP};
    fall_back(c);
}

/* ---- from view to view ---- */

/* Where the records begin that the view did not deliver. */
static uint64_t cut_at(const struct cell *c, uint64_t trim)
{
    const struct own_stream *o = &c->own;
    uint64_t pos = max_u64(o->start, o->tail);
    while (pos < o->end) {
        const struct record *r = record_at(c, pos);
        if (!(r->flags & RECORD_SKIP) && stamp_count(r->stamp) >= trim)
            break;
        pos = record_next(r, pos);
    }
    return pos;
}

/* Goes on in the other ring, where nobody reads any more; what was not delivered stands there at the same places. Members who go on may
 * take long until they begin the new view: till then they read where the view before has it. */
static void change_ring(struct cell *c, uint64_t from)
{
    struct own_stream *o = &c->own;
    if (!c->of->mem->shared || !has_readers(c, o->at) || has_readers(c, 1 - o->at))
        return;
    if (c->in)
        note_readers(c, c->members, c->of->view);
    unsigned char *was = o->ring[o->at], *is = o->ring[1 - o->at];
    while (from < o->head) {
        uint64_t offset = from & (ring_bytes(c) - 1);
        uint64_t bytes = min_u64(o->head - from, ring_bytes(c) - offset);
        memcpy(is + offset, was + offset, bytes);
        from += bytes;
    }
    o->at = 1 - o->at;
    o->moved = o->head;
}

static void restamp(struct cell *c, uint64_t vid)
{
    struct own_stream *o = &c->own;
    o->issued = 0;
    o->vid = vid;
    for (uint64_t pos = o->start; pos < o->end;) {
        struct record *r = record_at(c, pos);
        pos = record_next(r, pos);
        if (r->flags & RECORD_SKIP)
            continue;
        if (!PLANTED(group_old_stamps))
            r->stamp = stamp(vid, o->issued);
        if (c->ahead)
            kept_stamp(c, r);
        o->issued++;
        c->of->count.restamped++;
    }
    o->batch_first = o->batches = 0;
    set_ready(o, o->end);
    none_ready(o);
    if (o->end > o->start)
        remember(o);
}

static void give_back(struct cell *c, uint64_t from)
{
    struct member *m = c->of;
    struct own_stream *o = &c->own;
    for (uint64_t pos = from; pos < o->head;) {
        const struct record *r = record_at(c, pos);
        pos = record_next(r, pos);
        if (r->flags & (RECORD_OPEN | RECORD_SKIP))
            continue;
        uint32_t bytes = r->bytes - c->ahead;
        const void *data = r->flags & RECORD_LARGE ? large_own(c, r, &bytes)
                                                   : (const unsigned char *)(r + 1) + c->ahead;
        m->count.returned++;
        if (!asks_returned(c, r) && !relays_returned(c, r) && m->opt.machine->returned)
            m->opt.machine->returned(m->opt.ctx, c->number, data, bytes);
    }
    large_void(c);
    o->end = o->head; /* where it goes on if it sends again: no position has two messages */
    set_ready(o, o->end);
    none_ready(o);
    o->limit = 0;
}

void own_return(struct cell *c, uint64_t trim)
{
    give_back(c, cut_at(c, trim));
}

void own_readers(struct cell *c, uint64_t hosts)
{
    note_readers(c, hosts, c->of->view);
}

void own_begin(struct cell *c, const struct view *now, bool was, uint32_t index)
{
    struct own_stream *o = &c->own;
    bool is = in_set(now->cell[c->number].senders, c->of->opt.me);
    o->limit = 0;
    uint64_t from = was ? cut_at(c, now->cell[c->number].trim[index]) : o->head;
    if (was && !is)
        give_back(c, from);
    if (!is)
        return;
    change_ring(c, from);
    if (!was) {
        o->fresh = true;
        o->tail = o->end = o->head;
    }
    o->start = from;
    if (PLANTED(group_new_first))
        planted_new_first(c);
    restamp(c, now->vid);
}

void own_tell_begin(struct cell *c)
{
    if (c->index == c->senders)
        return;
    c->lost = 0;
    tell(c, c->own.start, true);
}

void own_reset(struct cell *c)
{
    struct own_stream *o = &c->own;
    if (c->in && !PLANTED(group_out_forgets_readers))
        note_readers(c, c->members, c->of->view);
    large_void(c);
    o->head = o->end = max_u64(o->head, o->end);
    o->batch_first = o->batches = 0;
    o->issued = 0;
    set_ready(o, o->end);
    none_ready(o);
    o->fresh = true;
    o->limit = 0;
}
