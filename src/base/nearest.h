/* What to say to somebody who named what does not exist: the names that there are, and the one that was
 * probably meant. Pure functions; any thread may call them. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>
#include <stdint.h>

enum { NEAREST_BYTES = 320 };

/* Names that stand anywhere: `at` gives the i-th of `count`. */
struct nearest_names {
    const char *(*at)(const void *of, uint32_t i);
    const void *of;
    uint32_t count;
};

/* The names of an array that ends with NULL. */
struct nearest_names nearest_array(const char *const *list);

/* The name that the word was probably meant to be: few letters to add, drop, change or swap, case aside.
 * NULL if none is near, or if several are as near as each other. */
const char *nearest_name(const char *word, struct nearest_names);

/* The end of a sentence after "there is no ...; ": "did you mean g1? There are g1, g2 and 6 more", or
 * "there are ..." if none is near. At most `shown` names are listed. */
struct nearest_text {
    char s[NEAREST_BYTES];
};
struct nearest_text nearest_text(const char *word, struct nearest_names, uint32_t shown);

#endif
