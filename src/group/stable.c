#include "group/impl.h"

/* What is stable, so that it may be delivered: nothing can take it back any more.
 *
 * Over a network that is what all members have received, for each of them has a copy of its own. Where memory is shared *presence is
 * stability*: what one member reads in a sender's lane all others can read there, whoever dies, as long as they have that lane. So it is
 * delivered in one hop, unless the view has ended for somebody who did not see it:
 *
 *   who delivers   loads all GUARDs;          fence;   loads CLOSE of all members; delivers what it has loaded if none is of this view
 *   who wedges     stores CLOSE of the view;  fence;   loads all GUARDs: that is what it reports
 *
 * If who delivers misses the CLOSE of somebody who reports, that one loads the GUARDs after it did, and reports no less. So every trim
 * has what anybody delivered. The fences are needed: a processor sees its own stores, also GUARD and CLOSE, before others do.
 *
 * It is every member's CLOSE that is looked at, and not the keepers': who sees that a member has died wedges and reports before any keeper
 * has closed the view; and a keeper's new life has a row that not everybody may have found. Rows are of the lives that are in the view:
 * who shows another one is taken for one that has wedged.
 *
 * A view opens when all members have begun it and have found the lanes of all its senders, which they say by a RECEIVED of this view. */

bool stable_by_presence(const struct cell *c)
{
    return c->row && c->of->mem->shared && c->opt.mode == CELL_MEMORY;
}

/* ---- by what all have ---- */

/* Durable: what all have on their disks. */
static uint64_t had_by_all(const struct cell *c)
{
    bool kept = c->opt.mode == CELL_DURABLE && !PLANTED(group_persisted_unheard);
    const enum cell_word word = kept ? CELL_PERSISTED : CELL_RECEIVED;
    uint64_t least = kept ? kept_persisted(c) : c->received;
    for (uint64_t rest = c->members & ~set_of(c->of->opt.me); rest && least > c->stable;
         rest = set_rest(rest))
        least = min_u64(least, cell_count(c, set_first(rest), word));
    return least;
}

/* ---- by presence ---- */

/* Is the host's top row here that of the life which is in the view? */
static bool has_top_row(const struct member *m, uint32_t host)
{
    const struct mem_lane *lane = m->top->in[host];
    uint32_t life = life_process(m->view->life[host]);
    return lane->ctl && lane->life == life;
}

/* Whose CLOSE counts here. */
static uint64_t closers(const struct cell *c)
{
    uint64_t who =
        PLANTED(group_keepers_close) ? keeper_set(c->of->keeper, c->of->view) : c->members;
    return who & ~set_of(c->of->opt.me);
}

static bool is_closed(const struct cell *c)
{
    const struct member *m = c->of;
    for (uint64_t rest = closers(c); rest; rest = set_rest(rest)) {
        uint32_t host = set_first(rest);
        if (!has_top_row(m, host) || table_get(m->top, host, TOP_CLOSE) >= m->view->vid)
            return true;
    }
    return false;
}

/* Has it found the lanes of all senders, and the top rows of all members? */
static bool has_found_all(struct cell *c)
{
    struct member *m = c->of;
    bool all = true;
    for (uint32_t i = 0; i < c->senders; i++) {
        struct source_stream *s = &c->source[i];
        all &= s->there || source_find(c, s);
    }
    for (uint64_t rest = c->members & ~set_of(m->opt.me); rest; rest = set_rest(rest)) {
        uint32_t host = set_first(rest);
        if (!has_top_row(m, host))
            table_next(m->top, host);
        all &= has_top_row(m, host);
    }
    return all;
}

static bool have_all_found_all(const struct cell *c)
{
    for (uint64_t rest = c->members; rest; rest = set_rest(rest))
        if (stamp_vid(cell_word(c, set_first(rest), CELL_RECEIVED)) != c->of->view->vid)
            return false;
    return true;
}

void stable_open(struct cell *c)
{
    uint64_t vid = c->of->view->vid;
    if (!c->found && has_found_all(c)) {
        c->found = true;
        cell_set(c, CELL_RECEIVED, stamp(vid, 0));
    }
    c->open = (c->found && have_all_found_all(c)) || PLANTED(group_open_early);
}

void stable_close(struct member *m)
{
    uint64_t vid = m->view->vid;
    if (!m->mem->shared || PLANTED(group_close_not))
        return;
    m->ring |= m->top->dirty >> TOP_CLOSE & 1; /* a keeper has just set it: that is to wake all */
    table_set(m->top, TOP_CLOSE, max_u64(vid, table_get(m->top, m->opt.me, TOP_CLOSE)));
    table_push(m->top);
    if (!PLANTED(group_wedge_unfenced))
        mem_fence(m->mem);
}

/* ---- */

void stable_find(struct cell *c)
{
    if (!stable_by_presence(c)) {
        c->stable = max_u64(c->stable, had_by_all(c));
        return;
    }
    if (c->received <= c->stable || !c->open)
        return;
    if (!PLANTED(group_deliver_unfenced))
        mem_fence(c->of->mem);
    if (!is_closed(c))
        c->stable = c->received;
}
