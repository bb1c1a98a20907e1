/* Two processes that write into each other's memory by nothing but the provider. */
#include "../far_fixture.h"
#include "mem/ofi/raw.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { TRIPS = 50 };

static struct ofi_raw *side_open(uint16_t port, bool listens, uint32_t bytes)
{
    struct ofi_raw_options o = {.provider = "tcp",
                                .address = "127.0.0.1",
                                .port = port,
                                .listens = listens,
                                .bytes = bytes};
    struct ofi_raw *raw = NULL;
    struct err e = {""};

    if (ofi_raw_open(&o, &raw, &e) < 0)
        fprintf(stderr, "%s\n", e.text);
    return raw;
}

/* Either side comes first, and everything that is written comes back. */
static void both_ways(uint32_t bytes, bool child_listens)
{
    uint16_t port = far_fixture_port();
    pid_t kid = fork();
    int status = -1;

    struct ofi_raw *raw = side_open(port, (kid == 0) == child_listens, bytes);
    if (kid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        bool ok = raw != NULL;
        for (uint64_t i = 1; ok && i <= TRIPS; i++)
            ok = ofi_raw_await(raw, i) && ofi_raw_write(raw, i);
        ok = ok && ofi_raw_await(raw, 3 * TRIPS) && ofi_raw_write(raw, 3 * TRIPS) &&
             ofi_raw_settle(raw);
        _exit(ok ? 0 : 1);
    }
    assert_non_null(raw);
    for (uint64_t i = 1; i <= TRIPS; i++)
        assert_true(ofi_raw_write(raw, i) && ofi_raw_await(raw, i));
    for (uint64_t i = TRIPS + 1; i <= 3 * TRIPS; i++)
        assert_true(ofi_raw_write(raw, i));
    assert_true(ofi_raw_await(raw, 3 * TRIPS));
    ofi_raw_close(raw);
    waitpid(kid, &status, 0);
    assert_int_equal(status, 0);
}

static void raw__small_writes_come_back(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        both_ways(64, i % 2);
}

static void raw__large_writes_come_back(void **state)
{
    (void)state;
    both_ways(65536, false);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(raw__small_writes_come_back),
        cmocka_unit_test(raw__large_writes_come_back),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
