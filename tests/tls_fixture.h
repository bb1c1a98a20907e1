/* Three hosts and two clients with keys, and two ends of a connection that are joined by memory alone. */
#ifndef TESTS_TLS_FIXTURE_H
#define TESTS_TLS_FIXTURE_H

#include "base/err.h"
#include "mem/tcp/tls_impl.h"

#include <sodium.h>
#include <string.h>

enum { TLS_HOSTS = 3, TLS_CLIENTS = 2, TLS_STRANGER = 200 };

/* Secrets are told apart by a number: hosts are 0.., their second keys 10.., clients 100... */
static inline void tls_fixture_keys(uint8_t number, unsigned char secret[TLS_KEY_BYTES],
                                    unsigned char public_key[TLS_KEY_BYTES])
{
    unsigned char both[crypto_sign_SECRETKEYBYTES];

    CHECK(sodium_init() >= 0);
    memset(secret, number, TLS_KEY_BYTES);
    secret[0] = 77;
    crypto_sign_seed_keypair(public_key, both, secret);
}

static inline struct tls_identity tls_fixture_identity(const char *name, uint8_t number,
                                                       uint32_t keys)
{
    unsigned char secret[TLS_KEY_BYTES];
    struct tls_identity who = {.name = name, .keys = keys};

    for (uint32_t i = 0; i < keys; i++)
        tls_fixture_keys((uint8_t)(number + 10 * i), secret, who.key[i]);
    return who;
}

struct tls_fixture_book {
    struct tls_identity hosts[TLS_HOSTS], clients[TLS_CLIENTS];
};

/* Host 1 has two keys, and nobody has the name of host 2. */
static inline struct tls_fixture_book tls_fixture_book(void)
{
    return (struct tls_fixture_book){
        .hosts = {tls_fixture_identity("h0", 0, 1), tls_fixture_identity("h1", 1, 2),
                  tls_fixture_identity("h2", 2, 0)},
        .clients = {tls_fixture_identity("c0", 100, 1), tls_fixture_identity("c1", 101, 2)},
    };
}

static inline struct tls *tls_fixture_open(const struct tls_fixture_book *b, uint8_t number,
                                           bool clear)
{
    unsigned char secret[TLS_KEY_BYTES], public_key[TLS_KEY_BYTES];
    struct tls_options o = {.secret = secret,
                            .hosts = b->hosts,
                            .hosts_count = TLS_HOSTS,
                            .clients = b->clients,
                            .clients_count = TLS_CLIENTS,
                            .clear = clear};
    struct err e = {""};
    struct tls *t = NULL;

    tls_fixture_keys(number, secret, public_key);
    CHECK(tls_open(&o, &t, &e) == 0);
    return t;
}

/* Carries up to `most` bytes; how many there were. */
static inline size_t tls_fixture_carry(struct tls_end *from, struct tls_end *to, size_t most)
{
    size_t bytes, room;
    const unsigned char *data = tls_out(from, &bytes);
    unsigned char *in = tls_in(to, &room);
    size_t n = bytes < room ? bytes : room;

    n = n < most ? n : most;
    memcpy(in, data, n);
    tls_in_add(to, n);
    tls_out_drop(from, n);
    return n;
}

/* Until neither has more to say; `most` bytes at a time. */
static inline void tls_fixture_shake(struct tls_end *a, struct tls_end *b, size_t most,
                                     enum tls_step *of_a, enum tls_step *of_b)
{
    size_t moved;

    do {
        *of_a = tls_handshake(a);
        moved = tls_fixture_carry(a, b, most);
        *of_b = tls_handshake(b);
        moved += tls_fixture_carry(b, a, most);
    } while (moved > 0 && (*of_a == TLS_AGAIN || *of_b == TLS_AGAIN));
}

#endif
