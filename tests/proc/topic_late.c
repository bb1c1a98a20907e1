/* A volatile topic of three processes. One publishes all the time, one listens from the first sample, and the third is killed and started
 * again, and stopped for longer than suspect_ms. Each time it subscribes from the start it has the history first and then what is
 * published, each sample once; what it was stopped for it gets too, or is told how much of it is gone.
 *
 *      topic_late [shm|tcp]     prints TAP
 */
#include "../cluster_fixture.h"
#include "../far_fixture.h"
#include "api/api.h"
#include "base/clock.h"
#include "tram/topic.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    HOSTS = 3,
    KILLS = 4,
    STOPS = 3,
    AHEAD = 2000,      /* samples that a subscriber has to get after what it has begun with */
    RATE_NS = 50000,   /* between two samples */
    HISTORY = 1 << 20, /* 96 bytes a sample: 10,922 of them */
    SHORT = 64 << 10,  /* 682 of them: some are gone after a stop */
    SUSPECT_MS = 250,  /* so that a busy machine puts out hardly anybody but who is stopped, */
    STOP_MS = 450,     /* for so long */
};

#define SECOND UINT64_C(1000000000)
#define PATIENCE_NS (60 * SECOND)

struct sample {
    uint64_t number, filler[7];
};

/* What a subscriber has got of one topic, in its present life. */
struct got {
    _Atomic uint64_t count, first, next;
    _Atomic uint64_t behind; /* how many had been published behind the first when that came */
    _Atomic uint64_t wrong;  /* samples that came twice, or not in order */
    _Atomic uint64_t missed; /* that were left out, by their numbers, */
    _Atomic uint64_t lost;   /* and as it was told: known a little later */
};

static struct board {
    _Atomic bool stop;
    _Atomic uint64_t published;
    _Atomic uint64_t
        unknown; /* times that the publisher was put out: nobody can know what became of its last samples */
    struct got got[HOSTS][2];
} * board;

static char dir[] = "/dev/shm/tram-test-XXXXXX", file[64];
static const char *const names[] = {"s1", "s2"};
static uint32_t tests, failed;

/* ---- a process ---- */

static void on_samples(void *ctx, uint64_t view, const struct tram_item *item, uint32_t count)
{
    struct got *g = ctx;
    (void)view;
    for (uint32_t i = 0; i < count; i++) {
        struct sample s;
        memcpy(&s, item[i].data, sizeof(s));
        uint64_t next = atomic_load(&g->next);
        if (atomic_load(&g->count) == 0) {
            atomic_store(&g->first, s.number);
            atomic_store(&g->behind, atomic_load(&board->published) - s.number);
        } else if (s.number < next) {
            atomic_fetch_add(&g->wrong, 1);
        } else {
            atomic_fetch_add(&g->missed, s.number - next);
        }
        atomic_store(&g->next, s.number + 1);
        atomic_fetch_add(&g->count, 1);
    }
}

/* A sample to both topics, or to neither. */
static void publish(struct tram_topic *topic[2], uint64_t *due_ns)
{
    const struct sample s = {.number = atomic_load(&board->published)};
    if (clock_now_ns() < *due_ns)
        return;
    void *a = tram_publish_reserve(topic[0], sizeof(s)),
         *b = a ? tram_publish_reserve(topic[1], sizeof(s)) : NULL;
    if (a && b == NULL)
        tram_publish_release(topic[0], a);
    if (b == NULL)
        return;
    memcpy(a, &s, sizeof(s));
    memcpy(b, &s, sizeof(s));
    tram_publish_commit(topic[0], a, sizeof(s));
    tram_publish_commit(topic[1], b, sizeof(s));
    atomic_store(&board->published, s.number + 1);
    *due_ns = clock_now_ns() + RATE_NS;
}

static void note_put_out(const struct tram_group *g)
{
    struct tram_group_counts n;
    tram_group_counts(g, &n);
    atomic_store(&board->unknown, n.put_out);
}

static int be_member(uint32_t h)
{
    struct tram_cluster *c;
    struct tram_group *g;
    struct tram_topic *topic[2];
    struct tram_error e = {""};
    uint64_t due_ns = 0;
    const struct tram_log log = api_log_stderr(TRAM_LOG_ERROR);
    int rc = tram_cluster_load(file, &c, &e);
    const struct tram_group_options options = {.host = rc ? "" : tram_cluster_host_name(c, h),
                                               .log = log};
    rc = rc ? rc : tram_group_open(c, &options, &g, &e);
    for (uint32_t t = 0; rc == 0 && t < 2; t++) {
        const struct tram_topic_options o = {.role = h == 0 ? TRAM_PUBLISH : TRAM_SUBSCRIBE,
                                             .qos = TRAM_QOS_VOLATILE,
                                             .from = TRAM_FROM_START,
                                             .on_samples = on_samples,
                                             .ctx = &board->got[h][t]};
        rc = tram_topic_open(g, names[t], &o, &topic[t], &e);
    }
    while (rc >= 0 && !atomic_load(&board->stop)) {
        rc = tram_group_step(g, &e);
        if (h == 0 && rc >= 0)
            publish(topic, &due_ns);
        for (uint32_t t = 0; t < 2; t++)
            atomic_store(&board->got[h][t].lost, tram_topic_lost(topic[t]));
        if (h == 0)
            note_put_out(g);
    }
    if (rc < 0)
        fprintf(stderr, "# h%u: %s\n", h + 1, e.text);
    else
        tram_group_close(g);
    return rc < 0 ? 1 : 0;
}

static pid_t start(uint32_t h)
{
    pid_t parent = getpid();
    fflush(stdout);
    memset((void *)board->got[h], 0, sizeof(board->got[h]));
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() == parent ? be_member(h) : 3);
    }
    return pid;
}

/* ---- the test ---- */

static bool make_cluster(enum cluster_transport transport)
{
    struct cluster_plan plan = {.protocol = CLUSTER_GROUP,
                                .transport = transport,
                                .hosts = HOSTS,
                                .subgroups = 2,
                                .shards = 1};
    struct err e = {""};
    struct cluster *c;
    if (mkdtemp(dir) == NULL || cluster_make(&plan, &c, &e) != 0) {
        printf("# %s\n", e.text);
        return false;
    }
    snprintf(file, sizeof(file), "%s/cluster.yaml", dir);
    snprintf(c->runtime_dir, sizeof(c->runtime_dir), "%s", dir);
    c->suspect_ms = SUSPECT_MS;
    for (uint32_t t = 0; t < 2; t++) {
        c->subgroup[t].ring_bytes = 64 << 10;
        c->subgroup[t].message_max = 8 << 10;
        c->subgroup[t].history = t == 0 ? HISTORY : SHORT;
    }
    for (uint32_t h = 0; transport == CLUSTER_TCP && h < HOSTS; h++)
        c->host[h].port = far_fixture_port();
    bool good = cluster_fixture_write(c, file, &e);
    cluster_free(c);
    if (!good)
        printf("# %s\n", e.text);
    return good;
}

/* Both topics go on, beyond what is published now. */
static bool goes_on(uint32_t h)
{
    uint64_t target = atomic_load(&board->published) + AHEAD;
    for (uint64_t end = clock_now_ns() + PATIENCE_NS; clock_now_ns() < end; usleep(1000))
        if (atomic_load(&board->got[h][0].next) >= target &&
            atomic_load(&board->got[h][1].next) >= target)
            return true;
    printf("# h%u does not go on: it has %llu and %llu of %llu\n", h + 1,
           (unsigned long long)atomic_load(&board->got[h][0].next),
           (unsigned long long)atomic_load(&board->got[h][1].next), (unsigned long long)target);
    return false;
}

/* Was it told of all that was left out? It is told at the end of the step in which that was. */
static bool was_told(const struct got *g)
{
    if (atomic_load(&board->unknown) > 0)
        return true;
    for (uint64_t end = clock_now_ns() + PATIENCE_NS; clock_now_ns() < end; usleep(1000))
        if (atomic_load(&g->missed) == atomic_load(&g->lost))
            return true;
    return false;
}

static bool is_exact(uint32_t h)
{
    bool good = true;
    for (uint32_t t = 0; t < 2; t++) {
        const struct got *g = &board->got[h][t];
        good &= was_told(g) && atomic_load(&g->wrong) == 0;
        uint64_t missed = atomic_load(&g->missed), lost = atomic_load(&g->lost);
        printf("# h%u %s: %llu samples from %llu on, %llu left out, %llu told\n", h + 1, names[t],
               (unsigned long long)atomic_load(&g->count),
               (unsigned long long)atomic_load(&g->first), (unsigned long long)missed,
               (unsigned long long)lost);
    }
    return good;
}

static void verdict(bool good, const char *way, const char *what)
{
    failed += !good;
    printf("%sok %u - topic_late__%s_%s\n", good ? "" : "not ", ++tests, way, what);
}

static bool began_with_history(const struct got *g, uint64_t kept)
{
    return atomic_load(&g->first) == 0 || atomic_load(&g->behind) >= kept;
}

static bool comes_late(pid_t *pid)
{
    kill(*pid, SIGKILL);
    waitpid(*pid, NULL, 0);
    usleep(200000);
    *pid = start(2);
    return goes_on(2) && is_exact(2) && began_with_history(&board->got[2][0], HISTORY / 192) &&
           began_with_history(&board->got[2][1], SHORT / 192);
}

static bool stands_still(pid_t pid)
{
    kill(pid, SIGSTOP);
    usleep(STOP_MS * 1000);
    kill(pid, SIGCONT);
    return goes_on(2) && is_exact(2);
}

static void run(const char *way)
{
    pid_t pid[HOSTS];
    for (uint32_t h = 0; h < HOSTS; h++)
        pid[h] = start(h);
    verdict(goes_on(1) && goes_on(2), way, "all_samples_come");
    bool good = failed == 0;
    for (uint32_t i = 0; good && i < KILLS; i++)
        good = comes_late(&pid[2]);
    verdict(good, way, "history_first_then_what_is_new");
    for (uint32_t i = 0; good && i < STOPS; i++)
        good = stands_still(pid[2]);
    verdict(good, way, "who_was_put_out_misses_nothing_untold");
    atomic_store(&board->stop, true);
    for (uint32_t h = 0; h < HOSTS; h++) {
        int status;
        good &= waitpid(pid[h], &status, 0) == pid[h] && status == 0;
    }
    good &= is_exact(1) &&
            (atomic_load(&board->unknown) > 0 || atomic_load(&board->got[1][0].missed) == 0);
    if (atomic_load(&board->unknown) > 0)
        printf("# the machine was so busy that the publisher was put out: what was lost is not "
               "judged\n");
    verdict(good, way, "who_was_there_has_all");
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "shm";
    char command[64];
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED);
    if (make_cluster(strcmp(way, "tcp") == 0 ? CLUSTER_TCP : CLUSTER_SHM))
        run(way);
    else
        verdict(false, way, "cluster_is_made");
    printf("1..%u\n", tests);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) == 0 && failed == 0 ? 0 : 1;
}
