/* How what is queued on a link (link.c) is posted, in as few operations as the provider allows, and what completes. */
#include "mem/ofi/impl.h"

#include <string.h>

enum { IOVS_MAX = 8, ENTRIES = 32, ROUNDS = 8 };

/* ---- posting ---- */

/* The slot of the next operation that completes; NULL: too many are under way. It counts only once it
 * was posted. */
static struct slot *slot_next(struct ofi_link *l, enum slot_kind kind)
{
    if (l->slot_head - l->slot_tail == LINK_SLOTS)
        return NULL;
    struct slot *s = &l->slot[l->slot_head % LINK_SLOTS];
    *s = (struct slot){.link = l, .kind = kind, .bounce_end = l->bounce_head};
    return s;
}

/* An operation was posted, with which the stage is used up to stage_posted. */
static void posted(struct ofi_link *l, struct slot *s, bool injected)
{
    if (s) {
        s->stage_end = l->stage_posted;
        l->slot_head++;
        l->hold = false;
        l->mute = 0;
        return;
    }
    l->mute++;
    if (!injected)
        l->hold = true;
    else if (!l->hold && l->slot_head == l->slot_tail)
        l->stage_tail = l->stage_posted;
    else if (!l->hold)
        l->slot[(l->slot_head - 1) % LINK_SLOTS].stage_end = l->stage_posted;
}

/* False: later, or never; the fault tells. */
static bool accepted(struct ofi_link *l, ssize_t rc)
{
    if (rc != 0 && rc != -FI_EAGAIN)
        l->link.fault = ofi_library.strerror((int)-rc);
    return rc == 0;
}

/* How many marks the pieces before `end` cover. */
static uint64_t marks_before(const struct ofi_link *l, uint64_t end)
{
    uint64_t m = l->mark_covered;

    while (m < l->mark_head && l->mark[m % LINK_MARKS].piece <= end)
        m++;
    return m;
}

/* Where the bytes of a write are. */
static const unsigned char *bytes_of(const struct ofi_link *l, const struct piece *p)
{
    return p->kept ? p->kept : l->stage + p->stage_at;
}

/* Posts as many writes as go into one operation. */
static bool post_writes(struct ofi_link *l)
{
    struct net *n = &ofi_node(l)->net;
    struct fi_rma_iov to[IOVS_MAX];
    size_t count = 0, most = n->iovs < IOVS_MAX ? n->iovs : IOVS_MAX;
    const struct piece *first = &l->piece[l->piece_tail % LINK_PIECES], *p = first;
    uint64_t end = l->piece_tail;
    uint32_t bytes = 0;

    for (; end < l->piece_head && count < most; end++) {
        const struct piece *next = &l->piece[end % LINK_PIECES];
        if (next->kind != PIECE_WRITE || next->kept_in != first->kept_in ||
            bytes_of(l, next) != bytes_of(l, first) + bytes ||
            (count > 0 && bytes + next->bytes > PIECE_BYTES_MAX))
            break;
        p = next;
        to[count++] = (struct fi_rma_iov){.addr = p->address, .len = p->bytes, .key = p->key};
        bytes += p->bytes;
    }
    bool inject = bytes <= n->inject_bytes;
    uint64_t flags = inject ? FI_INJECT : 0, covered = marks_before(l, end);
    bool deliver = !ofi_node(l)->read_back && covered > l->mark_covered &&
                   (l->writes == count || l->mute >= OPS_PER_COMPLETION);
    bool report = deliver || (!inject && (l->mute >= OPS_PER_COMPLETION ||
                                          (l->stage_head - l->stage_tail) * 4 > l->stage_bytes));
    struct slot *s = NULL;
    if (report) {
        s = slot_next(l, deliver ? SLOT_MARKS : SLOT_WRITE);
        if (!s)
            return false;
        s->marks_end = covered;
        flags |= FI_COMPLETION | (deliver ? FI_DELIVERY_COMPLETE : 0);
    }
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes_of(l, first), .iov_len = bytes};
    void *d = !first->kept ? ofi_stage_desc(l)
              : n->local   ? ofi_desc(first->kept_in->carried)
                           : NULL;
    struct fi_msg_rma m = {.msg_iov = &iov,
                           .desc = &d,
                           .iov_count = 1,
                           .rma_iov = to,
                           .rma_iov_count = count,
                           .context = s ? &s->context : NULL};
    if (!accepted(l, fi_writemsg(l->ep, &m, flags)))
        return false;
    l->stage_posted = p->stage_end;
    posted(l, s, inject || first->kept);
    l->unconfirmed = !deliver;
    if (deliver) {
        l->mark_covered = covered;
        l->asked = l->slot_head;
    }
    l->last_address = p->address;
    l->last_key = p->key;
    l->piece_tail = end;
    l->writes -= count;
    return true;
}

/* A run of bytes to read into, or NULL. */
static unsigned char *bounce_take(struct ofi_link *l, uint32_t bytes, uint64_t *end)
{
    uint64_t at = l->bounce_head % BOUNCE_BYTES;
    uint64_t skip = at + bytes > BOUNCE_BYTES ? BOUNCE_BYTES - at : 0;

    if (l->bounce_head + skip + bytes - l->bounce_tail > BOUNCE_BYTES)
        return NULL;
    *end = l->bounce_head + skip + bytes;
    return l->bounce + (l->bounce_head + skip) % BOUNCE_BYTES;
}

static bool post_read(struct ofi_link *l, struct slot *s, uint64_t address, uint64_t key,
                      unsigned char *to, uint32_t bytes)
{
    struct iovec iov = {.iov_base = to, .iov_len = bytes};
    struct fi_rma_iov from = {.addr = address, .len = bytes, .key = key};
    void *d = ofi_desc(l->bounce_mr);
    struct fi_msg_rma m = {.msg_iov = &iov,
                           .desc = &d,
                           .iov_count = 1,
                           .rma_iov = &from,
                           .rma_iov_count = 1,
                           .context = &s->context};

    if (!accepted(l, fi_readmsg(l->ep, &m, FI_COMPLETION)))
        return false;
    l->bounce_head = s->bounce_end;
    /* What was sent before, and is not reported by itself, is through when this is. */
    posted(l, s, false);
    return true;
}

/* Posts the next part of the read that is first in the queue. */
static bool post_read_piece(struct ofi_link *l)
{
    struct piece *p = &l->piece[l->piece_tail % LINK_PIECES];
    uint32_t bytes = p->bytes < READ_BYTES_MAX ? p->bytes : READ_BYTES_MAX;
    struct slot *s = slot_next(l, SLOT_READ);
    unsigned char *to = s ? bounce_take(l, bytes, &s->bounce_end) : NULL;

    if (!to)
        return false;
    s->op = p->op;
    s->from = to;
    s->out = p->out;
    s->bytes = bytes;
    s->last = bytes == p->bytes && !p->more;
    if (!post_read(l, s, p->address, p->key, to, bytes))
        return false;
    p->address += bytes;
    p->out += bytes;
    p->bytes -= bytes;
    if (p->bytes == 0)
        l->piece_tail++;
    return true;
}

static bool post_message(struct ofi_link *l)
{
    struct net *n = &ofi_node(l)->net;
    const struct piece *p = &l->piece[l->piece_tail % LINK_PIECES];
    struct iovec iov = {.iov_base = l->stage + p->stage_at, .iov_len = p->bytes};
    bool inject = p->bytes <= n->inject_bytes;
    struct slot *s = NULL;

    if (!inject || p->region) {
        s = slot_next(l, p->region ? SLOT_NOTICE : SLOT_WRITE);
        if (!s)
            return false;
        s->region = p->region - 1;
        s->gen = p->gen;
    }
    void *d = ofi_stage_desc(l);
    struct fi_msg m = {
        .msg_iov = &iov, .desc = &d, .iov_count = 1, .context = s ? &s->context : NULL};
    uint64_t flags = (inject ? FI_INJECT : 0) | (s ? FI_COMPLETION : 0);
    if (!accepted(l, fi_sendmsg(l->ep, &m, flags)))
        return false;
    l->stage_posted = p->stage_end;
    posted(l, s, inject);
    l->piece_tail++;
    return true;
}

/* Marks that no write will take along: there is none behind them, or they are to be read back. */
static bool post_marks(struct ofi_link *l)
{
    uint64_t address = l->last_address, key = l->last_key;
    uint32_t bytes = sizeof(uint64_t);
    bool words = ofi_node(l)->read_back && ofi_marks_span(l, &address, &key, &bytes);

    if (!words && !l->unconfirmed) {
        /* All before them is known to be there, or is on its way to be. */
        if (l->asked > l->slot_tail && !l->slot[(l->asked - 1) % LINK_SLOTS].done)
            l->slot[(l->asked - 1) % LINK_SLOTS].marks_end = l->mark_head;
        else
            l->judge = true;
        l->mark_covered = l->mark_head;
        return true;
    }
    struct slot *s = ofi_bounce_open(l) ? slot_next(l, SLOT_MARKS) : NULL;
    unsigned char *to = s ? bounce_take(l, bytes, &s->bounce_end) : NULL;
    if (!to)
        return false;
    s->marks_end = l->mark_head;
    s->from = words ? to : NULL;
    s->base = address;
    s->bytes = bytes;
    if (!post_read(l, s, address, key, to, bytes))
        return false;
    l->mark_covered = l->mark_head;
    l->unconfirmed = false;
    l->asked = l->slot_head;
    return true;
}

void ofi_link_push(struct ofi_link *l)
{
    bool ok = true;

    while (ok && l->piece_tail < l->piece_head) {
        switch (l->piece[l->piece_tail % LINK_PIECES].kind) {
        case PIECE_WRITE:
            ok = post_writes(l);
            break;
        case PIECE_READ:
            ok = post_read_piece(l);
            break;
        case PIECE_MESSAGE:
            ok = post_message(l);
            break;
        }
    }
    if (ok && l->mark_covered < l->mark_head)
        post_marks(l);
}

int ofi_link_post(struct link *link)
{
    struct ofi_link *l = ofi_link(link);
    int changes = 0;

    ofi_link_push(l);
    if (link->fault)
        return 0;
    if (l->judge) {
        l->judge = false;
        changes = ofi_marks_judge(l, l->mark_head, NULL);
    }
    if (l->piece_tail < l->piece_head || l->mark_covered < l->mark_head)
        link_dirty(link); /* the provider takes no more now */
    return changes;
}

bool ofi_link_sent(const struct link *l)
{
    return ofi_link(l)->piece_head == ofi_link(l)->piece_tail;
}

/* ---- completions ---- */

/* Gives back what finished operations had used, in the order in which they were posted. */
static void slots_release(struct ofi_link *l)
{
    while (l->slot_tail < l->slot_head && l->slot[l->slot_tail % LINK_SLOTS].done) {
        struct slot *s = &l->slot[l->slot_tail++ % LINK_SLOTS];
        l->stage_tail = s->stage_end;
        l->bounce_tail = s->bounce_end;
    }
}

static int slot_done(struct slot *s, size_t bytes)
{
    struct ofi_link *l = s->link;
    int changes = 0;

    switch (s->kind) {
    case SLOT_RECEIVE: {
        const unsigned char *at = l->receive_bytes + (size_t)(s - l->receive) * FAR_MESSAGE_MAX;
        const struct far_head *h = ofi_message(at, bytes);
        l->link.heard_ns = l->link.node->now_ns;
        if (!h || !far_message_take(&l->link, h)) {
            link_close(&l->link, false, "it sent what no one of us sends");
            return 1;
        }
        if (l->link.state != LINK_CLOSED && !ofi_link_receive(l, s))
            link_fault(&l->link, "no message can be received");
        return 1;
    }
    case SLOT_WRITE:
        break;
    case SLOT_MARKS:
        changes = ofi_marks_judge(l, s->marks_end, s->from ? s : NULL);
        break;
    case SLOT_READ:
        if (l->link.node->leaving)
            break; /* whose it was may be gone */
        memcpy(s->out, s->from, s->bytes);
        if (s->last)
            far_op_finish(&l->link, s->op, MEM_DONE);
        changes = s->last;
        break;
    case SLOT_NOTICE:
        ofi_notice_done(ofi_node(l), s->region, s->gen);
        break;
    }
    s->done = true;
    slots_release(l);
    return changes;
}

/* An operation has failed, and with it the connection. */
static void completion_failed(struct ofi *o)
{
    struct fi_cq_err_entry e = {0};
    char text[128];

    if (fi_cq_readerr(o->net.cq, &e, 0) <= 0)
        return;
    struct slot *s = e.op_context;
    if (s && s->link->link.state != LINK_UP)
        ofi_events_take(&o->far); /* these say why there was no connection */
    if (!s || s->link->link.state == LINK_CLOSED)
        return;
    const char *more = fi_cq_strerror(o->net.cq, e.prov_errno, e.err_data, text, sizeof text);
    bool ended = e.err == FI_ECANCELED || e.err == FI_ENOTCONN || e.err == FI_ECONNRESET;
    link_close(&s->link->link, true, ended ? "it ended the connection" : more ? more : "an error");
}

int ofi_links_poll(struct ofi *o)
{
    struct fi_cq_msg_entry e[ENTRIES];
    int changes = 0;

    o->drained = false;
    for (int round = 0; round < ROUNDS; round++) {
        ssize_t n = fi_cq_read(o->net.cq, e, ENTRIES);
        if (n == -FI_EAGAIN) {
            o->drained = true;
            far_links_free(&o->far);
            break;
        }
        if (n == -FI_EAVAIL) {
            completion_failed(o);
            changes++;
            continue;
        }
        CHECK(n > 0);
        for (ssize_t i = 0; i < n; i++) {
            struct slot *s = e[i].op_context;
            if (s && s->link->link.state != LINK_CLOSED)
                changes += slot_done(s, e[i].len);
        }
        if (n < ENTRIES)
            break;
    }
    return changes;
}
