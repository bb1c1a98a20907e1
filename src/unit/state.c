#include "unit/state.h"

#include "base/err.h"

#include <string.h>

static void *block_save_open(void *ctx, uint64_t *bytes)
{
    struct state_block *b = ctx;
    CHECK(b->bytes <= sizeof(b->moved));
    memcpy(b->moved, b->data, b->bytes);
    b->at = 0;
    *bytes = b->bytes;
    return b;
}

static int block_save_next(void *ctx, void *save, void *out, uint32_t room)
{
    struct state_block *b = ctx;
    uint32_t left = b->bytes - b->at, bytes = left < room ? left : room;
    (void)save;
    memcpy(out, b->moved + b->at, bytes);
    b->at += bytes;
    return (int)bytes;
}

static void block_save_close(void *ctx, void *save)
{
    (void)ctx;
    (void)save;
}

static int block_load_open(void *ctx, uint64_t bytes)
{
    struct state_block *b = ctx;
    b->at = 0;
    return bytes == b->bytes && bytes <= sizeof(b->moved) ? 0 : -1;
}

static int block_load_next(void *ctx, const void *data, uint32_t bytes)
{
    struct state_block *b = ctx;
    if (bytes > b->bytes - b->at)
        return -1;
    memcpy(b->moved + b->at, data, bytes);
    b->at += bytes;
    return 0;
}

static int block_load_close(void *ctx, bool whole)
{
    struct state_block *b = ctx;
    if (!whole)
        return 0;
    if (b->at != b->bytes)
        return -1;
    memcpy(b->data, b->moved, b->bytes);
    return 0;
}

const struct state_ops state_block_ops = {
    .save_open = block_save_open,
    .save_next = block_save_next,
    .save_close = block_save_close,
    .load_open = block_load_open,
    .load_next = block_load_next,
    .load_close = block_load_close,
};
