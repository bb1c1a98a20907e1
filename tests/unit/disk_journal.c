/* The journal: under chaos, with a model that knows what must be there; and one thing at a time. */
#include "../disk_break.h"
#include "../disk_fixture.h"
#include "../disk_model.h"

/* AddressSanitizer takes four times as long. */
#ifdef __SANITIZE_ADDRESS__
enum { SEEDS = 600 };
#else
enum { SEEDS = 3000 };
#endif

static void journal__keeps_what_was_done_whatever_falls(void **state)
{
    (void)state;
    struct disk_model_tally t = {0};

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct disk_model_options o = {.seed = seed, .full = seed % 5 == 0};
        const char *violated = disk_model_run(&o, &t);
        if (violated)
            fail_msg("seed %d: %s", (int)seed, violated);
    }
    print_message(
        "# %d openings, %d records, %d snapshots, %d torn, %d below, %d beyond, %d healed, "
        "%d flips, %d refused\n",
        (int)t.opened, (int)t.records, (int)t.snapshots, (int)t.torn, (int)t.below, (int)t.beyond,
        (int)t.healed, (int)t.flips, (int)t.refused);
    assert_true(t.torn > 0 && t.below > 0 && t.beyond > 0 && t.healed > 0 && t.flips > 0);
    assert_true(t.refused > 0 && t.no_room > 0 && t.failed > 0 && t.snapshots > t.opened);
}

static void count(void *ctx, const struct disk_record *r)
{
    *(uint32_t *)ctx += r->kind != DISK_SNAP;
}

static uint32_t replayed(const struct disk_fix *f, uint32_t group)
{
    uint32_t n = 0;

    disk_replay(f->d, group, count, &n);
    return n;
}

static void journal__writes_a_small_record_as_one_block(void **state)
{
    (void)state;
    struct disk_fix f;
    struct disk_status before, after;

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    for (uint32_t i = 0; i < 3; i++) {
        disk_status(f.d, &before);
        fix_until(&f, fix_append(&f, i, 0, 64));
        disk_status(f.d, &after);
        assert_int_equal(after.bytes - before.bytes, BLOCK_BYTES);
        assert_int_equal(after.batches - before.batches, 1);
    }
    fix_fini(&f);
}

static void journal__collects_while_a_batch_is_written(void **state)
{
    (void)state;
    struct disk_fix f;

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    uint64_t first = fix_append(&f, 0, 0, 100);
    disk_round(f.d, f.now);
    uint64_t second = fix_append(&f, 0, 100, 100), third = fix_append(&f, 1, 0, 100);
    assert_int_equal(second, first + 1);
    assert_int_equal(third, second);
    assert_int_equal(disk_done(f.d), first - 1);
    fix_until(&f, first);
    assert_int_equal(disk_done(f.d), first);
    fix_until(&f, second);
    fix_die(&f);
    fix_open(&f);
    assert_int_equal(replayed(&f, 0), 2);
    assert_int_equal(replayed(&f, 1), 1);
    assert_int_equal(replayed(&f, 2), 0);
    assert_int_equal(disk_found(f.d, 2)->state, DISK_NEW);
    fix_fini(&f);
}

/* A slow disk: several batches wait, each with the number that was told, and in the end the buffer is full. */
static void journal__fills_its_buffer_and_goes_on(void **state)
{
    (void)state;
    struct disk_fix f;
    uint64_t at = 0, batch, last = 0, first = 0;

    fix_init(&f, 0);
    f.o.bytes = (uint64_t)16 * FIX_SEGMENT_BYTES;
    fix_format(&f, 0);
    fix_open(&f);
    fix_rounds(&f, 100);
    disk_sim_slow(f.sim, 1000000000);
    for (; (batch = fix_append(&f, 0, at, 3000)) != 0; at += 3000) {
        disk_round(f.d, f.now);
        first = first ? first : batch;
        assert_true(last == 0 || batch - last <= 1);
        last = batch;
    }
    assert_true(last - first >= 3);
    disk_sim_slow(f.sim, 0);
    f.now += 1000000000;
    fix_until(&f, last);
    assert_true(fix_append(&f, 0, at, 3000) > last);
    fix_die(&f);
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 0)->says.end, at);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_WHOLE);
    fix_fini(&f);
}

static void journal__confirms_the_last_batch_when_idle(void **state)
{
    (void)state;
    struct disk_fix f;
    unsigned char id[DISK_ID_BYTES];

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    uint64_t batch = fix_append(&f, 1, 0, 64);
    assert_int_equal(disk_next_ns(f.d), 0);
    fix_until(&f, batch);
    assert_true(disk_next_ns(f.d) > f.now && disk_next_ns(f.d) <= f.now + 5000000);
    f.now = disk_next_ns(f.d);
    fix_until(&f, batch + 1);
    fix_rounds(&f, 100);
    assert_int_equal(disk_done(f.d), batch + 1);
    assert_true(disk_next_ns(f.d) == UINT64_MAX);
    fix_die(&f);
    fix_journal_id(&f, id);
    fix_flip_batch(&f, batch, id);
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_NEW);
    assert_int_equal(disk_found(f.d, 1)->state, DISK_BEYOND);
    assert_non_null(disk_note(f.d));
    fix_fini(&f);
}

/* The batch that an opening writes stands behind the last one of the life before: it names who was in it. */
static void journal__sees_damage_before_an_opening(void **state)
{
    (void)state;
    struct disk_fix f;
    unsigned char id[DISK_ID_BYTES];

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    uint64_t batch = fix_append(&f, 1, 0, 64);
    fix_until(&f, batch);
    fix_die(&f);
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 1)->state, DISK_WHOLE);
    fix_die(&f);
    fix_journal_id(&f, id);
    fix_flip_batch(&f, batch, id);
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_NEW);
    assert_int_equal(disk_found(f.d, 1)->state, DISK_BEYOND);
    fix_fini(&f);
}

/* It stays so over openings, though the group goes on to pledge, until a state that it took over is durable. */
static void journal__stays_beyond_until_a_state_is_taken_over(void **state)
{
    (void)state;
    struct disk_fix f;

    fix_init(&f, 0);
    fix_format(&f, 5);
    fix_open(&f);
    assert_int_equal(disk_life(f.d), 5);
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t g = 0; g < FIX_GROUPS; g++)
            assert_int_equal(disk_found(f.d, g)->state, DISK_BEYOND);
        fix_until(&f, fix_pledge(&f, 1));
        fix_die(&f);
        fix_open(&f);
    }
    fix_snap(&f, 2, 50, 10); /* of a state that is not taken over */
    fix_until(&f, fix_reset(&f, 1, 500));
    fix_die(&f);
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 1)->state, DISK_BEYOND);
    assert_int_equal(disk_found(f.d, 2)->state, DISK_BEYOND);
    fix_snap(&f, 1, 499, 10); /* of one before it */
    fix_die(&f);
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 1)->state, DISK_BEYOND);
    fix_snap(&f, 1, 500, 100);
    fix_die(&f);
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 1)->state, DISK_WHOLE);
    assert_int_equal(disk_found(f.d, 1)->snap, 500);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_BEYOND);
    fix_fini(&f);
}

/* Nobody makes a snapshot: records are refused, pledges never, over any number of batches and openings. */
static void journal__has_room_for_pledges_when_it_is_full(void **state)
{
    (void)state;
    struct disk_fix f;
    struct disk_status s;
    uint64_t at = 0, batch;

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    fix_rounds(&f, 100);
    while ((batch = fix_append(&f, 0, at, 2000)) != 0) {
        at += 2000;
        fix_until(&f, batch);
    }
    disk_status(f.d, &s);
    assert_int_equal(s.health, DISK_FULL);
    assert_int_equal(disk_oldest(f.d), 0);
    for (uint32_t i = 0; i < 400; i++) {
        fix_until(&f, fix_pledge(&f, 1 + i % 2));
        assert_null(disk_reserve(f.d, 2000));
        if (i % 20 == 19) {
            fix_die(&f);
            fix_open(&f);
            assert_int_equal(disk_found(f.d, 1)->says.pledge, f.says[1].pledge);
            assert_int_equal(disk_found(f.d, 2)->says.pledge, f.says[2].pledge);
            assert_int_equal(disk_found(f.d, 0)->state, DISK_WHOLE);
            assert_int_equal(disk_found(f.d, 0)->says.end, at);
        }
    }
    assert_true(disk_sim_bytes(f.sim) <= FIX_SEGMENTS * FIX_SEGMENT_BYTES + SLOTS * SLOT_BYTES);
    f.says[0].commit = f.says[0].applied = at;
    disk_say(f.d, 0, &f.says[0]);
    fix_snap(&f, 0, at, 100);
    fix_rounds(&f, 20); /* at once, not when it is idle */
    assert_non_null(disk_reserve(f.d, 2000));
    fix_fini(&f);
}

/* Whoever is refused finds it full, whatever room is kept for copies of what is not applied: or nobody would save a state, and it would stay
 * so. */
static void journal__is_full_to_whom_it_refuses(void **state)
{
    (void)state;

    for (uint32_t bytes = 500; bytes < 12000; bytes += 1500)
        for (uint64_t late = 0; late <= 3; late++) { /* so many records are not applied */
            struct disk_fix f;
            uint64_t at = 0, batch;
            fix_init(&f, 0);
            fix_format(&f, 0);
            fix_open(&f);
            fix_rounds(&f, 100);
            while ((batch = fix_append(&f, 0, at, bytes)) != 0) {
                at += bytes;
                f.says[0].commit = f.says[0].applied = at > late * bytes ? at - late * bytes : 0;
                disk_say(f.d, 0, &f.says[0]);
                fix_until(&f, batch);
            }
            assert_int_equal(disk_used(f.d), 1000);
            fix_fini(&f);
        }
}

/* What a group had accepted and dropped again does not keep the journal for all. */
static void journal__is_not_kept_by_what_was_cut(void **state)
{
    (void)state;
    struct disk_fix f;
    uint64_t at = 0, batch;

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    fix_rounds(&f, 100);
    fix_until(&f, fix_append(&f, 0, 0, 3000));
    f.says[0].commit = f.says[0].applied = 50;
    fix_pledge(&f, 0);
    fix_until(&f, fix_append(&f, 0, 100, 10));
    f.says[0].commit = f.says[0].applied = 110;
    disk_say(f.d, 0, &f.says[0]);
    fix_snap(&f, 0, 110, 10);
    while ((batch = fix_append(&f, 1, at, 2000)) != 0) {
        at += 2000;
        fix_until(&f, batch);
        assert_true(disk_oldest(f.d) != 0);
    }
    fix_fini(&f);
}

/* Nor by a group that was found beyond, and has not come back yet. */
static void journal__is_not_kept_by_what_does_not_count(void **state)
{
    (void)state;
    struct disk_fix f;
    unsigned char id[DISK_ID_BYTES];
    uint64_t at = 0, batch;

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    batch = fix_append(&f, 0, 0, 1000);
    fix_until(&f, batch);
    fix_until(&f, fix_append(&f, 0, 1000, 1000));
    fix_rounds(&f, 100);
    fix_die(&f);
    fix_journal_id(&f, id);
    fix_flip_batch(&f, batch + 1, id);
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_BEYOND);
    while ((batch = fix_append(&f, 1, at, 2000)) != 0) {
        at += 2000;
        fix_until(&f, batch);
        assert_true(disk_oldest(f.d) != 0);
    }
    fix_fini(&f);
}

static void fill(struct disk_fix *f, uint32_t group, uint32_t segments)
{
    struct disk_status s;
    uint64_t batch, *end = &f->says[group].end;

    do {
        batch = fix_append(f, group, *end, 3000);
        assert_true(batch != 0);
        fix_until(f, batch);
        f->says[group].commit = f->says[group].applied = *end;
        disk_status(f->d, &s);
    } while (s.journal_bytes < (uint64_t)segments * FIX_SEGMENT_BYTES);
}

struct seen {
    uint64_t from;
    uint32_t count;
};

static void look_for(void *ctx, const struct disk_record *r)
{
    struct seen *s = ctx;

    s->count += r->from == s->from && r->kind == DISK_ENTRIES;
}

/* Of three segments the first has what the second one has replaced, and a snapshot covers the second: it stays all the same,
 * or the first would be read without what came after it. */
static void journal__gives_up_segments_in_their_order(void **state)
{
    (void)state;
    struct disk_fix f;
    struct seen seen = {.from = 150};

    fix_init(&f, 0);
    f.o.bytes = (uint64_t)10 * FIX_SEGMENT_BYTES;
    fix_format(&f, 0);
    fix_open(&f);
    fix_rounds(&f, 200);
    fix_until(&f, fix_append(&f, 0, 0, 700));
    fill(&f, 1, 1);
    fix_pledge(&f, 0);
    fix_until(&f, fix_append(&f, 0, 150, 350));
    fill(&f, 1, 2);
    fix_until(&f, fix_append(&f, 0, 500, 100));
    f.says[0].commit = f.says[0].applied = 500;
    disk_say(f.d, 0, &f.says[0]);
    fix_snap(&f, 0, 500, 10);
    disk_say(f.d, 1, &f.says[1]);
    fix_snap(&f, 1, f.says[1].applied, 10);
    fix_rounds(&f, 200);
    fix_die(&f);
    fix_open(&f);
    disk_replay(f.d, 0, look_for, &seen);
    assert_int_equal(seen.count, 1);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_WHOLE);
    fix_fini(&f);
}

/* Two batches in a row: the one behind them names only who was in the second. */
static void journal__believes_nobody_behind_a_wider_gap(void **state)
{
    (void)state;
    struct disk_fix f;
    unsigned char id[DISK_ID_BYTES];

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    uint64_t batch = fix_append(&f, 1, 0, 64);
    fix_until(&f, batch);
    fix_until(&f, fix_append(&f, 2, 0, 64));
    fix_rounds(&f, 100);
    fix_die(&f);
    fix_journal_id(&f, id);
    fix_flip_batch(&f, batch, id);
    fix_flip_batch(&f, batch + 1, id);
    fix_open(&f);
    for (uint32_t g = 0; g < FIX_GROUPS; g++)
        assert_int_equal(disk_found(f.d, g)->state, DISK_BEYOND);
    fix_die(&f);
    fix_open(&f);
    for (uint32_t g = 0; g < FIX_GROUPS; g++)
        assert_int_equal(disk_found(f.d, g)->state, DISK_BEYOND);
    fix_fini(&f);
}

/* A state was taken over in the middle of the chain: what is below it may be other than what was decided. */
static void journal__a_reset_drops_what_is_below(void **state)
{
    (void)state;
    struct disk_fix f;

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    fix_until(&f, fix_append(&f, 0, 0, 1000));
    assert_non_null(disk_reserve(f.d, 0));
    struct disk_record r = {.kind = DISK_RESET, .from = 500, .to = 500, .says = f.says[0]};
    r.says.commit = r.says.applied = 500;
    uint64_t batch = disk_batch(f.d);
    disk_append(f.d, &r);
    fix_until(&f, batch);
    fix_die(&f);
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_BELOW);
    assert_int_equal(disk_found(f.d, 0)->gap_to, 500);
    assert_int_equal(disk_found(f.d, 0)->says.end, 1000);
    fix_snap(&f, 0, 500, 10);
    fix_die(&f);
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_WHOLE);
    fix_fini(&f);
}

/* A table is torn in its record only; the batch that gets its number goes to the segment before. */
static void journal__a_torn_table_never_comes_back(void **state)
{
    (void)state;
    struct disk_fix f;
    struct disk_status s;
    uint64_t at = 0, batch;

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    fix_rounds(&f, 100);
    do {
        batch = fix_append(&f, 0, at, 3000);
        fix_until(&f, batch);
        at += 3000;
        disk_status(f.d, &s);
    } while (s.journal_bytes < FIX_SEGMENT_BYTES - 8192);
    batch = fix_append(&f, 0, at, 9000);
    fix_until(&f, batch);
    fix_die(&f);
    assert_true(disk_sim_flip(f.sim, SEGMENT_PREFIX "00002", 100));
    for (uint32_t i = 0; i < 3; i++) {
        fix_open(&f);
        assert_int_equal(disk_note(f.d) != NULL, i == 0);
        assert_int_equal(disk_found(f.d, 0)->state, DISK_WHOLE);
        assert_int_equal(disk_found(f.d, 0)->says.end, at);
        fix_die(&f);
    }
    fix_fini(&f);
}

/* The table that is torn had given up the segment before, which has nothing but pledges: it was not free yet. */
static void journal__a_torn_table_gives_nothing_up(void **state)
{
    (void)state;
    struct disk_fix f;
    struct disk_status s;

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    fix_rounds(&f, 100);
    do {
        fix_until(&f, fix_pledge(&f, 1));
        disk_status(f.d, &s);
    } while (s.journal_bytes < FIX_SEGMENT_BYTES - 8192);
    fix_until(&f, fix_append(&f, 0, 0, 9000));
    fix_die(&f);
    assert_true(disk_sim_flip(f.sim, SEGMENT_PREFIX "00002", 100));
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_NEW);
    assert_int_equal(disk_found(f.d, 1)->state, DISK_WHOLE);
    assert_int_equal(disk_found(f.d, 1)->says.pledge, f.says[1].pledge);
    fix_fini(&f);
}

/* The batch under way was torn in its record only, and the one before it is damaged: that was told, and is no tail. It stays so if nothing
 * is written between two openings. */
static void journal__a_torn_batch_shows_that_one_is_missing(void **state)
{
    (void)state;
    static _Alignas(8) unsigned char image[FIX_SEGMENT_BYTES];
    struct disk_fix f;
    struct scan_batch b;
    unsigned char id[DISK_ID_BYTES];
    uint64_t where;

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    fix_until(&f, fix_append(&f, 1, 0, 64));
    uint64_t told = fix_append(&f, 1, 64, 64);
    fix_until(&f, told);
    uint64_t torn = fix_append(&f, 1, 128, 64);
    fix_until(&f, torn);
    fix_die(&f);
    fix_journal_id(&f, id);
    assert_int_equal(disk_sim_platter(f.sim, SEGMENT_PREFIX "00001", 0, image, FIX_SEGMENT_BYTES),
                     0);
    assert_true(scan_find(image, FIX_SEGMENT_BYTES, 0, id, FIX_GROUPS, torn, torn, &b, &where));
    assert_true(disk_sim_flip(f.sim, SEGMENT_PREFIX "00001", where + 80));
    fix_flip_batch(&f, told, id);
    for (uint32_t i = 0; i < 3; i++) {
        fix_open(&f);
        assert_int_equal(disk_found(f.d, 1)->state, DISK_BEYOND);
        fix_die(&f);
    }
    fix_fini(&f);
}

/* Power is lost at any of the orders of the first opening: nothing was told, so every group is still new. */
static void journal__may_fall_in_its_first_opening(void **state)
{
    (void)state;

    for (uint32_t order = 1; order <= 8; order++)
        for (uint32_t seed = 1; seed <= 10; seed++) {
            struct disk_sim_options s = {.seed = seed};
            struct disk_break k = {.fail_in = order};
            struct disk_fix f;
            fix_init(&f, 0);
            disk_sim_close(f.sim);
            f.sim = disk_sim_open(&s);
            fix_format(&f, 0);
            f.o.block = break_block(&k, f.sim, disk_sim_block(f.sim, &f.now));
            if (disk_open(&f.o, &f.d, NULL) == 0) {
                fix_die(&f);
            } else {
                disk_sim_die(f.sim);
                f.d = NULL;
            }
            disk_sim_power_cut(f.sim);
            fix_open(&f);
            for (uint32_t g = 0; g < FIX_GROUPS; g++)
                assert_int_equal(disk_found(f.d, g)->state, DISK_NEW);
            fix_fini(&f);
        }
}

/* A block that cannot be read is damage like any other. */
static void journal__goes_on_where_a_block_cannot_be_read(void **state)
{
    (void)state;
    struct disk_fix f;
    struct disk_break k = {.bad_name = SEGMENT_PREFIX "00001"};

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    fix_rounds(&f, 100);
    fix_until(&f, fix_append(&f, 0, 0, 64));
    struct disk_status s;
    disk_status(f.d, &s);
    k.bad_at = s.journal_bytes;
    fix_until(&f, fix_append(&f, 1, 0, 64));
    fix_rounds(&f, 100);
    fix_die(&f);
    f.o.block = break_block(&k, f.sim, disk_sim_block(f.sim, &f.now));
    assert_int_equal(disk_open(&f.o, &f.d, NULL), 0);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_WHOLE);
    assert_int_equal(disk_found(f.d, 1)->state, DISK_BEYOND);
    assert_int_equal(disk_found(f.d, 2)->state, DISK_NEW);
    fix_fini(&f);
}

/* It goes along with what another group writes. */
static void journal__keeps_what_was_said(void **state)
{
    (void)state;
    struct disk_fix f;

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    fix_until(&f, fix_append(&f, 0, 0, 64));
    fix_rounds(&f, 100);
    uint64_t done = disk_done(f.d);
    f.says[0].commit = 60;
    f.says[0].applied = 50;
    disk_say(f.d, 0, &f.says[0]);
    fix_rounds(&f, 100);
    assert_int_equal(disk_done(f.d), done); /* no reason to write */
    fix_until(&f, fix_append(&f, 1, 0, 64));
    fix_die(&f);
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 0)->says.commit, 60);
    assert_int_equal(disk_found(f.d, 0)->says.applied, 50);
    fix_fini(&f);
}

/* The disk has room for six segments of eight: that is told, and tried again, and the six will do. */
static void journal__does_with_the_segments_that_there_are(void **state)
{
    (void)state;
    struct disk_fix f;
    struct disk_status s;

    fix_init(&f, (uint64_t)6 * FIX_SEGMENT_BYTES + SLOTS * SLOT_BYTES);
    f.o.bytes = (uint64_t)8 * FIX_SEGMENT_BYTES;
    fix_format(&f, 0);
    fix_open(&f);
    fix_until(&f, fix_append(&f, 0, 0, 3000));
    for (uint32_t at = 3000; fix_append(&f, 0, at, 3000); at += 3000)
        fix_rounds(&f, 3);
    disk_status(f.d, &s);
    assert_int_equal(s.health, DISK_FULL);
    f.says[0].commit = f.says[0].applied = f.says[0].end;
    disk_say(f.d, 0, &f.says[0]);
    assert_true(disk_used(f.d) >= 600);                 /* of those for which there is room */
    assert_true(disk_snap_open(f.d, 0, f.says[0].end)); /* smaller than a segment it might fit */
    disk_snap_end(f.d, false);
    assert_true(disk_next_ns(f.d) <= f.now + 1000000000);
    fix_until(&f, fix_pledge(&f, 0));
    fix_fini(&f);
}

/* All of them in one batch, and again while segments wrap. */
static void journal__serves_as_many_groups_as_there_may_be(void **state)
{
    (void)state;
    struct disk_fix f;

    fix_init(&f, 0);
    f.o.shape.groups = DISK_GROUPS_MAX;
    f.o.shape.hosts = SLOT_HOSTS_MAX;
    f.o.shape.clients = SLOT_PLACES_MAX;
    f.o.segment_bytes = 2 << 20;
    f.o.bytes = 8 << 20;
    f.o.batch_bytes = 1 << 20;
    f.o.buffer_bytes = 2 << 20;
    fix_format(&f, 0);
    fix_open(&f);
    struct disk_record r = {.kind = DISK_PLEDGE};
    for (r.ballot = 1; r.ballot <= 40; r.ballot++) {
        r.says.pledge = r.ballot;
        for (r.group = 0; r.group < DISK_GROUPS_MAX; r.group++)
            disk_append(f.d, &r);
        fix_until(&f, disk_batch(f.d));
    }
    fix_until(&f, disk_place_note(f.d, SLOT_PLACES_MAX - 1, 3));
    fix_die(&f);
    disk_sim_power_cut(f.sim);
    fix_open(&f);
    for (uint32_t g = 0; g < DISK_GROUPS_MAX; g++)
        assert_int_equal(disk_found(f.d, g)->says.pledge, 40);
    assert_int_equal(disk_place_life(f.d, SLOT_PLACES_MAX - 1), 3);
    fix_fini(&f);
}

static void journal__a_copy_replaces_the_chain(void **state)
{
    (void)state;
    struct disk_fix f;
    uint64_t at = 0, batch;

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    fix_rounds(&f, 100);
    fix_until(&f, fix_append(&f, 0, 0, 500));
    /* Another group fills the segment, and makes snapshots; the first one cannot. */
    while (disk_used(f.d) < 600) {
        batch = fix_append(&f, 1, at, 2000);
        assert_true(batch != 0);
        at += 2000;
        fix_until(&f, batch);
    }
    f.says[1].commit = f.says[1].applied = at;
    disk_say(f.d, 1, &f.says[1]);
    fix_snap(&f, 1, at, 10);
    fix_rounds(&f, 100);
    assert_int_equal(disk_oldest(f.d), 0);
    unsigned char *p = disk_reserve(f.d, 500);
    assert_non_null(p);
    memset(p, 7, 500);
    struct disk_record r = {
        .kind = DISK_COPY, .group = 0, .to = 500, .says = f.says[0], .bytes = p};
    batch = disk_batch(f.d);
    disk_append(f.d, &r);
    fix_until(&f, batch);
    fix_rounds(&f, 100);
    assert_true(disk_used(f.d) < 600);
    fix_die(&f);
    fix_open(&f);
    assert_int_equal(disk_found(f.d, 0)->state, DISK_WHOLE);
    assert_int_equal(disk_found(f.d, 0)->says.end, 500);
    fix_fini(&f);
}

static void journal__without_its_segments_nothing_counts(void **state)
{
    (void)state;
    struct disk_fix f;
    struct block_step steps[4];
    char names[4][BLOCK_NAME_BYTES];

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    uint64_t batch = fix_append(&f, 0, 0, 64);
    fix_until(&f, batch);
    fix_die(&f);
    f.block = disk_sim_block(f.sim, &f.now);
    for (uint32_t i = 0; i < 4; i++) {
        snprintf(names[i], sizeof names[i], SEGMENT_PREFIX "%05u", i + 1);
        steps[i] = (struct block_step){.act = BLOCK_REMOVE, .name = names[i]};
    }
    block_begin(f.block, BLOCK_JOURNAL, steps, 4);
    assert_int_equal(block_wait(f.block, BLOCK_JOURNAL), BLOCK_DONE);
    block_close(f.block);
    fix_open(&f);
    for (uint32_t g = 0; g < FIX_GROUPS; g++)
        assert_int_equal(disk_found(f.d, g)->state, DISK_BEYOND);
    assert_true(disk_batch(f.d) > batch + 1);
    fix_fini(&f);
}

/* Somebody has removed the host file: that makes no new host of it. */
static void journal__without_its_host_file_it_is_not_empty(void **state)
{
    (void)state;
    struct disk_fix f;
    struct err e;
    struct block_step step = {.act = BLOCK_REMOVE, .name = HOST_NAME};

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    fix_until(&f, fix_append(&f, 0, 0, 64));
    fix_die(&f);
    f.block = disk_sim_block(f.sim, &f.now);
    block_begin(f.block, BLOCK_JOURNAL, &step, 1);
    assert_int_equal(block_wait(f.block, BLOCK_JOURNAL), BLOCK_DONE);
    block_close(f.block);
    assert_int_equal(fix_try_open(&f, &e), ERR_CORRUPT);
    assert_int_equal(fix_format(&f, 0), ERR_EXISTS);
    fix_fini(&f);
}

static void journal__refuses_what_is_not_its_own(void **state)
{
    (void)state;
    struct disk_fix f;
    struct disk_shape shape;
    struct err e;

    fix_init(&f, 0);
    assert_int_equal(fix_try_open(&f, &e), ERR_NOTFOUND);
    assert_int_equal(fix_format(&f, 0), 0);
    assert_int_equal(fix_format(&f, 0), ERR_EXISTS);
    shape = f.o.shape;
    f.o.shape.host[1] = '2';
    assert_int_equal(fix_try_open(&f, &e), ERR_REFUSED);
    f.o.shape = shape;
    f.o.shape.cluster[0] = 1;
    assert_int_equal(fix_try_open(&f, &e), ERR_REFUSED);
    f.o.shape = shape;
    f.o.shape.groups++;
    assert_int_equal(fix_try_open(&f, &e), ERR_REFUSED);
    f.o.shape = shape;
    f.o.shape.sizes++;
    assert_int_equal(fix_try_open(&f, &e), ERR_REFUSED);
    f.o.shape = shape;
    f.o.batch_bytes = 4096;
    assert_int_equal(fix_try_open(&f, &e), ERR_INVALID);
    f.o.batch_bytes = 16384;
    f.o.bytes = (uint64_t)3 * FIX_SEGMENT_BYTES;
    assert_int_equal(fix_try_open(&f, &e), ERR_INVALID);
    f.o.bytes = (uint64_t)4 * FIX_SEGMENT_BYTES;
    fix_open(&f);
    fix_fini(&f);
}

static void journal__a_failure_is_for_good(void **state)
{
    (void)state;
    struct disk_fix f;

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    fix_rounds(&f, 100);
    disk_sim_fail(f.sim);
    uint64_t batch = fix_append(&f, 0, 0, 64), done = disk_done(f.d);
    fix_rounds(&f, 100);
    assert_true(done < batch && disk_done(f.d) == done);
    assert_non_null(disk_failure(f.d));
    assert_null(disk_reserve(f.d, 8));
    assert_false(disk_snap_open(f.d, 0, 1));
    assert_true(disk_next_ns(f.d) == UINT64_MAX);
    fix_fini(&f);
}

static void journal__tells_that_the_disk_is_slow(void **state)
{
    (void)state;
    struct disk_fix f;
    struct disk_status s;

    fix_init(&f, 0);
    fix_format(&f, 0);
    fix_open(&f);
    fix_rounds(&f, 100);
    disk_sim_slow(f.sim, 300000000);
    uint64_t batch = fix_append(&f, 0, 0, 64);
    disk_round(f.d, f.now);
    fix_append(&f, 0, 64, 64);
    disk_status(f.d, &s);
    assert_int_equal(s.health, DISK_OK);
    assert_true(s.waiting_bytes >= 64);
    disk_round(f.d, f.now += 150000000);
    disk_status(f.d, &s);
    assert_int_equal(s.health, DISK_SLOW);
    disk_sim_slow(f.sim, 0);
    fix_until(&f, batch + 1);
    disk_status(f.d, &s);
    assert_int_equal(s.health, DISK_SLOW);
    assert_true(s.flush_p99_ns > 100000000);
    disk_round(f.d, f.now += 1100000000);
    disk_status(f.d, &s);
    assert_int_equal(s.health, DISK_OK);
    fix_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(journal__keeps_what_was_done_whatever_falls),
        cmocka_unit_test(journal__writes_a_small_record_as_one_block),
        cmocka_unit_test(journal__collects_while_a_batch_is_written),
        cmocka_unit_test(journal__fills_its_buffer_and_goes_on),
        cmocka_unit_test(journal__confirms_the_last_batch_when_idle),
        cmocka_unit_test(journal__sees_damage_before_an_opening),
        cmocka_unit_test(journal__stays_beyond_until_a_state_is_taken_over),
        cmocka_unit_test(journal__has_room_for_pledges_when_it_is_full),
        cmocka_unit_test(journal__is_full_to_whom_it_refuses),
        cmocka_unit_test(journal__is_not_kept_by_what_was_cut),
        cmocka_unit_test(journal__is_not_kept_by_what_does_not_count),
        cmocka_unit_test(journal__gives_up_segments_in_their_order),
        cmocka_unit_test(journal__believes_nobody_behind_a_wider_gap),
        cmocka_unit_test(journal__a_reset_drops_what_is_below),
        cmocka_unit_test(journal__a_torn_table_never_comes_back),
        cmocka_unit_test(journal__a_torn_table_gives_nothing_up),
        cmocka_unit_test(journal__a_torn_batch_shows_that_one_is_missing),
        cmocka_unit_test(journal__may_fall_in_its_first_opening),
        cmocka_unit_test(journal__goes_on_where_a_block_cannot_be_read),
        cmocka_unit_test(journal__keeps_what_was_said),
        cmocka_unit_test(journal__does_with_the_segments_that_there_are),
        cmocka_unit_test(journal__serves_as_many_groups_as_there_may_be),
        cmocka_unit_test(journal__a_copy_replaces_the_chain),
        cmocka_unit_test(journal__without_its_segments_nothing_counts),
        cmocka_unit_test(journal__without_its_host_file_it_is_not_empty),
        cmocka_unit_test(journal__refuses_what_is_not_its_own),
        cmocka_unit_test(journal__a_failure_is_for_good),
        cmocka_unit_test(journal__tells_that_the_disk_is_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
