/* Decided entries that a leader keeps in private memory for a replica that is being brought up to date, so that its
 * log ring can go on meanwhile; and that a replica keeps until its disk can have them. First in, first out; grows while a transfer lasts, and only then. */
#ifndef AGREE_BACKLOG_H
#define AGREE_BACKLOG_H

#include "agree/entry.h"

struct backlog_block;

struct backlog {
    struct backlog_block *first, *last;
    struct backlog_block *spare; /* one that was emptied, for the next */
    uint64_t bytes;              /* of entries in it */
};

void backlog_add(struct backlog *, const struct entry *);

/* The oldest entry, NULL if there is none; stays until it is popped. */
const struct entry *backlog_first(const struct backlog *);
void backlog_pop(struct backlog *);

/* Bytes of the oldest entries that stand one behind the other from the first on: at most so many, or one entry. */
uint32_t backlog_straight(const struct backlog *, uint32_t most);

/* Frees everything. */
void backlog_clear(struct backlog *);

#endif
