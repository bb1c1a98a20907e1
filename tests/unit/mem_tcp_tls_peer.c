/* Certificates of an authority: which make a host, which a client, and which nobody. They are made here, in a folder
 * that is gone afterwards. */
#include "../tls_fixture.h"

#include <dirent.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { WHOLE = 1 << 20, ISSUED_MAX = 16 };

/* A certificate to be made; zero: by nobody but itself, for a year. */
struct wish {
    const char *by;              /* the name of an issuer that was made before */
    const char *names;           /* subjectAltName, as openssl's configuration has it */
    const char *usage, *purpose; /* keyUsage, extendedKeyUsage */
    int from_days, to_days;
    bool ca;
};

struct issued {
    char name[16];
    X509 *cert;
    EVP_PKEY *key;
};

static struct issued issued[ISSUED_MAX];
static unsigned issued_count;
static char dir[32];
static struct tls *of_a, *of_b;
static struct tls_end *a, *b;
static enum tls_step step_a, step_b;
static const struct tls_identity hosts[TLS_HOSTS] = {
    {.name = "h0"}, {.name = "h1"}, {.name = "h2.example"}};

static const char *in_dir(const char *name, const char *ending)
{
    static char paths[64][320]; /* longer than a test remembers them */
    static unsigned next;
    char *path = paths[next++ % 64];

    snprintf(path, sizeof paths[0], "%s/%s%s", dir, name, ending);
    return path;
}

static struct issued *find(const char *name)
{
    for (unsigned i = 0; i < issued_count; i++)
        if (strcmp(issued[i].name, name) == 0)
            return &issued[i];
    fail_msg("there is no %s", name);
    return NULL;
}

static void extend(X509 *x, X509 *issuer, int nid, const char *text)
{
    X509V3_CTX c;

    if (!text)
        return;
    X509V3_set_ctx(&c, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &c, nid, text);
    assert_non_null(ext);
    assert_int_equal(X509_add_ext(x, ext, -1), 1);
    X509_EXTENSION_free(ext);
}

static void save(const struct issued *i)
{
    FILE *f = fopen(in_dir(i->name, ""), "w");

    assert_non_null(f);
    assert_int_equal(PEM_write_X509(f, i->cert), 1);
    fclose(f);
    f = fopen(in_dir(i->name, ".key"), "w");
    assert_non_null(f);
    assert_int_equal(fchmod(fileno(f), 0600), 0);
    assert_int_equal(PEM_write_PrivateKey(f, i->key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(f);
}

/* NAME and NAME.key in the folder. The name stands in the subject, which must count for nothing. */
static void make(const char *name, struct wish w)
{
    struct issued *i = &issued[issued_count++];
    X509 *x = X509_new();

    assert_true(issued_count <= ISSUED_MAX);
    snprintf(i->name, sizeof i->name, "%s", name);
    i->key = EVP_EC_gen("P-256");
    i->cert = x;
    const struct issued *by = w.by ? find(w.by) : i;
    X509_set_version(x, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x), issued_count);
    X509_time_adj_ex(X509_getm_notBefore(x), w.from_days ? w.from_days : -1, 0, NULL);
    X509_time_adj_ex(X509_getm_notAfter(x), w.to_days ? w.to_days : 365, 0, NULL);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(by->cert));
    X509_set_pubkey(x, i->key);
    extend(x, by->cert, NID_basic_constraints, w.ca ? "critical,CA:TRUE" : NULL);
    extend(x, by->cert, NID_subject_alt_name, w.names);
    extend(x, by->cert, NID_key_usage, w.usage);
    extend(x, by->cert, NID_ext_key_usage, w.purpose);
    assert_true(X509_sign(x, by->key, EVP_sha256()) > 0);
    save(i);
}

static void end_both(void)
{
    tls_end_free(a);
    tls_end_free(b);
    tls_drop(of_a);
    tls_drop(of_b);
    a = b = NULL;
    of_a = of_b = NULL;
}

/* Every test has an authority, a host and a client of it. */
static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/tram-ca-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return 1;
    make("ca", (struct wish){.ca = true, .usage = "keyCertSign"});
    make("host", (struct wish){.by = "ca", .names = "DNS:h0"});
    make("client", (struct wish){.by = "ca"});
    return 0;
}

static int teardown(void **state)
{
    DIR *d = opendir(dir);
    const struct dirent *entry;

    (void)state;
    end_both();
    while (issued_count > 0) {
        struct issued *i = &issued[--issued_count];
        X509_free(i->cert);
        EVP_PKEY_free(i->key);
    }
    while (d && (entry = readdir(d)) != NULL)
        if (entry->d_name[0] != '.')
            unlink(in_dir(entry->d_name, ""));
    closedir(d);
    return rmdir(dir);
}

static struct tls_options options(const char *ca, const char *name)
{
    return (struct tls_options){.ca = in_dir(ca, ""),
                                .cert = in_dir(name, ""),
                                .secret_path = in_dir(name, ".key"),
                                .hosts = hosts,
                                .hosts_count = TLS_HOSTS};
}

static struct tls *open_as(const char *ca, const char *name)
{
    struct tls_options o = options(ca, name);
    struct err e = {""};
    struct tls *t = NULL;

    if (tls_open(&o, &t, &e) < 0)
        fail_msg("%s", e.text);
    return t;
}

static void join_with(struct tls *t_a, struct tls *t_b)
{
    end_both();
    of_a = t_a;
    of_b = t_b;
    a = tls_end_new(of_a, false);
    b = tls_end_new(of_b, true);
    tls_fixture_shake(a, b, WHOLE, &step_a, &step_b);
}

static void join(const char *name_a, const char *name_b)
{
    join_with(open_as("ca", name_a), open_as("ca", name_b));
}

static void expect_ready(void)
{
    if (step_a != TLS_READY || step_b != TLS_READY)
        fail_msg("a: %d %s, b: %d %s", step_a, tls_why(a), step_b, tls_why(b));
}

static void expect_peer(const struct tls_end *e, bool host, uint32_t index)
{
    struct tls_peer p = tls_end_peer(e);

    assert_int_equal(p.host, host);
    assert_int_equal(p.index, index);
    assert_true(sodium_is_zero(p.key, sizeof p.key));
}

static void expect_why(const struct tls_end *e, const char *text)
{
    if (strstr(tls_why(e), text) == NULL)
        fail_msg("wanted '%s', it says '%s'", text, tls_why(e));
}

/* What it is to the host, when it connects and when it accepts. */
static void expect_is(const char *name, bool host, uint32_t index)
{
    join(name, "host");
    expect_ready();
    expect_peer(b, host, index);
    expect_peer(a, true, 0);
    join("client", name);
    expect_ready();
    expect_peer(a, host, index);
    expect_peer(b, false, 0);
}

/* Refused for that on both sides, and told so. */
static void expect_refused(const char *name, const char *why, const char *told)
{
    char got[8];

    join(name, "host");
    assert_int_equal(step_b, TLS_FAILED);
    expect_why(b, why);
    assert_int_equal(tls_read(a, got, sizeof got), -1);
    expect_why(a, told);
    join("client", name);
    assert_int_equal(step_a, TLS_FAILED);
    expect_why(a, why);
    assert_int_equal(step_b, TLS_FAILED);
    expect_why(b, told);
}

/* ---- who is who ---- */

static void authority__a_name_makes_a_host(void **state)
{
    char got[8];

    (void)state;
    expect_is("host", true, 0);
    expect_is("client", false, 0);
    make("many", (struct wish){.by = "ca", .names = "DNS:elsewhere,IP:10.0.0.1,DNS:h2.example"});
    expect_is("many", true, 2);
    assert_int_equal(tls_write(a, "hello", 5), 5);
    tls_fixture_carry(a, b, WHOLE);
    assert_int_equal(tls_read(b, got, sizeof got), 5);
}

static void authority__only_the_whole_name_counts(void **state)
{
    static const char *const names[] = {
        "DNS:*.example", "DNS:*",        "DNS:H0", "DNS:h0.example",
        "DNS:h",         "DNS:.example", "URI:h0", "email:h0",
    };
    char name[16];

    (void)state;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(name, sizeof name, "n%u", i);
        make(name, (struct wish){.by = "ca", .names = names[i]});
        expect_is(name, false, 0);
    }
    make("h1", (struct wish){.by = "ca"}); /* in the subject */
    expect_is("h1", false, 0);
}

static void authority__two_hosts_in_one_are_refused(void **state)
{
    (void)state;
    make("two", (struct wish){.by = "ca", .names = "DNS:h0,DNS:h1"});
    expect_refused("two", "its certificate has the names of two hosts",
                   "it refuses our certificate");
    make("twice", (struct wish){.by = "ca", .names = "DNS:h1,DNS:h1"});
    expect_is("twice", true, 1);
}

/* The same certificate is for both sides of a connection. */
static void authority__uses_of_tls_will_do(void **state)
{
    (void)state;
    make("server",
         (struct wish){
             .by = "ca", .names = "DNS:h1", .purpose = "serverAuth", .usage = "digitalSignature"});
    expect_is("server", true, 1);
    make("clients", (struct wish){.by = "ca", .purpose = "clientAuth"});
    expect_is("clients", false, 0);
    make("code", (struct wish){.by = "ca", .names = "DNS:h1", .purpose = "codeSigning"});
    expect_refused("code", "for other uses than TLS", "it refuses our certificate");
    make("crl", (struct wish){.by = "ca", .names = "DNS:h1", .usage = "cRLSign"});
    expect_refused("crl", "for other uses than TLS", "it refuses our certificate");
}

static void authority__what_it_proved_stays_so(void **state)
{
    struct tls_fixture_book book = tls_fixture_book();
    struct tls *pinned = tls_fixture_open(&book, 0, false);

    (void)state;
    join("client", "host");
    expect_ready();
    struct tls_peer host = tls_end_peer(a), client = tls_end_peer(b);
    assert_true(tls_knows(of_a, &host) && tls_knows(of_b, &client));
    /* But who changes from one to the other knows nobody of before. */
    assert_false(tls_knows(pinned, &host) || tls_knows(pinned, &client));
    memcpy(host.key, book.hosts[0].key[0], TLS_KEY_BYTES);
    assert_true(tls_knows(pinned, &host));
    assert_false(tls_knows(of_a, &host));
    tls_drop(pinned);
}

/* ---- who is nobody ---- */

static void authority__another_one_is_not_ours(void **state)
{
    (void)state;
    make("other", (struct wish){.ca = true, .usage = "keyCertSign"});
    make("h0", (struct wish){.by = "other", .names = "DNS:h0"});
    expect_refused("h0", "its certificate is not good", "it does not know the authority");
    make("self", (struct wish){.names = "DNS:h0"});
    expect_refused("self", "its certificate is not good", "it does not know the authority");
}

/* Of the same name, too. */
static void authority__a_namesake_is_not_ours(void **state)
{
    (void)state;
    struct issued first = issued[0];
    memcpy(issued[0].name, "old", 4);
    make("ca", (struct wish){.ca = true, .usage = "keyCertSign"});
    make("h0", (struct wish){.by = "ca", .names = "DNS:h0"});
    save(&first);
    expect_refused("h0", "its certificate is not good", "");
}

static void authority__time_counts(void **state)
{
    (void)state;
    make("late", (struct wish){.by = "ca", .from_days = -30, .to_days = -1});
    expect_refused("late", "certificate has expired", "our certificate has expired");
    make("early", (struct wish){.by = "ca", .from_days = 2});
    expect_refused("early", "not yet valid", "it refuses our certificate");
}

static void authority__who_was_signed_does_not_sign(void **state)
{
    FILE *f;

    (void)state;
    make("h0", (struct wish){.by = "client", .names = "DNS:h0"});
    f = fopen(in_dir("h0", ""), "a");
    assert_non_null(f);
    assert_int_equal(PEM_write_X509(f, find("client")->cert), 1);
    fclose(f);
    expect_refused("h0", "its certificate is not good", "it");
}

static void authority__a_chain_is_followed(void **state)
{
    FILE *f;

    (void)state;
    make("mid", (struct wish){.by = "ca", .ca = true, .usage = "keyCertSign"});
    make("h1", (struct wish){.by = "mid", .names = "DNS:h1"});
    /* Without what is between it fails, */
    expect_refused("h1", "its certificate is not good", "it does not know the authority");
    f = fopen(in_dir("h1", ""), "a");
    assert_non_null(f);
    assert_int_equal(PEM_write_X509(f, find("mid")->cert), 1);
    fclose(f);
    expect_is("h1", true, 1);
    /* and who trusts only that does not trust all of the one above. */
    join_with(open_as("mid", "h1"), open_as("mid", "h1"));
    expect_ready();
    join_with(open_as("ca", "h1"), open_as("mid", "host"));
    assert_int_equal(step_b, TLS_READY);
    join_with(open_as("ca", "client"), open_as("mid", "h1"));
    assert_int_equal(step_b, TLS_FAILED);
}

static void authority__and_keys_do_not_mix(void **state)
{
    struct tls_fixture_book book = tls_fixture_book();

    (void)state;
    join_with(tls_fixture_open(&book, 0, false), open_as("ca", "host"));
    assert_int_equal(step_a, TLS_FAILED);
    assert_int_equal(step_b, TLS_FAILED);
    expect_why(b, "it takes no cipher or no key of our kind");
    expect_why(a, "it takes no cipher or no key of our kind");
    join_with(open_as("ca", "client"), tls_fixture_open(&book, 0, false));
    assert_int_equal(step_a, TLS_FAILED);
    expect_why(a, "its certificate is not good");
    assert_int_equal(step_b, TLS_FAILED);
}

/* ---- files that are not as they should be ---- */

static void expect_open(struct tls_options o, int code, const char *says)
{
    struct err e = {""};
    struct tls *t = NULL;
    int rc = tls_open(&o, &t, &e);

    if (rc != code || strstr(e.text, says) == NULL)
        fail_msg("code %d, wanted %d and '%s', says: %s", rc, code, says, e.text);
    assert_null(t);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void authority__says_which_file_is_wrong(void **state)
{
    struct tls_options good = options("ca", "host"), o = good;

    (void)state;
    o.ca = in_dir("none", "");
    expect_open(o, ERR_NOTFOUND, "none: there is no such file; it should have the certificates of");
    o = good;
    o.cert = in_dir("none", "");
    expect_open(o, ERR_NOTFOUND, "none: there is no such file; it should have our certificate");
    o = good;
    o.secret_path = in_dir("none", "");
    expect_open(o, ERR_NOTFOUND, "none: there is no such file; it should have the secret key");
    o = good;
    o.secret_path = in_dir("client", ".key");
    expect_open(o, ERR_INVALID, "client.key: it does not go with our certificate");
    o.secret_path = NULL;
    expect_open(o, ERR_INVALID, "takes a certificate and its key besides");
    o = good;
    write_file(in_dir("none", ""), "nothing of use\n");
    chmod(in_dir("none", ""), 0600);
    o.ca = in_dir("none", "");
    expect_open(o, ERR_INVALID, "none: it has no certificates in PEM");
    o = good;
    o.cert = in_dir("none", "");
    expect_open(o, ERR_INVALID, "none: it has no certificate in PEM");
    o = good;
    o.secret_path = in_dir("none", "");
    expect_open(o, ERR_INVALID, "none: it is no secret key in PEM without a password");
    o.ca = dir;
    expect_open(o, ERR_INVALID, "");
}

static void authority__the_secret_is_for_us_alone(void **state)
{
    struct tls_options o = options("ca", "host");

    (void)state;
    assert_int_equal(chmod(o.secret_path, 0640), 0);
    expect_open(o, ERR_REFUSED, "host.key: others may use it (mode 640)");
    assert_int_equal(chmod(o.secret_path, 0604), 0);
    expect_open(o, ERR_REFUSED, "chmod 600");
    assert_int_equal(chmod(o.secret_path, 0400), 0);
    tls_drop(open_as("ca", "host"));
}

/* Nobody is asked for a password at a terminal. */
static void authority__a_password_is_not_asked_for(void **state)
{
    struct tls_options o = options("ca", "host");
    FILE *f = fopen(o.secret_path, "w");

    (void)state;
    assert_non_null(f);
    assert_int_equal(PEM_write_PrivateKey(f, find("host")->key, EVP_aes_128_cbc(),
                                          (const unsigned char *)"password", 8, NULL, NULL),
                     1);
    fclose(f);
    expect_open(o, ERR_INVALID, "without a password");
}

static void authority__a_chain_has_a_limit(void **state)
{
    struct tls_options o = options("ca", "host");
    FILE *f = fopen(o.cert, "a");

    (void)state;
    assert_non_null(f);
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(PEM_write_X509(f, find("ca")->cert), 1);
    fclose(f);
    expect_open(o, ERR_INVALID, "16384 are allowed");
}

/* As long as it may be, both ways: the buffers of a handshake have room for it. */
static void authority__the_longest_chain_fits(void **state)
{
    FILE *f = fopen(in_dir("host", ""), "a");
    int left = TLS_CHAIN_BYTES_MAX - i2d_X509(find("host")->cert, NULL);

    (void)state;
    assert_non_null(f);
    for (int each = i2d_X509(find("ca")->cert, NULL); left >= each; left -= each)
        assert_int_equal(PEM_write_X509(f, find("ca")->cert), 1);
    fclose(f);
    join("host", "host");
    expect_ready();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(authority__a_name_makes_a_host),          CASE(authority__only_the_whole_name_counts),
        CASE(authority__two_hosts_in_one_are_refused), CASE(authority__uses_of_tls_will_do),
        CASE(authority__what_it_proved_stays_so),      CASE(authority__another_one_is_not_ours),
        CASE(authority__a_namesake_is_not_ours),       CASE(authority__time_counts),
        CASE(authority__who_was_signed_does_not_sign), CASE(authority__a_chain_is_followed),
        CASE(authority__and_keys_do_not_mix),          CASE(authority__says_which_file_is_wrong),
        CASE(authority__the_secret_is_for_us_alone),   CASE(authority__a_password_is_not_asked_for),
        CASE(authority__a_chain_has_a_limit),          CASE(authority__the_longest_chain_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
