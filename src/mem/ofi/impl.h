/* The inside of the libfabric backend. Private to this folder.
 *
 * A *link* is one connection to one process: an endpoint, a queue of what is to be sent, and what the
 * other side has told of its memory. Flows, ops, keys and addresses belong to a link and end with it.
 * A *peer* is a node, whatever process it is now; it has at most one link that is up.
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

#include "mem/lookup.h"
#include "mem/ofi/library.h"
#include "mem/ofi/ofi.h"
#include "mem/ofi/wire.h"
#include "mem/places.h"
#include "mem/roll.h"

#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

enum {
    OFI_REGIONS_MAX = 4096, /* of one node */
    OFI_LANE_BUCKETS = 4096,
    OFI_LANES_MAX = 1 << 20, /* of one node */
    OFI_LANE_ALIGN = 128,
    OFI_REGION_SLOTS = 1024,

    LINK_RECEIVES = 8,   /* messages that may come at once */
    LINK_SLOTS = 128,    /* operations under way that will complete; the provider takes more */
    LINK_PIECES = 4096,  /* writes, reads and messages in the queue */
    LINK_MARKS = 4096,   /* marks not judged */
    LINK_ANSWERS = 64,   /* of one region, that wait for others to be told */
    LINK_PENDING = 1024, /* handshakes at once */
    STAGE_BYTES_MIN = 256 << 10,
    STAGE_BYTES_MAX = 16 << 20, /* unless a single ring is larger */
    STAGE_STEPS_MAX = 8,        /* in which it grows */
    PIECE_BYTES_MAX = 256 << 10,
    READ_BYTES_MAX = 64 << 10, /* of a read, as one operation */
    BOUNCE_BYTES = 256 << 10,
    POLLS_PER_CLOCK = 8,
    TELL_POLLS = 16,         /* to hear that a promise was handed to a socket */
    OPS_PER_COMPLETION = 16, /* writes that nobody marked before one asks for a completion */
    HUGE_PAGE_BYTES = 2 << 20,
};

#define MS UINT64_C(1000000) /* in nanoseconds */
#define CHORES_NS                                                                                  \
    (100 * UINT64_C(1000))       /* how often connections are looked after, while one is made */
#define HANDSHAKE_NS (2000 * MS) /* from the first sign of a connection to the proof */
#define DIAL_NS_MIN MS
#define DIAL_NS_MAX (200 * MS)
#define TELL_NS (2 * MS)              /* to hand a promise to a socket */
#define CLIENT_SILENT_NS (30000 * MS) /* clients need not poll */

struct ofi;
struct link;

/* What a completion belongs to. First comes what the provider may use while it is under way. */
enum slot_kind { SLOT_RECEIVE, SLOT_WRITE, SLOT_MARKS, SLOT_READ, SLOT_NOTICE };

struct slot {
    struct fi_context2 context;
    struct link *link;
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

enum link_state {
    LINK_DIALING,   /* we connect */
    LINK_ACCEPTING, /* they do, and their hello was good */
    LINK_PROVING,   /* connected */
    LINK_PLACING,   /* a client, proven; of which place, or of which cluster, is to come */
    LINK_MEETING,   /* hosts, proven: they tell each other their rolls */
    LINK_UP,
    LINK_REFUSED, /* it was told so, and is to go */
    LINK_CLOSED,  /* until no completion can come any more */
};

struct link {
    struct link *next, *prev;
    struct link *dirty_next;
    struct ofi *node;
    struct peer *peer; /* NULL: a client that has no place yet */
    enum link_state state;
    bool dialed;       /* by us */
    bool proven;       /* the other side has the key */
    bool dirty;        /* in the node's list of those with something to send */
    bool ready;        /* the other side's first wants are here */
    bool belled;       /* a bell is in the queue */
    bool judge;        /* marks wait for nothing but the next poll */
    bool written_more; /* we have new lanes there */
    int error;         /* of a call to the provider: to be closed by the next poll; 0: none */
    uint64_t id;
    struct fid_ep *ep;
    struct fi_info *info;
    uint64_t since_ns; /* when it began, */
    uint64_t up_ns;    /* and when it was up */
    uint64_t heard_ns, told_ns;
    struct ofi_hello hello;
    struct ofi_prove prove;
    uint32_t life; /* theirs, and birth, once proven */
    uint64_t birth;
    uint64_t first; /* of a client: the earliest life of ours that its cluster counted with */

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
    struct mem_op *ops; /* unfinished */
    uint64_t op_id;
    struct fid_mr *bounce_mr, *receive_mr;
    struct fid_mr *stage_mr[STAGE_STEPS_MAX]; /* the last one has it all */
    uint32_t stage_mrs;

    /* Receiving. */
    struct slot receive[LINK_RECEIVES];
    unsigned char *receive_bytes; /* OFI_MESSAGE_MAX each */

    /* What the other side told of its memory, and what it asked of ours. */
    struct promise *promise;
    uint32_t promises, promises_room;
    uint32_t asked_lanes; /* lanes of ours up to here were asked for */
    uint32_t wants;       /* not answered */
    struct ofi_want *pending;
    uint32_t pendings, pendings_room; /* theirs, for lanes that we have not opened */
    struct link_key *keys;
    uint32_t keys_count, keys_room;
    unsigned char subscribed[OFI_REGIONS_MAX / 8]; /* regions of ours, by index */
};

struct peer {
    uint32_t node;
    bool host;
    bool wanted;               /* we have lanes with it */
    bool left;                 /* it ended in order */
    bool anew;                 /* client: this host is younger than the one that it knew */
    bool full;                 /* it has no place for us */
    bool gone;                 /* its last connection was ended by the other side */
    char name[OFI_NAME_BYTES]; /* for people */
    char where[80];            /* its address, for people */
    const char
        *address_name; /* as the cluster file has it; NULL: a number, never looked up again */
    uint16_t port;
    struct lookup *lookup; /* under way */
    struct sockaddr_storage address;
    socklen_t address_bytes; /* 0: it is not known */
    struct link *link;       /* up */
    struct link *dialing;    /* on its way there */
    uint64_t lives;          /* life that was last heard of, plus one */
    uint64_t birth;          /* of the process in it */
    uint64_t dial_ns, dial_wait_ns;
    char said[256]; /* what was last said of it, to say it once */
    /* Of who looks: */
    bool asked;     /* and no answer yet */
    uint64_t *page; /* what has come of it */
    uint32_t page_words, page_got;
};

/* Memory of ours that one node writes: control words of some lanes, then their rings. */
struct chunk {
    struct chunk *next;
    uint32_t writer;
    unsigned char *at;
    size_t bytes;
    uint32_t lanes;         /* that are not over; it is freed with the last */
    struct fid_mr *read_mr; /* for everybody who may read */
};

/* A lane ends when both its owner and its writer say so (OFI_END), each once. The owner keeps the memory until
 * nothing can come any more: until the writer has said so behind all that it has written, or their link is closed. A
 * writer that the owner had answered hears of the owner's end when that comes; one that it had not gets an answer to
 * its own. Who only reads hears of the owner's, and has to ask for the lane anew. */
enum lane_state {
    LANE_OPEN,  /* a copy of ours: somebody shows it */
    LANE_ENDED, /* here, and not known to be at the other side */
    LANE_OVER,  /* its name may be opened again */
};

struct lane {
    struct mem_lane pub; /* first, so that a handle is this */
    struct lane *next;   /* in its bucket */
    uint32_t id;
    bool mismatch;
    enum lane_state state;
    uint64_t
        writer_link;  /* own lanes: the link over which the writer has it, by id; 0: it does not, */
    bool owed;        /* but has ended it, and waits to hear that we have */
    bool owner_ended; /* lanes that we write: the owner has said so, */
    uint64_t birth;   /* or it was this process of its when we ended it */
    struct chunk *chunk; /* own lanes that are there */
    /* Common ones. The writer's copy is a lane of its own, named as if the writer owned it. */
    bool shows;     /* the handle shows the copy */
    uint32_t shown; /* the copy: by so many handles */
    bool claimed;   /* at an owner: what is in it is of the life pub.life of its writer */
    /* Lanes of others, valid for one link. */
    uint64_t link_id;
    uint64_t key, ctl, ring;
};

struct answer {
    uint64_t link_id;
    uint64_t id;
    uint64_t ballot;
    struct mem_op *own; /* our own raise; else of the link */
};

struct region {
    uint32_t number;
    uint32_t gen;      /* of the notices that are under way */
    uint32_t waiting;  /* of these, not in a socket yet */
    uint64_t since_ns; /* when they were made, */
    uint32_t looks;    /* and polls since then */
    bool ended;
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
    struct mem mem; /* first */
    struct say say;
    struct say_heard strangers; /* what was said of them */
    struct net net;
    bool host;
    bool read_back;
    bool huge;                     /* lanes are to be in huge pages, */
    uint64_t huge_got, huge_short; /* so many are, so many could not be had */
    bool leaving;
    bool looks; /* client: asks for pages alone */
    bool
        drained; /* the last look at the completion queue found nothing, nor anything to do for it */
    bool dozing; /* between doze and sleep */
    bool armed;
    char cluster[OFI_NAME_BYTES];
    char name[OFI_NAME_BYTES];
    uint32_t hosts_count, clients;
    uint32_t lives_max; /* of a client's place */
    struct ofi_auth auth;
    uint64_t birth;
    uint64_t silent_ns, linger_ns;
    uint64_t now_ns; /* of this poll, or one shortly before */
    uint32_t polls;
    uint64_t chores_ns;   /* when connections are looked after next, */
    uint64_t looked_ns;   /* and when they last were */
    uint64_t stranger_ns; /* when a stranger was last spoken of */
    char failure[256];
    char trouble[480];   /* why a host was not reached, last; for a client's error text */
    uint32_t want_place; /* client: node number, or OFI_ANY */
    uint32_t giver;      /* client: host that is asked for a place, or has given it */
    uint64_t first[ROLL_HOSTS_MAX]; /* client: what that host has told */
    bool refused;                   /* client: a host does not take it */

    struct peer *peers[OFI_NODES_MAX];
    struct link *links, *dirty, *grave;
    struct link **dirty_last; /* where the next one's address goes */
    int news;                 /* of what was posted by a flush */
    uint32_t links_pending;
    uint64_t link_ids;

    struct lane *buckets[OFI_LANE_BUCKETS];
    struct lane **lane; /* by id */
    uint32_t lanes, lanes_room;
    const struct chunk *kept_in; /* what was last put and kept */
    bool again; /* one that was over has been opened again, by the call that is under way */
    struct chunk *chunks;
    struct mem_lane_spec *offers; /* mem.offered of them */
    uint32_t offers_room;

    struct region *region;
    uint32_t regions, regions_room;
    _Atomic uint64_t *promised; /* by region index */
    struct fid_mr *promised_mr;
    struct {
        uint32_t number, index; /* index plus one; 0: empty */
    } region_slot[OFI_REGION_SLOTS];
    uint32_t raises; /* regions with answers that wait */

    struct mem_flow **flow; /* a table of all that are open */
    uint32_t flows, flows_room;
    uint64_t flow_gen;
    struct mem_flow **own_mark; /* flows to ourselves with a mark */
    uint32_t own_marks, own_marks_room;

    struct life_file life;
    struct places places;
    struct roll roll;
    enum roll_verdict verdict; /* what follows from it, */
    uint32_t verdict_who;      /* due to whom, */
    uint64_t verdict_ns;       /* and since when */
    bool verdict_said;
    uint64_t roll_ns; /* when the others were last told */
    struct ofi_fact facts[OFI_FACTS_MAX];
    uint32_t facts_count;
    char address_names[OFI_HOSTS_MAX][256]; /* as the cluster file has them */
    const uint64_t *page;                   /* host: what it shows */
    uint32_t page_words;
};

struct flow_impl {
    struct link *link; /* NULL: to ourselves */
    uint64_t gen;
    uint32_t promise; /* in the link's list; own flows: index of the region; UINT32_MAX: none */
    uint32_t listed;  /* own flows: among own_mark */
    uint64_t unused[3];
};

struct op_impl {
    struct mem_op *next;
    uint64_t id;
    uint64_t unused[4];
};
_Static_assert(sizeof(struct flow_impl) == sizeof((struct mem_flow *)0)->impl, "fits");
_Static_assert(sizeof(struct op_impl) == sizeof((struct mem_op *)0)->impl, "fits");

static inline struct ofi *ofi_of(struct mem *m)
{
    return (struct ofi *)m;
}

static inline struct flow_impl *flow_impl(struct mem_flow *f)
{
    return (struct flow_impl *)(void *)f->impl;
}

static inline struct op_impl *op_impl(struct mem_op *op)
{
    return (struct op_impl *)(void *)op->impl;
}

static inline struct peer *peer_at(const struct ofi *o, uint32_t node)
{
    return node < OFI_NODES_MAX ? o->peers[node] : NULL;
}

/* ofi.c */
extern const struct mem_ops ofi_ops;
void ofi_flows_lose(struct ofi *, struct link *);
void ofi_flows_deny(struct link *,
                    const struct promise *); /* those that are not promised any more */
int ofi_marks_judge(struct link *, uint64_t end, const struct slot *read_back);
bool ofi_marks_span(struct link *, uint64_t *address, uint64_t *key, uint32_t *bytes);
struct region *ofi_region_find(struct ofi *, uint32_t number);
uint32_t ofi_region_index(const struct ofi *, const struct region *);
void ofi_region_raise(struct ofi *, struct region *, uint64_t ballot, const struct answer *);
bool ofi_region_tell(struct ofi *, struct region *, struct link *);
void ofi_notice_done(struct ofi *, uint32_t region, uint32_t gen);
void ofi_raises_look_after(struct ofi *);
void ofi_op_finish(struct link *, struct mem_op *, enum mem_status);

/* lanes.c */
int ofi_lanes_open(struct mem *, const struct mem_lane_spec *, uint32_t count, struct mem_lane **,
                   struct err *);
bool ofi_offer(struct mem *, struct mem_lane_spec *);
bool ofi_lanes_ask(struct link *);
void ofi_lanes_reborn(struct ofi *, uint32_t writer, uint32_t life);
bool ofi_lanes_wanted(struct link *, const struct ofi_want *, uint32_t count);
bool ofi_lanes_answered(struct link *, const struct ofi_at *, uint32_t count);
bool ofi_lane_next(struct mem *, struct mem_lane *);
void ofi_lanes_end(struct mem *, struct mem_lane *const *, uint32_t count);
void ofi_region_lanes_end(struct ofi *, uint32_t region);                    /* of ours */
bool ofi_lanes_ended(struct link *, const struct ofi_end *, uint32_t count); /* there */
bool ofi_lanes_end_again(struct link *); /* it is up: what we had ended without it */
void ofi_lanes_link_ended(struct link *);
const struct chunk *ofi_chunk_of(struct ofi *, const void *, uint32_t bytes); /* NULL: of none */
void ofi_lanes_free(struct ofi *);
uint64_t ofi_lanes_stage_bytes(const struct ofi *, uint32_t owner);

/* link.c */
struct link *link_new(struct ofi *, struct peer *, struct fi_info *, uint64_t stage_bytes);
void link_close(struct link *, bool by_other, const char *why);
bool link_stage_want(struct link *, uint64_t bytes); /* false: it cannot have so much */
void links_free(struct ofi *); /* those that are closed; the completion queue was empty */
bool link_write(struct link *, uint64_t address, uint64_t key, const void *, uint32_t bytes);
bool link_write_kept(struct link *, uint64_t address, uint64_t key, const struct chunk *,
                     const void *, uint32_t bytes);
/* `more`: the op goes on with the next read. */
bool link_read(struct link *, struct mem_op *, uint64_t address, uint64_t key, void *out,
               uint32_t bytes, bool more);
bool link_send(struct link *, enum ofi_kind, const void *items, uint32_t count);
bool link_notice(struct link *, const struct ofi_promised *, uint32_t region, uint32_t gen);
bool link_owes(const struct link *, uint32_t region, uint32_t gen); /* a notice is not out yet */
bool link_mark(struct link *, struct mem_flow *, uint64_t gen, uint64_t tag);
void link_dirty(struct link *);
void link_fault(struct link *, int error); /* closed by the next poll */
void link_post(struct link *);
int links_poll(struct ofi *); /* completions */
const char *link_name(const struct link *);

/* peer.c: who is connected */
struct peer *ofi_peer_add(struct ofi *, uint32_t node, const char *name);
void ofi_events_take(struct ofi *);
void ofi_peers_look_after(struct ofi *);
void ofi_peer_link_ended(struct link *, bool by_other, const char *why);
void ofi_peer_say(struct ofi *, struct peer *, bool warn, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* message.c: what they say */
bool ofi_peer_message(struct link *, const struct ofi_head *);
bool link_prove(struct link *);
bool ofi_gives(struct ofi *, uint32_t node);
void ofi_place_freed(struct link *, bool ended);
void ofi_clients_judge(struct ofi *);
bool link_up(struct link *);
bool link_refuse(struct link *, enum ofi_reason, uint32_t life);
void ofi_fail(struct ofi *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* roll.c */
void ofi_roll_open(struct ofi *, bool lived);
bool ofi_roll_send(struct link *);
bool ofi_roll_take(struct link *, const struct roll_item *, uint32_t count);
void ofi_roll_link_ended(struct link *);
void ofi_roll_look_after(struct ofi *);
void ofi_roll_taken_back(struct ofi *); /* before a region of ours promises again */
void ofi_roll_leave(struct ofi *);

/* look.c */
bool ofi_page_send(struct link *);
bool ofi_page_take(struct link *, const uint64_t *words, uint32_t count);

/* limit.c */
uint64_t ofi_locked_bytes(const struct ofi *);
const char *ofi_limit_hint(const struct ofi *, char *out,
                           size_t bytes); /* "", or of locked memory */

/* open.c */
void ofi_free(struct ofi *);
void ofi_leave(struct ofi *);

/* net.c */
int net_open(struct net *, const struct ofi_options *, struct err *);
int net_listen(struct net *, const struct ofi_options *, struct err *);
void net_close(struct net *);
struct fid_mr *net_register(struct net *, const void *, size_t bytes, uint64_t access);
uint64_t net_address(const struct net *, const void *base, const void *at);
bool net_arm(struct net *);                     /* false: there is something to do */
bool net_wait(struct net *, uint64_t until_ns); /* true: there is; 0: only looks */
void net_wake(struct net *);                    /* ends net_wait, from any thread */
int net_loop_open(const struct net *, int epoll_fd, struct err *);
int net_self_check(struct net *, struct err *);

#endif
