#include "base/pages.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { SMALL_BYTES = 4096, LARGE_BYTES = 2 << 20 };

void *pages_alloc(size_t bytes)
{
    const size_t page = bytes >= LARGE_BYTES ? LARGE_BYTES : SMALL_BYTES;
    const size_t whole = (bytes + page - 1) & ~(page - 1);
    void *p = aligned_alloc(page, whole);
    if (p && page == LARGE_BYTES)
        (void)madvise(p, whole, MADV_HUGEPAGE); /* it is as good without, but for speed */
    return p;
}
