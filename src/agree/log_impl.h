/* The inside of a log. Files: log_open.c opens and closes it; log.c steps and applies; log_raise.c raises a replica's
 * promise and reads its lanes; log_recover.c finds what may have been decided; log_lead.c leads;
 * log_room.c detaches who is in the way; log_memories.c looks at members that are only memory, and takes them back;
 * log_source.c takes from the sources; log_snap.c sends states,
 * log_load.c takes them and comes back; log_keep.c writes to the disk, log_restore.c comes back from it. */
#ifndef AGREE_LOG_IMPL_H
#define AGREE_LOG_IMPL_H

#include "agree/backlog.h"
#include "agree/chain.h"
#include "agree/keep_wait.h"
#include "agree/lanes.h"
#include "agree/log.h"
#include "agree/oracle.h"
#include "agree/source.h"
#include "base/minmax.h"
#include "base/planted.h"
#include "lane/table.h"
#include "mem/wrap.h"

#include <string.h>

/* Ranks 0 to n - 1 are replicas, those from n on memories: members with a region and lanes that run nothing. Those from
 * `voters` on vote: all replicas where there are no memories, else these, with the replicas or without. */

enum {
    LOG_LANES_MAX = LOG_REPLICAS_MAX + 1
}; /* of a member, by writer; the last is a memory's own */

/* What a leader or candidate knows of one member, itself included. */
enum peer_phase {
    PEER_DOWN,    /* not reached; tried again at retry_ns */
    PEER_RAISE,   /* raise under way */
    PEER_GRANT,   /* a memory that was taken back: its region is being opened */
    PEER_RUNS,    /* reading the run words of its log lanes */
    PEER_HEADS,   /* reading all control words of its log lanes */
    PEER_VERIFY,  /* asking whether the promise still stands: it may have lost its memory */
    PEER_PLEDGE,  /* waiting until its disk has the promise; only if logs are kept */
    PEER_READY,   /* promised and read; takes part in recovery, then waits to be synchronised */
    PEER_COMPARE, /* reading what an earlier leadership of ours left there */
    PEER_LIVE,    /* takes our writes */
};

struct peer {
    enum peer_phase phase;
    uint64_t retry_ns;
    uint64_t raised;      /* ballot of the raise under way or done */
    uint64_t raised_life; /* ROW_LIFE when it was issued: the promise is at least of that life */
    uint64_t
        beat_before; /* ROW_BEAT when our candidacy began: a row that still has it is from before */
    struct mem_op op;     /* that raise, and the question whether it still stands */
    struct mem_flow flow; /* log writes under our ballot */

    /* Its log lanes, by writer, as read after the raise: RUN, all words, RUN again. */
    struct mem_op lane_op[LOG_LANES_MAX];
    uint64_t run[LOG_LANES_MAX]; /* in the end: the run that all of head is of; 0: none */
    uint64_t run_after[LOG_LANES_MAX];
    uint64_t head[LOG_LANES_MAX][LOG_WORDS];

    uint64_t start; /* where our run there begins */
    uint64_t next;  /* position up to which we have written to it */
    uint64_t kept; /* what stood there below this was ours already: the guard never goes under it */
    uint64_t commit_sent; /* LOG_COMMIT as last written there */
    uint64_t unsent_ns;   /* since when there is something that it has yet to be sent; 0: none */
    uint64_t unasked_ns;  /* since when it has writes that we have not asked to hear of; 0: none */

    uint64_t stuck_ns; /* since when it is in the way of all others; 0: it is not */
    uint64_t stuck_at; /* what it needs next, then */
    uint64_t
        away_ns; /* leader: since when it has not been PEER_LIVE, for whatever reason; 0: it is */
    uint64_t detached_ns;   /* since when it is detached; 0: it is not */
    uint64_t detached_beat; /* ROW_BEAT then: while it is that, the replica hangs */
    uint32_t detaches;      /* in this leadership, if it was never well in between */

    uint64_t hold; /* position it needs kept because its transfer ends there; or UINT64_MAX */
    uint64_t
        given; /* where its last transfer ended: it has applied no less, whatever its row says */
};

enum { SNAP_HEAD_WORDS = 5 };

/* What a transfer has yet to send, in this order. */
enum send_step {
    SEND_ASK,   /* nothing yet: the others are told that the machine is about to freeze its state */
    SEND_STATE, /* what the log derives, and the machine's state as it was frozen at pos */
    SEND_ENTRIES, /* the backlog: what was decided since */
    SEND_END,     /* nothing more: the log ring is held from `next` on */
};

/* Bringing a replica up to date, as leader; snap_to says whom. */
struct sending {
    enum send_step step;
    uint64_t id, pos;
    uint64_t life;          /* ROW_LIFE of the life that it is for */
    void *save;             /* the machine's, while it is open */
    uint64_t sent, taken;   /* bytes of the stream: written, and taken as last seen */
    uint64_t moved_ns;      /* when that last changed, */
    uint64_t heard_ns;      /* and when the replica was last known to live */
    uint64_t slows_ns;      /* since when the sources wait for it; 0: they do not */
    uint64_t looked_ns;     /* when we last looked */
    bool rewrite;           /* the connection was lost, and with it perhaps what was not taken; */
    uint32_t losses;        /* so often it was when we last looked */
    unsigned char *ring;    /* the last snap_bytes of the stream, to write them again */
    unsigned char *stage;   /* records that are next, */
    uint64_t staged, put;   /* so many bytes, and how many of them are written */
    struct backlog backlog; /* entries applied since pos and not yet in the stream */
    uint64_t next;          /* position of the first of them */
    uint64_t ceiling;       /* sources are not read while the backlog is larger */
};

/* Being brought up to date. */
struct taking {
    bool on;
    uint64_t ballot, id; /* of the transfer, or the last one */
    uint32_t from;
    uint64_t pos;   /* of the state */
    uint64_t bytes; /* of the stream, taken so far */
    bool opened;    /* the machine is loading */
    bool closing;   /* it has everything and is told so in the next round */
    bool whole;     /* it has its state, and entries are applied to it */
    bool in_record; /* a record has begun, */
    struct snap_record record;
    uint64_t got;        /* and so many of its padded bytes are taken */
    unsigned char *room; /* where it is put together, unless it is state */
};

/* A writer of a source that is there to be read. */
struct source_link {
    const _Atomic uint64_t *guard;
    struct log_source *source;
    struct source_writer *writer;
};

/* One writer of a source: its ring here, and what we tell it. */
struct source_writer {
    struct mem_lane *in;
    struct mem_lane *ack;
    struct mem_flow flow;
    uint32_t node;
    uint32_t region;   /* of the acknowledgement, at the writer */
    uint64_t acked;    /* what this writer knows of `taken` from us, */
    bool acked_life;   /* and that it is about the life that it is about */
    uint64_t asked;    /* guard as last seen while we did not lead, */
    uint64_t asked_ns; /* and when it had moved */
};

/* What no correct source writes. A leader that finds it does not read the source any more in this life. */
enum source_fault {
    SOURCE_SOUND,
    SOURCE_FRAME,    /* what stands where the next frame should be is none */
    SOURCE_OVERFULL, /* it says that more is there than its ring holds */
    SOURCE_USED_UP,  /* STREAM_LIVES_MAX processes had its place before it */
};

/* One cache line: a leader looks at the sources in every round. */
struct log_source {
    struct source_writer *writer; /* a client has one; another group one per replica */
    uint32_t writers;
    uint32_t ring_mask;
    uint64_t taken;       /* derived from the applied log: the next position expected, */
    uint64_t acked;       /* what the writers know of that */
    uint64_t ack_after;   /* they are told when it has moved by this much, */
    uint64_t cursor;      /* leader: next position to read, */
    uint16_t life;        /* taken is in this life, */
    uint16_t cursor_life; /* and cursor in this one; at least (life, taken) */
    bool due;             /* they are told now */
    bool dirty;
    uint8_t
        fault; /* enum source_fault: has written what no source writes; not read any more in this life */
    uint32_t first; /* the link of it that is looked at in every round */
};
_Static_assert(sizeof(struct log_source) == 64, "a source is a cache line");

/* What this replica has on its disk. */
struct keeping {
    struct disk *disk; /* NULL: nothing is kept */
    uint64_t run;      /* promise under which entries were last copied; 0: none were in this life */
    uint64_t copied;   /* end of these: nothing beyond is applied */
    /* Where the chain on the disk ends. It is [snapshot, copied) of the lane of `run`; or, where an earlier run left more or another
     * one is about to write over that lane, it is `chain` from what was applied on. */
    uint64_t end;
    bool chained;
    struct chain chain;
    bool unknown;            /* neither: it is not known any more what it has below `end` */
    uint64_t again_in;       /* the batch in which it was last written again */
    uint64_t pledge;         /* promise that was last appended */
    struct disk_says said;   /* with it, or with entries */
    struct keep_waits waits; /* appended and not known to be durable */
    uint64_t kept_run, kept; /* what is durable, as the row says, */
    uint64_t stands;         /* and what was applied of that; see keep_stands_to */
    uint64_t pledged;
    /* The state was replaced: nothing is copied until a snapshot of at least this position is durable; 0: it was not. */
    uint64_t gap;
    /* Entries applied meanwhile: decided, so that they need not be here first. They are appended when it is durable. */
    struct backlog later;
    uint64_t full_ns; /* since when the disk has had no room for what is to be copied; 0: it has */
    uint32_t full_bytes; /* of that */
    bool unfit;          /* so for so long that another is to lead */
    bool
        is_first; /* the gap is the beginning of this log: what the disk has is of the one before */
    bool beyond;  /* what was on the disk does not count */
    bool reset_due; /* and the disk is yet to be told where it begins anew */
    uint32_t
        save_asked; /* rounds since the others were told that a snapshot is about to be made; */
    void *save;     /* one is being written, */
    unsigned char *piece; /* the next bytes of it, */
    uint32_t piece_bytes, piece_at;
    bool save_whole; /* and the machine has given all */
    bool
        is_filling; /* what the disk had is on its way into the own lane: nothing is promised before it is there */
    struct mem_flow filling;
    bool replaying;  /* what is applied comes from the disk: nothing is asked for room */
    uint64_t looked; /* of the planted copy_unchecked */
};

/* What a replica sees of one memory. */
struct memory_view {
    struct mem_lane *out;                  /* our row there */
    struct mem_lane *in[LOG_REPLICAS_MAX]; /* the others' rows there; */
    struct mem_lane *own;                  /* what it says of itself, where it is read */
    struct mem_lane *told;                 /* and where it tells us; if logs are kept */
    struct mem_flow flow;                  /* of our row */
    bool asked;                            /* reads are under way: */
    struct mem_op op[LOG_REPLICAS_MAX];    /* of rows, and at our own rank of what it says */
    uint64_t read[LOG_REPLICAS_MAX][ROW_WORDS];
    uint64_t row[LOG_REPLICAS_MAX][ROW_WORDS]; /* as last read in whole; ours is what it says */
    uint64_t answers;                          /* how often that was */
};

/* Steps of recovery, in order. */
enum rec_step {
    REC_IDLE,
    REC_KEEP,    /* copying applied entries that others may still need */
    REC_DECIDED, /* copying decided entries that we lack */
    REC_SUFFIX,  /* merging what stands beyond the highest known commit */
};

struct recovery {
    enum rec_step step;
    bool reading; /* a lane is being read: op is its ring read, then the check of its head */
    bool checking;
    bool asking; /* whether it is still the memory that promised */
    struct mem_op op;
    uint32_t q, w;       /* lane being read */
    uint64_t from, end;  /* what is read of it */
    uint64_t commit;     /* highest known */
    uint64_t commit_run; /* run ballot of a lane that claims it */
    uint64_t least;      /* known to be decided up to here, though it had to be put together anew */
    uint32_t quorum;     /* mask of ranks that were read */
    uint32_t read;       /* how many they are, */
    uint32_t needed;     /* and how many they must be, if more than a quorum */
    uint32_t lane;       /* REC_SUFFIX: next lane to look at, q * LOG_LANES_MAX + w */
    uint64_t check[LOG_WORDS];
};

struct log {
    struct log_options opt;
    struct mem *mem;
    uint32_t n;
    uint32_t all;    /* members, those included that are only memory */
    uint32_t voters; /* the first who votes; all from there on do */
    uint32_t me;
    uint32_t quorum;
    uint64_t mask;      /* log_bytes - 1 */
    uint64_t put_max;   /* most bytes written as one put */
    uint64_t entry_max; /* largest entry */

    enum unit_role state;
    uint64_t ballot;      /* ours while candidate, sync or leader */
    uint64_t ballot_seen; /* highest ballot heard of */
    uint64_t applied;
    uint64_t commit; /* leader */
    uint64_t tail;   /* leader: end of what was proposed */
    uint64_t
        tail_max;  /* furthest that this life has ever proposed: its own lane was written so far */
    uint64_t base; /* leader: the own lane holds the log from here, */
    uint64_t needed;      /* which those who were there when it began need from here on */
    uint64_t start_end;   /* leader: end of the start marker of this ballot */
    bool serving;         /* leader: takes from the sources */
    uint64_t deadline_ns; /* candidate, sync, leader: step down then, if nothing moves */
    bool behind;          /* no state to apply to */
    const char *broken;   /* set when the log has seen what cannot be; it stops */

    uint64_t now_ns;
    uint64_t beat;
    uint64_t beat_ns;  /* when the next heartbeat is due */
    uint64_t ask_ns;   /* when the oracle is asked again, if nothing happens before */
    uint64_t shown_to; /* promise to whose owner the row was shown */
    uint64_t row_sent_applied;

    bool at_rest;     /* leader: there was nothing to do, and is not until a source writes */
    uint64_t look_ns; /* when to look at everything all the same */

    bool stuck; /* leader: when it last looked there was no room */

    uint32_t follow;        /* writer of the lane last applied from */
    uint64_t follow_ballot; /* its run then */

    struct keeping keep;

    struct oracle oracle;
    struct peer peer[LOG_AGENTS_MAX];
    struct recovery rec;

    struct mem_lane *lane[LOG_AGENTS_MAX][LOG_LANES_MAX]; /* LANE_LOG by owner, writer */
    struct table *rows;                                   /* LANE_ROW: what each says of itself */
    struct memory_view *memory; /* of rank n and on; NULL if there are none */
    struct mem_lane *snap_in[LOG_REPLICAS_MAX];
    struct mem_lane *snap_out[LOG_REPLICAS_MAX];

    /* Recovery's chain of entries [chain_base, chain_end), and room for one lane's content. */
    unsigned char *chain;
    unsigned char *side;
    uint64_t chain_base, chain_end;
    struct mem_op side_op; /* compare reads into side */
    uint32_t comparing;    /* rank, or `all`: nobody */
    uint64_t compare_from;

    unsigned char *batch; /* entries being sent; put_max bytes */

    /* Joining and snapshots. */
    uint32_t joined[LOG_AGENTS_MAX];     /* derived: life last taken back, by rank */
    uint32_t join_asked[LOG_AGENTS_MAX]; /* leader: life proposed in this ballot, plus 1 */
    uint64_t snap_count;
    uint32_t snap_to; /* rank of the transfer under way, or n */
    struct sending sending;
    struct taking taking;
    uint32_t snap_head_bytes; /* the log's part of a state */
    struct log_budget own_budget, *budget;
    uint64_t look_every_ns;             /* at what changes rarely and nobody waits for */
    uint64_t away_ns;                   /* of the budget, as far as it is forgiven */
    struct mem_op peek[LOG_AGENTS_MAX]; /* joining: promises of the others */
    bool peeking;
    bool lost;        /* what is broken is that */
    bool stands;      /* on disk: too many lost theirs, and nobody can be taken back */
    uint64_t loss_ns; /* without a state: since when nobody could give us one; 0: somebody could */

    uint64_t commit_ns; /* leader: when the commit was last found to have risen, */
    uint64_t waits_ns;  /* and since when there is something to commit, or it has */

    struct unit_counts count;
    struct unit_muted muted; /* the last source that was muted, */
    uint32_t muted_count;    /* and how many are */
    uint32_t source_turn;
    uint32_t sources;            /* the streams included */
    struct source_link *link;    /* the writers that are there: one of each source first, */
    uint32_t links, links_first; /* links_first of them */
    uint32_t links_stream;       /* of these the first are of streams, if sources come and go */
    bool streams_wait;           /* nobody waits for what streams may bring */
    bool sources_held;           /* nobody has room for what the others may bring */
    uint32_t link_other;         /* which of the others was looked at last */
    uint32_t links_of;           /* lanes_moved when they were made, plus 1 */
    struct log_source *source;
    struct source_writer *writer;
    uint32_t *dirty; /* sources whose taken has moved since they were told */
    uint32_t dirty_count;
    uint32_t writers; /* of all sources */
    uint32_t *open;   /* sources that have any */
    uint32_t opens;
};

const struct entry *log_entry_over(const struct log *, const unsigned char *ring, uint64_t pos,
                                   uint64_t straight);

static inline const struct entry *entry_at(const unsigned char *bytes)
{
    return (const struct entry *)(const void *)bytes;
}

/* The entry at pos of the own lane of writer w, if the position is still there: in place, or put together
 * in the batch if it goes over the ring's end. The batch must be free, and stays in use until the
 * entry has been looked at. */
static inline const struct entry *log_entry(const struct log *l, uint32_t w, uint64_t pos)
{
    const unsigned char *ring = l->lane[l->me][w]->ring;
    const uint64_t straight = ring_straight(l->opt.log_bytes, pos);
    if (straight < l->entry_max)
        return log_entry_over(l, ring, pos, straight);
    return entry_at(ring + (pos & l->mask));
}

static inline bool is_memory(const struct log *l, uint32_t rank)
{
    return rank >= l->n;
}

static inline bool has_memories(const struct log *l)
{
    return l->all > l->n;
}

/* How many log lanes a member has: one for each replica, and a memory with a disk one of its own, for what that had. */
static inline uint32_t lanes_of(const struct log *l, uint32_t rank)
{
    return l->n + (l->keep.disk != NULL && is_memory(l, rank));
}

static inline bool has_vote(const struct log *l, uint32_t rank)
{
    return rank >= l->voters;
}

/* Has it a state, as its row says? */
static inline bool row_has_state(const struct log *l, uint32_t rank)
{
    return !(table_get(l->rows, rank, ROW_FLAGS) & (ROW_BEHIND | ROW_JOINING));
}

/* Is it written to, and has it a state? */
static inline bool peer_is_well(const struct log *l, uint32_t rank)
{
    return l->peer[rank].phase == PEER_LIVE && row_has_state(l, rank);
}

/* log_open.c */
/* As the memory says what became of an earlier life. */
void log_state_begin(struct log *, enum mem_birth);

/* log.c */
void log_move(struct log *, enum unit_role);
bool log_apply(struct log *, const struct entry *);
void log_fall_behind(struct log *);
/* Shows all others its row, at once. */
void log_push_row(struct log *);
/* Tells the others how far it is, if that is much further than they were told. */
void log_show_applied(struct log *);
void log_set_deadline(struct log *);

/* When a commit goes to the followers though there is nothing to take it along. Where writes are messages
 * the next batch spares two of them for each follower. */
uint64_t log_commit_wait_ns(const struct log *);
uint64_t log_commit_due_ns(const struct log *);
void log_step_down(struct log *, bool failed);

/* log_raise.c */

/* Changes the phase of a peer; nothing else does. */
void peer_move(struct log *, uint32_t rank, enum peer_phase);

/* We do not write to it, or try to, until retry_ns. */
void peer_down(struct log *, uint32_t rank, uint64_t retry_ns);

/* Moves one replica from unreached to READY; may end the candidacy or leadership. Returns work done. */
int peer_step(struct log *, uint32_t rank);

/* Of one that is ready, asked and answered once after each read: is its memory still the one that promised? */
void peer_ask_same(struct log *, uint32_t rank);
enum mem_status peer_same(struct log *, uint32_t rank);

/* log_recover.c */
void recover_begin(struct log *);
int recover_step(struct log *);
uint64_t recover_keep_from(const struct log *, uint64_t start, uint64_t end);

/* log_lead.c */
void lead_sync_own(struct log *);
void lead_sync_peer(struct log *, uint32_t rank);
bool lead_knows_taken(const struct log *);
int lead_post(struct log *);
int lead_settle(struct log *);
bool lead_at_rest(const struct log *);
uint64_t lead_spare_due_ns(const struct log *, const struct peer *);
void lead_send_batch(struct log *, uint64_t end);
uint64_t lead_copy(struct log *, const unsigned char *bytes, uint64_t pos, uint64_t end);
unsigned char *lead_fill(const struct log *, uint64_t pos, uint32_t source, uint32_t life,
                         uint64_t srcpos, uint32_t bytes);
bool lead_propose(struct log *, enum entry_kind, const void *payload, uint32_t bytes);
bool lead_too_old(const struct log *, uint32_t rank);
bool lead_row_is_new(const struct log *, uint32_t rank);

/* log_memories.c */
int memories_open(struct log *, struct err *);
void memories_close(struct log *);
/* Shows them our row. */
void memories_tell(struct log *);
/* Asks them for what they have of the others' rows, if all answers to the last time are there. */
void memories_ask(struct log *);
/* What the oracle sees of them, and with them of replicas that reach us through them alone. */
void memories_view(struct log *, struct oracle_view *);
/* The highest promise heard of: our own, or of a leader whose rows come through memories. */
uint64_t memories_promise(const struct log *, const struct oracle_view *, uint64_t promised);
/* The highest ballot that any row there is about. */
uint64_t memories_ballot(const struct log *);
/* ROW_LIFE of any member; 0: never heard of. */
uint64_t member_life(const struct log *, uint32_t rank);
/* A memory whose region is closed: takes it back, if it can be now. False: not yet. */
bool memory_take_back(struct log *, uint32_t rank);
/* Position from which on a memory must have our lane, so that no replica that we write to ever lacks an entry. */
uint64_t memory_start(const struct log *);
/* Where what stands in our lane at a member and what is to stand there, from `from` on, have their first position in common. */
uint64_t memory_meets_at(const struct log *, uint32_t rank, uint64_t from);
/* Of a memory's lane that was just continued, and begins beyond `from`: puts what is missing before it. */
void memory_reach_back(struct log *, uint32_t rank, uint64_t from);
/* A memory that we write to begins beyond this position. */
bool memory_begins_beyond(const struct log *, uint64_t pos);

/* log_room.c */

/* Up to where the log may grow: nothing that a replica in the write set, or any quorum, has still to apply is
 * overwritten. */
uint64_t room_end(const struct log *);

/* There is no room up to `end`: notes who is in the way, and detaches whoever is for too long. */
void room_detach(struct log *, uint32_t rank);
void room_missing(struct log *, uint64_t end);
void room_found(struct log *);

/* The replica was detached, and has shown no sign of life since or was so too often; */
bool room_keeps_out(const struct log *, uint32_t rank);
/* or it runs, and has not yet applied what it was told of before. */
bool room_awaits_apply(const struct log *, uint32_t rank);

/* log_source.c */
void sources_init(struct log *);
void log_source_add(struct log *, uint32_t source, struct log_source);
void sources_serve(struct log *);
int sources_take(struct log *);
bool sources_silent(struct log *);
void sources_ack(struct log *);
void sources_look_after(struct log *);
void log_source_dirty(struct log *, uint32_t source);
void log_source_reborn(struct log_source *, uint16_t life);
void log_source_load(struct log_source *, uint64_t taken, uint64_t life);
void streams_answer(struct log *);

/* log_snap.c */
uint32_t snap_head_size(const struct log_options *);
uint32_t snap_head_bytes(const void *head, uint64_t bytes);
uint32_t snap_piece_bytes(const struct log *);
bool snap_budget_take(struct log *);
bool snap_head_check(const struct log *, const void *head, uint64_t pos, uint64_t *state_bytes);
void snap_head_take(struct log *, const void *head);
void snap_head_write(const struct log *, unsigned char *to, uint64_t state_bytes);
int snap_send(struct log *);
void snap_not_busy(struct log *);
void snap_abort(struct log *);

enum { SNAP_PIECES_PER_ROUND = 4 }; /* of a log that has no host's budget */

static inline void snap_budget_fill(struct log *l)
{
    l->own_budget.pieces = SNAP_PIECES_PER_ROUND;
}

/* True while the sources have to wait, so that a replica which is being brought up to date can be. */
static inline bool snap_slows(const struct log *l)
{
    return l->snap_to < l->n && l->sending.backlog.bytes > l->sending.ceiling;
}

/* True while what is applied has to be kept for it. */
static inline bool snap_records(const struct log *l)
{
    return l->snap_to < l->n && l->sending.step < SEND_END;
}

/* log_load.c */
int snap_take(struct log *);
void snap_notice(struct log *);
int join_step(struct log *);
/* Of one without a state: stops it if there is none anywhere. */
void look_for_loss(struct log *);

/* log_keep.c */

static inline bool log_kept(const struct log *l)
{
    return l->keep.disk != NULL;
}

/* Takes note of what is durable now, and tells the leader. */
int keep_settle(struct log *);
/* Appends the promise, and what the leader of it has written here. Before anything is applied. */
int keep_follow(struct log *);
/* What the disk was found to have; takes the chain's memory. */
void keep_chain(struct log *, struct chain *);
void keep_pledge(struct log *, uint64_t promised);
/* Up to where it may be applied what stands in the lane of that promise. */
uint64_t keep_apply_end(const struct log *, uint64_t promised);
/* What was applied is yet to be appended: keep_later is told of it. */
bool keep_is_late(const struct log *);
void keep_later(struct log *, const struct entry *);
/* Up to where the replica's disk has what we wrote under our ballot. */
uint64_t keep_end_of(const struct log *, uint32_t rank);
/* Its disk has the promise that we raised, in the life that we raised it in. */
bool keep_is_pledged(const struct log *, uint32_t rank);
/* Somebody's disk has a promise to another, of a higher ballot: ours is over. */
bool keep_is_deposed(struct log *);
/* The life that it says this in. */
uint64_t keep_life_of(const struct log *, uint32_t rank);
/* So far a row may stay behind what its replica has applied, with nothing to be appended that the disk could be told with. */
static inline uint64_t keep_unsaid_max(const struct log *l)
{
    return log_kept(l) && has_memories(l) ? l->opt.log_bytes / 16 : 0;
}

/* Up to where it has the log for good. Beside memories that is what its disk knows as applied: they have no state to give to one that comes
 * back with less, and must have the rest. Else all that is applied is. */
uint64_t keep_stands_to(const struct log *);
/* The state was replaced by one of the present position. */
void keep_reset(struct log *);
/* Tells the disk of it, as decided under that ballot; false: there is no room. */
bool keep_append_reset(struct log *, uint64_t ballot);
/* Writes snapshots as the disk asks for them. */
int keep_save(struct log *);
/* Gives up the save that is under way, if one is. */
void keep_drop_save(struct log *);
/* Nothing is to be written, or under way. */
bool keep_at_rest(const struct log *);
void keep_status(const struct log *, struct unit_status *);
void keep_close(struct log *);

/* log_restore.c */

/* The row of a life that begins with what the disk has. */
void log_show_life(struct log *);
/* When the own lane has what the disk had, the region is opened for promises. */
int restore_filled(struct log *);
/* May what was taken on be granted: is all of it on disk? */
bool restore_may_grant(struct log *, uint64_t ballot);

/* planted.c, of the test build alone: what a planted bug does instead, where that takes more than a line. */
int planted_heads_are_read(struct peer *);
int planted_raise_later(struct peer *);
void planted_runs_of_heads(const struct log *, struct peer *);
int planted_raise_own_last(struct log *);
uint64_t planted_decided_end(const struct log *, uint32_t writer, uint64_t end);
uint64_t planted_promise_before(struct log *, uint64_t promised);
bool planted_loss_ignored(struct log *, uint32_t rank);
void planted_backlog_gap(struct sending *);

#endif
