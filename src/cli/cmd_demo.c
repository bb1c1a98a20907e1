/* tram demo: a cluster of its own, load on it, a host killed and brought back, and a verdict. */
#include "base/clock.h"
#include "check/amcast.h"
#include "check/load.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/demo.h"
#include "conf/cluster.h"
#include "mcast/overlay.h"
#include "mem/shm/shm.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    TICK_NS = 50000000,
    READY_S = 15,            /* for hosts to start, and to catch up at the end */
    RATE_MAX = 5000,         /* multicasts a second of each client, */
    MULTICASTS_MAX = 200000, /* and in all: they make 5 deliveries each on the average */
    AWAY_NS = 1000000000,    /* how long the killed host is away */
    PATH_BYTES = CLUSTER_DIR_BYTES + 64,
};

struct demo {
    uint64_t seconds;
    bool keep, terminal;
    char dir[PATH_BYTES]; /* all that the demo makes is in it; "" before it is there */
    char file[PATH_BYTES + 16], traces[PATH_BYTES + 16], run[CLUSTER_DIR_BYTES], pages[512];
    struct tram_cluster *cluster;
    struct demo_hosts hosts;
    struct demo_load *load;
    uint64_t start_ns, end_ns; /* of the load */
    uint64_t shown_ns, shown_done;
    uint64_t restart_ns, back_ns; /* when the killed host was started again, and took part again */
    uint32_t victim;
};

/* Which ^C, or other request to end, has come; 0: none. */
static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
    interrupted = sig;
}

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "tram demo: %s%s%s\n", what, why ? ": " : "", why ? why : "");
    return false;
}

static void tick(void)
{
    nanosleep(&(struct timespec){.tv_nsec = TICK_NS}, NULL);
}

/* ---- what it makes, and how that goes away again ---- */

/* The cluster's name has the process id, and its directory is in our own: no other run can be met. */
static bool write_file(struct demo *d)
{
    char name[CLUSTER_NAME_BYTES];
    uint16_t parent[DEMO_GROUPS];
    struct err e = {""};
    struct cluster *c;

    snprintf(name, sizeof(name), "demo-%d", (int)getpid());
    overlay_shape_fill(OVERLAY_breadth, DEMO_GROUPS, parent);
    struct cluster_plan plan = {.name = name,
                                .groups = DEMO_GROUPS,
                                .replicas = DEMO_REPLICAS,
                                .hosts = DEMO_HOSTS,
                                .parent = parent};
    if (cluster_make(&plan, &c, &e) < 0)
        return complain("cluster", e.text);
    snprintf(c->runtime_dir, sizeof(c->runtime_dir), "%s", d->run);
    FILE *f = fopen(d->file, "we");
    int rc = f ? cluster_write(f, c, &e) : err_sys(&e, "write %s", d->file);
    if (f && fclose(f) != 0 && rc == 0)
        rc = err_sys(&e, "write %s", d->file);
    cluster_free(c);
    if (rc == 0)
        rc = shm_directory_of(d->run, name, d->pages, sizeof(d->pages), &e);
    return rc == 0 || complain("cluster file", e.text);
}

static bool make_dir(struct demo *d)
{
    const char *tmp = getenv("TMPDIR");
    char dir[PATH_BYTES];

    int n = snprintf(dir, sizeof(dir), "%s/tram-demo-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    if (n + 8 >= (int)sizeof(d->run))
        return complain("TMPDIR", "its path is too long");
    if (mkdtemp(dir) == NULL)
        return complain(dir, strerror(errno));
    memcpy(d->dir, dir, sizeof(dir));
    snprintf(d->run, sizeof(d->run), "%.*s/run", n, dir);
    snprintf(d->traces, sizeof(d->traces), "%s/traces", dir);
    snprintf(d->file, sizeof(d->file), "%s/cluster.yaml", dir);
    if (mkdir(d->run, 0700) != 0)
        return complain(d->run, strerror(errno));
    return true;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void remove_tree(const char *path)
{
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        complain(path, strerror(errno));
}

/* In any case, and in this order: clients, hosts, files. */
static void clean_up(struct demo *d)
{
    if (d->load) {
        d->load->abandon = true;
        demo_load_join(d->load);
    }
    demo_hosts_stop(&d->hosts);
    tram_cluster_free(d->cluster);
    free(d->load);
    if (d->dir[0] == '\0')
        return;
    remove_tree(d->run);
    if (d->keep)
        printf("\nThe traces are kept: tram check %s --quiesced\n", d->traces);
    else
        remove_tree(d->dir);
}

/* ---- while it runs ---- */

static double seconds_of(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* Something happened: a line of its own, with the time since the load began. */
__attribute__((format(printf, 2, 3))) static void event(const struct demo *d, const char *fmt, ...)
{
    va_list args;

    printf("%s%6.1f s  ", d->terminal ? "\r\033[K" : "",
           d->start_ns ? seconds_of(clock_now_ns() - d->start_ns) : 0.0);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

/* The line of progress: rewritten in place on a terminal, once a second anywhere else. */
static void show_progress(struct demo *d)
{
    uint64_t now = clock_now_ns();
    uint64_t done = demo_load_done(d->load);
    uint64_t every_ns = d->terminal ? 200000000 : 1000000000;

    if (now - d->shown_ns < every_ns)
        return;
    printf("%s%6.1f s  %9llu multicasts  %7.0f a second%s", d->terminal ? "\r\033[K" : "",
           seconds_of(now - d->start_ns), (unsigned long long)done,
           (double)(done - d->shown_done) / seconds_of(now - d->shown_ns), d->terminal ? "" : "\n");
    fflush(stdout);
    d->shown_ns = now;
    d->shown_done = done;
}

static bool failed(struct demo *d)
{
    if (interrupted)
        return !complain("interrupted", NULL);
    if (demo_hosts_failed(&d->hosts))
        return !complain(d->hosts.failure, NULL);
    if (d->load && demo_load_error(d->load))
        return !complain("client", demo_load_error(d->load));
    return false;
}

static bool all_led(const struct demo_view *v)
{
    for (uint32_t g = 0; g < DEMO_GROUPS; g++)
        if (v->leader[g] < 0)
            return false;
    for (uint32_t h = 0; h < DEMO_HOSTS; h++)
        if (!v->up[h])
            return false;
    return true;
}

static bool level(const struct demo_view *v)
{
    return v->level;
}

/* Until the hosts show what is wanted. */
static bool await(struct demo *d, bool (*wanted)(const struct demo_view *), const char *what)
{
    uint64_t deadline = clock_now_ns() + READY_S * UINT64_C(1000000000);
    struct demo_view v;

    while (!failed(d)) {
        demo_hosts_view(&d->hosts, &v);
        if (wanted(&v))
            return true;
        if (clock_now_ns() > deadline)
            return complain(what, "not within 15 seconds");
        tick();
    }
    return false;
}

static bool start_hosts(struct demo *d)
{
    struct tram_error e = {""};

    if (tram_cluster_load(d->file, &d->cluster, &e) != TRAM_OK)
        return complain("cluster", e.text);
    d->hosts = (struct demo_hosts){.file = d->file, .trace_dir = d->traces, .pages = d->pages};
    for (uint32_t h = 0; h < DEMO_HOSTS; h++)
        if (!demo_host_start(&d->hosts, h))
            return complain(d->hosts.failure, NULL);
    return await(d, all_led, "hosts start and agree on leaders");
}

/* Kills the one that leads the tree's root, through which every message to several groups goes. If
 * nobody does right now, the next tick tries again. */
static void kill_leader(struct demo *d)
{
    struct demo_view v;

    demo_hosts_view(&d->hosts, &v);
    if (v.leader[0] < 0)
        return;
    d->victim = (uint32_t)v.leader[0];
    demo_load_watch(d->load, DEMO_KILL);
    demo_host_kill(&d->hosts, d->victim);
    event(d, "kill -9 %s, which led %u of the %d groups, the root of the tree among them",
          demo_host_name(d->victim), v.leads[d->victim], DEMO_GROUPS);
    d->restart_ns = clock_now_ns() + AWAY_NS;
}

static bool start_again(struct demo *d)
{
    demo_load_watch(d->load, DEMO_RETURN);
    if (!demo_host_start(&d->hosts, d->victim))
        return complain(d->hosts.failure, NULL);
    event(d, "%s is started again", demo_host_name(d->victim));
    return true;
}

static void look_for_return(struct demo *d)
{
    struct demo_view v;

    demo_hosts_view(&d->hosts, &v);
    if (!v.up[d->victim])
        return;
    d->back_ns = clock_now_ns();
    event(d, "%s takes part again in all its groups, %.0f ms after its start",
          demo_host_name(d->victim), (double)(d->back_ns - d->restart_ns) / 1e6);
}

/* The load, from the first to the last multicast, with the kill after a third of it. */
static bool run_load(struct demo *d)
{
    bool restarted = false;

    d->start_ns = d->shown_ns = clock_now_ns();
    uint64_t stop_ns = d->start_ns + d->seconds * UINT64_C(1000000000);
    uint64_t kill_ns = d->start_ns + d->seconds * UINT64_C(1000000000) / 3;
    if (!demo_load_start(d->load))
        return complain("clients", "no threads");
    while (!failed(d)) {
        uint64_t now = clock_now_ns();
        if (now >= stop_ns)
            return true;
        show_progress(d);
        if (d->restart_ns == 0 && now >= kill_ns)
            kill_leader(d);
        if (d->restart_ns != 0 && !restarted && now >= d->restart_ns) {
            restarted = true;
            d->restart_ns = now;
            if (!start_again(d))
                return false;
        }
        if (restarted && d->back_ns == 0)
            look_for_return(d);
        tick();
    }
    return false;
}

/* Until all is delivered at every replica, also at those that were late. */
static bool come_to_rest(struct demo *d)
{
    uint64_t deadline = clock_now_ns() + READY_S * UINT64_C(1000000000);

    d->load->enough = true;
    while (!demo_load_ended(d->load)) {
        if (failed(d))
            return false;
        if (clock_now_ns() > deadline)
            return complain("multicasts under way are done", "not within 15 seconds");
        tick();
    }
    d->end_ns = clock_now_ns();
    demo_load_join(d->load);
    event(d, "all multicasts are done");
    if (!await(d, level, "all replicas have delivered everything"))
        return false;
    event(d, "all replicas have delivered everything");
    return demo_hosts_stop(&d->hosts) || complain(d->hosts.failure, NULL);
}

/* ---- the end ---- */

static void row(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void row(const char *name, const char *fmt, ...)
{
    va_list args;

    printf("  %-34s ", name);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

static void print_latency(const struct demo *d, const char *name, unsigned groups)
{
    static struct hist all; /* too large for a small stack */

    hist_init(&all);
    for (uint32_t i = 0; i < DEMO_CLIENTS; i++)
        hist_merge(&all, &d->load->client[i].latency[groups]);
    row(name, "p50 %.0f us, p99 %.0f us", (double)hist_quantile(&all, 0.5) / 1e3,
        (double)hist_quantile(&all, 0.99) / 1e3);
}

static void print_silence(const struct demo *d, const char *name, unsigned watch)
{
    uint64_t pause = 0, slow = 0;

    for (uint32_t i = 0; i < DEMO_CLIENTS; i++) {
        const struct demo_client *c = &d->load->client[i];
        pause = c->pause_ns[watch] > pause ? c->pause_ns[watch] : pause;
        slow = c->slow_ns[watch] > slow ? c->slow_ns[watch] : slow;
    }
    row(name, "%.1f ms, slowest multicast %.1f ms", (double)pause / 1e6, (double)slow / 1e6);
}

static void print_table(const struct demo *d, const struct amcast_summary *s)
{
    uint64_t done = demo_load_done(d->load);

    printf("\n");
    row("multicasts", "%llu of 64 bytes, from %d clients", (unsigned long long)done, DEMO_CLIENTS);
    row("throughput", "%.0f multicasts a second (the clients cast at most %llu)",
        (double)done / seconds_of(d->end_ns - d->start_ns),
        (unsigned long long)(DEMO_CLIENTS * d->load->rate));
    print_latency(d, "latency to 1 group", 1);
    print_latency(d, "latency to all 8 groups", DEMO_GROUPS);
    print_silence(d, "longest pause of a client, kill", DEMO_KILL);
    print_silence(d, "longest pause of a client, return", DEMO_RETURN);
    row("deliveries traced", "%llu by %u replicas", (unsigned long long)s->deliveries, s->replicas);
}

static void print_verdict(const struct amcast *a, const struct amcast_summary *s)
{
    const struct amcast_violation *v;

    printf("\n");
    for (unsigned p = 0; p < AMCAST_PROPERTIES; p++)
        row(amcast_property_names[p], "%s", s->violations[p] > 0 ? "VIOLATED" : "ok");
    for (uint32_t i = 0; (v = amcast_violation(a, i)) != NULL; i++)
        printf("VIOLATION of %s: %s\n", amcast_property_names[v->property], v->text);
    if (amcast_violation(a, 0) != NULL)
        printf("`tram demo --keep` keeps the traces of a run, to look into them.\n");
}

static bool judge(const struct demo *d)
{
    struct load_report report = {0};
    struct amcast_summary s;
    struct err e = {""};
    struct amcast *a = amcast_open();

    bool ok = load_dir(a, d->traces, NULL, NULL, &report, &e) >= 0;
    if (ok) {
        ok = amcast_verify(a, true);
        amcast_summarise(a, &s);
        print_table(d, &s);
        print_verdict(a, &s);
    } else {
        complain("traces", e.text);
    }
    amcast_close(a);
    if (ok && (s.casts != demo_load_casts(d->load) || s.dones != s.casts))
        ok = complain("the traces do not have every multicast, or not every one is done", NULL);
    return ok;
}

static bool demo(struct demo *d)
{
    if (!make_dir(d) || !write_file(d))
        return false;
    printf(
        "%d groups of %d replicas in %d host processes, all groups below the first; %d clients\n",
        DEMO_GROUPS, DEMO_REPLICAS, DEMO_HOSTS, DEMO_CLIENTS);
    fflush(stdout);
    if (!start_hosts(d))
        return false;
    event(d, "the hosts are up, every group has a leader");

    d->load = calloc(1, sizeof(*d->load));
    if (d->load == NULL)
        return complain("clients", "no memory");
    uint64_t rate = MULTICASTS_MAX / (d->seconds * DEMO_CLIENTS);
    d->load->rate = rate < RATE_MAX ? rate : RATE_MAX;
    d->load->cluster = d->cluster;
    d->load->trace_dir = d->traces;
    if (!run_load(d) || !come_to_rest(d) || !judge(d))
        return false;
    if (d->back_ns == 0)
        return complain(demo_host_name(d->victim), "it did not come back before the load ended");
    return true;
}

static void print_next(void)
{
    static const char *const next[][2] = {
        {"init", "write a cluster file of your own"},
        {"up", "start its hosts on this machine"},
        {"send g1 hello", "multicast a message"},
        {"status", "see who leads, and how far everyone is"},
        {"sim", "the same protocol in the simulator, under drawn faults"},
        {"bench", "how fast it is when nothing holds it back"},
    };

    printf("\nNext, try:\n");
    for (size_t i = 0; i < sizeof next / sizeof next[0]; i++)
        printf("  %s %-14s %s\n", cmd_program, next[i][0], next[i][1]);
}

static int run_demo(uint64_t seconds, bool keep)
{
    struct demo d = {.seconds = seconds, .keep = keep, .terminal = isatty(STDOUT_FILENO)};
    struct sigaction on = {.sa_handler = on_signal};

    sigaction(SIGINT, &on, NULL);
    sigaction(SIGTERM, &on, NULL);
    if (signal(SIGHUP, SIG_IGN) != SIG_IGN) /* unless nohup says otherwise */
        sigaction(SIGHUP, &on, NULL);
    signal(SIGPIPE, SIG_IGN); /* a reader that left must not keep us from cleaning up */
    bool ok = demo(&d);
    clean_up(&d);
    if (ok)
        print_next();
    return ok ? CMD_DONE : CMD_FAILED;
}

int cmd_demo(int argc, char **argv)
{
    const char *host = NULL, *file = NULL, *trace = NULL;
    uint64_t seconds = 12;
    bool keep = false;
    const struct args_option options[] = {
        {"--seconds", "S", "how long the clients cast, 3 to 600 (default 12)", .number = &seconds,
         .min = 3, .max = 600},
        {"--keep", NULL, "keep the traces, and say where they are", .flag = &keep},
        /* How it starts itself as a host. */
        {"--host", "HOST", NULL, .text = &host, .needs = "a host"},
        {"--file", "FILE", NULL, .text = &file, .needs = "a file"},
        {"--trace", "DIR", NULL, .text = &trace, .needs = "a directory"},
        {0},
    };
    const struct args_command command = {
        .name = "demo",
        .usage = "[OPTIONS]",
        .about = "Starts 8 groups of 3 replicas in 3 host processes of this machine, multicasts "
                 "from 3 clients to mixed destinations, kills a host that leads groups, starts it "
                 "again, and checks in the end that everything was delivered everywhere in one "
                 "order. Leaves nothing behind.",
        .options = options,
        .more = "Exit code: 0 all is well, 1 something was lost, out of order or failed, 2 wrong "
                "usage.",
    };

    int code = args_read(&command, argc, argv);
    if (code != ARGS_GO)
        return code;
    if (host && file && trace)
        return demo_host_main(host, file, trace);
    return run_demo(seconds, keep);
}
