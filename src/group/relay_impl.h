/* What a member has of its clients; see relay.h. */
#ifndef GROUP_RELAY_IMPL_H
#define GROUP_RELAY_IMPL_H

#include "group/impl.h"

/* A place for a client, and what this member has with who has it. */
struct relay_client {
    uint32_t place;
    struct mem_lane *in;   /* REQUEST; NULL: nobody has come */
    struct stream_out out; /* RELAYED, */
    struct stream replies; /* and what is in it */
    uint32_t life;         /* of the client, as the memory knows it */
    uint16_t session;      /* 0: none */
    bool torn;   /* it wrote what no client writes: nothing more of the session is taken */
    bool dirty;  /* there is something to tell it */
    uint64_t at; /* of its next request */
    uint32_t refused[GROUP_CELLS_MAX]; /* by cell: the visit of which nothing is taken any more */
};

struct relays {
    struct member *of;
    struct stream_shape requests, replied;
    struct relay_client *client; /* by place */
    uint32_t *open;              /* places at which somebody has come */
    uint32_t opens;
    uint64_t hello; /* 0: nothing is taken now */
    uint64_t voids; /* times that something taken was given up */
    uint64_t look_ns;
    bool dirty;           /* somebody has something to be told */
    unsigned char *rings; /* of all replies */
    unsigned char *frame, *reply;
};

#endif
