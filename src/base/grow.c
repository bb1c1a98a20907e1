#include "base/grow.h"

#include <stdio.h>
#include <stdlib.h>

void *grow(const char *what, void *old, size_t size, size_t count)
{
    void *p = reallocarray(old, count, size);
    if (p == NULL) {
        fprintf(stderr, "no memory for %s: %zu times %zu bytes were wanted\n", what, count, size);
        abort();
    }
    return p;
}

void grow_free(void *p)
{
    free(p);
}
