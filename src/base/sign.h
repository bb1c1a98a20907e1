/* Signatures: what is signed, and a signer, which makes and checks them while its caller does something else.
 *
 * Whatever is signed is a `struct sign_text`: what the signature is for, in which cluster and group, by whom, in which of
 * its lives, and then two numbers and a digest whose meaning follows from the role. So no signature can be taken for one that was made
 * for another purpose, place or life.
 *
 * A signer belongs to one thread. A job is the caller's memory, in place and untouched from signer_submit until its state
 * is SIGN_GOOD or SIGN_BAD, which changes inside signer_poll alone. Jobs end in the order in which they were submitted. */
#ifndef BASE_SIGN_H
#define BASE_SIGN_H

#include "base/digest.h"
#include "base/err.h"

enum { SIGN_BYTES = 64, SIGN_KEY_BYTES = 32 };

/* Never renumbered: signatures outlive programs. */
enum sign_role {
    SIGN_BROADCAST = 1, /* number: place in the signer's broadcasts, more: bytes; digest: of them */
    SIGN_VERSIONS = 2,  /* group: log of versions; digest: of all that it has so far */
    /* Of logs among liars (agree/bft_wire.h): */
    SIGN_CERTIFY = 3,    /* number: view, more: slot; digest: name of the value */
    SIGN_VOUCH = 4,      /* number: key of another's broadcast, more: its rank; digest: of it */
    SIGN_CHECKPOINT = 5, /* number: slot; digest: of the checkpoint */
    SIGN_JOIN = 6,       /* that it is back, in this life */
    SIGN_STRETCH = 7,   /* by a client; number: position of its stream; digest: chain up to there */
    SIGN_STATEMENT = 8, /* number: epoch, more: batches said READY for; digest: of the last ones */
};

struct sign_text {
    char tag[16];     /* SIGN_TAG */
    uint64_t cluster; /* that the signature is good in */
    uint32_t group;
    uint32_t role;   /* enum sign_role */
    uint32_t signer; /* rank of whoever signs, */
    uint32_t life;   /* and which life of it */
    uint64_t number;
    uint64_t more;
    struct digest digest;
};

#define SIGN_TAG "tramway signs 1"

_Static_assert(sizeof(SIGN_TAG) == 16, "fills the tag");
_Static_assert(sizeof(struct sign_text) == 88, "no byte of it is padding");

enum sign_state {
    SIGN_IDLE,      /* was never submitted */
    SIGN_UNDER_WAY, /* the signer's */
    SIGN_GOOD,      /* it is signed, or the signature is the signer's */
    SIGN_BAD,       /* the signature is not */
};

struct sign_job {
    enum sign_state state;
    bool check; /* is the signature text.signer's? Else make it, as whoever owns the signer */
    struct sign_text text;
    unsigned char signature[SIGN_BYTES];
    struct sign_job *next; /* the signer's, */
    bool good;             /* until the job ends */
};

struct signer;

struct signer_ops {
    void (*submit)(struct signer *, struct sign_job *);
    int (*poll)(struct signer *);
    void (*close)(struct signer *);
};

struct signer {
    const struct signer_ops *ops;
};

static inline void signer_submit(struct signer *s, struct sign_job *j)
{
    CHECK(j->state != SIGN_UNDER_WAY);
    j->state = SIGN_UNDER_WAY;
    s->ops->submit(s, j);
}

/* Ends the jobs whose result is there; returns how many. */
static inline int signer_poll(struct signer *s)
{
    return s->ops->poll(s);
}

/* Jobs that are under way are forgotten. */
static inline void signer_close(struct signer *s)
{
    s->ops->close(s);
}

/* Ed25519 by libsodium, in a thread of its own. */
struct sign_worker_options {
    unsigned char secret[SIGN_KEY_BYTES];              /* RFC 8032; copied */
    const unsigned char (*public_key)[SIGN_KEY_BYTES]; /* by rank; copied */
    uint32_t signers;
    /* Called from that thread when results are there that a poll would find; NULL: nobody sleeps. */
    void (*ready)(void *ctx);
    void *ctx;
};

int sign_worker_open(const struct sign_worker_options *, struct signer **, struct err *);

/* The same at once, in the caller's thread, for callers that sign seldom. */
struct sign_secret {
    unsigned char key[2 * SIGN_KEY_BYTES];
};

void sign_secret_open(struct sign_secret *, const unsigned char secret[SIGN_KEY_BYTES]);
void sign_secret_close(struct sign_secret *); /* forgets it */
void sign_now(const struct sign_secret *, const struct sign_text *,
              unsigned char signature[SIGN_BYTES]);
bool sign_is_good(const unsigned char public_key[SIGN_KEY_BYTES], const struct sign_text *,
                  const unsigned char signature[SIGN_BYTES]);

#endif
