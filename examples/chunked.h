/* A large state that can be saved while it changes: an array of bytes in chunks, copied on write.
 *
 * To freeze it is to copy the table of chunks. A chunk that is written while a save holds it is copied first, so
 * a save sees the bytes as they were. The functions below are what save_open, save_next, save_close, load_open,
 * load_next and load_close of a struct tram_machine need. One thread. */
#ifndef EXAMPLES_CHUNKED_H
#define EXAMPLES_CHUNKED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 << 10 };

struct chunk {
    uint32_t holders; /* the state, and each save that has not come to it */
    unsigned char bytes[CHUNK_BYTES];
};

struct chunked {
    struct chunk **chunk;
    uint64_t bytes;   /* of all */
    uint64_t load_at; /* while it is loaded: how many have come */
};

struct chunked_save {
    struct chunk **chunk;
    uint64_t bytes, at;
};

static inline uint64_t chunks_of(uint64_t bytes)
{
    return (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
}

static inline void chunk_drop(struct chunk *c)
{
    if (c && --c->holders == 0)
        free(c);
}

/* The chunk that holds this offset, for reading; or for writing. NULL: no memory. */
static inline const unsigned char *chunked_read(const struct chunked *s, uint64_t offset)
{
    return s->chunk[offset / CHUNK_BYTES]->bytes + offset % CHUNK_BYTES;
}

static inline unsigned char *chunked_write(struct chunked *s, uint64_t offset)
{
    struct chunk **c = &s->chunk[offset / CHUNK_BYTES];
    if (*c == NULL && (*c = calloc(1, sizeof(**c))) != NULL)
        (*c)->holders = 1;
    if (*c && (*c)->holders > 1) {
        struct chunk *own = malloc(sizeof(*own));
        if (own == NULL)
            return NULL;
        memcpy(own->bytes, (*c)->bytes, CHUNK_BYTES);
        own->holders = 1;
        (*c)->holders--;
        *c = own;
    }
    return *c ? (*c)->bytes + offset % CHUNK_BYTES : NULL;
}

static inline void chunked_clear(struct chunked *s)
{
    for (uint64_t i = 0; i < chunks_of(s->bytes); i++)
        chunk_drop(s->chunk[i]);
    free(s->chunk);
    *s = (struct chunked){0};
}

static inline bool chunked_resize(struct chunked *s, uint64_t bytes)
{
    uint64_t had = chunks_of(s->bytes), wants = chunks_of(bytes);
    struct chunk **table = realloc(s->chunk, (wants + 1) * sizeof(*table));
    if (table == NULL)
        return false;
    for (uint64_t i = had; i < wants; i++)
        table[i] = NULL;
    s->chunk = table;
    s->bytes = bytes;
    return true;
}

/* Makes a state of zeros. */
static inline bool chunked_init(struct chunked *s, uint64_t bytes)
{
    *s = (struct chunked){0};
    bool good = chunked_resize(s, bytes);
    for (uint64_t at = 0; good && at < bytes; at += CHUNK_BYTES)
        good = chunked_write(s, at) != NULL;
    return good;
}

/* ---- saving ---- */

static inline void *chunked_save_open(const struct chunked *s, uint64_t *bytes)
{
    struct chunked_save *save = malloc(sizeof(*save));
    struct chunk **table = malloc((chunks_of(s->bytes) + 1) * sizeof(*table));
    if (save == NULL || table == NULL) {
        free(save);
        free(table);
        return NULL;
    }
    for (uint64_t i = 0; i < chunks_of(s->bytes); i++) {
        table[i] = s->chunk[i];
        table[i]->holders++;
    }
    *save = (struct chunked_save){.chunk = table, .bytes = s->bytes};
    *bytes = s->bytes;
    return save;
}

static inline int chunked_save_next(struct chunked_save *save, void *out, uint32_t room)
{
    struct chunk **c = &save->chunk[save->at / CHUNK_BYTES];
    uint64_t left = save->bytes - save->at, n = CHUNK_BYTES - save->at % CHUNK_BYTES;
    n = n < left ? n : left;
    n = n < room ? n : room;
    if (n == 0)
        return 0;
    memcpy(out, (*c)->bytes + save->at % CHUNK_BYTES, n);
    save->at += n;
    if (save->at % CHUNK_BYTES == 0) { /* need not be copied any more when it is written */
        chunk_drop(*c);
        *c = NULL;
    }
    return (int)n;
}

static inline void chunked_save_close(struct chunked_save *save)
{
    for (uint64_t i = 0; i < chunks_of(save->bytes); i++)
        chunk_drop(save->chunk[i]);
    free(save->chunk);
    free(save);
}

/* ---- loading ---- */

static inline int chunked_load_open(struct chunked *s, uint64_t bytes)
{
    chunked_clear(s);
    return chunked_resize(s, bytes) ? 0 : -1;
}

static inline int chunked_load_next(struct chunked *s, const void *data, uint32_t bytes)
{
    const unsigned char *from = data;
    if (bytes > s->bytes - s->load_at)
        return -1;
    while (bytes > 0) {
        uint64_t n = CHUNK_BYTES - s->load_at % CHUNK_BYTES;
        n = n < bytes ? n : bytes;
        unsigned char *to = chunked_write(s, s->load_at);
        if (to == NULL)
            return -1;
        memcpy(to, from, n);
        from += n;
        s->load_at += n;
        bytes -= (uint32_t)n;
    }
    return 0;
}

static inline int chunked_load_close(struct chunked *s, bool whole)
{
    if (!whole)
        chunked_clear(s);
    return !whole || s->load_at == s->bytes ? 0 : -1;
}

#endif
