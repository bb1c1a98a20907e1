/* Who takes part in a message: every write of a run into the stream of a client or a group is read, and
 * every entry that a log decides; each message in it must concern the group that is written to, and the
 * group that writes. Under the genuine protocol these are its destinations alone; in a tree, the groups on
 * the ways from the lowest common ancestor down to them. Snapshots and replies order nothing and are left
 * out; so is what a leader that was deposed without knowing it proposes, since nobody will hear of it. */
#ifndef SIM_PARTICIPATION_H
#define SIM_PARTICIPATION_H

#include "mcast/replica.h"
#include "mem/sim/sim.h"
#include "sim/mcast_check.h"

enum { PART_PUT_BYTES_MAX = 1 << 16, PART_FRAME_BYTES_MAX = 1 << 13, PART_NODES_MAX = 64 };

/* The last put of a node ended within a frame: this much of it, in that lane. */
struct part_cut {
    unsigned char frame[PART_FRAME_BYTES_MAX];
    uint32_t bytes;
    struct mem_lane_spec of;
    uint64_t end; /* position at which the rest is to come */
};

struct participation {
    struct mcast_check *check; /* knows what was cast, and takes violations */
    enum mcast_protocol protocol;
    const struct overlay *overlay;
    uint32_t clients; /* places */
    /* By writer: one may be stopped between the two puts of a frame while others write. */
    struct part_cut cut[PART_NODES_MAX];
    _Alignas(8) unsigned char put[PART_PUT_BYTES_MAX]; /* what is looked at */
};

/* For sim_on_put. */
void participation_put(void *participation, const struct mem_lane_spec *, uint64_t pos,
                       const void *, uint32_t bytes);

/* For what a replica observes. */
void participation_entry(const struct participation *, uint16_t group, const struct entry *);

#endif
