#include "host/yield.h"

#include <sched.h>

#define AFTER_DEATH_NS (20 * UINT64_C(1000000))

bool yield_now(struct yield *c, uint64_t now_ns)
{
    uint32_t dead = mem_dead_hosts(c->mem);
    if (dead > c->dead)
        c->sleep_until_ns = now_ns + AFTER_DEATH_NS;
    c->dead = dead;
    if (now_ns < c->sleep_until_ns)
        return false;
    sched_yield();
    return true;
}
