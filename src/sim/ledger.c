#include "sim/ledger.h"

#include <string.h>

static unsigned char pad_byte(uint64_t offset)
{
    return (unsigned char)(offset * 31);
}

static uint64_t whole(const struct ledger *l)
{
    return sizeof(l->saved) + l->pad;
}

uint64_t ledger_save_open(void *ctx)
{
    struct ledger *l = ctx;
    l->saved = l->state;
    return whole(l);
}

void ledger_save_read(void *ctx, uint64_t offset, void *out, uint32_t bytes)
{
    const struct ledger *l = ctx;
    unsigned char *to = out;
    for (uint32_t i = 0; i < bytes; i++, offset++)
        to[i] = offset < sizeof(l->saved) ? ((const unsigned char *)&l->saved)[offset]
                                          : pad_byte(offset);
}

void ledger_save_close(void *ctx)
{
    (void)ctx;
}

void ledger_load_open(void *ctx, uint64_t bytes)
{
    struct ledger *l = ctx;
    l->load_at = 0;
    l->load_bytes = bytes;
    l->spoilt = false;
}

void ledger_load_write(void *ctx, const void *data, uint32_t bytes)
{
    struct ledger *l = ctx;
    const unsigned char *from = data;
    for (uint32_t i = 0; i < bytes; i++, l->load_at++) {
        if (l->load_at < sizeof(l->loaded))
            ((unsigned char *)&l->loaded)[l->load_at] = from[i];
        else if (l->load_at < whole(l))
            l->spoilt |= from[i] != pad_byte(l->load_at);
    }
}

bool ledger_load_end(struct ledger *l)
{
    /* A log sends whole words: up to 7 bytes may follow. */
    uint64_t words = (whole(l) + 7) & ~UINT64_C(7);
    l->state = l->loaded;
    return !l->spoilt && l->load_at == l->load_bytes &&
           (l->load_bytes == whole(l) || l->load_bytes == words);
}
