/* Three hosts and a client as threads of one process, on shared memory. Again and again the thread
 * that leads stops polling for as long as it takes the others to replace it, once between two rounds,
 * once with entries written and not yet judged, and then comes back. Every replica must apply
 * every message once and in order. And with nothing to do, they sleep. */
#include "../shm_fixture.h"
#include "../tsan_maps.h"

#include "agree/source.h"
#include "base/hash.h"
#include "host/host.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { PAUSES = 6, MESSAGES = 1500 };
#else
enum { PAUSES = 12, MESSAGES = 5000 };
#endif

enum {
    PAYLOAD = 64,
    OUTSTANDING = 64,
    LOG_BYTES = 16384, /* some laps of it in every pause */
    GIVE_UP_S = 20,
};

#define SECOND UINT64_C(1000000000)

enum pause { RUN, PAUSE_BETWEEN_ROUNDS, PAUSE_BEFORE_POLL };

struct state {
    uint64_t count; /* also the number that the next message must carry */
    uint64_t hash;
};

/* What a host's thread shows, and is told. */
struct worker {
    struct state_block block; /* first: the machine's ctx */
    pthread_t thread;
    uint32_t rank;
    _Atomic uint32_t pause; /* enum pause */
    _Atomic bool paused;
    _Atomic bool stop;
    _Atomic uint32_t shown; /* enum unit_role */
    _Atomic uint64_t count, hash;
    _Atomic uint64_t wrong; /* messages out of turn */
    _Atomic bool behind, broken;
    struct unit_status last;
    struct err err;

    struct state state; /* the thread's alone */
};

#if defined(__SANITIZE_THREAD__)
/* A client that sees no progress writes the same bytes again, under the eyes of the leader. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:source_step\n";
}
#endif

static struct worker workers[HOSTS];
static const uint32_t nodes[HOSTS] = {0, 1, 2};

/* ---- the machine ---- */

static void machine_apply(void *ctx, const struct entry *e)
{
    struct worker *w = ctx;
    uint64_t number;

    memcpy(&number, e->payload, sizeof number);
    if (number != w->state.count)
        atomic_fetch_add(&w->wrong, 1);
    w->state.count++;
    w->state.hash = hash_bytes(w->state.hash, e->payload, e->bytes);
}

static const struct log_machine machine = {
    .apply = machine_apply,
    .state = &state_block_ops,
};

/* ---- a host ---- */

static int worker_open(struct worker *w, struct mem **mem, struct log **log)
{
    static const uint32_t client = CLIENT;
    struct shm_options so = fixture_options(w->rank);
    struct log_options lo = {
        .region = REGION,
        .nodes = nodes,
        .replicas = HOSTS,
        .rank = w->rank,
        .source_nodes = &client,
        .sources = 1,
        .log_bytes = LOG_BYTES,
        .seed = w->rank,
        .machine = &machine,
        .ctx = w,
    };
    int rc = shm_open_node(&so, mem, &w->err);

    w->block = (struct state_block){.data = &w->state, .bytes = sizeof(w->state)};
    if (rc < 0)
        return rc;
    lo.mem = *mem;
    return log_open(&lo, log, &w->err);
}

static void wait_while_paused(struct worker *w)
{
    atomic_store(&w->paused, true);
    while (atomic_load(&w->pause) != RUN && !atomic_load(&w->stop))
        nap(200000);
    atomic_store(&w->paused, false);
}

static void show(struct worker *w, struct log *log)
{
    struct unit_status s;

    log_status(log, &s);
    atomic_store(&w->hash, w->state.hash);
    atomic_store(&w->count, w->state.count);
    atomic_store(&w->behind, s.behind);
    atomic_store(&w->shown, s.role);
    if (log_broken(log))
        atomic_store(&w->broken, true);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct mem *mem = NULL;
    struct log *log = NULL;
    static struct host hosts[HOSTS];

    if (worker_open(w, &mem, &log) < 0) {
        atomic_store(&w->broken, true);
        return NULL;
    }
    struct host *host = &hosts[w->rank];
    host_init(host, &(struct host_options){.mem = mem});
    host_add(host, log_unit(log));
    while (!atomic_load(&w->stop)) {
        uint32_t pause = atomic_load(&w->pause);
        if (pause == RUN) {
            host_step(host);
        } else {
            log_post(log, clock_now_ns());
            if (pause == PAUSE_BETWEEN_ROUNDS) {
                mem_poll(mem);
                log_settle(log, clock_now_ns());
            }
            wait_while_paused(w);
            mem_poll(mem);
            log_settle(log, clock_now_ns());
        }
        show(w, log);
    }
    log_status(log, &w->last);
    log_close(log);
    shm_close_node(mem);
    return NULL;
}

/* ---- the client, which is the test ---- */

struct client {
    struct mem *mem;
    struct source *source;
    uint64_t sent, end;
};

static void client_open(struct client *c)
{
    struct shm_options so = fixture_options(0);
    struct err e = {""};

    so.self = (struct shm_node){.name = "client", .node = CLIENT, .role = SHM_CLIENT};
    must(shm_open_node(&so, &c->mem, &e) == 0, e.text);
    struct source_options fo = {
        .mem = c->mem, .region = REGION, .nodes = nodes, .replicas = HOSTS, .number = 0};
    must(source_open(&fo, &c->source, &e) == 0, e.text);
}

static bool failed(void)
{
    for (unsigned q = 0; q < HOSTS; q++)
        if (atomic_load(&workers[q].wrong) || atomic_load(&workers[q].broken))
            return true;
    return false;
}

/* Sends up to `count` more messages and waits until all are taken; false if that takes too long. */
static bool client_send(struct client *c, uint64_t count)
{
    uint64_t until = clock_now_ns() + GIVE_UP_S * SECOND, last = c->sent + count;
    unsigned char payload[PAYLOAD];

    while (source_taken(c->source) < c->end || c->sent < last) {
        bool more = false;
        while (c->sent < last &&
               c->end - source_taken(c->source) < OUTSTANDING * frame_size(PAYLOAD)) {
            memset(payload, (int)(c->sent & 0xff), sizeof payload);
            memcpy(payload, &c->sent, sizeof c->sent);
            if (source_send(c->source, payload, sizeof payload, &c->end) != 0)
                break;
            c->sent++;
            more = true;
        }
        if (more)
            source_flush(c->source);
        else
            sched_yield();
        mem_poll(c->mem);
        source_step(c->source, clock_now_ns());
        if (clock_now_ns() > until || failed())
            return false;
    }
    return true;
}

static unsigned find_leader(void)
{
    uint64_t until = clock_now_ns() + GIVE_UP_S * SECOND;

    while (clock_now_ns() < until && !failed()) {
        for (unsigned q = 0; q < HOSTS; q++)
            if (atomic_load(&workers[q].shown) == UNIT_LEADER && !atomic_load(&workers[q].paused))
                return q;
        nap(100000);
    }
    return HOSTS;
}

static bool all_equal(const struct client *c)
{
    for (unsigned q = 0; q < HOSTS; q++)
        if (atomic_load(&workers[q].count) != c->sent ||
            atomic_load(&workers[q].hash) != atomic_load(&workers[0].hash))
            return false;
    return true;
}

static bool wait_equal(struct client *c)
{
    uint64_t until = clock_now_ns() + GIVE_UP_S * SECOND;

    while (!all_equal(c) && !failed() && clock_now_ns() < until) {
        mem_poll(c->mem);
        source_step(c->source, clock_now_ns());
        nap(100000);
    }
    return all_equal(c);
}

/* Stops the leader in the given way until the others have gone on without it, and lets it come back
 * into the traffic of its successor. */
static bool pause_leader(struct client *c, enum pause how)
{
    unsigned victim = find_leader();

    if (victim == HOSTS || !client_send(c, MESSAGES / 10))
        return false;
    atomic_store(&workers[victim].pause, how);
    bool good = client_send(c, MESSAGES / 2);
    unsigned next = find_leader();
    atomic_store(&workers[victim].pause, RUN);
    return good && next < HOSTS && next != victim && client_send(c, MESSAGES / 2);
}

static void tell(void)
{
    for (unsigned q = 0; q < HOSTS; q++) {
        const struct worker *w = &workers[q];
        print_message("# h%u: %lu messages, %lu out of turn%s%s%s\n", q, atomic_load(&w->count),
                      atomic_load(&w->wrong), atomic_load(&w->behind) ? ", behind" : "",
                      atomic_load(&w->broken) ? ", BROKEN " : "", w->err.text);
    }
}

static void start(struct client *c)
{
    memset(workers, 0, sizeof workers);
    for (unsigned q = 0; q < HOSTS; q++) {
        workers[q].rank = q;
        must(pthread_create(&workers[q].thread, NULL, worker_main, &workers[q]) == 0, "thread");
    }
    client_open(c);
}

/* Ends everything; the last to leave has tidied up. */
static void stop(struct client *c)
{
    char path[512];

    source_close(c->source);
    shm_close_node(c->mem);
    for (unsigned q = 0; q < HOSTS; q++) {
        atomic_store(&workers[q].stop, true);
        pthread_join(workers[q].thread, NULL);
    }
    fixture_path(path, sizeof path, "");
    assert_int_not_equal(access(path, F_OK), 0);
}

static void log__survives_leaders_that_stop_and_come_back(void **state)
{
    struct client c = {0};
    bool good = true;
    (void)state;

    start(&c);
    for (unsigned i = 0; good && i < PAUSES; i++)
        good = pause_leader(&c, i % 2 ? PAUSE_BEFORE_POLL : PAUSE_BETWEEN_ROUNDS);
    good = good && wait_equal(&c);
    tell();
    stop(&c);
    uint64_t terms = 0, snapshots = 0;
    for (unsigned q = 0; q < HOSTS; q++) {
        terms += workers[q].last.count.terms;
        snapshots += workers[q].last.count.snapshots_loaded;
    }
    print_message("# %lu messages, %d pauses, %lu leaders, %lu snapshots\n", c.sent, PAUSES, terms,
                  snapshots);
    assert_true(good);
    assert_false(failed());
    assert_true(terms > PAUSES);
}

static uint64_t cpu_ns(pthread_t thread)
{
    clockid_t clock;
    struct timespec t = {0};

    must(pthread_getcpuclockid(thread, &clock) == 0 && clock_gettime(clock, &t) == 0, "clock");
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void log__hosts_of_an_idle_group_use_no_processor(void **state)
{
    struct client c = {0};
    uint64_t cpu[HOSTS];
    (void)state;

    start(&c);
    bool good = client_send(&c, 100) && wait_equal(&c);
    nap(SECOND / 2);
    uint64_t begin = clock_now_ns();
    for (unsigned q = 0; q < HOSTS; q++)
        cpu[q] = cpu_ns(workers[q].thread);
    nap(2 * SECOND);
    uint64_t wall = clock_now_ns() - begin;
    for (unsigned q = 0; q < HOSTS; q++) {
        cpu[q] = cpu_ns(workers[q].thread) - cpu[q];
        print_message("# h%u: %.2f %% of a core\n", q, (double)cpu[q] * 100 / (double)wall);
    }
    good = good && client_send(&c, 100) && wait_equal(&c);
    stop(&c);
    assert_true(good);
    assert_false(failed());
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    for (unsigned q = 0; q < HOSTS; q++)
        assert_true(cpu[q] < wall / 100);
#endif
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(log__survives_leaders_that_stop_and_come_back,
                                        cluster_setup, cluster_teardown),
        cmocka_unit_test_setup_teardown(log__hosts_of_an_idle_group_use_no_processor, cluster_setup,
                                        cluster_teardown),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
