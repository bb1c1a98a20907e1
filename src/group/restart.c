#include "group/restart.h"

#include "base/minmax.h"
#include "base/planted.h"

/* How many numbers the trims leave. */
static uint64_t trim_end(const struct view_cell *c)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < c->trims; i++)
        if (c->trim[i] > 0)
            end = max_u64(end, (c->trim[i] - 1) * c->trims + i + 1);
    return end;
}

/* What is known of a cell: logs that reach the cut have what was delivered before the view `vid`; and in that by the members. */
struct base {
    uint64_t vid, cut, members;
    bool vacant;
};

static enum cell_kept kept(const struct decide_input *in, uint32_t cell)
{
    return in->kept ? (enum cell_kept)in->kept[cell] : KEPT_NOT;
}

bool restart_keeps(const struct decide_input *in, uint32_t cell)
{
    return kept(in, cell) != KEPT_NOT;
}

/* It will be in the next view, with what its disk has. */
static bool comes(const struct decide_input *in, uint32_t host)
{
    return in->life[host] > in->now->seen[host] && in->reach[host] != NULL;
}

uint64_t restart_back(const struct decide_input *in)
{
    uint64_t back = 0;
    for (uint64_t rest = in->now->members; rest; rest = set_rest(rest))
        back |= comes(in, set_first(rest)) ? set_of(set_first(rest)) : 0;
    return back;
}

static struct base base_of(const struct decide_input *in, uint32_t cell)
{
    const struct view_cell *c = &in->now->cell[cell];
    struct base b = {in->now->vid, c->cut, c->members, false};
    if (c->state == CELL_VACANT)
        b = (struct base){c->last, c->cut, c->members_last, true};
    if (PLANTED(group_restart_older)) { /* the last view that is known to those who are there */
        b.vid = 0;
        for (uint32_t h = 0; h < in->now->hosts; h++)
            b.vid = comes(in, h) ? max_u64(b.vid, stamp_vid(in->reach[h][cell])) : b.vid;
        b.cut = b.vid ? 1 : b.cut;
        b.members = 0;
    }
    if (PLANTED(group_restart_old_log))
        b.cut = 1;
    return b;
}

/* Of a cell that is vacant what members of the view have on disk counts, too. */
static bool is_there(const struct decide_input *in, const struct base *b, uint32_t host)
{
    uint64_t life = in->life[host];
    return comes(in, host) ||
           (b->vacant && life && life == in->now->life[host] && in->reach[host] != NULL);
}

/* Of a member that reported: all before the first number that it lacks. */
static uint64_t held_reach(const struct decide_input *in, uint32_t host, uint32_t cell)
{
    const struct cell_report *r = &in->report[host]->cell[cell];
    uint64_t below = UINT64_MAX;
    for (uint32_t i = 0; i < r->senders; i++)
        below = min_u64(below, r->held[i] * r->senders + i);
    return r->has_state ? stamp(in->now->vid, r->senders ? below : 0) : 0;
}

/* How far the host has the cell; 0: it is not there, or has no log of it. */
static uint64_t reach_of(const struct decide_input *in, const struct base *b, uint64_t enders,
                         uint32_t host, uint32_t cell)
{
    if (is_there(in, b, host))
        return in->reach[host][cell];
    bool in_cell = in_set(in->now->cell[cell].members, host);
    return in_set(enders, host) && in_cell ? held_reach(in, host, cell) : 0;
}

static bool is_of(const struct base *b, uint64_t reach)
{
    return b->vid && stamp_vid(reach) == b->vid;
}

/* The host is there, has no log of the view, and its disk is not another one than it had in it. Which life it had in a view that was long ago is not
 * known. */
static bool never_had(const struct decide_input *in, const struct base *b, uint32_t host,
                      uint64_t reach)
{
    return is_there(in, b, host) && !is_of(b, reach) &&
           (in->made[host] <= in->now->life[host] || b->vid < in->now->vid);
}

/* Is it certain that nothing was delivered in the view? */
static bool is_unused(const struct decide_input *in, const struct base *b, uint64_t enders,
                      uint32_t cell)
{
    uint32_t without = 0;
    for (uint64_t rest = b->members; rest; rest = set_rest(rest)) {
        uint32_t h = set_first(rest);
        uint64_t reach = reach_of(in, b, enders, h, cell);
        without += never_had(in, b, h, reach) || (in_set(enders, h) && !is_of(b, reach));
    }
    return b->vid == 0 ||
           (b->vid < in->now->vid ? 2 * without > set_count(b->members) : without > 0);
}

static bool counts(const struct base *b, uint32_t host, uint64_t reach, bool older)
{
    if (PLANTED(group_restart_old_log) && in_set(b->members, host))
        return reach > 0;
    return reach > 0 && reach >= b->cut && (older || is_of(b, reach));
}

/* How far a log that is written behind has what was delivered; 0: it does not count. One of before the view in which the cell went on from disks the last time
 * counts if it ends where that did, or before: what is beyond is lost, and may be in a state that the log begins with, so it cannot be cut. One of a
 * view before that of the cut may have what was lost an earlier time. */
static uint64_t behind_end(const struct view_cell *c, uint64_t reach)
{
    if (stamp_vid(reach) < c->born)
        return 0;
    if (stamp_vid(reach) >= c->last)
        return reach;
    return stamp_vid(reach) >= stamp_vid(c->cut) && reach <= c->cut ? reach : 0;
}

/* The longest of them. */
static struct restart_from from_behind(const struct decide_input *in, uint32_t cell)
{
    const struct base b = base_of(in, cell);
    struct restart_from from = {0, 0};
    for (uint32_t h = 0; h < in->now->hosts; h++) {
        uint64_t reach = reach_of(in, &b, 0, h, cell);
        uint64_t end = behind_end(&in->now->cell[cell], reach);
        if (end > from.cut)
            from = (struct restart_from){0, end};
        if (end > 0 && end == from.cut)
            from.hosts |= set_of(h);
    }
    return from;
}

struct restart_from restart_from(const struct decide_input *in, uint64_t enders, uint32_t cell)
{
    const struct base b = base_of(in, cell);
    const bool unused = is_unused(in, &b, enders, cell);
    struct restart_from from = {0, 0};
    uint64_t least = UINT64_MAX;
    if (kept(in, cell) == KEPT_SOME)
        return from_behind(in, cell);
    for (uint32_t h = 0; h < in->now->hosts; h++) {
        uint64_t reach = reach_of(in, &b, enders, h, cell);
        if (!counts(&b, h, reach, unused))
            continue;
        uint64_t end = is_of(&b, reach) ? reach : b.cut;
        from.hosts |= set_of(h);
        least = min_u64(least, end);
    }
    from.cut = unused ? b.cut : least;
    if (stamp_vid(from.cut) == b.vid && stamp_count(from.cut) == 0) /* likewise */
        from.cut = b.cut;
    if (PLANTED(group_restart_commit)) /* what is known to all: where the last view begins */
        from.cut = b.cut;
    for (uint64_t rest = from.hosts; rest; rest = set_rest(rest))
        if (reach_of(in, &b, enders, set_first(rest), cell) < from.cut)
            from.hosts &= ~set_of(set_first(rest));
    return from;
}

/* Who ends the view delivers no more of it than there is where the cell goes on. */
static void limit_trims(const struct decide_input *in, uint64_t cut, struct view_cell *next)
{
    uint64_t below = stamp_vid(cut) == in->now->vid ? stamp_count(cut) : 0;
    for (uint32_t i = 0; i < next->trims; i++)
        next->trim[i] = min_u64(next->trim[i], below > i ? (below - i - 1) / next->trims + 1 : 0);
}

void restart_mixed(const struct decide_input *in, uint64_t enders, uint32_t cell,
                   struct view_cell *next)
{
    if (kept(in, cell) != KEPT_ALL || next->stateful == 0)
        return;
    const struct restart_from from = restart_from(in, enders, cell);
    limit_trims(in, from.cut, next);
    next->stateful |= from.hosts & ~enders;
    next->cut = from.cut;
}

/* Enough are there of those who were in a cell that is written behind to have what most of them had. */
static bool has_most(const struct decide_input *in, uint64_t enders, uint32_t cell)
{
    const struct base b = base_of(in, cell);
    uint32_t there = 0;
    for (uint64_t rest = b.members; rest; rest = set_rest(rest))
        there += is_there(in, &b, set_first(rest)) || in_set(enders, set_first(rest));
    return kept(in, cell) == KEPT_ALL || 2 * there > set_count(b.members);
}

/* Nothing was delivered since it was born. */
static bool never_began(const struct decide_input *in, uint64_t enders, uint32_t cell)
{
    const struct base b = base_of(in, cell);
    const struct view_cell *c = &in->now->cell[cell];
    if (b.cut != stamp(c->born, 0))
        return false;
    /* Written behind: or no disk has any of it. */
    return kept(in, cell) == KEPT_SOME ? has_most(in, enders, cell)
                                       : is_unused(in, &b, enders, cell);
}

bool restart_cell(const struct decide_input *in, uint64_t enders, uint64_t members, uint32_t cell,
                  struct view_cell *next)
{
    if (kept(in, cell) == KEPT_NOT)
        return false;
    const struct restart_from from = restart_from(in, enders, cell);
    const uint64_t sources = from.hosts & members & ~enders;
    if (sources && (in->now->cell[cell].state == CELL_VACANT || has_most(in, enders, cell))) {
        next->state = CELL_LIVES;
        next->born = in->now->cell[cell].born;
        next->stateful = sources;
        next->cut = from.cut;
        next->members_last = 0;
        next->last = kept(in, cell) == KEPT_SOME ? in->now->vid + 1 : 0;
        limit_trims(in, from.cut, next);
        return true;
    }
    if (next->trims == 0 && never_began(in, enders, cell)) {
        *next = (struct view_cell){.state = CELL_UNBORN};
        return true;
    }
    return false;
}

uint64_t restart_cut(const struct decide_input *in, uint32_t cell, const struct view_cell *next)
{
    uint64_t end = trim_end(next);
    if (kept(in, cell) == KEPT_NOT)
        return 0;
    bool moves = end && kept(in, cell) == KEPT_ALL;
    return moves ? stamp(in->now->vid, end) : in->now->cell[cell].cut;
}

void restart_vacate(const struct decide_input *in, uint32_t cell, struct view_cell *next)
{
    if (kept(in, cell) == KEPT_NOT)
        return;
    if (kept(in, cell) == KEPT_SOME)
        return;
    /* If it was ended in order, nothing counts beyond its trim. */
    next->last = next->trims ? 0 : in->now->vid;
}

/* ---- what is missing ---- */

static struct restart_lacks cell_lacks(const struct decide_input *in, uint64_t enders,
                                       uint32_t cell)
{
    const struct base base = base_of(in, cell);
    struct view_cell next = {.state = CELL_VACANT};
    struct restart_lacks l = {.what = LACKS_NOTHING, .cell = cell};
    for (uint32_t h = 0; h < in->now->hosts; h++)
        if (comes(in, h) && stamp_vid(in->reach[h][cell]) > in->now->vid)
            return (struct restart_lacks){LACKS_PAST, set_of(h), 0, cell};
    if (in->now->cell[cell].state != CELL_LIVES ||
        restart_cell(in, enders, UINT64_MAX, cell, &next))
        return l;
    for (uint64_t rest = base.members; rest; rest = set_rest(rest))
        if (!comes(in, set_first(rest)))
            l.hosts |= set_of(set_first(rest));
    l.what = LACKS_CELL;
    return l;
}

struct restart_lacks restart_lacks(const struct decide_input *in, uint64_t enders)
{
    uint64_t here = enders | restart_back(in);
    uint32_t all = set_count(in->now->members), count = set_count(here & in->now->members);
    bool any = false;
    struct restart_lacks l = {LACKS_NOTHING, 0, 0, 0};
    for (uint32_t c = 0; c < in->now->cells; c++)
        any |= kept(in, c) != KEPT_NOT;
    if (!any)
        return (struct restart_lacks){LACKS_DISKS, 0, 0, 0};
    if (2 * count <= all && !PLANTED(group_restart_older))
        return (struct restart_lacks){LACKS_MEMBERS, in->now->members & ~here, all / 2 + 1 - count,
                                      0};
    for (uint32_t c = 0; c < in->now->cells && l.what == LACKS_NOTHING; c++)
        if (kept(in, c) != KEPT_NOT && (in->now->cell[c].stateful & enders) == 0)
            l = cell_lacks(in, enders, c);
    return l;
}
