/* The parts of `tram demo`: host processes that it starts, kills and watches, and clients that load
 * them. cmd_demo.c puts them together. */
#ifndef CLI_DEMO_H
#define CLI_DEMO_H

#include "base/hist.h"
#include "tram.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { DEMO_GROUPS = 8, DEMO_REPLICAS = 3, DEMO_HOSTS = 3, DEMO_CLIENTS = 3 };

/* ---- hosts (demo_hosts.c): one thread ---- */

struct demo_hosts {
    const char *file;      /* the cluster file */
    const char *trace_dir; /* of the host processes */
    const char *pages;     /* the cluster's directory, where hosts show what they do */
    pid_t pid[DEMO_HOSTS]; /* 0: not running */
    char failure[80];
};

/* What the pages of all hosts say. */
struct demo_view {
    bool up[DEMO_HOSTS]; /* runs, and every replica of it takes part */
    uint32_t leads[DEMO_HOSTS];
    int leader[DEMO_GROUPS]; /* host; -1: nobody says so */
    bool level;              /* all replicas of each group have delivered the same number */
    uint64_t delivered;      /* by all replicas */
};

const char *demo_host_name(uint32_t host);

/* The host process: the hidden `tram demo --host NAME --file F --trace DIR`. Ends on SIGTERM. */
int demo_host_main(const char *name, const char *file, const char *trace_dir);

/* Starts a host process; false with `failure` set. */
bool demo_host_start(struct demo_hosts *, uint32_t host);
void demo_host_kill(struct demo_hosts *, uint32_t host);

/* Asks all to end in order, and kills those that do not; false if one had to be, or failed. */
bool demo_hosts_stop(struct demo_hosts *);

/* True if a host ended that nobody killed; `failure` says which. */
bool demo_hosts_failed(struct demo_hosts *);
void demo_hosts_view(const struct demo_hosts *, struct demo_view *);

/* ---- load (demo_load.c) ---- */

/* A stretch of time whose longest silence is wanted. */
struct demo_watch {
    _Atomic uint64_t from_ns; /* 0: not yet */
};

enum { DEMO_KILL, DEMO_RETURN, DEMO_WATCHES };

enum { DEMO_OUTSTANDING = 32 };

/* A message under way. */
struct demo_flight {
    uint64_t ticket;
    uint64_t cast_ns; /* 0: the place is free */
    uint32_t groups;
};

struct demo_client {
    struct demo_load *load;
    uint32_t index;
    pthread_t thread;
    struct tram_client *client;
    struct tram_error error; /* set if `failed` */
    struct demo_flight flight[DEMO_OUTSTANDING];
    uint64_t last_done_ns;
    uint64_t pause_ns[DEMO_WATCHES];      /* longest silence */
    uint64_t slow_ns[DEMO_WATCHES];       /* longest time that a message took */
    struct hist latency[DEMO_GROUPS + 1]; /* by number of destinations */
    _Atomic uint64_t casts, done;
    _Atomic bool failed, ended;
};

struct demo_load {
    const struct tram_cluster *cluster;
    const char *trace_dir;
    uint64_t rate; /* multicasts a second that each client casts at most */
    struct demo_watch watch[DEMO_WATCHES];
    _Atomic bool enough;  /* cast no more, wait for what is under way */
    _Atomic bool abandon; /* end at once */
    struct demo_client client[DEMO_CLIENTS];
    uint32_t started;
};

/* Starts the clients' threads. */
bool demo_load_start(struct demo_load *);

/* From now on, for a second, the silence is watched. */
void demo_load_watch(struct demo_load *, unsigned watch);

uint64_t demo_load_done(const struct demo_load *);
uint64_t demo_load_casts(const struct demo_load *);

/* All clients have ended; the first error of one, or NULL. */
bool demo_load_ended(const struct demo_load *);
const char *demo_load_error(const struct demo_load *);

/* Waits for the threads. */
void demo_load_join(struct demo_load *);

#endif
