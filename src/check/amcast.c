/* Feeding the checker, and keeping what it finds. */
#include "check/amcast.h"

#include "check/amcast_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const amcast_property_names[AMCAST_PROPERTIES] = {
    [AMCAST_INTEGRITY] = "integrity", [AMCAST_VALIDITY] = "validity",
    [AMCAST_AGREEMENT] = "agreement", [AMCAST_NUMBERS] = "numbers",
    [AMCAST_PREFIX] = "prefix order", [AMCAST_ACYCLIC] = "acyclic order",
};

struct amcast *amcast_open(void)
{
    struct amcast *a = calloc(1, sizeof(*a));
    CHECK(a != NULL);
    a->life_hint = NONE;
    return a;
}

/* Forgets the violations that verify found, or all. */
static void drop_violations(struct amcast *a, bool all)
{
    uint32_t stay = 0;
    memset(a->kept_of, 0, sizeof(a->kept_of));
    for (uint32_t i = 0; i < a->kept_count; i++) {
        struct amcast_violation *v = &a->kept[i];
        if (all || v->at_end) {
            free(v->text);
            free(v->evidence);
        } else {
            a->kept_of[v->property]++;
            a->kept[stay++] = *v;
        }
    }
    a->kept_count = stay;
    memcpy(a->found, a->found_fed, sizeof(a->found));
}

static void drop_sequences(struct amcast *a)
{
    for (uint32_t i = 0; i < a->group_names.count; i++) {
        struct group *g = &a->groups[i];
        free(g->seq);
        free(g->seq_run);
        free(g->stretches);
        g->seq = g->seq_run = NULL;
        g->stretches = NULL;
        g->count = g->stretch_count = 0;
    }
    free(a->stamps);
    a->stamps = NULL;
}

void amcast_forget(struct amcast *a)
{
    drop_violations(a, false);
    drop_sequences(a);
}

void amcast_close(struct amcast *a)
{
    if (a == NULL)
        return;
    drop_violations(a, true);
    drop_sequences(a);
    for (uint32_t r = 0; r < a->run_count; r++)
        free(a->runs[r].steps);
    struct intern *tables[] = {&a->file_names, &a->group_names,  &a->host_names, &a->client_names,
                               &a->ids,        &a->replica_keys, &a->life_keys,  &a->dst_keys};
    for (unsigned i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        intern_fini(tables[i]);
    free(a->groups);
    free(a->replicas);
    free(a->lives);
    free(a->runs);
    free(a->messages);
    free(a->crashed);
    free(a->dsts);
    free(a->dst_groups);
    free(a->kept);
    free(a);
}

/* ---- names ---- */

uint32_t amcast_file(struct amcast *a, const char *name)
{
    return intern_add(&a->file_names, name, strlen(name) + 1);
}

const char *amcast_file_name(const struct amcast *a, uint32_t file)
{
    return name_text(&a->file_names, file);
}

uint32_t amcast_group(struct amcast *a, const char *name, size_t len)
{
    uint32_t g = intern_add(&a->group_names, name, len), had = a->group_max;
    a->groups = intern_grow(a->groups, &a->group_max, g, sizeof(*a->groups));
    for (uint32_t i = had; i < a->group_max; i++)
        a->groups[i].run_first = a->groups[i].run_last = NONE;
    return g;
}

uint32_t amcast_replica(struct amcast *a, uint32_t group, const char *host, size_t len)
{
    CHECK(group < a->group_names.count);
    uint32_t key[2] = {group, intern_add(&a->host_names, host, len)};
    uint32_t count = a->replica_keys.count;
    uint32_t r = intern_add(&a->replica_keys, key, sizeof(key));
    if (r == count) {
        a->replicas = intern_grow(a->replicas, &a->replica_max, r, sizeof(*a->replicas));
        a->replicas[r] = (struct replica){.group = group, .host = key[1], .life_last = NONE};
    }
    return r;
}

uint32_t amcast_client(struct amcast *a, const char *name, size_t len)
{
    uint32_t c = intern_add(&a->client_names, name, len);
    a->crashed = intern_grow(a->crashed, &a->crashed_max, c, sizeof(*a->crashed));
    return c;
}

uint32_t amcast_message(struct amcast *a, const char *id, size_t len)
{
    uint32_t count = a->ids.count;
    uint32_t m = intern_add(&a->ids, id, len);
    if (m == count) {
        a->messages = intern_grow(a->messages, &a->message_max, m, sizeof(*a->messages));
        a->messages[m].dst = a->messages[m].client = NONE;
    }
    return m;
}

static int compare_words(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

uint32_t amcast_dst(struct amcast *a, const uint32_t *groups, uint32_t count)
{
    CHECK(count > 0);
    /* Sorted behind the lists that are there; it stays if it is new. */
    uint32_t at = a->dst_groups_count, kept = 0;
    a->dst_groups =
        intern_grow(a->dst_groups, &a->dst_groups_max, (uint64_t)at + count, sizeof(uint32_t));
    uint32_t *list = a->dst_groups + at;
    memcpy(list, groups, count * sizeof(*list));
    qsort(list, count, sizeof(*list), compare_words);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(list[i] < a->group_names.count);
        if (kept == 0 || list[kept - 1] != list[i])
            list[kept++] = list[i];
    }
    uint32_t had = a->dst_keys.count;
    uint32_t d = intern_add(&a->dst_keys, list, kept * sizeof(*list));
    if (d == had) {
        a->dsts = intern_grow(a->dsts, &a->dst_max, d, sizeof(*a->dsts));
        a->dsts[d] = (struct dst_list){at, kept};
        a->dst_groups_count += kept;
    }
    return d;
}

bool amcast_down(struct amcast *a, const char *name)
{
    size_t len = strlen(name);
    uint32_t host = intern_find(&a->host_names, name, len);
    uint32_t group = intern_find(&a->group_names, name, len);
    uint32_t client = intern_find(&a->client_names, name, len);
    for (uint32_t r = 0; host != NONE && r < a->replica_keys.count; r++)
        a->replicas[r].down |= a->replicas[r].host == host;
    if (group != NONE)
        a->groups[group].excused = true;
    if (client != NONE)
        a->crashed[client] = true;
    return host != NONE || group != NONE || client != NONE;
}

void amcast_replica_down(struct amcast *a, uint32_t replica, bool down)
{
    CHECK(replica < a->replica_keys.count);
    a->replicas[replica].down = down;
}

void amcast_client_crashed(struct amcast *a, uint32_t client)
{
    CHECK(client < a->client_names.count);
    a->crashed[client] = true;
}

void amcast_gap(struct amcast *a)
{
    a->gap = true;
}

/* ---- violations ---- */

struct amcast_violation *amcast_violated(struct amcast *a, enum amcast_property p, const char *fmt,
                                         ...)
{
    a->found[p]++;
    a->found_fed[p] += !a->verifying;
    if (a->kept_of[p] == AMCAST_KEPT_MAX)
        return NULL;
    a->kept_of[p]++;
    a->kept = intern_grow(a->kept, &a->kept_max, a->kept_count, sizeof(*a->kept));
    struct amcast_violation *v = &a->kept[a->kept_count++];
    *v = (struct amcast_violation){.property = p, .at_end = a->verifying};
    va_list ap;
    va_start(ap, fmt);
    int rc = vasprintf(&v->text, fmt, ap);
    va_end(ap);
    CHECK(rc >= 0);
    return v;
}

void amcast_evidence(struct amcast_violation *v, struct amcast_place place, const char *fmt, ...)
{
    if (v == NULL)
        return;
    v->evidence = realloc(v->evidence, (v->evidence_count + 1) * sizeof(*v->evidence));
    CHECK(v->evidence != NULL);
    struct amcast_evidence *e = &v->evidence[v->evidence_count++];
    e->place = place;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof(e->text), fmt, ap);
    va_end(ap);
}

void amcast_evidence_step(const struct amcast *a, struct amcast_violation *v, const struct run *run,
                          uint32_t step)
{
    const struct life *l = &a->lives[run->life];
    struct amcast_place place = {run->file, run->steps[step].line};
    amcast_evidence(v, place, "%.*s of %.*s (inc %u) delivers %.*s as number %llu",
                    HOST(a, l->replica), GROUP(a, a->replicas[l->replica].group), l->inc,
                    MESSAGE(a, run->steps[step].message),
                    (unsigned long long)(run->n_first + step));
}

void amcast_evidence_cast(const struct amcast *a, struct amcast_violation *v, uint32_t message)
{
    const struct message *m = &a->messages[message];
    amcast_evidence(v, m->cast, "%.*s casts %.*s", CLIENT(a, m->client), MESSAGE(a, message));
}

void amcast_evidence_done(const struct amcast *a, struct amcast_violation *v, uint32_t message)
{
    amcast_evidence(v, a->messages[message].done, "%.*s is done", MESSAGE(a, message));
}

/* ---- events ---- */

/* Everybody must name the destinations that were named first. */
static void name_dst(struct amcast *a, uint32_t message, uint32_t dst, struct amcast_place place)
{
    struct message *m = &a->messages[message];
    if (m->dst == NONE) {
        m->dst = dst;
        m->named = place;
    } else if (m->dst != dst) {
        struct amcast_violation *v = amcast_violated(
            a, AMCAST_INTEGRITY, "%.*s has two sets of destinations", MESSAGE(a, message));
        amcast_evidence(v, m->named, "%.*s to one set", MESSAGE(a, message));
        amcast_evidence(v, place, "%.*s to another", MESSAGE(a, message));
    }
}

void amcast_cast(struct amcast *a, uint32_t client, uint32_t message, uint32_t dst,
                 struct amcast_place place)
{
    CHECK(client < a->client_names.count && message < a->ids.count && dst < a->dst_keys.count);
    struct message *m = &a->messages[message];
    a->casts++;
    if (m->was_cast) {
        struct amcast_violation *v =
            amcast_violated(a, AMCAST_INTEGRITY, "%.*s is cast twice", MESSAGE(a, message));
        amcast_evidence_cast(a, v, message);
        amcast_evidence(v, place, "%.*s casts %.*s", CLIENT(a, client), MESSAGE(a, message));
    } else {
        m->was_cast = true;
        m->client = client;
        m->cast = place;
    }
    name_dst(a, message, dst, place);
}

void amcast_done(struct amcast *a, uint32_t client, uint32_t message, struct amcast_place place)
{
    CHECK(client < a->client_names.count && message < a->ids.count);
    struct message *m = &a->messages[message];
    a->dones++;
    if (m->was_done) {
        struct amcast_violation *v =
            amcast_violated(a, AMCAST_INTEGRITY, "%.*s is done twice", MESSAGE(a, message));
        amcast_evidence_done(a, v, message);
        amcast_evidence(v, place, "%.*s is done", MESSAGE(a, message));
    }
    m->was_done = true;
    m->done = place;
}

static uint32_t find_life(struct amcast *a, uint32_t replica, uint32_t inc)
{
    if (a->life_hint != NONE && a->lives[a->life_hint].replica == replica &&
        a->lives[a->life_hint].inc == inc)
        return a->life_hint;
    CHECK(replica < a->replica_keys.count);
    uint32_t key[2] = {replica, inc}, count = a->life_keys.count;
    uint32_t l = intern_add(&a->life_keys, key, sizeof(key));
    if (l == count) {
        struct replica *r = &a->replicas[replica];
        a->lives = intern_grow(a->lives, &a->life_max, l, sizeof(*a->lives));
        a->lives[l] =
            (struct life){.replica = replica, .inc = inc, .run_first = NONE, .run_last = NONE};
        if (r->life_last == NONE || a->lives[r->life_last].inc < inc)
            r->life_last = l;
    }
    a->life_hint = l;
    return l;
}

static struct run *begin_run(struct amcast *a, uint32_t life, uint64_t n, uint32_t file)
{
    struct life *l = &a->lives[life];
    struct group *g = &a->groups[a->replicas[l->replica].group];
    uint32_t r = a->run_count++;
    a->runs = intern_grow(a->runs, &a->run_max, r, sizeof(*a->runs));
    a->runs[r] =
        (struct run){.n_first = n, .life = life, .file = file, .next = NONE, .life_next = NONE};
    if (g->run_last == NONE)
        g->run_first = r;
    else
        a->runs[g->run_last].next = r;
    g->run_last = r;
    if (l->run_first == NONE)
        l->run_first = r;
    else
        a->runs[l->run_last].life_next = r;
    l->run_last = r;
    return &a->runs[r];
}

static uint64_t run_end(const struct run *r)
{
    return r->n_first + r->count;
}

static void evidence_last(const struct amcast *a, struct amcast_violation *v, const struct run *r)
{
    if (r->count > 0)
        amcast_evidence_step(a, v, r, r->count - 1);
    else
        amcast_evidence(v, (struct amcast_place){r->file, r->start_line},
                        "it starts with number %llu", (unsigned long long)r->n_first);
}

void amcast_start(struct amcast *a, uint32_t replica, uint32_t inc, uint64_t n,
                  struct amcast_place place)
{
    uint32_t l = find_life(a, replica, inc), last = a->lives[l].run_last;
    a->starts++;
    if (last != NONE && n < run_end(&a->runs[last])) {
        struct amcast_violation *v =
            amcast_violated(a, AMCAST_NUMBERS, "%.*s of %.*s goes back within one life",
                            HOST(a, replica), GROUP(a, a->replicas[replica].group));
        evidence_last(a, v, &a->runs[last]);
        amcast_evidence(v, place, "it starts with number %llu", (unsigned long long)n);
    }
    struct run *r = begin_run(a, l, n, place.file);
    r->by_start = true;
    r->start_line = place.line;
}

void amcast_deliver(struct amcast *a, const struct amcast_delivery *d, struct amcast_place place)
{
    CHECK(d->message < a->ids.count && d->dst < a->dst_keys.count);
    uint32_t l = find_life(a, d->replica, d->inc), last = a->lives[l].run_last;
    uint32_t group = a->replicas[d->replica].group;
    struct run *r = last == NONE ? NULL : &a->runs[last];
    struct message *m = &a->messages[d->message];
    struct amcast_violation *v = NULL;
    bool jumps = r != NULL && d->n != run_end(r);

    a->deliveries++;
    a->groups[group].deliveries++;
    if (jumps) {
        v = amcast_violated(a, AMCAST_NUMBERS, "%.*s of %.*s %s", HOST(a, d->replica),
                            GROUP(a, group),
                            d->n > run_end(r) ? "leaves out numbers within one life"
                                              : "repeats a number within one life");
        evidence_last(a, v, r);
    }
    if (r == NULL || jumps || r->file != place.file)
        r = begin_run(a, l, d->n, place.file);
    r->steps = intern_grow(r->steps, &r->max, r->count, sizeof(*r->steps));
    r->steps[r->count++] = (struct step){d->message, place.line};
    if (jumps)
        evidence_last(a, v, r);

    if (!m->was_delivered) {
        m->was_delivered = true;
        m->delivered = place;
    }
    name_dst(a, d->message, d->dst, place);
    if (!is_destination(a, d->dst, group)) {
        v = amcast_violated(a, AMCAST_INTEGRITY,
                            "%.*s is delivered in %.*s, which is no destination of it",
                            MESSAGE(a, d->message), GROUP(a, group));
        evidence_last(a, v, r);
    }
}

/* ---- the verdict ---- */

void amcast_summarise(const struct amcast *a, struct amcast_summary *s)
{
    *s = (struct amcast_summary){
        .casts = a->casts,
        .deliveries = a->deliveries,
        .dones = a->dones,
        .starts = a->starts,
        .groups = a->group_names.count,
        .replicas = a->replica_keys.count,
        .lives = a->life_keys.count,
        .clients = a->client_names.count,
        .messages = a->ids.count,
    };
    memcpy(s->checked, a->checked, sizeof(s->checked));
    memcpy(s->violations, a->found, sizeof(s->violations));
}

const struct amcast_violation *amcast_violation(const struct amcast *a, uint32_t i)
{
    return i < a->kept_count ? &a->kept[i] : NULL;
}

uint32_t *amcast_stamps(struct amcast *a)
{
    memset(a->stamps, 0, (a->ids.count + (size_t)1) * sizeof(*a->stamps));
    return a->stamps;
}
