/* What two nodes say to each other besides writing and reading memory, and how they prove who they are.
 * Private to this folder and its tests.
 *
 * A connection begins with a *hello* in the connect request. It is short, because verbs has room for
 * 55 bytes; what it claims is signed with the cluster's key, so that a stranger is refused before
 * anything is kept for him. Then both prove that they are there now, with nonces of their own:
 *
 *     a -> b   hello    from, to, life, nonce a            signed
 *     b -> a   prove    nonce b, birth, life of b          signed over the hello
 *     a -> b   proven   birth of a                         signed over hello and prove
 *     both     facts    what has to be the same
 *     both     roll     what they know of all hosts        between hosts
 *     a -> b   first    of which lives its cluster is made of a client that has a place
 *
 * "Signed" is a keyed BLAKE2b over everything said so far. The key of it is derived from the
 * cluster's key and name. A *birth* is a random number of the process: two processes that claim to be
 * the same node in the same life differ in it. Nothing that follows is signed or encrypted.
 *
 * Everything here is a function of bytes: no input or output, no state. All numbers are little-endian
 * and stand where the machine wants them. */
#ifndef MEM_OFI_WIRE_H
#define MEM_OFI_WIRE_H

#include "mem/ofi/ofi.h"
#include "mem/roll.h"

#include <stddef.h>

enum {
    OFI_VERSION = 4,
    OFI_MAC_BYTES = 32,
    OFI_SHORT_MAC_BYTES = 16,
    OFI_MESSAGE_MAX = 4096, /* bytes of a message, its head included */
};

#define OFI_MAGIC 0x6d617274u /* "tram" */

/* Why a connection is refused. */
#define OFI_REASON_LIST(X)                                                                         \
    X(MALFORMED, "it does not speak our language")                                                 \
    X(VERSION, "wrong version")                                                                    \
    X(CLUSTER, "wrong cluster")                                                                    \
    X(KEY, "wrong cluster key")                                                                    \
    X(NODE, "no such node, or not this one")                                                       \
    X(LIFE, "an old life")                                                                         \
    X(TWIN, "another process is this node")                                                        \
    X(FULL, "no place is free")                                                                    \
    X(FILE, "its cluster file differs from ours")                                                  \
    X(LEAVING, "it is about to end")                                                               \
    X(OTHER,                                                                                       \
      "its memory and ours are of two beginnings of the cluster; stop one and start it again")

enum ofi_reason {
    OFI_WELCOME = 0,
#define OFI_REASON_ENUM_(name, text) OFI_REASON_##name,
    OFI_REASON_LIST(OFI_REASON_ENUM_)
#undef OFI_REASON_ENUM_
        OFI_REASONS
};

const char *ofi_reason_text(enum ofi_reason);

struct ofi_hello {
    uint32_t magic;
    uint16_t version;
    uint16_t unused;
    uint32_t from; /* node; OFI_ANY: a client that has no place yet */
    uint32_t to;
    uint32_t life;
    unsigned char cluster[4]; /* of the hash of its name: tells a wrong cluster from a wrong key */
    unsigned char nonce[12];
    unsigned char mac[OFI_SHORT_MAC_BYTES];
};
_Static_assert(sizeof(struct ofi_hello) == 52, "verbs has room for 55 bytes");

/* In a refused connect request: not signed, for the log line alone. */
struct ofi_refusal {
    uint32_t magic;
    uint16_t version; /* of who refuses */
    uint16_t reason;
};

enum ofi_kind {
    OFI_PROVE = 1,
    OFI_PROVEN,
    OFI_REFUSE,     /* after the proof: reason, and the life that is remembered */
    OFI_PLACE_WANT, /* a client's, to a host that gives places */
    OFI_PLACE,
    OFI_WANT,     /* lanes that the sender will write or read at the receiver */
    OFI_AT,       /* where they are */
    OFI_PROMISED, /* the promised word of a region of the sender */
    OFI_RAISE,
    OFI_RAISED,
    OFI_PULSE, /* I live */
    OFI_BELL,  /* wake up */
    OFI_LEAVE, /* I end, in order */
    OFI_NEWS, /* hosts that the sender reaches since now: who waits to try again need not; clients that it knows */
    OFI_LOOK, /* a client's that wants no place: what do you show of yourself? */
    OFI_PAGE, /* a part of that */
    OFI_FACTS, /* struct ofi_fact, what has to be the same for both; before anything else */
    OFI_ROLL,  /* of hosts: struct roll_item, what the sender knows of all; its own is the last */
    OFI_END,   /* the sender has ended that lane, which it owns or writes */
    OFI_FIRST, /* with a place, and of a client that has one: struct roll's `first`, by host */
    OFI_KINDS
};

/* Before every message. */
struct ofi_head {
    uint16_t kind;
    uint16_t count; /* items that follow; 1 where there is no list */
    uint32_t bytes; /* of the whole, head included: a multiple of 8 */
};

struct ofi_prove {
    struct ofi_head head;
    uint64_t birth;
    uint32_t life;
    uint32_t unused;
    unsigned char nonce[32];
    unsigned char mac[OFI_MAC_BYTES];
};

struct ofi_proven {
    struct ofi_head head;
    uint64_t birth;
    unsigned char mac[OFI_MAC_BYTES];
};

struct ofi_refuse {
    struct ofi_head head;
    uint32_t reason;
    uint32_t life;
};

struct ofi_place {
    struct ofi_head head;
    uint32_t node; /* wanted: OFI_ANY for any */
    uint32_t life;
};

struct ofi_want {
    uint32_t id; /* the sender's, back in the answer */
    struct mem_lane_spec spec;
};

struct ofi_end {
    struct mem_lane_spec spec;
    uint32_t unused;
};
_Static_assert(sizeof(struct ofi_want) % 8 == 0 && sizeof(struct ofi_end) % 8 == 0,
               "messages are multiples of 8");

struct ofi_at {
    uint32_t id;
    uint32_t matches; /* 0: the sizes differ; then ctl and ring are the owner's sizes */
    uint64_t key;
    uint64_t ctl; /* addresses as the provider wants them */
    uint64_t ring;
};

struct ofi_promised {
    uint32_t region;
    uint32_t unused;
    uint64_t value;
    uint64_t key; /* where it can be read */
    uint64_t address;
};

struct ofi_news {
    uint32_t node;
    uint32_t life; /* of a client's place, to the host that gives it: it was there in this life */
};

struct ofi_raise {
    uint32_t region;
    uint32_t status; /* answer: enum mem_status */
    uint64_t id;     /* the asker's */
    uint64_t ballot; /* answer: the promised word */
};

/* The first word of a part: how many words there are in all, and which one comes next. */
static inline uint64_t ofi_part(uint32_t total, uint32_t first)
{
    return (uint64_t)total << 32 | first;
}

enum {
    OFI_WORDS_MAX =
        (OFI_MESSAGE_MAX - sizeof(struct ofi_head)) / sizeof(uint64_t) - 1, /* of a part */
    OFI_WANTS_MAX = (OFI_MESSAGE_MAX - sizeof(struct ofi_head)) / sizeof(struct ofi_want),
    OFI_NEWS_MAX = (OFI_MESSAGE_MAX - sizeof(struct ofi_head)) / sizeof(struct ofi_news),
    OFI_ROLLS_MAX = (OFI_MESSAGE_MAX - sizeof(struct ofi_head)) / sizeof(struct roll_item),
    OFI_ENDS_MAX = (OFI_MESSAGE_MAX - sizeof(struct ofi_head)) / sizeof(struct ofi_end),
    OFI_ATS_MAX = (OFI_MESSAGE_MAX - sizeof(struct ofi_head)) / sizeof(struct ofi_at),
};

/* Is it a whole message of a known kind, with as many items as its length says? Its head, or NULL. */
const struct ofi_head *ofi_message(const void *data, size_t bytes);

/* The items of a message that has passed. */
static inline const void *ofi_items(const struct ofi_head *h)
{
    return h + 1;
}

/* Bytes of a message with so many items. */
uint32_t ofi_message_bytes(enum ofi_kind, uint32_t count);

/* ---- proving ---- */

struct ofi_auth {
    unsigned char key[OFI_KEY_BYTES]; /* derived */
    unsigned char cluster[4];
};

void ofi_auth_init(struct ofi_auth *, const unsigned char key[OFI_KEY_BYTES], const char *cluster);

/* Fills in what is the same in every hello, draws the nonce and signs. */
void ofi_hello_make(const struct ofi_auth *, uint32_t from, uint32_t to, uint32_t life,
                    struct ofi_hello *);

/* Whatever the bytes are: OFI_WELCOME and *out, or why not. */
enum ofi_reason ofi_hello_check(const struct ofi_auth *, const void *data, size_t bytes,
                                uint32_t self, struct ofi_hello *out);

void ofi_prove_make(const struct ofi_auth *, const struct ofi_hello *, uint32_t life,
                    uint64_t birth, struct ofi_prove *);
bool ofi_prove_check(const struct ofi_auth *, const struct ofi_hello *, const struct ofi_prove *);
void ofi_proven_make(const struct ofi_auth *, const struct ofi_hello *, const struct ofi_prove *,
                     uint64_t birth, struct ofi_proven *);
bool ofi_proven_check(const struct ofi_auth *, const struct ofi_hello *, const struct ofi_prove *,
                      const struct ofi_proven *);

#endif
