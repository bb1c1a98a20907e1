/* Tramway: atomic multicast for sharded, replicated services.
 *
 * A service splits its state into groups, and each group is a set of replicas carried by hosts. A
 * client casts a message to any set of groups; every replica of those groups delivers it, once, in
 * an order that no two replicas anywhere contradict, although hosts and clients crash, stop and come
 * back.
 *
 *     host                                     client
 *     tram_cluster_load(...)                   tram_cluster_load(...)
 *     tram_host_open(cluster, "h1", ...)       tram_client_open(cluster, ...)
 *     while (running) tram_host_step(host);    tram_call(client, groups, ...)
 *     tram_host_close(host);                   tram_client_close(client);
 *
 * Functions return 0 or a count, or a negative enum tram_code; the text that goes with it, naming
 * what was attempted on what, is in the caller's struct tram_error (which may be NULL). A handle is
 * used by one thread at a time; several hosts and clients may live in one process; there is no
 * global state.
 *
 * tram/sim.h runs all of this in virtual time, for tests. */
#ifndef TRAM_H
#define TRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRAM_API __attribute__((visibility("default")))

/* The version of these headers, all of include/tram/ too. A program also runs with any later library of the same soname
 * (docs/stability.md), and asks tram_version which one that is: "0.1.0". */
#define TRAM_VERSION_MAJOR 0
#define TRAM_VERSION_MINOR 1
#define TRAM_VERSION_PATCH 0

TRAM_API const char *tram_version(void);

enum tram_code {
    TRAM_OK = 0,
    TRAM_INVALID = -1,  /* an argument, or the cluster file, is wrong */
    TRAM_NOMEM = -2,    /* heap or shared memory is used up */
    TRAM_SYSTEM = -3,   /* a system call failed */
    TRAM_EXISTS = -4,   /* another live process is this host, or all client places are taken */
    TRAM_NOTFOUND = -5, /* no such file, host or group */
    TRAM_TOOBIG =
        -6, /* a message larger than the cluster file allows, a reply than there is room for */
    TRAM_AGAIN = -7, /* too many messages under way: poll, then try again */
    /* not allowed: another user's cluster, another version; all hosts were stopped since the client was opened */
    TRAM_REFUSED = -8,

    TRAM_TIMEOUT = -9,    /* the time given is over; the message may still be delivered */
    TRAM_DATA_LOST = -11, /* a group lost the memory of its majority: what it had is gone */
    TRAM_BROKEN = -10,    /* a replica saw what cannot be, and has stopped */
    TRAM_VIOLATED = -12,  /* tram/sim.h: replicas differ, or what is promised does not hold */
    TRAM_LOST = -13,      /* tram/group.h: who was asked is gone, and did not answer */
};

enum { TRAM_ERROR_BYTES = 512 };

struct tram_error {
    char text[TRAM_ERROR_BYTES]; /* empty until something failed */
};

/* The short text of a code. */
TRAM_API const char *tram_code_text(int code);

/* ---- log lines ---- */

enum tram_log_level {
    TRAM_LOG_INFO, /* what happens: connections, first leaders */
    TRAM_LOG_WARNING, /* something is wrong, and work goes on: take-overs, detaches, refusals, slow callbacks */
    TRAM_LOG_ERROR, /* something was given up */
};

/* Where lines for a person go. The library writes nothing by itself: without a log they are dropped. */
struct tram_log {
    /* Takes one line, without a newline; one about an event ends with its code, "[TW-102]", which stays the same in later
     * versions (docs/operating.md). It comes from whichever thread uses the handle or, for a host or
     * client on shared memory, from a thread of the library, so calls may overlap. It must not call the
     * library, and a host waits for it. */
    void (*line)(void *ctx, enum tram_log_level, const char *line);
    void *ctx;
    enum tram_log_level least; /* lines of lower levels are not made */
};

/* ---- the cluster ---- */

struct tram_cluster;

/* Reads and checks a cluster file. Mistakes are answered with file, line, what is wrong and what would
 * be right. */
TRAM_API int tram_cluster_load(const char *path, struct tram_cluster **, struct tram_error *);
/* The same from text; name stands for the file's in mistakes, and names a cluster that has no name
 * (NULL: "cluster"). */
TRAM_API int tram_cluster_parse(const char *text, const char *name, struct tram_cluster **,
                                struct tram_error *);
TRAM_API void tram_cluster_free(struct tram_cluster *);

/* Changes the cluster's name, and with it its runtime directory, so that two runs of one file do not
 * meet. Before anything is opened on it. */
TRAM_API int tram_cluster_rename(struct tram_cluster *, const char *name, struct tram_error *);

/* The log of all hosts and clients that are opened on the cluster from now on and have none in their
 * options. */
TRAM_API void tram_cluster_log(struct tram_cluster *, const struct tram_log *);

TRAM_API uint32_t tram_cluster_groups(const struct tram_cluster *);
TRAM_API uint32_t tram_cluster_hosts(const struct tram_cluster *);
TRAM_API const char *tram_cluster_group_name(const struct tram_cluster *, uint32_t group);
TRAM_API const char *tram_cluster_host_name(const struct tram_cluster *, uint32_t host);
/* The longest reply that a state machine may give, as the cluster file has it. */
TRAM_API uint32_t tram_cluster_reply_max(const struct tram_cluster *);
/* The number of a group or host, or TRAM_NOTFOUND. */
TRAM_API int tram_cluster_group(const struct tram_cluster *, const char *name);
TRAM_API int tram_cluster_host(const struct tram_cluster *, const char *name);

/* ---- hosts ---- */

struct tram_delivery {
    uint32_t group;      /* the group whose replica delivers */
    uint32_t client;     /* who cast it: place of the client, */
    uint32_t life;       /* which process it was there, */
    uint64_t seq;        /* and its number for the message, from 0 */
    uint64_t number;     /* messages that this group delivered before this one */
    const uint16_t *dst; /* all groups it is for, ascending */
    uint32_t dst_count;
    const void *body; /* valid during the call */
    uint32_t bytes;
};

/* The state machine of a host's replicas. It must do the same with the same deliveries everywhere:
 * no clock, no chance, no pointers in its replies. All calls come from within tram_host_step. */
struct tram_machine {
    /* Delivers a message. Writes at most reply_max bytes of reply, returns how many. A host whose
     * machine returns more ends with TRAM_BROKEN; the message is not answered. */
    uint32_t (*deliver)(void *ctx, const struct tram_delivery *, void *reply, uint32_t reply_max);

    /* Writes the state of a group's replica, as it is now, into memory from malloc, which the library
     * frees; returns 0, or a negative number if it cannot. A replica that was away gets it. NULL:
     * there is no state. */
    int (*save)(void *ctx, uint32_t group, void **data, size_t *bytes);

    /* Replaces the state of a group's replica. */
    int (*load)(void *ctx, uint32_t group, const void *data, size_t bytes);

    /* The same as streams of pieces, and instead of the pair above, for states that are not small: that pair keeps the
     * host from everything else for as long as a call takes, and beyond some milliseconds its groups stand still
     * (the library warns). Either all six or none.
     *
     * save_open freezes the state as it is, quickly: deliveries go on while it is read. It returns whatever names
     * the save, NULL if it cannot; *bytes gets the size, and stays TRAM_BYTES_UNKNOWN if that is not known. save_next
     * writes the next bytes of it, at most room, and returns how many; 0: that was all; negative: it cannot. save_close
     * comes always, also before the end if the transfer is given up.
     *
     * load_open begins a state of so many bytes (or TRAM_BYTES_UNKNOWN), load_next takes the next of them, load_close
     * ends it: whole false says that the transfer broke off, and that the state is void until another one comes. They
     * return 0, or a negative number if they cannot. load_close may take its time. Of a group one load or one save,
     * for another replica, the disk or a backup, is open at a time. */
    void *(*save_open)(void *ctx, uint32_t group, uint64_t *bytes);
    int (*save_next)(void *ctx, uint32_t group, void *save, void *out, uint32_t room);
    void (*save_close)(void *ctx, uint32_t group, void *save);
    int (*load_open)(void *ctx, uint32_t group, uint64_t bytes);
    int (*load_next)(void *ctx, uint32_t group, const void *data, uint32_t bytes);
    int (*load_close)(void *ctx, uint32_t group, bool whole);
};

#define TRAM_BYTES_UNKNOWN UINT64_MAX

struct tram_host_options {
    const char *name; /* in the cluster file */
    struct tram_machine machine;
    void *ctx;
    const char *trace_dir; /* write what is delivered there, for `tram check`; NULL: do not. A disk
                            * that is full later ends the trace, with a warning, not the host */
    struct tram_log log;   /* zeroed: the cluster's */
};

struct tram_host;

/* Makes the directory in which a host of a durable cluster, or of a group that keeps anything, has it, as `tram format HOST` does: for programs that make
 * it themselves, when the host is set up. Once in the life of a cluster, never because tram_host_open says that there is none: a
 * disk that was lost is no new one (`tram format --rejoin`), and a host that begins anew would be refused by the others.
 * Touches nothing that is there: TRAM_EXISTS: it is this host's already. TRAM_INVALID, TRAM_REFUSED, TRAM_BROKEN: there is
 * something else, or the cluster is not durable. TRAM_NOMEM: the disk has no room. */
TRAM_API int tram_host_format(const struct tram_cluster *, const char *host, struct tram_error *);

/* Opens the host with all its replicas. What a killed process of the same host had in memory is taken
 * over if another host still has it mapped. In a durable cluster what the host's disk has is loaded and delivered
 * again, to a machine that is as new, before this returns. TRAM_NOTFOUND: it has no directory yet (tram format, or
 * tram_host_format). */
TRAM_API int tram_host_open(const struct tram_cluster *, const struct tram_host_options *,
                            struct tram_host **, struct tram_error *);

/* One round of work, and whatever waiting is due after it (at most some milliseconds). Negative if
 * the host cannot go on. */
TRAM_API int tram_host_step(struct tram_host *, struct tram_error *);

/* One round without waiting, for callers with their own event loop. Returns work done. */
TRAM_API int tram_host_poll(struct tram_host *, struct tram_error *);

/* A descriptor that is readable when tram_host_poll is to be called, for epoll, libuv and the like; the time for
 * heartbeats is in it, so the loop needs no timer for the host:
 *     readable (level-triggered):   call tram_host_poll until it returns 0
 *     then                          look at what other threads have left for the loop, and wait
 * It may be readable for nothing. It is the host's: neither read nor close it. The first call opens it, and from then on
 * tram_host_poll is called in this way alone, by one thread, and tram_host_step not at all. On shared memory
 * it takes a thread of the library, which sleeps in the loop's stead. Negative: an error. */
TRAM_API int tram_host_fd(struct tram_host *, struct tram_error *);

/* Makes the descriptor readable, or ends the waiting of tram_host_step, the one under way or the next. From any
 * thread, while the host is open; tram_host_fd, if it is used, has returned before. */
TRAM_API void tram_host_wake(struct tram_host *);

TRAM_API void tram_host_close(struct tram_host *);

enum tram_role { TRAM_JOINING, TRAM_FOLLOWER, TRAM_CANDIDATE, TRAM_SYNC, TRAM_LEADER };

enum {
    TRAM_REPLICAS_MAX = 9, /* of a group */
    TRAM_WAITS = 11,       /* classes of tram_replica_stats.waits */
};

/* What a replica is doing. */
struct tram_replica_stats {
    uint32_t group;
    uint32_t rank;
    enum tram_role role;
    uint32_t leader;  /* host that leads, as far as is known here; UINT32_MAX: nobody */
    uint64_t ballot;  /* promised */
    uint64_t applied; /* log position */
    uint64_t commit;  /* leader: decided up to here */
    uint64_t tail;    /* leader: written up to here */
    uint32_t
        attached; /* leader: members that take its writes: replicas, its own included, and memories */
    bool behind;        /* waits for a snapshot */
    uint64_t delivered; /* messages */
    uint64_t terms;     /* times it began to lead, in this life */
    uint32_t muted; /* leader: clients that are not read any more, for having written nonsense */
    /* leader: for how long a replica has not taken its writes, by rank: it held up the others, is out of reach, or waits
     * for a snapshot; 0: it takes them */
    uint32_t detached_ms[TRAM_REPLICAS_MAX];

    /* In a durable cluster: */
    uint64_t kept;   /* log position up to which the host's disk has what the replica accepted, */
    uint64_t unkept; /* and bytes that it has accepted beyond */
    bool
        lacks; /* what its disk had is damaged or gone, and not yet replaced by what the others have: */
    uint64_t lacks_from, lacks_to; /* these positions; 0, 0: not even that is known */
    bool
        stands; /* so it is at a majority: the group stands until a disk is back that has what it had */
    uint32_t restored_percent; /* of a state that is being loaded; TRAM_NOT_RESTORING: none is */

    /* While it led in this life, how long it took until what it had written was decided, counted once a batch: below 1, 4, 16, ...
     * 2^18 microseconds; the last one: longer. What was decided in the round in which it was written took no time. */
    uint64_t waits[TRAM_WAITS];
};

#define TRAM_NOT_RESTORING UINT32_MAX

/* The n-th replica that this host carries; TRAM_NOTFOUND behind the last. */
TRAM_API int tram_host_replica(const struct tram_host *, uint32_t n, struct tram_replica_stats *);

enum tram_disk_state {
    TRAM_DISK_OK,
    TRAM_DISK_SLOW,      /* a write takes longer than 100 ms, or did a second ago */
    TRAM_DISK_RESTORING, /* a state is being loaded, or awaited by a host that lost its disk */
    TRAM_DISK_DAMAGED, /* something of a group was found damaged, and is not yet replaced by what others have */
    TRAM_DISK_NO_ROOM, /* it has no room for a snapshot, a backup or more of the journal: tried again */
    TRAM_DISK_FULL, /* the journal is: this host keeps nothing more, the others go on */
};

/* What the disk of a host is doing. */
struct tram_disk_stats {
    enum tram_disk_state state;
    uint32_t restored_percent; /* TRAM_DISK_RESTORING: of the state that is furthest behind */
    uint64_t journal_bytes, journal_bytes_max;
    uint64_t flush_p50_ns, flush_p99_ns; /* what a write takes until it is durable, in this life */
    uint64_t waiting_bytes;              /* collected and not yet written */
    uint64_t writes, written_bytes;      /* in this life */
};

/* TRAM_NOTFOUND: the cluster is not durable. */
TRAM_API int tram_host_disk(const struct tram_host *, struct tram_disk_stats *);

/* The word for it: "ok", "slow", "restoring", "damaged", "no room", "full". */
TRAM_API const char *tram_disk_state_text(enum tram_disk_state);

/* ---- clients ---- */

struct tram_client_options {
    const char *trace_dir; /* as for hosts */
    /* Called from tram_client_poll; may be NULL. A group's reply, and the end of a message: all its
     * groups have delivered it. */
    void (*reply)(void *ctx, uint64_t ticket, uint32_t group, const void *body, uint32_t bytes);
    void (*done)(void *ctx, uint64_t ticket);
    void *ctx;
    struct tram_log log; /* zeroed: the cluster's */
};

struct tram_client;

TRAM_API int tram_client_open(const struct tram_cluster *, const struct tram_client_options *,
                              struct tram_client **, struct tram_error *);
TRAM_API void tram_client_close(struct tram_client *);

/* The place that the client has among the cluster's clients, and its life there. */
TRAM_API uint32_t tram_client_place(const struct tram_client *);
TRAM_API uint32_t tram_client_life(const struct tram_client *);

/* Casts a message to a set of groups (any order, repetitions allowed) and returns at once; *ticket
 * names it. TRAM_AGAIN: poll first. It leaves with the next tram_client_poll or flush. */
TRAM_API int tram_cast(struct tram_client *, const uint16_t *groups, uint32_t count,
                       const void *body, uint32_t bytes, uint64_t *ticket, struct tram_error *);
TRAM_API void tram_client_flush(struct tram_client *);

/* Sends what was cast, takes replies. Returns how many messages were done. TRAM_REFUSED: none will be any more, since
 * the hosts were stopped, all of them; tram_cast says so in words. Close the client, and open a new one. */
TRAM_API int tram_client_poll(struct tram_client *);

/* As tram_client_poll, but waits up to timeout_ns for something to happen. */
TRAM_API int tram_client_wait(struct tram_client *, uint64_t timeout_ns);

/* As tram_host_fd: readable when tram_client_poll is to be called. Call it also after casting: it sends what
 * was cast. tram_call, tram_await and tram_client_wait may be used besides; poll after them. */
TRAM_API int tram_client_fd(struct tram_client *, struct tram_error *);

/* Makes the descriptor readable, or ends tram_client_wait, the one under way or the next, with 0. A tram_call goes
 * on. From any thread, while the client is open. */
TRAM_API void tram_client_wake(struct tram_client *);

/* Has every destination of the message delivered it, as far as the client knows by now? */
TRAM_API bool tram_client_done(const struct tram_client *, uint64_t ticket);

/* Messages under way, and how many may be at most: a quarter of these to one group alone, and fewer if they are large, or without
 * a tree if they go to several groups. */
TRAM_API uint32_t tram_client_outstanding(const struct tram_client *);
TRAM_API uint32_t tram_client_window(const struct tram_client *);

/* Casts and waits until it is delivered everywhere. replies, if not NULL, is room for reply_max bytes
 * per group in ascending order of groups; lengths gets how long each reply is.
 *   TRAM_TOOBIG   delivered everywhere, but a reply is longer than reply_max: lengths has the full length, and
 *                 replies what fits. tram_cluster_reply_max is enough for any reply. (Or body is too
 *                 large, and nothing was cast; the text says which.)
 *   TRAM_TIMEOUT  cast, and not all groups have answered yet. It may be delivered later, or may have been
 *                 already: do not call again, but wait again with tram_await(client, tram_client_last(client), ...).
 *   TRAM_AGAIN    nothing was cast: too many messages were under way for all of the time given. */
TRAM_API int tram_call(struct tram_client *, const uint16_t *groups, uint32_t count,
                       const void *body, uint32_t bytes, void *replies, uint32_t reply_max,
                       uint32_t *lengths, uint64_t timeout_ns, struct tram_error *);

/* ---- requests that can be asked for again ---- */

enum { TRAM_REQUESTS_KEPT = 64 };

/* A message with a number of the caller's, so that a retry is not another message. */
struct tram_request {
    const uint16_t *groups; /* any order, repetitions allowed */
    uint32_t count;
    const void *body;
    uint32_t bytes;
    uint64_t number; /* above that of every request before; 0: it has none, as with tram_cast */
};

/* Room for replies, as in tram_call. */
struct tram_replies {
    void *room; /* NULL: they are not wanted */
    uint32_t max;
    uint32_t *lengths; /* may be NULL */
};

/* Casts the request, or, if it is a retry, finds the one that was cast: a request whose number this client has
 * cast before is not cast again. *ticket is that of the first time, and tram_await gives its replies, also
 * if it is done. So however often a request is tried in the life of a client, each group delivers it once.
 *   TRAM_INVALID   the number is that of a request with other groups or another body
 *   TRAM_NOTFOUND  the number is not above all before and not among the last TRAM_REQUESTS_KEPT: it is
 *                  not known any more whether it was cast. It is not cast
 *   TRAM_AGAIN     too many are under way; nothing was cast
 * Numbers are known to this handle alone. After tram_client_close or a crash the next client begins anew: what the
 * old one cast may have been delivered or not, or may still be, before whatever the new one casts or after
 * it. Who must not act twice across lives puts an identity of his own into the body, and lets the
 * state machine remember it. */
TRAM_API int tram_cast_request(struct tram_client *, const struct tram_request *, uint64_t *ticket,
                               struct tram_error *);

/* Waits until the message of the ticket is delivered everywhere, and gives its replies: those of requests with a
 * number, and of calls that timed out (once). The last TRAM_REQUESTS_KEPT of these are kept, others are
 * TRAM_NOTFOUND, unless no replies are wanted. TRAM_TIMEOUT and TRAM_TOOBIG as tram_call; after either it may be
 * called again. */
TRAM_API int tram_await(struct tram_client *, uint64_t ticket, const struct tram_replies *,
                        uint64_t timeout_ns, struct tram_error *);

/* The ticket of the last message that the client cast, by whichever function. */
TRAM_API uint64_t tram_client_last(const struct tram_client *);

#ifdef __cplusplus
}
#endif
#endif
