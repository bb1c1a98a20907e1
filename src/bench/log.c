/* The replicated log of one group: one thread polls all its hosts, the other is its one client. */
#include "agree/memory.h"
#include "agree/source.h"
#include "base/clock.h"
#include "base/lines.h"
#include "bench/transport.h"
#include "host/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REGION = 1,
    LOG_BYTES_DEFAULT = 1 << 20,
    LOOK_EVERY_NS = 1000000, /* at members that are only memory: nobody waits for them */
};

struct bench {
    struct bench_rig rig;
    struct bench_args args;
    struct mem *mem[LOG_REPLICAS_MAX];
    struct log *log[LOG_REPLICAS_MAX];
    struct host *host[LOG_REPLICAS_MAX];
    struct bench_machine machine[LOG_REPLICAS_MAX];
    struct mem *memory_mem[LOG_MEMORIES_MAX];
    struct log_memory memory[LOG_MEMORIES_MAX];
    uint64_t look_ns;
    struct mem *client_mem;
    struct source *source;
    unsigned char *payload;
};

static void machine_apply(void *ctx, const struct entry *e)
{
    struct bench_machine *m = ctx;
    uint64_t word = 0;
    memcpy(&word, e->payload, e->bytes < 8 ? e->bytes : 8);
    m->counts.messages++;
    m->counts.sum += word;
}

static const struct log_machine machine_ops = {
    .apply = machine_apply,
    .state = &state_block_ops,
};

/* ---- opening ---- */

static int bench_open(struct bench *b, struct err *e)
{
    uint32_t n = b->args.replicas, all = n + b->args.memories;
    char cluster[64], names[LOG_AGENTS_MAX][16];
    struct shm_node hosts[LOG_AGENTS_MAX];
    uint32_t nodes[LOG_AGENTS_MAX], client = all;
    nodes_name(cluster, sizeof(cluster));
    for (uint32_t q = 0; q < all; q++) {
        snprintf(names[q], sizeof(names[q]), "h%u", q + 1);
        hosts[q] = (struct shm_node){.name = names[q], .node = q, .role = SHM_HOST};
        nodes[q] = q;
    }
    struct shm_options so = {
        .cluster = cluster, .hosts = hosts, .hosts_count = all, .say = say_stderr(SAY_WARN)};
    struct log_options lo = {
        .region = REGION,
        .nodes = nodes,
        .replicas = n,
        .memory_nodes = nodes + n,
        .memories = b->args.memories,
        .all_vote = b->args.all_vote,
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
        bench_machine_init(&b->machine[q]);
        lo.ctx = &b->machine[q];
        rc = log_open(&lo, &b->log[q], e);
        if (rc != 0)
            return rc;
        b->host[q] = lines_alloc(sizeof(*b->host[q]));
        if (b->host[q] == NULL)
            return err_set(e, ERR_NOMEM, "bench: no memory");
        struct host_options ho = {.mem = b->mem[q], .wait = HOST_SPIN};
        host_init(b->host[q], &ho);
        host_add(b->host[q], log_unit(b->log[q]));
    }
    for (uint32_t i = 0; i < b->args.memories; i++) {
        so.self = hosts[n + i];
        int rc = shm_open_node(&so, &b->memory_mem[i], e);
        lo.mem = b->memory_mem[i];
        if (rc == 0)
            rc = log_memory_open(&b->memory[i], &lo, e);
        if (rc != 0)
            return rc;
    }
    so.self = (struct shm_node){.name = "client", .node = client, .role = SHM_CLIENT};
    int rc = shm_open_node(&so, &b->client_mem, e);
    if (rc != 0)
        return rc;
    struct source_options fo = {
        .mem = b->client_mem,
        .region = REGION,
        .nodes = nodes,
        .replicas = n,
        .number = 0,
        .source_bytes = lo.source_bytes,
        .payload_max = lo.payload_max,
    };
    return source_open(&fo, &b->source, e);
}

static void bench_close(struct bench *b)
{
    source_close(b->source);
    if (b->client_mem)
        mem_close(b->client_mem);
    for (uint32_t q = 0; q < b->args.replicas; q++) {
        log_close(b->log[q]);
        free(b->host[q]);
        if (b->mem[q])
            mem_close(b->mem[q]);
    }
    for (uint32_t i = 0; i < b->args.memories; i++) {
        if (b->memory[i].mem)
            log_memory_close(&b->memory[i]);
        if (b->memory_mem[i])
            mem_close(b->memory_mem[i]);
    }
}

/* ---- measuring ---- */

static void serve_round(void *ctx, uint64_t now_ns)
{
    struct bench *b = ctx;
    for (uint32_t q = 0; q < b->args.replicas; q++)
        host_turn(b->host[q], now_ns);
    if (b->args.memories == 0 || now_ns < b->look_ns)
        return;
    b->look_ns = now_ns + LOOK_EVERY_NS;
    for (uint32_t i = 0; i < b->args.memories; i++) {
        mem_poll(b->memory_mem[i]);
        log_memory_step(&b->memory[i], now_ns);
    }
}

static struct unit_status leader_stats(struct bench *b)
{
    struct unit_status s, leader = {0};
    rig_enter(&b->rig, BENCH_LINE);
    for (uint32_t q = 0; q < b->args.replicas; q++) {
        s = unit_status(&b->host[q]->unit[0]);
        if (s.role == UNIT_LEADER)
            leader = s;
    }
    rig_enter(&b->rig, BENCH_SERVE);
    return leader;
}

/* Sends one message and waits for it; false if nothing happens for seconds. */
static bool send_one(struct bench *b, uint64_t deadline_ns)
{
    uint64_t end;
    if (source_send(b->source, b->payload, b->args.payload, &end) != 0)
        return false;
    source_flush(b->source);
    for (uint32_t spins = 0; source_taken(b->source) < end; spins++)
        if (spins % 4096 == 4095) {
            uint64_t now = clock_now_ns();
            mem_poll(b->client_mem);
            source_step(b->source, now);
            if (now > deadline_ns)
                return false;
        }
    return true;
}

static int measure_latency(void *ctx, struct hist *latency, uint64_t turn_ns)
{
    struct bench *b = ctx;
    uint64_t end = clock_now_ns() + turn_ns;
    uint64_t give_up = end + BENCH_STARTS_WITHIN_S * UINT64_C(1000000000);
    for (uint64_t now = clock_now_ns(); now < end;) {
        if (!send_one(b, give_up))
            return ERR_TIMEOUT;
        uint64_t then = clock_now_ns();
        hist_add(latency, then - now);
        now = clock_now_ns();
    }
    return 0;
}

static void measure_throughput(struct bench *b, struct bench_figures *f)
{
    uint64_t size = frame_size(b->args.payload);
    uint64_t first = source_taken(b->source), end;
    uint64_t start = clock_now_ns();
    uint64_t stop = start + b->args.seconds * UINT64_C(1000000000), now = start;
    while (now < stop) {
        int sent = 0;
        while (sent < 64 && source_send(b->source, b->payload, b->args.payload, &end) == 0)
            sent++;
        if (sent > 0)
            source_flush(b->source);
        now = clock_now_ns();
        if (sent == 0)
            source_step(b->source, now);
    }
    f->messages = (source_taken(b->source) - first) / size;
    f->seconds = (double)(now - start) / 1e9;
}

static int measure(struct bench *b, struct bench_figures *f)
{
    int rc = ERR_OK;
    for (int i = 0; i < 1000 && rc == 0; i++) {
        mem_poll(b->client_mem);
        /* Each has that long: where others want the cores, a thousand take longer. */
        uint64_t give_up = clock_now_ns() + BENCH_STARTS_WITHIN_S * UINT64_C(1000000000);
        rc = send_one(b, give_up) ? ERR_OK : ERR_TIMEOUT;
    }
    if (rc == 0)
        rc = rig_measure_turns(&b->rig, f, b->args.seconds * UINT64_C(1000000000) / BENCH_TURNS,
                               measure_latency, b);
    if (rc != 0)
        return rc;
    struct unit_status before = leader_stats(b);
    measure_throughput(b, f);
    struct unit_status after = leader_stats(b);
    if (after.count.batches > before.count.batches)
        f->batch = (double)(after.count.messages - before.count.messages) /
                   (double)(after.count.batches - before.count.batches);
    return 0;
}

/* What a replica says that cannot go on; "" if none does. */
static const char *why_stuck(struct bench *b)
{
    const char *why = NULL;
    rig_enter(&b->rig, BENCH_LINE);
    for (uint32_t q = 0; q < b->args.replicas && why == NULL; q++)
        why = b->host[q]->unit[0].broken;
    return why ? why : "";
}

int bench_log(const struct bench_args *a, struct bench_figures *f, struct err *e)
{
    struct bench *b = lines_alloc(sizeof(*b));
    if (b == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    b->args = *a;
    if (b->args.log_bytes == 0)
        b->args.log_bytes = LOG_BYTES_DEFAULT;
    while (entry_size(a->payload) > b->args.log_bytes / 16)
        b->args.log_bytes *= 2;
    b->rig.round = serve_round;
    b->rig.ctx = b;
    b->payload = malloc(a->payload + 8);
    int rc = b->payload ? bench_open(b, e) : err_set(e, ERR_NOMEM, "out of memory");
    if (rc == 0) {
        memset(b->payload, 0x5a, a->payload);
        rc = rig_cores(&b->rig, e);
    }
    if (rc == 0)
        rc = rig_start(&b->rig, e);
    if (rc == 0) {
        rc = measure(b, f);
        if (rc != 0) {
            const char *why = why_stuck(b);
            err_set(e, rc, "the group did not answer within %d s%s%s", BENCH_STARTS_WITHIN_S,
                    why[0] ? ": " : "", why);
        }
        rig_stop(&b->rig);
    }
    bench_close(b);
    free(b->payload);
    free(b);
    return rc;
}
