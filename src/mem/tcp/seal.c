#include "mem/tcp/seal.h"

#include <sodium.h>
#include <string.h>

enum { KEY_BYTES = 16 };

/* Keys and the next secret, out of this one. */
static bool keys_next(struct seal *s)
{
    static const unsigned char what[] = "tramway record keys 1";
    unsigned char out[KEY_BYTES + sizeof s->iv + SEAL_SECRET_BYTES];

    _Static_assert(sizeof out <= crypto_generichash_BYTES_MAX, "one hash gives all of it");
    crypto_generichash(out, sizeof out, what, sizeof what, s->secret, sizeof s->secret);
    memcpy(s->iv, out + KEY_BYTES, sizeof s->iv);
    memcpy(s->secret, out + KEY_BYTES + sizeof s->iv, SEAL_SECRET_BYTES);
    s->records = 0;
    int rc = EVP_CipherInit_ex2(s->cipher, NULL, out, NULL, s->seals, NULL);
    sodium_memzero(out, sizeof out);
    return rc == 1;
}

bool seal_begin(struct seal *s, bool seals, const unsigned char secret[SEAL_SECRET_BYTES],
                uint64_t records_max)
{
    *s = (struct seal){.cipher = EVP_CIPHER_CTX_new(), .seals = seals, .records_max = records_max};
    memcpy(s->secret, secret, sizeof s->secret);
    return s->cipher &&
           EVP_CipherInit_ex2(s->cipher, EVP_aes_128_gcm(), NULL, NULL, seals, NULL) == 1 &&
           keys_next(s);
}

void seal_end(struct seal *s)
{
    EVP_CIPHER_CTX_free(s->cipher);
    sodium_memzero(s, sizeof *s);
}

/* Sets the nonce of the next record. */
static bool nonce_next(struct seal *s)
{
    unsigned char nonce[sizeof s->iv];

    if (s->records == s->records_max && !keys_next(s))
        return false;
    memcpy(nonce, s->iv, sizeof nonce);
    for (unsigned i = 0; i < sizeof s->records; i++)
        nonce[sizeof nonce - 1 - i] ^= (unsigned char)(s->records >> 8 * i);
    s->records++;
    return EVP_CipherInit_ex2(s->cipher, NULL, NULL, nonce, s->seals, NULL) == 1;
}

bool seal_write(struct seal *s, const void *data, uint32_t bytes, unsigned char *record)
{
    unsigned char *inside = record + SEAL_HEAD_BYTES;
    int n;

    memcpy(record, &bytes, SEAL_HEAD_BYTES);
    return nonce_next(s) && EVP_EncryptUpdate(s->cipher, NULL, &n, record, SEAL_HEAD_BYTES) == 1 &&
           EVP_EncryptUpdate(s->cipher, inside, &n, data, (int)bytes) == 1 &&
           EVP_EncryptFinal_ex(s->cipher, inside + n, &n) == 1 &&
           EVP_CIPHER_CTX_ctrl(s->cipher, EVP_CTRL_AEAD_GET_TAG, SEAL_TAG_BYTES, inside + bytes) ==
               1;
}

uint32_t seal_inside(const unsigned char head[SEAL_HEAD_BYTES])
{
    uint32_t bytes;

    memcpy(&bytes, head, sizeof bytes);
    return bytes;
}

bool seal_read(struct seal *s, const unsigned char *record, unsigned char *out)
{
    const unsigned char *inside = record + SEAL_HEAD_BYTES;
    uint32_t bytes = seal_inside(record);
    unsigned char tag[SEAL_TAG_BYTES];
    int n;

    memcpy(tag, inside + bytes, sizeof tag);
    return nonce_next(s) && EVP_DecryptUpdate(s->cipher, NULL, &n, record, SEAL_HEAD_BYTES) == 1 &&
           EVP_DecryptUpdate(s->cipher, out, &n, inside, (int)bytes) == 1 &&
           EVP_CIPHER_CTX_ctrl(s->cipher, EVP_CTRL_AEAD_SET_TAG, sizeof tag, tag) == 1 &&
           EVP_DecryptFinal_ex(s->cipher, out + n, &n) == 1;
}
