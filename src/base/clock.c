#include "base/clock.h"

#include "base/err.h"

#include <time.h>

uint64_t clock_now_ns(void)
{
    struct timespec t;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
