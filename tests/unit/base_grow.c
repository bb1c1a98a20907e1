#include "base/grow.h"

#include "../skip.h"
#include "../stderr_capture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

static void grow__keeps_what_was_there(void **state)
{
    (void)state;
    char *p = grow("a test", NULL, 1, 4);
    memcpy(p, "abc", 4);
    p = grow("a test", p, 1, 1 << 20);
    assert_string_equal(p, "abc");
    grow_free(p);
}

static void grow__says_what_there_was_no_memory_for(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("the sanitizer's allocator ends the process by itself");
#endif
    char said[200];
    struct stderr_capture capture = stderr_capture_begin();
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(SIGABRT, SIG_DFL);
        grow("a test", NULL, 8, SIZE_MAX / 16);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    stderr_capture_end(&capture, said, sizeof(said));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, "no memory for a test: "));
    assert_non_null(strstr(said, " times 8 bytes were wanted\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grow__keeps_what_was_there),
        cmocka_unit_test(grow__says_what_there_was_no_memory_for),
    };
    return run_with_skips(tests);
}
