/* The simulated disk: what power cuts, deaths, failures and flips leave, over many seeds. */
#include "disk/block_sim.h"

#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum {
    SEEDS = 400,
    FILE_BYTES = 16 * BLOCK_BYTES,
    WRITE_BYTES = 4 * BLOCK_BYTES,
    SECTORS = WRITE_BYTES / BLOCK_SECTOR_BYTES,
    LONG_NS = 1000000000,
};

static _Alignas(BLOCK_BYTES) unsigned char data[WRITE_BYTES], more[WRITE_BYTES], got[FILE_BYTES];
static uint64_t now;

static struct disk_sim *make(uint64_t seed)
{
    struct disk_sim_options o = {.seed = seed};

    now = 1000;
    memset(data, 'a', sizeof data);
    memset(more, 'b', sizeof more);
    return disk_sim_open(&o);
}

static enum block_status finish(struct block *b, enum block_lane lane)
{
    now += LONG_NS;
    return block_poll(b, lane);
}

static void order(struct block *b, const struct block_step *steps, uint32_t count)
{
    block_begin(b, BLOCK_JOURNAL, steps, count);
    assert_int_equal(finish(b, BLOCK_JOURNAL), BLOCK_DONE);
}

static struct block_step create(const char *name)
{
    return (struct block_step){.act = BLOCK_CREATE, .name = name, .bytes = FILE_BYTES};
}

static struct block_step put(const char *name, uint64_t at, const void *from)
{
    return (struct block_step){
        .act = BLOCK_WRITE, .name = name, .at = at, .data = from, .bytes = WRITE_BYTES};
}

static struct block_step move(const char *name, const char *to)
{
    return (struct block_step){.act = BLOCK_RENAME, .name = name, .to = to};
}

static struct block_step drop(const char *name)
{
    return (struct block_step){.act = BLOCK_REMOVE, .name = name};
}

static void one(struct block *b, struct block_step s)
{
    order(b, &s, 1);
}

static void begin(struct block *b, struct block_step s)
{
    block_begin(b, BLOCK_JOURNAL, &s, 1);
}

/* A disk with the file `a`, of zeros, and a process that has it. */
static struct disk_sim *make_file(uint64_t seed, struct block **b)
{
    struct disk_sim *d = make(seed);

    *b = disk_sim_block(d, &now);
    one(*b, create("a"));
    return d;
}

static int sectors_of(unsigned char c)
{
    int n = 0;

    for (int i = 0; i < SECTORS; i++) {
        const unsigned char *s = got + i * BLOCK_SECTOR_BYTES;
        for (int k = 1; k < BLOCK_SECTOR_BYTES; k++)
            assert_int_equal(s[k], s[0]); /* whole ones */
        n += s[0] == c;
    }
    return n;
}

/* What a process that comes next reads. */
static void read_next(struct disk_sim *d, const char *name)
{
    struct err e = {""};
    struct block *b = disk_sim_block(d, &now);

    if (block_read(b, name, 0, got, FILE_BYTES, &e) != 0)
        fail_msg("%s", e.text);
    block_close(b);
}

static bool is_there(struct disk_sim *d, const char *name)
{
    return disk_sim_platter(d, name, 0, got, BLOCK_BYTES) == 0;
}

/* How often which result was seen. */
struct seen {
    int none, part, all;
};

static void see(struct seen *s, int n, int of)
{
    s->none += n == 0;
    s->all += n == of;
    s->part += n > 0 && n < of;
}

static void expect_all_seen(const struct seen *s)
{
    if (s->none < SEEDS / 20 || s->part < SEEDS / 20 || s->all < SEEDS / 20)
        fail_msg("of %d: none %d, part %d, all %d", SEEDS, s->none, s->part, s->all);
}

static void sim__what_is_done_survives_a_cut(void **state)
{
    struct block *b;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        struct block_step steps[] = {put("a", 0, data), create("x"), put("x", 0, data),
                                     move("x", "b"), drop("none")};
        order(b, steps, 5);
        disk_sim_die(d);
        disk_sim_power_cut(d);
        read_next(d, "a");
        assert_int_equal(sectors_of('a'), SECTORS);
        read_next(d, "b");
        assert_int_equal(sectors_of('a'), SECTORS);
        assert_false(is_there(d, "x"));
        disk_sim_close(d);
    }
}

static void sim__a_cut_leaves_any_sectors(void **state)
{
    struct seen seen = {0};
    struct block *b;
    int holes = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        begin(b, put("a", 0, data));
        disk_sim_die(d);
        disk_sim_power_cut(d);
        read_next(d, "a");
        see(&seen, sectors_of('a'), SECTORS);
        holes += got[0] == 0 && sectors_of('a') > 0;
        for (int i = WRITE_BYTES; i < FILE_BYTES; i++)
            assert_int_equal(got[i], 0);
        disk_sim_close(d);
    }
    expect_all_seen(&seen);
    assert_in_range(holes, SEEDS / 20, SEEDS);
}

static void sim__sectors_stay_in_their_place(void **state)
{
    struct block *b;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS / 4; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        for (int i = 0; i < SECTORS; i++)
            memset(data + i * BLOCK_SECTOR_BYTES, i + 1, BLOCK_SECTOR_BYTES);
        begin(b, put("a", WRITE_BYTES, data));
        disk_sim_die(d);
        disk_sim_power_cut(d);
        read_next(d, "a");
        for (int i = 0; i < WRITE_BYTES; i++)
            assert_true(got[WRITE_BYTES + i] == 0 ||
                        got[WRITE_BYTES + i] == 1 + i / BLOCK_SECTOR_BYTES);
        disk_sim_close(d);
    }
}

static void sim__death_leaves_a_beginning(void **state)
{
    struct seen seen = {0};
    struct block *b;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        begin(b, put("a", 0, data));
        disk_sim_die(d);
        read_next(d, "a");
        int n = sectors_of('a');
        see(&seen, n, SECTORS);
        for (int i = 0; i < n * BLOCK_SECTOR_BYTES; i++)
            assert_int_equal(got[i], 'a');
        /* Nothing of that is durable. */
        assert_int_equal(disk_sim_platter(d, "a", 0, got, FILE_BYTES), 0);
        assert_int_equal(sectors_of('a'), 0);
        disk_sim_close(d);
    }
    expect_all_seen(&seen);
}

/* Of two steps the second is done only if the first one is. */
static void sim__death_leaves_the_first_steps(void **state)
{
    struct seen seen = {0};
    struct block *b;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        struct block_step steps[] = {put("a", 0, data), put("a", WRITE_BYTES, more)};
        block_begin(b, BLOCK_JOURNAL, steps, 2);
        disk_sim_die(d);
        read_next(d, "a");
        int first = sectors_of('a');
        memmove(got, got + WRITE_BYTES, WRITE_BYTES);
        int second = sectors_of('b');
        assert_true(second == 0 || first == SECTORS);
        see(&seen, first + second, 2 * SECTORS);
        disk_sim_close(d);
    }
    expect_all_seen(&seen);
}

/* A sector that two dead processes have written may be as either left it, or as it was. */
static void sim__a_cut_leaves_any_version(void **state)
{
    struct block *b;
    int versions[3] = {0};

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        begin(b, put("a", 0, data));
        disk_sim_die(d);
        b = disk_sim_block(d, &now);
        begin(b, put("a", 0, more));
        disk_sim_die(d);
        disk_sim_power_cut(d);
        read_next(d, "a");
        versions[0] += sectors_of(0);
        versions[1] += sectors_of('a');
        versions[2] += sectors_of('b');
        assert_int_equal(sectors_of(0) + sectors_of('a') + sectors_of('b'), SECTORS);
        disk_sim_close(d);
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(versions[i], SEEDS * SECTORS / 20, SEEDS * SECTORS);
}

/* The later write is read, not the one that a dead process left below it. */
static void sim__the_cache_has_the_last_version(void **state)
{
    struct block *b;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        begin(b, put("a", 0, data));
        disk_sim_die(d);
        b = disk_sim_block(d, &now);
        one(b, put("a", 0, more));
        disk_sim_die(d);
        read_next(d, "a");
        assert_int_equal(sectors_of('b'), SECTORS);
        disk_sim_power_cut(d);
        read_next(d, "a");
        assert_int_equal(sectors_of('b'), SECTORS);
        disk_sim_close(d);
    }
}

/* How many sectors of `a` a death has left, and how many of them are there after another process's order and a cut. */
static void left_after(struct disk_sim *d, const struct block_step *steps, uint32_t count,
                       int *before, int *after)
{
    disk_sim_die(d);
    read_next(d, "a");
    *before = sectors_of('a');
    struct block *b = disk_sim_block(d, &now);
    order(b, steps, count);
    disk_sim_die(d);
    disk_sim_power_cut(d);
    read_next(d, "a");
    *after = sectors_of('a');
}

static void sim__a_flush_takes_along_what_the_dead_left(void **state)
{
    struct block *b;
    int before, after, elsewhere_lost = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        one(b, create("z"));
        begin(b, put("a", 0, data));
        if (seed % 3 == 0) { /* of the same file */
            struct block_step s = put("a", WRITE_BYTES, more);
            left_after(d, &s, 1, &before, &after);
            assert_int_equal(before, after);
        } else if (seed % 3 == 1) { /* of everything */
            left_after(d, NULL, 0, &before, &after);
            assert_int_equal(before, after);
        } else { /* not of another one */
            struct block_step s = put("z", 0, more);
            left_after(d, &s, 1, &before, &after);
            assert_true(after <= before);
            elsewhere_lost += after < before;
        }
        disk_sim_close(d);
    }
    assert_in_range(elsewhere_lost, SEEDS / 20, SEEDS);
}

static void sim__names_are_lost_or_kept(void **state)
{
    struct seen made = {0}, moved = {0}, gone = {0};
    struct block *b;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        struct block_step first[] = {create("r"), create("m"), put("m", 0, data)};
        struct block_step then[] = {create("n"), put("n", 0, more), move("m", "o"), drop("r")};
        order(b, first, 3);
        block_begin(b, BLOCK_JOURNAL, then, 4);
        disk_sim_die(d);
        disk_sim_power_cut(d);
        /* One of the two names, with all that it had. */
        bool m = is_there(d, "m"), o = is_there(d, "o");
        assert_true(m != o);
        read_next(d, o ? "o" : "m");
        assert_int_equal(sectors_of('a'), SECTORS);
        see(&moved, o, 1);
        see(&made, is_there(d, "n"), 1);
        see(&gone, !is_there(d, "r"), 1);
        disk_sim_close(d);
    }
    assert_true(made.none > SEEDS / 20 && made.all > SEEDS / 20);
    assert_true(moved.none > SEEDS / 20 && moved.all > SEEDS / 20);
    assert_true(gone.none > SEEDS / 20 && gone.all > SEEDS / 20);
}

/* What is made and renamed in one order has either name, or none: a rename of what was lost brings nothing. */
static void sim__names_are_lost_each_by_itself(void **state)
{
    struct block *b;
    int tmp = 0, last = 0, none = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        struct block_step steps[] = {create("t"), put("t", 0, data), move("t", "s")};
        block_begin(b, BLOCK_JOURNAL, steps, 3);
        disk_sim_die(d);
        disk_sim_power_cut(d);
        bool t = is_there(d, "t"), s = is_there(d, "s");
        assert_false(t && s);
        tmp += t;
        last += s;
        none += !t && !s;
        assert_int_equal(disk_sim_bytes(d), FILE_BYTES * (1 + (t || s)));
        disk_sim_close(d);
    }
    assert_true(tmp > SEEDS / 20 && last > SEEDS / 20 && none > SEEDS / 20);
}

/* Nor does it bring what had the name before. */
static void sim__a_lost_file_is_not_mistaken(void **state)
{
    struct block *b;
    int renamed = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        struct block_step steps[] = {create("a"), put("a", 0, more), move("a", "y")};
        one(b, put("a", 0, data));
        block_begin(b, BLOCK_JOURNAL, steps, 3);
        disk_sim_die(d);
        disk_sim_power_cut(d);
        bool y = is_there(d, "y");
        if (y)
            read_next(d, "y");
        assert_true(!y || sectors_of('a') == 0);
        renamed += y;
        disk_sim_close(d);
    }
    assert_in_range(renamed, SEEDS / 20, SEEDS);
}

/* A file that was replaced is there again if the new one's name was not durable. */
static void sim__what_was_replaced_comes_back(void **state)
{
    struct block *b;
    int old = 0, new = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        one(b, put("a", 0, data));
        begin(b, create("a"));
        disk_sim_die(d);
        disk_sim_power_cut(d);
        read_next(d, "a");
        int n = sectors_of('a');
        assert_true(n == 0 || n == SECTORS);
        old += n > 0;
        new += n == 0;
        disk_sim_close(d);
    }
    assert_true(old > SEEDS / 20 && new > SEEDS / 20);
}

/* A growth that was not flushed is there or is not, and what was written beyond goes with it. */
static void sim__a_growth_is_lost_or_kept(void **state)
{
    struct block *b;
    int kept = 0, lost = 0, written = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        struct block_step steps[] = {
            {.act = BLOCK_GROW, .name = "a", .bytes = FILE_BYTES + WRITE_BYTES},
            put("a", FILE_BYTES, data)};
        block_begin(b, BLOCK_JOURNAL, steps, 2);
        disk_sim_die(d);
        assert_int_equal(disk_sim_platter(d, "a", FILE_BYTES, got, BLOCK_BYTES), ERR_CORRUPT);
        assert_int_equal(disk_sim_platter(d, "a", 0, got, FILE_BYTES), 0);
        bool was_longer = disk_sim_bytes(d) > FILE_BYTES;
        disk_sim_power_cut(d);
        bool longer = disk_sim_bytes(d) == FILE_BYTES + WRITE_BYTES;
        assert_true(longer || disk_sim_bytes(d) == FILE_BYTES);
        kept += longer;
        lost += was_longer && !longer;
        if (longer) {
            assert_int_equal(disk_sim_platter(d, "a", FILE_BYTES, got, WRITE_BYTES), 0);
            written += sectors_of('a') > 0;
        }
        /* What is added later is zeros. */
        b = disk_sim_block(d, &now);
        steps[0].bytes = FILE_BYTES + 2 * WRITE_BYTES;
        one(b, steps[0]);
        disk_sim_die(d);
        disk_sim_power_cut(d);
        assert_int_equal(disk_sim_bytes(d), FILE_BYTES + 2 * WRITE_BYTES);
        uint64_t from = FILE_BYTES + (longer ? WRITE_BYTES : 0);
        assert_int_equal(disk_sim_platter(d, "a", from, got, WRITE_BYTES), 0);
        assert_int_equal(sectors_of('a'), 0);
        disk_sim_close(d);
    }
    assert_true(kept > SEEDS / 20 && lost > SEEDS / 20 && written > SEEDS / 20);
}

/* A cut that loses a removal and keeps what took its room leaves more than there is room for. That can be removed. */
static void sim__what_is_too_much_can_be_removed(void **state)
{
    struct disk_sim_options o = {.bytes_max = FILE_BYTES};
    struct block_step steps[] = {drop("a"), create("b")};
    int too_much = 0;

    (void)state;
    for (o.seed = 0; o.seed < SEEDS; o.seed++) {
        struct disk_sim *d = disk_sim_open(&o);
        struct block *b = disk_sim_block(d, &now);
        one(b, create("a"));
        block_begin(b, BLOCK_JOURNAL, steps, 2);
        disk_sim_die(d);
        disk_sim_power_cut(d);
        too_much += disk_sim_bytes(d) > FILE_BYTES;
        b = disk_sim_block(d, &now);
        one(b, drop("a"));
        begin(b, create("b"));
        finish(b, BLOCK_JOURNAL);
        one(b, drop("b"));
        assert_int_equal(disk_sim_bytes(d), 0);
        disk_sim_close(d);
    }
    assert_in_range(too_much, 4, SEEDS);
}

static void sim__an_order_takes_its_time(void **state)
{
    struct disk_sim_options o = {.seed = 3, .flush_ns_min = 100, .flush_ns_max = 200};
    struct disk_sim *d = disk_sim_open(&o);
    struct block *b = disk_sim_block(d, &now);
    uint64_t least = UINT64_MAX, most = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint64_t began = now;
        begin(b, create("a"));
        uint64_t took = disk_sim_next_ns(d) - began;
        least = took < least ? took : least;
        most = took > most ? took : most;
        now += took - 1;
        assert_int_equal(block_poll(b, BLOCK_JOURNAL), BLOCK_BUSY);
        assert_int_equal(disk_sim_platter(d, "a", 0, got, BLOCK_BYTES), i ? 0 : ERR_NOTFOUND);
        now++;
        assert_int_equal(block_poll(b, BLOCK_JOURNAL), BLOCK_DONE);
        assert_int_equal(disk_sim_next_ns(d), UINT64_MAX);
    }
    assert_int_equal(least, 100);
    assert_int_equal(most, 200);
    disk_sim_slow(d, 5000);
    begin(b, create("a"));
    assert_int_equal(disk_sim_next_ns(d), now + 5000);
    finish(b, BLOCK_JOURNAL);
    disk_sim_slow(d, 0);
    begin(b, create("a"));
    assert_in_range(disk_sim_next_ns(d), now + 100, now + 200);
    disk_sim_close(d);
}

/* Its time had come, though nobody looked. */
static void sim__what_was_over_at_death_is_durable(void **state)
{
    struct block *b;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        begin(b, put("a", 0, data));
        now = disk_sim_next_ns(d);
        disk_sim_die(d);
        disk_sim_power_cut(d);
        read_next(d, "a");
        assert_int_equal(sectors_of('a'), SECTORS);
        disk_sim_close(d);
    }
}

static void sim__a_failure_leaves_any_sectors(void **state)
{
    struct seen seen = {0};
    struct block *b;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        struct block_step other = create("o");
        begin(b, put("a", 0, data));
        block_begin(b, BLOCK_BULK, &other, 1);
        disk_sim_fail(d);
        assert_int_equal(finish(b, BLOCK_JOURNAL), BLOCK_FAILED);
        assert_int_equal(block_poll(b, BLOCK_JOURNAL), BLOCK_FAILED);
        assert_int_equal(block_poll(b, BLOCK_BULK), BLOCK_FAILED);
        assert_non_null(strstr(block_failure(b), "Input/output error"));
        begin(b, put("a", 0, more));
        assert_int_equal(finish(b, BLOCK_JOURNAL), BLOCK_FAILED);
        disk_sim_die(d);
        disk_sim_power_cut(d);
        read_next(d, "a");
        see(&seen, sectors_of('a'), SECTORS);
        assert_int_equal(sectors_of('b'), 0);
        /* The next process may write again. */
        b = disk_sim_block(d, &now);
        one(b, put("a", 0, more));
        disk_sim_close(d);
    }
    expect_all_seen(&seen);
}

static void sim__a_failure_may_leave_no_file_to_write_to(void **state)
{
    struct block *b;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct disk_sim *d = make_file(seed, &b);
        struct block_step steps[] = {
            {.act = BLOCK_GROW, .name = "a", .bytes = FILE_BYTES + WRITE_BYTES},
            put("a", FILE_BYTES, data),
            create("n"),
            put("n", 0, data),
            move("n", "o"),
            drop("a")};
        disk_sim_fail(d);
        block_begin(b, BLOCK_JOURNAL, steps, 6);
        assert_int_equal(finish(b, BLOCK_JOURNAL), BLOCK_FAILED);
        disk_sim_die(d);
        assert_false(is_there(d, "n") && is_there(d, "o"));
        disk_sim_close(d);
    }
}

static int bits_set(uint64_t bytes)
{
    int n = 0;

    for (uint64_t i = 0; i < bytes; i++)
        n += __builtin_popcount(got[i]);
    return n;
}

static void sim__a_flip_is_one_bit(void **state)
{
    struct block *b;
    struct disk_sim *d = make_file(1, &b);

    (void)state;
    block_close(b);
    assert_false(disk_sim_flip_any(d, "a")); /* nothing was ever written */
    assert_true(disk_sim_flip(d, "a", 5000));
    assert_false(disk_sim_flip(d, "a", FILE_BYTES));
    assert_false(disk_sim_flip(d, "none", 0));
    read_next(d, "a");
    assert_int_equal(bits_set(FILE_BYTES), 1);
    assert_int_not_equal(got[5000], 0);
    disk_sim_power_cut(d);
    read_next(d, "a");
    assert_int_equal(bits_set(FILE_BYTES), 1);
    disk_sim_close(d);
}

static void sim__a_drawn_flip_hits_what_was_written(void **state)
{
    struct block *b;
    struct disk_sim *d = make_file(2, &b);
    int seen[8] = {0};

    (void)state;
    memset(data, 0, sizeof data);
    one(b, put("a", WRITE_BYTES, data));
    one(b, create("b"));
    one(b, put("b", 0, data));
    block_close(b);
    assert_false(disk_sim_flip_any(d, "c"));
    for (int i = 0; i < 100; i++)
        assert_true(disk_sim_flip_any(d, "a"));
    read_next(d, "b");
    assert_int_equal(bits_set(FILE_BYTES), 0);
    read_next(d, "a");
    assert_in_range(bits_set(FILE_BYTES), 50, 100);
    for (int i = 0; i < FILE_BYTES; i++)
        if (got[i])
            seen[i / BLOCK_BYTES]++;
    for (int i = 0; i < 8; i++)
        assert_true((seen[i] > 5) == (i >= 4));
    for (int i = 0; i < 100; i++)
        assert_true(disk_sim_flip_any(d, ""));
    read_next(d, "b");
    assert_in_range(bits_set(FILE_BYTES), 20, 80);
    disk_sim_close(d);
}

static void count_name(void *ctx, const char *name, uint64_t bytes)
{
    (void)name;
    (void)bytes;
    ++*(int *)ctx;
}

static void sim__a_wiped_disk_is_empty(void **state)
{
    struct block *b;
    struct disk_sim *d = make_file(1, &b);
    struct err e;
    int files = 0;

    (void)state;
    begin(b, put("a", 0, data));
    disk_sim_die(d);
    disk_sim_platter_list(d, count_name, &files);
    assert_int_equal(files, 1);
    disk_sim_wipe(d);
    b = disk_sim_block(d, &now);
    files = 0;
    block_list(b, count_name, &files, &e);
    disk_sim_platter_list(d, count_name, &files);
    assert_int_equal(files, 0);
    assert_int_equal(disk_sim_bytes(d), 0);
    assert_int_equal(block_read(b, "a", 0, got, BLOCK_BYTES, &e), ERR_NOTFOUND);
    disk_sim_close(d);
}

static void hash_file(void *ctx, const char *name, uint64_t bytes)
{
    uint64_t *h = ctx;

    *h = hash_bytes(*h, name, strlen(name));
    *h = hash_mix(*h, bytes);
}

/* Deaths, cuts and failures as a seed draws them; the end in one number. */
static uint64_t run(uint64_t seed)
{
    struct block *b;
    struct disk_sim *d = make_file(seed, &b);
    struct rng r;
    uint64_t hash = 0;

    rng_init(&r, 77);
    for (int i = 0; i < 100; i++) {
        struct block_step steps[] = {create("n"), put("n", 0, i % 2 ? more : data), move("n", "o"),
                                     put("a", rng_below(&r, 12) * BLOCK_BYTES, data)};
        block_begin(b, BLOCK_JOURNAL, steps, 4);
        hash = hash_mix(hash, disk_sim_next_ns(d));
        uint64_t fate = rng_below(&r, 3);
        if (fate == 0)
            disk_sim_fail(d);
        if (fate < 2) /* else it dies half way */
            finish(b, BLOCK_JOURNAL);
        disk_sim_die(d);
        if (rng_below(&r, 3) == 0)
            disk_sim_power_cut(d);
        disk_sim_flip_any(d, "a");
        if (!is_there(d, "a"))
            disk_sim_wipe(d);
        b = disk_sim_block(d, &now);
        one(b, create("a"));
        assert_int_equal(block_read(b, "a", 0, got, FILE_BYTES, NULL), 0);
        hash = hash_bytes(hash, got, sizeof got);
        block_list(b, hash_file, &hash, NULL);
    }
    disk_sim_close(d);
    return hash;
}

static void sim__the_same_seed_gives_the_same(void **state)
{
    (void)state;
    assert_true(run(1) == run(1));
    assert_true(run(2) == run(2));
    assert_true(run(1) != run(2));
}

/* A large file costs what was written to it. */
static void sim__zeros_cost_nothing(void **state)
{
    struct disk_sim *d = make(1);
    struct block *b = disk_sim_block(d, &now);
    struct block_step s = create("huge");

    (void)state;
    s.bytes = (uint64_t)1 << 26;
    for (int i = 0; i < 8; i++) {
        char name[] = {'h', (char)('0' + i), '\0'};
        s.name = name;
        one(b, s);
    }
    one(b, put("h0", s.bytes - WRITE_BYTES, data));
    assert_int_equal(block_read(b, "h0", s.bytes - FILE_BYTES, got, FILE_BYTES, NULL), 0);
    assert_int_equal(got[0], 0);
    assert_int_equal(got[FILE_BYTES - 1], 'a');
    assert_true(disk_sim_bytes(d) == s.bytes * 8);
    disk_sim_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sim__what_is_done_survives_a_cut),
        cmocka_unit_test(sim__a_cut_leaves_any_sectors),
        cmocka_unit_test(sim__sectors_stay_in_their_place),
        cmocka_unit_test(sim__death_leaves_a_beginning),
        cmocka_unit_test(sim__death_leaves_the_first_steps),
        cmocka_unit_test(sim__a_cut_leaves_any_version),
        cmocka_unit_test(sim__the_cache_has_the_last_version),
        cmocka_unit_test(sim__a_flush_takes_along_what_the_dead_left),
        cmocka_unit_test(sim__names_are_lost_or_kept),
        cmocka_unit_test(sim__names_are_lost_each_by_itself),
        cmocka_unit_test(sim__a_lost_file_is_not_mistaken),
        cmocka_unit_test(sim__what_was_replaced_comes_back),
        cmocka_unit_test(sim__a_growth_is_lost_or_kept),
        cmocka_unit_test(sim__what_is_too_much_can_be_removed),
        cmocka_unit_test(sim__an_order_takes_its_time),
        cmocka_unit_test(sim__what_was_over_at_death_is_durable),
        cmocka_unit_test(sim__a_failure_leaves_any_sectors),
        cmocka_unit_test(sim__a_failure_may_leave_no_file_to_write_to),
        cmocka_unit_test(sim__a_flip_is_one_bit),
        cmocka_unit_test(sim__a_drawn_flip_hits_what_was_written),
        cmocka_unit_test(sim__a_wiped_disk_is_empty),
        cmocka_unit_test(sim__the_same_seed_gives_the_same),
        cmocka_unit_test(sim__zeros_cost_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
