#include "agree/chain.h"

#include "base/grow.h"
#include "base/minmax.h"
#include "base/planted.h"

static void chain_room(struct chain *c, uint64_t bytes)
{
    uint64_t need = c->end - c->base + bytes;
    if (need <= c->room)
        return;
    c->room = max_u64(2 * c->room, need);
    c->bytes = grow("what a disk has of a log", c->bytes, 1, c->room);
}

void chain_add(struct chain *c, const struct entry *e)
{
    uint64_t size = entry_size(e->bytes);
    c->highest = max_u64(c->highest, e->ballot);
    if (e->pos < c->base || e->pos > c->end)
        return; /* in the snapshot; or behind a gap that none covers */
    struct entry *there = chain_at(c, e->pos);
    if (there != NULL && entry_same(there, e)) {
        there->ballot = e->ballot;
        if (PLANTED(suffix_dropped))
            c->end = e->pos + size;
        return;
    }
    c->end = e->pos;
    chain_room(c, size);
    memcpy(c->bytes + (e->pos - c->base), e, size);
    c->end += size;
}

void chain_reset(struct chain *c, uint64_t to)
{
    uint64_t pos = c->base;
    if (to <= c->base)
        return;
    while (pos < to && pos < c->end)
        pos += entry_size(chain_at(c, pos)->bytes);
    if (pos != to)
        c->end = pos;
    memmove(c->bytes, c->bytes + (pos - c->base), c->end - pos);
    c->end = to + (c->end - pos);
    c->base = to;
}

void chain_free(struct chain *c)
{
    grow_free(c->bytes);
    *c = (struct chain){0};
}
