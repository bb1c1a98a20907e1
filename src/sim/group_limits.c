/* What may befall a group with views without taking more from it than it is built to lose. */
#include "sim/group_impl.h"

enum {
    RASH_ONE_IN = 64,  /* times that the last one with a state may go after all */
    RISKED_ONE_IN = 6, /* that another one, put out at the same time, may be one too many */
};

const struct view *group_newest(const struct group_run *r)
{
    const struct view *newest = NULL;
    for (uint32_t q = 0; q < r->fleet.hosts; q++) {
        const struct group_node *n = &r->node[q];
        if (n->member == NULL)
            continue;
        const struct view *told = keeper_view(member_keeper(n->member));
        const struct view *begun = member_view(n->member);
        if (told && told->vid > 0 && (newest == NULL || told->vid > newest->vid))
            newest = told;
        if (begun && (newest == NULL || begun->vid > newest->vid))
            newest = begun;
    }
    return newest;
}

/* The host is up, and in the life in which the view has it. */
static bool is_alive_in(const struct group_run *r, const struct view *v, uint32_t host)
{
    const struct mem *mem = r->fleet.node[host].mem;
    return mem != NULL && v->life[host] >> 16 == mem->life + UINT64_C(1) &&
           r->check.host[host].life <= v->life[host];
}

static uint32_t alive_in(const struct group_run *r, const struct view *v, uint32_t but)
{
    uint32_t alive = 0;
    for (uint64_t rest = v->members; rest; rest = set_rest(rest))
        alive += set_first(rest) != but && is_alive_in(r, v, set_first(rest));
    return alive;
}

/* ---- keepers ---- */

static const struct keeper *keeper_of(const struct group_run *r, uint32_t host)
{
    return r->node[host].member ? member_keeper(r->node[host].member) : NULL;
}

/* Those who decide on what follows the newest view. */
static const struct view_keepers *keepers_now(const struct group_run *r)
{
    const struct view *v = group_newest(r);
    return v ? keepers_of(v, &r->first) : &r->first;
}

static uint32_t majority_of(const struct view_keepers *k)
{
    return k->count / 2 + 1;
}

bool group_keeps(const struct group_run *r, uint32_t host)
{
    return in_set(keepers_set(keepers_now(r)), host);
}

/* It carries the log of that generation, and could go on with it. */
static bool carries(const struct group_run *r, uint32_t host, uint32_t generation)
{
    const struct keeper *k = keeper_of(r, host);
    return k && keeper_generation(k) == generation && keeper_carries(k);
}

/* A process that ended takes its state with it: it is behind until another keeper has given it one. */
bool group_keeper_lost(const struct group_run *r, uint32_t host)
{
    return !carries(r, host, keepers_now(r)->generation);
}

static uint32_t carrying(const struct group_run *r, const struct view_keepers *of, uint32_t but)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < of->count; i++)
        count += of->host[i] != but && carries(r, of->host[i], of->generation);
    return count;
}

/* It carries the log of that generation, or will as soon as it hears of that. */
static bool will_carry(const struct group_run *r, const struct view_keepers *of, uint32_t rank)
{
    uint32_t host = of->host[rank];
    const struct mem *mem = r->fleet.node[host].mem;
    return mem && keeper_of(r, host) &&
           (carries(r, host, of->generation) || of->life[rank] >> 16 == mem->life + UINT64_C(1));
}

static bool will_be_enough(const struct group_run *r, const struct view_keepers *of, uint32_t but)
{
    uint32_t come = 0;
    for (uint32_t i = 0; i < of->count; i++)
        come += of->host[i] != but && will_carry(r, of, i);
    return come >= majority_of(of);
}

/* What the keepers were before those of now, and whether these have ever been enough. */
static void look_at_keepers(struct group_run *r)
{
    const struct view_keepers *now = keepers_now(r);
    if (now->generation != r->keepers_now.generation) {
        bool next = now->generation == r->keepers_now.generation + 1;
        r->keepers_before = next ? r->keepers_now : (struct view_keepers){0};
        r->keepers_now = *now;
        r->keepers_began = false;
        r->keepers_doomed |= !will_be_enough(r, now, UINT32_MAX);
    }
    r->keepers_began |= carrying(r, now, UINT32_MAX) >= majority_of(now);
}

/* The keepers of before can still tell that there are others, and these will be enough. */
static bool moves_on_without(const struct group_run *r, uint32_t host)
{
    const struct view_keepers *before = &r->keepers_before;
    const struct view *v = group_newest(r);
    uint32_t tell = 0;
    for (uint32_t i = 0; i < before->count; i++) {
        uint32_t q = before->host[i];
        const struct keeper *k = keeper_of(r, q);
        tell +=
            q != host && k && (keeper_view(k)->vid >= v->vid || carries(r, q, before->generation));
    }
    return before->count && tell >= majority_of(before) && will_be_enough(r, &r->keepers_now, host);
}

/* One that is not decided may still be. */
void group_limits_step(const struct group_node *n)
{
    struct group_run *r = n->run;
    const struct view *p = keeper_proposal(member_keeper(n->member)), *v;
    struct group_proposal *place = NULL;
    look_at_keepers(r);
    if (p == NULL || p->keepers.generation <= r->keepers_now.generation)
        return;
    v = group_newest(r);
    for (uint32_t i = 0; i < GROUP_PROPOSALS_MAX; i++) {
        struct group_proposal *at = &r->proposal[i];
        if (at->vid == p->vid && keepers_set(&at->keepers) == keepers_set(&p->keepers))
            return;
        if (at->vid == 0 || (v && at->vid <= v->vid))
            place = at;
    }
    /* Nobody can know of who has gone within suspect_ns. */
    r->keepers_doomed |= !will_be_enough(r, &p->keepers, UINT32_MAX);
    if (place)
        *place = (struct group_proposal){p->vid, p->keepers};
}

static bool spares_proposals(const struct group_run *r, uint32_t host)
{
    const struct view *v = group_newest(r);
    for (uint32_t i = 0; i < GROUP_PROPOSALS_MAX; i++) {
        const struct group_proposal *p = &r->proposal[i];
        if (p->vid > (v ? v->vid : 0) && !will_be_enough(r, &p->keepers, host))
            return false;
    }
    return true;
}

static struct unit_status log_of(const struct group_run *r, uint32_t host)
{
    struct unit_status s = {.behind = true};
    const struct keeper *k = keeper_of(r, host);
    if (k && keeper_log(k))
        log_status(keeper_log(k), &s);
    return s;
}

/* Another keeper has all the views that this one has. */
static bool another_keeps(const struct group_run *r, uint32_t host)
{
    const struct view_keepers *now = &r->keepers_now;
    for (uint32_t i = 0; i < now->count; i++) {
        uint32_t q = now->host[i];
        if (q != host && carries(r, q, now->generation) &&
            log_of(r, q).applied >= log_of(r, host).applied)
            return true;
    }
    return false;
}

/* Enough go on from the newest view without the host. */
static bool views_go_on(const struct group_run *r, const struct view *v, uint32_t but)
{
    uint32_t alive = alive_in(r, v, but);
    return r->check.view_majority ? alive > set_count(v->members) / 2 : alive > 0;
}

/* Each cell's state is somewhere else, too. */
static bool is_spared(const struct group_run *r, const struct view *v, uint32_t host)
{
    for (uint32_t k = 0; k < r->check.cells; k++) {
        uint32_t others = 0;
        for (uint32_t q = 0; q < r->fleet.hosts; q++)
            others += q != host && is_alive_in(r, v, q) && r->check.host[q].cell[k].has &&
                      in_set(v->cell[k].members, q);
        if (others == 0 && r->check.host[host].cell[k].has)
            return false;
    }
    return true;
}

/* Where its memory outlives it, it still votes: one other that has the views will do. */
static bool keeper_may_crash(struct group_run *r, uint32_t host, bool keep_memory)
{
    look_at_keepers(r);
    const struct view_keepers *now = &r->keepers_now;
    if (!spares_proposals(r, host))
        return false;
    if (!r->keepers_began && now->generation > 0)
        return moves_on_without(r, host);
    if (!in_set(keepers_set(now), host))
        return true;
    if (keep_memory && !r->fleet.chaos.links)
        return group_keeper_lost(r, host) || another_keeps(r, host);
    return carrying(r, now, host) >= majority_of(now);
}

/* The next view may have all who are down now as members, if they were about to come in; and may be without some who are up. */
static bool is_safe(struct group_run *r, const struct view *v, uint32_t host)
{
    uint32_t alive = alive_in(r, v, host), down = 1;
    for (uint32_t q = 0; q < r->fleet.hosts; q++)
        down += q != host && !group_is_up(r, q);
    if (r->check.view_majority && alive <= down)
        return false;
    return alive > (r->check.view_majority ? down : 0) + 1 ||
           rng_below(&r->fleet.rng, RISKED_ONE_IN) == 0;
}

bool group_may_crash(const struct fleet_node *n, bool keep_memory)
{
    struct group_run *r = n->fleet->ctx;
    const struct view *v = group_newest(r);
    if (group_is_durable(r))
        return true; /* disks have all that counts */
    if (!keeper_may_crash(r, n->node, keep_memory))
        return false;
    if (v == NULL)
        return true;
    if (!views_go_on(r, v, n->node) || !is_safe(r, v, n->node))
        return false;
    return is_spared(r, v, n->node) || rng_below(&r->fleet.rng, RASH_ONE_IN) == 0;
}

/* All cells can have their members of those who are up. */
static bool is_enough(const struct group_run *r)
{
    uint64_t up = 0;
    for (uint32_t q = 0; q < r->fleet.hosts; q++)
        up |= group_is_up(r, q) ? set_of(q) : 0;
    for (uint32_t k = 0; k < r->check.cells; k++) {
        const struct cell_layout *l = &r->cell[k].layout;
        if (set_count(l->hosts & up) < (l->overlap ? l->members_min : r->check.cells))
            return false;
    }
    return true;
}

/* Whom a cell that is on disks waits for, because nobody has its state: it is vacant, or will be in the next view. */
static uint64_t last_members(const struct group_run *r, const struct view *v, uint32_t cell)
{
    if (v->cell[cell].state == CELL_VACANT)
        return v->cell[cell].members_last;
    for (uint64_t rest = v->cell[cell].members; rest; rest = set_rest(rest))
        if (is_alive_in(r, v, set_first(rest)) && r->check.host[set_first(rest)].cell[cell].has)
            return 0;
    return v->cell[cell].members;
}

static bool is_awaited(const struct group_run *r, uint32_t host)
{
    const struct view *v = group_newest(r);
    for (uint32_t k = 0; v && k < v->cells; k++)
        if (r->check.kept >> k & 1 && in_set(last_members(r, v, k), host))
            return true;
    return false;
}

bool group_spare(const struct fleet_node *n)
{
    const struct group_run *r = n->fleet->ctx;
    if (!is_enough(r) || group_is_durable(r) || is_awaited(r, n->node))
        return false;
    const struct view_keepers *now = keepers_now(r);
    bool begun = carrying(r, now, UINT32_MAX) >= majority_of(now);
    return begun || (now->generation == 0 && !group_keeps(r, n->node));
}

bool group_may_leave(const struct group_node *n)
{
    const struct view *v = group_newest(n->run);
    return v && member_view(n->member) && v->vid == member_view(n->member)->vid &&
           is_spared(n->run, v, n->host) && views_go_on(n->run, v, n->host);
}

bool group_is_hopeless(const struct group_run *r)
{
    const struct view *v = group_newest(r);
    if (group_is_durable(r))
        return false;
    if (r->keepers_doomed)
        return true;
    const struct view_keepers *now = keepers_now(r);
    for (uint32_t i = 0; i < now->count; i++) {
        const struct keeper *k = keeper_of(r, now->host[i]);
        if (k && keeper_generation(k) == now->generation && log_of(r, now->host[i]).lost)
            return true;
    }
    return v != NULL && !views_go_on(r, v, UINT32_MAX);
}
