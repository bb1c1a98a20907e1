/* The inside of the memories that go over a network. Private to this folder and to the backends that build on it.
 *
 * A *link* is one connection to one process, and what the other side has told of its memory. Flows, ops and lanes of
 * others belong to a link and end with it. A *peer* is a node, whatever process it is now; it has at most one link that
 * is up.
 *
 * A backend begins its own node, link and flow with the structs of here, and gives a table (`struct far_carrier`) of
 * what depends on how bytes travel. What it takes from here is for its table of mem.h (far_put, far_raise, ...) and
 * for its links (far_link_begin, far_link_proven, far_message_take, link_close). */
#ifndef MEM_FAR_IMPL_H
#define MEM_FAR_IMPL_H

#include "mem/far/far.h"
#include "mem/far/wire.h"
#include "mem/life.h"
#include "mem/lookup.h"
#include "mem/places.h"
#include "mem/roll.h"

#include <netinet/in.h>

enum {
    FAR_REGIONS_MAX = 4096, /* of one node */
    FAR_LANE_BUCKETS = 4096,
    FAR_LANES_MAX = 1 << 20, /* of one node */
    FAR_LANE_ALIGN = 128,
    FAR_REGION_SLOTS = 1024,
    FAR_CLIENT_WANTS_MAX =
        FAR_REGIONS_MAX,      /* of a client, for lanes that are not open: one in each region */
    FAR_OFFERS_MAX = 1 << 16, /* of all clients, that nobody has looked at yet */

    LINK_PENDING = 1024, /* handshakes at once */
    STAGE_BYTES_MIN = 256 << 10,
    STAGE_BYTES_MAX = 16 << 20, /* unless a single ring is larger */
    POLLS_PER_CLOCK = 8,
    HUGE_PAGE_BYTES = 2 << 20,
};

#define MS UINT64_C(1000000) /* in nanoseconds */
#define CHORES_NS                                                                                  \
    (100 * UINT64_C(1000))       /* how often connections are looked after, while one is made */
#define HANDSHAKE_NS (2000 * MS) /* from the first sign of a connection to the proof */
#define DIAL_NS_MIN MS
#define DIAL_NS_MAX (200 * MS)
#define CLIENT_SILENT_NS (30000 * MS) /* clients need not poll */

#define TAKES_NOTHING "it takes nothing"

struct far;
struct link;

enum link_state {
    LINK_DIALING,   /* we connect */
    LINK_ACCEPTING, /* they do */
    LINK_PROVING,   /* connected */
    LINK_PLACING,   /* a client, proven; of which place, or of which cluster, is to come */
    LINK_MEETING,   /* hosts, proven: they tell each other their rolls */
    LINK_UP,
    LINK_REFUSED, /* it was told so, and is to go */
    LINK_CLOSED,  /* until nothing knows it any more */
};

struct link {
    struct link *next, *prev;
    struct link *dirty_next;
    struct far *node;
    struct peer *peer; /* NULL: a client that has no place yet */
    enum link_state state;
    bool dialed;       /* by us */
    bool proven;       /* the other side is who it says */
    bool dirty;        /* in the node's list of those with something to send */
    bool ready;        /* the other side's first wants are here */
    bool written_more; /* we have new lanes there */
    bool ended;        /* the other side has closed it: so says the fault */
    const char *fault; /* why it is to be closed by the next poll; NULL: it is not */
    uint64_t id;
    uint64_t since_ns; /* when it began, */
    uint64_t up_ns;    /* and when it was up */
    uint64_t heard_ns, told_ns;
    uint32_t life; /* theirs, and birth, once proven */
    uint64_t birth;
    uint64_t first; /* of a client: the earliest life of ours that its cluster counted with */
    bool held_back; /* a client that has a place, and is told when a disk knows of that */

    struct mem_op *ops; /* unfinished */
    uint64_t op_id;

    /* What we asked of the other side's memory, and what it asked of ours. */
    uint32_t asked_lanes; /* lanes of ours up to here were asked for */
    uint32_t wants;       /* not answered */
    struct far_want *pending;
    uint32_t pendings, pendings_room; /* theirs, for lanes that we have not opened */
    bool complained;                  /* that a lane has other sizes there */
};

struct peer {
    uint32_t node;
    bool host;
    bool wanted;   /* we have lanes with it */
    bool left;     /* it ended in order */
    bool anew;     /* client: this host is younger than the one that it knew */
    bool full;     /* it has no place for us */
    bool gone;     /* its last connection was ended by the other side */
    bool accepted; /* host: it was connected with this process, whatever it says since */
    bool denies;   /* host: it says that our life is over, or another's */
    bool dials;    /* something is on its way there that is no link yet */
    char name[FAR_NAME_BYTES]; /* for people */
    char where[80];            /* its address, for people */
    const char
        *address_name; /* as the cluster file has it; NULL: a number, never looked up again */
    uint16_t port;
    struct lookup *lookup; /* under way */
    unsigned lookups;      /* so far: each takes the next of several addresses */
    struct sockaddr_storage address;
    socklen_t address_bytes; /* 0: it is not known */
    struct link *link;       /* up */
    struct link *dialing;    /* on its way there */
    uint64_t lives;          /* life that was last heard of, plus one */
    uint64_t birth;          /* of the process in it */
    /* Client: what the host that gives its place has told us. */
    uint64_t given;       /* life that was last given, plus one */
    uint64_t given_birth; /* to this process; 0: that is not known */
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
    uint32_t lanes; /* that are not over; it is freed with the last */
    void *carried;  /* the carrier's */
};

/* A lane ends when both its owner and its writer say so (FAR_END), each once. The owner keeps the memory until
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
    /* Lanes of others, valid for one link: where they are, as struct far_at told. */
    uint64_t link_id;
    uint64_t key, ctl, ring;
};

/* Who waits to hear of a raise of ours. */
struct answer {
    uint64_t link_id;
    uint64_t id;
    uint64_t ballot;
    struct mem_op *own; /* our own raise; else of the link */
};

struct region {
    uint32_t number;
    bool ended;
};

/* How bytes travel. All that write return false if nothing more can be sent over the link for now, which loses the flow
 * or the link; a hook that may be NULL says so. */
struct far_carrier {
    /* Links. `stop` ends it at once, so that nothing lands over it any more; `stopped` when everybody knows
     * (NULL: nothing to do); `freed` when nothing refers to it any more. `post` sends what is queued, and says how many flows and ops have
     * changed; it makes the link dirty again if something is left. */
    bool (*send)(struct link *, uint32_t kind, const void *items, uint32_t count);
    bool (*message)(struct link *, const struct far_head *); /* of a kind of its own; NULL: none */
    void (*dial)(struct far *, struct peer *); /* its address is known. A link, or peer.dials */
    void (*events)(struct far *);              /* what has come of dialing and accepting */
    int (*post)(struct link *);
    void (*stop)(struct link *);
    void (*stopped)(struct link *);
    void (*freed)(struct link *);
    bool (*room)(struct link *, uint64_t bytes); /* may so much be under way? */
    bool (*sent)(const struct link *);           /* all of it */

    /* Memory. NULL: nothing to do. `grant` lets the other side of the link use a lane of ours. */
    int (*chunk_add)(struct far *, struct chunk *, struct err *);
    void (*chunk_drop)(struct far *, struct chunk *);
    bool (*grant)(struct link *, struct lane *, bool writes, struct far_at *);

    /* Promises, of regions by index. `raise`: the word is to be the ballot if it is lower, and then the asker to be
     * answered (far_answer). */
    void (*region_opened)(struct far *, uint32_t region); /* NULL: nothing to do */
    void (*promise)(struct far *, uint32_t region, uint64_t ballot);
    void (*raise)(struct far *, uint32_t region, uint64_t ballot, const struct answer *);

    /* Flows and ops to others. A flow may be failed in any of them (far_flow_fail). `put`: what does not go over the
     * ring's end; `kept`: the bytes stay where they are. `read`: a part of a ring in one piece, or control words from a
     * byte on; `more`: the op goes on with the next. */
    bool (*flow_open)(struct link *, struct mem_flow *);
    void (*flow_closed)(struct link *, struct mem_flow *); /* NULL: nothing to do */
    bool (*put)(struct link *, struct mem_flow *, struct lane *, uint64_t pos, const void *,
                uint32_t bytes, bool kept);
    bool (*set)(struct link *, struct mem_flow *, struct lane *, uint32_t word, const uint64_t *,
                uint32_t count);
    bool (*mark)(struct link *, struct mem_flow *, uint64_t tag);
    bool (*read)(struct link *, struct mem_op *, const struct lane *, bool ring, uint64_t pos,
                 void *out, uint32_t bytes, bool more);
    bool (*peek)(struct link *, struct mem_op *, uint32_t region);

    /* For the table of mem.h, as they are there. */
    int (*poll)(struct mem *);
    void (*bell)(struct mem *, uint32_t node);
    void (*bell_later)(struct mem *, uint32_t node);
    void (*wake)(struct mem *);
    int (*loop_open)(struct mem *, int epoll_fd, struct err *);

    /* Sleeping. `arm`: false if there is something to do; NULL: nothing is to be done for it. `restless`: something is to
     * be looked after that nothing tells of; NULL: never. */
    bool (*arm)(struct far *);
    bool (*restless)(const struct far *);
    void (*wait)(struct far *, uint64_t until_ns);

    uint64_t (*locked)(const struct far *, uint64_t *limit); /* memory that it locks; NULL: none */
    void (*close)(struct far *);                             /* the node's own; links are closed */
};

struct far {
    struct mem mem;     /* first */
    struct mem_ops ops; /* its table: what is the same for all, and the carrier's */
    const struct far_carrier *carrier;
    struct say say;
    struct say_heard strangers; /* what was said of them */
    bool host;
    bool huge;                     /* lanes are to be in huge pages, */
    uint64_t huge_got, huge_short; /* so many are, so many could not be had */
    bool leaving;
    bool dozing; /* between doze and sleep */
    bool armed;
    bool looks; /* client: asks for pages alone */
    char cluster[FAR_NAME_BYTES];
    char name[FAR_NAME_BYTES];
    uint32_t hosts_count, clients;
    uint32_t lives_max; /* of a client's place */
    uint64_t birth;
    uint64_t silent_ns, linger_ns;
    uint64_t now_ns; /* of this poll, or one shortly before */
    uint32_t polls;
    uint64_t chores_ns;   /* when connections are looked after next, */
    uint64_t looked_ns;   /* and when they last were */
    uint64_t stranger_ns; /* when a stranger was last spoken of */
    char failure[256];
    char trouble[480];   /* why a host was not reached, last; for a client's error text */
    uint32_t want_place; /* client: node number, or FAR_ANY */
    uint32_t giver;      /* client: host that is asked for a place, or has given it */
    uint64_t first[ROLL_HOSTS_MAX]; /* client: what that host has told */
    bool refused;                   /* client: a host does not take it */

    struct peer *peers[FAR_NODES_MAX];
    struct link *links, *dirty, *grave;
    struct link **dirty_last; /* where the next one's address goes */
    int news;                 /* of what was posted by a flush */
    uint32_t links_pending;
    uint64_t link_ids;

    struct lane *buckets[FAR_LANE_BUCKETS];
    struct lane **lane; /* by id */
    uint32_t lanes, lanes_room;
    bool again; /* one that was over has been opened again, by the call that is under way */
    struct chunk *chunks;
    struct mem_lane_spec *offers; /* mem.offered of them */
    uint32_t offers_room;

    struct region *region;
    uint32_t regions, regions_room;
    _Atomic uint64_t *promised; /* by region index */
    struct {
        uint32_t number, index; /* index plus one; 0: empty */
    } region_slot[FAR_REGION_SLOTS];

    struct mem_flow **flow; /* a table of all that are open */
    uint32_t flows, flows_room;
    uint64_t flow_gen;
    struct mem_flow **own_mark; /* flows to ourselves with a mark */
    uint32_t own_marks, own_marks_room;

    struct life_file life;
    struct places places;
    const struct mem_lives *lives; /* NULL: no disk keeps them */
    bool
        places_unsure; /* what this host had given was lost with its disk, and not enough have told */
    uint32_t held_back; /* links that are */
    struct roll roll;
    enum roll_verdict verdict; /* what follows from it, */
    uint32_t verdict_who;      /* due to whom, */
    uint64_t verdict_ns;       /* and since when */
    bool verdict_said;
    uint64_t roll_ns; /* when the others were last told */
    struct far_fact facts[FAR_FACTS_MAX];
    uint32_t facts_count;
    char address_names[FAR_HOSTS_MAX][256]; /* as the cluster file has them */
    const uint64_t *page;                   /* host: what it shows */
    uint32_t page_words;
};

struct flow_impl {
    struct link *link; /* NULL: to ourselves */
    uint64_t gen;
    uint32_t index;  /* own flows: of the region; else the carrier's */
    uint32_t listed; /* own flows: among own_mark */
    uint64_t carried[3];
};

struct op_impl {
    struct mem_op *next;
    uint64_t id;
    uint64_t carried[4];
};
_Static_assert(sizeof(struct flow_impl) == sizeof((struct mem_flow *)0)->impl, "fits");
_Static_assert(sizeof(struct op_impl) == sizeof((struct mem_op *)0)->impl, "fits");

static inline struct far *far_of(struct mem *m)
{
    return (struct far *)m;
}

static inline struct flow_impl *flow_impl(struct mem_flow *f)
{
    return (struct flow_impl *)(void *)f->impl;
}

static inline struct op_impl *op_impl(struct mem_op *op)
{
    return (struct op_impl *)(void *)op->impl;
}

static inline struct peer *peer_at(const struct far *o, uint32_t node)
{
    return node < FAR_NODES_MAX ? o->peers[node] : NULL;
}

static inline bool link_send(struct link *l, uint32_t kind, const void *items, uint32_t count)
{
    return l->node->carrier->send(l, kind, items, count);
}

static inline uint64_t far_promised_at(const struct far *o, uint32_t region)
{
    return atomic_load_explicit(&o->promised[region], memory_order_seq_cst);
}

static inline void far_promise_store(struct far *o, uint32_t region, uint64_t ballot)
{
    atomic_store_explicit(&o->promised[region], ballot, memory_order_seq_cst);
}

/* Makes an eventfd readable, from any thread. */
void far_wake_fd(int fd);

/* far.c: for tables of mem.h */
int far_region_open(struct mem *, uint32_t region, enum mem_birth *, struct err *);
void far_region_grant(struct mem *, uint32_t region, uint64_t ballot);
void far_region_end(struct mem *, uint32_t region);
uint64_t far_promised(struct mem *, uint32_t region);
void far_raise(struct mem *, struct mem_op *, uint32_t owner, uint32_t region, uint64_t ballot);
void far_grant(struct mem *, struct mem_op *, uint32_t owner, uint32_t region, uint32_t life,
               uint64_t ballot);
void far_peek(struct mem *, struct mem_op *, uint32_t owner, uint32_t region);
void far_read_ctl(struct mem *, struct mem_op *, struct mem_lane *, uint32_t word, uint32_t count,
                  uint64_t *out);
void far_read_ring(struct mem *, struct mem_op *, struct mem_lane *, uint64_t pos, void *out,
                   uint32_t bytes);
bool far_dead(struct mem *, uint32_t node);
void far_drop(struct mem *, uint32_t node);
void far_flush(struct mem *);
void far_close(struct mem *);

/* far.c: for carriers */
struct region *far_region_find(struct far *, uint32_t number);
uint32_t far_region_index(const struct far *, const struct region *);
void far_answer(struct far *, uint32_t region, const struct answer *); /* of a raise */
/* Somebody grants a region of ours, by its number. */
void far_grant_taken(struct far *, uint32_t number, uint32_t life, const struct answer *);
struct mem_op *far_op_find(const struct link *, uint64_t id); /* NULL: there is none */
void far_op_finish(struct link *, struct mem_op *, enum mem_status);
struct link *far_link_to(struct far *, uint32_t node); /* one that is up, or NULL */
int far_post_all(struct far *);

/* sleep.c: for tables of mem.h */
void far_doze(struct mem *);
void far_rouse(struct mem *);
void far_sleep(struct mem *, uint64_t until_ns);
bool far_loop_arm(struct mem *, uint64_t *until_ns);
void far_loop_disarm(struct mem *);

/* flow.c: for tables of mem.h */
void far_flow_open(struct mem *, struct mem_flow *, uint32_t owner, uint32_t region,
                   uint64_t ballot);
void far_flow_close(struct mem *, struct mem_flow *);
void far_put(struct mem *, struct mem_flow *, struct mem_lane *, uint64_t pos, const void *,
             uint32_t bytes);
void far_put_kept(struct mem *, struct mem_flow *, struct mem_lane *, uint64_t pos, const void *,
                  uint32_t bytes);
void far_set(struct mem *, struct mem_flow *, struct mem_lane *, uint32_t word, const uint64_t *,
             uint32_t count);
void far_mark(struct mem *, struct mem_flow *, uint64_t tag);

/* flow.c: for carriers */
void far_flow_fail(struct far *, struct mem_flow *, enum mem_status);
bool far_flow_known(const struct far *, const struct mem_flow *, uint64_t gen); /* still that one */
void far_flows_fail(struct far *, struct link *,
                    bool (*which)(const struct mem_flow *, const void *ctx), const void *ctx,
                    enum mem_status); /* of the link; NULL: all */
int far_own_marks_judge(struct far *);

/* lanes.c */
int far_lanes_open(struct mem *, const struct mem_lane_spec *, uint32_t count, struct mem_lane **,
                   struct err *);
bool far_offer(struct mem *, struct mem_lane_spec *);
bool far_lane_next(struct mem *, struct mem_lane *);
bool far_lanes_ask(struct link *);
void far_lanes_reborn(struct far *, uint32_t writer, uint32_t life);
bool far_lanes_wanted(struct link *, const struct far_want *, uint32_t count);
bool far_lanes_answered(struct link *, const struct far_at *, uint32_t count);
void far_lanes_free(struct far *);
void far_chunk_free(struct far *, struct chunk *);
uint64_t far_lanes_stage_bytes(const struct far *, uint32_t owner);
struct lane *far_lane_find(struct far *, const struct mem_lane_spec *);
struct mem_lane_spec far_copy_name(const struct mem_lane_spec *); /* of a common lane's copy */
bool far_same_lane(const struct mem_lane_spec *, const struct mem_lane_spec *);

/* ends.c */
void far_lanes_end(struct mem *, struct mem_lane *const *, uint32_t count);
void far_region_lanes_end(struct far *, uint32_t region);                    /* of ours */
bool far_lanes_ended(struct link *, const struct far_end *, uint32_t count); /* there */
bool far_lanes_end_again(struct link *); /* it is up: what we had ended without it */
void far_lanes_link_ended(struct link *);

/* peer.c: who is connected */
struct peer *far_peer_add(struct far *, uint32_t node, const char *name);
struct peer *far_peer_get(struct far *, uint32_t node); /* NULL: there can be none */
void far_peers_look_after(struct far *);
void far_peer_link_ended(struct link *, bool by_other, const char *why);
void far_peer_dial_failed(struct far *, struct peer *, const char *why);
void far_peer_say(struct far *, struct peer *, bool warn, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void far_stranger_say(struct far *, const struct sockaddr *, const char *why);

/* link.c: what all links have */
void far_link_begin(struct far *, struct link *, struct peer *);
void link_close(struct link *, bool by_other, const char *why);
void link_dirty(struct link *);
void link_fault(struct link *, const char *why);
void far_links_free(struct far *); /* those that are closed, if the carrier knows them no more */
const char *link_name(const struct link *);

/* message.c: what they say */
bool far_message_take(struct link *, const struct far_head *);
bool far_link_proven(struct link *, uint32_t life, uint64_t birth);
void far_clients_judge(struct far *);
bool link_up(struct link *);
bool link_refuse(struct link *, enum far_reason, uint32_t life);
void far_fail(struct far *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* place.c: places of clients */
void far_places_open(struct far *);
bool far_gives(struct far *, uint32_t node);
void far_place_freed(struct link *, bool ended);
bool far_place_give(struct link *, uint32_t wanted);
bool far_place_kept(struct link *, uint32_t *given);
bool far_place_had(const struct link *);
bool far_places_tell(struct link *);
bool far_places_seen(struct link *, const struct far_news *);
bool far_places_given(struct link *, const struct far_given *, uint32_t count);
void far_places_heard(struct far *); /* of one more host: all that it knows of them */
void far_place_noted(struct far *, uint32_t node, uint32_t life);
int far_places_look_after(struct far *); /* in every poll, if links are held back */

/* roll.c */
void far_roll_open(struct far *, bool lived);
bool far_roll_send(struct link *);
bool far_roll_take(struct link *, const struct roll_item *, uint32_t count);
void far_roll_link_ended(struct link *);
void far_roll_look_after(struct far *);
void far_roll_taken_back(struct far *); /* before a region of ours promises again */
void far_roll_leave(struct far *);

/* look.c */
bool far_page_send(struct link *);
bool far_page_take(struct link *, const uint64_t *words, uint32_t count);

/* open.c. A carrier opens in this order: far_check, far_begin, its own, far_listening (a host that has its address) or
 * far_join (a client); and far_free whenever something fails. */
int far_check(const struct far_options *, struct err *);
int far_begin(struct far *, const struct far_options *, const struct far_carrier *, struct err *);
int far_listening(struct far *, const struct far_options *, struct err *);
int far_join(struct far *, const struct far_options *, struct err *);
void far_free(struct far *);
void far_leave(struct far *);

#endif
