/* What all connections of a node share: its key and certificate, whom it trusts, and what it insists on. */
#include "mem/secret.h"
#include "mem/tcp/tls_impl.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PEM_BYTES_MAX = 32768 };

/* ---- what is spoken ---- */

/* Both ends name what follows the handshake, and it fails if they do not agree (RFC 7301). */
static const unsigned char alpn_sealed[] = "\x06tram/1";
static const unsigned char alpn_clear[] = "\x0ctram/1-clear";

enum { SEALED_BYTES = sizeof alpn_sealed - 1, CLEAR_BYTES = sizeof alpn_clear - 1 };

static const unsigned char *alpn_of(bool clear, unsigned *bytes)
{
    *bytes = clear ? CLEAR_BYTES : SEALED_BYTES;
    return clear ? alpn_clear : alpn_sealed;
}

bool tls_alpn_agreed(const SSL *ssl, bool clear)
{
    unsigned wanted_bytes, bytes;
    const unsigned char *wanted = alpn_of(clear, &wanted_bytes), *got;

    SSL_get0_alpn_selected(ssl, &got, &bytes);
    return bytes == wanted_bytes - 1 && memcmp(got, wanted + 1, bytes) == 0;
}

static bool offers(const unsigned char *in, unsigned in_bytes, bool clear)
{
    unsigned char *out, out_bytes;
    unsigned bytes;
    const unsigned char *wanted = alpn_of(clear, &bytes);

    return SSL_select_next_proto(&out, &out_bytes, wanted, bytes, in, in_bytes) ==
           OPENSSL_NPN_NEGOTIATED;
}

static int alpn_select(SSL *ssl, const unsigned char **out, unsigned char *out_bytes,
                       const unsigned char *in, unsigned in_bytes, void *arg)
{
    const struct tls *t = arg;
    unsigned bytes;
    const unsigned char *wanted = alpn_of(t->clear, &bytes);

    if (offers(in, in_bytes, t->clear)) {
        *out = wanted + 1;
        *out_bytes = wanted[0];
        return SSL_TLSEXT_ERR_OK;
    }
    tls_end_because(tls_end_of_ssl(ssl), "%s",
                    !offers(in, in_bytes, !t->clear) ? "it does not speak our protocol"
                    : t->clear                       ? "we want clear text and it does not"
                                                     : "it wants clear text and we do not");
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int no_password(char *text, int bytes, int writes, void *arg)
{
    (void)text, (void)bytes, (void)writes, (void)arg;
    return -1; /* else OpenSSL asks at the terminal */
}

/* As little as TLS lets us: one version, one cipher, one group; nothing is resumed, so that each connection is
 * proven anew, and nothing is said before that. */
static bool insist(const struct tls *t, SSL_CTX *c)
{
    SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_clear_options(c, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(c, SSL_MODE_NO_AUTO_CHAIN); /* what is shown is what the file has */
    SSL_CTX_clear_mode(c, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(c, 0); /* what follows the handshake may be clear text */
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_max_cert_list(c, TLS_CHAIN_BYTES_MAX + 1024);
    SSL_CTX_set_default_passwd_cb(c, no_password);
    return SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256") == 1 &&
           SSL_CTX_set1_groups_list(c, "X25519") == 1 && SSL_CTX_set_num_tickets(c, 0) == 1 &&
           SSL_CTX_set_max_early_data(c, 0) == 1 && SSL_CTX_set_recv_max_early_data(c, 0) == 1 &&
           (t->authority || SSL_CTX_set1_sigalgs_list(c, "ed25519") == 1);
}

static bool contexts_make(struct tls *t)
{
    static const unsigned char id[] = "tram";
    unsigned bytes;
    const unsigned char *alpn = alpn_of(t->clear, &bytes);

    t->connects = SSL_CTX_new(TLS_client_method());
    t->accepts = SSL_CTX_new(TLS_server_method());
    t->buffers = tls_buffers_new();
    if (!t->connects || !t->accepts || !t->buffers || !insist(t, t->connects) ||
        !insist(t, t->accepts))
        return false;
    SSL_CTX_set_alpn_select_cb(t->accepts, alpn_select, t);
    /* Zero is good here, and the session is for the side that accepts alone. */
    return SSL_CTX_set_alpn_protos(t->connects, alpn, bytes) == 0 &&
           SSL_CTX_set_session_id_context(t->accepts, id, sizeof id - 1) == 1;
}

/* ---- a key, and a certificate that says nothing ---- */

static bool fill_certificate(X509 *x, EVP_PKEY *key)
{
    /* Nobody looks at the dates; without a clock they cannot be wrong. */
    return X509_set_version(x, X509_VERSION_3) == 1 &&
           ASN1_INTEGER_set(X509_get_serialNumber(x), 1) == 1 &&
           ASN1_TIME_set_string_X509(X509_getm_notBefore(x), "19700101000000Z") == 1 &&
           ASN1_TIME_set_string_X509(X509_getm_notAfter(x), "99991231235959Z") == 1 &&
           X509_set_pubkey(x, key) == 1 && X509_sign(x, key, NULL) > 0;
}

static bool use_both(struct tls *t, X509 *x, EVP_PKEY *key)
{
    return SSL_CTX_use_certificate(t->connects, x) == 1 &&
           SSL_CTX_use_PrivateKey(t->connects, key) == 1 &&
           SSL_CTX_use_certificate(t->accepts, x) == 1 &&
           SSL_CTX_use_PrivateKey(t->accepts, key) == 1;
}

static int open_pinned(struct tls *t, const struct tls_options *o, struct err *e)
{
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, o->secret, TLS_KEY_BYTES);
    X509 *x = X509_new();
    bool ok = key && x && fill_certificate(x, key) && use_both(t, x, key);

    X509_free(x);
    EVP_PKEY_free(key);
    SSL_CTX_set_cert_verify_callback(t->connects, tls_verify_key, t);
    SSL_CTX_set_cert_verify_callback(t->accepts, tls_verify_key, t);
    return ok ? 0 : err_set(e, ERR_SYSTEM, "OpenSSL cannot make a certificate of an Ed25519 key");
}

/* ---- an authority ---- */

/* Says why OpenSSL does not take a file. */
static int not_taken(const char *path, const char *what, struct err *e)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());

    ERR_clear_error();
    return err_set(e, ERR_INVALID, "%s: %s (%s)", path, what, why ? why : "no reason is known");
}

static int check_there(const char *path, const char *what, struct err *e)
{
    if (access(path, R_OK) == 0)
        return 0;
    if (errno == ENOENT)
        return err_set(e, ERR_NOTFOUND, "%s: there is no such file; it should have %s", path, what);
    return err_sys(e, "open %s", path);
}

static int load_secret(const char *path, EVP_PKEY **key, struct err *e)
{
    static const char missing[] = "it should have the secret key that goes with our certificate";
    char text[PEM_BYTES_MAX];
    long got = secret_read(path, missing, text, sizeof text, e);

    if (got < 0)
        return (int)got;
    BIO *b = BIO_new_mem_buf(text, (int)got);
    *key = b ? PEM_read_bio_PrivateKey(b, NULL, no_password, NULL) : NULL;
    BIO_free(b);
    sodium_memzero(text, sizeof text);
    return *key ? 0 : not_taken(path, "it is no secret key in PEM without a password", e);
}

static size_t chain_bytes(SSL_CTX *c)
{
    STACK_OF(X509) *more = NULL;
    X509 *own = SSL_CTX_get0_certificate(c);
    size_t bytes = own ? (size_t)i2d_X509(own, NULL) : 0;

    SSL_CTX_get0_chain_certs(c, &more);
    for (int i = 0; i < sk_X509_num(more); i++)
        bytes += (size_t)i2d_X509(sk_X509_value(more, i), NULL);
    return bytes;
}

/* Every certificate of the file is trusted, also one that another authority has signed: who names it means it,
 * and not all that the other one has signed. None of the system's is. */
static int trust(struct tls *t, SSL_CTX *c, const char *ca, struct err *e)
{
    X509_VERIFY_PARAM *p = SSL_CTX_get0_param(c);

    if (SSL_CTX_load_verify_file(c, ca) != 1)
        return not_taken(ca, "it has no certificates in PEM", e);
    /* tls_verify_chain sees to the purpose, which here would depend on who connects. */
    X509_VERIFY_PARAM_set_purpose(p, X509_PURPOSE_ANY);
    X509_VERIFY_PARAM_set_flags(p, X509_V_FLAG_PARTIAL_CHAIN);
    SSL_CTX_set_cert_verify_callback(c, tls_verify_chain, t);
    return 0;
}

static int use_files(struct tls *t, SSL_CTX *c, const struct tls_options *o, EVP_PKEY *key,
                     struct err *e)
{
    int rc = trust(t, c, o->ca, e);

    if (rc < 0)
        return rc;
    if (SSL_CTX_use_certificate_chain_file(c, o->cert) != 1)
        return not_taken(o->cert, "it has no certificate in PEM", e);
    if (chain_bytes(c) > TLS_CHAIN_BYTES_MAX)
        return err_set(e, ERR_INVALID, "%s: its certificates have %zu bytes; %d are allowed",
                       o->cert, chain_bytes(c), TLS_CHAIN_BYTES_MAX);
    if (SSL_CTX_use_PrivateKey(c, key) != 1)
        return not_taken(o->secret_path, "it does not go with our certificate", e);
    return 0;
}

static int open_authority(struct tls *t, const struct tls_options *o, struct err *e)
{
    EVP_PKEY *key = NULL;

    if (!o->cert || !o->secret_path)
        return err_set(e, ERR_INVALID, "%s: an authority takes a certificate and its key besides",
                       o->ca);
    int rc = check_there(o->ca, "the certificates of the authority", e);
    rc = rc < 0 ? rc : check_there(o->cert, "our certificate", e);
    rc = rc < 0 ? rc : load_secret(o->secret_path, &key, e);
    rc = rc < 0 ? rc : use_files(t, t->connects, o, key, e);
    rc = rc < 0 ? rc : use_files(t, t->accepts, o, key, e);
    EVP_PKEY_free(key);
    return rc;
}

/* ---- all of it ---- */

static size_t names_bytes(const struct tls_identity *list, uint32_t count)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += strlen(list[i].name) + 1;
    return bytes;
}

/* The names follow each other at `names`; returns where the next one goes. */
static char *copy_list(struct tls_identity *to, const struct tls_identity *from, uint32_t count,
                       char *names)
{
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes = strlen(from[i].name) + 1;
        CHECK(from[i].keys <= TLS_KEYS_EACH);
        to[i] = from[i];
        to[i].name = memcpy(names, from[i].name, bytes);
        names += bytes;
    }
    return names;
}

static bool copy_identities(struct tls *t, const struct tls_options *o)
{
    t->hosts_count = o->hosts_count;
    t->clients_count = o->clients_count;
    t->hosts = calloc((size_t)o->hosts_count + 1, sizeof *t->hosts);
    t->clients = calloc((size_t)o->clients_count + 1, sizeof *t->clients);
    t->names = malloc(names_bytes(o->hosts, o->hosts_count) +
                      names_bytes(o->clients, o->clients_count) + 1);
    if (!t->hosts || !t->clients || !t->names)
        return false;
    char *next = copy_list(t->hosts, o->hosts, o->hosts_count, t->names);
    copy_list(t->clients, o->clients, o->clients_count, next);
    return true;
}

static int open_all(struct tls *t, const struct tls_options *o, struct err *e)
{
    if (sodium_init() < 0)
        return err_set(e, ERR_SYSTEM, "no source of random numbers");
    /* Our threads may still be at it when the process ends, so OpenSSL must not tidy up under them. */
    if (OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
        return err_set(e, ERR_SYSTEM, "OpenSSL does not start");
    if (!copy_identities(t, o))
        return err_set(e, ERR_NOMEM, "no memory for the keys of all nodes");
    ERR_clear_error();
    if (!contexts_make(t))
        return not_taken("OpenSSL", "it has not all that we need", e);
    return t->authority ? open_authority(t, o, e) : open_pinned(t, o, e);
}

int tls_open(const struct tls_options *o, struct tls **out, struct err *e)
{
    struct tls *t = calloc(1, sizeof *t);

    CHECK((o->secret == NULL) == (o->ca != NULL)); /* one or the other */
    if (!t)
        return err_set(e, ERR_NOMEM, "no memory for TLS");
    atomic_init(&t->users, 1);
    t->authority = o->ca != NULL;
    t->clear = o->clear;
    t->rekey_records = TLS_REKEY_RECORDS;
    int rc = open_all(t, o, e);
    if (rc < 0)
        tls_drop(t);
    else
        *out = t;
    return rc;
}

bool tls_clear(const struct tls *t)
{
    return t->clear;
}

struct tls *tls_share(struct tls *t)
{
    atomic_fetch_add_explicit(&t->users, 1, memory_order_relaxed);
    return t;
}

void tls_drop(struct tls *t)
{
    /* The last user sees all that the others did before they left. */
    if (!t || atomic_fetch_sub_explicit(&t->users, 1, memory_order_acq_rel) > 1)
        return;
    SSL_CTX_free(t->connects);
    SSL_CTX_free(t->accepts);
    BIO_meth_free(t->buffers);
    free(t->hosts);
    free(t->clients);
    free(t->names);
    free(t);
}
