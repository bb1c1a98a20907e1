/* The simulated memory: many nodes in one thread, virtual time, one seed.
 *
 * A `struct sim` is a world: a clock, a queue of events, the memory of all nodes, and a random
 * stream from which every delay, tear and drop is drawn. The same seed and the same calls give
 * the same run to the byte; `sim_hash` proves it. The contract of mem.h is given in its weakest
 * form: writes of one node to one owner land in order and in pieces; the permission is judged
 * when the last piece lands; a completion travels back later; what a dead node had in flight may
 * still land, in part; nothing that the contract leaves open is done kindly.
 *
 * The faults themselves (who crashes when, who is cut off) are decided by the harness above, which
 * calls the functions below from events of its own. The callbacks below run in the middle of an event
 * and may call sim_at, sim_note, sim_now and the white-box functions only.
 *
 * One thread at a time uses a world; several worlds do not know of each other. */
#ifndef MEM_SIM_SIM_H
#define MEM_SIM_SIM_H

#include "mem/mem.h"

struct sim;

/* What writing takes, for measurements in virtual time. Off: what is in flight takes as long as is
 * drawn, and issuing it takes no time. On: every way between two places takes delay_ns_min, no more and
 * no less; a place does one thing after the other, and what it sends leaves when it has come to it;
 * writes within a place are there at once. */
struct sim_costs {
    bool on;
    uint64_t post_ns;  /* time of the place that sends, for each write, raise or read to another, */
    uint64_t store_ns; /* and for each write within the place, */
    uint64_t copy_ps;  /* with this much more for each byte */
    uint64_t byte_ps;  /* a byte, at the end of the link that sends and at the one that receives */
    uint64_t ack_ns;   /* from a landing until its writer may know */
    uint64_t raise_ns; /* from when a raise is in force, at its arrival, until that is answered */
};

/* Planted bugs of connections over which the owner judges. */
enum sim_flaw {
    SIM_SOUND,
    SIM_UNJUDGED,       /* a write under any ballot lands, and is answered DONE */
    SIM_DONE_EARLY,     /* DONE is answered for what was received, before it has landed */
    SIM_RAISE_EARLY,    /* a raise is answered some time before it is in force */
    SIM_DENIED_REVIVES, /* a flow that was denied goes on when its ballot is promised after all */
    SIM_OLD_LANDS,      /* what is left of an old connection lands behind what the new one brings */
    SIM_ANSWER_MISTAKEN, /* an answer counts for whichever flow has the number of the one meant */
};

/* Connections, as memory over a network has them. Off: the way to a memory is always there, and a memory
 * may outlive its process. On: what a node owns goes with its process; two nodes reach each other over one
 * connection, that takes a while to be made and may break, with whatever is under way on it. Then a part of
 * that has landed or lands yet, in order, and nobody is told which; all flows and ops over it, idle ones
 * too, are LOST, to each side when it comes to know. Until the connection is there again (the world makes
 * it, sooner or later) flows and ops are LOST at once. Cuts, pauses and silence of lost_after_ns break it. */
struct sim_links {
    bool on;

    /* Writes land and reads are answered though the owner is stopped (verbs). Else it has to run, and a
     * raise is in force some time before it is answered: until then writes under the promise before it
     * may land and count (tcp). */
    bool passive;
    bool untold; /* planted bug: it is answered at once */

    /* The owner judges, as over our own tcp transport; `passive` and `untold` then mean nothing. All that
     * two nodes have to say to each other, answers too, is frames of one stream each way. Frames leave when
     * their issuer polls or flushes, or earlier; they are taken, in order and each as a whole, when the
     * other side polls, and only then. A write under a ballot that is not the promised word at that moment
     * does not land at all, and its flow is DENIED from then on, whatever is promised later. A raise is in
     * force when it is answered. An owner answers a flow once a poll. When the connection has broken a side
     * may take what it had received until it comes to know; the rest is gone. */
    bool judged;
    uint32_t frame_bytes; /* a longer put is several frames, a multiple of 8; 0: never */
    enum sim_flaw flaw;

    /* A completion takes up to late_ns_max longer, with all behind it: chance per completion. */
    uint32_t late_per_million;
    uint64_t late_ns_max;

    /* So many writes may wait on a way that is stuck; the next one fails its flow, LOST, at once. 0: any
     * number. */
    uint32_t queue_max;
};

struct sim_options {
    uint64_t seed;
    uint32_t nodes_max;    /* nodes are numbered 0 .. nodes_max-1 */
    uint32_t clients_from; /* from this number on they are clients; 0: none is */
    bool
        clients_forgotten; /* a new life may find what clients own or write blank, if it wrote it */
    uint64_t delay_ns_min; /* one way, between two different nodes */
    uint64_t delay_ns_max; /* the usual maximum */
    uint64_t delay_ns_spike;    /* a rare write takes up to this long (all later ones wait) */
    uint32_t spike_per_million; /* how rare: chance per write */
    uint32_t tear_per_million;  /* chance that a write lands in 2 to 4 pieces, words shuffled */
    uint64_t read_gap_ns_max;   /* pieces of a torn read may be so much further apart */
    uint64_t lost_after_ns;     /* a cut or dead channel turns its flows and ops LOST after this */
    bool owner_answers;         /* raises and reads need the owner alive and running (ofi); else
                                 * its memory answers by itself (shm) */
    bool check_at_issue;        /* planted bug: permission judged when a write is issued */
    bool shared; /* owners of a common lane see the writer's copy itself (shm): there is
                                 * nothing on its way. Else each has one of its own. Not with links */
    bool
        buffered; /* and they see what it stores some time later, up to buffered_ns_max, in order, unless it fences: TSO */
    uint64_t buffered_ns_max;
    struct sim_costs costs;
    struct sim_links links;
};

struct sim *sim_open(const struct sim_options *, struct err *);
void sim_close(struct sim *);

/* A node's next life; its protocol objects are made by the caller on the returned view. The node
 * must not be alive. The previous view is void. */
struct mem *sim_node_start(struct sim *, uint32_t node);

/* Ends the node's life. Each of its writes in flight may land or not, in order (a prefix lands). With
 * keep_memory the regions it owns stay as they are and (unless owner_answers) go on being written,
 * raised and read; without, and always with links, they are blank and unreachable until the next life,
 * which then finds MEM_BIRTH_LOST. */
void sim_node_crash(struct sim *, uint32_t node, bool keep_memory);

/* A life that has opened no region yet gives up what the lives before have left in its memory: all of it is born LOST. */
void sim_node_forget(struct sim *, uint32_t node);

/* A paused node is alive and not stepped; what it has issued (where the owner judges: what has left) goes on landing. The harness, which does
 * the stepping, must honour it; here it matters for owner_answers and links. */
void sim_node_pause(struct sim *, uint32_t node, bool paused);

bool sim_node_alive(const struct sim *, uint32_t node);

/* With costs: puts the node in a place, numbered as nodes are. At first each is in its own. Nodes of one
 * place share its time and its ends of links. */
void sim_place(struct sim *, uint32_t node, uint32_t place);

/* With costs: the node's place works for so long; and until when it has work, which may be past. Whoever
 * steps nodes steps one only when its place has none. */
void sim_work(struct sim *, uint32_t node, uint64_t ns);
uint64_t sim_busy_ns(const struct sim *, uint32_t node);

/* Cuts or heals the way from one node to another (both directions are separate). Writes wait on a cut
 * way; a heal lets them go on, unless lost_after_ns has passed. */
void sim_cut(struct sim *, uint32_t from, uint32_t to, bool cut);

/* With links: breaks the connection of two nodes, if there is one. */
void sim_break(struct sim *, uint32_t a, uint32_t b);

/* A node is connected to another one, as far as it knows, and knows its lanes. */
bool sim_connected(const struct sim *, uint32_t from, uint32_t to);

/* What mem_dead(node) answers at `asker` from now on: the truth (seen after a delay) or a lie. */
enum sim_lie { SIM_TRUTH, SIM_SAYS_DEAD, SIM_SAYS_ALIVE };
void sim_oracle_lie(struct sim *, uint32_t asker, uint32_t node, enum sim_lie);

/* Every write from one node to another takes so much longer from now on. */
void sim_slow(struct sim *, uint32_t from, uint32_t to, uint64_t extra_ns);

/* From now on: no spikes, no new tears beyond the usual rate, all cuts healed, no lies, no pauses, no
 * slow ways. */
void sim_calm(struct sim *);

/* Spikes again. */
void sim_rough(struct sim *);

/* Changes the two usual delays. */
void sim_pace(struct sim *, uint64_t delay_ns_min, uint64_t delay_ns_max);

/* The clock, and events of the harness's own. Equal times run in the order they were scheduled. */
uint64_t sim_now(const struct sim *);
typedef void sim_event_fn(void *ctx, uint64_t arg);
void sim_at(struct sim *, uint64_t when_ns, sim_event_fn *, void *ctx, uint64_t arg);

/* Runs the next event (a piece that lands, a completion, one of sim_at); false if there is none. */
bool sim_step(struct sim *);

/* When that is; UINT64_MAX if there is none. */
uint64_t sim_next_ns(const struct sim *);

/* Lets time pass up to then, before the next event, without anything happening. */
void sim_pass(struct sim *, uint64_t to_ns);

/* Called for mem_bell(node), if set: the harness may step the node soon. A bell travels behind the
 * writes its ringer issued before, and may be lost on a cut way; none reaches a dead node. */
void sim_on_bell(struct sim *, void (*fn)(void *ctx, uint32_t node), void *ctx);

/* Called when something of the node's may be new to it, if set: a piece has landed in its memory, or
 * a completion or a result waits for its next poll. The harness may step nodes by this alone. */
void sim_on_touch(struct sim *, void (*fn)(void *ctx, uint32_t node), void *ctx);

/* Called when a write to a flow with a ballot has fully landed at its owner, with the verdict; for
 * white-box checks. */
struct sim_landing {
    const struct mem_lane *lane; /* as sim_lane gives it */
    uint64_t ballot;
    bool counted; /* it will be (or may be) reported done. Of a writer that closed the flow or died
                   * in the meantime nothing is reported: then, that it held the permission */
    bool ring;    /* it went into the ring, else into control words */
    uint64_t at;  /* offset in the ring in bytes, or first control word */
    uint32_t bytes;
};
void sim_on_landing(struct sim *, void (*fn)(void *ctx, const struct sim_landing *), void *ctx);

/* Called when a node writes into a ring, with the bytes as they are issued; for white-box checks. */
void sim_on_put(struct sim *,
                void (*fn)(void *ctx, const struct mem_lane_spec *, uint64_t pos, const void *,
                           uint32_t bytes),
                void *ctx);

/* Called when a node's read of a ring takes effect, with what it has read and may be changed: the memory of one who lies shows
 * each reader something else. */
void sim_on_read(struct sim *,
                 void (*fn)(void *ctx, uint32_t reader, const struct mem_lane_spec *, uint64_t at,
                            void *words, uint32_t bytes),
                 void *ctx);

/* Called right after a node has taken something out of an own lane (mem_take), which may be written over at this moment: see
 * sim_lane. */
void sim_on_take(struct sim *,
                 void (*fn)(void *ctx, const struct mem_lane_spec *, uint64_t pos, uint32_t bytes),
                 void *ctx);

/* Called after a node has issued something, if set. The harness may stop the node there, by not returning before other
 * events have run. */
enum sim_call_kind {
    SIM_CALL_PUT,
    SIM_CALL_SET,
    SIM_CALL_MARK,
    SIM_CALL_RAISE,
    SIM_CALL_READ, /* or peek */
    SIM_CALL_GRANT,
    SIM_CALL_FENCE,
};
struct sim_call {
    enum sim_call_kind kind;
    const struct mem_lane_spec *lane; /* put, set; else NULL */
    uint32_t word, count;             /* set */
    const uint64_t *values;
};
void sim_on_call(struct sim *, void (*fn)(void *ctx, uint32_t node, const struct sim_call *),
                 void *ctx);

/* The harness's own random stream (separate from the one that draws delays). */
struct rng *sim_rng(struct sim *);

/* Mixes a word into the run's hash: the harness adds its own events (deliveries, state moves). */
void sim_note(struct sim *, uint64_t word);
uint64_t sim_hash(const struct sim *);
uint64_t sim_events(const struct sim *); /* events run so far */

/* White-box access for checkers: an owner's memory, whoever is alive. NULL if there is none. */
const struct mem_lane *sim_lane(const struct sim *, const struct mem_lane_spec *);
uint64_t sim_promised(const struct sim *, uint32_t owner, uint32_t region);

/* For how long the oldest write from one node to another is on its way; 0: there is none. */
uint64_t sim_waited_ns(const struct sim *, uint32_t from, uint32_t to);

#endif
