/* tram bench: how fast the replicated log is on this machine, beside what the machine itself can do.
 *
 * Two pinned threads: one polls all hosts of the group, the other is the client. In one run: the
 * round trip of a cache line between the two threads, in turns with the latency of one message at a
 * time, then the throughput with as many under way as the rings hold. In turns, because a virtual
 * machine may move a core away from the other at any time, and that changes both by a factor of
 * three: the ratio is taken within each turn. */
#include "agree/feed.h"
#include "base/clock.h"
#include "base/hist.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "host/host.h"
#include "mem/shm.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: tram bench [OPTIONS]\n"
    "\n"
    "Measures a group of replicas on shared memory: one thread polls all its hosts, another is "
    "the\n"
    "client. Prints the round trip of a cache line between the two threads, the latency of single\n"
    "messages and the saturated throughput, all of one run.\n"
    "\n"
    "  --protocol NAME   log (the only one so far)\n"
    "  --replicas R      1 to 9 (default 3)\n"
    "  --payload BYTES   of a message, 0 to 65536 (default 64)\n"
    "  --seconds S       length of each of the two measurements (default 2)\n"
    "  --log-bytes B     size of a log ring, a power of two (default 1048576)\n"
    "  --json            one JSON object instead of text\n";

enum {
    REGION = 1,
    PAYLOAD_LIMIT = 65536,
    STARTS_WITHIN_S = 10,
    TURNS = 20,
    TURN_TRIPS = 10000, /* of the cache line, in each turn */
};

struct bench_args {
    uint32_t replicas, payload, seconds, log_bytes;
    bool json;
};

/* A counter that stands in for a state machine: what it does is cheap and not optimised away. */
struct machine {
    uint64_t messages, sum;
};

struct bench {
    struct bench_args args;
    struct mem *mem[LOG_REPLICAS_MAX];
    struct log *log[LOG_REPLICAS_MAX];
    struct host *host[LOG_REPLICAS_MAX];
    struct machine machine[LOG_REPLICAS_MAX];
    struct mem *client_mem;
    struct feed *feed;
    _Alignas(128) _Atomic uint64_t ping;
    _Alignas(128) _Atomic uint64_t pong;
    _Alignas(128) atomic_int phase;
    atomic_int entered; /* the phase that the serving thread is in */
    int core[2];
};

enum phase { PHASE_LINE, PHASE_SERVE, PHASE_STOP };

struct figures {
    struct hist line, latency;
    struct hist turn[2];
    double ratio[TURNS]; /* of their medians, sorted */
    uint64_t messages;
    double seconds;
    double batch; /* messages in one, when saturated */
};

static void machine_apply(void *ctx, const struct entry *e)
{
    struct machine *m = ctx;
    uint64_t word = 0;
    memcpy(&word, e->payload, e->bytes < 8 ? e->bytes : 8);
    m->messages++;
    m->sum += word;
}

static uint64_t machine_save_open(void *ctx)
{
    (void)ctx;
    return sizeof(struct machine);
}

static void machine_save_read(void *ctx, uint64_t offset, void *out, uint32_t bytes)
{
    memcpy(out, (const unsigned char *)ctx + offset, bytes);
}

static void machine_nothing(void *ctx)
{
    (void)ctx;
}

static void machine_load_open(void *ctx, uint64_t bytes)
{
    (void)ctx;
    (void)bytes;
}

static void machine_load_write(void *ctx, const void *data, uint32_t bytes)
{
    memcpy(ctx, data, bytes <= sizeof(struct machine) ? bytes : sizeof(struct machine));
}

static const struct log_machine machine_ops = {
    .apply = machine_apply,
    .save_open = machine_save_open,
    .save_read = machine_save_read,
    .save_close = machine_nothing,
    .load_open = machine_load_open,
    .load_write = machine_load_write,
    .load_close = machine_nothing,
};

/* ---- opening ---- */

static int bench_open(struct bench *b, struct err *e)
{
    uint32_t n = b->args.replicas;
    char cluster[64], names[LOG_REPLICAS_MAX][8];
    struct shm_node hosts[LOG_REPLICAS_MAX];
    uint32_t nodes[LOG_REPLICAS_MAX], client = n;
    snprintf(cluster, sizeof(cluster), "bench-%d", (int)getpid());
    for (uint32_t q = 0; q < n; q++) {
        snprintf(names[q], sizeof(names[q]), "h%u", q + 1);
        hosts[q] = (struct shm_node){.name = names[q], .node = q, .role = SHM_HOST};
        nodes[q] = q;
    }
    struct shm_options so = {.cluster = cluster, .hosts = hosts, .hosts_count = n};
    struct log_options lo = {
        .region = REGION,
        .nodes = nodes,
        .replicas = n,
        .source_nodes = &client,
        .sources = 1,
        .source_bytes = b->args.log_bytes / 4,
        .log_bytes = b->args.log_bytes,
        .payload_max = b->args.payload < 64 ? 64 : b->args.payload,
        .machine = &machine_ops,
    };
    for (uint32_t q = 0; q < n; q++) {
        so.self = hosts[q];
        int rc = shm_open_node(&so, &b->mem[q], e);
        if (rc != 0)
            return rc;
        lo.mem = b->mem[q];
        lo.rank = q;
        lo.ctx = &b->machine[q];
        rc = log_open(&lo, &b->log[q], e);
        if (rc != 0)
            return rc;
        b->host[q] = calloc(1, sizeof(*b->host[q]));
        if (b->host[q] == NULL)
            return err_set(e, ERR_NOMEM, "bench: no memory");
        struct host_options ho = {.mem = b->mem[q], .wait = HOST_SPIN};
        host_init(b->host[q], &ho);
        host_add(b->host[q], b->log[q]);
    }
    so.self = (struct shm_node){.name = "client", .node = client, .role = SHM_CLIENT};
    int rc = shm_open_node(&so, &b->client_mem, e);
    if (rc != 0)
        return rc;
    struct feed_options fo = {
        .mem = b->client_mem,
        .region = REGION,
        .nodes = nodes,
        .replicas = n,
        .source = 0,
        .source_bytes = lo.source_bytes,
        .payload_max = lo.payload_max,
    };
    return feed_open(&fo, &b->feed, e);
}

static void bench_close(struct bench *b)
{
    feed_close(b->feed);
    if (b->client_mem)
        shm_close_node(b->client_mem);
    for (uint32_t q = 0; q < b->args.replicas; q++) {
        log_close(b->log[q]);
        free(b->host[q]);
        if (b->mem[q])
            shm_close_node(b->mem[q]);
    }
}

/* ---- threads ---- */

/* The first two cores that we may use; a thread that spins needs one of its own. */
static int choose_cores(struct bench *b, struct err *e)
{
    cpu_set_t set;
    int found = 0;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return err_sys(e, "which cores may be used");
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET(i, &set))
            b->core[found++] = i;
    return found == 2 ? 0 : err_set(e, ERR_INVALID, "two cores are needed, this process has one");
}

static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static void *serve(void *arg)
{
    struct bench *b = arg;
    pin(b->core[1]);
    for (;;) {
        int phase = atomic_load_explicit(&b->phase, memory_order_acquire);
        atomic_store_explicit(&b->entered, phase, memory_order_release);
        if (phase == PHASE_STOP)
            return NULL;
        while (phase == PHASE_LINE &&
               atomic_load_explicit(&b->phase, memory_order_relaxed) == phase) {
            uint64_t v = atomic_load_explicit(&b->ping, memory_order_acquire);
            if (v != atomic_load_explicit(&b->pong, memory_order_relaxed))
                atomic_store_explicit(&b->pong, v, memory_order_release);
        }
        while (phase == PHASE_SERVE &&
               atomic_load_explicit(&b->phase, memory_order_relaxed) == phase) {
            uint64_t now = clock_now_ns();
            for (uint32_t q = 0; q < b->args.replicas; q++)
                host_round(b->host[q], now);
        }
    }
}

/* Returns when the other thread is there; outside PHASE_SERVE the logs are ours to look at. */
static void enter(struct bench *b, enum phase phase)
{
    atomic_store_explicit(&b->phase, (int)phase, memory_order_release);
    while (atomic_load_explicit(&b->entered, memory_order_acquire) != (int)phase)
        ;
}

static struct log_stats leader_stats(struct bench *b)
{
    struct log_stats s, leader = {0};
    enter(b, PHASE_LINE);
    for (uint32_t q = 0; q < b->args.replicas; q++) {
        log_stats(b->log[q], &s);
        if (s.state == LOG_LEADER)
            leader = s;
    }
    enter(b, PHASE_SERVE);
    return leader;
}

static void measure_line(struct bench *b, struct hist *line)
{
    enter(b, PHASE_LINE);
    uint64_t first = atomic_load_explicit(&b->pong, memory_order_relaxed);
    for (uint64_t i = first + 1; i <= first + TURN_TRIPS; i++) {
        uint64_t start = clock_now_ns();
        atomic_store_explicit(&b->ping, i, memory_order_release);
        while (atomic_load_explicit(&b->pong, memory_order_acquire) != i)
            ;
        hist_add(line, clock_now_ns() - start);
    }
    enter(b, PHASE_SERVE);
}

/* Sends one message and waits for it; false if nothing happens for seconds. */
static bool send_one(struct bench *b, const unsigned char *payload, uint64_t deadline_ns)
{
    uint64_t end;
    if (feed_send(b->feed, payload, b->args.payload, &end) != 0)
        return false;
    feed_flush(b->feed);
    for (uint32_t spins = 0; feed_taken(b->feed) < end; spins++)
        if (spins % 4096 == 4095) {
            uint64_t now = clock_now_ns();
            mem_poll(b->client_mem);
            feed_step(b->feed, now);
            if (now > deadline_ns)
                return false;
        }
    return true;
}

static int measure_latency(struct bench *b, struct hist *latency, const unsigned char *payload)
{
    uint64_t start = clock_now_ns();
    uint64_t end = start + b->args.seconds * UINT64_C(1000000000) / TURNS;
    uint64_t give_up = end + STARTS_WITHIN_S * UINT64_C(1000000000);
    for (uint64_t now = start; now < end;) {
        if (!send_one(b, payload, give_up))
            return ERR_TIMEOUT;
        uint64_t then = clock_now_ns();
        hist_add(latency, then - now);
        now = clock_now_ns();
    }
    return 0;
}

/* Line and latency in turns; the ratios end up sorted. */
static int measure_turns(struct bench *b, struct figures *f, const unsigned char *payload)
{
    struct hist *line = &f->turn[0], *latency = &f->turn[1];
    for (int i = 0; i < TURNS; i++) {
        hist_init(line);
        hist_init(latency);
        measure_line(b, line);
        int rc = measure_latency(b, latency, payload);
        if (rc != 0)
            return rc;
        double ratio = (double)hist_quantile(latency, 0.5) / (double)hist_quantile(line, 0.5);
        int k = i;
        for (; k > 0 && f->ratio[k - 1] > ratio; k--)
            f->ratio[k] = f->ratio[k - 1];
        f->ratio[k] = ratio;
        hist_merge(&f->line, line);
        hist_merge(&f->latency, latency);
    }
    return 0;
}

static void measure_throughput(struct bench *b, struct figures *f, const unsigned char *payload)
{
    uint64_t size = frame_size(b->args.payload);
    uint64_t first = feed_taken(b->feed), end;
    uint64_t start = clock_now_ns();
    uint64_t stop = start + b->args.seconds * UINT64_C(1000000000), now = start;
    while (now < stop) {
        int sent = 0;
        while (sent < 64 && feed_send(b->feed, payload, b->args.payload, &end) == 0)
            sent++;
        if (sent > 0)
            feed_flush(b->feed);
        now = clock_now_ns();
        if (sent == 0)
            feed_step(b->feed, now);
    }
    f->messages = (feed_taken(b->feed) - first) / size;
    f->seconds = (double)(now - start) / 1e9;
}

static int measure(struct bench *b, struct figures *f)
{
    unsigned char *payload = calloc(1, b->args.payload + 8);
    pthread_t thread;
    if (payload == NULL || pthread_create(&thread, NULL, serve, b) != 0) {
        free(payload);
        return ERR_NOMEM;
    }
    memset(payload, 0x5a, b->args.payload);
    pin(b->core[0]);
    enter(b, PHASE_SERVE);
    uint64_t give_up = clock_now_ns() + STARTS_WITHIN_S * UINT64_C(1000000000);
    int rc = ERR_OK;
    for (int i = 0; i < 1000 && rc == 0; i++) {
        mem_poll(b->client_mem);
        rc = send_one(b, payload, give_up) ? ERR_OK : ERR_TIMEOUT;
    }
    if (rc == 0)
        rc = measure_turns(b, f, payload);
    if (rc == 0) {
        struct log_stats before = leader_stats(b);
        measure_throughput(b, f, payload);
        struct log_stats after = leader_stats(b);
        if (after.batches > before.batches)
            f->batch = (double)(after.messages - before.messages) /
                       (double)(after.batches - before.batches);
    }
    atomic_store(&b->phase, PHASE_STOP);
    pthread_join(thread, NULL);
    free(payload);
    return rc;
}

/* ---- printing ---- */

static void print_json_hist(const char *name, const struct hist *h)
{
    printf("\"%s\":{\"count\":%llu,\"p50\":%llu,\"p99\":%llu,\"p999\":%llu,\"max\":%llu}", name,
           (unsigned long long)hist_count(h), (unsigned long long)hist_quantile(h, 0.5),
           (unsigned long long)hist_quantile(h, 0.99), (unsigned long long)hist_quantile(h, 0.999),
           (unsigned long long)hist_max(h));
}

static void print_hist(const char *name, const struct hist *h)
{
    printf("%-34s p50 %6llu   p99 %6llu   p99.9 %7llu   max %9llu ns\n", name,
           (unsigned long long)hist_quantile(h, 0.5), (unsigned long long)hist_quantile(h, 0.99),
           (unsigned long long)hist_quantile(h, 0.999), (unsigned long long)hist_max(h));
}

static void print(const struct bench *b, const struct figures *f)
{
    double rate = (double)f->messages / f->seconds;
    double ratio = f->ratio[TURNS / 2];
    if (b->args.json) {
        printf("{\"protocol\":\"log\",\"transport\":\"shm\",\"replicas\":%u,\"payload\":%u,",
               b->args.replicas, b->args.payload);
        print_json_hist("line_round_trip_ns", &f->line);
        putchar(',');
        print_json_hist("latency_ns", &f->latency);
        printf(",\"latency_in_round_trips\":%.2f,\"messages\":%llu,\"seconds\":%.3f,"
               "\"messages_per_second\":%.0f,\"messages_per_batch\":%.1f}\n",
               ratio, (unsigned long long)f->messages, f->seconds, rate, f->batch);
        return;
    }
    printf("replicated log, %u replicas, %u-byte messages, shared memory, 2 threads\n",
           b->args.replicas, b->args.payload);
    print_hist("cache line round trip", &f->line);
    print_hist("message committed, one at a time", &f->latency);
    printf("%-34s %.2f\n", "  in cache line round trips", ratio);
    printf("%-34s %.2f million messages/s, %.1f in a batch\n", "saturated", rate / 1e6, f->batch);
}

/* ---- arguments ---- */

static int parse(int argc, char **argv, struct bench_args *a)
{
    for (int i = 1; i < argc; i++) {
        const char *o = argv[i];
        uint64_t v = 0;
        if (strcmp(o, "--json") == 0) {
            a->json = true;
            continue;
        }
        const char *value = i + 1 < argc ? argv[++i] : NULL;
        int rc = CMD_DONE;
        if (strcmp(o, "--protocol") == 0) {
            if (value == NULL || strcmp(value, "log") != 0)
                rc = args_bad("bench", o, "the protocols are: log");
        } else if (strcmp(o, "--replicas") == 0) {
            rc = args_number("bench", o, value, 1, LOG_REPLICAS_MAX, &v);
            a->replicas = (uint32_t)v;
        } else if (strcmp(o, "--payload") == 0) {
            rc = args_number("bench", o, value, 0, PAYLOAD_LIMIT, &v);
            a->payload = (uint32_t)v;
        } else if (strcmp(o, "--seconds") == 0) {
            rc = args_number("bench", o, value, 1, 3600, &v);
            a->seconds = (uint32_t)v;
        } else if (strcmp(o, "--log-bytes") == 0) {
            rc = args_number("bench", o, value, 1 << 16, 1 << 30, &v);
            a->log_bytes = (uint32_t)v;
            if (rc == CMD_DONE && (v & (v - 1)) != 0)
                rc = args_bad("bench", o, "needs a power of two");
        } else {
            rc = args_unknown("bench", o);
        }
        if (rc != CMD_DONE)
            return rc;
    }
    return CMD_DONE;
}

int cmd_bench(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (args_is_help(argv[i])) {
            fputs(usage, stdout);
            return CMD_DONE;
        }
    struct bench_args a = {.replicas = 3, .payload = 64, .seconds = 2, .log_bytes = 1 << 20};
    int rc = parse(argc, argv, &a);
    if (rc != CMD_DONE)
        return rc;
    while (entry_size(a.payload) > a.log_bytes / 16)
        a.log_bytes *= 2;
    struct bench *b = aligned_alloc(128, sizeof(*b));
    struct figures *f = calloc(1, sizeof(*f));
    struct err e = {""};
    if (b == NULL || f == NULL) {
        fprintf(stderr, "tram bench: out of memory\n");
        return CMD_FAILED;
    }
    memset(b, 0, sizeof(*b));
    b->args = a;
    hist_init(&f->line);
    hist_init(&f->latency);
    rc = choose_cores(b, &e);
    if (rc == 0)
        rc = bench_open(b, &e);
    if (rc == 0) {
        rc = measure(b, f);
        if (rc != 0)
            err_set(&e, rc, "the group did not answer within %d s", STARTS_WITHIN_S);
    }
    if (rc == 0)
        print(b, f);
    else
        fprintf(stderr, "tram bench: %s\n", e.text);
    bench_close(b);
    free(f);
    free(b);
    return rc == 0 ? CMD_DONE : CMD_FAILED;
}
