/* What a disk has of a log, put together from its records: a chain. An entry replaces what stands at its position; if it is the
 * same but for its stamp, what follows stays, else the chain ends with it. */
#ifndef AGREE_FOUND_H
#define AGREE_FOUND_H

#include "agree/entry.h"
#include "disk/disk.h"

/* Entries [base, end), one behind the other; they stand where the disk has read them to. */
struct found_list {
    const struct entry **entry;
    uint32_t count, room;
    uint64_t base, end;
};

struct found_chain {
    uint32_t payload_max;
    struct found_list of;
    struct found_list ahead; /* behind a gap: it goes on there when that is closed */
    uint64_t highest;        /* stamp of all that ever stood in it */
    bool bad;                /* no correct replica writes that */
};

/* The first entry that does not begin before pos, by its number; the count, if all do. */
uint32_t found_find(const struct found_list *, uint64_t pos);

void found_begin(struct found_list *, uint64_t at);

/* For disk_replay, with a struct found_chain. */
void found_take(void *chain, const struct disk_record *);

void found_free(struct found_chain *);

#endif
