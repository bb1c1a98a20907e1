#include "cli/when.h"

#include "group/view.h"

#include <ctype.h>
#include <stdlib.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)

/* The part of a second behind a point. */
static const char *take_fraction(const char *s, uint64_t *ns)
{
    *ns = 0;
    if (*s != '.')
        return s;
    uint64_t unit = SECOND / 10;
    for (s++; isdigit((unsigned char)*s); s++, unit /= 10)
        *ns += (uint64_t)(*s - '0') * unit;
    return s;
}

bool when_time(const char *text, uint64_t *ns)
{
    struct tm tm = {.tm_isdst = -1};
    uint64_t part;
    if (*text == '@') {
        char *end;
        uint64_t s = strtoull(text + 1, &end, 10);
        bool any = end != text + 1;
        end = (char *)(uintptr_t)take_fraction(end, &part);
        *ns = s * SECOND + part;
        return any && *end == '\0' && s < UINT64_MAX / SECOND;
    }
    const char *end = strptime(text, "%Y-%m-%d", &tm);
    if (end == NULL || (*end != ' ' && *end != 'T'))
        return false;
    end = strptime(end + 1, "%H:%M:%S", &tm);
    if (end == NULL || *take_fraction(end, &part) != '\0')
        return false;
    time_t s = mktime(&tm);
    *ns = (uint64_t)s * SECOND + part;
    return s >= 0;
}

bool when_version(const char *text, uint64_t *version)
{
    char *end;
    uint64_t vid = strtoull(text, &end, 10), number = 0;
    bool good = end != text && vid <= VIEWS_MAX;
    if (good && *end == '.') {
        const char *start = end + 1;
        number = strtoull(start, &end, 10);
        good = end != start;
    }
    *version = stamp(vid, number);
    return good && *end == '\0' && number < STAMP_COUNT_MAX;
}
