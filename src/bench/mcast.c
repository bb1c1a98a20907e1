/* Multicast to groups, in one of three layouts: all hosts polled by one pinned thread, every host a
 * process of its own, or everything in one thread. The clients are always one thread of this process. */
#include "base/clock.h"
#include "bench/mcast_impl.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    WARM_UP_CASTS = 1000,
    WARM_UP_AT_LEAST = 20,
    MESSAGES_AT_LEAST = 100,
    IDLE_POLLS = 64,     /* with processes: polls without a reply before others may have the core */
    CASTS_A_TURN = 32,   /* of one client before the next one's turn */
    LOOK_EVERY = 1 << 12 /* polls without a reply between two looks at the clock */
};

/* ---- one message ---- */

static int cast_next(struct bench *b, struct user *u)
{
    uint32_t i = b->set_next % SETS;
    struct dst_set set = {b->set + (size_t)i * b->args.dst, b->args.dst};
    uint64_t seq;
    int rc = caster_cast(u->caster, set, b->payload, b->args.payload, &seq);
    b->set_next += rc == 0;
    return rc;
}

void bench_round(void *ctx, uint64_t now_ns)
{
    struct bench *b = ctx;
    b->laps++;
    for (uint32_t h = 0; h < b->args.hosts; h++)
        host_turn(b->server[h].host, now_ns);
}

/* With BENCH_SINGLE: its CPU time apart from that of the clients, which are the same thread. */
static void serve_timed(struct bench *b, uint64_t now_ns)
{
    uint64_t cpu = b->split ? clock_thread_ns() : 0;
    bench_round(b, now_ns);
    if (b->split)
        b->served_ns += clock_thread_ns() - cpu;
}

/* Looks for replies, and now and then at the clock; false after the deadline. */
static bool look(struct bench *b, struct user *u, uint64_t *now, uint64_t deadline_ns)
{
    if (b->args.layout == BENCH_SINGLE)
        bench_round(b, *now);
    b->looks++;
    if (b->args.transport != BENCH_SHM)
        mem_poll(u->mem); /* nothing lands by itself */
    if (caster_poll(u->caster, *now) > 0)
        return true;
    if (b->args.layout == BENCH_PROCS && b->looks % IDLE_POLLS == 0)
        sched_yield();
    if (b->looks % LOOK_EVERY != 0)
        return true;
    *now = clock_now_ns();
    mem_poll(u->mem);
    return *now <= deadline_ns;
}

bool bench_await(struct bench *b, struct user *u, uint64_t now, uint64_t deadline_ns)
{
    while (caster_outstanding(u->caster) > 0)
        if (!look(b, u, &now, deadline_ns))
            return false;
    return true;
}

/* The first replies may come before the client has all of its leader's memory, where it is told what was taken. */
bool bench_cast_one(struct bench *b, struct user *u, uint64_t now, uint64_t deadline_ns)
{
    while (cast_next(b, u) != 0)
        if (!look(b, u, &now, deadline_ns))
            return false;
    return true;
}

bool bench_send_one(struct bench *b, struct user *u, uint64_t now, uint64_t deadline_ns)
{
    if (!bench_cast_one(b, u, now, deadline_ns))
        return false;
    caster_flush(u->caster);
    return bench_await(b, u, now, deadline_ns);
}

/* ---- figures ---- */

static int measure_latency(void *ctx, struct hist *latency, uint64_t turn_ns)
{
    struct bench *b = ctx;
    uint64_t now = clock_now_ns(), end = now + turn_ns;
    uint64_t give_up = end + BENCH_STARTS_WITHIN_S * UINT64_C(1000000000);
    bool single = b->args.layout == BENCH_SINGLE;
    while (now < end) {
        uint64_t start = single ? clock_thread_ns() : now;
        if (!bench_send_one(b, &b->user[0], now, give_up))
            return ERR_TIMEOUT;
        now = clock_now_ns();
        hist_add(latency, (single ? clock_thread_ns() : now) - start);
    }
    return 0;
}

uint64_t bench_done(const struct bench *b)
{
    uint64_t done = 0;
    for (uint32_t c = 0; c < b->clients; c++)
        done += b->user[c].done;
    return done;
}

/* Enough to tell a rate by; or nobody answers. */
static bool enough(const struct bench *b, uint64_t first, uint64_t late_ns)
{
    return bench_done(b) - first >= MESSAGES_AT_LEAST ||
           late_ns > BENCH_STARTS_WITHIN_S * UINT64_C(1000000000);
}

double bench_saturate(struct bench *b, uint64_t for_ns, uint64_t *messages)
{
    bool single = b->args.layout == BENCH_SINGLE;
    uint64_t first = bench_done(b), start = clock_now_ns(), now = start;
    uint64_t cpu = clock_thread_ns();
    uint64_t stop = start + for_ns;
    for (uint32_t idle = 0; now < stop || !enough(b, first, now - stop); now = clock_now_ns()) {
        int work = 0;
        for (uint32_t c = 0; c < b->clients; c++) {
            struct user *u = &b->user[c];
            int sent = 0;
            work += mem_poll(u->mem);
            work += caster_poll(u->caster, now);
            b->looks++;
            while (sent < CASTS_A_TURN && cast_next(b, u) == 0)
                sent++;
            if (sent > 0)
                caster_flush(u->caster);
            work += sent;
        }
        if (single)
            serve_timed(b, now);
        idle = work > 0 ? 0 : idle + 1;
        if (b->args.layout == BENCH_PROCS && idle % IDLE_POLLS == IDLE_POLLS - 1)
            sched_yield();
    }
    *messages = bench_done(b) - first;
    return (double)(single ? clock_thread_ns() - cpu : now - start) / 1e9;
}

struct counts {
    uint64_t messages, batches;
};

/* Of all leaders; the hosts are ours meanwhile. */
static struct counts count_batches(struct bench *b)
{
    struct counts c = {0};
    struct unit_status s;
    if (b->args.layout == BENCH_THREADS)
        rig_enter(&b->rig, BENCH_LINE);
    for (uint32_t h = 0; h < b->args.hosts; h++)
        for (uint32_t g = 0; g < b->args.groups; g++) {
            if (b->server[h].replica[g] == NULL)
                continue;
            replica_status(b->server[h].replica[g], &s);
            if (s.role != UNIT_LEADER)
                continue;
            c.messages += s.count.messages;
            c.batches += s.count.batches;
        }
    if (b->args.layout == BENCH_THREADS)
        rig_enter(&b->rig, BENCH_SERVE);
    return c;
}

/* The client reaches every group, and every page is touched, before a clock runs; not longer than asked
 * for where messages are slow. */
static int warm_up(struct bench *b, struct user *u, uint64_t for_ns)
{
    uint64_t now = clock_now_ns(), end = now + for_ns;
    for (int i = 0; i < WARM_UP_CASTS && (now < end || i < WARM_UP_AT_LEAST); i++) {
        mem_poll(u->mem);
        if (!bench_send_one(b, u, now, now + BENCH_STARTS_WITHIN_S * UINT64_C(1000000000)))
            return ERR_TIMEOUT;
        now = clock_now_ns();
    }
    return 0;
}

/* What a replica says that cannot go on; "" if none does. */
static const char *why_stuck(struct bench *b)
{
    const char *why = NULL;
    if (b->args.layout == BENCH_THREADS)
        rig_enter(&b->rig, BENCH_LINE);
    for (uint32_t h = 0; b->args.layout != BENCH_PROCS && h < b->args.hosts; h++)
        for (uint32_t g = 0; g < b->args.groups && why == NULL; g++)
            if (b->server[h].replica[g]) {
                struct unit_status s;
                replica_status(b->server[h].replica[g], &s);
                why = s.broken;
            }
    return why ? why : "";
}

/* The thread that works for the client in the background must not be kept on the core where we spin. */
static int user_open_unpinned(struct bench *b, uint32_t place, struct err *e)
{
    if (b->args.layout == BENCH_SINGLE)
        return bench_user_open(b, place, e);
    rig_unpin(&b->rig);
    int rc = bench_user_open(b, place, e);
    rig_pin(&b->rig);
    return rc;
}

int bench_users_grow(struct bench *b, uint32_t clients, uint64_t warm_up_ns, struct err *e)
{
    int rc = 0;
    for (; rc == 0 && b->clients < clients; b->clients++) {
        struct user *u = &b->user[b->clients];
        rc = u->caster ? 0 : user_open_unpinned(b, b->clients, e);
        if (rc == 0 && warm_up(b, u, warm_up_ns) != 0) {
            const char *why = why_stuck(b);
            rc = err_set(e, ERR_TIMEOUT, "the groups did not answer within %d s%s%s",
                         BENCH_STARTS_WITHIN_S, why[0] ? ": " : "", why);
        }
    }
    return rc;
}

static int measure_figures(struct bench *b, void *out, struct err *e)
{
    struct bench_figures *f = out;
    uint64_t for_ns = b->args.seconds * UINT64_C(1000000000);
    int rc = bench_users_grow(b, 1, UINT64_MAX / 2, e);
    if (rc != 0)
        return rc;
    rc = b->args.layout == BENCH_SINGLE
             ? measure_latency(b, &f->latency, for_ns)
             : rig_measure_turns(&b->rig, f, for_ns / BENCH_TURNS, measure_latency, b);
    if (rc != 0)
        return err_set(e, rc, "a message was not delivered within %d s", BENCH_STARTS_WITHIN_S);
    rc = bench_users_grow(b, b->args.clients, UINT64_MAX / 2, e);
    if (rc != 0)
        return rc;
    struct counts before = {0}, after = {0};
    if (b->args.layout != BENCH_PROCS)
        before = count_batches(b);
    f->seconds = bench_saturate(b, for_ns, &f->messages);
    if (b->wire.writes_ns > 0)
        f->wire_per_second = (double)b->wire.writes * 1e9 / (double)b->wire.writes_ns;
    if (b->args.layout != BENCH_PROCS)
        after = count_batches(b);
    if (after.batches > before.batches)
        f->batch =
            (double)(after.messages - before.messages) / (double)(after.batches - before.batches);
    return 0;
}

/* As measure_figures, in one short turn, and throughput with several numbers of clients. */
static int measure_point(struct bench *b, void *out, struct err *e)
{
    struct bench_point *p = out;
    uint64_t for_ns = b->args.part_ns;
    int rc = bench_users_grow(b, 1, for_ns, e);
    if (rc != 0)
        return rc;
    if (b->args.layout != BENCH_SINGLE) {
        hist_init(&b->hist);
        rc = rig_measure_line(&b->rig, &b->hist);
        if (rc != 0)
            return err_set(e, rc, "nothing comes back over the wire");
        p->line_ns = (double)hist_quantile(&b->hist, 0.5);
    }
    hist_init(&b->hist);
    if (measure_latency(b, &b->hist, for_ns) != 0)
        return err_set(e, ERR_TIMEOUT, "a message was not delivered within %d s",
                       BENCH_STARTS_WITHIN_S);
    p->latency_ns = (double)hist_quantile(&b->hist, 0.5);
    p->latency_p99_ns = (double)hist_quantile(&b->hist, 0.99);
    for (uint32_t i = 0; i < b->args.loads; i++) {
        uint64_t messages;
        rc = bench_users_grow(b, b->args.load[i], for_ns, e);
        if (rc != 0)
            return rc;
        /* First until it flows: a turn is short beside what large messages need to fill all rings. */
        bench_saturate(b, for_ns / 4, &messages);
        bool last = i + 1 == b->args.loads && b->args.layout != BENCH_PROCS;
        struct counts before = last ? count_batches(b) : (struct counts){0};
        double seconds = bench_saturate(b, for_ns, &messages);
        p->rate[i] = (double)messages / seconds;
        if (last)
            p->entries = (double)(count_batches(b).messages - before.messages) / (double)messages;
    }
    return 0;
}

/* ---- all of it ---- */

int bench_run(const struct bench_args *a, int (*measure)(struct bench *b, void *out, struct err *e),
              void *out, struct err *e)
{
    struct bench *b = aligned_alloc(128, sizeof(*b));
    if (b == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    memset(b, 0, sizeof(*b));
    b->args = *a;
    b->rig.round = a->layout == BENCH_PROCS ? NULL : bench_round;
    b->rig.ctx = b;
    b->payload = malloc(a->payload + 8);
    int rc = b->payload ? bench_cluster_open(b, e) : err_set(e, ERR_NOMEM, "out of memory");
    if (rc == 0) {
        memset(b->payload, 0x5a, a->payload);
        rc = a->layout == BENCH_SINGLE ? 0 : rig_start(&b->rig, e);
    }
    if (rc == 0) {
        rc = measure(b, out, e);
        if (a->layout != BENCH_SINGLE)
            rig_stop(&b->rig);
    }
    bench_cluster_close(b);
    free(b->payload);
    free(b);
    return rc;
}

int bench_tree(const struct bench_args *a, struct bench_figures *f, struct err *e)
{
    return bench_run(a, measure_figures, f, e);
}

int bench_tree_point(const struct bench_args *a, struct bench_point *p, struct err *e)
{
    memset(p, 0, sizeof(*p));
    return bench_run(a, measure_point, p, e);
}
