/* tram up: all hosts of a cluster file as processes of this machine, supervised. */
#include "api/api.h"
#include "api/disk.h"
#include "api/group_page.h"
#include "base/clock.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/conf.h"
#include "cli/log_lines.h"
#include "cli/running.h"
#include "conf/value.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MS = 1000000,
    QUICK_NS = 2000 * MS, /* a life shorter than this makes the next start wait */
    DELAY_MS = 100,       /* at first; it doubles */
    DELAY_MS_MAX = 5000,
    STOP_MS = 5000,  /* from asking a host to stop to killing it */
    LOOK_MS = 20,    /* how often to look while something is under way, */
    REST_MS = 500,   /* and while nothing is */
    PATIENCE_S = 10, /* before what is missing at the start is named */
};

struct up_args {
    struct running_args running;
    const char *trace;
    uint32_t rate; /* under protocol group */
    unsigned log;  /* enum log_form, of hosts */
    bool check_only;
};

struct child {
    pid_t pid;           /* 0: not running */
    uint64_t started_ns; /* its present life */
    uint64_t again_ns;   /* not running: when to start it */
    uint32_t quick;      /* short lives in a row */
    bool was_up;         /* it has been up, in any life */
};

struct up {
    const struct up_args *args;
    struct tram_cluster *cluster;
    struct running now;
    struct child *child; /* by host */
    uint32_t hosts;
    sigset_t signals; /* blocked, and waited for */
    bool failed;
};

/* ---- processes ---- */

static void become_host(const struct up *u, uint32_t h, pid_t parent)
{
    const struct up_args *a = u->args;
    const char *argv[16];
    char rate[16];
    int n = 0;

    argv[n++] = "tram";
    argv[n++] = u->cluster->conf->host[h].memory ? "memory" : "host";
    argv[n++] = tram_cluster_host_name(u->cluster, h);
    argv[n++] = "--quiet";
    argv[n++] = "--log";
    argv[n++] = log_forms[a->log];
    argv[n++] = "--file";
    argv[n++] = running_file(&a->running);
    if (a->running.cluster) {
        argv[n++] = "--cluster";
        argv[n++] = a->running.cluster;
    }
    if (a->trace && !u->cluster->conf->host[h].memory) {
        argv[n++] = "--trace";
        argv[n++] = a->trace;
    }
    if (a->rate) {
        snprintf(rate, sizeof rate, "%u", a->rate);
        argv[n++] = "--rate";
        argv[n++] = rate;
    }
    argv[n] = NULL;
    /* ^C goes to the terminal's process group; the hosts are to hear of it from us, or one that ends
     * before we know would be started again. */
    setpgid(0, 0);
    /* SIGTERM, so that hosts leave in order even if we were killed. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &u->signals, NULL);
    if (getppid() == parent)
        execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
    _exit(127);
}

static bool child_start(struct up *u, uint32_t h)
{
    pid_t parent = getpid();

    fflush(NULL); /* or the child might print it a second time */
    pid_t pid = fork();
    if (pid < 0) {
        fprintf(stderr, "tram up: %s: cannot start a process: %m\n",
                tram_cluster_host_name(u->cluster, h));
        return false;
    }
    if (pid == 0)
        become_host(u, h, parent);
    u->child[h].pid = pid;
    u->child[h].started_ns = clock_now_ns();
    return true;
}

static int child_of(const struct up *u, pid_t pid)
{
    for (uint32_t h = 0; h < u->hosts; h++)
        if (u->child[h].pid == pid)
            return (int)h;
    return -1;
}

static void describe_end(int status, char *out, size_t bytes)
{
    if (WIFSIGNALED(status))
        snprintf(out, bytes, "was killed by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) == 0)
        snprintf(out, bytes, "was stopped by somebody else");
    else
        snprintf(out, bytes, "ended with exit code %d", WEXITSTATUS(status));
}

/* Decides when to start a host again that has just ended. */
static void child_ended(struct up *u, uint32_t h, int status)
{
    struct child *c = &u->child[h];
    const char *name = tram_cluster_host_name(u->cluster, h);
    uint64_t now = clock_now_ns(), delay_ms = 0;
    char end[64];

    describe_end(status, end, sizeof end);
    c->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == CMD_LOST) {
        fprintf(stderr, "tram up: all are stopped%s\n",
                cluster_has_disks(u->cluster->conf)
                    ? ""
                    : "; the next start begins with an empty cluster");
        u->failed = true;
        return;
    }
    if (now - c->started_ns >= QUICK_NS)
        c->quick = 0;
    else if (!c->was_up && WIFEXITED(status)) {
        /* It has said why, and would say the same again. */
        fprintf(stderr, "tram up: %s could not start; all are stopped\n", name);
        u->failed = true;
        return;
    }
    if (c->quick > 0)
        delay_ms = c->quick < 7 ? DELAY_MS << (c->quick - 1) : DELAY_MS_MAX;
    if (delay_ms > DELAY_MS_MAX)
        delay_ms = DELAY_MS_MAX;
    c->quick++;
    c->again_ns = now + delay_ms * MS;
    if (delay_ms > 0)
        printf("%s %s; it is started again in %u ms\n", name, end, (unsigned)delay_ms);
    else
        printf("%s %s; %s\n", name, end, child_start(u, h) ? "started again" : "not started again");
}

static void reap(struct up *u, bool restart)
{
    int status;

    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        int h = child_of(u, pid);
        if (h >= 0 && restart && !u->failed)
            child_ended(u, (uint32_t)h, status);
        else if (h >= 0)
            u->child[h].pid = 0;
    }
}

/* ---- phases ---- */

static uint32_t children_alive(const struct up *u)
{
    uint32_t n = 0;

    for (uint32_t h = 0; h < u->hosts; h++)
        n += u->child[h].pid != 0;
    return n;
}

static void signal_all(const struct up *u, int number)
{
    for (uint32_t h = 0; h < u->hosts; h++)
        if (u->child[h].pid)
            kill(u->child[h].pid, number);
}

/* Returns the signal that came, or 0 after the time. */
static int wait_signal(const struct up *u, uint32_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * MS};
    int number = sigtimedwait(&u->signals, NULL, &t);

    return number < 0 ? 0 : number;
}

static void stop_all(struct up *u)
{
    uint64_t until = clock_now_ns() + STOP_MS * (uint64_t)MS;

    signal_all(u, SIGTERM);
    signal_all(u, SIGCONT); /* one that somebody has stopped would not hear */
    for (reap(u, false); children_alive(u) > 0 && clock_now_ns() < until; reap(u, false))
        wait_signal(u, LOOK_MS);
    for (uint32_t h = 0; h < u->hosts; h++)
        if (u->child[h].pid) {
            fprintf(stderr, "tram up: %s did not stop in %d s and was killed\n",
                    tram_cluster_host_name(u->cluster, h), STOP_MS / 1000);
            u->failed = true;
        }
    signal_all(u, SIGKILL);
    for (; children_alive(u) > 0; reap(u, false))
        wait_signal(u, LOOK_MS);
}

/* Whether all groups are served, the first time; and which hosts have made it. */
static bool look(struct up *u)
{
    running_sample(&u->now);
    for (uint32_t h = 0; h < u->hosts; h++)
        if (u->child[h].pid && u->now.host[h].pid == u->child[h].pid &&
            u->now.host[h].state == RUNNING_UP)
            u->child[h].was_up = true;
    for (uint32_t h = 0; h < u->hosts; h++)
        if (!u->child[h].was_up)
            return false;
    return running_all_led(&u->now);
}

static void print_data(const struct up *u)
{
    char dir[1024], *full = NULL;
    struct err e = {""};

    if (cluster_path(u->cluster->conf, u->cluster->file, CLUSTER_PATH_DATA, NULL, dir, sizeof dir,
                     &e) == 0)
        full = realpath(dir, NULL);
    if (full)
        printf("what it has is kept in %s, and is there again at the next start\n", full);
    free(full);
}

static void print_up(const struct up *u)
{
    const struct running_args *r = &u->args->running;
    const char *group = tram_cluster_group_name(u->cluster, 0);
    char more[2 * 256] = "";

    if (r->file)
        snprintf(more, sizeof more, " -c %.200s", r->file);
    if (r->cluster)
        snprintf(more + strlen(more), sizeof more - strlen(more), " --cluster %s", r->cluster);
    printf("cluster '%s' is up: %u groups on %u hosts\n", u->cluster->conf->name,
           tram_cluster_groups(u->cluster), u->hosts);
    if (u->cluster->conf->durable)
        print_data(u);
    printf("in another terminal:  %s status%s\n"
           "                      %s tail %s%s\n"
           "                      %s send %s hello%s\n"
           "^C stops it\n",
           cmd_program, more, cmd_program, group, more, cmd_program, group, more);
}

static void print_group_up(const struct up *u)
{
    const struct running_args *r = &u->args->running;
    int at = running_newest(&u->now);

    printf("cluster '%s' is up: view %llu of %u hosts\n", u->cluster->conf->name,
           at < 0 ? 0ULL : (unsigned long long)running_member(&u->now, (uint32_t)at)->vid,
           u->hosts);
    if (cluster_has_disks(u->cluster->conf))
        print_data(u);
    printf("in another terminal:  %s view%s%.200s%s%s\n^C stops it\n", cmd_program,
           r->file ? " -c " : "", r->file ? r->file : "", r->cluster ? " --cluster " : "",
           r->cluster ? r->cluster : "");
}

static void print_missing(const struct up *u)
{
    for (uint32_t h = 0; h < u->hosts; h++)
        if (u->now.host[h].state != RUNNING_UP) {
            printf("still waiting: host %s is %s\n", tram_cluster_host_name(u->cluster, h),
                   running_state_name(u->now.host[h].state));
            return;
        }
    if (u->cluster->conf->protocol == CLUSTER_GROUP)
        printf("still waiting: no view has all hosts\n");
    for (uint32_t g = 0; g < tram_cluster_groups(u->cluster); g++)
        if (running_leader(&u->now, g) < 0) {
            printf("still waiting: group %s has no leader\n",
                   tram_cluster_group_name(u->cluster, g));
            return;
        }
}

/* Starts again whom it is time for. Returns whether anybody still waits for it. */
static bool start_due(struct up *u)
{
    bool waiting = false;

    for (uint32_t h = 0; h < u->hosts; h++) {
        struct child *c = &u->child[h];
        if (c->pid)
            continue;
        if (clock_now_ns() >= c->again_ns && child_start(u, h))
            printf("%s was started again\n", tram_cluster_host_name(u->cluster, h));
        else
            waiting = true;
    }
    return waiting;
}

static void supervise(struct up *u)
{
    bool up = false, told = false;
    uint64_t begin = clock_now_ns();

    while (!u->failed) {
        bool waiting = start_due(u);
        if (!up && look(u)) {
            up = true;
            if (u->cluster->conf->protocol == CLUSTER_GROUP)
                print_group_up(u);
            else
                print_up(u);
        }
        if (!up && !told && clock_now_ns() - begin > PATIENCE_S * UINT64_C(1000000000)) {
            told = true;
            print_missing(u);
        }
        fflush(stdout);
        int number = wait_signal(u, waiting || !up ? LOOK_MS : REST_MS);
        if (number != 0 && number != SIGCHLD)
            return;
        reap(u, true);
    }
}

static bool is_running(const struct up *u)
{
    for (uint32_t h = 0; h < u->hosts; h++) {
        if (u->now.host[h].state == RUNNING_DOWN)
            continue;
        fprintf(stderr, "tram up: host %s of cluster '%s' is already running",
                tram_cluster_host_name(u->cluster, h), u->cluster->conf->name);
        if (u->now.host[h].pid)
            fprintf(stderr, ", as process %d", (int)u->now.host[h].pid);
        fprintf(stderr, "; stop it first, or run this one beside it with --cluster NAME\n");
        return true;
    }
    return false;
}

/* The machine's memory that could be had now; 0 if it does not say. */
static uint64_t memory_left(void)
{
    unsigned long long kib = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "re");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

/* Hosts that start together would each find enough for itself. */
static bool memory_suffices(const struct up *u)
{
    const struct cluster *c = u->cluster->conf;
    uint64_t wanted = cluster_memory(c), left = memory_left();

    if (left == 0 || wanted <= left)
        return true;
    fprintf(stderr,
            "tram up: cluster '%s' takes %s of memory and this machine has %s left; make %s\n",
            c->name, value_size_about(wanted).s, value_size_about(left).s,
            c->protocol == CLUSTER_GROUP
                ? "ring_bytes of the subgroups smaller, or their shards fewer"
                : "payload_max, log_bytes and edge_bytes smaller, or the groups fewer");
    return false;
}

/* Directories of a new cluster are made; where only some are missing, disks were lost. */
static bool directories_there(const struct up *u)
{
    const struct tram_cluster *c = u->cluster;
    struct err e = {""};
    int missing = CLUSTER_NONE, rc = 0;
    uint32_t none = 0;

    for (uint32_t h = 0; h < u->hosts && (rc == 0 || rc == ERR_NOTFOUND); h++) {
        rc = api_disk_whose(c, h, &e);
        none += rc == ERR_NOTFOUND;
        if (rc == ERR_NOTFOUND && missing == CLUSTER_NONE)
            missing = (int)h;
        else if (rc != 0 && rc != ERR_NOTFOUND)
            fprintf(stderr, "tram up: host %s: %s\n", tram_cluster_host_name(c, h), e.text);
    }
    if (rc != 0 && rc != ERR_NOTFOUND)
        return false;
    if (none > 0 && none < u->hosts) {
        const char *name = tram_cluster_host_name(c, (uint32_t)missing);
        fprintf(stderr,
                "tram up: host %s has no directory, and others have: if its disk was lost, `tram "
                "format --rejoin %s -c %s`; if it has never run, `tram format %s -c %s`\n",
                name, name, running_file(&u->args->running), name, running_file(&u->args->running));
        return false;
    }
    rc = 0;
    for (uint32_t h = 0; h < u->hosts && none > 0 && rc == 0; h++) {
        rc = api_disk_format(c, h, 0, &e);
        if (rc < 0)
            fprintf(stderr, "tram up: host %s: %s\n", tram_cluster_host_name(c, h), e.text);
    }
    return rc == 0;
}

static int run(struct up *u)
{
    u->hosts = tram_cluster_hosts(u->cluster);
    int code = running_open(&u->now, u->cluster, "up");
    if (code != CMD_DONE)
        return code;
    if (is_running(u) || !memory_suffices(u) ||
        (cluster_has_disks(u->cluster->conf) && !directories_there(u)))
        return CMD_FAILED;
    u->child = calloc(u->hosts, sizeof(*u->child));
    if (u->child == NULL) {
        fprintf(stderr, "tram up: no memory\n");
        return CMD_FAILED;
    }
    sigemptyset(&u->signals);
    sigaddset(&u->signals, SIGINT);
    sigaddset(&u->signals, SIGTERM);
    sigaddset(&u->signals, SIGHUP);
    sigaddset(&u->signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &u->signals, NULL);
    for (uint32_t h = 0; h < u->hosts && !u->failed; h++)
        u->failed = !child_start(u, h);
    supervise(u);
    stop_all(u);
    if (!u->failed)
        printf("cluster '%s' is stopped\n", u->cluster->conf->name);
    return u->failed ? CMD_FAILED : CMD_DONE;
}

static int start(const struct up_args *a)
{
    struct up u = {.args = a};
    struct cluster *checked;

    int code = running_load(&a->running, "up", &u.cluster);
    if (code != CMD_DONE)
        return code;
    /* Once more, for its warnings: they are for who starts the cluster. */
    if (conf_load_or_complain(running_file(&a->running), &checked) == CMD_DONE)
        cluster_free(checked);
    if (a->rate > 0 && u.cluster->conf->protocol != CLUSTER_GROUP)
        code = args_bad("up", "--rate", "it is for protocol: group; `tram send` sends to groups");
    else
        code = run(&u);
    running_close(&u.now);
    free(u.child);
    tram_cluster_free(u.cluster);
    return code;
}

int cmd_up(int argc, char **argv)
{
    struct up_args a = {0};
    /* The file of --check-only, which may also stand before it. */
    const struct args_word words[] = {{"FILE", &a.running.file, NULL}, {0}};
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--trace", "DIR", "write what is delivered there, for `tram check`", .text = &a.trace,
         .needs = "a directory"},
        {"--rate", "N",
         "under protocol group: have each member send so many messages a second to each cell it is "
         "in, 1 to 100000",
         .number32 = &a.rate, .min = 1, .max = 100000},
        {"--log", "FORM", "how hosts write log lines to standard error: text (default) or json",
         .choice = &a.log, .choices = log_forms, .needs = "the forms are"},
        {"--check-only", NULL, "check the cluster file, and do nothing else",
         .flag = &a.check_only},
        {0},
    };
    const struct args_command command = {
        .name = "up",
        .usage = "[FILE] [OPTIONS]",
        .about =
            "Starts all hosts of the cluster file as processes on this machine and looks after "
            "them: one that dies is reported and started again. ^C or SIGTERM stops them all. The "
            "directories of a durable cluster are made if none is there yet.",
        .options = options,
        .words = words,
        .too_many = "a second cluster file",
        .more = "Exit code: 0 stopped as asked, or the file is correct; 1 a host could not start "
                "or stop, the cluster runs already, or the file has a mistake; 2 wrong usage.",
    };

    int code = args_read(&command, argc, argv);
    if (code != ARGS_GO)
        return code;
    return a.check_only ? conf_check_only(running_file(&a.running)) : start(&a);
}
