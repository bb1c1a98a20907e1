/* What the fleet calls: replicas with the user's state machine, and clients as the API has them. */
#include "sim/tram_sim_impl.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    CLIENT_LOOKS_NS = 5000000
}; /* how often one that waits looks after its rings, as on shared memory */

/* ---- replicas ---- */

static struct state_compare_who who(const struct world_place *r)
{
    return (struct state_compare_who){
        .group = r->at->group, .host = r->at->host->node, .life = r->at->host->mem->life};
}

void world_fail(struct tram_sim *s, struct fleet_node *n, int code, const char *text)
{
    if (s->failure != 0)
        return;
    s->failed = n;
    s->failure = err_set(&s->failure_text, code, "%s", text);
}

/* Compares the state as it is now. */
static void show_state(struct world_place *r, uint64_t count, bool loaded)
{
    void *data;
    size_t bytes;
    if (r->sim->opt.replies_only)
        return;
    if (api_save_whole(&r->machine, &data, &bytes))
        state_compare_state(r->sim->compare, who(r), count, loaded, data, bytes,
                            tram_sim_now(r->sim));
    free(data);
}

static uint32_t on_deliver(void *ctx, const struct delivery *d, void *reply, uint32_t reply_max)
{
    struct world_place *r = ctx;
    struct tram_sim *s = r->sim;
    uint32_t bytes = api_deliver(&r->machine, d, reply, reply_max);
    chaos_trace(&s->fleet.chaos, "%s delivers c%u.%u:%" PRIu64 " as %" PRIu64 ", replies %u bytes",
                r->at->name, d->client, d->life, d->seq, d->number, bytes);
    if (r->machine.failure)
        return bytes;
    state_compare_deliver(s->compare, who(r), d, reply, bytes, tram_sim_now(s));
    if ((d->number + 1) % s->opt.compare_every == 0)
        show_state(r, d->number + 1, false);
    s->news++;
    return bytes;
}

static void spend(struct world_place *r, uint64_t bytes)
{
    r->spent_ns += r->sim->opt.state_call_ns + r->sim->opt.state_kib_ns * bytes / 1024;
}

static int on_save_next(void *ctx, void *save, void *out, uint32_t room)
{
    struct world_place *r = ctx;
    int got = api_save_next(&r->machine, save, out, room);
    spend(r, got > 0 ? (uint64_t)got : 0);
    return got;
}

static int on_load_next(void *ctx, const void *data, uint32_t bytes)
{
    struct world_place *r = ctx;
    spend(r, bytes);
    return api_load_next(&r->machine, data, bytes);
}

static void *on_save_open(void *ctx, uint64_t *bytes)
{
    struct world_place *r = ctx;
    spend(r, 0);
    show_state(r, replica_delivered(r->replica), false);
    return r->machine.failure ? NULL : api_save_open(&r->machine, bytes);
}

static int on_load_close(void *ctx, bool whole)
{
    struct world_place *r = ctx;
    struct tram_sim *s = r->sim;
    uint64_t count = replica_delivered(r->replica);
    spend(r, 0);
    int rc = api_load_close(&r->machine, whole);
    if (!whole)
        return rc;
    chaos_trace(&s->fleet.chaos, "%s has loaded %" PRIu64 " messages", r->at->name, count);
    state_compare_start(s->compare, who(r), count, tram_sim_now(s));
    if (!r->machine.failure)
        show_state(r, count, true);
    s->news++;
    return rc;
}

static const struct state_ops state_calls = {
    .save_open = on_save_open,
    .save_next = on_save_next,
    .save_close = api_save_close,
    .load_open = api_load_open,
    .load_next = on_load_next,
    .load_close = on_load_close,
};

static const struct mcast_machine machine_calls = {.deliver = on_deliver, .state = &state_calls};

struct world_place *world_place_at(const struct fleet_member *m)
{
    const struct tram_sim *s = m->host->fleet->ctx;
    return &s->process[m->host->node].place[m - m->host->member];
}

static uint64_t place_spent(struct fleet_member *m)
{
    struct world_place *r = world_place_at(m);
    uint64_t spent_ns = r->spent_ns;
    r->spent_ns = 0;
    return spent_ns;
}

static void host_born(struct fleet_node *n)
{
    struct tram_sim *s = n->fleet->ctx;
    s->process[n->node].ctx = s->opt.start ? s->opt.start(s->opt.user, n->name) : NULL;
    s->news++;
}

static void host_died(struct fleet_node *n)
{
    struct tram_sim *s = n->fleet->ctx;
    struct world_process *p = &s->process[n->node];
    for (uint32_t i = 0; i < n->members; i++)
        api_machine_fini(&p->place[i].machine);
    if (s->opt.end)
        s->opt.end(s->opt.user, n->name, p->ctx);
    p->ctx = NULL;
    s->news++;
}

static int place_open(struct fleet_member *m, uint64_t seed, struct err *e)
{
    struct tram_sim *s = m->host->fleet->ctx;
    struct world_place *r = world_place_at(m);
    *r = (struct world_place){
        .machine = {.calls = s->opt.machine,
                    .ctx = s->process[m->host->node].ctx,
                    .group = m->group},
        .sim = s,
        .at = m,
    };
    struct replica_options o = api_replica_options(&s->cluster, m->group, m->rank);
    o.mem = m->host->mem;
    o.budget = &m->host->budget;
    o.seed = seed;
    o.machine = &machine_calls;
    o.ctx = r;
    int rc = replica_open(&o, &r->replica, e);
    if (rc != 0)
        return rc;
    m->unit = replica_unit(r->replica);
    /* A later life has no state before it has loaded one. */
    if (m->host->mem->life == 0) {
        state_compare_start(s->compare, who(r), 0, tram_sim_now(s));
        show_state(r, 0, false);
    }
    return 0;
}

static void place_stepped(struct fleet_member *m)
{
    const struct world_place *r = world_place_at(m);
    if (r->machine.failure) {
        char text[ERR_TEXT_BYTES];
        snprintf(text, sizeof(text), "host %s: %s", m->host->name, r->machine.failure);
        world_fail(r->sim, m->host, ERR_CORRUPT, text);
    }
}

static void violated(struct fleet_node *n, const char *property, const char *text)
{
    struct tram_sim *s = n->fleet->ctx;
    bool lost = false;
    (void)property;
    for (uint32_t i = 0; i < n->members; i++)
        lost |= n->member[i].unit.of && unit_status(&n->member[i].unit).lost;
    world_fail(s, n, lost ? ERR_DATA_LOST : ERR_CORRUPT, text);
}

/* ---- clients ---- */

static struct world_client *client_at(const struct fleet_node *n)
{
    const struct tram_sim *s = n->fleet->ctx;
    return &s->client[n->node - s->fleet.hosts];
}

static uint64_t client_step(struct fleet_node *n, uint64_t now_ns)
{
    const struct world_client *c = client_at(n);
    tram_client_poll(c->client);
    return tram_client_outstanding(c->client) > 0 ? now_ns + CLIENT_LOOKS_NS : UINT64_MAX;
}

static void client_close(struct fleet_node *n)
{
    struct world_client *c = client_at(n);
    if (c->client == NULL)
        return;
    state_compare_client_gone(c->sim->compare, tram_client_place(c->client),
                              tram_client_life(c->client), tram_client_outstanding(c->client) > 0);
    api_client_end(c->client);
    c->client = NULL;
    c->sim->news++;
}

static bool until_finished(struct tram_sim *s, struct world_until *u)
{
    (void)s;
    return api_client_finished(u->client) != u->ticket;
}

static uint64_t world_now_ns(void *ctx)
{
    const struct world_client *c = ctx;
    return tram_sim_now(c->sim);
}

static const char *world_failure(void *ctx)
{
    (void)ctx;
    return NULL;
}

static int world_poll(void *ctx)
{
    const struct world_client *c = ctx;
    return api_client_poll(c->client);
}

static int world_wait(void *ctx, uint64_t until_ns, struct err *e)
{
    const struct world_client *c = ctx;
    uint64_t before = api_client_finished(c->client);
    struct world_until u = {.met = until_finished, .client = c->client, .ticket = before};
    int rc = api_client_poll(c->client);
    if (rc == 0)
        rc = world_run_until(c->sim, &u,
                             until_ns < WORLD_TIME_NS_MAX ? until_ns : WORLD_TIME_NS_MAX, e);
    return rc < 0 ? rc : (int)(api_client_finished(c->client) - before);
}

static int world_fd(void *ctx, struct err *e)
{
    (void)ctx;
    return err_set(e, ERR_INVALID, "a simulated client has no descriptor");
}

/* There is no other thread that could wake it. */
static void world_wake(void *ctx)
{
    (void)ctx;
}

static void world_cast(void *ctx, uint64_t seq, struct dst_set dst)
{
    const struct world_client *c = ctx;
    struct tram_sim *s = c->sim;
    chaos_trace(&s->fleet.chaos, "%s casts %" PRIu64 " to %u groups", c->at->name, seq, dst.count);
    state_compare_cast(s->compare, tram_client_place(c->client), tram_client_life(c->client), seq,
                       dst, tram_sim_now(s));
    fleet_wake(c->at);
    s->news++;
}

static void world_done(void *ctx, uint64_t seq)
{
    const struct world_client *c = ctx;
    struct tram_sim *s = c->sim;
    chaos_trace(&s->fleet.chaos, "%s has all answers to %" PRIu64, c->at->name, seq);
    state_compare_done(s->compare, tram_client_place(c->client), tram_client_life(c->client), seq,
                       tram_sim_now(s));
    s->news++;
}

static void world_close(void *ctx)
{
    const struct world_client *c = ctx;
    chaos_trace(&c->sim->fleet.chaos, "%s is closed", c->at->name);
    fleet_crash(c->at, true);
}

static const struct api_world world = {
    .opens_all = true,
    .now_ns = world_now_ns,
    .failure = world_failure,
    .poll = world_poll,
    .wait = world_wait,
    .fd = world_fd,
    .wake = world_wake,
    .cast = world_cast,
    .done = world_done,
    .close = world_close,
};

static int client_open(struct fleet_node *n, struct err *e)
{
    struct world_client *c = client_at(n);
    return api_client_open(&c->sim->cluster, c->opening, &world, c, n->mem,
                           n->node - n->fleet->hosts, &c->client, e);
}

const struct fleet_calls world_fleet_calls = {
    .host_born = host_born,
    .host_died = host_died,
    .open = place_open,
    .stepped = place_stepped,
    .spent_ns = place_spent,
    .client_open = client_open,
    .client_step = client_step,
    .client_close = client_close,
    .violated = violated,
};
