#include "agree/oracle.h"

#include "base/err.h"
#include "base/planted.h"

enum {
    BACKOFF_DOUBLINGS_MAX = 6,
    BUSY_DOUBLINGS = 4, /* of suspect_ns, for who is busy; one more after each time, */
    BUSY_DOUBLINGS_MAX = 12,
    NEW_DOUBLINGS =
        4, /* likewise, for a leader that was never heard in a life that has just begun */
};

void oracle_init(struct oracle *o, uint32_t n, uint32_t me, uint64_t suspect_ns,
                 uint64_t stagger_ns, uint64_t seed)
{
    CHECK(n <= ORACLE_RANKS_MAX && me < n);
    *o = (struct oracle){.n = n,
                         .me = me,
                         .all = n,
                         .quorum = n / 2 + 1,
                         .suspect_ns = suspect_ns,
                         .stagger_ns = stagger_ns};
    rng_init(&o->rng, seed);
}

void oracle_memories(struct oracle *o, uint32_t all, uint32_t voters)
{
    CHECK(all > o->n && all <= ORACLE_RANKS_MAX && (voters == 0 || voters == o->n));
    o->all = all;
    o->voters = voters;
    o->quorum = (all - voters) / 2 + 1;
}

void oracle_forgive(struct oracle *o, uint64_t away_ns)
{
    for (uint32_t r = 0; r < o->all; r++)
        o->beat_ns[r] += o->beat_ns[r] ? away_ns : 0;
    o->watched_ns += o->watched_ns ? away_ns : 0;
}

void oracle_watch(struct oracle *o, const struct oracle_view *view, uint64_t now_ns)
{
    /* Who was away himself, stopped or starved, has heard nobody meanwhile; that says nothing of them. */
    uint64_t away = o->watched_ns ? now_ns - o->watched_ns : 0;
    if (o->watched_ns == 0)
        o->began_ns = now_ns;
    if (away >= o->suspect_ns)
        oracle_forgive(o, away);
    o->watched_ns = now_ns;
    for (uint32_t r = 0; r < o->all; r++)
        if (view[r].beat != o->beat[r] || r == o->me) {
            o->beat[r] = view[r].beat;
            o->beat_ns[r] = now_ns;
        }
    for (uint32_t r = 0; r < o->all; r++)
        o->busy[r] = view[r].busy && r != o->me && !PLANTED(busy_unheard);
}

bool oracle_silent(const struct oracle *o, uint32_t rank, uint64_t now_ns)
{
    uint32_t more = o->busy[rank] ? BUSY_DOUBLINGS + o->outwaited : 0;
    more = more < BUSY_DOUBLINGS_MAX ? more : BUSY_DOUBLINGS_MAX;
    return o->beat_ns[rank] == 0 || now_ns - o->beat_ns[rank] > o->suspect_ns << more;
}

/* How long to hold back once the place is vacant: by rank among those who could lead, and by
 * chance, in a range that doubles with each failure. */
static uint64_t draw_wait(struct oracle *o, const struct oracle_view *view, uint64_t promised,
                          uint64_t now_ns)
{
    /* At the very beginning the ranks before us are given time to appear. */
    if (promised == 0 && o->failures == 0) {
        uint32_t awaited = 0;
        for (uint32_t r = 0; r < o->me; r++)
            awaited += view[r].fit && !view[r].dead;
        return awaited * o->suspect_ns;
    }
    uint32_t before = 0;
    for (uint32_t r = 0; r < o->me; r++)
        before += view[r].fit && !view[r].dead && !oracle_silent(o, r, now_ns);
    uint64_t wait = before * o->stagger_ns;
    if (o->failures > 0) {
        uint32_t doublings =
            o->failures < BACKOFF_DOUBLINGS_MAX ? o->failures : BACKOFF_DOUBLINGS_MAX;
        wait += rng_below(&o->rng, o->stagger_ns << doublings);
    }
    return wait;
}

/* Not met, and heard through a memory. */
static bool heard_elsewhere(const struct oracle *o, const struct oracle_view *view, uint32_t rank,
                            uint64_t now_ns)
{
    return o->all > o->n && view[rank].dead && !oracle_silent(o, rank, now_ns);
}

static enum oracle_seat seat_now(const struct oracle *o, const struct oracle_view *view,
                                 uint64_t promised, uint64_t now_ns)
{
    uint32_t leader = (uint32_t)(promised % o->n);
    /* Who comes back from its disk has had no time to hear it yet; over a network it may not have met it, either. */
    if (o->kept && promised != 0 && leader != o->me && (!view[leader].dead || o->unmet) &&
        (o->beat_ns[leader] == 0 || heard_elsewhere(o, view, leader, now_ns)) &&
        now_ns - o->began_ns < o->suspect_ns << NEW_DOUBLINGS)
        return SEAT_TAKEN;
    if (promised == 0 || leader == o->me || view[leader].dead || oracle_silent(o, leader, now_ns) ||
        view[leader].backs == ORACLE_ALONE)
        return SEAT_VACANT;
    return view[leader].ballot == promised ? SEAT_TAKEN : SEAT_UNCLAIMED;
}

bool oracle_in_touch(const struct oracle *o, uint64_t now_ns)
{
    uint32_t heard = 0;
    for (uint32_t r = o->voters; r < o->all; r++)
        heard += !oracle_silent(o, r, now_ns);
    return heard >= o->quorum;
}

uint64_t oracle_backs(const struct oracle *o, const struct oracle_view *view, uint64_t promised,
                      uint64_t now_ns)
{
    if (!oracle_in_touch(o, now_ns))
        return ORACLE_ALONE;
    bool serves = seat_now(o, view, promised, now_ns) == SEAT_TAKEN &&
                  view[promised % o->n].backs == promised;
    return serves ? promised : 0;
}

/* Can a quorum be reached? The memory of the dead may answer; that of the silent is perhaps cut off. */
static bool quorum_answers(const struct oracle *o, const struct oracle_view *view, uint64_t now_ns)
{
    uint32_t reachable = 0;
    for (uint32_t r = o->voters; r < o->all; r++)
        reachable += r >= o->n ? !oracle_silent(o, r, now_ns)
                     : o->remote || o->kept
                         ? r == o->me || (!oracle_silent(o, r, now_ns) && !view[r].dead)
                         : !oracle_silent(o, r, now_ns) || view[r].dead;
    return reachable >= o->quorum;
}

static bool backs_one(const struct oracle_view *v)
{
    return v->backs != 0 && v->backs != ORACLE_ALONE;
}

/* Would a quorum be left without a leader, or has it none? Memories back nobody: where there are any, a leader that cannot
 * work is one that no replica backs which is heard. */
static bool quorum_is_free(const struct oracle *o, const struct oracle_view *view, uint64_t now_ns)
{
    uint32_t free = 0;
    for (uint32_t r = 0; r < o->n && o->all > o->n; r++)
        if (r != o->me && !oracle_silent(o, r, now_ns) && backs_one(&view[r]))
            return false;
    if (o->all > o->n)
        return true;
    for (uint32_t r = 0; r < o->n; r++)
        free += r == o->me || (!oracle_silent(o, r, now_ns) && !backs_one(&view[r]));
    return free >= o->quorum;
}

bool oracle_says_run(struct oracle *o, const struct oracle_view *view, uint64_t promised,
                     uint64_t now_ns)
{
    enum oracle_seat seat = seat_now(o, view, promised, now_ns);
    bool held = o->held;
    o->held = o->remote && !quorum_is_free(o, view, now_ns);
    if (seat == SEAT_TAKEN) {
        o->seat = seat;
        o->vacant_ns = 0;
        o->failures = 0;
        return false;
    }
    /* Who were all held back by the same leader stand in line anew. */
    if (o->vacant_ns == 0 || seat != o->seat || (held && !o->held)) {
        o->seat = seat;
        o->vacant_ns = now_ns;
        o->wait_ns = draw_wait(o, view, promised, now_ns);
        if (seat == SEAT_UNCLAIMED)
            o->wait_ns += o->suspect_ns;
    }
    bool could = view[o->me].fit && !o->held && quorum_answers(o, view, now_ns);
    bool run = could && now_ns - o->vacant_ns >= o->wait_ns;
    o->short_of = !could;
    uint32_t leader = (uint32_t)(promised % o->n);
    if (run && promised != 0 && o->busy[leader] && !view[leader].dead &&
        o->outwaited < BUSY_DOUBLINGS_MAX)
        o->outwaited++;
    return run;
}

void oracle_failed(struct oracle *o)
{
    o->failures++;
    o->vacant_ns = 0;
}

uint64_t oracle_next_ns(const struct oracle *o)
{
    /* While others hold us back, or are missing, it is their news that we wait for. */
    return o->vacant_ns == 0 || o->held || o->short_of ? UINT64_MAX : o->vacant_ns + o->wait_ns;
}
