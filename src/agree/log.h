/* The replicated log of one group: Protected Memory Paxos over remote memory.
 *
 * A `struct log` is one replica's part. It belongs to the host that polls it and is used by that
 * host's thread alone; it never blocks, reads no clock and allocates nothing after log_open. Of n
 * replicas, n/2+1 (the quorum) must hold an entry, written while they had promised the leader's
 * ballot, before anyone applies it. What was applied anywhere is never lost or changed while fewer
 * than a quorum fail, whatever else crashes, stops, is cut off or comes back.
 *
 * A log may have *memories*, too: members that are only memory and run nothing of it (agree/memory.h). Then those who
 * vote are the memories alone, and one replica with its state is enough to go on (Protected Memory Paxos, with processes
 * and memories apart); or all of both (Aligned Paxos), which go on while more than half of them and one replica with its
 * state are there. A quorum is one of those who vote; a replica that does not vote follows as ever.
 *
 * The machine above gets every message exactly once, in the same order at every replica. Messages
 * come from *sources*: streams that clients (or other groups) write into rings at every
 * replica (agree/source.h). What was taken from a source is derived from the log.
 *
 * A host's round: log_post of all its logs, one mem_poll, log_settle of all its logs. */
#ifndef AGREE_LOG_H
#define AGREE_LOG_H

#include "agree/entry.h"
#include "disk/disk.h"
#include "mem/mem.h"
#include "unit/state.h"
#include "unit/unit.h"

enum {
    LOG_REPLICAS_MAX = UNIT_REPLICAS_MAX,
    LOG_MEMORIES_MAX = UNIT_MEMORIES_MAX,
    LOG_AGENTS_MAX = LOG_REPLICAS_MAX + LOG_MEMORIES_MAX, /* replicas and memories */
    LOG_RING_DEFAULT = 256 << 10,
};

/* The state machine above. All calls come from within log_settle. */
struct log_machine {
    /* A message, in order, once; or, with source SOURCE_LOG, a note (log_note). The bytes are valid
     * during the call. */
    void (*apply)(void *ctx, const struct entry *);

    /* Is there room for what applying this message will produce? If not, it is asked again in the
     * next round, and the log fills up behind it. May be NULL. */
    bool (*ready)(void *ctx, const struct entry *);

    /* Every entry as it is applied, no-ops included, before apply; for checkers. May be NULL. */
    void (*observe)(void *ctx, const struct entry *, bool effective);

    const struct state_ops *state; /* its state, with the same ctx */
};

/* How many pieces of states the logs of one host may still make or take in this round: it fills it up. A piece is a call
 * of the machine, and with many groups they would add up to more than a heartbeat. The rest is the logs': for how long
 * they were kept from looking at the others by such calls, whichever of them it was that made them. */
struct log_budget {
    uint32_t pieces;
    uint64_t called_ns; /* time of the round in which the last one was; 0: that is in away_ns */
    uint64_t away_ns;   /* all in all */
};

/* A source that several nodes write alike: the replicas of another group, each into a ring of its own.
 * The next message is taken from any of them, once. */
struct log_stream {
    const uint32_t *nodes;
    uint32_t writers;    /* 0: nobody; only its number is taken */
    uint32_t ring_bytes; /* 0: as source_bytes */
};

struct log_options {
    struct mem *mem;
    uint32_t region;       /* number of the group: its region at every replica */
    const uint32_t *nodes; /* the node that carries each replica, by rank; distinct */
    uint32_t replicas;     /* 1 to LOG_REPLICAS_MAX */
    uint32_t rank;         /* which of them this is */

    const uint32_t *memory_nodes; /* the nodes that are only memory of this log */
    uint32_t memories;            /* how many; 0: none, up to LOG_MEMORIES_MAX */
    bool all_vote;                /* with memories: the replicas vote as well */

    /* The node that writes each source; NULL: each is opened when it comes, by log_source_open. */
    const uint32_t *source_nodes;
    uint32_t sources;
    uint32_t source_bytes; /* ring of a source at a replica; 0: 64 KiB */
    /* Sources are told how far they were taken when a good part of the ring is free again, or with the
     * next heartbeat, and not at once: for those who need the room only. */
    bool ack_lazily;

    /* More sources, numbered on from `sources`: the streams of other groups. */
    const struct log_stream *stream;
    uint32_t streams;

    uint32_t log_bytes; /* ring of a log lane; 0: LOG_RING_DEFAULT */
    uint32_t
        payload_max; /* largest message; 0: what fits 16 times in the log, 4 in a source's ring */
    uint32_t batch_bytes;  /* most that goes out as one write; 0: log_bytes / 16 */
    uint32_t window_bytes; /* most that is written and not committed; 0: log_bytes / 2 */
    uint32_t snap_bytes;   /* ring of a snapshot lane; 0: 64 KiB */
    uint64_t
        backlog_bytes; /* most that is kept for a replica while its state is sent; 0: 256 MiB */
    struct log_budget *budget; /* of the host; NULL: one of its own */

    uint64_t heartbeat_ns; /* 0: 15 ms */
    uint64_t suspect_ns;   /* silence after which a leader counts as hung; 0: 60 ms */
    uint64_t stagger_ns;   /* what the next in rank waits longer; 0: 200 us */
    uint64_t detach_ns;    /* how long a stuck replica may hold up the others; 0: 50 ms */
    uint64_t seed;         /* for back-off */

    /* Where its positions begin, and below which no ballot of its is: of a log that takes the place of another one, on the same disk and with the state of
     * that. A multiple of log_bytes. */
    uint64_t base;
    bool
        fresh; /* no earlier life of this node has had it, whatever became of its memory: it has promised nothing */
    bool
        duels; /* over a network too, does not ask whether others hear a leader: for duels in tests */

    struct disk *
        disk; /* what is accepted and promised is kept there, and counts when it is; NULL: in memory alone */
    uint32_t disk_group; /* its number there */

    const struct log_machine *machine;
    void *ctx;
};

struct log;

/* Defaults where an option is 0, and limits of sizes. */
int log_sizes_settle(struct log_options *, struct err *);

/* Opens the replica's region and lanes on mem. ERR_INVALID says which option is wrong and what would
 * be right. */
int log_open(const struct log_options *, struct log **, struct err *);
void log_close(struct log *);

/* Of a log that is kept: begins its life with what the disk has, through the machine's load and apply. Once, before anything else;
 * whoever is behind the machine is open. ERR_CORRUPT: what the disk has cannot be read as a log. */
int log_restore(struct log *, struct err *);

/* What a log has on its disk, for the next one that is kept there. */
struct log_past {
    struct disk_says said;
    uint64_t end, pledge, pledged;
    bool beyond; /* nothing of it counts */
};

void log_past(const struct log *, struct log_past *);
/* Likewise, of a disk whose log was not opened in this life. */
void log_past_found(const struct disk *, uint32_t group, struct log_past *);

/* In place of log_restore, of a log that takes the place of another one: begins with the state that the machine has now, which is that of `base`; or, with
 * `lacks`, without one. What the disk has of the one before counts until a snapshot of this one is on it. */
void log_begin(struct log *, const struct log_past *, bool lacks);

/* How many bytes of a saved state (disk_snap_read) are the log's, before those of the machine, if it has no sources. 0: it is none. */
uint32_t log_saved_head(const void *saved, uint64_t bytes);

/* It is over, while its process goes on: it does nothing any more, and is not stepped. Then, when nothing is under way that it has asked of
 * its memory: ends its lanes and its region, and closes it. */
void log_leave(struct log *);
bool log_is_quiet(const struct log *);
void log_end_close(struct log *);

/* What is applied now was applied by an earlier life, and comes from the disk: what it brings about has been asked for room then. */
bool log_replaying(const struct log *);

/* Opens the lanes to and from a source that this node writes from now on. Of one that is open already, with
 * the same node, nothing changes. */
int log_source_open(struct log *, uint32_t source, uint32_t node, struct err *);

/* Takes what sources have sent and writes it out; starts raises and reads. Returns work done. */
int log_post(struct log *, uint64_t now_ns);

/* A heartbeat that is due before then is made in the next log_post: for who is awake and may sleep over it. */
void log_beat_by(struct log *, uint64_t due_ns);

/* After mem_poll: counts completions, commits, applies, acknowledges. Returns work done. */
int log_settle(struct log *, uint64_t now_ns);

/* When log_post has to be called again though nothing happens (heartbeats, time-outs). */
uint64_t log_next_ns(const struct log *);

void log_status(const struct log *, struct unit_status *);

/* The machine cannot go on: the replica stops as if it had seen what cannot be. */
void log_stop(struct log *, const char *why);

/* NULL, or why the replica has stopped for good: it applies nothing, promises only through its memory, and must be
 * started anew. */
const char *log_broken(const struct log *);

/* Proposes an entry of the machine's own, as leader; it is applied once, or never if the leadership ends.
 * False: not now. Notes count towards payload_max. */
bool log_note(struct log *, const void *payload, uint32_t bytes);

/* Whether the machine waits for anything from its streams. While it does not, a leader with nothing to do looks at
 * them only now and then, and at the other sources in every round. At first it does. */
void log_awaits_streams(struct log *, bool);

/* Whether the machine has room for more from the sources that are no streams of other groups. While it has not, a
 * leader does not take from them; what is decided is applied all the same, and what comes from other groups is taken,
 * so that no two groups wait for each other. At first it has. */
void log_holds_sources(struct log *, bool);

/* Position in the source's stream up to which the applied log has taken it. */
uint64_t log_source_taken(const struct log *, uint32_t source);

/* The life of the source in which that is. */
uint16_t log_source_life(const struct log *, uint32_t source);

/* True if this replica leads or, having a quorum, is about to: what is derived from the applied log
 * is its to hand on. That must not wait for the start marker, which may stand in the log behind
 * entries that cannot be applied before something was handed on. */
bool log_leading(const struct log *);

/* NULL, or which of the rules that hold after every post and settle is broken. */
const char *log_check(const struct log *);

/* The same as what a host steps: it closes the log. */
struct unit log_unit(struct log *);

#endif
