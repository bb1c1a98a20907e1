/* Ed25519 by libsodium, at once. */
#include "base/sign.h"

#include <sodium.h>

_Static_assert(sizeof(struct sign_secret) == crypto_sign_SECRETKEYBYTES, "libsodium's keys");
_Static_assert(SIGN_BYTES == crypto_sign_BYTES, "libsodium's signatures are ours");

void sign_secret_open(struct sign_secret *s, const unsigned char secret[SIGN_KEY_BYTES])
{
    unsigned char public_key[crypto_sign_PUBLICKEYBYTES];

    CHECK(crypto_sign_seed_keypair(public_key, s->key, secret) == 0);
}

void sign_secret_close(struct sign_secret *s)
{
    sodium_memzero(s, sizeof(*s));
}

void sign_now(const struct sign_secret *s, const struct sign_text *text,
              unsigned char signature[SIGN_BYTES])
{
    CHECK(crypto_sign_detached(signature, NULL, (const unsigned char *)text, sizeof(*text),
                               s->key) == 0);
}

bool sign_is_good(const unsigned char public_key[SIGN_KEY_BYTES], const struct sign_text *text,
                  const unsigned char signature[SIGN_BYTES])
{
    return crypto_sign_verify_detached(signature, (const unsigned char *)text, sizeof(*text),
                                       public_key) == 0;
}
