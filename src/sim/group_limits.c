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

bool group_keeps(const struct group_run *r, uint32_t host)
{
    for (uint32_t k = 0; k < r->member_opt.keepers_count; k++)
        if (r->keepers[k] == host)
            return true;
    return false;
}

static struct unit_status log_of(const struct group_run *r, uint32_t keeper)
{
    struct unit_status s = {.behind = true};
    const struct group_node *n = &r->node[keeper];
    if (n->member)
        log_status(keeper_log(member_keeper(n->member)), &s);
    return s;
}

/* A process that ended takes its state with it: it is behind until another keeper has given it one. */
bool group_keeper_lost(const struct group_run *r, uint32_t host)
{
    struct unit_status s = log_of(r, host);
    return s.role == UNIT_JOINING || s.behind;
}

/* Another keeper has all the views that this one has. */
static bool another_keeps(const struct group_run *r, uint32_t host)
{
    for (uint32_t k = 0; k < r->member_opt.keepers_count; k++)
        if (r->keepers[k] != host && !group_keeper_lost(r, r->keepers[k]) &&
            log_of(r, r->keepers[k]).applied >= log_of(r, host).applied)
            return true;
    return false;
}

/* How many keepers could not carry the views on if the host could not. */
static uint32_t keepers_lost(const struct group_run *r, uint32_t but)
{
    uint32_t lost = 0;
    for (uint32_t k = 0; k < r->member_opt.keepers_count; k++)
        lost += r->keepers[k] == but || group_keeper_lost(r, r->keepers[k]);
    return lost;
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
static bool keeper_may_crash(const struct group_run *r, uint32_t host, bool keep_memory)
{
    if (!group_keeps(r, host))
        return true;
    if (keep_memory && !r->fleet.chaos.links)
        return group_keeper_lost(r, host) || another_keeps(r, host);
    return keepers_lost(r, host) <= (r->member_opt.keepers_count - 1) / 2;
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

/* A cell that is on disks has no members, and waits for those whom it had. */
static bool is_awaited(const struct group_run *r, uint32_t host)
{
    const struct view *v = group_newest(r);
    for (uint32_t k = 0; v && k < v->cells; k++)
        if (v->cell[k].state == CELL_VACANT && r->check.kept >> k & 1 &&
            in_set(v->cell[k].members_last, host))
            return true;
    return false;
}

bool group_spare(const struct fleet_node *n)
{
    const struct group_run *r = n->fleet->ctx;
    if (!is_enough(r) || group_is_durable(r) || is_awaited(r, n->node))
        return false;
    uint32_t down = 0;
    for (uint32_t k = 0; k < r->member_opt.keepers_count; k++)
        down += !group_is_up(r, r->keepers[k]) || group_keeper_lost(r, r->keepers[k]);
    return !group_keeps(r, n->node) || down <= (r->member_opt.keepers_count - 1) / 2;
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
    for (uint32_t k = 0; k < r->member_opt.keepers_count; k++)
        if (log_of(r, r->keepers[k]).lost)
            return true;
    return v != NULL && !views_go_on(r, v, UINT32_MAX);
}
