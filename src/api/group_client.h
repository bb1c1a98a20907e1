/* What the files of a group's client share (include/tram/group.h). */
#ifndef API_GROUP_CLIENT_H
#define API_GROUP_CLIENT_H

#include "api/api.h"
#include "group/client.h"
#include "host/event.h"
#include "tram/group.h"

struct tram_group_client {
    const struct tram_cluster *cluster;
    struct tram_group_client_options opt;
    struct say say;
    struct mem *mem;
    uint32_t place;
    struct group_client *client;
    struct client_cell *cell;
    uint32_t cells;
    bool *said; /* by cell: that nobody is there */
    uint64_t look_ns;
    char waits[512];
    struct event event;
    _Atomic bool woken; /* since the last wait */
};

#endif
