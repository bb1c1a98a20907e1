/* What every memory over a network has in common: who is there, in which life, what lanes they have with each other.
 *
 * A node has a connection to each node that it has lanes with: of two hosts the one with the higher number connects,
 * clients always do. Who is at the other side is proven by whatever carries the bytes (mem/tcp, mem/ofi) before a word
 * of this is said. The memory of a node is its process's: it goes when the process does, and the next life is born
 * LOST. How many lives a host had is counted in a file that must outlive the machine's restart.
 *
 * One thread uses a `struct mem`. A connection that breaks turns its flows and ops LOST and is made again, after a
 * pause that grows; who is refused, and why, is said (base/say.h). */
#ifndef MEM_FAR_FAR_H
#define MEM_FAR_FAR_H

#include "base/say.h"
#include "mem/lives.h"
#include "mem/mem.h"

enum {
    FAR_HOSTS_MAX = 128,  /* host numbers are below this */
    FAR_NODES_MAX = 8192, /* all node numbers are */
    FAR_NAME_BYTES = 64,  /* of a cluster's or host's name, the final 0 included */
};

#define FAR_ANY UINT32_MAX /* a client's place, if it is to get one that is free */

struct far_host {
    const char *name;
    const char *address; /* name or number, without brackets */
    uint16_t port;
    bool spare; /* asked for a place when no other host has one: clients need nothing else of it */
};

/* Something that has to be the same for all nodes of a cluster. */
enum { FAR_FACTS_MAX = 60, FAR_FACT_KEY_BYTES = 20, FAR_FACT_VALUE_BYTES = 44 };

struct far_fact {
    char key[FAR_FACT_KEY_BYTES];     /* what it is; both end with a 0 */
    char value[FAR_FACT_VALUE_BYTES]; /* and how it is here */
};

struct far_options {
    const char *cluster;
    const struct far_host
        *hosts; /* all hosts of the cluster; their node numbers are their places */
    uint32_t hosts_count;
    uint32_t clients;   /* that there may be; their node numbers begin at hosts_count */
    uint32_t lives_max; /* of each of their places; 0: any number */
    uint32_t self;      /* a node number; or FAR_ANY: a client in any place */
    const char *state;  /* host: directory in which its lives are counted */
    struct say say;     /* where log lines go, from the caller's thread */
    const struct far_fact
        *facts; /* nodes in which one of them differs do not connect, and say which */
    uint32_t facts_count;
    uint64_t timeout_ns; /* client: how long opening waits for a place; 0: five seconds */
    uint64_t silent_ns;  /* how long a connected host may say nothing; 0: three seconds */
    uint64_t linger_ns;  /* how long a host that leaves listens who else does; 0: 300 ms */
    bool huge_pages;     /* a host: of 2 MiB, for lanes that others write; see far_limits_check */
    bool looks;          /* client: wants no place, and is good for far_look alone */
    const struct mem_lives
        *lives; /* host: that a disk keeps, until it is closed; NULL: none does */
};

/* Opening a host counts a life, listens, and connects to whoever is there; the others connect later. Opening a client
 * waits until some host has given it a place, and that host's life for it. Every backend's answers with
 * ERR_EXISTS: a live process has this host's address or lives, or no place is free. ERR_REFUSED: a host does not take
 * us (the text says why). ERR_TIMEOUT: no host answered. */

/* True while the node is connected, and each side knows all lanes of the other that it has asked for:
 * flows to it are usable. */
bool far_connected(struct mem *, uint32_t node);

/* Why this node can never be connected again, if so: another process has its place, or hosts remember
 * a later life of it. NULL otherwise. */
const char *far_failure(struct mem *);

/* Once all lanes are open: is there enough of what the system limits for all hosts to connect? ERR_SYSTEM says
 * what to raise. */
int far_limits_check(struct mem *, struct err *);

/* ---- what a host shows of itself ---- */

enum { FAR_PAGE_BYTES_MAX = 1 << 20 };

/* A host's page, a multiple of 8 bytes, which may change at any time. Whoever may connect may look at it. */
void far_show(struct mem *, const void *page, size_t bytes);

/* Asks all hosts for their pages, for that long at most; `wanted` false: not this one. Tells of each that has
 * answered; those that nobody listens for are not waited for. */
void far_look(struct mem *, uint64_t timeout_ns, bool (*wanted)(void *ctx, uint32_t host),
              void (*seen)(void *ctx, uint32_t host, const void *page, size_t bytes), void *ctx);

#endif
