/* Writes the traces of a correct run, of any size, for `check_cli`: so many groups and replicas,
 * messages to 1 to K random groups each, from 8 clients, until there are so many deliveries. The last
 * replica of each group comes back half-way as a new life. Says how long an event took to write.
 *
 *     check_gen DIR GROUPS REPLICAS DELIVERIES K [swap]
 *
 * swap: the last group delivers two neighbouring messages in the wrong order, at all its replicas. */
#include "base/clock.h"
#include "base/rng.h"
#include "trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_MAX = 1024, REPLICAS_MAX = 9, CLIENTS = 8 };

struct gen {
    uint32_t groups, replicas, k;
    uint64_t deliveries;
    bool swap;
    struct rng rng;
    char names[GROUPS_MAX + REPLICAS_MAX][16];
    const char *group_names[GROUPS_MAX], *host_names[REPLICAS_MAX];
    struct trace_writer *clients[CLIENTS];
    struct trace_writer *traces[GROUPS_MAX][REPLICAS_MAX];
    uint64_t n[GROUPS_MAX]; /* deliveries so far */
    uint64_t seq[CLIENTS];
    uint64_t written;

    /* With swap: the message that the last group keeps back until the next one to it. */
    bool holds, swapped;
    struct trace_id held;
    uint16_t held_dst[GROUPS_MAX];
    uint32_t held_count;
};

static struct gen gen;

static struct trace_writer *open_trace(const char *dir, const char *name)
{
    struct trace_options o = {.dir = dir,
                              .name = name,
                              .groups = gen.group_names,
                              .group_count = gen.groups,
                              .hosts = gen.host_names,
                              .host_count = gen.replicas};
    struct trace_writer *w;
    struct err e;
    if (trace_open(&w, &o, &e) < 0) {
        fprintf(stderr, "check_gen: %s\n", e.text);
        exit(1);
    }
    return w;
}

static void open_all(const char *dir)
{
    char name[32];
    for (uint32_t g = 0; g < gen.groups; g++) {
        snprintf(gen.names[g], sizeof(gen.names[g]), "g%u", g + 1);
        gen.group_names[g] = gen.names[g];
    }
    for (uint32_t r = 0; r < gen.replicas; r++) {
        snprintf(gen.names[GROUPS_MAX + r], sizeof(gen.names[0]), "h%u", r + 1);
        gen.host_names[r] = gen.names[GROUPS_MAX + r];
    }
    for (uint32_t c = 0; c < CLIENTS; c++) {
        snprintf(name, sizeof(name), "c%u", c);
        gen.clients[c] = open_trace(dir, name);
    }
    for (uint32_t g = 0; g < gen.groups; g++)
        for (uint32_t r = 0; r < gen.replicas; r++) {
            snprintf(name, sizeof(name), "g%u.h%u", g + 1, r + 1);
            gen.traces[g][r] = open_trace(dir, name);
            trace_start(gen.traces[g][r], (struct trace_replica){g, r, 0}, 1);
        }
}

static void deliver(uint32_t g, struct trace_id id, struct trace_dst dst)
{
    uint64_t n = ++gen.n[g];
    bool late = gen.written > gen.deliveries / 2;
    for (uint32_t r = 0; r < gen.replicas; r++) {
        bool last = r + 1 == gen.replicas && gen.replicas > 1;
        trace_deliver(gen.traces[g][r], (struct trace_replica){g, r, last && late}, n, id, dst);
    }
    gen.written += gen.replicas;
}

static void step(void)
{
    uint16_t list[GROUPS_MAX];
    uint32_t c = (uint32_t)rng_below(&gen.rng, CLIENTS);
    uint32_t k = 1 + (uint32_t)rng_below(&gen.rng, gen.k), count = 0;
    struct trace_id id = {.client = c, .seq = gen.seq[c]++};
    for (uint32_t g = 0; g < gen.groups && count < k; g++)
        if (rng_below(&gen.rng, gen.groups - g) < k - count)
            list[count++] = (uint16_t)g;
    struct trace_dst dst = {list, count};
    bool multi = count > 1 && list[count - 1] == gen.groups - 1;
    trace_cast(gen.clients[c], id, dst);
    for (uint32_t i = 0; i < count; i++) {
        bool hold = gen.swap && !gen.swapped && !gen.holds && multi && i + 1 == count &&
                    gen.written > gen.deliveries / 2;
        if (!hold)
            deliver(list[i], id, dst);
        if (hold) {
            gen.holds = true;
            gen.held = id;
            gen.held_count = count;
            memcpy(gen.held_dst, list, sizeof(list));
        } else if (gen.holds && multi && i + 1 == count) {
            deliver(list[i], gen.held, (struct trace_dst){gen.held_dst, gen.held_count});
            gen.holds = false;
            gen.swapped = true;
        }
    }
    trace_done(gen.clients[c], id);
}

static int close_all(void)
{
    struct err e;
    int rc = 0;
    for (uint32_t c = 0; c < CLIENTS && rc == 0; c++)
        rc = trace_close(gen.clients[c], &e);
    for (uint32_t g = 0; g < gen.groups && rc == 0; g++)
        for (uint32_t r = 0; r < gen.replicas && rc == 0; r++)
            rc = trace_close(gen.traces[g][r], &e);
    if (rc < 0)
        fprintf(stderr, "check_gen: %s\n", e.text);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: check_gen DIR GROUPS REPLICAS DELIVERIES K [swap]\n");
        return 2;
    }
    gen.groups = (uint32_t)strtoul(argv[2], NULL, 10);
    gen.replicas = (uint32_t)strtoul(argv[3], NULL, 10);
    gen.deliveries = strtoull(argv[4], NULL, 10);
    gen.k = (uint32_t)strtoul(argv[5], NULL, 10);
    gen.swap = argc > 6;
    CHECK(gen.groups >= 1 && gen.groups <= GROUPS_MAX && gen.replicas >= 1 &&
          gen.replicas <= REPLICAS_MAX && gen.k >= 1 && gen.k <= gen.groups);
    rng_init(&gen.rng, 1);
    open_all(argv[1]);
    uint64_t begin = clock_now_ns(), events = 0;
    while (gen.written < gen.deliveries || gen.holds)
        step();
    uint64_t ns = clock_now_ns() - begin;
    for (uint32_t c = 0; c < CLIENTS; c++)
        events += 2 * gen.seq[c];
    events += gen.written;
    if (close_all() < 0)
        return 1;
    printf("%llu events, %.1f ns each\n", (unsigned long long)events, (double)ns / (double)events);
    return 0;
}
