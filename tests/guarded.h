/* Bytes that end where memory does: whoever reads beyond them ends the test, in every build. */
#ifndef TESTS_GUARDED_H
#define TESTS_GUARDED_H

#include "base/err.h"

#include <string.h>
#include <sys/mman.h>

enum { GUARDED_BYTES_MAX = 1 << 20, GUARDED_PAGE_BYTES = 4096 };

/* A copy of the bytes, good until the next call. */
static inline const unsigned char *guarded(const void *bytes, size_t count)
{
    static unsigned char *end;
    CHECK(count <= GUARDED_BYTES_MAX);
    if (end == NULL) {
        unsigned char *at = mmap(NULL, GUARDED_BYTES_MAX + GUARDED_PAGE_BYTES,
                                 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(at != MAP_FAILED);
        end = at + GUARDED_BYTES_MAX;
        CHECK(mprotect(end, GUARDED_PAGE_BYTES, PROT_NONE) == 0);
    }
    return memcpy(end - count, bytes, count);
}

#endif
