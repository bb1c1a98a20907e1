/* `tram bench --durable`: clusters that keep everything on disk, beside what the disk itself can do and beside the same clusters
 * without disks, in one run.
 *
 * The hosts are processes with the public API, as users have them; the clients are this thread. The *floor* is what a quorum of
 * disks would cost without any protocol: as many threads as a group has replicas each write a block with O_DIRECT and flush it, all
 * at the same time, into files that were filled before. It is measured in turns with the latency of messages, because a disk that
 * others use too is another one from second to second. Caller's memory, one thread. */
#ifndef BENCH_DURABLE_H
#define BENCH_DURABLE_H

#include "bench/bench.h"

#include <stdio.h>

/* ---- the floor: floor.c ---- */

enum { FLOOR_BLOCK_BYTES = 4096, FLOOR_STREAM_BYTES = 1 << 20 };

struct floor;

/* Files of their own in the directory, which are removed when it is closed. */
int floor_open(const char *dir, uint32_t writers, struct floor **, struct err *);
void floor_close(struct floor *);

/* Writes of so many bytes, again and again for that long: the time until all writers have flushed. */
int floor_measure(struct floor *, uint32_t bytes, uint64_t for_ns, struct hist *, struct err *);

/* ---- the measurements: durable.c ---- */

enum {
    DURABLE_LOADS = 3,
    DURABLE_KILLS = 9,
    DURABLE_PAYLOAD_MAX = 16 << 10,
    DURABLE_DISK_BYTES = 512 << 20, /* of a host's journal */
};

/* One size of message, with all clients. */
struct bench_durable_load {
    uint32_t payload;
    double rate, memory_rate; /* messages a second; of the cluster without disks */
    double many_rate;         /* with several groups */
    double journal;           /* bytes a second that one host writes to its journal */
    double batch;             /* bytes of journal that are flushed at once */
};

/* The longest that a message took when its leader was killed, each time, sorted. */
struct bench_durable_gaps {
    double ns[DURABLE_KILLS];
    uint32_t kills;
};

struct bench_durable {
    struct hist floor;     /* of FLOOR_BLOCK_BYTES */
    struct hist stream;    /* of FLOOR_STREAM_BYTES */
    uint64_t stream_bytes; /* that a disk took in that, and how long */
    uint64_t stream_ns;
    struct hist latency;       /* one client, one message at a time */
    struct hist turn[2];       /* floor and latency of a turn */
    double ratio[BENCH_TURNS]; /* of latency to the floor, sorted */
    struct bench_durable_load load[DURABLE_LOADS];
    struct bench_durable_gaps gaps, memory_gaps; /* the latter without disks */
    bool in_memory;                              /* the directory is no disk's */
    char dir[256];
};

/* Below `dir`, or where there is a disk: TMPDIR, the current directory. Nothing is left there. */
int bench_durable(const struct bench_args *, const char *dir, struct bench_durable *, struct err *);

/* A host of it: serves until its standard input is closed. */
int bench_durable_serve(const char *file, uint32_t host, struct err *);

/* Bytes a second that a disk takes, by the floor. */
double bench_durable_stream(const struct bench_durable *);

void bench_durable_print(const struct bench_args *, const struct bench_durable *, FILE *);
void bench_durable_json(const struct bench_args *, const struct bench_durable *, FILE *);

/* ---- the clusters: durable_cluster.c ---- */

struct tram_client;
struct tram_cluster;
struct durable_shown;

struct durable_user {
    struct tram_client *client;
    uint64_t done;
};

struct durable_cluster {
    struct bench_args args; /* groups, replicas, hosts, protocol, log_bytes */
    bool durable;
    char dir[320], file[384]; /* of the cluster file */
    char name[64];
    struct tram_cluster *cluster;
    pid_t pid[BENCH_HOSTS_MAX]; /* 0: it does not run */
    int stop[BENCH_HOSTS_MAX];
    struct durable_shown *shown[BENCH_HOSTS_MAX]; /* what the hosts tell of themselves */
    struct durable_user user[BENCH_CLIENTS_MAX];
    uint32_t users;
};

/* What hosts have written to their journals, all of them together. */
struct durable_written {
    uint64_t bytes, batches;
};

/* Makes files and directories in `dir`, starts the hosts, and waits until every group is led and all take part. Closed
 * also after a failure. */
int durable_open(struct durable_cluster *, const struct bench_args *, bool durable, const char *dir,
                 struct err *);
void durable_close(struct durable_cluster *);

/* Opens clients until there are so many. */
int durable_users_grow(struct durable_cluster *, uint32_t users, struct err *);

/* Until every group is led and has all its replicas. */
int durable_await(struct durable_cluster *, struct err *);

/* The host that leads the group, or -1. It ends at once; later another process takes its place. */
int durable_leader(const struct durable_cluster *, uint32_t group);
void durable_kill(const struct durable_cluster *, uint32_t host);
int durable_restart(struct durable_cluster *, uint32_t host, struct err *);

struct durable_written durable_written(const struct durable_cluster *);

#endif
