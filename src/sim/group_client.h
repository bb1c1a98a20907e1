/* Clients of a simulated group: what they send, what is delivered of it, and whether that is right.
 *
 * A message of a client says which one it is. It is delivered once in a cell, from when that is born until it is vacant, in the order in which its client sent
 * it; in a raw cell once by each process that is a member. What a client is told to be delivered is. */
#ifndef SIM_GROUP_CLIENT_H
#define SIM_GROUP_CLIENT_H

#include "group/client.h"
#include "sim/fleet.h"

enum { GROUP_CLIENTS_MAX = 3, GROUP_CLIENT_CELLS_MAX = 4 };

struct group_run;
struct group_check;

/* A message, in order of sending of all clients. */
struct group_told {
    uint32_t client, life, cell, bytes;
    uint64_t ticket;
    uint64_t born; /* of the cell in which it was delivered last; 0: it was not */
    uint64_t by;   /* raw: hosts whose process has delivered it */
    bool call, done;
    uint64_t count; /* call: how many deliveries the cell's state had behind it */
};

struct group_clients {
    struct group_told *told;
    uint64_t count, max;
    /* The last message of each that was delivered, plus 1, and the birth of the cell. */
    struct {
        uint64_t told, born;
    } last[GROUP_CLIENTS_MAX][GROUP_CLIENT_CELLS_MAX];
    bool lies[GROUP_CLIENTS_MAX];
    uint64_t sent, done, again, fed, lost; /* figures */
};

/* A message of a client, which is to have this content. */
uint64_t group_clients_new(struct group_check *, uint32_t client, uint32_t cell, uint32_t bytes);
void group_clients_fill(const struct group_check *, uint64_t index, unsigned char *out);

/* A host delivers it: `fresh`: nobody has before, in a cell with an order. */
void group_clients_deliver(struct group_check *, uint32_t host, uint32_t cell, uint64_t born,
                           bool fresh, const struct member_item *);
/* The host's process is no more. */
void group_clients_died(struct group_check *, uint32_t host);
void group_clients_fini(struct group_clients *);

/* ---- in a run ---- */

/* Draws whether there are any, and how many. */
void group_client_draw(struct group_run *);
int group_client_open(struct fleet_node *, struct err *);
uint64_t group_client_step(struct fleet_node *, uint64_t now_ns);
void group_client_close(struct fleet_node *);
void group_client_crash(struct fleet_node *);
/* What it waits for, in the trace. */
void group_client_describe(const struct group_run *, uint32_t client);
/* Nothing is outstanding that could be delivered in this view. */
bool group_client_done(const struct group_run *, uint32_t client, const struct view *);

#endif
