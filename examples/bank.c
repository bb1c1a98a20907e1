/* bank CLUSTER_FILE: a bank in two shards that never loses a cent.
 * Accounts with even numbers are in one shard, odd ones in the other. A transfer between them is one
 * message to both: no locks, no second phase, nothing to undo. Each shard answers with the sum of its
 * accounts; both see it at the same point of one order, so the two sums always add up. */
#include "tram.h"

#include <err.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHARDS = 2, HOSTS = 3, CLIENTS = 2, TRANSFERS = 400 };
enum { ACCOUNTS = 10, CENTS_AT_START = 1000, TOTAL = ACCOUNTS * CENTS_AT_START };

/* Accounts may be overdrawn: only one of the shards could tell, and both must decide alike. */
struct transfer {
    uint32_t from, to;
    int64_t cents;
};

struct shard { /* the state of a replica */
    uint64_t messages;
    int64_t balance[ACCOUNTS]; /* the other shard's accounts stay 0 */
};

static struct tram_cluster *cluster;
static struct tram_host *host[HOSTS];
static struct shard shard[HOSTS][SHARDS]; /* the replicas */
static _Atomic uint64_t messages_sent;    /* each counted once per shard */
static _Atomic uint32_t clients_open = CLIENTS;

static void must(bool ok, const char *what, const char *why)
{
    if (!ok)
        errx(1, "%s: %s", what, why);
}

static int64_t sum(const struct shard *s)
{
    int64_t cents = 0;
    for (uint32_t a = 0; a < ACCOUNTS; a++)
        cents += s->balance[a];
    return cents;
}

/* A shard does its part of a transfer. */
static uint32_t deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t reply_max)
{
    struct shard *s = (struct shard *)ctx + d->group;
    struct transfer t;
    memcpy(&t, d->body, sizeof(t));
    if (t.from % SHARDS == d->group)
        s->balance[t.from] -= t.cents;
    if (t.to % SHARDS == d->group)
        s->balance[t.to] += t.cents;
    s->messages++;
    int64_t cents = sum(s);
    must(reply_max >= sizeof(cents), "cluster file", "reply_max is too small");
    memcpy(reply, &cents, sizeof(cents));
    return sizeof(cents);
}

/* A replica that was away, or too slow for the others, gets the state of another one. */
static int save(void *ctx, uint32_t group, void **data, size_t *bytes)
{
    *data = malloc(*bytes = sizeof(struct shard));
    return *data && memcpy(*data, (struct shard *)ctx + group, *bytes) ? 0 : -1;
}

static int load(void *ctx, uint32_t group, const void *data, size_t bytes)
{
    struct shard *s = bytes == sizeof(*s) ? (struct shard *)ctx + group : NULL;
    return s && memcpy(s, data, bytes) ? 0 : -1;
}

static const struct tram_machine machine = {.deliver = deliver, .save = save, .load = load};

/* Polls the hosts until the clients have ended and every host has every message. */
static void run_hosts(void)
{
    struct tram_error e = {""};
    for (uint32_t level = 0; level < HOSTS; sched_yield()) {
        level = 0;
        for (uint32_t h = 0; h < HOSTS; h++) {
            must(tram_host_poll(host[h], &e) >= 0, "host", e.text);
            uint64_t messages = shard[h][0].messages + shard[h][1].messages;
            level += clients_open == 0 && messages == messages_sent;
        }
    }
}

static void *run_client(void *seed)
{
    struct tram_error e = {""};
    struct tram_client *client;
    must(tram_client_open(cluster, NULL, &client, &e) == TRAM_OK, "client", e.text);
    for (int i = 0; i < TRANSFERS; i++) {
        uint32_t from = (uint32_t)rand_r(seed) % ACCOUNTS, to = (uint32_t)rand_r(seed) % ACCOUNTS;
        struct transfer t = {from, to, 1 + rand_r(seed) % 500};
        uint16_t shards[SHARDS] = {from % SHARDS, to % SHARDS}; /* twice the same: one group */
        int64_t cents[SHARDS];
        int rc = tram_call(client, shards, SHARDS, &t, sizeof(t), cents, sizeof(cents[0]), NULL,
                           UINT64_C(10000000000), &e);
        must(rc == TRAM_OK, "transfer", e.text);
        must(shards[0] == shards[1] || cents[0] + cents[1] == TOTAL, "sums", "do not add up");
        messages_sent += shards[0] == shards[1] ? 1 : 2;
    }
    tram_client_close(client);
    clients_open--;
    return NULL;
}

int main(int argc, char **argv)
{
    struct tram_error e = {""};
    unsigned seed[CLIENTS] = {1, 2};
    pthread_t client[CLIENTS];
    char name[24];
    int rc = tram_cluster_load(argc > 1 ? argv[1] : "bank.yaml", &cluster, &e);
    must(rc == TRAM_OK, "cluster", e.text);
    snprintf(name, sizeof(name), "bank-%d", (int)getpid());
    tram_cluster_rename(cluster, name, &e); /* two runs at once do not meet */
    for (uint32_t h = 0; h < HOSTS; h++) {
        const char *host_name = tram_cluster_host_name(cluster, h);
        struct tram_host_options o = {.name = host_name, .machine = machine, .ctx = shard[h]};
        for (uint32_t a = 0; a < ACCOUNTS; a++)
            shard[h][a % SHARDS].balance[a] = CENTS_AT_START;
        must(tram_host_open(cluster, &o, &host[h], &e) == TRAM_OK, host_name, e.text);
    }
    for (uint32_t c = 0; c < CLIENTS; c++)
        pthread_create(&client[c], NULL, run_client, &seed[c]);
    run_hosts();
    for (uint32_t h = 0; h < HOSTS; h++) {
        long even = (long)sum(&shard[h][0]), odd = (long)sum(&shard[h][1]);
        printf("replica %u: %ld + %ld = %ld cents\n", h + 1, even, odd, even + odd);
        bool same = memcmp(shard[h], shard[0], sizeof(shard[h])) == 0;
        must(even + odd == TOTAL && same, "replicas", "do not agree, or lost cents");
        tram_host_close(host[h]);
    }
    for (uint32_t c = 0; c < CLIENTS; c++)
        pthread_join(client[c], NULL);
    printf("not a cent lost, and all replicas agree\n");
    tram_cluster_free(cluster);
    return 0;
}
