/* The inside of a memory with a disk. Files: memory_keep.c opens it, steps it and tells what is durable; memory_follow.c appends
 * what stands in the lane of who is promised; memory_restore.c comes back from the disk. */
#ifndef AGREE_MEMORY_KEEP_IMPL_H
#define AGREE_MEMORY_KEEP_IMPL_H

#include "agree/chain.h"
#include "agree/keep_wait.h"
#include "agree/lanes.h"
#include "agree/memory_keep.h"

struct memory_keep {
    struct mem *mem;
    struct disk *disk;
    uint32_t region, group;
    uint32_t n; /* replicas */
    uint32_t payload_max;
    uint64_t log_bytes, put_max;
    uint64_t heartbeat_ns, tell_ns;

    struct mem_lane *lane[LOG_REPLICAS_MAX + 1]; /* of the log, by writer; the last is its own */
    struct mem_lane *row;                        /* what it says of itself, here, */
    struct mem_flow row_flow;
    struct mem_lane *out[LOG_REPLICAS_MAX]; /* and to each replica */
    struct mem_flow flow[LOG_REPLICAS_MAX];
    uint32_t node[LOG_REPLICAS_MAX];

    struct chain chain;   /* as appended */
    uint64_t run, copied; /* of the lane that is followed; nothing was in this life: 0 */
    uint64_t commit, commit_ballot;
    uint64_t pledge;     /* as last appended */
    uint64_t last_batch; /* in which anything was */
    uint64_t again_in;   /* and all of the chain was, again */
    struct keep_waits waits;
    uint64_t kept_run, kept, pledged; /* what is durable */

    bool
        blank; /* nothing that the disk has counts: it begins anew with the run of whoever takes it back */
    uint64_t
        gap; /* and counts when a snapshot of this position is durable, which has nothing in it; 0: it does */
    bool
        hurt; /* what the chain began with was damaged, and may be needed until a leader has written it again */
    bool is_filling; /* what the disk had is on its way into the own lane */
    struct mem_flow filling;
    unsigned char *scratch; /* log_bytes */
};

static inline uint64_t promise(const struct memory_keep *k)
{
    return mem_promised(k->mem, k->region);
}

static inline bool is_promise(uint64_t promised)
{
    return promised != 0 && promised != MEM_CLOSED;
}

/* memory_keep.c */

/* Shows all replicas what is durable, and the leader whether it is to take it back. */
void memory_tell_all(struct memory_keep *);

/* memory_follow.c */

/* Appends the promise, and what the leader of it has written here. Returns work done. */
int memory_follow(struct memory_keep *);
void memory_chain_begin(struct chain *, uint64_t at);
/* Drops from the front what is more than a reader finds in a ring that is filled to `end`: nobody who is written to needs it. */
void memory_chain_trim(struct memory_keep *, uint64_t end);

/* memory_restore.c */

/* Takes what the disk has. */
int memory_restore(struct memory_keep *, struct err *);
/* When the own lane has it, the region is opened for promises. */
int memory_filled(struct memory_keep *);

#endif
