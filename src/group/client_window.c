/* What a client has under way, and the bytes of it: each cell may have as much as is left for the others then, so what stands still in one leaves
 * room for the next. Messages of a cell are in a list, in their order. */
#include "group/client_impl.h"

#include <stdlib.h>

enum { BLOCK = 128 }; /* of the store */

_Static_assert((CLIENT_WINDOW & (CLIENT_WINDOW - 1)) == 0, "tickets say where they are");

/* ---- the store ---- */

static uint32_t blocks_of(uint32_t bytes)
{
    return (bytes + BLOCK - 1) / BLOCK;
}

static uint32_t store_put(struct client_window *w, const void *data, uint32_t bytes)
{
    uint32_t first = w->block_free, *link = &first;
    for (uint32_t at = 0; at < bytes; at += BLOCK) {
        uint32_t block = w->block_free;
        w->block_free = w->block_after[block];
        w->blocks_left--;
        *link = block;
        link = &w->block_after[block];
        memcpy(w->store + (size_t)block * BLOCK, (const unsigned char *)data + at,
               min_u64(BLOCK, bytes - at));
    }
    return first;
}

static void store_give_back(struct client_window *w, uint32_t first, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes; at += BLOCK) {
        uint32_t next = w->block_after[first];
        w->block_after[first] = w->block_free;
        w->block_free = first;
        w->blocks_left++;
        first = next;
    }
}

void window_data(const struct client_window *w, const struct pending *p, unsigned char *out)
{
    uint32_t block = p->block;
    for (uint32_t at = 0; at < p->bytes; at += BLOCK) {
        memcpy(out + at, w->store + (size_t)block * BLOCK, min_u64(BLOCK, p->bytes - at));
        block = w->block_after[block];
    }
}

/* ---- messages ---- */

static bool has_room(const struct client_window *w, const struct window_list *l, uint32_t bytes)
{
    uint32_t left = CLIENT_WINDOW - w->count, blocks = blocks_of(bytes);
    if (blocks > w->blocks_left || l->count >= left)
        return false;
    return l->blocks == 0 || l->blocks + blocks <= w->blocks_left - blocks;
}

struct pending *window_add(struct client_window *w, uint32_t way, const struct client_request *head,
                           const void *data, uint32_t bytes)
{
    struct window_list *l = &w->list[way];
    if (!has_room(w, l, bytes))
        return NULL;
    uint32_t slot = w->free;
    struct pending *p = &w->pending[slot];
    w->free = p->after;
    *p = (struct pending){.ticket = ++w->tickets * CLIENT_WINDOW + slot,
                          .head = *head,
                          .way = way,
                          .bytes = bytes,
                          .host = NOWHERE,
                          .before = l->last,
                          .after = NO_SLOT};
    p->head.number = p->ticket;
    p->block = store_put(w, data, bytes);
    *(l->last == NO_SLOT ? &l->first : &w->pending[l->last].after) = slot;
    l->last = slot;
    l->unsent = l->unsent == NO_SLOT ? slot : l->unsent;
    l->blocks += blocks_of(bytes);
    l->count++;
    w->count++;
    w->unsent++;
    return p;
}

void window_sent(struct client_window *w, struct pending *p, uint32_t host)
{
    p->host = host;
    w->list[p->way].unsent = p->after;
    w->unsent--;
}

bool window_unsend(struct client_window *w, uint32_t way)
{
    struct window_list *l = &w->list[way];
    bool any = false;
    for (uint32_t slot = l->first; slot != l->unsent; slot = w->pending[slot].after) {
        w->pending[slot].host = NOWHERE;
        w->pending[slot].again = any = true;
        w->unsent++;
    }
    l->unsent = l->first;
    return any;
}

void window_remove(struct client_window *w, struct pending *p)
{
    struct window_list *l = &w->list[p->way];
    uint32_t slot = (uint32_t)(p->ticket % CLIENT_WINDOW);
    *(p->before == NO_SLOT ? &l->first : &w->pending[p->before].after) = p->after;
    *(p->after == NO_SLOT ? &l->last : &w->pending[p->after].before) = p->before;
    l->unsent = l->unsent == slot ? p->after : l->unsent;
    store_give_back(w, p->block, p->bytes);
    l->blocks -= blocks_of(p->bytes);
    l->count--;
    w->count--;
    w->unsent -= p->host == NOWHERE;
    p->ticket = 0;
    p->after = w->free;
    w->free = slot;
}

struct pending *window_find(struct client_window *w, uint64_t ticket)
{
    struct pending *p = &w->pending[ticket % CLIENT_WINDOW];
    return ticket && p->ticket == ticket ? p : NULL;
}

/* ---- opening ---- */

int window_open(struct client_window *w, uint32_t cells, uint32_t store_bytes)
{
    uint32_t blocks = blocks_of(store_bytes);
    w->list = calloc(cells, sizeof(*w->list));
    w->store = calloc(blocks, BLOCK);
    w->block_after = calloc(blocks, sizeof(*w->block_after));
    if (!w->list || !w->store || !w->block_after)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < cells; i++)
        w->list[i].first = w->list[i].last = w->list[i].unsent = NO_SLOT;
    for (uint32_t i = 0; i < CLIENT_WINDOW; i++)
        w->pending[i].after = i + 1;
    for (uint32_t i = 0; i < blocks; i++)
        w->block_after[i] = i + 1;
    w->blocks_left = blocks;
    return 0;
}

void window_close(struct client_window *w)
{
    free(w->list);
    free(w->store);
    free(w->block_after);
}
