#include "group/decide.h"

#include "base/minmax.h"
#include "base/planted.h"
#include "group/restart.h"

/* ---- who goes on ---- */

/* Can the member have seen this of the view? Else it is as if it had not reported. */
static bool report_fits(const struct view *now, const struct report *r, uint32_t host)
{
    if (r == NULL || r->vid != now->vid || r->life != now->life[host])
        return false;
    for (uint32_t c = 0; c < now->cells; c++) {
        if (!in_set(now->cell[c].members, host))
            continue;
        if (r->cell[c].senders != set_count(now->cell[c].senders))
            return false;
        for (uint32_t i = 0; i < r->cell[c].senders; i++)
            if (r->cell[c].held[i] != stamp_count(r->cell[c].held[i]))
                return false;
    }
    return true;
}

uint64_t decide_reported(const struct decide_input *in)
{
    uint64_t reported = 0;
    for (uint64_t rest = in->now->members; rest; rest = set_rest(rest)) {
        uint32_t h = set_first(rest);
        reported |= report_fits(in->now, in->report[h], h) ? set_of(h) : 0;
    }
    return reported;
}

static uint64_t leavers_of(const struct decide_input *in, uint64_t reported)
{
    uint64_t leavers = 0;
    for (uint64_t rest = reported; rest; rest = set_rest(rest)) {
        uint32_t h = set_first(rest);
        leavers |= in->leaves[h] == in->now->life[h] ? set_of(h) : 0;
    }
    return leavers;
}

/* How much there is against a host staying with the others: first with how many of them it cannot be, being claimed or claiming, then how many
 * claim it, then its rank. 0: nothing. */
static uint32_t against(const struct decide_input *in, uint64_t others, uint32_t host)
{
    uint64_t claimers = 0;
    for (uint64_t rest = others; rest; rest = set_rest(rest))
        claimers |= in_set(in->claims[set_first(rest)], host) ? set_of(set_first(rest)) : 0;
    claimers &= ~set_of(host);
    uint64_t apart = claimers | (in->claims[host] & others & ~set_of(host));
    return apart == 0 ? 0 : set_count(apart) << 16 | set_count(claimers) << 8 | host;
}

/* Of those who cannot all be in one view, as few as possible are put out: always the one against whom there is most. */
static uint64_t settle_claims(const struct decide_input *in, uint64_t stay)
{
    for (uint32_t i = 0; i < GROUP_HOSTS_MAX; i++) {
        uint32_t most = 0, worst = 0;
        for (uint64_t rest = stay; rest; rest = set_rest(rest)) {
            uint32_t a = against(in, stay, set_first(rest));
            worst = a > most ? set_first(rest) : worst;
            most = a > most ? a : most;
        }
        if (most == 0)
            break;
        stay &= ~set_of(worst);
    }
    return stay;
}

/* ---- cells ---- */

static const struct cell_report *told(const struct decide_input *in, uint32_t host, uint32_t cell)
{
    return &in->report[host]->cell[cell];
}

/* Where the view ends for the sender: what all hold who end it, those who leave, change cells or have no state too. Nobody
 * else has delivered more, since a message is stable when all hold it. */
static uint64_t trim_of(const struct decide_input *in, uint64_t enders, uint32_t cell,
                        uint32_t sender)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (uint64_t rest = enders; rest; rest = set_rest(rest)) {
        uint64_t held = told(in, set_first(rest), cell)->held[sender];
        least = min_u64(least, held);
        most = max_u64(most, held);
    }
    return PLANTED(group_trim_max) ? most : least;
}

/* Of a state that is large: all who do not have it, but for those who nearly do. */
static uint64_t learners_of(const struct decide_input *in, uint64_t stateful, uint32_t cell)
{
    bool large = false;
    uint64_t learnt = 0;
    for (uint64_t rest = stateful; rest; rest = set_rest(rest)) {
        const struct cell_report *r = told(in, set_first(rest), cell);
        large |= r->large;
        learnt |= r->learnt ? set_of(r->learnt - 1) : 0;
    }
    return large ? ~learnt : 0;
}

/* Nobody who goes on has its state. */
static void cell_lost(const struct decide_input *in, uint64_t enders, uint32_t cell,
                      struct view *next_view)
{
    struct view_cell *next = &next_view->cell[cell];
    uint64_t had = 0;
    for (uint64_t rest = enders; rest; rest = set_rest(rest))
        had |= told(in, set_first(rest), cell)->has_state ? set_of(set_first(rest)) : 0;
    if (had == 0 && restart_cell(in, enders, next_view->members, cell, next))
        return;
    if (in->stateless && !restart_keeps(in, cell) && next->trims == 0) {
        *next = (struct view_cell){.state = CELL_UNBORN};
        return;
    }
    next->state = CELL_VACANT;
    next->members_last = in->now->cell[cell].members;
    restart_vacate(in, cell, next);
}

/* `enders` end the view in order, `stay` of them go on. */
static void cell_next(const struct decide_input *in, uint64_t enders, uint64_t stay, uint32_t cell,
                      struct view *next_view)
{
    struct view_cell *next = &next_view->cell[cell];
    const struct view_cell *now = &in->now->cell[cell];
    const uint64_t enders_all = enders;
    enders &= now->members;
    if (PLANTED(group_leave_untrimmed) && (stay & now->members) == 0)
        enders = 0;
    *next = (struct view_cell){.state = CELL_LIVES, .born = now->born};
    next->trims = enders ? set_count(now->senders) : 0;
    for (uint32_t i = 0; i < next->trims; i++)
        next->trim[i] = trim_of(in, enders, cell, i);
    for (uint32_t h = 0; PLANTED(group_joiner_counts) && h < in->now->hosts; h++)
        for (uint32_t i = 0; in->life[h] > in->now->seen[h] && i < next->trims; i++)
            next->trim[i] = 0; /* it holds nothing */
    for (uint64_t rest = stay & now->members; rest; rest = set_rest(rest)) {
        uint32_t h = set_first(rest);
        if (told(in, h, cell)->has_state || PLANTED(group_stateless_stay))
            next->stateful |= set_of(h);
    }
    next->learners = learners_of(in, next->stateful, cell);
    next->cut = restart_cut(in, cell, next);
    next->last = restart_keeps(in, cell) ? now->last : 0;
    if (!decide_ends(in, enders_all))
        restart_mixed(in, enders, cell, next);
    if (next->stateful == 0)
        cell_lost(in, enders, cell, next_view);
}

/* Until one is back whose disk has it. */
static void cell_waits(const struct decide_input *in, uint32_t cell, struct view *next_view)
{
    struct view_cell *next = &next_view->cell[cell];
    const struct view_cell *now = &in->now->cell[cell];
    *next = (struct view_cell){.state = CELL_VACANT,
                               .born = now->born,
                               .members_last = now->members_last,
                               .cut = now->cut,
                               .last = now->last};
    restart_cell(in, 0, next_view->members, cell, next);
}

static bool is_reset(const struct decide_input *in, uint32_t cell)
{
    return in->reset[cell / 64] >> (cell % 64) & 1;
}

static void cells_next(const struct decide_input *in, uint64_t enders, uint64_t stay,
                       struct view *next)
{
    for (uint32_t c = 0; c < next->cells; c++) {
        const struct view_cell *now = &in->now->cell[c];
        if (now->state == CELL_LIVES)
            cell_next(in, enders, stay, c, next);
        else if (now->state == CELL_VACANT && !is_reset(in, c))
            cell_waits(in, c, next);
        else
            next->cell[c] = (struct view_cell){.state = CELL_UNBORN};
    }
}

/* ---- the view ---- */

/* A life is let in if it is higher than all that ever were, and so once: who was put out alive raises it. */
static bool is_new(const struct decide_input *in, uint32_t host)
{
    uint64_t life = in->life[host], seen = in->now->seen[host];
    return life > seen || (PLANTED(group_life_twice) && life && life == seen);
}

static void members_next(const struct decide_input *in, uint64_t stay, struct view *next)
{
    for (uint32_t h = 0; h < next->hosts; h++) {
        next->seen[h] = in->now->seen[h];
        if (in_set(stay, h))
            next->life[h] = in->now->life[h];
        else if (!in_set(next->leavers, h) && is_new(in, h))
            next->life[h] = next->seen[h] = in->life[h];
        next->members |= next->life[h] ? set_of(h) : 0;
    }
}

bool decide_ends(const struct decide_input *in, uint64_t enders)
{
    uint32_t count = set_count(enders);
    return count > 0 && (!in->view_majority || 2 * count > set_count(in->now->members));
}

const char *decide(const struct decide_input *in, struct view *next)
{
    const struct view *now = in->now;
    CHECK(next->hosts == now->hosts && next->cells == now->cells);
    uint64_t reported = decide_reported(in), leavers = leavers_of(in, reported);
    uint64_t stay = settle_claims(in, reported & ~leavers), enders = stay | leavers;
    if (now->vid >= VIEWS_MAX)
        return "there have been too many views";
    if (now->members && !decide_ends(in, enders) && restart_lacks(in, enders).what != LACKS_NOTHING)
        return enders ? "a majority of the last view is missing"
                      : "no member of the last view has reported";
    *next = (struct view){
        .vid = now->vid + 1, .hosts = now->hosts, .cells = now->cells, .leavers = leavers};
    members_next(in, stay, next);
    keepers_next(in, stay, next);
    cells_next(in, enders, stay, next);
    layout_fill(in->layout, now, next);
    for (uint32_t c = 0; c < next->cells; c++)
        if (next->cell[c].state == CELL_LIVES && next->cell[c].born == next->vid &&
            restart_keeps(in, c))
            next->cell[c].cut = stamp(next->vid, 0), next->cell[c].last = 0;
    if (now->vid == 0 && !next->adequate)
        return "a cell of the first view lacks members";
    CHECK(view_check(next) == NULL);
    return NULL;
}
