#include "sim/chaos.h"

#include <stdarg.h>
#include <string.h>

enum {
    SETTLED_UNITS = 300, /* by then the first leaders are found; no host is harmed before */
    FLIPS_MAX = 3,
    OPENING_ORDERS = 6, /* to a disk before it has been read and written behind */
};

void chaos_trace(const struct chaos *c, const char *fmt, ...)
{
    if (c->trace == NULL)
        return;
    fprintf(c->trace, "%10.3f us  ", (double)sim_now(c->sim) / 1000);
    va_list ap;
    va_start(ap, fmt);
    vfprintf(c->trace, fmt, ap);
    va_end(ap);
    fputc('\n', c->trace);
}

uint64_t chaos_not_before(const struct chaos *c, uint32_t node, uint64_t when)
{
    return c->paused_until[node] > when ? c->paused_until[node] : when;
}

static const char *name(const struct chaos *c, uint32_t node)
{
    return c->calls->name(c->ctx, node);
}

static uint64_t units(struct chaos *c, uint64_t least, uint64_t most)
{
    return rng_range(c->rng, least * c->unit_ns, most * c->unit_ns);
}

static uint32_t any_node(struct chaos *c)
{
    return (uint32_t)rng_below(c->rng, c->hosts + c->clients);
}

/* Every other time somebody who leads, if there is one. */
static uint32_t leader_or_any(struct chaos *c)
{
    uint32_t pick = (uint32_t)rng_below(c->rng, c->hosts);
    if (rng_below(c->rng, 2))
        return pick;
    for (uint32_t i = 0; i < c->hosts; i++) {
        uint32_t host = (pick + i) % c->hosts;
        if (c->calls->is_up(c->ctx, host) && c->calls->leads(c->ctx, host))
            return host;
    }
    return pick;
}

/* ---- crashes ---- */

static void restart_event(void *ctx, uint64_t arg)
{
    struct chaos *c = ctx;
    uint32_t host = (uint32_t)(arg & 0xff);
    if (c->life[host] == arg >> 8 && !c->gone[host] && !c->calls->is_up(c->ctx, host))
        c->calls->start(c->ctx, host);
}

void chaos_forget(struct chaos *c, uint32_t host)
{
    c->life[host]++;
    c->paused_until[host] = 0;
}

bool chaos_may_crash(const struct chaos *c, uint32_t host, bool keep_memory)
{
    return c->calls->is_up(c->ctx, host) && c->paused_until[host] != CHAOS_STOPPED &&
           c->calls->may_crash(c->ctx, host, keep_memory);
}

static void crash(struct chaos *c, uint32_t host, bool keep)
{
    chaos_trace(c, "%s crashes, memory %s", name(c, host), keep ? "kept" : "lost");
    chaos_forget(c, host);
    c->calls->crash(c->ctx, host, keep);
    c->faults++;
}

static void plan_restart(struct chaos *c, uint32_t host, uint64_t down_ns)
{
    sim_at(c->sim, sim_now(c->sim) + down_ns, restart_event, c, c->life[host] << 8 | host);
}

void chaos_crash(struct chaos *c, uint32_t host, bool keep_memory, uint64_t down_ns)
{
    if (!chaos_may_crash(c, host, keep_memory))
        return;
    crash(c, host, keep_memory);
    plan_restart(c, host, down_ns);
}

static void fault_crash(struct chaos *c, uint32_t host)
{
    bool may_lose = chaos_may_crash(c, host, false);
    if (!may_lose && !chaos_may_crash(c, host, true))
        return;
    bool keep = (rng_below(c->rng, 2) && !c->links) || !may_lose || c->at_hand;
    crash(c, host, keep);
    plan_restart(c, host, rng_below(c->rng, 3) ? units(c, 1, 60) : units(c, 60, 600));
}

void chaos_power_cut(struct chaos *c, uint32_t host)
{
    chaos_trace(c, "%s loses power", name(c, host));
    chaos_forget(c, host);
    c->calls->power_cut(c->ctx, host);
    c->power_cuts++;
}

void chaos_power_out(struct chaos *c, uint32_t host, uint64_t down_ns)
{
    chaos_power_cut(c, host);
    plan_restart(c, host, down_ns);
    c->faults++;
}

static void disk_recovers_event(void *ctx, uint64_t host)
{
    struct chaos *c = ctx;
    c->calls->slow_disk(c->ctx, (uint32_t)host, 0);
}

static void fault_slow_disk(struct chaos *c, uint32_t host)
{
    chaos_trace(c, "%s has a slow disk", name(c, host));
    /* Up to what a second or two are to real hosts. */
    c->calls->slow_disk(c->ctx, host,
                        rng_below(c->rng, 8) ? units(c, 20, 300) : units(c, 300, 2000));
    sim_at(c->sim, sim_now(c->sim) + units(c, 50, 600), disk_recovers_event, c, host);
    c->faults++;
}

static void fault_fail_disk(struct chaos *c, uint32_t host)
{
    chaos_trace(c, "the disk of %s fails once", name(c, host));
    c->calls->fail_disk(c->ctx, host, 1);
    c->faults++;
}

/* Something of what it has is not as it was written, when it is read next. */
static void fault_flip(struct chaos *c, uint32_t host)
{
    if (!c->calls->may_lose_disk(c->ctx, host))
        return;
    bool power = rng_below(c->rng, 2);
    if (!power && c->calls->is_up(c->ctx, host))
        crash(c, host, rng_below(c->rng, 2) && !c->links);
    else
        chaos_power_cut(c, host);
    uint32_t flipped = c->calls->flip_disk(c->ctx, host, (uint32_t)rng_range(c->rng, 1, FLIPS_MAX));
    chaos_trace(c, "%u sectors of %s are flipped", flipped, name(c, host));
    c->sectors_flipped += flipped;
    plan_restart(c, host, units(c, 1, 60));
}

/* A host's disk is exchanged for a blank one. */
static void fault_lose_disk(struct chaos *c, uint32_t host)
{
    if (!c->calls->may_lose_disk(c->ctx, host))
        return;
    chaos_trace(c, "%s loses its disk", name(c, host));
    chaos_forget(c, host);
    c->calls->lose_disk(c->ctx, host);
    c->disks_lost++;
    plan_restart(c, host, units(c, 1, 60));
    c->faults++;
}

static void disk_has_room_event(void *ctx, uint64_t host)
{
    struct chaos *c = ctx;
    c->calls->fill_disk(c->ctx, (uint32_t)host, false);
}

/* Something else fills a disk, or those of all: there is no room for a snapshot or for more of the journal than there is. */
static void fault_fill_disk(struct chaos *c, bool all)
{
    uint32_t one = leader_or_any(c);
    for (uint32_t host = 0; host < c->hosts; host++) {
        if (!all && host != one)
            continue;
        chaos_trace(c, "the disk of %s is full", name(c, host));
        c->calls->fill_disk(c->ctx, host, true);
        sim_at(c->sim, sim_now(c->sim) + units(c, 50, 1500), disk_has_room_event, c, host);
        c->disks_filled++;
    }
    c->faults++;
}

static void fault_disk(struct chaos *c)
{
    static void (*const faults[])(struct chaos *, uint32_t) = {fault_slow_disk, fault_fail_disk,
                                                               fault_lose_disk, fault_flip};
    if (c->cramped && rng_below(c->rng, 4) != 0)
        fault_fill_disk(c, rng_below(c->rng, 3) != 0);
    else
        faults[rng_below(c->rng, 4)](c, leader_or_any(c));
}

/* One host loses power, or some, or all do, at the same moment; each comes back when it does. */
static void fault_power(struct chaos *c)
{
    uint64_t how = rng_below(c->rng, 3);
    uint32_t one = leader_or_any(c);
    for (uint32_t host = 0; host < c->hosts; host++) {
        if (how == 0 ? host != one : how == 1 && rng_below(c->rng, 2))
            continue;
        chaos_power_cut(c, host);
        /* Power that goes once may go again before all is read. */
        if (rng_below(c->rng, 8) == 0)
            c->calls->fail_disk(c->ctx, host, (uint32_t)rng_range(c->rng, 1, OPENING_ORDERS));
        plan_restart(c, host, rng_below(c->rng, 3) ? units(c, 1, 20) : units(c, 20, 300));
    }
    c->faults++;
}

/* ---- cuts ---- */

static void heal_event(void *ctx, uint64_t arg)
{
    struct chaos *c = ctx;
    if (c->calm)
        return;
    if (c->at_hand)
        sim_slow(c->sim, (uint32_t)(arg >> 32), (uint32_t)arg, 0);
    else
        sim_cut(c->sim, (uint32_t)(arg >> 32), (uint32_t)arg, false);
}

static void cut(struct chaos *c, uint32_t from, uint32_t to, uint64_t length)
{
    if (c->at_hand)
        sim_slow(c->sim, from, to, rng_below(c->rng, length));
    else
        sim_cut(c->sim, from, to, true);
    sim_at(c->sim, sim_now(c->sim) + length, heal_event, c, (uint64_t)from << 32 | to);
}

void chaos_part(struct chaos *c, uint32_t a, uint32_t b, uint64_t length)
{
    chaos_trace(c, "cut %s <-> %s for %llu us", name(c, a), name(c, b),
                (unsigned long long)(length / 1000));
    cut(c, a, b, length);
    cut(c, b, a, length);
    c->faults++;
}

static void fault_cut(struct chaos *c)
{
    uint32_t a = any_node(c);
    uint32_t b = any_node(c);
    uint64_t length = units(c, 10, 400);
    uint64_t how = rng_below(c->rng, 3);
    chaos_trace(c, "cut %s %s %s for %llu us", name(c, a),
                how == 0   ? "->"
                : how == 1 ? "<->"
                           : "<-> all,",
                name(c, b), (unsigned long long)(length / 1000));
    if (how == 2) {
        for (uint32_t i = 0; i < c->hosts + c->clients; i++)
            if (i != a) {
                cut(c, a, i, length);
                cut(c, i, a, length);
            }
    } else if (a != b) {
        cut(c, a, b, length);
        if (how == 1)
            cut(c, b, a, length);
    }
    c->faults++;
}

/* A leader whose writes reach nobody but itself, or one. */
void chaos_isolate(struct chaos *c, uint32_t host, uint64_t length)
{
    uint32_t spared = (uint32_t)rng_below(c->rng, 2 * c->hosts);
    chaos_trace(c, "%s reaches nobody%s for %llu us", name(c, host),
                spared < c->hosts ? " but one" : "", (unsigned long long)(length / 1000));
    for (uint32_t q = 0; q < c->hosts; q++)
        if (q != host && q != spared)
            cut(c, host, q, length);
    c->faults++;
}

static void fault_isolate(struct chaos *c, uint32_t host)
{
    chaos_isolate(c, host, units(c, 20, 250));
}

/* A connection breaks in the middle of whatever is under way on it, or all of a host's do. */
static void fault_break(struct chaos *c, uint32_t host)
{
    uint32_t other = rng_below(c->rng, 4) ? (uint32_t)rng_below(c->rng, c->hosts) : any_node(c);
    bool all = rng_below(c->rng, 4) == 0;
    chaos_trace(c, "%s loses its connection%s%s", name(c, host), all ? "s" : " to ",
                all ? "" : name(c, other));
    for (uint32_t i = 0; i < c->hosts + c->clients; i++)
        if (i != host && (all || i == other))
            sim_break(c->sim, host, i);
    c->faults++;
}

/* ---- pauses and lies ---- */

static void unpause_event(void *ctx, uint64_t node)
{
    struct chaos *c = ctx;
    if (c->paused_until[node] <= sim_now(c->sim)) /* or it is stopped, or for longer */
        sim_node_pause(c->sim, (uint32_t)node, false);
}

void chaos_busy(struct chaos *c, uint32_t node, uint64_t ns)
{
    uint64_t until = sim_now(c->sim) + ns;
    if (c->paused_until[node] >= until)
        return;
    c->paused_until[node] = until;
    sim_node_pause(c->sim, node, true);
    sim_at(c->sim, until, unpause_event, c, node);
}

void chaos_stop(struct chaos *c, uint32_t node)
{
    chaos_trace(c, "stop %s", name(c, node));
    c->paused_until[node] = CHAOS_STOPPED;
    sim_node_pause(c->sim, node, true);
}

void chaos_continue(struct chaos *c, uint32_t node)
{
    chaos_trace(c, "continue %s", name(c, node));
    c->paused_until[node] = 0;
    sim_node_pause(c->sim, node, false);
}

void chaos_pause(struct chaos *c, uint32_t node, uint64_t length)
{
    if (c->paused_until[node] == CHAOS_STOPPED)
        return;
    uint64_t until = sim_now(c->sim) + length;
    chaos_trace(c, "pause %s until %llu us", name(c, node), (unsigned long long)(until / 1000));
    c->paused_until[node] = until;
    sim_node_pause(c->sim, node, true);
    sim_at(c->sim, until, unpause_event, c, node);
    c->faults++;
}

static void fault_pause(struct chaos *c, uint32_t node)
{
    if (c->paused_until[node] != CHAOS_STOPPED)
        chaos_pause(c, node, rng_below(c->rng, 4) ? units(c, 2, 120) : units(c, 120, 900));
}

static void truth_event(void *ctx, uint64_t arg)
{
    struct chaos *c = ctx;
    if (!c->calm)
        sim_oracle_lie(c->sim, (uint32_t)(arg >> 32), (uint32_t)arg, SIM_TRUTH);
}

void chaos_lie(struct chaos *c, uint32_t asker, uint32_t about, uint64_t length)
{
    sim_oracle_lie(c->sim, asker, about, SIM_SAYS_DEAD);
    sim_at(c->sim, sim_now(c->sim) + length, truth_event, c, (uint64_t)asker << 32 | about);
}

void chaos_rumour(struct chaos *c, uint32_t about, uint64_t length)
{
    chaos_trace(c, "all are told that %s is dead", name(c, about));
    for (uint32_t asker = 0; asker < c->hosts; asker++)
        if (asker != about)
            chaos_lie(c, asker, about, length);
    c->faults++;
}

static void fault_lie(struct chaos *c)
{
    uint32_t asker = (uint32_t)rng_below(c->rng, c->hosts);
    uint32_t about = leader_or_any(c);
    if (asker == about)
        return;
    bool dead = rng_below(c->rng, 3) != 0;
    chaos_trace(c, "%s is told that %s is %s", name(c, asker), name(c, about),
                dead ? "dead" : "alive");
    sim_oracle_lie(c->sim, asker, about, dead ? SIM_SAYS_DEAD : SIM_SAYS_ALIVE);
    sim_at(c->sim, sim_now(c->sim) + units(c, 10, 300), truth_event, c,
           (uint64_t)asker << 32 | about);
    c->faults++;
}

/* ---- when ---- */

/* A host that leads nothing crashes, and returns. */
static void fault_return(struct chaos *c)
{
    uint32_t first = (uint32_t)rng_below(c->rng, c->hosts);
    for (uint32_t i = 0; i < c->hosts; i++) {
        uint32_t host = (first + i) % c->hosts;
        if (c->calls->is_up(c->ctx, host) && !c->calls->leads(c->ctx, host)) {
            fault_crash(c, host);
            return;
        }
    }
}

static void fault_event(void *ctx, uint64_t begun)
{
    struct chaos *c = ctx;
    if (c->calm || c->begun != begun)
        return;
    if (c->returns) {
        fault_return(c);
        sim_at(c->sim, sim_now(c->sim) + rng_range(c->rng, 1, 2 * c->every_ns), fault_event, c,
               begun);
        return;
    }
    uint64_t pick = rng_below(c->rng, 100);
    if (c->duels && pick < 90)
        pick = 66 + pick % 32; /* no crash: leaders that depose each other half-way */
    if (c->durable && rng_below(c->rng, 8) == 0)
        fault_disk(c);
    else if (c->durable && rng_below(c->rng, 5) == 0)
        fault_power(c);
    else if (c->links && rng_below(c->rng, 3) == 0)
        fault_break(c, leader_or_any(c));
    else if (pick < 27)
        fault_crash(c, leader_or_any(c));
    else if (pick < 50)
        fault_pause(c, rng_below(c->rng, 5) ? leader_or_any(c) : any_node(c));
    else if (pick < 66)
        fault_cut(c);
    else if (pick < 82 || (pick < 95 && c->truthful))
        fault_isolate(c, leader_or_any(c));
    else if (pick < 95)
        fault_lie(c);
    else if (c->clients > 0)
        c->calls->client_crash(c->ctx, (uint32_t)rng_below(c->rng, c->clients));
    sim_at(c->sim, sim_now(c->sim) + rng_range(c->rng, 1, 2 * c->every_ns), fault_event, c, begun);
}

static void ambush_event(void *ctx, uint64_t arg)
{
    struct chaos *c = ctx;
    uint32_t host = (uint32_t)(arg & 0xff);
    if (c->calm || c->life[host] != arg >> 8 || !c->calls->is_up(c->ctx, host))
        return;
    uint64_t pick = rng_below(c->rng, 4);
    if (c->durable && rng_below(c->rng, 3) == 0)
        fault_power(c);
    else if (c->links && rng_below(c->rng, 3) == 0)
        fault_break(c, host);
    else if (pick < (c->duels ? 1 : 2))
        fault_crash(c, host);
    else if (pick < 3)
        fault_isolate(c, host);
    else
        fault_pause(c, host);
}

void chaos_ambush(struct chaos *c, uint32_t host)
{
    if (c->returns)
        return;
    uint64_t spared = c->duels ? 2 : 8;
    if (c->every_ns != 0 && !c->calm && rng_below(c->rng, spared) == 0)
        sim_at(c->sim, sim_now(c->sim) + rng_below(c->rng, (c->duels ? 3 : 6) * c->unit_ns),
               ambush_event, c, c->life[host] << 8 | host);
}

void chaos_draw(struct chaos *c)
{
    c->every_ns = rng_below(c->rng, 10) == 0 ? 0 : units(c, 20, 250);
    c->duels = c->every_ns != 0 && rng_below(c->rng, 4) == 0;
    if (c->returns) {
        c->every_ns = units(c, 100, 300);
        c->duels = false;
    }
}

void chaos_begin(struct chaos *c)
{
    c->begun++;
    c->calm = false;
    memset(c->gone, 0, sizeof(c->gone));
    uint64_t first_ns = c->returns ? SETTLED_UNITS * c->unit_ns : 0;
    if (c->every_ns != 0)
        sim_at(c->sim, sim_now(c->sim) + first_ns + rng_range(c->rng, 1, c->every_ns), fault_event,
               c, c->begun);
}

void chaos_end(struct chaos *c, bool (*spare)(void *ctx, uint32_t host))
{
    chaos_trace(c, "calm");
    c->calm = true;
    sim_calm(c->sim);
    for (uint32_t node = 0; node < c->hosts + c->clients; node++) {
        c->paused_until[node] = 0;
        sim_node_pause(c->sim, node, false);
    }
    for (uint32_t host = 0; host < c->hosts; host++) {
        if (c->cramped)
            c->calls->fill_disk(c->ctx, host, false);
        if (c->calls->is_up(c->ctx, host))
            continue;
        c->gone[host] = spare && spare(c->ctx, host) && rng_below(c->rng, 3) == 0;
        if (c->gone[host])
            chaos_trace(c, "%s stays down", name(c, host));
        else
            c->calls->start(c->ctx, host);
    }
}
