/* From trace files to the checker. */
#ifndef CHECK_LOAD_H
#define CHECK_LOAD_H

#include "base/err.h"
#include "check/amcast.h"
#include "check/vsync.h"

struct load_report {
    uint32_t files;
    uint64_t bytes;
    uint32_t cut;            /* files whose last line is incomplete and was left out */
    uint32_t unclosed;       /* files whose writer was killed, or is still writing */
    uint32_t crashed;        /* clients that this makes crashed */
    uint32_t gaps;           /* places from which on events are missing, for want of room */
    struct amcast_place gap; /* the first of them */
    uint64_t views;          /* events of groups with views */
};

/* Called now and then with what was read so far. */
typedef void load_progress(void *arg, const struct load_report *, uint64_t events);

/* Feeds all DIR/NAME.jsonl, in the order of their names. A client whose file was not closed counts as crashed.
 * ERR_NOTFOUND if there are none. */
int load_dir(struct amcast *, const char *dir, load_progress *, void *arg, struct load_report *,
             struct err *);

/* The same, of groups with views too: their views and deliveries go to `v`, and casts to both. Without it such a trace is an error. */
int load_views(struct amcast *, struct vsync *v, const char *dir, load_progress *, void *arg,
               struct load_report *, struct err *);

#endif
