/* Three host processes and a client, under load: the leading process is killed with SIGKILL and
 * started again, a hundred times. Nothing may be lost or applied twice, in any life of any replica;
 * how long the client saw no progress is printed.
 *
 *      log_kill              the test: prints TAP
 *      log_kill host ...     one host process of it
 */
#include "agree/source.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/hist.h"
#include "host/host.h"
#include "mem/shm/shm.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    REPLICAS = 3,
    CLIENT = REPLICAS,
    REGION = 1,
    PAYLOAD = 64,
    OUTSTANDING = 32,
    BOARD_FD = 100
};

#define SECONDS UINT64_C(1000000000)

/* What a host shows the test, in memory that both map. */
struct notice {
    _Alignas(64) _Atomic uint64_t count; /* messages applied */
    _Atomic uint64_t hash;               /* of all of them, in order */
    _Atomic uint64_t wrong;              /* messages out of turn */
    _Atomic uint64_t state;              /* enum unit_role */
    _Atomic uint64_t live;               /* leader: replicas that take its writes */
    _Atomic uint64_t behind;
    _Atomic uint64_t life;
    _Atomic uint64_t broken;
};

struct board {
    struct notice host[REPLICAS];
    atomic_int stop;
};

/* ---- a host ---- */

struct machine {
    struct state_block block; /* first: its ctx */
    struct {
        uint64_t count; /* also the number that the next message must carry */
        uint64_t hash;
    } state;
    struct notice *notice;
};

static void machine_apply(void *ctx, const struct entry *e)
{
    struct machine *m = ctx;
    uint64_t number;
    memcpy(&number, e->payload, sizeof(number));
    if (number != m->state.count)
        atomic_fetch_add(&m->notice->wrong, 1);
    m->state.count++;
    m->state.hash = hash_bytes(m->state.hash, e->payload, e->bytes);
}

static const struct log_machine machine_ops = {
    .apply = machine_apply,
    .state = &state_block_ops,
};

static const struct shm_node nodes_of_hosts[REPLICAS] = {
    {"h1", 0, SHM_HOST, 0}, {"h2", 1, SHM_HOST, 0}, {"h3", 2, SHM_HOST, 0}};
static const uint32_t nodes[REPLICAS] = {0, 1, 2};

static struct board *board_map(void)
{
    void *at = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, BOARD_FD, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void show(struct notice *n, const struct machine *m, const struct log *l)
{
    struct unit_status s;
    log_status(l, &s);
    atomic_store_explicit(&n->hash, m->state.hash, memory_order_relaxed);
    atomic_store_explicit(&n->count, m->state.count, memory_order_relaxed);
    atomic_store_explicit(&n->live, s.attached, memory_order_relaxed);
    atomic_store_explicit(&n->behind, s.behind, memory_order_relaxed);
    atomic_store_explicit(&n->broken, log_broken(l) != NULL, memory_order_relaxed);
    atomic_store_explicit(&n->state, s.role, memory_order_relaxed);
}

static int host_main(const char *dir, const char *cluster, uint32_t rank, enum host_wait wait)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct board *board = board_map();
    struct err e = {""};
    struct mem *mem;
    struct log *log;
    if (board == NULL)
        return 3;
    struct shm_options so = {
        .dir = dir,
        .cluster = cluster,
        .self = nodes_of_hosts[rank],
        .hosts = nodes_of_hosts,
        .hosts_count = REPLICAS,
    };
    struct machine m = {.block = {.data = &m.state, .bytes = sizeof(m.state)},
                        .notice = &board->host[rank]};
    if (shm_open_node(&so, &mem, &e) != 0) {
        fprintf(stderr, "# h%u: %s\n", rank + 1, e.text);
        return 3;
    }
    const uint32_t client = CLIENT;
    struct log_options lo = {
        .mem = mem,
        .region = REGION,
        .nodes = nodes,
        .replicas = REPLICAS,
        .rank = rank,
        .source_nodes = &client,
        .sources = 1,
        .machine = &machine_ops,
        .ctx = &m,
        .seed = clock_now_ns(),
    };
    if (log_open(&lo, &log, &e) != 0) {
        fprintf(stderr, "# h%u: %s\n", rank + 1, e.text);
        return 3;
    }
    static struct host host;
    host_init(&host, &(struct host_options){.mem = mem, .wait = wait});
    host_add(&host, log_unit(log));
    atomic_store(&m.notice->life, mem->life + 1);
    while (!atomic_load_explicit(&board->stop, memory_order_relaxed)) {
        host_step(&host);
        show(m.notice, &m, log);
    }
    log_close(log);
    shm_close_node(mem);
    return 0;
}

/* ---- the test ---- */

struct test {
    char dir[64], cluster[64];
    const char *self;
    const char *wait; /* of the hosts */
    struct board *board;
    pid_t pid[REPLICAS];
    struct mem *mem;
    struct source *source;
    uint64_t sent, end, taken;
    uint64_t moved_ns; /* when taken last moved */
    uint64_t gap_ns;   /* longest stretch without progress since it was reset */
    struct hist gaps, restarts;
};

static void start_host(struct test *t, uint32_t rank)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", rank);
    t->pid[rank] = fork();
    if (t->pid[rank] == 0) {
        execl(t->self, "log_kill", "host", t->dir, t->cluster, number, t->wait, (char *)NULL);
        _exit(4);
    }
}

/* Keeps the load up and notes progress. */
static void client_step(struct test *t)
{
    uint64_t now = clock_now_ns();
    mem_poll(t->mem);
    source_step(t->source, now);
    uint64_t taken = source_taken(t->source);
    if (taken != t->taken) {
        uint64_t gap = now - t->moved_ns;
        t->gap_ns = gap > t->gap_ns ? gap : t->gap_ns;
        t->taken = taken;
        t->moved_ns = now;
    }
    unsigned char payload[PAYLOAD];
    bool sent = false;
    while (t->end - taken < OUTSTANDING * frame_size(PAYLOAD)) {
        memset(payload, (int)(t->sent & 0xff), sizeof(payload));
        memcpy(payload, &t->sent, sizeof(t->sent));
        if (source_send(t->source, payload, sizeof(payload), &t->end) != 0)
            break;
        t->sent++;
        sent = true;
    }
    if (sent)
        source_flush(t->source);
    else
        sched_yield();
}

static bool failed(const struct test *t)
{
    for (uint32_t q = 0; q < REPLICAS; q++)
        if (atomic_load(&t->board->host[q].wrong) || atomic_load(&t->board->host[q].broken))
            return true;
    return false;
}

static int leader(const struct test *t)
{
    for (int q = 0; q < REPLICAS; q++)
        if (t->pid[q] > 0 && atomic_load(&t->board->host[q].state) == UNIT_LEADER &&
            atomic_load(&t->board->host[q].live) == REPLICAS)
            return q;
    return -1;
}

static bool all_well(const struct test *t)
{
    bool well = leader(t) >= 0;
    for (uint32_t q = 0; q < REPLICAS; q++)
        well &= !atomic_load(&t->board->host[q].behind) &&
                atomic_load(&t->board->host[q].life) > 0 && shm_connected(t->mem, q);
    return well;
}

/* Steps the client until all is well again; false after a long time. */
static bool wait_well(struct test *t)
{
    uint64_t give_up = clock_now_ns() + 20 * SECONDS;
    while (!all_well(t) && !failed(t) && clock_now_ns() < give_up)
        client_step(t);
    return all_well(t) && !failed(t);
}

static void run_for(struct test *t, uint64_t ns)
{
    uint64_t until = clock_now_ns() + ns;
    while (clock_now_ns() < until)
        client_step(t);
}

static bool kill_once(struct test *t)
{
    int victim = leader(t);
    run_for(t, 2000000 + (uint64_t)(rand() % 1000) * 1000);
    if (victim < 0 || victim != leader(t))
        return wait_well(t);
    struct notice *n = &t->board->host[victim];
    t->gap_ns = 0;
    uint64_t killed = clock_now_ns();
    uint64_t taken = t->taken;
    kill(t->pid[victim], SIGKILL);
    /* Progress by the next leader: beyond what the dead one can have had under way. */
    uint64_t give_up = killed + 20 * SECONDS;
    while (t->taken - taken < 2 * OUTSTANDING * frame_size(PAYLOAD) && clock_now_ns() < give_up)
        client_step(t);
    hist_add(&t->gaps, t->gap_ns);
    waitpid(t->pid[victim], NULL, 0);
    atomic_store(&n->state, UNIT_FOLLOWER);
    atomic_store(&n->life, 0);
    atomic_store(&n->behind, 1);
    uint64_t started = clock_now_ns();
    start_host(t, (uint32_t)victim);
    bool well = wait_well(t);
    hist_add(&t->restarts, clock_now_ns() - started);
    return well;
}

static bool drained(struct test *t)
{
    uint64_t give_up = clock_now_ns() + 20 * SECONDS;
    while (clock_now_ns() < give_up) {
        bool equal = t->taken == t->end;
        for (uint32_t q = 0; q < REPLICAS; q++)
            equal &= atomic_load(&t->board->host[q].count) == t->sent &&
                     atomic_load(&t->board->host[q].hash) == atomic_load(&t->board->host[0].hash);
        if (equal)
            return true;
        mem_poll(t->mem);
        source_step(t->source, clock_now_ns());
        t->taken = source_taken(t->source);
        usleep(100);
    }
    return false;
}

static void print_hist(const char *what, const struct hist *h)
{
    printf("# %s: p10 %.0f, median %.0f, p90 %.0f, max %.0f us (%llu)\n", what,
           (double)hist_quantile(h, 0.1) / 1e3, (double)hist_quantile(h, 0.5) / 1e3,
           (double)hist_quantile(h, 0.9) / 1e3, (double)hist_max(h) / 1e3,
           (unsigned long long)hist_count(h));
}

static bool open_client(struct test *t)
{
    struct err e = {""};
    struct shm_options so = {
        .dir = t->dir,
        .cluster = t->cluster,
        .self = {"client", CLIENT, SHM_CLIENT},
        .hosts = nodes_of_hosts,
        .hosts_count = REPLICAS,
    };
    if (shm_open_node(&so, &t->mem, &e) == 0) {
        struct source_options fo = {
            .mem = t->mem, .region = REGION, .nodes = nodes, .replicas = REPLICAS};
        if (source_open(&fo, &t->source, &e) == 0)
            return true;
    }
    printf("# client: %s\n", e.text);
    return false;
}

/* A whole campaign with hosts that wait in the given way. */
static bool campaign(const char *self, const char *wait, int kills)
{
    struct test *t = calloc(1, sizeof(*t));
    snprintf(t->dir, sizeof(t->dir), "/dev/shm/tram-test-XXXXXX");
    if (mkdtemp(t->dir) == NULL)
        return false;
    snprintf(t->cluster, sizeof(t->cluster), "kill");
    t->self = self;
    t->wait = wait;
    t->board = board_map();
    memset(t->board, 0, sizeof(*t->board));
    hist_init(&t->gaps);
    hist_init(&t->restarts);
    for (uint32_t q = 0; q < REPLICAS; q++)
        start_host(t, q);
    bool good = open_client(t);
    t->moved_ns = clock_now_ns();
    good = good && wait_well(t);
    int done = 0;
    for (; good && done < kills; done++)
        good = kill_once(t);
    good = good && drained(t);
    for (uint32_t q = 0; q < REPLICAS; q++) {
        struct notice *n = &t->board->host[q];
        printf(
            "# h%u: life %llu, %llu messages, %llu out of turn%s%s\n", q + 1,
            (unsigned long long)atomic_load(&n->life), (unsigned long long)atomic_load(&n->count),
            (unsigned long long)atomic_load(&n->wrong), atomic_load(&n->broken) ? ", BROKEN" : "",
            atomic_load(&n->behind) ? ", behind" : "");
        good &= atomic_load(&n->wrong) == 0 && atomic_load(&n->broken) == 0;
    }
    printf("# %s: %d kills, %llu messages sent\n", wait, done, (unsigned long long)t->sent);
    print_hist("time without progress", &t->gaps);
    print_hist("killed host back and up to date", &t->restarts);
    atomic_store(&t->board->stop, 1);
    source_close(t->source);
    if (t->mem)
        shm_close_node(t->mem);
    for (uint32_t q = 0; q < REPLICAS; q++) {
        if (!good)
            kill(t->pid[q], SIGKILL);
        waitpid(t->pid[q], NULL, 0);
    }
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", t->dir);
    good &= system(command) == 0;
    free(t);
    return good;
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "host") == 0)
        return host_main(argv[2], argv[3], (uint32_t)atoi(argv[4]),
                         strcmp(argv[5], "spin") == 0 ? HOST_SPIN : HOST_AUTO);
    int kills = argc > 1 ? atoi(argv[1]) : 100;
    char self[256];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int fd = memfd_create("board", 0);
    if (len < 0 || fd < 0 || ftruncate(fd, sizeof(struct board)) != 0 || dup2(fd, BOARD_FD) < 0) {
        printf("Bail out! no shared memory for the test\n");
        return 1;
    }
    self[len] = '\0';
    printf("1..2\n");
    bool spinning = campaign(self, "spin", kills);
    printf("%s 1 - a leader killed %d times, spinning followers\n", spinning ? "ok" : "not ok",
           kills);
    fflush(stdout);
    bool sleeping = campaign(self, "auto", kills);
    printf("%s 2 - a leader killed %d times, sleeping followers\n", sleeping ? "ok" : "not ok",
           kills);
    return spinning && sleeping ? 0 : 1;
}
