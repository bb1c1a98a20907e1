#include "base/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WORD_MAX = 40 }; /* longer words are near nothing */

static const char *array_at(const void *of, uint32_t i)
{
    return ((const char *const *)of)[i];
}

struct nearest_names nearest_array(const char *const *list)
{
    struct nearest_names names = {.at = array_at, .of = (const void *)list};

    while (list[names.count] != NULL)
        names.count++;
    return names;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Letters to add, drop, change or swap with a neighbour to get from a to b, case aside. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[3][WORD_MAX + 1] = {{0}}; /* of the table: two before, one before, this */
    size_t na = strlen(a), nb = strlen(b);

    if (na > WORD_MAX || nb > WORD_MAX)
        return WORD_MAX;
    for (size_t j = 0; j <= nb; j++)
        row[1][j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        row[2][0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            char x = lower(a[i - 1]), y = lower(b[j - 1]);
            unsigned d = row[1][j - 1] + (x != y);
            d = least(d, least(row[1][j], row[2][j - 1]) + 1);
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && y == lower(a[i - 2]))
                d = least(d, row[0][j - 2] + 1);
            row[2][j] = d;
        }
        memcpy(row[0], row[1], sizeof row[0]);
        memcpy(row[1], row[2], sizeof row[1]);
    }
    return row[1][nb];
}

const char *nearest_name(const char *word, struct nearest_names names)
{
    const char *found = NULL;
    unsigned best = WORD_MAX;

    for (uint32_t i = 0; i < names.count; i++) {
        const char *name = names.at(names.of, i);
        unsigned d = distance(word, name);

        /* About a third of the letters may be wrong; more, and any word is near any other. */
        if (d > (strlen(name) + 1) / 3 || d > best)
            continue;
        /* Of g1, g2 and g3 none is what g9 was meant to be. */
        found = d < best ? name : NULL;
        best = d;
    }
    return found;
}

struct nearest_text nearest_text(const char *word, struct nearest_names names, uint32_t shown)
{
    struct nearest_text out = {""};
    const char *near = nearest_name(word, names);
    size_t used = 0;

#define ADD(...)                                                                                   \
    do {                                                                                           \
        if (used < sizeof out.s)                                                                   \
            used += (size_t)snprintf(out.s + used, sizeof out.s - used, __VA_ARGS__);              \
    } while (0)
    if (near != NULL)
        ADD("did you mean %s? ", near);
    ADD("%s %s ", near ? "There" : "there", names.count == 1 ? "is only" : "are");
    if (names.count == 0)
        ADD("none");
    for (uint32_t i = 0; i < names.count && i < shown; i++) {
        bool last = i + 1 == names.count;
        ADD("%s%s", i == 0 ? "" : last ? " and " : ", ", names.at(names.of, i));
    }
    if (names.count > shown)
        ADD(" and %u more", names.count - shown);
#undef ADD
    return out;
}
