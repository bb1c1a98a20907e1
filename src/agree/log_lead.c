/* Leading: synchronise the replicas, write what sources send, commit. */
#include "agree/log_impl.h"

enum {
    CATCH_UP_PUTS_MAX = 8,     /* per replica and round; the rest follows in the next round */
    SPARES_PER_HEARTBEAT = 64, /* a commit waits so long for some before the others are asked, */
    SPARE_PART = 16,           /* who are asked anyway when so much of the log is written */
};

/* How far our own copy has landed; what others are sent beyond the present batch is read there. */
static uint64_t own_landed(const struct log *l)
{
    if (PLANTED(self_unchecked))
        return l->peer[l->me].next;
    return l->peer[l->me].flow.done;
}

/* ---- synchronising ---- */

/* Entries [pos, end) in `bytes` against those of our own lane: returns up to where they are the same but
 * for ballots. */
static uint64_t equal_until(const struct log *l, const unsigned char *bytes, uint64_t pos,
                            uint64_t end)
{
    const uint64_t from = pos;
    while (pos < end) {
        const struct entry *a = entry_at(bytes + (pos - from));
        if (a->bytes > l->opt.payload_max || !entry_same(a, log_entry(l, l->me, pos)))
            break;
        pos += entry_size(a->bytes);
    }
    return pos;
}

/* Moves over well-formed entries in `bytes`, or of our own lane if that is NULL, from pos until `to`;
 * UINT64_MAX if that is not where one begins. */
static uint64_t walk_to(const struct log *l, const unsigned char *bytes, uint64_t pos, uint64_t end,
                        uint64_t to)
{
    const uint64_t from = pos;
    while (pos < to && pos < end) {
        const struct entry *e = bytes ? entry_at(bytes + (pos - from)) : log_entry(l, l->me, pos);
        if (e->pos != pos || e->bytes > l->opt.payload_max)
            return UINT64_MAX;
        pos += entry_size(e->bytes);
    }
    return pos == to ? pos : UINT64_MAX;
}

/* Position from which on a member needs our lane. */
static uint64_t needs_from(const struct log *l, uint32_t rank)
{
    if (is_memory(l, rank))
        return memory_start(l);
    return rank == l->me ? l->applied : table_get(l->rows, rank, ROW_APPLIED);
}

static void peer_live(struct log *l, uint32_t rank)
{
    peer_move(l, rank, PEER_LIVE);
    l->peer[rank].detached_ns = l->peer[rank].away_ns = 0;
    l->peer[rank].unsent_ns = 0;
    if (l->snap_to != rank)
        l->peer[rank].hold = UINT64_MAX; /* its row says what it needs */
}

/* If logs are kept, it is open since the raise (log_raise.c). */
static void run_flow_open(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    if (PLANTED(peek_for_flow) && log_kept(l))
        mem_flow_close(l->mem, &p->flow);
    if (!log_kept(l) || PLANTED(peek_for_flow))
        mem_flow_open(l->mem, &p->flow, l->opt.nodes[rank], l->opt.region, l->ballot);
}

/* Begins a run at the replica that has nothing of ours to go on from. */
static void run_renew(struct log *l, uint32_t rank, uint64_t start)
{
    struct peer *p = &l->peer[rank];
    struct mem_lane *lane = l->lane[rank][l->me];
    run_flow_open(l, rank);
    mem_set1(l->mem, &p->flow, lane, LOG_RUN, 0);
    uint64_t words[] = {start, start, start, 0};
    mem_set(l->mem, &p->flow, lane, LOG_START, words, log_kept(l) ? 4 : 3);
    mem_set1(l->mem, &p->flow, lane, LOG_RUN, l->ballot);
    p->start = p->next = p->kept = p->commit_sent = start;
    peer_live(l, rank);
}

/* Goes on with a run of an earlier leadership of ours, whose content below `same` is what we have
 * recovered. That part may be the only other copy of something decided, so it is never taken back:
 * it is written again in place, with nothing changed but the ballots. What stands before `start` is
 * given up: it may be something else than was decided in the end, or overwritten by proposals that
 * came to nothing. */
static void run_continue(struct log *l, uint32_t rank, uint64_t start, uint64_t same)
{
    struct peer *p = &l->peer[rank];
    struct mem_lane *lane = l->lane[rank][l->me];
    const uint64_t *head = p->head[l->me];
    run_flow_open(l, rank);
    mem_set1(l->mem, &p->flow, lane, LOG_START, start);
    if (PLANTED(run_before_guard))
        mem_set1(l->mem, &p->flow, lane, LOG_RUN, l->ballot);
    if (!PLANTED(guard_stays))
        mem_set1(l->mem, &p->flow, lane, LOG_GUARD, same);
    mem_set1(l->mem, &p->flow, lane, LOG_RUN, l->ballot);
    if (head[LOG_SOLID] != 0)
        mem_set1(l->mem, &p->flow, lane, LOG_SOLID, 0);
    p->start = start;
    p->kept = same;
    p->commit_sent = head[LOG_COMMIT];
    p->next = max_u64(rank == l->me ? l->applied : start, p->commit_sent);
    peer_live(l, rank);
    /* There may be nothing to write to it before it is known to have that: room waits for it. */
    if (p->next == l->tail)
        mem_mark(l->mem, &p->flow, p->next);
}

static bool run_continues(const uint64_t *head, uint64_t applied)
{
    return head[LOG_RUN] != 0 && head[LOG_START] <= applied && head[LOG_GUARD] >= applied &&
           !PLANTED(retract_decided);
}

/* There is something in the lane to go on from: entries beyond `applied`, or a run that surely has
 * decided entries up to it. */
static bool worth_keeping(const uint64_t *head, uint64_t applied, uint64_t same)
{
    return same != UINT64_MAX && (same > applied || head[LOG_COMMIT] >= applied);
}

/* Where to begin reading a lane so as to meet `applied` at the start of an entry. */
static uint64_t read_from(const uint64_t *head, uint64_t applied)
{
    return head[LOG_COMMIT] >= applied ? applied : max_u64(head[LOG_START], head[LOG_COMMIT]);
}

/* Copies entries [pos, end) from `bytes`, or from our own lane if that is NULL, into the batch under our
 * ballot, as many as fit; returns the end of the last one. */
uint64_t lead_copy(struct log *l, const unsigned char *bytes, uint64_t pos, uint64_t end)
{
    const unsigned char *own = l->lane[l->me][l->me]->ring;
    const uint64_t from = pos;
    while (pos < end) {
        struct entry head;
        if (bytes)
            memcpy(&head, bytes + (pos - from), sizeof(head));
        else
            ring_read(own, l->opt.log_bytes, pos, &head, sizeof(head));
        uint64_t size = entry_size(head.bytes);
        if (pos + size > end || pos + size - from > l->put_max)
            break;
        if (bytes)
            memcpy(l->batch + (pos - from), bytes + (pos - from), size);
        else
            ring_read(own, l->opt.log_bytes, pos, l->batch + (pos - from), size);
        if (!PLANTED(no_restamp))
            ((struct entry *)(void *)(l->batch + (pos - from)))->ballot = l->ballot;
        pos += size;
    }
    return pos;
}

/* How far a replica was when we last heard: what a commit counts. Of one that hangs the memory takes all, and the disk nothing. */
static uint64_t reach(const struct log *l, uint32_t rank)
{
    return log_kept(l) ? keep_end_of(l, rank) : l->peer[rank].flow.done;
}

/* Is the replica one of those that a commit waits for? Those that were the furthest are. */
static bool is_first(const struct log *l, uint32_t rank)
{
    if (rank == l->me)
        return true;
    if (!has_vote(l, rank))
        return false;
    uint64_t own = reach(l, rank);
    uint32_t before = has_vote(l, l->me); /* ourselves */
    for (uint32_t q = l->voters; q < l->all; q++) {
        const struct peer *o = &l->peer[q];
        if (q == l->me || q == rank || o->phase != PEER_LIVE || o->flow.status != MEM_DONE)
            continue;
        uint64_t other = reach(l, q);
        before += other > own || (other == own && q < rank);
    }
    return before < l->quorum;
}

/* Asks to hear of what is written, or not yet. Where a write is a message, so is the word that it is done, and a quorum's
 * are enough. The others are asked later, with a write that is due anyway, or alone. */
static void peer_ask(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    if (l->mem->remote && !is_first(l, rank)) {
        if (p->unasked_ns == 0)
            p->unasked_ns = l->now_ns;
        if (l->now_ns - p->unasked_ns < log_commit_wait_ns(l) &&
            p->next - p->flow.marked < l->opt.log_bytes / SPARE_PART)
            return;
    }
    p->unasked_ns = 0;
    mem_mark(l->mem, &p->flow, p->next);
}

/* When a replica that no commit waits for is sent what it lacks and asked for what it has: soon if the commit does wait for
 * it by now, since others do not answer. UINT64_MAX: there is nothing. */
uint64_t lead_spare_due_ns(const struct log *l, const struct peer *p)
{
    uint64_t due = UINT64_MAX;
    if (p->unsent_ns != 0)
        due = p->unsent_ns + log_commit_wait_ns(l);
    if (p->unasked_ns != 0)
        due = min_u64(due, p->unasked_ns + 2 * log_commit_wait_ns(l));
    if (due != UINT64_MAX && l->commit < l->tail)
        due = min_u64(due, l->waits_ns + l->opt.heartbeat_ns / SPARES_PER_HEARTBEAT);
    return due;
}

/* May what it lacks wait for more, so that it is fewer messages? */
static bool may_wait(const struct log *l, uint32_t rank)
{
    const struct peer *p = &l->peer[rank];
    return p->unsent_ns != 0 && l->now_ns < lead_spare_due_ns(l, p) && !is_first(l, rank) &&
           l->tail - p->next < l->opt.log_bytes / SPARE_PART;
}

static void ask_spares(struct log *l)
{
    for (uint32_t q = 0; q < l->all; q++) {
        struct peer *p = &l->peer[q];
        if (p->phase != PEER_LIVE)
            p->unasked_ns = 0;
        if (p->unasked_ns == 0 || l->now_ns < lead_spare_due_ns(l, p))
            continue;
        p->unasked_ns = 0;
        if (p->flow.marked < p->next) /* or the flow is another one by now */
            mem_mark(l->mem, &p->flow, p->next);
    }
}

/* What is told of the commit never goes beyond what is known to be there. */
static uint64_t commit_there(const struct log *l, const struct peer *p)
{
    return PLANTED(commit_beyond) ? l->commit : min_u64(l->commit, p->flow.done);
}

/* Writes [p->next, end) from the batch to the replica, with guard, and asks to hear of it. */
static void peer_write(struct log *l, uint32_t rank, uint64_t end)
{
    struct peer *p = &l->peer[rank];
    struct mem_lane *lane = l->lane[rank][l->me];
    mem_put(l->mem, &p->flow, lane, p->next, l->batch, (uint32_t)(end - p->next));
    p->next = end;
    if (end == l->tail)
        p->unsent_ns = 0;
    p->commit_sent = max_u64(p->commit_sent, commit_there(l, p));
    uint64_t words[] = {max_u64(end, p->kept), p->commit_sent};
    mem_set(l->mem, &p->flow, lane, LOG_GUARD, words, 2);
    peer_ask(l, rank);
    /* A follower wakes by itself, unless its ring fills up before that, or its disk is waited for. */
    bool wakes = log_kept(l) && is_first(l, rank);
    if (rank != l->me &&
        (wakes || (rank < l->n && end - needs_from(l, rank) > l->opt.log_bytes / 4)))
        mem_bell_later(l->mem, l->opt.nodes[rank]);
}

/* The start marker of a leadership that got no further serves the next one too, so that a series of
 * failed attempts does not fill the log. */
static bool ends_with_start(const struct log *l)
{
    const struct entry *last = NULL;
    for (uint64_t pos = l->commit; pos < l->chain_end; pos += entry_size(last->bytes))
        last = entry_at(l->chain + (pos - l->chain_base));
    return last != NULL && last->source == SOURCE_LOG && last->srcpos == ENTRY_START;
}

/* Somebody has applied all of the chain. Where disks count it has nothing to keep under our ballot, and would never count. */
static bool is_applied_elsewhere(const struct log *l)
{
    for (uint32_t q = 0; q < l->n; q++)
        if (q != l->me && table_get(l->rows, q, ROW_FLAGS) == 0 &&
            table_get(l->rows, q, ROW_APPLIED) >= l->chain_end)
            return true;
    return false;
}

/* As far back as the ring has our lane for sure (see recover_keep_from), if that is further than `from`. Where the power has gone others
 * may be about to come back with less than we have, and their rows say nothing yet: what their disks lack they get from here, or
 * else as a state. */
static uint64_t keep_own_from(const struct log *l, const uint64_t *head, uint64_t from)
{
    uint64_t end = max_u64(head[LOG_GUARD], l->tail_max), pos = head[LOG_START];
    uint64_t reach = l->opt.log_bytes - 2 * l->put_max;
    if (!log_kept(l) || end + l->put_max > pos + l->opt.log_bytes)
        return from;
    while (pos < from && pos + reach < end) {
        const struct entry *e = log_entry(l, l->me, pos);
        if (e->pos != pos || e->bytes > l->opt.payload_max)
            return from;
        pos += entry_size(e->bytes);
    }
    return min_u64(from, pos);
}

/* All that leaders before us have taken from the sources is known when the start marker is applied; and before, when all that it
 * follows on is. Where disks count the marker is not waited for, which would be a flush: what is proposed behind it counts with
 * it, or not at all. */
bool lead_knows_taken(const struct log *l)
{
    return l->applied + (log_kept(l) ? entry_size(0) : 0) >= l->start_end;
}

/* Puts the recovered chain into our own lane, from where everybody else is served. */
void lead_sync_own(struct log *l)
{
    struct peer *p = &l->peer[l->me];
    const uint64_t *head = p->head[l->me];
    uint64_t same = UINT64_MAX;
    if (run_continues(head, l->applied)) {
        uint64_t from = read_from(head, l->applied);
        if (walk_to(l, NULL, from, head[LOG_GUARD], l->applied) == l->applied)
            same = equal_until(l, l->chain + (l->applied - l->chain_base), l->applied,
                               min_u64(head[LOG_GUARD], l->chain_end));
    }
    if (worth_keeping(head, l->applied, same)) {
        uint64_t start = l->needed = l->applied;
        if (head[LOG_COMMIT] >= l->applied) {
            l->needed =
                recover_keep_from(l, head[LOG_START], max_u64(head[LOG_GUARD], l->tail_max));
            start = keep_own_from(l, head, l->needed);
        }
        run_continue(l, l->me, start, same);
        l->base = start;
    } else {
        run_renew(l, l->me, l->chain_base);
        l->base = l->needed = l->chain_base;
    }
    while (p->next < l->chain_end) {
        uint64_t end = lead_copy(l, l->chain + (p->next - l->chain_base), p->next, l->chain_end);
        if (end == p->next) {
            log_stop(l, "the recovered log is malformed");
            return;
        }
        peer_write(l, l->me, end);
    }
    if (l->applied < l->commit && p->commit_sent < l->commit) {
        p->commit_sent = l->commit;
        mem_set1(l->mem, &p->flow, l->lane[l->me][l->me], LOG_COMMIT, l->commit);
    }
    if (PLANTED(skip_first) && l->applied < l->chain_end)
        l->applied += entry_size(entry_at(l->chain + (l->applied - l->chain_base))->bytes);
    for (uint32_t q = 0; q < l->all; q++)
        l->join_asked[q] = 0;
    room_found(l);
    l->tail_max = max_u64(l->tail_max, l->chain_end);
    log_set_deadline(l);
    l->serving = false;
    if (!ends_with_start(l) || (log_kept(l) && is_applied_elsewhere(l)))
        lead_propose(l, ENTRY_START, NULL, 0);
    l->start_end = l->tail;
    /* What waits at the sources is flushed together with the marker. */
    if (log_kept(l) && lead_knows_taken(l)) {
        sources_serve(l);
        sources_take(l);
    }
}

/* It came back with its memory, and its disk did not know all that it had applied. Our run there begins beyond; to begin it anew
 * further down would take back what it has accepted since, and something decided may rest on that. */
static bool runs_beyond(const struct log *l, uint32_t rank, uint64_t applied)
{
    const uint64_t *head = l->peer[rank].head[l->me];
    return log_kept(l) && head[LOG_RUN] != 0 && head[LOG_START] > applied;
}

/* The replica has not applied, and does not find in our lane, what it would need next. */
bool lead_too_old(const struct log *l, uint32_t rank)
{
    uint64_t applied = table_get(l->rows, rank, ROW_APPLIED);
    return applied < l->base || applied + l->opt.log_bytes < l->tail + l->put_max ||
           runs_beyond(l, rank, applied) || (has_memories(l) && memory_begins_beyond(l, applied));
}

/* True if the replica's row was written after we began to try for the place: it may say less than the
 * replica has, but not a heartbeat's worth. */
bool lead_row_is_new(const struct log *l, uint32_t rank)
{
    return table_get(l->rows, rank, ROW_BEAT) != l->peer[rank].beat_before;
}

/* The planted late_stale. */
static void keep_suffix(struct log *l, uint32_t rank)
{
    const uint64_t *head = l->peer[rank].head[l->me];
    run_continue(l, rank, head[LOG_START], head[LOG_GUARD]);
    l->peer[rank].next = l->tail;
}

/* A replica that has promised and was read: bring it to where it can take new entries. */
void lead_sync_peer(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    const uint64_t *head = p->head[l->me];
    if (PLANTED(late_stale) && l->state == UNIT_LEADER && head[LOG_RUN] != 0) {
        keep_suffix(l, rank);
        return;
    }
    if (room_keeps_out(l, rank))
        return;
    if (!is_memory(l, rank) && (!row_has_state(l, rank) || lead_too_old(l, rank))) {
        /* By snapshot first; unless its row, which it repeats when it sees that we lead, says more. */
        if (!lead_row_is_new(l, rank))
            mem_bell_later(l->mem, l->opt.nodes[rank]);
        return;
    }
    if (room_awaits_apply(l, rank))
        return;
    uint64_t meet = memory_meets_at(l, rank, needs_from(l, rank));
    if (run_continues(head, meet)) {
        uint64_t from = read_from(head, meet);
        if (head[LOG_GUARD] > from && head[LOG_GUARD] - from <= l->opt.log_bytes) {
            if (l->comparing < l->all || l->side_op.status == MEM_PENDING)
                return; /* one at a time */
            l->comparing = rank;
            l->compare_from = from;
            peer_move(l, rank, PEER_COMPARE);
            mem_read_ring(l->mem, &l->side_op, l->lane[rank][l->me], from, l->side,
                          (uint32_t)(head[LOG_GUARD] - from));
            return;
        }
    }
    run_renew(l, rank, needs_from(l, rank));
}

/* What a replica's lane is compared with must not look shorter than it is, or something decided would be taken back. Where disks
 * count that is all that the replica has of it: it may keep it before we know that our own copy stands. */
static uint64_t compare_needs(const struct log *l, uint32_t rank)
{
    uint64_t guard = l->peer[rank].head[l->me][LOG_GUARD];
    return log_kept(l) ? max_u64(l->start_end, min_u64(guard, l->tail)) : l->start_end;
}

static int compare_step(struct log *l)
{
    uint32_t rank = l->comparing;
    /* Not before our own copy is known to stand. */
    if (rank >= l->all || l->side_op.status == MEM_PENDING ||
        (own_landed(l) < compare_needs(l, rank) && !PLANTED(compare_early)))
        return 0;
    l->comparing = l->all;
    struct peer *p = &l->peer[rank];
    const uint64_t *head = p->head[l->me];
    if (l->side_op.status != MEM_DONE) {
        peer_down(l, rank, l->now_ns + l->opt.heartbeat_ns);
        return 1;
    }
    peer_move(l, rank, PEER_READY);
    uint64_t meet = memory_meets_at(l, rank, needs_from(l, rank));
    if ((!is_memory(l, rank) && (!row_has_state(l, rank) || lead_too_old(l, rank))) ||
        meet < l->compare_from)
        return 1; /* it has changed meanwhile: look again */
    uint64_t same = UINT64_MAX;
    if (head[LOG_GUARD] >= meet &&
        walk_to(l, l->side, l->compare_from, head[LOG_GUARD], meet) == meet)
        same = equal_until(l, l->side + (meet - l->compare_from), meet,
                           min_u64(head[LOG_GUARD], own_landed(l)));
    if (!worth_keeping(head, meet, same)) {
        run_renew(l, rank, needs_from(l, rank));
    } else {
        run_continue(l, rank, meet, same);
        memory_reach_back(l, rank, needs_from(l, rank));
    }
    return 1;
}

/* ---- writing ---- */

static bool tell_commit(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    uint64_t commit = commit_there(l, p);
    if (commit <= p->commit_sent)
        return false;
    p->commit_sent = commit;
    mem_set1(l->mem, &p->flow, l->lane[rank][l->me], LOG_COMMIT, commit);
    return true;
}

/* A successor reads the lane from the commit that it tells of, and another put may be on its way: a lane that held more could not be read, by anybody,
 * for ever. While the replica follows this lane room sees to that: it has applied no more than it was told. Where it has applied what another leader
 * told it we are deposed and do not know. COMMIT goes before what needs it, so that there is no end between the two. */
static uint64_t lane_end(const struct log *l, const struct peer *p)
{
    return max_u64(p->start, p->commit_sent) + l->opt.log_bytes - l->put_max;
}

/* Sends a replica what it lacks, from our own lane. */
static int catch_up(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    uint64_t landed = own_landed(l);
    int work = lane_end(l, p) < landed && tell_commit(l, rank);
    landed = min_u64(landed, lane_end(l, p));
    for (int i = 0; i < CATCH_UP_PUTS_MAX && p->next < landed; i++) {
        uint64_t end = lead_copy(l, NULL, p->next, landed);
        if (end == p->next)
            break;
        peer_write(l, rank, end);
        work++;
    }
    if (lane_end(l, p) < l->tail && p->flow.marked < p->next)
        mem_mark(l->mem, &p->flow, p->next);
    return work;
}

/* Sends the batch [tail, end) to all who have everything before it. Where that takes messages, followers outside the quorum
 * get it later, with more: an answer goes before, and the next message. */
void lead_send_batch(struct log *l, uint64_t end)
{
    uint64_t from = l->tail;
    CHECK(end - from <= l->put_max);
    if (l->commit == l->tail)
        l->waits_ns = l->now_ns;
    l->at_rest = false;
    l->tail = end;
    l->tail_max = max_u64(l->tail_max, end);
    for (uint32_t q = 0; q < l->all; q++) {
        struct peer *p = &l->peer[q];
        if (p->phase != PEER_LIVE || p->next != from || (q != l->me && end > lane_end(l, p)))
            continue;
        if (!l->mem->remote || is_first(l, q))
            peer_write(l, q, end);
        else
            p->unsent_ns = l->now_ns;
    }
    l->count.batches++;
}

/* Builds the entry for pos in the batch, which begins at tail; returns where its payload belongs. */
unsigned char *lead_fill(const struct log *l, uint64_t pos, uint32_t source, uint32_t life,
                         uint64_t srcpos, uint32_t bytes)
{
    struct entry *e = (struct entry *)(void *)(l->batch + (pos - l->tail));
    uint64_t ballot = PLANTED(one_ballot) ? mem_promised(l->mem, l->opt.region) : l->ballot;
    *e = (struct entry){.pos = pos,
                        .ballot = ballot,
                        .bytes = bytes,
                        .source = (uint16_t)source,
                        .life = (uint16_t)life,
                        .srcpos = srcpos};
    if (bytes & 7)
        memset(e->payload + bytes, 0, 8 - (bytes & 7));
    return e->payload;
}

bool lead_propose(struct log *l, enum entry_kind kind, const void *payload, uint32_t bytes)
{
    uint64_t end = l->tail + entry_size(bytes);
    if (kind != ENTRY_START && end > room_end(l))
        return false;
    unsigned char *to = lead_fill(l, l->tail, SOURCE_LOG, 0, kind, bytes);
    if (bytes > 0)
        memcpy(to, payload, bytes);
    lead_send_batch(l, end);
    return true;
}

/* With nothing else to send, the commit index goes alone, so that the last message needs no next. */
static void commit_alone(struct log *l)
{
    for (uint32_t q = 0; q < l->all; q++)
        if (l->peer[q].phase == PEER_LIVE && q != l->me)
            tell_commit(l, q);
}

int lead_post(struct log *l)
{
    int work = 0;
    for (uint32_t q = 0; q < l->all; q++)
        if (q != l->me && l->peer[q].phase == PEER_LIVE && l->peer[q].next < l->tail &&
            !may_wait(l, q))
            work += catch_up(l, q);
    if (!l->serving && (lead_knows_taken(l) || PLANTED(early_serve)))
        sources_serve(l);
    int sent = l->serving && !snap_slows(l) ? sources_take(l) : 0;
    if (!sent && !PLANTED(last_waits) && l->now_ns >= log_commit_due_ns(l))
        commit_alone(l);
    ask_spares(l);
    return work + sent + snap_send(l);
}

/* ---- counting ---- */

/* How far a quorum of those who vote has copies under our ballot, in memory or on disk. The flow of a replica that is not LIVE counts for nothing: it may be left
 * from an earlier leadership of ours, and what stood there then may have been decided otherwise since. */
static uint64_t quorum_match(const struct log *l)
{
    uint64_t sorted[LOG_AGENTS_MAX];
    uint32_t first = l->voters, end = l->all, quorum = l->quorum;
    if (PLANTED(quorum_of_replicas))
        first = 0, end = l->n, quorum = l->n / 2 + 1;
    for (uint32_t q = first; q < end; q++) {
        bool counts = l->peer[q].phase == PEER_LIVE || PLANTED(counts_unlive);
        uint64_t match = counts ? l->peer[q].flow.done : 0;
        if (q == l->me)
            match = own_landed(l);
        /* What is on disk under our ballot is so whatever becomes of the replica. */
        if (log_kept(l) && !(PLANTED(memory_is_disk) && q == l->me))
            match = keep_end_of(l, q);
        uint32_t i = q - first;
        for (; i > 0 && sorted[i - 1] < match; i--)
            sorted[i] = sorted[i - 1];
        sorted[i] = match;
    }
    uint32_t need = PLANTED(quorum_f) && quorum > 1 ? quorum - 1 : quorum;
    return sorted[need - 1];
}

/* Follows up on what the replicas answered; may end the leadership. */
static int peers_settle(struct log *l)
{
    int work = 0;
    for (uint32_t q = 0; q < l->all; q++) {
        struct peer *p = &l->peer[q];
        bool own_exempt = q == l->me && PLANTED(self_unchecked);
        if (p->phase != PEER_LIVE && p->away_ns == 0)
            p->away_ns = l->now_ns;
        if (p->phase == PEER_LIVE) {
            if (p->flow.status == MEM_DONE || own_exempt)
                continue;
            if (PLANTED_ANY && planted_loss_ignored(l, q))
                continue;
            if (q == l->me) {
                log_step_down(l, true);
                return 1;
            }
            /* If it was denied, the next raise tells by whom: a higher ballot ends our leadership, a
             * replica that lost its memory does not. */
            peer_down(l, q, l->now_ns + (p->flow.status == MEM_DENIED ? 0 : l->opt.heartbeat_ns));
            work++;
        } else if (p->phase == PEER_READY) {
            lead_sync_peer(l, q);
            work += p->phase != PEER_READY;
            if (p->phase == PEER_READY && l->now_ns >= p->retry_ns) {
                /* It waits for a snapshot; meanwhile it may have promised to somebody else. */
                peer_move(l, q, PEER_RAISE);
                p->raised = 0;
            }
        } else if (p->phase == PEER_DOWN && room_keeps_out(l, q)) {
            continue;
        } else if (p->phase != PEER_COMPARE) {
            work += peer_step(l, q);
            if (l->state == UNIT_FOLLOWER)
                return work;
        }
    }
    return work + compare_step(l);
}

/* Everything is written, committed, told and applied, at all replicas. */
bool lead_at_rest(const struct log *l)
{
    if (!l->serving || l->commit != l->tail || l->applied != l->commit || l->snap_to < l->n ||
        l->dirty_count > 0)
        return false;
    for (uint32_t q = 0; q < l->all; q++) {
        const struct peer *p = &l->peer[q];
        if (p->phase != PEER_LIVE || p->flow.status != MEM_DONE || p->commit_sent != l->commit)
            return false;
    }
    return true;
}

/* A quorum that gives signs of life has in memory what it has not on disk: only flushes are missing. */
static bool waits_for_disks(const struct log *l)
{
    uint32_t have = has_vote(l, l->me) && own_landed(l) > l->commit;
    for (uint32_t q = l->voters; q < l->all; q++) {
        const struct peer *p = &l->peer[q];
        have += q != l->me && p->phase == PEER_LIVE && p->flow.done > l->commit &&
                !oracle_silent(&l->oracle, q, l->now_ns);
    }
    return log_kept(l) && have >= l->quorum;
}

static void count_wait(struct log *l, uint64_t ns)
{
    uint32_t fours = (uint32_t)(63 - __builtin_clzll(ns >> 10 | 1)) / 2 + (ns >= 1024);
    l->count.waits[fours < UNIT_WAITS ? fours : UNIT_WAITS - 1]++;
}

int lead_settle(struct log *l)
{
    /* Without room nothing is written that could be denied. A memory's disk that goes on under a later ballot is what there is no
     * room for, and says so. */
    if (l->stuck && log_kept(l) && keep_is_deposed(l)) {
        log_step_down(l, true);
        return 1;
    }
    int work = peers_settle(l);
    if (l->state == UNIT_FOLLOWER)
        return work;
    /* Rows of those who are back from their disks may come after the marker that was to serve again. */
    if (l->state == UNIT_SYNC && log_kept(l) && l->tail == l->chain_end &&
        is_applied_elsewhere(l) && lead_propose(l, ENTRY_START, NULL, 0)) {
        l->start_end = l->tail;
        work++;
    }
    uint64_t match = quorum_match(l);
    uint64_t before = l->commit;
    /* Only what stands on a quorum under our own ballot counts, and the start marker is the
     * first of it that was not there before. */
    if (match > l->commit && (match >= l->start_end || PLANTED(early_serve))) {
        l->commit = match;
        count_wait(l, l->now_ns - l->waits_ns);
        l->commit_ns = l->waits_ns = l->now_ns;
        struct peer *p = &l->peer[l->me];
        p->commit_sent = match;
        mem_set1(l->mem, &p->flow, l->lane[l->me][l->me], LOG_COMMIT, match);
        work++;
    }
    if (l->state == UNIT_SYNC && l->commit >= l->start_end) {
        log_move(l, UNIT_LEADER);
        l->count.terms++;
    }
    /* Who is heard by all but hears nobody would hold the place for ever and commit nothing. A
     * snapshot that a quorum waits for may take its time. */
    if (l->commit != before || l->commit == l->tail || l->snap_to < l->n || waits_for_disks(l))
        log_set_deadline(l);
    else if (l->now_ns >= l->deadline_ns)
        log_step_down(l, true);
    return work;
}
