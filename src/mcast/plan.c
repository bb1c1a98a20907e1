#include "mcast/plan.h"

#include "base/rng.h"

#include <stdlib.h>

enum {
    RESTARTS_DEFAULT = 8,
    MOVES_MIN = 300, /* from each start */
    MOVES_MAX = 40000,
    PAIRS_GROUPS_MAX = 32, /* of a larger set not every pair counts for the spanning tree */
};

/* Steps of the inner loop of rate() in all: some seconds. */
static const uint64_t effort = 600000000;

enum stage { STAGE_EXACT, STAGE_SEARCH, STAGE_DONE };

struct plan {
    uint32_t n;
    uint32_t set_count;
    double load_weight, hops_weight;
    uint32_t restarts, moves;
    struct rng rng;

    /* The messages. Set i has members member[from[i] .. from[i + 1]). */
    uint16_t *member;
    uint32_t *from;
    uint64_t *weight;
    uint64_t *until;     /* weight of the sets up to and with this one, to draw one by its weight */
    double *pair;        /* how often two groups are addressed together; n by n */
    uint64_t total;      /* weight of all */
    uint64_t deliveries; /* weight times destinations of all: no tree has less work */
    uint64_t load_min;   /* no tree's busiest group has less */
    uint64_t hops_min;   /* no tree has less: one for each message to several groups */
    uint16_t hot;        /* the group with most deliveries */

    enum stage stage;
    uint64_t rated;
    uint64_t index;         /* STAGE_EXACT: the next tree */
    uint32_t restart, move; /* STAGE_SEARCH */
    bool exact;

    struct plan_report best_report, here_report;
    double threshold; /* by how much a move may be worse at the start of a restart */
    uint16_t best[OVERLAY_GROUPS_MAX];
    uint16_t here[OVERLAY_GROUPS_MAX]; /* where the search is */
    uint16_t next[OVERLAY_GROUPS_MAX]; /* where it might go */

    /* Of rate(). */
    uint16_t depth[OVERLAY_GROUPS_MAX];
    uint32_t stamp[OVERLAY_GROUPS_MAX]; /* the set by which a group was visited last, plus 1 */
    uint64_t load[OVERLAY_GROUPS_MAX];
    uint64_t order[OVERLAY_GROUPS_MAX];
    uint64_t deliver[OVERLAY_GROUPS_MAX]; /* filled once */
};

/* ---- rating ---- */

static void fill_depths(struct plan *p, const uint16_t *parent)
{
    memset(p->depth, 0xff, sizeof(uint16_t) * p->n);
    for (uint32_t g = 0; g < p->n; g++) {
        uint32_t steps = 0;
        uint16_t x = (uint16_t)g;
        for (; x != OVERLAY_NONE && p->depth[x] == UINT16_MAX; x = parent[x])
            CHECK(++steps <= p->n);
        uint32_t depth = steps + (x == OVERLAY_NONE ? 0 : p->depth[x] + 1u);
        for (x = (uint16_t)g; steps > 0; x = parent[x], steps--)
            p->depth[x] = (uint16_t)--depth;
    }
}

/* The groups that one set visits, each found once: from every destination up to what was visited
 * already, while `top`, the lca of the destinations seen so far, rises to meet it. */
static void visit(struct plan *p, const uint16_t *parent, uint32_t set, struct plan_report *r)
{
    const uint16_t *member = p->member + p->from[set];
    uint32_t count = p->from[set + 1] - p->from[set], visited = 0, mark = set + 1;
    uint64_t w = p->weight[set];
    uint16_t top = member[0], deepest = 0;

#define VISIT(g) (p->stamp[g] = mark, p->load[g] += w, visited++)
    VISIT(top);
    for (uint32_t i = 0; i < count; i++) {
        uint16_t x = member[i];
        if (p->depth[x] > deepest)
            deepest = p->depth[x];
        for (; p->stamp[x] != mark; x = parent[x]) {
            VISIT(x);
            while (top != x && p->depth[top] >= p->depth[x]) {
                top = parent[top];
                if (p->stamp[top] != mark)
                    VISIT(top);
            }
            if (top == x)
                break;
        }
    }
#undef VISIT
    p->order[top] += w;
    r->work += visited * w;
    r->hops += (uint64_t)(deepest - p->depth[top]) * w;
    r->genuine += visited == count ? w : 0;
}

/* How far above the least possible: 1 is as good as it gets, 0 that there is nothing to gain. */
static double relative(uint64_t value, uint64_t least)
{
    return least > 0 ? (double)value / (double)least : 0;
}

static void rate(struct plan *p, const uint16_t *parent, struct plan_report *r)
{
    *r = (struct plan_report){0};
    fill_depths(p, parent);
    memset(p->stamp, 0, sizeof(p->stamp[0]) * p->n);
    memset(p->load, 0, sizeof(p->load[0]) * p->n);
    memset(p->order, 0, sizeof(p->order[0]) * p->n);
    for (uint32_t i = 0; i < p->set_count; i++)
        visit(p, parent, i, r);
    for (uint32_t g = 0; g < p->n; g++)
        if (p->load[g] > r->max_load) {
            r->max_load = p->load[g];
            r->busiest = (uint16_t)g;
        }
    r->cost = p->load_weight * relative(r->max_load, p->load_min) +
              p->hops_weight * relative(r->hops, p->hops_min);
}

void plan_rate(struct plan *p, const uint16_t *parent, struct plan_report *r,
               struct plan_load *loads)
{
    rate(p, parent, r);
    for (uint32_t g = 0; loads != NULL && g < p->n; g++)
        loads[g] = (struct plan_load){p->load[g], p->deliver[g], p->order[g]};
}

bool plan_better(const struct plan_report *a, const struct plan_report *b)
{
    if (a->cost != b->cost)
        return a->cost < b->cost;
    if (a->max_load != b->max_load)
        return a->max_load < b->max_load;
    if (a->work != b->work)
        return a->work < b->work;
    return a->hops < b->hops;
}

static void keep_best(struct plan *p, const uint16_t *parent, const struct plan_report *r)
{
    if (plan_better(r, &p->best_report)) {
        p->best_report = *r;
        memcpy(p->best, parent, sizeof(uint16_t) * p->n);
    }
}

/* True if the best tree is at every lower bound: no tree is better, and looking on is in vain. */
static bool is_perfect(const struct plan *p)
{
    const struct plan_report *r = &p->best_report;

    return r->max_load == p->load_min && r->work == p->deliveries && r->hops == p->hops_min;
}

/* ---- changing a tree ---- */

/* True if d is g or below it. */
static bool is_above(const uint16_t *parent, uint16_t g, uint16_t d)
{
    while (d != g && d != OVERLAY_NONE)
        d = parent[d];
    return d == g;
}

/* Makes g the root by turning round the edges between it and the old one. */
static void turn(uint16_t *parent, uint16_t g)
{
    uint16_t above = OVERLAY_NONE;

    while (g != OVERLAY_NONE) {
        uint16_t up = parent[g];
        parent[g] = above;
        above = g;
        g = up;
    }
}

static void swap_groups(uint16_t *parent, uint32_t n, uint16_t a, uint16_t b)
{
    for (uint32_t g = 0; g < n; g++)
        if (parent[g] == a)
            parent[g] = b;
        else if (parent[g] == b)
            parent[g] = a;
    uint16_t up = parent[a];
    parent[a] = parent[b];
    parent[b] = up;
}

/* Takes g out, its children going to its parent, and puts it beside or above `to`. The first child
 * of a root takes its place. */
static void transplant(uint16_t *parent, uint32_t n, uint16_t g, uint16_t to, bool above)
{
    uint16_t heir = parent[g];

    for (uint32_t x = 0; x < n; x++)
        if (parent[x] == g) {
            parent[x] = heir;
            if (heir == OVERLAY_NONE)
                heir = (uint16_t)x;
        }
    if (above) {
        parent[g] = parent[to];
        parent[to] = g;
    } else {
        parent[g] = to;
    }
}

/* Any recursive tree over a random order of the groups. */
static void random_tree(struct plan *p, uint16_t *parent)
{
    uint16_t order[OVERLAY_GROUPS_MAX];

    order[0] = 0;
    for (uint32_t i = 1; i < p->n; i++) {
        uint32_t j = (uint32_t)rng_below(&p->rng, i + 1);
        order[i] = (uint16_t)i;
        order[i] = order[j];
        order[j] = (uint16_t)i;
    }
    parent[order[0]] = OVERLAY_NONE;
    for (uint32_t i = 1; i < p->n; i++)
        parent[order[i]] = order[rng_below(&p->rng, i)];
}

static void star(struct plan *p, uint16_t *parent)
{
    for (uint32_t g = 0; g < p->n; g++)
        parent[g] = g == p->hot ? OVERLAY_NONE : p->hot;
}

/* The heaviest spanning tree (Prim) of the groups that are addressed together, from the hottest. */
static void spanning_tree(struct plan *p, uint16_t *parent)
{
    double reach[OVERLAY_GROUPS_MAX]; /* the heaviest edge to the tree; below 0: in it */
    uint16_t add = p->hot;

    for (uint32_t g = 0; g < p->n; g++) {
        reach[g] = 0;
        parent[g] = p->hot;
    }
    parent[add] = OVERLAY_NONE;
    for (uint32_t added = 1; added < p->n; added++) {
        reach[add] = -1;
        uint16_t heaviest = OVERLAY_NONE;
        for (uint32_t g = 0; g < p->n; g++) {
            if (reach[g] < 0)
                continue;
            double pair = p->pair[(size_t)add * p->n + g];
            if (pair > reach[g]) {
                reach[g] = pair;
                parent[g] = add;
            }
            if (heaviest == OVERLAY_NONE || reach[g] > reach[heaviest])
                heaviest = (uint16_t)g;
        }
        add = heaviest;
    }
}

/* ---- every tree ---- */

/* Tree number `index`: its root, then the digits of a Prüfer code. Decoding takes the lowest leaf away
 * in turn and so gives each group its parent on the way to the last, which never goes. */
static void numbered_tree(uint32_t n, uint64_t index, uint16_t *parent)
{
    uint16_t code[PLAN_EXACT_GROUPS], degree[PLAN_EXACT_GROUPS];
    uint16_t root = (uint16_t)(index % n);

    for (uint32_t g = 0; g < n; g++)
        degree[g] = 1;
    for (uint32_t i = 0; i + 2 < n; i++) {
        index /= n;
        code[i] = (uint16_t)(index % n);
        degree[code[i]]++;
    }
    parent[n - 1] = OVERLAY_NONE;
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint32_t leaf = 0;
        while (degree[leaf] != 1)
            leaf++;
        parent[leaf] = i + 2 < n ? code[i] : (uint16_t)(n - 1);
        degree[leaf] = 0;
        degree[parent[leaf]]--;
    }
    turn(parent, root);
}

static uint64_t tree_count(uint32_t n)
{
    uint64_t count = 1;

    for (uint32_t i = 1; i < n; i++)
        count *= n;
    return count;
}

static void exact_one(struct plan *p)
{
    struct plan_report r;

    numbered_tree(p->n, p->index, p->next);
    rate(p, p->next, &r);
    p->rated++;
    keep_best(p, p->next, &r);
    if (++p->index == tree_count(p->n)) {
        p->exact = true;
        p->stage = STAGE_DONE;
    }
}

/* ---- the search ---- */

/* Two different groups: mostly two that are addressed together, by the weight of the messages. */
static void draw_groups(struct plan *p, uint16_t *a, uint16_t *b)
{
    if (rng_below(&p->rng, 2) == 0) {
        uint64_t draw = rng_below(&p->rng, p->total);
        uint32_t low = 0, high = p->set_count - 1;
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (p->until[middle] <= draw)
                low = middle + 1;
            else
                high = middle;
        }
        uint32_t count = p->from[low + 1] - p->from[low];
        const uint16_t *member = p->member + p->from[low];
        if (count > 1) {
            uint32_t i = (uint32_t)rng_below(&p->rng, count);
            uint32_t j = (uint32_t)rng_below(&p->rng, count - 1);
            *a = member[i];
            *b = member[j + (j >= i)];
            return;
        }
    }
    *a = (uint16_t)rng_below(&p->rng, p->n);
    *b = (uint16_t)rng_below(&p->rng, p->n - 1);
    *b = (uint16_t)(*b + (*b >= *a));
}

static void change(struct plan *p, uint16_t *parent)
{
    uint16_t a, b;

    draw_groups(p, &a, &b);
    switch (rng_below(&p->rng, 8)) {
    case 0:
        turn(parent, a);
        return;
    case 1:
    case 2:
        swap_groups(parent, p->n, a, b);
        return;
    case 3:
        transplant(parent, p->n, a, b, true);
        return;
    case 4:
        transplant(parent, p->n, a, b, false);
        return;
    default:
        if (is_above(parent, a, b))
            parent[b] = a;
        else
            parent[a] = b;
    }
}

/* What the search goes by: the cost, and a little of what breaks ties, so that it has a slope to
 * follow where the cost alone is flat. */
static double energy(const struct plan *p, const struct plan_report *r)
{
    return r->cost + 0.05 * (relative(r->max_load, p->load_min) + relative(r->work, p->deliveries));
}

static void start(struct plan *p)
{
    if (p->restart == 0) {
        spanning_tree(p, p->here);
    } else if (p->restart == 1) {
        star(p, p->here);
    } else if (p->restart % 2 == 0) {
        memcpy(p->here, p->best, sizeof(uint16_t) * p->n);
    } else {
        random_tree(p, p->here);
    }
    rate(p, p->here, &p->here_report);
    p->rated++;
    keep_best(p, p->here, &p->here_report);
    p->threshold = 0.1 * energy(p, &p->here_report);
}

/* The threshold falls to 0 over the first three quarters; then only what is not worse is accepted. */
static bool accept(const struct plan *p, const struct plan_report *r)
{
    double left = 1 - (double)p->move / (0.75 * (double)p->moves);

    if (left <= 0)
        return !plan_better(&p->here_report, r);
    return energy(p, r) <= energy(p, &p->here_report) + left * left * p->threshold;
}

static void search_one(struct plan *p)
{
    struct plan_report r;

    if (p->move == 0)
        start(p);
    memcpy(p->next, p->here, sizeof(uint16_t) * p->n);
    change(p, p->next);
    rate(p, p->next, &r);
    p->rated++;
    if (accept(p, &r)) {
        memcpy(p->here, p->next, sizeof(uint16_t) * p->n);
        p->here_report = r;
        keep_best(p, p->here, &r);
    }
    if (++p->move == p->moves) {
        p->move = 0;
        if (++p->restart == p->restarts)
            p->stage = STAGE_DONE;
    }
}

bool plan_step(struct plan *p, uint32_t trees)
{
    for (; trees > 0 && p->stage != STAGE_DONE; trees--) {
        if (p->stage == STAGE_EXACT)
            exact_one(p);
        else
            search_one(p);
        if (is_perfect(p)) {
            p->exact = true;
            p->stage = STAGE_DONE;
        }
    }
    return p->stage != STAGE_DONE;
}

const uint16_t *plan_best(const struct plan *p)
{
    return p->best;
}

bool plan_exact(const struct plan *p)
{
    return p->exact;
}

uint64_t plan_rated(const struct plan *p)
{
    return p->rated;
}

uint64_t plan_weight(const struct plan *p)
{
    return p->total;
}

uint64_t plan_load_min(const struct plan *p)
{
    return p->load_min;
}

/* ---- open and close ---- */

static int check_options(const struct plan_options *o, uint64_t *members, struct err *e)
{
    uint64_t total = 0;

    if (o->groups == 0 || o->groups > OVERLAY_GROUPS_MAX)
        return err_set(e, ERR_INVALID, "a plan for %u groups: 1 to %u are possible", o->groups,
                       OVERLAY_GROUPS_MAX);
    if (o->set_count == 0)
        return err_set(e, ERR_INVALID, "nothing to plan for: no destination set is given");
    if (!(o->load_weight >= 0 && o->hops_weight >= 0))
        return err_set(e, ERR_INVALID, "the weights of load and hops must not be negative");
    for (uint32_t i = 0; i < o->set_count; i++) {
        int rc = dst_check(o->set[i].dst, o->groups, e);
        if (rc < 0)
            return rc;
        if (o->set[i].weight == 0)
            return err_set(e, ERR_INVALID, "destination set %u has weight 0: leave it out", i);
        if (o->set[i].weight > PLAN_WEIGHT_MAX - total)
            return err_set(e, ERR_INVALID, "the weights sum up to more than 2^52: divide them");
        total += o->set[i].weight;
        *members += o->set[i].dst.count;
    }
    if (*members > UINT32_MAX)
        return err_set(e, ERR_INVALID, "the destination sets have more than 2^32 members");
    return 0;
}

/* Pairs of a set of k groups share its weight so that each member has it once in all. Of a large set
 * only neighbours in the list count: the spanning tree needs a hint, not the k * k pairs. */
static void add_pairs(struct plan *p, struct plan_set s)
{
    const uint16_t *group = s.dst.group;
    bool all = s.dst.count <= PAIRS_GROUPS_MAX;
    double share = (double)s.weight / (all ? (double)s.dst.count - 1 : 2);

    for (uint32_t i = 0; i + 1 < s.dst.count; i++)
        for (uint32_t j = i + 1; j < (all ? s.dst.count : i + 2); j++) {
            p->pair[(size_t)group[i] * p->n + group[j]] += share;
            p->pair[(size_t)group[j] * p->n + group[i]] += share;
        }
}

static void add_sets(struct plan *p, const struct plan_options *o)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < p->set_count; i++) {
        struct plan_set s = o->set[i];
        p->from[i] = used;
        memcpy(p->member + used, s.dst.group, s.dst.count * sizeof(uint16_t));
        used += s.dst.count;
        p->weight[i] = s.weight;
        p->total += s.weight;
        p->until[i] = p->total;
        p->deliveries += s.weight * s.dst.count;
        p->hops_min += s.dst.count > 1 ? s.weight : 0;
        for (uint32_t j = 0; j < s.dst.count; j++)
            p->deliver[s.dst.group[j]] += s.weight;
        add_pairs(p, s);
    }
    p->from[p->set_count] = used;
    for (uint32_t g = 0; g < p->n; g++)
        if (p->deliver[g] > p->load_min) {
            p->load_min = p->deliver[g];
            p->hot = (uint16_t)g;
        }
}

static void rate_shapes(struct plan *p)
{
    for (int i = 0; i < OVERLAY_SHAPE_COUNT; i++) {
        struct plan_report r;
        overlay_shape_fill((enum overlay_shape)i, p->n, p->next);
        rate(p, p->next, &r);
        p->rated++;
        if (i == 0) {
            p->best_report = r;
            memcpy(p->best, p->next, sizeof(uint16_t) * p->n);
        }
        keep_best(p, p->next, &r);
    }
}

static uint32_t default_moves(const struct plan *p)
{
    uint64_t steps = 8 * (uint64_t)p->n + 4 * (uint64_t)p->from[p->set_count];
    uint64_t moves = effort / steps / RESTARTS_DEFAULT;

    moves = moves < MOVES_MIN ? MOVES_MIN : moves;
    return (uint32_t)(moves > MOVES_MAX ? MOVES_MAX : moves);
}

int plan_open(struct plan **out, const struct plan_options *o, struct err *e)
{
    uint64_t members = 0;
    int rc = check_options(o, &members, e);
    if (rc < 0)
        return rc;
    struct plan *p = calloc(1, sizeof *p);
    if (p == NULL)
        goto no_memory;
    p->n = o->groups;
    p->set_count = o->set_count;
    p->member = calloc(members, sizeof p->member[0]);
    p->from = calloc((size_t)o->set_count + 1, sizeof p->from[0]);
    p->weight = calloc(o->set_count, sizeof p->weight[0]);
    p->until = calloc(o->set_count, sizeof p->until[0]);
    p->pair = calloc((size_t)p->n * p->n, sizeof p->pair[0]);
    if (!p->member || !p->from || !p->weight || !p->until || !p->pair)
        goto no_memory;
    bool given = o->load_weight > 0 || o->hops_weight > 0;
    p->load_weight = given ? o->load_weight : 1;
    p->hops_weight = o->hops_weight;
    rng_init(&p->rng, o->seed);
    add_sets(p, o);
    p->restarts = o->restarts ? o->restarts : RESTARTS_DEFAULT;
    p->moves = o->moves ? o->moves : default_moves(p);
    rate_shapes(p);
    p->exact = is_perfect(p);
    p->stage = p->exact                                       ? STAGE_DONE
               : p->n <= PLAN_EXACT_GROUPS && !o->search_only ? STAGE_EXACT
                                                              : STAGE_SEARCH;
    *out = p;
    return 0;

no_memory:
    plan_close(p);
    return err_set(e, ERR_NOMEM, "no memory to plan for %u groups and %u destination sets",
                   o->groups, o->set_count);
}

void plan_close(struct plan *p)
{
    if (p == NULL)
        return;
    free(p->member);
    free(p->from);
    free(p->weight);
    free(p->until);
    free(p->pair);
    free(p);
}
