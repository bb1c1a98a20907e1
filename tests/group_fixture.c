#include "group_fixture.h"

#include "disk/disk.h"
#include "group/versions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TICK_NS = 500,
    WAY_NS = 400,
    LOST_US = 100,
    HEARTBEAT_US = 15,
    SUSPECT_US = 60,
    FIRST_VIEW_US = 2000,
    CLIENT_RETRY_US = 120,
};

void views_violated(struct views *v, const char *property, const char *text)
{
    group_check_violated(&v->check, property, 0, "%s", text);
}

/* ---- what members are told ---- */

static void look_states(const struct views_host *h)
{
    for (uint32_t k = 0; k < h->of->opt.cells; k++)
        if (h->of->check.host[h->number].cell[k].behind && member_has_state(h->member, k))
            group_check_has(&h->of->check, h->number, k);
}

static void on_deliver(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *m,
                       uint32_t count)
{
    struct views_host *h = ctx;
    look_states(h);
    for (uint32_t i = 0; i < count; i++)
        group_check_deliver(&h->of->check, h->number, cell, vid, &m[i]);
}

static void on_view(void *ctx, const struct view *before, const struct view *now)
{
    struct views_host *h = ctx;
    const struct view *next = keeper_view(member_keeper(h->member));
    if (now)
        group_check_view(&h->of->check, h->number, before, now);
    else
        group_check_out(&h->of->check, h->number,
                        before && next->vid == before->vid + 1 && in_set(next->leavers, h->number));
}

static void on_returned(void *ctx, uint32_t cell, const void *data, uint32_t bytes)
{
    struct views_host *h = ctx;
    group_check_returned(&h->of->check, h->number, cell, data, bytes);
}

static void on_born(void *ctx, uint32_t cell)
{
    struct views_host *h = ctx;
    group_check_born(&h->of->check, h->number, cell);
}

static void *state_ctx(void *ctx, uint32_t cell)
{
    struct views_host *h = ctx;
    return &h->counter[cell];
}

static struct views *loading; /* whose tick it is: a counter does not say whose it is */

static void on_load(struct counter_machine *counter, bool good)
{
    for (uint32_t q = 0; q < loading->opt.hosts; q++)
        for (uint32_t k = 0; k < loading->opt.cells; k++)
            if (counter == &loading->host[q].counter[k])
                group_check_loaded(&loading->check, q, k, good,
                                   member_is_behind(loading->host[q].member, k));
}

static const struct member_machine machine = {.deliver = on_deliver,
                                              .view = on_view,
                                              .returned = on_returned,
                                              .born = on_born,
                                              .state = &counter_machine_ops,
                                              .state_ctx = state_ctx};

/* ---- disks ---- */

enum { SEGMENT_BYTES = 1 << 20, SEGMENTS = 8 };

static void must(int rc, const struct err *e)
{
    if (rc == 0)
        return;
    fprintf(stderr, "%s\n", e->text);
    abort();
}

static void disk_start(struct views_host *h)
{
    struct views *v = h->of;
    struct err e = {""};
    bool first = h->platters[0] == NULL;
    struct disk_shape shape = {.cluster = "stepped", .groups = 1, .hosts = v->opt.hosts};
    struct versions_log_options log[GROUP_CHECK_CELLS_MAX + 1] = {member_views_log_options()};
    snprintf(shape.host, sizeof(shape.host), "h%u", h->number);
    for (uint32_t i = 0; first && i < 2; i++)
        h->platters[i] = disk_sim_open(&(struct disk_sim_options){.seed = 2 * h->number + i + 1});
    h->disk_ns = sim_now(v->sim);
    if (first) {
        struct block *b = disk_sim_block(h->platters[0], &h->disk_ns);
        must(disk_format(b, &shape, 0, &e), &e);
        block_close(b);
    }
    must(disk_open(&(struct disk_options){.block = disk_sim_block(h->platters[0], &h->disk_ns),
                                          .shape = shape,
                                          .segment_bytes = SEGMENT_BYTES,
                                          .bytes = SEGMENTS * SEGMENT_BYTES,
                                          .buffer_bytes = SEGMENT_BYTES,
                                          .batch_bytes = SEGMENT_BYTES / 4},
                   &h->disk, &e),
         &e);
    for (uint32_t k = 0; k < v->opt.cells; k++)
        log[versions_of_cell(k)] = member_log_options(&v->cell[k]);
    must(versions_open(
             &(struct versions_options){.block = disk_sim_block(h->platters[1], &h->disk_ns),
                                        .owner = {.cluster = "stepped", .host = h->number},
                                        .log = log,
                                        .logs = v->opt.cells + 1,
                                        .retry_ns = 100 * US},
             &h->versions, &e),
         &e);
}

/* Its process has ended. */
static void disk_die(struct views_host *h)
{
    for (uint32_t i = 0; i < 2; i++)
        disk_sim_die(h->platters[i]);
    disk_close(h->disk);
    versions_close(h->versions);
    h->disk = NULL;
    h->versions = NULL;
}

void views_power_cut(struct views *v, uint64_t hosts)
{
    for (uint64_t rest = hosts; rest; rest = set_rest(rest)) {
        struct views_host *h = &v->host[set_first(rest)];
        if (h->unit.of)
            views_kill(v, h->number, false);
        for (uint32_t i = 0; i < 2; i++)
            disk_sim_power_cut(h->platters[i]);
    }
}

/* ---- hosts ---- */

void views_start(struct views *v, uint32_t host)
{
    struct views_host *h = &v->host[host];
    struct err e = {""};
    for (uint32_t k = 0; k < v->opt.cells; k++)
        h->counter[k] =
            (struct counter_machine){.pad = v->opt.pad ? v->opt.pad : 500, .on_load = on_load};
    h->mem = sim_node_start(v->sim, host);
    h->held = false;
    if (v->opt.durable)
        disk_start(h);
    struct member_options o = {.mem = h->mem,
                               .hosts = v->opt.hosts,
                               .me = host,
                               .keepers = v->keeper,
                               .keepers_count = v->opt.keepers,
                               .cell = v->cell,
                               .cells = v->opt.cells,
                               .view_majority = v->opt.majority,
                               .block_bytes = v->opt.block_bytes,
                               .snap_bytes = VIEWS_RING,
                               .backlog_bytes = v->opt.backlog ? v->opt.backlog : 1,
                               .heartbeat_ns = HEARTBEAT_US * US,
                               .suspect_ns = SUSPECT_US * US,
                               .stagger_ns = 10 * US,
                               .detach_ns = 100 * US,
                               .start_ns = 50 * US,
                               .disk = h->disk,
                               .versions = h->versions,
                               .seed = host + 1,
                               .clients = v->opt.clients,
                               .client_node = v->opt.hosts,
                               .client_bytes = VIEWS_RING,
                               .machine = &machine,
                               .ctx = h};
    if (member_open(&o, &h->member, &e) != 0) {
        fprintf(stderr, "%s\n", e.text);
        abort();
    }
    h->unit = member_unit(h->member);
}

void views_kill(struct views *v, uint32_t host, bool keep_memory)
{
    struct views_host *h = &v->host[host];
    unit_close(&h->unit);
    h->member = NULL;
    for (uint32_t i = 0; i < GROUP_CHECK_CELLS_MAX; i++)
        if (h->counter[i].saves || h->counter[i].loading)
            views_violated(v, "states", "a save or a load that has begun is not ended");
    group_check_died(&v->check, host);
    if (h->disk)
        disk_die(h);
    sim_node_crash(v->sim, host, keep_memory);
}

void views_hold(struct views *v, uint32_t host)
{
    v->host[host].held = true;
    sim_node_pause(v->sim, host, true);
}

void views_release(struct views *v, uint32_t host)
{
    v->host[host].held = false;
    sim_node_pause(v->sim, host, false);
}

void views_cut(struct views *v, uint32_t a, uint32_t b, bool cut)
{
    sim_cut(v->sim, a, b, cut);
    sim_cut(v->sim, b, a, cut);
}

void views_step(struct views *v, uint32_t host)
{
    struct views_host *h = &v->host[host];
    uint64_t now = sim_now(v->sim);
    const char *broken;
    loading = v;
    h->disk_ns = now;
    if (h->disk)
        disk_round(h->disk, now);
    unit_post(&h->unit, now);
    mem_poll(h->mem);
    for (struct mem_lane_spec offer; mem_offer(h->mem, &offer);)
        if (h->unit.ops->offer(&h->unit, &offer, &(struct err){""}) != 0)
            views_violated(v, "opens", "a client is not served");
    unit_settle(&h->unit, now);
    look_states(h);
    if ((broken = member_check(h->member)) || (broken = member_broken(h->member)))
        views_violated(v, "rule", broken);
}

void views_tick(struct views *v)
{
    for (uint32_t q = 0; q < v->opt.hosts && v->result.property == NULL; q++)
        if (v->host[q].unit.of && !v->host[q].held)
            views_step(v, q);
    for (uint32_t i = 0; i < v->opt.clients && v->result.property == NULL; i++)
        if (v->client[i].client)
            views_client_step(v, i);
    uint64_t to = sim_now(v->sim) + TICK_NS;
    while (sim_next_ns(v->sim) <= to)
        sim_step(v->sim);
    sim_pass(v->sim, to);
}

void views_run(struct views *v, uint64_t us)
{
    uint64_t end = sim_now(v->sim) + us * US;
    while (v->result.property == NULL && sim_now(v->sim) < end)
        views_tick(v);
}

/* ---- clients ---- */

static void on_done(void *ctx, uint64_t ticket, const struct client_reply_item *r)
{
    struct views_client *k = ctx;
    const struct group_told *t = /* tickets rise by a window */
        &k->of->check.clients.told[k->first + ticket / CLIENT_WINDOW - 1];
    k->done++;
    if (r->status != 0 || t->born == 0)
        views_violated(k->of, "clients", "a message is done and was not delivered");
}

static void on_samples(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *m,
                       uint32_t count, uint64_t lost)
{
    struct views_client *k = ctx;
    (void)cell, (void)vid, (void)m, (void)lost;
    k->fed += count;
}

void views_client_open(struct views *v, uint32_t client)
{
    static const struct client_calls calls = {.done = on_done, .samples = on_samples};
    struct views_client *k = &v->client[client];
    struct err e = {""};
    *k = (struct views_client){.of = v, .first = v->check.clients.count};
    k->mem = sim_node_start(v->sim, v->opt.hosts + client);
    const uint64_t all = (UINT64_C(1) << v->opt.hosts) - 1;
    v->client_cell = (struct client_cell){.hosts = v->opt.client_hosts ? v->opt.client_hosts : all,
                                          .readers = all,
                                          .message_max = VIEWS_RING / 8};
    const struct client_options o = {.mem = k->mem,
                                     .hosts = v->opt.hosts,
                                     .place = client,
                                     .cell = &v->client_cell,
                                     .cells = 1,
                                     .client_bytes = VIEWS_RING,
                                     .retry_ns = CLIENT_RETRY_US * US,
                                     .calls = &calls,
                                     .ctx = k};
    if (client_open(&o, &k->client, &e) != 0)
        abort();
}

void views_client_step(struct views *v, uint32_t client)
{
    struct views_client *k = &v->client[client];
    struct err e = {""};
    mem_poll(k->mem);
    for (uint32_t h; (h = client_wants_link(k->client)) < v->opt.hosts;)
        if (client_link_open(k->client, h, &e) != 0)
            views_violated(v, "opens", e.text);
    client_settle(k->client, sim_now(v->sim));
}

void views_client_fill(struct views *v, uint32_t client, uint32_t bytes)
{
    const unsigned char data[300] = {0};
    uint64_t ticket;
    while (client_send(v->client[client].client, 0, data, bytes, &ticket) == 0)
        ;
}

void views_client_send(struct views *v, uint32_t client, uint32_t bytes)
{
    unsigned char data[GROUP_CHECK_BYTES_MAX];
    uint64_t ticket, index = group_clients_new(&v->check, client, 0, bytes);
    group_clients_fill(&v->check, index, data);
    if (client_send(v->client[client].client, 0, data, bytes, &ticket) != 0)
        views_violated(v, "clients", "a message is refused");
}

/* ---- sending and looking ---- */

bool views_send(struct views *v, uint32_t host, uint32_t cell, uint32_t bytes)
{
    unsigned char data[GROUP_CHECK_BYTES_MAX];
    if (v->result.property)
        return false;
    struct group_lease lease = group_check_reserve(&v->check, host, cell);
    group_check_fill(&v->check, lease, data, bytes);
    bool sent = member_send(v->host[host].member, cell, data, bytes) == 0;
    if (sent)
        group_check_commit(lease, bytes);
    else
        group_check_release(lease);
    return sent;
}

uint64_t views_delivered(const struct views *v, uint32_t host, uint32_t cell)
{
    return v->host[host].counter[cell].state.count;
}

uint64_t views_vid(const struct views *v, uint32_t host)
{
    const struct view *w = v->host[host].member ? member_view(v->host[host].member) : NULL;
    return w ? w->vid : 0;
}

static bool host_settled(const struct views *v, uint32_t host, uint64_t hosts)
{
    const struct member *m = v->host[host].member;
    const struct view *w = m ? member_view(m) : NULL;
    if (w == NULL || w->members != hosts || member_wedged(m) ||
        group_check_outstanding(&v->check, host) > 0)
        return false;
    for (uint32_t k = 0; k < v->opt.cells; k++) {
        const struct group_history *y = group_check_history(&v->check, w, k);
        if (in_set(w->cell[k].learners, host))
            return false;
        if (in_set(w->cell[k].members, host) &&
            (!member_has_state(m, k) || views_delivered(v, host, k) != (y ? y->count : 0)))
            return false;
    }
    return true;
}

bool views_settled(const struct views *v, uint64_t hosts)
{
    for (uint64_t rest = hosts; rest; rest = set_rest(rest))
        if (!host_settled(v, set_first(rest), hosts))
            return false;
    return true;
}

void views_until_settled(struct views *v, uint64_t hosts, uint64_t us)
{
    uint64_t end = sim_now(v->sim) + us * US;
    while (v->result.property == NULL && sim_now(v->sim) < end && !views_settled(v, hosts))
        views_tick(v);
    if (!views_settled(v, hosts))
        views_violated(v, "liveness", "they are not in one view, or have not delivered the same");
}

/* ---- opening ---- */

struct views *views_open(const struct views_options *o)
{
    struct views *v = calloc(1, sizeof(*v));
    struct err e = {""};
    if (v == NULL)
        abort();
    v->opt = *o;
    v->opt.cells = o->cells ? o->cells : 1;
    v->check = (struct group_check){.result = &v->result,
                                    .seed = 1,
                                    .hosts = o->hosts,
                                    .cells = v->opt.cells,
                                    .view_majority = o->majority};
    struct sim_options so = {.seed = o->seed ? o->seed : 1,
                             .nodes_max = o->hosts + o->clients,
                             .clients_from = o->clients ? o->hosts : 0,
                             .delay_ns_min = WAY_NS,
                             .delay_ns_max = WAY_NS,
                             .lost_after_ns = LOST_US * US,
                             .shared = o->shared,
                             .links = {.on = o->links}};
    v->sim = sim_open(&so, &e);
    for (uint32_t k = 0; k < v->opt.cells; k++) {
        v->cell[k] = (struct cell_options){.ring_bytes = VIEWS_RING,
                                           .large_max = o->block_bytes ? GROUP_CHECK_BYTES_MAX : 0,
                                           .rdmc = RDMC_PIPELINE,
                                           .layout = o->layout[k]};
        if (o->layout[k].hosts == 0)
            v->cell[k].layout = (struct cell_layout){.hosts = (UINT64_C(1) << o->hosts) - 1,
                                                     .members_min = 1,
                                                     .senders = UINT64_MAX,
                                                     .overlap = true};
        v->cell[k].layout.subgroup = k;
        v->cell[k].mode = o->durable ? CELL_DURABLE : CELL_MEMORY;
        v->check.kept |= o->durable ? UINT32_C(1) << k : 0;
        v->check.durable = v->check.kept;
    }
    for (uint32_t q = 0; q < o->hosts; q++) {
        v->keeper[q % GROUP_KEEPERS_MAX] = q;
        v->host[q] = (struct views_host){.of = v, .number = q};
        for (uint32_t k = 0; k < v->opt.cells; k++)
            v->check.host[q].cell[k].state = &v->host[q].counter[k].state;
    }
    for (uint32_t q = 0; q < o->hosts; q++)
        views_start(v, q);
    views_until_settled(v, (UINT64_C(1) << o->hosts) - 1, FIRST_VIEW_US);
    views_run(v, HEARTBEAT_US); /* by then everybody knows that all have begun it, and sends */
    return v;
}

const char *views_close(struct views *v)
{
    const char *property = v->result.property;
    if (property != NULL)
        printf("# %s: %s\n", property, v->result.text);
    for (uint32_t q = 0; q < v->opt.hosts; q++)
        if (v->host[q].unit.of)
            unit_close(&v->host[q].unit);
    for (uint32_t i = 0; i < v->opt.clients; i++)
        client_close(v->client[i].client);
    for (uint32_t q = 0; q < v->opt.hosts; q++) {
        if (v->host[q].disk)
            disk_die(&v->host[q]);
        for (uint32_t i = 0; i < 2; i++)
            disk_sim_close(v->host[q].platters[i]);
    }
    sim_close(v->sim);
    group_check_fini(&v->check);
    free(v);
    return property;
}
