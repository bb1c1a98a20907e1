#include "host/host.h"

#include "base/clock.h"
#include "base/say.h"

#include <sched.h>

enum {
    ROUNDS_PER_YIELD = 64, /* idle rounds after which a spinning host lets others have the core */
    ACTIVE_FOR_MS = 20,    /* a group is active this long after its last work */
    CLIENTS_PER_ROUND = 16,
    SAY_EVERY_MS = 1000,
    MANY_UNITS = 64,
    PIECES_PER_ROUND = 4, /* of states, for all logs; */
    LONG_ROUND_MS = 4,    /* one after a round that took longer */
};

void host_init(struct host *h, const struct host_options *o)
{
    *h = (struct host){.opt = *o, .yield = {.mem = o->mem}};
    h->opt.spin_ns = o->spin_ns ? o->spin_ns : 50000;
    h->opt.active_ns = o->active_ns ? o->active_ns : 1000000;
    h->worked_ns = h->busy_ns = h->here_ns = clock_now_ns();
}

void host_add(struct host *h, struct unit u)
{
    CHECK(h->units < HOST_UNITS_MAX);
    h->unit[h->units++] = u;
    if (u.ops->offer && u.region < DST_GROUPS_MAX)
        h->unit_of[u.region] = (uint16_t)h->units;
}

/* Not more than once a second: what a client asks for is up to the client. */
static void say_not_served(struct host *h, const struct mem_lane_spec *offer, const char *why)
{
    if (h->said_ns && h->round_ns - h->said_ns < SAY_EVERY_MS * UINT64_C(1000000))
        return;
    h->said_ns = h->round_ns;
    say_event(&h->opt.say, SAY_EVENT_NOT_SERVED,
              "the client on node %u is not served in group %u: %s", offer->writer, offer->region,
              why);
}

/* The unit that clients name by that region; NULL: it is not here. */
static struct unit *unit_named(struct host *h, uint32_t region)
{
    if (region < DST_GROUPS_MAX)
        return h->unit_of[region] ? &h->unit[h->unit_of[region] - 1] : NULL;
    for (uint32_t i = 0; i < h->units; i++)
        if (h->unit[i].ops->offer && h->unit[i].region == region)
            return &h->unit[i];
    return NULL;
}

/* Opens what clients need that have come since. A few at a time: each takes system calls, and other clients
 * are waiting. */
static int meet_clients(struct host *h)
{
    struct mem_lane_spec offer;
    struct err e = {""};
    int met = 0;
    for (; met < CLIENTS_PER_ROUND && mem_offer(h->opt.mem, &offer); met++) {
        struct unit *u = unit_named(h, offer.region);
        int rc = u ? u->ops->offer(u, &offer, &e)
                   : err_set(&e, ERR_NOTFOUND, "there is no group %u here", offer.region);
        if (rc < 0)
            say_not_served(h, &offer, e.text);
    }
    return met;
}

/* The followers' turns are spread, so that no round has to carry them all. */
static bool has_turn(const struct host *h, uint32_t i, bool all)
{
    return all || h->unit[i].leads || (h->turn + i) % HOST_FOLLOW_EVERY == 0;
}

/* In a debug build, after each half of a round. */
static inline void check_unit(const struct unit *u)
{
#if TRAM_DEBUG_CHECKS
    const char *broken = unit_check(u);
    if (broken)
        check_failed(__FILE__, __LINE__, broken);
#else
    (void)u;
#endif
}

static int post_units(struct host *h, uint64_t now_ns, bool all)
{
    int work = 0;
    for (uint32_t i = 0; i < h->units; i++)
        if (has_turn(h, i, all)) {
            work += unit_post(&h->unit[i], now_ns);
            check_unit(&h->unit[i]);
        }
    return work;
}

static int poll_units(struct host *h, uint64_t now_ns, bool all)
{
    int work = 0;
    h->came = mem_poll(h->opt.mem);
    if (h->opt.mem->offered > 0)
        work += meet_clients(h);
    for (uint32_t i = 0; i < h->units; i++)
        if (has_turn(h, i, all)) {
            work += unit_settle(&h->unit[i], now_ns);
            check_unit(&h->unit[i]);
        }
    return work;
}

/* What has become durable counts in this round; what the round appends is written behind it. */
static int step_disk(struct host *h, uint64_t now_ns)
{
    return h->opt.disk ? disk_round(h->opt.disk, now_ns) : 0;
}

static bool is_active(const struct host *h)
{
    return h->round_ns - h->worked_ns < ACTIVE_FOR_MS * UINT64_C(1000000);
}

/* What comes while there is work is worth waiting for the rest of it. Else it is a heartbeat. */
static void note_work(struct host *h, int work)
{
    if (work > 0)
        h->worked_ns = h->round_ns;
    if (work > 0 || (h->came > 0 && is_active(h)))
        h->busy_ns = h->round_ns;
}

/* It goes round either way. Where writing is a store, a round begins with it, and the poll settles it at
 * once. Where it is sending, a round begins with what has come, and what that brings about leaves with it. */
static int round_of(struct host *h, uint64_t now_ns, bool all)
{
    int work = step_disk(h, now_ns);
    uint64_t since = now_ns - h->here_ns;
    h->budget.pieces = since > LONG_ROUND_MS * UINT64_C(1000000) ? 1 : PIECES_PER_ROUND;
    if (since > h->away_ns)
        h->away_ns = since;
    h->round_ns = h->here_ns = now_ns;
    if (h->opt.mem->remote) {
        work += poll_units(h, now_ns, all);
        work += post_units(h, now_ns, all);
        mem_flush(h->opt.mem);
    } else {
        work += post_units(h, now_ns, all);
        work += poll_units(h, now_ns, all);
    }
    work += step_disk(h, now_ns);
    h->turn++;
    note_work(h, work);
    return work + h->came;
}

int host_round(struct host *h, uint64_t now_ns)
{
    return round_of(h, now_ns, true);
}

int host_turn(struct host *h, uint64_t now_ns)
{
    /* With a few units there is nothing to save, and a follower has a death to notice. */
    return round_of(h, now_ns, h->units < HOST_FOLLOW_EVERY);
}

static uint64_t sleep_until(const struct host *h)
{
    uint64_t until = h->opt.disk ? disk_next_ns(h->opt.disk) : UINT64_MAX;
    for (uint32_t i = 0; i < h->units; i++) {
        uint64_t next = unit_next_ns(&h->unit[i]);
        until = next < until ? next : until;
    }
    /* With many groups there is a heartbeat due all the time: they go out together. */
    if (h->units >= MANY_UNITS && until < h->round_ns + h->opt.active_ns)
        until = h->round_ns + h->opt.active_ns;
    uint64_t soon = h->round_ns + h->opt.active_ns;
    return is_active(h) && soon < until ? soon : until;
}

/* What is worth spinning for. With a disk, nothing happens before a flush is over, which takes longer than waking up; who
 * follows is rung; and the threads that write need cores. */
static bool may_come_soon(const struct host *h)
{
    if (h->opt.disk == NULL)
        return true;
    for (uint32_t i = 0; i < h->units; i++)
        if (h->unit[i].leads)
            return !disk_is_writing(h->opt.disk);
    return false;
}

/* The last round before a sleep, of all: what is not seen now is slept over. */
static int last_round(struct host *h)
{
    mem_doze(h->opt.mem);
    for (uint32_t i = 0; i < h->units; i++)
        h->unit[i].dozes = true;
    int work = host_round(h, clock_now_ns());
    for (uint32_t i = 0; i < h->units; i++)
        h->unit[i].dozes = false;
    return work;
}

static int found_work(struct host *h, int work)
{
    h->idle_rounds = 0;
    return work;
}

int host_step(struct host *h)
{
    /* One round is enough for who wakes by the clock, or by a heartbeat. */
    if (!h->slept) {
        uint64_t now = clock_now_ns();
        int work = host_turn(h, now);
        if (work > 0)
            return found_work(h, work);
        bool yield = ++h->idle_rounds % ROUNDS_PER_YIELD == 0;
        if (h->opt.wait == HOST_SPIN) {
            if (yield)
                sched_yield();
            return 0;
        }
        bool spin =
            h->opt.wait == HOST_AUTO && now - h->busy_ns < h->opt.spin_ns && may_come_soon(h);
        if (spin && (!yield || yield_now(&h->yield, now)))
            return 0;
    }
    int work = last_round(h);
    if (h->slept && h->opt.mem->remote && !is_active(h))
        work -= h->came; /* the units have looked at it, and what comes now wakes */
    h->slept = false;
    if (work > 0 || atomic_exchange(&h->woken, false)) {
        mem_rouse(h->opt.mem);
        return work > 0 ? found_work(h, work) : 0;
    }
    h->sleeps++;
    uint64_t until = sleep_until(h);
    mem_sleep(h->opt.mem, until);
    /* The disk's thread is often on the same core, with what this host waits for: it goes first. */
    if (h->opt.disk && disk_is_writing(h->opt.disk))
        sched_yield();
    h->here_ns = clock_now_ns();
    h->slept = h->here_ns >= until || h->opt.mem->remote;
    return 0;
}

void host_wake(struct host *h)
{
    atomic_store(&h->woken, true);
    mem_wake(h->opt.mem);
}

int host_poll(struct host *h, struct event *v)
{
    uint64_t now = clock_now_ns();

    if (v->armed) /* the caller waited, and may have been late */
        h->here_ns = now < v->until_ns ? now : v->until_ns;
    event_begin(v);
    int work = host_round(h, now);
    if (work > 0)
        return found_work(h, work);
    work = last_round(h);
    if (work > 0) {
        mem_rouse(h->opt.mem);
        return found_work(h, work);
    }
    return event_arm(v, sleep_until(h)) ? 0 : 1;
}
