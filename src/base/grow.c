#include "base/grow.h"

#include "base/err.h"

#include <stdlib.h>
#include <sys/mman.h>

enum {
    PAGE_BYTES = 4096,
    LARGE_PAGE_BYTES = 2 << 20,
    LARGE_BYTES_MIN = 16 << 20, /* of less large pages are mostly waste: all of one is made zeros */
};

void *grow(const char *what, void *old, size_t size, size_t count)
{
    void *p = reallocarray(old, count, size);
    if (p == NULL)
        memory_failed(what, size, count);
    return p;
}

void *grow_large(const char *what, size_t bytes)
{
    size_t page = bytes < LARGE_BYTES_MIN ? PAGE_BYTES : LARGE_PAGE_BYTES;
    size_t whole = (bytes + page - 1) / page * page;
    void *p = aligned_alloc(page, whole);

    if (p == NULL)
        memory_failed(what, 1, bytes);
    if (page == LARGE_PAGE_BYTES)
        madvise(p, whole, MADV_HUGEPAGE); /* if it cannot be, pages are small */
    return p;
}

void grow_free(void *p)
{
    free(p);
}
