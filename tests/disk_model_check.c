/* What must be there after each opening. */
#include "disk_model_impl.h"

static bool is_covered(const struct world *w, const struct record *r)
{
    return r->batch <= w->done;
}

struct replay {
    struct world *w;
    struct group *m;
    uint32_t next; /* of the model's */
    uint32_t end;  /* behind the last that was found */
};

static bool is_same(const struct record *r, const struct disk_record *f)
{
    return r->r.kind == f->kind && r->r.from == f->from && r->r.to == f->to &&
           r->r.ballot == f->ballot && memcmp(&r->r.says, &f->says, sizeof f->says) == 0 &&
           (f->bytes == NULL || model_is_filled(r->seed, f->from, f->bytes, f->to - f->from));
}

static void take_replayed(void *ctx, const struct disk_record *f)
{
    struct replay *p = ctx;

    if (f->kind == DISK_SNAP)
        return;
    for (uint32_t i = p->next; i < p->m->count; i++)
        if (is_same(&p->m->records[i], f)) {
            if (p->m->records[i].lost)
                VIOLATE(p->w, "a damaged record is replayed");
            p->m->records[i].found = true;
            p->next = p->end = i + 1;
            return;
        }
    VIOLATE(p->w, "group %u: [%llu, %llu) of ballot %llu, kind %d, appears and should not",
            f->group, (ull)f->from, (ull)f->to, (ull)f->ballot, (int)f->kind);
}

/* Whether its absence would be a loss: of what stands in the chain and no snapshot has. */
static bool is_needed(const struct group *m, uint32_t i, uint64_t snap, uint64_t done)
{
    const struct record *r = &m->records[i];
    uint64_t to = max_u64(r->r.from, r->r.to);

    if (i < m->base || r->lost || r->r.kind == DISK_PLEDGE)
        return false;
    for (uint32_t n = i + 1; n < m->count; n++) {
        const struct record *later = &m->records[n];
        if (!later->found && later->batch > done)
            continue;
        if (later->r.kind == DISK_COPY)
            return false;
        if (later->r.kind != DISK_PLEDGE)
            to = min_u64(to, later->r.says.end);
    }
    return to > snap;
}

/* Of pledges that follow each other in a batch the last one may do. */
static bool is_replaced(const struct group *m, uint32_t i)
{
    return m->records[i].r.kind == DISK_PLEDGE && i + 1 < m->count &&
           m->records[i + 1].r.kind == DISK_PLEDGE &&
           m->records[i + 1].batch == m->records[i].batch;
}

static void check_records(struct world *w, uint32_t g, uint64_t snap)
{
    struct group *m = &w->groups[g];
    struct replay p = {w, m, 0, 0};

    for (uint32_t i = 0; i < m->count; i++)
        m->records[i].found = false;
    disk_replay(w->d, g, take_replayed, &p);
    for (uint32_t i = 0; i < m->count; i++) {
        struct record *r = &m->records[i];
        bool covered = is_covered(w, r);
        if (covered && !r->found && is_needed(m, i, snap, w->done))
            VIOLATE(w, "group %u: [%llu, %llu) of batch %llu was durable and is gone", g,
                    (ull)r->r.from, (ull)r->r.to, (ull)r->batch);
        if (!covered && !r->found && i < p.end && !r->lost && !is_replaced(m, i))
            VIOLATE(w, "group %u: batch %llu is missing between others", g, (ull)r->batch);
        w->tally->covered += covered;
        if (covered && r->r.kind == DISK_PLEDGE)
            m->pledge_covered = max_u64(m->pledge_covered, r->r.says.pledge);
        if (covered)
            p.end = (uint32_t)max_u64(p.end, i + 1);
    }
    m->count = p.end; /* the others are gone, and must not come again */
}

struct chain {
    bool broken;
    uint64_t lo, hi, end;
};

static void chain_take(struct chain *c, const struct disk_record *r)
{
    bool apart = c->broken || r->from > c->hi;
    uint64_t rest = c->broken ? 0 : min_u64(c->hi, r->says.end);

    if (r->kind == DISK_RESET) {
        c->lo = apart ? r->from : max_u64(c->lo, r->from);
        c->hi = apart ? r->from : c->hi;
    } else if (r->kind == DISK_COPY || apart || r->says.end <= r->to) {
        if (r->kind == DISK_COPY || apart || r->to < c->lo || r->from < c->lo)
            c->lo = r->from;
        c->hi = r->to;
    } else if (r->to >= c->lo) { /* what is wholly below changes nothing of what is above */
        c->lo = min_u64(c->lo, r->from);
        c->hi = max_u64(r->to, rest);
    }
    c->broken = false;
}

/* Where the chain begins that reaches the end without gap, by what the model knows. */
static uint64_t chain_from(const struct group *m)
{
    struct chain c = {.broken = m->base > 0};

    for (uint32_t i = m->base; i < m->count; i++) {
        const struct record *r = &m->records[i];
        if (r->r.kind == DISK_PLEDGE)
            continue;
        c.end = r->r.says.end;
        if (r->lost)
            c.broken = true;
        else
            chain_take(&c, &r->r);
    }
    return c.broken || c.hi < c.end ? c.end : c.lo;
}

static enum disk_state expected(const struct group *m, const struct disk_found *f)
{
    uint64_t lo = chain_from(m);

    if (m->beyond)
        return DISK_BEYOND;
    if (m->count == m->base && f->snap == 0)
        return DISK_NEW;
    return lo <= f->snap ? DISK_WHOLE : lo <= f->says.commit ? DISK_BELOW : DISK_BEYOND;
}

static int take_piece(void *ctx, const void *piece, uint32_t bytes)
{
    struct writing *s = ctx;

    s->active &= model_is_filled(model_snap_seed(s->group, s->pos), s->at, piece, bytes);
    s->at += bytes;
    return 0;
}

static void check_snap(struct world *w, uint32_t g, const struct disk_found *f)
{
    struct group *m = &w->groups[g];
    struct writing s = {true, g, f->snap, 0, 0};

    if (f->snap < m->snap && m->snap != m->snap_flipped)
        VIOLATE(w, "group %u: snapshot %llu was durable, %llu is there", g, (ull)m->snap,
                (ull)f->snap);
    if (f->snap != 0 && disk_snap_read(w->d, g, take_piece, &s, NULL) < 0)
        VIOLATE(w, "group %u: snapshot %llu cannot be read", g, (ull)f->snap);
    if (f->snap != 0 && (!s.active || s.at != model_snap_bytes(g, f->snap)))
        VIOLATE(w, "group %u: snapshot %llu is not what was put", g, (ull)f->snap);
}

static void check_says(struct world *w, uint32_t g, const struct disk_found *f)
{
    struct group *m = &w->groups[g];
    uint64_t end = 0;

    for (uint32_t i = 0; i < m->count; i++)
        if (m->records[i].r.kind != DISK_PLEDGE)
            end = m->records[i].r.says.end;
    if (f->says.pledge < m->pledge_covered || f->says.pledge > m->says.pledge)
        VIOLATE(w, "group %u: pledge %llu is durable, %llu is told", g, (ull)m->pledge_covered,
                (ull)f->says.pledge);
    if (m->count > m->base && f->says.end != end)
        VIOLATE(w, "group %u: the chain ends at %llu, %llu is told", g, (ull)end, (ull)f->says.end);
    if (f->says.commit > m->says.commit || f->says.applied > m->says.applied)
        VIOLATE(w, "group %u: a commit is told that never was", g);
}

/* What it lost it gets from others, and begins anew with that. */
static void take_damage(struct world *w, uint32_t g, const struct disk_found *f)
{
    struct group *m = &w->groups[g];

    m->must_reset = f->state == DISK_BELOW || f->state == DISK_BEYOND;
    w->tally->below += f->state == DISK_BELOW;
    if (f->state == DISK_BEYOND) {
        w->tally->beyond++;
        m->beyond = true;
        m->base = m->count;
        m->heal_at = m->reset_at = 0;
        return;
    }
    m->says = f->says;
    m->reset_at = 0;
    for (uint32_t i = m->base; i < m->count; i++)
        if (m->records[i].r.kind == DISK_RESET)
            m->reset_at = m->records[i].r.from;
}

static void check_group(struct world *w, uint32_t g)
{
    struct group *m = &w->groups[g];
    const struct disk_found *f = disk_found(w->d, g);
    bool may_be_healed = m->beyond && m->heal_at != 0 && f->state != DISK_BEYOND;
    struct writing unseen = {0};

    /* Whether it is damaged shows when it is read. */
    if (f->snap != 0)
        disk_snap_read(w->d, g, take_piece, &unseen, NULL);

    /* Of what does not count any more nothing need be there; that it does not is checked below. */
    check_records(w, g, f->state == DISK_BEYOND ? UINT64_MAX : max_u64(f->snap, m->snap));
    /* What a snapshot had covered went with it. */
    for (uint32_t i = 0; m->snap_flipped && i < m->count; i++)
        m->records[i].lost |= !m->records[i].found;
    if (may_be_healed && f->snap >= m->heal_at)
        m->beyond = false;
    if (f->state != expected(m, f))
        VIOLATE(w, "group %u: state %d is told, it is %d (chain from %llu, snapshot %llu)", g,
                (int)f->state, (int)expected(m, f), (ull)chain_from(m), (ull)f->snap);
    if (f->state != DISK_BEYOND) {
        check_snap(w, g, f);
        check_says(w, g, f);
    }
    take_damage(w, g, f);
    m->snap = f->snap;
    m->snap_flipped = 0;
}

static void check_lives(struct world *w)
{
    if (w->opened && disk_life(w->d) <= w->life)
        VIOLATE(w, "life %u is used again", w->life);
    w->life = disk_life(w->d);
    for (uint32_t i = 0; i < HOSTS; i++) {
        uint32_t life = disk_host_life(w->d, i);
        if (life < w->host_note[i].covered || life > w->host_life[i])
            VIOLATE(w, "host %u: life %u is durable, %u is told", i, w->host_note[i].covered, life);
        w->host_note[i].covered = w->host_life[i] = life;
    }
    for (uint32_t i = 0; i < PLACES; i++) {
        uint32_t life = disk_place_life(w->d, i);
        if (life < w->place_note[i].covered || life > w->place_life[i])
            VIOLATE(w, "place %u: life %u is durable, %u is told", i, w->place_note[i].covered,
                    life);
        w->place_note[i].covered = w->place_life[i] = life;
    }
}

void model_check_opened(struct world *w)
{
    if (disk_batch(w->d) <= w->done)
        VIOLATE(w, "batch %llu comes again", (ull)disk_batch(w->d));
    w->tally->torn += disk_note(w->d) != NULL && strstr(disk_note(w->d), "torn") != NULL;
    for (uint32_t g = 0; g < GROUPS; g++)
        check_group(w, g);
    check_lives(w);
    w->done = disk_done(w->d);
    /* What is told is used: it must be there from now on. */
    for (uint32_t g = 0; g < GROUPS; g++)
        for (uint32_t i = 0; i < w->groups[g].count; i++)
            w->groups[g].records[i].batch = min_u64(w->groups[g].records[i].batch, w->done);
    w->opened = true;
    if (model_chance(w, 50))
        disk_forget(w->d);
}
