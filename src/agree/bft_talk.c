#include "agree/bft_talk.h"

#include "base/planted.h"
#include "lane/names.h"
#include "lane/stream.h"

#include <stdlib.h>

struct other {
    struct stream out;
    struct stream_out way; /* its lane: owned by the other */
    struct mem_lane *in;   /* owned by us */
    uint32_t life;         /* of the other, as it says */
    uint16_t epoch;        /* of what is read */
    uint64_t read;         /* position */
    uint32_t read_bytes;   /* of the last frame, with its header */
    bool muted;
    uint64_t told;       /* TAKEN, as it was written last, */
    uint32_t told_epoch; /* and of what; UINT32_MAX: not yet */
    uint64_t tag;
};

struct bft_talk {
    struct bft_talk_options opt;
    struct stream_shape shape;
    struct other other[BFT_MEMBERS_MAX];
    unsigned char *frame; /* that was read last */
    uint64_t bytes;
};

/* ---- opening ---- */

static uint16_t epoch_of(uint32_t writer, uint32_t reader)
{
    return (uint16_t)((writer & 0xff) << 8 | (reader & 0xff));
}

static void *memory_open(struct bft_talk *t, uint64_t bytes)
{
    t->bytes += bytes;
    return calloc(1, bytes);
}

static int open_lanes(struct bft_talk *t, struct err *e)
{
    const struct bft_talk_options *o = &t->opt;
    struct mem_lane_spec specs[2 * BFT_MEMBERS_MAX];
    struct mem_lane *lanes[2 * BFT_MEMBERS_MAX];
    uint32_t count = 0, self = o->nodes[o->rank];
    for (uint32_t p = 0; p < o->members; p++) {
        if (p == o->rank)
            continue;
        specs[count++] = lane_spec(o->region, o->nodes[p], self, LANE_TALK, 0);
        specs[count++] = lane_spec(o->region, self, o->nodes[p], LANE_TALK, 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        specs[i].ctl_words = TALK_WORDS;
        specs[i].ring_bytes = o->ring_bytes;
    }
    int rc = mem_lanes_open(o->mem, specs, count, lanes, e);
    for (uint32_t p = 0, i = 0; rc == 0 && p < o->members; p++)
        if (p != o->rank) {
            t->other[p].way.lane = lanes[i++];
            t->other[p].in = lanes[i++];
        }
    return rc;
}

static void hello(struct bft_talk *t, struct other *p)
{
    mem_set1(t->opt.mem, &p->way.flow, p->way.lane, TALK_LIFE, t->opt.life);
    p->told_epoch = UINT32_MAX;
}

static int open_others(struct bft_talk *t, struct err *e)
{
    for (uint32_t r = 0; r < t->opt.members; r++) {
        struct other *p = &t->other[r];
        if (r == t->opt.rank)
            continue;
        p->out.shape = &t->shape;
        p->out.ring = memory_open(t, stream_ring_bytes(&t->shape));
        if (p->out.ring == NULL)
            return err_set(e, ERR_NOMEM, "group: no memory for frames to %u members",
                           t->opt.members);
        stream_begin(&p->out, epoch_of(t->opt.life, 0));
        mem_flow_open(t->opt.mem, &p->way.flow, t->opt.nodes[r], t->opt.region, 0);
        p->way.sent = p->out.tail;
        p->epoch = epoch_of(0, t->opt.life);
        p->read = stream_start();
        hello(t, p);
    }
    return 0;
}

int bft_talk_open(const struct bft_talk_options *o, struct bft_talk **out, struct err *e)
{
    CHECK(o->frame_max <= o->ring_bytes / 4);
    struct bft_talk *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return err_set(e, ERR_NOMEM, "group: no memory for frames");
    t->opt = *o;
    t->bytes = sizeof(*t);
    t->shape = (struct stream_shape){.ring_bytes = o->ring_bytes,
                                     .bytes_max = o->frame_max,
                                     .guard = TALK_GUARD,
                                     .life = TALK_EPOCH};
    t->frame = memory_open(t, o->frame_max + sizeof(uint64_t));
    int rc = t->frame ? open_lanes(t, e) : err_set(e, ERR_NOMEM, "group: no memory for a frame");
    rc = rc == 0 ? open_others(t, e) : rc;
    if (rc == 0)
        *out = t;
    else
        bft_talk_close(t);
    return rc;
}

void bft_talk_close(struct bft_talk *t)
{
    for (uint32_t p = 0; p < t->opt.members; p++)
        free(t->other[p].out.ring);
    free(t->frame);
    free(t);
}

uint64_t bft_talk_bytes(const struct bft_talk *t)
{
    return t->bytes;
}

/* ---- writing ---- */

bool bft_talk_send(struct bft_talk *t, uint32_t to, const struct bft_frame *f, const void *data,
                   uint32_t bytes)
{
    struct other *p = &t->other[to];
    uint64_t size = sizeof(*f) + bytes;
    CHECK(size <= t->opt.frame_max && to != t->opt.rank);
    if (!stream_room(&p->out, frame_size((uint32_t)size)))
        return false;
    unsigned char *at = stream_reserve(&p->out);
    memcpy(at, f, sizeof(*f));
    if (bytes)
        memcpy(at + sizeof(*f), data, bytes);
    stream_commit(&p->out, (uint32_t)size);
    return true;
}

/* How far the other has read. What it says beyond our end, or of another epoch, is nothing. */
static void note_taken(struct other *p)
{
    bool ours = mem_word(p->in, TALK_TAKEN_EPOCH) == p->out.life;
    uint64_t pos = mem_word(p->in, TALK_TAKEN);
    if (ours && pos > p->out.taken && pos <= p->out.tail && pos % 8 == 0)
        p->out.taken = pos;
}

/* It has lost its memory: what it has not read is gone, and it begins with nothing. */
static void note_life(struct bft_talk *t, struct other *p)
{
    uint64_t life = mem_word(p->in, TALK_LIFE);
    if (life == p->life || life > UINT16_MAX)
        return;
    p->life = (uint32_t)life;
    stream_begin(&p->out, epoch_of(t->opt.life, p->life));
    p->way.sent = p->out.tail;
    p->way.begun = false;
}

static void tell_taken(struct bft_talk *t, struct other *p)
{
    if (p->told_epoch != p->epoch) {
        mem_set1(t->opt.mem, &p->way.flow, p->way.lane, TALK_TAKEN, stream_start());
        mem_set1(t->opt.mem, &p->way.flow, p->way.lane, TALK_TAKEN_EPOCH, p->epoch);
        p->told_epoch = p->epoch;
        p->told = stream_start();
    }
    if (p->read == p->told)
        return;
    p->told = p->read;
    mem_set1(t->opt.mem, &p->way.flow, p->way.lane, TALK_TAKEN, p->read);
}

static int post_other(struct bft_talk *t, struct other *p)
{
    if (p->way.flow.status != MEM_DONE) {
        if (!stream_reopen(t->opt.mem, &p->out, &p->way))
            return 0;
        hello(t, p);
    }
    if (p->in->ctl) {
        note_life(t, p);
        note_taken(p);
    }
    bool new = p->way.sent != p->out.tail;
    stream_push(t->opt.mem, &p->out, &p->way);
    tell_taken(t, p);
    if (new)
        mem_mark(t->opt.mem, &p->way.flow, ++p->tag);
    return new;
}

int bft_talk_post(struct bft_talk *t)
{
    int work = 0;
    for (uint32_t p = 0; p < t->opt.members; p++)
        if (p != t->opt.rank)
            work += post_other(t, &t->other[p]);
    return work;
}

/* ---- reading ---- */

/* The other has begun anew, for this life of ours. */
static void note_epoch(const struct bft_talk *t, struct other *p)
{
    uint64_t epoch = mem_word(p->in, TALK_EPOCH);
    if (epoch == p->epoch || epoch > UINT16_MAX || (epoch & 0xff) != (t->opt.life & 0xff))
        return;
    p->epoch = (uint16_t)epoch;
    p->read = stream_start();
    p->muted = false;
}

static const struct bft_frame *mute(struct other *p)
{
    p->muted = true;
    return NULL;
}

const struct bft_frame *bft_talk_read(struct bft_talk *t, uint32_t from, uint32_t *bytes)
{
    struct other *p = &t->other[from];
    struct frame f;
    if (from == t->opt.rank || p->in->ctl == NULL)
        return NULL;
    note_epoch(t, p);
    uint64_t guard = stream_guard(&t->shape, p->in, p->epoch);
    if (p->muted || guard <= p->read)
        return NULL;
    if (guard - p->read > t->opt.ring_bytes)
        return mute(p);
    mem_take(t->opt.mem, p->in, p->read, &f, sizeof(f));
    if (!frame_fits(&f, p->read, p->epoch, t->opt.frame_max, guard) ||
        f.bytes < sizeof(struct bft_frame))
        return mute(p);
    mem_take(t->opt.mem, p->in, p->read + sizeof(f), t->frame, f.bytes);
    p->read_bytes = (uint32_t)frame_size(f.bytes);
    p->read += p->read_bytes;
    *bytes = f.bytes - (uint32_t)sizeof(struct bft_frame);
    return (const void *)t->frame;
}

#if TRAM_PLANTED
void bft_talk_again(struct bft_talk *t, uint32_t from)
{
    struct other *p = &t->other[from];
    mem_take(t->opt.mem, p->in, p->read - p->read_bytes + sizeof(struct frame), t->frame,
             p->read_bytes - (uint32_t)sizeof(struct frame));
}
#endif
