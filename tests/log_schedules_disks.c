#include "log_schedules_disks.h"

#include "log_schedules_impl.h"

enum {
    SIZE = sizeof(struct entry), /* of all entries here */
    NOBODY = 200,                /* a source that there is not: such entries have no effect */
    ENTRIES_MAX = 16,
};

static struct group *with_disks(uint64_t seed)
{
    return group_open(&(struct group_options){.replicas = 3, .seed = seed, .durable = true});
}

/* Entries are letters: two are the same if they are the same letter at the same place. */
static struct entry entry_of(uint32_t at, uint64_t ballot, char letter)
{
    return (struct entry){.pos = (uint64_t)at * SIZE,
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
        struct entry e = entry_of(at + i, ballot, letters[i]);
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
        struct entry e = entry_of(at + i, 0, letters[i]);
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
    struct entry e = entry_of(at, ballot, letter);
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
