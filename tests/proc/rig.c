#include "../cluster_fixture.h"
#include "../far_fixture.h"
#include "api/api.h"
#include "base/clock.h"
#include "check/load.h"
#include "mem/ofi/ofi.h"
#include "rig_impl.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    OUTSTANDING = 64,
    CAST_EVERY_NS = 200000, /* keeps traces small, and is short beside any gap of interest */
    BURST_MAX = 7,          /* so that a kill finds messages in all stages of their way */
};

static void on_reply(void *ctx, uint64_t ticket, uint32_t group, const void *body, uint32_t bytes)
{
    struct rig *t = ctx;
    uint64_t now = clock_now_ns();
    uint64_t gap = now - t->reply_ns[group];
    (void)body;
    (void)bytes;
    /* A group that has never answered before the fault has not waited because of it. */
    bool waited = t->reply_ns[group] != 0 && (t->lasts || !t->answered[group]);
    if (waited && gap > t->group_gap_ns)
        t->group_gap_ns = gap;
    t->answered[group] |= ticket >= t->mark;
    t->reply_ns[group] = now;
}

static void on_done(void *ctx, uint64_t ticket)
{
    struct rig *t = ctx;
    uint64_t now = clock_now_ns();
    (void)ticket;
    t->gap_ns = now - t->moved_ns > t->gap_ns ? now - t->moved_ns : t->gap_ns;
    t->moved_ns = now;
    t->done++;
}

/* In a new process: what it has to say goes to a file, unless somebody wants to watch. */
static bool child_begins(struct rig *t, uint32_t n)
{
    int fd = getenv("RIG_SAY") ? 2 : open(t->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    return dup2(fd, 2) == 2 && (!t->opt.enter || t->opt.enter(t->opt.ctx, n));
}

static void start_host(struct rig *t, uint32_t rank)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", rank);
    fflush(stdout);
    atomic_store(&t->board->host[rank].life, 0);
    atomic_store(&t->board->host[rank].stop, 0);
    t->pid[rank] = fork();
    if (t->pid[rank] == 0) {
        if (child_begins(t, rank))
            execl(t->self, t->self, "host", t->file, t->traces, number, (char *)NULL);
        _exit(4);
    }
}

void rig_start_other(struct rig *t)
{
    fflush(stdout);
    atomic_store(&t->board->client.life, 0);
    atomic_store(&t->board->client.done, 0);
    atomic_store(&t->board->client.stop, 0);
    atomic_store(&t->board->client.die, 0);
    t->other = fork();
    if (t->other == 0) {
        if (child_begins(t, RIG_HOSTS))
            execl(t->self, t->self, "client", t->file, t->traces, (char *)NULL);
        _exit(4);
    }
}

/* Notes how long it takes until nothing is left of the process: its connections have ended by then. */
static void kill_and_watch(struct board *b, pid_t victim)
{
    struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, victim, 0), .events = POLLIN};
    uint64_t killed = clock_now_ns();
    kill(victim, SIGKILL);
    if (p.fd >= 0) {
        poll(&p, 1, -1);
        close(p.fd);
    }
    atomic_store(&b->death_ns, clock_now_ns() - killed);
}

/* A process that does the killing: were it the client that measures, it would find itself queued behind
 * the one that dies, on the core where the signal was sent. */
static bool start_killer(struct rig *t)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return false;
    fflush(stdout);
    t->killer = fork();
    if (t->killer == 0) {
        pid_t victim;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fds[1]);
        while (read(fds[0], &victim, sizeof(victim)) == sizeof(victim))
            kill_and_watch(t->board, victim);
        _exit(0);
    }
    close(fds[0]);
    t->killer_fd = fds[1];
    return t->killer > 0;
}

bool rig_kill(const struct rig *t, pid_t victim)
{
    return write(t->killer_fd, &victim, sizeof(victim)) == sizeof(victim);
}

static void cast_one(struct rig *t)
{
    unsigned char body[RIG_PAYLOAD];
    uint16_t list[RIG_GROUPS];
    memset(body, (int)(t->sent & 0xff), sizeof(body));
    memcpy(body, &t->sent, sizeof(t->sent));
    if (tram_client_outstanding(t->client) < OUTSTANDING &&
        tram_cast(t->client, list, rig_draw_groups(&t->rng, list), body, sizeof(body), NULL,
                  NULL) == 0)
        t->sent++;
}

/* Keeps the load up and notes progress. */
static void step(struct rig *t)
{
    uint64_t now = clock_now_ns();
    if (now - t->cast_ns > CAST_EVERY_NS) {
        for (uint64_t burst = rng_range(&t->rng, 1, BURST_MAX); burst > 0; burst--)
            cast_one(t);
        t->cast_ns = now;
    }
    uint64_t due = t->cast_ns + CAST_EVERY_NS;
    now = clock_now_ns();
    tram_client_wait(t->client, due > now ? due - now : 1);
}

void rig_run_for(struct rig *t, uint64_t ns)
{
    uint64_t until = clock_now_ns() + ns;
    while (clock_now_ns() < until)
        step(t);
}

bool rig_failed(const struct rig *t)
{
    for (uint32_t h = 0; h < RIG_HOSTS; h++)
        if (atomic_load(&t->board->host[h].wrong) || atomic_load(&t->board->host[h].broken))
            return true;
    return false;
}

static uint32_t leads(const struct rig *t, uint32_t h)
{
    uint32_t count = 0;
    for (uint32_t g = 0; g < RIG_GROUPS; g++)
        count += atomic_load(&t->board->host[h].group[g].role) == TRAM_LEADER;
    return count;
}

static bool all_well(const struct rig *t)
{
    for (uint32_t h = 0; h < RIG_HOSTS; h++)
        if (atomic_load(&t->board->host[h].life) == 0)
            return false;
    for (uint32_t g = 0; g < RIG_GROUPS; g++) {
        uint32_t led = 0;
        for (uint32_t h = 0; h < RIG_HOSTS; h++) {
            const struct notice *n = &t->board->host[h].group[g];
            uint64_t role = atomic_load(&n->role);
            if (atomic_load(&n->behind) || role == TRAM_JOINING)
                return false;
            led += role == TRAM_LEADER && atomic_load(&n->attached) == RIG_HOSTS;
        }
        if (led != 1)
            return false;
    }
    return true;
}

void rig_print(const struct rig *t)
{
    for (uint32_t g = 0; g < RIG_GROUPS; g++)
        for (uint32_t h = 0; h < RIG_HOSTS; h++)
            notice_print(&t->board->host[h].group[g], g, h, atomic_load(&t->board->host[h].life));
    printf("# client: %llu sent, %llu done\n", (unsigned long long)t->sent,
           (unsigned long long)t->done);
}

bool rig_wait_well(struct rig *t)
{
    uint64_t give_up = clock_now_ns() + PATIENCE;
    while (!all_well(t) && !rig_failed(t) && clock_now_ns() < give_up)
        step(t);
    if (all_well(t) && !rig_failed(t))
        return true;
    printf("# hosts and groups do not get well again:\n");
    rig_print(t);
    return false;
}

void rig_fault_begins(struct rig *t)
{
    t->mark = t->sent;
    t->gap_ns = t->group_gap_ns = 0;
    atomic_store(&t->board->stall_ns, 0);
    atomic_store(&t->board->death_ns, 0);
    memset(t->answered, 0, sizeof(t->answered));
}

static bool all_answered(const struct rig *t)
{
    for (uint32_t g = 0; g < RIG_GROUPS; g++)
        if (!t->answered[g])
            return false;
    return true;
}

bool rig_fault_is_over(struct rig *t, uint64_t notice_ns)
{
    uint64_t give_up = clock_now_ns() + PATIENCE;
    while (!all_answered(t)) {
        if (clock_now_ns() > give_up || rig_failed(t)) {
            printf("# some group does not answer:\n");
            rig_print(t);
            return false;
        }
        step(t);
    }
    hist_add(&t->gaps, t->gap_ns);
    hist_add(&t->group_gaps, t->group_gap_ns);
    if (notice_ns > 0) {
        hist_add(&t->notice, notice_ns);
        if (t->group_gap_ns <= notice_ns + HAND_OVER_NS)
            t->within++;
        else if (atomic_load(&t->board->stall_ns) >= HAND_OVER_NS)
            t->disturbed++;
    }
    return true;
}

uint32_t rig_leading_host(const struct rig *t, uint32_t first)
{
    for (uint32_t i = 0; i < RIG_HOSTS; i++)
        if (leads(t, (first + i) % RIG_HOSTS) > 0)
            return (first + i) % RIG_HOSTS;
    return 0;
}

bool rig_bring_back(struct rig *t, uint32_t host)
{
    uint64_t started = clock_now_ns();
    start_host(t, host);
    if (!rig_wait_well(t))
        return false;
    hist_add(&t->back, clock_now_ns() - started);
    return true;
}

bool rig_other_done(struct rig *t, uint64_t messages)
{
    uint64_t give_up = clock_now_ns() + PATIENCE;
    while (atomic_load(&t->board->client.done) < messages && clock_now_ns() < give_up)
        step(t);
    if (atomic_load(&t->board->client.done) >= messages)
        return true;
    printf("# the other client got %llu answers\n",
           (unsigned long long)atomic_load(&t->board->client.done));
    rig_print(t);
    return false;
}

/* Nothing under way, and all replicas of each group in the same state. */
static bool quiet(const struct rig *t)
{
    if (tram_client_outstanding(t->client) > 0)
        return false;
    for (uint32_t g = 0; g < RIG_GROUPS; g++)
        for (uint32_t h = 0; h < RIG_HOSTS; h++) {
            const struct notice *n = &t->board->host[h].group[g];
            const struct notice *first = &t->board->host[0].group[g];
            if (atomic_load(&n->count) != atomic_load(&first->count) ||
                atomic_load(&n->hash) != atomic_load(&first->hash))
                return false;
        }
    return true;
}

static bool drained(struct rig *t)
{
    uint64_t give_up = clock_now_ns() + PATIENCE;
    uint64_t since = 0;
    /* Quiet for a while: what a killed client left may still be on its way. */
    while (since == 0 || clock_now_ns() - since < 50 * MS) {
        tram_client_wait(t->client, MS);
        since = !quiet(t) ? 0 : since ? since : clock_now_ns();
        if (clock_now_ns() > give_up) {
            printf("# does not come to rest:\n");
            rig_print(t);
            return false;
        }
    }
    return true;
}

static bool check_traces(const struct rig *t)
{
    struct amcast *a = amcast_open();
    struct load_report report = {0};
    struct amcast_summary s;
    struct err e = {""};
    int rc = load_dir(a, t->traces, NULL, NULL, &report, &e);
    bool good = rc == 0 && amcast_verify(a, true);
    const struct amcast_violation *v;
    for (uint32_t i = 0; (v = amcast_violation(a, i)) != NULL; i++) {
        printf("# VIOLATION of %s: %s\n", amcast_property_names[v->property], v->text);
        for (uint32_t k = 0; k < v->evidence_count; k++)
            printf("#     %s:%u: %s\n", amcast_file_name(a, v->evidence[k].place.file),
                   v->evidence[k].place.line, v->evidence[k].text);
    }
    amcast_summarise(a, &s);
    if (rc != 0)
        printf("# traces: %s\n", e.text);
    printf("# checked: %llu casts, %llu deliveries, %llu done, %u lives of %u replicas\n",
           (unsigned long long)s.casts, (unsigned long long)s.deliveries,
           (unsigned long long)s.dones, s.lives, s.replicas);
    /* A check of nothing shows nothing. */
    good &= s.casts >= t->sent && s.dones >= t->done && s.replicas == RIG_GROUPS * RIG_HOSTS;
    amcast_close(a);
    return good;
}

static void print_hist(const char *what, const struct hist *h)
{
    if (hist_count(h) > 0)
        printf("# %s: median %.2f, p90 %.2f, max %.2f ms (%llu)\n", what,
               (double)hist_quantile(h, 0.5) / 1e6, (double)hist_quantile(h, 0.9) / 1e6,
               (double)hist_max(h) / 1e6, (unsigned long long)hist_count(h));
}

static void print_within(const struct rig *t)
{
    unsigned faults = (unsigned)hist_count(&t->notice);
    if (faults == 0)
        return;
    print_hist("of that, until it was noticed", &t->notice);
    printf("# within that and %llu ms: %u of %u; of the others %u while a host did not run for as "
           "long\n",
           (unsigned long long)(HAND_OVER_NS / MS), t->within, faults, t->disturbed);
}

static bool make_cluster(struct rig *t)
{
    struct err e = {""};
    struct tram_error error = {""};
    struct cluster *c;
    struct cluster_plan plan = {.name = "kill",
                                .protocol = t->opt.protocol,
                                .transport = t->opt.transport,
                                .groups = RIG_GROUPS,
                                .replicas = 3,
                                .hosts = RIG_HOSTS};
    snprintf(t->dir, sizeof(t->dir), "/dev/shm/tram-test-XXXXXX");
    if (mkdtemp(t->dir) == NULL || cluster_make(&plan, &c, &e) != 0)
        return false;
    snprintf(t->file, sizeof(t->file), "%s/cluster.yaml", t->dir);
    snprintf(t->traces, sizeof(t->traces), "%s/traces", t->dir);
    snprintf(t->log, sizeof(t->log), "%s/log", t->dir);
    snprintf(c->runtime_dir, sizeof(c->runtime_dir), "%s", t->dir);
    c->wait = t->opt.wait;
    /* For machines that are simulated, processors and all. */
    const char *slow = getenv("TRAM_TEST_SUSPECT_MS");
    if (slow) {
        c->suspect_ms = (uint32_t)atoi(slow);
        c->heartbeat_ms = c->suspect_ms / 20;
        c->detach_ms = c->suspect_ms;
    }
    for (uint32_t h = 0; h < RIG_HOSTS; h++)
        if (t->opt.address[h])
            snprintf(c->host[h].address, sizeof(c->host[h].address), "%s", t->opt.address[h]);
        else if (t->opt.transport != CLUSTER_SHM)
            c->host[h].port = far_fixture_port();
    bool good = cluster_fixture_write(c, t->file, &e);
    cluster_free(c);
    if (!good || tram_cluster_load(t->file, &t->cluster, &error) != 0) {
        printf("# cluster: %s%s\n", e.text, error.text);
        return false;
    }
    /* The test's own client is not to clutter its output. */
    const struct tram_log log = api_log_stderr(getenv("RIG_SAY") ? TRAM_LOG_INFO : TRAM_LOG_ERROR);
    tram_cluster_log(t->cluster, &log);
    return true;
}

static bool begin(struct rig *t)
{
    struct tram_error error = {""};
    struct tram_client_options o = {
        .trace_dir = t->traces, .reply = on_reply, .done = on_done, .ctx = t};
    memset(t->board, 0, sizeof(*t->board));
    hist_init(&t->gaps);
    hist_init(&t->group_gaps);
    hist_init(&t->notice);
    hist_init(&t->back);
    if (!make_cluster(t))
        return false;
    for (uint32_t h = 0; h < RIG_HOSTS; h++)
        start_host(t, h);
    /* Over a network it is a host that lets us in, and a slow machine takes its time to start one. */
    uint64_t give_up = clock_now_ns() + PATIENCE;
    int rc;
    do
        rc = tram_client_open(t->cluster, &o, &t->client, &error);
    while (rc == TRAM_TIMEOUT && clock_now_ns() < give_up);
    if (rc != 0) {
        printf("# client: %s\n", error.text);
        return false;
    }
    t->moved_ns = t->cast_ns = clock_now_ns();
    return start_killer(t) && rig_wait_well(t);
}

/* What the processes said. No one of us ever says that of another: it would be a mistake of ours. */
static bool log_is_right(const struct rig *t, bool show)
{
    char line[512];
    bool right = true;
    FILE *f = fopen(t->log, "r");
    while (f && fgets(line, sizeof(line), f)) {
        bool wrong = strstr(line, "what no one of us sends") != NULL;
        if (show || wrong)
            printf("# said: %s", line);
        right &= !wrong;
    }
    if (f)
        fclose(f);
    return right;
}

static bool end(struct rig *t, bool good)
{
    char command[128];
    tram_client_close(t->client);
    if (t->killer > 0) {
        close(t->killer_fd);
        waitpid(t->killer, NULL, 0);
    }
    if (t->other > 0) {
        kill(t->other, SIGKILL);
        waitpid(t->other, NULL, 0);
    }
    for (uint32_t h = 0; h < RIG_HOSTS; h++) {
        int status = 0;
        atomic_store(&t->board->host[h].stop, 1);
        if (t->pid[h] <= 0)
            continue;
        if (!good)
            kill(t->pid[h], SIGKILL);
        waitpid(t->pid[h], &status, 0);
        good &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    tram_cluster_free(t->cluster);
    if (t->dir[0]) {
        good &= check_traces(t);
        good &= log_is_right(t, !good);
        snprintf(command, sizeof(command), "rm -rf '%s'", t->dir);
        if (good || getenv("RIG_KEEP") == NULL)
            good &= system(command) == 0;
    }
    return good;
}

/* ---- campaigns ---- */

bool rig_kill_hosts(struct rig *t, uint32_t kills)
{
    for (uint32_t i = 0; i < kills; i++) {
        rig_run_for(t, 2 * MS + rng_below(&t->rng, 3 * MS));
        uint32_t victim = rig_leading_host(t, (uint32_t)rng_below(&t->rng, RIG_HOSTS));
        rig_fault_begins(t);
        if (!rig_kill(t, t->pid[victim]))
            return false;
        while (atomic_load(&t->board->death_ns) == 0)
            step(t);
        if (!rig_fault_is_over(t, atomic_load(&t->board->death_ns)))
            return false;
        waitpid(t->pid[victim], NULL, 0);
        if (!rig_bring_back(t, victim))
            return false;
    }
    return true;
}

bool rig_stop_hosts(struct rig *t, uint32_t stops)
{
    for (uint32_t i = 0; i < stops; i++) {
        uint32_t victim = rig_leading_host(t, i);
        rig_fault_begins(t);
        kill(t->pid[victim], SIGSTOP);
        rig_run_for(t, 100 * MS + rng_below(&t->rng, 200 * MS));
        kill(t->pid[victim], SIGCONT);
        uint64_t continued = clock_now_ns();
        if (!rig_fault_is_over(t, 0) || !rig_wait_well(t))
            return false;
        hist_add(&t->back, clock_now_ns() - continued);
        rig_run_for(t, 10 * MS);
    }
    return true;
}

int rig_wait_for(struct rig *t, pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0)
        step(t);
    return status;
}

bool rig_other_ends(struct rig *t)
{
    atomic_store(&t->board->client.stop, 1);
    int status = rig_wait_for(t, t->other);
    t->other = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool board_make(struct rig *t)
{
    int fd = memfd_create("board", 0);
    bool good = fd >= 0 && ftruncate(fd, sizeof(struct board)) == 0 && dup2(fd, RIG_BOARD_FD) >= 0;
    if (fd >= 0)
        close(fd);
    t->board = good ? rig_board_map() : NULL;
    return t->board != NULL;
}

static bool campaign(const struct rig_campaign *c, const struct rig_options *o)
{
    struct rig *t = calloc(1, sizeof(*t));
    ssize_t len = t ? readlink("/proc/self/exe", t->self, sizeof(t->self) - 1) : -1;
    if (len < 0 || !board_make(t)) {
        printf("# no memory for the test\n");
        free(t);
        return false;
    }
    t->opt = *o;
    rng_init(&t->rng, clock_now_ns());
    bool good = (!c->prepare || c->prepare()) && begin(t);
    good = good && c->run(t, c->times);
    good = good && drained(t);
    if (rig_failed(t))
        rig_print(t);
    good &= !rig_failed(t);
    print_hist("time in which no message at all was done", &t->gaps);
    print_hist("time without an answer of the group that waited longest", &t->group_gaps);
    print_within(t);
    print_hist(c->back, &t->back);
    good = end(t, good);
    munmap(t->board, sizeof(*t->board));
    free(t);
    return good;
}

int rig_campaigns(const char *test, const struct rig_campaign *all, uint32_t count,
                  const struct rig_options *o)
{
    bool good = true;
    for (uint32_t i = 0; i < count; i++) {
        const char *skip = all[i].skip;
        uint64_t started = clock_now_ns();
        bool ok = skip || campaign(&all[i], o);
        if (!skip)
            printf("# %.1f s\n", (double)(clock_now_ns() - started) / 1e9);
        printf("%s %u - %s__%s (%u times)%s%s\n", ok ? "ok" : "not ok", i + 1, test, all[i].name,
               all[i].times, skip ? " # SKIP " : "", skip ? skip : "");
        fflush(stdout);
        good &= ok;
    }
    printf("1..%u\n", count);
    return good ? 0 : 1;
}

bool rig_protocol(const char *name, enum cluster_protocol *out)
{
    for (unsigned i = 0; cluster_protocol_names[i]; i++)
        if (strcmp(cluster_protocol_names[i], name) == 0) {
            *out = (enum cluster_protocol)i;
            return true;
        }
    return false;
}
