/* One replica of one group, whatever the protocol: a log, streams to other groups, replies to clients.
 *
 * What a group orders is in its log; what it tells other groups, and answers clients, is a function of
 * the log. Every replica keeps these streams, and whoever leads writes them out, so whoever reads them
 * takes the next message from any replica, once. A protocol (mcast/protocol.h) says what a decided
 * entry means. */
#ifndef MCAST_REPLICA_H
#define MCAST_REPLICA_H

#include "mcast/mcast.h"
#include "mcast/overlay.h"

struct replica_options {
    struct mem *mem;
    enum mcast_protocol protocol;
    const struct overlay *overlay;    /* stays the caller's, for as long as the replica is open */
    const struct mcast_group *groups; /* as many as the overlay has */
    uint16_t group;
    uint32_t rank;
    struct mcast_sizes sizes;
    uint32_t stream_bytes; /* genuine: ring of a stream between groups, at least; 0: 8 KiB */
    uint64_t
        backlog_bytes; /* genuine: of what waits for room in these, before nothing more is taken from
                             * clients; 0: 64 MiB */
    uint64_t heartbeat_ns, suspect_ns, stagger_ns, detach_ns; /* as in log_options */
    uint64_t seed;
    bool duels;                /* likewise */
    struct log_budget *budget; /* likewise */
    struct disk *disk;         /* likewise; it knows the group by its number */
    const struct mcast_machine *machine;
    void *ctx;
    /* For checkers, as in log_machine; may be NULL. */
    void (*observe)(void *ctx, const struct entry *, bool effective);
};

/* What stands before a machine's state of so many bytes (or STATE_UNKNOWN) in what a group begins with: it counts as having
 * delivered so many messages. */
enum { REPLICA_INITIAL_BYTES = 24 };
void replica_initial(unsigned char out[REPLICA_INITIAL_BYTES], uint64_t delivered, uint64_t bytes);

struct replica;
struct log_memory;

int replica_open(const struct replica_options *, struct replica **, struct err *);
void replica_close(struct replica *);

/* What a host that is only memory of the group has of it; of the options mem, groups, group, sizes, protocol and disk count. */
int replica_memory_open(const struct replica_options *, struct log_memory *, struct err *);

/* A client has come that writes this lane, as mem_offer tells: opens what it needs. ERR_NOTFOUND: the lane
 * is nothing that a client of this group would write. */
int replica_client_open(struct replica *, const struct mem_lane_spec *offer, struct err *);

/* The same as what a host steps: it closes the replica. */
struct unit replica_unit(struct replica *);

/* Leads, or is about to. */
bool replica_leads(const struct replica *);

void replica_status(const struct replica *, struct unit_status *);

uint16_t replica_group(const struct replica *);

/* Messages delivered by this replica's state (snapshots included). */
uint64_t replica_delivered(const struct replica *);

#endif
