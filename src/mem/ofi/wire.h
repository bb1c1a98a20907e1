/* What two nodes say to each other besides writing and reading memory, and how they prove who they are.
 * Private to this folder and its tests.
 *
 * A connection begins with a *hello* in the connect request. It is short, because verbs has room for
 * 55 bytes; what it claims is signed with the cluster's key, so that a stranger is refused before
 * anything is kept for him. Then both prove that they are there now, with nonces of their own:
 *
 *     a -> b   hello    from, to, life, nonce a            signed
 *     b -> a   prove    nonce b, birth, life of b          signed over the hello
 *     a -> b   proven   birth of a                         signed over hello and prove
 *
 * and then what mem/far/wire.h has begins.
 * "Signed" is a keyed BLAKE2b over everything said so far. The key of it is derived from the
 * cluster's key and name. A *birth* is a random number of the process: two processes that claim to be
 * the same node in the same life differ in it. Nothing that follows is signed or encrypted.
 *
 * Everything here is a function of bytes: no input or output, no state. All numbers are little-endian
 * and stand where the machine wants them. */
#ifndef MEM_OFI_WIRE_H
#define MEM_OFI_WIRE_H

#include "mem/far/wire.h"
#include "mem/ofi/ofi.h"

#include <stddef.h>

enum {
    OFI_VERSION = 6,
    OFI_MAC_BYTES = 32,
    OFI_SHORT_MAC_BYTES = 16,
};

#define OFI_MAGIC 0x6d617274u /* "tram" */

struct ofi_hello {
    uint32_t magic;
    uint16_t version;
    uint16_t unused;
    uint32_t from; /* node; FAR_ANY: a client that has no place yet */
    uint32_t to;
    uint32_t life;
    unsigned char cluster[4]; /* of the hash of its name: tells a wrong cluster from a wrong key */
    unsigned char nonce[12];
    unsigned char mac[OFI_SHORT_MAC_BYTES];
};
_Static_assert(sizeof(struct ofi_hello) == 52, "verbs has room for 55 bytes");

/* In a refused connect request: not signed, for the log line alone. */
struct ofi_refusal {
    uint32_t magic;
    uint16_t version; /* of who refuses */
    uint16_t reason;
};

/* Beyond those of enum far_kind. */
enum {
    OFI_PROVE = FAR_KINDS,
    OFI_PROVEN,
    OFI_PROMISED, /* the promised word of a region of the sender */
};

struct ofi_prove {
    struct far_head head;
    uint64_t birth;
    uint32_t life;
    uint32_t unused;
    unsigned char nonce[32];
    unsigned char mac[OFI_MAC_BYTES];
};

struct ofi_proven {
    struct far_head head;
    uint64_t birth;
    unsigned char mac[OFI_MAC_BYTES];
};

struct ofi_promised {
    uint32_t region;
    uint32_t unused;
    uint64_t value;
    uint64_t key; /* where it can be read */
    uint64_t address;
};

/* As far_message, of these kinds too. */
const struct far_head *ofi_message(const void *data, size_t bytes);

/* Bytes of a message with so many items. */
uint32_t ofi_message_bytes(uint32_t kind, uint32_t count);

/* ---- proving ---- */

struct ofi_auth {
    unsigned char key[OFI_KEY_BYTES]; /* derived */
    unsigned char cluster[4];
};

void ofi_auth_init(struct ofi_auth *, const unsigned char key[OFI_KEY_BYTES], const char *cluster);

/* Fills in what is the same in every hello, draws the nonce and signs. */
void ofi_hello_make(const struct ofi_auth *, uint32_t from, uint32_t to, uint32_t life,
                    struct ofi_hello *);

/* Whatever the bytes are: FAR_WELCOME and *out, or why not. */
enum far_reason ofi_hello_check(const struct ofi_auth *, const void *data, size_t bytes,
                                uint32_t self, struct ofi_hello *out);

void ofi_prove_make(const struct ofi_auth *, const struct ofi_hello *, uint32_t life,
                    uint64_t birth, struct ofi_prove *);
bool ofi_prove_check(const struct ofi_auth *, const struct ofi_hello *, const struct ofi_prove *);
void ofi_proven_make(const struct ofi_auth *, const struct ofi_hello *, const struct ofi_prove *,
                     uint64_t birth, struct ofi_proven *);
bool ofi_proven_check(const struct ofi_auth *, const struct ofi_hello *, const struct ofi_prove *,
                      const struct ofi_proven *);

#endif
