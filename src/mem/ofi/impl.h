/* The inside of the libfabric backend. Private to this folder.
 *
 * A link is an endpoint and a queue of what is to be sent:
 *
 *     put, set ──copy──▸ stage ──▸ pieces ──poll, bell──▸ fi_writemsg ...     link.c
 *     mark ─────────────▸ marks ─────── with the last write: delivery complete
 *                                       its completion: judge all marks before it
 *
 * What counts, and why (contract 3 and 4). A mark is judged when everything before it is known to be in
 * the owner's memory. Then the owner's promise must still have been the flow's ballot when that
 * landed. Two ways to know, because an acknowledgement comes from software on tcp and from the card on
 * verbs:
 *
 *   told        (tcp) The owner tells every host that has lanes in a region of every change of its
 *               promised word, and answers a raise only when these messages are in the sockets.
 *               Acknowledgements of later writes come behind them in the same stream. So who sees an
 *               acknowledgement and has not been told of another promise knows that the write landed
 *               before the raise was answered.
 *   read back   (verbs) Behind the writes goes a read of the promised word. Reads of one connection
 *               are executed after the writes before them, so what it finds was still promised when
 *               they had landed.
 *
 * In both, the word as last told must be the ballot before anything is written. A deposed writer's way
 * in stays open, and its lanes are its own (design.md, "Permission"); only a link that takes no
 * messages is closed before a raise is answered. */
#ifndef MEM_OFI_IMPL_H
#define MEM_OFI_IMPL_H

#include "mem/far/impl.h"
#include "mem/ofi/library.h"
#include "mem/ofi/ofi.h"
#include "mem/ofi/wire.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

enum {
    LINK_RECEIVES = 8,   /* messages that may come at once */
    LINK_SLOTS = 128,    /* operations under way that will complete; the provider takes more */
    LINK_PIECES = 4096,  /* writes, reads and messages in the queue */
    LINK_MARKS = 4096,   /* marks not judged */
    LINK_ANSWERS = 64,   /* of one region, that wait for others to be told */
    STAGE_STEPS_MAX = 8, /* in which it grows */
    PIECE_BYTES_MAX = 256 << 10,
    READ_BYTES_MAX = 64 << 10, /* of a read, as one operation */
    BOUNCE_BYTES = 256 << 10,
    TELL_POLLS = 16,         /* to hear that a promise was handed to a socket */
    OPS_PER_COMPLETION = 16, /* writes that nobody marked before one asks for a completion */
};

#define TELL_NS (2 * MS) /* to hand a promise to a socket */

struct ofi;
struct ofi_link;

/* What a completion belongs to. First comes what the provider may use while it is under way. */
enum slot_kind { SLOT_RECEIVE, SLOT_WRITE, SLOT_MARKS, SLOT_READ, SLOT_NOTICE };

struct slot {
    struct fi_context2 context;
    struct ofi_link *link;
    enum slot_kind kind;
    bool done;
    uint64_t stage_end;  /* free up to here when it is done */
    uint64_t bounce_end; /* likewise */
    uint64_t marks_end;  /* SLOT_MARKS: judges those before */
    uint64_t base;       /* SLOT_MARKS, reading back: address of what was read into `from` */
    /* SLOT_READ */
    struct mem_op *op;
    const unsigned char *from; /* in the bounce buffer */
    void *out;
    uint32_t bytes;
    bool last; /* of its op */
    /* SLOT_NOTICE */
    uint32_t region; /* index */
    uint32_t gen;
};

enum piece_kind { PIECE_WRITE, PIECE_READ, PIECE_MESSAGE };

/* Something to be sent, in order. */
struct piece {
    enum piece_kind kind;
    uint32_t bytes;
    uint32_t stage_at;           /* offset of the bytes; reads have none */
    const struct chunk *kept_in; /* the bytes are here instead, */
    const unsigned char *kept;   /* at this place; NULL: they are staged */
    uint64_t stage_end;
    uint64_t address, key; /* remote */
    struct mem_op *op;     /* PIECE_READ */
    unsigned char *out;
    bool more;            /* PIECE_READ: the next piece is the rest of the op */
    uint32_t region, gen; /* a message that is a notice: region index + 1, else 0 */
};

struct mark {
    struct mem_flow *flow;
    uint64_t gen;
    uint64_t tag;
    uint64_t piece; /* end of the queue when it was made */
};

/* A promised word of the other side, as last told. */
struct promise {
    uint32_t region;
    uint64_t value;
    uint64_t key, address;
};

/* A chunk that the other side may write, under a key of this link alone. */
struct link_key {
    struct chunk *chunk;
    struct fid_mr *mr;
};

struct ofi_link {
    struct link link; /* first */
    bool belled;      /* a bell is in the queue */
    bool judge;       /* marks wait for nothing but the next poll */
    struct fid_ep *ep;
    struct fi_info *info;
    struct ofi_hello hello;
    struct ofi_prove prove;

    /* Sending. Positions in the rings are absolute. */
    unsigned char *stage;
    uint64_t stage_bytes, stage_head, stage_posted, stage_tail;
    uint64_t stage_want, stage_room; /* bytes that are needed by now, and that there may ever be */
    struct piece *piece;
    uint64_t piece_head, piece_tail;
    struct slot *slot; /* of LINK_SLOTS, in the order of posting */
    uint64_t slot_head, slot_tail;
    uint64_t writes;  /* pieces in the queue that are writes */
    bool hold;        /* a write whose end nobody reports uses the stage since the last slot */
    uint32_t mute;    /* operations without a report since then */
    bool unconfirmed; /* something was written after the last delivery that was asked for */
    uint64_t asked;   /* slot of that, plus one */
    uint64_t last_address, last_key; /* of the last write: what is read there comes after it */
    struct mark *mark;
    uint64_t mark_head, mark_covered, mark_tail; /* made, under way, judged */
    uint64_t kept_mark; /* bytes are kept until the marks before this one are judged */
    unsigned char *bounce;
    uint64_t bounce_head, bounce_tail;
    struct fid_mr *bounce_mr, *receive_mr;
    struct fid_mr *stage_mr[STAGE_STEPS_MAX]; /* the last one has it all */
    uint32_t stage_mrs;

    /* Receiving. */
    struct slot receive[LINK_RECEIVES];
    unsigned char *receive_bytes; /* FAR_MESSAGE_MAX each */

    /* What the other side told of its promises, and what it has of our memory. */
    struct promise *promise;
    uint32_t promises, promises_room;
    struct link_key *keys;
    uint32_t keys_count, keys_room;
    unsigned char subscribed[FAR_REGIONS_MAX / 8]; /* regions of ours, by index */
};

/* Who has to be told of a promise of ours before a raise is answered. */
struct notices {
    uint32_t gen;      /* of those that are under way */
    uint32_t waiting;  /* of these, not in a socket yet */
    uint64_t since_ns; /* when they were made, */
    uint32_t looks;    /* and polls since then */
    struct answer answer[LINK_ANSWERS];
    uint32_t answers;
};

struct net {
    struct fi_info *info; /* what all endpoints are made of */
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_eq *eq;
    struct fid_pep *pep;
    int cq_fd, eq_fd;
    int wake_fd; /* other threads write it; 0: not open */
    size_t inject_bytes, iovs, message_max;
    bool local, virtual, given_keys; /* FI_MR_LOCAL, FI_MR_VIRT_ADDR, FI_MR_PROV_KEY */
    bool data_wakes; /* what comes in makes the descriptor readable; else a bell must be rung */
};

struct ofi {
    struct far far; /* first */
    struct net net;
    bool read_back;
    bool
        drained; /* the last look at the completion queue found nothing, nor anything to do for it */
    struct ofi_auth auth;
    const struct chunk *kept_in; /* what was last put and kept */
    struct fid_mr *promised_mr;
    struct notices *notices; /* by region index, FAR_REGIONS_MAX of them */
    uint32_t raises;         /* regions with answers that wait */
};

static inline struct ofi *ofi_of(const struct far *o)
{
    return (struct ofi *)(uintptr_t)o;
}

static inline struct ofi_link *ofi_link(const struct link *l)
{
    return (struct ofi_link *)(uintptr_t)l;
}

static inline struct ofi *ofi_node(const struct ofi_link *l)
{
    return ofi_of(l->link.node);
}

/* ofi.c */
extern const struct far_carrier ofi_carrier;

/* promise.c: promised words, ours and theirs, and marks by them */
bool ofi_flow_open(struct link *, struct mem_flow *);
bool ofi_put(struct link *, struct mem_flow *, struct lane *, uint64_t pos, const void *,
             uint32_t bytes, bool kept);
bool ofi_set(struct link *, struct mem_flow *, struct lane *, uint32_t word, const uint64_t *,
             uint32_t count);
bool ofi_mark(struct link *, struct mem_flow *, uint64_t tag);
bool ofi_peek(struct link *, struct mem_op *, uint32_t region);
int ofi_marks_judge(struct ofi_link *, uint64_t end, const struct slot *read_back);
bool ofi_marks_span(struct ofi_link *, uint64_t *address, uint64_t *key, uint32_t *bytes);
void ofi_region_opened(struct far *, uint32_t region);
void ofi_promise(struct far *, uint32_t region, uint64_t ballot);
void ofi_raise(struct far *, uint32_t region, uint64_t ballot, const struct answer *);
bool ofi_subscribe(struct ofi_link *, uint32_t number);
bool ofi_promised_take(struct ofi_link *, const struct ofi_promised *, uint32_t count);
void ofi_notice_done(struct ofi *, uint32_t region, uint32_t gen);
void ofi_raises_look_after(struct ofi *);

/* chunk.c: memory that the card reaches */
int ofi_chunk_add(struct far *, struct chunk *, struct err *);
void ofi_chunk_drop(struct far *, struct chunk *);
const struct chunk *ofi_chunk_of(struct ofi *, const void *, uint32_t bytes); /* NULL: of none */
bool ofi_grant(struct link *, struct lane *, bool writes, struct far_at *);

/* link.c */
struct ofi_link *ofi_link_new(struct ofi *, struct peer *, struct fi_info *, uint64_t stage_bytes);
bool ofi_link_room(struct link *, uint64_t bytes); /* false: it cannot have so much */
bool ofi_link_write(struct ofi_link *, uint64_t address, uint64_t key, const void *,
                    uint32_t bytes);
bool ofi_link_write_kept(struct ofi_link *, uint64_t address, uint64_t key, const struct chunk *,
                         const void *, uint32_t bytes);
bool ofi_link_read(struct ofi_link *, struct mem_op *, uint64_t address, uint64_t key, void *out,
                   uint32_t bytes, bool more);
bool ofi_link_send(struct link *, uint32_t kind, const void *items, uint32_t count);
bool ofi_link_notice(struct ofi_link *, const struct ofi_promised *, uint32_t region, uint32_t gen);
bool ofi_link_owes(const struct ofi_link *, uint32_t region, uint32_t gen); /* one is not out yet */
bool ofi_link_mark(struct ofi_link *, struct mem_flow *, uint64_t gen, uint64_t tag);
void ofi_link_stop(struct link *);
void ofi_link_stopped(struct link *);
void ofi_link_freed(struct link *);
void *ofi_desc(struct fid_mr *); /* NULL of NULL */
void *ofi_stage_desc(const struct ofi_link *);
bool ofi_link_receive(struct ofi_link *, struct slot *); /* room for one more message */
bool ofi_bounce_open(struct ofi_link *); /* room for reads, when the first is queued */

/* post.c */
void ofi_link_push(struct ofi_link *); /* hands over what is queued */
int ofi_link_post(struct link *);
bool ofi_link_sent(const struct link *);
int ofi_links_poll(struct ofi *); /* completions */

/* meet.c: connecting, and proving who one is */
void ofi_dial(struct far *, struct peer *);
void ofi_events_take(struct far *);
bool ofi_message_take(struct link *, const struct far_head *);

/* limit.c */
uint64_t ofi_locked_bytes(const struct far *, uint64_t *limit);
const char *ofi_limit_hint(const struct ofi *, char *out,
                           size_t bytes); /* "", or of locked memory */

/* net.c */
int net_open(struct net *, const struct ofi_options *, struct err *);
int net_listen(struct net *, const struct far_options *, struct err *);
void net_close(struct net *);
struct fid_mr *net_register(struct net *, const void *, size_t bytes, uint64_t access);
uint64_t net_address(const struct net *, const void *base, const void *at);
bool net_arm(struct net *);                     /* false: there is something to do */
bool net_wait(struct net *, uint64_t until_ns); /* true: there is; 0: only looks */
void net_wake(struct net *);                    /* ends net_wait, from any thread */
int net_loop_open(const struct net *, int epoll_fd, struct err *);
int net_self_check(struct net *, struct err *);

#endif
