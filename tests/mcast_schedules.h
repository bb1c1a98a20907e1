/* What any multicast protocol must pass, stepped by hand (tree_fixture.h). Each returns the property that it
 * found violated, or NULL. The schedules of faults are in tree_schedules.h and genuine_schedules.h. */
#ifndef TESTS_MCAST_SCHEDULES_H
#define TESTS_MCAST_SCHEDULES_H

#include "mcast/mcast.h"

const char *all_sizes(enum mcast_protocol);
const char *second_life(enum mcast_protocol);
const char *as_many_as_replies_fit(enum mcast_protocol);
const char *leaders_cut_off(enum mcast_protocol, bool to, bool from);
const char *bad_message(enum mcast_protocol, uint16_t group, const void *, uint32_t bytes);
const char *bad_list(enum mcast_protocol, uint16_t group, uint16_t count, const uint16_t *list);
const char *false_name(enum mcast_protocol, uint64_t seq, uint16_t life);
const char *false_name_meanwhile(enum mcast_protocol);

#endif
