/* Lives of hosts over a network: files that count them, processes that are told from each other, and what the next life
 * shuts out. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#include "../far_nodes.h"

/* A host whose count of lives was lost comes as one that was there before. It is told so, and its next
 * start is right. */
static void an_old_life_is_refused_and_learns(void)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 1, hosts);
    char said[4096], dir[96], path[160], text[64] = "";

    struct mem *a = open_node(0);
    second_state(dir, sizeof dir, "h1", 5);
    o.far.state = dir;
    struct mem *b = open_with(&o);
    assert_int_equal(b->life, 5);
    wait_connected(a, b);
    close_now(b);
    second_state(dir, sizeof dir, "h1", 0); /* it is lost */
    struct stderr_capture h = stderr_capture_begin();
    b = open_with(&o);
    assert_int_equal(b->life, 0);
    WAIT_FOR(far_failure(b));
    expect_says(far_failure(b), "an old life");
    assert_false(far_connected(a, 1));
    assert_null(far_failure(a));
    close_now(b);
    stderr_capture_end(&h, said, sizeof said);
    expect_says(said, "an old life");
    snprintf(path, sizeof path, "%s/h1.life", dir);
    int fd = open(path, O_RDONLY);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    expect_says(text, "lives          6");
    b = open_with(&o);
    assert_int_equal(b->life, 6);
    wait_connected(a, b);
    close_now(b);
    second_state_remove(dir, "h1");
}

/* Two processes that both say that they are h1, in the same life. */
static void a_twin_is_refused(void)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 1, hosts);
    char said[4096], dir[96];

    struct mem *a = open_node(0), *b = open_node(1);
    wait_connected(a, b);
    second_state(dir, sizeof dir, "h1", 0);
    o.far.state = dir;
    hosts[1].port = far_fixture_port();
    struct stderr_capture h = stderr_capture_begin();
    struct mem *twin = open_with(&o);
    WAIT_FOR(far_failure(twin));
    stderr_capture_end(&h, said, sizeof said);
    expect_says(far_failure(twin), "another process is this node");
    assert_true(far_connected(a, 1));
    assert_null(far_failure(b));
    close_now(twin);
    second_state_remove(dir, "h1");
}

static void one_process_per_host(void)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 0, hosts);
    struct err e = {""};
    struct mem *m;

    open_node(0);
    assert_int_equal(far_fixture_open_node(&fixture, &o, &m, &e), ERR_EXISTS); /* the address */
    expect_says(e.text, on_tcp() ? "another process listens there" : "in use");
    hosts[0].port = far_fixture_port();
    assert_int_equal(far_fixture_open_node(&fixture, &o, &m, &e), ERR_EXISTS); /* its lives */
    expect_says(e.text, "already running");
}

/* A host that leaves when the other end of `go` is closed; exits with 0 if this is its first life. */
static void leave_with_others(uint32_t self, int ready, int go)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, self, hosts);
    struct err e = {""};
    struct mem *m;
    bool told = false;
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    o.far.linger_ns = 5000000000u;
    if (far_fixture_open_node(&fixture, &o, &m, &e) < 0)
        _exit(2);
    while (read(go, &byte, 1) < 0) {
        bool all = true;
        mem_poll(m);
        for (uint32_t k = 0; k < FAR_FIXTURE_HOSTS; k++)
            all = all && far_connected(m, k);
        if (all && !told)
            told = write(ready, "r", 1) == 1;
    }
    uint32_t lived = m->life;
    mem_close(m);
    _exit(lived == 0 ? 0 : 1);
}

/* If all hosts leave together nothing is left of the cluster, and the next start is its first. */
static void who_leaves_last_begins_anew(void)
{
    int status;
    char byte;

    for (int life = 0; life < 2; life++) {
        int ready[2], go[2];
        pid_t kid[FAR_FIXTURE_HOSTS];
        assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
        assert_int_equal(pipe2(go, O_CLOEXEC | O_NONBLOCK), 0);
        for (uint32_t i = 0; i < FAR_FIXTURE_HOSTS; i++) {
            kid[i] = fork();
            if (kid[i] == 0) {
                close(go[1]);
                leave_with_others(i, ready[1], go[0]);
            }
        }
        for (uint32_t i = 0; i < FAR_FIXTURE_HOSTS; i++)
            assert_int_equal(read(ready[0], &byte, 1), 1);
        close(go[1]);
        for (uint32_t i = 0; i < FAR_FIXTURE_HOSTS; i++) {
            waitpid(kid[i], &status, 0);
            assert_int_equal(status, 0);
        }
        close(ready[0]);
        close(ready[1]);
        close(go[0]);
    }
    /* One of whom nobody has heard has not lived, */
    for (int i = 0; i < 2; i++) {
        struct mem *alone = open_node(1);
        assert_int_equal(alone->life, 0);
        close_now(alone);
    }
    /* and one that leaves alone has. */
    struct mem *a = open_node(0), *b = open_node(1);
    wait_connected(a, b);
    close_now(b);
    WAIT_FOR(mem_dead(a, 1));
    b = open_node(1);
    assert_int_equal(b->life, 1);
    wait_connected(a, b);
    assert_false(mem_dead(a, 1));
}

/* The kernel closes the connections of a process that is killed. */
static void a_killed_host_is_known_to_be_dead(void)
{
    int status;

    pid_t kid = fork();
    if (kid == 0) {
        struct err e;
        struct mem *m;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (far_fixture_open(&fixture, 1, &m, &e) < 0)
            _exit(1);
        for (;;)
            mem_poll(m);
    }
    struct mem *a = open_node(0);
    WAIT_FOR(far_connected(a, 1));
    assert_false(mem_dead(a, 1));
    char said[1024];
    struct stderr_capture h = stderr_capture_begin();
    kill(kid, SIGKILL);
    waitpid(kid, &status, 0);
    WAIT_FOR(mem_dead(a, 1));
    stderr_capture_end(&h, said, sizeof said);

    expect_says(said, "h0: h1 (127.0.0.1:");
    expect_says(said, "the connection has ended");
}

/* A host that comes back is known to all as soon as one of them is connected: nobody waits until it would have tried
 * again by itself. */
static void who_is_back_is_told_to_others(void)
{
    char said[4096];

    struct mem *a = open_node(0), *b = open_node(1), *c = open_node(2);
    wait_connected(a, b);
    wait_connected(a, c);
    wait_connected(b, c);
    struct peer *missed = ((struct far *)(void *)c)->peers[0];
    struct stderr_capture h = stderr_capture_begin();
    close_now(a);
    WAIT_FOR(mem_dead(b, 0) && !missed->link && !missed->dialing && !missed->dials);
    missed->dial_ns = UINT64_MAX;
    a = open_node(0);
    wait_connected(a, b);
    wait_connected(a, c);
    stderr_capture_end(&h, said, sizeof said);
}

/* ---- what lands ---- */

/* A process that is not the host any more, with much under way: from the moment that the host's next life
 * is connected, nothing of it lands. Closing its registration alone would not stop it. */
static void a_new_life_shuts_the_old_one_out(void)
{
    static unsigned char before[RING], junk[RING / 2];
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 1, hosts);
    char said[4096], dir[96];
    int late = 0;

    for (int round = 1; round <= 20; round++) {
        struct mem *a = open_node(0), *old = open_node(1);
        struct mem_flow f;
        region(a);
        region(old);
        struct mem_lane *own = lane_of(a, 0, 1), *out = lane_of(old, 0, 1);
        wait_connected(a, old);
        second_state(dir, sizeof dir, "h1", old->life + 1);
        o.far.state = dir;
        hosts[1].port = far_fixture_port();
        struct stderr_capture h = stderr_capture_begin();
        struct mem *young = open_with(&o);
        assert_int_equal(young->life, old->life + 1);
        region(young);
        lane_of(young, 0, 1);
        /* The old one writes all the time. */
        for (uint64_t k = 1, until = clock_now_ns() + 5000000000u;
             young->self && !(far_connected(a, 1) && far_connected(young, 0)) &&
             clock_now_ns() < until;
             k++) {
            memset(junk, (int)k, sizeof junk);
            mem_flow_open(old, &f, 0, REGION, 0);
            mem_put(old, &f, out, k * sizeof junk, junk, sizeof junk);
            mem_poll(old);
            mem_poll(young);
            mem_poll(a);
        }
        assert_true(far_connected(a, 1) && far_connected(young, 0));
        memcpy(before, own->ring, RING);
        for (int n = 0; n < 200; n++) {
            mem_flow_open(old, &f, 0, REGION, 0);
            memset(junk, 0xee, sizeof junk);
            mem_put(old, &f, out, 0, junk, sizeof junk);
            poll_all();
        }
        late += memcmp(before, own->ring, RING) != 0;
        close_now(young);
        close_now(old);
        close_now(a);
        stderr_capture_end(&h, said, sizeof said);
        second_state_remove(dir, "h1");
        /* A host with two files is more than the next round could make sense of. */
        far_fixture_forget(&fixture);
    }
    assert_int_equal(late, 0);
}

#define CASES(X)                                                                                   \
    X(an_old_life_is_refused_and_learns)                                                           \
    X(a_twin_is_refused)                                                                           \
    X(one_process_per_host)                                                                        \
    X(who_leaves_last_begins_anew)                                                                 \
    X(a_killed_host_is_known_to_be_dead)                                                           \
    X(who_is_back_is_told_to_others)                                                               \
    X(a_new_life_shuts_the_old_one_out)
ON_BOTH(CASES)

int main(void)
{
    const struct CMUnitTest cases[] = {CASES(ROWS_ON_BOTH)};
    return cmocka_run_group_tests(cases, NULL, NULL);
}
