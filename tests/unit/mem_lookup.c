#include "mem/lookup.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

static bool taken(struct lookup *l, struct sockaddr_storage *a, socklen_t *bytes, const char **why)
{
    struct timespec ms = {.tv_nsec = 1000000};

    for (int i = 0; i < 60000; i++) {
        if (lookup_take(l, a, bytes, why))
            return true;
        nanosleep(&ms, NULL);
    }
    return false;
}

static void lookup__a_number_is_known_at_once(void **state)
{
    struct sockaddr_storage a;
    socklen_t bytes;
    bool number = false;

    (void)state;
    assert_null(lookup_now("127.0.0.1", 7101, &a, &bytes, &number));
    assert_true(number);
    assert_int_equal(((struct sockaddr_in *)(void *)&a)->sin_port, htons(7101));
    assert_null(lookup_now("::1", 7101, &a, &bytes, &number));
    assert_true(number && a.ss_family == AF_INET6);
}

static void lookup__is_done_elsewhere(void **state)
{
    struct sockaddr_storage a;
    socklen_t bytes;
    const char *why;

    (void)state;
    struct lookup *l = lookup_start("127.0.0.2", 80, 3);
    assert_non_null(l);
    assert_true(taken(l, &a, &bytes, &why));
    assert_true(bytes > 0 && why == NULL);
    l = lookup_start("no-such-host.invalid", 80, 0);
    assert_true(taken(l, &a, &bytes, &why));
    assert_true(bytes == 0 && why != NULL);
    lookup_drop(lookup_start("no-such-host.invalid", 80, 0)); /* nobody waits for it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookup__a_number_is_known_at_once),
        cmocka_unit_test(lookup__is_done_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
