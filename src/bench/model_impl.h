/* The inside of a model: model.c (cluster, processors, measuring) and model_change.c. */
#ifndef BENCH_MODEL_IMPL_H
#define BENCH_MODEL_IMPL_H

#include "bench/model.h"
#include "host/host.h"
#include "mcast/caster.h"
#include "mcast/replica.h"
#include "mem/sim/sim.h"

struct model;

/* One replica of one group. */
struct member {
    struct state_block block; /* first: the machine's ctx */
    struct model *model;
    uint32_t node;
    struct replica *replica;
    uint64_t delivered; /* all the state there is */
};

/* A host or a client. */
struct station {
    struct model *model;
    struct processor *processor;
    uint32_t node;
    struct mem *mem;
    struct host *host; /* NULL: it is a client */

    struct caster *caster;
    uint32_t want;      /* messages that it keeps under way */
    uint64_t *start_ns; /* by sequence number modulo the window */
};

/* Who polls: some stations, in turn. */
struct processor {
    struct model *model;
    struct station *station; /* the first of them; they stand in a row */
    uint32_t stations;
    uint32_t turn;     /* whose it is */
    uint32_t idle;     /* turns in a row in which nothing happened */
    uint32_t patience; /* after how many of these it sleeps */
    bool asleep;
    uint64_t step; /* number of its next step: events of another one are void */
};

struct sample {
    uint64_t start_ns, end_ns;
};

struct model {
    struct model_options opt;
    struct sim *sim;
    struct mcast_sizes sizes;
    struct mcast_group *group;
    struct member *member;   /* by group, then rank */
    struct station *station; /* hosts, then clients */
    uint32_t hosts;
    struct processor *processor;
    uint32_t processors;
    uint32_t active; /* clients that take part */
    unsigned char *body;
    uint64_t set_next;
    uint64_t done;        /* messages so far */
    struct hist *latency; /* where to note them, or NULL */

    /* While leaders change: every message that was done. */
    bool sampling;
    struct sample *sample;
    uint32_t samples, samples_max;
    double *delayed; /* of all changes so far, in ns */
    uint32_t delays, delays_max;
};

static inline struct member *member_of(struct model *m, uint32_t group, uint32_t rank)
{
    return &m->member[group * m->opt.replicas + rank];
}

static inline struct station *client_of(struct model *m, uint32_t client)
{
    return &m->station[m->hosts + client];
}

/* Who leads the group and serves; NULL: nobody. */
struct member *model_leader(struct model *, uint32_t group);

/* Clients [0, clients) keep so many messages under way from now on, all others none. */
void model_load(struct model *, uint32_t clients, uint32_t outstanding);

/* Runs until `until` says so. ERR_TIMEOUT if it does not within a second of virtual time. */
int model_run(struct model *, bool (*until)(struct model *, uint64_t arg), uint64_t arg,
              struct err *);
bool model_until_done(struct model *, uint64_t messages); /* so many in all */

/* Lets all messages under way end. */
int model_drain(struct model *, struct err *);

/* The station's processor looks at it soon, as if something had landed. */
void model_wake(struct station *);

#endif
