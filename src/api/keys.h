/* Who a process of a tcp cluster is and whom it knows, as the cluster file says now. */
#ifndef API_KEYS_H
#define API_KEYS_H

#include "conf/cluster.h"
#include "mem/tcp/tcp.h"

/* Fills in tls, keys and keys_ctx of the options: the identity of a host, or (CLUSTER_NONE) of the client that this
 * process is. While the node is open the cluster file is read again when it has changed. */
int api_keys_open(const struct cluster *, const char *file, int host, struct tcp_options *,
                  struct err *);

/* After tcp_open_node, or if this has failed: what watches the file is the node's. */
void api_keys_drop(struct tcp_options *);

#endif
