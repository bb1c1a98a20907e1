/* What the files of a group's client share (include/tram/group.h). */
#ifndef API_GROUP_CLIENT_H
#define API_GROUP_CLIENT_H

#include "api/api.h"
#include "group/client.h"
#include "host/event.h"
#include "tram/topic.h"

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
    struct tram_client_topic **topic; /* by cell: those that are open */
    uint32_t reads;                   /* how many of them begin on a disk; */
    bool waits_for_disk;              /* and something is to be read */
    char waits[512];
    struct event event;
    _Atomic bool woken; /* since the last wait */
};

/* ---- client_topic.c ---- */

/* As in struct client_calls. */
void client_topic_samples(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *,
                          uint32_t count, uint64_t lost);
void client_topics_close(struct tram_group_client *);
/* Those that begin on a disk are told what is there. False: they all have been. */
bool client_topics_read(struct tram_group_client *, uint64_t now_ns);

#endif
