/* From a replica that is not reached to one whose promise we have and whose lanes we have read (protocols F1).
 *
 *      DOWN -> RAISE -> RUNS -> HEADS -> VERIFY -> READY
 *
 * First the promise, then the reads: what was written under a lower ballot and is reported done is in what we read.
 * Of each lane RUN is read before and after the other words, so that they are known to be of one run. Last, the promise
 * is looked at again: the replica may have lost its memory, and the promise with it, while we read. */
#include "agree/log_impl.h"

static bool lane_ops_pending(const struct log *l, const struct peer *p)
{
    for (uint32_t w = 0; w < l->n; w++)
        if (p->lane_op[w].status == MEM_PENDING)
            return true;
    return false;
}

static bool lane_ops_lost(const struct log *l, const struct peer *p)
{
    for (uint32_t w = 0; w < l->n; w++)
        if (p->lane_op[w].status != MEM_DONE)
            return true;
    return false;
}

static void peer_down(struct log *l, struct peer *p)
{
    p->phase = PEER_DOWN;
    p->retry_ns = PLANTED(lost_request) && l->state == UNIT_CANDIDATE
                      ? UINT64_MAX
                      : l->now_ns + l->opt.heartbeat_ns;
}

static void read_runs(struct log *l, uint32_t rank, uint64_t *into)
{
    struct peer *p = &l->peer[rank];
    for (uint32_t w = 0; w < l->n; w++)
        mem_read_ctl(l->mem, &p->lane_op[w], l->lane[rank][w], LOG_RUN, 1, &into[w]);
}

static void read_heads(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    for (uint32_t w = 0; w < l->n; w++)
        mem_read_ctl(l->mem, &p->lane_op[w], l->lane[rank][w], 0, LOG_WORDS, p->head[w]);
    p->phase = PEER_HEADS;
}

/* The words of a head are read in any order. They are of one run only if that stood in RUN before the first of them was
 * read, and still does after the last. */
static void drop_changed_runs(const struct log *l, struct peer *p)
{
    for (uint32_t w = 0; w < l->n; w++)
        if (p->run[w] != p->head[w][LOG_RUN] ||
            (p->run[w] != p->run_after[w] && !PLANTED(run_read_once)))
            p->run[w] = 0;
}

static int peer_raised(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    switch (p->op.status) {
    case MEM_PENDING:
        return 0;
    case MEM_DONE:
        if (PLANTED(read_ungranted))
            p->phase = PEER_HEADS;
        else {
            read_runs(l, rank, p->run);
            p->phase = PEER_RUNS;
        }
        return 1;
    case MEM_DENIED:
        if (p->op.value == MEM_CLOSED) {
            peer_down(l, p);
        } else {
            l->ballot_seen = max_u64(l->ballot_seen, p->op.value);
            log_step_down(l, true);
        }
        return 1;
    case MEM_LOST:
        peer_down(l, p);
        return 1;
    }
    return 0;
}

/* The planted T4: our own memory was read at once, and promises when all others have. */
static int raise_own_last(struct log *l)
{
    struct peer *p = &l->peer[l->me];
    uint32_t others = 0;
    for (uint32_t q = 0; q < l->n; q++)
        others += q != l->me && l->peer[q].phase >= PEER_READY;
    if (p->raised != l->ballot && others + 1 >= l->quorum && p->op.status != MEM_PENDING) {
        p->raised = l->ballot;
        mem_raise(l->mem, &p->op, l->opt.nodes[l->me], l->opt.region, l->ballot);
    }
    if (p->raised != l->ballot || p->op.status == MEM_PENDING)
        return 0;
    if (p->op.status == MEM_DONE)
        p->phase = PEER_READY;
    else
        log_step_down(l, true);
    return 1;
}

/* Moves one replica from unreached to READY; may end the candidacy or leadership. */
int peer_step(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    switch (p->phase) {
    case PEER_DOWN:
        if (l->now_ns < p->retry_ns)
            return 0;
        p->phase = PEER_RAISE;
        p->raised = 0;
        /* fall through */
    case PEER_RAISE:
        if (p->op.status == MEM_PENDING || lane_ops_pending(l, p))
            return 0;
        if (p->raised == l->ballot)
            return peer_raised(l, rank);
        p->raised = l->ballot;
        p->raised_life = row_word(l, rank, ROW_LIFE);
        if (PLANTED(own_not_fenced) && rank == l->me) {
            p->raised = 0;
            read_heads(l, rank);
            return 1;
        }
        if (PLANTED(read_ungranted)) {
            read_heads(l, rank);
            p->phase = PEER_RAISE;
        }
        mem_raise(l->mem, &p->op, l->opt.nodes[rank], l->opt.region, l->ballot);
        if (PLANTED(tries_once) && p->op.status == MEM_LOST) {
            p->phase = PEER_DOWN;
            p->retry_ns = UINT64_MAX;
            return 1;
        }
        return p->op.status == MEM_PENDING ? 1 : peer_step(l, rank);
    case PEER_RUNS:
        if (lane_ops_pending(l, p))
            return 0;
        if (lane_ops_lost(l, p))
            peer_down(l, p);
        else
            read_heads(l, rank);
        return 1;
    case PEER_HEADS:
        if (lane_ops_pending(l, p))
            return 0;
        if (lane_ops_lost(l, p)) {
            peer_down(l, p);
            return 1;
        }
        if (PLANTED(read_ungranted) || PLANTED(own_not_fenced))
            for (uint32_t w = 0; w < l->n; w++)
                p->run[w] = p->head[w][LOG_RUN];
        if (PLANTED(own_not_fenced) && rank == l->me)
            return raise_own_last(l);
        read_runs(l, rank, p->run_after);
        mem_peek(l->mem, &p->op, l->opt.nodes[rank], l->opt.region);
        p->phase = PEER_VERIFY;
        return 1;
    case PEER_VERIFY:
        if (p->op.status == MEM_PENDING || lane_ops_pending(l, p))
            return 0;
        if (p->op.status == MEM_DONE && (p->op.value == l->ballot || PLANTED(unverified)) &&
            !lane_ops_lost(l, p)) {
            drop_changed_runs(l, p);
            p->phase = PEER_READY;
            p->retry_ns = l->now_ns + l->opt.heartbeat_ns;
        } else {
            peer_down(l, p);
        }
        return 1;
    case PEER_READY:
    case PEER_COMPARE:
    case PEER_LIVE:
        return 0;
    }
    return 0;
}
