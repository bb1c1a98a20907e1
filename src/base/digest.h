/* Digests: 32 bytes that stand for any number of others (BLAKE2b-256). Nobody finds two contents with one digest. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct digest {
    uint64_t word[4];
};

struct digest digest_of(const void *data, size_t bytes);

/* Of a chain that ended in `before` and goes on with `next`. */
struct digest digest_chain(struct digest before, struct digest next);

static inline bool digest_equal(struct digest a, struct digest b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

#endif
