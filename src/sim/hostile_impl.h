/* Inside of members that lie: hostile.c has their operations, hostile_row.c what their memory shows to whom. */
#ifndef SIM_HOSTILE_IMPL_H
#define SIM_HOSTILE_IMPL_H

#include "sim/hostile.h"

enum {
    HOSTILE_MEMBERS_MAX = NEB_MEMBERS_MAX,
    HOSTILE_CLIENTS_MAX = 8,
    HOSTILE_OTHERS_MAX = HOSTILE_MEMBERS_MAX + HOSTILE_CLIENTS_MAX,
    HOSTILE_ROWS_MAX = 4,
    HOSTILE_PAST_MAX = 64,
    HOSTILE_PAST_BYTES = 4096,
    HOSTILE_LATER_MAX = 512,
};

/* A write into an own lane, which others read where it is. */
struct row_write {
    uint64_t when_ns;
    uint64_t at;
    uint32_t bytes;
    uint32_t twin;
    unsigned char *data;
};

/* What a reader sees of a row: the writes of one twin, up to some. */
struct row_shown {
    unsigned char *ring;
    uint32_t upto, twin;
    uint64_t late_ns;
};

struct row {
    struct mem_lane_spec spec;
    struct row_write *write;
    uint32_t writes, writes_max;
    struct row_shown shown[HOSTILE_MEMBERS_MAX]; /* by rank of the reader */
};

/* A write that happens later, or happened before. */
struct hostile_write {
    uint64_t due_ns;
    struct mem_lane *lane;
    bool words; /* control words, else ring bytes */
    uint64_t at;
    uint32_t bytes;
    unsigned char *data;
};

struct hostile {
    struct hostiles *all;
    uint32_t rank;
    struct mem *mem;           /* NULL: it is down */
    const struct mem_ops *ops; /* that tell the truth */
    struct mem_ops table;
    uint32_t twin;
    uint32_t regions; /* opened in this life, by a twin, */
    struct {
        uint32_t region;
        enum mem_birth birth; /* as the first of them found it */
    } region[HOSTILE_ROWS_MAX];
    struct mem_flow flow[HOSTILE_OTHERS_MAX]; /* of its own, to each member and client */
    struct row row[HOSTILE_ROWS_MAX];
    uint32_t rows;
    struct hostile_write past[HOSTILE_PAST_MAX];
    uint64_t pasts;
    struct hostile_write later[HOSTILE_LATER_MAX];
    uint32_t laters;
    struct {
        uint32_t rank, bytes; /* 0: nothing */
        unsigned char from[HOSTILE_PAST_BYTES], to[HOSTILE_PAST_BYTES];
    } swap;

    /* Drawn for a run, or for a stretch of it. */
    enum hostile_strategy strategy;
    uint64_t until_ns;  /* the next draw */
    uint32_t rate;      /* lies in a thousand writes */
    uint32_t peers;     /* mask of ranks, */
    uint32_t kinds;     /* and of lane kinds, that they are about */
    uint32_t clients;   /* mask of those that it leaves out */
    uint64_t late_ns;   /* at most */
    uint64_t clock_ppm; /* how fast its clock is */
    uint64_t clock_ns, clock_at_ns;
};

struct hostiles {
    struct hostiles_options opt;
    uint32_t nodes[HOSTILE_MEMBERS_MAX];
    struct hostile *of[HOSTILE_MEMBERS_MAX]; /* NULL: it does not lie */
    struct rng rng;
    uint32_t side; /* mask of ranks to which the second twins show themselves */
    bool calm;
    uint32_t way_from, way_to; /* nodes between which it is slow, until then; 0: it never was */
    uint64_t way_until_ns;
    struct hostile_figures figures;
};

static inline bool hostile_draw(struct hostile *h, uint64_t of_thousand)
{
    return rng_below(&h->all->rng, 1000) < of_thousand;
}

/* Some of it becomes something else. */
void hostile_spoil(struct hostile *, void *data, uint32_t bytes);

/* hostile_row.c */

/* By rank, and clients behind the members that there may be; UINT32_MAX: neither. */
uint32_t hostile_other(const struct hostiles *, uint32_t node);

/* What the node is by rank; UINT32_MAX: no member. */
uint32_t hostile_rank(const struct hostiles *, uint32_t node);
struct row *hostile_row(struct hostile *, const struct mem_lane_spec *);
void hostile_row_write(struct hostile *, struct row *, uint64_t at, const void *data,
                       uint32_t bytes, uint64_t late_ns);
void hostile_rows_free(struct hostile *);
void hostile_shows(struct hostile *, uint32_t reader, const struct mem_lane_spec *, uint64_t at,
                   void *words, uint32_t bytes);

/* hostile_cell.c */

/* A cell has been written into a row: what else comes to stand there. */
void hostile_cell_lies(struct hostile *, struct row *, uint64_t at, const struct neb_cell *);

#endif
