#include "neb_world.h"

#include "agree/bft_neb.h"
#include "base/rng.h"
#include "lane/names.h"
#include "mem/sim/sim.h"
#include "sim/hostile.h"
#include "sim/sim_signer.h"

#include <stdlib.h>
#include <string.h>

enum { REGION = 3, LAPS = 3, PLACES_MAX = 4 * LAPS, CLUSTER = 77, CALM_ROUNDS = 20000 };

struct member {
    struct mem *mem;
    struct neb *neb;                 /* NULL: it lies, and runs no code of the protocol */
    struct hostile *hostile;         /* NULL: it does not, or as above */
    struct neb *twin[HOSTILE_TWINS]; /* what that runs */
    uint64_t said[HOSTILE_TWINS];
    struct signer *signer;
    bool dead;
    uint64_t got[PLACES_MAX + 1]; /* by place: which message of the sender was delivered; 0: none */
    struct mem_lane *row[NEB_MEMORIES_MAX]; /* of who lies */
    struct mem_flow flow[NEB_MEMORIES_MAX];
};

static struct world {
    struct neb_shape shape;
    uint64_t seed;
    struct rng rng;
    struct sim *sim;
    uint32_t faulty_max, sender;
    uint32_t nodes[NEB_MEMBERS_MAX], memory[NEB_MEMORIES_MAX], life[NEB_MEMBERS_MAX];
    struct mem *holder[NEB_MEMORIES_MAX];
    struct hostiles *hostiles;
    struct member member[NEB_MEMBERS_MAX];
    uint64_t places, said;
    uint32_t focus; /* whom the liars aim at */
    struct neb_figures *figures;
    const char *violated;
} w;

static bool lies(uint32_t p)
{
    return w.member[p].neb == NULL;
}

static bool works(uint32_t p)
{
    return !lies(p) && !w.member[p].dead;
}

/* ---- members that are correct ---- */

static struct digest content(uint64_t place, uint64_t which)
{
    const uint64_t words[2] = {place, which};
    return digest_of(words, sizeof(words));
}

static void deliver(void *ctx, uint32_t sender, const struct neb_message *m)
{
    struct member *p = ctx;
    uint64_t place = m->key, which = 0;
    if (sender != w.sender || place > w.places)
        return;
    for (uint64_t i = 1; i <= 2; i++)
        if (digest_equal(m->digest, content(place, i)))
            which = i;
    if (which == 0 || (!lies(w.sender) && which != 1))
        w.violated = "forged";
    if (p->got[place] != 0)
        w.violated = "twice";
    p->got[place] = which;
    for (uint32_t q = 0; q < w.shape.members; q++)
        if (!lies(q) && w.member[q].got[place] != 0 && w.member[q].got[place] != which)
            w.violated = "agreement";
    w.figures->delivered++;
}

static bool has_body(void *ctx, uint32_t sender, const struct neb_message *m)
{
    (void)ctx, (void)sender, (void)m;
    return rng_below(&w.rng, 3) > 0;
}

static void convicted(void *ctx, uint32_t sender, const struct neb_cell *a,
                      const struct neb_cell *b)
{
    (void)ctx;
    w.figures->convicted++;
    if (!lies(sender) || a->key != b->key || digest_equal(a->digest, b->digest))
        w.violated = "a correct one is convicted";
}

/* What one that lies hears. */
static void ignore(void *ctx, uint32_t sender, const struct neb_message *m)
{
    (void)ctx, (void)sender, (void)m;
}

static void ignore_conviction(void *ctx, uint32_t sender, const struct neb_cell *a,
                              const struct neb_cell *b)
{
    (void)ctx, (void)sender, (void)a, (void)b;
}

static const struct neb_calls hostile_calls = {
    .deliver = ignore, .has_body = has_body, .convicted = ignore_conviction};

static const struct neb_calls calls = {
    .deliver = deliver, .has_body = has_body, .convicted = convicted};

/* Some correct member has delivered up to there: of the claims, where liars claim anything, the one of rank f+1. */
static uint64_t vouched(void)
{
    uint64_t claim[NEB_MEMBERS_MAX];
    for (uint32_t p = 0; p < w.shape.members; p++) {
        claim[p] = lies(p) ? UINT64_MAX : neb_next(w.member[p].neb, w.sender) - 1;
        for (uint32_t i = p; i > 0 && claim[i] > claim[i - 1]; i--) {
            uint64_t higher = claim[i];
            claim[i] = claim[i - 1];
            claim[i - 1] = higher;
        }
    }
    return claim[w.faulty_max];
}

static void say(struct neb *n)
{
    neb_vouched(n, vouched());
    if (w.said < w.places && neb_broadcast(n, 8, content(w.said + 1, 1)) == 0)
        w.said++;
}

static void member_step(uint32_t p)
{
    struct member *m = &w.member[p];
    if (!works(p))
        return;
    if (p == w.sender)
        say(m->neb);
    neb_post(m->neb);
    mem_poll(m->mem);
    signer_poll(m->signer);
    neb_settle(m->neb);
    if (neb_lapped(m->neb, w.sender)) {
        w.figures->lapped++;
        neb_jump(m->neb, w.sender, vouched());
    }
}

/* ---- liars ---- */

static struct neb_cell signed_cell(uint64_t place, uint64_t which)
{
    const struct hostiles_options o = {.key_seed = w.seed, .cluster = CLUSTER, .region = REGION};
    return hostile_cell(&o, w.sender, place, 8, content(place, which));
}

/* Near what the one that is aimed at is going to look at, other members being told otherwise. */
static struct neb_cell draw_cell(void)
{
    uint64_t next = neb_next(w.member[w.focus].neb, w.sender), place;
    if (!lies(w.sender)) {
        place = w.said < 2 ? 1 : w.said - rng_below(&w.rng, w.said < 8 ? w.said : 8);
        return signed_cell(place, 1);
    }
    place = rng_below(&w.rng, 5) > 0 ? next : next + rng_below(&w.rng, w.shape.window + 2);
    return signed_cell(place,
                       rng_below(&w.rng, 10) > 0 ? 1 + w.focus % 2 : 1 + rng_below(&w.rng, 2));
}

static void liar_write(struct member *m, uint32_t j, const struct neb_cell *c)
{
    uint64_t at = (w.sender * w.shape.window + c->key % w.shape.window) * sizeof(*c);
    uint64_t from = rng_below(&w.rng, 7) == 0 ? sizeof(*c) / 2 : 0; /* half a cell */
    if (m->flow[j].status != MEM_DONE)
        mem_flow_open(m->mem, &m->flow[j], m->row[j]->spec.owner, REGION, 0);
    mem_put(m->mem, &m->flow[j], m->row[j], at + from, (const char *)c + from,
            (uint32_t)(sizeof(*c) - from));
    w.figures->cells++;
}

static void liar_step(uint32_t p)
{
    struct member *m = &w.member[p];
    uint32_t holders = w.shape.memories ? w.shape.memories : 1;
    if (!lies(w.sender) && w.said == 0)
        return;
    struct neb_cell c = draw_cell();
    uint64_t only = rng_below(&w.rng, 2 * holders); /* or all, if there is no such memory */
    for (uint32_t j = 0; j < holders; j++)
        if (only >= holders || only == j)
            liar_write(m, j, &c);
    mem_poll(m->mem);
}

/* One that runs the code on a memory that lies. */
static void twin_step(struct member *m, uint32_t p, uint32_t t)
{
    struct neb *n = m->twin[t];
    hostile_turn(m->hostile, t);
    neb_vouched(n, vouched());
    if (p == w.sender && m->said[t] < w.places &&
        neb_broadcast(n, 8, content(m->said[t] + 1, 1 + t)) == 0)
        m->said[t]++;
    neb_post(n);
    mem_poll(m->mem);
    signer_poll(m->signer);
    neb_settle(n);
    if (neb_lapped(n, w.sender))
        neb_jump(n, w.sender, vouched());
}

static void hostile_member_step(uint32_t p)
{
    struct member *m = &w.member[p];
    for (uint32_t t = 0; t < hostile_twins(m->hostile); t++)
        if (rng_below(&w.rng, 3))
            twin_step(m, p, t);
    hostile_step(m->hostile);
}

/* ---- the world ---- */

static void open_twins(struct member *m, struct neb_options *o)
{
    struct err e = {""};
    o->calls = &hostile_calls;
    for (uint32_t t = 0; t < hostile_twins(m->hostile); t++) {
        hostile_turn(m->hostile, t);
        CHECK(neb_open(o, &m->twin[t], &e) == 0);
    }
}

static void open_member(uint32_t p, bool liar)
{
    struct member *m = &w.member[p];
    enum mem_birth birth;
    struct err e = {""};
    m->mem = sim_node_start(w.sim, p);
    m->hostile = w.hostiles ? hostile_of(w.hostiles, p) : NULL;
    if (m->hostile)
        hostile_begin(m->hostile, m->mem);
    CHECK(mem_region_open(m->mem, REGION, &birth, &e) == 0);
    m->signer = sim_signer_open(w.seed, p, 4);
    struct neb_options o = {.mem = m->mem,
                            .region = REGION,
                            .nodes = w.nodes,
                            .members = w.shape.members,
                            .rank = p,
                            .memories = w.shape.memories ? w.memory : NULL,
                            .memory_count = w.shape.memories,
                            .window = w.shape.window,
                            .life = w.life,
                            .cluster = CLUSTER,
                            .signer = m->signer,
                            .calls = &calls,
                            .ctx = m};
    if (m->hostile)
        open_twins(m, &o);
    else if (!liar)
        CHECK(neb_open(&o, &m->neb, &e) == 0);
    if (m->hostile || !liar)
        return;
    for (uint32_t j = 0; j < (w.shape.memories ? w.shape.memories : 1); j++) {
        struct mem_lane_spec s =
            lane_spec(REGION, w.shape.memories ? w.memory[j] : p, p, LANE_NEB, 0);
        s.ctl_words = 1;
        s.ring_bytes = MEM_PAGE_BYTES;
        CHECK(mem_lanes_open(m->mem, &s, 1, &m->row[j], &e) == 0);
        mem_flow_open(m->mem, &m->flow[j], s.owner, REGION, 0);
    }
}

static void open_memory(uint32_t j)
{
    enum mem_birth birth;
    struct err e = {""};
    struct mem_lane *lane;
    w.memory[j] = w.shape.members + j;
    w.holder[j] = sim_node_start(w.sim, w.memory[j]);
    CHECK(mem_region_open(w.holder[j], REGION, &birth, &e) == 0);
    for (uint32_t p = 0; p < w.shape.members; p++) {
        struct mem_lane_spec s = lane_spec(REGION, w.memory[j], p, LANE_NEB, 0);
        s.ctl_words = 1;
        s.ring_bytes = MEM_PAGE_BYTES;
        CHECK(mem_lanes_open(w.holder[j], &s, 1, &lane, &e) == 0);
    }
}

static void open_world(void)
{
    struct err e = {""};
    const struct sim_options o = {.seed = w.seed,
                                  .nodes_max = w.shape.members + w.shape.memories,
                                  .delay_ns_min = 100,
                                  .delay_ns_max = 2000,
                                  .tear_per_million = 300000,
                                  .read_gap_ns_max = 1000,
                                  .lost_after_ns = 50000,
                                  .links = {.on = w.shape.links, .judged = w.shape.links}};
    w.sim = sim_open(&o, &e);
    CHECK(w.sim != NULL);
    for (uint32_t p = 0; p < w.shape.members; p++)
        w.nodes[p] = p;
    for (uint32_t j = 0; j < w.shape.memories; j++)
        open_memory(j);
}

static void draw_members(void)
{
    bool liar[NEB_MEMBERS_MAX] = {false};
    uint32_t n = w.shape.members, liars = (uint32_t)rng_range(&w.rng, 1, w.faulty_max), first;
    for (uint32_t i = 0; i < liars; i++)
        liar[rng_below(&w.rng, n)] = true;
    do
        w.sender = (uint32_t)rng_below(&w.rng, n);
    while (liar[w.sender] != (rng_below(&w.rng, 3) > 0));
    if (w.shape.strategy != HOSTILE_none)
        w.hostiles = hostiles_open(&(struct hostiles_options){.sim = w.sim,
                                                              .strategy = w.shape.strategy,
                                                              .seed = rng_u64(&w.rng),
                                                              .key_seed = w.seed,
                                                              .nodes = w.nodes,
                                                              .lies = liar,
                                                              .members = n,
                                                              .region = REGION,
                                                              .cluster = CLUSTER,
                                                              .window = w.shape.window});
    for (uint32_t p = 0; p < n; p++)
        open_member(p, liar[p]);
    for (first = 0; lies(first); first++)
        ;
    w.focus = first;
}

/* What a member writes comes to one memory, another for each, long after the others have it. */
static void draw_slow(void)
{
    for (uint32_t p = 0; p < w.shape.members && w.shape.memories; p++)
        sim_slow(w.sim, p, w.memory[rng_below(&w.rng, w.shape.memories)], rng_below(&w.rng, 40000));
}

static void draw_focus(void)
{
    uint32_t p = (uint32_t)rng_below(&w.rng, w.shape.members);
    if (!lies(p))
        w.focus = p;
}

static void time_passes(uint64_t events)
{
    while (events-- > 0 && sim_step(w.sim))
        ;
    for (uint32_t j = 0; j < w.shape.memories; j++)
        mem_poll(w.holder[j]);
}

/* One correct member may end; its row may be in the middle of a write. Together with liars no more than f. */
static void kill_one(void)
{
    uint32_t bad = 0;
    for (uint32_t p = 0; p < w.shape.members; p++)
        bad += !works(p);
    if (bad >= w.faulty_max || w.focus == w.sender)
        return;
    w.member[w.focus].dead = true;
    sim_node_crash(w.sim, w.focus, true);
}

static void wild_step(void)
{
    uint64_t what = rng_below(&w.rng, 1000);
    uint32_t p = (uint32_t)rng_below(&w.rng, w.shape.members);
    if (rng_below(&w.rng, 20) == 0)
        draw_focus();
    if (w.member[p].hostile)
        hostile_member_step(p);
    else if (what < 250 && lies(p))
        liar_step(p);
    else if (what < 500)
        time_passes(rng_below(&w.rng, 4));
    else if (what == 500)
        kill_one();
    else
        member_step(what < 800 && w.hostiles == NULL ? w.focus : p);
}

static bool all_have_all(void)
{
    for (uint32_t p = 0; p < w.shape.members; p++)
        if (works(p) && neb_next(w.member[p].neb, w.sender) <= w.places)
            return false;
    return true;
}

static void calm(void)
{
    sim_calm(w.sim);
    for (uint32_t i = 0; i < CALM_ROUNDS && !w.violated && !all_have_all(); i++) {
        for (uint32_t p = 0; p < w.shape.members; p++)
            if (w.member[p].hostile)
                hostile_member_step(p);
            else
                member_step(p);
        time_passes(8);
    }
    if (!w.violated && !all_have_all())
        w.violated = "liveness";
}

static void close_world(void)
{
    for (uint32_t p = 0; p < w.shape.members; p++) {
        if (w.member[p].neb)
            neb_close(w.member[p].neb);
        for (uint32_t t = 0; t < HOSTILE_TWINS; t++)
            if (w.member[p].twin[t])
                neb_close(w.member[p].twin[t]);
        signer_close(w.member[p].signer);
    }
    if (w.hostiles) {
        w.figures->cells += hostiles_figures(w.hostiles).lies;
        hostiles_close(w.hostiles);
    }
    sim_close(w.sim);
}

static void world_init(const struct neb_shape *shape, uint64_t seed, struct neb_figures *figures)
{
    memset(&w, 0, sizeof(w));
    w.shape = *shape;
    w.seed = seed;
    w.figures = figures;
    w.faulty_max = (shape->members - 1) / 2;
    w.places = LAPS * shape->window;
    CHECK(w.places <= PLACES_MAX);
    rng_init(&w.rng, seed);
    open_world();
}

static void put(uint32_t p, const struct neb_cell *c, uint32_t bytes)
{
    struct member *m = &w.member[p];
    mem_put(m->mem, &m->flow[0], m->row[0], c->key % w.shape.window * sizeof(*c), c, bytes);
}

/* Member 0 has said one thing in place 1 to member 1, who looks into the row of member 2. There the cell of that place is half something
 * else; before it stands what member 2 has delivered since, or nothing. */
const char *neb_world_torn(bool gone_on)
{
    static struct neb_figures figures;
    const struct neb_cell said = signed_cell(1, 1), later = signed_cell(2, 1),
                          over = signed_cell(3, 1);
    world_init(&(struct neb_shape){.members = 3, .window = 2}, 1, &figures);
    for (uint32_t p = 0; p < 3; p++)
        open_member(p, p != 1);
    put(0, &said, sizeof(said));
    put(2, &said, sizeof(said));
    put(2, &over, sizeof(over) / 2);
    if (gone_on)
        put(2, &later, sizeof(later));
    for (uint32_t i = 0; i < 500; i++) {
        mem_poll(w.member[0].mem);
        mem_poll(w.member[2].mem);
        time_passes(100);
        if (i > 10) /* all that was written is there */
            member_step(1);
    }
    bool delivered = w.member[1].got[1] != 0;
    close_world();
    if (gone_on && delivered)
        return "agreement";
    return gone_on || delivered ? NULL : "liveness";
}

/* Member 0 lies, and says what it likes to two others, one of which goes on at a time. */
static void begin_two(void)
{
    static struct neb_figures figures;
    figures = (struct neb_figures){0};
    world_init(&(struct neb_shape){.members = 3, .window = 2}, 1, &figures);
    for (uint32_t p = 0; p < 3; p++)
        open_member(p, p == 0);
}

static void says(uint64_t place, uint64_t which)
{
    const struct neb_cell c = signed_cell(place, which);
    put(0, &c, sizeof(c));
}

static void goes_on(uint32_t p)
{
    for (uint32_t i = 0; i < 500; i++) {
        mem_poll(w.member[0].mem);
        time_passes(100);
        if (i > 10) /* all that was written is there */
            member_step(p);
    }
}

const char *neb_world_rewritten(void)
{
    begin_two();
    says(1, 1);
    goes_on(1);
    CHECK(w.member[1].got[1] == 1);
    says(1, 2);
    goes_on(2);
    bool shown = w.figures->convicted > 0;
    close_world();
    return w.violated || shown ? w.violated : "nobody is convicted";
}

const char *neb_world_lapped(void)
{
    begin_two();
    for (uint64_t place = 1; place <= 3; place++) {
        says(place, 1);
        goes_on(2);
        CHECK(w.member[2].got[place] == 1);
    }
    says(1, 2);
    goes_on(1);
    close_world();
    return w.violated;
}

const char *neb_world_run(const struct neb_shape *shape, uint64_t seed, struct neb_figures *figures)
{
    world_init(shape, seed, figures);
    draw_members();
    draw_slow();
    uint64_t steps = 400 + rng_below(&w.rng, 200 * w.places);
    while (steps-- > 0 && !w.violated)
        wild_step();
    if (!w.violated && !lies(w.sender))
        calm();
    close_world();
    return w.violated;
}
