#include "mem/shm/impl.h"

#include "base/clock.h"
#include "base/planted.h"
#include "mem/wrap.h"

#include <string.h>

/* What flows and ops keep in the words that mem.h gives the backend. */
struct flow_impl {
    struct mem_flow *next; /* in the list of pending flows */
    struct peer *peer;
    _Atomic uint64_t *promised; /* the owner's word; NULL without a ballot */
    uint64_t losses;            /* of the owner's memory when the flow was opened */
    uint64_t needs;             /* own version that the owner must have mapped */
    uint64_t listed;
} __attribute__((may_alias));
_Static_assert(sizeof(struct flow_impl) <= sizeof(((struct mem_flow *)0)->impl), "fits");

enum { CACHE_LINE = 64 };

enum op_kind { OP_RAISE, OP_READ_CTL, OP_READ_RING };

struct op_impl {
    struct mem_op *next;
    void *target; /* lane, or for a raise the owner's peer */
    void *out;    /* destination, or for a raise the promised word */
    uint64_t at;  /* word, position or ballot */
    uint32_t count;
    uint32_t kind;
    uint32_t missing;  /* node whose memory it waits for */
    uint32_t failures; /* of fetching that memory, when the wait began */
} __attribute__((may_alias));
_Static_assert(sizeof(struct op_impl) <= sizeof(((struct mem_op *)0)->impl), "fits");

static struct flow_impl *flow_impl(struct mem_flow *f)
{
    return (struct flow_impl *)f->impl;
}

static struct op_impl *op_impl(struct mem_op *op)
{
    return (struct op_impl *)op->impl;
}

/* Ring bytes may be read while they are written: readers check a guard afterwards. For
 * ThreadSanitizer, which cannot know that, they are copied as atomic words. */
static void copy_in(unsigned char *to, const void *from, uint32_t bytes)
{
#if defined(__SANITIZE_THREAD__)
    for (uint32_t i = 0; i < bytes; i += 8) {
        uint64_t word;
        memcpy(&word, (const unsigned char *)from + i, 8);
        atomic_store_explicit((_Atomic uint64_t *)(to + i), word, memory_order_relaxed);
    }
#else
    memcpy(to, from, bytes);
#endif
}

static void copy_out(void *to, const unsigned char *from, uint32_t bytes)
{
#if defined(__SANITIZE_THREAD__)
    for (uint32_t i = 0; i < bytes; i += 8) {
        uint64_t word =
            atomic_load_explicit((const _Atomic uint64_t *)(from + i), memory_order_relaxed);
        memcpy((unsigned char *)to + i, &word, 8);
    }
#else
    memcpy(to, from, bytes);
#endif
}

static inline uint32_t first_slot(uint32_t region)
{
    return (region ^ region >> 16) * 0x9e3779b1u >> 20;
}

/* Where the region is in the table of a grant, or would be. A peer may have written anything there: the
 * search ends after one turn. */
static struct grant_region *region_slot(struct grant *g, uint32_t region, uint64_t *key)
{
    uint32_t slot = first_slot(region);

    for (uint32_t i = 0; i < SHM_REGION_SLOTS; i++) {
        struct grant_region *r = &g->region[(slot + i) % SHM_REGION_SLOTS];
        *key = atomic_load_explicit(&r->key, memory_order_acquire);
        if (*key == region + UINT64_C(1) || *key == 0)
            return r;
    }
    return NULL;
}

static struct grant_region *find_region(struct grant *g, uint32_t region)
{
    uint64_t key = 0;
    struct grant_region *r = g ? region_slot(g, region, &key) : NULL;

    return key ? r : NULL;
}

/* How often the owner has lost its memory, now. Of one whose process is dead its file is asked each time, since the next
 * process may have counted meanwhile. */
static uint64_t losses_now(const struct shm *s, const struct peer *p)
{
    return p->losses_sure && life_runs(s, p) ? p->losses_sure - 1 : losses_read(p->losses_fd);
}

/* Has the owner given up the memory that we know as its memory? Pairs with the count in the lock
 * file, which rises before a new memory is opened. */
static bool memory_given_up(const struct shm *s, const struct peer *p, uint64_t losses)
{
    return p->losses_fd >= 0 && losses_now(s, p) != losses;
}

static int shm_region_open(struct mem *m, uint32_t region, enum mem_birth *birth, struct err *e)
{
    struct shm *s = shm_of(m);
    struct grant *g = s->grant;
    uint64_t key;

    if (s->self->role == SHM_CLIENT) { /* it promises nothing, so there is nothing to note */
        *birth = MEM_BIRTH_NEW;
        return 0;
    }
    struct grant_region *r = region_slot(g, region, &key);
    if (!r || (!key && s->regions == SHM_REGIONS_MAX))
        return err_set(e, ERR_TOOBIG, "open region %u: node %s has %u regions, the maximum", region,
                       s->self->name, SHM_REGIONS_MAX);
    uint8_t *state = &s->region_state[r - g->region];
    if (!key) {
        s->regions++;
        *state = REGION_OPENED;
        /* It is new only if no memory was ever lost: in one that was it may have promised, and the life that lost it may have
         * ended before it came to open the region. What that life had is kept, and says nothing of it. */
        bool lost = s->losses > 0;
        atomic_store_explicit(&r->promised, lost ? MEM_CLOSED : 0, memory_order_relaxed);
        atomic_store_explicit(&r->key, region + UINT64_C(1), memory_order_release);
        *birth = lost ? MEM_BIRTH_LOST : MEM_BIRTH_NEW;
        return 0;
    }
    if (*state != REGION_UNKNOWN)
        return err_set(e, ERR_EXISTS, "open region %u of node %s: it %s", region, s->self->name,
                       *state == REGION_OPENED ? "is open" : "was ended in this life");
    *state = REGION_OPENED;
    /* A life that lost the memory and died before it was let in again has kept only that fact. */
    bool closed = atomic_load_explicit(&r->promised, memory_order_seq_cst) == MEM_CLOSED;
    *birth = closed ? MEM_BIRTH_LOST : MEM_BIRTH_KEPT;
    return 0;
}

static void shm_region_grant(struct mem *m, uint32_t region, uint64_t ballot)
{
    struct shm *s = shm_of(m);
    struct grant_region *r = find_region(s->grant, region);
    uint64_t closed = MEM_CLOSED;

    CHECK(r != NULL && s->region_state[r - s->grant->region] == REGION_OPENED);
    atomic_compare_exchange_strong(&r->promised, &closed, ballot);
}

static void shm_region_end(struct mem *m, uint32_t region)
{
    struct shm *s = shm_of(m);
    struct grant_region *r = s->grant ? find_region(s->grant, region) : NULL;

    shm_region_lanes_end(s, region);
    if (!r)
        return; /* a client's, which promises nothing */
    s->region_state[r - s->grant->region] = REGION_ENDED;
    atomic_store_explicit(&r->promised, MEM_CLOSED, memory_order_seq_cst);
}

static uint64_t shm_promised(struct mem *m, uint32_t region)
{
    struct grant *g = shm_of(m)->grant;
    struct grant_region *r = &g->region[first_slot(region)];

    /* Several times in every round of every group, and nearly always the first that is looked at. */
    if (atomic_load_explicit(&r->key, memory_order_acquire) != region + UINT64_C(1)) {
        r = find_region(g, region);
        CHECK(r != NULL);
    }
    return atomic_load_explicit(&r->promised, memory_order_seq_cst);
}

static void unlist_flow(struct shm *s, struct mem_flow *f)
{
    for (struct mem_flow **at = &s->pending; *at; at = &flow_impl(*at)->next)
        if (*at == f) {
            *at = flow_impl(f)->next;
            return;
        }
}

static void shm_flow_open(struct mem *m, struct mem_flow *f, uint32_t owner, uint32_t region,
                          uint64_t ballot)
{
    struct shm *s = shm_of(m);
    struct flow_impl *impl = flow_impl(f);

    unlist_flow(s, f); /* it may be an open one; its old content says nothing */
    memset(f, 0, sizeof *f);
    f->owner = owner;
    f->region = region;
    f->ballot = ballot;
    f->status = MEM_LOST;

    struct peer *p = peer_of(s, owner);
    if (!p || !atomic_load_explicit(&p->acked, memory_order_acquire))
        return; /* nobody there has our memory, so nothing we write could count */
    impl->peer = p;
    if (p->grant) {
        impl->losses = p->grant->losses;
        struct grant_region *r = find_region(p->grant, region);
        impl->promised = r ? &r->promised : NULL;
    } else if (p->role == SHM_HOST && s->self->role == SHM_HOST && !m->hostile) {
        return;
    } else if (p->losses_fd >= 0) {
        impl->losses = losses_now(s, p);
    }
    if (ballot && !impl->promised)
        return;
    if (p != s->self && memory_given_up(s, p, impl->losses))
        return;
    f->status = MEM_DONE;
}

static void shm_flow_close(struct mem *m, struct mem_flow *f)
{
    unlist_flow(shm_of(m), f);
    f->status = MEM_LOST;
}

static void shm_put(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint64_t pos,
                    const void *data, uint32_t bytes)
{
    struct lane *lane = (struct lane *)l;
    struct flow_impl *impl = flow_impl(f);
    uint32_t ring_bytes = l->spec.ring_bytes;

    (void)m;
    CHECK(lane->wring && l->spec.owner == f->owner && l->spec.region == f->region);
    CHECK(bytes <= ring_bytes && (bytes & 7) == 0 && (pos & 7) == 0);
    if (f->status != MEM_DONE)
        return;
    if (impl->needs < lane->version)
        impl->needs = lane->version;
    if (l->spec.common)
        return;                                /* it is there: the copy is the memory of all */
    atomic_thread_fence(memory_order_release); /* after all earlier writes; pairs as set does */
    /* The ring's next lines have left the cache a lap ago. Whoever writes them next time would wait for them: not the
     * store itself, but all that comes after it once too many stores wait. */
    const unsigned char *next = lane->wring + ((pos + bytes) & (ring_bytes - 1));
    __builtin_prefetch(next + CACHE_LINE - 1, 1);
    __builtin_prefetch(next + 2 * CACHE_LINE - 1, 1);
    uint32_t straight = (uint32_t)ring_straight(ring_bytes, pos);
    uint32_t first = bytes < straight ? bytes : straight;
    copy_in(lane->wring + (pos & (ring_bytes - 1)), data, first);
    if (bytes > first)
        copy_in(lane->wring, (const unsigned char *)data + first, bytes - first);
}

static void shm_put_kept(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint64_t pos,
                         const void *data, uint32_t bytes)
{
    CHECK(f->ballot == 0);
    shm_put(m, f, l, pos, data, bytes); /* into a common lane that is nothing */
}

static void shm_set(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint32_t word,
                    const uint64_t *values, uint32_t count)
{
    struct lane *lane = (struct lane *)l;
    struct flow_impl *impl = flow_impl(f);

    (void)m;
    CHECK(lane->wctl && l->spec.owner == f->owner && l->spec.region == f->region);
    CHECK(word + (uint64_t)count <= l->spec.ctl_words);
    if (f->status != MEM_DONE)
        return;
    if (impl->needs < lane->version)
        impl->needs = lane->version;
    if (l->spec.common)
        return;
    /* Each release pairs with the acquire in mem_word and in read_ctl. */
    for (uint32_t i = 0; i < count; i++)
        atomic_store_explicit(&lane->wctl[word + i], values[i], memory_order_release);
}

static void shm_mark(struct mem *m, struct mem_flow *f, uint64_t tag)
{
    struct shm *s = shm_of(m);
    struct flow_impl *impl = flow_impl(f);

    f->marked = tag;
    if (f->status != MEM_DONE || impl->listed)
        return;
    impl->listed = 1;
    impl->next = s->pending;
    s->pending = f;
}

/* Judges the marks of one flow, after the fence. True if it has changed. */
static bool settle(struct shm *s, struct mem_flow *f)
{
    struct flow_impl *impl = flow_impl(f);
    struct peer *p = impl->peer;

    if (p != s->self && memory_given_up(s, p, impl->losses)) {
        f->status = MEM_LOST;
        return true;
    }
    /* Acquire: gen[] at the owner was written before this acknowledgement, and the promise is
     * looked at after it. */
    if (impl->needs > atomic_load_explicit(&p->acked, memory_order_acquire)) {
        if (!life_over(s, p))
            return false;
        f->status = MEM_LOST; /* nobody is left there to map what we wrote to */
        return true;
    }
    if (f->ballot && atomic_load_explicit(impl->promised, memory_order_seq_cst) != f->ballot) {
        f->status = MEM_DENIED;
        return true;
    }
    f->done = f->marked;
    return true;
}

static int settle_all(struct shm *s)
{
    struct mem_flow **at = &s->pending;
    int changed = 0;

    while (*at) {
        struct mem_flow *f = *at;
        if (settle(s, f)) {
            flow_impl(f)->listed = 0;
            *at = flow_impl(f)->next;
            changed++;
        } else {
            at = &flow_impl(f)->next;
        }
    }
    return changed;
}

/* Copies what a read asks for; the writer's memory is adopted, or was never there. */
static enum mem_status take_read(struct op_impl *impl)
{
    struct lane *lane = impl->target;

    if (lane->mismatch || (lane->ended_by && !lane->rctl))
        return MEM_LOST;
    if (!lane->rctl) {
        /* Nothing in this lane has ever counted at its owner: it is as it is born. */
        memset(impl->out, 0, impl->kind == OP_READ_CTL ? impl->count * 8ul : impl->count);
        return MEM_DONE;
    }
    if (impl->kind == OP_READ_CTL) {
        uint64_t *out = impl->out;
        for (uint32_t i = 0; i < impl->count; i++)
            out[i] = atomic_load_explicit(&lane->rctl[impl->at + i], memory_order_acquire);
        return MEM_DONE;
    }
    uint32_t ring_bytes = lane->pub.spec.ring_bytes;
    uint32_t straight = (uint32_t)ring_straight(ring_bytes, impl->at);
    uint32_t first = impl->count < straight ? impl->count : straight;
    copy_out(impl->out, lane->rring + (impl->at & (ring_bytes - 1)), first);
    copy_out((unsigned char *)impl->out + first, lane->rring, impl->count - first);
    /* A guard that is read after these bytes must not be read before them. */
    atomic_thread_fence(memory_order_acquire);
    return MEM_DONE;
}

/* Where nodes may lie: has all come here that this node may have written? A correct one that lives answers at once; whoever has been waited for longer
 * than that takes, all in all, is waited for no more, or it could hold up every read as long as it likes. */
static enum mem_status writer_here(struct shm *s, struct peer *w, struct peer **missing)
{
    uint64_t version = w->voice ? atomic_load(&w->voice->version) : UINT64_MAX;
    bool here = version <= w->version || (uint32_t)version == 0;

    if (here && w->wait_since_ns == 0)
        return MEM_DONE;
    uint64_t now_ns = clock_now_ns();
    if (here) {
        w->waited_ns += now_ns - w->wait_since_ns;
        w->wait_since_ns = 0;
        return MEM_DONE;
    }
    if (w->wait_since_ns == 0)
        w->wait_since_ns = now_ns;
    *missing = w;
    return w->waited_ns + (now_ns - w->wait_since_ns) < s->answer_timeout_ns ? MEM_PENDING
                                                                             : MEM_LOST;
}

/* The state of an op now: finished, or waiting for some node's memory. */
static enum mem_status try_op(struct shm *s, struct mem_op *op, struct peer **missing)
{
    struct op_impl *impl = op_impl(op);
    struct lane *lane = impl->kind == OP_RAISE ? NULL : impl->target;
    struct peer *owner = lane ? peer_of(s, lane->pub.spec.owner) : impl->target;

    /* What we wrote, whoever owns it, and what is written to a client: this is all there is. */
    if (lane && (lane->wctl || (owner == s->self && !s->grant)))
        return take_read(impl);
    if (s->mem.hostile && lane && owner != s->self) {
        enum mem_status here = writer_here(s, peer_of(s, lane->pub.spec.writer), missing);
        return here == MEM_DONE ? take_read(impl) : here;
    }
    if (!owner || !owner->grant)
        return MEM_LOST;
    if (owner != s->self && memory_given_up(s, owner, owner->grant->losses))
        return MEM_LOST;
    enum mem_status adopted = gens_adopted(s, owner, missing);
    if (adopted != MEM_DONE)
        return adopted;
    if (lane)
        return take_read(impl);
    op->value = atomic_load_explicit((_Atomic uint64_t *)impl->out, memory_order_seq_cst);
    return op->value == impl->at ? MEM_DONE : MEM_DENIED;
}

static void start_op(struct shm *s, struct mem_op *op)
{
    struct op_impl *impl = op_impl(op);
    struct peer *missing = NULL;

    op->status = try_op(s, op, &missing);
    if (op->status != MEM_PENDING)
        return;
    impl->missing = missing->node;
    impl->failures = atomic_load_explicit(&missing->fetch_failures, memory_order_relaxed);
    impl->next = s->ops;
    s->ops = op;
}

static int progress_ops(struct shm *s)
{
    struct mem_op **at = &s->ops;
    int finished = 0;

    while (*at) {
        struct mem_op *op = *at;
        struct op_impl *impl = op_impl(op);
        struct peer *missing = NULL;
        enum mem_status status = try_op(s, op, &missing);

        if (status == MEM_PENDING) {
            uint32_t failures =
                atomic_load_explicit(&missing->fetch_failures, memory_order_relaxed);
            if (missing->node == impl->missing && failures != impl->failures) {
                status = MEM_LOST;
            } else if (missing->node != impl->missing) {
                impl->missing = missing->node;
                impl->failures = failures;
            }
        }
        if (status == MEM_PENDING) {
            at = &impl->next;
            continue;
        }
        *at = impl->next;
        op->status = status;
        finished++;
    }
    return finished;
}

static void shm_raise(struct mem *m, struct mem_op *op, uint32_t owner, uint32_t region,
                      uint64_t ballot)
{
    struct shm *s = shm_of(m);
    struct peer *p = peer_of(s, owner);
    struct grant_region *r = p ? find_region(p->grant, region) : NULL;
    struct op_impl *impl = op_impl(op);

    op->value = 0;
    op->status = MEM_LOST;
    if (!r)
        return;
    uint64_t found = atomic_load_explicit(&r->promised, memory_order_seq_cst);
    while (found < ballot && !atomic_compare_exchange_weak(&r->promised, &found, ballot))
        ;
    /* Either a writer's load, after its fence, sees the raise, or what it wrote before that fence
     * is seen by our reads from here on. */
    full_fence();
    op->value = found > ballot ? found : ballot;
    if (found > ballot) {
        op->status =
            p != s->self && memory_given_up(s, p, p->grant->losses) ? MEM_LOST : MEM_DENIED;
        return;
    }
    *impl = (struct op_impl){.target = p, .out = &r->promised, .at = ballot, .kind = OP_RAISE};
    start_op(s, op);
}

/* Finished as a raise is. A life that has come since does no harm: it has the same memory, and has promised nothing, or
 * another one, and then this one does not count any more. */
static void shm_grant(struct mem *m, struct mem_op *op, uint32_t owner, uint32_t region,
                      uint32_t life, uint64_t ballot)
{
    struct shm *s = shm_of(m);
    struct peer *p = peer_of(s, owner);
    struct grant_region *r = p ? find_region(p->grant, region) : NULL;
    uint64_t found = MEM_CLOSED;

    op->value = 0;
    op->status = MEM_LOST;
    if (!r)
        return;
    uint32_t now = p == s->self ? m->life : p->life_number;
    if (now == life && atomic_compare_exchange_strong(&r->promised, &found, ballot)) {
        full_fence();
        *op_impl(op) =
            (struct op_impl){.target = p, .out = &r->promised, .at = ballot, .kind = OP_RAISE};
        start_op(s, op);
        return;
    }
    op->value = atomic_load_explicit(&r->promised, memory_order_seq_cst);
    op->status = p != s->self && memory_given_up(s, p, p->grant->losses) ? MEM_LOST : MEM_DENIED;
}

static void shm_peek(struct mem *m, struct mem_op *op, uint32_t owner, uint32_t region)
{
    struct shm *s = shm_of(m);
    struct peer *p = peer_of(s, owner);
    struct grant_region *r = p ? find_region(p->grant, region) : NULL;

    op->value = 0;
    op->status = MEM_LOST;
    if (!r)
        return;
    op->value = atomic_load_explicit(&r->promised, memory_order_seq_cst);
    if (p == s->self || !memory_given_up(s, p, p->grant->losses))
        op->status = MEM_DONE;
}

static void shm_read_ctl(struct mem *m, struct mem_op *op, struct mem_lane *l, uint32_t word,
                         uint32_t count, uint64_t *out)
{
    CHECK(word + (uint64_t)count <= l->spec.ctl_words);
    *op_impl(op) =
        (struct op_impl){.target = l, .out = out, .at = word, .count = count, .kind = OP_READ_CTL};
    start_op(shm_of(m), op);
}

static void shm_read_ring(struct mem *m, struct mem_op *op, struct mem_lane *l, uint64_t pos,
                          void *out, uint32_t bytes)
{
    CHECK(bytes <= l->spec.ring_bytes && (bytes & 7) == 0 && (pos & 7) == 0);
    *op_impl(op) =
        (struct op_impl){.target = l, .out = out, .at = pos, .count = bytes, .kind = OP_READ_RING};
    start_op(shm_of(m), op);
}

static int shm_poll(struct mem *m)
{
    struct shm *s = shm_of(m);
    int changed = 0;

    if (!s->alive_locked)
        alive_lock(s);
    if (atomic_load_explicit(&s->inbox_count, memory_order_acquire) != s->inbox_seen || s->held)
        changed += shm_adopt(s);
    bool ring = s->rings && (s->pending || rings_due(s));
    if ((s->pending || ring) && !PLANTED(no_fence))
        full_fence();
    if (s->pending)
        changed += settle_all(s);
    if (ring)
        rings_do(s);
    if (s->ops)
        changed += progress_ops(s);
    return changed;
}

static bool shm_dead(struct mem *m, uint32_t node)
{
    struct shm *s = shm_of(m);
    struct peer *p = peer_of(s, node);

    return p && p != s->self && life_over(s, p);
}

static uint32_t shm_dead_hosts(struct mem *m)
{
    struct shm *s = shm_of(m);
    uint32_t dead = 0;

    for (uint32_t i = 0; i < s->hosts_count; i++)
        dead += s->hosts[i] != s->self && life_over(s, s->hosts[i]);
    return dead;
}

bool shm_connected(struct mem *m, uint32_t node)
{
    struct shm *s = shm_of(m);
    struct peer *p = peer_of(s, node);

    if (p == s->self)
        return true;
    return p && p->ready && !life_over(s, p) &&
           atomic_load_explicit(&p->acked, memory_order_acquire) >=
               outlet_version(s, outlet_of(s, p));
}

static bool shm_is_known(struct mem *m)
{
    struct shm *s = shm_of(m);

    for (uint32_t i = 0; i < s->hosts_count; i++) {
        const struct peer *p = s->hosts[i];
        if (p != s->self && !shm_connected(m, p->node) && node_alive(s, p->name))
            return false;
    }
    return true;
}

const struct mem_ops shm_ops = {
    .is_known = shm_is_known,
    .region_open = shm_region_open,
    .region_grant = shm_region_grant,
    .promised = shm_promised,
    .lanes_open = shm_lanes_open,
    .flow_open = shm_flow_open,
    .flow_close = shm_flow_close,
    .put = shm_put,
    .set = shm_set,
    .mark = shm_mark,
    .raise = shm_raise,
    .grant = shm_grant,
    .peek = shm_peek,
    .read_ctl = shm_read_ctl,
    .read_ring = shm_read_ring,
    .poll = shm_poll,
    .dead = shm_dead,
    .offer = shm_offer,
    .bell = shm_bell,
    .bell_later = shm_bell_later,
    .dead_hosts = shm_dead_hosts,
    .doze = shm_doze,
    .rouse = shm_rouse,
    .sleep = shm_sleep,
    .wake = shm_wake,
    .loop_open = shm_loop_open,
    .loop_arm = shm_loop_arm,
    .loop_disarm = shm_loop_disarm,
    .close = shm_close_node,
    .lanes_end = shm_lanes_end,
    .region_end = shm_region_end,
    .put_kept = shm_put_kept,
    .lane_next = shm_lane_next,
};
