/* A cluster with the public API: its file, its hosts as processes, its clients in this one. */
#include "api/api.h"
#include "api/disk.h"
#include "base/clock.h"
#include "bench/durable.h"
#include "bench/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOK_NS = 2000000,  /* how often a host tells of itself */
    TICK_NS = 1000000,  /* how often it is looked at */
    WARM_UP_CALLS = 20, /* of a new client, to each group */
};

#define SECOND_NS UINT64_C(1000000000)

/* What a host tells of itself: a file that both map. One writer, its process. */
struct durable_shown {
    _Atomic uint64_t pid;      /* whose words these are */
    _Atomic uint64_t led;      /* groups that it leads, one bit each */
    _Atomic uint64_t complete; /* those of them that have all their replicas */
    _Atomic uint64_t behind;   /* replicas that have no state yet */
    _Atomic uint64_t bytes, batches;
};

_Static_assert(OVERLAY_GROUPS_MAX >= 64, "a group has a bit of a word, and the bench 64 groups");

/* ---- the process of a host ---- */

static uint32_t on_deliver(void *ctx, const struct tram_delivery *d, void *reply,
                           uint32_t reply_max)
{
    uint64_t *sum = ctx;
    uint64_t word = 0;
    memcpy(&word, d->body, d->bytes < sizeof(word) ? d->bytes : sizeof(word));
    *sum += word;
    memcpy(reply, &d->number, sizeof(d->number) < reply_max ? sizeof(d->number) : reply_max);
    return sizeof(d->number) < reply_max ? sizeof(d->number) : reply_max;
}

static int on_save(void *ctx, uint32_t group, void **data, size_t *bytes)
{
    (void)group;
    *bytes = sizeof(uint64_t);
    *data = malloc(*bytes);
    if (*data == NULL)
        return -1;
    memcpy(*data, ctx, *bytes);
    return 0;
}

static int on_load(void *ctx, uint32_t group, const void *data, size_t bytes)
{
    (void)group;
    if (bytes != sizeof(uint64_t))
        return -1;
    memcpy(ctx, data, bytes);
    return 0;
}

static struct durable_shown *map_shown(const char *dir, const char *host, struct err *e)
{
    char path[448];
    snprintf(path, sizeof(path), "%s/%s.shown", dir, host);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *at = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof(struct durable_shown)) == 0)
        at = mmap(NULL, sizeof(struct durable_shown), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int rc = at == MAP_FAILED ? err_sys(e, "open %s", path) : 0;
    if (fd >= 0)
        close(fd);
    return rc == 0 ? at : NULL;
}

static void show(const struct tram_host *h, uint32_t replicas, struct durable_shown *s)
{
    struct tram_replica_stats r;
    struct tram_disk_stats d = {0};
    uint64_t led = 0, complete = 0, behind = 0;
    for (uint32_t i = 0; tram_host_replica(h, i, &r) == 0; i++) {
        uint64_t bit = UINT64_C(1) << r.group % 64;
        behind += r.behind || r.role == TRAM_JOINING;
        led |= r.role == TRAM_LEADER ? bit : 0;
        complete |= r.role == TRAM_LEADER && r.attached == replicas ? bit : 0;
    }
    tram_host_disk(h, &d);
    atomic_store(&s->led, led);
    atomic_store(&s->complete, complete);
    atomic_store(&s->behind, behind);
    atomic_store(&s->bytes, d.written_bytes);
    atomic_store(&s->batches, d.writes);
    atomic_store(&s->pid, (uint64_t)getpid());
}

static int serve(struct tram_host *h, uint32_t replicas, struct durable_shown *s, struct err *e)
{
    struct tram_error error = {""};
    for (uint64_t look_ns = 0;;) {
        if (tram_host_step(h, &error) < 0)
            return err_set(e, ERR_SYSTEM, "%s", error.text);
        uint64_t now = clock_now_ns();
        if (now < look_ns)
            continue;
        look_ns = now + LOOK_NS;
        show(h, replicas, s);
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        if (poll(&in, 1, 0) != 0)
            return 0;
    }
}

int bench_durable_serve(const char *file, uint32_t host, struct err *e)
{
    struct tram_error error = {""};
    struct tram_cluster *c = NULL;
    struct tram_host *h = NULL;
    uint64_t sum = 0;
    char dir[384];
    signal(SIGINT, SIG_IGN); /* the terminal's ^C ends the parent, and that ends us */
    snprintf(dir, sizeof(dir), "%s", file);
    char *slash = strrchr(dir, '/');
    int rc = tram_cluster_load(file, &c, &error);
    if (rc != 0 || slash == NULL)
        return err_set(e, ERR_INVALID, "%s: %s", file, error.text);
    *slash = '\0';
    struct tram_host_options o = {
        .name = tram_cluster_host_name(c, host),
        .machine = {.deliver = on_deliver, .save = on_save, .load = on_load},
        .ctx = &sum,
        .log = api_log_stderr(TRAM_LOG_ERROR),
    };
    struct durable_shown *s = map_shown(dir, o.name, e);
    rc = s ? 0 : ERR_SYSTEM;
    if (rc == 0 && tram_host_open(c, &o, &h, &error) != 0)
        rc = err_set(e, ERR_SYSTEM, "%s", error.text);
    if (rc == 0)
        rc = serve(h, c->group[0].replicas, s, e);
    tram_host_close(h);
    tram_cluster_free(c);
    return rc;
}

/* ---- files ---- */

static int write_file(struct durable_cluster *d, struct err *e)
{
    unsigned char id[CLUSTER_ID_BYTES];
    uint16_t parent[OVERLAY_GROUPS_MAX];
    struct cluster *c = NULL;
    if (getrandom(id, sizeof(id), 0) != sizeof(id))
        return err_sys(e, "a random id");
    overlay_shape_fill(d->args.shape, d->args.groups, parent);
    struct cluster_plan plan = {.name = d->name,
                                .groups = d->args.groups,
                                .replicas = d->args.replicas,
                                .hosts = d->args.hosts,
                                .parent = parent,
                                .protocol = d->args.protocol == MCAST_GENUINE ? CLUSTER_GENUINE
                                                                              : CLUSTER_TREE,
                                .id = d->durable ? id : NULL};
    int rc = cluster_make(&plan, &c, e);
    if (rc != 0)
        return rc;
    c->disk_bytes = DURABLE_DISK_BYTES;
    if (d->args.log_bytes) {
        c->log_bytes = d->args.log_bytes;
        c->window_bytes = c->log_bytes / 2;
        c->batch_bytes = c->log_bytes / 16;
    }
    FILE *f = fopen(d->file, "we");
    rc = f ? cluster_write(f, c, e) : err_sys(e, "make %s", d->file);
    if (f && fclose(f) != 0 && rc == 0)
        rc = err_sys(e, "write %s", d->file);
    cluster_free(c);
    return rc;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

/* ---- hosts ---- */

static int start_host(struct durable_cluster *d, uint32_t host, struct err *e)
{
    char number[16];
    struct bench_child child;
    snprintf(number, sizeof(number), "%u", host);
    const char *const argv[] = {"tram", "bench", "--serve-file", d->file, "--serve-host",
                                number, NULL};
    int rc = child_start(&child, argv, -1, e);
    if (rc == 0) {
        d->pid[host] = child.pid;
        d->stop[host] = child.stop;
    }
    return rc;
}

void durable_kill(const struct durable_cluster *d, uint32_t host)
{
    kill(d->pid[host], SIGKILL);
}

int durable_restart(struct durable_cluster *d, uint32_t host, struct err *e)
{
    struct bench_child child = {.pid = d->pid[host], .stop = d->stop[host]};
    d->pid[host] = 0;
    child_stop(&child);
    return start_host(d, host, e);
}

/* All are told before any is waited for: none of them should take another's place meanwhile. */
static void stop_hosts(struct durable_cluster *d)
{
    for (uint32_t h = 0; h < d->args.hosts; h++)
        if (d->pid[h] != 0)
            close(d->stop[h]);
    for (uint32_t h = 0; h < d->args.hosts; h++)
        while (d->pid[h] != 0 && waitpid(d->pid[h], NULL, 0) < 0 && errno == EINTR)
            ;
    memset(d->pid, 0, sizeof(d->pid));
}

static bool is_new(const struct durable_cluster *d, uint32_t host)
{
    return d->shown[host] && d->pid[host] != 0 &&
           atomic_load(&d->shown[host]->pid) == (uint64_t)d->pid[host];
}

int durable_leader(const struct durable_cluster *d, uint32_t group)
{
    for (uint32_t h = 0; h < d->args.hosts; h++)
        if (is_new(d, h) && (atomic_load(&d->shown[h]->led) >> group & 1))
            return (int)h;
    return -1;
}

static bool is_complete(const struct durable_cluster *d)
{
    uint64_t all = 0;
    for (uint32_t h = 0; h < d->args.hosts; h++) {
        if (!is_new(d, h) || atomic_load(&d->shown[h]->behind) > 0)
            return false;
        all |= atomic_load(&d->shown[h]->complete);
    }
    return all == (d->args.groups < 64 ? (UINT64_C(1) << d->args.groups) - 1 : UINT64_MAX);
}

static int host_ended(struct durable_cluster *d, struct err *e)
{
    int status;
    for (uint32_t h = 0; h < d->args.hosts; h++)
        if (d->pid[h] != 0 && waitpid(d->pid[h], &status, WNOHANG) == d->pid[h]) {
            d->pid[h] = 0;
            return err_set(e, ERR_SYSTEM, "host %u has ended", h + 1);
        }
    return 0;
}

int durable_await(struct durable_cluster *d, struct err *e)
{
    uint64_t deadline = clock_now_ns() + BENCH_STARTS_WITHIN_S * SECOND_NS;
    int rc = 0;
    while (rc == 0 && !is_complete(d)) {
        nanosleep(&(struct timespec){.tv_nsec = TICK_NS}, NULL);
        rc = host_ended(d, e);
        if (rc == 0 && clock_now_ns() > deadline)
            rc = err_set(e, ERR_TIMEOUT,
                         "not every group had a leader and all its replicas "
                         "within %d s",
                         BENCH_STARTS_WITHIN_S);
    }
    return rc;
}

struct durable_written durable_written(const struct durable_cluster *d)
{
    struct durable_written w = {0};
    /* They have told of themselves since. */
    nanosleep(&(struct timespec){.tv_nsec = 2 * LOOK_NS}, NULL);
    for (uint32_t h = 0; h < d->args.hosts; h++) {
        w.bytes += atomic_load(&d->shown[h]->bytes);
        w.batches += atomic_load(&d->shown[h]->batches);
    }
    return w;
}

/* ---- clients ---- */

static void on_done(void *ctx, uint64_t ticket)
{
    struct durable_user *u = ctx;
    (void)ticket;
    u->done++;
}

static int user_open(struct durable_cluster *d, struct durable_user *u, struct err *e)
{
    const struct tram_client_options o = {.done = on_done, .ctx = u};
    const uint64_t body = 0;
    struct tram_error error = {""};
    int rc = tram_client_open(d->cluster, &o, &u->client, &error);
    for (uint32_t i = 0; rc == 0 && i < WARM_UP_CALLS * d->args.groups; i++) {
        uint16_t group = (uint16_t)(i % d->args.groups);
        rc = tram_call(u->client, &group, 1, &body, sizeof(body), NULL, 0, NULL,
                       BENCH_STARTS_WITHIN_S * SECOND_NS, &error);
    }
    return rc == 0 ? 0 : err_set(e, ERR_TIMEOUT, "a client: %s", error.text);
}

int durable_users_grow(struct durable_cluster *d, uint32_t users, struct err *e)
{
    int rc = 0;
    for (; rc == 0 && d->users < users; d->users++)
        rc = user_open(d, &d->user[d->users], e);
    return rc;
}

/* ---- all of it ---- */

int durable_open(struct durable_cluster *d, const struct bench_args *a, bool durable,
                 const char *dir, struct err *e)
{
    struct tram_error error = {""};
    *d = (struct durable_cluster){.args = *a, .durable = durable};
    nodes_name(d->name, sizeof(d->name));
    snprintf(d->dir, sizeof(d->dir), "%s/%s", dir, d->name);
    snprintf(d->file, sizeof(d->file), "%s/cluster.yaml", d->dir);
    if (mkdir(d->dir, 0700) != 0)
        return err_sys(e, "make %s", d->dir);
    int rc = write_file(d, e);
    if (rc == 0 && tram_cluster_load(d->file, &d->cluster, &error) != 0)
        rc = err_set(e, ERR_INVALID, "%s", error.text);
    for (uint32_t h = 0; rc == 0 && h < a->hosts; h++) {
        d->shown[h] = map_shown(d->dir, tram_cluster_host_name(d->cluster, h), e);
        rc = d->shown[h] ? 0 : ERR_SYSTEM;
        if (rc == 0 && durable)
            rc = api_disk_format(d->cluster, h, 0, e);
    }
    for (uint32_t h = 0; rc == 0 && h < a->hosts; h++)
        rc = start_host(d, h, e);
    return rc == 0 ? durable_await(d, e) : rc;
}

void durable_close(struct durable_cluster *d)
{
    char runtime[320];
    struct err e = {""};
    for (uint32_t i = 0; i < BENCH_CLIENTS_MAX; i++)
        tram_client_close(d->user[i].client);
    stop_hosts(d);
    for (uint32_t h = 0; h < BENCH_HOSTS_MAX; h++)
        if (d->shown[h])
            munmap(d->shown[h], sizeof(*d->shown[h]));
    if (d->cluster && api_directory(d->cluster, runtime, sizeof(runtime), &e) == 0)
        nftw(runtime, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    tram_cluster_free(d->cluster);
    if (d->dir[0] != '\0')
        nftw(d->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    *d = (struct durable_cluster){0};
}
