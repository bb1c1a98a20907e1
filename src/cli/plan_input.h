/* What `tram plan` plans for: destination sets and how often each was used, read from lines
 * "weight group group ..." or counted from traces.
 *
 * Zeroed memory is an empty input; add to it by plan_input_lines and plan_input_trace, in any order
 * and number, then plan_input_finish gives the groups their numbers and the sets their final form. */
#ifndef CLI_PLAN_INPUT_H
#define CLI_PLAN_INPUT_H

#include "mcast/plan.h"
#include "trace/intern.h"

#include <stdio.h>

struct plan_input {
    struct intern names; /* of the groups, as they came */
    struct intern lists; /* of their numbers in `names`, ascending: one per set */
    uint64_t *weight;    /* by list */
    uint32_t weight_max;
    uint64_t total;

    /* After finish. */
    uint32_t groups;
    char **name; /* by group */
    struct plan_set *set;
    uint32_t set_count;
    uint16_t *member; /* of all sets */
};

/* Reads all lines. A number N stands for the group gN. Errors are ERR_INVALID and begin FILE:LINE:. */
int plan_input_lines(struct plan_input *, FILE *, const char *file, struct err *);

/* Counts the casts in all trace files of a directory. */
int plan_input_trace(struct plan_input *, const char *dir, struct err *);

/* If all groups are called gN with N up to the most possible, they are g1 to the highest, used or
 * not; else those that were named, in the order of their names. ERR_INVALID if there is no set. */
int plan_input_finish(struct plan_input *, struct err *);

void plan_input_fini(struct plan_input *);

#endif
