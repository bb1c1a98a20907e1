/* For tests with real processes that may be run by hand with a planted bug, in the build that has them: all processes are
 * forked off, and have it, too. */
#ifndef TESTS_PROC_PLANT_H
#define TESTS_PROC_PLANT_H

#include "base/planted.h"

#include <stdbool.h>
#include <string.h>

/* Switches it on; false: there is none of that name in this build. */
#if TRAM_PLANTED
static inline bool plant(const char *name)
{
    static const char *const names[] = {
#define BUG_NAME(bug, protocol, text) [PLANTED_##bug] = #bug,
        PLANTED_LIST(BUG_NAME)
#undef BUG_NAME
    };
    for (unsigned i = 1; i < PLANTED_COUNT; i++)
        if (strcmp(name, names[i]) == 0) {
            planted_bug = i;
            return true;
        }
    return false;
}
#else
static inline bool plant(const char *name)
{
    (void)name;
    return false;
}
#endif

#endif
