/* The processes of a rig: its hosts, with a machine that hashes what it delivers, and its other client. */
#include "api/api.h"
#include "base/clock.h"
#include "rig_impl.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    LOOK_EVERY_NS = 100000,
    WRITE_US = 300, /* about what a client takes to write as much as it may to all groups */
};

struct board *rig_board_map(void)
{
    void *at =
        mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, RIG_BOARD_FD, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* ---- a host ---- */

struct machine {
    struct hashed group[RIG_GROUPS];
    _Atomic uint64_t *wrong;
};

static uint32_t machine_deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t max)
{
    struct machine *m = ctx;
    struct hashed *s = &m->group[d->group];
    if (d->number != s->count || max < sizeof(s->hash))
        atomic_fetch_add(m->wrong, 1);
    hashed_take(s, d);
    memcpy(reply, &s->hash, sizeof(s->hash));
    return sizeof(s->hash);
}

static int machine_save(void *ctx, uint32_t group, void **data, size_t *bytes)
{
    const struct machine *m = ctx;
    return hashed_save(&m->group[group], data, bytes);
}

static int machine_load(void *ctx, uint32_t group, const void *data, size_t bytes)
{
    struct machine *m = ctx;
    return hashed_load(&m->group[group], data, bytes);
}

static void show(struct board *b, uint32_t rank, const struct tram_host *host,
                 const struct machine *m)
{
    struct tram_replica_stats s;
    for (uint32_t i = 0; tram_host_replica(host, i, &s) == 0; i++)
        notice_show(&b->host[rank].group[s.group], &s, &m->group[s.group]);
}

static int host_main(const char *file, const char *traces, uint32_t rank)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct board *b = rig_board_map();
    struct tram_cluster *cluster;
    struct tram_host *host;
    struct tram_error error = {""};
    if (b == NULL)
        return 3;
    struct machine m = {.wrong = &b->host[rank].wrong};
    if (tram_cluster_load(file, &cluster, &error) != 0) {
        fprintf(stderr, "# host %u: %s\n", rank, error.text);
        return 3;
    }
    struct tram_host_options o = {
        .log = api_log_stderr(TRAM_LOG_INFO),
        .name = tram_cluster_host_name(cluster, rank),
        .machine = {machine_deliver, machine_save, machine_load},
        .ctx = &m,
        .trace_dir = traces,
    };
    if (tram_host_open(cluster, &o, &host, &error) != 0) {
        fprintf(stderr, "# host %u: %s\n", rank, error.text);
        return 3;
    }
    int rc = 0;
    uint64_t shown = 0, last = clock_now_ns();
    while (rc >= 0 && !atomic_load_explicit(&b->host[rank].stop, memory_order_relaxed)) {
        rc = tram_host_step(host, &error);
        uint64_t now = clock_now_ns();
        if (now - last > atomic_load_explicit(&b->stall_ns, memory_order_relaxed))
            atomic_store(&b->stall_ns, now - last);
        last = now;
        if (now - shown > LOOK_EVERY_NS) {
            show(b, rank, host, &m);
            atomic_store(&b->host[rank].life, 1);
            shown = now;
        }
    }
    if (rc < 0) {
        fprintf(stderr, "# host %u: %s\n", rank, error.text);
        atomic_store(&b->host[rank].broken, 1);
    }
    tram_host_close(host);
    tram_cluster_free(cluster);
    return rc < 0 ? 3 : 0;
}

/* ---- casting ---- */

uint32_t rig_draw_groups(struct rng *rng, uint16_t *list)
{
    uint64_t shape = rng_below(rng, 8);
    uint64_t bits = rng_u64(rng);
    uint32_t count = 0;
    for (uint16_t g = 0; g < RIG_GROUPS && shape > 2; g++)
        if (shape == 7 || (bits >> (3 * g) & 3) == 0)
            list[count++] = g;
    if (count == 0)
        list[count++] = (uint16_t)(bits % RIG_GROUPS);
    return count;
}

static void kill_self(int signal)
{
    (void)signal;
    kill(getpid(), SIGKILL);
}

/* Writes as much as it may to all groups, and is killed when it has come to some of them: by a timer, since
 * another process would hardly be in time. */
static int die_writing(struct tram_client *client, struct rng *rng)
{
    static unsigned char body[1024];
    uint16_t list[RIG_GROUPS];
    struct itimerval timer = {.it_value.tv_usec = (suseconds_t)rng_range(rng, 1, WRITE_US)};
    for (uint16_t g = 0; g < RIG_GROUPS; g++)
        list[g] = g;
    while (tram_client_outstanding(client) > 0)
        tram_client_wait(client, MS);
    while (tram_cast(client, list, RIG_GROUPS, body, sizeof(body), NULL, NULL) == 0)
        ;
    signal(SIGALRM, kill_self);
    if (setitimer(ITIMER_REAL, &timer, NULL) != 0)
        return 3;
    tram_client_flush(client);
    for (;;)
        pause();
}

/* As fast as it can, until it is killed or told to end. */
static int client_main(const char *file, const char *traces)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct board *b = rig_board_map();
    struct tram_cluster *cluster;
    struct tram_client *client;
    struct tram_error error = {""};
    struct rng rng;
    struct tram_client_options o = {.trace_dir = traces, .log = api_log_stderr(TRAM_LOG_INFO)};
    if (b == NULL || tram_cluster_load(file, &cluster, &error) != 0 ||
        tram_client_open(cluster, &o, &client, &error) != 0) {
        fprintf(stderr, "# client: %s\n", error.text);
        return 3;
    }
    rng_init(&rng, clock_now_ns());
    atomic_store(&b->client.place, tram_client_place(client));
    atomic_store(&b->client.life, tram_client_life(client) + 1);
    uint64_t give_up = 0;
    for (;;) {
        unsigned char body[RIG_PAYLOAD];
        uint16_t list[RIG_GROUPS];
        bool stop = atomic_load(&b->client.stop);
        int rc = 0;
        while (!stop && rc == 0) {
            memset(body, (int)rng_below(&rng, 256), sizeof(body));
            rc = tram_cast(client, list, rig_draw_groups(&rng, list), body,
                           (uint32_t)rng_below(&rng, sizeof(body) + 1), NULL, &error);
        }
        if (rc != 0 && rc != TRAM_AGAIN) {
            fprintf(stderr, "# client: %s\n", error.text);
            return 3;
        }
        if (atomic_load(&b->client.die))
            return die_writing(client, &rng);
        atomic_fetch_add(&b->client.done, (uint64_t)tram_client_wait(client, MS));
        if (!stop)
            continue;
        give_up = give_up ? give_up : clock_now_ns() + PATIENCE;
        if (tram_client_outstanding(client) == 0 || clock_now_ns() > give_up)
            break;
    }
    uint32_t left = tram_client_outstanding(client);
    if (left > 0)
        fprintf(stderr, "# client: %u messages without an answer\n", left);
    tram_client_close(client);
    tram_cluster_free(cluster);
    return left > 0 ? 3 : 0;
}

bool rig_process(int argc, char **argv, int *code)
{
    bool host = argc == 5 && strcmp(argv[1], "host") == 0;
    bool client = argc == 4 && strcmp(argv[1], "client") == 0;
    if (host)
        *code = host_main(argv[2], argv[3], (uint32_t)atoi(argv[4]));
    if (client)
        *code = client_main(argv[2], argv[3]);
    return host || client;
}
