#include "sim/imprint.h"

#include "base/err.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

struct imprint imprint_of(size_t *kept, size_t kept_max, uint32_t host, const void *data,
                          size_t len)
{
    struct imprint m = {.len = len, .hash = hash_bytes(0, data, len), .host = host, .there = true};

    if (len == 0 || *kept + len > kept_max)
        return m;
    m.bytes = malloc(len);
    CHECK(m.bytes != NULL);
    memcpy(m.bytes, data, len);
    *kept += len;
    return m;
}

void imprint_drop(size_t *kept, struct imprint *m)
{
    if (m->bytes)
        *kept -= m->len;
    free(m->bytes);
    *m = (struct imprint){0};
}

bool imprint_is(const struct imprint *m, const void *data, size_t len)
{
    return m->len == len && m->hash == hash_bytes(0, data, len);
}

size_t imprint_differs_at(const struct imprint *m, const void *data, size_t len)
{
    const unsigned char *b = data;
    size_t at = 0, least = len < m->len ? len : m->len;

    while (m->bytes && at < least && m->bytes[at] == b[at])
        at++;
    return m->bytes ? at : least;
}
