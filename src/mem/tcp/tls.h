/* Who is at the other end of a connection, and that nobody between reads or changes what is said: a handshake of TLS 1.3,
 * with a certificate on both sides, and then records under the keys that it gives (mem/tcp/seal.h).
 *
 * A `struct tls` is what a node is and whom it knows. It does not change; when keys change another one is made, and
 * connections keep the one that they began with. It may be used by several threads. Either every node has an Ed25519
 * key and knows the public keys of all others (their certificates are made here, say nothing, and are not looked at but
 * for the key), or all have certificates of an authority (`ca`): then a host is who has its name in its certificate,
 * and a client is everybody else. A certificate with the names of two hosts is refused.
 *
 * A `struct tls_end` is one end of one connection. It has no socket: what has come is put into it, and what it has to say
 * is taken from it. One thread at a time uses it.
 *
 * With `clear` both prove who they are, and what follows is neither encrypted nor signed. Both must want it; the caller
 * sees to it that neither end of the connection is beyond this machine. */
#ifndef MEM_TCP_TLS_H
#define MEM_TCP_TLS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TLS_KEY_BYTES = 32,       /* of a public key, and of a secret one (RFC 8032) */
    TLS_KEYS_EACH = 2,        /* of one name: one may be replaced while the other is in use */
    TLS_RECORD_BYTES = 16384, /* most that one record carries */
    TLS_RECORD_MORE = 20,     /* and what it adds to that: head and tag */
};

/* A name, and the public keys that go with it. */
struct tls_identity {
    const char *name;
    uint32_t keys; /* none: nobody has the name */
    unsigned char key[TLS_KEYS_EACH][TLS_KEY_BYTES];
};

struct tls_options {
    const unsigned char *secret;         /* of ours; NULL: with an authority */
    const char *ca, *cert, *secret_path; /* PEM files; NULL: without one */
    const struct tls_identity
        *hosts; /* with an authority the names alone count, and no clients are named */
    uint32_t hosts_count;
    const struct tls_identity *clients;
    uint32_t clients_count;
    bool clear;
};

struct tls;

/* ERR_NOTFOUND, ERR_REFUSED (others may read the secret), ERR_INVALID: the text names the file and says what is wrong. */
int tls_open(const struct tls_options *, struct tls **, struct err *);
struct tls *tls_share(struct tls *); /* one user more, */
void tls_drop(struct tls *);         /* and one less: the last one frees it; NULL is allowed */

bool tls_clear(const struct tls *);

/* Who the other side has proven to be. */
struct tls_peer {
    bool host;
    uint32_t index;                   /* among hosts or clients; 0 for clients with an authority */
    unsigned char key[TLS_KEY_BYTES]; /* pinned: the one that was used; with an authority: zeros */
};

/* Is that still so for another struct tls? With an authority always: what it takes back is beyond us. Who was proven
 * by a key is not known to one with an authority, nor the other way round. */
bool tls_knows(const struct tls *, const struct tls_peer *);

struct tls_end;

/* `accepts`: the other side connects. NULL: no memory. */
struct tls_end *tls_end_new(struct tls *, bool accepts);
void tls_end_free(struct tls_end *); /* NULL is allowed */

/* What has come: room for it (never none while the end waits for something: it may be none after tls_read filled all
 * the room that it was given), and how much of that was filled. */
unsigned char *tls_in(struct tls_end *, size_t *room);
void tls_in_add(struct tls_end *, size_t bytes);

/* What has to go out, and how much of that has. */
const unsigned char *tls_out(struct tls_end *, size_t *bytes);
void tls_out_drop(struct tls_end *, size_t bytes);

enum tls_step {
    TLS_AGAIN,  /* with what comes next; send what there is */
    TLS_READY,  /* and with `clear` nothing below is encrypted any more */
    TLS_FAILED, /* tls_why says why; what there is to send tells the other side */
};

/* Goes on with the handshake. Who is ready has been judged by the other side, too. */
enum tls_step tls_handshake(struct tls_end *);
const char *tls_why(const struct tls_end *);
bool tls_told(const struct tls_end *); /* the other side has said so, and does not want us */

/* After TLS_READY. */
struct tls_peer tls_end_peer(const struct tls_end *);
bool tls_end_clear(const struct tls_end *);
const struct tls *tls_end_of(const struct tls_end *);

/* Takes as much as there is room for among what has to go out, 0 if there is little, or after a failure. */
size_t tls_write(struct tls_end *, const void *, size_t bytes);

/* What has come and is the other side's: how much, 0 if none is whole yet, -1 if it was tampered with or ended (tls_why).
 * If that is all the room there was there may be more, though nothing comes. */
long tls_read(struct tls_end *, void *out, size_t room);

/* ---- keys in files ---- */

/* A secret key in a file of mode 0600 that must not exist: one line of `ed25519-secret:` and 44 characters of base64.
 * *public is what goes with it. */
int tls_key_make(const char *path, unsigned char public_key[TLS_KEY_BYTES], struct err *);

/* Reads one. ERR_REFUSED: others may read the file, or it is not ours. */
int tls_key_read(const char *path, unsigned char secret[TLS_KEY_BYTES],
                 unsigned char public_key[TLS_KEY_BYTES], struct err *);

/* Forgets it, as the compiler may not. */
void tls_key_wipe(unsigned char secret[TLS_KEY_BYTES]);

#endif
