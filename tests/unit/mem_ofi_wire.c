/* The form of messages, and the proof of the cluster's key, byte by byte. */
#include "mem/ofi/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const unsigned char key[OFI_KEY_BYTES] = "one key that is thirty-two bytes";
static const unsigned char other_key[OFI_KEY_BYTES] = "two key that is thirty-two bytes";
static struct ofi_auth auth;

static int setup(void **state)
{
    (void)state;
    ofi_auth_init(&auth, key, "alpha");
    return 0;
}

static void wire__a_hello_is_welcome(void **state)
{
    unsigned char padded[64] = {0};
    struct ofi_hello h, got;

    (void)state;
    ofi_hello_make(&auth, 3, 7, 12, &h);
    assert_int_equal(ofi_hello_check(&auth, &h, sizeof h, 7, &got), FAR_WELCOME);
    assert_int_equal(got.from, 3);
    assert_int_equal(got.life, 12);
    /* verbs gives more bytes than were sent. */
    memcpy(padded, &h, sizeof h);
    assert_int_equal(ofi_hello_check(&auth, padded, sizeof padded, 7, &got), FAR_WELCOME);
    /* No two are the same, or a recorded one would do. */
    ofi_hello_make(&auth, 3, 7, 12, &got);
    assert_memory_not_equal(h.nonce, got.nonce, sizeof h.nonce);
    assert_memory_not_equal(h.mac, got.mac, sizeof h.mac);
}

static void wire__a_wrong_hello_is_told_apart(void **state)
{
    struct ofi_auth theirs;
    struct ofi_hello h, got;

    (void)state;
    ofi_hello_make(&auth, 3, 7, 12, &h);
    assert_int_equal(ofi_hello_check(&auth, &h, sizeof h, 8, &got), FAR_REASON_NODE);
    assert_int_equal(ofi_hello_check(&auth, &h, sizeof h - 1, 7, &got), FAR_REASON_MALFORMED);
    assert_int_equal(ofi_hello_check(&auth, &h, 3, 7, &got), FAR_REASON_MALFORMED);
    assert_int_equal(ofi_hello_check(&auth, "", 0, 7, &got), FAR_REASON_MALFORMED);
    h.version++;
    assert_int_equal(ofi_hello_check(&auth, &h, sizeof h, 7, &got), FAR_REASON_VERSION);
    /* Another version may be shorter, and is still told so. */
    assert_int_equal(ofi_hello_check(&auth, &h, 8, 7, &got), FAR_REASON_VERSION);
    h.magic++;
    assert_int_equal(ofi_hello_check(&auth, &h, sizeof h, 7, &got), FAR_REASON_MALFORMED);

    ofi_auth_init(&theirs, other_key, "alpha");
    ofi_hello_make(&theirs, 3, 7, 12, &h);
    assert_int_equal(ofi_hello_check(&auth, &h, sizeof h, 7, &got), FAR_REASON_KEY);
    ofi_auth_init(&theirs, key, "beta");
    ofi_hello_make(&theirs, 3, 7, 12, &h);
    assert_int_equal(ofi_hello_check(&auth, &h, sizeof h, 7, &got), FAR_REASON_CLUSTER);
    ofi_hello_make(&auth, 7, 7, 12, &h);
    assert_int_equal(ofi_hello_check(&auth, &h, sizeof h, 7, &got), FAR_REASON_NODE);
}

/* No bit of a hello can be changed. */
static void wire__every_bit_of_a_hello_is_signed(void **state)
{
    struct ofi_hello h, got;
    unsigned char bytes[sizeof h];

    (void)state;
    ofi_hello_make(&auth, 3, 7, 12, &h);
    for (size_t bit = 0; bit < 8 * sizeof h; bit++) {
        memcpy(bytes, &h, sizeof h);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_not_equal(ofi_hello_check(&auth, bytes, sizeof bytes, 7, &got), FAR_WELCOME);
    }
}

static void wire__both_sides_prove_themselves(void **state)
{
    struct ofi_hello h, h2;
    struct ofi_prove p, p2;
    struct ofi_proven d;
    struct ofi_auth theirs;

    (void)state;
    ofi_hello_make(&auth, 3, 7, 12, &h);
    ofi_prove_make(&auth, &h, 4, 99, &p);
    assert_true(ofi_prove_check(&auth, &h, &p));
    ofi_proven_make(&auth, &h, &p, 98, &d);
    assert_true(ofi_proven_check(&auth, &h, &p, &d));
    assert_non_null(ofi_message(&p, sizeof p));
    assert_non_null(ofi_message(&d, sizeof d));

    /* What was recorded of one connection proves nothing in another. */
    ofi_hello_make(&auth, 3, 7, 12, &h2);
    assert_false(ofi_prove_check(&auth, &h2, &p));
    assert_false(ofi_proven_check(&auth, &h2, &p, &d));
    ofi_prove_make(&auth, &h, 4, 99, &p2);
    assert_false(ofi_proven_check(&auth, &h, &p2, &d));
    /* And nothing without the key. */
    ofi_auth_init(&theirs, other_key, "alpha");
    assert_false(ofi_prove_check(&theirs, &h, &p));
    ofi_prove_make(&theirs, &h, 4, 99, &p2);
    assert_false(ofi_prove_check(&auth, &h, &p2));
    ofi_proven_make(&theirs, &h, &p, 98, &d);
    assert_false(ofi_proven_check(&auth, &h, &p, &d));
}

static void wire__every_bit_of_a_proof_is_signed(void **state)
{
    union {
        struct ofi_prove prove;
        struct ofi_proven proven;
        unsigned char bytes[sizeof(struct ofi_prove)];
    } u;
    struct ofi_hello h;
    struct ofi_prove p;
    struct ofi_proven d;

    (void)state;
    ofi_hello_make(&auth, 3, 7, 12, &h);
    ofi_prove_make(&auth, &h, 4, 99, &p);
    ofi_proven_make(&auth, &h, &p, 98, &d);
    for (size_t bit = 0; bit < 8 * sizeof p; bit++) {
        u.prove = p;
        u.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_false(ofi_prove_check(&auth, &h, &u.prove));
    }
    for (size_t bit = 0; bit < 8 * sizeof d; bit++) {
        u.proven = d;
        u.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_false(ofi_proven_check(&auth, &h, &p, &u.proven));
    }
}

static void wire__a_message_has_the_length_of_its_items(void **state)
{
    _Alignas(8) unsigned char bytes[FAR_MESSAGE_MAX + 8];
    struct far_head *h = (struct far_head *)(void *)bytes;

    (void)state;
    memset(bytes, 0, sizeof bytes);
    for (unsigned kind = 0; kind < OFI_PROMISED + 4; kind++)
        for (unsigned count = 0; count < 4; count++)
            for (uint32_t n = 0; n <= 200; n++) {
                *h =
                    (struct far_head){.kind = (uint16_t)kind, .count = (uint16_t)count, .bytes = n};
                bool whole = kind > 0 && kind <= OFI_PROMISED && count > 0 &&
                             ofi_message_bytes((enum far_kind)kind, count) == n;
                bool list = kind == FAR_WANT || kind == FAR_AT || kind == OFI_PROMISED ||
                            kind == FAR_RAISE || kind == FAR_GRANT || kind == FAR_RAISED ||
                            kind == FAR_NEWS || kind == FAR_PAGE || kind == FAR_ROLL ||
                            kind == FAR_FACTS || kind == FAR_FIRST || kind == FAR_GIVEN ||
                            kind == FAR_END;
                assert_int_equal(ofi_message(bytes, n) != NULL, whole && (list || count == 1));
            }
    /* Shorter or longer than it says, or longer than any. */
    *h = (struct far_head){.kind = FAR_PULSE, .count = 1, .bytes = sizeof *h};
    assert_non_null(ofi_message(bytes, sizeof *h));
    assert_null(ofi_message(bytes, sizeof *h + 8));
    assert_null(ofi_message(bytes, sizeof *h - 1));
    uint32_t most = FAR_WANTS_MAX;
    *h = (struct far_head){
        .kind = FAR_WANT, .count = (uint16_t)most, .bytes = ofi_message_bytes(FAR_WANT, most)};
    assert_true(h->bytes <= FAR_MESSAGE_MAX);
    assert_non_null(ofi_message(bytes, h->bytes));
    h->count++;
    h->bytes = ofi_message_bytes(FAR_WANT, most + 1);
    assert_null(ofi_message(bytes, h->bytes));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(wire__a_hello_is_welcome),
        cmocka_unit_test(wire__a_wrong_hello_is_told_apart),
        cmocka_unit_test(wire__every_bit_of_a_hello_is_signed),
        cmocka_unit_test(wire__both_sides_prove_themselves),
        cmocka_unit_test(wire__every_bit_of_a_proof_is_signed),
        cmocka_unit_test(wire__a_message_has_the_length_of_its_items),
    };
    return cmocka_run_group_tests(cases, setup, NULL);
}
