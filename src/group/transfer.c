#include "group/impl.h"

#include <stdlib.h>

/* States for those who have none. In each cell the first of those who have its state when the view begins is the *donor*: it sends a
 * copy to the others, one after the other, through its STATE lane, and behind it what it delivers since: the *feed*.
 *
 *      | bytes 8 | number 8, size 8, time 8 | bytes 8 | piece, padded ... | ... | 0 | bytes 8 | of the feed, padded | ... |
 *
 * The copy is of the donor's state in the view in which it began, and says up to which number. Who is a member of the cell in that view passes over the
 * numbers below, and is done with the copy. Everybody else, a learner, and who has seen a view end meanwhile, goes on with the feed, in
 * which the begin of each view is marked: at the mark of a view in which it is a member it has what everybody has who begins that, and delivers by itself
 * from there on. So a transfer goes on over views as long as the same two are its ends; else it is void, and begins anew.
 *
 * The ring is paced by the joiner's CELL_TAKEN. What the donor delivers faster than that is kept in its backlog; when that is full it delivers
 * no more until there is room, as if the joiner were a member that is slow, and gives the transfer up if there is none for long. */

enum { STATE_HEAD = 8, STATE_FIRST = 24, TAKEN_BITS = 36, ATTEMPTS_MAX = 15 };

/* In the feed, before each message. */
struct feed_head {
    uint64_t vid, number;
    uint32_t
        sender; /* and above FEED_KIND_SHIFT the kind; FEED_MARK: none; the view of that vid begins here */
    uint32_t bytes;
};

/* Its number is the time of the last message before it. */
#define FEED_MARK UINT32_MAX
enum { FEED_KIND_SHIFT = 8, FEED_SENDER_MASK = 0xff };

_Static_assert(sizeof(struct feed_head) == FEED_HEAD_BYTES, "what is allocated for one");

static uint64_t state_id(uint64_t vid, uint32_t cell, uint32_t joiner, uint32_t attempt)
{
    return stamp(vid, (uint64_t)cell << 16 | (uint64_t)joiner << 8 | attempt);
}

/* What the joiner has taken of that transfer, as a word that rises over transfers too. */
static uint64_t taken_stamp(uint64_t id, uint64_t taken)
{
    return stamp(stamp_vid(id), (id & 0xff) << TAKEN_BITS | taken);
}

/* Who sends states of the cell in the view; GROUP_HOSTS_MAX: nobody. */
static uint32_t donor_of(const struct view *v, uint32_t cell)
{
    return v->cell[cell].stateful ? set_first(v->cell[cell].stateful) : GROUP_HOSTS_MAX;
}

/* Does the host lack the cell's state when the view begins, and need it? */
static bool lacks_state(const struct view *v, uint32_t cell, uint32_t host)
{
    const struct view_cell *c = &v->cell[cell];
    return in_set((c->members | c->learners) & ~c->stateful, host);
}

/* Both ends of a transfer are what they were, and the state is not that of a view's begin. */
static bool goes_on(const struct member *m, const struct view *before, const struct view *now,
                    uint32_t cell, uint32_t joiner)
{
    uint32_t donor = donor_of(now, cell);
    return !is_stateless(m) && donor < GROUP_HOSTS_MAX && donor == donor_of(before, cell) &&
           before->life[donor] == now->life[donor] && before->life[joiner] == now->life[joiner] &&
           lacks_state(before, cell, joiner) && lacks_state(now, cell, joiner);
}

static uint64_t padded8(uint64_t bytes)
{
    return (bytes + 7) & ~UINT64_C(7);
}

static bool spend(struct member *m)
{
    if (m->budget->pieces == 0)
        return false;
    m->budget->pieces--;
    return true;
}

/* ---- sending ---- */

static struct mem_lane *copy_of(const struct member *m)
{
    return m->state_out[m->opt.me == 0]; /* any of them shows it */
}

static void tell_word(struct member *m, uint32_t word, uint64_t value)
{
    struct sending *s = &m->sending;
    mem_store(copy_of(m), word, value);
    if (!m->mem->shared)
        mem_set1(m->mem, &s->flow, m->state_out[s->joiner], word, value);
}

static void put_out_bytes(struct member *m, uint64_t from, uint64_t to)
{
    struct sending *s = &m->sending;
    const unsigned char *ring = copy_of(m)->ring;
    while (!m->mem->shared && from < to) {
        uint64_t bytes = min_u64(to - from, ring_straight(m->snap_bytes, from));
        mem_put(m->mem, &s->flow, m->state_out[s->joiner], from,
                ring + (from & (m->snap_bytes - 1)), (uint32_t)bytes);
        from += bytes;
    }
}

/* Adds a piece behind what was sent, with its head. */
static void add(struct member *m, const void *data, uint64_t bytes)
{
    struct sending *s = &m->sending;
    unsigned char *ring = copy_of(m)->ring;
    uint64_t from = s->end;
    ring_write(ring, m->snap_bytes, s->end, &bytes, 8);
    ring_write(ring, m->snap_bytes, s->end + 8, data, bytes);
    s->end += STATE_HEAD + padded8(bytes);
    put_out_bytes(m, from, s->end);
    tell_word(m, STATE_GUARD, s->end);
}

static uint64_t sending_id(const struct sending *s)
{
    return state_id(s->vid, s->cell, s->joiner, s->attempt);
}

/* Takes note of what the joiner has taken. Its row may be out of sight while views change. */
static void look_taken(struct member *m)
{
    struct sending *s = &m->sending;
    uint64_t word = cell_word(&m->cell[s->cell], s->joiner, CELL_TAKEN);
    uint64_t none = taken_stamp(sending_id(s), 0);
    if (word - none > s->end - s->base || word - none <= s->taken)
        return;
    s->taken = word - none;
    s->moved_ns = m->settled_ns;
}

static bool has_room(const struct member *m, uint64_t bytes)
{
    const struct sending *s = &m->sending;
    return s->end + STATE_HEAD + padded8(bytes) <= s->base + s->taken + m->snap_bytes;
}

static void stop_sending(struct member *m)
{
    struct sending *s = &m->sending;
    if (!s->active)
        return;
    if (s->save)
        m->state->save_close(cell_state_ctx(m, s->cell), s->save);
    s->save = NULL;
    s->active = false;
    tell_word(m, STATE_ID, 0);
    if (!m->mem->shared)
        mem_flow_close(m->mem, &s->flow);
}

/* BASE before ID: who finds its own ID finds where its state begins. */
static void announce(struct member *m)
{
    struct sending *s = &m->sending;
    tell_word(m, STATE_BASE, s->base);
    tell_word(m, STATE_GUARD, s->end);
    tell_word(m, STATE_ID, sending_id(s));
}

/* A state of that many bytes takes longer than the rings hold what is sent meanwhile. */
static bool is_large(const struct cell *c, uint64_t bytes)
{
    return bytes > c->opt.ring_bytes; /* also what is not known */
}

static bool start_sending(struct member *m, uint32_t cell, uint32_t joiner)
{
    struct sending *s = &m->sending;
    struct cell *c = &m->cell[cell];
    const struct state_ops *ops = m->state;
    uint64_t first[3] = {is_stateless(m) ? 0 : c->number_at, STATE_UNKNOWN,
                         c->keep ? kept_time(c) : 0};
    void *ctx = cell_state_ctx(m, cell);
    if (c->attempt[joiner] == ATTEMPTS_MAX || !state_save_ready(ops, ctx) || !spend(m))
        return false;
    void *save = PLANTED(group_copy_before_trim) && m->cell[cell].early_save
                     ? planted_copy(m, cell, &first[1])
                     : ops->save_open(ctx, &first[1]);
    if (save == NULL) {
        member_stop(m, "the machine cannot save its state");
        return false;
    }
    *s = (struct sending){.active = true,
                          .cell = cell,
                          .joiner = joiner,
                          .attempt = ++c->attempt[joiner],
                          .vid = m->view->vid,
                          .moved_ns = m->settled_ns,
                          .near_ns = UINT64_MAX,
                          .save = save,
                          .base = s->end,
                          .end = s->end,
                          .flow = s->flow};
    if (!m->mem->shared)
        mem_flow_open(m->mem, &s->flow, joiner, region_number(REGION_MEMBER, 0), 0);
    announce(m);
    add(m, first, STATE_FIRST);
    m->count.states_sent++;
    c->large = is_large(c, first[1]);
    return true;
}

/* The next member that waits for a state of ours. */
static bool find_joiner(struct member *m)
{
    for (uint32_t i = 0; i < m->opt.cells; i++) {
        const struct cell *c = &m->cell[i];
        uint64_t donors = m->view->cell[i].stateful;
        if (!c->in || !c->has_state || c->number_at < c->skip_to || donors == 0 ||
            restore_saves(c) || set_first(donors) != m->opt.me)
            continue;
        for (uint64_t rest = (c->members | c->learners) & ~donors; rest; rest = set_rest(rest))
            if (cell_count(c, set_first(rest), CELL_STATE) == WANTS_STATE)
                return start_sending(m, i, set_first(rest));
    }
    return false;
}

static int send_pieces(struct member *m)
{
    struct sending *s = &m->sending;
    const struct state_ops *ops = m->state;
    int work = 0;
    while (!s->saved && has_room(m, m->piece_bytes) && spend(m)) {
        int bytes = ops->save_next(cell_state_ctx(m, s->cell), s->save, m->piece, m->piece_bytes);
        if (bytes < 0) {
            member_stop(m, "the machine cannot save its state");
            return work;
        }
        add(m, m->piece, (uint64_t)bytes);
        s->saved = bytes == 0;
        s->copy_end = s->end;
        work++;
    }
    return work;
}

/* ---- the feed ---- */

static uint64_t feed_room(const struct member *m)
{
    return m->backlog_bytes - (m->sending.feed_head - m->sending.feed_tail);
}

/* For all that the cell delivers at once: a message is at most half as long again in the feed as in its ring. */
static uint64_t feed_need(const struct cell *c)
{
    return 2 * (c->opt.deliver_bytes + record_size(message_most(c)) + FEED_HEAD_BYTES);
}

static void feed(struct member *m, const struct feed_head *h, const void *data)
{
    struct sending *s = &m->sending;
    if (feed_room(m) < sizeof(*h) + padded8(h->bytes)) {
        stop_sending(m);
        return;
    }
    ring_write(m->backlog, m->backlog_bytes, s->feed_head, h, sizeof(*h));
    ring_write(m->backlog, m->backlog_bytes, s->feed_head + sizeof(*h), data, h->bytes);
    s->feed_head += sizeof(*h) + padded8(h->bytes);
}

void transfer_feed(struct cell *c, const struct batch *b)
{
    struct member *m = c->of;
    for (uint32_t i = 0; i < b->count && m->sending.active; i++) {
        const struct member_item *t = &b->item[i];
        feed(m,
             &(struct feed_head){.vid = m->view->vid,
                                 .number = t->number,
                                 .sender = t->sender | t->kind << FEED_KIND_SHIFT,
                                 .bytes = t->bytes},
             t->data);
    }
}

bool transfer_holds(struct cell *c)
{
    struct member *m = c->of;
    if (feed_room(m) >= feed_need(c))
        return false;
    const struct sending *s = &m->sending;
    if (m->phase == MEMBER_OPEN && !member_is_late(m, s->joiner, s->moved_ns, m->settled_ns))
        return true;
    stop_sending(m);
    return false;
}

static int send_feed(struct member *m)
{
    struct sending *s = &m->sending;
    int work = 0;
    while (s->saved && s->feed_tail < s->feed_head && has_room(m, m->piece_bytes) && spend(m)) {
        uint64_t bytes = min_u64(m->piece_bytes, s->feed_head - s->feed_tail);
        ring_read(m->backlog, m->backlog_bytes, s->feed_tail, m->piece, bytes);
        s->feed_tail += bytes;
        add(m, m->piece, bytes);
        work++;
    }
    return work;
}

/* What the joiner lacks of the feed, if it has loaded the copy. */
static uint64_t lacks(const struct member *m)
{
    const struct sending *s = &m->sending;
    if (!s->active || !s->saved || s->base + s->taken < s->copy_end)
        return UINT64_MAX;
    return s->end - s->base - s->taken + s->feed_head - s->feed_tail;
}

static bool is_near(const struct member *m)
{
    return lacks(m) < m->cell[m->sending.cell].opt.ring_bytes / 2;
}

static void look_near(struct member *m)
{
    struct sending *s = &m->sending;
    s->near_ns = !is_near(m) ? UINT64_MAX : min_u64(s->near_ns, m->settled_ns);
}

/* It lacks what is on its way, or no more than half a ring, and it does not get nearer. As a member it is waited for until it has that. */
static bool has_learnt(const struct member *m)
{
    const struct sending *s = &m->sending;
    if (lacks(m) <= m->snap_bytes)
        return true;
    return is_near(m) && s->near_ns < m->settled_ns &&
           m->settled_ns - s->near_ns > m->opt.suspect_ns;
}

uint32_t transfer_learnt(const struct cell *c)
{
    const struct sending *s = &c->of->sending;
    return s->cell == c->number && has_learnt(c->of) ? s->joiner + 1 : 0;
}

/* A learner that has learnt is to be a member; a member that is sent a large state had better be a learner. */
static bool wants_view(const struct member *m)
{
    const struct sending *s = &m->sending;
    const struct cell *c = &m->cell[s->cell];
    if (in_set(c->learners, s->joiner))
        return has_learnt(m);
    return c->large && set_count(c->members) > c->opt.layout.members_min && !has_learnt(m);
}

/* It is said again after a while: a request is lost if the leader of the keepers changes. */
static void ask_for_view(struct member *m)
{
    struct sending *s = &m->sending;
    if (m->phase != MEMBER_OPEN || m->settled_ns < s->ask_ns || !wants_view(m))
        return;
    s->ask_ns = m->settled_ns + 2 * m->opt.suspect_ns;
    member_relayout(m);
}

/* After a loss everything that was not taken goes out again. */
static void resend(struct member *m)
{
    struct sending *s = &m->sending;
    if (m->mem->shared || s->flow.status == MEM_DONE)
        return;
    mem_flow_open(m->mem, &s->flow, s->joiner, region_number(REGION_MEMBER, 0), 0);
    if (s->flow.status != MEM_DONE)
        return;
    put_out_bytes(m, s->base + s->taken, s->end);
    announce(m);
}

int transfer_post(struct member *m)
{
    struct sending *s = &m->sending;
    if (m->state == NULL || !is_in_view(m) || m->opt.hosts == 1)
        return 0;
    if (!s->active)
        return m->phase == MEMBER_OPEN && find_joiner(m);
    look_taken(m);
    resend(m);
    int work = send_pieces(m);
    work += m->broken ? 0 : send_feed(m);
    if (work)
        mem_bell_later(m->mem, s->joiner);
    look_near(m);
    ask_for_view(m);
    if (cell_count(&m->cell[s->cell], s->joiner, CELL_STATE) == HAS_STATE)
        stop_sending(m);
    return work;
}

/* ---- taking ---- */

static int load_first(struct member *m, struct cell *c)
{
    uint64_t first[3];
    memcpy(first, m->piece, sizeof(first));
    c->load_number = first[0];
    c->load_time = first[2];
    c->loading = true;
    c->large = is_large(c, first[1]);
    return m->state->load_open(cell_state_ctx(m, c->number), first[1]);
}

/* It delivers by itself from that number on. */
static void has_now(struct member *m, struct cell *c, uint64_t number, uint64_t time)
{
    if (c->keep) {
        kept_learnt(c, time);
        restore_came(c);
    }
    c->has_state = true;
    c->skip_to = number;
    c->load_id = 0;
    c->loaded = false;
    m->count.states_loaded++;
    cell_set(c, CELL_STATE, stamp(m->view->vid, HAS_STATE));
}

/* The others hear of it before the machine is called: it is told in one round, and done in a later one. */
enum { TELL_ROUNDS = 3 };

void member_set_busy(struct member *m, bool is)
{
    uint64_t word = table_get(m->top, m->opt.me, TOP_BUSY);
    m->busy_rounds = is;
    if ((word & 1) != is) {
        table_set(m->top, TOP_BUSY, word + 1);
        table_push(m->top);
    }
}

bool member_has_told_busy(struct member *m)
{
    if (m->busy_rounds == 0)
        member_set_busy(m, true);
    return m->busy_rounds++ >= TELL_ROUNDS;
}

static int load_last(struct member *m, struct cell *c)
{
    if (!member_has_told_busy(m))
        return ERR_AGAIN;
    c->loading = false;
    if (c->in && stamp_vid(c->load_id) == m->view->vid)
        has_now(m, c, c->load_number, c->load_time);
    else
        c->loaded = true;
    int rc = m->state->load_close(cell_state_ctx(m, c->number), true);
    member_set_busy(m, false);
    return rc;
}

static int load_piece(struct member *m, struct cell *c, uint64_t bytes)
{
    if (!c->loading)
        return bytes == STATE_FIRST ? load_first(m, c) : ERR_CORRUPT;
    if (bytes == 0)
        return load_last(m, c);
    return m->state->load_next(cell_state_ctx(m, c->number), m->piece, (uint32_t)bytes);
}

/* A message, or the begin of a view: in which it has all that others have, if it is a member. */
static void take_fed(struct member *m, struct cell *c, const struct feed_head *h)
{
    if (h->sender != FEED_MARK) {
        const struct member_item item = {.data = c->fed + sizeof(*h),
                                         .bytes = h->bytes,
                                         .sender = h->sender & FEED_SENDER_MASK,
                                         .number = h->number,
                                         .kind = h->sender >> FEED_KIND_SHIFT & RECORD_KINDS};
        cell_deliver(c, h->vid, &item, 1, true);
        m->count.upcalls++;
        m->count.delivered++;
        m->count.delivered_bytes += record_size(h->bytes);
    } else if (c->in && h->vid == m->view->vid) {
        m->count.learnt++;
        has_now(m, c, 0, h->number);
    }
}

/* How much there has to be of what is fed, as far as its head says. */
static uint64_t fed_whole(const struct cell *c, struct feed_head *h)
{
    if (c->fed_at < sizeof(*h))
        return sizeof(*h);
    memcpy(h, c->fed, sizeof(*h));
    return sizeof(*h) + padded8(h->bytes);
}

/* The next bytes of the feed. What is of a view that has not begun here waits for that: ERR_AGAIN. */
static int load_fed(struct member *m, struct cell *c, uint64_t bytes)
{
    for (struct feed_head h = {0}; !c->has_state;) {
        uint64_t whole = fed_whole(c, &h);
        if (h.bytes > message_most(c))
            return ERR_CORRUPT;
        if (c->fed_at == whole && whole > 0 && c->fed_at >= sizeof(h)) {
            if (h.vid > m->view->vid)
                return ERR_AGAIN;
            c->fed_at = 0;
            take_fed(m, c, &h);
            h = (struct feed_head){0};
            continue;
        }
        if (c->piece_at == bytes)
            return 0;
        uint64_t part = min_u64(whole - c->fed_at, bytes - c->piece_at);
        memcpy(c->fed + c->fed_at, m->piece + c->piece_at, part);
        c->fed_at += (uint32_t)part;
        c->piece_at += part;
    }
    return 0;
}

static void void_load(struct member *m, struct cell *c)
{
    if (c->loading)
        m->state->load_close(cell_state_ctx(m, c->number), false);
    c->loading = c->loaded = false;
    c->load_id = c->load_taken = c->piece_at = 0;
    c->fed_at = 0;
}

/* Which transfer the lane has for the cell here; it may be another than the one before. */
static bool find_transfer(struct member *m, struct cell *c, const struct mem_lane *lane)
{
    uint64_t id = mem_word(lane, STATE_ID), vid = stamp_vid(id);
    if (c->load_id && id != c->load_id)
        void_load(m, c);
    if (c->load_id)
        return true;
    uint32_t attempt = id & 0xff;
    if (vid < c->load_since || vid > m->view->vid || attempt == 0 || attempt > ATTEMPTS_MAX ||
        id != state_id(vid, c->number, m->opt.me, attempt))
        return false;
    c->load_id = id;
    c->load_taken = 0;
    cell_set(c, CELL_TAKEN, taken_stamp(id, 0));
    return true;
}

/* Copies the next piece, if it is there and the transfer is still ours afterwards. Negative: there is none. */
static int64_t next_piece(struct member *m, const struct cell *c, const struct mem_lane *lane)
{
    uint64_t bytes;
    uint64_t from = mem_word(lane, STATE_BASE) + c->load_taken, guard = mem_word(lane, STATE_GUARD);
    if (from + STATE_HEAD > guard)
        return -1;
    ring_read(lane->ring, m->snap_bytes, from, &bytes, 8);
    if (bytes > m->piece_bytes || from + STATE_HEAD + padded8(bytes) > guard)
        return -1;
    ring_read(lane->ring, m->snap_bytes, from + STATE_HEAD, m->piece, bytes);
    atomic_thread_fence(memory_order_acquire);
    return mem_word(lane, STATE_ID) == c->load_id ? (int64_t)bytes : -1;
}

static int take(struct member *m, struct cell *c)
{
    uint32_t donor = donor_of(m->view, c->number);
    if (donor == GROUP_HOSTS_MAX || donor == m->opt.me)
        return 0;
    struct mem_lane *lane = m->state_in[donor];
    mem_lane_next(m->mem, lane);
    int work = 0;
    if (PLANTED(group_rest_forgotten) && c->loaded && c->in)
        has_now(m, c, 0, 0);
    for (int64_t bytes; lane->ctl && !c->has_state && m->budget->pieces > 0 &&
                        find_transfer(m, c, lane) && (bytes = next_piece(m, c, lane)) >= 0;
         work++) {
        spend(m);
        int rc = (c->loaded ? load_fed : load_piece)(m, c, (uint64_t)bytes);
        if (rc == ERR_AGAIN)
            return work + (m->busy_rounds > 0); /* which does not sleep */
        if (rc < 0) {
            member_stop(m, "the machine cannot load the state that it was sent");
            return work;
        }
        if (c->load_id == 0) /* it has all of it */
            return work + 1;
        c->piece_at = 0;
        c->load_taken += STATE_HEAD + padded8((uint64_t)bytes);
        cell_set(c, CELL_TAKEN, taken_stamp(c->load_id, c->load_taken));
    }
    return work;
}

int transfer_settle(struct member *m)
{
    int work = 0;
    for (uint32_t i = 0; m->state && m->phase == MEMBER_OPEN && i < m->opt.cells; i++)
        if ((m->cell[i].in || m->cell[i].learns) && !m->cell[i].has_state)
            work += take(m, &m->cell[i]);
    return work;
}

/* ---- from view to view ---- */

static void mark(struct member *m, uint64_t vid)
{
    const struct cell *c = &m->cell[m->sending.cell];
    feed(m,
         &(struct feed_head){.vid = vid, .number = c->keep ? kept_time(c) : 0, .sender = FEED_MARK},
         "");
}

void transfer_begin(struct member *m, const struct view *before, const struct view *now)
{
    struct sending *s = &m->sending;
    member_set_busy(m, false);
    for (uint32_t i = 0; i < m->opt.cells; i++) {
        struct cell *c = &m->cell[i];
        memset(c->attempt, 0, sizeof(c->attempt));
        if (goes_on(m, before, now, i, m->opt.me) && !c->has_state)
            continue;
        void_load(m, c);
        c->load_since = now->vid;
    }
    if (!s->active)
        return;
    s->ask_ns = 0;
    if (donor_of(now, s->cell) != m->opt.me || !goes_on(m, before, now, s->cell, s->joiner))
        stop_sending(m);
    else
        mark(m, now->vid);
}

void transfer_end(struct member *m)
{
    stop_sending(m);
    member_set_busy(m, false);
    for (uint32_t i = 0; i < m->opt.cells; i++)
        void_load(m, &m->cell[i]);
}

/* ---- opening ---- */

/* Memory that is not touched before it is needed. */
static bool feeds_open(struct member *m)
{
    uint64_t least = m->opt.backlog_bytes ? m->opt.backlog_bytes : BACKLOG_BYTES;
    if (m->state == NULL || m->opt.hosts == 1)
        return true;
    for (uint32_t i = 0; i < m->opt.cells; i++) {
        struct cell *c = &m->cell[i];
        if (!c->mine)
            continue;
        least = max_u64(least, 2 * feed_need(c));
        c->fed = calloc(1, FEED_HEAD_BYTES + padded8(message_most(c)));
        if (c->fed == NULL)
            return false;
    }
    for (m->backlog_bytes = MEM_PAGE_BYTES; m->backlog_bytes < least;)
        m->backlog_bytes *= 2;
    m->backlog = calloc(1, m->backlog_bytes);
    return m->backlog != NULL;
}

int transfer_open(struct member *m, struct err *e)
{
    struct mem_lane_spec spec[2 * GROUP_HOSTS_MAX];
    struct mem_lane *lane[2 * GROUP_HOSTS_MAX];
    uint32_t count = 0, region = region_number(REGION_MEMBER, 0);
    m->snap_bytes = m->opt.snap_bytes ? m->opt.snap_bytes : 64 << 10;
    m->piece_bytes = (uint32_t)min_u64(STATE_PIECE_BYTES, m->snap_bytes / 4);
    m->piece = calloc(1, m->piece_bytes);
    if (m->piece == NULL || !feeds_open(m))
        return err_set(e, ERR_NOMEM, "group: no memory for a piece of a state");
    for (uint32_t h = 0; h < m->opt.hosts; h++)
        for (uint32_t way = 0; h != m->opt.me && way < 2; way++) {
            spec[count] =
                lane_spec(region, way ? h : m->opt.me, way ? m->opt.me : h, LANE_STATE, 0);
            spec[count].ctl_words = STATE_WORDS;
            spec[count].ring_bytes = m->snap_bytes;
            spec[count++].common = 1;
        }
    int rc = count ? mem_lanes_open(m->mem, spec, count, lane, e) : 0;
    count = 0;
    for (uint32_t h = 0; rc == 0 && h < m->opt.hosts; h++)
        if (h != m->opt.me) {
            m->state_in[h] = lane[count++];
            m->state_out[h] = lane[count++];
        }
    return rc;
}

/* The machine gets the end of every save and load that it has begun; others are told nothing. */
static void close_states(struct member *m)
{
    if (m->sending.active && m->sending.save)
        m->state->save_close(cell_state_ctx(m, m->sending.cell), m->sending.save);
    for (uint32_t i = 0; m->cell && i < m->opt.cells; i++) {
        if (m->cell[i].loading)
            m->state->load_close(cell_state_ctx(m, i), false);
        restore_stop(&m->cell[i]);
    }
}

void transfer_close(struct member *m)
{
    close_states(m);
    free(m->piece);
    free(m->backlog);
}
