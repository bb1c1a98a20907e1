/* Keeping what was accepted and promised on disk.
 *
 * A replica follows the lane of the leader that it promised, its own included. What stands there is appended to the disk, under
 * that promise, before it is applied. If the promise still stood after the bytes were taken, then whoever raises this replica
 * later sees these entries: so what is kept under a ballot is known to every later leader, even if the promise moves before
 * the disk has it. A commit waits for a quorum of disks, a candidate for the disks of those that promised. */
#include "agree/log_impl.h"
#include "base/grow.h"

#include <stdatomic.h>

enum {
#if TRAM_PLANTED
    COPY_BYTES_MAX = 1 << 10, /* as little of a ring as it is of a real one */
    APPLY_BYTES_MAX = 1 << 8,
#else
    /* A round; the rest follows in the next one. Much is copied, for what is copied together is flushed together; little is applied,
     * for meanwhile nothing is taken and copied, and the disk waits. */
    COPY_BYTES_MAX = 256 << 10,
    APPLY_BYTES_MAX = 64 << 10,
#endif
    SAVE_ASK_ROUNDS = 2,
    SAVE_STAGGER = 200, /* and so many thousandths more than SAVE_AT for the last in rank */
};

/* ---- what is durable ---- */

uint64_t keep_stands_to(const struct log *l)
{
    const struct keeping *k = &l->keep;
    bool counts = k->disk != NULL && has_memories(l) && k->gap == 0 && k->later.bytes == 0;
    return counts && !PLANTED(memory_from_unkept) ? min_u64(k->stands, l->applied) : l->applied;
}

/* Notes what has just been appended, for when its batch is done. */
static void wait_for(struct log *l, uint64_t run, uint64_t copied, uint64_t pledge)
{
    struct keeping *k = &l->keep;
    keep_wait_for(&k->waits, &(struct keep_wait){.batch = disk_batch(k->disk),
                                                 .run = run,
                                                 .copied = copied,
                                                 .pledge = pledge,
                                                 .applied = k->said.applied});
}

static void show(struct log *l)
{
    const struct keeping *k = &l->keep;
    uint64_t life = table_get(l->rows, l->me, ROW_LIFE);
    table_set(l->rows, ROW_KEPT_BALLOT, k->kept_run);
    table_set(l->rows, ROW_KEPT, k->kept);
    table_set(l->rows, ROW_PLEDGED, k->pledged);
    table_set(l->rows, ROW_DISK_CHECK, row_disk_check(life, k->kept_run, k->kept, k->pledged));
}

/* The leader waits for it; so may a candidate, whose ballot is the promise. */
static void tell(struct log *l)
{
    uint64_t promised = mem_promised(l->mem, l->opt.region);
    show(l);
    if (promised == 0 || promised == MEM_CLOSED)
        return;
    uint32_t leader = (uint32_t)(promised % l->n);
    if (leader == l->me)
        return;
    if (table_reaches(l->rows, leader))
        table_tell_words(l->rows, leader, ROW_KEPT_BALLOT, ROW_DISK_WORDS);
    mem_bell(l->mem, l->opt.nodes[leader]);
}

/* The state was replaced, and a snapshot of it is durable. */
static bool is_covered(const struct log *l)
{
    const struct keeping *k = &l->keep;
    return k->gap == 0 || disk_snap(k->disk, l->opt.disk_group) >= k->gap ||
           PLANTED(kept_over_reset);
}

/* ---- what the disk has ---- */

/* All of it is of this promise now. False: it changed while it was copied. */
static bool stamp(const struct log *l, unsigned char *bytes, uint64_t from, uint64_t end,
                  uint64_t promised)
{
    for (uint64_t pos = from; pos < end;) {
        struct entry *e = (struct entry *)(void *)(bytes + (pos - from));
        if (e->pos != pos || e->bytes > l->opt.payload_max || pos + entry_size(e->bytes) > end)
            return false;
        e->ballot = promised;
        pos += entry_size(e->bytes);
    }
    return true;
}

/* The chain need not be remembered if it ends where the lane does, as far as it is copied. */
static void chain_drop(struct log *l, uint64_t copied)
{
    struct keeping *k = &l->keep;
    if (k->end > copied)
        return;
    k->unknown = k->chained = false;
    chain_free(&k->chain);
}

void keep_chain(struct log *l, struct chain *c)
{
    struct keeping *k = &l->keep;
    if (!l->behind)
        chain_reset(c, l->applied);
    k->chain = *c;
    k->chained = true;
    chain_drop(l, l->applied);
}

static bool lane_has(const struct log *l, uint32_t w, uint64_t run, uint64_t from)
{
    const struct mem_lane *lane = l->lane[l->me][w];
    return lane->ctl != NULL && mem_word(lane, LOG_RUN) == run &&
           mem_word(lane, LOG_START) <= from &&
           (w == l->me || mem_word(lane, LOG_GUARD) + l->put_max <= from + l->opt.log_bytes);
}

/* Another promise is about to be on disk, and its leader may then write over the lane that has the chain. Before that nobody
 * does. */
static void chain_remember(struct log *l)
{
    struct keeping *k = &l->keep;
    uint32_t w = (uint32_t)(k->run % l->n);
    uint64_t from = l->applied;
    if (k->chained || k->unknown || k->end <= from)
        return;
    k->unknown = k->gap != 0 || k->run == 0 || !lane_has(l, w, k->run, from);
    if (k->unknown)
        return;
    k->chain = (struct chain){.base = from, .end = from, .room = k->end - from};
    k->chain.bytes = grow("what a disk has of a log", NULL, 1, k->chain.room);
    ring_read(l->lane[l->me][w]->ring, l->opt.log_bytes, from, k->chain.bytes, k->end - from);
    k->chain.end = k->end;
    k->chain.highest = k->run;
    k->chained = stamp(l, k->chain.bytes, from, k->end, k->run);
    k->unknown = !k->chained;
    if (k->unknown)
        chain_free(&k->chain);
}

/* Entries [from, end) were appended. */
static void chain_append(struct log *l, const unsigned char *bytes, uint64_t from, uint64_t end)
{
    struct keeping *k = &l->keep;
    for (uint64_t pos = from; k->chained && pos < end;
         pos += entry_size(entry_at(bytes + (pos - from))->bytes))
        chain_add(&k->chain, entry_at(bytes + (pos - from)));
    k->end = k->chained ? k->chain.end : max_u64(k->end, end);
    chain_drop(l, end);
}

/* The chain goes on from the new state. */
static void cover(struct log *l)
{
    struct keeping *k = &l->keep;
    const struct entry *e;
    uint64_t from = max_u64(k->gap, disk_snap(k->disk, l->opt.disk_group));
    while ((e = backlog_first(&k->later)) != NULL && e->pos < from)
        backlog_pop(&k->later);
    k->end = max_u64(k->end, from);
    k->stands = max_u64(k->stands, from);
    if (k->chained && k->chain.base > from) { /* the state is one of before what was missing */
        k->chained = false;
        k->unknown = true;
    } else if (k->chained) {
        chain_reset(&k->chain, from);
        k->end = k->chain.end;
    }
    k->gap = 0;
    k->is_first = false;
    chain_drop(l, from);
}

int keep_settle(struct log *l)
{
    struct keeping *k = &l->keep;
    uint64_t done = PLANTED(kept_at_submit) ? UINT64_MAX : disk_done(k->disk);
    struct keep_wait w;
    int over = 0;
    if (k->gap != 0 && !k->reset_due && is_covered(l))
        cover(l);
    for (; keep_wait_over(&k->waits, done, &w); over++) {
        if (w.run != 0) {
            k->kept_run = w.run;
            k->kept = w.copied;
        }
        k->pledged = max_u64(k->pledged, w.pledge);
        k->stands = max_u64(k->stands, w.applied);
    }
    if (over == 0)
        return 0;
    tell(l);
    if (has_memories(l))
        log_show_applied(l);
    return 1;
}

/* ---- appending ---- */

/* What goes along with the next record. The commit is as the promised leader told it; it never says more than is written of its run
 * by then, for what the chain has beyond may be something else, nor less than was said before. */
static struct disk_says says(struct log *l, uint64_t commit, uint64_t commit_ballot)
{
    struct keeping *k = &l->keep;
    struct disk_says *s = &k->said;
    s->pledge = k->pledge;
    s->end = k->end;
    s->ballot = k->run;
    /* What the chain has is not what was applied, or was loaded by now. */
    if (k->gap != 0 || (l->behind && !PLANTED(says_what_is_loaded)))
        return *s;
    uint64_t written = PLANTED(commit_said_ahead) ? k->end : k->copied;
    if (min_u64(commit, written) > s->commit) {
        s->commit = min_u64(commit, written);
        s->commit_ballot = commit_ballot;
    }
    s->applied = max_u64(s->applied, min_u64(l->applied, k->end));
    return *s;
}

void keep_pledge(struct log *l, uint64_t promised)
{
    struct keeping *k = &l->keep;
    chain_remember(l);
    k->pledge = promised;
    struct disk_record r = {
        .kind = DISK_PLEDGE, .group = l->opt.disk_group, .ballot = promised, .says = says(l, 0, 0)};
    wait_for(l, 0, 0, promised);
    disk_append(k->disk, &r);
}

/* What was applied goes along with what is appended next; where others wait for that, so that there is room, and nothing else is to be
 * appended, it goes alone. */
static int say_applied(struct log *l)
{
    struct keeping *k = &l->keep;
    if (!has_memories(l) || k->waits.count > 0 || k->gap != 0 || l->behind || k->pledge == 0 ||
        min_u64(l->applied, k->end) < k->stands + keep_unsaid_max(l))
        return 0;
    struct disk_record r = {.kind = DISK_PLEDGE,
                            .group = l->opt.disk_group,
                            .ballot = k->pledge,
                            .says = says(l, 0, 0)};
    wait_for(l, 0, 0, 0);
    disk_append(k->disk, &r);
    return 1;
}

/* The end of what may be copied of the lane, from `from` on. What is below the commit is decided, and so in every later ballot
 * too: its stamps may be old, for a leader that continues a run does not write it again. Other old stamps are about to be
 * rewritten. */
static uint64_t copy_end(const struct log *l, uint32_t w, uint64_t promised, uint64_t from)
{
    const struct mem_lane *lane = l->lane[l->me][w];
    uint64_t guard = mem_word(lane, LOG_GUARD), commit = mem_word(lane, LOG_COMMIT);
    uint64_t pos = from;
    while (pos < guard) {
        const struct entry *e = log_entry(l, w, pos);
        if (e->pos != pos || e->bytes > l->opt.payload_max)
            break;
        if (e->ballot != promised && (pos >= commit || PLANTED(old_stamps_awaited)))
            break;
        if (pos > from && pos + entry_size(e->bytes) - from > COPY_BYTES_MAX)
            break;
        pos += entry_size(e->bytes);
    }
    return pos;
}

/* Nothing was raised, renewed or overwritten while the bytes were taken. */
static bool still_stands(const struct log *l, uint32_t w, uint64_t promised, uint64_t from)
{
    const struct mem_lane *lane = l->lane[l->me][w];
    atomic_thread_fence(memory_order_seq_cst);
    return (mem_promised(l->mem, l->opt.region) == promised || PLANTED(copy_unchecked)) &&
           mem_word(lane, LOG_RUN) == promised &&
           (w == l->me || mem_word(lane, LOG_GUARD) + l->put_max <= from + l->opt.log_bytes);
}

/* Room for so many bytes of entries; NULL: there is none, which is noted. */
static unsigned char *reserve(struct log *l, uint64_t bytes)
{
    struct keeping *k = &l->keep;
    unsigned char *to = disk_reserve(k->disk, (uint32_t)bytes);
    if (to != NULL)
        k->full_ns = 0;
    else if (k->full_ns == 0)
        k->full_ns = l->now_ns;
    k->full_bytes = (uint32_t)bytes;
    return to;
}

/* Appends what was put into the reserved room: entries [from, end), stamped with the promise. */
static void append(struct log *l, uint64_t promised, uint64_t from, uint64_t end, uint64_t commit,
                   const unsigned char *bytes)
{
    struct keeping *k = &l->keep;
    k->run = promised;
    k->copied = end;
    chain_append(l, bytes, from, end);
    struct disk_record r = {.kind = DISK_ENTRIES,
                            .group = l->opt.disk_group,
                            .from = from,
                            .to = end,
                            .ballot = promised,
                            .says = says(l, commit, promised),
                            .bytes = bytes};
    wait_for(l, promised, end, 0);
    disk_append(k->disk, &r);
}

/* Appends [from, end) of the lane under the promise. False: there is no room, or it changed while it was copied. */
static bool append_lane(struct log *l, uint32_t w, uint64_t promised, uint64_t from, uint64_t end)
{
    const struct mem_lane *lane = l->lane[l->me][w];
    unsigned char *to = reserve(l, end - from);
    if (to == NULL)
        return false;
    ring_read(lane->ring, l->opt.log_bytes, from, to, end - from);
    if (!stamp(l, to, from, end, promised) || !still_stands(l, w, promised, from))
        return false;
    append(l, promised, from, end, mem_word(lane, LOG_COMMIT), to);
    return true;
}

/* Appends what was applied while the disk could not have it. It is decided, and so in every later ballot: it is written as the
 * promise, whatever the lane of that has by now. */
static int append_later(struct log *l, uint64_t promised)
{
    struct backlog *later = &l->keep.later;
    uint32_t most = (uint32_t)min_u64(COPY_BYTES_MAX, disk_record_max(l->keep.disk));
    uint32_t bytes = backlog_straight(later, most);
    unsigned char *to = bytes > 0 ? reserve(l, bytes) : NULL;
    if (to == NULL)
        return 0;
    const struct entry *e = backlog_first(later);
    uint64_t from = e->pos, end = from + bytes;
    memcpy(to, e, bytes);
    CHECK(stamp(l, to, from, end, promised));
    while ((e = backlog_first(later)) != NULL && e->pos < end)
        backlog_pop(later);
    append(l, promised, from, end, end, to);
    return 1;
}

bool keep_is_late(const struct log *l)
{
    return l->keep.gap != 0 || l->keep.later.bytes > 0;
}

void keep_later(struct log *l, const struct entry *e)
{
    backlog_add(&l->keep.later, e);
}

static int copy(struct log *l, uint32_t w, uint64_t promised)
{
    struct keeping *k = &l->keep;
    uint64_t from = k->run == promised ? k->copied : l->applied;
    if (mem_word(l->lane[l->me][w], LOG_START) > from)
        return 0;
    uint64_t end = copy_end(l, w, promised, from);
    return end > from && append_lane(l, w, promised, from, end);
}

/* The chain as the disk has it, into room that was reserved. False: it is not known. */
static bool chain_read(struct log *l, uint64_t from, unsigned char *to)
{
    struct keeping *k = &l->keep;
    uint32_t w = (uint32_t)(k->run % l->n);
    if (k->chained) {
        chain_reset(&k->chain, from);
        CHECK(k->chain.base == from && k->chain.end == k->end);
        memcpy(to, k->chain.bytes, k->end - from);
        return true;
    }
    ring_read(l->lane[l->me][w]->ring, l->opt.log_bytes, from, to, k->end - from);
    atomic_thread_fence(memory_order_seq_cst);
    return stamp(l, to, from, k->end, k->run) && lane_has(l, w, k->run, from);
}

/* The oldest segment of a journal that is half full is kept by this group alone, for what is in no snapshot: what it accepted and
 * cannot apply. */
static bool wants_copy(const struct log *l, uint64_t from)
{
    const struct keeping *k = &l->keep;
    return !l->behind && !keep_is_late(l) && from == l->applied && from < k->end && !k->unknown &&
           disk_done(k->disk) >= k->again_in && disk_used(k->disk) >= SAVE_AT &&
           disk_oldest(k->disk) == l->opt.disk_group && k->end - from <= disk_record_max(k->disk) &&
           (k->chained || lane_has(l, (uint32_t)(k->run % l->n), k->run, from));
}

/* What is accepted and cannot be applied, for others have no room for what it brings about or nobody leads, is in no snapshot: it would
 * keep the journal from going on, and with it the other groups. It is at most a ring, and is written again, as it is: nothing more
 * is kept by that, and no promise is needed for it. */
static int copy_again(struct log *l)
{
    struct keeping *k = &l->keep;
    uint64_t from = disk_snap(k->disk, l->opt.disk_group);
    if (!wants_copy(l, from))
        return 0;
    unsigned char *to = disk_reserve_copy(k->disk, (uint32_t)(k->end - from));
    if (to == NULL || !chain_read(l, from, to))
        return 0;
    struct disk_record r = {.kind = DISK_COPY,
                            .group = l->opt.disk_group,
                            .from = from,
                            .to = k->end,
                            .ballot = k->run,
                            .says = says(l, 0, 0),
                            .bytes = to};
    k->again_in = disk_batch(k->disk);
    disk_append(k->disk, &r);
    return 1;
}

/* The chain may have other entries than were decided, and a decision of before may rest on it: it stays as it is, and nothing is
 * added, until a snapshot of the new state is durable. One that is damaged is given up at once. */
void keep_reset(struct log *l)
{
    struct keeping *k = &l->keep;
    k->unknown = !k->chained && k->end > l->applied;
    k->run = 0; /* what is copied next begins at it */
    backlog_clear(&k->later);
    k->gap = l->applied;
    k->reset_due = k->beyond;
    CHECK(k->gap != 0 || !k->beyond);
    if (k->gap == 0) /* what the group began with needs no snapshot */
        cover(l);
}

/* Says where the chain of a disk that was damaged begins. False: there is no room for that. */
bool keep_append_reset(struct log *l, uint64_t ballot)
{
    struct keeping *k = &l->keep;
    if (!k->reset_due)
        return true;
    if (disk_reserve_copy(k->disk, 0) == NULL)
        return false;
    k->reset_due = k->beyond = false;
    k->copied = k->end = k->gap;
    chain_drop(l, k->gap);
    k->said = (struct disk_says){.pledge = k->pledge,
                                 .end = k->gap,
                                 .commit = k->gap,
                                 .commit_ballot = ballot,
                                 .applied = k->gap};
    struct disk_record r = {.kind = DISK_RESET,
                            .group = l->opt.disk_group,
                            .from = k->gap,
                            .to = k->gap,
                            .says = k->said};
    disk_append(k->disk, &r);
    return true;
}

/* Who cannot keep anything applies nothing, and answers nobody: another one is to lead until it can. */
static void judge_fitness(struct log *l)
{
    struct keeping *k = &l->keep;
    if (k->full_ns != 0 && disk_has_room(k->disk, k->full_bytes, false))
        k->full_ns = 0; /* nobody may be there whose entries would show it */
    bool unfit = k->gap != 0 || (k->full_ns != 0 && l->now_ns - k->full_ns >= l->opt.detach_ns);
    if (unfit == k->unfit)
        return;
    k->unfit = unfit;
    uint64_t flags = table_get(l->rows, l->me, ROW_FLAGS) & ~(uint64_t)ROW_FULL;
    table_set(l->rows, ROW_FLAGS, flags | (unfit ? ROW_FULL : 0));
    table_push_row(l->rows);
    if (unfit && log_leading(l))
        log_step_down(l, true);
}

int keep_follow(struct log *l)
{
    judge_fitness(l);
    struct keeping *k = &l->keep;
    uint64_t promised = mem_promised(l->mem, l->opt.region);
    if (k->is_first) {
        keep_append_reset(l, 0);
        return 0;
    }
    if (promised == 0 || promised == MEM_CLOSED)
        return 0;
    int work = 0;
    if (promised > k->pledge) {
        keep_pledge(l, promised);
        work++;
    }
    if (k->gap != 0)
        return work;
    if (keep_is_late(l))
        return work + append_later(l, promised);
    work += copy_again(l);
    if (PLANTED_ANY)
        promised = planted_promise_before(l, promised);
    uint32_t w = (uint32_t)(promised % l->n);
    const struct mem_lane *lane = l->lane[l->me][w];
    if (l->behind || lane->ctl == NULL || mem_word(lane, LOG_RUN) != promised)
        return work;
    work += copy(l, w, promised) + say_applied(l);
    if (k->run == promised) {
        struct disk_says s = says(l, mem_word(lane, LOG_COMMIT), promised);
        disk_say(k->disk, l->opt.disk_group, &s);
    }
    return work;
}

uint64_t keep_apply_end(const struct log *l, uint64_t promised)
{
    const uint64_t most = l->applied + APPLY_BYTES_MAX;
    if (keep_is_late(l))
        return l->keep.later.bytes < l->opt.backlog_bytes ? most : 0;
    return l->keep.run == promised ? min_u64(l->keep.copied, most) : 0;
}

/* ---- snapshots ---- */

/* The disk has no room for much more, and this group is in the way; the next in rank waits longer, so that not all of them save
 * at once. Or nothing counts before there is one. */
static bool wants_save(const struct log *l)
{
    const struct keeping *k = &l->keep;
    if (l->behind || l->taking.on || l->snap_to < l->n || disk_snap_busy(k->disk) ||
        !state_save_ready(l->opt.machine->state, l->opt.ctx))
        return false;
    /* The disk is told of the new beginning first; unless it has no room for that before there is a snapshot. */
    if (k->gap != 0)
        return !is_covered(l) && (!k->reset_due || !disk_has_room(k->disk, 0, true));
    return disk_used(k->disk) >= SAVE_AT + SAVE_STAGGER * l->me / l->n &&
           disk_oldest(k->disk) == l->opt.disk_group &&
           disk_snap(k->disk, l->opt.disk_group) < l->applied;
}

static void save_end(struct log *l, bool whole)
{
    struct keeping *k = &l->keep;
    l->opt.machine->state->save_close(l->opt.ctx, k->save);
    disk_snap_end(k->disk, whole);
    k->save = NULL;
    grow_free(k->piece);
    k->piece = NULL;
}

/* Freezing should be quick, and may not be: the others are told two rounds before, for what is written here leaves with the
 * next poll. */
static int save_ask(struct log *l)
{
    if (l->keep.save_asked++ == 0) {
        table_set(l->rows, ROW_BUSY, 1);
        log_push_row(l);
    }
    return 1;
}

static int save_begin(struct log *l)
{
    struct keeping *k = &l->keep;
    uint64_t bytes = STATE_UNKNOWN;
    if (!state_save_ready(l->opt.machine->state, l->opt.ctx) || !snap_budget_take(l) ||
        !disk_snap_open(k->disk, l->opt.disk_group, l->applied))
        return 0;
    if (k->gap != 0)
        disk_snap_hurry(k->disk);
    k->save = l->opt.machine->state->save_open(l->opt.ctx, &bytes);
    l->count.saves++;
    if (k->save == NULL) {
        disk_snap_end(k->disk, false);
        log_stop(l, "the state machine could not save its state");
        return 1;
    }
    uint32_t room = (uint32_t)max_u64(l->snap_head_bytes, STATE_PIECE_BYTES);
    k->piece = grow("a state that is kept", NULL, 1, room);
    snap_head_write(l, k->piece, bytes);
    k->piece_bytes = l->snap_head_bytes;
    k->piece_at = 0;
    k->save_whole = false;
    return 1;
}

/* The next bytes of the state, or the end of it. */
static void save_piece(struct log *l)
{
    struct keeping *k = &l->keep;
    int bytes = l->opt.machine->state->save_next(l->opt.ctx, k->save, k->piece, STATE_PIECE_BYTES);
    k->piece_at = 0;
    k->piece_bytes = bytes > 0 ? (uint32_t)bytes : 0;
    k->save_whole = bytes == 0;
    if (bytes < 0 || bytes > STATE_PIECE_BYTES) {
        log_stop(l, "the state machine could not save its state");
        save_end(l, false);
    }
}

int keep_save(struct log *l)
{
    struct keeping *k = &l->keep;
    if (k->save == NULL && !wants_save(l)) {
        if (k->save_asked > 0)
            snap_not_busy(l);
        k->save_asked = 0;
        return 0;
    }
    if (k->save == NULL)
        return k->save_asked < SAVE_ASK_ROUNDS ? save_ask(l) : save_begin(l);
    int work = 0;
    if (k->save_asked > 0)
        snap_not_busy(l);
    k->save_asked = 0;
    while (k->save != NULL) {
        uint32_t put = disk_snap_put(k->disk, k->piece + k->piece_at, k->piece_bytes - k->piece_at);
        k->piece_at += put;
        work += put > 0;
        if (k->piece_at < k->piece_bytes || !snap_budget_take(l))
            break;
        save_piece(l);
        if (k->save != NULL && k->save_whole)
            save_end(l, true);
        work++;
    }
    return work;
}

void keep_drop_save(struct log *l)
{
    if (l->keep.save != NULL)
        save_end(l, false);
}

bool keep_at_rest(const struct log *l)
{
    const struct keeping *k = &l->keep;
    return k->waits.count == 0 && !keep_is_late(l) && k->copied == l->applied && k->save == NULL &&
           k->save_asked == 0 && !wants_save(l) &&
           !wants_copy(l, disk_snap(k->disk, l->opt.disk_group));
}

/* While nothing waits all of the chain is there. */
void keep_status(const struct log *l, struct unit_status *s)
{
    const struct keeping *k = &l->keep;
    if (k->disk == NULL)
        return;
    uint64_t accepted = l->state == UNIT_LEADER ? max_u64(l->tail, k->copied) : k->copied;
    bool all = k->waits.count == 0 && accepted <= k->copied;
    s->kept_applied = min_u64(k->stands, l->applied);
    s->late = keep_is_late(l);
    s->kept = k->waits.count == 0 ? k->end : k->kept;
    s->unkept = all || accepted < k->kept ? 0 : accepted - k->kept;
    s->lacks = disk_found(k->disk, l->opt.disk_group)->state > DISK_WHOLE &&
               (l->behind || k->beyond || k->gap != 0 || l->state == UNIT_JOINING);
    s->stands = l->stands && l->state == UNIT_JOINING;
    for (uint32_t q = 0; q < l->n; q++)
        s->joining |= (uint32_t)(table_get(l->rows, q, ROW_FLAGS) & ROW_JOINING ? 1 : 0) << q;
}

void keep_close(struct log *l)
{
    keep_drop_save(l);
    backlog_clear(&l->keep.later);
    chain_free(&l->keep.chain);
}

/* ---- what others keep ---- */

struct disk_row {
    uint64_t ballot, kept, pledged;
};

/* A word of what the member's disk has: a replica says so in its row, a memory in a lane of its own. */
static uint64_t disk_word(const struct log *l, uint32_t rank, uint32_t word)
{
    const struct mem_lane *lane = is_memory(l, rank) ? l->memory[rank - l->n].told : NULL;
    if (lane == NULL)
        return table_get(l->rows, rank, word);
    return lane->ctl ? mem_word(lane, word) : 0;
}

uint64_t keep_life_of(const struct log *l, uint32_t rank)
{
    return disk_word(l, rank, ROW_LIFE);
}

/* What the replica's disk has, as its row says; false: its words do not go together. */
static bool read_row(const struct log *l, uint32_t rank, struct disk_row *r)
{
    *r = (struct disk_row){.ballot = disk_word(l, rank, ROW_KEPT_BALLOT),
                           .kept = disk_word(l, rank, ROW_KEPT),
                           .pledged = disk_word(l, rank, ROW_PLEDGED)};
    uint64_t life = keep_life_of(l, rank);
    return PLANTED(disk_words_unchecked) ||
           disk_word(l, rank, ROW_DISK_CHECK) ==
               row_disk_check(life, r->ballot, r->kept, r->pledged);
}

uint64_t keep_end_of(const struct log *l, uint32_t rank)
{
    const struct keeping *k = &l->keep;
    struct disk_row r = {.ballot = k->kept_run, .kept = k->kept};
    if (rank != l->me && !read_row(l, rank, &r))
        return 0;
    return r.ballot == l->ballot ? r.kept : 0;
}

bool keep_is_deposed(struct log *l)
{
    uint64_t highest = 0;
    struct disk_row r;
    for (uint32_t q = 0; q < l->all; q++)
        if (q != l->me && read_row(l, q, &r))
            highest = max_u64(highest, r.pledged);
    l->ballot_seen = max_u64(l->ballot_seen, highest);
    return highest > l->ballot;
}

bool keep_is_pledged(const struct log *l, uint32_t rank)
{
    struct disk_row r = {.pledged = l->keep.pledged};
    if (PLANTED(pledge_unawaited) || (PLANTED(own_pledge_unawaited) && rank == l->me))
        return true;
    if (rank != l->me &&
        (!read_row(l, rank, &r) || keep_life_of(l, rank) != l->peer[rank].raised_life))
        return false;
    return r.pledged >= l->ballot;
}
