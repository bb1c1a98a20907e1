/* A byte ring, addressed by positions that never wrap: position pos stands at pos modulo the size, which
 * is a power of two. What goes over the end goes on at the beginning. */
#ifndef MEM_WRAP_H
#define MEM_WRAP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Bytes from pos up to the end of the ring: what is that long, or shorter, stands there in one piece. */
static inline uint64_t ring_straight(uint64_t ring_bytes, uint64_t pos)
{
    return ring_bytes - (pos & (ring_bytes - 1));
}

/* Copies [pos, pos + bytes) out of the ring. */
static inline void ring_read(const unsigned char *ring, uint64_t ring_bytes, uint64_t pos, void *to,
                             uint64_t bytes)
{
    const uint64_t straight = ring_straight(ring_bytes, pos);
    const uint64_t first = bytes < straight ? bytes : straight;

    memcpy(to, ring + (pos & (ring_bytes - 1)), first);
    if (bytes > first)
        memcpy((unsigned char *)to + first, ring, bytes - first);
}

/* Copies bytes into [pos, pos + bytes) of the ring. */
static inline void ring_write(unsigned char *ring, uint64_t ring_bytes, uint64_t pos,
                              const void *from, uint64_t bytes)
{
    const uint64_t straight = ring_straight(ring_bytes, pos);
    const uint64_t first = bytes < straight ? bytes : straight;

    memcpy(ring + (pos & (ring_bytes - 1)), from, first);
    if (bytes > first)
        memcpy(ring, (const unsigned char *)from + first, bytes - first);
}

#endif
