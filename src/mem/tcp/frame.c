/* What comes: each frame is checked against what the other side may do, judged, and then copied. */
#include "mem/tcp/impl.h"

#include <stdlib.h>
#include <string.h>

#define NO_HELLO "it did not begin with a hello"

/* ---- flows of the other side ---- */

static const char *on_open(struct tcp_link *l, const struct tcp_frame *f, const uint64_t *words)
{
    if (f->words != 2 || f->flow >= TCP_FLOWS_MAX || f->flow > l->in_flows ||
        (words[0] != 0 && !tcp_promises(l)))
        return "it opened a flow that it cannot have";
    if (f->flow == l->in_flows) {
        if ((l->in_flows & (l->in_flows - 1)) == 0) {
            uint32_t room = l->in_flows ? 2 * l->in_flows : 1;
            struct in_flow *more = realloc(l->in_flow, room * sizeof(*more));
            if (!more)
                return "there is no memory for its flows";
            l->in_flow = more;
        }
        l->in_flow[l->in_flows++] = (struct in_flow){0};
    }
    struct in_flow *in = &l->in_flow[f->flow];
    const struct region *r = far_region_find(l->link.node, f->lane);
    bool listed = in->listed;
    *in = (struct in_flow){.ballot = words[0],
                           .gen = words[1],
                           .region = f->lane,
                           .index = r ? far_region_index(l->link.node, r) : UINT32_MAX,
                           .open = true,
                           .listed = listed};
    return NULL;
}

static struct in_flow *flow_of(const struct tcp_link *l, const struct tcp_frame *f)
{
    return f->flow < l->in_flows ? &l->in_flow[f->flow] : NULL;
}

/* Has the flow to be answered when all that has come is taken. */
static const char *answer_later(struct tcp_link *l, uint32_t flow)
{
    struct in_flow *in = &l->in_flow[flow];

    if (in->listed)
        return NULL;
    if (l->answers == l->answers_room) {
        uint32_t room = l->answers_room ? 2 * l->answers_room : 64;
        uint32_t *more = realloc(l->answer, room * sizeof(*more));
        if (!more)
            return "there is no memory for answers";
        l->answer = more;
        l->answers_room = room;
    }
    in->listed = true;
    l->answer[l->answers++] = flow;
    return NULL;
}

/* May a write of the flow land now? Once it may not, none of it ever may again: the promise could come to its ballot
 * later, and there would be a hole. */
static bool may_land(struct tcp_link *l, struct in_flow *in)
{
    if (in->ballot == 0 || in->status != MEM_DONE)
        return in->status == MEM_DONE;
    if (in->index == UINT32_MAX)
        in->status = MEM_LOST; /* there was no such region when it was opened */
    else if (far_promised_at(l->link.node, in->index) != in->ballot)
        in->status = MEM_DENIED;
    return in->status == MEM_DONE;
}

bool tcp_answer_all(struct tcp_link *l)
{
    for (uint32_t i = 0; i < l->answers; i++) {
        struct in_flow *in = &l->in_flow[l->answer[i]];
        const uint64_t words[] = {in->gen, in->tag};
        struct tcp_frame answer = {
            .kind = TCP_ANSWER, .words = 2, .flow = l->answer[i], .at = (uint32_t)in->status};
        in->listed = false;
        if (!tcp_frame_add(l, answer, words)) {
            l->link.fault = TAKES_NOTHING;
            return false;
        }
    }
    l->answers = 0;
    return true;
}

static const char *on_mark(struct tcp_link *l, const struct tcp_frame *f, const uint64_t *words)
{
    struct in_flow *in = flow_of(l, f);

    if (f->words != 1 || !in || words[0] < in->tag)
        return "it marked a flow that is none";
    /* A mark says DENIED too, though nothing was written under another promise. */
    if (may_land(l, in))
        in->tag = words[0];
    return answer_later(l, f->flow);
}

/* ---- writes ---- */

/* A lane of ours that the other side writes; NULL: it is none. */
static struct lane *written_lane(const struct tcp_link *l, const struct tcp_frame *f)
{
    const struct far *o = l->link.node;
    struct lane *lane = f->lane < o->lanes ? o->lane[f->lane] : NULL;

    return lane && lane->pub.spec.owner == o->mem.self && lane->writer_link == l->link.id ? lane
                                                                                          : NULL;
}

static const char *on_put(struct tcp_link *l, const struct tcp_frame *f, const void *words)
{
    const struct lane *lane = written_lane(l, f);
    struct in_flow *in = flow_of(l, f);
    uint64_t bytes = 8ul * f->words;

    if (!lane || !in || in->region != lane->pub.spec.region)
        return "it wrote to a lane that it does not have";
    if (f->at % 8 != 0 || f->at + bytes > lane->pub.spec.ring_bytes)
        return "it wrote beyond the end of a ring";
    if (!may_land(l, in))
        return answer_later(l, f->flow);
    if (lane->pub.ring) /* else it was ended here, and nobody looks */
        memcpy(lane->pub.ring + f->at, words, bytes);
    return NULL;
}

static const char *on_set(struct tcp_link *l, const struct tcp_frame *f, const uint64_t *words)
{
    const struct lane *lane = written_lane(l, f);
    struct in_flow *in = flow_of(l, f);

    if (!lane || !in || in->region != lane->pub.spec.region)
        return "it wrote to a lane that it does not have";
    if ((uint64_t)f->at + f->words > lane->pub.spec.ctl_words)
        return "it wrote beyond the control words of a lane";
    if (!may_land(l, in))
        return answer_later(l, f->flow);
    for (uint32_t i = 0; lane->pub.ctl && i < f->words; i++)
        atomic_store_explicit(&lane->pub.ctl[f->at + i], words[i], memory_order_release);
    return NULL;
}

/* ---- reads ---- */

static const char *data(struct tcp_link *l, enum mem_status status, const void *words,
                        uint32_t count)
{
    struct tcp_frame f = {.kind = TCP_DATA,
                          .words = (uint16_t)(status == MEM_DONE ? count : 0),
                          .at = (uint32_t)status};

    return tcp_frame_add(l, f, words) ? NULL : TAKES_NOTHING;
}

static const char *on_read(struct tcp_link *l, const struct tcp_frame *f, const uint64_t *words)
{
    const struct far *o = l->link.node;
    const struct lane *lane = f->lane < o->lanes ? o->lane[f->lane] : NULL;
    bool ring = f->kind == TCP_READ_RING;
    uint64_t copy[READ_WORDS];

    if (f->words != 1 || words[0] == 0 || words[0] > READ_WORDS || !lane ||
        lane->pub.spec.owner != o->mem.self ||
        (!l->link.peer->host && lane->pub.spec.writer != l->link.peer->node))
        return "it read a lane that it may not read";
    const struct mem_lane *p = &lane->pub;
    if (ring ? f->at % 8 != 0 || f->at + 8 * words[0] > p->spec.ring_bytes
             : f->at + words[0] > p->spec.ctl_words)
        return "it read beyond the end of a lane";
    if (lane->state != LANE_OPEN || !p->ctl)
        return data(l, MEM_LOST, NULL, 0);
    uint32_t count = (uint32_t)words[0];
    if (ring)
        return data(l, MEM_DONE, p->ring + f->at, count);
    for (uint32_t i = 0; i < count; i++)
        copy[i] = mem_word(p, f->at + i);
    return data(l, MEM_DONE, copy, count);
}

static const char *on_peek(struct tcp_link *l, const struct tcp_frame *f)
{
    struct far *o = l->link.node;
    const struct region *r = far_region_find(o, f->lane);

    if (f->words != 0 || !tcp_promises(l))
        return "it asked for a promise that it does not get";
    if (!r)
        return data(l, MEM_LOST, NULL, 0);
    const uint64_t word = far_promised_at(o, far_region_index(o, r));
    return data(l, MEM_DONE, &word, 1);
}

/* ---- all ---- */

static const char *on_message(struct tcp_link *l, const struct tcp_frame *f, const void *words)
{
    const struct far_head *h = far_message(words, 8ul * f->words);

    if (!h)
        return "it sent a message that is none";
    /* Whom we have dialed may answer our hello by saying why it does not want us. */
    if (!l->helloed && !(l->link.dialed && h->kind == FAR_REFUSE))
        return NO_HELLO;
    return far_message_take(&l->link, h) ? NULL : "it sent what no one of us sends";
}

const char *tcp_frame_take(struct tcp_link *l, const struct tcp_frame *f, const uint64_t *words)
{
    if (f->kind == TCP_HELLO)
        return tcp_on_hello(l, (const void *)words, 8ul * f->words);
    if (f->kind == TCP_MESSAGE)
        return on_message(l, f, words);
    if (!l->helloed)
        return NO_HELLO;
    if (l->link.state == LINK_REFUSED)
        return NULL; /* it has not heard yet */
    if (l->link.state != LINK_UP)
        return "it wrote before it was connected";
    switch (f->kind) {
    case TCP_OPEN:
        return on_open(l, f, words);
    case TCP_PUT:
        return on_put(l, f, words);
    case TCP_SET:
        return on_set(l, f, words);
    case TCP_MARK:
        return on_mark(l, f, words);
    case TCP_ANSWER:
        return tcp_on_answer(l, f, words) ? NULL : "it answered what was not asked";
    case TCP_READ_CTL:
    case TCP_READ_RING:
        return on_read(l, f, words);
    case TCP_PEEK:
        return on_peek(l, f);
    case TCP_DATA:
        return tcp_on_data(l, f, words) ? NULL : "it answered what was not asked";
    default:
        return "it sent a frame of an unknown kind";
    }
}
