/* The messages of a client whose replies somebody may ask for later: requests that have a number, and calls
 * that timed out.
 *
 * KEPT_MAX of them, the oldest that is done making room for the next; one that is not done stays. Replies
 * are copied here when they come. Belongs to the client and its thread; it allocates, since only who has asked for
 * it pays. */
#ifndef API_KEPT_H
#define API_KEPT_H

#include "base/err.h"
#include "mcast/dst.h"

enum { KEPT_MAX = 64 };

struct kept_reply {
    void *body;     /* NULL: not there yet, or no memory for it */
    uint32_t bytes; /* of the whole reply, */
    uint32_t have;  /* and how many of them are in body */
    bool here;
};

struct kept {
    uint64_t ticket;
    uint64_t number;  /* the caller's; 0: none */
    uint64_t hash;    /* of the body */
    uint16_t *groups; /* ascending; NULL: this entry is free */
    uint32_t count;
    struct kept_reply *reply; /* one of each */
    bool done;
};

/* Zeroed, it is empty. */
struct kept_table {
    struct kept entry[KEPT_MAX];
    uint32_t used;
    uint64_t number_max; /* the highest that was ever kept */
};

void kept_fini(struct kept_table *);

struct kept *kept_by_ticket(struct kept_table *, uint64_t ticket);
struct kept *kept_by_number(struct kept_table *, uint64_t number);

/* An entry for a message to these groups, in *out; its ticket and number are the caller's to set. ERR_AGAIN: none
 * of those that are kept is done. */
int kept_add(struct kept_table *, struct dst_set, struct kept **out);
void kept_drop(struct kept_table *, struct kept *);

/* A group's reply, or the first `have` bytes of it. */
void kept_reply(struct kept *, uint16_t group, const void *body, uint32_t bytes, uint32_t have);

/* Copies the replies as tram_call gives them: each cut to reply_max, with its full length in lengths, and
 * ERR_TOOBIG if one was cut. room and lengths may be NULL. */
int kept_copy(const struct kept *, void *room, uint32_t reply_max, uint32_t *lengths);

#endif
