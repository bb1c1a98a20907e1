#include "agree/bft_client.h"

#include "base/lines.h"
#include "base/minmax.h"

#include <stdlib.h>

enum {
    SIGNED_AT_ONCE = 2, /* while these are being signed the next stretch grows */
    DOUBLINGS_MAX = 3,  /* of retry_ns, while it brings nothing */
};

struct made {
    struct bft_stretch stretch;
    struct digest digest;
    struct sign_job job;
};

struct to_member {
    struct mem_lane *lane;
    struct mem_flow flow;
    uint64_t count; /* written up to this number */
};

struct bft_client {
    struct bft_client_options opt;
    struct bft_scope scope;
    struct source *source;
    uint32_t nodes[BFT_MEMBERS_MAX];
    uint32_t stretch_bytes;

    struct bft_stretch open;         /* that grows, */
    struct digest digest;            /* and what it has so far */
    uint32_t open_bytes;             /* of entries */
    struct made made[BFT_STRETCHES]; /* by number % BFT_STRETCHES */
    uint64_t first, last;            /* numbers of those that are not taken; the last one is open */
    uint64_t signed_upto;            /* number */
    struct to_member to[BFT_MEMBERS_MAX];
    uint64_t again, moved_at, moved_ns;
    uint32_t retries;
    uint64_t signatures;
    struct entry *entry; /* room for one */
};

/* ---- opening ---- */

static int open_lanes(struct bft_client *c, struct err *e)
{
    const struct source_options *o = &c->opt.source;
    struct mem_lane_spec specs[BFT_MEMBERS_MAX];
    struct mem_lane *lanes[BFT_MEMBERS_MAX];
    for (uint32_t q = 0; q < o->replicas; q++) {
        specs[q] = lane_spec(o->region, c->nodes[q], o->mem->self, LANE_SIGNED, o->number);
        specs[q].ctl_words = SIGNED_WORDS;
        specs[q].ring_bytes = BFT_STRETCHES * sizeof(struct bft_signed_cell);
    }
    int rc = mem_lanes_open(o->mem, specs, o->replicas, lanes, e);
    for (uint32_t q = 0; rc == 0 && q < o->replicas; q++) {
        c->to[q].lane = lanes[q];
        mem_flow_open(o->mem, &c->to[q].flow, c->nodes[q], o->region, 0);
    }
    return rc;
}

static void begin_stretch(struct bft_client *c, uint64_t from)
{
    c->open = (struct bft_stretch){.from = from,
                                   .end = from,
                                   .source = c->opt.source.number,
                                   .life = c->opt.source.life,
                                   .before = c->digest};
    c->open_bytes = 0;
}

int bft_client_open(const struct bft_client_options *o, struct bft_client **out, struct err *e)
{
    const struct source_options *s = &o->source;
    if (s->replicas < 3 || s->replicas > BFT_MEMBERS_MAX || s->faulty != s->replicas / 2)
        return err_set(e, ERR_INVALID, "client: %u members of which %u may lie", s->replicas,
                       s->faulty);
    struct bft_client *c = lines_alloc(sizeof(*c));
    if (c == NULL)
        return err_set(e, ERR_NOMEM, "client: no memory");
    *c = (struct bft_client){.opt = *o, .first = 1, .last = 1};
    c->scope = (struct bft_scope){
        .cluster = o->cluster, .group = s->region, .members = s->replicas, .faulty = s->faulty};
    memcpy(c->nodes, s->nodes, s->replicas * sizeof(*s->nodes));
    c->stretch_bytes = bft_stretch_bytes(o->batch_bytes, s->payload_max);
    c->entry = calloc(1, entry_size(s->payload_max));
    int rc = c->entry ? source_open(s, &c->source, e) : err_set(e, ERR_NOMEM, "client: no memory");
    rc = rc == 0 ? open_lanes(c, e) : rc;
    if (rc != 0) {
        bft_client_close(c);
        return rc;
    }
    begin_stretch(c, source_end(c->source));
    *out = c;
    return 0;
}

void bft_client_close(struct bft_client *c)
{
    if (c == NULL)
        return;
    source_close(c->source);
    free(c->entry);
    free(c);
}

/* ---- sending ---- */

static struct made *made_of(struct bft_client *c, uint64_t number)
{
    return &c->made[number % BFT_STRETCHES];
}

/* What it has is signed as it is. */
static bool end_stretch(struct bft_client *c)
{
    if (c->last - c->first >= BFT_STRETCHES)
        return false;
    *made_of(c, c->last) = (struct made){.stretch = c->open, .digest = c->digest};
    c->last++;
    begin_stretch(c, c->open.end);
    return true;
}

static void add(struct bft_client *c, const void *payload, uint32_t bytes)
{
    struct entry *e = c->entry;
    *e = (struct entry){.bytes = bytes,
                        .source = (uint16_t)c->open.source,
                        .life = (uint16_t)c->open.life,
                        .srcpos = c->open.end};
    if (bytes > 0)
        memcpy(e->payload, payload, bytes);
    c->digest = bft_stretch_chain(c->digest, e);
    c->open_bytes += (uint32_t)entry_size(bytes);
    c->open.end += frame_size(bytes);
}

int bft_client_send(struct bft_client *c, const void *payload, uint32_t bytes, uint64_t *end)
{
    if (bytes > c->opt.source.payload_max)
        return ERR_TOOBIG;
    if (c->open_bytes + entry_size(bytes) > c->stretch_bytes && !end_stretch(c))
        return ERR_AGAIN;
    int rc = source_send(c->source, payload, bytes, end);
    if (rc == 0)
        add(c, payload, bytes);
    return rc;
}

void bft_client_flush(struct bft_client *c)
{
    source_flush(c->source);
}

uint64_t bft_client_taken(struct bft_client *c)
{
    return source_taken(c->source);
}

uint64_t bft_client_end(const struct bft_client *c)
{
    return source_end(c->source);
}

/* ---- signing ---- */

static void forget_taken(struct bft_client *c)
{
    uint64_t taken = source_taken(c->source);
    while (c->first < c->last && made_of(c, c->first)->stretch.end <= taken &&
           made_of(c, c->first)->job.state != SIGN_UNDER_WAY)
        c->first++;
    c->signed_upto = max_u64(c->signed_upto, c->first - 1);
}

/* True now and then, while what was sent is not taken. */
static bool is_stalled(struct bft_client *c, uint64_t now_ns)
{
    uint64_t taken = source_taken(c->source);
    if (taken == source_end(c->source) || taken != c->moved_at || c->moved_ns == 0) {
        c->moved_at = taken;
        c->moved_ns = now_ns;
        c->retries = 0;
    }
    if (now_ns - c->moved_ns < c->opt.source.retry_ns << c->retries)
        return false;
    c->moved_ns = now_ns;
    c->retries += c->retries < DOUBLINGS_MAX;
    return true;
}

static void sign(struct bft_client *c)
{
    uint32_t busy = 0;
    for (uint64_t n = c->first; n < c->last; n++)
        busy += made_of(c, n)->job.state == SIGN_UNDER_WAY;
    if (busy < SIGNED_AT_ONCE && c->open_bytes > 0)
        end_stretch(c);
    for (uint64_t n = c->first; n < c->last; n++) {
        struct made *m = made_of(c, n);
        if (m->job.state != SIGN_IDLE)
            continue;
        m->job.text = bft_stretch_text(&c->scope, &m->stretch, m->digest);
        signer_submit(c->opt.signer, &m->job);
        c->signatures++;
    }
}

static void take_signatures(struct bft_client *c)
{
    while (c->signed_upto + 1 < c->last) {
        struct made *m = made_of(c, c->signed_upto + 1);
        if (m->job.state == SIGN_IDLE || m->job.state == SIGN_UNDER_WAY)
            return;
        CHECK(m->job.state == SIGN_GOOD);
        memcpy(m->stretch.signature, m->job.signature, SIGN_BYTES);
        c->signed_upto++;
    }
}

/* The cells first, then how many they are. */
static void write_cells(struct bft_client *c, struct to_member *to)
{
    struct mem *m = c->opt.source.mem;
    to->count = max_u64(to->count, c->first - 1);
    if (to->flow.status != MEM_DONE || to->count == c->signed_upto)
        return;
    for (uint64_t n = to->count + 1; n <= c->signed_upto; n++) {
        const struct bft_signed_cell cell = {.number = n, .stretch = made_of(c, n)->stretch};
        mem_put(m, &to->flow, to->lane, n % BFT_STRETCHES * sizeof(cell), &cell, sizeof(cell));
    }
    mem_set(m, &to->flow, to->lane, SIGNED_COUNT, (const uint64_t[]){c->signed_upto, c->again}, 2);
    to->count = c->signed_upto;
}

static void write_members(struct bft_client *c, bool anew)
{
    c->again += anew;
    for (uint32_t q = 0; q < c->opt.source.replicas; q++) {
        struct to_member *to = &c->to[q];
        bool lost = to->flow.status != MEM_DONE;
        if (lost)
            mem_flow_open(c->opt.source.mem, &to->flow, c->nodes[q], c->opt.source.region, 0);
        if (lost || anew)
            to->count = c->first - 1;
        write_cells(c, to);
        mem_bell_later(c->opt.source.mem, c->nodes[q]);
    }
}

void bft_client_step(struct bft_client *c, uint64_t now_ns)
{
    source_step(c->source, now_ns);
    forget_taken(c);
    bool stalled = is_stalled(c, now_ns);
    if (stalled || source_is_asked(c->source))
        sign(c);
    uint64_t before = c->signed_upto;
    take_signatures(c);
    if (stalled || c->signed_upto != before)
        write_members(c, stalled);
}

void bft_client_stats(const struct bft_client *c, struct bft_client_stats *s)
{
    *s = (struct bft_client_stats){.signatures = c->signatures};
}
