/* A writer process that never pauses, and another process that takes its permission away a million
 * times: no write that the writer was told is done may be missing from what the other reads after its
 * raise. With the writer's fence left out (a planted bug) the same test must find one missing. */
#include "../shm_fixture.h"
#include "../skip.h"

#include "base/planted.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ROUNDS = 3000 };
enum { SLOW = 1 }; /* so slow that stores do not wait in a buffer when the load comes */
#else
enum { ROUNDS = 1000000 };
enum { SLOW = 0 };
#endif

#define PLANTED_BUDGET_NS                                                                          \
    200000000000u /* usually some milliseconds; a busy machine has one core for us at times */
#define BUDGET_NS 20000000000u /* a busy machine makes fewer rounds */

enum { OWNER = 1, WRITER = 0 };

/* Between the two processes. Round r: the writer holds ballot 2r, the other raises to 2r + 1. */
struct shared {
    _Atomic uint64_t round; /* the writer's: it writes in this round */
    uint64_t pad[7];
    _Atomic uint64_t denied; /* the writer's: rounds that were taken from it */
    _Atomic uint64_t done;   /* the writer's: last value reported done, before `denied` */
    uint64_t pad2[6];
    _Atomic uint64_t stop;
    enum planted planted;
};

static int writer_main(void *arg)
{
    struct shared *sh = arg;
    struct mem_flow f;
    uint64_t value = 0;

#if TRAM_PLANTED
    planted_bug = sh->planted;
#endif
    pin(0);
    struct node n = host_open(WRITER);
    if (!wait_connected(&n, OWNER))
        return 1;
    struct mem_lane *lane = n.lane[OWNER][WRITER];
    for (uint64_t r = 1; !atomic_load(&sh->stop); r++) {
        uint64_t data[8], done = value;

        if (raise_to(n.mem, OWNER, 2 * r, NULL) != MEM_DONE)
            return atomic_load(&sh->stop) ? 0 : 2;
        mem_flow_open(n.mem, &f, OWNER, REGION, 2 * r);
        atomic_store(&sh->round, r);
        while (f.status == MEM_DONE) {
            value++;
            for (int i = 0; i < 8; i++)
                data[i] = value;
            mem_put(n.mem, &f, lane, value * sizeof data, data, sizeof data);
            mem_set1(n.mem, &f, lane, 0, value);
            mem_mark(n.mem, &f, value);
            mem_poll(n.mem);
            if (f.done == value)
                done = value;
            else if (f.status == MEM_DONE)
                return 3; /* one poll settles all marks */
        }
        if (f.status != MEM_DENIED)
            return 4;
        atomic_store(&sh->done, done);
        atomic_store(&sh->denied, r);
        while (atomic_load(&sh->round) == r && !atomic_load(&sh->stop))
            ; /* until the other has compared */
    }
    return 0;
}

struct outcome {
    uint64_t raises, missing, torn;
    int writer_status;
};

/* One revocation: raise, read, then ask the writer what it had been told. */
static void take_away(struct node *n, struct shared *sh, uint64_t r, struct outcome *out)
{
    uint64_t seen = 0, data[8];
    struct mem_op op;

    while (atomic_load(&sh->round) != r)
        ;
    /* A while of writing, of changing length, so that the raise comes anywhere in it. */
    for (uint64_t i = 0; i < (r * 37) % 301; i++)
        __asm__ __volatile__("" ::: "memory");
    mem_raise(n->mem, &op, OWNER, REGION, 2 * r + 1);
    mem_read_ctl(n->mem, &op, n->lane[OWNER][WRITER], 0, 1, &seen);
    must(finish(n->mem, &op) == MEM_DONE, "read");
    while (atomic_load(&sh->denied) != r)
        ;
    out->raises++;
    uint64_t done = atomic_load(&sh->done);
    out->missing += done > seen;
    /* And the bytes that the guard covers are whole: the writer is not writing now. */
    mem_read_ring(n->mem, &op, n->lane[OWNER][WRITER], done * sizeof data, data, sizeof data);
    must(finish(n->mem, &op) == MEM_DONE, "read ring");
    for (int i = 0; done && i < 8; i++)
        if (data[i] != done) {
            out->torn++;
            break;
        }
    atomic_store(&sh->round, 0);
}

static struct outcome run(enum planted planted, uint64_t rounds, uint64_t until_ns)
{
    struct shared *sh = shared_page(sizeof *sh);
    struct outcome out = {0};

    sh->planted = planted;
    pid_t pid = spawn(writer_main, sh);
    struct node n = host_open(OWNER);
    must(wait_connected(&n, WRITER), "connect");
    pin(1);
    for (uint64_t r = 1; r <= rounds && clock_now_ns() < until_ns; r++) {
        take_away(&n, sh, r, &out);
        if (planted && out.missing)
            break;
    }
    atomic_store(&sh->stop, 1);
    raise_to(n.mem, OWNER, UINT64_MAX - 1, NULL);
    waitpid(pid, &out.writer_status, 0);
    shm_close_node(n.mem);
    munmap(sh, sizeof *sh);
    return out;
}

static bool two_cores(void)
{
    return sysconf(_SC_NPROCESSORS_ONLN) >= 2;
}

static void shm__no_done_write_is_missing_after_a_raise(void **state)
{
    (void)state;
    struct outcome out = run(PLANTED_none, ROUNDS, clock_now_ns() + BUDGET_NS);
    print_message("# %lu raises, %lu done writes missing\n", out.raises, out.missing);
    assert_true(out.raises > 0);
    assert_int_equal(out.missing, 0);
    assert_int_equal(out.torn, 0);
    assert_int_equal(out.writer_status, 0);
}

static void shm__the_test_sees_a_missing_fence(void **state)
{
    (void)state;
    if (SLOW || !two_cores())
        SKIP("a missing fence shows only on two cores at full speed");
#ifdef TRAM_COVERAGE
    SKIP("the counters of coverage are fences themselves");
#endif
    uint64_t until = clock_now_ns() + PLANTED_BUDGET_NS;
    struct outcome out = run(PLANTED_no_fence, UINT64_MAX, until);
    print_message("# without the fence: first missing write after %lu raises\n", out.raises);
    assert_true(out.missing > 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest tests[] = {CASE(shm__no_done_write_is_missing_after_a_raise),
                                       CASE(shm__the_test_sees_a_missing_fence)};
    return run_with_skips(tests);
}
