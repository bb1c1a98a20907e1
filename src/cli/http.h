/* What the hosts of a cluster show of themselves, over HTTP: a page for browsers, figures for Prometheus, and whether all is well.
 *
 * It looks as `tram status` does, from two threads of its own, so it never stops a round of a host that runs in the same
 * process. It only answers; nothing can be changed through it. docs/operating.md, "Watching", has what it serves. */
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include "base/err.h"
#include "tram.h"

struct http;

struct http_options {
    const char *address; /* a name or number of this machine */
    uint16_t port;
    int host; /* of the cluster, for which /health answers; -1: for all of it */
};

/* The cluster outlives it. NULL: why it cannot be served. */
struct http *http_open(const struct tram_cluster *, const struct http_options *, struct err *);
void http_close(struct http *);

/* For a host of the file that has `http:`; NULL if it has none, or after a line that says why it is not served: a host goes on
 * without. */
struct http *http_open_host(const struct tram_cluster *, const char *host);

#endif
