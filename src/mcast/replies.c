#include "mcast/replies.h"

#include "base/lines.h"
#include "base/planted.h"
#include "lane/names.h"
#include "lane/stream.h"
#include "unit/snap.h"

#include <stdlib.h>

/* The replies to one client. */
struct answers {
    struct stream stream;  /* ring: NULL until there is one; tail: 0 while there are no replies */
    struct stream_out out; /* lane: NULL if the client has not come here yet */
    bool dirty;            /* is in the list */
};

struct replies {
    struct replies_options opt;
    struct stream_shape shape;
    struct answers *to; /* by place */
    uint32_t *dirty;    /* places with something to write */
    uint32_t dirty_count;
    uint32_t *known; /* places with a ring */
    uint32_t known_count;
    unsigned char *rings;  /* of all places */
    struct reply *nobodys; /* room for one that goes nowhere */
};

int replies_open(const struct replies_options *options, struct replies **out, struct err *e)
{
    const uint32_t clients = options->clients;
    struct replies *r = lines_alloc(sizeof(*r));
    if (r == NULL)
        return err_set(e, ERR_NOMEM, "replies: no memory");
    r->opt = *options;
    r->shape = replies_shape(options->ring_bytes, options->reply_max);
    r->to = calloc(clients, sizeof(*r->to));
    r->dirty = calloc(clients, sizeof(*r->dirty));
    r->known = calloc(clients, sizeof(*r->known));
    r->nobodys = malloc(padded(r->shape.bytes_max));
    /* For all that there may be, and touched only for those that come. */
    r->rings = malloc(clients * stream_ring_bytes(&r->shape));
    if (!r->to || !r->dirty || !r->known || !r->nobodys || !r->rings) {
        replies_close(r);
        return err_set(e, ERR_NOMEM, "replies: no memory for %u clients", clients);
    }
    *out = r;
    return 0;
}

static struct answers *know(struct replies *r, uint32_t client)
{
    struct answers *a = &r->to[client];
    if (a->stream.ring == NULL) {
        a->stream.ring = r->rings + client * stream_ring_bytes(&r->shape);
        a->stream.shape = &r->shape;
        r->known[r->known_count++] = client;
    }
    return a;
}

static void make_dirty(struct replies *r, uint32_t client)
{
    if (r->to[client].dirty)
        return;
    r->to[client].dirty = true;
    r->dirty[r->dirty_count++] = client;
}

int replies_client_open(struct replies *r, uint32_t client, struct err *e)
{
    const struct replies_options *o = &r->opt;
    struct answers *a = know(r, client);
    if (a->out.lane != NULL)
        return 0;
    struct mem_lane_spec spec =
        lane_spec(o->region, o->client_node + client, o->mem->self, LANE_REPLY, 0);
    spec.ctl_words = REPLY_WORDS;
    spec.ring_bytes = o->ring_bytes;
    int rc = mem_lanes_open(o->mem, &spec, 1, &a->out.lane, e);
    if (rc != 0) {
        a->out.lane = NULL;
        return rc;
    }
    stream_reopen(o->mem, &a->stream, &a->out);
    if (a->stream.tail > 0)
        make_dirty(r, client);
    return 0;
}

void replies_close(struct replies *r)
{
    if (r == NULL)
        return;
    free(r->to);
    free(r->dirty);
    free(r->known);
    free(r->nobodys);
    free(r->rings);
    free(r);
}

struct reply *replies_begin(struct replies *r, uint32_t client, uint16_t life)
{
    struct answers *a = know(r, client);
    if (a->stream.life > life)
        return r->nobodys;
    if (a->stream.life < life || a->stream.tail == 0) {
        stream_begin(&a->stream, life);
        stream_rewind(&a->stream, &a->out);
    }
    return stream_reserve(&a->stream);
}

void replies_end(struct replies *r, uint32_t client, struct reply *reply)
{
    CHECK(reply->bytes <= r->opt.reply_max);
    if (reply == r->nobodys)
        return;
    stream_commit(&r->to[client].stream, reply_size(reply->bytes));
    make_dirty(r, client);
}

/* Writes the client what it has not got from us. True: it has all. */
static bool flush(struct replies *r, uint32_t client)
{
    struct answers *a = &r->to[client];
    struct mem *m = r->opt.mem;
    /* It may be somebody new, or the way was broken. */
    if (a->out.flow.status != MEM_DONE && !stream_reopen(m, &a->stream, &a->out))
        return false;
    bool all = stream_push(m, &a->stream, &a->out);
    mem_bell_later(m, r->opt.client_node + client);
    return all;
}

bool replies_waiting(const struct replies *r)
{
    return r->dirty_count > 0;
}

int replies_flush(struct replies *r)
{
    int done = 0;
    uint32_t left = 0;
    for (uint32_t i = 0; i < r->dirty_count; i++) {
        uint32_t client = r->dirty[i];
        struct answers *a = &r->to[client];
        a->dirty = false;
        if (a->out.lane == NULL)
            continue; /* when it comes */
        if (flush(r, client)) {
            done++;
        } else if (!mem_dead(r->opt.mem, r->opt.client_node + client)) {
            a->dirty = true;
            r->dirty[left++] = client;
        } /* else with the next step, if that is not true: there may be many who have left */
    }
    r->dirty_count = left;
    return done;
}

void replies_step(struct replies *r)
{
    for (uint32_t k = 0; k < r->known_count; k++) {
        const struct answers *a = &r->to[r->known[k]];
        if (a->out.lane && a->out.flow.status != MEM_DONE && a->stream.tail > 0)
            make_dirty(r, r->known[k]);
    }
}

void replies_rewind(struct replies *r)
{
    if (PLANTED(replies_forgotten)) {
        for (uint32_t k = 0; k < r->known_count; k++)
            r->to[r->known[k]].out.sent = r->to[r->known[k]].stream.tail;
        return;
    }
    /* Who does not lead only adds, and may have replaced all of it by a snapshot since. */
    r->dirty_count = 0;
    for (uint32_t k = 0; k < r->known_count; k++) {
        struct answers *a = &r->to[r->known[k]];
        stream_rewind(&a->stream, &a->out);
        a->dirty = false;
        if (a->stream.tail > 0)
            make_dirty(r, r->known[k]);
    }
}

/* ---- snapshots: per client that has replies | life, place | tail | bytes before it, at most a ring | ---- */

static uint64_t saved_bytes(const struct stream *s)
{
    return s->tail == 0 ? 0 : 16 + s->tail - stream_floor(s);
}

uint64_t replies_save_bytes(const struct replies *r)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < r->known_count; k++)
        bytes += saved_bytes(&r->to[r->known[k]].stream);
    return bytes;
}

uint64_t replies_save(struct replies *r, unsigned char *out)
{
    unsigned char *at = out;
    for (uint32_t k = 0; k < r->known_count; k++) {
        struct stream *s = &r->to[r->known[k]].stream;
        if (s->tail == 0)
            continue;
        at = snap_put(at, (uint64_t)s->life << 32 | r->known[k]);
        at = snap_put(at, s->tail);
        stream_save(s, at);
        at += s->tail - stream_floor(s);
    }
    return (uint64_t)(at - out);
}

bool replies_load(struct replies *r, const unsigned char *in, uint64_t bytes)
{
    const unsigned char *at = in, *end = in + bytes;
    for (uint32_t k = 0; k < r->known_count; k++) {
        struct answers *a = &r->to[r->known[k]];
        a->stream.tail = a->stream.taken = a->stream.life = 0;
        stream_rewind(&a->stream, &a->out);
    }
    while (at < end) {
        uint64_t client, tail;
        if (end - at < 16)
            return false;
        at = snap_get(at, &client);
        at = snap_get(at, &tail);
        uint64_t life = client >> 32;
        client = (uint32_t)client;
        uint64_t have = min_u64(tail - stream_start(), r->opt.ring_bytes);
        if (client >= r->opt.clients || life >= STREAM_LIVES_MAX || tail <= stream_start() ||
            have > (uint64_t)(end - at))
            return false;
        struct answers *a = know(r, (uint32_t)client);
        stream_begin(&a->stream, (uint16_t)life);
        stream_load(&a->stream, tail - have, tail, at);
        stream_rewind(&a->stream, &a->out);
        at += have;
    }
    return true;
}
