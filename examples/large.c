/* A group with a large state, in the simulator: a host is killed, comes back, and takes the state while messages go on.
 *
 * chunked.h has the state: it can be frozen quickly, and is saved and loaded in pieces. Real hosts are given the same
 * machine with tram_host_open. */
#include "chunked.h"
#include "tram/sim.h"

#include <inttypes.h>
#include <stdio.h>

enum { CELL_BYTES = 64, STATE_BYTES = 4 << 20 };

/* Writes a message into the cell that its first bytes name; replies with what was there. */
static uint32_t deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t reply_max)
{
    struct chunked *s = ctx;
    uint64_t cell;
    if (d->bytes != CELL_BYTES || reply_max < CELL_BYTES)
        return 0;
    memcpy(&cell, d->body, sizeof(cell));
    unsigned char *at = chunked_write(s, cell * CELL_BYTES % s->bytes);
    if (at == NULL)
        return 0;
    memcpy(reply, at, CELL_BYTES);
    memcpy(at, d->body, CELL_BYTES);
    return CELL_BYTES;
}

static void *save_open(void *ctx, uint32_t group, uint64_t *bytes)
{
    (void)group;
    return chunked_save_open(ctx, bytes);
}

static int save_next(void *ctx, uint32_t group, void *save, void *out, uint32_t room)
{
    (void)ctx, (void)group;
    return chunked_save_next(save, out, room);
}

static void save_close(void *ctx, uint32_t group, void *save)
{
    (void)ctx, (void)group;
    chunked_save_close(save);
}

static int load_open(void *ctx, uint32_t group, uint64_t bytes)
{
    (void)group;
    return chunked_load_open(ctx, bytes);
}

static int load_next(void *ctx, uint32_t group, const void *data, uint32_t bytes)
{
    (void)group;
    return chunked_load_next(ctx, data, bytes);
}

static int load_close(void *ctx, uint32_t group, bool whole)
{
    (void)group;
    return chunked_load_close(ctx, whole);
}

/* What every host begins with. */
static void *start(void *user, const char *host)
{
    struct chunked *s = malloc(sizeof(*s));
    (void)user, (void)host;
    if (s == NULL || !chunked_init(s, STATE_BYTES))
        exit(1);
    return s;
}

static void end(void *user, const char *host, void *ctx)
{
    (void)user, (void)host;
    chunked_clear(ctx);
    free(ctx);
}

static int check(int rc, const struct tram_error *e)
{
    if (rc >= 0)
        return rc;
    fprintf(stderr, "large: %s\n", e->text);
    exit(1);
}

static uint64_t call(struct tram_sim *sim, struct tram_client *client, uint64_t number)
{
    struct tram_error e = {""};
    unsigned char body[CELL_BYTES] = {0};
    uint64_t cell = number * 7919, began = tram_sim_now(sim);
    memcpy(body, &cell, sizeof(cell));
    check(tram_call(client, (uint16_t[]){0}, 1, body, sizeof(body), NULL, 0, NULL, 10000000000, &e),
          &e);
    return tram_sim_now(sim) - began;
}

int main(void)
{
    struct tram_error e = {""};
    struct tram_cluster *cluster;
    struct tram_sim *sim;
    struct tram_client *client;
    struct tram_sim_options o = {
        .seed = 1,
        .machine = {.deliver = deliver,
                    .save_open = save_open,
                    .save_next = save_next,
                    .save_close = save_close,
                    .load_open = load_open,
                    .load_next = load_next,
                    .load_close = load_close},
        .start = start,
        .end = end,
        .compare_every = 2000, /* states are large */
        .state_call_ns = 2000,
        .state_kib_ns = 500,
    };
    check(tram_cluster_parse("name: large\nhosts: [{name: h1}, {name: h2}, {name: h3}]\n"
                             "groups: [{name: cells, replicas: [h1, h2, h3]}]\n",
                             "large", &cluster, &e),
          &e);
    check(tram_sim_open(cluster, &o, &sim, &e), &e);
    check(tram_sim_client_open(sim, NULL, &client, &e), &e);
    uint64_t worst_ns = 0, number = 0;
    while (number < 100)
        call(sim, client, number++);
    check(tram_sim_kill(sim, "h3", true, &e), &e);
    check(tram_sim_start(sim, "h3", &e), &e);
    uint64_t began = tram_sim_now(sim);
    struct tram_replica_stats s = {.behind = true};
    while (s.behind) {
        uint64_t took = call(sim, client, number++);
        worst_ns = took > worst_ns ? took : worst_ns;
        check(tram_sim_replica(sim, "h3", "cells", &s), &e);
    }
    printf("h3 is back after %.1f ms; %" PRIu64 " calls meanwhile, the longest of %.1f ms\n",
           (double)(tram_sim_now(sim) - began) / 1e6, number - 100, (double)worst_ns / 1e6);
    check(tram_sim_run_idle(sim, 1000000000, &e), &e);
    check(tram_sim_check(sim, NULL, &e), &e);
    tram_client_close(client);
    tram_sim_close(sim);
    tram_cluster_free(cluster);
    return 0;
}
