/* What `tram status` and `tram top` show, from two samples of the hosts' pages. */
#ifndef CLI_STATUS_VIEW_H
#define CLI_STATUS_VIEW_H

#include "cli/running.h"

#include <stdio.h>

struct status_view {
    const struct running *now;
    uint64_t *before;   /* deliveries of each group at the sample before */
    uint64_t *position; /* and where its leader was in the log */
    uint64_t before_ns;
    double *rate; /* deliveries a second, by group */
    bool *late; /* by group and rank: has not yet been where the leader was at the sample before */
};

/* Zeroed memory is needed. False: no memory. */
bool status_view_open(struct status_view *, const struct running *);
void status_view_close(struct status_view *);

/* After each running_sample: rates and who is late come from the sample before. */
void status_view_update(struct status_view *);

/* At most that many groups; 0: all. */
void status_view_print(const struct status_view *, FILE *, uint32_t groups_max);
/* As a field of an object, with a comma ahead. */
void status_view_json_disk(const struct tram_disk_stats *, FILE *);
void status_view_json(const struct status_view *, FILE *);

#endif
