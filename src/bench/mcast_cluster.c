/* The cluster that is measured: its plan, its hosts in this process or in others, its clients. */
#include "base/clock.h"
#include "base/lines.h"
#include "bench/mcast_impl.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PLACES = BENCH_CLIENTS_MAX,
    REPLY_MAX = 16,
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
    s->host = lines_alloc(sizeof(*s->host));
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
    struct bench *b = lines_alloc(sizeof(*b));
    if (b == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
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
                          NULL,
                          NULL,
                          NULL,
                          NULL};
    size_t more = sizeof(argv) / sizeof(argv[0]) - 4;
    if (a->clear)
        argv[more++] = "--clear";
    if (a->log_bytes) {
        argv[more++] = "--log-bytes";
        argv[more] = number[5];
    }
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

int bench_user_open(struct bench *b, uint32_t place, struct err *e)
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

/* ---- all of it ---- */

int bench_cluster_open(struct bench *b, struct err *e)
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
    return rc == 0 && a->transport == BENCH_SHM ? bench_user_open(b, 0, e) : rc;
}

void bench_cluster_close(struct bench *b)
{
    for (uint32_t c = 0; c < BENCH_CLIENTS_MAX; c++)
        user_close(&b->user[c]);
    for (uint32_t h = 0; h < b->args.hosts; h++) {
        child_stop(&b->server[h].child);
        server_close(b, h);
    }
    wire_close(&b->wire);
    plan_close(b);
    free(b->set);
}
