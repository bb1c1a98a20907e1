#include "agree/source.h"

#include "agree/log.h"
#include "base/lines.h"
#include "base/planted.h"
#include "lane/stream.h"

#include <stdlib.h>
#include <string.h>

enum {
    SAVE_WORDS = 2,
    HELPS_PER_RETRY = 2, /* who helps does so after this part of retry_ns, */
    HELP_RETRIES = 16,   /* and then goes on for so many of them */
    DOUBLINGS_MAX = 3,   /* of retry_ns, while it brings nothing: the way there may be long */
};

struct source {
    struct source_options opt;
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

int source_open(const struct source_options *options, struct source **out, struct err *e)
{
    struct source_options o = *options;
    if (o.replicas == 0 || o.replicas > LOG_REPLICAS_MAX)
        return err_set(e, ERR_INVALID, "source: %u replicas; a group has 1 to %d", o.replicas,
                       LOG_REPLICAS_MAX);
    o.source_bytes = o.source_bytes ? o.source_bytes : SOURCE_BYTES_DEFAULT;
    o.payload_max = o.payload_max ? o.payload_max : o.source_bytes / 4;
    o.retry_ns = o.retry_ns ? o.retry_ns : 10 * UINT64_C(1000000);
    o.ack_region = o.ack_region ? o.ack_region : o.region;
    if (frame_size(o.payload_max) > o.source_bytes)
        return err_set(e, ERR_INVALID, "source: messages of %u bytes do not fit a ring of %u",
                       o.payload_max, o.source_bytes);
    enum mem_birth birth;
    int rc = mem_region_open(o.mem, o.ack_region, &birth, e);
    if (rc != 0 && rc != ERR_EXISTS)
        return rc; /* one that is open already serves as well */
    struct source *s = lines_alloc(sizeof(*s));
    if (s == NULL)
        return err_set(e, ERR_NOMEM, "source: no memory");
    s->opt = o;
    s->mem = o.mem;
    s->shape = (struct stream_shape){.ring_bytes = o.source_bytes,
                                     .bytes_max = o.payload_max,
                                     .guard = SOURCE_GUARD,
                                     .life = STREAM_NO_WORD};
    s->stream.shape = &s->shape;
    stream_begin(&s->stream, o.life);
    memcpy(s->nodes, o.nodes, o.replicas * sizeof(*o.nodes));
    s->opt.nodes = s->nodes;
    struct mem_lane_spec specs[2 * LOG_REPLICAS_MAX];
    struct mem_lane *lanes[2 * LOG_REPLICAS_MAX];
    for (uint32_t q = 0; q < o.replicas; q++) {
        specs[2 * q] = lane_spec(o.region, s->nodes[q], o.mem->self, LANE_SOURCE, o.number);
        specs[2 * q].ctl_words = SOURCE_WORDS;
        specs[2 * q].ring_bytes = o.source_bytes;
        specs[2 * q + 1] = lane_spec(o.ack_region, o.mem->self, s->nodes[q], LANE_ACK, o.number);
        specs[2 * q + 1].ctl_words = ACK_WORDS;
    }
    s->stream.ring = malloc(stream_ring_bytes(&s->shape));
    rc = s->stream.ring
             ? mem_lanes_open(o.mem, specs, 2 * o.replicas, lanes, e)
             : err_set(e, ERR_NOMEM, "source: no memory for a ring of %u bytes", o.source_bytes);
    if (rc != 0) {
        source_close(s);
        return rc;
    }
    for (uint32_t q = 0; q < o.replicas; q++) {
        s->out[q].lane = lanes[2 * q];
        s->ack[q] = lanes[2 * q + 1];
        stream_reopen(s->mem, &s->stream, &s->out[q]);
    }
    *out = s;
    return 0;
}

void source_close(struct source *s)
{
    if (s == NULL)
        return;
    free(s->stream.ring);
    free(s);
}

static uint64_t taken_so_far(const struct source *s)
{
    return min_u64(s->stream.taken, s->stream.tail);
}

bool source_room(struct source *s, uint64_t stream_bytes)
{
    if (PLANTED(credit_over))
        return true;
    for (uint32_t q = 0; PLANTED(waits_for_all) && q < s->opt.replicas; q++)
        if (s->out[q].flow.status != MEM_DONE)
            return false;
    if (stream_room(&s->stream, stream_bytes))
        return true;
    source_taken(s);
    return stream_room(&s->stream, stream_bytes);
}

void source_make_room(struct source *s, uint64_t stream_bytes)
{
    uint64_t end = s->stream.tail + stream_bytes, pos = taken_so_far(s);
    stream_settle(&s->stream);
    /* Whole frames: what is left begins with one. */
    while (end > pos + s->shape.ring_bytes) {
        struct frame f;
        frame_read(&f, s->stream.ring, s->shape.ring_bytes, pos);
        pos += frame_size(f.bytes);
    }
    s->stream.taken = max_u64(s->stream.taken, pos);
}

void *source_reserve(struct source *s, uint32_t bytes, uint64_t *end)
{
    if (bytes > s->opt.payload_max || !source_room(s, frame_size(bytes)))
        return NULL;
    void *payload = stream_reserve(&s->stream);
    stream_commit(&s->stream, bytes);
    *end = s->stream.tail;
    return payload;
}

int source_send(struct source *s, const void *payload, uint32_t bytes, uint64_t *end)
{
    if (bytes > s->opt.payload_max)
        return ERR_TOOBIG;
    void *to = source_reserve(s, bytes, end);
    if (to == NULL)
        return ERR_AGAIN;
    if (bytes > 0)
        memcpy(to, payload, bytes);
    return 0;
}

/* Does it go to the leader alone? What the leader takes nobody else needs, and where writes are messages that
 * spares most of them. A new leader tells all sources that it leads, and gets then what was not taken. */
static bool to_leader_alone(const struct source *s)
{
    return s->opt.faulty == 0 && s->mem->remote && s->leader_ballot > 0 &&
           s->out[s->leader].flow.status == MEM_DONE;
}

void source_flush(struct source *s)
{
    /* The leader first: everybody waits for it. */
    stream_push(s->mem, &s->stream, &s->out[s->leader]);
    mem_bell_later(s->mem, s->nodes[s->leader]);
    if (to_leader_alone(s))
        return;
    for (uint32_t q = 0; q < s->opt.replicas; q++)
        stream_push(s->mem, &s->stream, &s->out[q]);
}

/* As far as one replica says; what it says of another life is nothing. */
static uint64_t said_taken(const struct source *s, uint32_t q)
{
    const struct mem_lane *ack = s->ack[q];
    uint64_t taken = ack->ctl ? mem_word(ack, ACK_TAKEN) : stream_start();
    bool ours = ack->ctl && mem_word(ack, ACK_LIFE) == s->opt.life;
    return ours ? min_u64(taken, s->stream.tail) : stream_start();
}

/* Of the replicas one more than may lie say that it was taken up to there. */
static uint64_t taken_among_liars(struct source *s)
{
    for (uint32_t q = 0; q < s->opt.replicas; q++) {
        uint64_t taken = said_taken(s, q);
        uint32_t count = 0;
        for (uint32_t p = 0; taken > s->stream.taken && p < s->opt.replicas; p++)
            count += said_taken(s, p) >= taken;
        if (count > s->opt.faulty)
            s->stream.taken = taken;
    }
    return taken_so_far(s);
}

uint64_t source_taken(struct source *s)
{
    if (s->opt.faulty > 0)
        return taken_among_liars(s);
    for (uint32_t q = 0; q < s->opt.replicas; q++) {
        const struct mem_lane *ack = s->ack[q];
        if (ack->ctl == NULL)
            continue;
        /* Read again once it is known to be ours: what stood there first may be an earlier life's. */
        if (mem_word(ack, ACK_TAKEN) > s->stream.taken &&
            (mem_word(ack, ACK_LIFE) == s->opt.life || PLANTED(ack_of_another)))
            s->stream.taken = max_u64(s->stream.taken, mem_word(ack, ACK_TAKEN));
        uint64_t ballot = mem_word(ack, ACK_BALLOT);
        if (ballot > s->leader_ballot) {
            s->leader_ballot = ballot;
            s->leader = q;
        }
    }
    return taken_so_far(s);
}

bool source_is_asked(const struct source *s)
{
    uint32_t count = 0;
    for (uint32_t q = 0; q < s->opt.replicas; q++)
        count += s->ack[q]->ctl && mem_word(s->ack[q], ACK_ASKS) == 1;
    return s->opt.faulty > 0 && count > s->opt.faulty;
}

uint64_t source_end(const struct source *s)
{
    return s->stream.tail;
}

void source_rewind(struct source *s)
{
    uint64_t taken = source_taken(s);
    if (PLANTED(edge_forgets) || PLANTED(stamps_forgotten))
        taken = s->stream.tail;
    for (uint32_t q = 0; q < s->opt.replicas; q++)
        s->out[q].sent = taken;
}

/* Was something taken since it was last looked at, or is there nothing to be taken? */
static bool moves(struct source *s, uint64_t taken, uint64_t now_ns)
{
    if (taken != s->stream.tail && taken == s->moved_at && s->moved_ns != 0)
        return false;
    s->moved_at = taken;
    s->moved_ns = now_ns;
    s->retries = 0;
    return true;
}

void source_step(struct source *s, uint64_t now_ns)
{
    uint64_t taken = source_taken(s);
    bool alone = to_leader_alone(s);
    for (uint32_t q = 0; q < s->opt.replicas; q++) {
        struct stream_out *o = &s->out[q];
        if (o->flow.status != MEM_DONE)
            stream_reopen(s->mem, &s->stream, o);
        if (!alone || q == s->leader)
            stream_push(s->mem, &s->stream, o);
    }
    if (moves(s, taken, now_ns))
        return;
    if (now_ns - s->moved_ns < s->opt.retry_ns << s->retries || PLANTED(edge_forgets) ||
        PLANTED(stamps_forgotten))
        return;
    s->moved_ns = now_ns;
    s->retries += s->retries < DOUBLINGS_MAX;
    source_rewind(s);
    for (uint32_t q = 0; q < s->opt.replicas; q++) {
        stream_push(s->mem, &s->stream, &s->out[q]);
        mem_bell(s->mem, s->nodes[q]);
    }
}

void source_help(struct source *s, uint64_t now_ns)
{
    if (now_ns >= s->help_end_ns) {
        if (moves(s, source_taken(s), now_ns) ||
            now_ns - s->moved_ns < s->opt.retry_ns / HELPS_PER_RETRY)
            return;
        s->help_end_ns = now_ns + HELP_RETRIES * s->opt.retry_ns;
        source_rewind(s);
    }
    source_step(s, now_ns);
}

uint64_t source_save_bytes(struct source *s)
{
    return SAVE_WORDS * 8 + (s->stream.tail - source_taken(s));
}

void source_save(struct source *s, unsigned char *out)
{
    uint64_t words[SAVE_WORDS] = {stream_floor(&s->stream), s->stream.tail};
    memcpy(out, words, sizeof(words));
    stream_save(&s->stream, out + sizeof(words));
}

bool source_load(struct source *s, const unsigned char *in, uint64_t bytes)
{
    uint64_t words[SAVE_WORDS];
    if (bytes < sizeof(words))
        return false;
    memcpy(words, in, sizeof(words));
    if (words[0] > words[1] || words[1] - words[0] != bytes - sizeof(words) ||
        words[1] - words[0] > s->opt.source_bytes)
        return false;
    stream_load(&s->stream, words[0], words[1], in + sizeof(words));
    for (uint32_t q = 0; q < s->opt.replicas; q++)
        stream_rewind(&s->stream, &s->out[q]);
    return true;
}
