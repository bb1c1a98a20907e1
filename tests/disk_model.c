#include "disk_model_impl.h"

#include <stdlib.h>

static struct world world;

/* ---- bytes ---- */

static uint64_t word_at(uint64_t seed, uint64_t index)
{
    uint64_t s = seed + index * 977;

    return rng_splitmix64(&s);
}

void model_fill(uint64_t seed, uint64_t from, unsigned char *into, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes;) {
        uint64_t word = word_at(seed, (from + i) / 8), within = (from + i) % 8;
        uint64_t n = min_u64(8 - within, bytes - i);
        memcpy(into + i, (const unsigned char *)&word + within, n);
        i += n;
    }
}

bool model_is_filled(uint64_t seed, uint64_t from, const unsigned char *p, uint64_t bytes)
{
    unsigned char want[256];

    for (uint64_t i = 0; i < bytes; i += sizeof want) {
        uint64_t n = min_u64(sizeof want, bytes - i);
        model_fill(seed, from + i, want, n);
        if (memcmp(want, p + i, n) != 0)
            return false;
    }
    return true;
}

uint64_t model_snap_seed(uint32_t group, uint64_t pos)
{
    return pos * 31 + group;
}

uint64_t model_snap_bytes(uint32_t group, uint64_t pos)
{
    uint64_t s = model_snap_seed(group, pos);

    return rng_splitmix64(&s) % 12 == 0 ? s % SNAP_BYTES_MAX : s % 2000;
}

/* ---- a life ---- */

static struct disk_options options(struct world *w)
{
    struct disk_options o = {
        .block = w->block,
        .shape = {.host = "h1", .groups = GROUPS, .hosts = HOSTS, .clients = PLACES, .sizes = 7},
        .bytes = (uint64_t)SEGMENTS * SEGMENT_BYTES,
        .segment_bytes = SEGMENT_BYTES,
        .buffer_bytes = 4 * BATCH_BYTES,
        .batch_bytes = BATCH_BYTES};
    return o;
}

static struct record *add_record(struct world *w, uint32_t g, enum disk_kind kind, uint64_t from,
                                 uint64_t to)
{
    struct group *m = &w->groups[g];
    struct record *r = &m->records[m->count++];

    *r = (struct record){.r = {.kind = kind, .group = g, .from = from, .to = to},
                         .seed = rng_u64(&w->rng)};
    w->tally->records++;
    return r;
}

static void append(struct world *w, uint32_t g, struct record *r)
{
    struct group *m = &w->groups[g];

    r->r.says = m->says;
    r->r.ballot = m->says.ballot;
    r->batch = disk_batch(w->d);
    w->batch_max = max_u64(w->batch_max, r->batch);
    disk_append(w->d, &r->r);
}

static void do_entries(struct world *w, uint32_t g, enum disk_kind kind, uint64_t from, uint32_t n,
                       bool stays)
{
    struct group *m = &w->groups[g];
    unsigned char *at = disk_reserve(w->d, n);

    if (!at) {
        w->tally->refused++;
        return;
    }
    struct record *r = add_record(w, g, kind, from, from + n);
    model_fill(r->seed, from, at, n);
    r->r.bytes = at;
    if (!stays || m->says.end < from + n)
        m->says.end = from + n;
    m->says.ballot = m->says.pledge;
    append(w, g, r);
}

static void do_pledge(struct world *w, uint32_t g)
{
    struct group *m = &w->groups[g];

    m->says.pledge++;
    append(w, g, add_record(w, g, DISK_PLEDGE, 0, 0));
}

static void do_commit(struct world *w, uint32_t g)
{
    struct group *m = &w->groups[g];

    m->says.commit = rng_range(&w->rng, m->says.commit, max_u64(m->says.commit, m->says.end));
    m->says.commit_ballot = m->says.ballot;
    m->says.applied = rng_range(&w->rng, m->says.applied, max_u64(m->says.applied, m->says.commit));
    if (model_chance(w, 50))
        disk_say(w->d, g, &m->says);
}

static void do_reset(struct world *w, uint32_t g)
{
    struct group *m = &w->groups[g];
    uint64_t at = max_u64(m->says.commit, m->says.end) + rng_below(&w->rng, 500) + 1;

    /* In the middle of the chain what is beyond it stays. */
    if (!m->must_reset && m->says.end > m->says.commit && model_chance(w, 50))
        at = rng_range(&w->rng, m->says.commit + 1, m->says.end);
    if (!disk_reserve(w->d, 0))
        return;
    m->says.pledge++;
    m->says.commit = m->says.applied = at;
    m->says.end = max_u64(m->says.end, at);
    append(w, g, add_record(w, g, DISK_RESET, at, at));
    if (m->heal_at == 0 && m->beyond)
        m->heal_at = at;
    m->reset_at = at;
    m->must_reset = false;
}

static void do_snap(struct world *w)
{
    uint32_t g = (uint32_t)rng_below(&w->rng, GROUPS);
    uint32_t oldest = disk_oldest(w->d);
    struct group *m;

    if (oldest != UINT32_MAX && model_chance(w, 70))
        g = oldest;
    m = &w->groups[g];
    if (m->must_reset || m->says.applied <= disk_snap(w->d, g))
        return;
    /* The group may have gone on since it was begun. */
    uint64_t pos =
        rng_range(&w->rng, max_u64(m->reset_at, disk_snap(w->d, g) + 1), m->says.applied);
    if (!disk_snap_open(w->d, g, pos))
        return;
    disk_say(w->d, g, &m->says); /* or the state would have come from others */
    w->w = (struct writing){true, g, pos, model_snap_bytes(g, pos), 0};
}

static void put_snap(struct world *w)
{
    unsigned char piece[9000];
    struct writing *s = &w->w;
    uint32_t n = (uint32_t)min_u64(rng_below(&w->rng, sizeof piece) + 1, s->bytes - s->at);

    if (s->at == s->bytes || model_chance(w, 1)) {
        disk_snap_end(w->d, s->at == s->bytes);
        s->active = false;
        return;
    }
    model_fill(model_snap_seed(s->group, s->pos), s->at, piece, n);
    s->at += disk_snap_put(w->d, piece, n);
}

/* A chain that is short enough is written again. */
static void do_copy(struct world *w, uint32_t g)
{
    struct group *m = &w->groups[g];
    uint64_t from = disk_snap(w->d, g);

    if (m->beyond || m->must_reset || m->reset_at > from || m->says.end <= from ||
        m->says.end - from > RECORD_BYTES_MAX)
        return;
    do_entries(w, g, DISK_COPY, from, (uint32_t)(m->says.end - from), false);
}

static void do_note(struct world *w)
{
    uint32_t i;

    if (model_chance(w, 50)) {
        i = (uint32_t)rng_below(&w->rng, HOSTS);
        w->host_note[i].at = disk_host_note(w->d, i, ++w->host_life[i]);
    } else {
        i = (uint32_t)rng_below(&w->rng, PLACES);
        w->place_note[i].at = disk_place_note(w->d, i, ++w->place_life[i]);
    }
}

static void do_group(struct world *w, uint32_t g)
{
    struct group *m = &w->groups[g];
    uint32_t n = (uint32_t)rng_range(&w->rng, 1, model_chance(w, 50) ? 100 : RECORD_BYTES_MAX);
    uint64_t what = rng_below(&w->rng, 100);

    if (m->count >= RECORDS_MAX - 2)
        return;
    if (m->must_reset && model_chance(w, 60))
        do_reset(w, g);
    else if (m->must_reset || what < 15)
        do_pledge(w, g);
    else if (what < 35)
        do_commit(w, g);
    else if (what < 37)
        do_reset(w, g);
    else if (what < 42)
        do_copy(w, g);
    else if (what < 50) { /* another leader: what is not decided may be replaced */
        do_pledge(w, g);
        do_entries(w, g, DISK_ENTRIES, rng_range(&w->rng, m->says.commit, m->says.end), n,
                   model_chance(w, 40));
    } else
        do_entries(w, g, DISK_ENTRIES, m->says.end, n, false);
}

/* What is durable now, by what the disk says. */
static void look(struct world *w)
{
    if (disk_done(w->d) < w->done)
        VIOLATE(w, "done fell from %llu to %llu", (ull)w->done, (ull)disk_done(w->d));
    w->done = max_u64(w->done, disk_done(w->d));
    for (uint32_t g = 0; g < GROUPS; g++) {
        struct group *m = &w->groups[g];
        if (disk_snap(w->d, g) != m->snap) {
            m->snap = disk_snap(w->d, g);
            w->tally->snapshots++;
            if (m->beyond && m->heal_at && m->snap >= m->heal_at) {
                m->beyond = false;
                w->tally->healed++;
            }
        }
    }
    for (uint32_t i = 0; i < HOSTS; i++)
        if (w->host_note[i].at <= w->done)
            w->host_note[i].covered = w->host_life[i];
    for (uint32_t i = 0; i < PLACES; i++)
        if (w->place_note[i].at <= w->done)
            w->place_note[i].covered = w->place_life[i];
}

static void pass_time(struct world *w)
{
    uint64_t what = rng_below(&w->rng, 100);

    w->now += what < 50 ? 1000 : what < 97 ? rng_below(&w->rng, 200000) : 20000000;
    if (model_chance(w, 1))
        disk_sim_slow(w->sim, model_chance(w, 50) ? 0 : rng_below(&w->rng, 3000000));
}

static void check_bounds(struct world *w)
{
    uint64_t most = (uint64_t)SEGMENTS * SEGMENT_BYTES + SLOTS * SLOT_BYTES * 2 +
                    (uint64_t)(GROUPS + 2) * 6 * PIECE_BYTES;
    struct disk_status s;

    disk_status(w->d, &s);
    w->tally->no_room += s.health == DISK_NO_ROOM;
    if (disk_sim_bytes(w->sim) > most)
        VIOLATE(w, "files of %llu bytes", (ull)disk_sim_bytes(w->sim));
    if (s.journal_bytes > s.journal_bytes_max || disk_used(w->d) > 1000)
        VIOLATE(w, "the journal has %llu bytes", (ull)s.journal_bytes);
}

static void step(struct world *w)
{
    for (uint32_t n = model_chance(w, 3) ? 40 : model_chance(w, 70); n > 0; n--)
        do_group(w, (uint32_t)rng_below(&w->rng, GROUPS));
    if (model_chance(w, 2))
        do_note(w);
    if (w->w.active)
        put_snap(w);
    else if (model_chance(w, disk_used(w->d) > 400 ? 90 : 5))
        do_snap(w);
    if (model_chance(w, 60))
        disk_round(w->d, w->now);
    look(w);
    pass_time(w);
}

/* ---- lives ---- */

static void die(struct world *w)
{
    disk_sim_die(w->sim);
    disk_close(w->d);
    w->d = NULL;
    w->w.active = false;
}

/* Also in the middle of opening. False: it could not be opened, as it should. */
static bool open_once(struct world *w, bool fails)
{
    struct err e = {""};
    struct disk_options o;
    int rc;

    w->block = break_block(&w->broken, w->sim, disk_sim_block(w->sim, &w->now));
    w->broken.fail_in = fails ? (uint32_t)rng_range(&w->rng, 1, 9) : 0;
    o = options(w);
    rc = disk_open(&o, &w->d, &e);
    w->will_fail |= fails && w->broken.fail_in == 0;
    w->broken.fail_in = 0;
    if (rc == 0)
        return true;
    if (!w->will_fail)
        VIOLATE(w, "it cannot be opened: %.150s", e.text);
    w->will_fail = false;
    w->d = NULL;
    disk_sim_die(w->sim);
    disk_sim_power_cut(w->sim);
    return false;
}

static void format(struct world *w)
{
    struct disk_options o;

    w->block = disk_sim_block(w->sim, &w->now);
    o = options(w);
    if (disk_format(w->block, &o.shape, 0, NULL) < 0)
        VIOLATE(w, "it cannot be formatted");
    block_close(w->block);
}

static void fall(struct world *w)
{
    bool flips = !w->o->no_flips && model_chance(w, 40);
    uint64_t what = rng_below(&w->rng, 10);

    /* A flip before the last batch is confirmed looks like a torn tail. */
    for (uint32_t i = 0; flips && i < 400; i++) {
        disk_round(w->d, w->now += 1000000);
        look(w);
    }
    flips &= disk_failure(w->d) == NULL;
    die(w);
    if (model_chance(w, 60))
        disk_sim_power_cut(w->sim);
    if (flips && what < 6)
        model_flip_journal(w);
    else if (flips && what < 8)
        model_flip_snap(w);
    else if (flips)
        model_flip_host(w);
}

static void live(struct world *w)
{
    uint32_t steps = w->o->steps ? w->o->steps : 120;
    bool fails = !w->o->no_failures && model_chance(w, 15);

    for (uint32_t i = 0; i < steps && w->violated[0] == '\0'; i++) {
        step(w);
        if (fails && i == steps / 2) {
            disk_sim_fail(w->sim);
            w->will_fail = true;
        }
        if (disk_failure(w->d)) {
            w->will_fail = false;
            w->tally->failed++;
            break;
        }
        if (model_chance(w, 1))
            check_bounds(w);
    }
}

static void run(struct world *w)
{
    uint32_t lives = w->o->lives ? w->o->lives : 6;

    format(w);
    for (uint32_t i = 0; i < lives && w->violated[0] == '\0'; i++) {
        if (!w->o->no_failures && model_chance(w, 25))
            open_once(w, true);
        if (w->d == NULL && !open_once(w, false) && !open_once(w, false))
            return;
        w->tally->opened++;
        model_check_opened(w);
        live(w);
        fall(w);
    }
}

const char *disk_model_run(const struct disk_model_options *o, struct disk_model_tally *tally)
{
    struct world *w = &world;
    struct disk_sim_options s = {.seed = o->seed};

    memset(w, 0, sizeof *w);
    w->o = o;
    w->tally = tally;
    rng_init(&w->rng, o->seed);
    if (o->full)
        s.bytes_max =
            (uint64_t)(SEGMENTS - 1) * SEGMENT_BYTES + SLOTS * SLOT_BYTES + 3 * PIECE_BYTES;
    w->sim = disk_sim_open(&s);
    run(w);
    if (w->d)
        die(w);
    disk_sim_close(w->sim);
    return w->violated[0] != '\0' ? w->violated : NULL;
}
