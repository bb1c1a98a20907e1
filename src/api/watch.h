/* What a host logs about its replicas and its peers: take-overs, detaches, snapshots taken, hosts that die
 * and come back, a polling thread that was held up.
 *
 * The protocols keep what happens in their stats and log nothing. This looks at the stats every few
 * milliseconds, compares them with what it saw before, and puts what has changed into one line of each kind, however
 * many groups it is in. Belongs to the host and its thread. */
#ifndef API_WATCH_H
#define API_WATCH_H

#include "api/api.h"
#include "disk/disk.h"
#include "host/host.h"

struct watch_options {
    const struct tram_cluster *cluster;
    uint32_t host; /* whose it is */
    struct mem *mem;
    const struct disk *disk; /* NULL: none */
    struct host *loop;
    uint32_t replicas; /* that there are to look at */
    struct say say;
};

struct watch;

/* NULL: no memory. */
struct watch *watch_open(const struct watch_options *);
void watch_close(struct watch *);

/* The replica i of the host is of that group; looks at all, then watch_say. */
void watch_look(struct watch *, uint32_t i, uint16_t group, const struct unit *);
void watch_say(struct watch *);

#endif
