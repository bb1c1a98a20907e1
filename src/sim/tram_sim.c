/* The public simulator: a fleet made of a cluster file, with a user's state machine and clients. */
#include "tram/sim.h"

#include "api/api.h"
#include "api/machine.h"
#include "sim/fleet.h"
#include "sim/state_compare.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    CLIENTS_DEFAULT = 8,
    NODES_MAX = 256, /* hosts and clients that a simulated memory can have */
    DELAY_NS_MIN = 200,
    DELAY_NS_MAX = 2000,
    STEP_NS_MAX = 1000,
    TEAR_PER_MILLION = 100000,
    SPIKE_PER_MILLION = 1000,
    CLIENT_LOOKS_NS =
        5000000,     /* how often one that waits looks after its rings, as on shared memory */
    LOOK_EVERY = 64, /* events between two looks at whether it is idle */
    UNITS_PER_HEARTBEAT = 15, /* of chaos */
    FAULT_EVERY_UNITS = 100,  /* where the draw says never */
};

#define TIME_NS_MAX (UINT64_MAX >> 1)

/* A replica with the user's machine. */
struct place {
    struct api_machine machine; /* first: the ctx of the calls below */
    struct tram_sim *sim;
    struct fleet_member *at;
    struct replica *replica;
    uint64_t spent_ns; /* in saving and loading, since it was last asked */
};

struct process {
    void *ctx;           /* of the user's machine; NULL while it is down */
    struct place *place; /* as the members of its node */
};

struct client {
    struct tram_sim *sim;
    struct fleet_node *at;
    struct tram_client *client;                /* NULL while the place is free */
    const struct tram_client_options *opening; /* while it is being opened */
};

/* A call of tram_sim_at. */
struct at {
    struct at *next;
    struct tram_sim *sim;
    void (*fn)(struct tram_sim *, void *arg);
    void *arg;
};

struct tram_sim {
    struct tram_cluster cluster; /* the user's, with as many clients as this has */
    struct tram_sim_options opt;
    struct fleet fleet;
    struct process *process;
    struct client *client;
    struct state_compare *compare;
    struct at *at; /* still to come */
    uint64_t news; /* rises with all that may make it idle */
    bool running;

    struct fleet_node *failed; /* the host that cannot go on; NULL: none, or it is down */
    int failure;               /* to be told; 0: none */
    struct err failure_text;
};

/* ---- replicas ---- */

static uint64_t now(const struct tram_sim *s)
{
    return sim_now(s->fleet.sim);
}

static struct state_compare_who who(const struct place *r)
{
    return (struct state_compare_who){
        .group = r->at->group, .host = r->at->host->node, .life = r->at->host->mem->life};
}

static void fail(struct tram_sim *s, struct fleet_node *n, int code, const char *text)
{
    if (s->failure != 0)
        return;
    s->failed = n;
    s->failure = err_set(&s->failure_text, code, "%s", text);
}

/* Compares the state as it is now. */
static void show_state(struct place *r, uint64_t count, bool loaded)
{
    void *data;
    size_t bytes;
    if (r->sim->opt.replies_only)
        return;
    if (api_save_whole(&r->machine, &data, &bytes))
        state_compare_state(r->sim->compare, who(r), count, loaded, data, bytes, now(r->sim));
    free(data);
}

static uint32_t on_deliver(void *ctx, const struct delivery *d, void *reply, uint32_t reply_max)
{
    struct place *r = ctx;
    struct tram_sim *s = r->sim;
    uint32_t bytes = api_deliver(&r->machine, d, reply, reply_max);
    chaos_trace(&s->fleet.chaos, "%s delivers c%u.%u:%" PRIu64 " as %" PRIu64 ", replies %u bytes",
                r->at->name, d->client, d->life, d->seq, d->number, bytes);
    if (r->machine.failure)
        return bytes;
    state_compare_deliver(s->compare, who(r), d, reply, bytes, now(s));
    if ((d->number + 1) % s->opt.compare_every == 0)
        show_state(r, d->number + 1, false);
    s->news++;
    return bytes;
}

static void spend(struct place *r, uint64_t bytes)
{
    r->spent_ns += r->sim->opt.state_call_ns + r->sim->opt.state_kib_ns * bytes / 1024;
}

static int on_save_next(void *ctx, void *save, void *out, uint32_t room)
{
    struct place *r = ctx;
    int got = api_save_next(&r->machine, save, out, room);
    spend(r, got > 0 ? (uint64_t)got : 0);
    return got;
}

static int on_load_next(void *ctx, const void *data, uint32_t bytes)
{
    struct place *r = ctx;
    spend(r, bytes);
    return api_load_next(&r->machine, data, bytes);
}

static void *on_save_open(void *ctx, uint64_t *bytes)
{
    struct place *r = ctx;
    spend(r, 0);
    show_state(r, replica_delivered(r->replica), false);
    return r->machine.failure ? NULL : api_save_open(&r->machine, bytes);
}

static int on_load_close(void *ctx, bool whole)
{
    struct place *r = ctx;
    struct tram_sim *s = r->sim;
    uint64_t count = replica_delivered(r->replica);
    spend(r, 0);
    int rc = api_load_close(&r->machine, whole);
    if (!whole)
        return rc;
    chaos_trace(&s->fleet.chaos, "%s has loaded %" PRIu64 " messages", r->at->name, count);
    state_compare_start(s->compare, who(r), count, now(s));
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

static struct place *place_at(const struct fleet_member *m)
{
    const struct tram_sim *s = m->host->fleet->ctx;
    return &s->process[m->host->node].place[m - m->host->member];
}

static uint64_t place_spent(struct fleet_member *m)
{
    struct place *r = place_at(m);
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
    struct process *p = &s->process[n->node];
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
    struct place *r = place_at(m);
    *r = (struct place){
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
        state_compare_start(s->compare, who(r), 0, now(s));
        show_state(r, 0, false);
    }
    return 0;
}

static void place_stepped(struct fleet_member *m)
{
    const struct place *r = place_at(m);
    if (r->machine.failure) {
        char text[ERR_TEXT_BYTES];
        snprintf(text, sizeof(text), "host %s: %s", m->host->name, r->machine.failure);
        fail(r->sim, m->host, ERR_CORRUPT, text);
    }
}

static void violated(struct fleet_node *n, const char *property, const char *text)
{
    struct tram_sim *s = n->fleet->ctx;
    bool lost = false;
    (void)property;
    for (uint32_t i = 0; i < n->members; i++)
        lost |= n->member[i].unit.of && unit_status(&n->member[i].unit).lost;
    fail(s, n, lost ? ERR_DATA_LOST : ERR_CORRUPT, text);
}

/* ---- clients ---- */

static struct client *client_at(const struct fleet_node *n)
{
    const struct tram_sim *s = n->fleet->ctx;
    return &s->client[n->node - s->fleet.hosts];
}

static int client_open(struct fleet_node *n, struct err *e);

static uint64_t client_step(struct fleet_node *n, uint64_t now_ns)
{
    const struct client *c = client_at(n);
    tram_client_poll(c->client);
    return tram_client_outstanding(c->client) > 0 ? now_ns + CLIENT_LOOKS_NS : UINT64_MAX;
}

static void client_close(struct fleet_node *n)
{
    struct client *c = client_at(n);
    if (c->client == NULL)
        return;
    state_compare_client_gone(c->sim->compare, tram_client_place(c->client),
                              tram_client_life(c->client), tram_client_outstanding(c->client) > 0);
    api_client_end(c->client);
    c->client = NULL;
    c->sim->news++;
}

static const struct fleet_calls fleet_calls = {
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

/* ---- running ---- */

/* Whose process runs: it is up, and not stopped. */
static bool runs(const struct tram_sim *s, uint32_t node)
{
    return s->fleet.node[node].mem != NULL && s->fleet.chaos.paused_until[node] != CHAOS_STOPPED;
}

static bool group_is_level(const struct tram_sim *s, uint16_t group)
{
    const struct mcast_group *g = &s->cluster.group[group];
    uint32_t running = 0;
    for (uint32_t q = 0; q < g->replicas; q++) {
        if (!runs(s, g->nodes[q]))
            continue;
        const struct fleet_member *m = fleet_member(&s->fleet, g->nodes[q], group);
        running++;
        if (fleet_unfit(m) ||
            replica_delivered(place_at(m)->replica) != state_compare_delivered(s->compare, group))
            return false;
    }
    if (running <= g->replicas / 2)
        return true;
    const struct fleet_member *leader = fleet_leader(&s->fleet, group);
    if (leader == NULL || !runs(s, leader->host->node))
        return false;
    return unit_status(&leader->unit).attached >= running;
}

static bool is_idle(const struct tram_sim *s)
{
    for (uint32_t i = 0; i < s->fleet.clients; i++)
        if (s->client[i].client && tram_client_outstanding(s->client[i].client) > 0)
            return false;
    if (state_compare_halfway(s->compare) > 0)
        return false;
    for (uint16_t g = 0; g < s->fleet.groups; g++)
        if (!group_is_level(s, g))
            return false;
    return true;
}

/* One event, and the end of who could not go on in it. */
static bool one_event(struct tram_sim *s)
{
    bool ran = sim_step(s->fleet.sim);
    if (s->failed && s->failed->mem) {
        chaos_trace(&s->fleet.chaos, "%s ends: %s", s->failed->name, s->failure_text.text);
        chaos_forget(&s->fleet.chaos, s->failed->node);
        fleet_crash(s->failed, true);
    }
    s->failed = NULL;
    return ran;
}

struct until {
    bool (*met)(struct tram_sim *, struct until *);
    const struct tram_client *client;
    uint64_t ticket; /* or how many were finished */
    uint64_t seen;   /* news at the last look */
    uint64_t events; /* that it was asked after */
};

static uint64_t time_after(const struct tram_sim *s, uint64_t ns)
{
    return ns < TIME_NS_MAX - now(s) ? now(s) + ns : TIME_NS_MAX;
}

/* Runs until the condition is met or the time is reached; 1, 0 or an error. */
static int run(struct tram_sim *s, struct until *u, uint64_t end_ns, struct err *e)
{
    if (s->running)
        return err_set(e, ERR_INVALID, "the simulation is running: this is called from within it");
    bool met = false;
    s->running = true;
    while (s->failure == 0 && !(met = u->met && u->met(s, u)) && now(s) < end_ns) {
        if (sim_next_ns(s->fleet.sim) <= end_ns)
            one_event(s);
        else
            sim_pass(s->fleet.sim, end_ns);
    }
    s->running = false;
    if (s->failure == 0)
        return met;
    int rc = s->failure;
    *e = s->failure_text;
    s->failure = 0;
    return rc;
}

/* Asked after every event: looks where there are news, and now and then. */
static bool until_idle(struct tram_sim *s, struct until *u)
{
    uint64_t news = s->news + s->fleet.moves;
    if (u->events++ % LOOK_EVERY != 0 && u->seen == news)
        return false;
    u->seen = news;
    return is_idle(s);
}

static bool until_done(struct tram_sim *s, struct until *u)
{
    (void)s;
    return tram_client_done(u->client, u->ticket);
}

static bool until_finished(struct tram_sim *s, struct until *u)
{
    (void)s;
    return api_client_finished(u->client) != u->ticket;
}

static uint64_t delivered(const struct fleet_member *m)
{
    return m->unit.of ? replica_delivered(place_at(m)->replica) : 0;
}

static int say_stuck(const struct tram_sim *s, uint64_t limit_ns, struct err *e)
{
    char text[ERR_TEXT_BYTES] = "";
    for (uint32_t i = 0; i < s->fleet.clients; i++)
        if (s->client[i].client && tram_client_outstanding(s->client[i].client) > 0) {
            size_t at = strlen(text);
            snprintf(text + at, sizeof(text) - at, " %s waits for %u,", s->client[i].at->name,
                     tram_client_outstanding(s->client[i].client));
        }
    fleet_describe(&s->fleet, delivered, text, sizeof(text));
    return err_set(e, ERR_TIMEOUT, "not idle after %" PRIu64 " ms:%.240s", limit_ns / 1000000,
                   text);
}

int tram_sim_step(struct tram_sim *s, struct tram_error *error)
{
    struct err e = {""};
    if (s->running)
        return api_error(error, err_set(&e, ERR_INVALID, "a step within a step"), &e);
    s->running = true;
    int rc = s->failure ? 0 : one_event(s);
    s->running = false;
    if (s->failure) {
        rc = s->failure;
        e = s->failure_text;
        s->failure = 0;
    }
    return api_error(error, rc, &e);
}

int tram_sim_run(struct tram_sim *s, uint64_t ns, struct tram_error *error)
{
    struct err e = {""};
    struct until u = {0};
    return api_error(error, run(s, &u, time_after(s, ns), &e), &e);
}

int tram_sim_run_idle(struct tram_sim *s, uint64_t limit_ns, struct tram_error *error)
{
    struct err e = {""};
    struct until u = {.met = until_idle};
    int rc = run(s, &u, time_after(s, limit_ns), &e);
    if (rc == 0)
        rc = say_stuck(s, limit_ns, &e);
    return api_error(error, rc < 0 ? rc : 0, &e);
}

int tram_sim_run_done(struct tram_sim *s, const struct tram_client *client, uint64_t ticket,
                      uint64_t limit_ns, struct tram_error *error)
{
    struct err e = {""};
    struct until u = {.met = until_done, .client = client, .ticket = ticket};
    int rc = run(s, &u, time_after(s, limit_ns), &e);
    if (rc == 0)
        rc = err_set(&e, ERR_TIMEOUT, "client-%u has no answer to %" PRIu64 " after %" PRIu64 " ms",
                     tram_client_place(client), ticket, limit_ns / 1000000);
    return api_error(error, rc < 0 ? rc : 0, &e);
}

uint64_t tram_sim_now(const struct tram_sim *s)
{
    return now(s);
}

uint64_t tram_sim_events(const struct tram_sim *s)
{
    return sim_events(s->fleet.sim);
}

uint64_t tram_sim_hash(const struct tram_sim *s)
{
    return sim_hash(s->fleet.sim);
}

static void at_event(void *ctx, uint64_t arg)
{
    struct at *a = ctx;
    struct tram_sim *s = a->sim;
    (void)arg;
    struct at **link = &s->at;
    while (*link != a)
        link = &(*link)->next;
    *link = a->next;
    a->fn(s, a->arg);
    free(a);
}

int tram_sim_at(struct tram_sim *s, uint64_t time_ns, void (*fn)(struct tram_sim *, void *),
                void *arg, struct tram_error *error)
{
    struct at *a = malloc(sizeof(*a));
    if (a == NULL)
        return api_error(error, ERR_NOMEM, NULL);
    *a = (struct at){.next = s->at, .sim = s, .fn = fn, .arg = arg};
    s->at = a;
    sim_at(s->fleet.sim, time_ns, at_event, a, 0);
    return TRAM_OK;
}

/* ---- clients, as the API has them ---- */

static uint64_t world_now_ns(void *ctx)
{
    const struct client *c = ctx;
    return now(c->sim);
}

static int world_wait(void *ctx, uint64_t until_ns, struct err *e)
{
    const struct client *c = ctx;
    struct until u = {
        .met = until_finished, .client = c->client, .ticket = api_client_finished(c->client)};
    return run(c->sim, &u, until_ns < TIME_NS_MAX ? until_ns : TIME_NS_MAX, e);
}

static void world_cast(void *ctx, uint64_t seq, struct dst_set dst)
{
    const struct client *c = ctx;
    struct tram_sim *s = c->sim;
    chaos_trace(&s->fleet.chaos, "%s casts %" PRIu64 " to %u groups", c->at->name, seq, dst.count);
    state_compare_cast(s->compare, tram_client_place(c->client), tram_client_life(c->client), seq,
                       dst, now(s));
    fleet_wake(c->at);
    s->news++;
}

static void world_done(void *ctx, uint64_t seq)
{
    const struct client *c = ctx;
    struct tram_sim *s = c->sim;
    chaos_trace(&s->fleet.chaos, "%s has all answers to %" PRIu64, c->at->name, seq);
    state_compare_done(s->compare, tram_client_place(c->client), tram_client_life(c->client), seq,
                       now(s));
    s->news++;
}

static void world_close(void *ctx)
{
    const struct client *c = ctx;
    chaos_trace(&c->sim->fleet.chaos, "%s is closed", c->at->name);
    fleet_crash(c->at, true);
}

static const struct api_world world = {
    .now_ns = world_now_ns,
    .wait = world_wait,
    .cast = world_cast,
    .done = world_done,
    .close = world_close,
};

static int client_open(struct fleet_node *n, struct err *e)
{
    struct client *c = client_at(n);
    return api_client_open(&c->sim->cluster, c->opening, &world, c, n->mem,
                           n->node - n->fleet->hosts, &c->client, e);
}

int tram_sim_client_open(struct tram_sim *s, const struct tram_client_options *o,
                         struct tram_client **out, struct tram_error *error)
{
    struct err e = {""};
    if (o && o->trace_dir)
        return api_error(
            error, err_set(&e, ERR_INVALID, "a simulated client writes no traces: tram_sim_check"),
            &e);
    for (uint32_t i = 0; i < s->fleet.clients; i++) {
        struct client *c = &s->client[i];
        if (c->client)
            continue;
        c->opening = o;
        int rc = fleet_start(c->at, &e);
        c->opening = NULL;
        *out = c->client;
        return api_error(error, rc, &e);
    }
    return api_error(
        error,
        err_set(&e, ERR_EXISTS, "all %u clients of the simulation are open", s->fleet.clients), &e);
}

/* ---- faults ---- */

static int find_host(struct tram_sim *s, const char *name, struct fleet_node **out, struct err *e)
{
    int h = name ? cluster_host(s->cluster.conf, name) : -1;
    if (h < 0)
        return err_set(e, ERR_NOTFOUND, "there is no host '%s' in cluster %s", name ? name : "",
                       s->cluster.conf->name);
    *out = &s->fleet.node[h];
    if (s->fleet.stepping == *out)
        return err_set(e, ERR_INVALID, "host %s is in the middle of a delivery", name);
    return 0;
}

/* A host that is up. */
static int find_up(struct tram_sim *s, const char *name, struct fleet_node **out, struct err *e)
{
    int rc = find_host(s, name, out, e);
    if (rc == 0 && (*out)->mem == NULL)
        rc = err_set(e, ERR_INVALID, "host %s is down", name);
    return rc;
}

static int find_node(struct tram_sim *s, const char *name, uint32_t *out, struct err *e)
{
    for (uint32_t i = 0; name && i < s->fleet.hosts + s->fleet.clients; i++)
        if (strcmp(s->fleet.node[i].name, name) == 0) {
            *out = i;
            return 0;
        }
    return err_set(e, ERR_NOTFOUND, "there is no host or client '%s' in cluster %s",
                   name ? name : "", s->cluster.conf->name);
}

int tram_sim_kill(struct tram_sim *s, const char *host, bool keep_memory, struct tram_error *error)
{
    struct err e = {""};
    struct fleet_node *n = NULL;
    int rc = find_up(s, host, &n, &e);
    if (rc != 0)
        return api_error(error, rc, &e);
    chaos_trace(&s->fleet.chaos, "%s is killed, memory %s", host, keep_memory ? "kept" : "lost");
    chaos_forget(&s->fleet.chaos, n->node);
    fleet_crash(n, keep_memory);
    return TRAM_OK;
}

int tram_sim_start(struct tram_sim *s, const char *host, struct tram_error *error)
{
    struct err e = {""};
    struct fleet_node *n = NULL;
    int rc = find_host(s, host, &n, &e);
    if (rc == 0 && n->mem != NULL)
        rc = err_set(&e, ERR_INVALID, "host %s is up", host);
    if (rc == 0)
        rc = fleet_start(n, &e);
    return api_error(error, rc, &e);
}

int tram_sim_stop(struct tram_sim *s, const char *host, struct tram_error *error)
{
    struct err e = {""};
    struct fleet_node *n = NULL;
    int rc = find_up(s, host, &n, &e);
    if (rc == 0)
        chaos_stop(&s->fleet.chaos, n->node);
    return api_error(error, rc, &e);
}

int tram_sim_continue(struct tram_sim *s, const char *host, struct tram_error *error)
{
    struct err e = {""};
    struct fleet_node *n = NULL;
    int rc = find_up(s, host, &n, &e);
    if (rc == 0 && runs(s, n->node))
        rc = err_set(&e, ERR_INVALID, "host %s is not stopped", host);
    if (rc != 0)
        return api_error(error, rc, &e);
    chaos_continue(&s->fleet.chaos, n->node);
    fleet_wake(n);
    return TRAM_OK;
}

int tram_sim_cut(struct tram_sim *s, const char *from, const char *to, bool cut,
                 struct tram_error *error)
{
    struct err e = {""};
    uint32_t a = 0, b = 0;
    int rc = find_node(s, from, &a, &e);
    if (rc == 0)
        rc = find_node(s, to, &b, &e);
    if (rc != 0)
        return api_error(error, rc, &e);
    chaos_trace(&s->fleet.chaos, "%s %s -> %s", cut ? "cut" : "heal", from, to);
    sim_cut(s->fleet.sim, a, b, cut);
    return TRAM_OK;
}

int tram_sim_delay(struct tram_sim *s, const char *from, const char *to, uint64_t extra_ns,
                   struct tram_error *error)
{
    struct err e = {""};
    uint32_t a = 0, b = 0;
    int rc = find_node(s, from, &a, &e);
    if (rc == 0)
        rc = find_node(s, to, &b, &e);
    if (rc != 0)
        return api_error(error, rc, &e);
    chaos_trace(&s->fleet.chaos, "%s -> %s takes %" PRIu64 " ns longer", from, to, extra_ns);
    sim_slow(s->fleet.sim, a, b, extra_ns);
    return TRAM_OK;
}

void tram_sim_chaos(struct tram_sim *s)
{
    struct chaos *c = &s->fleet.chaos;
    if (!c->calm)
        return;
    chaos_trace(c, "chaos");
    sim_rough(s->fleet.sim);
    sim_pace(s->fleet.sim, c->unit_ns / 4, 2 * c->unit_ns);
    s->fleet.step_ns_max = c->unit_ns;
    chaos_draw(c);
    if (c->every_ns == 0)
        c->every_ns = FAULT_EVERY_UNITS * c->unit_ns;
    chaos_begin(c);
}

void tram_sim_heal(struct tram_sim *s)
{
    sim_pace(s->fleet.sim, s->opt.delay_ns_min, s->opt.delay_ns_max);
    s->fleet.step_ns_max = STEP_NS_MAX;
    chaos_end(&s->fleet.chaos, NULL);
    for (uint32_t i = 0; i < s->fleet.hosts + s->fleet.clients; i++)
        fleet_wake(&s->fleet.node[i]);
}

/* ---- looking ---- */

const char *tram_sim_leader(const struct tram_sim *s, const char *group)
{
    int g = group ? cluster_group(s->cluster.conf, group) : -1;
    const struct fleet_member *m = g < 0 ? NULL : fleet_leader(&s->fleet, (uint16_t)g);
    return m ? m->host->name : NULL;
}

int tram_sim_replica(const struct tram_sim *s, const char *host, const char *group,
                     struct tram_replica_stats *out)
{
    int h = host ? cluster_host(s->cluster.conf, host) : -1;
    int g = group ? cluster_group(s->cluster.conf, group) : -1;
    if (h < 0 || g < 0)
        return TRAM_NOTFOUND;
    const struct fleet_member *m = fleet_member(&s->fleet, (uint32_t)h, (uint16_t)g);
    if (m == NULL || m->unit.of == NULL)
        return TRAM_NOTFOUND;
    api_replica_stats(&m->unit, m->group, m->rank, out);
    return TRAM_OK;
}

void *tram_sim_ctx(const struct tram_sim *s, const char *host)
{
    int h = host ? cluster_host(s->cluster.conf, host) : -1;
    return h < 0 ? NULL : s->process[h].ctx;
}

int tram_sim_check(struct tram_sim *s, struct tram_sim_finding *finding, struct tram_error *error)
{
    struct err e = {""};
    struct tram_sim_finding f;
    for (uint32_t h = 0; h < s->fleet.hosts; h++)
        for (uint32_t i = 0; i < s->fleet.node[h].members; i++)
            state_compare_down(s->compare, s->fleet.node[h].member[i].group, h, !runs(s, h));
    bool quiesced = s->fleet.chaos.calm && is_idle(s);
    if (state_compare_verify(s->compare, quiesced, now(s), &f))
        return TRAM_OK;
    if (finding)
        *finding = f;
    return api_error(error, err_set(&e, ERR_VIOLATED, "%s", f.text), &e);
}

/* ---- opening ---- */

static int check_options(struct tram_sim *s, struct err *e)
{
    struct tram_sim_options *o = &s->opt;
    const struct cluster *conf = s->cluster.conf;
    const struct tram_machine *m = &o->machine;
    const char *mistake = api_machine_mistake(m);
    if (mistake)
        return err_set(e, ERR_INVALID, "%s", mistake);
    if ((m->deliver || m->save || m->save_open) && o->start == NULL)
        return err_set(e, ERR_INVALID,
                       "a simulation needs options.start, which makes the state of a host: without "
                       "it the hosts would share one");
    if (o->delay_ns_min > o->delay_ns_max)
        return err_set(e, ERR_INVALID, "delay_ns_min is larger than delay_ns_max");
    if (o->delay_ns_max == 0) {
        o->delay_ns_min = DELAY_NS_MIN;
        o->delay_ns_max = DELAY_NS_MAX;
    }
    if (o->clients > conf->clients)
        return err_set(e, ERR_INVALID, "%u clients; cluster %s allows %u", o->clients, conf->name,
                       conf->clients);
    if (o->clients == 0)
        o->clients = conf->clients < CLIENTS_DEFAULT ? conf->clients : CLIENTS_DEFAULT;
    if (conf->hosts + o->clients > NODES_MAX)
        return err_set(e, ERR_INVALID, "%u hosts and %u clients; a simulation has room for %d",
                       conf->hosts, o->clients, NODES_MAX);
    o->compare_every = o->compare_every ? o->compare_every : 1;
    s->cluster.sizes.clients = o->clients;
    return 0;
}

static int fleet_make(struct tram_sim *s, struct err *e)
{
    const struct cluster *conf = s->cluster.conf;
    uint64_t heartbeat_ns = conf->heartbeat_ms * UINT64_C(1000000);
    s->fleet = (struct fleet){
        .calls = &fleet_calls,
        .ctx = s,
        .group = s->cluster.group,
        .groups = conf->groups,
        .hosts = conf->hosts,
        .clients = s->opt.clients,
        .step_ns_max = STEP_NS_MAX,
        .unit_ns = heartbeat_ns / UNITS_PER_HEARTBEAT,
        .trace = s->opt.trace,
        .sleepy = true,
    };
    rng_init(&s->fleet.rng, s->opt.seed);
    struct sim_options so = {
        .seed = rng_u64(&s->fleet.rng),
        .delay_ns_min = s->opt.delay_ns_min,
        .delay_ns_max = s->opt.delay_ns_max,
        .delay_ns_spike = heartbeat_ns,
        .spike_per_million = SPIKE_PER_MILLION,
        .tear_per_million = TEAR_PER_MILLION,
        .lost_after_ns = heartbeat_ns,
        .owner_answers = conf->transport != CLUSTER_SHM,
    };
    int rc = fleet_open(&s->fleet, &so, e);
    if (rc != 0)
        return rc;
    s->fleet.chaos.calm = s->fleet.chaos.truthful = true;
    sim_calm(s->fleet.sim);
    return 0;
}

static int nodes_make(struct tram_sim *s, struct err *e)
{
    const struct cluster *conf = s->cluster.conf;
    s->process = calloc(s->fleet.hosts, sizeof(*s->process));
    s->client = calloc(s->fleet.clients, sizeof(*s->client));
    if (s->process == NULL || s->client == NULL)
        return err_set(e, ERR_NOMEM, "no memory for a simulation");
    for (uint32_t h = 0; h < s->fleet.hosts; h++) {
        struct fleet_node *n = &s->fleet.node[h];
        snprintf(n->name, sizeof(n->name), "%s", conf->host[h].name);
        s->process[h].place = calloc(n->members + 1, sizeof(struct place));
        if (s->process[h].place == NULL)
            return err_set(e, ERR_NOMEM, "no memory for the replicas of %s", n->name);
        for (uint32_t i = 0; i < n->members; i++)
            snprintf(n->member[i].name, sizeof(n->member[i].name), "%s %s", conf->host[h].name,
                     conf->group[n->member[i].group].name);
    }
    for (uint32_t i = 0; i < s->fleet.clients; i++) {
        struct fleet_node *n = fleet_client(&s->fleet, i);
        s->client[i] = (struct client){.sim = s, .at = n};
        snprintf(n->name, sizeof(n->name), "client-%u", i);
    }
    s->compare = state_compare_open(conf, s->opt.compare_every);
    return 0;
}

static int open_all(struct tram_sim *s, struct err *e)
{
    int rc = check_options(s, e);
    if (rc == 0)
        rc = fleet_make(s, e);
    if (rc == 0)
        rc = nodes_make(s, e);
    for (uint32_t h = 0; rc == 0 && h < s->fleet.hosts; h++)
        rc = fleet_start(&s->fleet.node[h], e);
    return rc;
}

int tram_sim_open(const struct tram_cluster *cluster, const struct tram_sim_options *o,
                  struct tram_sim **out, struct tram_error *error)
{
    struct err e = {""};
    struct tram_sim *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return api_error(error, ERR_NOMEM, NULL);
    s->cluster = *cluster;
    s->opt = *o;
    int rc = open_all(s, &e);
    if (rc != 0) {
        tram_sim_close(s);
        return api_error(error, rc, &e);
    }
    *out = s;
    return TRAM_OK;
}

void tram_sim_close(struct tram_sim *s)
{
    if (s == NULL)
        return;
    fleet_free(&s->fleet);
    while (s->at) {
        struct at *next = s->at->next;
        free(s->at);
        s->at = next;
    }
    for (uint32_t h = 0; s->process && h < s->fleet.hosts; h++)
        free(s->process[h].place);
    free(s->process);
    free(s->client);
    state_compare_close(s->compare);
    free(s);
}
