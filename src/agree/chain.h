/* A chain: entries one behind the other, as a disk has them beyond its snapshot. An entry replaces what stands at its position; if it is
 * the same but for its stamp, what follows stays, else the chain ends with it. */
#ifndef AGREE_CHAIN_H
#define AGREE_CHAIN_H

#include "agree/entry.h"

struct chain {
    unsigned char *bytes; /* of entries [base, end) */
    uint64_t base, end, room;
    uint64_t highest; /* stamp of all that ever stood in it */
};

/* What stands at the position, or NULL: it is the next one. */
static inline struct entry *chain_at(const struct chain *c, uint64_t pos)
{
    return pos < c->end ? (struct entry *)(void *)(c->bytes + (pos - c->base)) : NULL;
}

void chain_add(struct chain *, const struct entry *);

/* What is below goes. Where no entry begins at `to`, all goes: none of what follows was decided, and what is next begins there. */
void chain_reset(struct chain *, uint64_t to);

void chain_free(struct chain *);

#endif
