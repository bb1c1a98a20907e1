/* What a replica or member said or had, a reply or a state, for that of others to be compared with: its hash, and its bytes as long
 * as there is room for them. One thread. */
#ifndef SIM_IMPRINT_H
#define SIM_IMPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct imprint {
    unsigned char *bytes; /* NULL: only the hash was kept */
    size_t len;
    uint64_t hash;
    uint32_t host; /* whose it is */
    bool there;
};

/* *kept counts the bytes of all imprints that are kept together, at most so many. */
struct imprint imprint_of(size_t *kept, size_t kept_max, uint32_t host, const void *data,
                          size_t len);
void imprint_drop(size_t *kept, struct imprint *);

bool imprint_is(const struct imprint *, const void *data, size_t len);
/* The first byte in which they differ, as far as both go and the bytes were kept; else the length up to which they do not. */
size_t imprint_differs_at(const struct imprint *, const void *data, size_t len);

#endif
