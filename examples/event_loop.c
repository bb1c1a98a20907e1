/* Three hosts and a client in one event loop, with epoll and one thread.
 *
 *     event_loop CLUSTER_FILE
 *
 * Each has a descriptor that is readable when it is to be polled. Orders come from another thread, which wakes
 * the loop. A service would have one host, and its sockets in the same loop. */
#include "tram.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { HOSTS = 3, GROUPS = 3, CLIENT = HOSTS, ORDERS = 300 };

struct loop {
    struct tram_cluster *cluster;
    struct tram_host *host[HOSTS];
    uint64_t sum[HOSTS][GROUPS]; /* the state of the replicas */
    struct tram_client *client;
    int epoll_fd;
    _Atomic uint32_t ordered; /* by the other thread */
    uint32_t cast, done;
};

static void die(const char *what, const struct tram_error *e)
{
    fprintf(stderr, "%s: %s\n", what, e->text);
    exit(1);
}

/* The state machine. */
static uint32_t deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t reply_max)
{
    uint64_t *sum = (uint64_t *)ctx + d->group;
    uint32_t amount;
    (void)reply;
    (void)reply_max;
    memcpy(&amount, d->body, sizeof(amount));
    *sum += amount;
    return 0;
}

static void add(struct loop *l, int fd, uint32_t who, const struct tram_error *e)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = who}};
    if (fd < 0 || epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        die("descriptor", e);
}

static void on_done(void *ctx, uint64_t ticket)
{
    (void)ticket;
    ((struct loop *)ctx)->done++;
}

static void open_all(struct loop *l)
{
    struct tram_error e = {""};
    for (uint32_t h = 0; h < HOSTS; h++) {
        struct tram_host_options o = {.name = tram_cluster_host_name(l->cluster, h),
                                      .machine = {.deliver = deliver},
                                      .ctx = l->sum[h]};
        if (tram_host_open(l->cluster, &o, &l->host[h], &e) != TRAM_OK)
            die(o.name, &e);
        add(l, tram_host_fd(l->host[h], &e), h, &e);
    }
    struct tram_client_options o = {.done = on_done, .ctx = l};
    if (tram_client_open(l->cluster, &o, &l->client, &e) != TRAM_OK)
        die("client", &e);
    add(l, tram_client_fd(l->client, &e), CLIENT, &e);
}

/* Casts what was ordered, as far as there is room. */
static void cast_orders(struct loop *l)
{
    static const uint16_t groups[GROUPS] = {0, 1, 2};
    struct tram_error e = {""};
    int rc = TRAM_OK;
    while (l->cast < l->ordered && rc == TRAM_OK) {
        uint32_t amount = l->cast + 1;
        rc = tram_cast(l->client, groups, 1 + l->cast % GROUPS, &amount, sizeof(amount), NULL, &e);
        l->cast += rc == TRAM_OK;
    }
    if (rc != TRAM_OK && rc != TRAM_AGAIN)
        die("cast", &e);
}

static void serve(struct loop *l, uint32_t who)
{
    struct tram_error e = {""};
    int work;
    do {
        if (who == CLIENT)
            cast_orders(l);
        work = who == CLIENT ? tram_client_poll(l->client) : tram_host_poll(l->host[who], &e);
    } while (work > 0);
    if (work < 0)
        die("host", &e);
}

static bool all_delivered(const struct loop *l)
{
    return l->done == ORDERS && memcmp(l->sum[0], l->sum[1], sizeof(l->sum[0])) == 0 &&
           memcmp(l->sum[0], l->sum[2], sizeof(l->sum[0])) == 0;
}

static void *give_orders(void *ctx)
{
    struct loop *l = ctx;
    for (uint32_t i = 0; i < ORDERS; i++) {
        l->ordered++;
        tram_client_wake(l->client);
        usleep(200);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct loop l;
    struct tram_error e = {""};
    struct epoll_event ready[HOSTS + 1];
    pthread_t other;
    char name[32];
    if (tram_cluster_load(argc > 1 ? argv[1] : "event_loop.yaml", &l.cluster, &e) != TRAM_OK)
        die("cluster", &e);
    snprintf(name, sizeof(name), "event-loop-%d", (int)getpid());
    tram_cluster_rename(l.cluster, name, &e);
    l.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    open_all(&l);
    pthread_create(&other, NULL, give_orders, &l);
    while (!all_delivered(&l)) {
        int n = epoll_wait(l.epoll_fd, ready, HOSTS + 1, -1);
        for (int i = 0; i < n; i++)
            serve(&l, ready[i].data.u32);
    }
    pthread_join(other, NULL);
    printf("%u orders delivered at %d hosts, equal everywhere\n", l.done, HOSTS);
    tram_client_close(l.client);
    for (uint32_t h = 0; h < HOSTS; h++)
        tram_host_close(l.host[h]);
    tram_cluster_free(l.cluster);
    close(l.epoll_fd);
    return 0;
}
