/* Links: what goes out through an endpoint, and what completes.
 *
 * Everything is copied into the link's stage and queued as pieces; nothing is posted before the next
 * poll or bell, so that what a round of the host has written to one peer leaves as few operations as the
 * provider allows (on tcp four pieces are one operation, and an operation is a system call on each
 * side). Only three things complete: the last write before a judgement of marks, reads, and now and
 * then a write that frees the stage. If the stage or the queue is full the writer's flow is LOST: the
 * other side has not taken anything for long, and its rings are about to be overwritten anyway. */
#include "mem/ofi/impl.h"

#include "base/say.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { IOVS_MAX = 8, ENTRIES = 32, ROUNDS = 8 };

/* ---- opening and closing ---- */

static void *pages_new(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

static void pages_free(void *at, size_t bytes)
{
    if (at)
        munmap(at, bytes);
}

/* Memory that only this process and the provider use. */
static bool local_register(struct net *n, const void *at, size_t bytes, struct fid_mr **mr)
{
    if (!n->local)
        return true;
    *mr = net_register(n, at, bytes, FI_SEND | FI_RECV | FI_READ | FI_WRITE);
    return *mr != NULL;
}

static void *desc(struct fid_mr *mr)
{
    return mr ? fi_mr_desc(mr) : NULL;
}

static void *stage_desc(const struct ofi_link *l)
{
    return l->stage_mrs > 0 ? desc(l->stage_mr[l->stage_mrs - 1]) : NULL;
}

static void mr_close(struct fid_mr *mr)
{
    if (mr)
        fi_close(&mr->fid);
}

static void link_free(struct ofi_link *l)
{
    for (uint32_t i = 0; i < l->stage_mrs; i++)
        mr_close(l->stage_mr[i]);
    mr_close(l->bounce_mr);
    mr_close(l->receive_mr);
    pages_free(l->stage, l->stage_room);
    pages_free(l->bounce, BOUNCE_BYTES);
    pages_free(l->receive_bytes, LINK_RECEIVES * FAR_MESSAGE_MAX);
    free(l->piece);
    free(l->slot);
    free(l->mark);
    free(l->promise);
    free(l->keys);
    if (l->info)
        ofi_library.freeinfo(l->info);
    free(l);
}

/* Makes the first `bytes` of the stage usable. What is under way keeps the registration that it has. */
static bool stage_open(struct ofi_link *l, uint64_t bytes)
{
    struct fid_mr **mr = &l->stage_mr[l->stage_mrs];

    if (l->stage_mrs == STAGE_STEPS_MAX || mprotect(l->stage, bytes, PROT_READ | PROT_WRITE) < 0 ||
        !local_register(&ofi_node(l)->net, l->stage, bytes, mr))
        return false;
    l->stage_mrs += *mr != NULL;
    l->stage_bytes = l->stage_want = bytes;
    return true;
}

/* More room, if what is in use does not go over the end: then all of it stays where it is, and is counted
 * from the beginning. Else later. */
static void stage_grow(struct ofi_link *l)
{
    uint64_t lap = l->stage_tail - l->stage_tail % l->stage_bytes;

    if (l->stage_head - lap > l->stage_bytes || !stage_open(l, l->stage_want))
        return;
    l->stage_head -= lap;
    l->stage_posted -= lap;
    l->stage_tail -= lap;
    for (uint64_t i = l->piece_tail; i < l->piece_head; i++)
        l->piece[i % LINK_PIECES].stage_end -= lap;
    for (uint64_t i = l->slot_tail; i < l->slot_head; i++)
        l->slot[i % LINK_SLOTS].stage_end -= lap;
}

bool ofi_link_room(struct link *link, uint64_t bytes)
{
    struct ofi_link *l = ofi_link(link);

    if (bytes > l->stage_room)
        return false;
    /* At least twice as much: there are only so many steps. */
    uint64_t least = 2 * l->stage_bytes < l->stage_room ? 2 * l->stage_bytes : l->stage_room;
    if (bytes > l->stage_bytes && bytes > l->stage_want)
        l->stage_want = bytes > least ? (bytes + 4095) & ~UINT64_C(4095) : least;
    return true;
}

static bool link_memory(struct ofi_link *l, uint64_t stage_bytes)
{
    struct net *n = &ofi_node(l)->net;

    stage_bytes = (stage_bytes + 4095) & ~UINT64_C(4095);
    l->stage_room = stage_bytes > STAGE_BYTES_MAX ? stage_bytes : (uint64_t)STAGE_BYTES_MAX;
    void *room = mmap(NULL, l->stage_room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    l->stage = room == MAP_FAILED ? NULL : room;
    l->receive_bytes = pages_new(LINK_RECEIVES * FAR_MESSAGE_MAX);
    l->piece = calloc(LINK_PIECES, sizeof *l->piece);
    l->slot = calloc(LINK_SLOTS, sizeof *l->slot);
    l->mark = calloc(LINK_MARKS, sizeof *l->mark);
    return l->stage && l->receive_bytes && l->piece && l->slot && l->mark &&
           stage_open(l, stage_bytes) &&
           local_register(n, l->receive_bytes, LINK_RECEIVES * FAR_MESSAGE_MAX, &l->receive_mr);
}

/* Lets the next message come. */
static bool link_receive(struct ofi_link *l, struct slot *s)
{
    unsigned char *at = l->receive_bytes + (size_t)(s - l->receive) * FAR_MESSAGE_MAX;
    struct iovec iov = {.iov_base = at, .iov_len = FAR_MESSAGE_MAX};
    void *d = desc(l->receive_mr);
    struct fi_msg m = {.msg_iov = &iov, .desc = &d, .iov_count = 1, .context = &s->context};

    return fi_recvmsg(l->ep, &m, FI_COMPLETION) == 0;
}

static int endpoint_open(struct ofi_link *l)
{
    struct net *n = &ofi_node(l)->net;

    int rc = fi_endpoint(n->domain, l->info, &l->ep, l);
    if (rc == 0)
        rc = fi_ep_bind(l->ep, &n->eq->fid, 0);
    if (rc == 0)
        rc = fi_ep_bind(l->ep, &n->cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION);
    if (rc == 0)
        rc = fi_enable(l->ep);
    return rc;
}

struct ofi_link *ofi_link_new(struct ofi *o, struct peer *p, struct fi_info *info,
                              uint64_t stage_bytes)
{
    struct ofi_link *l = calloc(1, sizeof *l);

    if (!l) {
        ofi_library.freeinfo(info);
        return NULL;
    }
    l->link.node = &o->far;
    l->info = info;
    for (int i = 0; i < LINK_RECEIVES; i++)
        l->receive[i] = (struct slot){.link = l, .kind = SLOT_RECEIVE};
    bool ok = link_memory(l, stage_bytes) && endpoint_open(l) == 0;
    for (int i = 0; ok && i < LINK_RECEIVES; i++)
        ok = link_receive(l, &l->receive[i]);
    if (!ok) {
        if (l->ep)
            fi_close(&l->ep->fid);
        link_free(l);
        return NULL;
    }
    far_link_begin(&o->far, &l->link, p);
    return l;
}

void ofi_link_freed(struct link *l)
{
    link_free(ofi_link(l));
}

bool ofi_link_owes(const struct ofi_link *l, uint32_t region, uint32_t gen)
{
    for (uint64_t i = l->slot_tail; i < l->slot_head; i++) {
        const struct slot *s = &l->slot[i % LINK_SLOTS];
        if (s->kind == SLOT_NOTICE && !s->done && s->region == region && s->gen == gen)
            return true;
    }
    for (uint64_t i = l->piece_tail; i < l->piece_head; i++) {
        const struct piece *p = &l->piece[i % LINK_PIECES];
        if (p->region == region + 1 && p->gen == gen)
            return true;
    }
    return false;
}

/* Messages that others wait for count as told: nothing that lands later can be acknowledged. */
void ofi_link_stopped(struct link *link)
{
    struct ofi_link *l = ofi_link(link);

    for (uint64_t i = l->slot_tail; i < l->slot_head; i++) {
        struct slot *s = &l->slot[i % LINK_SLOTS];
        if (s->kind == SLOT_NOTICE && !s->done)
            ofi_notice_done(ofi_node(l), s->region, s->gen);
    }
    for (uint64_t i = l->piece_tail; i < l->piece_head; i++) {
        struct piece *p = &l->piece[i % LINK_PIECES];
        if (p->region)
            ofi_notice_done(ofi_node(l), p->region - 1, p->gen);
    }
}

void ofi_link_stop(struct link *link)
{
    struct ofi_link *l = ofi_link(link);

    /* The order matters: once the endpoint is closed nothing lands through it any more, whatever was
     * under way; closing a registration alone does not stop what has begun to land. */
    fi_close(&l->ep->fid);
    l->ep = NULL;
    for (uint32_t i = 0; i < l->keys_count; i++)
        mr_close(l->keys[i].mr);
    l->keys_count = 0;
}

/* ---- queueing ---- */

/* A run of bytes in the stage, or NULL. Large ones do not wrap: what is left at the end is skipped. */
static unsigned char *stage_take(struct ofi_link *l, uint32_t bytes)
{
    if (l->stage_want > l->stage_bytes)
        stage_grow(l);
    uint64_t at = l->stage_head % l->stage_bytes;
    uint64_t skip = at + bytes > l->stage_bytes ? l->stage_bytes - at : 0;

    if (l->piece_head - l->piece_tail == LINK_PIECES ||
        l->stage_head + skip + bytes - l->stage_tail > l->stage_bytes)
        return NULL;
    l->stage_head += skip;
    unsigned char *run = l->stage + l->stage_head % l->stage_bytes;
    l->stage_head += bytes;
    return run;
}

static struct piece *piece_add(struct ofi_link *l, const struct piece *p)
{
    struct piece *at = &l->piece[l->piece_head++ % LINK_PIECES];

    *at = *p;
    at->stage_end = l->stage_head;
    link_dirty(&l->link);
    return at;
}

static bool write_one(struct ofi_link *l, uint64_t address, uint64_t key, const void *data,
                      uint32_t bytes)
{
    unsigned char *run = stage_take(l, bytes);

    if (!run)
        return false;
    memcpy(run, data, bytes);
    piece_add(l, &(struct piece){.kind = PIECE_WRITE,
                                 .bytes = bytes,
                                 .stage_at = (uint32_t)(run - l->stage),
                                 .address = address,
                                 .key = key});
    l->writes++;
    return true;
}

bool ofi_link_write(struct ofi_link *l, uint64_t address, uint64_t key, const void *data,
                    uint32_t bytes)
{
    const unsigned char *from = data;

    while (bytes > 0) {
        uint32_t n = bytes < PIECE_BYTES_MAX ? bytes : PIECE_BYTES_MAX;
        if (!write_one(l, address, key, from, n))
            return false;
        from += n;
        address += n;
        bytes -= n;
    }
    return true;
}

bool ofi_link_write_kept(struct ofi_link *l, uint64_t address, uint64_t key, const struct chunk *c,
                         const void *data, uint32_t bytes)
{
    const unsigned char *from = data;

    while (bytes > 0) {
        uint32_t n = bytes < PIECE_BYTES_MAX ? bytes : PIECE_BYTES_MAX;
        if (l->piece_head - l->piece_tail == LINK_PIECES)
            return false;
        piece_add(l, &(struct piece){.kind = PIECE_WRITE,
                                     .bytes = n,
                                     .kept_in = c,
                                     .kept = from,
                                     .address = address,
                                     .key = key});
        l->writes++;
        l->kept_mark = l->mark_head + 1;
        from += n;
        address += n;
        bytes -= n;
    }
    return true;
}

/* What is read lands here first. Not every link reads. */
static bool bounce_open(struct ofi_link *l)
{
    if (l->bounce)
        return true;
    l->bounce = pages_new(BOUNCE_BYTES);
    if (l->bounce && local_register(&ofi_node(l)->net, l->bounce, BOUNCE_BYTES, &l->bounce_mr))
        return true;
    pages_free(l->bounce, BOUNCE_BYTES);
    l->bounce = NULL;
    return false;
}

bool ofi_link_read(struct ofi_link *l, struct mem_op *op, uint64_t address, uint64_t key, void *out,
                   uint32_t bytes, bool more)
{
    /* Both reads or none: one that is in the queue is done. */
    if (l->piece_head - l->piece_tail + more >= LINK_PIECES || !bounce_open(l))
        return false;
    piece_add(l, &(struct piece){.kind = PIECE_READ,
                                 .bytes = bytes,
                                 .address = address,
                                 .key = key,
                                 .op = op,
                                 .out = out,
                                 .more = more});
    return true;
}

/* Room for a message in the stage, its head filled in. */
static struct far_head *message_begin(struct ofi_link *l, uint32_t kind, uint32_t count,
                                      struct piece *p)
{
    uint32_t bytes = ofi_message_bytes(kind, count);
    unsigned char *run = stage_take(l, bytes);

    if (!run)
        return NULL;
    struct far_head *h = (struct far_head *)(void *)run;
    *h = (struct far_head){.kind = (uint16_t)kind, .count = (uint16_t)count, .bytes = bytes};
    *p = (struct piece){
        .kind = PIECE_MESSAGE, .bytes = bytes, .stage_at = (uint32_t)(run - l->stage)};
    return h;
}

bool ofi_link_send(struct link *link, uint32_t kind, const void *items, uint32_t count)
{
    struct ofi_link *l = ofi_link(link);
    struct piece p;
    struct far_head *h = message_begin(l, kind, count, &p);

    if (!h)
        return false;
    if (p.bytes > sizeof *h)
        memcpy(h + 1, items, p.bytes - sizeof *h);
    piece_add(l, &p);
    link->told_ns = link->node->now_ns;
    return true;
}

bool ofi_link_notice(struct ofi_link *l, const struct ofi_promised *item, uint32_t region,
                     uint32_t gen)
{
    struct piece p;
    struct far_head *h = message_begin(l, OFI_PROMISED, 1, &p);

    if (!h)
        return false;
    memcpy(h + 1, item, sizeof *item);
    p.region = region + 1;
    p.gen = gen;
    piece_add(l, &p);
    return true;
}

bool ofi_link_mark(struct ofi_link *l, struct mem_flow *f, uint64_t gen, uint64_t tag)
{
    if (l->mark_head - l->mark_tail == LINK_MARKS)
        return false;
    l->mark[l->mark_head++ % LINK_MARKS] =
        (struct mark){.flow = f, .gen = gen, .tag = tag, .piece = l->piece_head};
    link_dirty(&l->link);
    return true;
}

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
    void *d = !first->kept ? stage_desc(l) : n->local ? desc(first->kept_in->carried) : NULL;
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
    void *d = desc(l->bounce_mr);
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
    void *d = stage_desc(l);
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
    struct slot *s = bounce_open(l) ? slot_next(l, SLOT_MARKS) : NULL;
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
        if (l->link.state != LINK_CLOSED && !link_receive(l, s))
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
