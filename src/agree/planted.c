/* Planted bugs of the log that take more than a line: what each does instead of what is right. Where they branch off
 * stands one `if (PLANTED(x))`. */
#include "agree/log_impl.h"

#if TRAM_PLANTED

/* ---- read_ungranted, own_not_fenced: log_raise.c; past the table of moves ---- */

/* The lanes were read while the raise was under way. */
int planted_heads_are_read(struct peer *p)
{
    p->phase = PEER_HEADS;
    return 1;
}

int planted_raise_later(struct peer *p)
{
    p->raised = 0;
    p->phase = PEER_HEADS;
    return 1;
}

/* RUN was not read before. */
void planted_runs_of_heads(const struct log *l, struct peer *p)
{
    for (uint32_t w = 0; w < l->n; w++)
        p->run[w] = p->head[w][LOG_RUN];
}

/* Our own memory promises when all others have. */
int planted_raise_own_last(struct log *l)
{
    struct peer *p = &l->peer[l->me];
    uint32_t others = 0;
    for (uint32_t q = l->voters; q < l->all; q++)
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

/* ---- what counts as decided in the lane that is followed: log.c ---- */

/* Whatever looks like an entry, as the papers' pseudocode does. */
static uint64_t nonzero_present(const struct log *l, uint32_t writer, uint64_t end)
{
    const struct entry *e = log_entry(l, writer, l->applied);
    if (e->pos == l->applied && e->ballot != 0 && e->bytes <= l->opt.payload_max)
        end = max_u64(end, l->applied + entry_size(e->bytes));
    return end;
}

/* What the leader has of a message to one group alone, as its header says. */
static uint64_t body_unreplicated(const struct log *l, uint64_t written, uint64_t end)
{
    if (end > l->applied || l->applied >= written)
        return end;
    const struct entry *e = log_entry(l, l->me, l->applied);
    if (e->source < l->opt.sources && e->bytes >= 16 && e->payload[14] == 1)
        end = l->applied + entry_size(e->bytes);
    return end;
}

uint64_t planted_decided_end(const struct log *l, uint32_t writer, uint64_t end)
{
    const struct mem_lane *lane = l->lane[l->me][writer];
    bool own = writer == l->me;
    uint64_t written = own ? min_u64(mem_word(lane, LOG_GUARD), l->tail) : 0;
    if (PLANTED(nonzero_present) && !own)
        end = nonzero_present(l, writer, end);
    if ((PLANTED(forward_early) || PLANTED(stamp_early)) && own)
        end = max_u64(end, written);
    if (PLANTED(body_unreplicated) && own)
        end = body_unreplicated(l, written, end);
    return end;
}

/* ---- lost_counts, lost_resumes: log_lead.c ---- */

/* True if the leader goes on as if its way to the replica were not lost. */
bool planted_loss_ignored(struct log *l, uint32_t rank)
{
    struct mem_flow *flow = &l->peer[rank].flow;
    if (flow->status != MEM_LOST)
        return false;
    if (PLANTED(lost_counts) && flow->done < flow->marked) {
        flow->done = flow->marked;
        return true;
    }
    if (PLANTED(lost_resumes) && rank != l->me) {
        uint64_t done = flow->done;
        mem_flow_open(l->mem, flow, l->opt.nodes[rank], l->opt.region, l->ballot);
        flow->done = flow->marked = done;
        return true;
    }
    return false;
}

/* ---- backlog_gap: log_snap.c ---- */

/* The first entry behind a state is left out. */
void planted_backlog_gap(struct sending *s)
{
    const struct entry *e = backlog_first(&s->backlog);
    if (e == NULL || s->next != s->pos)
        return;
    s->next += entry_size(e->bytes);
    backlog_pop(&s->backlog);
}

/* ---- copy_unchecked: log_keep.c ---- */

/* A round is made at once in the simulator, so the promise is that of the round before. */
uint64_t planted_promise_before(struct log *l, uint64_t promised)
{
    uint64_t before = l->keep.looked;
    l->keep.looked = promised;
    return PLANTED(copy_unchecked) && before != 0 ? before : promised;
}

#endif
