/* Descriptors for event loops (tram_host_fd, tram_client_fd) and wake-ups from other threads: three hosts in one
 * epoll loop, clients in other threads, over shared memory, where a thread of the library waits in the loop's stead,
 * or, as "tcp", over a network. */
#include "../cluster_fixture.h"
#include "../far_fixture.h"
#include "base/clock.h"
#include "tram.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { HOSTS = 3, CALLS = 200, CALLERS = 2, ROUND_TRIPS = 100 };

#define LONG_NS UINT64_C(60000000000)

static struct tram_cluster *cluster;
static struct tram_host *host[HOSTS];
static int host_fd[HOSTS];
static _Atomic bool stop;
static _Atomic bool let_go; /* nobody else uses the hosts any more */
static _Atomic uint64_t turns, delivered;
static unsigned cases, failures;

static void verdict(bool good, const char *name)
{
    printf("%sok %u - event_loop__%s\n", good ? "" : "not ", ++cases, name);
    failures += !good;
}

static void must(int rc, const char *what, const struct tram_error *e)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, e->text);
    exit(1);
}

static uint32_t deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t reply_max)
{
    (void)ctx;
    (void)reply_max;
    delivered++;
    memcpy(reply, d->body, d->bytes);
    return d->bytes;
}

/* The loop as tram.h has it. */
static void *run_hosts(void *unused)
{
    struct tram_error e = {""};
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t h = 0; h < HOSTS; h++) {
        struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = h}};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, host_fd[h], &event);
    }
    while (!stop) {
        struct epoll_event ready[HOSTS];
        int n = epoll_wait(epoll_fd, ready, HOSTS, -1);
        turns++;
        for (int i = 0; i < n; i++) {
            int rc;
            do
                rc = tram_host_poll(host[ready[i].data.u32], &e);
            while (rc > 0);
            must(rc, "poll", &e);
        }
    }
    /* Who polled closes, and not before the last call of another thread has returned. */
    while (!let_go)
        sched_yield();
    for (uint32_t h = 0; h < HOSTS; h++)
        tram_host_close(host[h]);
    close(epoll_fd);
    return unused;
}

static struct tram_client *client_open(void)
{
    struct tram_error e = {""};
    struct tram_client *c;
    must(tram_client_open(cluster, NULL, &c, &e), "client", &e);
    return c;
}

static void *call_often(void *wrong)
{
    static const uint16_t g1 = 0;
    struct tram_error e = {""};
    struct tram_client *c = client_open();
    for (uint32_t i = 0; i < CALLS; i++) {
        uint32_t reply = 0;
        must(tram_call(c, &g1, 1, &i, sizeof(i), &reply, sizeof(reply), NULL, LONG_NS, &e), "call",
             &e);
        *(_Atomic uint32_t *)wrong += reply != i;
    }
    tram_client_close(c);
    return NULL;
}

static void serves_calls(void)
{
    static _Atomic uint32_t wrong;
    pthread_t caller[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        pthread_create(&caller[i], NULL, call_often, &wrong);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(caller[i], NULL);
    verdict(wrong == 0, "serves_calls_of_other_threads");
}

/* Waits for the descriptor, then polls until nothing is done. */
static int serve_client(struct tram_client *c, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int done = 0, n;
    if (poll(&p, 1, (int)(LONG_NS / 1000000)) != 1)
        return -1;
    while ((n = tram_client_poll(c)) > 0)
        done += n;
    return done;
}

static void client_has_a_loop(void)
{
    static const uint16_t g1 = 0;
    struct tram_error e = {""};
    struct tram_client *c = client_open();
    int fd = tram_client_fd(c, &e), rc = 0;
    must(fd, "descriptor", &e);
    for (uint32_t i = 0; i < ROUND_TRIPS && rc >= 0; i++) {
        uint64_t ticket;
        must(tram_cast(c, &g1, 1, &i, sizeof(i), &ticket, &e), "cast", &e);
        tram_client_poll(c);
        while (rc >= 0 && !tram_client_done(c, ticket))
            rc = serve_client(c, fd);
    }
    verdict(rc >= 0, "tells_a_client_of_its_replies");
    verdict(tram_client_fd(c, &e) == fd, "is_the_same_descriptor_when_asked_again");
    tram_client_close(c);
}

/* Heartbeats and looks are due all the time, but a loop that spins turns a hundred times as often. */
static void sleeps_when_idle(void)
{
    usleep(300000);
    uint64_t before = turns, start = clock_now_ns();
    usleep(1000000);
    uint64_t a_second = (turns - before) * 1000000000u / (clock_now_ns() - start);
    printf("# %llu turns a second of %d idle hosts\n", (unsigned long long)a_second, HOSTS);
    verdict(a_second > 0 && a_second < 3000, "sleeps_between_heartbeats");
}

struct waking {
    struct tram_client *client;
    _Atomic bool go;
};

static void *wake_later(void *arg)
{
    struct waking *w = arg;
    while (!w->go)
        usleep(100);
    usleep(20000);
    tram_client_wake(w->client);
    return NULL;
}

static bool woken(struct tram_client *c, bool by_descriptor)
{
    struct tram_error e = {""};
    struct waking w = {.client = c};
    pthread_t other;
    int fd = by_descriptor ? tram_client_fd(c, &e) : -1;
    pthread_create(&other, NULL, wake_later, &w);
    uint64_t start = clock_now_ns();
    if (by_descriptor)
        while (tram_client_poll(c) > 0)
            ;
    w.go = true;
    int rc = by_descriptor ? serve_client(c, fd) : tram_client_wait(c, LONG_NS);
    pthread_join(other, NULL);
    return rc == 0 && clock_now_ns() - start < LONG_NS / 2;
}

static void other_threads_wake_it(void)
{
    struct tram_client *c = client_open();
    verdict(woken(c, false), "a_wait_is_ended_by_another_thread");
    tram_client_wake(c); /* before: the next wait ends */
    uint64_t start = clock_now_ns();
    tram_client_wait(c, LONG_NS);
    verdict(clock_now_ns() - start < LONG_NS / 2, "a_wait_after_a_wake_up_ends");
    verdict(woken(c, true), "another_thread_makes_it_readable");
    tram_client_close(c);
    uint64_t before = turns;
    for (uint64_t until = clock_now_ns() + LONG_NS; turns == before && clock_now_ns() < until;)
        tram_host_wake(host[0]);
    verdict(turns != before, "a_host_is_woken_too");
}

static void make_cluster(const char *dir, bool tcp)
{
    struct tram_error e = {""};
    struct err err = {""};
    struct cluster *c = NULL;
    char path[64], text[512], address[HOSTS][48] = {"", "", ""};
    snprintf(path, sizeof(path), "%s/c.yaml", dir);
    for (int h = 0; tcp && h < HOSTS; h++)
        snprintf(address[h], sizeof(address[h]), ", address: 127.0.0.1:%u", far_fixture_port());
    snprintf(text, sizeof(text),
             "name: event-loop\ntransport: %s\nruntime_dir: %s\nsuspect_ms: 2000\n"
             "hosts: [{name: h1%s}, {name: h2%s}, {name: h3%s}]\n"
             "groups: [{name: g1, replicas: [h1, h2, h3]}]\n",
             tcp ? "tcp" : "shm", dir, address[0], address[1], address[2]);
    if (cluster_parse_lax(text, strlen(text), path, &c, &err) != 0 ||
        !cluster_fixture_write(c, path, &err)) {
        fprintf(stderr, "cluster: %s\n", err.text);
        exit(1);
    }
    cluster_free(c);
    must(tram_cluster_load(path, &cluster, &e), "cluster", &e);
    unlink(path);
}

static void remove_dir(const char *dir)
{
    char command[96];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    if (system(command) != 0)
        exit(1);
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/tram-event-loop-XXXXXX";
    struct tram_error e = {""};
    pthread_t loop;
    if (mkdtemp(dir) == NULL)
        return 1;
    make_cluster(dir, argc > 1 && strcmp(argv[1], "tcp") == 0);
    for (uint32_t h = 0; h < HOSTS; h++) {
        struct tram_host_options o = {.name = tram_cluster_host_name(cluster, h),
                                      .machine = {.deliver = deliver}};
        must(tram_host_open(cluster, &o, &host[h], &e), o.name, &e);
        host_fd[h] = tram_host_fd(host[h], &e);
        must(host_fd[h], "descriptor", &e);
    }
    pthread_create(&loop, NULL, run_hosts, NULL);
    serves_calls();
    client_has_a_loop();
    sleeps_when_idle();
    other_threads_wake_it();
    stop = true;
    tram_host_wake(host[0]);
    let_go = true;
    pthread_join(loop, NULL);
    tram_cluster_free(cluster);
    remove_dir(dir);
    printf("1..%u\n", cases);
    return failures > 0;
}
