/* What a member has of its clients; see relay.h. */
#ifndef GROUP_RELAY_IMPL_H
#define GROUP_RELAY_IMPL_H

#include "group/impl.h"

/* What a client that subscribes is fed. What its ring has no room for waits in a backlog, of which the oldest goes when that is full. Of a cell with a
 * past nothing waits there: the client is behind then, and reads on in the past. */
struct subscriber {
    struct mem_lane *in;    /* FED; NULL: it has not come */
    struct stream_out out;  /* FEED, */
    struct stream stream;   /* and what is in it */
    unsigned char *backlog; /* a ring of pieces: length, struct sample, bytes */
    uint64_t head, tail;
    uint64_t cells[GROUP_CELLS_MAX / 64]; /* that it has subscribed to */
    uint64_t behind[GROUP_CELLS_MAX / 64];
    struct member_past *past;          /* by cell: where it is, if it is behind */
    uint32_t dropped[GROUP_CELLS_MAX]; /* by cell, since the last sample of it that was sent */
    uint64_t beat;
    bool any;
};

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
    struct subscriber feed;
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
    bool dirty;                      /* somebody has something to be told */
    unsigned char *rings;            /* of all replies */
    unsigned char *feeds, *backlogs; /* likewise of samples */
    struct member_past *pasts;       /* of all of them */
    struct stream_shape fed;
    unsigned char *frame, *reply;
};

/* ---- feed.c ---- */

int feeds_open(struct member *);
void feeds_close(struct member *);
int feed_client_open(struct member *, struct relay_client *, const struct mem_lane_spec *,
                     struct err *);
/* Another session begins, or none: it has subscribed to nothing. */
void feed_session(struct member *, struct relay_client *);
/* False: it has no lanes for that yet. */
bool feed_subscribe(struct member *, struct relay_client *, uint32_t cell,
                    const struct subscription *, struct subscribed *);
void feed_unsubscribe(struct member *, struct relay_client *, uint32_t cell);
/* Takes note of what was taken, and sends on. */
void feed_settle(struct member *, struct relay_client *);
/* Now and then. */
void feed_look(struct member *, struct relay_client *);

#endif
