#include "sim/counter_machine.h"

static unsigned char pad_byte(uint64_t offset)
{
    return (unsigned char)(offset * 31);
}

static uint64_t whole(const struct counter_machine *l)
{
    return sizeof(l->saved) + l->pad;
}

static void spend(struct counter_machine *l, uint64_t bytes)
{
    l->spent_ns += l->costs.piece_ns + l->costs.kib_ns * bytes / 1024;
}

static void *save_open(void *ctx, uint64_t *bytes)
{
    struct counter_machine *l = ctx;
    l->saved = l->state;
    l->save_at = 0;
    l->saves++;
    l->spent_ns += l->costs.open_ns;
    *bytes = l->unsized ? STATE_UNKNOWN : whole(l);
    return l;
}

static int save_next(void *ctx, void *save, void *out, uint32_t room)
{
    struct counter_machine *l = ctx;
    unsigned char *to = out;
    uint32_t n = 0;
    (void)save;
    for (; n < room && l->save_at < whole(l); n++, l->save_at++)
        to[n] = l->save_at < sizeof(l->saved) ? ((const unsigned char *)&l->saved)[l->save_at]
                                              : pad_byte(l->save_at);
    spend(l, n);
    return (int)n;
}

static void save_close(void *ctx, void *save)
{
    struct counter_machine *l = ctx;
    (void)save;
    l->saves--;
}

static int load_open(void *ctx, uint64_t bytes)
{
    struct counter_machine *l = ctx;
    l->load_at = 0;
    l->load_bytes = bytes;
    l->spoilt = false;
    l->loading = true;
    return 0;
}

static int load_next(void *ctx, const void *data, uint32_t bytes)
{
    struct counter_machine *l = ctx;
    const unsigned char *from = data;
    for (uint32_t i = 0; i < bytes; i++, l->load_at++) {
        if (l->load_at < sizeof(l->loaded))
            ((unsigned char *)&l->loaded)[l->load_at] = from[i];
        else if (l->load_at < whole(l))
            l->spoilt |= from[i] != pad_byte(l->load_at);
    }
    spend(l, bytes);
    return l->loading ? 0 : -1;
}

static int load_close(void *ctx, bool all)
{
    struct counter_machine *l = ctx;
    if (!all) {
        l->loading = false;
        return 0;
    }
    bool sized = l->load_bytes == (l->unsized ? STATE_UNKNOWN : whole(l));
    bool good = l->loading && !l->spoilt && l->load_at == whole(l) && sized;
    l->state = l->loaded;
    l->loading = false;
    l->spent_ns += l->costs.open_ns;
    l->on_load(l, good);
    return 0;
}

const struct state_ops counter_machine_ops = {
    .save_open = save_open,
    .save_next = save_next,
    .save_close = save_close,
    .load_open = load_open,
    .load_next = load_next,
    .load_close = load_close,
};

uint64_t counter_machine_spent(struct counter_machine *l)
{
    uint64_t spent_ns = l->spent_ns;
    l->spent_ns = 0;
    return spent_ns;
}
