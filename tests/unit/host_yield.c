/* Yielding, on shared memory with all hosts in one thread. */
#include "host/yield.h"

#include "../shm_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

/* After the end of another host, and only after that, a poller is told to sleep instead; for a while,
 * whether or not the other is back. One that never came is nobody's end. */
static void yield__does_not_yield_to_the_dying(void **state)
{
    (void)state;
    fixture_begin();
    struct node node[2] = {host_open(0), host_open(1)};
    assert_true(all_connected(node, 2));
    struct yield c = {.mem = node[0].mem};
    uint64_t now = 1000 * MS;
    assert_true(yield_now(&c, now));
    shm_close_node(node[1].mem);
    for (int round = 0; round < 2; round++)
        assert_false(yield_now(&c, now));
    assert_false(yield_now(&c, now + 10 * MS));
    assert_true(yield_now(&c, now + 30 * MS));
    node[1] = host_open(1);
    assert_true(all_connected(node, 2));
    assert_true(yield_now(&c, now + 40 * MS));
    shm_close_node(node[1].mem);
    assert_false(yield_now(&c, now + 50 * MS));
    shm_close_node(node[0].mem);
    fixture_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yield__does_not_yield_to_the_dying),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
