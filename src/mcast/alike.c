#include "mcast/alike.h"

#include "base/planted.h"

#include <stdlib.h>
#include <string.h>

bool alike_open(struct alike *a, const struct alike_options *o)
{
    *a = (struct alike){.mem = o->mem,
                        .replicas = o->replicas,
                        .faulty = o->faulty,
                        .life = o->life,
                        .shape = o->shape,
                        .next = stream_start()};
    memcpy(a->lane, o->lanes, o->replicas * sizeof(a->lane[0]));
    a->copy = malloc(o->replicas * padded(o->shape.bytes_max));
    return a->copy != NULL;
}

void alike_close(struct alike *a)
{
    free(a->copy);
}

static unsigned char *copy_of(const struct alike *a, uint32_t q)
{
    return a->copy + q * padded(a->shape.bytes_max);
}

/* What that replica has at the next position. */
static bool take(struct alike *a, uint32_t q)
{
    const struct mem_lane *lane = a->lane[q];
    struct frame f;
    if (a->has[q] == a->next + 1)
        return true;
    if (lane->ctl == NULL)
        return false;
    uint64_t guard = stream_guard(&a->shape, lane, a->life);
    if (guard <= a->next)
        return false;
    mem_take(a->mem, lane, a->next, &f, sizeof(f));
    if (!frame_fits(&f, a->next, a->life, a->shape.bytes_max, guard))
        return false; /* it begins later in the stream */
    mem_take(a->mem, lane, a->next + sizeof(f), copy_of(a, q), f.bytes);
    a->has[q] = a->next + 1;
    a->bytes[q] = f.bytes;
    return true;
}

static bool same(const struct alike *a, uint32_t p, uint32_t q)
{
    return a->bytes[p] == a->bytes[q] && memcmp(copy_of(a, p), copy_of(a, q), a->bytes[p]) == 0;
}

const void *alike_next(struct alike *a, uint32_t *bytes)
{
    uint32_t needed = a->faulty + !PLANTED(bft_reply_f);
    for (uint32_t q = 0; q < a->replicas; q++) {
        uint32_t count = 0;
        for (uint32_t p = 0; take(a, q) && p <= q; p++)
            count += a->has[p] == a->next + 1 && same(a, p, q);
        if (count < needed || count == 0)
            continue;
        *bytes = a->bytes[q];
        a->next += frame_size(a->bytes[q]);
        return copy_of(a, q);
    }
    return NULL;
}
