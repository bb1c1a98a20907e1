#include "mcast/protocol.h"

#include "base/planted.h"
#include "lane/names.h"

#include <stdlib.h>
#include <string.h>

enum { LOOKS_PER_HEARTBEAT = 16 };

static const struct log_machine log_calls;

/* ---- opening ---- */

static int edges_open(struct replica *r, const struct protocol_streams *s, struct err *e)
{
    const struct mcast_sizes *z = &r->opt.sizes;
    r->edge = calloc(s->outs + 1, sizeof(*r->edge));
    if (r->edge == NULL)
        return err_set(e, ERR_NOMEM, "no memory for streams to %u groups", s->outs);
    for (; r->edges < s->outs; r->edges++) {
        uint16_t to = s->out[r->edges];
        struct feed_options fo = {
            .mem = r->opt.mem,
            .region = to,
            .nodes = r->opt.groups[to].nodes,
            .replicas = r->opt.groups[to].replicas,
            .source = z->clients + s->out_source,
            .source_bytes = s->ring_bytes,
            .payload_max = message_bytes(DST_GROUPS_MAX, z->body_max) + s->head_bytes,
            .ack_region = region_number(REGION_EDGE, to),
            .retry_ns = r->opt.suspect_ns,
        };
        r->edge[r->edges].to = to;
        int rc = feed_open(&fo, &r->edge[r->edges].feed, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int log_part_open(struct replica *r, const struct protocol_streams *s, struct err *e)
{
    const struct replica_options *o = &r->opt;
    const struct mcast_sizes *z = &o->sizes;
    const struct mcast_group *g = &o->groups[o->group];
    struct log_stream *streams = calloc(s->ins + 1, sizeof(*streams));
    if (streams == NULL)
        return err_set(e, ERR_NOMEM, "no memory for streams of %u groups", s->ins);
    for (uint32_t i = 0; i < s->ins; i++)
        if (s->in[i] != OVERLAY_NONE)
            streams[i] = (struct log_stream){.nodes = o->groups[s->in[i]].nodes,
                                             .writers = o->groups[s->in[i]].replicas,
                                             .ring_bytes = s->ring_bytes};
    struct log_options lo = {
        .mem = o->mem,
        .region = o->group,
        .nodes = g->nodes,
        .replicas = g->replicas,
        .rank = o->rank,
        .sources = z->clients,
        .source_bytes = z->source_bytes,
        .ack_lazily = true,
        .stream = streams,
        .streams = s->ins,
        .log_bytes = z->log_bytes,
        .batch_bytes = z->batch_bytes,
        .window_bytes = z->window_bytes,
        .snap_bytes = z->snap_bytes,
        .backlog_bytes = z->backlog_bytes,
        .budget = o->budget,
        .payload_max = message_bytes(DST_GROUPS_MAX, z->body_max) + s->head_bytes,
        .heartbeat_ns = o->heartbeat_ns,
        .suspect_ns = o->suspect_ns,
        .stagger_ns = o->stagger_ns,
        .detach_ns = o->detach_ns,
        .seed = o->seed,
        .duels = o->duels,
        .machine = &log_calls,
        .ctx = r,
    };
    int rc = log_open(&lo, &r->log, e);
    free(streams);
    return rc;
}

static int replies_part_open(struct replica *r, struct err *e)
{
    const struct mcast_sizes *z = &r->opt.sizes;
    struct replies_options o = {
        .mem = r->opt.mem,
        .region = r->opt.group,
        .clients = z->clients,
        .client_node = z->client_node,
        .reply_max = z->reply_max,
        .ring_bytes = z->reply_bytes,
    };
    return replies_open(&o, &r->replies, e);
}

static uint64_t part_bytes(void *ctx);
static uint64_t part_save(void *ctx, unsigned char *out);
static bool part_load(void *ctx, const unsigned char *in, uint64_t bytes);

int replica_open(const struct replica_options *options, struct replica **out, struct err *e)
{
    struct replica_options o = *options;
    int rc = mcast_sizes_settle(&o.sizes, e);
    if (rc != 0)
        return rc;
    struct replica *r = calloc(1, sizeof(*r));
    struct protocol_streams *s = calloc(1, sizeof(*s));
    if (r == NULL || s == NULL) {
        free(r);
        free(s);
        return err_set(e, ERR_NOMEM, "no memory for a replica");
    }
    o.suspect_ns = o.suspect_ns ? o.suspect_ns : 60 * UINT64_C(1000000);
    o.heartbeat_ns = o.heartbeat_ns ? o.heartbeat_ns : 15 * UINT64_C(1000000);
    r->opt = o;
    r->protocol = protocol_of(o.protocol);
    snap_open(&r->snap, &(struct snap_options){
                            .machine = o.machine->state,
                            .machine_ctx = o.ctx,
                            .bytes = part_bytes,
                            .save = part_save,
                            .load = part_load,
                            .ctx = r,
                        });
    r->protocol->streams(&r->opt, s);
    rc = log_part_open(r, s, e);
    if (rc == 0)
        rc = edges_open(r, s, e);
    if (rc == 0)
        rc = replies_part_open(r, e);
    if (rc == 0)
        rc = r->protocol->open(r, e);
    free(s);
    if (rc != 0) {
        replica_close(r);
        return rc;
    }
    *out = r;
    return 0;
}

int replica_client_open(struct replica *r, const struct mem_lane_spec *offer, struct err *e)
{
    const struct mcast_sizes *z = &r->opt.sizes;
    uint32_t client = lane_index(offer);
    if (offer->region != r->opt.group || lane_kind(offer) != LANE_SOURCE || client >= z->clients ||
        offer->writer != z->client_node + client)
        return err_set(e, ERR_NOTFOUND,
                       "node %u writes lane %#x of region %u, which is no client's", offer->writer,
                       offer->kind, offer->region);
    int rc = replies_client_open(r->replies, client, e);
    return rc != 0 ? rc : log_source_open(r->log, client, offer->writer, e);
}

void replica_close(struct replica *r)
{
    if (r == NULL)
        return;
    r->protocol->close(r);
    for (uint32_t i = 0; r->edge && i <= r->edges; i++)
        feed_close(r->edge[i].feed);
    free(r->edge);
    replies_close(r->replies);
    snap_close(&r->snap);
    log_close(r->log);
    free(r);
}

/* ---- applying ---- */

void replica_deliver(struct replica *r, const struct message_view *v)
{
    if (log_broken(r->log))
        return; /* one apply may deliver several */
    struct reply *reply = replies_begin(r->replies, v->m->client, v->m->life);
    struct delivery d = {
        .group = r->opt.group,
        .client = v->m->client,
        .life = v->m->life,
        .seq = v->m->seq,
        .number = r->delivered++,
        .dst = v->dst,
        .body = v->body,
        .bytes = v->bytes,
    };
    *reply = (struct reply){.seq = v->m->seq, .status = REPLY_DONE};
    reply->bytes = r->opt.machine->deliver(r->opt.ctx, &d, reply->body, r->opt.sizes.reply_max);
    if (reply->bytes > r->opt.sizes.reply_max) {
        log_stop(r->log, "the state machine's reply is longer than reply_max");
        return; /* and nobody gets it */
    }
    replies_end(r->replies, v->m->client, reply);
}

void replica_refuse(struct replica *r, const struct message_view *v)
{
    struct reply *reply = replies_begin(r->replies, v->m->client, v->m->life);
    *reply = (struct reply){.seq = v->m->seq, .status = REPLY_REFUSED};
    replies_end(r->replies, v->m->client, reply);
}

static bool on_ready(void *ctx, const struct entry *e)
{
    struct replica *r = ctx;
    return r->protocol->ready(r, e);
}

static void on_apply(void *ctx, const struct entry *e)
{
    struct replica *r = ctx;
    r->protocol->apply(r, e);
}

static void on_observe(void *ctx, const struct entry *e, bool effective)
{
    struct replica *r = ctx;
    if (r->opt.observe)
        r->opt.observe(r->opt.ctx, e, effective);
}

/* ---- snapshots: | delivered | bytes, the protocol's | per edge: bytes, stream | replies | ---- */

static uint64_t part_bytes(void *ctx)
{
    struct replica *r = ctx;
    uint64_t bytes = 16 + (r->protocol->bytes ? r->protocol->bytes(r) : 0);
    for (uint32_t i = 0; i < r->edges; i++)
        bytes += 8 + feed_save_bytes(r->edge[i].feed);
    return bytes + replies_save_bytes(r->replies);
}

static uint64_t part_save(void *ctx, unsigned char *out)
{
    struct replica *r = ctx;
    uint64_t own = r->protocol->save ? r->protocol->save(r, out + 16) : 0;
    unsigned char *at = snap_put(snap_put(out, r->delivered), own) + own;
    for (uint32_t i = 0; i < r->edges; i++) {
        uint64_t bytes = feed_save_bytes(r->edge[i].feed);
        at = snap_put(at, bytes);
        feed_save(r->edge[i].feed, at);
        if (PLANTED(snap_no_edges))
            memset(at + 16, 0, bytes - 16);
        at += bytes;
    }
    at += replies_save(r->replies, at);
    return (uint64_t)(at - out);
}

static bool part_load(void *ctx, const unsigned char *in, uint64_t bytes)
{
    struct replica *r = ctx;
    const unsigned char *end = in + bytes, *part;
    uint64_t sized;
    if (bytes < 8)
        return false;
    const unsigned char *at = snap_get(in, &r->delivered);
    part = snap_sized(&at, end, &sized);
    if (part == NULL || (r->protocol->load && !r->protocol->load(r, part, sized)))
        return false;
    for (uint32_t i = 0; i < r->edges; i++) {
        part = snap_sized(&at, end, &sized);
        if (part == NULL || !feed_load(r->edge[i].feed, part, sized))
            return false;
        r->edge[i].flushed = feed_taken(r->edge[i].feed);
    }
    r->sent = true;
    return replies_load(r->replies, at, (uint64_t)(end - at));
}

static const struct log_machine log_calls = {
    .apply = on_apply,
    .ready = on_ready,
    .observe = on_observe,
    .state = &snap_ops,
};

/* ---- writing out, as leader ---- */

int replica_send(struct replica *r, uint32_t edge, const void *payload, uint32_t bytes)
{
    uint64_t end;
    int rc = feed_send(r->edge[edge].feed, payload, bytes, &end);
    r->sent |= rc == 0;
    return rc;
}

/* What a predecessor may have left unwritten. */
static void begin_to_lead(struct replica *r)
{
    for (uint32_t i = 0; i < r->edges; i++) {
        feed_rewind(r->edge[i].feed);
        r->edge[i].flushed = feed_taken(r->edge[i].feed);
    }
    r->sent = true;
    replies_rewind(r->replies);
}

static int write_out(struct replica *r, uint64_t now_ns)
{
    int work = 0;
    for (uint32_t i = 0; r->sent && i < r->edges; i++) {
        struct edge *edge = &r->edge[i];
        if (feed_end(edge->feed) != edge->flushed) {
            feed_flush(edge->feed);
            edge->flushed = feed_end(edge->feed);
            work++;
        }
    }
    r->sent = false;
    bool step = now_ns >= r->step_ns;
    if (step)
        r->step_ns = now_ns + r->opt.heartbeat_ns;
    /* Where writes are messages a stream goes to the leader alone at first: a new one must not wait long. */
    bool look = step || (r->opt.mem->remote && now_ns >= r->look_ns);
    if (look)
        r->look_ns = now_ns + r->opt.heartbeat_ns / LOOKS_PER_HEARTBEAT;
    for (uint32_t i = 0; look && i < r->edges; i++)
        feed_step(r->edge[i].feed, now_ns);
    work += replies_flush(r->replies);
    if (step) {
        replies_step(r->replies);
        if (r->protocol->step)
            r->protocol->step(r);
    }
    return work;
}

/* Who does not lead has the same streams. Over a network its leader may be cut off from another group's, and
 * both from nobody else: then they go on through us. */
static void help_out(struct replica *r, uint64_t now_ns)
{
    if (!r->opt.mem->remote || now_ns < r->look_ns)
        return;
    r->look_ns = now_ns + r->opt.heartbeat_ns / LOOKS_PER_HEARTBEAT;
    for (uint32_t i = 0; i < r->edges; i++)
        feed_help(r->edge[i].feed, now_ns);
}

static int settle(struct unit *u, uint64_t now_ns)
{
    struct replica *r = u->of;
    int work = log_settle(r->log, now_ns);
    bool more = r->protocol->settle && r->protocol->settle(r);
    bool leading = log_leading(r->log);
    if (leading) {
        if (!r->led)
            begin_to_lead(r);
        /* Where nothing was applied there is nothing to write. */
        if (work > 0 || more || !r->led || now_ns >= r->step_ns || replies_waiting(r->replies) ||
            (r->opt.mem->remote && now_ns >= r->look_ns))
            work += write_out(r, now_ns);
    } else {
        help_out(r, now_ns);
    }
    r->led = u->leads = leading;
    u->broken = log_broken(r->log);
    return work;
}

uint16_t replica_group(const struct replica *r)
{
    return r->opt.group;
}

bool replica_leads(const struct replica *r)
{
    return log_leading(r->log);
}

void replica_status(const struct replica *r, struct unit_status *s)
{
    log_status(r->log, s);
    s->delivered = r->delivered;
}

uint64_t replica_delivered(const struct replica *r)
{
    return r->delivered;
}

/* ---- as a unit ---- */

static int post(struct unit *u, uint64_t now_ns)
{
    const struct replica *r = u->of;
    return log_post(r->log, now_ns);
}

static uint64_t next_ns(const struct unit *u)
{
    const struct replica *r = u->of;
    return log_next_ns(r->log);
}

static void status(const struct unit *u, struct unit_status *s)
{
    replica_status(u->of, s);
}

static int offer(struct unit *u, const struct mem_lane_spec *lane, struct err *e)
{
    return replica_client_open(u->of, lane, e);
}

static void as_unit_close(struct unit *u)
{
    replica_close(u->of);
}

struct unit replica_unit(struct replica *r)
{
    static const struct unit_ops ops = {.post = post,
                                        .settle = settle,
                                        .next_ns = next_ns,
                                        .status = status,
                                        .offer = offer,
                                        .close = as_unit_close};
    return (struct unit){.ops = &ops, .of = r, .region = r->opt.group};
}
