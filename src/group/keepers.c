/* Who keeps views from the next one on; pure.
 *
 * There are to be as many keepers as at first. One that is no member of the next view, and is not there and about to come in again, makes room for a
 * member, so that those who fail one after another are never a majority. Where members are too few for that there are fewer keepers, an odd number: of two each would be needed. Down to the one
 * that is left where what they decide goes with their processes. Not below three where it stays, on disks or in shared memory: there those who are gone still
 * count, or may come back with it, and keepers of before are named for who is missing.
 *
 * All begin the next log with nothing promised in it, so more than half of those who are named have to be there, in the life that they are named with.
 * Else the keepers stay who they are: they are enough, for they decide this view. A leader that has not heard of most yet makes another view when it has. */
#include "group/decide.h"

static uint32_t wanted(const struct decide_input *in, uint32_t members)
{
    const uint32_t first = in->first->count;
    uint32_t least = first < in->keepers_least ? first : in->keepers_least;
    uint32_t odd = members % 2 ? members : members - 1;
    if (members >= first)
        return first;
    return odd > least ? odd : least;
}

static uint64_t there_of(const struct decide_input *in, uint64_t hosts)
{
    uint64_t there = 0;
    for (uint64_t rest = hosts; rest; rest = set_rest(rest))
        there |= in->life[set_first(rest)] ? set_of(set_first(rest)) : 0;
    return there;
}

static void add(struct view_keepers *k, const struct decide_input *in, uint32_t host, uint32_t most)
{
    uint64_t seen = in->now->seen[host], shows = in->life[host];
    if (k->count == most || in_set(keepers_set(k), host))
        return;
    k->life[k->count] = shows > seen ? shows : seen;
    k->host[k->count++] = host;
}

static void add_all(struct view_keepers *k, const struct decide_input *in, uint64_t hosts,
                    uint32_t most)
{
    for (uint64_t rest = hosts; rest; rest = set_rest(rest))
        add(k, in, set_first(rest), most);
}

/* Who keeps now keeps on, in their order, if it is a member or there; then others that were in the view before, then those who come. False: all stay who they are. */
static bool choose(const struct decide_input *in, uint64_t stay, uint64_t members,
                   struct view_keepers *to)
{
    if (in->first == NULL || members == 0 || in->now->keepers.generation + 1 >= GENERATIONS_MAX)
        return false;
    const struct view_keepers *now = keepers_of(in->now, in->first);
    const uint64_t there = there_of(in, members);
    const uint64_t could = members | there_of(in, keepers_set(now));
    const uint32_t most = wanted(in, set_count(could));
    *to = (struct view_keepers){.generation = now->generation + 1};
    for (uint32_t i = 0; i < now->count; i++)
        if (in_set(could, now->host[i]))
            add(to, in, now->host[i], most);
    add_all(to, in, stay & there, most);
    add_all(to, in, there, most);
    for (uint32_t i = 0; i < now->count; i++)
        add(to, in, now->host[i], most);
    uint64_t set = keepers_set(to);
    return set != keepers_set(now) && set_count(there_of(in, set)) > to->count / 2;
}

void keepers_next(const struct decide_input *in, uint64_t stay, struct view *next)
{
    struct view_keepers to;
    next->keepers = choose(in, stay, next->members, &to) ? to : in->now->keepers;
}

bool keepers_could_move(const struct decide_input *in)
{
    struct view_keepers to;
    return choose(in, in->now->members, in->now->members, &to);
}
