/* Lanes that are no more: what was ended, by whom it is not looked at any more, and what becomes of the bytes.
 * impl.h has the whole story. All of this is the poller's. */
#include "base/say.h"
#include "mem/shm/impl.h"

#include <stdlib.h>

/* ---- for who reads ---- */

/* The helper tells the writer. */
static void agree(struct shm *s, struct peer *writer, uint32_t part)
{
    struct agreement a = {.life = (uint32_t)(version_life(writer->version) - 1), .part = part};

    pthread_mutex_lock(&s->lock);
    if (writer->agreements_count == writer->agreements_room) {
        uint32_t room = writer->agreements_room ? 2 * writer->agreements_room : 16;
        struct agreement *more = realloc(writer->agreements, room * sizeof *more);
        CHECK(more != NULL); /* a few bytes */
        writer->agreements = more;
        writer->agreements_room = room;
    }
    writer->agreements[writer->agreements_count++] = a;
    s->own_news = true;
    pthread_mutex_unlock(&s->lock);
    helper_wake(s);
}

static void detach(struct lane *l)
{
    l->rctl = NULL;
    l->rring = NULL;
    l->pub.ctl = NULL;
    l->pub.ring = NULL;
    l->mismatch = false;
}

/* An open lane of ours that its writer had ended is ended by us, too. */
static void let_go(struct shm *s, struct lane *l)
{
    struct peer *writer = peer_of(s, l->pub.spec.writer);
    struct letting **at = &writer->lettings;

    while (*at && (*at)->part + 1 != l->ended_by)
        at = &(*at)->next;
    l->ended_by = 0;
    detach(l);
    if (!*at || --(*at)->left > 0)
        return;
    struct letting *done = *at;
    *at = done->next;
    agree(s, writer, done->part);
    free(done);
}

/* The writer has ended this lane with that part. True: we own it and have it open. */
static bool ended_there(const struct shm *s, struct lane *l, uint32_t part)
{
    if (l->opened && l->pub.spec.owner == s->mem.self) {
        l->ended_by = part + 1;
        return true;
    }
    /* Who neither owns nor writes it reads it no more. */
    l->ended_by = l->opened ? part + 1 : 0;
    l->ended = false;
    detach(l);
    return false;
}

/* The same for all that show a common lane. */
static uint32_t common_ended_there(struct shm *s, const struct lane *copy, uint32_t part)
{
    const struct mem_lane_spec name = copy->pub.spec;
    const _Atomic uint64_t *memory = copy->rctl;
    uint32_t left = 0;

    for (struct lane *l = peer_of(s, name.writer)->lanes; l; l = l->of_writer)
        if (l->rctl == memory && l->pub.spec.region == name.region && l->pub.spec.kind == name.kind)
            left += ended_there(s, l, part);
    return left;
}

void ends_adopt(struct shm *s, struct peer *writer, const struct part *p)
{
    uint32_t left = 0, ends = 0;

    for (uint32_t i = 0; i < p->lanes; i++) {
        if (p->dir[i].spec.ctl_words > 0)
            continue;
        ends++;
        struct lane *l = find_lane(s, &p->dir[i].spec);
        if (!l || !l->rctl)
            continue;
        left +=
            l->pub.spec.common ? common_ended_there(s, l, p->number) : ended_there(s, l, p->number);
    }
    if (ends == 0)
        return;
    s->mem.lanes_moved++;
    if (left == 0) {
        agree(s, writer, p->number);
        return;
    }
    struct letting *more = malloc(sizeof *more);
    CHECK(more != NULL);
    *more = (struct letting){.next = writer->lettings, .part = p->number, .left = left};
    writer->lettings = more;
}

void ends_new_life(struct peer *writer)
{
    /* What we have ended and the new life does not have is over. */
    for (struct lane *l = writer->lanes; l; l = l->of_writer)
        l->ended = l->ended && l->rctl;
}

void lettings_free(struct peer *writer)
{
    while (writer->lettings) {
        struct letting *l = writer->lettings;
        writer->lettings = l->next;
        free(l);
    }
}

void ends_forget(struct peer *writer)
{
    lettings_free(writer);
    /* What a client writes begins blank. */
    for (struct lane *l = writer->lanes; l && writer->role == SHM_CLIENT; l = l->of_writer)
        l->ended = false;
}

/* ---- for who writes ---- */

/* Notes in the directory that the lane is ended, and what its bytes are. */
static struct room *end_written(struct lane *l, const struct outlet *o)
{
    struct room *r = malloc(sizeof *r);

    CHECK(r != NULL); /* a few bytes */
    *r = (struct room){.lane = l,
                       .outlet = o,
                       .base = (unsigned char *)(uintptr_t)l->wctl - l->shown->ctl_at,
                       .ctl_at = l->shown->ctl_at,
                       .ring_at = l->shown->ring_at,
                       .segment = l->shown->segment,
                       .ctl_words = l->shown->spec.ctl_words,
                       .ring_bytes = l->shown->spec.ring_bytes};
    __atomic_store_n(&l->shown->ended, 1, __ATOMIC_RELEASE);
    l->wctl = NULL;
    l->wring = NULL;
    l->shown = NULL;
    detach(l);
    return r;
}

/* Ends those of the lanes that are in the same outlet as the first one we write, with one part. False: there was
 * none. */
static bool end_some(struct shm *s, struct mem_lane *const *lanes, uint32_t count,
                     struct mem_lane_spec *specs)
{
    struct ending *e = NULL;
    struct outlet *o = NULL;
    uint32_t n = 0;
    struct err err;

    for (uint32_t i = 0; i < count; i++) {
        struct lane *l = (struct lane *)lanes[i];
        struct outlet *in = l->wctl ? outlet_of(s, peer_of(s, l->pub.spec.owner)) : NULL;
        if (!in || (o && in != o))
            continue;
        if (!e && !(e = calloc(1, sizeof *e)))
            CHECK(false); /* a few bytes */
        o = in;
        struct room *r = end_written(l, o);
        r->next = e->rooms;
        e->rooms = r;
        specs[n] = l->pub.spec;
        specs[n].ctl_words = specs[n].ring_bytes = 0;
        n++;
    }
    if (!e)
        return false;
    e->outlet = o;
    e->part = o->parts;
    e->next = s->endings;
    s->endings = e;
    struct part *p = part_new(s, o, specs, n, false, &err);
    if (p && o == &s->out)
        own_version_counts(s);
    if (!p) {
        /* Nobody will hear, so nobody will agree: the names stay ended, and the bytes as they are. */
        e->part = UINT32_MAX;
        say_warn(&s->say, "%s; %u ended lanes stay where they are", err.text, n);
    }
    free(p);
    return true;
}

/* Has the writer made it, though we have not adopted that? Then it is what our caller ends. */
static bool is_coming(struct shm *s, const struct mem_lane_spec *name)
{
    bool found = false;

    pthread_mutex_lock(&s->lock);
    for (const struct item *i = s->inbox; i; i = i->next)
        for (uint32_t k = 0; i->kind == ITEM_SEGMENT && k < i->part->lanes; k++) {
            const struct mem_lane_spec *d = &i->part->dir[k].spec;
            if (d->writer == name->writer && d->owner == name->owner && d->region == name->region &&
                d->kind == name->kind)
                found = entry_lives(&i->part->dir[k]); /* the last one counts */
        }
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* Ends the handle of a common lane that we write. The record, if that was the last; else NULL. */
static struct mem_lane *end_common(struct shm *s, struct lane *l)
{
    const struct mem_lane_spec name = copy_name(&l->pub.spec);
    struct lane *copy = find_lane(s, &name);

    for (const struct lane *k = s->self->lanes; k; k = k->of_writer)
        if (k->opened && k->pub.spec.common && k->pub.spec.region == name.region &&
            k->pub.spec.kind == name.kind)
            copy = NULL;
    if (l->pub.spec.owner != s->mem.self) {
        l->wctl = NULL;
        l->wring = NULL;
        detach(l);
    }
    if (!copy)
        return NULL;
    copy->ended = copy->wctl != NULL;
    return &copy->pub;
}

/* Ends a lane that we own and another node writes. */
static void end_owned(struct shm *s, struct lane *l)
{
    const struct mem_lane_spec *spec = &l->pub.spec;
    const struct mem_lane_spec name = spec->common ? copy_name(spec) : *spec;

    if (l->pinned) {
        l->pinned = false; /* its writer has gone on without it */
        detach(l);
        left_free(peer_of(s, spec->writer), false);
    } else if (l->ended_by) {
        let_go(s, l);
    } else {
        l->ended = l->rctl || is_coming(s, &name);
    }
}

void shm_lanes_end(struct mem *m, struct mem_lane *const *lanes, uint32_t count)
{
    struct shm *s = shm_of(m);
    struct mem_lane_spec *specs = malloc((count + 1ul) * sizeof *specs);
    struct mem_lane **written = malloc((count + 1ul) * sizeof(struct mem_lane *));
    uint32_t n = 0;

    CHECK(specs != NULL && written != NULL);
    m->lanes_moved++;
    for (uint32_t i = 0; i < count; i++) {
        struct lane *l = (struct lane *)lanes[i];
        bool owns = l->pub.spec.owner == m->self, writes = l->pub.spec.writer == m->self;
        CHECK(l->opened);
        l->opened = false;
        l->pub.ctl = NULL;
        l->pub.ring = NULL;
        l->pub.life = 0;
        if (writes) {
            struct mem_lane *last = l->pub.spec.common ? end_common(s, l) : &l->pub;
            l->ended = l->ended || (!l->pub.spec.common && l->wctl);
            if (last)
                written[n++] = last;
        } else if (owns) {
            end_owned(s, l);
        }
        l->ended_by = 0;
    }
    while (end_some(s, written, n, specs))
        ;
    free(specs);
    free(written);
}

void shm_region_lanes_end(struct shm *s, uint32_t region)
{
    struct mem_lane **some = malloc((s->lanes_count + 1ul) * sizeof *some);
    uint32_t n = 0;

    CHECK(some != NULL);
    for (uint32_t i = 0; i < s->lanes_size; i++) {
        struct lane *l = s->lanes[i];
        if (l && l->opened && l->pub.spec.owner == s->mem.self && l->pub.spec.region == region)
            some[n++] = &l->pub;
    }
    shm_lanes_end(&s->mem, some, n);
    free(some);
}

void ends_agreed(struct shm *s, struct peer *p, uint32_t part)
{
    for (struct ending *e = s->endings; e; e = e->next)
        if (e->part == part && e->outlet == outlet_of(s, p))
            e->agreed[p->role == SHM_HOST ? p->node : 0] = true;
}

/* Who lives and has not said so may look at it. Who comes later finds that it is ended. */
static bool may_look(struct shm *s, const struct peer *p, bool agreed)
{
    if (p == s->self || agreed || !p->name[0])
        return false;
    return s->mem.hostile ? p->version && !life_over(s, p) : node_alive(s, p->name);
}

static bool all_have_let_go(struct shm *s, const struct ending *e)
{
    if (e->part == UINT32_MAX)
        return false;
    if (e->outlet->client)
        return !may_look(s, e->outlet->client, e->agreed[0]);
    for (uint32_t i = 0; i < s->hosts_count; i++)
        if (may_look(s, s->hosts[i], e->agreed[s->hosts[i]->node]))
            return false;
    return true;
}

static void rooms_free(struct room *r)
{
    while (r) {
        struct room *next = r->next;
        free(r);
        r = next;
    }
}

void ends_reap(struct shm *s)
{
    struct ending **at = &s->endings;

    while (*at) {
        struct ending *e = *at;
        if (!all_have_let_go(s, e)) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        while (e->rooms) {
            struct room *r = e->rooms;
            e->rooms = r->next;
            r->lane->ended = false;
            r->next = s->rooms;
            s->rooms = r;
        }
        free(e);
    }
}

struct room *room_take(struct shm *s, const struct outlet *o, const struct mem_lane_spec *spec)
{
    for (struct room **at = &s->rooms; *at; at = &(*at)->next) {
        struct room *r = *at;
        if (r->outlet != o || r->ctl_words != spec->ctl_words || r->ring_bytes != spec->ring_bytes)
            continue;
        *at = r->next;
        return r;
    }
    return NULL;
}

void ends_free(struct shm *s)
{
    while (s->endings) {
        struct ending *e = s->endings;
        s->endings = e->next;
        rooms_free(e->rooms);
        free(e);
    }
    rooms_free(s->rooms);
}
