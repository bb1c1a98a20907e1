#include "bench/bench.h"

#include "base/clock.h"
#include "bench/wire.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

enum {
    TURN_TRIPS = 10000, /* of the cache line, in each turn */
    REST_US = 200,
};

/* The first two cores that we may use; a thread that spins needs one of its own. */
int rig_cores(struct bench_rig *r, struct err *e)
{
    int found = 0;
    if (sched_getaffinity(0, sizeof(r->cores), &r->cores) != 0)
        return err_sys(e, "which cores may be used");
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET((size_t)i, &r->cores))
            r->core[found++] = i;
    return found == 2 ? 0 : err_set(e, ERR_INVALID, "two cores are needed, this process has one");
}

static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static void *serve(void *arg)
{
    struct bench_rig *r = arg;
    pin(r->core[1]);
    for (;;) {
        int phase = atomic_load_explicit(&r->phase, memory_order_acquire);
        atomic_store_explicit(&r->entered, phase, memory_order_release);
        if (phase == BENCH_STOP)
            return NULL;
        while (phase == BENCH_LINE && r->wire &&
               atomic_load_explicit(&r->phase, memory_order_relaxed) == phase)
            usleep(REST_US);
        while (phase == BENCH_LINE &&
               atomic_load_explicit(&r->phase, memory_order_relaxed) == phase) {
            uint64_t v = atomic_load_explicit(&r->ping, memory_order_acquire);
            if (v != atomic_load_explicit(&r->pong, memory_order_relaxed))
                atomic_store_explicit(&r->pong, v, memory_order_release);
        }
        while (phase == BENCH_SERVE &&
               atomic_load_explicit(&r->phase, memory_order_relaxed) == phase)
            if (r->round)
                r->round(r->ctx, clock_now_ns());
            else
                usleep(REST_US);
    }
}

int rig_start(struct bench_rig *r, struct err *e)
{
    atomic_store(&r->phase, BENCH_LINE);
    if (pthread_create(&r->thread, NULL, serve, r) != 0)
        return err_set(e, ERR_NOMEM, "no second thread");
    pin(r->core[0]);
    rig_enter(r, BENCH_SERVE);
    return 0;
}

void rig_unpin(struct bench_rig *r)
{
    sched_setaffinity(0, sizeof(r->cores), &r->cores);
}

void rig_pin(struct bench_rig *r)
{
    pin(r->core[0]);
}

void rig_stop(struct bench_rig *r)
{
    atomic_store(&r->phase, BENCH_STOP);
    pthread_join(r->thread, NULL);
    rig_unpin(r);
}

void rig_enter(struct bench_rig *r, enum bench_phase phase)
{
    atomic_store_explicit(&r->phase, (int)phase, memory_order_release);
    while (atomic_load_explicit(&r->entered, memory_order_acquire) != (int)phase)
        ;
}

int rig_measure_line(struct bench_rig *r, struct hist *line)
{
    rig_enter(r, BENCH_LINE);
    if (r->wire) {
        bool ok = wire_measure(r->wire, line);
        rig_enter(r, BENCH_SERVE);
        return ok ? 0 : ERR_TIMEOUT;
    }
    uint64_t first = atomic_load_explicit(&r->pong, memory_order_relaxed);
    for (uint64_t i = first + 1; i <= first + TURN_TRIPS; i++) {
        uint64_t start = clock_now_ns();
        atomic_store_explicit(&r->ping, i, memory_order_release);
        while (atomic_load_explicit(&r->pong, memory_order_acquire) != i)
            ;
        hist_add(line, clock_now_ns() - start);
    }
    rig_enter(r, BENCH_SERVE);
    return 0;
}

static int rig_measure_chain(struct bench_rig *r, struct hist *chain)
{
    rig_enter(r, BENCH_LINE);
    bool ok = wire_measure_chain(r->wire, chain);
    rig_enter(r, BENCH_SERVE);
    return ok ? 0 : ERR_TIMEOUT;
}

/* Of two medians, to the sorted ones before. */
static void ratio_add(double *ratios, int count, const struct hist *a, const struct hist *b)
{
    double ratio = (double)hist_quantile(a, 0.5) / (double)hist_quantile(b, 0.5);
    int k = count;
    for (; k > 0 && ratios[k - 1] > ratio; k--)
        ratios[k] = ratios[k - 1];
    ratios[k] = ratio;
}

int rig_measure_turns(struct bench_rig *r, struct bench_figures *f, uint64_t turn_ns,
                      int (*latency)(void *ctx, struct hist *, uint64_t turn_ns), void *ctx)
{
    struct hist *line = &f->turn[0], *one = &f->turn[1];
    for (int i = 0; i < BENCH_TURNS; i++) {
        hist_init(line);
        hist_init(one);
        int rc = rig_measure_line(r, line);
        if (rc == 0)
            rc = latency(ctx, one, turn_ns);
        if (rc != 0)
            return rc;
        ratio_add(f->ratio, i, one, line);
        hist_merge(&f->line, line);
        hist_merge(&f->latency, one);
        if (r->wire == NULL || r->wire->chain == NULL)
            continue;
        hist_init(line);
        rc = rig_measure_chain(r, line);
        if (rc != 0)
            return rc;
        ratio_add(f->chain_ratio, i, one, line);
        hist_merge(&f->chain, line);
    }
    return 0;
}

/* ---- the stand-in for a state machine ---- */

void bench_machine_init(struct bench_machine *m)
{
    m->block = (struct state_block){.data = &m->counts, .bytes = sizeof(m->counts)};
    m->counts = (struct bench_counts){0};
}
