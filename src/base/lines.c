#include "base/lines.h"

#include <stdlib.h>
#include <string.h>

enum { LINES_BYTES = 128 };

void *lines_alloc(size_t bytes)
{
    const size_t whole = (bytes + LINES_BYTES - 1) & ~(size_t)(LINES_BYTES - 1);
    void *p = aligned_alloc(LINES_BYTES, whole);
    return p ? memset(p, 0, whole) : NULL;
}
