/* What a durable cluster does: one message at a time beside the floor, saturated beside the same without disks, and without its
 * leader. */
#include "bench/durable.h"

#include "base/clock.h"
#include "tram.h"

#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    LOAD_TURNS = 8,
    WARM_UPS_MAX = 4,  /* times as long as it is measured */
    CASTS_A_TURN = 32, /* of one client before the next one's turn */
    SPIN_NS = 20000,   /* without a reply before one of the clients waits for its own */
    WAIT_NS = 1000000,
};

#define SECOND_NS UINT64_C(1000000000)
#define GIVE_UP_NS (BENCH_STARTS_WITHIN_S * SECOND_NS)
#define AFTER_KILL_NS (SECOND_NS / 50) /* in which the gap begins */

static const uint32_t payloads[DURABLE_LOADS] = {64, 1024, DURABLE_PAYLOAD_MAX};

enum kind { ONE_GROUP, MANY_GROUPS, IN_MEMORY, KINDS };

struct run {
    const struct bench_args *args;
    struct bench_durable *out;
    struct floor *floor;
    struct durable_cluster of[KINDS];
    struct durable_cluster *c; /* the one that is measured */
    unsigned char *payload;
};

static volatile sig_atomic_t stopped;

static void on_stop(int number)
{
    (void)number;
    stopped = 1;
}

static int check_stop(struct err *e)
{
    return stopped ? err_set(e, ERR_AGAIN, "stopped") : 0;
}

static uint64_t part_ns(const struct bench_args *a)
{
    return a->seconds * SECOND_NS;
}

/* ---- one message at a time ---- */

static int call(struct run *r, uint64_t *took_ns, struct err *e)
{
    const uint16_t group = 0;
    struct tram_error error = {""};
    uint64_t start = clock_now_ns();
    int rc = tram_call(r->c->user[0].client, &group, 1, r->payload, r->args->payload, NULL, 0, NULL,
                       GIVE_UP_NS, &error);
    *took_ns = clock_now_ns() - start;
    if (rc != 0)
        return err_set(e, ERR_TIMEOUT, "%s", error.text);
    return check_stop(e);
}

static int measure_calls(struct run *r, uint64_t for_ns, struct hist *h, struct err *e)
{
    uint64_t end = clock_now_ns() + for_ns, took;
    int rc = 0;
    while (rc == 0 && clock_now_ns() < end) {
        rc = call(r, &took, e);
        hist_add(h, took);
    }
    return rc;
}

static void insert(double *sorted, uint32_t count, double value)
{
    for (; count > 0 && sorted[count - 1] > value; count--)
        sorted[count] = sorted[count - 1];
    sorted[count] = value;
}

static int measure_latency(struct run *r, struct err *e)
{
    struct bench_durable *out = r->out;
    uint64_t turn_ns = part_ns(r->args) / BENCH_TURNS;
    int rc = 0;
    for (uint32_t i = 0; i < BENCH_TURNS && rc == 0; i++) {
        hist_init(&out->turn[0]);
        hist_init(&out->turn[1]);
        rc = floor_measure(r->floor, FLOOR_BLOCK_BYTES, turn_ns, &out->turn[0], e);
        if (rc == 0)
            rc = measure_calls(r, turn_ns, &out->turn[1], e);
        double floor = (double)hist_quantile(&out->turn[0], 0.5);
        insert(out->ratio, i, (double)hist_quantile(&out->turn[1], 0.5) / floor);
        hist_merge(&out->floor, &out->turn[0]);
        hist_merge(&out->latency, &out->turn[1]);
    }
    return rc;
}

/* ---- saturated ---- */

static uint64_t done(const struct durable_cluster *c)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->users; i++)
        sum += c->user[i].done;
    return sum;
}

/* What a client writes in a turn goes to one group, however many there are: else its own stalls, with each message in another ring, are
 * measured, and not what the groups do. */
static int cast_some(struct run *r, struct durable_user *u, uint32_t payload, uint32_t *next)
{
    int sent = 0;
    for (; sent < CASTS_A_TURN; sent++) {
        uint16_t group = (uint16_t)(*next / CASTS_A_TURN % r->c->args.groups);
        uint64_t ticket;
        if (tram_cast(u->client, &group, 1, r->payload, payload, &ticket, NULL) != 0)
            break;
        ++*next;
    }
    return sent;
}

/* Returns how many messages were done, and adds how long it took. */
static uint64_t saturate(struct run *r, uint32_t payload, uint64_t for_ns, uint64_t *ns)
{
    struct durable_cluster *c = r->c;
    uint64_t first = done(c), start = clock_now_ns(), now = start;
    uint64_t worked = start;
    uint32_t next = 0, turn = 0;
    for (; now < start + for_ns && !stopped; now = clock_now_ns()) {
        int work = 0;
        for (uint32_t i = 0; i < c->users; i++) {
            work += cast_some(r, &c->user[i], payload, &next);
            work += tram_client_poll(c->user[i].client);
        }
        worked = work > 0 ? now : worked;
        if (now - worked > SPIN_NS) /* what the others wait for comes at about the same time */
            tram_client_wait(c->user[turn++ % c->users].client, WAIT_NS);
    }
    *ns += now - start;
    return done(c) - first;
}

/* Until nothing is under way. */
static int drain(struct run *r, struct err *e)
{
    uint64_t deadline = clock_now_ns() + GIVE_UP_NS;
    for (uint32_t i = 0; i < r->c->users; i++)
        while (tram_client_outstanding(r->c->user[i].client) > 0)
            if (tram_client_wait(r->c->user[i].client, WAIT_NS) < 0 || clock_now_ns() > deadline)
                return err_set(e, ERR_TIMEOUT, "messages were not delivered within %d s",
                               BENCH_STARTS_WITHIN_S);
    return check_stop(e);
}

static int measure_stream(struct run *r, uint64_t for_ns, struct err *e)
{
    struct bench_durable *out = r->out;
    uint64_t start = clock_now_ns(), before = hist_count(&out->stream);
    int rc = floor_measure(r->floor, FLOOR_STREAM_BYTES, for_ns, &out->stream, e);
    out->stream_ns += clock_now_ns() - start;
    out->stream_bytes += (hist_count(&out->stream) - before) * FLOOR_STREAM_BYTES;
    return rc;
}

/* Until it flows, and the journals have gone round once: from then on their files are there. */
static int warm_up(struct run *r, struct err *e)
{
    uint64_t turn_ns = part_ns(r->args) / LOAD_TURNS, ns = 0;
    uint64_t wanted = r->c->durable ? r->args->hosts * (uint64_t)DURABLE_DISK_BYTES : 0;
    int rc = durable_users_grow(r->c, r->args->clients, e);
    do {
        saturate(r, DURABLE_PAYLOAD_MAX, turn_ns, &ns);
        rc = rc == 0 ? drain(r, e) : rc;
    } while (rc == 0 && durable_written(r->c).bytes < wanted &&
             ns < WARM_UPS_MAX * part_ns(r->args));
    return rc;
}

struct load {
    uint64_t messages, ns;
    struct durable_written written;
};

static int measure_turn(struct run *r, uint32_t payload, struct load *l, struct err *e)
{
    struct durable_written before = durable_written(r->c);
    l->messages += saturate(r, payload, part_ns(r->args) / LOAD_TURNS, &l->ns);
    int rc = drain(r, e);
    struct durable_written after = durable_written(r->c);
    l->written.bytes += after.bytes - before.bytes;
    l->written.batches += after.batches - before.batches;
    return rc;
}

static double load_rate(const struct load *l)
{
    return (double)l->messages * 1e9 / (double)l->ns;
}

/* In turns: cores and disk are others from minute to minute. */
static int measure_load(struct run *r, uint32_t i, struct err *e)
{
    struct bench_durable_load *out = &r->out->load[i];
    struct load l[KINDS] = {{0}};
    int rc = 0;
    out->payload = payloads[i];
    for (uint32_t t = 0; t < LOAD_TURNS && rc == 0; t++) {
        for (enum kind k = ONE_GROUP; k < KINDS && rc == 0; k++) {
            r->c = &r->of[k];
            rc = measure_turn(r, out->payload, &l[k], e);
        }
        if (rc == 0)
            rc = measure_stream(r, part_ns(r->args) / LOAD_TURNS / 2, e);
    }
    const struct durable_written *w = &l[ONE_GROUP].written;
    out->rate = load_rate(&l[ONE_GROUP]);
    out->many_rate = load_rate(&l[MANY_GROUPS]);
    out->memory_rate = load_rate(&l[IN_MEMORY]);
    out->journal = (double)w->bytes * 1e9 / (double)l[ONE_GROUP].ns / r->args->hosts;
    out->batch = w->batches > 0 ? (double)w->bytes / (double)w->batches : 0;
    return rc;
}

static int measure_loads(struct run *r, struct err *e)
{
    int rc = 0;
    for (enum kind k = ONE_GROUP; k < KINDS && rc == 0; k++) {
        r->c = &r->of[k];
        rc = warm_up(r, e);
    }
    for (uint32_t i = 0; i < DURABLE_LOADS && rc == 0; i++)
        rc = measure_load(r, i, e);
    return rc;
}

/* ---- a leader that is killed ---- */

/* The first message may have been answered before; the one that waits for the next leader is the longest. */
static int measure_gap(struct run *r, double *gap_ns, struct err *e)
{
    int leader = durable_leader(r->c, 0);
    if (leader < 0)
        return err_set(e, ERR_NOTFOUND, "the group has no leader");
    uint64_t took = 0, longest = 0;
    int rc = call(r, &took, e);
    durable_kill(r->c, (uint32_t)leader);
    uint64_t end = clock_now_ns() + AFTER_KILL_NS;
    while (rc == 0 && clock_now_ns() < end) {
        rc = call(r, &took, e);
        longest = took > longest ? took : longest;
    }
    *gap_ns = (double)longest;
    if (rc == 0)
        rc = durable_restart(r->c, (uint32_t)leader, e);
    return rc == 0 ? durable_await(r->c, e) : rc;
}

static int measure_gaps(struct run *r, struct bench_durable_gaps *gaps, struct err *e)
{
    int rc = 0;
    double gap_ns = 0;
    for (uint32_t i = 0; i < DURABLE_KILLS && rc == 0; i++) {
        rc = measure_gap(r, &gap_ns, e);
        if (rc == 0)
            insert(gaps->ns, gaps->kills++, gap_ns);
    }
    return rc;
}

/* ---- all of it ---- */

static int open_cluster(struct run *r, enum kind kind, struct err *e)
{
    struct bench_args a = *r->args;
    a.groups = kind == MANY_GROUPS ? a.groups : 1;
    r->c = &r->of[kind];
    int rc = durable_open(r->c, &a, kind != IN_MEMORY, r->out->dir, e);
    return rc == 0 ? durable_users_grow(r->c, 1, e) : rc;
}

/* The others are there when all are loaded in turns, and not before. */
static int measure_all(struct run *r, struct err *e)
{
    bool kills = r->args->replicas > 2;
    int rc = open_cluster(r, ONE_GROUP, e);
    if (rc == 0)
        rc = measure_latency(r, e);
    if (rc == 0 && kills)
        rc = measure_gaps(r, &r->out->gaps, e);
    if (rc == 0)
        rc = open_cluster(r, IN_MEMORY, e);
    if (rc == 0 && kills)
        rc = measure_gaps(r, &r->out->memory_gaps, e);
    if (rc == 0)
        rc = open_cluster(r, MANY_GROUPS, e);
    return rc == 0 ? measure_loads(r, e) : rc;
}

static bool is_memory(const char *dir)
{
    struct statfs s;
    return statfs(dir, &s) == 0 && (s.f_type == TMPFS_MAGIC || s.f_type == RAMFS_MAGIC);
}

static const char *choose_dir(const char *dir)
{
    const char *tmp = getenv("TMPDIR");
    if (dir)
        return dir;
    return tmp && tmp[0] && !is_memory(tmp) ? tmp : ".";
}

static int make_dir(const char *wanted, struct bench_durable *out, struct err *e)
{
    char path[200];
    const char *below = choose_dir(wanted);
    char *full = realpath(below, NULL);
    if (full == NULL)
        return err_sys(e, "%s", below);
    int n = snprintf(path, sizeof(path), "%s/tram-bench-XXXXXX", full);
    free(full);
    if (n >= (int)sizeof(path))
        return err_set(e, ERR_TOOBIG, "%s: its path is too long", below);
    if (mkdtemp(path) == NULL)
        return err_sys(e, "make a directory in %s", below);
    snprintf(out->dir, sizeof(out->dir), "%s", path);
    out->in_memory = is_memory(path);
    return 0;
}

int bench_durable(const struct bench_args *a, const char *dir, struct bench_durable *out,
                  struct err *e)
{
    const struct sigaction on = {.sa_handler = on_stop, .sa_flags = (int)SA_RESETHAND};
    struct run *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    memset(out, 0, sizeof(*out));
    hist_init(&out->floor);
    hist_init(&out->stream);
    hist_init(&out->latency);
    *r = (struct run){.args = a, .out = out, .payload = calloc(1, DURABLE_PAYLOAD_MAX)};
    int rc = r->payload ? make_dir(dir, out, e) : err_set(e, ERR_NOMEM, "out of memory");
    if (rc == 0) {
        sigaction(SIGINT, &on, NULL);
        sigaction(SIGTERM, &on, NULL);
        rc = floor_open(out->dir, a->replicas, &r->floor, e);
    }
    if (rc == 0)
        rc = measure_all(r, e);
    for (enum kind k = ONE_GROUP; k < KINDS; k++)
        durable_close(&r->of[k]);
    floor_close(r->floor);
    if (out->dir[0] != '\0')
        rmdir(out->dir);
    free(r->payload);
    free(r);
    return rc;
}

double bench_durable_stream(const struct bench_durable *d)
{
    return d->stream_ns > 0 ? (double)d->stream_bytes * 1e9 / (double)d->stream_ns : 0;
}
