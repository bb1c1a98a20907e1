/* What must hold among the correct members of a group some of whose members lie, one function an event. The first violation is
 * kept. What is applied is checked as it is for any log (log_check.h); here is what comes before. */
#ifndef SIM_BFT_CHECK_H
#define SIM_BFT_CHECK_H

#include "agree/bft_wire.h"
#include "sim/run.h"

enum { BFT_CHECK_LIVES_MAX = 64 };

/* f+1 have signed that value for the slot in that view. */
struct bft_check_cert {
    uint64_t view, slot;
    struct digest value;
    uint32_t next; /* of the same slot; 0: the last */
};

struct bft_check_slot {
    bool decided;
    uint64_t view; /* the lowest in which it was; UINT64_MAX: nobody has said */
    struct digest value;
    uint32_t certs; /* index + 1; 0: none */
    bool stable;    /* a checkpoint before it, which is */
    struct digest chain, state;
};

/* One broadcast of a life of a sender, as members have heard it. */
struct bft_check_said {
    struct digest digest; /* that they heard, */
    uint32_t ranks;       /* bits of who is still in the life in which it did */
};

struct bft_check_sender {
    struct bft_check_said *said; /* by place */
    uint64_t max;
};

struct bft_check {
    struct run_result *result;
    bool lies[NEB_MEMBERS_MAX];
    struct bft_check_sender sender[NEB_MEMBERS_MAX][BFT_CHECK_LIVES_MAX];
    struct bft_check_slot *slot;
    uint64_t slots, slots_max;
    struct bft_check_cert *cert;
    uint32_t certs, certs_max;
};

void bft_check_init(struct bft_check *, struct run_result *, const bool *lies);
void bft_check_fini(struct bft_check *);

/* Of the broadcast: one message for a place of a sender. */
void bft_check_heard(struct bft_check *, uint32_t rank, uint32_t sender, uint64_t key,
                     struct digest);

/* It has lost its memory, and with it what it heard: it counts as one of those that failed. */
void bft_check_forgets(struct bft_check *, uint32_t rank);

/* A correct member has seen f+1 signatures for a value: there is one value for a slot and view, and once one is decided no
 * other in any later view. */
void bft_check_certified(struct bft_check *, uint32_t rank, uint64_t view, uint64_t slot,
                         struct digest value);

/* Agreement on slots. */
void bft_check_decided(struct bft_check *, uint32_t rank, uint64_t view, uint64_t slot,
                       struct digest value);

/* Nobody correct is convicted. */
void bft_check_convicted(struct bft_check *, uint32_t rank, uint32_t of, const char *line);

/* What f+1 have signed is the same for all: one chain, one state for a slot. */
void bft_check_stable(struct bft_check *, uint32_t rank, const struct bft_checkpoint *);

void bft_check_violated(struct bft_check *, const char *property, uint64_t slot, const char *fmt,
                        ...) __attribute__((format(printf, 4, 5)));

#endif
