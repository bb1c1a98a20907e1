/* Two processes hand a number to and fro, millions of times, and fall asleep at every odd moment: no
 * wake-up may be lost. A sleep that ends by its time-out although the number had come is one. */
#include "../shm_fixture.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>

#include <cmocka.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { TURNS = 500000 };
#else
enum { TURNS = 5000000 };
#endif

#define TARGET_NS 6000000000u     /* the share of sleepers is turned down to meet it */
#define LIMIT_NS (10 * TARGET_NS) /* a busy machine makes fewer turns */
#define SLEEP_NS 20000000000u     /* nobody who was woken has to wait so long for a processor */

struct count {
    uint64_t dozed;    /* announced */
    uint64_t sleeps;   /* and found nothing on second look */
    uint64_t switches; /* really left the processor */
    uint64_t lost;
};

struct shared {
    struct count count[2];
    uint64_t turns;
};

struct side {
    struct node *n;
    unsigned self, other;
    struct rng rng;
    struct count count;
    uint64_t doze_ppm;
};

static bool arrived(struct side *s, uint64_t value)
{
    mem_poll(s->n->mem);
    return mem_word(s->n->lane[s->self][s->other], 0) >= value;
}

/* Waits for the number with a random, mostly tiny, spin before it dozes. */
static void await(struct side *s, uint64_t value)
{
    bool dozy = rng_chance_ppm(&s->rng, (uint32_t)s->doze_ppm);
    uint64_t spins = rng_below(&s->rng, 12);

    for (uint64_t i = 0; !dozy || i < spins; i++) {
        if (arrived(s, value))
            return;
        if (i > 20000)
            break; /* the other is not running: leave it the processor */
    }
    while (!arrived(s, value)) {
        shm_doze(s->n->mem);
        s->count.dozed++;
        if (arrived(s, value)) {
            shm_rouse(s->n->mem);
            return;
        }
        s->count.sleeps++;
        uint64_t until = clock_now_ns() + SLEEP_NS;
        shm_sleep(s->n->mem, until);
        if (clock_now_ns() >= until && arrived(s, value)) {
            s->count.lost++;
            return;
        }
    }
}

static struct count hand_over(struct node *n, unsigned self, uint64_t turns)
{
    struct side s = {.n = n, .self = self, .other = 1 - self, .doze_ppm = 200000};
    struct mem_flow f;
    struct rusage u;
    uint64_t begin = clock_now_ns();

    rng_init(&s.rng, self + 1);
    mem_flow_open(n->mem, &f, s.other, REGION, 0);
    for (uint64_t t = 1; t <= turns && !s.count.lost; t++) {
        if (t % 2 != self) {
            await(&s, t);
            continue;
        }
        mem_set1(n->mem, &f, n->lane[s.other][self], 0, t);
        /* One of two bells is put off until a poll, or until this one sleeps itself. */
        if (rng_below(&s.rng, 2))
            mem_bell(n->mem, s.other);
        else
            mem_bell_later(n->mem, s.other);
        if (t % 4096 <= 1) {
            /* Keep to the time: fewer or more of the dear sleeps. */
            double due = (double)TARGET_NS * (double)t / (double)turns;
            uint64_t took = clock_now_ns() - begin;
            if (took > LIMIT_NS)
                break;
            bool late = (double)took > due;
            s.doze_ppm = late ? s.doze_ppm * 7 / 8 + 200 : s.doze_ppm + s.doze_ppm / 8 + 1;
            s.doze_ppm = s.doze_ppm > 900000 ? 900000 : s.doze_ppm;
        }
    }
    /* The last number is on its way to the other, who may sleep. It is beyond all that the other waits for. */
    mem_set1(n->mem, &f, n->lane[s.other][self], 0, turns + 1);
    mem_bell(n->mem, s.other);
    getrusage(RUSAGE_THREAD, &u);
    s.count.switches = (uint64_t)u.ru_nvcsw;
    return s.count;
}

static int other_main(void *arg)
{
    struct shared *sh = arg;
    struct node n = host_open(1);

    if (!wait_connected(&n, 0))
        return 1;
    pin(1);
    sh->count[1] = hand_over(&n, 1, sh->turns);
    /* Stay until the other has what was sent last. */
    uint64_t until = clock_now_ns() + 5000000000u;
    while (!mem_dead(n.mem, 0) && clock_now_ns() < until)
        nap(1000000);
    shm_close_node(n.mem);
    return 0;
}

static void shm__no_wake_up_is_lost(void **state)
{
    struct shared *sh = shared_page(sizeof *sh);
    int status;

    (void)state;
    sh->turns = TURNS;
    pid_t pid = spawn(other_main, sh);
    struct node n = host_open(0);
    assert_true(wait_connected(&n, 1));
    pin(0);
    uint64_t begin = clock_now_ns();
    sh->count[0] = hand_over(&n, 0, TURNS);
    double seconds = (double)(clock_now_ns() - begin) / 1e9;
    shm_close_node(n.mem);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    for (int i = 0; i < 2; i++)
        print_message("# side %d: %d hand-overs in %.1f s, dozed %lu, went to sleep %lu, left the "
                      "processor %lu, lost %lu\n",
                      i, TURNS / 2, seconds, sh->count[i].dozed, sh->count[i].sleeps,
                      sh->count[i].switches, sh->count[i].lost);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sh->count[i].lost, 0);
        assert_true(sh->count[i].dozed > 0);
        assert_true(sh->count[i].sleeps > 0);
    }
    munmap(sh, sizeof *sh);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(shm__no_wake_up_is_lost, cluster_setup, cluster_teardown),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
