/* What a member keeps on its disk: logs. Each cell that is logged or durable has one, with its *versions*: the messages of the cell in their
 * order, each with its number (a stamp of vid and number), a time, who sent it, and its bytes. One more log has the views.
 *
 * A log is a row of *segments*, files of a fixed size that are written from front to back; what is appended is collected, and all that there is
 * when the disk is free goes out as one *batch* with one flush. versions_done and versions_reached say what is durable.
 *
 *      cell.3.00001   cell.3.00002 ...   views.00001 ...     segments
 *      | head 4 KiB | batch | batch | batch | zeros, or what a batch that was cut short has left |
 *
 *      batch   | struct versions_batch | record | record | ... | zeros up to 4 KiB |
 *      record  | struct version | payload, padded to 8 |
 *
 * The numbers of batches are without gaps over all segments of a log. A batch is good if its CRC is; one that is not, and that no later batch stands
 * behind, was cut short by a loss of power: nobody has counted on it, and it is written over. One that is not though later ones are there is damage: an
 * error that says where.
 *
 * What has been appended is taken back by a *cut*: a record that says that versions from that one on, before it, do not count.
 *
 * Nothing here waits, reads a clock or makes a system call, but through block.h, after versions_open. All of it belongs to the member's thread. The block has
 * two lanes: this file orders on both, so nothing else may use the block while the versions are open. */
#ifndef GROUP_VERSIONS_H
#define GROUP_VERSIONS_H

#include "base/digest.h"
#include "disk/block.h"

enum {
    VERSIONS_ID_BYTES = 16,
    VERSIONS_HASH_BYTES = 32,
    VERSIONS_SIGNATURE_BYTES = 64,
    VERSIONS_LOGS_MAX = 257,
};

/* Logs by number. */
enum { VERSIONS_VIEWS = 0 };
static inline uint32_t versions_of_cell(uint32_t cell)
{
    return cell + 1;
}

enum version_type {
    VERSION_MSG = 1,    /* a message that was received in order */
    VERSION_CUT,        /* versions from this one on, in records before, do not count */
    VERSION_CHECKPOINT, /* not used */
    /* Of the log of views; the versions are what its owner wants to be told by versions_found. */
    VERSION_VIEW,
    VERSION_GENERATION,
    VERSION_STATE, /* of a cell: a piece of a state that is behind the versions up to this one, which may stand before it: `seq` is its number, `life` the size of all, and with a `client` it is the last */
};

/* A record, as it stands in the file, little-endian. Versions of a log never fall, but by a cut. */
struct version {
    uint32_t bytes; /* of payload */
    uint32_t type;
    uint64_t version;
    uint64_t
        time; /* ns since 1970, hybrid: rises with every message of the cell, and is the same at all members */
    uint32_t sender, client; /* host; the client whom it relays, plus 1, else 0, */
    uint64_t life, seq; /* and its; else those of the sender's record, as far as they are known */
    uint32_t crc;       /* of these and of the payload; filled in by versions_append */
    uint32_t spare;
};

/* ---- opening ---- */

struct versions_log_options {
    uint32_t payload_max; /* of a record; 0: there is no such log */
    uint32_t
        buffer_bytes; /* what is collected while a batch is under way; at least what a record takes; 0: 1 MiB, or as much as that */
    bool sign;        /* its batches are signed */
};

/* Whose it is: compared with what stands in the files. */
struct versions_owner {
    unsigned char cluster[VERSIONS_ID_BYTES];
    uint32_t host;
};

/* Signs the batches of logs that are: a signature is over a digest of all that the log has up to there. In batches without one a checksum stands in its place. */
struct versions_signer {
    void (*sign)(void *ctx, uint32_t log, const struct digest *, unsigned char *signature);
    void *ctx;
};

struct versions_options {
    struct block *block; /* stays the caller's */
    struct versions_owner owner;
    const struct versions_log_options *log; /* views, then cells */
    uint32_t logs;                          /* cells + 1 */
    uint64_t
        segment_bytes; /* of the largest; 0: 64 MiB, or what the buffers need. The first ones of a log are smaller */
    uint64_t
        retry_ns; /* after which it is tried again where the disk had no room for a segment; 0: 1 s */
    struct versions_signer signer;
    /* One line for people: a tail that was cut, and the like. May be NULL. */
    void (*say)(void *ctx, const char *line);
    void *ctx;
};

struct versions;

/* Reads what there is of each log, as far as is needed to go on behind it, and waits for that. A bad tail is cut. An empty directory is a member's
 * that has never had anything. ERR_CORRUPT: a bad batch before good ones, with file and offset; ERR_REFUSED: the files are another cluster's or host's,
 * or of a later format. */
int versions_open(const struct versions_options *, struct versions **, struct err *);

/* What was appended and is not done is lost, as in a crash. What is under way points into it: the block is closed first. */
void versions_close(struct versions *);

/* ---- what was found ---- */

/* What a log has, cuts considered, as of versions_open. All 0: nothing. */
struct versions_found {
    uint64_t records; /* appended in its whole life, those that do not count too */
    uint64_t first;   /* versions below this one are gone with old segments */
    uint64_t
        reach; /* its length: of all versions below this one it has what there was to have, and nothing beyond */
    uint64_t time;       /* of the last message that counts */
    uint64_t checkpoint; /* version of the last checkpoint; 0: there is none */
    uint64_t sure;       /* as versions_set_sure was told last */
};

const struct versions_found *versions_found(const struct versions *, uint32_t log);

/* ---- reading ---- */

/* Return nonzero to end it: versions_read returns that. The payload is good during the call. */
typedef int versions_fn(void *ctx, const struct version *, const void *payload);

/* Calls fn for the records of a log that count, cuts left out, in their order, from the first whose version and time are not below these: 0, 0: all. Reads
 * any block that has such files, of a member that runs too: then it ends where whole batches do. Waits for the disk: for the time before the thread that
 * polls begins, or for another thread and a block of its own. ERR_CORRUPT: as versions_open. */
int versions_read(struct block *, const struct versions_owner *, uint32_t log, uint64_t version,
                  uint64_t time, versions_fn *fn, void *ctx, struct err *);

/* What a log has, as it was checked: every batch, every record, and that each batch says what all before it was. */
struct versions_verified {
    uint64_t batches, records, bytes; /* of files, as far as they are written */
    uint64_t first, reach;            /* versions from the one, below the other */
    uint64_t time;                    /* of the last message */
    uint64_t with_signature;          /* batches that have one; */
    uint64_t signed_from;             /* versions from this one on are in these, */
    uint64_t unsigned_since;          /* but for so many batches */
};

/* Reads all of it. `check` is asked of every batch that is signed; NULL: signatures are not looked at. ERR_CORRUPT says which file and where. */
int versions_verify(struct block *, const struct versions_owner *, uint32_t log,
                    bool (*check)(void *ctx, uint32_t log, const struct digest *,
                                  const unsigned char *signature),
                    void *ctx, struct versions_verified *, struct err *);

/* ---- appending ---- */

/* Appends a record; the payload is copied. False: there is no room now, nothing is appended. */
bool versions_append(struct versions *, uint32_t log, const struct version *, const void *payload);
bool versions_has_room(const struct versions *, uint32_t log, uint32_t bytes);
/* Room for records that have so many bytes together, with their heads. */
bool versions_has_bytes(const struct versions *, uint32_t log, uint64_t bytes);

/* What was appended has all versions below this one; a record says so of its own version by itself. */
void versions_reach(struct versions *, uint32_t log, uint64_t version);
/* And so much of that is durable. */
uint64_t versions_reached(const struct versions *, uint32_t log);
/* As appended. */
uint64_t versions_end(const struct versions *, uint32_t log);

/* Is all that was appended on the disk, and how far it reaches? If numbers without a message are all that is not, that is written, too. */
bool versions_settle(struct versions *, uint32_t log);

/* Versions below this one will not be cut; goes along with the next batch. A cut below it takes that back. */
void versions_set_sure(struct versions *, uint32_t log, uint64_t version);
uint64_t versions_sure(const struct versions *, uint32_t log);

/* Appends a cut: versions from this one on do not count, and the last message that does has that time. The log goes on with this one, or with a
 * higher one, of a later view. False: no room now. */
bool versions_cut(struct versions *, uint32_t log, uint64_t version, uint64_t time);

/* Places in a log, which rise with each record: where the next one goes, and up to where all is durable. */
uint64_t versions_place(const struct versions *, uint32_t log);
uint64_t versions_done(const struct versions *, uint32_t log);

/* What is appended from now on goes into this segment or later ones; the oldest that there is; and how many bytes there are from one on. */
uint32_t versions_segment(const struct versions *, uint32_t log);
/* Versions from this one on are in that segment and later ones. */
uint32_t versions_segment_of(const struct versions *, uint32_t log, uint64_t version);
uint32_t versions_oldest(const struct versions *, uint32_t log);
uint64_t versions_bytes(const struct versions *, uint32_t log, uint32_t from);
/* Segments before this one may go: later ones have a state that is behind what they have, or nobody wants them. */
void versions_drop(struct versions *, uint32_t log, uint32_t before);

/* ---- stepping ---- */

/* Takes note of what is durable, and begins the next batch. Returns work done. */
int versions_round(struct versions *, uint64_t now_ns);
/* When versions_round has something to do though nobody appends; UINT64_MAX: never. What is under way wakes by itself (block). */
uint64_t versions_next_ns(const struct versions *);

/* NULL, or what failed, a full disk too: nothing is written any more, and its owner is to leave with that line. */
const char *versions_failure(const struct versions *);

struct versions_status {
    uint64_t batches, bytes; /* written since it was opened, */
    uint64_t records;        /* and appended */
    uint64_t waiting_bytes;  /* collected and not yet written, of all logs */
    bool writing;            /* a batch is on its way */
    bool no_room; /* the disk has none for another segment: tried again while the last one lasts */
};

void versions_status(const struct versions *, struct versions_status *);

#endif
