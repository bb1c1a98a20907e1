/* The inside of the shared-memory backend. Private to this folder.
 *
 * Two threads: the *poller* (the caller's thread, everything in mem.h) and the *helper* (sockets,
 * pidfds). The helper maps what arrives and puts it in the inbox; only the poller's `poll` adopts
 * it, so nothing the poller uses ever changes under it. `lock` guards the inbox, what is held for
 * others, and the own items; the hot path never takes it.
 *
 * Outlets. What a node writes goes into an outlet: one for all hosts, and at a host one more for each
 * client, which gets nothing else. An outlet is a few segments, and a segment holds parts, one for
 * each lanes_open, in the order in which they were made. A segment has room to spare, twice as much in
 * each as in the one before, so that any number of parts takes few descriptors and mappings.
 *
 * Versions. A version (life + 1) << 32 | parts names how much of an outlet exists, is held or is
 * adopted; it only rises. A new life of a host begins with part 0 holding a copy of every lane of the
 * lives before, so whoever has version v of a host has everything older. What clients write or are
 * written begins blank in every life, and is held for nobody.
 *
 * Common lanes. One entry of the directory is for all owners, named as if the writer owned the lane. It is the
 * writer's copy, and the memory of all. Each node has a record for it beside those of the handles, which show it. It is
 * not carried into the next life: an owner's handle is *pinned* to what the last one has left, with the segments of
 * that life, until its caller wants to go on.
 *
 * Ends. A writer that ends lanes notes it in their entries of the directory, for those who map them later and for
 * its own next life, and makes a part that names them, for those who have them. Whoever has adopted that part and
 * has itself ended what it owned of these lanes says so to the writer (SHM_ENDED). When all who live have said so
 * nobody looks at the bytes any more: they serve the next lane of the same shape, which a later part tells of.
 *
 * Where nodes may lie (`hostile`, trust.c) there is no grant, no life memory, and nobody keeps what another wrote: a new life begins blank. A node
 * has segments that it alone writes, and a *voice* in place of its bell, likewise.
 *
 * The three rules that make a restart safe:
 *  - a write of w to q counts only after q's process has mapped the segment it is in, and before it
 *    says so to w, q notes w's version in gen[w] of its grant memory. Whoever raises or reads at q
 *    looks at gen[] after its fence, and waits until it has adopted those versions itself. So a
 *    write that was or will be reported done is in memory that the reader looks at.
 *  - a node whose memory is gone counts its losses in its lock file, before it opens new memory. Flows, raises and
 *    reads compare, so nothing completes on memory that its owner has given up, however late a peer hears of it. The
 *    file is read, never mapped: whoever shortens it would kill all who have it mapped. A process counts before it is
 *    ready and never again, so what is read then holds while it lives; the kernel clears the word of its life (struct
 *    life) before the next process can have the lock.
 *  - a new life that could not find all it had written says so (`broken`) in its segments, and so do all
 *    lives after it; a host that counts on older content than that refuses them, unless a life found
 *    all that had counted there and said so (`carried`). */
#ifndef MEM_SHM_IMPL_H
#define MEM_SHM_IMPL_H

#include "mem/shm/shm.h"
#include "mem/shm/trust.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/types.h>

enum {
    SHM_REGIONS_MAX = 2048,  /* regions of one node: 1,024 groups, and an edge below each */
    SHM_REGION_SLOTS = 4096, /* of the table of regions, a power of two */
    SHM_LANES_MAX = 1 << 20, /* lanes in one part */
    SHM_PARTS_MAX = 1 << 20, /* of an outlet */
    SHM_SEGMENTS_MAX = 32,
    SHM_LANE_ALIGN = 128, /* two cache lines: the hardware fetches them in pairs */
    SHM_LOCK_BYTES = 4096,
    SHM_LOCK_LOSSES_AT = 2048, /* offset in the lock file of the count of losses */
    SHM_LOCK_ROLE_AT = 2056,   /* and of what the node is */
    SHM_LOCK_NOTED_AT = 2064,  /* of a client: counts that hosts know from this file, by host */
    SHM_RINGS_MAX = 64,        /* bells put off; more are rung at once */
    SHM_CONNECTIONS_OF_PEER_MAX = 4, /* both sides may connect at once, and again after a cut */
    SHM_KNOWN_MAX = SHM_HOSTS_MAX + 256,
    SHM_SPEAKERS_MAX =
        FUTEX_WAITV_MAX - 1, /* whose rings end a sleep; others are heard when it ends */
};

#define SHM_SEGMENT_MAGIC 0x31676573646d7274u /* "trmdseg1" */
#define SHM_GRANT_MAGIC 0x31746e72676d7274u
#define SHM_LIFE_MAGIC 0x316566696c6d7274u
#define SHM_BELL_MAGIC 0x316c6c65626d7274u
#define SHM_VOICE_MAGIC 0x316369766d7274u

#define SHM_LOSSES_UNKNOWN UINT64_MAX /* no memory has that count: whatever it is of is given up */

static inline uint64_t version_of(uint32_t life, uint32_t parts)
{
    return (uint64_t)(life + 1) << 32 | parts;
}

/* The life a version belongs to, plus one. */
static inline uint64_t version_life(uint64_t version)
{
    return version >> 32;
}

/* A segment: [head][part][part]...[nothing yet]. A part: [head][lane directory][control words of all
 * lanes][rings], all of it SHM_LANE_ALIGN aligned. One writer, sealed against all others and against any
 * change of its size. It is that large from the start, but only what parts take has pages. A part never
 * changes its shape after it was handed out; of its directory `ended` alone changes, and once. */
struct segment_head {
    uint64_t magic;
    uint64_t bytes; /* of the whole, whatever is used of it */
    uint32_t node;
    uint32_t life;
    uint32_t index;
    uint32_t first;  /* parts in the segments before this one */
    uint32_t broken; /* life + 1 since which the content is whole; 0: since ever */
    uint32_t unused[23];
};
struct part_head {
    uint64_t bytes;
    uint32_t lanes;
    uint32_t unused[29];
};
struct segment_lane {
    struct mem_lane_spec spec; /* without control words: the lane of this name is ended */
    uint64_t ctl_at;           /* offset in the segment */
    uint64_t ring_at;          /* the same; 0 if there is no ring */
    uint32_t segment; /* by index: the part's own, or an earlier one with bytes to be used again */
    uint32_t ended;   /* the writer has ended this lane; set before the part that says so */
    unsigned char *base; /* where that segment is mapped; in copies of the directory alone */
};
_Static_assert(sizeof(struct segment_head) == SHM_LANE_ALIGN, "the first part is aligned");
_Static_assert(sizeof(struct part_head) == SHM_LANE_ALIGN, "its directory is aligned");
_Static_assert(sizeof(struct segment_lane) == 64, "one cache line");

/* Grant memory of a host: writable by every host. promised: raised by all. gen: the owner's helper
 * (its own entry: its poller). carried: the node it is about, while it restarts. */
struct grant_region {
    _Atomic uint64_t promised;
    _Atomic uint64_t key; /* the region's number plus one; 0: free. Published after `promised` */
    uint64_t unused[6];
};
struct grant {
    uint64_t magic;
    uint64_t node;
    uint64_t losses; /* which memory of this node it is */
    uint64_t unused[5];
    _Atomic uint64_t gen_changes; /* rises after any change of gen */
    uint64_t unused3[7];
    _Atomic uint64_t gen[SHM_HOSTS_MAX];     /* version of that host whose writes may count here */
    _Atomic uint64_t carried[SHM_HOSTS_MAX]; /* life + 1 of that host into which they were copied */
    /* By hash of the number, then the next free one; half of them stay free. */
    struct grant_region region[SHM_REGION_SLOTS];
};
_Static_assert(sizeof(struct grant_region) == 64, "one cache line per promised word");
_Static_assert(offsetof(struct grant, region) % 64 == 0, "promised words on their own lines");

/* Life memory of a host: a robust mutex per peer, held from the first poll to the end. The kernel
 * wakes one waiter per word, hence one word each. Written by the owner (and the kernel, when the
 * owner dies). */
union life_slot {
    _Atomic uint32_t word; /* the futex: first field of a glibc mutex, checked when it is locked */
    pthread_mutex_t mutex;
    uint64_t line[8];
};
struct life {
    uint64_t magic;
    _Atomic uint32_t started; /* the mutexes are held, or were */
    uint32_t unused[13];
    union life_slot slot[SHM_HOSTS_MAX];
};
_Static_assert(sizeof(union life_slot) == 64, "one cache line per slot");

struct bell {
    uint64_t magic;
    _Atomic uint32_t word; /* 0: awake, 1: dozing or asleep; own node sets 1, anyone clears it */
};

/* In place of the bell where nodes may lie: nobody but its node writes it. A sleeper waits on the words that the others have for it, so
 * nobody can silence what somebody else rings; who rings too often wakes it for nothing, as it could by writing. */
struct voice {
    uint64_t magic;
    _Atomic uint64_t
        version; /* of the outlet to hosts: what its writer may have written is in no more than that */
    _Atomic uint32_t asleep; /* 1: dozing or asleep */
    uint32_t unused[11];
    _Atomic uint32_t ring[SHM_NODES_MAX]; /* by node: rises when it is rung */
};
_Static_assert(offsetof(struct voice, ring) == 64, "what changes seldom has a line of its own");

/* A mapped segment: an own one, writable, or somebody else's. */
struct segment {
    struct segment *next; /* the one before it */
    uint32_t life;
    uint32_t index;
    uint32_t broken;
    uint32_t first;     /* parts before its own */
    uint32_t parts;     /* in it, as far as known here */
    unsigned char *at;  /* the whole */
    size_t bytes, used; /* used: up to where parts go on */
    int fd;             /* to hand on; -1: not kept */
};

struct peer;
struct part;

enum item_kind {
    ITEM_BELL,
    ITEM_LIFE,
    ITEM_GRANT,
    ITEM_SEGMENT,
    ITEM_READY,
    ITEM_MAPPED, /* a client has mapped more of what we write to it */
    ITEM_GONE,   /* a client has died: its memory is let go */
    ITEM_ENDED,  /* a peer has let go of what one of our parts has ended */
    ITEM_KINDS
};

/* Something that arrived, on its way to the poller. */
struct item {
    struct item *next;
    enum item_kind kind;
    struct peer *peer;
    uint32_t life;
    uint32_t number; /* of a part of ours */
    void *at;
    struct part *part;
    int losses_fd; /* of the peer's lock file, or -1 */
};

/* A part as it is to be attached. */
struct part {
    struct item item; /* in which it travels; first, so that it is freed with that */
    struct part *next;
    struct segment *segment;
    uint32_t number; /* of the part in its outlet, from 0 */
    uint32_t lanes;
    struct segment_lane *shown; /* an own part: the directory that others see */
    struct segment_lane dir[];  /* a copy: a peer cannot change what was checked */
};

/* What this node writes for one audience. */
struct outlet {
    struct segment *segments; /* the last one made first */
    uint32_t count;           /* of segments */
    uint32_t parts;           /* in all of them */
    struct peer *client;      /* whom it is for; NULL: all hosts */
};

/* Bytes of an own lane that was ended: for another one of this shape, once nobody looks at them any more. */
struct room {
    struct room *next;
    struct lane *lane; /* that was there last */
    const struct outlet *outlet;
    unsigned char *base;
    uint64_t ctl_at, ring_at;
    uint32_t segment;
    uint32_t ctl_words, ring_bytes;
};

/* Own lanes that one part has ended, until everybody has let go of them. */
struct ending {
    struct ending *next;
    const struct outlet *outlet;
    uint32_t part;
    bool agreed[SHM_HOSTS_MAX]; /* by host; of a client's outlet the first is the client */
    struct room *rooms;
};

/* A part of a peer's has ended lanes that we own and have open. */
struct letting {
    struct letting *next;
    uint32_t part;
    uint32_t left;
};

/* What we have let go, to be told to its writer. */
struct agreement {
    uint32_t life, part;
};

struct lane {
    struct mem_lane pub;    /* first, so that a handle is this */
    struct lane *of_writer; /* the next one with the same writer */
    bool opened;            /* by our caller; else only found in somebody's segment */
    bool mismatch;          /* owner and writer disagree about sizes */
    bool offered;           /* is among those that mem_offer tells of */
    bool ended;        /* by our caller, who owns or writes it; not known to be by the other side */
    uint32_t ended_by; /* number of the writer's part that ended it, plus one; 0: none */
    bool pinned;       /* shows what a life of its writer has left that is over; see common */
    struct lane *offer; /* the next of these */
    /* For the writer. */
    _Atomic uint64_t *wctl;
    unsigned char *wring;
    uint64_t version;           /* of the outlet, that has the lane */
    struct segment_lane *shown; /* its entry in the directory */
    /* For readers: own or adopted memory; NULL while there is none. */
    const _Atomic uint64_t *rctl;
    const unsigned char *rring;
    uint32_t found_words, found_bytes; /* its sizes there */
};

struct peer {
    uint32_t node;
    enum shm_role role;
    char name[SHM_NAME_BYTES];

    /* Poller's. */
    struct bell *bell;
    struct life *life;
    uint32_t life_number;
    struct grant *grant;
    int losses_fd;        /* its lock file, with the count of losses; -1: there is none */
    uint64_t losses_sure; /* that count plus one, while the process of `life` runs; 0: not known */
    uint64_t version;     /* adopted */
    uint64_t gen_ok;      /* gen_changes of its grant up to which all is adopted */
    struct segment *segments; /* adopted, of one life */
    struct lane *lanes;       /* that it writes, as far as they were opened or found here */
    struct letting *lettings;
    struct segment *left; /* of lives that are over, for pinned lanes */
    uint32_t broken;      /* as these say */
    struct outlet out;    /* of a client: what we write to it */
    bool ready;
    /* Of a client, at a host whose lives a disk keeps: counts of lives. */
    uint32_t noting;   /* that the disk is to have, */
    uint32_t admitted; /* that it has: what that life writes is seen */
    uint32_t refused;  /* of one that is not to be seen */
    bool holds;        /* what has come of it waits */
    bool ring_later;   /* it is among those whose bell was put off */
    bool over_told;    /* sleep has returned once because of its end */
    /* Where nodes may lie. */
    struct voice *voice;
    uint32_t heard;          /* its word for us, when we began to doze */
    uint64_t wait_since_ns;  /* reads wait for its memory; 0: they do not. */
    uint64_t waited_ns;      /* So long before that */
    struct trust_peer trust; /* the helper's, and under lock */

    /* Helper's, read by the poller. */
    _Atomic uint64_t acked;          /* own version that it has mapped */
    _Atomic uint64_t wanted;         /* version of it that the poller waits for */
    _Atomic uint32_t lives_over;     /* lives known to have ended */
    _Atomic uint32_t fetch_failures; /* times that wanted was not to be had */

    uint32_t known; /* of a host: lives that our disk knew of when we began */

    /* Under lock. */
    uint32_t lives; /* it was in the last of so many when it last said hello; 0: never */
    bool answered;  /* it has sent all it has */
    int pidfd;
    int grant_fd;
    uint64_t grant_losses;
    struct grant *grant_seen; /* the mapping on its way to the poller, or there */
    int lock_fd;              /* losses_fd of the poller */
    uint64_t held_version;
    struct segment *held[SHM_SEGMENTS_MAX]; /* by index; the poller has them too, and frees them */
    uint32_t held_count;
    struct agreement
        *agreements; /* about what it writes; told to every new process of it that they concern */
    uint32_t agreements_count, agreements_room;
    bool out_news;          /* `out` has more than was sent */
    struct peer *next_news; /* of those with news */

    /* Helper's alone. */
    uint64_t connect_at_ns, connect_wait_ns;
    uint64_t fetch_until_ns, fetch_next_ns;
    struct connection *connection[SHM_CONNECTIONS_OF_PEER_MAX];
    uint32_t connections;
    bool called; /* a connection to it is under way */
};

/* Something small of the own memory that peers are given. */
struct own_item {
    enum item_kind kind;
    int fd;
};

struct complaint {
    uint32_t to;
    struct mem_lane_spec mine, theirs;
};

struct helper;
struct connection;

struct shm {
    struct mem mem; /* first; of it `hostile` is asked for here, too */
    struct say say; /* its line is called by the poller and by the helper */
    /* Hot: the poller's. */
    _Atomic uint32_t inbox_count; /* rises with every arrival */
    uint32_t inbox_seen;
    bool alive_locked;        /* the robust mutexes are held by this thread */
    struct mem_flow *pending; /* flows with an unfinished mark */
    struct mem_op *ops;       /* unfinished raises and reads */
    struct peer *self;
    struct peer *ring[SHM_RINGS_MAX]; /* whose bells are to be rung with the next poll */
    uint32_t rings;
    uint32_t rings_waited; /* polls since the first of them */
    struct peer *_Atomic peers[SHM_NODES_MAX];
    struct lane **lanes; /* hash table by key, lanes_size a power of two */
    uint32_t lanes_count, lanes_size;
    struct lane *offers, **offers_tail;
    struct outlet out; /* to hosts */
    struct ending *endings;
    struct room *rooms;
    bool waitv_missing;
    struct shm_loop *loop;          /* NULL: nobody has asked for a descriptor */
    struct item *held, **held_tail; /* what has come of clients whose life is not on the disk yet */
    struct peer *speaker[SHM_SPEAKERS_MAX]; /* those with a voice, hosts first */
    uint32_t speakers;

    /* Set at open. */
    char cluster[SHM_NAME_BYTES];
    char dir[256]; /* the cluster's directory */
    int dir_fd;
    int lock_fd;
    uint64_t losses; /* own, as the lock file says; changes at open alone */
    uint64_t answer_timeout_ns;
    const struct mem_lives *lives; /* NULL: no disk keeps them. Called by the poller alone */
    uint32_t client_node, clients, lives_max;
    struct peer *hosts[SHM_HOSTS_MAX];
    uint32_t hosts_count;
    struct peer *known[SHM_KNOWN_MAX]; /* where nodes may lie: all hosts and clients */
    uint32_t known_count;
    struct grant *grant;    /* own; where nodes may lie nobody else has it */
    bool forget;            /* own memory of the life before is not wanted, */
    bool kept;              /* or was found */
    uint64_t beginning;     /* where nodes may lie: the number in the file that root has made */
    struct trust_line said; /* lines that strangers bring about; the helper's */
    uint32_t broken;        /* life + 1 since which what we have written is whole; 0: since ever */
    uint32_t regions;       /* of the own grant */
    uint8_t region_state[SHM_REGION_SLOTS]; /* enum region_state */
    size_t memory_sure;                     /* bytes that the machine can surely still give */
    bool helper_runs;
    bool joined;       /* lock and socket are ours */
    bool opened;       /* shm_open_node has returned it */
    _Atomic bool over; /* of a client: the cluster it was opened at is over; set by the helper */
    _Atomic uint32_t outlived; /* of a host: others know of so many lives; set by the helper */
    char failure[320];         /* of a host; for people */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* something arrived or was acknowledged */
    struct item *inbox, **inbox_tail;
    struct own_item own[ITEM_KINDS];
    uint32_t own_count;
    bool own_news;     /* there is more for everybody */
    struct peer *news; /* clients for whom there is */
    bool grant_ready;  /* gens may be written, so arrivals may be acknowledged */
    struct segment
        *past[SHM_SEGMENTS_MAX]; /* own, of the life before, mapped read-only; by index */
    uint32_t past_count;
    struct part *past_parts, **past_parts_tail;
    uint64_t past_version;
    uint32_t past_broken;
    bool past_closed;   /* it was decided what became of them; what comes later is not taken */
    bool past_unmapped; /* before that, something could not be mapped for want of memory */
    bool lived;         /* this life is counted in the lock file */
    bool given;         /* a peer was sent memory of this life, */
    bool withheld;      /* or will not be: we leave */
    int past_grant_fd;
    uint64_t past_losses;
    struct complaint complaint[16];
    uint32_t complaints;
    struct helper *helper;
};

/* Of an own region, in this life. */
enum region_state { REGION_UNKNOWN, REGION_OPENED, REGION_ENDED };

/* Does memory of `node` that counts at the owner of g miss in segments that say `broken`? */
static inline bool content_missing(struct grant *g, uint32_t node, uint32_t broken)
{
    uint64_t gen = atomic_load(&g->gen[node]);

    return gen && version_life(gen) < broken && atomic_load(&g->carried[node]) < broken;
}

static inline struct shm *shm_of(struct mem *m)
{
    return (struct shm *)m;
}

static inline struct peer *peer_of(struct shm *s, uint32_t node)
{
    if (node >= SHM_NODES_MAX)
        return NULL;
    return atomic_load_explicit(&s->peers[node], memory_order_acquire);
}

/* The full fence: orders all earlier writes before all later reads. A locked add to the stack
 * costs a third of mfence (substrate measurements). */
static inline void full_fence(void)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    __asm__ __volatile__("lock; addl $0,-64(%%rsp)" ::: "memory", "cc");
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* segment.c: making, checking and mapping of memfds. */

/* A sealed-size memfd of zeroed memory, all pages there, mapped writable. */
void *memory_new(struct shm *, const char *what, size_t bytes, int *fd_out, struct err *);
/* Maps a peer's memfd after checking its size and seals. NULL: malformed, or, with errno ENOMEM, there is
 * no memory; the same goes for the others that map. */
void *memory_map(int fd, size_t bytes, int prot, int seals);
/* The same for who may lie: sealed like a segment, of the kernel's own memory, and its pages are there. */
void *memory_map_sure(int fd, size_t bytes);
extern const int segment_seals;
/* What stands behind a failed mmap, for a person. */
const char *map_failure(void);
/* The outlet that lanes to this owner are in. */
struct outlet *outlet_of(struct shm *, struct peer *owner);
uint64_t outlet_version(const struct shm *, const struct outlet *);
/* Makes a part with these lanes and has it handed out. To carry: they are all those of the past parts, in
 * order, and their content is copied. The caller frees it. */
struct part *part_new(struct shm *, struct outlet *, const struct mem_lane_spec *, uint32_t count,
                      bool carry, struct err *);
/* Maps a segment that `writer` made, of no more than bytes_max; no parts yet. */
struct segment *segment_map(int fd, uint32_t writer, uint64_t bytes_max);
/* The next part of a mapped segment, for `owner`. `before`: those with lower indices. `sure`: its writer may lie, and no page of it may be
 * missing. */
struct part *part_next(struct segment *, struct segment *const *before, uint32_t writer,
                       uint32_t owner, bool sure);
/* A lane that is there, of whatever life that was. */
static inline bool entry_lives(const struct segment_lane *d)
{
    return d->spec.ctl_words > 0 && !d->ended;
}

/* Its content goes into the next life. */
static inline bool entry_carried(const struct segment_lane *d)
{
    return entry_lives(d) && !d->spec.common;
}

/* The name of the record and of the entry that stand for a common lane. */
static inline struct mem_lane_spec copy_name(const struct mem_lane_spec *s)
{
    struct mem_lane_spec copy = *s;

    copy.owner = s->writer;
    return copy;
}
void segment_free(struct segment *);
void outlet_free(struct outlet *);

/* ends.c: lanes that are no more. */
void shm_lanes_end(struct mem *, struct mem_lane *const *, uint32_t count);
void shm_region_lanes_end(struct shm *, uint32_t region); /* of ours */
/* A part of the peer's has ended lanes; or a new life of it has not all that its last one had. */
void ends_adopt(struct shm *, struct peer *, const struct part *);
void ends_new_life(struct peer *);
/* The peer's memory is let go: so is what it had ended. */
void ends_forget(struct peer *);
void lettings_free(struct peer *);
/* The peer has let go of what that part of ours has ended. */
void ends_agreed(struct shm *, struct peer *, uint32_t part);
/* Makes the bytes of ended lanes that nobody looks at any more usable, and their names. */
void ends_reap(struct shm *);
/* Bytes for a lane of that shape, taken out of the list; NULL: there are none. */
struct room *room_take(struct shm *, const struct outlet *, const struct mem_lane_spec *);
void ends_free(struct shm *);

/* lanes.c: lane handles and adoption. */
struct lane *find_lane(const struct shm *, const struct mem_lane_spec *key);
bool shm_lane_next(struct mem *, struct mem_lane *);
/* Frees what was kept for lanes, once none is pinned any more. */
void left_free(struct peer *, bool all);
int shm_lanes_open(struct mem *, const struct mem_lane_spec *, uint32_t count,
                   struct mem_lane **out, struct err *);
bool shm_offer(struct mem *, struct mem_lane_spec *);
void lanes_free(struct shm *);
/* Copies all lanes of the life before into part 0 of this one. The helper no longer touches the past. */
int carry_lanes(struct shm *, struct err *);
/* From now on own writes may count in everything that was published. */
void own_version_counts(struct shm *);
int shm_adopt(struct shm *);
/* DONE if everything that may count at the owner has been adopted; PENDING if it has been asked
 * for; LOST if what was adopted in its place is not whole. */
enum mem_status gens_adopted(struct shm *, struct peer *owner, struct peer **missing);

/* file.c: directory, lock files, socket path. */
int directory_open(struct shm *, const char *dir, struct err *);
int directory_lock(struct shm *, struct err *);
void directory_unlock(struct shm *);
int node_lock(struct shm *, struct err *);
bool node_alive(struct shm *, const char *name);
/* How many lives the node has had, as its lock file says; 0: it has none. */
uint32_t node_lives(struct shm *, const char *name);
/* What the lock file of a client says. */
struct lock_seen {
    uint32_t lives; /* 0: there is none */
    uint64_t noted; /* of these, what this host knows from this file */
};
struct lock_seen lock_look(struct shm *, const char *name);
/* Notes there that this host knows of so many lives from this file. */
void lock_note(struct shm *, const char *name, uint32_t lives);
/* Another file takes its place, which says that so many lives are over. A process that has the old one sees that it was
 * removed. The directory is locked. */
int lock_renew(struct shm *, const char *name, uint32_t lives, struct err *);
bool directory_try_lock(struct shm *);
/* The lock file of a peer, for losses_read; -1 if it has none. */
int losses_open(struct shm *, const char *name);
/* The count of losses in it; SHM_LOSSES_UNKNOWN: it is not there any more. */
uint64_t losses_read(int fd);
/* One more of our own, for all to see before it returns. */
int losses_count(struct shm *, struct err *);
/* Removes what only the living need; everything, if the cluster is over. */
void directory_leave(struct shm *);
/* Has our lock file been removed? By the last host that left, or by hand. */
bool cluster_is_over(const struct shm *);
int listen_open(struct shm *, struct err *);
int peer_connect(struct shm *, const char *name);

/* lives.c: lives that a disk keeps */
/* What the disk knows of hosts and of places goes where nodes look for it. The directory is locked. */
int lives_open(struct shm *, struct err *);
/* Whether the node's name and number are those of a client's place. */
bool lives_is_place(const struct shm *, uint32_t node, const char *name);
enum lives_verdict { LIVES_SEEN, LIVES_LATER, LIVES_UNSEEN };
/* Is what this life of a client writes to be seen? Later: it is to be asked again. */
enum lives_verdict lives_judge(struct shm *, struct peer *, uint32_t life);
/* A host has come. */
void lives_host_came(struct shm *, const struct peer *, uint32_t life);

/* open.c */
/* The lock is held. */
struct peer *peer_add(struct shm *, uint32_t node, const char *name, enum shm_role);
/* The peer with this number; a client that nobody has heard of yet gets its name when it comes. */
struct peer *peer_expect(struct shm *, uint32_t node);

/* take.c */
void past_drop(struct shm *); /* what is known of the own life before */

/* help.c: the helper thread. */
int helper_start(struct shm *, int listen_fd, struct err *); /* listen_fd -1: does not */
void helper_wake(struct shm *);
void helper_stop(struct shm *); /* its connections stay open until helper_free */
void helper_free(struct shm *);

/* shm.c */
extern const struct mem_ops shm_ops;

/* wait.c */
void alive_lock(struct shm *);
bool alive_unlock(struct shm *);
bool life_over(const struct shm *, const struct peer *);
/* The process of the life that we know has polled, and was not dead when we looked. */
bool life_runs(const struct shm *, const struct peer *);
void bell_ring(struct bell *);
void peer_ring(struct shm *, struct peer *); /* the caller has fenced */
/* Begins to listen to a voice, in place of the one before. */
void voice_hear(struct shm *, struct peer *, struct voice *);
void shm_bell(struct mem *, uint32_t node);
void shm_bell_later(struct mem *, uint32_t node);
/* Is it time to ring what was put off? A fence waits for all stores to be done, so there is not one in every poll. */
bool rings_due(struct shm *);
void rings_do(struct shm *); /* rings what was put off; the caller has fenced */
void rings_flush(struct shm *);

/* What a sleeper waits for: its bell, and the lives of the others. */
struct shm_waiters {
    struct futex_waitv v[FUTEX_WAITV_MAX];
    unsigned count;
    bool no_waitv; /* this kernel has no futex_waitv */
};

/* By the poller, after doze; false: there is something to do. Sleeping on them may be another thread's. */
bool waiters_collect(struct shm *, struct shm_waiters *);
void waiters_sleep(struct shm_waiters *, struct bell *, const struct timespec *until);

void shm_wake(struct mem *);

/* loop.c */
int shm_loop_open(struct mem *, int epoll_fd, struct err *);
bool shm_loop_arm(struct mem *, uint64_t *until_ns);
void shm_loop_disarm(struct mem *);
void shm_loop_close(struct shm *);

#endif
