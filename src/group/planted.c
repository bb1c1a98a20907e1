/* Planted bugs of groups with views that take more than a line: what each does instead of what is right. Where they branch off
 * stands one `if (PLANTED(x))`. */
#include "group/impl.h"

#include <string.h>

#if TRAM_PLANTED

/* ---- group_reuse_majority: stream.c ---- */

bool planted_majority_delivered(const struct cell *c, uint64_t *below)
{
    uint64_t count[GROUP_HOSTS_MAX];
    uint32_t n = 0;
    for (uint64_t rest = c->members; rest; rest = set_rest(rest)) {
        uint64_t word = cell_word(c, set_first(rest), CELL_DELIVERED);
        uint64_t value = stamp_vid(word) == c->of->view->vid ? stamp_count(word) : 0;
        uint32_t at = n++;
        for (; at > 0 && count[at - 1] < value; at--)
            count[at] = count[at - 1];
        count[at] = value;
    }
    *below = count[n / 2];
    return true;
}

/* ---- group_new_first: stream.c ---- */

/* The first record that a trim left out and the first that was never published, if they are of one size, change places. */
void planted_new_first(struct cell *c)
{
    struct own_stream *o = &c->own;
    unsigned char spare[2][1 << 12];
    struct record *old = NULL;
    for (uint64_t pos = o->start; pos < o->head;) {
        struct record *r =
            (struct record *)(void *)(o->ring[o->at] + (pos & (c->opt.ring_bytes - 1)));
        uint64_t size = r->flags & RECORD_SKIP ? r->bytes : record_size(r->bytes);
        if (r->flags == 0 && pos < o->end && old == NULL && size <= sizeof(spare[0]))
            old = r;
        if (r->flags == 0 && pos >= o->end && old && record_size(old->bytes) == size) {
            memcpy(spare[0], old, size);
            memcpy(spare[1], r, size);
            memcpy(old, spare[1], size);
            memcpy(r, spare[0], size);
            return;
        }
        pos += size;
    }
}

/* ---- group_one_null: stream.c ---- */

/* What was seen at once counts as one message. */
uint64_t planted_one_null(struct cell *c, uint64_t need)
{
    uint64_t seen = stamp(c->of->view->vid, need);
    if (c->null_need == seen)
        return 0;
    c->null_need = seen;
    c->own.issued++;
    return 1;
}

/* ---- group_record_looks, group_next_life_early: cell.c ---- */

const struct record *planted_record_looks(const unsigned char *ring, uint64_t mask, uint64_t pos,
                                          uint64_t want, uint32_t *bytes)
{
    const struct record *r = ring ? (const void *)(ring + (pos & mask)) : NULL;
    *bytes = r ? r->bytes : 0;
    return r && r->stamp == want && record_size(r->bytes) <= mask / 4 ? r : NULL;
}

void planted_next_life_early(struct cell *c)
{
    for (uint32_t i = 0; i < c->senders; i++)
        for (uint32_t r = 0; r < (c->of->mem->shared ? SEND_RINGS : 1); r++)
            if (c->source[i].host != c->of->opt.me)
                mem_lane_next(c->of->mem, c->from[r][c->source[i].host]);
}

/* ---- group_report_early, group_copy_before_trim: wedge.c, transfer.c ---- */

/* It has reported, and goes on for a round. */
void planted_report_early(struct member *m)
{
    m->phase = MEMBER_OPEN;
    for (uint32_t i = 0; i < m->opt.cells; i++)
        cell_settle(&m->cell[i]);
    m->phase = MEMBER_WEDGED;
}

void planted_copy_end(struct member *m)
{
    for (uint32_t i = 0; m->state && m->cell && i < m->opt.cells; i++) {
        if (m->cell[i].early_save)
            m->state->save_close(cell_state_ctx(m, i), m->cell[i].early_save);
        m->cell[i].early_save = NULL;
    }
}

void planted_copy_early(struct member *m)
{
    planted_copy_end(m);
    for (uint32_t i = 0; m->state && i < m->opt.cells; i++) {
        struct cell *c = &m->cell[i];
        if (c->in && c->has_state && c->number_at >= c->skip_to)
            c->early_save = m->state->save_open(cell_state_ctx(m, i), &c->early_bytes);
    }
}

void *planted_copy(struct member *m, uint32_t cell, uint64_t *bytes)
{
    struct cell *c = &m->cell[cell];
    void *save = c->early_save;
    c->early_save = NULL;
    *bytes = c->early_bytes;
    return save;
}

#endif
