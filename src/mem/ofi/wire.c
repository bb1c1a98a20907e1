#include "mem/ofi/wire.h"

#include <sodium.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers travel as the machine has them");

/* ---- messages ---- */

uint32_t ofi_message_bytes(uint32_t kind, uint32_t count)
{
    switch (kind) {
    case OFI_PROVE:
        return sizeof(struct ofi_prove);
    case OFI_PROVEN:
        return sizeof(struct ofi_proven);
    case OFI_PROMISED:
        return (uint32_t)(sizeof(struct far_head) + count * sizeof(struct ofi_promised));
    default:
        return far_message_bytes((enum far_kind)kind, count);
    }
}

const struct far_head *ofi_message(const void *data, size_t bytes)
{
    const struct far_head *h = data;

    if (bytes < sizeof *h || h->kind < FAR_KINDS)
        return far_message(data, bytes);
    if (h->kind > OFI_PROMISED || bytes > FAR_MESSAGE_MAX || h->bytes != bytes || h->count == 0 ||
        (h->count != 1 && h->kind != OFI_PROMISED))
        return NULL;
    return ofi_message_bytes(h->kind, h->count) == bytes ? h : NULL;
}

/* ---- proving ---- */

void ofi_auth_init(struct ofi_auth *a, const unsigned char key[OFI_KEY_BYTES], const char *cluster)
{
    static const char purpose[] = "tramway connection 1 ";
    unsigned char name[crypto_generichash_BYTES];
    crypto_generichash_state s;

    CHECK(sodium_init() >= 0);
    crypto_generichash_init(&s, key, OFI_KEY_BYTES, sizeof a->key);
    crypto_generichash_update(&s, (const unsigned char *)purpose, sizeof purpose);
    crypto_generichash_update(&s, (const unsigned char *)cluster, strlen(cluster));
    crypto_generichash_final(&s, a->key, sizeof a->key);
    crypto_generichash(name, sizeof name, (const unsigned char *)cluster, strlen(cluster), NULL, 0);
    memcpy(a->cluster, name, sizeof a->cluster);
}

/* Of up to three things in a row; `who` keeps what one side has signed from serving as the other's. */
static void sign(const struct ofi_auth *a, const char *who, const struct ofi_hello *hello,
                 const struct ofi_prove *prove, const struct ofi_proven *proven, unsigned char *mac,
                 size_t bytes)
{
    crypto_generichash_state s;

    crypto_generichash_init(&s, a->key, sizeof a->key, bytes);
    crypto_generichash_update(&s, (const unsigned char *)who, strlen(who) + 1);
    crypto_generichash_update(&s, (const unsigned char *)hello, offsetof(struct ofi_hello, mac));
    if (prove)
        crypto_generichash_update(&s, (const unsigned char *)prove,
                                  offsetof(struct ofi_prove, mac));
    if (proven)
        crypto_generichash_update(&s, (const unsigned char *)proven,
                                  offsetof(struct ofi_proven, mac));
    crypto_generichash_final(&s, mac, bytes);
}

void ofi_hello_make(const struct ofi_auth *a, uint32_t from, uint32_t to, uint32_t life,
                    struct ofi_hello *h)
{
    *h = (struct ofi_hello){
        .magic = OFI_MAGIC, .version = OFI_VERSION, .from = from, .to = to, .life = life};
    memcpy(h->cluster, a->cluster, sizeof h->cluster);
    randombytes_buf(h->nonce, sizeof h->nonce);
    sign(a, "hello", h, NULL, NULL, h->mac, sizeof h->mac);
}

enum far_reason ofi_hello_check(const struct ofi_auth *a, const void *data, size_t bytes,
                                uint32_t self, struct ofi_hello *out)
{
    unsigned char mac[OFI_SHORT_MAC_BYTES];

    /* Another version may have another size; what comes before its number may not change. verbs pads
     * with zeros, so more bytes than these say nothing. */
    if (bytes < offsetof(struct ofi_hello, unused))
        return FAR_REASON_MALFORMED;
    memset(out, 0, sizeof *out);
    memcpy(out, data, bytes < sizeof *out ? bytes : sizeof *out);
    if (out->magic != OFI_MAGIC)
        return FAR_REASON_MALFORMED;
    if (out->version != OFI_VERSION)
        return FAR_REASON_VERSION;
    if (bytes < sizeof *out)
        return FAR_REASON_MALFORMED;
    if (memcmp(out->cluster, a->cluster, sizeof out->cluster) != 0)
        return FAR_REASON_CLUSTER;
    sign(a, "hello", out, NULL, NULL, mac, sizeof mac);
    if (sodium_memcmp(mac, out->mac, sizeof mac) != 0)
        return FAR_REASON_KEY;
    return out->to == self && out->from != self ? FAR_WELCOME : FAR_REASON_NODE;
}

void ofi_prove_make(const struct ofi_auth *a, const struct ofi_hello *h, uint32_t life,
                    uint64_t birth, struct ofi_prove *p)
{
    *p = (struct ofi_prove){
        .head = {.kind = OFI_PROVE, .count = 1, .bytes = sizeof *p}, .birth = birth, .life = life};
    randombytes_buf(p->nonce, sizeof p->nonce);
    sign(a, "prove", h, p, NULL, p->mac, sizeof p->mac);
}

bool ofi_prove_check(const struct ofi_auth *a, const struct ofi_hello *h, const struct ofi_prove *p)
{
    unsigned char mac[OFI_MAC_BYTES];

    sign(a, "prove", h, p, NULL, mac, sizeof mac);
    return sodium_memcmp(mac, p->mac, sizeof mac) == 0;
}

void ofi_proven_make(const struct ofi_auth *a, const struct ofi_hello *h, const struct ofi_prove *p,
                     uint64_t birth, struct ofi_proven *out)
{
    *out = (struct ofi_proven){.head = {.kind = OFI_PROVEN, .count = 1, .bytes = sizeof *out},
                               .birth = birth};
    sign(a, "proven", h, p, out, out->mac, sizeof out->mac);
}

bool ofi_proven_check(const struct ofi_auth *a, const struct ofi_hello *h,
                      const struct ofi_prove *p, const struct ofi_proven *proven)
{
    unsigned char mac[OFI_MAC_BYTES];

    sign(a, "proven", h, p, proven, mac, sizeof mac);
    return sodium_memcmp(mac, proven->mac, sizeof mac) == 0;
}
