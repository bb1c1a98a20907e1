/* Opening and closing a replica, and what of it a snapshot carries. */
#include "agree/memory.h"
#include "base/lines.h"
#include "base/planted.h"
#include "lane/names.h"
#include "mcast/protocol.h"

#include <stdlib.h>
#include <string.h>

#define HEARTBEAT_NS UINT64_C(15000000)

/* ---- snapshots: | delivered | bytes, the protocol's | per edge: bytes, stream | replies | ---- */

static uint64_t part_bytes(void *ctx)
{
    struct replica *r = ctx;
    uint64_t bytes = 16 + (r->protocol->bytes ? r->protocol->bytes(r) : 0);
    for (uint32_t i = 0; i < r->edges; i++)
        bytes += 8 + source_save_bytes(r->edge[i].source);
    return bytes + replies_save_bytes(r->replies);
}

static uint64_t part_save(void *ctx, unsigned char *out)
{
    struct replica *r = ctx;
    uint64_t own = r->protocol->save ? r->protocol->save(r, out + 16) : 0;
    unsigned char *at = snap_put(snap_put(out, r->delivered), own) + own;
    for (uint32_t i = 0; i < r->edges; i++) {
        uint64_t bytes = source_save_bytes(r->edge[i].source);
        at = snap_put(at, bytes);
        source_save(r->edge[i].source, at);
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
    if (bytes == 8)
        return true; /* what a group begins with: nobody has told anybody anything */
    part = snap_sized(&at, end, &sized);
    if (part == NULL || (r->protocol->load && !r->protocol->load(r, part, sized)))
        return false;
    for (uint32_t i = 0; i < r->edges; i++) {
        part = snap_sized(&at, end, &sized);
        if (part == NULL || !source_load(r->edge[i].source, part, sized))
            return false;
        r->edge[i].flushed = source_taken(r->edge[i].source);
    }
    r->sent = true;
    return replies_load(r->replies, at, (uint64_t)(end - at));
}

/* The part is the count of deliveries alone. */
void replica_initial(unsigned char out[REPLICA_INITIAL_BYTES], uint64_t delivered, uint64_t bytes)
{
    snap_put(snap_put(snap_put(out, 8), bytes), delivered);
}

/* ---- opening ---- */

static int edges_open(struct replica *r, const struct protocol_streams *s, struct err *e)
{
    const struct mcast_sizes *z = &r->opt.sizes;
    r->edge = calloc(s->outs + 1, sizeof(*r->edge));
    if (r->edge == NULL)
        return err_set(e, ERR_NOMEM, "no memory for streams to %u groups", s->outs);
    for (; r->edges < s->outs; r->edges++) {
        uint16_t to = s->out[r->edges];
        struct source_options fo = {
            .mem = r->opt.mem,
            .region = to,
            .nodes = r->opt.groups[to].nodes,
            .replicas = r->opt.groups[to].replicas,
            .number = z->clients + s->out_source,
            .source_bytes = s->ring_bytes,
            .payload_max = message_bytes(DST_GROUPS_MAX, z->body_max) + s->head_bytes,
            .ack_region = region_number(REGION_EDGE, to),
            .retry_ns = r->opt.suspect_ns,
        };
        r->edge[r->edges].to = to;
        int rc = source_open(&fo, &r->edge[r->edges].source, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Of the group's log, for all its members alike; sources, states and the machine are left out. */
static struct log_options log_options_of(const struct replica_options *o,
                                         const struct protocol_streams *s)
{
    const struct mcast_sizes *z = &o->sizes;
    const struct mcast_group *g = &o->groups[o->group];
    return (struct log_options){
        .mem = o->mem,
        .region = o->group,
        .nodes = g->nodes,
        .replicas = g->replicas,
        .memory_nodes = g->memory,
        .memories = g->memories,
        .all_vote = g->all_vote,
        .source_bytes = z->source_bytes,
        .log_bytes = z->log_bytes,
        .batch_bytes = z->batch_bytes,
        .window_bytes = z->window_bytes,
        .snap_bytes = z->snap_bytes,
        .disk = o->disk,
        .disk_group = o->group,
        .payload_max = message_bytes(DST_GROUPS_MAX, z->body_max) + s->head_bytes,
        .heartbeat_ns = o->heartbeat_ns,
    };
}

static int log_part_open(struct replica *r, const struct protocol_streams *s, struct err *e)
{
    const struct replica_options *o = &r->opt;
    struct log_stream *streams = calloc(s->ins + 1, sizeof(*streams));
    if (streams == NULL)
        return err_set(e, ERR_NOMEM, "no memory for streams of %u groups", s->ins);
    for (uint32_t i = 0; i < s->ins; i++)
        if (s->in[i] != OVERLAY_NONE)
            streams[i] = (struct log_stream){.nodes = o->groups[s->in[i]].nodes,
                                             .writers = o->groups[s->in[i]].replicas,
                                             .ring_bytes = s->ring_bytes};
    struct log_options lo = log_options_of(o, s);
    lo.rank = o->rank;
    lo.sources = o->sizes.clients;
    lo.ack_lazily = true;
    lo.stream = streams;
    lo.streams = s->ins;
    lo.backlog_bytes = o->sizes.backlog_bytes;
    lo.budget = o->budget;
    lo.suspect_ns = o->suspect_ns;
    lo.stagger_ns = o->stagger_ns;
    lo.detach_ns = o->detach_ns;
    lo.seed = o->seed;
    lo.duels = o->duels;
    lo.machine = &r->log_calls;
    lo.ctx = r;
    int rc = log_open(&lo, &r->log, e);
    free(streams);
    return rc;
}

int replica_memory_open(const struct replica_options *options, struct log_memory *m, struct err *e)
{
    struct replica_options o = *options;
    int rc = mcast_sizes_settle(&o.sizes, e);
    if (rc != 0)
        return rc;
    struct protocol_streams *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return err_set(e, ERR_NOMEM, "no memory for a member of group %u", o.group);
    o.heartbeat_ns = o.heartbeat_ns ? o.heartbeat_ns : HEARTBEAT_NS;
    protocol_of(o.protocol)->streams(&o, s);
    struct log_options lo = log_options_of(&o, s);
    rc = log_memory_open(m, &lo, e);
    free(s);
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

static void observe(void *replica, const struct entry *e, bool effective)
{
    const struct replica *r = replica;
    r->opt.observe(r->opt.ctx, e, effective);
}

int replica_open(const struct replica_options *options, struct replica **out, struct err *e)
{
    struct replica_options o = *options;
    int rc = mcast_sizes_settle(&o.sizes, e);
    if (rc != 0)
        return rc;
    struct replica *r = lines_alloc(sizeof(*r));
    struct protocol_streams *s = calloc(1, sizeof(*s));
    if (r == NULL || s == NULL) {
        free(r);
        free(s);
        return err_set(e, ERR_NOMEM, "no memory for a replica");
    }
    o.suspect_ns = o.suspect_ns ? o.suspect_ns : 60 * UINT64_C(1000000);
    o.heartbeat_ns = o.heartbeat_ns ? o.heartbeat_ns : HEARTBEAT_NS;
    r->opt = o;
    r->protocol = protocol_of(o.protocol);
    r->log_calls = (struct log_machine){
        .apply = r->protocol->apply,
        .ready = r->protocol->ready,
        .observe = o.observe ? observe : NULL,
        .state = &snap_ops,
    };
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
    *out = r; /* the machine, which is given what was kept, may ask for it */
    if (rc == 0 && o.disk)
        rc = log_restore(r->log, e);
    free(s);
    if (rc != 0) {
        replica_close(r);
        *out = NULL;
    }
    return rc;
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
        source_close(r->edge[i].source);
    free(r->edge);
    replies_close(r->replies);
    snap_close(&r->snap);
    log_close(r->log);
    free(r);
}
