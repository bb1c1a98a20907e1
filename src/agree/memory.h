/* A member of a log that is only memory: its region, and the lanes that replicas write there.
 *
 * It runs nothing of the log. When it is opened it says which life it is in; from then on the replicas write, raise and
 * read it as they do each other. Who owns it polls its memory where that needs it, and steps it now and then. If what it
 * had was lost its region stays closed until the group's leader opens it (mem_grant). */
#ifndef AGREE_MEMORY_H
#define AGREE_MEMORY_H

#include "agree/log.h"

struct log_memory {
    struct mem *mem;
    uint32_t region;
    struct mem_flow flow; /* to itself: what it says */
    uint64_t now_ns;
};

/* The options of the group's replicas; of these mem, region, nodes, replicas and log_bytes count. In place until the memory
 * is closed. */
int log_memory_open(struct log_memory *, const struct log_options *, struct err *);

/* Inside the loop that polls its memory: begins anew where all that held anything have left in order. */
void log_memory_step(struct log_memory *);

void log_memory_close(struct log_memory *);

/* What it has was lost, and it has not been taken back. */
bool log_memory_is_closed(const struct log_memory *);

/* The same as what a host steps. */
struct unit log_memory_unit(struct log_memory *);

#endif
