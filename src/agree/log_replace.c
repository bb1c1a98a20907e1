/* One log after another at the same replica: how one takes the place of another on a disk, and how one ends while its process goes on.
 *
 * Positions and ballots of the later log are above all that the earlier one ever had (log_options.base), so one disk group serves both: what it has
 * of the earlier one is a chain that lies below. It counts until a snapshot of the later one is durable, and nothing of the later one, no promise
 * either, is written before that. So a crash finds the one or the other. */
#include "agree/log_impl.h"

/* ---- taking a place ---- */

void log_past(const struct log *l, struct log_past *p)
{
    const struct keeping *k = &l->keep;
    *p = (struct log_past){.said = k->said,
                           .end = k->end,
                           .pledge = k->pledge,
                           .pledged = k->pledged,
                           .beyond = k->beyond || k->reset_due};
}

void log_past_found(const struct disk *d, uint32_t group, struct log_past *p)
{
    const struct disk_found *f = disk_found(d, group);
    *p = (struct log_past){.said = f->says,
                           .end = f->says.end,
                           .pledge = f->says.pledge,
                           .pledged = f->says.pledge,
                           .beyond = f->state == DISK_BEYOND};
    if (p->beyond)
        *p = (struct log_past){.beyond = true};
}

void log_begin(struct log *l, const struct log_past *p, bool lacks)
{
    struct keeping *k = &l->keep;
    k->said = p->said;
    k->end = p->end;
    k->pledge = p->pledge;
    k->pledged = p->pledged;
    k->beyond = p->beyond;
    k->stands = l->applied;
    log_state_begin(l, lacks ? MEM_BIRTH_KEPT : MEM_BIRTH_NEW);
    if (lacks) {
        k->beyond |= l->state == UNIT_JOINING;
    } else {
        keep_reset(l);
        k->is_first = true;
    }
    log_show_life(l);
}

uint32_t log_saved_head(const void *saved, uint64_t bytes)
{
    return snap_head_bytes(saved, bytes);
}

/* ---- ending ---- */

void log_leave(struct log *l)
{
    keep_drop_save(l);
    snap_abort(l);
    for (uint32_t q = 0; q < l->all; q++)
        if (l->peer[q].phase != PEER_DOWN)
            peer_down(l, q, UINT64_MAX);
}

static bool is_asked(const struct mem_op *op, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (op[i].status == MEM_PENDING)
            return true;
    return false;
}

bool log_is_quiet(const struct log *l)
{
    bool asked = is_asked(&l->rec.op, 1) || is_asked(&l->side_op, 1) || is_asked(l->peek, l->all);
    for (uint32_t q = 0; q < l->all; q++)
        asked |= is_asked(&l->peer[q].op, 1) || is_asked(l->peer[q].lane_op, LOG_LANES_MAX);
    return !asked;
}

/* Those at others; what is in the own region ends with it. */
static void lanes_end(struct log *l)
{
    struct mem_lane *lane[LOG_REPLICAS_MAX * LOG_REPLICAS_MAX + LOG_REPLICAS_MAX];
    uint32_t count = 0;
    for (uint32_t q = 0; q < l->n; q++) {
        for (uint32_t w = 0; q != l->me && w < l->n; w++)
            lane[count++] = l->lane[q][w];
        if (q != l->me)
            lane[count++] = l->snap_out[q];
    }
    mem_lanes_end(l->mem, lane, count);
}

void log_end_close(struct log *l)
{
    CHECK(log_is_quiet(l) && !has_memories(l) && l->sources == 0);
    if (l->keep.is_filling)
        mem_flow_close(l->mem, &l->keep.filling);
    table_end_close(l->rows);
    l->rows = NULL;
    lanes_end(l);
    mem_region_end(l->mem, l->opt.region);
    log_close(l);
}
