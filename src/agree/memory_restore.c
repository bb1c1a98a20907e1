/* A memory that comes back takes what its disk has. */
#include "agree/found.h"
#include "agree/memory_keep_impl.h"
#include "mem/wrap.h"

/* What goes beyond the end that was last told is of before something that is missing. */
static void chain_found(struct chain *c, const struct found_chain *f, uint64_t end)
{
    const struct found_list *found = &f->of;
    memory_chain_begin(c, found->count > 0 ? found->entry[0]->pos : found->end);
    for (uint32_t i = 0; i < found->count; i++)
        if (found->entry[i]->pos + entry_size(found->entry[i]->bytes) <= end)
            chain_add(c, found->entry[i]);
    c->highest = f->highest;
}

static int take_chain(struct memory_keep *k, const struct disk_found *f, struct err *e)
{
    struct found_chain c = {.payload_max = k->payload_max};
    /* Where the chain began anew there is a snapshot with nothing in it; else what is before it is not missing, but was never there. */
    found_begin(&c.of, f->state == DISK_BELOW ? f->gap_to : f->snap & ~UINT64_C(7));
    disk_replay(k->disk, k->group, found_take, &c);
    if (!c.bad)
        chain_found(&k->chain, &c, f->says.end);
    found_free(&c);
    k->pledge = k->pledged = max_u64(f->says.pledge, k->chain.highest);
    k->commit = f->says.commit;
    k->commit_ballot = f->says.commit_ballot;
    k->hurt = f->state == DISK_BELOW && f->gap_to > f->says.applied;
    return c.bad ? err_set(e, ERR_CORRUPT, "log: what the disk has of it is no log") : 0;
}

/* From here on all are of the run. */
static uint64_t stamped_end(const struct chain *c, uint64_t pos, uint64_t run)
{
    const struct entry *e;
    while ((e = chain_at(c, pos)) != NULL && e->ballot == run)
        pos += entry_size(e->bytes);
    return pos;
}

/* As a replica puts what its disk had into its own lane (log_restore.c). */
static void fill_lane(struct memory_keep *k)
{
    const struct chain *c = &k->chain;
    struct mem_lane *lane = k->lane[k->n];
    memory_chain_trim(k, c->end);
    uint64_t commit = max_u64(min_u64(k->commit, c->end), c->base);
    uint64_t run = max_u64(c->highest, k->commit_ballot);
    mem_flow_open(k->mem, &k->filling, k->mem->self, k->region, 0);
    for (uint64_t pos = c->base; pos < c->end;) {
        uint32_t n = (uint32_t)min_u64(c->end - pos, ring_straight(k->log_bytes, pos));
        mem_put(k->mem, &k->filling, lane, pos, c->bytes + (pos - c->base), n);
        pos += n;
    }
    uint64_t words[] = {c->base, c->end, commit, stamped_end(c, commit, run)};
    mem_set(k->mem, &k->filling, lane, LOG_START, words, 4);
    mem_set1(k->mem, &k->filling, lane, LOG_RUN, run);
    mem_mark(k->mem, &k->filling, 1);
    k->is_filling = true;
}

int memory_filled(struct memory_keep *k)
{
    if (k->filling.status == MEM_DONE && k->filling.done == 0)
        return 0;
    CHECK(k->filling.status == MEM_DONE); /* its own memory, and it is closed to all others */
    mem_flow_close(k->mem, &k->filling);
    k->is_filling = false;
    mem_region_grant(k->mem, k->region, k->pledge);
    return 1;
}

int memory_restore(struct memory_keep *k, struct err *e)
{
    const struct disk_found *f = disk_found(k->disk, k->group);
    uint64_t promised = promise(k);
    k->blank = f->state == DISK_BEYOND;
    if (k->blank) {
        CHECK(promised == MEM_CLOSED); /* its host has given up what the memory had */
        return 0;
    }
    int rc = take_chain(k, f, e);
    if (rc == 0 && promised == MEM_CLOSED)
        fill_lane(k);
    else if (rc == 0 && promised < k->pledge)
        return err_set(e, ERR_CORRUPT,
                       "log: the memory that was kept promises %llu, and the disk %llu: it is not "
                       "the memory of the life before",
                       (unsigned long long)promised, (unsigned long long)k->pledge);
    return rc;
}
