/* From a replica that is not reached to one whose promise we have and whose lanes we have read.
 *
 *      DOWN -> RAISE -> RUNS -> HEADS -> VERIFY -> READY          (kept on disk: VERIFY -> PLEDGE -> READY)
 *              RAISE -> GRANT -> RAISE                             a memory that has lost what it had
 *
 * First the promise, then the reads: what was written under a lower ballot and is reported done is in what we read.
 * Of each lane RUN is read before and after the other words, so that they are known to be of one run. Last, the promise
 * is looked at again: the replica may have lost its memory, and the promise with it, while we read. */
#include "agree/log_impl.h"

#define MOVE(phase) (1u << PEER_##phase)

/* The legal moves of a peer, masks of enum peer_phase. A candidacy begins with all of them DOWN, and log_step_down
 * leaves them so. */
static const unsigned moves[] = {
    [PEER_DOWN] = MOVE(DOWN) | MOVE(RAISE),
    [PEER_RAISE] = MOVE(DOWN) | MOVE(RUNS) | MOVE(GRANT),
    [PEER_GRANT] = MOVE(DOWN) | MOVE(RAISE),
    [PEER_RUNS] = MOVE(DOWN) | MOVE(HEADS),
    [PEER_HEADS] = MOVE(DOWN) | MOVE(VERIFY),
    [PEER_VERIFY] = MOVE(DOWN) | MOVE(READY) | MOVE(PLEDGE),
    [PEER_PLEDGE] = MOVE(DOWN) | MOVE(READY),
    [PEER_READY] = MOVE(DOWN) | MOVE(RAISE) | MOVE(COMPARE) | MOVE(LIVE),
    [PEER_COMPARE] = MOVE(DOWN) | MOVE(READY),
    [PEER_LIVE] = MOVE(DOWN),
};

void peer_move(struct log *l, uint32_t rank, enum peer_phase to)
{
    struct peer *p = &l->peer[rank];
    CHECK(moves[p->phase] & 1u << to);
    CHECK(to == PEER_DOWN || l->ballot != 0);
    CHECK(to != PEER_LIVE || log_leading(l));
    p->phase = to;
}

void peer_down(struct log *l, uint32_t rank, uint64_t retry_ns)
{
    struct peer *p = &l->peer[rank];
    if (p->phase == PEER_LIVE || (log_kept(l) && p->phase > PEER_GRANT))
        mem_flow_close(l->mem, &p->flow);
    peer_move(l, rank, PEER_DOWN);
    p->retry_ns = retry_ns;
}

/* It could not be reached, or does not promise. */
static int try_later(struct log *l, uint32_t rank)
{
    bool never = PLANTED(lost_request) && l->state == UNIT_CANDIDATE;
    peer_down(l, rank, never ? UINT64_MAX : l->now_ns + l->opt.heartbeat_ns);
    return 1;
}

static uint32_t rank_of(const struct log *l, const struct peer *p)
{
    return (uint32_t)(p - l->peer);
}

static bool lane_ops_pending(const struct log *l, const struct peer *p)
{
    for (uint32_t w = 0; w < lanes_of(l, rank_of(l, p)); w++)
        if (p->lane_op[w].status == MEM_PENDING)
            return true;
    return false;
}

static bool lane_ops_lost(const struct log *l, const struct peer *p)
{
    for (uint32_t w = 0; w < lanes_of(l, rank_of(l, p)); w++)
        if (p->lane_op[w].status != MEM_DONE)
            return true;
    return false;
}

static void read_runs(struct log *l, uint32_t rank, uint64_t *into)
{
    struct peer *p = &l->peer[rank];
    for (uint32_t w = 0; w < lanes_of(l, rank); w++)
        mem_read_ctl(l->mem, &p->lane_op[w], l->lane[rank][w], LOG_RUN, 1, &into[w]);
}

static void read_heads(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    for (uint32_t w = 0; w < lanes_of(l, rank); w++)
        mem_read_ctl(l->mem, &p->lane_op[w], l->lane[rank][w], 0, LOG_WORDS, p->head[w]);
}

/* The words of a head are read in any order. They are of one run only if that stood in RUN before the first of them was
 * read, and still does after the last. */
static void drop_changed_runs(const struct log *l, struct peer *p)
{
    for (uint32_t w = 0; w < lanes_of(l, rank_of(l, p)); w++)
        if (p->run[w] != p->head[w][LOG_RUN] ||
            (p->run[w] != p->run_after[w] && !PLANTED(run_read_once)))
            p->run[w] = 0;
}

/* The planted own_not_fenced: our own memory is read at once, and promises when all others have. */
#define OWN_READ_EARLY(l, rank) (PLANTED(own_not_fenced) && (rank) == (l)->me)

/* The planted peek_for_flow: as it is where nothing is kept. */
static bool by_flow(const struct log *l)
{
    return log_kept(l) && !PLANTED(peek_for_flow);
}

/* The raise has an answer, or not yet. */
static int raise_settle(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    switch (p->op.status) {
    case MEM_PENDING:
        return 0;
    case MEM_DONE:
        if (PLANTED(read_ungranted))
            return planted_heads_are_read(p);
        if (log_kept(l)) {
            mem_flow_open(l->mem, &p->flow, l->opt.nodes[rank], l->opt.region, l->ballot);
            mem_bell(l->mem, l->opt.nodes[rank]); /* it has a promise to write */
        }
        read_runs(l, rank, p->run);
        peer_move(l, rank, PEER_RUNS);
        return 1;
    case MEM_DENIED:
        if (p->op.value == MEM_CLOSED && is_memory(l, rank) && memory_take_back(l, rank)) {
            peer_move(l, rank, PEER_GRANT);
            return 1;
        }
        if (p->op.value == MEM_CLOSED)
            return try_later(l, rank);
        l->ballot_seen = max_u64(l->ballot_seen, p->op.value);
        log_step_down(l, true);
        return 1;
    case MEM_LOST:
        return try_later(l, rank);
    }
    return 0;
}

static int raise_step(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    /* Those of an earlier attempt may still land. */
    if (p->op.status == MEM_PENDING || lane_ops_pending(l, p))
        return 0;
    if (p->raised == l->ballot)
        return raise_settle(l, rank);
    p->raised = l->ballot;
    p->raised_life = member_life(l, rank);
    if (PLANTED(read_ungranted) || OWN_READ_EARLY(l, rank))
        read_heads(l, rank);
    if (OWN_READ_EARLY(l, rank))
        return planted_raise_later(p);
    mem_raise(l->mem, &p->op, l->opt.nodes[rank], l->opt.region, l->ballot);
    if (PLANTED(tries_once) && p->op.status == MEM_LOST)
        return peer_down(l, rank, UINT64_MAX), 1;
    return p->op.status == MEM_PENDING ? 1 : raise_step(l, rank);
}

/* Open, by us or by whoever was first; or in another life by now: the raise tells. */
static int grant_step(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    if (p->op.status == MEM_PENDING)
        return 0;
    if (p->op.status == MEM_LOST)
        return try_later(l, rank);
    peer_move(l, rank, PEER_RAISE);
    p->raised = 0;
    return 1;
}

static int runs_step(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    if (lane_ops_pending(l, p))
        return 0;
    if (lane_ops_lost(l, p))
        return try_later(l, rank);
    read_heads(l, rank);
    peer_move(l, rank, PEER_HEADS);
    return 1;
}

static int heads_step(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    if (lane_ops_pending(l, p))
        return 0;
    if (lane_ops_lost(l, p))
        return try_later(l, rank);
    if (PLANTED(read_ungranted) || PLANTED(own_not_fenced))
        planted_runs_of_heads(l, p);
    if (OWN_READ_EARLY(l, rank))
        return planted_raise_own_last(l);
    read_runs(l, rank, p->run_after);
    if (by_flow(l))
        mem_mark(l->mem, &p->flow, 1);
    else
        mem_peek(l->mem, &p->op, l->opt.nodes[rank], l->opt.region);
    peer_move(l, rank, PEER_VERIFY);
    return 1;
}

/* Does the promise still stand, in the memory that was read? One that comes back from its disk may have the very ballot, so a look
 * at the word does not tell; but no flow spans two memories. */
static enum mem_status stands(const struct log *l, const struct peer *p)
{
    if (!by_flow(l)) {
        bool good = p->op.status == MEM_DONE && (p->op.value == l->ballot || PLANTED(unverified));
        return p->op.status == MEM_PENDING || good ? p->op.status : MEM_LOST;
    }
    if (p->flow.status != MEM_DONE)
        return MEM_LOST;
    return p->flow.done == 1 ? MEM_DONE : MEM_PENDING;
}

void peer_ask_same(struct log *l, uint32_t rank)
{
    if (by_flow(l))
        mem_mark(l->mem, &l->peer[rank].flow, 1);
}

enum mem_status peer_same(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    enum mem_status status = by_flow(l) ? stands(l, p) : MEM_DONE;
    if (by_flow(l) && status == MEM_DONE)
        p->flow.marked = p->flow.done = 0;
    return status;
}

static void ready(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    if (log_kept(l))
        p->flow.marked = p->flow.done =
            0; /* from here on tags are positions; nothing is under way */
    peer_move(l, rank, PEER_READY);
    l->peer[rank].retry_ns = l->now_ns + l->opt.heartbeat_ns;
}

static int verify_step(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    enum mem_status status = stands(l, p);
    if (status == MEM_PENDING || lane_ops_pending(l, p))
        return 0;
    if (status != MEM_DONE || lane_ops_lost(l, p))
        return try_later(l, rank);
    drop_changed_runs(l, p);
    if (log_kept(l))
        peer_move(l, rank, PEER_PLEDGE);
    else
        ready(l, rank);
    return 1;
}

/* A promise that its disk does not have could be made again, for other entries, by the next life. */
static int pledge_step(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    if (p->flow.status != MEM_DONE && by_flow(l))
        return try_later(l, rank);
    if (!keep_is_pledged(l, rank)) {
        if (rank != l->me && keep_life_of(l, rank) > p->raised_life)
            return try_later(l, rank);
        return 0;
    }
    ready(l, rank);
    return 1;
}

int peer_step(struct log *l, uint32_t rank)
{
    struct peer *p = &l->peer[rank];
    switch (p->phase) {
    case PEER_DOWN:
        if (l->now_ns < p->retry_ns)
            return 0;
        peer_move(l, rank, PEER_RAISE);
        p->raised = 0;
        return raise_step(l, rank);
    case PEER_RAISE:
        return raise_step(l, rank);
    case PEER_GRANT:
        return grant_step(l, rank);
    case PEER_RUNS:
        return runs_step(l, rank);
    case PEER_HEADS:
        return heads_step(l, rank);
    case PEER_VERIFY:
        return verify_step(l, rank);
    case PEER_PLEDGE:
        return pledge_step(l, rank);
    case PEER_READY:
    case PEER_COMPARE:
    case PEER_LIVE:
        return 0;
    }
    return 0;
}
