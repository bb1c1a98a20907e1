/* Several hosts on one machine: network namespaces with an address each, and a router between them that
 * can lose what one sends to another, all of it or some, now or later.
 *
 * Everything is the kernel's own (namespaces, veth, policy routing, tc), set up with iproute2, and goes
 * with the process that opened it. Who is not root gets a user namespace of his own. */
#ifndef TESTS_PROC_LAN_H
#define TESTS_PROC_LAN_H

#include <stdbool.h>
#include <stdint.h>

enum { LAN_NODES_MAX = 16, LAN_WHY_BYTES = 256 };

struct lan {
    uint32_t nodes;
    int router; /* namespaces, as descriptors */
    int node[LAN_NODES_MAX];
    char address[LAN_NODES_MAX][16];
    bool cut[LAN_NODES_MAX][LAN_NODES_MAX]; /* from, to */
    char why[LAN_WHY_BYTES];                /* the last thing did not work */
};

/* Called before there are threads, and once. False: this machine does not let us; `why` tells. */
bool lan_open(struct lan *, uint32_t nodes);
void lan_close(struct lan *);

/* This process is on that node from now on, and so are those that it starts. */
bool lan_enter(const struct lan *, uint32_t node);

/* Sets which ways are cut, all of them at once: bit t of to[f] for what node f sends to node t. */
bool lan_cut(struct lan *, const uint32_t to[]);
bool lan_heal(struct lan *);

/* What is sent to the node goes through this queueing discipline of tc(8); NULL: through none. */
bool lan_shape(struct lan *, uint32_t node, const char *qdisc);
/* And this what the node sends. */
bool lan_shape_out(struct lan *, uint32_t node, const char *qdisc);

/* A sysctl of the node, e.g. "net/ipv4/tcp_rmem". */
bool lan_sysctl(struct lan *, uint32_t node, const char *name, const char *value);

#endif
