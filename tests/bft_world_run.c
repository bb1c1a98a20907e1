/* Runs of the world of tests/bft_world.c: drawn from a seed, or stepped by hand. */
#include "bft_world.h"

#include "base/rng.h"

static void draw_liars(bool *lies)
{
    uint32_t n = bw.scope.members, f = bw.scope.faulty;
    uint32_t most = bw.shape.restarts ? f - 1 : f;
    uint32_t first = bw.shape.aim == BFT_AIM_LATE || bw.shape.aim == BFT_AIM_BLIND ||
                     bw.shape.aim == BFT_AIM_CERT;
    if (bw.shape.aim == BFT_AIM_JUMP)
        lies[0] = true;
    while (bw.shape.aim != BFT_AIM_JUMP && most-- > 0)
        lies[first + rng_below(bw.rng, n - first)] = true;
}

static void draw_victims(void)
{
    for (uint32_t p = 0; p < bw.scope.members; p++) {
        struct world_member *m = &bw.member[p];
        if (world_works(p) && (bw.shape.aim == BFT_AIM_CERT ? p == 0 : rng_below(bw.rng, 2) == 0))
            bw.victims |= 1U << p;
        m->skips_certify = (bw.victims & 1U << p) &&
                           (bw.shape.aim == BFT_AIM_LATE || bw.shape.aim == BFT_AIM_BLIND ||
                            bw.shape.aim == BFT_AIM_CERT);
    }
}

static void open_world(const struct bft_shape *shape, uint64_t seed, struct bft_figures *figures)
{
    memset(&bw, 0, sizeof(bw));
    bw.shape = *shape;
    bw.seed = seed;
    bw.figures = figures;
    bw.rng = world_rng();
    bw.scope = (struct bft_scope){.cluster = WORLD_CLUSTER,
                                  .group = WORLD_GROUP,
                                  .members = shape->members,
                                  .faulty = (shape->members - 1) / 2};
    rng_init(bw.rng, seed);
}

static bool may_restart(void)
{
    uint32_t away = 0;
    for (uint32_t p = 0; p < bw.scope.members; p++)
        away += bw.member[p].lies || !bw.member[p].core.votes;
    return away < bw.scope.faulty;
}

static void restart_one(void)
{
    uint32_t p = (uint32_t)rng_below(bw.rng, bw.scope.members);
    if (world_works(p) && bw.member[p].life + 1 < WORLD_LIVES && may_restart())
        world_restart(&bw.member[p]);
}

static void wild_step(void)
{
    struct world_member *m = &bw.member[rng_below(bw.rng, bw.scope.members)];
    bw.now_ns += WORLD_STEP_NS;
    if (rng_below(bw.rng, 400) == 0)
        bw.hidden[rng_below(bw.rng, WORLD_MEMBERS)] =
            (uint32_t)(rng_below(bw.rng, UINT32_MAX) & rng_below(bw.rng, UINT32_MAX));
    if (bw.shape.restarts && rng_below(bw.rng, 3000) == 0)
        restart_one();
    if (rng_below(bw.rng, 200) == 0 && bw.messages < 60)
        bw.messages += 1 + rng_below(bw.rng, 4);
    if (m->lies)
        world_liar_step(m);
    else
        world_member_step(m);
}

static bool all_done(void)
{
    for (uint32_t p = 0; p < bw.scope.members; p++)
        if (world_works(p) && (bw.member[p].taken < bw.messages || !bw.member[p].core.votes))
            return false;
    return true;
}

/* Liars are silent, nothing is hidden or lost, and everything goes on at the same pace: what was sent is decided. */
static void calm(uint64_t rounds)
{
    memset(bw.hidden, 0, sizeof(bw.hidden));
    for (uint64_t i = 0; i < rounds && !bw.violated && !all_done(); i++) {
        bw.now_ns += WORLD_STEP_NS * 10;
        for (uint32_t p = 0; p < bw.scope.members; p++)
            for (uint32_t k = 0; world_works(p) && k < 10; k++)
                world_member_step(&bw.member[p]);
    }
    if (!bw.violated && !all_done())
        world_violated("liveness", "");
}

const char *bft_world_run(const struct bft_shape *shape, uint64_t seed, struct bft_figures *figures)
{
    bool lies[WORLD_MEMBERS] = {false};
    open_world(shape, seed, figures);
    draw_liars(lies);
    for (uint32_t p = 0; p < bw.scope.members; p++)
        world_open_member(p, lies[p]);
    draw_victims();
    bw.careful = rng_below(bw.rng, 2) == 0;
    for (uint64_t steps = 3000 + rng_below(bw.rng, 6000); steps > 0 && !bw.violated; steps--)
        wild_step();
    calm(40000);
    world_close();
    return bw.violated;
}

/* ---- stepped ---- */

static void hear_all(struct world_member *m)
{
    for (uint32_t q = 0; q < bw.scope.members; q++)
        world_hear_one(m, q);
    while (m->flying > 0)
        world_one_frame(m);
}

/* Those members go on, and no time runs out. */
static void go_on(uint32_t members, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        bw.now_ns += WORLD_STEP_NS * WORLD_BEAT_STEPS / 4;
        for (uint32_t p = 0; p < bw.scope.members; p++) {
            struct world_member *m = &bw.member[p];
            m->deaf = !(members & 1U << p);
            if (m->deaf)
                continue;
            hear_all(m);
            m->core.deadline = m->core.complaint_at = 0;
            bft_core_step(&m->core, bw.now_ns);
            world_end_save(m);
            world_load(m);
        }
    }
}

const char *bft_world_forgotten_promise(void)
{
    static struct bft_figures figures;
    enum { FIRST = 1, SECOND = 2, THIRD = 4, ALL = 7, ROUNDS = 100 };
    open_world(&(struct bft_shape){.members = 3}, 1, &figures);
    for (uint32_t p = 0; p < 3; p++)
        world_open_member(p, false);
    bft_view_enter(&bw.member[2].core, 1);
    go_on(ALL, ROUNDS);
    world_restart(&bw.member[2]);
    for (uint32_t i = 0; i < ROUNDS && bw.member[1].core.stable.slot == 0; i++)
        go_on(ALL, 1);
    bw.messages = 1;
    go_on(FIRST | THIRD, ROUNDS);
    CHECK(bw.member[2].core.votes && bw.member[2].core.view == 0);
    CHECK(bw.member[0].taken == 1 && bw.member[1].taken == 0 && bw.member[2].taken == 1);
    bft_view_enter(&bw.member[1].core, 1);
    go_on(SECOND | THIRD, ROUNDS);
    go_on(ALL, 1);
    if (!bw.violated)
        calm(4000);
    world_close();
    return bw.violated;
}

/* Views 4, 4 and 7, the rest of five are a liar and one that is down. Who is ahead has lost its memory, and with it how long its views
 * had become. */
const char *bft_world_one_ahead(void)
{
    static struct bft_figures figures;
    enum { LIAR, DOWN, AHEAD, THIRD, FOURTH, MEMBERS };
    const struct bft_state far = {.head = {.kind = BFT_STATE, .view = 218}, .next = BFT_NO_SLOT};
    open_world(&(struct bft_shape){.members = MEMBERS}, 1, &figures);
    for (uint32_t p = 0; p < MEMBERS; p++)
        world_open_member(p, p == LIAR);
    bw.member[DOWN].down = true;
    CHECK(world_say(LIAR, &far, sizeof(far)) == NULL);
    bft_view_enter(&bw.member[AHEAD].core, 7);
    bft_view_enter(&bw.member[THIRD].core, 4);
    bft_view_enter(&bw.member[FOURTH].core, 4);
    bw.member[THIRD].core.timeout *= 4;
    bw.member[FOURTH].core.timeout *= 4;
    bw.messages = 1;
    calm(40000);
    world_close();
    return bw.violated;
}
