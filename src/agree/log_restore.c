/* Coming back from the disk.
 *
 * What the disk has of this group is a snapshot and records, in the order in which they were written. Put together they are a
 * *chain*: the state and everything accepted beyond it. An entry replaces what stands at its position; if it is the same but for
 * its stamp, what follows stays, else the chain ends with it.
 *
 *      memory  disk                          then
 *      kept    whole, below                  lanes and promise from memory, the state from the disk
 *      lost    whole                         promise: what was pledged; the state; the rest of the chain into the own lane
 *      lost    damaged below the commit      likewise without the state: a snapshot comes from the others
 *      any     damaged beyond, gone          nothing counts: taken back by the others, as without a disk
 *
 * Entries count as applied only as far as the disk says that they were: until there what they bring about was taken by whom it
 * is for, and need not be kept for them. */
#include "agree/found.h"
#include "agree/log_impl.h"
#include "base/grow.h"

/* ---- the state ---- */

/* A snapshot on its way to the machine: the log's part comes first. */
struct loading {
    struct log *log;
    uint64_t pos;
    unsigned char *head;
    uint64_t got;
    bool opened;
};

static int load_bytes(const struct log *l, const unsigned char *at, uint32_t bytes)
{
    while (bytes > 0) {
        uint32_t n = bytes < STATE_PIECE_BYTES ? bytes : STATE_PIECE_BYTES;
        if (l->opt.machine->state->load_next(l->opt.ctx, at, n) < 0)
            return -1;
        at += n;
        bytes -= n;
    }
    return 0;
}

static int load_piece(void *ctx, const void *piece, uint32_t bytes)
{
    struct loading *g = ctx;
    struct log *l = g->log;
    const unsigned char *at = piece;
    if (g->got < l->snap_head_bytes) {
        uint32_t n = (uint32_t)min_u64(bytes, l->snap_head_bytes - g->got);
        memcpy(g->head + g->got, at, n);
        g->got += n;
        at += n;
        bytes -= n;
        if (g->got < l->snap_head_bytes)
            return 0;
        uint64_t state_bytes;
        if (!snap_head_check(l, g->head, g->pos, &state_bytes) ||
            l->opt.machine->state->load_open(l->opt.ctx, state_bytes) < 0)
            return -1;
        g->opened = true;
    }
    return load_bytes(l, at, bytes);
}

/* It is checked while it is loaded. What turns out to be damaged does not count: the group is DISK_BELOW then, as others are that
 * were found so, and the machine waits for another state. */
static int load_snapshot(struct log *l, const struct disk_found *f, struct err *e)
{
    const uint64_t pos = f->snap;
    struct loading g = {.log = l, .pos = pos};
    g.head = grow("a state that is loaded", NULL, 1, l->snap_head_bytes);
    int rc = disk_snap_read(l->keep.disk, l->opt.disk_group, load_piece, &g, e);
    bool good = rc == 0 && g.opened, damaged = rc == ERR_CORRUPT && f->state == DISK_BELOW;
    if (g.opened && l->opt.machine->state->load_close(l->opt.ctx, good) < 0)
        good = damaged = false;
    if (good) {
        snap_head_take(l, g.head);
        l->applied = pos;
    }
    grow_free(g.head);
    if (good || damaged)
        return 0;
    return err_set(e, ERR_CORRUPT, "log: the snapshot of position %llu cannot be loaded",
                   (unsigned long long)pos);
}

/* What the group began with, in a cluster that was made of a backup: nothing of the log's. */
static int initial_piece(void *ctx, const void *piece, uint32_t bytes)
{
    return load_bytes(ctx, piece, bytes);
}

static int load_initial(struct log *l, struct err *e)
{
    const struct state_ops *state = l->opt.machine->state;
    if (!disk_initial(l->keep.disk, l->opt.disk_group))
        return 0;
    int rc = state->load_open(l->opt.ctx, STATE_UNKNOWN);
    if (rc == 0) {
        rc = disk_initial_read(l->keep.disk, l->opt.disk_group, initial_piece, l, e);
        if (state->load_close(l->opt.ctx, rc == 0) < 0)
            rc = -1;
    }
    return rc == 0 ? 0
                   : err_set(e, ERR_CORRUPT, "log: what the group begins with cannot be loaded");
}

static void apply_chain(struct log *l, const struct found_list *c, uint64_t end)
{
    l->keep.replaying = true;
    for (uint32_t i = 0; l->applied < end && l->broken == NULL && log_apply(l, c->entry[i]); i++)
        ;
    l->keep.replaying = false;
}

/* ---- the own lane ---- */

/* The first entry that the ring holds, with all behind it and room for a leader's puts (recover_keep_from). */
static uint32_t lane_start(const struct log *l, const struct found_list *c)
{
    uint64_t reach = l->opt.log_bytes - l->put_max;
    return found_find(c, c->end > reach ? c->end - reach : 0);
}

static uint64_t start_of(const struct found_list *c, uint32_t i)
{
    return i < c->count ? c->entry[i]->pos : c->end;
}

/* Behind `from`: the end of what is stamped so. */
static uint64_t stamped_end(const struct found_list *c, uint64_t from, uint64_t run)
{
    uint32_t i = found_find(c, from);
    while (i < c->count && c->entry[i]->ballot == run)
        i++;
    return max_u64(from, start_of(c, i));
}

#if TRAM_PLANTED
static uint64_t planted_highest(const struct found_list *c, uint32_t i)
{
    uint64_t highest = 0;
    for (; i < c->count; i++)
        highest = max_u64(highest, c->entry[i]->ballot);
    return highest;
}
#else
#define planted_highest(c, i) 0
#endif

/* As few writes as there can be: each may be a message. */
static void put_entries(struct log *l, const struct found_list *c, uint32_t i)
{
    uint64_t start = start_of(c, i);
    unsigned char *bytes = grow("what a disk has of a log", NULL, 1, c->end - start + 1);
    for (; i < c->count; i++)
        memcpy(bytes + (c->entry[i]->pos - start), c->entry[i], entry_size(c->entry[i]->bytes));
    for (uint64_t pos = start; pos < c->end;) {
        uint32_t n = (uint32_t)min_u64(c->end - pos, ring_straight(l->opt.log_bytes, pos));
        mem_put(l->mem, &l->keep.filling, l->lane[l->me][l->me], pos, bytes + (pos - start), n);
        pos += n;
    }
    grow_free(bytes);
}

/* What was accepted stands there for the next leader. The highest stamp is the run: a lane of a ballot between it and that of an
 * older rest would else be believed where this one knows better. It counts, and is promised for, when it is there. */
static void fill_lane(struct log *l, const struct found_chain *f, uint64_t commit,
                      uint64_t commit_ballot)
{
    const struct found_list *c = &f->of;
    struct mem_flow *flow = &l->keep.filling;
    struct mem_lane *lane = l->lane[l->me][l->me];
    uint32_t first = lane_start(l, c);
    uint64_t run =
        PLANTED(run_of_the_rest) ? planted_highest(c, first) : max_u64(f->highest, commit_ballot);
    mem_flow_open(l->mem, flow, l->opt.nodes[l->me], l->opt.region, 0);
    put_entries(l, c, first);
    uint64_t words[] = {start_of(c, first), c->end, commit,
                        max_u64(commit, stamped_end(c, commit, run))};
    mem_set(l->mem, flow, lane, LOG_START, words, 4);
    mem_set1(l->mem, flow, lane, LOG_RUN, run);
    mem_mark(l->mem, flow, 1);
    l->tail_max = c->end;
}

int restore_filled(struct log *l)
{
    struct keeping *k = &l->keep;
    if (k->filling.status != MEM_DONE) {
        log_stop(l, "what was on the disk cannot be written into its own memory");
        return 1;
    }
    if (k->filling.done == 0 && !PLANTED(lane_unawaited))
        return 0;
    mem_flow_close(l->mem, &k->filling);
    k->is_filling = false;
    mem_region_grant(l->mem, l->opt.region, k->pledge);
    table_set(l->rows, ROW_FLAGS, table_get(l->rows, l->me, ROW_FLAGS) & ~(uint64_t)ROW_JOINING);
    log_move(l, UNIT_FOLLOWER);
    return 1;
}

/* ---- beginning a life ---- */

void log_show_life(struct log *l)
{
    struct keeping *k = &l->keep;
    uint64_t life = l->mem->life + 1;
    table_set(l->rows, ROW_LIFE, life);
    table_set(l->rows, ROW_FLAGS,
              (l->behind ? ROW_BEHIND : 0) | (l->state == UNIT_JOINING ? ROW_JOINING : 0));
    table_set(l->rows, ROW_APPLIED, l->applied);
    table_set(l->rows, ROW_PLEDGED, k->pledged);
    table_set(l->rows, ROW_DISK_CHECK, row_disk_check(life, 0, 0, k->pledged));
}

/* The state that the chain is applied to, if it is there. */
static int load_state(struct log *l, const struct disk_found *f, struct err *e)
{
    if (f->state == DISK_BELOW)
        return 0;
    return f->snap != 0 ? load_snapshot(l, f, e) : load_initial(l, e);
}

/* The memory that was kept has a run of ours that begins beyond the state: see runs_beyond in log_lead.c. */
static bool runs_beyond(const struct log *l)
{
    const struct mem_lane *own = l->lane[l->me][l->me];
    return own->ctl != NULL && mem_word(own, LOG_RUN) != 0 && mem_word(own, LOG_START) > l->applied;
}

static int take_chain(struct log *l, const struct disk_found *f, struct found_chain *c,
                      struct err *e)
{
    /* Behind what is missing: that was decided, and the lane says so, though it has none of it. */
    found_begin(&c->of, f->state == DISK_BELOW && !PLANTED(below_forgets) ? f->gap_to : f->snap);
    disk_replay(l->keep.disk, l->opt.disk_group, found_take, c);
    if (c->bad || (f->state != DISK_BELOW && c->of.base != f->snap))
        return err_set(e, ERR_CORRUPT, "log: what the disk has of it is no log");
    return 0;
}

/* What is not applied may have to be written again, when the journal that it stands in is let go. */
static void remember(struct log *l, const struct found_chain *f)
{
    const struct found_list *found = &f->of;
    uint64_t from = l->behind ? found->base : max_u64(found->base, l->applied);
    uint32_t i = found_find(found, from);
    struct chain c = {.base = i < found->count ? found->entry[i]->pos : found->end};
    c.end = c.base;
    for (; i < found->count; i++)
        chain_add(&c, found->entry[i]);
    c.highest = f->highest;
    keep_chain(l, &c);
}

/* Memory promises before the disk does. One that promises less is not that of the life before, and has nothing of what was accepted: to vote
 * with it would take back what was decided. */
static int check_promise(const struct log *l, struct err *e)
{
    uint64_t promised = mem_promised(l->mem, l->opt.region);
    if (promised >= l->keep.pledge ||
        l->keep.pledge <= l->opt.base) /* of the log before this one */
        return 0;
    return err_set(e, ERR_CORRUPT,
                   "log: the memory that was kept promises %llu, and the disk %llu: it is not the "
                   "memory of the life before",
                   (unsigned long long)promised, (unsigned long long)l->keep.pledge);
}

static int restore_chain(struct log *l, const struct disk_found *f, bool kept, struct err *e)
{
    struct keeping *k = &l->keep;
    struct found_chain c = {.payload_max = l->opt.payload_max};
    int rc = load_state(l, f, e);
    if (rc == 0)
        rc = take_chain(l, f, &c, e);
    l->behind = f->state == DISK_BELOW;
    if (rc == 0 && !l->behind)
        apply_chain(
            l, &c.of,
            min_u64(PLANTED(replay_to_commit) ? f->says.commit : f->says.applied, c.of.end));
    k->end = c.of.end;
    k->stands = l->applied;
    k->said = f->says;
    k->pledge = k->pledged = max_u64(f->says.pledge, c.highest);
    if (rc == 0 && kept)
        rc = check_promise(l, e);
    if (rc == 0 && kept && runs_beyond(l))
        l->behind = true;
    if (rc == 0 && !kept) {
        uint64_t commit = min_u64(f->says.commit, c.of.end);
        fill_lane(l, &c, max_u64(commit, f->snap), f->says.commit_ballot);
        k->is_filling = true;
        l->state = UNIT_JOINING;
    }
    if (rc == 0)
        remember(l, &c);
    found_free(&c);
    return rc;
}

int log_restore(struct log *l, struct err *e)
{
    /* What is decided and not applied may have to be written again as one record. */
    if (disk_record_max(l->keep.disk) < l->opt.log_bytes)
        return err_set(e, ERR_INVALID,
                       "log: a batch of the disk has room for %u bytes, and the log has %u",
                       disk_record_max(l->keep.disk), l->opt.log_bytes);
    const struct disk_found *f = disk_found(l->keep.disk, l->opt.disk_group);
    bool closed = mem_promised(l->mem, l->opt.region) == MEM_CLOSED;
    int rc = 0;
    l->state = UNIT_FOLLOWER;
    if (f->state == DISK_BEYOND) {
        CHECK(closed); /* its host has given up what the memory had */
        l->keep.beyond = l->behind = true;
        l->state = UNIT_JOINING;
    } else {
        rc = restore_chain(l, f, !closed, e);
    }
    log_show_life(l);
    return rc;
}

bool log_replaying(const struct log *l)
{
    return l->keep.replaying;
}

bool restore_may_grant(struct log *l, uint64_t ballot)
{
    struct keeping *k = &l->keep;
    if (l->behind)
        return false;
    if (ballot > k->pledge)
        keep_pledge(l, ballot);
    return keep_append_reset(l, ballot) && k->pledged >= ballot && k->gap == 0;
}
