/* Three connected hosts with nothing to do, each asleep until its next second: each must use less
 * than one hundredth of a core. */
#include "../shm_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>

#include <cmocka.h>

#define WATCH_NS 2500000000u

struct shared {
    _Atomic uint32_t connected;
    struct {
        uint64_t cpu_ns, wall_ns, wakes;
    } host[HOSTS];
};

struct job {
    struct shared *sh;
    unsigned self;
};

static uint64_t cpu_ns(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
}

static int idle_main(void *arg)
{
    struct job *j = arg;
    struct node n = host_open(j->self);

    for (unsigned i = 0; i < HOSTS; i++)
        if (!wait_connected(&n, i))
            return 1;
    atomic_fetch_add(&j->sh->connected, 1);
    while (atomic_load(&j->sh->connected) < HOSTS) {
        mem_poll(n.mem);
        nap(1000000);
    }
    uint64_t begin = clock_now_ns(), cpu = cpu_ns(), wakes = 0;
    while (clock_now_ns() < begin + WATCH_NS) {
        shm_doze(n.mem);
        mem_poll(n.mem);
        shm_sleep(n.mem, clock_now_ns() + 1000000000u);
        wakes++;
    }
    j->sh->host[j->self].cpu_ns = cpu_ns() - cpu;
    j->sh->host[j->self].wall_ns = clock_now_ns() - begin;
    j->sh->host[j->self].wakes = wakes;
    nap(500000000); /* nobody's leaving disturbs the others' last second */
    shm_close_node(n.mem);
    return 0;
}

static void shm__an_idle_host_uses_no_processor(void **state)
{
    struct shared *sh = shared_page(sizeof *sh);
    struct job jobs[HOSTS];
    pid_t pids[HOSTS];

    (void)state;
    for (unsigned i = 0; i < HOSTS; i++) {
        jobs[i] = (struct job){.sh = sh, .self = i};
        pids[i] = spawn(idle_main, &jobs[i]);
    }
    for (unsigned i = 0; i < HOSTS; i++) {
        int status;
        waitpid(pids[i], &status, 0);
        assert_int_equal(status, 0);
    }
    for (unsigned i = 0; i < HOSTS; i++) {
        double share = (double)sh->host[i].cpu_ns / (double)sh->host[i].wall_ns;
        print_message("# host %u: %.3f %% of a core, woke %lu times in %.1f s\n", i, 100 * share,
                      sh->host[i].wakes, (double)sh->host[i].wall_ns / 1e9);
        assert_true(share < 0.01);
    }
    munmap(sh, sizeof *sh);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(shm__an_idle_host_uses_no_processor, cluster_setup,
                                        cluster_teardown),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
