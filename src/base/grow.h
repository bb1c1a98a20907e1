/* Memory for what cannot be bounded when it opens and happens rarely: a table that doubles, a snapshot.
 *
 * Protocols allocate when they open, and only there (tools/check-layers sees to it); this is the one way
 * around that, so that every use of it can be found. docs/design.md, "Memory that grows", lists what does and its bounds. */
#ifndef BASE_GROW_H
#define BASE_GROW_H

#include <stddef.h>

/* As realloc to count things of that size. If there is no memory it ends the process, with a line that says how much was
 * wanted for what. */
void *grow(const char *what, void *old, size_t size, size_t count);

/* So many bytes, at a multiple of 4096. */
void *grow_pages(const char *what, size_t bytes);

/* Gives it back; of NULL nothing happens. */
void grow_free(void *);

#endif
