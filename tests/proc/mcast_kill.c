/* Three host processes that carry eight groups, in a breadth tree or under the genuine protocol, and clients
 * under load, all through the public API: leading hosts are killed with SIGKILL and started again, stopped
 * and continued, and restarted in turn, and clients are killed while they write. What was delivered is traced
 * and checked at the end of each: nothing lost, nothing twice, one order. How long a client saw no
 * progress and how long a host took to be back is printed.
 *
 *      mcast_kill tree|genuine [KILLS [auto|spin|sleep [shm|tcp]]]
 *                                                            the test, with 30 kills by default: prints TAP
 *      mcast_kill host|client ...                            one process of it
 */
#include "../ofi_fixture.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/hist.h"
#include "base/rng.h"
#include "check/load.h"
#include "conf/cluster.h"
#include "tram.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    GROUPS = 8,
    HOSTS = 3,
    PAYLOAD = 64,
    OUTSTANDING = 64,
    CAST_EVERY_NS = 200000, /* keeps traces small, and is short beside any gap of interest */
    BURST_MAX = 7,          /* so that a kill finds messages in all stages of their way */
    LOOK_EVERY_NS = 100000,
    WRITE_US = 300, /* about what a client takes to write as much as it may to all groups */
    BOARD_FD = 100,
};

#define MS UINT64_C(1000000)
#define SECONDS UINT64_C(1000000000)
#define PATIENCE (20 * SECONDS)

/* What a host shows of one of its replicas. */
struct notice {
    _Atomic uint64_t role;
    _Atomic uint64_t attached;
    _Atomic uint64_t behind;
    _Atomic uint64_t terms;
    _Atomic uint64_t count; /* messages in its state */
    _Atomic uint64_t hash;  /* of all of them, in order */
    _Atomic uint64_t ballot, applied, commit, tail;
};

/* What the processes show the test, in memory that all map. */
struct board {
    struct {
        _Alignas(64) _Atomic uint64_t life; /* 0: not up; set by the host, cleared by the test */
        _Atomic uint64_t wrong;             /* messages out of turn */
        _Atomic uint64_t broken;
        atomic_int stop;
        struct notice group[GROUPS];
    } host[HOSTS];
    struct {
        _Alignas(64) _Atomic uint64_t done; /* messages, in this life */
        _Atomic uint64_t life;              /* and which it is, from 1 */
        _Atomic uint64_t place;
        atomic_int stop;
        atomic_int die; /* in the middle of a write, by its own hand */
    } client;
};

static struct board *board_map(void)
{
    void *at = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, BOARD_FD, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* ---- a host ---- */

struct state {
    uint64_t count, hash;
};

struct machine {
    struct state group[GROUPS];
    _Atomic uint64_t *wrong;
};

static uint32_t machine_deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t max)
{
    struct machine *m = ctx;
    struct state *s = &m->group[d->group];
    if (d->number != s->count || max < sizeof(s->hash))
        atomic_fetch_add(m->wrong, 1);
    s->count++;
    s->hash = hash_mix(s->hash, hash_mix(d->client, d->life) ^ d->seq);
    s->hash = hash_bytes(s->hash, d->body, d->bytes);
    memcpy(reply, &s->hash, sizeof(s->hash));
    return sizeof(s->hash);
}

static int machine_save(void *ctx, uint32_t group, void **data, size_t *bytes)
{
    const struct machine *m = ctx;
    *bytes = sizeof(struct state);
    *data = malloc(*bytes);
    if (*data == NULL)
        return -1;
    memcpy(*data, &m->group[group], *bytes);
    return 0;
}

static int machine_load(void *ctx, uint32_t group, const void *data, size_t bytes)
{
    struct machine *m = ctx;
    if (bytes != sizeof(struct state))
        return -1;
    memcpy(&m->group[group], data, bytes);
    return 0;
}

static void show(struct board *b, uint32_t rank, const struct tram_host *host,
                 const struct machine *m)
{
    struct tram_replica_stats s;
    for (uint32_t i = 0; tram_host_replica(host, i, &s) == 0; i++) {
        struct notice *n = &b->host[rank].group[s.group];
        atomic_store(&n->attached, s.attached);
        atomic_store(&n->behind, s.behind);
        atomic_store(&n->terms, s.terms);
        atomic_store(&n->hash, m->group[s.group].hash);
        atomic_store(&n->count, m->group[s.group].count);
        atomic_store(&n->ballot, s.ballot);
        atomic_store(&n->applied, s.applied);
        atomic_store(&n->commit, s.commit);
        atomic_store(&n->tail, s.tail);
        atomic_store(&n->role, s.role);
    }
}

static int host_main(const char *file, const char *traces, uint32_t rank)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct board *b = board_map();
    struct tram_cluster *cluster;
    struct tram_host *host;
    struct tram_error error = {""};
    if (b == NULL)
        return 3;
    struct machine m = {.wrong = &b->host[rank].wrong};
    if (tram_cluster_load(file, &cluster, &error) != 0) {
        fprintf(stderr, "# host %u: %s\n", rank, error.text);
        return 3;
    }
    struct tram_host_options o = {
        .name = tram_cluster_host_name(cluster, rank),
        .machine = {machine_deliver, machine_save, machine_load},
        .ctx = &m,
        .trace_dir = traces,
    };
    if (tram_host_open(cluster, &o, &host, &error) != 0) {
        fprintf(stderr, "# host %u: %s\n", rank, error.text);
        return 3;
    }
    int rc = 0;
    uint64_t shown = 0;
    while (rc >= 0 && !atomic_load_explicit(&b->host[rank].stop, memory_order_relaxed)) {
        rc = tram_host_step(host, &error);
        uint64_t now = clock_now_ns();
        if (now - shown > LOOK_EVERY_NS) {
            show(b, rank, host, &m);
            atomic_store(&b->host[rank].life, 1);
            shown = now;
        }
    }
    if (rc < 0) {
        fprintf(stderr, "# host %u: %s\n", rank, error.text);
        atomic_store(&b->host[rank].broken, 1);
    }
    tram_host_close(host);
    tram_cluster_free(cluster);
    return rc < 0 ? 3 : 0;
}

/* ---- casting ---- */

/* Mostly a few groups, often one, now and then all. */
static uint32_t draw_groups(struct rng *rng, uint16_t *list)
{
    uint64_t shape = rng_below(rng, 8);
    uint64_t bits = rng_u64(rng);
    uint32_t count = 0;
    for (uint16_t g = 0; g < GROUPS && shape > 2; g++)
        if (shape == 7 || (bits >> (3 * g) & 3) == 0)
            list[count++] = g;
    if (count == 0)
        list[count++] = (uint16_t)(bits % GROUPS);
    return count;
}

static void kill_self(int signal)
{
    (void)signal;
    kill(getpid(), SIGKILL);
}

/* Writes as much as it may to all groups, and is killed when it has come to some of them: by a timer, since
 * another process would hardly be in time. */
static int die_writing(struct tram_client *client, struct rng *rng)
{
    static unsigned char body[1024];
    uint16_t list[GROUPS];
    struct itimerval timer = {.it_value.tv_usec = (suseconds_t)rng_range(rng, 1, WRITE_US)};
    for (uint16_t g = 0; g < GROUPS; g++)
        list[g] = g;
    while (tram_client_outstanding(client) > 0)
        tram_client_wait(client, MS);
    while (tram_cast(client, list, GROUPS, body, sizeof(body), NULL, NULL) == 0)
        ;
    signal(SIGALRM, kill_self);
    if (setitimer(ITIMER_REAL, &timer, NULL) != 0)
        return 3;
    tram_client_flush(client);
    for (;;)
        pause();
}

/* As fast as it can, until it is killed or told to end. */
static int client_main(const char *file, const char *traces)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct board *b = board_map();
    struct tram_cluster *cluster;
    struct tram_client *client;
    struct tram_error error = {""};
    struct rng rng;
    struct tram_client_options o = {.trace_dir = traces};
    if (b == NULL || tram_cluster_load(file, &cluster, &error) != 0 ||
        tram_client_open(cluster, &o, &client, &error) != 0) {
        fprintf(stderr, "# client: %s\n", error.text);
        return 3;
    }
    rng_init(&rng, clock_now_ns());
    atomic_store(&b->client.place, tram_client_place(client));
    atomic_store(&b->client.life, tram_client_life(client) + 1);
    uint64_t give_up = 0;
    for (;;) {
        unsigned char body[PAYLOAD];
        uint16_t list[GROUPS];
        bool stop = atomic_load(&b->client.stop);
        int rc = 0;
        while (!stop && rc == 0) {
            memset(body, (int)rng_below(&rng, 256), sizeof(body));
            rc = tram_cast(client, list, draw_groups(&rng, list), body,
                           (uint32_t)rng_below(&rng, sizeof(body) + 1), NULL, &error);
        }
        if (rc != 0 && rc != TRAM_AGAIN) {
            fprintf(stderr, "# client: %s\n", error.text);
            return 3;
        }
        if (atomic_load(&b->client.die))
            return die_writing(client, &rng);
        atomic_fetch_add(&b->client.done, (uint64_t)tram_client_wait(client, MS));
        if (!stop)
            continue;
        give_up = give_up ? give_up : clock_now_ns() + PATIENCE;
        if (tram_client_outstanding(client) == 0 || clock_now_ns() > give_up)
            break;
    }
    uint32_t left = tram_client_outstanding(client);
    if (left > 0)
        fprintf(stderr, "# client: %u messages without an answer\n", left);
    tram_client_close(client);
    tram_cluster_free(cluster);
    return left > 0 ? 3 : 0;
}

/* ---- the test ---- */

struct test {
    char dir[64], file[96], traces[96];
    const char *self;
    enum cluster_protocol protocol;
    enum cluster_transport transport;
    enum cluster_wait wait;
    struct board *board;
    struct rng rng;
    pid_t pid[HOSTS];
    pid_t other; /* the client that is killed */
    pid_t killer;
    int killer_fd; /* takes the number of the process to be killed */
    struct tram_cluster *cluster;
    struct tram_client *client;
    uint64_t sent, done;
    uint64_t cast_ns;              /* when the last message was cast */
    uint64_t moved_ns;             /* when the last one was done */
    uint64_t reply_ns[GROUPS];     /* when a group last replied */
    uint64_t mark;                 /* ticket of the first message cast after the fault */
    bool answered[GROUPS];         /* to a message since the mark */
    uint64_t gap_ns, group_gap_ns; /* longest stretch without progress since the fault */
    struct hist gaps, group_gaps, back;
};

static void on_reply(void *ctx, uint64_t ticket, uint32_t group, const void *body, uint32_t bytes)
{
    struct test *t = ctx;
    uint64_t now = clock_now_ns();
    uint64_t gap = now - t->reply_ns[group];
    (void)body;
    (void)bytes;
    /* A group that has never answered before the fault has not waited because of it. */
    bool waited = t->reply_ns[group] != 0 && !t->answered[group];
    if (waited && gap > t->group_gap_ns)
        t->group_gap_ns = gap;
    t->answered[group] |= ticket >= t->mark;
    t->reply_ns[group] = now;
}

static void on_done(void *ctx, uint64_t ticket)
{
    struct test *t = ctx;
    uint64_t now = clock_now_ns();
    (void)ticket;
    t->gap_ns = now - t->moved_ns > t->gap_ns ? now - t->moved_ns : t->gap_ns;
    t->moved_ns = now;
    t->done++;
}

static void start_host(struct test *t, uint32_t rank)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", rank);
    fflush(stdout);
    atomic_store(&t->board->host[rank].life, 0);
    atomic_store(&t->board->host[rank].stop, 0);
    t->pid[rank] = fork();
    if (t->pid[rank] == 0) {
        execl(t->self, "mcast_kill", "host", t->file, t->traces, number, (char *)NULL);
        _exit(4);
    }
}

static void start_client(struct test *t)
{
    fflush(stdout);
    atomic_store(&t->board->client.life, 0);
    atomic_store(&t->board->client.done, 0);
    atomic_store(&t->board->client.stop, 0);
    atomic_store(&t->board->client.die, 0);
    t->other = fork();
    if (t->other == 0) {
        execl(t->self, "mcast_kill", "client", t->file, t->traces, (char *)NULL);
        _exit(4);
    }
}

/* A process that does the killing: were it the client that measures, it would find itself queued behind
 * the one that dies, on the core where the signal was sent. */
static bool start_killer(struct test *t)
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
            kill(victim, SIGKILL);
        _exit(0);
    }
    close(fds[0]);
    t->killer_fd = fds[1];
    return t->killer > 0;
}

static bool have_killed(const struct test *t, pid_t victim)
{
    return write(t->killer_fd, &victim, sizeof(victim)) == sizeof(victim);
}

static void cast_one(struct test *t)
{
    unsigned char body[PAYLOAD];
    uint16_t list[GROUPS];
    memset(body, (int)(t->sent & 0xff), sizeof(body));
    memcpy(body, &t->sent, sizeof(t->sent));
    if (tram_client_outstanding(t->client) < OUTSTANDING &&
        tram_cast(t->client, list, draw_groups(&t->rng, list), body, sizeof(body), NULL, NULL) == 0)
        t->sent++;
}

/* Keeps the load up and notes progress. */
static void step(struct test *t)
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

static void run_for(struct test *t, uint64_t ns)
{
    uint64_t until = clock_now_ns() + ns;
    while (clock_now_ns() < until)
        step(t);
}

static bool failed(const struct test *t)
{
    for (uint32_t h = 0; h < HOSTS; h++)
        if (atomic_load(&t->board->host[h].wrong) || atomic_load(&t->board->host[h].broken))
            return true;
    return false;
}

static uint32_t leads(const struct test *t, uint32_t h)
{
    uint32_t count = 0;
    for (uint32_t g = 0; g < GROUPS; g++)
        count += atomic_load(&t->board->host[h].group[g].role) == TRAM_LEADER;
    return count;
}

/* Every host is up, and every group led with all its replicas attached. */
static bool all_well(const struct test *t)
{
    for (uint32_t h = 0; h < HOSTS; h++)
        if (atomic_load(&t->board->host[h].life) == 0)
            return false;
    for (uint32_t g = 0; g < GROUPS; g++) {
        uint32_t led = 0;
        for (uint32_t h = 0; h < HOSTS; h++) {
            const struct notice *n = &t->board->host[h].group[g];
            uint64_t role = atomic_load(&n->role);
            if (atomic_load(&n->behind) || role == TRAM_JOINING)
                return false;
            led += role == TRAM_LEADER && atomic_load(&n->attached) == HOSTS;
        }
        if (led != 1)
            return false;
    }
    return true;
}

static void print_board(const struct test *t)
{
    static const char *const roles[] = {"joining", "follower", "candidate", "sync", "leader"};
    for (uint32_t g = 0; g < GROUPS; g++)
        for (uint32_t h = 0; h < HOSTS; h++) {
            const struct notice *n = &t->board->host[h].group[g];
            printf("# g%u h%u%s: %s, ballot %llu, applied %llu, commit %llu, tail %llu, attached "
                   "%llu, %llu messages%s\n",
                   g + 1, h + 1, atomic_load(&t->board->host[h].life) ? "" : " (down)",
                   roles[atomic_load(&n->role) % 5], (unsigned long long)atomic_load(&n->ballot),
                   (unsigned long long)atomic_load(&n->applied),
                   (unsigned long long)atomic_load(&n->commit),
                   (unsigned long long)atomic_load(&n->tail),
                   (unsigned long long)atomic_load(&n->attached),
                   (unsigned long long)atomic_load(&n->count),
                   atomic_load(&n->behind) ? ", behind" : "");
        }
    printf("# client: %llu sent, %llu done\n", (unsigned long long)t->sent,
           (unsigned long long)t->done);
}

/* Steps the client until all is well; false, with what is wrong, after a long time. */
static bool wait_well(struct test *t)
{
    uint64_t give_up = clock_now_ns() + PATIENCE;
    while (!all_well(t) && !failed(t) && clock_now_ns() < give_up)
        step(t);
    if (all_well(t) && !failed(t))
        return true;
    printf("# hosts and groups do not get well again:\n");
    print_board(t);
    return false;
}

/* From now on gaps are noted until every group has answered a message that was cast since. */
static void fault_begins(struct test *t)
{
    t->mark = t->sent;
    t->gap_ns = t->group_gap_ns = 0;
    memset(t->answered, 0, sizeof(t->answered));
}

static bool fault_is_over(struct test *t)
{
    uint64_t give_up = clock_now_ns() + PATIENCE;
    for (;;) {
        bool all = true;
        for (uint32_t g = 0; g < GROUPS; g++)
            all &= t->answered[g];
        if (all)
            break;
        if (clock_now_ns() > give_up || failed(t)) {
            printf("# some group does not answer:\n");
            print_board(t);
            return false;
        }
        step(t);
    }
    hist_add(&t->gaps, t->gap_ns);
    hist_add(&t->group_gaps, t->group_gap_ns);
    return true;
}

/* A host that leads something, in turn so that each has been it. */
static uint32_t leading_host(const struct test *t, uint32_t turn)
{
    for (uint32_t i = 0; i < HOSTS; i++)
        if (leads(t, (turn + i) % HOSTS) > 0)
            return (turn + i) % HOSTS;
    return 0;
}

static bool bring_back(struct test *t, uint32_t host)
{
    uint64_t started = clock_now_ns();
    start_host(t, host);
    if (!wait_well(t))
        return false;
    hist_add(&t->back, clock_now_ns() - started);
    return true;
}

static bool kill_hosts(struct test *t, uint32_t kills)
{
    for (uint32_t i = 0; i < kills; i++) {
        run_for(t, 2 * MS + rng_below(&t->rng, 3 * MS));
        uint32_t victim = leading_host(t, (uint32_t)rng_below(&t->rng, HOSTS));
        fault_begins(t);
        if (!have_killed(t, t->pid[victim]) || !fault_is_over(t))
            return false;
        waitpid(t->pid[victim], NULL, 0);
        if (!bring_back(t, victim))
            return false;
    }
    return true;
}

static bool stop_hosts(struct test *t, uint32_t stops)
{
    for (uint32_t i = 0; i < stops; i++) {
        uint32_t victim = leading_host(t, i);
        fault_begins(t);
        kill(t->pid[victim], SIGSTOP);
        run_for(t, 100 * MS + rng_below(&t->rng, 200 * MS));
        kill(t->pid[victim], SIGCONT);
        uint64_t continued = clock_now_ns();
        if (!fault_is_over(t) || !wait_well(t))
            return false;
        hist_add(&t->back, clock_now_ns() - continued);
        run_for(t, 10 * MS);
    }
    return true;
}

static bool other_done(struct test *t, uint64_t messages)
{
    uint64_t give_up = clock_now_ns() + PATIENCE;
    while (atomic_load(&t->board->client.done) < messages && clock_now_ns() < give_up)
        step(t);
    if (atomic_load(&t->board->client.done) >= messages)
        return true;
    printf("# the other client got %llu answers\n",
           (unsigned long long)atomic_load(&t->board->client.done));
    print_board(t);
    return false;
}

/* Each life is in the same place, and gets its answers. The last one ends in peace. */
static bool kill_clients(struct test *t, uint32_t kills)
{
    for (uint32_t i = 0; i <= kills; i++) {
        uint64_t started = clock_now_ns();
        start_client(t);
        if (!other_done(t, 1000))
            return false;
        hist_add(&t->back, clock_now_ns() - started);
        /* Over a network a host gives it the place that has rested longest. */
        if (t->transport == CLUSTER_SHM && (atomic_load(&t->board->client.place) != 1 ||
                                            atomic_load(&t->board->client.life) != i + 1)) {
            printf("# the other client is in place %llu, life %llu; wanted 1, %u\n",
                   (unsigned long long)atomic_load(&t->board->client.place),
                   (unsigned long long)atomic_load(&t->board->client.life), i + 1);
            return false;
        }
        run_for(t, rng_below(&t->rng, 5 * MS));
        if (i < kills) {
            fault_begins(t);
            atomic_store(&t->board->client.die, 1);
            while (waitpid(t->other, NULL, WNOHANG) == 0)
                step(t);
            /* Every other time the next one comes while messages of this one are still on their way. */
            if (i % 2 == 0 && !fault_is_over(t))
                return false;
        }
    }
    atomic_store(&t->board->client.stop, 1);
    int status = 0;
    while (waitpid(t->other, &status, WNOHANG) == 0)
        step(t);
    t->other = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool restart_hosts(struct test *t, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds * HOSTS; i++) {
        uint32_t host = i % HOSTS;
        int status = 0;
        fault_begins(t);
        atomic_store(&t->board->host[host].stop, 1);
        while (waitpid(t->pid[host], &status, WNOHANG) == 0)
            step(t);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            printf("# host %u ended with status %d\n", host, status);
            return false;
        }
        if (!fault_is_over(t) || !bring_back(t, host))
            return false;
        run_for(t, 5 * MS);
    }
    return true;
}

/* Nothing under way, and all replicas of each group in the same state. */
static bool quiet(const struct test *t)
{
    if (tram_client_outstanding(t->client) > 0)
        return false;
    for (uint32_t g = 0; g < GROUPS; g++)
        for (uint32_t h = 0; h < HOSTS; h++) {
            const struct notice *n = &t->board->host[h].group[g];
            const struct notice *first = &t->board->host[0].group[g];
            if (atomic_load(&n->count) != atomic_load(&first->count) ||
                atomic_load(&n->hash) != atomic_load(&first->hash))
                return false;
        }
    return true;
}

static bool drained(struct test *t)
{
    uint64_t give_up = clock_now_ns() + PATIENCE;
    uint64_t since = 0;
    /* Quiet for a while: what a killed client left may still be on its way. */
    while (since == 0 || clock_now_ns() - since < 50 * MS) {
        tram_client_wait(t->client, MS);
        since = !quiet(t) ? 0 : since ? since : clock_now_ns();
        if (clock_now_ns() > give_up) {
            printf("# does not come to rest:\n");
            print_board(t);
            return false;
        }
    }
    return true;
}

static bool check_traces(const struct test *t)
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
    good &= s.casts >= t->sent && s.dones >= t->done && s.replicas == GROUPS * HOSTS;
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

static bool make_cluster(struct test *t)
{
    struct err e = {""};
    struct tram_error error = {""};
    struct cluster *c;
    struct cluster_plan plan = {.name = "kill",
                                .transport = t->transport,
                                .protocol = t->protocol,
                                .groups = GROUPS,
                                .replicas = 3,
                                .hosts = HOSTS};
    snprintf(t->dir, sizeof(t->dir), "/dev/shm/tram-test-XXXXXX");
    if (mkdtemp(t->dir) == NULL || cluster_make(&plan, &c, &e) != 0)
        return false;
    snprintf(t->file, sizeof(t->file), "%s/cluster.yaml", t->dir);
    snprintf(t->traces, sizeof(t->traces), "%s/traces", t->dir);
    snprintf(c->runtime_dir, sizeof(c->runtime_dir), "%s", t->dir);
    c->wait = t->wait;
    bool good = true;
    if (t->transport != CLUSTER_SHM) {
        char key[128];
        snprintf(key, sizeof(key), "%s/cluster.key", t->dir);
        good = ofi_key_make(key, &e) == 0;
        for (uint32_t h = 0; h < HOSTS; h++)
            c->host[h].port = ofi_fixture_port();
    }
    FILE *f = fopen(t->file, "w");
    good &= f && cluster_write(f, c, &e) == 0;
    if (f)
        good &= fclose(f) == 0;
    cluster_free(c);
    if (!good || tram_cluster_load(t->file, &t->cluster, &error) != 0) {
        printf("# cluster: %s%s\n", e.text, error.text);
        return false;
    }
    return true;
}

static bool begin(struct test *t)
{
    struct tram_error error = {""};
    struct tram_client_options o = {
        .trace_dir = t->traces, .reply = on_reply, .done = on_done, .ctx = t};
    memset(t->board, 0, sizeof(*t->board));
    hist_init(&t->gaps);
    hist_init(&t->group_gaps);
    hist_init(&t->back);
    if (!make_cluster(t))
        return false;
    for (uint32_t h = 0; h < HOSTS; h++)
        start_host(t, h);
    if (tram_client_open(t->cluster, &o, &t->client, &error) != 0) {
        printf("# client: %s\n", error.text);
        return false;
    }
    t->moved_ns = t->cast_ns = clock_now_ns();
    return start_killer(t) && wait_well(t);
}

static bool end(struct test *t, bool good)
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
    for (uint32_t h = 0; h < HOSTS; h++) {
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
        snprintf(command, sizeof(command), "rm -rf '%s'", t->dir);
        if (good || getenv("MCAST_KILL_KEEP") == NULL)
            good &= system(command) == 0;
    }
    return good;
}

struct campaign {
    const char *name;
    bool (*run)(struct test *, uint32_t times);
    uint32_t times;
    const char *back; /* what is measured in `back` */
};

static bool campaign(const struct campaign *c, const char *self, enum cluster_protocol protocol,
                     enum cluster_wait wait, enum cluster_transport transport)
{
    struct test *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return false;
    t->self = self;
    t->protocol = protocol;
    t->wait = wait;
    t->transport = transport;
    t->board = board_map();
    rng_init(&t->rng, clock_now_ns());
    bool good = begin(t);
    good = good && c->run(t, c->times);
    good = good && drained(t);
    if (failed(t))
        print_board(t);
    good &= !failed(t);
    print_hist("time in which no message at all was done", &t->gaps);
    print_hist("time without an answer of the group that waited longest", &t->group_gaps);
    print_hist(c->back, &t->back);
    good = end(t, good);
    munmap(t->board, sizeof(*t->board));
    free(t);
    return good;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "host") == 0)
        return host_main(argv[2], argv[3], (uint32_t)atoi(argv[4]));
    if (argc == 4 && strcmp(argv[1], "client") == 0)
        return client_main(argv[2], argv[3]);
    enum cluster_protocol protocol = CLUSTER_TREE;
    if (argc > 1 && strcmp(argv[1], cluster_protocol_name(CLUSTER_GENUINE)) == 0)
        protocol = CLUSTER_GENUINE;
    if (argc < 2 || strcmp(argv[1], cluster_protocol_name(protocol)) != 0) {
        printf("Bail out! usage: mcast_kill tree|genuine [KILLS [auto|spin|sleep [shm|tcp]]]\n");
        return 1;
    }
    uint32_t kills = argc > 2 ? (uint32_t)atoi(argv[2]) : 30;
    enum cluster_wait wait = CLUSTER_WAIT_AUTO;
    if (argc > 3)
        wait = strcmp(argv[3], "spin") == 0    ? CLUSTER_WAIT_SPIN
               : strcmp(argv[3], "sleep") == 0 ? CLUSTER_WAIT_SLEEP
                                               : CLUSTER_WAIT_AUTO;
    enum cluster_transport transport =
        argc > 4 && strcmp(argv[4], "tcp") == 0 ? CLUSTER_TCP : CLUSTER_SHM;
    char self[256];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int fd = memfd_create("board", 0);
    if (len < 0 || fd < 0 || ftruncate(fd, sizeof(struct board)) != 0 || dup2(fd, BOARD_FD) < 0) {
        printf("Bail out! no shared memory for the test\n");
        return 1;
    }
    self[len] = '\0';
    const struct campaign all[] = {
        {"leading hosts are killed and come back", kill_hosts, kills,
         "killed host started, back and up to date"},
        {"leading hosts are stopped and go on", stop_hosts, 5, "continued host up to date"},
        {"clients are killed while they write, and replaced", kill_clients, 5,
         "client started and 1000 messages done"},
        {"every host is restarted in turn", restart_hosts, 2, "restarted host back and up to date"},
    };
    const uint32_t count = sizeof(all) / sizeof(all[0]);
    bool good = true;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t started = clock_now_ns();
        bool ok = campaign(&all[i], self, protocol, wait, transport);
        printf("# %.1f s\n", (double)(clock_now_ns() - started) / 1e9);
        printf("%s %u - %s_kill__%s (%u times)\n", ok ? "ok" : "not ok", i + 1, argv[1],
               all[i].name, all[i].times);
        fflush(stdout);
        good &= ok;
    }
    printf("1..%u\n", count);
    return good ? 0 : 1;
}
