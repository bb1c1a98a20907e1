/* What we write to others and ask of them, and their answers. */
#include "mem/tcp/impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- flows ---- */

static bool flows_grow(struct tcp_link *l)
{
    uint32_t room = l->out_flows_room ? 2 * l->out_flows_room : 64;
    struct out_flow *more =
        room > TCP_FLOWS_MAX ? NULL : realloc(l->out_flow, room * sizeof(*more));

    if (!more)
        return false;
    l->out_flow = more;
    l->out_flows_room = room;
    return true;
}

bool tcp_flow_open(struct link *link, struct mem_flow *f)
{
    struct tcp_link *l = tcp_link(link);
    uint32_t number = l->out_flow_free;

    if (f->ballot && !tcp_promises(l))
        return false;
    if (number == UINT32_MAX) {
        if (l->out_flows == l->out_flows_room && !flows_grow(l))
            return false;
        number = l->out_flows++;
        l->out_flow[number].next = UINT32_MAX;
    }
    const uint64_t words[] = {f->ballot, flow_impl(f)->gen};
    struct tcp_frame open = {.kind = TCP_OPEN, .words = 2, .flow = number, .lane = f->region};
    l->out_flow_free = l->out_flow[number].next;
    l->out_flow[number].flow = f;
    flow_impl(f)->index = number;
    if (tcp_frame_add(l, open, words))
        return true;
    tcp_flow_closed(link, f);
    return false;
}

void tcp_flow_closed(struct link *link, struct mem_flow *f)
{
    struct tcp_link *l = tcp_link(link);
    uint32_t number = flow_impl(f)->index;

    CHECK(number < l->out_flows && l->out_flow[number].flow == f);
    l->out_flow[number] = (struct out_flow){.next = l->out_flow_free};
    l->out_flow_free = number;
}

bool tcp_put(struct link *link, struct mem_flow *f, struct lane *lane, uint64_t pos,
             const void *data, uint32_t bytes, bool kept)
{
    uint32_t at = (uint32_t)(pos & (lane->pub.spec.ring_bytes - 1));
    const unsigned char *from = data;

    (void)kept; /* what is copied needs not be kept */
    while (bytes > 0) {
        uint32_t words = bytes / 8 < TCP_FRAME_WORDS ? bytes / 8 : TCP_FRAME_WORDS;
        struct tcp_frame put = {.kind = TCP_PUT,
                                .words = (uint16_t)words,
                                .flow = flow_impl(f)->index,
                                .lane = (uint32_t)lane->key,
                                .at = at};
        if (!tcp_frame_add(tcp_link(link), put, from))
            return false;
        from += 8 * words;
        at += 8 * words;
        bytes -= 8 * words;
    }
    return true;
}

bool tcp_set(struct link *link, struct mem_flow *f, struct lane *lane, uint32_t word,
             const uint64_t *values, uint32_t count)
{
    while (count > 0) {
        uint32_t words = count < TCP_FRAME_WORDS ? count : TCP_FRAME_WORDS;
        struct tcp_frame set = {.kind = TCP_SET,
                                .words = (uint16_t)words,
                                .flow = flow_impl(f)->index,
                                .lane = (uint32_t)lane->key,
                                .at = word};
        if (!tcp_frame_add(tcp_link(link), set, values))
            return false;
        values += words;
        word += words;
        count -= words;
    }
    return true;
}

bool tcp_mark(struct link *link, struct mem_flow *f, uint64_t tag)
{
    struct tcp_frame mark = {.kind = TCP_MARK, .words = 1, .flow = flow_impl(f)->index};

    return tcp_frame_add(tcp_link(link), mark, &tag);
}

bool tcp_on_answer(struct tcp_link *l, const struct tcp_frame *a, const uint64_t *words)
{
    struct mem_flow *f = a->flow < l->out_flows ? l->out_flow[a->flow].flow : NULL;

    if (a->words != 2 || a->flow >= l->out_flows || a->at > MEM_LOST || a->at == MEM_PENDING)
        return false;
    if (!f || !far_flow_known(l->link.node, f, words[0]))
        return true; /* of one that is closed since, or whose memory is gone */
    if (a->at != MEM_DONE) {
        far_flow_fail(l->link.node, f, (enum mem_status)a->at);
        return true;
    }
    if (words[1] > f->marked || words[1] < f->done)
        return false;
    f->done = words[1];
    return true;
}

/* ---- reads ---- */

static bool ask_add(struct tcp_link *l, const struct ask *a)
{
    if (l->ask_head - l->ask_tail == l->ask_room) {
        uint32_t room = l->ask_room ? 2 * l->ask_room : 64;
        struct ask *more = calloc(room, sizeof(*more));
        if (!more)
            return false;
        for (uint64_t i = l->ask_tail; i < l->ask_head; i++)
            more[i % room] = l->ask[i % l->ask_room];
        free(l->ask);
        l->ask = more;
        l->ask_room = room;
    }
    l->ask[l->ask_head++ % l->ask_room] = *a;
    return true;
}

/* Not all at once: the answers have to fit into the other side's stage. */
static bool asks_send(struct tcp_link *l)
{
    while (l->ask_sent < l->ask_head && l->ask_sent - l->ask_tail < READS_WINDOW) {
        const struct ask *a = &l->ask[l->ask_sent % l->ask_room];
        const uint64_t words = a->words;
        struct tcp_frame f = {
            .kind = a->kind, .words = a->kind == TCP_PEEK ? 0 : 1, .lane = a->lane, .at = a->at};
        if (!tcp_frame_add(l, f, &words))
            return false;
        l->ask_sent++;
    }
    return true;
}

bool tcp_read(struct link *link, struct mem_op *op, const struct lane *lane, bool ring,
              uint64_t pos, void *out, uint32_t bytes, bool more)
{
    struct tcp_link *l = tcp_link(link);
    uint32_t left = bytes / 8;
    struct ask a = {
        .op = op,
        .out = out,
        .lane = (uint32_t)lane->key,
        .kind = ring ? TCP_READ_RING : TCP_READ_CTL,
        .at = (uint32_t)(ring ? pos & (lane->pub.spec.ring_bytes - 1) : pos / 8),
    };

    while (left > 0) {
        a.words = left < READ_WORDS ? left : READ_WORDS;
        left -= a.words;
        a.last = left == 0 && !more;
        if (!ask_add(l, &a)) {
            link_fault(link, "no memory for what is to be read");
            return true; /* which loses the op */
        }
        a.at += ring ? 8 * a.words : a.words;
        a.out = (unsigned char *)a.out + 8ul * a.words;
    }
    if (!asks_send(l))
        link_fault(link, TAKES_NOTHING);
    return true;
}

bool tcp_peek(struct link *link, struct mem_op *op, uint32_t region)
{
    struct tcp_link *l = tcp_link(link);
    struct ask a = {
        .op = op, .out = &op->value, .lane = region, .words = 1, .kind = TCP_PEEK, .last = true};

    if (!tcp_promises(l))
        return false;
    if (!ask_add(l, &a) || !asks_send(l))
        link_fault(link, TAKES_NOTHING);
    return true;
}

/* Forgets what else was to be read for an op that is lost. */
static void asks_forget(struct tcp_link *l, const struct mem_op *op)
{
    for (uint64_t i = l->ask_tail; i < l->ask_head; i++) {
        struct ask *a = &l->ask[i % l->ask_room];
        if (a->op == op)
            a->op = NULL;
    }
}

bool tcp_on_data(struct tcp_link *l, const struct tcp_frame *f, const uint64_t *words)
{
    if (l->ask_tail == l->ask_sent)
        return false; /* nothing was asked for */
    struct ask a = l->ask[l->ask_tail++ % l->ask_room];
    bool done = f->at == MEM_DONE;
    if ((f->at != MEM_DONE && f->at != MEM_LOST) || f->words != (done ? a.words : 0))
        return false;
    if (l->link.node->leaving)
        a.op = NULL; /* whose it was may be gone */
    if (a.op && done)
        memcpy(a.out, words, 8ul * a.words);
    if (a.op && (a.last || !done)) {
        asks_forget(l, a.op);
        far_op_finish(&l->link, a.op, done ? MEM_DONE : MEM_LOST);
    }
    return asks_send(l);
}
