#include "base/crc32c.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* RFC 3720, appendix B.4, and the usual check value. */
static void crc32c__knows_the_vectors(void **state)
{
    (void)state;
    unsigned char data[32];

    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    memset(data, 0, sizeof data);
    assert_int_equal(crc32c(0, data, sizeof data), 0x8a9136aa);
    memset(data, 0xff, sizeof data);
    assert_int_equal(crc32c(0, data, sizeof data), 0x62a8ab43);
    for (unsigned i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)i;
    assert_int_equal(crc32c(0, data, sizeof data), 0x46dd794e);
    for (unsigned i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(sizeof data - 1 - i);
    assert_int_equal(crc32c(0, data, sizeof data), 0x113fdb5c);
    assert_int_equal(crc32c(0, "", 0), 0);
}

static void crc32c__is_the_same_without_the_instruction(void **state)
{
    (void)state;
    static unsigned char data[20000]; /* long ones are put together of parts */
    struct rng r;

    rng_init(&r, 1);
    for (unsigned i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)rng_u64(&r);
    for (unsigned i = 0; i < 1000; i++) {
        size_t most = i % 2 ? 300 : sizeof data;
        size_t from = rng_below(&r, most), bytes = rng_below(&r, most - from + 1);
        uint32_t crc = (uint32_t)rng_u64(&r);
        assert_int_equal(crc32c(crc, data + from, bytes), crc32c_portable(crc, data + from, bytes));
    }
}

static void crc32c__goes_on_where_it_was(void **state)
{
    (void)state;
    const char text[] = "one journal serves all groups";

    for (size_t cut = 0; cut < sizeof text; cut++)
        assert_int_equal(crc32c(crc32c(0, text, cut), text + cut, sizeof text - cut),
                         crc32c(0, text, sizeof text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c__knows_the_vectors),
        cmocka_unit_test(crc32c__is_the_same_without_the_instruction),
        cmocka_unit_test(crc32c__goes_on_where_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
