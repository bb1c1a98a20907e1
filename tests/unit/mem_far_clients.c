/* Clients of a memory over a network: their places, what they may do, and when they are from before. A client is a
 * process of its own, because opening one waits for a host. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#include "../far_nodes.h"

static void clients_get_places_of_their_own(void)
{
    struct mem *m[FAR_FIXTURE_CLIENTS];
    bool seen[FAR_FIXTURE_CLIENTS] = {false};
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, FAR_ANY, hosts);
    struct err e = {""};
    struct mem *more;

    pid_t kid = hosts_start(FAR_FIXTURE_HOSTS);
    for (int i = 0; i < FAR_FIXTURE_CLIENTS; i++) {
        m[i] = open_node(FAR_ANY);
        uint32_t place = m[i]->self - FAR_FIXTURE_HOSTS;
        assert_true(place < FAR_FIXTURE_CLIENTS && !seen[place]);
        seen[place] = true;
    }
    assert_int_equal(far_fixture_open_node(&fixture, &o, &more, &e), ERR_EXISTS);
    expect_says(e.text, "no place for a client is free");
    /* A place of one's choice, if nobody has it; each time it is another life. */
    o.far.self = m[3]->self;
    assert_int_equal(far_fixture_open_node(&fixture, &o, &more, &e), ERR_EXISTS);
    uint32_t life = m[3]->life;
    close_now(m[3]);
    for (int i = 0; i < 5; i++) {
        int rc = ERR_EXISTS;
        for (uint64_t until = clock_now_ns() + 5000000000u;
             rc == ERR_EXISTS && clock_now_ns() < until;) /* its host has to hear that it is free */
            rc = far_fixture_open_node(&fixture, &o, &more, &e);
        assert_int_equal(rc, 0);
        assert_int_equal(more->self, o.far.self);
        assert_true(more->life > life);
        life = more->life;
        mem_close(more);
    }
    hosts_stop(kid);
}

static void places_of_spare_hosts_are_given_last(void)
{
    struct mem *m[FAR_FIXTURE_CLIENTS];
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, FAR_ANY, hosts);
    struct err e = {""};

    hosts[1].spare = true;
    pid_t kid = hosts_start(FAR_FIXTURE_HOSTS);
    for (uint32_t i = 0; i < FAR_FIXTURE_CLIENTS; i++) {
        assert_int_equal(far_fixture_open_node(&fixture, &o, &m[i], &e), 0);
        bool of_spare = (m[i]->self - FAR_FIXTURE_HOSTS) % FAR_FIXTURE_HOSTS == 1;
        assert_int_equal(of_spare, i >= 5); /* it gives three of the eight */
    }
    for (uint32_t i = 0; i < FAR_FIXTURE_CLIENTS; i++)
        mem_close(m[i]);
    hosts_stop(kid);
}

static void clients_have_lanes_but_no_promises(void)
{
    struct mem_flow f, back, ballot;
    struct mem_op op;
    struct mem *client = NULL;
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 3, hosts);

    /* Opening a client waits for the host, which is in this thread: another opens it. */
    pid_t kid = fork();
    if (kid == 0) {
        struct err e = {""};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (far_fixture_open_node(&fixture, &o, &client, &e) < 0)
            _exit(1);
        region(client);
        struct mem_lane *out = lane_of(client, 0, 3), *reply = lane_of(client, 3, 0);
        uint64_t until = clock_now_ns() + 10000000000u;
        while (!far_connected(client, 0) && clock_now_ns() < until)
            mem_poll(client);
        mem_raise(client, &op, 0, REGION, 5);
        if (op.status != MEM_LOST)
            _exit(2);
        mem_peek(client, &op, 0, REGION);
        if (op.status != MEM_LOST)
            _exit(5);
        mem_flow_open(client, &f, 0, REGION, 5);
        if (f.status != MEM_LOST)
            _exit(3);
        mem_flow_open(client, &f, 0, REGION, 0);
        mem_set1(client, &f, out, 0, 5);
        mem_mark(client, &f, 1);
        while ((f.done != 1 || mem_word(reply, 0) != 6) && clock_now_ns() < until)
            mem_poll(client);
        mem_close(client);
        _exit(f.done == 1 ? 0 : 4);
    }
    struct mem *a = open_node(0);
    region(a);
    struct mem_lane *in = lane_of(a, 0, 3), *ack = lane_of(a, 3, 0);
    assert_null(in->ctl);
    back = (struct mem_flow){.status = MEM_LOST};
    for (uint64_t until = clock_now_ns() + 10000000000u;
         !(back.status == MEM_DONE && back.done == 1) && clock_now_ns() < until;) {
        poll_all();
        if (back.status != MEM_DONE && in->ctl && mem_word(in, 0) == 5) {
            mem_flow_open(a, &back, 3, REGION, 0);
            mem_set1(a, &back, ack, 0, 6);
            mem_mark(a, &back, 1);
            mem_raise(a, &op, 3, REGION, 5);
            assert_int_equal(op.status, MEM_LOST);
            mem_flow_open(a, &ballot, 3, REGION, 5);
            assert_int_equal(ballot.status, MEM_LOST);
        }
    }
    assert_int_equal(back.done, 1);
    assert_int_equal(wait_for_end(kid), 0);
    WAIT_FOR(mem_dead(a, 3));
}

/* A client whose place was given to another meanwhile must not speak for it any more. */
static void a_place_that_was_taken_over_is_not_shared(void)
{
    struct stderr_capture h = stderr_capture_begin();
    char said[4096];
    pid_t kid = fork();
    if (kid == 0) { /* gets life 0, and stays; its host then knows of life 1 */
        struct err e = {""};
        struct mem *m;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (far_fixture_open(&fixture, 3, &m, &e) < 0 || m->life != 0)
            _exit(1);
        for (uint64_t until = clock_now_ns() + 10000000000u;
             !far_failure(m) && clock_now_ns() < until;)
            mem_poll(m);
        _exit(far_failure(m) && strstr(far_failure(m), "old life") ? 0 : 2);
    }
    struct far *a = (struct far *)open_node(0);
    WAIT_FOR(a->peers[3] && a->peers[3]->link);
    a->peers[3]->lives = 2; /* as if another had taken it over while this one was out of reach */
    link_close(a->peers[3]->link, false, "for the test");
    int status = wait_for_end(kid);
    stderr_capture_end(&h, said, sizeof said);
    assert_int_equal(status, 0);
}

/* A client that meets a host for the first time after the cluster has begun anew: the lives of places began anew, too,
 * so only what its place came with tells that it is from before. */
static void a_client_from_before_is_refused_by_whom_it_never_met(void)
{
    int ready[2];
    char byte, said[4096];

    assert_int_equal(pipe2(ready, O_CLOEXEC | O_NONBLOCK), 0);
    struct stderr_capture h = stderr_capture_begin();
    pid_t kid = fork(); /* before there is a listening socket that it would keep */
    if (kid == 0) {
        struct err e = {""};
        struct mem *m;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (far_fixture_open(&fixture, 3, &m, &e) < 0)
            _exit(1);
        while (((struct far *)m)->first[1] == ROLL_NEVER) /* until the hosts have met */
            mem_poll(m);
        if (write(ready[1], "r", 1) != 1)
            _exit(1);
        while (far_connected(m, 0)) /* until the cluster ends */
            mem_poll(m);
        region(m);
        lane_of(m, 1, 3);
        for (uint64_t until = clock_now_ns() + 10000000000u;
             !far_failure(m) && clock_now_ns() < until;)
            mem_poll(m);
        _exit(far_failure(m) && strstr(far_failure(m), "h1 refuses us in life 0: an old life") ? 0
                                                                                               : 2);
    }
    struct mem *a = open_node(0), *b = open_node(1);
    bool placed = false;
    wait_connected(a, b);
    WAIT_FOR(placed || (placed = read(ready[0], &byte, 1) == 1));
    close_now(b);
    close_now(a);
    far_fixture_forget(&fixture);
    b = open_node(1);
    region(b);
    lane_of(b, 1, 3);
    int status = wait_for_end(kid);
    stderr_capture_end(&h, said, sizeof said);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(status, 0);
}

#define CASES(X)                                                                                   \
    X(clients_get_places_of_their_own)                                                             \
    X(places_of_spare_hosts_are_given_last)                                                        \
    X(clients_have_lanes_but_no_promises)                                                          \
    X(a_place_that_was_taken_over_is_not_shared)                                                   \
    X(a_client_from_before_is_refused_by_whom_it_never_met)
ON_BOTH(CASES)

int main(void)
{
    const struct CMUnitTest cases[] = {CASES(ROWS_ON_BOTH)};
    return cmocka_run_group_tests(cases, NULL, NULL);
}
