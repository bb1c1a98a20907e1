/* A group with a large state, under full closed-loop load: a host is killed with SIGKILL and started again. It must
 * come back while the load goes on, the group must keep its leader, and no call may wait long.
 *
 *      large_state FILE MEGABYTES LIMIT_MS [slow]
 *
 * prints TAP. FILE is a cluster of three hosts; its first group gets the state. slow: the machine saves and loads in one
 * call that takes longer than suspect_ms; then the group waits for that call, and not for ever.
 * Prints the worst call, how long the return took and how often the state was frozen. */
#include "../../examples/chunked.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/rng.h"
#include "tram.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    HOSTS = 3,
    SAVES_MAX = 2, /* for one return, under one leader */
    GROUPS = 2,
    SMALL_BYTES = 4096, /* of group 1 */
    OUTSTANDING = 16,
    BODY_BYTES = 200,
    BOARD_FD = 40,
    LOOK_EVERY_NS = 200000,
    SLOW_US = 400000,
};

#define MS UINT64_C(1000000)
#define PATIENCE_NS (180000 * MS)

/* What hosts show the test. */
struct board {
    struct {
        _Alignas(64) _Atomic uint64_t up;
        _Atomic uint64_t saves, loads, terms, behind, leads, count, hash; /* loads: begun */
        atomic_int stop;
    } host[HOSTS];
};

/* ---- a host ---- */

struct machine {
    struct chunked group[GROUPS]; /* each a count of messages first */
    bool slow;                    /* uses the pair for small states, which takes its time */
    struct board *board;
    uint32_t host;
};

static uint64_t count_of(const struct chunked *s)
{
    uint64_t count = 0;
    if (s->bytes > 0)
        memcpy(&count, chunked_read(s, 0), sizeof(count));
    return count;
}

static uint32_t deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t max)
{
    struct machine *m = ctx;
    struct chunked *s = &m->group[d->group];
    uint64_t count = count_of(s) + 1;
    uint64_t slot = hash_mix(count, d->seq) % ((s->bytes - 8) / BODY_BYTES);
    memcpy(chunked_write(s, 0), &count, sizeof(count));
    /* Records do not go over the end of a chunk. */
    uint64_t at = 8 + slot * BODY_BYTES;
    if (at % CHUNK_BYTES + d->bytes > CHUNK_BYTES)
        at -= d->bytes;
    memcpy(chunked_write(s, at), d->body, d->bytes);
    if (max < sizeof(count))
        return 0;
    memcpy(reply, &count, sizeof(count));
    return sizeof(count);
}

static void *save_open(void *ctx, uint32_t group, uint64_t *bytes)
{
    struct machine *m = ctx;
    atomic_fetch_add(&m->board->host[m->host].saves, group == 0);
    return chunked_save_open(&m->group[group], bytes);
}

static int save_next(void *ctx, uint32_t group, void *save, void *out, uint32_t room)
{
    (void)ctx;
    (void)group;
    return chunked_save_next(save, out, room);
}

static void save_close(void *ctx, uint32_t group, void *save)
{
    (void)ctx;
    (void)group;
    chunked_save_close(save);
}

static int load_open(void *ctx, uint32_t group, uint64_t bytes)
{
    struct machine *m = ctx;
    atomic_fetch_add(&m->board->host[m->host].loads, group == 0);
    return chunked_load_open(&m->group[group], bytes);
}

static int load_next(void *ctx, uint32_t group, const void *data, uint32_t bytes)
{
    struct machine *m = ctx;
    return chunked_load_next(&m->group[group], data, bytes);
}

static int load_close(void *ctx, uint32_t group, bool whole)
{
    struct machine *m = ctx;
    return chunked_load_close(&m->group[group], whole);
}

/* The pair for small states, as slow as it is with a large one on a slow machine: longer than suspect_ms. */
static int save(void *ctx, uint32_t group, void **data, size_t *bytes)
{
    struct machine *m = ctx;
    uint64_t expected;
    struct chunked_save *all = save_open(ctx, group, &expected);
    unsigned char *to = malloc(m->group[group].bytes);
    if (all == NULL || to == NULL)
        return -1;
    *bytes = 0;
    for (int n = 1; n > 0; *bytes += (size_t)n)
        n = chunked_save_next(all, to + *bytes, CHUNK_BYTES);
    chunked_save_close(all);
    if (group == 0)
        usleep(SLOW_US);
    *data = to;
    return 0;
}

static int load(void *ctx, uint32_t group, const void *data, size_t bytes)
{
    if (load_open(ctx, group, bytes) != 0 || load_next(ctx, group, data, (uint32_t)bytes) != 0)
        return -1;
    if (group == 0)
        usleep(SLOW_US);
    return load_close(ctx, group, true);
}

static const struct tram_machine in_pieces = {.deliver = deliver,
                                              .save_open = save_open,
                                              .save_next = save_next,
                                              .save_close = save_close,
                                              .load_open = load_open,
                                              .load_next = load_next,
                                              .load_close = load_close};
static const struct tram_machine at_once = {.deliver = deliver, .save = save, .load = load};

/* What every host begins with. */
static bool fill(struct chunked *s, uint64_t bytes)
{
    if (!chunked_resize(s, bytes))
        return false;
    for (uint64_t at = 0; at < bytes; at += CHUNK_BYTES) {
        unsigned char *to = chunked_write(s, at);
        if (to == NULL)
            return false;
        memset(to, (int)(at / CHUNK_BYTES % 251), CHUNK_BYTES);
    }
    memset(chunked_write(s, 0), 0, 8);
    return true;
}

static uint64_t hash_of(const struct chunked *s)
{
    uint64_t hash = s->bytes;
    for (uint64_t at = 0; at < s->bytes; at += CHUNK_BYTES) {
        uint64_t left = s->bytes - at;
        hash = hash_bytes(hash, chunked_read(s, at), left < CHUNK_BYTES ? left : CHUNK_BYTES);
    }
    return hash;
}

static void show(struct machine *m, const struct tram_host *host)
{
    struct tram_replica_stats s;
    for (uint32_t i = 0; tram_host_replica(host, i, &s) == 0; i++) {
        if (s.group != 0)
            continue;
        atomic_store(&m->board->host[m->host].terms, s.terms);
        atomic_store(&m->board->host[m->host].behind, s.behind || s.role == TRAM_JOINING);
        atomic_store(&m->board->host[m->host].leads, s.role == TRAM_LEADER);
        atomic_store(&m->board->host[m->host].count, s.delivered);
        atomic_store(&m->board->host[m->host].up, 1);
    }
}

static struct board *board_map(void)
{
    void *at = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, BOARD_FD, 0);
    return at == MAP_FAILED ? NULL : at;
}

static int host_main(const char *file, uint32_t rank, uint64_t bytes, bool slow)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct machine m = {.board = board_map(), .host = rank, .slow = slow};
    struct tram_cluster *cluster;
    struct tram_host *host;
    struct tram_error error = {""};
    if (m.board == NULL || !fill(&m.group[0], bytes) || !fill(&m.group[1], SMALL_BYTES))
        return 3;
    struct tram_host_options o = {
        .machine = m.slow ? at_once : in_pieces,
        .ctx = &m,
    };
    int rc = tram_cluster_load(file, &cluster, &error);
    if (rc == 0) {
        o.name = tram_cluster_host_name(cluster, rank);
        rc = tram_host_open(cluster, &o, &host, &error);
    }
    uint64_t shown = 0;
    while (rc >= 0 && !atomic_load_explicit(&m.board->host[rank].stop, memory_order_relaxed)) {
        rc = tram_host_step(host, &error);
        uint64_t now = clock_now_ns();
        if (now - shown > LOOK_EVERY_NS) {
            show(&m, host);
            shown = now;
        }
    }
    if (rc < 0) {
        printf("# host %u: %s\n", rank, error.text);
        return 3;
    }
    atomic_store(&m.board->host[rank].count, count_of(&m.group[0]));
    atomic_store(&m.board->host[rank].hash, hash_of(&m.group[0]));
    tram_host_close(host);
    tram_cluster_free(cluster);
    return 0;
}

/* ---- the test ---- */

struct test {
    const char *file, *megabytes;
    char self[256];
    struct board *board;
    pid_t pid[HOSTS];
    struct tram_cluster *cluster;
    struct tram_client *client;
    struct rng rng;
    uint64_t cast_ns[1 << 16]; /* by ticket, modulo */
    uint64_t done, worst_ns;
    bool slow;
    uint32_t tests, failed;
};

static void verdict(struct test *t, bool good, const char *what)
{
    printf("%sok %u - %s\n", good ? "" : "not ", ++t->tests, what);
    fflush(stdout);
    t->failed += !good;
}

static void start_host(struct test *t, uint32_t rank)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", rank);
    fflush(stdout);
    atomic_store(&t->board->host[rank].up, 0);
    t->pid[rank] = fork();
    if (t->pid[rank] == 0) {
        execl(t->self, t->self, "host", t->file, t->megabytes, number, t->slow ? "slow" : "pieces",
              (char *)NULL);
        _exit(4);
    }
}

static void on_done(void *ctx, uint64_t ticket)
{
    struct test *t = ctx;
    uint64_t took = clock_now_ns() - t->cast_ns[ticket % (1 << 16)];
    t->worst_ns = took > t->worst_ns ? took : t->worst_ns;
    t->done++;
}

/* Keeps so many calls under way. */
static void load_step(struct test *t)
{
    unsigned char body[BODY_BYTES];
    while (tram_client_outstanding(t->client) < OUTSTANDING) {
        uint16_t groups[GROUPS] = {0, 1};
        uint64_t ticket;
        memset(body, (int)rng_below(&t->rng, 256), sizeof(body));
        uint32_t count = rng_below(&t->rng, 8) ? 1 : 2;
        if (tram_cast(t->client, groups, count, body, sizeof(body), &ticket, NULL) != 0)
            break;
        t->cast_ns[ticket % (1 << 16)] = clock_now_ns();
    }
    tram_client_wait(t->client, MS);
}

static void load_for(struct test *t, uint64_t ns)
{
    uint64_t until = clock_now_ns() + ns;
    while (clock_now_ns() < until)
        load_step(t);
}

static bool wait_until_all_lead(struct test *t)
{
    uint64_t until = clock_now_ns() + PATIENCE_NS;
    for (;;) {
        uint32_t up = 0, leads = 0;
        for (uint32_t h = 0; h < HOSTS; h++) {
            up += atomic_load(&t->board->host[h].up) == 1;
            leads += atomic_load(&t->board->host[h].leads) == 1;
        }
        if (up == HOSTS && leads > 0)
            return true;
        if (clock_now_ns() > until)
            return false;
        usleep(1000);
    }
}

static uint64_t sum_of_terms(const struct test *t, uint32_t but)
{
    uint64_t sum = 0;
    for (uint32_t h = 0; h < HOSTS; h++)
        sum += h != but ? atomic_load(&t->board->host[h].terms) : 0;
    return sum;
}

/* Saves that nobody but the host had a use for. Another one that a busy machine keeps from running for longer than
 * detach_ms is detached, and at this rate the log is soon past what it has: then it is sent the whole state, too. */
static uint64_t saves_for(const struct test *t, uint32_t host)
{
    uint64_t sum = 0;
    for (uint32_t h = 0; h < HOSTS; h++)
        sum += atomic_load(&t->board->host[h].saves);
    for (uint32_t h = 0; h < HOSTS; h++)
        sum -= h != host ? atomic_load(&t->board->host[h].loads) : 0;
    return sum;
}

/* Kills the host, has the others go on, starts it again and waits, under load, until it has caught up. */
static void kill_and_return(struct test *t, uint32_t host, const char *who, uint64_t limit_ns)
{
    char text[256];
    t->worst_ns = 0;
    kill(t->pid[host], SIGKILL);
    waitpid(t->pid[host], NULL, 0);
    atomic_store(&t->board->host[host].leads, 0);
    load_for(t, 1000 * MS);
    uint64_t kill_worst = t->worst_ns, terms = sum_of_terms(t, host), done = t->done;
    t->worst_ns = 0;
    uint64_t began = clock_now_ns(), saves_before = saves_for(t, host);
    start_host(t, host);
    while (clock_now_ns() - began < PATIENCE_NS) {
        load_step(t);
        if (atomic_load(&t->board->host[host].up) == 1 &&
            atomic_load(&t->board->host[host].behind) == 0) {
            uint64_t most = 0;
            for (uint32_t h = 0; h < HOSTS; h++)
                if (h != host && atomic_load(&t->board->host[h].count) > most)
                    most = atomic_load(&t->board->host[h].count);
            if (atomic_load(&t->board->host[host].count) + 2000 > most)
                break;
        }
    }
    uint64_t back_ns = clock_now_ns() - began, saves = saves_for(t, host) - saves_before;
    uint64_t changes = sum_of_terms(t, host) - terms;
    uint64_t rate = (t->done - done) * 1000 * MS / (back_ns + 1);
    load_for(t, 500 * MS);
    printf("# %s killed: worst call %.1f ms at the kill, %.1f ms while it came back; back after "
           "%.2f s "
           "under %llu calls/s; %llu saves, %llu changes of the leader\n",
           who, (double)kill_worst / 1e6, (double)t->worst_ns / 1e6, (double)back_ns / 1e9,
           (unsigned long long)rate, (unsigned long long)saves, (unsigned long long)changes);
    snprintf(text, sizeof(text), "%s is back under load", who);
    verdict(t, back_ns < PATIENCE_NS, text);
    /* Once, and once more if the transfer is broken off; a new leader begins it anew. */
    snprintf(text, sizeof(text),
             "its state was saved at most twice by each leader: %llu, %llu changes",
             (unsigned long long)saves, (unsigned long long)changes);
    verdict(t, saves <= SAVES_MAX * (changes + 1), text);
    snprintf(text, sizeof(text), "no call took longer than %llu ms meanwhile: %.1f",
             (unsigned long long)(limit_ns / MS), (double)t->worst_ns / 1e6);
    verdict(t, t->worst_ns <= limit_ns, text);
}

static void stop_all(struct test *t)
{
    uint64_t until = clock_now_ns() + PATIENCE_NS;
    while (tram_client_outstanding(t->client) > 0 && clock_now_ns() < until)
        tram_client_wait(t->client, MS);
    verdict(t, tram_client_outstanding(t->client) == 0, "every call is answered");
    load_for(t, 0);
    while (tram_client_outstanding(t->client) > 0 && clock_now_ns() < until)
        tram_client_wait(t->client, MS);
    usleep(500000); /* followers hear of the last commit with a heartbeat */
    tram_client_close(t->client);
    bool good = true;
    for (uint32_t h = 0; h < HOSTS; h++)
        atomic_store(&t->board->host[h].stop, 1);
    for (uint32_t h = 0; h < HOSTS; h++) {
        int status = 0;
        waitpid(t->pid[h], &status, 0);
        if (status != 0)
            printf("# host %u ended with status %#x\n", h, (unsigned)status);
        good &= status == 0;
    }
    verdict(t, good, "all hosts end in order");
    for (uint32_t h = 1; h < HOSTS; h++)
        good &= atomic_load(&t->board->host[h].hash) == atomic_load(&t->board->host[0].hash) &&
                atomic_load(&t->board->host[h].count) == atomic_load(&t->board->host[0].count);
    verdict(t, good, "all have the same state");
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "host") == 0)
        return host_main(argv[2], (uint32_t)atoi(argv[4]), (uint64_t)atoi(argv[3]) << 20,
                         strcmp(argv[5], "slow") == 0);
    if (argc != 4 && argc != 5) {
        printf("Bail out! usage: large_state FILE MEGABYTES LIMIT_MS [slow]\n");
        return 1;
    }
    static struct test t;
    struct tram_error error = {""};
    t.file = argv[1];
    t.megabytes = argv[2];
    t.slow = argc == 5;
    ssize_t n = readlink("/proc/self/exe", t.self, sizeof(t.self) - 1);
    int fd = memfd_create("board", 0);
    if (n < 0 || fd < 0 || ftruncate(fd, sizeof(struct board)) != 0 || dup2(fd, BOARD_FD) < 0 ||
        (t.board = board_map()) == NULL || tram_cluster_load(t.file, &t.cluster, &error) != 0) {
        printf("Bail out! %s\n", error.text);
        return 1;
    }
    rng_init(&t.rng, clock_now_ns());
    for (uint32_t h = 0; h < HOSTS; h++)
        start_host(&t, h);
    if (!wait_until_all_lead(&t) ||
        tram_client_open(t.cluster, &(struct tram_client_options){.done = on_done, .ctx = &t},
                         &t.client, &error) != 0) {
        printf("Bail out! the cluster does not start: %s\n", error.text);
        return 1;
    }
    uint64_t limit_ns = (uint64_t)atoi(argv[3]) * MS;
    load_for(&t, 1000 * MS);
    printf("# %s MB, %u calls under way: worst call %.1f ms before any kill\n", t.megabytes,
           OUTSTANDING, (double)t.worst_ns / 1e6);
    uint32_t leader = 0;
    for (uint32_t h = 0; h < HOSTS; h++)
        if (atomic_load(&t.board->host[h].leads))
            leader = h;
    kill_and_return(&t, (leader + 1) % HOSTS, "a follower", limit_ns);
    kill_and_return(&t, leader, "the leader", limit_ns);
    stop_all(&t);
    printf("1..%u\n", t.tests);
    tram_cluster_free(t.cluster);
    return t.failed ? 1 : 0;
}
