#include "base/say.h"
#include "mem/shm/impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LANES_FIRST = 256 };

static uint32_t hash_of(const struct mem_lane_spec *k)
{
    uint64_t h =
        (uint64_t)k->owner << 48 ^ (uint64_t)k->writer << 32 ^ (uint64_t)k->region << 16 ^ k->kind;

    h *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32);
}

static bool same_key(const struct mem_lane_spec *a, const struct mem_lane_spec *b)
{
    return a->owner == b->owner && a->writer == b->writer && a->region == b->region &&
           a->kind == b->kind;
}

/* Where the lane is in the table, or would be. */
static uint32_t slot_of(const struct shm *s, const struct mem_lane_spec *key)
{
    uint32_t i = hash_of(key) & (s->lanes_size - 1);

    while (s->lanes[i] && !same_key(&s->lanes[i]->pub.spec, key))
        i = (i + 1) & (s->lanes_size - 1);
    return i;
}

struct lane *find_lane(const struct shm *s, const struct mem_lane_spec *key)
{
    return s->lanes_size ? s->lanes[slot_of(s, key)] : NULL;
}

static bool table_grow(struct shm *s)
{
    struct lane **old = s->lanes;
    uint32_t old_size = s->lanes_size;
    struct lane **table = calloc(old_size ? 2 * old_size : LANES_FIRST, sizeof *table);

    if (!table)
        return false;
    s->lanes = table;
    s->lanes_size = old_size ? 2 * old_size : LANES_FIRST;
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i])
            s->lanes[slot_of(s, &old[i]->pub.spec)] = old[i];
    free(old);
    return true;
}

/* A record for a lane that has none. NULL: no memory. */
static struct lane *lane_add(struct shm *s, const struct mem_lane_spec *spec)
{
    struct peer *writer = peer_expect(s, spec->writer);
    struct lane *l = writer ? calloc(1, sizeof *l) : NULL;

    if (!l || (2 * (s->lanes_count + 1) > s->lanes_size && !table_grow(s))) {
        free(l);
        return NULL;
    }
    l->pub.spec = *spec;
    l->pub.impl = l;
    l->of_writer = writer->lanes;
    writer->lanes = l;
    s->lanes[slot_of(s, spec)] = l;
    s->lanes_count++;
    return l;
}

static bool same_sizes(const struct mem_lane_spec *a, const struct mem_lane_spec *b)
{
    return a->ctl_words == b->ctl_words && a->ring_bytes == b->ring_bytes && a->common == b->common;
}

/* The lane as its memory has it, which may differ from what our caller thinks. */
static struct mem_lane_spec found_spec(const struct lane *l)
{
    struct mem_lane_spec spec = l->pub.spec;

    spec.ctl_words = l->found_words;
    spec.ring_bytes = l->found_bytes;
    return spec;
}

/* Tells our log and, through the helper, the other side. */
static void complain(struct shm *s, struct lane *l)
{
    const struct mem_lane_spec *mine = &l->pub.spec, theirs = found_spec(l);

    if (l->mismatch)
        return;
    l->mismatch = true;
    struct peer *writer = peer_of(s, theirs.writer);
    say_warn(&s->say,
             "lane (owner %u, writer %u, region %u, kind %u): %u words and a ring of %u bytes here "
             "at %s, %u words and %u bytes at its writer %s; it stays unconnected",
             mine->owner, mine->writer, mine->region, mine->kind, mine->ctl_words, mine->ring_bytes,
             s->self->name, theirs.ctl_words, theirs.ring_bytes, writer ? writer->name : "?");
    pthread_mutex_lock(&s->lock);
    if (s->complaints < sizeof s->complaint / sizeof *s->complaint)
        s->complaint[s->complaints++] =
            (struct complaint){.to = theirs.writer, .mine = *mine, .theirs = theirs};
    pthread_mutex_unlock(&s->lock);
    helper_wake(s);
}

static uint32_t writers_life(struct shm *s, const struct mem_lane_spec *spec)
{
    const struct peer *writer = peer_of(s, spec->writer);

    if (!writer || !writer->version || (writer->role != SHM_CLIENT && !spec->common))
        return 0;
    return (uint32_t)(version_life(writer->version) - 1);
}

/* Gives an opened lane whose memory was found to our caller, if it is its owner or has the copy. */
static void connect_lane(struct shm *s, struct lane *l)
{
    const struct mem_lane_spec found = found_spec(l);
    bool copy = l->pub.spec.common && l->pub.spec.writer == s->mem.self;

    if (!same_sizes(&l->pub.spec, &found)) {
        complain(s, l);
        return;
    }
    l->mismatch = false;
    s->mem.lanes_moved++;
    if (l->pub.spec.owner == s->mem.self || copy) {
        l->pub.life = writers_life(s, &l->pub.spec);
        /* The memory may be read-only; the type is what mem.h gives all backends. */
        l->pub.ctl = (_Atomic uint64_t *)(uintptr_t)l->rctl;
        l->pub.ring = (unsigned char *)(uintptr_t)l->rring;
    }
}

static void offer_lane(struct shm *s, struct lane *l)
{
    const struct peer *writer = peer_of(s, l->pub.spec.writer);

    if (l->offered || l->ended || l->pub.spec.owner != s->mem.self || writer->role != SHM_CLIENT)
        return;
    l->offered = true;
    l->offer = NULL;
    *s->offers_tail = l;
    s->offers_tail = &l->offer;
    s->mem.offered++;
}

bool shm_offer(struct mem *m, struct mem_lane_spec *out)
{
    struct shm *s = shm_of(m);

    while (s->offers) {
        struct lane *l = s->offers;
        s->offers = l->offer;
        if (!s->offers)
            s->offers_tail = &s->offers;
        l->offered = false;
        m->offered--;
        if (l->opened || l->ended || !l->rctl)
            continue;
        *out = l->pub.spec;
        return true;
    }
    return false;
}

/* Has the handle of a common lane show what its record has. */
static void show(struct shm *s, struct lane *l, const struct lane *copy)
{
    l->pinned = false;
    l->ended_by = 0;
    l->rctl = copy->rctl;
    l->rring = copy->rring;
    l->wctl = copy->wctl;
    l->wring = copy->wring;
    l->version = copy->version;
    l->found_words = copy->found_words;
    l->found_bytes = copy->found_bytes;
    if (l->opened)
        connect_lane(s, l);
}

static bool shows(const struct lane *l, const struct lane *copy)
{
    const struct mem_lane_spec *a = &l->pub.spec, *b = &copy->pub.spec;

    return l != copy && a->common && a->region == b->region && a->kind == b->kind;
}

static void show_all(struct shm *s, const struct lane *copy)
{
    for (struct lane *l = peer_of(s, copy->pub.spec.writer)->lanes; l; l = l->of_writer)
        if (shows(l, copy) && !l->pinned)
            show(s, l, copy);
}

bool shm_lane_next(struct mem *m, struct mem_lane *lane)
{
    struct shm *s = shm_of(m);
    struct lane *l = (struct lane *)lane;
    const struct mem_lane_spec name = copy_name(&lane->spec);
    const struct lane *copy = find_lane(s, &name);

    CHECK(l->opened && lane->spec.common && lane->spec.owner == m->self);
    if (!l->pinned || !copy || !copy->rctl)
        return false;
    show(s, l, copy);
    left_free(peer_of(s, lane->spec.writer), false);
    return true;
}

void left_free(struct peer *p, bool all)
{
    for (const struct lane *l = all ? NULL : p->lanes; l; l = l->of_writer)
        if (l->pinned)
            return;
    while (p->left) {
        struct segment *g = p->left;
        p->left = g->next;
        segment_free(g);
    }
}

/* Notes where a lane's memory is. */
static void attach(struct shm *s, struct lane *l, const struct part *p, uint32_t i)
{
    const struct segment_lane *d = &p->dir[i];
    unsigned char *at = d->base;

    l->ended_by = 0;
    l->rctl = (const _Atomic uint64_t *)(at + d->ctl_at);
    l->rring = d->spec.ring_bytes ? at + d->ring_at : NULL;
    l->found_words = d->spec.ctl_words;
    l->found_bytes = d->spec.ring_bytes;
    if (d->spec.writer == s->mem.self) {
        l->wctl = (_Atomic uint64_t *)(at + d->ctl_at);
        l->wring = d->spec.ring_bytes ? at + d->ring_at : NULL;
        l->version = version_of(p->segment->life, p->number + 1);
        l->shown = p->shown + i;
    }
    if (d->spec.common)
        show_all(s, l);
    if (l->opened)
        connect_lane(s, l);
    else
        offer_lane(s, l);
}

/* All lanes of a part, opened or not: it may be asked for them later. */
static void attach_all(struct shm *s, const struct part *p)
{
    for (uint32_t i = 0; i < p->lanes; i++) {
        if (!entry_lives(&p->dir[i]))
            continue;
        struct lane *l = find_lane(s, &p->dir[i].spec);
        if (!l)
            l = lane_add(s, &p->dir[i].spec);
        CHECK(l != NULL); /* a few bytes; what they are for is there already */
        attach(s, l, p, i);
    }
}

static bool is_host(const struct shm *s, uint32_t node)
{
    for (uint32_t i = 0; i < s->hosts_count; i++)
        if (s->hosts[i]->node == node)
            return true;
    return false;
}

static int check_spec(struct shm *s, const struct mem_lane_spec *k, struct err *e)
{
    char where[96];
    snprintf(where, sizeof where, "lane (owner %u, writer %u, region %u, kind %u)", k->owner,
             k->writer, k->region, k->kind);
    if (k->owner >= SHM_NODES_MAX || k->writer >= SHM_NODES_MAX)
        return err_set(e, ERR_INVALID, "%s: node numbers are below %u", where, SHM_NODES_MAX);
    if (!is_host(s, k->owner) && !is_host(s, k->writer))
        return err_set(e, ERR_NOTFOUND, "%s: neither node is a host of this cluster", where);
    if (s->self->role == SHM_CLIENT && k->owner != s->mem.self && k->writer != s->mem.self)
        return err_set(e, ERR_INVALID, "%s: client %s may open lanes it owns or writes", where,
                       s->self->name);
    if (k->ctl_words == 0)
        return err_set(e, ERR_INVALID, "%s: 0 control words; a lane needs at least 1 as guard",
                       where);
    uint32_t ring = k->ring_bytes;
    if (ring && (ring < MEM_PAGE_BYTES || (ring & (ring - 1))))
        return err_set(e, ERR_INVALID,
                       "%s: a ring of %u bytes; it must be 0 or a power of two of at least %u",
                       where, ring, MEM_PAGE_BYTES);
    if (k->common && (k->common != 1 || !is_host(s, k->owner) || !is_host(s, k->writer)))
        return err_set(e, ERR_INVALID, "%s: common lanes are between hosts", where);
    struct lane *l = find_lane(s, k);
    const struct mem_lane_spec name = copy_name(k);
    const struct lane *copy = k->common ? find_lane(s, &name) : NULL;
    if ((l && l->ended) || (copy && copy->ended && k->writer == s->mem.self))
        return err_set(e, ERR_EXISTS, "%s: it was ended here, and not yet by the other side",
                       where);
    if (l && l->opened && !same_sizes(&l->pub.spec, k))
        return err_set(e, ERR_INVALID, "%s: %u words and %u bytes, but it is open with %u and %u",
                       where, k->ctl_words, ring, l->pub.spec.ctl_words, l->pub.spec.ring_bytes);
    if (l && l->wctl && (k->ctl_words != l->found_words || ring != l->found_bytes))
        return err_set(e, ERR_INVALID,
                       "%s: %u words and %u bytes, but an earlier life of %s left it with %u and "
                       "%u",
                       where, k->ctl_words, ring, s->self->name, l->found_words, l->found_bytes);
    return 0;
}

/* Makes the memory for those of the lanes that go into the same outlet as the first one, and leaves the
 * others in the list. */
static int make_some(struct shm *s, struct lane **fresh, uint32_t *count, struct err *e)
{
    struct mem_lane_spec *specs = malloc(*count * sizeof *specs);
    struct lane **these = malloc(*count * sizeof(struct lane *));
    struct outlet *o = outlet_of(s, peer_of(s, fresh[0]->pub.spec.owner));
    uint32_t some = 0, left = 0;
    int rc = specs && these ? 0 : err_set(e, ERR_NOMEM, "lanes of %s: no memory", s->self->name);

    for (uint32_t i = 0; rc == 0 && i < *count; i++) {
        if (outlet_of(s, peer_of(s, fresh[i]->pub.spec.owner)) == o) {
            specs[some] = fresh[i]->pub.spec;
            these[some++] = fresh[i];
        } else {
            fresh[left++] = fresh[i];
        }
    }
    struct part *p = rc < 0 ? NULL : part_new(s, o, specs, some, false, e);
    if (p && o == &s->out)
        own_version_counts(s);
    for (uint32_t i = 0; p && i < some; i++)
        attach(s, these[i], p, i);
    *count = left;
    free(p);
    free(specs);
    free(these);
    return p ? 0 : ERR_NOMEM;
}

void own_version_counts(struct shm *s)
{
    if (s->self->voice)
        atomic_store(&s->self->voice->version, outlet_version(s, &s->out));
    if (s->self->role != SHM_HOST)
        return;
    atomic_store(&s->grant->gen[s->mem.self], outlet_version(s, &s->out));
    atomic_fetch_add(&s->grant->gen_changes, 1);
}

int carry_lanes(struct shm *s, struct err *e)
{
    uint32_t count = 0, at = 0;

    for (const struct part *p = s->past_parts; p; p = p->next)
        count += p->lanes;
    struct mem_lane_spec *specs = calloc(count ? count : 1, sizeof *specs);
    if (!specs)
        return err_set(e, ERR_NOMEM, "restart of %s: no memory for %u lanes", s->self->name, count);
    for (const struct part *p = s->past_parts; p; p = p->next)
        for (uint32_t i = 0; i < p->lanes; i++)
            if (entry_carried(&p->dir[i]))
                specs[at++] = p->dir[i].spec;
    struct part *p = part_new(s, &s->out, specs, at, true, e);
    free(specs);
    if (!p)
        return ERR_NOMEM;
    attach_all(s, p);
    free(p);
    return 0;
}

/* A lane that has just been opened shows what there is, or its copy is to be made. */
static int open_common(struct shm *s, struct lane *l, struct lane **fresh, uint32_t *fresh_count,
                       struct err *e)
{
    const struct mem_lane_spec name = copy_name(&l->pub.spec);
    struct lane *copy = find_lane(s, &name);

    if (!copy && !(copy = lane_add(s, &name)))
        return err_set(e, ERR_NOMEM, "open a lane: no memory");
    if (copy->rctl && copy != l)
        show(s, l, copy);
    else if (copy->rctl)
        connect_lane(s, l);
    if (copy->wctl || name.writer != s->mem.self)
        return 0;
    for (uint32_t i = 0; i < *fresh_count; i++)
        if (fresh[i] == copy)
            return 0;
    copy->pub.spec = name;
    fresh[(*fresh_count)++] = copy;
    return 0;
}

int shm_lanes_open(struct mem *m, const struct mem_lane_spec *specs, uint32_t count,
                   struct mem_lane **out, struct err *e)
{
    struct shm *s = shm_of(m);
    struct lane **fresh = calloc(count ? count : 1, sizeof *fresh);
    struct lane **added = calloc(count ? count : 1, sizeof *added);
    uint32_t fresh_count = 0, added_count = 0;
    int rc = fresh && added ? 0 : err_set(e, ERR_NOMEM, "open %u lanes: no memory", count);

    ends_reap(s);
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        rc = check_spec(s, &specs[i], e);
        if (rc < 0)
            break;
        struct lane *l = find_lane(s, &specs[i]);
        if (!l)
            l = lane_add(s, &specs[i]);
        if (!l || !peer_expect(s, specs[i].owner)) {
            rc = err_set(e, ERR_NOMEM, "open %u lanes: no memory", count);
            break;
        }
        out[i] = &l->pub;
        if (l->opened)
            continue;
        added[added_count++] = l;
        l->opened = true;
        l->pub.spec = specs[i];
        if (specs[i].common)
            rc = open_common(s, l, fresh, &fresh_count, e);
        else if (specs[i].writer == m->self && !l->wctl)
            fresh[fresh_count++] = l;
        else if (l->rctl)
            connect_lane(s, l);
    }
    while (rc == 0 && fresh_count > 0)
        rc = make_some(s, fresh, &fresh_count, e);
    for (uint32_t i = 0; rc < 0 && i < added_count; i++)
        added[i]->opened = false;
    free(fresh);
    free(added);
    return rc;
}

void lanes_free(struct shm *s)
{
    for (uint32_t i = 0; i < s->lanes_size; i++)
        free(s->lanes[i]);
    free(s->lanes);
}

/* Forgets the memory of a writer's life that is over. */
static void detach_life(struct shm *s, struct peer *p)
{
    bool pins = false;

    s->mem.lanes_moved++;
    for (struct lane *l = p->lanes; l; l = l->of_writer) {
        /* What a common lane shows its owner stays until that wants to go on. */
        l->pinned |= l->opened && l->pub.spec.common && l->pub.spec.owner == s->mem.self && l->rctl;
        pins |= l->pinned;
        l->ended_by = 0;
        if (l->pinned)
            continue;
        l->rctl = NULL;
        l->rring = NULL;
        l->pub.ctl = NULL;
        l->pub.ring = NULL;
        l->mismatch = false;
    }
    ends_forget(p);
    while (p->segments) {
        struct segment *g = p->segments;
        p->segments = g->next;
        if (pins) {
            g->next = p->left;
            p->left = g;
        } else {
            segment_free(g);
        }
    }
}

/* What is not to be seen is held all the same, like all of that life, until it is over: more parts may come of it. */
static void adopt_part(struct shm *s, struct peer *p, struct part *part, bool seen)
{
    struct segment *g = part->segment;
    uint64_t version = version_of(g->life, part->number + 1);

    CHECK(version > p->version); /* the helper hands over each part once, and in order */
    if (version_life(version) > version_life(p->version)) {
        CHECK(part->number == 0);
        detach_life(s, p);
        p->broken = g->broken;
        for (uint32_t i = 0; i < s->hosts_count; i++)
            s->hosts[i]->gen_ok = 0; /* what counts there is to be looked for again */
    }
    if (part->number == g->first) {
        g->next = p->segments;
        p->segments = g;
    }
    p->version = version;
    if (!seen)
        return;
    attach_all(s, part);
    ends_adopt(s, p, part);
    if (part->number == 0)
        ends_new_life(p);
}

static void unmap(void *at, size_t bytes)
{
    if (at)
        munmap(at, bytes);
}

/* The life whose memory comes with the item, plus one; 0: it brings none. */
static uint32_t brings(const struct item *i)
{
    return i->kind == ITEM_SEGMENT ? i->part->segment->life + 1
           : i->kind == ITEM_READY ? i->life + 1
                                   : 0;
}

/* What a life of a client has written is not seen before a disk knows of that life; what comes behind it waits, too. */
static bool waits(struct shm *s, const struct item *i)
{
    struct peer *p = i->peer;
    uint32_t count = brings(i);

    if (s->lives && p->role == SHM_CLIENT && !p->holds && count)
        p->holds = lives_judge(s, p, count - 1) == LIVES_LATER;
    return p->holds;
}

/* It has counted its losses: while it lives there will be no more. If it is dead by now, and this is what the next one
 * has counted, then its life does not run. */
static void losses_settle(struct peer *p)
{
    uint64_t losses = p->losses_fd >= 0 ? losses_read(p->losses_fd) : SHM_LOSSES_UNKNOWN;

    p->losses_sure = losses != SHM_LOSSES_UNKNOWN ? losses + 1 : 0;
}

static void adopt(struct shm *s, struct item *i)
{
    struct peer *p = i->peer;
    bool seen = !brings(i) || p->refused != brings(i);

    if (i->losses_fd >= 0)
        p->losses_fd = i->losses_fd;
    switch (i->kind) {
    case ITEM_BELL:
        if (s->mem.hostile) {
            voice_hear(s, p, i->at);
            break;
        }
        unmap(p->bell, sizeof *p->bell);
        p->bell = i->at;
        break;
    case ITEM_LIFE:
        unmap(p->life, sizeof *p->life);
        p->life = i->at;
        p->life_number = i->life;
        p->losses_sure = 0;
        p->over_told = false;
        lives_host_came(s, p, i->life);
        break;
    case ITEM_GRANT:
        p->grant = i->at; /* open flows look at the old one, which therefore stays mapped */
        p->gen_ok = 0;
        break;
    case ITEM_SEGMENT:
        adopt_part(s, p, i->part, seen);
        break;
    case ITEM_MAPPED:
        s->mem.lanes_moved++; /* ways to it that were closed may be open now */
        break;
    case ITEM_GONE:
        if (version_life(p->version) == i->life + 1)
            detach_life(s, p);
        break;
    case ITEM_ENDED:
        ends_agreed(s, p, i->number);
        break;
    case ITEM_READY:
        p->ready |= seen;
        if (seen)
            p->life_number = i->life;
        losses_settle(p);
        break;
    case ITEM_KINDS:
        CHECK(false);
    }
}

int shm_adopt(struct shm *s)
{
    int count = 0;

    if (pthread_mutex_trylock(&s->lock) != 0)
        return 0; /* the helper is at work and will ring; polling never waits for it */
    struct item *list = s->inbox;
    s->inbox = NULL;
    s->inbox_tail = &s->inbox;
    s->inbox_seen = atomic_load_explicit(&s->inbox_count, memory_order_acquire);
    pthread_mutex_unlock(&s->lock);
    *s->held_tail = list;
    list = s->held;
    s->held = NULL;
    s->held_tail = &s->held;
    for (struct item *i = list; i; i = i->next)
        i->peer->holds = false;
    while (list) {
        struct item *i = list;
        list = i->next;
        if (waits(s, i)) {
            i->next = NULL;
            *s->held_tail = i;
            s->held_tail = &i->next;
            continue;
        }
        adopt(s, i);
        free(i);
        count++;
    }
    return count;
}

enum mem_status gens_adopted(struct shm *s, struct peer *owner, struct peer **missing)
{
    struct grant *g = owner->grant;
    uint64_t changes = atomic_load(&g->gen_changes);

    if (changes == owner->gen_ok)
        return MEM_DONE;
    for (uint32_t i = 0; i < s->hosts_count; i++) {
        struct peer *w = s->hosts[i];
        uint64_t gen = atomic_load(&g->gen[w->node]);
        if (gen <= w->version) {
            if (content_missing(g, w->node, w->broken))
                return MEM_LOST;
            continue;
        }
        *missing = w;
        if (atomic_load_explicit(&w->wanted, memory_order_relaxed) < gen) {
            atomic_store_explicit(&w->wanted, gen, memory_order_release);
            helper_wake(s);
        }
        return MEM_PENDING;
    }
    owner->gen_ok = changes;
    return MEM_DONE;
}
