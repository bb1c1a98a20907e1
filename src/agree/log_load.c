/* Being brought up to date, and coming back; log_snap.c has the other side.
 *
 * A replica that lost its memory has promised and accepted things it no longer knows of. It promises nothing
 * (MEM_CLOSED) until the group has committed its return on a quorum without it, it has a state from after that, and it
 * has taken on the highest promise among a quorum of the others. */
#include "agree/log_impl.h"
#include "base/grow.h"

enum {
    LOSS_PATIENCE = 20, /* times suspect_ns with too few who remember anything */
};

/* ---- which transfer ---- */

static bool is_newer(uint64_t ballot, uint64_t id, uint64_t than_ballot, uint64_t than_id)
{
    return ballot > than_ballot || (ballot == than_ballot && id > than_id);
}

/* The newest offer made to this life; n if there is none that is newer than what was taken. Only the
 * leader of our promise keeps the log from its end on; a deposed one may not know yet. */
static uint32_t newest_offer(const struct log *l)
{
    uint32_t best = l->n;
    uint64_t promised = mem_promised(l->mem, l->opt.region);
    uint64_t best_ballot = l->taking.ballot, best_id = l->taking.id;
    for (uint32_t w = 0; w < l->n; w++) {
        const struct mem_lane *lane = l->snap_in[w];
        if (w == l->me || lane->ctl == NULL)
            continue;
        uint64_t id = mem_word(lane, SNAP_ID);
        uint64_t ballot = mem_word(lane, SNAP_BALLOT);
        bool ours = mem_word(lane, SNAP_LIFE) == table_get(l->rows, l->me, ROW_LIFE);
        if (id == 0 || !ours || mem_word(lane, SNAP_ID) != id ||
            (promised != MEM_CLOSED && ballot < promised))
            continue;
        if (is_newer(ballot, id, best_ballot, best_id)) {
            best = w;
            best_ballot = ballot;
            best_id = id;
        }
    }
    return best;
}

/* A replica that believes itself up to date, and is offered a state, is not. */
void snap_notice(struct log *l)
{
    uint32_t from = newest_offer(l);
    if (from < l->n && mem_word(l->snap_in[from], SNAP_POS) > l->applied &&
        l->state == UNIT_FOLLOWER)
        log_fall_behind(l);
}

/* The state is whole, and as old as it is: what is missing comes through the log lane, if that still has it. */
static void up_to_date(struct log *l)
{
    l->taking.on = false;
    l->taking.whole = false;
    l->follow = l->n;
    l->behind = false;
    if (log_kept(l))
        keep_reset(l);
    table_set(l->rows, ROW_APPLIED, l->applied);
    table_set(l->rows, ROW_FLAGS, table_get(l->rows, l->me, ROW_FLAGS) & ~(uint64_t)ROW_BEHIND);
    table_push_row(l->rows);
    /* The row must be out before a lane is read again, so that no leader still believes that we
     * read none. */
    table_mark(l->rows);
}

/* It will not go on. With a whole state we need not begin again: a new leader may have the rest. */
static void break_off(struct log *l)
{
    struct taking *t = &l->taking;
    t->on = t->closing = false;
    table_set(l->rows, ROW_SNAP_ID, 0); /* its sender need not wait */
    table_set(l->rows, ROW_BUSY, 0);
    if (t->opened && l->opt.machine->state->load_close(l->opt.ctx, false) < 0)
        log_stop(l, "the state machine could not load its state");
    t->opened = false;
    if (t->whole)
        up_to_date(l);
    else
        table_push_row(l->rows);
}

static void accept(struct log *l, uint32_t from)
{
    struct taking *t = &l->taking;
    const struct mem_lane *lane = l->snap_in[from];
    *t = (struct taking){
        .on = true,
        .ballot = mem_word(lane, SNAP_BALLOT),
        .id = mem_word(lane, SNAP_ID),
        .from = from,
        .pos = mem_word(lane, SNAP_POS),
        .room = t->room,
    };
    if (t->room == NULL)
        t->room =
            grow("a state that is loaded", NULL, 1, max_u64(l->snap_head_bytes, l->entry_max));
    /* The words of a row land in any order. Ballot and count must be right wherever the id is seen. */
    table_set(l->rows, ROW_SNAP_ID, 0);
    table_push_row(l->rows);
    table_set(l->rows, ROW_SNAP_BALLOT, t->ballot);
    table_set(l->rows, ROW_SNAP_TAKEN, 0);
    table_push_row(l->rows);
    table_set(l->rows, ROW_SNAP_ID, t->id);
    table_push_row(l->rows);
    mem_bell(l->mem, l->opt.nodes[from]);
}

static bool is_replaced(const struct log *l)
{
    const struct taking *t = &l->taking;
    const struct mem_lane *lane = l->snap_in[t->from];
    uint64_t promised = mem_promised(l->mem, l->opt.region);
    uint64_t id = mem_word(lane, SNAP_ID); /* 0: it is being written again, or anew */
    return (id != 0 && (id != t->id || mem_word(lane, SNAP_BALLOT) != t->ballot)) ||
           (promised != MEM_CLOSED && promised > t->ballot);
}

/* ---- records ---- */

static bool record_is_good(const struct log *l)
{
    const struct taking *t = &l->taking;
    uint32_t bytes = t->record.bytes;
    switch (t->record.kind) {
    case SNAP_HEAD:
        return !t->opened && !t->whole && bytes == l->snap_head_bytes;
    case SNAP_STATE:
        return t->opened && bytes <= STATE_PIECE_BYTES;
    case SNAP_WHOLE:
        return t->opened && bytes == 0;
    case SNAP_ENTRY:
        return t->whole && bytes >= sizeof(struct entry) && bytes <= l->entry_max;
    case SNAP_END:
        return t->whole && bytes == sizeof(uint64_t);
    }
    return false;
}

static void begin_load(struct log *l)
{
    struct taking *t = &l->taking;
    uint64_t bytes;
    if (!snap_head_check(l, t->room, t->pos, &bytes)) {
        log_stop(l, "the head of a state is malformed");
        return;
    }
    snap_head_take(l, t->room);
    t->opened = true;
    if (log_kept(l))
        keep_drop_save(l); /* a state is saved or replaced, not both at once */
    if (l->opt.machine->state->load_open(l->opt.ctx, bytes) < 0)
        log_stop(l, "the state machine could not load its state");
}

/* To use what was loaded may take long: the others are told a round before. */
static void announce_close(struct log *l)
{
    l->taking.closing = true;
    table_set(l->rows, ROW_BUSY, 1);
    log_push_row(l);
}

static void finish_load(struct log *l)
{
    struct taking *t = &l->taking;
    if (!PLANTED(load_late) && l->opt.machine->state->load_close(l->opt.ctx, true) < 0)
        log_stop(l, "the state machine could not load its state");
    t->closing = t->opened = false;
    t->whole = true;
    l->applied = t->pos;
    l->follow = l->n;
    l->count.snapshots_loaded++;
}

/* False: it cannot be applied now. */
static bool take_entry(struct log *l)
{
    struct taking *t = &l->taking;
    const struct entry *e = entry_at(t->room);
    if (e->pos != l->applied || e->bytes > l->opt.payload_max ||
        entry_size(e->bytes) != t->record.bytes) {
        log_stop(l, "a decided entry is missing behind a state");
        return true;
    }
    return log_apply(l, e);
}

static void take_end(struct log *l)
{
    uint64_t pos;
    memcpy(&pos, l->taking.room, sizeof(pos));
    if (PLANTED(load_late))
        l->opt.machine->state->load_close(l->opt.ctx, true);
    if (pos != l->applied)
        log_stop(l, "entries are missing at the end of a transfer");
    else
        up_to_date(l);
}

/* What a record that is complete says; false: not now. */
static bool record_done(struct log *l)
{
    switch (l->taking.record.kind) {
    case SNAP_HEAD:
        begin_load(l);
        return true;
    case SNAP_WHOLE:
        announce_close(l);
        return true;
    case SNAP_ENTRY:
        return take_entry(l);
    case SNAP_END:
        take_end(l);
        return true;
    }
    return true;
}

static uint64_t record_left(const struct taking *t)
{
    return padded(t->record.bytes) - t->got;
}

/* Bytes of a record that stand in one piece: to the machine, or to where it is put together. */
static void take_bytes(struct log *l, const unsigned char *at, uint64_t bytes)
{
    struct taking *t = &l->taking;
    uint64_t real = t->record.bytes - min_u64(t->got, t->record.bytes);
    real = min_u64(real, bytes); /* the rest is padding */
    if (t->record.kind != SNAP_STATE)
        memcpy(t->room + t->got, at, real);
    else if (real > 0 && l->opt.machine->state->load_next(l->opt.ctx, at, (uint32_t)real) < 0)
        log_stop(l, "the state machine could not load its state");
    t->got += bytes;
    t->bytes += bytes;
}

/* Takes up to a piece's worth; false: nothing could be. */
static bool take_piece(struct log *l, const struct mem_lane *lane, uint64_t guard)
{
    struct taking *t = &l->taking;
    uint64_t most = t->bytes + snap_piece_bytes(l);
    bool any = false;
    while (t->on && !t->closing && !l->broken) {
        const unsigned char *at = lane->ring + (t->bytes & (l->opt.snap_bytes - 1));
        if (!t->in_record) {
            if (t->bytes >= min_u64(guard, most))
                break;
            memcpy(&t->record, at, sizeof(t->record));
            t->in_record = true;
            t->got = 0;
            t->bytes += sizeof(t->record);
            if (!record_is_good(l))
                log_stop(l, "a state is malformed");
        } else if (record_left(t) > 0) {
            uint64_t bytes = min_u64(record_left(t), ring_straight(l->opt.snap_bytes, t->bytes));
            bytes = min_u64(bytes, min_u64(guard, max_u64(most, t->bytes)) - t->bytes);
            if (bytes == 0)
                break;
            take_bytes(l, at, bytes);
        } else {
            if (!record_done(l))
                break;
            t->in_record = false;
        }
        any = true;
    }
    return any;
}

/* Takes what is there, as much as the round allows; returns work done, or left. */
static int take_pieces(struct log *l)
{
    struct taking *t = &l->taking;
    const struct mem_lane *lane = l->snap_in[t->from];
    uint64_t guard = mem_word(lane, SNAP_GUARD), before = t->bytes;
    uint32_t from = t->from;
    if (mem_word(lane, SNAP_ID) != t->id || guard > t->bytes + l->opt.snap_bytes)
        return 0;
    bool any = true, more = true;
    while (any && t->on && !t->closing && !l->broken &&
           (t->bytes < guard || (t->in_record && record_left(t) == 0)) &&
           (more = snap_budget_take(l)))
        any = take_piece(l, lane, guard);
    if (t->bytes == before)
        return !more;
    table_set(l->rows, ROW_SNAP_TAKEN, t->bytes);
    table_tell(l->rows, from, ROW_SNAP_TAKEN);
    mem_bell(l->mem, l->opt.nodes[from]);
    return 1;
}

int snap_take(struct log *l)
{
    struct taking *t = &l->taking;
    uint32_t from = newest_offer(l);
    if (t->on && (from < l->n || is_replaced(l))) {
        break_off(l);
        return 1;
    }
    if (from < l->n) {
        accept(l, from);
        return 1;
    }
    if (!t->on)
        return 0;
    if (t->closing) {
        if (snap_budget_take(l))
            finish_load(l);
        return 1;
    }
    snap_not_busy(l);
    return take_pieces(l);
}

/* ---- joining ---- */

/* So many have lost their memory that no quorum is left to take anybody back; or all have come again, and the states were in
 * the processes that ended: this will not mend. */
static bool is_lost(const struct log *l)
{
    if (has_memories(l))
        return table_count(l->rows, ROW_FLAGS, TABLE_ALL, ROW_BEHIND) == l->n && !l->taking.on;
    uint32_t joining = table_count(l->rows, ROW_FLAGS, TABLE_ALL, ROW_JOINING);
    uint32_t behind = table_count(l->rows, ROW_FLAGS, TABLE_ALL, ROW_BEHIND);
    return l->n - joining < l->quorum || (behind == l->n && !l->taking.on && !log_kept(l));
}

void look_for_loss(struct log *l)
{
    if (!is_lost(l) || l->mem->unsettled)
        l->loss_ns = 0, l->stands = false;
    else if (l->loss_ns == 0)
        l->loss_ns = l->now_ns;
    else if (l->now_ns - l->loss_ns > LOSS_PATIENCE * l->opt.suspect_ns) {
        if (log_kept(l)) { /* a disk that is only away may still have it */
            l->stands = true;
            return;
        }
        l->lost = true;
        log_stop(
            l, "the memory of a majority of the group is lost, and with it what the group had; to "
               "begin anew with nothing, stop all hosts of the cluster, those of other groups "
               "too, and start them again");
    }
}

/* All who held anything have left in order: there is nothing that we could have promised against. */
static void begin_anew(struct log *l)
{
    mem_region_grant(l->mem, l->opt.region, 0);
    l->behind = false;
    table_set(l->rows, ROW_FLAGS, 0);
    log_move(l, UNIT_FOLLOWER);
}

/* Who does not vote has nothing to come back to: it takes on the highest promise of a quorum, so that no ballot of an
 * earlier life is used again. Who votes, too:
 * with state from after the return, take on the highest promise of a quorum of the others. That state need not be
 * the last one: it is done while entries behind it still come, so that nobody has to wait for it at the end. */
int join_step(struct log *l)
{
    if (l->keep.is_filling)
        return restore_filled(l);
    /* Unless somebody is bringing us a state: then there is a group to come back to. */
    if (l->mem->anew && l->behind && !l->taking.on && l->taking.bytes == 0) {
        begin_anew(l);
        return 1;
    }
    look_for_loss(l);
    if (has_vote(l, l->me) && l->behind && !l->taking.whole)
        return 0;
    if (has_vote(l, l->me) && l->joined[l->me] < l->mem->life) {
        if (l->behind)
            return 0;       /* the return is among the entries that come */
        log_fall_behind(l); /* that state was from before the return */
        return 1;
    }
    uint32_t answered = 0;
    uint64_t highest = 0;
    for (uint32_t q = l->voters; q < l->all; q++) {
        if (q == l->me)
            continue;
        bool again = l->peek[q].status == MEM_LOST ||
                     (l->peek[q].status == MEM_DONE && l->peek[q].value == MEM_CLOSED);
        if (!l->peeking || again)
            mem_peek(l->mem, &l->peek[q], l->opt.nodes[q], l->opt.region);
        if (l->peek[q].status == MEM_DONE && l->peek[q].value != MEM_CLOSED) {
            answered++;
            highest = max_u64(highest, l->peek[q].value);
        }
    }
    l->peeking = true;
    if (answered < l->quorum || (log_kept(l) && !restore_may_grant(l, highest)))
        return 0;
    mem_region_grant(l->mem, l->opt.region, highest);
    table_set(l->rows, ROW_FLAGS, table_get(l->rows, l->me, ROW_FLAGS) & ~(uint64_t)ROW_JOINING);
    log_move(l, UNIT_FOLLOWER);
    return 1;
}
