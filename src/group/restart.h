/* Cells that go on from disks: after everybody has lost power, or all that were in a cell; pure functions.
 *
 * Which view was the last one is no question here: the keepers have their log on disk (agree/log.h), so a majority of them, whichever it is, knows
 * it, and nobody has acted on a view that such a majority did not have on disk. The question is whose logs of a cell have everything that
 * anybody has delivered, and up to where they count.
 *
 * Two things are known of each view and cell. When the view begins, everything that was delivered is in all logs that reach its *cut*: at least that
 * many are on the disks of all who reported when the view before was ended. And what is delivered in the view itself is on the disks of all its members, each of
 * which has its log marked as one of this view first. So of those who are back:
 *
 *   - if a member has no log of the view, and its disk is the one that it had then, nothing was delivered in it. All logs that reach the cut count, up to
 *     the cut, whoever has them;
 *   - else the logs of the view count, and no others. The *shortest* of them says where the cell goes on: nobody has delivered more, all of them
 *     have that much, and none of them is needed more than the others should the power fail again.
 *
 * What a log has beyond that does not count: others go on without it. A log that ends below the cut counts for nothing, also that of a member: it came
 * in without a state, and what it has is of an earlier life. A view in which nothing was delivered leaves the cut where it was, so the logs of those
 * who were lost meanwhile still count.
 *
 * Of a cell whose log is written behind (KEPT_SOME) members may have delivered what no disk has: there the longest log is taken, and who has less
 * gets a copy. A log that comes back later and has more than the cell went on with does not count any more, all of it: it may begin with a state that has what is lost.
 *
 * Versions are stamps; a host's *reach* in a cell is the version up to which its disk has all of it: its vid says of which view the log is. */
#ifndef GROUP_RESTART_H
#define GROUP_RESTART_H

#include "group/decide.h"

/* Is anything of the cell kept on disks? */
bool restart_keeps(const struct decide_input *, uint32_t cell);

/* Of hosts that come in with the next view, and of `enders`, who have reported on this one: whose logs of the cell count, and the version below
 * which they do. */
struct restart_from {
    uint64_t hosts, cut;
};

struct restart_from restart_from(const struct decide_input *, uint64_t enders, uint32_t cell);

/* Too few have reported for the view to end in order, and with those who are back there are enough: what those who reported have counts as what disks have, and
 * no more is delivered of the view. */
void restart_mixed(const struct decide_input *, uint64_t enders, uint32_t cell,
                   struct view_cell *next);

/* Members of the applied view who are back: in a later life, and have said what their disks have. */
uint64_t restart_back(const struct decide_input *);

/* A cell of which nobody reported the state: what it is in the next view if disks of its `members` have it (LIVES, or UNBORN if it is certain that nothing was delivered).
 * False: it stays vacant. */
bool restart_cell(const struct decide_input *, uint64_t enders, uint64_t members, uint32_t cell,
                  struct view_cell *next);

/* The cut of a cell whose view ends with the trims of `next`. */
uint64_t restart_cut(const struct decide_input *, uint32_t cell, const struct view_cell *next);

/* What a vacant cell has to remember. */
void restart_vacate(const struct decide_input *, uint32_t cell, struct view_cell *next);

/* The view cannot go on from memory. What is missing to go on from disks? */
struct restart_lacks {
    enum {
        LACKS_NOTHING,
        LACKS_DISKS,   /* nothing of the group is kept */
        LACKS_MEMBERS, /* `count` more of the hosts */
        LACKS_CELL,    /* one of the hosts, or more, for the cell */
        LACKS_PAST,    /* a host has a log of a view that the keepers do not know */
    } what;
    uint64_t hosts;
    uint32_t count, cell;
};

struct restart_lacks restart_lacks(const struct decide_input *, uint64_t enders);

#endif
