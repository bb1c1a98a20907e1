/* The largest that is promised, with real processes: 1,024 groups, 9 replicas, 4,096 clients at once, messages and
 * replies from nothing to 1 MiB. Everything that is cast is delivered and answered right, hosts that are
 * killed in the middle included. */
#include "tram.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../skip.h"

enum {
    GROUPS_MAX = 1024,
    HOSTS_MAX = 9,
    BODY_MAX = 1 << 20,
    PATIENCE_S = 100, /* with anything; a slow machine is not a failure */
    MS = 1000000,
};

#define CALL_NS (PATIENCE_S * UINT64_C(1000) * MS)

static char dir[64];
static char text[GROUPS_MAX * 96 + 4096];

/* What processes of a test share. */
struct board {
    _Atomic uint32_t up[HOSTS_MAX];      /* lives of each host that have opened */
    _Atomic uint32_t arrived[8], failed; /* clients, by stage */
    _Atomic uint32_t sum;
    char why[TRAM_ERROR_BYTES];
};

static struct board *board;
static pid_t host_pid[HOSTS_MAX];
static uint32_t hosts, groups;

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

static void nap(void)
{
    struct timespec t = {.tv_nsec = 1 * MS};

    nanosleep(&t, NULL);
}

/* ---- the cluster file ---- */

/* Groups below each other two by two, on hosts in turn. */
static void write_cluster(uint32_t groups_count, uint32_t replicas, uint32_t hosts_count,
                          const char *settings)
{
    size_t at = (size_t)snprintf(text, sizeof text, "name: scale\nruntime_dir: %s\n%shosts:\n", dir,
                                 settings);

    groups = groups_count;
    hosts = hosts_count;
    for (uint32_t h = 0; h < hosts; h++)
        at += (size_t)snprintf(text + at, sizeof text - at, "  - {name: h%u}\n", h);
    at += (size_t)snprintf(text + at, sizeof text - at, "groups:\n");
    for (uint32_t g = 0; g < groups; g++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "  - {name: g%u, ", g);
        if (g > 0)
            at += (size_t)snprintf(text + at, sizeof text - at, "parent: g%u, ", (g - 1) / 2);
        for (uint32_t q = 0; q < replicas; q++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%sh%u", q ? ", " : "replicas: [",
                                   (g + q) % hosts);
        at += (size_t)snprintf(text + at, sizeof text - at, "]}\n");
    }
    assert_true(at < sizeof text - 1);
}

static struct tram_cluster *cluster(void)
{
    struct tram_cluster *c = NULL;
    struct tram_error e = {""};

    if (tram_cluster_parse(text, NULL, &c, &e) != TRAM_OK) {
        fprintf(stderr, "cluster: %s\n", e.text);
        abort();
    }
    return c;
}

/* ---- hosts ---- */

/* A replica's state: how many messages, the sum of their bytes, and the last one. The reply is the message
 * itself. */
struct state {
    uint64_t count, sum, bytes;
    unsigned char last[];
};

static struct state *state_of[GROUPS_MAX];

static uint64_t sum_of(const unsigned char *body, uint32_t bytes)
{
    uint64_t sum = bytes;

    for (uint32_t i = 0; i < bytes; i += 509)
        sum = sum * 31 + body[i];
    return sum;
}

static uint32_t deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t reply_max)
{
    struct state *old = state_of[d->group];
    struct state *s = old;

    (void)ctx;
    if (old == NULL || old->bytes < d->bytes)
        s = realloc(old, sizeof *s + d->bytes);
    if (old == NULL)
        *s = (struct state){.count = 0};
    s->count++;
    s->sum += sum_of(d->body, d->bytes);
    s->bytes = d->bytes;
    memcpy(s->last, d->body, d->bytes);
    state_of[d->group] = s;
    uint32_t n = d->bytes < reply_max ? d->bytes : reply_max;
    memcpy(reply, d->body, n);
    return n;
}

static int save(void *ctx, uint32_t group, void **data, size_t *bytes)
{
    const struct state *s = state_of[group];

    (void)ctx;
    *bytes = s ? sizeof *s + s->bytes : 0;
    *data = malloc(*bytes + 1);
    if (*bytes)
        memcpy(*data, s, *bytes);
    return 0;
}

static int load(void *ctx, uint32_t group, const void *data, size_t bytes)
{
    (void)ctx;
    free(state_of[group]);
    state_of[group] = NULL;
    if (bytes == 0)
        return 0;
    state_of[group] = malloc(bytes);
    memcpy(state_of[group], data, bytes);
    return 0;
}

static volatile sig_atomic_t asked_to_stop;

static void on_stop(int number)
{
    (void)number;
    asked_to_stop = 1;
}

static int host_main(uint32_t h)
{
    struct tram_cluster *c = cluster();
    struct tram_error e = {""};
    struct tram_host *host;
    char name[16];
    struct tram_host_options o = {.name = name, .machine = {deliver, save, load}};

    signal(SIGTERM, on_stop);
    snprintf(name, sizeof name, "h%u", h);
    if (tram_host_open(c, &o, &host, &e) != TRAM_OK) {
        fprintf(stderr, "host %s: %s\n", name, e.text);
        return 1;
    }
    atomic_fetch_add(&board->up[h], 1);
    while (!asked_to_stop)
        if (tram_host_step(host, &e) < 0) {
            fprintf(stderr, "host %s: %s\n", name, e.text);
            return 1;
        }
    tram_host_close(host);
    tram_cluster_free(c);
    return 0;
}

static pid_t fork_off(void)
{
    fflush(NULL);
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static void host_start(uint32_t h)
{
    uint32_t before = atomic_load(&board->up[h]);
    uint64_t until = now_ns() + CALL_NS;

    host_pid[h] = fork_off();
    if (host_pid[h] == 0)
        _exit(host_main(h));
    while (atomic_load(&board->up[h]) == before) {
        assert_true(now_ns() < until);
        assert_int_equal(waitpid(host_pid[h], NULL, WNOHANG), 0);
        nap();
    }
}

static void host_kill(uint32_t h)
{
    kill(host_pid[h], SIGKILL);
    waitpid(host_pid[h], NULL, 0);
    host_pid[h] = 0;
}

static void hosts_start(void)
{
    for (uint32_t h = 0; h < hosts; h++)
        host_start(h);
}

static void hosts_stop(void)
{
    for (uint32_t h = 0; h < hosts; h++)
        if (host_pid[h])
            kill(host_pid[h], SIGTERM);
    for (uint32_t h = 0; h < hosts; h++) {
        int status = 0;
        if (host_pid[h]) {
            waitpid(host_pid[h], &status, 0);
            assert_int_equal(status, 0);
        }
        host_pid[h] = 0;
    }
}

/* ---- clients ---- */

static struct tram_client *client(const struct tram_cluster *c)
{
    struct tram_client *k = NULL;
    struct tram_error e = {""};

    if (tram_client_open(c, NULL, &k, &e) != TRAM_OK)
        fail_msg("client: %s", e.text);
    return k;
}

static void fill(unsigned char *body, uint32_t bytes, uint32_t seed)
{
    for (uint32_t i = 0; i < bytes; i++)
        body[i] = (unsigned char)(seed + i * 7 + (i >> 8));
}

/* Casts so many bytes to these groups; each must answer with the same bytes. */
static void call(struct tram_client *k, const uint16_t *to, uint32_t count, uint32_t bytes)
{
    static unsigned char body[BODY_MAX];
    static uint32_t lengths[GROUPS_MAX], calls;
    struct tram_error e = {""};
    uint32_t room = bytes ? bytes : 1;
    unsigned char *replies = malloc((size_t)count * room);

    assert_non_null(replies);
    fill(body, bytes, ++calls);
    if (tram_call(k, to, count, body, bytes, replies, room, lengths, CALL_NS, &e) != TRAM_OK)
        fail_msg("%u bytes to %u groups: %s", bytes, count, e.text);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(lengths[i], bytes);
        assert_memory_equal(replies + (size_t)i * room, body, bytes);
    }
    free(replies);
}

static void call_all(struct tram_client *k, uint32_t bytes)
{
    uint16_t all[GROUPS_MAX];

    for (uint32_t g = 0; g < groups; g++)
        all[g] = (uint16_t)g;
    call(k, all, groups, bytes);
}

/* ---- the tests ---- */

#define SLOW_MACHINE "heartbeat_ms: 50\nsuspect_ms: 3000\n"
#define SMALL_RINGS                                                                                \
    "payload_max: 1 KiB\nreply_max: 1 KiB\nlog_bytes: 16 KiB\nsource_bytes: 4 KiB\n"               \
    "edge_bytes: 4 KiB\nreply_bytes: 4 KiB\nsnap_bytes: 4 KiB\n"

/* One message to all 1,024 groups and some to few; a third of the leaders is killed, and then, when that
 * host is back, another third, so that it must have caught up. */
static void scale__1024_groups(void **state)
{
    (void)state;
    write_cluster(1024, 3, 3, SMALL_RINGS SLOW_MACHINE);
    hosts_start();
    struct tram_cluster *c = cluster();
    struct tram_client *k = client(c);
    call(k, (const uint16_t[]){1023}, 1, 100);
    call(k, (const uint16_t[]){511, 1023}, 2, 1024);
    call_all(k, 10);
    host_kill(1);
    call_all(k, 0);
    host_start(1);
    host_kill(2);
    call_all(k, 600);
    call(k, (const uint16_t[]){7, 8, 1000}, 3, 1);
    host_start(2);
    tram_client_close(k);
    tram_cluster_free(c);
    hosts_stop();
}

/* Four of nine are killed, come back, and then four others are. */
static void scale__9_replicas(void **state)
{
    (void)state;
    write_cluster(16, 9, 9, SMALL_RINGS SLOW_MACHINE);
    hosts_start();
    struct tram_cluster *c = cluster();
    struct tram_client *k = client(c);
    call_all(k, 100);
    for (uint32_t h = 0; h < 4; h++)
        host_kill(h);
    call_all(k, 200);
    for (uint32_t h = 0; h < 4; h++)
        host_start(h);
    for (uint32_t h = 4; h < 8; h++)
        host_kill(h);
    call_all(k, 300);
    tram_client_close(k);
    tram_cluster_free(c);
    hosts_stop();
}

enum { CLIENTS = 4096, PROCESSES = 16, OF_ONE = CLIENTS / PROCESSES };

static void give_up(const struct tram_error *e)
{
    memcpy(board->why, e->text, sizeof board->why);
    atomic_fetch_add(&board->failed, 1);
    _exit(1);
}

/* Waits until all clients have come this far. */
static void meet(uint32_t stage)
{
    uint64_t until = now_ns() + CALL_NS;

    atomic_fetch_add(&board->arrived[stage], OF_ONE);
    while (atomic_load(&board->arrived[stage]) < CLIENTS) {
        if (atomic_load(&board->failed) || now_ns() > until)
            _exit(1);
        nap();
    }
}

/* A process with its share of the clients: opens them, has each cast to one group and to two, and, twice, closes
 * all. Messages of all clients are under way at once. */
static int clients_main(uint32_t process)
{
    struct tram_cluster *c = cluster();
    static struct tram_client *k[OF_ONE];
    struct tram_error e = {""};

    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < OF_ONE; i++)
            if (tram_client_open(c, NULL, &k[i], &e) != TRAM_OK)
                give_up(&e);
        meet(2 * round);
        for (uint32_t i = 0; i < OF_ONE; i++) {
            uint16_t to[] = {(uint16_t)((process + i) % 8), (uint16_t)(i % 8)};
            if (tram_cast(k[i], to, 1, "one", 3, NULL, &e) != TRAM_OK ||
                tram_cast(k[i], to, 2, "two", 3, NULL, &e) != TRAM_OK)
                give_up(&e);
            tram_client_flush(k[i]);
        }
        uint64_t until = now_ns() + CALL_NS;
        for (uint32_t i = 0; i < OF_ONE; i++)
            while (tram_client_outstanding(k[i]) > 0) {
                tram_client_wait(k[i], 20 * MS);
                snprintf(e.text, sizeof e.text, "client %u of process %u: no answer", i, process);
                if (now_ns() > until)
                    give_up(&e);
            }
        meet(2 * round + 1);
        for (uint32_t i = 0; i < OF_ONE; i++) {
            atomic_fetch_add(&board->sum, tram_client_life(k[i]));
            tram_client_close(k[i]);
        }
    }
    tram_cluster_free(c);
    return 0;
}

/* All 4,096 places are taken at once, by clients in 16 processes; one more is refused; all leave, and others
 * come in their places. */
static void scale__4096_clients(void **state)
{
    struct rlimit files;
    pid_t pid[PROCESSES];

    (void)state;
    getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max < 3 * CLIENTS)
        SKIP("a host needs some 8,300 descriptors for so many, see ulimit -Hn");
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    write_cluster(8, 3, 3, "clients: 4096\n" SMALL_RINGS SLOW_MACHINE);
    hosts_start();
    for (uint32_t p = 0; p < PROCESSES; p++) {
        pid[p] = fork_off();
        if (pid[p] == 0)
            _exit(clients_main(p));
    }
    struct tram_cluster *c = cluster();
    struct tram_client *one_more;
    struct tram_error e = {""};
    while (atomic_load(&board->arrived[0]) < CLIENTS && !atomic_load(&board->failed))
        nap();
    if (!atomic_load(&board->failed)) {
        assert_int_equal(tram_client_open(c, NULL, &one_more, &e), TRAM_EXISTS);
        assert_non_null(strstr(e.text, "all 4096 places"));
    }
    bool ok = true;
    for (uint32_t p = 0; p < PROCESSES; p++) {
        int status = 0;
        waitpid(pid[p], &status, 0);
        ok &= status == 0;
    }
    if (!ok)
        fail_msg("%s", board->why);
    /* Every place has had two lives, 0 and 1. */
    assert_int_equal(atomic_load(&board->sum), CLIENTS);
    tram_cluster_free(c);
    hosts_stop();
}

/* Nothing, a byte, 64 KiB and 1 MiB, to one group and to eight, echoed; with a host killed among them, whose
 * state, the last message of each group, comes back to it by snapshot. */
static void scale__payloads_up_to_1_mib(void **state)
{
    static const uint32_t sizes[] = {0, 1, 64 << 10, 1 << 20};
    uint64_t pages = (uint64_t)sysconf(_SC_AVPHYS_PAGES);

    (void)state;
    if (pages * 4096 < UINT64_C(5) << 30)
        SKIP("rings for such messages take 2.5 GiB here");
    write_cluster(8, 3, 3,
                  "payload_max: 1 MiB\nreply_max: 1 MiB\nlog_bytes: 16 MiB\n" SLOW_MACHINE);
    hosts_start();
    struct tram_cluster *c = cluster();
    struct tram_client *k = client(c);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            call(k, (const uint16_t[]){(uint16_t)(round + 3)}, 1, sizes[i]);
            call_all(k, sizes[i]);
        }
        if (round == 0)
            host_kill(1);
        if (round == 1) {
            host_start(1);
            host_kill(2); /* the one that is back must have the state */
        }
    }
    struct tram_error e = {""};
    static unsigned char body[BODY_MAX + 1];
    assert_int_equal(tram_cast(k, (const uint16_t[]){0}, 1, body, sizeof body, NULL, &e),
                     TRAM_TOOBIG);
    assert_non_null(strstr(e.text, "allows 1048576"));
    tram_client_close(k);
    tram_cluster_free(c);
    hosts_stop();
}

static int setup(void **state)
{
    (void)state;
    memset(board, 0, sizeof *board);
    memset(host_pid, 0, sizeof host_pid);
    snprintf(dir, sizeof dir, "/dev/shm/tram-scale-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[128];

    (void)state;
    for (uint32_t h = 0; h < HOSTS_MAX; h++)
        if (host_pid[h])
            host_kill(h);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

int main(void)
{
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 1;
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest cases[] = {
        CASE(scale__1024_groups),
        CASE(scale__9_replicas),
        CASE(scale__4096_clients),
        CASE(scale__payloads_up_to_1_mib),
    };
    return run_with_skips(cases);
}
