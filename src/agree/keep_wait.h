/* What was appended to a disk, and is yet to be known as durable: batch by batch, in their order. */
#ifndef AGREE_KEEP_WAIT_H
#define AGREE_KEEP_WAIT_H

#include "base/minmax.h"

#include <stdbool.h>
#include <string.h>

enum {
    SAVE_AT = 500,      /* thousandths of the journal in use, from which on it is made shorter */
    KEEP_WAITS_MAX = 8, /* more are taken together */
};

/* What was appended in one batch; 0: nothing of that kind. */
struct keep_wait {
    uint64_t batch;
    uint64_t run, copied;
    uint64_t pledge;
    uint64_t applied; /* as it is said with it */
};

struct keep_waits {
    struct keep_wait wait[KEEP_WAITS_MAX];
    uint32_t count;
};

static inline void keep_wait_for(struct keep_waits *w, const struct keep_wait *what)
{
    struct keep_wait *last = w->count > 0 ? &w->wait[w->count - 1] : NULL;
    if (last == NULL || (last->batch != what->batch && w->count < KEEP_WAITS_MAX)) {
        last = &w->wait[w->count++];
        *last = (struct keep_wait){0};
    }
    last->batch = what->batch;
    if (what->run != 0) {
        last->run = what->run;
        last->copied = what->copied;
    }
    last->pledge = max_u64(last->pledge, what->pledge);
    last->applied = max_u64(last->applied, what->applied);
}

/* Takes the first of them, if its batch is durable. */
static inline bool keep_wait_over(struct keep_waits *w, uint64_t done, struct keep_wait *out)
{
    if (w->count == 0 || w->wait[0].batch > done)
        return false;
    *out = w->wait[0];
    memmove(w->wait, w->wait + 1, --w->count * sizeof(*w->wait));
    return true;
}

#endif
