/* A member of a log that is only memory: its region, and the lanes that replicas write there.
 *
 * It runs nothing of the log. When it is opened it says which life it is in; from then on the replicas write, raise and
 * read it as they do each other. Who owns it polls its memory where that needs it, and steps it now and then. If what it
 * had was lost its region stays closed until the group's leader opens it (mem_grant). */
#ifndef AGREE_MEMORY_H
#define AGREE_MEMORY_H

#include "agree/log.h"

struct memory_keep;

struct log_memory {
    struct mem *mem;
    uint32_t region;
    struct mem_flow flow; /* to itself: what it says */
    uint64_t now_ns;
    struct memory_keep *keep; /* what it has on a disk; NULL: it has none */
};

/* The options of the group's replicas; those of sources, states and the machine do not count. In place until the memory is closed. With a
 * disk it is opened before anything else is done, as a log is with log_restore. */
int log_memory_open(struct log_memory *, const struct log_options *, struct err *);

/* Inside the loop that polls its memory, after that: begins anew where all that held anything have left in order; with a disk, keeps
 * what has come. Returns work done. */
int log_memory_step(struct log_memory *, uint64_t now_ns);

void log_memory_close(struct log_memory *);

/* What it has was lost, and it has not been taken back. */
bool log_memory_is_closed(const struct log_memory *);

/* Its disk is not what it was, and what was lost is not there again. */
bool log_memory_lacks(const struct log_memory *);

/* The same as what a host steps. */
struct unit log_memory_unit(struct log_memory *);

#endif
