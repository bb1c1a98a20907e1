/* The inside of a keeper. Files: keeper_open.c opens and closes it; keeper.c steps it, takes reports and views, applies what the log
 * decides; keeper_lead.c closes views and decides on the next; keeper_move.c goes from one generation of keepers to the next; report.c has reports as
 * bytes. */
#ifndef GROUP_KEEPER_IMPL_H
#define GROUP_KEEPER_IMPL_H

#include "group/decide.h"
#include "group/keeper.h"
#include "group/notice.h"

enum {
    WAITS_TEXT_BYTES = 160,
    KEEPERS_LEAST = 3, /* where what they decide outlives their processes; else one will do */
    LOGS_OVER_MAX = 4, /* of earlier generations, of which something is still under way */
    GENERATION_BITS =
        40, /* positions and ballots of a generation's log are its number above so many bits */
};

/* What a keeper knows of a host. */
struct keeper_host {
    struct notice_reader reader; /* its reports; no lane for this host */
    struct report report;        /* the last; its vid is 0 if there is none */
    struct found_report found;   /* likewise; its life is 0 if there is none */
    uint64_t beat;               /* of its row, as it was seen last, */
    uint64_t beat_life;          /* in that life, */
    uint64_t beat_ns;            /* and when it moved; 0: never */
    uint64_t life_ns;            /* when that life was seen first */
    uint32_t turns;              /* times that it was put out soon after it was let in */
    uint64_t wants;              /* of its row, as of when the applied view was laid out, */
    uint64_t wants_next;         /* and as of when the one was that is proposed */
};

/* The machine of the view log; its state is the view that it has decided last. First, so that a ctx is both. */
struct view_machine {
    struct keeper *keeper;
    struct view *applied;
    struct view *coming; /* what was read is decoded here first */
    unsigned char *save, *load;
    uint32_t bytes_max;
    uint32_t save_bytes, save_at, load_at;
};

struct keeper {
    struct keeper_options opt; /* keepers is void */
    struct view_keepers first; /* generation 0 */
    unsigned char *kept;       /* a copy, or NULL */
    uint64_t now_ns;

    /* Every host. */
    struct view *view;                             /* the newest */
    struct view *told;                             /* what was read is decoded here first */
    struct notice_reader view_in[GROUP_HOSTS_MAX]; /* no lane for this host */
    uint64_t heard[GROUP_HOSTS_MAX];               /* vid of the view that each has told last */
    struct notice_writer report_out;
    unsigned char *bytes; /* for what is read: a view or a report */
    uint32_t view_bytes_max, report_bytes_max;
    uint64_t next_ns; /* when lanes are looked at for new lives */

    /* Keepers. */
    struct log *log; /* NULL: this host is none */
    struct view_keepers
        of; /* whose it is; without one: the last generation that this host has gone over to */
    uint32_t opens;                  /* it has to open the log of `of`, as that rank; plus 1 */
    struct log *over[LOGS_OVER_MAX]; /* NULL: none */
    uint64_t relieved;    /* vid of the view by which others have taken its place; 0: none have */
    struct log_past past; /* what the disk has of a log that is over */
    uint32_t had;         /* the generation that the disk had when this life began */
    char failure[ERR_TEXT_BYTES];
    struct view_machine machine;
    struct notice_writer view_out;
    uint64_t view_told; /* vid */
    struct keeper_host *host;
    struct cell_report *cell_report; /* of all hosts */
    uint64_t *reach;                 /* of all hosts */

    /* The leader. */
    struct decide_input in;
    struct view *next;
    uint64_t look_ns;   /* when rows are looked at again */
    bool looked;        /* in the last settle */
    uint64_t epoch;     /* of the log in which it leads; 0: it does not */
    uint64_t closed_ns; /* when it began to wait for reports on the applied view; 0: that is open */
    uint64_t there;     /* hosts that might join, */
    uint64_t there_ns;  /* and when there was last a new one among them */
    uint64_t move_ns;   /* since when others could keep; 0: they could not */
    uint64_t proposed;  /* vid that was proposed in this epoch */
    char waits[WAITS_TEXT_BYTES]; /* what for; empty: nothing */
};

/* ---- report.c ---- */

uint32_t report_bytes_max(uint32_t hosts, uint32_t cells);
uint32_t report_encode(const struct report *, uint32_t cells, unsigned char *out);
/* False: it is none. `cell` is where its cells go. */
bool report_decode(const unsigned char *in, uint32_t bytes, uint32_t hosts, uint32_t cells,
                   struct report *out, struct cell_report *cell);
/* What a disk has stands in the same lane: a report on view 0. False: it is none, and nothing changes. */
uint32_t found_encode(const struct found_report *, uint32_t cells, unsigned char *out);
bool found_decode(const unsigned char *in, uint32_t bytes, uint32_t cells, struct found_report *out,
                  uint64_t *reach);

/* ---- keeper.c ---- */

extern const struct log_machine view_machine;
/* Tells all hosts the newest view. */
void keeper_tell(struct keeper *);

/* ---- keeper_move.c ---- */

/* Opens the log that this host has to carry on from its beginning or from its disk, if there is one. */
int keeper_log_open(struct keeper *, struct err *);
/* Goes over to the keepers of the newest view. Returns work done. */
int keeper_move(struct keeper *);

/* ---- keeper_lead.c ---- */

/* As leader, or not; returns work done. */
int keeper_lead(struct keeper *);
uint64_t keeper_lead_next_ns(const struct keeper *);
/* A view was applied: what is wanted of the next one is counted from here. */
void keeper_lead_applied(struct keeper *);

#endif
