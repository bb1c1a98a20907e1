/* What all multicast protocols, their clients and the code that opens them share: where groups are, how large things
 * are, and the user's state machine. */
#ifndef MCAST_MCAST_H
#define MCAST_MCAST_H

#include "agree/log.h"
#include "mcast/dst.h"

enum mcast_protocol {
    MCAST_TREE,    /* along an overlay tree; mcast/tree.c */
    MCAST_GENUINE, /* among the destinations alone; mcast/genuine.c */
};

const char *mcast_protocol_name(enum mcast_protocol);

/* Where the replicas of a group are. */
struct mcast_group {
    uint32_t nodes[LOG_REPLICAS_MAX]; /* by rank */
    uint32_t replicas;
    uint32_t memory[LOG_MEMORIES_MAX]; /* nodes that are only memory of its log */
    uint32_t memories;
    bool all_vote; /* as in log_options */
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

/* The user's state machine. All calls come from within the settling of its replica. */
struct mcast_machine {
    /* Delivers a message; writes at most reply_max bytes of reply and returns how many. */
    uint32_t (*deliver)(void *ctx, const struct delivery *, void *reply, uint32_t reply_max);

    /* A backup was delivered, after so many messages: the state as it is now is to be kept under that id, of 16 bytes, or it is let
     * be. The answer does not wait for it. NULL: none is. */
    void (*backup)(void *ctx, const unsigned char *id, uint64_t delivered);

    const struct state_ops *state; /* as in struct log_machine */
};

/* Sizes that clients and replicas must have in common. */
struct mcast_sizes {
    uint32_t clients;     /* places */
    uint32_t client_node; /* the node of place 0; the others follow */
    uint32_t body_max;    /* largest message, without its header */
    uint32_t reply_max;
    uint32_t source_bytes; /* a client's ring at a replica */
    uint32_t reply_bytes;  /* ring of replies to one client */
    uint32_t edge_bytes;   /* a group's ring at a replica of another */
    uint32_t log_bytes;
    uint32_t batch_bytes, window_bytes, snap_bytes; /* as in log_options */
    uint64_t backlog_bytes;                         /* likewise */
};

/* How many messages a client may have under way: the replies of one group to all of them must fit its
 * ring at once, so that none is overwritten before it was read. */
uint32_t mcast_window(const struct mcast_sizes *);

/* Fills in what is 0, and checks the rest: ERR_INVALID says what would be right. */
int mcast_sizes_settle(struct mcast_sizes *, struct err *);

#endif
