#include "unit/snap.h"

#include "base/err.h"
#include "base/grow.h"

#include <stdlib.h>

enum {
    WORDS_BYTES = 16,         /* what stands before the part */
    PART_BYTES_MAX = 1 << 30, /* a part that says more is none */
};

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
    s->head = grow("a snapshot", s->head, 1, WORDS_BYTES + part);
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

static bool save_ready(void *ctx)
{
    const struct snap *s = ctx;
    return state_save_ready(s->opt.machine, s->opt.machine_ctx);
}

static void *save_open(void *ctx, uint64_t *bytes)
{
    struct snap *s = ctx;
    uint64_t most = s->opt.bytes(s->opt.ctx);
    head_room(s, most);
    s->machine_bytes = STATE_UNKNOWN;
    s->machine_save = s->opt.machine->save_open(s->opt.machine_ctx, &s->machine_bytes);
    if (s->machine_save == NULL)
        return NULL;
    uint64_t part = s->opt.save(s->opt.ctx, s->head + WORDS_BYTES);
    CHECK(part <= most);
    snap_put(snap_put(s->head, part), s->machine_bytes);
    s->head_bytes = WORDS_BYTES + part;
    s->head_at = 0;
    *bytes = s->machine_bytes == STATE_UNKNOWN ? STATE_UNKNOWN : s->head_bytes + s->machine_bytes;
    return s;
}

static int save_next(void *ctx, void *save, void *out, uint32_t room)
{
    struct snap *s = ctx;
    (void)save;
    uint64_t left = s->head_bytes - s->head_at;
    if (left == 0)
        return s->opt.machine->save_next(s->opt.machine_ctx, s->machine_save, out, room);
    uint64_t n = left < room ? left : room;
    memcpy(out, s->head + s->head_at, n);
    s->head_at += n;
    return (int)n;
}

static void save_close(void *ctx, void *save)
{
    struct snap *s = ctx;
    (void)save;
    s->opt.machine->save_close(s->opt.machine_ctx, s->machine_save);
    s->machine_save = NULL;
    snap_close(s);
}

static int load_open(void *ctx, uint64_t bytes)
{
    struct snap *s = ctx;
    (void)bytes;
    head_room(s, 0);
    s->head_at = 0;
    s->head_bytes = UINT64_MAX;
    s->machine_loads = false;
    return 0;
}

/* The words are there: they say how long the part is. */
static bool load_words(struct snap *s)
{
    uint64_t part;
    snap_get(snap_get(s->head, &part), &s->machine_bytes);
    if (part > PART_BYTES_MAX)
        return false;
    head_room(s, part);
    s->head_bytes = WORDS_BYTES + part;
    return true;
}

static int load_part(struct snap *s)
{
    if (!s->opt.load(s->opt.ctx, s->head + WORDS_BYTES, s->head_bytes - WORDS_BYTES))
        return -1;
    s->machine_loads = true;
    return s->opt.machine->load_open(s->opt.machine_ctx, s->machine_bytes);
}

/* Up to `bytes` of the words and the part; returns how many, or negative. */
static int64_t load_head(struct snap *s, const unsigned char *from, uint64_t bytes)
{
    uint64_t want = (s->head_at < WORDS_BYTES ? WORDS_BYTES : s->head_bytes) - s->head_at;
    uint64_t n = want < bytes ? want : bytes;
    memcpy(s->head + s->head_at, from, n);
    s->head_at += n;
    if (s->head_at == WORDS_BYTES && !load_words(s))
        return -1;
    if (s->head_at == s->head_bytes && load_part(s) < 0)
        return -1;
    return (int64_t)n;
}

static int load_next(void *ctx, const void *data, uint32_t bytes)
{
    struct snap *s = ctx;
    const unsigned char *from = data;
    while (bytes > 0 && s->head_at < s->head_bytes) {
        int64_t n = load_head(s, from, bytes);
        if (n < 0)
            return -1;
        from += n;
        bytes -= (uint32_t)n;
    }
    if (bytes == 0)
        return 0;
    return s->opt.machine->load_next(s->opt.machine_ctx, from, bytes);
}

static int load_close(void *ctx, bool whole)
{
    struct snap *s = ctx;
    bool loads = s->machine_loads;
    s->machine_loads = false;
    snap_close(s);
    if (!loads)
        return whole ? -1 : 0;
    return s->opt.machine->load_close(s->opt.machine_ctx, whole);
}

const struct state_ops snap_ops = {
    .save_ready = save_ready,
    .save_open = save_open,
    .save_next = save_next,
    .save_close = save_close,
    .load_open = load_open,
    .load_next = load_next,
    .load_close = load_close,
};
