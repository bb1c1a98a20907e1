/* Bytes over sockets with nothing on top: what a group of replicas could be at best (bench/wire.h). */
#ifndef BENCH_CHAIN_H
#define BENCH_CHAIN_H

#include "bench/transport.h"

struct chain;

/* The client's side, on a connection to the other. Takes the descriptor. */
int chain_join(const struct bench_nodes *, int fd, uint32_t bytes, struct chain **, struct err *);

/* The hosts' side: leader and two followers, in this thread. */
int chain_serve_open(const struct bench_nodes *, int fd, uint32_t bytes, struct chain **,
                     struct err *);
void chain_close(struct chain *); /* NULL is allowed */

/* One message from the client, and its reply; and as many from the hosts' side. False: the connection has failed. */
bool chain_trip(struct chain *);
bool chain_serve(struct chain *, uint32_t trips);

#endif
