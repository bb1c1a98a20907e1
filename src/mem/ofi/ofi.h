/* Remote memory over a network: libfabric endpoints of type FI_EP_MSG, on the providers `tcp` (any
 * machine) and `verbs` (RDMA).
 *
 * Every host listens on the address that the cluster file gives it, and on nothing else; of two hosts
 * the one with the higher number connects, clients always do. Both sides prove that they have the
 * cluster's key, for this cluster, version, node and life, before anything else is said. The memory of
 * a node is its process's: it goes when the process does, and the next life is born LOST. How many
 * lives a host had is counted in a file that must outlive the machine's restart.
 *
 * One thread uses a `struct mem`, and no other works for it: what comes in lands while that thread
 * polls (on verbs, without it). A connection that breaks turns its flows and ops LOST and is made
 * again, after a pause that grows; who is refused, and why, is said (base/say.h). */
#ifndef MEM_OFI_OFI_H
#define MEM_OFI_OFI_H

#include "base/say.h"
#include "mem/mem.h"

enum {
    OFI_HOSTS_MAX = 128,  /* host numbers are below this */
    OFI_NODES_MAX = 8192, /* all node numbers are */
    OFI_NAME_BYTES = 64,  /* of a cluster's or host's name, the final 0 included */
    OFI_KEY_BYTES = 32,
};

#define OFI_ANY UINT32_MAX /* a client's place, if it is to get one that is free */

struct ofi_host {
    const char *name;
    const char *address; /* name or number, without brackets */
    uint16_t port;
};

/* Something that has to be the same for all nodes of a cluster. */
enum { OFI_FACTS_MAX = 60, OFI_FACT_KEY_BYTES = 20, OFI_FACT_VALUE_BYTES = 44 };

struct ofi_fact {
    char key[OFI_FACT_KEY_BYTES];     /* what it is; both end with a 0 */
    char value[OFI_FACT_VALUE_BYTES]; /* and how it is here */
};

struct ofi_options {
    const char *provider; /* "tcp" or "verbs" */
    const char *cluster;
    const unsigned char *key; /* OFI_KEY_BYTES of it */
    const struct ofi_host
        *hosts; /* all hosts of the cluster; their node numbers are their places */
    uint32_t hosts_count;
    uint32_t clients;   /* that there may be; their node numbers begin at hosts_count */
    uint32_t lives_max; /* of each of their places; 0: any number */
    uint32_t self;      /* a node number; or OFI_ANY: a client in any place */
    const char *state;  /* host: directory in which its lives are counted */
    struct say say;     /* where log lines go, from the caller's thread */
    const struct ofi_fact
        *facts; /* nodes in which one of them differs do not connect, and say which */
    uint32_t facts_count;
    uint64_t timeout_ns; /* client: how long opening waits for a place; 0: five seconds */
    uint64_t silent_ns;  /* how long a connected host may say nothing; 0: three seconds */
    uint64_t linger_ns;  /* how long a host that leaves listens who else does; 0: 300 ms */
    bool huge_pages;     /* a host: of 2 MiB, for lanes that others write; see ofi_limits_check */
    bool read_back;      /* ask for the promise after every mark, as verbs does; tests */
    bool looks;          /* client: wants no place, and is good for ofi_look alone */
};

/* A host: counts a life, listens, and connects to whoever is there; the others connect later. A
 * client: waits until some host has given it a place, and that host's life for it.
 * ERR_EXISTS: a live process has this host's address or lives, or no place is free. ERR_REFUSED: a
 * host does not take us (the text says why) or the provider fails its self-check. ERR_TIMEOUT: no
 * host answered. */
int ofi_open_node(const struct ofi_options *, struct mem **out, struct err *);

/* True while the node is connected, and each side knows all lanes of the other that it has asked for:
 * flows to it are usable. */
bool ofi_connected(struct mem *, uint32_t node);

/* Why this node can never be connected again, if so: another process has its place, or hosts remember
 * a later life of it. NULL otherwise. */
const char *ofi_failure(struct mem *);

/* Once all lanes are open: is there enough of what the system limits for all hosts to connect? ERR_SYSTEM says
 * what to raise. */
int ofi_limits_check(struct mem *, struct err *);

/* ---- what a host shows of itself ---- */

enum { OFI_PAGE_BYTES_MAX = 1 << 20 };

/* A host's page, a multiple of 8 bytes, which may change at any time. Whoever has the key may look at it. */
void ofi_show(struct mem *, const void *page, size_t bytes);

/* Asks all hosts for their pages, for that long at most; `wanted` false: not this one. Tells of each that has
 * answered; those that nobody listens for are not waited for. */
void ofi_look(struct mem *, uint64_t timeout_ns, bool (*wanted)(void *ctx, uint32_t host),
              void (*seen)(void *ctx, uint32_t host, const void *page, size_t bytes), void *ctx);

/* The directory for a host's state if the cluster file names none: ERR_NOTFOUND if the environment
 * has none either. */
int ofi_state_directory(const char *cluster, char *out, size_t bytes, struct err *);

/* ---- the cluster's key ---- */

/* Makes a new one in a file of mode 0600 that must not exist; and reads one. ERR_REFUSED: others may
 * read the file. */
int ofi_key_make(const char *path, struct err *);
int ofi_key_read(const char *path, unsigned char key[OFI_KEY_BYTES], struct err *);

#endif
