/* Signatures: made and checked in a thread of their own, in order, and good for nothing but what they were made for. */
#include "base/sign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

enum { SIGNERS = 3, JOBS = 40 };

static unsigned char secret[SIGNERS][SIGN_KEY_BYTES], public_key[SIGNERS][SIGN_KEY_BYTES];
static _Atomic int told;

static void ready(void *ctx)
{
    (void)ctx;
    told++;
}

static struct signer *open_as(uint32_t rank)
{
    struct err e = {""};
    struct signer *s;
    struct sign_worker_options o = {.public_key =
                                        (const unsigned char(*)[SIGN_KEY_BYTES])public_key,
                                    .signers = SIGNERS,
                                    .ready = ready};

    memcpy(o.secret, secret[rank], SIGN_KEY_BYTES);
    if (sign_worker_open(&o, &s, &e) != 0)
        fail_msg("%s", e.text);
    return s;
}

static int make_keys(void **state)
{
    unsigned char both[crypto_sign_SECRETKEYBYTES];

    (void)state;
    for (uint32_t i = 0; i < SIGNERS; i++) {
        memset(secret[i], (int)(7 + i), SIGN_KEY_BYTES);
        assert_int_equal(crypto_sign_seed_keypair(public_key[i], both, secret[i]), 0);
    }
    return 0;
}

static struct sign_job job_of(uint32_t rank, uint64_t number)
{
    return (struct sign_job){.text = {.tag = SIGN_TAG,
                                      .cluster = 17,
                                      .group = 3,
                                      .role = SIGN_BROADCAST,
                                      .signer = rank,
                                      .life = 2,
                                      .number = number,
                                      .more = 64,
                                      .digest = digest_of("text", 4)}};
}

static void finish(struct signer *s, struct sign_job *j)
{
    signer_submit(s, j);
    while (j->state == SIGN_UNDER_WAY) {
        signer_poll(s);
        usleep(10);
    }
}

/* What rank 1 has signed, to be checked. */
static struct sign_job signed_by_1(struct signer *s)
{
    struct sign_job j = job_of(1, 5);
    finish(s, &j);
    assert_int_equal(j.state, SIGN_GOOD);
    j.check = true;
    return j;
}

static void sign__what_was_signed_is_good_for_whom_and_what_it_was_signed(void **state)
{
    struct signer *s = open_as(1);
    struct sign_job j = signed_by_1(s);

    (void)state;
    finish(s, &j);
    assert_int_equal(j.state, SIGN_GOOD);
    signer_close(s);
}

/* Every bit of the text and of the signature counts. */
static void sign__nothing_else_is_good(void **state)
{
    struct signer *s = open_as(1);
    const struct sign_job good = signed_by_1(s);

    (void)state;
    for (size_t i = 0; i < sizeof(good.text) + SIGN_BYTES; i++) {
        struct sign_job j = good;
        unsigned char *text = (unsigned char *)&j.text;
        if (i < sizeof(j.text))
            text[i] ^= 1 << i % 8;
        else
            j.signature[i - sizeof(j.text)] ^= 1 << i % 8;
        finish(s, &j);
        if (j.state != SIGN_BAD)
            fail_msg("byte %zu does not count", i);
    }
    signer_close(s);
}

static void sign__a_rank_that_is_not_there_has_signed_nothing(void **state)
{
    struct signer *s = open_as(1);
    struct sign_job j = signed_by_1(s);

    (void)state;
    j.text.signer = SIGNERS;
    finish(s, &j);
    assert_int_equal(j.state, SIGN_BAD);
    signer_close(s);
}

static void sign__jobs_end_in_order_inside_polls(void **state)
{
    struct signer *s = open_as(0);
    struct sign_job job[JOBS];
    int ended = 0;

    (void)state;
    told = 0;
    for (uint64_t i = 0; i < JOBS; i++) {
        job[i] = job_of(0, i);
        signer_submit(s, &job[i]);
        assert_int_equal(job[i].state, SIGN_UNDER_WAY);
    }
    while (ended < JOBS) {
        ended += signer_poll(s);
        for (int i = 0; i < JOBS; i++)
            assert_int_equal(job[i].state, i < ended ? SIGN_GOOD : SIGN_UNDER_WAY);
    }
    assert_true(told > 0);
    signer_close(s);
}

static void sign__a_signer_is_closed_with_jobs_under_way(void **state)
{
    struct signer *s = open_as(0);
    struct sign_job job[JOBS];

    (void)state;
    for (uint64_t i = 0; i < JOBS; i++) {
        job[i] = job_of(0, i);
        signer_submit(s, &job[i]);
    }
    signer_close(s);
}

/* RFC 7693 has no vector of 32 bytes; these are of the reference implementation's `b2sum -l 256`. */
static void digest__is_blake2b_of_256_bits(void **state)
{
    static const unsigned char abc[] = {0xbd, 0xdd, 0x81, 0x3c, 0x63, 0x42, 0x39, 0x72,
                                        0x31, 0x71, 0xef, 0x3f, 0xee, 0x98, 0x57, 0x9b,
                                        0x94, 0x96, 0x4e, 0x3b, 0xb1, 0xcb, 0x3e, 0x42,
                                        0x72, 0x62, 0xc8, 0xc0, 0x68, 0xd5, 0x23, 0x19};
    const struct digest d = digest_of("abc", 3);

    (void)state;
    assert_memory_equal(&d, abc, sizeof(abc));
}

static void digest__a_chain_depends_on_every_link_and_their_order(void **state)
{
    const struct digest a = digest_of("a", 1), b = digest_of("b", 1), c = digest_of("c", 1);

    (void)state;
    assert_true(digest_equal(digest_chain(a, b), digest_chain(a, b)));
    assert_false(digest_equal(digest_chain(a, b), digest_chain(b, a)));
    assert_false(
        digest_equal(digest_chain(digest_chain(a, b), c), digest_chain(digest_chain(a, c), b)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sign__what_was_signed_is_good_for_whom_and_what_it_was_signed),
        cmocka_unit_test(sign__nothing_else_is_good),
        cmocka_unit_test(sign__a_rank_that_is_not_there_has_signed_nothing),
        cmocka_unit_test(sign__jobs_end_in_order_inside_polls),
        cmocka_unit_test(sign__a_signer_is_closed_with_jobs_under_way),
        cmocka_unit_test(digest__is_blake2b_of_256_bits),
        cmocka_unit_test(digest__a_chain_depends_on_every_link_and_their_order),
    };
    return cmocka_run_group_tests(tests, make_keys, NULL);
}
