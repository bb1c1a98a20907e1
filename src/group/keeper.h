/* Keepers: the hosts that decide on views, with a replicated log whose entries are views.
 *
 * Every host has a struct keeper: one that is a keeper carries a replica of the view log, closes views and decides on the next; all others
 * only read what keepers tell, and write to them. It uses two kinds of lanes, all common, in the region REGION_MEMBER, which its owner
 * (group/member.h) has opened, between all hosts, for any may come to be a keeper:
 *
 *   LANE_REPORT   to keepers        its report on the view that it wedged
 *   LANE_VIEW     to every host     of keepers: the last view that they know of
 *
 * and reads the top rows of all hosts (enum top_word), in a table that its owner opened, of which it sets TOP_CLOSE.
 *
 * What follows from what:
 *   - A view is closed by the leader of the log, for a claim, join, leave, layout request, death, or anybody's report: TOP_CLOSE = vid.
 *   - The next one is decided when all members of v have reported, or suspect_ns after the close by those who have. It is a note in the log, and
 *     counts if its vid is the applied one plus 1, whoever proposed it; so there is one view of a vid, and one trim.
 *   - It is told by all keepers when it is applied.
 *   - A view may name other keepers, the next *generation* (group/decide.h). It is the last entry of their log that counts; a log of the next generation begins with it
 *     as its state, in a region of its own, at each of the keepers that it names, as soon as they know of it (keeper_move.c). There is one view
 *     that ends a log, so all who begin the next one begin with the same. Who knows of it takes no part in the log before any more, and tells everybody
 *     what it knows.
 *
 * Belongs to the thread that polls its host's memory. Nothing is allocated after keeper_open but by keeper_renew_open. */
#ifndef GROUP_KEEPER_H
#define GROUP_KEEPER_H

#include "agree/log.h"
#include "group/layout.h"
#include "group/view.h"
#include "lane/table.h"

/* Words of a top row, which every host writes and all hosts read. All but CLAIMS only rise within a process's life. */
enum top_word {
    TOP_LIFE, /* the life it is in; set and pushed before all else */
    TOP_BEAT, /* rises while it is polled */
    TOP_VIEW, /* the vid that it has begun; of another life than TOP_LIFE says it counts for nothing */
    TOP_CLAIMS, /* members of its view that it does not hear: a set */
    TOP_CLOSE, /* of keepers: views up to this one are closed; of members where memory is shared: it delivers no more in them */
    TOP_LEAVES, /* the life that wants to leave, or, of who has left, not to be let in: LIFE above `seen` asks for that unless LEAVES is it */
    TOP_WANTS,  /* rises with each request for another layout */
    TOP_BUSY, /* odd: it is in a call of the machine that may take long, and is not silent for that */
    TOP_WORDS,
};

/* What a member says of a view that it has wedged. Written once in a view. */
struct cell_report {
    bool has_state;
    bool large;       /* and it is large: who comes without it is to learn it first */
    uint32_t learnt;  /* whom it sends the state, and who is nearly up to date: host + 1 */
    uint32_t senders; /* that the cell had in that view */
    uint64_t
        held[GROUP_HOSTS_MAX]; /* by sender: what it holds, messages and nulls below this count */
};

struct report {
    uint64_t vid, life;
    const struct cell_report *cell; /* by cell; one that it is not in has no senders */
};

/* What a host's disk has: of each cell the version that it reaches (group/restart.h), and in which life of its the disk was a new one. It is said by
 * who is in no view, and again at the begin of each view in which a cell is vacant. */
struct found_report {
    uint64_t life, vid; /* vid: of the view that it is in; 0: none */
    uint64_t made;
    const uint64_t *reach; /* by cell; 0: nothing */
};

struct keeper_options {
    struct mem *mem;
    uint32_t hosts, me;
    const uint32_t *keepers; /* hosts; distinct */
    uint32_t keepers_count;  /* 1 to GROUP_KEEPERS_MAX */
    bool keepers_stay;       /* nobody takes the place of one who is gone */
    struct layout_options layout;
    /* More than half of a view must end it in order: go over to the next, or leave. */
    bool view_majority;
    uint32_t cells;
    struct table *top;                                        /* rows of all hosts, rank = host */
    uint64_t heartbeat_ns, suspect_ns, stagger_ns, detach_ns; /* as in log_options */
    uint64_t start_ns; /* view 1 waits until nobody new has come for so long; 0: 200 ms */
    uint64_t seed;
    struct log_budget *budget; /* of the host */

    /* Groups that are kept: all hosts have disks. The view log is on those of the keepers, as their group number 0, and goes on from there when all of them lost power. NULL: it is
     * in memory alone. */
    struct disk *disk;
    const unsigned char *kept; /* by cell: enum cell_kept (group/decide.h); NULL: no cell is */
    bool stateless;            /* a cell that is not kept has no state, and begins anew */
};

struct keeper;

/* Of the ring of its log: a disk must take as much at once. */
uint32_t keeper_log_bytes(uint32_t hosts, uint32_t cells);

int keeper_open(const struct keeper_options *, struct keeper **, struct err *);
void keeper_close(struct keeper *);

/* As of a unit, of which this is a part. They do not push the table: who owns it does, after keeper_post. */
int keeper_post(struct keeper *, uint64_t now_ns);
int keeper_settle(struct keeper *, uint64_t now_ns);
uint64_t keeper_next_ns(const struct keeper *);
/* Between rounds, if it says so: opens the log that it has to carry on, ends those that are over. Takes and gives back memory. */
bool keeper_renews(const struct keeper *);
void keeper_renew_open(struct keeper *);
/* Over a network a heartbeat that is due within that part of one goes with whatever is sent before a sleep. */
enum { BEAT_EARLY = 4 };
/* In the next settle it looks at everything, also at what is looked at now and then only. */
void keeper_look(struct keeper *, uint64_t now_ns);

/* The newest view that any keeper has told of, or that the own log has decided; its vid is 0 if there is none. It stays as it is until the next
 * post or settle. */
const struct view *keeper_view(const struct keeper *);

/* Tells all keepers, and tells those again who were out of reach, until the next report. */
void keeper_report(struct keeper *, const struct report *);

/* Likewise, what the own disk has; in place of a report. */
void keeper_found(struct keeper *, const struct found_report *);

/* A reset of a vacant cell: it is unborn in the next view. False: not now (no leader here, or not vacant). Only where the log leads. */
bool keeper_reset_cell(struct keeper *, uint32_t cell);

/* What people are told, and tests. NULL where this host is no keeper. */
struct log *keeper_log(const struct keeper *);

/* Who decides on what follows that view: as a set of hosts, and in the order of their ranks. */
uint64_t keeper_set(const struct keeper *, const struct view *);
const struct view_keepers *keeper_list(const struct keeper *, const struct view *);

/* The newest generation that it has gone over to; and whether it carries the log of that one, and could go on with it. */
uint32_t keeper_generation(const struct keeper *);
bool keeper_carries(const struct keeper *);

/* NULL, or the view that it has proposed and that the log has not decided yet. For checkers: whoever leads next may find it, and have it decided. */
const struct view *keeper_proposal(const struct keeper *);

/* Nobody counts on this host: if it was a keeper and others have taken its place, most of them know of it. Before that its end could be one too many. */
bool keeper_is_relieved(const struct keeper *);

/* NULL, or why the keeper has stopped for good (its log is broken, or lost with a majority of keepers). */
const char *keeper_broken(const struct keeper *);
/* NULL, or for what the next view waits, as a sentence: a majority, keepers, members of a cell. */
const char *keeper_waits(const struct keeper *);

/* NULL, or which rule is broken. */
const char *keeper_check(const struct keeper *);

#endif
