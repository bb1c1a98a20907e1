/* Judging a history: everything but the order between groups, which is in amcast_order.c. */
#include "check/amcast.h"

#include "check/amcast_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- the sequence of each group ----
 *
 * What the runs of a group cover is cut into stretches of consecutive numbers: one, unless
 * something is wrong. The stretches stand one behind the other in `seq`, so that its size is
 * bounded by the deliveries whatever numbers a broken history has. */

struct run_order {
    uint64_t n_first;
    uint32_t run;
};

static int compare_runs(const void *x, const void *y)
{
    const struct run_order *a = x, *b = y;
    if (a->n_first != b->n_first)
        return a->n_first < b->n_first ? -1 : 1;
    return a->run < b->run ? -1 : a->run > b->run;
}

/* The runs of a group that delivered something, by their first numbers. Caller frees. */
static struct run_order *sort_runs(const struct amcast *a, const struct group *g, uint32_t *count)
{
    uint32_t n = 0;
    for (uint32_t r = g->run_first; r != NONE; r = a->runs[r].next)
        n += a->runs[r].count > 0;
    struct run_order *order = calloc(n + (size_t)1, sizeof(*order));
    CHECK(order != NULL);
    n = 0;
    for (uint32_t r = g->run_first; r != NONE; r = a->runs[r].next)
        if (a->runs[r].count > 0)
            order[n++] = (struct run_order){a->runs[r].n_first, r};
    qsort(order, n, sizeof(*order), compare_runs);
    *count = n;
    return order;
}

static void lay_out(struct amcast *a, struct group *g, const struct run_order *order,
                    uint32_t count)
{
    uint32_t max = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct run *r = &a->runs[order[i].run];
        uint64_t end = r->n_first + r->count;
        struct stretch *s = g->stretch_count ? &g->stretches[g->stretch_count - 1] : NULL;
        if (s == NULL || r->n_first > s->n_end) {
            uint64_t at = s ? s->at + (s->n_end - s->n_first) : 0;
            g->stretches = intern_grow(g->stretches, &max, g->stretch_count, sizeof(*s));
            s = &g->stretches[g->stretch_count++];
            *s = (struct stretch){r->n_first, r->n_first, (uint32_t)at};
        }
        r->at = s->at + (uint32_t)(r->n_first - s->n_first);
        if (end > s->n_end)
            s->n_end = end;
        CHECK(s->at + (s->n_end - s->n_first) < NONE);
        g->count = s->at + (uint32_t)(s->n_end - s->n_first);
    }
    g->seq = malloc((g->count + (size_t)1) * sizeof(*g->seq));
    g->seq_run = malloc((g->count + (size_t)1) * sizeof(*g->seq_run));
    CHECK(g->seq != NULL && g->seq_run != NULL);
    memset(g->seq, 0xff, g->count * sizeof(*g->seq));
}

void amcast_evidence_seq(const struct amcast *a, struct amcast_violation *v, uint32_t group,
                         uint32_t i)
{
    const struct run *r = &a->runs[a->groups[group].seq_run[i]];
    amcast_evidence_step(a, v, r, i - r->at);
}

/* Puts a run's deliveries into the sequence. The first one that differs from what is there is a
 * violation; what follows it in the run tells nothing new. */
static void fill(struct amcast *a, uint32_t group, uint32_t run)
{
    struct group *g = &a->groups[group];
    const struct run *r = &a->runs[run];
    bool differs = false;
    for (uint32_t i = 0; i < r->count; i++) {
        uint32_t *at = &g->seq[r->at + i];
        if (*at == NONE) {
            *at = r->steps[i].message;
            g->seq_run[r->at + i] = run;
        } else if (*at != r->steps[i].message && !differs) {
            differs = true;
            struct amcast_violation *v = amcast_violated(
                a, AMCAST_PREFIX, "replicas of %.*s deliver different messages as number %llu",
                GROUP(a, group), (unsigned long long)(r->n_first + i));
            amcast_evidence_seq(a, v, group, r->at + i);
            amcast_evidence_step(a, v, r, i);
        }
    }
}

/* Numbers that nobody delivered. */
static void check_holes(struct amcast *a, uint32_t group)
{
    const struct group *g = &a->groups[group];
    uint64_t expected = 1; /* and 0, at the beginning */
    for (uint32_t s = 0; s < g->stretch_count; s++) {
        const struct stretch *t = &g->stretches[s];
        if (t->n_first > expected) {
            struct amcast_violation *v = amcast_violated(
                a, AMCAST_NUMBERS, "nobody delivered %llu to %llu in %.*s, but what follows",
                (unsigned long long)expected, (unsigned long long)(t->n_first - 1),
                GROUP(a, group));
            if (t->at > 0)
                amcast_evidence_seq(a, v, group, t->at - 1);
            amcast_evidence_seq(a, v, group, t->at);
        }
        expected = t->n_end;
    }
}

/* The number after the last, and the first, of what a group delivered. 0 if nothing. */
static uint64_t group_end(const struct group *g)
{
    return g->stretch_count ? g->stretches[g->stretch_count - 1].n_end : 0;
}

static uint64_t group_begin(const struct group *g)
{
    return g->stretch_count ? g->stretches[0].n_first : 0;
}

/* A first life begins at the beginning, unless it says otherwise; and no state holds what nobody
 * delivered. A `start` tells the number that comes next: 0 or 1 if nothing was delivered. */
static void check_begins(struct amcast *a)
{
    for (uint32_t i = 0; i < a->run_count; i++) {
        const struct run *r = &a->runs[i];
        const struct life *l = &a->lives[r->life];
        uint32_t group = a->replicas[l->replica].group;
        const struct group *g = &a->groups[group];
        if (r->by_start) {
            if (r->n_first > 1 && r->n_first > group_end(g)) {
                struct amcast_violation *v = amcast_violated(
                    a, AMCAST_NUMBERS, "%.*s of %.*s starts behind all that was delivered",
                    HOST(a, l->replica), GROUP(a, group));
                amcast_evidence(v, (struct amcast_place){r->file, r->start_line},
                                "it starts with number %llu", (unsigned long long)r->n_first);
                if (g->count > 0)
                    amcast_evidence_seq(a, v, group, g->count - 1);
            }
        } else if (l->inc == 0 && l->run_first == i && r->n_first != group_begin(g)) {
            struct amcast_violation *v = amcast_violated(
                a, AMCAST_NUMBERS, "the first life of %.*s of %.*s does not begin at the beginning",
                HOST(a, l->replica), GROUP(a, group));
            amcast_evidence_step(a, v, r, 0);
            amcast_evidence_seq(a, v, group, 0);
        }
    }
}

static void build_sequences(struct amcast *a)
{
    for (uint32_t i = 0; i < a->group_names.count; i++) {
        struct group *g = &a->groups[i];
        uint32_t count;
        struct run_order *order = sort_runs(a, g, &count);
        lay_out(a, g, order, count);
        for (uint32_t r = 0; r < count; r++)
            fill(a, i, order[r].run);
        free(order);
        if (!a->gap)
            check_holes(a, i);
    }
    if (!a->gap)
        check_begins(a);
}

/* ---- integrity ---- */

static void delivered_twice(struct amcast *a, uint32_t life, uint32_t run, uint32_t step)
{
    uint32_t message = a->runs[run].steps[step].message;
    uint32_t replica = a->lives[life].replica;
    struct amcast_violation *v =
        amcast_violated(a, AMCAST_INTEGRITY, "%.*s of %.*s delivers %.*s twice", HOST(a, replica),
                        GROUP(a, a->replicas[replica].group), MESSAGE(a, message));
    for (uint32_t r = a->lives[life].run_first; v != NULL && r != NONE; r = a->runs[r].life_next)
        for (uint32_t i = 0; i < a->runs[r].count; i++)
            if (a->runs[r].steps[i].message == message) {
                amcast_evidence_step(a, v, &a->runs[r], i);
                amcast_evidence_step(a, v, &a->runs[run], step);
                return;
            }
}

/* No message twice in one life, whatever the other replicas say. */
static void check_lives(struct amcast *a)
{
    uint32_t *stamps = amcast_stamps(a);
    for (uint32_t l = 0; l < a->life_keys.count; l++)
        for (uint32_t r = a->lives[l].run_first; r != NONE; r = a->runs[r].life_next)
            for (uint32_t i = 0; i < a->runs[r].count; i++) {
                uint32_t *stamp = &stamps[a->runs[r].steps[i].message];
                if (*stamp == l + 1)
                    delivered_twice(a, l, r, i);
                *stamp = l + 1;
            }
}

/* No message at two numbers of a group, which lives of different replicas could share. */
static void check_group_twice(struct amcast *a, uint32_t group)
{
    const struct group *g = &a->groups[group];
    uint32_t *stamps = a->stamps;
    for (uint32_t i = 0; i < g->count; i++) {
        if (stamps[g->seq[i]] != group + 1) {
            stamps[g->seq[i]] = group + 1;
            continue;
        }
        struct amcast_violation *v =
            amcast_violated(a, AMCAST_INTEGRITY, "%.*s is delivered at two places of %.*s",
                            MESSAGE(a, g->seq[i]), GROUP(a, group));
        for (uint32_t k = 0; v != NULL && k < i; k++)
            if (g->seq[k] == g->seq[i]) {
                amcast_evidence_seq(a, v, group, k);
                break;
            }
        amcast_evidence_seq(a, v, group, i);
    }
}

static void check_cast(struct amcast *a)
{
    for (uint32_t i = 0; i < a->ids.count; i++) {
        const struct message *m = &a->messages[i];
        if (m->was_cast)
            continue;
        if (m->was_delivered)
            amcast_evidence(amcast_violated(a, AMCAST_INTEGRITY,
                                            "%.*s is delivered, and was never cast", MESSAGE(a, i)),
                            m->delivered, "%.*s is delivered", MESSAGE(a, i));
        if (m->was_done)
            amcast_evidence_done(a,
                                 amcast_violated(a, AMCAST_INTEGRITY,
                                                 "%.*s is done, and was never cast", MESSAGE(a, i)),
                                 i);
    }
}

/* ---- validity and agreement ---- */

static bool in_sequence(const struct group *g, uint32_t message)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (g->seq[i] == message)
            return true;
    return false;
}

/* Counts, for each message, the destination groups that delivered it; those that are down only if
 * asked to. */
static const uint32_t *count_groups(struct amcast *a, bool down_too)
{
    /* Counting needs no stamp against a message that a group delivers twice: that is caught by
     * integrity, and the count would be too high for a message that is wrong already. */
    uint32_t *counts = amcast_stamps(a);
    for (uint32_t i = 0; i < a->group_names.count; i++) {
        const struct group *g = &a->groups[i];
        for (uint32_t k = 0; (down_too || !g->down) && k < g->count; k++)
            counts[g->seq[k]] += is_destination(a, a->messages[g->seq[k]].dst, i);
    }
    return counts;
}

static uint32_t missing_in(const struct amcast *a, uint32_t message, bool down_too)
{
    const struct dst_list *d = &a->dsts[a->messages[message].dst];
    for (uint32_t i = 0; i < d->count; i++) {
        uint32_t g = a->dst_groups[d->at + i];
        if ((down_too || !a->groups[g].down) && !in_sequence(&a->groups[g], message))
            return g;
    }
    return NONE;
}

/* The groups of each set that are not down. Caller frees. */
static uint32_t *count_needed(const struct amcast *a)
{
    uint32_t *needed = calloc(a->dst_keys.count + (size_t)1, sizeof(*needed));
    CHECK(needed != NULL);
    for (uint32_t d = 0; d < a->dst_keys.count; d++)
        for (uint32_t i = 0; i < a->dsts[d].count; i++)
            needed[d] += !a->groups[a->dst_groups[a->dsts[d].at + i]].down;
    return needed;
}

/* A reply came from each destination, so each has delivered the message, whoever died since. */
static void check_done(struct amcast *a)
{
    const uint32_t *counts = count_groups(a, true);
    for (uint32_t i = 0; i < a->ids.count; i++) {
        const struct message *m = &a->messages[i];
        if (!m->was_done || m->dst == NONE || counts[i] >= a->dsts[m->dst].count)
            continue;
        struct amcast_violation *v =
            amcast_violated(a, AMCAST_VALIDITY,
                            "%.*s is done, and a destination has not delivered it", MESSAGE(a, i));
        uint32_t g = v ? missing_in(a, i, true) : NONE;
        amcast_evidence_done(a, v, i);
        if (g != NONE)
            amcast_evidence(v, m->named,
                            "%.*s is a destination, and no replica of it delivers %.*s",
                            GROUP(a, g), MESSAGE(a, i));
    }
}

/* Quiesced: every destination group has delivered what it must. */
static void check_groups_have_all(struct amcast *a)
{
    const uint32_t *counts = count_groups(a, false);
    uint32_t *needed = count_needed(a);
    for (uint32_t i = 0; i < a->ids.count; i++) {
        const struct message *m = &a->messages[i];
        if (m->dst == NONE || counts[i] >= needed[m->dst])
            continue;
        struct amcast_violation *v = NULL;
        if (m->was_delivered) {
            v = amcast_violated(a, AMCAST_AGREEMENT,
                                "%.*s is delivered, but not in all its destinations",
                                MESSAGE(a, i));
            amcast_evidence(v, m->delivered, "%.*s is delivered", MESSAGE(a, i));
        } else if (m->was_cast && !a->crashed[m->client]) {
            v = amcast_violated(a, AMCAST_VALIDITY, "%.*s is cast, and not delivered",
                                MESSAGE(a, i));
            amcast_evidence_cast(a, v, i);
        }
        uint32_t g = v ? missing_in(a, i, false) : NONE;
        if (g != NONE)
            amcast_evidence(v, m->named,
                            "%.*s is a destination, and no replica of it delivers %.*s",
                            GROUP(a, g), MESSAGE(a, i));
    }
    free(needed);
}

/* Quiesced: every live replica has come as far as its group. Its last life has no gap, and what was
 * before it came by snapshot. */
static void check_replicas_have_all(struct amcast *a)
{
    for (uint32_t i = 0; i < a->replica_keys.count; i++) {
        const struct replica *p = &a->replicas[i];
        const struct group *g = &a->groups[p->group];
        if (p->down || g->down || p->life_last == NONE || g->count == 0)
            continue;
        const struct run *r = &a->runs[a->lives[p->life_last].run_last];
        uint64_t end = r->n_first + r->count;
        if (end >= group_end(g))
            continue;
        struct amcast_violation *v = amcast_violated(
            a, AMCAST_AGREEMENT, "%.*s of %.*s ends before number %llu, its group with number %llu",
            HOST(a, i), GROUP(a, p->group), (unsigned long long)end,
            (unsigned long long)(group_end(g) - 1));
        if (r->count > 0)
            amcast_evidence_step(a, v, r, r->count - 1);
        for (uint32_t s = 0; s < g->stretch_count; s++)
            if (g->stretches[s].n_end > end) {
                uint64_t from = end > g->stretches[s].n_first ? end - g->stretches[s].n_first : 0;
                amcast_evidence_seq(a, v, p->group, g->stretches[s].at + (uint32_t)from);
                break;
            }
    }
}

/* A group all of whose replicas are down owes nothing. One of which nothing is known does. */
static void mark_down(struct amcast *a)
{
    for (uint32_t i = 0; i < a->group_names.count; i++) {
        bool seen = false, live = false;
        for (uint32_t r = 0; r < a->replica_keys.count; r++)
            if (a->replicas[r].group == i) {
                seen = true;
                live |= !a->replicas[r].down;
            }
        a->groups[i].down = a->groups[i].excused || (seen && !live);
    }
}

/* ---- all of it ---- */

bool amcast_verify(struct amcast *a, bool quiesced)
{
    amcast_forget(a);
    a->stamps = calloc(a->ids.count + (size_t)1, sizeof(*a->stamps));
    CHECK(a->stamps != NULL);
    a->verifying = true;
    mark_down(a);
    build_sequences(a);
    check_lives(a);
    amcast_stamps(a);
    for (uint32_t g = 0; g < a->group_names.count; g++)
        check_group_twice(a, g);
    if (!a->gap) {
        check_cast(a);
        check_done(a);
        amcast_verify_pairs(a);
    }
    if (quiesced && !a->gap) {
        check_groups_have_all(a);
        check_replicas_have_all(a);
    }
    amcast_verify_acyclic(a);
    a->verifying = false;

    bool ok = true;
    for (unsigned p = 0; p < AMCAST_PROPERTIES; p++) {
        a->checked[p] = (quiesced || p != AMCAST_AGREEMENT) &&
                        (!a->gap || (p != AMCAST_VALIDITY && p != AMCAST_AGREEMENT));
        ok = ok && a->found[p] == 0;
    }
    return ok;
}
