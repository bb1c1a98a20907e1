#include "mcast/replies.h"

#include "agree/entry.h"
#include "base/planted.h"
#include "mcast/lanes.h"
#include "mcast/snap.h"
#include "mem/wrap.h"

#include <stdlib.h>

/* The replies to one client. */
struct stream {
    uint64_t tail;         /* its end; 0: there is none */
    uint64_t flushed;      /* what has been written to the client */
    unsigned char *ring;   /* the last ring_bytes of it; NULL until there is one */
    struct mem_lane *lane; /* NULL: it has not come here yet */
    struct mem_flow flow;
    bool dirty;     /* is in the list */
    bool told_life; /* the client's lane is known to be about this life */
    uint16_t life;  /* of the client that it is for */
};

struct replies {
    struct replies_options opt;
    struct stream *stream; /* by place */
    uint32_t *dirty;       /* places with something to write */
    uint32_t dirty_count;
    uint32_t *known; /* places with a ring */
    uint32_t known_count;
    unsigned char *rings;  /* of all places */
    struct reply *nobodys; /* room for one that goes nowhere */
};

/* Bytes from one client's ring to the next one's: with room for one reply more behind, so that one is
 * written in a piece. */
static uint64_t ring_stride(const struct replies_options *o)
{
    return o->ring_bytes + sizeof(struct frame) + sizeof(struct reply) + entry_padded(o->reply_max);
}

int replies_open(const struct replies_options *options, struct replies **out, struct err *e)
{
    const uint32_t clients = options->clients;
    struct replies *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return err_set(e, ERR_NOMEM, "replies: no memory");
    r->opt = *options;
    r->stream = calloc(clients, sizeof(*r->stream));
    r->dirty = calloc(clients, sizeof(*r->dirty));
    r->known = calloc(clients, sizeof(*r->known));
    r->nobodys = malloc(sizeof(struct reply) + entry_padded(options->reply_max));
    /* For all that there may be, and touched only for those that come. */
    r->rings = malloc(clients * ring_stride(options));
    if (!r->stream || !r->dirty || !r->known || !r->nobodys || !r->rings) {
        replies_close(r);
        return err_set(e, ERR_NOMEM, "replies: no memory for %u clients", clients);
    }
    *out = r;
    return 0;
}

static struct stream *know(struct replies *r, uint32_t client)
{
    struct stream *s = &r->stream[client];
    if (s->ring == NULL) {
        s->ring = r->rings + client * ring_stride(&r->opt);
        r->known[r->known_count++] = client;
    }
    return s;
}

static void make_dirty(struct replies *r, uint32_t client)
{
    if (r->stream[client].dirty)
        return;
    r->stream[client].dirty = true;
    r->dirty[r->dirty_count++] = client;
}

int replies_client_open(struct replies *r, uint32_t client, struct err *e)
{
    const struct replies_options *o = &r->opt;
    struct stream *s = know(r, client);
    if (s->lane != NULL)
        return 0;
    struct mem_lane_spec spec = {
        .owner = o->client_node + client,
        .writer = o->mem->self,
        .region = o->region,
        .kind = LANE_REPLY,
        .ctl_words = REPLY_WORDS,
        .ring_bytes = o->ring_bytes,
    };
    int rc = mem_lanes_open(o->mem, &spec, 1, &s->lane, e);
    if (rc != 0) {
        s->lane = NULL;
        return rc;
    }
    mem_flow_open(o->mem, &s->flow, spec.owner, o->region, 0);
    if (s->tail > 0)
        make_dirty(r, client);
    return 0;
}

void replies_close(struct replies *r)
{
    if (r == NULL)
        return;
    free(r->stream);
    free(r->dirty);
    free(r->known);
    free(r->nobodys);
    free(r->rings);
    free(r);
}

struct reply *replies_begin(struct replies *r, uint32_t client, uint16_t life)
{
    struct stream *s = know(r, client);
    if (s->life > life)
        return r->nobodys;
    if (s->life < life || s->tail == 0) {
        s->tail = s->flushed = stream_start();
        s->life = life;
        s->told_life = false;
    }
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
    *(struct frame *)(void *)(s->ring + at) =
        (struct frame){.pos = s->tail, .bytes = bytes, .life = s->life};
    memset(reply->body + reply->bytes, 0, entry_padded(bytes) - bytes);
    if (at + size > ring_bytes)
        memcpy(s->ring, s->ring + ring_bytes, at + size - ring_bytes);
    s->tail += size;
    make_dirty(r, client);
}

/* How many bytes of the stream we have. */
static uint64_t stream_have(const struct replies *r, uint64_t tail)
{
    uint64_t all = tail - stream_start();
    return all < r->opt.ring_bytes ? all : r->opt.ring_bytes;
}

/* The next flush of this stream begins where what we have begins. */
static void stream_rewind(const struct replies *r, struct stream *s)
{
    if (s->tail > 0)
        s->flushed = s->tail - stream_have(r, s->tail);
    s->told_life = false;
}

/* The lane is about the life of the stream from now on. */
static void tell_life(struct replies *r, struct stream *s)
{
    if (s->told_life)
        return;
    mem_set1(r->opt.mem, &s->flow, s->lane, REPLY_GUARD, stream_start());
    mem_set1(r->opt.mem, &s->flow, s->lane, REPLY_LIFE, s->life);
    s->told_life = true;
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
    tell_life(r, s);
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
        struct stream *s = &r->stream[client];
        s->dirty = false;
        if (s->lane == NULL)
            continue; /* when it comes */
        stream_flush(r, client);
        if (s->flushed == s->tail) {
            done++;
        } else if (!mem_dead(r->opt.mem, r->opt.client_node + client)) {
            s->dirty = true;
            r->dirty[left++] = client;
        } /* else with the next step, if that is not true: there may be many who have left */
    }
    r->dirty_count = left;
    return done;
}

void replies_step(struct replies *r)
{
    for (uint32_t k = 0; k < r->known_count; k++) {
        const struct stream *s = &r->stream[r->known[k]];
        if (s->lane && s->flow.status != MEM_DONE && s->tail > 0)
            make_dirty(r, r->known[k]);
    }
}

void replies_rewind(struct replies *r)
{
    if (PLANTED(replies_forgotten)) {
        for (uint32_t k = 0; k < r->known_count; k++)
            r->stream[r->known[k]].flushed = r->stream[r->known[k]].tail;
        return;
    }
    /* Who does not lead only adds, and may have replaced all of it by a snapshot since. */
    r->dirty_count = 0;
    for (uint32_t k = 0; k < r->known_count; k++) {
        struct stream *s = &r->stream[r->known[k]];
        stream_rewind(r, s);
        s->dirty = false;
        if (s->tail > 0)
            make_dirty(r, r->known[k]);
    }
}

/* ---- snapshots: per client that has replies | life, place | tail | bytes before it, at most a ring | ---- */

uint64_t replies_save_bytes(const struct replies *r)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < r->known_count; k++) {
        uint64_t tail = r->stream[r->known[k]].tail;
        bytes += tail == 0 ? 0 : 16 + stream_have(r, tail);
    }
    return bytes;
}

uint64_t replies_save(const struct replies *r, unsigned char *out)
{
    unsigned char *at = out;
    for (uint32_t k = 0; k < r->known_count; k++) {
        const struct stream *s = &r->stream[r->known[k]];
        if (s->tail == 0)
            continue;
        uint64_t have = stream_have(r, s->tail);
        at = snap_put(at, (uint64_t)s->life << 32 | r->known[k]);
        at = snap_put(at, s->tail);
        ring_read(s->ring, r->opt.ring_bytes, s->tail - have, at, have);
        at += have;
    }
    return (uint64_t)(at - out);
}

bool replies_load(struct replies *r, const unsigned char *in, uint64_t bytes)
{
    const unsigned char *at = in, *end = in + bytes;
    for (uint32_t k = 0; k < r->known_count; k++) {
        struct stream *s = &r->stream[r->known[k]];
        s->tail = s->flushed = s->life = 0;
        s->told_life = false;
    }
    while (at < end) {
        uint64_t client, tail;
        if (end - at < 16)
            return false;
        at = snap_get(at, &client);
        at = snap_get(at, &tail);
        uint64_t life = client >> 32;
        client = (uint32_t)client;
        if (client >= r->opt.clients || life >= SOURCE_LIVES_MAX || tail <= stream_start() ||
            stream_have(r, tail) > (uint64_t)(end - at))
            return false;
        struct stream *s = know(r, (uint32_t)client);
        s->life = (uint16_t)life;
        s->told_life = false;
        uint64_t have = stream_have(r, tail);
        s->tail = s->flushed = tail;
        ring_write(s->ring, r->opt.ring_bytes, tail - have, at, have);
        at += have;
    }
    return true;
}
