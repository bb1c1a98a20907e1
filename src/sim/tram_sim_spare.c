/* Members in the public simulator, looked at: who may be lost without more being lost than a group is built for, and is there
 * anything under way? */
#include "sim/tram_sim_impl.h"

#include <inttypes.h>
#include <string.h>

#define MS UINT64_C(1000000)

/* ---- what may befall them ---- */

static const struct member *member_of(const struct tram_sim *s, uint32_t host)
{
    const struct world_member *w = s->process[host].member;
    return w->group ? api_group_member(w->group) : NULL;
}

static bool is_stopped(const struct tram_sim *s, uint32_t host)
{
    return s->fleet.chaos.paused_until[host] == CHAOS_STOPPED;
}

/* The newest view that anybody who is up knows of; NULL: none. */
static const struct view *newest_view(const struct tram_sim *s)
{
    const struct view *newest = NULL;
    for (uint32_t h = 0; h < s->fleet.hosts; h++) {
        const struct member *m = member_of(s, h);
        const struct view *told = m ? keeper_view(member_keeper(m)) : NULL;
        const struct view *begun = m ? member_view(m) : NULL;
        if (told && told->vid > 0 && (newest == NULL || told->vid > newest->vid))
            newest = told;
        if (begun && (newest == NULL || begun->vid > newest->vid))
            newest = begun;
    }
    return newest;
}

/* It goes on in the view. */
static bool is_well_in(const struct tram_sim *s, const struct view *v, uint32_t host)
{
    const struct member *m = member_of(s, host);
    const struct view *own = m ? member_view(m) : NULL;
    return own && own->vid == v->vid && !member_wedged(m) && !is_stopped(s, host);
}

/* A keeper that could carry the views on. */
static bool keeps_well(const struct tram_sim *s, uint32_t host, uint32_t generation)
{
    const struct member *m = member_of(s, host);
    const struct keeper *k = m ? member_keeper(m) : NULL;
    return k && keeper_generation(k) == generation && keeper_carries(k);
}

/* Those who decide on what follows the view; NULL: nobody is up. */
static const struct view_keepers *keepers_at(const struct tram_sim *s, const struct view *v)
{
    for (uint32_t h = 0; h < s->fleet.hosts; h++)
        if (member_of(s, h))
            return keeper_list(member_keeper(member_of(s, h)), v);
    return NULL;
}

static bool keepers_spare(const struct tram_sim *s, const struct view *v, uint32_t host)
{
    const struct view_keepers *k = keepers_at(s, v);
    uint32_t well = 0;
    if (k == NULL || (k->generation == 0 && !in_set(keepers_set(k), host)))
        return true;
    for (uint32_t i = 0; i < k->count; i++)
        well += k->host[i] != host && keeps_well(s, k->host[i], k->generation);
    return well > k->count / 2;
}

/* Somebody else goes on who has what the host has of each cell. */
static bool cells_spare(const struct tram_sim *s, const struct view *v, uint32_t host)
{
    for (uint32_t k = 0; k < v->cells; k++) {
        bool others = !in_set(v->cell[k].members, host);
        for (uint32_t h = 0; h < s->fleet.hosts && !others; h++)
            others = h != host && in_set(v->cell[k].members, h) && is_well_in(s, v, h) &&
                     member_has_state(member_of(s, h), k);
        if (!others)
            return false;
    }
    return true;
}

/* Those who go on are more than those who might come in and die at once. */
static bool members_spare(const struct tram_sim *s, const struct view *v, uint32_t host)
{
    uint32_t well = 0, away = 1;
    for (uint32_t h = 0; h < s->fleet.hosts; h++) {
        well += h != host && is_well_in(s, v, h);
        away += h != host && !is_well_in(s, v, h);
    }
    return s->cluster.conf->view_majority ? well > away : well > 0;
}

/* All that anybody delivered is on disks. */
bool world_is_durable(const struct cluster *f)
{
    for (uint32_t i = 0; i < f->subgroups; i++)
        if (f->subgroup[i].mode != CLUSTER_MODE_DURABLE)
            return false;
    return f->subgroups > 0;
}

bool world_may_crash(const struct fleet_node *n, bool keep_memory)
{
    const struct tram_sim *s = n->fleet->ctx;
    const struct view *v = newest_view(s);
    (void)keep_memory;
    if (world_is_durable(s->cluster.conf))
        return true;
    return v && keepers_spare(s, v, n->node) && members_spare(s, v, n->node) &&
           cells_spare(s, v, n->node);
}

bool world_may_lose_disk(const struct fleet_node *n)
{
    (void)n;
    return false;
}

/* ---- is there anything under way? ---- */

static bool host_is_level(const struct tram_sim *s, const struct view *v, uint32_t host)
{
    const struct member *m = member_of(s, host);
    if (m == NULL || is_stopped(s, host) || member_left(m))
        return !in_set(v->members, host);
    if (!is_well_in(s, v, host))
        return false;
    for (uint32_t k = 0; k < v->cells; k++) {
        if (in_set(v->cell[k].learners, host))
            return false;
        if (in_set(v->cell[k].members, host) &&
            (!member_has_state(m, k) ||
             !cell_compare_has_all(s->cells, (struct cell_compare_who){host, k, 0})))
            return false;
    }
    return true;
}

/* One that waits for a host that is down waits as long as it is down. */
static bool all_down_or_found(const struct tram_sim *s, const struct view *v)
{
    bool all_up = true;
    for (uint32_t h = 0; h < s->fleet.hosts; h++)
        all_up &= member_of(s, h) != NULL;
    for (uint32_t k = 0; k < v->cells; k++)
        if (v->cell[k].state == CELL_VACANT && all_up)
            return false;
    return true;
}

static bool is_level(const struct tram_sim *s)
{
    const struct view *v = newest_view(s);
    bool none = true;
    for (uint32_t h = 0; h < s->fleet.hosts; h++)
        none &= member_of(s, h) == NULL || is_stopped(s, h);
    if (none || v == NULL)
        return none;
    for (uint32_t h = 0; h < s->fleet.hosts; h++)
        if (!host_is_level(s, v, h))
            return false;
    return all_down_or_found(s, v);
}

/* For so long that whoever waits for something would have said so. */
bool world_group_idle(struct tram_sim *s)
{
    const struct cluster *f = s->cluster.conf;
    uint64_t now = tram_sim_now(s), still = (f->suspect_ms + 2 * (uint64_t)f->heartbeat_ms) * MS;
    if (!is_level(s) || s->news + s->fleet.moves != s->still_news) {
        s->still_news = s->news + s->fleet.moves;
        s->still_ns = now;
        return false;
    }
    return now - s->still_ns >= still;
}

void world_group_stuck(const struct tram_sim *s, char *text, size_t bytes)
{
    const char *waits = NULL;
    for (uint32_t h = 0; h < s->fleet.hosts; h++) {
        const struct member *m = member_of(s, h);
        const struct view *v = m ? member_view(m) : NULL;
        size_t at = strlen(text);
        snprintf(text + at, bytes - at, " %s:%s/%" PRIu64, s->fleet.node[h].name,
                 m == NULL          ? "down"
                 : is_stopped(s, h) ? "stopped"
                 : member_left(m)   ? "left"
                 : v == NULL        ? "out"
                 : member_wedged(m) ? "wedged"
                                    : "in",
                 v ? v->vid : 0);
        if (m && waits == NULL)
            waits = tram_group_waits(s->process[h].member->group);
    }
    size_t at = strlen(text);
    if (waits)
        snprintf(text + at, bytes - at, "; %s", waits);
}

const char *world_group_leader(const struct tram_sim *s)
{
    const char *name = NULL;
    uint64_t epoch = 0;
    for (uint32_t h = 0; h < s->fleet.hosts; h++) {
        const struct fleet_member *m = &s->fleet.node[h].member[0];
        if (m->unit.of == NULL)
            continue;
        struct unit_status u = unit_status(&m->unit);
        if (u.role != UNIT_LEADER || u.epoch <= epoch)
            continue;
        name = s->fleet.node[h].name;
        epoch = u.epoch;
    }
    return name;
}
