/* Who the other side is: the name that goes with its key, or the one in its certificate. */
#include "mem/tcp/tls_impl.h"

#include <openssl/x509v3.h>
#include <sodium.h>
#include <string.h>

/* ---- keys ---- */

static bool has_key(const struct tls_identity *who, const unsigned char key[TLS_KEY_BYTES])
{
    for (uint32_t i = 0; i < who->keys; i++)
        if (memcmp(who->key[i], key, TLS_KEY_BYTES) == 0)
            return true;
    return false;
}

static bool find(const struct tls_identity *list, uint32_t count,
                 const unsigned char key[TLS_KEY_BYTES], uint32_t *index)
{
    for (uint32_t i = 0; i < count; i++)
        if (has_key(&list[i], key)) {
            *index = i;
            return true;
        }
    return false;
}

/* The key of a certificate, if it is an Ed25519 one. */
static bool key_of(X509 *cert, unsigned char key[TLS_KEY_BYTES])
{
    EVP_PKEY *k = cert ? X509_get0_pubkey(cert) : NULL;
    size_t bytes = TLS_KEY_BYTES;

    return k && EVP_PKEY_get_base_id(k) == EVP_PKEY_ED25519 &&
           EVP_PKEY_get_raw_public_key(k, key, &bytes) == 1 && bytes == TLS_KEY_BYTES;
}

/* A key that we do not know is what others call an unknown authority; the alert for that goes out. */
static int refuse_key(X509_STORE_CTX *c)
{
    X509_STORE_CTX_set_error(c, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT);
    return 0;
}

static struct tls_end *end_of(X509_STORE_CTX *c)
{
    return tls_end_of_ssl(X509_STORE_CTX_get_ex_data(c, SSL_get_ex_data_X509_STORE_CTX_idx()));
}

/* That the other side has the secret which goes with the key, OpenSSL sees to: without a good signature of
 * the handshake it fails, and what is found here counts for nothing. */
int tls_verify_key(X509_STORE_CTX *c, void *arg)
{
    const struct tls *t = arg;
    struct tls_end *e = end_of(c);
    struct tls_peer p = {0};

    if (!key_of(X509_STORE_CTX_get0_cert(c), p.key)) {
        tls_end_because(e, "its certificate has no Ed25519 key");
        return refuse_key(c);
    }
    p.host = find(t->hosts, t->hosts_count, p.key, &p.index);
    if (!p.host && !find(t->clients, t->clients_count, p.key, &p.index)) {
        tls_end_because(e, "its key is not in the cluster file");
        return refuse_key(c);
    }
    tls_end_found(e, p);
    X509_STORE_CTX_set_error(c, X509_V_OK);
    return 1;
}

bool tls_knows(const struct tls *t, const struct tls_peer *p)
{
    bool by_key = !sodium_is_zero(p->key, sizeof p->key);

    if (t->authority || !by_key)
        return t->authority && !by_key;
    if (p->host)
        return p->index < t->hosts_count && has_key(&t->hosts[p->index], p->key);
    /* Which of the clients says nothing here, and their order may have changed. */
    for (uint32_t i = 0; i < t->clients_count; i++)
        if (has_key(&t->clients[i], p->key))
            return true;
    return false;
}

/* ---- certificates of an authority ---- */

/* The same certificate serves to connect and to accept, so either use will do; but one for mail or code is
 * none for us. What is not there (all bits set) forbids nothing. */
static bool for_tls(X509 *cert)
{
    return X509_get_extended_key_usage(cert) & (XKU_SSL_SERVER | XKU_SSL_CLIENT | XKU_ANYEKU) &&
           X509_get_key_usage(cert) & KU_DIGITAL_SIGNATURE;
}

static bool is_name(const GENERAL_NAME *n, const char *name)
{
    int type;
    const ASN1_STRING *s = GENERAL_NAME_get0_value(n, &type);
    size_t bytes = strlen(name);

    return type == GEN_DNS && (size_t)ASN1_STRING_length(s) == bytes &&
           memcmp(ASN1_STRING_get0_data(s), name, bytes) == 0;
}

static bool has_name(const GENERAL_NAMES *names, const char *name)
{
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++)
        if (is_name(sk_GENERAL_NAME_value(names, i), name))
            return true;
    return false;
}

/* The one host that is named; byte by byte, for two names may differ by case alone, and a name that stands for
 * many is nobody's. False: there are two. */
static bool host_of(const struct tls *t, const GENERAL_NAMES *names, struct tls_peer *p)
{
    for (uint32_t i = 0; i < t->hosts_count; i++) {
        if (!has_name(names, t->hosts[i].name))
            continue;
        if (p->host)
            return false;
        p->host = true;
        p->index = i;
    }
    return true;
}

static int refuse_certificate(X509_STORE_CTX *c)
{
    X509_STORE_CTX_set_error(c, X509_V_ERR_CERT_REJECTED);
    return 0;
}

int tls_verify_chain(X509_STORE_CTX *c, void *arg)
{
    struct tls_end *e = end_of(c);
    X509 *cert = X509_STORE_CTX_get0_cert(c);
    struct tls_peer p = {0};

    if (X509_verify_cert(c) != 1) {
        int why = X509_STORE_CTX_get_error(c);
        tls_end_because(e, "its certificate is not good: %s", X509_verify_cert_error_string(why));
        return 0;
    }
    if (!for_tls(cert)) {
        tls_end_because(e, "its certificate is for other uses than TLS");
        return refuse_certificate(c);
    }
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    bool one = host_of(arg, names, &p);
    GENERAL_NAMES_free(names);
    if (!one) {
        tls_end_because(e, "its certificate has the names of two hosts");
        return refuse_certificate(c);
    }
    tls_end_found(e, p);
    return 1;
}
