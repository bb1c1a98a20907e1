#include "api/api.h"
#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/demo.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const names[DEMO_HOSTS] = {"h1", "h2", "h3"}; /* as cluster_make has them */

const char *demo_host_name(uint32_t host)
{
    return names[host];
}

/* ---- the process of a host ---- */

/* The state of a group's replica: how many messages it has seen, and a sum over all of them that
 * depends on their order. */
struct counting {
    uint64_t count, digest;
};

static uint32_t count_delivery(void *ctx, const struct tram_delivery *d, void *reply,
                               uint32_t reply_max)
{
    struct counting *s = (struct counting *)ctx + d->group;
    const unsigned char *body = d->body;

    s->count++;
    for (uint32_t i = 0; i < d->bytes; i++)
        s->digest = (s->digest ^ body[i]) * 0x100000001b3u;
    uint32_t bytes = sizeof(*s) <= reply_max ? sizeof(*s) : 0;
    memcpy(reply, s, bytes);
    return bytes;
}

static int save(void *ctx, uint32_t group, void **data, size_t *bytes)
{
    struct counting *copy = malloc(sizeof(*copy));
    if (copy == NULL)
        return -1;
    *copy = ((struct counting *)ctx)[group];
    *data = copy;
    *bytes = sizeof(*copy);
    return 0;
}

static int load(void *ctx, uint32_t group, const void *data, size_t bytes)
{
    if (bytes != sizeof(struct counting))
        return -1;
    memcpy((struct counting *)ctx + group, data, bytes);
    return 0;
}

static volatile sig_atomic_t host_stop;

static void on_term(int sig)
{
    (void)sig;
    host_stop = 1;
}

static int run_host(const struct tram_cluster *cluster, const char *name, const char *trace_dir,
                    struct tram_error *e)
{
    struct counting state[DEMO_GROUPS] = {{0}};
    struct tram_host_options o = {
        .name = name,
        .machine = {.deliver = count_delivery, .save = save, .load = load},
        .ctx = state,
        .trace_dir = trace_dir,
    };
    struct tram_host *host;

    int rc = tram_host_open(cluster, &o, &host, e);
    if (rc != TRAM_OK)
        return rc;
    while (rc >= 0 && !host_stop)
        rc = tram_host_step(host, e);
    tram_host_close(host);
    return rc < 0 ? rc : TRAM_OK;
}

int demo_host_main(const char *name, const char *file, const char *trace_dir)
{
    struct tram_error e = {""};
    struct tram_cluster *cluster;

    /* ^C reaches the whole foreground group; the parent decides when hosts end. */
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, on_term);
    int rc = tram_cluster_load(file, &cluster, &e);
    if (rc == TRAM_OK) {
        /* The kill and what follows are what the demo shows. */
        const struct tram_log log = api_log_stderr(TRAM_LOG_ERROR);
        tram_cluster_log(cluster, &log);
        rc = run_host(cluster, name, trace_dir, &e);
        tram_cluster_free(cluster);
    }
    if (rc != TRAM_OK)
        fprintf(stderr, "tram demo: host %s: %s\n", name, e.text);
    return rc == TRAM_OK ? CMD_DONE : CMD_FAILED;
}

/* ---- starting and ending them ---- */

bool demo_host_start(struct demo_hosts *h, uint32_t host)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid < 0) {
        snprintf(h->failure, sizeof(h->failure), "no process for host %s: %s", names[host],
                 strerror(errno));
        return false;
    }
    if (pid == 0) {
        /* Clients' threads may run in the parent: only system calls from here on. */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(CMD_FAILED);
        execl("/proc/self/exe", "tram", "demo", "--host", names[host], "--file", h->file, "--trace",
              h->trace_dir, (char *)NULL);
        _exit(CMD_FAILED);
    }
    h->pid[host] = pid;
    return true;
}

void demo_host_kill(struct demo_hosts *h, uint32_t host)
{
    kill(h->pid[host], SIGKILL);
    waitpid(h->pid[host], NULL, 0);
    h->pid[host] = 0;
}

bool demo_hosts_failed(struct demo_hosts *h)
{
    for (uint32_t i = 0; i < DEMO_HOSTS; i++) {
        int status;
        if (h->pid[i] == 0 || waitpid(h->pid[i], &status, WNOHANG) != h->pid[i])
            continue;
        h->pid[i] = 0;
        snprintf(h->failure, sizeof(h->failure), "host %s ended by itself, %s %d", names[i],
                 WIFSIGNALED(status) ? "signal" : "exit code",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    return h->failure[0] != '\0';
}

/* Waits for a process that was told to end; kills it if that takes too long. */
static bool reap(pid_t pid)
{
    enum { TRIES = 300, TRY_NS = 10000000 };
    int status;

    for (int i = 0; i < TRIES; i++) {
        if (waitpid(pid, &status, WNOHANG) != 0)
            return WIFEXITED(status) && WEXITSTATUS(status) == CMD_DONE;
        nanosleep(&(struct timespec){.tv_nsec = TRY_NS}, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return false;
}

bool demo_hosts_stop(struct demo_hosts *h)
{
    bool ok = true;

    for (uint32_t i = 0; i < DEMO_HOSTS; i++)
        if (h->pid[i] != 0)
            kill(h->pid[i], SIGTERM);
    for (uint32_t i = 0; i < DEMO_HOSTS; i++) {
        if (h->pid[i] != 0 && !reap(h->pid[i])) {
            snprintf(h->failure, sizeof(h->failure), "host %s did not end in order", names[i]);
            ok = false;
        }
        h->pid[i] = 0;
    }
    return ok;
}

/* ---- what they show ---- */

struct page {
    struct api_page head;
    struct api_page_replica replica[DEMO_GROUPS];
};

/* Every value is a word that its host stores in one piece; read() is good enough to look at them. */
static bool read_page(const struct demo_hosts *h, uint32_t host, struct page *out)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s.page", h->pages, names[host]);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, out, sizeof(*out));
    close(fd);
    /* A killed host leaves its page: only that of the living process counts. */
    return n == (ssize_t)sizeof(*out) && out->head.magic == PAGE_MAGIC && h->pid[host] != 0 &&
           out->head.pid == (uint64_t)h->pid[host] && out->head.updated_ns != 0 &&
           out->head.replicas == DEMO_GROUPS;
}

void demo_hosts_view(const struct demo_hosts *h, struct demo_view *v)
{
    uint64_t delivered[DEMO_GROUPS] = {0};

    *v = (struct demo_view){.level = true};
    for (uint32_t g = 0; g < DEMO_GROUPS; g++)
        v->leader[g] = -1;
    for (uint32_t i = 0; i < DEMO_HOSTS; i++) {
        struct page p;
        v->up[i] = read_page(h, i, &p);
        if (!v->up[i]) {
            v->level = false;
            continue;
        }
        for (uint32_t k = 0; k < DEMO_GROUPS; k++) {
            const struct api_page_replica *r = &p.replica[k];
            if (r->behind || r->role == TRAM_JOINING)
                v->up[i] = false;
            if (r->role == TRAM_LEADER) {
                v->leader[r->group % DEMO_GROUPS] = (int)i;
                v->leads[i]++;
            }
            if (i > 0 && r->delivered != delivered[k])
                v->level = false;
            delivered[k] = r->delivered;
            v->delivered += r->delivered;
        }
    }
}
