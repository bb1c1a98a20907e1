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

    /* By host. */
    const struct report *report[GROUP_HOSTS_MAX]; /* its last one; NULL: none */
    uint64_t claims[GROUP_HOSTS_MAX];             /* of a member: whom it does not hear */
    uint64_t life[GROUP_HOSTS_MAX];   /* who is there, member or not: the life it is in; others 0 */
    uint64_t leaves[GROUP_HOSTS_MAX]; /* the life that wants to leave */

    uint64_t reset[GROUP_CELLS_MAX / 64]; /* cells that are to begin anew if they are vacant */
};

/* Which members have reported on the applied view, in the life that is in it, something that can be. */
uint64_t decide_reported(const struct decide_input *);

/* Makes `next` of them. NULL, or why there is none yet, as a sentence; then what is in `next` is void. */
const char *decide(const struct decide_input *, struct view *next);

#endif
