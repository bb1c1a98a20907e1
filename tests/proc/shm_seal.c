/* A process is handed the memory that another node writes, and tries every way to write it: the
 * kernel must refuse each. What it gets is what any process of the cluster gets; a client gets what is
 * written to it, and neither other lanes nor promised words. */
#include "../shm_raw.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct gift {
    int segment, grant, life, bell;
};

/* Joins by hand, as a client or host would, and takes what is given until the other is ready. */
static struct gift ask(enum shm_role role, uint32_t node, const char *name)
{
    struct gift g = {-1, -1, -1, -1};
    struct shm_message m = raw_hello(node, name, role);
    int fd = raw_connect("h0.sock"), got;

    must(fd >= 0 && raw_send(fd, &m, sizeof m, NULL, 0), "hello");
    do {
        must(raw_receive(fd, &m, &got), "an answer");
        if (m.type != SHM_ITEM)
            continue;
        int *slot = m.kind == ITEM_SEGMENT ? &g.segment
                    : m.kind == ITEM_GRANT ? &g.grant
                    : m.kind == ITEM_LIFE  ? &g.life
                                           : &g.bell;
        *slot = got;
    } while (m.type != SHM_READY);
    close(fd);
    return g;
}

struct verdict {
    char text[128];
    int has_grant, has_bell;
};

static int intruder_as(enum shm_role role, struct verdict *v)
{
    raw_lives("c0", 1); /* as a client that has taken its place */
    struct gift g = role == SHM_CLIENT ? ask(SHM_CLIENT, CLIENT, "c0") : ask(SHM_HOST, 1, "h1");
    struct stat st;

    v->has_grant = g.grant >= 0;
    v->has_bell = g.bell >= 0;
    const char *segment = "no segment", *life = "no life";
    if (g.segment >= 0 && fstat(g.segment, &st) == 0)
        segment = raw_try_to_write(g.segment, (size_t)st.st_size);
    if (g.life >= 0 && fstat(g.life, &st) == 0)
        life = raw_try_to_write(g.life, (size_t)st.st_size);
    snprintf(v->text, sizeof v->text, "%s%s", segment ? segment : "", life ? life : "");
    return 0;
}

static int intruder(void *arg)
{
    return intruder_as(SHM_CLIENT, arg);
}

static int intruding_host(void *arg)
{
    return intruder_as(SHM_HOST, arg);
}

static void shm__nobody_else_can_write_a_lane(void **state)
{
    struct verdict *v = shared_page(sizeof *v);
    struct node n = host_open(0);
    struct mem_lane_spec to_client = fixture_spec(CLIENT, 0);
    struct mem_lane *lane;
    struct mem_flow f;
    struct err e;
    int status;

    (void)state;
    assert_int_equal(mem_lanes_open(n.mem, &to_client, 1, &lane, &e), 0);
    waitpid(spawn(intruder, v), &status, 0);
    assert_int_equal(status, 0);
    assert_string_equal(v->text, "");
    assert_true(v->has_bell);
    waitpid(spawn(intruding_host, v), &status, 0);
    assert_int_equal(status, 0);
    assert_string_equal(v->text, "");

    /* The writer's own mapping goes on writing. */
    mem_flow_open(n.mem, &f, 0, REGION, 0);
    mem_set1(n.mem, &f, n.lane[0][0], 0, 42);
    mem_mark(n.mem, &f, 1);
    mem_poll(n.mem);
    assert_int_equal(f.done, 1);
    assert_int_equal(mem_word(n.lane[0][0], 0), 42);
    shm_close_node(n.mem);
    munmap(v, sizeof *v);
}

static void shm__a_client_is_not_given_promised_words(void **state)
{
    struct verdict *v = shared_page(sizeof *v);
    struct node n = host_open(0);
    int status;

    (void)state;
    waitpid(spawn(intruder, v), &status, 0);
    assert_int_equal(v->has_grant, 0);
    assert_string_equal(v->text, "no segment"); /* nothing is written to it */
    /* A host is, so the test would see one. */
    struct gift g = ask(SHM_HOST, 1, "h1");
    assert_true(g.grant >= 0);
    close(g.grant);
    close(g.segment);
    close(g.life);
    close(g.bell);
    shm_close_node(n.mem);
    munmap(v, sizeof *v);
}

/* Memory that others may write by design, and that nobody may make shorter: who has it mapped would die. */
static void shm__nobody_can_shorten_what_all_may_write(void **state)
{
    struct node n = host_open(0);
    struct gift g = ask(SHM_HOST, 1, "h1");
    const int fds[] = {g.grant, g.bell, g.segment, g.life};

    (void)state;
    for (unsigned i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        struct stat st;
        assert_int_equal(fstat(fds[i], &st), 0);
        assert_true(ftruncate(fds[i], 0) < 0 && errno == EPERM);
        assert_true(ftruncate(fds[i], st.st_size * 2) < 0 && errno == EPERM);
        close(fds[i]);
    }
    shm_close_node(n.mem);
}

static void start_all(void)
{
    for (unsigned i = 0; i < HOSTS; i++)
        kid_start(&kids[i], i);
    for (unsigned i = 0; i < HOSTS; i++)
        for (unsigned k = 0; k < HOSTS; k++)
            assert_true(i == k || kid_connect(&kids[i], k));
}

/* Cuts every file of the cluster to nothing; returns how many there were. */
static unsigned cut_all_files(void)
{
    char path[256];
    unsigned cut = 0;

    fixture_path(path, sizeof path, "");
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        int fd = openat(dirfd(d), f->d_name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        struct stat st;
        if (fd < 0)
            continue;
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
            assert_int_equal(ftruncate(fd, 0), 0);
            cut++;
        }
        close(fd);
    }
    closedir(d);
    return cut;
}

/* Whatever becomes of the files of a running cluster, nobody dies of it, and those who run go on. What a dead one left
 * counts no more: it cannot be known any more whether its next life has given it up. */
static void shm__files_that_are_cut_kill_nobody(void **state)
{
    (void)state;
    start_all();
    assert_int_equal(kid_raise(&kids[0], 1, 5), MEM_DONE);
    assert_int_equal(kid_set(&kids[0], 1, 3, 33, 5), MEM_DONE);
    assert_int_equal(cut_all_files(), HOSTS);
    for (unsigned i = 0; i < HOSTS; i++)
        for (unsigned k = 0; k < HOSTS; k++) {
            uint64_t value = 0;
            assert_int_equal(kid_raise(&kids[i], k, 10 + i), MEM_DONE);
            assert_int_equal(kid_set(&kids[i], k, 4, 44, 10 + i), MEM_DONE);
            assert_int_equal(kid_read(&kids[(i + 1) % HOSTS], k, i, 4, &value), MEM_DONE);
            assert_int_equal(value, 44);
        }
    kid_kill(&kids[1]);
    assert_int_equal(kid_raise(&kids[0], 1, 20), MEM_LOST);
    assert_int_equal(kid_set(&kids[2], 1, 5, 55, 12), MEM_LOST);
    assert_int_equal(kid_set(&kids[2], 0, 5, 55, 12), MEM_DONE);
    for (unsigned i = 0; i < HOSTS; i++)
        assert_true(i == 1 || waitpid(kids[i].pid, NULL, WNOHANG) == 0);
}

static void shm__the_attempts_work_on_memory_that_is_not_sealed(void **state)
{
    int fd = memfd_create("open", MFD_CLOEXEC);

    (void)state;
    assert_int_equal(ftruncate(fd, 8192), 0);
    assert_string_equal(raw_try_to_write(fd, 8192), "writable mapping");
    close(fd);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest cases[] = {
        CASE(shm__nobody_else_can_write_a_lane),
        CASE(shm__a_client_is_not_given_promised_words),
        CASE(shm__nobody_can_shorten_what_all_may_write),
        CASE(shm__files_that_are_cut_kill_nobody),
        CASE(shm__the_attempts_work_on_memory_that_is_not_sealed),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
