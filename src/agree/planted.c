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

#endif
