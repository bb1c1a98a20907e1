/* A member's part of a fast epoch: which batches it may say ECHO and READY for, and which are decided. No signature is made.
 *
 * (byzantine.md 4.1, 4.2; Cheap Quorum of The Impact of RDMA on Agreement, with lanes in place of signatures.) The leader's batches are
 * numbered from 1 and make a chain. A member that has the next batch, and finds it valid, says ECHO; with an ECHO equal to its own chain from *all*
 * members it says READY; with READY from all it has decided. ECHO goes no further than BFT_FAST_AHEAD beyond what is decided here. One
 * that has frozen says nothing more but its STATEMENT, from which the CUT follows (agree/bft_cut.h); what others had said before may still decide.
 *
 * All of it is cumulative: whoever says READY for a batch on our chain has said it for all before. Who says it for another chain makes
 * us freeze.
 *
 * Pure but for what it keeps; it belongs to whoever steps it. */
#ifndef AGREE_BFT_FAST_H
#define AGREE_BFT_FAST_H

#include "agree/bft_cut.h"

enum bft_fast_kind { BFT_FAST_ECHO, BFT_FAST_READY, BFT_FAST_KINDS };

enum { BFT_FAST_KEPT = 4 * BFT_FAST_AHEAD }; /* a statement, and what was taken beyond it */

/* What one member has said. */
struct bft_fast_said {
    uint64_t upto[BFT_FAST_KINDS]; /* batches that we have, too, on our chain */
    /* Of batches that we have not: which, and the chain that it gave. By number % BFT_FAST_TOLD. */
    uint64_t early[BFT_FAST_KINDS][BFT_FAST_TOLD];
    struct digest chain[BFT_FAST_KINDS][BFT_FAST_TOLD];
};

struct bft_fast {
    uint32_t members, rank, ahead;
    uint64_t epoch;
    struct digest start;
    const char *frozen;                 /* NULL, or why: for people */
    uint64_t batches;                   /* that we have: our ECHO */
    uint64_t ready;                     /* our READY */
    uint64_t decided;                   /* READY of all */
    struct digest batch[BFT_FAST_KEPT]; /* digests, by number % BFT_FAST_KEPT, */
    struct digest chain[BFT_FAST_KEPT]; /* and the chain behind each */
    struct bft_fast_said said[BFT_MEMBERS_MAX];
};

void bft_fast_begin(struct bft_fast *, uint32_t members, uint32_t rank, uint64_t epoch,
                    struct digest start, uint32_t ahead);

/* May the next batch be taken? Then bft_fast_take says ECHO for it; returns its number. */
bool bft_fast_may_take(const struct bft_fast *);
uint64_t bft_fast_take(struct bft_fast *, struct digest batch);

/* A member has said that of a batch, with the chain that it has for it. */
void bft_fast_hear(struct bft_fast *, uint32_t rank, enum bft_fast_kind, uint64_t batch,
                   struct digest chain);

/* Our next READY; 0: there is none. Then what is decided here. */
uint64_t bft_fast_ready(struct bft_fast *);
uint64_t bft_fast_decide(struct bft_fast *);

/* The chain behind a batch that is kept. */
struct digest bft_fast_chain(const struct bft_fast *, uint64_t batch);

/* From here on it says nothing more. The first reason stays. */
void bft_fast_freeze(struct bft_fast *, const char *why);

/* Of one that has frozen, without its mark; returns its bytes, bft_statement_bytes(BFT_FAST_TOLD) at most. */
uint64_t bft_fast_statement(const struct bft_fast *, struct bft_statement *);

#endif
