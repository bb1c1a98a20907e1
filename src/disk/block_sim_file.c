#include "disk/block_sim_impl.h"

#include "base/grow.h"
#include "base/minmax.h"

#include <string.h>

static const char what[] = "a file of a simulated disk";

struct sim_file *sim_file_make(uint64_t bytes)
{
    struct sim_file *f = grow(what, NULL, sizeof *f, 1);

    *f = (struct sim_file){0};
    sim_file_grow(f, bytes);
    f->kept_bytes = bytes;
    return f;
}

void sim_file_grow(struct sim_file *f, uint64_t bytes)
{
    uint64_t had = f->bytes / BLOCK_BYTES, has = bytes / BLOCK_BYTES;

    CHECK(bytes >= f->bytes);
    f->blocks = grow(what, f->blocks, sizeof *f->blocks, has + 1);
    memset(f->blocks + had, 0, (has + 1 - had) * sizeof *f->blocks);
    f->bytes = bytes;
}

static void cache_clear(struct sim_file *f)
{
    for (uint32_t i = 0; i < f->cached; i++)
        grow_free(f->cache[i].data);
    f->cached = 0;
}

void sim_file_free(struct sim_file *f)
{
    cache_clear(f);
    for (uint64_t i = 0; i < f->bytes / BLOCK_BYTES; i++)
        grow_free(f->blocks[i]);
    grow_free(f->blocks);
    grow_free(f->cache);
    grow_free(f);
}

unsigned char *sim_file_block(struct sim_file *f, uint64_t at)
{
    unsigned char **b = &f->blocks[at / BLOCK_BYTES];

    if (!*b) {
        *b = grow(what, NULL, 1, BLOCK_BYTES);
        memset(*b, 0, BLOCK_BYTES);
    }
    return *b;
}

void sim_file_put(struct sim_file *f, uint64_t at, const unsigned char *from, uint64_t bytes)
{
    while (bytes > 0) {
        uint64_t within = at % BLOCK_BYTES;
        uint64_t n = min_u64(bytes, BLOCK_BYTES - within);
        memcpy(sim_file_block(f, at) + within, from, n);
        at += n;
        from += n;
        bytes -= n;
    }
}

void sim_file_get(const struct sim_file *f, uint64_t at, unsigned char *into, uint64_t bytes)
{
    while (bytes > 0) {
        const unsigned char *b = f->blocks[at / BLOCK_BYTES];
        uint64_t within = at % BLOCK_BYTES;
        uint64_t n = min_u64(bytes, BLOCK_BYTES - within);
        if (b)
            memcpy(into, b + within, n);
        else
            memset(into, 0, n);
        at += n;
        into += n;
        bytes -= n;
    }
}

void sim_file_cache(struct sim_file *f, uint64_t at, const unsigned char *from, uint64_t bytes)
{
    if (bytes == 0)
        return;
    f->cache = grow(what, f->cache, sizeof *f->cache, f->cached + 1);
    struct sim_cached *c = &f->cache[f->cached++];
    *c = (struct sim_cached){.at = at, .bytes = bytes, .data = grow(what, NULL, 1, bytes)};
    memcpy(c->data, from, bytes);
}

/* Lays over [at, at + bytes) what the cache has of it. */
static void cache_get(const struct sim_file *f, uint64_t at, unsigned char *into, uint64_t bytes)
{
    for (uint32_t i = 0; i < f->cached; i++) {
        const struct sim_cached *c = &f->cache[i];
        uint64_t from = max_u64(at, c->at);
        uint64_t to = min_u64(at + bytes, c->at + c->bytes);
        if (from < to)
            memcpy(into + (from - at), c->data + (from - c->at), to - from);
    }
}

void sim_file_flush(struct sim_file *f)
{
    for (uint32_t i = 0; i < f->cached; i++)
        sim_file_put(f, f->cache[i].at, f->cache[i].data, f->cache[i].bytes);
    cache_clear(f);
    f->kept_bytes = f->bytes;
}

static void file_shorten(struct sim_file *f, uint64_t bytes)
{
    for (uint64_t i = bytes / BLOCK_BYTES; i < f->bytes / BLOCK_BYTES; i++) {
        grow_free(f->blocks[i]);
        f->blocks[i] = NULL;
    }
    f->bytes = bytes;
}

/* Each sector comes to the platters by chance. Of several writes to the same one any may be the last that does. */
void sim_file_scatter(struct sim_file *f, struct rng *r, uint32_t ppm, uint64_t at,
                      const unsigned char *data, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += BLOCK_SECTOR_BYTES)
        if (rng_chance_ppm(r, ppm))
            sim_file_put(f, at + i, data + i, BLOCK_SECTOR_BYTES);
}

void sim_file_lose(struct sim_file *f, struct rng *r, uint32_t ppm)
{
    for (uint32_t i = 0; i < f->cached; i++)
        sim_file_scatter(f, r, ppm, f->cache[i].at, f->cache[i].data, f->cache[i].bytes);
    cache_clear(f);
    if (!rng_chance_ppm(r, ppm))
        file_shorten(f, f->kept_bytes);
    f->kept_bytes = f->bytes;
}

void sim_file_read(const struct sim_file *f, uint64_t at, unsigned char *into, uint64_t bytes)
{
    sim_file_get(f, at, into, bytes);
    cache_get(f, at, into, bytes);
}

uint64_t sim_file_written(const struct sim_file *f)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < f->kept_bytes / BLOCK_BYTES; i++)
        n += f->blocks[i] != NULL;
    return n;
}
