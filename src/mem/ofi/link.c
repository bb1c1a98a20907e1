/* Links: what is to go out through an endpoint; post.c has how it does, and what completes.
 *
 * Everything is copied into the link's stage and queued as pieces; nothing is posted before the next
 * poll or bell, so that what a round of the host has written to one peer leaves as few operations as the
 * provider allows (on tcp four pieces are one operation, and an operation is a system call on each
 * side). Only three things complete: the last write before a judgement of marks, reads, and now and
 * then a write that frees the stage. If the stage or the queue is full the writer's flow is LOST: the
 * other side has not taken anything for long, and its rings are about to be overwritten anyway. */
#include "mem/ofi/impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

void *ofi_desc(struct fid_mr *mr)
{
    return mr ? fi_mr_desc(mr) : NULL;
}

void *ofi_stage_desc(const struct ofi_link *l)
{
    return l->stage_mrs > 0 ? ofi_desc(l->stage_mr[l->stage_mrs - 1]) : NULL;
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
bool ofi_link_receive(struct ofi_link *l, struct slot *s)
{
    unsigned char *at = l->receive_bytes + (size_t)(s - l->receive) * FAR_MESSAGE_MAX;
    struct iovec iov = {.iov_base = at, .iov_len = FAR_MESSAGE_MAX};
    void *d = ofi_desc(l->receive_mr);
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
        ok = ofi_link_receive(l, &l->receive[i]);
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
bool ofi_bounce_open(struct ofi_link *l)
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
    if (l->piece_head - l->piece_tail + more >= LINK_PIECES || !ofi_bounce_open(l))
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
