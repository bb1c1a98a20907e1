#include "group/impl.h"

#include <stdlib.h>

/* States for members that have none. In each cell the first of those who have its state when the view begins is the *donor*: it sends a
 * copy to the others, one after the other, through its STATE lane.
 *
 *      | bytes 8 | number 8, size 8 | bytes 8 | piece, padded ... | ... | 0 |
 *
 * The copy is of the donor's state in the view, and says up to which number; the joiner passes over the numbers below. The ring is paced by the
 * joiner's CELL_TAKEN. All of it is void when the view ends, and begins anew in the next. */

enum { STATE_HEAD = 8, STATE_FIRST = 16 };

static uint64_t state_id(uint64_t vid, uint32_t cell, uint32_t joiner)
{
    return stamp(vid, (uint64_t)cell << 16 | (uint64_t)joiner << 8 | 1);
}

static uint64_t padded8(uint64_t bytes)
{
    return (bytes + 7) & ~UINT64_C(7);
}

static void *state_ctx(const struct member *m, uint32_t cell)
{
    return m->opt.machine->state_ctx ? m->opt.machine->state_ctx(m->opt.ctx, cell) : m->opt.ctx;
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

static uint64_t taken_of(const struct member *m)
{
    const struct sending *s = &m->sending;
    return cell_count(&m->cell[s->cell], s->joiner, CELL_TAKEN);
}

static bool has_room(const struct member *m, uint64_t bytes)
{
    const struct sending *s = &m->sending;
    return s->end + STATE_HEAD + padded8(bytes) <= s->base + taken_of(m) + m->snap_bytes;
}

static void stop_sending(struct member *m)
{
    struct sending *s = &m->sending;
    if (!s->active)
        return;
    if (s->save)
        m->opt.machine->state->save_close(state_ctx(m, s->cell), s->save);
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
    tell_word(m, STATE_ID, state_id(s->vid, s->cell, s->joiner));
}

static bool start_sending(struct member *m, uint32_t cell, uint32_t joiner)
{
    struct sending *s = &m->sending;
    const struct state_ops *ops = m->opt.machine->state;
    uint64_t first[2] = {m->cell[cell].number_at, STATE_UNKNOWN};
    void *ctx = state_ctx(m, cell);
    if (!state_save_ready(ops, ctx) || !spend(m))
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
                          .vid = m->view->vid,
                          .save = save,
                          .base = s->end,
                          .end = s->end,
                          .flow = s->flow};
    if (!m->mem->shared)
        mem_flow_open(m->mem, &s->flow, joiner, region_number(REGION_MEMBER, 0), 0);
    announce(m);
    add(m, first, STATE_FIRST);
    m->count.states_sent++;
    return true;
}

/* The next member that waits for a state of ours. */
static bool find_joiner(struct member *m)
{
    for (uint32_t i = 0; i < m->opt.cells; i++) {
        const struct cell *c = &m->cell[i];
        uint64_t donors = m->view->cell[i].stateful;
        if (!c->in || !c->has_state || c->number_at < c->skip_to || donors == 0 ||
            set_first(donors) != m->opt.me)
            continue;
        for (uint64_t rest = c->members & ~donors; rest; rest = set_rest(rest))
            if (cell_count(c, set_first(rest), CELL_STATE) == WANTS_STATE)
                return start_sending(m, i, set_first(rest));
    }
    return false;
}

static int send_pieces(struct member *m)
{
    struct sending *s = &m->sending;
    const struct state_ops *ops = m->opt.machine->state;
    int work = 0;
    while (!s->saved && has_room(m, m->piece_bytes) && spend(m)) {
        int bytes = ops->save_next(state_ctx(m, s->cell), s->save, m->piece, m->piece_bytes);
        if (bytes < 0) {
            member_stop(m, "the machine cannot save its state");
            return work;
        }
        add(m, m->piece, (uint64_t)bytes);
        s->saved = bytes == 0;
        work++;
    }
    return work;
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
    put_out_bytes(m, s->base + taken_of(m), s->end);
    announce(m);
}

int transfer_post(struct member *m)
{
    struct sending *s = &m->sending;
    if (m->opt.machine->state == NULL || m->phase != MEMBER_OPEN || m->opt.hosts == 1)
        return 0;
    if (!s->active)
        return find_joiner(m);
    resend(m);
    int work = send_pieces(m);
    if (work)
        mem_bell_later(m->mem, s->joiner);
    if (cell_count(&m->cell[s->cell], s->joiner, CELL_STATE) == HAS_STATE)
        stop_sending(m);
    return work;
}

/* ---- taking ---- */

static int load_first(struct member *m, struct cell *c)
{
    uint64_t first[2];
    memcpy(first, m->piece, sizeof(first));
    c->load_number = first[0];
    c->loading = true;
    return m->opt.machine->state->load_open(state_ctx(m, c->number), first[1]);
}

static int load_last(struct member *m, struct cell *c)
{
    c->loading = false;
    c->has_state = true;
    c->skip_to = c->load_number;
    m->count.states_loaded++;
    cell_set(c, CELL_STATE, stamp(m->view->vid, HAS_STATE));
    return m->opt.machine->state->load_close(state_ctx(m, c->number), true);
}

static int load_piece(struct member *m, struct cell *c, uint64_t bytes)
{
    if (!c->loading)
        return bytes == STATE_FIRST ? load_first(m, c) : ERR_CORRUPT;
    if (bytes == 0)
        return load_last(m, c);
    return m->opt.machine->state->load_next(state_ctx(m, c->number), m->piece, (uint32_t)bytes);
}

/* Copies the next piece, if it is there and the transfer is still ours afterwards. Negative: there is none. */
static int64_t next_piece(struct member *m, const struct cell *c, const struct mem_lane *lane)
{
    uint64_t id = state_id(m->view->vid, c->number, m->opt.me), bytes;
    if (mem_word(lane, STATE_ID) != id)
        return -1;
    uint64_t from = mem_word(lane, STATE_BASE) + c->load_taken, guard = mem_word(lane, STATE_GUARD);
    if (from + STATE_HEAD > guard)
        return -1;
    ring_read(lane->ring, m->snap_bytes, from, &bytes, 8);
    if (bytes > m->piece_bytes || from + STATE_HEAD + padded8(bytes) > guard)
        return -1;
    ring_read(lane->ring, m->snap_bytes, from + STATE_HEAD, m->piece, bytes);
    atomic_thread_fence(memory_order_acquire);
    return mem_word(lane, STATE_ID) == id ? (int64_t)bytes : -1;
}

static int take(struct member *m, struct cell *c)
{
    uint64_t donors = m->view->cell[c->number].stateful & ~set_of(m->opt.me);
    if (donors == 0)
        return 0;
    struct mem_lane *lane = m->state_in[set_first(donors)];
    mem_lane_next(m->mem, lane);
    int work = 0;
    for (int64_t bytes; lane->ctl && !c->has_state && m->budget->pieces > 0 &&
                        (bytes = next_piece(m, c, lane)) >= 0;
         work++) {
        spend(m);
        if (load_piece(m, c, (uint64_t)bytes) < 0) {
            member_stop(m, "the machine cannot load the state that it was sent");
            return work;
        }
        c->load_taken += STATE_HEAD + padded8((uint64_t)bytes);
        cell_set(c, CELL_TAKEN, stamp(m->view->vid, c->load_taken));
    }
    return work;
}

int transfer_settle(struct member *m)
{
    int work = 0;
    for (uint32_t i = 0; m->opt.machine->state && m->phase == MEMBER_OPEN && i < m->opt.cells; i++)
        if (m->cell[i].in && !m->cell[i].has_state)
            work += take(m, &m->cell[i]);
    return work;
}

void transfer_end(struct member *m)
{
    stop_sending(m);
    for (uint32_t i = 0; i < m->opt.cells; i++) {
        struct cell *c = &m->cell[i];
        if (c->loading)
            m->opt.machine->state->load_close(state_ctx(m, i), false);
        c->loading = false;
        c->load_taken = 0;
    }
}

/* ---- opening ---- */

int transfer_open(struct member *m, struct err *e)
{
    struct mem_lane_spec spec[2 * GROUP_HOSTS_MAX];
    struct mem_lane *lane[2 * GROUP_HOSTS_MAX];
    uint32_t count = 0, region = region_number(REGION_MEMBER, 0);
    m->snap_bytes = m->opt.snap_bytes ? m->opt.snap_bytes : 64 << 10;
    m->piece_bytes = (uint32_t)min_u64(STATE_PIECE_BYTES, m->snap_bytes / 4);
    m->piece = calloc(1, m->piece_bytes);
    if (m->piece == NULL)
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

void transfer_close(struct member *m)
{
    free(m->piece);
}
