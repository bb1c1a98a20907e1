#include "cli/member_host.h"

#include "api/api.h"
#include "base/clock.h"
#include "base/hash.h"
#include "cli/cmd.h"
#include "cli/log_lines.h"
#include "tram/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BEHIND_MAX = 1000 }; /* messages that are made up for, when it could not send for a while */

#define SECOND_NS UINT64_C(1000000000)

/* The state of a cell. */
struct tally {
    uint64_t count, hash; /* of bodies, in order */
};

struct tallies {
    struct tram_group *group;
    struct tally *cell;
    uint64_t sent; /* messages, to each cell */
};

static void on_deliver(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                       uint32_t count)
{
    struct tallies *t = ctx;
    struct tally *of = &t->cell[cell];

    (void)view;
    for (uint32_t i = 0; i < count; i++)
        of->hash = hash_bytes(of->hash, item[i].data, item[i].bytes);
    of->count += count;
    api_group_state(t->group, cell, of->count, of->hash);
}

static void on_born(void *ctx, uint32_t cell)
{
    struct tallies *t = ctx;

    t->cell[cell] = (struct tally){0};
    api_group_state(t->group, cell, 0, 0);
}

static int on_save(void *ctx, uint32_t cell, void **data, size_t *bytes)
{
    const struct tallies *t = ctx;

    *bytes = sizeof t->cell[cell];
    *data = malloc(*bytes);
    if (*data == NULL)
        return -1;
    memcpy(*data, &t->cell[cell], *bytes);
    return 0;
}

static int on_load(void *ctx, uint32_t cell, const void *data, size_t bytes)
{
    struct tallies *t = ctx;

    if (bytes != sizeof t->cell[cell])
        return -1;
    memcpy(&t->cell[cell], data, bytes);
    api_group_state(t->group, cell, t->cell[cell].count, t->cell[cell].hash);
    return 0;
}

static int complain(const struct member_host *a, const char *text)
{
    log_line_complain(a->log, "host", a->name, text);
    return CMD_FAILED;
}

/* Whatever is due since the start, but for what a long wait has left undone. */
static void send_due(const struct member_host *a, struct tallies *t, uint32_t cells,
                     uint64_t since_ns)
{
    uint64_t due = (clock_now_ns() - since_ns) * a->rate / SECOND_NS;
    struct {
        uint64_t number, ns;
        char host[16];
    } body = {0};

    if (tram_group_view(t->group) == NULL || due > t->sent + BEHIND_MAX)
        t->sent = due;
    snprintf(body.host, sizeof body.host, "%s", a->name);
    for (; t->sent < due; t->sent++) {
        body.number = t->sent;
        body.ns = clock_now_ns();
        for (uint32_t i = 0; i < cells; i++)
            if (tram_group_send(t->group, i, &body, sizeof body, NULL) == TRAM_AGAIN)
                return; /* some have it, and it is sent again to all: it is a load, no more */
    }
}

static int serve(const struct member_host *a, const struct tram_cluster *c, struct tallies *t)
{
    struct tram_error e = {""};
    uint64_t since_ns = clock_now_ns();
    const uint32_t cells = cluster_cells(c->conf);

    /* The first step writes the page, by which others see that this host is there. */
    int rc = tram_group_step(t->group, &e);
    if (rc >= 0 && !a->quiet)
        printf("%s is up, as process %d\n", a->name, (int)getpid());
    fflush(stdout);
    while (rc >= 0 && !*a->stop) {
        rc = tram_group_step(t->group, &e);
        if (a->rate > 0)
            send_due(a, t, cells, since_ns);
    }
    if (rc >= 0)
        return CMD_DONE;
    complain(a, e.text);
    return rc == TRAM_DATA_LOST ? CMD_LOST : CMD_FAILED;
}

int member_host_run(const struct member_host *a, const struct tram_cluster *c)
{
    struct tram_error e = {""};
    struct tallies t = {.cell = calloc(cluster_cells(c->conf), sizeof(*t.cell))};
    struct tram_group_options o = {
        .host = a->name,
        .machine = {.deliver = on_deliver, .born = on_born, .save = on_save, .load = on_load},
        .ctx = &t,
        .trace_dir = a->trace,
    };

    if (t.cell == NULL)
        return complain(a, "no memory");
    int rc = tram_group_open(c, &o, &t.group, &e);
    int code = rc < 0 ? complain(a, e.text) : serve(a, c, &t);
    if (rc == 0)
        tram_group_close(t.group);
    free(t.cell);
    return code;
}
