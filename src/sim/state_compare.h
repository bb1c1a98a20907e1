/* Compares the replicas of a simulated cluster: what each did with each message, compared as it comes.
 *
 * For each group it holds one sequence of messages with the reply to each and the state after it, as the
 * first replica to get there had them; all other replicas, in every life, are compared with it. Beside
 * that it feeds the checker of atomic multicast (check/amcast.h). Replies and states are kept as bytes up
 * to STATE_COMPARE_KEPT_BYTES, so that a difference can be shown, and as hashes after that.
 *
 * One thread. Running out of memory ends the process. */
#ifndef SIM_STATE_COMPARE_H
#define SIM_STATE_COMPARE_H

#include "conf/cluster.h"
#include "mcast/mcast.h"
#include "tram/sim.h"

enum { STATE_COMPARE_KEPT_BYTES = 64 << 20 };

/* A replica in one of its lives. */
struct state_compare_who {
    uint32_t group, host, life;
};

struct state_compare;

/* The cluster's names are used as long as it is. state_every as compare_every of tram/sim.h, for
 * what is said. */
struct state_compare *state_compare_open(const struct cluster *, uint32_t state_every);
void state_compare_close(struct state_compare *);

void state_compare_cast(struct state_compare *, uint32_t client, uint32_t life, uint64_t seq,
                        struct dst_set, uint64_t now_ns);
void state_compare_done(struct state_compare *, uint32_t client, uint32_t life, uint64_t seq,
                        uint64_t now_ns);
/* It will wait for no more answers; crashed: though some are outstanding. */
void state_compare_client_gone(struct state_compare *, uint32_t client, uint32_t life,
                               bool crashed);

/* A life goes on with delivery n. */
void state_compare_start(struct state_compare *, struct state_compare_who, uint64_t n,
                         uint64_t now_ns);

void state_compare_deliver(struct state_compare *, struct state_compare_who,
                           const struct delivery *, const void *reply, uint32_t reply_bytes,
                           uint64_t now_ns);

/* The replica's state after `count` deliveries; loaded: it has just come by snapshot. */
void state_compare_state(struct state_compare *, struct state_compare_who, uint64_t count,
                         bool loaded, const void *data, size_t bytes, uint64_t now_ns);

/* Messages that the group has delivered. */
uint64_t state_compare_delivered(const struct state_compare *, uint32_t group);

/* Messages that some of their groups have delivered, and others not. */
uint64_t state_compare_halfway(const struct state_compare *);

/* A replica that need not have everything: see amcast_replica_down. */
void state_compare_down(struct state_compare *, uint32_t group, uint32_t host, bool down);

/* True if nothing is wrong; else says what. */
bool state_compare_verify(struct state_compare *, bool quiesced, uint64_t now_ns,
                          struct tram_sim_finding *);

#endif
