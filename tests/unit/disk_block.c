/* What block.h promises, of each kind of files: those of a disk, those of a file system without O_DIRECT, those with a shadow, and
 * simulated ones. */
#include "disk/block.h"

#include "base/clock.h"
#include "disk/block_file.h"
#include "disk/block_sim.h"

#include "../remove_all.h"
#include "../skip.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    BLOCKS = 8,
    FILE_BYTES = BLOCKS * BLOCK_BYTES,
    CASE_NAME_BYTES = 128,
    LIMIT_S = 60, /* only a hang takes that long */
    TMPFS = 0x01021994,
};

enum kind { DISK, MEMORY, SHADOW, SIM, KINDS };
static const char *const kind_names[KINDS] = {"file", "tmpfs", "shadow", "sim"};

struct rig {
    enum kind kind;
    char name[CASE_NAME_BYTES];
    const char *missing; /* why it cannot be shown here */
    char dir[64];
    bool mounted;
    struct disk_sim *sim;
    uint64_t now;
    struct block *b;
};

static _Alignas(BLOCK_BYTES) unsigned char data[FILE_BYTES], got[FILE_BYTES];

static void fill(unsigned char c)
{
    memset(data, c, sizeof data);
}

/* ---- rigs ---- */

static bool is_tmpfs(const char *path)
{
    struct statfs s;

    return statfs(path, &s) == 0 && s.f_type == TMPFS;
}

static void open_block(struct rig *r)
{
    struct block_file_options o = {.dir = r->dir};
    struct err e = {""};

    if (r->kind == SIM)
        r->b = disk_sim_block(r->sim, &r->now);
    else if ((r->kind == SHADOW ? block_shadow_open : block_file_open)(&o, &r->b, &e) != 0)
        fail_msg("%s", e.text);
}

static int set_up(void **state)
{
    struct rig *r = *state;
    struct disk_sim_options o = {.seed = 5, .bytes_max = 64 * FILE_BYTES};

    r->missing = r->kind == MEMORY && !is_tmpfs("/dev/shm") ? "/dev/shm is no tmpfs" : NULL;
    if (r->missing)
        return 0;
    if (r->kind == SIM)
        r->sim = disk_sim_open(&o);
    snprintf(r->dir, sizeof r->dir, "%s/tram-block-XXXXXX",
             r->kind == MEMORY ? "/dev/shm" : "/tmp");
    if (mkdtemp(r->dir) == NULL)
        return 1;
    open_block(r);
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;

    if (r->missing)
        return 0;
    block_close(r->b);
    if (r->mounted)
        umount(r->dir);
    remove_all(r->dir);
    disk_sim_close(r->sim);
    return 0;
}

static void open_again(struct rig *r)
{
    block_close(r->b);
    r->b = NULL;
    open_block(r);
}

/* ---- orders ---- */

static enum block_status finish(struct rig *r, enum block_lane lane)
{
    uint64_t limit = clock_now_ns() + LIMIT_S * 1000000000ull;
    enum block_status s;

    while ((s = block_poll(r->b, lane)) == BLOCK_BUSY) {
        r->now += 10000; /* of the simulated one */
        if (clock_now_ns() > limit)
            fail_msg("an order hangs");
        sched_yield();
    }
    return s;
}

static void expect(struct rig *r, enum block_lane lane, enum block_status wanted)
{
    enum block_status s = finish(r, lane);

    if (s != wanted)
        fail_msg("status %d, wanted %d: %s", s, wanted, block_failure(r->b));
}

static void order(struct rig *r, const struct block_step *steps, uint32_t count)
{
    block_begin(r->b, BLOCK_JOURNAL, steps, count);
    expect(r, BLOCK_JOURNAL, BLOCK_DONE);
}

static struct block_step create(const char *name)
{
    return (struct block_step){.act = BLOCK_CREATE, .name = name, .bytes = FILE_BYTES};
}

static struct block_step put(const char *name, int block, int count)
{
    return (struct block_step){.act = BLOCK_WRITE,
                               .name = name,
                               .data = data,
                               .at = (uint64_t)block * BLOCK_BYTES,
                               .bytes = (uint64_t)count * BLOCK_BYTES};
}

static struct block_step move(const char *name, const char *to)
{
    return (struct block_step){.act = BLOCK_RENAME, .name = name, .to = to};
}

static struct block_step drop(const char *name)
{
    return (struct block_step){.act = BLOCK_REMOVE, .name = name};
}

static void one(struct rig *r, struct block_step s)
{
    order(r, &s, 1);
}

/* The file has these blocks, each of one character; '-' for zeros. */
static void expect_blocks(struct rig *r, const char *name, const char *blocks)
{
    struct err e = {""};

    memset(got, 'x', sizeof got);
    if (block_read(r->b, name, 0, got, FILE_BYTES, &e) != 0)
        fail_msg("%s", e.text);
    for (int i = 0; i < FILE_BYTES; i++) {
        char c = blocks[i / BLOCK_BYTES];
        if (got[i] != (c == '-' ? 0 : c))
            fail_msg("%s: byte %d is %d, wanted %c", name, i, got[i], c);
    }
}

static void expect_missing(struct rig *r, const char *name)
{
    struct err e = {""};

    assert_int_equal(block_read(r->b, name, 0, got, BLOCK_BYTES, &e), ERR_NOTFOUND);
    assert_non_null(strstr(e.text, name));
}

static void add_name(void *ctx, const char *name, uint64_t bytes)
{
    char *names = ctx;

    assert_int_equal(bytes, FILE_BYTES);
    strcat(strcat(names, name), " ");
}

static int by_char(const void *a, const void *b)
{
    return *(const char *)a - *(const char *)b;
}

/* Files of one character each, in the order of the alphabet. */
static void expect_files(struct rig *r, const char *wanted)
{
    char names[1024] = "";
    struct err e = {""};

    assert_int_equal(block_list(r->b, add_name, names, &e), 0);
    qsort(names, strlen(names) / 2, 2, by_char);
    assert_string_equal(names, wanted);
}

#define RIG()                                                                                      \
    struct rig *r = *state;                                                                        \
    if (r->missing) {                                                                              \
        skip_note(r->name, r->missing);                                                            \
        return;                                                                                    \
    }

/* ---- cases ---- */

static void block__begins_free_and_empty(void **state)
{
    RIG();
    assert_int_equal(block_poll(r->b, BLOCK_JOURNAL), BLOCK_FREE);
    assert_int_equal(block_poll(r->b, BLOCK_BULK), BLOCK_FREE);
    expect_files(r, "");
    expect_missing(r, "a");
    assert_string_equal(block_failure(r->b), "");
}

static void block__creates_zeros(void **state)
{
    RIG();
    one(r, create("a"));
    expect_files(r, "a ");
    expect_blocks(r, "a", "--------");
}

static void block__reads_what_was_written(void **state)
{
    struct block_step steps[3];

    RIG();
    one(r, create("a"));
    fill('q');
    steps[0] = put("a", 1, 2);
    steps[1] = put("a", 6, 1);
    order(r, steps, 2);
    expect_blocks(r, "a", "-qq---q-");
    fill('r');
    steps[0] = put("a", 2, 5);
    steps[1] = put("a", 7, 1);
    order(r, steps, 2);
    expect_blocks(r, "a", "-qrrrrrr");
    assert_int_equal(block_read(r->b, "a", BLOCK_BYTES, got, 2 * BLOCK_BYTES, NULL), 0);
    assert_int_equal(got[0], 'q');
    assert_int_equal(got[BLOCK_BYTES], 'r');
}

static void block__create_replaces(void **state)
{
    RIG();
    one(r, create("a"));
    fill('q');
    one(r, put("a", 0, BLOCKS));
    one(r, create("a"));
    expect_files(r, "a ");
    expect_blocks(r, "a", "--------");
    fill('r');
    one(r, put("a", 3, 1));
    expect_blocks(r, "a", "---r----");
}

static void block__rename_replaces(void **state)
{
    struct block_step both[] = {create("a"), create("b")};

    RIG();
    order(r, both, 2);
    fill('q');
    one(r, put("a", 0, 1));
    one(r, put("b", 1, 1));
    one(r, move("a", "b"));
    expect_files(r, "b ");
    expect_blocks(r, "b", "q-------");
    expect_missing(r, "a");
    one(r, move("b", "c"));
    expect_files(r, "c ");
    expect_blocks(r, "c", "q-------");
}

static void block__removes(void **state)
{
    struct block_step both[] = {create("a"), create("b")};

    RIG();
    order(r, both, 2);
    one(r, drop("a"));
    expect_files(r, "b ");
    one(r, drop("a"));
    expect_files(r, "b ");
}

static void block__steps_are_done_in_order(void **state)
{
    struct block_step steps[] = {create("a"),    put("a", 0, 1), move("a", "b"), put("b", 1, 1),
                                 create("a"),    put("a", 2, 1), create("c"),    move("c", "d"),
                                 put("d", 3, 1), drop("d"),      create("d"),    put("b", 7, 1)};

    RIG();
    fill('s');
    order(r, steps, 12);
    expect_files(r, "a b d ");
    expect_blocks(r, "a", "--s-----");
    expect_blocks(r, "b", "ss-----s");
    expect_blocks(r, "d", "--------");
}

/* More than are kept open, and all of them in one order. */
static void block__many_files(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                        "i", "j", "k", "l", "m", "n", "o", "p"};
    struct block_step steps[BLOCK_STEPS_MAX];

    RIG();
    for (int i = 0; i < BLOCK_STEPS_MAX; i++)
        steps[i] = create(names[i]);
    order(r, steps, BLOCK_STEPS_MAX);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < BLOCK_STEPS_MAX; i++)
            steps[i] = put(names[i], (i + k) % BLOCKS, 1);
        fill((unsigned char)('1' + k));
        order(r, steps, BLOCK_STEPS_MAX);
    }
    expect_blocks(r, "a", "123-----");
    expect_blocks(r, "g", "3-----12");
    expect_blocks(r, "p", "23-----1");
    expect_files(r, "a b c d e f g h i j k l m n o p ");
}

static struct block_step lengthen(const char *name, int blocks)
{
    return (struct block_step){
        .act = BLOCK_GROW, .name = name, .bytes = (uint64_t)blocks * BLOCK_BYTES};
}

static void block__files_grow(void **state)
{
    struct block_step steps[] = {create("a"), put("a", 0, 1), lengthen("a", 4), put("a", 2, 1)};
    struct block_step more[] = {lengthen("a", BLOCKS), put("a", BLOCKS - 1, 1)};
    struct err e = {""};

    RIG();
    fill('g');
    steps[0].bytes = BLOCK_BYTES;
    order(r, steps, 4);
    assert_int_equal(block_read(r->b, "a", 0, got, 4 * BLOCK_BYTES, &e), 0);
    assert_int_equal(block_read(r->b, "a", 4 * BLOCK_BYTES, got, BLOCK_BYTES, &e), ERR_CORRUPT);
    one(r, put("a", 0, 1));
    /* Also in the lane that has it open as it was. */
    block_begin(r->b, BLOCK_BULK, more, 2);
    expect(r, BLOCK_BULK, BLOCK_DONE);
    expect_blocks(r, "a", "g-g----g");
    one(r, put("a", BLOCKS - 2, 1));
    expect_blocks(r, "a", "g-g---gg");
    one(r, lengthen("a", BLOCKS));
    open_again(r);
    expect_blocks(r, "a", "g-g---gg");
    expect_files(r, "a ");
}

static void block__may_be_waited_for(void **state)
{
    struct block_step s = create("a");

    RIG();
    assert_int_equal(block_wait(r->b, BLOCK_JOURNAL), BLOCK_FREE);
    for (int i = 0; i < 20; i++) {
        block_begin(r->b, BLOCK_JOURNAL, &s, 1);
        if (i % 3 == 0)
            expect(r, BLOCK_JOURNAL, BLOCK_DONE);
        else
            assert_int_equal(block_wait(r->b, BLOCK_JOURNAL), BLOCK_DONE);
        assert_int_equal(block_wait(r->b, BLOCK_JOURNAL), BLOCK_FREE);
    }
}

static void block__done_is_said_once(void **state)
{
    RIG();
    for (int i = 0; i < 20; i++) {
        one(r, create("a"));
        assert_int_equal(block_poll(r->b, BLOCK_JOURNAL), BLOCK_FREE);
        assert_int_equal(block_poll(r->b, BLOCK_JOURNAL), BLOCK_FREE);
        assert_int_equal(block_poll(r->b, BLOCK_BULK), BLOCK_FREE);
    }
}

static void block__lanes_are_independent(void **state)
{
    struct block_step other[] = {create("b"), put("b", 0, 2), move("b", "c")};
    struct block_step mine = put("a", 0, 1);

    RIG();
    fill('l');
    one(r, create("a"));
    block_begin(r->b, BLOCK_BULK, other, 3);
    for (int i = 0; i < 5; i++) {
        mine.at = (uint64_t)i * BLOCK_BYTES;
        order(r, &mine, 1);
    }
    block_begin(r->b, BLOCK_JOURNAL, &mine, 1);
    expect(r, BLOCK_BULK, BLOCK_DONE);
    expect(r, BLOCK_JOURNAL, BLOCK_DONE);
    assert_int_equal(block_poll(r->b, BLOCK_BULK), BLOCK_FREE);
    expect_blocks(r, "a", "lllll---");
    expect_blocks(r, "c", "ll------");
}

/* What one lane has put in the place of a file is what the other writes to, whatever it keeps open. */
static void block__a_lane_sees_what_the_other_replaced(void **state)
{
    struct block_step other[] = {create("b"), put("b", 0, 1), move("b", "a")};

    RIG();
    one(r, create("a"));
    fill('1');
    one(r, put("a", 1, 1));
    fill('2');
    block_begin(r->b, BLOCK_BULK, other, 3);
    expect(r, BLOCK_BULK, BLOCK_DONE);
    fill('3');
    one(r, put("a", 2, 1));
    expect_blocks(r, "a", "2-3-----");
    fill('4');
    block_begin(r->b, BLOCK_BULK, &other[1], 0);
    expect(r, BLOCK_BULK, BLOCK_DONE);
    one(r, put("a", 3, 1));
    expect_blocks(r, "a", "2-34----");
}

static void block__reading_fails_in_words(void **state)
{
    struct err e = {""};

    RIG();
    one(r, create("a"));
    assert_int_equal(block_read(r->b, "b", 0, got, BLOCK_BYTES, &e), ERR_NOTFOUND);
    assert_int_equal(block_read(r->b, "a", FILE_BYTES, got, BLOCK_BYTES, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.text, "it ends at 32768"));
    assert_int_equal(block_read(r->b, "a", FILE_BYTES - BLOCK_BYTES, got, 2 * BLOCK_BYTES, &e),
                     ERR_CORRUPT);
    assert_int_equal(block_read(r->b, "a", FILE_BYTES - BLOCK_BYTES, got, BLOCK_BYTES, &e), 0);
}

/* More than may be announced, in another order, from files that are not there or end; then some that are never asked for. */
static void block__what_is_announced_is_read_all_the_same(void **state)
{
    static const uint32_t turns[] = {3, 0, 7, 1, 6, 2, 5, 4};
    static _Alignas(BLOCK_BYTES) unsigned char into[2 * BLOCKS][BLOCK_BYTES];
    struct err e = {""};

    RIG();
    one(r, create("a"));
    for (char c = 0; c < BLOCKS; c++) {
        fill((char)('a' + c));
        one(r, put("a", (uint32_t)c, 1));
    }
    memset(into, 'x', sizeof into);
    block_ahead(r->b, "b", 0, into[0], BLOCK_BYTES);
    block_ahead(r->b, "a", FILE_BYTES, into[BLOCKS], BLOCK_BYTES);
    for (uint32_t i = 0; i < BLOCKS; i++)
        block_ahead(r->b, "a", (uint64_t)i * BLOCK_BYTES, into[i], BLOCK_BYTES);
    assert_int_equal(block_read(r->b, "a", FILE_BYTES, into[BLOCKS], BLOCK_BYTES, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.text, "it ends at 32768"));
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t n = turns[i];
        assert_int_equal(block_read(r->b, "a", (uint64_t)n * BLOCK_BYTES, into[n], BLOCK_BYTES, &e),
                         0);
        assert_int_equal(into[n][0], 'a' + n);
        assert_int_equal(into[n][BLOCK_BYTES - 1], 'a' + n);
    }
    for (uint32_t i = 0; i < BLOCKS; i++)
        block_ahead(r->b, "a", (uint64_t)i * BLOCK_BYTES, into[i], BLOCK_BYTES);
    block_ahead_end(r->b);
    memset(into, 'y', sizeof into);
    assert_int_equal(block_read(r->b, "a", BLOCK_BYTES, into[0], BLOCK_BYTES, &e), 0);
    assert_int_equal(into[0][0], 'b');
    assert_int_equal(into[1][0], 'y');
    block_ahead(r->b, "a", 0, into[1], BLOCK_BYTES); /* for who closes it */
}

static void block__an_order_may_be_empty(void **state)
{
    RIG();
    one(r, create("a"));
    order(r, NULL, 0);
    block_begin(r->b, BLOCK_BULK, NULL, 0);
    expect(r, BLOCK_BULK, BLOCK_DONE);
    expect_files(r, "a ");
}

static void block__closing_waits(void **state)
{
    struct block_step mine[] = {put("a", 0, BLOCKS), put("a", 0, 1)};
    struct block_step other[] = {create("b"), put("b", 0, BLOCKS), move("b", "c")};

    RIG();
    for (int i = 0; i < 5; i++) {
        one(r, create("a"));
        fill((unsigned char)('0' + i));
        block_begin(r->b, BLOCK_JOURNAL, mine, 2);
        block_begin(r->b, BLOCK_BULK, other, 3);
        open_again(r);
        char wanted[BLOCKS + 1] = "";
        memset(wanted, '0' + i, BLOCKS);
        expect_blocks(r, "a", wanted);
        expect_blocks(r, "c", wanted);
        expect_files(r, "a c ");
    }
}

static void block__the_longest_name_will_do(void **state)
{
    char name[BLOCK_NAME_BYTES], to[BLOCK_NAME_BYTES];

    RIG();
    memset(name, 'n', sizeof name);
    memset(to, 't', sizeof to);
    name[BLOCK_NAME_BYTES - 1] = to[BLOCK_NAME_BYTES - 1] = '\0';
    one(r, create(name));
    one(r, move(name, to));
    fill('w');
    one(r, put(to, 0, 1));
    open_again(r);
    expect_blocks(r, to, "w-------");
    expect_missing(r, name);
}

static void block__names_without_folder(void **state)
{
    static const char *const bad[] = {NULL, "",    ".",      "..", ".a",      "/a",
                                      "-a", "a/b", "shadow", " ",  "\xc3\xa4"};
    char name[BLOCK_NAME_BYTES + 1];

    (void)state;
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(block_name_fits(bad[i]));
    memset(name, 'a', sizeof name);
    name[BLOCK_NAME_BYTES] = '\0';
    assert_false(block_name_fits(name));
    name[BLOCK_NAME_BYTES - 1] = '\0';
    assert_true(block_name_fits(name));
    assert_true(block_name_fits("journal.00001") && block_name_fits("9") && block_name_fits("Z.-"));
}

static void block__a_failure_is_for_good(void **state)
{
    struct block_step good = put("a", 0, 1);
    struct block_step bad = put("a", BLOCKS, 1); /* beyond its end */

    RIG();
    one(r, create("a"));
    if (r->sim) {
        disk_sim_fail(r->sim);
        bad = good;
    }
    block_begin(r->b, BLOCK_BULK, &bad, 1);
    expect(r, BLOCK_BULK, BLOCK_FAILED);
    for (int i = 0; i < 3; i++) {
        expect(r, BLOCK_JOURNAL, BLOCK_FAILED);
        expect(r, BLOCK_BULK, BLOCK_FAILED);
        assert_non_null(strstr(block_failure(r->b),
                               r->sim ? "a: Input/output error" : "/a at 32768: it ends at 32768"));
        block_begin(r->b, BLOCK_JOURNAL, &good, 1);
        block_begin(r->b, BLOCK_BULK, &good, 1);
    }
    /* Only for this process. */
    open_again(r);
    order(r, &good, 1);
}

/* A place that has room for less than a handful of files. */
static bool make_narrow(struct rig *r)
{
    if (r->sim)
        return true;
    block_close(r->b);
    r->b = NULL;
    r->mounted = (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
                 mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                 mount("none", r->dir, "tmpfs", 0, "size=1m") == 0;
    open_block(r);
    return r->mounted;
}

static int count_entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;

    while (d && readdir(d) != NULL)
        n++;
    if (d)
        closedir(d);
    return n - 2;
}

static void block__no_room_leaves_nothing(void **state)
{
    struct block_step steps[] = {create("a"), put("a", 0, 1), create("b"), create("c")};

    RIG();
    if (!make_narrow(r)) {
        skip_note(r->name, "no file system of 1 MiB can be mounted");
        return;
    }
    one(r, create("b"));
    fill('b');
    one(r, put("b", 0, 1));
    fill('a');
    steps[2].bytes = (uint64_t)100 << 20;
    int before = count_entries(r->dir);
    for (int i = 0; i < 3; i++) {
        block_begin(r->b, BLOCK_BULK, steps, 4);
        expect(r, BLOCK_BULK, BLOCK_NO_ROOM);
        assert_int_equal(block_poll(r->b, BLOCK_BULK), BLOCK_FREE);
        expect_files(r, "a b ");
        expect_blocks(r, "a", "a-------");
        expect_blocks(r, "b", "b-------");
        if (!r->sim)
            assert_int_equal(count_entries(r->dir), before + 1);
    }
    struct block_step longer = {.act = BLOCK_GROW, .name = "b", .bytes = (uint64_t)100 << 20};
    block_begin(r->b, BLOCK_BULK, &longer, 1);
    expect(r, BLOCK_BULK, BLOCK_NO_ROOM);
    expect_files(r, "a b ");
    expect_blocks(r, "b", "b-------");
    /* And all goes on. */
    steps[2].bytes = FILE_BYTES;
    order(r, steps, 4);
    expect_files(r, "a b c ");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(block__begins_free_and_empty),
    cmocka_unit_test(block__creates_zeros),
    cmocka_unit_test(block__reads_what_was_written),
    cmocka_unit_test(block__create_replaces),
    cmocka_unit_test(block__rename_replaces),
    cmocka_unit_test(block__removes),
    cmocka_unit_test(block__steps_are_done_in_order),
    cmocka_unit_test(block__many_files),
    cmocka_unit_test(block__files_grow),
    cmocka_unit_test(block__may_be_waited_for),
    cmocka_unit_test(block__done_is_said_once),
    cmocka_unit_test(block__lanes_are_independent),
    cmocka_unit_test(block__a_lane_sees_what_the_other_replaced),
    cmocka_unit_test(block__reading_fails_in_words),
    cmocka_unit_test(block__what_is_announced_is_read_all_the_same),
    cmocka_unit_test(block__an_order_may_be_empty),
    cmocka_unit_test(block__closing_waits),
    cmocka_unit_test(block__the_longest_name_will_do),
    cmocka_unit_test(block__a_failure_is_for_good),
    cmocka_unit_test(block__no_room_leaves_nothing),
};

enum { CASES = sizeof cases / sizeof cases[0] };

int main(void)
{
    static struct rig rigs[KINDS * CASES];
    struct CMUnitTest tests[KINDS * CASES + 1] = {
        [KINDS * CASES] = cmocka_unit_test(block__names_without_folder)};

    for (int i = 0; i < KINDS * CASES; i++) {
        struct rig *r = &rigs[i];
        r->kind = (enum kind)(i / CASES);
        snprintf(r->name, sizeof r->name, "%s, %s", cases[i % CASES].name, kind_names[r->kind]);
        tests[i] = (struct CMUnitTest){.name = r->name,
                                       .test_func = cases[i % CASES].test_func,
                                       .setup_func = set_up,
                                       .teardown_func = tear_down,
                                       .initial_state = r};
    }
    return run_with_skips(tests);
}
