/* Remote memory with permissions: the contract that every protocol stands on.
 *
 * A *node* is one process (a host or a client) with memory that others reach one-sidedly. A node
 * owns numbered *regions*; a region has one `promised` word and *lanes*. A lane has one writer
 * for ever, a few 8-byte control words, and possibly a byte ring. One `struct mem` is one node's
 * view of all this; one thread uses it. Three backends implement the table `struct mem_ops`:
 * shm (processes of one machine), sim (virtual time, drawn faults), ofi (libfabric).
 *
 * The promises, which sim enforces in their weakest form:
 *
 *  1. Order. Writes by one node to one owner land in the order they were issued, across all
 *     lanes, regions and flows. Within one `put` or `set` only aligned 8-byte words are atomic,
 *     and they land in any order. So presence is told by a *guard*: a control word `set` after
 *     the `put` it covers.
 *  2. Birth. Control words of a lane are zero when the lane is born. Ring bytes are not: they
 *     start as anything at all, bytes that look like valid entries included. Nothing is zeroed
 *     later.
 *  3. Completion. `mark(flow, tag)` asks for a completion of all writes issued on the flow so
 *     far. When `flow->done == tag`, they are in the owner's memory, and for a flow with a
 *     ballot the owner's promised word was that ballot when they landed. A flow that has failed
 *     says DENIED (the owner's promise has gone to another ballot) or LOST (outcome unknown) in
 *     `flow->status`, for good: what was not done by then may have landed or may land later, in
 *     its own lane, and is never reported done. Open the flow again to go on.
 *  4. Permission. `promised` only rises. When `raise(owner, region, b)` is DONE, promised was
 *     b at that moment; no write under a lower ballot that had not landed by then is ever
 *     reported done; and a read of that owner issued after it sees every write that was or will
 *     be reported done under a lower ballot.
 *  5. Death. The crash of a process and the loss of its memory are two events. The content of
 *     a lane between hosts survives a restart of its writer. One that a client owns may be
 *     as it was born again; one that a client writes is, in each life of the client (`lane->life`). It
 *     survives a restart of its owner if the owner's memory did (`MEM_BIRTH_KEPT`). A raise, flow or read never spans two lives of an owner whose memory was
 *     lost: it ends LOST.
 *  6. Ends. Who has ended a lane neither writes, reads nor sees it any more. Once owner and writer have both
 *     ended it its name may be opened again; that lane is blank, and nothing written to the one before
 *     lands in it. An end holds for a life: a lane between hosts that its writer did not end is there again
 *     for the writer's next life.
 *  7. Common lanes. Lanes between hosts that differ in nothing but the owner may have one content
 *     (`common`). Their writer has a copy of its own: it stores there what is new (mem_store, or plainly into
 *     the ring), and then sends the same to each owner. Where owners can read the copy itself (shm) they see
 *     it as soon as it is stored: what a guard covers is stored before the guard. A common lane is blank
 *     in each life of its writer; an owner goes on reading what the life before has left until it asks
 *     for the next (mem_lane_next).
 *
 * Nothing here blocks, except opening and `sleep`. `poll` makes progress; completions are seen
 * after it returned. On shm, writes are in memory at once, and one `poll` settles all marks of
 * all flows with a single fence. */
#ifndef MEM_MEM_H
#define MEM_MEM_H

#include "base/err.h"
#include "mem/wrap.h"

#include <stdatomic.h>
#include <stdint.h>

enum { MEM_PAGE_BYTES = 4096 };

/* The promised word of a region whose owner lost its memory and may not promise yet. */
#define MEM_CLOSED UINT64_MAX

enum mem_status {
    MEM_DONE = 0, /* an op has its result; a flow is usable */
    MEM_PENDING,  /* ops only: not finished */
    MEM_DENIED,   /* a higher promise stands in the way */
    MEM_LOST,     /* the owner cannot be reached; the outcome is unknown */
};

/* How a region looked when its owner opened it. */
enum mem_birth {
    MEM_BIRTH_NEW,  /* first life of this owner: promised is 0, all lanes are blank */
    MEM_BIRTH_KEPT, /* an earlier life's promised word and lanes are all there */
    MEM_BIRTH_LOST, /* an earlier life existed and its memory is gone: promised is MEM_CLOSED */
};

struct mem_lane_spec {
    uint32_t owner;      /* node whose memory holds it */
    uint32_t writer;     /* the one node that may ever write it */
    uint32_t region;     /* the owner's region it belongs to */
    uint32_t kind;       /* the protocol's name for it; (owner, writer, region, kind) is unique */
    uint32_t ctl_words;  /* control words, at least 1 */
    uint32_t ring_bytes; /* 0, or a power of two of at least MEM_PAGE_BYTES */
    uint32_t common;     /* 1: has one content with all that differ only in the owner; else 0 */
};

struct mem_lane {
    struct mem_lane_spec spec;
    /* The owner's view of its own lane; NULL for a node that is not the owner, and, for the owner,
     * until the lane is there (on shm: until its writer has connected). For the writer of a common lane: its own
     * copy, the same in the handles of all owners. Both change only
     * inside poll and mem_lane_next. What goes over the ring's end goes on at its beginning (mem/wrap.h). Only
     * aligned words under a guard may be read plainly. */
    _Atomic uint64_t *ctl;
    unsigned char *ring;
    /* The owner's view of a lane that a client writes: the life of the process whose content this is, as the
     * memory knows it; whatever the client writes says nothing about that. When it changes, inside poll, the
     * lane is as it was born, and nothing of an earlier life lands there any more. Of a common lane: the life of its
     * writer whose content the owner sees. 0 for all other lanes. */
    uint32_t life;
    void *impl; /* backend's */
};

/* An ordered stream of writes from this node to one region, with completions. Caller's memory;
 * must stay in place while open. */
struct mem_flow {
    uint32_t owner;
    uint32_t region;
    uint64_t ballot;        /* permission needed for DONE; 0: none */
    uint64_t marked;        /* tag of the last mark */
    uint64_t done;          /* tag of the last mark that is done */
    enum mem_status status; /* MEM_DONE: usable; MEM_DENIED or MEM_LOST: failed for good */
    uint64_t impl[6];       /* backend's */
};

/* One raise, grant, read or peek. Caller's memory; must stay in place until it is not PENDING. */
struct mem_op {
    enum mem_status status;
    uint64_t value;   /* raise, grant, peek: the promised word that was found or left behind */
    uint64_t impl[6]; /* backend's */
};

struct mem;

struct mem_ops {
    int (*region_open)(struct mem *, uint32_t region, enum mem_birth *, struct err *);
    void (*region_grant)(struct mem *, uint32_t region, uint64_t ballot);
    uint64_t (*promised)(struct mem *, uint32_t region);
    int (*lanes_open)(struct mem *, const struct mem_lane_spec *, uint32_t count,
                      struct mem_lane **out, struct err *);
    void (*flow_open)(struct mem *, struct mem_flow *, uint32_t owner, uint32_t region,
                      uint64_t ballot);
    void (*flow_close)(struct mem *, struct mem_flow *);
    void (*put)(struct mem *, struct mem_flow *, struct mem_lane *, uint64_t pos, const void *,
                uint32_t bytes);
    void (*set)(struct mem *, struct mem_flow *, struct mem_lane *, uint32_t word, const uint64_t *,
                uint32_t count);
    void (*mark)(struct mem *, struct mem_flow *, uint64_t tag);
    void (*raise)(struct mem *, struct mem_op *, uint32_t owner, uint32_t region, uint64_t ballot);
    void (*peek)(struct mem *, struct mem_op *, uint32_t owner, uint32_t region);
    void (*read_ctl)(struct mem *, struct mem_op *, struct mem_lane *, uint32_t word,
                     uint32_t count, uint64_t *out);
    void (*read_ring)(struct mem *, struct mem_op *, struct mem_lane *, uint64_t pos, void *out,
                      uint32_t bytes);
    int (*poll)(struct mem *);
    bool (*dead)(struct mem *, uint32_t node);
    bool (*offer)(struct mem *, struct mem_lane_spec *);
    void (*bell)(struct mem *, uint32_t node);
    void (*bell_later)(struct mem *, uint32_t node); /* NULL: as bell */
    /* The rest is for who runs the node, and not for protocols. NULL where nobody sleeps (sim). */
    void (*doze)(struct mem *);
    void (*rouse)(struct mem *);
    void (*sleep)(struct mem *, uint64_t until_ns);
    void (*wake)(struct mem *);
    int (*loop_open)(struct mem *, int epoll_fd, struct err *);
    bool (*loop_arm)(struct mem *, uint64_t *until_ns);
    void (*loop_disarm)(struct mem *);
    void (*close)(struct mem *);
    uint32_t (*dead_hosts)(struct mem *); /* NULL: it does not count them */
    void (*flush)(struct mem *);          /* NULL: what is written needs no sending */
    void (*lanes_end)(struct mem *, struct mem_lane *const *, uint32_t count);
    void (*region_end)(struct mem *, uint32_t region);
    void (*put_kept)(struct mem *, struct mem_flow *, struct mem_lane *, uint64_t pos, const void *,
                     uint32_t bytes);
    void (*drop)(struct mem *, uint32_t node); /* NULL: there are no connections */
    bool (*lane_next)(struct mem *, struct mem_lane *);
    void (*grant)(struct mem *, struct mem_op *, uint32_t owner, uint32_t region, uint32_t life,
                  uint64_t ballot);
    void (*fence)(struct mem *); /* NULL: the processor's will do */
    void (*take)(struct mem *, const struct mem_lane *, uint64_t pos, void *,
                 uint32_t bytes);   /* NULL: a copy will do */
    bool (*is_known)(struct mem *); /* NULL: what lives is needed, and has it or answers nothing */
};

struct mem {
    const struct mem_ops *ops;
    uint32_t self;        /* this node's number */
    uint32_t life;        /* how many lives this node had before; 0 the first time */
    uint32_t lanes_moved; /* rises with every change of an open lane's ctl, ring or life */
    /* Memory that was lost holds nothing that others go on with: regions that were born LOST may be opened as if they
     * were new. Rises inside poll, once. */
    bool anew;
    bool unsettled;   /* it may still turn out so */
    uint32_t offered; /* lanes that mem_offer would tell of, at most; changes only inside poll */
    /* Writes to others are messages, which cost both sides and land while the other polls: fewer are better than
     * sooner. */
    bool remote;
    /* What is stored in the own copy of a common lane is in its owners' memory at once, and stays there whoever dies: sending it is
     * nothing. At once is when this processor has written it out: see mem_fence. */
    bool shared;
    /* Writers may lie: everybody has memory that they alone write, nobody promises anything (no ballots, raises or grants), and a memory that was
     * lost is blank. A read of another node's memory stays PENDING until that is here; who is waited for longer than a correct one
     * takes is LOST. */
    bool hostile;
};

/* Declares a region of this node and says what became of an earlier life's memory. Nothing lands in
 * its lanes before that. */
static inline int mem_region_open(struct mem *m, uint32_t region, enum mem_birth *birth,
                                  struct err *e)
{
    return m->ops->region_open(m, region, birth, e);
}

/* Opens a region that was born LOST for promises, at `ballot`. The owner alone decides when, unless it is passive
 * (mem_grant). */
static inline void mem_region_grant(struct mem *m, uint32_t region, uint64_t ballot)
{
    m->ops->region_grant(m, region, ballot);
}

/* Ends an own region: its lanes, as mem_lanes_end does those that are open here, and its promises. From now on its
 * promised word is MEM_CLOSED for everybody, so nothing counts there any more under a ballot. Its number is not
 * opened again in this life: promises only rise, and a number would have to begin at 0. */
static inline void mem_region_end(struct mem *m, uint32_t region)
{
    m->ops->region_end(m, region);
}

/* The promised word of an own region, now. */
static inline uint64_t mem_promised(struct mem *m, uint32_t region)
{
    return m->ops->promised(m, region);
}

/* Opens lanes that this node owns, writes or reads, in one go. The handles live as long as m, or until they are
 * ended. Owner and writer must give the same sizes, and both or none of them `common`; a mismatch is ERR_INVALID or
 * never connects. A name that this node
 * has ended is ERR_EXISTS until it is known here, inside poll, that the other side has ended it, too. */
static inline int mem_lanes_open(struct mem *m, const struct mem_lane_spec *specs, uint32_t count,
                                 struct mem_lane **out, struct err *e)
{
    return m->ops->lanes_open(m, specs, count, out, e);
}

/* Ends lanes: their handles are void at once; reads of them must be finished before. Flows go on. An owner may go on
 * reading what its writer has ended until it ends it itself; what is written to a lane that its owner has ended is
 * DONE or LOST, and seen by nobody. Who neither owns nor writes a lane ends it before they do: what it reads later is LOST.
 * An owner that ends a lane before anything of its writer has reached it has not ended what the writer brings later. */
static inline void mem_lanes_end(struct mem *m, struct mem_lane *const *lanes, uint32_t count)
{
    m->ops->lanes_end(m, lanes, count);
}

/* Has a common lane of this node's show what the newest life of its writer has there, as far as that life is known
 * here and has opened it. False: it shows that already. */
static inline bool mem_lane_next(struct mem *m, struct mem_lane *l)
{
    return m->ops->lane_next(m, l);
}

/* Tells of a lane that a client writes to us and that nobody has opened here: its writer is there and
 * waits for it to be opened, with whatever else it needs to be served. Each is told of once in the life
 * of its writer. False: there is none. */
static inline bool mem_offer(struct mem *m, struct mem_lane_spec *out)
{
    return m->offered > 0 && m->ops->offer(m, out);
}

/* Starts a flow to (owner, region), forgetting what *f was. Its status may turn LOST at once. */
static inline void mem_flow_open(struct mem *m, struct mem_flow *f, uint32_t owner, uint32_t region,
                                 uint64_t ballot)
{
    m->ops->flow_open(m, f, owner, region, ballot);
}

/* Ends the flow: nothing on it completes any more, and *f may be reused. Writes may still land. */
static inline void mem_flow_close(struct mem *m, struct mem_flow *f)
{
    m->ops->flow_close(m, f);
}

/* Writes bytes (a multiple of 8) into the lane's ring at pos modulo its size; the bytes are
 * taken before it returns. On a failed flow it does nothing. Into a common lane: what the writer's copy has there. */
static inline void mem_put(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint64_t pos,
                           const void *data, uint32_t bytes)
{
    m->ops->put(m, f, l, pos, data, bytes);
}

/* As mem_put, but the bytes are not taken: they stay in place and unchanged until a later mark of the flow is done or
 * the flow is LOST. They are in the ring of a lane that m owns, or in its copy of a common one, which is not ended
 * before; the flow has no ballot. What
 * was not done when the flow was LOST may land as the bytes are later. */
static inline void mem_put_kept(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint64_t pos,
                                const void *data, uint32_t bytes)
{
    m->ops->put_kept(m, f, l, pos, data, bytes);
}

/* Writes control words [word, word+count), after all earlier writes to that owner. Into a common lane: what the
 * writer's copy has there. */
static inline void mem_set(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint32_t word,
                           const uint64_t *values, uint32_t count)
{
    m->ops->set(m, f, l, word, values, count);
}

static inline void mem_set1(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint32_t word,
                            uint64_t value)
{
    m->ops->set(m, f, l, word, &value, 1);
}

/* Asks that flow->done become tag when all earlier writes of the flow are done. Tags rise. */
static inline void mem_mark(struct mem *m, struct mem_flow *f, uint64_t tag)
{
    m->ops->mark(m, f, tag);
}

/* Lifts promised at (owner, region) to ballot if it is lower. DONE: it is ballot now. DENIED: it
 * is higher, see op->value (MEM_CLOSED where the owner does not promise). */
static inline void mem_raise(struct mem *m, struct mem_op *op, uint32_t owner, uint32_t region,
                             uint64_t ballot)
{
    m->ops->raise(m, op, owner, region, ballot);
}

/* Opens the region of a passive owner, who runs no protocol that could do it, for promises at `ballot`: one that was born
 * LOST, is MEM_CLOSED, and is of that life of its owner. DONE: the promised word is ballot now. DENIED: it was not so. */
static inline void mem_grant(struct mem *m, struct mem_op *op, uint32_t owner, uint32_t region,
                             uint32_t life, uint64_t ballot)
{
    m->ops->grant(m, op, owner, region, life, ballot);
}

/* Reads promised at (owner, region) without changing it. */
static inline void mem_peek(struct mem *m, struct mem_op *op, uint32_t owner, uint32_t region)
{
    m->ops->peek(m, op, owner, region);
}

/* Copies control words or ring bytes of any lane, whoever owns it. `out` must stay in place until
 * the op is finished. Each word is atomic, the whole is not: check a guard before and after. */
static inline void mem_read_ctl(struct mem *m, struct mem_op *op, struct mem_lane *l, uint32_t word,
                                uint32_t count, uint64_t *out)
{
    m->ops->read_ctl(m, op, l, word, count, out);
}

static inline void mem_read_ring(struct mem *m, struct mem_op *op, struct mem_lane *l, uint64_t pos,
                                 void *out, uint32_t bytes)
{
    m->ops->read_ring(m, op, l, pos, out, bytes);
}

/* Copies ring bytes of an own lane out of the reach of its writer. A writer who lies changes them at any time, so what is checked and
 * then used is taken once, and the copy is what is checked and used. */
static inline void mem_take(struct mem *m, const struct mem_lane *l, uint64_t pos, void *to,
                            uint32_t bytes)
{
    if (m->ops->take) {
        m->ops->take(m, l, pos, to, bytes);
        return;
    }
    ring_read(l->ring, l->spec.ring_bytes, pos, to, bytes);
    atomic_signal_fence(memory_order_seq_cst); /* the compiler reads none of it again */
}

/* Makes progress; returns how many things completed or changed, 0 if nothing. */
static inline int mem_poll(struct mem *m)
{
    return m->ops->poll(m);
}

/* Where memory is shared: what this node has stored before, in copies of common lanes, all others see before it loads anything after. Without
 * it a node may see its own stores earlier than others do. */
static inline void mem_fence(struct mem *m)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (m->ops->fence)
        m->ops->fence(m);
}

/* Sends what was written since, where writes are sent: they leave with the next poll at the latest. */
static inline void mem_flush(struct mem *m)
{
    if (m->ops->flush)
        m->ops->flush(m);
}

/* Gives up the connection to a node that takes nothing any more: all flows and ops to it become LOST. It is made again
 * as after any break. Where there are no connections there is nothing to give up. */
static inline void mem_drop(struct mem *m, uint32_t node)
{
    if (m->ops->drop)
        m->ops->drop(m, node);
}

/* True if the node is known to be dead now (on shm within tens of microseconds of its death).
 * False says nothing: hangs are found by heartbeats, and no safety rests on either, but for one thing where memory is shared: a
 * sender of a group writes over what only the dead could be reading. There true is true. */
static inline bool mem_dead(struct mem *m, uint32_t node)
{
    return m->ops->dead(m, node);
}

/* All hosts that live now have all that this node has opened, and it has theirs: what it writes counts at them though they die. Not for every round: it may look
 * at files. */
static inline bool mem_is_known(struct mem *m)
{
    return m->ops->is_known == NULL || m->ops->is_known(m);
}

/* Wakes the node if it sleeps; cheap if it does not. Call after the writes it should see. */
static inline void mem_bell(struct mem *m, uint32_t node)
{
    m->ops->bell(m, node);
}

/* As mem_bell, within a few polls of m, or at its next sleep: all bells of these rounds then share one
 * fence. For who polls all the time. */
static inline void mem_bell_later(struct mem *m, uint32_t node)
{
    if (m->ops->bell_later)
        m->ops->bell_later(m, node);
    else
        m->ops->bell(m, node);
}

/* How many of the hosts that were ever connected are dead, where that is known at once; 0 elsewhere. */
static inline uint32_t mem_dead_hosts(struct mem *m)
{
    return m->ops->dead_hosts ? m->ops->dead_hosts(m) : 0;
}

/* Sleeping, for the thread that polls m:
 *     mem_doze(m);                  announce; from here on a bell is not missed
 *     if (no work after polling everything once more) mem_sleep(m, until_ns);
 *     else mem_rouse(m);
 * mem_sleep returns on a bell, on the death of a connected host, on whatever else needs a poll, or at
 * until_ns (CLOCK_MONOTONIC). */
static inline void mem_doze(struct mem *m)
{
    m->ops->doze(m);
}

static inline void mem_rouse(struct mem *m)
{
    m->ops->rouse(m);
}

static inline void mem_sleep(struct mem *m, uint64_t until_ns)
{
    m->ops->sleep(m, until_ns);
}

/* Ends a sleep that is under way, from any thread. One that begins later is not ended. */
static inline void mem_wake(struct mem *m)
{
    m->ops->wake(m);
}

/* Sleeping in an event loop, for the thread that polls m. mem_loop_open adds descriptors to an epoll
 * instance, once. Then, instead of mem_sleep:
 *     if (mem_loop_arm(m, &until_ns)) wait until one of them is readable, at most until until_ns,
 *                                     which it may have lowered;
 *     mem_loop_disarm(m);             before anything else is done with m
 * False: poll at once, as if disarmed. A descriptor may be readable for nothing. */
static inline int mem_loop_open(struct mem *m, int epoll_fd, struct err *e)
{
    return m->ops->loop_open(m, epoll_fd, e);
}

static inline bool mem_loop_arm(struct mem *m, uint64_t *until_ns)
{
    return m->ops->loop_arm(m, until_ns);
}

static inline void mem_loop_disarm(struct mem *m)
{
    m->ops->loop_disarm(m);
}

/* Leaves in order, and frees m. Called by the thread that polled. */
static inline void mem_close(struct mem *m)
{
    m->ops->close(m);
}

/* Stores a control word of the own copy of a common lane, after all that was stored there before. */
static inline void mem_store(const struct mem_lane *l, uint32_t word, uint64_t value)
{
    atomic_store_explicit(&l->ctl[word], value, memory_order_release);
}

/* Loads a control word of an own lane; pairs with the release in the writer's set. */
static inline uint64_t mem_word(const struct mem_lane *l, uint32_t word)
{
    return atomic_load_explicit(&l->ctl[word], memory_order_acquire);
}

#endif
