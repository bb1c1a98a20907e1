/* Measuring in virtual time: groups and clients on processors and links that cost what is said.
 *
 * A model is the replicas and casters of production on the simulated memory (mem/sim/sim.h), stepped as
 * their hosts would be: a processor takes its nodes in turn and polls without end, and every round,
 * entry, write and byte takes its time. Where nothing is new a processor sleeps until something lands,
 * and then looks half a lap later, which is what polling costs on average. So a cluster of any
 * size can be measured by one thread, and the same options give the same figures.
 *
 * docs/model.md has what is assumed. One thread; models share what all simulated worlds share. */
#ifndef BENCH_MODEL_H
#define BENCH_MODEL_H

#include "base/hist.h"
#include "mcast/mcast.h"
#include "mcast/overlay.h"

/* What things cost: name, whether it is a matter of the processor (calibrated on a real one) or of the
 * network, what it is. Times in nanoseconds, but picoseconds where the name ends in _ps. */
#define MODEL_COSTS(X)                                                                             \
    X(write_ns, false, "a write, from leaving its sender until it can be read")                    \
    X(ack_ns, false, "from there until its sender may know")                                       \
    X(byte_ps, false, "a byte, at either end of a link")                                           \
    X(post_ns, false, "a write, of its sender's processor")                                        \
    X(raise_ns, false, "a raise, from taking the permission away until giving it")                 \
    X(store_ns, true, "a write into memory of the same processor")                                 \
    X(copy_ps, true, "a byte of such a write, or of an entry")                                     \
    X(clock_ns, true, "a look at the clock, once a lap of a processor")                            \
    X(poll_ns, true, "a round of a leader that finds nothing")                                     \
    X(watch_ns, true, "a round of a follower that finds nothing")                                  \
    X(scan_ns, true, "a look of a leader at one of its sources' rings")                            \
    X(entry_ns, true, "an entry, at a leader")                                                     \
    X(follow_ns, true, "an entry, at a follower")                                                  \
    X(stamp_ns, true, "an entry that the genuine protocol orders among groups, at a leader")       \
    X(follow_stamp_ns, true, "such an entry, at a follower")                                       \
    X(look_ns, true, "a look of a client at its replies, for each group it waits for")             \
    X(cast_ns, true, "a message, at its client")                                                   \
    X(reply_ns, true, "a reply, at its client")

struct model_costs {
#define MODEL_COST_FIELD_(name, cpu, text) double name;
    MODEL_COSTS(MODEL_COST_FIELD_)
#undef MODEL_COST_FIELD_
};

enum {
#define MODEL_COST_ONE_(name, cpu, text) MODEL_COST_##name,
    MODEL_COSTS(MODEL_COST_ONE_)
#undef MODEL_COST_ONE_
        MODEL_COST_COUNT
};

/* One cost by its number, its name and what it is. */
double *model_cost(struct model_costs *, uint32_t which);
const char *model_cost_name(uint32_t which);
const char *model_cost_text(uint32_t which);
bool model_cost_is_cpu(uint32_t which);

/* The number of a name, or ERR_NOTFOUND with a text that lists them. */
int model_cost_find(const char *name, struct err *);

/* How often each thing was done, and the time that a real processor took for all of it. */
struct model_work {
    double count[MODEL_COST_COUNT];
    double cpu_ns;
};

/* Finds what the things cost of which some row of work has any: the costs, none below 0, with which the
 * rows come out best, each by its relative error. The other costs stay as they are. What is priced in
 * picoseconds is counted in thousands. */
void model_fit(struct model_costs *, const struct model_work *, uint32_t rows);

/* The time that so much work takes by these costs, of the processor alone. */
double model_work_ns(struct model_costs *, const struct model_work *);

/* Where the parts of a cluster are. */
enum model_layout {
    MODEL_SPREAD, /* every replica and every client has a processor of its own, links between all */
    MODEL_SHARED, /* all hosts share one processor, all clients another: two cores, one memory */
};

struct model_preset {
    const char *name, *text;
    enum model_layout layout;
    struct model_costs costs; /* of the network; those of the processor are 0 */
};

/* By name, or NULL; and all of them, up to NULL. */
const struct model_preset *model_preset_named(const char *name);
const struct model_preset *model_preset_at(uint32_t);

/* Processor costs as they were measured once; good for figures that shall be the same everywhere. */
extern const struct model_costs model_costs_stored;

struct model_options {
    enum mcast_protocol protocol;
    const struct overlay *overlay; /* as many groups as it has; stays the caller's */
    uint32_t replicas;             /* of a group */
    uint32_t hosts;                /* MODEL_SHARED: how many, at least as many as replicas */
    uint32_t clients;              /* at most */
    uint32_t payload;              /* bytes of a message */
    const uint16_t *sets;          /* destinations of the messages, one set after the other, */
    uint32_t dst, sets_count;      /* each of dst groups; stays the caller's */
    enum model_layout layout;
    struct model_costs costs;
    uint64_t seed;
    /* Processors never sleep once the cluster is open: takes far longer, and shows whether sleeping
     * makes a difference that it must not make. */
    bool restless;
};

struct model;

/* Opens the cluster and runs it until every group has a leader that serves. */
int model_open(const struct model_options *, struct model **, struct err *);
void model_close(struct model *);

/* One client sends so many messages, one at a time, and adds how long each took, in ns. The rest is
 * as if not there. */
int model_latency(struct model *, uint32_t messages, struct hist *, struct err *);

/* So many clients each keep so many messages under way. Gives how many are done in a second. */
int model_rate(struct model *, uint32_t clients, uint32_t outstanding, double *rate, struct err *);

/* As model_rate, with as many under way as bring most. */
int model_saturate(struct model *, uint32_t clients, double *rate, struct err *);

/* Messages that waited for a change of leaders, in ns. */
struct model_delays {
    uint64_t count;
    double mean, deviation, least, most;
    double over_ns; /* from the order to change until every group had a new leader that served */
    double usual;   /* the slowest message before */
};

/* So many clients send one message at a time, and every group changes its leader at once. */
int model_change(struct model *, uint32_t clients, struct model_delays *, struct err *);

/* Of all messages of all model_change so far together. */
void model_changes(const struct model *, struct model_delays *);

uint64_t model_hash(const struct model *); /* of everything that has happened */
uint64_t model_events(const struct model *);

#endif
