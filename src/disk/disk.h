/* What a host keeps on its disk, for all its groups: records of what they accepted and promised, snapshots of their states,
 * and the lives of hosts and of clients' places.
 *
 * One *journal* serves all groups. What they append is collected into a *batch*; when the last one is durable, what is
 * there then is the next. A batch has a number, from 1 on and without gaps over all lives; disk_done says up to which one they
 * are durable. Whoever appends notes disk_batch, and may count on it when disk_done has come so far, and no earlier.
 *
 * Nothing here waits, reads a clock or makes a system call, but through block.h, after disk_open. disk_round belongs into every
 * round of the host. All of it belongs to the host's thread.
 *
 * The disk knows nothing of what a record's bytes are. A group's positions rise as it is told: a record has [from, to), and
 * what a group has on disk is its snapshot and, from there on, a *chain* of records; where it is cut, and by what a record
 * is replaced, is the group's to know. The journal only tells what of that may go, and what is missing. */
#ifndef DISK_DISK_H
#define DISK_DISK_H

#include "base/hist.h"
#include "disk/block.h"

enum { DISK_ID_BYTES = 16, DISK_NAME_BYTES = 64, DISK_GROUPS_MAX = 1024 };

/* What is compared when a directory is opened: who opens it must be whom it was made for. */
struct disk_shape {
    unsigned char cluster[DISK_ID_BYTES]; /* drawn when the cluster file was made */
    char host[DISK_NAME_BYTES];
    uint64_t sizes;  /* a hash of all that must not change: groups, protocol, rings, members */
    uint32_t groups; /* of the cluster; a record names its group by number, */
    uint32_t hosts, clients; /* and lives are numbered by host and by a client's place */
};

struct disk_options {
    struct block *block; /* stays the caller's */
    struct disk_shape shape;
    uint64_t bytes;         /* of all segments; 0: 1 GiB. At least four segments */
    uint64_t segment_bytes; /* 0: 64 MiB */
    uint64_t buffer_bytes;  /* most that is collected and not yet written; 0: 64 MiB */
    uint64_t batch_bytes;   /* most that is written at once; 0: 4 MiB */
    uint64_t retry_ns;      /* after which it is tried again where the disk had no room; 0: 1 s */
};

/* ---- directories ---- */

/* Makes an empty directory one of this host, in its first life, or in a later one: then nothing that it had can be believed, and
 * every group is DISK_BEYOND. ERR_EXISTS: it is one already, or has parts of one. */
int disk_format(struct block *, const struct disk_shape *, uint32_t life, struct err *);

/* In an empty directory, before disk_format: the state with which the group begins, its position is 0. next gives at most room bytes of
 * it, and returns how many; 0: that was all; negative: it cannot. */
int disk_initial_write(struct block *, const struct disk_shape *, uint32_t group,
                       int (*next)(void *ctx, void *out, uint32_t room), void *ctx, struct err *);

/* Removes those that disk_initial_write has written: the directory is not to be one. */
void disk_initial_drop(struct block *, const struct disk_shape *);

/* Whose directory it is, without reading the rest: 0 if it is one of that shape, else as disk_open. */
int disk_whose(struct block *, const struct disk_shape *, struct err *);

struct disk;

/* Reads all of it, and waits for that. A torn tail is cut. Before it returns, one flush and one batch are behind it: what a
 * killed process wrote may be in a cache only. ERR_NOTFOUND: the directory is empty; ERR_REFUSED: it is another's, or of a later
 * version; ERR_CORRUPT: not even who it belongs to can be read. */
int disk_open(const struct disk_options *, struct disk **, struct err *);

/* For people: reads whatever the directory has, whosesoever it is, and writes nothing. Until disk_close only what was found may be
 * asked for: disk_found, disk_note, disk_replay, disk_snap_read, disk_snaps_check, lives (the own one: the next), disk_used,
 * disk_oldest. */
int disk_look_open(struct block *, struct disk_shape *, struct disk **, struct err *);

/* Everything that was appended and not done is lost, as in a crash. What is under way points into it: the block is
 * closed first. */
void disk_close(struct disk *);

/* ---- what was found ---- */

enum disk_state {
    DISK_NEW,   /* nothing was ever appended by this group */
    DISK_WHOLE, /* everything is there */
    DISK_BELOW, /* something is missing or damaged, and all of it lies below the commit that was told: promise and chain beyond
                    it are there */
    DISK_BEYOND, /* what is missing may have been promised, or accepted and not decided: nothing of it counts, no snapshot
                    either. It stays so, whatever is appended, until a DISK_RESET and a snapshot at or behind it are durable;
                    a promise that is taken on belongs before that RESET */
};

enum disk_kind {
    DISK_ENTRIES = 1, /* accepted */
    DISK_PLEDGE,      /* promised; no bytes */
    DISK_RESET,       /* the state was replaced by one of position `from`; no bytes */
    DISK_SNAP, /* the snapshot of position `from` is durable; no bytes. Written by the journal itself */
    DISK_COPY, /* entries again: replaces all that was there of the chain */
};

/* What a group says with every record, and a segment says of all groups at its start. The journal keeps the last. */
struct disk_says {
    uint64_t pledge; /* promised */
    uint64_t end;    /* of the chain */
    uint64_t ballot; /* of the last entries */
    uint64_t commit, commit_ballot;
    uint64_t applied;
};

struct disk_record {
    enum disk_kind kind;
    uint32_t group;
    uint64_t from, to;
    uint64_t ballot;
    struct disk_says says;
    const unsigned char *bytes; /* of it, at a multiple of 8; to - from of them, or NULL */
};

struct disk_found {
    enum disk_state state;
    struct disk_says says; /* as last read */
    uint64_t snap;         /* position of the newest snapshot that counts; 0: there is none */
    /* What is missing, of DISK_BELOW and DISK_BEYOND; 0, 0: not even that is known. With DISK_BELOW the chain is there from
     * gap_to on. */
    uint64_t gap_from, gap_to;
};

/* It may change when the snapshot is read. */
const struct disk_found *disk_found(const struct disk *, uint32_t group);

/* What is missing, for people: the positions, or what is known of them. */
struct disk_gap_text {
    char s[64];
};
struct disk_gap_text disk_gap_text(const struct disk_found *);

/* NULL, or a line for the log: that a torn tail was cut, or what is damaged. */
const char *disk_note(const struct disk *);

/* The batch that was torn by a crash, and cut; 0: none was. */
uint64_t disk_torn(const struct disk *);

/* Calls fn for the group's records in the order in which they were written; what is damaged is left out. Until disk_forget. */
void disk_replay(const struct disk *, uint32_t group,
                 void (*fn)(void *ctx, const struct disk_record *), void *ctx);

/* Gives fn the snapshot that was found, in pieces; it returns negative to stop, and not ERR_CORRUPT. ERR_NOTFOUND: there is none.
 * ERR_CORRUPT: it is damaged, which is not known before: what fn has got does not count. A group that was DISK_WHOLE is DISK_BELOW
 * from then on, as if it had been found so, but if its damage would have made it DISK_BEYOND that is found when the disk is opened. */
int disk_snap_read(struct disk *, uint32_t group,
                   int (*fn)(void *ctx, const void *piece, uint32_t bytes), void *ctx,
                   struct err *);

/* Reads all snapshots that were found: what disk_found says stays as it is then. */
void disk_snaps_check(struct disk *);

/* Likewise the state that the group began with, if there is no snapshot yet: entries are applied to that, from position 0 on. Where it is
 * needed and damaged, the group is DISK_BELOW. */
bool disk_initial(const struct disk *, uint32_t group);
int disk_initial_read(const struct disk *, uint32_t group,
                      int (*fn)(void *ctx, const void *piece, uint32_t bytes), void *ctx,
                      struct err *);

/* What was read of the journal is not needed any more. */
void disk_forget(struct disk *);

/* ---- appending ---- */

/* Where the bytes of the next record go, at a multiple of 8; NULL: there is no room now. Nothing is appended by that, and only the
 * last reservation counts, until the next round. 0 bytes: whether there is room for a record without bytes. */
void *disk_reserve(struct disk *, uint32_t bytes);

/* The same for what sets room free, a DISK_COPY or a DISK_RESET: room is kept for it. */
void *disk_reserve_copy(struct disk *, uint32_t bytes);

/* Whether there would be room. */
bool disk_has_room(const struct disk *, uint32_t bytes, bool copy);

/* Most bytes of a record: what fits an empty batch. */
uint32_t disk_record_max(const struct disk *);

/* Appends a record; its bytes are in what was reserved. There is always room for a DISK_PLEDGE without reserving; one that
 * follows another in the same batch replaces it. A DISK_COPY is one record: it has all of the chain that counts. */
void disk_append(struct disk *, const struct disk_record *);

/* What the group would say now; it goes along with whatever is written next, and is no reason to write. Must not be ahead of
 * what was appended before. */
void disk_say(struct disk *, uint32_t group, const struct disk_says *);

/* In which the next record will be: asked between disk_reserve and disk_append. */
uint64_t disk_batch(const struct disk *);
uint64_t disk_done(const struct disk *);

/* ---- snapshots: one at a time ---- */

/* False: another one is being written, or the disk has no room now. */
bool disk_snap_open(struct disk *, uint32_t group, uint64_t pos);
/* Somebody waits for the one that is being written: it need not be slowed. */
void disk_snap_hurry(struct disk *);
/* Takes as much as there is room for; returns how much that was. */
uint32_t disk_snap_put(struct disk *, const void *piece, uint32_t bytes);
/* That was all (whole), or it is given up. It counts, and replaces the one before, when disk_snap says so. */
void disk_snap_end(struct disk *, bool whole);
uint64_t disk_snap(const struct disk *,
                   uint32_t group); /* position of the last one that is durable */
bool disk_snap_busy(const struct disk *);

/* A backup is written as a snapshot is, and in its turn; it replaces the group's backup before it, if that is not still being
 * written, and is nothing to the group. `delivered` is told with it. Then disk_snap_put, disk_snap_end. */
bool disk_backup_open(struct disk *, uint32_t group, const unsigned char *id, uint64_t delivered);
bool disk_backup_busy(const struct disk *, uint32_t group); /* one of the group is being written */
/* Whether the group's last backup of this life has that id, and is durable. */
bool disk_backup_is(const struct disk *, uint32_t group, const unsigned char *id);

/* The group whose records keep the oldest segment, but the one that is written to; UINT32_MAX: all could go. */
uint32_t disk_oldest(const struct disk *);
/* Of the journal, how many thousandths are in use. */
uint32_t disk_used(const struct disk *);
/* DISK_FULL: nothing but pledges is appended. */
bool disk_is_full(const struct disk *);

/* ---- lives ---- */

uint32_t disk_life(const struct disk *); /* the host's own, in this opening; the first is 0 */
uint32_t disk_host_life(const struct disk *, uint32_t host); /* as last noted */
uint32_t disk_place_life(const struct disk *, uint32_t place);
/* Notes one that is higher. It is durable when disk_done has come to the number that is returned. */
uint64_t disk_host_note(struct disk *, uint32_t host, uint32_t life);
uint64_t disk_place_note(struct disk *, uint32_t place, uint32_t life);

/* ---- stepping ---- */

/* Takes note of what is durable now, and begins the next batch. Returns work done. */
int disk_round(struct disk *, uint64_t now_ns);

/* When disk_round has something to do though nobody appends; UINT64_MAX: never. What is under way wakes by itself (block). */
uint64_t disk_next_ns(const struct disk *);

/* A batch is under way: its end wakes by itself. */
bool disk_is_writing(const struct disk *);

/* NULL, or what failed: nothing is written any more, and the process is to end with that line. */
const char *disk_failure(const struct disk *);

/* ---- for people ---- */

enum disk_health {
    DISK_OK,
    DISK_SLOW,    /* a batch takes longer than 100 ms, or did a second ago */
    DISK_FULL,    /* the journal is: nothing but pledges is appended */
    DISK_NO_ROOM, /* the disk has no room for a snapshot or a segment: tried again */
};

struct disk_status {
    enum disk_health health;
    uint64_t batches, bytes; /* written in this life */
    uint64_t journal_bytes, journal_bytes_max;
    uint64_t flush_p50_ns, flush_p99_ns;
    uint64_t waiting_bytes; /* collected and not yet written */
};

void disk_status(const struct disk *, struct disk_status *);

#endif
