/* Hosts that hang (SIGSTOP), under closed-loop calls: they may hold up the others once, for as long as it takes to
 * notice, and then the calls must go on as before, for as long as the hang lasts. The leader shows whom it has detached
 * and since when, and has it back when it goes on.
 *
 *      hang        prints TAP; the hosts are `$TRAM host`
 *
 * The rate of calls is compared inside one run, and the best second of the hang counts, of up to ten hangs if need be: a
 * machine that is busy with something else is slow for a while, a hang that is waited for again and again costs
 * every second of it. */
#include "../cluster_fixture.h"
#include "../far_fixture.h"
#include "base/rng.h"
#include "conf/cluster.h"
#include "tram.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { HOSTS_MAX = 5, GROUPS = 3, HANGS = 10, BEFORE = 2, AFTER = 3, SMALL_LOG = 32 << 10 };

#define SECOND_NS UINT64_C(1000000000)
#define SLICE_NS (SECOND_NS / 2) /* what a rate is measured in */
#define PATIENCE_S 120
#define LEAST 0.4 /* of the calls a second before; with a machine of its own it is 0.7 and more */

struct hang_case {
    const char *name;
    enum cluster_protocol protocol;
    enum cluster_transport transport;
    uint32_t hosts, hung;
    bool leader; /* the first to hang leads a group; they all carry all groups */
};

struct world {
    const struct hang_case *of;
    const char *tram;
    char dir[64], file[96];
    pid_t pid[HOSTS_MAX];
    struct tram_cluster *cluster;
    struct tram_client *client;
    struct rng rng;
    uint64_t longest_ns; /* call since this was last set to 0 */
};

static bool cluster_begin(struct world *w)
{
    struct err e = {""};
    struct tram_error error = {""};
    struct cluster *c;
    snprintf(w->dir, sizeof(w->dir), "/dev/shm/tram-hang-XXXXXX");
    if (mkdtemp(w->dir) == NULL)
        return false;
    snprintf(w->file, sizeof(w->file), "%s/hang.yaml", w->dir);
    if (cluster_make(&(struct cluster_plan){.name = "hang",
                                            .groups = GROUPS,
                                            .replicas = w->of->hosts,
                                            .hosts = w->of->hosts,
                                            .transport = w->of->transport,
                                            .protocol = w->of->protocol},
                     &c, &e) != 0)
        return false;
    snprintf(c->runtime_dir, sizeof(c->runtime_dir), "%s", w->dir);
    /* Where calls are slow the log is small, so that it is full soon. */
    if (w->of->transport != CLUSTER_SHM) {
        c->log_bytes = SMALL_LOG;
        c->payload_max = SMALL_LOG / 16;
        c->batch_bytes = SMALL_LOG / 8;
        c->window_bytes = SMALL_LOG / 2;
    }
    for (uint32_t h = 0; w->of->transport != CLUSTER_SHM && h < c->hosts; h++)
        c->host[h].port = far_fixture_port();
    bool good = cluster_fixture_write(c, w->file, &e);
    cluster_free(c);
    good = good && tram_cluster_load(w->file, &w->cluster, &error) == 0;
    if (!good)
        printf("# cluster: %s%s\n", e.text, error.text);
    return good;
}

static void host_start(struct world *w, uint32_t h)
{
    const char *name = tram_cluster_host_name(w->cluster, h);
    fflush(stdout);
    w->pid[h] = fork();
    if (w->pid[h] == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (freopen("/dev/null", "w", stdout) && freopen("/dev/null", "w", stderr))
            execl(w->tram, w->tram, "host", "-c", w->file, name, (char *)NULL);
        _exit(4);
    }
}

/* `tram status` with these options: its exit code, and what it prints. */
static int status(const struct world *w, const char *options, char *out, size_t bytes)
{
    char command[512];
    snprintf(command, sizeof(command), "'%s' status -c '%s' %s 2>&1", w->tram, w->file, options);
    FILE *f = popen(command, "r");
    size_t got = f ? fread(out, 1, bytes - 1, f) : 0;
    out[got] = '\0';
    return f ? pclose(f) : -1;
}

static bool all_attached(const struct world *w)
{
    char out[16384], options[32];
    snprintf(options, sizeof(options), "--wait %d", PATIENCE_S);
    for (int i = 0; i < 10; i++) /* a leader may change between the wait and the look */
        if (status(w, options, out, sizeof(out)) == 0)
            return true;
    printf("# not all replicas take part:\n# %s\n", out);
    return false;
}

/* How many members of groups are shown as detached. */
static uint32_t shown_detached(const struct world *w)
{
    static const char key[] = "\"detached_ms\": ";
    char out[16384];
    uint32_t count = 0;
    status(w, "--json", out, sizeof(out));
    for (const char *at = out; (at = strstr(at, key)) != NULL; at++)
        count += atoi(at + sizeof(key) - 1) > 0;
    return count;
}

static uint32_t leader_of_some_group(const struct world *w)
{
    char out[16384], name[32];
    status(w, "--json", out, sizeof(out));
    for (uint32_t h = 0; h < w->of->hosts; h++) {
        snprintf(name, sizeof(name), "\"leader\": \"%s\"", tram_cluster_host_name(w->cluster, h));
        if (strstr(out, name))
            return h;
    }
    return 0;
}

/* ---- calls ---- */

static bool call(struct world *w)
{
    unsigned char body[64] = {0};
    uint16_t list[GROUPS];
    uint32_t count = 0;
    struct tram_error error = {""};
    uint64_t first = rng_below(&w->rng, GROUPS), start = clock_now_ns();
    for (uint64_t left = rng_range(&w->rng, 1, GROUPS); left > 0; left--)
        list[count++] = (uint16_t)((first + left) % GROUPS);
    int rc = tram_call(w->client, list, count, body, sizeof(body), NULL, 0, NULL,
                       PATIENCE_S * SECOND_NS, &error);
    uint64_t took = clock_now_ns() - start;
    w->longest_ns = took > w->longest_ns ? took : w->longest_ns;
    if (rc < 0)
        printf("# a call: %s\n", error.text);
    return rc >= 0;
}

/* Calls for a slice; how many a second, or -1. */
static double rate(struct world *w)
{
    uint64_t start = clock_now_ns(), now = start, count = 0;
    for (; now - start < SLICE_NS; now = clock_now_ns(), count++)
        if (!call(w))
            return -1;
    return (double)count * 1e9 / (double)(now - start);
}

static double best_rate(struct world *w, int slices)
{
    double best = 0;
    for (int i = 0; i < slices; i++) {
        double r = rate(w);
        if (r < 0)
            return -1;
        best = r > best ? r : best;
    }
    return best;
}

static bool wait_shown(struct world *w, uint32_t members)
{
    uint64_t give_up = clock_now_ns() + PATIENCE_S * SECOND_NS;
    while (shown_detached(w) != members) {
        if (clock_now_ns() > give_up) {
            printf("# %u of %u members are shown as detached\n", shown_detached(w), members);
            return false;
        }
        if (rate(w) < 0) /* a log that is not full yet holds nobody up */
            return false;
    }
    return true;
}

/* One hang. False: what must be was not; else *ratio says what became of the rate. */
static bool hang(struct world *w, double *ratio)
{
    uint32_t first = leader_of_some_group(w), hosts = w->of->hosts;
    first = w->of->leader ? first : (first + 1) % hosts;
    double before = best_rate(w, BEFORE);
    for (uint32_t i = 0; i < w->of->hung; i++)
        kill(w->pid[(first + i) % hosts], SIGSTOP);
    w->longest_ns = 0;
    bool good = before > 0 && rate(w) >= 0; /* the first slice: it may be noticed */
    double noticed_ms = (double)w->longest_ns / 1e6;
    w->longest_ns = 0;
    double lasting = good ? best_rate(w, AFTER) : -1;
    double later_ms = (double)w->longest_ns / 1e6;
    good = good && wait_shown(w, w->of->hung * GROUPS);
    for (uint32_t i = 0; i < w->of->hung; i++)
        kill(w->pid[(first + i) % hosts], SIGCONT);
    good = good && all_attached(w) && wait_shown(w, 0);
    double after = good ? rate(w) : -1;
    *ratio = lasting / (after > 0 && after < before ? after : before);
    printf("# %.0f calls a second before, %.0f while it lasts, %.0f afterwards: %.2f; longest call "
           "%.1f ms at first, %.1f ms later\n",
           before, lasting, after, *ratio, noticed_ms, later_ms);
    return good && after > 0;
}

static bool hangs(struct world *w)
{
    double ratio = 0;
    for (int i = 0; i < HANGS && ratio < LEAST; i++)
        if (!hang(w, &ratio))
            return false;
    return ratio >= LEAST;
}

static bool run(const struct hang_case *c, const char *tram)
{
    struct world w = {.of = c, .tram = tram};
    struct tram_error error = {""};
    char command[128];
    rng_init(&w.rng, 1);
    bool good = cluster_begin(&w);
    for (uint32_t h = 0; good && h < c->hosts; h++)
        host_start(&w, h);
    good = good && all_attached(&w);
    if (good &&
        tram_client_open(w.cluster, &(struct tram_client_options){0}, &w.client, &error) != 0) {
        printf("# client: %s\n", error.text);
        good = false;
    }
    good = good && hangs(&w);
    tram_client_close(w.client);
    for (uint32_t h = 0; h < c->hosts; h++)
        if (w.pid[h] > 0) {
            kill(w.pid[h], SIGKILL);
            waitpid(w.pid[h], NULL, 0);
        }
    tram_cluster_free(w.cluster);
    snprintf(command, sizeof(command), "rm -rf '%s'", w.dir);
    return w.dir[0] != '\0' && system(command) == 0 && good;
}

int main(void)
{
    static const struct hang_case all[] = {
        {"tree: one of three hosts, which leads", CLUSTER_TREE, CLUSTER_SHM, 3, 1, true},
        {"tree: two of five hosts", CLUSTER_TREE, CLUSTER_SHM, 5, 2, true},
        {"genuine: one of three hosts, which leads", CLUSTER_GENUINE, CLUSTER_SHM, 3, 1, true},
        {"tree over tcp: one of three hosts", CLUSTER_TREE, CLUSTER_TCP, 3, 1, false},
        {"genuine over tcp: one of three hosts, which leads", CLUSTER_GENUINE, CLUSTER_TCP, 3, 1,
         true},
    };
    const char *tram = getenv("TRAM");
    const char *only = getenv("HANG_CASE"); /* its number, to try one alone */
    uint32_t count = sizeof(all) / sizeof(all[0]);
    int failed = 0;
    if (tram == NULL) {
        printf("Bail out! TRAM is to be the path of the program tram\n");
        return 1;
    }
    printf("1..%u\n", only ? 1 : count);
    for (uint32_t i = 0; i < count; i++) {
        if (only && (uint32_t)atoi(only) != i + 1)
            continue;
        bool good = run(&all[i], tram);
        printf("%s %u - hang__%s\n", good ? "ok" : "not ok", only ? 1 : i + 1, all[i].name);
        failed += !good;
    }
    return failed > 0;
}
