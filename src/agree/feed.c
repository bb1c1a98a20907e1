#include "agree/feed.h"

#include "agree/log.h"
#include "base/planted.h"
#include "lane/stream.h"

#include <stdlib.h>
#include <string.h>

enum {
    SOURCE_BYTES_DEFAULT = 64 << 10,
    SAVE_WORDS = 2,
    HELPS_PER_RETRY = 2, /* who helps does so after this part of retry_ns, */
    HELP_RETRIES = 16,   /* and then goes on for so many of them */
    DOUBLINGS_MAX = 3,   /* of retry_ns, while it brings nothing: the way there may be long */
};

struct feed {
    struct feed_options opt;
    struct mem *mem;
    struct stream_shape shape;
    struct stream stream;
    uint32_t leader;
    uint64_t leader_ballot;
    uint64_t moved_ns; /* when progress was last seen, or nothing was outstanding */
    uint64_t moved_at;
    uint32_t retries;     /* since then */
    uint64_t help_end_ns; /* we help until then */
    uint32_t nodes[LOG_REPLICAS_MAX];
    struct stream_out out[LOG_REPLICAS_MAX]; /* by rank, */
    struct mem_lane *ack[LOG_REPLICAS_MAX];  /* and what it tells us */
};

int feed_open(const struct feed_options *options, struct feed **out, struct err *e)
{
    struct feed_options o = *options;
    if (o.replicas == 0 || o.replicas > LOG_REPLICAS_MAX)
        return err_set(e, ERR_INVALID, "feed: %u replicas; a group has 1 to %d", o.replicas,
                       LOG_REPLICAS_MAX);
    o.source_bytes = o.source_bytes ? o.source_bytes : SOURCE_BYTES_DEFAULT;
    o.payload_max = o.payload_max ? o.payload_max : o.source_bytes / 4;
    o.retry_ns = o.retry_ns ? o.retry_ns : 10 * UINT64_C(1000000);
    o.ack_region = o.ack_region ? o.ack_region : o.region;
    if (frame_size(o.payload_max) > o.source_bytes)
        return err_set(e, ERR_INVALID, "feed: messages of %u bytes do not fit a ring of %u",
                       o.payload_max, o.source_bytes);
    enum mem_birth birth;
    int rc = mem_region_open(o.mem, o.ack_region, &birth, e);
    if (rc != 0 && rc != ERR_EXISTS)
        return rc; /* one that is open already serves as well */
    struct feed *f = calloc(1, sizeof(*f));
    if (f == NULL)
        return err_set(e, ERR_NOMEM, "feed: no memory");
    f->opt = o;
    f->mem = o.mem;
    f->shape = (struct stream_shape){.ring_bytes = o.source_bytes,
                                     .bytes_max = o.payload_max,
                                     .guard = SOURCE_GUARD,
                                     .life = STREAM_NO_WORD};
    f->stream.shape = &f->shape;
    stream_begin(&f->stream, o.life);
    memcpy(f->nodes, o.nodes, o.replicas * sizeof(*o.nodes));
    f->opt.nodes = f->nodes;
    struct mem_lane_spec specs[2 * LOG_REPLICAS_MAX];
    struct mem_lane *lanes[2 * LOG_REPLICAS_MAX];
    for (uint32_t q = 0; q < o.replicas; q++) {
        specs[2 * q] = lane_spec(o.region, f->nodes[q], o.mem->self, LANE_SOURCE, o.source);
        specs[2 * q].ctl_words = SOURCE_WORDS;
        specs[2 * q].ring_bytes = o.source_bytes;
        specs[2 * q + 1] = lane_spec(o.ack_region, o.mem->self, f->nodes[q], LANE_ACK, o.source);
        specs[2 * q + 1].ctl_words = ACK_WORDS;
    }
    f->stream.ring = malloc(stream_ring_bytes(&f->shape));
    rc = f->stream.ring
             ? mem_lanes_open(o.mem, specs, 2 * o.replicas, lanes, e)
             : err_set(e, ERR_NOMEM, "feed: no memory for a ring of %u bytes", o.source_bytes);
    if (rc != 0) {
        feed_close(f);
        return rc;
    }
    for (uint32_t q = 0; q < o.replicas; q++) {
        f->out[q].lane = lanes[2 * q];
        f->ack[q] = lanes[2 * q + 1];
        stream_reopen(f->mem, &f->stream, &f->out[q]);
    }
    *out = f;
    return 0;
}

void feed_close(struct feed *f)
{
    if (f == NULL)
        return;
    free(f->stream.ring);
    free(f);
}

static uint64_t taken_so_far(const struct feed *f)
{
    return min_u64(f->stream.taken, f->stream.tail);
}

bool feed_room(struct feed *f, uint64_t stream_bytes)
{
    if (PLANTED(credit_over))
        return true;
    for (uint32_t q = 0; PLANTED(waits_for_all) && q < f->opt.replicas; q++)
        if (f->out[q].flow.status != MEM_DONE)
            return false;
    if (stream_room(&f->stream, stream_bytes))
        return true;
    feed_taken(f);
    return stream_room(&f->stream, stream_bytes);
}

void *feed_reserve(struct feed *f, uint32_t bytes, uint64_t *end)
{
    if (bytes > f->opt.payload_max || !feed_room(f, frame_size(bytes)))
        return NULL;
    void *payload = stream_reserve(&f->stream);
    stream_commit(&f->stream, bytes);
    *end = f->stream.tail;
    return payload;
}

int feed_send(struct feed *f, const void *payload, uint32_t bytes, uint64_t *end)
{
    if (bytes > f->opt.payload_max)
        return ERR_TOOBIG;
    void *to = feed_reserve(f, bytes, end);
    if (to == NULL)
        return ERR_AGAIN;
    if (bytes > 0)
        memcpy(to, payload, bytes);
    return 0;
}

/* Does it go to the leader alone? What the leader takes nobody else needs, and where writes are messages that
 * spares most of them. A new leader tells all sources that it leads, and gets then what was not taken. */
static bool to_leader_alone(const struct feed *f)
{
    return f->mem->remote && f->leader_ballot > 0 && f->out[f->leader].flow.status == MEM_DONE;
}

void feed_flush(struct feed *f)
{
    /* The leader first: everybody waits for it. */
    stream_push(f->mem, &f->stream, &f->out[f->leader]);
    mem_bell_later(f->mem, f->nodes[f->leader]);
    if (to_leader_alone(f))
        return;
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        stream_push(f->mem, &f->stream, &f->out[q]);
}

uint64_t feed_taken(struct feed *f)
{
    for (uint32_t q = 0; q < f->opt.replicas; q++) {
        const struct mem_lane *ack = f->ack[q];
        if (ack->ctl == NULL)
            continue;
        /* Read again once it is known to be ours: what stood there first may be an earlier life's. */
        if (mem_word(ack, ACK_TAKEN) > f->stream.taken &&
            (mem_word(ack, ACK_LIFE) == f->opt.life || PLANTED(ack_of_another)))
            f->stream.taken = max_u64(f->stream.taken, mem_word(ack, ACK_TAKEN));
        uint64_t ballot = mem_word(ack, ACK_BALLOT);
        if (ballot > f->leader_ballot) {
            f->leader_ballot = ballot;
            f->leader = q;
        }
    }
    return taken_so_far(f);
}

uint64_t feed_end(const struct feed *f)
{
    return f->stream.tail;
}

void feed_rewind(struct feed *f)
{
    uint64_t taken = feed_taken(f);
    if (PLANTED(edge_forgets) || PLANTED(stamps_forgotten))
        taken = f->stream.tail;
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        f->out[q].sent = taken;
}

/* Was something taken since it was last looked at, or is there nothing to be taken? */
static bool moves(struct feed *f, uint64_t taken, uint64_t now_ns)
{
    if (taken != f->stream.tail && taken == f->moved_at && f->moved_ns != 0)
        return false;
    f->moved_at = taken;
    f->moved_ns = now_ns;
    f->retries = 0;
    return true;
}

void feed_step(struct feed *f, uint64_t now_ns)
{
    uint64_t taken = feed_taken(f);
    bool alone = to_leader_alone(f);
    for (uint32_t q = 0; q < f->opt.replicas; q++) {
        struct stream_out *o = &f->out[q];
        if (o->flow.status != MEM_DONE)
            stream_reopen(f->mem, &f->stream, o);
        if (!alone || q == f->leader)
            stream_push(f->mem, &f->stream, o);
    }
    if (moves(f, taken, now_ns))
        return;
    if (now_ns - f->moved_ns < f->opt.retry_ns << f->retries || PLANTED(edge_forgets) ||
        PLANTED(stamps_forgotten))
        return;
    f->moved_ns = now_ns;
    f->retries += f->retries < DOUBLINGS_MAX;
    feed_rewind(f);
    for (uint32_t q = 0; q < f->opt.replicas; q++) {
        stream_push(f->mem, &f->stream, &f->out[q]);
        mem_bell(f->mem, f->nodes[q]);
    }
}

void feed_help(struct feed *f, uint64_t now_ns)
{
    if (now_ns >= f->help_end_ns) {
        if (moves(f, feed_taken(f), now_ns) ||
            now_ns - f->moved_ns < f->opt.retry_ns / HELPS_PER_RETRY)
            return;
        f->help_end_ns = now_ns + HELP_RETRIES * f->opt.retry_ns;
        feed_rewind(f);
    }
    feed_step(f, now_ns);
}

uint64_t feed_save_bytes(struct feed *f)
{
    return SAVE_WORDS * 8 + (f->stream.tail - feed_taken(f));
}

void feed_save(struct feed *f, unsigned char *out)
{
    uint64_t words[SAVE_WORDS] = {stream_floor(&f->stream), f->stream.tail};
    memcpy(out, words, sizeof(words));
    stream_save(&f->stream, out + sizeof(words));
}

bool feed_load(struct feed *f, const unsigned char *in, uint64_t bytes)
{
    uint64_t words[SAVE_WORDS];
    if (bytes < sizeof(words))
        return false;
    memcpy(words, in, sizeof(words));
    if (words[0] > words[1] || words[1] - words[0] != bytes - sizeof(words) ||
        words[1] - words[0] > f->opt.source_bytes)
        return false;
    stream_load(&f->stream, words[0], words[1], in + sizeof(words));
    for (uint32_t q = 0; q < f->opt.replicas; q++)
        stream_rewind(&f->stream, &f->out[q]);
    return true;
}

uint32_t feed_leader(const struct feed *f)
{
    return f->leader;
}
