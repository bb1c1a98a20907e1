/* Memory mapped twice in a row, so that a ring never wraps for who reads or writes it.
 *
 * A mirror of `bytes` bytes occupies 2 * bytes of addresses: at[i] and at[i + bytes] are the same
 * byte. Whatever begins in the first half is contiguous up to its full length. `bytes` and the
 * offset in the file must be multiples of the page size. Any thread may call these.
 *
 * The compiler does not know that the halves are one: between a store through one and a load of the
 * same byte through the other must stand an atomic, or a call that it cannot see into. */
#ifndef MEM_MAP_H
#define MEM_MAP_H

#include <stddef.h>
#include <stdint.h>

/* Maps a range of the file twice, shared, with `prot` of mmap(2). NULL and errno on failure. */
void *map_mirror(int fd, uint64_t offset, size_t bytes, int prot);

/* Undoes map_mirror. NULL is allowed. */
void map_unmirror(void *at, size_t bytes);

/* A mirror of fresh, zeroed memory that nobody else sees. NULL and errno on failure. */
void *map_ring_alloc(size_t bytes);

/* Frees what map_ring_alloc gave. NULL is allowed. */
void map_ring_free(void *at, size_t bytes);

#endif
