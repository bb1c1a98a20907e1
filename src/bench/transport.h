/* What the nodes of a measurement stand on: shared memory, or a network on one address of this machine. */
#ifndef BENCH_TRANSPORT_H
#define BENCH_TRANSPORT_H

#include "bench/bench.h"
#include "mem/ofi/ofi.h"
#include "mem/shm/shm.h"
#include "mem/tcp/tcp.h"

#include <sys/types.h>

struct bench_nodes {
    enum bench_transport transport;
    bool clear; /* tcp: not encrypted */
    uint32_t hosts, clients;
    bool made; /* the directory is ours */
    char cluster[64];
    char dir[160]; /* network: the hosts' lives, the key and the ports */
    char names[BENCH_HOSTS_MAX][16];
    struct shm_node shm[BENCH_HOSTS_MAX];
    struct far_host far[BENCH_HOSTS_MAX];
    uint16_t wire_port;
    unsigned char key[OFI_KEY_BYTES];
};

/* A name that no other run has had. Its directory outlives a run that is killed, and says to the next of that name that
 * memory was lost: its hosts would wait for ever to be taken back. A process id alone comes again. */
void nodes_name(char *out, size_t bytes);

/* Of the run that we are, or with args.serve of the one that has started us. */
int nodes_open(struct bench_nodes *, const struct bench_args *, struct err *);
void nodes_close(struct bench_nodes *);

int nodes_host(struct bench_nodes *, uint32_t host, struct mem **, struct err *);

/* Over a network the hosts must be polled meanwhile. */
int nodes_client(struct bench_nodes *, uint32_t place, struct mem **, struct err *);

/* Over tcp: who node `self` is, and whom it knows. */
int nodes_tls(const struct bench_nodes *, uint32_t self, struct tls **, struct err *);

/* A port of the address that nobody listens on. `next`: which is tried next; any number at first. */
int bench_port(const char *address, uint32_t *next, uint16_t *port, struct err *);

/* A process of this program. It ends when the descriptor is closed, which is its standard input. */
struct bench_child {
    pid_t pid;
    int stop;
};

/* `core`: it runs there alone; -1: anywhere. */
int child_start(struct bench_child *, const char *const argv[], int core, struct err *);
void child_stop(struct bench_child *);

#endif
