#include "agree/oracle.h"

#include "base/err.h"

enum { BACKOFF_DOUBLINGS_MAX = 6 };

void oracle_init(struct oracle *o, uint32_t n, uint32_t me, uint64_t suspect_ns,
                 uint64_t stagger_ns, uint64_t seed)
{
    CHECK(n <= ORACLE_RANKS_MAX && me < n);
    *o = (struct oracle){
        .n = n, .me = me, .quorum = n / 2 + 1, .suspect_ns = suspect_ns, .stagger_ns = stagger_ns};
    rng_init(&o->rng, seed);
}

void oracle_watch(struct oracle *o, const struct oracle_view *view, uint64_t now_ns)
{
    for (uint32_t r = 0; r < o->n; r++)
        if (view[r].beat != o->beat[r] || r == o->me) {
            o->beat[r] = view[r].beat;
            o->beat_ns[r] = now_ns;
        }
}

bool oracle_silent(const struct oracle *o, uint32_t rank, uint64_t now_ns)
{
    return o->beat_ns[rank] == 0 || now_ns - o->beat_ns[rank] > o->suspect_ns;
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

static enum oracle_seat seat_now(const struct oracle *o, const struct oracle_view *view,
                                 uint64_t promised, uint64_t now_ns)
{
    uint32_t leader = (uint32_t)(promised % o->n);
    if (promised == 0 || leader == o->me || view[leader].dead || oracle_silent(o, leader, now_ns))
        return SEAT_VACANT;
    return view[leader].ballot == promised ? SEAT_TAKEN : SEAT_UNCLAIMED;
}

bool oracle_says_run(struct oracle *o, const struct oracle_view *view, uint64_t promised,
                     uint64_t now_ns)
{
    enum oracle_seat seat = seat_now(o, view, promised, now_ns);
    if (seat == SEAT_TAKEN) {
        o->seat = seat;
        o->vacant_ns = 0;
        o->failures = 0;
        return false;
    }
    if (o->vacant_ns == 0 || seat != o->seat) {
        o->seat = seat;
        o->vacant_ns = now_ns;
        o->wait_ns = draw_wait(o, view, promised, now_ns);
        if (seat == SEAT_UNCLAIMED)
            o->wait_ns += o->suspect_ns;
    }
    uint32_t reachable = 0;
    /* The memory of the dead may answer; that of the silent is perhaps cut off. */
    for (uint32_t r = 0; r < o->n; r++)
        reachable += !oracle_silent(o, r, now_ns) || view[r].dead;
    return view[o->me].fit && reachable >= o->quorum && now_ns - o->vacant_ns >= o->wait_ns;
}

void oracle_failed(struct oracle *o)
{
    o->failures++;
    o->vacant_ns = 0;
}

uint64_t oracle_next_ns(const struct oracle *o)
{
    return o->vacant_ns == 0 ? UINT64_MAX : o->vacant_ns + o->wait_ns;
}
