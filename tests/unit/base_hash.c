#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void hash__order_of_words_matters(void **state)
{
    (void)state;
    assert_true(hash_mix(hash_mix(0, 1), 2) != hash_mix(hash_mix(0, 2), 1));
    assert_true(hash_mix(0, 0) != 0);
    assert_true(hash_mix(hash_mix(0, 0), 0) != hash_mix(0, 0));
}

/* Each flipped bit of the word or of the old hash should change about half of the result. */
static void hash__one_bit_changes_many(void **state)
{
    (void)state;
    uint64_t h = 12345, word = 67890;

    for (int bit = 0; bit < 64; bit++) {
        uint64_t flip = (uint64_t)1 << bit;
        int by_word = __builtin_popcountll(hash_mix(h, word) ^ hash_mix(h, word ^ flip));
        int by_hash = __builtin_popcountll(hash_mix(h, word) ^ hash_mix(h ^ flip, word));
        assert_in_range(by_word, 12, 52);
        assert_in_range(by_hash, 12, 52);
    }
}

static void hash__every_byte_counts(void **state)
{
    (void)state;
    unsigned char data[40] = {0};

    for (size_t len = 1; len <= sizeof data; len++) {
        uint64_t plain = hash_bytes(0, data, len);
        for (size_t i = 0; i < len; i++) {
            data[i] = 1;
            assert_true(hash_bytes(0, data, len) != plain);
            data[i] = 0;
        }
        assert_true(hash_bytes(0, data, len - 1) != plain);
    }
}

static void hash__bytes_beyond_the_length_do_not_count(void **state)
{
    (void)state;
    const char a[] = "hello world, one", b[] = "hello world, two";

    assert_true(hash_bytes(1, a, 13) == hash_bytes(1, b, 13));
    assert_true(hash_bytes(1, a, 14) != hash_bytes(1, b, 14));
    assert_true(hash_bytes(1, a + 1, 10) == hash_bytes(1, b + 1, 10)); /* any alignment */
}

static void hash__cuts_between_pieces_matter(void **state)
{
    (void)state;
    assert_true(hash_bytes(hash_bytes(0, "ab", 2), "c", 1) !=
                hash_bytes(hash_bytes(0, "a", 1), "bc", 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash__order_of_words_matters),
        cmocka_unit_test(hash__one_bit_changes_many),
        cmocka_unit_test(hash__every_byte_counts),
        cmocka_unit_test(hash__bytes_beyond_the_length_do_not_count),
        cmocka_unit_test(hash__cuts_between_pieces_matter),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
