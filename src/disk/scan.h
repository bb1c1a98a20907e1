/* Bytes to what they mean: batches, slots of the host file, pieces of snapshots. No I/O, and no bytes that it could not be
 * given: whatever is not valid is refused, and nothing beyond the bytes is looked at. */
#ifndef DISK_SCAN_H
#define DISK_SCAN_H

#include "disk/format.h"

struct scan_batch {
    const unsigned char *start;
    const struct batch_header *header;
    const struct batch_item *items;
};

/* The batch that begins at `data`, which is at a multiple of 8, if header and directory are valid; groups is how many there may be.
 * Records are not looked at, but lie within it. */
bool scan_batch(const void *data, uint64_t bytes, const unsigned char *journal, uint32_t groups,
                struct scan_batch *);

/* Whether the record's bytes are as they were written; true of one without. */
bool scan_record(const struct scan_batch *, const struct batch_item *);
bool scan_records(const struct scan_batch *); /* of all of them */

/* The first batch at or behind `at` whose number is in [least, most]; *where it is. False: there is none. */
bool scan_find(const void *data, uint64_t bytes, uint64_t at, const unsigned char *journal,
               uint32_t groups, uint64_t least, uint64_t most, struct scan_batch *,
               uint64_t *where);

/* The record behind an item, as the caller of disk_replay sees it. */
struct disk_record scan_to_record(const struct scan_batch *, const struct batch_item *);

enum scan_slot { SCAN_SLOT_BAD, SCAN_SLOT_GOOD, SCAN_SLOT_LATER }; /* LATER: of a later version */

/* SLOT_BYTES of data. */
enum scan_slot scan_slot(const void *data);

/* Of both slots the one that counts; NULL, and *later is set if there is one of a later version. */
const struct slot *scan_host(const void *data, bool *later);

/* PIECE_BYTES of data: whether it is that piece of that snapshot. */
bool scan_piece(const void *data, const unsigned char *journal, uint32_t group, uint64_t pos,
                uint32_t number);

/* Puts the CRC in; what scan_batch, scan_slot and scan_piece look for. */
void scan_seal_batch(void *batch);
void scan_seal_slot(struct slot *);
void scan_seal_piece(void *piece);

/* "snap.7.4096" to 7 and 4096; "initial.7" to 7; "journal.00003" to 3. False: it is no such name. */
bool scan_snap_name(const char *name, uint32_t *group, uint64_t *pos);
bool scan_initial_name(const char *name, uint32_t *group);
bool scan_segment_name(const char *name, uint32_t *number);

#endif
