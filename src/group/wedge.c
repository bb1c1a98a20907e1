#include "group/impl.h"

/* From view to view. A view ends here in four steps, each of which may be the last that this process does:
 *
 *   wedge    publish, take and deliver no more; note what each sender has given; report that to the keepers
 *   learn    the next view comes, with the trims that follow from all reports
 *   finish   deliver what is left up to the trims
 *   begin    own messages beyond the trim become the first of the new view
 *
 * Whoever dies in between is out of the next view, or of the one after it; what it had delivered all others had noted before they
 * reported, so the trim has it. */

void member_stop(struct member *m, const char *why)
{
    if (m->broken == NULL)
        m->broken = why;
}

/* ---- wedge ---- */

static bool is_closed(const struct member *m)
{
    for (uint64_t rest = keeper_set(m->keeper, m->view); rest; rest = set_rest(rest))
        if (table_get(m->top, set_first(rest), TOP_CLOSE) >= m->view->vid)
            return true;
    return false;
}

/* A member of the view is dead, or in another life. */
static bool has_lost_member(const struct member *m)
{
    for (uint64_t rest = m->view->members & ~set_of(m->opt.me); rest; rest = set_rest(rest)) {
        uint32_t host = set_first(rest);
        if (mem_dead(m->mem, host) || table_get(m->top, host, TOP_LIFE) > m->view->life[host])
            return true;
    }
    return false;
}

static bool must_wedge(struct member *m, uint64_t now_ns)
{
    uint32_t dead = mem_dead_hosts(m->mem);
    bool look = dead != m->dead_hosts || now_ns >= m->member_look_ns;
    m->dead_hosts = dead;
    if (look)
        m->member_look_ns = now_ns + m->opt.heartbeat_ns / 16;
    return is_closed(m) || (look && has_lost_member(m));
}

/* What is to be durable is on the disk before it is reported. False: not yet. */
static bool report(struct member *m)
{
    struct report r = {.vid = m->view->vid, .life = m->life, .cell = m->report};
    bool flushed = true;
    for (uint32_t c = 0; c < m->opt.cells; c++)
        if (m->cell[c].keep)
            flushed &= kept_flushed(&m->cell[c]);
    if (!flushed)
        return false;
    for (uint32_t c = 0; c < m->opt.cells; c++)
        if (m->cell[c].keep)
            kept_report(&m->cell[c], &m->report[c]);
    keeper_report(m->keeper, &r);
    return m->reported = true;
}

static void wedge(struct member *m)
{
    m->phase = MEMBER_WEDGED;
    m->reported = false;
    m->untold = false; /* what its disk has would take the place of the report */
    stable_close(m);
    for (uint32_t c = 0; c < m->opt.cells; c++)
        cell_wedge(&m->cell[c]);
    report(m);
    if (PLANTED(group_report_early))
        planted_report_early(m);
    if (PLANTED(group_copy_before_trim))
        planted_copy_early(m);
}

/* ---- begin ---- */

/* Who is new to the view has as long to be heard of as everybody else. */
static void greet(struct member *m, const struct view *before, const struct view *now)
{
    for (uint64_t rest = now->members; rest; rest = set_rest(rest)) {
        uint32_t host = set_first(rest);
        if (before->life[host] != now->life[host])
            m->heard_ns[host] = m->reached_ns[host] = m->settled_ns;
    }
}

/* One that is kept may be on the disk of who has left it long ago. */
static bool has_vacant(const struct member *m)
{
    for (uint32_t c = 0; c < m->opt.cells; c++)
        if (m->view->cell[c].state == CELL_VACANT)
            return true;
    return false;
}

static void begin(struct member *m)
{
    struct view *before = m->view, *now = m->next;
    greet(m, before, now);
    for (uint32_t c = 0; c < m->opt.cells; c++)
        cell_begin(&m->cell[c], before, now);
    transfer_begin(m, before, now);
    m->view = now;
    m->next = before;
    asks_begin(m, before, now);
    if (m->rdmc)
        rdmc_begin(m);
    m->phase = MEMBER_OPEN;
    relays_begin(m);
    m->count.views++;
    m->torn = 0;
    table_set(m->top, TOP_VIEW, now->vid);
    for (uint32_t c = 0; c < m->opt.cells; c++)
        if (m->cell[c].in)
            own_tell_begin(&m->cell[c]);
    if (has_vacant(m)) /* the report on the view before is of no use any more */
        restore_tell(m);
    m->opt.machine->view(m->opt.ctx, before->vid ? before : NULL, now);
}

/* ---- out ---- */

static void out(struct member *m, enum member_phase phase)
{
    transfer_end(m);
    asks_end(m);
    for (uint32_t c = 0; c < m->opt.cells; c++)
        cell_reset(&m->cell[c]);
    if (m->view->vid)
        m->opt.machine->view(m->opt.ctx, m->view, NULL);
    m->view->vid = 0;
    m->phase = phase;
    relays_end(m);
}

/* A life is let in once. The next one begins here, with everything that others know of the last one void. */
static void next_life(struct member *m)
{
    if ((m->life & 0xffff) == 0xffff) {
        member_stop(m, "it was put out of its group 65,535 times; it has to be started again");
        return;
    }
    m->life++;
    if (m->phase == MEMBER_LEFT) { /* before LIFE, or it would ask to be let in */
        table_set(m->top, TOP_LEAVES, m->life);
        table_push(m->top);
    }
    table_set(m->top, TOP_LIFE, m->life);
    table_push(m->top);
    m->ring = true;
    restore_tell(m);
}

static void put_out(struct member *m)
{
    m->count.put_out++;
    out(m, m->leaving ? MEMBER_LEFT : MEMBER_OUT);
    next_life(m);
}

/* It has delivered its last view to the end, as all others have. */
static void leave(struct member *m)
{
    for (uint32_t c = 0; c < m->opt.cells; c++) {
        struct cell *cell = &m->cell[c];
        if (cell->in && cell->index < cell->senders)
            own_return(cell, m->next->cell[c].trim[cell->index]);
    }
    out(m, MEMBER_LEFT);
    next_life(m);
}

/* ---- learning ---- */

static bool goes_on(const struct member *m, const struct view *v)
{
    if (PLANTED(group_life_ignored))
        return in_set(v->members, m->opt.me);
    return v->life[m->opt.me] == m->life;
}

static int learn_outside(struct member *m, const struct view *v)
{
    if (goes_on(m, v)) {
        view_copy(m->next, v);
        begin(m);
        return 1;
    }
    if (v->seen[m->opt.me] < m->life)
        return 0;
    next_life(m); /* it was let in and put out, and never knew */
    return 1;
}

static int learn_inside(struct member *m, const struct view *v)
{
    bool follows = v->vid == m->view->vid + 1;
    if (v->vid <= m->view->vid)
        return 0;
    if (follows && (goes_on(m, v) || in_set(v->leavers, m->opt.me)) && m->phase == MEMBER_WEDGED &&
        m->reported) {
        view_copy(m->next, v);
        m->phase = MEMBER_FINISH;
        return 1;
    }
    if (goes_on(m, v)) {
        member_stop(m, "a view has this member in it that did not report on the one before");
        return 0;
    }
    put_out(m);
    return 1;
}

static int finish(struct member *m)
{
    bool all = true;
    for (uint32_t c = 0; c < m->opt.cells; c++)
        all &= cell_finish(&m->cell[c]);
    if (!all)
        return 1;
    if (in_set(m->next->leavers, m->opt.me))
        leave(m);
    else
        begin(m);
    return 1;
}

int wedge_settle(struct member *m, uint64_t now_ns)
{
    const struct view *v = keeper_view(m->keeper);
    int work = 0;
    if (m->phase == MEMBER_OUT && v->vid)
        work += learn_outside(m, v);
    if (m->phase == MEMBER_OPEN && must_wedge(m, now_ns)) {
        wedge(m);
        work++;
    }
    if (m->phase == MEMBER_WEDGED && !m->reported)
        work += report(m);
    if (m->phase == MEMBER_OPEN || m->phase == MEMBER_WEDGED)
        work += learn_inside(m, v);
    if (m->phase == MEMBER_FINISH)
        work += finish(m);
    return work;
}
