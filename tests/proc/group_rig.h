/* Members of a group as real processes, under load, and what they delivered: for tests that kill, stop and cut them off.
 *
 * The test starts processes by fork, each a life of a member that sends to all its cells and writes down whatever happens
 * to it into memory that it shares with the test: so that is there after kill -9, too. In the end all lives are compared. */
#ifndef TESTS_PROC_GROUP_RIG_H
#define TESTS_PROC_GROUP_RIG_H

#include "base/hist.h"
#include "base/rng.h"
#include "conf/cluster.h"
#include "tram/group.h"

#include <stdatomic.h>
#include <sys/types.h>

enum {
    GRIG_HOSTS_MAX = 8,
    GRIG_CELLS = 3, /* memory; memory with two senders; raw */
    GRIG_RAW = 2,   /* the number of the last */
    GRIG_LIVES_MAX = 2048,
};

#define GRIG_MS UINT64_C(1000000)
#define GRIG_PATIENCE (60000 * GRIG_MS) /* only a hang takes so long */

enum grig_kind {
    GRIG_VIEW,    /* a view began: vid; number: when; id: members */
    GRIG_STATE,   /* its state then, for a cell: number: count; id: hash */
    GRIG_OUT,     /* it was put out, or has left */
    GRIG_BORN,    /* a cell is new */
    GRIG_LOADED,  /* a state came: as GRIG_STATE */
    GRIG_DELIVER, /* a message: number, id */
    GRIG_FIRST,   /* the first of a view: number: when */
};

struct grig_event {
    uint8_t kind, cell, sender;
    uint32_t vid;
    uint64_t number, id;
};

/* One process: written by it, read by the test. */
struct grig_life {
    uint32_t host, life;
    uint32_t events_max;
    _Atomic uint32_t events; /* those below are whole */
    struct grig_event event[];
};

/* What a member shows of itself now, and what it is asked for. */
struct grig_host {
    _Atomic uint64_t vid;     /* 0: in no view */
    _Atomic uint64_t members; /* of it */
    _Atomic uint64_t
        ready; /* that view, once it has the state of all its cells, and is a keeper again if it is one */
    _Atomic uint64_t sent, delivered, put_out;
    _Atomic uint64_t count[GRIG_CELLS], hash[GRIG_CELLS];
    _Atomic uint64_t last_ns;  /* of its last delivery, */
    _Atomic uint64_t pause_ns; /* and the longest between two since grig_pause_begin */
    _Atomic uint64_t busy;     /* number of the last loop: it moves while it runs */
    _Atomic bool leave, quiet;
};

struct grig {
    uint32_t hosts;
    enum cluster_transport transport;
    char dir[64], file[96], traces[96];
    struct grig_host *board;
    struct grig_life *life[GRIG_LIVES_MAX];
    uint32_t lives;
    pid_t pid[GRIG_HOSTS_MAX];           /* 0: it is not there */
    uint32_t started[GRIG_HOSTS_MAX];    /* lives of it */
    int at[GRIG_HOSTS_MAX];              /* which of `life` is its present */
    const char *address[GRIG_HOSTS_MAX]; /* NULL: on the loopback */
    bool (*enter)(uint32_t host);        /* before a process does anything; NULL: nothing */
    bool say;                            /* log lines go to stderr */
    struct rng rng;
};

/* Writes a cluster file. Set: hosts, transport, address, enter. False, with a line: it cannot. */
bool grig_open(struct grig *);
void grig_close(struct grig *); /* kills who is left */

void grig_start(struct grig *, uint32_t host);
void grig_kill(struct grig *, uint32_t host);
void grig_kill_all(struct grig *);
void grig_stop(struct grig *, uint32_t host);
void grig_continue(struct grig *, uint32_t host);
bool grig_leave(struct grig *, uint32_t host); /* and ends; false: not in time, or not well */

void grig_sleep(uint64_t ns);

/* Waits until all who are there are in one view, and nobody else is, with all states, and more was delivered to all. */
bool grig_well(struct grig *);

/* No more is sent, and all who are there have the same states. */
bool grig_settled(struct grig *);

/* When all have ended: compares what all lives delivered; prints what is wrong. */
bool grig_check(const struct grig *);
/* Likewise: judges the traces of all lives, as `tram check` does. */
bool grig_check_traces(const struct grig *);

/* From then to the first delivery in the next view, of all who went over to it from `vid` and were not put out, are added. */
void grig_gaps(const struct grig *, uint64_t since_ns, uint32_t vid, struct hist *);

/* The longest that each of the others delivered nothing, from begin on. */
void grig_pause_begin(struct grig *);
void grig_pauses(const struct grig *, uint32_t but, struct hist *);

/* The view that the host is in. */
uint32_t grig_vid(const struct grig *, uint32_t host);

#endif
