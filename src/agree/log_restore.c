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
#include "agree/log_impl.h"
#include "base/grow.h"

/* What is being read. */
struct reading {
    struct chain chain;
    uint32_t payload_max;
    bool bad; /* no correct replica writes that */
};

/* ---- putting it together ---- */

static void chain_take(void *ctx, const struct disk_record *r)
{
    struct reading *g = ctx;
    struct chain *c = &g->chain;
    if (r->kind == DISK_RESET && !g->bad)
        chain_reset(c, r->from);
    if (PLANTED(snap_drops_beyond) && r->kind == DISK_SNAP && r->from == c->base)
        c->end = c->base;
    if ((r->kind != DISK_ENTRIES && r->kind != DISK_COPY) || g->bad)
        return;
    if (r->kind == DISK_COPY && r->from >= c->base)
        c->end = min_u64(c->end, r->from);
    for (uint64_t pos = r->from; pos < r->to && !g->bad;) {
        const struct entry *e = entry_at(r->bytes + (pos - r->from));
        g->bad = r->to - pos < sizeof(*e) || e->pos != pos || e->bytes > g->payload_max ||
                 r->to - pos < entry_size(e->bytes);
        if (!g->bad) {
            chain_add(c, e);
            pos += entry_size(e->bytes);
        }
    }
}

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
        if (!snap_head_read(l, g->head, g->pos, &state_bytes) ||
            l->opt.machine->state->load_open(l->opt.ctx, state_bytes) < 0)
            return -1;
        g->opened = true;
    }
    return load_bytes(l, at, bytes);
}

static int load_snapshot(struct log *l, uint64_t pos, struct err *e)
{
    struct loading g = {.log = l, .pos = pos};
    g.head = grow("a state that is loaded", NULL, 1, l->snap_head_bytes);
    int rc = disk_snap_read(l->keep.disk, l->opt.disk_group, load_piece, &g, e);
    bool good = rc == 0 && g.opened;
    if (g.opened && l->opt.machine->state->load_close(l->opt.ctx, good) < 0)
        good = false;
    grow_free(g.head);
    if (good) {
        l->applied = pos;
        return 0;
    }
    return rc != 0 ? rc
                   : err_set(e, ERR_CORRUPT, "log: the snapshot of position %llu cannot be loaded",
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

static void apply_chain(struct log *l, const struct chain *c, uint64_t end)
{
    l->keep.replaying = true;
    while (l->applied < end && l->broken == NULL && log_apply(l, chain_at(c, l->applied)))
        ;
    l->keep.replaying = false;
}

/* ---- the own lane ---- */

/* The first entry that the ring holds, with all behind it and one more put. */
static uint64_t lane_start(const struct log *l, const struct chain *c)
{
    uint64_t reach = l->opt.log_bytes - l->put_max;
    uint64_t low = c->end > reach ? c->end - reach : 0, pos = c->base;
    while (pos < low && pos < c->end)
        pos += entry_size(chain_at(c, pos)->bytes);
    return pos;
}

/* Behind `from`: the end of what is stamped so. */
static uint64_t stamped_end(const struct chain *c, uint64_t from, uint64_t run)
{
    while (from < c->end && chain_at(c, from)->ballot == run)
        from += entry_size(chain_at(c, from)->bytes);
    return from;
}

#if TRAM_PLANTED
static uint64_t planted_highest(const struct chain *c, uint64_t pos)
{
    uint64_t highest = 0;
    for (; pos < c->end; pos += entry_size(chain_at(c, pos)->bytes))
        highest = max_u64(highest, chain_at(c, pos)->ballot);
    return highest;
}
#else
#define planted_highest(c, pos) 0
#endif

/* What was accepted stands there for the next leader. The highest stamp is the run: a lane of a ballot between it and that of an
 * older rest would else be believed where this one knows better. It counts, and is promised for, when it is there. */
static void fill_lane(struct log *l, const struct chain *c, uint64_t commit, uint64_t commit_ballot)
{
    struct mem_flow *flow = &l->keep.filling;
    struct mem_lane *lane = l->lane[l->me][l->me];
    uint64_t start = lane_start(l, c);
    uint64_t run =
        PLANTED(run_of_the_rest) ? planted_highest(c, start) : max_u64(c->highest, commit_ballot);
    mem_flow_open(l->mem, flow, l->opt.nodes[l->me], l->opt.region, 0);
    for (uint64_t pos = start; pos < c->end;) {
        uint32_t bytes = (uint32_t)min_u64(c->end - pos, ring_straight(l->opt.log_bytes, pos));
        mem_put(l->mem, flow, lane, pos, c->bytes + (pos - c->base), bytes);
        pos += bytes;
    }
    uint64_t words[] = {start, c->end, commit, max_u64(commit, stamped_end(c, commit, run))};
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

static void show_life(struct log *l)
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

/* The state, as far as it is there. */
static int restore_state(struct log *l, const struct disk_found *f, const struct chain *c,
                         struct err *e)
{
    uint64_t applied =
        min_u64(PLANTED(replay_to_commit) ? f->says.commit : f->says.applied, c->end);
    if (f->snap != 0) {
        int rc = load_snapshot(l, f->snap, e);
        if (rc != 0)
            return rc;
    } else {
        int rc = load_initial(l, e);
        if (rc != 0)
            return rc;
    }
    apply_chain(l, c, applied);
    return 0;
}

/* The memory that was kept has a run of ours that begins beyond the state: see runs_beyond in log_lead.c. */
static bool runs_beyond(const struct log *l)
{
    const struct mem_lane *own = l->lane[l->me][l->me];
    return own->ctl != NULL && mem_word(own, LOG_RUN) != 0 && mem_word(own, LOG_START) > l->applied;
}

static int restore_chain(struct log *l, const struct disk_found *f, bool kept, struct err *e)
{
    struct keeping *k = &l->keep;
    /* Behind what is missing: that was decided, and the lane says so, though it has none of it. */
    uint64_t base = f->state == DISK_BELOW && !PLANTED(below_forgets) ? f->gap_to : f->snap;
    struct reading r = {.chain = {.base = base, .end = base}, .payload_max = l->opt.payload_max};
    struct chain *c = &r.chain;
    disk_replay(k->disk, l->opt.disk_group, chain_take, &r);
    uint64_t commit = min_u64(f->says.commit, c->end);
    int rc = 0;
    if (r.bad)
        rc = err_set(e, ERR_CORRUPT, "log: what the disk has of it is no log");
    l->behind = f->state == DISK_BELOW;
    if (rc == 0 && !l->behind)
        rc = restore_state(l, f, c, e);
    k->end = c->end;
    k->said = f->says;
    k->pledge = k->pledged = max_u64(f->says.pledge, c->highest);
    if (rc == 0 && kept && runs_beyond(l))
        l->behind = true;
    if (rc == 0 && !kept) {
        fill_lane(l, c, max_u64(commit, f->snap), f->says.commit_ballot);
        k->is_filling = true;
        l->state = UNIT_JOINING;
    }
    keep_chain(l, c);
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
    show_life(l);
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
