#include "base/nearest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const commands[] = {"init", "up", "host", "send", "status", NULL};

static const char *near(const char *word)
{
    return nearest_name(word, nearest_array(commands));
}

static void nearest__finds_the_word_that_was_meant(void **state)
{
    (void)state;
    assert_string_equal(near("status"), "status");
    assert_string_equal(near("stauts"), "status"); /* two letters swapped */
    assert_string_equal(near("hots"), "host");
    assert_string_equal(near("snd"), "send");   /* one missing */
    assert_string_equal(near("sendd"), "send"); /* one more */
    assert_string_equal(near("INIT"), "init");
}

static void nearest__finds_nothing_where_nothing_is_near(void **state)
{
    (void)state;
    char long_word[100];

    memset(long_word, 'x', sizeof long_word - 1);
    long_word[sizeof long_word - 1] = '\0';
    assert_null(near("sing"));
    assert_null(near(""));
    assert_null(near(long_word));
    assert_null(nearest_name("a", (struct nearest_names){.count = 0}));
}

/* g9 may be any of them; g11 is nearer to g1 than to the others. */
static void nearest__does_not_guess_among_equals(void **state)
{
    static const char *const groups[] = {"g1", "g2", "g3", NULL};

    (void)state;
    assert_null(nearest_name("g9", nearest_array(groups)));
    assert_string_equal(nearest_name("g11", nearest_array(groups)), "g1");
}

static const char *numbered(const void *of, uint32_t i)
{
    static char name[64];

    snprintf(name, sizeof name, "%s%u", (const char *)of, i);
    return name;
}

static void nearest__says_what_there_is(void **state)
{
    (void)state;
    assert_string_equal(nearest_text("stat", nearest_array(commands), 9).s,
                        "did you mean status? There are init, up, host, send and status");
    assert_string_equal(nearest_text("sing", nearest_array(commands), 2).s,
                        "there are init, up and 3 more");
    assert_string_equal(nearest_text("x", (struct nearest_names){numbered, "g", 1}, 4).s,
                        "there is only g0");
    assert_string_equal(nearest_text("x", (struct nearest_names){numbered, "g", 0}, 4).s,
                        "there are none");
}

static void nearest__long_lists_are_cut_and_terminated(void **state)
{
    struct nearest_names names = {numbered, "a-name-of-twenty-four-le", 1024};

    (void)state;
    assert_int_equal(strlen(nearest_text("x", names, 1024).s), NEAREST_BYTES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest__finds_the_word_that_was_meant),
        cmocka_unit_test(nearest__finds_nothing_where_nothing_is_near),
        cmocka_unit_test(nearest__does_not_guess_among_equals),
        cmocka_unit_test(nearest__says_what_there_is),
        cmocka_unit_test(nearest__long_lists_are_cut_and_terminated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
