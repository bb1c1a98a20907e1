#include "base/grow.h"

#include "base/err.h"

#include <stdlib.h>

void *grow(void *old, size_t size, size_t count)
{
    void *p = reallocarray(old, count, size);
    CHECK(p != NULL);
    return p;
}

void grow_free(void *p)
{
    free(p);
}
