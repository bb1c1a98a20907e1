/* What the members of a group show of their views, for `tram view` and `tram status`. */
#ifndef CLI_MEMBER_VIEW_H
#define CLI_MEMBER_VIEW_H

#include "cli/running.h"

#include <stdio.h>

/* The newest view of all hosts that are up, and who is not in it. */
void member_view_print(const struct running *, FILE *);
void member_view_json(const struct running *, FILE *);

/* Either of them on standard output, when a view that is changing has changed. Whether all hosts that run are in one view, and it is
 * adequate. */
bool member_view_show(struct running *, bool json);

#endif
