/* Multicast to groups, in one of three layouts: all hosts polled by one pinned thread, every host a
 * process of its own, or everything in one thread. The clients are always one thread of this process. */
#include "base/clock.h"
#include "bench/transport.h"
#include "host/host.h"
#include "mcast/caster.h"
#include "mcast/message.h"
#include "mcast/replica.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PLACES = BENCH_CLIENTS_MAX,
    REPLY_MAX = 16,
    WARM_UP_CASTS = 1000,
    WARM_UP_AT_LEAST = 20,
    MESSAGES_AT_LEAST = 100,
    SETS = 1024,         /* destination sets, drawn before anything is timed */
    IDLE_POLLS = 64,     /* with processes: polls without a reply before others may have the core */
    CASTS_A_TURN = 32,   /* of one client before the next one's turn */
    LOOK_EVERY = 1 << 12 /* polls without a reply between two looks at the clock */
};

/* A host with its replicas. */
struct server {
    struct mem *mem;
    struct host *host;
    struct replica **replica; /* one for each group; NULL where it has no replica */
    struct bench_machine *machine;
    struct bench_child child; /* with processes */
};

struct user {
    struct mem *mem;
    struct caster *caster;
    uint64_t done;
};

struct bench {
    struct bench_rig rig;
    struct bench_args args;
    struct bench_nodes nodes;
    struct bench_wire wire;
    struct overlay *overlay;
    struct mcast_group *groups;
    struct mcast_sizes sizes;
    struct server server[BENCH_HOSTS_MAX];
    struct user user[BENCH_CLIENTS_MAX];
    uint32_t clients; /* that are open */
    struct hist hist; /* of a point */
    unsigned char *payload;
    uint16_t *set; /* SETS times dst groups */
    uint32_t set_next;
    uint64_t laps;      /* of serve_round */
    uint64_t looks;     /* of clients at their replies */
    bool split;         /* BENCH_SINGLE: */
    uint64_t served_ns; /* CPU time of the hosts when saturated */
};

/* ---- the machine ---- */

static uint32_t machine_deliver(void *ctx, const struct delivery *d, void *reply,
                                uint32_t reply_max)
{
    struct bench_machine *m = ctx;
    uint64_t word = 0;
    memcpy(&word, d->body, d->bytes < 8 ? d->bytes : 8);
    m->counts.messages++;
    m->counts.sum += word;
    memcpy(reply, &m->counts.messages, 8 < reply_max ? 8 : reply_max);
    return 8 < reply_max ? 8 : reply_max;
}

static const struct mcast_machine machine_calls = {
    .deliver = machine_deliver,
    .state = &state_block_ops,
};

/* ---- opening ---- */

/* What every process of the run derives from the same options. */
static int plan_open(struct bench *b, struct err *e)
{
    const struct bench_args *a = &b->args;
    uint16_t parent[OVERLAY_GROUPS_MAX];
    int rc = nodes_open(&b->nodes, a, e);
    if (rc != 0)
        return rc;
    overlay_shape_fill(a->shape, a->groups, parent);
    rc = overlay_open(&b->overlay, parent, a->groups, e);
    if (rc != 0)
        return rc;
    b->groups = calloc(a->groups, sizeof(*b->groups));
    if (b->groups == NULL)
        return err_set(e, ERR_NOMEM, "no memory for %u groups", a->groups);
    /* As `tram init` places them: the groups' first leaders are spread over the hosts. */
    for (uint32_t g = 0; g < a->groups; g++) {
        b->groups[g].replicas = a->replicas;
        for (uint32_t q = 0; q < a->replicas; q++)
            b->groups[g].nodes[q] = (g + q) % a->hosts;
    }
    b->sizes = (struct mcast_sizes){
        .clients = PLACES,
        .client_node = a->hosts,
        .body_max = a->payload < 1024 ? 1024 : a->payload,
        .reply_max = REPLY_MAX,
        .log_bytes = a->log_bytes,
    };
    return mcast_sizes_settle(&b->sizes, e);
}

static int server_open(struct bench *b, uint32_t h, enum host_wait wait, struct err *e)
{
    const struct bench_args *a = &b->args;
    struct server *s = &b->server[h];
    int rc = nodes_host(&b->nodes, h, &s->mem, e);
    if (rc != 0)
        return rc;
    s->host = calloc(1, sizeof(*s->host));
    s->replica = calloc(a->groups, sizeof(*s->replica));
    s->machine = calloc(a->groups, sizeof(*s->machine));
    if (!s->host || !s->replica || !s->machine)
        return err_set(e, ERR_NOMEM, "no memory for %u groups", a->groups);
    struct host_options ho = {.mem = s->mem, .wait = wait};
    host_init(s->host, &ho);
    for (uint32_t g = 0; g < a->groups; g++)
        for (uint32_t q = 0; q < a->replicas; q++) {
            if (b->groups[g].nodes[q] != h)
                continue;
            struct replica_options to = {
                .mem = s->mem,
                .protocol = a->protocol,
                .overlay = b->overlay,
                .groups = b->groups,
                .group = (uint16_t)g,
                .rank = q,
                .sizes = b->sizes,
                .machine = &machine_calls,
                .ctx = &s->machine[g],
            };
            bench_machine_init(&s->machine[g]);
            rc = replica_open(&to, &s->replica[g], e);
            if (rc != 0)
                return rc;
            host_add(s->host, replica_unit(s->replica[g]));
        }
    return 0;
}

static void server_close(struct bench *b, uint32_t h)
{
    struct server *s = &b->server[h];
    for (uint32_t g = 0; s->replica && g < b->args.groups; g++)
        replica_close(s->replica[g]);
    free(s->host);
    free(s->replica);
    free(s->machine);
    if (s->mem)
        mem_close(s->mem);
}

static void plan_close(struct bench *b)
{
    overlay_close(b->overlay);
    free(b->groups);
    nodes_close(&b->nodes);
}

/* ---- hosts as processes ---- */

int bench_tree_serve(const struct bench_args *a, struct err *e)
{
    struct bench *b = aligned_alloc(128, sizeof(*b));
    if (b == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    memset(b, 0, sizeof(*b));
    b->args = *a;
    signal(SIGINT, SIG_IGN); /* the terminal's ^C ends the parent, and that ends us */
    int rc = plan_open(b, e);
    if (rc == 0)
        rc = server_open(b, a->serve_host, HOST_AUTO, e);
    uint64_t look_ns = 0;
    while (rc == 0) {
        host_step(b->server[a->serve_host].host);
        uint64_t now = clock_now_ns();
        if (now < look_ns)
            continue;
        look_ns = now + 10 * UINT64_C(1000000);
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        if (poll(&in, 1, 0) != 0)
            break;
    }
    server_close(b, a->serve_host);
    plan_close(b);
    free(b);
    return rc;
}

static int server_start(struct bench *b, uint32_t h, struct err *e)
{
    const struct bench_args *a = &b->args;
    char number[8][16];
    const uint32_t values[] = {h, a->groups, a->replicas, a->hosts, a->payload, a->log_bytes};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        snprintf(number[i], sizeof(number[i]), "%u", values[i]);
    const char *argv[] = {"tram",
                          "bench",
                          "--serve-cluster",
                          b->nodes.cluster,
                          "--serve-host",
                          number[0],
                          "--groups",
                          number[1],
                          "--replicas",
                          number[2],
                          "--hosts",
                          number[3],
                          "--payload",
                          number[4],
                          "--protocol",
                          mcast_protocol_name(a->protocol),
                          "--tree",
                          overlay_shape_name(a->shape),
                          "--transport",
                          bench_transport_names[a->transport],
                          "--address",
                          a->address,
                          "--serve-dir",
                          b->nodes.dir,
                          a->log_bytes ? "--log-bytes" : NULL,
                          number[5],
                          NULL};
    return child_start(&b->server[h].child, argv, -1, e);
}

/* ---- clients ---- */

static void on_done(void *ctx, uint64_t seq, bool refused)
{
    struct user *u = ctx;
    (void)seq;
    CHECK(!refused);
    u->done++;
}

static int user_open(struct bench *b, uint32_t place, struct err *e)
{
    struct user *u = &b->user[place];
    int rc = nodes_client(&b->nodes, place, &u->mem, e);
    if (rc != 0)
        return rc;
    struct caster_options co = {
        .mem = u->mem,
        .protocol = b->args.protocol,
        .overlay = b->overlay,
        .groups = b->groups,
        .sizes = b->sizes,
        .place = place,
        .done = on_done,
        .ctx = u,
    };
    rc = caster_open(&co, &u->caster, e);
    for (uint32_t g = 0; rc == 0 && g < b->args.groups; g++)
        rc = caster_group_open(u->caster, (uint16_t)g, e);
    return rc;
}

static void user_close(struct user *u)
{
    caster_close(u->caster);
    if (u->mem)
        mem_close(u->mem);
}

/* Draws the destination sets, so that drawing is not in the figures. */
static int sets_open(struct bench *b, struct err *e)
{
    b->set = calloc((size_t)SETS * b->args.dst, sizeof(*b->set));
    if (b->set == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    return bench_sets(&b->args, b->overlay, b->set, SETS, e);
}

static int cast_next(struct bench *b, struct user *u)
{
    uint32_t i = b->set_next % SETS;
    struct dst_set set = {b->set + (size_t)i * b->args.dst, b->args.dst};
    uint64_t seq;
    int rc = caster_cast(u->caster, set, b->payload, b->args.payload, &seq);
    b->set_next += rc == 0;
    return rc;
}

/* ---- measuring ---- */

static void serve_round(void *ctx, uint64_t now_ns)
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
    serve_round(b, now_ns);
    if (b->split)
        b->served_ns += clock_thread_ns() - cpu;
}

/* Looks for replies, and now and then at the clock; false after the deadline. */
static bool look(struct bench *b, struct user *u, uint64_t *now, uint64_t deadline_ns)
{
    if (b->args.layout == BENCH_SINGLE)
        serve_round(b, *now);
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

/* Waits until the client has nothing under way; false if that is not so at the deadline. */
static bool await(struct bench *b, struct user *u, uint64_t now, uint64_t deadline_ns)
{
    while (caster_outstanding(u->caster) > 0)
        if (!look(b, u, &now, deadline_ns))
            return false;
    return true;
}

/* Casts the next message as soon as there is room for it. The first replies may come before the client has all of
 * its leader's memory, where it is told what was taken. */
static bool cast_one(struct bench *b, struct user *u, uint64_t now, uint64_t deadline_ns)
{
    while (cast_next(b, u) != 0)
        if (!look(b, u, &now, deadline_ns))
            return false;
    return true;
}

static bool send_one(struct bench *b, struct user *u, uint64_t now, uint64_t deadline_ns)
{
    if (!cast_one(b, u, now, deadline_ns))
        return false;
    caster_flush(u->caster);
    return await(b, u, now, deadline_ns);
}

static int measure_latency(void *ctx, struct hist *latency, uint64_t turn_ns)
{
    struct bench *b = ctx;
    uint64_t now = clock_now_ns(), end = now + turn_ns;
    uint64_t give_up = end + BENCH_STARTS_WITHIN_S * UINT64_C(1000000000);
    bool single = b->args.layout == BENCH_SINGLE;
    while (now < end) {
        uint64_t start = single ? clock_thread_ns() : now;
        if (!send_one(b, &b->user[0], now, give_up))
            return ERR_TIMEOUT;
        now = clock_now_ns();
        hist_add(latency, (single ? clock_thread_ns() : now) - start);
    }
    return 0;
}

static uint64_t done_in_all(const struct bench *b)
{
    uint64_t done = 0;
    for (uint32_t c = 0; c < b->clients; c++)
        done += b->user[c].done;
    return done;
}

/* Enough to tell a rate by; or nobody answers. */
static bool enough(const struct bench *b, uint64_t first, uint64_t late_ns)
{
    return done_in_all(b) - first >= MESSAGES_AT_LEAST ||
           late_ns > BENCH_STARTS_WITHIN_S * UINT64_C(1000000000);
}

/* Saturates it for that long with all clients that are open; longer if the other thread or process had
 * no core meanwhile. Returns the seconds that it took. */
static double measure_throughput(struct bench *b, uint64_t for_ns, uint64_t *messages)
{
    bool single = b->args.layout == BENCH_SINGLE;
    uint64_t first = done_in_all(b), start = clock_now_ns(), now = start;
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
    *messages = done_in_all(b) - first;
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
        if (!send_one(b, u, now, now + BENCH_STARTS_WITHIN_S * UINT64_C(1000000000)))
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
        return user_open(b, place, e);
    rig_unpin(&b->rig);
    int rc = user_open(b, place, e);
    rig_pin(&b->rig);
    return rc;
}

/* Opens clients until there are so many. They come only when they are needed: alone means that nobody
 * else is connected. */
static int users_grow(struct bench *b, uint32_t clients, uint64_t warm_up_ns, struct err *e)
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
    int rc = users_grow(b, 1, UINT64_MAX / 2, e);
    if (rc != 0)
        return rc;
    rc = b->args.layout == BENCH_SINGLE
             ? measure_latency(b, &f->latency, for_ns)
             : rig_measure_turns(&b->rig, f, for_ns / BENCH_TURNS, measure_latency, b);
    if (rc != 0)
        return err_set(e, rc, "a message was not delivered within %d s", BENCH_STARTS_WITHIN_S);
    rc = users_grow(b, b->args.clients, UINT64_MAX / 2, e);
    if (rc != 0)
        return rc;
    struct counts before = {0}, after = {0};
    if (b->args.layout != BENCH_PROCS)
        before = count_batches(b);
    f->seconds = measure_throughput(b, for_ns, &f->messages);
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
    int rc = users_grow(b, 1, for_ns, e);
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
        rc = users_grow(b, b->args.load[i], for_ns, e);
        if (rc != 0)
            return rc;
        /* First until it flows: a turn is short beside what large messages need to fill all rings. */
        measure_throughput(b, for_ns / 4, &messages);
        bool last = i + 1 == b->args.loads && b->args.layout != BENCH_PROCS;
        struct counts before = last ? count_batches(b) : (struct counts){0};
        double seconds = measure_throughput(b, for_ns, &messages);
        p->rate[i] = (double)messages / seconds;
        if (last)
            p->entries = (double)(count_batches(b).messages - before.messages) / (double)messages;
    }
    return 0;
}

/* ---- counting work ---- */

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
    double done = (double)done_in_all(b);
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
            serve_round(b, now);
        return true;
    case BENCH_IDLE_TIME:
        for (int i = 0; i < WORK_LAPS; i++)
            serve_round(b, clock_now_ns());
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
            if (!send_one(b, u, now, give_up))
                return false;
        return true;
    default:
        /* For so long of CPU time: how much of it there is in a time depends on who else wants it. */
        for (uint64_t cpu = clock_thread_ns(); clock_thread_ns() - cpu < b->args.part_ns;)
            measure_throughput(b, b->args.part_ns / 8, &messages);
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
    if (part == BENCH_LOOK && !cast_one(b, &b->user[0], now, give_up))
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
        done &= await(b, &b->user[0], now, give_up);
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
    int rc = users_grow(b, 1, UINT64_MAX / 2, e);
    for (enum bench_part part = 0; rc == 0 && part < BENCH_PARTS; part++) {
        struct model_work least[2];
        if (part == BENCH_SEND)
            continue; /* comes with BENCH_MANY */
        if (part == BENCH_MANY)
            rc = users_grow(b, b->args.clients, b->args.part_ns, e);
        for (uint32_t c = 0; c < b->clients; c++)
            count_writes(b->user[c].mem);
        if (rc == 0 && !measure_part(b, part, least))
            return err_set(e, ERR_TIMEOUT, "a message was not delivered within %d s",
                           BENCH_STARTS_WITHIN_S);
        memcpy(work + part, least, (part == BENCH_MANY ? 2 : 1) * sizeof(*work));
    }
    return rc;
}

static int open_all(struct bench *b, struct err *e)
{
    const struct bench_args *a = &b->args;
    int rc = plan_open(b, e);
    if (rc == 0)
        rc = sets_open(b, e);
    if (rc == 0 && a->layout != BENCH_SINGLE)
        rc = rig_cores(&b->rig, e);
    /* Before anything of a network is open: the other process would have it too. */
    if (rc == 0 && a->transport != BENCH_SHM) {
        b->rig.wire = &b->wire;
        rc = wire_open(&b->wire, &b->nodes, a, b->rig.core[1], e);
    }
    for (uint32_t h = 0; rc == 0 && h < a->hosts; h++)
        rc = a->layout == BENCH_PROCS ? server_start(b, h, e) : server_open(b, h, HOST_SPIN, e);
    /* Over a network it needs hosts that are polled. */
    return rc == 0 && a->transport == BENCH_SHM ? user_open(b, 0, e) : rc;
}

/* Opens it all, measures, closes it. */
static int run(const struct bench_args *a,
               int (*measure)(struct bench *b, void *out, struct err *e), void *out, struct err *e)
{
    struct bench *b = aligned_alloc(128, sizeof(*b));
    if (b == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    memset(b, 0, sizeof(*b));
    b->args = *a;
    b->rig.round = a->layout == BENCH_PROCS ? NULL : serve_round;
    b->rig.ctx = b;
    b->payload = malloc(a->payload + 8);
    int rc = b->payload ? open_all(b, e) : err_set(e, ERR_NOMEM, "out of memory");
    if (rc == 0) {
        memset(b->payload, 0x5a, a->payload);
        rc = a->layout == BENCH_SINGLE ? 0 : rig_start(&b->rig, e);
    }
    if (rc == 0) {
        rc = measure(b, out, e);
        if (a->layout != BENCH_SINGLE)
            rig_stop(&b->rig);
    }
    for (uint32_t c = 0; c < BENCH_CLIENTS_MAX; c++)
        user_close(&b->user[c]);
    for (uint32_t h = 0; h < a->hosts; h++) {
        child_stop(&b->server[h].child);
        server_close(b, h);
    }
    wire_close(&b->wire);
    plan_close(b);
    free(b->set);
    free(b->payload);
    free(b);
    return rc;
}

int bench_tree(const struct bench_args *a, struct bench_figures *f, struct err *e)
{
    return run(a, measure_figures, f, e);
}

int bench_tree_point(const struct bench_args *a, struct bench_point *p, struct err *e)
{
    memset(p, 0, sizeof(*p));
    return run(a, measure_point, p, e);
}

int bench_tree_work(const struct bench_args *a, struct model_work part[BENCH_PARTS], struct err *e)
{
    CHECK(a->layout == BENCH_SINGLE);
    return run(a, measure_work, part, e);
}
