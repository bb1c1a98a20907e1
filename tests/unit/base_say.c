#include "base/say.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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
    return 0;
}

/* What was written to stderr since the last call. */
static const char *hear(void)
{
    ssize_t got = read(pipe_ends[0], heard, sizeof heard - 1);

    heard[got > 0 ? got : 0] = '\0';
    return heard;
}

/* A sink that keeps the last line, and counts. */
struct sink {
    char line[SAY_LINE_BYTES];
    enum say_level level;
    unsigned lines;
};

static void take(void *ctx, enum say_level level, const char *line)
{
    struct sink *s = ctx;

    snprintf(s->line, sizeof s->line, "%s", line);
    s->level = level;
    s->lines++;
    errno = EIO; /* the user's function may do that */
}

static void say__drops_every_line_without_a_sink(void **state)
{
    (void)state;
    const struct say nobody = {0};
    struct say_heard once = {0};

    say_error(&nobody, "lost");
    say_once(&once, &nobody, SAY_ERROR, "lost");
    assert_string_equal(hear(), "");
}

static void say__gives_the_sink_whole_lines_and_their_level(void **state)
{
    (void)state;
    struct sink s = {0};
    const struct say to = {.line = take, .ctx = &s};

    say_info(&to, "%s is there", "h2");
    assert_string_equal(s.line, "h2 is there");
    assert_int_equal(s.level, SAY_INFO);
    say_warn(&to, "%s is gone", "h2");
    assert_int_equal(s.level, SAY_WARN);
    say_error(&to, "gave up after %d tries", 3);
    assert_string_equal(s.line, "gave up after 3 tries");
    assert_int_equal(s.level, SAY_ERROR);
    assert_string_equal(hear(), "");
}

static void say__drops_what_is_below_the_least_level(void **state)
{
    (void)state;
    struct sink s = {0};
    struct say to = {.line = take, .ctx = &s, .least = SAY_WARN};

    say_info(&to, "quiet");
    assert_int_equal(s.lines, 0);
    say_warn(&to, "heard");
    assert_int_equal(s.lines, 1);
    to.least = SAY_ERROR;
    say_warn(&to, "quiet");
    assert_int_equal(s.lines, 1);
}

static void say__says_once_what_comes_again_and_again(void **state)
{
    (void)state;
    struct sink s = {0};
    const struct say to = {.line = take, .ctx = &s};
    struct say_heard once = {0};

    for (int i = 0; i < 3; i++) {
        assert_int_equal(say_once(&once, &to, SAY_WARN, "refused %s", "10.0.0.1"), i == 0);
        assert_int_equal(say_once(&once, &to, SAY_WARN, "refused %s", "10.0.0.2"), i == 0);
    }
    assert_int_equal(s.lines, 2);
}

static void say__forgets_the_oldest_of_too_many_lines(void **state)
{
    (void)state;
    struct sink s = {0};
    const struct say to = {.line = take, .ctx = &s};
    struct say_heard once = {0};

    for (int i = 0; i <= SAY_HEARD_MAX; i++)
        say_once(&once, &to, SAY_WARN, "refused %d", i);
    assert_int_equal(s.lines, SAY_HEARD_MAX + 1);
    say_once(&once, &to, SAY_WARN, "refused %d", SAY_HEARD_MAX);
    assert_int_equal(s.lines, SAY_HEARD_MAX + 1);
    say_once(&once, &to, SAY_WARN, "refused %d", 0);
    assert_int_equal(s.lines, SAY_HEARD_MAX + 2);
}

static void say__event_ends_with_its_code(void **state)
{
    (void)state;
    struct sink s = {0};
    struct say to = {.line = take, .ctx = &s};
    struct say_heard once = {0};
    char code[SAY_CODE_BYTES];
    int bytes;

    say_event(&to, SAY_EVENT_TAKE_OVER, "h2: takes over %s", "g1");
    assert_string_equal(s.line, "h2: takes over g1 [TW-102]");
    assert_int_equal(s.level, SAY_WARN);
    assert_string_equal(say_event_of(s.line, &bytes, code), "take-over");
    assert_string_equal(code, "TW-102");
    assert_int_equal(bytes, strlen("h2: takes over g1"));
    for (int i = 0; i < 3; i++)
        assert_int_equal(say_event_once(&once, &to, SAY_EVENT_REFUSED, "h2: refused"), i == 0);
    assert_int_equal(s.lines, 2);
    to.least = SAY_WARN;
    say_event(&to, SAY_EVENT_LEADS, "h2: leads g1");
    assert_int_equal(s.lines, 2);
    say_event(&(struct say){0}, SAY_EVENT_STANDS, "lost");
}

static struct say_about was_about;

static void take_about(void *ctx, enum say_level level, const char *line)
{
    (void)ctx, (void)level, (void)line;
    was_about = say_about();
}

static void say__sink_hears_what_an_event_is_about(void **state)
{
    (void)state;
    const struct say to = {.line = take_about};
    const struct say_about about = {.peer = "h1", .groups = "g1, g2", .groups_more = 3, .view = 7};

    say_event_about(&to, SAY_EVENT_TAKE_OVER, &about, "h2: takes over g1, g2 and 3 more from h1");
    assert_memory_equal(&was_about, &about, sizeof about);
    say_event(&to, SAY_EVENT_TORN, "h2: torn");
    assert_null(was_about.peer);
    say_event_about(&to, SAY_EVENT_TAKE_OVER, &about, "h2: takes over g1, g2 and 3 more from h1");
    say_warn(&to, "h2: no event");
    assert_null(was_about.groups);
    assert_null(say_about().peer);
}

static void say__code_outlives_a_line_that_is_cut(void **state)
{
    (void)state;
    struct sink s = {0};
    const struct say to = {.line = take, .ctx = &s};
    char text[2 * SAY_LINE_BYTES], code[SAY_CODE_BYTES];
    int bytes;

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    say_event(&to, SAY_EVENT_STANDS, "%s", text);
    assert_in_range(strlen(s.line), SAY_LINE_BYTES - 16, SAY_LINE_BYTES - 1);
    assert_string_equal(say_event_of(s.line, &bytes, code), "stands");
}

static void say__what_looks_like_a_code_is_none(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",        "[TW-102]", "x [TW-102] y", "x [TW-999]", "x [TW-102", "x [TW-1 02]",
        "x [TW-]", "x [",      "x [TW-1022]",  "x y TW-102"};
    char code[SAY_CODE_BYTES];
    int bytes;

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_null(say_event_of(lines[i], &bytes, code));
        assert_int_equal(bytes, strlen(lines[i]));
    }
}

static void say__stderr_has_prefixes_and_newlines(void **state)
{
    (void)state;
    const struct say to = say_stderr(SAY_INFO);

    say_info(&to, "hello");
    say_warn(&to, "%s is gone", "h2");
    say_error(&to, "gave up");
    assert_string_equal(hear(), "tram: hello\ntram: warning: h2 is gone\ntram: error: gave up\n");
}

static void say__long_line_is_cut_and_ended(void **state)
{
    (void)state;
    const struct say to = say_stderr(SAY_INFO);
    char text[2 * SAY_LINE_BYTES];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    say_error(&to, "%s", text);
    size_t len = strlen(hear());
    assert_in_range(len, SAY_LINE_BYTES, SAY_LINE_BYTES + 32);
    assert_int_equal(heard[len - 1], '\n');
}

static void say__keeps_errno(void **state)
{
    (void)state;
    const struct say to = say_stderr(SAY_INFO);
    struct sink s = {0};

    close(STDERR_FILENO); /* the write fails, and nobody is told */
    errno = EACCES;
    say_error(&to, "lost");
    assert_int_equal(errno, EACCES);
    say_error(&(struct say){.line = take, .ctx = &s}, "taken");
    assert_int_equal(errno, EACCES);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, listen_begin, listen_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(say__drops_every_line_without_a_sink),
        CASE(say__gives_the_sink_whole_lines_and_their_level),
        CASE(say__drops_what_is_below_the_least_level),
        CASE(say__says_once_what_comes_again_and_again),
        CASE(say__forgets_the_oldest_of_too_many_lines),
        CASE(say__event_ends_with_its_code),
        CASE(say__sink_hears_what_an_event_is_about),
        CASE(say__code_outlives_a_line_that_is_cut),
        CASE(say__what_looks_like_a_code_is_none),
        CASE(say__stderr_has_prefixes_and_newlines),
        CASE(say__long_line_is_cut_and_ended),
        CASE(say__keeps_errno),
    };
    return cmocka_run_group_tests_name("say", tests, NULL, NULL);
}
