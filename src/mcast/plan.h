/* Planning an overlay tree: given which groups messages go to and how often, the tree with the least
 * expected work.
 *
 * The model. A message visits every group on the paths from the lca of its destinations down to
 * them, and each group it visits has to order it, whether it is a destination or only relays
 * (TRAM sec. 4). So of a message of weight w
 *   - every group visited gets load w: the busiest group bounds the throughput of the whole,
 *   - the hops are the levels between the lca and its deepest destination: they make the latency.
 * A tree costs load_weight * (load of the busiest) / (the least possible) + hops_weight * (hops) /
 * (the least possible). No tree has a busiest group below the weight of the messages to one
 * group, nor fewer hops than one for each message to several. Of trees of equal cost the one
 * with the lower busiest load is better, then the one with the lower load in all, then with fewer
 * hops. What the model leaves out: payloads, how many children a group forwards to, which
 * groups share a machine.
 *
 * The search. Up to PLAN_EXACT_GROUPS groups every tree is rated (Prüfer codes times roots), and
 * the answer is the best there is. Beyond that: threshold accepting, a local search that moves a
 * subtree, takes one group out and puts it elsewhere, swaps two groups, or turns the tree around a
 * new root, from several starts: the paper's trees, the spanning tree of the groups that are most
 * often addressed together, a star, random trees. The paper's three trees are always rated too,
 * and one of them is the answer unless another is really better.
 *
 * Like a protocol it does nothing by itself: plan_step rates some trees and returns, so that the
 * caller decides how long it runs. The same options and seed give the same tree after the same number
 * of trees rated. One thread. */
#ifndef MCAST_PLAN_H
#define MCAST_PLAN_H

#include "mcast/overlay.h"

enum { PLAN_EXACT_GROUPS = 7 }; /* 7^6 trees: under a second */

/* The weights of all messages may sum up to this: sums over all groups then still fit. */
#define PLAN_WEIGHT_MAX (UINT64_C(1) << 52)

struct plan_set {
    struct dst_set dst;
    uint64_t weight; /* messages; at least 1 */
};

struct plan_options {
    uint32_t groups;
    const struct plan_set *set; /* copied */
    uint32_t set_count;
    double load_weight, hops_weight; /* both 0: throughput alone, 1 and 0 */
    uint64_t seed;
    uint32_t restarts; /* starts of the search; 0: 8 */
    uint32_t moves; /* trees rated from each start; 0: by the size of the problem, so that all of it
                          takes some seconds */
    bool search_only; /* search also where every tree could be rated */
};

/* What a tree costs. Divide by plan_weight for means per message, load by the groups for the mean. */
struct plan_report {
    double cost;
    uint64_t max_load; /* of the busiest group */
    uint16_t busiest;  /* the first of them */
    uint64_t work;     /* load of all groups */
    uint64_t hops;     /* of all messages */
    uint64_t genuine;  /* messages that visit nobody but their destinations */
};

/* What one group does. It relays load - delivers. */
struct plan_load {
    uint64_t load;
    uint64_t delivers; /* messages it is a destination of; the same in every tree */
    uint64_t orders;   /* messages it is the lca of */
};

struct plan;

/* ERR_INVALID, with a text, for options that make no sense; ERR_NOMEM. */
int plan_open(struct plan **, const struct plan_options *, struct err *);
void plan_close(struct plan *);

/* Rates up to that many trees; false when there is nothing left to do. */
bool plan_step(struct plan *, uint32_t trees);

/* The best tree so far, as parents; valid until the next step. */
const uint16_t *plan_best(const struct plan *);

/* True if no tree is better than plan_best: every tree was rated, or it is as good in everything as
 * a tree could be at all, in which case the search ends early. */
bool plan_exact(const struct plan *);

/* How many trees were rated so far. */
uint64_t plan_rated(const struct plan *);

/* Rates a tree that overlay_open accepts. loads, of one place a group, may be NULL. */
void plan_rate(struct plan *, const uint16_t *parent, struct plan_report *,
               struct plan_load *loads);

/* True if a is better than b. */
bool plan_better(const struct plan_report *a, const struct plan_report *b);

/* The weight of all messages, and the load that the busiest group has at least in every tree. */
uint64_t plan_weight(const struct plan *);
uint64_t plan_load_min(const struct plan *);

#endif
