/* What must hold for a group with views, one function a property (protocols.md 10.2). The first violation is kept.
 *
 * The checker holds all views, and of each cell the one true history, as the first member to deliver each message wrote it;
 * everybody else, also who dies or is put out later, is compared with that. A history belongs to a cell from the view in which it was
 * born until it is vacant; if the machine has no state, to the cell in one view. What each sender has sent is kept by the life in which it is a member, in the order in which room was
 * reserved: that is the order in which it must be delivered. */
#ifndef SIM_GROUP_CHECK_H
#define SIM_GROUP_CHECK_H

#include "group/member.h"
#include "sim/counter_machine.h"
#include "sim/group_client.h"
#include "sim/run.h"

enum { GROUP_CHECK_HOSTS_MAX = 9, GROUP_CHECK_CELLS_MAX = 4, GROUP_CHECK_BYTES_MAX = 6000 };

enum sent_state {
    SENT_OPEN,  /* room is reserved */
    SENT_READY, /* committed */
    SENT_LOST,  /* likewise, to a cell that is vacant since: perhaps nobody is left to deliver it */
    SENT_VOID,  /* released, or void with its view */
    SENT_DELIVERED,
    SENT_RETURNED,
};

struct group_sent {
    enum sent_state state;
    uint32_t bytes;
    uint64_t vid;  /* in which room was reserved; for its content */
    uint64_t born; /* of the cell, then */
};

/* What a host sends to a cell in one life. */
struct group_stream {
    uint32_t host, cell;
    uint64_t life;
    struct group_sent *sent;
    uint64_t count, max;
    uint64_t next; /* all before are delivered, returned or void */
    /* What was returned since the last view: hashes. */
    uint64_t *back;
    uint64_t backs, backs_max;
};

/* A message that is being made. */
struct group_lease {
    struct group_stream *stream;
    uint64_t index;
};

struct group_delivery {
    uint64_t vid, number, hash; /* hash: of the state behind it */
    uint32_t sender;
};

struct group_history {
    uint32_t cell;
    uint64_t born;
    struct group_delivery *delivery;
    uint64_t count, max;
    uint64_t
        *end; /* by vid: deliveries up to the end of that view, plus 1; 0: nobody has ended it */
    uint64_t end_max;
};

/* What a host has delivered of a sender in a raw cell. */
struct group_taken {
    bool known;      /* where it is in the sender's stream, */
    uint64_t next;   /* which is here */
    uint64_t number; /* of the last in this view, plus 1 */
};

/* What a host is seen to be. */
struct group_host {
    const struct view *view; /* that it has begun; NULL: none */
    uint64_t life;           /* the last one that it was let in with */
    uint64_t vid;            /* the last view, also of lives before */
    struct {
        struct counter_machine_state *state;
        struct group_stream *stream; /* of this life; NULL: nothing sent */
        bool has;                    /* the state counts */
        bool behind;     /* there is one, and what was delivered since is under way to it */
        bool restoring;  /* it comes from the own disk, with what may be in no history yet */
        uint64_t number; /* of the last delivery in this view, plus 1 */
        /* By column: what this process set; and what it saw of others in this view. */
        uint64_t column[MEMBER_COLUMNS];
        uint64_t seen[GROUP_CHECK_HOSTS_MAX][MEMBER_COLUMNS];
        struct group_taken from[GROUP_CHECK_HOSTS_MAX]; /* raw cells: by sender */
    } cell[GROUP_CHECK_CELLS_MAX];
};

struct group_check {
    struct run_result *result;
    uint64_t seed;
    uint32_t hosts, cells;
    bool view_majority;
    uint32_t raw;     /* cells without a common order: a mask */
    uint32_t durable; /* cells of which nothing is delivered that is not on all members' disks */
    uint32_t kept;    /* cells that members have on disks */
    uint64_t lost_vid
        [GROUP_CHECK_CELLS_MAX]; /* of those written behind: the last view that went on from disks */
    bool stateless;              /* the machine has no state, */
    bool tables;                 /* but members keep something of clients, which is one */
    struct view **view;          /* by vid */
    uint64_t views_max, vid_last;
    struct group_stream **stream;
    uint64_t streams, streams_max;
    struct group_history **history;
    uint64_t histories, histories_max;
    struct group_host host[GROUP_CHECK_HOSTS_MAX];
    struct group_clients clients;
};

/* The rest of group_check is set by the caller: result, seed, hosts, cells, view_majority, raw, stateless, and where the states are. */
void group_check_fini(struct group_check *);

/* ---- sending ---- */

struct group_lease group_check_reserve(struct group_check *, uint32_t host, uint32_t cell);
/* The content of the message, known to sender and checker alike: full of words that look like heads of records. */
void group_check_fill(const struct group_check *, struct group_lease, unsigned char *out,
                      uint32_t bytes);
void group_check_commit(struct group_lease, uint32_t bytes);
void group_check_release(struct group_lease);

/* ---- what members are told ---- */

/* View agreement, primary chain, same sequence, uniform: a host goes on to a view; and all its state counts at the end of the one before. */
void group_check_view(struct group_check *, uint32_t host, const struct view *before,
                      const struct view *now);
/* It is in no view any more. `left`: it has left in order, so it has delivered all, and has nothing outstanding. */
void group_check_out(struct group_check *, uint32_t host, bool left);
/* The process is no more. */
void group_check_died(struct group_check *, uint32_t host);

/* Integrity, same sequence, sender FIFO, rounds, uniform: one message. The state is changed. */
void group_check_deliver(struct group_check *, uint32_t host, uint32_t cell, uint64_t vid,
                         const struct member_item *);
/* What is delivered does not change while it is: a hash of all of it, to be compared. */
uint64_t group_check_in_place(const struct member_item *, uint32_t count);

void group_check_returned(struct group_check *, uint32_t host, uint32_t cell, const void *data,
                          uint32_t bytes);
void group_check_born(struct group_check *, uint32_t host, uint32_t cell);
/* Joiner's state: it is one of the history, and of this view unless it is `behind`. */
void group_check_loaded(struct group_check *, uint32_t host, uint32_t cell, bool good, bool behind);
/* It is said to have the state. One that was behind is not any more, and has all of the views before. */
void group_check_has(struct group_check *, uint32_t host, uint32_t cell);

/* ---- columns ---- */

void group_check_column_set(struct group_check *, uint32_t host, uint32_t cell, uint32_t column,
                            uint64_t value);
/* A host sees the value at `of`, who is in its view. */
void group_check_column(struct group_check *, uint32_t host, uint32_t cell, uint32_t column,
                        uint32_t of, uint64_t value);

/* ---- looking ---- */

/* The history that the cell has in the view; NULL: none yet. */
const struct group_history *group_check_history(const struct group_check *, const struct view *,
                                                uint32_t cell);

/* The host has delivered all that there is in the cell, as far as can be known. */
bool group_check_has_all(const struct group_check *, uint32_t host, uint32_t cell);

/* Messages that the host has committed in this life and that are neither delivered nor returned. */
uint64_t group_check_outstanding(const struct group_check *, uint32_t host);

/* ---- group_check_raw.c, and what it needs of group_check.c ---- */

static inline bool group_check_is_raw(const struct group_check *c, uint32_t cell)
{
    return c->raw >> cell & 1;
}

struct group_stream *group_check_stream(const struct group_check *, uint32_t host, uint32_t cell,
                                        uint64_t life);
/* Is it the stream's message of that index? */
bool group_check_is_message(const struct group_check *, struct group_stream *, uint64_t index,
                            const void *data, uint32_t bytes);
/* The host begins a view, being in the one before still. */
void group_check_raw_begin(struct group_check *, uint32_t host, uint32_t cell,
                           const struct view *now);
void group_check_raw_deliver(struct group_check *, uint32_t host, uint32_t cell, uint64_t vid,
                             const struct member_item *);
bool group_check_raw_has_all(const struct group_check *, uint32_t host, uint32_t cell);

/* Reports a violation; the first one stays. */
void group_check_violated(struct group_check *, const char *property, uint64_t pos, const char *fmt,
                          ...) __attribute__((format(printf, 4, 5)));

#endif
