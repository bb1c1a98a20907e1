/* What the libfabric backend alone has: proofs of its own, raises that somebody has to be told of, and memory that is
 * locked. The rest is in mem_far*.c. */
#include "mem/ofi/impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#include "../far_nodes.h"
#include <sys/resource.h>

/* A connect request of the provider that is well-formed but for our part of it. */
static void ofi__a_hello_that_is_none_is_refused(void **state)
{
    char said[4096];

    (void)state;
    struct far *a = (struct far *)open_node(0), *b = (struct far *)open_node(1);
    struct stderr_capture h = stderr_capture_begin();
    ofi_of(b)->auth.key[0] ^= 1; /* signs wrongly from here on */
    struct link *up = b->peers[0]->link;
    if (up)
        link_close(up, false, "for the test");
    WAIT_FOR(has_said(&h, "wrong cluster key"));
    poll_for(1200);
    stderr_capture_end(&h, said, sizeof said);
    assert_null(a->peers[1]->link);
    /* Once, however often it tries. */
    const char *first = strstr(said, "a connection from 127.0.0.1 was refused");
    assert_non_null(first);
    assert_null(strstr(first + 1, "a connection from 127.0.0.1 was refused"));
}

/* Writes to a node that does not poll, until nothing goes any more. */
static void fill_up(struct mem *m, uint32_t to, struct mem_lane *lane, bool even)
{
    static unsigned char junk[RING];
    struct mem_flow f;
    uint32_t n = 0;

    for (int lost = 0; lost < 20;) {
        mem_flow_open(m, &f, to, REGION, 0);
        /* Pieces of one size fill the stage to the last byte, others do not. */
        mem_put(m, &f, lane, 0, junk, even ? RING / 2 : RING / 2 - 8 * (n++ * 7919 % 1000));
        mem_poll(m);
        lost = f.status == MEM_LOST ? lost + 1 : 0;
    }
}

/* The old leader is stopped, and its socket is full: a raise cannot tell it. Its way in is closed before
 * the raise is answered, and what it had under way never counts. With or without room in our own queue
 * for the message to it. */
static bool raise_past_a_stuck_leader(bool even)
{
    struct mem_op op;
    struct mem_flow f;
    char said[4096];

    struct mem *a = open_node(0), *leader = open_node(1), *c = open_node(2);
    struct far *o = (struct far *)a;
    region(a);
    region(leader);
    region(c);
    struct mem_lane *own = lane_of(a, 0, 1), *out = lane_of(leader, 0, 1);
    struct mem_lane *reverse = lane_of(a, 1, 0);
    lane_of(leader, 1, 0);
    lane_of(a, 0, 2);
    struct mem_lane *read_by_c = lane_of(c, 0, 1);
    lane_of(c, 0, 2);
    wait_connected(a, leader);
    wait_connected(a, c);
    if (mem_promised(a, REGION) == MEM_CLOSED)
        mem_region_grant(a, REGION, 1);
    mem_raise(leader, &op, 0, REGION, 4);
    while (op.status == MEM_PENDING)
        poll_all();
    assert_int_equal(op.status, MEM_DONE);
    mem_flow_open(leader, &f, 0, REGION, 4);
    mem_set1(leader, &f, out, 0, 1);
    mem_mark(leader, &f, 1);
    while (f.status == MEM_DONE && f.done < 1)
        poll_all();
    assert_int_equal(f.done, 1);

    fill_up(a, 1, reverse, even); /* the leader does not poll any more */
    const struct ofi_link *stuck = ofi_link(o->peers[1]->link);
    assert_non_null(stuck);
    bool room = stuck->stage_bytes - (stuck->stage_head - stuck->stage_tail) >= 64;
    mem_set1(leader, &f, out, 0, 2); /* on its way already */
    mem_mark(leader, &f, 2);
    struct stderr_capture h = stderr_capture_begin();
    mem_raise(c, &op, 0, REGION, 5);
    uint64_t word = 0;
    for (uint64_t until = clock_now_ns() + 5000000000u;
         op.status == MEM_PENDING && clock_now_ns() < until;) {
        mem_poll(a);
        mem_poll(c);
    }
    assert_int_equal(op.status, MEM_DONE);
    assert_null(o->peers[1]->link);
    stderr_capture_end(&h, said, sizeof said);
    expect_says(said, "it takes nothing, and has to be told of another promise");
    mem_read_ctl(c, &op, read_by_c, 0, 1, &word);
    for (uint64_t until = clock_now_ns() + 5000000000u;
         op.status == MEM_PENDING && clock_now_ns() < until;) {
        mem_poll(a);
        mem_poll(c);
    }
    assert_int_equal(op.status, MEM_DONE);
    /* Now the old leader goes on. */
    h = stderr_capture_begin();
    WAIT_FOR(f.status != MEM_DONE);
    stderr_capture_end(&h, said, sizeof said);
    assert_int_equal(f.done, 1);
    assert_int_not_equal(f.status, MEM_DONE);
    assert_int_equal(word, 1);
    assert_int_equal(mem_word(own, 0), 1);
    close_now(c);
    close_now(leader);
    close_now(a);
    return room;
}

static void ofi__a_raise_shuts_out_whom_it_cannot_tell(void **state)
{
    int with = 0, without = 0;

    (void)state;
    for (int i = 0; i < 20 && !(with && without); i++) {
        bool room = raise_past_a_stuck_leader(i % 2);
        with += room;
        without += !room;
    }
    assert_true(with > 0 && without > 0);
}

/* What would be locked is counted, and a limit below it is named; where nothing is locked, as on tcp, there is
 * none. */
static void ofi__too_little_locked_memory_is_named(void **state)
{
    struct rlimit before, little = {.rlim_cur = 65536, .rlim_max = RLIM_INFINITY};
    struct err e = {""};
    int status;

    (void)state;
    pid_t kid = fork();
    if (kid == 0) {
        struct mem *a = open_node(0);
        struct far *o = (struct far *)a;
        region(a);
        uint64_t limit, none = ofi_locked_bytes(o, &limit);
        lane_of(a, 0, 1);
        bool ok = ofi_locked_bytes(o, &limit) >= none + 2 * RING;
        getrlimit(RLIMIT_MEMLOCK, &before);
        little.rlim_max = before.rlim_max;
        ok = ok && setrlimit(RLIMIT_MEMLOCK, &little) == 0;
        /* Without the right of root to lock what it wants. */
        ok = ok && (geteuid() != 0 || setresuid(65534, 65534, 65534) == 0);
        ok = ok && far_limits_check(a, &e) == 0;
        ofi_of(o)->net.local = true;
        ok = ok && far_limits_check(a, &e) == ERR_SYSTEM && strstr(e.text, "ulimit -l") &&
             strstr(e.text, "may lock 64;");
        _exit(ok ? 0 : 1);
    }
    waitpid(kid, &status, 0);
    assert_int_equal(status, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, ofi_setup, nodes_teardown)
    const struct CMUnitTest cases[] = {
        CASE(ofi__a_hello_that_is_none_is_refused),
        CASE(ofi__a_raise_shuts_out_whom_it_cannot_tell),
        CASE(ofi__too_little_locked_memory_is_named),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
