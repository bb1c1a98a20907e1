#include "sim/group_client.h"

#include "base/grow.h"
#include "base/hash.h"
#include "group/relay.h"
#include "sim/group_impl.h"

#include <string.h>

typedef unsigned long long ull;

enum {
    CLIENT_STREAM = 31, /* of the seed */
    HEAD_WORDS = 2,
    BYTES_MAX = 300,
    RETRY_US = 120,
    LIVES_MAX = 40,
    LIAR_OF = 6,
    TOLD_FIRST = 64,
};

/* A reply to a call or query. */
struct client_told {
    uint64_t host, cell, question, count;
};

/* ---- what is delivered ---- */

void group_clients_fill(const struct group_check *c, uint64_t index, unsigned char *out)
{
    const struct group_told *t = &c->clients.told[index];
    uint64_t h = hash_mix(hash_mix(c->seed, index), t->client << 8 | t->cell);
    for (uint32_t i = 0; i < t->bytes; i += 8) {
        h = hash_mix(h, i);
        uint64_t word = i == 0 ? index : h;
        memcpy(out + i, &word, t->bytes - i < 8 ? t->bytes - i : 8);
    }
}

uint64_t group_clients_new(struct group_check *check, uint32_t client, uint32_t cell,
                           uint32_t bytes)
{
    struct group_clients *c = &check->clients;
    if (c->count == c->max) {
        c->max = c->max ? 2 * c->max : TOLD_FIRST;
        c->told = grow("a checker", c->told, sizeof(*c->told), c->max);
    }
    c->told[c->count] = (struct group_told){.client = client, .cell = cell, .bytes = bytes};
    return c->count++;
}

/* Which message it is; the count of all: none. */
static uint64_t find(const struct group_check *c, uint32_t cell, const struct member_item *m)
{
    unsigned char expected[BYTES_MAX];
    uint64_t index = UINT64_MAX;
    if (m->bytes >= sizeof(index))
        memcpy(&index, m->data, sizeof(index));
    if (index >= c->clients.count)
        return c->clients.count;
    const struct group_told *t = &c->clients.told[index];
    if (t->client + 1 != m->client || t->cell != cell || t->bytes != m->bytes)
        return c->clients.count;
    group_clients_fill(c, index, expected);
    return memcmp(expected, m->data, m->bytes) == 0 ? index : c->clients.count;
}

static void deliver_raw(struct group_check *c, uint32_t host, uint64_t index)
{
    struct group_told *t = &c->clients.told[index];
    if (in_set(t->by, host))
        group_check_violated(c, "once per client request", index,
                             "h%u delivers message %llu of client %u again", host, (ull)index,
                             t->client);
    t->by |= set_of(host);
}

void group_clients_deliver(struct group_check *c, uint32_t host, uint32_t cell, uint64_t born,
                           bool fresh, const struct member_item *m)
{
    uint32_t client = m->client - 1;
    CHECK(client < GROUP_CLIENTS_MAX);
    if (c->clients.lies[client])
        return;
    uint64_t index = find(c, cell, m);
    if (index == c->clients.count) {
        group_check_violated(c, "integrity", m->number,
                             "h%u delivers %u bytes of client %u in cell %u that it never sent",
                             host, m->bytes, client, cell);
        return;
    }
    if (group_check_is_raw(c, cell)) {
        deliver_raw(c, host, index);
        return;
    }
    if (!fresh)
        return;
    struct group_told *t = &c->clients.told[index];
    bool same = c->clients.last[client][cell].born == born;
    uint64_t last = same ? c->clients.last[client][cell].told : 0;
    if (t->born == born)
        group_check_violated(c, "once per client request", index,
                             "h%u delivers message %llu of client %u in cell %u again", host,
                             (ull)index, client, cell);
    else if (index < last)
        group_check_violated(c, "client FIFO", index,
                             "h%u delivers message %llu of client %u in cell %u, after %llu", host,
                             (ull)index, client, cell, (ull)last - 1);
    t->born = born;
    c->clients.last[client][cell].told = index + 1;
    c->clients.last[client][cell].born = born;
}

void group_clients_died(struct group_check *c, uint32_t host)
{
    for (uint64_t i = 0; i < c->clients.count; i++)
        c->clients.told[i].by &= ~set_of(host);
}

void group_clients_fini(struct group_clients *c)
{
    grow_free(c->told);
}

/* ---- clients ---- */

static struct group_sim_client *client_at(const struct fleet_node *n)
{
    struct group_run *r = n->fleet->ctx;
    return &r->client[n->node - n->fleet->hosts];
}

static void violated(struct group_sim_client *k, const char *what, uint64_t ticket)
{
    group_check_violated(&k->run->check, "clients", ticket, "client %u, ticket %llu: %s", k->place,
                         (ull)ticket, what);
}

static struct group_told *told_of(const struct group_sim_client *k, uint64_t ticket)
{
    struct group_clients *c = &k->run->check.clients;
    for (uint64_t i = c->count; i > 0; i--) {
        struct group_told *t = &c->told[i - 1];
        if (t->client == k->place && t->life == k->life && t->ticket == ticket)
            return t;
    }
    return NULL;
}

static const char *wrong_reply(const struct group_told *t, const struct client_reply_item *r)
{
    struct client_told a;
    if (r->bytes != sizeof(a))
        return "its reply has another length";
    memcpy(&a, r->data, sizeof(a));
    return a.host != r->host || a.cell != t->cell ? "its reply is another's" : NULL;
}

static void on_done(void *ctx, uint64_t ticket, const struct client_reply_item *r)
{
    struct group_sim_client *k = ctx;
    struct group_run *run = k->run;
    struct group_told *t = told_of(k, ticket);
    chaos_trace(&run->fleet.chaos, "client %u: %llu is done, status %d of h%u", k->place,
                (ull)ticket, r->status, r->host);
    run->check.clients.done++;
    if (t == NULL) /* a query */
        return;
    bool raw = group_check_is_raw(&run->check, t->cell);
    bool delivered = raw ? t->by != 0 || run->check.host[r->host].view == NULL : t->born != 0;
    if (t->done)
        violated(k, "it is done twice", ticket);
    t->done = true;
    if (r->status != 0 && !(t->call && r->status == ERR_LOST))
        violated(k, "its status is none that it could have", ticket);
    else if (!delivered)
        violated(k, "it is said to be delivered, and is not", ticket);
    else if (t->call && r->status == 0 && wrong_reply(t, r))
        violated(k, wrong_reply(t, r), ticket);
}

/* Samples are of the cell's history, in its order, and as many are missing as is said. */
static void on_samples(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *m,
                       uint32_t count, uint64_t lost)
{
    struct group_sim_client *k = ctx;
    const struct group_check *c = &k->run->check;
    struct group_fed *f = &k->fed[cell];
    chaos_trace(&k->run->fleet.chaos, "client %u is fed number %llu of h%u, cell %u, view %llu",
                k->place, (ull)m->number, m->sender, cell, (ull)vid);
    k->run->check.clients.fed += count;
    k->run->check.clients.lost += lost == CLIENT_LOST_SOME ? 1 : lost;
    if (group_check_is_raw(c, cell))
        return;
    const struct group_history *y = group_check_history(c, c->view[vid], cell);
    uint64_t i = f->history == y && f->next ? f->next - 1 : 0;
    while (y && i < y->count && (y->delivery[i].vid != vid || y->delivery[i].number != m->number))
        i++;
    if (y == NULL || i == y->count || y->delivery[i].sender != m->sender)
        violated(k, "it is fed what nobody has delivered, or again", m->number);
    else if (f->history == y && lost != CLIENT_LOST_SOME && !c->stateless && i != f->next + lost)
        violated(k, "it is not told how many samples are lost", m->number);
    else if (f->history == y && i < f->next)
        violated(k, "it is fed a sample again", m->number);
    f->history = y;
    f->next = i + 1;
}

static const struct client_calls client_calls = {.done = on_done, .samples = on_samples};

uint32_t group_client_reply(const struct group_node *n, uint32_t cell, void *out, uint32_t room)
{
    const struct client_told t = {.host = n->host, .cell = cell};
    memcpy(out, &t, sizeof(t) < room ? sizeof(t) : room);
    return sizeof(t);
}

static void send_message(struct group_sim_client *k, uint32_t cell, bool call)
{
    struct group_run *r = k->run;
    struct group_clients *c = &r->check.clients;
    unsigned char data[BYTES_MAX];
    uint32_t most = client_message_max(k->client, cell);
    if (most < HEAD_WORDS * 8)
        return;
    uint32_t bytes =
        (uint32_t)rng_range(&r->fleet.rng, HEAD_WORDS * 8, most < BYTES_MAX ? most : BYTES_MAX);
    uint64_t index = group_clients_new(&r->check, k->place, cell, bytes);
    struct group_told *t = &c->told[index];
    t->life = k->life;
    t->call = call;
    group_clients_fill(&r->check, index, data);
    int rc = call
                 ? client_call(k->client, cell, data, bytes, sizeof(struct client_told), &t->ticket)
                 : client_send(k->client, cell, data, bytes, &t->ticket);
    if (rc == 0) {
        k->quota--;
        c->sent++;
        chaos_trace(&r->fleet.chaos, "client %u sends message %llu to cell %u, ticket %llu",
                    k->place, (ull)c->count - 1, cell, (ull)t->ticket);
        return;
    }
    c->count--;
    if (rc != ERR_AGAIN && !(rc == ERR_INVALID && call))
        violated(k, "it is refused", 0);
}

static void ask(struct group_sim_client *k, uint32_t cell)
{
    uint64_t ticket, question = rng_u64(&k->run->fleet.rng);
    if (client_query(k->client, cell, 0, &question, sizeof(question), sizeof(struct client_told),
                     &ticket) == 0)
        k->quota--;
}

static void subscribe(struct group_sim_client *k, uint32_t cell)
{
    bool is = k->subscribed >> cell & 1;
    if (is)
        client_unsubscribe(k->client, cell);
    else
        client_subscribe(k->client, cell, CLIENT_FROM_NOW);
    k->subscribed ^= UINT32_C(1) << cell;
    k->fed[cell] = (struct group_fed){0};
    chaos_trace(&k->run->fleet.chaos, "client %u %s cell %u", k->place,
                is ? "is done with" : "subscribes to", cell);
}

static void do_something(struct group_sim_client *k)
{
    struct rng *g = &k->run->fleet.rng;
    uint32_t cell = (uint32_t)rng_below(g, k->run->check.cells);
    uint64_t what = rng_below(g, 8), burst = rng_range(g, 1, 6);
    while (k->quota > 0 && burst-- > 0)
        if (what == 0)
            ask(k, cell);
        else
            send_message(k, cell, what == 1);
}

/* ---- who lies ---- */

/* Bytes that are nearly right, of a session with any member. */
static void lie(struct group_sim_client *k)
{
    struct rng *g = &k->run->fleet.rng;
    struct mem *mem = k->mem;
    struct group_liar *l = &k->liar[rng_below(g, k->run->fleet.hosts)];
    unsigned char bytes[sizeof(struct frame) + sizeof(struct client_request) + 64];
    if (l->out == NULL || l->in->ctl == NULL)
        return;
    if (l->flow.status != MEM_DONE || rng_below(g, 20) == 0) {
        mem_flow_open(mem, &l->flow, l->out->spec.owner, l->out->spec.region, 0);
        l->session++;
        l->at = stream_start();
        mem_set1(mem, &l->flow, l->out, REQUEST_SESSION, client_session(mem->life, l->session));
        mem_set1(mem, &l->flow, l->out, REQUEST_FOR, mem_word(l->in, RELAYED_HELLO));
    }
    for (uint32_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)rng_u64(g);
    struct client_request r = {
        .number = rng_below(g, 4) ? rng_below(g, 50) : rng_u64(g),
        .cell = (uint32_t)rng_below(g, k->run->check.cells + (rng_below(g, 20) == 0)),
        .kind = (uint32_t)rng_below(g, 8),
        .reply_max = (uint32_t)rng_below(g, 2000)};
    struct frame f = {.pos = l->at,
                      .bytes = rng_below(g, 10) ? (uint32_t)sizeof(r) + 64 : (uint32_t)rng_u64(g),
                      .life = l->session};
    memcpy(bytes, &f, sizeof(f));
    memcpy(bytes + sizeof(f), &r, sizeof(r));
    mem_put(mem, &l->flow, l->out, l->at, bytes, sizeof(bytes));
    l->at += sizeof(bytes);
    mem_set1(mem, &l->flow, l->out, REQUEST_GUARD, rng_below(g, 10) ? l->at : rng_u64(g));
    mem_set1(mem, &l->flow, l->out, REQUEST_TAKEN,
             rng_below(g, 4) ? mem_word(l->in, RELAYED_GUARD) : rng_u64(g));
}

static int liar_open(struct group_sim_client *k, struct err *e)
{
    enum mem_birth birth;
    int rc = mem_region_open(k->mem, region_number(REGION_MEMBER, 0), &birth, e);
    for (uint32_t h = 0; rc == 0 && h < k->run->fleet.hosts; h++) {
        const struct mem_lane_spec spec[2] = {
            client_lane(h, k->mem->self, LANE_RELAYED, k->run->member_opt.client_bytes),
            client_lane(h, k->mem->self, LANE_REQUEST, k->run->member_opt.client_bytes)};
        struct mem_lane *lane[2];
        rc = mem_lanes_open(k->mem, spec, 2, lane, e);
        if (rc == 0)
            k->liar[h] =
                (struct group_liar){.in = lane[0], .out = lane[1], .flow = {.status = MEM_LOST}};
    }
    return rc;
}

/* ---- in a run ---- */

void group_client_draw(struct group_run *r)
{
    struct rng *g = &r->client_rng;
    rng_init(g, hash_mix(r->opt->seed, CLIENT_STREAM));
    if (rng_below(g, 3) != 0 || r->disks) /* what members have of clients is on no disk */
        return;
    r->fleet.clients = (uint32_t)rng_range(g, 1, GROUP_CLIENTS_MAX);
    r->member_opt.clients = r->fleet.clients;
    r->member_opt.client_node = r->fleet.hosts;
    r->member_opt.client_bytes = MEM_PAGE_BYTES;
    r->check.tables = r->check.stateless;
    for (uint32_t i = 0; i < r->fleet.clients; i++)
        r->check.clients.lies[i] = rng_below(g, LIAR_OF) == 0;
}

int group_client_open(struct fleet_node *n, struct err *e)
{
    struct group_run *r = n->fleet->ctx;
    struct group_sim_client *k = client_at(n);
    *k = (struct group_sim_client){.run = r,
                                   .place = n->node - n->fleet->hosts,
                                   .life = n->mem->life,
                                   .mem = n->mem,
                                   .quota = rng_range(&r->client_rng, 2, 80)};
    if (r->check.clients.lies[k->place])
        return liar_open(k, e);
    for (uint32_t i = 0; i < r->check.cells; i++) {
        const struct cell_options *o = &r->cell[i];
        uint64_t all = set_of(r->fleet.hosts) - 1;
        uint64_t may = o->layout.hosts & all & (r->member_opt.layout ? all : o->layout.senders);
        r->client_cell[i] = (struct client_cell){.hosts = may ? may : o->layout.hosts & all,
                                                 .readers = o->layout.hosts & all,
                                                 .raw = o->mode == CELL_RAW,
                                                 .message_max = o->message_max};
    }
    const struct client_options o = {.mem = n->mem,
                                     .hosts = r->fleet.hosts,
                                     .place = k->place,
                                     .cell = r->client_cell,
                                     .cells = r->check.cells,
                                     .client_bytes = r->member_opt.client_bytes,
                                     .ask_max = 500,
                                     .retry_ns = RETRY_US * RUN_US,
                                     .calls = &client_calls,
                                     .ctx = k};
    return client_open(&o, &k->client, e);
}

uint64_t group_client_step(struct fleet_node *n, uint64_t now_ns)
{
    struct group_sim_client *k = client_at(n);
    struct group_run *r = k->run;
    struct err e = {""};
    mem_poll(n->mem);
    if (k->client == NULL) {
        if (!r->fleet.chaos.calm)
            lie(k);
        return now_ns + RUN_US * 2;
    }
    for (uint32_t h; (h = client_wants_link(k->client)) < r->fleet.hosts;)
        if (client_link_open(k->client, h, &e) != 0)
            violated(k, e.text, 0);
    if (k->quota > 0 && rng_below(&r->client_rng, 6) == 0)
        do_something(k);
    if (rng_below(&r->client_rng, 50) == 0 && !r->fleet.chaos.calm)
        subscribe(k, (uint32_t)rng_below(&r->client_rng, r->check.cells));
    if (rng_below(&r->client_rng, 200) == 0) /* it is busy elsewhere, and is fed meanwhile */
        k->away_ns = now_ns + rng_below(&r->client_rng, 100) * RUN_US;
    if (now_ns < k->away_ns && !r->fleet.chaos.calm)
        return k->away_ns;
    client_settle(k->client, now_ns);
    return k->quota > 0 || k->subscribed || client_outstanding(k->client) > 0 ? now_ns + RUN_US * 5
                                                                              : UINT64_MAX;
}

void group_client_close(struct fleet_node *n)
{
    struct group_sim_client *k = client_at(n);
    struct client_counts counts = {0};
    if (k->client) {
        client_counts(k->client, &counts);
        client_close(k->client);
    }
    k->run->check.clients.again += counts.again;
    k->client = NULL;
}

static void restart_event(void *ctx, uint64_t arg)
{
    struct fleet_node *n = ctx;
    struct err e = {""};
    (void)arg;
    if (!n->fleet->chaos.calm && fleet_start(n, &e) != 0)
        n->fleet->calls->violated(n, "opens", e.text);
}

void group_client_crash(struct fleet_node *n)
{
    struct fleet *f = n->fleet;
    struct group_run *r = f->ctx;
    uint32_t life = n->mem->life;
    chaos_trace(&f->chaos, "%s dies", n->name);
    fleet_crash(n, rng_below(&f->rng, 2));
    f->chaos.faults++;
    if (life + 1 < LIVES_MAX && rng_below(&r->client_rng, 4) != 0)
        sim_at(f->sim, sim_now(f->sim) + rng_range(&r->client_rng, RUN_US, 200 * RUN_US),
               restart_event, n, 0);
}

bool group_client_done(const struct group_run *r, uint32_t client, const struct view *v)
{
    const struct group_sim_client *k = &r->client[client];
    for (uint32_t i = 0; k->client && i < v->cells; i++)
        if (k->subscribed >> i & 1 && v->cell[i].members &&
            client_feeder(k->client, i) == r->fleet.hosts)
            return false;
    for (uint32_t i = 0; k->client && i < v->cells; i++)
        if (client_waits(k->client, i) > 0 && v->cell[i].senders & r->client_cell[i].hosts)
            return false;
    return true;
}

void group_client_describe(const struct group_run *r, uint32_t client)
{
    const struct group_sim_client *k = &r->client[client];
    for (uint32_t i = 0; k->client && i < r->check.cells; i++)
        if (client_waits(k->client, i) > 0)
            chaos_trace(&r->fleet.chaos,
                        "client %u waits for %u of cell %u, of h%u, %u were tried; %llx may send",
                        client, client_waits(k->client, i), i, client_host(k->client, i),
                        client_tried(k->client, i), (ull)r->client_cell[i].hosts);
}
