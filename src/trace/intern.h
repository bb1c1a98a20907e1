/* Numbers for byte strings: equal strings get equal numbers, counted from 0 in the order they came.
 *
 * An open-addressing table over one growing block that holds copies of the strings. Zeroed memory is
 * an empty table. Caller's memory, one thread. Running out of memory ends the process. */
#ifndef TRACE_INTERN_H
#define TRACE_INTERN_H

#include <stddef.h>
#include <stdint.h>

enum { INTERN_INLINE = 16 };
#define INTERN_NONE UINT32_MAX

struct intern_key {
    uint32_t hash;
    uint32_t len;
    union {
        unsigned char bytes[INTERN_INLINE]; /* the string itself, if it fits */
        uint64_t at;                        /* else its place in the block */
    };
};

struct intern {
    struct intern_key *keys; /* by number */
    uint32_t count, max;
    unsigned char *block; /* of the strings that do not fit into their key */
    uint64_t block_bytes, block_max;
    struct intern_slot *slots; /* a power of two, at most half of them used */
    uint32_t slot_count;
};

void intern_fini(struct intern *);

/* The number of a string; a new one has the number that `count` was before. */
uint32_t intern_add(struct intern *, const void *bytes, size_t len);

/* The same, but INTERN_NONE if it is not there. */
uint32_t intern_find(const struct intern *, const void *bytes, size_t len);

/* The string of a number. Good until the next intern_add. */
const char *intern_text(const struct intern *, uint32_t number, uint32_t *len);

/* For every array that grows by doubling: makes room for index i, new bytes zero. */
void *intern_grow(void *array, uint32_t *max, uint64_t i, size_t size);

#endif
