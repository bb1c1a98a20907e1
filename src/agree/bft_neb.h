/* Non-equivocating broadcast: what a member says is the same for all who hear it, even if it lies.
 *
 * (The Impact of RDMA on Agreement, algorithm 2.) Each member numbers what it broadcasts: its message has a place, and all places of a
 * life come after those of the life before. Whoever is about to deliver a message writes a copy of it where all can read,
 * and only then looks for a copy of another message of the same place. Of two members that deliver in the same place
 * one looks after the other has written; so if they are both correct they deliver the same, or one of them *convicts* the sender: it has
 * two messages signed by it for one place, and hears it no more.
 *
 * A message is a number of bytes and their digest; the bytes themselves go another way, and may come from anybody. What each
 * member writes is a *row* of cells, `window` for each sender, used again and again:
 *
 *     row of p   | cells of sender 0 | cells of sender 1 | ...         ring of its lane, at p or at every memory
 *     cell       | key 8 | bytes 8 | digest 32 | signature 64 | 0 8 | key 8 |        of place k: cell k % window
 *
 * A cell is good if its sender's signature is. It may be torn, or anything at all, if its writer lies or was killed in the middle. A good one of a
 * later place than the reader's says that the sender has gone on: the reader is *lapped* and delivers nothing of this
 * sender until neb_jump. One that is not good may hide just that; waiting for it would let a liar stop everybody, so the cell
 * before it in the same row is read after it: if that is of a later lap the reader is lapped, else the row has no copy
 * that counts. A sender stays within half a window of what neb_vouched says, so that whoever is lapped can find where to go on.
 *
 * Nothing is promised about messages of a liar but that correct members do not deliver two in one place: some may deliver
 * one and others none. All correct members deliver all messages of one that is correct.
 *
 * It belongs to the thread that polls the node's memory; it takes no memory after neb_open and reads no clock. */
#ifndef AGREE_BFT_NEB_H
#define AGREE_BFT_NEB_H

#include "base/sign.h"
#include "mem/mem.h"

enum { NEB_MEMBERS_MAX = 9, NEB_MEMORIES_MAX = 5, NEB_WINDOW_MAX = 64, NEB_LIFE_SHIFT = 48 };

struct neb_message {
    uint64_t key; /* life and place, as neb_key */
    uint64_t bytes;
    struct digest digest;
};

/* Places begin at 1. */
static inline uint64_t neb_key(uint32_t life, uint64_t place)
{
    return (uint64_t)life << NEB_LIFE_SHIFT | place;
}

static inline uint64_t neb_place(uint64_t key)
{
    return key & ((UINT64_C(1) << NEB_LIFE_SHIFT) - 1);
}

struct neb_cell {
    uint64_t key;
    uint64_t bytes;
    struct digest digest;
    unsigned char signature[SIGN_BYTES];
    uint64_t zero;
    uint64_t key_again;
};

_Static_assert(sizeof(struct neb_cell) == 128, "two cache lines");

struct neb_calls {
    /* The next message of that member; those of a life in order, without a gap but where neb_jump went. */
    void (*deliver)(void *ctx, uint32_t sender, const struct neb_message *);

    /* Are its bytes here? It is asked in every round until they are. */
    bool (*has_body)(void *ctx, uint32_t sender, const struct neb_message *);

    /* It has signed both. Called once; nothing of it is delivered any more. */
    void (*convicted)(void *ctx, uint32_t sender, const struct neb_cell *, const struct neb_cell *);
};

struct neb_options {
    struct mem *mem;
    uint32_t region;       /* at all members, or at all memories */
    const uint32_t *nodes; /* of the members, by rank */
    uint32_t members, rank;
    const uint32_t *
        memories; /* nodes that hold all rows and run nothing of this, 2 f + 1 of them of which f may fail; NULL: each */
    uint32_t memory_count; /* member holds its own, which outlives it, and which all can read */
    uint32_t window;       /* at least 2 */
    const uint32_t *life;  /* by rank: whose messages are delivered, own included */
    uint64_t cluster;
    struct signer *signer;
    const struct neb_calls *calls;
    void *ctx;
};

struct neb;

int neb_open(const struct neb_options *, struct neb **, struct err *);
void neb_close(struct neb *);

/* Says the next thing. ERR_AGAIN: half a window is under way, or not vouched for. */
int neb_broadcast(struct neb *, uint64_t bytes, struct digest);

/* What was broadcast up to there need not be heard by anybody any more: whoever has not can go on without. Never falls. */
void neb_vouched(struct neb *, uint64_t key);

/* Goes on behind that message of a sender, in place of what was next. Not backwards. */
void neb_jump(struct neb *, uint32_t sender, uint64_t key);

/* What is delivered next of it. */
uint64_t neb_next(const struct neb *, uint32_t sender);

/* The sender has gone on, and this member has to neb_jump. */
bool neb_lapped(const struct neb *, uint32_t sender);

bool neb_is_convicted(const struct neb *, uint32_t sender);

/* From here on that life of a sender is heard, from its first place on. */
void neb_life(struct neb *, uint32_t sender, uint32_t life);

/* It is heard no more: somebody else has shown that it has signed two messages for one place. */
void neb_convict(struct neb *, uint32_t sender);

/* What the sender of a cell has signed, or signs. */
struct sign_text neb_text(const struct neb *, uint32_t sender, const struct neb_cell *);

/* Before and after each mem_poll; between them the signer is polled, too. Return work done. */
int neb_post(struct neb *);
int neb_settle(struct neb *);

#endif
