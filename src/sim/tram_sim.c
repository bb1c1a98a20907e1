/* The public simulator: a fleet made of a cluster file, with a user's state machine and clients. */
#include "sim/tram_sim_impl.h"

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
    LOOK_EVERY = 64,          /* events between two looks at whether it is idle */
    UNITS_PER_HEARTBEAT = 15, /* of chaos */
    FAULT_EVERY_UNITS = 100,  /* where the draw says never */
};

/* ---- running ---- */

/* Its process is up, and not stopped. */
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
        if (fleet_unfit(m) || replica_delivered(world_place_at(m)->replica) !=
                                  state_compare_delivered(s->compare, group))
            return false;
    }
    if (running <= g->replicas / 2)
        return true;
    const struct fleet_member *leader = fleet_leader(&s->fleet, group);
    if (leader == NULL || !runs(s, leader->host->node))
        return false;
    return unit_status(&leader->unit).attached >= running;
}

static bool is_idle(struct tram_sim *s)
{
    if (world_is_group(s))
        return world_group_idle(s);
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

/* One event. A host that cannot go on after it ends. */
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

static uint64_t time_after(const struct tram_sim *s, uint64_t ns)
{
    return ns < WORLD_TIME_NS_MAX - tram_sim_now(s) ? tram_sim_now(s) + ns : WORLD_TIME_NS_MAX;
}

/* Runs until the condition is met or the time is reached; 1, 0 or an error. */
int world_run_until(struct tram_sim *s, struct world_until *u, uint64_t end_ns, struct err *e)
{
    if (s->running)
        return err_set(e, ERR_INVALID, "the simulation is running: this is called from within it");
    bool met = false;
    s->running = true;
    while (s->failure == 0 && !(met = u->met && u->met(s, u)) && tram_sim_now(s) < end_ns) {
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
static bool until_idle(struct tram_sim *s, struct world_until *u)
{
    uint64_t news = s->news + s->fleet.moves;
    if (u->events++ % LOOK_EVERY != 0 && u->seen == news)
        return false;
    u->seen = news;
    return is_idle(s);
}

static bool until_done(struct tram_sim *s, struct world_until *u)
{
    (void)s;
    return tram_client_done(u->client, u->ticket);
}

static uint64_t delivered(const struct fleet_member *m)
{
    return m->unit.of ? replica_delivered(world_place_at(m)->replica) : 0;
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
    if (world_is_group(s))
        world_group_stuck(s, text, sizeof(text));
    else
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
    struct world_until u = {0};
    return api_error(error, world_run_until(s, &u, time_after(s, ns), &e), &e);
}

int tram_sim_run_idle(struct tram_sim *s, uint64_t limit_ns, struct tram_error *error)
{
    struct err e = {""};
    struct world_until u = {.met = until_idle};
    int rc = world_run_until(s, &u, time_after(s, limit_ns), &e);
    if (rc == 0)
        rc = say_stuck(s, limit_ns, &e);
    return api_error(error, rc < 0 ? rc : 0, &e);
}

int tram_sim_run_done(struct tram_sim *s, const struct tram_client *client, uint64_t ticket,
                      uint64_t limit_ns, struct tram_error *error)
{
    struct err e = {""};
    struct world_until u = {.met = until_done, .client = client, .ticket = ticket};
    int rc = world_run_until(s, &u, time_after(s, limit_ns), &e);
    if (rc == 0)
        rc = err_set(&e, ERR_TIMEOUT, "client-%u has no answer to %" PRIu64 " after %" PRIu64 " ms",
                     tram_client_place(client), ticket, limit_ns / 1000000);
    return api_error(error, rc < 0 ? rc : 0, &e);
}

uint64_t tram_sim_now(const struct tram_sim *s)
{
    return sim_now(s->fleet.sim);
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
    struct world_event *a = ctx;
    struct tram_sim *s = a->sim;
    (void)arg;
    struct world_event **link = &s->at;
    while (*link != a)
        link = &(*link)->next;
    *link = a->next;
    a->fn(s, a->arg);
    free(a);
}

int tram_sim_at(struct tram_sim *s, uint64_t time_ns, void (*fn)(struct tram_sim *, void *),
                void *arg, struct tram_error *error)
{
    struct world_event *a = malloc(sizeof(*a));
    if (a == NULL)
        return api_error(error, ERR_NOMEM, NULL);
    *a = (struct world_event){.next = s->at, .sim = s, .fn = fn, .arg = arg};
    s->at = a;
    sim_at(s->fleet.sim, time_ns, at_event, a, 0);
    return TRAM_OK;
}

/* ---- clients ---- */

int tram_sim_client_open(struct tram_sim *s, const struct tram_client_options *o,
                         struct tram_client **out, struct tram_error *error)
{
    struct err e = {""};
    int refused = api_refuse_group(&s->cluster, "simulated clients yet", &e);
    if (refused != 0)
        return api_error(error, refused, &e);
    if (o && o->trace_dir)
        return api_error(
            error, err_set(&e, ERR_INVALID, "a simulated client writes no traces: tram_sim_check"),
            &e);
    for (uint32_t i = 0; i < s->fleet.clients; i++) {
        struct world_client *c = &s->client[i];
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

/* The nodes between which something is to change. */
static int find_way(struct tram_sim *s, const char *from, const char *to, uint32_t *a, uint32_t *b,
                    struct tram_error *error)
{
    struct err e = {""};
    int rc = find_node(s, from, a, &e);
    if (rc == 0)
        rc = find_node(s, to, b, &e);
    return api_error(error, rc, &e);
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

int tram_sim_power_cut(struct tram_sim *s, const char *host, struct tram_error *error)
{
    struct err e = {""};
    struct fleet_node *n = NULL;
    int rc = find_host(s, host, &n, &e);
    if (rc == 0 && !s->fleet.durable)
        rc =
            err_set(&e, ERR_INVALID,
                    "no subgroup of cluster %s has mode: logged or durable, and its hosts no disks "
                    "that could outlive the power; tram_sim_kill is a process's end",
                    s->cluster.conf->name);
    if (rc == 0 && n->platters == NULL)
        rc = err_set(&e, ERR_INVALID, "host %s was never up", host);
    if (rc != 0)
        return api_error(error, rc, &e);
    chaos_trace(&s->fleet.chaos, "%s loses power", host);
    chaos_forget(&s->fleet.chaos, n->node);
    fleet_power_cut(n);
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
    uint32_t a = 0, b = 0;
    int rc = find_way(s, from, to, &a, &b, error);
    if (rc != TRAM_OK)
        return rc;
    chaos_trace(&s->fleet.chaos, "%s %s -> %s", cut ? "cut" : "heal", from, to);
    sim_cut(s->fleet.sim, a, b, cut);
    return TRAM_OK;
}

int tram_sim_delay(struct tram_sim *s, const char *from, const char *to, uint64_t extra_ns,
                   struct tram_error *error)
{
    uint32_t a = 0, b = 0;
    int rc = find_way(s, from, to, &a, &b, error);
    if (rc != TRAM_OK)
        return rc;
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
    if (world_is_group(s))
        return world_group_leader(s);
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
    for (uint32_t h = 0; !world_is_group(s) && h < s->fleet.hosts; h++)
        for (uint32_t i = 0; i < s->fleet.node[h].members; i++)
            state_compare_down(s->compare, s->fleet.node[h].member[i].group, h, !runs(s, h));
    bool quiesced = s->fleet.chaos.calm && is_idle(s);
    if (world_is_group(s) ? cell_compare_verify(s->cells, &f)
                          : state_compare_verify(s->compare, quiesced, tram_sim_now(s), &f))
        return TRAM_OK;
    if (finding)
        *finding = f;
    return api_error(error, err_set(&e, ERR_VIOLATED, "%s", f.text), &e);
}

/* ---- opening ---- */

static int check_machine(const struct tram_sim_options *o, struct err *e)
{
    const struct tram_machine *m = &o->machine;
    const char *mistake = api_machine_mistake(m);
    if (mistake)
        return err_set(e, ERR_INVALID, "%s", mistake);
    if ((m->deliver || m->save || m->save_open) && o->start == NULL)
        return err_set(e, ERR_INVALID,
                       "a simulation needs options.start, which makes the state of a host: without "
                       "it the hosts would share one");
    return 0;
}

static int check_options(struct tram_sim *s, struct err *e)
{
    struct tram_sim_options *o = &s->opt;
    const struct cluster *conf = s->cluster.conf;
    int rc = world_is_group(s) ? world_group_check(s, e) : check_machine(o, e);
    if (rc != 0)
        return rc;
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
        .calls = &world_fleet_calls,
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
    if (world_is_group(s))
        world_group_options(s, &so);
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
        s->process[h].place = calloc(n->members + 1, sizeof(struct world_place));
        if (s->process[h].place == NULL)
            return err_set(e, ERR_NOMEM, "no memory for the replicas of %s", n->name);
        for (uint32_t i = 0; i < n->members; i++)
            snprintf(n->member[i].name, sizeof(n->member[i].name), "%s%s%s", conf->host[h].name,
                     world_is_group(s) ? "" : " ",
                     world_is_group(s) ? "" : conf->group[n->member[i].group].name);
    }
    for (uint32_t i = 0; i < s->fleet.clients; i++) {
        struct fleet_node *n = fleet_client(&s->fleet, i);
        s->client[i] = (struct world_client){.sim = s, .at = n};
        snprintf(n->name, sizeof(n->name), "client-%u", i);
    }
    if (world_is_group(s))
        return world_group_make(s, e);
    s->compare = state_compare_open(conf, s->opt.compare_every);
    return 0;
}

/* Under protocol group: to the fleet each host is a group of its own. */
static int alone_make(struct tram_sim *s, struct err *e)
{
    const struct cluster *conf = s->cluster.conf;
    if (conf->protocol != CLUSTER_GROUP)
        return 0;
    s->cells = cell_compare_open(conf);
    s->alone = calloc(conf->hosts, sizeof(*s->alone));
    if (s->alone == NULL)
        return err_set(e, ERR_NOMEM, "no memory for a simulation");
    for (uint32_t h = 0; h < conf->hosts; h++)
        s->alone[h] = (struct mcast_group){.nodes = {h}, .replicas = 1};
    return 0;
}

static int open_all(struct tram_sim *s, struct err *e)
{
    int rc = alone_make(s, e);
    if (rc == 0)
        rc = check_options(s, e);
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
    int rc;
    struct tram_sim *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return api_error(error, ERR_NOMEM, NULL);
    s->cluster = *cluster;
    s->opt = *o;
    rc = open_all(s, &e);
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
        struct world_event *next = s->at->next;
        free(s->at);
        s->at = next;
    }
    for (uint32_t h = 0; s->process && h < s->fleet.hosts; h++)
        free(s->process[h].place);
    if (world_is_group(s))
        world_group_free(s);
    free(s->process);
    free(s->client);
    state_compare_close(s->compare);
    free(s);
}
