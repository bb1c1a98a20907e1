/* The order of deliveries between groups. */
#include "check/amcast_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- prefix order ----
 *
 * For each two groups, what one delivers of the messages to both is a prefix of what the other
 * delivers of them. All these projections are laid out in one array, a group at a time, so that
 * the work is one step per delivery and destination. */

struct projections {
    uint32_t groups;
    uint64_t *begin; /* [g * groups + h]: where the projection of g on h begins */
    uint64_t *end;
    uint32_t *index; /* into the sequence of g */
};

/* Appends what g delivers to its projections on all other groups; only counts while there is no
 * index yet. */
static void project(const struct amcast *a, uint32_t g, struct projections *p)
{
    const struct group *group = &a->groups[g];
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t dst = a->messages[group->seq[i]].dst;
        const struct dst_list *d = &a->dsts[dst];
        if (d->count < 2 || !is_destination(a, dst, g))
            continue;
        for (uint32_t k = 0; k < d->count; k++) {
            uint32_t h = a->dst_groups[d->at + k];
            if (h == g)
                continue;
            uint64_t *end = &p->end[(uint64_t)g * p->groups + h];
            if (p->index != NULL)
                p->index[*end] = i;
            (*end)++;
        }
    }
}

static void lay_out(const struct amcast *a, struct projections *p)
{
    uint64_t pairs = (uint64_t)p->groups * p->groups, sum = 0;
    p->begin = calloc(pairs + 1, sizeof(*p->begin));
    p->end = calloc(pairs + 1, sizeof(*p->end));
    CHECK(p->begin != NULL && p->end != NULL);
    for (uint32_t g = 0; g < p->groups; g++)
        project(a, g, p);
    for (uint64_t i = 0; i < pairs; i++) {
        p->begin[i] = sum;
        sum += p->end[i];
        p->end[i] = p->begin[i];
    }
    p->index = malloc((sum + 1) * sizeof(*p->index));
    CHECK(p->index != NULL);
    for (uint32_t g = 0; g < p->groups; g++)
        project(a, g, p);
}

static void compare(struct amcast *a, const struct projections *p, uint32_t g, uint32_t h)
{
    uint64_t gh = (uint64_t)g * p->groups + h, hg = (uint64_t)h * p->groups + g;
    uint64_t i = p->begin[gh], k = p->begin[hg];
    const uint32_t *in_g = a->groups[g].seq, *in_h = a->groups[h].seq;
    for (; i < p->end[gh] && k < p->end[hg]; i++, k++) {
        uint32_t at_g = p->index[i], at_h = p->index[k];
        if (in_g[at_g] == in_h[at_h])
            continue;
        struct amcast_violation *v = amcast_violated(
            a, AMCAST_PREFIX,
            "of the messages to both %.*s and %.*s, one delivers %.*s next and the other %.*s",
            GROUP(a, g), GROUP(a, h), MESSAGE(a, in_g[at_g]), MESSAGE(a, in_h[at_h]));
        amcast_evidence_seq(a, v, g, at_g);
        amcast_evidence_seq(a, v, h, at_h);
        return;
    }
}

void amcast_verify_pairs(struct amcast *a)
{
    struct projections p = {.groups = a->group_names.count};
    lay_out(a, &p);
    for (uint32_t g = 0; g < p.groups; g++)
        for (uint32_t h = g + 1; h < p.groups; h++)
            compare(a, &p, g, h);
    free(p.begin);
    free(p.end);
    free(p.index);
}

/* ---- acyclic order ----
 *
 * Kahn's algorithm, without a list of edges, since each group is a chain: a message can be taken
 * when it heads every group that delivers it. All that was taken is in an order that every group
 * keeps; if nothing can be taken any more, the heads hold each other up in a circle. */

enum { TRIES_MAX = 64 }; /* heads from which the shortest circle is looked for */

struct heads {
    uint32_t groups;
    uint32_t *at;     /* by group: index of its head */
    uint32_t *before; /* by group: another group with the same head; NONE: the last */
    uint32_t *chain;  /* by message: the first group that it heads, plus 1 */
    uint32_t *left;   /* by message: the groups that deliver it and that it does not head yet */
    uint32_t *ready;  /* groups whose heads may be taken */
    uint32_t ready_count;
};

#define TAKEN UINT32_MAX

/* Group g has a new head: count it, and skip what it delivers a second time. */
static void settle(const struct amcast *a, struct heads *h, uint32_t g)
{
    const struct group *group = &a->groups[g];
    while (h->at[g] < group->count && h->left[group->seq[h->at[g]]] == TAKEN)
        h->at[g]++;
    if (h->at[g] == group->count)
        return;
    uint32_t m = group->seq[h->at[g]];
    h->before[g] = h->chain[m] ? h->chain[m] - 1 : NONE;
    h->chain[m] = g + 1;
    if (--h->left[m] == 0)
        h->ready[h->ready_count++] = g;
}

static void take_all(const struct amcast *a, struct heads *h)
{
    for (uint32_t g = 0; g < h->groups; g++)
        settle(a, h, g);
    while (h->ready_count > 0) {
        uint32_t g = h->ready[--h->ready_count];
        uint32_t m = a->groups[g].seq[h->at[g]];
        h->left[m] = TAKEN;
        for (uint32_t k = h->chain[m] - 1; k != NONE;) {
            uint32_t next = h->before[k];
            h->at[k]++;
            settle(a, h, k);
            k = next;
        }
    }
}

/* Head m of group g is also delivered in group `in`, at index `at`, behind that group's head. */
struct wait {
    uint32_t message, in, at;
};

static int compare_waits(const void *x, const void *y)
{
    const struct wait *a = x, *b = y;
    if (a->message != b->message)
        return a->message < b->message ? -1 : 1;
    return a->in < b->in ? -1 : a->in > b->in;
}

/* The waits of all heads, sorted by message. Caller frees. */
static struct wait *find_waits(const struct amcast *a, const struct heads *h, uint32_t *count)
{
    struct wait *waits = NULL;
    uint32_t max = 0;
    *count = 0;
    for (uint32_t g = 0; g < h->groups; g++)
        for (uint64_t i = h->at[g] + UINT64_C(1); i < a->groups[g].count; i++) {
            uint32_t m = a->groups[g].seq[i];
            if (h->left[m] == TAKEN || h->chain[m] == 0)
                continue;
            waits = intern_grow(waits, &max, *count, sizeof(*waits));
            waits[(*count)++] = (struct wait){m, g, (uint32_t)i};
        }
    if (*count > 0)
        qsort(waits, *count, sizeof(*waits), compare_waits);
    return waits;
}

static uint32_t first_wait(const struct wait *waits, uint32_t count, uint32_t message)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (waits[middle].message < message)
            low = middle + 1;
        else
            high = middle;
    }
    CHECK(low < count && waits[low].message == message);
    return low;
}

/* The shortest circle through the head of group `from`, as waits in path[]; its length, or 0 if there
 * is none shorter than `best`. Breadth first over groups: the head of one waits in the next. */
static uint32_t find_circle(const struct amcast *a, const struct heads *h, const struct wait *waits,
                            uint32_t count, uint32_t from, uint32_t best, struct wait *path)
{
    uint32_t *queue = malloc(h->groups * sizeof(*queue));
    uint32_t *via =
        malloc(h->groups * sizeof(*via)); /* wait that led to the group; NONE: not seen */
    uint32_t *parent = calloc(h->groups, sizeof(*parent));
    uint32_t *depth = calloc(h->groups, sizeof(*depth));
    CHECK(queue != NULL && via != NULL && parent != NULL && depth != NULL);
    memset(via, 0xff, h->groups * sizeof(*via));
    uint32_t head = 0, tail = 0, found = 0;
    uint32_t target = a->groups[from].seq[h->at[from]];
    queue[tail++] = from;
    while (head < tail && found == 0) {
        uint32_t g = queue[head++];
        uint32_t m = a->groups[g].seq[h->at[g]];
        if (depth[g] + 1 >= best)
            break;
        for (uint32_t w = first_wait(waits, count, m);
             w < count && waits[w].message == m && found == 0; w++) {
            uint32_t in = waits[w].in;
            if (via[in] != NONE || in == from)
                continue;
            via[in] = w;
            parent[in] = g;
            depth[in] = depth[g] + 1;
            queue[tail++] = in;
            /* Several groups may have the same head: the circle closes at any of them. */
            if (a->groups[in].seq[h->at[in]] == target)
                found = in + 1;
        }
        /* The message itself may wait in `from`: it is then behind the head that it began with. */
        for (uint32_t w = first_wait(waits, count, m);
             g != from && found == 0 && w < count && waits[w].message == m; w++)
            if (waits[w].in == from) {
                via[from] = w;
                parent[from] = g;
                depth[from] = depth[g] + 1;
                found = from + 1;
            }
    }
    uint32_t length = 0;
    if (found != 0) {
        uint32_t g = found - 1;
        length = depth[g];
        for (uint32_t i = length; i > 0; i--) {
            path[i - 1] = waits[via[g]];
            g = parent[g];
        }
    }
    free(queue);
    free(via);
    free(parent);
    free(depth);
    return length;
}

static void report_circle(struct amcast *a, const struct heads *h)
{
    uint32_t count, length = 0, best = NONE, tries = 0;
    struct wait *waits = find_waits(a, h, &count);
    struct wait *path = calloc(h->groups + (size_t)1, sizeof(*path));
    CHECK(path != NULL);
    for (uint32_t g = 0; g < h->groups && (tries < TRIES_MAX || length == 0); g++) {
        if (h->at[g] == a->groups[g].count)
            continue;
        tries++;
        uint32_t n = find_circle(a, h, waits, count, g, best, path);
        if (n > 0)
            length = best = n;
    }
    CHECK(length > 0);
    struct amcast_violation *v = amcast_violated(
        a, AMCAST_ACYCLIC, "a circle of %u messages, each delivered before the next", length);
    /* path[i].message waits for the head of path[i].in: that one is delivered before it. */
    for (uint32_t i = length; i > 0; i--) {
        uint32_t g = path[i - 1].in;
        amcast_evidence_seq(a, v, g, h->at[g]);
        amcast_evidence_seq(a, v, g, path[i - 1].at);
    }
    free(path);
    free(waits);
}

void amcast_verify_acyclic(struct amcast *a)
{
    struct heads h = {.groups = a->group_names.count};
    h.at = calloc(h.groups + (size_t)1, sizeof(*h.at));
    h.before = calloc(h.groups + (size_t)1, sizeof(*h.before));
    h.ready = calloc(h.groups + (size_t)1, sizeof(*h.ready));
    h.left = calloc(a->ids.count + (size_t)1, sizeof(*h.left));
    h.chain = amcast_stamps(a);
    CHECK(h.at != NULL && h.before != NULL && h.ready != NULL && h.left != NULL);
    /* In how many groups each is delivered; the chain serves as a stamp against counting twice. */
    for (uint32_t g = 0; g < h.groups; g++)
        for (uint32_t i = 0; i < a->groups[g].count; i++) {
            uint32_t m = a->groups[g].seq[i];
            if (h.chain[m] != g + 1)
                h.left[m]++;
            h.chain[m] = g + 1;
        }
    h.chain = amcast_stamps(a);
    take_all(a, &h);
    for (uint32_t g = 0; g < h.groups; g++)
        if (h.at[g] < a->groups[g].count) {
            report_circle(a, &h);
            break;
        }
    free(h.at);
    free(h.before);
    free(h.ready);
    free(h.left);
}
