#include "log_schedules_disks.h"

#include "log_schedules_impl.h"

enum {
    SIZE = sizeof(struct entry), /* of all entries here */
    NOBODY = 200,                /* a source that there is not: such entries have no effect */
    ENTRIES_MAX = 64,
};

static struct group *with_disks(uint64_t seed)
{
    return group_open(&(struct group_options){.replicas = 3, .seed = seed, .durable = true});
}

/* Entries are letters: two are the same if they are the same letter at the same place. */
static void entry_fill(struct entry *e, uint32_t at, uint64_t ballot, char letter)
{
    *e = (struct entry){.pos = (uint64_t)at * SIZE,
                        .ballot = ballot,
                        .source = NOBODY,
                        .srcpos = (uint64_t)(unsigned char)letter};
}

/* One life of the replica accepted the letters from place `at` on under the ballot. Of says, end and ballot are filled in: the chain
 * ends with them, if `end` does not say that it went on. */
static void accepted(struct group *g, uint32_t rank, uint64_t ballot, uint32_t at,
                     const char *letters, struct disk_says says)
{
    _Alignas(8) unsigned char bytes[ENTRIES_MAX * SIZE];
    uint32_t count = (uint32_t)strlen(letters);
    CHECK(count <= ENTRIES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct entry e;
        entry_fill(&e, at + i, ballot, letters[i]);
        memcpy(bytes + i * SIZE, &e, SIZE);
    }
    struct disk_record r = {.kind = DISK_ENTRIES,
                            .from = (uint64_t)at * SIZE,
                            .to = (uint64_t)(at + count) * SIZE,
                            .ballot = ballot,
                            .says = says,
                            .bytes = bytes};
    r.says.ballot = ballot;
    r.says.end = says.end > r.to ? says.end : r.to;
    r.says.pledge = says.pledge > ballot ? says.pledge : ballot;
    group_disk_append(g, rank, &r);
}

static void pledged(struct group *g, uint32_t rank, uint64_t ballot)
{
    struct disk_record r = {.kind = DISK_PLEDGE, .ballot = ballot, .says = {.pledge = ballot}};
    group_disk_append(g, rank, &r);
}

/* Somebody has applied them: nothing else may ever stand there. */
static void decided(struct group *g, uint32_t at, const char *letters)
{
    for (uint32_t i = 0; letters[i]; i++) {
        struct entry e;
        entry_fill(&e, at + i, 0, letters[i]);
        check_entry(&g->check, 0, &e);
    }
}

static bool is_all_applied(const struct group *g, uint32_t rank, uint32_t entries)
{
    return group_leader(g) < g->n && group_stats(g, rank).applied > (uint64_t)entries * SIZE;
}

/* ---- an old suffix ---- */

/* 0 decided abc with 1. 2 found them there, and wrote them again: 1 kept a under the new ballot, and no more, when the power went. 0
 * is away. That 1 has a under a higher stamp says nothing against b and c. */
const char *kept_again_in_part(void)
{
    struct group *g = with_disks(1);
    decided(g, 0, "abc");
    accepted(g, 1, 3, 0, "abc", (struct disk_says){0});
    accepted(g, 1, 5, 0, "a", (struct disk_says){.end = 3 * SIZE});
    pledged(g, 2, 5);
    group_start(g, 1);
    group_start(g, 2);
    GROUP_WAIT(g, is_all_applied(g, 1, 3) && is_all_applied(g, 2, 3), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* ---- a lane of mixed stamps ---- */

/* 0 accepted abc, and nobody else did. 2 decided axy with 1, and had written a to 0 when the power went. What 0 has under the ballot
 * that decided is a alone: b and c are of an older run, and what 1 claims to be decided is no claim about them. It shows where 0 is
 * the one to take over, which is drawn. */
const char *rest_of_an_older_run(uint64_t seed)
{
    struct group *g = with_disks(seed);
    decided(g, 0, "axy");
    accepted(g, 0, 3, 0, "abc", (struct disk_says){0});
    accepted(g, 0, 5, 0, "a", (struct disk_says){.end = 3 * SIZE});
    accepted(g, 1, 5, 0, "axy",
             (struct disk_says){.commit = 3 * SIZE, .commit_ballot = 5, .applied = 3 * SIZE});
    group_start(g, 0);
    group_start(g, 1);
    GROUP_WAIT(g, is_all_applied(g, 0, 3) && is_all_applied(g, 1, 3), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* ---- the run of a restored lane ---- */

/* What is left of a chain has older stamps than the ballot that told the commit. The lane is of that ballot, or one of a ballot
 * between would be believed below the commit. */
const char *commit_of_a_later_ballot(void)
{
    struct group *g = with_disks(1);
    accepted(g, 1, 4, 0, "abc", (struct disk_says){0});
    accepted(g, 1, 4, 3, "d",
             (struct disk_says){
                 .pledge = 9, .commit = 2 * SIZE, .commit_ballot = 8, .applied = 1 * SIZE});
    group_start(g, 1);
    group_run(g, 10 * US);
    const struct mem_lane *lane = group_lane(g, 1, 1);
    GROUP_SETUP(g, group_stats(g, 1).role == UNIT_FOLLOWER);
    GROUP_MUST(g, "restored", group_stats(g, 1).promised == 9);
    GROUP_MUST(g, "restored", group_stats(g, 1).applied == 1 * SIZE);
    GROUP_MUST(g, "restored", mem_word(lane, LOG_START) == 0);
    GROUP_MUST(g, "restored", mem_word(lane, LOG_COMMIT) == 2 * SIZE);
    GROUP_MUST(g, "restored", mem_word(lane, LOG_GUARD) == 4 * SIZE);
    GROUP_MUST(g, "restored", mem_word(lane, LOG_RUN) == 8);
    GROUP_MUST(g, "restored", mem_word(lane, LOG_SOLID) == 2 * SIZE);
    return group_close(g);
}

/* ---- damage ---- */

/* Flips a bit of the entry where it stands on the disk. */
static void damage(struct group *g, uint32_t rank, uint32_t at, uint64_t ballot, char letter)
{
    static unsigned char image[64 << 10];
    struct entry e;
    entry_fill(&e, at, ballot, letter);
    bool found = false;
    CHECK(disk_sim_platter(g->disk[rank].platters, "journal.00001", 0, image, sizeof(image)) == 0);
    for (uint32_t i = 0; !found && i + SIZE <= sizeof(image); i += 8) {
        found = memcmp(image + i, &e, SIZE) == 0;
        if (found)
            disk_sim_flip(g->disk[rank].platters, "journal.00001", i);
    }
    CHECK(found);
}

/* 0 decided abc with 1, which knows that, and whose disk lost b. 2 has nothing. Without 0 nobody can say what b is, so 1 and 2 decide
 * nothing, and least of all something else; with 0 they go on. */
const char *decided_and_damaged(void)
{
    struct group *g = with_disks(1);
    struct disk_says all = {.commit = 3 * SIZE, .commit_ballot = 3, .applied = 3 * SIZE};
    decided(g, 0, "abc");
    accepted(g, 0, 3, 0, "abc", all);
    accepted(g, 1, 3, 0, "a", (struct disk_says){0});
    accepted(g, 1, 3, 1, "b", (struct disk_says){0});
    accepted(g, 1, 3, 2, "c", all);
    pledged(g, 2, 3);
    damage(g, 1, 1, 3, 'b');
    group_start(g, 1);
    group_start(g, 2);
    group_run(g, 3 * GROUP_ELECT_NS);
    GROUP_SETUP(g, group_stats(g, 1).behind && group_stats(g, 1).promised != MEM_CLOSED);
    GROUP_MUST(g, "agreement", group_leader(g) == g->n);
    group_start(g, 0);
    GROUP_WAIT(g, group_leader(g) < g->n && group_even(g), 6 * GROUP_ELECT_NS);
    return group_close(g);
}

/* 0 decided abcdef with 1, whose disk lost a, which it has known to be decided, and was sent a state of before it. Then 1 kept ab again, under
 * another ballot, and no more, when the power went. 0 is away. What closes the gap says nothing against what stands behind it. */
const char *gap_closed_in_part(void)
{
    struct group *g = with_disks(1);
    struct disk_says all = {.commit = 6 * SIZE, .commit_ballot = 3};
    decided(g, 0, "abcdef");
    accepted(g, 1, 3, 0, "a", (struct disk_says){0});
    accepted(g, 1, 3, 1, "bcdef", all);
    damage(g, 1, 0, 3, 'a');
    accepted(g, 1, 5, 0, "ab",
             (struct disk_says){.commit = 6 * SIZE, .commit_ballot = 3, .end = 6 * SIZE});
    pledged(g, 2, 5);
    group_start(g, 1);
    group_start(g, 2);
    GROUP_WAIT(g, is_all_applied(g, 1, 6) && is_all_applied(g, 2, 6), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* ---- all come back ---- */

/* It accepted so many entries, all the same letter, and says so. */
static void accepted_many(struct group *g, uint32_t rank, uint64_t ballot, uint32_t count,
                          struct disk_says says)
{
    char letters[ENTRIES_MAX + 1] = "";
    memset(letters, 'a', ENTRIES_MAX);
    for (uint32_t at = 0, n; at < count; at += n) {
        n = count - at < ENTRIES_MAX ? count - at : ENTRIES_MAX;
        letters[n] = 0;
        accepted(g, rank, ballot, at, letters, at + n < count ? (struct disk_says){0} : says);
    }
}

/* The power has gone, and all disks are whole; more was decided than a ring holds. 1 says of less that it was applied, and has less, than
 * 0 and 2, who are there before it and have a leader: it gets the rest from the log, and nobody sends a state. Nor if the leader
 * changes before it comes. */
const char *all_come_back(bool twice)
{
    enum { ALL = 180, KEPT = 160, APPLIED = 130 };
    struct group *g = with_disks(1);
    struct disk_says all = {.commit = ALL * SIZE, .commit_ballot = 5, .applied = ALL * SIZE};
    struct disk_says less = {.commit = KEPT * SIZE, .commit_ballot = 5, .applied = APPLIED * SIZE};
    accepted_many(g, 0, 5, ALL, all);
    accepted_many(g, 1, 5, KEPT, less);
    accepted_many(g, 2, 5, ALL, all);
    group_start(g, 0);
    group_start(g, 2);
    GROUP_WAIT(g, group_leader(g) < g->n, 2 * GROUP_ELECT_NS);
    if (twice) {
        uint32_t leader = group_leader(g) % g->n;
        group_power_cut(g, leader);
        group_start(g, leader);
        GROUP_WAIT(g, group_leader(g) < g->n, 4 * GROUP_ELECT_NS);
    }
    group_start(g, 1);
    GROUP_SETUP(g, group_stats(g, 1).applied == APPLIED * SIZE);
    GROUP_WAIT(g, is_all_applied(g, 1, ALL), 6 * GROUP_ELECT_NS);
    for (uint32_t q = 0; q < g->n; q++)
        GROUP_MUST(g, "restored", group_stats(g, q).count.snapshots_sent == 0);
    GROUP_MUST(g, "restored", group_stats(g, 1).count.snapshots_loaded == 0);
    return group_close(g);
}

/* ---- the promise is looked at again ---- */

/* The group serves, and these are its leader and the other two. */
struct cast {
    uint32_t leader, third, rival;
};

static struct cast cast_of(struct group *g)
{
    struct cast c = {0};
    for (uint32_t q = 0; q < g->n; q++)
        group_start(g, q);
    GROUP_WAIT(g, group_leader(g) < g->n && group_even(g), 2 * GROUP_ELECT_NS);
    group_run(g, 4 * GROUP_HEARTBEAT_NS);
    c.leader = group_leader(g) % g->n;
    c.third = (c.leader + 1) % g->n;
    c.rival = (c.leader + 2) % g->n;
    return c;
}

static void step_one(struct group *g, uint32_t rank, uint64_t ns)
{
    for (uint64_t end = group_now(g) + ns; group_now(g) < end && !group_failed(g);) {
        group_post(g, rank);
        group_settle(g, rank);
        group_pass(g, 100);
    }
}

/* The rival has the promise of the third, and has read it, when the leader, who does not hear of it, writes an entry there. The third
 * may have begun its round before. It keeps nothing that lands under a promise that it does not make any more, so the leader
 * decides nothing. */
const char *raised_while_it_copies(void)
{
    struct group *g = with_disks(1);
    struct cast c = cast_of(g);
    client_reaches_only(g, 0, c.leader);
    cut_both_ways(g, c.leader, c.rival, true);
    hold_all_but(g, c.rival);
    group_lie(g, c.rival, c.leader, true);
    for (int i = 0; i < 2000 && group_stats(g, c.rival).role != UNIT_CANDIDATE; i++)
        step_one(g, c.rival, 100);
    step_one(g, c.rival, 5 * US);
    GROUP_SETUP(g, group_stats(g, c.rival).role == UNIT_CANDIDATE);
    GROUP_SETUP(g, group_stats(g, c.third).promised == group_stats(g, c.rival).epoch);

    uint64_t guard = guard_at(g, c.third, c.leader);
    group_send(g, 0, BYTES);
    hold_all_but(g, c.leader);
    for (int i = 0; i < 20 && guard_at(g, c.third, c.leader) == guard; i++)
        step_one(g, c.leader, GROUP_WAY_NS / 2);
    GROUP_SETUP(g, guard_at(g, c.third, c.leader) > guard);
    GROUP_SETUP(g, group_stats(g, c.leader).role == UNIT_LEADER);
    group_cut(g, c.leader, c.third, true);

    group_hold(g, c.third, false);
    for (int i = 0; i < 100; i++) {
        step_one(g, c.third, 100);
        step_one(g, c.leader, 100);
    }
    group_lie(g, c.rival, c.leader, false);
    client_reaches_all(g, 0);
    return heals(g, 0, 4);
}

static uint64_t row_of(const struct group *g, uint32_t owner, uint32_t writer, uint32_t word)
{
    struct mem_lane_spec row = lane_spec(GROUP_REGION, owner, writer, LANE_ROW, 0);
    return mem_word(sim_lane(g->sim, &row), word);
}

/* ---- what a disk says of the commit ---- */

/* 1 has a chain of 60 entries, of which the last 20 are not what the others have decided. It is written all of that, and told that it
 * is; in its first round it copies only a part. Then its disk may say of that part that it is decided, and no more. */
const char *commit_beyond_what_was_copied(void)
{
    enum { ALL = 60, SAME = 40 };
    struct group *g = with_disks(1);
    char ours[ALL + 1], theirs[ALL + 1];
    memset(ours, 'a', ALL);
    memset(theirs, 'a', ALL);
    memset(ours + SAME, 'b', ALL - SAME);
    memset(theirs + SAME, 'c', ALL - SAME);
    ours[ALL] = theirs[ALL] = 0;
    struct disk_says all = {.commit = ALL * SIZE, .commit_ballot = 5, .applied = ALL * SIZE};
    accepted(g, 0, 5, 0, theirs, all);
    accepted(g, 1, 3, 0, ours, (struct disk_says){0});
    accepted(g, 2, 5, 0, theirs, all);
    group_start(g, 0);
    group_start(g, 2);
    GROUP_WAIT(g, group_leader(g) < g->n, 2 * GROUP_ELECT_NS);
    uint32_t leader = group_leader(g) % g->n;
    group_start(g, 1);
    for (int i = 0; i < 10000 && commit_at(g, 1, leader) == 0 && !group_failed(g); i++) {
        if (group_stats(g, 1).role == UNIT_FOLLOWER &&
            mem_word(group_lane(g, 1, leader), LOG_RUN) == group_stats(g, leader).epoch)
            group_hold(g, 1, true);
        group_tick(g);
    }
    GROUP_SETUP(g, commit_at(g, 1, leader) > ALL * SIZE && group_stats(g, 1).applied == 0);
    group_settle(g, 1);
    group_flush_disk(g, 1);
    group_settle(g, 1);
    group_pass(g, 2 * US);
    GROUP_SETUP(g, row_of(g, leader, 1, ROW_KEPT_BALLOT) == group_stats(g, leader).epoch);
    GROUP_MUST(g, "kept", row_of(g, leader, 1, ROW_KEPT) <= SAME * SIZE);
    group_power_cut(g, 1);
    group_start(g, 1);
    hold_all_but(g, 1);
    step_one(g, 1, 10 * US);
    GROUP_SETUP(g, mem_word(group_lane(g, 1, 1), LOG_RUN) > 5);
    GROUP_SETUP(g, guard_at(g, 1, 1) == ALL * SIZE);
    GROUP_MUST(g, "restored", commit_at(g, 1, 1) <= SAME * SIZE);
    return group_close(g);
}

/* ---- words of a row ---- */

/* The leader has written an entry to the third, whose disk has not. Of the words that the third says of its disk those of an older
 * ballot, which were larger, and of this one have landed, and the word that tells has not: they count for nothing, and the entry
 * is not decided. */
const char *torn_words_of_a_disk(void)
{
    struct group *g = with_disks(1);
    struct cast c = cast_of(g);
    struct mem_lane_spec row = lane_spec(GROUP_REGION, c.leader, c.third, LANE_ROW, 0);
    uint64_t guard = guard_at(g, c.third, c.leader);
    client_reaches_only(g, 0, c.leader);
    group_power_cut(g, c.rival);
    group_hold_disk(g, c.third, true);
    group_send(g, 0, BYTES);
    for (int i = 0; i < 20 && guard_at(g, c.third, c.leader) == guard; i++)
        step_one(g, c.leader, GROUP_WAY_NS / 2);
    step_one(g, c.leader, 3 * US);
    GROUP_SETUP(g, guard_at(g, c.third, c.leader) > guard);
    atomic_store(&sim_lane(g->sim, &row)->ctl[ROW_KEPT], guard + 4096);
    step_one(g, c.leader, US);

    group_power_cut(g, c.third);
    group_power_cut(g, c.leader);
    group_hold_disk(g, c.third, false);
    group_start(g, c.third);
    group_start(g, c.rival);
    heal_all(g);
    GROUP_WAIT(g, group_leader(g) < g->n && group_even(g), 6 * GROUP_ELECT_NS);
    group_start(g, c.leader);
    return heals(g, 0, 6);
}

/* ---- a promise that was restored ---- */

/* The third stands still while an entry is decided, and told to it. Then the leader comes back, and tries again with the third alone.
 * When the third has promised, has it on disk and has been read, it loses its power. Its next life promises the very ballot, in a memory
 * that has nothing of the lane that was read: what is decided is written there again. */
const char *restored_under_its_ballot(void)
{
    struct group *g = with_disks(1);
    struct cast c = cast_of(g);
    group_hold(g, c.third, true);
    uint64_t applied = group_stats(g, c.third).applied;
    group_send(g, 0, BYTES);
    GROUP_WAIT(g,
               commit_at(g, c.third, c.leader) > applied &&
                   commit_at(g, c.third, c.leader) == guard_at(g, c.third, c.leader),
               GROUP_SUSPECT_NS / 2);
    group_crash(g, c.leader, true);
    group_power_cut(g, c.rival);
    group_start(g, c.leader);
    for (int i = 0;
         i < 4000 && (group_stats(g, c.leader).role != UNIT_CANDIDATE ||
                      group_stats(g, c.third).promised != group_stats(g, c.leader).epoch);
         i++)
        step_one(g, c.leader, 100);
    step_one(g, c.leader, 10 * US);
    uint64_t ballot = group_stats(g, c.leader).epoch;
    GROUP_SETUP(g, group_stats(g, c.leader).role == UNIT_CANDIDATE);
    GROUP_SETUP(g, group_stats(g, c.third).promised == ballot);
    step_one(g, c.third, 5 * US);
    GROUP_SETUP(g, row_of(g, c.leader, c.third, ROW_PLEDGED) == ballot);
    GROUP_SETUP(g, group_stats(g, c.third).applied == applied);

    group_power_cut(g, c.third);
    group_start(g, c.third);
    group_hold(g, c.third, true);
    uint64_t life = row_of(g, c.leader, c.third, ROW_LIFE);
    for (int i = 0; i < 20 && group_stats(g, c.third).promised != ballot; i++)
        step_one(g, c.third, 100);
    GROUP_SETUP(g, group_stats(g, c.third).promised == ballot);
    GROUP_SETUP(g, group_stats(g, c.third).applied == applied);
    GROUP_SETUP(g, row_of(g, c.leader, c.third, ROW_LIFE) == life);
    step_one(g, c.leader, 20 * US);
    group_hold(g, c.third, false);
    group_start(g, c.rival);
    return heals(g, 0, 6);
}

/* ---- disks that take nothing ---- */

enum {
    FILLS = 160, /* so many messages fill a journal, each a block of it, and more */
    STANDS = 40, /* so many more are sent then */
};

/* The disk of the leader, or of another, hangs in the middle of a flush, for longer than there is memory for what comes. That costs the
 * others no more than another leader; and when it is over its host has all of it. */
const char *hung_disk(bool leads)
{
    struct group *g = with_disks(1);
    struct cast c = cast_of(g);
    uint32_t host = leads ? c.leader : c.third;
    traffic(g, 0, 4, BYTES);
    group_hold_disk(g, host, true);
    for (uint32_t i = 0; i < FILLS; i++)
        traffic(g, 0, 4, GROUP_PAYLOAD_MAX);
    GROUP_MUST(g, "a hang costs once", group_leader(g) < g->n && group_leader(g) != host);
    group_hold_disk(g, host, false);
    return heals(g, 0, 6);
}

/* The disk of one has no room for a snapshot, so that its journal becomes full. It keeps nothing more, and leads no more; the others go
 * on. When there is room it takes part again. */
const char *full_disk(bool leads)
{
    struct group *g = with_disks(1);
    struct cast c = cast_of(g);
    uint32_t host = leads ? c.leader : c.third;
    group_fill_disk(g, host, true);
    traffic(g, 0, FILLS, BYTES);
    group_run(g, 2 * GROUP_DETACH_NS);
    GROUP_SETUP(g, disk_is_full(g->disk[host].disk));
    GROUP_MUST(g, "leads though full", group_leader(g) < g->n && group_leader(g) != host);
    GROUP_MUST(g, "leads though full", group_stats(g, host).unfit);
    traffic(g, 0, STANDS, BYTES);
    group_fill_disk(g, host, false);
    GROUP_WAIT(g, !group_stats(g, host).unfit && group_even(g), 4 * GROUP_ELECT_NS);
    return heals(g, 0, 6);
}

/* Nobody has room: nothing is decided, and nothing is lost, also if all lose power. When there is room again, they go on. */
const char *full_disks_of_all(void)
{
    struct group *g = with_disks(1);
    struct cast c = cast_of(g);
    for (uint32_t q = 0; q < g->n; q++)
        group_fill_disk(g, q, true);
    uint32_t before = UINT32_MAX;
    for (int i = 0; i < 2 * FILLS && g->history_count != before; i++) {
        before = g->history_count;
        group_send(g, 0, BYTES);
        group_run(g, 20 * US);
    }
    group_run(g, 4 * GROUP_DETACH_NS);
    for (uint32_t q = 0; q < g->n; q++)
        GROUP_SETUP(g, disk_is_full(g->disk[q].disk));
    GROUP_MUST(g, "leads though full", group_leader(g) == g->n);
    for (uint32_t q = 0; q < g->n; q++)
        group_power_cut(g, q);
    for (uint32_t q = 0; q < g->n; q++)
        group_start(g, q);
    group_run(g, 2 * GROUP_ELECT_NS);
    GROUP_MUST(g, "leads though full", group_leader(g) == g->n);
    group_fill_disk(g, c.leader, false);
    group_fill_disk(g, c.third, false);
    GROUP_WAIT(g, group_leader(g) < g->n, 6 * GROUP_ELECT_NS);
    group_fill_disk(g, c.rival, false);
    return heals(g, 0, 8);
}

/* ---- a state that is not on disk yet ---- */

/* The third has a snapshot, falls behind, and takes a state of which its disk has no room for another one. It applies what is decided
 * and keeps nothing: with the leader alone it decides nothing. When there is room, it does. */
const char *state_not_on_disk(void)
{
    struct group *g = with_disks(1);
    struct cast c = cast_of(g);
    traffic(g, 0, FILLS, BYTES);
    GROUP_SETUP(g, disk_snap(g->disk[c.third].disk, 0) > 0);
    group_fill_disk(g, c.third, true);
    group_hold(g, c.third, true);
    traffic(g, 0, STANDS, GROUP_PAYLOAD_MAX);
    group_run(g, 2 * GROUP_DETACH_NS);
    group_hold(g, c.third, false);
    GROUP_WAIT(g, group_even(g), 4 * GROUP_ELECT_NS);
    group_run(g, 10 * US);
    GROUP_SETUP(g, group_leader(g) == c.leader);
    traffic(g, 0, 4, BYTES);
    group_power_cut(g, c.rival);
    uint32_t decided_before = g->history_count;
    group_send(g, 0, BYTES);
    group_run(g, 40 * US);
    GROUP_MUST(g, "kept over a gap", g->history_count == decided_before);
    group_fill_disk(g, c.third, false);
    GROUP_WAIT(g, g->history_count > decided_before, 6 * GROUP_ELECT_NS);
    /* What it has now is all there after a loss of power. */
    for (uint32_t q = 0; q < g->n; q++)
        if (g->replica[q].log)
            group_power_cut(g, q);
    group_start(g, c.third);
    group_start(g, c.rival);
    GROUP_WAIT(g, group_leader(g) < g->n && group_even(g), 8 * GROUP_ELECT_NS);
    group_start(g, c.leader);
    return heals(g, 0, 6);
}

/* 1 has a chain of which only the first entry was decided; the others have decided another one, longer than a ring, and send it a state.
 * It is raised before it has all of that, or before its disk has, and pledges. Its disk says no more of its chain than before. */
const char *raised_while_it_loads(bool loaded)
{
    enum { ALL = 4 * ENTRIES_MAX, OURS = 40 };
    struct group *g = with_disks(1);
    char ours[OURS + 1], theirs[ENTRIES_MAX + 1];
    memset(ours, 'b', OURS);
    memset(theirs, 'c', ENTRIES_MAX);
    ours[0] = theirs[0] = 'a';
    ours[OURS] = theirs[ENTRIES_MAX] = 0;
    struct disk_says all = {.commit = ALL * SIZE, .commit_ballot = 5, .applied = ALL * SIZE};
    for (uint32_t at = 0; at < ALL; at += ENTRIES_MAX) {
        bool last = at + ENTRIES_MAX == ALL;
        theirs[0] = at == 0 ? 'a' : 'c';
        decided(g, at, theirs);
        accepted(g, 0, 5, at, theirs, last ? all : (struct disk_says){0});
        accepted(g, 2, 5, at, theirs, last ? all : (struct disk_says){0});
    }
    accepted(g, 1, 3, 0, ours,
             (struct disk_says){.commit = SIZE, .commit_ballot = 3, .applied = SIZE});
    group_start(g, 0);
    group_start(g, 2);
    GROUP_WAIT(g, group_leader(g) < g->n, 2 * GROUP_ELECT_NS);
    uint32_t leader = group_leader(g) % g->n, rival = 2 - leader;
    group_start(g, 1);
    for (int i = 0; i < 10000 && group_stats(g, 1).applied <= OURS * SIZE && !group_failed(g); i++)
        group_tick(g);
    GROUP_SETUP(g, group_stats(g, 1).behind && group_stats(g, 1).applied >= ALL * SIZE);
    if (loaded) {
        group_fill_disk(g, 1, true);
        GROUP_WAIT(g, !group_stats(g, 1).behind && group_even(g), GROUP_ELECT_NS);
        group_run(g, 5 * US);
    }
    group_hold(g, 1, true);
    group_crash(g, leader, true);
    uint64_t promised = group_stats(g, 1).promised;
    GROUP_WAIT(g, group_stats(g, 1).promised > promised, 4 * GROUP_ELECT_NS);
    group_hold(g, rival, true);
    group_settle(g, 1);
    group_flush_disk(g, 1);
    group_power_cut(g, 1);
    group_fill_disk(g, 1, false);
    group_start(g, 1);
    group_hold(g, rival, false);
    GROUP_MUST(g, "restored", group_stats(g, 1).applied == SIZE);
    group_start(g, leader);
    return heals(g, 0, 8);
}

/* ---- how many flushes ---- */

static void flush_both(struct group *g, const struct cast *c)
{
    group_run(g, 20 * US);
    group_flush_disk(g, c->rival);
    group_flush_disk(g, c->third);
    group_run(g, 20 * US);
}

/* The leader loses power, and a message is on its way. The disks that are left are flushed by hand: once for the promise, and once for
 * the start marker and, with it, the message. */
const char *two_flushes_without_a_leader(void)
{
    struct group *g = with_disks(1);
    struct cast c = cast_of(g);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    group_run(g, 10 * GROUP_HEARTBEAT_NS);
    group_power_cut(g, c.leader);
    group_hold_disk(g, c.rival, true);
    group_hold_disk(g, c.third, true);
    group_send(g, 0, BYTES);
    for (int i = 0; i < 2000 && group_stats(g, c.rival).role != UNIT_CANDIDATE &&
                    group_stats(g, c.third).role != UNIT_CANDIDATE;
         i++)
        group_tick(g);
    flush_both(g, &c);
    GROUP_SETUP(g, !group_delivered(g));
    flush_both(g, &c);
    GROUP_MUST(g, "flushes", group_delivered(g));
    group_hold_disk(g, c.rival, false);
    group_hold_disk(g, c.third, false);
    group_start(g, c.leader);
    return heals(g, 0, 4);
}

/* ---- who is rung ---- */

static void note_bell(void *ctx, uint32_t node)
{
    *(uint32_t *)ctx |= 1u << node;
}

/* The replicas that are rung when a message is sent. */
static uint32_t rung_for_one(struct group *g)
{
    uint32_t rung = 0;
    sim_on_bell(g->sim, note_bell, &rung);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    sim_on_bell(g->sim, NULL, NULL);
    return rung;
}

/* Of two followers one is rung. Its disk stands, and nobody is heard less of it for that: the other one, whose disk is further by now, is
 * rung instead. */
const char *rings_who_keeps(void)
{
    struct group *g = with_disks(1);
    struct cast c = cast_of(g);
    uint32_t rung = rung_for_one(g);
    uint32_t first = rung >> c.rival & 1 ? c.rival : c.third;
    uint32_t other = first == c.rival ? c.third : c.rival;
    GROUP_SETUP(g, (rung >> first & 1) && !(rung >> other & 1));
    group_hold_disk(g, first, true);
    rung_for_one(g);
    rung = rung_for_one(g);
    GROUP_MUST(g, "bells", (rung >> other & 1) && !(rung >> first & 1));
    group_hold_disk(g, first, false);
    return heals(g, 0, 4);
}

/* ---- a run that begins beyond what was applied ---- */

/* What stands in a lane before its START is given up, whatever it looks like: nothing of it is kept. */
const char *nothing_before_start_is_kept(void)
{
    struct group *g = with_disks(1);
    struct cast c = cast_of(g);
    group_hold(g, c.third, true);
    struct unit_status before = group_stats(g, c.third);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, commit_at(g, c.third, c.leader) > before.applied, GROUP_SUSPECT_NS / 2);
    struct mem_lane_spec lane = lane_spec(GROUP_REGION, c.third, c.leader, LANE_LOG, 0);
    atomic_store(&sim_lane(g->sim, &lane)->ctl[LOG_START], guard_at(g, c.third, c.leader));
    group_settle(g, c.third);
    group_flush_disk(g, c.third);
    group_settle(g, c.third);
    GROUP_MUST(g, "kept", group_stats(g, c.third).kept == before.kept);
    GROUP_MUST(g, "kept", group_stats(g, c.third).behind);
    return heals(g, 0, 6);
}
