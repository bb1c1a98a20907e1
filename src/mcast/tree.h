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

#include "mcast/mcast.h"
#include "mcast/overlay.h"

struct tree_options {
    struct mem *mem;
    const struct overlay *overlay; /* stays the caller's, for as long as the replica is open */
    const struct mcast_group *groups;
    uint16_t group;
    uint32_t rank;
    struct mcast_sizes sizes;
    uint64_t heartbeat_ns, suspect_ns, stagger_ns, detach_ns; /* as in log_options */
    uint64_t seed;
    const struct mcast_machine *machine;
    void *ctx;
    /* For checkers, as in log_machine; may be NULL. */
    void (*observe)(void *ctx, const struct entry *, bool effective);
};

struct tree;

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
