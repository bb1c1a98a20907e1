/* A client of a group: a program that is no member, and has its messages published, and its questions answered, by members (relay.h).
 *
 * For each cell it goes to one of the hosts that may send there. When that one is dead, out of the view, no sender, or brings nothing for `retry_ns`,
 * it goes to the next, and sends again what it does not know to be delivered: members deliver it once. Messages of one cell are delivered in the order in
 * which they were sent, in one life of the client.
 *
 * A struct group_client belongs to one place, one node and one thread. It never blocks, reads no clock, and takes no memory after opening but in
 * client_link_open. Callbacks come from client_settle; they may send and ask. */
#ifndef GROUP_CLIENT_H
#define GROUP_CLIENT_H

#include "group/member.h"

enum {
    CLIENT_WINDOW = 1024
}; /* messages and questions under way, of which one cell has at most half */

struct client_cell {
    uint64_t hosts;   /* that may send there */
    uint64_t readers; /* that may be members of it */
    bool raw;
    uint32_t message_max;
};

struct client_reply_item {
    int status; /* as in struct member_answer. ERR_LOST: a call was delivered, and its reply is lost with the member that had it */
    uint32_t host;
    uint64_t version;
    const void *data;
    uint32_t bytes;
};

#define CLIENT_LOST_SOME UINT64_MAX

enum { CLIENT_PAST = 1 }; /* kind of a sample that was delivered before it was subscribed to */

struct client_calls {
    /* What became of it: a message was delivered, or a reply has come, or (status) it cannot be. Once for each ticket, in any order. */
    void (*done)(void *ctx, uint64_t ticket, const struct client_reply_item *);
    /* Samples of a cell that is subscribed to, of the view of that vid, each once; `lost` have not come before these, CLIENT_LOST_SOME: it
     * is not known how many, if any. The items are good during the call. */
    void (*samples)(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *,
                    uint32_t count, uint64_t lost);
};

struct client_options {
    struct mem *mem;
    uint32_t hosts;
    uint32_t place;
    const struct client_cell *cell;
    uint32_t cells;
    uint32_t client_bytes; /* as in member_options */
    uint32_t ask_max;      /* longest reply; 0: that of members by default */
    uint64_t retry_ns;     /* 0: 250 ms */
    const struct client_calls *calls;
    void *ctx;
};

struct group_client;

int client_open(const struct client_options *, struct group_client **, struct err *);
void client_close(struct group_client *);

/* Takes replies, after mem_poll, and sends what is to be sent. Returns how many tickets are done. */
int client_settle(struct group_client *, uint64_t now_ns);

/* A host that is to be worked with next and has no lanes yet; HOSTS if there is none. Then client_link_open opens them, once. */
uint32_t client_wants_link(const struct group_client *);
int client_link_open(struct group_client *, uint32_t host, struct err *);

/* Has the message published. `done` comes when the member that has published it has delivered it, and in cells with an order so will all who go on.
 * ERR_AGAIN: too many are under way to the cell, as many as are left for others; ERR_TOOBIG. */
int client_send(struct group_client *, uint32_t cell, const void *data, uint32_t bytes,
                uint64_t *ticket);
/* Likewise, with the reply of that member. ERR_INVALID: the cell is raw. */
int client_call(struct group_client *, uint32_t cell, const void *data, uint32_t bytes,
                uint32_t reply_max, uint64_t *ticket);
/* Asks a member, which answers once its state has all up to `version` (0: at once). */
int client_query(struct group_client *, uint32_t cell, uint64_t version, const void *data,
                 uint32_t bytes, uint32_t reply_max, uint64_t *ticket);

/* What is delivered in the cell comes by `samples`, fed by one of its members; when that is gone, by another one, each sample once. What
 * is not taken in time is lost, the oldest first. Where members keep what was delivered last it begins with what is kept of that version and later ones
 * (0: all; CLIENT_FROM_NOW: none), and what is kept is not lost. */
#define CLIENT_FROM_NOW UINT64_MAX
void client_subscribe(struct group_client *, uint32_t cell, uint64_t version);
void client_unsubscribe(struct group_client *, uint32_t cell);
/* The host that feeds it; its place among HOSTS is `hosts` if there is none. */
uint32_t client_feeder(const struct group_client *, uint32_t cell);

uint32_t client_outstanding(const struct group_client *);
/* The longest message or question to the cell, and the longest reply. */
uint32_t client_message_max(const struct group_client *, uint32_t cell);
uint32_t client_ask_max(const struct group_client *);

/* The host that works for the cell now; its place among HOSTS is `hosts` if there is none: then all that may were tried in vain, or are being tried. */
uint32_t client_host(const struct group_client *, uint32_t cell);
/* How many were tried in a row, for the cell, and brought nothing. */
uint32_t client_tried(const struct group_client *, uint32_t cell);

/* How many messages and questions to the cell are under way. */
uint32_t client_waits(const struct group_client *, uint32_t cell);

struct client_counts {
    uint64_t sent, again, sessions; /* requests that were sent, of which again; sessions begun */
};
void client_counts(const struct group_client *, struct client_counts *);

#endif
