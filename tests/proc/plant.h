/* For tests with real processes that may be run by hand with a planted bug, in the build that has them: all processes are
 * forked off, and have it, too. */
#ifndef TESTS_PROC_PLANT_H
#define TESTS_PROC_PLANT_H

#include "base/planted.h"

#include <stdbool.h>
#include <string.h>

/* Switches it on; false: there is none of that name in this build. */
static inline bool plant(const char *name)
{
#if TRAM_PLANTED
#define PLANT_IF(bug, protocol, text)                                                              \
    if (strcmp(name, #bug) == 0)                                                                   \
        planted_bug = PLANTED_##bug;
    PLANTED_LIST(PLANT_IF)
#undef PLANT_IF
    return planted_bug != PLANTED_none;
#else
    (void)name;
    return false;
#endif
}

#endif
