/* Snapshots and coming back (protocols F8).
 *
 * A leader offers a snapshot to a replica that has no state (a new life) or that lacks entries which
 * nobody holds any more. The offer stands in the replica's snapshot lane; by showing its id in
 * its row the replica says that it has stopped reading log lanes and is taking it. Bytes then flow
 * through the lane's ring, paced by the row. What the log derives from its entries goes first, the
 * machine's state after it.
 *
 *      head    | magic | position | replicas | sources | joined[replicas] | (taken, life)[sources] |
 *
 * A replica that lost its memory has promised and accepted things it no longer knows of. It promises
 * nothing (MEM_CLOSED) until the group has committed its return on a quorum without it, it has a
 * snapshot from after that, and it has taken on the highest promise among a quorum of the
 * others. */
#include "agree/log_impl.h"

#define SNAP_MAGIC UINT64_C(0x74726d736e617031)

enum {
    SNAP_HEAD_WORDS = 4,
    SNAP_PATIENCE = 4,  /* times detach_ns without progress */
    LOSS_PATIENCE = 20, /* times suspect_ns with too few who remember anything */
};

uint32_t snap_head_size(const struct log_options *o)
{
    return (SNAP_HEAD_WORDS + o->replicas + 2 * (o->sources + o->streams)) * 8;
}

/* ---- sending ---- */

static void head_write(struct log *l)
{
    uint64_t *w = (uint64_t *)(void *)l->snap_head;
    *w++ = SNAP_MAGIC;
    *w++ = l->applied;
    *w++ = l->n;
    *w++ = l->sources;
    for (uint32_t q = 0; q < l->n; q++)
        *w++ = l->joined[q];
    for (uint32_t s = 0; s < l->sources; s++) {
        *w++ = PLANTED(snap_no_sources) ? stream_start() : l->source[s].taken;
        *w++ = l->source[s].life;
    }
}

void snap_abort(struct log *l)
{
    if (l->snap_to >= l->n)
        return;
    struct peer *p = &l->peer[l->snap_to];
    l->opt.machine->save_close(l->opt.ctx);
    p->snap_id = 0;
    p->hold = UINT64_MAX;
    /* It may have loaded the snapshot all the same and read on from there, and nothing keeps
     * that part of the log any more: write to it only after another look at its row. */
    if (p->phase == PEER_LIVE) {
        mem_flow_close(l->mem, &p->flow);
        p->phase = PEER_DOWN;
        p->retry_ns = l->now_ns + l->opt.heartbeat_ns;
    }
    l->snap_to = l->n;
}

static void offer(struct log *l, uint32_t q)
{
    struct peer *p = &l->peer[q];
    uint64_t bytes = l->opt.machine->save_open(l->opt.ctx);
    head_write(l);
    l->snap_total = l->snap_head_bytes + ((bytes + 7) & ~UINT64_C(7));
    l->snap_to = q;
    p->snap_id = l->ballot << 16 | (++l->snap_count & 0xffff);
    p->snap_life = row_word(l, q, ROW_INCARNATION);
    p->snap_pos = p->hold = l->applied;
    p->snap_sent = p->snap_taken = 0;
    p->snap_moved_ns = l->now_ns;
    mem_set1(l->mem, &p->open, l->snap_out[q], SNAP_GUARD, 0);
    uint64_t words[] = {p->snap_life, l->applied, l->snap_total};
    mem_set(l->mem, &p->open, l->snap_out[q], SNAP_LIFE, words, 3);
    mem_set1(l->mem, &p->open, l->snap_out[q], SNAP_ID, p->snap_id);
    mem_bell(l->mem, l->opt.nodes[q]);
}

/* True if the replica can be offered a snapshot now. One that lost its memory is first taken back
 * by an entry of the log. */
static bool wants_snapshot(struct log *l, uint32_t q)
{
    struct peer *p = &l->peer[q];
    uint64_t flags = row_word(l, q, ROW_FLAGS);
    bool stale = p->phase == PEER_READY && lead_row_is_new(l, q) && lead_too_old(l, q);
    if (q == l->me || !(flags & ROW_BEHIND || stale) || p->open.status != MEM_DONE)
        return false;
    if (oracle_silent(&l->oracle, q, l->now_ns) || mem_dead(l->mem, l->opt.nodes[q]) ||
        room_keeps_out(l, q))
        return false;
    if (p->phase == PEER_LIVE && l->applied < p->start)
        return false; /* it could not go on from there */
    if (!(flags & ROW_JOINING))
        return true;
    uint32_t life = (uint32_t)row_word(l, q, ROW_INCARNATION);
    if (l->joined[q] + 1 >= life)
        return true;
    if (l->serving && l->join_asked[q] != life) {
        struct entry_join j = {.rank = q, .incarnation = life - 1};
        if (lead_propose(l, ENTRY_JOIN, &j, sizeof(j)))
            l->join_asked[q] = life;
    }
    return false;
}

/* Writes as much of the snapshot as the lane has room for. */
static int send_more(struct log *l, struct peer *p, struct mem_lane *lane)
{
    uint64_t room_end = p->snap_taken + l->opt.snap_bytes;
    uint64_t end = min_u64(min_u64(l->snap_total, room_end), p->snap_sent + l->put_max);
    if (end <= p->snap_sent)
        return 0;
    uint64_t at = p->snap_sent, fill = 0;
    if (at < l->snap_head_bytes) {
        fill = min_u64(l->snap_head_bytes, end) - at;
        memcpy(l->batch, l->snap_head + at, fill);
    }
    if (at + fill < end)
        l->opt.machine->save_read(l->opt.ctx, at + fill - l->snap_head_bytes, l->batch + fill,
                                  (uint32_t)(end - at - fill));
    mem_put(l->mem, &p->open, lane, at, l->batch, (uint32_t)(end - at));
    mem_set1(l->mem, &p->open, lane, SNAP_GUARD, end);
    mem_bell(l->mem, lane->spec.owner); /* the log is held for it meanwhile */
    p->snap_sent = end;
    return 1;
}

int snap_send(struct log *l)
{
    if (l->snap_to >= l->n) {
        for (uint32_t q = 0; q < l->n; q++)
            if (wants_snapshot(l, q)) {
                offer(l, q);
                return 1;
            }
        return 0;
    }
    uint32_t q = l->snap_to;
    struct peer *p = &l->peer[q];
    if (row_word(l, q, ROW_SNAP_ID) == p->snap_id) {
        uint64_t taken = row_word(l, q, ROW_SNAP_TAKEN);
        if (taken != p->snap_taken && taken <= p->snap_sent) {
            p->snap_taken = taken;
            p->snap_moved_ns = l->now_ns;
        }
        if (taken == l->snap_total && !(row_word(l, q, ROW_FLAGS) & ROW_BEHIND)) {
            /* From here on its own row says what it needs; one that still has to be let in by a
             * raise keeps its hold until then. */
            l->stats.snapshots_sent++;
            l->opt.machine->save_close(l->opt.ctx);
            p->snap_id = 0;
            if (p->phase == PEER_LIVE)
                p->hold = UINT64_MAX;
            p->retry_ns = l->now_ns; /* at once: the log fills up behind what is held for it */
            l->snap_to = l->n;
            return 1;
        }
        if (send_more(l, p, l->snap_out[q]))
            return 1;
    }
    /* A life that began meanwhile knows nothing of an offer to the one before. */
    if (p->open.status != MEM_DONE || row_word(l, q, ROW_INCARNATION) != p->snap_life ||
        l->now_ns - p->snap_moved_ns > SNAP_PATIENCE * l->opt.detach_ns)
        snap_abort(l);
    return 0;
}

/* ---- taking ---- */

/* The newest offer made to this life; n if there is none that is newer than what was taken. Only the
 * leader of our promise keeps the log from the snapshot on; a deposed one may not know yet. */
static uint32_t newest_offer(const struct log *l)
{
    uint32_t best = l->n;
    uint64_t promised = mem_promised(l->mem, l->opt.region);
    uint64_t best_id = l->load_id;
    if (promised != MEM_CLOSED)
        best_id = max_u64(best_id, (promised << 16) - 1);
    for (uint32_t w = 0; w < l->n; w++) {
        if (w == l->me || l->snap_in[w]->ctl == NULL)
            continue;
        uint64_t id = mem_word(l->snap_in[w], SNAP_ID);
        if (id > best_id && mem_word(l->snap_in[w], SNAP_LIFE) == l->row[ROW_INCARNATION]) {
            best = w;
            best_id = id;
        }
    }
    return best;
}

/* A replica that believes itself up to date, and is offered a snapshot, is not. */
void snap_notice(struct log *l)
{
    uint32_t from = newest_offer(l);
    if (from < l->n && mem_word(l->snap_in[from], SNAP_POS) > l->applied &&
        l->state == LOG_FOLLOWER)
        log_fall_behind(l);
}

static bool head_read(struct log *l)
{
    const uint64_t *w = (const uint64_t *)(const void *)l->snap_head;
    if (w[0] != SNAP_MAGIC || w[1] != l->load_pos || w[2] != l->n || w[3] != l->sources)
        return false;
    w += SNAP_HEAD_WORDS;
    for (uint32_t q = 0; q < l->n; q++)
        l->joined[q] = (uint32_t)*w++;
    for (uint32_t s = 0; s < l->sources; s++, w += 2)
        source_load(&l->source[s], w[0], w[1]);
    return true;
}

/* Feeds [load_taken, guard) to the head buffer and the machine. */
static void consume(struct log *l, const struct mem_lane *lane, uint64_t guard)
{
    while (l->load_taken < guard) {
        const unsigned char *at = lane->ring + (l->load_taken & (l->opt.snap_bytes - 1));
        uint64_t bytes =
            min_u64(guard - l->load_taken, ring_straight(l->opt.snap_bytes, l->load_taken));
        if (l->load_taken < l->snap_head_bytes) {
            bytes = min_u64(bytes, l->snap_head_bytes - l->load_taken);
            memcpy(l->snap_head + l->load_taken, at, bytes);
            if (l->load_taken + bytes == l->snap_head_bytes) {
                if (!head_read(l)) {
                    log_stop(l, "a snapshot is malformed");
                    return;
                }
                l->opt.machine->load_open(l->opt.ctx, l->load_total - l->snap_head_bytes);
            }
        } else {
            l->opt.machine->load_write(l->opt.ctx, at, (uint32_t)bytes);
        }
        l->load_taken += bytes;
    }
}

static void load_done(struct log *l)
{
    l->opt.machine->load_close(l->opt.ctx);
    l->loading = false;
    l->applied = l->load_pos;
    l->follow = l->n;
    l->behind = false;
    l->stats.snapshots_loaded++;
    l->row[ROW_APPLIED] = l->applied;
    l->row[ROW_FLAGS] &= ~(uint64_t)ROW_BEHIND;
}

int snap_take(struct log *l)
{
    uint32_t from = newest_offer(l);
    int work = 0;
    if (from < l->n) {
        const struct mem_lane *lane = l->snap_in[from];
        l->load_id = mem_word(lane, SNAP_ID);
        l->load_pos = mem_word(lane, SNAP_POS);
        l->load_total = mem_word(lane, SNAP_BYTES);
        l->load_from = from;
        l->load_taken = 0;
        l->loading = l->load_total >= l->snap_head_bytes;
        /* The count must be back at 0 wherever the id is seen, and a row lands in any order. */
        l->row[ROW_SNAP_TAKEN] = 0;
        log_row_push(l);
        l->row[ROW_SNAP_ID] = l->load_id;
        log_row_push(l);
        mem_bell(l->mem, l->opt.nodes[from]);
        work++;
    }
    if (!l->loading)
        return work;
    const struct mem_lane *lane = l->snap_in[l->load_from];
    uint64_t promised = mem_promised(l->mem, l->opt.region);
    if (mem_word(lane, SNAP_ID) != l->load_id ||
        (promised != MEM_CLOSED && promised != l->load_id >> 16)) {
        l->loading = false; /* replaced: a newer one will come */
        return work;
    }
    uint64_t guard = mem_word(lane, SNAP_GUARD);
    if (guard <= l->load_taken || guard > l->load_total)
        return work;
    consume(l, lane, guard);
    if (l->broken)
        return 1;
    l->row[ROW_SNAP_TAKEN] = l->load_taken;
    if (l->load_taken == l->load_total)
        load_done(l);
    log_row_push(l);
    /* The row must be out before a lane is read again, so that no leader still believes that we
     * read none. */
    for (uint32_t q = 0; q < l->n; q++)
        mem_mark(l->mem, &l->peer[q].open, ++l->row_marks);
    mem_bell(l->mem, l->opt.nodes[l->load_from]);
    return 1;
}

/* ---- joining ---- */

/* So many have lost their memory that no quorum is left to take anybody back: this will not mend. */
static void look_for_loss(struct log *l)
{
    uint32_t joining = 0;
    for (uint32_t q = 0; q < l->n; q++)
        joining += (row_word(l, q, ROW_FLAGS) & ROW_JOINING) != 0;
    if (l->n - joining >= l->quorum)
        l->loss_ns = 0;
    else if (l->loss_ns == 0)
        l->loss_ns = l->now_ns;
    else if (l->now_ns - l->loss_ns > LOSS_PATIENCE * l->opt.suspect_ns) {
        l->lost = true;
        log_stop(l,
                 "the memory of a majority of the group is lost, and with it what the group had; "
                 "stop all its hosts and start the cluster anew");
    }
}

/* With state from after the return, take on the highest promise of a quorum of the others. */
int join_step(struct log *l)
{
    look_for_loss(l);
    if (l->behind)
        return 0;
    if (l->joined[l->me] < l->mem->incarnation) {
        log_fall_behind(l); /* that snapshot was from before the return */
        return 1;
    }
    uint32_t answered = 0;
    uint64_t highest = 0;
    for (uint32_t q = 0; q < l->n; q++) {
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
    if (answered < l->quorum)
        return 0;
    mem_region_grant(l->mem, l->opt.region, highest);
    l->row[ROW_FLAGS] = 0;
    log_move(l, LOG_FOLLOWER);
    return 1;
}
