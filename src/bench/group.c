#include "bench/group.h"

#include "bench/group_disk.h"

#include "base/clock.h"
#include "base/lines.h"
#include "bench/transport.h"
#include "host/host.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    RING_BYTES = 1 << 20,
    RING_MESSAGES = 8,
    SEND_AT_ONCE = 64,
    LATENCY_PART = 4, /* a quarter of the time that throughput has */
};

#define PATIENT_NS                                                                                 \
    UINT64_C(600000000000) /* nobody is put out for resting while others are measured */
#define SECOND UINT64_C(1000000000)

/* What those who are not the measuring member do. */
enum phase { PHASE_SERVE, PHASE_SEND, PHASE_STOP };

/* Shared with processes. */
struct shared {
    _Atomic int phase;
    _Atomic uint32_t in_view; /* others that see everybody */
    struct member_counts counts[GROUP_MEMBERS_MAX];
    _Atomic bool counted[GROUP_MEMBERS_MAX]; /* those counts are there */
    char error[ERR_TEXT_BYTES];
};

struct runner {
    const struct group_args *args;
    uint32_t me, size;
    struct mem *mem;
    struct host *host;
    struct member *member;
    struct cell_options *cell; /* the member's */
    struct bench_disk disk;
    bool sends, delayed, seen_all;
    uint64_t next_ns; /* of one that is delayed */
    unsigned char *from;
    uint64_t delivered, own, sum;
};

struct bench {
    struct bench_rig rig;
    const struct group_args *args;
    struct bench_nodes nodes;
    struct shared *shared;
    struct runner runner[GROUP_MEMBERS_MAX];
    struct group_floor *floor;
    bool floor_runs; /* the second thread reads the bare ring */
    pid_t pid[GROUP_MEMBERS_MAX];
    char dir[256]; /* of disks; "": there are none */
};

/* ---- a member ---- */

static void on_deliver(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *item,
                       uint32_t count)
{
    struct runner *r = ctx;
    (void)cell, (void)vid;
    for (uint32_t i = 0; i < count; i++) {
        r->sum += group_read(item[i].data, item[i].bytes, r->args->touch);
        r->own += item[i].sender == r->me;
    }
    r->delivered += count;
}

static void on_view(void *ctx, const struct view *before, const struct view *now)
{
    struct runner *r = ctx;
    (void)before;
    r->seen_all = now && set_count(now->members) == r->args->members;
}

static const struct member_machine machine = {.deliver = on_deliver, .view = on_view};

static uint32_t senders_of(const struct group_args *a)
{
    return a->senders == GROUP_ALL_SEND    ? a->members
           : a->senders == GROUP_HALF_SEND ? (a->members + 1) / 2
                                           : 1;
}

static uint32_t ring_bytes(uint32_t size)
{
    uint32_t ring = RING_BYTES;
    while (ring / RING_MESSAGES < size)
        ring *= 2;
    return ring;
}

static int member_make(struct runner *r, const char *dir, struct err *e)
{
    const struct group_args *a = r->args;
    static const uint32_t keepers[] = {0, 1, 2};
    struct cell_options *cell = r->cell = calloc(a->subgroups, sizeof(*cell));
    uint64_t all = (UINT64_C(1) << a->members) - 1;
    if (cell == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < a->subgroups; i++)
        cell[i] = (struct cell_options){
            .mode = a->mode,
            .ring_bytes = ring_bytes(r->size),
            .message_max = r->size,
            .layout = {.hosts = all,
                       .members_min = a->members,
                       .senders = (UINT64_C(1) << senders_of(a)) - 1,
                       .subgroup = i},
        };
    int rc = dir[0] ? bench_disk_open(&r->disk, dir, r->me, cell, a->subgroups, e) : 0;
    if (rc != 0)
        return rc;
    struct member_options o = {
        .mem = r->mem,
        .hosts = a->members,
        .me = r->me,
        .keepers = keepers,
        .keepers_count = a->members < 3 ? 1 : 3,
        .cell = cell,
        .cells = a->subgroups,
        .view_majority = a->mode == CELL_DURABLE,
        .versions = r->disk.versions,
        .no_nulls = a->no_nulls,
        .unbatched = a->unbatched,
        .suspect_ns = PATIENT_NS,
        .detach_ns = PATIENT_NS,
        .start_ns = 1,
        .seed = clock_now_ns() + r->me,
        .machine = &machine,
        .ctx = r,
    };
    return member_open(&o, &r->member, e);
}

static int runner_open(struct bench *b, uint32_t me, uint32_t size, struct err *e)
{
    struct runner *r = &b->runner[me];
    const struct group_args *a = b->args;
    *r = (struct runner){.args = a,
                         .me = me,
                         .size = size,
                         .sends = me < (a->one_sends ? 1 : senders_of(a)),
                         .delayed = a->delay_us && me + 1 == senders_of(a),
                         .from = malloc(size + 8)};
    r->host = lines_alloc(sizeof(*r->host));
    if (r->from == NULL || r->host == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    memset(r->from, 0x5a, size + 8);
    int rc = nodes_host(&b->nodes, me, &r->mem, e);
    if (rc == 0)
        rc = member_make(r, b->dir, e);
    if (rc != 0)
        return rc;
    host_init(r->host, &(struct host_options){.mem = r->mem,
                                              .wait = a->procs ? HOST_AUTO : HOST_SPIN,
                                              .say = say_stderr(SAY_WARN)});
    host_add(r->host, member_unit(r->member));
    return 0;
}

static void runner_close(struct runner *r)
{
    if (r->member)
        member_close(r->member);
    bench_disk_close(&r->disk);
    if (r->mem)
        mem_close(r->mem);
    free(r->host);
    free(r->from);
    free(r->cell);
    *r = (struct runner){0};
}

static bool send_one(struct runner *r, uint32_t cell)
{
    unsigned char *room = member_reserve(r->member, cell, r->size);
    if (room == NULL)
        return false;
    group_write(room, r->from, r->size, r->args->touch);
    member_commit(r->member, cell, room, r->size);
    return true;
}

static void send_many(struct runner *r)
{
    uint32_t active = r->args->active_all ? r->args->subgroups : 1;
    uint32_t most = SEND_AT_ONCE;
    if (!r->sends)
        return;
    if (r->delayed) {
        uint64_t now = clock_now_ns();
        if (now < r->next_ns)
            return;
        r->next_ns = now + r->args->delay_us * UINT64_C(1000);
        most = 1;
    }
    for (uint32_t cell = 0; cell < active; cell++)
        for (uint32_t i = 0; i < most && send_one(r, cell); i++)
            ;
}

/* One round in a thread that polls several; or with the waiting that is due, in a process. */
static void runner_round(struct runner *r, int phase, uint64_t now_ns)
{
    if (phase == PHASE_SEND)
        send_many(r);
    if (r->args->procs)
        host_step(r->host);
    else
        host_turn(r->host, now_ns);
}

/* ---- the others ---- */

static void round_of_others(void *ctx, uint64_t now_ns)
{
    struct bench *b = ctx;
    int phase = atomic_load_explicit(&b->shared->phase, memory_order_relaxed);
    uint32_t seen = 0;
    if (b->floor_runs) {
        group_floor_round(b->floor);
        return;
    }
    for (uint32_t m = 1; m < b->args->members; m++) {
        runner_round(&b->runner[m], phase, now_ns);
        seen += b->runner[m].seen_all;
    }
    atomic_store_explicit(&b->shared->in_view, seen, memory_order_release);
}

/* In a process: until all are over. */
static void be_other(struct bench *b, uint32_t me, uint32_t size)
{
    struct runner *r = &b->runner[me];
    struct shared *s = b->shared;
    struct err e = {""};
    bool told = false;
    if (runner_open(b, me, size, &e) != 0) {
        snprintf(s->error, sizeof(s->error), "%s", e.text);
        _exit(1);
    }
    for (int phase; (phase = atomic_load(&s->phase)) != PHASE_STOP;) {
        runner_round(r, phase, 0);
        if (r->seen_all && !told)
            atomic_fetch_add(&s->in_view, 1);
        told |= r->seen_all;
        if (phase == PHASE_SERVE && told && !atomic_load(&s->counted[me])) {
            member_counts(r->member, &s->counts[me]);
            atomic_store(&s->counted[me], true);
        }
    }
    runner_close(r);
    _exit(0);
}

static int start_others(struct bench *b, uint32_t size, struct err *e)
{
    int rc = 0;
    for (uint32_t m = 1; rc == 0 && m < b->args->members; m++) {
        if (!b->args->procs) {
            rc = runner_open(b, m, size, e);
            continue;
        }
        fflush(NULL);
        pid_t parent = getpid(), pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent)
                be_other(b, m, size);
            _exit(1);
        }
        b->pid[m] = pid;
        rc = pid > 0 ? 0 : err_sys(e, "start a process");
    }
    return rc;
}

static void stop_others(struct bench *b)
{
    atomic_store(&b->shared->phase, PHASE_STOP);
    for (uint32_t m = 1; m < b->args->members; m++) {
        if (b->args->procs && b->pid[m] > 0)
            waitpid(b->pid[m], NULL, 0);
        else
            runner_close(&b->runner[m]);
        b->pid[m] = 0;
    }
}

/* Everybody's counts together, while nobody sends. */
static void all_counts(struct bench *b, struct member_counts *sum)
{
    struct shared *s = b->shared;
    *sum = (struct member_counts){0};
    if (!b->args->procs)
        rig_enter(&b->rig, BENCH_LINE); /* the others' are ours to look at */
    for (uint32_t m = 0; m < b->args->members; m++) {
        struct member_counts c;
        if (m == 0 || !b->args->procs) {
            member_counts(b->runner[m].member, &c);
        } else {
            atomic_store(&s->counted[m], false);
            for (uint64_t until = clock_now_ns() + SECOND;
                 !atomic_load(&s->counted[m]) && clock_now_ns() < until;)
                runner_round(&b->runner[0], PHASE_SERVE, clock_now_ns());
            c = s->counts[m];
        }
        sum->sent += c.sent;
        sum->delivered += c.delivered;
        sum->nulls += c.nulls;
        sum->publishes += c.publishes;
        sum->upcalls += c.upcalls;
        sum->row_pushes += c.row_pushes;
    }
    if (!b->args->procs)
        rig_enter(&b->rig, BENCH_SERVE);
}

/* ---- measuring ---- */

static int wait_all(struct bench *b, struct err *e)
{
    struct runner *r = &b->runner[0];
    uint64_t until = clock_now_ns() + BENCH_STARTS_WITHIN_S * SECOND;
    while (!r->seen_all || atomic_load(&b->shared->in_view) < b->args->members - 1) {
        uint64_t now = clock_now_ns();
        runner_round(r, PHASE_SERVE, now);
        if (b->shared->error[0])
            return err_set(e, ERR_SYSTEM, "%s", b->shared->error);
        if (now > until)
            return err_set(e, ERR_TIMEOUT, "the members did not find together within %d s",
                           BENCH_STARTS_WITHIN_S);
    }
    return 0;
}

/* What is under way is delivered, so that the next part begins with nothing. */
static int drain(struct bench *b, struct err *e)
{
    struct runner *r = &b->runner[0];
    uint64_t last = r->delivered, moved = clock_now_ns(), now = moved;
    atomic_store(&b->shared->phase, PHASE_SERVE);
    for (; now - moved < 20000000; now = clock_now_ns()) {
        runner_round(r, PHASE_SERVE, now);
        if (r->delivered != last) {
            last = r->delivered;
            moved = now;
        }
    }
    const char *broken = member_broken(r->member);
    return broken ? err_set(e, ERR_CORRUPT, "%s", broken) : 0;
}

/* Sends one message and polls until it is delivered. The time is read once a round: it is the round's, and that of the end. */
static int one_message(struct runner *r, uint64_t give_up, uint64_t *sent, uint64_t *now,
                       struct err *e)
{
    uint64_t own = r->own;
    *sent = *now;
    while (!send_one(r, 0)) { /* rows are still on their way that make room */
        if (*now > give_up)
            return err_set(e, ERR_AGAIN, "a member cannot send for 10 s");
        runner_round(r, PHASE_SERVE, *now);
        *sent = *now = clock_now_ns();
    }
    for (; r->own == own; *now = clock_now_ns()) {
        if (*now > give_up)
            return err_set(e, ERR_TIMEOUT, "a message was not delivered within 10 s");
        runner_round(r, PHASE_SERVE, *now);
    }
    return 0;
}

static int measure_latency(struct bench *b, uint64_t ns, struct hist *h, struct err *e)
{
    struct runner *r = &b->runner[0];
    uint64_t start = clock_now_ns(), now = start, give_up = start + ns + 10 * SECOND;
    while (now - start < ns) {
        uint64_t sent;
        int rc = one_message(r, give_up, &sent, &now, e);
        if (rc != 0)
            return rc;
        hist_add(h, now - sent);
    }
    return 0;
}

static double measure_rate(struct bench *b, uint64_t ns)
{
    struct runner *r = &b->runner[0];
    atomic_store(&b->shared->phase, PHASE_SEND);
    uint64_t start = clock_now_ns(), now = start, first = r->delivered;
    while (now - start < ns) {
        runner_round(r, PHASE_SEND, now);
        now = clock_now_ns();
    }
    return (double)(r->delivered - first) * 1e9 / (double)(now - start);
}

static double ratio(uint64_t a, uint64_t b)
{
    return b > 0 ? (double)a / (double)b : 0;
}

static struct versions_status written_by(const struct bench *b)
{
    struct versions_status s = {0};
    if (b->dir[0])
        versions_status(b->runner[0].disk.versions, &s);
    return s;
}

static void note_disk(const struct bench *b, const struct versions_status *before, uint64_t ns,
                      struct group_point *p)
{
    const struct versions_status now = written_by(b);
    p->disk_batch = ratio(now.bytes - before->bytes, now.batches - before->batches);
    p->disk_rate = (double)(now.batches - before->batches) * 1e9 / (double)ns;
}

static int measure_group(struct bench *b, uint64_t ns, struct group_point *p, struct err *e)
{
    struct hist h;
    struct member_counts before, after;
    hist_init(&h);
    int rc = drain(b, e);
    if (rc == 0 && (!b->args->no_nulls || senders_of(b->args) == 1)) /* else one alone stays */
        rc = measure_latency(b, ns / LATENCY_PART, &h, e);
    if (rc != 0)
        return rc;
    all_counts(b, &before);
    struct versions_status wrote = written_by(b);
    p->rate = measure_rate(b, ns);
    note_disk(b, &wrote, ns, p);
    rc = drain(b, e);
    all_counts(b, &after);
    p->p50 = (double)hist_quantile(&h, 0.5);
    p->p99 = (double)hist_quantile(&h, 0.99);
    uint64_t sent = after.sent - before.sent, delivered = after.delivered - before.delivered;
    p->publish_batch = ratio(sent, after.publishes - before.publishes);
    p->deliver_batch = ratio(delivered, after.upcalls - before.upcalls);
    p->writes =
        ratio(after.publishes - before.publishes + after.row_pushes - before.row_pushes, sent);
    p->nulls = ratio(after.nulls - before.nulls, delivered);
    return rc;
}

static int measure_log(const struct group_args *a, uint32_t size, double *rate, struct err *e)
{
    struct bench_args log = {
        .transport = BENCH_SHM, .replicas = a->members, .payload = size, .seconds = 1};
    struct bench_figures *f = calloc(1, sizeof(*f));
    if (f == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    hist_init(&f->line);
    hist_init(&f->latency);
    int rc = bench_log(&log, f, e);
    *rate = rc == 0 ? (double)f->messages / f->seconds : 0;
    free(f);
    return rc;
}

/* What is beside it, on shared memory. */
static int measure_beside(struct bench *b, uint64_t ns, struct group_point *p, struct err *e)
{
    struct hist line;
    hist_init(&line);
    int rc = rig_measure_line(&b->rig, &line);
    p->line_ns = (double)hist_quantile(&line, 0.5);
    rig_enter(&b->rig, BENCH_LINE);
    b->floor_runs = true;
    rig_enter(&b->rig, BENCH_SERVE);
    p->ring = group_floor_ring(b->floor, ns);
    rig_enter(&b->rig, BENCH_LINE);
    b->floor_runs = false;
    p->copy = group_floor_copy(b->floor, ns / 4);
    rig_enter(&b->rig, BENCH_SERVE);
    (void)e;
    return rc;
}

/* ---- medians ---- */

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

/* Of one field, by its offset, over all turns. */
static double median(const struct group_point *turn, size_t offset)
{
    double v[GROUP_TURNS];
    for (uint32_t i = 0; i < GROUP_TURNS; i++)
        memcpy(&v[i], (const char *)&turn[i] + offset, sizeof(v[i]));
    qsort(v, GROUP_TURNS, sizeof(v[0]), by_value);
    return v[GROUP_TURNS / 2];
}

static void medians(const struct group_point *turn, struct group_point *out)
{
    static const size_t fields[] = {
        offsetof(struct group_point, rate),          offsetof(struct group_point, p50),
        offsetof(struct group_point, p99),           offsetof(struct group_point, line_ns),
        offsetof(struct group_point, publish_batch), offsetof(struct group_point, deliver_batch),
        offsetof(struct group_point, writes),        offsetof(struct group_point, nulls),
        offsetof(struct group_point, ring),          offsetof(struct group_point, copy),
        offsetof(struct group_point, log),           offsetof(struct group_point, of_ring),
        offsetof(struct group_point, of_copy),       offsetof(struct group_point, of_log),
        offsetof(struct group_point, in_lines),      offsetof(struct group_point, disk_batch),
        offsetof(struct group_point, disk_rate),     offsetof(struct group_point, disk_floor),
        offsetof(struct group_point, of_disk),
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        double v = median(turn, fields[i]);
        memcpy((char *)out + fields[i], &v, sizeof(v));
    }
}

/* ---- the whole ---- */

static int open_size(struct bench *b, uint32_t size, struct err *e)
{
    const struct group_args *a = b->args;
    struct bench_args nodes = {
        .transport = a->transport, .address = a->address, .clear = a->clear, .hosts = a->members};
    b->shared =
        mmap(NULL, sizeof(*b->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b->shared == MAP_FAILED)
        return err_sys(e, "map memory");
    int rc = group_keeps(a) ? bench_disk_dir(a->dir, b->dir, sizeof(b->dir), e) : 0;
    if (rc == 0)
        rc = nodes_open(&b->nodes, &nodes, e);
    if (rc == 0)
        rc = start_others(b, size, e);
    if (rc == 0)
        rc = runner_open(b, 0, size, e);
    if (rc == 0 && !a->procs && a->transport == BENCH_SHM)
        rc = group_floor_open(a->members, size, a->touch, &b->floor, e);
    if (rc == 0 && !a->procs)
        rc = rig_cores(&b->rig, e);
    if (rc == 0 && !a->procs)
        rc = rig_start(&b->rig, e);
    return rc;
}

static void close_size(struct bench *b, bool started)
{
    if (started && !b->args->procs)
        rig_stop(&b->rig);
    stop_others(b);
    runner_close(&b->runner[0]);
    group_floor_close(b->floor);
    nodes_close(&b->nodes);
    bench_disk_remove(b->dir);
    munmap(b->shared, sizeof(*b->shared));
}

static int measure_turn(struct bench *b, uint64_t ns, struct group_point *p, struct err *e)
{
    int rc = measure_group(b, ns, p, e);
    if (rc == 0 && b->dir[0])
        rc = bench_disk_floor(b->dir, b->args->members, p->disk_batch, ns / 2, &p->disk_floor, e);
    p->of_disk = p->disk_floor > 0 ? p->disk_rate / p->disk_floor : 0;
    if (rc != 0 || b->floor == NULL || b->args->bare)
        return rc;
    rc = measure_beside(b, ns, p, e);
    p->of_ring = p->ring > 0 ? p->rate / p->ring : 0;
    p->of_copy = p->copy > 0 ? p->rate / p->copy : 0;
    p->in_lines = p->line_ns > 0 ? p->p50 / p->line_ns : 0;
    return rc;
}

static struct bench *bench_make(const struct group_args *a)
{
    struct bench *b = lines_alloc(sizeof(*b));
    if (b == NULL)
        return NULL;
    b->args = a;
    b->rig.round = round_of_others;
    b->rig.ctx = b;
    return b;
}

static int measure_size(const struct group_args *a, uint32_t size, struct group_point *turn,
                        struct err *e)
{
    uint64_t ns = a->seconds * SECOND / GROUP_TURNS;
    struct bench *b = bench_make(a);
    if (b == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    int rc = open_size(b, size, e);
    bool started = rc == 0;
    if (rc == 0)
        rc = wait_all(b, e);
    for (uint32_t i = 0; rc == 0 && i < GROUP_TURNS; i++)
        rc = measure_turn(b, ns, &turn[i], e);
    close_size(b, started);
    free(b);
    return rc;
}

int bench_group_rate(const struct group_args *a, uint32_t size, uint64_t ns, double *rate,
                     struct err *e)
{
    struct bench *b = bench_make(a);
    if (b == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    int rc = open_size(b, size, e);
    bool started = rc == 0;
    if (rc == 0)
        rc = wait_all(b, e);
    if (rc == 0)
        rc = drain(b, e);
    if (rc == 0) {
        measure_rate(b, ns / 4); /* everybody is awake, and rings are full */
        *rate = measure_rate(b, ns);
        rc = drain(b, e);
    }
    close_size(b, started);
    free(b);
    return rc;
}

int bench_group(const struct group_args *a, struct group_point point[GROUP_SIZES_MAX],
                FILE *progress, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < a->sizes; i++) {
        struct group_point turn[GROUP_TURNS] = {{0}};
        if (progress)
            fprintf(progress, "messages of %u bytes\n", a->size[i]);
        rc = measure_size(a, a->size[i], turn, e);
        bool log = !a->bare && !a->procs && a->transport == BENCH_SHM &&
                   a->members <= LOG_REPLICAS_MAX && a->size[i] <= 64 << 10;
        for (uint32_t t = 0; rc == 0 && log && t < GROUP_TURNS; t++) {
            rc = measure_log(a, a->size[i], &turn[t].log, e);
            turn[t].of_log = turn[t].log > 0 ? turn[t].rate / turn[t].log : 0;
        }
        medians(turn, &point[i]);
        point[i].size = a->size[i];
    }
    return rc;
}
