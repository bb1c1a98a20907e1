/* The numbers of regions and the names of lanes, for all protocols: whoever adds a kind of either adds it here.
 *
 * A region's number says what it is for (its class) and which of them it is. A lane is named by its owner, its
 * writer, its region, and within these by what it carries and, where there are several alike, which of them it is. */
#ifndef LANE_NAMES_H
#define LANE_NAMES_H

#include "mem/mem.h"

/* Where the numbers of a class begin; they end where the next one begins. */
enum region_class {
    REGION_GROUP = 0,          /* a replica's part of a group */
    REGION_CELL = 1 << 20,     /* a member's part of a cell */
    REGION_VIEW_LOG = 1 << 21, /* the log of the views */
    REGION_MEMBER =
        3 << 20, /* what the hosts of a group with views tell each other, whatever their view */
    REGION_EDGE = 1 << 30, /* what a group tells the nodes of another, whose stream it takes */
};

enum lane_kind {
    LANE_LOG = 1,    /* owner: a replica; writer: a replica as leader; ring of entries */
    LANE_ROW = 2,    /* owner: a replica; writer: a replica; what it says of itself */
    LANE_SNAP = 3,   /* owner: a replica; writer: a replica as leader; ring of snapshot bytes */
    LANE_SOURCE = 4, /* owner: a replica; writer: source number `index`; ring of frames */
    LANE_ACK = 5,    /* owner: source number `index`; writer: a replica; how far it was taken */
    LANE_REPLY = 8,  /* owner: a client; writer: a replica; ring of replies */
    LANE_SEND = 9,   /* common; writer: a sender of a cell; ring of its messages */
    LANE_REPORT =
        10,         /* common; owner: a keeper; writer: a host; what it has of the view that ends */
    LANE_VIEW = 11, /* common; owner: a host; writer: a keeper; the last view */
    LANE_STATE =
        12, /* common; owner: a host; writer: a host; ring of a cell's state for one that has none */
    LANE_ASK = 13, /* common; owner: host number `index`; writer: a host; ring of what it asks */
    LANE_NEB =
        24, /* owner: a member or a memory; writer: a member; what it has heard of others (agree/bft_neb.h) */
    LANE_ANSWER = 14, /* common; owner: host number `index`; writer: a host; ring of its answers */
    LANE_BODY = 15,   /* common; writer: a sender of a cell; its large messages */
    LANE_BLOCK = 16,  /* owner: a host; writer: a host; ring of blocks of large messages */
    LANE_REQUEST =
        20, /* owner: a host; writer: a client; ring of what it wants published or asks */
    LANE_RELAYED = 21, /* owner: a client; writer: a host; ring of what became of that */
    LANE_FED = 22,     /* owner: a host; writer: a client; how far it has taken its samples */
    LANE_FEED = 23,    /* owner: a client; writer: a host; ring of samples */
    LANE_TALK = 25,    /* owner: a member; writer: a member; ring of frames (agree/bft_wire.h) */
    LANE_SIGNED =
        26, /* owner: a member; writer: source number `index`; what it has signed (agree/bft_stretch.h) */
};

static inline enum region_class region_class(uint32_t number)
{
    return number >= REGION_EDGE       ? REGION_EDGE
           : number >= REGION_MEMBER   ? REGION_MEMBER
           : number >= REGION_VIEW_LOG ? REGION_VIEW_LOG
           : number >= REGION_CELL     ? REGION_CELL
                                       : REGION_GROUP;
}

static inline uint32_t region_index(uint32_t number)
{
    return number - (uint32_t)region_class(number);
}

static inline uint32_t region_number(enum region_class c, uint32_t index)
{
    const uint64_t number = (uint64_t)c + index;
    CHECK(number <= UINT32_MAX && region_class((uint32_t)number) == c);
    return (uint32_t)number;
}

/* A kind stands in the low byte of spec.kind, and the index above it. */
static inline struct mem_lane_spec lane_spec(uint32_t region, uint32_t owner, uint32_t writer,
                                             enum lane_kind kind, uint32_t index)
{
    CHECK(index < 1 << 24);
    return (struct mem_lane_spec){
        .owner = owner, .writer = writer, .region = region, .kind = (uint32_t)kind | index << 8};
}

static inline enum lane_kind lane_kind(const struct mem_lane_spec *s)
{
    return (enum lane_kind)(s->kind & 0xff);
}

static inline uint32_t lane_index(const struct mem_lane_spec *s)
{
    return s->kind >> 8;
}

#endif
