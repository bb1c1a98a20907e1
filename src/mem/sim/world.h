/* The inside of the simulated memory, shared by sim.c (world, clock, events), chan.c (writes
 * and completions), buffer.c (what is stored and not yet visible), op.c (raises and reads), cost.c (how long these take), link.c
 * (connections), stream.c (those over which the owner judges), fault.c (lives, cuts, lies) and
 * mem.c (regions, flows and the table of mem.h), lanes.c (lanes). Nothing else includes it.
 *
 * One thread at a time uses a world.
 *
 * Who holds what: events, flows and ops live in pools and are named by index, because a pool may
 * move when it grows; nodes, channels, regions and lanes never move. What a caller owns (mem_flow,
 * mem_op, out buffers) is touched in the issuer's poll alone, and never after its crash. */
#ifndef MEM_SIM_WORLD_H
#define MEM_SIM_WORLD_H

#include "base/hash.h"
#include "base/rng.h"
#include "mem/sim/sim.h"

#define SIM_NONE UINT32_MAX

enum {
    SIM_NODES_LIMIT = 256,   /* channels are a square of this */
    SIM_SLOT_BITS = 24,      /* events at one time: 16 million; the rest of the key orders them */
    SIM_PIECES_MAX = 4,      /* in how many pieces a write may land */
    SIM_READ_PIECES_MAX = 3, /* in how many pieces a read may be taken */
    SIM_TRIES = 16,          /* how often a waiting op looks again within lost_after_ns */
    SIM_ZOMBIE_TRIES = 64,   /* how often a raise that was given up may still try to land */
    SIM_DEATH_SEEN_NS_MIN = 1000,
    SIM_DEATH_SEEN_NS_MAX = 1000000,
};

enum sim_event_kind {
    SIM_EV_USER = 1,  /* of the harness */
    SIM_EV_CHAN,      /* the head of a channel lands, or its next piece; or a frame is received */
    SIM_EV_CHAN_LOST, /* a channel has been stuck for too long */
    SIM_EV_REPORT,    /* news of a flow reaches its issuer */
    SIM_EV_OP,        /* an op reaches its owner, or looks again */
    SIM_EV_REPLY,     /* an op's result reaches its asker */
    SIM_EV_LINK,      /* a connection may be made */
    SIM_EV_TOLD,      /* a node hears of another promise */
};

struct sim_event {
    uint32_t kind;
    uint32_t next; /* in the free list or in a node's inbox */
    union {
        struct {
            sim_event_fn *fn;
            void *ctx;
            uint64_t arg;
        } user;
        struct {
            uint32_t flow, generation;
            uint64_t tag;     /* done up to here, if status is MEM_DONE */
            uint64_t give_up; /* LOST instead if it could not be told by then */
            enum mem_status status;
        } report;
        struct {
            struct sim_region *region;
            uint32_t node;
        } told;
        uint32_t index; /* of the channel, the op or the connection */
    } u;
};

/* The queue's heap: 16 bytes an entry, four children share a cache line. */
struct sim_heap_entry {
    uint64_t when_ns;
    uint64_t key; /* sequence number << SIM_SLOT_BITS | event */
};

/* With links: what a node's writes to a region are judged by, until then, instead of the promised word. */
struct sim_told {
    uint64_t value;
    uint64_t until_ns;
};

struct sim_region {
    struct sim_region *next; /* of the same owner, in order of first mention */
    struct sim_lane *lanes, **lanes_end;
    uint32_t owner;
    uint32_t region;
    uint64_t promised;
    bool born;             /* the owner has opened it and its memory has been there since */
    uint32_t ended;        /* life of the owner, from 1, that has ended it; 0: none */
    struct sim_told *told; /* with links, by node; else NULL */
    uint64_t told_ns;      /* when all are judged by the promised word; a raise is answered then */
};

struct sim_handle { /* one node's handle of a lane */
    struct mem_lane lane;
    struct sim_handle *next;
    uint32_t node;
    uint32_t lives; /* the node was in the last of so many when it opened it, */
    bool ended;     /* and has ended it since */
};

struct sim_lane {
    struct mem_lane own; /* the owner's memory, with ctl and ring always set */
    struct sim_region *region;
    struct sim_lane *next; /* of the same region, in order of opening */
    struct sim_handle *handles;
    uint64_t
        opened_ns; /* with links: when the others know where it is; UINT64_MAX: it is not open */
    uint32_t
        offered; /* life of the owner, from 1, that was told of it; 0: none since its writer came */
    bool writer_has;   /* its writer, in any life, has opened it and not ended it */
    bool ends;         /* owner or writer has ended it, */
    uint64_t ended_ns; /* one of them last then */

    /* A common one: the writer's copy, which is a lane of its own, named as if the writer were the owner. Of the copy:
     * how many handles of the writer show it. Both are of one life of the writer, once it has opened them. */
    struct sim_lane *copy;
    uint32_t shown;
    bool claimed;
    struct sim_lane *next_copy; /* of the same life of its writer */
    _Atomic uint64_t *seen_ctl; /* what others see of the copy, if stores are buffered */
    unsigned char *seen_ring;
};

struct sim_flow {
    struct mem_flow *user; /* NULL: closed; kept until nothing of it is in flight */
    uint32_t next, prev;   /* open flows of the same issuer; next also links the free list */
    uint32_t issuer;
    uint32_t generation;
    uint64_t ballot;
    struct sim_region *region;
    uint64_t last;          /* number of its last write in the channel */
    uint64_t reported_ns;   /* when its latest completion arrives: completions keep their order */
    uint32_t in_flight;     /* writes that have not landed */
    enum mem_status failed; /* MEM_DONE, or what its issuer has been or will be told */
    bool dropping;          /* failed, and nothing of it lands any more */
    bool broken;            /* failed, and nothing more of it is sent */

    /* Where the owner judges: */
    bool denied;     /* a write of it was refused by the owner */
    uint64_t answer; /* number of the last answer to it in the channel back; UINT64_MAX: none */
    uint32_t number; /* its issuer's name for it; for the planted bug */
};

enum sim_item_kind {
    SIM_PUT,
    SIM_SET,
    SIM_BELL,
    /* Only where the owner judges; elsewhere these are no part of a channel. */
    SIM_MARK,
    SIM_ANSWER, /* to a flow */
    SIM_ASK,
    SIM_REPLY, /* to an op */
};

struct sim_item { /* one write on its way, or another frame */
    uint64_t issued_ns;
    uint64_t ready_ns; /* the next piece lands at this time or later */
    uint64_t at;       /* ring offset in bytes, or control word */
    uint64_t
        data; /* where its words begin in the channel's words; none are there if they are kept */
    const unsigned char *kept; /* else NULL: they are read here as they land */
    uint64_t tear;             /* draws how words fall to pieces */
    uint64_t tag;              /* of the mark it completes, if marked */
    struct sim_lane *lane;
    uint32_t flow;
    uint32_t words;
    uint8_t kind;
    uint8_t pieces, piece;
    uint8_t stop; /* its writer died: the rest of it never lands after this many pieces */
    bool marked;
    bool denied;    /* the promise was not its ballot when an earlier piece landed */
    bool permitted; /* at issue; for the planted bug */
    bool received;  /* it has been through the owner's end of the link */

    /* Where the owner judges: */
    bool answered;          /* a mark that was answered before its turn; for the planted bug */
    enum mem_status status; /* answer: MEM_DONE up to the tag, or MEM_DENIED */
    uint32_t about;         /* answer: the flow; ask, reply: the op, or SIM_NONE */
    uint32_t generation;    /* answer: of the flow, */
    uint32_t number;        /* and its issuer's name for it */
};

struct sim_chan {           /* the ordered way from one node to another */
    struct sim_item *items; /* a ring of items_size (a power of two or 0) */
    uint64_t head, tail;    /* numbers of the oldest write and of the next one */
    uint64_t *words;        /* a ring of data, words_size (a power of two or 0) */
    uint64_t words_head, words_tail;
    uint32_t items_size;
    uint32_t words_size;
    uint32_t from, to;
    uint64_t extra_ns; /* that everything takes longer */
    bool cut;
    bool event;      /* a SIM_EV_CHAN is queued */
    bool lost_event; /* a SIM_EV_CHAN_LOST is queued */

    /* With links, what the issuer knows of the connection: when it is there, when its lanes are known, and
     * when it is gone; UINT64_MAX: not yet. */
    uint64_t usable_ns, lanes_ns, down_ns;
    bool gone; /* it looked as if the other process had ended */

    /* Where the owner judges: items before these numbers have left, and have been received; the rest waits at the
     * issuer, or is under way. head <= received <= sent <= tail. */
    uint64_t sent, received;
    struct sim_chan *old; /* what is left of the last connection; for the planted bug, else NULL */
};

struct sim_link { /* the connection of two nodes */
    bool up;
    bool planned;  /* a SIM_EV_LINK is queued */
    uint32_t turn; /* rises whenever it is made or breaks */
};

enum sim_op_kind { SIM_RAISE, SIM_PEEK, SIM_READ_CTL, SIM_READ_RING, SIM_GRANT };

/* An op has exactly one event or inbox entry at any time; whoever takes that ends or renews it. */
struct sim_op {
    struct mem_op *user; /* NULL: the asker died or gave up */
    struct sim_region *region;
    struct sim_lane *lane;
    uint32_t next; /* in the free list */
    uint32_t asker;
    uint32_t memory; /* the owner's memory it was asked of */
    uint32_t turn;   /* of the connection it was asked over */
    uint32_t words, tries;
    uint64_t ballot;
    uint64_t at; /* ring offset or control word; of a grant, the life */
    uint64_t give_up_ns;
    uint64_t stands_ns; /* since when its owner, who is paused, has it; 0: it is not so */
    uint64_t tear;
    uint64_t value;
    void *out;
    uint64_t *buf; /* what was read so far; kept with the slot */
    uint32_t buf_words;
    enum mem_status status;
    uint8_t kind;
    uint8_t pieces, piece;
    bool used;
    bool void_; /* settled: it has no effect any more */
};

struct sim_node {
    struct mem mem; /* the view of this life; first, so that a struct mem * is the node */
    struct sim *world;
    uint32_t lives;
    uint32_t memory; /* how often its memory was lost */
    bool alive, paused;
    uint64_t ran_ns; /* when its last pause ended */
    bool reachable;  /* it has memory: started, and not lost since */
    struct sim_region *regions, **regions_end;
    struct sim_lane *kept_in; /* whose ring held what was last put and kept */
    struct sim_lane *copies;  /* of common lanes, of this life, if stores are buffered; */
    bool writes;              /* an event is queued that writes out what it has stored there */
    uint32_t flows;           /* open ones of this life */
    uint32_t inbox, inbox_end;
    uint32_t place;

    /* Of the place with this node's number, with costs: until when it has work, and until when the
     * ends of its link are taken. */
    uint64_t busy_ns;
    uint64_t out_ps, in_ps;
};

struct sim_block { /* memory that lives as long as the world */
    struct sim_block *next;
    size_t used, size;
    _Alignas(16) unsigned char bytes[];
};

struct sim {
    struct sim_options opt;
    struct rng draws; /* delays, tears, drops */
    struct rng rng;   /* the harness's */
    uint64_t now_ns;
    uint64_t sequence;
    uint64_t events_run;
    uint64_t hash;
    bool calm;

    struct sim_heap_entry *heap;
    uint32_t heap_len, heap_size;
    struct sim_event *events;
    uint32_t events_len, events_size, events_free;

    struct sim_flow *flows;
    uint32_t flows_len, flows_size, flows_free;
    struct sim_op *ops;
    uint32_t ops_len, ops_size, ops_free;

    struct sim_node *nodes;
    struct sim_chan *chans;  /* [from * nodes_max + to] */
    struct sim_link *links;  /* [lower * nodes_max + higher]; NULL without links */
    uint64_t *dead_seen_ns;  /* [asker * nodes_max + node] */
    uint8_t *lies;           /* [asker * nodes_max + node], enum sim_lie */
    struct sim_lane **lanes; /* hash table by name, lanes_size a power of two */
    uint32_t lanes_len, lanes_size;
    struct sim_lane *graves; /* lanes that were ended and whose name was opened again */
    struct sim_block *blocks;

    void (*on_bell)(void *, uint32_t);
    void *on_bell_ctx;
    void (*on_touch)(void *, uint32_t);
    void *on_touch_ctx;
    void (*on_put)(void *, const struct mem_lane_spec *, uint64_t, const void *, uint32_t);
    void *on_put_ctx;
    void (*on_read)(void *, uint32_t, const struct mem_lane_spec *, uint64_t, void *, uint32_t);
    void *on_read_ctx;
    void (*on_take)(void *, const struct mem_lane_spec *, uint64_t, uint32_t);
    void *on_take_ctx;
    void (*on_call)(void *, uint32_t, const struct sim_call *);
    void *on_call_ctx;
    void (*on_landing)(void *, const struct sim_landing *);
    void *on_landing_ctx;
};

/* sim.c */

/* Takes an event; valid until the next one is taken. */
uint32_t sim_event_new(struct sim *, enum sim_event_kind);
void sim_event_free(struct sim *, uint32_t event);
void sim_push(struct sim *, uint64_t when_ns, uint32_t event);
/* Grows *array to hold one more; out of memory ends the process, the world could not go on. */
void *sim_grow(void *array, uint32_t *size, size_t each, uint32_t first);
void *sim_alloc(struct sim *, size_t bytes); /* zeroed, lives as long as the world */
/* Puts an event into the node's inbox for its next poll. */
void sim_arrive(struct sim *, uint32_t node, uint32_t event);

static inline void sim_mix(struct sim *w, uint64_t word)
{
    w->hash = hash_mix(w->hash, word);
}

static inline struct sim_chan *sim_chan_at(const struct sim *w, uint32_t from, uint32_t to)
{
    return &w->chans[(size_t)from * w->opt.nodes_max + to];
}

static inline struct sim_item *sim_item_at(const struct sim_chan *c, uint64_t number)
{
    return &c->items[number & (c->items_size - 1)];
}

/* Does the channel belong to a connection over which the owner judges (stream.c)? */
static inline bool sim_is_stream(const struct sim *w, const struct sim_chan *c)
{
    return w->opt.links.on && w->opt.links.judged && c->from != c->to;
}

/* buffer.c; nothing is done unless stores are buffered */

void sim_buffer_open(struct sim *, struct sim_lane *copy);
void sim_buffer_write(struct sim *,
                      uint32_t node); /* what the node has stored others see from now on */
void sim_buffer_later(struct sim *, uint32_t node);
void sim_buffer_end(struct sim *, uint32_t node); /* its life ends */

/* cost.c: when things happen, drawn or by what they cost */

/* When something that is issued now reaches the other node. */
uint64_t sim_sent_ns(struct sim *, uint32_t from, uint32_t to, uint64_t bytes);
/* With costs: when a write that has reached the node has landed. */
uint64_t sim_received_ns(struct sim *, uint32_t node, uint64_t bytes);
/* When the issuer hears of what has just come about; of a mark that waits for nothing; of what it asked. */
uint64_t sim_heard_ns(struct sim *, uint32_t from, uint32_t to);
uint64_t sim_marked_ns(struct sim *, uint32_t from, uint32_t to);
uint64_t sim_answered_ns(struct sim *, uint32_t from, uint32_t to, uint64_t bytes);
/* With costs: both are in one place, where what is written is there at once. */
bool sim_near(const struct sim *, uint32_t a, uint32_t b);

/* link.c; without links everything is connected, and promises are in force at once */

void sim_link_plan(struct sim *, uint32_t a, uint32_t b); /* the connection may be made */
void sim_link_event(struct sim *, uint32_t link);
void sim_link_break(struct sim *, uint32_t a, uint32_t b);
bool sim_link_up(const struct sim *, uint32_t a, uint32_t b);
uint32_t sim_link_turn(const struct sim *, uint32_t a, uint32_t b);
/* May the channel's issuer use it, as far as it knows; and for a region or lane at the other end? */
bool sim_way_open(const struct sim *, const struct sim_chan *);
bool sim_way_known(const struct sim *, const struct sim_chan *, const struct sim_region *,
                   const struct sim_lane *);
/* A flow has just been opened. */
void sim_flow_begin(struct sim *, uint32_t flow);
/* Something is about to be written: the flow's state, which may have failed by that. */
enum mem_status sim_flow_ready(struct sim *, uint32_t flow, const struct sim_lane *);
void sim_promise(struct sim *, struct sim_region *, uint64_t ballot);
bool sim_promise_held(const struct sim *, const struct sim_flow *);
void sim_told_event(struct sim *, struct sim_region *, uint32_t node);

/* chan.c */

/* What a write or a bell is made of; data is taken before it returns. */
struct sim_write {
    enum sim_item_kind kind;
    uint32_t flow; /* SIM_NONE for a bell */
    struct sim_lane *lane;
    uint64_t at;
    const void *data;
    uint32_t words;
    bool kept; /* data is not taken, but read when it lands */
};
void sim_chan_issue(struct sim *, struct sim_chan *, const struct sim_write *);
/* Appends a copy of the item, of which words and kept are set; the words are taken from data. */
void sim_chan_append(struct sim *, struct sim_chan *, const struct sim_item *, const void *data);
void sim_chan_pop(struct sim *, struct sim_chan *); /* the head is over, landed or not */
void sim_item_store(const struct sim_chan *, const struct sim_item *); /* its next piece lands, */
void sim_item_landed(struct sim *, const struct sim_item *, bool counted); /* and that was all */
void sim_chan_event(struct sim *, uint32_t chan);
void sim_chan_lost_event(struct sim *, uint32_t chan);
void sim_chan_kick(struct sim *, struct sim_chan *); /* what it waited for may have come */
void sim_chan_kick_all(struct sim *, uint32_t to);
void sim_chan_drop(struct sim *, struct sim_chan *, uint64_t from); /* writes from this number on */
void sim_chan_stop(struct sim *, struct sim_chan *);    /* no more is sent: a part still lands */
uint64_t sim_chan_waits_since(const struct sim_chan *); /* the head's issue; UINT64_MAX: empty */
void sim_chan_settle(struct sim *, struct sim_chan *);  /* nothing is in flight any more */
uint32_t sim_flow_new(struct sim *, uint32_t issuer, struct sim_region *, uint64_t ballot);
void sim_flow_shut(struct sim *, uint32_t flow);
void sim_flow_mark(struct sim *, uint32_t flow, uint64_t tag);
/* Fails the flow at once inside; its issuer hears of it at when_ns. */
void sim_flow_fail(struct sim *, uint32_t flow, enum mem_status, uint64_t when_ns);
void sim_report_event(struct sim *, uint32_t event);
int sim_report_apply(struct sim *, const struct sim_event *);

/* stream.c: channels of which sim_is_stream is true */

void sim_stream_issue(struct sim *, struct sim_chan *, const struct sim_write *);
void sim_stream_mark(struct sim *, struct sim_chan *, uint32_t flow, uint64_t tag);
void sim_stream_ask(struct sim *, struct sim_chan *, uint32_t op);
void sim_stream_event(struct sim *, struct sim_chan *); /* something may be received, */
void sim_stream_kick(struct sim *, struct sim_chan *);  /* or is as soon as it is there */
void sim_stream_lost_event(struct sim *, struct sim_chan *);
/* It belongs to a new connection; it is of one that has just broken; an item of it is dropped. */
void sim_stream_connected(struct sim *, struct sim_chan *);
void sim_stream_broken(struct sim *, struct sim_chan *);
void sim_stream_dropped(struct sim *, const struct sim_item *);
/* The node takes what it has received; and sends what is to be sent. Returns how much changed. */
int sim_stream_poll(struct sim *, uint32_t node);
void sim_stream_flush(struct sim *, uint32_t node);
/* A flow has just been opened. */
void sim_stream_number(struct sim *, uint32_t flow);

/* op.c */
struct sim_ask {
    enum sim_op_kind kind;
    struct mem_op *user;
    uint32_t asker;
    struct sim_region *region;
    struct sim_lane *lane;
    uint64_t ballot;
    uint64_t at;
    void *out;
    uint32_t words;
};
void sim_op_ask(struct sim *, const struct sim_ask *);
void sim_op_event(struct sim *, uint32_t op);
void sim_op_reply_event(struct sim *, uint32_t event);
int sim_op_apply(struct sim *, uint32_t op);
void sim_op_free(struct sim *, uint32_t op);
/* Where the owner judges: an op is there, and has its result. False: nobody waits for that, and the op is freed. */
bool sim_op_taken(struct sim *, uint32_t op);
/* Its connection has broken: its asker hears of that. Returns what is still on its way, SIM_NONE if that is
 * nothing that has an effect. */
uint32_t sim_op_detach(struct sim *, uint32_t op);
void sim_op_lost(struct sim *, uint32_t op); /* likewise, and nothing is on its way any more */
void sim_ops_asker_died(struct sim *, uint32_t node);
void sim_ops_settle(struct sim *, uint32_t node);

/* mem.c */
extern const struct mem_ops sim_mem_ops;
struct sim_region *sim_region_get(struct sim *, uint32_t owner, uint32_t region);
static inline struct sim_node *sim_node_of(struct mem *m)
{
    struct sim_node *n = (struct sim_node *)m;

    CHECK(n->alive); /* a view ends with its life */
    return n;
}

/* lanes.c */
void sim_region_lose(struct sim *, struct sim_region *); /* its memory is gone */
void sim_region_end_lanes(struct sim *, struct sim_region *, uint32_t node);
void sim_lanes_free(struct sim *);
void sim_lanes_begin(struct sim *, uint32_t node);                    /* a life of the node */
void sim_lanes_reborn(struct sim *, uint32_t writer, uint32_t owner); /* they are connected */
/* As mem.h has them. */
int sim_lanes_open(struct mem *, const struct mem_lane_spec *, uint32_t count, struct mem_lane **,
                   struct err *);
bool sim_lane_next(struct mem *, struct mem_lane *);
void sim_lanes_end(struct mem *, struct mem_lane *const *, uint32_t count);
bool sim_lane_offer(struct mem *, struct mem_lane_spec *);
struct sim_handle *sim_lane_handle(const struct sim_lane *, uint32_t node); /* NULL: it has none */
bool sim_lane_over(const struct sim *,
                   const struct sim_lane *); /* nobody writes it or sees it any more */
/* The lane behind a handle that was not ended. */
static inline struct sim_lane *sim_lane_of(const struct mem_lane *handle)
{
    CHECK(handle->impl != NULL);
    return handle->impl;
}

#endif
