/* A host is killed, with little memory and with much: another that spins, and one that sleeps, must
 * learn of it. The times are printed; only their median is judged, and mildly. */
#include "../shm_fixture.h"

#include "base/hist.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ROUNDS = 20 };
#define HANG_NS 20000000000u

struct victim {
    _Atomic uint32_t up;
    size_t private_bytes;
};

static int victim_main(void *arg)
{
    struct victim *v = arg;
    struct node n = host_open(1);

    if (v->private_bytes) {
        void *at = malloc(v->private_bytes);
        must(at != NULL, "malloc");
        memset(at, 1, v->private_bytes);
        __asm__ __volatile__("" : : "r"(at) : "memory");
    }
    if (!wait_connected(&n, 0))
        return 1;
    atomic_store(&v->up, 1);
    for (;;) {
        mem_poll(n.mem);
        shm_doze(n.mem);
        shm_sleep(n.mem, clock_now_ns() + 1000000000u);
    }
}

/* Kills the victim after a while, from a third process, and notes when. */
struct killer {
    pid_t victim;
    _Atomic uint64_t killed_ns;
};

static int killer_main(void *arg)
{
    struct killer *k = arg;

    nap(3000000);
    atomic_store(&k->killed_ns, clock_now_ns());
    kill(k->victim, SIGKILL);
    nap(50000000); /* its own end must not take the processor from who watches */
    return 0;
}

static void watch(bool sleeping, size_t private_bytes, struct hist *out)
{
    struct victim *v = shared_page(sizeof *v);
    struct killer *k = shared_page(sizeof *k);
    struct node n = host_open(0);

    hist_init(out);
    for (int round = 0; round < ROUNDS; round++) {
        atomic_store(&v->up, 0);
        v->private_bytes = private_bytes;
        k->victim = spawn(victim_main, v);
        while (!atomic_load(&v->up)) {
            mem_poll(n.mem);
            nap(100000);
        }
        assert_true(wait_connected(&n, 1));
        assert_false(mem_dead(n.mem, 1));
        atomic_store(&k->killed_ns, 0);
        pid_t killer = spawn(killer_main, k);
        uint64_t until = clock_now_ns() + HANG_NS, now;
        while (!mem_dead(n.mem, 1) && clock_now_ns() < until) {
            if (sleeping) {
                shm_doze(n.mem);
                mem_poll(n.mem);
                if (mem_dead(n.mem, 1))
                    shm_rouse(n.mem);
                else
                    shm_sleep(n.mem, until);
            }
            mem_poll(n.mem);
        }
        now = clock_now_ns();
        assert_true(mem_dead(n.mem, 1));
        hist_add(out, now - atomic_load(&k->killed_ns));
        waitpid(k->victim, NULL, 0);
        waitpid(killer, NULL, 0);
    }
    shm_close_node(n.mem);
    munmap(v, sizeof *v);
    munmap(k, sizeof *k);
    print_message("# %s, victim with %zu MB: killed to known: min %lu, median %lu, max %lu us\n",
                  sleeping ? "sleeper" : "spinner", private_bytes >> 20, hist_min(out) / 1000,
                  hist_quantile(out, 0.5) / 1000, hist_max(out) / 1000);
    /* A death that woke nobody is known when the sleep is over. */
    assert_true(hist_quantile(out, 0.5) < HANG_NS / 10);
}

static struct hist times;

static void shm__a_spinner_sees_a_death(void **state)
{
    (void)state;
    watch(false, 0, &times);
}

static void shm__a_sleeper_sees_a_death(void **state)
{
    (void)state;
    watch(true, 0, &times);
}

static void shm__a_death_is_seen_before_its_memory_is_freed(void **state)
{
    (void)state;
    watch(true, 64u << 20, &times);
}

/* Only the life page is left to tell: the victim leaves in order and its process lives on. */
static void shm__who_leaves_is_known_as_gone(void **state)
{
    struct node nodes[2] = {host_open(0), host_open(1)};

    (void)state;
    assert_true(all_connected(nodes, 2));
    assert_false(mem_dead(nodes[0].mem, 1));
    shm_close_node(nodes[1].mem);
    assert_true(mem_dead(nodes[0].mem, 1));
    assert_false(shm_connected(nodes[0].mem, 1));
    shm_close_node(nodes[0].mem);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest cases[] = {
        CASE(shm__a_spinner_sees_a_death),
        CASE(shm__a_sleeper_sees_a_death),
        CASE(shm__a_death_is_seen_before_its_memory_is_freed),
        CASE(shm__who_leaves_is_known_as_gone),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
