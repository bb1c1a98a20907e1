/* The inside of the public API (include/tram.h). */
#ifndef API_API_H
#define API_API_H

#include "base/err.h"
#include "base/say.h"
#include "conf/cluster.h"
#include "mcast/caster.h"
#include "mcast/replica.h"
#include "mem/lives.h"
#include "mem/tcp/tcp.h"
#include "tram.h"

_Static_assert((int)TRAM_REPLICAS_MAX == (int)LOG_REPLICAS_MAX, "one limit, in two headers");

struct trace_writer;

/* A cluster as the layers below want it. */
struct tram_cluster {
    struct cluster *conf;
    enum mcast_protocol protocol;
    struct overlay *overlay;
    struct mcast_group group[CLUSTER_GROUPS_MAX];
    struct mcast_sizes sizes;
    char file[512];     /* where it was read from, or what stands for that */
    char key_path[512]; /* of the cluster's key; verbs alone needs it */
    struct tram_log log;
};

/* An error of the layers below as one of the API's: the text is copied. */
int api_error(struct tram_error *, int code, const struct err *);

/* ERR_INVALID if the cluster's protocol is group, for what there is not under it. */
int api_refuse_group(const struct tram_cluster *, const char *what, struct err *);

/* What a replica of the cluster is opened with, but for mem, seed and machine. */
struct replica_options api_replica_options(const struct tram_cluster *, uint16_t group,
                                           uint32_t rank);

void api_replica_stats(const struct unit *, uint16_t group, uint32_t rank,
                       struct tram_replica_stats *);

/* The runtime directory of the cluster on this machine. */
int api_directory(const struct tram_cluster *, char *out, size_t bytes, struct err *);

/* A host's place in it. On shared memory it is the memory's business. */
struct api_home {
    char dir[512];
    char lock[CLUSTER_NAME_BYTES + 8];
    int dir_fd, lock_fd;
};

/* Joins the cluster's memory as a host, or as a client in any place that is free. */
int api_join_host(const struct tram_cluster *, uint32_t host, struct api_home *,
                  const struct mem_lives *, const struct say *, struct mem **, struct err *);
int api_join_client(const struct tram_cluster *, const struct say *, struct mem **, struct err *);

/* After mem_close, or if joining has failed. */
void api_home_close(struct api_home *);

/* Why the memory will never be connected again, if so; else NULL. */
const char *api_mem_failure(const struct tram_cluster *, struct mem *);

/* A log tells of this life of a client's place, which the host's disk does not know of yet. */
void api_mem_saw_client(const struct tram_cluster *, struct mem *, uint32_t place, uint32_t life);

/* With all replicas open: may the process have what it will need? */
int api_mem_limits(const struct tram_cluster *, struct mem *, struct err *);

/* What the host shows of itself, to who asks over a network; NULL: nothing any more. */
void api_mem_show(const struct tram_cluster *, struct mem *, const void *page, size_t bytes);

/* What has come to the host's door; false: its memory has none. */
bool api_mem_counts(const struct tram_cluster *, struct mem *, struct tcp_counts *);

/* For asking hosts of other machines what they show (mem/far/far.h, far_look). */
int api_look_open(const struct tram_cluster *, const struct say *, struct mem **, struct err *);

/* Opens a trace file of that name in the directory. */
int api_trace(const struct tram_cluster *, const char *dir, const char *name, const struct say *,
              struct trace_writer **, struct err *);

/* Where a handle's lines go: to its own log if it was given one, else to its cluster's. *log is the handle's
 * and stays in place. */
struct say api_say(const struct tram_cluster *, struct tram_log *log);

/* A log on stderr, for programs (base/say.h). */
struct tram_log api_log_stderr(enum tram_log_level least);

struct tram_group;

/* For `tram host` under protocol group: what its machine says of a cell's state, for `tram view`. */
void api_group_state(struct tram_group *, uint32_t cell, uint64_t count, uint64_t hash);

/* ---- clients ---- */

/* Where a client lives: the real world (world.c), or a simulated one (sim/tram_sim.c). ctx is the world's own for this
 * client. */
struct api_world {
    /* The streams to all groups are opened with the client: in a simulated memory what is on its way to a region that
     * is not there yet holds up what comes after it. */
    bool opens_all;

    uint64_t (*now_ns)(void *ctx);
    const char *(*failure)(void *ctx); /* why the client will never be answered again, or NULL */
    int (*poll)(void *ctx);            /* for tram_client_poll: calls api_client_poll */

    /* Polls, and lets time pass until a message of the client is done, at most until until_ns. Returns how many are
     * done, or an error if it cannot. */
    int (*wait)(void *ctx, uint64_t until_ns, struct err *);
    int (*fd)(void *ctx, struct err *); /* the descriptor, or an error */
    void (*wake)(void *ctx);            /* from any thread: wait returns */

    /* The client casts a message, which is on its way with the next flush; it is told that one is done. */
    void (*cast)(void *ctx, uint64_t seq, struct dst_set);
    void (*done)(void *ctx, uint64_t seq);

    /* tram_client_close: calls api_client_end. */
    void (*close)(void *ctx);
};

int api_client_open(const struct tram_cluster *, const struct tram_client_options *,
                    const struct api_world *, void *ctx, struct mem *, uint32_t place,
                    struct tram_client **, struct err *);
void api_client_end(struct tram_client *);
/* Casts a backup of that id, of 16 bytes, to all groups. */
int api_cast_backup(struct tram_client *, const unsigned char *id, uint64_t *ticket, struct err *);
int api_client_poll(struct tram_client *);                       /* once; returns messages done */
int api_client_served(const struct tram_client *, struct err *); /* can it be answered at all? */
uint64_t api_client_finished(const struct tram_client *);        /* messages done */

/* ---- the page of a host: what `tram status` shows, in a file that others map ---- */

enum { PAGE_MAGIC = 0x74726d74, PAGE_SUFFIX_BYTES = 8 };

struct api_page_replica {
    _Atomic uint64_t group, rank, role, leader, ballot, applied, commit, tail, attached, behind,
        delivered, terms, muted, detached_ms[LOG_REPLICAS_MAX];
    _Atomic uint64_t kept, unkept, lacks, lacks_from, lacks_to, stands, restored_percent;
    _Atomic uint64_t waits[TRAM_WAITS];
    _Atomic uint64_t backup[2], backup_phase, backup_bytes, backup_delivered;
};

/* As struct tram_disk_stats; `durable` 0: there is none. */
struct api_page_disk {
    _Atomic uint64_t durable, state, restored_percent, journal_bytes, journal_bytes_max,
        flush_p50_ns, flush_p99_ns, waiting_bytes, writes, written_bytes;
};

/* As struct tcp_counts; all zero where connections are not ours. */
struct api_page_door {
    _Atomic uint64_t accepted, met, strangers, late, crowded, no_room, malformed, retired;
};

struct api_page {
    _Atomic uint64_t magic, pid, life, replicas, hosts, updated_ns, rounds;
    struct api_page_door door;
    struct api_page_disk disk;
    struct api_page_replica replica[];
    /* Behind the replicas: for each host of the cluster how many lives this one's disk knows of; see api_page_lives. */
};

struct api_page_shape {
    const char *dir, *host;
    uint32_t life, replicas, hosts;
};

/* The last backup of a replica: its id, enum backup_phase, and what of it is written. */
struct api_page_backup {
    uint64_t id[2];
    uint64_t phase, bytes, delivered;
};

/* Makes and maps HOST.page in the directory, for whatever a host shows; NULL: an error. And back, removing it. */
void *api_page_map(const char *dir, const char *host, size_t bytes, struct err *);
void api_page_unmap(void *, const char *dir, const char *host, size_t bytes);

size_t api_page_bytes(uint32_t replicas, uint32_t hosts);
struct api_page *api_page_open(const struct api_page_shape *, struct err *);
void api_page_close(struct api_page *, const struct api_page_shape *);

static inline _Atomic uint64_t *api_page_lives(struct api_page *p, uint64_t replicas)
{
    return (_Atomic uint64_t *)(void *)&p->replica[replicas];
}

/* Each replica, the door, and then the time: who reads that it is new has read what is older. */
void api_page_show(struct api_page *, uint32_t n, const struct tram_replica_stats *);
void api_page_show_backup(struct api_page *, uint32_t n, const struct api_page_backup *);
void api_page_show_disk(struct api_page *, const struct tram_disk_stats *);
void api_page_show_life(struct api_page *, uint32_t host, uint32_t lives);
void api_page_show_door(struct api_page *, const struct tcp_counts *);
void api_page_shown(struct api_page *, uint64_t now_ns);

#endif
