/* Inside of a simulated group some of whose members lie: bft_run.c has the group, its clients and the verdict, bft_member.c the
 * members and what correct ones see, bft_machine.c what they apply, bft_clients.c the clients, bft_plan.c members that lie by a plan. */
#ifndef SIM_BFT_RUN_IMPL_H
#define SIM_BFT_RUN_IMPL_H

#include "agree/bft.h"
#include "agree/bft_client.h"
#include "agree/bft_talk.h"
#include "agree/source.h"
#include "base/hash.h"
#include "mcast/alike.h"
#include "mcast/replies.h"
#include "sim/bft_check.h"
#include "sim/log_check.h"
#include "sim/scheme.h"
#include "sim/sim_signer.h"

enum {
    CLIENTS_MAX = 3,
    REGION = 7,
    CLUSTER = 77,
    PAYLOAD_MAX = 256,
    TALK_BYTES = 128 << 10,
    QUOTA_MAX = 100,
    PAD_MAX = 4000,
    REPLY_MAX = 8,
    REPLY_RING = 4096, /* for all that a client sends */
    REPLIES_BYTES = CLIENTS_MAX * (REPLY_RING + 64),
    STATE_BYTES = 24 << 10,
    LIARS_STREAM = 17,
    SPIKES_LESS = 20,
    PATIENCE_NS = 300000, /* of who lies, that somebody hears it */
    VIEWS_MORE = 4,       /* that an idle group needs beyond the time-outs, of the first length */
};

struct run;

/* A copy of the code: a member has one, or HOSTILE_TWINS. */
struct part {
    struct counter_machine counter; /* first: the machine's ctx */
    struct replies *replies;
    struct member *of;
    struct bft *bft;
    struct signer *signer;
    struct unit unit;
    uint32_t saved_bytes, saved_at, loaded_at; /* of replies, in a state */
    unsigned char saved[REPLIES_BYTES], loaded[REPLIES_BYTES];
};

/* Of who lies by a plan, and runs no code of the log. */
struct plan {
    struct scheme *scheme;
    struct neb *neb;
    struct bft_talk *talk;
    struct signer *signer;
    uint64_t said; /* broadcasts */
    uint64_t said_ns;
};

struct member {
    struct run *run;
    struct fleet_member *at;
    uint32_t rank;
    struct hostile *hostile; /* NULL: it is correct */
    struct part part[HOSTILE_TWINS];
    uint32_t parts;
    struct plan plan;
    uint64_t bytes;                  /* of memory, in its first life */
    uint64_t heard[NEB_MEMBERS_MAX]; /* the last broadcast of each */
};

struct sent {
    uint64_t pos; /* in its stream */
    uint32_t bytes;
    uint64_t after; /* the counter's hash with it; 0: it is not decided */
};

/* Of a client that lies, to a member. */
struct way {
    struct mem_lane *source, *proofs;
    struct mem_flow flow;
    uint64_t cells;
};

struct client {
    uint32_t number;
    bool open, lies;
    struct bft_client *source;
    struct signer *signer;
    struct alike replies;
    uint64_t sent, accepted, quota, end;
    struct sent message[QUOTA_MAX];
    struct way way[NEB_MEMBERS_MAX];
    struct digest chain; /* of one that lies */
};

struct run {
    const struct run_options *opt;
    struct log_check check;
    struct bft_check bft_check;
    struct fleet fleet;
    struct mcast_group group;
    uint32_t faulty, liars;
    bool lies[NEB_MEMBERS_MAX];
    bool client_lies[CLIENTS_MAX];
    enum hostile_strategy strategy;
    struct hostiles *hostiles;
    struct hostiles_options world;
    struct known known;
    uint64_t key_seed;
    uint32_t source_nodes[CLIENTS_MAX];
    struct member member[NEB_MEMBERS_MAX];
    struct client client[CLIENTS_MAX];
    struct bft_options bft_opt;
    uint64_t pad;
    uint64_t safety_end_ns;
    struct run_calls calls;
};

#define TRACE(m, ...) chaos_trace(&(m)->run->fleet.chaos, __VA_ARGS__)

/* bft_member.c */
int bft_member_open(struct fleet_member *, uint64_t seed, struct err *);
void bft_member_stepped(struct fleet_member *);
/* Lies, is down, or has no vote: it is one of f. */
bool bft_member_is_bad(const struct run *, uint32_t rank);

/* bft_machine.c */
extern const struct log_machine bft_machine;
int bft_machine_open(struct part *, struct member *, struct err *);
void bft_machine_close(struct part *);
void bft_machine_post(struct part *);

/* bft_client.c */
int bft_clients_start(struct fleet_node *, struct err *);
void bft_clients_end(struct fleet_node *);
uint64_t bft_clients_step(struct fleet_node *, uint64_t now_ns);
/* What it has sent is taken, and it has accepted the replies. */
bool bft_clients_has_all(struct client *);
/* Adds to a text what it waits for, if it does. */
void bft_clients_describe(struct client *, char *text, size_t bytes);
/* A correct member was the first to apply that. */
void bft_clients_decided(struct run *, const struct entry *, uint64_t after);

/* bft_plan.c */

/* Does who lies in this run do so by a plan? */
bool bft_plan_is_made(const struct run *);
void bft_plan_watch(struct run *);
void bft_plan_learns(void *run, const struct sign_text *, const unsigned char *signature);
int bft_plan_open(struct member *, uint64_t seed, struct err *);
void bft_plan_close(struct member *);
int bft_plan_post(struct member *, uint64_t now_ns);
int bft_plan_settle(struct member *);

#endif
