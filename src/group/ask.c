#include "group/impl.h"

#include <stdlib.h>

/* Calls and queries: see ask.h for the rings. What others write is believed only as far as it can be: positions within a ring, lengths within
 * a frame. Who writes anything else is not read any more in the epoch, and is claimed as one whose stream is torn. */

enum ask_word { ASK_GUARD, ASK_TAKEN, ASK_ANSWERS_TAKEN, ASK_WORDS };
enum answer_word { ANSWER_GUARD, ANSWER_WORDS };

enum { FRAMES_A_ROUND = 16, BUSY_ROUNDS = 256 };

struct ask_frame {
    uint64_t ticket;
    uint64_t vid;     /* of the view in which it was asked: it is not taken in one before */
    uint64_t version; /* that the state has to have */
    uint32_t cell, bytes, reply_max, pad;
};

struct answer_frame {
    uint64_t ticket, version;
    int32_t status;
    uint32_t bytes;
};

static uint64_t padded8(uint64_t bytes)
{
    return (bytes + 7) & ~UINT64_C(7);
}

static uint64_t answer_size(uint32_t bytes)
{
    return sizeof(struct answer_frame) + padded8(bytes);
}

uint32_t member_ask_max(const struct member *m)
{
    return m->asks.frame_max - (uint32_t)sizeof(struct ask_frame);
}

/* ---- words and bytes ---- */

/* A position, as a word of the epoch has it: at most a ring from where it was. */
static uint64_t unfold(uint64_t word, uint64_t epoch, uint64_t was)
{
    uint64_t mask = (UINT64_C(1) << STAMP_COUNT_BITS) - 1;
    return stamp_vid(word) == epoch ? was + ((stamp_count(word) - was) & mask) : was;
}

static uint64_t fold(uint64_t epoch, uint64_t pos)
{
    return stamp(epoch, pos & ((UINT64_C(1) << STAMP_COUNT_BITS) - 1));
}

static bool is_sent(const struct member *m, uint32_t host)
{
    return !m->mem->shared && host != m->opt.me;
}

static void tell_word(struct member *m, uint32_t host, struct mem_lane *lane, uint32_t word,
                      uint64_t value)
{
    mem_store(lane, word, value);
    if (is_sent(m, host))
        mem_set1(m->mem, &m->asks.peer[host].flow, lane, word, value);
}

static void send_bytes(struct member *m, uint32_t host, struct mem_lane *lane, uint64_t from,
                       uint64_t to)
{
    uint32_t ring = m->asks.ring_bytes;
    while (is_sent(m, host) && from < to) {
        uint64_t bytes = min_u64(to - from, ring_straight(ring, from));
        mem_put(m->mem, &m->asks.peer[host].flow, lane, from, lane->ring + (from & (ring - 1)),
                (uint32_t)bytes);
        from += bytes;
    }
}

static void wake(struct member *m, uint32_t host)
{
    m->asks.busy = BUSY_ROUNDS;
    if (host != m->opt.me)
        mem_bell_later(m->mem, host);
}

/* Are both lanes those of the life that is in the view? */
static bool is_there(struct member *m, uint32_t host)
{
    struct ask_peer *p = &m->asks.peer[host];
    struct mem_lane *lane[2] = {p->ask_in, p->answer_in};
    uint32_t life = life_process(m->view->life[host]);
    if (host == m->opt.me)
        return true;
    for (int i = 0; i < 2; i++) {
        if (lane[i]->life != life)
            mem_lane_next(m->mem, lane[i]);
        if (lane[i]->ctl == NULL || lane[i]->life != life)
            return false;
    }
    return true;
}

static void tear(struct member *m, uint32_t host)
{
    m->asks.peer[host].torn = true;
    m->count.torn += !in_set(m->torn, host);
    m->torn |= set_of(host);
}

/* Up to where the ring is written; where it was read up to, if nothing can be said. */
static uint64_t guard_of(struct member *m, uint32_t host, const struct mem_lane *lane,
                         uint32_t word, uint64_t at)
{
    uint64_t guard = unfold(mem_word(lane, word), m->asks.peer[host].epoch, at);
    if (guard - at <= m->asks.ring_bytes)
        return guard;
    tear(m, host);
    return at;
}

/* How far they have taken what this host wrote, up to `end`. */
static void look_taken(struct member *m, uint32_t host)
{
    struct ask_peer *p = &m->asks.peer[host];
    uint64_t asks = unfold(mem_word(p->ask_in, ASK_TAKEN), p->epoch, p->ask_free);
    uint64_t answers = unfold(mem_word(p->ask_in, ASK_ANSWERS_TAKEN), p->epoch, p->answer_free);
    if (asks > p->ask_end || answers > p->answer_end) {
        tear(m, host);
        return;
    }
    p->ask_free = asks;
    p->answer_free = answers;
}

/* ---- what is under way ---- */

static struct ask_slot *slot_of(struct member *m, uint64_t ticket)
{
    struct ask_slot *s = &m->asks.slot[ticket % ASK_SLOTS];
    return ticket && s->ticket == ticket ? s : NULL;
}

static void say(struct member *m, uint64_t ticket, const struct member_answer *a)
{
    if (m->opt.machine->answered)
        m->opt.machine->answered(m->opt.ctx, ticket, a);
}

static void end_slot(struct member *m, struct ask_slot *s)
{
    uint64_t ticket = s->ticket;
    m->asks.reserved -= s->reserved;
    m->asks.open--;
    *s = (struct ask_slot){.ticket = 0};
    say(m, ticket, NULL);
}

/* It is complete when nobody is waited for any more, and of a call when it is known who is. */
static void look_complete(struct member *m, struct ask_slot *s)
{
    if (s->waits == 0 && (!s->call || s->vid))
        end_slot(m, s);
}

/* No answer comes of these hosts. */
static void give_up(struct member *m, struct ask_slot *s, uint64_t hosts, int status)
{
    uint64_t ticket = s->ticket;
    for (uint64_t rest = s->waits & hosts; rest && s->ticket == ticket; rest = set_rest(rest)) {
        s->waits &= ~set_of(set_first(rest));
        say(m, ticket, &(struct member_answer){.host = set_first(rest), .status = status});
    }
}

static struct ask_slot *new_slot(struct member *m, uint32_t reply_max)
{
    struct asks *a = &m->asks;
    uint32_t size = (uint32_t)answer_size(reply_max);
    if (a->open == ASK_SLOTS || a->reserved + size > a->ring_bytes)
        return NULL;
    do
        a->tickets++;
    while (a->slot[a->tickets % ASK_SLOTS].ticket);
    struct ask_slot *s = &a->slot[a->tickets % ASK_SLOTS];
    *s = (struct ask_slot){.ticket = a->tickets, .reserved = size};
    a->reserved += size;
    a->open++;
    m->count.asked++;
    return s;
}

/* ---- answering ---- */

/* Writes what is owed, as far as there is room for it. */
static void pay(struct member *m, uint32_t host)
{
    struct ask_peer *p = &m->asks.peer[host];
    uint64_t ring = m->asks.ring_bytes, from = p->answer_end;
    uint64_t to = min_u64(p->owed_end, p->answer_free + ring);
    while (p->answer_end < to) {
        uint64_t at = p->answer_end & (2 * ring - 1);
        uint64_t bytes = min_u64(to - p->answer_end, 2 * ring - at);
        ring_write(p->answer_out->ring, ring, p->answer_end, p->owed + at, bytes);
        p->answer_end += bytes;
    }
    if (from == to)
        return;
    send_bytes(m, host, p->answer_out, from, to);
    tell_word(m, host, p->answer_out, ANSWER_GUARD, fold(p->epoch, to));
    wake(m, host);
}

static void answer(struct member *m, uint32_t host, const struct answer_frame *f, const void *data)
{
    struct ask_peer *p = &m->asks.peer[host];
    uint64_t ring = 2 * (uint64_t)m->asks.ring_bytes, size = answer_size(f->bytes);
    /* Who asks for more than it has room for gets no answer. */
    if (p->epoch == 0 || p->owed_end + size > p->answer_free + ring)
        return;
    ring_write(p->owed, ring, p->owed_end, f, sizeof(*f));
    if (f->bytes > 0)
        ring_write(p->owed, ring, p->owed_end + sizeof(*f), data, f->bytes);
    p->owed_end += size;
    m->count.answers++;
    pay(m, host);
}

/* A reply of so many bytes, of which there is room for some. */
static struct answer_frame reply_of(uint64_t ticket, uint64_t version, int64_t bytes, uint32_t room)
{
    struct answer_frame f = {.ticket = ticket, .version = version};
    if (bytes < 0)
        f.status = (int32_t)bytes;
    else if (bytes > room)
        f.status = ERR_TOOBIG;
    else
        f.bytes = (uint32_t)bytes;
    return f;
}

/* Up to where this host has the cell. */
static uint64_t version_of(const struct member *m, uint32_t cell)
{
    const struct cell *c = &m->cell[cell];
    return stamp(m->view->vid, c->taken ? 0 : c->number_at);
}

uint64_t member_version(const struct member *m, uint32_t cell)
{
    return is_in_view(m) && member_has_state(m, cell) ? version_of(m, cell) : 0;
}

static void answer_query(struct member *m, uint32_t host, const struct ask_frame *f)
{
    const struct member_machine *machine = m->opt.machine;
    int64_t bytes = ERR_NOTFOUND;
    if (!m->cell[f->cell].in)
        bytes = ERR_REFUSED;
    else if (!member_has_state(m, f->cell))
        bytes = ERR_AGAIN;
    else if (machine->query)
        bytes = machine->query(m->opt.ctx, f->cell, host, m->asks.frame, f->bytes, m->asks.reply,
                               f->reply_max);
    struct answer_frame a = reply_of(f->ticket, version_of(m, f->cell), bytes, f->reply_max);
    answer(m, host, &a, m->asks.reply);
}

/* Is it one that a member writes? */
static bool is_ask(const struct member *m, const struct ask_frame *f)
{
    uint32_t most = member_ask_max(m);
    return f->bytes <= most && f->reply_max <= most && f->cell < m->opt.cells;
}

/* The state will have what is asked for, but has not yet. */
static bool is_early(const struct member *m, const struct ask_frame *f)
{
    return (f->vid > m->view->vid && !PLANTED(group_asked_early)) ||
           (member_has_state(m, f->cell) && f->version > version_of(m, f->cell));
}

/* Copies from a ring that its owner may begin anew meanwhile; false: it has. */
static bool copy(const struct member *m, uint32_t host, const struct mem_lane *lane, uint32_t word,
                 uint64_t pos, void *out, uint64_t bytes)
{
    ring_read(lane->ring, m->asks.ring_bytes, pos, out, bytes);
    atomic_thread_fence(memory_order_acquire);
    return stamp_vid(mem_word(lane, word)) == m->asks.peer[host].epoch;
}

/* The next ask; false: there is none that can be answered now. */
static bool take_ask(struct member *m, uint32_t host, uint64_t guard)
{
    struct ask_peer *p = &m->asks.peer[host];
    struct ask_frame f;
    if (guard - p->ask_at < sizeof(f) ||
        !copy(m, host, p->ask_in, ASK_GUARD, p->ask_at, &f, sizeof(f)))
        return false;
    uint64_t size = sizeof(f) + padded8(f.bytes);
    if (!is_ask(m, &f) || size > guard - p->ask_at) {
        tear(m, host);
        return false;
    }
    if (is_early(m, &f) ||
        !copy(m, host, p->ask_in, ASK_GUARD, p->ask_at + sizeof(f), m->asks.frame, f.bytes))
        return false;
    p->ask_at += size;
    answer_query(m, host, &f);
    return true;
}

static int take_asks(struct member *m, uint32_t host)
{
    struct ask_peer *p = &m->asks.peer[host];
    uint64_t guard = guard_of(m, host, p->ask_in, ASK_GUARD, p->ask_at);
    int taken = 0;
    while (p->ask_at < guard && taken < FRAMES_A_ROUND && take_ask(m, host, guard))
        taken++;
    if (taken) {
        tell_word(m, host, p->ask_out, ASK_TAKEN, fold(p->epoch, p->ask_at));
        wake(m, host);
    }
    return taken;
}

/* ---- taking answers ---- */

/* Is an answer of the host due? Of a call that was not delivered here yet, of all who are in the cell. */
static bool is_due(const struct member *m, const struct ask_slot *s, uint32_t host)
{
    if (in_set(s->answered, host))
        return false;
    if (s->call && s->vid == 0)
        return in_set(m->view->cell[s->cell].members, host);
    return in_set(s->waits, host);
}

static void take_reply(struct member *m, uint32_t host, const struct answer_frame *f)
{
    struct ask_slot *s = slot_of(m, f->ticket);
    if (s == NULL || !is_due(m, s, host))
        return;
    s->answered |= set_of(host);
    s->waits &= ~set_of(host);
    bool good = f->status == 0;
    say(m, f->ticket,
        &(struct member_answer){.host = host,
                                .status = good || f->status < 0 ? f->status : ERR_CORRUPT,
                                .version = f->version,
                                .data = m->asks.frame,
                                .bytes = good ? f->bytes : 0});
    if (s->ticket == f->ticket)
        look_complete(m, s);
}

static bool take_answer(struct member *m, uint32_t host, uint64_t guard)
{
    struct ask_peer *p = &m->asks.peer[host];
    struct answer_frame f;
    if (guard - p->answer_at < sizeof(f) ||
        !copy(m, host, p->answer_in, ANSWER_GUARD, p->answer_at, &f, sizeof(f)))
        return false;
    if (f.bytes > member_ask_max(m)) {
        tear(m, host);
        return false;
    }
    uint64_t size = answer_size(f.bytes);
    if (size > guard - p->answer_at || !copy(m, host, p->answer_in, ANSWER_GUARD,
                                             p->answer_at + sizeof(f), m->asks.frame, f.bytes))
        return false;
    p->answer_at += size;
    /* First: what is asked next counts on the room. */
    tell_word(m, host, p->ask_out, ASK_ANSWERS_TAKEN, fold(p->epoch, p->answer_at));
    take_reply(m, host, &f);
    return true;
}

static int take_answers(struct member *m, uint32_t host)
{
    struct ask_peer *p = &m->asks.peer[host];
    uint64_t guard = guard_of(m, host, p->answer_in, ANSWER_GUARD, p->answer_at);
    int taken = 0;
    while (p->answer_at < guard && taken < FRAMES_A_ROUND && take_answer(m, host, guard))
        taken++;
    return taken;
}

static int settle_peer(struct member *m, uint32_t host)
{
    struct ask_peer *p = &m->asks.peer[host];
    if (p->epoch == 0 || p->torn || !is_there(m, host)) {
        if (p->torn)
            tear(m, host);
        return 0;
    }
    int work = take_answers(m, host) + (p->torn ? 0 : take_asks(m, host));
    look_taken(m, host);
    if (p->answer_end < p->owed_end && !p->torn)
        pay(m, host);
    return work;
}

int asks_settle(struct member *m)
{
    int work = 0;
    m->asks.busy -= m->asks.busy > 0;
    if (!is_in_view(m))
        return 0;
    for (uint64_t rest = m->view->members; rest; rest = set_rest(rest))
        work += settle_peer(m, set_first(rest));
    return work;
}

/* After a loss everything that was not taken goes out again. */
void asks_post(struct member *m)
{
    for (uint64_t rest = m->mem->shared || !is_in_view(m) ? 0 : m->view->members; rest;
         rest = set_rest(rest)) {
        uint32_t host = set_first(rest);
        struct ask_peer *p = &m->asks.peer[host];
        if (host == m->opt.me || p->epoch == 0 || p->flow.status == MEM_DONE)
            continue;
        mem_flow_open(m->mem, &p->flow, host, region_number(REGION_MEMBER, 0), 0);
        if (p->flow.status != MEM_DONE)
            continue;
        send_bytes(m, host, p->ask_out, p->ask_free, p->ask_end);
        send_bytes(m, host, p->answer_out, p->answer_free, p->answer_end);
        tell_word(m, host, p->ask_out, ASK_GUARD, fold(p->epoch, p->ask_end));
        tell_word(m, host, p->ask_out, ASK_TAKEN, fold(p->epoch, p->ask_at));
        tell_word(m, host, p->ask_out, ASK_ANSWERS_TAKEN, fold(p->epoch, p->answer_at));
        tell_word(m, host, p->answer_out, ANSWER_GUARD, fold(p->epoch, p->answer_end));
    }
}

/* ---- asking ---- */

static uint32_t someone(const struct member *m, uint32_t cell)
{
    const struct view_cell *v = &m->view->cell[cell];
    if (member_has_state(m, cell))
        return m->opt.me;
    uint64_t others = v->stateful & ~set_of(m->opt.me);
    return others ? set_first(others) : MEMBER_ANY;
}

static void ask(struct member *m, uint32_t host, const struct ask_frame *f, const void *data)
{
    struct ask_peer *p = &m->asks.peer[host];
    uint64_t from = p->ask_end, ring = m->asks.ring_bytes;
    ring_write(p->ask_out->ring, ring, from, f, sizeof(*f));
    if (f->bytes > 0) /* a question need not say anything; data may be NULL then */
        ring_write(p->ask_out->ring, ring, from + sizeof(*f), data, f->bytes);
    p->ask_end += sizeof(*f) + padded8(f->bytes);
    send_bytes(m, host, p->ask_out, from, p->ask_end);
    tell_word(m, host, p->ask_out, ASK_GUARD, fold(p->epoch, p->ask_end));
    wake(m, host);
}

int member_query(struct member *m, uint32_t cell, uint32_t host, uint64_t version, const void *data,
                 uint32_t bytes, uint32_t reply_max, uint64_t *ticket)
{
    CHECK(cell < m->opt.cells);
    if (bytes > member_ask_max(m) || reply_max > member_ask_max(m))
        return ERR_TOOBIG;
    if (m->broken || m->asks.closed || !is_in_view(m))
        return ERR_AGAIN;
    host = host == MEMBER_ANY ? someone(m, cell) : host;
    if (!in_set(m->view->cell[cell].members, host))
        return ERR_REFUSED;
    struct ask_peer *p = &m->asks.peer[host];
    uint64_t size = sizeof(struct ask_frame) + padded8(bytes);
    if (p->ask_end + size > p->ask_free + m->asks.ring_bytes)
        return ERR_AGAIN;
    struct ask_slot *s = new_slot(m, reply_max);
    if (s == NULL)
        return ERR_AGAIN;
    s->cell = cell;
    s->waits = set_of(host);
    *ticket = s->ticket;
    ask(m, host,
        &(struct ask_frame){.ticket = s->ticket,
                            .vid = m->view->vid,
                            .version = version,
                            .cell = cell,
                            .bytes = bytes,
                            .reply_max = reply_max},
        data);
    return 0;
}

int member_call(struct member *m, uint32_t cell, const void *data, uint32_t bytes,
                uint32_t reply_max, uint64_t *ticket)
{
    CHECK(cell < m->opt.cells);
    const uint32_t head = sizeof(struct call_head);
    struct cell *c = &m->cell[cell];
    if (c->opt.mode == CELL_RAW)
        return ERR_INVALID;
    if (reply_max > member_ask_max(m) || bytes > c->opt.message_max ||
        bytes + head + c->ahead > c->opt.message_max)
        return ERR_TOOBIG;
    unsigned char *room =
        m->asks.closed || m->asks.open == ASK_SLOTS ? NULL : member_reserve(m, cell, bytes + head);
    struct ask_slot *s = room ? new_slot(m, reply_max) : NULL;
    if (s == NULL) {
        if (room)
            member_release(m, cell, room);
        return ERR_AGAIN;
    }
    s->call = true;
    s->cell = cell;
    *ticket = s->ticket;
    memcpy(room, &(struct call_head){.ticket = s->ticket, .reply_max = reply_max}, head);
    memcpy(room + head, data, bytes);
    own_commit_kind(c, room, bytes + head, RECORD_CALL);
    return 0;
}

/* ---- delivering calls ---- */

/* The head of a call; false: no member writes that, and nobody has anything of it. */
static bool head_of(const struct member *m, const void *data, uint32_t bytes, struct call_head *out)
{
    if (bytes < sizeof(*out))
        return false;
    memcpy(out, data, sizeof(*out));
    out->reply_max = (uint32_t)min_u64(out->reply_max, member_ask_max(m));
    return true;
}

/* An own call is delivered in this view, whose members are waited for from now on. */
static void note_own(struct cell *c, const struct call_head *h)
{
    struct member *m = c->of;
    struct ask_slot *s = slot_of(m, h->ticket);
    if (s == NULL || !s->call || s->vid)
        return;
    s->vid = m->view->vid;
    s->waits = c->members & ~s->answered;
}

static void reply(struct cell *c, uint32_t sender, const struct call_head *h, uint64_t number,
                  int64_t bytes)
{
    struct member *m = c->of;
    struct answer_frame a =
        reply_of(h->ticket, stamp(m->view->vid, number + 1), bytes, h->reply_max);
    if (sender == m->opt.me)
        note_own(c, h);
    answer(m, sender, &a, m->asks.reply);
}

void asks_deliver(struct cell *c, uint64_t vid, const struct member_item *t, bool fed)
{
    struct member *m = c->of;
    const struct member_machine *machine = m->opt.machine;
    struct call_head h;
    if (!head_of(m, t->data, t->bytes, &h))
        return;
    const struct member_item item = {.data = (const unsigned char *)t->data + sizeof(h),
                                     .bytes = t->bytes - (uint32_t)sizeof(h),
                                     .sender = t->sender,
                                     .number = t->number};
    uint32_t bytes = 0;
    if (machine->call)
        bytes = machine->call(m->opt.ctx, c->number, vid, &item, m->asks.reply, h.reply_max);
    else
        machine->deliver(m->opt.ctx, c->number, vid, &item, 1);
    if (m->relays)
        feed_items(c, vid, &item, 1);
    if (!fed)
        reply(c, t->sender, &h, t->number, bytes);
}

void asks_passed(struct cell *c, uint32_t sender, const struct record *r, uint32_t bytes,
                 uint64_t number)
{
    struct call_head h;
    if (head_of(c->of, (const unsigned char *)(r + 1) + c->ahead, bytes, &h) &&
        !PLANTED(group_passed_silent))
        reply(c, sender, &h, number, ERR_AGAIN);
}

bool asks_returned(struct cell *c, const struct record *r)
{
    struct member *m = c->of;
    struct call_head h;
    if (!(r->flags & RECORD_CALL) ||
        !head_of(m, (const unsigned char *)(r + 1) + c->ahead, r->bytes, &h))
        return false;
    struct ask_slot *s = slot_of(m, h.ticket);
    if (s) {
        s->waits = set_of(m->opt.me);
        give_up(m, s, s->waits, ERR_REFUSED);
        if (s->ticket == h.ticket)
            end_slot(m, s);
    }
    return true;
}

/* ---- from view to view ---- */

static void begin_epoch(struct member *m, uint32_t host, uint64_t epoch)
{
    struct ask_peer *p = &m->asks.peer[host];
    p->epoch = epoch;
    p->torn = false;
    p->ask_end = p->ask_free = p->ask_at = 0;
    p->answer_end = p->answer_free = p->answer_at = p->owed_end = 0;
    if (epoch == 0)
        return;
    if (is_sent(m, host))
        mem_flow_open(m->mem, &p->flow, host, region_number(REGION_MEMBER, 0), 0);
    for (uint32_t word = 0; word < ASK_WORDS; word++)
        tell_word(m, host, p->ask_out, word, fold(epoch, 0));
    tell_word(m, host, p->answer_out, ANSWER_GUARD, fold(epoch, 0));
    /* Who still reads the last epoch finds that it is over before what it reads changes. */
    atomic_thread_fence(memory_order_release);
}

void asks_begin(struct member *m, const struct view *before, const struct view *now)
{
    uint64_t gone = 0;
    m->asks.closed = false;
    for (uint32_t h = 0; h < m->opt.hosts; h++) {
        if (before->life[h] == now->life[h] && before->vid)
            continue;
        gone |= set_of(h);
        m->asks.peer[h].since = now->vid;
    }
    for (uint32_t h = 0; h < m->opt.hosts; h++) {
        uint64_t epoch = max_u64(m->asks.peer[h].since, m->asks.peer[m->opt.me].since);
        epoch = in_set(now->members, h) ? epoch : 0;
        if (epoch != m->asks.peer[h].epoch)
            begin_epoch(m, h, epoch);
    }
    for (uint32_t i = 0; m->asks.open && i < ASK_SLOTS; i++) {
        struct ask_slot *s = &m->asks.slot[i];
        uint64_t ticket = s->ticket;
        if (ticket == 0)
            continue;
        give_up(m, s, gone, ERR_LOST);
        if (s->ticket == ticket)
            look_complete(m, s);
    }
}

void asks_end(struct member *m)
{
    m->asks.closed = true;
    for (uint32_t h = 0; h < m->opt.hosts; h++)
        m->asks.peer[h].epoch = 0;
    for (uint32_t i = 0; m->asks.open && i < ASK_SLOTS; i++) {
        struct ask_slot *s = &m->asks.slot[i];
        if (s->ticket == 0)
            continue;
        if (s->call && s->vid == 0) /* it was delivered or not: who is out does not know */
            s->waits = set_of(m->opt.me);
        give_up(m, s, UINT64_MAX, ERR_LOST);
        end_slot(m, s);
    }
}

/* ---- opening ---- */

/* What this host asks itself goes the same way, through lanes that only it has. */
static bool own_lanes_open(struct member *m)
{
    struct ask_peer *p = &m->asks.peer[m->opt.me];
    struct mem_lane *lane = calloc(2, sizeof(*lane));
    p->ask_in = p->ask_out = lane;
    if (lane == NULL)
        return false;
    p->answer_in = p->answer_out = lane + 1;
    for (int i = 0; i < 2; i++) {
        lane[i].ctl = calloc(ASK_WORDS, sizeof(*lane[i].ctl));
        lane[i].ring = calloc(1, m->asks.ring_bytes);
        if (!lane[i].ctl || !lane[i].ring)
            return false;
    }
    return true;
}

static struct mem_lane_spec spec_of(const struct member *m, uint32_t owner, uint32_t writer,
                                    enum lane_kind kind)
{
    struct mem_lane_spec s = lane_spec(region_number(REGION_MEMBER, 0), owner, writer, kind, owner);
    s.ctl_words = kind == LANE_ASK ? ASK_WORDS : ANSWER_WORDS;
    s.ring_bytes = m->asks.ring_bytes;
    s.common = 1;
    return s;
}

static int lanes_open(struct member *m, struct err *e)
{
    struct mem_lane_spec spec[4 * GROUP_HOSTS_MAX];
    struct mem_lane *lane[4 * GROUP_HOSTS_MAX];
    uint32_t count = 0, me = m->opt.me;
    for (uint32_t h = 0; h < m->opt.hosts; h++) {
        if (h == me)
            continue;
        spec[count++] = spec_of(m, me, h, LANE_ASK);
        spec[count++] = spec_of(m, me, h, LANE_ANSWER);
        spec[count++] = spec_of(m, h, me, LANE_ASK);
        spec[count++] = spec_of(m, h, me, LANE_ANSWER);
    }
    int rc = count ? mem_lanes_open(m->mem, spec, count, lane, e) : 0;
    count = 0;
    for (uint32_t h = 0; rc == 0 && h < m->opt.hosts; h++) {
        struct ask_peer *p = &m->asks.peer[h];
        if (h == me)
            continue;
        p->ask_in = lane[count++];
        p->answer_in = lane[count++];
        p->ask_out = lane[count++];
        p->answer_out = lane[count++];
    }
    return rc;
}

int asks_open(struct member *m, struct err *e)
{
    struct asks *a = &m->asks;
    a->ring_bytes = m->opt.ask_bytes ? m->opt.ask_bytes : ASK_BYTES_DEFAULT;
    a->frame_max = a->ring_bytes / 4;
    if (a->ring_bytes < MEM_PAGE_BYTES || (a->ring_bytes & (a->ring_bytes - 1)))
        return err_set(e, ERR_INVALID,
                       "group: rings of questions are to be a power of two, of at least 4 KiB");
    a->peer = calloc(m->opt.hosts, sizeof(*a->peer));
    a->frame = calloc(1, a->frame_max);
    a->reply = calloc(1, a->frame_max);
    bool good = a->peer && a->frame && a->reply && own_lanes_open(m);
    for (uint32_t h = 0; good && h < m->opt.hosts; h++) {
        a->peer[h].owed = calloc(2, a->ring_bytes);
        good = a->peer[h].owed != NULL;
    }
    return good ? lanes_open(m, e)
                : err_set(e, ERR_NOMEM, "group: no memory for questions and answers");
}

void asks_close(struct member *m)
{
    struct asks *a = &m->asks;
    if (a->peer && a->peer[m->opt.me].ask_in) {
        struct mem_lane *lane = a->peer[m->opt.me].ask_in;
        for (int i = 0; i < 2; i++) {
            free(lane[i].ctl);
            free(lane[i].ring);
        }
        free(lane);
    }
    for (uint32_t h = 0; a->peer && h < m->opt.hosts; h++)
        free(a->peer[h].owed);
    free(a->peer);
    free(a->frame);
    free(a->reply);
}
