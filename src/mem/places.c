#include "mem/places.h"

#include <stdlib.h>

#define REST_NS UINT64_C(1000000000)
#define ABSENT_NS UINT64_C(40000000000) /* clients need not poll for half a minute */

int places_open(struct places *p, struct life_file *f, uint32_t lives_max, uint64_t now_ns,
                struct err *e)
{
    *p = (struct places){.file = f,
                         .count = f->places,
                         .lives_max = lives_max,
                         .rest_ns = REST_NS,
                         .absent_ns = ABSENT_NS};
    p->state = calloc(f->places + 1, sizeof *p->state);
    if (!p->state)
        return err_set(e, ERR_NOMEM, "places of %u clients: no memory", f->places);
    for (uint32_t i = 0; i < p->count; i++) {
        const struct life_place *kept = life_place(f, i);
        /* After a restart of the machine the file may not know of the last ones. */
        if (kept->birth != 0 || (f->rebooted && kept->life > 0))
            p->state[i].since_ns = now_ns ? now_ns : 1;
    }
    return 0;
}

void places_close(struct places *p)
{
    free(p->state);
    p->state = NULL;
}

static bool held(const struct places *p, uint32_t i, uint64_t now_ns)
{
    const struct place_state *s = &p->state[i];

    return s->connected || (s->since_ns != 0 && !s->ended && now_ns - s->since_ns < p->absent_ns);
}

static bool usable(const struct places *p, uint32_t i)
{
    return life_place(p->file, i)->life < p->lives_max;
}

static bool rested(const struct places *p, uint32_t i, uint64_t now_ns)
{
    const struct place_state *s = &p->state[i];

    return s->since_ns == 0 || now_ns - s->since_ns >= p->rest_ns;
}

uint32_t places_any(const struct places *p, uint64_t now_ns)
{
    uint32_t best = PLACES_NONE;

    for (uint32_t i = 0; i < p->count; i++)
        if (usable(p, i) && !held(p, i, now_ns) && rested(p, i, now_ns) &&
            (best == PLACES_NONE || p->state[i].since_ns < p->state[best].since_ns))
            best = i;
    return best;
}

uint32_t places_this(const struct places *p, uint32_t place, uint64_t now_ns)
{
    bool is_free = place < p->count && usable(p, place) && !held(p, place, now_ns);

    return is_free ? place : PLACES_NONE;
}

uint32_t places_give(struct places *p, uint32_t place, uint64_t birth)
{
    p->state[place] = (struct place_state){.connected = true, .since_ns = 1};
    return life_place_next(p->file, place, birth);
}

bool places_return(struct places *p, uint32_t place, uint32_t life, uint64_t birth, uint32_t *given)
{
    struct life_place *kept = life_place(p->file, place);

    *given = kept->life > 0 ? kept->life - 1 : 0;
    if (life < *given)
        return false;
    /* The same life, and another process; or one that this host has not given, unless it has forgotten that. */
    bool another = life == *given && kept->life > 0 && kept->birth != 0 && kept->birth != birth;
    bool forgot = p->file->renewed && !p->file->made && !p->file->told;
    if (another || (!forgot && life >= kept->life)) {
        *given = life;
        return false;
    }
    kept->life = life + 1; /* the count may have been lost with the file */
    kept->birth = birth;
    p->state[place] = (struct place_state){.connected = true, .since_ns = 1};
    return true;
}

void places_withdraw(struct places *p, uint32_t place, uint32_t life)
{
    struct life_place *kept = life_place(p->file, place);

    p->state[place] = (struct place_state){0};
    kept->birth = 0;
    if (kept->life == life + 1)
        kept->life = life;
}

void places_know(struct places *p, uint32_t place, uint32_t lives, uint64_t now_ns)
{
    struct life_place *kept = life_place(p->file, place);

    if (kept->life >= lives)
        return;
    *kept = (struct life_place){.life = lives};
    p->state[place] = (struct place_state){.since_ns = now_ns ? now_ns : 1};
}

void places_skip(struct places *p, uint32_t place, uint32_t lives)
{
    struct life_place *kept = life_place(p->file, place);
    uint32_t left = kept->life < p->lives_max ? p->lives_max - kept->life : 0;

    kept->life += lives < left ? lives : left;
    kept->birth = 0;
}

void places_seen(struct places *p, uint32_t place, uint32_t life)
{
    struct life_place *kept = life_place(p->file, place);

    if (kept->life > life)
        return;
    kept->life = life + 1;
    kept->birth = 0; /* of somebody before */
}

void places_leave(struct places *p, uint32_t place, uint64_t birth, bool ended, uint64_t now_ns)
{
    struct life_place *kept = life_place(p->file, place);

    if (kept->birth != birth)
        return;
    p->state[place] = (struct place_state){.since_ns = now_ns ? now_ns : 1, .ended = ended};
    if (ended)
        kept->birth = 0;
}

void places_void(struct places *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        struct life_place *kept = life_place(p->file, i);
        if (p->state[i].connected)
            continue;
        if (kept->life > 0)
            kept->life =
                kept->life + 1 < p->lives_max ? kept->life + 1 : 1; /* those used up, too */
        kept->birth = 0;
        p->state[i] = (struct place_state){0};
    }
}
