#include "sim/aim.h"

#include "agree/lanes.h"
#include "base/hash.h"
#include "sim/chaos.h"

enum {
    AIM_STREAM = 11,      /* of the seed */
    AIM_RECOVER_MAX = 40, /* memory operations of a candidacy, about */
    AIM_STOP_UNITS = 200,
    AIM_READ_GAP_NS = 40000,
};

static const char *const step_names[AIM_STEPS] = {
    [AIM_RECOVER] = "recover", [AIM_CONTINUE] = "continue", [AIM_RENEW] = "renew",
    [AIM_WRITE] = "write",     [AIM_COMMIT] = "commit",     [AIM_OFFER] = "offer",
    [AIM_SEND] = "send",       [AIM_TAKE] = "take",         [AIM_JOIN] = "join",
    [AIM_PUBLISH] = "publish", [AIM_BEGIN] = "begin",       [AIM_REPORT] = "report",
    [AIM_TELL] = "tell",       [AIM_STATE] = "state",
};

/* How often of a thousand times a step of the kind is made a target: what is frequent is taken rarely. */
static const uint32_t per_thousand[AIM_STEPS] = {
    [AIM_RECOVER] = 150, [AIM_CONTINUE] = 700, [AIM_RENEW] = 300, [AIM_WRITE] = 2,
    [AIM_COMMIT] = 2,    [AIM_OFFER] = 300,    [AIM_SEND] = 20,   [AIM_TAKE] = 100,
    [AIM_JOIN] = 500,    [AIM_PUBLISH] = 5,    [AIM_BEGIN] = 100, [AIM_REPORT] = 150,
    [AIM_TELL] = 100,    [AIM_STATE] = 50,
};

const char *aim_step_name(enum aim_step s)
{
    return step_names[s];
}

void aim_draw(struct aim *a, uint64_t seed, enum aim_when when)
{
    *a = (struct aim){0};
    rng_init(&a->rng, hash_mix(seed, AIM_STREAM));
    bool drawn = rng_below(&a->rng, 2);
    a->on = when == AIM_ALWAYS || (when == AIM_DRAWN && drawn);
    if (!a->on)
        return;
    a->even = rng_below(&a->rng, 2);
    a->relay = rng_below(&a->rng, 3) == 0;
    a->read_gap_ns_max = rng_below(&a->rng, 3) ? 0 : rng_range(&a->rng, 1000, AIM_READ_GAP_NS);
}

static enum aim_step step_of_log(const struct sim_call *c)
{
    if (c->kind == SIM_CALL_PUT)
        return AIM_WRITE;
    if (c->kind != SIM_CALL_SET)
        return AIM_STEPS;
    if (c->word == LOG_RUN && c->values[0] == 0)
        return AIM_RENEW;
    if (c->word == LOG_START && c->count == 1)
        return AIM_CONTINUE;
    return c->word == LOG_COMMIT ? AIM_COMMIT : AIM_STEPS;
}

static enum aim_step step_of_snap(const struct sim_call *c)
{
    if (c->kind == SIM_CALL_PUT)
        return AIM_SEND;
    return c->kind == SIM_CALL_SET && c->word == SNAP_ID && c->values[0] == 0 ? AIM_OFFER
                                                                              : AIM_STEPS;
}

static enum aim_step step_of_send(const struct sim_call *c)
{
    if (c->kind == SIM_CALL_PUT)
        return AIM_PUBLISH;
    return c->kind == SIM_CALL_SET && c->word < 2 ? AIM_BEGIN : AIM_STEPS;
}

/* The step that begins with this operation; AIM_STEPS: none. */
static enum aim_step step_begun(const struct sim_call *c)
{
    if (c->kind == SIM_CALL_RAISE)
        return AIM_RECOVER;
    if (c->kind == SIM_CALL_GRANT)
        return AIM_JOIN;
    if (c->lane == NULL)
        return AIM_STEPS;
    switch (lane_kind(c->lane)) {
    case LANE_LOG:
        return step_of_log(c);
    case LANE_SNAP:
        return step_of_snap(c);
    case LANE_ROW:
        return c->kind == SIM_CALL_SET && c->word == 0 && c->count == ROW_WORDS &&
                       c->values[ROW_SNAP_ID] != 0 && c->values[ROW_FLAGS] != 0
                   ? AIM_TAKE
                   : AIM_STEPS;
    case LANE_SEND:
        return step_of_send(c);
    case LANE_REPORT:
        return AIM_REPORT;
    case LANE_VIEW:
        return AIM_TELL;
    case LANE_STATE:
        return AIM_STATE;
    default:
        return AIM_STEPS;
    }
}

/* Somebody else loses its memory, and is back at once, while the candidate waits: promises of its past life are void. Where it has a
 * disk, what that has not flushed is gone too, and perhaps it is out of reach for a while. */
static void strike_voter(struct aim *a)
{
    struct chaos *c = a->chaos;
    uint32_t other = (uint32_t)rng_below(&a->rng, c->hosts);
    if (other == a->host)
        return;
    uint64_t down_ns = rng_range(&a->rng, 0, 4) * c->unit_ns;
    if (!c->durable) {
        chaos_crash(c, other, false, down_ns);
        return;
    }
    chaos_power_out(c, other, down_ns);
    if (rng_below(&a->rng, 2))
        chaos_part(c, a->host, other, rng_range(&a->rng, 20, 150) * c->unit_ns);
}

/* The power goes, of all or of the host and some others. Who is back at once has to do without one of them, and perhaps the host
 * without one whom it wrote to. */
static void strike_power(struct aim *a)
{
    struct chaos *c = a->chaos;
    struct rng *g = &a->rng;
    bool all = rng_below(g, 3) != 0;
    uint32_t late = (uint32_t)rng_below(g, c->hosts), away = (uint32_t)rng_below(g, c->hosts);
    for (uint32_t host = 0; host < c->hosts; host++) {
        uint64_t down_ns =
            (host == late ? rng_range(g, 100, 500) : rng_range(g, 0, 5)) * c->unit_ns;
        if (host == a->host)
            a->stop_ns = down_ns;
        else if (all || host == late || rng_below(g, 2))
            chaos_power_out(c, host, down_ns);
    }
    if (away != a->host && rng_below(g, 2))
        chaos_part(c, a->host, away, rng_range(g, 20, 200) * c->unit_ns);
    a->verdict = AIM_POWER;
}

/* Somebody tries for the place of one that leads, and the two do not hear each other. */
static void begin_duel(struct aim *a, uint32_t node)
{
    struct chaos *c = a->chaos;
    if (sim_now(c->sim) < a->duel_ns || rng_below(&a->rng, 3 * c->hosts) != 0)
        return;
    a->duel_ns = sim_now(c->sim) + rng_range(&a->rng, 50, 300) * c->unit_ns;
    for (uint32_t host = 0; host < c->hosts; host++)
        if (host != node && c->calls->is_up(c->ctx, host) && c->calls->leads(c->ctx, host))
            chaos_part(c, node, host, rng_range(&a->rng, 50, 400) * c->unit_ns);
}

static bool strike(struct aim *a)
{
    struct chaos *c = a->chaos;
    struct rng *g = &a->rng;
    a->armed = false;
    a->ready_ns = sim_now(c->sim) + rng_range(g, 1, 60) * c->unit_ns;
    a->figures.strikes[a->step]++;
    a->figures.at[a->k < AIM_CALLS_MAX ? a->k - 1 : AIM_CALLS_MAX - 1]++;
    uint64_t units = rng_below(g, 3) ? rng_range(g, 1, 30) : rng_range(g, 30, AIM_STOP_UNITS);
    uint64_t length = units * c->unit_ns;
    uint64_t pick = rng_below(g, 10);
    chaos_trace(c, "aimed at %s, %s %u", c->calls->name(c->ctx, a->host), step_names[a->step],
                a->k);
    if (c->durable && rng_below(g, 3) == 0) {
        strike_power(a);
        return true;
    }
    if (!c->truthful && rng_below(g, 4))
        chaos_rumour(c, a->host, length);
    if (pick < 4) {
        a->keep_memory = (rng_below(g, 3) != 0 && !c->links) || c->at_hand;
        if (chaos_may_crash(c, a->host, a->keep_memory))
            a->verdict = AIM_KILL;
    } else if (pick < 6) {
        chaos_isolate(c, a->host, length);
        return false;
    }
    if (a->verdict != AIM_KILL) {
        a->verdict = AIM_STOP;
        a->stop_ns = length;
        if (a->step == AIM_RECOVER && rng_below(g, 2))
            strike_voter(a);
    }
    return true;
}

/* The next one takes over, with nothing but the memories of the others. */
static void relay_event(void *ctx, uint64_t arg)
{
    struct aim *a = ctx;
    struct chaos *c = a->chaos;
    (void)arg;
    if (c->calm)
        return;
    uint64_t length = rng_range(&a->rng, 10, 50) * c->unit_ns;
    uint32_t next = (uint32_t)rng_below(&a->rng, c->hosts);
    for (uint32_t q = 0; q < c->hosts; q++) {
        if (q == next)
            continue;
        if (rng_below(&a->rng, 6))
            chaos_pause(c, q, length);
        chaos_lie(c, next, q, length / 2);
    }
    sim_at(c->sim, sim_now(c->sim) + length + rng_below(&a->rng, length), relay_event, a, 0);
}

void aim_begin(struct aim *a)
{
    if (a->relay && !a->chaos->truthful)
        sim_at(a->chaos->sim, rng_range(&a->rng, 10, 100) * a->chaos->unit_ns, relay_event, a, 0);
}

bool aim_called(struct aim *a, uint32_t node, const struct sim_call *call)
{
    const struct chaos *c = a->chaos;
    if (!a->on || c->calm || node >= c->hosts)
        return false;
    if (a->armed && a->life != c->life[a->host])
        a->armed = false;
    if (c->durable && call->kind == SIM_CALL_RAISE)
        begin_duel(a, node);
    if (!a->armed) {
        enum aim_step step = step_begun(call);
        if (step == AIM_STEPS || sim_now(c->sim) < a->ready_ns ||
            rng_below(&a->rng, 1000) >= per_thousand[step])
            return false;
        a->armed = true;
        a->step = step;
        a->host = node;
        a->life = c->life[node];
        a->k = a->left =
            (uint32_t)rng_range(&a->rng, 1, step == AIM_RECOVER ? AIM_RECOVER_MAX : AIM_CALLS_MAX);
    }
    return node == a->host && --a->left == 0 && strike(a);
}
