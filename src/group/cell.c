#include "group/impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

uint64_t cell_word(const struct cell *c, uint32_t host, enum cell_word word)
{
    if (c->row == NULL)
        return c->own_row[word];
    return in_set(c->unready, host) ? 0 : table_get(c->row, c->rank[host], word);
}

uint64_t cell_count(const struct cell *c, uint32_t host, enum cell_word word)
{
    uint64_t value = cell_word(c, host, word);
    return stamp_vid(value) == c->of->view->vid ? stamp_count(value) : 0;
}

void cell_set(struct cell *c, enum cell_word word, uint64_t value)
{
    if (c->row)
        table_set(c->row, word, value);
    else
        c->own_row[word] = value;
    c->push = true;
}

/* Wakes the members that sleep, at the end of a round that told them something. Where writes are messages they wake by themselves. */
static void ring(struct cell *c)
{
    struct mem *mem = c->of->mem;
    c->ring = false;
    if (mem->remote)
        return;
    for (uint64_t rest = c->members & ~set_of(c->of->opt.me); rest; rest = set_rest(rest))
        mem_bell_later(mem, set_first(rest));
}

void cell_push(struct cell *c, bool whole)
{
    if (c->row == NULL) {
        c->push = false;
        return;
    }
    if (whole)
        table_push_row(c->row);
    else if (c->push)
        table_push(c->row);
    if (c->taken && (whole || c->taken->dirty))
        (whole ? table_push_row : table_push)(c->taken);
    if (c->push) {
        c->of->count.row_pushes++;
        c->ring = true;
    }
    c->push = false;
}

/* Rows of lives that have come with this view are seen from now on. */
static void ready_rows(struct cell *c)
{
    for (uint64_t rest = c->unready; rest; rest = set_rest(rest)) {
        uint32_t host = set_first(rest);
        const struct mem_lane *lane = c->row->in[c->rank[host]];
        uint32_t life = life_process(c->of->view->life[host]);
        if (lane->life != life)
            table_next(c->row, c->rank[host]);
        bool there = lane->ctl && lane->life == life;
        if (c->taken) {
            lane = c->taken->in[c->rank[host]];
            if (lane->life != life)
                table_next(c->taken, c->rank[host]);
            there &= lane->ctl && lane->life == life;
        }
        if (there)
            c->unready &= ~set_of(host);
    }
}

/* ---- receiving ---- */

/* Where the sender's records of this view begin. START is of this view if the guard, read after it, is of this one or the next: the one
 * after that has its place. */
static bool find_start(const struct cell *c, struct source_stream *s, const struct mem_lane *lane,
                       uint64_t vid)
{
    uint64_t start = mem_word(lane, SEND_START + (uint32_t)(vid & 1));
    uint64_t behind = stamp_vid(mem_word(lane, SEND_GUARD));
    if (behind != vid && behind != vid + 1)
        return false;
    s->pos = s->end = s->walk = start & ~UINT64_C(15);
    s->ring = c->of->mem->shared ? start & 1 : 0;
    s->started = true;
    return true;
}

/* The sender's stream has what no member writes. Nothing more of it is read in this view, and it is claimed (watch). */
static void distrust(struct cell *c, const struct source_stream *s)
{
    struct member *m = c->of;
    m->count.torn += !in_set(m->torn, s->host);
    m->torn |= set_of(s->host);
}

/* A later life's lane is not looked at before a view has it. */
bool source_find(const struct cell *c, struct source_stream *s)
{
    for (uint32_t r = 0; r < (c->of->mem->shared ? SEND_RINGS : 1); r++) {
        struct mem_lane *lane = c->from[r][s->host];
        uint32_t life = life_process(c->of->view->life[s->host]);
        if (lane->life != life)
            mem_lane_next(c->of->mem, lane);
        if (lane->ctl == NULL || lane->life != life)
            return false;
    }
    return s->there = large_is_there(c, s->host);
}

/* A sender is ahead of what this host has delivered by no more messages than fit into all rings, nulls with them; and what it has there
 * fits into its ring. */
static bool can_be(const struct cell *c, const struct source_stream *s, uint64_t count,
                   uint64_t end)
{
    uint64_t records = c->opt.ring_bytes / sizeof(struct record) + 1;
    uint64_t below = c->taken ? s->taken + records : c->round_at + 1 + c->senders * records;
    return count <= below && end - s->pos <= c->opt.ring_bytes;
}

/* Takes note of what the sender has published. The guard first, then END: records below END are there. */
static void look(struct cell *c, struct source_stream *s)
{
    const struct member *m = c->of;
    uint64_t vid = m->view->vid;
    if (s->host == m->opt.me) {
        s->count = c->own.issued;
        s->end = c->own.end;
        s->ring = c->own.at;
        return;
    }
    if (s->torn)
        distrust(c, s);
    if (s->torn || (!s->there && !source_find(c, s)))
        return;
    const struct mem_lane *lane = c->from[0][s->host];
    if (lane->ctl == NULL)
        return;
    uint64_t guard = mem_word(lane, SEND_GUARD);
    if (stamp_vid(guard) != vid || stamp_count(guard) <= s->count)
        return;
    if (!s->started && !find_start(c, s, lane, vid))
        return;
    uint64_t end = mem_word(lane, SEND_END);
    s->torn = !can_be(c, s, stamp_count(guard), end);
    if (s->torn)
        return;
    bool one = m->opt.unbatched & BATCH_RECEIVE && m->phase == MEMBER_OPEN;
    s->end = end;
    uint64_t count = one ? s->count + 1 : stamp_count(guard);
    s->count = c->bodies ? large_count(c, s, count) : count;
}

static int receive(struct cell *c)
{
    uint64_t all = UINT64_MAX, vid = c->of->view->vid;
    for (uint32_t i = 0; i < c->senders; i++) {
        look(c, &c->source[i]);
        all = min_u64(all, c->source[i].count * c->senders + i);
    }
    if (c->senders == 0 || all <= c->received)
        return 0;
    if (c->taken || stable_by_presence(c)) { /* nobody waits for what this host says of it */
        c->received = all;
        return 1;
    }
    while (c->of->opt.unbatched & BATCH_ACK && c->received + 1 < all) {
        cell_set(c, CELL_RECEIVED, stamp(vid, ++c->received));
        cell_push(c, false);
    }
    c->received = all;
    cell_set(c, CELL_RECEIVED, stamp(vid, all));
    return 1;
}

/* ---- delivering ---- */

static const unsigned char *ring_of(const struct cell *c, const struct source_stream *s)
{
    return s->host == c->of->opt.me ? c->own.ring[s->ring] : c->from[s->ring][s->host]->ring;
}

/* What cannot be: the rest of the stream, in this view, is as if it were not there. */
static const struct record *tear(struct source_stream *s, uint64_t pos, uint64_t *end)
{
    s->torn = true;
    *end = pos;
    return NULL;
}

/* The record of that stamp, if it is the next in the ring, and how many bytes it has: at most as many as `most`, and all of them before `end`
 * and the end of the ring, whoever wrote them. They are read once, since their writer's memory is its own. The caller has the position, and
 * gives it back. */
static inline const struct record *record_in(const unsigned char *ring_at, uint64_t mask,
                                             uint32_t most, struct source_stream *s, uint64_t *pos,
                                             uint64_t *end, uint64_t want, uint32_t *bytes)
{
    while (*pos < *end) {
        const struct record *r = (const void *)(ring_at + (*pos & mask));
        uint64_t room = min_u64(*end - *pos, mask + 1 - (*pos & mask));
        *bytes = __atomic_load_n(&r->bytes, __ATOMIC_RELAXED);
        if (!(r->flags & RECORD_SKIP)) {
            if (r->stamp != want)
                return NULL;
            return *bytes <= most && record_size(*bytes) <= room ? r : tear(s, *pos, end);
        }
        if (*bytes == 0 || *bytes % sizeof(struct record) || *bytes > room)
            return tear(s, *pos, end);
        *pos += *bytes;
    }
    return PLANTED(group_record_looks) ? planted_record_looks(ring_at, mask, *pos, want, bytes)
                                       : NULL;
}

static bool has_more(const struct source_stream *s)
{
    return s->pos < s->end || PLANTED(group_record_looks);
}

const struct record *cell_record(const struct cell *c, struct source_stream *s, uint64_t index,
                                 uint32_t *bytes)
{
    if (!has_more(s))
        return NULL;
    return record_in(ring_of(c, s), c->opt.ring_bytes - 1, c->opt.message_max, s, &s->pos, &s->end,
                     stamp(c->of->view->vid, index), bytes);
}

/* A sender that has records here, in a circle of them by turns. Numbers of the others are nulls, and are not looked at. */
struct taker {
    struct source_stream *s;
    const unsigned char *ring;
    uint64_t limit; /* its numbers below are taken */
    uint32_t turn, next;
};

/* What a batch may have, and what all numbers have in common. */
struct taking {
    struct cell *cell;
    struct batch *batch;
    uint32_t most, message_max, senders;
    uint64_t bytes_max, skip_to, mask;
    bool plain; /* nothing stands before messages */
};

/* The circle; 0: nobody has records. */
static uint32_t line_up(struct cell *c, struct taker *circle, uint64_t limit, const uint64_t *trim)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->senders; i++) {
        struct source_stream *s = &c->source[i];
        if (!has_more(s))
            continue;
        circle[count] = (struct taker){.s = s, .ring = ring_of(c, s), .turn = i};
        circle[count].limit = trim ? min_u64(limit, trim[i] * c->senders + i) : limit;
        circle[count].next = count + 1;
        count++;
    }
    if (count > 0)
        circle[count - 1].next = 0;
    return count;
}

/* From one sender: its numbers below `stop`, of which `number` is the next and has that stamp. Returns the one after. */
static uint64_t take_looking(const struct taking *t, const struct taker *a, uint64_t number,
                             uint64_t want, uint64_t stop)
{
    struct source_stream *s = a->s;
    struct batch *b = t->batch;
    uint64_t pos = s->pos, end = s->end;
    const uint64_t mask = t->mask, skip_to = t->skip_to, bytes_max = t->bytes_max;
    const uint32_t most = t->most, message_max = t->message_max, senders = t->senders;
    const uint32_t host = s->host;
    for (; number < stop && (pos < end || PLANTED(group_record_looks)) && b->count < most &&
           b->bytes < bytes_max;
         number += senders, want++) {
        uint32_t bytes;
        const struct record *r = record_in(a->ring, mask, message_max, s, &pos, &end, want, &bytes);
        if (r == NULL)
            continue;
        const uint32_t flags = r->flags;
        if (number < skip_to && flags & RECORD_LARGE)
            large_passed(t->cell, r, bytes, host);
        else if (number < skip_to && flags & RECORD_CALL)
            asks_passed(t->cell, host, r, bytes, number);
        else if (number >= skip_to && flags & RECORD_LARGE) {
            if (!large_item(t->cell, b, r, bytes, pos, host, number))
                tear(s, pos, &end);
        } else if (number >= skip_to)
            cell_item(b, r, bytes, host, number, t->cell->ahead);
        pos += record_size(bytes);
    }
    s->pos = pos;
    s->end = end;
    return number;
}

/* The same, of plain messages that stand one behind the other, as they mostly do: those before anything that has to be looked at. */
static inline uint64_t take_plain(const struct taking *t, const struct taker *a, uint64_t number,
                                  uint64_t *stamp_at, uint64_t stop)
{
    struct source_stream *s = a->s;
    struct batch *b = t->batch;
    const uint64_t offset = s->pos & t->mask;
    const unsigned char *const from = a->ring + offset, *at = from;
    uint64_t left = s->pos < s->end ? min_u64(s->end - s->pos, t->mask + 1 - offset) : 0;
    const uint64_t enough = left - min_u64(left, t->bytes_max - b->bytes);
    const uint32_t host = s->host;
    struct member_item *item = &b->item[b->count], *const last = &b->item[t->most];
    uint64_t want = *stamp_at;
    while (number < stop && left > enough && item < last) {
        const struct record *r = (const void *)at;
        const uint64_t head = __atomic_load_n(&r->head, __ATOMIC_RELAXED);
        if (head > t->message_max || r->stamp != want || record_size((uint32_t)head) > left)
            break;
        *item++ = (struct member_item){
            .data = r + 1, .bytes = (uint32_t)head, .sender = host, .number = number};
        at += record_size((uint32_t)head);
        left -= record_size((uint32_t)head);
        number += t->senders;
        want++;
    }
    *stamp_at = want;
    b->count = (uint32_t)(item - b->item);
    b->bytes += (uint64_t)(at - from);
    s->pos += (uint64_t)(at - from);
    return number;
}

static inline uint64_t take_from(const struct taking *t, const struct taker *a, uint64_t number,
                                 uint64_t want, uint64_t stop)
{
    if (t->plain && number >= t->skip_to)
        number = take_plain(t, a, number, &want, stop);
    return number < stop ? take_looking(t, a, number, want, stop) : number;
}

/* Takes the numbers below the limit while the batch has room, with messages, nulls and what a trim cuts off (NULL: nothing). Returns the first
 * number that was not taken. */
static uint64_t take_numbers(struct cell *c, const struct taking *t, uint64_t limit,
                             const uint64_t *trim)
{
    struct taker circle[GROUP_HOSTS_MAX];
    uint32_t count = line_up(c, circle, limit, trim), at = 0, before = count - 1;
    uint64_t round = c->round_at, vid = c->of->view->vid;
    while (at < count && circle[at].turn < c->turn_at)
        before = at++;
    if (at == count) {
        at = 0;
        round++;
    }
    while (count > 0) {
        const struct taker *a = &circle[at];
        uint64_t number = round * c->senders + a->turn;
        if (number >= limit || t->batch->count >= t->most || t->batch->bytes >= t->bytes_max)
            return min_u64(number, limit);
        bool alone = a->next == at;
        uint64_t stop = alone ? a->limit : min_u64(a->limit, number + 1);
        uint64_t next = take_from(t, a, number, stamp(vid, round), stop);
        if (alone && next > number)
            round += (next - number) / c->senders - 1;
        if (!has_more(a->s) || next >= a->limit) { /* it has nothing more to take */
            c->of->count.trimmed += a->limit < limit && a->s->pos < a->s->end;
            circle[before].next = a->next;
            count = alone ? 0 : count;
        } else {
            before = at;
        }
        at = a->next;
        round += circle[at].turn <= a->turn;
    }
    return limit;
}

void cell_upcall(struct cell *c, const struct batch *b)
{
    struct member *m = c->of;
    if (b->count == 0)
        return;
    if (c->keep)
        kept_delivered(c, b);
    if (is_feeding(c))
        transfer_feed(c, b);
    if (b->kinds)
        cell_deliver(c, m->view->vid, b->item, b->count, false);
    else
        cell_deliver_plain(c, m->view->vid, b->item, b->count);
    m->count.upcalls++;
    m->count.delivered += b->count;
    m->count.delivered_bytes += b->bytes;
}

static void tell_delivered(struct cell *);

/* Delivers numbers below the limit, a batch of them; of each sender those before its trim, if there are trims. */
static bool deliver_some(struct cell *c, uint64_t limit, const uint64_t *trim, uint64_t *bytes)
{
    if (c->number_at >= limit) /* also where there are no senders */
        return false;
    struct batch b;
    b.count = b.kinds = 0;
    b.bytes = 0;
    const bool one = c->of->opt.unbatched & BATCH_DELIVER;
    const struct taking t = {.cell = c,
                             .batch = &b,
                             .most = one ? 1 : MEMBER_ITEMS_MAX,
                             .message_max = c->opt.message_max,
                             .senders = c->senders,
                             .bytes_max = c->opt.deliver_bytes - *bytes,
                             .skip_to = c->has_state ? c->skip_to : UINT64_MAX,
                             .mask = c->opt.ring_bytes - 1,
                             .plain = c->ahead == 0};
    c->number_at = take_numbers(c, &t, limit, trim);
    c->round_at = c->number_at / c->senders;
    c->turn_at = (uint32_t)(c->number_at % c->senders);
    if (PLANTED(group_delivered_early)) {
        tell_delivered(c);
        cell_push(c, false);
    }
    cell_upcall(c, &b);
    *bytes += b.bytes;
    return c->number_at < limit && !one && *bytes < c->opt.deliver_bytes;
}

/* What was delivered may be written over by its senders, once they know. It stands still while the view ends: what a trim leaves out was
 * not delivered. */
static void tell_delivered(struct cell *c)
{
    bool open = c->of->phase == MEMBER_OPEN || PLANTED(group_delivered_over_trim);
    if (c->has_state && c->number_at >= c->skip_to && open)
        cell_set(c, CELL_DELIVERED, stamp(c->of->view->vid, c->number_at));
}

static int deliver(struct cell *c)
{
    uint64_t bytes = 0, from = c->number_at;
    stable_find(c);
    if (!c->has_state || c->number_at >= c->stable || (is_feeding(c) && transfer_holds(c)))
        return 0;
    while ((c->keep == NULL || kept_takes(c)) && deliver_some(c, c->stable, NULL, &bytes))
        ;
    if (c->keep)
        kept_delivered_to(c);
    tell_delivered(c);
    return c->number_at > from;
}

/* ---- a round ---- */

int cell_settle(struct cell *c)
{
    if (PLANTED(group_received_after_wedge) && c->in && c->of->phase == MEMBER_WEDGED)
        return receive(c);
    if (!c->in || c->of->phase != MEMBER_OPEN)
        return 0;
    if (c->unready)
        ready_rows(c);
    if (restore_reads(c))
        return restore_read(c);
    if (!c->open && stable_by_presence(c))
        stable_open(c);
    int work = receive(c);
    if (own_publish(c)) {
        work++;
        c->ring = true;
        work += receive(c);
    }
    if (c->keep)
        work += kept_settle(c);
    /* Where a push is a few stores the others hear of it before the upcalls. */
    if (c->push && c->of->mem->shared)
        cell_push(c, false);
    work += c->taken ? raw_deliver(c) : deliver(c);
    if (c->push && c->of->mem->shared)
        cell_push(c, false);
    if (c->ring)
        ring(c);
    return work;
}

int cell_post(struct cell *c)
{
    int work = 0;
    if (c->in && c->of->phase == MEMBER_OPEN && own_publish(c)) {
        work = 1;
        c->ring = true;
    }
    if (c->in)
        own_resend(c);
    if (c->in || c->learns)
        cell_push(c, false);
    if (c->ring)
        ring(c);
    return work;
}

/* ---- the end of a view ---- */

void cell_wedge(struct cell *c)
{
    struct cell_report *r = &c->of->report[c->number];
    *r = (struct cell_report){.has_state = false};
    if (!c->in)
        return;
    r->has_state = c->has_state && c->number_at >= c->skip_to;
    r->large = r->has_state && c->large;
    r->learnt = r->has_state ? transfer_learnt(c) : 0;
    r->senders = c->senders;
    for (uint32_t i = 0; i < c->senders; i++) {
        look(c, &c->source[i]);
        r->held[i] = c->source[i].count;
    }
    if (c->keep)
        kept_wedge(c);
}

bool cell_finish(struct cell *c)
{
    uint64_t bytes = 0, limit = 0;
    if (!c->in)
        return true;
    if (c->taken)
        return raw_finish(c);
    const struct view_cell *next = &c->of->next->cell[c->number];
    CHECK(next->trims == c->senders);
    if (PLANTED(group_next_life_early))
        planted_next_life_early(c);
    for (uint32_t i = 0; i < c->senders; i++)
        if (next->trim[i] > 0)
            limit = max_u64(limit, (next->trim[i] - 1) * c->senders + i + 1);
    if (is_feeding(c))
        transfer_holds(c);
    while ((c->keep == NULL || kept_takes(c)) && deliver_some(c, limit, next->trim, &bytes))
        ;
    if (c->keep)
        kept_delivered_to(c);
    if (PLANTED(group_delivered_over_trim))
        tell_delivered(c);
    return c->number_at >= limit && (c->keep == NULL || kept_finish(c, limit));
}

/* ---- the begin of a view ---- */

static void begin_sources(struct cell *c, const struct view_cell *vc)
{
    c->senders = 0;
    for (uint64_t rest = vc->senders; rest; rest = set_rest(rest))
        c->source[c->senders++] = (struct source_stream){.host = set_first(rest)};
    c->index =
        in_set(vc->senders, c->of->opt.me) ? set_rank(vc->senders, c->of->opt.me) : c->senders;
    if (c->index < c->senders) {
        struct source_stream *s = &c->source[c->index];
        s->pos = c->own.start;
        s->started = s->there = true;
    }
}

static uint64_t ranks_of(const struct cell *c, uint64_t hosts)
{
    uint64_t ranks = 0;
    for (uint64_t rest = hosts & c->hosts; rest; rest = set_rest(rest))
        ranks |= set_of(c->rank[set_first(rest)]);
    return ranks;
}

static void begin_row(struct cell *c, uint64_t vid)
{
    if (c->row)
        table_send_to(c->row, ranks_of(c, c->members));
    if (c->taken)
        table_send_to(c->taken, ranks_of(c, c->members));
    if (c->in && !stable_by_presence(c))
        cell_set(c, CELL_RECEIVED, stamp(vid, 0));
    if (c->in)
        cell_set(c, CELL_DELIVERED, stamp(vid, 0));
    cell_set(c, CELL_STATE, stamp(vid, c->has_state ? HAS_STATE : WANTS_STATE));
}

/* Who was in the cell and does not go on there, in the same life. */
static uint64_t who_left(const struct cell *c, const struct view *before, const struct view *now)
{
    uint64_t gone = before->cell[c->number].members;
    for (uint64_t rest = gone & now->cell[c->number].members; rest; rest = set_rest(rest))
        if (before->life[set_first(rest)] == now->life[set_first(rest)])
            gone &= ~set_of(set_first(rest));
    return gone;
}

static void born(struct cell *c)
{
    relays_born(c);
    if (c->of->opt.machine->born)
        c->of->opt.machine->born(c->of->opt.ctx, c->number);
}

void cell_begin(struct cell *c, const struct view *before, const struct view *now)
{
    const struct view_cell *vc = &now->cell[c->number];
    if (!c->mine)
        return;
    /* Where there are no states it has one from the begin on, but not what its log is to have: that it may not have read yet. */
    bool had = c->in && c->has_state && c->number_at >= c->skip_to && !restore_reads(c);
    uint64_t ahead[GROUP_HOSTS_MAX] = {0};
    if (c->in && c->taken)
        raw_ahead(c, before, now, ahead);
    if (c->in) /* of a cell that it is out of it does not hear who has begun the next view: all may still be in this one */
        own_readers(c, in_set(vc->members, c->of->opt.me) ? who_left(c, before, now) : c->members);
    own_begin(c, now, c->in && c->index < c->senders, c->index);
    c->in = in_set(vc->members, c->of->opt.me);
    c->learns = in_set(vc->learners, c->of->opt.me);
    c->members = vc->members;
    c->learners = vc->learners;
    c->unready = c->row ? (vc->members | vc->learners) & ~set_of(c->of->opt.me) : 0;
    c->number_at = c->round_at = c->skip_to = c->stable = c->received = 0;
    large_begin(c);
    c->turn_at = 0;
    c->found = c->open = false;
    c->has_state = c->in && (c->of->state == NULL || (c->opt.stateless && c->keep == NULL) ||
                             c->taken || had || vc->born == now->vid);
    begin_sources(c, vc);
    if (c->in && vc->born == now->vid)
        born(c);
    if (c->in || c->learns)
        begin_row(c, now->vid);
    if (c->keep) {
        kept_begin(c, now->vid, had);
        restore_begin(c, now, had);
    }
    if (c->in && c->taken)
        raw_begin(c, now->vid, ahead);
}

void cell_reset(struct cell *c)
{
    if (!c->mine)
        return;
    own_reset(c);
    restore_reset(c);
    c->in = c->learns = c->has_state = false;
    c->members = c->learners = c->unready = 0;
    c->senders = c->index = 0;
}

/* ---- opening ---- */

static int rings_open(struct cell *c, struct err *e)
{
    struct own_stream *o = &c->own;
    uint32_t others = set_count(c->hosts) - 1;
    if (others > 0)
        return 0;
    o->ring[0] = calloc(1, c->opt.ring_bytes);
    o->ring[1] = calloc(1, c->opt.ring_bytes);
    o->ctl = calloc(SEND_WORDS, sizeof(*o->ctl));
    c->alone = true;
    return o->ring[0] && o->ring[1] && o->ctl
               ? 0
               : err_set(e, ERR_NOMEM, "group: no memory for the ring of cell %u", c->number);
}

static struct mem_lane_spec send_spec(const struct cell *c, uint32_t owner, uint32_t writer,
                                      uint32_t ring_number)
{
    struct mem_lane_spec s = lane_spec(c->region, owner, writer, LANE_SEND, ring_number);
    s.ctl_words = ring_number == 0 ? SEND_WORDS : 1;
    s.ring_bytes = c->opt.ring_bytes;
    s.common = 1;
    return s;
}

static int lanes_open(struct cell *c, struct err *e)
{
    uint32_t me = c->of->opt.me, rings = c->of->mem->shared ? SEND_RINGS : 1, count = 0;
    struct mem_lane_spec spec[2 * SEND_RINGS * GROUP_HOSTS_MAX];
    struct mem_lane *lane[2 * SEND_RINGS * GROUP_HOSTS_MAX];
    for (uint64_t rest = c->hosts & ~set_of(me); rest; rest = set_rest(rest))
        for (uint32_t r = 0; r < rings; r++) {
            spec[count++] = send_spec(c, me, set_first(rest), r);
            spec[count++] = send_spec(c, set_first(rest), me, r);
        }
    int rc = mem_lanes_open(c->of->mem, spec, count, lane, e);
    if (rc)
        return rc;
    count = 0;
    for (uint64_t rest = c->hosts & ~set_of(me); rest; rest = set_rest(rest))
        for (uint32_t r = 0; r < rings; r++) {
            c->from[r][set_first(rest)] = lane[count++];
            struct mem_lane *out = lane[count++];
            c->own.ring[r] = out->ring;
            if (r == 0) {
                c->out[set_first(rest)] = out;
                c->own.ctl = out->ctl;
            }
        }
    return 0;
}

static int rows_open(struct cell *c, struct err *e)
{
    uint32_t nodes[GROUP_HOSTS_MAX], ranks = 0;
    enum table_kind kind[TABLE_WORDS_MAX];
    for (uint32_t i = 0; i < TABLE_WORDS_MAX; i++)
        kind[i] = TABLE_RISES;
    for (uint64_t rest = c->hosts; rest; rest = set_rest(rest)) {
        c->rank[set_first(rest)] = (uint8_t)ranks;
        nodes[ranks++] = set_first(rest);
    }
    struct table_spec spec = {.kind = kind,
                              .nodes = nodes,
                              .words = CELL_WORDS,
                              .ranks = ranks,
                              .me = c->rank[c->of->opt.me],
                              .region = c->region,
                              .lane = lane_spec(0, 0, 0, LANE_ROW, 0).kind,
                              .common = true};
    int rc = table_open(c->of->mem, &spec, &c->row, e);
    if (rc || c->opt.mode != CELL_RAW)
        return rc;
    spec.words = ranks;
    spec.lane = lane_spec(0, 0, 0, LANE_ROW, 1).kind;
    return table_open(c->of->mem, &spec, &c->taken, e);
}

int cell_open(struct member *m, uint32_t number, struct err *e)
{
    struct cell *c = &m->cell[number];
    enum mem_birth birth;
    uint64_t all = m->opt.hosts == 64 ? UINT64_MAX : set_of(m->opt.hosts) - 1;
    *c = (struct cell){.of = m, .opt = m->opt.cell[number], .number = number};
    c->hosts = (c->opt.layout.hosts ? c->opt.layout.hosts : all) & all;
    c->region = region_number(REGION_CELL, number);
    c->mine = in_set(c->hosts, m->opt.me);
    c->own.fresh = true;
    if (!c->mine)
        return 0;
    int rc = kept_open(c, e);
    c->small_max = c->opt.message_max - c->ahead;
    if (rc == 0 && c->keep)
        rc = restore_cell_open(c, e);
    if (rc == 0)
        rc = rings_open(c, e);
    if (rc || c->alone)
        return rc ? rc : large_open(c, e);
    c->from[0] = calloc(m->opt.hosts, sizeof(*c->from[0]));
    c->from[1] = calloc(m->opt.hosts, sizeof(*c->from[1]));
    c->out = calloc(m->opt.hosts, sizeof(struct mem_lane *));
    c->flow = calloc(m->opt.hosts, sizeof(*c->flow));
    if (!c->from[0] || !c->from[1] || !c->out || !c->flow)
        return err_set(e, ERR_NOMEM, "group: no memory for the lanes of cell %u", number);
    rc = mem_region_open(m->mem, c->region, &birth, e);
    if (rc == 0)
        rc = lanes_open(c, e);
    if (rc == 0)
        rc = large_open(c, e);
    for (uint64_t rest = rc == 0 && !m->mem->shared ? c->hosts & ~set_of(m->opt.me) : 0; rest;
         rest = set_rest(rest))
        mem_flow_open(m->mem, &c->flow[set_first(rest)], set_first(rest), c->region, 0);
    return rc ? rc : rows_open(c, e);
}

void cell_close(struct cell *c)
{
    large_close(c);
    table_close(c->row);
    table_close(c->taken);
    free(c->from[0]);
    free(c->from[1]);
    free(c->out);
    free(c->flow);
    free(c->fed);
    kept_close(c);
    restore_close(c);
    if (c->alone) {
        free(c->own.ring[0]);
        free(c->own.ring[1]);
        free(c->own.ctl);
    }
}
