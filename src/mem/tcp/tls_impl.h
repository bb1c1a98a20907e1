/* What the files of TLS share.
 *
 * tls.c makes what all connections of a node share, tls_peer.c judges who the other side is, tls_end.c is one end of a
 * connection, seal.c its records after the handshake, tls_why.c finds words for what failed. */
#ifndef MEM_TCP_TLS_IMPL_H
#define MEM_TCP_TLS_IMPL_H

#include "mem/tcp/tls.h"

#include <openssl/ssl.h>
#include <stdatomic.h>

enum {
    TLS_CHAIN_BYTES_MAX = 16384, /* of certificates that one side shows */
    TLS_WHY_BYTES = 160,
    /* What one end may have to say and to hear at once while they shake hands: a chain, and some more. */
    TLS_HANDSHAKE_BYTES = TLS_CHAIN_BYTES_MAX + 4096,
    TLS_BUFFER_BYTES = 65536 + TLS_RECORD_BYTES + TLS_RECORD_MORE, /* and later */
    TLS_SHORT_BYTES = 1024,     /* no record is cut shorter to fit into what room is left */
    TLS_REKEY_RECORDS = 1 << 23 /* AES-GCM is good for 2^24.5 of them (RFC 8446, 5.5) */
};

struct tls {
    atomic_uint users;
    SSL_CTX *connects, *accepts;
    BIO_METHOD *buffers;                  /* how OpenSSL reaches the buffers of an end */
    struct tls_identity *hosts, *clients; /* our copies, */
    char *names;                          /* and what their names point into */
    uint32_t hosts_count, clients_count;
    uint64_t rekey_records; /* new keys after so many, at both ends; tests have fewer */
    bool authority;
    bool clear;
};

/* ---- tls.c ---- */

/* Has the other side agreed on what follows? */
bool tls_alpn_agreed(const SSL *, bool clear);

/* ---- tls_peer.c ---- */

/* Of SSL_CTX_set_cert_verify_callback; the argument is the struct tls. */
int tls_verify_key(X509_STORE_CTX *, void *);
int tls_verify_chain(X509_STORE_CTX *, void *);

/* ---- tls_end.c ---- */

/* For callbacks: whose connection it is. */
struct tls_end *tls_end_of_ssl(const SSL *);

/* Who the other side is, if the handshake goes well. */
void tls_end_found(struct tls_end *, struct tls_peer);

/* Why it fails. The first reason stays. */
void tls_end_because(struct tls_end *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The other side has told us why. */
void tls_end_told(struct tls_end *);

/* What OpenSSL reads from and writes to. NULL: no memory. */
BIO_METHOD *tls_buffers_new(void);

/* ---- tls_why.c ---- */

/* Words for the failure of an SSL call, `code` being what SSL_get_error said. Empties OpenSSL's queue. */
void tls_explain(struct tls_end *, const struct tls *, int code);

#endif
