/* Secret Ed25519 keys in files: the 32 bytes that all else is made of (RFC 8032), as one line of text. */
#include "mem/secret.h"
#include "mem/tcp/tls.h"

#include <sodium.h>
#include <string.h>

#define HEAD "ed25519-secret:"

enum {
    HEAD_BYTES = sizeof HEAD - 1,
    BASE64_BYTES = 44,
    TEXT_BYTES = HEAD_BYTES + BASE64_BYTES,
};

_Static_assert(TLS_KEY_BYTES == crypto_sign_SEEDBYTES, "libsodium's keys are ours");
_Static_assert(TLS_KEY_BYTES == crypto_sign_PUBLICKEYBYTES, "libsodium's keys are ours");
_Static_assert(BASE64_BYTES + 1 ==
                   sodium_base64_ENCODED_LEN(TLS_KEY_BYTES, sodium_base64_VARIANT_ORIGINAL),
               "as many characters as the header says");

static void public_of(const unsigned char secret[TLS_KEY_BYTES],
                      unsigned char public_key[TLS_KEY_BYTES])
{
    unsigned char both[crypto_sign_SECRETKEYBYTES];

    crypto_sign_seed_keypair(public_key, both, secret);
    sodium_memzero(both, sizeof both);
}

int tls_key_make(const char *path, unsigned char public_key[TLS_KEY_BYTES], struct err *e)
{
    unsigned char secret[TLS_KEY_BYTES];
    char text[TEXT_BYTES + 1] = HEAD;

    if (sodium_init() < 0)
        return err_set(e, ERR_SYSTEM, "%s: no source of random numbers", path);
    randombytes_buf(secret, sizeof secret);
    sodium_bin2base64(text + HEAD_BYTES, BASE64_BYTES + 1, secret, sizeof secret,
                      sodium_base64_VARIANT_ORIGINAL);
    text[TEXT_BYTES] = '\n';
    int rc = secret_make(path, text, sizeof text, e);
    if (rc == 0)
        public_of(secret, public_key);
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(text, sizeof text);
    return rc;
}

static bool parse(const char *text, long got, unsigned char secret[TLS_KEY_BYTES])
{
    const char *end = NULL;
    size_t bytes = 0;

    return (got == TEXT_BYTES || (got == TEXT_BYTES + 1 && text[TEXT_BYTES] == '\n')) &&
           memcmp(text, HEAD, HEAD_BYTES) == 0 &&
           sodium_base642bin(secret, TLS_KEY_BYTES, text + HEAD_BYTES, BASE64_BYTES, NULL, &bytes,
                             &end, sodium_base64_VARIANT_ORIGINAL) == 0 &&
           bytes == TLS_KEY_BYTES && end == text + TEXT_BYTES;
}

int tls_key_read(const char *path, unsigned char secret[TLS_KEY_BYTES],
                 unsigned char public_key[TLS_KEY_BYTES], struct err *e)
{
    char text[TEXT_BYTES + 8];

    if (sodium_init() < 0)
        return err_set(e, ERR_SYSTEM, "%s: no source of random numbers", path);
    long got = secret_read(path, "every host and every client has a secret key of its own", text,
                           sizeof text, e);
    int rc = got < 0 ? (int)got : 0;
    if (rc == 0 && !parse(text, got, secret)) {
        sodium_memzero(secret, TLS_KEY_BYTES);
        rc = err_set(e, ERR_INVALID,
                     "%s: a secret key is one line of `" HEAD "` and %d characters of base64", path,
                     BASE64_BYTES);
    }
    if (rc == 0)
        public_of(secret, public_key);
    sodium_memzero(text, sizeof text);
    return rc;
}

void tls_key_wipe(unsigned char secret[TLS_KEY_BYTES])
{
    sodium_memzero(secret, TLS_KEY_BYTES);
}
