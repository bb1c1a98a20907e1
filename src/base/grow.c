#include "base/grow.h"

#include "base/err.h"

#include <stdlib.h>

enum { PAGE_BYTES = 4096 };

void *grow(const char *what, void *old, size_t size, size_t count)
{
    void *p = reallocarray(old, count, size);
    if (p == NULL)
        memory_failed(what, size, count);
    return p;
}

void *grow_pages(const char *what, size_t bytes)
{
    size_t pages = (bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    void *p = aligned_alloc(PAGE_BYTES, pages * PAGE_BYTES);

    if (p == NULL)
        memory_failed(what, PAGE_BYTES, pages);
    return p;
}

void grow_free(void *p)
{
    free(p);
}
