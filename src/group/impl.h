/* The inside of a member: its cells, their streams, and where its view is. See member.h for what it promises and docs/design.md, "Groups with
 * views", for why.
 *
 * Whose word is whose. All lanes are common ones: each host stores in copies of its own, which all others read, or are sent.
 *
 *   top row   (region REGION_MEMBER)   enum top_word       every host, to all hosts
 *   cell row  (region of the cell)     enum cell_word      every host that may be in the cell, to its members
 *   SEND      (region of the cell)     enum send_word      the same, with a ring of records; on shared memory a second ring
 *   STATE     (region REGION_MEMBER)   enum state_word     every host, to one joiner at a time
 *
 * What a word says of a view is a stamp of it: a reader in v takes an older view's as 0, and a newer one's as none of its business. */
#ifndef GROUP_IMPL_H
#define GROUP_IMPL_H

#include "base/minmax.h"
#include "base/planted.h"
#include "group/ask.h"
#include "group/large.h"
#include "group/member.h"
#include "group/relay.h"
#include "lane/names.h"
#include "mem/wrap.h"
#include "unit/snap.h"

#include <string.h>

enum cell_word {
    CELL_RECEIVED, /* stamp: all numbers below are here; by presence (stable.c): 0, when the lanes of all senders are */
    CELL_DELIVERED, /* stamp: all numbers below were delivered, and the upcalls are over */
    CELL_PERSISTED, /* stamp: all numbers below are on this member's disk, of cells that have logs */
    CELL_STATE,     /* stamp of WANTS_STATE or HAS_STATE */
    CELL_TAKEN, /* stamp of the vid in which a transfer began: which one, and the bytes of it that were taken (transfer.c) */
    CELL_USER,
    CELL_WORDS = CELL_USER + MEMBER_COLUMNS,
};

enum { WANTS_STATE = 1, HAS_STATE = 2 };
enum { FEED_HEAD_BYTES = 24, BACKLOG_BYTES = 64 << 20, KEPT_HEAD_BYTES = 16 };

/* END and GUARD are on different cache lines, and are two writes: GUARD never lands before END. */
enum send_word {
    SEND_START, /* by parity of the vid: where the records of that view begin; the lowest bit says in which ring */
    SEND_END = 2,   /* records up to here are there */
    SEND_GUARD = 8, /* stamp: every index below is a record before END, or a null */
    SEND_WORDS,
};

enum { SEND_RINGS = 2 };

/* A record in a ring. It begins at a multiple of its size, so the end of a ring always has room for the head of one. */
struct record {
    uint64_t stamp; /* vid and index; given when it is published */
    union {
        struct {
            uint32_t bytes; /* of payload; of a SKIP: from its begin to the next record */
            uint32_t flags;
        };
        uint64_t head; /* both; of a plain message it is the bytes */
    };
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the flags are the high half of a head");

enum {
    RECORD_OPEN = 1,
    RECORD_SKIP = 2,
    RECORD_CALL = 4,   /* asks for replies: begins with a struct call_head */
    RECORD_LARGE = 8,  /* stands for a large message: a struct large_head */
    RECORD_RELAY = 16, /* of a client: begins with a struct relay_head */
    RECORD_KINDS = RECORD_CALL | RECORD_RELAY,
};

/* Whom to reply, of what is at most so long. */
struct call_head {
    uint64_t ticket;
    uint32_t reply_max, pad;
};

_Static_assert(sizeof(struct record) == 16, "records are aligned to their head");

static inline uint64_t record_size(uint32_t bytes)
{
    return sizeof(struct record) + (((uint64_t)bytes + 15) & ~UINT64_C(15));
}

/* One publish: when all indices below `issued` are delivered everywhere the ring is free up to `end`. */
struct published {
    uint64_t end, issued;
};

enum { PUBLISHED_MAX = 256 };

/* The own stream of a cell.
 *
 *      tail          start            end            head
 *   ----|--- older ----|--- of v -------|--- ready -----|      positions, which never fall
 */
struct own_stream {
    unsigned char *ring[SEND_RINGS]; /* of the own copy; the second on shared memory only */
    _Atomic uint64_t *ctl;           /* of the own copy */
    uint32_t at;                     /* which ring is in use */
    uint64_t tail;                   /* what is before may be written over */
    uint64_t start;                  /* where the records of this view begin */
    uint64_t end;                    /* published up to here */
    uint64_t head;                   /* reserved up to here */
    uint64_t limit;   /* up to here records are reserved without looking further (set_limit), at */
    uintptr_t base;   /* plus the position */
    uint64_t claimed; /* cache lines before are in this processor's cache */
    uint64_t ready;   /* from `end` to here all is ready, and stamped, */
    uint64_t ready_skip;   /* but for so many bytes at its end, which are skipped */
    uint64_t next_stamp;   /* of what is ready next */
    const void *next_room; /* whose commit needs no look; NULL: not known, see set_ready */
    uint64_t moved;        /* what was reserved before may have been so in the other ring */
    uint64_t vid;          /* of the view that the stream is in */
    uint64_t issued;       /* indices given in it */
    /* New to this view, or back: nothing may be written before all members have begun the view. */
    bool fresh;
    struct published batch[PUBLISHED_MAX];
    uint32_t batch_first, batches;
    /* Shared memory: hosts that may still read that ring though it is not in use for them any more, being out of the cell or in an older
     * view; and the lives and views in which they do. */
    uint64_t readers[SEND_RINGS];
    uint64_t reader_life[SEND_RINGS][GROUP_HOSTS_MAX], reader_vid[SEND_RINGS][GROUP_HOSTS_MAX];
};

/* So many messages are ready, and stamped. */
static inline uint64_t own_ready(const struct own_stream *o)
{
    return o->next_stamp - stamp(o->vid, o->issued);
}

/* What is known of one sender of the cell, in this view. */
struct source_stream {
    uint32_t host;
    bool started;   /* pos is known */
    bool there;     /* the lane shows the life that is in the view */
    bool torn;      /* it has what no member writes, and is not read any more */
    uint32_t ring;  /* which of its rings it uses */
    uint64_t count; /* its index: all below are here */
    uint64_t pos;   /* of its next record */
    uint64_t end;   /* records up to here are there; read after the count */
    uint64_t walk;  /* where there are large messages: records before have all of theirs here */
    /* Raw cells: indices below were delivered; and of these so many in the view before. */
    uint64_t taken, skip;
};

struct cell {
    struct member *of;
    struct cell_options opt;
    uint32_t number, region;
    bool mine;                     /* this host may be in it; else nothing below is there */
    bool alone;                    /* nobody else may: the own stream is in private memory */
    uint64_t hosts;                /* that may be in it */
    struct table *row;             /* rank: order in `hosts`; NULL if alone */
    uint8_t rank[GROUP_HOSTS_MAX]; /* by host */
    struct table *
        taken; /* raw cells: words by rank, stamps: how many messages of it the row's host has delivered; else NULL */
    uint64_t own_row[CELL_WORDS];       /* if alone */
    struct mem_lane **from[SEND_RINGS]; /* by host: their streams */
    struct mem_lane **out;              /* by host: ours there */
    struct mem_flow *flow;              /* by host */
    uint64_t lost;                      /* hosts whose flow was lost: they get everything again */

    /* In this view. */
    bool in;                    /* member of it */
    bool learns;                /* learner */
    bool has_state;             /* as of `number`, or of skip_to if that is higher */
    uint64_t members, learners; /* of the view */
    uint64_t unready;           /* of both: whose row is not yet that of the life in the view */
    uint32_t senders;
    uint32_t index;     /* of this host among them; senders: it is none */
    uint64_t number_at; /* next number to deliver, and the same as */
    uint64_t round_at;  /* k * senders + */
    uint32_t turn_at;   /* i */
    uint64_t skip_to;   /* numbers below are in the state that was loaded */
    uint64_t received;  /* numbers below are here */
    uint64_t stable;    /* numbers below may be delivered */
    bool found,
        open; /* by presence: the lanes of the view are found here; and by all its members */
    struct source_stream source[GROUP_HOSTS_MAX]; /* by index */
    struct own_stream own;
    struct keeping *keep;        /* what goes to the disk; NULL: nothing does */
    struct restoring *restoring; /* likewise: what comes from there */
    uint32_t ahead;       /* bytes before each message in the rings, of which nobody is told */
    uint32_t small_max;   /* longest message that stands in the ring itself, without these */
    struct large *bodies; /* NULL: it has no large messages */
    bool push;            /* the row has something new that others wait for */
    bool ring;            /* others were told something, and may sleep */
    uint32_t idle;        /* rounds without work */

    /* States. */
    bool large;                       /* the last that was sent or came */
    uint8_t attempt[GROUP_HOSTS_MAX]; /* transfers begun in this view, by joiner */

    /* One that comes. */
    uint64_t load_id;    /* of the transfer; 0: none */
    uint64_t load_since; /* of a view before this vid it cannot be */
    bool loading;        /* the copy comes */
    bool loaded;         /* it has, and what follows is the feed */
    uint64_t load_taken; /* bytes of the stream */
    uint64_t load_number, load_time;
    uint64_t piece_at;  /* of the next piece this was taken */
    unsigned char *fed; /* a message of the feed, with its head, */
    uint32_t fed_at;    /* of which so much has come */

    /* Clients. */
    struct relay_entry
        *relayed; /* by place: what was delivered of it; NULL: there are no clients */
    struct relay_entry
        *relayed_begin; /* the same when the view began, where that is all of the state */
    uint64_t samples,
        samples_begin;    /* delivered in it since it was born; and when the view began */
    uint32_t subscribers; /* clients that are fed what is delivered */
    struct snap snap;     /* the state as it is sent: that, and the machine's */

    /* Of planted bugs. */
    void *early_save;
    uint64_t early_bytes, null_need;
};

enum member_phase {
    MEMBER_OUT,    /* in no view */
    MEMBER_OPEN,   /* in one */
    MEMBER_WEDGED, /* in one that ends; has reported */
    MEMBER_FINISH, /* delivers the rest of it */
    MEMBER_LEFT,   /* out, and does not want to be let in */
};

/* Words of a STATE lane. */
enum state_word {
    STATE_ID, /* whose transfer: vid, cell, joiner, and which attempt (state_id); 0: none. Set behind BASE, cleared before the ring is used again */
    STATE_BASE,  /* position at which it begins */
    STATE_GUARD, /* bytes up to this position are there */
    STATE_WORDS,
};

/* The state that is being sent: one at a time. */
struct sending {
    bool active, saved; /* saved: all of the copy is in the ring */
    uint64_t ask_ns;    /* when to ask (again) for a view in which the joiner is a member */
    uint32_t cell, joiner, attempt;
    uint64_t vid;                 /* in which it began */
    uint64_t base, copy_end, end; /* positions in the ring */
    uint64_t taken;               /* bytes of it, by the joiner; */
    uint64_t near_ns;  /* since when it lacks less than half a ring; UINT64_MAX: it does not */
    uint64_t moved_ns; /* when there was last something new of that */
    uint64_t feed_head, feed_tail; /* positions in the backlog */
    void *save;
    struct mem_flow flow;
};

struct member {
    struct member_options opt; /* keepers and cell are copies */
    uint32_t keepers[GROUP_KEEPERS_MAX];
    struct mem *mem;
    struct keeper *keeper;
    struct table *top;
    struct cell *cell;
    struct cell_options *cell_options; /* of all cells; the keeper's */
    struct cell_layout *layout;
    struct log_budget own_budget, *budget;
    const char *broken;

    enum member_phase phase;
    uint64_t life; /* TOP_LIFE, once that is told: 0 before */
    bool told_life;
    uint64_t open_ns,
        known_ns;       /* of the first round, and when it is looked next whether it may be told */
    uint64_t disk_made; /* the life in which the disk was new */
    bool untold;        /* the keepers do not know yet what the disk has */
    uint64_t found_reach[GROUP_CELLS_MAX];
    struct view *view; /* the one that was begun; vid 0 if none */
    struct view *next; /* while that one is finished: what follows */
    bool leaving;
    uint64_t relayout_after;    /* a view beyond this one is asked for; 0: none */
    uint64_t relayout_ns;       /* when that is said again */
    uint64_t torn;              /* members of the view whose streams have what no member writes */
    struct cell_report *report; /* by cell */

    /* Signs of life, by host. */
    uint64_t beat[GROUP_HOSTS_MAX], heard_ns[GROUP_HOSTS_MAX], reached_ns[GROUP_HOSTS_MAX];
    uint64_t busy[GROUP_HOSTS_MAX];          /* its word, */
    uint64_t busy_since_ns[GROUP_HOSTS_MAX]; /* when that changed, */
    uint64_t busy_ns[GROUP_HOSTS_MAX];       /* and when it was last busy */
    uint64_t settled_ns;                     /* time of the last settle */
    uint64_t beat_ns;                        /* when the own one is due */
    uint32_t beats;                          /* made */
    uint64_t look_ns;                        /* when the others' are looked at next */
    uint64_t member_look_ns; /* when it is looked whether members of the view have died, besides */
    uint32_t dead_hosts;     /* as the memory counted them */
    uint32_t rounds;
    uint64_t look_post_ns,
        look_settle_ns;      /* when it was last looked at what is not about messages */
    uint64_t wall_ns, clock; /* beside settled_ns; and the highest time that it has given or seen */
    const char *why_left;
    bool reported; /* on the view that it has wedged */
    bool looked;   /* in the last settle */
    bool worked;   /* some cell had something to do in the last round */
    bool ring;     /* something has changed that wakes all hosts */

    /* States in transit. */
    struct mem_lane *state_in[GROUP_HOSTS_MAX], *state_out[GROUP_HOSTS_MAX];
    unsigned char *piece; /* for one, with its head */
    uint32_t piece_bytes;
    uint32_t snap_bytes;
    unsigned char *backlog; /* of the feed: what is delivered and not yet sent */
    uint64_t backlog_bytes;
    struct sending sending;
    struct asks asks;
    const struct state_ops *state; /* of cells, as it is sent; NULL: they have none */
    struct relays *relays;         /* NULL: there are no clients */
    struct rdmc *rdmc;             /* NULL: no bodies are sent */
    uint32_t busy_rounds;          /* since it has said that it is; 0: it is not */

    struct member_counts count;
};

/* ---- stream.c: the own stream ---- */

/* Position of the record whose payload is there, and the payload of the record at a position. */
uint64_t own_position(const struct cell *, const void *payload);
void *own_room(const struct cell *, uint64_t pos);
/* Shared memory: somebody who is out of the cell may be reading in one of the rings. */
bool own_has_readers(struct cell *);

/* As member_reserve and the others. */
void *own_reserve(struct cell *, uint32_t bytes);
void own_commit(struct cell *, void *room, uint32_t bytes);
void own_commit_kind(struct cell *, void *room, uint32_t bytes, uint32_t kind);
void own_release(struct cell *, void *room);

/* Puts ready records and nulls into the order of the view, and tells all members; 1 if there were any. */
int own_publish(struct cell *);
/* What all members have delivered may be written over. */
void own_free(struct cell *);
/* Sends everything that is not free to who lost a connection. */
void own_resend(struct cell *);

/* On shared memory, before the view changes: these hosts do not go on in the cell, and may be reading the own stream as of now. */
void own_readers(struct cell *, uint64_t hosts);
/* Makes the stream one of the view `now`; `was`: this host was a sender of the cell before, with that index. The cell is still
 * what it was. */
void own_begin(struct cell *, const struct view *now, bool was, uint32_t index);
/* Tells all members of the new view, when the cell is what it is now. */
void own_tell_begin(struct cell *);
/* Nobody will deliver what is beyond the trim: gives it back. */
void own_return(struct cell *, uint64_t trim);
/* This host is in no view any more: everything that was not delivered is given up. */
void own_reset(struct cell *);

/* ---- cell.c: a cell's rounds ---- */

int cell_open(struct member *, uint32_t number, struct err *);
void cell_close(struct cell *);
int cell_post(struct cell *);
int cell_settle(struct cell *);
/* Notes what every sender has given, for the last time in this view. */
void cell_wedge(struct cell *);
/* Delivers what is left of the view up to the trims; true: all of it. */
bool cell_finish(struct cell *);
void cell_begin(struct cell *, const struct view *before, const struct view *now);
void cell_reset(struct cell *);
/* A word of a host's row, as the life has it that is in the view; else 0. */
uint64_t cell_word(const struct cell *, uint32_t host, enum cell_word);
/* The same, if it is of this view: its count; else 0. */
uint64_t cell_count(const struct cell *, uint32_t host, enum cell_word);
void cell_set(struct cell *, enum cell_word, uint64_t value);
/* Tells others what was set. */
void cell_push(struct cell *, bool whole);
const char *cell_check(const struct cell *);

/* Adds the record to a batch that is delivered by cell_upcall. */
struct batch {
    struct member_item item[MEMBER_ITEMS_MAX];
    uint32_t count;
    uint32_t kinds; /* of all of them */
    uint64_t bytes;
};
/* The sender's record of that index, and how many bytes it has; NULL: it is a null. */
const struct record *cell_record(const struct cell *, struct source_stream *, uint64_t index,
                                 uint32_t *bytes);
static inline void cell_item(struct batch *b, const struct record *r, uint32_t bytes,
                             uint32_t sender, uint64_t number, uint32_t ahead)
{
    b->item[b->count++] = (struct member_item){.data = (const unsigned char *)(r + 1) + ahead,
                                               .bytes = bytes > ahead ? bytes - ahead : 0,
                                               .sender = sender,
                                               .number = number,
                                               .kind = r->flags & RECORD_KINDS};
    b->kinds |= r->flags & RECORD_KINDS;
    b->bytes += record_size(bytes);
}
void cell_upcall(struct cell *, const struct batch *);

/* Has the lane of the life which is in the view been found? */
bool source_find(const struct cell *, struct source_stream *);

/* ---- stable.c: what may be delivered ---- */

/* As soon as it is here; else when all members have received it. */
bool stable_by_presence(const struct cell *);
/* Says that this host has found the lanes of the view, and looks whether all have. */
void stable_open(struct cell *);
/* This host delivers nothing more in its view: what it finds from now on is all that anybody delivers who does not see that. */
void stable_close(struct member *);
void stable_find(struct cell *);

/* ---- raw.c: cells without a common order ---- */

int raw_deliver(struct cell *);
bool raw_finish(struct cell *);
/* How many messages of this host all members have delivered in this view; false: somebody has not begun it. */
bool raw_all_delivered(const struct cell *, uint64_t *below);
/* What goes on from a view to the next, by host: how many messages beyond the trim were delivered already. */
void raw_ahead(const struct cell *, const struct view *before, const struct view *now,
               uint64_t ahead[GROUP_HOSTS_MAX]);
/* The row of the new view. */
void raw_begin(struct cell *, uint64_t vid, const uint64_t ahead[GROUP_HOSTS_MAX]);

/* ---- keeping.c: what goes to the disk ---- */

int kept_open(struct cell *, struct err *);
void kept_close(struct cell *);
/* Most that a call of the machine's has, as it stands in the log. */
uint32_t kept_bytes(const struct cell_options *);
/* The clock of a message that is published now. */
void kept_stamp(struct cell *, struct record *);
/* Appends what was received, and tells what is on the disk. Returns work done. */
int kept_settle(struct cell *);
/* Numbers below are on this member's disk. */
uint64_t kept_persisted(const struct cell *);
/* There is room for what may be delivered now. */
bool kept_takes(struct cell *);
/* What is about to be delivered; and up to where it was. */
void kept_delivered(struct cell *, const struct batch *);
void kept_delivered_to(struct cell *);
/* Of the last message delivered; and of a state that was loaded. */
uint64_t kept_time(const struct cell *);
void kept_learnt(struct cell *, uint64_t time);
/* The view ends: all that was received in order goes to the disk before it is reported; what is beyond the trim does not count. */
void kept_wedge(struct cell *);
bool kept_flushed(struct cell *);
void kept_report(const struct cell *, struct cell_report *);
/* False: not yet. */
bool kept_finish(struct cell *, uint64_t limit);
void kept_begin(struct cell *, uint64_t vid, bool had);
/* The log was read, and is cut. */
void kept_restored(struct cell *, uint64_t time);

/* ---- restore.c: what comes from the disk ---- */

int restore_open(struct member *, struct err *);
int restore_cell_open(struct cell *, struct err *);
/* Ends a save that is under way. */
void restore_stop(struct cell *);
void restore_close(struct cell *);
/* Tells the keepers what this host's disk has: in no view, whenever its life begins. */
void restore_tell(struct member *);
/* A state was sent to this host; and it is in its log, as far as it has to be. */
void restore_came(struct cell *);
bool restore_written(struct cell *);
bool restore_saves(const struct cell *); /* the machine is being saved for that, or */
/* for this: old segments of the log go once the state is in later ones. Between deliveries; returns work done. */
int restore_retain(struct cell *);
/* The cell goes on from this host's disk, and it has not been read yet; a step of that. */
bool restore_reads(const struct cell *);
int restore_read(struct cell *);
void restore_begin(struct cell *, const struct view *now, bool had);
void restore_reset(struct cell *);

/* ---- member.c ---- */

void member_relayout_again(struct member *);
/* What the machine is about to do may take long: that is told in one round, and done in a later one. False: not yet. */
bool member_has_told_busy(struct member *);
void member_set_busy(struct member *, bool);
/* It has done nothing that can be seen since `last_ns`, for longer than it may: what it does while it is busy cannot be. */
bool member_is_late(const struct member *, uint32_t host, uint64_t last_ns, uint64_t now_ns);

/* ---- wedge.c: from view to view ---- */

int wedge_settle(struct member *, uint64_t now_ns);
/* What is common to all ways out of a view. */
void member_stop(struct member *, const char *why);

/* ---- transfer.c: states for those who have none ---- */

int transfer_open(struct member *, struct err *);
/* Before what states are of: relays and cells. */
void transfer_close(struct member *);
int transfer_post(struct member *);
int transfer_settle(struct member *);
/* What the cell is delivering goes to who is sent its state. */
void transfer_feed(struct cell *, const struct batch *);
/* There is no room for it: the cell is not to deliver now. */
bool transfer_holds(struct cell *);
/* The host that is sent the state of the cell and is nearly up to date, plus 1; 0: none. */
uint32_t transfer_learnt(const struct cell *);
static inline bool is_feeding(const struct cell *c)
{
    return c->of->sending.active && c->of->sending.cell == c->number;
}
/* A new view begins here: what is under way goes on, or is void. */
void transfer_begin(struct member *, const struct view *before, const struct view *now);
/* In no view any more: what is under way is void. */
void transfer_end(struct member *);

/* ---- ask.c: calls and queries ---- */

int asks_open(struct member *, struct err *);
void asks_close(struct member *);
int asks_settle(struct member *);
void asks_post(struct member *);
/* A new view begins here: who is not what it was answers no more. */
void asks_begin(struct member *, const struct view *before, const struct view *now);
/* In no view any more: nobody will answer. */
void asks_end(struct member *);
/* Delivers a call; `fed`: behind a state that was sent, in a view in which nobody waits for this host's reply. */
void asks_deliver(struct cell *, uint64_t vid, const struct member_item *, bool fed);
/* A record of a member is passed over, having been delivered in a state that this host has or will have. */
void asks_passed(struct cell *, uint32_t sender, const struct record *, uint32_t bytes,
                 uint64_t number);
/* An own record will not be delivered. True: nobody else is to be told. */
bool asks_returned(struct cell *, const struct record *);

/* ---- relay.c: clients ---- */

int relays_open(struct member *, struct err *);
void relays_close(struct member *);
/* A client has come that writes this lane. */
int relays_client_open(struct member *, const struct mem_lane_spec *, struct err *);
int relays_settle(struct member *);
void relays_post(struct member *);
/* A new view has begun here, in all cells. */
void relays_begin(struct member *);
/* In no view any more. */
void relays_end(struct member *);
/* The cell is new: nothing was delivered there. */
void relays_born(struct cell *);
/* As asks_returned, of a client's message. */
/* A version comes from the own disk; false: it is of a retry, which nobody is told of. And all that count have. */
bool relays_restore(struct cell *, const struct version *);
void relays_restored(struct cell *);
bool relays_returned(struct cell *, const struct record *);
/* Delivers items of no kind. */
void cell_deliver_plain(struct cell *, uint64_t vid, const struct member_item *, uint32_t count);
/* Delivers items of any kind; `fed` as in asks_deliver. */
void cell_deliver(struct cell *, uint64_t vid, const struct member_item *, uint32_t count,
                  bool fed);

/* What was just delivered to the machine is counted, and goes to clients that have subscribed. */
void feed_items(struct cell *, uint64_t vid, const struct member_item *, uint32_t count);

/* Of a cell's state, for calls of m->state. */
static inline void *cell_state_ctx(struct member *m, uint32_t cell)
{
    if (m->relays)
        return &m->cell[cell].snap;
    return m->opt.machine->state_ctx ? m->opt.machine->state_ctx(m->opt.ctx, cell) : m->opt.ctx;
}

/* Its state is nothing but what it has of clients: it is that of the view's begin, and goes with the view. */
static inline bool is_stateless(const struct member *m)
{
    return m->opt.machine->state == NULL;
}

/* ---- planted.c: mistakes of more than a line ---- */

bool planted_majority_delivered(const struct cell *, uint64_t *below);
void planted_new_first(struct cell *);
uint64_t planted_one_null(struct cell *, uint64_t need);
const struct record *planted_record_looks(const unsigned char *ring, uint64_t mask, uint64_t pos,
                                          uint64_t want, uint32_t *bytes);
void planted_next_life_early(struct cell *);
void planted_report_early(struct member *);
void planted_copy_early(struct member *);
void planted_copy_end(struct member *);
void *planted_copy(struct member *, uint32_t cell, uint64_t *bytes);

/* ---- */

/* The longest message of the cell. */
static inline uint32_t message_most(const struct cell *c)
{
    return c->opt.large_max ? c->opt.large_max : c->opt.message_max - c->ahead;
}

static inline bool is_in_view(const struct member *m)
{
    return m->phase == MEMBER_OPEN || m->phase == MEMBER_WEDGED || m->phase == MEMBER_FINISH;
}

/* The process's life in the memory, of a life. */
static inline uint32_t life_process(uint64_t life)
{
    return (uint32_t)(life >> 16) - 1;
}

#endif
