/* What holds in a log after every post and every settle, whatever happens: for the simulator, for tests and for debug
 * builds. The few rules that cost nearly nothing are checked in every build where they could break (log.c, log_lead.c,
 * log_raise.c).
 *
 * Not here: that the log agrees with other replicas' (src/sim/log_check.c). */
#include "agree/log_impl.h"

static bool trying(const struct log *l)
{
    return l->state == UNIT_CANDIDATE || log_leading(l);
}

static const char *check_state(const struct log *l)
{
    bool closed = mem_promised(l->mem, l->opt.region) == MEM_CLOSED;
    if ((l->ballot != 0) != trying(l))
        return "it has a ballot if and only if it leads or tries to";
    if (l->ballot != 0 && l->ballot % l->n != l->me)
        return "its ballot is one of its own";
    if ((l->state == UNIT_JOINING) != closed)
        return "it joins if and only if its memory promises nothing";
    if (trying(l) && l->behind)
        return "who has no state neither leads nor tries to";
    return NULL;
}

static const char *check_row(const struct log *l)
{
    uint64_t flags = (l->behind ? ROW_BEHIND : 0) | (l->state == UNIT_JOINING ? ROW_JOINING : 0) |
                     (l->keep.unfit ? ROW_FULL : 0);
    if (table_get(l->rows, l->me, ROW_FLAGS) != flags)
        return "its row says whether it has a state and promises";
    if (table_get(l->rows, l->me, ROW_BALLOT) != l->ballot)
        return "its row says under which ballot it leads or tries to";
    if (!l->behind && table_get(l->rows, l->me, ROW_APPLIED) > l->applied)
        return "its row says no more applied than is";
    return NULL;
}

/* Deposed, a leader may apply what is another's before it looks at its own state again. */
static bool leads_still(const struct log *l)
{
    return log_leading(l) && mem_promised(l->mem, l->opt.region) == l->ballot;
}

static const char *check_positions(const struct log *l)
{
    if (!log_leading(l))
        return NULL;
    if (l->commit > l->tail || l->tail > l->tail_max)
        return "commit <= tail <= tail_max";
    if (!leads_still(l))
        return NULL;
    /* Not the commit: recovery lowers that to where it has to put the log together anew. */
    if (l->applied > l->tail)
        return "applied <= tail";
    if (l->base > l->applied)
        return "its own lane holds what it has to apply next";
    if (l->state == UNIT_LEADER && l->commit < l->start_end)
        return "a leader has committed its start marker";
    if (l->serving && !lead_knows_taken(l))
        return "a leader that serves has applied all that its start marker follows on";
    if (l->at_rest && (l->commit != l->tail || l->applied != l->tail))
        return "at rest, all that is written is committed and applied";
    return NULL;
}

/* Those that our writes go to. */
static const char *check_live(const struct log *l, uint32_t rank)
{
    const struct peer *p = &l->peer[rank];
    const uint64_t *head = p->head[l->me];
    if (!log_leading(l))
        return "only a leader writes to others";
    if (p->flow.ballot != l->ballot)
        return "a leader writes under its own ballot";
    /* One that has applied more than we wrote follows another leader, as we shall hear. */
    uint64_t most = max_u64(l->tail, p->start);
    if (!is_memory(l, rank))
        most = max_u64(most, table_get(l->rows, rank, ROW_APPLIED));
    if (p->start > p->next || p->next > most)
        return "start <= next <= tail of each replica that is written to";
    if (p->flow.done > p->flow.marked || p->flow.marked > p->next)
        return "done <= marked <= next of each replica that is written to";
    /* What an earlier leadership of ours told it counts too; our own copy is told of a commit at once. */
    if (rank != l->me &&
        p->commit_sent > max_u64(max_u64(p->flow.done, p->start), head[LOG_COMMIT]))
        return "a replica is told of no commit beyond what it is known to hold";
    if (rank != l->me &&
        p->next + l->put_max > max_u64(p->start, p->commit_sent) + l->opt.log_bytes)
        return "a replica's lane can be read from the commit that it is told of";
    return NULL;
}

static const char *check_peers(const struct log *l)
{
    uint32_t comparing = l->all;
    for (uint32_t q = 0; q < l->all; q++) {
        const struct peer *p = &l->peer[q];
        const char *broken = p->phase == PEER_LIVE ? check_live(l, q) : NULL;
        if (broken)
            return broken;
        if (p->phase == PEER_COMPARE)
            comparing = q;
        if (!trying(l) && p->phase != PEER_DOWN)
            return "who neither leads nor tries to has no business with others";
        if (!log_leading(l) && (p->hold != UINT64_MAX || p->detached_ns != 0))
            return "only a leader holds the log for others, or detaches them";
    }
    if (comparing != l->comparing)
        return "the replica whose lane is compared is the one that is said to be";
    if (log_leading(l) && l->peer[l->me].phase != PEER_LIVE)
        return "a leader writes to its own lane";
    return NULL;
}

/* A put that is on its way must not reach what a replica has yet to apply. The start marker is written whether there is
 * room or not, and what a row says that was not all seen at once may be too little. */
static const char *check_room(const struct log *l)
{
    if (!leads_still(l))
        return NULL;
    uint64_t end = l->tail + l->put_max - entry_size(0);
    if (end > l->applied + l->opt.log_bytes)
        return "no position is used again before it is applied here";
    for (uint32_t q = 0; q < l->n; q++) {
        uint64_t applied = table_get(l->rows, q, ROW_APPLIED);
        bool seen = applied > 0 && applied >= max_u64(l->peer[q].start, l->peer[q].given);
        /* A new life of one with a disk may have applied less than the one before. */
        seen = seen && !log_kept(l);
        if (q != l->me && peer_is_well(l, q) && seen && end > applied + l->opt.log_bytes)
            return "no position is used again before all who are written to have applied it";
    }
    return NULL;
}

static const char *check_sources(const struct log *l)
{
    bool serves = l->serving && leads_still(l);
    uint32_t dirty = 0;
    for (uint32_t i = 0; i < l->sources; i++) {
        const struct log_source *s = &l->source[i];
        dirty += s->dirty;
        if (s->writers > 0 && serves &&
            (s->cursor_life < s->life || (s->cursor_life == s->life && s->cursor < s->taken)))
            return "a source is read from where it was taken, or beyond";
    }
    if (dirty != l->dirty_count)
        return "each source that is to be told is listed once";
    return NULL;
}

static const char *check_transfers(const struct log *l)
{
    const struct sending *s = &l->sending;
    if (l->snap_to < l->n && !log_leading(l))
        return "only a leader sends a state";
    if (l->snap_to < l->n && s->step != SEND_ASK &&
        (s->taken > s->sent || s->sent > s->taken + l->opt.snap_bytes))
        return "taken <= sent <= taken + ring of a state that is sent";
    if (l->snap_to < l->n && s->step != SEND_ASK && snap_records(l) &&
        s->next + s->backlog.bytes != l->applied)
        return "the backlog of a state ends at what is applied";
    if (l->taking.on && !l->behind)
        return "who takes a state has none";
    return NULL;
}

static const char *check_recovery(const struct log *l)
{
    const struct recovery *r = &l->rec;
    if (r->step == REC_IDLE)
        return NULL;
    if (l->state != UNIT_CANDIDATE)
        return "only a candidate recovers";
    bool own = mem_promised(l->mem, l->opt.region) == l->ballot;
    if (own && r->step > REC_KEEP &&
        (l->chain_base > l->applied || l->chain_end < l->applied ||
         l->chain_end - l->chain_base > l->opt.log_bytes))
        return "what is recovered begins at or before what is applied, and fits the ring";
    return NULL;
}

const char *log_check(const struct log *l)
{
    static const char *(*const checks[])(const struct log *) = {
        check_state, check_row,     check_positions, check_peers,
        check_room,  check_sources, check_transfers, check_recovery,
    };
    /* A planted bug is for the checkers of promises to find. */
    if (l->broken || PLANTED_ANY)
        return NULL;
    const char *broken = NULL;
    for (uint32_t i = 0; broken == NULL && i < sizeof(checks) / sizeof(*checks); i++)
        broken = checks[i](l);
    return broken;
}
