#include "base/say.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int pipe_ends[2];
static int real_stderr;
static char heard[4 * SAY_LINE_BYTES];

static int listen_begin(void **state)
{
    (void)state;
    real_stderr = dup(STDERR_FILENO);
    return pipe2(pipe_ends, O_NONBLOCK) || dup2(pipe_ends[1], STDERR_FILENO) < 0;
}

static int listen_end(void **state)
{
    (void)state;
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    say_set_level(SAY_WARN);
    return 0;
}

/* What was said since the last call. */
static const char *hear(void)
{
    ssize_t got = read(pipe_ends[0], heard, sizeof heard - 1);

    heard[got > 0 ? got : 0] = '\0';
    return heard;
}

static void say__warnings_and_errors_by_default(void **state)
{
    (void)state;
    say_info("quiet");
    say_warn("%s is gone", "h2");
    say_error("gave up after %d tries", 3);
    assert_string_equal(hear(), "tram: warning: h2 is gone\ntram: error: gave up after 3 tries\n");
}

static void say__level_opens_and_closes(void **state)
{
    (void)state;
    say_set_level(SAY_INFO);
    say_info("hello");
    assert_string_equal(hear(), "tram: hello\n");
    say_set_level(SAY_ERROR);
    say_warn("hidden");
    assert_string_equal(hear(), "");
}

static void say__long_line_is_cut_and_ended(void **state)
{
    (void)state;
    char text[2 * SAY_LINE_BYTES];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    say_error("%s", text);
    size_t len = strlen(hear());
    assert_in_range(len, SAY_LINE_BYTES - 2, SAY_LINE_BYTES);
    assert_int_equal(heard[len - 1], '\n');
}

static void say__keeps_errno(void **state)
{
    (void)state;
    close(STDERR_FILENO); /* the write fails, and nobody is told */
    errno = EACCES;
    say_error("lost");
    assert_int_equal(errno, EACCES);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, listen_begin, listen_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(say__warnings_and_errors_by_default),
        CASE(say__level_opens_and_closes),
        CASE(say__long_line_is_cut_and_ended),
        CASE(say__keeps_errno),
    };
    return cmocka_run_group_tests_name("say", tests, NULL, NULL);
}
