/* The inside of the multicast measurements: mcast_cluster.c opens hosts and clients, mcast.c measures them, and
 * mcast_work.c counts what they do. One thread has it all but for the rig's, which polls the hosts. */
#ifndef BENCH_MCAST_IMPL_H
#define BENCH_MCAST_IMPL_H

#include "bench/wire.h"
#include "host/host.h"
#include "mcast/caster.h"
#include "mcast/replica.h"

enum { SETS = 1024 }; /* destination sets, drawn before anything is timed */

/* A host with its replicas. */
struct server {
    struct mem *mem;
    struct host *host;
    struct replica **replica; /* one for each group; NULL where it has no replica */
    struct bench_machine *machine;
    struct bench_child child; /* with processes */
};

struct user {
    struct mem *mem;
    struct caster *caster;
    uint64_t done;
};

struct bench {
    struct bench_rig rig;
    struct bench_args args;
    struct bench_nodes nodes;
    struct bench_wire wire;
    struct overlay *overlay;
    struct mcast_group *groups;
    struct mcast_sizes sizes;
    struct server server[BENCH_HOSTS_MAX];
    struct user user[BENCH_CLIENTS_MAX];
    uint32_t clients; /* that are open */
    struct hist hist; /* of a point */
    unsigned char *payload;
    uint16_t *set; /* SETS times dst groups */
    uint32_t set_next;
    uint64_t laps;      /* of bench_round */
    uint64_t looks;     /* of clients at their replies */
    bool split;         /* BENCH_SINGLE: */
    uint64_t served_ns; /* CPU time of the hosts when saturated */
};

/* ---- mcast_cluster.c ---- */

/* Hosts, and on shared memory a client: as args say. Closed with all clients, also after a failure. */
int bench_cluster_open(struct bench *, struct err *);
void bench_cluster_close(struct bench *);
int bench_user_open(struct bench *, uint32_t place, struct err *);

/* ---- mcast.c ---- */

void bench_round(void *bench, uint64_t now_ns); /* of all hosts */

/* Opens clients until there are so many. They come only when they are needed: alone means that nobody else is
 * connected. */
int bench_users_grow(struct bench *, uint32_t clients, uint64_t warm_up_ns, struct err *);

/* Casts the next message as soon as there is room for it; waits until nothing is under way; both. False if that is not
 * so at the deadline. */
bool bench_cast_one(struct bench *, struct user *, uint64_t now, uint64_t deadline_ns);
bool bench_await(struct bench *, struct user *, uint64_t now, uint64_t deadline_ns);
bool bench_send_one(struct bench *, struct user *, uint64_t now, uint64_t deadline_ns);

/* Saturates it for that long with all clients that are open; longer if the other thread or process had no core
 * meanwhile. Returns the seconds that it took. */
double bench_saturate(struct bench *, uint64_t for_ns, uint64_t *messages);
uint64_t bench_done(const struct bench *); /* messages of all clients */

/* Opens it all, measures, closes it. */
int bench_run(const struct bench_args *, int (*measure)(struct bench *, void *out, struct err *),
              void *out, struct err *);

#endif
