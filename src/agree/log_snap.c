/* Bringing a replica up to date, as leader.
 *
 * A leader offers a transfer to a replica that has no state (a new life) or that lacks entries which nobody holds any
 * more. The offer stands in the replica's snapshot lane; by showing it in its row the replica says that it has stopped
 * reading log lanes and is taking it. Records then flow through the lane's ring, paced by the row:
 *
 *      HEAD   | magic | position | bytes of the state | replicas | sources | joined[replicas] | (taken, life)[sources] |
 *      STATE  pieces of the machine's state, frozen at that position; then WHOLE
 *      ENTRY  what was decided since, one by one
 *      END    from here on the log lane is read
 *
 * What is applied here while the transfer lasts goes into a private backlog, and from there into the stream: the log
 * ring is not held for it. Only when the backlog is nearly empty, the ring is held from the next entry on, for as long
 * as it takes the replica to read END and go over to its lane. So that the backlog does get empty, the sources are
 * slowed: not while the state is sent, unless the backlog reaches its maximum, but afterwards, when what is taken
 * from them must stay below half of what the stream carries.
 *
 * A transfer whose connection is lost goes on where it was: what was not taken is written again. It is given up if the
 * replica begins another life or is not heard of for too long; not while it shows signs of life. */
#include "agree/log_impl.h"
#include "base/grow.h"
#include "lane/stream.h"

#define SNAP_MAGIC UINT64_C(0x74726d736e617032)

enum {
    SNAP_PATIENCE = 4, /* times detach_ns without a sign of life, */
    SLOW_PATIENCE = 2, /* or without a byte taken while the sources wait */
    LAST_PART = 8,     /* of the log: with so little in the backlog the ring is held for the rest */
    CEILING_PER_SENT = 2, /* so many bytes of entries are sent for one that is taken from sources */
};

uint32_t snap_head_size(const struct log_options *o)
{
    return (SNAP_HEAD_WORDS + o->replicas + o->memories + 2 * (o->sources + o->streams)) * 8;
}

/* The same of a state as it was saved, if there are no sources. */
uint32_t snap_head_bytes(const void *head, uint64_t bytes)
{
    uint64_t w[SNAP_HEAD_WORDS];
    if (bytes < sizeof(w))
        return 0;
    memcpy(w, head, sizeof(w));
    uint64_t members = (w[3] & UINT32_MAX) + (w[3] >> 32), size = (SNAP_HEAD_WORDS + members) * 8;
    return w[0] == SNAP_MAGIC && w[4] == 0 && size <= bytes ? (uint32_t)size : 0;
}

uint32_t snap_piece_bytes(const struct log *l)
{
    return (uint32_t)min_u64(STATE_PIECE_BYTES, l->opt.snap_bytes / 4);
}

bool snap_budget_take(struct log *l)
{
    struct log_budget *b = l->budget;
    if (b->pieces == 0)
        return false;
    b->pieces--;
    b->called_ns = l->now_ns;
    return true;
}

/* A round after the call that was announced. */
void snap_not_busy(struct log *l)
{
    if (table_get(l->rows, l->me, ROW_BUSY) == 0)
        return;
    /* A sign of life first: who is not busy any more, and was silent for as long, counts as hung. Only what a disk is for may end in
     * the half of a round that gives none. */
    if (log_kept(l)) {
        table_set(l->rows, ROW_BEAT, ++l->beat);
        table_push_row(l->rows);
    }
    table_set(l->rows, ROW_BUSY, 0);
    table_push_row(l->rows);
}

/* ---- beginning and ending ---- */

/* Where the bytes of a new record belong, behind what is staged. */
static unsigned char *stage_record(struct sending *s, enum snap_kind kind, uint32_t bytes)
{
    struct snap_record head = {.kind = kind, .bytes = bytes};
    unsigned char *at = s->stage + s->staged;
    memcpy(at, &head, sizeof(head));
    s->staged += sizeof(head) + padded(bytes);
    if (bytes & 7)
        memset(at + sizeof(head) + bytes, 0, 8 - (bytes & 7));
    return at + sizeof(head);
}

/* How many members of each kind there are. */
static uint64_t members_word(const struct log *l)
{
    return l->n | (uint64_t)(l->all - l->n) << 32;
}

/* Of the state as it is now. */
void snap_head_write(const struct log *l, unsigned char *to, uint64_t state_bytes)
{
    uint64_t *w = (uint64_t *)(void *)to;
    *w++ = SNAP_MAGIC;
    *w++ = l->applied;
    *w++ = state_bytes;
    *w++ = members_word(l);
    *w++ = l->sources;
    for (uint32_t q = 0; q < l->all; q++)
        *w++ = l->joined[q];
    for (uint32_t s = 0; s < l->sources; s++) {
        *w++ = PLANTED(snap_no_sources) ? stream_start() : l->source[s].taken;
        *w++ = l->source[s].life;
    }
}

static void stage_head(struct log *l, uint64_t state_bytes)
{
    snap_head_write(l, stage_record(&l->sending, SNAP_HEAD, l->snap_head_bytes), state_bytes);
}

bool snap_head_check(const struct log *l, const void *head, uint64_t pos, uint64_t *state_bytes)
{
    const uint64_t *w = head;
    *state_bytes = w[2];
    return w[0] == SNAP_MAGIC && w[1] == pos && w[3] == members_word(l) && w[4] == l->sources;
}

void snap_head_take(struct log *l, const void *head)
{
    const uint64_t *w = (const uint64_t *)head + SNAP_HEAD_WORDS;
    for (uint32_t q = 0; q < l->all; q++)
        l->joined[q] = (uint32_t)*w++;
    for (uint32_t s = 0; s < l->sources; s++, w += 2)
        log_source_load(&l->source[s], w[0], w[1]);
}

static void save_end(struct log *l)
{
    struct sending *s = &l->sending;
    if (s->save)
        l->opt.machine->state->save_close(l->opt.ctx, s->save);
    s->save = NULL;
}

static void sending_end(struct log *l)
{
    struct sending *s = &l->sending;
    save_end(l);
    backlog_clear(&s->backlog);
    grow_free(s->ring);
    grow_free(s->stage);
    *s = (struct sending){0};
    l->snap_to = l->n;
    table_set(l->rows, ROW_BUSY, 0);
}

void snap_abort(struct log *l)
{
    if (l->snap_to >= l->n)
        return;
    uint32_t q = l->snap_to;
    struct peer *p = &l->peer[q];
    sending_end(l);
    p->hold = UINT64_MAX;
    /* It may have come to the end all the same and read on from there, and nothing keeps that part of the
     * log any more: write to it only after another look at its row. And if it did not take the offer because it
     * has promised somebody else, another raise tells. */
    if (p->phase == PEER_LIVE)
        peer_down(l, q, l->now_ns + l->opt.heartbeat_ns);
}

/* ID 0 first and ID last: whoever sees the id sees the words that go with it. */
static void offer_write(struct log *l, uint32_t q, uint64_t pos)
{
    struct mem_flow *flow = table_flow(l->rows, q);
    const struct sending *s = &l->sending;
    mem_set1(l->mem, flow, l->snap_out[q], SNAP_ID, 0);
    uint64_t words[] = {l->ballot, s->life, pos, 0};
    mem_set(l->mem, flow, l->snap_out[q], SNAP_BALLOT, words, 4);
    mem_set1(l->mem, flow, l->snap_out[q], SNAP_ID, s->id);
    mem_bell(l->mem, l->opt.nodes[q]);
}

/* True if the replica can be brought up to date now. One that lost its memory is first taken back by an entry
 * of the log. */
static bool wants_snapshot(struct log *l, uint32_t q)
{
    struct peer *p = &l->peer[q];
    uint64_t flags = table_get(l->rows, q, ROW_FLAGS);
    bool stale = p->phase == PEER_READY && lead_row_is_new(l, q) && lead_too_old(l, q);
    if (!(flags & ROW_BEHIND || stale) || !table_reaches(l->rows, q))
        return false;
    /* It has nothing to go on from: what is held for a life that took a snapshot and ended keeps the log from
     * growing, by the very entry that would take this one back, too. */
    if (flags & ROW_BEHIND)
        p->hold = UINT64_MAX;
    if (oracle_silent(&l->oracle, q, l->now_ns) || mem_dead(l->mem, l->opt.nodes[q]) ||
        room_keeps_out(l, q))
        return false;
    if (p->phase == PEER_LIVE && l->applied < p->start)
        return false; /* it could not go on from there */
    if (!(flags & ROW_JOINING))
        return true;
    /* Its disk counts again with a snapshot, and of what a group begins with there is none. */
    if (!has_vote(l, q))
        return l->applied > 0 || !log_kept(l);
    uint32_t life = (uint32_t)table_get(l->rows, q, ROW_LIFE);
    if (l->joined[q] + 1 >= life)
        return true;
    if (l->serving && l->state == UNIT_LEADER && l->join_asked[q] != life) {
        struct entry_join j = {.rank = q, .life = life - 1};
        if (lead_propose(l, ENTRY_JOIN, &j, sizeof(j)))
            l->join_asked[q] = life;
    }
    return false;
}

/* Freezing should be quick, and may not be: the others are told a round before. */
static int ask(struct log *l)
{
    if (l->keep.save != NULL || l->keep.save_asked > 0)
        return 0; /* a machine has one save open */
    for (uint32_t q = 0; q < l->n; q++)
        if (q != l->me && !peer_is_well(l, q) && wants_snapshot(l, q)) {
            l->snap_to = q;
            l->sending = (struct sending){.step = SEND_ASK,
                                          .ceiling = l->opt.backlog_bytes,
                                          .losses = table_losses(l->rows, q)};
            table_set(l->rows, ROW_BUSY, 1);
            log_push_row(l);
            return 1;
        }
    return 0;
}

/* Who lost its memory is not written to, whatever we have heard of that: it must be let in anew, and in time. */
static void forget_lost(struct log *l, uint32_t q)
{
    if (l->peer[q].phase == PEER_LIVE && table_get(l->rows, q, ROW_FLAGS) & ROW_JOINING)
        peer_down(l, q, l->now_ns);
}

static int freeze(struct log *l)
{
    struct sending *s = &l->sending;
    uint32_t q = l->snap_to;
    /* Before the rest of its row is looked at: if another life begins meanwhile, the offer is not to that. */
    s->life = table_get(l->rows, q, ROW_LIFE);
    if (!wants_snapshot(l, q)) {
        sending_end(l);
        return 1;
    }
    if (l->keep.save != NULL || !state_save_ready(l->opt.machine->state, l->opt.ctx) ||
        !snap_budget_take(l))
        return 1;
    uint64_t bytes = STATE_UNKNOWN;
    uint64_t most = max_u64(max_u64(l->snap_head_bytes, snap_piece_bytes(l)), l->entry_max);
    backlog_clear(&s->backlog);
    s->save = l->opt.machine->state->save_open(l->opt.ctx, &bytes);
    l->count.saves++;
    if (s->save == NULL) {
        log_stop(l, "the state machine could not save its state");
        return 1;
    }
    s->step = SEND_STATE;
    s->id = ++l->snap_count;
    s->moved_ns = s->heard_ns = s->looked_ns = l->now_ns;
    s->ring = grow("a state that is sent", NULL, 1, l->opt.snap_bytes);
    s->stage = grow("a state that is sent", NULL, 1, most + 4 * sizeof(struct snap_record));
    s->next = s->pos = l->applied;
    stage_head(l, bytes);
    forget_lost(l, q);
    offer_write(l, q, s->pos);
    return 1;
}

/* ---- the stream ---- */

static void stage_state(struct log *l)
{
    struct sending *s = &l->sending;
    uint32_t room = snap_piece_bytes(l) - (uint32_t)sizeof(struct snap_record);
    unsigned char *at = s->stage + sizeof(struct snap_record);
    int bytes = l->opt.machine->state->save_next(l->opt.ctx, s->save, at, room);
    if (bytes < 0 || (uint32_t)bytes > room) {
        log_stop(l, "the state machine could not save its state");
    } else if (bytes > 0) {
        stage_record(s, SNAP_STATE, (uint32_t)bytes);
    } else {
        save_end(l);
        stage_record(s, SNAP_WHOLE, 0);
        s->step = SEND_ENTRIES;
        s->ceiling = min_u64(s->ceiling, s->backlog.bytes);
    }
}

/* So little is left that the ring can be held for it, and has it. After a loss of power much may be decided that nobody knows to be,
 * a ring of it: who has recovered that, and writes no more before a quorum has it, needs no more room than it found. */
static bool near_the_end(const struct log *l)
{
    const struct sending *s = &l->sending;
    uint64_t slack = log_kept(l) && l->state == UNIT_SYNC ? l->put_max : 2 * l->put_max;
    return s->backlog.bytes <= l->opt.log_bytes / LAST_PART && s->next >= l->base &&
           l->tail + slack <= s->next + l->opt.log_bytes;
}

static void stage_entries(struct log *l)
{
    struct sending *s = &l->sending;
    const struct entry *e;
    if (PLANTED(backlog_gap))
        planted_backlog_gap(s);
    while ((e = backlog_first(&s->backlog)) != NULL) {
        uint64_t size = entry_size(e->bytes);
        if (s->staged > 0 && s->staged + sizeof(struct snap_record) + size > snap_piece_bytes(l))
            break;
        memcpy(stage_record(s, SNAP_ENTRY, (uint32_t)size), e, size);
        s->next += size;
        s->ceiling -= min_u64(s->ceiling, size / CEILING_PER_SENT);
        backlog_pop(&s->backlog);
    }
    s->ceiling = max_u64(s->ceiling, l->opt.log_bytes / LAST_PART / 2);
    if (!near_the_end(l))
        return;
    memcpy(stage_record(s, SNAP_END, sizeof(s->next)), &s->next, sizeof(s->next));
    if (!PLANTED(hold_none))
        l->peer[l->snap_to].hold = s->next;
    l->peer[l->snap_to].given = s->next;
    s->step = SEND_END;
    backlog_clear(&s->backlog);
}

/* The next records, if there are any. */
static void stage_more(struct log *l)
{
    struct sending *s = &l->sending;
    s->put = s->staged = 0;
    if (s->step == SEND_STATE)
        stage_state(l);
    else if (s->step == SEND_ENTRIES)
        stage_entries(l);
}

/* Writes as much as the lane has room for and the round allows; returns whether there was anything to do. */
static int send_more(struct log *l, uint32_t q)
{
    struct sending *s = &l->sending;
    struct mem_flow *flow = table_flow(l->rows, q);
    uint64_t before = s->sent;
    bool more = true;
    while (!l->broken && s->sent < s->taken + l->opt.snap_bytes) {
        if (s->put == s->staged) {
            if (s->step == SEND_END || (more = snap_budget_take(l)) == false)
                break;
            stage_more(l);
        }
        uint64_t room = s->taken + l->opt.snap_bytes - s->sent;
        uint64_t bytes = min_u64(room, s->staged - s->put);
        if (bytes == 0)
            break;
        ring_write(s->ring, l->opt.snap_bytes, s->sent, s->stage + s->put, bytes);
        mem_put(l->mem, flow, l->snap_out[q], s->sent, s->stage + s->put, (uint32_t)bytes);
        s->sent += bytes;
        s->put += bytes;
    }
    if (s->sent == before)
        return !more;
    mem_set1(l->mem, flow, l->snap_out[q], SNAP_GUARD, s->sent);
    mem_bell(l->mem, l->opt.nodes[q]);
    return 1;
}

static bool is_shown(const struct log *l, uint32_t q)
{
    return table_get(l->rows, q, ROW_SNAP_ID) == l->sending.id &&
           table_get(l->rows, q, ROW_SNAP_BALLOT) == l->ballot;
}

/* The connection was lost: what was not taken may not have come, in whole or in part. The same bytes again do no
 * harm where they are being read. */
static void send_again(struct log *l, uint32_t q)
{
    struct sending *s = &l->sending;
    struct mem_flow *flow = table_flow(l->rows, q);
    s->rewrite = false;
    if (!is_shown(l, q))
        offer_write(l, q, s->pos);
    uint64_t from = PLANTED(resume_behind) ? s->sent : s->taken;
    stream_put(l->mem, flow, l->snap_out[q], s->ring, from, s->sent);
    if (s->sent > 0)
        mem_set1(l->mem, flow, l->snap_out[q], SNAP_GUARD, s->sent);
    mem_set1(l->mem, flow, l->snap_out[q], SNAP_ID,
             s->id); /* an offer may have got stuck half-way */
}

/* ---- following it ---- */

static bool has_ended(const struct log *l, uint32_t q)
{
    const struct sending *s = &l->sending;
    return s->step == SEND_END && s->put == s->staged && s->taken == s->sent &&
           !(table_get(l->rows, q, ROW_FLAGS) & ROW_BEHIND);
}

/* From here on its own row says what it needs; one that still has to be let in keeps its hold until then. */
static void end(struct log *l, uint32_t q)
{
    struct peer *p = &l->peer[q];
    l->count.snapshots_sent++;
    sending_end(l);
    if (p->phase == PEER_LIVE)
        p->hold = UINT64_MAX;
    p->retry_ns = l->now_ns; /* at once: the log fills up behind what is held for it */
}

/* It takes nothing, or nobody hears it, and the sources wait for that. Then it is detached as one is that is in the way
 * of the log. */
static bool is_in_the_way(struct log *l, bool heard)
{
    struct sending *s = &l->sending;
    if (!snap_slows(l)) {
        s->slows_ns = 0;
        return false;
    }
    if (s->slows_ns == 0)
        s->slows_ns = l->now_ns;
    return !heard ||
           l->now_ns - max_u64(s->moved_ns, s->slows_ns) > SLOW_PATIENCE * l->opt.detach_ns;
}

/* Ends a transfer that does not get on. */
static void look_after(struct log *l, uint32_t q)
{
    struct sending *s = &l->sending;
    uint64_t patience = SNAP_PATIENCE * l->opt.detach_ns;
    bool heard = !oracle_silent(&l->oracle, q, l->now_ns) && !mem_dead(l->mem, l->opt.nodes[q]);
    if (heard)
        s->heard_ns = l->now_ns;
    if (heard && table_get(l->rows, q, ROW_BUSY) != 0)
        s->moved_ns = l->now_ns; /* it has said so */
    /* A life that began meanwhile knows nothing of an offer to the one before. */
    if (table_get(l->rows, q, ROW_LIFE) != s->life ||
        (!is_shown(l, q) && l->now_ns - s->moved_ns > patience) ||
        l->now_ns - max_u64(s->heard_ns, s->moved_ns) > patience)
        snap_abort(l);
    else if (is_in_the_way(l, heard))
        room_detach(l, q);
}

/* Who was away himself, in a call of his machine or for want of a processor, has heard nobody meanwhile. */
static void forgive_absence(struct log *l)
{
    struct sending *s = &l->sending;
    uint64_t away = l->now_ns - s->looked_ns;
    s->looked_ns = l->now_ns;
    if (away < l->opt.detach_ns / 2)
        return;
    s->moved_ns += away;
    s->heard_ns += away;
    s->slows_ns += s->slows_ns ? away : 0;
}

int snap_send(struct log *l)
{
    if (l->snap_to >= l->n)
        return ask(l);
    struct sending *s = &l->sending;
    uint32_t q = l->snap_to;
    int work = 0;
    if (s->step == SEND_ASK)
        return freeze(l);
    forgive_absence(l);
    snap_not_busy(l);
    if (!table_reaches(l->rows, q) || table_losses(l->rows, q) != s->losses)
        s->rewrite = true;
    s->losses = table_losses(l->rows, q);
    if (s->rewrite && table_reaches(l->rows, q))
        send_again(l, q);
    if (is_shown(l, q)) {
        uint64_t taken = table_get(l->rows, q, ROW_SNAP_TAKEN);
        if (taken > s->taken && taken <= s->sent) {
            s->taken = taken;
            s->moved_ns = l->now_ns;
        }
        if (has_ended(l, q)) {
            end(l, q);
            return 1;
        }
        if (!s->rewrite)
            work = send_more(l, q);
    }
    if (!l->broken)
        look_after(l, q);
    return work;
}
