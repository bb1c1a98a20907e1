#include "mcast/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { CLIENTS = 4, GROUPS = 9, BODY = 5 };

struct built {
    struct message m;
    unsigned char rest[64];
};

static struct built build(uint16_t count, const uint16_t *list)
{
    struct built b = {.m = {.seq = 17, .client = 3, .life = 2, .count = count}};
    dst_write(b.rest, (struct dst_set){list, count});
    memcpy(b.rest + dst_bytes(count), "hello", BODY);
    return b;
}

static void message__is_read_as_it_was_written(void **state)
{
    (void)state;
    static const uint16_t list[] = {0, 3, 5, 7, 8};
    struct message_view v;
    for (uint16_t count = 1; count <= 5; count++) {
        struct built b = build(count, list);
        assert_true(message_read(&b, message_bytes(count, BODY), CLIENTS, GROUPS, &v));
        assert_ptr_equal(v.m, &b.m);
        assert_int_equal(v.dst.count, count);
        assert_memory_equal(v.dst.group, list, count * sizeof(*list));
        assert_int_equal(v.bytes, BODY);
        assert_memory_equal(v.body, "hello", BODY);
        assert_true(message_read(&b, message_bytes(count, 0), CLIENTS, GROUPS, &v));
        assert_int_equal(v.bytes, 0);
    }
}

static void message__cut_short_is_refused_at_every_length(void **state)
{
    (void)state;
    struct message_view v;
    struct built b = build(5, (const uint16_t[]){0, 3, 5, 7, 8});
    for (uint32_t bytes = 0; bytes < message_bytes(5, 0); bytes++)
        assert_false(message_read(&b, bytes, CLIENTS, GROUPS, &v));
}

static void message__who_and_where_to_must_exist(void **state)
{
    (void)state;
    struct message_view v;
    struct built b = build(2, (const uint16_t[]){0, 8});
    assert_true(message_read(&b, sizeof(b), CLIENTS, GROUPS, &v));
    assert_false(message_read(&b, sizeof(b), 3, GROUPS, &v));
    assert_false(message_read(&b, sizeof(b), CLIENTS, 8, &v));
    b = build(2, (const uint16_t[]){8, 0});
    assert_false(message_read(&b, sizeof(b), CLIENTS, GROUPS, &v));
    b.m.count = 0;
    assert_false(message_read(&b, sizeof(b), CLIENTS, GROUPS, &v));
    b.m.count = DST_GROUPS_MAX + 1;
    assert_false(message_read(&b, UINT32_MAX, CLIENTS, GROUPS, &v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message__is_read_as_it_was_written),
        cmocka_unit_test(message__cut_short_is_refused_at_every_length),
        cmocka_unit_test(message__who_and_where_to_must_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
