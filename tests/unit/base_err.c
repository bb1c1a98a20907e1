#include "base/err.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void err__set_keeps_text_and_returns_code(void **state)
{
    (void)state;
    struct err e = {""};

    assert_int_equal(err_set(&e, ERR_TOOBIG, "entry of %d bytes", 9000), ERR_TOOBIG);
    assert_string_equal(e.text, "entry of 9000 bytes");
}

static void err__set_without_a_place_for_the_text(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, ERR_LOST, "x"), ERR_LOST);
    errno = EACCES;
    assert_int_equal(err_sys(NULL, "x"), ERR_SYSTEM);
}

static void err__long_text_is_cut_and_terminated(void **state)
{
    (void)state;
    char name[2 * ERR_TEXT_BYTES];
    struct err e;

    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    err_set(&e, ERR_INVALID, "%s", name);
    assert_int_equal(strlen(e.text), ERR_TEXT_BYTES - 1);
    errno = EACCES;
    err_sys(&e, "%s", name);
    assert_int_equal(strlen(e.text), ERR_TEXT_BYTES - 1);
}

static void err__sys_appends_errno_and_keeps_it(void **state)
{
    (void)state;
    struct err e;

    errno = EACCES;
    assert_int_equal(err_sys(&e, "open %s", "g1/h2"), ERR_SYSTEM);
    assert_string_equal(e.text, "open g1/h2: Permission denied");
    assert_int_equal(errno, EACCES);
}

static void err__sys_tells_lack_of_memory_apart(void **state)
{
    (void)state;
    struct err e;

    errno = ENOMEM;
    assert_int_equal(err_sys(&e, "map"), ERR_NOMEM);
    errno = ENOSPC;
    assert_int_equal(err_sys(&e, "grow"), ERR_NOMEM);
}

static void err__every_code_is_negative_and_named(void **state)
{
    (void)state;
#define CHECK_ONE(code, text)                                                                      \
    assert_true((code) < 0);                                                                       \
    assert_string_equal(err_name(code), text);
    ERR_LIST(CHECK_ONE)
#undef CHECK_ONE
    assert_string_equal(err_name(0), "ok");
    assert_string_equal(err_name(12345), "unknown error");
}

static void err__failed_check_stops_the_process(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        CHECK(1 + 1 == 3);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err__set_keeps_text_and_returns_code),
        cmocka_unit_test(err__set_without_a_place_for_the_text),
        cmocka_unit_test(err__long_text_is_cut_and_terminated),
        cmocka_unit_test(err__sys_appends_errno_and_keeps_it),
        cmocka_unit_test(err__sys_tells_lack_of_memory_apart),
        cmocka_unit_test(err__every_code_is_negative_and_named),
        cmocka_unit_test(err__failed_check_stops_the_process),
    };
    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
