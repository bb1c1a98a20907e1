/* What the next view is: a pure function of the applied view, of the reports on it, and of what the top rows say.
 *
 * The leader of the keepers computes it once a view is closed and proposes it to the log. What it does not know (a report that is under
 * way) makes the next view another one, and never a wrong one. */
#ifndef GROUP_DECIDE_H
#define GROUP_DECIDE_H

#include "group/keeper.h"

struct decide_input {
    const struct view *now;
    const struct layout_options *layout;
    bool view_majority;
    const struct view_keepers *first; /* the keepers of generation 0; NULL: they stay for ever */
    uint32_t keepers_least;           /* fewer they never are, unless they were at first */
    /* By cell, an enum cell_kept; NULL: none is. */
    const unsigned char *kept;
    bool stateless; /* cells have no state but what is kept of them */

    /* By host. */
    const struct report *report[GROUP_HOSTS_MAX]; /* its last one; NULL: none */
    uint64_t claims[GROUP_HOSTS_MAX];             /* of a member: whom it does not hear */
    uint64_t life[GROUP_HOSTS_MAX];   /* who is there, member or not: the life it is in; others 0 */
    uint64_t leaves[GROUP_HOSTS_MAX]; /* the life that wants to leave */
    /* Of who is there in the life above: how far its disk has each cell (versions_found.reach). NULL: it has not said so in this life, or being a member in
     * the applied view, since its disk may have changed in the views before. */
    const uint64_t *reach[GROUP_HOSTS_MAX];
    uint64_t made[GROUP_HOSTS_MAX]; /* and in which life of its that disk was a new one */

    uint64_t reset[GROUP_CELLS_MAX / 64]; /* cells that are to begin anew if they are vacant */
};

/* Which members have reported on the applied view, in the life that is in it, something that can be. */
uint64_t decide_reported(const struct decide_input *);

/* What is kept of a cell on the disks of its members. */
enum cell_kept {
    KEPT_NOT,
    KEPT_SOME, /* written behind: a member may have delivered more than its disk has */
    KEPT_ALL,  /* what anybody delivered is on the disks of all members */
};

/* The view goes on from what its members hold in memory: enough of them have reported. Else it ends, if it does, from disks. */
bool decide_ends(const struct decide_input *, uint64_t enders);

/* Who keeps views from the next one on, which has its members; `stay` of them were in the one before. */
void keepers_next(const struct decide_input *, uint64_t stay, struct view *next);
/* Others would keep if there were another view now. */
bool keepers_could_move(const struct decide_input *);

/* Makes `next` of them. NULL, or why there is none yet, as a sentence; then what is in `next` is void. */
const char *decide(const struct decide_input *, struct view *next);

#endif
