#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

static void clock__never_goes_back(void **state)
{
    (void)state;
    uint64_t last = clock_now_ns();

    for (int i = 0; i < 100000; i++) {
        uint64_t now = clock_now_ns();
        assert_true(now >= last);
        last = now;
    }
}

static void clock__counts_nanoseconds(void **state)
{
    (void)state;
    uint64_t start = clock_now_ns();

    usleep(20000);
    uint64_t passed_ns = clock_now_ns() - start;
    assert_true(passed_ns >= 20000000 && passed_ns < 10000000000u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock__never_goes_back),
        cmocka_unit_test(clock__counts_nanoseconds),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
