/* Lanes: memory that we own and others write, and where ours is in the memory of others.
 *
 * The owner gives the memory. A host has that of other hosts' lanes from the start, so that no page
 * is missing when it is needed; that of a client only when the client asks for it, because there may be
 * thousands of places and few clients. Whoever writes or reads a lane of another node asks for it
 * (FAR_WANT) and is told where it is (FAR_AT), once the owner has opened it too. */
#include "base/say.h"
#include "mem/far/impl.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint32_t bucket_of(const struct mem_lane_spec *k)
{
    uint64_t h =
        (uint64_t)k->owner << 48 ^ (uint64_t)k->writer << 32 ^ (uint64_t)k->region << 16 ^ k->kind;

    h *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 40) % FAR_LANE_BUCKETS;
}

bool far_same_lane(const struct mem_lane_spec *a, const struct mem_lane_spec *b)
{
    return a->owner == b->owner && a->writer == b->writer && a->region == b->region &&
           a->kind == b->kind;
}

static bool same_sizes(const struct mem_lane_spec *a, const struct mem_lane_spec *b)
{
    return a->ctl_words == b->ctl_words && a->ring_bytes == b->ring_bytes && a->common == b->common;
}

struct lane *far_lane_find(struct far *o, const struct mem_lane_spec *key)
{
    struct lane *l = o->buckets[bucket_of(key)];

    while (l && !far_same_lane(&l->pub.spec, key))
        l = l->next;
    return l;
}

/* ---- memory ---- */

static size_t align(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* Control words at its beginning, then every ring: sets each lane's place. */
static void chunk_share_out(const struct chunk *c, size_t ctl_bytes, struct lane **lanes,
                            uint32_t count)
{
    size_t rings = ctl_bytes, ctl = 0;

    for (uint32_t i = 0; i < count; i++) {
        size_t ring = lanes[i]->pub.spec.ring_bytes;
        lanes[i]->pub.ctl = (_Atomic uint64_t *)(void *)(c->at + ctl);
        lanes[i]->pub.ring = ring ? c->at + rings : NULL;
        ctl += align(lanes[i]->pub.spec.ctl_words * sizeof(uint64_t), FAR_LANE_ALIGN);
        rings += ring;
    }
}

void far_chunk_free(struct far *o, struct chunk *c)
{
    if (o->carrier->chunk_drop)
        o->carrier->chunk_drop(o, c);
    if (c->at)
        munmap(c->at, c->bytes);
    free(c);
}

/* Memory of that file, all of it at once: a page that is missing later would end the process. */
static void *map_file(int fd, size_t bytes)
{
    void *at = MAP_FAILED;

    if (fd >= 0 && (errno = posix_fallocate(fd, 0, (off_t)bytes)) == 0)
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    int saved = errno;
    if (fd >= 0)
        close(fd);
    errno = saved;
    return at == MAP_FAILED ? NULL : at;
}

/* In huge pages if they are wanted and there are enough. Who starts hears of those that are missing from
 * far_limits_check; for a client that comes later the others do. */
static void *chunk_map(struct far *o, size_t *bytes)
{
    size_t huge = align(*bytes, HUGE_PAGE_BYTES);
    void *at = NULL;

    if (o->huge) {
        at =
            map_file(memfd_create("tramway-lanes", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB), huge);
        *(at ? &o->huge_got : &o->huge_short) += huge / HUGE_PAGE_BYTES;
    }
    if (at) {
        *bytes = huge;
        return at;
    }
    return map_file(memfd_create("tramway-lanes", MFD_CLOEXEC), *bytes);
}

/* Gives memory to lanes of ours that one node writes. */
static int chunk_open(struct far *o, uint32_t writer, struct lane **lanes, uint32_t count,
                      struct err *e)
{
    size_t ctl = 0, rings = 0;

    for (uint32_t i = 0; i < count; i++) {
        ctl += align(lanes[i]->pub.spec.ctl_words * sizeof(uint64_t), FAR_LANE_ALIGN);
        rings += lanes[i]->pub.spec.ring_bytes;
    }
    ctl = align(ctl, MEM_PAGE_BYTES);
    struct chunk *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, ERR_NOMEM, "lanes of %s: no memory", o->name);
    c->writer = writer;
    c->bytes = ctl + rings;
    int rc = 0;
    c->at = chunk_map(o, &c->bytes);
    if (!c->at)
        rc = err_sys(e, "lanes of %s: %zu bytes", o->name, c->bytes);
    else if (o->carrier->chunk_add)
        rc = o->carrier->chunk_add(o, c, e);
    if (rc < 0) {
        far_chunk_free(o, c);
        return rc;
    }
    chunk_share_out(c, ctl, lanes, count);
    for (uint32_t i = 0; i < count; i++)
        lanes[i]->chunk = c;
    c->lanes = count;
    c->next = o->chunks;
    o->chunks = c;
    o->mem.lanes_moved++;
    return 0;
}

void far_lanes_free(struct far *o)
{
    for (uint32_t i = 0; i < o->lanes; i++)
        free(o->lane[i]);
    free(o->lane);
    while (o->chunks) {
        struct chunk *c = o->chunks;
        o->chunks = c->next;
        far_chunk_free(o, c);
    }
    free(o->offers);
}

/* ---- opening ---- */

static int check_spec(const struct far *o, const struct mem_lane_spec *s, struct err *e)
{
    uint32_t ring = s->ring_bytes;

    if (s->owner >= FAR_NODES_MAX || s->writer >= FAR_NODES_MAX)
        return err_set(e, ERR_INVALID, "lane %u of node %u, written by %u: numbers are below %u",
                       s->kind, s->owner, s->writer, FAR_NODES_MAX);
    if (s->ctl_words == 0 || s->ctl_words > 1 << 20 ||
        (ring && (ring < MEM_PAGE_BYTES || (ring & (ring - 1)))))
        return err_set(e, ERR_INVALID,
                       "lane %u of node %u: %u control words (at least 1), %u bytes of ring (0, or "
                       "a power of two of at least %d)",
                       s->kind, s->owner, s->ctl_words, ring, MEM_PAGE_BYTES);
    if (s->owner >= o->hosts_count && s->writer >= o->hosts_count)
        return err_set(e, ERR_NOTFOUND, "lane %u of node %u, written by %u: neither node is a host",
                       s->kind, s->owner, s->writer);
    if (s->common && (s->common != 1 || s->owner >= o->hosts_count || s->writer >= o->hosts_count))
        return err_set(e, ERR_INVALID,
                       "lane %u of node %u, written by %u: common lanes are between hosts", s->kind,
                       s->owner, s->writer);
    return 0;
}

static int lane_add(struct far *o, const struct mem_lane_spec *s, struct lane **out, struct err *e)
{
    if (o->lanes == FAR_LANES_MAX)
        return err_set(e, ERR_TOOBIG, "node %s has %u lanes, the maximum", o->name, FAR_LANES_MAX);
    if (o->lanes == o->lanes_room) {
        uint32_t room = o->lanes_room ? 2 * o->lanes_room : 64;
        struct lane **more = realloc(o->lane, room * sizeof(*more));
        if (!more)
            return err_set(e, ERR_NOMEM, "lanes of %s: no memory", o->name);
        o->lane = more;
        o->lanes_room = room;
    }
    struct lane *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(e, ERR_NOMEM, "lanes of %s: no memory", o->name);
    l->pub.spec = *s;
    l->pub.impl = l;
    l->id = o->lanes;
    o->lane[o->lanes++] = l;
    struct lane **bucket = &o->buckets[bucket_of(s)];
    l->next = *bucket;
    *bucket = l;
    *out = l;
    return 0;
}

static bool ask_for(struct link *l, const struct lane *lane)
{
    struct far_want want = {.id = lane->id, .spec = lane->pub.spec};

    l->wants++;
    return link_send(l, FAR_WANT, &want, 1);
}

/* Another lane of the same name. Those that others own are asked for at once: that is else done for new numbers
 * alone. */
static void lane_begin_again(struct far *o, struct lane *l, const struct mem_lane_spec *s)
{
    struct peer *p = s->owner == o->mem.self ? NULL : peer_at(o, s->owner);

    l->pub.spec = *s;
    l->state = LANE_OPEN;
    l->mismatch = l->owner_ended = l->claimed = false;
    o->again = true;
    if (p && p->link && l->id < p->link->asked_lanes && !ask_for(p->link, l))
        link_fault(p->link, TAKES_NOTHING);
}

struct mem_lane_spec far_copy_name(const struct mem_lane_spec *s)
{
    struct mem_lane_spec copy = *s;

    copy.owner = s->writer;
    return copy;
}

/* Has the handle of a common lane that we write show our copy, which is made with the first. */
static int show_copy(struct far *o, struct lane *l, struct err *e)
{
    const struct mem_lane_spec name = far_copy_name(&l->pub.spec);
    struct lane *copy = far_lane_find(o, &name);
    int rc = copy ? 0 : lane_add(o, &name, &copy, e);

    if (rc == 0 && !copy->chunk) {
        copy->pub.spec = name;
        copy->state = LANE_OPEN;
        rc = chunk_open(o, name.writer, &copy, 1, e);
    }
    if (rc < 0)
        return rc;
    copy->shown += !l->shows;
    l->shows = true;
    l->pub.ctl = copy->pub.ctl;
    l->pub.ring = copy->pub.ring;
    l->pub.life = o->mem.life;
    return 0;
}

static int lane_get(struct far *o, const struct mem_lane_spec *s, struct mem_lane **out,
                    struct err *e)
{
    int rc = check_spec(o, s, e);
    if (rc < 0)
        return rc;
    struct lane *l = far_lane_find(o, s);
    if (l && l->state == LANE_ENDED)
        return err_set(
            e, ERR_EXISTS,
            "lane %u of node %u, region %u, written by %u: it was ended here, and not yet "
            "by the other side",
            s->kind, s->owner, s->region, s->writer);
    if (l && l->state == LANE_OPEN && !same_sizes(&l->pub.spec, s))
        return err_set(e, ERR_INVALID,
                       "lane %u of node %u, region %u, written by %u: it is open with %u control "
                       "words and %u bytes of ring, not %u and %u",
                       s->kind, s->owner, s->region, s->writer, l->pub.spec.ctl_words,
                       l->pub.spec.ring_bytes, s->ctl_words, s->ring_bytes);
    if (!l)
        rc = lane_add(o, s, &l, e);
    if (rc < 0)
        return rc;
    *out = &l->pub;
    if (l->state == LANE_OVER)
        lane_begin_again(o, l, s);
    return s->common && s->writer == o->mem.self ? show_copy(o, l, e) : 0;
}

static bool is_host(const struct far *o, uint32_t node)
{
    return node < o->hosts_count;
}

/* Memory for those of the lanes that are ours and that a host writes, or we do. */
static int give_memory(struct far *o, struct mem_lane **handles, uint32_t count, struct err *e)
{
    struct lane **some = calloc(count, sizeof(*some));
    int rc = some ? 0 : err_set(e, ERR_NOMEM, "lanes of %s: no memory", o->name);

    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        struct lane *first = (struct lane *)handles[i];
        uint32_t writer = first->pub.spec.writer, n = 0;
        if (first->pub.spec.owner != o->mem.self || first->chunk ||
            !(is_host(o, writer) || writer == o->mem.self))
            continue;
        for (uint32_t k = i; k < count; k++) {
            struct lane *l = (struct lane *)handles[k];
            bool twice = false;
            for (uint32_t j = 0; j < n; j++)
                twice |= some[j] == l;
            if (!twice && !l->chunk && l->pub.spec.owner == o->mem.self &&
                l->pub.spec.writer == writer)
                some[n++] = l;
        }
        rc = chunk_open(o, writer, some, n, e);
    }
    free(some);
    return rc;
}

static void note_peers(struct far *o, const struct mem_lane_spec *s)
{
    uint32_t other[] = {s->owner, s->writer};

    for (int i = 0; i < 2; i++) {
        struct peer *p = other[i] == o->mem.self ? NULL : peer_at(o, other[i]);
        if (p)
            p->wanted = true;
        if (p && s->writer == o->mem.self && p->link)
            p->link->written_more = true;
    }
}

/* How much of a node's memory we may be writing at a time: all rings that we have there. */
uint64_t far_lanes_stage_bytes(const struct far *o, uint32_t owner)
{
    uint64_t all = 0, largest = 0;

    for (uint32_t i = 0; i < o->lanes; i++) {
        const struct mem_lane_spec *s = &o->lane[i]->pub.spec;
        if (s->owner != owner || s->writer != o->mem.self || o->lane[i]->state != LANE_OPEN)
            continue;
        all += s->ring_bytes;
        largest = s->ring_bytes > largest ? s->ring_bytes : largest;
    }
    uint64_t bytes = all < STAGE_BYTES_MAX ? all : STAGE_BYTES_MAX;
    /* The largest put, and something beside it. */
    bytes = bytes > largest + largest / 4 ? bytes : largest + largest / 4;
    return bytes > STAGE_BYTES_MIN ? bytes : STAGE_BYTES_MIN;
}

int far_lanes_open(struct mem *m, const struct mem_lane_spec *specs, uint32_t count,
                   struct mem_lane **out, struct err *e)
{
    struct far *o = far_of(m);
    uint32_t first = o->lanes;

    o->again = false;
    for (uint32_t i = 0; i < count; i++) {
        int rc = lane_get(o, &specs[i], &out[i], e);
        if (rc < 0)
            return rc;
        note_peers(o, &specs[i]);
    }
    int rc = give_memory(o, out, count, e);
    if (rc < 0 || (first == o->lanes && !o->again))
        return rc;
    for (struct link *l = o->links, *next; l; l = next) {
        next = l->next;
        if (l->state != LINK_UP)
            continue;
        bool fits =
            !l->written_more || o->carrier->room(l, far_lanes_stage_bytes(o, l->peer->node));
        l->written_more = false;
        /* A ring that is larger than all room for it needs another connection. */
        if (!fits)
            link_fault(l, "a new ring is larger than it has room for");
        else if (!far_lanes_ask(l) || !far_lanes_wanted(l, NULL, 0))
            link_fault(l, TAKES_NOTHING);
    }
    return 0;
}

/* Another process has a client's place, and the connection of the last one is closed: the lanes that it writes
 * here are as they were born. */
void far_lanes_reborn(struct far *o, uint32_t writer, uint32_t life)
{
    for (uint32_t i = 0; i < o->lanes; i++) {
        struct mem_lane *p = &o->lane[i]->pub;
        if (p->spec.owner != o->mem.self || p->spec.writer != writer || p->life == life)
            continue;
        for (uint32_t w = 0; p->ctl && w < p->spec.ctl_words; w++)
            atomic_store_explicit(&p->ctl[w], 0, memory_order_relaxed);
        p->life = life;
        o->mem.lanes_moved++;
    }
}

/* ---- asking ---- */

/* Asks for all lanes at the other side that were not asked for yet. False: the queue is full. */
bool far_lanes_ask(struct link *l)
{
    struct far *o = l->node;
    struct far_want want[FAR_WANTS_MAX];
    uint32_t n = 0;

    for (uint32_t i = l->asked_lanes; i < o->lanes; i++) {
        const struct mem_lane_spec *s = &o->lane[i]->pub.spec;
        if (s->owner != l->peer->node || o->lane[i]->state != LANE_OPEN)
            continue;
        want[n++] = (struct far_want){.id = i, .spec = *s};
        if (n < FAR_WANTS_MAX)
            continue;
        if (!link_send(l, FAR_WANT, want, n))
            return false;
        l->wants += n;
        n = 0;
    }
    l->asked_lanes = o->lanes;
    if (n > 0 && !link_send(l, FAR_WANT, want, n))
        return false;
    l->wants += n;
    return true;
}

/* Once a link: the other side can bring it about as often as it likes. */
static void complain(struct link *l, const struct mem_lane_spec *mine, uint32_t words,
                     uint32_t ring)
{
    if (l->complained)
        return;
    l->complained = true;
    say_warn(&l->node->say,
             "lane (owner %u, writer %u, region %u, kind %u): %u words and a ring of %u bytes here "
             "at %s, %u words and %u bytes at %s; it stays unconnected",
             mine->owner, mine->writer, mine->region, mine->kind, mine->ctl_words, mine->ring_bytes,
             l->node->name, words, ring, link_name(l));
}

/* May the writer have a common lane of ours? Another life has to wait until our caller has seen enough of the last. */
static bool claim(const struct link *l, struct lane *lane)
{
    if (lane->claimed)
        return lane->pub.life == l->life;
    lane->claimed = true;
    l->node->mem.lanes_moved += lane->pub.life != l->life;
    lane->pub.life = l->life;
    return true;
}

bool far_lane_next(struct mem *m, struct mem_lane *lane)
{
    struct lane *own = (struct lane *)lane;
    const struct peer *p = peer_at(far_of(m), lane->spec.writer);
    struct link *l = p ? p->link : NULL;
    bool wanted = false;

    CHECK(own->state == LANE_OPEN && lane->spec.common && lane->spec.owner == m->self);
    for (uint32_t i = 0; l && own->claimed && i < l->pendings; i++)
        wanted |= l->life != lane->life && far_same_lane(&l->pending[i].spec, &lane->spec);
    if (!wanted)
        return false;
    /* The connection of the life before is closed: nothing of it comes any more. */
    for (uint32_t w = 0; w < lane->spec.ctl_words; w++)
        atomic_store_explicit(&lane->ctl[w], 0, memory_order_relaxed);
    lane->life = l->life;
    m->lanes_moved++;
    if (!far_lanes_wanted(l, NULL, 0))
        link_fault(l, TAKES_NOTHING);
    return true;
}

enum verdict { ANSWERED, NOT_YET, BROKEN };

/* Where a lane of ours is, for the other side. */
static enum verdict locate(struct link *l, const struct far_want *w, struct far_at *at)
{
    struct far *o = l->node;
    struct lane *lane = w->spec.owner == o->mem.self ? far_lane_find(o, &w->spec) : NULL;
    bool writes = w->spec.writer == l->peer->node;

    *at = (struct far_at){.id = w->id};
    /* Who is no host reads nobody else's lanes. */
    if (w->spec.owner != o->mem.self || (!writes && !l->peer->host))
        return BROKEN;
    if (!lane || lane->state != LANE_OPEN)
        return NOT_YET;
    if (!same_sizes(&lane->pub.spec, &w->spec)) {
        complain(l, &lane->pub.spec, w->spec.ctl_words, w->spec.ring_bytes);
        at->ctl = lane->pub.spec.ctl_words;
        at->ring = lane->pub.spec.ring_bytes;
        return ANSWERED;
    }
    if (writes && lane->pub.spec.common && !claim(l, lane))
        return NOT_YET;
    if (!lane->chunk) {
        struct err e = {""};
        if (!writes)
            return NOT_YET; /* a client's, that has not come */
        if (chunk_open(o, w->spec.writer, &lane, 1, &e) < 0) {
            say_error(&o->say, "%s", e.text);
            return BROKEN;
        }
    }
    if (writes && !l->peer->host)
        lane->pub.life = l->life;
    if (!o->carrier->grant(l, lane, writes, at))
        return BROKEN;
    if (writes)
        lane->writer_link = l->id;
    at->matches = 1;
    return ANSWERED;
}

static bool put_off(struct link *l, const struct far_want *w)
{
    if (!l->peer->host && l->pendings >= FAR_CLIENT_WANTS_MAX)
        return false;
    if (l->pendings == l->pendings_room) {
        uint32_t room = l->pendings_room ? 2 * l->pendings_room : 64;
        struct far_want *more =
            room > FAR_LANES_MAX ? NULL : realloc(l->pending, room * sizeof(*more));
        if (!more)
            return false;
        l->pending = more;
        l->pendings_room = room;
    }
    l->pending[l->pendings++] = *w;
    return true;
}

/* A client asks for a lane that it writes and we have not opened: who runs this node is told of it. */
static bool offer_lane(const struct link *l, const struct mem_lane_spec *spec)
{
    struct far *o = l->node;

    const struct lane *known = far_lane_find(o, spec);
    if (l->peer->host || spec->writer != l->peer->node || (known && known->state != LANE_OVER))
        return true;
    if (o->mem.offered >= FAR_OFFERS_MAX)
        return false;
    if (o->mem.offered == o->offers_room) {
        uint32_t room = o->offers_room ? 2 * o->offers_room : 64;
        struct mem_lane_spec *more = realloc(o->offers, room * sizeof(*more));
        if (!more)
            return false;
        o->offers = more;
        o->offers_room = room;
    }
    o->offers[o->mem.offered++] = *spec;
    return true;
}

bool far_offer(struct mem *m, struct mem_lane_spec *out)
{
    struct far *o = far_of(m);

    while (m->offered > 0) {
        *out = o->offers[--m->offered];
        const struct lane *known = far_lane_find(o, out);
        if (!known || known->state == LANE_OVER)
            return true;
    }
    return false;
}

/* Answers what was asked, now or before. False: the link is to be closed. */
bool far_lanes_wanted(struct link *l, const struct far_want *want, uint32_t count)
{
    struct far_at at[FAR_ATS_MAX];
    uint32_t n = 0, waited = l->pendings;

    for (uint32_t i = 0; i < count; i++)
        if (!put_off(l, &want[i]))
            return false;
    uint32_t left = count ? waited : 0;
    for (uint32_t i = left; i < l->pendings; i++) {
        enum verdict v = locate(l, &l->pending[i], &at[n]);
        if (v == BROKEN)
            return false;
        if (v == NOT_YET) {
            if (count && !offer_lane(l, &l->pending[i].spec))
                return false;
            l->pending[left++] = l->pending[i];
            continue;
        }
        if (++n < FAR_ATS_MAX)
            continue;
        if (!link_send(l, FAR_AT, at, n))
            return false;
        n = 0;
    }
    l->pendings = left;
    return n == 0 || link_send(l, FAR_AT, at, n);
}

bool far_lanes_answered(struct link *l, const struct far_at *at, uint32_t count)
{
    struct far *o = l->node;

    for (uint32_t i = 0; i < count; i++) {
        struct lane *lane = at[i].id < o->lanes ? o->lane[at[i].id] : NULL;
        if (!lane || lane->pub.spec.owner != l->peer->node || l->wants == 0)
            return false;
        l->wants--;
        if (lane->state != LANE_OPEN)
            continue; /* it was ended since */
        if (!at[i].matches) {
            if (!lane->mismatch)
                complain(l, &lane->pub.spec, (uint32_t)at[i].ctl, (uint32_t)at[i].ring);
            lane->mismatch = true;
            continue;
        }
        lane->link_id = l->id;
        lane->key = at[i].key;
        lane->ctl = at[i].ctl;
        lane->ring = at[i].ring;
    }
    return true;
}
