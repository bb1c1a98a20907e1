/* A 64-bit mixing hash for traces and tables: fast, not for secrets.
 *
 * A hash is one running word: start from any value, feed words or bytes, in order. For a given h
 * every step is a bijection of the word, so two streams that differ in one word never meet at it.
 * The value depends on the byte order of the machine and is not for storing. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The murmur3 finaliser, with the old hash spread by an odd constant so that order matters. */
static inline uint64_t hash_mix(uint64_t h, uint64_t word)
{
    uint64_t x = h * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;

    x ^= word;
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
    return x ^ (x >> 33);
}

/* Feeds len bytes and their number, so that "ab","c" and "a","bc" differ. */
static inline uint64_t hash_bytes(uint64_t h, const void *data, size_t len)
{
    const unsigned char *p = data;
    uint64_t word;
    size_t left = len;

    for (; left >= sizeof word; p += sizeof word, left -= sizeof word) {
        memcpy(&word, p, sizeof word);
        h = hash_mix(h, word);
    }
    if (left) {
        word = 0;
        memcpy(&word, p, left);
        h = hash_mix(h, word);
    }
    return hash_mix(h, len);
}

#endif
