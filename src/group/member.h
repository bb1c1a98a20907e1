/* A member of a group with views: a host's part of everything that its group does.
 *
 * Members send messages to the cells that they are in; all members of a cell deliver the same ones in the same order, in the same view.
 * Members come, leave, die and are put out; each time there is a new view, and those who go from one view to the next have delivered the same
 * in the one that ended: virtual synchrony. What anybody delivered, also one who then died or was put out, everybody delivers who goes on
 * to the next view (uniform). Who was put out has delivered a prefix of that.
 *
 * A struct member is a unit of its host (member_unit) and belongs to the thread that polls its memory. It never blocks, reads no clock, and
 * takes no memory after member_open. All callbacks come from within settle, in that thread; sends from within them are allowed. */
#ifndef GROUP_MEMBER_H
#define GROUP_MEMBER_H

#include "group/keeper.h"
#include "group/large.h"
#include "group/versions.h"
#include "unit/state.h"
#include "unit/unit.h"

enum cell_mode {
    CELL_MEMORY,  /* delivered when all members have received it: uniform total order */
    CELL_RAW,     /* delivered as it comes: in the order of each sender, and no more */
    CELL_LOGGED,  /* as memory; what is delivered is written to a log on the disk behind that */
    CELL_DURABLE, /* delivered when it is on the disks of all members, in a log */
};

/* Stages whose batching may be turned off, to see what it does. */
enum {
    BATCH_SEND = 1,    /* publish one message a round */
    BATCH_RECEIVE = 2, /* take note of one message of each sender a round */
    BATCH_DELIVER = 4, /* one message an upcall, and one upcall a round */
    BATCH_ACK = 8,     /* push the row after each message */
};

enum { CELL_RING_BYTES = 1 << 20 };

struct cell_options {
    enum cell_mode mode;
    uint32_t ring_bytes;  /* of a sender; a power of two, at least 4 KiB; 0: 1 MiB */
    uint32_t message_max; /* bytes; 0: ring_bytes / 8, which is the most */
    bool stateless; /* who comes needs no state of it, whatever the machine has of other cells */
    bool past;      /* the machine has what was delivered last (`past`) */
    uint32_t
        deliver_bytes; /* most that is delivered in one round, so that cells take turns; 0: ring_bytes / 4 */
    bool sign;          /* its log is signed */
    uint64_t retain;    /* bytes of its log that stay at least, if the state can be saved; 0: all */
    uint32_t large_max; /* bytes of a large message; 0: there are none */
    uint32_t large_window; /* large messages of one sender under way; 0: 4 */
    enum rdmc_schedule rdmc;
    struct cell_layout layout;
};

/* A message as it is delivered: in place, good during the call. */
struct member_item {
    const void *data;
    uint32_t bytes;
    uint32_t sender; /* host */
    uint64_t
        number; /* of the message in the order of its view and cell, nulls counted: k * senders + i; raw: the sender's index */
    uint32_t kind; /* RECORD_CALL and the like; 0 where the machine sees it */
    uint32_t
        client; /* place of the client that it is from, plus 1, whose message the sender has published; 0: its own */
};

/* What a member says to what it was asked; good during the call. */
struct member_answer {
    uint32_t host;
    /* 0; ERR_AGAIN: it has not got the cell's state; ERR_LOST: it is not in the view any more; ERR_TOOBIG: its reply is longer than
     * there is room for; ERR_REFUSED: it is not in the cell, or (of a call, the own host) the call was not delivered; ERR_NOTFOUND: its
     * machine answers no queries; or what its machine said. */
    int status;
    uint64_t version; /* stamp of the view and number up to which its state has all */
    const void *data;
    uint32_t bytes;
};

enum { MEMBER_ITEMS_MAX = 64 }; /* of one call */

/* A place in what a cell has delivered: how many messages had been, since it was born, and what the machine wants to know besides. */
struct member_past {
    uint64_t number;
    uint64_t hint[2]; /* 0 at first */
};

struct member_machine {
    /* Messages of one cell, in order, of the view of that vid. That is the one which began last, but for who is on its way to the state of
     * the cell: it may be told of a view first, and then of what was delivered before that. */
    void (*deliver)(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *,
                    uint32_t count);

    /* A new view begins here, after all of the last one was delivered. NULL for `now`: this host was put out or has left: what it has of
     * the state of cells is void, and it may be let in again. `before` is NULL for who comes in. */
    void (*view)(void *ctx, const struct view *before, const struct view *now);

    /* The own message will not be delivered: this host is no sender of the cell any more, or leaves. In the order of sending. May be NULL. */
    void (*returned)(void *ctx, uint32_t cell, const void *data, uint32_t bytes);

    /* The cell is new, and its state is to be what a new one is. May be NULL. A state that is loaded replaces what is there. */
    void (*born)(void *ctx, uint32_t cell);

    /* As deliver, of one message that asks for a reply (member_call): at most `room` bytes of it; returns how many it has, which may be
     * more. NULL: it is delivered as others are, and the reply is empty. */
    uint32_t (*call)(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *,
                     void *reply, uint32_t room);
    /* A large message takes longer than a second: how far it has come, once a second, and when it is all there. May be NULL. */
    void (*progress)(void *ctx, const struct large_progress *);

    /* A member asks what this one has, in no order with messages; likewise. Negative: the status of the answer. `from` is
     * MEMBER_ANY if it is a client. May be NULL. */
    int (*query)(void *ctx, uint32_t cell, uint32_t from, const void *data, uint32_t bytes,
                 void *reply, uint32_t room);
    /* An answer to what this host asked; NULL: there are no more, and the ticket is void. May be NULL. */
    void (*answered)(void *ctx, uint64_t ticket, const struct member_answer *);

    /* Of a logged or durable cell: all versions below this one are on this member's disk. May be NULL. */
    void (*persisted)(void *ctx, uint32_t cell, uint64_t version);

    /* What is kept of the messages of a cell that were delivered, for clients that come late or are slow: the next one from that place on, or the oldest if
     * that is gone, and moves the place behind it. False: there are no more. The item is good until something is delivered. For cells with `past`. */
    bool (*past)(void *ctx, uint32_t cell, struct member_past *, uint64_t *vid,
                 struct member_item *);
    /* The number of the first that is kept of those with this version or a later one (0: of all); of the next one, if there is none. */
    uint64_t (*past_from)(void *ctx, uint32_t cell, uint64_t version);

    /* The state of a cell; ctx of its calls is what `state_ctx` gives. NULL: cells have none, and joiners need none. */
    const struct state_ops *state;
    void *(*state_ctx)(void *ctx, uint32_t cell);
};

struct member_options {
    struct mem *mem;
    uint32_t hosts; /* nodes 0 .. hosts-1 of the memory */
    uint32_t me;
    const uint32_t *keepers; /* hosts */
    uint32_t keepers_count;
    bool keepers_stay; /* as in keeper_options */
    const struct cell_options *cell;
    uint32_t cells;
    layout_fn layout; /* NULL: as the cells' options say */
    void *layout_ctx;
    bool view_majority;
    bool no_nulls;      /* for measuring: who has nothing to send holds up the others */
    uint32_t unbatched; /* BATCH_* that are off */

    uint32_t block_bytes;          /* largest block of a large message; a power of two; 0: 1 MiB */
    uint8_t rack[GROUP_HOSTS_MAX]; /* by host: which it is in */
    uint32_t snap_bytes;           /* ring for states; 0: 64 KiB */
    uint64_t
        backlog_bytes; /* for what is delivered while a state is sent, touched only then; 0: 64 MiB */
    uint32_t ask_bytes;    /* of a ring of asks or answers; a power of two; 0: 64 KiB */
    uint32_t clients;      /* places for programs that are no members (relay.h); 0: none */
    uint32_t client_node;  /* of the first of them; the others follow */
    uint32_t client_bytes; /* of a ring of requests or replies; a power of two; 0: 128 KiB */
    uint64_t heartbeat_ns; /* 0: 15 ms */
    uint64_t suspect_ns;   /* 0: 60 ms */
    uint64_t stagger_ns, detach_ns, start_ns; /* as in keeper_options; 0: the same */
    uint64_t seed;
    struct log_budget *budget; /* of the host; NULL: one of its own */
    /* What logged and durable cells keep: opened with member_log_options for each cell. Stays the caller's, who closes it after the member;
     * the member steps it. NULL: there are no such cells. */
    struct versions *versions;
    /* Then what the keepers decide is kept, too: group number 0 of this disk. Of all hosts, if of one; NULL: the last view is lost when all of them are. */
    struct disk *disk;

    const struct member_machine *machine;
    void *ctx;
};

#define MEMBER_ANY UINT32_MAX

struct member;

/* What the log of such a cell has to take: for versions_open. */
struct versions_log_options member_log_options(const struct cell_options *);
/* And that of the views. */
struct versions_log_options member_views_log_options(void);

/* ERR_INVALID says which option is wrong and what would be right. */
int member_open(const struct member_options *, struct member **, struct err *);
void member_close(struct member *);

/* It closes the member. */
struct unit member_unit(struct member *);

/* ---- sending ---- */

/* Room for a message of up to so many bytes in the own ring of the cell, in place. NULL: none now (the ring is full, this host is no
 * sender there now, or not allowed yet to write; no place for a large message is free), or more than member_message_max. Several may be open; one that is not committed delays the later ones of this sender, and nobody
 * else. All open ones are void when view() says so with NULL, and when returned() comes for the cell. */
void *member_reserve(struct member *, uint32_t cell, uint32_t bytes);

/* The message is ready, with as many bytes of what was reserved; it gets its place in the order when it is published. */
void member_commit(struct member *, uint32_t cell, void *room, uint32_t bytes);
/* It will not be sent. */
void member_release(struct member *, uint32_t cell, void *room);

/* ERR_AGAIN: not now; ERR_TOOBIG. Copies. */
int member_send(struct member *, uint32_t cell, const void *data, uint32_t bytes);

/* The longest message of the cell: large_max, or message_max if it has no large ones. */
uint32_t member_message_max(const struct member *, uint32_t cell);

/* ---- asking ---- */

/* Sends a message to the cell, as member_send, to which every member of it replies when it delivers it, with at most reply_max bytes.
 * `answered` comes for each member of the cell in the view in which it is delivered: when its reply is there, or it is known that none will come. Then
 * it comes with NULL. All of this also if this host is put out or leaves, and once for each ticket. ERR_AGAIN: not now; ERR_TOOBIG: the message, or
 * reply_max; ERR_INVALID: the cell is raw. */
int member_call(struct member *, uint32_t cell, const void *data, uint32_t bytes,
                uint32_t reply_max, uint64_t *ticket);

/* Asks one member of the cell; MEMBER_ANY: this one if it has the cell's state, else another that has. It answers once its state has all
 * up to `version` (0: at once). ERR_REFUSED: it is no member of the cell in this view; otherwise as member_call. */
int member_query(struct member *, uint32_t cell, uint32_t host, uint64_t version, const void *data,
                 uint32_t bytes, uint32_t reply_max, uint64_t *ticket);

/* Of a logged or durable cell: versions of this view below this one are on the disk of that member, as far as it has told. 0: none. */
uint64_t member_persisted(const struct member *, uint32_t cell, uint32_t host);
/* Of such a cell: the time of the last message that was delivered here; 0: it has not got its state. No message will have that time or an earlier one. */
uint64_t member_time(const struct member *, uint32_t cell);

/* Up to where this host has the cell, for `version`; 0: it has not got its state. */
uint64_t member_version(const struct member *, uint32_t cell);

/* The longest question or reply. */
uint32_t member_ask_max(const struct member *);

/* This host wants to leave: it delivers to the end of its view. view(NULL) comes when it has; it does not come in again by itself. */
void member_leave(struct member *);
bool member_left(const struct member *);
/* NULL, or why it leaves though nobody wanted that: its disk is full, or failed. */
const char *member_leaves_why(const struct member *);

/* What to add to the time of a round for ns since 1970, as this host has it: times of versions are of that. 0 before it is told. */
void member_set_wall(struct member *, uint64_t wall_ns);

/* Asks for a view with a layout computed anew; said again until there is one, whoever leads the keepers. */
void member_relayout(struct member *);

/* ---- looking ---- */

/* The view that this host has begun and not left; NULL: none. */
const struct view *member_view(const struct member *);
bool member_wedged(const struct member *); /* the view is ending */
/* Does this host have the cell's state in its view? */
bool member_has_state(const struct member *, uint32_t cell);
/* Has it got a copy of the state, and is behind: what was delivered since is under way, from others or from its disk? */
bool member_is_behind(const struct member *, uint32_t cell);

/* For traces: where in the sender's stream a message of it stands that is being delivered, or an own one that is being written. It is
 * a multiple of 16 and rises with every message of a life, over all views: so all know a message by it. */
uint64_t member_place(const struct member *, uint32_t cell, uint32_t sender, const void *data);
/* Numbers of this view from here on are delivered: those before are in the state that was loaded. */
uint64_t member_delivers_from(const struct member *, uint32_t cell);

/* Columns of users: words of the own row of the cell, which all members see. They only rise. 0 of who is not in the view. */
enum { MEMBER_COLUMNS = 16 };
void member_column_set(struct member *, uint32_t cell, uint32_t column, uint64_t value);
uint64_t member_column(const struct member *, uint32_t cell, uint32_t column, uint32_t host);
uint64_t member_column_min(const struct member *, uint32_t cell,
                           uint32_t column); /* of all members */

struct member_counts {
    uint64_t large_sent, large_delivered, blocks; /* large messages; blocks: that were sent */
    uint64_t views;                               /* begun */
    uint64_t put_out;                             /* times that this process was, alive */
    uint64_t sent, delivered, delivered_bytes, nulls;
    uint64_t trimmed;   /* messages of others or of its own that a trim cut off here */
    uint64_t restamped; /* own messages that went on to the next view */
    uint64_t returned;
    uint64_t checkpoints; /* states written into logs, so that what is before them may go */
    uint64_t restored;    /* versions that were delivered again, from the own disk */
    uint64_t
        torn; /* streams of members that had what no member writes, so that they were claimed */
    uint64_t publishes, upcalls, row_pushes; /* batches, by stage */
    uint64_t states_sent, states_loaded;
    uint64_t asked, answers; /* calls and queries of this host, and answers that it gave */
    uint64_t relayed;        /* messages of clients that this host has published */
    uint64_t unfed;          /* samples that clients had no room for */
    uint64_t
        learnt; /* of those loaded: with what was delivered meanwhile, before it was a member */
};
void member_counts(const struct member *, struct member_counts *);

/* Like log_broken. */
const char *member_broken(const struct member *);
struct keeper *member_keeper(const struct member *);

/* NULL, or which rule is broken. */
const char *member_check(const struct member *);

#endif
