/* What the system limits. Locked memory: on verbs everything that others reach, and everything that is sent from, is
 * locked. Huge pages, if they are wanted. */
#include "mem/ofi/impl.h"

#include <linux/capability.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What there is for replicas and connections to all hosts. A client adds its own when it comes. */
static uint64_t locked_bytes(const struct far *o)
{
    uint64_t all = FAR_REGIONS_MAX * sizeof(uint64_t);

    for (const struct chunk *c = o->chunks; c; c = c->next) {
        /* Once for who reads, and once for the one who writes. */
        bool host_writes = c->writer < o->hosts_count && c->writer != o->mem.self;
        all += host_writes ? 2 * c->bytes : c->bytes;
    }
    for (uint32_t h = 0; h < o->hosts_count; h++)
        if (h != o->mem.self)
            all += far_lanes_stage_bytes(o, h) + BOUNCE_BYTES + LINK_RECEIVES * FAR_MESSAGE_MAX;
    return all;
}

static bool may_lock_all(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

    return syscall(SYS_capget, &head, data) == 0 && data[0].effective >> CAP_IPC_LOCK & 1;
}

/* UINT64_MAX: there is none. */
static uint64_t locked_limit(const struct ofi *o)
{
    struct rlimit limit;

    if (!o->net.local || may_lock_all() || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

const char *ofi_limit_hint(const struct ofi *o, char *out, size_t bytes)
{
    uint64_t limit = locked_limit(o);

    if (limit == UINT64_MAX)
        out[0] = 0;
    else
        snprintf(out, bytes, "; it may lock %llu KiB of memory (ulimit -l, LimitMEMLOCK=)",
                 (unsigned long long)(limit / 1024));
    return out;
}

uint64_t ofi_locked_bytes(const struct far *o, uint64_t *limit)
{
    *limit = locked_limit(ofi_of(o));
    return locked_bytes(o);
}
