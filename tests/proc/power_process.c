/* The hosts, with a machine that hashes what it delivers, and the clients. */
#include "api/api.h"
#include "base/clock.h"
#include "power.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    SHOW_EVERY_NS = 100000,
    PAYLOAD = 200,
    OUTSTANDING = 24,
    CAST_EVERY_NS = 300000, /* keeps traces small */
    BURST_MAX = 6,          /* so that a cut finds messages in all stages of their way */
    FAILED = 3,
};

uint32_t power_self = POWER_HOSTS;

/* ---- a host ---- */

struct machine {
    struct hashed group[POWER_GROUPS];
    struct power_board *board;
    _Atomic uint64_t *wrong;
};

static uint32_t machine_deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t max)
{
    struct machine *m = ctx;
    struct hashed *s = &m->group[d->group];
    uint64_t owner = 0;
    if (d->bytes >= sizeof(owner))
        memcpy(&owner, d->body, sizeof(owner));
    if (d->number != s->count || max < sizeof(s->hash) ||
        !power_note_owner(m->board, d->client, d->life, owner))
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

static void show(struct power_board *b, uint32_t h, const struct tram_host *host,
                 const struct machine *m)
{
    struct tram_replica_stats s;
    for (uint32_t i = 0; tram_host_replica(host, i, &s) == 0; i++)
        notice_show(&b->host[h].group[s.group], &s, &m->group[s.group]);
    atomic_store(&b->host[h].up, 1);
}

static volatile sig_atomic_t stopped;

static void on_term(int signal)
{
    (void)signal;
    stopped = 1;
}

int power_host_main(const struct power *t, uint32_t h)
{
    struct tram_cluster *cluster;
    struct tram_host *host = NULL;
    struct tram_error error = {""};
    struct machine m = {.board = t->board, .wrong = &t->board->host[h].wrong};
    uint64_t shown = 0;
    power_self = h;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, on_term);
    int rc = tram_cluster_load(t->file, &cluster, &error);
    if (rc == 0) {
        struct tram_host_options o = {
            .log = api_log_stderr(TRAM_LOG_INFO),
            .name = tram_cluster_host_name(cluster, h),
            .machine = {machine_deliver, machine_save, machine_load},
            .ctx = &m,
            .trace_dir = t->traces,
        };
        rc = tram_host_open(cluster, &o, &host, &error);
    }
    while (rc >= 0 && !stopped) {
        rc = tram_host_step(host, &error);
        uint64_t now = clock_now_ns();
        if (now - shown > SHOW_EVERY_NS) {
            show(t->board, h, host, &m);
            shown = now;
        }
    }
    if (rc < 0)
        fprintf(stderr, "# host %u: %s\n", h + 1, error.text);
    tram_host_close(host);
    return rc < 0 ? FAILED : 0;
}

/* ---- a client ---- */

struct asker {
    struct power_board *board;
    uint32_t n;
};

static void on_reply(void *ctx, uint64_t ticket, uint32_t group, const void *body, uint32_t bytes)
{
    const struct asker *a = ctx;
    (void)ticket;
    (void)body;
    (void)bytes;
    atomic_fetch_add(&a->board->client[a->n].answered[group], 1);
}

/* One group, two, or all. */
static uint32_t draw_groups(struct rng *rng, uint16_t *list)
{
    uint32_t count = 0;
    uint64_t bits = rng_range(rng, 1, (1 << POWER_GROUPS) - 1);
    for (uint16_t g = 0; g < POWER_GROUPS; g++)
        if (bits >> g & 1)
            list[count++] = g;
    return count;
}

static int cast_some(struct tram_client *client, uint64_t owner, struct rng *rng,
                     struct tram_error *error)
{
    unsigned char body[PAYLOAD];
    uint16_t list[POWER_GROUPS];
    for (uint64_t burst = rng_range(rng, 1, BURST_MAX); burst > 0; burst--) {
        if (tram_client_outstanding(client) >= OUTSTANDING)
            return 0;
        memset(body, (int)rng_below(rng, 256), sizeof(body));
        memcpy(body, &owner, sizeof(owner));
        int rc = tram_cast(client, list, draw_groups(rng, list), body,
                           (uint32_t)rng_range(rng, sizeof(owner), sizeof(body)), NULL, error);
        if (rc == TRAM_AGAIN)
            return 0;
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Hosts may still be down. */
static int open_client(const struct tram_cluster *cluster, const struct tram_client_options *o,
                       struct tram_client **out, struct tram_error *error)
{
    uint64_t give_up = clock_now_ns() + POWER_PATIENCE;
    int rc;
    while ((rc = tram_client_open(cluster, o, out, error)) != 0 && clock_now_ns() < give_up)
        usleep(1000);
    return rc;
}

/* Until it is told to end, and everything is answered. */
static int ask(struct tram_client *client, struct power_board *b, uint32_t n, uint64_t owner,
               struct tram_error *error)
{
    struct rng rng;
    uint64_t cast_ns = 0, give_up = 0;
    int rc = 0;
    rng_init(&rng, clock_now_ns() + n);
    for (;;) {
        bool stop = atomic_load(&b->client[n].stop);
        uint64_t now = clock_now_ns();
        if (!stop && now - cast_ns >= CAST_EVERY_NS) {
            rc = cast_some(client, owner, &rng, error);
            cast_ns = now;
        }
        int done = rc == 0 ? tram_client_wait(client, CAST_EVERY_NS) : rc;
        if (done < 0)
            return done;
        atomic_fetch_add(&b->client[n].done, (uint64_t)done);
        if (done > 0)
            atomic_store(&b->client[n].served, 1);
        if (!stop)
            continue;
        give_up = give_up ? give_up : now + POWER_PATIENCE;
        if (tram_client_outstanding(client) == 0)
            return 0;
        if (now > give_up) {
            snprintf(error->text, sizeof(error->text), "%u messages without an answer",
                     tram_client_outstanding(client));
            return TRAM_TIMEOUT;
        }
    }
}

int power_client_main(const struct power *t, uint32_t n)
{
    struct tram_cluster *cluster;
    struct tram_client *client;
    struct tram_error error = {""};
    struct asker a = {t->board, n};
    char folder[128];
    power_trace_folder(t, n, t->comes[n], folder, sizeof(folder));
    struct tram_client_options o = {
        .trace_dir = folder, .reply = on_reply, .ctx = &a, .log = api_log_stderr(TRAM_LOG_INFO)};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int rc = tram_cluster_load(t->file, &cluster, &error);
    if (rc == 0)
        rc = open_client(cluster, &o, &client, &error);
    if (rc == 0) {
        atomic_store(&t->board->client[n].open, 1);
        rc = ask(client, t->board, n, power_owner(n, t->comes[n]), &error);
    }
    if (rc != 0) {
        /* Its trace stays open: what it asked and is not answered need not come. */
        fprintf(stderr, "# client %u: %s\n", n, error.text);
        _exit(rc == TRAM_REFUSED ? POWER_REFUSED : FAILED);
    }
    tram_client_close(client);
    return 0;
}
