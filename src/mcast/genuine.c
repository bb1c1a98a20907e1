/* Genuine atomic multicast: nobody but the destinations of a message works for it (RamCast's task).
 *
 * A client writes a message to all replicas of all its destinations. Each destination group puts it into
 * its log and gives it a stamp (mcast/order.h); that it is decided and which stamp it has are one fact,
 * since stamps follow from the log. The group tells the other destinations its stamp, in a stream that is
 * a function of the log; they put it into theirs. So before a group delivers a message, a quorum of it
 * holds the message and every group's stamp for it, and each of these stamps was decided by a quorum of
 * the group that gave it: a change of leaders, anywhere, takes none of them back.
 *
 * A message for one group alone is delivered as soon as it is decided. Whatever else waits, it can close
 * no cycle: it is in one group's order only.
 *
 * No group ever waits for another in order to apply its log, or to take what others tell it: two that wait for each
 * other's stamps would wait for ever. What a stream has no room for waits in a backlog. When that is full the group
 * takes no more from clients, and goes on with all the rest: what others tell it ends waiting, and adds to the backlog
 * no more than for the messages that it has already. These are bounded by what clients may have under way
 * (mcast/caster.c). */
#include "base/grow.h"
#include "mcast/order.h"
#include "mcast/planted.h"
#include "mcast/protocol.h"

#include <stdlib.h>

enum {
    RING_BYTES_MIN = 8 << 10, /* of a stream */
    /* A message that waits is looked at so often before it is relayed: if its client is dead, or if it may live. */
    RELAY_DEAD_STEPS = 1,
    RELAY_STEPS = 20,
    BACKLOG_BYTES_MAX = 64 << 20, /* beyond it nothing is taken from clients */
};

/* What the stream to a group has no room for yet: frames (agree/entry.h), in order. */
struct backlog {
    unsigned char *bytes;
    uint64_t from, end, max;
    uint32_t notes;
};

struct genuine {
    struct order *order;
    struct backlog *backlog; /* by edge */
    uint64_t backlog_bytes;
    struct message_view v;
    uint16_t missing[DST_GROUPS_MAX];
    unsigned char *relay; /* one that is being put together */
};

/* Every group has a stream from every other; its number there is the number of the group. */
static void genuine_streams(const struct replica_options *o, struct protocol_streams *s)
{
    s->out_source = o->group;
    s->head_bytes = sizeof(uint64_t);
    /* Every group writes to every other: small rings stay in the cache. */
    s->ring_bytes = RING_BYTES_MIN;
    if (o->stream_bytes)
        s->ring_bytes = o->stream_bytes;
    while (s->ring_bytes <
           frame_size(message_bytes(DST_GROUPS_MAX, o->sizes.body_max) + s->head_bytes))
        s->ring_bytes *= 2;
    for (uint16_t g = 0; g < o->overlay->n; g++) {
        s->in[s->ins++] = g == o->group ? OVERLAY_NONE : g;
        if (g != o->group)
            s->out[s->outs++] = g;
    }
}

static uint32_t edge_to(const struct replica *r, uint16_t group)
{
    return group < r->opt.group ? group : group - 1u;
}

static void order_stops(void *replica, const char *why)
{
    struct replica *r = replica;
    log_stop(r->log, why);
}

static int genuine_open(struct replica *r, struct err *e)
{
    const struct mcast_sizes *z = &r->opt.sizes;
    struct genuine *g = r->own = calloc(1, sizeof(*g));
    if (g) {
        g->backlog = calloc(r->edges + 1, sizeof(*g->backlog));
        g->relay = malloc(sizeof(uint64_t) + message_bytes(DST_GROUPS_MAX, z->body_max));
    }
    if (g == NULL || g->backlog == NULL || g->relay == NULL)
        return err_set(e, ERR_NOMEM, "genuine: no memory for streams to %u groups", r->edges);
    struct order_options oo = {
        .group = r->opt.group,
        .groups = r->opt.overlay->n,
        .clients = z->clients,
        .stop = order_stops,
        .ctx = r,
    };
    return order_open(&oo, &g->order, e);
}

static void genuine_close(struct replica *r)
{
    struct genuine *g = r->own;
    if (g == NULL)
        return;
    for (uint32_t i = 0; g->backlog && i < r->edges; i++)
        free(g->backlog[i].bytes);
    free(g->backlog);
    free(g->relay);
    order_close(g->order);
    free(g);
}

static bool read_message(struct replica *r, const void *payload, uint32_t bytes)
{
    struct genuine *g = r->own;
    return message_read(payload, bytes, r->opt.sizes.clients, r->opt.overlay->n, &g->v) &&
           g->v.bytes <= r->opt.sizes.body_max;
}

/* ---- telling other groups ---- */

static void backlog_add(struct genuine *g, struct backlog *b, const void *payload, uint32_t bytes)
{
    uint64_t size = frame_size(bytes);
    if (b->end + size > b->max) {
        if (b->from > 0)
            memmove(b->bytes, b->bytes + b->from, b->end - b->from);
        b->end -= b->from;
        b->from = 0;
        if (b->end + size > b->max) {
            b->max = 2 * b->max + size;
            b->bytes = grow("the backlog of notes to another group", b->bytes, 1, b->max);
        }
    }
    struct frame *f = (void *)(b->bytes + b->end);
    *f = (struct frame){.bytes = bytes};
    memcpy(f->payload, payload, bytes);
    memset(f->payload + bytes, 0, size - sizeof(*f) - bytes); /* snapshots have it */
    b->end += size;
    b->notes++;
    g->backlog_bytes += size;
}

/* What was held back goes first. */
static void backlog_drain(struct replica *r, uint32_t edge)
{
    struct genuine *g = r->own;
    struct backlog *b = &g->backlog[edge];
    while (b->from < b->end) {
        const struct frame *f = (void *)(b->bytes + b->from);
        if (replica_send(r, edge, f->payload, f->bytes) != 0)
            return;
        b->notes--;
        b->from += frame_size(f->bytes);
        g->backlog_bytes -= frame_size(f->bytes);
    }
    b->from = b->end = 0;
}

static void tell(struct replica *r, uint16_t group, const void *payload, uint32_t bytes)
{
    struct genuine *g = r->own;
    uint32_t edge = edge_to(r, group);
    struct backlog *b = &g->backlog[edge];
    if (PLANTED(replay_gives_up) && log_replaying(r->log))
        source_make_room(r->edge[edge].source, frame_size(bytes));
    if (b->from < b->end || replica_send(r, edge, payload, bytes) != 0)
        backlog_add(g, b, payload, bytes);
    else if (b->notes > 0)
        log_stop(r->log, "a note to another group has overtaken those in the backlog");
}

static void tell_others(struct replica *r, const struct message_view *v, const struct stamp_note *t)
{
    for (uint32_t i = 0; i < v->dst.count; i++)
        if (v->dst.group[i] != r->opt.group)
            tell(r, v->dst.group[i], t, sizeof(*t));
}

/* Tells the final stamp, if this is the message's home and has them all. */
static void tell_final(struct replica *r, struct message_id id)
{
    struct genuine *g = r->own;
    const void *payload;
    uint32_t bytes;
    struct stamp_note t = {.id = id};
    t.stamp = order_complete(g->order, id, &payload, &bytes);
    t.id.mark = STAMP_NOTE_FINAL;
    if (t.stamp == 0 || order_home(payload) != r->opt.group)
        return;
    message_split(payload, bytes, &g->v);
    tell_others(r, &g->v, &t);
}

/* The message got our stamp. */
static void tell_stamp(struct replica *r, const struct message_view *v, uint64_t stamp)
{
    struct stamp_note t = {.stamp = stamp, .id = message_id(v->m)};
    uint16_t home = order_home(v->m);
    if (home == ORDER_NO_HOME)
        tell_others(r, v, &t);
    else if (home == r->opt.group)
        tell_final(r, t.id);
    else
        tell(r, home, &t, sizeof(t));
    if (PLANTED(tell_all))
        planted_tell_all(r, v->dst, &t, tell);
}

/* ---- applying ---- */

static bool backlog_full(const struct replica *r)
{
    const struct genuine *g = r->own;
    return g->backlog_bytes >= (r->opt.backlog_bytes ? r->opt.backlog_bytes : BACKLOG_BYTES_MAX);
}

#if TRAM_PLANTED
static bool genuine_ready(void *replica, const struct entry *e)
{
    (void)e;
    return !PLANTED(backlog_waits) || !backlog_full(replica);
}
#endif

static void deliver_ready(struct replica *r)
{
    struct genuine *g = r->own;
    uint32_t bytes;
    const void *payload;
    while ((payload = order_first(g->order, &bytes)) != NULL) {
        message_split(payload, bytes, &g->v);
        replica_deliver(r, &g->v);
        order_drop(g->order);
    }
}

static void apply_client(struct replica *r, const struct entry *e)
{
    struct genuine *g = r->own;
    order_life(g->order, e->source, e->life);
    if (!read_message(r, e->payload, e->bytes) || !replica_from_client(e, &g->v))
        return;
    if (!dst_has(g->v.dst, r->opt.group)) {
        replica_refuse(r, &g->v);
        return;
    }
    if (g->v.dst.count == 1) {
        replica_deliver(r, &g->v);
        return;
    }
    uint64_t stamp = order_message(g->order, e->payload, e->bytes);
    if (stamp != 0)
        tell_stamp(r, &g->v, stamp);
    deliver_ready(r);
}

/* A process that came later in the client's place has spoken: this one is dead, though the place is not. */
static bool life_is_over(const struct replica *r, struct message_id id)
{
    return log_source_life(r->log, id.client) > id.life;
}

/* Another group relays a message that not everybody got. */
static void apply_relay(struct replica *r, const void *payload, uint32_t bytes)
{
    struct genuine *g = r->own;
    if (!read_message(r, payload, bytes) || g->v.dst.count == 1 || !dst_has(g->v.dst, r->opt.group))
        return;
    bool over = life_is_over(r, message_id(g->v.m));
    uint64_t stamp = order_relayed(g->order, payload, bytes, over);
    if (stamp != 0)
        tell_stamp(r, &g->v, stamp);
    deliver_ready(r);
}

static void apply_group(struct replica *r, const struct entry *e)
{
    struct genuine *g = r->own;
    struct stamp_note t = {0};
    if (e->bytes < sizeof(t.stamp))
        return;
    memcpy(&t.stamp, e->payload, sizeof(t.stamp));
    if (t.stamp == 0) {
        apply_relay(r, e->payload + sizeof(t.stamp), e->bytes - (uint32_t)sizeof(t.stamp));
        return;
    }
    if (e->bytes != sizeof(t))
        return;
    memcpy(&t, e->payload, sizeof(t));
    uint16_t mark = t.id.mark, from = (uint16_t)(e->source - r->opt.sizes.clients);
    t.id.mark = 0;
    enum order_news news = mark == STAMP_NOTE_FINAL ? order_final(g->order, t.id, t.stamp)
                                                    : order_stamp(g->order, from, t.id, t.stamp);
    if (news != ORDER_COMPLETE)
        return;
    if (mark != STAMP_NOTE_FINAL)
        tell_final(r, t.id);
    deliver_ready(r);
}

/* Our leader has found that a message waits for long. The groups that have not stamped it may not have it. */
static void apply_note(struct replica *r, const struct entry *e)
{
    struct genuine *g = r->own;
    struct message_id id;
    uint32_t bytes, count;
    if (e->bytes != sizeof(id))
        return;
    memcpy(&id, e->payload, sizeof(id));
    const void *payload = order_waiting(g->order, id, &bytes, g->missing, &count);
    if (payload == NULL)
        return;
    memset(g->relay, 0, sizeof(uint64_t));
    memcpy(g->relay + sizeof(uint64_t), payload, bytes);
    bool at_home = order_home(payload) == r->opt.group;
    struct stamp_note t = {.stamp = order_own(g->order, id), .id = id};
    for (uint32_t i = 0; i < count; i++) {
        /* A group takes a relayed message only if it has heard of it, and of us it has not. */
        if (at_home)
            tell(r, g->missing[i], &t, sizeof(t));
        tell(r, g->missing[i], g->relay, bytes + (uint32_t)sizeof(uint64_t));
    }
    order_set_relayed(g->order, id);
}

static void genuine_apply(void *replica, const struct entry *e)
{
    struct replica *r = replica;
    if (e->source == SOURCE_LOG)
        apply_note(r, e);
    else if (e->source < r->opt.sizes.clients)
        apply_client(r, e);
    else
        apply_group(r, e);
}

/* ---- leading ---- */

/* A client that lives writes its message to all destinations, sooner or later; for one that is dead, or
 * seems to live and does not, we do. */
static bool relay_if_late(void *ctx, struct message_id id, uint32_t seen)
{
    struct replica *r = ctx;
    bool dead = mem_dead(r->opt.mem, r->opt.sizes.client_node + id.client) || life_is_over(r, id);
    return seen > (dead ? RELAY_DEAD_STEPS : RELAY_STEPS) && log_note(r->log, &id, sizeof(id));
}

static void genuine_step(struct replica *r)
{
    struct genuine *g = r->own;
    order_watch(g->order, relay_if_late, r);
}

/* In every round, whoever leads: what was held back may go now. */
static bool genuine_settle(struct replica *r)
{
    struct genuine *g = r->own;
    /* Stamps are of use when the message is there, and that comes from its client. */
    log_awaits_streams(r->log, order_pending(g->order) > 0);
    bool backlog = g->backlog_bytes > 0;
    for (uint32_t i = 0; backlog && i < r->edges; i++)
        backlog_drain(r, i);
    log_holds_sources(r->log, backlog_full(r) && !PLANTED(backlog_waits));
    return backlog;
}

/* ---- what holds ---- */

static const char *check_backlog(const struct backlog *b)
{
    uint64_t at = b->from, notes = 0;
    for (; at < b->end; notes++)
        at += frame_size(((const struct frame *)(b->bytes + at))->bytes);
    if (at != b->end || b->end > b->max)
        return "a backlog is made of whole notes";
    if (notes != b->notes)
        return "a backlog has as many notes as is said";
    return NULL;
}

static const char *genuine_check(const struct replica *r)
{
    const struct genuine *g = r->own;
    const char *broken = order_check(g->order);
    uint64_t bytes = 0;
    for (uint32_t i = 0; broken == NULL && i < r->edges; i++) {
        broken = check_backlog(&g->backlog[i]);
        bytes += g->backlog[i].end - g->backlog[i].from;
    }
    if (broken == NULL && bytes != g->backlog_bytes)
        broken = "the backlogs are as large as is said";
    return broken;
}

/* ---- snapshots: | bytes, order | per edge: bytes, backlog | ---- */

static uint64_t genuine_bytes(struct replica *r)
{
    struct genuine *g = r->own;
    return 8 + order_save_bytes(g->order) + 8 * (uint64_t)r->edges + g->backlog_bytes;
}

static uint64_t genuine_save(struct replica *r, unsigned char *out)
{
    struct genuine *g = r->own;
    uint64_t bytes = order_save(g->order, out + 8);
    unsigned char *at = snap_put(out, bytes) + bytes;
    for (uint32_t i = 0; i < r->edges; i++) {
        const struct backlog *b = &g->backlog[i];
        at = snap_put(at, b->end - b->from);
        if (b->end > b->from)
            memcpy(at, b->bytes + b->from, b->end - b->from);
        at += b->end - b->from;
    }
    return (uint64_t)(at - out);
}

static bool load_backlog(struct genuine *g, struct backlog *b, const unsigned char *in,
                         uint64_t bytes)
{
    g->backlog_bytes -= b->end - b->from;
    b->from = b->end = b->notes = 0;
    for (uint64_t at = 0; at < bytes;) {
        struct frame f;
        if (bytes - at < sizeof(f))
            return false;
        memcpy(&f, in + at, sizeof(f));
        if (frame_size(f.bytes) > bytes - at)
            return false;
        backlog_add(g, b, in + at + sizeof(f), f.bytes);
        at += frame_size(f.bytes);
    }
    return true;
}

static bool genuine_load(struct replica *r, const unsigned char *in, uint64_t bytes)
{
    struct genuine *g = r->own;
    const unsigned char *at = in, *end = in + bytes, *part;
    uint64_t part_bytes;
    part = snap_sized(&at, end, &part_bytes);
    if (part == NULL || !order_load(g->order, part, part_bytes))
        return false;
    for (uint32_t i = 0; i < r->edges; i++) {
        part = snap_sized(&at, end, &part_bytes);
        if (part == NULL || !load_backlog(g, &g->backlog[i], part, part_bytes))
            return false;
    }
    return at == end;
}

static struct dst_set genuine_route(const struct overlay *o, struct dst_set dst, uint16_t *one)
{
    (void)o;
    (void)one;
    return dst;
}

/* Until the stamps of the other destinations are there. */
static uint32_t genuine_holds(struct dst_set dst)
{
    return dst.count > 1 ? dst.count : 0;
}

const struct protocol protocol_genuine = {
    .route = genuine_route,
    .holds = genuine_holds,
    .streams = genuine_streams,
    .open = genuine_open,
    .close = genuine_close,
#if TRAM_PLANTED
    .ready = genuine_ready, /* else it always is: no group waits for another to apply its log */
#endif
    .apply = genuine_apply,
    .settle = genuine_settle,
    .step = genuine_step,
    .check = genuine_check,
    .bytes = genuine_bytes,
    .save = genuine_save,
    .load = genuine_load,
};
