/* Large messages between hosts whose links are slow: each member in a network namespace of its own, behind a cable that carries 200 Mbit/s
 * each way. How long one body of 64 MiB takes until the last member has delivered it, in copies: what the same bytes take
 * over a bare TCP connection between two of these hosts, in the same run.
 *
 *      rdmc                            the short test: who sends how often what, by the bytes that leave each host. Prints TAP
 *      rdmc OPTION...                  measures; prints TAP, a line for each bar that is set
 *          members=2,3,4,...           default 2,3,4,6,8,10,12,16
 *          schedules=pipeline,...      default all: sequential,chain,tree,pipeline
 *          turns=N                     medians of so many; default 1
 *          block=BYTES                 block_bytes; default 1 MiB
 *          report=DIR                  adds the points to DIR/rdmc.txt, and draws all that are there: DIR/index.html
 */
#include "../cluster_fixture.h"
#include "api/api.h"
#include "base/clock.h"
#include "bench/compare.h"
#include "lan.h"
#include "tram/group.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PORT = 7101,
    BODY_LONG = 64 << 20,
    BODY_SHORT = 4 << 20,
    TURNS_MAX = 9,
    SUSPECT_MS = 1000, /* sixteen members share the cores of this machine */
    PLACES = 8,        /* numbers of members, in a report */
};

#define SECOND UINT64_C(1000000000)
#define PATIENCE_NS (100 * SECOND)
#define LINK "tbf rate 200mbit burst 256kb latency 100ms"

static const enum cluster_rdmc schedules[] = {CLUSTER_RDMC_SEQUENTIAL, CLUSTER_RDMC_CHAIN,
                                              CLUSTER_RDMC_TREE, CLUSTER_RDMC_PIPELINE};
static const char *const names[] = {"sequential", "chain", "tree", "pipeline"};
enum { SCHEDULES = 4, SEQUENTIAL = 0, PIPELINE = 3 };

/* Shared with the members. */
static struct board {
    _Atomic bool stop;
    _Atomic uint32_t ready, failed;
    _Atomic uint32_t turn; /* the body that is wanted, from 1 */
    _Atomic uint64_t sent_ns;
    struct {
        _Atomic uint32_t turn; /* it has delivered so many */
        _Atomic uint64_t at_ns, tx_bytes, told;
    } member[LAN_NODES_MAX];
} * board;

static struct lan lan;
static char dir[] = "/dev/shm/tram-test-XXXXXX", file[64];

/* What is to be done. */
static uint32_t members[PLACES] = {2, 3, 4, 6, 8, 10, 12, 16}, places = PLACES, turns = 1;
static bool wanted[SCHEDULES] = {true, true, true, true};
static uint32_t block_bytes; /* 0: as ever */
static const char *report;
static uint32_t tests, failures;

static void say(bool good, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(bool good, const char *fmt, ...)
{
    va_list ap;
    printf("%sok %u - rdmc__", good ? "" : "not ", ++tests);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    fflush(stdout);
    failures += !good;
}

/* ---- a member ---- */

/* What has left the host so far, by its only cable. */
static uint64_t tx_bytes(void)
{
    char line[512];
    unsigned long long sent = 0;
    FILE *f = fopen("/proc/self/net/dev", "re");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, " eth0: %*u %*u %*u %*u %*u %*u %*u %*u %llu", &sent) == 1)
            break;
    if (f)
        fclose(f);
    return sent;
}

static unsigned char filling(uint32_t turn, uint32_t page)
{
    return (unsigned char)(turn * 31 + page * 7 + 1);
}

static void fill(unsigned char *to, uint32_t bytes, uint32_t turn)
{
    for (uint32_t at = 0; at < bytes; at += 4096)
        memset(to + at, filling(turn, at / 4096), 4096);
}

struct runner {
    uint32_t me;
    uint64_t tx_before;
    bool wrong;
};

static void on_deliver(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *m,
                       uint32_t count)
{
    struct runner *r = ctx;
    (void)cell, (void)view;
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *data = m[i].data;
        uint32_t turn = atomic_load(&board->member[r->me].turn) + 1;
        for (uint32_t at = 0; at < m[i].bytes; at += 4095)
            r->wrong |= data[at] != filling(turn, at / 4096);
        atomic_store(&board->member[r->me].at_ns, clock_now_ns());
        atomic_store(&board->member[r->me].tx_bytes, tx_bytes() - r->tx_before);
        atomic_store(&board->member[r->me].turn, turn);
    }
}

static void on_progress(void *ctx, uint32_t cell, uint32_t sender, uint64_t bytes, uint64_t of)
{
    const struct runner *r = ctx;
    (void)cell, (void)sender, (void)bytes, (void)of;
    atomic_fetch_add(&board->member[r->me].told, 1);
}

/* The first host sends a body for each turn. */
static int send_turn(struct tram_group *g, uint32_t bytes, uint32_t *sent)
{
    if (atomic_load(&board->turn) == *sent)
        return 0;
    unsigned char *room = tram_reserve(g, 0, bytes);
    if (room == NULL)
        return 0;
    fill(room, bytes, ++*sent);
    atomic_store(&board->sent_ns, clock_now_ns());
    tram_commit(g, 0, room, bytes);
    return 1;
}

static int be_member(uint32_t h, uint32_t n, uint32_t bytes)
{
    struct tram_cluster *c;
    struct tram_group *g;
    struct tram_error e = {""};
    struct runner r = {.me = h};
    uint32_t sent = 0;
    bool told = false;
    int rc = lan_enter(&lan, h) ? tram_cluster_load(file, &c, &e) : TRAM_SYSTEM;
    const struct tram_group_options o = {
        .host = rc ? "" : tram_cluster_host_name(c, h),
        .machine = {.deliver = on_deliver, .progress = on_progress},
        .ctx = &r,
        .log = api_log_stderr(TRAM_LOG_ERROR)};
    rc = rc ? rc : tram_group_open(c, &o, &g, &e);
    while (rc >= 0 && !r.wrong && !atomic_load(&board->stop)) {
        rc = tram_group_step(g, &e);
        const struct tram_view *v = tram_group_view(g);
        if (!told && v && (uint32_t)__builtin_popcountll(v->members) == n) {
            r.tx_before = tx_bytes();
            atomic_fetch_add(&board->ready, 1);
            told = true;
        }
        if (h == 0 && rc >= 0)
            send_turn(g, bytes, &sent);
    }
    if (rc < 0 || r.wrong) {
        fprintf(stderr, "# h%u: %s\n", h + 1, r.wrong ? "what came is not what was sent" : e.text);
        atomic_fetch_add(&board->failed, 1);
        return 1;
    }
    tram_group_close(g);
    tram_cluster_free(c);
    return 0;
}

/* ---- a group ---- */

static bool make_cluster(uint32_t n, enum cluster_rdmc schedule, uint32_t bytes)
{
    struct cluster_plan plan = {.protocol = CLUSTER_GROUP,
                                .transport = CLUSTER_TCP,
                                .hosts = n,
                                .subgroups = 1,
                                .shards = 1};
    struct err e = {""};
    struct cluster *c;
    if (cluster_make(&plan, &c, &e) != 0) {
        printf("# %s\n", e.text);
        return false;
    }
    snprintf(c->runtime_dir, sizeof(c->runtime_dir), "%s", dir);
    c->suspect_ms = SUSPECT_MS;
    c->block_bytes = block_bytes ? block_bytes : c->block_bytes;
    c->subgroup[0].members_min = n;
    c->subgroup[0].senders = 1;
    c->subgroup[0].large_max = bytes;
    c->subgroup[0].large_window = 1;
    c->subgroup[0].rdmc = schedule;
    for (uint32_t h = 0; h < n; h++) {
        snprintf(c->host[h].address, sizeof(c->host[h].address), "%s", lan.address[h]);
        c->host[h].port = PORT;
    }
    bool good = cluster_fixture_write(c, file, &e);
    cluster_free(c);
    if (!good)
        printf("# %s\n", e.text);
    return good;
}

static bool wait_until(bool (*there)(uint32_t n), uint32_t n)
{
    uint64_t end = clock_now_ns() + PATIENCE_NS;
    while (!there(n) && atomic_load(&board->failed) == 0 && clock_now_ns() < end)
        usleep(1000);
    return there(n);
}

static bool all_ready(uint32_t n)
{
    return atomic_load(&board->ready) == n;
}

static bool all_have(uint32_t n)
{
    for (uint32_t h = 0; h < n; h++)
        if (atomic_load(&board->member[h].turn) != atomic_load(&board->turn))
            return false;
    return true;
}

/* One body to all; 0: it did not come. */
static uint64_t one_turn(uint32_t n)
{
    uint64_t last = 0;
    atomic_fetch_add(&board->turn, 1);
    if (!wait_until(all_have, n))
        return 0;
    for (uint32_t h = 0; h < n; h++) {
        uint64_t at = atomic_load(&board->member[h].at_ns);
        last = at > last ? at : last;
    }
    return last - atomic_load(&board->sent_ns);
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Median of the turns, in ns; 0: it did not come. */
static uint64_t run_group(uint32_t n, enum cluster_rdmc schedule, uint32_t bytes, uint32_t times)
{
    pid_t pid[LAN_NODES_MAX], parent = getpid();
    uint64_t took[TURNS_MAX] = {0};
    memset(board, 0, sizeof(*board));
    if (!make_cluster(n, schedule, bytes))
        return 0;
    fflush(stdout);
    for (uint32_t h = 0; h < n; h++)
        if ((pid[h] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(getppid() == parent ? be_member(h, n, bytes) : 3);
        }
    bool good = wait_until(all_ready, n);
    for (uint32_t i = 0; good && i < times; i++)
        good = (took[i] = one_turn(n)) > 0;
    atomic_store(&board->stop, true);
    for (uint32_t h = 0; h < n; h++) {
        int status;
        good &= waitpid(pid[h], &status, 0) == pid[h] && status == 0;
    }
    qsort(took, times, sizeof(took[0]), by_size);
    return good ? took[times / 2] : 0;
}

/* ---- a bare connection ---- */

static struct sockaddr_in address_of(uint32_t h)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    inet_pton(AF_INET, lan.address[h], &a.sin_addr);
    return a;
}

/* Takes all that comes, and says so by one byte. */
static bool bare_take(int fd)
{
    static char buffer[1 << 18];
    for (uint64_t left = BODY_LONG; left > 0;) {
        ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
        if (n <= 0)
            return false;
        left -= (uint64_t)n;
    }
    return send(fd, "", 1, MSG_NOSIGNAL) == 1;
}

static bool bare_give(int fd)
{
    static char buffer[1 << 18];
    uint64_t begin = clock_now_ns();
    for (uint64_t left = BODY_LONG; left > 0;) {
        ssize_t n = send(fd, buffer, left < sizeof(buffer) ? left : sizeof(buffer), MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        left -= (uint64_t)n;
    }
    bool good = recv(fd, buffer, 1, 0) == 1;
    atomic_store(&board->sent_ns, clock_now_ns() - begin);
    return good;
}

/* The second host listens, and a child of it connects from the first. */
static bool bare(void)
{
    const struct sockaddr_in a = address_of(1);
    int fd = lan_enter(&lan, 1) ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 1) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int from = lan_enter(&lan, 0) ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
        bool good = from >= 0 && connect(from, (const struct sockaddr *)&a, sizeof(a)) == 0 &&
                    bare_give(from);
        _exit(good ? 0 : 1);
    }
    int status, to = accept(fd, NULL, NULL);
    bool good = to >= 0 && bare_take(to);
    return waitpid(pid, &status, 0) == pid && status == 0 && good;
}

/* ns that one copy takes; 0: it failed. */
static uint64_t one_copy(void)
{
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(bare() ? 0 : 1);
    bool good = waitpid(pid, &status, 0) == pid && status == 0;
    return good ? atomic_load(&board->sent_ns) : 0;
}

/* ---- the short test ---- */

/* Copies of the body that left the host with the most, beside the first. */
static double most_sent(uint32_t n)
{
    uint64_t most = 0;
    for (uint32_t h = 1; h < n; h++) {
        uint64_t sent = atomic_load(&board->member[h].tx_bytes);
        most = sent > most ? sent : most;
    }
    return (double)most / BODY_SHORT;
}

/* Bytes do not depend on how busy the machine is: in a sequence the first sends all copies, in a chain and a pipeline each host
 * little more than one. */
static void test_short(void)
{
    const uint32_t n = 5;
    static const double most[] = {4.5, 1.3, 3.5, 1.8};
    for (uint32_t s = 0; s < SCHEDULES; s++) {
        uint64_t took = run_group(n, schedules[s], BODY_SHORT, 1);
        double first = (double)atomic_load(&board->member[0].tx_bytes) / BODY_SHORT;
        double others = most_sent(n);
        bool right = took > 0 && first < most[s] && (s != SEQUENTIAL || first > 3.9);
        right = right && others < (s == SEQUENTIAL ? 0.3 : most[s]);
        say(right, "%s_of_five_sends_what_it_has_to # the first %.2f copies, another %.2f at most",
            names[s], first, others);
    }
}

/* ---- measuring ---- */

struct point {
    uint32_t members, schedule;
    double copies;
};

enum { POINTS_MAX = 1024 };
static struct point point[POINTS_MAX];
static uint32_t points;

static bool save_points(const struct point *p, uint32_t count)
{
    char path[4096];
    struct err e = {""};
    if (compare_report_dir(report, &e) != 0) {
        printf("# %s\n", e.text);
        return false;
    }
    snprintf(path, sizeof(path), "%s/rdmc.txt", report);
    FILE *f = fopen(path, "ae");
    for (uint32_t i = 0; f && i < count; i++)
        fprintf(f, "%s %u %.4f\n", names[p[i].schedule], p[i].members, p[i].copies);
    return f && fclose(f) == 0;
}

static void load_points(void)
{
    char path[4096], name[16];
    struct point p;
    snprintf(path, sizeof(path), "%s/rdmc.txt", report);
    FILE *f = fopen(path, "re");
    for (points = 0;
         f && points < POINTS_MAX && fscanf(f, "%15s %u %lf", name, &p.members, &p.copies) == 3;)
        for (p.schedule = 0; p.schedule < SCHEDULES; p.schedule++)
            if (strcmp(names[p.schedule], name) == 0)
                point[points++] = p;
    if (f)
        fclose(f);
}

static int by_copies(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* 0: there is none. */
static double median_of(uint32_t schedule, uint32_t n)
{
    double all[POINTS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < points; i++)
        if (point[i].schedule == schedule && point[i].members == n)
            all[count++] = point[i].copies;
    qsort(all, count, sizeof(all[0]), by_copies);
    return count ? all[count / 2] : 0;
}

static void page_body(const void *ctx, FILE *out)
{
    static struct compare_cell cell[SCHEDULES * COMPARE_X_MAX];
    static struct compare c = {.cell = cell, .cells = SCHEDULES * COMPARE_X_MAX};
    struct compare_figure *f = &c.figure[0];
    (void)ctx;
    *f = (struct compare_figure){.number = 1,
                                 .x_name = "members",
                                 .y_name = "time until all have it, in copies",
                                 .log_scale = true,
                                 .count = SCHEDULES};
    for (uint32_t n = 2; n <= LAN_NODES_MAX && f->xs < COMPARE_X_MAX; n++) {
        bool any = false;
        for (uint32_t s = 0; s < SCHEDULES; s++) {
            uint32_t at = s * COMPARE_X_MAX + f->xs;
            double copies = median_of(s, n);
            snprintf(f->series[s].name, sizeof(f->series[s].name), "%s", names[s]);
            f->series[s].colour = (uint8_t)s;
            f->series[s].reference = (int)s;
            f->series[s].cell[f->xs] = (int)at;
            cell[at] =
                (struct compare_cell){.turns = copies > 0, .median.latency_ns = copies * 1000};
            any |= copies > 0;
        }
        f->x[f->xs] = n;
        f->xs += any;
    }
    compare_page_begin(out, "A large message to n members");
    fputs("<p>64 MiB over links of 200 Mbit/s each way, a network namespace for each member; "
          "one copy is what the same bytes take over a bare connection in the same run.</p>\n"
          "<figure>\n",
          out);
    compare_plot(out, &c, f, COMPARE_LATENCY);
    fputs("</figure>\n<pre>members", out);
    for (uint32_t s = 0; s < SCHEDULES; s++)
        fprintf(out, " %12s", names[s]);
    for (uint32_t x = 0; x < f->xs; x++) {
        fprintf(out, "\n%7u", f->x[x]);
        for (uint32_t s = 0; s < SCHEDULES; s++)
            fprintf(out, " %12.2f", median_of(s, f->x[x]));
    }
    fputs("\n</pre>\n</body>\n</html>\n", out);
}

static void judge_pipeline(uint32_t n)
{
    double copies = median_of(PIPELINE, n);
    if (copies > 0)
        say(copies <= 1.35, "pipeline_of_%u_takes_at_most_1.35_copies # %.3f", n, copies);
    if (copies > 0 && n == 8 && median_of(SEQUENTIAL, n) > 0)
        say(copies <= median_of(SEQUENTIAL, n) / 4,
            "pipeline_of_8_takes_a_quarter_of_sequential # %.3f",
            copies / median_of(SEQUENTIAL, n));
}

/* Of members that have ended. */
static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void measure(void)
{
    uint64_t copy = one_copy();
    bool good = copy > 0;
    printf("# one copy: %.3f s\n", (double)copy / 1e9);
    double cpu = cpu_seconds();
    for (uint32_t x = 0; x < places; x++)
        for (uint32_t s = 0; good && s < SCHEDULES; s++) {
            if (!wanted[s])
                continue;
            uint64_t took = run_group(members[x], schedules[s], BODY_LONG, turns);
            good = took > 0 && points < POINTS_MAX;
            struct point p = {members[x], s, (double)took / (double)copy};
            if (good)
                point[points++] = p;
            printf("# %-10s %2u members: %.3f s, %.3f copies; progress was told %llu times; all of "
                   "it took %.1f s of processor time\n",
                   names[s], members[x], (double)took / 1e9, p.copies,
                   (unsigned long long)atomic_load(&board->member[members[x] - 1].told),
                   cpu_seconds() - cpu);
            cpu = cpu_seconds();
            fflush(stdout);
        }
    say(good, "all_came");
    if (report && good && save_points(point, points)) {
        struct err e = {""};
        load_points();
        good = compare_file(report, "index.html", page_body, NULL, &e) == 0;
        if (!good)
            printf("# %s\n", e.text);
    }
    for (uint32_t x = 0; x < places; x++)
        judge_pipeline(members[x]);
}

/* ---- the program ---- */

static bool read_members(const char *list)
{
    char *end;
    for (places = 0; places < PLACES; list = end + 1) {
        unsigned long n = strtoul(list, &end, 10);
        if (n < 2 || n > LAN_NODES_MAX || (*end != ',' && *end != '\0'))
            return false;
        members[places++] = (uint32_t)n;
        if (*end == '\0')
            return true;
    }
    return false;
}

static bool read_schedules(const char *list)
{
    char copy[64], *rest = copy;
    snprintf(copy, sizeof(copy), "%s", list);
    memset(wanted, 0, sizeof(wanted));
    for (const char *name; (name = strsep(&rest, ","));) {
        uint32_t s = 0;
        while (s < SCHEDULES && strcmp(names[s], name) != 0)
            s++;
        if (s == SCHEDULES)
            return false;
        wanted[s] = true;
    }
    return true;
}

static bool read_option(const char *option)
{
    if (strncmp(option, "members=", 8) == 0)
        return read_members(option + 8);
    if (strncmp(option, "schedules=", 10) == 0)
        return read_schedules(option + 10);
    if (strncmp(option, "turns=", 6) == 0)
        return (turns = (uint32_t)atoi(option + 6)) >= 1 && turns <= TURNS_MAX;
    if (strncmp(option, "block=", 6) == 0)
        return (block_bytes = (uint32_t)atoi(option + 6)) > 0;
    report = strncmp(option, "report=", 7) == 0 ? option + 7 : NULL;
    return report != NULL;
}

static bool shape(void)
{
    for (uint32_t n = 0; n < lan.nodes; n++)
        if (!lan_shape(&lan, n, LINK) || !lan_shape_out(&lan, n, LINK))
            return false;
    return true;
}

static uint32_t most_members(bool is_short)
{
    uint32_t most = is_short ? 5 : 2;
    for (uint32_t x = 0; !is_short && x < places; x++)
        most = members[x] > most ? members[x] : most;
    return most;
}

int main(int argc, char **argv)
{
    bool is_short = argc < 2;
    char command[64];
    for (int i = 1; i < argc; i++)
        if (!read_option(argv[i])) {
            printf("Bail out! %s is no option; see the head of rdmc.c\n", argv[i]);
            return 1;
        }
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED || mkdtemp(dir) == NULL) {
        printf("Bail out! %s\n", strerror(errno));
        return 1;
    }
    snprintf(file, sizeof(file), "%s/cluster.yaml", dir);
    if (!lan_open(&lan, most_members(is_short)) || (!is_short && !shape())) {
        printf("1..0 # SKIP no such network on this machine: %s\n", lan.why);
    } else {
        if (is_short)
            test_short();
        else
            measure();
        printf("1..%u\n", tests);
    }
    lan_close(&lan);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) == 0 && failures == 0 ? 0 : 1;
}
