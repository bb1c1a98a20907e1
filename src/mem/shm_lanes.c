#include "base/say.h"
#include "mem/shm_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static uint32_t bucket_of(const struct mem_lane_spec *k)
{
    uint64_t h =
        (uint64_t)k->owner << 48 ^ (uint64_t)k->writer << 32 ^ (uint64_t)k->region << 16 ^ k->kind;

    h *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 40) % SHM_LANE_BUCKETS;
}

static bool same_key(const struct mem_lane_spec *a, const struct mem_lane_spec *b)
{
    return a->owner == b->owner && a->writer == b->writer && a->region == b->region &&
           a->kind == b->kind;
}

static bool same_sizes(const struct mem_lane_spec *a, const struct mem_lane_spec *b)
{
    return a->ctl_words == b->ctl_words && a->ring_bytes == b->ring_bytes;
}

static struct lane *find_lane(struct shm *s, const struct mem_lane_spec *key)
{
    struct lane *l = s->buckets[bucket_of(key)];

    while (l && !same_key(&l->pub.spec, key))
        l = l->next;
    return l;
}

/* Tells our log and, through the helper, the other side. */
static void complain(struct shm *s, struct lane *l, const struct mem_lane_spec *theirs)
{
    const struct mem_lane_spec *mine = &l->pub.spec;

    if (l->mismatch)
        return;
    l->mismatch = true;
    struct peer *writer = peer_of(s, theirs->writer);
    say_warn("lane (owner %u, writer %u, region %u, kind %u): %u words and a ring of %u bytes here "
             "at %s, %u words and %u bytes at its writer %s; it stays unconnected",
             mine->owner, mine->writer, mine->region, mine->kind, mine->ctl_words, mine->ring_bytes,
             s->self->name, theirs->ctl_words, theirs->ring_bytes, writer ? writer->name : "?");
    pthread_mutex_lock(&s->lock);
    if (s->complaints < sizeof s->complaint / sizeof *s->complaint)
        s->complaint[s->complaints++] =
            (struct complaint){.to = theirs->writer, .mine = *mine, .theirs = *theirs};
    pthread_mutex_unlock(&s->lock);
    helper_wake(s);
}

/* Points a lane at its memory in another node's segment. */
static void attach_reader(struct shm *s, struct lane *l, struct segment *g, uint32_t i)
{
    const struct segment_lane *d = &g->dir[i];

    if (!same_sizes(&l->pub.spec, &d->spec)) {
        complain(s, l, &d->spec);
        return;
    }
    l->mismatch = false;
    s->mem.lanes_moved++;
    l->rctl = (const _Atomic uint64_t *)(g->at + d->ctl_at);
    l->rring = d->spec.ring_bytes ? g->at + d->ring_at : NULL;
    if (d->spec.owner == s->mem.self) {
        /* The memory is read-only; the type is what mem.h gives all backends. */
        l->pub.ctl = (_Atomic uint64_t *)(g->at + d->ctl_at);
        l->pub.ring = d->spec.ring_bytes ? g->at + d->ring_at : NULL;
    }
}

static void attach_writer(struct shm *s, struct lane *l, struct segment *g, uint32_t i)
{
    const struct segment_lane *d = &g->dir[i];

    s->mem.lanes_moved++;
    l->wctl = (_Atomic uint64_t *)(g->at + d->ctl_at);
    l->wring = d->spec.ring_bytes ? g->at + d->ring_at : NULL;
    l->rctl = l->wctl;
    l->rring = l->wring;
    l->version = version_of(g->incarnation, g->index + 1);
    if (d->spec.owner == s->mem.self) {
        l->pub.ctl = l->wctl;
        l->pub.ring = l->wring;
    }
}

static void attach_all(struct shm *s, struct segment *g)
{
    for (uint32_t i = 0; i < g->lanes; i++) {
        struct lane *l = find_lane(s, &g->dir[i].spec);
        if (l)
            attach_reader(s, l, g, i);
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
    struct lane *l = find_lane(s, k);
    if (l && !same_sizes(&l->pub.spec, k))
        return err_set(e, ERR_INVALID, "%s: %u words and %u bytes, but it is open with %u and %u",
                       where, k->ctl_words, ring, l->pub.spec.ctl_words, l->pub.spec.ring_bytes);
    return 0;
}

/* Finds a lane in the segments of its writer. */
static struct segment *find_in(struct segment *g, const struct mem_lane_spec *key, uint32_t *index)
{
    for (; g; g = g->next)
        for (uint32_t i = 0; i < g->lanes; i++)
            if (same_key(&g->dir[i].spec, key)) {
                *index = i;
                return g;
            }
    return NULL;
}

static struct lane *lane_add(struct shm *s, const struct mem_lane_spec *spec)
{
    struct lane *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->pub.spec = *spec;
    l->pub.impl = l;
    struct lane **bucket = &s->buckets[bucket_of(spec)];
    l->next = *bucket;
    *bucket = l;
    return l;
}

static void lane_drop(struct shm *s, struct lane *gone)
{
    struct lane **at = &s->buckets[bucket_of(&gone->pub.spec)];

    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    free(gone);
}

/* Makes the memory for the lanes that we write and that no segment of ours has yet. */
static int make_written(struct shm *s, struct lane **fresh, uint32_t count, struct err *e)
{
    if (count == 0)
        return 0;
    if (count > SHM_LANES_MAX || (uint32_t)s->version >= SHM_SEGMENTS_MAX)
        return err_set(e, ERR_TOOBIG, "lanes of %s: at most %u in one go, and %u goes",
                       s->self->name, SHM_LANES_MAX, SHM_SEGMENTS_MAX);
    struct mem_lane_spec *specs = malloc(count * sizeof *specs);
    if (!specs)
        return err_set(e, ERR_NOMEM, "lanes of %s: no memory", s->self->name);
    for (uint32_t i = 0; i < count; i++)
        specs[i] = fresh[i]->pub.spec;
    int fd;
    struct segment *g = segment_new(s, specs, count, s->broken, &fd, e);
    free(specs);
    if (!g)
        return ERR_NOMEM;
    int rc = segment_publish(s, g, fd, e);
    if (rc < 0) {
        segment_free(g);
        return rc;
    }
    own_version_counts(s);
    for (uint32_t i = 0; i < count; i++)
        attach_writer(s, fresh[i], g, i);
    return 0;
}

void own_version_counts(struct shm *s)
{
    if (s->mem.self >= SHM_HOSTS_MAX)
        return;
    atomic_store(&s->grant->gen[s->mem.self], s->version);
    atomic_fetch_add(&s->grant->gen_changes, 1);
}

int shm_lanes_open(struct mem *m, const struct mem_lane_spec *specs, uint32_t count,
                   struct mem_lane **out, struct err *e)
{
    struct shm *s = shm_of(m);
    struct lane **fresh = calloc(count ? count : 1, sizeof *fresh);
    struct lane **added = calloc(count ? count : 1, sizeof *added);
    uint32_t fresh_count = 0, added_count = 0;
    int rc = 0;

    if (!fresh || !added) {
        rc = err_set(e, ERR_NOMEM, "open %u lanes: no memory", count);
        goto out;
    }
    for (uint32_t i = 0; i < count; i++) {
        rc = check_spec(s, &specs[i], e);
        if (rc < 0)
            goto out;
        struct lane *l = find_lane(s, &specs[i]);
        if (l) {
            out[i] = &l->pub;
            continue;
        }
        l = lane_add(s, &specs[i]);
        if (!l) {
            rc = err_set(e, ERR_NOMEM, "open %u lanes: no memory", count);
            goto out;
        }
        added[added_count++] = l;
        out[i] = &l->pub;

        uint32_t at = 0;
        struct peer *writer = peer_of(s, specs[i].writer);
        bool own = specs[i].writer == m->self;
        struct segment *g = find_in(own      ? s->segments
                                    : writer ? writer->segments
                                             : NULL,
                                    &specs[i], &at);
        if (own && !g) {
            fresh[fresh_count++] = l;
        } else if (own && same_sizes(&g->dir[at].spec, &specs[i])) {
            attach_writer(s, l, g, at);
        } else if (own) {
            rc = err_set(e, ERR_INVALID,
                         "lane (owner %u, writer %u, region %u, kind %u): %u words and %u bytes, "
                         "but an earlier life of %s left it with %u and %u",
                         specs[i].owner, specs[i].writer, specs[i].region, specs[i].kind,
                         specs[i].ctl_words, specs[i].ring_bytes, s->self->name,
                         g->dir[at].spec.ctl_words, g->dir[at].spec.ring_bytes);
            goto out;
        } else if (g) {
            attach_reader(s, l, g, at);
        }
    }
    rc = make_written(s, fresh, fresh_count, e);
out:
    for (uint32_t i = 0; rc < 0 && i < added_count; i++)
        lane_drop(s, added[i]);
    free(fresh);
    free(added);
    return rc < 0 ? rc : 0;
}

void lanes_free(struct shm *s)
{
    for (uint32_t b = 0; b < SHM_LANE_BUCKETS; b++)
        while (s->buckets[b]) {
            struct lane *l = s->buckets[b];
            s->buckets[b] = l->next;
            free(l);
        }
}

/* Forgets the memory of a writer's life that is over and replaced. */
static void detach_life(struct shm *s, struct peer *p)
{
    s->mem.lanes_moved++;
    for (uint32_t b = 0; b < SHM_LANE_BUCKETS; b++)
        for (struct lane *l = s->buckets[b]; l; l = l->next)
            if (l->pub.spec.writer == p->node) {
                l->rctl = NULL;
                l->rring = NULL;
                l->pub.ctl = NULL;
                l->pub.ring = NULL;
            }
    while (p->segments) {
        struct segment *g = p->segments;
        p->segments = g->next;
        segment_free(g);
    }
}

static void adopt_segment(struct shm *s, struct peer *p, struct segment *g)
{
    uint64_t version = version_of(g->incarnation, g->index + 1);

    if (version <= p->version) {
        segment_free(g);
        return;
    }
    if (version_life(version) > version_life(p->version)) {
        CHECK(g->index == 0); /* the helper hands over a life from its first segment on */
        detach_life(s, p);
        p->broken = g->broken;
        for (uint32_t i = 0; i < s->hosts_count; i++)
            s->hosts[i]->gen_ok = 0; /* what counts there is to be looked for again */
    }
    g->next = p->segments;
    p->segments = g;
    p->version = version;
    attach_all(s, g);
}

static void unmap(void *at, size_t bytes)
{
    if (at)
        munmap(at, bytes);
}

static void adopt(struct shm *s, struct item *i)
{
    struct peer *p = i->peer;

    if (i->losses_now)
        p->losses_now = i->losses_now;
    switch (i->kind) {
    case ITEM_BELL:
        unmap(p->bell, sizeof *p->bell);
        p->bell = i->at;
        break;
    case ITEM_LIFE:
        unmap(p->life, sizeof *p->life);
        p->life = i->at;
        p->life_incarnation = i->incarnation;
        p->over_told = false;
        break;
    case ITEM_GRANT:
        p->grant = i->at; /* open flows look at the old one, which therefore stays mapped */
        p->gen_ok = 0;
        break;
    case ITEM_SEGMENT:
        adopt_segment(s, p, i->segment);
        break;
    case ITEM_READY:
        p->ready = true;
        p->life_incarnation = i->incarnation;
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
    while (list) {
        struct item *i = list;
        list = i->next;
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
