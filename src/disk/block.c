#include "disk/block.h"

#include <string.h>

bool block_name_fits(const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

    return name != NULL && name[0] != '\0' && strchr(first, name[0]) != NULL &&
           strchr(name, '/') == NULL && strnlen(name, BLOCK_NAME_BYTES) < BLOCK_NAME_BYTES &&
           strcmp(name, "shadow") != 0;
}

static bool whole_blocks(uint64_t n)
{
    return n % BLOCK_BYTES == 0;
}

static void check_step(const struct block_step *s)
{
    CHECK(block_name_fits(s->name));
    switch (s->act) {
    case BLOCK_WRITE:
        CHECK(s->data != NULL && whole_blocks((uintptr_t)s->data));
        CHECK(s->bytes > 0 && whole_blocks(s->bytes) && whole_blocks(s->at));
        break;
    case BLOCK_CREATE:
    case BLOCK_GROW:
        CHECK(whole_blocks(s->bytes));
        break;
    case BLOCK_RENAME:
        CHECK(block_name_fits(s->to) && strcmp(s->name, s->to) != 0);
        break;
    case BLOCK_REMOVE:
        break;
    default:
        CHECK(!"a known step");
    }
}

/* What only a caller can do wrong is found here, on whatever the files lie. */
void block_begin(struct block *b, enum block_lane lane, const struct block_step *steps,
                 uint32_t count)
{
    CHECK(lane < BLOCK_LANES && count <= BLOCK_STEPS_MAX);
    for (uint32_t i = 0; i < count; i++)
        check_step(&steps[i]);
    b->ops->begin(b, lane, steps, count);
}

enum block_status block_wait(struct block *b, enum block_lane lane)
{
    enum block_status status;

    while ((status = block_poll(b, lane)) == BLOCK_BUSY)
        if (b->ops->wait)
            b->ops->wait(b, lane);
    return status;
}

static void check_read(const char *name, uint64_t at, const void *into, uint64_t bytes)
{
    CHECK(block_name_fits(name) && whole_blocks(at) && whole_blocks(bytes));
    CHECK(into != NULL && whole_blocks((uintptr_t)into));
}

int block_read(struct block *b, const char *name, uint64_t at, void *into, uint64_t bytes,
               struct err *e)
{
    check_read(name, at, into, bytes);
    return b->ops->read(b, name, at, into, bytes, e);
}

void block_ahead(struct block *b, const char *name, uint64_t at, void *into, uint64_t bytes)
{
    check_read(name, at, into, bytes);
    if (b->ops->ahead)
        b->ops->ahead(b, name, at, into, bytes);
}
