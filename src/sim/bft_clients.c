/* Clients of a group of which some lie. A correct one signs and accepts what f+1 members reply alike; one that lies tells each member something
 * else, in its own ring, and signs it all, or nothing, or garbage. */
#include "sim/bft_run_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
    SIGNER_POLLS_MAX = 3,
    LIE_PER_STEP = 8, /* steps of a client that lies, for one lie */
    LIE_MESSAGES_MAX = 4,
    OTHERWISE = 0x5ea1, /* what is mixed into a seed for another message in its place */
};

static struct client *client_at(const struct fleet_node *n)
{
    struct run *r = n->fleet->ctx;
    return &r->client[n->node - n->fleet->hosts];
}

/* ---- correct ones ---- */

static int open_replies(struct fleet_node *n, struct client *c, struct err *e)
{
    struct run *r = n->fleet->ctx;
    struct mem_lane_spec specs[NEB_MEMBERS_MAX];
    struct mem_lane *lanes[NEB_MEMBERS_MAX];
    for (uint32_t q = 0; q < r->group.replicas; q++) {
        specs[q] = lane_spec(REGION, n->node, r->group.nodes[q], LANE_REPLY, 0);
        specs[q].ctl_words = REPLY_WORDS;
        specs[q].ring_bytes = REPLY_RING;
    }
    int rc = mem_lanes_open(n->mem, specs, r->group.replicas, lanes, e);
    if (rc == 0)
        CHECK(alike_open(&c->replies,
                         &(struct alike_options){.mem = n->mem,
                                                 .lanes = lanes,
                                                 .replicas = r->group.replicas,
                                                 .faulty = r->faulty,
                                                 .shape = replies_shape(REPLY_RING, REPLY_MAX)}));
    return rc;
}

static int open_correct(struct fleet_node *n, struct client *c, struct err *e)
{
    struct run *r = n->fleet->ctx;
    c->signer = sim_signer_open(r->key_seed, bft_client_signer(c->number), SIGNER_POLLS_MAX);
    const struct bft_client_options o = {
        .source = {.mem = n->mem,
                   .region = REGION,
                   .nodes = r->group.nodes,
                   .replicas = r->group.replicas,
                   .faulty = r->faulty,
                   .number = c->number,
                   .source_bytes = r->bft_opt.source_bytes,
                   .payload_max = r->bft_opt.payload_max,
                   .retry_ns = 100 * RUN_US},
        .cluster = CLUSTER,
        .batch_bytes = r->bft_opt.batch_bytes,
        .signer = c->signer,
    };
    int rc = bft_client_open(&o, &c->source, e);
    c->end = rc == 0 ? bft_client_end(c->source) : 0;
    return rc == 0 ? open_replies(n, c, e) : rc;
}

static void client_send(struct run *r, struct client *c)
{
    struct rng *g = &r->fleet.rng;
    unsigned char payload[PAYLOAD_MAX];
    uint64_t burst = rng_below(g, 4) ? 1 : rng_range(g, 1, 12);
    for (; burst > 0 && c->sent < c->quota; burst--) {
        uint32_t bytes = (uint32_t)rng_below(g, r->bft_opt.payload_max + 1);
        uint64_t end;
        check_fill(r->check.seed, c->number, c->end, payload, bytes);
        if (bft_client_send(c->source, payload, bytes, &end) != 0)
            break;
        c->message[c->sent++] = (struct sent){.pos = c->end, .bytes = bytes};
        c->end = r->check.source_sent[c->number] = end;
    }
    bft_client_flush(c->source);
}

/* Accepted is what was decided, and what its sender waits for. */
static void take_replies(struct run *r, struct client *c)
{
    const struct reply *y;
    uint32_t bytes;
    while ((y = alike_next(&c->replies, &bytes)) != NULL) {
        const struct sent *m = &c->message[c->accepted];
        uint64_t said = 0;
        if (bytes == sizeof(*y) + sizeof(said))
            memcpy(&said, y->body, sizeof(said));
        if (c->accepted == c->sent || y->seq != m->pos || m->after == 0 || said != m->after)
            bft_check_violated(&r->bft_check, "accepted means decided", y->seq,
                               "client %u accepts %016llx for its message at %llu; %016llx is what "
                               "was decided at %llu",
                               c->number, (unsigned long long)said, (unsigned long long)y->seq,
                               (unsigned long long)m->after, (unsigned long long)m->pos);
        c->accepted += c->accepted < c->sent;
    }
}

void bft_clients_decided(struct run *r, const struct entry *e, uint64_t after)
{
    struct client *c = &r->client[e->source];
    for (uint64_t i = 0; !c->lies && i < c->sent; i++)
        if (c->message[i].pos == e->srcpos)
            c->message[i].after = after;
}

static void step_correct(struct fleet_node *n, struct client *c, uint64_t now_ns)
{
    struct run *r = n->fleet->ctx;
    signer_poll(c->signer);
    bft_client_step(c->source, now_ns);
    check_ack(&r->check, c->number, bft_client_taken(c->source));
    take_replies(r, c);
    if (rng_below(&r->fleet.rng, 12) == 0)
        client_send(r, c);
}

/* ---- those that lie ---- */

static int open_lying(struct fleet_node *n, struct client *c, struct err *e)
{
    const struct run *r = n->fleet->ctx;
    for (uint32_t q = 0; q < r->group.replicas; q++) {
        struct way *w = &c->way[q];
        struct mem_lane *lanes[2];
        struct mem_lane_spec specs[2] = {
            lane_spec(REGION, r->group.nodes[q], n->node, LANE_SOURCE, c->number),
            lane_spec(REGION, r->group.nodes[q], n->node, LANE_SIGNED, c->number)};
        specs[0].ctl_words = SOURCE_WORDS;
        specs[0].ring_bytes = r->bft_opt.source_bytes;
        specs[1].ctl_words = SIGNED_WORDS;
        specs[1].ring_bytes = BFT_STRETCHES * sizeof(struct bft_signed_cell);
        int rc = mem_lanes_open(n->mem, specs, 2, lanes, e);
        if (rc != 0)
            return rc;
        w->source = lanes[0];
        w->proofs = lanes[1];
        mem_flow_open(n->mem, &w->flow, r->group.nodes[q], REGION, 0);
    }
    return 0;
}

/* One of its two versions of a message. */
static void fill_entry(const struct run *r, const struct client *c, uint64_t pos, uint32_t bytes,
                       uint32_t version, struct entry *e)
{
    memset(e, 0, entry_size(bytes));
    *e = (struct entry){.bytes = bytes, .source = (uint16_t)c->number, .srcpos = pos};
    check_fill(r->check.seed ^ (version ? OTHERWISE : 0), c->number, pos, e->payload, bytes);
}

static void write_message(struct fleet_node *n, const struct client *c, uint32_t q,
                          const struct entry *e)
{
    const struct run *r = n->fleet->ctx;
    struct {
        struct frame head;
        unsigned char payload[PAYLOAD_MAX + 8];
    } f = {.head = {.pos = e->srcpos, .bytes = e->bytes}};
    struct way *w = (struct way *)(uintptr_t)&c->way[q];
    if (w->flow.status != MEM_DONE)
        mem_flow_open(n->mem, &w->flow, r->group.nodes[q], REGION, 0);
    memcpy(f.payload, e->payload, e->bytes);
    uint64_t straight = ring_straight(r->bft_opt.source_bytes, e->srcpos),
             all = frame_size(e->bytes);
    uint32_t first = (uint32_t)(straight < all ? straight : all);
    mem_put(n->mem, &w->flow, w->source, e->srcpos, &f, first);
    if (first < all)
        mem_put(n->mem, &w->flow, w->source, e->srcpos + first, (char *)&f + first,
                (uint32_t)all - first);
    mem_set1(n->mem, &w->flow, w->source, SOURCE_GUARD, e->srcpos + all);
}

static void write_signature(struct fleet_node *n, struct client *c, uint32_t q,
                            const struct bft_stretch *st)
{
    struct way *w = &c->way[q];
    const struct bft_signed_cell cell = {.number = ++w->cells, .stretch = *st};
    mem_put(n->mem, &w->flow, w->proofs, cell.number % BFT_STRETCHES * sizeof(cell), &cell,
            sizeof(cell));
    mem_set1(n->mem, &w->flow, w->proofs, SIGNED_COUNT, cell.number);
}

/* Signs what one version of the messages says, or something else, or so that nobody believes it. */
static void sign(struct run *r, struct bft_stretch *st, struct digest d)
{
    struct rng *g = &r->fleet.rng;
    const struct bft_scope scope = {
        .cluster = CLUSTER, .group = REGION, .members = r->group.replicas, .faulty = r->faulty};
    struct sign_text t = bft_stretch_text(&scope, st, d);
    sim_sign(r->key_seed, &t, st->signature);
    switch (rng_below(g, 12)) {
    case 0:
        st->signature[rng_below(g, SIGN_BYTES)] ^= 1;
        break;
    case 1:
        st->end = rng_u64(g);
        break;
    case 2:
        st->from -= 8 * rng_below(g, 4);
        break;
    case 3:
        st->source = (uint32_t)rng_below(g, CLIENTS_MAX + 1);
        break;
    default:
        break;
    }
}

/* A stretch of which each member is shown one version, another, or nothing; each gets a signature of what it has, or of what others
 * have, or none. */
static void lie(struct fleet_node *n, struct client *c)
{
    struct run *r = n->fleet->ctx;
    struct rng *g = &r->fleet.rng;
    _Alignas(8) unsigned char room[sizeof(struct entry) + PAYLOAD_MAX + 8];
    struct entry *e = (void *)room;
    struct digest d[2] = {c->chain, c->chain};
    uint32_t versions = (uint32_t)rng_u64(g),
             shown = rng_below(g, 3) ? UINT32_MAX : (uint32_t)rng_u64(g);
    struct bft_stretch st = {
        .from = c->end, .end = c->end, .source = c->number, .before = c->chain};
    for (uint64_t k = rng_range(g, 1, LIE_MESSAGES_MAX); k > 0; k--) {
        uint32_t bytes = (uint32_t)rng_below(g, r->bft_opt.payload_max + 1);
        for (uint32_t v = 0; v < 2; v++) {
            fill_entry(r, c, st.end, bytes, v, e);
            d[v] = bft_stretch_chain(d[v], e);
            for (uint32_t q = 0; q < r->group.replicas; q++)
                if ((shown >> q & 1) && (versions >> q & 1) == v)
                    write_message(n, c, q, e);
        }
        st.end += frame_size(bytes);
    }
    for (uint32_t q = 0; q < r->group.replicas; q++)
        for (uint64_t k = rng_below(g, 3); k > 0; k--) {
            struct bft_stretch one = st;
            sign(r, &one, d[(versions >> q & 1) ^ (rng_below(g, 4) == 0)]);
            write_signature(n, c, q, &one);
        }
    /* Most go on behind it; else it is said again, otherwise. */
    if (rng_below(g, 4)) {
        c->end = st.end;
        c->chain = d[rng_below(g, 2)];
    }
    r->check.result->bft.lies++;
    c->sent++;
}

/* ---- all ---- */

int bft_clients_start(struct fleet_node *n, struct err *e)
{
    struct run *r = n->fleet->ctx;
    struct client *c = client_at(n);
    *c = (struct client){.number = n->node - n->fleet->hosts};
    c->lies = r->client_lies[c->number];
    c->quota = rng_below(&r->fleet.rng, 4) ? rng_range(&r->fleet.rng, 10, QUOTA_MAX) : 1;
    c->open = true;
    enum mem_birth birth;
    int rc = mem_region_open(n->mem, REGION, &birth, e);
    if (rc != 0)
        return rc;
    c->end = stream_start();
    return c->lies ? open_lying(n, c, e) : open_correct(n, c, e);
}

void bft_clients_end(struct fleet_node *n)
{
    struct client *c = client_at(n);
    bft_client_close(c->source);
    if (c->signer)
        signer_close(c->signer);
    alike_close(&c->replies);
    c->source = NULL;
    c->signer = NULL;
    c->replies = (struct alike){0};
    c->open = false;
}

uint64_t bft_clients_step(struct fleet_node *n, uint64_t now_ns)
{
    struct run *r = n->fleet->ctx;
    struct client *c = client_at(n);
    mem_poll(n->mem);
    if (!c->lies)
        step_correct(n, c, now_ns);
    else if (c->sent < c->quota && rng_below(&r->fleet.rng, LIE_PER_STEP) == 0)
        lie(n, c);
    mem_poll(n->mem);
    return UINT64_MAX;
}

bool bft_clients_has_all(struct client *c)
{
    return !c->open || c->lies || (bft_client_taken(c->source) == c->end && c->accepted == c->sent);
}

void bft_clients_describe(struct client *c, char *text, size_t bytes)
{
    size_t at = strlen(text);
    if (!bft_clients_has_all(c))
        snprintf(text + at, bytes - at, " client %u: %llu of %llu accepted, taken %llu of %llu",
                 c->number, (unsigned long long)c->accepted, (unsigned long long)c->sent,
                 (unsigned long long)bft_client_taken(c->source), (unsigned long long)c->end);
}
