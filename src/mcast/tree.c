#include "mcast/tree.h"

#include "agree/feed.h"
#include "agree/lanes.h"
#include "base/planted.h"
#include "mcast/message.h"
#include "mcast/replies.h"
#include "mcast/snap.h"

#include <stdlib.h>
#include <string.h>

/* The stream to one child. */
struct edge {
    uint16_t child;
    struct feed *feed;
    uint64_t flushed;   /* end of what was last written out */
    uint64_t wanted_by; /* number of the last message that was to go there */
};

/* A message that was decided, taken apart. */
struct parsed {
    struct message_view v;
    bool well_formed; /* false for what no correct client sends */
    bool belongs;     /* it is ours to deliver or to hand on */
    bool for_us;      /* this group is a destination */
    uint32_t *want;   /* the edges it goes to */
    uint32_t wants;
};

struct tree {
    struct tree_options opt;
    struct log *log;
    uint16_t group;
    uint32_t parent_source; /* number of the parent's stream among the log's sources; or none */
    struct edge *edge;
    uint32_t edges;
    struct replies *replies;
    struct snap snap;
    uint64_t delivered;
    bool led; /* in the last round */
    uint64_t step_ns;
    uint64_t parsed_count;
    const struct entry *ready; /* what `now` is about: it is applied next; or NULL */
    struct parsed now;
};

/* ---- opening ---- */

static const struct log_machine log_calls;
static uint64_t part_save(void *ctx, unsigned char *out);
static bool part_load(void *ctx, const unsigned char *in, uint64_t bytes);

static int edges_open(struct tree *t, struct err *e)
{
    const struct mcast_sizes *z = &t->opt.sizes;
    const uint16_t *children = overlay_children(t->opt.overlay, t->group, &t->edges);
    t->edge = calloc(t->edges + 1, sizeof(*t->edge));
    t->now.want = calloc(t->edges + 1, sizeof(*t->now.want));
    if (!t->edge || !t->now.want)
        return err_set(e, ERR_NOMEM, "tree: no memory for %u children", t->edges);
    for (uint32_t i = 0; i < t->edges; i++) {
        const struct mcast_group *child = &t->opt.groups[children[i]];
        t->edge[i].child = children[i];
        struct feed_options fo = {
            .mem = t->opt.mem,
            .region = children[i],
            .nodes = child->nodes,
            .replicas = child->replicas,
            .source = z->clients,
            .source_bytes = z->edge_bytes,
            .payload_max = message_bytes(DST_GROUPS_MAX, z->body_max),
            .ack_region = children[i] | LOG_EDGE_REGION,
            .retry_ns = t->opt.suspect_ns,
        };
        int rc = feed_open(&fo, &t->edge[i].feed, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int log_part_open(struct tree *t, struct err *e)
{
    const struct tree_options *o = &t->opt;
    const struct mcast_sizes *z = &o->sizes;
    const struct mcast_group *g = &o->groups[t->group];
    uint32_t *clients = calloc(z->clients, sizeof(*clients));
    if (clients == NULL)
        return err_set(e, ERR_NOMEM, "tree: no memory");
    for (uint32_t i = 0; i < z->clients; i++)
        clients[i] = z->client_node + i;
    uint16_t parent = overlay_parent(o->overlay, t->group);
    struct log_options lo = {
        .mem = o->mem,
        .region = t->group,
        .nodes = g->nodes,
        .replicas = g->replicas,
        .rank = o->rank,
        .source_nodes = clients,
        .sources = z->clients,
        .source_bytes = z->source_bytes,
        .log_bytes = z->log_bytes,
        .payload_max = message_bytes(DST_GROUPS_MAX, z->body_max),
        .heartbeat_ns = o->heartbeat_ns,
        .suspect_ns = o->suspect_ns,
        .stagger_ns = o->stagger_ns,
        .detach_ns = o->detach_ns,
        .seed = o->seed,
        .machine = &log_calls,
        .ctx = t,
    };
    if (parent != OVERLAY_NONE) {
        lo.parent_nodes = o->groups[parent].nodes;
        lo.parents = o->groups[parent].replicas;
        lo.parent_bytes = z->edge_bytes;
    }
    int rc = log_open(&lo, &t->log, e);
    free(clients);
    return rc;
}

static int replies_part_open(struct tree *t, struct err *e)
{
    const struct mcast_sizes *z = &t->opt.sizes;
    struct replies_options o = {
        .mem = t->opt.mem,
        .region = t->group,
        .clients = z->clients,
        .client_node = z->client_node,
        .reply_max = z->reply_max,
        .ring_bytes = z->reply_bytes,
    };
    return replies_open(&o, &t->replies, e);
}

static int snap_part_open(struct tree *t, struct err *e)
{
    struct snap_options o = {
        .machine = t->opt.machine,
        .machine_ctx = t->opt.ctx,
        .part_max = 8 + (uint64_t)t->edges * (32 + t->opt.sizes.edge_bytes) +
                    replies_save_bytes_max(t->replies),
        .save = part_save,
        .load = part_load,
        .ctx = t,
    };
    return snap_open(&t->snap, &o, e);
}

int tree_open(const struct tree_options *options, struct tree **out, struct err *e)
{
    struct tree_options o = *options;
    int rc = mcast_sizes_settle(&o.sizes, e);
    if (rc != 0)
        return rc;
    struct tree *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return err_set(e, ERR_NOMEM, "tree: no memory");
    o.suspect_ns = o.suspect_ns ? o.suspect_ns : 60 * UINT64_C(1000000);
    o.heartbeat_ns = o.heartbeat_ns ? o.heartbeat_ns : 10 * UINT64_C(1000000);
    t->opt = o;
    t->group = o.group;
    t->parent_source = o.sizes.clients;
    rc = log_part_open(t, e);
    if (rc == 0)
        rc = edges_open(t, e);
    if (rc == 0)
        rc = replies_part_open(t, e);
    if (rc == 0)
        rc = snap_part_open(t, e);
    if (rc != 0) {
        tree_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

void tree_close(struct tree *t)
{
    if (t == NULL)
        return;
    for (uint32_t i = 0; t->edge && i < t->edges; i++)
        feed_close(t->edge[i].feed);
    free(t->edge);
    free(t->now.want);
    replies_close(t->replies);
    snap_close(&t->snap);
    log_close(t->log);
    free(t);
}

/* ---- applying ---- */

static bool well_formed(const struct tree *t, const struct entry *e, struct message_view *v)
{
    if (!message_read(e->payload, e->bytes, t->opt.sizes.clients, t->opt.overlay->n, v))
        return false;
    /* Only the process that has a place may speak for it; of what comes from above, the group above has
     * made sure. */
    return e->source == t->parent_source ||
           (v->m->client == e->source && v->m->life == stream_life(e->srcpos));
}

/* Which edges the message takes, each once however many destinations are behind it. */
static void find_edges(struct tree *t, struct parsed *p)
{
    t->parsed_count++;
    p->wants = 0;
    p->for_us = false;
    for (uint32_t i = 0; i < p->v.dst.count; i++) {
        uint16_t d = p->v.dst.group[i];
        if (d == t->group) {
            p->for_us = true;
            continue;
        }
        int at = t->edges > 0 ? overlay_edge(t->opt.overlay, t->group, d) : -1;
        if (at < 0 || t->edge[at].wanted_by == t->parsed_count)
            continue;
        t->edge[at].wanted_by = t->parsed_count;
        p->want[p->wants++] = (uint32_t)at;
    }
}

/* A client's message belongs here only if this is the lowest group above all its destinations. */
static bool belongs_here(const struct tree *t, const struct entry *e, const struct parsed *p)
{
    if (e->source == t->parent_source)
        return p->for_us || p->wants > 0;
    return overlay_lca(t->opt.overlay, p->v.dst) == t->group;
}

static void parse(struct tree *t, const struct entry *e)
{
    struct parsed *p = &t->now;
    p->belongs = false;
    p->well_formed = well_formed(t, e, &p->v);
    if (!p->well_formed)
        return;
    find_edges(t, p);
    p->belongs = belongs_here(t, e, p);
    if (PLANTED(forward_all))
        for (p->wants = 0; p->wants < t->edges; p->wants++)
            p->want[p->wants] = p->wants;
}

/* The streams to the children must have room before the message is applied. */
static bool on_ready(void *ctx, const struct entry *e)
{
    struct tree *t = ctx;
    const struct parsed *p = &t->now;
    t->ready = NULL;
    parse(t, e);
    for (uint32_t i = 0; p->belongs && i < p->wants; i++)
        if (!feed_room(t->edge[p->want[i]].feed, e->bytes))
            return false;
    t->ready = e;
    return true;
}

static void forward(struct tree *t, const struct entry *e, const struct parsed *p)
{
    for (uint32_t i = 0; i < p->wants; i++) {
        uint64_t end;
        CHECK(feed_send(t->edge[p->want[i]].feed, e->payload, e->bytes, &end) == 0);
    }
}

static void on_apply(void *ctx, const struct entry *e)
{
    struct tree *t = ctx;
    const struct parsed *p = &t->now;
    if (t->ready != e)
        parse(t, e);
    t->ready = NULL;
    if (!p->well_formed)
        return;
    if (p->belongs)
        forward(t, e, p);
    if (p->belongs && !p->for_us)
        return;
    struct reply *reply = replies_begin(t->replies, p->v.m->client, p->v.m->life);
    *reply = (struct reply){.seq = p->v.m->seq, .status = REPLY_REFUSED};
    if (p->belongs) {
        struct delivery d = {
            .group = t->group,
            .client = p->v.m->client,
            .life = p->v.m->life,
            .seq = p->v.m->seq,
            .number = t->delivered++,
            .dst = p->v.dst,
            .body = p->v.body,
            .bytes = p->v.bytes,
        };
        reply->status = REPLY_DONE;
        reply->bytes = t->opt.machine->deliver(t->opt.ctx, &d, reply->body, t->opt.sizes.reply_max);
    }
    replies_end(t->replies, p->v.m->client, reply);
}

static void on_observe(void *ctx, const struct entry *e, bool effective)
{
    struct tree *t = ctx;
    if (t->opt.observe)
        t->opt.observe(t->opt.ctx, e, effective);
}

/* ---- snapshots: | delivered | per edge: bytes, stream | replies | ---- */

static uint64_t part_save(void *ctx, unsigned char *out)
{
    struct tree *t = ctx;
    unsigned char *at = snap_put(out, t->delivered);
    for (uint32_t i = 0; i < t->edges; i++) {
        uint64_t bytes = feed_save_bytes(t->edge[i].feed);
        at = snap_put(at, bytes);
        feed_save(t->edge[i].feed, at);
        if (PLANTED(snap_no_edges))
            memset(at + 16, 0, bytes - 16);
        at += bytes;
    }
    at += replies_save(t->replies, at);
    return (uint64_t)(at - out);
}

static bool part_load(void *ctx, const unsigned char *in, uint64_t bytes)
{
    struct tree *t = ctx;
    const unsigned char *at = in, *end = in + bytes;
    if (bytes < 8 + 8 * (uint64_t)t->edges)
        return false;
    at = snap_get(at, &t->delivered);
    for (uint32_t i = 0; i < t->edges; i++) {
        uint64_t stream, left = (uint64_t)(end - at);
        if (left < 8)
            return false;
        at = snap_get(at, &stream);
        if (stream > left - 8 || !feed_load(t->edge[i].feed, at, stream))
            return false;
        t->edge[i].flushed = feed_taken(t->edge[i].feed);
        at += stream;
    }
    return replies_load(t->replies, at, (uint64_t)(end - at));
}

static uint64_t on_save_open(void *ctx)
{
    struct tree *t = ctx;
    return snap_save_open(&t->snap);
}

static void on_save_read(void *ctx, uint64_t offset, void *out, uint32_t bytes)
{
    struct tree *t = ctx;
    snap_save_read(&t->snap, offset, out, bytes);
}

static void on_save_close(void *ctx)
{
    struct tree *t = ctx;
    snap_save_close(&t->snap);
}

static void on_load_open(void *ctx, uint64_t bytes)
{
    struct tree *t = ctx;
    (void)bytes; /* it says itself how it divides */
    snap_load_open(&t->snap);
}

static void on_load_write(void *ctx, const void *data, uint32_t bytes)
{
    struct tree *t = ctx;
    snap_load_write(&t->snap, data, bytes);
}

static void on_load_close(void *ctx)
{
    struct tree *t = ctx;
    snap_load_close(&t->snap);
}

static const struct log_machine log_calls = {
    .apply = on_apply,
    .ready = on_ready,
    .observe = on_observe,
    .save_open = on_save_open,
    .save_read = on_save_read,
    .save_close = on_save_close,
    .load_open = on_load_open,
    .load_write = on_load_write,
    .load_close = on_load_close,
};

/* ---- writing out, as leader ---- */

/* What a predecessor may have left unwritten. */
static void begin_to_lead(struct tree *t)
{
    for (uint32_t i = 0; i < t->edges; i++) {
        feed_rewind(t->edge[i].feed);
        t->edge[i].flushed = feed_taken(t->edge[i].feed);
    }
    replies_rewind(t->replies);
}

static int write_out(struct tree *t, uint64_t now_ns)
{
    int work = 0;
    for (uint32_t i = 0; i < t->edges; i++) {
        struct edge *edge = &t->edge[i];
        if (feed_end(edge->feed) != edge->flushed) {
            feed_flush(edge->feed);
            edge->flushed = feed_end(edge->feed);
            work++;
        }
    }
    bool step = now_ns >= t->step_ns;
    if (step)
        t->step_ns = now_ns + t->opt.heartbeat_ns;
    for (uint32_t i = 0; step && i < t->edges; i++)
        feed_step(t->edge[i].feed, now_ns);
    work += replies_flush(t->replies);
    if (step)
        replies_step(t->replies);
    return work;
}

int tree_post(struct tree *t, uint64_t now_ns)
{
    return log_post(t->log, now_ns);
}

int tree_settle(struct tree *t, uint64_t now_ns)
{
    int work = log_settle(t->log, now_ns);
    bool leading = log_leading(t->log);
    if (leading) {
        if (!t->led)
            begin_to_lead(t);
        work += write_out(t, now_ns);
    }
    t->led = leading;
    return work;
}

uint64_t tree_next_ns(const struct tree *t)
{
    return log_next_ns(t->log);
}

const struct log *tree_log(const struct tree *t)
{
    return t->log;
}

uint64_t tree_delivered(const struct tree *t)
{
    return t->delivered;
}
