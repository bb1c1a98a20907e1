#include "mcast/dst.h"

static bool is_ascending(const uint16_t *list, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (list[i - 1] >= list[i])
            return false;
    return true;
}

/* One bit per group: 128 bytes, whatever the list, and no worst case. */
static uint32_t sort_unique(uint16_t *list, uint32_t count)
{
    uint64_t bits[DST_GROUPS_MAX / 64] = {0};
    uint32_t unique = 0;

    for (uint32_t i = 0; i < count; i++)
        bits[list[i] / 64] |= UINT64_C(1) << list[i] % 64;
    for (uint32_t w = 0; w < DST_GROUPS_MAX / 64; w++)
        for (uint64_t left = bits[w]; left; left &= left - 1)
            list[unique++] = (uint16_t)(w * 64 + (uint32_t)__builtin_ctzll(left));
    return unique;
}

int dst_normalise(uint16_t *list, uint32_t count, uint32_t groups, struct dst_set *out,
                  struct err *e)
{
    CHECK(groups > 0 && groups <= DST_GROUPS_MAX);
    if (count == 0)
        return err_set(e, ERR_INVALID, "no destination: a message is for at least one group");
    if (count > DST_GROUPS_MAX)
        return err_set(e, ERR_INVALID, "%u destinations: there are only %u groups", count, groups);
    for (uint32_t i = 0; i < count; i++)
        if (list[i] >= groups)
            return err_set(e, ERR_INVALID, "destination %u: the groups are 0 to %u", list[i],
                           groups - 1);
    if (!is_ascending(list, count))
        count = sort_unique(list, count);
    *out = (struct dst_set){list, count};
    return 0;
}

int dst_check(struct dst_set s, uint32_t groups, struct err *e)
{
    CHECK(groups > 0 && groups <= DST_GROUPS_MAX);
    if (s.count == 0)
        return err_set(e, ERR_CORRUPT, "a destination set without groups");
    if (s.count > groups)
        return err_set(e, ERR_CORRUPT, "a destination set of %u groups, where there are %u",
                       s.count, groups);
    if (!is_ascending(s.group, s.count))
        return err_set(e, ERR_CORRUPT, "a destination set that is not in ascending order");
    if (s.group[s.count - 1] >= groups)
        return err_set(e, ERR_CORRUPT, "destination %u: the groups are 0 to %u",
                       s.group[s.count - 1], groups - 1);
    return 0;
}

bool dst_has(struct dst_set s, uint16_t group)
{
    uint32_t from = 0, to = s.count;

    while (from < to) {
        uint32_t middle = (from + to) / 2;
        if (s.group[middle] < group)
            from = middle + 1;
        else
            to = middle;
    }
    return from < s.count && s.group[from] == group;
}
