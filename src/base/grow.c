#include "base/grow.h"

#include "base/err.h"

#include <stdlib.h>

void *grow(const char *what, void *old, size_t size, size_t count)
{
    void *p = reallocarray(old, count, size);
    if (p == NULL)
        memory_failed(what, size, count);
    return p;
}

void grow_free(void *p)
{
    free(p);
}
