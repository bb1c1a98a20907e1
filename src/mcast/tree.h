/* TRAM: one replica of one group in an overlay tree.
 *
 * A client writes a message to all replicas of the lowest common ancestor of its destinations. That
 * group's log orders it among the messages from above. What is applied there is delivered, if the
 * group is a destination, and handed to every child that has one in its reach. The stream to a
 * child is a function of the log: every replica keeps it, and whoever leads writes it, so the child
 * takes the next message from any of them, once (TRAM sec. 5 with one ring per parent replica in
 * place of one that changes hands).
 *
 * Nothing flows upwards but credits. A child that takes nothing stops its parent when the stream's
 * ring is full: the parent's log then fills up, and its clients are held back. */
#ifndef MCAST_TREE_H
#define MCAST_TREE_H

#include "agree/log.h"
#include "mcast/overlay.h"

/* Where the replicas of a group are. */
struct tree_group {
    uint32_t nodes[LOG_REPLICAS_MAX]; /* by rank */
    uint32_t replicas;
};

struct delivery {
    uint16_t group;
    uint32_t client;
    uint16_t life;
    uint64_t seq;
    uint64_t number; /* of messages delivered in this group before this one */
    struct dst_set dst;
    const void *body;
    uint32_t bytes;
};

/* The user's state machine. All calls come from within tree_settle. */
struct tree_machine {
    /* Delivers a message; writes at most reply_max bytes of reply and returns how many. */
    uint32_t (*deliver)(void *ctx, const struct delivery *, void *reply, uint32_t reply_max);

    /* As in struct log_machine. */
    uint64_t (*save_open)(void *ctx);
    void (*save_read)(void *ctx, uint64_t offset, void *out, uint32_t bytes);
    void (*save_close)(void *ctx);
    void (*load_open)(void *ctx, uint64_t bytes);
    void (*load_write)(void *ctx, const void *data, uint32_t bytes);
    void (*load_close)(void *ctx);
};

/* Sizes that clients and replicas must have in common. */
struct tree_sizes {
    uint32_t clients;     /* slots */
    uint32_t client_node; /* the node of slot 0; the others follow */
    uint32_t body_max;    /* largest message, without its header */
    uint32_t reply_max;
    uint32_t source_bytes; /* a client's ring at a replica */
    uint32_t reply_bytes;  /* ring of replies to one client */
    uint32_t edge_bytes;   /* a parent's ring at a child's replica */
    uint32_t log_bytes;
};

struct tree_options {
    struct mem *mem;
    const struct overlay *overlay; /* stays the caller's, for as long as the replica is open */
    const struct tree_group *groups;
    uint16_t group;
    uint32_t rank;
    struct tree_sizes sizes;
    uint64_t heartbeat_ns, suspect_ns, stagger_ns, detach_ns; /* as in log_options */
    uint64_t seed;
    const struct tree_machine *machine;
    void *ctx;
    /* For checkers, as in log_machine; may be NULL. */
    void (*observe)(void *ctx, const struct entry *, bool effective);
};

struct tree;

/* Fills in what is 0 in the sizes, and checks them: ERR_INVALID says what would be right. */
int tree_sizes_settle(struct tree_sizes *, struct err *);

int tree_open(const struct tree_options *, struct tree **, struct err *);
void tree_close(struct tree *);

/* As log_post and log_settle. */
int tree_post(struct tree *, uint64_t now_ns);
int tree_settle(struct tree *, uint64_t now_ns);
uint64_t tree_next_ns(const struct tree *);

/* The log underneath, to look at. */
const struct log *tree_log(const struct tree *);

/* Messages delivered by this replica's state (snapshots included). */
uint64_t tree_delivered(const struct tree *);

#endif
