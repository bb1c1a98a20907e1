/* The client's end of multicast: casts messages to sets of groups and collects their replies.
 *
 * A caster belongs to one client place, one node and one thread. It never blocks and, but for the
 * functions named open, never allocates. A message is done when every destination group has
 * replied; each group delivers it exactly once, whatever leaders do meanwhile. Messages that go to the
 * same groups, and in a tree those with the same lowest common ancestor, are ordered as they were cast;
 * others only if one was done before the next was cast. */
#ifndef MCAST_CASTER_H
#define MCAST_CASTER_H

#include "mcast/mcast.h"
#include "mcast/overlay.h"

enum { CASTER_LIVES_MAX = STREAM_LIVES_MAX }; /* of a place */

struct caster_options {
    struct mem *mem; /* node sizes.client_node + place */
    enum mcast_protocol protocol;
    const struct overlay *overlay;
    const struct mcast_group *groups;
    struct mcast_sizes sizes;
    uint32_t place;
    uint64_t retry_ns; /* as source_options; 0: 10 ms */
    /* A group's reply to a message; may be NULL. */
    void (*reply)(void *ctx, uint64_t seq, uint16_t group, uint32_t status, const void *body,
                  uint32_t bytes);
    /* All destinations have replied; may be NULL. refused: the group that orders it did not take it. */
    void (*done)(void *ctx, uint64_t seq, bool refused);
    void *ctx;
};

struct caster;

int caster_open(const struct caster_options *, struct caster **, struct err *);
void caster_close(struct caster *);

/* Makes rings to and from the group; needed once before it is an lca or a destination. */
int caster_group_open(struct caster *, uint16_t group, struct err *);

/* The same for all that a message to these needs. */
int caster_groups_open(struct caster *, struct dst_set, struct err *);

/* Casts a message; *seq is its number. Leaves with the next flush. ERR_AGAIN: too many under way.
 * ERR_TOOBIG. ERR_NOTFOUND: a group that it needs is not open. */
int caster_cast(struct caster *, struct dst_set, const void *body, uint32_t bytes, uint64_t *seq);

/* Likewise a backup of that id, of MESSAGE_BACKUP_BYTES: who delivers it keeps the state of that point. Of one point only if it
 * is cast to all groups. */
int caster_cast_backup(struct caster *, struct dst_set, const unsigned char *id, uint64_t *seq);

void caster_flush(struct caster *);

/* Takes replies, after mem_poll; repairs what is broken. Returns how many messages were done. */
int caster_poll(struct caster *, uint64_t now_ns);

/* Has it been done? */
bool caster_is_done(const struct caster *, uint64_t seq);

/* How many are under way, and how many may be; to one group alone fewer, as many as its ring of replies holds. */
uint32_t caster_outstanding(const struct caster *);
uint32_t caster_window(const struct caster *);

#endif
