/* What hosts and clients do for a message, counted in the terms of the model, and the CPU time that it takes: one
 * thread, so that the counts and the time are of the same. */
#include "base/clock.h"
#include "bench/mcast_impl.h"
#include "mcast/message.h"

#include <string.h>

enum side { HOSTS, CLIENTS };

/* Writes of all nodes, which are all of one backend and one thread. */
static struct {
    const struct mem_ops *ops; /* that write */
    struct mem_ops table;      /* that counts too */
    uint32_t hosts;
    uint64_t writes[2], bytes[2]; /* by side */
} counted;

static void count(const struct mem *m, uint64_t bytes)
{
    enum side side = m->self < counted.hosts ? HOSTS : CLIENTS;
    counted.writes[side]++;
    counted.bytes[side] += bytes;
}

static void counted_put(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint64_t pos,
                        const void *data, uint32_t bytes)
{
    count(m, bytes);
    counted.ops->put(m, f, l, pos, data, bytes);
}

static void counted_set(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint32_t word,
                        const uint64_t *values, uint32_t words)
{
    count(m, words * sizeof(*values));
    counted.ops->set(m, f, l, word, values, words);
}

static void count_writes(struct mem *m)
{
    if (m->ops == &counted.table)
        return;
    counted.ops = m->ops;
    counted.table = *m->ops;
    counted.table.put = counted_put;
    counted.table.set = counted_set;
    m->ops = &counted.table;
}

/* What the hosts have done so far, in the terms of a model (bench/model.h). */
static void add_hosts(const struct bench *b, struct model_work *w)
{
    const struct bench_args *a = &b->args;
    const bool tree = a->protocol == MCAST_TREE, stamps = !tree && a->dst > 1;
    double leads = 0, follows = 0, delivered = 0, laps = (double)b->laps;
    for (uint32_t h = 0; h < a->hosts; h++)
        for (uint32_t g = 0; g < a->groups; g++) {
            const struct replica *r = b->server[h].replica[g];
            struct unit_status s;
            if (r == NULL)
                continue;
            replica_status(r, &s);
            *(replica_leads(r) ? &leads : &follows) += (double)s.count.messages;
            delivered += (double)replica_delivered(r);
        }
    /* Rings that a leader looks at: of clients, one of each group that writes to it, one of the rest. */
    double in = tree ? a->groups - 1 : a->groups * (a->groups - 1.0);
    double rest = a->replicas > 1 && in > 0 ? tree ? a->groups - 1 : a->groups : 0;
    double links = (double)b->clients * a->groups + in + rest;
    /* As host_turn has it. */
    double every = b->server[0].host->units < HOST_FOLLOW_EVERY ? 1 : HOST_FOLLOW_EVERY;
    w->count[MODEL_COST_store_ns] += (double)counted.writes[HOSTS];
    w->count[MODEL_COST_copy_ps] +=
        ((double)counted.bytes[HOSTS] + delivered * message_bytes(a->dst, a->payload)) / 1000;
    w->count[MODEL_COST_poll_ns] += laps * a->groups;
    w->count[MODEL_COST_watch_ns] += laps * a->groups * (a->replicas - 1) / every;
    w->count[MODEL_COST_scan_ns] += laps * links;
    w->count[stamps ? MODEL_COST_stamp_ns : MODEL_COST_entry_ns] += leads;
    w->count[stamps ? MODEL_COST_follow_stamp_ns : MODEL_COST_follow_ns] += follows;
}

static void add_clients(const struct bench *b, struct model_work *w)
{
    const struct bench_args *a = &b->args;
    double done = (double)bench_done(b);
    w->count[MODEL_COST_store_ns] += (double)counted.writes[CLIENTS];
    w->count[MODEL_COST_copy_ps] += ((double)counted.bytes[CLIENTS] + done * a->payload) / 1000;
    w->count[MODEL_COST_look_ns] += (double)b->looks * a->dst;
    w->count[MODEL_COST_cast_ns] += done;
    w->count[MODEL_COST_reply_ns] += done * a->dst;
}

enum { WORK_LAPS = 5000, WORK_MESSAGES = 1000, WORK_TURNS = 5 };

/* One turn of one part. */
static bool do_part(struct bench *b, enum bench_part part)
{
    struct user *u = &b->user[0];
    uint64_t now = clock_now_ns(), messages;
    uint64_t give_up = now + BENCH_STARTS_WITHIN_S * UINT64_C(1000000000);
    switch (part) {
    case BENCH_IDLE:
    case BENCH_IDLE_MANY:
        for (int i = 0; i < WORK_LAPS; i++)
            bench_round(b, now);
        return true;
    case BENCH_IDLE_TIME:
        for (int i = 0; i < WORK_LAPS; i++)
            bench_round(b, clock_now_ns());
        return true;
    case BENCH_LOOK:
        for (int i = 0; i < WORK_LAPS; i++) {
            mem_poll(u->mem);
            caster_poll(u->caster, now);
        }
        b->looks += WORK_LAPS;
        return true;
    case BENCH_ONE:
        for (int i = 0; i < WORK_MESSAGES; i++)
            if (!bench_send_one(b, u, now, give_up))
                return false;
        return true;
    default:
        /* For so long of CPU time: how much of it there is in a time depends on who else wants it. */
        for (uint64_t cpu = clock_thread_ns(); clock_thread_ns() - cpu < b->args.part_ns;)
            bench_saturate(b, b->args.part_ns / 8, &messages);
        return true;
    }
}

/* Does a part and gives what that was: of the hosts, and of the clients or of both. */
static bool measure_turn(struct bench *b, enum bench_part part, struct model_work work[2])
{
    const bool apart = part == BENCH_MANY;
    uint64_t now = clock_now_ns();
    struct model_work before[2] = {{{0}, 0}};
    memset(work, 0, 2 * sizeof(*work));
    /* Who looks for replies looks differently if none is due. */
    uint64_t give_up = now + BENCH_STARTS_WITHIN_S * UINT64_C(1000000000);
    if (part == BENCH_LOOK && !bench_cast_one(b, &b->user[0], now, give_up))
        return false;
    add_hosts(b, &before[HOSTS]);
    add_clients(b, &before[apart]);
    b->served_ns = 0;
    uint64_t cpu = clock_thread_ns();
    bool done = do_part(b, part);
    cpu = clock_thread_ns() - cpu;
    work[HOSTS].cpu_ns = (double)(apart ? b->served_ns : cpu);
    work[CLIENTS].cpu_ns = (double)(cpu - b->served_ns);
    add_hosts(b, &work[HOSTS]);
    add_clients(b, &work[apart]);
    for (int side = HOSTS; side <= CLIENTS; side++)
        for (uint32_t i = 0; i < MODEL_COST_COUNT; i++)
            work[side].count[i] -= before[side].count[i];
    double laps = work[HOSTS].count[MODEL_COST_poll_ns] / b->args.groups;
    if (part == BENCH_IDLE_TIME)
        work[HOSTS].count[MODEL_COST_clock_ns] = laps;
    if (part == BENCH_MANY)
        work[CLIENTS].count[MODEL_COST_clock_ns] = laps; /* measure_throughput has it */
    if (part == BENCH_LOOK) {
        caster_flush(b->user[0].caster);
        done &= bench_await(b, &b->user[0], now, give_up);
    }
    return done;
}

/* The turn in which the same took least counts: whatever disturbs makes it take longer. */
static bool measure_part(struct bench *b, enum bench_part part, struct model_work least[2])
{
    static const uint32_t same[BENCH_PARTS] = {
        [BENCH_IDLE] = MODEL_COST_poll_ns,      [BENCH_IDLE_TIME] = MODEL_COST_poll_ns,
        [BENCH_IDLE_MANY] = MODEL_COST_poll_ns, [BENCH_LOOK] = MODEL_COST_look_ns,
        [BENCH_ONE] = MODEL_COST_cast_ns,       [BENCH_MANY] = MODEL_COST_store_ns,
    };
    double least_each = 0;
    /* The first fills rings and caches. */
    for (int turn = 0; turn <= WORK_TURNS; turn++) {
        struct model_work work[2];
        if (!measure_turn(b, part, work))
            return false;
        double each = work[HOSTS].cpu_ns / work[HOSTS].count[same[part]];
        if (turn > 0 && (turn == 1 || each < least_each)) {
            least_each = each;
            memcpy(least, work, sizeof(work));
        }
    }
    return true;
}

static int measure_work(struct bench *b, void *out, struct err *e)
{
    struct model_work *work = out;
    counted.hosts = b->args.hosts;
    b->split = true;
    for (uint32_t h = 0; h < b->args.hosts; h++)
        count_writes(b->server[h].mem);
    int rc = bench_users_grow(b, 1, UINT64_MAX / 2, e);
    for (enum bench_part part = 0; rc == 0 && part < BENCH_PARTS; part++) {
        struct model_work least[2];
        if (part == BENCH_SEND)
            continue; /* comes with BENCH_MANY */
        if (part == BENCH_MANY)
            rc = bench_users_grow(b, b->args.clients, b->args.part_ns, e);
        for (uint32_t c = 0; c < b->clients; c++)
            count_writes(b->user[c].mem);
        if (rc == 0 && !measure_part(b, part, least))
            return err_set(e, ERR_TIMEOUT, "a message was not delivered within %d s",
                           BENCH_STARTS_WITHIN_S);
        memcpy(work + part, least, (part == BENCH_MANY ? 2 : 1) * sizeof(*work));
    }
    return rc;
}

int bench_tree_work(const struct bench_args *a, struct model_work part[BENCH_PARTS], struct err *e)
{
    CHECK(a->layout == BENCH_SINGLE);
    return bench_run(a, measure_work, part, e);
}
