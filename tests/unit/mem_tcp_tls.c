/* Two ends of a connection, joined by memory: who they are to each other by their keys, what a third one between them
 * can do, and what goes through. */
#include "../tls_fixture.h"
#include "mem/tcp/seal.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { WHOLE = 1 << 20, BIG = 1 << 20 };

/* Of one connection; `a` connects to `b`. */
static struct tls *of_a, *of_b;
static struct tls_end *a, *b;
static enum tls_step step_a, step_b;
static struct tls_fixture_book book;

static int setup(void **state)
{
    (void)state;
    book = tls_fixture_book();
    of_a = of_b = NULL;
    a = b = NULL;
    return 0;
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

static int teardown(void **state)
{
    (void)state;
    end_both();
    return 0;
}

static void shake_by(size_t most)
{
    a = tls_end_new(of_a, false);
    b = tls_end_new(of_b, true);
    assert_true(a && b);
    tls_fixture_shake(a, b, most, &step_a, &step_b);
}

static void join_by(uint8_t number_a, uint8_t number_b, bool clear_a, bool clear_b, size_t most)
{
    end_both();
    of_a = tls_fixture_open(&book, number_a, clear_a);
    of_b = tls_fixture_open(&book, number_b, clear_b);
    shake_by(most);
}

static void join(uint8_t number_a, uint8_t number_b)
{
    join_by(number_a, number_b, false, false, WHOLE);
}

static void expect_ready(void)
{
    if (step_a != TLS_READY || step_b != TLS_READY)
        fail_msg("a: %d %s, b: %d %s", step_a, tls_why(a), step_b, tls_why(b));
    assert_string_equal(tls_why(a), "");
    assert_string_equal(tls_why(b), "");
}

static void expect_why(struct tls_end *e, const char *text)
{
    if (strstr(tls_why(e), text) == NULL)
        fail_msg("wanted '%s', it says '%s'", text, tls_why(e));
}

static void expect_peer(const struct tls_end *e, bool host, uint32_t index)
{
    struct tls_peer p = tls_end_peer(e);

    assert_int_equal(p.host, host);
    assert_int_equal(p.index, index);
}

/* All of it arrives, and nothing else. */
static void say(struct tls_end *from, struct tls_end *to, const void *data, size_t bytes)
{
    unsigned char *got = malloc(bytes + 1);
    size_t sent = 0, read = 0;

    while (read < bytes) {
        sent += tls_write(from, (const unsigned char *)data + sent, bytes - sent);
        size_t moved = tls_fixture_carry(from, to, WHOLE);
        long n = tls_read(to, got + read, bytes + 1 - read);
        if (n < 0)
            fail_msg("%s", tls_why(to));
        assert_true(n > 0 || moved > 0);
        read += (size_t)n;
    }
    assert_int_equal(read, bytes);
    assert_memory_equal(got, data, bytes);
    free(got);
}

static void expect_talk(void)
{
    say(a, b, "to b", 4);
    say(b, a, "to a, and more", 14);
    say(a, b, "again", 5);
}

/* ---- keys that are known ---- */

static void tls__both_know_who_the_other_is(void **state)
{
    (void)state;
    join(0, 1);
    expect_ready();
    expect_peer(a, true, 1);
    expect_peer(b, true, 0);
    assert_memory_equal(tls_end_peer(a).key, book.hosts[1].key[0], TLS_KEY_BYTES);
    assert_memory_equal(tls_end_peer(b).key, book.hosts[0].key[0], TLS_KEY_BYTES);
    assert_false(tls_end_clear(a));
    assert_ptr_equal(tls_end_of(a), of_a);
    expect_talk();
}

/* A client's key makes no host, whichever side it is on. */
static void tls__a_client_is_no_host(void **state)
{
    (void)state;
    join(101, 0);
    expect_ready();
    expect_peer(a, true, 0);
    expect_peer(b, false, 1);
    expect_talk();
    join(0, 100);
    expect_ready();
    expect_peer(a, false, 0);
}

static void tls__the_second_key_of_a_name_works(void **state)
{
    (void)state;
    join(11, 111);
    expect_ready();
    expect_peer(a, false, 1);
    expect_peer(b, true, 1);
    assert_memory_equal(tls_end_peer(b).key, book.hosts[1].key[1], TLS_KEY_BYTES);
    expect_talk();
}

/* However the bytes are cut on the way. */
static void tls__byte_by_byte_it_works_too(void **state)
{
    unsigned char data[100], got[100];
    size_t moved = 0;

    (void)state;
    join_by(0, 1, false, false, 1);
    expect_ready();
    memset(data, 'x', sizeof data);
    assert_int_equal(tls_write(a, data, sizeof data), sizeof data);
    while (tls_fixture_carry(a, b, 1) == 1) {
        long n = tls_read(b, got, sizeof got);
        assert_int_equal(n, ++moved < sizeof data + TLS_RECORD_MORE ? 0 : sizeof data);
    }
    assert_int_equal(moved, sizeof data + TLS_RECORD_MORE);
    assert_memory_equal(got, data, sizeof data);
}

static void tls__ends_keep_what_they_began_with(void **state)
{
    (void)state;
    of_a = tls_fixture_open(&book, 0, false);
    of_b = tls_fixture_open(&book, 1, false);
    a = tls_end_new(of_a, false);
    b = tls_end_new(of_b, true);
    tls_drop(of_a);
    tls_drop(of_b);
    of_a = of_b = NULL;
    tls_fixture_shake(a, b, WHOLE, &step_a, &step_b);
    expect_ready();
    expect_talk();
}

static void tls__knows_whose_key_is_still_listed(void **state)
{
    (void)state;
    join(11, 100);
    expect_ready();
    struct tls_peer host = tls_end_peer(b), client = tls_end_peer(a);
    assert_true(tls_knows(of_a, &host) && tls_knows(of_a, &client));
    struct tls_peer twisted = host;
    twisted.index = 0;
    assert_false(tls_knows(of_a, &twisted));
    twisted.index = 1u << 31;
    assert_false(tls_knows(of_a, &twisted));
    twisted = host;
    twisted.host = false;
    assert_false(tls_knows(of_a, &twisted));
    book.hosts[1].keys = 1; /* the second key is withdrawn */
    struct tls *later = tls_fixture_open(&book, 0, false);
    assert_false(tls_knows(later, &host));
    assert_true(tls_knows(later, &client));
    tls_drop(later);
    tls_drop(NULL);
    tls_end_free(NULL);
}

/* ---- keys that are not ---- */

static void tls__an_unknown_key_may_not_connect(void **state)
{
    (void)state;
    join(TLS_STRANGER, 0);
    assert_int_equal(step_b, TLS_FAILED);
    expect_why(b, "its key is not in the cluster file");
    /* The stranger's OpenSSL was done before it was judged; it is ready only when it was. */
    assert_int_equal(step_a, TLS_FAILED);
    expect_why(a, "our key is not in its cluster file");
    assert_int_equal(tls_handshake(b), TLS_FAILED);
}

static void tls__an_unknown_key_may_not_accept(void **state)
{
    (void)state;
    join(0, TLS_STRANGER);
    assert_int_equal(step_a, TLS_FAILED);
    expect_why(a, "its key is not in the cluster file");
    assert_int_equal(step_b, TLS_FAILED);
    expect_why(b, "our key is not in its cluster file");
}

/* A withdrawn key is in the list's memory, and not in the list. */
static void tls__a_name_without_keys_is_nobody(void **state)
{
    unsigned char secret[TLS_KEY_BYTES];

    (void)state;
    tls_fixture_keys(2, secret, book.hosts[2].key[0]);
    join(2, 0);
    assert_int_equal(step_b, TLS_FAILED);
    expect_why(b, "its key is not in the cluster file");
}

/* Anybody may show the key of another, but not sign with it. */
static void show_key(struct tls *t, const unsigned char key[TLS_KEY_BYTES])
{
    EVP_PKEY *k = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, TLS_KEY_BYTES);

    /* Both contexts have the same certificate, and it is changed in place: OpenSSL would not take one that does
     * not go with the secret. */
    assert_int_equal(X509_set_pubkey(SSL_CTX_get0_certificate(t->connects), k), 1);
    EVP_PKEY_free(k);
}

static void tls__the_key_of_another_is_not_enough(void **state)
{
    (void)state;
    for (unsigned accepts = 0; accepts < 2; accepts++) {
        end_both();
        of_a = tls_fixture_open(&book, accepts ? 1 : TLS_STRANGER, false);
        of_b = tls_fixture_open(&book, accepts ? TLS_STRANGER : 1, false);
        show_key(accepts ? of_b : of_a, book.hosts[0].key[0]);
        shake_by(WHOLE);
        assert_int_equal(accepts ? step_a : step_b, TLS_FAILED);
        expect_why(accepts ? a : b, "it does not have the secret that goes with its key");
    }
}

/* ---- clear text ---- */

static void tls__clear_text_is_clear(void **state)
{
    size_t bytes;

    (void)state;
    for (size_t most = 1; most <= WHOLE; most += WHOLE - 1) {
        join_by(0, 100, true, true, most);
        expect_ready();
        expect_peer(a, false, 0);
        expect_peer(b, true, 0);
        assert_true(tls_end_clear(a) && tls_end_clear(b));
        while (tls_fixture_carry(b, a, WHOLE) > 0)
            ;
        assert_int_equal(tls_write(a, "plain", 5), 5);
        assert_memory_equal(tls_out(a, &bytes), "plain", 5);
        assert_int_equal(bytes, 5);
        tls_out_drop(a, 5);
        expect_talk();
    }
}

/* What follows the last record of the handshake in the same piece is not lost. */
static void tls__clear_text_may_follow_at_once(void **state)
{
    char got[16];

    (void)state;
    of_a = tls_fixture_open(&book, 0, true);
    of_b = tls_fixture_open(&book, 1, true);
    a = tls_end_new(of_a, false);
    b = tls_end_new(of_b, true);
    assert_int_equal(tls_handshake(a), TLS_AGAIN);
    tls_fixture_carry(a, b, WHOLE);
    assert_int_equal(tls_handshake(b), TLS_AGAIN);
    tls_fixture_carry(b, a, WHOLE);
    assert_int_equal(tls_handshake(a), TLS_AGAIN); /* it waits for b's word */
    tls_fixture_carry(a, b, WHOLE);
    assert_int_equal(tls_handshake(b), TLS_READY);
    assert_int_equal(tls_write(b, "right behind", 12), 12);
    tls_fixture_carry(b, a, WHOLE);
    assert_int_equal(tls_handshake(a), TLS_READY);
    assert_int_equal(tls_read(a, got, 5), 5);
    assert_int_equal(tls_read(a, got + 5, sizeof got), 7);
    assert_memory_equal(got, "right behind", 12);
    assert_int_equal(tls_read(a, got, sizeof got), 0);
}

/* Whom the other side does not know learns it, though what follows would be clear text. */
static void tls__a_refusal_is_no_clear_text(void **state)
{
    (void)state;
    join_by(TLS_STRANGER, 0, true, true, WHOLE);
    assert_int_equal(step_b, TLS_FAILED);
    assert_int_equal(step_a, TLS_FAILED);
    expect_why(a, "our key is not in its cluster file");
}

static void tls__both_must_want_clear_text(void **state)
{
    (void)state;
    join_by(0, 1, true, false, WHOLE);
    assert_true(step_a == TLS_FAILED && step_b == TLS_FAILED);
    expect_why(a, "we want clear text and it does not");
    expect_why(b, "it wants clear text and we do not");
    join_by(0, 1, false, true, WHOLE);
    assert_true(step_a == TLS_FAILED && step_b == TLS_FAILED);
    expect_why(a, "it wants clear text and we do not");
    expect_why(b, "we want clear text and it does not");
}

/* Without a word of what follows, or with another one, nothing follows. */
static void tls__another_protocol_is_refused(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        end_both();
        of_a = tls_fixture_open(&book, 0, false);
        of_b = tls_fixture_open(&book, 1, false);
        SSL_CTX_set_alpn_protos(of_a->connects, (const unsigned char *)"\x02h2", i == 0 ? 0 : 3);
        shake_by(WHOLE);
        assert_true(step_a == TLS_FAILED && step_b == TLS_FAILED);
        expect_why(b, "it does not speak our protocol");
    }
}

static void tls__only_tls_1_3_is_spoken(void **state)
{
    (void)state;
    of_a = tls_fixture_open(&book, 0, false);
    of_b = tls_fixture_open(&book, 1, false);
    SSL_CTX_set_min_proto_version(of_a->connects, TLS1_2_VERSION);
    SSL_CTX_set_max_proto_version(of_a->connects, TLS1_2_VERSION);
    shake_by(WHOLE);
    assert_true(step_a == TLS_FAILED && step_b == TLS_FAILED);
    expect_why(a, "it does not speak TLS 1.3");
    expect_why(b, "it does not speak TLS 1.3");
}

static void tls__only_our_cipher_is_spoken(void **state)
{
    (void)state;
    of_a = tls_fixture_open(&book, 0, false);
    of_b = tls_fixture_open(&book, 1, false);
    SSL_CTX_set_ciphersuites(of_a->connects, "TLS_AES_256_GCM_SHA384");
    shake_by(WHOLE);
    assert_true(step_a == TLS_FAILED && step_b == TLS_FAILED);
    expect_why(a, "no cipher");
    expect_why(b, "no cipher");
}

/* ---- OpenSSL without us at the other end ---- */

static SSL *raw;

static void raw_begin(SSL_CTX *c)
{
    raw = SSL_new(c);
    assert_non_null(raw);
    SSL_set_app_data(raw, a); /* where our callbacks put what they find */
    SSL_set_bio(raw, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(raw);
}

static void raw_end(void)
{
    SSL_free(raw);
    raw = NULL;
}

/* What it says goes to b, */
static void raw_carry(void)
{
    size_t room;
    unsigned char *in = tls_in(b, &room);
    int n = BIO_read(SSL_get_wbio(raw), in, (int)room);

    tls_in_add(b, n > 0 ? (size_t)n : 0);
}

/* and what b says comes back. */
static void raw_hear(void)
{
    size_t bytes;
    const unsigned char *out = tls_out(b, &bytes);

    BIO_write(SSL_get_rbio(raw), out, (int)bytes);
    tls_out_drop(b, bytes);
}

static void raw_shake(SSL_CTX *c)
{
    of_a = of_a ? of_a : tls_fixture_open(&book, 0, false);
    of_b = tls_fixture_open(&book, 1, false);
    a = tls_end_new(of_a, false);
    b = tls_end_new(of_b, true);
    raw_begin(c ? c : of_a->connects);
    for (unsigned i = 0; i < 3; i++) {
        SSL_do_handshake(raw);
        raw_carry();
        step_b = tls_handshake(b);
        raw_hear();
    }
}

static void tls__who_shows_nothing_is_refused(void **state)
{
    SSL_CTX *bare = SSL_CTX_new(TLS_client_method());

    (void)state;
    SSL_CTX_set_alpn_protos(bare, (const unsigned char *)"\x06tram/1", 7);
    raw_shake(bare);
    raw_end();
    SSL_CTX_free(bare);
    assert_int_equal(step_b, TLS_FAILED);
    expect_why(b, "it shows no certificate");
}

/* ---- a third one in between ---- */

/* Every bit of a record, each with another connection: nothing of it is given out. */
static void tls__one_changed_bit_is_seen(void **state)
{
    char got[64];

    (void)state;
    for (size_t bit = 0; bit < 8 * (8 + TLS_RECORD_MORE); bit += bit < 32 ? 1 : 7) {
        join(0, 1);
        expect_ready();
        say(a, b, "good", 4);
        assert_int_equal(tls_write(a, "8 bytes.", 8), 8);
        size_t room;
        unsigned char *in = tls_in(b, &room);
        tls_fixture_carry(a, b, WHOLE);
        in[bit / 8] ^= (unsigned char)(1u << bit % 8);
        long n = tls_read(b, got, sizeof got);
        /* It may be longer now, and wait for more. */
        for (unsigned i = 0; n == 0 && i < 1200; i++) {
            tls_write(a, "8 bytes.", 8);
            tls_fixture_carry(a, b, WHOLE);
            n = tls_read(b, got, sizeof got);
        }
        if (n != -1)
            fail_msg("bit %zu: %ld", bit, n);
        expect_why(b, "what came was changed on the way");
        assert_int_equal(tls_read(b, got, sizeof got), -1);
        assert_int_equal(tls_write(b, "more", 4), 0);
    }
}

/* A record is opened for whatever room there is. */
static void tls__a_record_is_read_in_pieces(void **state)
{
    char got[64];

    (void)state;
    join(0, 1);
    assert_int_equal(tls_write(a, "0123456789", 10), 10);
    assert_int_equal(tls_write(a, "abc", 3), 3);
    tls_fixture_carry(a, b, WHOLE);
    assert_int_equal(tls_read(b, got, 4), 4);
    assert_memory_equal(got, "0123", 4);
    assert_int_equal(tls_read(b, got, 1), 1);
    assert_memory_equal(got, "4", 1);
    assert_int_equal(tls_read(b, got, sizeof got), 8);
    assert_memory_equal(got, "56789abc", 8);
    assert_int_equal(tls_read(b, got, sizeof got), 0);
}

static void tls__what_is_good_is_given_out_first(void **state)
{
    char got[64];
    size_t room;

    (void)state;
    join(0, 1);
    unsigned char *in = tls_in(b, &room);
    assert_int_equal(tls_write(a, "one", 3), 3);
    assert_int_equal(tls_write(a, "two", 3), 3);
    tls_fixture_carry(a, b, WHOLE);
    in[3 + TLS_RECORD_MORE + SEAL_HEAD_BYTES] ^= 1;
    assert_int_equal(tls_read(b, got, sizeof got), 3);
    assert_memory_equal(got, "one", 3);
    assert_int_equal(tls_read(b, got, sizeof got), -1);
}

/* A record twice, or one left out. */
static void tls__the_order_is_kept(void **state)
{
    unsigned char copy[64];
    char got[64];
    size_t room, bytes;

    (void)state;
    join(0, 1);
    assert_int_equal(tls_write(a, "one", 3), 3);
    memcpy(copy, tls_out(a, &bytes), 3 + TLS_RECORD_MORE);
    tls_fixture_carry(a, b, WHOLE);
    assert_int_equal(tls_read(b, got, sizeof got), 3);
    memcpy(tls_in(b, &room), copy, 3 + TLS_RECORD_MORE);
    tls_in_add(b, 3 + TLS_RECORD_MORE);
    assert_int_equal(tls_read(b, got, sizeof got), -1);
    join(0, 1);
    assert_int_equal(tls_write(a, "one", 3), 3);
    tls_out_drop(a, 3 + TLS_RECORD_MORE);
    assert_int_equal(tls_write(a, "two", 3), 3);
    tls_fixture_carry(a, b, WHOLE);
    assert_int_equal(tls_read(b, got, sizeof got), -1);
}

/* Nobody reads what was said. */
static void tls__what_goes_out_is_not_what_was_said(void **state)
{
    static const char text[] = "a text that would be found again";
    size_t bytes;

    (void)state;
    join(0, 1);
    assert_int_equal(tls_write(a, text, sizeof text), sizeof text);
    const unsigned char *out = tls_out(a, &bytes);
    assert_int_equal(bytes, sizeof text + TLS_RECORD_MORE);
    assert_null(memmem(out, bytes, text + 4, 8));
}

static void expect_garbage_fails(bool accepts, const void *data, size_t bytes)
{
    size_t room;

    end_both();
    of_b = tls_fixture_open(&book, 0, false);
    b = tls_end_new(of_b, accepts);
    tls_handshake(b);
    unsigned char *in = tls_in(b, &room);
    assert_true(room >= bytes);
    memcpy(in, data, bytes);
    tls_in_add(b, bytes);
    assert_int_equal(tls_handshake(b), TLS_FAILED);
    expect_why(b, "what came was changed on the way or is not TLS");
}

static void tls__garbage_is_refused(void **state)
{
    unsigned char noise[4096];

    (void)state;
    for (unsigned i = 0; i < sizeof noise; i++)
        noise[i] = (unsigned char)(i * 31 + 7);
    for (unsigned accepts = 0; accepts < 2; accepts++) {
        expect_garbage_fails(accepts, "GET / HTTP/1.1\r\n\r\n", 18);
        expect_garbage_fails(accepts, noise, sizeof noise);
        expect_garbage_fails(accepts, "\x16\x03\x01\xff\xff and so on", 16);
        expect_garbage_fails(accepts, "\x17\x03\x03\x00\x20 encrypted, they say, by nobody", 37);
        memset(noise, 0, sizeof noise);
    }
}

/* Cut short anywhere, a handshake waits; it does not succeed, and there is room for what comes next. */
static void tls__half_a_handshake_waits(void **state)
{
    size_t bytes, room;

    (void)state;
    of_a = tls_fixture_open(&book, 0, false);
    of_b = tls_fixture_open(&book, 1, false);
    a = tls_end_new(of_a, false);
    b = tls_end_new(of_b, true);
    assert_int_equal(tls_handshake(a), TLS_AGAIN);
    for (tls_out(a, &bytes); bytes > 1; bytes--) {
        tls_fixture_carry(a, b, 1);
        assert_int_equal(tls_handshake(b), TLS_AGAIN);
        tls_in(b, &room);
        assert_true(room >= TLS_RECORD_BYTES);
    }
}

/* ---- much ---- */

static unsigned char *pattern(size_t bytes)
{
    unsigned char *data = malloc(bytes);

    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(i * 7 + (i >> 8) * 13);
    return data;
}

static void tls__a_megabyte_goes_through(void **state)
{
    unsigned char *data = pattern(BIG);

    (void)state;
    for (unsigned clear = 0; clear < 2; clear++) {
        join_by(0, 1, clear, clear, WHOLE);
        expect_ready();
        say(a, b, data, BIG);
        say(b, a, data, BIG);
    }
    free(data);
}

/* Without a reader it takes what there is room for, then nothing; what it took arrives, through small windows. */
static void tls__takes_what_there_is_room_for(void **state)
{
    unsigned char *data = pattern(BIG), *got = malloc(BIG);
    size_t bytes, read = 0;

    (void)state;
    join(0, 1);
    size_t sent = tls_write(a, data, BIG);
    assert_in_range(sent, 65536, TLS_BUFFER_BYTES);
    assert_int_equal(tls_write(a, data + sent, BIG - sent), 0);
    tls_out(a, &bytes);
    assert_true(bytes <= TLS_BUFFER_BYTES);
    for (unsigned i = 0; read < BIG; i++) {
        size_t window = 1 + i * 977 % 5000;
        tls_fixture_carry(a, b, 1 + i * 1009 % 9000);
        long n = tls_read(b, got + read, BIG - read < window ? BIG - read : window);
        assert_true(n >= 0);
        read += (size_t)n;
        sent += tls_write(a, data + sent, BIG - sent);
    }
    assert_int_equal(sent, BIG);
    assert_memory_equal(got, data, BIG);
    free(data);
    free(got);
}

/* A short one that fits is taken whole; of a long one no crumbs are cut. */
static void tls__cuts_no_crumbs(void **state)
{
    unsigned char *data = pattern(BIG);
    size_t bytes;

    (void)state;
    join(0, 1);
    for (tls_out(a, &bytes); TLS_BUFFER_BYTES - bytes > 1040; tls_out(a, &bytes))
        assert_int_equal(tls_write(a, data, 64), 64);
    assert_in_range(TLS_BUFFER_BYTES - bytes, 900, 1040);
    assert_int_equal(tls_write(a, data, 5000), 0);
    assert_int_equal(tls_write(a, data, 64), 64);
    free(data);
}

/* Both ends count, and go on to the next keys at the same record, in either direction. */
static void tls__keys_are_replaced(void **state)
{
    unsigned char *data = pattern(BIG);
    char text[16];

    (void)state;
    for (uint64_t most = 1; most <= 3; most++) {
        end_both();
        of_a = tls_fixture_open(&book, 0, false);
        of_b = tls_fixture_open(&book, 1, false);
        of_a->rekey_records = of_b->rekey_records = most;
        shake_by(WHOLE);
        expect_ready();
        for (unsigned i = 0; i < 50; i++) {
            char got[16];
            snprintf(text, sizeof text, "number %u", i);
            assert_int_equal(tls_write(a, text, sizeof text), sizeof text);
            tls_fixture_carry(a, b, WHOLE);
            assert_int_equal(tls_read(b, got, sizeof got), sizeof got);
            assert_string_equal(got, text);
        }
        say(a, b, data, BIG);
        say(b, a, data, BIG);
    }
    /* Who counts otherwise has other keys. */
    end_both();
    of_a = tls_fixture_open(&book, 0, false);
    of_b = tls_fixture_open(&book, 1, false);
    of_a->rekey_records = 2;
    shake_by(WHOLE);
    for (unsigned i = 0; i < 3; i++) {
        char got[1];
        assert_int_equal(tls_write(a, "x", 1), 1);
        tls_fixture_carry(a, b, WHOLE);
        assert_int_equal(tls_read(b, got, 1), i < 2 ? 1 : -1);
    }
    free(data);
}

/* ---- several threads ---- */

enum { THREADS = 3, TIMES = 10 };

/* Ends of its own, of what all share. */
static void *connect_often(void *arg)
{
    bool *good = arg;

    *good = true;
    for (unsigned i = 0; i < TIMES; i++) {
        struct tls *t_a = tls_share(of_a), *t_b = tls_share(of_b);
        struct tls_end *x = tls_end_new(t_a, false), *y = tls_end_new(t_b, true);
        enum tls_step step_x, step_y;
        char got[8];
        tls_drop(t_a);
        tls_drop(t_b);
        tls_fixture_shake(x, y, WHOLE, &step_x, &step_y);
        *good = *good && step_x == TLS_READY && step_y == TLS_READY && tls_write(x, "hi", 2) == 2 &&
                tls_fixture_carry(x, y, WHOLE) > 0 && tls_read(y, got, sizeof got) == 2;
        tls_end_free(x);
        tls_end_free(y);
    }
    return NULL;
}

static void tls__threads_share_what_a_node_is(void **state)
{
    pthread_t threads[THREADS];
    bool good[THREADS];

    (void)state;
    of_a = tls_fixture_open(&book, 0, false);
    of_b = tls_fixture_open(&book, 1, false);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, connect_often, &good[i]), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(good[i]);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(tls__both_know_who_the_other_is),
        CASE(tls__a_client_is_no_host),
        CASE(tls__the_second_key_of_a_name_works),
        CASE(tls__byte_by_byte_it_works_too),
        CASE(tls__ends_keep_what_they_began_with),
        CASE(tls__knows_whose_key_is_still_listed),
        CASE(tls__an_unknown_key_may_not_connect),
        CASE(tls__an_unknown_key_may_not_accept),
        CASE(tls__a_name_without_keys_is_nobody),
        CASE(tls__the_key_of_another_is_not_enough),
        CASE(tls__clear_text_is_clear),
        CASE(tls__clear_text_may_follow_at_once),
        CASE(tls__a_refusal_is_no_clear_text),
        CASE(tls__both_must_want_clear_text),
        CASE(tls__another_protocol_is_refused),
        CASE(tls__only_tls_1_3_is_spoken),
        CASE(tls__only_our_cipher_is_spoken),
        CASE(tls__who_shows_nothing_is_refused),
        CASE(tls__one_changed_bit_is_seen),
        CASE(tls__a_record_is_read_in_pieces),
        CASE(tls__what_is_good_is_given_out_first),
        CASE(tls__the_order_is_kept),
        CASE(tls__what_goes_out_is_not_what_was_said),
        CASE(tls__garbage_is_refused),
        CASE(tls__half_a_handshake_waits),
        CASE(tls__a_megabyte_goes_through),
        CASE(tls__takes_what_there_is_room_for),
        CASE(tls__cuts_no_crumbs),
        CASE(tls__keys_are_replaced),
        CASE(tls__threads_share_what_a_node_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
