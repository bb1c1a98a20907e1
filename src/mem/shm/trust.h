/* Nodes that may lie (shm_options.hostile): what the kernel tells of them, and what they may take of us. Private to this folder.
 *
 * Every node has a uid of its own. By that the kernel says who writes a file and who is at the other end of a socket, and it lets nobody
 * touch the processes of others. What a node says itself counts for nothing but itself.
 *
 *     DIR/tramway-all-CLUSTER/        root's, so nobody can exchange what is in it
 *         beginning                   16 hexadecimal digits, drawn by shm_prepare
 *         NAME/                       of each host and client: its own, and open to nobody else's hands
 *             NAME.lock, NAME.sock    as in file.c
 *
 * Files of others are opened without leaving the file system that root chose (RESOLVE_NO_XDEV): one that is mounted there could let us
 * wait for ever. The same goes for descriptors that come over a socket: what has no seals is not memory of ours, and closing it may hang. So it
 * stays open, and its sender is shut out for good; that costs at most as many descriptors as one message carries.
 *
 * Everything that costs us something is bounded by sender: connections, messages, bytes and lanes of its memory, log lines. */
#ifndef MEM_SHM_TRUST_H
#define MEM_SHM_TRUST_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct connection;
struct helper;
struct peer;
struct shm;
struct shm_options;

enum {
    TRUST_MESSAGE = 1,         /* what a message costs its sender, */
    TRUST_CONNECTION = 50,     /* and a connection */
    TRUST_LANES_MAX = 1 << 14, /* of a node, in one life */
    TRUST_PARTS_MAX = 1 << 12,
    TRUST_HOST_BYTES_MAX = 1 << 30,
    TRUST_CLIENT_BYTES_MAX = 256 << 20,
};

/* Of a node that may lie. */
struct trust_peer {
    uint32_t uid;
    int dir_fd;               /* its directory; -1: it has none that can be used */
    bool shut_out;            /* it has sent what no correct node sends */
    uint64_t shut_until_ns;   /* or more than one sends: for a while */
    uint64_t paid_ns;         /* when it will have as much credit again as it can have */
    uint32_t links;           /* connections that its uid has */
    uint64_t bytes;           /* of the memory of its present life, */
    uint32_t lanes, segments; /* and what is in that */
};

/* Credit of lines that others bring about; likewise. */
struct trust_line {
    uint64_t paid_ns;
};

/* Checks that the profile can be had here, and opens the directories. */
int trust_open(struct shm *, const struct shm_options *, struct err *);
void trust_close(struct shm *);

/* The directory of the node of that name; -1: none. */
int trust_dir(const struct shm *, const char *name);
/* A file in a directory of a node that may lie; -1. */
int trust_file(int dir_fd, const char *file, int flags);

/* Who is at the other end; NULL: nobody that we know, or who is shut out, or has enough connections. Others in `target` if it was called. */
struct peer *trust_caller(struct helper *, int fd, struct peer *target);
/* The connection has taken so much of what its node may have. False: too much, and it is shut out for a while. */
bool trust_pays(struct helper *, struct connection *, uint32_t cost);
/* Closes nothing. False: one of these must not be closed either, and the sender is shut out. */
bool trust_takes(struct helper *, struct connection *, const int *fds, int count);
/* May a line be written that somebody has brought about? */
bool trust_speaks(struct shm *, uint64_t now_ns);

#endif
