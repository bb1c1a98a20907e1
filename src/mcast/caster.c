#include "mcast/caster.h"

#include "agree/source.h"
#include "base/lines.h"
#include "base/planted.h"
#include "mcast/message.h"
#include "mcast/protocol.h"
#include "mcast/replies.h"
#include "mem/wrap.h"

#include <stdlib.h>
#include <string.h>

enum {
    STEPS_PER_RETRY = 32, /* looks at broken ways in the time after which one writes again */
    /* Without a tree a message to several groups waits at each of them until they agree. So many of a client may, a
     * message in eight groups counting eight times: with more it is not faster, and with thousands slower, for
     * they leave the caches. */
    WAITING_MAX = 256,
    /* So many rings of replies may be under way to all groups together: what one group is slow with does not keep the others from
     * being written to. */
    RINGS_UNDER_WAY = 4,
};

#define RETRY_NS_DEFAULT (10 * UINT64_C(1000000))

/* Rings to and from one group. */
struct port {
    uint16_t group;
    struct source *source;
    uint64_t flushed;
    struct mem_lane *reply[LOG_REPLICAS_MAX]; /* by replica */
    uint64_t next;    /* position of the next reply in the group's stream to us */
    uint32_t awaited; /* replies that are due */
};

struct ticket {
    uint64_t seq;
    uint32_t pending; /* groups that have not replied; 0: done */
    uint32_t bytes;   /* of a stream */
    uint32_t waits;   /* in so many groups, for each other */
    bool refused;
};

struct caster {
    struct caster_options opt;
    const struct protocol *protocol;
    struct port **port; /* by group; NULL: not open */
    uint16_t *open;     /* the groups that are */
    uint32_t opens;
    struct ticket *ticket; /* by seq modulo window */
    uint32_t window;
    uint32_t group_window; /* of those that wait for one group: its replies to them fit the ring */
    uint64_t next;         /* seq of the next message */
    uint64_t oldest;       /* of those not done */
    uint32_t outstanding;
    uint64_t bytes;   /* of streams that they take */
    uint32_t waiting; /* sum of waits */
    bool refused;     /* replies may be counted as awaited that never come */
    uint64_t step_ns; /* when to look after the sources again */
    struct stream_shape replies;
    void *over; /* room for a reply that goes over the end of a ring */
};

int caster_open(const struct caster_options *options, struct caster **out, struct err *e)
{
    struct caster_options o = *options;
    int rc = mcast_sizes_settle(&o.sizes, e);
    if (rc != 0)
        return rc;
    if (o.place >= o.sizes.clients)
        return err_set(e, ERR_INVALID, "client place %u of %u", o.place, o.sizes.clients);
    if (o.mem->life >= CASTER_LIVES_MAX)
        return err_set(e, ERR_INVALID, "client place %u was used by %u processes, and by no more",
                       o.place, o.mem->life);
    struct caster *c = lines_alloc(sizeof(*c));
    if (c == NULL)
        return err_set(e, ERR_NOMEM, "client: no memory");
    o.retry_ns = o.retry_ns ? o.retry_ns : RETRY_NS_DEFAULT;
    c->opt = o;
    c->protocol = protocol_of(o.protocol);
    c->group_window = mcast_window(&o.sizes);
    c->window = RINGS_UNDER_WAY * c->group_window;
    c->port = calloc(o.overlay->n, sizeof(struct port *));
    c->open = calloc(o.overlay->n, sizeof(*c->open));
    c->ticket = calloc(c->window, sizeof(*c->ticket));
    c->replies = replies_shape(o.sizes.reply_bytes, o.sizes.reply_max);
    c->over = malloc(c->replies.bytes_max);
    if (!c->port || !c->open || !c->ticket || !c->over) {
        caster_close(c);
        return err_set(e, ERR_NOMEM, "client: no memory");
    }
    *out = c;
    return 0;
}

void caster_close(struct caster *c)
{
    if (c == NULL)
        return;
    for (uint32_t i = 0; c->port && i < c->opens; i++) {
        source_close(c->port[c->open[i]]->source);
        free(c->port[c->open[i]]);
    }
    free(c->port);
    free(c->open);
    free(c->ticket);
    free(c->over);
    free(c);
}

int caster_group_open(struct caster *c, uint16_t group, struct err *e)
{
    const struct caster_options *o = &c->opt;
    if (group >= o->overlay->n)
        return err_set(e, ERR_NOTFOUND, "client: there is no group %u", group);
    if (c->port[group])
        return 0;
    const struct mcast_group *g = &o->groups[group];
    struct port *p = lines_alloc(sizeof(*p));
    if (p == NULL)
        return err_set(e, ERR_NOMEM, "client: no memory");
    p->group = group;
    struct source_options fo = {
        .mem = o->mem,
        .region = group,
        .nodes = g->nodes,
        .replicas = g->replicas,
        .number = o->place,
        .source_bytes = o->sizes.source_bytes,
        .payload_max = message_bytes(DST_GROUPS_MAX, o->sizes.body_max),
        .retry_ns = o->retry_ns,
        .life = (uint16_t)o->mem->life,
    };
    int rc = source_open(&fo, &p->source, e);
    struct mem_lane_spec specs[LOG_REPLICAS_MAX];
    for (uint32_t q = 0; rc == 0 && q < g->replicas; q++) {
        specs[q] = lane_spec(group, o->mem->self, g->nodes[q], LANE_REPLY, 0);
        specs[q].ctl_words = REPLY_WORDS;
        specs[q].ring_bytes = o->sizes.reply_bytes;
    }
    if (rc == 0)
        rc = mem_lanes_open(o->mem, specs, g->replicas, p->reply, e);
    if (rc != 0) {
        source_close(p->source);
        free(p);
        return rc;
    }
    p->next = p->flushed = stream_start();
    c->port[group] = p;
    c->open[c->opens++] = group;
    return 0;
}

int caster_groups_open(struct caster *c, struct dst_set dst, struct err *e)
{
    uint16_t one;
    struct dst_set to = c->protocol->route(c->opt.overlay, dst, &one);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < to.count; i++)
        rc = caster_group_open(c, to.group[i], e);
    for (uint32_t i = 0; rc == 0 && i < dst.count; i++)
        rc = caster_group_open(c, dst.group[i], e);
    return rc;
}

static void port_send(const struct caster *c, struct port *p, struct dst_set dst,
                      enum message_kind kind, const void *body, uint32_t bytes)
{
    uint64_t end;
    struct message *m = source_reserve(p->source, message_bytes(dst.count, bytes), &end);
    *m = (struct message){.seq = c->next,
                          .client = (uint16_t)c->opt.place,
                          .kind = (uint16_t)kind,
                          .life = (uint16_t)c->opt.mem->life,
                          .count = (uint16_t)dst.count};
    dst_write(m->rest, dst);
    if (bytes > 0)
        memcpy(m->rest + dst_bytes(dst.count), body, bytes);
}

/* Whether the destinations are open, and have room for one reply more. */
static int check_ports(const struct caster *c, struct dst_set dst)
{
    int rc = 0;
    for (uint32_t i = 0; i < dst.count; i++) {
        const struct port *p = c->port[dst.group[i]];
        if (p == NULL)
            return ERR_NOTFOUND;
        if (p->awaited >= c->group_window && !PLANTED(replies_overrun))
            rc = ERR_AGAIN;
    }
    return rc;
}

static int cast_kind(struct caster *c, struct dst_set dst, enum message_kind kind, const void *body,
                     uint32_t bytes, uint64_t *seq)
{
    if (bytes > c->opt.sizes.body_max)
        return ERR_TOOBIG;
    if (c->next - c->oldest >= c->window)
        return ERR_AGAIN;
    int rc = check_ports(c, dst);
    if (rc != 0)
        return rc;
    uint16_t one;
    struct dst_set to = c->protocol->route(c->opt.overlay, dst, &one);
    for (uint32_t i = 0; i < to.count; i++)
        if (c->port[to.group[i]] == NULL)
            return ERR_NOTFOUND;
    uint64_t size = frame_size(message_bytes(dst.count, bytes));
    uint32_t waits = c->protocol->holds ? c->protocol->holds(dst) : 0;
    if (c->protocol->holds && c->bytes + size > c->opt.sizes.source_bytes)
        return ERR_AGAIN;
    if (waits && c->waiting > 0 && c->waiting + waits > WAITING_MAX)
        return ERR_AGAIN;
    for (uint32_t i = 0; i < to.count; i++)
        if (!source_room(c->port[to.group[i]]->source, size))
            return ERR_AGAIN;
    for (uint32_t i = 0; i < to.count; i++)
        port_send(c, c->port[to.group[i]], dst, kind, body, bytes);
    for (uint32_t i = 0; i < dst.count; i++)
        c->port[dst.group[i]]->awaited++;
    c->ticket[c->next % c->window] = (struct ticket){
        .seq = c->next, .pending = dst.count, .bytes = (uint32_t)size, .waits = waits};
    c->bytes += size;
    c->waiting += waits;
    *seq = c->next++;
    c->outstanding++;
    return 0;
}

int caster_cast(struct caster *c, struct dst_set dst, const void *body, uint32_t bytes,
                uint64_t *seq)
{
    return cast_kind(c, dst, MESSAGE_PLAIN, body, bytes, seq);
}

int caster_cast_backup(struct caster *c, struct dst_set dst, const unsigned char *id, uint64_t *seq)
{
    return cast_kind(c, dst, MESSAGE_BACKUP, id, MESSAGE_BACKUP_BYTES, seq);
}

void caster_flush(struct caster *c)
{
    for (uint32_t i = 0; i < c->opens; i++) {
        struct port *p = c->port[c->open[i]];
        if (source_end(p->source) != p->flushed) {
            source_flush(p->source);
            p->flushed = source_end(p->source);
        }
    }
}

/* Others than who refused a message do not answer it. */
static void forget_awaited(struct caster *c)
{
    for (uint32_t i = 0; i < c->opens; i++)
        c->port[c->open[i]]->awaited = 0;
    c->refused = false;
}

/* A reply of the group; returns 1 if that was the last one the message waited for. */
static int take_reply(struct caster *c, struct port *p, const struct reply *r)
{
    struct ticket *t = &c->ticket[r->seq % c->window];
    if (t->seq != r->seq || t->pending == 0)
        return 0;
    if (p->awaited > 0)
        p->awaited--;
    if (c->opt.reply)
        c->opt.reply(c->opt.ctx, r->seq, p->group, r->status, r->body, r->bytes);
    t->refused |= r->status == REPLY_REFUSED;
    c->refused |= t->refused;
    /* Who is refused by the group that orders it is delivered nowhere, and hears from nobody else. */
    t->pending = r->status == REPLY_REFUSED ? 0 : t->pending - 1;
    if (t->pending > 0)
        return 0;
    c->outstanding--;
    c->bytes -= t->bytes;
    c->waiting -= t->waits;
    if (c->refused && c->outstanding == 0)
        forget_awaited(c);
    if (c->opt.done)
        c->opt.done(c->opt.ctx, r->seq, t->refused);
    while (c->oldest < c->next && c->ticket[c->oldest % c->window].pending == 0)
        c->oldest++;
    return 1;
}

/* Takes the next replies of a group from whichever of its replicas has written them. */
static int port_poll(struct caster *c, struct port *p)
{
    const uint32_t bytes_max = c->replies.bytes_max, ring_bytes = c->replies.ring_bytes;
    const uint32_t life = c->opt.mem->life;
    int done = 0;
    for (uint32_t q = 0; q < c->opt.groups[p->group].replicas; q++) {
        const struct mem_lane *lane = p->reply[q];
        if (lane->ctl == NULL)
            continue;
        uint64_t guard = PLANTED(reply_of_another) ? mem_word(lane, REPLY_GUARD)
                                                   : stream_guard(&c->replies, lane, life);
        while (p->next < guard) {
            struct frame f;
            frame_read(&f, lane->ring, ring_bytes, p->next);
            const uint32_t expected = PLANTED(reply_of_another) ? f.life : life;
            if (f.bytes < sizeof(struct reply) ||
                !frame_fits(&f, p->next, expected, bytes_max, guard))
                break; /* that replica began later in the stream */
            done +=
                take_reply(c, p, frame_payload(lane->ring, ring_bytes, p->next, f.bytes, c->over));
            p->next += frame_size(f.bytes);
        }
    }
    return done;
}

int caster_poll(struct caster *c, uint64_t now_ns)
{
    int done = 0;
    for (uint32_t i = 0; i < c->opens; i++) {
        struct port *p = c->port[c->open[i]];
        if (p->awaited > 0)
            done += port_poll(c, p);
    }
    /* Not in every poll: reading the acknowledgements takes their lines away from who writes them. */
    if (now_ns >= c->step_ns) {
        c->step_ns = now_ns + c->opt.retry_ns / STEPS_PER_RETRY;
        for (uint32_t i = 0; i < c->opens; i++)
            source_step(c->port[c->open[i]]->source, now_ns);
    }
    return done;
}

bool caster_is_done(const struct caster *c, uint64_t seq)
{
    return seq < c->next && (seq < c->oldest || c->ticket[seq % c->window].pending == 0);
}

uint32_t caster_outstanding(const struct caster *c)
{
    return c->outstanding;
}

uint32_t caster_window(const struct caster *c)
{
    return c->window;
}
