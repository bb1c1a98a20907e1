/* The inside of logs on disk: what stands in the files, and what versions.c (appending, rounds), versions_open.c and versions_read.c share. */
#ifndef GROUP_VERSIONS_IMPL_H
#define GROUP_VERSIONS_IMPL_H

#include "base/planted.h"
#include "group/versions.h"

#include <stddef.h>

enum {
    VERSIONS_FORMAT = 1,
    VERSIONS_SEGMENT_MAGIC = 0x536d5256, /* "VRmS" */
    VERSIONS_BATCH_MAGIC = 0x426d5256,   /* "VRmB" */
    VERSIONS_SIGNED = 1,                 /* flag of a batch */
    VERSIONS_FIRST_BYTES =
        1 << 20, /* of a log's first segment; each is twice as large as the one before */
    VERSIONS_HALVES = 2,
};

/* The first block of a segment; the rest of the block is zeros. */
struct versions_segment {
    uint32_t magic, format;
    unsigned char cluster[VERSIONS_ID_BYTES];
    uint32_t host, log;
    uint32_t index; /* from 1 */
    uint32_t spare;
    uint64_t batch;      /* the first one in it */
    uint64_t version;    /* reach, and */
    uint64_t time;       /* time of the last message, before it */
    struct digest chain; /* over all before it */
    uint32_t crc;        /* of what is before it here */
    uint32_t spare2;
};

struct versions_batch {
    uint32_t magic;
    uint32_t bytes; /* of all of it; a multiple of BLOCK_BYTES */
    uint64_t number;
    uint64_t reach, time, checkpoint, sure; /* behind it: as in struct versions_found */
    uint64_t total;                         /* records of the log, those of this batch too */
    uint32_t used;                          /* bytes of records */
    uint32_t records;
    uint32_t flags;
    uint32_t crc;        /* of all of it but the zeros, with 0 for this */
    struct digest chain; /* over all before it */
    unsigned char signature[VERSIONS_SIGNATURE_BYTES]; /* of the chain behind it */
};

_Static_assert(sizeof(struct version) == 56, "head of a record");
_Static_assert(sizeof(struct versions_segment) == 104, "head of a segment");
_Static_assert(sizeof(struct versions_batch) == 168, "head of a batch");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little-endian, unconverted");

static inline uint64_t versions_padded(uint64_t bytes)
{
    return (bytes + 7) & ~UINT64_C(7);
}

static inline uint64_t versions_blocks(uint64_t bytes)
{
    return (bytes + BLOCK_BYTES - 1) & ~(uint64_t)(BLOCK_BYTES - 1);
}

/* ---- versions_read.c ---- */

void versions_name(char *name, uint32_t log, uint32_t index);
bool versions_is_name(const char *name, uint32_t *log, uint32_t *index);

/* Whether it is a head of that segment, whosesoever it is; whether it is that owner's. */
bool versions_segment_good(const struct versions_segment *, uint32_t log, uint32_t index);
int versions_segment_whose(const struct versions_segment *, const struct versions_owner *,
                           const char *name, struct err *);
void versions_segment_seal(struct versions_segment *);

/* Whether a batch begins there, in so many bytes; without its records' CRCs, which are in its own. */
bool versions_batch_good(const void *data, uint64_t bytes);
void versions_batch_seal(struct versions_batch *);
/* The next record of a good batch at *at, which begins at sizeof(struct versions_batch); NULL: there is none, or it is not one. */
const struct version *versions_next_record(const struct versions_batch *, uint32_t *at);
/* The chain behind a batch: a digest if it is signed, else a checksum. */
struct digest versions_chain(const struct versions_batch *);

struct versions_file {
    uint32_t log, index;
    uint64_t bytes;
};

/* Files of logs, by log and index. */
struct versions_files {
    struct versions_file *file;
    uint32_t count, room;
    uint32_t only; /* this log; UINT32_MAX: all */
};

int versions_list(struct block *, uint32_t only, struct versions_files *, struct err *);

/* Where somebody reads in a log. */
struct versions_cursor {
    struct block *block;
    const struct versions_owner *owner;
    const struct versions_file *file; /* of this log, without gaps */
    uint32_t files;
    uint32_t at_file;
    uint64_t at;     /* in it; 0: its head is not read */
    uint64_t number; /* of the next batch; 0: whatever comes */
    uint64_t total;  /* records before the batch */
    unsigned char *memory;
    uint64_t memory_bytes;
    struct versions_segment head; /* of the file */
};

/* The next good batch; NULL: there is none (*rc 0), or there is damage, or it cannot be read. */
const struct versions_batch *versions_cursor_next(struct versions_cursor *, int *rc, struct err *);
void versions_cursor_end(struct versions_cursor *);
/* The head of a file: whether it is good. */
bool versions_cursor_head(struct versions_cursor *, uint32_t file, struct versions_segment *,
                          int *rc, struct err *);

/* ---- versions.c, versions_open.c ---- */

enum segment_next {
    NEXT_NONE,
    NEXT_MAKING,
    NEXT_READY,
};

struct version_log {
    uint32_t payload_max; /* 0: there is no such log */
    bool sign;
    uint32_t half_bytes;
    unsigned char *half[VERSIONS_HALVES];
    uint32_t filling;       /* which of them; the other one is written, or free */
    uint32_t used, records; /* in it: bytes with the head, and records */
    bool writing;

    /* As appended, as of the batch that is written, durable. */
    uint64_t reach, reach_written, reach_done;
    uint64_t place, place_written, place_done;
    uint64_t time, time_written, checkpoint, sure, total;
    uint64_t number; /* of the next batch */
    struct digest chain;

    uint32_t oldest, index; /* segments; index 0: none has begun */
    uint64_t at, bytes;     /* where the next batch goes in that one, and how long it is */
    enum segment_next next;
    uint64_t next_bytes;
    struct versions_segment *head; /* page of its own: of a segment that begins */
    uint64_t *first;               /* by index - oldest: version with which that segment begins */
    uint32_t firsts;
    uint32_t drop_before;             /* segments with a lower index */
    char name[BLOCK_NAME_BYTES];      /* of the segment, */
    char bulk_name[BLOCK_NAME_BYTES]; /* and of what BLOCK_BULK makes or removes */
    struct versions_found found;
};

enum versions_bulk { VERSIONS_BULK_NONE, VERSIONS_BULK_MAKE, VERSIONS_BULK_REMOVE };

enum { VERSIONS_TEXT_BYTES = 200 };

struct versions {
    struct block *block;
    struct versions_owner owner;
    struct versions_signer signer;
    void (*say)(void *ctx, const char *line);
    void *ctx;
    struct version_log *log;
    uint32_t logs;
    uint64_t segment_bytes, first_bytes;
    uint64_t retry_ns, now_ns;
    bool writing;  /* an order is under way on BLOCK_JOURNAL */
    uint32_t turn; /* of the logs, which is written first */
    enum versions_bulk bulk;
    uint32_t bulk_log;
    uint64_t no_room_ns; /* when the disk had none for a segment; 0: it has */
    char failure[VERSIONS_TEXT_BYTES];
    uint64_t batches, bytes, records;
};

/* The size of that segment of a log. */
uint64_t versions_segment_bytes(const struct versions *, uint32_t index);
/* Another segment of it begins with that version. */
void versions_note_first(struct version_log *, uint64_t version);
bool versions_record_good(const struct version *);

#endif
