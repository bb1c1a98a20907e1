/* Commands that meet a running cluster: which file it is, where its runtime directory is, and what its
 * hosts show of themselves there.
 *
 * Every host maps a page, HOST.page, and renews it every few milliseconds (api/api.h). A sample of all
 * pages is taken without joining the cluster, so looking never disturbs it. */
#ifndef CLI_RUNNING_H
#define CLI_RUNNING_H

#include "cli/args.h"
#include "conf/cluster.h"
#include "mem/tcp/tcp.h"
#include "tram.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { RUNNING_DIR_BYTES = 320, RUNNING_TEXT_BYTES = 1024 };

/* ---- options that all these commands have ---- */

struct running_args {
    const char *file;    /* NULL: cluster.yaml */
    const char *cluster; /* a name instead of the file's; NULL: the file's */
};

/* Their rows in a table of options; a is a struct running_args. */
#define RUNNING_OPTIONS(a)                                                                         \
    {"-c, --file", "FILE", "the cluster file (default cluster.yaml)", .text = &(a).file,           \
     .needs = "a file"},                                                                           \
    {                                                                                              \
        "--cluster", "NAME", "the cluster's name, if it runs under another than the file's",       \
            .text = &(a).cluster, .needs = "a name"                                                \
    }

const char *running_file(const struct running_args *);

/* Loads the file; CMD_DONE, or the exit code after a message. */
int running_load(const struct running_args *, const char *command, struct tram_cluster **);

/* The runtime directory; CMD_DONE, or CMD_FAILED after a message. */
int running_directory(const struct tram_cluster *, const char *command,
                      char out[RUNNING_DIR_BYTES]);

/* Can a process of this machine be that host? On shared memory any can. */
bool running_is_here(const struct tram_cluster *, uint32_t host);

/* ---- what the hosts show ---- */

enum running_state {
    RUNNING_DOWN,     /* no process has the host */
    RUNNING_STARTING, /* one has, and shows nothing yet */
    RUNNING_SILENT,   /* it has not renewed its page for a second: stopped, or hung */
    RUNNING_UP,
    RUNNING_ELSEWHERE, /* on another machine, and cannot be asked */
};

struct running_host {
    enum running_state state;
    pid_t pid;         /* of the page; 0 if there is none */
    uint32_t life;     /* processes that were this host before */
    uint32_t replicas; /* that it carries */
    struct tcp_counts door;
    bool durable; /* it has a disk: */
    struct tram_disk_stats disk;
    uint32_t lives[CLUSTER_HOSTS_MAX]; /* of each host, as its disk knows of them */
    bool elsewhere;                    /* its address is none of this machine's, */
    bool asked;                        /* and what we know of it, it was asked for */
};

struct group_page_record;

/* The samples of all hosts, at one time: of this machine from their pages, of others by asking them. */
struct api_page_backup;

struct running {
    const struct tram_cluster *cluster;
    char dir[RUNNING_DIR_BYTES];
    struct mem *look; /* what asks; NULL until there is somebody to ask */
    bool mute;        /* it cannot be done, and that was said */
    uint64_t now_ns;
    struct running_host *host;          /* by number */
    struct api_page_backup *backup;     /* likewise, their backups */
    struct tram_replica_stats *replica; /* by group and rank; see running_replica */
    /* Under protocol group instead: what each host shows; see running_member. */
    unsigned char *record;
    size_t record_bytes;
};

/* Zeroed memory is needed. CMD_DONE, or CMD_FAILED after a message; the first sample is taken. */
int running_open(struct running *, const struct tram_cluster *, const char *command);
void running_close(struct running *);

void running_sample(struct running *);

/* What the replica showed last; of a host that is not up it is old, or all zero. */
const struct tram_replica_stats *running_replica(const struct running *, uint32_t group,
                                                 uint32_t rank);

/* Of a host of protocol group: what it shows, or showed last before it ended. NULL: nothing. */
const struct group_page_record *running_member(const struct running *, uint32_t host);

/* The host that is up and in the newest view of all that are; -1: none is in any. */
int running_newest(const struct running *);

/* Every host that runs is in that view, and it is adequate. */
bool running_all_in_view(const struct running *);

/* Its last backup. */
const struct api_page_backup *running_backup(const struct running *, uint32_t group, uint32_t rank);

/* The number of the host that carries the replica. */
uint32_t running_host_of(const struct running *, uint32_t group, uint32_t rank);
uint32_t running_replicas(const struct running *, uint32_t group);

/* The rank of the replica that leads, on a host that is up; -1: none does. */
int running_leader(const struct running *, uint32_t group);

/* "is running; ...": what to say of a cluster none of whose hosts is. Over a network only those of this
 * machine are seen. Names another user's cluster of the same name, if there is one. */
struct running_text {
    char s[RUNNING_TEXT_BYTES];
};
struct running_text running_not(const struct tram_cluster *);

/* Hosts that are not down. */
uint32_t running_hosts_alive(const struct running *);

/* A group's replicas, and those that are only memory of it. */
uint32_t running_members(const struct running *, uint32_t group);

/* Every group has a leader; and every replica takes part, too. Under protocol group: as running_all_in_view; and that of
 * all hosts. */
bool running_all_led(const struct running *);
bool running_all_attached(const struct running *);

const char *running_state_name(enum running_state);

/* ---- commands that look ---- */

/* Leaders and views change within milliseconds. What is still amiss after this is no change. */
enum { RUNNING_CHANGE_MS = 1000 };

void running_pause(uint32_t ms);

/* Samples until it holds, for so long at most. Whether it does. */
bool running_until(struct running *, bool (*holds)(const struct running *), uint64_t ms);

/* Loads the file, takes the first sample, and has the command look. Returns its exit code, or that of what went wrong. */
int running_look(const struct running_args *, const char *command,
                 int (*look)(const void *args, struct running *), const void *args);

/* CMD_FAILED, after a message: no host runs. */
int running_nobody(const struct running *, const char *command);

#endif
