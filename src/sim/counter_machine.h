/* The state machine of simulated replicas: how many messages there were, and the hash of all of them.
 *
 * It is the part that saves and loads: counter_machine_state_ops but for load_close, which is the run's (counter_machine_load_end does
 * the work), with a ctx that begins with a struct counter_machine. A snapshot is the state and `pad` bytes behind it, which make
 * it as large as a run wants it and are known, so that a load sees whether it got what was saved. What the calls cost
 * is added up in spent_ns, for whoever lets time pass. */
#ifndef SIM_COUNTER_MACHINE_H
#define SIM_COUNTER_MACHINE_H

#include "agree/state.h"

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
    struct counter_machine_costs costs;
    uint64_t spent_ns;
};

void *counter_machine_save_open(void *ctx, uint64_t *bytes);
int counter_machine_save_next(void *ctx, void *save, void *out, uint32_t room);
void counter_machine_save_close(void *ctx, void *save);
int counter_machine_load_open(void *ctx, uint64_t bytes);
int counter_machine_load_next(void *ctx, const void *data, uint32_t bytes);

/* Takes the loaded state over; false if not every byte of it is as it was saved. */
bool counter_machine_load_end(struct counter_machine *);

#endif
