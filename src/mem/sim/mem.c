/* Regions, flows, and the table that mem.h calls; lanes.c has lanes. */
#include "mem/sim/world.h"

#include <string.h>

struct sim_region *sim_region_get(struct sim *w, uint32_t owner, uint32_t region)
{
    CHECK(owner < w->opt.nodes_max);
    struct sim_node *n = &w->nodes[owner];

    for (struct sim_region *r = n->regions; r; r = r->next)
        if (r->region == region)
            return r;
    struct sim_region *r = sim_alloc(w, sizeof *r);
    r->owner = owner;
    r->region = region;
    r->lanes_end = &r->lanes;
    /* Whoever lost his memory once cannot know that there was nothing in it. */
    r->promised = n->memory ? MEM_CLOSED : 0;
    if (w->opt.links.on)
        r->told = sim_alloc(w, w->opt.nodes_max * sizeof *r->told);
    *n->regions_end = r;
    n->regions_end = &r->next;
    return r;
}

static int op_region_open(struct mem *m, uint32_t region, enum mem_birth *birth, struct err *e)
{
    struct sim_node *n = sim_node_of(m);
    struct sim_region *r = sim_region_get(n->world, m->self, region);

    if (r->ended == n->lives)
        return err_set(e, ERR_EXISTS, "open region %u of node %u: it was ended in this life",
                       region, m->self);
    *birth = r->ended    ? MEM_BIRTH_LOST
             : r->born   ? MEM_BIRTH_KEPT
             : n->memory ? MEM_BIRTH_LOST
                         : MEM_BIRTH_NEW;
    r->ended = 0;
    r->born = true;
    sim_mix(n->world, (uint64_t)region << 32 ^ m->self << 8 ^ *birth);
    sim_chan_kick_all(n->world, m->self);
    return 0;
}

static struct sim_region *own_region(struct mem *m, uint32_t region)
{
    struct sim_region *r = sim_region_get(sim_node_of(m)->world, m->self, region);

    CHECK(r->born);
    return r;
}

static void called(struct mem *m, struct sim_call call)
{
    struct sim *w = sim_node_of(m)->world;

    if (w->on_call)
        w->on_call(w->on_call_ctx, m->self, &call);
}

static void op_region_grant(struct mem *m, uint32_t region, uint64_t ballot)
{
    struct sim_region *r = own_region(m, region);

    CHECK(r->promised == MEM_CLOSED && ballot != MEM_CLOSED && !r->ended);
    sim_promise(sim_node_of(m)->world, r, ballot);
    sim_mix(sim_node_of(m)->world, (uint64_t)region << 32 ^ m->self << 8 ^ ballot);
    called(m, (struct sim_call){.kind = SIM_CALL_GRANT});
}

static uint64_t op_promised(struct mem *m, uint32_t region)
{
    return own_region(m, region)->promised;
}

static void op_region_end(struct mem *m, uint32_t region)
{
    struct sim_node *n = sim_node_of(m);
    struct sim_region *r = own_region(m, region);

    CHECK(r->ended == 0);
    sim_region_end_lanes(n->world, r, m->self);
    r->ended = n->lives;
    sim_promise(n->world, r, MEM_CLOSED);
    sim_mix(n->world, (uint64_t)region << 32 ^ m->self << 8 ^ n->lives);
}

static void op_flow_open(struct mem *m, struct mem_flow *f, uint32_t owner, uint32_t region,
                         uint64_t ballot)
{
    struct sim_node *n = sim_node_of(m);
    struct sim *w = n->world;

    CHECK(ballot != MEM_CLOSED);
    /* The caller may open again without a close; *f itself may not be read, it may be anything. */
    for (uint32_t i = n->flows; i != SIM_NONE; i = w->flows[i].next)
        if (w->flows[i].user == f) {
            sim_flow_shut(w, i);
            break;
        }
    uint32_t flow = sim_flow_new(w, m->self, sim_region_get(w, owner, region), ballot);
    w->flows[flow].user = f;
    *f = (struct mem_flow){.owner = owner, .region = region, .ballot = ballot, .impl = {flow}};
    sim_flow_begin(w, flow);
    sim_mix(w, ballot ^ (uint64_t)owner << 48 ^ (uint64_t)region << 32 ^ m->self);
}

static uint32_t flow_of(struct mem *m, const struct mem_flow *f)
{
    const struct sim *w = sim_node_of(m)->world;
    uint64_t flow = f->impl[0];

    CHECK(flow < w->flows_len && w->flows[flow].user == f && w->flows[flow].issuer == m->self);
    return (uint32_t)flow;
}

static void op_flow_close(struct mem *m, struct mem_flow *f)
{
    sim_flow_shut(sim_node_of(m)->world, flow_of(m, f));
}

/* What is written into a common lane is what the writer's copy has there. */
static bool is_in_copy(const struct sim_write *wr)
{
    const struct mem_lane *copy = &wr->lane->copy->own;
    const unsigned char *data = wr->data;

    for (uint32_t i = 0; i < wr->words; i++) {
        uint64_t word, here;
        memcpy(&word, data + 8 * (size_t)i, 8);
        if (wr->kind == SIM_SET)
            here = atomic_load_explicit(&copy->ctl[wr->at + i], memory_order_relaxed);
        else
            ring_read(copy->ring, copy->spec.ring_bytes, wr->at + 8 * (uint64_t)i, &here, 8);
        if (word != here)
            return false;
    }
    return true;
}

/* False: the flow has failed instead. */
static bool issue(struct mem *m, struct mem_flow *f, const struct sim_write *wr)
{
    struct sim *w = sim_node_of(m)->world;
    const struct mem_lane_spec *s = &wr->lane->own.spec;

    CHECK(s->writer == m->self && s->owner == f->owner && s->region == f->region);
    CHECK(!s->common || is_in_copy(wr));
    f->status = sim_flow_ready(w, wr->flow, wr->lane);
    if (f->status != MEM_DONE)
        return false;
    if (wr->words && !(s->common && (w->opt.shared || s->owner == m->self)))
        sim_chan_issue(w, sim_chan_at(w, m->self, f->owner), wr);
    return true;
}

static bool is_in(const struct sim_lane *l, uint32_t node, const unsigned char *data,
                  uint32_t bytes)
{
    const struct sim_handle *h = l ? sim_lane_handle(l, node) : NULL;

    return h && h->lane.ring && data >= h->lane.ring &&
           data + bytes <= h->lane.ring + l->own.spec.ring_bytes;
}

/* What is put and kept is in the ring of a lane of the node's own. */
static void check_kept(struct sim_node *n, const void *data, uint32_t bytes)
{
    const struct sim *w = n->world;

    for (uint32_t i = 0; i < w->lanes_size && !is_in(n->kept_in, n->mem.self, data, bytes); i++)
        if (w->lanes[i])
            n->kept_in = w->lanes[i];
    CHECK(is_in(n->kept_in, n->mem.self, data, bytes));
}

static void put(struct mem *m, struct mem_flow *f, struct mem_lane *lane, uint64_t pos,
                const void *data, uint32_t bytes, bool kept)
{
    uint32_t ring = lane->spec.ring_bytes;

    if (f->status != MEM_DONE)
        return;
    CHECK(ring && pos % 8 == 0 && bytes % 8 == 0 && bytes <= ring);
    struct sim *w = sim_node_of(m)->world;
    if (issue(m, f,
              &(struct sim_write){.kind = SIM_PUT,
                                  .flow = flow_of(m, f),
                                  .lane = sim_lane_of(lane),
                                  .at = pos & (ring - 1),
                                  .data = data,
                                  .words = bytes / 8,
                                  .kept = kept}) &&
        w->on_put)
        w->on_put(w->on_put_ctx, &lane->spec, pos, data, bytes);
    called(m, (struct sim_call){.kind = SIM_CALL_PUT, .lane = &lane->spec});
}

static void op_put(struct mem *m, struct mem_flow *f, struct mem_lane *lane, uint64_t pos,
                   const void *data, uint32_t bytes)
{
    put(m, f, lane, pos, data, bytes, false);
}

static void op_put_kept(struct mem *m, struct mem_flow *f, struct mem_lane *lane, uint64_t pos,
                        const void *data, uint32_t bytes)
{
    CHECK(f->ballot == 0);
    check_kept(sim_node_of(m), data, bytes);
    put(m, f, lane, pos, data, bytes, true);
}

static void op_drop(struct mem *m, uint32_t node)
{
    struct sim *w = sim_node_of(m)->world;

    CHECK(node < w->opt.nodes_max);
    if (w->opt.links.on)
        sim_break(w, m->self, node);
}

static void op_set(struct mem *m, struct mem_flow *f, struct mem_lane *lane, uint32_t word,
                   const uint64_t *values, uint32_t count)
{
    if (f->status != MEM_DONE)
        return;
    CHECK(word < lane->spec.ctl_words && count <= lane->spec.ctl_words - word);
    issue(m, f,
          &(struct sim_write){.kind = SIM_SET,
                              .flow = flow_of(m, f),
                              .lane = sim_lane_of(lane),
                              .at = word,
                              .data = values,
                              .words = count});
    called(m, (struct sim_call){.kind = SIM_CALL_SET,
                                .lane = &lane->spec,
                                .word = word,
                                .count = count,
                                .values = values});
}

static void op_mark(struct mem *m, struct mem_flow *f, uint64_t tag)
{
    if (f->status != MEM_DONE)
        return;
    CHECK(tag >= f->marked);
    f->marked = tag;
    sim_flow_mark(sim_node_of(m)->world, flow_of(m, f), tag);
    called(m, (struct sim_call){.kind = SIM_CALL_MARK});
}

static void op_raise(struct mem *m, struct mem_op *op, uint32_t owner, uint32_t region,
                     uint64_t ballot)
{
    struct sim *w = sim_node_of(m)->world;

    CHECK(ballot != MEM_CLOSED);
    sim_op_ask(w, &(struct sim_ask){.kind = SIM_RAISE,
                                    .user = op,
                                    .asker = m->self,
                                    .region = sim_region_get(w, owner, region),
                                    .ballot = ballot});
    called(m, (struct sim_call){.kind = SIM_CALL_RAISE});
}

static void op_grant(struct mem *m, struct mem_op *op, uint32_t owner, uint32_t region,
                     uint32_t life, uint64_t ballot)
{
    struct sim *w = sim_node_of(m)->world;

    CHECK(ballot != MEM_CLOSED);
    sim_op_ask(w, &(struct sim_ask){.kind = SIM_GRANT,
                                    .user = op,
                                    .asker = m->self,
                                    .region = sim_region_get(w, owner, region),
                                    .ballot = ballot,
                                    .at = life});
    called(m, (struct sim_call){.kind = SIM_CALL_RAISE});
}

static void op_peek(struct mem *m, struct mem_op *op, uint32_t owner, uint32_t region)
{
    struct sim *w = sim_node_of(m)->world;

    sim_op_ask(w, &(struct sim_ask){.kind = SIM_PEEK,
                                    .user = op,
                                    .asker = m->self,
                                    .region = sim_region_get(w, owner, region)});
    called(m, (struct sim_call){.kind = SIM_CALL_READ});
}

/* Who has not heard that the lane is over reads it no more. */
static void read_lane(struct mem *m, const struct sim_ask *a)
{
    struct sim *w = sim_node_of(m)->world;

    if (sim_lane_over(w, a->lane))
        a->user->status = MEM_LOST;
    else
        sim_op_ask(w, a);
    called(m, (struct sim_call){.kind = SIM_CALL_READ});
}

static void op_read_ctl(struct mem *m, struct mem_op *op, struct mem_lane *lane, uint32_t word,
                        uint32_t count, uint64_t *out)
{
    struct sim_lane *l = sim_lane_of(lane);

    CHECK(word < lane->spec.ctl_words && count <= lane->spec.ctl_words - word);
    read_lane(m, &(struct sim_ask){.kind = SIM_READ_CTL,
                                   .user = op,
                                   .asker = m->self,
                                   .region = l->region,
                                   .lane = l,
                                   .at = word,
                                   .out = out,
                                   .words = count});
}

static void op_read_ring(struct mem *m, struct mem_op *op, struct mem_lane *lane, uint64_t pos,
                         void *out, uint32_t bytes)
{
    struct sim_lane *l = sim_lane_of(lane);
    uint32_t ring = lane->spec.ring_bytes;

    CHECK(ring && pos % 8 == 0 && bytes % 8 == 0 && bytes <= ring);
    read_lane(m, &(struct sim_ask){.kind = SIM_READ_RING,
                                   .user = op,
                                   .asker = m->self,
                                   .region = l->region,
                                   .lane = l,
                                   .at = pos & (ring - 1),
                                   .out = out,
                                   .words = bytes / 8});
}

static void op_take(struct mem *m, const struct mem_lane *l, uint64_t pos, void *to, uint32_t bytes)
{
    struct sim *w = sim_node_of(m)->world;

    CHECK(l->spec.owner == m->self && bytes <= l->spec.ring_bytes);
    ring_read(l->ring, l->spec.ring_bytes, pos, to, bytes);
    if (w->on_take)
        w->on_take(w->on_take_ctx, &l->spec, pos, bytes);
}

static int op_poll(struct mem *m)
{
    struct sim_node *n = sim_node_of(m);
    struct sim *w = n->world;
    int changes = w->opt.links.judged ? sim_stream_poll(w, m->self) : 0;

    sim_buffer_later(w, m->self);
    while (n->inbox != SIM_NONE) {
        uint32_t event = n->inbox;
        struct sim_event ev = w->events[event];
        n->inbox = ev.next;
        sim_event_free(w, event);
        changes +=
            ev.kind == SIM_EV_REPORT ? sim_report_apply(w, &ev) : sim_op_apply(w, ev.u.index);
    }
    return changes;
}

static void op_flush(struct mem *m)
{
    struct sim *w = sim_node_of(m)->world;

    if (w->opt.links.judged)
        sim_stream_flush(w, m->self);
}

static bool op_dead(struct mem *m, uint32_t node)
{
    struct sim *w = sim_node_of(m)->world;
    size_t at = (size_t)m->self * w->opt.nodes_max + node;

    CHECK(node < w->opt.nodes_max);
    if (w->lies[at] != SIM_TRUTH)
        return w->lies[at] == SIM_SAYS_DEAD;
    const struct sim_chan *c = sim_chan_at(w, m->self, node);
    if (w->opt.links.on && node != m->self && c->gone && !sim_way_open(w, c))
        return true;
    return !w->nodes[node].alive && w->nodes[node].lives > 0 && w->now_ns >= w->dead_seen_ns[at];
}

static void op_bell(struct mem *m, uint32_t node)
{
    struct sim *w = sim_node_of(m)->world;

    CHECK(node < w->opt.nodes_max);
    if (w->on_bell)
        sim_chan_issue(w, sim_chan_at(w, m->self, node),
                       &(struct sim_write){.kind = SIM_BELL, .flow = SIM_NONE});
}

static void op_fence(struct mem *m)
{
    sim_buffer_write(sim_node_of(m)->world, m->self);
    called(m, (struct sim_call){.kind = SIM_CALL_FENCE});
}

const struct mem_ops sim_mem_ops = {
    .region_open = op_region_open,
    .region_grant = op_region_grant,
    .promised = op_promised,
    .lanes_open = sim_lanes_open,
    .flow_open = op_flow_open,
    .flow_close = op_flow_close,
    .put = op_put,
    .set = op_set,
    .mark = op_mark,
    .raise = op_raise,
    .grant = op_grant,
    .peek = op_peek,
    .read_ctl = op_read_ctl,
    .read_ring = op_read_ring,
    .poll = op_poll,
    .dead = op_dead,
    .offer = sim_lane_offer,
    .bell = op_bell,
    .lanes_end = sim_lanes_end,
    .region_end = op_region_end,
    .put_kept = op_put_kept,
    .drop = op_drop,
    .lane_next = sim_lane_next,
    .flush = op_flush,
    .fence = op_fence,
    .take = op_take,
};

uint64_t sim_waited_ns(const struct sim *w, uint32_t from, uint32_t to)
{
    CHECK(from < w->opt.nodes_max && to < w->opt.nodes_max);
    uint64_t since_ns = sim_chan_waits_since(sim_chan_at(w, from, to));

    return since_ns < w->now_ns ? w->now_ns - since_ns : 0;
}

uint64_t sim_promised(const struct sim *w, uint32_t owner, uint32_t region)
{
    CHECK(owner < w->opt.nodes_max);
    const struct sim_node *n = &w->nodes[owner];

    for (const struct sim_region *r = n->regions; r; r = r->next)
        if (r->region == region)
            return r->promised;
    return n->memory ? MEM_CLOSED : 0;
}
