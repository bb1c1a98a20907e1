/* A cluster of real processes under load, for tests that harm it: three hosts that carry eight groups, one
 * client in the test itself and another in a process of its own, all through the public API. What was
 * delivered is traced, and checked when the cluster is closed: nothing lost, nothing twice, one order. How
 * long the client saw no progress is noted.
 *
 * The program of such a test is also its hosts and its other client: rig_process() in main.
 *
 * With RIG_SAY in the environment the processes say on stderr what they do; with RIG_KEEP the files of a run that has
 * failed are kept. TRAM_TEST_SUSPECT_MS is for machines on which 60 ms are nothing. */
#ifndef TESTS_PROC_RIG_H
#define TESTS_PROC_RIG_H

#include "base/hist.h"
#include "base/rng.h"
#include "conf/cluster.h"
#include "notice.h"
#include "tram.h"

#include <stdatomic.h>
#include <sys/types.h>

enum { RIG_GROUPS = 8, RIG_HOSTS = 3 };

#define MS UINT64_C(1000000)   /* in nanoseconds */
#define PATIENCE (120000 * MS) /* only a hang takes so long */
#define HAND_OVER_NS                                                                               \
    (20 * MS) /* in which a fault that was noticed is got over, on a machine that is not busy */

/* What the processes show the test, in memory that all map. */
struct board {
    _Atomic uint64_t stall_ns; /* since the fault: longest time in which some host did not run, */
    _Atomic uint64_t death_ns; /* and how long it took until nothing was left of who was killed */
    struct {
        _Alignas(64) _Atomic uint64_t life; /* 0: not up; set by the host, cleared by the test */
        _Atomic uint64_t wrong;             /* messages out of turn */
        _Atomic uint64_t broken;
        atomic_int stop;
        struct notice group[RIG_GROUPS];
    } host[RIG_HOSTS];
    struct {
        _Alignas(64) _Atomic uint64_t done; /* messages, in this life */
        _Atomic uint64_t life;              /* and which it is, from 1 */
        _Atomic uint64_t place;
        atomic_int stop;
        atomic_int die; /* in the middle of a write, by its own hand */
    } client;
};

struct rig_options {
    enum cluster_protocol protocol;
    enum cluster_transport transport;
    enum cluster_wait wait;
    const char *address[RIG_HOSTS]; /* NULL: of this machine */
    /* In a new process, before it is host RIG_HOSTS > n >= 0, or the other client (n = RIG_HOSTS). */
    bool (*enter)(void *ctx, uint32_t n);
    void *ctx;
};

struct rig {
    struct rig_options opt;
    char dir[64], file[96], traces[96], log[96];
    char self[256]; /* this program */
    struct board *board;
    struct rng rng;
    pid_t pid[RIG_HOSTS];
    pid_t other; /* the client in a process of its own */
    pid_t killer;
    int killer_fd; /* takes the number of the process to be killed */
    struct tram_cluster *cluster;
    struct tram_client *client;
    uint64_t sent, done;
    uint64_t cast_ns;              /* when the last message was cast */
    uint64_t moved_ns;             /* when the last one was done */
    uint64_t reply_ns[RIG_GROUPS]; /* when a group last replied */
    uint64_t mark;                 /* ticket of the first message cast after the fault */
    bool answered[RIG_GROUPS];     /* to a message since the mark */
    bool lasts;                    /* the fault goes on: every gap counts */
    uint64_t gap_ns, group_gap_ns; /* longest stretch without progress since the fault */
    struct hist gaps, group_gaps, back;
    struct hist notice; /* time that passed before each fault could be noticed; as given, */
    uint32_t within,
        disturbed; /* waits not much longer; those that were, while a host did not run */
};

/* If this process is one of those that a rig started: runs it, with its exit code in *code. */
bool rig_process(int argc, char **argv, int *code);

/* The protocol of that name; false: there is none. */
bool rig_protocol(const char *name, enum cluster_protocol *);

/* One case of a test: on a cluster of its own `run` does its harm so many times. */
struct rig_campaign {
    const char *name;
    bool (*prepare)(void); /* before the cluster starts; NULL: there is nothing to do */
    bool (*run)(struct rig *, uint32_t times);
    uint32_t times;
    const char *back; /* what is measured in `back` */
    const char *skip; /* why it cannot be shown here; NULL: it can */
};

/* Runs them, prints TAP with what was measured as comments, and returns the exit code. */
int rig_campaigns(const char *test, const struct rig_campaign *, uint32_t count,
                  const struct rig_options *);

/* ---- for campaigns; what returns bool is false if the cluster does not get over it, with why printed ---- */

void rig_run_for(struct rig *, uint64_t ns); /* under load */
bool rig_failed(const struct rig *);         /* a host has seen what cannot be */
void rig_print(const struct rig *);          /* all replicas, as they are */

/* Every host is up, and every group led with all its replicas attached. */
bool rig_wait_well(struct rig *);

/* From now on gaps are noted until every group has answered a message that was cast since. */
void rig_fault_begins(struct rig *);
/* `notice_ns`: how long it may take to be noticed; 0: nothing is said of that. */
bool rig_fault_is_over(struct rig *, uint64_t notice_ns);

/* A host that leads something: this one, or the next that does. */
uint32_t rig_leading_host(const struct rig *, uint32_t first);

bool rig_kill(const struct rig *, pid_t);
bool rig_bring_back(struct rig *, uint32_t host);
int rig_wait_for(struct rig *, pid_t); /* under load, until it has ended; its status */
void rig_start_other(struct rig *);
bool rig_other_done(struct rig *, uint64_t messages);
bool rig_other_ends(struct rig *); /* in peace: with all its answers */

/* Campaigns that serve every transport. */
bool rig_kill_hosts(struct rig *, uint32_t times); /* hosts that lead; each comes back */
bool rig_stop_hosts(struct rig *, uint32_t times); /* the same, for some time */

#endif
