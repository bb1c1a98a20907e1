/* A member that lies by a plan (scheme.h), on the broadcast and the frames of the log among liars. */
#include "sim/bft_run_impl.h"

#include <string.h>

void bft_plan_learns(void *ctx, const struct sign_text *t, const unsigned char *signature)
{
    struct run *r = ctx;
    known_sign(&r->known, t, signature);
}

/* What members tell each other, those who lie hear. */
static void on_put(void *ctx, const struct mem_lane_spec *s, uint64_t pos, const void *data,
                   uint32_t bytes)
{
    struct run *r = ctx;
    const struct bft_scope scope = {.members = r->group.replicas, .faulty = r->faulty};
    struct known_frame f = {0};
    (void)pos;
    if (lane_kind(s) != LANE_TALK)
        return;
    /* What liars write may be anything. */
    while (known_frame_next(data, bytes, &f))
        if (f.frame->kind == BFT_FRAME_BODY &&
            bft_body_fault(&scope, f.frame->data, f.bytes) == NULL)
            known_take_body(&r->known, f.frame->rank, f.frame->key, f.frame->data, f.bytes);
}

/* What a client has sent next and nobody has decided, so many messages of it or fewer. */
static uint32_t batch_of(const struct run *r, const struct client *c, uint64_t more, void *out,
                         uint32_t bytes_max)
{
    uint64_t pos = r->check.source_end[c->number];
    uint32_t bytes = 0;
    for (uint64_t i = 0; !c->lies && i < c->sent && more > 0; i++) {
        const struct sent *m = &c->message[i];
        if (m->pos != pos || bytes + entry_size(m->bytes) > bytes_max)
            continue;
        struct entry *e = (void *)((char *)out + bytes);
        memset(e, 0, entry_size(m->bytes));
        *e = (struct entry){.bytes = m->bytes, .source = (uint16_t)c->number, .srcpos = m->pos};
        check_fill(r->check.seed, c->number, m->pos, e->payload, m->bytes);
        bytes += (uint32_t)entry_size(m->bytes);
        pos += frame_size(m->bytes);
        more--;
    }
    return bytes;
}

static uint32_t scheme_batch(void *ctx, struct rng *g, void *out, uint32_t bytes_max)
{
    const struct run *r = ((struct member *)ctx)->run;
    const struct client *c = &r->client[rng_below(g, r->fleet.clients)];
    if (bytes_max > r->bft_opt.batch_bytes)
        bytes_max = r->bft_opt.batch_bytes;
    return batch_of(r, c, rng_range(g, 1, 4), out, bytes_max);
}

/* One message each of two clients, in both orders. */
static uint32_t scheme_orders(void *ctx, void *one, void *other)
{
    const struct run *r = ((struct member *)ctx)->run;
    uint32_t half = r->bft_opt.batch_bytes / 2;
    if (r->fleet.clients < 2)
        return 0;
    uint32_t first = batch_of(r, &r->client[0], 1, one, half);
    uint32_t second = batch_of(r, &r->client[1], 1, (char *)one + first, half);
    memcpy(other, (char *)one + first, second);
    memcpy((char *)other + second, one, first);
    return first > 0 && second > 0 ? first + second : 0;
}

static void scheme_swap(void *ctx, uint32_t rank, const void *from, const void *to, uint32_t bytes)
{
    const struct member *m = ctx;
    hostile_swap(m->hostile, rank, from, to, bytes);
}

static void scheme_delay(void *ctx, uint32_t rank, uint64_t ns)
{
    struct run *r = ((struct member *)ctx)->run;
    if (!r->fleet.chaos.calm)
        chaos_pause(&r->fleet.chaos, rank, ns);
}

/* Who says more than others hear laps them all, and is heard no more. So mostly it waits, for the slowest or for the first. */
static bool is_heard(const struct member *m)
{
    const struct run *r = m->run;
    bool all = r->strategy != HOSTILE_jump;
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t p = 0; p < r->group.replicas; p++) {
        const struct member *o = &r->member[p];
        uint64_t place = neb_place(o->heard[m->rank]);
        if (o->hostile || o->parts == 0)
            continue;
        least = place < least ? place : least;
        most = place > most ? place : most;
    }
    return m->plan.said < (all ? least : most) + r->bft_opt.window / 2;
}

static int scheme_say(void *ctx, const void *body, uint32_t bytes, struct digest digest)
{
    struct member *m = ctx;
    const struct bft_propose *h = body;
    uint64_t now = sim_now(m->run->fleet.sim);
    if (!is_heard(m) && now - m->plan.said_ns < PATIENCE_NS)
        return ERR_AGAIN;
    m->plan.said_ns = now;
    int rc = neb_broadcast(m->plan.neb, bytes, digest);
    m->plan.said += rc == 0;
    m->run->check.result->bft.lies += rc == 0;
    if (rc == 0)
        TRACE(m, "r%u! says %llu: kind %u of view %llu, slot %llu", m->rank,
              (unsigned long long)m->plan.said, h->head.kind, (unsigned long long)h->head.view,
              (unsigned long long)h->slot);
    return rc;
}

static void scheme_talk(void *ctx, uint32_t rank, const struct bft_frame *f, const void *data,
                        uint32_t bytes)
{
    struct member *m = ctx;
    if (sizeof(*f) + bytes <= TALK_BYTES / 4)
        bft_talk_send(m->plan.talk, rank, f, data, bytes);
}

static const struct scheme_calls scheme_calls = {.say = scheme_say,
                                                 .talk = scheme_talk,
                                                 .batch = scheme_batch,
                                                 .orders = scheme_orders,
                                                 .swap = scheme_swap,
                                                 .delay = scheme_delay};

bool bft_plan_is_made(const struct run *r)
{
    switch (r->strategy) {
    case HOSTILE_state:
    case HOSTILE_jump:
    case HOSTILE_late:
    case HOSTILE_duplicate:
    case HOSTILE_forge:
        return true;
    case HOSTILE_panic:
    case HOSTILE_huge:
    case HOSTILE_withhold:
    case HOSTILE_rewrite:
        return r->opt->seed & 1;
    default:
        return false;
    }
}

/* It hears nobody: it sees all that there is. */
static void scheme_deliver(void *ctx, uint32_t sender, const struct neb_message *m)
{
    (void)ctx, (void)sender, (void)m;
}

static bool scheme_has_body(void *ctx, uint32_t sender, const struct neb_message *m)
{
    (void)ctx, (void)sender, (void)m;
    return true;
}

static void scheme_convicts(void *ctx, uint32_t sender, const struct neb_cell *a,
                            const struct neb_cell *b)
{
    (void)ctx, (void)sender, (void)a, (void)b;
}

static const struct neb_calls scheme_neb_calls = {
    .deliver = scheme_deliver, .has_body = scheme_has_body, .convicted = scheme_convicts};

int bft_plan_open(struct member *m, uint64_t seed, struct err *e)
{
    struct run *r = m->run;
    struct mem *mem = m->at->host->mem;
    struct plan *p = &m->plan;
    uint32_t life[NEB_MEMBERS_MAX] = {0};
    enum mem_birth birth;
    const struct bft_scope scope = {
        .cluster = CLUSTER, .group = REGION, .members = r->group.replicas, .faulty = r->faulty};
    life[m->rank] = mem->life;
    *p = (struct plan){.signer = sim_signer_open(r->key_seed, m->rank, 4)};
    int rc = mem_region_open(mem, REGION, &birth, e);
    rc = rc ? rc
            : neb_open(&(struct neb_options){.mem = mem,
                                             .region = REGION,
                                             .nodes = r->group.nodes,
                                             .members = r->group.replicas,
                                             .rank = m->rank,
                                             .window = r->bft_opt.window,
                                             .life = life,
                                             .cluster = CLUSTER,
                                             .signer = p->signer,
                                             .calls = &scheme_neb_calls,
                                             .ctx = m},
                       &p->neb, e);
    rc = rc ? rc
            : bft_talk_open(&(struct bft_talk_options){.mem = mem,
                                                       .region = REGION,
                                                       .nodes = r->group.nodes,
                                                       .members = r->group.replicas,
                                                       .rank = m->rank,
                                                       .life = mem->life,
                                                       .ring_bytes = TALK_BYTES,
                                                       .frame_max = TALK_BYTES / 4},
                            &p->talk, e);
    p->scheme = scheme_open(&(struct scheme_options){.scope = scope,
                                                     .known = &r->known,
                                                     .key_seed = r->key_seed,
                                                     .strategy = r->strategy,
                                                     .rank = m->rank,
                                                     .life = mem->life,
                                                     .window = r->bft_opt.window,
                                                     .seed = seed,
                                                     .calls = &scheme_calls,
                                                     .ctx = m});
    return rc;
}

void bft_plan_close(struct member *m)
{
    struct plan *p = &m->plan;
    if (p->signer == NULL)
        return;
    scheme_close(p->scheme);
    if (p->talk)
        bft_talk_close(p->talk);
    if (p->neb)
        neb_close(p->neb);
    signer_close(p->signer);
    *p = (struct plan){0};
}

int bft_plan_post(struct member *m, uint64_t now_ns)
{
    struct plan *p = &m->plan;
    if (p->scheme == NULL)
        return 0;
    neb_vouched(p->neb, neb_key(m->at->host->mem->life, p->said));
    scheme_step(p->scheme, now_ns);
    return bft_talk_post(p->talk) + neb_post(p->neb);
}

int bft_plan_settle(struct member *m)
{
    struct plan *p = &m->plan;
    return p->scheme ? signer_poll(p->signer) + neb_settle(p->neb) : 0;
}

void bft_plan_watch(struct run *r)
{
    sim_on_put(r->fleet.sim, on_put, r);
}
