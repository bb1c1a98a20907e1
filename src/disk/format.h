/* What stands on the disk. Little-endian, everything at a multiple of 8; version FORMAT_VERSION, later ones are refused.
 *
 *     host                  two slots of 16 KiB: who the directory belongs to, and lives. The valid one with the higher turn
 *                           counts; the other one is written next, and then has the same lives
 *     journal.NNNNN         segments: batches one behind the other, each at a multiple of 4 KiB
 *     snap.GROUP.POSITION   a snapshot: pieces of 64 KiB; .tmp behind the name until it is whole
 *     initial.GROUP         likewise, of position 0: what the group began with, in a cluster made of a backup; until there is
 *                           a snapshot
 *     backup.GROUP          likewise: the machine's state alone, as of a backup, whose id it has in place of the journal's, and
 *                           the count of deliveries in place of the position; for people to copy, and nothing to the host
 *
 * A batch, and a segment:
 *
 *     0        64                          directory                    bytes (a multiple of 4096)
 *     | header | record | record | ...     | item | item | ... |  zeros |
 *
 *     | batch 7, a table | batch 8 | batch 9 | what was there before: lower numbers, or zeros |
 *
 * The directory is behind the records because it is complete only when the batch is closed; so they are collected where
 * they are written from. Header and directory have one CRC, each record has its own: damage to a record concerns its group alone.
 *
 * Batches are numbered without gaps over all segments and lives. Segments are overwritten in place: what stood there before has
 * a lower number than the batch that begins the segment, and never counts. The first batch of a segment is a *table*: it has an
 * ITEM_STATE for every group, an ITEM_SEGMENT for every older segment that still counts, and the lives. So what came before
 * in segments that are not named there is not needed. Of a segment that is given up between two tables an ITEM_RELEASE says so
 * before it is overwritten.
 *
 * Whatever changes a group's chain has a number: `chain` counts such records. Behind a damaged batch it tells whether one of the
 * group was in it; a pledge or a snapshot that was lost with it needs no such number, for what follows says them again.
 * (`records` counts all: whether there ever was one, and for people.) And every batch has an item of each group that was in the
 * batch before: so where one batch is damaged, the next one tells whom that concerns. */
#ifndef DISK_FORMAT_H
#define DISK_FORMAT_H

#include "disk/disk.h"

#include <stddef.h>

enum {
    FORMAT_VERSION = 1,

    BATCH_MAGIC = 0x4a6d5254, /* "TRmJ" */
    SLOT_MAGIC = 0x486d5254,  /* "TRmH" */
    PIECE_MAGIC = 0x536d5254, /* "TRmS" */

    SLOTS = 2,
    SLOT_BYTES = 16384,
    SLOT_HOSTS_MAX = 1024,
    SLOT_PLACES_MAX = 4096,

    PIECE_BYTES = 65536,
    PIECE_HEADER_BYTES = 64,
    PIECE_DATA_BYTES = PIECE_BYTES - PIECE_HEADER_BYTES,
};

#define HOST_NAME "host"
#define SEGMENT_PREFIX "journal."
#define SNAP_PREFIX "snap."
#define INITIAL_PREFIX "initial."
#define BACKUP_PREFIX "backup."
#define TMP_SUFFIX ".tmp"

/* Kinds of items besides those of enum disk_kind. */
enum {
    ITEM_STATE =
        16, /* what the group had when the batch was closed; from: its snapshot; damage: it is DISK_BEYOND */
    ITEM_SEGMENT = 17, /* of a table: batches [from, to) of an older segment count */
    ITEM_RELEASE = 18, /* the segment that begins with batch `from` does not count any more */
    ITEM_LIVES =
        19, /* of a table: bytes are the lives of hosts (32 bits each) and of places (16 bits each) */
};

/* Damage, of ITEM_STATE: the group is DISK_BEYOND; and has since taken over a state of position `to`. */
enum { ITEM_BEYOND = 1, ITEM_RESET = 2 };

enum { BATCH_TABLE = 1 }; /* flag: it begins a segment */

struct batch_header {
    uint32_t magic;
    uint16_t version;
    uint16_t flags;
    unsigned char journal[DISK_ID_BYTES]; /* of the slot */
    uint64_t number;
    uint32_t bytes;     /* of the batch with its zeros */
    uint32_t directory; /* where it begins */
    uint32_t items;
    uint32_t crc; /* of header and directory, with 0 for this */
    uint64_t spare[2];
};
_Static_assert(sizeof(struct batch_header) == 64, "header of a batch");
_Static_assert(offsetof(struct batch_header, crc) == 44, "crc of a batch");

struct batch_item {
    uint32_t group;
    uint16_t kind;
    uint16_t damage;         /* of ITEM_STATE */
    uint32_t records, chain; /* of the group so far, this one included */
    uint32_t at, bytes;      /* of the record, from the start of the batch; 0, 0: it has none */
    uint32_t crc;            /* of these */
    uint32_t spare;
    uint64_t from, to;
    uint64_t ballot;
    struct disk_says says;
};
_Static_assert(sizeof(struct batch_item) == 104, "item of a directory");
_Static_assert(sizeof(struct disk_says) == 48, "what a group says");

enum { SLOT_BEGUN = 1, SLOT_LATER = 2 };

struct slot {
    uint32_t magic;
    uint32_t version;
    uint32_t crc; /* of the whole slot, with 0 for this */
    uint32_t
        flags; /* SLOT_BEGUN: the journal has batches. SLOT_LATER: made in a later life than the first */
    uint64_t turn;
    unsigned char journal[DISK_ID_BYTES];
    struct disk_shape shape;
    uint64_t segment_bytes; /* once begun */
    uint64_t batch;         /* one that is not before the last of the moment */
    uint32_t next_life;     /* the host's, when it is opened next */
    uint32_t hosts[SLOT_HOSTS_MAX];
    uint16_t places[SLOT_PLACES_MAX];
    unsigned char initial[DISK_GROUPS_MAX / 8]; /* bits: groups that began with a state */
    unsigned char spare[SLOT_BYTES - 12452 - DISK_GROUPS_MAX / 8];
};
_Static_assert(sizeof(struct disk_shape) == 104, "shape");
_Static_assert(sizeof(struct slot) == SLOT_BYTES, "slot of the host file");
_Static_assert(offsetof(struct slot, shape) == 40, "shape in a slot");

enum { PIECE_END = 1 }; /* flag: the last one, and the snapshot is whole */

struct piece_header {
    uint32_t magic;
    uint16_t version;
    uint16_t flags;
    unsigned char journal[DISK_ID_BYTES];
    uint64_t pos;
    uint32_t group;
    uint32_t number; /* from 0 */
    uint32_t bytes;  /* of data behind the header */
    uint32_t crc;    /* of header and data, with 0 for this */
    uint64_t spare[2];
};
_Static_assert(sizeof(struct piece_header) == PIECE_HEADER_BYTES, "header of a piece");

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little-endian, unconverted");

static inline uint64_t format_round8(uint64_t n)
{
    return (n + 7) & ~(uint64_t)7;
}

static inline uint64_t format_blocks(uint64_t n)
{
    return (n + BLOCK_BYTES - 1) & ~(uint64_t)(BLOCK_BYTES - 1);
}

/* Those that change the chain. */
static inline bool format_is_chain(uint16_t kind)
{
    return kind == DISK_ENTRIES || kind == DISK_COPY || kind == DISK_RESET;
}

static inline bool format_is_record(uint16_t kind)
{
    return kind >= DISK_ENTRIES && kind <= DISK_COPY;
}

#endif
