/* Where connections are made: a thread that listens, dials and shakes hands, so that whoever polls does neither wait
 * nor reckon for strangers. It hands over connections whose other side has proven who it is, and says why others were
 * none. Private to this folder and its tests.
 *
 * Strangers cost little: a bounded number of them is under way, of one address a part of that, each for a bounded time; the
 * oldest of whoever has most goes first. Descriptors are kept back for hosts. */
#ifndef MEM_TCP_DOOR_H
#define MEM_TCP_DOOR_H

#include "base/err.h"
#include "mem/tcp/tcp.h"
#include "mem/tcp/tls.h"

#include <netinet/in.h>

enum {
    DOOR_PENDING = 256,         /* that were accepted and have not proven who they are, */
    DOOR_PENDING_ADDRESS = 128, /* of one address */
    DOOR_RESERVED =
        16, /* descriptors for who is no client, and for files; besides one for each host */
};

#define DOOR_HANDSHAKE_NS UINT64_C(2000000000)
#define DOOR_KEYS_NS UINT64_C(500000000) /* between two questions whether keys have changed */

struct door_options {
    struct tls *tls;             /* shared */
    const struct tcp_keys *keys; /* NULL: they do not change */
    void *keys_ctx;
    const struct far_host *listen; /* NULL: nobody comes */
    uint32_t hosts_count;
    int wake_fd; /* an eventfd to write when something is to be taken */
};

struct door;

int door_open(const struct door_options *, struct door **, struct err *);
void door_close(struct door *); /* NULL is allowed */

/* Connects to a host. Every call brings one arrival. False: no memory. */
bool door_dial(struct door *, uint32_t host, const struct sockaddr_storage *, socklen_t);

enum door_kind {
    DOOR_CAME, /* a connection */
    DOOR_NOT,  /* dialed: nobody is there, or he is not who he should be */
    DOOR_STRANGER,
    DOOR_KEYS, /* tls: whom we know from now on; NULL: that could not be read */
};

struct arrival {
    struct arrival *next;
    enum door_kind kind;
    bool dialed;
    bool refused;  /* DOOR_NOT: somebody is there, and one of us does not want the other: */
    bool by_other; /* he does not want us */
    uint32_t host; /* dialed */
    int fd;
    struct tls_end *end;
    struct tls_peer who;
    struct tls *tls;
    struct sockaddr_storage address;
    char why[160];
};

/* What has come, the oldest first; NULL: nothing. To be freed. Cheap if there is nothing. */
struct arrival *door_take(struct door *);
void arrival_free(struct arrival *); /* with what is in it */

struct tcp_counts door_counts(const struct door *);

bool door_on_loopback(const struct sockaddr_storage *);

#endif
