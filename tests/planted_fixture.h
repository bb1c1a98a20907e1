/* For tests that switch on a planted bug and run a scenario, which must find it: a scenario returns the
 * property that it found violated, or NULL. Properties that will do are given as a list, "a|b". */
#ifndef TESTS_PLANTED_FIXTURE_H
#define TESTS_PLANTED_FIXTURE_H

#include "base/planted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static inline bool is_one_of(const char *property, const char *list)
{
    size_t length = strlen(property);
    for (const char *at = list; (at = strstr(at, property)) != NULL; at++)
        if ((at == list || at[-1] == '|') && (at[length] == '|' || at[length] == '\0'))
            return true;
    return false;
}

#define FINDS(bug, scenario, properties)                                                           \
    do {                                                                                           \
        planted_bug = PLANTED_##bug;                                                               \
        const char *violated_ = (scenario);                                                        \
        planted_bug = PLANTED_none;                                                                \
        if (violated_ == NULL)                                                                     \
            fail_msg("%s does not find %s", #scenario, #bug);                                      \
        else if (!is_one_of(violated_, properties))                                                \
            fail_msg("%s finds %s as '%s', not as '%s'", #scenario, #bug, violated_, properties);  \
    } while (0)

/* Where the memory may answer in several ways: some of many worlds must show the bug, none anything
 * else. */
static inline void finds_in_some(enum planted bug, const char *(*scenario)(uint64_t seed),
                                 uint64_t seeds, const char *properties)
{
    uint32_t found = 0;
    planted_bug = bug;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        const char *violated = scenario(seed);
        if (violated != NULL && !is_one_of(violated, properties))
            fail_msg("seed %d finds '%s', not '%s'", (int)seed, violated, properties);
        found += violated != NULL;
    }
    planted_bug = PLANTED_none;
    printf("# found in %u of %u worlds\n", found, (unsigned)seeds);
    assert_int_not_equal(found, 0);
}

#endif
