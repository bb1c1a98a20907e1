#include "trace/intern.h"

#include "base/err.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stdlib.h>

/* The hash beside the number saves a look at the key for nearly all strings that differ. */
struct intern_slot {
    uint32_t hash;
    uint32_t number; /* plus 1; 0: free */
};

enum { SLOTS_FIRST = 64, NUMBERS_MAX = 1 << 30 };

void *intern_grow(void *array, uint32_t *max, uint64_t i, size_t size)
{
    if (i < *max)
        return array;
    uint64_t more = *max ? *max : 16;
    while (more <= i)
        more *= 2;
    CHECK(more <= UINT32_MAX);
    array = realloc(array, more * size);
    CHECK(array != NULL);
    memset((char *)array + *max * size, 0, (more - *max) * size);
    *max = (uint32_t)more;
    return array;
}

void intern_fini(struct intern *t)
{
    free(t->keys);
    free(t->block);
    free(t->slots);
    *t = (struct intern){0};
}

static const unsigned char *key_bytes(const struct intern *t, const struct intern_key *k)
{
    return k->len <= INTERN_INLINE ? k->bytes : t->block + k->at;
}

const char *intern_text(const struct intern *t, uint32_t number, uint32_t *len)
{
    CHECK(number < t->count);
    *len = t->keys[number].len;
    return (const char *)key_bytes(t, &t->keys[number]);
}

/* The slot of the string, or the free one where it would be. */
static struct intern_slot *find_slot(const struct intern *t, uint32_t hash, const void *bytes,
                                     size_t len)
{
    uint32_t mask = t->slot_count - 1;
    for (uint32_t i = hash & mask;; i = (i + 1) & mask) {
        struct intern_slot *s = &t->slots[i];
        if (s->number == 0)
            return s;
        if (s->hash != hash)
            continue;
        const struct intern_key *k = &t->keys[s->number - 1];
        if (k->len == len && memcmp(key_bytes(t, k), bytes, len) == 0)
            return s;
    }
}

static void double_slots(struct intern *t)
{
    uint32_t count = t->slot_count ? t->slot_count * 2 : SLOTS_FIRST;
    free(t->slots);
    t->slots = calloc(count, sizeof(*t->slots));
    CHECK(t->slots != NULL);
    t->slot_count = count;
    for (uint32_t n = 0; n < t->count; n++) {
        uint32_t i = t->keys[n].hash & (count - 1);
        while (t->slots[i].number != 0)
            i = (i + 1) & (count - 1);
        t->slots[i] = (struct intern_slot){t->keys[n].hash, n + 1};
    }
}

static void store(struct intern *t, struct intern_key *k, const void *bytes, size_t len)
{
    k->len = (uint32_t)len;
    if (len <= INTERN_INLINE) {
        memcpy(k->bytes, bytes, len);
        return;
    }
    if (t->block_bytes + len > t->block_max) {
        t->block_max = 2 * (t->block_bytes + len);
        t->block = realloc(t->block, t->block_max);
        CHECK(t->block != NULL);
    }
    k->at = t->block_bytes;
    memcpy(t->block + k->at, bytes, len);
    t->block_bytes += len;
}

uint32_t intern_add(struct intern *t, const void *bytes, size_t len)
{
    CHECK(len <= UINT32_MAX);
    if (t->count >= t->slot_count / 2)
        double_slots(t);
    uint32_t hash = (uint32_t)hash_bytes(0, bytes, len);
    struct intern_slot *s = find_slot(t, hash, bytes, len);
    if (s->number != 0)
        return s->number - 1;
    CHECK(t->count < NUMBERS_MAX);
    t->keys = intern_grow(t->keys, &t->max, t->count, sizeof(*t->keys));
    t->keys[t->count].hash = hash;
    store(t, &t->keys[t->count], bytes, len);
    *s = (struct intern_slot){hash, ++t->count};
    return t->count - 1;
}

uint32_t intern_find(const struct intern *t, const void *bytes, size_t len)
{
    if (t->count == 0)
        return INTERN_NONE;
    return find_slot(t, (uint32_t)hash_bytes(0, bytes, len), bytes, len)->number - 1;
}
