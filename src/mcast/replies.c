#include "mcast/replies.h"

#include "agree/entry.h"
#include "base/planted.h"
#include "mcast/lanes.h"
#include "mcast/snap.h"

#include <stdlib.h>

/* The replies to one client. */
struct stream {
    uint64_t tail;       /* its end */
    uint64_t flushed;    /* what has been written to the client */
    unsigned char *ring; /* the last ring_bytes of it, and room for one reply more behind, so that
                            one is written in a piece */
    struct mem_lane *lane;
    struct mem_flow flow;
    bool dirty; /* is in the list */
};

struct replies {
    struct replies_options opt;
    struct stream *stream; /* by slot */
    unsigned char *rings;  /* of all streams */
    uint32_t *dirty;       /* slots with something to write */
    uint32_t dirty_count;
    struct reply *nobodys; /* room for one that goes nowhere */
};

static int lanes_open(struct replies *r, struct err *e)
{
    const struct replies_options *o = &r->opt;
    struct mem_lane_spec *specs = calloc(o->clients, sizeof(*specs));
    struct mem_lane **lanes = calloc(o->clients, sizeof(*lanes));
    int rc = specs && lanes ? 0 : err_set(e, ERR_NOMEM, "replies: no memory");
    for (uint32_t i = 0; rc == 0 && i < o->clients; i++)
        specs[i] = (struct mem_lane_spec){
            .owner = o->client_node + i,
            .writer = o->mem->self,
            .region = o->region,
            .kind = LANE_REPLY,
            .ctl_words = REPLY_WORDS,
            .ring_bytes = o->ring_bytes,
        };
    if (rc == 0)
        rc = mem_lanes_open(o->mem, specs, o->clients, lanes, e);
    for (uint32_t i = 0; rc == 0 && i < o->clients; i++) {
        r->stream[i].lane = lanes[i];
        mem_flow_open(o->mem, &r->stream[i].flow, specs[i].owner, o->region, 0);
    }
    free(specs);
    free(lanes);
    return rc;
}

int replies_open(const struct replies_options *options, struct replies **out, struct err *e)
{
    const uint32_t clients = options->clients;
    const uint64_t one = sizeof(struct reply) + entry_padded(options->reply_max);
    struct replies *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return err_set(e, ERR_NOMEM, "replies: no memory");
    r->opt = *options;
    r->stream = calloc(clients, sizeof(*r->stream));
    r->dirty = calloc(clients, sizeof(*r->dirty));
    r->nobodys = malloc(one);
    /* Zeroed, because all of a ring goes into snapshots; and in one piece, which is so large that the
     * kernel gives it page by page: few of the places are ever taken. */
    const uint64_t ring_room = options->ring_bytes + sizeof(struct frame) + one;
    r->rings = calloc(clients, ring_room);
    bool room = r->stream && r->dirty && r->nobodys && r->rings;
    for (uint32_t i = 0; room && i < clients; i++)
        r->stream[i].ring = r->rings + i * ring_room;
    int rc = room ? lanes_open(r, e)
                  : err_set(e, ERR_NOMEM, "replies: no memory for %u clients", clients);
    if (rc != 0) {
        replies_close(r);
        return rc;
    }
    *out = r;
    return 0;
}

void replies_close(struct replies *r)
{
    if (r == NULL)
        return;
    free(r->rings);
    free(r->stream);
    free(r->dirty);
    free(r->nobodys);
    free(r);
}

static void make_dirty(struct replies *r, uint32_t client)
{
    if (r->stream[client].dirty)
        return;
    r->stream[client].dirty = true;
    r->dirty[r->dirty_count++] = client;
}

struct reply *replies_begin(struct replies *r, uint32_t client, uint16_t life)
{
    struct stream *s = &r->stream[client];
    if (stream_life(s->tail) > life)
        return r->nobodys;
    if (stream_life(s->tail) != life)
        s->tail = s->flushed = stream_start(life);
    uint64_t at = s->tail & (r->opt.ring_bytes - 1);
    return (void *)(s->ring + at + sizeof(struct frame));
}

void replies_end(struct replies *r, uint32_t client, struct reply *reply)
{
    struct stream *s = &r->stream[client];
    CHECK(reply->bytes <= r->opt.reply_max);
    if (reply == r->nobodys)
        return;
    uint64_t ring_bytes = r->opt.ring_bytes;
    uint64_t at = s->tail & (ring_bytes - 1);
    uint32_t bytes = (uint32_t)sizeof(*reply) + reply->bytes;
    uint64_t size = frame_size(bytes);
    *(struct frame *)(void *)(s->ring + at) = (struct frame){.pos = s->tail, .bytes = bytes};
    memset(reply->body + reply->bytes, 0, entry_padded(bytes) - bytes);
    if (at + size > ring_bytes)
        memcpy(s->ring, s->ring + ring_bytes, at + size - ring_bytes);
    s->tail += size;
    make_dirty(r, client);
}

/* The next flush of this stream begins where what we have begins. */
static void stream_rewind(const struct replies *r, struct stream *s)
{
    uint64_t start = stream_start(stream_life(s->tail));
    s->flushed = s->tail - start > r->opt.ring_bytes ? s->tail - r->opt.ring_bytes : start;
}

/* Writes the client what it has not got from us. */
static void stream_flush(struct replies *r, uint32_t client)
{
    struct stream *s = &r->stream[client];
    struct mem *m = r->opt.mem;
    const uint32_t node = r->opt.client_node + client;
    if (s->flow.status != MEM_DONE) {
        /* It may be somebody new, or the way was broken. */
        mem_flow_open(m, &s->flow, node, r->opt.region, 0);
        stream_rewind(r, s);
        if (s->flow.status != MEM_DONE)
            return;
    }
    while (s->flushed < s->tail) {
        uint64_t at = s->flushed & (r->opt.ring_bytes - 1);
        uint64_t n = r->opt.ring_bytes - at;
        n = n < s->tail - s->flushed ? n : s->tail - s->flushed;
        mem_put(m, &s->flow, s->lane, s->flushed, s->ring + at, (uint32_t)n);
        s->flushed += n;
    }
    mem_set1(m, &s->flow, s->lane, REPLY_GUARD, s->tail);
    mem_bell_later(m, node);
}

int replies_flush(struct replies *r)
{
    int done = 0;
    uint32_t left = 0;
    for (uint32_t i = 0; i < r->dirty_count; i++) {
        uint32_t client = r->dirty[i];
        struct stream *s = &r->stream[client];
        stream_flush(r, client);
        s->dirty = s->flushed != s->tail;
        if (s->dirty)
            r->dirty[left++] = client;
        else
            done++;
    }
    r->dirty_count = left;
    return done;
}

void replies_step(struct replies *r)
{
    for (uint32_t i = 0; i < r->opt.clients; i++)
        if (r->stream[i].flow.status != MEM_DONE && r->stream[i].tail > 0)
            make_dirty(r, i);
}

void replies_rewind(struct replies *r)
{
    if (PLANTED(replies_forgotten)) {
        for (uint32_t i = 0; i < r->opt.clients; i++)
            r->stream[i].flushed = r->stream[i].tail;
        return;
    }
    /* Who does not lead only adds, and may have replaced all of it by a snapshot since. */
    r->dirty_count = 0;
    for (uint32_t i = 0; i < r->opt.clients; i++) {
        stream_rewind(r, &r->stream[i]);
        r->stream[i].dirty = false;
        if (r->stream[i].tail > 0)
            make_dirty(r, i);
    }
}

/* ---- snapshots: per client that has replies | slot | tail | ring | ---- */

static uint64_t saved_stream_bytes(const struct replies *r)
{
    return 16 + r->opt.ring_bytes;
}

uint64_t replies_save_bytes_max(const struct replies *r)
{
    return r->opt.clients * saved_stream_bytes(r);
}

uint64_t replies_save(const struct replies *r, unsigned char *out)
{
    unsigned char *at = out;
    for (uint32_t i = 0; i < r->opt.clients; i++) {
        const struct stream *s = &r->stream[i];
        if (s->tail == 0)
            continue;
        at = snap_put(at, i);
        at = snap_put(at, s->tail);
        memcpy(at, s->ring, r->opt.ring_bytes);
        at += r->opt.ring_bytes;
    }
    return (uint64_t)(at - out);
}

bool replies_load(struct replies *r, const unsigned char *in, uint64_t bytes)
{
    const unsigned char *at = in;
    if (bytes % saved_stream_bytes(r) != 0)
        return false;
    for (uint32_t i = 0; i < r->opt.clients; i++)
        r->stream[i].tail = r->stream[i].flushed = 0;
    while (at < in + bytes) {
        uint64_t client, tail;
        at = snap_get(at, &client);
        at = snap_get(at, &tail);
        if (client >= r->opt.clients)
            return false;
        r->stream[client].tail = r->stream[client].flushed = tail;
        memcpy(r->stream[client].ring, at, r->opt.ring_bytes);
        at += r->opt.ring_bytes;
    }
    return true;
}
