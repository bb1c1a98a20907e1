#include "sim/fleet.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

enum {
    STEP_NS_MIN = 100,
    CLIENT_SLOWER = 4,       /* than hosts, by so much at most */
    HALF_ROUNDS = 40,        /* in so many there are two of which only one half is made */
    DEATH_SEEN_NS = 1000000, /* by then everybody has heard of a death */
    PIECES_PER_ROUND = 2,    /* of states */
    SETTLED_UNITS = 300,     /* by then the first leaders are found */
    FENCE_UNITS = 40,        /* so long a host stands still between two operations, at most */
    LATE_UNITS = 20,         /* a write that is on its way for longer waits behind others */
};

static bool is_client(const struct fleet_node *n)
{
    return n->node >= n->fleet->hosts;
}

/* ---- when to step ---- */

static void step_event(void *ctx, uint64_t step);

static void plan(struct fleet_node *n, uint64_t when_ns)
{
    struct fleet *f = n->fleet;
    n->step++;
    n->due_ns = chaos_not_before(&f->chaos, n->node, when_ns);
    if (n->due_ns != UINT64_MAX)
        sim_at(f->sim, n->due_ns, step_event, n, n->step);
}

static void plan_soon(struct fleet_node *n)
{
    struct fleet *f = n->fleet;
    uint64_t slower = is_client(n) ? CLIENT_SLOWER : 1;
    uint64_t least = is_client(n) ? 2 * STEP_NS_MIN : STEP_NS_MIN;
    plan(n, sim_now(f->sim) + rng_range(&f->rng, least, slower * f->step_ns_max));
}

void fleet_wake(struct fleet_node *n)
{
    const struct fleet *f = n->fleet;
    bool soon = n->due_ns <= sim_now(f->sim) + CLIENT_SLOWER * f->step_ns_max;
    if (n->mem != NULL && !soon && !n->stopped)
        plan_soon(n);
}

static void touched(void *ctx, uint32_t node)
{
    struct fleet *f = ctx;
    fleet_wake(&f->node[node]);
}

/* On shared memory a death wakes all hosts. */
static void death_event(void *ctx, uint64_t arg)
{
    struct fleet *f = ctx;
    (void)arg;
    for (uint32_t h = 0; h < f->hosts; h++)
        fleet_wake(&f->node[h]);
}

/* After a step that did so much work, and has to be followed by another at next_ns. */
static void plan_next(struct fleet_node *n, int work, uint64_t next_ns)
{
    const struct fleet *f = n->fleet;
    uint64_t soonest = sim_now(f->sim) + f->unit_ns;
    if (!f->sleepy || work > 0)
        plan_soon(n);
    else
        plan(n, next_ns > soonest ? next_ns : soonest);
}

/* ---- lives ---- */

static int host_open(struct fleet_node *n, struct err *e)
{
    struct fleet *f = n->fleet;
    if (f->calls->host_born)
        f->calls->host_born(n);
    int opened = f->durable ? fleet_disk_open(n, e) : 0;
    if (opened != 0)
        return opened;
    opened = fleet_memories_open(n, e);
    if (opened != 0)
        return opened;
    for (uint32_t i = 0; i < n->members; i++) {
        n->member[i].shown = UNIT_FOLLOWER;
        int rc = f->calls->open(&n->member[i], rng_u64(&f->rng), e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int fleet_start(struct fleet_node *n, struct err *e)
{
    struct fleet *f = n->fleet;
    CHECK(n->mem == NULL);
    n->mem = sim_node_start(f->sim, n->node);
    int rc = is_client(n) ? f->calls->client_open(n, e) : host_open(n, e);
    if (rc != 0) {
        fleet_crash(n, true);
        return rc;
    }
    chaos_trace(&f->chaos, "%s starts, life %u", n->name, n->mem->life);
    plan_soon(n);
    return 0;
}

static void member_close(struct fleet_member *m)
{
    struct unit_status s = unit_status(&m->unit);
    m->terms += s.count.terms;
    m->snapshots += s.count.snapshots_loaded;
    unit_close(&m->unit);
}

static void end_life(struct fleet_node *n)
{
    const struct fleet_calls *calls = n->fleet->calls;
    CHECK(n->fleet->stepping != n);
    for (uint32_t i = 0; i < n->members; i++)
        if (n->fleet->leads[n->member[i].group] == &n->member[i])
            n->fleet->leads[n->member[i].group] = NULL;
    if (is_client(n))
        calls->client_close(n);
    for (uint32_t i = 0; i < n->members; i++)
        if (n->member[i].unit.of)
            member_close(&n->member[i]);
    n->disk_hurt = n->disk ? !fleet_disk_well(n) : n->disk_hurt;
    fleet_memories_close(n);
    fleet_disk_die(n);
    if (!is_client(n) && calls->host_died)
        calls->host_died(n);
    n->mem = NULL;
    n->step++;
    n->due_ns = UINT64_MAX;
    n->stopped = false;
}

void fleet_crash(struct fleet_node *n, bool keep_memory)
{
    struct fleet *f = n->fleet;
    end_life(n);
    sim_node_crash(f->sim, n->node, keep_memory);
    if (f->sleepy)
        sim_at(f->sim, sim_now(f->sim) + DEATH_SEEN_NS, death_event, f, 0);
}

/* ---- stepping ---- */

/* A replica begins to lead: was there nobody who had done so for a while? */
static void check_kept(struct fleet_member *m)
{
    struct fleet *f = m->host->fleet;
    const struct fleet_member *before = f->leads[m->group];
    uint64_t since_ns = f->leads_ns[m->group];
    f->leads[m->group] = m;
    f->leads_ns[m->group] = sim_now(f->sim);
    /* One that resigned for want of a commit, and leads again, is the group's leader still. */
    if (!f->returns || before == NULL || before == m ||
        sim_now(f->sim) - since_ns < SETTLED_UNITS * f->unit_ns)
        return;
    char text[3 * FLEET_NAME_BYTES];
    snprintf(text, sizeof(text), "%s begins to lead though %s, who led before, lives", m->name,
             before->name);
    f->calls->violated(m->host, "leader kept", text);
}

static bool is_late(const struct fleet_member *from, uint32_t to)
{
    const struct fleet *f = from->host->fleet;
    return sim_waited_ns(f->sim, from->host->node, to) > LATE_UNITS * f->unit_ns;
}

static bool is_prompt(const struct fleet *f, uint32_t host, const void *leader)
{
    const struct fleet_member *m = leader;
    return &f->node[host] == m->host || !is_late(m, host);
}

/* A leader has resigned, and nobody made it: it could not commit. That is excused if a quorum was out of its reach: on a
 * way that carries less than the groups of a host send, what one of them sends waits behind the rest, for longer than a
 * leader may take. Where its writes land in time, it had no reason. */
static void check_resigned(struct fleet_member *m)
{
    struct fleet *f = m->host->fleet;
    uint32_t prompt = fleet_voters_where(f, m->group, is_prompt, m);
    /* With disks it is excused anyway: who is back and prompt may still have to keep what it missed. */
    if (f->leads[m->group] == m && (prompt <= fleet_voters(f, m->group) / 2 || f->durable))
        f->leads[m->group] = NULL;
}

/* A replica tries for the place. It may if it cannot hear the leader for the same reason. */
static void check_candidate(struct fleet_member *m)
{
    struct fleet *f = m->host->fleet;
    const struct fleet_member *leader = f->leads[m->group];
    if (leader != NULL && leader != m && is_late(leader, m->host->node))
        f->leads[m->group] = NULL;
}

static void show_state(struct fleet_member *m)
{
    struct fleet *f = m->host->fleet;
    struct unit_status s = unit_status(&m->unit);
    if (s.role == m->shown)
        return;
    chaos_trace(&f->chaos, "%s is %s, ballot %llu, applied %llu, commit %llu, tail %llu", m->name,
                unit_role_name(s.role), (unsigned long long)s.epoch, (unsigned long long)s.applied,
                (unsigned long long)s.committed, (unsigned long long)s.written);
    sim_note(f->sim, hash_mix(s.epoch, s.role));
    if (m->shown == UNIT_LEADER && s.promised % f->group[m->group].replicas == m->rank)
        check_resigned(m);
    if (s.role == UNIT_CANDIDATE)
        check_candidate(m);
    m->shown = s.role;
    f->moves++;
    if (s.role == UNIT_LEADER)
        check_kept(m);
    if (s.role == UNIT_SYNC || s.role == UNIT_LEADER)
        chaos_ambush(&f->chaos, m->host->node);
}

static void member_violated(const struct fleet_member *m, const char *property, const char *what)
{
    char text[FLEET_NAME_BYTES + ERR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s: %s", m->name, what);
    m->host->fleet->calls->violated(m->host, property, text);
}

static void self_check(struct fleet_node *n)
{
    for (uint32_t i = 0; i < n->members; i++) {
        const char *broken = n->member[i].unit.broken;
        if (broken) {
            member_violated(&n->member[i], "self-check", broken);
            return;
        }
    }
}

/* After a half of its round. */
static void check_rules(const struct fleet_member *m)
{
    const char *broken = unit_check(&m->unit);
    if (broken)
        member_violated(m, "rule", broken);
}

/* Clients that have come are met, now or later. */
static int meet_clients(struct fleet_node *n)
{
    struct mem_lane_spec offer;
    struct err e = {""};
    int met = 0;
    for (; mem_offer(n->mem, &offer); met++)
        for (uint32_t i = 0; i < n->members; i++) {
            struct unit *u = &n->member[i].unit;
            if (u->ops->offer && u->region == offer.region && u->ops->offer(u, &offer, &e) != 0)
                n->fleet->calls->violated(n, "opens", e.text);
        }
    return met;
}

/* One round of all replicas. Now and then only half of it is made before time passes. */
static int round_of(struct fleet_node *n, uint64_t now, uint64_t *next_ns)
{
    struct fleet *f = n->fleet;
    uint64_t spent_ns = 0;
    n->budget.pieces = PIECES_PER_ROUND;
    uint64_t half = f->chaos.calm ? HALF_ROUNDS : rng_below(&f->rng, HALF_ROUNDS);
    int work = half < 2;
    for (uint32_t i = 0; half != 0 && i < n->members; i++) {
        work += unit_post(&n->member[i].unit, now);
        check_rules(&n->member[i]);
    }
    if (half != 1)
        work += mem_poll(n->mem);
    if (half != 1)
        work += fleet_memories_step(n, now);
    if (half != 1 && n->disk)
        work += fleet_disk_round(n, now);
    if (half != 1 && n->mem->offered > 0 && (f->chaos.calm || rng_below(&f->rng, 3) == 0))
        work += meet_clients(n);
    for (uint32_t i = 0; i < n->members; i++) {
        struct fleet_member *m = &n->member[i];
        if (half != 1)
            work += unit_settle(&m->unit, now);
        check_rules(m);
        show_state(m);
        if (f->calls->stepped)
            f->calls->stepped(m);
        spent_ns += f->calls->spent_ns ? f->calls->spent_ns(m) : 0;
        uint64_t next = unit_next_ns(&m->unit);
        *next_ns = next < *next_ns ? next : *next_ns;
    }
    if (n->disk) {
        uint64_t next = fleet_disk_next_ns(n);
        *next_ns = next < *next_ns ? next : *next_ns;
    }
    if (spent_ns > 0)
        chaos_busy(&f->chaos, n->node, spent_ns);
    return work;
}

static void round_in_fiber(void *ctx)
{
    struct fleet_node *n = ctx;
    n->work = round_of(n, n->round_ns, &n->next_ns);
}

static void continue_event(void *ctx, uint64_t step);

/* A round has ended, or was stopped in the middle. */
static void after_round(struct fleet_node *n, bool done)
{
    struct fleet *f = n->fleet;
    f->stepping = NULL;
    if (done && n->disk && disk_failure(n->disk)) {
        /* Its process ends, and another one begins. */
        chaos_crash(&f->chaos, n->node, !f->chaos.links, rng_range(&f->rng, 1, 100) * f->unit_ns);
        return;
    }
    if (done) {
        self_check(n);
        if (n->due_ns == UINT64_MAX)
            plan_next(n, n->work, n->next_ns);
        return;
    }
    n->stopped = true;
    n->step++; /* nothing steps it meanwhile */
    n->due_ns = UINT64_MAX;
    enum aim_verdict verdict = f->aim.verdict;
    f->aim.verdict = AIM_NONE;
    if (verdict == AIM_KILL) {
        chaos_crash(&f->chaos, n->node, f->aim.keep_memory,
                    rng_range(&f->aim.rng, 1, 100) * f->unit_ns);
    } else if (verdict == AIM_POWER) {
        chaos_power_out(&f->chaos, n->node, f->aim.stop_ns);
    } else {
        sim_node_pause(f->sim, n->node, true);
        f->chaos.faults++;
        sim_at(f->sim, sim_now(f->sim) + f->aim.stop_ns, continue_event, n, n->step);
    }
}

static void continue_event(void *ctx, uint64_t step)
{
    struct fleet_node *n = ctx;
    if (n->step != step || !n->stopped)
        return;
    n->stopped = false;
    sim_node_pause(n->fleet->sim, n->node, false);
    n->fleet->stepping = n;
    after_round(n, fiber_continue(&n->fiber));
}

void fleet_calm(struct fleet *f)
{
    for (uint32_t h = 0; h < f->hosts; h++)
        if (f->node[h].stopped)
            sim_at(f->sim, sim_now(f->sim), continue_event, &f->node[h], f->node[h].step);
}

/* What another does between what is before a fence and what is behind it. */
static void linger_at_fence(struct fleet_node *n)
{
    struct fleet *f = n->fleet;
    if (f->aim.on && f->fence_stop_in && !f->chaos.calm &&
        rng_below(&f->aim.rng, f->fence_stop_in) == 0)
        fleet_linger(n, rng_range(&f->aim.rng, 1, FENCE_UNITS * f->unit_ns));
}

/* The host that is stepped has made a memory operation, perhaps the one that it was waited for. */
static void called(void *ctx, uint32_t node, const struct sim_call *call)
{
    struct fleet *f = ctx;
    struct fleet_node *n = &f->node[node];
    if (f->stepping == n && !is_client(n) && aim_called(&f->aim, node, call))
        fiber_stop(&n->fiber);
    else if (call->kind == SIM_CALL_FENCE)
        linger_at_fence(n);
}

void fleet_linger(struct fleet_node *n, uint64_t ns)
{
    struct fleet *f = n->fleet;
    if (!f->aim.on || f->stepping != n)
        return;
    f->aim.verdict = AIM_STOP;
    f->aim.stop_ns = ns;
    fiber_stop(&n->fiber);
}

static void begin_round(struct fleet_node *n, uint64_t now)
{
    n->round_ns = now;
    n->next_ns = UINT64_MAX;
    bool done = true;
    if (n->fleet->aim.on)
        done = fiber_start(&n->fiber, round_in_fiber, n);
    else
        round_in_fiber(n);
    after_round(n, done);
}

static void step_event(void *ctx, uint64_t step)
{
    struct fleet_node *n = ctx;
    struct fleet *f = n->fleet;
    if (n->step != step)
        return;
    uint64_t now = sim_now(f->sim);
    n->due_ns = UINT64_MAX;
    if (chaos_not_before(&f->chaos, n->node, now) > now) {
        plan_soon(n);
        return;
    }
    f->stepping = n;
    if (!is_client(n)) {
        begin_round(n, now);
        return;
    }
    uint64_t next_ns = f->calls->client_step(n, now);
    f->stepping = NULL;
    if (n->due_ns == UINT64_MAX)
        plan_next(n, 0, next_ns);
}

/* ---- looking ---- */

struct fleet_member *fleet_member(const struct fleet *f, uint32_t host, uint16_t group)
{
    struct fleet_member *m = f->node[host].member;
    uint32_t from = 0, to = f->node[host].members;
    while (from < to) {
        uint32_t middle = (from + to) / 2;
        if (m[middle].group < group)
            from = middle + 1;
        else
            to = middle;
    }
    return from < f->node[host].members && m[from].group == group ? &m[from] : NULL;
}

struct fleet_member *fleet_leader(const struct fleet *f, uint16_t group)
{
    struct fleet_member *best = NULL;
    uint64_t ballot = 0;
    for (uint32_t q = 0; q < f->group[group].replicas; q++) {
        struct fleet_member *m = fleet_member(f, f->group[group].nodes[q], group);
        if (m->unit.of == NULL)
            continue;
        struct unit_status s = unit_status(&m->unit);
        if (s.role == UNIT_LEADER && s.epoch > ballot) {
            best = m;
            ballot = s.epoch;
        }
    }
    return best;
}

bool fleet_unfit(const struct fleet_member *m)
{
    if (m->unit.of == NULL)
        return true;
    struct unit_status s = unit_status(&m->unit);
    return s.behind || s.role == UNIT_JOINING;
}

bool fleet_spare(void *fleet, uint32_t host)
{
    const struct fleet *f = fleet;
    const struct fleet_node *n = &f->node[host];
    if (f->calls->spare)
        return f->calls->spare(n);
    return fleet_spares(f, host);
}

void fleet_describe(const struct fleet *f, uint64_t (*delivered)(const struct fleet_member *),
                    char *text, size_t bytes)
{
    for (uint32_t h = 0; h < f->hosts; h++)
        for (uint32_t i = 0; i < f->node[h].members; i++) {
            const struct fleet_member *m = &f->node[h].member[i];
            struct unit_status s = {0};
            if (m->unit.of)
                s = unit_status(&m->unit);
            size_t at = strlen(text);
            snprintf(text + at, bytes - at, " %s:%s/%llu", m->name,
                     m->unit.of == NULL ? "down"
                     : s.behind         ? "behind"
                                        : unit_role_name(s.role),
                     (unsigned long long)delivered(m));
        }
    for (uint32_t h = 0; h < f->hosts; h++)
        for (uint32_t i = 0; i < f->node[h].memories; i++) {
            struct fleet_node *n = &f->node[h];
            bool closed = n->mem && log_memory_is_closed(&n->memory[i].of);
            size_t at = strlen(text);
            snprintf(text + at, bytes - at, " %s:%s", n->name,
                     n->mem == NULL ? "down"
                     : closed       ? "closed"
                                    : "open");
        }
}

/* ---- what chaos asks and does ---- */

/* The group has a leader, and all its replicas take what that writes. */
static bool all_attached(const struct fleet *f, uint16_t group)
{
    const struct fleet_member *leader = fleet_leader(f, group);
    if (leader == NULL)
        return false;
    struct unit_status s = unit_status(&leader->unit);
    return s.attached == f->group[group].replicas + f->group[group].memories;
}

static uint64_t applied_by(const struct fleet_member *m)
{
    struct unit_status s = unit_status(&m->unit);
    return s.applied;
}

/* Is there another replica of the group that has as much state? */
static bool another_fit(const struct fleet *f, const struct fleet_member *m)
{
    for (uint32_t q = 0; q < f->group[m->group].replicas; q++) {
        const struct fleet_member *o = fleet_member(f, f->group[m->group].nodes[q], m->group);
        if (o != m && !fleet_unfit(o) && applied_by(o) >= applied_by(m))
            return true;
    }
    return false;
}

/* Where memory outlives its process, any number of processes may be dead at once as long as one of each group has all of
 * its state: the memory of the dead still promises and is written to. */
static bool may_kill(const struct fleet *f, const struct fleet_node *n)
{
    for (uint32_t i = 0; i < n->members; i++)
        if (!fleet_unfit(&n->member[i]) && !another_fit(f, &n->member[i]))
            return false;
    return true;
}

static bool may_crash(void *ctx, uint32_t host, bool keep_memory)
{
    const struct fleet *f = ctx;
    const struct fleet_node *n = &f->node[host];
    if (f->calls->may_crash)
        return f->calls->may_crash(n, keep_memory);
    if (f->durable && !f->returns)
        return true; /* its disk has all that counts */
    if (keep_memory && f->aim.on && !f->chaos.links)
        return may_kill(f, n);
    for (uint32_t i = 0; f->returns && i < n->members; i++)
        if (!all_attached(f, n->member[i].group))
            return false;
    return fleet_spares(f, host);
}

static void crash(void *ctx, uint32_t host, bool keep_memory)
{
    struct fleet *f = ctx;
    fleet_crash(&f->node[host], keep_memory);
}

/* It counts as one that its group has lost: its disk is hurt, or it has given up its state for one that is yet to come. */
static bool is_lost(const struct fleet_member *m)
{
    return !fleet_disk_well(m->host) || (m->unit.of != NULL && fleet_unfit(m));
}

static bool may_lose_disk_of(const struct fleet *f, const struct fleet_member *m)
{
    const struct mcast_group *g = &f->group[m->group];
    uint32_t lost = 1;
    for (uint32_t q = 0; q < g->replicas; q++)
        lost += g->nodes[q] != m->host->node && is_lost(fleet_member(f, g->nodes[q], m->group));
    return lost <= (g->replicas - 1) / 2;
}

/* A disk may be lost or damaged if a quorum of each group has what counts. */
static bool may_lose_disk(void *ctx, uint32_t host)
{
    const struct fleet *f = ctx;
    const struct fleet_node *n = &f->node[host];
    if (f->returns)
        return false;
    if (f->calls->may_lose_disk)
        return f->calls->may_lose_disk(n);
    for (uint32_t i = 0; i < n->members; i++)
        if (f->group[n->member[i].group].memories == 0 && !may_lose_disk_of(f, &n->member[i]))
            return false;
    for (uint16_t g = 0; g < f->groups; g++)
        if (f->group[g].memories > 0 && !fleet_group_spares(f, g, host))
            return false;
    return true;
}

static void fail_disk(void *ctx, uint32_t host, uint32_t orders)
{
    const struct fleet *f = ctx;
    disk_sim_fail_later(f->node[host].platters, orders);
}

static uint32_t flip_disk(void *ctx, uint32_t host, uint32_t sectors)
{
    struct fleet *f = ctx;
    return fleet_disk_flip(&f->node[host], sectors);
}

static void slow_disk(void *ctx, uint32_t host, uint64_t flush_ns)
{
    const struct fleet *f = ctx;
    disk_sim_slow(f->node[host].platters, flush_ns);
}

static void fill_disk(void *ctx, uint32_t host, bool full)
{
    const struct fleet *f = ctx;
    struct disk_sim *platters = f->node[host].platters;
    disk_sim_limit(platters, full ? disk_sim_bytes(platters) : 0);
}

static void lose_disk(void *ctx, uint32_t host)
{
    struct fleet *f = ctx;
    fleet_disk_lose(&f->node[host]);
    if (f->calls->disk_lost)
        f->calls->disk_lost(&f->node[host]);
}

static void power_cut(void *ctx, uint32_t host)
{
    struct fleet *f = ctx;
    fleet_power_cut(&f->node[host]);
}

static void start(void *ctx, uint32_t host)
{
    struct fleet *f = ctx;
    struct err e = {""};
    int rc = fleet_start(&f->node[host], &e);
    if (rc != 0 && f->durable) { /* a disk fails once, and perhaps because its power does */
        if (!f->returns && rng_below(&f->rng, 2))
            chaos_power_cut(&f->chaos, host);
        fill_disk(f, host, false); /* or it is full, and somebody makes room */
        rc = fleet_start(&f->node[host], &e);
    }
    if (rc != 0)
        f->calls->violated(&f->node[host], "opens", e.text);
}

static bool is_up(void *ctx, uint32_t host)
{
    const struct fleet *f = ctx;
    return f->node[host].mem != NULL;
}

static bool leads(void *ctx, uint32_t host)
{
    const struct fleet *f = ctx;
    const struct fleet_node *n = &f->node[host];
    for (uint32_t i = 0; i < n->members; i++) {
        struct unit_status s = unit_status(&n->member[i].unit);
        if (s.epoch != 0)
            return true;
    }
    return false;
}

void fleet_client_crash(struct fleet_node *n)
{
    struct fleet *f = n->fleet;
    if (f->clients == 1)
        return;
    chaos_trace(&f->chaos, "%s dies", n->name);
    fleet_crash(n, true);
    f->chaos.faults++;
}

static void client_crash(void *ctx, uint32_t client)
{
    const struct fleet *f = ctx;
    if (f->calls->client_crash && fleet_client(f, client)->mem != NULL)
        f->calls->client_crash(fleet_client(f, client));
}

static const char *name(void *ctx, uint32_t node)
{
    const struct fleet *f = ctx;
    return f->node[node].name;
}

static const struct chaos_calls chaos_calls = {
    .may_crash = may_crash,
    .crash = crash,
    .power_cut = power_cut,
    .may_lose_disk = may_lose_disk,
    .lose_disk = lose_disk,
    .fail_disk = fail_disk,
    .flip_disk = flip_disk,
    .slow_disk = slow_disk,
    .fill_disk = fill_disk,
    .start = start,
    .is_up = is_up,
    .leads = leads,
    .client_crash = client_crash,
    .name = name,
};

/* ---- opening ---- */

static int node_init(struct fleet *f, uint32_t node, struct err *e)
{
    struct fleet_node *n = &f->node[node];
    *n = (struct fleet_node){.fleet = f, .node = node, .due_ns = UINT64_MAX};
    if (is_client(n)) {
        snprintf(n->name, sizeof(n->name), "client %u", node - f->hosts);
        return 0;
    }
    snprintf(n->name, sizeof(n->name), "h%u", node);
    n->member = calloc(f->groups, sizeof(*n->member));
    if (n->member == NULL)
        return err_set(e, ERR_NOMEM, "no memory for the replicas of %s", n->name);
    int rc = fleet_memories_init(n, e);
    if (rc != 0)
        return rc;
    for (uint16_t g = 0; g < f->groups; g++)
        for (uint32_t q = 0; q < f->group[g].replicas; q++)
            if (f->group[g].nodes[q] == node) {
                struct fleet_member *m = &n->member[n->members++];
                *m = (struct fleet_member){.host = n, .group = g, .rank = q};
                snprintf(m->name, sizeof(m->name), "h%u g%u", node, g);
            }
    return 0;
}

int fleet_open(struct fleet *f, const struct sim_options *options, struct err *e)
{
    struct sim_options so = *options;
    so.nodes_max = f->hosts + f->clients;
    so.clients_from = f->hosts;
    so.clients_forgotten = true;
    CHECK(f->hosts <= CHAOS_HOSTS_MAX && so.nodes_max <= CHAOS_NODES_MAX);
    f->sim = sim_open(&so, e);
    if (f->sim == NULL)
        return ERR_NOMEM;
    f->node = calloc(so.nodes_max, sizeof(*f->node));
    f->leads = calloc(f->groups, sizeof(*f->leads));
    f->leads_ns = calloc(f->groups, sizeof(*f->leads_ns));
    bool good = f->node && f->leads && f->leads_ns;
    int rc = good ? 0 : err_set(e, ERR_NOMEM, "no memory for %u nodes", so.nodes_max);
    for (uint32_t i = 0; rc == 0 && i < so.nodes_max; i++)
        rc = node_init(f, i, e);
    if (rc != 0) {
        fleet_free(f);
        return rc;
    }
    f->chaos = (struct chaos){
        .sim = f->sim,
        .rng = &f->rng,
        .trace = f->trace,
        .calls = &chaos_calls,
        .ctx = f,
        .hosts = f->hosts,
        .clients = f->clients,
        .unit_ns = f->unit_ns,
        .links = so.links.on,
        .returns = f->returns,
        .durable = f->durable,
        .cramped = f->cramped,
    };
    f->aim.chaos = &f->chaos;
    if (f->sleepy)
        sim_on_touch(f->sim, touched, f);
    sim_on_call(f->sim, called, f);
    return 0;
}

void fleet_close(struct fleet *f)
{
    for (uint32_t i = 0; f->node && i < f->hosts + f->clients; i++)
        if (f->node[i].mem)
            end_life(&f->node[i]);
}

void fleet_free(struct fleet *f)
{
    fleet_close(f);
    for (uint32_t h = 0; f->node && h < f->hosts; h++) {
        free(f->node[h].member);
        free(f->node[h].memory);
        if (f->node[h].platters)
            disk_sim_close(f->node[h].platters);
        fiber_free(&f->node[h].fiber);
    }
    free(f->node);
    free(f->leads);
    free(f->leads_ns);
    f->node = NULL;
    f->leads = NULL;
    f->leads_ns = NULL;
    sim_close(f->sim);
    f->sim = NULL;
}
