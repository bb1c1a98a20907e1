/* The inside of a client of a group; see client.h and relay.h. */
#ifndef GROUP_CLIENT_IMPL_H
#define GROUP_CLIENT_IMPL_H

#include "base/minmax.h"
#include "group/client.h"
#include "group/relay.h"

#define NOWHERE UINT32_MAX
#define OWN_NUMBER (UINT64_C(1) << 63) /* in the number of a request that is of no ticket */

#define NO_SLOT UINT32_MAX

/* What was asked for and is not done. */
struct pending {
    uint64_t ticket; /* its number, too; 0: done */
    struct client_request head;
    uint32_t block; /* the first of its data, in the store */
    uint32_t bytes; /* of data */
    uint32_t way;
    uint32_t host; /* that it was sent to in the present session; NOWHERE: it is to be sent */
    uint32_t before,
        after;  /* slots of those of its cell; NO_SLOT. Of a free one: the next free one */
    bool again; /* it was sent before */
};

/* What is under way to a cell: all before `unsent` were sent, in the present session of its host. */
struct window_list {
    uint32_t first, last, unsent; /* slots; NO_SLOT: none */
    uint32_t count, blocks;       /* of the store */
};

struct client_window {
    struct pending pending[CLIENT_WINDOW]; /* by slot, which is the ticket modulo that many */
    uint64_t tickets;                      /* that were given: they rise */
    struct window_list *list;              /* by cell */
    uint32_t free;                         /* slot */
    uint32_t count, unsent;                /* messages of all cells */
    unsigned char *store;                  /* their data, in blocks */
    uint32_t *block_after;
    uint32_t block_free, blocks_left;
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
    struct client_window window;
    uint32_t turn; /* cell that is the first to send in this round */
    unsigned char *over;
    uint64_t now_ns;
    uint16_t sessions;
    int done;
    struct client_counts count;
};

/* ---- client_window.c ---- */

int window_open(struct client_window *, uint32_t cells, uint32_t store_bytes);
void window_close(struct client_window *);
/* NULL: its cell has as much under way as it may have now. */
struct pending *window_add(struct client_window *, uint32_t way, const struct client_request *,
                           const void *data, uint32_t bytes);
/* The first that is unsent of its cell was. */
void window_sent(struct client_window *, struct pending *, uint32_t host);
/* Nothing of the cell is known to have arrived. False: nothing was sent. */
bool window_unsend(struct client_window *, uint32_t way);
void window_remove(struct client_window *, struct pending *);
struct pending *window_find(struct client_window *, uint64_t ticket);
void window_data(const struct client_window *, const struct pending *, unsigned char *out);

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
