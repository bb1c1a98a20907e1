/* Counters in three groups, each replicated on three hosts.
 *
 *     counter CLUSTER_FILE
 *
 * A client adds to one counter, or to several with one message. In the end every host must have the same
 * three values. All hosts are polled by one thread here, to keep the example in one file; each could be
 * a process, with the same calls and tram_host_step for tram_host_poll. */
#include "tram.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GROUPS = 3, HOSTS = 3, MESSAGES = 300 };

/* The state of one replica. */
struct counter {
    int64_t value;
    uint64_t adds; /* how many messages made it */
};

struct counting_host {
    struct tram_host *host;
    struct counter counter[GROUPS]; /* its replicas, one of each group */
};

static struct tram_cluster *cluster;
static _Atomic uint64_t adds_expected; /* at each host; 0 while the client is still adding */

static void die(const char *what, const struct tram_error *e)
{
    fprintf(stderr, "%s: %s\n", what, e->text);
    exit(1);
}

/* ---- the state machine: the same deliveries in the same order give the same state ---- */

static uint32_t deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t reply_max)
{
    struct counter *c = (struct counter *)ctx + d->group;
    int64_t amount;
    if (d->bytes != sizeof(amount) || reply_max < sizeof(c->value))
        return 0;
    memcpy(&amount, d->body, sizeof(amount));
    c->value += amount;
    c->adds++;
    memcpy(reply, &c->value, sizeof(c->value));
    return sizeof(c->value);
}

/* A replica that was away gets the state of another one instead of all that it missed. */
static int save(void *ctx, uint32_t group, void **data, size_t *bytes)
{
    *bytes = sizeof(struct counter);
    *data = malloc(*bytes);
    if (*data == NULL)
        return -1;
    memcpy(*data, (struct counter *)ctx + group, *bytes);
    return 0;
}

static int load(void *ctx, uint32_t group, const void *data, size_t bytes)
{
    if (bytes != sizeof(struct counter))
        return -1;
    memcpy((struct counter *)ctx + group, data, bytes);
    return 0;
}

static void open_host(struct counting_host *h, const char *name)
{
    struct tram_machine machine = {.deliver = deliver, .save = save, .load = load};
    struct tram_host_options options = {.name = name, .machine = machine, .ctx = h->counter};
    struct tram_error e = {""};
    if (tram_host_open(cluster, &options, &h->host, &e) != TRAM_OK)
        die(name, &e);
}

/* Polls the hosts until the client has ended and every host has every addition. */
static void run_hosts(struct counting_host *hosts)
{
    struct tram_error e = {""};
    for (uint32_t level = 0; level < HOSTS; sched_yield()) {
        level = 0;
        for (struct counting_host *h = hosts; h < hosts + HOSTS; h++) {
            if (tram_host_poll(h->host, &e) < 0)
                die("host", &e);
            uint64_t adds = h->counter[0].adds + h->counter[1].adds + h->counter[2].adds;
            level += adds_expected != 0 && adds == adds_expected;
        }
    }
}

static void *run_client(void *unused)
{
    static const uint16_t groups[GROUPS] = {0, 1, 2};
    struct tram_error e = {""};
    struct tram_client *client;
    uint64_t adds = 0;
    if (tram_client_open(cluster, NULL, &client, &e) != TRAM_OK)
        die("client", &e);
    for (int64_t i = 1; i <= MESSAGES; i++) {
        uint32_t count = 1 + (uint32_t)i % GROUPS; /* to the first one, the first two, or all */
        if (tram_call(client, groups, count, &i, sizeof(i), NULL, 0, NULL, UINT64_C(10000000000),
                      &e) != TRAM_OK)
            die("add", &e);
        adds += count;
    }
    tram_client_close(client);
    adds_expected = adds;
    return unused;
}

int main(int argc, char **argv)
{
    static struct counting_host host[HOSTS];
    struct tram_error e = {""};
    pthread_t client;
    char name[24];
    bool equal = true;
    if (tram_cluster_load(argc > 1 ? argv[1] : "counter.yaml", &cluster, &e) != TRAM_OK)
        die("cluster", &e);
    snprintf(name, sizeof(name), "counter-%d", (int)getpid());
    tram_cluster_rename(cluster, name, &e); /* two runs at once do not meet */
    for (uint32_t h = 0; h < HOSTS; h++)
        open_host(&host[h], tram_cluster_host_name(cluster, h));
    pthread_create(&client, NULL, run_client, NULL);
    run_hosts(host);
    pthread_join(client, NULL);
    for (uint32_t h = 0; h < HOSTS; h++) {
        printf("%s:", tram_cluster_host_name(cluster, h));
        for (uint32_t g = 0; g < GROUPS; g++)
            printf("  %s %" PRId64, tram_cluster_group_name(cluster, g), host[h].counter[g].value);
        printf("\n");
        equal = equal && memcmp(host[h].counter, host[0].counter, sizeof(host[h].counter)) == 0;
        tram_host_close(host[h].host);
    }
    printf("%s\n", equal ? "equal everywhere" : "DIFFERENT");
    tram_cluster_free(cluster);
    return equal ? 0 : 1;
}
