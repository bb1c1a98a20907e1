/* Members that lie: correct code of a protocol, on memory operations that do not do what they say.
 *
 * A member that lies runs the code that all run, and so says what looks right at the right moment; but what it writes becomes
 * something else on its way: other things for different readers, late, torn, of another place or life, nothing, or what it makes up.
 * It has its own key and no other, sees all that is in the world, and whoever else lies is on its side. Its memory shows each
 * reader what it likes; what it writes into the memory of others changes right after they have looked.
 *
 * All that lie in one world have one strategy, drawn or given, and aim at those who are about to do something that matters. The
 * draws are from a stream of their own. One thread; the world calls hostile_step between the steps of a member that lies. */
#ifndef SIM_HOSTILE_H
#define SIM_HOSTILE_H

#include "agree/bft_neb.h"
#include "base/rng.h"
#include "mem/sim/sim.h"

#define HOSTILE_LIST(X)                                                                            \
    X(none, "nobody lies")                                                                         \
    X(equivocate, "is two members in one, each of which shows itself to some of the others")       \
    X(silent, "stops writing: to some or all, some or all kinds of things")                        \
    X(stale, "what it writes is seen late, by each at another time, and not in order")             \
    X(garbage, "what it writes is half there, or noise")                                           \
    X(forge, "signs for others, and shows signatures that are of another group, life or purpose")  \
    X(panic, "its clock runs fast: it gives up every view at once")                                \
    X(rewrite, "changes what it has written right after somebody has looked at it")                \
    X(replay, "writes again what was written before, in other places")                             \
    X(withhold, "says that there are bodies and gives them to nobody, or to one")                  \
    X(lap, "uses its cells again at once")                                                         \
    X(state, "leaves out of its STATEs what it has done, and vouches for anything")                \
    X(jump, "has itself vouched for, and then says other things to those who jumped there")        \
    X(late, "promises a view, and then commits in the one before")                                 \
    X(duplicate, "counts itself twice in certificates, and certifies all that it sees")            \
    X(huge, "writes the largest numbers there are into control words")                             \
    X(censor, "leaves out what some clients have signed, as leader")                               \
    X(invent, "orders what nobody has sent, as leader, and tells clients what is not so")          \
    X(mixed, "draws another of these for each stretch of time")

enum hostile_strategy {
#define HOSTILE_ENUM_(name, text) HOSTILE_##name,
    HOSTILE_LIST(HOSTILE_ENUM_)
#undef HOSTILE_ENUM_
        HOSTILE_STRATEGIES
};

const char *hostile_name(enum hostile_strategy);
const char *hostile_text(enum hostile_strategy);

enum { HOSTILE_TWINS = 2 };

struct hostiles_options {
    struct sim *sim;
    enum hostile_strategy strategy;
    uint64_t seed;         /* of their draws */
    uint64_t key_seed;     /* of the signatures, as for sim_sign */
    const uint32_t *nodes; /* of the members, by rank */
    const bool *lies;      /* by rank */
    uint32_t members;
    uint32_t region;
    uint64_t cluster;
    uint32_t window;                /* of the broadcast */
    uint32_t clients_from, clients; /* nodes of clients, whom it lies to as well */
};

struct hostiles;
struct hostile;

struct hostile_figures {
    uint64_t lies; /* writes and reads that became something else */
};

struct hostiles *hostiles_open(const struct hostiles_options *);
void hostiles_close(struct hostiles *);

/* The faults have stopped: nobody is held up any more, but who lies goes on lying. */
void hostiles_calm(struct hostiles *);
struct hostile_figures hostiles_figures(const struct hostiles *);

/* Who lies; NULL: that member does not. */
struct hostile *hostile_of(const struct hostiles *, uint32_t rank);

/* A life of it begins, and ends. From here on what is done with its memory is what it makes of it. */
void hostile_begin(struct hostile *, struct mem *);
void hostile_end(struct hostile *);

/* How many copies of the protocol's code it runs, 1 or HOSTILE_TWINS, on one memory; whose operations the next ones are; and
 * what that one's clock says. */
uint32_t hostile_twins(const struct hostile *);
void hostile_turn(struct hostile *, uint32_t twin);
uint64_t hostile_clock_ns(struct hostile *, uint64_t now_ns);

/* A cell as that sender signs it: of who lies, or of what a correct one has said. */
struct neb_cell hostile_cell(const struct hostiles_options *, uint32_t sender, uint64_t key,
                             uint64_t bytes, struct digest);

/* Makes of a text one that whoever is said to sign it may have signed, elsewhere. */
void hostile_elsewhere(struct rng *, uint32_t liar, struct sign_text *);

/* When that member has taken a frame of it that ends with `from`, these bytes become `to`. */
void hostile_swap(struct hostile *, uint32_t rank, const void *from, const void *to,
                  uint32_t bytes);

/* What it does by itself. */
void hostile_step(struct hostile *);

#endif
