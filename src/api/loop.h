/* What a process that is a host of a cluster has, whatever it carries: the memory, joined under the host's name, and the
 * loop that polls it. Hosts with replicas (host.c) and members of a group (group.c) stand on it.
 *
 * Belongs to one thread, but for api_loop_wake. */
#ifndef API_LOOP_H
#define API_LOOP_H

#include "api/api.h"
#include "host/host.h"

struct api_loop {
    struct api_home home;
    struct mem *mem;
    struct host host;
    struct event event;
    _Atomic bool looping; /* it may be woken */
};

struct api_loop_options {
    const struct tram_cluster *cluster;
    uint32_t index; /* of the host */
    enum cluster_wait wait;
    struct disk *disk;             /* of a durable cluster, else NULL; */
    const struct mem_lives *lives; /* likewise */
    uint32_t traces;               /* files that it is going to have open */
    const struct say *say;
};

void api_loop_init(struct api_loop *);

/* Is the process allowed the descriptors that it may come to need? */
int api_loop_check(const struct api_loop_options *, struct err *);

/* Joins the memory, and makes the loop. api_loop_close in any case. */
int api_loop_open(struct api_loop *, const struct api_loop_options *, struct err *);

/* First nothing shows or wakes it any more, then units and pages are closed, then this. */
void api_loop_close(struct api_loop *);

int api_loop_step(struct api_loop *); /* and the waiting that is due */
int api_loop_poll(struct api_loop *);
int api_loop_fd(struct api_loop *, struct err *);
void api_loop_wake(struct api_loop *);

#endif
