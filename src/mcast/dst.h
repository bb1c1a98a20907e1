/* Destination sets: which groups a message is for.
 *
 * A set is a list of group numbers, ascending and without repetition (canonical): two equal sets
 * are then equal bytes, and membership is a binary search. Its memory is the caller's, and a
 * struct dst_set only points to it. On the wire it is the bare list in the byte order of the
 * machine, padded with zeros to 8 bytes; how many groups it has is said by the header around it. No
 * allocation, any thread. */
#ifndef MCAST_DST_H
#define MCAST_DST_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { DST_GROUPS_MAX = 1024 };

struct dst_set {
    const uint16_t *group; /* ascending, none twice */
    uint32_t count;        /* at least 1 */
};

/* Sorts the list and drops repetitions, in place: a user's list becomes a set. ERR_INVALID if it is
 * empty, names a group that is not below `groups`, or is longer than DST_GROUPS_MAX. A list that is
 * canonical already costs one pass. */
int dst_normalise(uint16_t *list, uint32_t count, uint32_t groups, struct dst_set *out,
                  struct err *);

/* Checks a set that somebody else wrote: ERR_CORRUPT unless it is canonical, not empty, and all of
 * its groups are below `groups`. */
int dst_check(struct dst_set, uint32_t groups, struct err *);

bool dst_has(struct dst_set, uint16_t group);

/* Bytes of a set of that many groups on the wire. */
static inline uint32_t dst_bytes(uint32_t count)
{
    return (count * (uint32_t)sizeof(uint16_t) + 7) & ~7u;
}

/* Writes dst_bytes(count) bytes. The padding is zeroed, since frames are compared by their bytes. */
static inline void dst_write(void *to, struct dst_set s)
{
    uint32_t used = s.count * (uint32_t)sizeof(uint16_t);

    memcpy(to, s.group, used);
    memset((char *)to + used, 0, dst_bytes(s.count) - used);
}

/* Copies a set off the wire into `list`, which has room for count groups. The memory may be
 * another's, so what is used is this copy, and dst_check comes after it, not before. */
static inline struct dst_set dst_read(const void *from, uint32_t count, uint16_t *list)
{
    memcpy(list, from, count * sizeof(uint16_t));
    return (struct dst_set){list, count};
}

#endif
