/* Traces: what clients multicast and replicas delivered, one JSON object a line.
 *
 *     {"ev":"format","version":1}
 *     {"ev":"cast","client":"c1","id":"c1:17","dst":["g1","g3"]}
 *     {"ev":"start","group":"g1","replica":"h2","inc":1,"n":40}
 *     {"ev":"deliver","group":"g1","replica":"h2","inc":1,"n":41,"id":"c1:17","dst":["g1","g3"]}
 *     {"ev":"done","client":"c1","id":"c1:17"}
 *     {"ev":"gap"}
 *
 * and, of the members of a group with views,
 *
 *     {"ev":"view","member":"h2","inc":0,"vid":7,"members":["h1","h2"]}
 *     {"ev":"start","cell":"orders","member":"h2","inc":0,"vid":7,"n":0}
 *     {"ev":"deliver","cell":"orders","member":"h2","inc":0,"vid":7,"n":12,"id":"h1.1:17.805"}
 *     {"ev":"deliver","cell":"prices","member":"h2","inc":0,"vid":7,"id":"h1.1:33.91"}
 *     {"ev":"out","member":"h2","inc":0,"vid":7}
 *
 * where n is the number of a message in the order of its view and cell, and `start` says from which number on the member delivers there in
 * that view: 0 if it has the cell's state when the view begins, else what the state that it loaded holds. A raw cell has no common
 * order: its deliveries have no n. `out`: the member has left or was put out, and has no part in the next view but as a new one. Who sends
 * casts as a client of its name and life, with the cell as destination; the numbers of its messages rise in each cell, with gaps. What may
 * follow the number is a checksum of the content.
 *
 * `format` says how what follows is to be read, up to the next one: each process that writes to a file begins with it, since it
 * may be of another version than the last. Without it the version is 1. A reader refuses a later one than it knows.
 *
 * A directory holds one file per client and per replica, NAME.jsonl. `inc` counts the restarts of a
 * replica, `n` its deliveries, from 0 or from 1. `done` is the client's view that all destinations
 * replied. `start` may be left out; it says that a life begins with delivery n, and that its state
 * holds what came before (from a snapshot, if n is not the first number). With it the checker knows
 * of a replica that came back and had nothing left to deliver, and of deliveries lost between a
 * snapshot and what follows. `gap` says that the writer found no room for what follows: from there to
 * the next life, events are missing.
 *
 * For the checker to be right, a client writes `cast` before it sends the message, and a replica
 * `deliver` before it replies.
 *
 * The writer puts lines into a shared mapping of the file: an event is in the file as soon as the
 * call returns and survives the death of the process, without a system call. What kill -9 leaves
 * is a file with zeros behind the last line, which may be cut off; readers know both. */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include "base/err.h"
#include "base/say.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_SUFFIX ".jsonl"

enum {
    TRACE_VERSION = 1,
    TRACE_NAME_BYTES_MAX = 255, /* of a group, host or client */
    TRACE_GROUPS_MAX = 4096,
};

/* The largest `n` and `inc` that a trace may have: sums of two do not overflow. */
#define TRACE_N_MAX (UINT64_C(1) << 62)
#define TRACE_INC_MAX UINT32_C(0x7fffffff)

/* ---- writing ---- */

struct trace_options {
    const char *dir;  /* created if it is not there */
    const char *name; /* of the file, without TRACE_SUFFIX */

    /* Events name these by their index. The tables are copied. */
    const char *const *groups;
    uint32_t group_count;
    const char *const *hosts; /* replicas are named by their hosts */
    uint32_t host_count;
    const char *const *clients; /* client i beyond client_count is "ci" */
    uint32_t client_count;
    struct say say; /* told when the trace ends early */
};

/* A message is known by its client, which process that was in the client's place, and its number
 * there. It is written CLIENT:SEQ, where CLIENT is the name for life 0 and NAME.LIFE after; or CLIENT:SEQ.SUM,
 * if there is a checksum. */
struct trace_id {
    uint64_t seq;
    uint32_t client, life;
    uint32_t sum; /* 0: none */
};

struct trace_dst {
    const uint16_t *group;
    uint32_t count;
};

/* One life of a replica. */
struct trace_replica {
    uint32_t group, host, inc;
};

/* Opens DIR/NAME.jsonl, behind what is there already: a line that a killed writer left incomplete
 * is removed. ERR_EXISTS if another process is writing it, ERR_INVALID if a name has a character
 * that would need an escape in JSON. One thread at a time per writer. */
struct trace_writer;
int trace_open(struct trace_writer **, const struct trace_options *, struct err *);

/* One event each. They do not fail by themselves: after an error of the file (disk full) they do
 * nothing, a warning is printed, the file ends with a `gap`, and trace_close tells. */
void trace_cast(struct trace_writer *, struct trace_id, struct trace_dst);
void trace_start(struct trace_writer *, struct trace_replica, uint64_t n);
void trace_deliver(struct trace_writer *, struct trace_replica, uint64_t n, struct trace_id,
                   struct trace_dst);
void trace_done(struct trace_writer *, struct trace_id);

/* A member of a group with views, in one life; cells are named as groups are. */
struct trace_member {
    uint32_t host, inc;
    uint64_t vid;
};

void trace_view(struct trace_writer *, struct trace_member, const uint32_t *hosts, uint32_t count);
void trace_cell_start(struct trace_writer *, struct trace_member, uint32_t cell, uint64_t n);
void trace_cell_deliver(struct trace_writer *, struct trace_member, uint32_t cell, uint64_t n,
                        struct trace_id);
void trace_raw_deliver(struct trace_writer *, struct trace_member, uint32_t cell, struct trace_id);
void trace_out(struct trace_writer *, struct trace_member);

/* Cuts the file to its lines and frees the writer, in any case. NULL is allowed. */
int trace_close(struct trace_writer *, struct err *);

/* ---- reading ---- */

enum trace_kind {
    TRACE_CAST,
    TRACE_START,
    TRACE_DELIVER,
    TRACE_DONE,
    TRACE_GAP,
    TRACE_VIEW,
    TRACE_CELL_START,   /* of a member of a group with views */
    TRACE_CELL_DELIVER, /* likewise */
    TRACE_RAW_DELIVER,  /* likewise */
    TRACE_OUT,
    TRACE_FORMAT, /* read, and not shown */
};

/* Bytes of the mapped file: good until trace_reader_close. */
struct trace_text {
    const char *at;
    uint32_t len;
};

struct trace_event {
    enum trace_kind kind;
    /* What the event's kind does not have is empty. */
    struct trace_text client, group, replica, id, cell, member;
    struct trace_text dst;     /* what stands between [ and ], well-formed and not empty */
    struct trace_text members; /* like dst */
    uint64_t n, vid;
    uint32_t inc;
};

struct trace_reader {
    const char *path; /* the caller's */
    const char *data; /* the file, without zeros at its end */
    size_t bytes, at;
    uint32_t line; /* of the last event; lines count from 1 */
    bool cut;      /* the last line is incomplete; it is ignored */
    bool unclosed; /* cut, or zeros at the end: the writer was killed, or is still writing */
};

/* Caller's struct; path is kept, not copied. */
int trace_reader_open(struct trace_reader *, const char *path, struct err *);
void trace_reader_close(struct trace_reader *);

/* The next event: 1, or 0 at the end, or an error whose text begins PATH:LINE:. */
int trace_read(struct trace_reader *, struct trace_event *, struct err *);

/* Takes the next name off a `dst` or `members`; false if there is none left. */
bool trace_dst_next(struct trace_text *dst, struct trace_text *group);

/* Finds where the lines of a trace file end, zeros behind them not counted. For open files of any
 * size; ERR_SYSTEM with the text set. */
int trace_find_end(int fd, const char *path, uint64_t *end, uint64_t *size, struct err *);

#endif
