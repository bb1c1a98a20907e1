/* Becoming leader: with a quorum's promises (log_raise.c), find everything that may have been decided.
 *
 * A quorum is one of those who vote. Replicas that do not are read where they have promised, our own memory always: what
 * stands there was proposed by a leader, and is found like all else; it counts for nothing.
 *
 * With the promises of a quorum in hand, and their lanes read after the promise, the log that is
 * to be rewritten has three parts:
 *
 *      chain_base        applied            commit                chain_end
 *          |--- kept -------|---- decided -----|------ suffix --------|
 *
 * kept: entries that we have applied and that slower replicas may still need; from the lane that we
 * followed. decided: entries below the highest commit claim in the quorum that we lack; from any lane
 * that is known to agree with that claim. suffix: beyond it, at each position the entry of the
 * highest ballot over all lanes. Every lane read is checked again afterwards: a leader that was
 * deposed meanwhile and does not know may still be writing. */
#include "agree/log_impl.h"

void recover_begin(struct log *l)
{
    /* Reads of an earlier attempt may still land in our buffers. */
    if (l->rec.op.status == MEM_PENDING || l->side_op.status == MEM_PENDING)
        return;
    uint64_t seen = max_u64(l->ballot_seen, mem_promised(l->mem, l->opt.region));
    seen = max_u64(seen, table_max(l->rows, ROW_BALLOT, TABLE_ALL));
    if (has_memories(l))
        seen = max_u64(seen, memories_ballot(l));
    l->ballot = (seen / l->n + 1) * l->n + l->me;
    l->ballot_seen = l->ballot;
    l->rec.step = REC_IDLE;
    l->rec.needed = 0;
    l->rec.reading = false;
    l->comparing = l->all;
    log_set_deadline(l);
    l->count.candidacies++;
    for (uint32_t q = 0; q < l->all; q++) {
        peer_move(l, q, PEER_RAISE);
        l->peer[q].beat_before = is_memory(l, q) ? 0 : table_get(l->rows, q, ROW_BEAT);
    }
    log_move(l, UNIT_CANDIDATE);
    /* Memory that answers at once may deny it at once, and end the candidacy. */
    for (uint32_t q = 0; q < l->all && l->state == UNIT_CANDIDATE; q++)
        peer_step(l, q);
}

/* ---- the chain ---- */

/* Verifies that entries follow each other without a gap from pos to end, and that stop is where one
 * begins (or is end). */
static bool chain_walk(const struct log *l, const unsigned char *bytes, uint64_t pos, uint64_t end,
                       uint64_t stop)
{
    bool found = pos == stop || end == stop;
    const uint64_t from = pos;
    while (pos < end) {
        const struct entry *e = entry_at(bytes + (pos - from));
        if (end - pos < sizeof(*e) || e->pos != pos || e->bytes > l->opt.payload_max)
            return false;
        pos += entry_size(e->bytes);
        found |= pos == stop;
    }
    return pos == end && found;
}

static unsigned char *recovered_at(struct log *l, uint64_t pos)
{
    return l->chain + (pos - l->chain_base);
}

/* Makes room for a chain up to end, and a start marker behind it, at the price of what was only kept
 * for others. The lane must stay readable for the next candidate: one more put may be on its way. */
static bool chain_fits(struct log *l, uint64_t end)
{
    uint64_t most = l->opt.log_bytes - l->put_max - entry_size(0);
    if (end - l->chain_base > most && l->chain_base < l->applied) {
        memmove(l->chain, recovered_at(l, l->applied), l->chain_end - l->applied);
        l->chain_base = l->applied;
    }
    return end - l->chain_base <= most;
}

/* Merges side content [pos, end) into the suffix: at each position the higher ballot wins. Where
 * the sizes differ, the loser's rest goes with it: had any of it been decided, the winner's
 * leader would have found it and rewritten the same. False if it does not fit. */
static bool chain_merge(struct log *l, const unsigned char *side, uint64_t pos, uint64_t end)
{
    const uint64_t from = pos;
    while (pos < end && pos < l->chain_end) {
        const struct entry *ours = entry_at(recovered_at(l, pos));
        const struct entry *theirs = entry_at(side + (pos - from));
        uint64_t size = entry_size(ours->bytes);
        bool same_size = size == entry_size(theirs->bytes);
        if (theirs->ballot > ours->ballot) {
            if (!same_size) {
                l->chain_end = pos;
                break;
            }
            memcpy(recovered_at(l, pos), theirs, size);
        } else if (!same_size) {
            return true;
        }
        pos += size;
    }
    if (pos < end) {
        if (!chain_fits(l, end))
            return false;
        memcpy(recovered_at(l, pos), side + (pos - from), end - pos);
        l->chain_end = end;
    }
    return true;
}

/* ---- recovery ---- */

static void rec_read(struct log *l, uint32_t q, uint32_t w, uint64_t from, uint64_t end,
                     unsigned char *into)
{
    struct recovery *r = &l->rec;
    r->q = q;
    r->w = w;
    r->from = from;
    r->end = end;
    r->reading = true;
    r->checking = r->asking = false;
    mem_read_ring(l->mem, &r->op, l->lane[q][w], from, into, (uint32_t)(end - from));
}

/* The run of the lane, if it is known to be what decided everything below `claim`, or to agree with it; else 0.
 *
 * A leader tells of a commit that it has found itself, and everything in a run of its ballot agrees with that. But START, and the
 * COMMIT that a renewal sets to the same, only say how far the owner had applied. It may have done so from the lane of a
 * later leader, which the writer of this one does not know of; and a leader that died while it continued the run has left
 * a new START in the run before. */
static uint64_t rec_voucher(const struct peer *p, uint32_t w, uint64_t claim)
{
    const uint64_t *head = p->head[w];
    if (PLANTED(start_vouches))
        return p->run[w];
    return head[LOG_COMMIT] == claim && (claim > head[LOG_START] || PLANTED(renewal_vouches))
               ? p->run[w]
               : 0;
}

/* The highest commit claim of the quorum, and the lowest ballot of a run that vouches for it. */
static void rec_find_commit(struct log *l)
{
    struct recovery *r = &l->rec;
    r->commit = l->applied;
    r->commit_run = UINT64_MAX;
    for (uint32_t q = 0; q < l->all; q++) {
        if (!(r->quorum >> q & 1))
            continue;
        for (uint32_t w = 0; w < lanes_of(l, q); w++) {
            const uint64_t *head = l->peer[q].head[w];
            /* A run begins at what its owner had applied, and was told of the commit later. */
            uint64_t claim = max_u64(head[LOG_COMMIT], head[LOG_START]);
            uint64_t run = rec_voucher(&l->peer[q], w, claim);
            if (claim > r->commit) {
                r->commit = claim;
                r->commit_run = UINT64_MAX;
            }
            if (claim == r->commit && run != 0)
                r->commit_run = min_u64(r->commit_run, run);
        }
    }
}

/* From where on a lane that begins at `start`, and was written up to `end` at some time, surely still
 * holds what slower replicas may need of what we have applied. */
uint64_t recover_keep_from(const struct log *l, uint64_t start, uint64_t end)
{
    uint64_t reach = l->opt.log_bytes - 2 * l->put_max;
    uint64_t low = max_u64(start, end > reach ? end - reach : 0);
    uint64_t from = l->applied;
    for (uint32_t q = 0; q < l->n; q++) {
        uint64_t applied = table_get(l->rows, q, ROW_APPLIED);
        /* Of the dead too: who is only said to be dead needs it, and after a crash in the middle of this
         * nobody might be left who has it. */
        if (q != l->me && row_has_state(l, q) && applied >= low && applied < from)
            from = applied;
    }
    return from;
}

/* Copies that from the run that we followed; not needed if our own lane goes on from before. The copy at
 * a slower replica may reach back further than ours, which began where our snapshot ended. */
static void rec_keep(struct log *l)
{
    l->chain_base = l->chain_end = l->applied;
    const uint64_t *own = l->peer[l->me].head[l->me];
    if (own[LOG_RUN] != 0 && own[LOG_START] <= l->applied && own[LOG_COMMIT] >= l->applied)
        return;
    if (l->follow >= l->n || l->follow == l->me)
        return;
    uint64_t best = l->applied;
    uint32_t at = l->me;
    for (uint32_t i = 0; i < l->all; i++) {
        uint32_t q = (l->me + i) % l->all; /* our own first */
        const uint64_t *head = l->peer[q].head[l->follow];
        if (!(l->rec.quorum >> q & 1) || l->peer[q].run[l->follow] != l->follow_ballot ||
            head[LOG_GUARD] < l->applied)
            continue;
        uint64_t from = recover_keep_from(l, head[LOG_START], head[LOG_GUARD]);
        if (from < best) {
            best = from;
            at = q;
        }
    }
    if (best < l->applied)
        rec_read(l, at, l->follow, best, l->applied, l->chain);
}

/* Up to where all entries of the lane are of its run. */
static uint64_t rec_solid(const uint64_t *head)
{
    return head[LOG_SOLID] != 0 && !PLANTED(solid_ignored) ? head[LOG_SOLID] : UINT64_MAX;
}

/* A lane of the quorum that holds decided entries from pos on; returns how far. */
static uint64_t rec_decided_lane(const struct log *l, uint64_t pos, uint32_t *q_out,
                                 uint32_t *w_out)
{
    const struct recovery *r = &l->rec;
    uint64_t best = pos;
    for (uint32_t q = 0; q < l->all; q++) {
        if (!(r->quorum >> q & 1))
            continue;
        for (uint32_t w = 0; w < lanes_of(l, q); w++) {
            const uint64_t *head = l->peer[q].head[w];
            uint64_t run = l->peer[q].run[w];
            if (run == 0 || head[LOG_START] > pos)
                continue;
            /* A run of at least the ballot that made the claim agrees with it; an older one only up
             * to its own claim. */
            uint64_t sure = run >= r->commit_run ? min_u64(head[LOG_GUARD], rec_solid(head))
                                                 : min_u64(head[LOG_COMMIT], head[LOG_GUARD]);
            sure = min_u64(sure, r->commit);
            if (sure > best) {
                best = sure;
                *q_out = q;
                *w_out = w;
            }
        }
    }
    return best;
}

/* Does the replica still hold whatever it accepted from pos on? Not if a lane begins beyond: then it had
 * applied what was before, and may have lost that since. */
static bool rec_covers(const struct log *l, uint32_t q, uint64_t pos)
{
    for (uint32_t w = 0; w < lanes_of(l, q); w++) {
        const uint64_t *head = l->peer[q].head[w];
        bool blank = head[LOG_RUN] == 0 && head[LOG_START] == 0 && head[LOG_GUARD] == 0;
        if (!blank && (l->peer[q].run[w] == 0 || head[LOG_START] > pos ||
                       head[LOG_GUARD] + l->put_max > pos + l->opt.log_bytes))
            return false;
    }
    return true;
}

/* What is decided beyond pos is in no lane that is sure of it: those who knew have forgotten. But if a
 * quorum still holds what it accepted, the decided entries are among that, and found like all others
 * that may be: at each position the one of the highest ballot. */
static bool rec_from_scratch(struct log *l, uint64_t pos)
{
    struct recovery *r = &l->rec;
    uint32_t mask = 0, count = 0;
    for (uint32_t q = 0; q < l->all; q++)
        if (r->quorum >> q & 1 && rec_covers(l, q, pos)) {
            mask |= 1u << q;
            count += has_vote(l, q);
        }
    if (count < l->quorum || (has_vote(l, l->me) && !(mask >> l->me & 1)))
        return false;
    r->quorum = mask;
    r->least = r->commit;
    r->commit = pos;
    r->commit_run = UINT64_MAX;
    return true;
}

/* Does another replica that lives have a state beyond ours? */
static bool rec_somebody_ahead(const struct log *l)
{
    for (uint32_t q = 0; q < l->n; q++)
        if (q != l->me && row_has_state(l, q) && table_get(l->rows, q, ROW_APPLIED) > l->applied &&
            !mem_dead(l->mem, l->opt.nodes[q]))
            return true;
    return false;
}

static void rec_decided(struct log *l)
{
    uint32_t q = 0, w = 0;
    uint64_t pos = l->chain_end;
    uint64_t end = rec_decided_lane(l, pos, &q, &w);
    if (end == pos && rec_from_scratch(l, pos))
        return;
    if (end == pos || !chain_fits(l, end)) {
        /* Nobody in the quorum has them as entries any more. If somebody has them as state, that one should
         * lead and we need a snapshot; else they are in the memory of who was not read. */
        if (rec_somebody_ahead(l)) {
            log_fall_behind(l);
            log_step_down(l, false);
        } else {
            l->rec.step = REC_IDLE;
            l->rec.needed = l->rec.read + 1;
        }
        return;
    }
    rec_read(l, q, w, pos, end, recovered_at(l, pos));
}

/* Starts reading the next lane that has something beyond the commit; false if there is none. */
static bool rec_suffix(struct log *l)
{
    struct recovery *r = &l->rec;
    for (; r->lane < l->all * LOG_LANES_MAX; r->lane++) {
        uint32_t q = r->lane / LOG_LANES_MAX, w = r->lane % LOG_LANES_MAX;
        if (w >= lanes_of(l, q) || !(r->quorum >> q & 1))
            continue;
        const uint64_t *head = l->peer[q].head[w];
        if (head[LOG_RUN] == 0 || head[LOG_GUARD] <= r->commit || head[LOG_START] > r->commit)
            continue;
        uint64_t from = r->commit;
        bool sure = head[LOG_RUN] >= r->commit_run && rec_solid(head) >= r->commit;
        if (!sure && head[LOG_COMMIT] < r->commit && !PLANTED(mid_entry))
            from = max_u64(head[LOG_START], head[LOG_COMMIT]);
        if (head[LOG_GUARD] - from > l->opt.log_bytes)
            continue;
        rec_read(l, q, w, from, head[LOG_GUARD], l->side);
        return true;
    }
    return false;
}

/* What was read is good if its lane's run did not change meanwhile. */
static bool rec_run_unchanged(const struct log *l)
{
    const struct recovery *r = &l->rec;
    const struct peer *p = &l->peer[r->q];
    return r->check[LOG_RUN] == p->head[r->w][LOG_RUN] && r->check[LOG_RUN] == p->run[r->w] &&
           r->check[LOG_START] == p->head[r->w][LOG_START];
}

/* Takes what was read into the chain. False: it cannot be used, and the attempt is over; if we are
 * too far behind for it to succeed next time, that is noted. */
static bool rec_take(struct log *l)
{
    struct recovery *r = &l->rec;
    /* Bytes one lap behind what is being written may be overwritten. */
    bool overrun =
        r->check[LOG_GUARD] + l->put_max > r->from + l->opt.log_bytes && !PLANTED(overrun_unseen);
    bool good = (rec_run_unchanged(l) || PLANTED(lane_unchecked)) && !overrun;
    switch (r->step) {
    case REC_KEEP:
        if (good && chain_walk(l, l->chain, r->from, r->end, r->end))
            l->chain_base = r->from;
        return true;
    case REC_DECIDED:
        if (overrun)
            log_fall_behind(l);
        if (!good || !chain_walk(l, recovered_at(l, r->from), r->from, r->end, r->end))
            return false;
        l->chain_end = r->end;
        return true;
    case REC_SUFFIX:
        if (!good)
            return false;
        r->lane++;
        if (!chain_walk(l, l->side, r->from, r->end, r->commit) ||
            chain_merge(l, l->side + (r->commit - r->from), r->commit, r->end))
            return true;
        log_fall_behind(l);
        return false;
    case REC_IDLE:
        break;
    }
    return false;
}

/* A promise made by an earlier life of a replica that has since been taken back without its memory
 * is void. The log says so: the join stands on a quorum that ours meets. */
static bool rec_promises_hold(const struct log *l)
{
    if (PLANTED(past_promises))
        return true;
    uint32_t joined[LOG_AGENTS_MAX];
    memcpy(joined, l->joined, sizeof(joined));
    for (uint64_t pos = l->applied; pos < l->chain_end;) {
        const struct entry *e = entry_at(l->chain + (pos - l->chain_base));
        if (e->source == SOURCE_LOG && e->srcpos == ENTRY_JOIN &&
            e->bytes == sizeof(struct entry_join)) {
            struct entry_join j;
            memcpy(&j, e->payload, sizeof(j));
            if (j.rank < l->all && j.life > joined[j.rank])
                joined[j.rank] = j.life;
        }
        pos += entry_size(e->bytes);
    }
    for (uint32_t q = 0; q < l->all; q++)
        if (l->rec.quorum >> q & 1 && joined[q] + 1 > l->peer[q].raised_life && joined[q] > 0)
            return false;
    return true;
}

static void rec_finish(struct log *l)
{
    l->rec.step = REC_IDLE;
    if (!rec_promises_hold(l) || l->chain_end < l->rec.least) {
        log_step_down(l, true);
        return;
    }
    l->commit = l->rec.commit;
    l->tail = l->chain_end;
    log_move(l, UNIT_SYNC);
    lead_sync_own(l);
}

/* A replica that has lost its memory since its heads were read, and is back from its disk, may have the very run in its lane, and less in
 * it. */
static enum mem_status rec_same_memory(struct log *l)
{
    struct recovery *r = &l->rec;
    if (!r->asking)
        peer_ask_same(l, r->q);
    r->asking = true;
    return peer_same(l, r->q);
}

static int rec_run(struct log *l)
{
    struct recovery *r = &l->rec;
    int work = 0;
    while (l->state == UNIT_CANDIDATE && r->step != REC_IDLE) {
        if (r->op.status == MEM_PENDING)
            return work;
        work++;
        if (r->reading) {
            if (r->op.status != MEM_DONE) {
                log_step_down(l, true);
                return work;
            }
            if (!r->checking) {
                r->checking = true;
                mem_read_ctl(l->mem, &r->op, l->lane[r->q][r->w], 0, LOG_WORDS, r->check);
                continue;
            }
            enum mem_status same = rec_same_memory(l);
            if (same == MEM_PENDING)
                return work - 1;
            r->reading = false;
            if (same != MEM_DONE || !rec_take(l)) {
                log_step_down(l, true);
                return work;
            }
            if (r->step == REC_KEEP)
                r->step = REC_DECIDED;
            continue;
        }
        if (r->step == REC_KEEP) {
            rec_keep(l);
            if (!r->reading)
                r->step = REC_DECIDED;
        } else if (r->step == REC_DECIDED) {
            if (l->chain_end < r->commit)
                rec_decided(l);
            else
                r->step = REC_SUFFIX;
        } else if (!rec_suffix(l)) {
            rec_finish(l);
        }
    }
    return work;
}

int recover_step(struct log *l)
{
    int work = 0;
    uint32_t ready = 0, voters = 0, mask = 0;
    for (uint32_t q = 0; q < l->all && l->state == UNIT_CANDIDATE; q++) {
        work += peer_step(l, q);
        /* On memory that answers at once the whole way is done in one go. */
        for (uint32_t i = 0; i < 5 && l->state == UNIT_CANDIDATE && peer_step(l, q); i++)
            work++;
        if (l->state == UNIT_CANDIDATE && l->peer[q].phase == PEER_READY) {
            ready += !(PLANTED(no_self_ack) && q == l->me);
            voters += has_vote(l, q) && !(PLANTED(no_self_ack) && q == l->me);
            mask |= 1u << q;
        }
    }
    if (l->state != UNIT_CANDIDATE)
        return work;
    if (l->rec.step == REC_IDLE && voters >= l->quorum && ready >= l->rec.needed &&
        mask >> l->me & 1) {
        l->rec.quorum = mask;
        l->rec.read = ready;
        l->rec.lane = 0;
        l->rec.least = 0;
        rec_find_commit(l);
        l->rec.step = REC_KEEP;
    }
    work += rec_run(l);
    if (l->state == UNIT_CANDIDATE && l->now_ns >= l->deadline_ns && !PLANTED(lost_request))
        log_step_down(l, true);
    return work;
}
