/* The inside of a disk: what its files share.
 *
 * A record's way: disk_reserve and disk_append put it into the open batch (append.c); disk_round closes that batch and begins
 * to write it (batch.c), into a segment with room (segment.c); when it is durable what it says takes effect (batch.c).
 * Beside that BLOCK_BULK makes segments and writes snapshots (bulk.c, snapfile.c).
 *
 * What a group has is known three times over: as appended, as of the last batch that was closed, and what of it is durable. */
#ifndef DISK_DISK_IMPL_H
#define DISK_DISK_IMPL_H

#include "base/planted.h"
#include "disk/scan.h"

enum {
    SEGMENTS_MIN = 4,
    SEGMENTS_MAX = 1024,
    SEGMENTS_SPARE = 2, /* for pledges, which are written though the journal is full */
    BATCHES_MIN = 2,    /* one is written, one is open */
    HALVES = 2,         /* of a snapshot's buffer: one is written, one is filled */
    HALF_PIECES = 16,
    HALF_BYTES = HALF_PIECES * PIECE_BYTES,
    TEXT_BYTES = 240,
};

#define CONFIRM_NS UINT64_C(5000000) /* idle time after which an empty batch follows the last one */
#define RETRY_NS UINT64_C(1000000000)       /* where the disk had no room, unless told else */
#define NO_ROOM_FOR_NS UINT64_C(5000000000) /* for how long that is told, if nothing is tried */
#define SLOW_NS UINT64_C(100000000)         /* a batch that takes longer */
#define SLOW_FOR_NS UINT64_C(1000000000)    /* for how long that is remembered */

/* What a batch says of a group. The same function takes it from a batch that is closed and from one that is read. */
struct group_view {
    struct disk_says says;
    uint32_t records, chain;
    uint64_t snap;     /* the last that is recorded */
    bool beyond;       /* it was found DISK_BEYOND, and has not begun anew since */
    bool reset;        /* since then it took over a state, */
    uint64_t reset_at; /* of this position */
};

struct group {
    uint32_t records, chain; /* as appended */
    struct group_view view;  /* as of the last batch that was closed */
    uint64_t snap;           /* the last that is durable, and recorded so */

    struct disk_says said; /* with its last record, or by disk_say */
    uint64_t say_in;       /* it goes along with this batch or a later one; 0: a record has it */

    uint64_t last_batch; /* the batch and item of its last record */
    uint32_t last_item;
    uint64_t closed_in; /* the last closed batch that has a record of it */

    struct disk_found found;
    bool snap_unread;    /* the snapshot was found by its name and record alone */
    uint64_t chain_from; /* as it was found: the chain is there from here on, */
    uint64_t
        chain_broke; /* and before something is missing from here on; 0: not even that is known */
    bool initial;    /* it began with a state, */
    bool initial_there;                  /* of which there is a file */
    unsigned char backup[DISK_ID_BYTES]; /* the last one that is durable, in this life */
};

enum segment_state {
    SEGMENT_NONE,   /* there is no such file */
    SEGMENT_FREE,   /* nothing in it counts */
    SEGMENT_NOW,    /* batches are written to it */
    SEGMENT_FULL,   /* it counts */
    SEGMENT_GOING,  /* it will be free when batch `gone_in` is durable */
    SEGMENT_MAKING, /* BLOCK_BULK makes it */
};

struct segment {
    enum segment_state state;
    char name[BLOCK_NAME_BYTES];
    uint64_t first, last; /* batches in it */
    uint64_t gone_in;
    uint64_t *need; /* per group: the position that a snapshot must have; 0: whatever it has */
    uint32_t needs; /* how many of these are not 0 */
    unsigned char *image; /* what was read of it, until disk_forget */
};

struct batch {
    unsigned char *memory; /* header and records; the directory follows when it is closed */
    struct batch_item *items;
    uint32_t item_count;
    uint32_t end; /* of the records */
    uint64_t number;
};

/* What was found when the disk was opened, until disk_forget: records by group, those of each in their order. */
struct found_record {
    const unsigned char *batch;
    const struct batch_item *item;
};

struct found_batch {
    struct scan_batch scan;
    uint32_t segment;
    uint64_t at;
};

enum snap_phase {
    SNAP_NONE,
    SNAP_TAKING,    /* pieces are put */
    SNAP_ENDING,    /* all are there, not all are written */
    SNAP_NAMING,    /* it gets its name */
    SNAP_RECORDING, /* a batch says so */
    SNAP_DROPPING,  /* it is given up: what was written of it is removed */
};

struct snap_writer {
    enum snap_phase phase;
    uint32_t group;
    uint64_t pos;
    char tmp[BLOCK_NAME_BYTES], name[BLOCK_NAME_BYTES];
    unsigned char id[DISK_ID_BYTES]; /* the journal's, or the backup's */
    bool is_backup;
    bool made;           /* the file is there */
    bool given_up;       /* what is put still is taken, and goes nowhere */
    bool hurry;          /* somebody waits for it */
    uint64_t file_bytes; /* as long as the file is */
    uint64_t written;    /* handed to BLOCK_BULK */

    unsigned char *half[HALVES];
    uint32_t filling;      /* which of them */
    uint32_t pieces;       /* sealed in it */
    uint32_t piece_bytes;  /* of data in the piece after those */
    uint32_t piece_number; /* of that piece */
    bool ready;            /* the other half waits to be written, */
    uint32_t ready_pieces; /* with so many pieces */
};

enum bulk_task { BULK_NONE, BULK_SEGMENT, BULK_PIECES, BULK_NAME, BULK_REMOVE, BULK_DROP };

struct disk {
    struct block *block;
    struct disk_shape shape;
    unsigned char journal[DISK_ID_BYTES];
    uint64_t segment_bytes;
    uint32_t batch_bytes;

    struct group *groups;
    uint64_t now_ns; /* of the last round */

    /* Batches: a ring; the oldest of `batch_used` is written first, the last is the open one. */
    struct batch *batches;
    uint32_t batch_count, batch_first, batch_used;
    uint32_t items_max; /* of a batch */
    uint32_t
        extra_bytes; /* of a batch, that only pledges and what the journal itself adds may use */
    uint32_t extra_items;
    uint32_t reserved; /* bytes at the end of the open batch; UINT32_MAX: nothing is */
    uint32_t refused;  /* most bytes for which there was no room, since there was for as many */
    bool writing;      /* the oldest batch is under way */
    uint64_t began_ns;
    uint64_t done;
    bool must_write;  /* though the open batch has no record: a life, a segment that may go */
    bool confirmed;   /* the last batch had no records, or is followed by one */
    uint64_t idle_ns; /* since when nothing is written */

    struct segment *segments;
    uint32_t segment_count;
    uint32_t now_segment; /* UINT32_MAX: the next batch begins one */
    uint64_t now_at;      /* where the next batch goes */
    bool look_for_room;   /* something happened by which a segment may go */
    bool close_now;       /* the next batch begins another segment */
    /* Of all groups, what they have in their chains and have not applied: no snapshot can have it, so that it may have to be written
     * again; and how many of them have any. */
    uint64_t unapplied;
    uint32_t unapplied_groups;

    struct slot *slots[SLOTS]; /* as written, or under way */
    uint64_t turn;
    uint64_t slot_batch;
    uint32_t slot_flags;
    uint32_t life; /* of this opening */
    uint32_t *host_lives;
    uint16_t *place_lives;
    uint32_t slots_behind; /* how many slots do not have all lives */

    enum bulk_task bulk;
    struct snap_writer snap;
    char remove[BLOCK_NAME_BYTES]; /* a snapshot that is not needed any more; "": none */
    uint32_t making;               /* the segment */
    uint64_t no_room_ns;           /* when the disk had none for a segment; 0: it has */
    bool cramped; /* the last one that was tried had none: those that are there are all */
    uint64_t snap_no_room_ns; /* the same, for a snapshot */
    uint64_t retry_ns;        /* until it is tried again */
    uint64_t snap_told_ns;    /* likewise for people: 0 when one was written since */

    struct found_record *records; /* of group g: [record_from[g], record_from[g + 1]) */
    uint32_t *record_from;
    uint64_t torn;            /* the batch that was cut when it was opened; 0: none */
    char note[TEXT_BYTES];    /* what was found when it was opened; "": nothing to tell */
    char failure[TEXT_BYTES]; /* "": none */

    uint64_t slow_ns; /* when a batch was last slow; 0: never */
    uint64_t batches_written, bytes_written;
    struct hist flush;
};

/* ---- views: view.c ---- */

/* What the item says becomes the view's. */
void view_take(struct group_view *, const struct batch_item *);
struct batch_item view_state(const struct group_view *, uint32_t group);

/* ---- appending: append.c ---- */

struct batch *append_open_batch(const struct disk *);
/* An item in the open batch; there is room. Returns it. */
struct batch_item *append_item(struct disk *, const struct batch_item *);
void append_next_batch(struct disk *, uint64_t number);
void append_snap(struct disk *, uint32_t group, uint64_t pos);
/* Whether anything waits to be written. */
bool append_waits(const struct disk *);

/* ---- batches: batch.c ---- */

/* Closes the oldest batch and begins to write it. */
void batch_begin(struct disk *);
/* It is durable. */
void batch_over(struct disk *);

/* ---- segments: segment.c ---- */

void segment_name(char *name, uint32_t index);
uint32_t segment_count(const struct disk *, enum segment_state);
/* One that is free: there is one. */
uint32_t segment_take(const struct disk *);
void segment_need(struct segment *, uint32_t group, uint64_t to);
void segment_copied(struct disk *, uint32_t group);
void segment_forget(struct disk *, uint32_t group);
/* Marks those that may go; they do so with this batch. */
void segment_let_go(struct disk *, uint64_t number);
bool segment_may_go(const struct disk *);
void segment_over(struct disk *, uint64_t number);
/* Whether so many batches may be written that need room for good. Those that are no copies leave room for these, of chains that have so
 * many bytes more than now. */
bool segment_has_room(const struct disk *, uint32_t batches, bool copy, uint32_t bytes);
/* How many free ones a record must leave, whatever it has. */
uint32_t segment_spare(const struct disk *);
/* There was no room: if all that counts is in the segment that is written to, another one is begun, so that this one can go. */
void segment_refused(struct disk *);
/* What all groups were found to say. */
void segment_found(struct disk *);
/* The group says something else. */
void segment_says(struct disk *, struct group *, const struct disk_says *);

/* ---- lives and the host file: lives.c ---- */

void lives_journal_id(const struct disk_shape *, uint32_t life, unsigned char *id);
/* The image of the slot that is to be written next, and where it goes. */
void lives_step(struct disk *, uint64_t batch, struct block_step *);
void lives_take(struct disk *, const struct slot *);
uint32_t lives_bytes(const struct disk *); /* in a table */
void lives_put(const struct disk *, unsigned char *bytes);
void lives_raise(struct disk *, const unsigned char *bytes); /* those that are higher in a table */

/* ---- bulk: bulk.c, snapfile.c, snapread.c ---- */

int bulk_round(struct disk *);
bool bulk_waits(const struct disk *); /* for the next round */
void bulk_recorded(struct disk *, uint32_t group, uint64_t pos);

void snapfile_name(char *name, uint32_t group, uint64_t pos, const char *suffix);
bool snapfile_waits(const struct disk *);
/* Begins the next order of a snapshot, if there is something to be done. */
bool snapfile_begin(struct disk *);
void snapfile_over(struct disk *, enum block_status);
void snapfile_initial_name(char *name, uint32_t group);

/* Marks as DISK_BELOW what needs a state to begin with that is damaged. */
void initial_judge(struct disk *);

/* A piece with its header, sealed; data is there. */
void snapfile_seal(void *piece, const struct piece_header *);

/* snapread.c: reads it from its start; fn may be NULL. ERR_CORRUPT: it is damaged. */
int snapfile_read(const struct disk *, uint32_t group, uint64_t pos,
                  int (*fn)(void *ctx, const void *piece, uint32_t bytes), void *ctx, struct err *);

/* ---- opening: host.c, memory.c, open.c, image.c, recover.c, tail.c, judge.c, resume.c ---- */

/* A run of batch numbers that count. */
struct span {
    uint64_t first, last;
};

struct snap_seen {
    uint32_t group;
    uint64_t pos;
};

struct recovery {
    struct found_batch *batches; /* those that are valid and count, in the order of their numbers */
    uint32_t batch_count, batch_room;
    struct span *spans; /* those that there should be */
    uint32_t span_count;
    struct snap_seen *snaps; /* names of files */
    uint32_t snap_count, snap_room;
    uint64_t torn; /* the number of the batch that was cut; 0: none */
    struct found_batch
        remnant; /* of it, if header and directory are valid; else `segment` is UINT32_MAX */
};

struct opening {
    struct disk *d;
    const struct disk_options *o;
    bool looks_only; /* and writes nothing */
    struct recovery r;
    char (*leftovers)[BLOCK_NAME_BYTES]; /* files that are not needed */
    uint32_t leftover_count;
    uint64_t tail; /* the last batch */
};

int host_shape_check(const struct disk_shape *, struct err *);
int host_shape_compare(const struct disk_shape *has, const struct disk_shape *wants, struct err *);
/* Both slots into SLOTS * SLOT_BYTES; *slot is the one that counts. */
int host_read(struct block *, void *into, const struct slot **slot, struct err *);
int disk_order_wait(struct block *, const struct block_step *, uint32_t count, struct err *);

int memory_disk_open(struct disk *, uint64_t buffer_bytes, struct err *);

enum { IMAGE_PART_BYTES = 1 << 20, READ_AHEAD = BLOCK_AHEAD_MAX /* parts that are under way */ };

/* What cannot be read is zeros. */
int image_read_part(struct disk *, const char *name, unsigned char *into, uint64_t at,
                    uint64_t bytes, struct err *);
int image_read(struct disk *, struct segment *, struct err *); /* if it has none */
void image_drop(struct segment *);

static inline uint64_t recovery_number(const struct recovery *r, uint32_t i)
{
    return r->batches[i].scan.header->number;
}

/* Cuts the tail if it is torn, and tells which segments count. */
void tail_take(struct disk *, struct recovery *);

int recover_journal(struct disk *, struct recovery *, struct err *);
/* Tells what each group has. */
void judge_groups(struct disk *, const struct recovery *, bool looks_only);
/* The snapshot that was found is damaged after all: the group is DISK_BELOW. */
void judge_snap_damaged(struct disk *, uint32_t group);

/* Until all of it is durable, and this life is. */
int resume_disk(struct opening *, struct err *);

bool disk_broken(struct disk *); /* takes note of what failed */

#endif
