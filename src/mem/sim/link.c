/* Connections between nodes, for a world whose memory is reached over a network (struct sim_links), and
 * what follows from them: who may use what, and when a promise is in force for whom.
 *
 * A connection is made when both nodes live, run and reach each other, some time after it could be.
 * When it breaks, its two sides come to know that each in its own time, and it is made again only after
 * both have: nothing of the old one lands behind what comes over the new one. */
#include "base/minmax.h"
#include "mem/sim/world.h"

static bool is_remote(const struct sim *w, uint32_t a, uint32_t b)
{
    return w->opt.links.on && a != b;
}

/* Clients have nothing to do with each other. */
static bool any_host(const struct sim *w, uint32_t a, uint32_t b)
{
    return w->opt.clients_from == 0 || a < w->opt.clients_from || b < w->opt.clients_from;
}

static uint32_t link_index(const struct sim *w, uint32_t a, uint32_t b)
{
    return a < b ? a * w->opt.nodes_max + b : b * w->opt.nodes_max + a;
}

bool sim_link_up(const struct sim *w, uint32_t a, uint32_t b)
{
    return !is_remote(w, a, b) || w->links[link_index(w, a, b)].up;
}

uint32_t sim_link_turn(const struct sim *w, uint32_t a, uint32_t b)
{
    return is_remote(w, a, b) ? w->links[link_index(w, a, b)].turn : 0;
}

bool sim_way_open(const struct sim *w, const struct sim_chan *c)
{
    return !is_remote(w, c->from, c->to) || (w->now_ns >= c->usable_ns && w->now_ns < c->down_ns);
}

bool sim_way_known(const struct sim *w, const struct sim_chan *c, const struct sim_region *r,
                   const struct sim_lane *l)
{
    if (!is_remote(w, c->from, c->to))
        return true;
    return sim_way_open(w, c) && w->now_ns >= c->lanes_ns && r->born &&
           (!l || w->now_ns >= l->opened_ns);
}

bool sim_connected(const struct sim *w, uint32_t from, uint32_t to)
{
    CHECK(from < w->opt.nodes_max && to < w->opt.nodes_max);
    const struct sim_chan *c = sim_chan_at(w, from, to);

    return !is_remote(w, from, to) || (sim_way_open(w, c) && w->now_ns >= c->lanes_ns);
}

/* ---- making and breaking ---- */

static void plan_at(struct sim *w, uint32_t index, uint64_t when_ns)
{
    if (w->links[index].planned)
        return;
    uint32_t event = sim_event_new(w, SIM_EV_LINK);
    w->events[event].u.index = index;
    sim_push(w, when_ns, event);
    w->links[index].planned = true;
}

void sim_link_plan(struct sim *w, uint32_t a, uint32_t b)
{
    if (is_remote(w, a, b) && any_host(w, a, b) && w->nodes[a].alive && w->nodes[b].alive)
        plan_at(w, link_index(w, a, b),
                w->now_ns + rng_below(&w->draws, w->opt.lost_after_ns / 2 + 1));
}

static void side_connected(struct sim *w, struct sim_chan *c)
{
    sim_stream_connected(w, c);
    sim_chan_drop(w, c, c->head); /* what had not landed of the last one */
    sim_lanes_reborn(w, c->from, c->to);
    c->down_ns = UINT64_MAX;
    c->usable_ns = w->now_ns + rng_below(&w->draws, 2 * w->opt.delay_ns_max + 1);
    c->lanes_ns = c->usable_ns + rng_below(&w->draws, 4 * w->opt.delay_ns_max + 1);
}

void sim_link_event(struct sim *w, uint32_t index)
{
    struct sim_link *l = &w->links[index];
    uint32_t a = index / w->opt.nodes_max, b = index % w->opt.nodes_max;
    struct sim_chan *there = sim_chan_at(w, a, b), *back = sim_chan_at(w, b, a);
    const struct sim_node *na = &w->nodes[a], *nb = &w->nodes[b];

    l->planned = false;
    if (l->up || !na->alive || !nb->alive)
        return; /* the next life begins with a plan */
    if (there->cut || back->cut || na->paused || nb->paused) {
        plan_at(w, index, w->now_ns + 1 + rng_below(&w->draws, w->opt.lost_after_ns / 2 + 1));
        return;
    }
    l->up = true;
    l->turn++;
    side_connected(w, there);
    side_connected(w, back);
    sim_mix(w, (uint64_t)index << 32 ^ l->turn);
}

/* One side: what it had sent lands in part, and what it hears is that all is lost. */
static void side_broken(struct sim *w, struct sim_chan *c)
{
    uint64_t most = rng_below(&w->draws, 3) ? 2 * w->opt.delay_ns_max : w->opt.lost_after_ns;

    c->down_ns = w->now_ns + rng_below(&w->draws, most + 1);
    c->gone = rng_below(&w->draws, 2);
    for (uint32_t i = w->nodes[c->from].flows; i != SIM_NONE; i = w->flows[i].next)
        if (w->flows[i].region->owner == c->to) {
            w->flows[i].broken = true;
            sim_flow_fail(w, i, MEM_LOST, c->down_ns);
        }
    if (!w->opt.links.judged)
        sim_chan_stop(w, c);
}

void sim_link_break(struct sim *w, uint32_t a, uint32_t b)
{
    struct sim_chan *there = sim_chan_at(w, a, b), *back = sim_chan_at(w, b, a);

    if (!is_remote(w, a, b) || !sim_link_up(w, a, b))
        return;
    uint32_t index = link_index(w, a, b);
    w->links[index].up = false;
    w->links[index].turn++;
    sim_mix(w, (uint64_t)index << 32 ^ w->links[index].turn);
    side_broken(w, there);
    side_broken(w, back);
    if (w->opt.links.judged) { /* both know by now when they will know */
        sim_stream_broken(w, there);
        sim_stream_broken(w, back);
    }
    plan_at(w, index,
            max_u64(there->down_ns, back->down_ns) +
                rng_below(&w->draws, w->opt.lost_after_ns / 2 + 1));
}

/* ---- flows ---- */

static struct sim_chan *way_of(struct sim *w, const struct sim_flow *f)
{
    return sim_chan_at(w, f->issuer, f->region->owner);
}

/* Fails it here and now; nobody has to be told. */
static enum mem_status fail_at_once(struct sim_flow *f, enum mem_status status)
{
    f->failed = status;
    f->broken = true;
    f->user->status = status;
    return status;
}

void sim_flow_begin(struct sim *w, uint32_t flow)
{
    struct sim_flow *f = &w->flows[flow];
    const struct sim_chan *c = way_of(w, f);

    if (!is_remote(w, c->from, c->to))
        return;
    if (w->opt.links.flaw == SIM_ANSWER_MISTAKEN)
        sim_stream_number(w, flow);
    if (f->ballot ? !sim_way_known(w, c, f->region, NULL) : !sim_way_open(w, c)) {
        fail_at_once(f, MEM_LOST);
    } else if (!sim_link_up(w, c->from, c->to)) {
        f->broken = true;
        sim_flow_fail(w, flow, MEM_LOST, c->down_ns);
    }
}

/* The other side has taken nothing for long, and there is no room for more. */
static bool queue_full(const struct sim *w, const struct sim_chan *c)
{
    return w->opt.links.queue_max && c->tail - c->head >= w->opt.links.queue_max &&
           w->now_ns - sim_chan_waits_since(c) > w->opt.lost_after_ns / 4;
}

enum mem_status sim_flow_ready(struct sim *w, uint32_t flow, const struct sim_lane *l)
{
    struct sim_flow *f = &w->flows[flow];
    const struct sim_chan *c = way_of(w, f);

    if (!is_remote(w, c->from, c->to) || f->broken)
        return MEM_DONE; /* or it will hear */
    bool full = queue_full(w, c);
    if (full && w->opt.links.judged)
        sim_link_break(w, c->from, c->to);
    if (!sim_way_known(w, c, f->region, l) || full)
        return fail_at_once(f, MEM_LOST);
    if (w->opt.links.judged)
        return MEM_DONE; /* nobody is told of promises */
    /* Who was told of another promise writes nothing under the old one. */
    if (f->ballot && f->ballot != f->region->promised &&
        w->now_ns >= f->region->told[f->issuer].until_ns + w->opt.delay_ns_max)
        return fail_at_once(f, MEM_DENIED);
    return MEM_DONE;
}

/* ---- promises ---- */

bool sim_promise_held(const struct sim *w, const struct sim_flow *f)
{
    const struct sim_told *t = f->region->told ? &f->region->told[f->issuer] : NULL;

    return f->ballot == 0 ||
           f->ballot == (t && w->now_ns < t->until_ns ? t->value : f->region->promised);
}

void sim_promise(struct sim *w, struct sim_region *r, uint64_t ballot)
{
    bool tells = w->opt.links.on && !w->opt.links.judged;

    for (uint32_t i = 0; tells && i < w->opt.nodes_max; i++) {
        if (i == r->owner || !sim_link_up(w, i, r->owner))
            continue;
        struct sim_told *t = &r->told[i];
        if (!w->opt.links.passive && w->now_ns >= t->until_ns) {
            /* It is put into a socket, which may be full. */
            uint64_t most =
                rng_below(&w->draws, 4) ? w->opt.delay_ns_max : w->opt.lost_after_ns / 4;
            t->value = r->promised;
            t->until_ns = w->now_ns + rng_below(&w->draws, most + 1);
        }
        r->told_ns = max_u64(r->told_ns, t->until_ns);
        uint32_t event = sim_event_new(w, SIM_EV_TOLD);
        w->events[event].u.told.region = r;
        w->events[event].u.told.node = i;
        sim_push(w, max_u64(t->until_ns, sim_sent_ns(w, r->owner, i, 0)), event);
    }
    r->promised = ballot;
}

void sim_told_event(struct sim *w, struct sim_region *r, uint32_t node)
{
    for (uint32_t i = w->nodes[node].flows; i != SIM_NONE; i = w->flows[i].next) {
        const struct sim_flow *f = &w->flows[i];
        /* On tcp it comes behind the acknowledgements of what landed before. */
        uint64_t when_ns = w->opt.links.passive ? w->now_ns : max_u64(w->now_ns, f->reported_ns);
        if (f->region == r && !sim_promise_held(w, f))
            sim_flow_fail(w, i, MEM_DENIED, when_ns);
    }
}
