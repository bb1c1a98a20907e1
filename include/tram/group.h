/* Tramway's groups: members that send to each other, in views.
 *
 * A cluster file with `protocol: group` has hosts and subgroups of them; each shard of a subgroup is a *cell*. A process
 * that opens a host of it is a member while it runs. Members send messages to the cells that they are in, and all members
 * of a cell deliver the same messages in the same order. Members come, leave, die and are put out; each time there is a
 * new *view* of who is there, and those who go from one view to the next have delivered the same in the one that ended.
 * What anybody delivered, also one who then died, everybody delivers who goes on.
 *
 *     tram_cluster_load("cluster.yaml", &cluster, ...)
 *     tram_group_open(cluster, &(struct tram_group_options){.host = "h1", .machine = ...}, &group, ...)
 *     int cell = tram_group_cell(group, "map", 0)
 *     while (running) { tram_group_step(group, ...); ... tram_group_send(group, cell, data, bytes, ...) }
 *     tram_group_close(group)
 *
 * Programs that are no members send to cells as clients: tram_group_client_open.
 *
 * Errors are as in tram.h. A group's handle is used by one thread at a time, which calls tram_group_step (or _poll) all
 * the time: a member that does not for suspect_ms of the cluster file is put out by the others. All callbacks come from
 * within these two and tram_group_close; they may send, set columns and look, and must not step, poll or close. */
#ifndef TRAM_GROUP_H
#define TRAM_GROUP_H

#include "tram.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TRAM_MEMBERS_MAX = 64, /* a set of hosts is a word: bit i is host i of the cluster file */
    TRAM_COLUMNS = 16,     /* of a cell */
    TRAM_WHEN_MAX = 64,    /* predicates of a group */
    TRAM_SENDERS_MAX = 64, /* handles of other threads, of a group */
};

/* ---- views ---- */

enum tram_cell_state {
    TRAM_CELL_UNBORN, /* it never had members_min members */
    TRAM_CELL_LIVES,
    TRAM_CELL_VACANT, /* nobody who is left has its state: it waits for `tram view --reset` */
};

/* A cell in a view. */
struct tram_view_cell {
    const char *subgroup; /* in the cluster file */
    uint32_t shard;       /* from 0 */
    enum tram_cell_state state;
    uint64_t members;
    uint64_t senders;      /* those of the members that may send */
    uint64_t stateful;     /* those that had its state when the view began; the others get it */
    uint64_t members_last; /* vacant: who was in it last */
    uint64_t born;         /* number of the view in which its state was new */
    uint32_t lacks;        /* members that it lacks to members_min */
};

/* Everybody who is in a view sees the same one under its number. */
struct tram_view {
    uint64_t number;  /* from 1; the next view has the next number */
    bool adequate;    /* false: a cell has fewer members than members_min, and nobody sends */
    uint64_t members; /* of the view */
    uint64_t left;    /* of the view before, who left in order: they have delivered all of it */
    uint32_t hosts;   /* of the cluster file */
    uint32_t cells;
    const char *const *host_name; /* by host */
    const uint64_t *
        life; /* by host: which life of it is the member; 0: it is none. No two are equal of one host */
    const struct tram_view_cell *cell; /* by number */
};

/* ---- what a member does ---- */

/* A message as it is delivered, good during the call. A user's own struct may be looked at in place: data is aligned to 8 bytes, here and wherever
 * there are items; others can send too, so look at `bytes` first. */
struct tram_item {
    const void *data;
    uint32_t bytes;
    uint32_t sender; /* host: its number in the cluster file, from 0; tram_view has names */
    uint64_t
        number; /* place in the order of its view and cell, which has gaps; in a raw cell, in the sender's order */
    uint32_t
        client; /* place of the client that it is from, plus 1, for which the sender has sent it; 0: the sender's own */
};

/* What a member says to what it was asked, good during the call. */
struct tram_answer {
    uint32_t host; /* its number */
    /* TRAM_OK        there is a reply
     * TRAM_LOST      the member is gone. Of a call, with the own host: this member was put out, and does not know whether it was delivered
     * TRAM_AGAIN     the member has not got the cell's state yet
     * TRAM_REFUSED   the member is not in the cell any more. Of a call, with the own host: it was not and will not be delivered
     * TRAM_TOOBIG    the reply is longer than reply_max
     * TRAM_NOTFOUND  the member's machine has no `query`; or what its query returned */
    int status;

    const void *data;
    uint32_t bytes;
    uint64_t version; /* its state had all up to here; see tram_group_version */
};

/* The state machine of all cells. In a cell whose members are to stay equal it does the same with the same deliveries: no
 * clock, no chance. Each call may be NULL. */
struct tram_group_machine {
    /* Messages of one cell, in order, all of the view of that number. */
    void (*deliver)(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *,
                    uint32_t count);

    /* A message that was sent by tram_group_call, at its place in the order: as deliver, and it makes a reply of at most `room`
     * bytes. Returns how many the reply has; more than room: the caller is told TRAM_TOOBIG. What it does to the state all members do, also
     * those whose reply nobody waits for, with room of any size. NULL: deliver comes, and the reply is empty. */
    uint32_t (*call)(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *, void *reply,
                     uint32_t room);

    /* A member, perhaps this one, or a client (`from` is TRAM_ANY_HOST then) asks by a query. It looks at what is there, and changes nothing. Returns as call; negative:
     * what the asker is told as status. NULL: TRAM_NOTFOUND. */
    int (*query)(void *ctx, uint32_t cell, uint32_t from, const void *data, uint32_t bytes,
                 void *reply, uint32_t room);

    /* An answer to tram_group_call or tram_group_query of this member. NULL: all answers have come, and the ticket is void. */
    void (*answered)(void *ctx, uint64_t ticket, const struct tram_answer *);

    /* A message above message_max takes longer than a second to come, or to be sent on: how many of its `of` bytes are here (of an own one: which
     * share of its part this member has sent), once a second, and once more when it is all. Not on shared memory, where nothing is sent. */
    void (*progress)(void *ctx, uint32_t cell, uint32_t sender, uint64_t bytes, uint64_t of);

    /* A new view begins, after all of the last one was delivered. `before` is NULL for who comes in. `now` is NULL if this
     * member was put out or has left: what it has of the state of cells is void. One that was put out is let in again by
     * itself, and gets the state anew. Both are good until the next call. */
    void (*view)(void *ctx, const struct tram_view *before, const struct tram_view *now);

    /* An own message will not be delivered, since this member does not send in the cell any more, or leaves. In the order of
     * sending. Who is put out is not told: what it had under way was delivered or not. */
    void (*returned)(void *ctx, uint32_t cell, const void *data, uint32_t bytes);

    /* The cell is new, and its state is to be as a new one is. */
    void (*born)(void *ctx, uint32_t cell);

    /* Of a cell whose subgroup has mode: logged or durable: all its versions below this one are on this member's disk. A version is the view's number
     * times 2^40, plus the message's number in it; versions rise over views. Once more of a view that begins. */
    void (*persisted)(void *ctx, uint32_t cell, uint64_t version);

    /* The state of a cell, for members that come: as in struct tram_machine of tram.h, with cells for groups. Either the
     * pair for small states, or all six for others, or none of them: cells have no state, and who comes needs none. A
     * state that is loaded replaces what is there. Raw cells have none in any case. */
    int (*save)(void *ctx, uint32_t cell, void **data, size_t *bytes);
    int (*load)(void *ctx, uint32_t cell, const void *data, size_t bytes);
    void *(*save_open)(void *ctx, uint32_t cell, uint64_t *bytes);
    int (*save_next)(void *ctx, uint32_t cell, void *save, void *out, uint32_t room);
    void (*save_close)(void *ctx, uint32_t cell, void *save);
    int (*load_open)(void *ctx, uint32_t cell, uint64_t bytes);
    int (*load_next)(void *ctx, uint32_t cell, const void *data, uint32_t bytes);
    int (*load_close)(void *ctx, uint32_t cell, bool whole);
};

/* Who goes into which cell of the next view, to be filled by a layout callback. */
struct tram_layout_cell {
    enum tram_cell_state state; /* given */
    uint64_t stateful; /* given: who goes on and has its state; at least one of them stays */
    uint64_t members, senders; /* to be set; empty at first */
};

struct tram_layout {
    uint64_t members; /* given: who is in the next view */
    uint32_t cells;
    struct tram_layout_cell *cell;
};

enum tram_wait {
    TRAM_WAIT_FILE, /* as the cluster file says */
    TRAM_WAIT_AUTO, /* spin, then sleep */
    TRAM_WAIT_SPIN,
    TRAM_WAIT_SLEEP,
};

/* All zero but `host`: a member that does nothing. */
struct tram_group_options {
    const char *host; /* in the cluster file */
    struct tram_group_machine machine;
    void *ctx; /* of its calls */

    /* Who goes into which cell, instead of what the cluster file says; only the member that leads the keepers is asked, so
     * members need not agree on it. What it does against the cluster file (hosts, members_max) is put right. NULL:
     * who is there stays, and the rest is filled by the order of hosts. */
    void (*layout)(void *ctx, const struct tram_view *before, struct tram_layout *next);
    void *layout_ctx;

    enum tram_wait wait;
    uint32_t leave_ms; /* how long tram_group_close waits until it has left; 0: 2000 */
    /* Write what is sent and delivered there, for `tram check`; NULL: do not. A disk that is full later ends the trace,
     * with a warning, not the member. */
    const char *trace_dir;
    struct tram_log log; /* zeroed: the cluster's */
};

struct tram_group;

/* Becomes the host, and a member as soon as the others let it in, which the view callback tells. TRAM_EXISTS: another
 * process is this host. TRAM_INVALID: the cluster's protocol is not group. TRAM_NOTFOUND: something of the group is kept on disks, and the
 * host has no directory yet (tram format, or tram_host_format). */
TRAM_API int tram_group_open(const struct tram_cluster *, const struct tram_group_options *,
                             struct tram_group **, struct tram_error *);

/* Leaves, so that the others need not wait for it: delivers to the end of the view, bounded by leave_ms. Then it closes. Whoever
 * is the last to have the state of a cell takes it along: the cell is vacant then. NULL is allowed. */
TRAM_API void tram_group_close(struct tram_group *);

/* Leaves, and goes on: the view callback comes with NULL for `now`, and tram_group_has_left is true from then on. Whoever waits for that sets a
 * limit: where keepers were killed, or over a network have ended, nobody may be left who can let it go. */
TRAM_API void tram_group_leave(struct tram_group *);
TRAM_API bool tram_group_has_left(const struct tram_group *);

/* As tram_host_step, _poll, _fd and _wake of tram.h. What was sent leaves with the next step or poll: with _fd, poll after
 * sending. Negative: it cannot go on and is to be closed. TRAM_DATA_LOST: so many keepers were killed at once, before others took their place, that nobody knows the
 * views any more. TRAM_BROKEN: a call that saves or loads has failed, or a rule is broken. TRAM_REFUSED: the others do not
 * take it. */
TRAM_API int tram_group_step(struct tram_group *, struct tram_error *);
TRAM_API int tram_group_poll(struct tram_group *, struct tram_error *);
TRAM_API int tram_group_fd(struct tram_group *, struct tram_error *);
TRAM_API void tram_group_wake(struct tram_group *);

/* ---- what is kept ---- */

/* A message of a cell whose subgroup has mode: logged or durable, as it stands on a disk. Good during the call. */
struct tram_version {
    uint64_t version; /* the view's number times 2^40, plus the message's number in it */
    uint64_t time_ns; /* since 1970; rises with each message, and is the same at all members */
    uint32_t sender;  /* host */
    uint32_t bytes;
    const void *data;
};

/* Reads what a host of this machine has on its disk of a cell ("s1"; "map/2" is a shard), in order, from the first whose version and time are not below these;
 * 0, 0: all. The host may run: then up to what is on its disk. Any thread; it waits for the disk. fn returns 0 to go on; what else it returns ends it, and is returned.
 * TRAM_BROKEN: the files are damaged, and the text says where; TRAM_NOTFOUND: there is no such host, cell or directory. */
TRAM_API int tram_versions_read(const struct tram_cluster *, const char *host, const char *cell,
                                uint64_t version, uint64_t time_ns,
                                int (*fn)(void *ctx, const struct tram_version *), void *ctx,
                                struct tram_error *);

/* ---- sending ---- */

/* The number of a cell, or TRAM_NOTFOUND. It is the same at all hosts and in all views. */
TRAM_API int tram_group_cell(const struct tram_group *, const char *subgroup, uint32_t shard);

/* Sends a copy. 0: it will be delivered in the cell, to this member too, or come back by `returned`, or this member is put
 * out.
 *   TRAM_AGAIN    not now: the own ring is full, or no view lets it send (none yet, it ends, or it is not adequate). Step,
 *                 then try again
 *   TRAM_REFUSED  this host is no sender of the cell in the present view, or no member of it: the view says who is
 *   TRAM_TOOBIG   more than message_max of the subgroup, and than large_max if it has that
 * A message above message_max, which large_max allows, is sent in blocks that members pass on, and delivered as others are: whole, at its place in
 * the order. A sender has at most large_window of them under way in a cell; then TRAM_AGAIN. */
TRAM_API int tram_group_send(struct tram_group *, uint32_t cell, const void *data, uint32_t bytes,
                             struct tram_error *);

/* The same without a copy: room for a message of up to so many bytes, to be written in place and committed with as many
 * bytes of it as are used, or released unsent. NULL where tram_group_send would fail. Several may be open; one that is
 * not committed holds up the later ones of this sender in the cell, and nobody else. All are void when the view callback
 * comes with NULL for `now`, and when `returned` comes for the cell. */
TRAM_API void *tram_reserve(struct tram_group *, uint32_t cell, uint32_t bytes);
TRAM_API void tram_commit(struct tram_group *, uint32_t cell, void *room, uint32_t bytes);
TRAM_API void tram_release(struct tram_group *, uint32_t cell, void *room);

/* ---- sending from another thread ---- */

/* A handle through which one other thread sends to a cell, whatever the group's thread does meanwhile. Any number of threads may each have one
 * of their own, up to TRAM_SENDERS_MAX; messages of one handle are delivered in the order in which they were reserved, and in none with
 * those of other handles and of tram_group_send.
 *
 * The handle has a ring. What is committed there waits until the group's thread takes it, in its next round, and sends it as
 * tram_group_send would, with a copy; it gets its place in the order no earlier. If that thread sleeps it is woken; else neither side
 * makes a system call or takes a lock. While the host may not send (no view, one that ends or is not adequate, one in which it is no sender
 * of the cell) messages wait; what was taken and will not be delivered comes by `returned`, as ever. */
struct tram_sender;

/* Opened and closed in the group's thread. ring_bytes: a power of two, at least eight times the cell's message_max; 0: as the cell's
 * ring_bytes. TRAM_NOTFOUND: no such cell. TRAM_REFUSED: this host may never send in it, by the cluster file. */
TRAM_API int tram_sender_open(struct tram_group *, uint32_t cell, uint32_t ring_bytes,
                              struct tram_sender **, struct tram_error *);

/* When the other thread has called it for the last time. What was committed and not taken comes by `returned`. tram_group_close closes
 * all that are open. NULL is allowed. */
TRAM_API void tram_sender_close(struct tram_sender *);

/* In the other thread: as tram_reserve, tram_commit and tram_release, but that leases stay good whatever happens to views. NULL: the handle's
 * ring is full, or it is more than message_max. A lease that is open delays the later ones of this handle alone. */
TRAM_API void *tram_sender_reserve(struct tram_sender *, uint32_t bytes);
TRAM_API void tram_sender_commit(struct tram_sender *, void *room, uint32_t bytes);
TRAM_API void tram_sender_release(struct tram_sender *, void *room);

/* Likewise, a copy. TRAM_AGAIN: the ring is full; TRAM_TOOBIG. */
TRAM_API int tram_sender_send(struct tram_sender *, const void *data, uint32_t bytes,
                              struct tram_error *);

/* Bytes of the ring that are not taken yet. 0: everything was sent. */
TRAM_API uint64_t tram_sender_waiting(const struct tram_sender *);

/* ---- asking ---- */

#define TRAM_ANY_HOST UINT32_MAX

/* Sends a message as tram_group_send does, to which each member of the cell replies when it delivers it (`call` of the machine), with at most
 * reply_max bytes. `answered` comes for every member of the cell in the view in which it is delivered: with its reply, or as soon as none can come
 * any more. Then it comes with NULL; always, and once. Replies are of one place in the order: of equal states. At most 64 calls and queries are
 * under way, and as many bytes of replies as tram_group_ask_max has four times.
 *   TRAM_AGAIN, TRAM_REFUSED, TRAM_TOOBIG   as tram_group_send; or too many under way, reply_max larger than tram_group_ask_max
 *   TRAM_INVALID                            the cell is raw, and has no order */
TRAM_API int tram_group_call(struct tram_group *, uint32_t cell, const void *data, uint32_t bytes,
                             uint32_t reply_max, uint64_t *ticket, struct tram_error *);

/* Asks one member of the cell (`query` of its machine), in no order with messages. TRAM_ANY_HOST: this one if it has the cell's state, else another
 * that has. The member answers when its state has all up to `version`; 0: at once. With tram_group_version of this member it answers when it
 * has delivered what this one has. TRAM_REFUSED: that host is not a member of the cell. */
TRAM_API int tram_group_query(struct tram_group *, uint32_t cell, uint32_t host, uint64_t version,
                              const void *data, uint32_t bytes, uint32_t reply_max,
                              uint64_t *ticket, struct tram_error *);

/* How far this member is in the order of the cell: versions rise, and are the same at all members. 0: it has not got its state. */
TRAM_API uint64_t tram_group_version(const struct tram_group *, uint32_t cell);

/* Of a cell that is kept: how far it is in time, as that of the last message that this member has delivered (struct tram_version). Times rise with each message, so
 * it has all that there is or will be of times up to this one; a query for a time has its last answer once this is not below it. In a
 * cell in which nobody sends it stands still: who cannot wait sends something. 0: nothing yet, or the cell is not kept. */
TRAM_API uint64_t tram_group_time(const struct tram_group *, uint32_t cell);

/* The longest question, and the longest reply. */
TRAM_API uint32_t tram_group_ask_max(const struct tram_group *);

/* Of a cell that is kept: up to which version a member's disk has all, as far as this one knows; 0: nothing in this view. */
TRAM_API uint64_t tram_group_persisted(const struct tram_group *, uint32_t cell, uint32_t host);

/* The largest message of a cell: large_max of its subgroup, or message_max if it has no large ones. */
TRAM_API uint32_t tram_group_message_max(const struct tram_group *, uint32_t cell);

/* ---- clients: programs that are no members ---- */

/* A client sends to cells, and asks members. It needs no view and is waited for by nobody. Members send for it: for each cell it goes to one
 * that may send there, and when that is gone, put out, no sender any more or silent, to another one, with all that it does not know to be
 * delivered. Each message is delivered once for all that, and those to one cell in the order in which they were sent. When a client ends
 * what it had under way is delivered or not. It is used by one thread at a time, but for _wake. */
struct tram_group_client_options {
    /* What became of a ticket, once for each, good during the call. Comes from _poll and _wait; it may send and ask.
     * TRAM_OK        a message: `host` has delivered it, and all who go on will. A call: likewise, and here is that host's reply. A query: its answer
     * TRAM_LOST      a call was delivered, and the reply is gone with the member that had made it
     * TRAM_TOOBIG, TRAM_NOTFOUND and what a query returned   as in struct tram_answer */
    void (*done)(void *ctx, uint64_t ticket, const struct tram_answer *);
    void *ctx;
    uint32_t retry_ms;   /* how long a member may be silent before another one is tried; 0: 250 */
    struct tram_log log; /* zeroed: the cluster's */
};

struct tram_group_client;

/* Takes one of the places for clients (`clients` of the cluster file); over a network with a client's key. Members need not be there yet.
 * TRAM_EXISTS: all places are taken. TRAM_INVALID: the cluster's protocol is not group. */
TRAM_API int tram_group_client_open(const struct tram_cluster *,
                                    const struct tram_group_client_options *,
                                    struct tram_group_client **, struct tram_error *);
TRAM_API void tram_group_client_close(struct tram_group_client *); /* NULL is allowed */

/* As tram_group_cell. */
TRAM_API int tram_group_client_cell(const struct tram_group_client *, const char *subgroup,
                                    uint32_t shard);

/* Has the message sent to the cell, and returns at once; `done` says what became of it. It leaves with the next poll. TRAM_AGAIN: too much is under way to
 * this cell (512 messages or 128 KiB; less where other cells have as much): poll, then try again; the text says so if no member is there. TRAM_TOOBIG: more than tram_group_client_message_max. */
TRAM_API int tram_group_client_send(struct tram_group_client *, uint32_t cell, const void *data,
                                    uint32_t bytes, uint64_t *ticket, struct tram_error *);
/* Likewise, and the member that has sent it gives its reply (`call` of its machine). TRAM_INVALID: the cell is raw. */
TRAM_API int tram_group_client_call(struct tram_group_client *, uint32_t cell, const void *data,
                                    uint32_t bytes, uint32_t reply_max, uint64_t *ticket,
                                    struct tram_error *);
/* Asks a member of the cell, which answers once its state has all up to `version` (of an earlier answer; 0: at once). */
TRAM_API int tram_group_client_query(struct tram_group_client *, uint32_t cell, uint64_t version,
                                     const void *data, uint32_t bytes, uint32_t reply_max,
                                     uint64_t *ticket, struct tram_error *);

/* Sends what is to be sent, and takes what has come. Returns how many tickets are done. TRAM_REFUSED: nothing will be any more, since the hosts
 * were stopped, all of them; close the client, and open a new one. */
TRAM_API int tram_group_client_poll(struct tram_group_client *, struct tram_error *);
/* The same, and waits up to timeout_ns until something is done. */
TRAM_API int tram_group_client_wait(struct tram_group_client *, uint64_t timeout_ns,
                                    struct tram_error *);
/* As tram_client_fd and _wake of tram.h: poll when it is readable, until that returns 0, and after sending. */
TRAM_API int tram_group_client_fd(struct tram_group_client *, struct tram_error *);
TRAM_API void tram_group_client_wake(struct tram_group_client *);

/* How many tickets are not done. */
TRAM_API uint32_t tram_group_client_outstanding(const struct tram_group_client *);
/* NULL, or a sentence: something waits for the cell, and no member is there that takes it. It is tried on and on. Good until the next call. */
TRAM_API const char *tram_group_client_waits(struct tram_group_client *, uint32_t cell);
/* The longest message to the cell; the longest reply. */
TRAM_API uint32_t tram_group_client_message_max(const struct tram_group_client *, uint32_t cell);
TRAM_API uint32_t tram_group_client_ask_max(const struct tram_group_client *);

/* ---- looking ---- */

/* The present view; NULL: this host is in none. Good until the next step. */
TRAM_API const struct tram_view *tram_group_view(const struct tram_group *);

/* Does this member have the cell's state, and deliver? */
TRAM_API bool tram_group_has_state(const struct tram_group *, uint32_t cell);

/* NULL, or for what the next view or sending waits, as a sentence for people: keepers know most. Good until the next step
 * or call. */
TRAM_API const char *tram_group_waits(struct tram_group *);

/* Asks for a new view, with the layout computed anew. */
TRAM_API void tram_group_relayout(struct tram_group *);

/* A vacant cell begins anew in the next view, empty. TRAM_AGAIN: only the host that leads the keepers can, and this is
 * another one, or it is busy. TRAM_INVALID: the cell is not vacant. */
TRAM_API int tram_group_reset_cell(struct tram_group *, uint32_t cell, struct tram_error *);

struct tram_group_counts {
    uint64_t views;   /* begun */
    uint64_t put_out; /* times that this process was, alive */
    uint64_t sent, delivered, delivered_bytes;
    uint64_t nulls;     /* places in the order that had no message */
    uint64_t trimmed;   /* messages beyond the end of a view */
    uint64_t restamped; /* own messages that went on to the next view */
    uint64_t returned;
    uint64_t publishes, upcalls, row_pushes; /* batches, by stage */
    uint64_t states_sent, states_loaded;
};
TRAM_API void tram_group_counts(const struct tram_group *, struct tram_group_counts *);

/* ---- columns ---- */

/* A cell has a table: a row of TRAM_COLUMNS words for each member, which its member writes and all read. In a member's life
 * they only rise (a lower value is ignored); a row is seen by the others soon, in no order with messages. */
TRAM_API void tram_column_set(struct tram_group *, uint32_t cell, uint32_t column, uint64_t value);
/* 0 of who is not in the cell. */
TRAM_API uint64_t tram_column_get(const struct tram_group *, uint32_t cell, uint32_t column,
                                  uint32_t host);
/* The least of all members of the cell; 0 if this host is none. */
TRAM_API uint64_t tram_column_min(const struct tram_group *, uint32_t cell, uint32_t column);

enum tram_when_kind {
    TRAM_ONCE, /* when the test is first true; then the predicate is over */
    TRAM_EACH, /* in every round in which it is true */
    TRAM_EDGE, /* when it turns true */
};

/* Tested in every round, by looking at columns, the view or whatever the caller has. */
struct tram_predicate {
    enum tram_when_kind kind;
    bool (*test)(const struct tram_group *, void *ctx);
    void (*act)(struct tram_group *, void *ctx);
    void *ctx;
};

/* Adds it; returns its number, or TRAM_NOMEM if there are TRAM_WHEN_MAX. */
TRAM_API int tram_when(struct tram_group *, const struct tram_predicate *, struct tram_error *);
/* Removes it, also from within its own act. */
TRAM_API void tram_when_end(struct tram_group *, int number);

#ifdef __cplusplus
}
#endif
#endif
