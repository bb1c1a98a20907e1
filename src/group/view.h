/* A view: who is a member from when on, which cells they form, and where the view before it ended.
 *
 * Views are entries of a log that the keepers replicate (group/keeper.h), so everybody who knows of view v knows the same. A *cell* is
 * one shard of one subgroup. Hosts are known by their number in the cluster file, which is that of their node; sets of hosts are masks.
 *
 * A *life* names a member beyond its process: the process's life in the memory, plus one, and in the low 16 bits how often that process was
 * put out of a view while it lived. 0: nobody. Each life is let in once at most (`seen`).
 *
 * A struct view is plain data; it is made, changed and freed by its owner. */
#ifndef GROUP_VIEW_H
#define GROUP_VIEW_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    GROUP_HOSTS_MAX = 64, /* a set of hosts is one word */
    GROUP_CELLS_MAX = 256,
    GROUP_KEEPERS_MAX = 9,
    VIEWS_MAX = (1 << 24) - 1, /* the highest vid: what a stamp has room for */
    GENERATIONS_MAX = 1 << 20, /* of keepers: each has a log in a region of its own */
};

/* What is numbered in a view: its vid above 40 bits of a count. One atomic word, which rises over views too. */
#define STAMP_COUNT_BITS 40
#define STAMP_COUNT_MAX ((UINT64_C(1) << (STAMP_COUNT_BITS - 1)))

static inline uint64_t stamp(uint64_t vid, uint64_t count)
{
    return vid << STAMP_COUNT_BITS | count;
}

static inline uint64_t stamp_vid(uint64_t s)
{
    return s >> STAMP_COUNT_BITS;
}

static inline uint64_t stamp_count(uint64_t s)
{
    return s & ((UINT64_C(1) << STAMP_COUNT_BITS) - 1);
}

static inline bool in_set(uint64_t set, uint32_t host)
{
    return host < 64 && set >> host & 1;
}

static inline uint64_t set_of(uint32_t host)
{
    return UINT64_C(1) << host;
}

/* By hand: not every processor that this is compiled for has an instruction for it. */
static inline uint32_t set_count(uint64_t set)
{
    set -= set >> 1 & UINT64_C(0x5555555555555555);
    set = (set & UINT64_C(0x3333333333333333)) + (set >> 2 & UINT64_C(0x3333333333333333));
    set = (set + (set >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (uint32_t)(set * UINT64_C(0x0101010101010101) >> 56);
}

/* All hosts, of which there are so many. */
static inline uint64_t set_all(uint32_t hosts)
{
    return hosts < 64 ? set_of(hosts) - 1 : UINT64_MAX;
}

/* The lowest of a set that is not empty. */
static inline uint32_t set_first(uint64_t set)
{
    return (uint32_t)__builtin_ctzll(set);
}

/* How many of the set are below the host: its rank there. */
static inline uint32_t set_rank(uint64_t set, uint32_t host)
{
    return set_count(set & (set_of(host) - 1));
}

/* Without its lowest: for (uint64_t rest = set; rest; rest = set_rest(rest)) ... set_first(rest). */
static inline uint64_t set_rest(uint64_t set)
{
    return set & (set - 1);
}

enum view_cell_state {
    CELL_UNBORN, /* it never had members: the first begin with a new state */
    CELL_LIVES,  /* somebody in it has its state, or begins it */
    CELL_VACANT, /* nobody who is left has its state; its last members are in `members_last` */
};

struct view_cell {
    enum view_cell_state state;
    uint64_t born;    /* the vid in which it began: who is in it then has its state, which is new */
    uint64_t members; /* by host; their rank is their order */
    uint64_t senders; /* of the members; the i-th of them has index i */
    uint64_t stateful; /* of the members: have its state when the view begins */
    /* Not members yet: they are sent a large state, and what is delivered since, and nobody waits for them. */
    uint64_t learners;
    uint64_t members_last; /* vacant: who was in it last; else 0 */
    /* Of a cell that is kept on disks (group/restart.h): logs that reach this version have all that was delivered before this view. Vacant: what was
     * delivered in `last`, the last view in which it lived, is in logs of that; 0: nothing was that is not below the cut. Of a cell whose logs are written
     * behind: in view `last` it went on from disks, from this version on; 0: it never did. */
    uint64_t cut, last;
    /* Where the view before ended, by the senders that it had there: of each, messages and nulls below this count are
     * delivered in it, and none beyond. None if nobody who was in the cell has ended it in order. */
    uint32_t trims;
    uint64_t trim[GROUP_HOSTS_MAX];
};

/* Who decides on the view that follows. Generation 0 is the keepers that the hosts were opened with, and is not written out: its count is 0. */
struct view_keepers {
    uint32_t generation, count;
    uint32_t host[GROUP_KEEPERS_MAX]; /* by rank in their log; distinct */
    uint64_t life
        [GROUP_KEEPERS_MAX]; /* that each was last seen in when it was named: in no earlier one it has had a part of that log; 0: it was never seen */
};

struct view {
    uint64_t vid; /* 0: there is none yet */
    struct view_keepers keepers;
    uint32_t hosts, cells;
    bool adequate;    /* false: a cell has fewer members than it must; nobody publishes */
    uint64_t members; /* who has a life */
    uint64_t leavers; /* left in order: ended the view before, and are not in this one */
    uint64_t life[GROUP_HOSTS_MAX]; /* of members; of others 0 */
    uint64_t seen[GROUP_HOSTS_MAX]; /* the highest life that was ever let in, of everybody */
    struct view_cell cell[];
};

/* A view with vid 0: nobody, and all cells unborn. */
int view_open(uint32_t hosts, uint32_t cells, struct view **, struct err *);
void view_close(struct view *);

/* Both have as many hosts and cells. */
void view_copy(struct view *to, const struct view *from);
bool view_equal(const struct view *, const struct view *);

/* Who decides on what follows that view; `first`: in generation 0. And that as a set of hosts. */
const struct view_keepers *keepers_of(const struct view *, const struct view_keepers *first);
uint64_t keepers_set(const struct view_keepers *);

/* As bytes, of which there are at most view_bytes_max, a multiple of 8. Encoding returns how many. Decoding checks everything that it
 * reads, whoever wrote it: false if it is none, or of other hosts or cells than `out` has; what is in `out` then is void. */
uint32_t view_bytes_max(uint32_t hosts, uint32_t cells);
uint32_t view_encode(const struct view *, unsigned char *out);
bool view_decode(const unsigned char *in, uint32_t bytes, struct view *out);

/* NULL, or which rule the view breaks: senders are members, members have lives, a cell that lives has somebody with state, ... */
const char *view_check(const struct view *);

#endif
