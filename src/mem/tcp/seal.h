/* Records after the handshake: AES-128-GCM under keys that both ends got out of it (RFC 5705), one for each way.
 *
 *     4 bytes    how many follow but for the tag
 *     ...        encrypted
 *     16 bytes   tag, over both
 *
 * The nonce is the number of the record, which is not sent: what is replayed, left out or moved has another. After so
 * many records both go on to keys that follow from the last ones and do not lead back to them. This is what TLS 1.3
 * does, less what a stream between two of us has no use for (alerts, kinds of records, padding): a record of 64 bytes
 * takes a third of the time, one of 16 KiB half.
 *
 * One thread at a time uses a struct seal. Private to mem/tcp. */
#ifndef MEM_TCP_SEAL_H
#define MEM_TCP_SEAL_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SEAL_SECRET_BYTES = 32,
    SEAL_HEAD_BYTES = 4,
    SEAL_TAG_BYTES = 16,
    SEAL_MORE = SEAL_HEAD_BYTES + SEAL_TAG_BYTES, /* what a record adds */
};

/* One way of a connection. */
struct seal {
    EVP_CIPHER_CTX *cipher;
    bool seals; /* else it opens */
    uint64_t records, records_max;
    unsigned char iv[12];
    unsigned char secret[SEAL_SECRET_BYTES]; /* of the next keys */
};

/* False: no memory. `records_max`: with one key; the same at both ends. */
bool seal_begin(struct seal *, bool seals, const unsigned char secret[SEAL_SECRET_BYTES],
                uint64_t records_max);
void seal_end(struct seal *); /* one that is all zeros is allowed */

/* Writes a record of `bytes`, and SEAL_MORE more. False: the library fails. */
bool seal_write(struct seal *, const void *data, uint32_t bytes, unsigned char *record);

/* How many bytes the record that begins here is to have inside. */
uint32_t seal_inside(const unsigned char head[SEAL_HEAD_BYTES]);

/* Opens a whole record; `out` may be where its encrypted bytes are. False: it is not what was sealed; what is in `out`
 * then is nothing. */
bool seal_read(struct seal *, const unsigned char *record, unsigned char *out);

#endif
