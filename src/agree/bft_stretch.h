/* What a client of a Byzantine group signs of its stream: a stretch, the messages from one position to another.
 *
 * A member believes a message that stands in its own ring, in the same bytes. A client that lies writes different bytes to different members,
 * or to one alone, so a leader orders only what its client has signed: whoever has not got it takes the signature for it. A
 * stretch goes into a batch whole, behind an entry of the log itself that carries the signature:
 *
 *     | entry: SOURCE_LOG, BFT_ENTRY_SIGNED, struct bft_stretch | entry | entry | ...
 *
 * The signature is for the place, the life, the end and the chain of all messages of the stream up to there. So it is good for any messages
 * before the end together with the chain before them, and whoever has that shows no other messages for it: a leader that leaves something out, or puts
 * something in, has no signature for what is left. A correct client's stretches follow each other; where a part of one was decided
 * without its signature, the rest of it is signed nevertheless. */
#ifndef AGREE_BFT_STRETCH_H
#define AGREE_BFT_STRETCH_H

#include "agree/bft_wire.h"

enum {
    BFT_ENTRY_SIGNED = 16,    /* in srcpos of an entry of SOURCE_LOG */
    BFT_STRETCHES = 32,       /* of a client that are signed and not decided */
    BFT_STRETCHES_BATCH = 16, /* in one batch, at most */
};

struct bft_stretch {
    uint64_t from, end; /* positions in the stream of the source */
    uint32_t source, life;
    struct digest before; /* chain of what is before `from` in that life */
    unsigned char signature[SIGN_BYTES];
};

_Static_assert(sizeof(struct bft_stretch) == 120, "no padding");

/* As it stands in the ring of LANE_SIGNED, at number % BFT_STRETCHES. */
struct bft_signed_cell {
    uint64_t number; /* beginning at 1, within a life */
    struct bft_stretch stretch;
};

_Static_assert(sizeof(struct bft_signed_cell) == 128, "two cache lines");

/* Control words of LANE_SIGNED. */
enum {
    SIGNED_COUNT, /* cells up to this number are there */
    SIGNED_AGAIN, /* rises when they are written again */
    SIGNED_WORDS
};

/* Bytes of entries that one signature is for, at most: two stretches fit into a batch. But one message always does. */
uint32_t bft_stretch_bytes(uint32_t batch_bytes, uint32_t payload_max);

/* What a stretch takes in a batch, with entries of so many bytes. */
static inline uint64_t bft_stretch_room(uint64_t entry_bytes)
{
    return entry_size(sizeof(struct bft_stretch)) + entry_bytes;
}

/* Who signs, among those that have keys: the members come first. */
static inline uint32_t bft_client_signer(uint32_t source)
{
    return BFT_MEMBERS_MAX + source;
}

/* Of a message, as it stands in a batch: length, source, life and position are part of it. */
struct digest bft_message_digest(const struct entry *);

/* The chain with that message, where it was `before`; a life begins with none. */
static inline struct digest bft_stretch_chain(struct digest before, const struct entry *e)
{
    return digest_chain(before, bft_message_digest(e));
}

struct sign_text bft_stretch_text(const struct bft_scope *, const struct bft_stretch *,
                                  struct digest);

/* Writes the entry that stands before the messages of a stretch; returns its bytes. */
uint32_t bft_stretch_put(const struct bft_stretch *, void *out);

/* The entry's stretch; NULL: it is another kind of entry. */
const struct bft_stretch *bft_stretch_of(const struct entry *);

/* Do entries of so many bytes begin with all messages of the stretch, one behind the other? Then their bytes, and the chain at the end. 0: no. */
uint32_t bft_stretch_fits(const struct bft_stretch *, const void *entries, uint32_t bytes,
                          struct digest *);

/* Is one of them at that position? */
bool bft_stretch_has(const struct bft_stretch *, const void *entries, uint64_t pos);

#endif
