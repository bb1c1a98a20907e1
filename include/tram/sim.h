/* Tramway in a simulator: a whole cluster with your state machine, in one thread, in virtual time.
 *
 * This is for the tests of a service. Hosts, replicas and clients are the code that runs in production,
 * on a simulated memory. Nothing happens but by the calls below, and whatever is left to chance is drawn
 * from the seed: the same seed and the same calls give the same run, as long as the state machine itself
 * does the same. A test that failed is repeated by its seed, event by event if need be.
 *
 *     tram_cluster_load(...)                         or tram_cluster_parse: the cluster of tram.h
 *     tram_sim_open(cluster, &options, &sim, ...)    all hosts start
 *     tram_sim_client_open(sim, NULL, &client, ...)  a client of tram.h
 *     tram_call(client, ...)                         as ever; the simulation runs while it waits
 *     tram_sim_kill(sim, "h1", true, ...)            or tram_sim_chaos for faults from the seed
 *     tram_sim_run_idle(sim, ...)
 *     tram_sim_check(sim, ...)                       do the replicas agree?
 *     tram_sim_close(sim)
 *
 * A cluster of protocol group has members instead of replicas: options.group_machine is their machine, and tram_sim_group gives
 * a host's struct tram_group, with which all is done that tram/group.h has, but for stepping it.
 *
 *     tram_sim_open(cluster, &options, &sim, ...)    all hosts start, and come in
 *     tram_sim_run_idle(sim, ...)
 *     tram_group_send(tram_sim_group(sim, "h1"), cell, data, bytes, ...)
 *     tram_sim_power_cut(sim, "h2", ...)             where the cluster keeps anything on disks
 *     tram_sim_run_idle(sim, ...)
 *     tram_sim_check(sim, ...)                       were the members of each cell told the same, and are they equal?
 *
 * Errors are as in tram.h. Hosts and groups are named as in the cluster file, clients "client-0" and so
 * on by their place. Time is in nanoseconds from 0, and passes only from event to event: an idle hour
 * costs no more than its heartbeats. Time-outs are those of the cluster file.
 *
 * One thread at a time uses a simulation; there may be several in a process, also in several threads.
 * Functions that run the simulation may not be called from within callbacks of it. Where the memory of
 * the process is used up in the middle of an event, it ends. */
#ifndef TRAM_SIM_H
#define TRAM_SIM_H

#include "tram.h"
#include "tram/group.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tram_sim;

struct tram_sim_options {
    uint64_t seed;
    struct tram_machine machine; /* as for tram_host_open */

    /* Under protocol group, in place of `machine`: as for tram_group_open. A batch of deliveries may come in pieces, so that states can be
     * compared after each message. */
    struct tram_group_machine group_machine;
    /* Likewise; ctx is that of the host which leads the keepers. NULL: as the cluster file says. */
    void (*layout)(void *ctx, const struct tram_view *before, struct tram_layout *next);
    /* After each round of a member: what the loop of its process does besides stepping it. It may send, ask and set columns; the host is
     * stepped again soon if it does. May be NULL. */
    void (*step)(void *user, const char *host, void *ctx, struct tram_group *);
    /* How long a disk takes to make a write durable, drawn for each; both 0: 50 us to 200 us. */
    uint64_t flush_ns_min, flush_ns_max;

    /* Makes the ctx of a host's machine as its process would when it starts, before the first message:
     * called for each life of a host, since what the last one had is gone with it. Needed if the
     * machine has anything. */
    void *(*start)(void *user, const char *host);
    /* That life is over: the host was killed, or the simulation is closed. May be NULL. */
    void (*end)(void *user, const char *host, void *ctx);
    void *user;

    uint32_t clients; /* open at the same time; 0: 8, or the file's number if that is lower */

    /* How long writes are on their way, drawn for each; both 0: 200 ns to 2 us. */
    uint64_t delay_ns_min, delay_ns_max;

    /* After how many deliveries a replica's state is saved, to be compared with that of the others byte by
     * byte (holes in structs, too); 0: after each, so that the very message is found. Larger numbers
     * are quicker where states are large. */
    uint32_t compare_every;
    /* Compare no states: the machine does not save equal states as equal bytes. */
    bool replies_only;

    /* What saving and loading take of a host's time: each call of the machine, and 1,024 bytes of state. The host does
     * nothing else meanwhile. */
    uint64_t state_call_ns, state_kib_ns;

    FILE *trace; /* a readable line for whatever happens; NULL: none */
};

/* Opens the cluster and starts all its hosts. The cluster stays the caller's and must stay; nothing of it
 * is shared with hosts or clients elsewhere. */
TRAM_API int tram_sim_open(const struct tram_cluster *, const struct tram_sim_options *,
                           struct tram_sim **, struct tram_error *);

/* Ends all hosts, and closes all clients that are still open. */
TRAM_API void tram_sim_close(struct tram_sim *);

/* ---- running ---- */

/* All return a negative code if a host could not go on: its state machine failed to save or load, or a
 * replica saw what cannot be (TRAM_BROKEN, TRAM_DATA_LOST). That is said once, and the host is down. */

/* One event: a part of a write lands, news of it comes back, a host or client makes a step. Returns 1, or 0
 * if nothing is left to happen, which is so only while all hosts are down. */
TRAM_API int tram_sim_step(struct tram_sim *, struct tram_error *);

/* Runs for so long. */
TRAM_API int tram_sim_run(struct tram_sim *, uint64_t ns, struct tram_error *);

/* Under protocol group: runs until all hosts that run are in one view, have all that was delivered in their cells, and nothing has happened
 * for suspect_ms and two heartbeats. A host that is cut off keeps it from that, and so does a cell that is vacant though no host is
 * down; a view that is not adequate does not.
 *
 * Else: runs until nothing is under way: all clients have all answers; what one replica has delivered, all that
 * run and have to have delivered; and each group of whose hosts a majority runs has a leader that
 * reaches all of them that do. TRAM_TIMEOUT if that is not so after limit_ns; the text says who is how
 * far. */
TRAM_API int tram_sim_run_idle(struct tram_sim *, uint64_t limit_ns, struct tram_error *);

/* Runs until the client has all answers to the message. TRAM_TIMEOUT after limit_ns. */
TRAM_API int tram_sim_run_done(struct tram_sim *, const struct tram_client *, uint64_t ticket,
                               uint64_t limit_ns, struct tram_error *);

/* Has fn called at that time, as an event of its own; it may do all but run the simulation. */
TRAM_API int tram_sim_at(struct tram_sim *, uint64_t time_ns,
                         void (*fn)(struct tram_sim *, void *arg), void *arg, struct tram_error *);

TRAM_API uint64_t tram_sim_now(const struct tram_sim *);
TRAM_API uint64_t tram_sim_events(const struct tram_sim *);

/* A hash over every event so far: equal for equal runs. */
TRAM_API uint64_t tram_sim_hash(const struct tram_sim *);

/* ---- clients ---- */

/* Not under protocol group, which has no simulated clients yet: send with the members' handles.
 *
 * Opens a client in the first free place. Its handle is good for all that tram.h does with clients, and
 * besides it is polled by the simulation: its callbacks come from within the functions above. In
 * tram_call and tram_client_wait the time-out is virtual; tram_client_wait may return a negative code.
 * trace_dir must be NULL. To be closed with tram_client_close, not from within its own callbacks. */
TRAM_API int tram_sim_client_open(struct tram_sim *, const struct tram_client_options *,
                                  struct tram_client **, struct tram_error *);

/* ---- faults ---- */

/* TRAM_NOTFOUND: no such name. TRAM_INVALID: the host is down (or up, or not stopped) already, or it is
 * the one from within whose delivery this is called. */

/* Kills a host. Its memory outlives it if keep_memory, as on one machine with shared memory that of a
 * killed process does; else it comes back with nothing. */
TRAM_API int tram_sim_kill(struct tram_sim *, const char *host, bool keep_memory,
                           struct tram_error *);
TRAM_API int tram_sim_start(struct tram_sim *, const char *host, struct tram_error *);

/* Under protocol group, where a subgroup has mode: logged or durable. The host loses power, up or not: its process, its memory, and what
 * its disk was not told to keep, of which any part may be there still. tram_sim_start brings it back with what its disk has. What is
 * promised of it is in tram/group.h: what a durable cell delivered is never lost. */
TRAM_API int tram_sim_power_cut(struct tram_sim *, const char *host, struct tram_error *);

/* As SIGSTOP and SIGCONT do. */
TRAM_API int tram_sim_stop(struct tram_sim *, const char *host, struct tram_error *);
TRAM_API int tram_sim_continue(struct tram_sim *, const char *host, struct tram_error *);

/* Cuts the way from one host or client to another, or heals it; the way back is another one. What is
 * under way waits, and is lost after a heartbeat or so. */
TRAM_API int tram_sim_cut(struct tram_sim *, const char *from, const char *to, bool cut,
                          struct tram_error *);

/* Everything takes so much longer on that way; 0: no longer than else. */
TRAM_API int tram_sim_delay(struct tram_sim *, const char *from, const char *to, uint64_t extra_ns,
                            struct tram_error *);

/* Under protocol group: never so that a majority of keepers is gone, or of the view (view_majority), or that nobody has a cell's state but
 * who crashes. Hosts that hang or are cut off are put out, as ever: a cell of few members may become vacant by that. Power is cut only
 * where all cells are durable, and then of all hosts, too.
 *
 * From now on hosts crash, with and without their memory, and come back, hosts and clients hang, ways are cut,
 * writes are late, leaders are deposed: when and whom is drawn from the seed. Never more at once than
 * what the groups are built to lose. Clients are not killed, and who was stopped by tram_sim_stop is
 * left alone. */
TRAM_API void tram_sim_chaos(struct tram_sim *);

/* Ends chaos and repairs everything: all hosts run, all ways are open. They still have to find each
 * other again: tram_sim_run_idle. */
TRAM_API void tram_sim_heal(struct tram_sim *);

/* ---- looking ---- */

/* Under protocol group: the host that leads the keepers, whatever `group` is.
 *
 * The host that leads the group, NULL if none does or there is no such group. Who is stopped or cut off does
 * not know it when it is deposed; of two the newer one is named. */
TRAM_API const char *tram_sim_leader(const struct tram_sim *, const char *group);

/* What the host's replica of the group is doing. TRAM_NOTFOUND also if the host is down. */
TRAM_API int tram_sim_replica(const struct tram_sim *, const char *host, const char *group,
                              struct tram_replica_stats *);

/* Under protocol group: the host's member, for all of tram/group.h but _open, _close, _step, _poll, _fd and tram_sender_open; NULL while the host
 * is down, or if there is none. Good until its life is over. tram_group_leave works as ever; then kill the host, and start it again, for
 * another process. */
TRAM_API struct tram_group *tram_sim_group(const struct tram_sim *, const char *host);

/* As tram_versions_read, of the host's simulated disk. TRAM_AGAIN: the host runs, and its disk is at work just now. */
TRAM_API int tram_sim_versions_read(struct tram_sim *, const char *host, const char *cell,
                                    uint64_t version, uint64_t time_ns,
                                    int (*fn)(void *ctx, const struct tram_version *), void *ctx,
                                    struct tram_error *);

/* What `start` returned for the present life of the host; NULL while it is down. */
TRAM_API void *tram_sim_ctx(const struct tram_sim *, const char *host);

/* What a check found. A field that does not apply has all bits set. */
struct tram_sim_finding {
    char property[24]; /* "replies" or "states" if replicas of a group differ, else the property of
                        * atomic multicast, as in tram-check(1) */
    uint32_t group;    /* or the cell */
    uint32_t host[2];  /* the replicas that differ */
    uint32_t client;   /* the first message at which they do: its client, */
    uint32_t life;
    uint64_t
        seq; /* and its ticket there; under protocol group `client` is the host that sent it, and this its version */
    uint64_t number;  /* messages that the group delivered before it */
    uint64_t time_ns; /* when it came to light */
    char text[TRAM_ERROR_BYTES];
};

/* Judges all that has happened so far.
 *
 *   - Replicas of a group agree: each gives the same reply to a message, and has the same state (as `save`
 *     writes it) after it, in every life; and a state that was loaded is the one that was saved.
 *   - Integrity, validity, agreement, prefix order and acyclic order of atomic multicast, and deliveries
 *     numbered without gap. What has to come about only in the end is asked only if the simulation is idle.
 *
 *
 * Under protocol group:
 *
 *   - Members of a cell agree ("states", "replies"): the same state after each message, in every life, also where it was loaded or read back from a
 *     disk; and the same reply to a call.
 *   - "same sequence": all are told the same messages in the same order, and who goes on from a view to the next the same in it. Of what is
 *     lost with a logged cell when all its members lose power, nothing is asked.
 *   - "integrity": in raw cells, where each sender has an order of its own, all have the same message under its number.
 *
 * TRAM_OK, or TRAM_VIOLATED with the finding (which may be NULL) and the same text in the error. It takes
 * time in proportion to all deliveries so far. */
TRAM_API int tram_sim_check(struct tram_sim *, struct tram_sim_finding *, struct tram_error *);

#ifdef __cplusplus
}
#endif
#endif
