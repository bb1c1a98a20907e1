/* The cluster as the test has it: made, started, killed, waited for, checked. */
#include "power.h"

#include "../cluster_fixture.h"
#include "../far_fixture.h"
#include "api/api.h"
#include "api/disk.h"
#include "base/clock.h"
#include "base/hash.h"
#include "check/load.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOOK_EVERY_US = 300,
    SERVED = 10, /* messages of each client, before the cluster counts as serving */
};

#define SLOW_NS (3000 * MS) /* for a wait that is worth a look */
#define QUIET_NS (50 * MS)  /* what a killed client left may still be on its way */

/* ---- making it ---- */

/* Small, so that a run has many segments, snapshots and laps of rings. */
static void set_sizes(struct cluster *c)
{
    static const struct disk_options disk = {.bytes = 4 << 20,
                                             .segment_bytes = 512 << 10,
                                             .batch_bytes = 128 << 10,
                                             .buffer_bytes = 1 << 20};
    c->clients =
        512; /* over tcp a place is kept for who may come back, for longer than many cuts */
    c->payload_max = 256;
    c->log_bytes = 64 << 10;
    c->batch_bytes = 8 << 10;
    c->window_bytes = 32 << 10;
    c->source_bytes = c->edge_bytes = 16 << 10;
    c->wait = CLUSTER_WAIT_SLEEP; /* there are more processes than cores */
    api_disk_use_sizes(&disk);
}

static bool make_file(struct power *t)
{
    static const uint16_t chain[POWER_GROUPS] = {UINT16_MAX, 0, 1};
    unsigned char id[CLUSTER_ID_BYTES];
    struct err e = {""};
    struct cluster *c;
    for (uint32_t i = 0; i < sizeof(id); i++)
        id[i] = (unsigned char)rng_range(&t->rng, 1, 255);
    struct cluster_plan plan = {.name = "power",
                                .protocol = t->opt.protocol,
                                .transport = t->opt.transport,
                                .groups = POWER_GROUPS,
                                .replicas = POWER_HOSTS,
                                .hosts = POWER_HOSTS,
                                .parent = chain,
                                .id = id};
    if (cluster_make(&plan, &c, &e) != 0) {
        printf("# cluster: %s\n", e.text);
        return false;
    }
    set_sizes(c);
    api_disk_use_shadow(!t->opt.plain);
    snprintf(c->runtime_dir, sizeof(c->runtime_dir), "%s", t->dir);
    for (uint32_t h = 0; h < POWER_HOSTS && t->opt.transport != CLUSTER_SHM; h++)
        c->host[h].port = far_fixture_port();
    bool good = cluster_fixture_write(c, t->file, &e);
    if (!good)
        printf("# cluster: %s\n", e.text);
    cluster_free(c);
    return good;
}

bool power_open(struct power *t)
{
    struct tram_error error = {""};
    void *board = mmap(NULL, sizeof(struct power_board), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(t->dir, sizeof(t->dir), "/dev/shm/power-test-XXXXXX");
    if (board == MAP_FAILED || mkdtemp(t->dir) == NULL) {
        printf("# no memory for the test\n");
        t->dir[0] = '\0';
        return false;
    }
    t->board = board;
    t->sound = true;
    snprintf(t->file, sizeof(t->file), "%s/cluster.yaml", t->dir);
    snprintf(t->traces, sizeof(t->traces), "%s/traces", t->dir);
    snprintf(t->log, sizeof(t->log), "%s/log", t->dir);
    if (!make_file(t))
        return false;
    if (tram_cluster_load(t->file, &t->cluster, &error) != 0) {
        printf("# cluster: %s\n", error.text);
        return false;
    }
    for (uint32_t h = 0; h < POWER_HOSTS; h++)
        if (!power_format(t, h, 0))
            return false;
    return true;
}

/* The end of what the processes said. */
static void print_log(const struct power *t)
{
    char command[160];
    snprintf(command, sizeof(command), "tail -n 60 '%s' | sed 's/^/# said: /'", t->log);
    fflush(stdout);
    if (system(command) != 0)
        printf("# nothing was said\n");
}

bool power_close(struct power *t, bool good)
{
    char command[128];
    if (!good && getenv("POWER_STAY"))
        pause();
    power_kill_clients(t);
    power_kill_hosts(t, POWER_ALL);
    tram_cluster_free(t->cluster);
    if (t->dir[0] == '\0')
        return good;
    if (!good)
        print_log(t);
    snprintf(command, sizeof(command), "rm -rf '%s'", t->dir);
    if (!good && (!t->opt.planted || getenv("POWER_KEEP")))
        printf("# its files are in %s\n", t->dir);
    else
        good &= system(command) == 0;
    munmap(t->board, sizeof(*t->board));
    return good;
}

/* ---- processes ---- */

/* In a new process: what it has to say goes to a file, unless somebody wants to watch. */
static void redirect(const struct power *t)
{
    int fd = getenv("POWER_SAY") ? 2 : open(t->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (dup2(fd, 2) != 2)
        _exit(4);
}

void power_start_host(struct power *t, uint32_t host)
{
    fflush(stdout);
    atomic_store(&t->board->host[host].up, 0);
    t->starts[host]++;
    t->host[host] = fork();
    if (t->host[host] == 0) {
        redirect(t);
        _exit(power_host_main(t, host));
    }
}

static uint32_t hosts_up(const struct power *t)
{
    uint32_t up = 0;
    for (uint32_t h = 0; h < POWER_HOSTS; h++)
        up += atomic_load(&t->board->host[h].up) != 0;
    return up;
}

void power_start_client(struct power *t, uint32_t client)
{
    t->comes[client]++;
    t->stays[client] = hosts_up(t) == POWER_HOSTS;
    fflush(stdout);
    atomic_store(&t->board->client[client].open, 0);
    atomic_store(&t->board->client[client].served, 0);
    atomic_store(&t->board->client[client].stop, 0);
    t->client[client] = fork();
    if (t->client[client] == 0) {
        redirect(t);
        _exit(power_client_main(t, client));
    }
}

void power_start_clients(struct power *t)
{
    for (uint32_t c = 0; c < POWER_CLIENTS; c++)
        if (t->client[c] == 0)
            power_start_client(t, c);
}

static void wait_killed(pid_t *pid)
{
    if (*pid > 0)
        waitpid(*pid, NULL, 0);
    *pid = 0;
}

void power_kill_hosts(struct power *t, uint32_t hosts)
{
    for (uint32_t h = 0; h < POWER_HOSTS; h++)
        if (hosts >> h & 1 && t->host[h] > 0)
            kill(t->host[h], SIGKILL);
    for (uint32_t h = 0; h < POWER_HOSTS; h++)
        if (hosts >> h & 1) {
            wait_killed(&t->host[h]);
            atomic_store(&t->board->host[h].up, 0);
        }
}

void power_kill_clients(struct power *t)
{
    for (uint32_t c = 0; c < POWER_CLIENTS; c++) {
        if (t->client[c] > 0)
            kill(t->client[c], SIGKILL);
        wait_killed(&t->client[c]);
    }
}

static bool ended_well(const char *what, uint32_t n, pid_t *pid)
{
    int status = 0;
    if (waitpid(*pid, &status, 0) != *pid)
        return false;
    *pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    printf("# %s %u ended with status %d\n", what, n + 1, status);
    return false;
}

bool power_stop_host(struct power *t, uint32_t host)
{
    kill(t->host[host], SIGTERM);
    bool good = ended_well("host", host, &t->host[host]);
    atomic_store(&t->board->host[host].up, 0);
    return good;
}

bool power_stop_hosts(struct power *t)
{
    bool good = true;
    for (uint32_t h = 0; h < POWER_HOSTS; h++)
        good &= power_stop_host(t, h);
    return good;
}

bool power_stop_clients(struct power *t)
{
    bool good = true;
    for (uint32_t c = 0; c < POWER_CLIENTS; c++)
        atomic_store(&t->board->client[c].stop, 1);
    for (uint32_t c = 0; c < POWER_CLIENTS; c++)
        good &= t->client[c] == 0 || ended_well("client", c, &t->client[c]);
    return good;
}

static bool has_ended(pid_t *pid, int *status)
{
    if (*pid <= 0 || waitpid(*pid, status, WNOHANG) != *pid)
        return false;
    *pid = 0;
    return true;
}

static bool host_has_ended(struct power *t, uint32_t host)
{
    int status = 0;
    if (!has_ended(&t->host[host], &status))
        return false;
    printf("# host %u has ended by itself, with status %d\n", host + 1, status);
    return true;
}

/* Who came before all hosts were there may turn out to be in a life that another had, and comes again. So does the client of a
 * host that has lost its disk, and no longer knows whom it gave its places. */
static bool client_has_ended(struct power *t, uint32_t client)
{
    int status = 0;
    if (!has_ended(&t->client[client], &status))
        return false;
    if (t->stays[client] || !WIFEXITED(status) || WEXITSTATUS(status) != POWER_REFUSED) {
        printf("# client %u has ended by itself, with status %d\n", client + 1, status);
        return true;
    }
    t->refused++;
    power_start_client(t, client);
    return false;
}

/* All is as it should be; and some time has passed. */
static bool step(struct power *t)
{
    usleep(LOOK_EVERY_US);
    bool bad = false;
    for (uint32_t c = 0; c < POWER_CLIENTS; c++)
        bad |= client_has_ended(t, c);
    for (uint32_t h = 0; h < POWER_HOSTS; h++) {
        bad |= host_has_ended(t, h);
        if (atomic_load(&t->board->host[h].wrong) != 0) {
            printf("# host %u was given messages out of turn\n", h + 1);
            bad = true;
        }
    }
    return !bad;
}

bool power_run_for(struct power *t, uint64_t ns)
{
    uint64_t until = clock_now_ns() + ns;
    while (clock_now_ns() < until)
        if (!step(t))
            return false;
    return true;
}

/* ---- traces of clients ---- */

uint64_t power_owner(uint32_t client, uint32_t comes)
{
    return (uint64_t)(client + 1) << 32 | comes;
}

void power_trace_folder(const struct power *t, uint32_t client, uint32_t comes, char *out,
                        size_t bytes)
{
    snprintf(out, bytes, "%s/client-%u-%u", t->dir, client, comes);
}

static uint64_t life_key(uint32_t place, uint32_t life)
{
    return ((uint64_t)place << 32 | life) + 1;
}

/* Its entry, or the free one that it gets. */
static struct power_life *life_entry(struct power_board *b, uint64_t key)
{
    for (uint64_t i = hash_mix(key, 0), end = i + POWER_LIVES; i < end; i++) {
        struct power_life *l = &b->life[i % POWER_LIVES];
        uint64_t has = atomic_load(&l->key);
        if (has == 0 && atomic_compare_exchange_strong(&l->key, &has, key))
            return l;
        if (has == key)
            return l;
    }
    return NULL;
}

bool power_note_owner(struct power_board *b, uint32_t place, uint32_t life, uint64_t owner)
{
    struct power_life *l = life_entry(b, life_key(place, life));
    uint64_t had = 0;
    return l != NULL && (atomic_compare_exchange_strong(&l->owner, &had, owner) || had == owner);
}

/* The trace in a folder, and whose it is; false: there is none. */
static bool find_trace(const char *folder, uint32_t *place, uint32_t *life)
{
    const struct dirent *entry;
    bool found = false;
    DIR *d = opendir(folder);
    while (d && !found && (entry = readdir(d)) != NULL)
        found = sscanf(entry->d_name, "client-%u-%u.jsonl", place, life) == 2;
    if (d)
        closedir(d);
    return found;
}

static bool settle_trace(struct power *t, uint32_t client, uint32_t comes)
{
    char folder[128], from[256], to[256];
    uint32_t place, life;
    power_trace_folder(t, client, comes, folder, sizeof(folder));
    if (!find_trace(folder, &place, &life))
        return true;
    const struct power_life *l = life_entry(t->board, life_key(place, life));
    if (l == NULL || atomic_load(&l->owner) != power_owner(client, comes))
        return l != NULL;
    snprintf(from, sizeof(from), "%s/client-%u-%u.jsonl", folder, place, life);
    snprintf(to, sizeof(to), "%s/client-%u-%u.jsonl", t->traces, place, life);
    return rename(from, to) == 0 && rmdir(folder) == 0;
}

/* What nobody has delivered yet may still be. */
static bool settle_traces(struct power *t)
{
    bool good = true;
    for (uint32_t c = 0; c < POWER_CLIENTS; c++)
        for (uint32_t i = 1; i <= t->comes[c]; i++)
            good &= settle_trace(t, c, i);
    if (!good)
        printf("# traces of clients cannot be moved\n");
    return good;
}

/* ---- waiting ---- */

static void print_replicas(const struct power *t)
{
    for (uint32_t g = 0; g < POWER_GROUPS; g++)
        for (uint32_t h = 0; h < POWER_HOSTS; h++)
            notice_print(&t->board->host[h].group[g], g, h, atomic_load(&t->board->host[h].up));
    for (uint32_t c = 0; c < POWER_CLIENTS; c++)
        printf("# client %u: %s, %llu done\n", c + 1,
               t->client[c] <= 0                             ? "down"
               : atomic_load(&t->board->client[c].open) != 0 ? "open"
                                                             : "not open",
               (unsigned long long)atomic_load(&t->board->client[c].done));
}

static bool wait_until(struct power *t, bool (*is_so)(const struct power *), uint64_t lasting_ns,
                       const char *what)
{
    uint64_t began = clock_now_ns(), give_up = began + POWER_PATIENCE, since = 0;
    bool told = false;
    for (;;) {
        uint64_t now = clock_now_ns();
        if (now - began > SLOW_NS && !told) {
            printf("# for %.0f s now %s\n", (double)SLOW_NS / 1e9, what);
            print_replicas(t);
            fflush(stdout);
            told = true;
        }
        since = !is_so(t) ? 0 : since ? since : now;
        if (since != 0 && now - since >= lasting_ns)
            return true;
        bool good = step(t);
        if (good && now < give_up)
            continue;
        if (good)
            printf("# %s\n", what);
        print_replicas(t);
        return false;
    }
}

void power_mark(struct power *t)
{
    for (uint32_t c = 0; c < POWER_CLIENTS; c++) {
        t->done_mark[c] = atomic_load(&t->board->client[c].done);
        for (uint32_t g = 0; g < POWER_GROUPS; g++)
            t->answered_mark[c][g] = atomic_load(&t->board->client[c].answered[g]);
    }
}

static bool is_served(const struct power *t)
{
    for (uint32_t c = 0; c < POWER_CLIENTS; c++) {
        if (atomic_load(&t->board->client[c].done) < t->done_mark[c] + SERVED)
            return false;
        for (uint32_t g = 0; g < POWER_GROUPS; g++)
            if (atomic_load(&t->board->client[c].answered[g]) == t->answered_mark[c][g])
                return false;
    }
    return true;
}

bool power_wait_served(struct power *t)
{
    return wait_until(t, is_served, 0, "clients are not served:");
}

static bool is_led(const struct power *t, uint32_t group)
{
    uint32_t led = 0;
    for (uint32_t h = 0; h < POWER_HOSTS; h++) {
        const struct notice *r = &t->board->host[h].group[group];
        uint64_t role = atomic_load(&r->role);
        if (atomic_load(&r->behind) || role == TRAM_JOINING)
            return false;
        led += role == TRAM_LEADER && atomic_load(&r->attached) == POWER_HOSTS;
    }
    return led == 1;
}

static bool is_well(const struct power *t)
{
    for (uint32_t h = 0; h < POWER_HOSTS; h++)
        if (atomic_load(&t->board->host[h].up) == 0)
            return false;
    for (uint32_t g = 0; g < POWER_GROUPS; g++)
        if (!is_led(t, g))
            return false;
    return true;
}

bool power_wait_well(struct power *t)
{
    return wait_until(t, is_well, 0, "hosts and groups do not get well again:");
}

static bool is_quiet(const struct power *t)
{
    for (uint32_t g = 0; g < POWER_GROUPS; g++)
        for (uint32_t h = 1; h < POWER_HOSTS; h++) {
            const struct notice *r = &t->board->host[h].group[g];
            const struct notice *first = &t->board->host[0].group[g];
            if (atomic_load(&r->count) != atomic_load(&first->count) ||
                atomic_load(&r->hash) != atomic_load(&first->hash))
                return false;
        }
    return is_well(t);
}

bool power_wait_quiet(struct power *t)
{
    return wait_until(t, is_quiet, QUIET_NS, "replicas do not come to rest in the same state:");
}

bool power_come_to_rest(struct power *t)
{
    return power_wait_served(t) && power_wait_well(t) && power_stop_clients(t) &&
           power_wait_quiet(t);
}

/* ---- checking ---- */

static void print_violations(const struct amcast *a)
{
    const struct amcast_violation *v;
    for (uint32_t i = 0; (v = amcast_violation(a, i)) != NULL; i++) {
        printf("# VIOLATION of %s: %s\n", amcast_property_names[v->property], v->text);
        for (uint32_t k = 0; k < v->evidence_count; k++)
            printf("#     %s:%u: %s\n", amcast_file_name(a, v->evidence[k].place.file),
                   v->evidence[k].place.line, v->evidence[k].text);
    }
}

static uint64_t done_by_clients(const struct power *t)
{
    uint64_t done = 0;
    for (uint32_t c = 0; c < POWER_CLIENTS; c++)
        done += atomic_load(&t->board->client[c].done);
    return done;
}

bool power_check_traces(struct power *t, bool at_end)
{
    if (!settle_traces(t))
        return false;
    struct amcast *a = amcast_open();
    struct load_report report = {0};
    struct amcast_summary s;
    struct err e = {""};
    int rc = load_dir(a, t->traces, NULL, NULL, &report, &e);
    bool good = rc == 0 && amcast_verify(a, at_end);
    print_violations(a);
    amcast_summarise(a, &s);
    if (rc != 0)
        printf("# traces: %s\n", e.text);
    printf("# checked: %llu casts, %llu deliveries, %llu done, %u lives of %u replicas\n",
           (unsigned long long)s.casts, (unsigned long long)s.deliveries,
           (unsigned long long)s.dones, s.lives, s.replicas);
    /* A check of nothing shows nothing. */
    if (s.dones < done_by_clients(t) || s.replicas != POWER_GROUPS * POWER_HOSTS ||
        report.gaps > 0) {
        printf(
            "# clients have had %llu done: some were answered what another process in their life "
            "had asked, or traces are missing\n",
            (unsigned long long)done_by_clients(t));
        good = false;
    }
    amcast_close(a);
    return good;
}
