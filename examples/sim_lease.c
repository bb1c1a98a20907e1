/* sim_lease: a unit test, in the simulator, that finds a state machine that is not deterministic.
 *
 * The service hands out locks for a while (leases). Whether a lease has run out depends on the time, and
 * the first version asks the clock of the machine that it runs on. Every replica then has a time of its
 * own, and sooner or later two of them disagree on who has the lock. In the second version the time is a
 * part of the message: whoever asks says when. */
#include "tram.h"
#include "tram/sim.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOCKS = 4, REQUESTS = 60, SEEDS = 10 };

static const uint64_t LEASE_NS = 20000000, SECOND_NS = 1000000000;

static const char cluster_text[] = "name: leases\n"
                                   "clients: 2\n"
                                   "hosts: [{name: h1}, {name: h2}, {name: h3}]\n"
                                   "groups: [{name: locks, replicas: [h1, h2, h3]}]\n";

struct request {
    uint64_t now_ns, lock, asker; /* the time is that of who asks */
};

struct lease {
    uint64_t until_ns, holder; /* no holes: states are compared byte by byte */
};

struct table { /* the state of a replica */
    struct lease lease[LOCKS];
    bool reads_clock; /* the mistake */
};

static void must(bool ok, const char *what, const char *why)
{
    if (!ok)
        errx(1, "%s: %s", what, why);
}

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* ---- the state machine, as tram_host_open takes it ---- */

static uint32_t deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t reply_max)
{
    struct table *t = ctx;
    struct request r;
    must(d->bytes == sizeof(r) && reply_max >= sizeof(r.asker), "request", "of another size");
    memcpy(&r, d->body, sizeof(r));
    struct lease *l = &t->lease[r.lock % LOCKS];
    uint64_t now_ns = t->reads_clock ? clock_ns() : r.now_ns;
    if (now_ns >= l->until_ns)
        *l = (struct lease){.until_ns = now_ns + LEASE_NS, .holder = r.asker};
    memcpy(reply, &l->holder, sizeof(l->holder));
    return sizeof(l->holder);
}

static int save(void *ctx, uint32_t group, void **data, size_t *bytes)
{
    const struct table *t = ctx;
    (void)group; /* there is one */
    *data = malloc(*bytes = sizeof(t->lease));
    return *data && memcpy(*data, t->lease, *bytes) ? 0 : -1;
}

static int load(void *ctx, uint32_t group, const void *data, size_t bytes)
{
    struct table *t = ctx;
    (void)group;
    return bytes == sizeof(t->lease) && memcpy(t->lease, data, bytes) ? 0 : -1;
}

/* ---- the test ---- */

/* A host's process begins, with empty tables. */
static void *start(void *reads_clock, const char *host)
{
    struct table *t = calloc(1, sizeof(*t));
    must(t != NULL, host, "no memory");
    t->reads_clock = *(bool *)reads_clock;
    return t;
}

static void end(void *reads_clock, const char *host, void *ctx)
{
    (void)reads_clock;
    (void)host;
    free(ctx);
}

/* Two clients ask for locks while hosts crash and come back: true if the replicas agreed all along. */
static bool replicas_agree(const struct tram_cluster *cluster, bool reads_clock, uint64_t seed)
{
    struct tram_sim_options o = {.seed = seed,
                                 .machine = {.deliver = deliver, .save = save, .load = load},
                                 .start = start,
                                 .end = end,
                                 .user = &reads_clock};
    struct tram_error e = {""};
    struct tram_sim *sim;
    struct tram_client *client[2];
    const uint16_t locks = 0;
    must(tram_sim_open(cluster, &o, &sim, &e) == TRAM_OK, "simulation", e.text);
    for (int i = 0; i < 2; i++)
        must(tram_sim_client_open(sim, NULL, &client[i], &e) == TRAM_OK, "client", e.text);
    tram_sim_chaos(sim);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct request r = {.now_ns = tram_sim_now(sim), .lock = i, .asker = i % 2};
        must(tram_call(client[i % 2], &locks, 1, &r, sizeof(r), NULL, 0, NULL, 60 * SECOND_NS,
                       &e) == TRAM_OK,
             "request", e.text);
    }
    tram_sim_heal(sim);
    must(tram_sim_run_idle(sim, 60 * SECOND_NS, &e) == TRAM_OK, "the end", e.text);
    int rc = tram_sim_check(sim, NULL, &e);
    if (rc != TRAM_OK)
        printf("  seed %d: %s\n", (int)seed, e.text);
    tram_sim_close(sim);
    return rc == TRAM_OK;
}

int main(void)
{
    struct tram_error e = {""};
    struct tram_cluster *cluster;
    int agreed[2] = {0, 0};
    must(tram_cluster_parse(cluster_text, NULL, &cluster, &e) == TRAM_OK, "cluster", e.text);
    for (int clock = 1; clock >= 0; clock--) {
        printf("leases by %s:\n", clock ? "the clock of each replica" : "the time in the message");
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            agreed[clock] += replicas_agree(cluster, clock, seed);
        printf("  the replicas agree in %d of %d runs\n", agreed[clock], SEEDS);
    }
    tram_cluster_free(cluster);
    return agreed[1] == 0 && agreed[0] == SEEDS ? 0 : 1;
}
