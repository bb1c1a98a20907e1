/* The state machine of simulated replicas: how many messages there were, and the hash of all of them.
 *
 * It is the part that saves and loads: the functions have the form of struct log_machine and
 * struct mcast_machine, with a ctx that begins with a struct ledger. A snapshot is the state and
 * `pad` bytes behind it, which make it as large as a run wants it and are known, so that a load sees
 * whether it got what was saved. */
#ifndef SIM_LEDGER_H
#define SIM_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

struct ledger_state {
    uint64_t count;
    uint64_t hash;
};

struct ledger {
    struct ledger_state state;
    struct ledger_state saved;  /* copy being sent */
    struct ledger_state loaded; /* what came so far */
    uint64_t pad;
    uint64_t load_at, load_bytes;
    bool spoilt; /* what comes is not what was saved */
};

uint64_t ledger_save_open(void *ctx);
void ledger_save_read(void *ctx, uint64_t offset, void *out, uint32_t bytes);
void ledger_save_close(void *ctx);
void ledger_load_open(void *ctx, uint64_t bytes);
void ledger_load_write(void *ctx, const void *data, uint32_t bytes);

/* Takes the loaded state over; false if not every byte of it is as it was saved. */
bool ledger_load_end(struct ledger *);

#endif
