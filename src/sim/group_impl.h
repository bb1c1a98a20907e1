/* The inside of a simulated group with views, shared by group_run.c (hosts, what they are told, the verdict), group_load.c (what they
 * do) and group_limits.c (what may befall them). Nothing else includes it. */
#ifndef SIM_GROUP_IMPL_H
#define SIM_GROUP_IMPL_H

#include "sim/fleet.h"
#include "sim/group_check.h"

enum {
    GROUP_LEASES_MAX = 4, /* open ones of a host */
    GROUP_KEEPERS = 5,
    GROUP_PROPOSALS_MAX = 8, /* of one view */
    GROUP_ASKED_MAX = 16,    /* calls and queries of a host under way */
};

struct group_run;

struct group_cell {
    struct counter_machine counter; /* first: the machine's ctx */
    struct group_node *node;
    uint32_t cell;
};

/* Room that is reserved. */
struct group_room {
    struct group_lease lease;
    void *room;
    uint32_t cell, bytes;
    uint64_t due; /* the step in which it is committed or released */
};

/* A call or a query that is under way. */
struct group_asked {
    uint64_t ticket; /* 0: none */
    bool call, lost; /* lost: it cannot be known who would have answered */
    uint32_t cell, to, reply_max, bytes;
    struct group_lease lease; /* of a call */
    uint64_t question;        /* hash of it */
    uint64_t vid, delivered;  /* views in which it was asked, and a call was delivered here */
    uint64_t count;           /* deliveries that a query's answer is to have at least */
    uint64_t place;           /* deliveries that the call's replies are of */
    uint64_t answered;        /* hosts */
};

/* What a host has told of the disk that is in it, of a cell, since it has the state. */
struct group_kept {
    uint64_t told; /* versions below are on it */
    const struct group_history *
        history; /* what it has delivered itself is, from there on, to be in its log; NULL: nothing */
    uint64_t first;
};

struct group_disk {
    struct disk_sim *platters;
    struct block *block;
    struct versions *versions; /* NULL while it is down */
    uint64_t now_ns, wall_ns;
    uint64_t batches;
    bool slow, told;
    struct group_kept kept[GROUP_CHECK_CELLS_MAX];
    uint64_t highest[GROUP_CHECK_CELLS_MAX]; /* that was told, in any life */
};

/* A view that was proposed, and names other keepers. */
struct group_proposal {
    uint64_t vid; /* 0: none */
    struct view_keepers keepers;
};

/* A host. */
struct group_node {
    struct group_run *run;
    uint32_t host;
    struct member *member; /* NULL while it is down */
    struct group_cell cell[GROUP_CHECK_CELLS_MAX];
    struct group_room room[GROUP_LEASES_MAX];
    uint32_t rooms;
    struct group_asked asked[GROUP_ASKED_MAX];
    uint64_t steps;
    uint64_t quota;              /* messages that it may still send */
    uint64_t send_ppm;           /* chance in a step that it sends */
    bool returns;                /* it has left, and its next process is planned */
    struct member_counts counts; /* of this life */
    struct group_disk disk;
};

/* A way on which a client lies. */
struct group_liar {
    struct mem_lane *in, *out;
    struct mem_flow flow;
    uint16_t session;
    uint64_t at;
};

/* What a client was fed of a cell. */
struct group_fed {
    const struct group_history *history; /* NULL: nothing yet */
    uint64_t next;                       /* delivery */
};

/* A client. */
struct group_sim_client {
    struct group_run *run;
    uint32_t place, life;
    struct mem *mem;
    struct group_client *client; /* NULL while it is down, and of one that lies */
    uint64_t quota, away_ns;
    uint32_t subscribed; /* cells: a mask */
    struct group_fed fed[GROUP_CHECK_CELLS_MAX];
    struct group_liar liar[GROUP_CHECK_HOSTS_MAX];
};

struct group_run {
    const struct run_options *opt;
    struct group_check check;
    struct fleet fleet;
    struct mcast_group group;
    struct group_node node[GROUP_CHECK_HOSTS_MAX];
    uint32_t keepers[GROUP_KEEPERS];                 /* of generation 0, */
    struct view_keepers first;                       /* the same */
    struct view_keepers keepers_now, keepers_before; /* as they were last looked at */
    bool keepers_began;                              /* those of now were once enough */
    bool keepers_doomed; /* a view named so many that had just gone that they can never be enough */
    struct group_proposal
        proposal[GROUP_PROPOSALS_MAX]; /* views that name others, and may be decided yet */
    struct cell_options cell[GROUP_CHECK_CELLS_MAX];
    struct member_options member_opt;
    struct run_state state;
    struct rng rng; /* of layouts */
    struct rng client_rng;
    struct group_sim_client client[GROUP_CLIENTS_MAX];
    struct client_cell client_cell[GROUP_CHECK_CELLS_MAX];
    uint64_t pad; /* bytes of a cell's state, beside the real ones */
    uint64_t safety_end_ns;
    /* One in so many steps of a host; 0: never. */
    uint64_t leave_in, layout_in, column_in, linger_in, nested_in, ask_in;
    uint32_t burst;
    bool disks; /* hosts have some */
    struct disk_sim_options disk_options;
    bool disk_cramped;
    bool disk_losable; /* one of them, once */
    uint64_t disk_slow_in, disk_fail_in;
    struct rng disk_rng;
};

/* Every host may lose its power: keepers have their log on disk, too. */
static inline bool group_is_durable(const struct group_run *r)
{
    return r->fleet.durable;
}

static inline bool group_is_up(const struct group_run *r, uint32_t host)
{
    return r->fleet.node[host].mem != NULL;
}

/* ---- group_load.c ---- */

/* After a round. */
void group_load_step(struct group_node *);
/* Within a delivery: it may send. */
void group_load_delivered(struct group_node *, uint32_t cell);
/* Its open rooms of the cell are void. */
void group_load_void(struct group_node *, uint32_t cell);
/* The faults have stopped: it sends a last message or two. */
void group_load_calm(struct group_node *);
/* It has sent what it wanted. */
bool group_load_done(const struct group_node *);

/* ---- group_disk.c ---- */

void group_disk_draw(struct group_run *);
int group_disk_open(struct group_node *, struct err *);
void group_disk_died(struct group_node *);
/* After each round. */
void group_disk_step(struct group_node *);
void group_disk_calm(struct group_run *);
/* As its member says. */
void group_disk_persisted(struct group_node *, uint32_t cell, uint64_t version);
void group_disk_out(struct group_node *, uint32_t cells);
/* Before the state is changed. */
void group_disk_deliver(struct group_node *, uint32_t cell, uint64_t vid, uint64_t number);
/* Compares what is there with what was told. */
void group_disk_look(struct group_node *);
/* As in struct fleet_calls. */
bool group_disk_may_be_lost(const struct fleet_node *);
void group_disk_lost(struct fleet_node *);
/* All are down. */
void group_disk_fini(struct group_run *);

/* ---- group_ask.c ---- */

/* Calls or queries something. */
void group_ask_some(struct group_node *);
uint32_t group_ask_open(const struct group_node *); /* how many are under way */
void group_ask_died(struct group_node *);
/* As in struct member_machine. */
uint32_t group_ask_call(struct group_node *, uint32_t cell, const struct member_item *, void *reply,
                        uint32_t room);
int group_ask_query(struct group_node *, uint32_t cell, uint32_t from, const void *data,
                    uint32_t bytes, void *reply, uint32_t room);
void group_ask_answered(struct group_node *, uint64_t ticket, const struct member_answer *);
/* A call of its own is delivered. */
void group_ask_delivered(struct group_node *, uint32_t cell, const struct member_item *,
                         uint64_t vid);

/* ---- group_client.c ---- */

/* The reply to what a client asks. */
uint32_t group_client_reply(const struct group_node *, uint32_t cell, void *out, uint32_t room);

/* ---- group_limits.c ---- */

/* The newest view that anybody who is up has heard of; NULL: none. */
const struct view *group_newest(const struct group_run *);
/* After each round: what it proposes. */
void group_limits_step(const struct group_node *);
/* As in struct fleet_calls. */
bool group_may_crash(const struct fleet_node *, bool keep_memory);
bool group_spare(const struct fleet_node *);
/* May the host leave, so that somebody has the state of its cells and the views go on? */
bool group_may_leave(const struct group_node *);
/* More is gone than a group is built to lose: there will be no view any more. */
bool group_is_hopeless(const struct group_run *);
/* The host is a keeper. */
bool group_keeps(const struct group_run *, uint32_t host);
/* A keeper that cannot carry the views on: down without its memory, or not yet taken back. */
bool group_keeper_lost(const struct group_run *, uint32_t host);

#endif
