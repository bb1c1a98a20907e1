/* A durable cluster of real processes that loses power: three hosts with shadows of their disks (disk/block_file.h), three groups
 * of three replicas, and clients under load, each a process. The test forks and kills them, plays the loss of power on their
 * directories while they are down, and in the end checks the traces of all lives together.
 *
 * What the processes show the test is on a board in shared memory. With POWER_SAY in the environment they say on stderr what they
 * do; the files of a run that has failed are kept, of one with a planted bug only with POWER_KEEP; with POWER_STAY it stays as it is, for a debugger. */
#ifndef TESTS_PROC_POWER_H
#define TESTS_PROC_POWER_H

#include "base/hist.h"
#include "base/rng.h"
#include "conf/cluster.h"
#include "notice.h"

#include <stdatomic.h>
#include <sys/types.h>

enum {
    POWER_REFUSED = 5, /* exit code of a client that is to be replaced */
    POWER_LIVES = 1 << 15,
};

enum { POWER_HOSTS = 3, POWER_GROUPS = 3, POWER_CLIENTS = 2, POWER_ALL = (1 << POWER_HOSTS) - 1 };

#define MS UINT64_C(1000000)         /* in nanoseconds */
#define POWER_PATIENCE (120000 * MS) /* for what must happen: only a hang takes so long */

/* Which process a life of a place was, as messages say that were delivered. */
struct power_life {
    _Atomic uint64_t key; /* place and life, plus one; 0: free */
    _Atomic uint64_t owner;
};

struct power_board {
    struct power_life life[POWER_LIVES];
    struct {
        _Alignas(64) _Atomic uint64_t up; /* set by the host, cleared by the test */
        _Atomic uint64_t wrong;           /* messages out of turn */
        struct notice group[POWER_GROUPS];
    } host[POWER_HOSTS];
    struct {
        _Alignas(64) _Atomic uint64_t open;
        _Atomic uint64_t served;                 /* since it is open */
        _Atomic uint64_t done;                   /* messages, */
        _Atomic uint64_t answered[POWER_GROUPS]; /* and replies of each group, over all lives */
        atomic_int stop;
    } client[POWER_CLIENTS];
};

struct power_options {
    enum cluster_protocol protocol;
    enum cluster_transport transport;
    uint32_t cuts, stops;
    uint64_t seed;
    bool keep_runtime; /* no cut is a reboot */
    bool planted;      /* it is to fail */
    bool plain;        /* disks have no shadows: no power is lost */
};

struct power {
    struct power_options opt;
    struct rng rng;
    char dir[64], file[96], traces[96], log[96];
    struct tram_cluster *cluster;
    struct power_board *board;
    pid_t host[POWER_HOSTS], client[POWER_CLIENTS]; /* 0: does not run */
    uint32_t starts[POWER_HOSTS];
    uint32_t comes[POWER_CLIENTS]; /* processes so far: each has a folder for its trace */
    bool stays[POWER_CLIENTS]; /* it came when all hosts were there, and no disk was lost since */
    uint32_t refused;          /* clients that had to come again, being none of these */
    bool sound;                /* every disk is known to be whole, since one was last harmed */
    uint64_t done_mark[POWER_CLIENTS], answered_mark[POWER_CLIENTS][POWER_GROUPS];
};

/* ---- the processes: power_process.c ---- */

/* Which host this process is; POWER_HOSTS: none. */
extern uint32_t power_self;

/* In a process of their own, which ends with what they return. */
int power_host_main(const struct power *, uint32_t host);
int power_client_main(const struct power *, uint32_t client);

/* ---- traces of clients: power_cluster.c ----
 *
 * A client that came before the hosts, or was killed before a disk knew of its life, has cast nothing: another process may have
 * that life. So each writes its trace into a folder of its own, says in each message which process it is, and its trace goes
 * to the others when something of it was delivered. Of two in one life that must be one. */

uint64_t power_owner(uint32_t client, uint32_t comes);
void power_trace_folder(const struct power *, uint32_t client, uint32_t comes, char *out,
                        size_t bytes);
/* A message of this life, from this process, is delivered. False: another one's was. */
bool power_note_owner(struct power_board *, uint32_t place, uint32_t life, uint64_t owner);

/* ---- the cluster: power_cluster.c; what returns bool is false if it does not, with why printed ---- */

bool power_open(struct power *);        /* makes it; nothing runs yet */
bool power_close(struct power *, bool); /* removes it; false was given: what was said is printed */

void power_start_host(struct power *, uint32_t host);
void power_start_client(struct power *, uint32_t client);
void power_start_clients(struct power *);              /* those that do not run */
void power_kill_hosts(struct power *, uint32_t hosts); /* SIGKILL, all of the mask at once */
void power_kill_clients(struct power *);
bool power_stop_host(struct power *, uint32_t host); /* SIGTERM, and it ends well */
bool power_stop_hosts(struct power *);
bool power_stop_clients(struct power *); /* in peace: with all their answers */

/* For some time; false: a process has ended that should not have, or seen what cannot be. */
bool power_run_for(struct power *, uint64_t ns);
/* Every client has answers to what it asks from now on, of every group. */
void power_mark(struct power *);
bool power_wait_served(struct power *);
/* Every host is up, and every group led with all its replicas attached. */
bool power_wait_well(struct power *);
/* No client runs: all replicas of each group come to the same state and stay there. */
bool power_wait_quiet(struct power *);
/* Everything is up, and comes to rest; the clients end. */
bool power_come_to_rest(struct power *);

/* Of all traces so far, while nobody writes. */
bool power_check_traces(struct power *, bool at_end);

/* ---- disks of hosts that are down: power_disk.c ---- */

bool power_format(struct power *, uint32_t host, uint32_t life);
bool power_cut(struct power *, uint32_t host); /* the loss of power */
bool power_reboot(struct power *);             /* the runtime directory is gone */
bool power_lose(struct power *,
                uint32_t host); /* the disk is gone, and another one is in its place */
bool power_damage(struct power *,
                  uint32_t host); /* bits are flipped, not in what was written last */
/* Whether everything that the host's groups ever had is there. */
bool power_is_whole(struct power *, uint32_t host);

#endif
