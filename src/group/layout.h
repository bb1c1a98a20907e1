/* Who goes into which cell: a pure function of the view before, of who is left and who has come.
 *
 * The leader of the keepers computes it, and all others read it from the view, so nobody has to agree on how. */
#ifndef GROUP_LAYOUT_H
#define GROUP_LAYOUT_H

#include "group/view.h"

/* What a cell wants, from the cluster file. */
struct cell_layout {
    uint64_t hosts;       /* who may be in it */
    uint32_t members_min; /* fewer: the view is not adequate; at least 1 */
    uint32_t members_max; /* no more are put in; 0: as many as may */
    uint64_t senders;     /* which of its members send; all ones: all of them */
    uint32_t subgroup;    /* cells of the same subgroup share no member unless `overlap` */
    bool overlap;
};

/* A user's own layout. `next` has its members, and the cells' state, stateful and trims; it is filled with members and senders of each
 * cell that is not vacant. What it does against the rules of layout_fill is put right: who may not be there is left out. */
typedef void (*layout_fn)(void *ctx, const struct view *before, struct view *next);

struct layout_options {
    const struct cell_layout *cell;
    uint32_t cells;
    layout_fn
        fill; /* NULL: who is there stays, then the hosts by number, the cell with the fewest first */
    void *ctx;
};

/* On entry `next` has vid, members and lives, and of each cell state, born, in `stateful` those members of `before` who have its state
 * and go on, and in `learners` whoever is not to be a member without the state. Fills members, senders, stateful, learners and adequate. Who would be a
 * learner is a member nevertheless if the cell has fewer than members_min without it. A cell keeps at least one who has its state, whatever else is wanted. One that is
 * unborn begins when members_min are there. */
void layout_fill(const struct layout_options *, const struct view *before, struct view *next);

/* For `tram view`: which cell lacks members, or GROUP_CELLS_MAX; and how many. */
uint32_t layout_lacks(const struct layout_options *, const struct view *, uint32_t *missing);

#endif
