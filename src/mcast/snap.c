#include "mcast/snap.h"

#include "base/grow.h"

#include <stdlib.h>

enum { WORDS_BYTES = 16 }; /* what stands before the part */

void snap_open(struct snap *s, const struct snap_options *options)
{
    *s = (struct snap){.opt = *options};
}

void snap_close(struct snap *s)
{
    free(s->head);
    s->head = NULL;
}

/* Room for the words and a part of this size. What is in it stays. */
static void head_room(struct snap *s, uint64_t part)
{
    s->head = grow(s->head, 1, WORDS_BYTES + part);
}

const unsigned char *snap_sized(const unsigned char **at, const unsigned char *end, uint64_t *bytes)
{
    if (end - *at < 8)
        return NULL;
    const unsigned char *part = snap_get(*at, bytes);
    if (*bytes > (uint64_t)(end - part))
        return NULL;
    *at = part + *bytes;
    return part;
}

uint64_t snap_save_open(struct snap *s)
{
    uint64_t most = s->opt.bytes(s->opt.ctx);
    head_room(s, most);
    s->machine_bytes = s->opt.machine->save_open(s->opt.machine_ctx);
    uint64_t part = s->opt.save(s->opt.ctx, s->head + WORDS_BYTES);
    CHECK(part <= most);
    snap_put(snap_put(s->head, part), s->machine_bytes);
    s->head_bytes = WORDS_BYTES + part;
    return s->head_bytes + s->machine_bytes;
}

void snap_save_read(struct snap *s, uint64_t offset, void *out, uint32_t bytes)
{
    unsigned char *to = out;
    if (offset < s->head_bytes) {
        uint64_t n = s->head_bytes - offset;
        n = n < bytes ? n : bytes;
        memcpy(to, s->head + offset, n);
        to += n;
        offset += n;
        bytes -= (uint32_t)n;
    }
    /* The transfer is padded to 8 bytes. */
    uint64_t end = s->head_bytes + s->machine_bytes;
    uint64_t real = offset < end ? end - offset : 0;
    real = real < bytes ? real : bytes;
    if (real > 0)
        s->opt.machine->save_read(s->opt.machine_ctx, offset - s->head_bytes, to, (uint32_t)real);
    memset(to + real, 0, bytes - real);
}

void snap_save_close(struct snap *s)
{
    s->opt.machine->save_close(s->opt.machine_ctx);
    snap_close(s);
}

void snap_load_open(struct snap *s, uint64_t bytes)
{
    head_room(s, 0);
    s->load_at = 0;
    s->load_bytes = bytes;
    s->head_bytes = UINT64_MAX;
}

/* The words are there: they say how the rest divides. */
static void load_words(struct snap *s)
{
    uint64_t part;
    snap_get(snap_get(s->head, &part), &s->machine_bytes);
    CHECK(part <= s->load_bytes);
    head_room(s, part);
    s->head_bytes = WORDS_BYTES + part;
}

/* Up to `bytes` of the words and the part; returns how many. */
static uint64_t load_head(struct snap *s, const unsigned char *from, uint64_t bytes)
{
    uint64_t want = (s->load_at < WORDS_BYTES ? WORDS_BYTES : s->head_bytes) - s->load_at;
    uint64_t n = want < bytes ? want : bytes;
    memcpy(s->head + s->load_at, from, n);
    s->load_at += n;
    if (s->load_at == WORDS_BYTES)
        load_words(s);
    if (s->load_at == s->head_bytes) {
        CHECK(s->opt.load(s->opt.ctx, s->head + WORDS_BYTES, s->head_bytes - WORDS_BYTES));
        s->opt.machine->load_open(s->opt.machine_ctx, s->machine_bytes);
    }
    return n;
}

void snap_load_write(struct snap *s, const void *data, uint32_t bytes)
{
    const unsigned char *from = data;
    while (bytes > 0 && s->load_at < s->head_bytes) {
        uint64_t n = load_head(s, from, bytes);
        from += n;
        bytes -= (uint32_t)n;
    }
    /* Behind the machine's state there may be padding. */
    uint64_t left = bytes > 0 ? s->head_bytes + s->machine_bytes - s->load_at : 0;
    uint64_t n = left < bytes ? left : bytes;
    if (n > 0)
        s->opt.machine->load_write(s->opt.machine_ctx, from, (uint32_t)n);
    s->load_at += n;
}

void snap_load_close(struct snap *s)
{
    snap_close(s);
    s->opt.machine->load_close(s->opt.machine_ctx);
}
