/* Planted bugs of mcast/ that take more than a line (base/planted.h). The code where they are switched on keeps one
 * `if (PLANTED(name))`; elsewhere than in the test build there is nothing behind it. */
#ifndef MCAST_PLANTED_H
#define MCAST_PLANTED_H

#include "base/planted.h"
#include "mcast/message.h"

struct item;
struct replica;

/* forward_all: every edge is wanted. Returns how many there are. */
uint32_t planted_forward_all(uint32_t *want, uint32_t edges);

/* tell_all: groups that are no destinations are told, too. */
void planted_tell_all(struct replica *, struct dst_set, const struct stamp_note *,
                      void (*tell)(struct replica *, uint16_t group, const void *, uint32_t bytes));

/* slot_stale: what the last message in this place was told counts for the next one. */
void planted_slot_stale(struct item *);

#endif
