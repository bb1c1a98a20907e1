/* Sending from another thread (include/tram/group.h).
 *
 * A handle has a ring of its own between the two threads, and the group's thread copies what is ready into the member's stream. So the
 * other thread never sees a view: where the stream moves, is cut or wedged, messages wait here. They get their index when the member
 * publishes them, and a lease that is open here holds up nothing of the group's own.
 *
 *      taken            ready            head
 *   -----|--- committed ---|--- leases ---|-----      positions, which never fall
 *
 * The group's thread writes `taken`, the other one the rest. `ready` is the one release word: its store pairs with the load in take(). */
#include "api/group_impl.h"

#include "base/lines.h"
#include "mem/wrap.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEAD_BYTES = 16,    /* of a record; records begin at multiples of it */
    LEAST_MESSAGES = 8, /* that fit into a ring, as into the cell's own */
    RETRY_NS = 1000000, /* what has no room in the stream is tried again, if nothing else happens */
    ROUND_PART = 4,     /* of the ring at most this part is taken in a round */
};

enum lease { LEASE_OPEN, LEASE_READY, LEASE_SKIP };

struct lease_head {
    uint32_t size; /* of all of it */
    uint32_t bytes;
    uint64_t state; /* of enum lease */
};

_Static_assert(sizeof(struct lease_head) == HEAD_BYTES, "records are aligned to their head");

struct tram_sender {
    /* Set at open. */
    struct tram_group *of;
    uint32_t cell, message_max;
    uint64_t ring_bytes;
    unsigned char *ring;
    /* The other thread's. */
    _Alignas(64) uint64_t head;
    uint64_t committed; /* as `ready` */
    uint64_t free_from; /* `taken` as last seen */
    /* Between the two. */
    _Alignas(64) _Atomic uint64_t ready;
    _Alignas(64) _Atomic uint64_t taken;
    _Alignas(
        64) _Atomic bool asleep; /* the group's thread sleeps, or looks for the last time before it does */
};

static struct lease_head *lease_at(const struct tram_sender *s, uint64_t pos)
{
    return (struct lease_head *)(void *)(s->ring + (pos & (s->ring_bytes - 1)));
}

static uint64_t size_of(uint32_t bytes)
{
    return HEAD_BYTES + (((uint64_t)bytes + 15) & ~UINT64_C(15));
}

/* ---- in the other thread ---- */

static bool has_room(struct tram_sender *s, uint64_t bytes)
{
    if (s->head + bytes <= s->free_from + s->ring_bytes)
        return true;
    s->free_from = atomic_load_explicit(&s->taken, memory_order_acquire);
    return s->head + bytes <= s->free_from + s->ring_bytes;
}

static struct lease_head *add(struct tram_sender *s, uint64_t size, uint32_t bytes,
                              enum lease state)
{
    struct lease_head *l = lease_at(s, s->head);
    *l = (struct lease_head){.size = (uint32_t)size, .bytes = bytes, .state = state};
    s->head += size;
    return l;
}

void *tram_sender_reserve(struct tram_sender *s, uint32_t bytes)
{
    if (bytes > s->message_max)
        return NULL;
    uint64_t size = size_of(bytes), straight = ring_straight(s->ring_bytes, s->head);
    uint64_t skip = size > straight ? straight : 0;
    if (!has_room(s, skip + size))
        return NULL;
    if (skip)
        add(s, skip, 0, LEASE_SKIP);
    return add(s, size, bytes, LEASE_OPEN) + 1;
}

/* The group's thread stores `asleep`, fences and looks for the last time; here `ready` is stored, then `asleep` looked at: one of the two
 * sees the other's. Only the first to see it pays for the bell. */
static void wake(struct tram_sender *s)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&s->asleep, memory_order_relaxed) &&
        atomic_exchange(&s->asleep, false))
        tram_group_wake(s->of);
}

/* All that is ready up to the first lease that is open. */
static void advance(struct tram_sender *s)
{
    uint64_t pos = s->committed;
    while (pos < s->head && lease_at(s, pos)->state != LEASE_OPEN)
        pos += lease_at(s, pos)->size;
    if (pos == s->committed)
        return;
    s->committed = pos;
    atomic_store_explicit(&s->ready, pos, memory_order_release);
    wake(s);
}

static struct lease_head *lease_of(const struct tram_sender *s, void *room)
{
    struct lease_head *l = (struct lease_head *)room - 1;
    CHECK((unsigned char *)l >= s->ring && (unsigned char *)room <= s->ring + s->ring_bytes &&
          l->state == LEASE_OPEN);
    return l;
}

void tram_sender_commit(struct tram_sender *s, void *room, uint32_t bytes)
{
    struct lease_head *l = lease_of(s, room);
    CHECK(bytes <= l->bytes);
    if (l == lease_at(s, s->head - l->size)) { /* the last: what it does not use is free again */
        s->head -= l->size;
        l->size = (uint32_t)size_of(bytes);
        s->head += l->size;
    }
    l->bytes = bytes;
    l->state = LEASE_READY;
    advance(s);
}

void tram_sender_release(struct tram_sender *s, void *room)
{
    lease_of(s, room)->state = LEASE_SKIP;
    advance(s);
}

int tram_sender_send(struct tram_sender *s, const void *data, uint32_t bytes,
                     struct tram_error *error)
{
    struct err e = {""};
    void *room = tram_sender_reserve(s, bytes);
    if (room) {
        memcpy(room, data, bytes);
        tram_sender_commit(s, room, bytes);
        return TRAM_OK;
    }
    const struct cluster_cell_name name = cluster_cell_name(s->of->cluster->conf, s->cell);
    int rc = bytes > s->message_max
                 ? err_set(&e, ERR_TOOBIG, "cell %s: a message of %u bytes; message_max is %u",
                           name.s, bytes, s->message_max)
                 : err_set(&e, ERR_AGAIN, "cell %s: the sender's ring is full", name.s);
    return api_error(error, rc, &e);
}

uint64_t tram_sender_waiting(const struct tram_sender *s)
{
    return s->head - atomic_load_explicit(&s->taken, memory_order_acquire);
}

/* ---- in the group's thread ---- */

static bool pass_on(struct tram_sender *s, const struct lease_head *l)
{
    void *room = tram_reserve(s->of, s->cell, l->bytes);
    if (room == NULL)
        return false;
    memcpy(room, l + 1, l->bytes);
    tram_commit(s->of, s->cell, room, l->bytes);
    return true;
}

/* Gives what is ready to the member, as far as it has room. */
static int take(struct tram_sender *s)
{
    uint64_t from = atomic_load_explicit(&s->taken, memory_order_relaxed), pos = from;
    uint64_t ready = atomic_load_explicit(&s->ready, memory_order_acquire);
    while (pos < ready && pos - from < s->ring_bytes / ROUND_PART) {
        const struct lease_head *l = lease_at(s, pos);
        if (l->state == LEASE_READY && !pass_on(s, l))
            break;
        pos += l->size;
    }
    if (pos == from)
        return 0;
    atomic_store_explicit(&s->taken, pos, memory_order_release);
    return 1;
}

/* The thread sleeps if it finds nothing in this round: from here on a commit wakes it. */
static void doze(struct tram_sender *s, bool dozes)
{
    if (!dozes && !atomic_load_explicit(&s->asleep, memory_order_relaxed))
        return;
    atomic_store_explicit(&s->asleep, dozes, memory_order_relaxed);
    if (dozes)
        atomic_thread_fence(memory_order_seq_cst);
}

static int take_all(struct unit *u)
{
    struct group_senders *all = u->of;
    int work = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        doze(all->sender[i], u->dozes);
        work += take(all->sender[i]);
    }
    return work;
}

/* What is taken is to leave in the same round: where a round begins with writing that is before the memory is polled, over a network
 * after it. */
static int post(struct unit *u, uint64_t now_ns)
{
    const struct group_senders *all = u->of;
    (void)now_ns;
    return all->of->run.mem->remote ? 0 : take_all(u);
}

static int settle(struct unit *u, uint64_t now_ns)
{
    struct group_senders *all = u->of;
    all->now_ns = now_ns;
    return all->of->run.mem->remote ? take_all(u) : 0;
}

static uint64_t next_ns(const struct unit *u)
{
    const struct group_senders *all = u->of;
    for (uint32_t i = 0; i < all->count; i++)
        if (atomic_load_explicit(&all->sender[i]->ready, memory_order_relaxed) !=
            atomic_load_explicit(&all->sender[i]->taken, memory_order_relaxed))
            return all->now_ns + RETRY_NS;
    return UINT64_MAX;
}

static void status(const struct unit *u, struct unit_status *s)
{
    (void)u;
    *s = (struct unit_status){.leader = UINT32_MAX};
}

static void close_unit(struct unit *u)
{
    group_senders_close(((struct group_senders *)u->of)->of);
}

static void add_unit(struct tram_group *g)
{
    static const struct unit_ops ops = {
        .post = post, .settle = settle, .next_ns = next_ns, .status = status, .close = close_unit};
    if (g->senders.of)
        return;
    g->senders.of = g;
    host_add(&g->run.host, (struct unit){.ops = &ops, .of = &g->senders, .leads = true});
}

/* ---- opening ---- */

static int check(const struct tram_group *g, uint32_t cell, uint32_t ring_bytes, struct err *e)
{
    if (cell >= g->cells)
        return err_set(e, ERR_NOTFOUND, "there is no cell %u", cell);
    const struct cluster_cell_name name = cluster_cell_name(g->cluster->conf, cell);
    const struct cell_options *o = &g->options[cell];
    if (!in_set(o->layout.senders & o->layout.hosts, g->index))
        return err_set(e, ERR_REFUSED, "cell %s: host %s is not among its senders", name.s,
                       g->host_name[g->index]);
    if (ring_bytes & (ring_bytes - 1) || ring_bytes / LEAST_MESSAGES < o->message_max)
        return err_set(e, ERR_INVALID,
                       "cell %s: a sender's ring of %u bytes; it is to be a power of two, of at "
                       "least %d times message_max (%u)",
                       name.s, ring_bytes, LEAST_MESSAGES, o->message_max);
    if (g->simulated)
        return err_set(e, ERR_INVALID,
                       "host %s is simulated, and there is no other thread in a simulation",
                       g->host_name[g->index]);
    if (g->senders.count == GROUP_SENDERS_MAX)
        return err_set(e, ERR_NOMEM, "a group has at most %d senders open", GROUP_SENDERS_MAX);
    return 0;
}

int tram_sender_open(struct tram_group *g, uint32_t cell, uint32_t ring_bytes,
                     struct tram_sender **out, struct tram_error *error)
{
    struct err e = {""};
    uint32_t ring = ring_bytes || cell >= g->cells ? ring_bytes : g->options[cell].ring_bytes;
    int rc = check(g, cell, ring, &e);
    if (rc != 0)
        return api_error(error, rc, &e);
    struct tram_sender *s = lines_alloc(sizeof(*s));
    unsigned char *at = s ? lines_alloc(ring) : NULL;
    if (at == NULL) {
        free(s);
        return api_error(error, err_set(&e, ERR_NOMEM, "no memory for a sender's ring"), &e);
    }
    s->of = g;
    s->cell = cell;
    s->message_max = g->options[cell].message_max;
    s->ring_bytes = ring;
    s->ring = at;
    add_unit(g);
    g->senders.sender[g->senders.count++] = s;
    *out = s;
    return TRAM_OK;
}

/* What was committed and not taken comes back, as what a member does not send any more. */
static void give_back(const struct tram_sender *s)
{
    struct tram_group *g = s->of;
    uint64_t pos = atomic_load(&s->taken), ready = atomic_load(&s->ready);
    for (const struct lease_head *l; pos < ready; pos += l->size) {
        l = lease_at(s, pos);
        if (l->state == LEASE_READY && g->machine.returned)
            g->machine.returned(g->ctx, s->cell, l + 1, l->bytes);
    }
}

void tram_sender_close(struct tram_sender *s)
{
    if (s == NULL)
        return;
    struct group_senders *all = &s->of->senders;
    uint32_t at = 0;
    while (all->sender[at] != s)
        CHECK(++at < all->count);
    all->sender[at] = all->sender[--all->count];
    give_back(s);
    free(s->ring);
    free(s);
}

void group_senders_close(struct tram_group *g)
{
    while (g->senders.count > 0)
        tram_sender_close(g->senders.sender[g->senders.count - 1]);
}
