/* Real files: what is asked of the system and in which order, what becomes of its errors, and processes that are killed. */
#include "disk/block_file.h"

#include "base/clock.h"
#include "base/rng.h"
#include "disk/block_shadow_impl.h"

#include "../remove_all.h"
#include "../skip.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    BLOCKS = 16,
    FILE_BYTES = BLOCKS * BLOCK_BYTES,
    LIMIT_S = 60, /* only a hang takes that long */
    CALLS_MAX = 4096,
    ROUNDS = 60, /* of killing */
};

static _Alignas(BLOCK_BYTES) unsigned char data[FILE_BYTES], got[FILE_BYTES];
static char dir[64];
static atomic_int overs;

/* ---- the system, as the code under test sees it ---- */

enum call { PWRITE, FDATASYNC, FSYNC, FALLOCATE, RENAMEAT, CALLS };

static pthread_mutex_t calls_lock = PTHREAD_MUTEX_INITIALIZER;
static char calls[CALLS_MAX]; /* one letter each: w, d, s (a file), S (the directory), r */
static int call_count;
static atomic_int fail_with[CALLS]; /* errno of the next such call; 0: none */
static atomic_long shorten;         /* the next pwrite writes no more, and does not fail */
static atomic_bool noting;
static atomic_bool dies_in_flush; /* where a shadow waits as long as a disk would */

static void note(char c)
{
    if (!atomic_load(&noting))
        return;
    pthread_mutex_lock(&calls_lock);
    if (call_count < CALLS_MAX - 1)
        calls[call_count++] = c;
    calls[call_count] = '\0';
    pthread_mutex_unlock(&calls_lock);
}

static bool fails(enum call c)
{
    int why = atomic_exchange(&fail_with[c], 0);

    if (why != 0)
        errno = why;
    return why != 0;
}

static bool is_dir(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
    long most = atomic_exchange(&shorten, 0);

    note('w');
    if (most > 0 && bytes > (size_t)most)
        bytes = (size_t)most;
    else if (fails(PWRITE))
        return -1;
    return syscall(SYS_pwrite64, fd, from, bytes, at);
}

int fdatasync(int fd)
{
    note('d');
    return fails(FDATASYNC) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    note(is_dir(fd) ? 'S' : 's');
    return fails(FSYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fallocate(int fd, int mode, off_t at, off_t bytes)
{
    return fails(FALLOCATE) ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    note('r');
    return fails(RENAMEAT) ? -1 : (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
    if (atomic_load(&dies_in_flush))
        kill(getpid(), SIGKILL);
    return (int)syscall(SYS_nanosleep, t, left);
}

/* ---- fixture ---- */

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/tram-block-XXXXXX");
    call_count = 0;
    atomic_store(&noting, false);
    for (int i = 0; i < CALLS; i++)
        atomic_store(&fail_with[i], 0);
    return mkdtemp(dir) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    remove_all(dir);
    return 0;
}

static void count_over(void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
}

static struct block *open_rate(bool shadow, uint64_t bulk_bytes_per_s)
{
    struct block_file_options o = {
        .dir = dir, .over = count_over, .ctx = &overs, .bulk_bytes_per_s = bulk_bytes_per_s};
    struct block *b = NULL;
    struct err e = {""};

    if ((shadow ? block_shadow_open : block_file_open)(&o, &b, &e) != 0)
        fail_msg("%s", e.text);
    return b;
}

static struct block *open_file(void)
{
    return open_rate(false, 0);
}

static enum block_status run(struct block *b, const struct block_step *steps, uint32_t count)
{
    block_begin(b, BLOCK_JOURNAL, steps, count);
    return block_wait(b, BLOCK_JOURNAL);
}

static void order(struct block *b, const struct block_step *steps, uint32_t count)
{
    enum block_status s = run(b, steps, count);

    if (s != BLOCK_DONE)
        fail_msg("status %d: %s", s, block_failure(b));
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

static void one(struct block *b, struct block_step s)
{
    order(b, &s, 1);
}

static void read_file(struct block *b, const char *name)
{
    struct err e = {""};

    if (block_read(b, name, 0, got, FILE_BYTES, &e) != 0)
        fail_msg("%s", e.text);
}

static bool exists(const char *name)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static const char *in_dir(const char *fmt)
{
    static char text[256];

    snprintf(text, sizeof text, fmt, dir);
    return text;
}

/* ---- what is asked of the system ---- */

static const char *calls_of(struct block *b, const struct block_step *steps, uint32_t count)
{
    call_count = 0;
    atomic_store(&noting, true);
    order(b, steps, count);
    atomic_store(&noting, false);
    return calls;
}

static void file__flushes_what_it_wrote(void **state)
{
    struct block *b = open_file();
    struct block_step both[] = {put("a", 0, 1), put("b", 0, 1)};
    struct block_step twice[] = {put("a", 0, 1), put("a", 3, 1)};
    struct block_step made = create("c");
    struct block_step grown = {.act = BLOCK_GROW, .name = "c", .bytes = 2 * FILE_BYTES};
    struct block_step named[] = {put("a", 0, 1),
                                 {.act = BLOCK_RENAME, .name = "a", .to = "d"},
                                 {.act = BLOCK_REMOVE, .name = "b"}};

    (void)state;
    one(b, create("a"));
    one(b, create("b"));
    assert_string_equal(calls_of(b, both, 1), "wd");
    assert_string_equal(calls_of(b, both, 2), "wwdd");
    assert_string_equal(calls_of(b, twice, 2), "wwd");
    /* It gets its name when it is all there, and the directory is flushed behind. */
    assert_string_equal(calls_of(b, &made, 1), "wsrS");
    assert_string_equal(calls_of(b, named, 3), "wdrS");
    assert_string_equal(calls_of(b, &grown, 1), "d");
    /* Both files that there are, and the directory. */
    assert_string_equal(calls_of(b, NULL, 0), "ssS");
    block_close(b);
}

/* Of more files than are kept open each is flushed. */
static void file__flushes_all_that_it_wrote(void **state)
{
    struct block *b = open_file();
    struct block_step steps[BLOCK_STEPS_MAX];
    char names[BLOCK_STEPS_MAX][2];
    int writes = 0, flushes = 0;

    (void)state;
    for (int i = 0; i < BLOCK_STEPS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "%c", 'a' + i);
        one(b, create(names[i]));
        steps[i] = put(names[i], 0, 1);
    }
    for (const char *c = calls_of(b, steps, BLOCK_STEPS_MAX); *c; c++) {
        writes += *c == 'w';
        flushes += *c == 'd';
    }
    assert_int_equal(writes, BLOCK_STEPS_MAX);
    assert_int_equal(flushes, BLOCK_STEPS_MAX);
    /* The first of those that make place cannot be flushed. */
    one(b, create("z"));
    atomic_store(&fail_with[FDATASYNC], EIO);
    assert_int_equal(run(b, steps, BLOCK_STEPS_MAX), BLOCK_FAILED);
    assert_string_equal(block_failure(b), in_dir("flush %s/a: Input/output error"));
    block_close(b);
}

static bool can_direct(void)
{
    int fd = open(in_dir("%s/a"), O_RDONLY | O_DIRECT);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool has_direct(int fd)
{
    return fcntl(fd, F_GETFL) & O_DIRECT;
}

static void file__passes_the_page_cache_by(void **state)
{
    struct block *b = open_file();
    char link[64], path[256];
    int of_it = 0, direct = 0;

    (void)state;
    one(b, create("a"));
    one(b, put("a", 0, 1));
    read_file(b, "a");
    if (!can_direct()) {
        block_close(b);
        SKIP("no O_DIRECT in /tmp");
    }
    for (int fd = 0; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof path - 1);
        path[n > 0 ? n : 0] = '\0';
        bool is_it = strcmp(path, in_dir("%s/a")) == 0;
        of_it += is_it;
        direct += is_it && has_direct(fd);
    }
    assert_int_equal(of_it, 2); /* of the lane and of the reader, which keep it open */
    assert_int_equal(direct, 2);
    block_close(b);
}

/* Zeros that are written: a flush of what is written over them has no metadata. */
static void file__has_real_zeros(void **state)
{
    struct block *b = open_file();
    struct stat st;

    (void)state;
    one(b, create("a"));
    assert_int_equal(stat(in_dir("%s/a"), &st), 0);
    assert_int_equal(st.st_size, FILE_BYTES);
    assert_true(st.st_blocks * 512 >= FILE_BYTES);
    assert_int_equal(st.st_mode & 0777, 0600);
    block_close(b);
}

static void file__goes_on_after_interruptions(void **state)
{
    static const char wanted[] = "hi--hij-hi--h---";
    struct block *b = open_file();

    (void)state;
    one(b, create("a"));
    if (!can_direct()) {
        block_close(b);
        SKIP("no O_DIRECT in /tmp");
    }
    for (int i = 0; i < BLOCKS; i++)
        memset(data + i * BLOCK_BYTES, 'h' + i, BLOCK_BYTES);
    atomic_store(&fail_with[PWRITE], EINTR);
    one(b, put("a", 0, 2));
    atomic_store(&shorten, BLOCK_BYTES);
    one(b, put("a", 4, 3));
    atomic_store(&shorten, 1000); /* where O_DIRECT cannot go on */
    one(b, put("a", 8, 2));
    one(b, create("b"));                      /* after which files are opened anew */
    atomic_store(&fail_with[PWRITE], EINVAL); /* no O_DIRECT after all */
    one(b, put("a", 12, 1));
    read_file(b, "a");
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 0; k < BLOCK_BYTES; k++)
            assert_int_equal(got[i * BLOCK_BYTES + k], wanted[i] == '-' ? 0 : wanted[i]);
    block_close(b);
}

static void expect_failure(enum call c, int why, const struct block_step *steps, uint32_t count,
                           const char *says)
{
    struct block *b = open_file();

    if (!exists("a"))
        one(b, create("a"));
    atomic_store(&fail_with[c], why);
    assert_int_equal(run(b, steps, count), BLOCK_FAILED);
    if (strcmp(block_failure(b), in_dir(says)) != 0)
        fail_msg("says '%s', wanted '%s'", block_failure(b), in_dir(says));
    assert_int_equal(block_wait(b, BLOCK_BULK), BLOCK_FAILED);
    block_close(b);
}

static void file__says_what_failed(void **state)
{
    struct block_step p = put("a", 2, 1), c = create("b"), gone = put("none", 0, 1);
    struct block_step m = {.act = BLOCK_RENAME, .name = "none", .to = "b"};
    struct block_step g = {.act = BLOCK_GROW, .name = "a", .bytes = 2 * FILE_BYTES};
    struct block_step far = put("a", BLOCKS - 1, 2);

    (void)state;
    expect_failure(PWRITE, EIO, &p, 1, "write %s/a at 8192: Input/output error");
    expect_failure(PWRITE, ENOSPC, &p, 1, "write %s/a at 8192: No space left on device");
    expect_failure(FDATASYNC, EIO, &p, 1, "flush %s/a: Input/output error");
    expect_failure(FSYNC, EIO, &c, 1, "make %s/b: Input/output error");
    assert_false(exists("b"));
    expect_failure(FSYNC, EIO, NULL, 0, "flush %s/a: Input/output error");
    expect_failure(FALLOCATE, EIO, &g, 1, "lengthen %s/a: Input/output error");
    expect_failure(RENAMEAT, EIO, &c, 1, "make %s/b: Input/output error");
    expect_failure(FALLOCATE, EFBIG, &c, 1, "make %s/b: File too large");
    expect_failure(CALLS - 1, 0, &m, 1, "rename %s/none: No such file or directory");
    expect_failure(CALLS - 1, 0, &gone, 1, "open %s/none: No such file or directory");
    expect_failure(CALLS - 1, 0, &far, 1, "write %s/a at 61440: it ends at 65536");
    assert_false(exists("b"));
    assert_false(exists(".journal.new"));
}

/* A flush that failed is not tried again: the second one would succeed, and nothing be written. */
static void file__flushes_once(void **state)
{
    struct block *b = open_file();
    struct block_step p = put("a", 2, 1);

    (void)state;
    one(b, create("a"));
    atomic_store(&fail_with[FDATASYNC], EIO);
    call_count = 0;
    atomic_store(&noting, true);
    assert_int_equal(run(b, &p, 1), BLOCK_FAILED);
    assert_int_equal(run(b, &p, 1), BLOCK_FAILED);
    block_close(b);
    atomic_store(&noting, false);
    assert_string_equal(calls, "wd");
}

/* The last thing that an order does is to flush the directory. */
static void file__a_directory_that_cannot_be_flushed_is_a_failure(void **state)
{
    struct block *b = open_file();
    struct block_step s = {.act = BLOCK_REMOVE, .name = "a"};

    (void)state;
    one(b, create("a"));
    atomic_store(&fail_with[FSYNC], EIO);
    assert_int_equal(run(b, &s, 1), BLOCK_FAILED);
    assert_string_equal(block_failure(b), in_dir("flush %s/: Input/output error"));
    block_close(b);
}

static void expect_no_room(enum call c, int why)
{
    struct block *b = open_file();
    struct block_step steps[] = {put("a", 0, 1), create("b"), create("c")};

    memset(data, 'r', sizeof data);
    one(b, create("a"));
    memset(got, 0, sizeof got);
    /* A write before it would meet the error first. */
    uint32_t skip = c == PWRITE;
    atomic_store(&fail_with[c], why);
    assert_int_equal(run(b, steps + skip, 3 - skip), BLOCK_NO_ROOM);
    assert_false(exists("b") || exists("c") || exists(".journal.new"));
    one(b, create("c"));
    read_file(b, "a");
    assert_int_equal(got[0], skip ? 0 : 'r');
    one(b, (struct block_step){.act = BLOCK_REMOVE, .name = "c"});
    block_close(b);
}

/* After half of what is added was written. */
static void file__what_cannot_grow_is_as_long_as_it_was(void **state)
{
    struct block *b = open_file();
    struct block_step s = {.act = BLOCK_GROW, .name = "a", .bytes = 2 * FILE_BYTES};
    struct stat st;

    (void)state;
    one(b, create("a"));
    atomic_store(&fail_with[FALLOCATE], EOPNOTSUPP);
    atomic_store(&shorten, BLOCK_BYTES);
    atomic_store(&fail_with[PWRITE], ENOSPC);
    assert_int_equal(run(b, &s, 1), BLOCK_NO_ROOM);
    assert_int_equal(stat(in_dir("%s/a"), &st), 0);
    assert_int_equal(st.st_size, FILE_BYTES);
    one(b, s);
    assert_int_equal(stat(in_dir("%s/a"), &st), 0);
    assert_int_equal(st.st_size, 2 * FILE_BYTES);
    block_close(b);
}

static void file__a_full_disk_is_no_failure(void **state)
{
    (void)state;
    expect_no_room(FALLOCATE, ENOSPC);
    expect_no_room(FALLOCATE, EDQUOT);
    expect_no_room(PWRITE, ENOSPC);
    expect_no_room(FSYNC, ENOSPC);
    expect_no_room(RENAMEAT, ENOSPC);
}

static void file__needs_no_fallocate(void **state)
{
    struct block *b = open_file();

    (void)state;
    atomic_store(&fail_with[FALLOCATE], EOPNOTSUPP);
    one(b, create("a"));
    read_file(b, "a");
    atomic_store(&fail_with[FALLOCATE], EOPNOTSUPP);
    one(b, (struct block_step){.act = BLOCK_GROW, .name = "a", .bytes = 2 * FILE_BYTES});
    assert_int_equal(block_read(b, "a", FILE_BYTES, got, FILE_BYTES, NULL), 0);
    assert_int_equal(got[0], 0);
    block_close(b);
}

static void file__tells_when_an_order_is_over(void **state)
{
    struct block *b = open_file();

    (void)state;
    atomic_store(&overs, 0);
    for (int i = 1; i <= 10; i++) {
        one(b, create("a"));
        while (atomic_load(&overs) < i)
            sched_yield();
        assert_int_equal(atomic_load(&overs), i);
    }
    block_close(b);
}

/* The bulk lane keeps its pace, and the journal does not wait for it. */
static void file__slows_the_bulk_lane(void **state)
{
    enum { BYTES = 4 << 20, RATE = 8 << 20 };
    struct block *b = open_rate(false, RATE);
    struct block_step c = {.act = BLOCK_CREATE, .name = "bulk", .bytes = BYTES};
    uint64_t began = clock_now_ns();
    int orders = 0;

    (void)state;
    one(b, create("a"));
    block_begin(b, BLOCK_BULK, &c, 1);
    while (block_poll(b, BLOCK_BULK) == BLOCK_BUSY) {
        one(b, put("a", orders++ % BLOCKS, 1));
        assert_true(clock_now_ns() - began < LIMIT_S * 1000000000ull);
    }
    uint64_t took = clock_now_ns() - began;
    assert_true(took > 350000000); /* of 500 ms */
    assert_true(orders >= 2);
    block_close(b);
}

/* Closing waits for it, but not for its pace. */
static void file__closing_is_not_slowed(void **state)
{
    struct block *b = open_rate(false, 4096);
    struct block_step c = {.act = BLOCK_CREATE, .name = "a", .bytes = 8 << 20};
    uint64_t began = clock_now_ns();
    struct stat st;

    (void)state;
    block_begin(b, BLOCK_BULK, &c, 1);
    block_close(b);
    assert_true(clock_now_ns() - began < LIMIT_S * 1000000000ull); /* at its pace half an hour */
    assert_int_equal(stat(in_dir("%s/a"), &st), 0);
    assert_int_equal(st.st_size, 8 << 20);
}

/* ---- processes ---- */

/* A process that has another directory, for which it is not to be taken. */
static pid_t lock_elsewhere(void)
{
    int fds[2];
    char c = 0;

    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = open(in_dir("%s/elsewhere"), O_RDONLY | O_DIRECTORY);
        if (flock(fd, LOCK_EX) != 0 || write(fds[1], &c, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(fds[0], &c, 1), 1);
    close(fds[0]);
    close(fds[1]);
    return pid;
}

static void file__a_directory_has_one_process(void **state)
{
    struct block *other = NULL;
    struct block_file_options o = {.dir = dir};
    struct err e = {""};
    char says[256];

    (void)state;
    assert_int_equal(mkdir(in_dir("%s/elsewhere"), 0700), 0);
    pid_t before = lock_elsewhere();
    struct block *b = open_file();
    assert_int_equal(rmdir(in_dir("%s/elsewhere")), 0);
    assert_int_equal(mkdir(in_dir("%s/elsewhere"), 0700), 0);
    pid_t behind = lock_elsewhere();
    assert_int_equal(block_file_open(&o, &other, &e), ERR_EXISTS);
    snprintf(says, sizeof says, "%s: process %d has it", dir, (int)getpid());
    assert_string_equal(e.text, says);
    assert_int_equal(block_shadow_open(&o, &other, &e), ERR_EXISTS);
    assert_int_equal(block_shadow_cut(dir, 1, &e), ERR_EXISTS);
    kill(before, SIGKILL);
    kill(behind, SIGKILL);
    waitpid(before, NULL, 0);
    waitpid(behind, NULL, 0);
    block_close(b);
    b = open_file();
    block_close(b);
    o.dir = "/tmp/tram-no-such-folder";
    assert_int_equal(block_file_open(&o, &other, &e), ERR_SYSTEM);
    assert_string_equal(e.text, "open /tmp/tram-no-such-folder: No such file or directory");
}

static void count_file(void *ctx, const char *name, uint64_t bytes)
{
    (void)name;
    (void)bytes;
    ++*(int *)ctx;
}

static void file__lists_its_own_files_alone(void **state)
{
    struct block *b;
    int files = 0;

    (void)state;
    close(open(in_dir("%s/.bulk.new"), O_CREAT | O_RDWR, 0600));
    close(open(in_dir("%s/.hidden"), O_CREAT | O_RDWR, 0600));
    assert_int_equal(mkdir(in_dir("%s/folder"), 0700), 0);
    assert_int_equal(symlink("elsewhere", in_dir("%s/link")), 0);
    b = open_rate(true, 0);
    assert_false(exists(".bulk.new")); /* what was being made when a process died */
    assert_true(exists(".hidden"));
    one(b, create("a"));
    assert_int_equal(block_list(b, count_file, &files, NULL), 0);
    assert_int_equal(files, 1);
    block_close(b);
}

/* In a process of its own, which is killed when it has written its last order and not yet flushed it. */
static void die_in_flush(void (*orders)(struct block *b))
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        struct block *b = open_rate(true, 0);
        orders(b);
        _exit(1);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status));
}

static void last_order(struct block *b, const struct block_step *steps, uint32_t count)
{
    atomic_store(&dies_in_flush, true);
    run(b, steps, count);
}

static void cut(int seed)
{
    struct err e = {""};

    if (block_shadow_cut(dir, (uint64_t)seed, &e) != 0)
        fail_msg("%s", e.text);
    assert_false(exists("shadow"));
}

/* How many of the sectors of a block range are whole ones of that character; the others are whole zeros. */
static int count_sectors(int block, int blocks, int c)
{
    int n = 0;

    for (int i = block * BLOCK_BYTES; i < (block + blocks) * BLOCK_BYTES; i += BLOCK_SECTOR_BYTES) {
        for (int k = 0; k < BLOCK_SECTOR_BYTES; k++)
            assert_int_equal(got[i + k], got[i]);
        assert_true(got[i] == c || got[i] == 0);
        n += got[i] == c;
    }
    return n;
}

enum { OLD = 4, SECTORS = OLD * BLOCK_BYTES / BLOCK_SECTOR_BYTES };

/* Blocks 0 to 3 of `a` are durable; 8 to 11 are not. */
static void write_and_die(struct block *b)
{
    struct block_step first[] = {create("a"), put("a", 0, OLD)};
    struct block_step then = put("a", 8, OLD);

    memset(data, 'k', sizeof data);
    order(b, first, 2);
    last_order(b, &then, 1);
}

static void read_again(const char *name)
{
    struct block *b = open_rate(true, 0);

    read_file(b, name);
    block_close(b);
}

static void shadow__a_kill_alone_loses_nothing(void **state)
{
    (void)state;
    die_in_flush(write_and_die);
    for (int i = 0; i < 2; i++) {
        read_again("a");
        assert_int_equal(count_sectors(0, OLD, 'k'), SECTORS);
        assert_int_equal(count_sectors(8, OLD, 'k'), SECTORS);
    }
}

static void shadow__a_cut_leaves_any_sectors(void **state)
{
    int none = 0, part = 0, all = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        die_in_flush(write_and_die);
        if (i % 2)
            read_again("a"); /* another process between them changes nothing */
        cut(i);
        read_again("a");
        assert_int_equal(count_sectors(0, OLD, 'k'), SECTORS);
        assert_int_equal(count_sectors(4, OLD, 'k') + count_sectors(12, OLD, 'k'), 0);
        int n = count_sectors(8, OLD, 'k');
        none += n == 0;
        all += n == SECTORS;
        part += n > 0 && n < SECTORS;
    }
    assert_true(none > 3 && part > 3 && all > 3);
}

/* By an order without steps, or by one that writes to the same file; not by one that writes to another. */
static void shadow__a_flush_takes_along_what_the_dead_left(void **state)
{
    int lost = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        die_in_flush(write_and_die);
        struct block *b = open_rate(true, 0);
        if (i % 3 == 0)
            order(b, NULL, 0);
        else if (i % 3 == 1)
            one(b, put("a", 15, 1));
        else
            one(b, create("b"));
        block_close(b);
        cut(i);
        read_again("a");
        int n = count_sectors(8, OLD, 'k');
        lost += n < SECTORS;
        assert_true(n == SECTORS || i % 3 == 2);
        remove_all(dir);
        assert_int_equal(mkdir(dir, 0700), 0);
    }
    assert_true(lost > 3);
}

static void rename_and_die(struct block *b)
{
    struct block_step first[] = {create("m"), put("m", 0, 1), create("o"), put("o", 1, 1),
                                 create("r"), put("r", 2, 1), create("c"), put("c", 3, 1)};
    struct block_step then[] = {{.act = BLOCK_RENAME, .name = "m", .to = "o"},
                                {.act = BLOCK_REMOVE, .name = "r"},
                                create("c"),
                                create("n"),
                                put("n", 5, 1),
                                {.act = BLOCK_RENAME, .name = "n", .to = "p"}};

    memset(data, 'k', sizeof data);
    order(b, first, 8);
    last_order(b, then, 6);
}

/* The only block of the file that is not zeros; -1: there is none. */
static int block_in(const char *name)
{
    int found = -1;

    read_again(name);
    for (int i = 0; i < BLOCKS; i++)
        if (got[i * BLOCK_BYTES] != 0) {
            assert_int_equal(found, -1);
            found = i;
        }
    return found;
}

/* Each change of a name is there or is not: then the name leads to what it led to before. */
static void shadow__a_cut_loses_names(void **state)
{
    int kept[4] = {0}, under_n = 0, under_p = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        die_in_flush(rename_and_die);
        assert_int_equal(block_in("o"), 0);
        assert_int_equal(block_in("c"), -1);
        assert_int_equal(block_in("p"), 5);
        assert_false(exists("m") || exists("r") || exists("n"));
        cut(i);
        kept[0] += block_in("o") == 0;
        assert_true(exists("m") ? block_in("m") == 0 && block_in("o") == 1 : block_in("o") == 0);
        kept[1] += !exists("r");
        assert_true(!exists("r") || block_in("r") == 2);
        kept[2] += block_in("c") == -1;
        assert_true(block_in("c") == -1 || block_in("c") == 3);
        kept[3] += exists("n") || exists("p");
        assert_false(exists("n") && exists("p"));
        under_n += exists("n");
        under_p += exists("p");
        remove_all(dir);
        assert_int_equal(mkdir(dir, 0700), 0);
    }
    for (int i = 0; i < 4; i++)
        assert_in_range(kept[i], 4, ROUNDS - 4);
    assert_true(under_n > 0 && under_p > 3);
}

static void grow_and_die(struct block *b)
{
    struct block_step steps[] = {
        {.act = BLOCK_GROW, .name = "a", .bytes = FILE_BYTES + BLOCK_BYTES}, put("a", BLOCKS, 1)};

    memset(data, 'k', sizeof data);
    one(b, create("a"));
    last_order(b, steps, 2);
}

static void shadow__a_growth_is_lost_or_kept(void **state)
{
    struct stat st;
    int kept = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        die_in_flush(grow_and_die);
        cut(i);
        assert_int_equal(stat(in_dir("%s/a"), &st), 0);
        assert_true(st.st_size == FILE_BYTES || st.st_size == FILE_BYTES + BLOCK_BYTES);
        kept += st.st_size > FILE_BYTES;
    }
    assert_in_range(kept, 4, ROUNDS - 4);
    struct block *b = open_rate(true, 0);
    one(b, (struct block_step){.act = BLOCK_GROW, .name = "a", .bytes = 2 * FILE_BYTES});
    block_close(b);
    cut(1);
    assert_int_equal(stat(in_dir("%s/a"), &st), 0);
    assert_int_equal(st.st_size, 2 * FILE_BYTES);
}

/* A file may have the inode of one that was removed, and that had unflushed writes. Not every file system gives one
 * out again soon, so here the file is named anew. */
static void shadow__a_new_file_has_no_past(void **state)
{
    struct err e = {""};
    struct shadow *sh = NULL;
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
    int fd = open(in_dir("%s/a"), O_RDWR | O_CREAT, 0600);

    (void)state;
    memset(data, 'k', sizeof data);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
        assert_int_equal(shadow_open(dir, dir_fd, &sh, &e), 0);
        assert_int_equal(shadow_write(sh, fd, 0, FILE_BYTES), 0);
        assert_int_equal(pwrite(fd, data, FILE_BYTES, 0), FILE_BYTES);
        assert_int_equal(shadow_create(sh, fd, "a"), 0);
        shadow_flush_names(sh);
        shadow_close(sh);
        cut(i);
        read_again("a");
        assert_int_equal(count_sectors(0, BLOCKS, 'k'), BLOCKS * BLOCK_BYTES / BLOCK_SECTOR_BYTES);
        cut(i);
    }
    close(fd);
    close(dir_fd);
}

static void swap_and_die(struct block *b)
{
    struct block_step first[] = {create("m"), put("m", 0, 1), create("o"), put("o", 1, 1)};
    struct block_step then[] = {{.act = BLOCK_RENAME, .name = "m", .to = "o"}, create("m")};

    memset(data, 'k', sizeof data);
    order(b, first, 4);
    last_order(b, then, 2);
}

/* Where the old name has gone to another file, what is to have it again is lost: any of the steps may be the only one. */
static void shadow__steps_are_lost_each_by_itself(void **state)
{
    int both = 0, none = 0, first = 0, second = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        die_in_flush(swap_and_die);
        cut(i);
        int m = exists("m") ? block_in("m") : -2, o = block_in("o");
        both += m == -1 && o == 0;
        none += m == 0 && o == 1;
        first += m == -2 && o == 0;
        second += m == -1 && o == 1;
        assert_int_equal(both + none + first + second, i + 1);
    }
    assert_true(both > 0 && none > 0 && first > 0 && second > 0);
}

static void write_over_and_die(struct block *b)
{
    struct block_step s = put("a", 8, OLD);

    memset(data, 'l', sizeof data);
    last_order(b, &s, 1);
}

/* Of two processes that died one after the other, the later one's writes are undone first. */
static void shadow__a_cut_leaves_any_version(void **state)
{
    int zeros = 0, first = 0, second = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        die_in_flush(write_and_die);
        die_in_flush(write_over_and_die);
        read_again("a");
        assert_int_equal(count_sectors(8, OLD, 'l'), SECTORS);
        cut(i);
        read_again("a");
        int counts[256] = {0};
        for (int k = 0; k < SECTORS; k++)
            counts[got[8 * BLOCK_BYTES + k * BLOCK_SECTOR_BYTES]]++;
        assert_int_equal(counts[0] + counts['k'] + counts['l'], SECTORS);
        zeros += counts[0] == SECTORS;
        first += counts['k'] > 0;
        second += counts['l'] == SECTORS;
    }
    assert_true(zeros > 3 && first > 3 && second > 3);
}

static void shadow__a_cut_of_nothing_changes_nothing(void **state)
{
    struct block *b;

    (void)state;
    cut(1);
    b = open_rate(true, 0);
    one(b, create("a"));
    one(b, put("a", 0, 1));
    block_close(b);
    cut(2);
    assert_int_equal(block_in("a"), 0);
}

/* What a child has told: shared with it, and left when it is killed. */
struct told {
    atomic_int begun, done; /* orders; each fills the file with its number */
    atomic_int named;       /* the last one that has replaced `b` */
};

static struct told *told;

/* Writes 1, 2, ... over all of `a`, each in an order, and after every third replaces `b` by way of `t`. */
static void write_until_killed(void)
{
    struct block *b = open_rate(true, 0);
    struct block_step w = put("a", 0, BLOCKS);
    struct block_step named[] = {
        create("t"), put("t", 0, BLOCKS), {.act = BLOCK_RENAME, .name = "t", .to = "b"}};

    for (int i = atomic_load(&told->begun) + 1; i < 256; i++) {
        memset(data, i, sizeof data);
        atomic_store(&told->begun, i);
        order(b, &w, 1);
        atomic_store(&told->done, i);
        if (i % 3 != 0)
            continue;
        order(b, named, 3);
        atomic_store(&told->named, i);
    }
    for (;;)
        pause();
}

static void kill_within_ns(long ns)
{
    uint64_t limit = clock_now_ns() + LIMIT_S * 1000000000ull;
    int before = atomic_load(&told->begun), status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        write_until_killed();
    while (atomic_load(&told->begun) == before && clock_now_ns() < limit)
        sched_yield();
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status));
    assert_int_not_equal(atomic_load(&told->begun), before);
}

/* Each sector is of one order, and none of an older one than was told to be done. */
static void check_sectors(const char *name, int least)
{
    read_again(name);
    for (int i = 0; i < FILE_BYTES; i += BLOCK_SECTOR_BYTES) {
        for (int k = 1; k < BLOCK_SECTOR_BYTES; k++)
            assert_int_equal(got[i + k], got[i]);
        assert_in_range(got[i], least, atomic_load(&told->begun));
    }
}

static void shadow__flushed_data_survives_cuts_at_any_time(void **state)
{
    struct rng r;
    struct block *b = open_rate(true, 0);

    (void)state;
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(told != MAP_FAILED);
    one(b, create("a"));
    one(b, create("b"));
    block_close(b);
    rng_init(&r, 1);
    for (int i = 0; i < ROUNDS && atomic_load(&told->begun) < 200; i++) {
        kill_within_ns((long)rng_below(&r, 1000000));
        cut(i);
        check_sectors("a", atomic_load(&told->done));
        /* Of a later one any sectors are, for what they were to replace had its name already. */
        check_sectors("b", atomic_load(&told->named));
        /* What is read is durable before it is counted on. */
        b = open_rate(true, 0);
        memset(data, atomic_load(&told->begun), sizeof data);
        one(b, put("a", 0, BLOCKS));
        one(b, create("b"));
        one(b, put("b", 0, BLOCKS));
        atomic_store(&told->named, atomic_load(&told->begun));
        atomic_store(&told->done, atomic_load(&told->begun));
        block_close(b);
    }
    assert_true(atomic_load(&told->begun) > 10);
    munmap(told, sizeof *told);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(file__flushes_what_it_wrote),
        CASE(file__flushes_all_that_it_wrote),
        CASE(file__passes_the_page_cache_by),
        CASE(file__has_real_zeros),
        CASE(file__goes_on_after_interruptions),
        CASE(file__says_what_failed),
        CASE(file__flushes_once),
        CASE(file__a_directory_that_cannot_be_flushed_is_a_failure),
        CASE(file__a_full_disk_is_no_failure),
        CASE(file__what_cannot_grow_is_as_long_as_it_was),
        CASE(file__needs_no_fallocate),
        CASE(file__tells_when_an_order_is_over),
        CASE(file__slows_the_bulk_lane),
        CASE(file__closing_is_not_slowed),
        CASE(file__a_directory_has_one_process),
        CASE(file__lists_its_own_files_alone),
        CASE(shadow__a_kill_alone_loses_nothing),
        CASE(shadow__a_cut_leaves_any_sectors),
        CASE(shadow__a_flush_takes_along_what_the_dead_left),
        CASE(shadow__a_cut_loses_names),
        CASE(shadow__a_growth_is_lost_or_kept),
        CASE(shadow__a_new_file_has_no_past),
        CASE(shadow__steps_are_lost_each_by_itself),
        CASE(shadow__a_cut_leaves_any_version),
        CASE(shadow__a_cut_of_nothing_changes_nothing),
        CASE(shadow__flushed_data_survives_cuts_at_any_time),
    };

    return run_with_skips(tests);
}
