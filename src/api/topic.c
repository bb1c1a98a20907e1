/* Topics: subgroups by name, whose deliveries go to those who have subscribed (include/tram/topic.h). */
#include "api/topic.h"

#include "api/group_impl.h"

#include <stdlib.h>

_Static_assert((int)TRAM_TOPICS_MAX == (int)GROUP_TOPICS_MAX, "one limit, in two headers");

struct tram_topic {
    struct tram_group *of;
    uint32_t cell;
    struct tram_topic_options opt;
    /* Of a topic with history: */
    bool begun;                 /* `place` is where it is; */
    struct history_place place; /* of the next sample that it is due */
    uint64_t lost;
};

enum { REPLAY_BYTES = 1 << 20 }; /* that a subscriber is told in a round, at least */

static const char *qos_mistake(enum tram_qos qos, const struct cluster_subgroup *s)
{
    static const enum cluster_mode modes[] = {[TRAM_QOS_UNORDERED] = CLUSTER_MODE_RAW,
                                              [TRAM_QOS_ATOMIC] = CLUSTER_MODE_MEMORY,
                                              [TRAM_QOS_VOLATILE] = CLUSTER_MODE_MEMORY};
    static const char *const is[] = {
        [CLUSTER_MODE_MEMORY] = "it has mode: memory, and is atomic",
        [CLUSTER_MODE_RAW] = "it has mode: raw, and is unordered",
        [CLUSTER_MODE_LOGGED] = "it has mode: logged, and is kept",
        [CLUSTER_MODE_DURABLE] = "it has mode: durable, and is kept",
    };
    if ((unsigned)qos > TRAM_QOS_LOGGED)
        return "its qos is none of enum tram_qos";
    bool kept = s->mode == CLUSTER_MODE_LOGGED || s->mode == CLUSTER_MODE_DURABLE;
    if (qos != TRAM_QOS_FILE && (qos == TRAM_QOS_LOGGED ? !kept : modes[qos] != s->mode))
        return is[s->mode];
    return qos == TRAM_QOS_VOLATILE && s->history == 0 ? "it has no history in the cluster file"
                                                       : NULL;
}

const char *topic_mistake(unsigned role, enum tram_qos qos, bool listens,
                          const struct cluster_subgroup *s)
{
    if (role == 0 || role > (TRAM_PUBLISH | TRAM_SUBSCRIBE))
        return "its role is TRAM_PUBLISH, TRAM_SUBSCRIBE or both";
    if (role & TRAM_SUBSCRIBE && !listens)
        return "who subscribes has on_samples";
    if (s->shards > 1)
        return "it has several shards, and a topic has one";
    return qos_mistake(qos, s);
}

static const char *options_mistake(const struct tram_topic_options *o,
                                   const struct cluster_subgroup *s)
{
    if ((unsigned)o->from > TRAM_FROM_START)
        return "its from is none of enum tram_from";
    if (o->from == TRAM_FROM_START && s->history == 0)
        return "it has no history in the cluster file to begin with";
    return topic_mistake(o->role, o->qos, o->on_samples != NULL, s);
}

/* The cell of the topic; negative: it cannot be opened like that. */
static int find(const struct tram_group *g, const char *name, const struct tram_topic_options *o,
                struct err *e)
{
    const struct cluster *f = g->cluster->conf;
    int at = cluster_subgroup(f, name);
    if (at == CLUSTER_NONE)
        return err_set(e, ERR_NOTFOUND,
                       "there is no topic '%s' among the subgroups of cluster %s; %s", name,
                       f->name, cluster_subgroups_near(f, name).s);
    const struct cluster_subgroup *s = &f->subgroup[at];
    const char *mistake = options_mistake(o, s);
    if (mistake)
        return err_set(e, ERR_INVALID, "topic %s: %s", name, mistake);
    if (!in_set(s->hosts, g->index))
        return err_set(e, ERR_REFUSED, "topic %s: host %s is not among its hosts", name,
                       g->host_name[g->index]);
    if (o->role & TRAM_PUBLISH && !in_set(s->senders, g->index))
        return err_set(e, ERR_REFUSED, "topic %s: host %s is not among its senders", name,
                       g->host_name[g->index]);
    return cluster_cell(f, name);
}

int tram_topic_open(struct tram_group *g, const char *name, const struct tram_topic_options *o,
                    struct tram_topic **out, struct tram_error *error)
{
    struct err e = {""};
    int cell = find(g, name, o, &e);
    if (cell < 0)
        return api_error(error, cell, &e);
    uint32_t at = 0;
    while (at < GROUP_TOPICS_MAX && g->topic[at] != NULL)
        at++;
    struct tram_topic *t = at < GROUP_TOPICS_MAX ? calloc(1, sizeof(*t)) : NULL;
    if (t == NULL)
        return api_error(
            error,
            err_set(&e, ERR_NOMEM, "topic %s: a group has at most %d open", name, GROUP_TOPICS_MAX),
            &e);
    *t = (struct tram_topic){.of = g, .cell = (uint32_t)cell, .opt = *o};
    g->topic[at] = t;
    g->topics = at == g->topics ? at + 1 : g->topics;
    *out = t;
    return TRAM_OK;
}

void tram_topic_close(struct tram_topic *t)
{
    if (t == NULL)
        return;
    struct tram_group *g = t->of;
    for (uint32_t i = 0; i < g->topics; i++)
        if (g->topic[i] == t)
            g->topic[i] = NULL;
    while (g->topics > 0 && g->topic[g->topics - 1] == NULL)
        g->topics--;
    free(t);
}

void group_topics_close(struct tram_group *g)
{
    while (g->topics > 0)
        tram_topic_close(g->topic[g->topics - 1]);
}

/* ---- samples ---- */

/* A callback may open and close topics, its own too: nothing of one is looked at after its call. Who is behind in the history gets these from
 * there. */
void group_topics_deliver(struct tram_group *g, uint32_t cell, uint64_t vid,
                          const struct tram_item *item, uint32_t count)
{
    struct history *h = g->cell[cell].history;
    uint64_t sequence = h ? history_next(h) : 0;
    if (h)
        history_add(h, vid, item, count);
    for (uint32_t i = 0; i < g->topics; i++) {
        struct tram_topic *t = g->topic[i];
        if (t == NULL || t->cell != cell || !(t->opt.role & TRAM_SUBSCRIBE) ||
            (h && (!t->begun || t->place.sequence != sequence)))
            continue;
        t->place = (struct history_place){.sequence = sequence + count};
        t->opt.on_samples(t->opt.ctx, vid, item, count);
    }
}

void group_topics_born(struct tram_group *g, uint32_t cell)
{
    history_born(g->cell[cell].history);
    for (uint32_t i = 0; i < g->topics; i++)
        if (g->topic[i] && g->topic[i]->cell == cell)
            g->topic[i]->begun = false;
}

/* Where it begins; or goes on, having missed what is not there any more. */
static void find_place(struct tram_topic *t, const struct history *h)
{
    uint64_t first = history_first(h), next = history_next(h);
    if (!t->begun)
        t->place = (struct history_place){.sequence = t->opt.from == TRAM_FROM_NOW ? next : first};
    else if (t->place.sequence < first)
        t->lost += first - t->place.sequence;
    t->begun = true;
}

/* More than can be delivered meanwhile, so that nothing goes before it was told. */
static uint64_t replay_bytes(const struct tram_group *g, uint32_t cell)
{
    uint64_t twice = UINT64_C(2) * g->options[cell].ring_bytes;
    return twice > REPLAY_BYTES ? twice : REPLAY_BYTES;
}

static int replay(struct tram_group *g, uint32_t at)
{
    struct tram_topic *t = g->topic[at];
    const struct history *h = g->cell[t->cell].history;
    uint64_t left = replay_bytes(g, t->cell), view = 0;
    int told = 0;
    find_place(t, h);
    while (g->topic[at] == t && left > 0) {
        struct tram_item item[HISTORY_BATCH];
        uint32_t count = history_read(h, &t->place, left, &view, item);
        uint64_t bytes = 0;
        if (count == 0)
            break;
        for (uint32_t i = 0; i < count; i++)
            bytes += sizeof(item[i]) + item[i].bytes;
        left -= bytes < left ? bytes : left;
        told += (int)count;
        t->opt.on_samples(t->opt.ctx, view, item, count);
    }
    return told;
}

int group_topics_replay(struct tram_group *g)
{
    int told = 0;
    for (uint32_t i = 0; i < g->topics; i++) {
        const struct tram_topic *t = g->topic[i];
        const struct history *h = t ? g->cell[t->cell].history : NULL;
        if (h && t->opt.role & TRAM_SUBSCRIBE && history_is_valid(h) &&
            (!t->begun || t->place.sequence != history_next(h)))
            told += replay(g, i);
    }
    return told;
}

uint64_t tram_topic_lost(const struct tram_topic *t)
{
    return t->lost;
}

int tram_publish(struct tram_topic *t, const void *data, uint32_t bytes, struct tram_error *error)
{
    struct err e = {""};
    if (t->opt.role & TRAM_PUBLISH)
        return tram_group_send(t->of, t->cell, data, bytes, error);
    return api_error(error,
                     err_set(&e, ERR_REFUSED, "topic %s was not opened to publish",
                             cluster_cell_name(t->of->cluster->conf, t->cell).s),
                     &e);
}

void *tram_publish_reserve(struct tram_topic *t, uint32_t bytes)
{
    return t->opt.role & TRAM_PUBLISH ? tram_reserve(t->of, t->cell, bytes) : NULL;
}

void tram_publish_commit(struct tram_topic *t, void *room, uint32_t bytes)
{
    tram_commit(t->of, t->cell, room, bytes);
}

void tram_publish_release(struct tram_topic *t, void *room)
{
    tram_release(t->of, t->cell, room);
}
