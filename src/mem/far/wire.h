/* What two nodes say to each other besides writing and reading memory, once each knows who the other is. Private to
 * the backends that go over a network, and their tests.
 *
 *     both     facts    what has to be the same
 *     both     roll     what they know of all hosts        between hosts
 *     a -> b   first    of which lives its cluster is made of a client that has a place
 *
 * A *birth* is a random number of the process: two processes that claim to be the same node in the same life differ in
 * it.
 *
 * Everything here is a function of bytes: no input or output, no state. All numbers are little-endian
 * and stand where the machine wants them. */
#ifndef MEM_FAR_WIRE_H
#define MEM_FAR_WIRE_H

#include "mem/far/far.h"
#include "mem/roll.h"

#include <stddef.h>

enum { FAR_MESSAGE_MAX = 4096 }; /* bytes of a message, its head included */

/* Why a connection is refused. */
#define FAR_REASON_LIST(X)                                                                         \
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

enum far_reason {
    FAR_WELCOME = 0,
#define FAR_REASON_ENUM_(name, text) FAR_REASON_##name,
    FAR_REASON_LIST(FAR_REASON_ENUM_)
#undef FAR_REASON_ENUM_
        FAR_REASONS
};

const char *far_reason_text(enum far_reason);

enum far_kind {
    FAR_REFUSE = 1, /* reason, and the life that is remembered */
    FAR_PLACE_WANT, /* a client's, to a host that gives places */
    FAR_PLACE,
    FAR_WANT, /* lanes that the sender will write or read at the receiver */
    FAR_AT,   /* where they are */
    FAR_RAISE,
    FAR_RAISED,
    FAR_PULSE, /* I live */
    FAR_BELL,  /* wake up */
    FAR_LEAVE, /* I end, in order */
    FAR_NEWS, /* hosts that the sender reaches since now: who waits to try again need not; clients that it knows */
    FAR_LOOK, /* a client's that wants no place: what do you show of yourself? */
    FAR_PAGE, /* a part of that */
    FAR_FACTS, /* struct far_fact, what has to be the same for both; before anything else */
    FAR_ROLL,  /* of hosts: struct roll_item, what the sender knows of all; its own is the last */
    FAR_END,   /* the sender has ended that lane, which it owns or writes */
    FAR_FIRST, /* with a place, and of a client that has one: struct roll's `first`, by host */
    FAR_GIVEN, /* of a host, to the others: who has the places that it gives */
    FAR_GRANT, /* struct far_raise: a region of a passive owner is to be opened */
    FAR_KINDS  /* the numbers from here on are for what carries the bytes */
};

/* Before every message. */
struct far_head {
    uint16_t kind;
    uint16_t count; /* items that follow; 1 where there is no list */
    uint32_t bytes; /* of the whole, head included: a multiple of 8 */
};

struct far_refuse {
    struct far_head head;
    uint32_t reason;
    uint32_t life;
};

struct far_place {
    struct far_head head;
    uint32_t node; /* wanted: FAR_ANY for any */
    uint32_t life;
};

struct far_want {
    uint32_t id; /* the sender's, back in the answer */
    struct mem_lane_spec spec;
};

struct far_end {
    struct mem_lane_spec spec;
    uint32_t unused;
};
_Static_assert(sizeof(struct far_want) % 8 == 0 && sizeof(struct far_end) % 8 == 0,
               "messages are multiples of 8");

struct far_at {
    uint32_t id;
    uint32_t matches; /* 0: the sizes differ; then ctl and ring are the owner's sizes */
    uint64_t key;
    uint64_t ctl; /* what carries the bytes understands by these */
    uint64_t ring;
};

struct far_news {
    uint32_t node;
    uint32_t life; /* of a client's place, to the host that gives it: it was there in this life */
};

struct far_given {
    uint32_t node;
    uint32_t life;
    uint64_t birth; /* of the client; 0: it has ended, or is not known */
};

struct far_raise {
    uint32_t region;
    uint32_t status; /* answer: enum mem_status; of a grant, the life of the owner */
    uint64_t id;     /* the asker's */
    uint64_t ballot; /* answer: the promised word */
};

/* The first word of a part: how many words there are in all, and which one comes next. */
static inline uint64_t far_part(uint32_t total, uint32_t first)
{
    return (uint64_t)total << 32 | first;
}

enum {
    FAR_WORDS_MAX =
        (FAR_MESSAGE_MAX - sizeof(struct far_head)) / sizeof(uint64_t) - 1, /* of a part */
    FAR_WANTS_MAX = (FAR_MESSAGE_MAX - sizeof(struct far_head)) / sizeof(struct far_want),
    FAR_NEWS_MAX = (FAR_MESSAGE_MAX - sizeof(struct far_head)) / sizeof(struct far_news),
    FAR_GIVENS_MAX = (FAR_MESSAGE_MAX - sizeof(struct far_head)) / sizeof(struct far_given),
    FAR_ROLLS_MAX = (FAR_MESSAGE_MAX - sizeof(struct far_head)) / sizeof(struct roll_item),
    FAR_ENDS_MAX = (FAR_MESSAGE_MAX - sizeof(struct far_head)) / sizeof(struct far_end),
    FAR_ATS_MAX = (FAR_MESSAGE_MAX - sizeof(struct far_head)) / sizeof(struct far_at),
};

/* Is it a whole message of a known kind, with as many items as its length says? Its head, or NULL. */
const struct far_head *far_message(const void *data, size_t bytes);

/* The items of a message that has passed. */
static inline const void *far_items(const struct far_head *h)
{
    return h + 1;
}

/* Bytes of a message with so many items. */
uint32_t far_message_bytes(enum far_kind, uint32_t count);

#endif
