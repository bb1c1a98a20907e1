#include "../disk_fixture.h"

struct reading {
    uint64_t bytes;
    int value; /* that each of them has */
    bool good;
};

static int take(void *ctx, const void *piece, uint32_t bytes)
{
    struct reading *r = ctx;
    const unsigned char *p = piece;

    for (uint32_t i = 0; i < bytes; i++)
        r->good &= p[i] == r->value;
    r->bytes += bytes;
    return 0;
}

static void assert_snap(struct disk_fix *f, uint32_t group, uint64_t pos, uint64_t bytes)
{
    struct reading r = {.value = (int)(pos & 255), .good = true};

    assert_int_equal(disk_found(f->d, group)->snap, pos);
    assert_int_equal(disk_snap_read(f->d, group, take, &r, NULL), 0);
    assert_true(r.good);
    assert_int_equal(r.bytes, bytes);
}

static void make(struct disk_fix *f)
{
    fix_init(f, 0);
    fix_format(f, 0);
    fix_open(f);
    fix_until(f, fix_append(f, 0, 0, 2000));
    f->says[0].commit = f->says[0].applied = 2000;
    disk_say(f->d, 0, &f->says[0]);
}

/* Around the ends of pieces, of halves of the buffer, and of what is read at once. */
static void snapfile__keeps_snapshots_of_any_size(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0,
                                     1,
                                     PIECE_DATA_BYTES - 1,
                                     PIECE_DATA_BYTES,
                                     PIECE_DATA_BYTES + 1,
                                     4 * PIECE_DATA_BYTES,
                                     4 * PIECE_DATA_BYTES + 1,
                                     13 * PIECE_DATA_BYTES - 1,
                                     32 * PIECE_DATA_BYTES - 1,
                                     32 * PIECE_DATA_BYTES,
                                     65 * PIECE_DATA_BYTES + 1};

    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct disk_fix f;
        make(&f);
        fix_snap(&f, 0, 1000 + i, sizes[i]);
        assert_int_equal(disk_snap(f.d, 0), 1000 + i);
        fix_die(&f);
        disk_sim_power_cut(f.sim);
        fix_open(&f);
        assert_snap(&f, 0, 1000 + i, sizes[i]);
        assert_int_equal(disk_snap_read(f.d, 1, take, NULL, NULL), ERR_NOTFOUND);
        fix_fini(&f);
    }
}

static void count_snaps(void *ctx, const char *name, uint64_t bytes)
{
    (void)bytes;
    *(uint32_t *)ctx += strncmp(name, SNAP_PREFIX, strlen(SNAP_PREFIX)) == 0;
}

static uint32_t snap_files(struct disk_fix *f)
{
    uint32_t n = 0;

    disk_sim_platter_list(f->sim, count_snaps, &n);
    return n;
}

static void snapfile__removes_the_one_before(void **state)
{
    (void)state;
    struct disk_fix f;

    make(&f);
    for (uint64_t pos = 100; pos <= 500; pos += 100) {
        fix_snap(&f, 0, pos, 70000);
        fix_rounds(&f, 50);
        assert_int_equal(snap_files(&f), 1);
    }
    fix_fini(&f);
}

/* It has its name, and nobody has recorded it: it counts all the same, or it does not, but the group is whole. */
static void snapfile__may_die_at_any_moment(void **state)
{
    (void)state;
    uint32_t old = 0, new = 0;

    for (uint32_t rounds = 0; rounds < 60; rounds++) {
        struct disk_fix f;
        char piece[300];
        make(&f);
        fix_snap(&f, 0, 100, 100);
        fix_rounds(&f, 50);
        assert_true(disk_snap_open(f.d, 0, 200));
        memset(piece, 200, sizeof piece);
        assert_int_equal(disk_snap_put(f.d, piece, sizeof piece), sizeof piece);
        disk_snap_end(f.d, true);
        for (uint32_t i = 0; i < rounds; i++)
            disk_round(f.d, f.now += 20000);
        bool durable = disk_snap(f.d, 0) == 200;
        fix_die(&f);
        if (rounds % 2)
            disk_sim_power_cut(f.sim);
        fix_open(&f);
        assert_int_equal(disk_found(f.d, 0)->state, DISK_WHOLE);
        bool is_new = disk_found(f.d, 0)->snap == 200;
        assert_true(is_new || !durable);
        assert_snap(&f, 0, is_new ? 200 : 100, is_new ? 300 : 100);
        assert_int_equal(snap_files(&f), 1);
        old += !is_new;
        new += is_new;
        fix_fini(&f);
    }
    assert_true(old > 0 && new > 0);
}

/* The process dies while the older one is being removed, and that may be done or not: which it is depends on what was written
 * before. */
static bool older_one_stays(uint32_t pledges)
{
    struct disk_fix f;

    make(&f);
    fix_snap(&f, 0, 100, 100);
    while (pledges-- > 0)
        fix_until(&f, fix_pledge(&f, 0));
    fix_snap(&f, 0, 200, 100);
    fix_die(&f);
    assert_true(disk_sim_flip(f.sim, "snap.0.200", 70));
    fix_open(&f);
    bool stays = disk_snap(f.d, 0) != 0;
    if (stays) {
        assert_snap(&f, 0, 100, 100);
        assert_int_equal(disk_found(f.d, 0)->state, DISK_WHOLE);
        assert_int_equal(disk_snap(f.d, 0), 100);
    }
    fix_fini(&f);
    return stays;
}

static void snapfile__takes_the_older_one_where_the_newer_is_damaged(void **state)
{
    (void)state;
    uint32_t pledges = 0;

    while (!older_one_stays(pledges))
        assert_true(++pledges < 10);
}

/* Nothing else is there of what it covered: the group lacks what is below its commit. */
static void snapfile__without_it_the_group_lacks_what_it_covered(void **state)
{
    (void)state;
    struct disk_fix f;
    uint64_t at = 2000, batch;

    make(&f);
    fix_snap(&f, 0, 2000, 100);
    /* Until the segment with the first record is gone. */
    for (uint32_t i = 0; i < 200; i++) {
        batch = fix_append(&f, 0, at, 1000);
        if (batch) {
            at += 1000;
            f.says[0].commit = f.says[0].applied = at;
            disk_say(f.d, 0, &f.says[0]);
            fix_until(&f, batch);
        }
        if (i % 10 == 9)
            fix_snap(&f, 0, at, 100);
    }
    fix_rounds(&f, 100);
    uint64_t snap = disk_snap(f.d, 0);
    char name[BLOCK_NAME_BYTES];
    fix_die(&f);
    snprintf(name, sizeof name, "snap.0.%llu", (unsigned long long)snap);
    assert_true(disk_sim_flip(f.sim, name, 10));
    fix_open(&f);
    disk_snaps_check(f.d);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_BELOW);
    fix_die(&f);
    fix_open(&f);
    const struct disk_found *found = disk_found(f.d, 0);
    struct reading r = {.value = (int)(snap & 255), .good = true};
    assert_int_equal(found->state, DISK_WHOLE);
    assert_int_equal(disk_snap_read(f.d, 0, take, &r, NULL), ERR_CORRUPT);
    assert_int_equal(found->state, DISK_BELOW);
    assert_int_equal(found->snap, 0);
    assert_true(found->gap_to > found->gap_from && found->gap_to <= found->says.commit);
    assert_int_equal(disk_snap_read(f.d, 0, take, &r, NULL), ERR_NOTFOUND);
    uint64_t from = found->gap_to;
    /* And so it is when it is opened again, though the file is gone. */
    for (uint32_t i = 0; i < 2; i++) {
        fix_rounds(&f, 100);
        fix_die(&f);
        fix_open(&f);
        found = disk_found(f.d, 0);
        assert_int_equal(found->state, DISK_BELOW);
        assert_int_equal(found->gap_to, from);
        assert_int_equal(disk_snap(f.d, 0), 0);
    }
    fix_fini(&f);
}

/* A state came from others, and a snapshot of it: what the chain has below may be other than what was decided. */
static void snapfile__without_it_nothing_before_it_counts(void **state)
{
    (void)state;
    struct disk_fix f;

    make(&f);
    f.says[0].commit = f.says[0].applied = 500;
    fix_until(&f, fix_append(&f, 0, 2000, 1000));
    fix_snap(&f, 0, 1500, 100);
    f.says[0].commit = f.says[0].applied = 1700;
    fix_until(&f, fix_append(&f, 0, 1500, 1000));
    fix_rounds(&f, 100);
    fix_die(&f);
    assert_true(disk_sim_flip(f.sim, "snap.0.1500", 10));
    fix_open(&f);
    struct reading r = {.value = 1500 & 255, .good = true};
    disk_snap_read(f.d, 0, take, &r, NULL);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_BELOW);
    assert_int_equal(disk_found(f.d, 0)->gap_to, 1500);
    fix_fini(&f);
}

/* As fast as it is taken, on a disk that is slow: nothing is overwritten that is still to be written. */
static void snapfile__takes_no_more_than_there_is_room_for(void **state)
{
    (void)state;
    struct disk_fix f;
    static unsigned char piece[3 * PIECE_BYTES];
    uint64_t at = 0;
    uint32_t none = 0;

    make(&f);
    fix_rounds(&f, 100);
    memset(piece, 100, sizeof piece);
    assert_true(disk_snap_open(f.d, 0, 100));
    disk_sim_slow(f.sim, 1000000);
    while (at < 30 * sizeof piece) {
        uint32_t n = disk_snap_put(f.d, piece, sizeof piece);
        none += n == 0;
        at += n;
        disk_round(f.d, f.now += 10000);
    }
    assert_true(none > 0);
    disk_snap_end(f.d, true);
    fix_rounds(&f, 1000);
    assert_int_equal(disk_snap(f.d, 0), 100);
    fix_die(&f);
    fix_open(&f);
    assert_snap(&f, 0, 100, at);
    fix_fini(&f);
}

static void snapfile__gives_up_where_there_is_no_room(void **state)
{
    (void)state;
    struct disk_fix f;
    struct disk_status s;
    static char piece[3 * PIECE_BYTES];

    fix_init(&f, (uint64_t)FIX_SEGMENTS * FIX_SEGMENT_BYTES + SLOTS * SLOT_BYTES + 5 * PIECE_BYTES);
    fix_format(&f, 0);
    fix_open(&f);
    fix_until(&f, fix_append(&f, 0, 0, 2000));
    fix_rounds(&f, 100);
    assert_true(disk_snap_open(f.d, 0, 100));
    for (uint32_t i = 0, at = 0; i < 100 && at < 12 * PIECE_BYTES; i++) {
        at += disk_snap_put(f.d, piece, sizeof piece);
        fix_rounds(&f, 10);
    }
    disk_snap_end(f.d, true);
    fix_rounds(&f, 100);
    assert_false(disk_snap_busy(f.d));
    assert_int_equal(disk_snap(f.d, 0), 0);
    assert_int_equal(snap_files(&f), 0);
    disk_status(f.d, &s);
    assert_int_equal(s.health, DISK_NO_ROOM);
    assert_false(disk_snap_open(f.d, 0, 100));
    assert_true(disk_next_ns(f.d) <= f.now + 1000000000);
    f.now += 1000000000;
    fix_rounds(&f, 10);
    fix_snap(&f, 0, 100, 100);
    assert_int_equal(disk_snap(f.d, 0), 100);
    fix_fini(&f);
}

static void snapfile__is_given_up_by_the_caller(void **state)
{
    (void)state;
    struct disk_fix f;
    static char piece[6 * PIECE_BYTES];

    make(&f);
    assert_true(disk_snap_open(f.d, 0, 100));
    assert_false(disk_snap_open(f.d, 0, 100));
    assert_true(disk_snap_put(f.d, piece, sizeof piece) > 0);
    fix_rounds(&f, 10);
    disk_snap_end(f.d, false);
    fix_rounds(&f, 50);
    assert_false(disk_snap_busy(f.d));
    assert_int_equal(disk_snap(f.d, 0), 0);
    assert_int_equal(snap_files(&f), 0);
    fix_snap(&f, 0, 100, 10);
    assert_int_equal(disk_snap(f.d, 0), 100);
    fix_fini(&f);
}

/* ---- what a group begins with ---- */

struct giving {
    uint64_t left;
};

static int give(void *ctx, void *out, uint32_t room)
{
    struct giving *g = ctx;
    uint32_t n = g->left < room ? (uint32_t)g->left : room;

    memset(out, 7, n);
    g->left -= n;
    return (int)n;
}

static void make_initial(struct disk_fix *f, uint64_t bytes)
{
    struct giving g = {.left = bytes};

    fix_init(f, 0);
    f->block = disk_sim_block(f->sim, &f->now);
    assert_int_equal(disk_initial_write(f->block, &f->o.shape, 1, give, &g, NULL), 0);
    block_close(f->block);
    fix_format(f, 0);
    fix_open(f);
}

static void assert_initial(const struct disk_fix *f, uint64_t bytes)
{
    struct reading r = {.value = 7, .good = true};

    assert_true(disk_initial(f->d, 1) && !disk_initial(f->d, 0));
    assert_int_equal(disk_initial_read(f->d, 1, take, &r, NULL), 0);
    assert_true(r.good);
    assert_int_equal(r.bytes, bytes);
    assert_int_equal(disk_initial_read(f->d, 0, take, &r, NULL), ERR_NOTFOUND);
}

static void snapfile__begins_with_a_state(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, PIECE_DATA_BYTES, 3 * PIECE_DATA_BYTES + 1};

    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct disk_fix f;
        make_initial(&f, sizes[i]);
        assert_initial(&f, sizes[i]);
        fix_until(&f, fix_append(&f, 1, 0, 2000));
        fix_die(&f);
        disk_sim_power_cut(f.sim);
        fix_open(&f);
        assert_int_equal(disk_found(f.d, 1)->state, DISK_WHOLE);
        assert_initial(&f, sizes[i]);
        fix_fini(&f);
    }
}

/* Neither is taken for a group that began with nothing. */
static void snapfile__misses_a_state_to_begin_with(void **state)
{
    (void)state;
    struct disk_fix f;

    make_initial(&f, 1000);
    fix_die(&f);
    assert_true(disk_sim_flip(f.sim, INITIAL_PREFIX "1", 100));
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 1)->state, DISK_BELOW);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_NEW);
    fix_die(&f);
    f.block = disk_sim_block(f.sim, &f.now);
    const struct block_step gone = {.act = BLOCK_REMOVE, .name = INITIAL_PREFIX "1"};
    block_begin(f.block, BLOCK_JOURNAL, &gone, 1);
    assert_int_equal(block_wait(f.block, BLOCK_JOURNAL), BLOCK_DONE);
    block_close(f.block);
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 1)->state, DISK_BELOW);
    fix_fini(&f);
}

static void find_initial(void *ctx, const char *name, uint64_t bytes)
{
    uint32_t group;

    (void)bytes;
    *(bool *)ctx |= scan_initial_name(name, &group);
}

static void snapfile__replaces_what_it_began_with(void **state)
{
    (void)state;
    struct disk_fix f;
    bool there = false;

    make_initial(&f, 1000);
    fix_until(&f, fix_append(&f, 1, 0, 2000));
    f.says[1].commit = f.says[1].applied = 2000;
    disk_say(f.d, 1, &f.says[1]);
    fix_snap(&f, 1, 2000, 5000);
    fix_rounds(&f, 2000);
    assert_false(disk_initial(f.d, 1));
    disk_sim_platter_list(f.sim, find_initial, &there);
    assert_false(there);
    fix_die(&f);
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 1)->state, DISK_WHOLE);
    assert_snap(&f, 1, 2000, 5000);
    fix_fini(&f);
}

/* ---- backups ---- */

static void back_up(struct disk_fix *f, uint32_t group, const unsigned char *id, bool whole)
{
    unsigned char data[3000] = {0};

    assert_true(disk_backup_open(f->d, group, id, 42));
    assert_false(disk_snap_open(f->d, 0, 2000));
    for (uint32_t at = 0, i = 0; at < 200000; i++) {
        at += disk_snap_put(f->d, data, sizeof data);
        fix_round(f);
        assert_true(i < FIX_ROUNDS_MAX);
    }
    assert_false(disk_backup_is(f->d, group, id));
    disk_snap_end(f->d, whole);
    for (uint32_t i = 0; disk_backup_busy(f->d, group); i++) {
        fix_round(f);
        assert_true(i < FIX_ROUNDS_MAX);
    }
    assert_int_equal(disk_backup_is(f->d, group, id), whole);
}

/* The one before stays until the next is whole; to the group it is nothing. */
static void snapfile__keeps_the_last_backup(void **state)
{
    (void)state;
    static const unsigned char first[DISK_ID_BYTES] = {1}, second[DISK_ID_BYTES] = {2},
                               third[DISK_ID_BYTES] = {3};
    static _Alignas(8) unsigned char piece[PIECE_BYTES];
    struct disk_fix f;

    make(&f);
    back_up(&f, 0, first, true);
    back_up(&f, 0, second, true);
    back_up(&f, 0, third, false);
    assert_true(disk_backup_is(f.d, 0, second));
    assert_int_equal(disk_snap(f.d, 0), 0);
    fix_die(&f);
    disk_sim_power_cut(f.sim);
    assert_int_equal(disk_sim_platter(f.sim, BACKUP_PREFIX "0", 0, piece, sizeof piece), 0);
    assert_true(scan_piece(piece, second, 0, 42, 0));
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_WHOLE);
    assert_int_equal(disk_found(f.d, 0)->snap, 0);
    fix_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapfile__begins_with_a_state),
        cmocka_unit_test(snapfile__misses_a_state_to_begin_with),
        cmocka_unit_test(snapfile__replaces_what_it_began_with),
        cmocka_unit_test(snapfile__keeps_the_last_backup),
        cmocka_unit_test(snapfile__keeps_snapshots_of_any_size),
        cmocka_unit_test(snapfile__removes_the_one_before),
        cmocka_unit_test(snapfile__may_die_at_any_moment),
        cmocka_unit_test(snapfile__takes_the_older_one_where_the_newer_is_damaged),
        cmocka_unit_test(snapfile__without_it_the_group_lacks_what_it_covered),
        cmocka_unit_test(snapfile__without_it_nothing_before_it_counts),
        cmocka_unit_test(snapfile__takes_no_more_than_there_is_room_for),
        cmocka_unit_test(snapfile__gives_up_where_there_is_no_room),
        cmocka_unit_test(snapfile__is_given_up_by_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
