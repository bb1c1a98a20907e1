/* Lanes: memory that we own and others write, and where ours is in the memory of others.
 *
 * The owner gives the memory. A host has that of other hosts' lanes from the start, so that no page
 * is missing when it is needed; that of a client only when the client asks for it, because there may be
 * thousands of places and few clients. Whoever writes or reads a lane of another node asks for it
 * (OFI_WANT) and is told where it is (OFI_AT), once the owner has opened it too. */
#include "base/say.h"
#include "mem/ofi/impl.h"

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
    return (uint32_t)(h >> 40) % OFI_LANE_BUCKETS;
}

static bool same_key(const struct mem_lane_spec *a, const struct mem_lane_spec *b)
{
    return a->owner == b->owner && a->writer == b->writer && a->region == b->region &&
           a->kind == b->kind;
}

static bool same_sizes(const struct mem_lane_spec *a, const struct mem_lane_spec *b)
{
    return a->ctl_words == b->ctl_words && a->ring_bytes == b->ring_bytes && a->common == b->common;
}

static struct lane *find_lane(struct ofi *o, const struct mem_lane_spec *key)
{
    struct lane *l = o->buckets[bucket_of(key)];

    while (l && !same_key(&l->pub.spec, key))
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
        ctl += align(lanes[i]->pub.spec.ctl_words * sizeof(uint64_t), OFI_LANE_ALIGN);
        rings += ring;
    }
}

static void chunk_free(struct chunk *c)
{
    if (c->read_mr)
        fi_close(&c->read_mr->fid);
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
 * ofi_limits_check; for a client that comes later the others do. */
static void *chunk_map(struct ofi *o, size_t *bytes)
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
static int chunk_open(struct ofi *o, uint32_t writer, struct lane **lanes, uint32_t count,
                      struct err *e)
{
    size_t ctl = 0, rings = 0;

    for (uint32_t i = 0; i < count; i++) {
        ctl += align(lanes[i]->pub.spec.ctl_words * sizeof(uint64_t), OFI_LANE_ALIGN);
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
    if (rc == 0) {
        /* What is put and kept is sent from here. */
        c->read_mr = net_register(&o->net, c->at, c->bytes, FI_REMOTE_READ | FI_WRITE);
        char hint[128];
        if (!c->read_mr)
            rc = err_set(e, ERR_NOMEM, "lanes of %s: register %zu bytes%s", o->name, c->bytes,
                         ofi_limit_hint(o, hint, sizeof hint));
    }
    if (rc < 0) {
        chunk_free(c);
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

const struct chunk *ofi_chunk_of(struct ofi *o, const void *data, uint32_t bytes)
{
    const unsigned char *from = data;

    for (const struct chunk *c = o->kept_in ? o->kept_in : o->chunks; c; c = c->next)
        if (from >= c->at && from + bytes <= c->at + c->bytes)
            return o->kept_in = c;
    for (const struct chunk *c = o->chunks; c; c = c->next)
        if (from >= c->at && from + bytes <= c->at + c->bytes)
            return o->kept_in = c;
    return NULL;
}

void ofi_lanes_free(struct ofi *o)
{
    for (uint32_t i = 0; i < o->lanes; i++)
        free(o->lane[i]);
    free(o->lane);
    while (o->chunks) {
        struct chunk *c = o->chunks;
        o->chunks = c->next;
        chunk_free(c);
    }
    free(o->offers);
}

/* ---- opening ---- */

static int check_spec(const struct ofi *o, const struct mem_lane_spec *s, struct err *e)
{
    uint32_t ring = s->ring_bytes;

    if (s->owner >= OFI_NODES_MAX || s->writer >= OFI_NODES_MAX)
        return err_set(e, ERR_INVALID, "lane %u of node %u, written by %u: numbers are below %u",
                       s->kind, s->owner, s->writer, OFI_NODES_MAX);
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

static int lane_add(struct ofi *o, const struct mem_lane_spec *s, struct lane **out, struct err *e)
{
    if (o->lanes == OFI_LANES_MAX)
        return err_set(e, ERR_TOOBIG, "node %s has %u lanes, the maximum", o->name, OFI_LANES_MAX);
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
    struct ofi_want want = {.id = lane->id, .spec = lane->pub.spec};

    l->wants++;
    return link_send(l, OFI_WANT, &want, 1);
}

/* Another lane of the same name. Those that others own are asked for at once: that is else done for new numbers
 * alone. */
static void lane_begin_again(struct ofi *o, struct lane *l, const struct mem_lane_spec *s)
{
    struct peer *p = s->owner == o->mem.self ? NULL : peer_at(o, s->owner);

    l->pub.spec = *s;
    l->state = LANE_OPEN;
    l->mismatch = l->owner_ended = l->claimed = false;
    o->again = true;
    if (p && p->link && l->id < p->link->asked_lanes && !ask_for(p->link, l))
        link_fault(p->link, -FI_EAGAIN);
}

static struct mem_lane_spec copy_name(const struct mem_lane_spec *s)
{
    struct mem_lane_spec copy = *s;

    copy.owner = s->writer;
    return copy;
}

/* Has the handle of a common lane that we write show our copy, which is made with the first. */
static int show_copy(struct ofi *o, struct lane *l, struct err *e)
{
    const struct mem_lane_spec name = copy_name(&l->pub.spec);
    struct lane *copy = find_lane(o, &name);
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

static int lane_get(struct ofi *o, const struct mem_lane_spec *s, struct mem_lane **out,
                    struct err *e)
{
    int rc = check_spec(o, s, e);
    if (rc < 0)
        return rc;
    struct lane *l = find_lane(o, s);
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

static bool is_host(const struct ofi *o, uint32_t node)
{
    return node < o->hosts_count;
}

/* Memory for those of the lanes that are ours and that a host writes, or we do. */
static int give_memory(struct ofi *o, struct mem_lane **handles, uint32_t count, struct err *e)
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

static void note_peers(struct ofi *o, const struct mem_lane_spec *s)
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
uint64_t ofi_lanes_stage_bytes(const struct ofi *o, uint32_t owner)
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

int ofi_lanes_open(struct mem *m, const struct mem_lane_spec *specs, uint32_t count,
                   struct mem_lane **out, struct err *e)
{
    struct ofi *o = ofi_of(m);
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
        bool fits = !l->written_more || link_stage_want(l, ofi_lanes_stage_bytes(o, l->peer->node));
        l->written_more = false;
        /* A ring that is larger than all room for it needs another connection. */
        if (!fits)
            link_fault(l, -FI_ENOSPC);
        else if (!ofi_lanes_ask(l) || !ofi_lanes_wanted(l, NULL, 0))
            link_fault(l, -FI_EAGAIN);
    }
    return 0;
}

/* Another process has a client's place, and the connection of the last one is closed: the lanes that it writes
 * here are as they were born. */
void ofi_lanes_reborn(struct ofi *o, uint32_t writer, uint32_t life)
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
bool ofi_lanes_ask(struct link *l)
{
    struct ofi *o = l->node;
    struct ofi_want want[OFI_WANTS_MAX];
    uint32_t n = 0;

    for (uint32_t i = l->asked_lanes; i < o->lanes; i++) {
        const struct mem_lane_spec *s = &o->lane[i]->pub.spec;
        if (s->owner != l->peer->node || o->lane[i]->state != LANE_OPEN)
            continue;
        want[n++] = (struct ofi_want){.id = i, .spec = *s};
        if (n < OFI_WANTS_MAX)
            continue;
        if (!link_send(l, OFI_WANT, want, n))
            return false;
        l->wants += n;
        n = 0;
    }
    l->asked_lanes = o->lanes;
    if (n > 0 && !link_send(l, OFI_WANT, want, n))
        return false;
    l->wants += n;
    return true;
}

/* The key under which the other side of the link may write the chunk. */
static bool link_key(struct link *l, struct chunk *c, uint64_t *key)
{
    for (uint32_t i = 0; i < l->keys_count; i++)
        if (l->keys[i].chunk == c) {
            *key = fi_mr_key(l->keys[i].mr);
            return true;
        }
    if (l->keys_count == l->keys_room) {
        uint32_t room = l->keys_room ? 2 * l->keys_room : 8;
        struct link_key *more = realloc(l->keys, room * sizeof(*more));
        if (!more)
            return false;
        l->keys = more;
        l->keys_room = room;
    }
    struct fid_mr *mr =
        net_register(&l->node->net, c->at, c->bytes, FI_REMOTE_READ | FI_REMOTE_WRITE);
    if (!mr)
        return false;
    l->keys[l->keys_count++] = (struct link_key){.chunk = c, .mr = mr};
    *key = fi_mr_key(mr);
    return true;
}

/* Hosts that have lanes in a region are told of its promises, from before they may write there. */
static bool subscribe(struct link *l, uint32_t number)
{
    struct ofi *o = l->node;
    struct region *r = l->peer->host && o->host ? ofi_region_find(o, number) : NULL;

    if (!r)
        return true;
    uint32_t i = ofi_region_index(o, r);
    if (l->subscribed[i / 8] >> i % 8 & 1)
        return true;
    l->subscribed[i / 8] |= (unsigned char)(1u << i % 8);
    return ofi_region_tell(o, r, l);
}

static void complain(struct link *l, const struct mem_lane_spec *mine, uint32_t words,
                     uint32_t ring)
{
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

bool ofi_lane_next(struct mem *m, struct mem_lane *lane)
{
    struct lane *own = (struct lane *)lane;
    const struct peer *p = peer_at(ofi_of(m), lane->spec.writer);
    struct link *l = p ? p->link : NULL;
    bool wanted = false;

    CHECK(own->state == LANE_OPEN && lane->spec.common && lane->spec.owner == m->self);
    for (uint32_t i = 0; l && own->claimed && i < l->pendings; i++)
        wanted |= l->life != lane->life && same_key(&l->pending[i].spec, &lane->spec);
    if (!wanted)
        return false;
    /* The connection of the life before is closed: nothing of it comes any more. */
    for (uint32_t w = 0; w < lane->spec.ctl_words; w++)
        atomic_store_explicit(&lane->ctl[w], 0, memory_order_relaxed);
    lane->life = l->life;
    m->lanes_moved++;
    if (!ofi_lanes_wanted(l, NULL, 0))
        link_fault(l, -FI_EAGAIN);
    return true;
}

enum verdict { ANSWERED, NOT_YET, BROKEN };

/* Where a lane of ours is, for the other side. */
static enum verdict locate(struct link *l, const struct ofi_want *w, struct ofi_at *at)
{
    struct ofi *o = l->node;
    struct lane *lane = w->spec.owner == o->mem.self ? find_lane(o, &w->spec) : NULL;
    bool writes = w->spec.writer == l->peer->node;

    *at = (struct ofi_at){.id = w->id};
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
    uint64_t key = fi_mr_key(lane->chunk->read_mr);
    if ((writes && !link_key(l, lane->chunk, &key)) || !subscribe(l, w->spec.region))
        return BROKEN;
    if (writes)
        lane->writer_link = l->id;
    at->matches = 1;
    at->key = key;
    at->ctl = net_address(&o->net, lane->chunk->at, lane->pub.ctl);
    at->ring = lane->pub.ring ? net_address(&o->net, lane->chunk->at, lane->pub.ring) : 0;
    return ANSWERED;
}

static bool put_off(struct link *l, const struct ofi_want *w)
{
    if (l->pendings == l->pendings_room) {
        uint32_t room = l->pendings_room ? 2 * l->pendings_room : 64;
        struct ofi_want *more =
            room > OFI_LANES_MAX ? NULL : realloc(l->pending, room * sizeof(*more));
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
    struct ofi *o = l->node;

    const struct lane *known = find_lane(o, spec);
    if (l->peer->host || spec->writer != l->peer->node || (known && known->state != LANE_OVER))
        return true;
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

bool ofi_offer(struct mem *m, struct mem_lane_spec *out)
{
    struct ofi *o = ofi_of(m);

    while (m->offered > 0) {
        *out = o->offers[--m->offered];
        const struct lane *known = find_lane(o, out);
        if (!known || known->state == LANE_OVER)
            return true;
    }
    return false;
}

/* Answers what was asked, now or before. False: the link is to be closed. */
bool ofi_lanes_wanted(struct link *l, const struct ofi_want *want, uint32_t count)
{
    struct ofi_at at[OFI_ATS_MAX];
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
        if (++n < OFI_ATS_MAX)
            continue;
        if (!link_send(l, OFI_AT, at, n))
            return false;
        n = 0;
    }
    l->pendings = left;
    return n == 0 || link_send(l, OFI_AT, at, n);
}

bool ofi_lanes_answered(struct link *l, const struct ofi_at *at, uint32_t count)
{
    struct ofi *o = l->node;

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

/* ---- ends ---- */

static void key_drop(struct link *l, const struct chunk *c)
{
    for (uint32_t i = 0; i < l->keys_count; i++)
        if (l->keys[i].chunk == c) {
            fi_close(&l->keys[i].mr->fid);
            l->keys[i] = l->keys[--l->keys_count];
            return;
        }
}

/* Nothing comes to it any more, whoever has ended it: its memory goes with the last lane in it. */
static void lane_over(struct ofi *o, struct lane *l)
{
    struct chunk *c = l->chunk, **at = &o->chunks;

    l->state = LANE_OVER;
    l->claimed = false;
    l->writer_link = 0;
    l->chunk = NULL;
    if (!c || --c->lanes > 0)
        return;
    for (struct link *k = o->links, *next; k; k = next) {
        next = k->next;
        key_drop(k, c);
        /* Something may still be sent from here: whoever ends lanes waits for that. */
        if (o->kept_in == c && k->mark_tail < k->kept_mark)
            link_close(k, false, "a lane was ended from which it is sent to");
    }
    if (o->kept_in == c)
        o->kept_in = NULL;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    chunk_free(c);
}

static bool send_end(struct link *l, const struct mem_lane_spec *spec)
{
    return link_send(l, OFI_END, &(struct ofi_end){.spec = *spec}, 1);
}

static void say_end(struct link *l, const struct mem_lane_spec *spec)
{
    if (!send_end(l, spec))
        link_fault(l, -FI_EAGAIN);
}

/* An own lane. Hosts may read it, and its writer may have it. */
static void end_owned(struct ofi *o, struct lane *l)
{
    uint32_t writer = l->pub.spec.writer;
    struct peer *p = writer == o->mem.self ? NULL : peer_at(o, writer);
    bool has = p && p->link && p->link->id == l->writer_link;

    l->pub.ctl = NULL;
    l->pub.ring = NULL;
    l->pub.life = 0;
    for (struct link *k = o->links; k; k = k->next)
        if (k->state == LINK_UP && (k->peer->node == writer ? has || l->owed : k->peer->host))
            say_end(k, &l->pub.spec);
    l->owed = false;
    if (has)
        l->state = LANE_ENDED;
    else
        lane_over(o, l);
}

static void end_written(struct ofi *o, struct lane *l)
{
    struct peer *p = peer_at(o, l->pub.spec.owner);

    l->link_id = 0;
    l->birth = p ? p->birth : 0;
    l->state = l->owner_ended ? LANE_OVER : LANE_ENDED;
    if (p && p->link)
        say_end(p->link, &l->pub.spec);
}

/* One handle less shows our copy. */
static void hide_copy(struct ofi *o, struct lane *l)
{
    const struct mem_lane_spec name = copy_name(&l->pub.spec);
    struct lane *copy = find_lane(o, &name);

    CHECK(l->shows);
    l->shows = false;
    if (l != copy) {
        l->pub.ctl = NULL;
        l->pub.ring = NULL;
        end_written(o, l);
    }
    if (--copy->shown > 0)
        return;
    copy->pub.ctl = NULL;
    copy->pub.ring = NULL;
    lane_over(o, copy);
}

void ofi_lanes_end(struct mem *m, struct mem_lane *const *lanes, uint32_t count)
{
    struct ofi *o = ofi_of(m);

    m->lanes_moved++;
    for (uint32_t i = 0; i < count; i++) {
        struct lane *l = (struct lane *)lanes[i];
        CHECK(l->state == LANE_OPEN);
        if (l->pub.spec.common && l->pub.spec.writer == m->self) {
            hide_copy(o, l);
        } else if (l->pub.spec.owner == m->self) {
            end_owned(o, l);
        } else if (l->pub.spec.writer == m->self) {
            end_written(o, l);
        } else {
            l->link_id = 0;
            l->state = LANE_OVER;
        }
    }
}

void ofi_region_lanes_end(struct ofi *o, uint32_t region)
{
    for (uint32_t i = 0; i < o->lanes; i++) {
        struct mem_lane *l = &o->lane[i]->pub;
        bool hidden = l->spec.common && l->spec.writer == o->mem.self && !o->lane[i]->shows;
        if (o->lane[i]->state == LANE_OPEN && l->spec.owner == o->mem.self &&
            l->spec.region == region && !hidden)
            ofi_lanes_end(&o->mem, &l, 1);
    }
}

/* Their wish for a lane that they do not want any more. */
static void want_drop(struct link *l, const struct mem_lane_spec *spec)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < l->pendings; i++)
        if (!same_key(&l->pending[i].spec, spec))
            l->pending[left++] = l->pending[i];
    l->pendings = left;
}

/* The writer of a lane of ours has ended it. */
static bool writer_ended(struct link *l, const struct mem_lane_spec *spec)
{
    struct ofi *o = l->node;
    struct lane *lane = find_lane(o, spec);

    want_drop(l, spec);
    if (lane && lane->state == LANE_OPEN) {
        lane->writer_link = 0;
        lane->owed = true;
        return true;
    }
    if (lane && lane->state == LANE_ENDED) {
        lane_over(o, lane);
        return true;
    }
    return send_end(l, spec);
}

/* The owner of a lane that we write or read has ended it. */
static void owner_ended(struct link *l, const struct mem_lane_spec *spec)
{
    struct lane *lane = find_lane(l->node, spec);

    if (!lane)
        return;
    lane->link_id = 0;
    if (lane->pub.spec.writer != l->node->mem.self)
        return;
    if (lane->state == LANE_ENDED)
        lane->state = LANE_OVER;
    else
        lane->owner_ended = lane->state == LANE_OPEN;
}

bool ofi_lanes_ended(struct link *l, const struct ofi_end *end, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct mem_lane_spec *spec = &end[i].spec;
        if (spec->owner == l->peer->node)
            owner_ended(l, spec);
        else if (spec->owner != l->node->mem.self || spec->writer != l->peer->node ||
                 !writer_ended(l, spec))
            return false;
    }
    return true;
}

bool ofi_lanes_end_again(struct link *l)
{
    struct ofi *o = l->node;

    for (uint32_t i = 0; i < o->lanes; i++) {
        struct lane *lane = o->lane[i];
        if (lane->state != LANE_ENDED || lane->pub.spec.owner != l->peer->node)
            continue;
        if (lane->birth != l->birth)
            lane->state = LANE_OVER; /* who had it is no more */
        else if (!send_end(l, &lane->pub.spec))
            return false;
    }
    return true;
}

/* Nothing comes over it any more, and what was said on it is to be said again. */
void ofi_lanes_link_ended(struct link *l)
{
    struct ofi *o = l->node;

    for (uint32_t i = 0; i < o->lanes; i++) {
        struct lane *lane = o->lane[i];
        if (lane->pub.spec.owner == l->peer->node)
            lane->owner_ended = false;
        if (lane->pub.spec.owner != o->mem.self || lane->pub.spec.writer != l->peer->node)
            continue;
        lane->writer_link = 0;
        lane->owed = false;
        if (lane->state == LANE_ENDED)
            lane_over(o, lane);
    }
}
