/* Clients of a group: programs that are no members of it (include/tram/group.h), on shared memory or a network. */
#include "api/group_client.h"

#include "base/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPIN_NS = 50000,        /* how long a waiting client spins before it sleeps */
    ROUNDS_PER_YIELD = 64,  /* how often it lets others have the core meanwhile */
    SLEEP_NS_MAX = 5000000, /* and how long it sleeps at most before it looks after its rings */
    IDLE_NS = 500000000,    /* the same with nothing under way, in an event loop */
    OWN_CODES = -100,    /* what machines return is above, what the layers below say is beneath */
    LOOK_NS = 100000000, /* how often it looks whether members are there */
};

/* ---- what is done ---- */

static int plain_status(int status)
{
    return status <= 0 && status > OWN_CODES ? status : api_error(NULL, status, NULL);
}

static void on_done(void *ctx, uint64_t ticket, const struct client_reply_item *r)
{
    struct tram_group_client *c = ctx;
    if (c->opt.done)
        c->opt.done(c->opt.ctx, ticket,
                    &(struct tram_answer){.host = r->host,
                                          .status = plain_status(r->status),
                                          .version = r->version,
                                          .data = r->data,
                                          .bytes = r->bytes});
}

static const struct client_calls calls = {.done = on_done, .samples = client_topic_samples};

/* ---- rounds ---- */

static const char *cell_name(const struct tram_group_client *c, uint32_t cell,
                             struct cluster_cell_name *name)
{
    *name = cluster_cell_name(c->cluster->conf, cell);
    return name->s;
}

const char *tram_group_client_waits(struct tram_group_client *c, uint32_t cell)
{
    if (cell >= c->cells)
        return "there is no such cell";
    uint32_t count = set_count(c->cell[cell].hosts);
    if (client_waits(c->client, cell) == 0 || client_tried(c->client, cell) < count)
        return NULL;
    struct cluster_cell_name name;
    int at = snprintf(c->waits, sizeof(c->waits),
                      "no member that sends in %s takes anything:", cell_name(c, cell, &name));
    for (uint64_t rest = c->cell[cell].hosts; rest; rest = set_rest(rest))
        if (at > 0 && (size_t)at < sizeof(c->waits))
            at += snprintf(c->waits + at, sizeof(c->waits) - (size_t)at, " %s",
                           c->cluster->conf->host[set_first(rest)].name);
    if (at > 0 && (size_t)at < sizeof(c->waits))
        snprintf(c->waits + at, sizeof(c->waits) - (size_t)at, "%s tried",
                 count == 1 ? " was" : " were");
    return c->waits;
}

/* Says once that nobody is there for a cell, and that somebody is again. */
static void look_for_members(struct tram_group_client *c, uint64_t now_ns)
{
    if (now_ns - c->look_ns < LOOK_NS)
        return;
    c->look_ns = now_ns;
    for (uint32_t i = 0; i < c->cells; i++) {
        struct cluster_cell_name name;
        const char *waits = tram_group_client_waits(c, i);
        if (waits && !c->said[i])
            say_warn(&c->say, "client %u: %s", c->place, waits);
        else if (!waits && c->said[i] && client_host(c->client, i) < c->cluster->conf->hosts)
            say_info(&c->say, "client %u: %s takes what is sent to %s", c->place,
                     c->cluster->conf->host[client_host(c->client, i)].name,
                     cell_name(c, i, &name));
        c->said[i] = waits != NULL;
    }
}

static int settle(struct tram_group_client *c)
{
    struct err e = {""};
    uint64_t now_ns = clock_now_ns();
    mem_poll(c->mem);
    int done = client_settle(c->client, now_ns);
    for (uint32_t h; (h = client_wants_link(c->client)) < c->cluster->conf->hosts;)
        if (client_link_open(c->client, h, &e) != 0)
            say_warn(&c->say, "client %u: %s", c->place, e.text);
    look_for_members(c, now_ns);
    c->waits_for_disk = c->reads > 0 && client_topics_read(c, now_ns);
    return done;
}

static int failure(const struct tram_group_client *c, struct err *e)
{
    const char *why = api_mem_failure(c->cluster, c->mem);
    return why ? err_set(e, ERR_REFUSED, "%s", why) : 0;
}

/* Polls; if nothing is done, the descriptor tells when to poll again. */
static int poll_armed(struct tram_group_client *c)
{
    event_begin(&c->event);
    int done = settle(c);
    if (done > 0)
        return done;
    mem_doze(c->mem);
    done = settle(c);
    if (done > 0) {
        mem_rouse(c->mem);
        return done;
    }
    bool waits = client_outstanding(c->client) > 0 || c->waits_for_disk;
    uint64_t rest = waits ? SLEEP_NS_MAX : IDLE_NS;
    if (!event_arm(&c->event, clock_now_ns() + rest))
        event_wake(&c->event); /* what is not armed now is readable at once */
    return 0;
}

int tram_group_client_poll(struct tram_group_client *c, struct tram_error *error)
{
    struct err e = {""};
    int done = c->event.fd >= 0 ? poll_armed(c) : settle(c);
    return done ? done : api_error(error, failure(c, &e), &e);
}

/* Spins, then sleeps. */
int tram_group_client_wait(struct tram_group_client *c, uint64_t timeout_ns,
                           struct tram_error *error)
{
    struct err e = {""};
    uint64_t start = clock_now_ns();
    if (c->event.fd >= 0)
        event_begin(&c->event);
    for (uint32_t rounds = 1;; rounds++) {
        int done = settle(c);
        if (done == 0)
            done = failure(c, &e);
        uint64_t now = clock_now_ns();
        if (done != 0 || now - start >= timeout_ns)
            return api_error(error, done, &e);
        if (now - start < SPIN_NS) {
            if (rounds % ROUNDS_PER_YIELD == 0)
                sched_yield();
            continue;
        }
        mem_doze(c->mem);
        done = settle(c);
        if (done > 0 || atomic_exchange(&c->woken, false)) {
            mem_rouse(c->mem);
            return done;
        }
        uint64_t left = timeout_ns - (now - start);
        mem_sleep(c->mem, now + (left < SLEEP_NS_MAX ? left : SLEEP_NS_MAX));
    }
}

int tram_group_client_fd(struct tram_group_client *c, struct tram_error *error)
{
    struct err e = {""};
    int rc = c->event.fd >= 0 ? 0 : event_open(&c->event, c->mem, &e);
    return rc == 0 ? c->event.fd : api_error(error, rc, &e);
}

void tram_group_client_wake(struct tram_group_client *c)
{
    atomic_store(&c->woken, true);
    if (c->event.fd >= 0)
        event_wake(&c->event);
    else
        mem_wake(c->mem);
}

/* ---- sending ---- */

int tram_group_client_cell(const struct tram_group_client *c, const char *subgroup, uint32_t shard)
{
    const struct cluster *f = c->cluster->conf;
    for (uint32_t i = 0; i < c->cells; i++) {
        uint32_t at, s = cluster_cell_subgroup(f, i, &at);
        if (at == shard && strcmp(f->subgroup[s].name, subgroup) == 0)
            return (int)i;
    }
    return TRAM_NOTFOUND;
}

static int not_sent(struct tram_group_client *c, uint32_t cell, int rc, uint32_t bytes,
                    struct err *e)
{
    struct cluster_cell_name name;
    const char *waits = tram_group_client_waits(c, cell);
    if (rc == ERR_TOOBIG)
        return err_set(e, rc, "cell %s: %u bytes; a client sends at most %u there, and asks %u",
                       cell_name(c, cell, &name), bytes, client_message_max(c->client, cell),
                       client_ask_max(c->client));
    if (rc == ERR_INVALID)
        return err_set(e, rc, "cell %s has mode: raw, and no order for calls",
                       cell_name(c, cell, &name));
    return err_set(e, rc, "cell %s: too much is under way%s%s", cell_name(c, cell, &name),
                   waits ? "; " : "", waits ? waits : "");
}

static int check(const struct tram_group_client *c, uint32_t cell, struct err *e)
{
    if (cell >= c->cells)
        return err_set(e, ERR_NOTFOUND, "there is no cell %u", cell);
    return failure(c, e);
}

int tram_group_client_send(struct tram_group_client *c, uint32_t cell, const void *data,
                           uint32_t bytes, uint64_t *ticket, struct tram_error *error)
{
    struct err e = {""};
    uint64_t unused;
    int rc = check(c, cell, &e);
    if (rc != 0)
        return api_error(error, rc, &e);
    rc = client_send(c->client, cell, data, bytes, ticket ? ticket : &unused);
    return rc == 0 ? TRAM_OK : api_error(error, not_sent(c, cell, rc, bytes, &e), &e);
}

int tram_group_client_call(struct tram_group_client *c, uint32_t cell, const void *data,
                           uint32_t bytes, uint32_t reply_max, uint64_t *ticket,
                           struct tram_error *error)
{
    struct err e = {""};
    uint64_t unused;
    int rc = check(c, cell, &e);
    if (rc != 0)
        return api_error(error, rc, &e);
    rc = client_call(c->client, cell, data, bytes, reply_max, ticket ? ticket : &unused);
    return rc == 0
               ? TRAM_OK
               : api_error(error, not_sent(c, cell, rc, bytes > reply_max ? bytes : reply_max, &e),
                           &e);
}

int tram_group_client_query(struct tram_group_client *c, uint32_t cell, uint64_t version,
                            const void *data, uint32_t bytes, uint32_t reply_max, uint64_t *ticket,
                            struct tram_error *error)
{
    struct err e = {""};
    uint64_t unused;
    int rc = check(c, cell, &e);
    if (rc != 0)
        return api_error(error, rc, &e);
    rc = client_query(c->client, cell, version, data, bytes, reply_max, ticket ? ticket : &unused);
    return rc == 0
               ? TRAM_OK
               : api_error(error, not_sent(c, cell, rc, bytes > reply_max ? bytes : reply_max, &e),
                           &e);
}

uint32_t tram_group_client_outstanding(const struct tram_group_client *c)
{
    return client_outstanding(c->client);
}

uint32_t tram_group_client_message_max(const struct tram_group_client *c, uint32_t cell)
{
    return cell < c->cells ? client_message_max(c->client, cell) : 0;
}

uint32_t tram_group_client_ask_max(const struct tram_group_client *c)
{
    return client_ask_max(c->client);
}

/* ---- opening ---- */

static void make_cells(struct tram_group_client *c)
{
    const struct cluster *f = c->cluster->conf;
    for (uint32_t i = 0; i < c->cells; i++) {
        uint32_t shard;
        const struct cluster_subgroup *s = &f->subgroup[cluster_cell_subgroup(f, i, &shard)];
        uint64_t may = s->hosts & s->senders;
        c->cell[i] = (struct client_cell){.hosts = may ? may : s->hosts,
                                          .readers = s->hosts,
                                          .raw = s->mode == CLUSTER_MODE_RAW,
                                          .message_max = s->message_max};
    }
}

static int open_all(struct tram_group_client *c, struct err *e)
{
    const struct cluster *f = c->cluster->conf;
    c->cells = cluster_cells(f);
    c->cell = calloc(c->cells, sizeof(*c->cell));
    c->said = calloc(c->cells, sizeof(*c->said));
    c->topic = calloc(c->cells, sizeof(struct tram_client_topic *));
    if (c->cell == NULL || c->said == NULL || c->topic == NULL)
        return err_set(e, ERR_NOMEM, "client: no memory");
    make_cells(c);
    int rc = api_join_client(c->cluster, &c->say, &c->mem, e);
    if (rc != 0)
        return rc;
    c->place = c->mem->self - c->cluster->sizes.client_node;
    const struct client_options o = {.mem = c->mem,
                                     .hosts = f->hosts,
                                     .place = c->place,
                                     .cell = c->cell,
                                     .cells = c->cells,
                                     .retry_ns = c->opt.retry_ms * UINT64_C(1000000),
                                     .calls = &calls,
                                     .ctx = c};
    return client_open(&o, &c->client, e);
}

void tram_group_client_close(struct tram_group_client *c)
{
    if (c == NULL)
        return;
    if (c->client)
        client_close(c->client);
    c->client = NULL;
    if (c->mem)
        mem_close(c->mem);
    event_close(&c->event);
    free(c->cell);
    free(c->said);
    client_topics_close(c);
    free(c->topic);
    free(c);
}

int tram_group_client_open(const struct tram_cluster *cluster,
                           const struct tram_group_client_options *o,
                           struct tram_group_client **out, struct tram_error *error)
{
    struct err e = {""};
    if (cluster->conf->protocol != CLUSTER_GROUP)
        return api_error(error,
                         err_set(&e, ERR_INVALID,
                                 "cluster %s has protocol: %s, and this client is for protocol: "
                                 "group; tram_client_open makes one for it",
                                 cluster->conf->name,
                                 cluster_protocol_name(cluster->conf->protocol)),
                         &e);
    struct tram_group_client *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return api_error(error, ERR_NOMEM, NULL);
    c->cluster = cluster;
    c->event = (struct event)EVENT_CLOSED;
    if (o)
        c->opt = *o;
    c->say = api_say(cluster, &c->opt.log);
    int rc = open_all(c, &e);
    if (rc != 0) {
        tram_group_client_close(c);
        return api_error(error, rc, &e);
    }
    *out = c;
    return TRAM_OK;
}
