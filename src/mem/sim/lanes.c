/* Lanes: what they hold at birth, opening, ends, common lanes, and offers. */
#include "mem/sim/world.h"

#include <stdlib.h>
#include <string.h>

enum { LANES_FIRST = 256, CHUNK_BYTES = 512 };

/* What memory may hold that was somebody's before: noise, and all that a reader might take for an
 * entry, an absolute position or a length if it looked without a guard. */
static void fill_garbage(struct sim *w, unsigned char *ring, uint32_t bytes)
{
    uint64_t words[CHUNK_BYTES / 8];

    for (uint32_t at = 0; at < bytes; at += CHUNK_BYTES) {
        uint64_t draw = rng_u64(&w->draws);
        uint64_t style = draw & 7, x = draw >> 8;
        uint64_t lap = (x & 3) * bytes; /* positions of this lap or one of the next */
        for (uint32_t i = 0; i < CHUNK_BYTES / 8; i++) {
            switch (style) {
            case 0: /* each word tells its own position */
                words[i] = lap + at + 8 * i;
                break;
            case 1: /* as above, for the position of its 96-byte neighbourhood */
                words[i] = lap + (at + 8 * i) / 96 * 96;
                break;
            case 2: /* small numbers */
                words[i] = (x >> (i & 31)) & 15;
                break;
            case 3: /* multiples of 8 */
                words[i] = ((x >> (i & 31)) & 127) * 8;
                break;
            case 4: /* one word over and over */
                words[i] = x & 1 ? x : x & 6;
                break;
            case 5: /* two small halves, as length and type might be */
                words[i] = ((x >> (i & 15)) & 255) << 32 | ((x >> (i & 7)) & 31);
                break;
            default: /* noise */
                x = x * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
                words[i] = x ^ x >> 32;
                break;
            }
        }
        memcpy(ring + at, words, CHUNK_BYTES);
    }
}

static void lane_blank(struct sim *w, struct sim_lane *l)
{
    for (uint32_t i = 0; i < l->own.spec.ctl_words; i++)
        atomic_store_explicit(&l->own.ctl[i], 0, memory_order_relaxed);
    /* The best forgery of a valid entry is one that was valid: often the old bytes stay. */
    if (l->own.ring && rng_below(&w->draws, 2))
        fill_garbage(w, l->own.ring, l->own.spec.ring_bytes);
}

void sim_region_lose(struct sim *w, struct sim_region *r)
{
    r->born = false;
    r->promised = MEM_CLOSED;
    r->told_ns = 0;
    for (uint32_t i = 0; r->told && i < w->opt.nodes_max; i++)
        r->told[i].until_ns = 0;
    for (struct sim_lane *l = r->lanes; l; l = l->next)
        if (!(w->opt.shared && l->own.spec.common)) /* who sees it has it mapped */
            lane_blank(w, l);
}

static bool is_client(const struct sim *w, uint32_t node)
{
    return w->opt.clients_from != 0 && node >= w->opt.clients_from;
}

struct sim_handle *sim_lane_handle(const struct sim_lane *l, uint32_t node)
{
    struct sim_handle *h = l->handles;

    while (h && h->node != node)
        h = h->next;
    return h;
}

static bool opened_by_owner(const struct sim_lane *l)
{
    const struct sim_handle *h = sim_lane_handle(l, l->own.spec.owner);

    return h && h->lane.ctl; /* taken away when a life ends */
}

/* A lane that a client writes and its owner has not opened is to be told of. */
static void offer(struct sim *w, struct sim_lane *l)
{
    struct sim_node *owner = &w->nodes[l->own.spec.owner];

    if (is_client(w, l->own.spec.writer) && !is_client(w, l->own.spec.owner) && owner->alive &&
        !opened_by_owner(l)) {
        l->offered = 0;
        owner->mem.offered++;
        if (w->on_touch)
            w->on_touch(w->on_touch_ctx, owner->mem.self);
    }
}

/* The owner's view of a lane, if it has one. */
static struct mem_lane *owners_view(const struct sim_lane *l)
{
    struct sim_handle *h = sim_lane_handle(l, l->own.spec.owner);

    return h ? &h->lane : NULL;
}

/* A client's process has come to the owner's notice: what it writes there is as it was born. */
static void reborn(struct sim *w, struct sim_lane *l)
{
    const struct sim_node *writer = &w->nodes[l->own.spec.writer];
    struct mem_lane *view = owners_view(l);

    if (!is_client(w, l->own.spec.writer) || l->own.life == writer->mem.life)
        return;
    lane_blank(w, l);
    l->own.life = writer->mem.life;
    if (view) {
        view->life = l->own.life;
        w->nodes[l->own.spec.owner].mem.lanes_moved++;
    }
}

void sim_lanes_reborn(struct sim *w, uint32_t writer, uint32_t owner)
{
    for (struct sim_region *r = w->nodes[owner].regions; r; r = r->next)
        for (struct sim_lane *l = r->lanes; l; l = l->next)
            if (l->own.spec.writer == writer)
                reborn(w, l);
}

/* What a client owns may be blank again, what it writes is, and who begins a life is told of all clients. Over
 * links the owner has the old content until they are connected. */
void sim_lanes_begin(struct sim *w, uint32_t node)
{
    bool blank =
        w->opt.clients_forgotten && w->nodes[node].lives > 1 && rng_below(&w->draws, 2) != 0;

    w->nodes[node].mem.offered = 0;
    for (uint32_t n = 0; n < w->opt.nodes_max && w->opt.clients_from != 0; n++)
        for (struct sim_region *r = w->nodes[n].regions; r; r = r->next)
            for (struct sim_lane *l = r->lanes; l; l = l->next) {
                if (blank && l->own.spec.writer == node && is_client(w, n))
                    lane_blank(w, l);
                if (l->own.spec.writer == node && !w->opt.links.on)
                    reborn(w, l);
                if (n == node)
                    offer(w, l);
            }
}

static uint64_t lane_hash(const struct mem_lane_spec *s)
{
    return hash_mix((uint64_t)s->owner << 32 | s->writer, (uint64_t)s->region << 32 | s->kind);
}

static bool same_name(const struct mem_lane_spec *a, const struct mem_lane_spec *b)
{
    return a->owner == b->owner && a->writer == b->writer && a->region == b->region &&
           a->kind == b->kind;
}

/* Where the lane is in the table, or would be. */
static uint32_t lane_slot(const struct sim *w, const struct mem_lane_spec *s)
{
    uint32_t i = (uint32_t)lane_hash(s) & (w->lanes_size - 1);

    while (w->lanes[i] && !same_name(&w->lanes[i]->own.spec, s))
        i = (i + 1) & (w->lanes_size - 1);
    return i;
}

static struct sim_lane *lane_find(const struct sim *w, const struct mem_lane_spec *s)
{
    return w->lanes_size ? w->lanes[lane_slot(w, s)] : NULL;
}

static void lane_enter(struct sim *w, struct sim_lane *l)
{
    if (2 * (w->lanes_len + 1) > w->lanes_size) {
        struct sim_lane **old = w->lanes;
        uint32_t old_size = w->lanes_size;
        w->lanes_size = old_size ? old_size * 2 : LANES_FIRST;
        w->lanes = calloc(w->lanes_size, sizeof(struct sim_lane *));
        CHECK(w->lanes);
        for (uint32_t i = 0; i < old_size; i++)
            if (old[i])
                w->lanes[lane_slot(w, &old[i]->own.spec)] = old[i];
        free(old);
    }
    uint32_t slot = lane_slot(w, &l->own.spec);
    w->lanes_len += !w->lanes[slot]; /* else one of the same name that was buried */
    w->lanes[slot] = l;
}

void sim_lanes_free(struct sim *w)
{
    for (uint32_t i = 0; i < w->lanes_size; i++)
        if (w->lanes[i])
            free(w->lanes[i]->own.ring);
    for (const struct sim_lane *l = w->graves; l; l = l->next)
        free(l->own.ring);
}

static int check_spec(const struct sim *w, const struct mem_lane_spec *s, struct err *e)
{
    uint32_t ring = s->ring_bytes;

    if (s->owner >= w->opt.nodes_max || s->writer >= w->opt.nodes_max)
        return err_set(e, ERR_INVALID, "open lane %u of node %u, written by %u: nodes end at %u",
                       s->kind, s->owner, s->writer, w->opt.nodes_max - 1);
    if (s->common && (s->common != 1 || is_client(w, s->owner) || is_client(w, s->writer)))
        return err_set(e, ERR_INVALID,
                       "open lane %u of node %u, written by %u: common ones are of hosts", s->kind,
                       s->owner, s->writer);
    if (s->ctl_words == 0 || (ring && (ring < MEM_PAGE_BYTES || (ring & (ring - 1)))))
        return err_set(e, ERR_INVALID,
                       "open lane %u of node %u: %u control words (at least 1), %u bytes of ring "
                       "(0, or a power of two of at least %d)",
                       s->kind, s->owner, s->ctl_words, ring, MEM_PAGE_BYTES);
    return 0;
}

static int lane_make(struct sim *w, const struct mem_lane_spec *s, struct sim_lane **out,
                     struct err *e)
{
    unsigned char *ring = NULL;

    if (s->ring_bytes) {
        ring = malloc(s->ring_bytes);
        if (!ring)
            return err_set(e, ERR_NOMEM, "no memory for a simulated ring of %u bytes",
                           s->ring_bytes);
        fill_garbage(w, ring, s->ring_bytes);
    }
    struct sim_lane *l = sim_alloc(w, sizeof *l);
    l->own.spec = *s;
    l->own.ring = ring;
    l->own.ctl = sim_alloc(w, s->ctl_words * sizeof *l->own.ctl);
    l->own.impl = l;
    l->own.life = is_client(w, s->writer) ? w->nodes[s->writer].mem.life : 0;
    l->opened_ns = UINT64_MAX;
    l->region = sim_region_get(w, s->owner, s->region);
    *l->region->lanes_end = l;
    l->region->lanes_end = &l->next;
    lane_enter(w, l);
    *out = l;
    return 0;
}

/* What the owner of a lane sees, for its handle. Where common lanes are shared that is the writer's copy, once there is one. */
static void show_owner(const struct sim *w, const struct sim_lane *l, struct mem_lane *handle)
{
    bool shared = w->opt.shared && l->own.spec.common && l->own.spec.owner != l->own.spec.writer;
    const struct sim_lane *seen = shared ? l->copy : l;

    handle->ctl = !seen ? NULL : seen->seen_ctl ? seen->seen_ctl : seen->own.ctl;
    handle->ring = !seen ? NULL : seen->seen_ctl ? seen->seen_ring : seen->own.ring;
    handle->life = l->own.life;
}

static struct mem_lane *lane_handle(struct sim *w, struct sim_lane *l, uint32_t node)
{
    struct sim_handle *h = sim_lane_handle(l, node);

    if (!h) {
        h = sim_alloc(w, sizeof *h);
        h->next = l->handles;
        l->handles = h;
        h->node = node;
        h->lane.spec = l->own.spec;
    }
    h->lane.impl = l;
    h->lives = w->nodes[node].lives;
    h->ended = false;
    l->writer_has |= node == l->own.spec.writer;
    if (node == l->own.spec.owner) {
        show_owner(w, l, &h->lane);
        if (l->opened_ns == UINT64_MAX)
            l->opened_ns = w->now_ns + w->opt.delay_ns_max;
    }
    return &h->lane;
}

/* ---- ends ---- */

static bool is_open(const struct sim *w, const struct sim_lane *l, uint32_t node)
{
    const struct sim_handle *h = sim_lane_handle(l, node);

    return h && !h->ended && h->lives == w->nodes[node].lives && w->nodes[node].alive;
}

/* What a host has written outlives it, except over links: there its owner knows that nothing comes over a connection that has
 * ended. */
bool sim_lane_over(const struct sim *w, const struct sim_lane *l)
{
    bool written = w->opt.links.on ? is_open(w, l, l->own.spec.writer) : l->writer_has;

    return l->ends && !written && !is_open(w, l, l->own.spec.owner);
}

/* Has the node ended the lane, and may not know that the other side has? */
static bool is_ending(const struct sim *w, const struct sim_lane *l, uint32_t node)
{
    const struct sim_handle *h = sim_lane_handle(l, node);

    return h && h->ended && h->lives == w->nodes[node].lives &&
           (!sim_lane_over(w, l) || w->now_ns < l->ended_ns + w->opt.delay_ns_max);
}

/* Takes a lane that is over out of its region. What is on its way to it goes into its memory as ever, which nothing
 * leads to any more. */
static void bury(struct sim *w, struct sim_lane *l)
{
    struct sim_lane **at = &l->region->lanes;

    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    if (l->region->lanes_end == &l->next)
        l->region->lanes_end = at;
    l->next = w->graves;
    w->graves = l;
}

static void lane_end(struct sim *w, struct sim_lane *l, uint32_t node)
{
    struct sim_handle *h = sim_lane_handle(l, node);

    CHECK(is_open(w, l, node));
    for (uint32_t i = 0; i < w->ops_len; i++)
        CHECK(!w->ops[i].used || w->ops[i].user == NULL || w->ops[i].asker != node ||
              w->ops[i].lane != l);
    h->ended = true;
    h->lane.ctl = NULL;
    h->lane.ring = NULL;
    h->lane.impl = NULL; /* whoever uses it from now on fails */
    if (node == l->own.spec.writer)
        l->writer_has = false;
    if (node == l->own.spec.writer && l->copy) {
        l->copy->shown--;
        l->copy = NULL;
    }
    if (node == l->own.spec.owner) {
        l->opened_ns = UINT64_MAX;
        l->offered = w->nodes[node].lives;
    }
    l->ends |= node == l->own.spec.writer || node == l->own.spec.owner;
    l->ended_ns = w->now_ns;
    w->nodes[node].mem.lanes_moved++;
    sim_mix(w, lane_hash(&l->own.spec) ^ node);
}

/* ---- common lanes ---- */

/* A lane of the same name takes its place; its owner may go on reading it. */
static int lane_replace(struct sim *w, const struct mem_lane_spec *s, struct sim_lane **l,
                        struct err *e)
{
    struct sim_lane *old = *l;
    int rc = lane_make(w, s, l, e);

    if (rc == 0 && old)
        bury(w, old);
    return rc;
}

/* The lane begins in this life of its writer: blank, and whoever owns it is not disturbed. */
static int claim(struct sim *w, struct sim_lane **l, uint32_t life, struct err *e)
{
    struct mem_lane_spec s = (*l)->own.spec;

    if ((*l)->claimed && (*l)->own.life != life) {
        int rc = lane_replace(w, &s, l, e);
        if (rc)
            return rc;
    }
    struct mem_lane *view = owners_view(*l);
    (*l)->claimed = true;
    (*l)->own.life = life;
    if (view && view->life != life) {
        view->life = life;
        w->nodes[s.owner].mem.lanes_moved++;
    }
    return 0;
}

/* The writer's copy, for one more handle. */
static int copy_get(struct sim *w, const struct mem_lane_spec *s, struct sim_lane **out,
                    struct err *e)
{
    struct mem_lane_spec own = *s;

    own.owner = s->writer;
    *out = lane_find(w, &own);
    bool stale = *out && ((*out)->shown == 0 || (*out)->own.life != w->nodes[s->writer].mem.life);
    int rc = !*out || stale ? lane_replace(w, &own, out, e) : 0;
    if (rc == 0)
        rc = claim(w, out, w->nodes[s->writer].mem.life, e);
    if (rc == 0)
        sim_buffer_open(w, *out);
    return rc;
}

/* What the writer sees of a common lane, and its owner where it is shared. */
static void show_copy(struct sim *w, struct sim_lane *l, struct sim_lane *copy)
{
    struct sim_handle *h = sim_lane_handle(l, l->own.spec.writer);
    struct mem_lane *view = owners_view(l);

    copy->shown += l->copy != copy;
    l->copy = copy;
    h->lane.ctl = copy->own.ctl;
    h->lane.ring = copy->own.ring;
    if (w->opt.shared && view && is_open(w, l, l->own.spec.owner) && l != copy) {
        show_owner(w, l, view);
        w->nodes[l->own.spec.owner].mem.lanes_moved++;
    }
}

/* A lane that its owner still reads, though there is a newer one of its name. */
static struct sim_handle *older_handle(const struct sim *w, const struct mem_lane_spec *s,
                                       uint32_t node)
{
    for (const struct sim_lane *l = w->graves; l; l = l->next)
        if (l->own.spec.common && same_name(&l->own.spec, s) && is_open(w, l, node))
            return sim_lane_handle(l, node);
    return NULL;
}

/* The lane of that name as it is for the node: there already, blank because the last one is over, or new. */
static int lane_get(struct sim *w, uint32_t node, const struct mem_lane_spec *s,
                    struct sim_lane **out, struct err *e)
{
    struct sim_lane *l = lane_find(w, s);
    int rc = 0;

    if (l && is_ending(w, l, node))
        return err_set(
            e, ERR_EXISTS,
            "open lane %u of node %u, region %u, written by %u: it was ended here, and not "
            "yet by the other side",
            s->kind, s->owner, s->region, s->writer);
    if (!l || sim_lane_over(w, l))
        rc = lane_replace(w, s, &l, e);
    if (rc == 0 && (l->own.spec.ctl_words != s->ctl_words ||
                    l->own.spec.ring_bytes != s->ring_bytes || l->own.spec.common != s->common))
        rc = err_set(e, ERR_INVALID,
                     "open lane %u of node %u, region %u, written by %u: %u control words "
                     "and %u bytes of ring%s, but the other side has %u and %u%s",
                     s->kind, s->owner, s->region, s->writer, s->ctl_words, s->ring_bytes,
                     s->common ? ", common" : "", l->own.spec.ctl_words, l->own.spec.ring_bytes,
                     l->own.spec.common ? ", common" : "");
    *out = l;
    return rc;
}

/* A common lane, for its writer. */
static int written_common(struct sim *w, const struct mem_lane_spec *s, struct mem_lane **out,
                          struct err *e)
{
    struct sim_lane *copy, *l;
    int rc = copy_get(w, s, &copy, e);

    if (rc == 0 && s->owner == s->writer)
        l = copy;
    else if (rc == 0 && (rc = lane_get(w, s->writer, s, &l, e)) == 0)
        rc = claim(w, &l, w->nodes[s->writer].mem.life, e);
    if (rc)
        return rc;
    *out = lane_handle(w, l, s->writer);
    show_copy(w, l, copy);
    return 0;
}

int sim_lanes_open(struct mem *m, const struct mem_lane_spec *specs, uint32_t count,
                   struct mem_lane **out, struct err *e)
{
    struct sim *w = sim_node_of(m)->world;

    for (uint32_t i = 0; i < count; i++) {
        const struct mem_lane_spec *s = &specs[i];
        struct sim_lane *l;
        int rc = check_spec(w, s, e);
        if (rc)
            return rc;
        struct sim_handle *older = s->common ? older_handle(w, s, m->self) : NULL;
        if (older && s->writer != m->self) {
            out[i] = &older->lane;
            continue;
        }
        if (s->common && s->writer == m->self)
            rc = written_common(w, s, &out[i], e);
        else if ((rc = lane_get(w, m->self, s, &l, e)) == 0)
            out[i] = lane_handle(w, l, m->self);
        if (rc)
            return rc;
        if (s->writer == m->self && !s->common)
            offer(w, l);
    }
    return 0;
}

bool sim_lane_next(struct mem *m, struct mem_lane *lane)
{
    struct sim *w = sim_node_of(m)->world;
    struct sim_handle *h = (struct sim_handle *)lane;
    struct sim_lane *l = sim_lane_of(lane), *newest = lane_find(w, &l->own.spec);
    struct sim_handle **at = &l->handles;

    CHECK(l->own.spec.common && l->own.spec.owner == m->self && l->own.spec.writer != m->self);
    if (newest == l)
        return false;
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    h->next = newest->handles;
    newest->handles = h;
    lane_handle(w, newest, m->self);
    m->lanes_moved++;
    sim_mix(w, lane_hash(&l->own.spec) ^ newest->own.life);
    return true;
}

void sim_lanes_end(struct mem *m, struct mem_lane *const *lanes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        lane_end(sim_node_of(m)->world, sim_lane_of(lanes[i]), m->self);
}

bool sim_lane_offer(struct mem *m, struct mem_lane_spec *out)
{
    struct sim_node *n = sim_node_of(m);

    for (struct sim_region *r = n->regions; r; r = r->next)
        for (struct sim_lane *l = r->lanes; l; l = l->next) {
            if (!is_client(n->world, l->own.spec.writer) || l->offered == n->lives ||
                opened_by_owner(l))
                continue;
            l->offered = n->lives;
            *out = l->own.spec;
            return true;
        }
    m->offered = 0;
    return false;
}

const struct mem_lane *sim_lane(const struct sim *w, const struct mem_lane_spec *s)
{
    const struct sim_lane *l = s->owner < w->opt.nodes_max ? lane_find(w, s) : NULL;

    return l && w->nodes[s->owner].reachable ? &l->own : NULL;
}

void sim_region_end_lanes(struct sim *w, struct sim_region *r, uint32_t node)
{
    for (struct sim_lane *l = r->lanes; l; l = l->next)
        if (is_open(w, l, node))
            lane_end(w, l, node);
}
