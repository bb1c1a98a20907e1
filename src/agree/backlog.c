#include "agree/backlog.h"

#include "base/err.h"
#include "base/grow.h"

#include <string.h>

enum { BLOCK_BYTES = 64 << 10 };

struct backlog_block {
    struct backlog_block *next;
    uint32_t room, end, at; /* entries stand at [at, end) */
    _Alignas(8) unsigned char bytes[];
};

static struct backlog_block *block_make(struct backlog *b, uint64_t least)
{
    struct backlog_block *k = b->spare;
    uint64_t room = least > BLOCK_BYTES ? least : BLOCK_BYTES;
    if (k && k->room >= least) {
        b->spare = NULL;
    } else {
        k = grow("the entries behind a state that is sent", NULL, 1, sizeof(*k) + room);
        k->room = (uint32_t)room;
    }
    k->next = NULL;
    k->end = k->at = 0;
    return k;
}

void backlog_add(struct backlog *b, const struct entry *e)
{
    uint64_t size = entry_size(e->bytes);
    struct backlog_block *k = b->last;
    if (k == NULL || k->room - k->end < size) {
        k = block_make(b, size);
        if (b->last)
            b->last->next = k;
        else
            b->first = k;
        b->last = k;
    }
    memcpy(k->bytes + k->end, e, size);
    k->end += (uint32_t)size;
    b->bytes += size;
}

const struct entry *backlog_first(const struct backlog *b)
{
    const struct backlog_block *k = b->first;
    return k ? (const struct entry *)(const void *)(k->bytes + k->at) : NULL;
}

void backlog_pop(struct backlog *b)
{
    struct backlog_block *k = b->first;
    CHECK(k != NULL);
    uint64_t size = entry_size(backlog_first(b)->bytes);
    k->at += (uint32_t)size;
    b->bytes -= size;
    if (k->at < k->end)
        return;
    b->first = k->next;
    if (b->first == NULL)
        b->last = NULL;
    grow_free(b->spare);
    b->spare = k;
}

uint32_t backlog_straight(const struct backlog *b, uint32_t most)
{
    const struct backlog_block *k = b->first;
    uint32_t bytes = 0;
    while (k && k->at + bytes < k->end) {
        const struct entry *e = (const void *)(k->bytes + k->at + bytes);
        if (bytes > 0 && bytes + entry_size(e->bytes) > most)
            break;
        bytes += (uint32_t)entry_size(e->bytes);
    }
    return bytes;
}

void backlog_clear(struct backlog *b)
{
    while (b->first)
        backlog_pop(b);
    grow_free(b->spare);
    *b = (struct backlog){0};
}
