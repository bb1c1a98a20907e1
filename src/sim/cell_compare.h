/* Compares the members of a simulated group with views: what each was told of a cell, and what its state machine made of it, as it
 * comes.
 *
 * For each cell it holds one sequence of messages, from the view in which the cell was born, with the replies and the state after each, as the
 * first member to get there had them; all others, in every life, are compared with that. Where a member is in the sequence is told with the
 * state that it loads; of a machine without a state it is known from the first message on that it delivers. States are kept as
 * bytes up to CELL_COMPARE_KEPT_BYTES, so that a difference can be shown, and as hashes after that. Raw cells have no sequence: of each
 * sender's messages all members have the same.
 *
 * One thread. Running out of memory ends the process. */
#ifndef SIM_CELL_COMPARE_H
#define SIM_CELL_COMPARE_H

#include "conf/cluster.h"
#include "group/view.h"
#include "tram/group.h"
#include "tram/sim.h"

enum { CELL_COMPARE_KEPT_BYTES = 64 << 20 };

struct cell_compare;

struct cell_compare_who {
    uint32_t host, cell;
    uint64_t now_ns;
};

/* What goes along with a state: where it is in the cell's sequence. */
struct cell_compare_place {
    uint64_t born, count;
};

/* The cluster's names are used as long as it is. */
struct cell_compare *cell_compare_open(const struct cluster *);
void cell_compare_close(struct cell_compare *);

/* A host begins a view. goes_on: it was in the one before; has_state: it has the cell's, and so had it there if it was in it. */
void cell_compare_view(struct cell_compare *, struct cell_compare_who, const struct view *now,
                       bool goes_on, bool has_state);
/* It is in none any more, or its process has ended. */
void cell_compare_out(struct cell_compare *, uint32_t host);

/* Its state is that of a new cell. */
void cell_compare_born(struct cell_compare *, struct cell_compare_who);
struct cell_compare_place cell_compare_place(const struct cell_compare *, struct cell_compare_who);
/* It has loaded a state that was saved there. */
void cell_compare_loaded(struct cell_compare *, struct cell_compare_who, struct cell_compare_place);

/* A message, after the machine had it; reply: of one that asks for it, else NULL. */
void cell_compare_deliver(struct cell_compare *, struct cell_compare_who, uint64_t vid,
                          const struct tram_item *, const void *reply, uint32_t reply_bytes);
/* The state after what it has delivered so far. */
void cell_compare_state(struct cell_compare *, struct cell_compare_who, const void *data,
                        size_t bytes);
/* How many messages it has delivered, or others for it; of a raw cell, and of who has no state, 0. */
uint64_t cell_compare_count(const struct cell_compare *, struct cell_compare_who);

/* The member has delivered all that there is, as far as is known. */
bool cell_compare_has_all(const struct cell_compare *, struct cell_compare_who);

/* True if nothing is wrong; else says what was found first. */
bool cell_compare_verify(const struct cell_compare *, struct tram_sim_finding *);

#endif
