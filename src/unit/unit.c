#include "unit/unit.h"

const char *unit_role_name(enum unit_role role)
{
    static const char *const names[] = {
        [UNIT_JOINING] = "joining", [UNIT_FOLLOWER] = "follower", [UNIT_CANDIDATE] = "candidate",
        [UNIT_SYNC] = "sync",       [UNIT_LEADER] = "leader",
    };

    return (unsigned)role < sizeof names / sizeof names[0] ? names[role] : "unknown";
}
