#include "mcast/tree.h"

#include "agree/feed.h"
#include "agree/lanes.h"
#include "base/planted.h"
#include "mcast/lanes.h"
#include "mcast/message.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLIENTS_DEFAULT = 64,
    CLIENTS_MAX = 4096,
    BODY_MAX_DEFAULT = 4 << 10,
    BODY_MAX_LIMIT = 1 << 20,
    REPLY_MAX_DEFAULT = 64,
    SOURCE_BYTES_DEFAULT = 64 << 10,
    REPLY_BYTES_DEFAULT = 16 << 10,
    LOG_BYTES_DEFAULT = 256 << 10,
};

/* The stream to one child. */
struct edge {
    uint16_t child;
    struct feed *feed;
    uint64_t flushed;   /* end of what was last written out */
    uint64_t wanted_by; /* number of the last message that was to go there */
};

/* A message that was decided, taken apart. */
struct parsed {
    const struct message *m;
    uint16_t list[DST_GROUPS_MAX];
    struct dst_set dst;
    const unsigned char *body;
    uint32_t bytes;
    bool well_formed; /* false for what no correct client sends */
    bool belongs;     /* it is ours to deliver or to hand on */
    bool for_us;      /* this group is a destination */
    uint32_t *want;   /* the edges it goes to */
    uint32_t wants;
};

/* The replies to one client: as with edges, every replica has them, and who leads writes them. */
struct replies {
    uint64_t tail;    /* end of the stream; its life is the client's */
    uint64_t flushed; /* what has been written to the client */
    unsigned char
        *ring; /* with room for one more reply behind it, so that one is written in a piece */
    struct mem_lane *lane;
    struct mem_flow flow;
    bool dirty;
};

struct tree {
    struct tree_options opt;
    struct log *log;
    uint16_t group;
    uint32_t parent_source; /* number of the parent's stream among the log's sources; or none */
    struct edge *edge;
    uint32_t edges;
    struct replies *replies; /* by slot */
    uint32_t *dirty;         /* slots with replies to write */
    uint32_t dirty_count;
    uint64_t delivered;
    bool led; /* in the last round */
    uint64_t step_ns;
    unsigned char *reply; /* room for one that nobody will get */
    uint64_t parsed_count;
    const struct entry *ready; /* what `now` is about: it is applied next; or NULL */
    struct parsed now;

    /* Snapshots: our part goes before the machine's. */
    unsigned char *part;
    uint64_t part_max, part_bytes, machine_bytes;
    uint64_t load_at;
};

/* ---- opening ---- */

static uint32_t power_of_two_above(uint64_t bytes)
{
    uint32_t p = MEM_PAGE_BYTES;
    while (p < bytes && p < 1u << 30)
        p *= 2;
    return p;
}

int tree_sizes_settle(struct tree_sizes *s, struct err *e)
{
    s->clients = s->clients ? s->clients : CLIENTS_DEFAULT;
    s->body_max = s->body_max ? s->body_max : BODY_MAX_DEFAULT;
    s->reply_max = s->reply_max ? s->reply_max : REPLY_MAX_DEFAULT;
    if (s->clients > CLIENTS_MAX)
        return err_set(e, ERR_INVALID, "%u clients; at most %d", s->clients, CLIENTS_MAX);
    if (s->body_max > BODY_MAX_LIMIT)
        return err_set(e, ERR_INVALID, "messages of %u bytes; at most %d", s->body_max,
                       BODY_MAX_LIMIT);
    uint64_t frame = frame_size(message_bytes(DST_GROUPS_MAX, s->body_max));
    if (s->source_bytes == 0)
        s->source_bytes =
            power_of_two_above(frame > SOURCE_BYTES_DEFAULT / 4 ? 4 * frame : SOURCE_BYTES_DEFAULT);
    if (s->edge_bytes == 0)
        s->edge_bytes = s->source_bytes;
    if (s->log_bytes == 0)
        s->log_bytes =
            power_of_two_above(16 * frame > LOG_BYTES_DEFAULT ? 16 * frame : LOG_BYTES_DEFAULT);
    uint64_t reply = frame_size((uint32_t)sizeof(struct reply) + s->reply_max);
    if (s->reply_bytes == 0)
        s->reply_bytes =
            power_of_two_above(16 * reply > REPLY_BYTES_DEFAULT ? 16 * reply : REPLY_BYTES_DEFAULT);
    if (reply > s->reply_bytes)
        return err_set(e, ERR_INVALID, "a reply of %u bytes does not fit a ring of %u",
                       s->reply_max, s->reply_bytes);
    return 0;
}

static const struct log_machine log_calls;

static int replies_open(struct tree *t, struct err *e)
{
    const struct tree_sizes *z = &t->opt.sizes;
    struct mem_lane_spec *specs = calloc(z->clients, sizeof(*specs));
    struct mem_lane **lanes = calloc(z->clients, sizeof(*lanes));
    int rc =
        specs && lanes ? 0 : err_set(e, ERR_NOMEM, "tree: no memory for %u clients", z->clients);
    for (uint32_t i = 0; rc == 0 && i < z->clients; i++) {
        specs[i] = (struct mem_lane_spec){
            .owner = z->client_node + i,
            .writer = t->opt.mem->self,
            .region = t->group,
            .kind = LANE_REPLY,
            .ctl_words = REPLY_WORDS,
            .ring_bytes = z->reply_bytes,
        };
        /* Zeroed, because all of it goes into snapshots. */
        t->replies[i].ring =
            calloc(1, z->reply_bytes + frame_size((uint32_t)sizeof(struct reply) + z->reply_max));
        if (t->replies[i].ring == NULL)
            rc = err_set(e, ERR_NOMEM, "tree: no memory for replies to %u clients", z->clients);
    }
    if (rc == 0)
        rc = mem_lanes_open(t->opt.mem, specs, z->clients, lanes, e);
    for (uint32_t i = 0; rc == 0 && i < z->clients; i++) {
        t->replies[i].lane = lanes[i];
        mem_flow_open(t->opt.mem, &t->replies[i].flow, specs[i].owner, t->group, 0);
    }
    free(specs);
    free(lanes);
    return rc;
}

static int edges_open(struct tree *t, struct err *e)
{
    const struct tree_sizes *z = &t->opt.sizes;
    const uint16_t *children = overlay_children(t->opt.overlay, t->group, &t->edges);
    t->edge = calloc(t->edges + 1, sizeof(*t->edge));
    t->now.want = calloc(t->edges + 1, sizeof(*t->now.want));
    if (!t->edge || !t->now.want)
        return err_set(e, ERR_NOMEM, "tree: no memory for %u children", t->edges);
    for (uint32_t i = 0; i < t->edges; i++) {
        const struct tree_group *child = &t->opt.groups[children[i]];
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
    const struct tree_sizes *z = &o->sizes;
    const struct tree_group *g = &o->groups[t->group];
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

int tree_open(const struct tree_options *options, struct tree **out, struct err *e)
{
    struct tree_options o = *options;
    int rc = tree_sizes_settle(&o.sizes, e);
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
    t->replies = calloc(o.sizes.clients, sizeof(*t->replies));
    t->dirty = calloc(o.sizes.clients, sizeof(*t->dirty));
    t->reply = malloc(sizeof(struct reply) + o.sizes.reply_max + 8);
    if (!t->replies || !t->dirty || !t->reply) {
        rc = err_set(e, ERR_NOMEM, "tree: no memory for %u clients", o.sizes.clients);
        goto fail;
    }
    rc = log_part_open(t, e);
    if (rc == 0)
        rc = edges_open(t, e);
    if (rc == 0)
        rc = replies_open(t, e);
    if (rc != 0)
        goto fail;
    t->part_max = 64 + (uint64_t)t->edges * (32 + o.sizes.edge_bytes) +
                  (uint64_t)o.sizes.clients * (16 + o.sizes.reply_bytes);
    t->part = malloc(t->part_max); /* touched only when a snapshot moves */
    if (t->part == NULL) {
        rc = err_set(e, ERR_NOMEM, "tree: no memory for snapshots");
        goto fail;
    }
    *out = t;
    return 0;
fail:
    tree_close(t);
    return rc;
}

void tree_close(struct tree *t)
{
    if (t == NULL)
        return;
    for (uint32_t i = 0; t->edge && i < t->edges; i++)
        feed_close(t->edge[i].feed);
    for (uint32_t i = 0; t->replies && i < t->opt.sizes.clients; i++)
        free(t->replies[i].ring);
    free(t->edge);
    free(t->now.want);
    free(t->replies);
    free(t->dirty);
    free(t->reply);
    free(t->part);
    log_close(t->log);
    free(t);
}

/* ---- applying ---- */

static bool well_formed(const struct tree *t, const struct entry *e, struct parsed *p)
{
    if (e->bytes < sizeof(struct message))
        return false;
    p->m = (const void *)e->payload;
    if (p->m->count == 0 || p->m->count > DST_GROUPS_MAX || p->m->client >= t->opt.sizes.clients ||
        message_bytes(p->m->count, 0) > e->bytes)
        return false;
    /* Only the process that has a place may speak for it; of what comes from above, the group above has
     * made sure. */
    if (e->source != t->parent_source &&
        (p->m->client != e->source || p->m->life != stream_life(e->srcpos)))
        return false;
    /* As dst_read, with the padding: a copy of so few bytes must not cost a call. */
    for (uint32_t i = 0; i < dst_bytes(p->m->count); i += 8)
        memcpy((unsigned char *)p->list + i, p->m->rest + i, 8);
    p->dst = (struct dst_set){p->list, p->m->count};
    p->body = p->m->rest + dst_bytes(p->m->count);
    p->bytes = e->bytes - message_bytes(p->m->count, 0);
    return dst_check(p->dst, t->opt.overlay->n, NULL) == 0;
}

/* Which edges the message takes, each once however many destinations are behind it. */
static void find_edges(struct tree *t, struct parsed *p)
{
    t->parsed_count++;
    p->wants = 0;
    p->for_us = false;
    for (uint32_t i = 0; i < p->dst.count; i++) {
        uint16_t d = p->dst.group[i];
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
    return e->source == p->m->client && overlay_lca(t->opt.overlay, p->dst) == t->group;
}

static void parse(struct tree *t, const struct entry *e)
{
    struct parsed *p = &t->now;
    p->belongs = false;
    p->well_formed = well_formed(t, e, p);
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

/* Where the next reply to the client is to be written: at the end of its stream. What stands there is
 * older than all that the client still waits for (see caster.c on its window). */
static struct reply *reply_begin(struct tree *t, const struct message *m)
{
    struct replies *r = &t->replies[m->client];
    if (stream_life(r->tail) > m->life)
        return (void *)t->reply; /* of a process that is gone */
    if (stream_life(r->tail) != m->life)
        r->tail = r->flushed = stream_start(m->life);
    uint64_t at = r->tail & (t->opt.sizes.reply_bytes - 1);
    return (void *)(r->ring + at + sizeof(struct frame));
}

/* Adds it to the stream; written out by whoever leads. */
static void reply_end(struct tree *t, const struct message *m, struct reply *reply)
{
    struct replies *r = &t->replies[m->client];
    if ((void *)reply == t->reply)
        return;
    uint64_t ring_bytes = t->opt.sizes.reply_bytes;
    uint64_t at = r->tail & (ring_bytes - 1);
    uint32_t bytes = (uint32_t)sizeof(*reply) + reply->bytes;
    uint64_t size = frame_size(bytes);
    *(struct frame *)(void *)(r->ring + at) = (struct frame){.pos = r->tail, .bytes = bytes};
    memset(reply->body + reply->bytes, 0, entry_padded(bytes) - bytes);
    if (at + size > ring_bytes)
        memcpy(r->ring, r->ring + ring_bytes, at + size - ring_bytes);
    r->tail += size;
    if (!r->dirty) {
        r->dirty = true;
        t->dirty[t->dirty_count++] = m->client;
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
    struct reply *reply = reply_begin(t, p->m);
    *reply = (struct reply){.seq = p->m->seq, .status = REPLY_REFUSED};
    if (p->belongs) {
        struct delivery d = {
            .group = t->group,
            .client = p->m->client,
            .life = p->m->life,
            .seq = p->m->seq,
            .number = t->delivered++,
            .dst = p->dst,
            .body = p->body,
            .bytes = p->bytes,
        };
        reply->status = REPLY_DONE;
        reply->bytes = t->opt.machine->deliver(t->opt.ctx, &d, reply->body, t->opt.sizes.reply_max);
        CHECK(reply->bytes <= t->opt.sizes.reply_max);
    }
    reply_end(t, p->m, reply);
}

static void on_observe(void *ctx, const struct entry *e, bool effective)
{
    struct tree *t = ctx;
    if (t->opt.observe)
        t->opt.observe(t->opt.ctx, e, effective);
}

/* ---- snapshots ----
 *
 *      part    | bytes of it | bytes of the machine's | delivered | per edge: bytes, stream
 *              | per client with replies: slot, tail, window | machine's state ...
 */

static unsigned char *put_word(unsigned char *at, uint64_t word)
{
    memcpy(at, &word, 8);
    return at + 8;
}

static const unsigned char *get_word(const unsigned char *at, uint64_t *word)
{
    memcpy(word, at, 8);
    return at + 8;
}

static uint64_t on_save_open(void *ctx)
{
    struct tree *t = ctx;
    t->machine_bytes = t->opt.machine->save_open(t->opt.ctx);
    unsigned char *at = t->part + 8;
    at = put_word(at, t->machine_bytes);
    at = put_word(at, t->delivered);
    for (uint32_t i = 0; i < t->edges; i++) {
        uint64_t bytes = feed_save_bytes(t->edge[i].feed);
        at = put_word(at, bytes);
        feed_save(t->edge[i].feed, at);
        if (PLANTED(snap_no_edges))
            memset(at + 16, 0, bytes - 16);
        at += bytes;
    }
    for (uint32_t c = 0; c < t->opt.sizes.clients; c++) {
        const struct replies *r = &t->replies[c];
        if (r->tail == 0)
            continue;
        at = put_word(at, c);
        at = put_word(at, r->tail);
        memcpy(at, r->ring, t->opt.sizes.reply_bytes);
        at += t->opt.sizes.reply_bytes;
    }
    t->part_bytes = (uint64_t)(at - t->part);
    CHECK(t->part_bytes <= t->part_max);
    put_word(t->part, t->part_bytes);
    return t->part_bytes + t->machine_bytes;
}

static void on_save_read(void *ctx, uint64_t offset, void *out, uint32_t bytes)
{
    struct tree *t = ctx;
    unsigned char *to = out;
    if (offset < t->part_bytes) {
        uint64_t n = t->part_bytes - offset;
        n = n < bytes ? n : bytes;
        memcpy(to, t->part + offset, n);
        to += n;
        offset += n;
        bytes -= (uint32_t)n;
    }
    /* The transfer is padded to 8 bytes. */
    uint64_t end = t->part_bytes + t->machine_bytes;
    uint64_t real = offset < end ? end - offset : 0;
    real = real < bytes ? real : bytes;
    if (real > 0)
        t->opt.machine->save_read(t->opt.ctx, offset - t->part_bytes, to, (uint32_t)real);
    memset(to + real, 0, bytes - real);
}

static void on_save_close(void *ctx)
{
    struct tree *t = ctx;
    t->opt.machine->save_close(t->opt.ctx);
}

static void on_load_open(void *ctx, uint64_t bytes)
{
    struct tree *t = ctx;
    (void)bytes; /* our part says how it divides */
    t->load_at = 0;
    t->part_bytes = UINT64_MAX;
}

/* Our part is complete: takes it over. */
static void load_part(struct tree *t)
{
    const unsigned char *at = t->part + 8, *end = t->part + t->part_bytes;
    uint64_t word, slot;
    at = get_word(at, &t->machine_bytes);
    at = get_word(at, &t->delivered);
    for (uint32_t i = 0; i < t->edges; i++) {
        at = get_word(at, &word);
        CHECK(word <= (uint64_t)(end - at) && feed_load(t->edge[i].feed, at, word));
        t->edge[i].flushed = feed_taken(t->edge[i].feed);
        at += word;
    }
    for (uint32_t c = 0; c < t->opt.sizes.clients; c++)
        t->replies[c].tail = t->replies[c].flushed = 0;
    while (at < end) {
        at = get_word(at, &slot);
        at = get_word(at, &word);
        CHECK(slot < t->opt.sizes.clients);
        t->replies[slot].tail = t->replies[slot].flushed = word;
        memcpy(t->replies[slot].ring, at, t->opt.sizes.reply_bytes);
        at += t->opt.sizes.reply_bytes;
    }
    t->opt.machine->load_open(t->opt.ctx, t->machine_bytes);
}

static void on_load_write(void *ctx, const void *data, uint32_t bytes)
{
    struct tree *t = ctx;
    const unsigned char *from = data;
    while (bytes > 0) {
        uint64_t n;
        if (t->load_at < t->part_bytes) {
            /* The first word says how long our part is. */
            uint64_t want = t->part_bytes == UINT64_MAX ? 8 : t->part_bytes;
            n = want - t->load_at < bytes ? want - t->load_at : bytes;
            memcpy(t->part + t->load_at, from, n);
            t->load_at += n;
            if (t->load_at == 8 && t->part_bytes == UINT64_MAX) {
                get_word(t->part, &t->part_bytes);
                CHECK(t->part_bytes >= 24 && t->part_bytes <= t->part_max);
            }
            if (t->load_at == t->part_bytes)
                load_part(t);
        } else {
            uint64_t left = t->part_bytes + t->machine_bytes - t->load_at;
            n = left < bytes ? left : bytes;
            if (n > 0)
                t->opt.machine->load_write(t->opt.ctx, from, (uint32_t)n);
            t->load_at += n;
            if (n < bytes)
                n = bytes; /* padding */
        }
        from += n;
        bytes -= (uint32_t)n;
    }
}

static void on_load_close(void *ctx)
{
    struct tree *t = ctx;
    t->opt.machine->load_close(t->opt.ctx);
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

/* Writes the client what it has not got from us. */
static void replies_flush(struct tree *t, uint32_t slot)
{
    struct replies *r = &t->replies[slot];
    const struct tree_sizes *z = &t->opt.sizes;
    struct mem *m = t->opt.mem;
    if (r->flow.status != MEM_DONE) {
        /* It may be somebody new, or the way was broken: from the beginning of what we have. */
        mem_flow_open(m, &r->flow, z->client_node + slot, t->group, 0);
        uint64_t start = stream_start(stream_life(r->tail));
        r->flushed = r->tail - start > z->reply_bytes ? r->tail - z->reply_bytes : start;
        if (r->flow.status != MEM_DONE)
            return;
    }
    uint64_t mask = z->reply_bytes - 1;
    while (r->flushed < r->tail) {
        uint64_t at = r->flushed & mask;
        uint64_t n = z->reply_bytes - at;
        n = n < r->tail - r->flushed ? n : r->tail - r->flushed;
        mem_put(m, &r->flow, r->lane, r->flushed, r->ring + at, (uint32_t)n);
        r->flushed += n;
    }
    mem_set1(m, &r->flow, r->lane, REPLY_GUARD, r->tail);
    mem_bell_later(m, z->client_node + slot);
}

/* What a predecessor may have left unwritten. */
static void begin_to_lead(struct tree *t)
{
    for (uint32_t i = 0; i < t->edges; i++) {
        feed_rewind(t->edge[i].feed);
        t->edge[i].flushed = feed_taken(t->edge[i].feed);
    }
    t->dirty_count = 0;
    for (uint32_t c = 0; c < t->opt.sizes.clients; c++) {
        struct replies *r = &t->replies[c];
        uint64_t start = stream_start(stream_life(r->tail));
        uint64_t have = r->tail - start;
        r->flushed = have > t->opt.sizes.reply_bytes ? r->tail - t->opt.sizes.reply_bytes : start;
        r->dirty = r->tail > 0;
        if (r->dirty)
            t->dirty[t->dirty_count++] = c;
    }
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
    uint32_t left = 0;
    for (uint32_t i = 0; i < t->dirty_count; i++) {
        uint32_t slot = t->dirty[i];
        struct replies *r = &t->replies[slot];
        replies_flush(t, slot);
        r->dirty = r->flushed != r->tail;
        if (r->dirty)
            t->dirty[left++] = slot;
        else
            work++;
    }
    t->dirty_count = left;
    /* A way that broke may have lost what was on it. */
    for (uint32_t c = 0; step && c < t->opt.sizes.clients; c++) {
        struct replies *r = &t->replies[c];
        if (r->flow.status != MEM_DONE && r->tail > 0 && !r->dirty) {
            r->dirty = true;
            t->dirty[t->dirty_count++] = c;
        }
    }
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
