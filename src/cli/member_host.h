/* `tram host` under protocol group: a member whose state of each cell is a count and a hash of all that was delivered. */
#ifndef CLI_MEMBER_HOST_H
#define CLI_MEMBER_HOST_H

#include "tram.h"

#include <signal.h>
#include <stdint.h>

struct member_host {
    const char *name;  /* of the host */
    const char *trace; /* directory; NULL: none */
    uint32_t rate;     /* messages a second that it sends to each of its cells */
    unsigned log;      /* enum log_form */
    bool quiet;
    volatile sig_atomic_t *stop; /* set: it is to leave */
};

/* Returns the exit code. */
int member_host_run(const struct member_host *, const struct tram_cluster *);

#endif
