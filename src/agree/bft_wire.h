/* What members of a Byzantine group say to each other, byte by byte, and what of it is signed.
 *
 * Two kinds of things are said. *Bodies* are what a member broadcasts without equivocation (agree/bft_neb.h): PROPOSE, COMMIT, STATE and
 * NEW-VIEW. *Frames* go through plain lanes, to each member its own, and count for what is signed in them, or for nothing.
 * All are of whole words; whoever reads one has checked it with the function of this page first, in a copy of its own.
 *
 * Slots are numbered from 0, and one value is decided for each. A value has a *name*: the digest of its bytes, a batch of
 * entries; or a name that says all of it, of what has no bytes: nothing, and that a member is back. No batch has such a name, since nobody finds bytes
 * with a digest of one's choice. */
#ifndef AGREE_BFT_WIRE_H
#define AGREE_BFT_WIRE_H

#include "agree/bft_neb.h"
#include "agree/entry.h"

enum {
    BFT_MEMBERS_MAX = NEB_MEMBERS_MAX,
    BFT_QUORUM_MAX = BFT_MEMBERS_MAX / 2 + 1, /* f + 1 */
    BFT_SLOTS = 32, /* beyond the stable checkpoint: a slot further on is not spoken of */
    BFT_SLOTS_KEPT =
        8, /* the last of these: for the CUT of an epoch in which no checkpoint is made */
    BFT_SLOTS_UNDER_WAY = 16, /* proposed in a view, and not decided where its leader is */
    BFT_CHECKPOINT_SLOTS = 8, /* a checkpoint each so many, and behind each JOIN */
    BFT_SIGNATURES_MAX = BFT_QUORUM_MAX * BFT_QUORUM_MAX, /* in one body */
};

#define BFT_NO_SLOT UINT64_MAX

/* ---- values ---- */

/* A batch: entries one behind the other, pos and ballot 0. One with source SOURCE_LOG is the log's own; its srcpos says what it is. OPEN and CUT
 * will be such, with the fast epochs. */
struct digest bft_name_of(const void *batch, uint32_t bytes);

/* A batch of entries that are whole and end where it ends. */
bool bft_batch_fits(const void *batch, uint32_t bytes);

#define BFT_NAME_JOIN UINT64_C(0x206e696f6a2074fe)

static inline struct digest bft_name_nothing(void)
{
    return (struct digest){{0}};
}

static inline struct digest bft_name_join(uint32_t rank, uint32_t life)
{
    return (struct digest){{BFT_NAME_JOIN, rank, life, 0}};
}

static inline bool bft_name_is_join(struct digest n)
{
    return n.word[0] == BFT_NAME_JOIN && n.word[3] == 0;
}

static inline bool bft_name_is_nothing(struct digest n)
{
    return digest_equal(n, bft_name_nothing());
}

static inline bool bft_name_has_bytes(struct digest n)
{
    return !bft_name_is_nothing(n) && !bft_name_is_join(n);
}

/* ---- what is signed ---- */

/* One member's signature under something that others have signed too. */
struct bft_mark {
    uint32_t rank;
    uint32_t life;
    unsigned char signature[SIGN_BYTES];
};

/* All slots before `slot` are applied: the chain of the names of their values, the machine's state with all that the log adds to it, and each
 * member's life. */
struct bft_checkpoint {
    uint64_t slot;
    struct digest chain;
    struct digest state;
    uint32_t life[BFT_MEMBERS_MAX + 1];
};

/* Whose group. */
struct bft_scope {
    uint64_t cluster;
    uint32_t group;
    uint32_t members, faulty; /* n and f */
};

struct sign_text bft_certify_text(const struct bft_scope *, uint32_t rank, uint32_t life,
                                  uint64_t view, uint64_t slot, struct digest name);
/* `key` and `digest`: of the sender's broadcast that is a STATE. */
struct sign_text bft_vouch_text(const struct bft_scope *, uint32_t rank, uint32_t life,
                                uint32_t sender, uint64_t key, struct digest digest);
struct sign_text bft_checkpoint_text(const struct bft_scope *, uint32_t rank, uint32_t life,
                                     const struct bft_checkpoint *);
struct sign_text bft_join_text(const struct bft_scope *, uint32_t rank, uint32_t life);

/* ---- bodies ---- */

enum bft_kind { BFT_PROPOSE = 1, BFT_COMMIT, BFT_STATE, BFT_NEW_VIEW };

/* What all bodies begin with. */
struct bft_head {
    uint32_t kind;
    uint32_t count;
    uint64_t view;
};

/* Of `head.count` bytes of value: a batch; for a JOIN its request's signature, without which nobody certifies it unless a NEW-VIEW
 * names it; or none. */
struct bft_propose {
    struct bft_head head;
    uint64_t slot;
    struct digest name;
    unsigned char value[];
};

/* With `head.count` marks of CERTIFY. */
struct bft_commit {
    struct bft_head head;
    uint64_t slot;
    struct digest name;
    struct bft_mark mark[];
};

/* What a member has locked: the last that it has COMMITted for the slot. */
struct bft_lock {
    uint64_t slot;
    uint64_t view;
    struct digest name;
};

/* All that counts of what its sender has said so far. Behind it: the locks beyond the checkpoint by slot, the names it must propose from
 * `next` on, the checkpoint's marks. At the first checkpoint, slot 0, there are no marks. */
struct bft_state {
    struct bft_head head; /* count: bytes behind this struct */
    struct bft_checkpoint stable;
    uint64_t next; /* it proposes next in this view, or BFT_NO_SLOT: it proposes nothing */
    uint32_t locks, names, marks, zero;
    struct bft_lock lock[];
};

/* A STATE that f+1 vouch for. Behind it the marks, then the STATE's body. */
struct bft_vouched {
    uint32_t rank, bytes; /* of the body */
    uint64_t key;
    uint32_t marks, zero;
    struct bft_mark mark[];
};

/* Behind it `head.count` bytes: f+1 struct bft_vouched of this view, each with marks and body. */
struct bft_new_view {
    struct bft_head head;
    unsigned char states[];
};

_Static_assert(sizeof(struct bft_mark) == 72 && sizeof(struct bft_checkpoint) == 112, "no padding");
_Static_assert(sizeof(struct bft_propose) == 56 && sizeof(struct bft_lock) == 48, "no padding");
_Static_assert(sizeof(struct bft_state) == 152 && sizeof(struct bft_vouched) == 24, "no padding");

/* NULL, or what is wrong with its form: afterwards every part of it is there, counts are within the limits, marks are of different members, locks
 * of rising slots of the window. Signatures are not looked at. */
const char *bft_body_fault(const struct bft_scope *, const void *body, uint64_t bytes);

/* The same of a STATE that is vouched for, with more behind it perhaps. */
const char *bft_vouched_fault(const struct bft_scope *, const struct bft_vouched *, uint64_t bytes);

/* f+1, that make a certificate. */
uint32_t bft_certificate_marks(const struct bft_scope *);

/* The parts of one that is sound in form. */
const struct digest *bft_state_names(const struct bft_state *);
const struct bft_mark *bft_state_marks(const struct bft_state *);
const struct bft_state *bft_vouched_state(const struct bft_vouched *);
uint32_t bft_vouched_bytes(const struct bft_vouched *);
static inline const struct bft_vouched *bft_vouched_next(const struct bft_vouched *v)
{
    return (const void *)((const char *)v + bft_vouched_bytes(v));
}

/* The signatures in a body that is sound in form, or in a STATE that is vouched for, as jobs that check them. Returns how many, at most BFT_SIGNATURES_MAX. */
uint32_t bft_body_signatures(const struct bft_scope *, const void *body, struct sign_job *);
uint32_t bft_vouched_signatures(const struct bft_scope *, const struct bft_vouched *,
                                struct sign_job *);

/* Largest body with batches of so many bytes. */
uint32_t bft_body_bytes_max(const struct bft_scope *, uint32_t batch_bytes);

/* ---- frames ---- */

/* Through the lane LANE_TALK from each member to each other; struct frame (lane/frame.h) with one of these as payload. */
enum bft_frame_kind {
    BFT_FRAME_BODY = 1,   /* of a broadcast: rank, key; behind it the body */
    BFT_FRAME_VALUE,      /* number: slot, name; behind it the batch */
    BFT_FRAME_CERTIFY,    /* key: view, number: slot, name, mark */
    BFT_FRAME_VOUCH,      /* of rank's broadcast: key, name: digest, mark */
    BFT_FRAME_CHECKPOINT, /* mark; behind it the struct bft_checkpoint */
    BFT_FRAME_VOUCHED,    /* behind it a struct bft_vouched */
    BFT_FRAME_JOIN,       /* mark: its own, in its new life */
    BFT_FRAME_DECIDED,    /* number: slot, name. f+1 that say so are believed */
    BFT_FRAME_BEAT,      /* key: view, number: slots decided, rank: bits of whom it has convicted */
    BFT_FRAME_EVIDENCE,  /* of rank: behind it two struct neb_cell */
    BFT_FRAME_ASK_BODY,  /* of rank's broadcast: key, name: digest */
    BFT_FRAME_ASK_VALUE, /* number: slot, name */
    BFT_FRAME_ASK_VOUCHED, /* the last of rank's, beyond key */
    BFT_FRAME_ASK_STATE,   /* of the checkpoint number: slot, name: state; key: from that byte on */
    BFT_FRAME_STATE,  /* number: slot, key: offset, more: bytes in all; behind it some of them */
    BFT_FRAME_SIGNED, /* behind it a struct bft_stretch and its entries */
    /* Of the fast epoch key: */
    BFT_FRAME_BATCH,     /* number; behind it the batch */
    BFT_FRAME_ECHO,      /* number, name: chain */
    BFT_FRAME_READY,     /* the same */
    BFT_FRAME_STATEMENT, /* behind it a struct bft_statement */
    BFT_FRAME_ASK_BATCH, /* number, name: digest; or zeros, to the leader */
};

struct bft_frame {
    uint32_t kind;
    uint32_t rank;
    uint64_t key;
    uint64_t number;
    uint64_t more;
    struct digest name;
    struct bft_mark mark;
    unsigned char data[];
};

_Static_assert(sizeof(struct bft_frame) == 136, "no padding");

/* What its mark signs; false: it has none. Of a CHECKPOINT the data is there. */
bool bft_frame_text(const struct bft_scope *, const struct bft_frame *, struct sign_text *);

#endif
