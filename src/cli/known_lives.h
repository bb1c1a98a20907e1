/* What the other hosts of a durable cluster know of one of them: how many lives it has had, and whether they have what its groups had.
 * From the pages of those that run, here or on other machines, and from the directories of those that do not run and are here. */
#ifndef CLI_KNOWN_LIVES_H
#define CLI_KNOWN_LIVES_H

#include "cli/running.h"

enum { KNOWN_TEXT_BYTES = 512 };

struct known_lives {
    uint32_t lives; /* most that any of them knows of; 0: it has never lived, as far as is known */
    uint32_t heard; /* how many of them could be asked or read */
    char unheard
        [KNOWN_TEXT_BYTES]; /* those of them that share a group with it and could not be: "h2 (not here), h3 (...)" */
    char short_of
        [KNOWN_TEXT_BYTES]; /* groups of it of whose other replicas no majority of the group is known to have its data */
};

/* Looks at them all; reads what those here have on disk, which takes its time. */
void known_lives_of(const struct running *, uint32_t host, struct known_lives *);

#endif
