/* Nodes that may lie (mem/shm/trust.h), as processes of uids of their own, which takes root: they meet, come back blank, and wait for nobody who
 * does not answer; and nobody else is let in. What intruders try by hand is in tests/proc/bft_break. */
#include "../shm_raw.h"
#include "../skip.h"

#include "mem/shm/impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/file.h>

#include <cmocka.h>

enum { STRANGER = 61099 };

static char home[128];

static void remove_tree(const char *path)
{
    char command[256];

    snprintf(command, sizeof command, "rm -rf '%s'", path);
    must(system(command) == 0, "rm");
}

static int setup(void **state)
{
    cluster_setup(state);
    fixture_hostile = true;
    must(chmod(fixture_dir, 0755) == 0, "chmod");
    snprintf(home, sizeof home, "%s/tramway-all-test", fixture_dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < HOSTS; i++)
        kid_kill(&kids[i]);
    remove_tree(fixture_dir);
    return 0;
}

static int prepare(struct err *e)
{
    struct shm_options o = fixture_options(0);

    return shm_prepare(&o, e);
}

#define NEEDS_ROOT                                                                                 \
    do {                                                                                           \
        if (geteuid() != 0)                                                                        \
            SKIP("needs root, for processes of several uids");                                     \
        struct err root_err = {""};                                                                \
        if (prepare(&root_err) < 0)                                                                \
            fail_msg("prepare: %s", root_err.text);                                                \
    } while (0)

static void start_all(void)
{
    for (unsigned i = 0; i < HOSTS; i++)
        kid_start(&kids[i], i);
    for (unsigned i = 0; i < HOSTS; i++)
        for (unsigned k = 0; k < HOSTS; k++)
            if (i != k)
                assert_true(kid_connect(&kids[i], k));
}

/* In a process of that uid: the code and text that opening ends with. */
struct
try {
    struct shm_options o;
    uint32_t uid;
    int code;
    struct err e;
};

static int try_main(void *arg)
{
    struct try *t = arg;
    struct mem *m = NULL;

    become(t->uid);
    t->code = shm_open_node(&t->o, &m, &t->e);
    if (t->code == 0)
        shm_close_node(m);
    return 0;
}

static void expect_open(const struct shm_options *o, uint32_t uid, int code, const char *says)
{
    struct try *t = shared_page(sizeof *t);
    int status;

    *t = (struct try){.o = *o, .uid = uid, .code = 1};
    pid_t pid = spawn(try_main, t);
    waitpid(pid, &status, 0);
    if (t->code != code || !strstr(t->e.text, says))
        fail_msg("%d (wanted %d): \"%s\" does not say \"%s\"", t->code, code, t->e.text, says);
    munmap(t, sizeof *t);
}

/* ---- */

static void trust__hosts_of_several_uids_write_to_each_other(void **state)
{
    uint64_t word = 0;

    (void)state;
    NEEDS_ROOT;
    start_all();
    for (unsigned i = 0; i < HOSTS; i++)
        for (unsigned k = 0; k < HOSTS; k++)
            assert_int_equal(kid_set(&kids[i], k, 1, 100 + 10 * i + k, 0), MEM_DONE);
    /* Everybody reads what anybody has written to anybody. */
    for (unsigned reader = 0; reader < HOSTS; reader++)
        for (unsigned i = 0; i < HOSTS; i++)
            for (unsigned k = 0; k < HOSTS; k++) {
                assert_int_equal(kid_read(&kids[reader], k, i, 1, &word), MEM_DONE);
                assert_int_equal(word, 100 + 10 * i + k);
            }
}

static void trust__nobody_promises(void **state)
{
    (void)state;
    NEEDS_ROOT;
    start_all();
    assert_int_equal(kid_raise(&kids[0], 1, 5), MEM_LOST);
    assert_int_equal(kid_set(&kids[0], 1, 1, 7, 5), MEM_LOST);
}

static void trust__a_restart_is_blank_and_in_the_next_life(void **state)
{
    uint64_t word = 0;

    (void)state;
    NEEDS_ROOT;
    start_all();
    assert_int_equal(kids[1].order->birth, MEM_BIRTH_NEW);
    assert_int_equal(kid_set(&kids[1], 1, 1, 77, 0), MEM_DONE);
    assert_int_equal(kid_read(&kids[0], 1, 1, 1, &word), MEM_DONE);
    assert_int_equal(word, 77);
    kid_kill(&kids[1]);
    /* What the dead has written is still there for who had it. */
    assert_int_equal(kid_read(&kids[0], 1, 1, 1, &word), MEM_DONE);
    assert_int_equal(word, 77);
    kid_start(&kids[1], 1);
    assert_int_equal(kids[1].order->life, 1);
    assert_int_equal(kids[1].order->birth, MEM_BIRTH_LOST);
    for (unsigned k = 0; k < HOSTS; k += 2) {
        assert_true(kid_connect(&kids[1], k));
        assert_true(kid_connect(&kids[k], 1));
    }
    assert_int_equal(kid_set(&kids[1], 1, 2, 78, 0), MEM_DONE);
    uint64_t until = clock_now_ns() + FIXTURE_HANG_NS;
    do {
        assert_int_equal(kid_read(&kids[0], 1, 1, 2, &word), MEM_DONE);
    } while (word != 78 && clock_now_ns() < until);
    assert_int_equal(word, 78);
    assert_int_equal(kid_read(&kids[0], 1, 1, 1, &word), MEM_DONE);
    assert_int_equal(word, 0);
}

/* The word that ends the sleep is in the memory of who rings, so nobody else can silence it. */
static void trust__a_ring_wakes_who_sleeps(void **state)
{
    (void)state;
    NEEDS_ROOT;
    start_all();
    for (unsigned turn = 1; turn <= 20; turn++) {
        unsigned from = turn % 2 ? 1 : 2;
        kid_give(&kids[0],
                 (struct kid_order){.verb = KID_SLEEP, .writer = from, .word = 3, .value = turn});
        nap(5000000);
        assert_int_equal(kid_set(&kids[from], 0, 3, turn, 0), MEM_DONE);
        assert_int_equal(kid_wait(&kids[0]), MEM_DONE);
        assert_true(kids[0].order->result < FIXTURE_HANG_NS / 2);
    }
}

static void trust__who_does_not_answer_is_not_waited_for(void **state)
{
    uint64_t word = 0;

    (void)state;
    NEEDS_ROOT;
    kid_start(&kids[0], 0);
    kid_start(&kids[1], 1);
    assert_true(kid_connect(&kids[0], 1));
    assert_true(kid_connect(&kids[1], 0));
    /* Long enough for one that lives, and once: the next read does not wait again. */
    assert_int_equal(kid_read(&kids[0], 2, 2, 1, &word), MEM_LOST);
    uint64_t begin = clock_now_ns();
    for (int i = 0; i < 20; i++)
        assert_int_equal(kid_read(&kids[0], 2, 2, 1, &word), MEM_LOST);
    assert_true(clock_now_ns() - begin < FIXTURE_HANG_NS / 4);
    kid_start(&kids[2], 2);
    assert_true(kid_connect(&kids[0], 2));
    assert_int_equal(kid_read(&kids[0], 2, 2, 1, &word), MEM_DONE);
}

static void trust__uids_are_as_the_options_say(void **state)
{
    struct shm_node hosts[HOSTS];
    struct shm_options o;

    (void)state;
    NEEDS_ROOT;
    o = fixture_options(0);
    expect_open(&o, STRANGER, ERR_REFUSED, "h0 belongs to uid 61001, and this process has uid");
    expect_open(&o, 61001, 0, "");
    memcpy(hosts, fixture_hosts, sizeof hosts);
    hosts[2].uid = hosts[1].uid;
    o.hosts = hosts;
    expect_open(&o, 61001, ERR_INVALID, "h1 and h2 have the same uid, 61002");
}

static void trust__directories_are_roots_and_their_nodes(void **state)
{
    struct shm_options o = fixture_options(0);
    char own[160];

    (void)state;
    NEEDS_ROOT;
    snprintf(own, sizeof own, "%s/h0", home);
    must(chmod(own, 0755) == 0 && chown(own, STRANGER, (gid_t)-1) == 0, "chown");
    expect_open(&o, 61001, ERR_REFUSED, "owned by uid 61099");
    must(chown(own, 61001, (gid_t)-1) == 0 && chmod(own, 0777) == 0, "chmod");
    expect_open(&o, 61001, ERR_REFUSED, "with mode 777");
    must(chmod(own, 0711) == 0 && chown(home, STRANGER, (gid_t)-1) == 0, "chown");
    expect_open(&o, 61001, ERR_REFUSED, "must be a directory of uid 0");
    remove_tree(home);
    expect_open(&o, 61001, ERR_NOTFOUND, "start the cluster with `tram up` as root");
}

/* One that a host has made a link, or mounted something on, is not followed; the others go on. */
static void trust__links_are_not_followed(void **state)
{
    char path[160];

    (void)state;
    NEEDS_ROOT;
    snprintf(path, sizeof path, "%s/h2/h2.sock", home);
    must(symlink("../h1/h1.sock", path) == 0, "symlink");
    kid_start(&kids[1], 1);
    kid_start(&kids[0], 0);
    assert_true(kid_connect(&kids[0], 1));
    assert_true(kid_connect(&kids[1], 0));
}

static void trust__a_beginning_forgets_and_is_not_made_under_who_runs(void **state)
{
    struct err e = {""};
    char file[160], first[32] = "", second[32] = "";

    (void)state;
    NEEDS_ROOT;
    snprintf(file, sizeof file, "%s/beginning", home);
    FILE *f = fopen(file, "r");
    must(f && fgets(first, sizeof first, f), "beginning");
    fclose(f);
    kid_start(&kids[0], 0);
    assert_int_equal(prepare(&e), ERR_EXISTS);
    assert_non_null(strstr(e.text, "host h0 runs"));
    kid_kill(&kids[0]);
    kid_start(&kids[0], 0);
    assert_int_equal(kids[0].order->life, 1);
    kid_kill(&kids[0]);
    assert_int_equal(prepare(&e), 0);
    f = fopen(file, "r");
    must(f && fgets(second, sizeof second, f), "beginning");
    fclose(f);
    assert_string_not_equal(first, second);
    kid_start(&kids[0], 0);
    assert_int_equal(kids[0].order->life, 0);
}

/* A client under its own uid: hosts see what it writes, and it is not let in as anybody else. */
static int client_main(void *arg)
{
    struct shm_options o = fixture_options(0);
    struct mem_lane_spec spec = fixture_spec(0, fixture_client.node);
    struct mem_lane *lane;
    struct mem_flow flow;
    enum mem_birth birth;
    struct mem *m;
    struct err e = {""};
    uint64_t until = clock_now_ns() + FIXTURE_HANG_NS;

    (void)arg;
    become(fixture_client.uid);
    o.self = fixture_client;
    if (shm_open_node(&o, &m, &e) < 0 || mem_region_open(m, REGION, &birth, &e) < 0 ||
        mem_lanes_open(m, &spec, 1, &lane, &e) < 0) {
        fprintf(stderr, "client: %s\n", e.text);
        return 1;
    }
    do {
        mem_poll(m);
        mem_flow_open(m, &flow, 0, REGION, 0);
        mem_set1(m, &flow, lane, 0, 4711);
        mem_mark(m, &flow, 1);
        mem_poll(m);
        nap(100000);
    } while ((flow.status != MEM_DONE || flow.done != 1) && clock_now_ns() < until);
    mem_bell(m, 0);
    bool good = flow.status == MEM_DONE && flow.done == 1;
    shm_close_node(m);
    return good ? 0 : 2;
}

static void trust__a_client_has_a_uid_of_its_own(void **state)
{
    struct shm_options o = fixture_options(0);
    int status = 0;

    (void)state;
    NEEDS_ROOT;
    kid_start(&kids[0], 0);
    pid_t pid = spawn(client_main, NULL);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    o.self = fixture_client;
    expect_open(&o, STRANGER, ERR_REFUSED, "c0 belongs to uid 61010");
    o.self = (struct shm_node){.name = "c9", .node = 209, .role = SHM_CLIENT, .uid = STRANGER};
    expect_open(&o, STRANGER, ERR_INVALID, "client c9 is not among those that are known");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(trust__hosts_of_several_uids_write_to_each_other),
        CASE(trust__nobody_promises),
        CASE(trust__a_restart_is_blank_and_in_the_next_life),
        CASE(trust__a_ring_wakes_who_sleeps),
        CASE(trust__who_does_not_answer_is_not_waited_for),
        CASE(trust__uids_are_as_the_options_say),
        CASE(trust__directories_are_roots_and_their_nodes),
        CASE(trust__links_are_not_followed),
        CASE(trust__a_beginning_forgets_and_is_not_made_under_who_runs),
        CASE(trust__a_client_has_a_uid_of_its_own),
    };

    return run_with_skips(tests);
}
