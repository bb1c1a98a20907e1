/* For cmocka programs with cases that cannot be shown everywhere: SKIP("why") in the case, and
 * `return run_with_skips(tests)` in place of cmocka_run_group_tests in main.
 *
 * cmocka's own skip() prints "not ok 3 # SKIP name", which is a failure to meson and to TAP. What is
 * wanted is "ok 3 - name # SKIP why": the name of a case that is skipped gets the rest appended. */
#ifndef TESTS_SKIP_H
#define TESTS_SKIP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SKIP_CASES_MAX = 128, SKIP_NAME_BYTES = 256 };

static char skip_name[SKIP_CASES_MAX][SKIP_NAME_BYTES]; /* of each case, to be printed */

static inline void skip_note(const char *name, const char *why)
{
    for (int i = 0; i < SKIP_CASES_MAX; i++)
        if (strcmp(skip_name[i], name) == 0) {
            snprintf(skip_name[i], sizeof(skip_name[i]), "%s # SKIP %s", name, why);
            return;
        }
    fail_msg("%s: main does not use run_with_skips", name);
}

/* Ends the case, which must not have anything to clean up but in its teardown. */
#define SKIP(why)                                                                                  \
    do {                                                                                           \
        skip_note(__func__, why);                                                                  \
        return;                                                                                    \
    } while (0)

static inline int skip_run(const struct CMUnitTest *tests, size_t count)
{
    struct CMUnitTest cases[SKIP_CASES_MAX];
    if (count > SKIP_CASES_MAX)
        return 1;
    for (size_t i = 0; i < count; i++) {
        cases[i] = tests[i];
        snprintf(skip_name[i], sizeof(skip_name[i]), "%s", tests[i].name);
        cases[i].name = skip_name[i];
    }
    return _cmocka_run_group_tests("tests", cases, count, NULL, NULL);
}

#define run_with_skips(tests) skip_run(tests, sizeof(tests) / sizeof((tests)[0]))

#endif
