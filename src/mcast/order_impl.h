/* The inside of an order. Files: order.c has the rules; order_items.c stores messages, their turns and marks;
 * order_save.c writes and reads snapshots; order_check.c checks what must hold. */
#ifndef MCAST_ORDER_IMPL_H
#define MCAST_ORDER_IMPL_H

#include "mcast/order.h"

#include <string.h>

enum {
    ORDER_NONE = UINT32_MAX,
    ORDER_BLOCK_BYTES = 128, /* most messages fit as many */
    ORDER_GROUP_BITS = 10,   /* of a stamp, so that no two groups give the same */
};
_Static_assert(DST_GROUPS_MAX <= 1 << ORDER_GROUP_BITS, "a stamp names its group");

/* A message that is not delivered here. The head is one cache line, and most payloads stand next to it:
 * there are many, and each is looked up for every stamp. */
struct item {
    struct message_id id;
    uint64_t own;     /* our stamp; 0: the message is still to come */
    uint64_t high;    /* highest stamp heard; the final one when all have been */
    uint64_t from;    /* groups that have sent stamps: a bit for each of the first 64 groups */
    uint32_t bytes;   /* of payload */
    uint32_t block;   /* where the payload goes on, in a chain of blocks; or ORDER_NONE */
    uint32_t next;    /* in its bucket, or among the free */
    uint16_t missing; /* stamps, once the message is there */
    uint16_t heard;   /* stamps of others */
    uint16_t seen;    /* times that order_watch found it waiting; not part of the state */
    bool relayed;
    bool away; /* another group collects the stamps; only the final one is missing */
    _Alignas(8) unsigned char payload[ORDER_BLOCK_BYTES]; /* its first bytes */
};
_Static_assert(offsetof(struct item, payload) == 64, "the head of an item is a cache line");

/* A message with a stamp that says when its turn is. */
struct turn {
    uint64_t stamp;
    uint32_t item;
};

/* Messages of one client that came by relay, and that it may still send itself. */
struct marks {
    struct message_id *id;
    uint32_t count, max;
};

struct order {
    struct order_options opt;
    uint64_t clock;     /* of the highest stamp given or heard */
    uint64_t given;     /* the last stamp of our own; as far as it is known, likewise: */
    uint64_t delivered; /* final stamp of the last message delivered */

    struct item *item;
    uint64_t *more;      /* as item.from, for groups beyond the first 64: words of bits */
    uint32_t more_words; /* an item */
    uint32_t items;      /* room */
    uint32_t used;       /* not free */
    uint32_t free_item;
    uint32_t *bucket; /* by hash; as many as items */

    /* Those with a stamp of our own, in the order of these: a ring. What is complete, or delivered, stays
     * until it comes first. */
    struct turn *queue;
    uint64_t queue_from, queue_end, queue_max;

    /* Those that are complete, lowest final stamp first. */
    struct turn *heap;
    uint32_t heap_count;

    unsigned char (*block)[ORDER_BLOCK_BYTES];
    uint32_t *block_next;
    uint32_t blocks, free_block, blocks_free;

    unsigned char *whole; /* a payload of several blocks in one piece */
    uint32_t whole_max;
    struct marks *marks; /* by client */
};

/* ---- finding: inline, it is done for every stamp ---- */

static inline uint32_t *order_bucket(const struct order *o, const struct message_id *id)
{
    /* Neighbours in a client's stream are neighbours here: they come and go together. */
    uint64_t h =
        id->seq + ((uint64_t)id->client << 16 | id->life) * UINT64_C(0x9e3779b97f4a7c15) / 2;
    return &o->bucket[(h ^ h >> 40) & (o->items - 1)];
}

static inline bool order_same_id(const struct message_id *a, const struct message_id *b)
{
    return a->seq == b->seq && a->client == b->client && a->life == b->life;
}

static inline uint32_t order_find(const struct order *o, const struct message_id *id)
{
    uint32_t i = *order_bucket(o, id);
    while (i != ORDER_NONE && !order_same_id(&o->item[i].id, id))
        i = o->item[i].next;
    return i;
}

static inline const struct message *order_header(const void *payload)
{
    return payload;
}

/* ---- storage (order_items.c) ---- */

/* A new item without stamps, which is not here yet; or the end of one, which is. */
uint32_t order_add(struct order *, const struct message_id *);
void order_forget(struct order *, uint32_t item);

/* The item is complete; or the first of those goes. */
void order_heap_add(struct order *, uint32_t item);
void order_heap_drop(struct order *);

/* The item has our stamp and waits for others. */
void order_queue_add(struct order *, uint32_t item);

void order_keep_payload(struct order *, struct item *, const void *payload, uint32_t bytes);

/* In one piece, until the next call. */
const void *order_payload(struct order *, const struct item *);

void order_marks_add(struct order *, const struct message_id *);

/* Nothing is left of what was there. */
void order_clear(struct order *);

#endif
