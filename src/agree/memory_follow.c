/* A memory with a disk appends what stands in the lane of the leader that it has promised. */
#include "agree/memory_keep_impl.h"
#include "base/grow.h"
#include "mem/wrap.h"

#include <stdatomic.h>

enum {
#if TRAM_PLANTED
    COPY_BYTES_MAX = 1 << 10, /* as little of a ring as it is of a real one */
#else
    COPY_BYTES_MAX = 256 << 10, /* of a round; the rest follows in the next one */
#endif
};

static void wait_for(struct memory_keep *k, uint64_t batch, uint64_t run, uint64_t pledge)
{
    keep_wait_for(
        &k->waits,
        &(struct keep_wait){.batch = batch, .run = run, .copied = k->copied, .pledge = pledge});
}

/* With this chain. Where it begins is decided, as the lane says that it began with. */
static struct disk_says says(struct memory_keep *k, const struct chain *c,
                             const struct mem_lane *lane)
{
    uint64_t commit = lane ? min_u64(mem_word(lane, LOG_COMMIT), k->copied) : 0;
    if (commit > k->commit) {
        k->commit = commit;
        k->commit_ballot = k->run;
    }
    k->commit = max_u64(k->commit, c->base);
    return (struct disk_says){.pledge = k->pledge,
                              .end = c->end,
                              .ballot = k->run,
                              .commit = k->commit,
                              .commit_ballot = k->commit_ballot,
                              .applied = c->base};
}

static void append(struct memory_keep *k, struct disk_record *r, const struct chain *c,
                   const struct mem_lane *lane)
{
    r->group = k->group;
    r->says = says(k, c, lane);
    k->last_batch = disk_batch(k->disk);
    disk_append(k->disk, r);
}

static void pledge(struct memory_keep *k, uint64_t promised)
{
    struct disk_record r = {.kind = DISK_PLEDGE, .ballot = promised};
    k->pledge = promised;
    wait_for(k, disk_batch(k->disk), 0, promised);
    append(k, &r, &k->chain, NULL);
}

/* Nothing was raised, renewed or overwritten while the lane was read. */
static bool still_stands(const struct memory_keep *k, const struct mem_lane *lane, uint64_t run,
                         uint64_t from)
{
    atomic_thread_fence(memory_order_seq_cst);
    return promise(k) == run && mem_word(lane, LOG_RUN) == run &&
           mem_word(lane, LOG_START) <= from &&
           mem_word(lane, LOG_GUARD) + k->put_max <= from + k->log_bytes;
}

/* Puts entries of the lane into scratch, stamped with its run; returns where they end. What is below the commit is decided, whatever its
 * stamp; other old stamps are about to be written again. */
static uint64_t take(struct memory_keep *k, const struct mem_lane *lane, uint64_t run,
                     uint64_t from, uint64_t most)
{
    uint64_t guard = mem_word(lane, LOG_GUARD), commit = mem_word(lane, LOG_COMMIT), pos = from;
    if (guard <= from || guard - from > k->log_bytes)
        return from;
    uint64_t bytes = min_u64(guard - from, most);
    ring_read(lane->ring, k->log_bytes, from, k->scratch, bytes);
    while (bytes - (pos - from) >= sizeof(struct entry)) {
        struct entry *e = (struct entry *)(void *)(k->scratch + (pos - from));
        if (e->pos != pos || e->bytes > k->payload_max || (e->ballot != run && pos >= commit) ||
            pos + entry_size(e->bytes) > from + bytes)
            break;
        e->ballot = run;
        pos += entry_size(e->bytes);
    }
    return still_stands(k, lane, run, from) ? pos : from;
}

static const struct entry *scratch_at(const struct memory_keep *k, uint64_t from, uint64_t pos)
{
    return (const struct entry *)(const void *)(k->scratch + (pos - from));
}

static void chain_from_scratch(const struct memory_keep *k, struct chain *c, uint64_t from,
                               uint64_t pos, uint64_t end)
{
    for (const struct entry *e; pos < end; pos += entry_size(e->bytes)) {
        e = scratch_at(k, from, pos);
        chain_add(c, e);
    }
}

void memory_chain_begin(struct chain *c, uint64_t at)
{
    chain_free(c);
    c->base = c->end = at;
}

void memory_chain_trim(struct memory_keep *k, uint64_t end)
{
    struct chain *c = &k->chain;
    uint64_t pos = c->base;
    while (end - pos > k->log_bytes - k->put_max)
        pos += entry_size(chain_at(c, pos)->bytes);
    chain_reset(c, pos);
}

/* Drops what ends beyond. */
static void chain_cut(struct chain *c, uint64_t end)
{
    uint64_t pos = c->base;
    while (pos < c->end && pos + entry_size(chain_at(c, pos)->bytes) <= end)
        pos += entry_size(chain_at(c, pos)->bytes);
    c->end = pos;
}

static int copy(struct memory_keep *k, const struct mem_lane *lane)
{
    uint64_t most = max_u64(min_u64(COPY_BYTES_MAX, k->log_bytes), entry_size(k->payload_max));
    uint64_t from = k->copied, end = take(k, lane, k->run, from, most);
    void *to = end > from ? disk_reserve(k->disk, (uint32_t)(end - from)) : NULL;
    if (to == NULL)
        return 0;
    memcpy(to, k->scratch, end - from);
    CHECK(from >= k->chain.base && from <= k->chain.end);
    chain_from_scratch(k, &k->chain, from, from, end);
    k->copied = end;
    wait_for(k, disk_batch(k->disk), k->run, 0);
    struct disk_record r = {
        .kind = DISK_ENTRIES, .from = from, .to = end, .ballot = k->run, .bytes = to};
    append(k, &r, &k->chain, lane);
    if (end - k->chain.base > 2 * k->log_bytes)
        memory_chain_trim(k, end);
    return 1;
}

/* All of the chain, as one record: what stood before it on the disk is not needed any more. */
static bool append_chain(struct memory_keep *k, const struct chain *c, const struct mem_lane *lane)
{
    uint64_t bytes = c->end - c->base;
    void *to =
        bytes <= disk_record_max(k->disk) ? disk_reserve_copy(k->disk, (uint32_t)bytes) : NULL;
    if (to == NULL)
        return false;
    if (bytes > 0)
        memcpy(to, c->bytes, bytes);
    struct disk_record r = {.kind = DISK_COPY, .from = c->base, .to = c->end, .ballot = k->run};
    r.bytes = bytes > 0 ? to : NULL;
    append(k, &r, c, lane);
    return true;
}

static int copy_again(struct memory_keep *k)
{
    if (disk_used(k->disk) < SAVE_AT || disk_oldest(k->disk) != k->group ||
        disk_done(k->disk) < k->again_in)
        return 0;
    if (k->run != 0)
        memory_chain_trim(k, k->copied);
    if (!append_chain(k, &k->chain, NULL))
        return 0;
    k->again_in = k->last_batch;
    return 1;
}

/* The lane reaches further back than the chain, for a replica that is slower. What the chain has beyond the lane stays: a decision
 * may rest on it. So all of it is written in one record. */
static bool reach_back(struct memory_keep *k, const struct mem_lane *lane, uint64_t start)
{
    const uint64_t base = k->chain.base;
    struct chain c = {.base = start, .end = start};
    uint64_t end = take(k, lane, k->run, start, k->log_bytes), pos = start;
    for (; pos < end && pos < base; pos += entry_size(scratch_at(k, start, pos)->bytes))
        chain_add(&c, scratch_at(k, start, pos));
    for (uint64_t old = base; pos == base && old < k->chain.end;
         old += entry_size(chain_at(&k->chain, old)->bytes))
        chain_add(&c, chain_at(&k->chain, old));
    if (pos == base)
        chain_from_scratch(k, &c, start, base, end);
    if (pos != base || !append_chain(k, &c, lane)) {
        chain_free(&c);
        return false;
    }
    chain_free(&k->chain);
    k->chain = c;
    k->copied = max_u64(k->copied, end);
    wait_for(k, k->last_batch, k->run, 0);
    return true;
}

/* Nothing of it counts any more: it begins with this run. */
static bool begin_anew(struct memory_keep *k, uint64_t start)
{
    if (disk_reserve_copy(k->disk, 0) == NULL)
        return false;
    memory_chain_begin(&k->chain, start);
    k->copied = start;
    k->gap = max_u64(start, 1);
    append(k, &(struct disk_record){.kind = DISK_RESET, .from = start, .to = start}, &k->chain,
           NULL);
    k->blank = false;
    memory_tell_all(k);
    return true;
}

/* That counts when a snapshot says so; there is nothing to be in it. */
static int cover(struct memory_keep *k)
{
    static const unsigned char nothing[8];
    if (k->gap == 0 || disk_snap(k->disk, k->group) >= k->gap || disk_snap_busy(k->disk) ||
        !disk_snap_open(k->disk, k->group, k->gap))
        return 0;
    bool whole = disk_snap_put(k->disk, nothing, sizeof(nothing)) == sizeof(nothing);
    disk_snap_hurry(k->disk);
    disk_snap_end(k->disk, whole);
    return 1;
}

/* Of what the run begins with that much is on the disk: it is decided, and so in every later run. */
static uint64_t has_already(struct memory_keep *k, const struct mem_lane *lane, uint64_t run,
                            uint64_t from)
{
    uint64_t commit = mem_word(lane, LOG_COMMIT), pos = from;
    uint64_t end = take(k, lane, run, from, k->log_bytes);
    while (pos < end && pos < commit && pos >= k->chain.base) {
        const struct entry *e = scratch_at(k, from, pos), *there = chain_at(&k->chain, pos);
        if (there == NULL || !entry_same(there, e))
            break;
        pos += entry_size(e->bytes);
    }
    return pos;
}

/* What an earlier life has copied of this run, in which nothing is taken back. */
static uint64_t copied_before(const struct memory_keep *k, uint64_t run)
{
    const struct chain *c = &k->chain;
    uint64_t end = 0;
    for (uint64_t pos = c->base; c->highest >= run && pos < c->end;) {
        const struct entry *e = chain_at(c, pos);
        pos += entry_size(e->bytes);
        end = e->ballot == run ? pos : end;
    }
    return end;
}

/* What stands before the run's start may be other than was decided, and nobody needs it any more. */
static bool begin_at(struct memory_keep *k, uint64_t start)
{
    struct chain c = k->chain;
    if (start == c.base)
        return true;
    c.bytes = grow("what a disk has of a log", NULL, 1, c.room);
    if (c.end > c.base)
        memcpy(c.bytes, k->chain.bytes, c.end - c.base);
    if (c.end == c.base)
        c.base = c.end = start;
    chain_reset(&c, start);
    if (!append_chain(k, &c, NULL)) {
        chain_free(&c);
        return false;
    }
    chain_free(&k->chain);
    k->chain = c;
    return true;
}

/* Another run is promised and there. */
static bool adopt(struct memory_keep *k, const struct mem_lane *lane, uint64_t run)
{
    uint64_t start = mem_word(lane, LOG_START), from = copied_before(k, run);
    bool joins = k->chain.base < k->chain.end && start < k->chain.base;
    if (k->blank && !begin_anew(k, start))
        return false;
    /* A leader finds all that may be decided, and its lane has room for that. */
    chain_cut(&k->chain, max_u64(from, start + k->log_bytes));
    if (from <= start && joins)
        from = k->chain.base;
    else if (from <= start && !begin_at(k, start))
        return false;
    from = has_already(k, lane, run, max_u64(from, start));
    if (promise(k) != run || mem_word(lane, LOG_RUN) != run)
        return false;
    k->run = run;
    k->copied = from;
    wait_for(k, k->last_batch, run, 0);
    return true;
}

/* The run goes on from further up: we were not written to meanwhile, and what the chain has from there on is another's. */
static bool skip_to(struct memory_keep *k, uint64_t start)
{
    if (start <= k->copied)
        return true;
    k->chain.end = min_u64(k->chain.end, max_u64(k->copied, k->chain.base));
    if (!begin_at(k, start))
        return false;
    k->copied = start;
    return true;
}

int memory_follow(struct memory_keep *k)
{
    uint64_t promised = promise(k);
    int work = 0;
    if (!is_promise(promised))
        return 0;
    if (promised > k->pledge) {
        pledge(k, promised);
        work++;
    }
    const struct mem_lane *lane = k->lane[promised % k->n];
    if (lane->ctl == NULL || mem_word(lane, LOG_RUN) != promised)
        return work + copy_again(k);
    uint64_t start = mem_word(lane, LOG_START);
    if ((k->run != promised && !adopt(k, lane, promised)) || !skip_to(k, start))
        return work;
    if (k->chain.base < k->chain.end && start < k->chain.base &&
        mem_word(lane, LOG_GUARD) >= k->chain.base)
        work += reach_back(k, lane, start);
    work += cover(k) + copy_again(k) + copy(k, lane);
    struct disk_says s = says(k, &k->chain, lane);
    disk_say(k->disk, k->group, &s);
    return work;
}
