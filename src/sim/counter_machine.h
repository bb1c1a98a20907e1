/* The state machine of simulated replicas: how many messages there were, and the hash of all of them.
 *
 * It is the part that saves and loads, with a ctx that begins with a struct counter_machine. A snapshot is the state and
 * `pad` bytes behind it. They make it as large as a run wants it and are known, so that a load sees whether it got what
 * was saved. What the calls cost is added up in spent_ns, for whoever lets time pass. */
#ifndef SIM_COUNTER_MACHINE_H
#define SIM_COUNTER_MACHINE_H

#include "unit/state.h"

struct counter_machine_state {
    uint64_t count;
    uint64_t hash;
};

struct counter_machine_costs {
    uint64_t open_ns;  /* of save_open and load_close */
    uint64_t piece_ns; /* of save_next and load_next, */
    uint64_t kib_ns;   /* and of 1,024 bytes */
};

struct counter_machine {
    struct counter_machine_state state;
    struct counter_machine_state saved;  /* copy being sent */
    struct counter_machine_state loaded; /* what came so far */
    uint64_t pad;
    uint64_t save_at;
    uint64_t load_at, load_bytes;
    bool unsized; /* does not say how large it is */
    bool spoilt;  /* what comes is not what was saved */
    bool loading;
    uint32_t saves; /* that have begun and not ended */
    struct counter_machine_costs costs;
    uint64_t spent_ns;
    void (*on_load)(struct counter_machine *, bool good); /* it has loaded; good: what was saved */
};

extern const struct state_ops counter_machine_ops;

/* Returns spent_ns and begins to count anew. */
uint64_t counter_machine_spent(struct counter_machine *);

#endif
