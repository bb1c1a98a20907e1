/* Changes of leaders in all groups at once, and the messages that wait for them (TRAM sec. 8.7). */
#include "bench/model_impl.h"

#include "base/grow.h"

#include <stdlib.h>

enum {
    USUAL_MESSAGES = 2000,
    DELAYED_BY = 2, /* so many times the slowest before, a message has been delayed */
};

/* Another replica of the group is told that its leader is dead, and takes over. */
static void order_change(struct model *m, const struct member *leader, uint32_t group, bool over)
{
    uint32_t rank = leader == member_of(m, group, 0) ? 1 : 0;
    const struct member *next = member_of(m, group, rank);
    sim_oracle_lie(m->sim, next->node, leader->node, over ? SIM_TRUTH : SIM_SAYS_DEAD);
    model_wake(&m->station[next->node]);
}

/* The leaders that were, by group. */
struct change {
    struct member *leader[OVERLAY_GROUPS_MAX];
    bool over[OVERLAY_GROUPS_MAX];
    uint32_t left;
};

static bool all_changed(struct model *m, uint64_t arg)
{
    struct change *c = (struct change *)(uintptr_t)arg;
    for (uint32_t g = 0; g < m->opt.overlay->n; g++) {
        struct member *now = c->over[g] ? NULL : model_leader(m, g);
        if (now == NULL || now == c->leader[g])
            continue;
        order_change(m, c->leader[g], g, true);
        c->over[g] = true;
        c->left--;
    }
    return c->left == 0;
}

/* Newton's, from above; so that nothing has to be linked for it. */
static double square_root(double x)
{
    double root = x > 1 ? x : 1;
    for (double next; (next = (root + x / root) / 2) < root;)
        root = next;
    return x > 0 ? root : 0;
}

static void describe(const double *ns, uint32_t count, struct model_delays *d)
{
    double sum = 0, squares = 0;
    d->count = count;
    for (uint32_t i = 0; i < count; i++) {
        sum += ns[i];
        d->least = i == 0 || ns[i] < d->least ? ns[i] : d->least;
        d->most = i == 0 || ns[i] > d->most ? ns[i] : d->most;
    }
    d->mean = count ? sum / count : 0;
    for (uint32_t i = 0; i < count; i++)
        squares += (ns[i] - d->mean) * (ns[i] - d->mean);
    d->deviation = count > 1 ? square_root(squares / (count - 1)) : 0;
}

static double slowest(const struct model *m)
{
    double most = 0;
    for (uint32_t i = 0; i < m->samples; i++) {
        double ns = (double)(m->sample[i].end_ns - m->sample[i].start_ns);
        most = ns > most ? ns : most;
    }
    return most;
}

/* Those that were under way while it went on and took much longer than any before. */
static void collect(struct model *m, uint64_t from_ns, uint64_t until_ns, double usual)
{
    for (uint32_t i = 0; i < m->samples; i++) {
        const struct sample *s = &m->sample[i];
        double ns = (double)(s->end_ns - s->start_ns);
        if (s->end_ns < from_ns || s->start_ns > until_ns || ns <= DELAYED_BY * usual)
            continue;
        if (m->delays == m->delays_max) {
            m->delays_max = 2 * m->delays_max + 256;
            m->delayed = grow("samples", m->delayed, sizeof(*m->delayed), m->delays_max);
        }
        m->delayed[m->delays++] = ns;
    }
}

static int change_all(struct model *m, struct change *c, struct model_delays *d, struct err *e)
{
    m->samples = 0;
    int rc = model_run(m, model_until_done, m->done + USUAL_MESSAGES, e);
    if (rc != 0)
        return rc;
    d->usual = slowest(m);
    c->left = m->opt.overlay->n;
    uint64_t from_ns = sim_now(m->sim);
    for (uint32_t g = 0; g < m->opt.overlay->n; g++) {
        c->leader[g] = model_leader(m, g);
        order_change(m, c->leader[g], g, false);
    }
    rc = model_run(m, all_changed, (uintptr_t)c, e);
    if (rc != 0)
        return rc;
    uint64_t over_ns = sim_now(m->sim);
    d->over_ns = (double)(over_ns - from_ns);
    uint32_t first = m->delays;
    rc = model_drain(m, e);
    if (rc == 0) {
        collect(m, from_ns, over_ns, d->usual);
        describe(m->delayed + first, m->delays - first, d);
    }
    return rc;
}

int model_change(struct model *m, uint32_t clients, struct model_delays *d, struct err *e)
{
    *d = (struct model_delays){0};
    if (m->opt.replicas < 2)
        return err_set(e, ERR_INVALID, "model: groups of one replica have nobody to take over");
    struct change *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return err_set(e, ERR_NOMEM, "model: no memory");
    m->sampling = true;
    model_load(m, clients, 1);
    int rc = model_run(m, model_until_done, m->done + 2 * clients, e);
    if (rc == 0)
        rc = change_all(m, c, d, e);
    m->sampling = false;
    free(c);
    return rc;
}

void model_changes(const struct model *m, struct model_delays *d)
{
    *d = (struct model_delays){0};
    describe(m->delayed, m->delays, d);
}
