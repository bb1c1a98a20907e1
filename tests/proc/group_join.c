/* A member joins a group with a large state, under load, as processes: the others' deliveries go on meanwhile, and in the end it has what they
 * have.
 *
 *      group_join MEGABYTES LOAD_MS [shm|tcp [CLOSE_MS]]     prints TAP
 *
 * LOAD_MS is how long the joiner takes to load, besides the time that it needs: the slower it is, the longer the others would wait. CLOSE_MS is
 * how long its last call takes, in which it does nothing else. */
#include "../cluster_fixture.h"
#include "../far_fixture.h"
#include "api/group_impl.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/minmax.h"
#include "check/load.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    HOSTS = 3,
    JOINER = 2,
    SENDERS = 2, /* the others */
    PAYLOAD = 1000,
    SEND_EVERY_US = 50, /* of each: a ring of 1 MiB is full within 60 ms */
    LOOK_MS = 1,
    TRIES = 4,
    SUSPECT_MS = 500, /* on a busy machine nobody is to be put out because it gets no time */
    AFTER_MS = 300,   /* so long it is watched, when the joiner has it */
};

#define MS UINT64_C(1000000)
#define PATIENCE (120000 * MS) /* only a hang takes so long */
#define GAP_MAX (200 * MS)     /* and half of the time that the joiner takes, if that is more */

struct board {
    _Atomic uint64_t ready;       /* has the state, in the view of that number */
    _Atomic uint64_t count, hash; /* of the state */
    _Atomic uint64_t last_ns;     /* of its last delivery */
    _Atomic uint64_t gap_ns;      /* the longest since it was set to 0 */
    _Atomic uint64_t views, put_out;
    _Atomic bool quiet, end;
};

static struct {
    uint64_t bytes, load_ns, close_ns;
    enum cluster_transport transport;
    char dir[64], file[96], traces[96];
    struct board *board;
    pid_t pid[HOSTS];
    uint32_t tests;
} t;

static void sleep_ns(uint64_t ns)
{
    struct timespec s = {.tv_sec = (time_t)(ns / UINT64_C(1000000000)),
                         .tv_nsec = (long)(ns % UINT64_C(1000000000))};
    nanosleep(&s, NULL);
}

/* ---- a member ---- */

struct state {
    uint64_t count, hash;
};

static struct {
    struct tram_group *group;
    struct board *me;
    uint32_t host;
    struct state state, saved;
    unsigned char
        *body; /* the rest of the state, which the first have and messages do not change */
    uint64_t save_at, load_at, next_ns;
} p;

static void show(void)
{
    atomic_store(&p.me->count, p.state.count);
    atomic_store(&p.me->hash, p.state.hash);
}

static void on_deliver(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                       uint32_t count)
{
    (void)ctx, (void)cell;
    uint64_t now = clock_now_ns(), last = atomic_load(&p.me->last_ns);
    if (last && now - last > atomic_load(&p.me->gap_ns))
        atomic_store(&p.me->gap_ns, now - last);
    atomic_store(&p.me->last_ns, now);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = hash_mix(view, item[i].number);
        p.state.hash = hash_bytes(hash_mix(p.state.hash, at), item[i].data, item[i].bytes);
        p.state.count++;
    }
    show();
}

static void on_view(void *ctx, const struct tram_view *before, const struct tram_view *now)
{
    (void)ctx, (void)before;
    atomic_fetch_add(now ? &p.me->views : &p.me->put_out, 1);
}

static unsigned char byte_of(uint64_t at)
{
    return (unsigned char)(at * 31 + (at >> 12));
}

static void on_born(void *ctx, uint32_t cell)
{
    (void)ctx, (void)cell;
    p.state = (struct state){0};
    show();
}

static void *on_save_open(void *ctx, uint32_t cell, uint64_t *bytes)
{
    (void)ctx, (void)cell;
    p.saved = p.state;
    p.save_at = 0;
    *bytes = sizeof(p.saved) + t.bytes;
    return &p;
}

static int on_save_next(void *ctx, uint32_t cell, void *save, void *out, uint32_t room)
{
    (void)ctx, (void)cell, (void)save;
    uint64_t head = sizeof(p.saved), bytes;
    if (p.save_at == 0) {
        memcpy(out, &p.saved, head);
        bytes = head;
    } else {
        bytes = min_u64(room, head + t.bytes - p.save_at);
        memcpy(out, p.body + (p.save_at - head), bytes);
    }
    p.save_at += bytes;
    return (int)bytes;
}

static void on_save_close(void *ctx, uint32_t cell, void *save)
{
    (void)ctx, (void)cell, (void)save;
}

static int on_load_open(void *ctx, uint32_t cell, uint64_t bytes)
{
    (void)ctx, (void)cell;
    p.load_at = 0;
    return bytes == sizeof(p.saved) + t.bytes ? 0 : -1;
}

/* In steps of a piece, each of which takes its part of the time. */
static int on_load_next(void *ctx, uint32_t cell, const void *data, uint32_t bytes)
{
    (void)ctx, (void)cell;
    uint64_t head = sizeof(p.saved);
    if (p.load_at == 0) {
        memcpy(&p.saved, data, head);
    } else {
        memcpy(p.body + (p.load_at - head), data, bytes);
        sleep_ns(t.load_ns / (t.bytes / bytes + 1));
    }
    p.load_at += bytes;
    return 0;
}

static int on_load_close(void *ctx, uint32_t cell, bool whole)
{
    (void)ctx, (void)cell;
    if (!whole)
        return 0;
    for (uint64_t i = 0; i < t.bytes; i += 4096)
        if (p.body[i] != byte_of(i))
            return -1;
    sleep_ns(t.close_ns);
    p.state = p.saved;
    show();
    return 0;
}

static void after_step(void)
{
    unsigned char body[PAYLOAD];
    uint64_t now = clock_now_ns();
    const struct tram_view *v = tram_group_view(p.group);
    atomic_store(&p.me->ready, v && tram_group_has_state(p.group, 0) ? v->number : 0);
    if (v == NULL || p.host >= SENDERS || atomic_load(&p.me->quiet) || now < p.next_ns)
        return;
    p.next_ns = now + SEND_EVERY_US * UINT64_C(1000);
    memset(body, (int)(now & 0xff), sizeof(body));
    tram_group_send(p.group, 0, body, sizeof(body), NULL);
}

static int be_member(void)
{
    struct tram_cluster *c;
    struct tram_error e = {""};
    if (tram_cluster_load(t.file, &c, &e) != 0) {
        fprintf(stderr, "# cluster: %s\n", e.text);
        return 1;
    }
    struct tram_group_options o = {
        .host = tram_cluster_host_name(c, p.host),
        .trace_dir = t.traces,
        .machine = {.deliver = on_deliver,
                    .view = on_view,
                    .born = on_born,
                    .save_open = on_save_open,
                    .save_next = on_save_next,
                    .save_close = on_save_close,
                    .load_open = on_load_open,
                    .load_next = on_load_next,
                    .load_close = on_load_close},
        .log = api_log_stderr(getenv("RIG_SAY") ? TRAM_LOG_INFO : TRAM_LOG_ERROR)};
    int rc = tram_group_open(c, &o, &p.group, &e);
    while (rc >= 0 && !atomic_load(&p.me->end)) {
        rc = tram_group_step(p.group, &e);
        after_step();
    }
    if (rc < 0)
        fprintf(stderr, "# %s: %s\n", o.host, e.text);
    return rc < 0;
}

/* ---- the test ---- */

static void start(uint32_t h)
{
    fflush(stdout);
    pid_t parent = getpid();
    t.pid[h] = fork();
    if (t.pid[h] != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    p.me = &t.board[h];
    p.host = h;
    p.body = calloc(1, t.bytes);
    for (uint64_t i = 0; p.body && h < SENDERS && i < t.bytes; i++)
        p.body[i] = byte_of(i);
    _exit(getppid() != parent || p.body == NULL ? 3 : be_member());
}

static bool verdict(bool good, const char *what)
{
    printf("%sok %u - group_join__%s\n", good ? "" : "not ", ++t.tests, what);
    fflush(stdout);
    return good;
}

static bool all_live(void)
{
    for (uint32_t h = 0; h < HOSTS; h++)
        if (t.pid[h] && waitpid(t.pid[h], NULL, WNOHANG) != 0) {
            printf("# h%u has ended by itself\n", h + 1);
            t.pid[h] = 0;
            return false;
        }
    return true;
}

/* Of the first so many hosts: all have the state in one view. */
static bool all_ready(uint32_t hosts)
{
    uint64_t view = atomic_load(&t.board[0].ready);
    for (uint32_t h = 1; h < hosts; h++)
        if (atomic_load(&t.board[h].ready) != view)
            return false;
    return view != 0;
}

static bool all_equal(uint32_t hosts)
{
    for (uint32_t h = 1; h < hosts; h++)
        if (atomic_load(&t.board[h].count) != atomic_load(&t.board[0].count) ||
            atomic_load(&t.board[h].hash) != atomic_load(&t.board[0].hash))
            return false;
    return all_ready(hosts);
}

static bool wait_for(bool (*is)(uint32_t), uint32_t hosts)
{
    for (uint64_t until = clock_now_ns() + PATIENCE; !is(hosts); sleep_ns(LOOK_MS * MS))
        if (!all_live() || clock_now_ns() > until)
            return false;
    return true;
}

/* It joins; how long that took, and the longest that one of the others delivered nothing meanwhile. */
static bool join(uint64_t *took_ns, uint64_t *gap_ns)
{
    for (uint32_t h = 0; h < SENDERS; h++)
        atomic_store(&t.board[h].gap_ns, 0);
    atomic_store(&t.board[JOINER].put_out, 0);
    uint64_t from = clock_now_ns(), before = atomic_load(&t.board[0].count);
    start(JOINER);
    bool good = wait_for(all_ready, HOSTS);
    *took_ns = clock_now_ns() - from;
    uint64_t count = atomic_load(&t.board[0].count) - before;
    sleep_ns(AFTER_MS * MS);
    *gap_ns = 0;
    for (uint32_t h = 0; h < SENDERS; h++)
        *gap_ns = max_u64(*gap_ns, atomic_load(&t.board[h].gap_ns));
    printf("# %llu MB in %.0f ms, %llu messages delivered meanwhile, longest gap %.1f ms, put out "
           "%llu times\n",
           (unsigned long long)(t.bytes >> 20), (double)*took_ns / 1e6, (unsigned long long)count,
           (double)*gap_ns / 1e6, (unsigned long long)atomic_load(&t.board[JOINER].put_out));
    return good;
}

static void kill_one(uint32_t h)
{
    kill(t.pid[h], SIGKILL);
    waitpid(t.pid[h], NULL, 0);
    t.pid[h] = 0;
    atomic_store(&t.board[h].ready, 0);
}

static void kill_all(void)
{
    for (uint32_t h = 0; h < HOSTS; h++)
        if (t.pid[h])
            kill_one(h);
}

/* Those of the joiner begin where it delivers by itself. */
static bool check_traces(void)
{
    struct amcast *a = amcast_open();
    struct vsync *v = vsync_open();
    struct load_report report = {0};
    struct vsync_summary s;
    struct err e = {""};
    bool good = load_views(a, v, t.traces, NULL, NULL, &report, &e) == 0 && vsync_verify(v, false);
    vsync_summarise(v, &s);
    if (vsync_violation(v, 0))
        printf("# %s\n", vsync_violation(v, 0)->text);
    printf("# traces: %llu views, %llu deliveries by %u lives %s\n", (unsigned long long)s.views,
           (unsigned long long)s.deliveries, s.lives, e.text);
    good &= s.deliveries > atomic_load(&t.board[0].count) && s.lives >= HOSTS;
    vsync_close(v);
    amcast_close(a);
    return good;
}

static bool run(void)
{
    uint64_t took_ns = 0, gap_ns = 0;
    for (uint32_t h = 0; h < SENDERS; h++)
        start(h);
    bool good = verdict(wait_for(all_ready, SENDERS), "two_come");
    sleep_ns(AFTER_MS * MS);
    bool joined = good, held_up = true, put_out = true;
    /* On a busy machine somebody may stand still for other reasons: if it is for this one it is so each time. */
    for (uint32_t i = 0; joined && (held_up || put_out) && i < TRIES; i++) {
        if (t.pid[JOINER])
            kill_one(JOINER);
        joined = wait_for(all_ready, SENDERS) && join(&took_ns, &gap_ns);
        held_up = gap_ns >= max_u64(GAP_MAX, took_ns / 2);
        put_out = atomic_load(&t.board[JOINER].put_out) > 0;
    }
    good = good && verdict(joined, "a_third_comes_and_gets_a_large_state");
    good = good && verdict(!held_up, "the_others_are_not_held_up");
    good = good && verdict(!put_out, "it_is_not_put_out_while_it_loads");
    for (uint32_t h = 0; h < HOSTS; h++)
        atomic_store(&t.board[h].quiet, true);
    good = good && verdict(wait_for(all_equal, HOSTS), "all_have_the_same_state");
    kill_all();
    return good && verdict(check_traces(), "its_traces_pass_the_check");
}

static bool make_cluster(void)
{
    struct cluster_plan plan = {.name = "join",
                                .protocol = CLUSTER_GROUP,
                                .transport = t.transport,
                                .hosts = HOSTS,
                                .subgroups = 1,
                                .shards = 1};
    struct err e = {""};
    struct cluster *c;
    snprintf(t.dir, sizeof(t.dir), "/dev/shm/tram-test-XXXXXX");
    if (mkdtemp(t.dir) == NULL || cluster_make(&plan, &c, &e) != 0)
        return false;
    snprintf(t.file, sizeof(t.file), "%s/cluster.yaml", t.dir);
    snprintf(t.traces, sizeof(t.traces), "%s/traces", t.dir);
    snprintf(c->runtime_dir, sizeof(c->runtime_dir), "%s", t.dir);
    c->start_ms = 100;
    c->suspect_ms = SUSPECT_MS;
    for (uint32_t h = 0; h < HOSTS && t.transport != CLUSTER_SHM; h++)
        c->host[h].port = far_fixture_port();
    bool good = cluster_fixture_write(c, t.file, &e);
    cluster_free(c);
    return good;
}

static void clean_up(void)
{
    char command[128];
    kill_all();
    snprintf(command, sizeof(command), "rm -rf %s", t.dir);
    if (system(command) != 0)
        printf("# %s is left\n", t.dir);
}

int main(int argc, char **argv)
{
    t.bytes = (uint64_t)(argc > 1 ? atoi(argv[1]) : 16) << 20;
    t.load_ns = (uint64_t)(argc > 2 ? atoi(argv[2]) : 1000) * MS;
    t.transport = argc > 3 && strcmp(argv[3], "tcp") == 0 ? CLUSTER_TCP : CLUSTER_SHM;
    t.close_ns = (uint64_t)(argc > 4 ? atoi(argv[4]) : 0) * MS;
    t.board = mmap(NULL, HOSTS * sizeof(*t.board), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t.board == MAP_FAILED || !make_cluster()) {
        printf("Bail out! no cluster\n");
        return 1;
    }
    bool good = run();
    clean_up();
    printf("1..%u\n", t.tests);
    return good ? 0 : 1;
}
