/* Room in the log, and who is in the way of it.
 *
 * A position is used again when every replica that is written to has applied it, and a quorum of those that live.
 * A replica that holds that up for detach_ns, or whom nobody hears any more, is *detached*: written to no more, if a
 * quorum remains without it. It must show that it runs before it is written to again: its heartbeat has moved, and
 * it has applied all that it was told of. Its memory alone is no sign of life: on shared memory that of a process
 * that hangs takes every write and answers every raise, and would fill up again at once. One that is detached again and
 * again waits twice as long each time, so that whatever is wrong with it costs the others little.
 *
 * Where there are memories, a position is used again when every replica that is written to has applied it, and no less
 * than one has: this one. So who is detached counts as failed until its state is in; the last other one is detached when
 * nobody hears it any more, and not for being slow. A memory needs what is not known to have landed there. */
#include "agree/log_impl.h"

enum { DETACHES_MAX = 6 }; /* that double the time until a replica may come back */

/* What is not known to have landed in a memory is sent again from our lane; and if its disk has not got it, that takes it from there. */
static uint64_t memory_needs_from(const struct log *l, uint32_t rank)
{
    const struct peer *p = &l->peer[rank];
    uint64_t there = log_kept(l) ? keep_end_of(l, rank) : p->flow.done;
    return p->phase == PEER_LIVE ? max_u64(p->start, there) : UINT64_MAX;
}

/* The first position that another replica, well or not, still needs; UINT64_MAX: none. */
static inline uint64_t needs_from(const struct log *l, uint32_t rank, bool well)
{
    uint64_t hold = l->peer[rank].hold;
    return well ? min_u64(hold, table_get(l->rows, rank, ROW_APPLIED)) : hold;
}

/* How far a quorum of those that live and have a state has applied the log. */
static uint64_t quorum_applied(const struct log *l)
{
    uint64_t sorted[LOG_REPLICAS_MAX];
    uint32_t count = 0;
    for (uint32_t q = 0; q < l->n; q++) {
        uint64_t applied = q == l->me ? l->applied : table_get(l->rows, q, ROW_APPLIED);
        if (!row_has_state(l, q) || (q != l->me && mem_dead(l->mem, l->opt.nodes[q])))
            continue;
        uint32_t i = count++;
        for (; i > 0 && sorted[i - 1] < applied; i--)
            sorted[i] = sorted[i - 1];
        sorted[i] = applied;
    }
    return count >= l->quorum ? sorted[l->quorum - 1] : l->needed;
}

/* Up to where the log may grow if what is before `from` is not needed any more. */
static uint64_t end_from(const struct log *l, uint64_t from)
{
    return from + l->opt.log_bytes - 2 * l->put_max;
}

uint64_t room_end(const struct log *l)
{
    uint64_t least = keep_stands_to(l);
    uint32_t count =
        1; /* of those that are written to, have a state and live as far as we know; to a quorum */
    for (uint32_t q = 0; q < l->n && !PLANTED(overrun); q++) {
        if (q == l->me)
            continue;
        bool well = peer_is_well(l, q);
        least = min_u64(least, needs_from(l, q, well));
        count += well && count < l->quorum && !mem_dead(l->mem, l->opt.nodes[q]);
    }
    for (uint32_t q = l->n; q < l->all && !PLANTED(overrun); q++)
        least = min_u64(least, memory_needs_from(l, q));
    /* Where memories hold the log a state may be one replica's alone: ours. */
    if (has_memories(l))
        return end_from(l, least);
    /* A quorum that is written to, and lives, has applied all that is before the least of it. */
    if (count >= l->quorum || PLANTED(overrun) || PLANTED(reuse_alone))
        return end_from(l, least);
    return end_from(l, min_u64(least, quorum_applied(l)));
}

/* ---- detaching ---- */

static uint64_t beat_of(const struct log *l, uint32_t rank)
{
    return is_memory(l, rank) ? l->memory[rank - l->n].answers : table_get(l->rows, rank, ROW_BEAT);
}

void room_detach(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    uint32_t live = 0;
    bool attached = p->phase == PEER_LIVE;
    p->hold = UINT64_MAX;
    if (l->snap_to == rank)
        snap_abort(l);
    for (uint32_t q = l->voters; q < l->all; q++)
        live += l->peer[q].phase == PEER_LIVE;
    if (p->phase == PEER_LIVE) {
        if (live <= l->quorum && has_vote(l, rank))
            return;
        peer_down(l, rank, l->now_ns);
        l->count.shed++;
    }
    /* One that has read a whole ring since it was attached was well in between. */
    if (attached && !is_memory(l, rank) &&
        table_get(l->rows, rank, ROW_APPLIED) >= p->start + l->opt.log_bytes)
        p->detaches = 0;
    p->detaches += p->detaches < DETACHES_MAX;
    p->detached_ns = l->now_ns;
    p->detached_beat = beat_of(l, rank);
}

/* The dead and the silent will not apply anything soon. */
static bool is_gone(const struct log *l, uint32_t rank)
{
    return mem_dead(l->mem, l->opt.nodes[rank]) ||
           (oracle_silent(&l->oracle, rank, l->now_ns) && !PLANTED(hung_again));
}

/* Where memories vote, the only other replica that has the state, or is about to: without it, it would be ours alone. */
static bool is_last_other(const struct log *l, uint32_t rank)
{
    if (!has_memories(l) || is_memory(l, rank))
        return false;
    for (uint32_t q = 0; q < l->n; q++)
        if (q != l->me && q != rank && peer_is_well(l, q))
            return false;
    return true;
}

static uint64_t anybody_needs_from(const struct log *l, uint32_t rank)
{
    if (is_memory(l, rank))
        return memory_needs_from(l, rank);
    return rank == l->me ? UINT64_MAX : needs_from(l, rank, peer_is_well(l, rank));
}

void room_missing(struct log *l, uint64_t end)
{
    l->stuck = true;
    for (uint32_t q = 0; q < l->all; q++) {
        struct peer *p = &l->peer[q];
        uint64_t needs = anybody_needs_from(l, q);
        if (needs == UINT64_MAX || end_from(l, needs) >= end) {
            p->stuck_ns = 0;
        } else if (p->stuck_ns == 0 || needs != p->stuck_at) {
            p->stuck_ns = l->now_ns;
            p->stuck_at = needs;
        } else if ((l->now_ns - p->stuck_ns >= l->opt.detach_ns && !is_last_other(l, q)) ||
                   is_gone(l, q)) {
            p->stuck_ns = 0;
            room_detach(l, q);
        }
    }
}

void room_found(struct log *l)
{
    l->stuck = false;
    for (uint32_t q = 0; q < l->all; q++)
        l->peer[q].stuck_ns = 0;
}

/* ---- coming back ---- */

bool room_keeps_out(const struct log *l, uint32_t rank)
{
    const struct peer *p = &l->peer[rank];
    if (p->detached_ns == 0 || PLANTED(hung_again))
        return false;
    return beat_of(l, rank) == p->detached_beat ||
           l->now_ns - p->detached_ns < l->opt.detach_ns << (p->detaches - 1);
}

bool room_awaits_apply(const struct log *l, uint32_t rank)
{
    const struct peer *p = &l->peer[rank];
    const uint64_t *head = p->head[l->me];
    if (p->detached_ns == 0 || head[LOG_RUN] != l->ballot || PLANTED(hung_again))
        return false;
    if (is_memory(l, rank))
        return log_kept(l) && keep_end_of(l, rank) < head[LOG_GUARD];
    return table_get(l->rows, rank, ROW_APPLIED) + keep_unsaid_max(l) < head[LOG_COMMIT];
}
