/* A replica's round: what it does in each state, its row, and applying what is decided. */
#include "agree/log_impl.h"

enum { ALONE_PER_HEARTBEAT = 16 }; /* a commit waits so long for a batch, where it is a message */

/* The legal moves of a replica, masks of enum unit_role; everything else is a mistake of ours. */
static const unsigned moves[] = {
    [UNIT_JOINING] = 1u << UNIT_FOLLOWER,
    [UNIT_FOLLOWER] = 1u << UNIT_CANDIDATE,
    [UNIT_CANDIDATE] = 1u << UNIT_FOLLOWER | 1u << UNIT_SYNC,
    [UNIT_SYNC] = 1u << UNIT_FOLLOWER | 1u << UNIT_LEADER,
    [UNIT_LEADER] = 1u << UNIT_FOLLOWER,
};

void log_stop(struct log *l, const char *why)
{
    if (l->broken == NULL)
        l->broken = why;
}

/* What every move must leave behind. */
static void check_move(const struct log *l)
{
    CHECK((l->ballot != 0) == (l->state == UNIT_CANDIDATE || log_leading(l)));
    CHECK(l->ballot == 0 || l->ballot % l->n == l->me);
    CHECK(!log_leading(l) || l->commit <= l->tail);
}

/* What no memory or follower that is right makes a leader see. (log_check has the rules that cost more.) */
static inline void check_positions(struct log *l)
{
    if (l->commit > l->tail)
        log_stop(l, "more is committed than was written");
    /* Deposed meanwhile, it may have applied what another leader wrote. */
    if (l->applied > l->tail && mem_promised(l->mem, l->opt.region) == l->ballot)
        log_stop(l, "more is applied than was written");
}

void log_move(struct log *l, enum unit_role to)
{
    CHECK(moves[l->state] & 1u << to);
    l->state = to;
    if (to == UNIT_FOLLOWER)
        l->ballot = 0;
    table_set(l->rows, ROW_BALLOT, l->ballot);
    table_set(l->rows, ROW_BACKS, to == UNIT_LEADER && l->mem->remote ? l->ballot : 0);
    check_move(l);
    table_push_row(l->rows);
    if (has_memories(l))
        memories_tell(l);
}

/* Longer after each failure: what is too short for this memory and group would never succeed. */
void log_set_deadline(struct log *l)
{
    l->deadline_ns = l->now_ns + (l->opt.suspect_ns << min_u64(l->oracle.failures, 6));
}

void log_step_down(struct log *l, bool failed)
{
    snap_abort(l);
    for (uint32_t q = 0; q < l->all; q++) {
        struct peer *p = &l->peer[q];
        peer_down(l, q, l->now_ns);
        p->given = 0;
        p->hold = UINT64_MAX;
        p->detached_ns = p->away_ns = 0;
        p->detaches = 0;
    }
    if (PLANTED(failed_cursor) && l->state == UNIT_SYNC)
        l->applied = max_u64(l->applied, l->chain_end);
    l->comparing = l->all;
    l->at_rest = false;
    l->rec.step = REC_IDLE;
    if (failed)
        oracle_failed(&l->oracle);
    log_move(l, UNIT_FOLLOWER);
}

/* This replica lacks entries that are nowhere any more: from here on it reads no lane and waits for
 * a snapshot. */
void log_fall_behind(struct log *l)
{
    l->behind = true;
    l->taking.on = l->taking.whole = false;
    table_set(l->rows, ROW_FLAGS, table_get(l->rows, l->me, ROW_FLAGS) | ROW_BEHIND);
    /* Who has sent us what was not enough may not have seen that it came to its end: he need not wait for that. */
    table_set(l->rows, ROW_SNAP_ID, 0);
    table_push_row(l->rows);
}

/* The leader waits for this word when its ring is nearly full, and the next one will want to know how
 * far back its log has to reach. */
static void push_applied(struct log *l)
{
    l->row_sent_applied = keep_stands_to(l);
    table_set(l->rows, ROW_APPLIED, l->row_sent_applied);
    for (uint32_t q = 0; q < l->n; q++)
        if (q != l->me && table_reaches(l->rows, q))
            table_tell(l->rows, q, ROW_APPLIED);
}

void log_show_applied(struct log *l)
{
    uint64_t applied = keep_stands_to(l);
    table_set(l->rows, ROW_APPLIED, applied);
    if (applied >= l->row_sent_applied + l->opt.log_bytes / 16)
        push_applied(l);
}

/* ---- applying ---- */

/* An entry near the end of the ring. What is not an entry may say anything of its length. */
const struct entry *log_entry_over(const struct log *l, const unsigned char *ring, uint64_t pos,
                                   uint64_t straight)
{
    const struct entry *in_place = entry_at(ring + (pos & l->mask));
    struct entry *copy = (struct entry *)(void *)l->batch;
    if (straight < sizeof(*copy)) {
        ring_read(ring, l->opt.log_bytes, pos, copy, sizeof(*copy));
        if (copy->bytes > l->opt.payload_max)
            return copy;
    } else {
        if (in_place->bytes > l->opt.payload_max || entry_size(in_place->bytes) <= straight)
            return in_place;
        copy->bytes = in_place->bytes;
    }
    ring_read(ring, l->opt.log_bytes, pos, copy, entry_size(copy->bytes));
    return copy;
}

static void observe(struct log *l, const struct entry *e, bool effective)
{
    if (l->opt.machine->observe)
        l->opt.machine->observe(l->opt.ctx, e, effective);
    l->count.noops += !effective;
}

static void apply_control(struct log *l, const struct entry *e)
{
    observe(l, e, false);
    if (e->srcpos == ENTRY_JOIN && e->bytes == sizeof(struct entry_join)) {
        struct entry_join j;
        memcpy(&j, e->payload, sizeof(j));
        if (j.rank < l->all && j.life > l->joined[j.rank])
            l->joined[j.rank] = j.life;
    }
}

/* What is replayed was asked for when it was applied first. */
static inline bool has_room(const struct log *l, const struct entry *e)
{
    return !l->opt.machine->ready || l->keep.replaying || l->opt.machine->ready(l->opt.ctx, e);
}

/* An entry takes effect only if it is the next of its source; a copy that was decided a second time
 * is a no-op, everywhere alike. False: it cannot be applied now. */
__attribute__((always_inline)) static inline bool apply_message(struct log *l,
                                                                const struct entry *e)
{
    if (e->source >= l->sources) {
        observe(l, e, false);
        return true;
    }
    struct log_source *s = &l->source[e->source];
    bool effective = stream_next(s->life, s->taken, e->life, e->srcpos) || PLANTED(no_filter) ||
                     PLANTED(source_filter);
    if (effective && !has_room(l, e))
        return false;
    observe(l, e, effective);
    if (!effective)
        return true;
    if (e->life > s->life)
        log_source_reborn(s, e->life);
    s->taken = max_u64(s->taken, e->srcpos + frame_size(e->bytes));
    log_source_dirty(l, e->source);
    l->opt.machine->apply(l->opt.ctx, e);
    l->count.messages++;
    return true;
}

/* A note has no source that could send it twice. */
static bool apply_note(struct log *l, const struct entry *e)
{
    if (!has_room(l, e))
        return false;
    observe(l, e, true);
    l->opt.machine->apply(l->opt.ctx, e);
    return true;
}

/* False: it cannot be applied now. Part of the loop over a batch: as a call it would cost more than what it does. */
__attribute__((always_inline)) static inline bool apply(struct log *l, const struct entry *e)
{
    bool own = e->source == SOURCE_LOG;
    if (own && e->srcpos != ENTRY_NOTE)
        apply_control(l, e);
    else if (!(own ? apply_note(l, e) : apply_message(l, e)))
        return false;
    l->applied += entry_size(e->bytes);
    return true;
}

/* The next entry of the log, where it did not come through a lane. */
bool log_apply(struct log *l, const struct entry *e)
{
    return apply(l, e);
}

/* What was applied since `from` goes to the replica that is being brought up to date, too; and to the disk, if that could not
 * have it before. */
static void hand_on(struct log *l, uint32_t writer, uint64_t from)
{
    bool sent = snap_records(l), late = log_kept(l) && keep_is_late(l);
    while ((sent || late) && from < l->applied) {
        const struct entry *e = log_entry(l, writer, from);
        if (sent)
            backlog_add(&l->sending.backlog, e);
        if (late)
            keep_later(l, e);
        from += entry_size(e->bytes);
    }
}

/* Part of every round: as a call it would be an eighth slower. */
__attribute__((always_inline)) static inline int apply_decided(struct log *l)
{
    if (l->behind || l->broken)
        return 0;
    uint64_t promised = mem_promised(l->mem, l->opt.region);
    if (promised == 0 || promised == MEM_CLOSED) {
        if (promised == MEM_CLOSED && l->state != UNIT_JOINING)
            log_stop(l, "the memory of a replica that takes part promises nothing any more");
        return 0;
    }
    uint32_t w = (uint32_t)(promised % l->n);
    struct mem_lane *lane = l->lane[l->me][w];
    if (lane->ctl == NULL || (mem_word(lane, LOG_RUN) != promised && !PLANTED(run_unchecked))) {
        snap_notice(l); /* perhaps that is why */
        return 0;
    }
    uint64_t end = mem_word(lane, LOG_COMMIT);
    if (PLANTED_ANY)
        end = planted_decided_end(l, w, end);
    if (end <= l->applied)
        return 0;
    bool overrun = w != l->me &&
                   mem_word(lane, LOG_GUARD) + l->put_max > l->applied + l->opt.log_bytes &&
                   !PLANTED(overrun_unseen);
    if ((mem_word(lane, LOG_START) > l->applied && !PLANTED(start_unchecked)) || overrun) {
        /* The leader went by what an earlier life of ours had applied, or has given up on the
         * snapshot that we have just loaded. */
        if (l->state == UNIT_CANDIDATE)
            log_step_down(l, false);
        log_fall_behind(l);
        return 0;
    }
    if (log_kept(l))
        end = min_u64(end, keep_apply_end(l, promised));
    if (end <= l->applied)
        return 0;
    l->follow = w;
    l->follow_ballot = promised;
    int work = 0;
    const uint64_t from = l->applied;
    while (l->applied < end && l->broken == NULL) {
        const struct entry *e = log_entry(l, w, l->applied);
        if (e->pos != l->applied || e->bytes > l->opt.payload_max) {
            log_stop(l, "a decided entry is not in the log");
            break;
        }
        if (!apply(l, e))
            break;
        work++;
    }
    hand_on(l, w, from);
    log_show_applied(l);
    return work;
}

/* ---- stepping ---- */

/* What the rows say, also to the oracle. */
static void look_at_rows(struct log *l, struct oracle_view *view)
{
    for (uint32_t r = 0; r < l->n; r++)
        view[r] = (struct oracle_view){
            .beat = table_get(l->rows, r, ROW_BEAT),
            .ballot = table_get(l->rows, r, ROW_BALLOT),
            .backs = table_get(l->rows, r, ROW_BACKS),
            .dead = r != l->me && mem_dead(l->mem, l->opt.nodes[r]),
            .fit = table_get(l->rows, r, ROW_FLAGS) == 0,
            .busy = table_get(l->rows, r, ROW_BUSY) != 0,
        };
    if (has_memories(l))
        memories_view(l, view);
    oracle_watch(&l->oracle, view, l->now_ns);
}

void log_push_row(struct log *l)
{
    table_push_row(l->rows);
    if (has_memories(l))
        memories_tell(l);
}

static void show_row(struct log *l)
{
    table_set(l->rows, ROW_BEAT, ++l->beat);
    l->row_sent_applied = keep_stands_to(l);
    table_set(l->rows, ROW_APPLIED, l->row_sent_applied);
    log_push_row(l);
}

void log_beat_by(struct log *l, uint64_t due_ns)
{
    l->beat_ns = l->beat_ns < due_ns ? 0 : l->beat_ns;
}

static void beat(struct log *l)
{
    if (l->now_ns < l->beat_ns)
        return;
    /* The logs of a host that began together stay together: it wakes once for all of them. */
    l->beat_ns = l->now_ns + l->opt.heartbeat_ns;
    show_row(l);
    if (has_memories(l))
        memories_ask(l);
    if (l->serving && l->state == UNIT_LEADER)
        sources_look_after(l);
    if (!l->behind)
        snap_notice(l);
    struct oracle_view view[LOG_AGENTS_MAX];
    look_at_rows(l, view);
}

/* Over a network the others are told whom this replica backs, when that changes. */
static void show_backing(struct log *l, uint64_t backs)
{
    if (!l->mem->remote || table_get(l->rows, l->me, ROW_BACKS) == backs)
        return;
    table_set(l->rows, ROW_BACKS, backs);
    log_push_row(l);
}

/* Before a candidacy: what the last leader has told is decided is read from its lane, and from ours when we have raised. */
__attribute__((noinline)) static void leave_lane(struct log *l)
{
    keep_follow(l);
    apply_decided(l);
}

/* Asked now and then, at once when the leader is known to be dead, and all the time while somebody
 * should lead and nobody does. */
static void ask_oracle(struct log *l)
{
    uint64_t promised = mem_promised(l->mem, l->opt.region);
    uint32_t leader = (uint32_t)(promised % l->n);
    if (promised != l->shown_to) {
        /* What the new leader has to write to us begins at what our row says that we have. */
        l->shown_to = promised;
        show_row(l);
    }
    bool headless = promised == 0 || leader == l->me || l->oracle.vacant_ns != 0 ||
                    mem_dead(l->mem, l->opt.nodes[leader]);
    if (!headless && l->now_ns < l->ask_ns)
        return;
    l->ask_ns = l->now_ns + l->look_every_ns;
    struct oracle_view view[LOG_AGENTS_MAX];
    look_at_rows(l, view);
    if (l->mem->remote && !l->behind)
        streams_answer(l);
    const uint64_t seen = has_memories(l) ? memories_promise(l, view, promised) : promised;
    show_backing(l, oracle_backs(&l->oracle, view, seen, l->now_ns));
    if (!oracle_says_run(&l->oracle, view, seen, l->now_ns))
        return;
    if (log_kept(l))
        leave_lane(l);
    if (!l->behind && !l->broken)
        recover_begin(l);
}

/* A leader that hears no quorum over a network will not commit anything, and is in the way: it makes room for
 * who does. (Memory that is written without its process may be silent and count.) */
static void check_touch(struct log *l)
{
    if (!l->mem->remote || !log_leading(l) || l->now_ns < l->ask_ns)
        return;
    l->ask_ns = l->now_ns + l->look_every_ns;
    struct oracle_view view[LOG_AGENTS_MAX];
    look_at_rows(l, view);
    if (oracle_in_touch(&l->oracle, l->now_ns))
        return;
    log_step_down(l, true);
    show_backing(l, ORACLE_ALONE);
}

/* Calls of machines may have kept the logs of this host away since this one last asked. Each counts as one look at the
 * others: a machine that is called in every round does not hide for ever that nobody is heard. */
static void forgive_calls(struct log *l, uint64_t gap_ns)
{
    struct log_budget *b = l->budget;
    if (b->called_ns != 0 && l->now_ns > b->called_ns) {
        uint64_t took_ns = l->now_ns - b->called_ns;
        b->away_ns += took_ns > l->look_every_ns ? took_ns - l->look_every_ns : 0;
        b->called_ns = 0;
    }
    /* Not more than this log itself was away: what it has watched must not lie ahead. */
    uint64_t called = min_u64(b->away_ns - l->away_ns, gap_ns);
    l->away_ns = b->away_ns;
    oracle_forgive(&l->oracle, called);
    l->deadline_ns += called;
}

/* Who was away could not do anything meanwhile, nor hear anybody: that is no failure of its leadership, and says
 * nothing of the others. Calls of machines add up, even if none takes long: a host that leads many groups saves the
 * states of all of them for another host that comes back. */
static void was_away(struct log *l, uint64_t away_ns)
{
    forgive_calls(l, away_ns);
    if (away_ns > l->opt.suspect_ns / 2 && l->ballot != 0)
        log_set_deadline(l);
}

static inline void clock_moves(struct log *l, uint64_t now_ns)
{
    uint64_t away_ns = now_ns - l->now_ns;
    l->now_ns = now_ns;
    if (away_ns > l->look_every_ns)
        was_away(l, away_ns);
}

int log_post(struct log *l, uint64_t now_ns)
{
    if (l->broken)
        return 0;
    clock_moves(l, now_ns);
    snap_budget_fill(l);
    beat(l);
    check_touch(l);
    switch (l->state) {
    case UNIT_JOINING:
        return join_step(l);
    case UNIT_FOLLOWER:
        if (l->behind)
            look_for_loss(l);
        ask_oracle(l);
        return l->state != UNIT_FOLLOWER;
    case UNIT_CANDIDATE:
        return 0;
    case UNIT_LEADER:
        /* Of many groups most have nothing to do, and the messages of the others wait meanwhile. */
        if (l->at_rest && now_ns < l->look_ns && sources_silent(l))
            return 0;
        l->at_rest = false;
        return lead_post(l);
    case UNIT_SYNC:
        return lead_post(l);
    }
    return 0;
}

int log_settle(struct log *l, uint64_t now_ns)
{
    if (l->broken)
        return 0;
    clock_moves(l, now_ns);
    int work = log_kept(l) ? keep_settle(l) : 0;
    if (l->ballot != 0) {
        uint64_t promised = mem_promised(l->mem, l->opt.region);
        if (l->at_rest && promised == l->ballot && l->dirty_count == 0 &&
            (!log_kept(l) || keep_at_rest(l)))
            return work;
        l->ballot_seen = max_u64(l->ballot_seen, promised == MEM_CLOSED ? 0 : promised);
        if (promised > l->ballot && !PLANTED(one_ballot) && !PLANTED(self_unchecked))
            log_step_down(l, true);
    }
    if (l->state == UNIT_CANDIDATE)
        work += recover_step(l);
    if (l->state == UNIT_SYNC || l->state == UNIT_LEADER)
        work += lead_settle(l);
    if (log_kept(l))
        work += keep_follow(l) + keep_save(l);
    work += apply_decided(l);
    if (log_leading(l))
        check_positions(l);
    if (l->state == UNIT_LEADER) {
        sources_ack(l);
        l->at_rest = lead_at_rest(l);
        l->look_ns = now_ns + l->look_every_ns;
    }
    if (l->behind)
        work += snap_take(l);
    return work;
}

uint64_t log_commit_wait_ns(const struct log *l)
{
    return l->opt.heartbeat_ns / ALONE_PER_HEARTBEAT;
}

uint64_t log_commit_due_ns(const struct log *l)
{
    return l->mem->remote ? l->commit_ns + log_commit_wait_ns(l) : 0;
}

uint64_t log_next_ns(const struct log *l)
{
    uint64_t next = l->beat_ns;
    if (l->state == UNIT_FOLLOWER)
        next = min_u64(next, oracle_next_ns(&l->oracle));
    if ((l->state == UNIT_SYNC || l->state == UNIT_LEADER) && l->now_ns < log_commit_due_ns(l))
        next = min_u64(next, log_commit_due_ns(l));
    for (uint32_t q = 0; (l->state == UNIT_SYNC || l->state == UNIT_LEADER) && q < l->all; q++)
        next = min_u64(next, lead_spare_due_ns(l, &l->peer[q]));
    return next;
}

/* The node that leads, as far as this replica knows; UINT32_MAX: nobody. */
static uint32_t leader_node(const struct log *l)
{
    uint64_t promised = mem_promised(l->mem, l->opt.region);
    if (promised == 0 || promised == MEM_CLOSED)
        return UINT32_MAX;
    uint32_t rank = (uint32_t)(promised % l->n);
    return table_get(l->rows, rank, ROW_BALLOT) == promised ? l->opt.nodes[rank] : UINT32_MAX;
}

void log_status(const struct log *l, struct unit_status *s)
{
    *s = (struct unit_status){.role = l->state,
                              .leader = leader_node(l),
                              .epoch = l->ballot,
                              .promised = mem_promised(l->mem, l->opt.region),
                              .applied = l->applied,
                              .committed = l->commit,
                              .written = l->tail,
                              .delivered = l->count.messages,
                              .behind = l->behind,
                              .unfit = l->keep.unfit,
                              .lost = l->broken != NULL && l->lost,
                              .broken = l->broken,
                              .muted = l->muted,
                              .count = l->count};
    for (uint32_t q = 0; q < l->n; q++) {
        s->attached += l->peer[q].phase == PEER_LIVE;
        s->detached_ns[q] = l->peer[q].away_ns ? l->now_ns - l->peer[q].away_ns + 1 : 0;
    }
    for (uint32_t q = l->n; q < l->all; q++) {
        s->attached += l->peer[q].phase == PEER_LIVE;
        s->memory_away_ns[q - l->n] = l->peer[q].away_ns ? l->now_ns - l->peer[q].away_ns + 1 : 0;
    }
    keep_status(l, s);
    s->muted_now = l->state == UNIT_LEADER && l->serving ? l->muted_count : 0;
}

bool log_note(struct log *l, const void *payload, uint32_t bytes)
{
    return l->state == UNIT_LEADER && l->serving && !snap_slows(l) && bytes <= l->opt.payload_max &&
           l->tail + entry_size(bytes) <= l->commit + l->opt.window_bytes &&
           lead_propose(l, ENTRY_NOTE, payload, bytes);
}

const char *log_broken(const struct log *l)
{
    return l->broken;
}

uint64_t log_source_taken(const struct log *l, uint32_t source)
{
    return l->source[source].taken;
}

uint16_t log_source_life(const struct log *l, uint32_t source)
{
    return l->source[source].life;
}

bool log_leading(const struct log *l)
{
    return l->state == UNIT_LEADER || l->state == UNIT_SYNC;
}

/* ---- as a unit ---- */

static int unit_of_post(struct unit *u, uint64_t now_ns)
{
    return log_post(u->of, now_ns);
}

static int unit_of_settle(struct unit *u, uint64_t now_ns)
{
    struct log *l = u->of;
    int work = log_settle(l, now_ns);
    u->leads = log_leading(l);
    u->broken = l->broken;
    return work;
}

static uint64_t unit_of_next_ns(const struct unit *u)
{
    return log_next_ns(u->of);
}

static void unit_of_status(const struct unit *u, struct unit_status *s)
{
    log_status(u->of, s);
}

static const char *unit_of_check(const struct unit *u)
{
    return log_check(u->of);
}

static void unit_of_close(struct unit *u)
{
    log_close(u->of);
}

struct unit log_unit(struct log *l)
{
    static const struct unit_ops ops = {.post = unit_of_post,
                                        .settle = unit_of_settle,
                                        .next_ns = unit_of_next_ns,
                                        .status = unit_of_status,
                                        .check = unit_of_check,
                                        .close = unit_of_close};
    return (struct unit){.ops = &ops, .of = l, .region = l->opt.region};
}
