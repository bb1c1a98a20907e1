/* A small exhaustive model of taking over a replicated log: raise, recover, continue, renew, apply.
 *
 * src/agree is run by the simulator under drawn faults; here its rules are written down once more, as
 * small as they can be, and *every* schedule within some bounds is tried. What is modelled, and how:
 *
 * - Three replicas A, B, C. Each memory has a promised word and three lanes, one per writer, each with
 *   the words RUN, START, GUARD, COMMIT and a few entries, all of one size. Rings do not wrap.
 * - A writer issues stores into one queue per owner (contract of mem.h: in order to one owner, in no
 *   order between owners). Each word lands by itself; the words of one put or set land in any order. A
 *   mark that lands while the promise is the writer's tells it that what was before stands. So a writer
 *   that stops between two stores is a queue that does not move, one that wakes later is a queue that
 *   moves after others were promised, and one that died is a queue that never moves again: there is no
 *   other step for crashes.
 * - A reader (a candidate reading a replica, recovery reading entries, a replica applying) loads word by
 *   word. It runs to its end in one go, or is suspended before any load whose word may still change,
 *   while others do whatever they can.
 * - Memories answer without their processes and are never lost. A replica that falls behind is out.
 *
 * To keep the space small steps are merged. Most of that nobody could tell: while the promise is its own, a leader
 * writes up to its next mark in one step, since whoever could see a part of it has to raise first. Some of it is a
 * bound like the others: what a deposed leader has under way lands in the step of whoever looks at that memory
 * next (nothing, everything, or, so many times in a schedule as there are `stops`, anything between), it issues nothing
 * new (a run that it begins by what a later leader's follower has applied is a schedule stepped by hand instead,
 * run_renewed_by_a_deposed_leader), a commit told alone lands only when that queue is empty, and a leader applies as
 * soon as it commits. Whoever tries for the place again has first done what it was about to do, unless that was
 * lost on its way (`cuts`).
 *
 * The bounds are in struct model. The search begins with A as leader of ballot 1, with an empty log and
 * messages under way to all. Of the last leadership only the recovery is tried, unless `to_the_end`: all
 * that could go wrong later follows from it. `order` says who takes which ballot. Ranks matter, since of
 * two lanes that are equally good the one of the lower rank is taken.
 *
 * What must hold in every state: two values are never decided at one position (an entry is decided when
 * it stands on a quorum under one ballot); a candidate that has recovered has everything that was
 * decided under lower ballots; what is applied was decided, and is in the lane that it is applied from.
 *
 * States are told apart by 64-bit fingerprints, so a state may be taken for another one by mistake, with
 * a chance of about one in a million for ten million states. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { N = 3, QUORUM = 2, LENGTH_MAX = 6, QUEUE_MAX = 24, BALLOTS_MAX = 7 };
enum word { RUN, START, GUARD, COMMIT, WORDS };
enum value { NOTHING, MARKER, FIRST_MESSAGE, MESSAGES = 3 };
enum { NONE = 255 }; /* above every ballot and position */

/* The rules that can be switched: first the repairs, then single mistakes. */
#define MODEL_RULES(X)                                                                             \
    X(claim_by_commit, "a run vouches for a claim only if its own COMMIT is the claim")            \
    X(reread_run, "RUN is read again after the heads")                                             \
    X(retract, "a lane is renewed though it has something to go on from")                          \
    X(continue_by_zero, "RUN is 0 while a run is continued")                                       \
    X(continue_run_first, "RUN is set before START and GUARD when a run is continued")             \
    X(continue_keeps_guard, "GUARD is not taken back when a run is continued")                     \
    X(continue_keeps_start, "START is not raised when a run is continued")                         \
    X(continue_unlike, "a run is continued without comparing it")                                  \
    X(guard_below_kept, "GUARD goes to the end of each write though more stands there")            \
    X(renew_run_stays, "RUN is not set to 0 before a run is renewed")                              \
    X(renew_run_first, "RUN is set before START, GUARD and COMMIT when a run is renewed")          \
    X(no_restamp, "recovered entries keep their ballots")                                          \
    X(kept_not_rewritten, "entries that stood there already are not written again")                \
    X(entries_unchecked, "RUN is not read again after entries")                                    \
    X(read_before_raise, "a replica is read before its promise")                                   \
    X(own_not_raised, "the own memory is not asked for its promise")                               \
    X(old_runs_sure, "every run is believed up to its GUARD below a commit")                       \
    X(lowest_ballot, "of two entries the one of the lower ballot is taken")                        \
    X(commit_beyond, "COMMIT is told beyond what is known to stand there")                         \
    X(quorum_of_one, "one copy is a quorum")                                                       \
    X(stale_counts, "a mark counts whatever the promise is")                                       \
    X(apply_to_guard, "entries are applied up to GUARD")

enum rule {
#define MODEL_RULE_NAME(name, text) rule_##name,
    MODEL_RULES(MODEL_RULE_NAME)
#undef MODEL_RULE_NAME
        RULES
};

struct model {
    uint32_t rules;      /* mask of enum rule */
    uint8_t ballots;     /* leaderships, the first one included */
    uint8_t length;      /* positions of the log */
    uint8_t first;       /* messages that the first leader has proposed when it begins */
    uint8_t proposals;   /* of clients' messages later on */
    uint8_t to_the_end;  /* the last leader goes on after its recovery */
    uint8_t messages;    /* different ones */
    uint8_t thirds;      /* replicas read beyond a quorum */
    uint8_t batch;       /* entries of one write */
    uint8_t cuts;        /* of a queue: a returning leader's last writes to a replica are lost */
    uint8_t tells;       /* of a commit without an entry to take it along */
    uint8_t stops;       /* of writers between two stores, that others see */
    uint8_t suspensions; /* of readers between two loads */
    uint8_t row_lag;     /* a row says up to so much less than its replica has applied */
    uint8_t torn;        /* the words of a put land one by one */
    uint8_t heads_down;  /* the words of a head are read from the last to the first */
    uint8_t late; /* stores of a past leadership may land during the next one of the same writer */
    char order[BALLOTS_MAX + 1]; /* who takes each ballot; 0: anybody */
    uint64_t states_max;         /* the search gives up there */
    bool progress;               /* on stderr */
};

struct entry {
    uint8_t value, ballot;
};

struct lane {
    uint8_t word[WORDS];
    struct entry ring[LENGTH_MAX];
};

struct queue {
    uint8_t count;
    uint16_t item[QUEUE_MAX];
};

enum role { FOLLOWS, CANDIDATE, LEADS, BEHIND };
enum phase { PEER_UNREAD, PEER_READY, PEER_LIVE };
enum step { REC_IDLE, REC_KEEP, REC_DECIDED, REC_SUFFIX };

/* Recovery under way; see struct recovery of src/agree/log_impl.h. */
struct recovery {
    uint8_t step, reading, q, w, from, end, at;
    uint8_t commit, commit_run, least, quorum, lane;
    uint8_t chain_base, chain_end;
    struct entry chain[LENGTH_MAX], side[LENGTH_MAX];
};

struct replica {
    uint8_t role, ballot, applied, follow, follow_ballot;
    uint8_t
        load; /* next load of what it is reading: a replica, or entries to apply; 0: not reading */
    uint8_t target; /* the replica being read */
    uint8_t applying, apply_w, apply_ballot, apply_end;
    uint8_t needed; /* replicas to be read before recovery */
    uint8_t phase[N], run[N][N], head[N][N][WORDS];
    struct recovery rec;
    /* While it leads: its log, and what it knows of the others. */
    uint8_t value[LENGTH_MAX], base, tail, commit, start_end;
    uint8_t next[N], kept[N], sent[N], done[N];
};

struct state {
    uint8_t promised[N];
    struct lane lane[N][N];   /* by owner, writer */
    struct queue queue[N][N]; /* by owner, writer */
    struct replica replica[N];
    struct entry decided[LENGTH_MAX]; /* with the lowest ballot that did it */
    uint8_t owner[BALLOTS_MAX + 1];   /* of each ballot taken so far */
    uint8_t ballots, proposals, messages, thirds, cuts, tells, stops, suspensions;
};

/* One expansion of a state: what follows from it, and why that is wrong. */
struct expansion {
    const struct model *m;
    void (*emit)(struct expansion *, const struct state *);
    void *ctx;
    uint8_t lag;       /* of rows, in this step */
    const char *wrong; /* of the successor that is being made; NULL: nothing */
    char *text;        /* NULL, or what the step did in words */
    uint32_t text_bytes;
};

static inline bool rule(const struct expansion *x, enum rule r)
{
    return x->m->rules >> r & 1;
}

static inline uint8_t max_u8(uint8_t a, uint8_t b)
{
    return a > b ? a : b;
}

static inline uint8_t min_u8(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

/* Adds to the words of the step, if they are wanted. */
void say(struct expansion *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void wrong(struct expansion *, const char *why);

/* model_memory.c: stores under way, and how they land. Each function is for writer w and owner q. */
void issue_word(struct state *, uint8_t q, uint8_t w, enum word, uint8_t value);
void issue_renewal(struct state *, uint8_t q, uint8_t w, uint8_t start);
void issue_bounds(struct state *, uint8_t q, uint8_t w, uint8_t guard, uint8_t commit);
void issue_entry(struct state *, uint8_t q, uint8_t w, uint8_t pos, struct entry);
void issue_mark(struct state *, uint8_t q, uint8_t w, uint8_t ballot, uint8_t tag);
/* Lands one word of the first store; which, if there are several. False: there is no such word. */
bool land(struct expansion *, struct state *, uint8_t q, uint8_t w, unsigned which);
bool mark_would_count(const struct expansion *, const struct state *, uint8_t q, uint8_t w);
void cut_all(struct state *, uint8_t q, uint8_t w);
void land_all(struct expansion *, struct state *, uint8_t q, uint8_t w);

/* model_read.c: readers. `reader_load` is the next load; false: the reader has come to its end. */
bool reader_reads(const struct state *, uint8_t p);
bool reader_may_differ(const struct expansion *, const struct state *, uint8_t p);
bool reader_load(struct expansion *, struct state *, uint8_t p);
void read_replica(struct state *, uint8_t p, uint8_t q);
void read_decided(struct state *, uint8_t p);
void step_down(struct state *, uint8_t p);

/* model_recover.c */
void recover(struct expansion *, struct state *, uint8_t p);
bool recover_load(struct expansion *, struct state *, uint8_t p);
uint8_t row(const struct expansion *, const struct state *, uint8_t q);

/* model_lead.c */
void lead_begin(struct expansion *, struct state *, uint8_t p);
bool lead_sync_peer(struct expansion *, struct state *, uint8_t p, uint8_t q, uint8_t applied);
void lead_propose(struct expansion *, struct state *, uint8_t p, uint8_t value);
void lead_propose_first(struct expansion *, struct state *, uint8_t count);
void lead_stands(struct expansion *, struct state *, uint8_t p, uint8_t q, uint8_t tag);
uint8_t keep_from(const struct expansion *, const struct state *, uint8_t p, uint8_t start);
bool room_for(const struct state *, uint8_t w);

/* model_search.c */
struct verdict {
    uint64_t states, steps, depth;
    uint64_t behind;   /* states in which a replica has fallen behind */
    const char *wrong; /* NULL: nothing was found */
    bool complete;     /* everything within the bounds was seen */
};
void expand(struct expansion *, const struct state *);
struct verdict search(const struct model *, void (*tell)(const char *line));

#endif
