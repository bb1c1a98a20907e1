/* The inside of a client of a group; see client.h and relay.h. */
#ifndef GROUP_CLIENT_IMPL_H
#define GROUP_CLIENT_IMPL_H

#include "base/minmax.h"
#include "group/client.h"
#include "group/relay.h"

#define NOWHERE UINT32_MAX
#define OWN_NUMBER (UINT64_C(1) << 63) /* in the number of a request that is of no ticket */

/* What was asked for and is not done. */
struct pending {
    uint64_t ticket; /* its number, too; 0: done */
    struct client_request head;
    uint64_t at;    /* of its data, in the store */
    uint64_t end;   /* behind it */
    uint32_t bytes; /* of data */
    uint32_t way;
    uint32_t host; /* that it was sent to in the present session; NOWHERE: it is to be sent */
    bool again;    /* it was sent before */
};

/* A member, and what there is with it. */
struct link {
    struct mem_lane *in;   /* RELAYED; NULL: not open */
    struct stream_out out; /* REQUEST, */
    struct stream requests;
    uint64_t hello;    /* of the session; 0: there is none */
    uint64_t at;       /* of the next reply */
    uint64_t told;     /* of those, it was told that they were taken */
    uint32_t open;     /* bytes of replies that may come */
    uint32_t sent;     /* requests that wait for one */
    uint64_t moved_ns; /* when something was heard, or there was nothing to hear */
    bool wanted, dirty;

    /* Samples. */
    struct mem_lane *feed, *fed; /* FEED and FED; NULL: not open */
    uint64_t feed_at;            /* of the next one */
    uint64_t feed_told;
    uint64_t beat, beat_ns; /* and when that changed */
    uint32_t live;          /* cells of which this member feeds */
    bool feed_wanted;
};

/* A cell as it is sent to, or (behind all of these) as it is subscribed to. */
struct client_way {
    uint32_t host;  /* that works for the cell; NOWHERE */
    uint32_t tried; /* in a row */
    uint32_t waits; /* pending ones */
    uint32_t visit;
    uint64_t rest_ns; /* nothing is sent before: all hosts have turned it away */
    bool held;        /* in this round nothing more of it is sent */
};

/* A subscription. */
struct client_sub {
    bool wanted, asked, live; /* live: `host` feeds it */
    bool moved;               /* raw: it is not known whether something was lost */
    uint32_t host;
    uint64_t version;          /* that it begins with */
    struct sample_place next;  /* sample of the cell; history 0: any */
    uint64_t now;              /* the first that was not delivered when it began */
    struct sample_place *last; /* raw: by sender */
};

struct group_client {
    struct client_options opt;
    struct mem *mem;
    struct stream_shape requests, replied;
    struct link link[GROUP_HOSTS_MAX];
    struct client_way *way; /* by cell, twice */
    struct client_sub *sub; /* by cell */
    uint32_t subs;          /* that are wanted */
    struct pending *own;    /* by cell: what has to do with a subscription; `at` says nothing */
    uint32_t owns;          /* of these are pending */
    uint64_t own_number;
    struct pending pending[CLIENT_WINDOW];
    uint64_t next, oldest; /* tickets: those not done are in between */
    uint64_t unsent;       /* all before were sent */
    uint32_t outstanding;
    unsigned char *store; /* a ring of their data */
    uint64_t store_bytes, store_at;
    unsigned char *over;
    uint64_t now_ns;
    uint16_t sessions;
    int done;
    struct client_counts count;
};

/* ---- client.c ---- */

uint64_t client_session_of(const struct group_client *, const struct link *);
/* Something that has to do with the subscription to a cell. False: one is under way. */
bool client_start_own(struct group_client *, const struct client_request *, uint32_t bytes);

/* ---- client_feed.c ---- */

int client_subs_open(struct group_client *);
void client_subs_close(struct group_client *);
int client_feed_open(struct group_client *, uint32_t host, struct err *);
/* In a session that begins, or after a loss. */
void client_feed_tell(struct group_client *, struct link *);
/* Nothing is fed by the host any more. */
void client_feed_lost(struct group_client *, uint32_t host);
/* It has answered a subscription. */
void client_feed_begins(struct group_client *, uint32_t cell, uint32_t host, const void *data,
                        uint32_t bytes);
void client_feed_take(struct group_client *, uint32_t host);
/* Asks for what is wanted and not fed. */
void client_feed_ask(struct group_client *);
/* The bytes of such a request, as of now. */
void client_feed_from(const struct group_client *, const struct pending *, unsigned char *to);

#endif
