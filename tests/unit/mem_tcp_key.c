/* Secret keys in files: as they are made they are read, and others are refused. */
#include "mem/tcp/tls.h"

#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { TEXT_BYTES = 15 + 44 + 1 };

static char dir[32], key[64], other[64];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/tram-key-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return 1;
    snprintf(key, sizeof key, "%s/key", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(key);
    unlink(other);
    return rmdir(dir);
}

static void make(unsigned char public_key[TLS_KEY_BYTES])
{
    struct err e = {""};

    if (tls_key_make(key, public_key, &e) != 0)
        fail_msg("%s", e.text);
}

static void expect_read(const char *path, int code, const char *says)
{
    unsigned char secret[TLS_KEY_BYTES], public_key[TLS_KEY_BYTES];
    struct err e = {""};
    int rc = tls_key_read(path, secret, public_key, &e);

    if (rc != code || strstr(e.text, says) == NULL || (code < 0 && strstr(e.text, path) == NULL))
        fail_msg("code %d, wanted %d and '%s', says: %s", rc, code, says, e.text);
}

static void write_key(const char *text, size_t bytes)
{
    FILE *f = fopen(key, "w");

    assert_non_null(f);
    assert_int_equal(fchmod(fileno(f), 0600), 0);
    assert_int_equal(fwrite(text, 1, bytes, f), bytes);
    fclose(f);
}

static size_t read_text(char text[TEXT_BYTES + 1])
{
    FILE *f = fopen(key, "r");

    assert_non_null(f);
    size_t got = fread(text, 1, TEXT_BYTES + 1, f);
    fclose(f);
    return got;
}

/* Whatever the umask is. */
static void key__the_mode_is_0600(void **state)
{
    static const mode_t masks[] = {0, 0077, 0777};
    unsigned char public_key[TLS_KEY_BYTES];
    struct stat st;

    (void)state;
    for (unsigned i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        mode_t before = umask(masks[i]);
        make(public_key);
        umask(before);
        assert_int_equal(stat(key, &st), 0);
        assert_int_equal(st.st_mode, S_IFREG | 0600);
        unlink(key);
    }
}

static void key__what_is_made_is_read(void **state)
{
    unsigned char made[TLS_KEY_BYTES], secret[TLS_KEY_BYTES], got[TLS_KEY_BYTES];
    unsigned char expected[crypto_sign_PUBLICKEYBYTES], both[crypto_sign_SECRETKEYBYTES];
    char text[TEXT_BYTES + 1];
    struct err e = {""};

    (void)state;
    make(made);
    assert_int_equal(read_text(text), TEXT_BYTES);
    assert_memory_equal(text, "ed25519-secret:", 15);
    assert_int_equal(text[TEXT_BYTES - 1], '\n');
    assert_int_equal(tls_key_read(key, secret, got, &e), 0);
    assert_memory_equal(got, made, TLS_KEY_BYTES);
    crypto_sign_seed_keypair(expected, both, secret);
    assert_memory_equal(got, expected, TLS_KEY_BYTES);
    tls_key_wipe(secret);
    assert_true(sodium_is_zero(secret, sizeof secret));
}

/* RFC 8032, 7.1, test 1. */
static void key__is_an_ed25519_key(void **state)
{
    static const char text[] = "ed25519-secret:nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
    static const unsigned char expected[] = {0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7,
                                             0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a,
                                             0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25,
                                             0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a};
    unsigned char secret[TLS_KEY_BYTES], got[TLS_KEY_BYTES];
    struct err e = {""};

    (void)state;
    write_key(text, sizeof text - 1); /* the line end may be missing */
    assert_int_equal(tls_key_read(key, secret, got, &e), 0);
    assert_memory_equal(got, expected, TLS_KEY_BYTES);
    assert_int_equal(secret[0], 0x9d);
}

static void key__no_two_are_the_same(void **state)
{
    unsigned char one[TLS_KEY_BYTES], two[TLS_KEY_BYTES];

    (void)state;
    make(one);
    unlink(key);
    make(two);
    assert_memory_not_equal(one, two, TLS_KEY_BYTES);
}

static void key__one_that_exists_is_kept(void **state)
{
    unsigned char one[TLS_KEY_BYTES], two[TLS_KEY_BYTES] = {0};
    char before[TEXT_BYTES + 1], after[TEXT_BYTES + 1];
    struct err e = {""};

    (void)state;
    make(one);
    read_text(before);
    assert_int_equal(tls_key_make(key, two, &e), ERR_EXISTS);
    assert_non_null(strstr(e.text, "exists; a key is not replaced"));
    assert_non_null(strstr(e.text, key));
    assert_true(sodium_is_zero(two, sizeof two));
    read_text(after);
    assert_memory_equal(before, after, TEXT_BYTES);
    /* Nor is it made where a link leads. */
    assert_int_equal(symlink("elsewhere", other), 0);
    assert_int_equal(tls_key_make(other, two, &e), ERR_EXISTS);
}

static void key__no_folder_no_key(void **state)
{
    unsigned char public_key[TLS_KEY_BYTES];
    struct err e = {""};

    (void)state;
    assert_int_equal(tls_key_make("/tmp/tram-no-such-folder/key", public_key, &e), ERR_SYSTEM);
    assert_non_null(strstr(e.text, "make /tmp/tram-no-such-folder/key"));
    expect_read(key, ERR_NOTFOUND, "there is no such file");
}

static void key__others_may_not_use_it(void **state)
{
    static const mode_t bad[] = {0604, 0640, 0644, 0660, 0602, 0610, 0601, 0777};
    unsigned char public_key[TLS_KEY_BYTES];

    (void)state;
    make(public_key);
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(chmod(key, bad[i]), 0);
        expect_read(key, ERR_REFUSED, "a key is for its owner alone: chmod 600");
    }
    assert_int_equal(chmod(key, 0400), 0);
    expect_read(key, 0, "");
}

/* Only root can give files away; elsewhere the test has nothing to show. */
static void key__it_is_ours(void **state)
{
    unsigned char public_key[TLS_KEY_BYTES];

    (void)state;
    make(public_key);
    if (chown(key, 12345, (gid_t)-1) == 0)
        expect_read(key, ERR_REFUSED, "it belongs to uid 12345; a key is ours");
}

static void key__it_is_a_plain_file(void **state)
{
    (void)state;
    expect_read(dir, ERR_INVALID, "a key is a plain file");
    assert_int_equal(mkfifo(other, 0600), 0);
    expect_read(other, ERR_INVALID, "a key is a plain file");
}

static void key__anything_else_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "\n",
        "ed25519-secret:",
        "ed25519-secret:nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",   /* no padding */
        "ed25519-secret:nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2B=",  /* bits left over */
        "ed25519-secret:nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=",  /* of another alphabet */
        "ed25519-secret: nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=", /* a blank */
        "ed25519-secret:nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A= ", /* and another */
        "ed25519-secret:nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=\n\n",
        "ed25519-secret:nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2Ab", /* 33 bytes */
        "ed25519-public:nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=\n",
        "ED25519-SECRET:nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=\n",
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60\n",
    };

    (void)state;
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_key(bad[i], strlen(bad[i]));
        expect_read(key, ERR_INVALID,
                    "a secret key is one line of `ed25519-secret:` and 44 characters of base64");
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(key__the_mode_is_0600),        CASE(key__what_is_made_is_read),
        CASE(key__is_an_ed25519_key),       CASE(key__no_two_are_the_same),
        CASE(key__one_that_exists_is_kept), CASE(key__no_folder_no_key),
        CASE(key__others_may_not_use_it),   CASE(key__it_is_ours),
        CASE(key__it_is_a_plain_file),      CASE(key__anything_else_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
