#include "group/layout.h"

/* What is being laid out. */
struct plan {
    const struct layout_options *opt;
    struct view *next;
    uint64_t used[GROUP_CELLS_MAX]; /* by subgroup: who is in one of its cells */
};

static uint32_t wanted_min(const struct cell_layout *l)
{
    return l->members_min ? l->members_min : 1;
}

static uint32_t wanted_max(const struct cell_layout *l)
{
    return l->members_max ? l->members_max : GROUP_HOSTS_MAX;
}

static uint64_t lowest_of(uint64_t set, uint32_t most)
{
    uint64_t out = 0;
    for (; set && most > 0; set = set_rest(set), most--)
        out |= set_of(set_first(set));
    return out;
}

/* Who may be put into the cell besides those who are there. */
static uint64_t may_join(const struct plan *p, uint32_t cell)
{
    const struct cell_layout *l = &p->opt->cell[cell];
    uint64_t elsewhere = l->overlap ? 0 : p->used[l->subgroup];
    return l->hosts & p->next->members & ~elsewhere & ~p->next->cell[cell].members;
}

static void join(struct plan *p, uint32_t cell, uint64_t hosts)
{
    p->next->cell[cell].members |= hosts;
    p->used[p->opt->cell[cell].subgroup] |= hosts;
}

/* Leaves out of each cell who may not be there. First each that lives gets one who has its state, wherever else that one was put, and
 * then the others as far as there is room: a state is not lost to a layout. */
static void put_right(struct plan *p)
{
    uint64_t wanted[GROUP_CELLS_MAX];
    for (uint32_t c = 0; c < p->opt->cells; c++) {
        struct view_cell *cell = &p->next->cell[c];
        wanted[c] = cell->state == CELL_VACANT ? 0 : cell->members;
        cell->members = 0;
        uint64_t known = cell->stateful & wanted[c] & p->opt->cell[c].hosts;
        if (cell->state == CELL_LIVES)
            join(p, c, set_of(set_first(known ? known : cell->stateful)));
    }
    for (uint32_t c = 0; c < p->opt->cells; c++) {
        uint32_t room = wanted_max(&p->opt->cell[c]) - set_count(p->next->cell[c].members);
        join(p, c, lowest_of(wanted[c] & may_join(p, c), room));
    }
}

/* ---- the default: who is there stays, and the rest is filled up ---- */

/* In the same life as before: who was put out and has come again is new. */
static void keep(const struct plan *p, const struct view *before)
{
    struct view *next = p->next;
    uint64_t stay = 0;
    for (uint64_t rest = before->members & next->members; rest; rest = set_rest(rest)) {
        uint32_t h = set_first(rest);
        stay |= before->life[h] == next->life[h] ? set_of(h) : 0;
    }
    for (uint32_t c = 0; c < next->cells; c++)
        next->cell[c].members = (before->cell[c].members | before->cell[c].learners) & stay;
}

/* What is filled first: the lower, the sooner. A cell with a state that lacks members, then one that would begin, then the others;
 * among them the one with the fewest. UINT32_MAX: nobody can be put there. */
static uint32_t turn(const struct plan *p, uint32_t cell)
{
    const struct view_cell *c = &p->next->cell[cell];
    const struct cell_layout *l = &p->opt->cell[cell];
    uint32_t count = set_count(c->members);
    if (c->state == CELL_VACANT || count >= wanted_max(l) || may_join(p, cell) == 0)
        return UINT32_MAX;
    uint32_t rank = count >= wanted_min(l) ? 2 : c->state == CELL_UNBORN;
    return rank * (GROUP_HOSTS_MAX + 1) + count;
}

/* One more into the cell whose turn it is; false: nobody can be put anywhere. */
static bool fill_one(struct plan *p)
{
    uint32_t best = 0, least = UINT32_MAX;
    for (uint32_t c = 0; c < p->opt->cells; c++) {
        uint32_t t = turn(p, c);
        best = t < least ? c : best;
        least = t < least ? t : least;
    }
    if (least == UINT32_MAX)
        return false;
    join(p, best, lowest_of(may_join(p, best), 1));
    return true;
}

/* Of a cell's members those whom it can do without: never below members_min, and one who has its state stays; those without it
 * go first. */
static uint64_t spare_of(const struct plan *p, uint32_t cell)
{
    const struct view_cell *c = &p->next->cell[cell];
    uint32_t least = wanted_min(&p->opt->cell[cell]), count = set_count(c->members);
    uint64_t known = c->stateful & c->members, unknown = c->members & ~known;
    uint32_t room = count > least ? count - least : 0;
    uint64_t out = lowest_of(unknown, room);
    room -= set_count(out);
    uint32_t can = set_count(known) > 0 ? set_count(known) - 1 : 0;
    return out | lowest_of(set_rest(known), room < can ? room : can);
}

/* A cell that lacks members, and finds none who is free, takes them from other shards of its subgroup, if that is enough for it: else
 * everybody would wait though there are hosts. */
static void take_over(struct plan *p, uint32_t cell)
{
    const struct cell_layout *l = &p->opt->cell[cell];
    uint32_t have = set_count(p->next->cell[cell].members | may_join(p, cell));
    uint32_t lacks = wanted_min(l) > have ? wanted_min(l) - have : 0;
    uint64_t spare = 0;
    if (lacks == 0 || l->overlap || p->next->cell[cell].state == CELL_VACANT)
        return;
    for (uint32_t c = 0; c < p->opt->cells; c++)
        if (c != cell && p->opt->cell[c].subgroup == l->subgroup && !p->opt->cell[c].overlap)
            spare |= spare_of(p, c) & l->hosts;
    if (set_count(spare) < lacks)
        return;
    spare = lowest_of(spare, lacks);
    for (uint32_t c = 0; c < p->opt->cells; c++)
        if (p->opt->cell[c].subgroup == l->subgroup)
            p->next->cell[c].members &= ~spare;
    join(p, cell, spare);
}

static void fill_up(struct plan *p)
{
    for (uint32_t c = 0; c < p->opt->cells; c++)
        take_over(p, c);
    for (uint32_t i = 0; i < p->opt->cells * GROUP_HOSTS_MAX && fill_one(p); i++)
        ;
    for (uint32_t c = 0; c < p->opt->cells; c++)
        p->next->cell[c].senders = p->opt->cell[c].senders;
}

/* ---- whoever filled it ---- */

/* Who has no state learns first, unless the cell needs it to have enough members. */
static void let_learn(const struct cell_layout *l, struct view_cell *c)
{
    c->learners &= c->state == CELL_LIVES ? c->members & ~c->stateful : 0;
    uint32_t left = set_count(c->members & ~c->learners), least = wanted_min(l);
    if (left < least)
        c->learners &= ~lowest_of(c->learners, least - left);
    c->members &= ~c->learners;
}

static void begin_or_wait(const struct cell_layout *l, uint64_t vid, struct view_cell *c)
{
    let_learn(l, c);
    bool enough = set_count(c->members) >= wanted_min(l);
    if (c->state == CELL_UNBORN && enough) {
        c->state = CELL_LIVES;
        c->born = vid;
        c->stateful = c->members;
    } else if (c->state == CELL_UNBORN) {
        c->members = 0;
    }
    c->senders &= c->members;
    c->stateful &= c->members;
}

void layout_fill(const struct layout_options *o, const struct view *before, struct view *next)
{
    struct plan p = {.opt = o, .next = next};
    CHECK(o->cells == next->cells && before->cells == next->cells);
    for (uint32_t c = 0; c < o->cells; c++) {
        CHECK(o->cell[c].subgroup < GROUP_CELLS_MAX);
        CHECK(next->cell[c].state != CELL_LIVES || next->cell[c].stateful);
    }
    if (o->fill)
        o->fill(o->ctx, before, next);
    else
        keep(&p, before);
    put_right(&p);
    if (o->fill == NULL)
        fill_up(&p);
    uint32_t missing;
    for (uint32_t c = 0; c < o->cells; c++)
        begin_or_wait(&o->cell[c], next->vid, &next->cell[c]);
    next->adequate = layout_lacks(o, next, &missing) == GROUP_CELLS_MAX;
}

uint32_t layout_lacks(const struct layout_options *o, const struct view *v, uint32_t *missing)
{
    for (uint32_t c = 0; c < o->cells; c++) {
        uint32_t count = set_count(v->cell[c].members), least = wanted_min(&o->cell[c]);
        if (count < least) {
            *missing = least - count;
            return c;
        }
    }
    *missing = 0;
    return GROUP_CELLS_MAX;
}
