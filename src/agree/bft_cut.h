/* Where a fast epoch ends: what all members go on from when they have frozen it.
 *
 * (byzantine.md 4.2.) In a fast epoch the leader's batches make a chain, h(b) = digest_chain(h(b-1), digest of batch b), and a batch is decided by
 * whoever has READY of all members for it. Each member that has frozen signs one STATEMENT: up to which batch it has said READY, and the
 * digests of its last batches with the chain before them, so that it lies on one chain whatever it says. Of such statements of
 * distinct members the CUT follows:
 *
 *   - Two *conflict* if they differ at a batch that both tell of, or their READYs are further apart than `ahead` batches. Of two that
 *     conflict one is a liar's. c is the size of the largest matching of conflicts, so at least c of them are.
 *   - They are usable if there are at least f + 1 + c.
 *   - A batch with its chain is possible if at most f of them lack it. The CUT is the possible one that is the furthest.
 *
 * Whatever usable statements a proposer takes, what a correct member has decided is before the CUT; so nothing depends on which it takes.
 *
 * Pure. */
#ifndef AGREE_BFT_CUT_H
#define AGREE_BFT_CUT_H

#include "agree/bft_wire.h"

enum {
    BFT_FAST_AHEAD = 64, /* batches that a member goes on beyond what it has decided */
    BFT_FAST_TOLD = 2 * BFT_FAST_AHEAD /* batches in a statement, at most */
};

/* Of one member; the mark signs all of it (bft_statement_text). */
struct bft_statement {
    uint64_t epoch;
    uint64_t ready; /* batches for which it has said READY: 1 to ready */
    uint32_t count; /* of them it tells, at the end */
    uint32_t zero;
    struct digest base; /* chain before these */
    struct bft_mark mark;
    struct digest batch[]; /* digests of batches ready - count + 1 to ready */
};

_Static_assert(sizeof(struct bft_statement) == 128, "no padding");

/* In srcpos of entries of SOURCE_LOG, each the only one of its batch. */
enum { BFT_ENTRY_OPEN = 17, BFT_ENTRY_CUT = 18 };

struct bft_open_entry {
    uint64_t epoch;
    uint32_t leader, zero;
};

/* Behind it `count` statements. */
struct bft_cut_entry {
    uint64_t epoch, batch;
    struct digest chain;
    uint32_t count, zero;
};

struct bft_cut {
    uint64_t batch; /* the last that counts; 0: none does */
    struct digest chain;
};

struct bft_cut_options {
    const struct bft_scope *scope;
    uint64_t epoch;
    struct digest start; /* chain before batch 1 */
    uint32_t ahead;      /* 0: BFT_FAST_AHEAD */
};

static inline uint64_t bft_statement_bytes(uint32_t count)
{
    return sizeof(struct bft_statement) + count * sizeof(struct digest);
}

/* NULL, or what is wrong with its form: it tells of all of its batches, or of as many as there may be, and begins where the epoch does. */
const char *bft_statement_fault(const struct bft_cut_options *, const struct bft_statement *,
                                uint64_t bytes);

struct sign_text bft_statement_text(const struct bft_scope *, const struct bft_statement *);

/* The chain behind each batch that it tells of, and before the first: count + 1 of them. */
void bft_statement_chain(const struct bft_statement *, struct digest *out);

/* Of statements whose form and signatures are good. NULL, or why they give no CUT. */
const char *bft_cut(const struct bft_cut_options *, const struct bft_statement *const *,
                    uint32_t count, struct bft_cut *);

#endif
