/* What the test and the processes of a rig share: rig.c is the test, rig_process.c the others. */
#ifndef TESTS_PROC_RIG_IMPL_H
#define TESTS_PROC_RIG_IMPL_H

#include "rig.h"

enum { RIG_PAYLOAD = 64, RIG_BOARD_FD = 100 };

struct board *rig_board_map(void);

/* Destinations of a message: mostly a few groups, often one, now and then all. */
uint32_t rig_draw_groups(struct rng *, uint16_t *list);

#endif
