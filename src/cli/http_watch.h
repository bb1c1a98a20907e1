/* What is served over HTTP: samples of all hosts' pages, what changed between them in the last hour, and all of it as text. One thread
 * at a time. */
#ifndef CLI_HTTP_WATCH_H
#define CLI_HTTP_WATCH_H

#include "base/err.h"
#include "tram.h"

#include <stdio.h>

struct http_watch;

/* NULL: no memory, or no runtime directory. */
struct http_watch *http_watch_open(const struct tram_cluster *, struct err *);
void http_watch_close(struct http_watch *);

/* Looks at all hosts, unless that was done just now. */
void http_watch_sample(struct http_watch *);

void http_watch_metrics(struct http_watch *, FILE *); /* Prometheus' text format */
void http_watch_status(struct http_watch *, FILE *);  /* as `tram status --json` */
void http_watch_history(const struct http_watch *, FILE *);

/* True if the host (-1: every one) runs and its groups are led, or it is in the view; else says what is wrong, a line each. */
bool http_watch_health(struct http_watch *, int host, FILE *);

#endif
