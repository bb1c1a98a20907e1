/* Inside of non-equivocating broadcast: bft_neb.c speaks and writes, bft_neb_hear.c hears. */
#ifndef AGREE_BFT_NEB_IMPL_H
#define AGREE_BFT_NEB_IMPL_H

#include "agree/bft_neb.h"

#include "base/planted.h"

enum probe_state {
    PROBE_FREE,
    PROBE_READ,         /* of the cell */
    PROBE_CHECK,        /* of its signature */
    PROBE_READ_BEFORE,  /* of the cell before it, since it is not good */
    PROBE_CHECK_BEFORE, /* of its signature */
    PROBE_ENDED,
    PROBE_LOST, /* it cannot be read */
};

enum seen {
    SEEN_NOTHING, /* that counts */
    SEEN_EQUAL,   /* a copy of what we have */
    SEEN_PLACE,   /* a good message of the place */
    SEEN_LATER,   /* a good one of a later lap */
};

/* One cell being looked at. What a probe waits for is its own until it has come, so one whose answer nobody waits for any more stays
 * busy, and is passed over until then. */
struct probe {
    enum probe_state state;
    enum seen seen;
    bool stale; /* nobody waits for it */
    struct mem_op op;
    struct neb_cell cell;
    struct sign_job job;
};

enum hearing_state {
    HEAR_FIND, /* a row that has the next message */
    HEAR_COPY, /* it is written to the own row */
    HEAR_LOOK, /* whether anybody has another of its place */
    HEAR_BODY, /* are its bytes here? */
    HEAR_LAPPED,
    HEAR_CONVICTED,
};

/* One member as it is heard. */
struct hearing {
    enum hearing_state state;
    uint64_t next;                           /* key */
    struct neb_cell cell;                    /* what was found */
    uint64_t written;                        /* tag of the write of the copy */
    uint32_t tries;                          /* to find it: rows that were looked into */
    bool looking;                            /* probes are under way for this state */
    struct probe (*probe)[NEB_MEMORIES_MAX]; /* by row and memory */
};

/* Something of our own on its way out. */
struct saying {
    struct sign_job job;
    uint64_t written; /* tag; 0: not yet */
};

struct holder { /* of the own row */
    struct mem_flow flow;
    uint64_t marked;
};

struct neb {
    struct neb_options opt;
    uint32_t nodes[NEB_MEMBERS_MAX], life[NEB_MEMBERS_MAX];
    uint32_t holders; /* of each row */
    uint32_t needed;  /* of these, to have written or read */
    struct mem_lane *lane[NEB_MEMBERS_MAX][NEB_MEMORIES_MAX];
    struct neb_cell (*mine)[NEB_WINDOW_MAX]; /* the own row, by sender */
    struct holder holder[NEB_MEMORIES_MAX];
    uint64_t tag;

    struct saying say[NEB_WINDOW_MAX / 2]; /* by place */
    uint64_t said, signed_to, delivered; /* own places: broadcast, signed and written, delivered */
    uint64_t vouched;                    /* own place */
    struct hearing hear[NEB_MEMBERS_MAX];
};

static inline uint64_t neb_slot(const struct neb *n, uint64_t place)
{
    return place % n->opt.window;
}

static inline uint64_t neb_offset(const struct neb *n, uint32_t sender, uint64_t place)
{
    return (sender * n->opt.window + neb_slot(n, place)) * sizeof(struct neb_cell);
}

/* Writes a cell of the own row; and has it been written, where it counts? */
uint64_t neb_write(struct neb *, uint32_t sender, const struct neb_cell *);
bool neb_written(const struct neb *, uint64_t tag);

int hearing_post(struct neb *, uint32_t sender);
int hearing_settle(struct neb *, uint32_t sender);

#endif
