/* A table of shared state: a row of words for each of n ranks, which its rank writes and all others read.
 *
 *            word 0   word 1   ...
 *   rank 0 |        |        |        every node has a copy of all of it: its own row as it set it, the others' as
 *   rank 1 |        |        |        they were last pushed to it
 *
 * A rank sets words of its own row, then pushes them: the writes go out one by one, and what is told with several words
 * takes several pushes, since the words of one land in any order. Nothing is promised of when, or whether, a push lands:
 * after a loss the whole row goes out again with the next push, and who wants to be heard pushes now and then.
 *
 * A table belongs to the thread that polls its node's memory. Nothing is allocated after table_open. */
#ifndef LANE_TABLE_H
#define LANE_TABLE_H

#include "base/err.h"
#include "mem/mem.h"

/* What a word may do within a life of its rank. */
enum table_kind {
    TABLE_FREE,  /* anything */
    TABLE_RISES, /* never fall */
};

struct table_spec {
    const enum table_kind *kind; /* by word; NULL: all are free */
    const uint32_t *nodes;       /* by rank; distinct */
    uint32_t words;              /* at most TABLE_WORDS_MAX */
    uint32_t ranks;
    uint32_t me;     /* which rank this is */
    uint32_t region; /* at every node */
    uint32_t lane;   /* kind of the lanes that carry the rows */
    /* Rows are common lanes: blank in each life of their rank, and one memory for all where the memory is shared. What a
     * life has left is read until table_next. */
    bool common;
};

enum { TABLE_WORDS_MAX = 64, TABLE_PREDICATES_MAX = 16 };

/* When a predicate acts. */
enum table_when {
    TABLE_ONCE, /* when its test is first true; then it is removed */
    TABLE_EACH, /* in every step in which it is true */
    TABLE_EDGE, /* when it turns true */
};

struct table;

/* The test reads the table; the act may set words of the own row, which the caller pushes afterwards. */
struct table_predicate {
    enum table_when when;
    bool (*test)(const struct table *, void *ctx);
    void (*act)(struct table *, void *ctx);
    void *ctx;
    bool was; /* the table's: what the test said last */
};

/* How one rank is reached. */
struct table_peer {
    struct mem_lane *out;
    struct mem_flow flow;
    uint32_t losses; /* times that the flow was lost and opened again */
    bool whole;      /* it gets the whole row next: a part of it may be missing there */
};

/* Look through the functions below. */
struct table {
    struct mem *mem;
    struct table_spec spec; /* nodes is a copy, kind is void */
    uint64_t rises;         /* mask of words */
    uint64_t dirty;         /* mask of words that were set since the last push */
    struct table_peer *peer;
    uint64_t marks;
    uint64_t to; /* mask of ranks that pushes go to; TABLE_ALL */
    struct table_predicate predicate[TABLE_PREDICATES_MAX];
    uint32_t predicates;
    uint64_t row[TABLE_WORDS_MAX]; /* our own */
    struct mem_lane own;           /* the same, as if it were a lane like the others */
    struct mem_lane *in[];         /* by rank */
};

/* Opens the lanes and flows of the table. The region must be open. */
int table_open(struct mem *, const struct table_spec *, struct table **, struct err *);
void table_close(struct table *);
/* Ends its lanes and flows, too, while its node goes on. */
void table_end_close(struct table *);

/* A word of the rank's row, as far as it has come here; 0 while that rank is not there. */
static inline uint64_t table_get(const struct table *t, uint32_t rank, uint32_t word)
{
    const struct mem_lane *lane = t->in[rank];
    return lane->ctl ? mem_word(lane, word) : 0;
}

/* Sets a word of the own row; the others see it after a push. */
static inline void table_set(struct table *t, uint32_t word, uint64_t value)
{
    CHECK(!(t->rises >> word & 1) || value >= t->row[word]);
    t->row[word] = value;
    t->dirty |= UINT64_C(1) << word;
}

/* Who gets the pushes from now on: a mask of ranks. One that was not among them gets the whole row first. */
void table_send_to(struct table *, uint64_t ranks);

/* Has a common table show what the newest life of the rank has there. False: it does already. */
bool table_next(struct table *, uint32_t rank);

/* Writes what was set since the last push to all others, one write for each stretch of words. */
void table_push(struct table *);

/* Writes the whole row to all others, in one write each. */
void table_push_row(struct table *);

/* Writes one word, or several that follow each other, as they are now, to one other. They still go out with the next push. */
void table_tell(struct table *, uint32_t rank, uint32_t word);
void table_tell_words(struct table *, uint32_t rank, uint32_t first, uint32_t count);

/* Makes the pushes so far land before anything that this node reads after its next poll. */
void table_mark(struct table *);

/* True unless the way to the rank is lost; a push or tell opens it again. */
static inline bool table_reaches(const struct table *t, uint32_t rank)
{
    return t->peer[rank].flow.status == MEM_DONE;
}

/* The way to the rank, for more than its row: who hears of that has had the rows before it. Writes that went out
 * before table_losses rose may be missing. */
static inline struct mem_flow *table_flow(struct table *t, uint32_t rank)
{
    return &t->peer[rank].flow;
}

static inline uint32_t table_losses(const struct table *t, uint32_t rank)
{
    return t->peer[rank].losses;
}

/* ---- reducers, over the ranks of a mask ---- */

#define TABLE_ALL UINT64_MAX /* as many as there are */

/* UINT64_MAX, 0 if there are none. */
uint64_t table_min(const struct table *, uint32_t word, uint64_t ranks);
uint64_t table_max(const struct table *, uint32_t word, uint64_t ranks);

/* In how many rows any of the bits is set in the word. */
uint32_t table_count(const struct table *, uint32_t word, uint64_t ranks, uint64_t bits);

/* ---- predicates ---- */

/* ERR_TOOBIG: TABLE_PREDICATES_MAX are there. */
int table_when(struct table *, struct table_predicate);

/* Tests all predicates in the order in which they came; returns how many acted. */
int table_step(struct table *);

#endif
