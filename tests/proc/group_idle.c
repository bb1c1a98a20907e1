/* Three members of ten cells that have nothing to do, as processes: they sleep, whatever carries their memory. On a quiet machine they
 * use at most 2 % of a core together. A busy one makes every wake-up dearer, so what is judged is how often they wake: whoever
 * takes a heartbeat for work does so five times as often. Says what they used.
 *
 *      group_idle [shm|tcp]     prints TAP
 */
#include "../cluster_fixture.h"
#include "../far_fixture.h"
#include "api/group_impl.h"
#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOSTS = 3, CELLS = 10, TRIES = 4 }; /* the best counts: others use the machine too */

#define SECOND UINT64_C(1000000000)
#define CALM_NS SECOND /* after the last view; what a start leaves behind is over then */
#define WATCH_NS SECOND
#define SLEEPS_MAX 400 /* of each in a second; 60 to 200 seen, busy or not */
#define SHARE_MAX 0.20 /* of a core, together: who polls all the time uses all of it */

struct board {
    _Atomic uint32_t ready, done[TRIES];
    struct {
        uint64_t cpu_ns, wall_ns, sleeps;
    } seen[TRIES][HOSTS];
};

static char dir[] = "/dev/shm/tram-test-XXXXXX", file[64];
static struct board *board;

static uint64_t cpu_ns(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * SECOND +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

/* ---- a member ---- */

static bool steps_until(struct tram_group *g, uint64_t until_ns)
{
    struct tram_error e = {""};
    while (clock_now_ns() < until_ns)
        if (tram_group_step(g, &e) < 0) {
            fprintf(stderr, "# %s\n", e.text);
            return false;
        }
    return true;
}

static bool is_whole(const struct tram_group *g)
{
    const struct tram_view *v = tram_group_view(g);
    bool whole = v && set_count(v->members) == HOSTS;
    for (uint32_t c = 0; whole && c < CELLS; c++)
        whole = tram_group_has_state(g, c);
    return whole;
}

/* All of them have to be there, and nobody may end while another watches. */
static bool meet(struct tram_group *g, _Atomic uint32_t *count)
{
    bool good = true;
    atomic_fetch_add(count, 1);
    while (good && atomic_load(count) < HOSTS)
        good = steps_until(g, clock_now_ns() + SECOND / 100);
    return good;
}

static bool watch(struct tram_group *g, uint32_t h)
{
    bool good = true;
    for (uint32_t i = 0; good && i < TRIES; i++) {
        uint64_t begin = clock_now_ns(), cpu = cpu_ns(), sleeps = g->run.host.sleeps;
        good = steps_until(g, begin + WATCH_NS);
        board->seen[i][h].cpu_ns = cpu_ns() - cpu;
        board->seen[i][h].wall_ns = clock_now_ns() - begin;
        board->seen[i][h].sleeps = g->run.host.sleeps - sleeps;
        good = good && meet(g, &board->done[i]);
    }
    return good;
}

static int be_member(uint32_t h)
{
    struct tram_cluster *c;
    struct tram_group *g;
    struct tram_error e = {""};
    const struct tram_log log = api_log_stderr(TRAM_LOG_ERROR);
    if (tram_cluster_load(file, &c, &e) != 0 ||
        tram_group_open(
            c, &(struct tram_group_options){.host = tram_cluster_host_name(c, h), .log = log}, &g,
            &e) != 0) {
        fprintf(stderr, "# %s\n", e.text);
        return 1;
    }
    bool good = true;
    while (good && !is_whole(g))
        good = steps_until(g, clock_now_ns() + SECOND / 100);
    good =
        good && meet(g, &board->ready) && steps_until(g, clock_now_ns() + CALM_NS) && watch(g, h);
    tram_group_close(g);
    tram_cluster_free(c);
    return good ? 0 : 1;
}

/* ---- the test ---- */

static bool make_cluster(enum cluster_transport transport)
{
    struct cluster_plan plan = {.protocol = CLUSTER_GROUP,
                                .transport = transport,
                                .hosts = HOSTS,
                                .subgroups = CELLS,
                                .shards = 1};
    struct err e = {""};
    struct cluster *c;
    if (mkdtemp(dir) == NULL || cluster_make(&plan, &c, &e) != 0) {
        printf("# %s\n", e.text);
        return false;
    }
    snprintf(file, sizeof(file), "%s/cluster.yaml", dir);
    snprintf(c->runtime_dir, sizeof(c->runtime_dir), "%s", dir);
    for (uint32_t h = 0; transport == CLUSTER_TCP && h < HOSTS; h++)
        c->host[h].port = far_fixture_port();
    bool good = cluster_fixture_write(c, file, &e);
    cluster_free(c);
    if (!good)
        printf("# %s\n", e.text);
    return good;
}

static bool run(void)
{
    bool good = true;
    pid_t pid[HOSTS], parent = getpid();
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED);
    fflush(stdout);
    for (uint32_t h = 0; h < HOSTS; h++)
        if ((pid[h] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(getppid() == parent ? be_member(h) : 3);
        }
    for (uint32_t h = 0; h < HOSTS; h++) {
        int status;
        good &= waitpid(pid[h], &status, 0) == pid[h] && status == 0;
    }
    return good;
}

static bool slept(uint32_t try)
{
    double sum = 0, sleeps = 0;
    for (uint32_t h = 0; h < HOSTS; h++) {
        double wall = (double)board->seen[try][h].wall_ns;
        sum += (double)board->seen[try][h].cpu_ns / wall;
        sleeps += (double)board->seen[try][h].sleeps * 1e9 / wall;
    }
    printf("# together %.2f %% of a core; each slept %.0f times a second\n", 100 * sum,
           sleeps / HOSTS);
    return sum <= SHARE_MAX && sleeps / HOSTS <= SLEEPS_MAX;
}

static bool judge(void)
{
    bool good = false;
    for (uint32_t i = 0; i < TRIES; i++)
        good |= slept(i);
    return good;
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "shm";
    char command[64];
    bool good = make_cluster(strcmp(way, "tcp") == 0 ? CLUSTER_TCP : CLUSTER_SHM) && run();
    printf("%sok 1 - group_idle__%s_three_members_of_ten_cells_come_and_stay\n", good ? "" : "not ",
           way);
    bool idle = good && judge();
    printf("%sok 2 - group_idle__%s_they_sleep_while_there_is_nothing_to_do\n1..2\n",
           idle ? "" : "not ", way);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) == 0 && idle ? 0 : 1;
}
