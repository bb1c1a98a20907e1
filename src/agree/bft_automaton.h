/* What a member has said, as everybody who hears it replays it, and what it may say next.
 *
 * Broadcasts of a sender are the same to all and in order (agree/bft_neb.h), so all have the same automaton of it at the same place.
 * Whoever says what it may not is not correct. A STATE repeats all of the automaton, so whoever missed broadcasts goes on
 * from one that f+1 vouch for: one of them is correct and has compared.
 *
 * Pure: it reads what it is given and changes itself alone. Form and signatures have been checked (agree/bft_wire.h). */
#ifndef AGREE_BFT_AUTOMATON_H
#define AGREE_BFT_AUTOMATON_H

#include "agree/bft_wire.h"

struct bft_automaton {
    uint32_t rank, life;
    const char *fault; /* NULL, or what it has done that nobody correct does. It stays so */
    uint64_t view;     /* of its last STATE: below that it says nothing any more */
    uint64_t next;     /* that it proposes in this view; BFT_NO_SLOT: it does not lead it (yet) */
    uint32_t names;    /* it must propose from `next` on */
    struct digest name[BFT_SLOTS];
    uint64_t stable; /* slot of its checkpoint */
    struct bft_lock
        lock[BFT_SLOTS]; /* by slot % BFT_SLOTS; its COMMITs of slots from `stable` on */
    bool locked[BFT_SLOTS];
};

/* At the beginning of a life. In its first the member 0 leads view 0. */
void bft_automaton_init(struct bft_automaton *, uint32_t rank, uint32_t life);

/* Its next broadcast. False: it departs from the protocol, for good. */
bool bft_automaton_hear(struct bft_automaton *, const struct bft_scope *, const void *body);

/* Goes on behind a STATE that is vouched for. */
void bft_automaton_jump(struct bft_automaton *, const struct bft_state *);

const struct bft_lock *bft_automaton_lock(const struct bft_automaton *, uint64_t slot);

/* What follows from a NEW-VIEW: its leader proposes from `base` on, at first these names. NULL, or why it does not follow:
 * fewer than f+1 STATEs or vouchers, another view, one of a life that a JOIN has ended that the STATEs themselves know of. */
struct bft_new_view_plan {
    uint64_t base;
    uint32_t names;
    struct digest name[BFT_SLOTS];
};
const char *bft_new_view_check(const struct bft_scope *, const struct bft_new_view *,
                               struct bft_new_view_plan *);

#endif
