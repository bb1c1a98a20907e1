#include "base/digest.h"

#include "base/err.h"

#include <sodium.h>

_Static_assert(sizeof(struct digest) == crypto_generichash_BYTES, "BLAKE2b-256");

struct digest digest_of(const void *data, size_t bytes)
{
    struct digest d;

    CHECK(crypto_generichash((unsigned char *)&d, sizeof(d), data, bytes, NULL, 0) == 0);
    return d;
}

struct digest digest_chain(struct digest before, struct digest next)
{
    const struct digest both[2] = {before, next};

    return digest_of(both, sizeof(both));
}
