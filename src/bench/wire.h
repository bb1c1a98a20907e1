/* What a network can do at best, measured between the measurements of what stands on it: a process of its own with
 * which the caller exchanges bare writes of the provider (verbs), or bare bytes (tcp).
 *
 * Over tcp there is a *chain* beside that: client, leader, follower, leader, client, with connections, encryption and
 * threads as a group of three replicas has them in one thread, and no protocol. */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include "bench/transport.h"

struct chain;

struct bench_wire {
    struct bench_child child;
    struct ofi_raw *raw; /* verbs */
    int fd;              /* tcp */
    struct chain *chain;
    uint32_t bytes; /* of a message */
    uint64_t value; /* last written */
    uint64_t writes, writes_ns;
};

int wire_open(struct bench_wire *, const struct bench_nodes *, const struct bench_args *, int core,
              struct err *);
void wire_close(struct bench_wire *);

/* Some round trips into the histogram, and some writes in a row. False: the connection has failed. */
bool wire_measure(struct bench_wire *, struct hist *trips);

/* Some round trips along the chain. False: it has failed, or there is none. */
bool wire_measure_chain(struct bench_wire *, struct hist *trips);

/* The other side, in the child: until its standard input is closed. */
int wire_serve(const struct bench_args *, struct err *);

#endif
