/* The cluster of a model, its processors, and measuring. */
#include "bench/model_impl.h"

#include "base/grow.h"
#include "mcast/message.h"

#include <stdlib.h>
#include <string.h>

enum {
    REPLY_MAX = 16,
    RING_BYTES = 16 << 10, /* of a client at a replica, if messages are small */
    CLIENTS_MAX = 128,
    WARM_UP = 50,         /* messages before latency counts */
    RATE_MESSAGES = 1000, /* that a rate is taken from at least, */
    RATE_BYTES = 4 << 20, /* or so many bytes, */
    RATE_ROUNDS = 4,      /* and at least so many times what is under way */
    OUTSTANDING_STEP = 4,
    OUTSTANDING_MAX = 256, /* of one client, to saturate */
};

#define MS UINT64_C(1000000)

/* What is under way must bring this much more before more is tried. */
#define GROWTH_MIN 1.03

/* ---- the machine ---- */

static uint32_t machine_deliver(void *ctx, const struct delivery *d, void *reply,
                                uint32_t reply_max)
{
    struct member *m = ctx;
    (void)d;
    CHECK(reply_max >= sizeof(m->delivered));
    m->delivered++;
    memcpy(reply, &m->delivered, sizeof(m->delivered));
    return sizeof(m->delivered);
}

static const struct mcast_machine machine = {
    .deliver = machine_deliver,
    .state = &state_block_ops,
};

/* The genuine protocol has to order it among groups: it is a stamp, or a message to several. */
static bool among_groups(const struct model *m, const struct entry *e)
{
    struct message head;
    if (m->opt.protocol == MCAST_TREE)
        return false;
    if (e->source >= m->sizes.clients || e->bytes < sizeof(head))
        return true;
    memcpy(&head, e->payload, sizeof(head));
    return head.count > 1;
}

/* Every entry takes its replica's time before what it brings about leaves. */
static void machine_observe(void *ctx, const struct entry *e, bool effective)
{
    struct member *mb = ctx;
    const struct model_costs *c = &mb->model->opt.costs;
    bool leads = replica_leads(mb->replica);
    bool stamp = among_groups(mb->model, e);
    double ns = stamp   ? leads ? c->stamp_ns : c->follow_stamp_ns
                : leads ? c->entry_ns
                        : c->follow_ns;
    (void)effective;
    sim_work(mb->model->sim, mb->node, (uint64_t)(ns + c->copy_ps * e->bytes / 1000));
}

/* ---- processors ---- */

/* Groups that write to a group; and their replicas, but for one of each. */
static uint32_t streams_in(const struct model *m)
{
    uint32_t n = m->opt.overlay->n;
    return m->opt.protocol == MCAST_TREE ? n > 1 : n - 1;
}

static uint32_t others_in(const struct model *m)
{
    return streams_in(m) * (m->opt.replicas - 1);
}

/* What a round of the station takes if there is nothing. */
static uint64_t round_ns(const struct station *s)
{
    const struct model *m = s->model;
    const struct model_costs *c = &m->opt.costs;
    double ns = s == s->processor->station ? c->clock_ns : 0;
    if (s->host == NULL)
        return (uint64_t)(ns + c->look_ns * m->opt.dst);
    /* A leader looks at the ring of every client that is there, at one of every group that writes to it,
     * and at one of their others. */
    double links = m->active + streams_in(m) + (others_in(m) > 0);
    double every = s->host->units < HOST_FOLLOW_EVERY ? 1 : HOST_FOLLOW_EVERY;
    for (uint32_t i = 0; i < s->host->units; i++)
        ns += s->host->unit[i].leads ? c->poll_ns + links * c->scan_ns : c->watch_ns / every;
    return (uint64_t)ns;
}

static uint64_t lap_ns(const struct processor *p)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < p->stations; i++)
        ns += round_ns(&p->station[i]);
    return ns;
}

static bool cast(struct station *s)
{
    struct model *m = s->model;
    const struct model_options *o = &m->opt;
    uint64_t start_ns = sim_busy_ns(m->sim, s->node), seq;
    struct dst_set set = {o->sets + m->set_next % o->sets_count * o->dst, o->dst};
    if (caster_cast(s->caster, set, m->body, o->payload, &seq) != 0)
        return false;
    m->set_next++;
    s->start_ns[seq % caster_window(s->caster)] = start_ns;
    sim_work(m->sim, s->node, (uint64_t)(o->costs.cast_ns + o->costs.copy_ps * o->payload / 1000));
    return true;
}

static int client_round(struct station *s, uint64_t now_ns)
{
    int work = mem_poll(s->mem);
    work += caster_poll(s->caster, now_ns);
    int sent = 0;
    while (caster_outstanding(s->caster) < s->want && cast(s))
        sent++;
    if (sent > 0)
        caster_flush(s->caster);
    return work + sent;
}

/* When the processor has something to do though nothing lands. */
static uint64_t alarm_ns(const struct processor *p)
{
    const uint64_t now = sim_now(p->model->sim);
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < p->stations; i++) {
        const struct station *s = &p->station[i];
        uint64_t next = UINT64_MAX;
        for (uint32_t k = 0; s->host && k < s->host->units; k++) {
            uint64_t unit = unit_next_ns(&s->host->unit[k]);
            next = unit < next ? unit : next;
        }
        if (s->caster && caster_outstanding(s->caster) > 0)
            next = now + MS;
        least = next < least ? next : least;
    }
    return least;
}

static void step_event(void *ctx, uint64_t step);

static void schedule(struct processor *p, uint64_t when_ns)
{
    uint64_t busy_ns = sim_busy_ns(p->model->sim, p->station->node);
    sim_at(p->model->sim, when_ns > busy_ns ? when_ns : busy_ns, step_event, p, ++p->step);
}

static void step_event(void *ctx, uint64_t step)
{
    struct processor *p = ctx;
    if (step != p->step)
        return;
    struct sim *sim = p->model->sim;
    struct station *s = &p->station[p->turn];
    uint64_t now = sim_now(sim);
    p->asleep = false;
    p->turn = (p->turn + 1) % p->stations;
    p->idle++;
    sim_work(sim, s->node, round_ns(s));
    if ((s->host ? host_turn(s->host, now) : client_round(s, now)) > 0)
        p->idle = 0;
    p->asleep = p->idle >= p->patience;
    uint64_t alarm = p->asleep ? alarm_ns(p) : 0;
    if (alarm != UINT64_MAX)
        schedule(p, alarm > now ? alarm : now);
}

/* Something has landed: who polls all the time comes by half a lap later. */
static void on_touch(void *ctx, uint32_t node)
{
    struct model *m = ctx;
    struct station *s = &m->station[node];
    struct processor *p = s->processor;
    p->idle = 0;
    if (!p->asleep)
        return;
    p->asleep = false;
    p->turn = (uint32_t)(s - p->station);
    schedule(p, sim_now(m->sim) + lap_ns(p) / 2);
}

void model_wake(struct station *s)
{
    on_touch(s->model, s->node);
}

/* ---- clients ---- */

static void on_reply(void *ctx, uint64_t seq, uint16_t group, uint32_t status, const void *body,
                     uint32_t bytes)
{
    struct station *s = ctx;
    (void)seq, (void)group, (void)status, (void)body, (void)bytes;
    sim_work(s->model->sim, s->node, (uint64_t)s->model->opt.costs.reply_ns);
}

static void on_done(void *ctx, uint64_t seq, bool refused)
{
    struct station *s = ctx;
    struct model *m = s->model;
    CHECK(!refused);
    struct sample one = {s->start_ns[seq % caster_window(s->caster)], sim_busy_ns(m->sim, s->node)};
    m->done++;
    if (m->latency)
        hist_add(m->latency, one.end_ns - one.start_ns);
    if (!m->sampling)
        return;
    if (m->samples == m->samples_max) {
        m->samples_max = 2 * m->samples_max + 1024;
        m->sample = grow("samples", m->sample, sizeof(*m->sample), m->samples_max);
    }
    m->sample[m->samples++] = one;
}

void model_load(struct model *m, uint32_t clients, uint32_t outstanding)
{
    CHECK(clients <= m->opt.clients);
    m->active = clients > 1 ? clients : 1;
    for (uint32_t c = 0; c < m->opt.clients; c++) {
        client_of(m, c)->want = c < clients ? outstanding : 0;
        if (c < clients)
            model_wake(client_of(m, c));
    }
}

/* ---- opening ---- */

static int settle_options(struct model *m, struct err *e)
{
    struct model_options *o = &m->opt;
    const uint32_t n = o->overlay->n;
    if (o->replicas == 0 || o->replicas > LOG_REPLICAS_MAX)
        return err_set(e, ERR_INVALID, "model: %u replicas; 1 to %d", o->replicas,
                       LOG_REPLICAS_MAX);
    if (o->clients == 0 || o->clients > CLIENTS_MAX)
        return err_set(e, ERR_INVALID, "model: %u clients; 1 to %d", o->clients, CLIENTS_MAX);
    m->hosts = o->layout == MODEL_SPREAD ? n * o->replicas : o->hosts;
    if (m->hosts < o->replicas)
        return err_set(e, ERR_INVALID, "model: %u hosts for %u replicas", m->hosts, o->replicas);
    m->group = calloc(n, sizeof(*m->group));
    m->member = calloc((size_t)n * o->replicas, sizeof(*m->member));
    m->station = calloc(m->hosts + o->clients, sizeof(*m->station));
    m->processor = calloc(m->hosts + o->clients, sizeof(*m->processor));
    m->body = calloc(1, o->payload + 8);
    if (!m->group || !m->member || !m->station || !m->processor || !m->body)
        return err_set(e, ERR_NOMEM, "model: no memory");
    for (uint32_t g = 0; g < n; g++) {
        m->group[g].replicas = o->replicas;
        for (uint32_t q = 0; q < o->replicas; q++)
            m->group[g].nodes[q] =
                o->layout == MODEL_SPREAD ? g * o->replicas + q : (g + q) % m->hosts;
    }
    m->sizes = (struct mcast_sizes){
        .clients = o->clients,
        .client_node = m->hosts,
        .body_max = o->payload < 1024 ? 1024 : o->payload,
        .reply_max = REPLY_MAX,
        .source_bytes = o->payload <= 1024 ? RING_BYTES : 0,
    };
    return mcast_sizes_settle(&m->sizes, e);
}

static int sim_part_open(struct model *m, struct err *e)
{
    const struct model_costs *c = &m->opt.costs;
    const struct sim_options so = {
        .seed = m->opt.seed,
        .nodes_max = m->hosts + m->opt.clients,
        .clients_from = m->hosts,
        .delay_ns_min = (uint64_t)c->write_ns,
        .delay_ns_max = (uint64_t)c->write_ns,
        .lost_after_ns = 1000 * MS,
        .costs = {.on = true,
                  .post_ns = (uint64_t)c->post_ns,
                  .store_ns = (uint64_t)c->store_ns,
                  .copy_ps = (uint64_t)c->copy_ps,
                  .byte_ps = (uint64_t)c->byte_ps,
                  .ack_ns = (uint64_t)c->ack_ns,
                  .raise_ns = (uint64_t)c->raise_ns},
    };
    m->sim = sim_open(&so, e);
    return m->sim ? 0 : ERR_INVALID;
}

static void processors_make(struct model *m)
{
    const bool shared = m->opt.layout == MODEL_SHARED;
    for (uint32_t i = 0; i < m->hosts + m->opt.clients; i++) {
        struct station *s = &m->station[i];
        bool first = i == 0 || i == m->hosts || !shared;
        *s = (struct station){.model = m, .node = i};
        if (first)
            m->processor[m->processors++] =
                (struct processor){.model = m, .station = s, .asleep = true};
        s->processor = &m->processor[m->processors - 1];
        s->processor->stations++;
        sim_place(m->sim, i, s->processor->station->node);
    }
}

static int host_open(struct model *m, struct station *s, struct err *e)
{
    const struct model_options *o = &m->opt;
    s->mem = sim_node_start(m->sim, s->node);
    s->host = calloc(1, sizeof(*s->host));
    if (s->host == NULL)
        return err_set(e, ERR_NOMEM, "model: no memory");
    struct host_options ho = {.mem = s->mem, .wait = HOST_SPIN};
    host_init(s->host, &ho);
    for (uint32_t g = 0; g < o->overlay->n; g++)
        for (uint32_t q = 0; q < o->replicas; q++) {
            if (m->group[g].nodes[q] != s->node)
                continue;
            struct member *mb = member_of(m, g, q);
            *mb = (struct member){.block = {.data = &mb->delivered, .bytes = sizeof(mb->delivered)},
                                  .model = m,
                                  .node = s->node};
            struct replica_options ro = {
                .mem = s->mem,
                .protocol = o->protocol,
                .overlay = o->overlay,
                .groups = m->group,
                .group = (uint16_t)g,
                .rank = q,
                .sizes = m->sizes,
                .seed = o->seed,
                .machine = &machine,
                .ctx = mb,
                .observe = machine_observe,
            };
            int rc = replica_open(&ro, &mb->replica, e);
            if (rc != 0)
                return rc;
            host_add(s->host, replica_unit(mb->replica));
        }
    /* Followers have their turn, and all rings have been looked at. */
    uint32_t laps = s->host->units < HOST_FOLLOW_EVERY ? 1 : HOST_FOLLOW_EVERY;
    laps = others_in(m) > laps ? others_in(m) : laps;
    s->processor->patience = laps * s->processor->stations;
    return 0;
}

static int client_open(struct model *m, struct station *s, struct err *e)
{
    const struct model_options *o = &m->opt;
    s->mem = sim_node_start(m->sim, s->node);
    s->processor->patience = s->processor->stations;
    struct caster_options co = {
        .mem = s->mem,
        .protocol = o->protocol,
        .overlay = o->overlay,
        .groups = m->group,
        .sizes = m->sizes,
        .place = s->node - m->hosts,
        .reply = on_reply,
        .done = on_done,
        .ctx = s,
    };
    int rc = caster_open(&co, &s->caster, e);
    if (rc != 0)
        return rc;
    s->start_ns = calloc(caster_window(s->caster), sizeof(*s->start_ns));
    if (s->start_ns == NULL)
        return err_set(e, ERR_NOMEM, "model: no memory");
    for (uint32_t g = 0; rc == 0 && g < o->overlay->n; g++)
        rc = caster_group_open(s->caster, (uint16_t)g, e);
    return rc;
}

struct member *model_leader(struct model *m, uint32_t group)
{
    for (uint32_t q = 0; q < m->opt.replicas; q++) {
        struct unit_status s;
        replica_status(member_of(m, group, q)->replica, &s);
        if (s.role == UNIT_LEADER && s.promised == s.epoch)
            return member_of(m, group, q);
    }
    return NULL;
}

static bool all_led(struct model *m, uint64_t arg)
{
    (void)arg;
    for (uint32_t g = 0; g < m->opt.overlay->n; g++)
        if (model_leader(m, g) == NULL)
            return false;
    return true;
}

int model_open(const struct model_options *options, struct model **out, struct err *e)
{
    struct model *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return err_set(e, ERR_NOMEM, "model: no memory");
    m->opt = *options;
    m->active = 1;
    int rc = settle_options(m, e);
    if (rc == 0)
        rc = sim_part_open(m, e);
    if (rc == 0)
        processors_make(m);
    for (uint32_t i = 0; rc == 0 && i < m->hosts + m->opt.clients; i++)
        rc = i < m->hosts ? host_open(m, &m->station[i], e) : client_open(m, &m->station[i], e);
    if (rc == 0) {
        sim_on_touch(m->sim, on_touch, m);
        for (uint32_t i = 0; i < m->hosts; i++)
            model_wake(&m->station[i]);
        rc = model_run(m, all_led, 0, e);
    }
    for (uint32_t i = 0; rc == 0 && m->opt.restless && i < m->hosts + m->opt.clients; i++) {
        m->station[i].processor->patience = UINT32_MAX;
        model_wake(&m->station[i]);
    }
    if (rc != 0) {
        model_close(m);
        return rc;
    }
    *out = m;
    return 0;
}

void model_close(struct model *m)
{
    if (m == NULL)
        return;
    for (uint32_t i = 0; m->member && i < m->opt.overlay->n * m->opt.replicas; i++)
        replica_close(m->member[i].replica);
    for (uint32_t i = 0; m->station && i < m->hosts + m->opt.clients; i++) {
        free(m->station[i].host);
        free(m->station[i].start_ns);
        caster_close(m->station[i].caster);
    }
    if (m->sim)
        sim_close(m->sim);
    free(m->group);
    free(m->member);
    free(m->station);
    free(m->processor);
    free(m->body);
    free(m->sample);
    free(m->delayed);
    free(m);
}

/* ---- measuring ---- */

int model_run(struct model *m, bool (*until)(struct model *, uint64_t arg), uint64_t arg,
              struct err *e)
{
    uint64_t deadline_ns = sim_now(m->sim) + 1000 * MS;
    while (!until(m, arg))
        if (!sim_step(m->sim) || sim_now(m->sim) > deadline_ns)
            return err_set(e, ERR_TIMEOUT, "model: nothing happens any more, after %llu messages",
                           (unsigned long long)m->done);
    return 0;
}

bool model_until_done(struct model *m, uint64_t messages)
{
    return m->done >= messages;
}

static uint64_t under_way(struct model *m)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; c < m->opt.clients; c++)
        sum += caster_outstanding(client_of(m, c)->caster);
    return sum;
}

static bool nothing_under_way(struct model *m, uint64_t arg)
{
    (void)arg;
    return under_way(m) == 0;
}

int model_drain(struct model *m, struct err *e)
{
    model_load(m, 0, 0);
    return model_run(m, nothing_under_way, 0, e);
}

int model_latency(struct model *m, uint32_t messages, struct hist *latency, struct err *e)
{
    model_load(m, 1, 1);
    int rc = model_run(m, model_until_done, m->done + WARM_UP, e);
    m->latency = latency;
    if (rc == 0)
        rc = model_run(m, model_until_done, m->done + messages, e);
    m->latency = NULL;
    return rc == 0 ? model_drain(m, e) : rc;
}

int model_rate(struct model *m, uint32_t clients, uint32_t outstanding, double *rate, struct err *e)
{
    /* Of large messages fewer do: what takes its time here is their bytes. */
    uint64_t messages = RATE_BYTES / (m->opt.payload + 1);
    messages = messages < RATE_MESSAGES ? messages : RATE_MESSAGES;
    model_load(m, clients, outstanding);
    int rc = model_run(m, model_until_done, m->done + messages, e);
    /* What clients may have under way is bounded by their rings, too. */
    uint64_t rounds = RATE_ROUNDS * under_way(m);
    messages = messages > rounds ? messages : rounds;
    uint64_t from = m->done, from_ns = sim_now(m->sim);
    if (rc == 0)
        rc = model_run(m, model_until_done, m->done + messages, e);
    if (rc != 0)
        return rc;
    *rate = (double)(m->done - from) * 1e9 / (double)(sim_now(m->sim) - from_ns);
    return model_drain(m, e);
}

int model_saturate(struct model *m, uint32_t clients, double *rate, struct err *e)
{
    uint32_t window = caster_window(client_of(m, 0)->caster);
    *rate = 0;
    for (uint32_t k = 1; k <= OUTSTANDING_MAX && k <= window; k *= OUTSTANDING_STEP) {
        double now;
        int rc = model_rate(m, clients, k, &now, e);
        if (rc != 0)
            return rc;
        bool grows = now > *rate * GROWTH_MIN;
        *rate = now > *rate ? now : *rate;
        if (!grows)
            break;
    }
    return 0;
}

uint64_t model_hash(const struct model *m)
{
    return sim_hash(m->sim);
}

uint64_t model_events(const struct model *m)
{
    return sim_events(m->sim);
}
