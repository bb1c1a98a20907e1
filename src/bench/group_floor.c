#include "base/clock.h"
#include "base/lines.h"
#include "bench/group.h"

#include <stdlib.h>
#include <string.h>

enum { RING_BYTES = 1 << 20, RING_MESSAGES = 8, BATCH = 64, LINE = 128 };

/* What a message costs at least if readers are to know where it ends and which one it is: each slot begins with that, as a record of a
 * member's ring does, so both move as many bytes. A slot never goes over the ring's end. */
struct slot {
    uint64_t number;
    uint32_t bytes, flags;
};

struct group_floor {
    _Alignas(LINE) _Atomic uint64_t tail; /* the writer's: slots below are filled */
    struct {
        _Alignas(LINE) _Atomic uint64_t head; /* each reader's: slots below are read */
        uint64_t at, sum;
    } reader[GROUP_MEMBERS_MAX];
    uint64_t written, seen; /* the writer's: and the least head as it last looked */
    uint64_t at;            /* byte of the ring at which the next is written; of readers likewise */
    uint32_t readers, size, slot;
    uint64_t slots;
    bool touch;
    unsigned char *ring, *from;
};

int group_floor_open(uint32_t readers, uint32_t size, bool touch, struct group_floor **out,
                     struct err *e)
{
    struct group_floor *f = lines_alloc(sizeof(*f));
    if (f == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    f->readers = readers;
    f->size = size;
    f->touch = touch;
    f->slot = (size + sizeof(struct slot) + 15) / 16 * 16;
    f->slots = RING_BYTES / f->slot > RING_MESSAGES ? RING_BYTES / f->slot : RING_MESSAGES;
    f->ring = calloc(f->slots, f->slot);
    f->from = malloc(size + 8);
    if (f->ring == NULL || f->from == NULL) {
        group_floor_close(f);
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    memset(f->from, 0x5a, size + 8);
    *out = f;
    return 0;
}

void group_floor_close(struct group_floor *f)
{
    if (f == NULL)
        return;
    free(f->ring);
    free(f->from);
    free(f);
}

static uint64_t next_at(const struct group_floor *f, uint64_t at)
{
    return at + f->slot == f->slots * f->slot ? 0 : at + f->slot;
}

static void read_on(struct group_floor *f, uint32_t r)
{
    /* Acquire: pairs with the writer's release. */
    uint64_t tail = atomic_load_explicit(&f->tail, memory_order_acquire);
    uint64_t head = atomic_load_explicit(&f->reader[r].head, memory_order_relaxed);
    if (head == tail)
        return;
    uint64_t at = f->reader[r].at, sum = 0;
    for (; head < tail; head++) {
        const struct slot *s = (const void *)(f->ring + at);
        if (s->number != head)
            break;
        sum += group_read((const unsigned char *)(s + 1), s->bytes, f->touch);
        at = next_at(f, at);
    }
    f->reader[r].at = at;
    f->reader[r].sum += sum;
    atomic_store_explicit(&f->reader[r].head, head, memory_order_release);
}

static void write_on(struct group_floor *f)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        if (f->written - f->seen == f->slots) {
            uint64_t least = UINT64_MAX;
            for (uint32_t r = 0; r < f->readers; r++) {
                uint64_t head = atomic_load_explicit(&f->reader[r].head, memory_order_acquire);
                least = head < least ? head : least;
            }
            f->seen = least;
            if (f->written - least == f->slots)
                break;
        }
        struct slot *s = (void *)(f->ring + f->at);
        group_write((unsigned char *)(s + 1), f->from, f->size, f->touch);
        *s = (struct slot){.number = f->written++, .bytes = f->size};
        f->at = next_at(f, f->at);
    }
    atomic_store_explicit(&f->tail, f->written, memory_order_release);
}

void group_floor_round(struct group_floor *f)
{
    for (uint32_t r = 1; r < f->readers; r++)
        read_on(f, r);
}

double group_floor_ring(struct group_floor *f, uint64_t ns)
{
    uint64_t start = clock_now_ns(), now = start, first = f->written;
    while (now - start < ns) {
        for (uint32_t i = 0; i < 16; i++) {
            write_on(f);
            read_on(f, 0);
        }
        now = clock_now_ns();
    }
    return (double)(f->written - first) * 1e9 / (double)(now - start);
}

double group_floor_copy(struct group_floor *f, uint64_t ns)
{
    uint64_t start = clock_now_ns(), now = start, count = 0;
    uint64_t at = 0;
    while (now - start < ns) {
        for (uint32_t i = 0; i < BATCH; i++, count++, at = next_at(f, at)) {
            unsigned char *to = f->ring + at + sizeof(struct slot);
            memcpy(to, f->from, f->size);
            for (uint32_t r = 0; r < f->readers; r++)
                f->reader[0].sum += group_read(to, f->size, true);
        }
        now = clock_now_ns();
    }
    return (double)count * 1e9 / (double)(now - start);
}
